// SPDX-License-Identifier: GPL-2.0-only
//! Mistakes, and how to recognize them: the tables of `Documentation/mistakes.md`, row by row.
//!
//! The page is compiled in, and what it says is what is looked for: each mistake is made until the log has
//! its line (lines are few at a time), and is answered as the page says each time. A row without a test and
//! a test without a row fail.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Node;
use galcore_client::device::NODES;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::sys;
use galcore_client::sys::Arguments;
use galcore_client::sys::Place;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::video;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::surface_at;
use gpu_control::fault;
use rustix::process::getrlimit;
use rustix::process::setrlimit;
use rustix::process::Resource;
use rustix::process::Rlimit;

/// The page.
const PAGE: &str = include_str!("../../../../Documentation/mistakes.md");

/// A row of it.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    /// "ENOTTY", or a status.
    answer: String,
    /// A line of the log, `...` for any text.
    line: Option<String>,
    /// It is there only with dynamic debug.
    is_debug: bool,
}

/// The rows of the page.
fn rows() -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for text in PAGE.lines().filter(|line| line.starts_with("| **")) {
        let cells: Vec<&str> = text.trim_matches('|').split(" | ").map(str::trim).collect();
        let [mistake, answer, tells] = cells[..] else {
            bail!("{text:?}: not three cells");
        };
        let name = mistake
            .strip_prefix("**")
            .and_then(|rest| rest.split("**").next());
        all.push(Row {
            name: name.context("no name")?.to_string(),
            answer: answer.to_string(),
            line: tells.contains('`').then(|| {
                let line = tells.split('`').nth(1);
                line.unwrap_or_default().to_string()
            }),
            is_debug: tells.starts_with("debug:"),
        });
    }
    ensure!(all.len() > 30, "the page has {} rows", all.len());
    Ok(all)
}

/// Whether `text` has what `pattern` says.
fn fits(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern
        .split("...")
        .all(|part| match rest.split_once(part) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
}

/// What the driver answers: a status, or an errno.
fn answer(result: std::io::Result<Status>) -> Result<String> {
    match result {
        Ok(status) => Ok(status.0.to_string()),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Ok("ENOTTY".to_string()),
        Err(error) => Err(error.into()),
    }
}

/// Lines for debugging, switched on; off again when this goes.
struct Debug {
    path: &'static str,
}

impl Debug {
    /// `None`: the kernel has no dynamic debug.
    fn on() -> Result<Option<Self>> {
        let path = "/proc/dynamic_debug/control";
        match fs::write(path, "module galcore +p") {
            Ok(()) => Ok(Some(Self { path })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(path),
        }
    }
}

impl Drop for Debug {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.path, "module galcore -p") {
            println!("# {}: {error}", self.path);
        }
    }
}

