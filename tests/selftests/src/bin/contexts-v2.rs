// SPDX-License-Identifier: GPL-2.0-only
//! Contexts of the oldest generations, which are in the client's memory. After each COMMIT, the GPU's state memory
//! contains what its client wants, whichever client used the GPU in between. False data in a client's context does not
//! affect other clients.
//!
//! The client here behaves like the vendor's: its buffer contains the states at the start of the next commands. When
//! the driver reports that it used a buffer, the client changes to another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::draw::Engine;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::sys::LateMemory;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::contexts::converted;
use galcore_selftests::contexts::loads;
use galcore_selftests::contexts::many;
use galcore_selftests::contexts::mask_bits;
use galcore_selftests::contexts::switch_off;
use galcore_selftests::contexts::StateDump;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;

/// The generations with such contexts.
const GENERATIONS: [&str; 4] = ["dove", "dove_old", "v2", "arnova"];
const OBJECT_CONTEXT: u32 = 0x5458_5443;
/// Bytes of a context's buffer.
const BUFFER_BYTES: usize = 0x4000;
/// Words at a buffer's start that the driver writes.
const HEAD_WORDS: usize = 8;
/// The largest buffer in bytes.
const MOST_BYTES: usize = 0x1_0000;
/// The largest COMMIT with a context, in words.
const MOST_WORDS: usize = 89_326;
/// The filler for parts of a buffer that the GPU must not read: END.
const END: u32 = 0x1000_0000;
const FIXP: u32 = 0x0400_0000;

fn open(number: usize) -> Result<Device> {
    let name = GENERATIONS[number % GENERATIONS.len()];
    let abi = Abi::named(name).with_context(|| format!("no {name}"))?;
    Ok(Device::open_as(abi, true)?)
}

/// The structure of a context's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Room for a pipe switch, then 3D states.
    Plain,
    /// No room for a pipe switch: the states begin at the start.
    Headless,
    /// Begins in the 2D pipe, then switches.
    From2d,
    /// Ends in another pipe than the one that the commands want.
    EndsIn2d,
    /// Contains a semaphore without a stall.
    Armed,
}

/// The form of a context that keeps no states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    /// Without a buffer.
    None,
    /// With a buffer that contains only the room for a pipe switch.
    Head,
    /// With an equally small buffer that contains the client's words.
    Headless,
}

/// The words of a context's buffer.
#[derive(Clone, Debug)]
struct Image {
    words: Vec<u32>,
    /// Offset of the room for a LINK.
    link: usize,
}

impl Image {
    fn new(shape: Shape, states: &Stream) -> Self {
        let mut stream = Stream::new();
        if shape != Shape::Headless {
            // The driver's room. Its contents do not matter.
            stream.raw(&[END; HEAD_WORDS]);
        }
        if shape == Shape::From2d {
            // Draws nothing, but only the 2D pipe accepts it.
            stream.states(
                state::DE_DEST_ADDRESS,
                &[0, 0x400, 0, state::FORMAT_A8R8G8B8],
            );
            // A context gets no defaults, so this sets all states that limit the drawing.
            stream
                .states(0x1260, &[0, 0])
                .state(0x12bc, 0)
                .state(state::DE_ROP, 3 << 20 | 0xcccc);
            stream.draw_2d(&[(0, 0)]);
            stream.select_pipe(Pipe::Pipe2d, Pipe::Pipe3d);
        }
        stream.append(states);
        match shape {
            Shape::EndsIn2d => {
                stream.select_pipe(Pipe::Pipe3d, Pipe::Pipe2d);
            }
            Shape::Armed => {
                stream.state(state::SEMAPHORE_TOKEN, state::TOKEN_FE_PE);
            }
            _ => {}
        }
        let link = stream.bytes();
        // The LINK, the word that marks the buffer as used, and a word past the buffer.
        stream.raw(&[END, END, 0, END]);
        Self {
            words: stream.words().to_vec(),
            link,
        }
    }

    fn of(shape: Shape, states: &[(u32, u32)]) -> Self {
        let mut stream = Stream::new();
        for (address, value) in states {
            stream.state(*address, *value);
        }
        Self::new(shape, &stream)
    }

    fn write(&self, memory: &Memory) {
        for (index, word) in self.words.iter().enumerate() {
            memory.write(4 * index, *word);
        }
    }
}

/// A context as a client keeps it.
struct OwnContext {
    abi: &'static Abi,
    /// gcoCONTEXT.
    head: Memory,
    buffers: [Memory; 2],
    turn: usize,
    shape: Shape,
}

impl OwnContext {
    fn new(abi: &'static Abi, shape: Shape, buffers: [Memory; 2]) -> Result<Self> {
        let context = Self {
            abi,
            head: Memory::new(Region::anonymous(4096)?),
            buffers,
            turn: 0,
            shape,
        };
        let initial = match shape {
            Shape::From2d => Pipe::Pipe2d,
            _ => Pipe::Pipe3d,
        };
        context.set("object", OBJECT_CONTEXT);
        context.set("pipe2DIndex", (shape != Shape::Headless).into());
        context.set("initialPipe", initial.number() as u32);
        // The driver reads nothing of a new context's buffer.
        context.set("logical", 16);
        context.set("link", 17);
        context.set("bufferSize", u32::MAX);
        context.set("inUse", 16);
        Ok(context)
    }

    /// A context with buffers in ordinary memory.
    fn anonymous(abi: &'static Abi, shape: Shape) -> Result<Self> {
        let buffer = || Ok::<_, anyhow::Error>(Memory::new(Region::anonymous(BUFFER_BYTES)?));
        Self::new(abi, shape, [buffer()?, buffer()?])
    }

    fn at(&self, field: &str) -> usize {
        let place = self.abi.field("gcoCONTEXT", field);
        place.map_or(0, |(at, _)| at)
    }

    fn set(&self, field: &str, value: u32) {
        self.head.write(self.at(field), value);
    }

    fn get(&self, field: &str) -> u32 {
        self.head.read(self.at(field))
    }

    fn id(&self) -> u64 {
        let at = self.at("id");
        u64::from(self.head.read(at + 4)) << 32 | u64::from(self.head.read(at))
    }

    fn set_id(&self, id: u64) {
        let at = self.at("id");
        self.head.write(at, id as u32);
        self.head.write(at + 4, (id >> 32) as u32);
    }

    fn buffer(&self) -> &Memory {
        &self.buffers[self.turn]
    }

