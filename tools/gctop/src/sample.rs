// SPDX-License-Identifier: GPL-2.0-only
//! A sample of all data, and the report made from two samples.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use serde::Serialize;

use crate::parse;
use crate::parse::ClientInfo;

/// Paths of the kernel's file systems.
#[derive(Clone, Debug)]
pub struct Sources {
    /// procfs.
    pub proc: PathBuf,
    /// debugfs.
    pub debug: PathBuf,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            debug: "/sys/kernel/debug".into(),
        }
    }
}

/// The data at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    usage: Option<parse::Usage>,
    resets: (BTreeMap<usize, u64>, BTreeMap<u32, u64>),
    info: Vec<(u64, String, String)>,
    clocks: BTreeMap<u64, [Option<u64>; 2]>,
    memory: Option<[u64; 4]>,
    clients: BTreeMap<u64, (u32, String, ClientInfo)>,
    hidden: usize,
}

/// The text of a file, if it is readable.
fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Sample {
    /// Takes a sample. Unreadable files are skipped.
    pub fn take(sources: &Sources) -> Self {
        let debug = |name: &str| text(&sources.debug.join(name));
        let mut sample = Self {
            at: Instant::now(),
            usage: debug("galcore/usage").map(|text| parse::usage(&text)),
            resets: debug("galcore/resets")
                .map(|text| parse::resets(&text))
                .unwrap_or_default(),
            info: debug("gc/info")
                .map(|text| parse::info(&text))
                .unwrap_or_default(),
            clocks: debug("gc/clk")
                .map(|text| parse::clocks(&text))
                .unwrap_or_default(),
            memory: text(&sources.proc.join("driver/gc")).and_then(|text| parse::memory(&text)),
            clients: BTreeMap::new(),
            hidden: 0,
        };
        for process in fs::read_dir(&sources.proc).into_iter().flatten().flatten() {
            let name = process.file_name();
            if let Some(id) = name.to_str().and_then(|name| name.parse().ok()) {
                sample.look_at(id, &process.path());
            }
        }
        sample
    }

    /// Reads the driver's files of a process. All files of one client count once.
    fn look_at(&mut self, id: u32, folder: &Path) {
        let files = match fs::read_dir(folder.join("fdinfo")) {
            Ok(files) => files,
            Err(error) => {
                // Other errors mean that the process has ended.
                self.hidden += usize::from(error.kind() == ErrorKind::PermissionDenied);
                return;
            }
        };
        for file in files.flatten() {
            let Some(client) = text(&file.path()).and_then(|text| parse::fdinfo(&text)) else {
                continue;
            };
            let name = text(&folder.join("comm")).unwrap_or_default();
            let name = name.strip_suffix('\n').unwrap_or(&name).to_string();
            self.clients.entry(client.id).or_insert((id, name, client));
        }
    }

    /// Busy time of the engines of a kind for a client. It comes from the usage file if that is readable, because all
    /// its numbers are from one moment. fdinfo is read later, process by process.
    fn busy(&self, client: u64, engine: &str) -> u64 {
        let of_fdinfo = || {
            let (_, _, info) = self.clients.get(&client)?;
            info.engines.get(engine).copied()
        };
        let Some(usage) = &self.usage else {
            return of_fdinfo().unwrap_or(0);
        };
        let cores = usage.cores.iter().filter(|core| core.kind == engine);
        let busy = cores.filter_map(|core| usage.busy.get(&(client, core.place)));
        busy.sum()
    }
}

/// A core.
#[derive(Clone, Debug, Serialize)]
pub struct Core {
    /// Its index.
    pub place: usize,
    /// Its engines: 3d, 2d, 3d-2d, vg.
    pub kind: String,
    /// Model, hexadecimal.
    pub model: String,
    /// Revision, hexadecimal.
    pub revision: String,
    /// Percentage of time that it was busy.
    pub load_percent: f64,
    /// Percentage of time that it was busy for clients that have ended since the last sample. The driver keeps no
    /// numbers for these, so this is the load minus the loads of existing clients.
    pub ended_percent: f64,
    /// Percentage of time that it was on.
    pub on_percent: f64,
    /// Busy time in nanoseconds since it was bound.
    pub busy_ns: u64,
    /// Its clock, if known.
    pub clock_hz: Option<u64>,
    /// The shader clock, if known.
    pub shader_clock_hz: Option<u64>,
    /// Number of resets.
    pub resets: u64,
}