/// A client that makes mistakes.
struct Bench {
    client: Client,
    /// The device, in the generation that the page is about.
    newest: Device,
    control: Control,
    buffer: Buffer,
    /// A surface of its own, of 16 x 32 pixels, and where.
    node: Node,
    target: Surface,
    logical: u64,
    debug: Option<Debug>,
    rows: Vec<Row>,
    done: RefCell<Vec<String>>,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        // A core that goes off forgets its states.
        system::stay_awake()?;
        let device = client.device();
        let node = device.allocate(2048, 64, surface::BITMAP, Pool::CONTIGUOUS)?;
        let location = device.lock(node)?;
        let memory = device.memory(node, location, client.pool())?;
        Ok(Self {
            buffer: device.allocate_contiguous(0x4000)?,
            target: surface_at(location.address, memory)?,
            logical: location.logical,
            node,
            control: Control::open()?,
            client,
            newest: Device::open_as(Abi::named("6.4.11").context("a generation")?, true)?,
            debug: Debug::on()?,
            rows: rows()?,
            done: RefCell::default(),
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    fn pipe(&self) -> Pipe {
        self.client.engine().pipe()
    }

    /// The state (byte address) that says where the engine draws to.
    fn target_state(&self) -> u32 {
        use galcore_client::draw::Engine;
        match self.client.engine() {
            Engine::TwoD => 0x1228,
            Engine::Resolve { pipes: 1 } => 0x1610,
            Engine::Resolve { .. } => 0x16e0,
        }
    }

    fn record(&self, words: &[u32]) -> uapi::CommandBufferRecord {
        let mut stream = Stream::new();
        stream.raw(words);
        place(&self.buffer, 0, self.pipe(), &stream)
    }

    fn commit(&self, record: &uapi::CommandBufferRecord) -> Result<String> {
        self.commit_in(record, 0)
    }

    fn commit_in(&self, record: &uapi::CommandBufferRecord, context: u32) -> Result<String> {
        let status = self
            .device()
            .send_commit(record, context, &mut Queue::new())?;
        answer(Ok(status))
    }

    /// Commits words; what the driver answers.
    fn send(&self, words: &[u32]) -> Result<String> {
        self.commit(&self.record(words))
    }

    /// Loads the target's address.
    fn aim(&self, address: u32) -> Result<String> {
        self.send(&[load(self.target_state()), address])
    }

    /// Commands that fill `target`.
    fn fill(&self, target: &Surface, colour: u32) -> Stream {
        let all = Rect::new(0, 0, target.width, target.height);
        let mut stream = Stream::new();
        self.client.engine().fill(&mut stream, target, all, colour);
        stream.flush(self.pipe());
        stream
    }

    /// Makes the mistake `name` until the log says what the page says; returns the line.
    fn told(&self, name: &str, mut make: impl FnMut() -> Result<String>) -> Result<String> {
        let row = self.row(name)?;
        let line = row
            .line
            .with_context(|| format!("{name}: the page has no line"))?;
        let mut log = KernelLog::from_now()?;
        let mut found = None;
        let is_silent = row.is_debug && self.debug.is_none();
        harness::eventually(&format!("{line:?}"), Duration::from_secs(20), || {
            same(name, make()?, row.answer.clone())?;
            let lines = log.lines()?.into_iter();
            found = lines.map(|found| found.text).find(|text| fits(text, &line));
            Ok(found.is_some() || is_silent)
        })?;
        match found {
            Some(text) => {
                let own = format!("process {}: ", std::process::id());
                let is_own = text.contains(&own) || text.contains(&own.replace(": ", ")"));
                ensure!(
                    is_own,
                    "{text:?} does not name process {}",
                    std::process::id()
                );
                Ok(text)
            }
            None => harness::skip("no dynamic debug in this kernel"),
        }
    }

    /// The page's row of this mistake, which counts as tried.
    fn row(&self, name: &str) -> Result<Row> {
        self.done.borrow_mut().push(name.to_string());
        let row = self.rows.iter().find(|row| row.name == name);
        row.cloned()
            .with_context(|| format!("the page has no row {name:?}"))
    }
}

/// LOAD_STATE of one state by its byte address.
const fn load(state: u32) -> u32 {
    0x0801_0000 | state / 4
}

/// A command that does nothing.
const NOP: [u32; 2] = [0x1800_0000, 0];

/// A handle that nothing has.
const NOTHING: u64 = 0x7ff_ffff;

/// Adds the test of a row whose line is looked for.
fn row<'a>(
    suite: &mut Suite<'a>,
    bench: &'a Bench,
    name: &'static str,
    make: impl FnMut() -> Result<String> + 'a,
) {
    suite.test(name, move || bench.told(name, make).map(drop));
}

fn ioctl_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    let device = bench.device();
    let bytes = uapi::INTERFACE_SIZE as u64;
    let raw = move |code: u32, input: Place, input_size: u64| -> Result<String> {
        let mut interface = uapi::Interface::new(Command::VERSION);
        let arguments = Arguments {
            input,
            input_size,
            output: Place::Buffer,
            output_size: bytes,
            padding: 0,
        };
        let all = interface.bytes_mut();
        let result = sys::exchange_with(device.file().as_fd(), code, all, arguments);
        answer(result.map(|_| interface.status()))
    };
    let code = uapi::IOCTL_INTERFACE;
    row(suite, bench, "no ioctl", move || {
        raw(code + 2, Place::Buffer, bytes)
    });
    row(suite, bench, "wrong size", move || {
        raw(code, Place::Buffer, bytes - 4)
    });
    row(suite, bench, "bad pointer", move || {
        raw(code, Place::Unmapped, bytes)
    });
    row(suite, bench, "hardware type", move || {
        let mut interface = uapi::Interface::new(Command::VERSION);
        interface.set_hardware_type(9);
        let result = device.exchange_bytes(interface.bytes_mut());
        answer(result.map(|()| interface.status()))
    });
    row(suite, bench, "no command", move || {
        let mut interface = uapi::Interface::new(Command(999));
        answer(Ok(device.exchange(&mut interface)?))
    });
    row(suite, bench, "mmap", move || match device.map(4096, 4096) {
        Err(galcore_client::Error::Map(error)) => answer(Err(error)),
        other => bail!("{other:?}"),
    });
}