    /// Sets the fields for a buffer that contains `image` at `address`.
    fn describe(&self, address: u64, image: &Image) {
        let at = |offset: usize| address as u32 + offset as u32;
        self.set("logical", at(0));
        self.set("link", at(image.link));
        self.set("inUse", at(image.link + 8));
        self.set("bufferSize", image.link as u32 + 12);
    }

    /// Writes the buffer, and the fields that describe it.
    fn show(&self, image: &Image) {
        image.write(self.buffer());
        self.describe(self.buffer().address(), image);
    }

    /// Makes this a context that keeps no states.
    fn empty(&self, form: Empty) {
        let mut nops = Stream::new();
        if form == Empty::Headless {
            self.set("pipe2DIndex", 0);
            (0..HEAD_WORDS / 2).for_each(|_| {
                nops.nop();
            });
        }
        match form {
            Empty::None => ["logical", "link", "inUse", "bufferSize"]
                .into_iter()
                .for_each(|field| self.set(field, 0)),
            Empty::Head => self.show(&Image::new(Shape::Plain, &nops)),
            Empty::Headless => self.show(&Image::new(Shape::Headless, &nops)),
        }
    }

    /// The driver's mark in the buffer that contains `image`.
    fn in_use(&self, image: &Image) -> u32 {
        self.buffer().read(image.link + 8)
    }

    fn commit(
        &self,
        device: &Device,
        buffer: &Buffer,
        pipe: Pipe,
        stream: &Stream,
    ) -> Result<Status> {
        self.set("entryPipe", pipe.number() as u32);
        self.set("currentPipe", pipe.number() as u32);
        let record = place(buffer, 0, pipe, stream);
        Ok(device.send_commit_in(&record, self.head.address())?)
    }

    fn commit_nop(&self, device: &Device, buffer: &Buffer) -> Result<Status> {
        let mut stream = Stream::new();
        stream.nop();
        self.commit(device, buffer, Pipe::Pipe3d, &stream)
    }

    /// All memory that the driver may write to.
    fn snapshot(&self) -> Vec<u32> {
        let words = |memory: &Memory, bytes| {
            (0..bytes / 4)
                .map(|word| memory.read(4 * word))
                .collect::<Vec<_>>()
        };
        let mut all = words(&self.head, 256);
        all.extend(words(self.buffer(), BUFFER_BYTES));
        all
    }
}

/// The kind of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The GPU converts the value from 16.16.
    Fixed,
    Address,
}

/// The states that the clients here use, by byte address.
fn states(both: bool) -> BTreeMap<u32, Kind> {
    use Kind::*;
    let mut runs = vec![
        (0x0644, 1, Address),
        (0x0648, 1, Plain),
        (0x064c, 1, Address),
        (0x0650, 1, Plain),
        (0x0670, 1, Plain),
        (0x06c0, 48, Plain),
        (0x0800, 12, Plain),
        (0x5000, 672, Plain),
        (0x0a00, 2, Fixed),
        (0x0a08, 1, Plain),
        (0x0a0c, 2, Fixed),
        (0x0a14, 3, Plain),
        (0x0a28, 6, Plain),
        (0x0c00, 4, Fixed),
        (0x0c10, 3, Plain),
        (0x0e10, 4, Plain),
        (0x0e40, 16, Plain),
        (0x1000, 5, Plain),
        (0x1410, 1, Address),
        (0x1414, 7, Plain),
        (0x1430, 1, Address),
        (0x1604, 1, Plain),
        (0x1608, 1, Address),
        (0x160c, 1, Plain),
        (0x1610, 1, Address),
        (0x1614, 1, Plain),
        (0x1620, 1, Plain),
        (0x1640, 4, Plain),
        (0x2000, 12, Plain),
        (0x2040, 12, Plain),
        (0x2400, 12, Address),
        (0x2440, 12, Address),
        (0x7000, 256, Plain),
    ];
    if both {
        runs.extend([
            (0x1200, 1, Address),
            (0x1204, 1, Plain),
            (0x1218, 2, Plain),
            (0x1228, 1, Address),
            (0x1260, 2, Plain),
        ]);
    }
    let states = runs
        .into_iter()
        .flat_map(|(byte, count, kind)| (0..count).map(move |number| (byte + 4 * number, kind)));
    states.collect()
}

/// The values that a client wants in the states.
type Intent = BTreeMap<u32, u32>;

