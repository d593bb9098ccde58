// SPDX-License-Identifier: GPL-2.0-only
//! The exact words that the front end fetches: the idle loop, commits with and without a context, an event. They match
//! the examples in the project's notes on the hardware (command-hw.md 10.9), with this driver's differences: it copies
//! a client's words into the ring one after the other, and each submission ends with a drain.
//!
//! Reloads the module so that the driver's state is known. Arguments: `[MODULE PARAMETERS...]`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::draw::Engine;
use galcore_client::stream::Pipe;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::states;
use galcore_selftests::states::Scratch;
use galcore_selftests::system::Module;
use gpu_control::Board;
use gpu_control::FrontEndState;

const WAIT: u32 = 0x3800_00c8;
const LINK: u32 = 0x4000_0000;
/// Two units: wait until the pixel engine has reached this point.
const STALL: [[u32; 2]; 2] = [[0x0801_0e02, 0x701], [0x4800_0000, 0x701]];

/// A 64-bit unit and its fetch address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    address: u32,
    words: [u32; 2],
}

struct Bench {
    paint: Paint,
    control: Control,
    board: Board,
    buffer: Buffer,
    dump: Buffer,
}

impl Bench {
    fn new() -> Result<Self> {
        let paint = Paint::new()?;
        let control = Control::open()?;
        Ok(Self {
            board: control.board().context("an unknown board")?,
            buffer: paint.device().allocate_contiguous(0x8000)?,
            dump: paint
                .device()
                .allocate_contiguous(gpu_control::FETCH_DUMP_BYTES as u64)?,
            paint,
            control,
        })
    }

    /// Units fetched since the last call, up to a complete idle loop.
    fn fetched(&self) -> Result<Vec<Unit>> {
        let begin = Stopwatch::start();
        let mut units = Vec::new();
        while self.control.front_end() != Some(FrontEndState::Waiting) || !ends_in_loop(&units) {
            ensure!(!begin.is_over(Duration::from_secs(10)), "it does not idle");
            std::thread::sleep(Duration::from_millis(1));
            units.extend(self.dumped());
        }
        Ok(units)
    }

    /// Units fetched since the last call.
    fn dumped(&self) -> Vec<Unit> {
        self.dump.memory.fill(0);
        let base = self.paint.client.base_address();
        self.control
            .write(gpu_control::FETCH_DUMP, self.dump.address + base);
        let word = |index: usize, part: usize| self.dump.memory.read(index * 16 + part * 4);
        (0..gpu_control::FETCH_DUMP_UNITS)
            .take_while(|&index| word(index, 3) != 0)
            .map(|index| Unit {
                address: word(index, 0),
                words: [word(index, 1), word(index, 2)],
            })
            .collect()
    }

    /// Flush bits of all caches of the core, and the unit that flushes its tile status.
    fn caches(&self) -> (u32, [u32; 2]) {
        let tile_status = [0x0801_0594, 1];
        match self.board {
            Board::Dove => (0x2b, tile_status),
            Board::Gc320 => (0x8, [0x1800_0000, 0]),
            _ => (0x23, tile_status),
        }
    }

    /// Units that wait for all engines and write back all caches.
    fn drain(&self) -> Vec<[u32; 2]> {
        let (caches, tile_status) = self.caches();
        let mut units = vec![[0x0801_0e03, caches], tile_status];
        units.extend(STALL);
        units
    }

    fn select(&self, pipe: Pipe) -> Vec<[u32; 2]> {
        let mut units = self.drain();
        units.push([0x0801_0e00, pipe.number() as u32]);
        units
    }

