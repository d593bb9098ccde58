// SPDX-License-Identifier: GPL-2.0-only
//! A process that harms nobody. It has memory of all kinds, with words in it that only it knows; and it commits and
//! waits, and notes how long that takes.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::raw;
use galcore_client::sys::Region;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Queue;

use super::number;
use crate::fixture::Paint;
use crate::other::Other;
use crate::video::expect_pattern;
use crate::video::is_of_pattern;
use crate::video::unlock;
use crate::video::write_pattern;
use crate::video::Opened;

/// A signal that takes longer than this is lost.
const LOST: u32 = 60_000;

/// The most pieces that are taken to come by a place.
const COVERS: usize = 40_000;

/// What a process is told that is to run before others.
const URGENT: &str = "urgent";

/// Kinds of memory.
pub const KINDS: [&str; 5] = ["pool", "contiguous", "virtual", "buffer", "anonymous"];

enum Holder {
    Node(Node),
    Buffer(Buffer),
    Anonymous,
}

struct Thing {
    holder: Holder,
    memory: Memory,
    address: u32,
    seed: u32,
}

/// How long waits took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// How many.
    pub count: u32,
    /// The longest.
    pub longest: Duration,
    /// The usual one.
    pub mean: Duration,
    /// The latest that a thread woke which only slept: what the machine itself adds.
    pub machine: Duration,
}

impl Waits {
    /// How much later than usual the latest came, beside what the machine itself adds.
    pub fn extra(&self) -> Duration {
        self.longest
            .saturating_sub(self.mean)
            .saturating_sub(self.machine)
    }
}

#[derive(Default)]
struct Watch {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Waits>>>,
}

/// What the process has.
#[derive(Default)]
pub(super) struct State {
    opened: Option<Opened>,
    things: Vec<Thing>,
    watch: Option<Watch>,
    seeds: u32,
}

impl State {
    fn opened(&mut self) -> Result<&Opened> {
        if self.opened.is_none() {
            self.opened = Some(Opened::new()?);
        }
        self.opened.as_ref().context("opened")
    }

    fn make(&mut self, kind: &str, bytes: usize) -> Result<Thing> {
        self.seeds = self.seeds.wrapping_add(0x0101_0101) ^ std::process::id();
        let seed = self.seeds;
        let opened = self.opened()?;
        let pool = match kind {
            "pool" => Pool::SYSTEM,
            "contiguous" => Pool::CONTIGUOUS,
            "virtual" => Pool::VIRTUAL,
            "buffer" => {
                let buffer = opened.device.allocate_contiguous(bytes as u64)?;
                return Ok(Thing {
                    memory: buffer.memory.clone(),
                    address: buffer.address,
                    holder: Holder::Buffer(buffer),
                    seed,
                });
            }
            "anonymous" => {
                return Ok(Thing {
                    memory: Memory::new(Region::anonymous(bytes)?),
                    address: 0,
                    holder: Holder::Anonymous,
                    seed,
                })
            }
            _ => bail!("memory of kind {kind:?}"),
        };
        let node = opened.allocate(bytes as u32, pool)?;
        let (address, memory) = opened.memory(node)?;
        Ok(Thing {
            holder: Holder::Node(node),
            memory,
            address,
            seed,
        })
    }

    fn give_back(&mut self, thing: Thing) -> Result<()> {
        let device = &self.opened()?.device;
        match thing.holder {
            Holder::Node(node) => {
                unlock(device, node)?;
                device.free(node)?;
            }
            Holder::Buffer(buffer) => device.free_contiguous(&buffer)?,
            Holder::Anonymous => {}
        }
        Ok(())
    }

    /// Takes pieces until one holds GPU address `address`; that one is kept, and written.
    fn cover(&mut self, kind: &str, bytes: usize, address: u32) -> Result<String> {
        let mut spare = Vec::new();
        let mut found = None;
        while spare.len() < COVERS {
            let Ok(thing) = self.make(kind, bytes) else {
                break;
            };
            if address.wrapping_sub(thing.address) < bytes as u32 {
                found = Some(thing);
                break;
            }
            spare.push(thing);
        }
        for thing in spare {
            self.give_back(thing)?;
        }
        let Some(thing) = found else {
            return Ok("no".to_string());
        };
        write_pattern(&thing.memory, thing.seed);
        self.things.push(thing);
        Ok("yes".to_string())
    }

