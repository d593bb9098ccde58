// SPDX-License-Identifier: GPL-2.0-only
//! With `streamCheck=3` the driver replaces an address that the client does not own by one of scratch memory. Commands
//! that do not use the address draw their picture. Commands that use it neither read nor write other processes' memory.

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::reference;
use galcore_selftests::states;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;

/// The index buffer's address.
const INDEX: u32 = 0x644;
/// The addresses of the samplers' levels.
const SAMPLERS: std::ops::Range<u32> = 0x2400..0x2780;
/// Bytes of the other process's memory, the same as the surface's.
const BYTES: u64 = WIDTH as u64 * HEIGHT as u64 * 4;
/// Contents of that memory. The word's index is added.
const THEIRS: u32 = 0x7e57_0000;

const ALL: Rect = Rect::new(0, 0, WIDTH, HEIGHT);

/// Runs in the other process: allocates memory, reports its address, and counts the changed words.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let buffer = device.allocate_contiguous(BYTES)?;
    let wanted = |word: usize| THEIRS + word as u32;
    for word in 0..BYTES as usize / 4 {
        buffer.memory.write(4 * word, wanted(word));
    }
    other::serve(|words| match words {
        ["address"] => Ok(buffer.address.to_string()),
        ["changed"] => {
            let words = 0..BYTES as usize / 4;
            let changed = words.filter(|&word| buffer.memory.read(4 * word) != wanted(word));
            Ok(changed.count().to_string())
        }
        _ => bail!("what is {words:?}?"),
    })
}

/// Starts the other process. Returns it and the address of its memory.
fn start() -> Result<(Other, u32)> {
    let mut other = Other::start(Device::open()?.abi())?;
    let address = other.ask("address")?.parse()?;
    Ok((other, address))
}

fn untouched(other: &mut Other) -> Result<()> {
    same("words changed", other.ask("changed")?.as_str(), "0")
}

/// The core's states, as the model writes them to memory.
struct States {
    dump: galcore_client::device::Buffer,
    physical: u32,
}

impl States {
    fn new(client: &Client) -> Result<Self> {
        let dump = client
            .device()
            .allocate_contiguous(gpu_control::STATE_DUMP_BYTES as u64)?;
        let physical = dump.address + client.base_address();
        Ok(Self { dump, physical })
    }

    /// Makes the model write the states.
    fn take(&self, control: &Control) {
        control.write(gpu_control::STATE_DUMP, self.physical);
    }

    /// The value of a state in the last dump.
    fn held(&self, byte: u32) -> u32 {
        self.dump.memory.read(byte as usize)
    }

    fn release(self, client: &Client) -> Result<()> {
        Ok(client.device().free_contiguous(&self.dump)?)
    }
}

fn one_state(control: &Control) -> Result<()> {
    let mut client = Client::start()?;
    let own = client.device().allocate_contiguous(4096)?;
    let scratch = Scratch::read()?.of(INDEX);
    let freed = client.device().allocate_contiguous(4096)?;
    client.device().free_contiguous(&freed)?;
    let states = States::new(&client)?;
    let pipe = client.engine().pipe();
    for (what, value, wanted) in [
        ("its own", own.address, own.address),
        ("no memory at all", 0x7fff_fff0, scratch),
        ("freed memory", freed.address, scratch),
        ("its own again", own.address + 16, own.address + 16),
    ] {
        client.run(pipe, Stream::new().state(INDEX, value))?;
        states.take(control);
        same_word(what, states.held(INDEX), wanted)?;
    }
    // States that only the kernel may write are still refused.
    let refused = client.run(pipe, Stream::new().state(0x3804, 1));
    let status = refused.err().and_then(|error| error.status());
    same("an event", status, Some(Status::INVALID_DATA))?;
    states.release(&client)?;
    Ok(client.device().free_contiguous(&own)?)
}

