// SPDX-License-Identifier: GPL-2.0-only
//! COMMIT of 6.4.11: commands in several pieces, chained by `gcsHAL_COMMAND_LOCATION`, and in several parts, chained by
//! `gcsHAL_SUBCOMMIT`.

use std::cell::RefCell;
use std::fs;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::command_memory;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Node;
use galcore_client::raw;
use galcore_client::stream::Pipe;
use galcore_client::sys;
use galcore_client::sys::become_user;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use gpu_control::fault;
use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;

/// Pieces start at multiples of this offset in their buffer.
const PIECE_BYTES: u32 = 2048;
const BUFFER_BYTES: u32 = 64 * 1024;

/// More pieces than a chain may have.
const TOO_MANY: usize = 300;

struct Fixture {
    abi: &'static Abi,
    paint: Paint,
    buffer: Buffer,
    /// The parts of a COMMIT after the first. They must not move.
    parts: RefCell<Vec<Vec<u8>>>,
}

/// One piece of commands, as the fields of a `gcsHAL_COMMAND_LOCATION`.
#[derive(Clone, Copy)]
struct Piece {
    logical: u64,
    start: u32,
    size: u32,
    tail: u32,
    entry: u32,
    exit: u32,
}

impl Fixture {
    fn new() -> Result<Self> {
        let abi = Abi::named("6.4.11").context("a generation")?;
        let client = Client::with_device(Device::open_as(abi, true)?)?;
        let (buffer, _) = command_memory(client.device(), client.pool(), BUFFER_BYTES)?;
        Ok(Self {
            abi,
            paint: Paint::of(client)?,
            buffer,
            parts: RefCell::new(vec![Vec::new(); PARTS as usize]),
        })
    }

    /// Writes a stream into the buffer. Returns the record that would commit it alone, and the piece.
    fn piece(&self, number: u32, stream: &Stream) -> (uapi::CommandBufferRecord, Piece) {
        let start = number * PIECE_BYTES;
        let record = place(&self.buffer, start, self.paint.engine().pipe(), stream);
        let piece = Piece {
            logical: self.buffer.logical,
            start,
            size: record.offset + uapi::RESERVED_TAIL - start,
            tail: uapi::RESERVED_TAIL,
            entry: record.entry_pipe as u32,
            exit: record.exit_pipe as u32,
        };
        (record, piece)
    }

    /// A location that links to `next`.
    fn location(&self, piece: Piece, next: u64) -> Vec<u64> {
        let mut bytes = vec![0; self.abi.members["gcsHAL_COMMAND_LOCATION"]];
        for (field, value) in [
            ("videoMemNode", self.buffer.physical.into()),
            ("address", self.buffer.address.into()),
            ("logical", piece.logical),
            ("startOffset", piece.start.into()),
            ("size", piece.size.into()),
            ("reservedHead", uapi::RESERVED_HEAD.into()),
            ("reservedTail", piece.tail.into()),
            ("entryPipe", piece.entry.into()),
            ("exitPipe", piece.exit.into()),
            ("next", next),
        ] {
            let (at, size) = self.abi.fields[format!("gcsHAL_COMMAND_LOCATION.{field}").as_str()];
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
            .collect()
    }

    /// Commits `first` and the chain of locations at `next`. `more` sets further fields of the request by name.
    fn commit(
        &self,
        first: &uapi::CommandBufferRecord,
        next: u64,
        more: &[(&str, u64)],
    ) -> Result<Status> {
        let device = self.paint.device();
        let mut commit = self.abi.commit(first, 0, &Queue::new())?;
        let set = |bytes: &mut Vec<u8>, field: &str, value| {
            self.abi.set(bytes, "Commit", field, value);
        };
        set(&mut commit.bytes, "subCommit.commandBuffer.next", next);
        for (field, value) in more {
            set(&mut commit.bytes, field, *value);
        }
        let (at, _) = self.abi.header["hardwareType"];
        commit.bytes[at..at + 4].copy_from_slice(&device.hardware_type().to_le_bytes());
        device.exchange_bytes(&mut commit.bytes)?;
        let status = self.abi.header_of(&commit.bytes, "status");
        Ok(Status(status as i32))
    }
}

/// Each piece draws. All pieces run, in order.
fn all_run(count: u32) -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0101_0101)?;
    let colour = |number: u32| 0xc010_0000 + number;
    let streams: Vec<Stream> = (0..count)
        .map(|number| {
            let mut stream = fixture.paint.fill_cell(number, colour(number));
            // All pieces draw the last cell, so that the last piece must win.
            stream.append(&fixture.paint.fill_cell(CELLS - 1, colour(number)));
            stream
        })
        .collect();
    let pieces: Vec<_> = streams
        .iter()
        .enumerate()
        .map(|(number, stream)| fixture.piece(number as u32, stream))
        .collect();
    let mut locations: Vec<Vec<u64>> = Vec::new();
    let mut next = 0;
    for (_, piece) in pieces[1..].iter().rev() {
        locations.push(fixture.location(*piece, next));
        next = locations.last().context("a location")?.as_ptr() as usize as u64;
    }
    let status = fixture.commit(&pieces[0].0, next, &[])?;
    same("COMMIT", status, Status::OK)?;
    fixture.paint.client.finish()?;
    fixture.paint.expect(|x, y| match cell_of(x, y) {
        cell if cell == CELLS - 1 => colour(count - 1),
        cell if cell < count => colour(cell),
        _ => 0x0101_0101,
    })
}

