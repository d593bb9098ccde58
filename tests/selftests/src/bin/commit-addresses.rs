// SPDX-License-Identifier: GPL-2.0-only
//! GPU addresses in command buffers. COMMIT accepts 0 and the client's own addresses, and refuses all others. The
//! commands run as they were checked, whatever other threads do in the meantime.
//!
//! The module must be loaded with `allowedRanges` of one page.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Child;
use std::process::ChildStdout;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::stream::Pipe;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Random;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::states;
use galcore_selftests::states::addresses_of;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;
use gpu_control::Board;

/// A client, its command buffer, and the GPU's control BAR.
struct Bench {
    client: Client,
    control: Control,
    buffer: Buffer,
    board: Board,
    scratch: Scratch,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        // The states are lost when the core powers off.
        system::stay_awake()?;
        let buffer = client.device().allocate_contiguous(0x8000)?;
        let control = Control::open()?;
        Ok(Self {
            client,
            board: control.board().context("an unknown board")?,
            scratch: Scratch::read()?,
            control,
            buffer,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    /// Whether the client's command memory contains this GPU address.
    fn has(&self, address: u32) -> bool {
        self.buffer.has(address) || self.client.has_command_memory(address)
    }

    fn send(&self, words: &[u32]) -> Result<Status> {
        let mut stream = Stream::new();
        stream.raw(words);
        let record = place(&self.buffer, 0, self.client.engine().pipe(), &stream);
        Ok(self.device().send_commit(&record, 0, &mut Queue::new())?)
    }

    /// Sends `words`, which must be refused, until the log contains `wanted`. The log is rate-limited.
    fn logged(&self, log: &mut KernelLog, wanted: &str, words: &[u32]) -> Result<()> {
        harness::eventually(wanted, Duration::from_secs(20), || {
            same(wanted, self.send(words)?, Status::INVALID_DATA)?;
            let lines = log.lines()?;
            Ok(lines.iter().any(|line| line.text.contains(wanted)))
        })
    }

    /// The state (byte address) with the address that the engine draws to.
    fn target(&self) -> u32 {
        match self.client.engine().pipe() {
            Pipe::Pipe2d => 0x1228,
            Pipe::Pipe3d => 0x1610,
        }
    }

    /// The value of a state in the GPU.
    fn state(&self, address: u32) -> u32 {
        self.control.write(gpu_control::STATE_INDEX, address / 4);
        self.control.read(gpu_control::STATE_VALUE)
    }

    /// Loads `value` into every state of the list: refused, and no state changes. States of samplers that no draw here
    /// uses get the address of scratch memory instead.
    fn refused(&self, what: &str, value: u32) -> Result<()> {
        let addresses = addresses_of(self.board);
        for &address in &addresses {
            let status = self.send(&[0x0801_0000 | (address / 4), value])?;
            let what = || format!("{what}: state {address:#x} with {value:#x}");
            if SAMPLERS.iter().any(|samplers| samplers.contains(&address)) {
                same(&what(), status, Status::OK)?;
                self.device().stall()?;
                same(&what(), self.state(address), self.scratch.of(address))?;
            } else {
                same(&what(), status, Status::INVALID_DATA)?
            }
        }
        self.device().stall()?;
        for &address in &addresses {
            ensure!(
                self.state(address) != value,
                "{what}: state {address:#x} was loaded with {value:#x}"
            );
        }
        Ok(())
    }

    /// Loads `value` into a few states of the list: accepted.
    fn accepted(&self, what: &str, value: u32) -> Result<()> {
        let some = [
            0x644, 0x680, 0x1228, 0x1610, 0x2400, 0x277c, 0x3824, 0x14800,
        ];
        for address in some
            .into_iter()
            .filter(|&byte| states::has(self.board, byte))
        {
            let status = self.send(&[0x0801_0000 | (address / 4), value])?;
            let what = format!("{what}: state {address:#x} with {value:#x}");
            same(&what, status, Status::OK)?;
            self.device().stall()?;
            same(&what, self.state(address), value)?;
            same(
                &what,
                self.send(&[0x0801_0000 | (address / 4), 0])?,
                Status::OK,
            )?;
        }
        Ok(())
    }
}

/// The address states of samplers: of their tile status, and of their pictures.
const SAMPLERS: [std::ops::Range<u32>; 3] = [0x1740..0x1760, 0x2400..0x2780, 0x1_0800..0x1_1000];

/// The page of GPU addresses that the module parameter allows for all clients.
fn allowed(bench: &Bench) -> Result<u32> {
    let text = std::fs::read_to_string("/sys/module/galcore/parameters/allowedRanges")?;
    let (start, bytes) = text.trim().split_once(',').context("allowedRanges")?;
    same("bytes of allowedRanges", bytes, "0x1000")?;
    let digits = start.strip_prefix("0x").context("a hexadecimal number")?;
    let start = u32::from_str_radix(digits, 16)?;
    Ok(start - bench.client.base_address())
}

/// The start of the kernel's own memory on the virtual board.
const RAM: u32 = 0x4000_0000;

/// Fills "address 0" and copies from it: the copy reads what the fill wrote, and no memory of the machine is involved.
fn scratch_only(bench: &Bench) -> Result<()> {
    let (device, engine) = (bench.device(), bench.client.engine());
    let node = device.allocate(0x1_0000, 64, surface::BITMAP, Pool::SYSTEM)?;
    let location = device.lock(node)?;
    let memory = device.memory(node, location, bench.client.pool())?;
    let own = surface_at(location.address, memory.clone())?;
    let nothing = surface_at(0, memory.clone())?;
    let all = Rect::new(0, 0, own.width, own.height);
    let commit = |fill: &dyn Fn(&mut Stream)| -> Result<()> {
        let mut stream = Stream::new();
        fill(&mut stream);
        stream.flush(engine.pipe());
        let record = place(&bench.buffer, 0, engine.pipe(), &stream);
        device.commit(&record, 0, &mut Queue::new())?;
        Ok(device.stall()?)
    };
    let before = bench.control.violations();
    // The first colour is harmless, in case the draw does reach other memory.
    for colour in [0x5c4a_7c41, 0x1234_5678] {
        commit(&|stream| engine.copy_all(stream, &nothing, (0, 0), &own, &[all], all))?;
        // The same page repeats.
        for at in (4096..own.stride as usize * own.height as usize).step_by(4) {
            let (here, there) = (memory.read(at), memory.read(at % 4096));
            ensure!(
                here == there,
                "{here:#x} at {at:#x}, {there:#x} in the page before"
            );
        }
        // Loaded in an earlier COMMIT: in the same COMMIT as the draw, the checker treats it as an error.
        let mut fill = Stream::new();
        engine.fill(&mut fill, &nothing, all, colour);
        let refused = bench.send(fill.words())?;
        same("a draw to address 0", refused, Status::INVALID_DATA)?;
        let draw = states::draw_of(fill.words()).context("no draw")?;
        let (before, last) = fill.words().split_at(draw);
        for part in [before, last] {
            commit(&|stream| {
                stream.raw(part);
            })?;
        }
        commit(&|stream| engine.copy_all(stream, &nothing, (0, 0), &own, &[all], all))?;
        for at in (0..own.stride as usize * own.height as usize).step_by(4) {
            let found = memory.read(at);
            ensure!(found == colour, "{found:#x} at {at:#x}, not {colour:#x}");
        }
    }
    same("violations", bench.control.violations(), before)?;
    unlock(device, node)?;
    Ok(device.free(node)?)
}

/// Tile status in a page of pool VIRTUAL, and in memory with a physical address.
fn physical_states(bench: &Bench) -> Result<()> {
    let device = bench.device();
    if !states::has(bench.board, states::TILE_STATUS[0]) {
        return harness::skip("this core has no tile status");
    }
    let is_physical = bench.scratch.physical.is_some();
    let base = bench.client.base_address();
    let paged = device.allocate(8192, 64, surface::BITMAP, Pool::VIRTUAL)?;
    let plain = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
    let (page, memory) = (device.lock(paged)?.address, device.lock(plain)?.address);
    ensure!(
        page >= 1 << 31 && memory < 1 << 31,
        "{page:#x}, {memory:#x}"
    );
    let offset = if is_physical { base } else { 0 };
    for state in states::TILE_STATUS {
        let load = |value: u32| bench.send(&[0x0801_0000 | (state / 4), value]);
        let what = format!("state {state:#x}");
        same(&what, load(memory + offset)?, Status::OK)?;
        let wanted = if is_physical {
            Status::INVALID_DATA
        } else {
            Status::OK
        };
        same(&what, load(page)?, wanted)?;
        same(&what, load(page.wrapping_add(offset))?, wanted)?;
        // What both addresses would be as physical ones: the kernel's memory.
        for other in [RAM, RAM + 0x100_0000] {
            same(&what, load(other)?, Status::INVALID_DATA)?;
        }
        device.stall()?;
        let loaded = if is_physical {
            memory + offset
        } else {
            page.wrapping_add(offset)
        };
        same(&what, bench.state(state), loaded)?;
        same(&what, load(0)?, Status::OK)?;
    }
    for node in [paged, plain] {
        unlock(device, node)?;
        device.free(node)?;
    }
    Ok(())
}

/// Loads one of the client's own addresses into states of newer cores and of engines that this core lacks.
fn unknown_states(bench: &Bench) -> Result<()> {
    let mut log = KernelLog::from_now()?;
    let own = bench.buffer.address;
    let mut unknown = vec![
        (0x07dc, "no name"),
        (0x3904, "GL"),
        (0x1114, "GS.INST_ADDR"),
        (0x14000, "BLT.SRC_ADDR"),
        (0x140a4, "BLT"),
        (0x1c008, "TFB"),
        (0x12ee0, "DE.TS_ADDRESS"),
        (0x14a08, "TCS"),
        (0x14b0c, "TES"),
        (0x3204, "CO"),
        (0x0bfc, "no name"),
    ];
    if bench.board != Board::Gc7000ul {
        unknown.extend([
            (0x3868, "GL.FENCE_OUT_ADDRESS"),
            (0x1a80, "TS.SAMPLER_SURFACE_BASE"),
            (0x07f8, "FE.ROBUSTNESS"),
            (0x15c00, "NTE.DESCRIPTOR_ADDR"),
        ]);
    }
    let listed = states::ADDRESSES.map(|(first, _)| first);
    let lacks = |byte: &u32| !states::has(bench.board, *byte);
    unknown.extend(listed.into_iter().filter(lacks).map(|byte| (byte, "")));
    for &(state, _) in &unknown {
        for value in [own, 0] {
            let status = bench.send(&[0x0801_0000 | (state / 4), value])?;
            same(&format!("state {state:#x}"), status, Status::INVALID_DATA)?;
        }
    }
    bench.device().stall()?;
    for &(state, _) in &unknown {
        same(&format!("state {state:#x}"), bench.state(state), 0)?;
    }
    // The log names the states.
    for (state, name) in [unknown[0], unknown[7]] {
        let wanted =
            format!("state {state:#x} ({name}) = {own:#010x}: not known for this core, at word 0");
        bench.logged(&mut log, &wanted, &[0x0801_0000 | (state / 4), own])?;
    }
    Ok(())
}

/// The log lines that help a client's author with errors that the checker finds.
fn mistakes(bench: &Bench) -> Result<()> {
    let mut log = KernelLog::from_now()?;
    let target = bench.target();
    let name = match bench.client.engine().pipe() {
        Pipe::Pipe2d => "DE.DEST_ADDRESS",
        Pipe::Pipe3d => "RS.DEST_ADDR",
    };
    let (semaphore, token) = (0x0801_0e02, 0x701);
    let mut all = vec![
        (
            vec![0x0801_0000 | (target / 4), 0x5810_0000],
            format!(
                "state {target:#x} ({name}) = 0x58100000: not in the process's memory, at word 0 "
            ),
        ),
        (
            vec![0x1800_0000, 0, 0x4000_0000, bench.buffer.address],
            "an opcode that is the kernel's, or unknown, at word 2 (0x40000000)".to_string(),
        ),
        (
            vec![0x0804_0480, 0, 0, 0],
            "the command is longer than what is left of the buffer, at word 0".to_string(),
        ),
        (
            vec![0x0801_0e01, 1],
            "state 0x3804 (GL.EVENT) = 0x00000001: clients must not load it, or not in this form, at word 0".to_string(),
        ),
        (
            vec![0x4800_0000, token],
            "it stalls on a token that no semaphore in the buffer arms, at word 0".to_string(),
        ),
        (
            vec![semaphore, token, semaphore, token],
            "it arms a semaphore again before a stall has waited for it, at word 2".to_string(),
        ),
        (
            vec![semaphore, 0x705],
            "it leaves a semaphore armed that no stall waits for, at word 2".to_string(),
        ),
    ];
    let identity = bench.client.identity();
    let other = match bench.client.engine().pipe() {
        Pipe::Pipe2d => vec![0x0801_0580, 0xbeeb_beeb],
        Pipe::Pipe3d => vec![0x2000_0100, 0, 0, 0x0001_0001],
    };
    if has_2d(identity) && has_3d(identity) {
        all.push((
            other,
            "it draws with an engine that is not selected, at word 0".to_string(),
        ));
    } else {
        all.push((
            vec![0x0801_0e00, u32::from(has_3d(identity))],
            "it selects an engine that this core lacks, at word 0".to_string(),
        ));
    }
    for (words, wanted) in &all {
        bench.logged(&mut log, wanted, words)?;
    }
    Ok(())
}

fn address_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("the client's own memory", move || {
        let device = bench.device();
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            let node = device.allocate(8192, 64, surface::BITMAP, pool)?;
            let address = device.lock(node)?.address;
            bench.accepted("a locked node", address)?;
            bench.accepted("its last byte", address + 8191)?;
            for (what, beside) in [
                ("the byte behind it", address + 8192),
                ("the byte before it", address - 1),
            ] {
                // The kernel may have placed it next to other memory of this client.
                let wanted = if bench.has(beside) {
                    Status::OK
                } else {
                    Status::INVALID_DATA
                };
                let status = bench.send(&[0x0801_0000 | (bench.target() / 4), beside])?;
                same(what, status, wanted)?;
            }
            // A second lock of a node in the pool; one remains after the first unlock.
            if pool == Pool::SYSTEM {
                device.lock(node)?;
                device.unlock(node)?;
                bench.accepted("still locked once", address)?;
            }
            unlock(device, node)?;
            // Clients unlock a node before they commit the last commands that use it.
            bench.accepted("unlocked, not yet freed", address)?;
            device.free(node)?;
            let status = bench.send(&[0x0801_0000 | (bench.target() / 4), address])?;
            same("a freed node", status, Status::INVALID_DATA)?;
        }
        let buffer = device.allocate_contiguous(4096)?;
        bench.accepted("a contiguous buffer", buffer.address)?;
        let page = Region::anonymous(3 * 4096)?;
        let mapped = device.map_user(page.address() + 100, 8192)?;
        bench.accepted("user memory", mapped.address)?;
        bench.accepted("user memory's end", mapped.address + 8191)?;
        let load = |address| bench.send(&[0x0801_0000 | (bench.target() / 4), address]);
        same(
            "before user memory",
            load(mapped.address - 1)?,
            Status::INVALID_DATA,
        )?;
        same(
            "behind user memory",
            load(mapped.address + 8192)?,
            Status::INVALID_DATA,
        )?;
        device.unmap_user(&mapped)?;
        same(
            "unmapped user memory",
            load(mapped.address)?,
            Status::INVALID_DATA,
        )?;
        device.free_contiguous(&buffer)?;
        same(
            "a freed buffer",
            load(buffer.address)?,
            Status::INVALID_DATA,
        )?;
        // The next COMMIT may not use it any more.
        let buffer = device.allocate_contiguous(4096)?;
        let mut stream = Stream::new();
        stream.state(bench.target(), buffer.address);
        let record = place(&bench.buffer, 0, bench.client.engine().pipe(), &stream);
        device.commit(&record, 0, Queue::new().free_contiguous(&buffer))?;
        same(
            "freed by the queue before",
            load(buffer.address)?,
            Status::INVALID_DATA,
        )
    });
    suite.test(
        "address 0 becomes the scratch memory's, in every state",
        move || {
            for address in addresses_of(bench.board) {
                let status = bench.send(&[0x0801_0000 | (address / 4), 0])?;
                same(&format!("state {address:#x}"), status, Status::OK)?;
            }
            bench.device().stall()?;
            for address in addresses_of(bench.board) {
                let wanted = bench.scratch.of(address);
                same(&format!("state {address:#x}"), bench.state(address), wanted)?;
            }
            Ok(())
        },
    );
    suite.test(
        "what is drawn to and from address 0 stays in the scratch memory",
        move || scratch_only(bench),
    );
    suite.test(
        "states that hold physical addresses take no page of the MMU",
        move || physical_states(bench),
    );
    suite.test("states that this core is not known to have", move || {
        unknown_states(bench)
    });
    suite.test(
        "the log says what a client's author has done wrong",
        move || mistakes(bench),
    );
    suite.test("the ring, in every state", move || {
        bench.device().stall()?;
        bench.refused("the ring", bench.control.read(gpu_control::FE_ADDRESS))
    });
    suite.test("another process's memory, in every state", move || {
        let foreign = Foreign::start()?;
        bench.refused("another's buffer", foreign.buffer_address())
    });
    suite.test("nobody's memory, in every state", move || {
        for address in [u32::MAX, 0x8000_0000, 1] {
            bench.refused("nobody's", address)?;
        }
        Ok(())
    });
    suite.test(
        "among others in one load, and as a converted number",
        move || {
            let own = bench.buffer.address;
            // Two addresses in one load.
            let load = |a, b| match bench.client.engine().pipe() {
                Pipe::Pipe2d => [0x0803_0000 | (0x1284 / 4), a, 0, b],
                Pipe::Pipe3d => [0x0803_0000 | (0x1608 / 4), a, 0, b],
            };
            same("both good", bench.send(&load(own, own))?, Status::OK)?;
            same(
                "the second bad",
                bench.send(&load(own, 4))?,
                Status::INVALID_DATA,
            )?;
            same(
                "the first bad",
                bench.send(&load(4, own))?,
                Status::INVALID_DATA,
            )?;
            for value in [own, 0] {
                let fixed = [0x0c01_0000 | (bench.target() / 4), value];
                same("converted", bench.send(&fixed)?, Status::INVALID_DATA)?;
            }
            Ok(())
        },
    );
    suite.test("what allowedRanges names", move || {
        let start = allowed(bench)?;
        bench.accepted("its first byte", start)?;
        bench.accepted("its last byte", start + 4095)?;
        let load = |address| bench.send(&[0x0801_0000 | (bench.target() / 4), address]);
        same("the byte before", load(start - 1)?, Status::INVALID_DATA)?;
        same("the byte behind", load(start + 4096)?, Status::INVALID_DATA)
    });
    suite.test("MAP_USER_MEMORY of what allowedRanges names", move || {
        let start = allowed(bench)?;
        let (device, physical) = (bench.device(), start + bench.client.base_address());
        let map = |physical, size| {
            let payload = uapi::MapUserMemory {
                memory: 0x1000_0000,
                physical,
                size,
                ..Default::default()
            };
            device.send(Command::MAP_USER_MEMORY, &payload)
        };
        for (offset, bytes) in [(0, 4096), (0, 1), (4095, 1), (64, 1024)] {
            let (status, answer) = map(physical + offset, bytes)?;
            same(
                "MAP",
                (status, answer.address),
                (Status::OK, start + offset),
            )?;
            bench.accepted("its address", answer.address)?;
            device.unmap_user(&answer)?;
            let again = device.unmap_user(&answer);
            let status = again.err().and_then(|error| error.status());
            same("UNMAP twice", status, Some(Status::NOT_FOUND))?;
        }
        for (first, bytes) in [
            (physical, 4097),
            (physical - 1, 4096),
            (physical + 4096, 1),
            (physical, 0),
            (physical, u64::MAX),
            (physical, 1 << 32),
            (RAM, 4096),
        ] {
            let found = map(first, bytes)?.0;
            same(
                &format!("{bytes:#x} at {first:#x}"),
                found,
                Status::INVALID_ARGUMENT,
            )?;
        }
        Ok(())
    });
    suite.test("the good among 3,000 nodes", move || {
        let device = bench.device();
        let mut nodes = Vec::new();
        for _ in 0..3000 {
            let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            nodes.push((node, device.lock(node)?.address));
        }
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (_, address) = nodes[random.below(3000) as usize];
            let words = [
                0x0801_0000 | (bench.target() / 4),
                address + random.below(4096),
            ];
            same("its own", bench.send(&words)?, Status::OK)?;
        }
        for (node, _) in nodes {
            device.unlock(node)?;
            device.free(node)?;
        }
        Ok(())
    });
}

