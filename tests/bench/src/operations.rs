// SPDX-License-Identifier: GPL-2.0-only
//! The measured operations. Work that a client does only once is done before the measurement, so that the results
//! include only the driver and the kernel's path to it.

use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::Command as Program;
use std::process::Stdio;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Device;
use galcore_client::device::Node;
use galcore_client::draw::Engine;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Structure;
use galcore_client::uapi::Wire;
use galcore_client::Stream;

use crate::counter;
use crate::meter::Meter;
use crate::meter::Plan;
use crate::meter::Then;
use crate::meter::LATE;

/// The argument that makes this program the other end of the pipe.
pub const ECHO: &str = "--echo";

/// Limit for a wait, in milliseconds.
const WAIT_LIMIT: u32 = 20_000;

/// A request that is sent repeatedly: the input is constant, and the answer is in a separate buffer.
struct Call {
    input: Interface,
    output: Interface,
}

impl Call {
    fn new<T: Structure>(device: &Device, command: Command, payload: &T) -> Self {
        let mut input = Interface::with(command, payload);
        input.set_hardware_type(device.hardware_type());
        let output = Interface::new(command);
        Self { input, output }
    }

    fn send(&mut self, device: &Device) -> Result<()> {
        sys::exchange_apart(
            device.as_fd(),
            uapi::IOCTL_INTERFACE,
            self.input.bytes(),
            self.output.bytes_mut(),
        )?;
        if word(self.output.bytes(), uapi::STATUS_OFFSET) != 0 {
            bail!("{}: status {}", self.input.command(), self.output.status());
        }
        Ok(())
    }

    /// Word `index` of the answer's union member.
    fn answer(&self, index: usize) -> u32 {
        word(self.output.bytes(), uapi::UNION_OFFSET + 4 * index)
    }

    /// Sets word `index` of the request's union member.
    fn ask(&mut self, index: usize, value: u32) {
        let bytes = &mut self.input.bytes_mut()[uapi::UNION_OFFSET + 4 * index..];
        if let Some(chunk) = bytes.first_chunk_mut() {
            *chunk = value.to_ne_bytes();
        }
    }
}

/// A word of an interface. The client library's tables are not used, to measure only the driver.
#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |chunk| u32::from_ne_bytes(*chunk))
}

/// Word of USER_SIGNAL with the signal's id.
const SIGNAL_ID: usize = 1;

/// Word with the node's handle in all requests about a node.
const NODE: usize = 0;

/// Word of ALLOCATE_LINEAR_VIDEO_MEMORY's answer with the node's handle.
const NEW_NODE: usize = 4;

/// Word of UNLOCK_VIDEO_MEMORY's answer that shows whether a second half is necessary.
const ASYNCHRONOUS: usize = 3;

fn signal_call(device: &Device, command: u32, id: i32, wait: u32) -> Call {
    let payload = uapi::UserSignal {
        command,
        id,
        wait,
        state: 1,
        ..Default::default()
    };
    Call::new(device, Command::USER_SIGNAL, &payload)
}

/// A list with one record, at a fixed address.
struct Record {
    words: Box<[u64; uapi::QUEUE_RECORD_SIZE / 8]>,
}

