// SPDX-License-Identifier: GPL-2.0-only
//! The words sent to the front ends, from debugfs `galcore/ring`, with their decoded text.

use std::fmt;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

use crate::decode::Decoder;
use crate::decode::FrontEnd;

/// The driver's file, readable by root.
pub const FILE: &str = "/sys/kernel/debug/galcore/ring";

/// A job with words in the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its line in the file.
    line: String,
    /// Its number.
    pub number: u64,
    /// Index of its core.
    pub core: usize,
    /// Whether the core is for vector graphics.
    is_vector: bool,
    /// The process that submitted it; 0 means the driver.
    pub process: i32,
    /// Its total number of words.
    pub count: usize,
    /// GPU address of the first word.
    pub address: u32,
    /// Number of the process's own words, and GPU address of the first of these.
    own: (u32, u32),
    /// Its state.
    pub state: String,
    /// Its readable words.
    pub given: Vec<u32>,
    /// Whether its place was reused while it was read.
    pub is_gone: bool,
}

/// A word that the front end executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its GPU address.
    pub address: u32,
    /// The word.
    pub word: u32,
    /// Its decoded text.
    pub text: String,
    /// Whether it comes from the process.
    pub is_own: bool,
}

impl Job {
    /// The words, without those that a LINK of the job skips.
    pub fn words(&self) -> Vec<Word> {
        let front_end = if self.is_vector {
            FrontEnd::Vector
        } else {
            FrontEnd::Pipes
        };
        let mut decoder = Decoder::new(front_end);
        let mut words = Vec::new();
        let (mut at, mut address) = (0, self.address);
        while let Some(&word) = self.given.get(at) {
            let decoded = decoder.next(word);
            let (own, own_address) = self.own;
            words.push(Word {
                address,
                word,
                text: decoded.to_string(),
                // A LINK around a dropped job comes from the driver.
                is_own: address.wrapping_sub(own_address) / 4 < own && !decoded.is_link(),
            });
            (at, address) = (at + 1, address.wrapping_add(4));
            let Some(target) = decoded.target() else {
                continue;
            };
            // Only forward, so the loop ends.
            let left_out = (target.wrapping_sub(address) / 4) as usize;
            if target % 8 == 0 && left_out < self.count - at {
                (at, address) = (at + left_out, target);
            }
        }
        words
    }

    fn is(&self, number: u64, core: usize) -> bool {
        (self.number, self.core) == (number, core)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line)?;
        let mut was_own = None;
        for word in self.words() {
            if was_own.replace(word.is_own) != Some(word.is_own) {
                let whose = if word.is_own { "process" } else { "driver" };
                writeln!(f, "{whose}:")?;
            }
            writeln!(f, "{:#010x} {:08x} {}", word.address, word.word, word.text)?;
        }
        if self.is_gone {
            writeln!(f, "job {:#x} of core {}: gone", self.number, self.core)
        } else {
            Ok(())
        }
    }
}

fn hex(text: &str) -> Result<u32> {
    Ok(u32::from_str_radix(text.trim_start_matches("0x"), 16)?)
}

/// The jobs in the file's text, in order, without jobs that have no words left.
pub fn parse(text: &str) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    for line in text.lines() {
        read_line(&mut jobs, line).with_context(|| line.to_string())?;
    }
    for job in &jobs {
        let is_whole = job.is_gone || job.given.len() == job.count;
        ensure!(is_whole, "{}: {} words", job.line, job.given.len());
    }
    Ok(jobs)
}

