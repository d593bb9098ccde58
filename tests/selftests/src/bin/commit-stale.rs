// SPDX-License-Identifier: GPL-2.0-only
//! Addresses that remain in the GPU's states. A draw that loads no address must not reach memory that now belongs to
//! another process. It reaches the client's own memory as long as this exists.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::draw::pixel_pipes;
use galcore_client::draw::Engine;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::QueryChipIdentity;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::contexts::StateDump;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::states;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;
use gpu_control::counter;
use gpu_control::Board;

/// Bytes of a surface.
const BYTES: u32 = 0x8000;

/// The colour of draws that must not reach any process's memory.
const FORBIDDEN: u32 = 0xffba_dbad;

/// A client, its command buffer, and the GPU's control BAR.
struct Bench {
    client: Client,
    control: Control,
    scratch: Scratch,
    buffer: Buffer,
}

/// A node and the surface in it.
struct Canvas {
    node: Node,
    surface: Surface,
}

impl Canvas {
    fn new(client: &Client) -> Result<Self> {
        let device = client.device();
        let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
        let location = device.lock(node)?;
        let memory = device.memory(node, location, client.pool())?;
        Ok(Self {
            node,
            surface: surface_at(location.address, memory)?,
        })
    }

    fn memory(&self) -> &Memory {
        &self.surface.memory
    }

    fn address(&self) -> u32 {
        self.surface.location.address
    }