impl Record {
    fn new<T: Structure>(command: Command, payload: &T) -> Self {
        let mut words = Box::new([0; uapi::QUEUE_RECORD_SIZE / 8]);
        let interface = Interface::with(command, payload);
        for (word, bytes) in words[1..].iter_mut().zip(interface.bytes().chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Self { words }
    }

    fn signal(id: i32) -> Self {
        Self::new(
            Command::SIGNAL,
            &uapi::Signal {
                signal: id as u64,
                aux_signal: 0,
                process: std::process::id().into(),
                from_where: 4,
            },
        )
    }

    fn address(&self) -> u64 {
        self.words.as_ptr() as usize as u64
    }
}

/// A command buffer for repeated commits, and its requests.
struct Commits {
    device: Device,
    buffer: Buffer,
    _record: Box<[u8; uapi::CommandBufferRecord::SIZE]>,
    _queue: Record,
    /// With a signal.
    full: Call,
    /// Without a signal.
    bare: Call,
    wait: Call,
    context: u32,
}

impl Commits {
    fn new(stream: &Stream) -> Result<Self> {
        let device = Device::open()?;
        device.map_pool()?;
        let engine = Engine::of(&device.identity()?);
        let context = device.attach()?.context;
        let bytes = u64::from(uapi::RESERVED_HEAD + uapi::RESERVED_TAIL) + stream.bytes() as u64;
        let buffer = device.allocate_contiguous(bytes.next_multiple_of(4096))?;
        let record = place(&buffer, 0, engine.pipe(), stream);
        let mut bytes = Box::new([0; uapi::CommandBufferRecord::SIZE]);
        record.put(&mut bytes[..]);
        let signal = device.create_signal(false)?;
        let queue = Record::signal(signal);
        let call = |queue: u64| {
            let commit = uapi::Commit {
                context: context.into(),
                command_buffer: bytes.as_ptr() as usize as u64,
                delta: 0,
                queue,
            };
            Call::new(&device, Command::COMMIT, &commit)
        };
        let (full, bare) = (call(queue.address()), call(0));
        let wait = signal_call(&device, uapi::signal::WAIT, signal, WAIT_LIMIT);
        Ok(Self {
            device,
            buffer,
            _record: bytes,
            _queue: queue,
            full,
            bare,
            wait,
            context,
        })
    }

    fn commit(&mut self) -> Result<()> {
        self.full.send(&self.device)
    }

    fn wait(&mut self) -> Result<()> {
        self.wait.send(&self.device)
    }

    /// Adds a delta to each commit.
    fn set_delta(&mut self, delta: &Delta) {
        for call in [&mut self.full, &mut self.bare] {
            let mut commit: uapi::Commit = call.input.get();
            commit.delta = delta.address();
            call.input.set(&commit);
        }
    }

    /// Switches the commits to another context of the same file.
    fn other_context(&mut self) -> Result<()> {
        let context = self.device.attach()?.context;
        for call in [&mut self.full, &mut self.bare] {
            let mut commit: uapi::Commit = call.input.get();
            commit.context = if commit.context == u64::from(self.context) {
                context.into()
            } else {
                self.context.into()
            };
            call.input.set(&commit);
        }
        Ok(())
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // The mapping keeps the module in use until it is freed. The GPU has completed its commands before the memory
        // is reused.
        if let Err(error) = self.device.free_contiguous(&self.buffer) {
            eprintln!("a command buffer: {error}");
        }
    }
}

/// A stream with one NOP.
fn minimal() -> Stream {
    Stream::new().nop().clone()
}

/// A plan for an operation of the processor only.
pub fn plan(name: &'static str, samples: usize) -> Plan {
    Plan {
        name,
        samples,
        per: 1,
        late: 0,
        whole: true,
    }
}

/// A plan for an operation with the GPU.
pub fn gpu_plan(name: &'static str, samples: usize) -> Plan {
    Plan {
        late: LATE,
        ..plan(name, samples)
    }
}

/// Measures all operations.
pub fn all(meter: &mut Meter) -> Result<()> {
    system(meter)?;
    queries(meter)?;
    signals(meter)?;
    events(meter)?;
    commits(meter)?;
    first_commit(meter)?;
    in_flight(meter)?;
    contexts(meter)?;
    switches(meter)?;
    clients(meter)?;
    sizes(meter)?;
    memory(meter)
}

/// Costs of the system itself, as a reference.
fn system(meter: &mut Meter) -> Result<()> {
    meter.measure(plan("getppid", 2000), "getppid", || {
        ensure!(counter::parent() > 0);
        Ok(())
    })?;
    if !meter.wants("pipe") {
        return Ok(());
    }
    let mut child = Program::new(std::env::current_exe()?)
        .arg(ECHO)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the pipe's other end")?;
    let mut to = child.stdin.take().context("a pipe")?;
    let mut from = child.stdout.take().context("a pipe")?;
    meter.measure(
        plan("pipe", 2000),
        "pipe ping-pong between two processes",
        || {
            to.write_all(&[1])?;
            Ok(from.read_exact(&mut [0])?)
        },
    )?;
    drop(to);
    ensure!(child.wait()?.success(), "the pipe's other end failed");
    Ok(())
}

/// Runs the other end of the pipe.
pub fn echo() -> Result<()> {
    let (mut stdin, mut stdout) = (
        std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned()?),
        std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?),
    );
    let mut byte = [0];
    while stdin.read(&mut byte)? == 1 {
        stdout.write_all(&byte)?;
    }
    Ok(())
}

