// SPDX-License-Identifier: GPL-2.0-only
//! What the driver tells of the use of its cores and memory: debugfs `galcore/usage`, fdinfo, and debugfs `gc/` as
//! imx-gputop reads it.

use std::collections::BTreeMap;
use std::fs;
use std::fs::OpenOptions;
use std::io::Read;
use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

/// The vendor's files.
pub const GC: &str = "/sys/kernel/debug/gc";

/// A core's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its place.
    pub place: usize,
    /// What it draws.
    pub kind: String,
    /// How long it was busy.
    pub busy: Duration,
    /// How long it was on, off, at its lowest clock, and suspended.
    pub power: [Duration; 4],
}

/// What a process has used of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How long its jobs have kept it busy.
    pub busy: Duration,
    /// How many it has submitted.
    pub jobs: u64,
}

/// `/sys/kernel/debug/galcore/usage`.
#[derive(Clone, Debug)]
pub struct Usage {
    /// When.
    pub time: Duration,
    /// The cores.
    pub cores: Vec<Core>,
    /// By the process's id and the core's place.
    pub shares: BTreeMap<(i32, usize), Share>,
}

impl Usage {
    /// Reads it.
    pub fn read() -> Result<Self> {
        let path = "/sys/kernel/debug/galcore/usage";
        let text = fs::read_to_string(path).context(path)?;
        let mut usage = Self {
            time: Duration::ZERO,
            cores: Vec::new(),
            shares: BTreeMap::new(),
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let time = |at: usize| -> Result<Duration> {
                Ok(Duration::from_nanos(words[at].parse().context("a time")?))
            };
            match words[..] {
                ["time", _] => usage.time = time(1)?,
                ["core", place, kind, _, _, _, _, _] => usage.cores.push(Core {
                    place: place.parse()?,
                    kind: kind.to_string(),
                    busy: time(3)?,
                    power: [time(4)?, time(5)?, time(6)?, time(7)?],
                }),
                ["process", id, _, place, _, jobs] => {
                    let share = Share {
                        busy: time(4)?,
                        jobs: jobs.parse()?,
                    };
                    let before = usage.shares.insert((id.parse()?, place.parse()?), share);
                    ensure!(before.is_none(), "{line:?} twice");
                }
                _ => bail!("{path}: {line:?}"),
            }
        }
        Ok(usage)
    }

    /// The core that draws `kind`.
    pub fn core(&self, kind: &str) -> Result<&Core> {
        let core = self.cores.iter().find(|core| core.kind == kind);
        core.with_context(|| format!("no core {kind}"))
    }

    /// What process `id` has used of the core at `place`.
    pub fn share(&self, id: i32, place: usize) -> Share {
        self.shares.get(&(id, place)).copied().unwrap_or_default()
    }
}

/// The driver's part of an open file's fdinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdInfo(BTreeMap<String, String>);

impl FdInfo {
    /// Those of all files of process `id` that say that they are the driver's.
    pub fn all_of(id: i32) -> Result<Vec<Self>> {
        let folder = format!("/proc/{id}/fdinfo");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).context(folder)? {
            // What closes meanwhile is none.
            let Ok(text) = fs::read_to_string(entry?.path()) else {
                continue;
            };
            let mut keys = BTreeMap::new();
            for line in text.lines() {
                let (key, value) = line.split_once(':').context("no colon")?;
                if key.starts_with("drm-") {
                    ensure!(!key.contains(char::is_whitespace), "{line:?}");
                    let before = keys.insert(key.to_string(), value.trim().to_string());
                    ensure!(before.is_none(), "{line:?} twice");
                }
            }
            if keys.get("drm-driver").map(String::as_str) == Some("galcore") {
                found.push(Self(keys));
            }
        }
        Ok(found)
    }

    /// That of the process's first file.
    pub fn of(id: i32) -> Result<Self> {
        let first = Self::all_of(id)?.into_iter().next();
        first.context("no file of the driver's")
    }

    /// A number behind a key, with its unit.
    pub fn number(&self, key: &str) -> Result<(u64, &str)> {
        let value = self.0.get(key).with_context(|| format!("no {key}"))?;
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        Ok((number.parse().with_context(|| value.clone())?, unit))
    }

    /// How long engine `name` was busy for it.
    pub fn engine(&self, name: &str) -> Result<Duration> {
        match self.number(&format!("drm-engine-{name}"))? {
            (busy, "ns") => Ok(Duration::from_nanos(busy)),
            (_, unit) => bail!("in {unit:?}"),
        }
    }

    /// KiB of a region, which are all there.
    pub fn memory(&self, region: &str) -> Result<u64> {
        let total = self.number(&format!("drm-total-{region}"))?;
        let resident = self.number(&format!("drm-resident-{region}"))?;
        ensure!(total == resident, "{region}: {total:?}, {resident:?}");
        ensure!(total.1 == "KiB", "{region}: {total:?}");
        Ok(total.0)
    }

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A file of the vendor's.
pub fn vendor_file(name: &str) -> Result<String> {
    let path = format!("{GC}/{name}");
    fs::read_to_string(&path).context(path)
}

