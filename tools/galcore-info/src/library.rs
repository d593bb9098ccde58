// SPDX-License-Identifier: GPL-2.0-only
//! Finds the generation of the interface that a user-space library uses, by the signature in the vendor's builds: a
//! text like `$VERSION$4.6.9:6622$`, near `$PLATFORM$Linux$`.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use serde::Serialize;

use crate::generation;
use crate::generation::Answer;
use crate::generation::Candidate;
use crate::generation::Fit;

/// Text before the version.
const MARK: &[u8] = b"$VERSION$";

/// Text before the platform.
const PLATFORM: &[u8] = b"$PLATFORM$";

/// Maximum size of a library in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// Properties of a library.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its path.
    pub path: PathBuf,
    /// Its version, as in the signature.
    pub version: String,
    /// Its platform, if the signature has one.
    pub platform: Option<String>,
    /// Its generation.
    #[serde(flatten)]
    pub answer: Answer,
}

impl Library {
    /// Reads a library, for a board with these core models; an empty list means unknown.
    pub fn read(path: &Path, models: &[u32]) -> Result<Self> {
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| path.display().to_string())?;
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Self::of_bytes(path, &bytes, models).with_context(|| path.display().to_string())
    }

    fn of_bytes(path: &Path, bytes: &[u8], models: &[u32]) -> Result<Self> {
        let text =
            signed(bytes, MARK).context("no library of the vendor's: it has no $VERSION$")?;
        let version = generation::parse(&text).with_context(|| format!("{text} is no version"))?;
        let answer = generation::of(version, models)
            .with_context(|| format!("no generation of the interface is near {text}"))?;
        Ok(Self {
            path: path.to_path_buf(),
            version: text,
            platform: signed(bytes, PLATFORM),
            answer,
        })
    }

    /// The libraries with a signature that a process has mapped.
    pub fn of_process(process: u32, models: &[u32]) -> Result<Vec<Self>> {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))
            .with_context(|| format!("process {process}"))?;
        let mut paths: Vec<_> = mapped(&maps);
        paths.sort_unstable();
        paths.dedup();
        let mut found = Vec::new();
        for path in paths {
            // Files that are not the vendor's libraries, or are gone, are skipped.
            if let Ok(library) = Self::read(Path::new(path), models) {
                found.push(library);
            }
        }
        ensure!(
            !found.is_empty(),
            "process {process} has no library of the vendor's mapped"
        );
        Ok(found)
    }
}

impl fmt::Display for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: version {}", self.path.display(), self.version)?;
        if let Some(platform) = &self.platform {
            write!(out, " for {platform}")?;
        }
        let names: Vec<_> = self
            .answer
            .candidates
            .iter()
            .map(|candidate| candidate.interface)
            .collect();
        match (self.answer.interface, self.answer.candidates.first()) {
            (Some(name), Some(first)) => {
                let how = match first.fit {
                    Fit::Exact => "known",
                    Fit::Nearest => "the nearest that is known",
                    Fit::Possible => "by the core",
                };
                writeln!(out, ", speaks {name} ({how})")
            }
            _ => {
                let names = names.join(", ");
                writeln!(out, ", speaks one of {names}: the core decides")?;
                for decision in &self.answer.decisions {
                    let cores = decision.cores.iter();
                    let cores: Vec<_> = cores.map(|core| format!("--core {core}")).collect();
                    writeln!(out, "  with {}: {}", cores.join(" or "), decision.interface)?;
                }
                Ok(())
            }
        }
    }
}

/// The modprobe.d line that makes the driver use one generation for all programs, or only for `program`.
fn line(interface: &str, program: Option<&str>) -> String {
    match program {
        None => format!("options galcore interface={interface}"),
        Some(program) => format!("options galcore interface={program}:{interface}"),
    }
}

/// The modprobe.d text for these libraries, of one program or of any: one line if the generation is certain, and all
/// other possibilities as comments.
pub fn options(libraries: &[Library], program: Option<&str>) -> String {
    let mut chosen: Vec<_> = libraries
        .iter()
        .map(|library| library.answer.interface)
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    let mut candidates: Vec<&Candidate> = Vec::new();
    for library in libraries {
        for candidate in &library.answer.candidates {
            if candidates
                .iter()
                .all(|known| known.interface != candidate.interface)
            {
                candidates.push(candidate);
            }
        }
    }
    let mut text = String::new();
    let (taken, why) = match chosen[..] {
        [Some(interface)] => {
            text.push_str(&line(interface, program));
            text.push('\n');
            (Some(interface), "Or, if that draws nothing:")
        }
        [None] => (
            None,
            "The version does not tell which of these it is: name the core as above, or take the # from one line.",
        ),
        _ => (
            None,
            "Libraries of several generations: take the # from the line of the one that opens the device.",
        ),
    };
    let others: Vec<_> = candidates
        .into_iter()
        .filter(|candidate| Some(candidate.interface) != taken)
        .collect();
    if !others.is_empty() {
        text.push_str(&format!("# {why}\n"));
    }
    for candidate in others {
        let line = line(candidate.interface, program);
        text.push_str(&format!("# {}:\n# {line}\n", candidate.mark));
    }
    text
}