struct Bench {
    client: Client,
    /// One device of each generation.
    devices: Vec<Device>,
    control: Control,
    both: bool,
    states: BTreeMap<u32, Kind>,
    buffer: Buffer,
    /// The memory that address states point to.
    own: Buffer,
    dump: StateDump,
    scratch: Scratch,
    random: RefCell<Random>,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        let both = has_2d(client.identity());
        let device = client.device();
        Ok(Self {
            devices: (0..GENERATIONS.len()).map(open).collect::<Result<_>>()?,
            control: Control::open()?,
            both,
            states: states(both),
            buffer: device.allocate_contiguous(0x8000)?,
            own: device.allocate_contiguous(0x8000)?,
            scratch: Scratch::read()?,
            dump: StateDump::new(device)?,
            random: RefCell::new(Random::new(1147)),
            client,
        })
    }

    fn below(&self, limit: u32) -> u32 {
        self.random.borrow_mut().below(limit)
    }

    fn value(&self, byte: u32, kind: Kind) -> u32 {
        match kind {
            Kind::Address if self.below(4) == 0 => 0,
            Kind::Address => self.own.address + self.below(0x8000),
            _ => self.random.borrow_mut().colour() & !mask_bits(byte),
        }
    }

    /// Loads states, with as few commands as possible.
    fn load(&self, stream: &mut Stream, intent: &Intent) {
        // The run may be empty, if the first state is a converted one.
        let flush = |stream: &mut Stream, first, run: &[u32]| {
            if !run.is_empty() {
                stream.states(first, run);
            }
        };
        let mut run: Vec<u32> = Vec::new();
        let mut first = 0;
        for (&byte, &value) in intent {
            if self.states[&byte] == Kind::Fixed {
                stream.raw(&[0x0801_0000 | FIXP | byte / 4, value]);
                continue;
            }
            if byte != first + 4 * run.len() as u32 || run.len() == 1024 {
                flush(stream, first, &run);
                run.clear();
                first = byte;
            }
            run.push(value);
        }
        flush(stream, first, &run);
    }

    fn image(&self, shape: Shape, intent: &Intent) -> Image {
        let mut stream = Stream::new();
        self.load(&mut stream, intent);
        Image::new(shape, &stream)
    }

    /// Waits for the GPU and copies its whole state memory.
    fn take_dump(&self) -> Result<()> {
        self.dump.take(&self.client, &self.control)
    }

    fn state(&self, byte: u32) -> u32 {
        self.dump.state(byte)
    }

    /// Compares all states with the values that a client wants.
    fn compare(&self, what: &str, intent: &Intent) -> Result<()> {
        self.take_dump()?;
        let wanted = intent.iter().map(|(&byte, &value)| {
            let wanted = match self.states[&byte] {
                Kind::Fixed => converted(value),
                Kind::Address if value == 0 => self.scratch.of(byte),
                _ => value,
            };
            (byte, wanted)
        });
        self.dump.compare(what, wanted)
    }

    /// Powers the core off and on, so that it loses all states.
    fn off_and_on(&self) -> Result<()> {
        system::may_sleep()?;
        switch_off(self.client.device(), &self.control)?;
        system::stay_awake()
    }

    /// Checks the pipe that was selected when the state memory was copied.
    fn expect_pipe(&self, what: &str, pipe: Pipe) -> Result<()> {
        same_word(what, self.state(state::PIPE_SELECT), pipe.number() as u32)
    }

    /// Random values for all states.
    fn intent(&self) -> Intent {
        let states = self.states.iter();
        states
            .map(|(&byte, &kind)| (byte, self.value(byte, kind)))
            .collect()
    }

    /// Runs commands of another client, so that the last loaded context is none of the tested ones. Returns the states
    /// that they loaded.
    fn pollute(&self) -> Result<Intent> {
        let intent = self.intent();
        let mut stream = Stream::new();
        self.load(&mut stream, &intent);
        let record = place(&self.buffer, 0, Pipe::Pipe3d, &stream);
        // Randomly without a context, or in one from ATTACH.
        let context = match self.below(2) {
            0 => 0,
            _ => self.client.context(),
        };
        self.client
            .device()
            .commit(&record, context, &mut Queue::new())?;
        Ok(intent)
    }

    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = vec![Shape::Plain, Shape::Headless, Shape::Armed];
        if self.both {
            shapes.extend([Shape::From2d, Shape::EndsIn2d]);
        }
        shapes
    }

    /// Creates a context that has its id and its states.
    fn settled(&self, device: &Device, shape: Shape) -> Result<(OwnContext, Intent)> {
        let context = OwnContext::anonymous(device.abi(), shape)?;
        let intent = self.intent();
        let mut stream = Stream::new();
        self.load(&mut stream, &intent);
        let status = context.commit(device, &self.buffer, Pipe::Pipe3d, &stream)?;
        same("first COMMIT", status, Status::OK)?;
        ensure!(context.id() != 0, "no id");
        context.show(&self.image(shape, &intent));
        Ok((context, intent))
    }
}

/// One client of the state proof.
struct Party {
    device: usize,
    context: OwnContext,
    intent: Intent,
    /// The GPU memory of the buffers, if they are in contiguous memory.
    memory: Vec<Buffer>,
}

impl Party {
    fn new(bench: &Bench, number: usize) -> Result<Self> {
        let device = number % bench.devices.len();
        let shapes = bench.shapes();
        let shape = shapes[number % shapes.len()];
        let abi = bench.devices[device].abi();
        // The vendor's clients use contiguous memory.
        if number % 2 == 0 {
            let allocate = || {
                bench
                    .client
                    .device()
                    .allocate_contiguous(BUFFER_BYTES as u64)
            };
            let memory = vec![allocate()?, allocate()?];
            let buffers = [memory[0].memory.clone(), memory[1].memory.clone()];
            return Ok(Self {
                device,
                context: OwnContext::new(abi, shape, buffers)?,
                intent: Intent::new(),
                memory,
            });
        }
        Ok(Self {
            device,
            context: OwnContext::anonymous(abi, shape)?,
            intent: Intent::new(),
            memory: Vec::new(),
        })
    }

    /// Changes some states (all in a new context) and commits. `is_current`: the last commands were this client's.
    /// Returns whether the driver loaded the buffer, and the pipe of the commands.
    fn turn(
        &mut self,
        bench: &Bench,
        is_current: bool,
        ids: &mut BTreeSet<u64>,
    ) -> Result<(bool, Pipe)> {
        let before = self.intent_before();
        let context = &mut self.context;
        let id = context.id();
        let image = bench.image(context.shape, &before);
        if id != 0 {
            context.show(&image);
            if is_current && bench.below(2) == 0 {
                // In this case the driver does not read the buffer.
                context.set("logical", 16);
                context.set("initialPipe", 77);
            }
        }
        let mut changes = Intent::new();
        if id == 0 {
            changes = bench.intent();
        }
        let all: Vec<u32> = bench.states.keys().copied().collect();
        for _ in 0..bench.below(20) {
            let byte = all[bench.below(all.len() as u32) as usize];
            changes.insert(byte, bench.value(byte, bench.states[&byte]));
        }
        let mut stream = Stream::new();
        stream.nop();
        let mut pipe = Pipe::Pipe3d;
        if bench.both && id != 0 && bench.below(4) == 0 {
            pipe = Pipe::Pipe2d;
            changes.clear();
        } else if !changes.is_empty() {
            bench.load(&mut stream, &changes);
        }
        self.intent.extend(changes);
        let device = &bench.devices[self.device];
        let status = context.commit(device, &bench.buffer, pipe, &stream)?;
        same("COMMIT", status, Status::OK)?;
        if id == 0 {
            ensure!(ids.insert(context.id()), "id {} is another's", context.id());
            ensure!(context.id() != 0, "no id");
        } else {
            same("id", context.id(), id)?;
        }
        let loaded = id != 0 && !is_current;
        if id != 0 {
            same("inUse", context.in_use(&image), loaded.into())?;
        }
        if is_current && id != 0 {
            context.set("initialPipe", (context.shape == Shape::From2d).into());
        }
        if loaded {
            // The client cannot know whether the GPU still reads the old buffer.
            context.turn ^= 1;
        }
        Ok((loaded, pipe))
    }

    /// The states at the end of the last commands.
    fn intent_before(&self) -> Intent {
        if self.intent.is_empty() {
            [(0xa14, 0)].into()
        } else {
            self.intent.clone()
        }
    }
}