    /// Frees a node of `bytes` bytes of the pool by a record, and takes as much again: microseconds until it has it.
    fn renew(&mut self, bytes: u32) -> Result<String> {
        let opened = self.opened()?;
        let device = &opened.device;
        let node = opened.allocate(bytes, Pool::SYSTEM)?;
        let (_, memory) = opened.memory(node)?;
        memory.write(0, 1);
        device.unlock(node)?;
        let done = device.create_signal(false)?;
        let begin = Instant::now();
        device.commit_queue(Queue::new().free(node).signal(done))?;
        device.wait_signal(done, LOST)?;
        let again = opened.allocate(bytes, Pool::SYSTEM)?;
        let took = begin.elapsed();
        device.free(again)?;
        Ok(took.as_micros().to_string())
    }

    fn check(&self) -> Result<String> {
        for thing in &self.things {
            let what = match thing.holder {
                Holder::Node(node) => format!("a node of {}", node.pool),
                Holder::Buffer(_) => "a buffer".to_string(),
                Holder::Anonymous => "ordinary memory".to_string(),
            };
            if let Err(error) = expect_pattern(&what, &thing.memory, thing.seed) {
                return Ok(format!("spoiled: {error}"));
            }
        }
        Ok("good".to_string())
    }

    /// Whether a word is one of those that it wrote.
    fn is_mine(&self, word: u32) -> bool {
        let mut things = self.things.iter();
        things.any(|thing| is_of_pattern(word, thing.seed, thing.memory.len()))
    }

    fn answer_checked(&mut self, words: &[&str]) -> Result<String> {
        match words[0] {
            "take" => {
                let (kind, count) = (words[1], number::<u32>(words, 2)?);
                for _ in 0..count {
                    let thing = self.make(kind, number(words, 3)?)?;
                    write_pattern(&thing.memory, thing.seed);
                    self.things.push(thing);
                }
                Ok("taken".to_string())
            }
            "cover" => self.cover(words[1], number(words, 2)?, number(words, 3)?),
            "renew" => self.renew(number(words, 1)?),
            "check" => self.check(),
            "mine" => Ok(self.is_mine(number(words, 1)?).to_string()),
            "drop" => {
                for thing in std::mem::take(&mut self.things) {
                    self.give_back(thing)?;
                }
                self.opened()?.device.stall()?;
                Ok("dropped".to_string())
            }
            "watch" => {
                let over = Arc::new(AtomicBool::new(false));
                let (first, second) = (over.clone(), over.clone());
                let (begun, has_begun) = mpsc::channel();
                if words.get(1) == Some(&URGENT) {
                    // The threads that are started now, too.
                    raw::urgent()?;
                }
                let threads = vec![
                    thread::spawn(move || work(&first, &begun)),
                    thread::spawn(move || Ok(sleep(&second))),
                ];
                // It has a client of its own to start first.
                has_begun.recv()?;
                self.watch = Some(Watch { over, threads });
                Ok("watching".to_string())
            }
            _ => {
                let watch = self.watch.take().context("it does not watch")?;
                watch.over.store(true, Ordering::Relaxed);
                let mut all = Waits::default();
                for thread in watch.threads {
                    let waits = thread.join().ok().context("a panic")??;
                    all.machine = all.machine.max(waits.machine);
                    if waits.count > 0 {
                        (all.count, all.longest, all.mean) =
                            (waits.count, waits.longest, waits.mean);
                    }
                }
                let times = [all.longest, all.mean, all.machine].map(|time| time.as_micros());
                Ok(format!(
                    "{} {} {} {}",
                    all.count, times[0], times[1], times[2]
                ))
            }
        }
    }

