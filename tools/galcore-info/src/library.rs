// SPDX-License-Identifier: GPL-2.0-only
//! Which generation of the interface a user-space library speaks: by the signature that the vendor's builds carry, a
//! text like `$VERSION$4.6.9:6622$`, with `$PLATFORM$Linux$` beside it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Abi;
use serde::Serialize;

/// What is in front of the version.
const MARK: &[u8] = b"$VERSION$";

/// What is in front of the platform.
const PLATFORM: &[u8] = b"$PLATFORM$";

/// Bytes of a library at most.
const MOST_BYTES: u64 = 256 << 20;

/// Versions that the interface does not tell itself, by generation: what boards' kernels had.
const UNTOLD: &[(&str, &str)] = &[
    ("dove", "0.8.0.3184"),
    ("dove_old", "0.8.0.1998"),
    ("dove_old", "0.8.0.1123"),
];

/// Major, minor, patch and build.
type Version = [u32; 4];

/// What a library tells.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, as it has it.
    pub version: String,
    /// What it was built for, if it says so.
    pub platform: Option<String>,
    /// The generation that it speaks.
    pub interface: &'static str,
    /// That generation is known of this very version; else of the nearest.
    pub is_exact: bool,
}

impl Library {
    /// Reads a library.
    pub fn read(path: &Path) -> Result<Self> {
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| path.display().to_string())?;
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Self::of_bytes(path, &bytes).with_context(|| path.display().to_string())
    }

    fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let text =
            signed(bytes, MARK).context("no library of the vendor's: it has no $VERSION$")?;
        let version = parse(&text).with_context(|| format!("{text} is no version"))?;
        let (interface, is_exact) = generation(version)
            .with_context(|| format!("no generation of the interface is near {text}"))?;
        Ok(Self {
            path: path.to_path_buf(),
            version: text,
            platform: signed(bytes, PLATFORM),
            interface,
            is_exact,
        })
    }

    /// The libraries that a process has mapped and that have a signature.
    pub fn of_process(process: u32) -> Result<Vec<Self>> {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))
            .with_context(|| format!("process {process}"))?;
        let mut paths: Vec<_> = mapped(&maps);
        paths.dedup();
        let mut found = Vec::new();
        for path in paths {
            // What is no library of the vendor's, or gone, is none.
            if let Ok(library) = Self::read(Path::new(path)) {
                found.push(library);
            }
        }
        ensure!(
            !found.is_empty(),
            "process {process} has no library of the vendor's mapped"
        );
        Ok(found)
    }

    /// The line of modprobe.d that has the driver take it for what it is: all programs, or `program` alone.
    pub fn options(&self, program: Option<&str>) -> String {
        match program {
            None => format!("options galcore interface={}", self.interface),
            Some(program) => format!("options galcore interface={program}:{}", self.interface),
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: version {}", self.path.display(), self.version)?;
        if let Some(platform) = &self.platform {
            write!(out, " for {platform}")?;
        }
        let how = match self.is_exact {
            true => "known",
            false => "the nearest that is known",
        };
        writeln!(out, ", speaks {} ({how})", self.interface)
    }
}

/// The files whose code `maps` has mapped, whose names are those of libraries.
fn mapped(maps: &str) -> Vec<&str> {
    let names = maps.lines().filter_map(|line| {
        let at = line.find('/')?;
        line[..at].contains("x").then_some(&line[at..])
    });
    names.filter(|name| name.contains(".so")).collect()
}

/// The text behind `mark` up to a `$`; letters that can be printed.
fn signed(bytes: &[u8], mark: &[u8]) -> Option<String> {
    let places = bytes.windows(mark.len()).enumerate();
    let texts = places
        .filter(|(_, found)| *found == mark)
        .filter_map(|(at, _)| {
            let text = &bytes[at + mark.len()..];
            let end = text.iter().take(64).position(|&letter| letter == b'$')?;
            let text = std::str::from_utf8(&text[..end]).ok()?;
            let is_plain = text.chars().all(|letter| (' '..='~').contains(&letter));
            (is_plain && !text.is_empty()).then(|| text.to_string())
        });
    texts.into_iter().next()
}

/// Reads `4.6.9:6622` and `4.6.9.6622`; what follows the last number, such as `p8`, does not count.
fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split([':', '.']).filter_map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().ok()
    });
    let mut next = || numbers.next();
    let (major, minor, patch) = (next()?, next()?, next()?);
    // Behind `5.0.11.p8` comes the build: the last number of all.
    Some([major, minor, patch, numbers.last().unwrap_or(0)])
}

