// SPDX-License-Identifier: GPL-2.0-only
//! All of it in turns: several processes that do bad things at random, some of which are killed, beside innocent ones.

use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::device::Node;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys::Idle;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;

use super::attacker::State;
use super::attacker::KIND;
use super::innocent::Innocent;
use super::innocent::KINDS;
use super::number;
use super::views::NEWER;
use super::PAGE;
use crate::fixture::Random;
use crate::other::Other;
use crate::system::ProcGc;
use crate::video;

/// Processes at once.
const PROCESSES: usize = 3;

/// Milliseconds that one of them goes on.
const RAGE: u32 = 400;

/// Windows, nodes and mappings that it has at once.
const HELD: usize = 24;

/// Does things at random for a while: `rage MILLISECONDS SEED`.
pub(super) fn rage(state: &mut State, words: &[&str]) -> Result<String> {
    let time = Duration::from_millis(number(words, 1)?);
    let seed: u32 = number(words, 2)?;
    let opened = state.opened()?;
    let second = Device::open_node(galcore_client::device::NODES[1])?;
    let mut counts = [0u32; 2];
    thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = [seed, seed ^ 0x5555_aaaa]
            .into_iter()
            .map(|seed| {
                let second = &second;
                scope.spawn(move || {
                    let begin = Instant::now();
                    let mut one = Rage {
                        devices: [&opened.device, second],
                        random: Random::new(seed),
                        nodes: Vec::new(),
                        windows: Vec::new(),
                        pinned: Vec::new(),
                    };
                    let mut count = 0;
                    while begin.elapsed() < time {
                        // What is refused is refused.
                        let _ = one.step();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for (thread, count) in threads.into_iter().zip(&mut counts) {
            *count = thread.join().unwrap_or(0);
        }
        Ok(())
    })?;
    ensure!(!counts.contains(&0), "a thread has failed");
    Ok((counts[0] + counts[1]).to_string())
}

struct Rage<'a> {
    devices: [&'a Device; 2],
    random: Random,
    nodes: Vec<Node>,
    windows: Vec<Area>,
    pinned: Vec<(Region, uapi::MapUserMemory)>,
}

impl Rage<'_> {
    fn node(&mut self) -> Option<Node> {
        let count = self.nodes.len() as u32;
        (count > 0).then(|| self.nodes[self.random.below(count) as usize])
    }

    fn window(&mut self) -> Option<usize> {
        let count = self.windows.len() as u32;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    fn step(&mut self) -> Result<()> {
        let device = self.devices[self.random.below(2) as usize];
        let own = self.devices[0];
        let bytes = PAGE << self.random.below(6);
        match self.random.below(16) {
            0..=2 if self.nodes.len() < HELD => {
                let pools = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL];
                let pool = pools[self.random.below(3) as usize];
                self.nodes.push(own.allocate(bytes as u32, 64, KIND, pool)?);
            }
            3 | 4 => {
                if let Some(node) = self.node() {
                    own.lock(node)?;
                }
            }
            5 => {
                if let Some(node) = self.node() {
                    own.unlock(node)?;
                    own.commit_queue(Queue::new().unlock(node))?;
                }
            }
            6 | 7 if !self.nodes.is_empty() => {
                let last = self.random.below(self.nodes.len() as u32) as usize;
                own.free(self.nodes.swap_remove(last))?;
            }
            8 | 9 if self.windows.len() < HELD => {
                let kind = Kind {
                    private: self.random.below(8) == 0,
                    read_only: self.random.below(4) == 0,
                    populate: self.random.below(8) == 0,
                };
                self.windows.push(Area::map(Some(device), bytes, 0, kind)?);
            }
            10 => {
                if let Some(at) = self.window() {
                    let window = &self.windows[at];
                    let pages = (window.bytes() / PAGE) as u32;
                    let offset = self.random.below(pages) as usize * PAGE;
                    // Of its own nodes alone: nobody else's are there.
                    window.poke(offset, 0x0bad_0005)?;
                    window.protect(offset, PAGE, Kind::default())?;
                }
            }
            11 => {
                if let Some(at) = self.window() {
                    let window = self.windows.swap_remove(at);
                    let pages = (window.bytes() / PAGE) as u32;
                    let offset = self.random.below(pages) as usize * PAGE;
                    self.windows.append(&mut window.cut(offset, PAGE)?);
                }
            }
            12 => {
                if let Some(at) = self.window() {
                    self.windows[at].remap(bytes)?;
                }
            }
            13 if self.pinned.len() < 4 => {
                let region = Region::anonymous(bytes)?;
                let mapping = own.map_user(region.address(), bytes as u64)?;
                self.pinned.push((region, mapping));
            }
            14 => {
                if let Some((_region, mapping)) = self.pinned.pop() {
                    own.unmap_user(&mapping)?;
                }
            }
            15 if self.random.below(8) == 0 => drop(Idle::fork()?),
            _ => {
                let buffer = own.allocate_contiguous(bytes as u64)?;
                own.free_contiguous(&buffer)?;
            }
        }
        Ok(())
    }
}

/// A process that is killed while it has a copy, which has its files open, leaves nothing behind: the copy ends too.
pub fn killed_with_a_copy() -> Result<()> {
    let mut other = Other::start(Abi::own())?;
    other.ask("copy")?;
    other.kill()?;
    ProcGc::nothing_left()?;
    Ok(())
}

/// Processes do bad things at random for `time`, beside two that have memory of all kinds and look at it; one of the
/// bad ones is killed now and then.
pub fn all(time: Duration, seed: u32) -> Result<()> {
    let newer = Abi::named(NEWER).ok_or(anyhow::anyhow!("no {NEWER}"))?;
    let mut random = Random::new(seed);
    let mut innocent = [Innocent::start()?, Innocent::start()?];
    let begin = Instant::now();
    let (mut rounds, mut kills) = (0, 0);
    let mut raging: Vec<Other> = Vec::new();
    while begin.elapsed() < time {
        while raging.len() < PROCESSES {
            raging.push(Other::start(newer)?);
        }
        for other in &mut raging {
            other.tell(&format!("rage {RAGE} {}", random.colour() >> 1))?;
        }
        for one in &mut innocent {
            for _ in 0..4 {
                let kind = KINDS[random.below(KINDS.len() as u32) as usize];
                one.take(kind, 1, PAGE << random.below(7))?;
            }
        }
        if random.below(2) == 0 {
            thread::sleep(Duration::from_millis(random.below(RAGE).into()));
            raging
                .swap_remove(random.below(PROCESSES as u32) as usize)
                .kill()?;
            kills += 1;
        }
        for one in &mut innocent {
            one.check()?;
        }
        for other in &mut raging {
            other.answer()?;
        }
        for one in &mut innocent {
            one.check()?;
            if random.below(3) > 0 {
                one.release()?;
            }
        }
        rounds += 1;
    }
    println!("# {rounds} rounds, {kills} kills");
    // What has been pinned and mapped goes with them.
    drop(raging);
    video::Opened::new()?.device.stall()?;
    Ok(())
}