/// Random commits from several contexts in files of several generations. Checks the state memory after each.
fn proof(bench: &Bench, contexts: usize, count: u32, goes_off: bool) -> Result<()> {
    let mut all = (0..contexts)
        .map(|number| Party::new(bench, number))
        .collect::<Result<Vec<_>>>()?;
    let (mut last, mut loads, mut ids) = (usize::MAX, 0, BTreeSet::new());
    for round in 0..count {
        let at = bench.below(contexts as u32) as usize;
        let what = format!("commit {round} of context {at}");
        if goes_off && bench.below(2) == 0 {
            switch_off(bench.client.device(), &bench.control)?;
            last = usize::MAX;
        }
        let turn = all[at].turn(bench, at == last, &mut ids);
        let (loaded, pipe) = turn.with_context(|| what.clone())?;
        loads += u32::from(loaded);
        last = at;
        bench.compare(&what, &all[at].intent)?;
        bench.expect_pipe(&what, pipe)?;
        if bench.below(16) == 0 {
            bench.pollute()?;
            last = usize::MAX;
        }
    }
    println!("# {count} commits of {contexts} contexts, {loads} loads");
    for buffer in all.iter().flat_map(|party| &party.memory) {
        bench.client.device().free_contiguous(buffer)?;
    }
    Ok(())
}

fn plain_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("a new context gets an id, and loads nothing", move || {
        for device in &bench.devices {
            let before = bench.pollute()?;
            let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
            let status = context.commit_nop(device, &bench.buffer)?;
            same("COMMIT", status, Status::OK)?;
            ensure!(context.id() != 0, "no id");
            bench.compare("what was there before", &before)?;
            let id = context.id();
            // The buffer is not valid, and the driver does not read it.
            let status = context.commit_nop(device, &bench.buffer)?;
            same("COMMIT again", status, Status::OK)?;
            same("id", context.id(), id)?;
        }
        Ok(())
    });
    suite.test("a context is loaded behind another's commands", move || {
        for shape in bench.shapes() {
            for device in &bench.devices {
                let (context, intent) = bench.settled(device, shape)?;
                let image = bench.image(shape, &intent);
                for round in 0..3 {
                    let what = format!("{shape:?}, round {round}");
                    bench.pollute()?;
                    let status = context.commit_nop(device, &bench.buffer)?;
                    same(&what, status, Status::OK)?;
                    same(&what, context.in_use(&image), 1)?;
                    bench.compare(&what, &intent)?;
                    bench.expect_pipe(&what, Pipe::Pipe3d)?;
                    context.show(&image);
                    let status = context.commit_nop(device, &bench.buffer)?;
                    same(&what, status, Status::OK)?;
                    same("not used", context.in_use(&image), 0)?;
                }
            }
        }
        Ok(())
    });
    suite.test(
        "an id that the driver did not give is a context too",
        move || {
            let device = &bench.devices[0];
            for id in [77, 1 << 32, u64::MAX] {
                let (context, intent) = bench.settled(device, Shape::Plain)?;
                context.set_id(id);
                let status = context.commit_nop(device, &bench.buffer)?;
                same("COMMIT", status, Status::OK)?;
                same("id", context.id(), id)?;
                let image = bench.image(Shape::Plain, &intent);
                same("inUse", context.in_use(&image), 1)?;
                bench.compare("made up", &intent)?;
            }
            Ok(())
        },
    );
    suite.test(
        "64 KiB of states, and all the words behind them",
        move || {
            let device = &bench.devices[0];
            let (mut context, intent) = bench.settled(device, Shape::Plain)?;
            let large = || Ok::<_, anyhow::Error>(Memory::new(Region::anonymous(2 * MOST_BYTES)?));
            context.buffers = [large()?, large()?];
            let filled = |bytes: usize| {
                let mut stream = Stream::new();
                bench.load(&mut stream, &intent);
                while stream.bytes() < bytes - 4 * HEAD_WORDS - 8 {
                    stream.nop();
                }
                Image::new(Shape::Plain, &stream)
            };
            let buffer = bench.client.device().allocate_contiguous(0x8_0000)?;
            let nops = |words: usize| {
                let mut stream = Stream::new();
                (0..words / 2).for_each(|_| {
                    stream.nop();
                });
                stream
            };
            for _ in 0..8 {
                bench.pollute()?;
                let image = filled(MOST_BYTES);
                context.show(&image);
                context.set("bufferSize", MOST_BYTES as u32);
                let status = context.commit(device, &buffer, Pipe::Pipe3d, &nops(MOST_WORDS))?;
                same("all", status, Status::OK)?;
                bench.compare("all", &intent)?;
            }
            // Whether the states are loaded or not.
            let status = context.commit(device, &buffer, Pipe::Pipe3d, &nops(MOST_WORDS + 2))?;
            same("two words more", status, Status::INVALID_ARGUMENT)?;
            bench.pollute()?;
            let image = filled(MOST_BYTES + 8);
            context.show(&image);
            context.set("bufferSize", MOST_BYTES as u32 + 8);
            let status = context.commit_nop(device, &bench.buffer)?;
            same("more states", status, Status::INVALID_ARGUMENT)?;
            Ok(bench.client.device().free_contiguous(&buffer)?)
        },
    );
}