fn memory_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    let device = bench.device();
    let lock = move |handle| -> Result<String> {
        let lock = uapi::LockVideoMemory {
            node: handle,
            ..Default::default()
        };
        answer(Ok(device.send(Command::LOCK_VIDEO_MEMORY, &lock)?.0))
    };
    row(suite, bench, "no such node", move || lock(NOTHING));
    row(suite, bench, "junk above", move || {
        lock(bench.node.handle | 0xdead_beef << 32)
    });
    suite.test("no core", move || {
        // The generation that has no cores of type 0.
        let newest = Abi::named("6.4.11").context("a generation")?;
        let mut device = Device::open_as(newest, true)?;
        device.set_hardware_type(0);
        let lock = uapi::LockVideoMemory {
            node: bench.node.handle,
            ..Default::default()
        };
        let make = || answer(Ok(device.send(Command::LOCK_VIDEO_MEMORY, &lock)?.0));
        bench.told("no core", make).map(drop)
    });
    row(suite, bench, "no pool", move || {
        let allocate = uapi::AllocateLinearVideoMemory {
            bytes: 4096,
            alignment: 64,
            surface_type: surface::BITMAP,
            ..Default::default()
        };
        let command = Command::ALLOCATE_LINEAR_VIDEO_MEMORY;
        answer(Ok(device.send(command, &allocate)?.0))
    });
    row(suite, bench, "no O_RDWR", move || {
        let reader = Device::speaking(fs::File::open(NODES[0])?, Abi::own())?;
        let node = device.allocate(4096, 64, surface::BITMAP, Pool::VIRTUAL)?;
        let lock = uapi::LockVideoMemory {
            node: node.handle,
            ..Default::default()
        };
        let status = reader.send(Command::LOCK_VIDEO_MEMORY, &lock)?.0;
        device.free(node)?;
        answer(Ok(status))
    });
    suite.test("no room to map", move || {
        let node = device.allocate(4096, 64, surface::BITMAP, Pool::VIRTUAL)?;
        let lock = uapi::LockVideoMemory {
            node: node.handle,
            ..Default::default()
        };
        let before = getrlimit(Resource::As);
        let limit = Rlimit {
            current: Some(4096),
            ..before
        };
        let result = bench.told("no room to map", || {
            setrlimit(Resource::As, limit)?;
            let status = device.send(Command::LOCK_VIDEO_MEMORY, &lock);
            setrlimit(Resource::As, before)?;
            answer(Ok(status?.0))
        });
        device.free(node)?;
        result.map(drop)
    });
    row(suite, bench, "unlocked twice", move || {
        let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
        device.lock(node)?;
        device.unlock_all(node)?;
        let unlock = uapi::UnlockVideoMemory {
            node: node.handle,
            surface_type: node.surface_type,
            asynchroneous: 0,
        };
        let again = device.send(Command::UNLOCK_VIDEO_MEMORY, &unlock)?.0;
        device.free(node)?;
        answer(Ok(again))
    });
    row(suite, bench, "freed twice", move || {
        let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
        device.free(node)?;
        let free = uapi::FreeVideoMemory { node: node.handle };
        answer(Ok(device.send(Command::FREE_VIDEO_MEMORY, &free)?.0))
    });
    row(suite, bench, "no such signal", move || {
        let wait = uapi::UserSignal {
            command: uapi::signal::WAIT,
            id: NOTHING as i32,
            wait: 1,
            ..Default::default()
        };
        answer(Ok(device.user_signal(&wait)?.0))
    });
    row(suite, bench, "no signal", move || {
        let mut queue = Queue::new();
        queue.signal(NOTHING as i32);
        let status = device.send_commit(&bench.record(&NOP), 0, &mut queue)?;
        answer(Ok(status))
    });
    let queued = move |fill: &dyn Fn(&mut Queue)| -> Result<String> {
        let mut queue = Queue::new();
        fill(&mut queue);
        let status = device.send_commit(&bench.record(&NOP), 0, &mut queue)?;
        answer(Ok(status))
    };
    let unlock = uapi::UnlockVideoMemory {
        node: NOTHING,
        ..Default::default()
    };
    let free = uapi::FreeContiguousMemory {
        bytes: 4096,
        physical: NOTHING as u32,
        logical: 4096,
    };
    let unmap = uapi::UnmapUserMemory {
        memory: 4096,
        size: 4096,
        info: NOTHING as u32,
        address: 0,
    };
    row(suite, bench, "another's number", move || {
        queued(&|queue| {
            queue.record(Command(21), &uapi::Signal::default());
        })
    });
    row(suite, bench, "no record", move || {
        queued(&|queue| {
            queue.record(Command(999), &uapi::Signal::default());
        })
    });
    row(suite, bench, "unlock of nothing", move || {
        queued(&|queue| {
            queue.record(Command::UNLOCK_VIDEO_MEMORY, &unlock);
        })
    });
    row(suite, bench, "no such buffer", move || {
        queued(&|queue| {
            queue.record(Command::FREE_CONTIGUOUS_MEMORY, &free);
        })
    });
    row(suite, bench, "no such mapping", move || {
        queued(&|queue| {
            queue.record(Command::UNMAP_USER_MEMORY, &unmap);
        })
    });
    suite.test("queue's end", move || {
        let mut log = KernelLog::from_now()?;
        let make = || {
            queued(&|queue| {
                queue.record(Command::UNLOCK_VIDEO_MEMORY, &unlock);
                queue.set_ending(8);
            })
        };
        bench.told("queue's end", make)?;
        let lines = log.lines()?.into_iter().map(|line| line.text);
        let said: Vec<_> = lines.filter(|text| text.contains("left out: ")).collect();
        ensure!(said.is_empty(), "{said:?}");
        Ok(())
    });
    row(suite, bench, "write anywhere", move || {
        let mut queue = Queue::new();
        queue.write_data(3, 0);
        let status = device.send_commit(&bench.record(&NOP), 0, &mut queue)?;
        answer(Ok(status))
    });
}