    /// The answer to a line, if that is for it.
    pub(super) fn answer(&mut self, words: &[&str]) -> Option<Result<String>> {
        const OURS: [&str; 8] = [
            "take", "cover", "renew", "check", "mine", "drop", "watch", "seen",
        ];
        OURS.contains(&words[0]).then(|| self.answer_checked(words))
    }
}

/// Commits and waits until `over`; tells when it has `begun`.
fn work(over: &AtomicBool, begun: &mpsc::Sender<()>) -> Result<Waits> {
    let mut paint = Paint::new()?;
    let signal = paint.device().create_signal(false)?;
    for round in 0..10 {
        let stream = paint.fill_cell(round, round);
        paint.run(&stream)?;
    }
    begun.send(())?;
    let mut waits = Waits::default();
    let mut total = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let stream = paint.fill_cell(waits.count, waits.count);
        let begin = Instant::now();
        paint.commit(&stream, Queue::new().signal(signal))?;
        paint.device().wait_signal(signal, LOST)?;
        let took = begin.elapsed();
        waits.count += 1;
        waits.longest = waits.longest.max(took);
        total += took;
        // Others want to get on, too.
        thread::sleep(Duration::from_micros(500));
    }
    waits.mean = total / waits.count.max(1);
    paint.close()?;
    Ok(waits)
}

/// Sleeps for a moment again and again until `over`.
fn sleep(over: &AtomicBool) -> Waits {
    const MOMENT: Duration = Duration::from_millis(2);
    let mut waits = Waits::default();
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        thread::sleep(MOMENT);
        waits.machine = waits.machine.max(begin.elapsed().saturating_sub(MOMENT));
    }
    waits
}

/// Such a process.
#[derive(Debug)]
pub struct Innocent(Other);

impl Innocent {
    /// Starts one.
    pub fn start() -> Result<Self> {
        Ok(Self(Other::start(Abi::own())?))
    }

    /// Has it take `count` pieces of `bytes` bytes of memory, one of [`KINDS`], and write them.
    pub fn take(&mut self, kind: &str, count: usize, bytes: usize) -> Result<()> {
        self.0.ask(&format!("take {kind} {count} {bytes}"))?;
        Ok(())
    }

    /// Has it take memory until it has what lies at a GPU address, and write that; says whether it could.
    pub fn cover(&mut self, kind: &str, bytes: usize, address: u32) -> Result<bool> {
        let answer = self.0.ask(&format!("cover {kind} {bytes} {address}"))?;
        Ok(answer == "yes")
    }

    /// Fails unless its memory is as it wrote it.
    pub fn check(&mut self) -> Result<()> {
        let answer = self.0.ask("check")?;
        ensure!(answer == "good", "an innocent process: {answer}");
        Ok(())
    }

    /// Fails if a word that somebody else has seen is one of its own.
    pub fn wrote(&mut self, word: u32) -> Result<bool> {
        Ok(self.0.ask(&format!("mine {word}"))? == "true")
    }

    /// How long it takes until a node of `bytes` bytes of the pool that it frees by a record can be had again.
    pub fn renew(&mut self, bytes: usize) -> Result<Duration> {
        let answer = self.0.ask(&format!("renew {bytes}"))?;
        Ok(Duration::from_micros(number(&[answer.as_str()], 0)?))
    }

    /// Has it give its memory back.
    pub fn release(&mut self) -> Result<()> {
        self.0.ask("drop")?;
        Ok(())
    }

    /// Has it commit and wait while `body` runs: how long its waits took. If `urgent`, it runs before others.
    pub fn while_watching(
        &mut self,
        urgent: bool,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<Waits> {
        self.0
            .ask(&format!("watch {}", if urgent { URGENT } else { "" }))?;
        let done = body();
        let answer = self.0.ask("seen")?;
        done?;
        let words: Vec<&str> = answer.split(' ').collect();
        let time = |index| Ok::<_, anyhow::Error>(Duration::from_micros(number(&words, index)?));
        Ok(Waits {
            count: number(&words, 0)?,
            longest: time(1)?,
            mean: time(2)?,
            machine: time(3)?,
        })
    }
}