/// Another process, which allocates memory that this one has freed.
struct Other {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Result<Self> {
        let mut child = system::again(&["--other"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().context("stdout")?);
        Ok(Self { child, answers })
    }

    /// Sends a command and returns the answer.
    fn ask(&mut self, what: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().context("stdin")?;
        writeln!(input, "{what}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim().to_string())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process ends at the end of its standard input. A drop cannot report an error.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The other process: `take` allocates a node and answers its address; `look` answers its contents and frees it.
fn other() -> Result<()> {
    let client = Client::start()?;
    let device = client.device();
    let mut held = None;
    for line in std::io::stdin().lines() {
        let answer = match (line?.as_str(), held.take()) {
            ("take", None) => {
                let node = device.allocate(0x8000, 64, surface::BITMAP, Pool::SYSTEM)?;
                let location = device.lock(node)?;
                held = Some((node, location));
                location.address.to_string()
            }
            ("look", Some((node, location))) => {
                device.stall()?;
                let memory = device.memory(node, location, client.pool())?;
                let found = memory.find_other_than(0);
                device.unlock(node)?;
                device.free(node)?;
                match found {
                    None => "zeros".to_string(),
                    Some((offset, word)) => format!("{word:#x} at {offset:#x}"),
                }
            }
            (line, _) => anyhow::bail!("{line}"),
        };
        println!("{answer}");
    }
    Ok(())
}

/// One thread continuously commits fills of a node, with long queues. The other unlocks and frees the node, and another
/// process gets its memory: no fill may reach it after that.
fn freed_under_way(bench: &Bench, rounds: u32) -> Result<()> {
    let device = bench.device();
    let (target, busy, hits) = (&AtomicU32::new(0), &AtomicU32::new(0), &AtomicU32::new(0));
    let stop = &AtomicBool::new(false);
    let painter = move || -> Result<u32> {
        let device = Device::open()?;
        let engine = bench.client.engine();
        let buffer = device.allocate_contiguous(0x8000)?;
        let signal = device.create_signal(true)?;
        let mut refused = 0;
        while !stop.load(SeqCst) {
            busy.fetch_add(1, SeqCst);
            let address = target.load(SeqCst);
            if address != 0 {
                let mut stream = Stream::new();
                let surface = surface_at(address, bench.buffer.memory.clone())?;
                engine.fill(&mut stream, &surface, Rect::new(0, 0, 16, 8), 0xffba_dbad);
                stream.flush(engine.pipe());
                let record = place(&buffer, 0, engine.pipe(), &stream);
                let mut queue = Queue::new();
                // The driver reads the queue between its check and the ring.
                for _ in 0..200 {
                    queue.signal(signal);
                }
                match device.send_commit(&record, 0, &mut queue)? {
                    Status::OK => {
                        hits.fetch_add(1, SeqCst);
                    }
                    Status::INVALID_DATA => refused += 1,
                    status => anyhow::bail!("COMMIT gave {status:?}"),
                }
            }
            busy.fetch_add(1, SeqCst);
            std::thread::yield_now();
        }
        device.free_contiguous(&buffer)?;
        Ok(refused)
    };
    std::thread::scope(|scope| {
        let painter = scope.spawn(painter);
        let mut random = Random::new(99);
        let mut again = 0;
        let mut other = Other::start()?;
        let mut go = || -> Result<()> {
            for _ in 0..rounds {
                let node = device.allocate(0x8000, 64, surface::BITMAP, Pool::SYSTEM)?;
                let address = device.lock(node)?.address;
                target.store(address, SeqCst);
                let before = hits.load(SeqCst);
                harness::eventually("the painter paints", Duration::from_secs(20), || {
                    Ok(hits.load(SeqCst) > before)
                })?;
                std::thread::sleep(Duration::from_micros(random.below(3000).into()));
                device.unlock(node)?;
                device.free(node)?;
                let next: u32 = other.ask("take")?.parse()?;
                target.store(0, SeqCst);
                // Wait until the painter has started another round.
                let now = busy.load(SeqCst);
                harness::eventually("the painter goes on", Duration::from_secs(20), || {
                    Ok(busy.load(SeqCst) >= now + 2)
                })?;
                same("behind the free", other.ask("look")?.as_str(), "zeros")?;
                again += u32::from(next == address);
            }
            Ok(())
        };
        let result = go();
        stop.store(true, SeqCst);
        let refused = painter
            .join()
            .map_err(|_| anyhow::anyhow!("the painter panicked"))??;
        result?;
        let done = hits.load(SeqCst);
        println!("# {done} done, {refused} refused; {again} of {rounds} got the same memory again");
        ensure!(done > 0 && refused > 0 && again > 0, "this showed nothing");
        Ok(())
    })
}

/// One thread continuously changes a word of the command buffer while the other commits it.
fn changed_under_way(bench: &Bench, rounds: u32) -> Result<()> {
    const GOOD: [u32; 2] = [0x1800_0000, 0];
    // END, LINK, EVENT, a foreign address, WAIT.
    let bad = [
        [0x1000_0000, 0],
        [0x4000_0008, 0x1000],
        [0x0801_0e01, 0x1f],
        [0x0801_048a, 0x1234_5678],
        [0x3800_0001, 0],
    ];
    let stop = &AtomicBool::new(false);
    let memory = &bench.buffer.memory;
    let (pipe, mut stream) = (bench.client.engine().pipe(), Stream::new());
    for _ in 0..1000 {
        stream.nop();
    }
    let record = place(&bench.buffer, 0, pipe, &stream);
    let commands = gpu_control::counter::COMMANDS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            while !stop.load(SeqCst) {
                let at = 32 + 8 * random.below(1000) as usize;
                for words in [bad[random.below(5) as usize], GOOD] {
                    memory.write(at, words[0]);
                    memory.write(at + 4, words[1]);
                }
            }
        });
        let go = || -> Result<()> {
            let before = bench.control.counter(commands);
            let (mut done, mut refused) = (0u32, 0u32);
            for _ in 0..rounds {
                match bench.device().send_commit(&record, 0, &mut Queue::new())? {
                    Status::OK => done += 1,
                    Status::INVALID_DATA => refused += 1,
                    status => anyhow::bail!("COMMIT gave {status:?}"),
                }
            }
            bench.device().stall()?;
            println!("# {done} done, {refused} refused");
            ensure!(refused > 0, "nothing was refused");
            let ran = bench.control.counter(commands) - before;
            ensure!(
                ran >= u64::from(done) * 1000,
                "{ran} commands of {done} commits"
            );
            same("violations", bench.control.violations(), 0)
        };
        let result = go();
        stop.store(true, SeqCst);
        result
    })
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--other") {
        return harness::exit(other());
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 60)?;
        let used = galcore_selftests::harness::at_rest(system::ProcGc::used_now)?;
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        address_tests(&mut suite, &bench);
        let shared = &bench;
        suite.test("memory freed while a COMMIT names it", move || {
            freed_under_way(shared, count)
        });
        suite.test("commands changed while a COMMIT reads them", move || {
            changed_under_way(shared, 10 * count)
        });
        suite.test("none of this made the GPU complain", move || {
            same("violations", shared.control.violations(), 0)
        });
        let result = suite.run();
        bench.device().free_contiguous(&bench.buffer)?;
        drop(bench);
        harness::settles("KiB used", used, system::ProcGc::used_now)?;
        result
    })
}