/// States of clients whose contexts keep nothing return after the core was powered off or others drew, but not
/// addresses of memory that no longer exists.
fn kept_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("states without a context come back", move || {
        for (form, device) in [Empty::None, Empty::Head, Empty::Headless]
            .into_iter()
            .flat_map(|form| bench.devices.iter().map(move |device| (form, device)))
        {
            let what = format!("{form:?}, {}", device.abi().name);
            let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
            let mut intent = bench.intent();
            let mut stream = Stream::new();
            bench.load(&mut stream, &intent);
            context.empty(form);
            let status = context.commit(device, &bench.buffer, Pipe::Pipe3d, &stream)?;
            same(&what, status, Status::OK)?;
            let changes: Intent = bench
                .intent()
                .into_iter()
                .filter(|_| bench.below(4) == 0)
                .collect();
            let mut stream = Stream::new();
            bench.load(&mut stream, &changes);
            intent.extend(changes);
            let status = context.commit(device, &bench.buffer, Pipe::Pipe3d, &stream)?;
            same(&what, status, Status::OK)?;
            for round in 0..3 {
                if round != 1 {
                    bench.off_and_on()?;
                } else {
                    let other = system::again(&["--bare", "9", "--commits", "4"])?.output()?;
                    let text = String::from_utf8_lossy(&other.stdout);
                    ensure!(other.status.success(), "the other has failed: {text}");
                }
                if round == 2 {
                    // Like a client that fills a new structure each time, but not all of it.
                    context.set("id", 0);
                    context.set("initialPipe", 0xa5a5_a5a5);
                }
                let status = context.commit_nop(device, &bench.buffer)?;
                same(&what, status, Status::OK)?;
                bench.compare(&format!("{what}, round {round}"), &intent)?;
                bench.expect_pipe(&what, Pipe::Pipe3d)?;
            }
        }
        Ok(())
    });
    suite.test("of memory that is gone they do not", move || {
        let client = bench.client.device();
        for (device, is_reused) in bench.devices.iter().zip([false, true, false, true]) {
            let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
            context.empty(Empty::Head);
            let gone = client.allocate_contiguous(0x1000)?;
            let mut stream = Stream::new();
            stream.state(state::RS_DEST_ADDR, gone.address);
            let status = context.commit(device, &bench.buffer, Pipe::Pipe3d, &stream)?;
            same("COMMIT", status, Status::OK)?;
            client.free_contiguous(&gone)?;
            if is_reused {
                // The GPU drops the address before another client gets the memory.
                let status = context.commit_nop(device, &bench.buffer)?;
                same("COMMIT", status, Status::OK)?;
            }
            bench.off_and_on()?;
            let next = if is_reused {
                Some(client.allocate_contiguous(0x1000)?)
            } else {
                None
            };
            let status = context.commit_nop(device, &bench.buffer)?;
            same("COMMIT", status, Status::OK)?;
            bench.take_dump()?;
            let scratch = bench.scratch.of(state::RS_DEST_ADDR);
            same_word("gone", bench.state(state::RS_DEST_ADDR), scratch)?;
            if let Some(next) = next {
                client.free_contiguous(&next)?;
            }
        }
        Ok(())
    });
    suite.test("pictures without contexts, of two processes", move || {
        let painter = |seed| -> Result<_> {
            let mut painter = system::again(&["--bare", seed])?;
            Ok(painter.stdout(Stdio::piped()).spawn()?)
        };
        system::may_sleep()?;
        for painter in [painter("1")?, painter("2")?] {
            let output = painter.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "a painter has failed: {text}");
        }
        system::stay_awake()
    });
}

/// A change of a context before its COMMIT.
type Change<'a> = Box<dyn Fn(&OwnContext) + 'a>;

/// A refused COMMIT changes nothing in the client's memory or in the GPU.
fn refused(bench: &Bench, what: &str, change: &Change<'_>, wanted: Status) -> Result<()> {
    for device in &bench.devices {
        let (context, intent) = bench.settled(device, Shape::Plain)?;
        let before = bench.pollute()?;
        change(&context);
        context.set("entryPipe", 0);
        context.set("currentPipe", 0);
        let snapshot = context.snapshot();
        same(what, context.commit_nop(device, &bench.buffer)?, wanted)?;
        ensure!(
            snapshot == context.snapshot(),
            "{what}: the client's memory has changed"
        );
        bench.compare(what, &before)?;
        // The context remains usable.
        let id = context.id();
        context.set("object", OBJECT_CONTEXT);
        context.set("initialPipe", 0);
        let image = bench.image(Shape::Plain, &intent);
        context.show(&image);
        let status = context.commit_nop(device, &bench.buffer)?;
        same("honest again", status, Status::OK)?;
        same("id", context.id(), id)?;
        same("inUse", context.in_use(&image), 1)?;
        bench.compare("honest again", &intent)?;
    }
    Ok(())
}

fn lies(bench: &Bench) -> Result<()> {
    let set = |field: &'static str, value: u32| -> Change<'_> {
        Box::new(move |context: &OwnContext| context.set(field, value))
    };
    let link = |offset: i64| -> Change<'_> {
        Box::new(move |context: &OwnContext| {
            let logical = i64::from(context.get("logical"));
            context.set("link", (logical + offset) as u32);
        })
    };
    let both = |logical: u32, link: u32| -> Change<'_> {
        Box::new(move |context: &OwnContext| {
            context.set("logical", logical);
            context.set("link", link);
        })
    };
    let short: Change<'_> = Box::new(|context: &OwnContext| {
        let bytes = context.get("bufferSize");
        context.set("bufferSize", bytes - 5);
    });
    let cases: Vec<(&str, Change<'_>, Status)> = vec![
        ("another object", set("object", 1), Status::INVALID_OBJECT),
        ("no bytes", set("bufferSize", 0), Status::INVALID_ARGUMENT),
        ("too few", set("bufferSize", 39), Status::INVALID_ARGUMENT),
        ("5 too few", short, Status::INVALID_ARGUMENT),
        (
            "too many",
            set("bufferSize", MOST_BYTES as u32 + 4),
            Status::INVALID_ARGUMENT,
        ),
        (
            "4 GiB",
            set("bufferSize", u32::MAX),
            Status::INVALID_ARGUMENT,
        ),
        ("LINK nowhere", set("link", 0), Status::INVALID_ARGUMENT),
        ("LINK in front", link(-8), Status::INVALID_ARGUMENT),
        ("LINK in the head", link(24), Status::INVALID_ARGUMENT),
        ("LINK at no unit", link(36), Status::INVALID_ARGUMENT),
        (
            "LINK behind the end",
            link(0x3ff8),
            Status::INVALID_ARGUMENT,
        ),
        (
            "LINK at the top",
            set("link", 0xffff_fff8),
            Status::INVALID_ARGUMENT,
        ),
        ("pipe 2", set("initialPipe", 2), Status::INVALID_ARGUMENT),
        (
            "no pipe",
            set("initialPipe", u32::MAX),
            Status::INVALID_ARGUMENT,
        ),
        ("the first page", both(0, 0x40), Status::INVALID_ADDRESS),
        (
            "the kernel",
            both(0xc000_8000, 0xc000_8040),
            Status::INVALID_ADDRESS,
        ),
        (
            "the top",
            both(0xffff_ff80, 0xffff_ffc0),
            Status::INVALID_ADDRESS,
        ),
        (
            "over the top",
            both(0xffff_ff80, 0x40),
            Status::INVALID_ARGUMENT,
        ),
    ];
    for (what, change, wanted) in &cases {
        refused(bench, what, change, *wanted)?;
    }
    Ok(())
}

