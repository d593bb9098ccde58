// SPDX-License-Identifier: GPL-2.0-only
//! Several processes commit at full speed, with events of all kinds after each commit. Every signal must come exactly
//! once, records must run in order, and nothing may be freed before the GPU's last use.
//!
//! * Each commit draws, and its queue writes ascending numbers to one word of the process (WRITE_DATA) before, between,
//!   and after its other records. The word must never decrease, and must have reached the value that a signal implies.
//! * A node that a queue frees is the target of the same commit. If the driver freed it early, the next process to get
//!   the memory would see another process's color instead of zeros or its own color, and the same process would see
//!   the memory change.

use std::cell::Cell;
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
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;

/// Pending commits of a process.
const DEPTH: usize = 16;
/// Words after the common one. Each record also writes one of them.
const SLOTS: u32 = 1023;
/// Pixels per row of the additional target. The whole target is one page.
const SIDE_WIDTH: u32 = 64;
/// Rows of the additional target.
const SIDE_HEIGHT: u32 = 16;
/// KiB by which free memory may change on its own.
const NOISE: u64 = 4096;

/// The object that a commit released, checked after its signal.
enum Given {
    Nothing,
    Node(Node),
    Buffers(Buffer, Buffer),
    User(Surface),
    Timer(u32),
    Manual(i32),
}

/// A commit whose signal has not been waited for.
struct Pending {
    number: u32,
    colour: u32,
    /// The lowest value of the word when the signal is set.
    word: u32,
    given: Given,
}

struct Job {
    paint: Paint,
    /// The node that WRITE_DATA writes to.
    log: Memory,
    log_address: u32,
    /// The last number written, and the last one seen.
    written: u32,
    seen: u32,
    signals: Vec<i32>,
    manual: Vec<i32>,
    pending: Vec<Option<Pending>>,
    random: Random,
    /// Highest byte of its colors, not 0. Other processes have other values.
    tag: u32,
    longest: Duration,
}

impl Job {
    fn new(seed: u32) -> Result<Self> {
        let paint = Paint::new()?;
        let device = paint.device();
        let bytes = (SLOTS + 1) * 4;
        let node = device.allocate(bytes, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
        let location = device.lock(node)?;
        let log = device.memory(node, location, paint.client.pool())?;
        let make = |manual| {
            (0..DEPTH)
                .map(|_| device.create_signal(manual))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            signals: make(false)?,
            manual: make(true)?,
            log,
            log_address: location.address,
            written: 0,
            seen: 0,
            pending: (0..DEPTH).map(|_| None).collect(),
            random: Random::new(seed),
            tag: 1 + seed % 255,
            longest: Duration::ZERO,
            paint,
        })
    }

    /// Writes the next number.
    fn write(&mut self, queue: &mut Queue) {
        self.written += 1;
        let slot = 1 + self.written % SLOTS;
        queue
            .write_data(self.log_address + slot * 4, self.written)
            .write_data(self.log_address, self.written);
    }

    /// Reads and checks the word.
    fn look(&mut self) -> Result<u32> {
        let now = self.log.read(0);
        ensure!(
            (self.seen..=self.written).contains(&now),
            "the word is {now}, was {}, {} were submitted",
            self.seen,
            self.written
        );
        self.seen = now;
        Ok(now)
    }

    /// A surface of one page on fresh memory. It must be zero. Pool memory may also contain this process's own earlier
    /// draws.
    fn side(&mut self, node: Node, location: Location, memory: Memory) -> Result<Surface> {
        let own = (node.pool == Pool::SYSTEM).then_some(self.tag);
        let words = (0..memory.len() & !3).step_by(4);
        for at in words {
            let found = memory.read(at);
            ensure!(
                found == 0 || Some(found >> 24) == own,
                "fresh memory at {:#x} has {found:#010x} at {at:#x}",
                location.address
            );
        }
        if own.is_some() {
            memory.fill(0);
            // If the memory was freed too early, an earlier commit would still draw there.
            if self.random.below(16) == 0 {
                self.paint.device().stall()?;
                let found = memory.find_other_than(0);
                ensure!(found.is_none(), "fresh memory changes: {found:x?}");
            }
        }
        Ok(Surface {
            node,
            location,
            memory,
            width: SIDE_WIDTH,
            height: SIDE_HEIGHT,
            stride: SIDE_WIDTH * 4,
        })
    }

    fn no_node() -> Node {
        Node {
            handle: 0,
            pool: Pool::USER,
            bytes: 4096,
            surface_type: uapi::surface::BITMAP,
        }
    }

