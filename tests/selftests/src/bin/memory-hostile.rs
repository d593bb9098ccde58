// SPDX-License-Identifier: GPL-2.0-only
//! A process that owns nothing tries every memory command on another process's memory, with guessed numbers and with
//! known numbers. Each must be refused, and the other process's memory and accounting must not change.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Child;
use std::process::ChildStdout;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::thread;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::cache;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_pattern;
use galcore_selftests::video::node;
use galcore_selftests::video::unlock;
use galcore_selftests::video::write_pattern;
use galcore_selftests::video::Opened;

/// Number of objects of each kind that the victim has.
const COUNT: u32 = 24;
const BYTES: u32 = 16_384;

/// An object of the victim: handle, GPU address, user address.
#[derive(Clone, Copy, Debug, Default)]
struct Thing {
    handle: u32,
    address: u32,
    logical: u64,
}

/// The victim, as the attacker sees it.
struct Victim {
    child: Child,
    output: BufReader<ChildStdout>,
    nodes: Vec<Thing>,
    buffers: Vec<Thing>,
    mapped: Vec<Thing>,
}

impl Victim {
    fn start() -> Result<Self> {
        let mut child = system::again(&["--victim"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut victim = Self {
            child,
            output,
            nodes: Vec::new(),
            buffers: Vec::new(),
            mapped: Vec::new(),
        };
        loop {
            let line = victim.line()?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind, numbers @ ..] = &words[..] else {
                anyhow::bail!("the victim says {line:?}");
            };
            if *kind == "ready" {
                return Ok(victim);
            }
            let numbers: Vec<u64> = numbers
                .iter()
                .map(|word| word.parse())
                .collect::<Result<_, _>>()
                .with_context(|| format!("the victim says {line:?}"))?;
            let thing = Thing {
                handle: numbers[0] as u32,
                address: numbers[1] as u32,
                logical: numbers[2],
            };
            match *kind {
                "node" => victim.nodes.push(thing),
                "buffer" => victim.buffers.push(thing),
                _ => victim.mapped.push(thing),
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    /// Fails unless the victim finds all of its memory unchanged.
    fn check(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        writeln!(input, "check")?;
        let said = self.line()?;
        same("the victim", said.as_str(), "well")
    }

    /// Handles of all kinds, and their neighbors.
    fn handles(&self) -> Vec<u32> {
        let all = [&self.nodes, &self.buffers, &self.mapped];
        let mut handles: Vec<u32> = all
            .into_iter()
            .flatten()
            .map(|thing| thing.handle)
            .collect();
        handles.extend(1..200);
        handles.sort_unstable();
        handles.dedup();
        handles
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Errors cannot be handled here.
        let _ = self.child.wait();
    }
}

/// Runs in the victim.
fn be_victim() -> Result<()> {
    let opened = Opened::new()?;
    let device = &opened.device;
    let own = Memory::new(Region::anonymous((COUNT * BYTES) as usize)?);
    let mut things: Vec<(Memory, u32)> = Vec::new();
    let mut nodes = Vec::new();
    for index in 0..COUNT {
        let pool = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL][index as usize % 3];
        let node = opened.allocate(BYTES, pool)?;
        let (address, memory) = opened.memory(node)?;
        println!("node {} {address} {}", node.handle, memory.address());
        things.push((memory, index));
        nodes.push(node);
        let buffer = match index % 2 {
            0 => device.allocate_contiguous(BYTES.into())?,
            _ => device.allocate_non_paged(BYTES.into())?,
        };
        println!(
            "buffer {} {} {}",
            buffer.physical, buffer.address, buffer.logical
        );
        things.push((buffer.memory.clone(), index | 0x100));
        let part = own
            .part((index * BYTES) as usize, BYTES as usize)
            .context("part")?;
        let mapping = device.map_user(part.address() + 64, u64::from(BYTES) - 128)?;
        println!(
            "mapped {} {} {}",
            mapping.info, mapping.address, mapping.memory
        );
        things.push((part, index | 0x200));
    }
    for (memory, seed) in &things {
        write_pattern(memory, *seed);
    }
    println!("ready");
    let pinned = system::pinned()?;
    let books = device.database(std::process::id())?;
    for line in std::io::stdin().lines() {
        line?;
        let check = || -> Result<()> {
            for (memory, seed) in &things {
                expect_pattern(&format!("thing {seed:#x}"), memory, *seed)?;
            }
            for (index, node) in nodes.iter().enumerate() {
                // Still locked once.
                match index % 3 {
                    0 => {
                        device.lock(*node)?;
                        device.unlock(*node)?;
                    }
                    _ => refused("second LOCK", device.lock(*node), Status::MEMORY_LOCKED)?,
                }
            }
            same("pinned KiB", system::pinned()?, pinned)?;
            same("DATABASE", device.database(std::process::id())?, books)
        };
        match check() {
            Ok(()) => println!("well"),
            Err(error) => println!("{error:#}"),
        }
    }
    Ok(())
}

/// Threads of one process, operations of each thread, and shared nodes.
const THREADS: u32 = 4;
const STEPS: u32 = 400;
const SHARED: usize = 4;

/// Threads lock, unlock, and free the same nodes at random, by ioctls and by records alone. Another thread keeps the
/// process's mapping lock busy. A node may be freed between LOCK and its mapping: LOCK then reports an invalid object.
fn be_disorderly() -> Result<()> {
    let device = Device::open()?;
    let nodes = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let work = |number: u32| -> Result<()> {
        let mut random = Random::new(number + 1);
        for _ in 0..STEPS {
            let count = lock(&nodes).len();
            if count < SHARED || random.below(8) == 0 {
                let pool = [Pool::CONTIGUOUS, Pool::VIRTUAL][random.below(2) as usize];
                let new = device.allocate(8 * BYTES, 64, surface::BITMAP, pool)?;
                let mut nodes = lock(&nodes);
                nodes.push(new);
                if nodes.len() > SHARED {
                    let old = nodes.remove(0);
                    device.commit_queue(Queue::new().unlock(old).free(old))?;
                }
                continue;
            }
            let place = random.below(SHARED as u32) as usize;
            let Some(node) = lock(&nodes).get(place).copied() else {
                continue;
            };
            let done = match random.below(6) {
                0..=2 => device.lock(node).map(drop),
                3 => device.unlock(node).map(drop),
                4 => device.unlock_all(node),
                _ => device.commit_queue(Queue::new().unlock(node)),
            };
            if let Err(error) = done {
                let known = [
                    Status::INVALID_OBJECT,
                    Status::NOT_FOUND,
                    Status::MEMORY_LOCKED,
                    Status::MEMORY_UNLOCKED,
                ];
                let status = error.status().context("an errno")?;
                ensure!(known.contains(&status), "{error}");
            }
        }
        Ok(())
    };
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                drop(Region::anonymous(64 << 20));
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let done = threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"));
        is_over.store(true, Relaxed);
        done
    });
    done
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread has panicked")
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--victim") => return harness::exit(be_victim()),
        Some("--disorderly") => return harness::exit(be_disorderly()),
        _ => {}
    }
    harness::program(|| {
        ProcGc::nothing_left()?;
        let victim = std::cell::RefCell::new(Victim::start()?);
        let device = &Device::open()?;
        let used = at_rest(|| Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?)))?;
        let now = || Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?));
        let mut suite = Suite::new();
        suite.test("nodes: every command, every handle", || {
            for handle in victim.borrow().handles() {
                let theirs = node(handle.into());
                let object = Status::INVALID_OBJECT;
                refused("LOCK", device.lock(theirs), object)?;
                refused("LOCK, cacheable", device.lock_cacheable(theirs), object)?;
                refused("UNLOCK", device.unlock(theirs), object)?;
                refused("FREE", device.free(theirs), Status::INVALID_DATA)?;
                for operation in [cache::CLEAN, cache::INVALIDATE, cache::FLUSH] {
                    let result = device.cache(operation, handle.into(), 0x1_0000, 64);
                    refused("CACHE", result, object)?;
                }
                device.commit_queue(Queue::new().unlock(theirs).free(theirs))?;
            }
            device.stall()?;
            victim.borrow_mut().check()?;
            settles("KiB, MMU entries", used, now)
        });
        suite.test("buffers: every command, every handle", || {
            for handle in victim.borrow().handles() {
                let wanted = Status::NOT_FOUND;
                refused("MAP_MEMORY", device.map_memory(handle), wanted)?;
                refused("UNMAP_MEMORY", device.unmap_memory(handle), wanted)?;
                let named = uapi::FreeContiguousMemory {
                    bytes: BYTES.into(),
                    physical: handle,
                    logical: 0x1_0000,
                };
                let (status, _) = device.send(Command::FREE_CONTIGUOUS_MEMORY, &named)?;
                same("FREE_CONTIGUOUS", status, wanted)?;
                let mut queue = Queue::new();
                queue.record(Command::FREE_CONTIGUOUS_MEMORY, &named);
                let named = uapi::FreeNonPagedMemory {
                    bytes: BYTES.into(),
                    physical: handle,
                    logical: 0x1_0000,
                };
                let (status, _) = device.send(Command::FREE_NON_PAGED_MEMORY, &named)?;
                same("FREE_NON_PAGED", status, wanted)?;
                queue.record(Command::FREE_NON_PAGED_MEMORY, &named);
                device.commit_queue(&mut queue)?;
            }
            device.stall()?;
            victim.borrow_mut().check()?;
            settles("KiB, MMU entries", used, now)
        });
        suite.test("user memory: every handle", || {
            for handle in victim.borrow().handles() {
                let named = MapUserMemory {
                    memory: 0x1_0000,
                    size: BYTES.into(),
                    info: handle,
                    ..Default::default()
                };
                refused("UNMAP", device.unmap_user(&named), Status::NOT_FOUND)?;
                device.commit_queue(Queue::new().unmap_user(&named))?;
            }
            device.stall()?;
            victim.borrow_mut().check()?;
            settles("KiB, MMU entries", used, now)
        });
        suite.test(
            "WRITE_DATA to another process's GPU addresses, and to anybody's",
            || {
                let mut addresses: Vec<u32> = {
                    let victim = victim.borrow();
                    let all = [&victim.nodes, &victim.buffers, &victim.mapped];
                    let all = all.into_iter().flatten();
                    all.map(|thing| thing.address)
                        .filter(|address| *address != 0)
                        .collect()
                };
                let base = system::told("contiguousBase").unwrap_or(0x5800_0000) as u32;
                addresses.extend([
                    0,
                    4,
                    0x4000_8000,
                    base,
                    0x8000_0000,
                    0xffff_fffc,
                    0x1000_0000,
                ]);
                for address in addresses {
                    let mut queue = Queue::new();
                    queue.write_data(address, 0xbad0_0bad);
                    let status = device.send_queue(&mut queue)?;
                    same(&format!("at {address:#x}"), status, Status::INVALID_ADDRESS)?;
                }
                victim.borrow_mut().check()
            },
        );
        suite.test("another process's addresses as one's own", || {
            let victim = &mut *victim.borrow_mut();
            for thing in victim.nodes.iter().chain(&victim.buffers) {
                let mapped = device.map_user(thing.logical, BYTES.into());
                if let Ok(mapping) = mapped {
                    // If this process happens to have memory at that address, the call maps that memory.
                    device.unmap_user(&mapping)?;
                }
                let record = uapi::CommandBufferRecord {
                    object: uapi::OBJECT_COMMAND_BUFFER,
                    entry_pipe: 1,
                    exit_pipe: 1,
                    logical: thing.logical,
                    bytes: BYTES,
                    start_offset: 0,
                    offset: 64,
                    ..Default::default()
                };
                let status = device.send_commit(&record, 0, &mut Queue::new())?;
                same("COMMIT", status, Status::INVALID_ADDRESS)?;
            }
            victim.check()
        });
        suite.test(
            "stale handles of one's own: each command after FREE",
            || {
                for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
                    let taken = device.allocate(BYTES, 64, surface::BITMAP, pool)?;
                    device.lock(taken)?;
                    unlock(device, taken)?;
                    device.free(taken)?;
                    // The next node may have the same address, but must have another handle.
                    let next = device.allocate(BYTES, 64, surface::BITMAP, pool)?;
                    ensure!(next.handle != taken.handle, "the same handle again");
                    refused("LOCK", device.lock(taken), Status::INVALID_OBJECT)?;
                    refused("UNLOCK", device.unlock(taken), Status::INVALID_OBJECT)?;
                    refused("FREE", device.free(taken), Status::INVALID_DATA)?;
                    device.commit_queue(Queue::new().unlock(taken).free(taken).free(taken))?;
                    device.stall()?;
                    device.lock(next).context("the next one")?;
                    unlock(device, next)?;
                    device.free(next)?;
                }
                let first = device.allocate_contiguous(4096)?;
                device.free_contiguous(&first)?;
                let next = device.allocate_contiguous(4096)?;
                refused("FREE", device.free_contiguous(&first), Status::NOT_FOUND)?;
                device.commit_queue(Queue::new().free_contiguous(&first))?;
                device.stall()?;
                system::expect_mapped(next.logical, true)?;
                Ok(device.free_contiguous(&next)?)
            },
        );
        suite.test("one record's free twice in a queue frees once", || {
            let before = at_rest(now)?;
            let taken = device.allocate(BYTES, 64, surface::BITMAP, Pool::VIRTUAL)?;
            let buffer = device.allocate_contiguous(BYTES.into())?;
            let mut queue = Queue::new();
            for _ in 0..5 {
                queue.free(taken).free_contiguous(&buffer);
            }
            device.commit_queue(&mut queue)?;
            device.stall()?;
            settles("KiB, MMU entries", before, now)?;
            victim.borrow_mut().check()
        });
        suite.test(
            "sizes, alignments, types and pools at random: an answer each, and nothing stays",
            || {
                let before = at_rest(now)?;
                let mut random = Random::new(4711);
                let mut granted = 0;
                for _ in 0..400 {
                    let mut number = || match random.below(4) {
                        0 => random.below(0x1_0000),
                        1 => 1 << random.below(32),
                        2 => (1u32 << random.below(32)).wrapping_sub(1),
                        _ => random.colour(),
                    };
                    let (bytes, alignment, kind, pool) =
                        (number(), number(), number(), random.below(13));
                    // Skips sizes of hundreds of MiB, because zeroing them takes too long.
                    if (1 << 20..1 << 28).contains(&bytes) {
                        continue;
                    }
                    let kind = if kind % 2 == 0 { kind % 16 } else { kind };
                    match device.allocate(bytes, alignment, kind, Pool(pool)) {
                        Ok(taken) => {
                            granted += 1;
                            device.free(taken)?;
                        }
                        Err(error) => ensure!(error.status().is_some(), "{error}"),
                    }
                }
                println!("# {granted} granted");
                device.stall()?;
                settles("KiB, MMU entries", before, now)?;
                victim.borrow_mut().check()
            },
        );
        suite.test(
            "all of the pool in pieces of a byte; the other process goes on",
            || {
                let before = at_rest(now)?;
                let mut taken = Vec::new();
                let opened = Opened::new()?;
                let end = loop {
                    match device.allocate(1, 1, surface::BITMAP, Pool::SYSTEM) {
                        Ok(node) => taken.push(node),
                        Err(error) => break error,
                    }
                };
                println!("# {} nodes: {end}", taken.len());
                ensure!(taken.len() > 1000, "only {} nodes", taken.len());
                victim.borrow_mut().check()?;
                for node in taken {
                    opened.device.free(node)?;
                }
                device.stall()?;
                settles("KiB, MMU entries", before, now)
            },
        );
        suite.test("threads that unlock and free what others lock", || {
            let before = at_rest(now)?;
            for _ in 0..3 {
                let output = system::again(&["--disorderly"])?.output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                ensure!(output.status.success(), "{} {text}", output.status);
            }
            settles("KiB, MMU entries", before, now)
        });
        suite.run()
    })
}