    /// Units that load the scratch memory's address into all address states of a pipe, and 0 into its data states. One
    /// command loads each run of adjacent states.
    fn scrub(&self, pipe: Pipe) -> Result<Vec<[u32; 2]>> {
        let scratch = Scratch::read()?;
        let data = states::data_of(self.board, pipe).into_iter();
        let data = data.flat_map(|(first, count)| (first..first + 4 * count).step_by(4));
        let mut all = states::addresses_of(self.board);
        all.extend(data);
        all.sort_unstable();
        all.retain(|&byte| states::pipe_of(byte) == pipe);
        let value = |byte: u32| {
            if states::takes_address(byte) {
                (byte, scratch.of(byte))
            } else {
                (byte, 0)
            }
        };
        Ok(loads(all.into_iter().map(value)))
    }

    /// Units that clear a pipe's page of scratch memory: its address, the states for a fill with zeros, the start, and
    /// a drain.
    fn clear(&self, pipe: Pipe) -> Result<Vec<[u32; 2]>> {
        /// A rectangle of 64 x 16 pixels.
        const AREA: u32 = 16 << 16 | 64;
        let scratch = Scratch::read()?;
        let mut targets = states::addresses_of(self.board);
        targets.sort_unstable();
        targets.retain(|byte| match pipe {
            Pipe::Pipe3d => (0x1600..0x1720).contains(byte),
            _ => *byte == 0x1228,
        });
        let mut units = loads(targets.into_iter().map(|byte| (byte, scratch.of(byte))));
        let (values, start) = match pipe {
            Pipe::Pipe3d => {
                let mut values = vec![
                    (0x1604, 0x606),
                    (0x160c, 256),
                    (0x1614, 256),
                    (0x1620, AREA),
                ];
                values.extend([(0x1630, u32::MAX), (0x1634, u32::MAX), (0x163c, 0x1_ffff)]);
                values.extend((0x1640..0x1650).step_by(4).map(|byte| (byte, 0)));
                values.extend([(0x1678, 0), (0x16a0, 0), (0x16b8, 0)]);
                values.extend((0x1700..0x1720).step_by(4).map(|byte| (byte, 0)));
                (values, vec![[0x0801_0580, 1]])
            }
            _ => {
                let mut values = vec![(0x122c, 256), (0x1230, 0), (0x1234, 6), (0x125c, 0x30_cccc)];
                values.extend([(0x1260, 0), (0x1264, AREA), (0x1268, 0xff)]);
                for byte in [
                    0x126c, 0x1270, 0x1274, 0x127c, 0x12b4, 0x12bc, 0x12c0, 0x12d4, 0x12f0, 0x130c,
                    0x1320,
                ] {
                    values.push((byte, 0));
                }
                (values, vec![[0x2000_0100, 0], [0, AREA]])
            }
        };
        units.extend(loads(values.into_iter()));
        units.extend(start);
        units.extend(self.drain());
        Ok(units)
    }

    /// Commits `stream` and waits. Returns the units fetched for it, after the idle loop before it.
    fn commit(&self, context: u32, pipe: Pipe, stream: &Stream) -> Result<Vec<Unit>> {
        let device = self.paint.device();
        device.stall()?;
        // A flush of the MMU is also a job.
        let mut units = at_rest(|| self.fetched())?;
        // The front end may stay in that loop until the commit.
        units.drain(..units.len() - 2);
        let record = place(&self.buffer, 0, pipe, stream);
        device.commit(&record, context, &mut Queue::new())?;
        device.stall()?;
        units.extend(self.fetched()?);
        Ok(units)
    }
}

/// Units that load states in order, with one command for each run of adjacent states.
fn loads(states: impl Iterator<Item = (u32, u32)>) -> Vec<[u32; 2]> {
    let mut stream = Stream::new();
    let mut run: Vec<(u32, u32)> = Vec::new();
    // An address that ends the last run.
    for (byte, value) in states.chain([(u32::MAX, 0)]) {
        match run.last() {
            Some((last, _)) if last + 4 != byte || run.len() == 1023 => {
                let values: Vec<u32> = run.iter().map(|(_, value)| *value).collect();
                stream.states(run[0].0, &values);
                run = vec![(byte, value)];
            }
            _ => run.push((byte, value)),
        }
    }
    units_of(&stream)
}