fn streams(bench: &Bench) -> Result<()> {
    let with = |words: &'static [u32]| -> Change<'_> {
        Box::new(move |context: &OwnContext| {
            let mut stream = Stream::new();
            stream.state(0xa14, 1).raw(words);
            context.show(&Image::new(Shape::Plain, &stream));
        })
    };
    let cases: [(&str, &'static [u32]); 16] = [
        ("END", &[END, 0]),
        ("WAIT", &[0x3800_00c8, 0]),
        ("LINK", &[0x4000_0008, 0x1000]),
        ("CALL", &[0x5000_0008, 0x1000, 0, 0]),
        ("RETURN", &[0x5800_0000, 0]),
        ("EVENT", &[0x0801_0e01, 0x43]),
        ("EVENT among others", &[0x0802_0e00, 0, 0x43, 0]),
        ("MMU flush", &[0x0801_0e04, 0x1f]),
        ("page table", &[0x0801_0100, 0]),
        ("MMU v2", &[0x0801_0061, 0]),
        ("front end", &[0x0801_0195, 0]),
        ("a stall on nothing", &[0x4800_0000, 0x701]),
        ("2D in 3D", &[0x2000_0100, 0, 0, 0x0010_0010]),
        ("states as far as the LINK", &[0x0802_0285, 1]),
        ("states as far as nowhere", &[0x0800_0285, 1]),
        ("no command", &[0, 0]),
    ];
    for (what, words) in cases {
        refused(bench, what, &with(words), Status::INVALID_DATA)?;
    }
    Ok(())
}

/// The driver loads 0 instead of addresses that the client does not own, or whose memory no longer exists.
fn addresses(bench: &Bench) -> Result<()> {
    let client = bench.client.device();
    for device in &bench.devices {
        let gone = client.allocate_contiguous(4096)?;
        let (context, _) = bench.settled(device, Shape::Plain)?;
        let ring = system::awake(|| bench.control.read(gpu_control::FE_ADDRESS))?;
        let own = bench.own.address;
        let given = [
            (0x0644, 0x1000),
            (0x064c, own),
            (0x1410, ring),
            (0x1430, own + 0x7fff),
            (0x1608, gone.address),
            (0x1610, u32::MAX),
            (0x2400, 0x8000_0000),
            (0x2404, own + 4),
        ];
        let image = Image::of(Shape::Plain, &given);
        for round in 0..2 {
            let what = format!("round {round}");
            bench.pollute()?;
            context.show(&image);
            let status = context.commit_nop(device, &bench.buffer)?;
            same(&what, status, Status::OK)?;
            bench.take_dump()?;
            for (byte, value) in given {
                let is_own = (own..own + 0x8000).contains(&value);
                let is_there = round == 0 && value == gone.address;
                let wanted = if is_own || is_there {
                    value
                } else {
                    bench.scratch.of(byte)
                };
                let what = format!("{what}, state {byte:#x}");
                same_word(&what, bench.state(byte), wanted)?;
            }
            // The client's own words do not change.
            same("its words", context.buffer().read(9 * 4), 0x1000)?;
            if round == 0 {
                client.free_contiguous(&gone)?;
            }
        }
    }
    Ok(())
}

/// Memory that is missing, incomplete, or read-only.
fn places(bench: &Bench) -> Result<()> {
    for device in &bench.devices {
        let (context, intent) = bench.settled(device, Shape::Plain)?;
        let image = bench.image(Shape::Plain, &intent);
        // A buffer whose second page is missing.
        let region = Region::anonymous(BUFFER_BYTES)?;
        ensure!(image.link > 0x1100, "the buffer is too small");
        for (index, word) in image.words.iter().enumerate() {
            region.write(4 * index, *word);
        }
        context.describe(region.address(), &image);
        let (first, rest) = region.cut(0x1000, 0x1000)?;
        bench.pollute()?;
        let status = context.commit_nop(device, &bench.buffer)?;
        same("half a buffer", status, Status::INVALID_ADDRESS)?;
        // All states are in the first page. The missing memory after them does not matter.
        let few = Image::of(Shape::Plain, &[(0xa14, 5), (0xa18, 6)]);
        let at = 0x1000 - few.link;
        for (index, word) in few.words[..few.link / 4].iter().enumerate() {
            first.write(at + 4 * index, *word);
        }
        context.describe(first.address() + at as u64, &few);
        let status = context.commit_nop(device, &bench.buffer)?;
        same("no LINK, no inUse", status, Status::OK)?;
        bench.take_dump()?;
        same_word("states", bench.state(0xa18), 6)?;
        drop((first, rest));
        // Various addresses for the word that marks the buffer as in use.
        let locked = Region::anonymous(0x2000)?;
        locked.write(16, 0x1234);
        locked.protect(0, 0x1000, true, false)?;
        for place in [
            0,
            4,
            0xc000_8000,
            0xffff_fffc,
            u32::MAX,
            locked.address() as u32 + 16,
            // Only half of this word is writable.
            locked.address() as u32 + 0xffe,
        ] {
            let what = format!("inUse at {place:#x}");
            bench.pollute()?;
            context.show(&image);
            context.set("inUse", place);
            let status = context.commit_nop(device, &bench.buffer)?;
            same(&what, status, Status::OK)?;
            bench.compare(&what, &intent)?;
        }
        same("read-only", locked.read(16), 0x1234)?;
        // The first word of the structure itself: a client may damage its own context.
        bench.pollute()?;
        context.show(&image);
        context.set("inUse", context.head.address() as u32);
        let status = context.commit_nop(device, &bench.buffer)?;
        same("inUse in itself", status, Status::OK)?;
        same("inUse in itself", context.get("object"), 1)?;
    }
    Ok(())
}

/// A gcoCONTEXT that is missing, incomplete, or read-only.
fn heads(bench: &Bench) -> Result<()> {
    let mut stream = Stream::new();
    stream.nop();
    let record = place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
    for device in &bench.devices {
        let commit = |address: u64| device.send_commit_in(&record, address);
        same("none", commit(0)?, Status::INVALID_ARGUMENT)?;
        for address in [8, 0x1000, 0xc000_8000, 0xffff_ff00, 0xffff_fff8] {
            let what = format!("at {address:#x}");
            same(&what, commit(address)?, Status::OUT_OF_RESOURCES)?;
        }
        let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
        context.set("entryPipe", 2);
        let found = commit(context.head.address())?;
        same("entryPipe 2", found, Status::INVALID_ARGUMENT)?;
        context.set("entryPipe", 0);
        // The commands are refused, so the context gets no id.
        let mut wrong = Stream::new();
        wrong.raw(&[END, 0]);
        let found = context.commit(device, &bench.buffer, Pipe::Pipe3d, &wrong)?;
        same("refused commands", found, Status::INVALID_DATA)?;
        same("id", context.id(), 0)?;
        place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
        // Read-only: the commands run, but the driver writes nothing.
        let region = Region::anonymous(0x3000)?;
        for at in (0..256).step_by(4) {
            region.write(at, context.head.read(at));
            region.write(0xfe0 + at, context.head.read(at));
        }
        region.protect(0, 0x2000, true, false)?;
        for at in [0, 0xfe0] {
            let found = commit(region.address() + at)?;
            same("read-only", found, Status::OK)?;
            same_word("id", region.read(at as usize + 16), 0)?;
        }
        // Only half of the structure is mapped.
        let (first, _rest) = region.cut(0x1000, 0x1000)?;
        let found = commit(first.address() + 0xfe0)?;
        same("half", found, Status::OUT_OF_RESOURCES)?;
    }
    Ok(())
}

/// Another thread changes everything while the driver reads it.
fn changing(bench: &Bench) -> Result<()> {
    let device = &bench.devices[0];
    let (context, mut intent) = bench.settled(device, Shape::Plain)?;
    // This state is in the words that change.
    intent.remove(&0x1610);
    let ring = system::awake(|| bench.control.read(gpu_control::FE_ADDRESS))?;
    let own = bench.own.address;
    let mut stream = Stream::new();
    stream.nop().state(0x1610, own);
    bench.load(&mut stream, &intent);
    let image = Image::new(Shape::Plain, &stream);
    context.show(&image);
    let (head, buffer) = (&context.head, context.buffer());
    let link = (context.at("link"), context.get("link"));
    let size = (context.at("bufferSize"), context.get("bufferSize"));
    let logical = (context.at("logical"), context.get("logical"));
    let stop = &AtomicBool::new(false);
    let (mut taken, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            while !stop.load(SeqCst) {
                let any = random.below(4) as usize;
                match random.below(8) {
                    // The commands: a NOP, END, EVENT, LINK.
                    0..4 => {
                        buffer.write(32, [0x1800_0000, END, 0x0801_0e01, 0x4000_0008][any]);
                    }
                    // An address.
                    4 | 5 => buffer.write(44, [own, ring, 0x1000, 0][any]),
                    6 => head.write(link.0, link.1 - [0, 8, 4, 0x1_0000][any]),
                    _ => {
                        let (at, value) = [size, logical][any % 2];
                        head.write(at, [value, value, 0, value + 4][any]);
                    }
                }
                if random.below(4) == 0 {
                    head.write(link.0, link.1);
                    head.write(size.0, size.1);
                    head.write(logical.0, logical.1);
                    buffer.write(32, 0x1800_0000);
                }
            }
        });
        let mut go = || -> Result<()> {
            for _ in 0..400 {
                bench.pollute()?;
                match context.commit_nop(device, &bench.buffer)? {
                    Status::OK => {
                        taken += 1;
                        bench.take_dump()?;
                        let found = bench.state(0x1610);
                        ensure!(
                            bench.scratch.addresses.contains(&found)
                                || (own..own + 0x8000).contains(&found),
                            "address {found:#x} came through"
                        );
                    }
                    Status::INVALID_DATA | Status::INVALID_ARGUMENT | Status::INVALID_ADDRESS => {
                        refused += 1;
                    }
                    status => anyhow::bail!("status {status}"),
                }
            }
            Ok(())
        };
        let result = go();
        stop.store(true, SeqCst);
        result
    })?;
    println!("# {taken} taken, {refused} refused");
    ensure!(taken > 0 && refused > 0, "nothing was changed in time");
    same("violations", bench.control.violations(), 0)
}

