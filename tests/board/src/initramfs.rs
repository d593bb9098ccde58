// SPDX-License-Identifier: GPL-2.0-only
//! The guest's file system: busybox, `/init`, the plan of this boot, and files.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use cpio::newc;
use cpio::newc::ModeFileType;

use crate::processor::Processor;

/// PID 1 of the guest.
const INIT: &str = include_str!("../guest/init");

/// busybox commands that exist without `all_commands` of `/init`: those that `/init` itself uses, and those that
/// programs are likely to call.
const COMMANDS: &[&str] = &[
    "cat", "chmod", "cp", "dmesg", "echo", "grep", "insmod", "kill", "ls", "mkdir", "mknod",
    "mount", "mv", "poweroff", "ps", "reboot", "rm", "rmdir", "rmmod", "setsid", "sh", "sleep",
    "stty", "sync", "tar", "test", "true", "umount", "wc",
];

/// A host file to copy to the guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestFile {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its absolute path in the guest.
    pub guest: String,
}

/// Writes an archive with `files` and the `plan` for `/init` to `path`.
///
/// The archive is not compressed: unpacking costs emulated instructions, but loading does not.
pub fn write(path: &Path, busybox: &Path, plan: &str, files: &[GuestFile]) -> Result<()> {
    let file = fs::File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut archive = Archive {
        out: Some(BufWriter::new(file)),
        directories: BTreeSet::new(),
        inode: 1,
    };
    for directory in ["bin", "dev", "proc", "sys", "tmp", "work", "galcore/bin"] {
        archive.directory(directory)?;
    }
    archive.console()?;
    archive.file("init", 0o755, INIT.as_bytes())?;
    archive.file("galcore/plan", 0o644, plan.as_bytes())?;
    archive.file("bin/busybox", 0o755, &read(busybox)?)?;
    for command in COMMANDS {
        archive.link(&format!("bin/{command}"), "busybox")?;
    }
    for file in files {
        let Some(name) = file.guest.strip_prefix('/') else {
            bail!(
                "{} is no absolute path: files go to absolute paths in the guest",
                file.guest
            );
        };
        if let Some((parent, _)) = name.rsplit_once('/') {
            archive.directory(parent)?;
        }
        archive.file(name, 0o755, &read(&file.host)?)?;
    }
    archive.finish()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

struct Archive<W: Write> {
    // `None` only after a failed write.
    out: Option<W>,
    directories: BTreeSet<String>,
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn directory(&mut self, path: &str) -> Result<()> {
        if path.is_empty() || !self.directories.insert(path.to_string()) {
            return Ok(());
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent)?;
        }
        let entry = newc::Builder::new(path)
            .mode(0o755)
            .set_mode_file_type(ModeFileType::Directory);
        self.entry(entry, &[])
    }

    fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let entry = newc::Builder::new(path)
            .mode(mode)
            .set_mode_file_type(ModeFileType::Regular);
        self.entry(entry, content)
    }

    fn link(&mut self, path: &str, target: &str) -> Result<()> {
        let entry = newc::Builder::new(path)
            .mode(0o777)
            .set_mode_file_type(ModeFileType::Symlink);
        self.entry(entry, target.as_bytes())
    }

    /// The kernel opens /dev/console for `/init` before `/init` can mount anything.
    fn console(&mut self) -> Result<()> {
        let entry = newc::Builder::new("dev/console")
            .mode(0o600)
            .rdev_major(5)
            .rdev_minor(1)
            .set_mode_file_type(ModeFileType::Char);
        self.entry(entry, &[])
    }

    fn entry(&mut self, entry: newc::Builder, content: &[u8]) -> Result<()> {
        let out = self.out.take().context("the archive is broken")?;
        let size = u32::try_from(content.len()).context("a file is too large")?;
        let mut writer = entry.ino(self.inode).write(out, size);
        writer.write_all(content)?;
        self.out = Some(writer.finish()?);
        self.inode += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let out = self.out.take().context("the archive is broken")?;
        newc::trailer(out)?.flush()?;
        Ok(())
    }
}

/// Returns an error if `path` is not a program that the guest can run, with or without shared libraries.
pub fn check_program(path: &Path, processor: Processor, libraries: bool) -> Result<()> {
    let content = read(path)?;
    if let Some(problem) = problem_of_program(&content, processor, libraries) {
        bail!("{} {problem}", path.display());
    }
    Ok(())
}