/// The longest start of `text` of letters, digits and dashes, as `%[a-zA-Z0-9-]` takes it, and what is behind it.
fn word(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// The number at the start of `text` behind white space, as `%d` takes it, and what is behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// `clients`: ids and names. Lines that begin with P or a dash are heads; what does not fit is left out.
pub fn clients(text: &str) -> Vec<(u64, String)> {
    let lines = text.lines().filter(|line| !line.starts_with(['P', '-']));
    let client = |line| {
        let (id, rest) = number(line)?;
        let (name, _) = word(rest.trim_start());
        (!name.is_empty()).then(|| (id, name.to_string()))
    };
    lines.filter_map(client).collect()
}

/// `database`: the contexts of process `id`.
pub fn contexts(text: &str, id: u64) -> Vec<u64> {
    let (mut is_its, mut found) = (false, Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Process:") {
            is_its = number(rest).is_some_and(|(process, _)| process == id);
        }
        if let (true, Some(rest)) = (is_its, line.strip_prefix("Context")) {
            // The core's number, if it is 0 or 1, and the handle.
            let rest = rest.trim_start();
            let rest = rest.strip_prefix(['0', '1']).unwrap_or(rest).trim_start();
            let (digits, _) = word(rest);
            match u64::from_str_radix(digits, 16) {
                Ok(0) | Err(_) => {}
                Ok(context) => found.push(context),
            }
        }
    }
    found
}

/// `vidmem` of process `id`, which is written to the file first: bytes now, by what lies in them.
pub fn video_memory(id: i32) -> Result<BTreeMap<String, u64>> {
    let path = format!("{GC}/vidmem");
    let mut options = OpenOptions::new();
    // As fopen's "w+".
    let options = options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(&path).context(path)?;
    file.write_all(id.to_string().as_bytes())?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let (name, rest) = word(line);
        if let Some((bytes, _)) = number(rest) {
            found.insert(name.to_string(), bytes);
        }
    }
    Ok(found)
}

/// `clk`: the clock and the shaders' of core `number`, in Hz.
pub fn clocks(text: &str, core: u64) -> [Option<u64>; 2] {
    ["mc", "sh"].map(|what| {
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(&format!("gpu{core} {what} clock: "))?;
            let (rate, rest) = number(rest)?;
            (rest == " HZ.").then_some(rate)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gputop_reads_the_vendors_files() {
        let text = "PID     NAME\n------------------------\n123     glmark2-es2\n77      a b\nx\n";
        let found = clients(text);
        let wanted = [(123, "glmark2-es2".to_string()), (77, "a".to_string())];
        assert_eq!(found, wanted);
        let text = "GPU Idle: 5 ns\nProcess: 12       x\nContext          0                1f                0\n\
                    Process: 13       y\nContext          1                 7                0\n";
        assert_eq!(contexts(text, 12), [0x1f]);
        assert_eq!(contexts(text, 13), [7]);
        let text = "gpu0 mc clock: 528000000 HZ.\ngpu0 sh clock: 594000000 HZ.\n";
        assert_eq!(clocks(text, 0), [Some(528_000_000), Some(594_000_000)]);
        assert_eq!(clocks(text, 1), [None, None]);
    }
}