/// A piece begins in its `entryPipe`, unless the piece before it has claimed to leave that selected. The next COMMIT
/// begins in the pipe that the last piece left, if it asks for the one that this piece claimed to leave.
fn pipes() -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0404_0404)?;
    let own = fixture.paint.engine().pipe();
    let other = match own {
        Pipe::Pipe2d => Pipe::Pipe3d,
        Pipe::Pipe3d => Pipe::Pipe2d,
    };
    let mut to_other = Stream::new();
    to_other.select_pipe(own, other);
    let draw = fixture.paint.fill_all(0xc0de_0004);
    let (first, left) = fixture.piece(0, &to_other);
    let (single, drawn) = fixture.piece(1, &draw);
    let leave = |exit| uapi::CommandBufferRecord {
        exit_pipe: exit,
        ..first
    };
    for (what, exit, entry, wanted) in [
        ("a right claim", other.number(), own.number(), Status::OK),
        (
            "a wrong claim",
            own.number(),
            own.number(),
            Status::INVALID_DATA,
        ),
        ("no pipe", other.number(), 7, Status::INVALID_DATA),
    ] {
        let piece = Piece {
            entry: entry as u32,
            ..drawn
        };
        let location = fixture.location(piece, 0);
        let next = location.as_ptr() as usize as u64;
        same(what, fixture.commit(&leave(exit), next, &[])?, wanted)?;
    }
    fixture.paint.client.finish()?;
    fixture.paint.expect(|_, _| 0xc0de_0004)?;
    // The last piece leaves the other pipe, and claims its own.
    let location = fixture.location(left, 0);
    let next = location.as_ptr() as usize as u64;
    same("COMMIT", fixture.commit(&single, next, &[])?, Status::OK)?;
    let status = fixture.commit(&single, 0, &[])?;
    same("a draw in the other pipe", status, Status::INVALID_DATA)?;
    let mut back = Stream::new();
    back.select_pipe(other, own);
    back.append(&fixture.paint.fill_all(0xc0de_0005));
    let (record, _) = fixture.piece(2, &back);
    same("COMMIT", fixture.commit(&record, 0, &[])?, Status::OK)?;
    fixture.paint.client.finish()?;
    fixture.paint.expect(|_, _| 0xc0de_0005)
}