fn commit_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    let device = bench.device();
    // A record that is wrong in one way, as 6.4.11 has it.
    let wrong = move |change: &dyn Fn(&mut uapi::CommandBufferRecord)| -> Result<String> {
        let mut record = bench.record(&NOP);
        change(&mut record);
        answer(Ok(bench.newest.send_commit(
            &record,
            0,
            &mut Queue::new(),
        )?))
    };
    // Another value in a field that the description has not.
    let with = move |field: &str, value: u64| -> Result<String> {
        let abi = Abi::named("6.4.11").context("a generation")?;
        let mut commit = abi.commit(&bench.record(&NOP), 0, &Queue::new())?;
        let (at, _) = abi.header["hardwareType"];
        let hardware_type = bench.newest.hardware_type().to_le_bytes();
        commit.bytes[at..at + 4].copy_from_slice(&hardware_type);
        abi.set(&mut commit.bytes, "Commit", field, value);
        bench.newest.exchange_bytes(&mut commit.bytes)?;
        let status = abi.header_of(&commit.bytes, "status") as i32;
        answer(Ok(Status(status)))
    };
    row(suite, bench, "coreId", move || with("subCommit.coreId", 9));
    row(suite, bench, "no size", move || {
        with("subCommit.commandBuffer.size", 0)
    });
    suite.test("a size that wraps, too much tail", move || {
        for (field, value) in [("size", !7), ("startOffset", !7), ("reservedTail", !7)] {
            let name = format!("subCommit.commandBuffer.{field}");
            same(field, with(&name, value & 0xffff_ffff)?, "-1".to_string())?;
        }
        Ok(())
    });
    row(suite, bench, "no buffer", move || {
        let commit = uapi::Commit::default();
        answer(Ok(device.send(Command::COMMIT, &commit)?.0))
    });
    row(suite, bench, "wrong object", move || {
        let mut record = bench.record(&NOP);
        record.object = 0x1234_5678;
        bench.commit(&record)
    });
    row(suite, bench, "entryPipe", move || {
        wrong(&|record| record.entry_pipe = 7)
    });
    row(suite, bench, "malloc'd commands", move || {
        let own = vec![0u32; 1024];
        wrong(&|record| record.logical = own.as_ptr() as usize as u64)
    });
    row(suite, bench, "misaligned", move || {
        wrong(&|record| record.offset += 4)
    });
    row(suite, bench, "size", move || {
        wrong(&|record| (record.start_offset, record.offset) = (0x40, 0x50))
    });
    row(suite, bench, "too near the end", move || {
        wrong(&|record| record.offset = bench.buffer.bytes as u32)
    });
    row(suite, bench, "no commands", move || {
        wrong(&|record| record.offset = record.start_offset + uapi::RESERVED_HEAD)
    });
    suite.test("cut off", move || {
        let (old, memory) = (0x1111_1111, &bench.target.memory);
        memory.fill(old);
        let words = bench.fill(&bench.target, 0x0303_0303).words().to_vec();
        let draw = words
            .iter()
            .position(|&word| word >> 27 == 4 || word == load(0x1600));
        let mut record = bench.record(&words);
        let start = record.start_offset + uapi::RESERVED_HEAD;
        record.offset = start + 4 * draw.context("it draws")? as u32;
        bench.told("cut off", || bench.commit(&record))?;
        device.stall()?;
        same_word("a pixel", memory.read(0), old)
    });
    suite.test("no head", move || {
        let wanted = bench.row("no head")?.answer;
        let (here, there) = (bench.target.location.address, bench.buffer.address);
        let aimed = || -> Result<u32> {
            device.stall()?;
            let state = bench.target_state() / 4;
            bench.control.write(gpu_control::STATE_INDEX, state);
            Ok(bench.control.read(gpu_control::STATE_VALUE))
        };
        same("aim", bench.aim(here)?, "0".to_string())?;
        same_word("the target", aimed()?, here)?;
        let mut record = bench.record(&NOP.repeat(8));
        for (index, word) in [load(bench.target_state()), there]
            .repeat(4)
            .iter()
            .enumerate()
        {
            bench.buffer.memory.write(4 * index, *word);
        }
        record.offset -= uapi::RESERVED_HEAD;
        same("COMMIT", bench.commit(&record)?, wanted)?;
        same_word("the target", aimed()?, here)?;
        same("aim", bench.aim(there)?, "0".to_string())?;
        same_word("the target", aimed()?, there)
    });
    suite.test("forgotten wait", move || {
        let wanted = bench.row("forgotten wait")?.answer;
        let (old, new) = (0x1111_1111, 0x2222_2222);
        let memory = &bench.target.memory;
        memory.fill(old);
        let signal = device.create_signal(false)?;
        let mut queue = Queue::new();
        queue.signal(signal);
        let words = bench.fill(&bench.target, new);
        let record = bench.record(words.words());
        let held = bench.control.arm(fault::HOLD, 1);
        let status = device.send_commit(&record, 0, &mut queue)?;
        same("COMMIT", answer(Ok(status))?, wanted)?;
        same_word("a pixel, before the signal", memory.read(0), old)?;
        drop(held);
        device.wait_signal(signal, 20_000)?;
        for at in (0..memory.len()).step_by(4) {
            same_word("a pixel, behind the signal", memory.read(at), new)?;
        }
        Ok(device.destroy_signal(signal)?)
    });
}

