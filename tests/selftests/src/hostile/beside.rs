// SPDX-License-Identifier: GPL-2.0-only
//! What a thread of a process does while others ask the driver for things: it maps, unmaps, moves, cuts and protects,
//! by both device nodes, and forks; and what a request meets with: no room in the process, no memory in the kernel.

use std::fs::File;
use std::fs::OpenOptions;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use galcore_client::device::NODES;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys::Idle;
use galcore_client::uapi;
use rustix::process::Resource;
use rustix::process::Rlimit;

use super::gaps::fail_nth;
use super::PAGE;
use crate::fixture::Random;

/// Areas at once.
const HELD: usize = 32;

/// Steps before the files are closed and opened anew.
const STEPS: u32 = 400;

/// The most allocations of a request that are counted before one fails.
const ALLOCATIONS: u32 = 40;

/// Bytes that a process may map besides what it has, while it may map little.
const SLACK: u64 = 96 << 10;

fn step(random: &mut Random, files: &[File; 2], areas: &mut Vec<Area>) -> Result<()> {
    let bytes = PAGE * (1 + random.below(64) as usize);
    let last = random.below(areas.len().max(1) as u32) as usize;
    let kind = Kind {
        private: random.below(4) == 0,
        read_only: random.below(2) == 0,
        populate: random.below(8) == 0,
    };
    let some = match areas.get(last) {
        Some(area) => random.below((area.bytes() / PAGE) as u32) as usize * PAGE,
        None => 0,
    };
    match random.below(16) {
        0..=5 if areas.len() < HELD => {
            let file = &files[random.below(2) as usize];
            let offset = match random.below(8) {
                0 => uapi::COMPLETION_OFFSET,
                1 => u64::from(random.below(1 << 20)) << 12,
                // Where contiguous memory is wont to be.
                2 => 0x4000_0000 + (u64::from(random.below(0x2_0000)) << 12),
                _ => 0,
            };
            areas.push(Area::map(Some(file), bytes, offset, kind)?);
        }
        _ if areas.is_empty() => {}
        6 | 7 => {
            areas[last].peek(some)?;
        }
        8 => {
            areas[last].poke(some, random.colour())?;
        }
        9 => areas[last].protect(some, PAGE, kind)?,
        10 => areas[last].remap(bytes)?,
        11 | 12 => {
            let area = areas.swap_remove(last);
            areas.append(&mut area.cut(some, PAGE)?);
        }
        13 if random.below(16) == 0 => drop(Idle::fork()?),
        _ => drop(areas.swap_remove(last)),
    }
    Ok(())
}

/// Does such things at random until `over`; says how many.
pub fn map_and_fork(seed: u32, over: &AtomicBool) -> Result<u32> {
    let mut random = Random::new(seed);
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        let open = |node| OpenOptions::new().read(true).write(true).open(node);
        let files = [open(NODES[0])?, open(NODES[1])?];
        let mut areas = Vec::with_capacity(2 * HELD);
        for _ in 0..STEPS {
            // What is refused is refused.
            let _ = step(&mut random, &files, &mut areas);
            count += 1;
            // The requests are to get on, too, where there is one processor.
            thread::sleep(Duration::from_micros(100));
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(count)
}

/// What a request meets with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The process may map hardly more than it has.
    Room,
    /// One of the kernel's allocations fails.
    Memory(u32),
}

impl Trouble {
    /// Some, now and then; memory only where the kernel `injects` failures.
    pub fn any(random: &mut Random, injects: bool) -> Self {
        match random.below(16) {
            0 => Trouble::Room,
            1..=3 if injects => Trouble::Memory(1 + random.below(ALLOCATIONS)),
            _ => Trouble::None,
        }
    }

    /// Does `body` with it.
    pub fn meet<T>(self, body: impl FnOnce() -> T) -> Result<T> {
        match self {
            Trouble::None => Ok(body()),
            Trouble::Memory(number) => Ok(fail_nth(number, body)?.0),
            Trouble::Room => {
                let statm = std::fs::read_to_string("/proc/self/statm")?;
                let pages: u64 = statm.split(' ').next().context("statm")?.parse()?;
                let before = rustix::process::getrlimit(Resource::As);
                let limit = Rlimit {
                    current: Some(pages * PAGE as u64 + SLACK),
                    maximum: before.maximum,
                };
                rustix::process::setrlimit(Resource::As, limit)?;
                let result = body();
                rustix::process::setrlimit(Resource::As, before)?;
                Ok(result)
            }
        }
    }
}