/// A chain with an error in any place is refused as a whole.
fn refusals() -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0202_0202)?;
    let stream = fixture.paint.fill_all(0xbad0_0001);
    let (first, good) = fixture.piece(0, &stream);
    let (_, second) = fixture.piece(1, &stream);
    let mut end = Stream::new();
    end.raw(&[0x1000_0000, 0]);
    let (_, forbidden) = fixture.piece(2, &end);
    let own = [0u64; 64];
    let own = own.as_ptr() as usize as u64;
    let with = |change: &dyn Fn(&mut Piece)| {
        let mut piece = second;
        change(&mut piece);
        piece
    };
    for (what, piece, wanted) in [
        ("END", forbidden, Status::INVALID_DATA),
        (
            "memory of its own",
            with(&|piece| piece.logical = own),
            Status::INVALID_ADDRESS,
        ),
        (
            "no memory",
            with(&|piece| piece.logical = 0),
            Status::INVALID_ADDRESS,
        ),
        (
            "behind the buffer",
            with(&|piece| piece.start = BUFFER_BYTES - 64),
            Status::INVALID_ARGUMENT,
        ),
        (
            "a start that wraps",
            with(&|piece| piece.start = u32::MAX & !7),
            Status::INVALID_ARGUMENT,
        ),
        (
            "an odd start",
            with(&|piece| piece.start += 4),
            Status::INVALID_ARGUMENT,
        ),
        (
            "less than its tail",
            with(&|piece| (piece.start, piece.size) = (0, 0)),
            Status::INVALID_ARGUMENT,
        ),
        (
            "the largest size",
            with(&|piece| piece.size = u32::MAX & !7),
            Status::INVALID_ARGUMENT,
        ),
        (
            "the largest tail",
            with(&|piece| piece.tail = u32::MAX & !7),
            Status::INVALID_ARGUMENT,
        ),
    ] {
        let location = fixture.location(piece, 0);
        let last = fixture.location(second, location.as_ptr() as usize as u64);
        for chain in [&location, &last] {
            let next = chain.as_ptr() as usize as u64;
            same(what, fixture.commit(&first, next, &[])?, wanted)?;
        }
    }
    for (what, next) in [("page 0", 0x10), ("all ones", u64::MAX)] {
        let status = fixture.commit(&first, next, &[])?;
        same(what, status, Status::OUT_OF_RESOURCES)?;
    }
    // A chain without an end.
    let mut ring = fixture.location(good, 0);
    let at = ring.as_ptr() as usize as u64;
    ring.copy_from_slice(&fixture.location(good, at));
    let status = fixture.commit(&first, at, &[])?;
    same("a ring", status, Status::INVALID_ARGUMENT)?;
    let (_, empty) = fixture.piece(3, &Stream::new());
    let mut chain: Vec<Vec<u64>> = vec![fixture.location(empty, 0)];
    for _ in 0..TOO_MANY {
        let next = chain[chain.len() - 1].as_ptr() as usize as u64;
        chain.push(fixture.location(empty, next));
    }
    let next = chain[TOO_MANY].as_ptr() as usize as u64;
    let status = fixture.commit(&first, next, &[])?;
    same("a long chain", status, Status::INVALID_ARGUMENT)?;
    let next = chain[200].as_ptr() as usize as u64;
    let cores = fixture.paint.device().chip_info()?.count.max(0) as u64;
    for (field, value, wanted) in [
        ("subCommit.coreId", cores, Status::INVALID_ARGUMENT),
        (
            "subCommit.coreId",
            u32::MAX.into(),
            Status::INVALID_ARGUMENT,
        ),
    ] {
        let status = fixture.commit(&first, next, &[(field, value)])?;
        same(field, status, wanted)?;
    }
    // None of the refused chains ran.
    fixture.paint.client.finish()?;
    fixture.paint.expect(|_, _| 0x0202_0202)?;
    same("COMMIT", fixture.commit(&first, next, &[])?, Status::OK)?;
    fixture.paint.client.finish()?;
    fixture.paint.expect(|_, _| 0xbad0_0001)
}

