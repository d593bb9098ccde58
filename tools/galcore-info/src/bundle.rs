// SPDX-License-Identifier: GPL-2.0-only
//! Collects all data for a bug report in one text: see Documentation/troubleshooting.md.

use std::fmt;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Files of the driver, relative to the root.
const FILES: [&str; 8] = [
    "proc/driver/gc",
    "sys/kernel/debug/galcore/interface",
    "sys/kernel/debug/galcore/pending",
    "sys/kernel/debug/galcore/jobs",
    "sys/kernel/debug/galcore/resets",
    "sys/kernel/debug/galcore/usage",
    "sys/kernel/debug/galcore/scratch",
    "etc/modprobe.d/galcore.conf",
];

/// Folder of the running module's parameters.
const PARAMETERS: &str = "sys/module/galcore/parameters";

/// The kernel log.
const LOG: &str = "dev/kmsg";

/// Maximum bytes read from a file.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum number of records read from the kernel log: more than any kernel keeps.
const MOST_RECORDS: usize = 1 << 20;

/// Buffer size that the kernel requires for a log record.
const RECORD: usize = 8192;

/// A part of the report, with its source.
#[derive(Debug)]
pub struct Part {
    name: String,
    text: io::Result<String>,
}

impl Part {
    /// Creates a part with this name.
    pub fn new(name: impl Into<String>, text: io::Result<String>) -> Self {
        let name = name.into();
        Self { name, text }
    }

    /// The name and the error of an unreadable part.
    pub fn problem(&self) -> Option<(&str, &io::Error)> {
        Some((&self.name, self.text.as_ref().err()?))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "==== {} ====", self.name)?;
        match &self.text {
            Ok(text) if text.trim().is_empty() => writeln!(f, "(empty)"),
            Ok(text) => writeln!(f, "{}", text.trim_end()),
            Err(error) => writeln!(f, "(not read: {error})"),
        }?;
        writeln!(f)
    }
}

/// The contents of the kernel's files.
pub fn kernel(root: &Path) -> Vec<Part> {
    let mut parts: Vec<Part> = FILES
        .iter()
        .map(|name| Part::new(format!("/{name}"), file(&root.join(name))))
        .collect();
    let name = format!("/{PARAMETERS}");
    parts.push(Part::new(name, parameters(&root.join(PARAMETERS))));
    let name = format!("/{LOG}, lines with galcore");
    parts.push(Part::new(name, log(&root.join(LOG))));
    parts
}

fn file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line per parameter.
fn parameters(folder: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let value = file(&entry.path()).unwrap_or_else(|error| format!("({error})"));
        let name = entry.file_name().to_string_lossy().into_owned();
        lines.push(format!("{name}={}\n", value.trim_end()));
    }
    lines.sort_unstable();
    Ok(lines.concat())
}

/// The kernel log's lines that mention the driver. Each read returns one record.
fn log(path: &Path) -> io::Result<String> {
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let mut text = String::new();
    let mut record = [0; RECORD];
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => {
                let record = String::from_utf8_lossy(&record[..bytes]);
                text.extend(lines(&record).filter(|line| line.to_lowercase().contains("galcore")));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Newer records have overwritten this one.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// Converts records `level,number,microseconds,flags;text` to lines like those of `dmesg`. Lines after the text start
/// with a space and are skipped.
fn lines(records: &str) -> impl Iterator<Item = String> + '_ {
    records.lines().filter_map(|line| {
        let (head, text) = line.split_once(';')?;
        let time: u64 = head.split(',').nth(2)?.parse().ok()?;
        let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
        Some(format!("[{seconds:5}.{rest:06}] {text}\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for name in &FILES[..7] {
            put(name, &format!("text of {name}\n"));
        }
        put("sys/module/galcore/parameters/gpuTimeout", "5000\n");
        put("sys/module/galcore/parameters/baseAddress", "0\n");
        put(
            "dev/kmsg",
            "6,5,1234567,-;galcore: GC2000\n DEVICE=+platform:galcore\n6,6,2000000,-;usb 1-1: new device\n\
             4,7,3000001,-;process 42: Galcore; refused\n",
        );
        let parts = kernel(root.path());
        let text: String = parts.iter().map(ToString::to_string).collect();
        for name in &FILES[..7] {
            let wanted = format!("==== /{name} ====\ntext of {name}\n\n");
            assert!(text.contains(&wanted), "{text}");
        }
        assert!(
            text.contains("baseAddress=0\ngpuTimeout=5000\n\n"),
            "{text}"
        );
        let log = "[    1.234567] galcore: GC2000\n[    3.000001] process 42: Galcore; refused\n\n";
        assert!(text.ends_with(log), "{text}");
        // Missing files are listed.
        let problems: Vec<_> = parts.iter().filter_map(Part::problem).collect();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].0, "/etc/modprobe.d/galcore.conf");
        assert!(text.contains("galcore.conf ====\n(not read: No such file"));
    }

    #[test]
    fn nothing_is_there() {
        let root = tempfile::tempdir().unwrap();
        let parts = kernel(root.path());
        assert_eq!(parts.iter().filter_map(Part::problem).count(), parts.len());
    }
}