/// All generations by their versions.
fn known() -> impl Iterator<Item = (Version, &'static str)> {
    let told = Abi::all()
        .iter()
        .filter_map(|abi| Some((parse(abi.version)?, abi.name)));
    let untold = UNTOLD
        .iter()
        .filter_map(|(name, version)| Some((parse(version)?, *name)));
    told.chain(untold)
}

/// The generation of a version, and whether it is known of this very one; else of the highest below it with the same
/// first two numbers, or of the lowest above. Of several it is the first.
fn generation(version: Version) -> Option<(&'static str, bool)> {
    let alike = || known().filter(|(known, _)| known[..2] == version[..2]);
    if let Some((_, name)) = alike().find(|(known, _)| *known == version) {
        return Some((name, true));
    }
    let mut below: Option<(Version, &str)> = None;
    let mut above: Option<(Version, &str)> = None;
    for (known, name) in alike() {
        if known < version && below.is_none_or(|(best, _)| known > best) {
            below = Some((known, name));
        }
        if known > version && above.is_none_or(|(best, _)| known < best) {
            above = Some((known, name));
        }
    }
    below.or(above).map(|(_, name)| (name, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<Library> {
        Library::of_bytes(Path::new("libGAL.so"), bytes)
    }

    #[test]
    fn signatures_are_read() {
        let bytes = b"\x7fELF\0\0\n\0$VERSION$4.6.9:6622$\n\0\n\0$PLATFORM$Linux$\n\0";
        let library = of(bytes).unwrap();
        assert_eq!(library.version, "4.6.9:6622");
        assert_eq!(library.platform.as_deref(), Some("Linux"));
        assert_eq!((library.interface, library.is_exact), ("4.1.0", true));
        assert_eq!(library.options(None), "options galcore interface=4.1.0");
        assert_eq!(
            library.options(Some("kodi.bin")),
            "options galcore interface=kodi.bin:4.1.0"
        );
        assert_eq!(
            library.to_string(),
            "libGAL.so: version 4.6.9:6622 for Linux, speaks 4.1.0 (known)\n"
        );
    }

    #[test]
    fn what_has_none_is_refused() {
        assert!(of(b"\x7fELF").is_err());
        assert!(of(b"$VERSION$").is_err());
        assert!(of(b"$VERSION$no number$").is_err());
        assert!(of(b"$VERSION$9.9.9:1$").is_err());
        // What only looks like one is passed over.
        let bytes = b"$VERSION$\x01\x02$ $VERSION$6.4.11.p3:1049711+fslc$";
        assert_eq!(of(bytes).unwrap().interface, "6.4.11");
    }

    #[test]
    fn versions_are_generations() {
        let interface = |text: &str| generation(parse(text)?);
        for (version, name, is_exact) in [
            ("0.8.0:3184", "dove", true),
            ("0.8.0:1998", "dove_old", true),
            ("0.8.0:2500", "dove_old", false),
            ("0.8.0:700", "dove_old", false),
            ("4.6.6:1381", "v4", true),
            ("4.6.9:1210", "4.0.0", true),
            ("4.6.9:1478", "4.0.0", false),
            ("4.6.9:6622", "4.1.0", true),
            ("4.6.9:9754", "4.6.9", true),
            ("5.0.11:31013", "5.0.11.p6", true),
            ("5.0.11:41671", "5.0.11.p8", true),
            ("5.0.11.p8.41671", "5.0.11.p8", true),
            ("6.2.2:93313", "6.2.2", true),
            ("6.2.3:129602", "6.2.3", true),
            ("6.2.4.p2:163672", "6.2.4.p2", true),
            ("6.4.11.p2:745085", "6.4.11", false),
        ] {
            assert_eq!(interface(version), Some((name, is_exact)), "{version}");
        }
        assert_eq!(interface("9.0.0:1"), None);
    }

    #[test]
    fn mapped_code_is_found() {
        let maps = "\
b6f00000-b6f10000 r-xp 00000000 00:02 123 /usr/lib/libGAL.so
b6f10000-b6f20000 rw-p 00010000 00:02 123 /usr/lib/libGAL.so
b6f20000-b6f30000 r-xp 00000000 00:02 124 /usr/bin/program
b6f30000-b6f40000 rw-p 00000000 00:00 0
";
        assert_eq!(mapped(maps), ["/usr/lib/libGAL.so"]);
    }
}