/// A program unmaps a view itself and gets another one at the same address. The end of the first view's node does not
/// affect the second: its commands run, and it still exists.
fn reused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0303_0303)?;
    let device = fixture.paint.device();
    let kind = fixture.abi.values["SURF_NUM_TYPES"];
    let take = || -> Result<(Node, Buffer)> {
        let node = device.allocate(BUFFER_BYTES, 64, kind, Pool::VIRTUAL)?;
        let location = device.lock(node)?;
        let buffer = Buffer {
            physical: node.handle as u32,
            address: location.address,
            bytes: BUFFER_BYTES.into(),
            logical: location.logical,
            memory: device.memory(node, location, fixture.paint.client.pool())?,
        };
        Ok((node, buffer))
    };
    let bytes = BUFFER_BYTES as usize;
    let (first, gone) = take()?;
    raw::Area::of_driver(gone.logical, bytes)?.cut(0, bytes)?;
    let (second, buffer) = take()?;
    same("its place", buffer.logical, gone.logical)?;
    device.unlock_all(first)?;
    device.free(first)?;
    fixture.buffer = buffer;
    let stream = fixture.paint.fill_all(0xbad0_0003);
    let (record, _) = fixture.piece(0, &stream);
    same("COMMIT", fixture.commit(&record, 0, &[])?, Status::OK)?;
    fixture.paint.client.finish()?;
    fixture.paint.expect(|_, _| 0xbad0_0003)?;
    let device = fixture.paint.device();
    device.unlock_all(second)?;
    Ok(device.free(second)?)
}

/// The parts of a COMMIT, and the jobs of another client before them: the most that may be in flight.
const PARTS: u32 = 4;
const JOBS: u32 = 30;

/// The duration of each of these jobs.
const SLOW: Duration = Duration::from_secs(1);

impl Fixture {
    /// Commits each of `streams` as a separate part, in the place of the earlier ones.
    fn commit_parts(&self, streams: &[Stream]) -> Result<Status> {
        let (start, _) = self.abi.fields["Commit.subCommit.coreId"];
        let (last, _) = self.abi.fields["Commit.subCommit.useLocalMem"];
        // A whole number of 64-bit fields.
        let bytes = last + 8 - start;
        let mut next = 0u64;
        for (number, stream) in streams.iter().enumerate().rev() {
            let (record, _) = self.piece(number as u32, stream);
            let mut commit = self.abi.commit(&record, 0, &Queue::new())?;
            self.abi
                .set(&mut commit.bytes, "Commit", "subCommit.next", next);
            if number == 0 {
                let (at, _) = self.abi.header["hardwareType"];
                let hardware_type = self.paint.device().hardware_type().to_le_bytes();
                commit.bytes[at..at + 4].copy_from_slice(&hardware_type);
                self.paint.device().exchange_bytes(&mut commit.bytes)?;
                let status = self.abi.header_of(&commit.bytes, "status");
                return Ok(Status(status as i32));
            }
            let at = self.abi.union_at + start;
            let place = &mut self.parts.borrow_mut()[number];
            place.resize(bytes, 0);
            place.copy_from_slice(&commit.bytes[at..at + bytes]);
            next = place.as_ptr() as usize as u64;
        }
        bail!("no parts")
    }
}

thread_local! {
    /// The fixture with which the handler of SIGCONT draws.
    static DRAWN_WITH: RefCell<Option<Rc<Fixture>>> = const { RefCell::new(None) };
}

/// Draws all cells again with the same memory, checks them, and exits. It does not return to the interrupted code.
fn draw_anew() {
    let drawn = DRAWN_WITH.with(|fixture| -> Result<String> {
        let fixture = fixture.borrow().clone().context("a fixture")?;
        let stream = |number| fixture.paint.fill_cell(number, 0xc020_0000 + number);
        let streams: Vec<Stream> = (0..PARTS).map(stream).collect();
        same("COMMIT", fixture.commit_parts(&streams)?, Status::OK)?;
        fixture.paint.client.finish()?;
        fixture.paint.expect(|x, y| match cell_of(x, y) {
            cell if cell < PARTS => 0xc020_0000 + cell,
            _ => 0x0101_0101,
        })?;
        Ok("drawn".to_string())
    });
    match drawn {
        Ok(answer) => println!("{answer}"),
        Err(error) => println!("error {error:#}"),
    }
    std::process::exit(0);
}