/// Whether the last unit, or the one before it, is a LINK back to a WAIT.
fn ends_in_loop(units: &[Unit]) -> bool {
    let is_link = |unit: &Unit| unit.words == [LINK | 2, unit.address.wrapping_sub(8)];
    matches!(units, [.., a, b] if is_link(a) || is_link(b))
}

/// Removes the idle loop from the front, a WAIT and a LINK to it. Returns the WAIT's address and the remaining units.
fn idle_loop(units: &[Unit]) -> Result<(u32, &[Unit])> {
    let is_link = |unit: &Unit| unit.words == [LINK | 2, unit.address - 8];
    // The driver writes the address before it turns the WAIT into a LINK. A WAIT's second word is ignored.
    let is_loop = |unit: &&Unit| unit.words[0] == WAIT || is_link(unit);
    let (these, rest) = units.split_at(units.iter().take_while(is_loop).count());
    let [first, ..] = these else {
        anyhow::bail!("no idle loop, but {units:x?}");
    };
    let wait = first.address - if is_link(first) { 8 } else { 0 };
    for unit in these {
        let from_wait = if is_link(unit) { 8 } else { 0 };
        same("where the loop is", unit.address, wait + from_wait)?;
    }
    Ok((wait, rest))
}

/// Removes these units from the front. They must be adjacent.
fn expect<'a>(what: &str, units: &'a [Unit], wanted: &[[u32; 2]]) -> Result<&'a [Unit]> {
    ensure!(
        units.len() >= wanted.len(),
        "{what}: no more than {units:x?}"
    );
    let (these, rest) = units.split_at(wanted.len());
    for (index, (unit, wanted)) in (0..).zip(these.iter().zip(wanted)) {
        same(
            &format!("{what}, unit {index}"),
            hex(unit.words),
            hex(*wanted),
        )?;
        same("address", unit.address, these[0].address + 8 * index)?;
    }
    Ok(rest)
}

fn hex(words: [u32; 2]) -> String {
    format!("{:08x} {:08x}", words[0], words[1])
}

/// Removes the end of a submission: an event, for a GC600 also the units that follow it, and the next idle loop.
fn end<'a>(bench: &Bench, units: &'a [Unit]) -> Result<&'a [Unit]> {
    let [event, rest @ ..] = units else {
        anyhow::bail!("nothing behind the commands");
    };
    same("event", event.words[0], 0x0801_0e01)?;
    let id = event.words[1];
    ensure!(
        id & !0x1f == 0x40 && id & 0x1f < 30,
        "event {id:#x} is not from the pixel engine"
    );
    let rest = match bench.board {
        Board::Dove => expect("delay", rest, &[[0x0805_0100, 0], [0, 0], [0, 0]])?,
        _ => rest,
    };
    let (wait, behind) = idle_loop(rest)?;
    same("WAIT", hex(rest[0].words), hex([WAIT, 0]))?;
    same("LINK", rest.get(1).map(|unit| unit.address), Some(wait + 8))?;
    Ok(behind)
}

/// Removes a LINK. Its prefetch count must cover all of `bytes`, up to the next 64-byte boundary.
fn linked<'a>(what: &str, units: &'a [Unit], from: u32, bytes: u32) -> Result<&'a [Unit]> {
    let [link, first, ..] = units else {
        anyhow::bail!("{what}: no LINK, but {units:x?}");
    };
    same("where the LINK is", link.address, from)?;
    let to = link.words[1];
    let prefetch = ((to + bytes).next_multiple_of(64) - to) / 8;
    same(what, link.words[0], LINK | prefetch)?;
    same("where it leads", first.address, to)?;
    Ok(&units[1..])
}

/// The units of a client's stream.
fn units_of(stream: &Stream) -> Vec<[u32; 2]> {
    let pairs = stream.words().chunks(2);
    pairs.map(|pair| [pair[0], pair[1]]).collect()
}