fn problem_of_program(
    content: &[u8],
    processor: Processor,
    libraries: bool,
) -> Option<&'static str> {
    if content.starts_with(b"#!") {
        return None;
    }
    let half = |at: usize| -> Option<u16> {
        let bytes = content.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    if !content.starts_with(b"\x7fELF") {
        return Some("is no program: an ELF file or a script with #! is wanted");
    }
    // e_machine is 40 for ARM and 183 for AArch64. A dynamic program names its loader in a header of type PT_INTERP
    // (3). The position of the headers depends on EI_CLASS: 1 for 32 bit, 2 for 64 bit.
    let (table, headers) = match (content.get(4), half(18)) {
        (Some(1), Some(40)) => (28, 42),
        (Some(2), Some(183)) if processor.is_64_bit() => (32, 54),
        (Some(2), Some(183)) => return Some("is for 64-bit ARM, which only KERNEL=arm64 runs"),
        _ => return Some("is not for 32-bit ARM: build it for armhf (arm-linux-gnueabihf-gcc -static, or target armv7-unknown-linux-gnueabihf)"),
    };
    let table = content
        .get(table..table + 4)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let (size, count) = (half(headers)? as usize, half(headers + 2)? as usize);
    let dynamic = (0..count)
        .any(|i| content.get(table + i * size..table + i * size + 4) == Some(&[3, 0, 0, 0]));
    (dynamic && !libraries).then_some("is linked dynamically, and the guest has no libraries: link it with -static (Rust: -C target-feature=+crt-static)")
}

/// Quotes a word for the plan, which is a shell script.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_archive_has_directories_before_files() {
        let dir = tempfile::tempdir().unwrap();
        let busybox = dir.path().join("busybox");
        fs::write(&busybox, "shell").unwrap();
        let files = [GuestFile {
            host: busybox.clone(),
            guest: "/deep/er/file".to_string(),
        }];
        let path = dir.path().join("initrd");
        write(&path, &busybox, "plan text", &files).unwrap();
        let mut names = Vec::new();
        let mut rest: Box<dyn Read> = Box::new(fs::File::open(&path).unwrap());
        loop {
            let mut reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let name = reader.entry().name().to_string();
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            if name == "galcore/plan" {
                assert_eq!(content, "plan text");
            }
            names.push(name);
            rest = Box::new(reader.finish().unwrap());
        }
        let at = |name: &str| names.iter().position(|n| n == name).unwrap();
        assert!(at("deep") < at("deep/er"));
        assert!(at("deep/er") < at("deep/er/file"));
        assert!(at("dev") < at("dev/console"));
        assert!(names.contains(&"init".to_string()));
    }

    #[test]
    fn relative_guest_paths_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let busybox = dir.path().join("busybox");
        fs::write(&busybox, "shell").unwrap();
        let files = [GuestFile {
            host: busybox.clone(),
            guest: "file".to_string(),
        }];
        let error = write(&dir.path().join("initrd"), &busybox, "", &files).unwrap_err();
        assert!(error.to_string().contains("no absolute path"));
    }

    fn elf(class: u8, machine: u16, header: u32) -> Vec<u8> {
        let (bytes, table, headers) = match class {
            1 => (52u32, 28, 42),
            _ => (64, 32, 54),
        };
        let mut file = vec![0; bytes as usize];
        file[..4].copy_from_slice(b"\x7fELF");
        file[4] = class;
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[table..table + 4].copy_from_slice(&bytes.to_le_bytes());
        file[headers..headers + 2].copy_from_slice(&32u16.to_le_bytes());
        file[headers + 2..headers + 4].copy_from_slice(&1u16.to_le_bytes());
        file.extend(header.to_le_bytes());
        file.extend([0; 28]);
        file
    }

    #[test]
    fn programs_are_told_apart() {
        let says = |content: &[u8], processor, words: &str| {
            let problem = problem_of_program(content, processor, false);
            assert!(problem.unwrap().contains(words), "{problem:?}");
        };
        for processor in [Processor::CortexA15, Processor::CortexA76] {
            assert_eq!(problem_of_program(&elf(1, 40, 1), processor, false), None);
            assert_eq!(problem_of_program(&elf(1, 40, 3), processor, true), None);
            assert_eq!(problem_of_program(b"#!/bin/sh\n", processor, false), None);
            says(&elf(1, 40, 3), processor, "dynamically");
            says(&elf(2, 62, 1), processor, "32-bit ARM");
            says(b"hello", processor, "no program");
        }
        let program = elf(2, 183, 1);
        assert_eq!(
            problem_of_program(&program, Processor::CortexA76, false),
            None
        );
        says(&program, Processor::CortexA15, "KERNEL=arm64");
        says(&elf(2, 183, 3), Processor::CortexA76, "dynamically");
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's $x"), r"'it'\''s $x'");
    }
}
