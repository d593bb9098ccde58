// SPDX-License-Identifier: GPL-2.0-only
//! Every command of every generation of the interface with payloads at random: an answer each time, nothing lost, and the
//! driver goes on working.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;

/// Calls before the file is closed and another one opened.
const CALLS_OF_A_FILE: u32 = 250;

/// Memory of this process that payloads point to, with records and descriptions that are nearly right.
const SCRATCH_WORDS: usize = 4096;

/// Longest time that a WAIT may take, in milliseconds.
const WAIT_LIMIT: u64 = 2;

struct Fuzz {
    random: Random,
    scratch: Vec<u32>,
    /// How often each status came.
    statuses: BTreeMap<i64, u32>,
}

impl Fuzz {
    fn new(seed: u32) -> Self {
        Self {
            random: Random::new(seed),
            scratch: vec![0; SCRATCH_WORDS],
            statuses: BTreeMap::new(),
        }
    }

    fn any(&mut self) -> u32 {
        self.random.below(0x10000) << 16 | self.random.below(0x10000)
    }

    /// An address in the scratch memory, often aligned.
    fn pointer(&mut self) -> u32 {
        let start = self.scratch.as_ptr() as usize as u32;
        let bytes = 4 * SCRATCH_WORDS as u32;
        let at = self.random.below(bytes);
        match self.random.below(8) {
            0 => start + at,
            1 => start + bytes - at % 64,
            _ => start + at / 64 * 64,
        }
    }

    /// A word that has a chance to mean something.
    fn word(&mut self) -> u32 {
        match self.random.below(12) {
            0..=2 => 0,
            3 | 4 => self.random.below(8),
            5 | 6 => self.random.below(64),
            7 | 8 => self.pointer(),
            9 => self.random.below(0x10000) * 4096,
            10 => u32::MAX - self.random.below(4),
            _ => self.any(),
        }
    }

    fn fill_scratch(&mut self) {
        for at in 0..SCRATCH_WORDS {
            let word = match self.random.below(16) {
                // What marks command buffers and contexts.
                0 => 0x4244_4d43,
                1 => 0x5458_5443,
                _ => self.word(),
            };
            self.scratch[at] = word;
        }
    }

    /// Keeps what would only take time or all of the memory within limits.
    fn restrain(&mut self, abi: &Abi, bytes: &mut [u8], member: &str) {
        let mut limit = |fuzz: &mut Self, field: &str, most: u32| {
            if abi.field(member, field).is_some() {
                let value = match fuzz.random.below(8) {
                    // More than there can be, at once refused.
                    0 => u32::MAX - fuzz.random.below(0x1000_0000),
                    _ => fuzz.random.below(most),
                };
                abi.set(bytes, member, field, value.into());
            }
        };
        match member {
            "AllocateLinearVideoMemory" => limit(self, "bytes", 1 << 18),
            "AllocateContiguousMemory" | "AllocateNonPagedMemory" => limit(self, "bytes", 1 << 16),
            "AllocateVideoMemory" => {
                limit(self, "width", 256);
                limit(self, "height", 256);
                limit(self, "depth", 2);
            }
            "UserSignal" => {
                let wait = u64::from(self.random.below(2)) * WAIT_LIMIT;
                abi.set(bytes, member, "wait", wait);
            }
            _ => {}
        }
    }

    /// One command of `device` with a payload at random.
    fn call(&mut self, device: &Device) -> Result<()> {
        let abi = device.abi();
        let top = abi.commands.values().map(|(number, _)| *number).max();
        let number = self.random.below(top.unwrap_or(0) + 2);
        let mut bytes = vec![0; abi.sizes[0]];
        for place in bytes.chunks_exact_mut(4) {
            place.copy_from_slice(&self.word().to_le_bytes());
        }
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        if let Some((at, _)) = abi.header.get("hardwareType") {
            bytes[*at..at + 4].copy_from_slice(&self.random.below(9).to_le_bytes());
        }
        let command = abi.commands.iter().find(|(_, (value, _))| *value == number);
        if let Some((_, (_, member))) = command {
            self.restrain(abi, &mut bytes, member);
        }
        let status = match device.exchange_bytes(&mut bytes) {
            Ok(()) => i64::from(abi.header_of(&bytes, "status") as i32),
            // ENOTTY: a hardware type that is none.
            Err(error) if error.raw_os_error() == Some(25) => 1000,
            Err(error) => bail!("command {number} ({command:?}): {error}"),
        };
        ensure!(
            status == 1000 || (-26..=0).contains(&status),
            "command {number} ({command:?}): status {status}"
        );
        *self.statuses.entry(status).or_default() += 1;
        Ok(())
    }

    fn generation(&mut self, abi: &'static Abi, count: u32) -> Result<()> {
        let mut done = 0;
        while done < count {
            let device = Device::open_as(abi, true)?;
            self.fill_scratch();
            for _ in 0..CALLS_OF_A_FILE.min(count - done) {
                self.call(&device).with_context(|| abi.name.to_string())?;
            }
            done += CALLS_OF_A_FILE.min(count - done);
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count", "seed", "generation"])?;
        let count = options.number("count", 16_000)?;
        let seed = options.number("seed", 1)?;
        harness::allow(Duration::from_secs(120 + u64::from(count) / 100));
        if let Some(name) = options.get("generation") {
            let abi = Abi::named(name).context("no such generation")?;
            let mut fuzz = Fuzz::new(seed);
            fuzz.generation(abi, count)?;
            ensure!(fuzz.statuses.len() > 5, "nothing was looked at");
            println!("# {}: {:?}", abi.name, fuzz.statuses);
            return Ok(true);
        }
        let before = (ProcGc::used_now()?, ProcGc::mmu_used_now()?);
        let mut suite = Suite::new();
        suite.test(
            format!("{count} calls with payloads at random (seed {seed}) have an answer"),
            move || {
                let all = Abi::all();
                let (count, seed) = ((count / all.len() as u32).to_string(), seed.to_string());
                for abi in all {
                    // What it has mapped by chance keeps a file open until the process ends.
                    let arguments = ["--generation", abi.name, "--count", &count, "--seed", &seed];
                    let status = system::again(&arguments)?.status()?;
                    ensure!(status.success(), "{}: {status}", abi.name);
                }
                Ok(())
            },
        );
        suite.test("the GPU still draws", || Paint::new()?.prove(0xff12_3456));
        suite.test("nothing is lost", move || {
            settles("memory and MMU entries in use", before, || {
                Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?))
            })
        });
        suite.run()
    })
}