fn queries(meter: &mut Meter) -> Result<()> {
    let device = Device::open()?;
    let mut bytes = [0; 32];
    meter.measure(plan("unknown-ioctl", 2000), "unknown ioctl", || {
        let answer = sys::exchange(device.as_fd(), 0x4000_4700, &mut bytes);
        ensure!(answer.is_err(), "an unknown ioctl was answered");
        Ok(())
    })?;
    let mut identity = Call::new(
        &device,
        Command::QUERY_CHIP_IDENTITY,
        &uapi::QueryChipIdentity::default(),
    );
    meter.measure(plan("identity", 2000), "identity query", || {
        identity.send(&device)
    })
}

fn signals(meter: &mut Meter) -> Result<()> {
    let device = Device::open()?;
    let mut create = signal_call(&device, uapi::signal::CREATE, 0, 0);
    let mut set = signal_call(&device, uapi::signal::SIGNAL, 0, 0);
    let mut wait = signal_call(&device, uapi::signal::WAIT, 0, 0);
    let mut destroy = signal_call(&device, uapi::signal::DESTROY, 0, 0);
    meter.measure(
        plan("signal-cycle", 2000),
        "signal create + set + wait(0) + destroy",
        || {
            create.send(&device)?;
            let id = create.answer(SIGNAL_ID);
            for call in [&mut set, &mut wait, &mut destroy] {
                call.ask(SIGNAL_ID, id);
                call.send(&device)?;
            }
            Ok(())
        },
    )
}

fn events(meter: &mut Meter) -> Result<()> {
    let device = Device::open()?;
    let signal = device.create_signal(false)?;
    let record = Record::signal(signal);
    let event = uapi::Event {
        queue: record.address(),
    };
    let mut commit = Call::new(&device, Command::EVENT_COMMIT, &event);
    let mut wait = signal_call(&device, uapi::signal::WAIT, signal, WAIT_LIMIT);
    meter.measure(gpu_plan("event-wait", 1000), "event commit + wait", || {
        commit.send(&device)?;
        wait.send(&device)
    })?;
    Ok(device.destroy_signal(signal)?)
}

fn commits(meter: &mut Meter) -> Result<()> {
    let mut commits = Commits::new(&minimal())?;
    meter.measure(
        gpu_plan("commit-wait", 1000),
        "minimal commit + signal + wait",
        || {
            commits.commit()?;
            commits.wait()
        },
    )?;
    let commits = std::cell::RefCell::new(commits);
    let plan = Plan {
        whole: false,
        ..gpu_plan("commit-ioctl", 1000)
    };
    meter.measure(
        plan,
        "of it the submitting ioctl",
        Then(
            || commits.borrow_mut().commit(),
            || commits.borrow_mut().wait(),
        ),
    )
}

/// A commit to a core that has just been powered off, and the cost of powering it off.
fn first_commit(meter: &mut Meter) -> Result<()> {
    const OFF: u32 = 1;
    let commits = std::cell::RefCell::new(Commits::new(&minimal())?);
    let payload = uapi::SetPowerManagement { state: OFF };
    let command = Command::SET_POWER_MANAGEMENT_STATE;
    let mut off = Call::new(&commits.borrow().device, command, &payload);
    meter.measure(
        gpu_plan("first-commit", 200),
        "the first commit after idle + wait",
        Then(
            || {
                let mut commits = commits.borrow_mut();
                commits.commit()?;
                commits.wait()
            },
            || off.send(&commits.borrow().device),
        ),
    )
}

/// Number of simultaneous submissions.
pub const IN_FLIGHT: usize = 16;

/// A plan for [`IN_FLIGHT`] submissions; results are per submission. They share an interrupt: see [`LATE`].
pub fn sixteen(name: &'static str) -> Plan {
    Plan {
        per: IN_FLIGHT as u64,
        ..gpu_plan(name, 400)
    }
}