/// The states that the process with the claimed id loads.
const CLAIMED: [(u32, u32); 3] = [(0xa14, 0x0c1a_1111), (0x1000, 0x0c1a_2222), (0x1640, 7)];

/// The other process: uses the id of another process's context.
fn claim(id: u64) -> Result<()> {
    let device = open(0)?;
    let buffer = device.allocate_contiguous(0x1000)?;
    let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
    let image = Image::of(Shape::Plain, &CLAIMED);
    context.show(&image);
    context.set_id(id);
    let status = context.commit_nop(&device, &buffer)?;
    same("COMMIT", status, Status::OK)?;
    same("inUse", context.in_use(&image), 1)?;
    same("id", context.id(), id)?;
    device.stall()?;
    Ok(device.free_contiguous(&buffer)?)
}

fn claimed(bench: &Bench) -> Result<()> {
    let device = &bench.devices[0];
    let (context, intent) = bench.settled(device, Shape::Plain)?;
    let image = bench.image(Shape::Plain, &intent);
    for round in 0..3 {
        context.show(&image);
        let status = context.commit_nop(device, &bench.buffer)?;
        same("COMMIT", status, Status::OK)?;
        let used = u32::from(round > 0);
        same("the other's is loaded", context.in_use(&image), used)?;
        bench.compare("the owner's", &intent)?;
        let id = context.id().to_string();
        let output = system::again(&["--claim", &id])?.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "the other process: {text}");
        // The GPU has its own states, not its victim's.
        bench.take_dump()?;
        for (byte, value) in CLAIMED {
            same_word("the claimer's", bench.state(byte), value)?;
        }
    }
    Ok(())
}

fn hostile_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("lies about the buffer change nothing", move || lies(bench));
    suite.test("commands that are not a client's", move || streams(bench));
    suite.test(
        "addresses of others and freed ones lead nowhere",
        move || addresses(bench),
    );
    suite.test(
        "buffers that are not there, not whole, read-only",
        move || places(bench),
    );
    suite.test(
        "gcoCONTEXTs that are not there, not whole, read-only",
        move || heads(bench),
    );
    suite.test("a context that changes while it is read", move || {
        changing(bench)
    });
    suite.test("states that come late", move || late_states(bench));
    suite.test("the id of another process's context", move || {
        claimed(bench)
    });
}

/// The buffer of a context becomes readable only after another thread has freed memory and committed. The driver still
/// records which addresses they load, and drops them when their memory ends.
fn late_states(bench: &Bench) -> Result<()> {
    let client = bench.client.device();
    for device in &bench.devices {
        let what = device.abi().name;
        let allocate = || client.allocate_contiguous(0x1000);
        let (held, freed, commands) = (allocate()?, allocate()?, allocate()?);
        let contexts = || OwnContext::anonymous(device.abi(), Shape::Plain);
        let (context, other) = (contexts()?, contexts()?);
        other.empty(Empty::None);
        // A new context, which gets its id here. The other context's states are loaded next.
        for context in [&context, &other] {
            let status = context.commit_nop(device, &bench.buffer)?;
            same(what, status, Status::OK)?;
        }
        let mut states = Stream::new();
        states.state(state::RS_DEST_ADDR, held.address);
        let image = Image::new(Shape::Plain, &states);
        let late = LateMemory::new(4096).context("userfaultfd")?;
        context.describe(late.address(), &image);
        context.set("inUse", 0);
        let status = std::thread::scope(|scope| {
            let committing = scope.spawn(|| context.commit_nop(device, &commands));
            let meanwhile = || -> Result<()> {
                late.wait()?;
                client.free_contiguous(&freed)?;
                let status = other.commit_nop(device, &bench.buffer)?;
                same(what, status, Status::OK)
            };
            let done = meanwhile();
            late.give(&image.words)?;
            let status = committing.join().expect("the thread has panicked");
            done.and(status)
        })?;
        same(what, status, Status::OK)?;
        client.free_contiguous(&held)?;
        let status = context.commit_nop(device, &commands)?;
        same(what, status, Status::OK)?;
        bench.take_dump()?;
        let found = bench.state(state::RS_DEST_ADDR);
        ensure!(found != held.address, "{what}: the GPU holds freed memory");
        client.free_contiguous(&commands)?;
    }
    Ok(())
}