    /// Commits number `number`, with records of a random kind.
    fn commit(&mut self, number: u32) -> Result<()> {
        let slot = number as usize % DEPTH;
        self.settle(slot)?;
        let colour = self.tag << 24 | number;
        let mut stream = self.paint.fill_cell(number, colour);
        let mut queue = Queue::new();
        self.write(&mut queue);
        let device = self.paint.device();
        let mut side = None;
        let kind = self.random.below(9);
        let given = match kind {
            // FREE of a node in the pool, or UNLOCK and FREE of a page-backed one.
            0..=2 => {
                let pool = if kind == 0 {
                    Pool::CONTIGUOUS
                } else {
                    Pool::SYSTEM
                };
                let node = device.allocate(4096, 64, uapi::surface::BITMAP, pool)?;
                let location = device.lock(node)?;
                let memory = device.memory(node, location, self.paint.client.pool())?;
                side = Some(self.side(node, location, memory)?);
                if self.paint.device().unlock(node)? {
                    queue.unlock(node);
                }
                self.write(&mut queue);
                queue.free(node);
                Given::Node(node)
            }
            3 => {
                let contiguous = device.allocate_contiguous(4096)?;
                let non_paged = device.allocate_non_paged(4096)?;
                if let Some((at, found)) = non_paged.memory.find_other_than(0) {
                    bail!("fresh non-paged memory has {found:#010x} at {at:#x}");
                }
                non_paged.memory.fill(colour);
                let location = Location {
                    address: contiguous.address,
                    logical: contiguous.logical,
                };
                let memory = contiguous.memory.clone();
                side = Some(self.side(Self::no_node(), location, memory)?);
                queue.free_contiguous(&contiguous);
                self.write(&mut queue);
                queue.free_non_paged(&non_paged);
                Given::Buffers(contiguous, non_paged)
            }
            4 => {
                let file = system::memory_file(4096)?;
                let memory = Memory::new(Region::map(file, 4096, 0)?);
                let mapping = device.map_user(memory.address(), 4096)?;
                let location = Location {
                    address: mapping.address,
                    logical: memory.address(),
                };
                let surface = self.side(Self::no_node(), location, memory)?;
                side = Some(surface.clone());
                queue.unmap_user(&mapping);
                Given::User(surface)
            }
            5 => {
                let timer = number % 8;
                queue.timestamp(timer, uapi::timestamp::START);
                self.write(&mut queue);
                queue.timestamp(timer, uapi::timestamp::STOP);
                Given::Timer(timer)
            }
            6 => {
                queue.signal(self.manual[slot]);
                Given::Manual(self.manual[slot])
            }
            7 => {
                queue.push(&uapi::Interface::new(uapi::Command::COMMIT_DONE));
                Given::Nothing
            }
            _ => Given::Nothing,
        };
        if let Some(side) = &side {
            let all = Rect::new(0, 0, SIDE_WIDTH, SIDE_HEIGHT);
            let engine = self.paint.engine();
            engine.fill(&mut stream, side, all, colour);
            stream.flush(engine.pipe());
        }
        self.write(&mut queue);
        let word = self.written;
        queue.signal(self.signals[slot]);
        self.write(&mut queue);
        if self.random.below(4) == 0 {
            self.paint.commit(&stream, &mut Queue::new())?;
            self.paint.device().commit_queue(&mut queue)?;
        } else {
            self.paint.commit(&stream, &mut queue)?;
        }
        self.pending[slot] = Some(Pending {
            number,
            colour,
            word,
            given,
        });
        self.look()?;
        Ok(())
    }

    /// Waits for the commit in `slot` and checks its results.
    fn settle(&mut self, slot: usize) -> Result<()> {
        let Some(pending) = self.pending[slot].take() else {
            return Ok(());
        };
        let number = pending.number;
        self.check(slot, pending)
            .with_context(|| format!("commit {number}"))
    }