fn in_flight(meter: &mut Meter) -> Result<()> {
    let mut commits = (0..IN_FLIGHT)
        .map(|_| Commits::new(&minimal()))
        .collect::<Result<Vec<_>>>()?;
    // One file, as in a client: that of the first.
    let (first, others) = commits.split_at_mut(1);
    let first = &mut first[0];
    let device = &first.device;
    let mut queues = Vec::new();
    let mut calls = Vec::new();
    for _ in others.iter() {
        let signal = device.create_signal(false)?;
        let queue = Record::signal(signal);
        let mut commit: uapi::Commit = first.full.input.get();
        commit.queue = queue.address();
        queues.push(queue);
        calls.push((
            Call::new(device, Command::COMMIT, &commit),
            signal_call(device, uapi::signal::WAIT, signal, WAIT_LIMIT),
        ));
    }
    meter.measure(
        sixteen("in-flight-each"),
        "16 in flight, each with its signal, per commit",
        || {
            first.full.send(&first.device)?;
            for (commit, _) in &mut calls {
                commit.send(&first.device)?;
            }
            first.wait.send(&first.device)?;
            for (_, wait) in &mut calls {
                wait.send(&first.device)?;
            }
            Ok(())
        },
    )?;
    meter.measure(
        sixteen("in-flight-one"),
        "16 in flight, one signal at the end, per commit",
        || {
            for _ in 1..IN_FLIGHT {
                first.bare.send(&first.device)?;
            }
            first.full.send(&first.device)?;
            first.wait.send(&first.device)
        },
    )
}

fn contexts(meter: &mut Meter) -> Result<()> {
    let mut one = Commits::new(&minimal())?;
    let mut other = Commits::new(&minimal())?;
    other.other_context()?;
    let mut turn = false;
    meter.measure(
        gpu_plan("two-contexts", 1000),
        "two contexts in turn, commit + wait",
        || {
            turn = !turn;
            let commits = if turn { &mut one } else { &mut other };
            commits.commit()?;
            commits.wait()
        },
    )
}

/// A `gcsSTATE_DELTA` of 4.0.0, followed by its records, in 32-bit words.
struct Delta {
    words: Box<[u32]>,
}

impl Delta {
    /// Words before the records.
    const HEAD: usize = 16;
    /// The word with the number of records, and the one with their address.
    const COUNT: usize = 3;
    const RECORDS: usize = 4;

    /// `count` records, for consecutive uniforms of the vertex shader.
    fn new(count: u32) -> Result<Self> {
        let mut words = vec![0; Self::HEAD];
        words[Self::COUNT] = count;
        for number in 0..count {
            words.extend([UNIFORMS / 4 + number % UNIFORM_WORDS, 0, number]);
        }
        let mut words = words.into_boxed_slice();
        let records = words[Self::HEAD..].as_ptr() as usize;
        words[Self::RECORDS] = u32::try_from(records).context("a 32-bit program")?;
        Ok(Self { words })
    }

    fn address(&self) -> u64 {
        self.words.as_ptr() as usize as u64
    }
}

/// A COMMIT that switches contexts, with deltas. Each delta is merged twice, once into each copy of its context.
fn switches(meter: &mut Meter) -> Result<()> {
    for (name, title, records) in [
        ("switch-0", "switch of contexts without delta, the ioctl", 0),
        (
            "switch-100",
            "switch with deltas of 100 records, the ioctl",
            100,
        ),
        (
            "switch-1000",
            "switch with deltas of 1,000 records, the ioctl",
            1000,
        ),
    ] {
        if !meter.wants(name) {
            continue;
        }
        let mut one = Commits::new(&minimal())?;
        let mut other = Commits::new(&minimal())?;
        other.other_context()?;
        let deltas = [Delta::new(records)?, Delta::new(records)?];
        if records > 0 {
            one.set_delta(&deltas[0]);
            other.set_delta(&deltas[1]);
        }
        let both = std::cell::RefCell::new([one, other]);
        let plan = Plan {
            whole: false,
            ..gpu_plan(name, 400)
        };
        let turn = std::cell::Cell::new(0);
        let switch = || {
            turn.set(1 - turn.get());
            both.borrow_mut()[turn.get()].commit()
        };
        let wait = || both.borrow_mut()[turn.get()].wait();
        meter.measure(plan, title, Then(switch, wait))?;
        drop(deltas);
    }
    Ok(())
}