/// The driver's units before the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    /// None.
    Bare,
    /// A pipe switch.
    Switch,
    /// A pipe switch, a clear of scratch memory, and loads of all address and data states of the pipe, at its first
    /// use.
    First,
}

/// A commit without a context load: LINK, perhaps a pipe switch and a scrub, the client's words, drain, event, idle
/// loop.
fn plain(bench: &Bench, context: u32, pipe: Pipe, stream: &Stream, front: Front) -> Result<()> {
    let units = bench.commit(context, pipe, stream)?;
    let mut wanted = if front == Front::Bare {
        Vec::new()
    } else {
        bench.select(pipe)
    };
    if front == Front::First {
        wanted.extend(bench.clear(pipe)?);
        wanted.extend(bench.scrub(pipe)?);
    }
    wanted.extend(units_of(stream));
    wanted.extend(bench.drain());
    let event = if bench.board == Board::Dove { 32 } else { 8 };
    let (wait, rest) = idle_loop(&units)?;
    let rest = linked(
        "LINK to the commands",
        rest,
        wait,
        wanted.len() as u32 * 8 + event + 16,
    )?;
    let rest = end(bench, expect("commands", rest, &wanted)?)?;
    same("units too many", rest, &[])
}

/// Some words for the 3D pipe without effect.
fn some_3d() -> Stream {
    let mut stream = Stream::new();
    stream.nop().state(0xa14, 5).nop().states(0x1640, &[7; 4]);
    stream
}