fn read_line(jobs: &mut Vec<Job>, line: &str) -> Result<()> {
    let separators = [' ', ',', ':', '(', ')'];
    let fields = line.split(separators).filter(|field| !field.is_empty());
    let fields: Vec<&str> = fields.collect();
    match fields[..] {
        ["job", number, "of", "core", core, kind, "process", process, count, "words", "at", address, "its", "own", own, "at", own_address, ref state @ ..] =>
        {
            jobs.push(Job {
                line: line.to_string(),
                number: u64::from_str_radix(number.trim_start_matches("0x"), 16)?,
                core: core.parse()?,
                is_vector: kind == "vg",
                process: process.parse()?,
                count: count.parse()?,
                address: hex(address)?,
                own: (own.parse()?, hex(own_address)?),
                state: state.join(" "),
                given: Vec::new(),
                is_gone: false,
            });
        }
        ["job", number, "of", "core", core, "gone"] => {
            let number = u64::from_str_radix(number.trim_start_matches("0x"), 16)?;
            let core = core.parse()?;
            if let Some(last) = jobs.last_mut().filter(|last| last.is(number, core)) {
                last.is_gone = true;
            }
        }
        [address, ref words @ ..] if address.starts_with("0x") => {
            let job = jobs.last_mut().context("words of no job")?;
            let next = job.address.wrapping_add(4 * job.given.len() as u32);
            ensure!(hex(address)? == next, "the next word is at {next:#010x}");
            for word in words {
                job.given.push(hex(word)?);
            }
            ensure!(job.given.len() <= job.count, "more words than it has");
        }
        _ => bail!("neither a job nor words"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with its own words between the driver's; a dropped job; an overwritten job.
    const TEXT: &str = "\
job 0x2 of core 0 (3d-2d), process 50, 6 words at 0x54300070, its own 2 at 0x54300078, ended
0x54300070 08010e00 00000001 18000000 cafe0001
0x54300080 38000008 00000000
job 0x10 of core 0 (3d-2d), process 50, 8 words at 0x54300088, its own 6 at 0x54300088, under way
0x54300088 40000001 543000a0 18000000 00000001
0x54300098 18000000 00000002 08010e01 00000043
job 0x3 of core 1 (vg), process 0, 4 words at 0x1000, its own 0 at 0x1000, ended
0x00001000 30010a11 00004000
job 0x3 of core 1: gone
job 0x4 of core 1: gone
";

    const DECODED: &str = "\
job 0x2 of core 0 (3d-2d), process 50, 6 words at 0x54300070, its own 2 at 0x54300078, ended
driver:
0x54300070 08010e00 LOAD_STATE 1 from 0x03800
0x54300074 00000001   0x03800 GL.PIPE_SELECT = 2D
process:
0x54300078 18000000 NOP
0x5430007c cafe0001   -
driver:
0x54300080 38000008 WAIT 8 cycles
0x54300084 00000000   -
job 0x10 of core 0 (3d-2d), process 50, 8 words at 0x54300088, its own 6 at 0x54300088, under way
driver:
0x54300088 40000001 LINK 1 units of 8 bytes
0x5430008c 543000a0   to 0x543000a0
0x543000a0 08010e01 LOAD_STATE 1 from 0x03804
0x543000a4 00000043   0x03804 GL.EVENT = 3 from PE
job 0x3 of core 1 (vg), process 0, 4 words at 0x1000, its own 0 at 0x1000, ended
driver:
0x00001000 30010a11 STATE 1 from 0xa11
0x00001004 00004000   0xa11 target address
job 0x3 of core 1: gone
";

    #[test]
    fn words_are_decoded_in_the_order_of_the_front_end() {
        let jobs = parse(TEXT).unwrap();
        let text: String = jobs.iter().map(ToString::to_string).collect();
        assert_eq!(text, DECODED);
        let job = &jobs[1];
        assert_eq!((job.number, job.core, job.process), (16, 0, 50));
        assert_eq!((job.count, job.words().len()), (8, 4));
        assert_eq!(job.state, "under way");
        assert!(!job.is_gone && jobs[2].is_gone);
    }

    #[test]
    fn links_lead_nowhere_else() {
        // Targets that are invalid: backward, to itself, past the end, and not at a command.
        for target in ["54300088", "54300080", "54300090", "543000a8", "5430009c"] {
            let text = TEXT.replace("40000001 543000a0", &format!("40000001 {target}"));
            assert_eq!(parse(&text).unwrap()[1].words().len(), 8, "{target}");
        }
    }

    #[test]
    fn what_is_no_such_file_is_said() {
        let first = TEXT.lines().next().unwrap();
        for text in [
            "0x54300070 08010e00",
            "LOAD_STATE",
            first,
            &format!("{first}\n0x54300074 08010e00"),
            &TEXT.replace("38000008 00000000", "38000008 00000000 00000000"),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