/// COMMIT and wait, in several processes at the same time.
fn clients(meter: &mut Meter) -> Result<()> {
    for (name, title, count) in [
        ("clients-1", "commit + wait, 1 other client, each", 1),
        ("clients-4", "commit + wait, 4 clients at once, each", 4),
        ("clients-16", "commit + wait, 16 clients at once, each", 16),
    ] {
        if !meter.wants(name) {
            continue;
        }
        let mut children = (0..count)
            .map(|_| Client::start())
            .collect::<Result<Vec<_>>>()?;
        let plan = Plan {
            per: u64::from(CLIENT_COMMITS) * count as u64,
            // One interrupt for the commits of all clients. The delay is short because a sample is long and should
            // contain few of the kernel's ticks.
            late: LATE / 3 * count as u32,
            ..gpu_plan(name, 160)
        };
        meter.measure(plan, title, || {
            for child in &mut children {
                child.to.write_all(&[1])?;
            }
            for child in &mut children {
                child.from.read_exact(&mut [0])?;
            }
            Ok(())
        })?;
        for child in children {
            child.end()?;
        }
    }
    Ok(())
}

/// Commits of a client per start signal.
const CLIENT_COMMITS: u32 = 16;

/// The argument that makes this program such a client.
pub const CLIENT: &str = "--client";

/// A process that commits on request.
struct Client {
    child: std::process::Child,
    to: std::process::ChildStdin,
    from: std::process::ChildStdout,
}

impl Client {
    fn start() -> Result<Self> {
        let mut child = Program::new(std::env::current_exe()?)
            .arg(CLIENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a client")?;
        let to = child.stdin.take().context("a pipe")?;
        let from = child.stdout.take().context("a pipe")?;
        Ok(Self { child, to, from })
    }

    fn end(mut self) -> Result<()> {
        drop(self.to);
        ensure!(self.child.wait()?.success(), "a client failed");
        Ok(())
    }
}

/// Runs a client that commits when it receives a request on standard input.
pub fn client() -> Result<()> {
    let (mut stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
    let mut commits = Commits::new(&minimal())?;
    let mut byte = [0];
    while stdin.read(&mut byte)? == 1 {
        for _ in 0..CLIENT_COMMITS {
            commits.commit()?;
            commits.wait()?;
        }
        stdout.write_all(&byte)?;
        stdout.flush()?;
    }
    Ok(())
}

/// The first uniform of the vertex shader (VS_UNIFORMS): these states only hold a value until a draw.
const UNIFORMS: u32 = 0x5000;

/// Number of words of them on every core.
const UNIFORM_WORDS: u32 = 4 * 168;

/// A stream of `bytes` that loads states, 15 at a time.
fn states(bytes: usize) -> Stream {
    let mut stream = Stream::new();
    while stream.bytes() + 64 <= bytes {
        stream.states(UNIFORMS, &[0; 15]);
    }
    stream
}

fn sizes(meter: &mut Meter) -> Result<()> {
    for (name, title, bytes) in [
        ("commit-4k", "commit of 4 KiB of states, the ioctl", 4 << 10),
        (
            "commit-16k",
            "commit of 16 KiB of states, the ioctl",
            16 << 10,
        ),
        (
            "commit-32k",
            "commit of 32 KiB of states, the ioctl",
            32 << 10,
        ),
        // The ring of 1 MiB has space for two of these, so every other one starts at the ring's beginning again.
        (
            "commit-wrap",
            "commit of 400 KiB of states, the ring goes round, the ioctl",
            400 << 10,
        ),
    ] {
        if !meter.wants(name) {
            continue;
        }
        let commits = std::cell::RefCell::new(Commits::new(&states(bytes))?);
        let plan = Plan {
            whole: false,
            ..gpu_plan(name, 300)
        };
        meter.measure(
            plan,
            title,
            Then(
                || commits.borrow_mut().commit(),
                || commits.borrow_mut().wait(),
            ),
        )?;
    }
    Ok(())
}

/// Requests to allocate, lock, unlock, and free a node.
struct NodeCalls<'a> {
    device: &'a Device,
    allocate: Call,
    lock: Call,
    unlock: Call,
    free: Call,
    /// The second half of an unlock, if requested.
    record: Record,
    event: Call,
}

impl<'a> NodeCalls<'a> {
    fn new(device: &'a Device, pool: Pool, bytes: u32) -> Self {
        let allocate = uapi::AllocateLinearVideoMemory {
            bytes,
            alignment: 64,
            surface_type: surface::BITMAP,
            pool: pool.0,
            node: 0,
        };
        let unlock = uapi::UnlockVideoMemory {
            surface_type: surface::BITMAP,
            ..Default::default()
        };
        let record = Record::new(Command::UNLOCK_VIDEO_MEMORY, &unlock);
        let event = uapi::Event {
            queue: record.address(),
        };
        Self {
            device,
            allocate: Call::new(device, Command::ALLOCATE_LINEAR_VIDEO_MEMORY, &allocate),
            lock: Call::new(
                device,
                Command::LOCK_VIDEO_MEMORY,
                &uapi::LockVideoMemory::default(),
            ),
            unlock: Call::new(device, Command::UNLOCK_VIDEO_MEMORY, &unlock),
            free: Call::new(
                device,
                Command::FREE_VIDEO_MEMORY,
                &uapi::FreeVideoMemory::default(),
            ),
            record,
            event: Call::new(device, Command::EVENT_COMMIT, &event),
        }
    }