/// The command loop of another process, which commits parts of one cell each.
fn be_other(_: &'static Abi) -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0101_0101)?;
    let fixture = Rc::new(fixture);
    DRAWN_WITH.with(|place| place.replace(Some(fixture.clone())));
    // Created before the process changes its user.
    let mut paint = Paint::new()?;
    other::serve(|words| match *words {
        ["leaves"] => {
            raw::on_signal(SIGCONT, true, draw_anew)?;
            Ok("will".to_string())
        }
        ["prove"] => Ok("proven".to_string()),
        ["finish"] => {
            paint.client.finish()?;
            Ok("finished".to_string())
        }
        ["user", user] => {
            become_user(user.parse()?)?;
            Ok("changed".to_string())
        }
        // Its jobs occupy all slots.
        ["draw", count] => {
            let stream = paint.fill_cell(0, 0xc010_0000);
            for _ in 0..count.parse::<u32>()? {
                paint.commit(&stream, &mut Queue::new())?;
            }
            Ok("drawing".to_string())
        }
        // Does the same, then commits parts as often as it can. With `handled`, a signal handler runs as well.
        ["besiege", handled] => {
            let stream = paint.fill_cell(0, 0xc010_0000);
            for _ in 1..JOBS {
                paint.commit(&stream, &mut Queue::new())?;
            }
            if handled == "handled" {
                sys::tick(TICK)?;
            }
            println!("waiting");
            let streams: Vec<Stream> = (0..2)
                .map(|number| fixture.paint.fill_cell(number, 1))
                .collect();
            loop {
                fixture.commit_parts(&streams)?;
            }
        }
        ["parts"] => {
            let stream = |number| fixture.paint.fill_cell(number, 0xc010_0000 + number);
            let streams: Vec<Stream> = (0..PARTS).map(stream).collect();
            let status = fixture.commit_parts(&streams)?;
            Ok(format!("{status:?}"))
        }
        ["expect"] => {
            fixture.paint.client.finish()?;
            fixture.paint.expect(|x, y| match cell_of(x, y) {
                cell if cell < PARTS => 0xc010_0000 + cell,
                _ => 0x0101_0101,
            })?;
            Ok("drawn".to_string())
        }
        ["busy", seconds] => other::keep_busy(seconds),
        _ => bail!("what is {words:?}?"),
    })
}

/// Parts of a program with an interval timer get their slots among the jobs of another program that keeps the core
/// busy, like those of a program without a timer.
fn ticking() -> Result<()> {
    const TIMES: u32 = 5;
    let control = Control::open()?;
    let mut other = Other::start(Abi::own())?;
    let mut fixture = Fixture::new()?;
    fixture.paint.prove(0x0101_0101)?;
    let stream = |number| fixture.paint.fill_cell(number, 0xc030_0000 + number);
    let streams: Vec<Stream> = (0..PARTS).map(stream).collect();
    let armed = control.arm(fault::SLOW_DRAWS, 10_000);
    same("it", other.ask("busy 40")?, "busy".to_string())?;
    // The ring is full of its jobs.
    std::thread::sleep(SLOW);
    let parts = || -> Result<Duration> {
        let begin = Instant::now();
        for _ in 0..TIMES {
            same("COMMIT", fixture.commit_parts(&streams)?, Status::OK)?;
        }
        Ok(begin.elapsed())
    };
    let usual = parts()?;
    sys::tick(10)?;
    let took = parts();
    sys::tick(0)?;
    println!("# {took:?}, and {usual:?} without ticks");
    other.kill()?;
    drop(armed);
    let took = took?;
    ensure!(
        took < 3 * usual.max(SLOW),
        "{took:?}, and {usual:?} without ticks"
    );
    Ok(())
}

/// Whether the process is stopped (state `T`).
fn is_stopped(id: i32) -> Result<bool> {
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let state = text.rsplit_once(')').context("no name")?.1.trim_start();
    Ok(state.starts_with('T'))
}

/// SIGCONT.
const SIGCONT: i32 = 18;