fn tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("the idle loop is WAIT 200 and LINK to it", move || {
        let units = bench.fetched()?;
        let last = units.len().saturating_sub(2);
        let (_, rest) = idle_loop(&units[last..])?;
        same("units too many", rest, &[])
    });
    suite.test(
        "without a context: the client's words, drain, event",
        move || {
            if bench.board == Board::Gc320 {
                return skip("this core has no 3D pipe");
            }
            // The selected pipe is unknown at first.
            plain(bench, 0, Pipe::Pipe3d, &some_3d(), Front::First)?;
            plain(bench, 0, Pipe::Pipe3d, &some_3d(), Front::Bare)
        },
    );
    suite.test("a pipe switch drains the other pipe", move || {
        if bench.board != Board::Dove {
            return skip("this core has one pipe");
        }
        let mut stream = Stream::new();
        stream.nop();
        plain(bench, 0, Pipe::Pipe2d, &stream, Front::First)?;
        plain(bench, 0, Pipe::Pipe2d, &stream, Front::Bare)?;
        plain(bench, 0, Pipe::Pipe3d, &stream, Front::Switch)
    });
    suite.test(
        "a context is entered where the selected pipe wants it",
        move || {
            if bench.board == Board::Gc320 {
                return skip("contexts of a core without 3D are not loaded");
            }
            let device = bench.paint.device();
            let contexts = [device.attach()?.context, device.attach()?.context];
            let mut stream = Stream::new();
            stream.nop();
            let flush = |caches: u32| vec![[0x0801_0e03, caches], STALL[0], STALL[1]];
            let mut from_2d = flush(8);
            from_2d.push([0x0801_0e00, 0]);
            from_2d.extend(flush(7));
            for (round, context) in contexts.into_iter().cycle().take(4).enumerate() {
                // The last commit was in the 3D pipe, except on a core that also has the other one.
                let is_2d = bench.board == Board::Dove && round % 2 == 1;
                if is_2d {
                    bench.commit(0, Pipe::Pipe2d, &stream)?;
                }
                let units = bench.commit(context, Pipe::Pipe3d, &some_3d())?;
                let (wait, rest) = idle_loop(&units)?;
                let [link, first, ..] = rest else {
                    anyhow::bail!("nothing was fetched");
                };
                same("where the LINK is", link.address, wait)?;
                // Its count must cover at least a LINK, and it leads out of the ring.
                same("where the frame begins", first.address, link.words[1])?;
                let [to_context, entry, ..] = &rest[1..] else {
                    anyhow::bail!("no context");
                };
                let context_at = to_context.words[1];
                ensure!(
                    to_context.words[0] & 0xf800_0000 == LINK,
                    "no LINK to the context"
                );
                same("where the context is entered", entry.address, context_at)?;
                let wanted = if is_2d { from_2d.clone() } else { flush(7) };
                let behind = expect("head of the context", &rest[2..], &wanted)?;
                // States, then a stall and the LINK back.
                let back = behind
                    .windows(3)
                    .position(|units| {
                        [units[0].words, units[1].words] == STALL
                            && units[2].words[0] & 0xf800_0000 == LINK
                    })
                    .context("no stall and LINK at the context's end")?;
                let wanted_bytes = match (bench.board, is_2d) {
                    // The vendor driver's bufferSize, and the same without the switch (2 units of stall, flush and
                    // select).
                    (Board::Dove, true) => 0x39f8,
                    (Board::Dove, false) => 0x39f8 - 32,
                    (Board::Gc2000, _) => 0x3a78 - 32,
                    _ => 0x3a18 - 32,
                };
                let last = behind[back + 2];
                same(
                    "bytes of the context",
                    last.address + 8 - context_at,
                    wanted_bytes,
                )?;
                let announced = (to_context.words[0] & 0xffff) * 8;
                let to_end = (context_at + wanted_bytes).next_multiple_of(64) - context_at;
                same("bytes announced", announced, to_end)?;
                same("where it leads back", last.words[1], to_context.address + 8)?;
                let mut wanted = units_of(&some_3d());
                wanted.extend(bench.drain());
                let rest = expect("commands", &behind[back + 3..], &wanted)?;
                same("units too many", end(bench, rest)?, &[])?;
            }
            for context in contexts {
                device.detach(context)?;
            }
            Ok(())
        },
    );
    suite.test("a fill of the 2D engine", move || {
        if !has_2d(bench.paint.client.identity()) {
            return skip("this core has no 2D engine");
        }
        let mut stream = Stream::new();
        let all = Rect::new(0, 0, WIDTH, HEIGHT);
        // DE_ROT_ANGLE. Without it the driver would load this state before the commands.
        stream.state(0x12bc, 0);
        Engine::TwoD.fill(&mut stream, &bench.paint.surface, all, 0xff00_ff00);
        stream.state(0x380c, 8);
        let draw = [
            [0x2000_0100, 0xdead_deed],
            [0, HEIGHT << 16 | WIDTH],
            [0x0801_0000, 0],
            [0x0801_0000, 0],
            [0x0801_0000, 0],
            [0x0801_0e03, 8],
        ];
        let units = units_of(&stream);
        same(
            "the client's last words",
            &units[units.len() - 6..],
            &draw[..],
        )?;
        // On a dove, an earlier test has used the 2D pipe.
        let front = match bench.board {
            Board::Dove => Front::Switch,
            _ => Front::First,
        };
        plain(bench, 0, Pipe::Pipe2d, &stream, front)?;
        plain(bench, 0, Pipe::Pipe2d, &stream, Front::Bare)?;
        bench.paint.expect(|_, _| 0xff00_ff00)
    });
    suite.test("no violation", move || {
        same("violations", bench.control.violations(), 0)
    });
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&[])?;
        if Module::is_loaded() {
            Module::unload()?;
        }
        // A core that powers on starts with additional words.
        let module = Module::from_words(&options.rest)?;
        module.with(&["powerManagement=0"]).load_or_fail()?;
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        tests(&mut suite, &bench);
        let result = suite.run();
        for buffer in [&bench.buffer, &bench.dump] {
            bench.paint.device().free_contiguous(buffer)?;
        }
        bench.paint.close()?;
        result
    })
}