    fn once(&mut self) -> Result<()> {
        self.allocate.send(self.device)?;
        let node = self.allocate.answer(NEW_NODE);
        for call in [&mut self.lock, &mut self.unlock, &mut self.free] {
            call.ask(NODE, node);
        }
        self.lock.send(self.device)?;
        self.unlock.send(self.device)?;
        if self.unlock.answer(ASYNCHRONOUS) != 0 {
            // The node's handle is the first field of the union member, after the header.
            self.record.words[1 + uapi::UNION_OFFSET / 8] = node.into();
            self.event.send(self.device)?;
        }
        self.free.send(self.device)
    }
}

fn memory(meter: &mut Meter) -> Result<()> {
    const POOL: &str = "allocate + lock + unlock + free, pool";
    const PAGES: &str = "allocate + lock + unlock + free, page-backed";
    let kinds: [(Pool, u32, usize, [&'static str; 3], &str); 4] = [
        (
            Pool::SYSTEM,
            4 << 10,
            1000,
            ["pool-4k-1", "pool-4k-1000", "pool-4k-10000"],
            POOL,
        ),
        (
            Pool::SYSTEM,
            1 << 20,
            500,
            ["pool-1m-1", "pool-1m-1000", "pool-1m-10000"],
            POOL,
        ),
        (
            Pool::VIRTUAL,
            4 << 10,
            400,
            ["pages-4k-1", "pages-4k-1000", "pages-4k-10000"],
            PAGES,
        ),
        (
            Pool::VIRTUAL,
            1 << 20,
            100,
            ["pages-1m-1", "pages-1m-1000", "pages-1m-10000"],
            PAGES,
        ),
    ];
    for (pool, bytes, samples, names, title) in kinds {
        let device = Device::open()?;
        // Keep the pool mapped while nodes are locked in it. Otherwise the driver maps it permanently.
        let mapped = device.map_pool()?;
        let mut live: Vec<Node> = Vec::new();
        for (name, wanted) in names.into_iter().zip([1, 1000, 10_000]) {
            if !meter.wants(name) {
                continue;
            }
            while live.len() < wanted {
                live.push(device.allocate(64, 64, surface::BITMAP, pool)?);
            }
            let mut calls = NodeCalls::new(&device, pool, bytes);
            let title = format!("{title}, {} KiB, {wanted} live", bytes >> 10);
            // The mean includes deferred work.
            let operation = Then(|| calls.once(), || Ok(device.stall()?));
            let plan = match pool {
                Pool::VIRTUAL => gpu_plan(name, samples),
                _ => plan(name, samples),
            };
            meter.measure(plan, &title, operation)?;
        }
        for node in live {
            device.free(node)?;
        }
        device.stall()?;
        drop(mapped);
    }
    Ok(())
}