/// A process that receives SIGSTOP while a part waits for its slot stops at once, not when all parts have slots. After
/// SIGCONT it continues there, and each part runs once. With `leaves`, it continues in a handler that commits the same
/// number of parts in the same memory: all of them run.
fn stopped(leaves: bool) -> Result<()> {
    let control = Control::open()?;
    let mut other = Other::start(Abi::own())?;
    other.ask(if leaves { "leaves" } else { "prove" })?;
    let mut filler = Other::start(Abi::own())?;
    // Wait until the core is not shared any more: a process that is alone may use all slots.
    std::thread::sleep(Duration::from_millis(1200));
    let before = control.counters().draws();
    let armed = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    filler.ask(&format!("draw {}", JOBS - 1))?;
    // The first part has the last slot, or that of a job that has ended; the others wait.
    other.tell("parts")?;
    std::thread::sleep(SLOW / 4);
    let id = Pid::from_raw(other.id()).context("a process")?;
    let begun = Instant::now();
    kill_process(id, Signal::STOP)?;
    eventually("it is stopped", SLOW, || is_stopped(other.id()))?;
    println!("# stopped after {:?}", begun.elapsed());
    drop(armed);
    filler.ask("finish")?;
    ensure!(is_stopped(other.id())?, "it goes on");
    kill_process(id, Signal::CONT)?;
    if leaves {
        return same("it", other.answer()?, "drawn".to_string());
    }
    same("COMMIT", other.answer()?, format!("{:?}", Status::OK))?;
    other.ask("expect")?;
    let drawn = control.counters().draws() - before;
    // The first job of a process follows a clear of scratch memory, unless the process used the pipe before.
    let clears = drawn.checked_sub(u64::from(JOBS - 1 + PARTS));
    ensure!(matches!(clears, Some(1 | 2)), "{drawn} draws");
    Ok(())
}

/// The duration of each job of a process whose parts wait: longer than the suspend waits for processes.
const LONG: Duration = Duration::from_secs(60);

/// How long the machine may take to suspend. Jobs that delay it have the suite's limit of 2 s.
const TO_SLEEP: Duration = Duration::from_secs(15);

/// The interval between the timer ticks of a besieging process, in milliseconds.
const TICK: u32 = 5;

/// The duration of each of many jobs: less than the limit of the suite.
const BELOW: Duration = Duration::from_millis(1600);

/// Suspends the machine while a process of an ordinary user does `what` with draws of `length` each. The process
/// answers `answer` once it has begun.
fn asleep(what: &str, answer: Option<&str>, length: Duration) -> Result<()> {
    let control = Control::open()?;
    let mut other = Other::start_as(Abi::own(), 1000)?;
    other.ask("prove")?;
    let armed = control.arm(fault::SLOW_DRAWS, length.as_micros() as u32);
    let answered = other.ask(what)?;
    if let Some(answer) = answer {
        same("it", answered.as_str(), answer)?;
        std::thread::sleep(Duration::from_millis(500));
    }
    let begun = Instant::now();
    let slept = system::sleep_devices();
    let took = begun.elapsed();
    println!("# {what}: slept {slept:?} after {took:?}");
    drop(armed);
    other.kill()?;
    slept?;
    ensure!(took < TO_SLEEP, "{took:?}");
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        if std::env::args().nth(1).as_deref() == Some("--sleep") {
            let jobs = format!("draw {JOBS}");
            suite.test("asleep amid jobs", move || asleep(&jobs, None, BELOW));
            suite.test("asleep amid parts", || {
                asleep("besiege unhandled", Some("waiting"), LONG)
            });
            suite.test("asleep amid parts, with a handler", || {
                asleep("besiege handled", Some("waiting"), LONG)
            });
            return suite.run();
        }
        for count in [1, 2, 30] {
            suite.test(format!("pieces: {count}"), move || all_run(count));
        }
        suite.test("a chain that is wrong", refusals);
        suite.test("pipes of a chain", || {
            let paint = Fixture::new()?.paint;
            if !has_2d(paint.client.identity()) || !has_3d(paint.client.identity()) {
                return harness::skip("this core has one engine");
            }
            pipes()
        });
        suite.test("a view where another was", reused);
        suite.test("stopped amid parts", || stopped(false));
        suite.test("parts among others' jobs, with ticks", ticking);
        suite.test("parts left by a handler", || stopped(true));
        suite.run()
    })
}