fn command_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    let device = bench.device();
    let identity = bench.client.identity();
    row(suite, bench, "no lock", move || {
        let nowhere = surface_at(0, bench.target.memory.clone())?;
        bench.send(bench.fill(&nowhere, 0xbad).words())
    });
    suite.test("foreign address", move || {
        let foreign = Foreign::start()?;
        let address = foreign.buffer_address();
        bench
            .told("foreign address", || bench.aim(address))
            .map(drop)
    });
    row(suite, bench, "CPU address", move || {
        bench.aim(bench.logical as u32)
    });
    row(suite, bench, "handle", move || {
        bench.aim(bench.node.handle as u32)
    });
    row(suite, bench, "after the end", move || {
        // What is behind one may be the other.
        let buffer = bench.buffer.address + bench.buffer.bytes as u32;
        let node = bench.target.location.address + 4096;
        if bench.buffer.has(node) {
            bench.aim(buffer)
        } else {
            bench.aim(node)
        }
    });
    suite.test("freed node", move || {
        let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
        let address = device.lock(node)?.address;
        same("its own", bench.aim(address)?, "0".to_string())?;
        device.unlock_all(node)?;
        device.free(node)?;
        device.stall()?;
        let line = bench.told("freed node", || bench.aim(address))?;
        let wanted = format!("it was node {:#x}, which is freed", node.handle);
        ensure!(line.ends_with(&wanted), "{line:?}, wanted {wanted:?}");
        Ok(())
    });
    suite.test("no context", move || {
        if !has_3d(identity) {
            bench.row("no context")?;
            return harness::skip("this core looks at no context");
        }
        let make = || bench.commit_in(&bench.record(&NOP), u32::MAX);
        bench.told("no context", make).map(drop)
    });
    suite.test("no source", move || {
        if bench.pipe() != Pipe::Pipe2d {
            bench.row("no source")?;
            return harness::skip("this core does not blit");
        }
        let (old, memory) = (0x1111_1111, &bench.target.memory);
        memory.fill(old);
        let mut stream = Stream::new();
        let corner = bench.target.height << 16 | bench.target.width;
        let (stride, blit) = (bench.target.stride, 2 << 12 | 6);
        stream
            // The source's stride and format, of 32 bits in both kinds of cores; its size.
            .states(0x1204, &[stride, 0, 6 << 24 | 6, 0, corner])
            .states(0x1228, &[bench.target.location.address, stride, 0, blit])
            .states(state::DE_ROP, &[state::ROP_COPY, 0, corner])
            .state(0x127c, 0)
            .state(0x12d4, 0)
            .state(0x12d8, 0)
            .draw_2d(&[(0, corner)]);
        bench.told("no source", || bench.send(stream.words()))?;
        device.stall()?;
        ensure!(memory.read(0) != old, "nothing was drawn");
        Ok(())
    });
    suite.test("a source of an earlier COMMIT is no mistake", move || {
        if bench.pipe() != Pipe::Pipe2d {
            return harness::skip("this core does not blit");
        }
        let mut log = KernelLog::from_now()?;
        let corner = 8 << 16 | 16;
        let (node, source) = locked_surface(&bench.client, 0x8000, Pool::SYSTEM, false)?;
        let (other, _) = locked_surface(&bench.client, 0x8000, Pool::SYSTEM, false)?;
        let (stride, blit) = (bench.target.stride, 2 << 12 | 6);
        let mut whole = Stream::new();
        whole
            .states(
                0x1200,
                &[
                    source.location.address,
                    source.stride,
                    0,
                    6 << 24 | 6,
                    0,
                    corner,
                ],
            )
            .states(0x1228, &[bench.target.location.address, stride, 0, blit])
            .states(state::DE_ROP, &[state::ROP_COPY, 0, corner])
            .draw_2d(&[(0, corner)]);
        let mut again = Stream::new();
        again.state(0x1234, blit).draw_2d(&[(0, corner)]);
        same("the first", bench.send(whole.words())?.as_str(), "0")?;
        // A refused COMMIT and a FREE reset the noted addresses. The next COMMIT is lent them.
        same("the wrong", bench.send(&[load(0x3804), 0])?.as_str(), "-17")?;
        video::unlock(device, other)?;
        device.free(other)?;
        source.memory.fill(0x5151_5151);
        same("the next", bench.send(again.words())?.as_str(), "0")?;
        device.stall()?;
        same_word("its pixel", bench.target.memory.read(0), 0x5151_5151)?;
        video::unlock(device, node)?;
        device.free(node)?;
        let lines = log.lines()?.into_iter().map(|line| line.text);
        let said: Vec<_> = lines.filter(|text| text.contains("never loaded")).collect();
        ensure!(said.is_empty(), "{said:?}");
        Ok(())
    });
    let draw = |stride: u32, command: u32| {
        let mut stream = Stream::new();
        stream
            .states(0x122c, &[stride, 0, command << 12 | 6])
            .state(state::DE_ROP, 3 << 20 | 0xcccc)
            .state(0x12d4, 0)
            .state(0x120c, 0)
            .state(0x12bc, 0)
            .states(state::DE_CLIP_TOP_LEFT, &[0, 8 << 16 | 16])
            .draw_2d(&[(0, 8 << 16 | 16)]);
        stream
    };
    let aimed = move |target: &Surface, command: u32| {
        let mut stream = Stream::new();
        stream
            .state(0x1228, target.location.address)
            .raw(draw(target.stride, command).words());
        stream
    };
    suite.test("odd command", move || {
        if bench.pipe() != Pipe::Pipe2d {
            bench.row("odd command")?;
            return harness::skip("this core has no 2D engine");
        }
        let words = aimed(&bench.target, 5);
        bench
            .told("odd command", || bench.send(words.words()))
            .map(drop)
    });
    suite.test("odd value of an earlier buffer", move || {
        let name = "odd value of an earlier buffer";
        if bench.pipe() != Pipe::Pipe2d {
            bench.row(name)?;
            return harness::skip("this core has no 2D engine");
        }
        let mut states = Stream::new();
        states
            .states(
                0x1228,
                &[bench.target.location.address, 1 << 20, 0, 1 << 12 | 6],
            )
            .states(state::DE_CLIP_TOP_LEFT, &[0, 8 << 16 | 16])
            .state(0x12bc, 0);
        same("states", bench.send(states.words())?.as_str(), "0")?;
        let mut draw = Stream::new();
        draw.draw_2d(&[(0, 8 << 16 | 16)]);
        bench.told(name, || bench.send(draw.words())).map(drop)
    });
    suite.test("data for nothing", move || {
        if bench.pipe() != Pipe::Pipe2d {
            bench.row("data for nothing")?;
            return harness::skip("this core has no 2D engine");
        }
        let mut words = aimed(&bench.target, 2);
        words.raw(&[0x2001_0100, 0, 0, 1 << 16 | 1, 0x4000_0000, 0]);
        bench
            .told("data for nothing", || bench.send(words.words()))
            .map(drop)
    });
    suite.test("no target", move || {
        if bench.pipe() != Pipe::Pipe2d {
            bench.row("no target")?;
            return harness::skip("this core has no 2D engine");
        }
        let (node, target) = locked_surface(&bench.client, 0x8000, Pool::SYSTEM, false)?;
        same(
            "a target",
            bench.send(aimed(&target, 0).words())?.as_str(),
            "0",
        )?;
        video::unlock(device, node)?;
        device.free(node)?;
        let words = draw(target.stride, 0);
        bench
            .told("no target", || bench.send(words.words()))
            .map(drop)
    });
    suite.test("past the end", move || {
        const BYTES: u32 = 0x8000;
        let mut own = Vec::new();
        for _ in 0..4 {
            let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, bench.client.pool())?;
            own.push((node, location.address, memory));
        }
        // Its own memory follows: no other process's is drawn over.
        let behind = |address| own.iter().find(|own| own.1 == address + BYTES);
        let pair = own.iter().find_map(|own| Some((own, behind(own.1)?)));
        let ((_, address, memory), (_, _, next)) = pair.context("no two nodes lie side by side")?;
        let mut target = surface_at(address + BYTES - 2048, memory.clone())?;
        target.stride *= 10;
        next.fill(0);
        let words = bench.fill(&target, 0x4444_4444);
        bench.told("past the end", || bench.send(words.words()))?;
        device.stall()?;
        same_word("the next node", next.read(4 * 640 - 2048), 0)?;
        for (node, ..) in own {
            device.unlock_all(node)?;
            device.free(node)?;
        }
        Ok(())
    });
    let (to_3d, stride, fills) = ([load(0x3800), 0], [load(0x160c), 0], [load(0x163c), 0]);
    let (on, kick, off) = ([load(0x1678), 1], [load(0x1600), 1], [load(0x1678), 0]);
    let tiles = [to_3d, stride, fills, on, kick, off].concat();
    for (name, stream) in [("tiler left on", on.to_vec()), ("half a tiling", tiles)] {
        suite.test(name, move || {
            if !has_3d(identity) {
                bench.row(name)?;
                return harness::skip("this core has no resolve engine");
            }
            bench.told(name, || bench.send(&stream)).map(drop)
        });
    }
    let draw: &[u32] = &[0x2800_0000, 1, 0, 1];
    let draw_2d: &[u32] = &[0x2000_0100, 0, 0, 0x0001_0001];
    let (own, others) = match bench.pipe() {
        Pipe::Pipe2d => (draw_2d, draw),
        Pipe::Pipe3d => (draw, draw_2d),
    };
    row(suite, bench, "wrong pipe", move || bench.send(others));
    suite.test("wrong exitPipe", move || {
        if !has_2d(identity) || !has_3d(identity) {
            bench.row("wrong exitPipe")?;
            return harness::skip("this core has one engine");
        }
        let select = |pipe| bench.send(&[0x0801_0e00, pipe]);
        let pipe = bench.pipe().number() as u32;
        bench.told("wrong exitPipe", || {
            same("a select", select(pipe ^ 1)?, answer(Ok(Status::OK))?)?;
            let refused = bench.send(own)?;
            same("another select", select(pipe)?, answer(Ok(Status::OK))?)?;
            Ok(refused)
        })?;
        Ok(())
    });
    let (semaphore, stall, token) = (0x0801_0e02, 0x4800_0000, 0x701);
    row(suite, bench, "missing stall", move || {
        bench.send(&[semaphore, token, semaphore, token])
    });
    row(suite, bench, "semaphore left armed", move || {
        bench.send(&[semaphore, 0x705])
    });
    row(suite, bench, "missing semaphore", move || {
        bench.send(&[stall, token])
    });
    suite.test("early switch", move || {
        if !has_2d(identity) || !has_3d(identity) {
            bench.row("early switch")?;
            return harness::skip("this core has one engine");
        }
        let mut words = bench.fill(&bench.target, 0).words().to_vec();
        words.extend([0x0801_0e00, bench.pipe().number() as u32 ^ 1]);
        bench.told("early switch", || bench.send(&words)).map(drop)
    });
    row(suite, bench, "draw cut off", move || bench.send(&own[..2]));
    row(suite, bench, "no such opcode", move || {
        bench.send(&[NOP[0], NOP[1], 0x4000_0000, bench.buffer.address])
    });
    row(suite, bench, "no padding", move || {
        let (state, here) = (bench.target_state(), bench.target.location.address);
        let two = 0x0802_0000 | state / 4;
        bench.send(&[two, here, here, load(state), 0, 0])
    });
    row(suite, bench, "kernel's state", move || {
        bench.send(&[load(0x3804), 1])
    });
    row(suite, bench, "unknown state", move || {
        bench.send(&[load(0x14000), 1])
    });
    suite.test("bus error", move || {
        let slow = bench.control.arm(fault::SLOW_DRAWS, 100_000);
        let words = bench.fill(&bench.target, 0x3333_3333);
        bench.told("bus error", || {
            let status = bench.send(words.words())?;
            bench.control.write(fault::RAISE_BITS, 1 << 31);
            // It is told by the interrupt's thread, before the job's end.
            device.stall()?;
            Ok(status)
        })?;
        drop(slow);
        Ok(device.stall()?)
    });
}

fn main() -> ExitCode {
    harness::program(|| {
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        ioctl_tests(&mut suite, &bench);
        memory_tests(&mut suite, &bench);
        commit_tests(&mut suite, &bench);
        command_tests(&mut suite, &bench);
        let shared = &bench;
        suite.test("each row of the page has a test", move || {
            let done = shared.done.borrow();
            let missing: Vec<&str> = shared
                .rows
                .iter()
                .map(|row| row.name.as_str())
                .filter(|name| !done.iter().any(|done| done == name))
                .collect();
            ensure!(missing.is_empty(), "no test of {missing:?}");
            same("rows", shared.rows.len(), done.len())
        });
        suite.test("none of this made the GPU complain", move || {
            same("violations", shared.control.violations(), 0)
        });
        suite.run()
    })
}