/// Loads addresses of another process's memory into all samplers. The commands after that do not use samplers: a clear
/// of one half of the picture, and a copy to the other half.
fn samplers_that_are_off(control: &Control, paint: &mut Paint) -> Result<()> {
    let (mut other, theirs) = start()?;
    let source = paint.client.create_surface(WIDTH, HEIGHT)?;
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let at = (y * source.stride + x * 4) as usize;
            source.memory.write(at, 0xab00_0000 | y << 12 | x);
        }
    }
    let states = States::new(&paint.client)?;
    let scratch = Scratch::read()?;
    let samplers: Vec<u32> = states::addresses_of(reference::board(control)?)
        .into_iter()
        .filter(|byte| SAMPLERS.contains(byte))
        .collect();
    same("samplers' addresses", samplers.is_empty(), false)?;
    for colour in [0x0123_4567, 0x89ab_cdef] {
        paint.surface.set_all(0);
        let mut stream = Stream::new();
        for byte in &samplers {
            stream.state(*byte, theirs + byte % 64 * 64);
        }
        let (left, right) = (
            Rect::new(0, 0, WIDTH / 2, HEIGHT),
            Rect::new(WIDTH / 2, 0, WIDTH / 2, HEIGHT),
        );
        let engine = paint.engine();
        engine.fill(&mut stream, &paint.surface, left, colour);
        engine.copy_all(&mut stream, &source, (0, 0), &paint.surface, &[right], ALL);
        stream.flush(engine.pipe());
        paint.run(&stream)?;
        paint.expect(|x, y| {
            if x < WIDTH / 2 {
                colour
            } else {
                0xab00_0000 | y << 12 | (x - WIDTH / 2)
            }
        })?;
        untouched(&mut other)?;
        states.take(control);
        for byte in &samplers {
            let found = states.held(*byte);
            same_word(&format!("state {byte:#x}"), found, scratch.of(*byte))?;
        }
    }
    states.release(&paint.client)?;
    Ok(paint.client.release_surface(source)?)
}

/// The commands draw to the foreign address and then read from it. They run, but everything they draw goes to a page of
/// scratch memory, and they read that page.
fn addresses_that_are_used(paint: &mut Paint) -> Result<()> {
    const LOST: u32 = 0x1057_1057;
    const BEFORE: u32 = 0xbe70_4e00;
    let (mut other, theirs) = start()?;
    let engine = paint.engine();
    paint.surface.set_all(BEFORE);
    let own = paint.surface.location.address;
    // The stream only contains the surface's address.
    paint.surface.location.address = theirs;
    let mut draws = Stream::new();
    engine.fill(&mut draws, &paint.surface, ALL, LOST);
    draws.flush(engine.pipe());
    paint.surface.location.address = own;
    paint.commit(&draws, &mut Queue::new())?;
    paint.client.finish()?;
    untouched(&mut other)?;
    paint.expect(|_, _| BEFORE)?;

    let mut source = paint.client.create_surface(WIDTH, HEIGHT)?;
    let (whole, seen) = (source.location.address, source.pixels());
    source.location.address = theirs;
    let mut reads = Stream::new();
    engine.copy_all(&mut reads, &source, (0, 0), &paint.surface, &[ALL], ALL);
    reads.flush(engine.pipe());
    paint.run(&reads)?;
    paint.expect(|_, _| LOST)?;
    untouched(&mut other)?;
    source.location.address = whole;
    same("the surface that it was not", source.pixels() == seen, true)?;
    paint.client.release_surface(source)?;
    // The client itself can continue.
    paint.prove(0x600d_600d)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        system::stay_awake()?;
        let control = &Control::open()?;
        let paint = &RefCell::new(Paint::new()?);
        let mut suite = Suite::new();
        suite.test("addresses of others are replaced", || one_state(control));
        suite.test("samplers that are off", || {
            samplers_that_are_off(control, &mut paint.borrow_mut())
        });
        suite.test("commands that use what was replaced", || {
            addresses_that_are_used(&mut paint.borrow_mut())
        });
        suite.run()
    })
}