/// A client's use of an engine.
#[derive(Clone, Debug, Serialize)]
pub struct Engine {
    /// Percentage of time that the engine was busy for the client.
    pub load_percent: f64,
    /// Total busy time in nanoseconds.
    pub busy_ns: u64,
}

/// A process with the device open.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// Its process id.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// The driver's client id.
    pub id: u64,
    /// Number of jobs submitted; unknown without root.
    pub jobs: Option<u64>,
    /// Number of resets caused; unknown without root.
    pub hangs: Option<u64>,
    /// Use by engine.
    pub engines: BTreeMap<String, Engine>,
    /// KiB by memory region.
    pub memory_kib: BTreeMap<String, u64>,
}

impl Client {
    /// Total load over all engines.
    pub fn load(&self) -> f64 {
        self.engines
            .values()
            .map(|engine| engine.load_percent)
            .sum()
    }
}

/// Memory in use, in KiB.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Size of the pool.
    pub reserved_kib: u64,
    /// Used part of the pool.
    pub pool_kib: u64,
    /// Contiguous memory outside the pool.
    pub contiguous_kib: u64,
    /// Memory mapped page by page.
    pub virtual_kib: u64,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Time between the two samples in seconds.
    pub seconds: f64,
    /// The cores; empty without root.
    pub cores: Vec<Core>,
    /// The visible clients, busiest first.
    pub clients: Vec<Client>,
    /// `None` if the driver is not loaded.
    pub memory: Option<Memory>,
    /// Data that is unreadable without root.
    pub needs_root: Vec<String>,
}

/// The percentage of `part` in `passed` nanoseconds, between 0 and 100.
fn percent(part: u64, passed: u64) -> f64 {
    match passed {
        0 => 0.0,
        _ => (part as f64 * 100.0 / passed as f64).min(100.0),
    }
}

impl Report {
    /// Makes the report for the time between two samples.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let passed = after.at.duration_since(before.at);
        let mut needs_root = Vec::new();
        // Without the driver, it is unknown whether root is missing.
        if after.usage.is_none() && after.memory.is_some() {
            needs_root.push("cores: load, clocks, hangs; jobs (debugfs)".to_string());
        }
        if after.hidden > 0 {
            let hidden = after.hidden;
            needs_root.push(format!("clients among {hidden} processes of other users"));
        }
        Self {
            seconds: passed.as_secs_f64(),
            cores: cores(before, after),
            clients: clients(before, after, passed),
            memory: after
                .memory
                .map(|[reserved, pool, contiguous, scattered]| Memory {
                    reserved_kib: reserved,
                    pool_kib: pool,
                    contiguous_kib: contiguous,
                    virtual_kib: scattered,
                }),
            needs_root,
        }
    }
}

