// SPDX-License-Identifier: GPL-2.0-only
//! The operations that are measured. What a client needs not do again each time is prepared before, so that what is
//! counted is the driver and the kernel's way to it.

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

/// How long a wait may take, in milliseconds.
const WAIT_LIMIT: u32 = 20_000;

/// A request that is sent again and again: the input stays, the answer goes elsewhere.
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

    /// Word `index` of the answer's member of the union.
    fn answer(&self, index: usize) -> u32 {
        word(self.output.bytes(), uapi::UNION_OFFSET + 4 * index)
    }

    /// Sets word `index` of the request's member of the union.
    fn ask(&mut self, index: usize, value: u32) {
        let bytes = &mut self.input.bytes_mut()[uapi::UNION_OFFSET + 4 * index..];
        if let Some(chunk) = bytes.first_chunk_mut() {
            *chunk = value.to_ne_bytes();
        }
    }
}

/// A word of an interface: what is counted is the driver, so it is not read by the client's tables.
#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |chunk| u32::from_ne_bytes(*chunk))
}

/// Word of a USER_SIGNAL that is the signal's id.
const SIGNAL_ID: usize = 1;

/// Word of the node's handle in every request about a node.
const NODE: usize = 0;

/// Word of ALLOCATE_LINEAR_VIDEO_MEMORY's answer that is the node's handle.
const NEW_NODE: usize = 4;

/// Word of UNLOCK_VIDEO_MEMORY's answer that says whether there is a second half.
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

/// A list of one record, at a place of its own.
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

/// A command buffer that can be committed again and again, and its calls.
struct Commits {
    device: Device,
    buffer: Buffer,
    _record: Box<[u8; uapi::CommandBufferRecord::SIZE]>,
    _queue: Record,
    /// With the signal.
    full: Call,
    /// Without.
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

    /// Gives a delta with each commit.
    fn set_delta(&mut self, delta: &Delta) {
        for call in [&mut self.full, &mut self.bare] {
            let mut commit: uapi::Commit = call.input.get();
            commit.delta = delta.address();
            call.input.set(&commit);
        }
    }

    /// The same with another context of the same file.
    fn other_context(&mut self) -> Result<()> {
        let context = self.device.attach()?.context;
        for call in [&mut self.full, &mut self.bare] {
            let mut commit: uapi::Commit = call.input.get();
            commit.context = match commit.context == u64::from(self.context) {
                true => context.into(),
                false => self.context.into(),
            };
            call.input.set(&commit);
        }
        Ok(())
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // What is mapped holds the module, until it is freed. It is never reused before the GPU has done with it.
        if let Err(error) = self.device.free_contiguous(&self.buffer) {
            eprintln!("a command buffer: {error}");
        }
    }
}

/// One NOP.
fn minimal() -> Stream {
    Stream::new().nop().clone()
}

/// A plan for what is done by the processor alone.
pub fn plan(name: &'static str, samples: usize) -> Plan {
    Plan {
        name,
        samples,
        per: 1,
        late: 0,
        whole: true,
    }
}

/// A plan for what the GPU takes part in.
pub fn gpu_plan(name: &'static str, samples: usize) -> Plan {
    Plan {
        late: LATE,
        ..plan(name, samples)
    }
}

/// All of them.
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

/// What the system itself costs: the yardstick.
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

/// The other end of the pipe.
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

/// A commit to a core that has just gone off, and what it takes to have it go off.
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

/// Submissions at once.
pub const IN_FLIGHT: usize = 16;

/// A plan for [`IN_FLIGHT`] submissions, counted for each. They share an interrupt: see [`LATE`].
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
    // One file, as a client has: the first one's.
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

/// A `gcsSTATE_DELTA` of 4.0.0 with its records behind it, in 32-bit words.
struct Delta {
    words: Box<[u32]>,
}

impl Delta {
    /// Words in front of the records.
    const HEAD: usize = 16;
    /// The word that counts the records, and the one with their address.
    const COUNT: usize = 3;
    const RECORDS: usize = 4;

    /// `count` records, for the uniforms of the vertex shader in turn.
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

/// The COMMIT that switches contexts, with deltas. Each delta is merged twice, once into each copy of its context.
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

/// COMMIT and wait, by several processes at once.
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
            // One interrupt for a commit of each; but as a sample is long, not more of the kernel's ticks
            // in it than must be.
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

/// Commits of a client each time it is told to go.
const CLIENT_COMMITS: u32 = 16;

/// The argument that makes this program such a client.
pub const CLIENT: &str = "--client";

/// Another process that commits when it is told to.
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

/// A client that is told by its standard input when to commit.
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

/// The first of the vertex shader's uniforms (VS_UNIFORMS): states that only hold a value until a draw.
const UNIFORMS: u32 = 0x5000;

/// How many words of them every core has.
const UNIFORM_WORDS: u32 = 4 * 168;

/// A stream of `bytes` that sets states, 15 at a time.
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
        // The ring's 1 MiB has room for two of these, so every other one begins at its start again.
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

/// Allocate, lock, unlock and free of a node.
struct NodeCalls<'a> {
    device: &'a Device,
    allocate: Call,
    lock: Call,
    unlock: Call,
    free: Call,
    /// The second half of an unlock, where one is asked for.
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
            // The node's handle is the first field of the member, behind the header.
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
        // As long as nodes are locked in it: else the driver maps it, for good.
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
            // What goes on behind the GPU's back is in the mean.
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