    fn free(self, device: &Device) -> Result<()> {
        unlock(device, self.node)?;
        Ok(device.free(self.node)?)
    }
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        // The states are lost when the core powers off.
        system::stay_awake()?;
        Ok(Self {
            control: Control::open()?,
            scratch: Scratch::read()?,
            buffer: client.device().allocate_contiguous(0x8000)?,
            client,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    /// Commits in a context (0: without one) and waits.
    fn commit(&self, context: u32, stream: &Stream) -> Result<()> {
        self.commit_with(context, stream, 0)
    }

    /// Like [`Bench::commit`], in a given pipe.
    fn commit_to(&self, pipe: Pipe, context: u32, stream: &Stream) -> Result<()> {
        let record = place(&self.buffer, 0, pipe, stream);
        self.device().commit(&record, context, &mut Queue::new())?;
        Ok(self.device().stall()?)
    }

    fn commit_with(&self, context: u32, stream: &Stream, delta: u64) -> Result<()> {
        let record = place(&self.buffer, 0, self.client.engine().pipe(), stream);
        let mut queue = Queue::new();
        let status = self
            .device()
            .send_commit_with_delta(&record, context, delta, &mut queue)?;
        same("COMMIT", status, galcore_client::uapi::Status::OK)?;
        Ok(self.device().stall()?)
    }

    /// Fills a canvas, with all addresses.
    fn fill(&self, canvas: &Canvas, colour: u32) -> Stream {
        self.fill_surface(&canvas.surface, colour)
    }

    fn fill_surface(&self, surface: &Surface, colour: u32) -> Stream {
        fill_with(self.client.engine(), surface, colour)
    }

    /// The same without loads of addresses.
    fn bare(&self, colour: u32) -> Result<Stream> {
        self.bare_with(self.client.engine(), colour)
    }

    fn bare_with(&self, engine: Engine, colour: u32) -> Result<Stream> {
        let whole = fill_with(engine, &nowhere()?, colour);
        let mut stream = Stream::new();
        let mut rest = whole.words();
        while let [header, behind @ ..] = rest {
            let (opcode, count) = (header >> 27, header >> 16 & 0x3ff);
            let length = match opcode {
                1 => (1 + count as usize).next_multiple_of(2),
                4 => 2 + 2 * (header >> 8 & 0xff) as usize,
                _ => 2,
            };
            if opcode == 1 {
                let first = (header & 0xffff) * 4;
                let states = (first..).step_by(4).zip(&behind[..count as usize]);
                for (byte, &value) in states.filter(|(byte, _)| !states::takes_address(*byte)) {
                    stream.state(byte, value);
                }
            } else {
                stream.raw(&rest[..length]);
            }
            rest = &rest[length..];
        }
        Ok(stream)
    }

    /// The state (byte address) with the address that the engine draws to.
    fn target(&self) -> u32 {
        match self.client.engine() {
            Engine::TwoD => state::DE_DEST_ADDRESS,
            Engine::Resolve { pipes: 1 } => state::RS_DEST_ADDR,
            Engine::Resolve { .. } => state::RS_PIPE_DEST_ADDR,
        }
    }

    fn target_in_gpu(&self) -> u32 {
        self.control
            .write(gpu_control::STATE_INDEX, self.target() / 4);
        self.control.read(gpu_control::STATE_VALUE)
    }

    /// A draw without an address, which must run but not reach any process's memory.
    ///
    /// `clears`: how often the driver clears scratch memory before it.
    fn harmless_draw(&self, context: u32, clears: u64) -> Result<()> {
        let draws = |control: &Control| control.counters().draws();
        let before = draws(&self.control);
        self.commit(context, &self.bare(FORBIDDEN)?)?;
        same("draws", draws(&self.control) - before, clears + 1)?;
        same(
            "where to",
            self.target_in_gpu(),
            self.scratch.of(self.target()),
        )
    }

    /// Checks that all address states point to scratch memory or into the given range.
    fn leads_into(&self, what: &str, start: u32, bytes: u32) -> Result<()> {
        let board = self.control.board().context("an unknown board")?;
        let pipe = self.client.engine().pipe();
        for byte in states::addresses_of(board) {
            if states::pipe_of(byte) != pipe {
                continue;
            }
            self.control.write(gpu_control::STATE_INDEX, byte / 4);
            let found = self.control.read(gpu_control::STATE_VALUE);
            ensure!(
                found == self.scratch.of(byte) || found.wrapping_sub(start) < bytes,
                "{what}: state {byte:#x} holds {found:#x}"
            );
        }
        Ok(())
    }
}

/// Loads a canvas's address, frees the canvas, lets another process allocate its memory, and draws.
fn freed(bench: &Bench, other: &mut Other, context: u32) -> Result<()> {
    let mut hits = 0;
    for round in 0..8 {
        let canvas = Canvas::new(&bench.client)?;
        let address = canvas.address();
        bench.commit(context, &bench.fill(&canvas, 0xff00_1100 + round))?;
        expect_all("a fill", canvas.memory(), 0xff00_1100 + round)?;
        same("where to", bench.target_in_gpu(), address)?;
        canvas.free(bench.device())?;
        let theirs: u32 = other.ask("take")?.parse()?;
        hits += u32::from(theirs == address);
        bench.harmless_draw(context, 0)?;
        bench.leads_into("behind a free", 1, 0)?;
        same("the next owner's memory", other.ask("look")?.as_str(), "0")?;
        other.ask("drop")?;
    }
    ensure!(hits > 0, "the memory was never given to the other process");
    Ok(())
}

/// Like [`freed`], after commands that loaded the states again once they were reset.
fn freed_again(bench: &Bench, other: &mut Other, context: u32) -> Result<()> {
    for round in 0..8 {
        // Allocate both at once, so that the second lies elsewhere.
        let canvases = [Canvas::new(&bench.client)?, Canvas::new(&bench.client)?];
        for (canvas, colour) in canvases.into_iter().zip(0xff00_2200 + 2 * round..) {
            bench.commit(context, &bench.fill(&canvas, colour))?;
            expect_all("a fill", canvas.memory(), colour)?;
            same("where to", bench.target_in_gpu(), canvas.address())?;
            canvas.free(bench.device())?;
        }
        other.ask("take")?;
        bench.harmless_draw(context, 0)?;
        bench.leads_into("behind two", 1, 0)?;
        same("the next owner's memory", other.ask("look")?.as_str(), "0")?;
        other.ask("drop")?;
    }
    Ok(())
}

/// Another process draws, then this process draws without loading an address.
fn anothers(bench: &Bench, other: &mut Other, context: u32) -> Result<()> {
    for colour in [0x1111_1111u32, 0x2222_2222] {
        let theirs: u32 = other.ask("take")?.parse()?;
        other.ask(&format!("fill {colour}"))?;
        same("where to", bench.target_in_gpu(), theirs)?;
        bench.harmless_draw(context, 1)?;
        bench.leads_into("behind another's", 1, 0)?;
        let found = other.ask("look")?;
        same("the other's picture", found, colour.to_string())?;
        other.ask("drop")?;
    }
    Ok(())
}

/// The value that a process loads into a data state.
fn secret(byte: u32) -> u32 {
    byte.wrapping_mul(0x9e37_79b1) | 1
}

/// Data that one process loads stays available to it, and is not visible to another.
fn anothers_data(bench: &Bench, other: &mut Other, pipe: Pipe, context: &str) -> Result<()> {
    let board = bench.control.board().context("an unknown board")?;
    let runs = states::data_of(board, pipe);
    let commit = |stream: &Stream| -> Result<()> {
        let record = place(&bench.buffer, 0, pipe, stream);
        bench.device().commit(&record, 0, &mut Queue::new())?;
        Ok(bench.device().stall()?)
    };
    for &(first, count) in &runs {
        for from in (0..count).step_by(1000) {
            let states = from..count.min(from + 1000);
            let values: Vec<u32> = states.map(|at| secret(first + 4 * at)).collect();
            commit(Stream::new().states(first + 4 * from, &values))?;
        }
    }
    let dump = StateDump::new(bench.device())?;
    let kept = || -> Result<(usize, usize)> {
        dump.take(&bench.client, &bench.control)?;
        let of = |&(first, count): &(u32, u32)| (first..first + 4 * count).step_by(4);
        let all: Vec<u32> = runs.iter().flat_map(of).collect();
        let kept = all.iter().filter(|&&byte| dump.state(byte) == secret(byte));
        Ok((kept.count(), all.len()))
    };
    // The end of other memory does not remove it either.
    let canvas = Canvas::new(&bench.client)?;
    bench.commit(0, &bench.fill(&canvas, 1))?;
    canvas.free(bench.device())?;
    commit(&nop())?;
    let (own, all) = kept()?;
    println!("# {own} of {all} words are there for their own process");
    // Except for the colours that the fill loaded.
    ensure!(own + 8 >= all, "{own} of {all} words are left");
    let before = bench.control.counter(counter::STATE_WORDS);
    other.ask(&format!("nop {} {context}", pipe.number()))?;
    let words = bench.control.counter(counter::STATE_WORDS) - before;
    println!("# {words} words of states for another process");
    let (left, _) = kept()?;
    same("words of another process's", left, 0)?;
    // States that no context keeps return with the process's next commands: clients load them only once.
    if pipe == Pipe::Pipe2d {
        commit(&nop())?;
        same("words that are back behind another's", kept()?.0, own)?;
        system::may_sleep()?;
        let power = || Ok(bench.control.read(gpu_control::POWER));
        let off = settles("power", 0, power);
        system::stay_awake()?;
        off?;
        commit(&nop())?;
        same("words that are back behind a pause", kept()?.0, own)?;
        // The last values of the process return, and none of another process.
        let (first, _) = runs[0];
        commit(Stream::new().state(first, 7))?;
        other.ask(&format!("nop {} {context}", pipe.number()))?;
        same("words of another process's", kept()?.0, 0)?;
        commit(&nop())?;
        dump.take(&bench.client, &bench.control)?;
        same("the last one", dump.state(first), 7)?;
    }
    dump.free(bench.device())
}

/// A process can read what it drew without an address. No other process can, with any engine.
fn anothers_strays(bench: &Bench, other: &mut Other, others: &str) -> Result<()> {
    let canvas = Canvas::new(&bench.client)?;
    let identity = bench.client.identity();
    for engine in engines(identity) {
        let pipe = engine.pipe();
        for reader in engines(identity) {
            // The address that the 2D engine gets back also points to no memory.
            let gone = Canvas::new(&bench.client)?;
            bench.commit_to(pipe, 0, &fill_with(engine, &gone.surface, 1))?;
            gone.free(bench.device())?;
            // Removes the address of the last round's canvas, and makes the reader the last user of its pipe.
            for used in [pipe, reader.pipe()] {
                other.ask(&format!("nop {} {others}", used.number()))?;
            }
            let context = match others {
                "context" => bench.device().attach()?.context,
                _ => 0,
            };
            bench.commit_to(pipe, context, &bench.bare_with(engine, FORBIDDEN)?)?;
            bench.commit_to(pipe, context, &from_nowhere(engine, &canvas)?)?;
            expect_all("read by its own process", canvas.memory(), FORBIDDEN)?;
            let found = other.ask(&format!("stray {} {others}", reader.pipe().number()))?;
            same("what another process reads", found.as_str(), "0")?;
            if context != 0 {
                bench.device().detach(context)?;
            }
        }
    }
    canvas.free(bench.device())
}

/// All engines of a core that can draw.
fn engines(identity: &QueryChipIdentity) -> impl Iterator<Item = Engine> {
    let resolve = Engine::Resolve {
        pipes: pixel_pipes(identity),
    };
    let two_d = has_2d(identity).then_some(Engine::TwoD);
    two_d.into_iter().chain(has_3d(identity).then_some(resolve))
}

/// A fill of a whole surface with the engine.
fn fill_with(engine: Engine, surface: &Surface, colour: u32) -> Stream {
    let mut stream = Stream::new();
    let all = Rect::new(0, 0, surface.width, surface.height);
    engine.fill(&mut stream, surface, all, colour);
    stream.flush(engine.pipe());
    stream
}

/// A surface without an address.
fn nowhere() -> Result<Surface> {
    surface_at(0, Memory::new(Region::anonymous(BYTES as usize)?))
}

/// Copies to a whole canvas from a surface without an address.
fn from_nowhere(engine: Engine, canvas: &Canvas) -> Result<Stream> {
    let mut stream = Stream::new();
    let target = &canvas.surface;
    let all = Rect::new(0, 0, target.width, target.height);
    engine.copy_all(&mut stream, &nowhere()?, (0, 0), target, &[all], all);
    stream.flush(engine.pipe());
    Ok(stream)
}

/// The states that one client loads stay while no other client runs and no memory is freed: the front end fetches no
/// additional word.
fn nothing_lost(bench: &Bench) -> Result<()> {
    let canvas = Canvas::new(&bench.client)?;
    bench.commit(0, &bench.fill(&canvas, 1))?;
    let words = |stream: &Stream| -> Result<u64> {
        // An MMU flush for memory that was freed before also loads states.
        let before = at_rest(|| Ok(bench.control.counter(counter::STATE_WORDS)))?;
        bench.commit(0, stream)?;
        Ok(bench.control.counter(counter::STATE_WORDS) - before)
    };
    // Includes the flush for memory of another process that was freed before; it comes with the next commands.
    words(&bench.bare(2)?)?;
    let bare = words(&bench.bare(2)?)?;
    for _ in 0..4 {
        same("words of states", words(&bench.bare(2)?)?, bare)?;
    }
    same("where to", bench.target_in_gpu(), canvas.address())?;
    // New memory changes nothing either, nor does the end of memory whose address is not loaded. With MMU version 2
    // both change the process's tables, so the TLB is flushed once.
    let more = Canvas::new(&bench.client)?;
    let flush = words(&bench.bare(3)?)? - bare;
    let has_tables = matches!(bench.control.board(), Some(Board::Gc3000 | Board::Gc7000ul));
    same("a flush", flush != 0, has_tables)?;
    ensure!(flush <= 10, "{flush} words");
    same("after that", words(&bench.bare(3)?)?, bare)?;
    same("the picture", canvas.memory().read(0), 3)?;
    more.free(bench.device())?;
    same("behind a free", words(&bench.bare(4)?)?, bare + flush)?;
    same("the picture", canvas.memory().read(0), 4)?;
    // The end of memory whose address was loaded earlier also changes nothing.
    let first = Canvas::new(&bench.client)?;
    bench.commit(0, &bench.fill(&first, 5))?;
    bench.commit(0, &bench.fill(&canvas, 6))?;
    first.free(bench.device())?;
    same("behind its free", words(&bench.bare(7)?)?, bare + flush)?;
    same("the picture", canvas.memory().read(0), 7)?;
    // The end of memory whose address is loaded reloads that state once, and only that one.
    canvas.free(bench.device())?;
    let scrubbed = words(&bench.bare(FORBIDDEN)?)? - flush;
    println!("# {bare} words of states; {scrubbed} behind the free of what is loaded");
    ensure!((bare + 1..bare + 8).contains(&scrubbed), "{scrubbed} words");
    same("behind that", words(&bench.bare(FORBIDDEN)?)?, bare)
}

/// A delta with one record.
fn delta(byte: u32, value: u32) -> Result<Memory> {
    const RECORDS: usize = 64;
    let memory = Memory::new(Region::anonymous(4096)?);
    memory.write(12, 1);
    memory.write(16, memory.address() as u32 + RECORDS as u32);
    for (at, word) in [byte / 4, 0, value].into_iter().enumerate() {
        memory.write(RECORDS + 4 * at, word);
    }
    Ok(memory)
}

/// States that a context's client reports as loaded survive the end of other memory.
fn own_states_stay(bench: &Bench) -> Result<()> {
    let pipes = bench.client.identity().pixel_pipes.max(1);
    if bench.client.engine().pipe() != Pipe::Pipe3d || pipes != 1 {
        return skip("the pictures here are not drawn by resolve with one pipe");
    }
    let context = bench.device().attach()?.context;
    let canvas = Canvas::new(&bench.client)?;
    let taken = delta(state::RS_DEST_ADDR, canvas.address())?;
    bench.commit_with(context, &bench.fill(&canvas, 1), taken.address())?;
    same("references", taken.read(4), 2)?;
    let more = Canvas::new(&bench.client)?;
    more.free(bench.device())?;
    let mut nop = Stream::new();
    nop.nop();
    bench.commit(context, &nop)?;
    same("where to", bench.target_in_gpu(), canvas.address())?;
    // The context was not loaded again: none of its memory was freed.
    same("references", taken.read(4), 2)?;
    bench.device().detach(context)?;
    canvas.free(bench.device())
}

fn nop() -> Stream {
    let mut stream = Stream::new();
    stream.nop();
    stream
}

/// Whether resolves with one pipe draw the pictures.
fn resolves_by_one(bench: &Bench) -> bool {
    let pipes = bench.client.identity().pixel_pipes.max(1);
    bench.client.engine().pipe() == Pipe::Pipe3d && pipes == 1
}

/// Makes a context of `device` load `value` into a state, through a delta.
fn load_by_delta(
    bench: &Bench,
    device: &Device,
    context: u32,
    byte: u32,
    value: u32,
) -> Result<()> {
    let taken = delta(byte, value)?;
    let mut given = taken.address();
    for _ in 0..4 {
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, &nop());
        let mut queue = Queue::new();
        let status = device.send_commit_with_delta(&record, context, given, &mut queue)?;
        same("COMMIT", status, galcore_client::uapi::Status::OK)?;
        device.stall()?;
        bench.control.write(gpu_control::STATE_INDEX, byte / 4);
        if bench.control.read(gpu_control::STATE_VALUE) == value {
            return Ok(());
        }
        given = 0;
        // After this, the next commit of the context is a switch.
        bench.commit(0, &nop())?;
    }
    anyhow::bail!("the context does not load {byte:#x}")
}

/// An address that a context loaded does not affect another file of the process whose generation keeps contexts
/// differently.
fn through_an_older_file(bench: &Bench, other: &mut Other, name: &str) -> Result<()> {
    if !resolves_by_one(bench) {
        return skip("the pictures here are not drawn by resolve with one pipe");
    }
    let abi = galcore_client::Abi::named(name).context("a generation")?;
    let mut older = Client::with_device(Device::open_as(abi, true)?)?;
    let context = bench.device().attach()?.context;
    let mut hits = 0;
    for _ in 0..8 {
        let canvas = Canvas::new(&bench.client)?;
        let address = canvas.address();
        load_by_delta(bench, bench.device(), context, state::RS_DEST_ADDR, address)?;
        canvas.free(bench.device())?;
        let theirs: u32 = other.ask("take")?.parse()?;
        hits += u32::from(theirs == address);
        older.run(Pipe::Pipe3d, &bench.bare(FORBIDDEN)?)?;
        same(
            "where to",
            bench.target_in_gpu(),
            bench.scratch.of(bench.target()),
        )?;
        same("the next owner's memory", other.ask("look")?.as_str(), "0")?;
        other.ask("drop")?;
    }
    ensure!(hits > 0, "the memory was never given to the other process");
    Ok(bench.device().detach(context)?)
}

/// A state that a context of a newer generation loaded, and that a context of an older generation does not keep.
fn behind_a_newer_context(bench: &Bench) -> Result<()> {
    /// PE.PIPE0_COLOR_ADDR, which contexts keep from 5.0.11 on.
    const KEPT_LATER: u32 = 0x1460;
    if !resolves_by_one(bench) {
        return skip("the pictures here are not drawn by resolve with one pipe");
    }
    let abi = galcore_client::Abi::named("5.0.11.p8").context("a generation")?;
    let newer = Device::open_as(abi, true)?;
    let canvas = Canvas::new(&bench.client)?;
    let address = canvas.address();
    let (first, second) = (newer.attach()?.context, bench.device().attach()?.context);
    load_by_delta(bench, &newer, first, KEPT_LATER, address)?;
    bench.commit(second, &nop())?;
    canvas.free(bench.device())?;
    bench.commit(second, &nop())?;
    bench
        .control
        .write(gpu_control::STATE_INDEX, KEPT_LATER / 4);
    let found = bench.control.read(gpu_control::STATE_VALUE);
    ensure!(
        found != address,
        "the GPU still has {found:#x}, which is freed"
    );
    newer.detach(first)?;
    Ok(bench.device().detach(second)?)
}

/// The command loop of the other process: allocates a canvas, fills it, reports its contents (or that they differ), and
/// frees it.
fn be_other(_: &'static galcore_client::Abi) -> Result<()> {
    let bench = Bench::new()?;
    let mut held: Option<Canvas> = None;
    other::serve(|words| {
        let canvas = || held.as_ref().context("no canvas");
        match words {
            ["take"] => {
                held = Some(Canvas::new(&bench.client)?);
                Ok(held.as_ref().context("no canvas")?.address().to_string())
            }
            ["fill", colour] => {
                bench.commit(0, &bench.fill(canvas()?, colour.parse()?))?;
                Ok("filled".to_string())
            }
            ["look"] => {
                bench.device().stall()?;
                let memory = canvas()?.memory();
                let first = memory.read(0);
                Ok(match memory.find_other_than(first) {
                    None => first.to_string(),
                    Some((offset, word)) => format!("{word:#x} at {offset:#x}"),
                })
            }
            // A commit without effect, with or without a context.
            ["nop", pipe, context] => {
                let pipe = match *pipe {
                    "0" => Pipe::Pipe3d,
                    _ => Pipe::Pipe2d,
                };
                let context = match *context {
                    "context" => bench.device().attach()?.context,
                    _ => 0,
                };
                let record = place(&bench.buffer, 0, pipe, &nop());
                bench.device().commit(&record, context, &mut Queue::new())?;
                bench.device().stall()?;
                if context != 0 {
                    bench.device().detach(context)?;
                }
                Ok("committed".to_string())
            }
            // The data read without an address, with or without a context.
            ["stray", pipe, context] => {
                let context = match *context {
                    "context" => bench.device().attach()?.context,
                    _ => 0,
                };
                let mut engines = engines(bench.client.identity());
                let engine = engines.find(|engine| engine.pipe().number().to_string() == *pipe);
                let engine = engine.context("no such engine")?;
                let canvas = Canvas::new(&bench.client)?;
                bench.commit_to(engine.pipe(), context, &from_nowhere(engine, &canvas)?)?;
                let found = canvas.memory().read(0);
                expect_all("strays", canvas.memory(), found)?;
                canvas.free(bench.device())?;
                if context != 0 {
                    bench.device().detach(context)?;
                }
                Ok(found.to_string())
            }
            ["drop"] => {
                held.take().context("no canvas")?.free(bench.device())?;
                Ok("dropped".to_string())
            }
            _ => anyhow::bail!("{words:?}"),
        }
    })
}

fn tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    let start = move || Other::start(bench.device().abi());
    suite.test("freed memory, drawn to without a context", move || {
        freed(bench, &mut start()?, 0)
    });
    suite.test("freed memory, drawn to behind other such", move || {
        freed_again(bench, &mut start()?, 0)
    });
    suite.test("another process's memory, without a context", move || {
        anothers(bench, &mut start()?, 0)
    });
    suite.test("freed memory, in the context that is loaded", move || {
        if !has_3d(bench.client.identity()) {
            return skip("contexts of a core without 3D hold nothing");
        }
        let context = bench.device().attach()?.context;
        freed(bench, &mut start()?, context)?;
        anothers(bench, &mut start()?, context)?;
        Ok(bench.device().detach(context)?)
    });
    let identity = bench.client.identity();
    for (pipe, name, is_there) in [
        (Pipe::Pipe2d, "2D", has_2d(identity)),
        (Pipe::Pipe3d, "3D", has_3d(identity)),
    ] {
        if !is_there {
            continue;
        }
        suite.test(
            format!("{name}: another process's data is out of reach"),
            move || anothers_data(bench, &mut start()?, pipe, "none"),
        );
        suite.test(format!("{name}: and in a context, too"), move || {
            anothers_data(bench, &mut start()?, pipe, "context")
        });
    }
    suite.test(
        "what another process draws nowhere is out of reach",
        move || anothers_strays(bench, &mut start()?, "none"),
    );
    suite.test("and in contexts, too", move || {
        if !has_3d(bench.client.identity()) {
            return skip("contexts of a core without 3D hold nothing");
        }
        anothers_strays(bench, &mut start()?, "context")
    });
    suite.test(
        "a client alone loses nothing, and pays nothing",
        move || nothing_lost(bench),
    );
    suite.test("states of a context outlive other memory", move || {
        own_states_stay(bench)
    });
    for name in ["dove", "v2"] {
        suite.test(
            format!("freed memory, in a context, drawn to by a file of {name}"),
            move || through_an_older_file(bench, &mut start()?, name),
        );
    }
    suite.test("freed memory, in the context of a newer file", move || {
        behind_a_newer_context(bench)
    });
    suite.test("no violation", move || {
        same("violations", bench.control.violations(), 0)
    });
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        tests(&mut suite, &bench);
        let result = suite.run();
        bench.device().free_contiguous(&bench.buffer)?;
        result
    })
}