fn cores(before: &Sample, after: &Sample) -> Vec<Core> {
    let (Some(old), Some(new)) = (&before.usage, &after.usage) else {
        return Vec::new();
    };
    let passed = new.time.saturating_sub(old.time);
    // From a single file, so that all numbers are from the same moment.
    let used_by_clients = |place: usize| -> u64 {
        let there = new.busy.iter().filter(|((_, of), _)| *of == place);
        there
            .map(|(client, &busy)| busy.saturating_sub(old.busy.get(client).copied().unwrap_or(0)))
            .sum()
    };
    let core = |(index, core): (usize, &parse::CoreLine)| {
        let was = old.cores.iter().find(|old| old.place == core.place);
        let grown = |which: usize| {
            let was = was.map_or(0, |was| was.times[which]);
            core.times[which].saturating_sub(was)
        };
        // Both files list the cores in the same order.
        let (number, model, revision) = after.info.get(index).cloned().unwrap_or_default();
        let [clock, shaders] = after.clocks.get(&number).copied().unwrap_or_default();
        Core {
            place: core.place,
            kind: core.kind.clone(),
            model,
            revision,
            load_percent: percent(grown(0), passed),
            ended_percent: percent(grown(0).saturating_sub(used_by_clients(core.place)), passed),
            on_percent: percent(grown(1) + grown(3), passed),
            busy_ns: core.times[0],
            clock_hz: clock,
            shader_clock_hz: shaders,
            resets: after.resets.0.get(&core.place).copied().unwrap_or(0),
        }
    };
    new.cores.iter().enumerate().map(core).collect()
}

