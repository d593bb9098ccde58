// SPDX-License-Identifier: GPL-2.0-only
//! Random memory operations from several processes, some of which are killed during the run. Each process must read the
//! right data, and nothing may leak.

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::ChildStdout;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Buffer;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::sys::Region;
use galcore_client::uapi::cache;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::BLOCK;

/// KiB by which free memory may change on its own: the kernel's caches, whether after 4,000 operations or 1,000,000.
const NOISE: u64 = 4096;

/// Most objects of each kind that a process has at once.
const MOST: usize = 32;

struct Held {
    node: Node,
    /// The value of all words of its first [`BLOCK`].
    value: u32,
    view: Option<(Location, Memory, bool)>,
}

struct Mapped {
    memory: Memory,
    mapping: MapUserMemory,
    value: u32,
}

/// Fails unless memory contains only zeros and words of the process that writes `tag`.
fn zeros_or_own(what: &str, memory: &Memory, tag: u32) -> Result<()> {
    let words = (0..memory.len() & !3).step_by(4);
    let mut words = words.map(|at| (at, memory.read(at)));
    let foreign = words.find(|&(_, word)| word != 0 && word & 0xff != tag);
    anyhow::ensure!(
        foreign.is_none(),
        "{what}: another process's word: {foreign:x?}"
    );
    Ok(())
}

/// The state of one process.
struct Worker {
    client: Client,
    random: Random,
    /// Low byte of everything that it writes.
    tag: u32,
    nodes: Vec<Held>,
    buffers: Vec<(Buffer, bool, u32)>,
    mapped: Vec<Mapped>,
    stale: Vec<Node>,
}

impl Worker {
    fn new(seed: u32) -> Result<Self> {
        Ok(Self {
            client: Client::start()?,
            random: Random::new(seed.wrapping_mul(0x9e37_79b1)),
            tag: seed & 0xff,
            nodes: Vec::new(),
            buffers: Vec::new(),
            mapped: Vec::new(),
            stale: Vec::new(),
        })
    }

    /// A random value with this process's tag.
    fn value(&mut self) -> u32 {
        self.random.colour() & !0xff | self.tag
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.below(count as u32) as usize
    }

