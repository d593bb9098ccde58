// SPDX-License-Identifier: GPL-2.0-only
//! Recording of a boot's output.

use std::fs;
use std::fs::File;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;

use crate::kernel_log;
use crate::streams::Lines;
use crate::streams::Piece;
use crate::streams::Splitter;

fn create(path: &Path) -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The kernel log, in memory and in its file.
pub struct KernelLog {
    lines: Lines,
    text: String,
    file: File,
    /// Whether the guest's last message is in it.
    pub complete: bool,
    /// Whether the kernel panicked.
    pub panicked: bool,
}

/// Maximum size in memory; the file has the whole log.
const MOST_LOG: usize = 64 << 20;

impl KernelLog {
    /// Creates an empty log with the file `path`.
    pub fn new(path: &Path) -> Result<KernelLog> {
        Ok(KernelLog {
            lines: Lines::default(),
            text: String::new(),
            file: create(path)?,
            complete: false,
            panicked: false,
        })
    }

    /// Adds data from the serial line.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        for line in self.lines.feed(bytes) {
            self.line(&line)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let message = kernel_log::message(line);
        self.complete |= message == "galcore-board: done";
        self.panicked |= message.starts_with("Kernel panic - not syncing");
        writeln!(self.file, "{line}").context("cannot write kernel.log")?;
        if self.text.len() < MOST_LOG {
            self.text.push_str(line);
            self.text.push('\n');
        }
        Ok(())
    }

    /// The whole log, after its end.
    pub fn finish(mut self) -> Result<String> {
        if let Some(line) = self.lines.rest() {
            self.line(&line)?;
        }
        Ok(self.text)
    }
}

/// The GPU model's log: all in a file, the last lines in memory.
pub struct ModelLog {
    lines: Lines,
    file: File,
    tail: Vec<String>,
    /// Whether it has created its socket.
    pub listening: bool,
    /// The violations of the hardware's rules that it reported, each with the program that was running.
    pub complaints: Vec<(Option<usize>, String)>,
}

/// Start of the model's violation message, after the logger's prefix.
const COMPLAINT: &str = "] violation ";

/// Number of last lines shown when a process dies.
const TAIL: usize = 6;

impl ModelLog {
    /// Creates an empty log with the file `path`.
    pub fn new(path: &Path) -> Result<ModelLog> {
        Ok(ModelLog {
            lines: Lines::default(),
            file: create(path)?,
            tail: Vec::new(),
            listening: false,
            complaints: Vec::new(),
        })
    }

    /// Adds the model's output. `task` is the program that was running, or the last one.
    pub fn feed(&mut self, bytes: &[u8], task: Option<usize>) -> Result<()> {
        self.file
            .write_all(bytes)
            .context("cannot write gpu-model.log")?;
        for line in self.lines.feed(bytes) {
            self.listening |= line.contains("listening on");
            if let Some((_, complaint)) = line.split_once(COMPLAINT) {
                self.complaints.push((task, complaint.to_string()));
            }
            self.tail.push(line);
            if self.tail.len() > TAIL {
                self.tail.remove(0);
            }
        }
        Ok(())
    }

    /// The last lines.
    pub fn tail(&self) -> String {
        self.tail.join("\n")
    }
}

/// One output stream of the programs, split by program.
pub struct ProgramOutput {
    splitter: Splitter,
    /// Number of programs with complete output.
    pub complete: usize,
}

impl ProgramOutput {
    /// Creates it for marks with `nonce`.
    pub fn new(nonce: &str) -> ProgramOutput {
        ProgramOutput {
            splitter: Splitter::new(nonce),
            complete: 0,
        }
    }

    /// Adds data and passes it to `take`, by program.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(usize, &[u8])) {
        for piece in self.splitter.feed(bytes) {
            match piece {
                Piece::Bytes(bytes) => take(self.complete, &bytes),
                Piece::Mark(task) => self.complete = task + 1,
            }
        }
    }

    /// Passes on the held-back data, at the end.
    pub fn finish(&mut self, mut take: impl FnMut(usize, &[u8])) {
        let rest = self.splitter.rest();
        if !rest.is_empty() {
            take(self.complete, &rest);
        }
    }
}

/// The archives with the programs' files, one after another.
pub struct Archives {
    file: File,
    received: u64,
    announced: Vec<(usize, u64)>,
}

impl Archives {
    /// Stores the archives in the file `path` until the end.
    pub fn new(path: &Path) -> Result<Archives> {
        Ok(Archives {
            file: create(path)?,
            received: 0,
            announced: Vec::new(),
        })
    }

    /// Adds data.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.received += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .context("cannot keep the guest's files in /tmp")
    }

    /// Announces `size` bytes of program `task`.
    pub fn announce(&mut self, task: usize, size: u64) {
        self.announced.push((task, size));
    }

    /// Whether all announced data has arrived.
    pub fn complete(&self) -> bool {
        let announced: u64 = self.announced.iter().map(|(_, size)| size).sum();
        self.received >= announced
    }

    /// Unpacks each complete archive into the folder that `to` returns.
    pub fn unpack<'a>(mut self, to: impl Fn(usize) -> Option<&'a Path>) -> Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(self.file);
        let mut end = 0;
        for (task, size) in self.announced {
            end += size;
            if end > self.received {
                break;
            }
            let mut part = reader.by_ref().take(size);
            if let Some(dir) = to(task) {
                fs::create_dir_all(dir)
                    .with_context(|| format!("cannot make the folder {}", dir.display()))?;
                tar::Archive::new(&mut part).unpack(dir).with_context(|| {
                    format!("cannot unpack the guest's files to {}", dir.display())
                })?;
            }
            std::io::copy(&mut part, &mut std::io::sink())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_with(name: &str, content: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, name, content).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn archives_are_unpacked_by_program() {
        let dir = tempfile::tempdir().unwrap();
        let mut archives = Archives::new(&dir.path().join("spool")).unwrap();
        let first = tar_with("a", b"one");
        let second = tar_with("b", b"two");
        archives.announce(0, first.len() as u64);
        archives.announce(2, second.len() as u64);
        archives.feed(&first).unwrap();
        assert!(!archives.complete());
        archives.feed(&second).unwrap();
        assert!(archives.complete());
        let to = [
            dir.path().join("0"),
            dir.path().join("1"),
            dir.path().join("2"),
        ];
        archives
            .unpack(|task| to.get(task).map(|p| p.as_path()))
            .unwrap();
        assert_eq!(fs::read(to[0].join("a")).unwrap(), b"one");
        assert_eq!(fs::read(to[2].join("b")).unwrap(), b"two");
        assert!(!to[1].exists());
    }

    #[test]
    fn an_archive_cut_off_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut archives = Archives::new(&dir.path().join("spool")).unwrap();
        let whole = tar_with("a", b"one");
        archives.announce(0, whole.len() as u64);
        archives.feed(&whole[..600]).unwrap();
        let to = dir.path().join("0");
        archives.unpack(|_| Some(to.as_path())).unwrap();
        assert!(!to.exists());
    }

    #[test]
    fn the_kernel_log_notices_its_end_and_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel.log");
        let mut log = KernelLog::new(&path).unwrap();
        log.feed(b"[    1.0] Kernel panic - not syncing: x\r\n[    1.1] galcore-bo")
            .unwrap();
        assert!(log.panicked && !log.complete);
        log.feed(b"ard: done\nrest").unwrap();
        assert!(log.complete);
        let text = log.finish().unwrap();
        assert!(text.ends_with("galcore-board: done\nrest\n"));
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
}
