// SPDX-License-Identifier: GPL-2.0-only
//! The driver's statistics of its cores and memory: debugfs `galcore/usage`, fdinfo, and debugfs `gc/` in the way that
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

/// The directory of the files that the vendor's driver has.
pub const GC: &str = "/sys/kernel/debug/gc";

/// The times of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The index of the core.
    pub place: usize,
    /// The kind of its engine.
    pub kind: String,
    /// The busy time.
    pub busy: Duration,
    /// The times on, off, at the lowest clock, and suspended.
    pub power: [Duration; 4],
}

/// A process's use of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The time for which the process's jobs kept the core busy.
    pub busy: Duration,
    /// The number of jobs that the process submitted.
    pub jobs: u64,
}

/// The contents of `/sys/kernel/debug/galcore/usage`.
#[derive(Clone, Debug)]
pub struct Usage {
    /// The time of the snapshot.
    pub time: Duration,
    /// The cores.
    pub cores: Vec<Core>,
    /// The shares, by process id and index of the core.
    pub shares: BTreeMap<(i32, usize), Share>,
}

impl Usage {
    /// Reads the file.
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

    /// The core of kind `kind`.
    pub fn core(&self, kind: &str) -> Result<&Core> {
        let core = self.cores.iter().find(|core| core.kind == kind);
        core.with_context(|| format!("no core {kind}"))
    }

    /// The share of process `id` in the core with index `place`.
    pub fn share(&self, id: i32, place: usize) -> Share {
        self.shares.get(&(id, place)).copied().unwrap_or_default()
    }
}

/// The driver's part of an open file's fdinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdInfo(BTreeMap<String, String>);

impl FdInfo {
    /// The fdinfo of all files of process `id` that name galcore as their driver.
    pub fn all_of(id: i32) -> Result<Vec<Self>> {
        let folder = format!("/proc/{id}/fdinfo");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).context(folder)? {
            // A file that is closed in the meantime is skipped.
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

    /// The fdinfo of the process's first file of the driver.
    pub fn of(id: i32) -> Result<Self> {
        let first = Self::all_of(id)?.into_iter().next();
        first.context("no file of the driver's")
    }

    /// The number of a key, and its unit.
    pub fn number(&self, key: &str) -> Result<(u64, &str)> {
        let value = self.0.get(key).with_context(|| format!("no {key}"))?;
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        Ok((number.parse().with_context(|| value.clone())?, unit))
    }

    /// The time for which engine `name` was busy for this file.
    pub fn engine(&self, name: &str) -> Result<Duration> {
        match self.number(&format!("drm-engine-{name}"))? {
            (busy, "ns") => Ok(Duration::from_nanos(busy)),
            (_, unit) => bail!("in {unit:?}"),
        }
    }

    /// KiB of a memory region. Fails unless all of it is resident.
    pub fn memory(&self, region: &str) -> Result<u64> {
        let total = self.number(&format!("drm-total-{region}"))?;
        let resident = self.number(&format!("drm-resident-{region}"))?;
        ensure!(total == resident, "{region}: {total:?}, {resident:?}");
        ensure!(total.1 == "KiB", "{region}: {total:?}");
        Ok(total.0)
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Reads a file of the directory [`GC`].
pub fn vendor_file(name: &str) -> Result<String> {
    let path = format!("{GC}/{name}");
    fs::read_to_string(&path).context(path)
}

/// Splits `text` after its longest prefix of letters, digits and dashes, as `%[a-zA-Z0-9-]` matches it.
fn word(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// Skips white space and parses a number, as `%d` does. Returns the number and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// Parses `clients`: ids and names. Skips headings (lines that start with P or a dash) and lines that do not match.
pub fn clients(text: &str) -> Vec<(u64, String)> {
    let lines = text.lines().filter(|line| !line.starts_with(['P', '-']));
    let client = |line| {
        let (id, rest) = number(line)?;
        let (name, _) = word(rest.trim_start());
        (!name.is_empty()).then(|| (id, name.to_string()))
    };
    lines.filter_map(client).collect()
}

/// Parses `database`: the contexts of process `id`.
pub fn contexts(text: &str, id: u64) -> Vec<u64> {
    let (mut is_its, mut found) = (false, Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Process:") {
            is_its = number(rest).is_some_and(|(process, _)| process == id);
        }
        if let (true, Some(rest)) = (is_its, line.strip_prefix("Context")) {
            // The number of the core, if it is 0 or 1, then the handle.
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

/// Reads `vidmem` for process `id`, whose id it writes to the file first: the current bytes by type of contents.
pub fn video_memory(id: i32) -> Result<BTreeMap<String, u64>> {
    let path = format!("{GC}/vidmem");
    let mut options = OpenOptions::new();
    // Like "w+" of fopen.
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

/// Parses `clk`: the core clock and the shader clock of core `core`, in Hz.
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