/// The files in `maps` with executable mappings and a library's name.
fn mapped(maps: &str) -> Vec<&str> {
    let names = maps.lines().filter_map(|line| {
        let at = line.find('/')?;
        line[..at].contains("x").then_some(&line[at..])
    });
    names.filter(|name| name.contains(".so")).collect()
}

/// The printable text after `mark` up to a `$`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], models: &[u32]) -> Result<Library> {
        Library::of_bytes(Path::new("libGAL.so"), bytes, models)
    }

    fn signed_as(version: &str, models: &[u32]) -> Library {
        of(format!("$VERSION${version}$").as_bytes(), models).unwrap()
    }

    #[test]
    fn signatures_are_read() {
        let bytes = b"\x7fELF\0\0\n\0$VERSION$4.6.9:6622$\n\0\n\0$PLATFORM$Linux$\n\0";
        let library = of(bytes, &[]).unwrap();
        assert_eq!(library.version, "4.6.9:6622");
        assert_eq!(library.platform.as_deref(), Some("Linux"));
        assert_eq!(library.answer.interface, Some("4.1.0"));
        assert_eq!(
            library.to_string(),
            "libGAL.so: version 4.6.9:6622 for Linux, speaks 4.1.0 (known)\n"
        );
        assert_eq!(
            options(&[library], Some("kodi.bin")),
            "options galcore interface=kodi.bin:4.1.0\n"
        );
    }

    #[test]
    fn what_has_none_is_refused() {
        assert!(of(b"\x7fELF", &[]).is_err());
        assert!(of(b"$VERSION$", &[]).is_err());
        assert!(of(b"$VERSION$no number$", &[]).is_err());
        assert!(of(b"$VERSION$9.9.9:1$", &[]).is_err());
        // Similar text is skipped.
        let bytes = b"$VERSION$\x01\x02$ $VERSION$6.4.11.p3:1049711+fslc$";
        assert_eq!(of(bytes, &[]).unwrap().answer.interface, Some("6.4.11"));
    }

    /// Splits active lines from comments.
    fn lines(text: &str) -> (Vec<&str>, Vec<&str>) {
        text.lines().partition(|line| !line.starts_with('#'))
    }

    #[test]
    fn others_of_the_version_are_comments() {
        let text = options(&[signed_as("0.8.0:2000", &[0x800])], None);
        let (counts, comments) = lines(&text);
        assert_eq!(counts, ["options galcore interface=v2"]);
        for name in ["arnova", "dove", "dove_old"] {
            let wanted = format!("# options galcore interface={name}");
            assert!(comments.contains(&&wanted[..]), "{text}");
        }
        // The board is unknown, so no line is active.
        let unknown = signed_as("4.6.6:1381", &[]);
        assert!(
            unknown.to_string().ends_with(
                ": the core decides\n  with --core GC320 or --core GC355 or --core GC860 or --core GC880 or \
                 --core GC2000: v4\n  with --core GC1000: eureka\n"
            ),
            "{unknown}"
        );
        let unknown = signed_as("0.8.0:1998", &[]).to_string();
        assert!(
            unknown.ends_with(
                "  with --core GC600: dove_old\n  with --core GC800 or --core GC860: v2\n"
            ),
            "{unknown}"
        );
        // With the core named, the result is certain.
        let named = signed_as("0.8.0:1998", &[0x600]);
        assert!(!named.to_string().contains("--core"), "{named}");
        let unknown = signed_as("4.6.6:1381", &[]);
        let text = options(&[unknown], None);
        let (counts, comments) = lines(&text);
        assert!(counts.is_empty(), "{text}");
        assert!(comments.contains(&"# options galcore interface=v4"));
        assert!(comments.contains(&"# options galcore interface=eureka"));
    }

    #[test]
    fn several_versions_of_one_program_are_told() {
        let both = [signed_as("4.6.9:1210", &[]), signed_as("4.6.9:6622", &[])];
        let text = options(&both, None);
        let (counts, comments) = lines(&text);
        assert!(counts.is_empty(), "{text}");
        assert!(comments[0].contains("several generations"), "{text}");
        assert!(comments.contains(&"# options galcore interface=4.0.0"));
        assert!(comments.contains(&"# options galcore interface=4.1.0"));
        let same = [signed_as("4.6.9:6622", &[]), signed_as("4.6.9:6622", &[])];
        assert_eq!(options(&same, None), "options galcore interface=4.1.0\n");
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