    fn check(&mut self, slot: usize, pending: Pending) -> Result<()> {
        let begin = Instant::now();
        let signal = self.signals[slot];
        self.paint.device().wait_signal(signal, 60_000)?;
        self.longest = self.longest.max(begin.elapsed());
        let word = self.look()?;
        ensure!(
            word >= pending.word,
            "its signal has come but the word is {word}, not {}",
            pending.word
        );
        let place = cell(pending.number);
        let pixel = self.paint.surface.pixel(place.x, place.y);
        harness::same_word("its pixel", pixel, pending.colour)?;
        let device = self.paint.device();
        refused(
            "its signal once more",
            device.wait_signal(signal, 0),
            Status::TIMEOUT,
        )?;
        match pending.given {
            Given::Nothing => {}
            Given::Node(node) => refused(
                "LOCK of its node",
                device.lock(node),
                Status::INVALID_OBJECT,
            )?,
            Given::Buffers(contiguous, non_paged) => {
                let gone = Status::NOT_FOUND;
                refused("FREE_CONTIGUOUS", device.free_contiguous(&contiguous), gone)?;
                refused("FREE_NON_PAGED", device.free_non_paged(&non_paged), gone)?;
            }
            Given::User(surface) => {
                for (x, y) in [(0, 0), (SIDE_WIDTH - 1, SIDE_HEIGHT - 1)] {
                    harness::same_word("user memory", surface.pixel(x, y), pending.colour)?;
                }
            }
            Given::Timer(timer) => match device.timer(timer) {
                Ok(_) => {}
                // A later commit has restarted it.
                Err(error) if error.status() == Some(Status::TIMER_OVERFLOW) => {}
                Err(error) => return Err(error.into()),
            },
            Given::Manual(id) => {
                device.wait_signal(id, 0).context("manual signal")?;
                device.wait_signal(id, 0).context("manual signal, again")?;
                device.set_signal(id, false)?;
                refused(
                    "manual signal after reset",
                    device.wait_signal(id, 0),
                    Status::TIMEOUT,
                )?;
            }
        }
        Ok(())
    }

    fn run(mut self, commits: u32) -> Result<Duration> {
        for number in 0..commits {
            self.commit(number)?;
        }
        for slot in 0..DEPTH {
            self.settle((commits as usize + slot) % DEPTH)?;
        }
        self.paint.client.finish()?;
        same("the word at the end", self.look()?, self.written)?;
        for number in self.written.saturating_sub(SLOTS) + 1..=self.written {
            let at = 1 + number % SLOTS;
            same("a word of its own", self.log.read(at as usize * 4), number)?;
        }
        for id in self.signals.iter().chain(&self.manual) {
            let what = format!("signal {id} at the end");
            refused(
                &what,
                self.paint.device().wait_signal(*id, 0),
                Status::TIMEOUT,
            )?;
        }
        let longest = self.longest;
        self.paint.close()?;
        Ok(longest)
    }
}

fn child(words: &[String]) -> Result<()> {
    let (seed, commits): (u32, u32) = (words[0].parse()?, words[1].parse()?);
    let longest = Job::new(seed)?.run(commits)?;
    println!("{}", longest.as_millis());
    Ok(())
}

/// Runs the processes. Returns the longest wait for a signal.
fn run(processes: u32, commits: u32) -> Result<u64> {
    let children: Vec<_> = (1..=processes)
        .map(|seed| {
            let (seed, commits) = ((seed * 7919).to_string(), commits.to_string());
            Ok(system::again(&["--child", &seed, &commits])?
                .stdout(Stdio::piped())
                .spawn()?)
        })
        .collect::<Result<_>>()?;
    let mut longest = 0;
    let mut wrong = Vec::new();
    for (index, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.trim().parse::<u64>() {
            Ok(milliseconds) if output.status.success() => longest = longest.max(milliseconds),
            _ => wrong.push(format!("process {index}: {} {text}", output.status)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(longest)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--child") {
        return harness::exit(child(&words[1..]));
    }
    harness::program(|| {
        let options = Options::parse(&["processes", "commits"])?;
        let processes = options.number("processes", 4)?;
        let commits = options.number("commits", 120)?;
        let milliseconds = u64::from(processes) * u64::from(commits) * 50;
        harness::allow(Duration::from_millis(milliseconds));
        let control = &Control::open()?;
        let violations = control.violations();
        // Warms up the system's allocations before memory is measured.
        run(processes, 4)?;
        let used = &Cell::new(ProcGc::used_now()?);
        let free = system::settled_free()?;
        let mut suite = Suite::new();
        suite.test(
            format!("{processes} processes, {commits} commits each: all once, all in order"),
            move || {
                let begin = Instant::now();
                let longest = run(processes, commits)?;
                let each = begin.elapsed().as_micros() / u128::from(processes * commits).max(1);
                println!("# {each} us a commit, longest wait for a signal {longest} ms");
                Ok(())
            },
        );
        suite.test("all memory comes back", move || {
            settles("KiB used", used.get(), ProcGc::used_now)?;
            system::memory_is_back(free, NOISE)
        });
        suite.test("the GPU has nothing to complain of", move || {
            same("violations", control.violations(), violations)
        });
        suite.run()
    })
}