fn clients(before: &Sample, after: &Sample, passed: Duration) -> Vec<Client> {
    let passed = match (&before.usage, &after.usage) {
        (Some(before), Some(after)) => after.time.saturating_sub(before.time),
        _ => u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX),
    };
    let client = |(&id, (pid, name, info)): (&u64, &(u32, String, ClientInfo))| {
        let engine = |engine: &String| {
            let busy = after.busy(id, engine);
            // A new client has used all of its time since then.
            let was = before.busy(id, engine);
            let load_percent = percent(busy.saturating_sub(was), passed);
            let used = Engine {
                load_percent,
                busy_ns: busy,
            };
            (engine.clone(), used)
        };
        let jobs = |usage: &parse::Usage| usage.jobs.get(pid).copied().unwrap_or(0);
        let hangs = || after.resets.1.get(pid).copied().unwrap_or(0);
        Client {
            pid: *pid,
            name: name.clone(),
            id,
            jobs: after.usage.as_ref().map(jobs),
            hangs: after.usage.as_ref().map(|_| hangs()),
            engines: info.engines.keys().map(engine).collect(),
            memory_kib: info.memory.clone(),
        }
    };
    let mut clients: Vec<Client> = after.clients.iter().map(client).collect();
    clients.sort_by(|a, b| b.load().total_cmp(&a.load()).then(a.pid.cmp(&b.pid)));
    clients
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Files like a kernel's, with a core that was busy for `busy` milliseconds at `time`.
    fn files(folder: &Path, time: u64, busy: u64, with_debugfs: bool) -> Sources {
        let sources = Sources {
            proc: folder.join("proc"),
            debug: folder.join("debug"),
        };
        let put = |path: PathBuf, text: String| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let ns = |milliseconds: u64| milliseconds * 1_000_000;
        if with_debugfs {
            let (now, on, busy) = (ns(time), ns(time), ns(busy));
            let usage =
                format!("time {now}\ncore 0 3d {busy} {on} 0 0 0\nprocess 42 7 0 {busy} 9\n");
            put(sources.debug.join("galcore/usage"), usage);
            put(
                sources.debug.join("galcore/resets"),
                "core 0 2\nprocess 42 1 0 3\n".into(),
            );
            put(
                sources.debug.join("gc/info"),
                "gpu      : 0\nmodel    : 2000\nrevision : 5108\n\n".into(),
            );
            put(
                sources.debug.join("gc/clk"),
                "gpu0 mc clock: 528000000 HZ.\n".into(),
            );
        }
        put(
            sources.proc.join("driver/gc"),
            "Total reserved video memory: 131072 KB\nUsed video mem: 128 KB\tcontiguous: 3000 KB\tvirtual: 4 KB\n".into(),
        );
        let busy = ns(busy);
        let info = format!(
            "pos:\t0\ndrm-driver:\tgalcore\ndrm-client-id:\t7\ndrm-engine-3d:\t{busy} ns\ndrm-resident-pool:\t128 KiB\n"
        );
        for file in ["3", "4"] {
            put(sources.proc.join("42/fdinfo").join(file), info.clone());
        }
        put(sources.proc.join("42/comm"), "glmark2-es2\n".into());
        sources
    }

    /// A report about one second with half a second of load.
    pub(crate) fn report(with_debugfs: bool) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let before = Sample::take(&files(folder.path(), 1000, 100, with_debugfs));
        let mut after = Sample::take(&files(folder.path(), 2000, 600, with_debugfs));
        after.at = before.at + Duration::from_secs(1);
        Report::between(&before, &after)
    }

    /// A client with fdinfo from 300 ms after the usage file.
    fn client_found_late() -> Client {
        let folder = tempfile::tempdir().unwrap();
        let before = Sample::take(&files(folder.path(), 1000, 100, true));
        let sources = files(folder.path(), 2300, 900, true);
        let usage =
            "time 2000000000\ncore 0 3d 600000000 2000000000 0 0 0\nprocess 42 7 0 600000000 9\n";
        fs::write(sources.debug.join("galcore/usage"), usage).unwrap();
        let mut report = Report::between(&before, &Sample::take(&sources));
        report.clients.remove(0)
    }

    #[test]
    fn two_looks_make_a_load() {
        let report = report(true);
        let core = &report.cores[0];
        assert_eq!((core.load_percent, core.on_percent), (50.0, 100.0));
        assert_eq!((core.model.as_str(), core.resets), ("2000", 2));
        assert_eq!(
            (core.clock_hz, core.shader_clock_hz),
            (Some(528_000_000), None)
        );
        // Two files of one client.
        assert_eq!(report.clients.len(), 1);
        // For a client that is read later than the usage file, the usage file counts.
        assert_eq!(client_found_late().engines["3d"].load_percent, 50.0);
        let client = &report.clients[0];
        assert_eq!(
            (client.pid, client.jobs, client.hangs),
            (42, Some(9), Some(1))
        );
        assert_eq!(client.engines["3d"].load_percent, 50.0);
        assert_eq!(client.memory_kib["pool"], 128);
        assert_eq!(
            report.memory.as_ref().map(|memory| memory.pool_kib),
            Some(128)
        );
        assert!(report.needs_root.is_empty());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["clients"][0]["engines"]["3d"]["busy_ns"], 600_000_000);
    }

    #[test]
    fn ended_clients_have_used_what_is_left() {
        assert_eq!(report(true).cores[0].ended_percent, 0.0);
        let folder = tempfile::tempdir().unwrap();
        let sources = files(folder.path(), 1000, 100, true);
        let before = Sample::take(&sources);
        // The remaining client has 100 of the core's 500 ms.
        let usage =
            "time 2000000000\ncore 0 3d 600000000 2000000000 0 0 0\nprocess 42 7 0 200000000 9\n";
        fs::write(sources.debug.join("galcore/usage"), usage).unwrap();
        let core = &Report::between(&before, &Sample::take(&sources)).cores[0];
        assert_eq!((core.load_percent, core.ended_percent), (50.0, 40.0));
    }

    #[test]
    fn without_the_driver_nothing_needs_root() {
        let folder = tempfile::tempdir().unwrap();
        let sources = files(folder.path(), 1000, 100, true);
        let before = Sample::take(&sources);
        // The driver is unloaded, and a process ends during the sample.
        fs::remove_dir_all(folder.path().join("debug")).unwrap();
        fs::remove_dir_all(folder.path().join("proc/driver")).unwrap();
        fs::remove_dir_all(folder.path().join("proc/42/fdinfo")).unwrap();
        let report = Report::between(&before, &Sample::take(&sources));
        assert!(report.cores.is_empty() && report.clients.is_empty());
        assert!(report.memory.is_none());
        assert!(report.needs_root.is_empty(), "{:?}", report.needs_root);
    }

    #[test]
    fn without_root_some_is_left() {
        let report = report(false);
        assert!(report.cores.is_empty());
        assert_eq!(report.clients[0].jobs, None);
        assert_eq!(report.clients[0].load(), 50.0);
        assert_eq!(report.needs_root.len(), 1);
    }
}