    fn allocate(&mut self) -> Result<()> {
        let pools = [
            Pool::SYSTEM,
            Pool::SYSTEM,
            Pool::CONTIGUOUS,
            Pool::VIRTUAL,
            Pool::VIRTUAL,
            Pool::DEFAULT,
        ];
        let pool = pools[self.pick(pools.len())];
        let most = 1 << (8 + self.random.below(9));
        let bytes = BLOCK as u32 + self.random.below(most);
        let alignment = [0, 1, 64, 96, 4096][self.pick(5)];
        let kind = self.random.below(12);
        let device = self.client.device();
        match device.allocate(bytes, alignment, kind, pool) {
            Ok(node) => self.nodes.push(Held {
                node,
                value: 0,
                view: None,
            }),
            Err(error) if error.status() == Some(Status::OUT_OF_MEMORY) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Locks the node or checks its present contents, and writes a new value.
    fn use_node(&mut self, index: usize) -> Result<()> {
        let (cached, by_gpu) = (self.random.below(3) == 0, self.random.below(4) == 0);
        let value = self.value();
        let device = self.client.device();
        let held = &mut self.nodes[index];
        let node = held.node;
        if held.view.is_none() {
            let cached = cached && node.pool == Pool::VIRTUAL;
            let location = if cached {
                device.lock_cacheable(node)?
            } else {
                device.lock(node)?
            };
            let memory = device.memory(node, location, self.client.pool())?;
            if held.value == 0 {
                match node.pool {
                    Pool::SYSTEM => zeros_or_own("a fresh node", &memory, self.tag)?,
                    _ => expect_all("a fresh node", &memory, 0)?,
                }
                // From here on `value` describes the contents.
                memory.part(0, BLOCK).context("short node")?.fill(0);
            }
            held.view = Some((location, memory, cached));
        }
        let Some((location, memory, cached)) = held.view.clone() else {
            return Ok(());
        };
        let block = memory.part(0, BLOCK).context("short node")?;
        expect_all("a node", &block, held.value)?;
        if by_gpu {
            if cached {
                device.cache(cache::FLUSH, node.handle, location.logical, BLOCK as u64)?;
            }
            let target = surface_at(location.address, block.clone())?;
            gpu_fill(&mut self.client, &target, value)?;
            if cached {
                let device = self.client.device();
                device.cache(
                    cache::INVALIDATE,
                    node.handle,
                    location.logical,
                    BLOCK as u64,
                )?;
            }
            expect_all("a node after the GPU", &block, value)?;
        } else {
            block.fill(value);
            if cached {
                device.cache(cache::CLEAN, node.handle, location.logical, BLOCK as u64)?;
            }
        }
        self.nodes[index].value = value;
        Ok(())
    }

    fn unlock(&mut self, index: usize) -> Result<()> {
        let device = self.client.device();
        let held = &mut self.nodes[index];
        if held.view.take().is_none() {
            // The record of the last unlock may or may not have run yet. Both are right.
            return Ok(());
        }
        if device.unlock(held.node)? {
            device.commit_queue(Queue::new().unlock(held.node))?;
        }
        Ok(())
    }

    fn free(&mut self, index: usize) -> Result<()> {
        let how = self.random.below(4);
        let held = self.nodes.swap_remove(index);
        let device = self.client.device();
        let node = held.node;
        let mut queue = Queue::new();
        match (how, held.view) {
            (0, Some(_)) => {
                // Freed while locked.
                device.free(node)?;
                if device.unlock(node)? {
                    queue.unlock(node);
                }
            }
            (1, None) => {
                queue.free(node);
            }
            (_, view) => {
                if view.is_some() && device.unlock(node)? {
                    queue.unlock(node);
                }
                if how == 2 {
                    queue.free(node);
                } else {
                    device.free(node)?;
                }
            }
        }
        if !queue.is_empty() {
            device.commit_queue(&mut queue)?;
        }
        self.stale.push(node);
        Ok(())
    }

    fn buffer(&mut self) -> Result<()> {
        let grow = self.buffers.len() < MOST && self.random.below(2) == 0;
        if grow || self.buffers.is_empty() {
            let bytes = u64::from(1 + self.random.below(40_000));
            let contiguous = self.random.below(2) == 0;
            let device = self.client.device();
            let buffer = if contiguous {
                device.allocate_contiguous(bytes)
            } else {
                device.allocate_non_paged(bytes)
            };
            let buffer = match buffer {
                Err(error) if error.status() == Some(Status::OUT_OF_MEMORY) => return Ok(()),
                other => other?,
            };
            expect_all("a fresh buffer", &buffer.memory, 0)?;
            let value = self.value();
            buffer.memory.fill(value);
            self.buffers.push((buffer, contiguous, value));
            return Ok(());
        }
        let index = self.pick(self.buffers.len());
        let (buffer, contiguous, value) = self.buffers.swap_remove(index);
        expect_all("a buffer", &buffer.memory, value)?;
        let by_queue = self.random.below(2) == 0;
        let device = self.client.device();
        match (by_queue, contiguous) {
            (false, true) => device.free_contiguous(&buffer)?,
            (false, false) => device.free_non_paged(&buffer)?,
            (true, true) => device.commit_queue(Queue::new().free_contiguous(&buffer))?,
            (true, false) => device.commit_queue(Queue::new().free_non_paged(&buffer))?,
        }
        Ok(())
    }

    fn user(&mut self) -> Result<()> {
        let grow = self.mapped.len() < MOST && self.random.below(2) == 0;
        if grow || self.mapped.is_empty() {
            let start = self.random.below(1024) as usize * 4;
            let bytes = BLOCK + self.random.below(16_384) as usize * 4;
            let all = Memory::new(Region::anonymous((start + bytes).next_multiple_of(4096))?);
            let memory = all.part(start, bytes).context("part")?;
            let device = self.client.device();
            let mapping = device.map_user(memory.address(), bytes as u64)?;
            self.mapped.push(Mapped {
                memory,
                mapping,
                value: 0,
            });
            return Ok(());
        }
        let index = self.pick(self.mapped.len());
        let what = self.random.below(4);
        if what < 2 {
            let value = self.value();
            let mapped = &mut self.mapped[index];
            let block = mapped.memory.part(0, BLOCK).context("part")?;
            expect_all("user memory", &block, mapped.value)?;
            mapped.value = value;
            let address = mapped.mapping.address;
            gpu_fill(
                &mut self.client,
                &surface_at(address, block.clone())?,
                value,
            )?;
            let (at, bytes) = (block.address(), block.len() as u64);
            self.client
                .device()
                .cache(cache::INVALIDATE, 0, at, bytes)?;
            return expect_all("user memory after the GPU", &block, value);
        }
        let mapped = self.mapped.swap_remove(index);
        let block = mapped.memory.part(0, BLOCK).context("part")?;
        expect_all("user memory", &block, mapped.value)?;
        let device = self.client.device();
        match what {
            2 => device.unmap_user(&mapped.mapping)?,
            _ => device.commit_queue(Queue::new().unmap_user(&mapped.mapping))?,
        }
        Ok(())
    }

    /// Freed handles must be invalid.
    fn abuse(&mut self) -> Result<()> {
        let device = self.client.device();
        for node in self.stale.drain(..) {
            // Its last unlock may still be pending.
            match device.free(node) {
                Err(error) => same("FREE", error.status(), Some(Status::INVALID_DATA))?,
                Ok(()) => bail!("a freed node was freed"),
            }
            refused("LOCK", device.lock(node), Status::INVALID_OBJECT)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let count = self.nodes.len();
        match self.random.below(20) {
            0..5 if count < MOST => self.allocate(),
            5..10 if count > 0 => {
                let index = self.pick(count);
                self.use_node(index)
            }
            10..12 if count > 0 => {
                let index = self.pick(count);
                self.unlock(index)
            }
            12..15 if count > 0 => {
                let index = self.pick(count);
                self.free(index)
            }
            15 | 16 => self.buffer(),
            17 | 18 => self.user(),
            19 => self.abuse(),
            _ => self.allocate(),
        }
    }

    /// Releases everything. The driver's accounting must then show zero.
    fn finish(mut self) -> Result<()> {
        while !self.nodes.is_empty() {
            self.free(0)?;
        }
        while let Some((buffer, contiguous, value)) = self.buffers.pop() {
            expect_all("a buffer", &buffer.memory, value)?;
            if contiguous {
                self.client.device().free_contiguous(&buffer)?
            } else {
                self.client.device().free_non_paged(&buffer)?
            }
        }
        while let Some(mapped) = self.mapped.pop() {
            self.client.device().unmap_user(&mapped.mapping)?;
        }
        let device = self.client.device();
        device.stall()?;
        settles("bytes of nodes, of non-paged buffers", (0, 0), || {
            let books = device.database(std::process::id())?;
            Ok((books.video.bytes, books.non_paged.bytes))
        })?;
        settles("pinned KiB", 0, system::pinned)
    }
}

/// Runs a worker: makes `steps` steps, prints "done", and then either continues until it is killed, or cleans up and
/// exits.
fn work(words: &[String]) -> Result<()> {
    let [seed, steps, for_ever] = words else {
        bail!("seed, steps, for ever");
    };
    let (seed, steps): (u32, u32) = (seed.parse()?, steps.parse()?);
    let mut worker = Worker::new(seed)?;
    let what = |step: u64| move || format!("seed {seed}, step {step}");
    for step in 0..steps {
        worker.step().with_context(what(step.into()))?;
    }
    println!("done");
    if for_ever == "1" {
        for step in u64::from(steps).. {
            worker.step().with_context(what(step))?;
        }
    }
    worker.finish().with_context(what(u64::MAX))
}

struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    for_ever: bool,
}

impl Running {
    fn start(seed: u32, steps: u32, for_ever: bool) -> Result<Self> {
        let forever = if for_ever { "1" } else { "0" };
        let mut child =
            system::again(&["--worker", &seed.to_string(), &steps.to_string(), forever])?
                .stdout(Stdio::piped())
                .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        Ok(Self {
            child,
            output,
            for_ever,
        })
    }

    fn end(mut self, random: &mut Random) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        same("a worker", line.trim(), "done")?;
        if self.for_ever {
            std::thread::sleep(Duration::from_millis(random.below(150).into()));
            if self.child.try_wait()?.is_none() {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(());
            }
        }
        let mut rest = String::new();
        self.output.read_line(&mut rest)?;
        let status = self.child.wait()?;
        ensure!(
            status.success() && !self.for_ever,
            "a worker ended: {status} {rest}"
        );
        Ok(())
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--worker") {
        return harness::exit(work(&words[1..]));
    }
    harness::program(|| {
        let options = Options::parse(&["operations", "processes", "seed"])?;
        let operations = options.number("operations", 2000)?;
        let processes = options.number("processes", 4)?.max(1);
        let first_seed = options.number("seed", 1)?;
        harness::allow(Duration::from_secs(300 + u64::from(operations) / 20));
        let control = Control::open()?;
        // Warms up the kernel's allocations before memory is measured.
        Running::start(0, 50, false)?.end(&mut Random::new(1))?;
        let now = || Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?));
        let before = ProcGc::nothing_left()?;
        let free = system::settled_free()?;
        let slabs = || system::meminfo("SUnreclaim");
        let slabs_before = slabs()?;
        let rounds = operations.div_ceil(processes * 5000).max(3);
        let steps = operations.div_ceil(processes * rounds);
        let mut suite = Suite::new();
        suite.test(
            format!("{operations} operations of {processes} processes, {rounds} of them killed"),
            || {
                let mut random = Random::new(99);
                let begin = Instant::now();
                for round in 0..rounds {
                    let running = (0..processes)
                        .map(|index| {
                            let seed = first_seed + round * processes + index;
                            Running::start(seed, steps, index == round % processes)
                        })
                        .collect::<Result<Vec<_>>>()?;
                    // Waits for all of them, even if one reports an error.
                    let results: Vec<_> = running
                        .into_iter()
                        .map(|running| running.end(&mut random))
                        .collect();
                    for result in results {
                        result.with_context(|| format!("round {round}"))?;
                    }
                    settles("KiB used, MMU entries", before, now)
                        .with_context(|| format!("after round {round}"))?;
                }
                let took = begin.elapsed();
                println!(
                    "# {} us for each",
                    took.as_micros() / u128::from(operations)
                );
                Ok(())
            },
        );
        suite.test("no page, node or entry is missing", || {
            settles("KiB used, MMU entries", before, now)?;
            system::memory_is_back(free, NOISE)?;
            println!(
                "# the kernel's objects: {slabs_before} KiB before, {} KiB after",
                slabs()?
            );
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