/// A painter and its context.
struct Painter {
    context: OwnContext,
    surface: Surface,
    cells: Vec<u32>,
    colour: u32,
    /// Byte addresses and values.
    states: Intent,
}

/// The contexts of one of many processes, each with its own surface. The painters load states of the resolve engine
/// once, then only the changes: the rest must come from the context. With `bare`, their contexts keep nothing, and the
/// core is powered off at times.
fn paint(contexts: usize, commits: u32, seed: u32, bare: bool) -> Result<()> {
    const WIDTH: u32 = 64;
    const HEIGHT: u32 = 32;
    let client = Client::with_device(open(seed as usize)?)?;
    let device = client.device();
    let engine = Engine::Resolve { pipes: 1 };
    let buffer = device.allocate_contiguous(0x8000)?;
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    for number in 0..contexts as u32 {
        let context = OwnContext::anonymous(device.abi(), Shape::Plain)?;
        if bare {
            context.empty(Empty::Head);
        }
        all.push(Painter {
            context,
            surface: client.create_surface(WIDTH, HEIGHT)?,
            cells: vec![0; 16],
            colour: seed << 16 | number << 8 | 1,
            states: Intent::new(),
        });
    }
    for _ in 0..commits {
        let at = random.below(contexts as u32) as usize;
        let painter = &mut all[at];
        let cell = random.below(16);
        let rect = Rect::new(cell % 4 * 16, cell / 4 * 8, 16, 8);
        let mut stream = Stream::new();
        let is_first = painter.states.is_empty();
        if is_first {
            engine.fill(&mut stream, &painter.surface, rect, painter.colour);
        } else {
            let states: Vec<_> = painter.states.clone().into_iter().collect();
            if !bare {
                painter.context.show(&Image::of(Shape::Plain, &states));
            } else if random.below(4) == 0 {
                // Another client may keep the core on.
                let off = uapi::SetPowerManagement { state: 1 };
                device.send(Command::SET_POWER_MANAGEMENT_STATE, &off)?;
            }
            let surface = &painter.surface;
            let dest = surface.location.address + rect.y * surface.stride + rect.x * 4;
            stream.state(state::RS_DEST_ADDR, dest);
            if random.below(2) == 0 {
                painter.colour += 1;
                stream.states(state::RS_FILL_VALUE, &[painter.colour; 4]);
            }
            stream.state(state::RS_KICKER, state::RS_KICK);
        }
        painter.cells[cell as usize] = painter.colour;
        let status = painter
            .context
            .commit(device, &buffer, Pipe::Pipe3d, &stream)?;
        same("COMMIT", status, Status::OK)?;
        let loads = loads(&stream)
            .into_iter()
            .filter(|(byte, _)| *byte != state::RS_KICKER);
        painter.states.extend(loads);
    }
    client.finish()?;
    for (number, painter) in all.iter().enumerate() {
        let wanted = |x: u32, y: u32| painter.cells[(y / 8 * 4 + x / 16) as usize];
        expect_pixels(&painter.surface, wanted).with_context(|| format!("context {number}"))?;
    }
    for painter in all {
        client.release_surface(painter.surface)?;
    }
    client.finish()?;
    device.free_contiguous(&buffer)?;
    Ok(())
}

/// Contexts of several threads of one process.
fn threads(commits: u32) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|seed| scope.spawn(move || paint(3, commits, seed, false)))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => anyhow::bail!("a thread has panicked"),
            }
        }
        Ok(())
    })
}

/// Runs `body` as another process of this program.
fn other(body: impl FnOnce() -> Result<()>) -> ExitCode {
    harness::exit(body())
}

fn main() -> ExitCode {
    let options = match Options::parse(&["count", "commits", "child", "bare", "claim", "off"]) {
        Ok(options) => options,
        Err(error) => {
            println!("# {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(id) = options.get("claim") {
        return other(|| claim(id.parse()?));
    }
    if let Some(seed) = options.get("child") {
        return other(|| paint(4, options.number("commits", 100)?, seed.parse()?, false));
    }
    if let Some(seed) = options.get("bare") {
        return other(|| paint(1, options.number("commits", 60)?, seed.parse()?, true));
    }
    harness::program(|| {
        let count = options.number("count", 100)?;
        let commits = options.number("commits", 400)?;
        let used = at_rest(ProcGc::used_now)?;
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        let shared = &bench;
        if options.get("off").is_some() {
            for contexts in [2, 9] {
                suite.test(
                    format!("state proof: {contexts} contexts on a core that goes off"),
                    move || proof(shared, contexts, count, true),
                );
            }
            suite.test("no violation", move || {
                same("violations", shared.control.violations(), 0)
            });
            return suite.run();
        }
        // The tests read its states.
        system::stay_awake()?;
        plain_tests(&mut suite, &bench);
        kept_tests(&mut suite, &bench);
        hostile_tests(&mut suite, &bench);
        suite.test("state proof: 2 contexts", move || {
            proof(shared, 2, count, false)
        });
        suite.test("state proof: 9 contexts", move || {
            proof(shared, 9, count, false)
        });
        suite.test("12 contexts in 4 threads", move || threads(commits / 16));
        suite.test("64 contexts in 16 processes, some killed", move || {
            many(commits)
        });
        suite.test("no violation", move || {
            same("violations", shared.control.violations(), 0)
        });
        let result = suite.run();
        let device = bench.client.device();
        bench.dump.free(device)?;
        for buffer in [&bench.buffer, &bench.own] {
            device.free_contiguous(buffer)?;
        }
        drop(bench);
        harness::settles("KiB used", used, ProcGc::used_now)?;
        result
    })
}
