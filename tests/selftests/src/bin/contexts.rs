// SPDX-License-Identifier: GPL-2.0-only
//! Contexts and state deltas: after each COMMIT the GPU's state memory is what its client wants, whoever used the GPU
//! meanwhile.
//!
//! The client here behaves as the vendor's: it gives a delta with each COMMIT, polls its reference count, and adds what
//! the driver has not taken to the last one that it has.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::draw::Engine;
use galcore_client::state;
use galcore_client::stream::point;
use galcore_client::stream::Pipe;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
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
use galcore_selftests::deltas::Blob;
use galcore_selftests::deltas::Collector;
use galcore_selftests::deltas::Delta;
use galcore_selftests::deltas::DELTA_BYTES;
use galcore_selftests::deltas::ELEMENTS;
use galcore_selftests::deltas::RECORD_ARRAY;
use galcore_selftests::deltas::RECORD_COUNT;
use galcore_selftests::deltas::REFERENCES;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::states;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::unlock;
use gpu_control::Board;

/// What a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The GPU converts it from 16.16.
    Fixed,
    Address,
    Element,
}

/// Every state that a context keeps, by word address: its kind and what it is at first. From section 4.4 of the
/// driver's notes.
fn kept(board: Board) -> BTreeMap<u32, (Kind, u32)> {
    use Kind::*;
    let (elements, instructions, pipes) = match board {
        Board::Gc2000 | Board::Gc3000 => (16, 512, 2),
        Board::Gc880 => (16, 512, 1),
        _ => (12, 256, 1),
    };
    let mut runs: Vec<(u32, u32, u32, Kind)> = vec![
        (0x3814, 1, 1, Plain),
        (0x3818, 3, 0, Plain),
        (0x3828, 2, 0, Plain),
        (0x3834, 2, 0, Plain),
        (0x384c, 1, 0, Plain),
        (0x0600, elements, 0, Element),
        (0x0644, 1, 0, Address),
        (0x0648, 1, 0, Plain),
        (0x064c, 1, 0, Address),
        (0x0650, 1, 0, Plain),
        (0x0680, 8, 0, Address),
        (0x06a0, 8, 0, Plain),
        (0x0670, 1, 0, Plain),
        (0x0678, 1, 0, Plain),
        (0x067c, 1, u32::MAX, Plain),
        (0x06c0, 16, 0, Plain),
        (0x0700, 32, 0, Plain),
        (0x0780, 16, 0x3f80_0000, Plain),
        (0x0800, 12, 0, Plain),
        (0x0830, 1, 0, Plain),
        (0x0838, 1, 0, Plain),
        (0x5000, 4 * 168, 0, Plain),
        (0x0a00, 2, 0, Fixed),
        (0x0a08, 1, 0, Plain),
        (0x0a0c, 2, 0, Fixed),
        (0x0a14, 3, 0, Plain),
        (0x0a28, 6, 0, Plain),
        (0x0a40, 10, 0, Plain),
        (0x0a80, 1, 0, Plain),
        (0x0a84, 1, 0, Fixed),
        (0x0a8c, 1, 0, Plain),
        (0x0c00, 2, 0, Fixed),
        (0x0c08, 2, 0x4500_0000, Fixed),
        (0x0c10, 3, 0, Plain),
        (0x0c1c, 1, 0x4200_0000, Plain),
        (0x0c20, 2, 0, Fixed),
        (0x0e00, 1, 1, Plain),
        (0x0e04, 1, 0, Plain),
        (0x0e08, 1, 0x31, Plain),
        (0x0e10, 4, 0, Plain),
        (0x0e40, 16, 0, Plain),
        (0x1000, 5, 0, Plain),
        (0x1018, 1, 0x0100_0000, Plain),
        (0x7000, 4 * 64, 0, Plain),
        (0x0900, 8, 0, Plain),
        (0x0924, 1, 0, Plain),
        (0x1400, 4, 0, Plain),
        (0x1414, 7, 0, Plain),
        (0x1434, 1, 0, Plain),
        (0x1454, 1, 0, Plain),
        (0x1458, 1, 0, Address),
        (0x145c, 1, 0x10, Plain),
        (0x14a0, 1, 0, Plain),
        (0x14a4, 1, 0x000e_400c, Plain),
        (0x14a8, 2, u32::MAX, Plain),
        (0x14b0, 3, 0, Plain),
        (0x1580, 3, 0, Plain),
        (0x3008, 1, 0, Plain),
        (0x1604, 1, 0, Plain),
        (0x1608, 1, 0, Address),
        (0x160c, 1, 0, Plain),
        (0x1610, 1, 0, Address),
        (0x1614, 1, 0, Plain),
        (0x1620, 1, 0, Plain),
        (0x1630, 2, 0, Plain),
        (0x163c, 5, 0, Plain),
        (0x16a0, 1, 0, Plain),
        (0x16b4, 1, 0, Plain),
        (0x1654, 1, 0x0020_0000, Plain),
        (0x1658, 2, 0, Address),
        (0x1660, 1, 0, Plain),
        (0x1664, 2, 0, Address),
        (0x166c, 3, 0, Plain),
        (0x1678, 2, 0, Plain),
        (0x16a4, 1, 0, Address),
        (0x16a8, 2, 0, Plain),
        (0x1720, 8, 0, Plain),
        (0x1740, 8, 0, Address),
        (0x1760, 8, 0, Plain),
    ];
    for plane in [0x1680, 0x1688, 0x1690, 0x1698] {
        runs.extend([(plane, 1, 0, Address), (plane + 4, 1, 0, Plain)]);
    }
    for texture in [
        0x2000, 0x2040, 0x2080, 0x20c0, 0x2100, 0x2140, 0x2180, 0x2200, 0x2240,
    ] {
        runs.push((texture, 12, 0, Plain));
    }
    runs.push((0x21c0, 12, 0x0032_1000, Plain));
    for level in 0..14 {
        runs.push((0x2400 + 0x40 * level, 12, 0, Address));
    }
    if board == Board::Gc3000 {
        // HALTI1: 32 samplers in a place of their own.
        for texture in [
            0x10000, 0x10080, 0x10100, 0x10180, 0x10200, 0x10280, 0x10300, 0x10400, 0x10480,
        ] {
            runs.push((texture, 32, 0, Plain));
        }
        runs.extend([(0x2c00, 256, 0, Plain), (0x10380, 32, 0x0032_1000, Plain)]);
        for sampler in 0..32 {
            runs.push((0x10800 + 0x40 * sampler, 14, 0, Address));
        }
    }
    if instructions <= 256 {
        runs.extend([(0x4000, 1024, 0, Plain), (0x6000, 1024, 0, Plain)]);
    } else {
        runs.extend([(0x085c, 1, 0, Plain), (0x101c, 1, 0x100, Plain)]);
        runs.push((0xc000, 4 * instructions, 0, Plain));
    }
    if pipes == 1 {
        runs.extend([(0x1410, 1, 0, Address), (0x1430, 1, 0, Address)]);
    } else {
        for first in [0x1460, 0x1480, 0x1500, 0x1520, 0x16c0, 0x16e0] {
            runs.push((first, pipes, 0, Address));
        }
        runs.push((0x1700, pipes, 0, Plain));
    }
    let states = runs.into_iter().flat_map(|(byte, count, value, kind)| {
        (byte / 4..byte / 4 + count).map(move |address| (address, (kind, value)))
    });
    states.collect()
}

/// What a client wants of its context.
struct Intent {
    values: BTreeMap<u32, u32>,
    /// Vertex elements in use.
    elements: u32,
}

struct Bench {
    client: Client,
    control: Control,
    board: Board,
    kept: BTreeMap<u32, (Kind, u32)>,
    buffer: Buffer,
    /// Memory that states point to.
    own: Buffer,
    dump: StateDump,
    scratch: Scratch,
    random: RefCell<Random>,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        let control = Control::open()?;
        let board = control.board().context("an unknown board")?;
        let device = client.device();
        Ok(Self {
            kept: kept(board),
            buffer: device.allocate_contiguous(0x8000)?,
            own: device.allocate_contiguous(0x8000)?,
            scratch: Scratch::read()?,
            dump: StateDump::new(device)?,
            random: RefCell::new(Random::new(4711)),
            client,
            control,
            board,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    fn below(&self, limit: u32) -> u32 {
        self.random.borrow_mut().below(limit)
    }

    fn any_word(&self) -> u32 {
        self.random.borrow_mut().colour()
    }

    fn intent(&self) -> Intent {
        let values = self.kept.iter();
        Intent {
            values: values
                .map(|(address, (_, value))| (*address, *value))
                .collect(),
            elements: self
                .kept
                .values()
                .filter(|(kind, _)| *kind == Kind::Element)
                .count() as u32,
        }
    }

    /// Compares everything with what the client wants.
    fn compare(&self, what: &str, intent: &Intent) -> Result<()> {
        self.dump.take(&self.client, &self.control)?;
        let elements_end = 0x600 / 4 + intent.elements;
        let wanted = self.kept.iter().filter_map(|(&address, &(kind, _))| {
            let value = intent.values[&address];
            let wanted = match kind {
                Kind::Fixed => converted(value),
                Kind::Element if address >= elements_end => return None,
                Kind::Address if value == 0 => self.scratch.of(address * 4),
                _ => value,
            };
            Some((address * 4, wanted))
        });
        self.dump.compare(what, wanted)
    }

    /// Changes some states at random: in the stream, in the delta, and in what is wanted.
    fn change(&self, stream: &mut Stream, delta: &mut Delta, intent: &mut Intent) {
        let count = self.below(20);
        let addresses: Vec<u32> = self.kept.keys().copied().collect();
        for _ in 0..count {
            let address = addresses[self.below(addresses.len() as u32) as usize];
            let (kind, _) = self.kept[&address];
            let value = match kind {
                Kind::Element => continue,
                Kind::Address if self.below(4) == 0 => 0,
                Kind::Address => self.own.address + self.below(0x8000),
                // Not those that the driver keeps off.
                _ if address == 0x1654 / 4 => self.any_word() & !0x2030,
                _ if address == 0x1678 / 4 => self.any_word() & !1,
                _ => self.any_word(),
            };
            let value = value & !mask_bits(address * 4);
            let old = intent.values[&address];
            let mask = match (kind, self.below(3)) {
                (Kind::Address, _) | (_, 0) => 0,
                (_, 1) => u32::MAX,
                _ if address == 0x1654 / 4 => 0,
                _ => self.any_word() | 1,
            };
            let all = if mask == 0 { u32::MAX } else { mask };
            let new = (old & !all) | (value & all);
            let fixed = if kind == Kind::Fixed { 0x0400_0000 } else { 0 };
            stream.raw(&[0x0801_0000 | fixed | address, new]);
            delta.add(address, mask, value);
            intent.values.insert(address, new);
        }
        if self.below(4) == 0 {
            let most = self.intent().elements;
            let used = 1 + self.below(most);
            let values: Vec<u32> = (0..used).map(|_| self.any_word()).collect();
            stream.states(0x600, &values);
            for (at, value) in values.into_iter().enumerate() {
                delta.add(0x600 / 4 + at as u32, 0, value);
                intent.values.insert(0x600 / 4 + at as u32, value);
            }
            delta.memory.write(ELEMENTS, used);
            intent.elements = used;
        }
    }

    fn commit_nop(&self, context: u32, delta: u64) -> Result<Status> {
        let mut stream = Stream::new();
        stream.nop();
        let record = place(&self.buffer, 0, Pipe::Pipe3d, &stream);
        let mut queue = Queue::new();
        Ok(self
            .device()
            .send_commit_with_delta(&record, context, delta, &mut queue)?)
    }
}

/// A kick of the resolve engine without loads draws where its own context says, whichever was loaded last.
fn kicks(bench: &Bench) -> Result<()> {
    const BLANK: u32 = 0xff00_0009;
    let device = bench.device();
    let pipes = bench.client.identity().pixel_pipes;
    let commit = |context, stream: &Stream, delta: &Delta| -> Result<()> {
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, stream);
        let (delta, mut queue) = (delta.address(), Queue::new());
        let status = device.send_commit_with_delta(&record, context, delta, &mut queue)?;
        same("COMMIT", status, Status::OK)?;
        Ok(device.stall()?)
    };
    let addresses = |plain, of_pipes, address| match pipes {
        1 => vec![(plain, address)],
        _ => vec![(of_pipes, address), (of_pipes + 4, address)],
    };
    let mut all = Vec::new();
    // Windows and memory of each do not suit the others; a copy has more states than a fill.
    for (value, side, copies) in [
        (0x1111_2222, 64, false),
        (0x3333_4444, 16, false),
        (0x5555_6666, 128, true),
    ] {
        let surface = bench.client.create_surface(side, side)?;
        let source = bench.client.create_surface(side, side)?;
        source.set_all(value);
        let target = addresses(
            state::RS_DEST_ADDR,
            state::RS_PIPE_DEST_ADDR,
            surface.location.address,
        );
        let mut states = vec![
            (state::RS_CONFIG, 6 | 6 << 8),
            (state::RS_DEST_STRIDE, surface.stride),
            (state::RS_CLEAR_CONTROL, if copies { 0 } else { 0x1_ffff }),
            (state::RS_FILL_VALUE, value),
            (state::RS_WINDOW_SIZE, point(side, side / pipes)),
            (state::RS_DITHER, u32::MAX),
            (state::RS_DITHER + 4, u32::MAX),
        ];
        states.extend(&target);
        if copies {
            let from = source.location.address;
            states.push((state::RS_SOURCE_STRIDE, source.stride));
            states.extend(addresses(
                state::RS_SOURCE_ADDR,
                state::RS_PIPE_SOURCE_ADDR,
                from,
            ));
        }
        if pipes > 1 {
            let second = point(0, side / 2);
            states.extend([
                (state::RS_PIPE_OFFSET, 0),
                (state::RS_PIPE_OFFSET + 4, second),
            ]);
        }
        let (mut stream, mut delta) = (Stream::new(), Delta::new()?);
        for (state, value) in states {
            stream.state(state, value);
            delta.add(state / 4, 0, value);
        }
        let context = device.attach()?.context;
        commit(context, &stream, &delta)?;
        all.push((context, surface, source, value, delta, target));
    }
    let nothing = Delta::new()?;
    for (round, at) in [0, 0, 1, 0, 2, 2, 1, 1, 2, 0].into_iter().enumerate() {
        all.iter()
            .for_each(|(_, surface, ..)| surface.set_all(BLANK));
        let mut kick = Stream::new();
        if round % 4 == 3 {
            all[at].5.iter().for_each(|(state, value)| {
                kick.state(*state, *value);
            });
        }
        kick.state(state::RS_KICKER, state::RS_KICK)
            .flush(Pipe::Pipe3d);
        commit(all[at].0, &kick, &nothing).with_context(|| format!("round {round}"))?;
        for (place, (_, surface, _, value, ..)) in all.iter().enumerate() {
            let wanted = if place == at { *value } else { BLANK };
            expect_pixels(surface, |_, _| wanted).with_context(|| format!("round {round}"))?;
        }
    }
    for (context, surface, source, ..) in all {
        device.detach(context)?;
        bench.client.release_surface(surface)?;
        bench.client.release_surface(source)?;
    }
    Ok(())
}

/// Random commits from several contexts; the whole state memory is looked at behind each.
fn proof(bench: &Bench, contexts: usize, count: u32, goes_off: bool) -> Result<()> {
    let device = bench.device();
    let mut all = Vec::new();
    for _ in 0..contexts {
        all.push((Blob::new(device)?, bench.intent()));
    }
    let both = has_2d(bench.client.identity());
    let (mut last, mut switches) = (usize::MAX, 0);
    for round in 0..count {
        let at = bench.below(contexts as u32) as usize;
        let (blob, intent) = &mut all[at];
        if goes_off && bench.below(2) == 0 {
            switch_off(device, &bench.control)?;
            last = usize::MAX;
        }
        let delta = blob.fresh()?;
        let mut stream = Stream::new();
        stream.nop();
        let pipe = if both && bench.below(4) == 0 {
            Pipe::Pipe2d
        } else {
            bench.change(&mut stream, &mut blob.deltas[delta], intent);
            Pipe::Pipe3d
        };
        let taken = blob.commit(device, &bench.buffer, pipe, &stream, delta)?;
        same("taken at a switch only", taken, at != last)?;
        switches += u32::from(taken);
        last = at;
        bench.compare(&format!("commit {round} of context {at}"), intent)?;
        if bench.below(16) == 0 {
            // Without a context: pollutes what is loaded, but no context.
            let mut stream = Stream::new();
            stream.state(0xa14, 0xffff_ffff).state(0x1620, 0x1234);
            let record = place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
            device.commit(&record, 0, &mut Queue::new())?;
            last = usize::MAX;
        }
    }
    println!("# {count} commits of {contexts} contexts, {switches} switches");
    for (blob, _) in all {
        device.detach(blob.handle)?;
    }
    Ok(())
}

/// As [`proof`], by clients that collect.
fn collected(bench: &Bench, name: &str, deltas: usize, count: u32) -> Result<()> {
    let abi = Abi::named(name).context("a generation")?;
    let device = Device::open_as(abi, true)?;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push((Collector::new(&device, deltas)?, bench.intent()));
    }
    let (mut last, mut last_stamp, mut switches) = (usize::MAX, 0, 0);
    for round in 0..count {
        let at = match bench.below(2) {
            0 if last != usize::MAX => last,
            _ => bench.below(all.len() as u32) as usize,
        };
        let (collector, intent) = &mut all[at];
        let mut step = Delta::new()?;
        let mut stream = Stream::new();
        stream.nop();
        bench.change(&mut stream, &mut step, intent);
        let (is_switched, stamp) =
            collector.commit(&device, &bench.buffer, Pipe::Pipe3d, &stream, &step)?;
        same("switched", is_switched, at != last)?;
        ensure!(stamp > last_stamp, "stamp {stamp} behind {last_stamp}");
        switches += u32::from(is_switched);
        (last, last_stamp) = (at, stamp);
        bench.compare(&format!("commit {round} of context {at}"), intent)?;
    }
    println!("# {count} commits, {switches} switches");
    for (collector, _) in all {
        device.detach(collector.handle)?;
    }
    Ok(())
}

/// States that contexts keep of clients from 5.0.11 on alone.
fn newer_states(bench: &Bench, name: &str) -> Result<()> {
    if bench.board == Board::Dove {
        return harness::skip("no newer client ever had this core");
    }
    let mut states = vec![0x0674, 0x0a88, 0x0e20, 0x0e24, 0x1030];
    if bench.board != Board::Gc7000ul {
        states.extend([0x3850, 0x3854, 0x2c40]);
    }
    let highest = match bench.board {
        Board::Gc880 => {
            states.extend([0x1480, 0x5ffc, 0x7ffc]);
            0x3800
        }
        // HALTI1, HALTI2 and the uniforms that all shaders have in common.
        Board::Gc3000 => {
            states.extend([
                0x0884, 0x0864, 0x0e0c, 0x102c, 0x1034, 0x1038, 0x1040, 0x1044, 0x10700, 0x1780,
                0x17a4, 0x17c4, 0x1a04, 0x1a44, 0x14600, 0x14640, 0x146bc, 0x14800, 0x148c4,
                0x14900, 0x30000, 0x313fc,
            ]);
            0xc500
        }
        // HALTI5: 32 vertex elements, textures by descriptors, uniforms in a third place.
        Board::Gc7000ul => {
            states.extend([
                0x3888, 0x38fc, 0x3884, 0x17800, 0x17afc, 0x17980, 0x17a7c, 0x07c4, 0x07d8, 0x07f8,
                0x146c0, 0x08b8, 0x15600, 0x086c, 0x0808, 0x0898, 0x0870, 0x08a8, 0x08dc, 0x08fc,
                0x0aa8, 0x0a9c, 0x3a08, 0x0e34, 0x108c, 0x1058, 0x1098, 0x14c40, 0x14c3c, 0x16c00,
                0x1747c, 0x15c00, 0x15c7c, 0x15e7c, 0x0960, 0x08bc, 0x1090, 0x0884, 0x36000,
                0x373fc, 0x103c, 0x14900, 0x14998, 0x149b8, 0x149dc, 0x14c0, 0x14c4, 0x1a80,
                0x1a9c,
            ]);
            0xdd00
        }
        _ => 0x3800,
    };
    let device = Device::open_as(Abi::named(name).context("a generation")?, true)?;
    let (first, second) = (device.attach()?, device.attach()?);
    same("highest state", first.state_count, highest)?;
    let value_of = |state| {
        if states::takes_address(state) {
            bench.own.address
        } else {
            state
        }
    };
    let fresh = |state| match state {
        0x10700 => 0xf00,
        0x3884 => 0x2_0002,
        0x17a7c => 0x3f80_0000,
        0x08b8 => 0x330,
        0x0808 => 1,
        0x14c40 => 1,
        0x103c => 0x7654_3210,
        _ if states::takes_address(state) => bench.scratch.of(state),
        _ => 0,
    };
    let commit = |context: u32, delta: Option<&Delta>, stream: &Stream| -> Result<()> {
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, stream);
        let at = delta.map_or(0, Delta::address);
        let status = device.send_commit_with_delta(&record, context, at, &mut Queue::new())?;
        same("COMMIT", status, Status::OK)
    };
    let mut nothing = Stream::new();
    nothing.nop();
    let (mut stream, mut delta) = (Stream::new(), Delta::new()?);
    for &state in &states {
        stream.state(state, value_of(state));
        delta.add(state / 4, 0, value_of(state));
    }
    commit(first.context, Some(&delta), &stream)?;
    for _ in 0..3 {
        for (context, is_first) in [(second.context, false), (first.context, true)] {
            commit(context, None, &nothing)?;
            bench.dump.take(&bench.client, &bench.control)?;
            for &state in &states {
                let wanted = if is_first {
                    value_of(state)
                } else {
                    fresh(state)
                };
                harness::same_word(&format!("{state:#x}"), bench.dump.state(state), wanted)?;
            }
        }
    }
    device.detach(first.context)?;
    device.detach(second.context)?;
    match bench.board {
        Board::Gc7000ul => mirrored_states(bench, &device),
        _ => Ok(()),
    }
}

/// HALTI5's samplers and uniforms have two places each, and a delta may name either.
fn mirrored_states(bench: &Bench, device: &Device) -> Result<()> {
    let (first, second) = (device.attach()?, device.attach()?);
    let commit = |context: u32, delta: Option<&Delta>| -> Result<()> {
        let mut stream = Stream::new();
        stream.nop();
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
        let at = delta.map_or(0, Delta::address);
        let status = device.send_commit_with_delta(&record, context, at, &mut Queue::new())?;
        same("COMMIT", status, Status::OK)
    };
    let mut delta = Delta::new()?;
    let named = [
        (0x1_6004, 0x1_6c04, 0x11),
        (0x1_7404, 0x1_7404, 0x22),
        (0x1_5804, 0x1_5c04, bench.own.address),
        (0x3_4010, 0x3_6010, 0x44),
    ];
    for (state, _, value) in named {
        delta.add(state / 4, 0, value);
    }
    commit(first.context, Some(&delta))?;
    commit(second.context, None)?;
    commit(first.context, None)?;
    bench.dump.take(&bench.client, &bench.control)?;
    for (_, state, value) in named {
        harness::same_word(&format!("{state:#x}"), bench.dump.state(state), value)?;
    }
    device.detach(first.context)?;
    Ok(device.detach(second.context)?)
}

fn plain_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("stateCount is the vendor's", move || {
        let wanted = match bench.board {
            Board::Gc2000 | Board::Gc880 => 0x3800,
            Board::Gc3000 => 0x43fe,
            _ => 0x1d00,
        };
        let attached = bench.device().attach()?;
        same("stateCount", attached.state_count, wanted)?;
        Ok(bench.device().detach(attached.context)?)
    });
    suite.test(
        "a fresh context loads the values after a reset",
        move || {
            let attached = bench.device().attach()?;
            same("COMMIT", bench.commit_nop(attached.context, 0)?, Status::OK)?;
            bench.compare("fresh", &bench.intent())?;
            Ok(bench.device().detach(attached.context)?)
        },
    );
    suite.test("references: two when taken, one less a merge", move || {
        let device = bench.device();
        let (a, b) = (device.attach()?.context, device.attach()?.context);
        let deltas: Vec<Delta> = (0..4).map(|_| Delta::new()).collect::<Result<_>>()?;
        let references = || deltas.iter().map(Delta::references).collect::<Vec<_>>();
        let commit = |context, delta: Option<usize>| -> Result<()> {
            let address = delta.map_or(0, |at: usize| deltas[at].address());
            same("COMMIT", bench.commit_nop(context, address)?, Status::OK)
        };
        commit(a, Some(0))?;
        same("the first commit switches", references(), vec![2, 0, 0, 0])?;
        commit(a, Some(1))?;
        same("the same context does not", references(), vec![2, 0, 0, 0])?;
        commit(b, None)?;
        commit(a, Some(1))?;
        same("the other copy", references(), vec![1, 2, 0, 0])?;
        commit(b, None)?;
        commit(a, Some(2))?;
        same("the first copy again", references(), vec![0, 1, 2, 0])?;
        commit(b, None)?;
        commit(a, None)?;
        same("no new one", references(), vec![0, 0, 1, 0])?;
        commit(b, None)?;
        commit(a, None)?;
        same("all are let go of", references(), vec![0, 0, 0, 0])?;
        device.detach(a)?;
        Ok(device.detach(b)?)
    });
    suite.test("a delta counts as it is when it is merged", move || {
        let device = bench.device();
        let (a, b) = (device.attach()?.context, device.attach()?.context);
        let mut delta = Delta::new()?;
        same("a", bench.commit_nop(a, delta.address())?, Status::OK)?;
        same("b", bench.commit_nop(b, 0)?, Status::OK)?;
        delta.add(0xa14 / 4, 0, 0x5a5a_5a5a);
        let mut intent = bench.intent();
        intent.values.insert(0xa14 / 4, 0x5a5a_5a5a);
        same("a again", bench.commit_nop(a, 0)?, Status::OK)?;
        bench.compare("changed after it was given", &intent)?;
        device.detach(a)?;
        Ok(device.detach(b)?)
    });
    suite.test("a kick alone draws where its context says", move || {
        kicks(bench)
    });
    suite.test("a zeroed delta on the stack, for ever", move || {
        let device = bench.device();
        let contexts = [device.attach()?.context, device.attach()?.context];
        for round in 0..300 {
            let delta = [0u64; 8];
            let address = (&raw const delta) as usize as u64;
            let context = contexts[(round / (1 + round % 3)) % 2];
            same("COMMIT", bench.commit_nop(context, address)?, Status::OK)?;
            same("the stack", delta, [0; 8])?;
        }
        for context in contexts {
            bench.commit_nop(context, 0)?;
            bench.compare("zeroed deltas", &bench.intent())?;
            device.detach(context)?;
        }
        Ok(())
    });
    suite.test(
        "the last context's memory is back once it is detached",
        move || {
            let device = bench.device();
            let before = at_rest(ProcGc::used_now)?;
            let context = device.attach()?.context;
            same("COMMIT", bench.commit_nop(context, 0)?, Status::OK)?;
            device.stall()?;
            let during = at_rest(ProcGc::used_now)?;
            ensure!(during != before, "{during:?}: a context is no memory");
            device.detach(context)?;
            // Nothing is committed since.
            settles("KiB", before, ProcGc::used_now)
        },
    );
    suite.test("detached while the GPU reads it", move || {
        for _ in 0..100 {
            let context = bench.device().attach()?.context;
            same("COMMIT", bench.commit_nop(context, 0)?, Status::OK)?;
            bench.device().detach(context)?;
        }
        Ok(bench.device().stall()?)
    });
}

/// A node of the pool that states may name, and its address.
fn a_node(device: &Device) -> Result<(Node, u32)> {
    let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
    let address = device.lock(node)?.address;
    unlock(device, node)?;
    Ok((node, address))
}

/// A node at this address, where one has been freed.
fn at_address(device: &Device, address: u32) -> Result<Node> {
    // Until the GPU is past what has used it, others are given out.
    device.stall()?;
    let (mut wrong, mut right) = (Vec::new(), None);
    while right.is_none() && wrong.len() < 256 {
        match a_node(device)? {
            (node, at) if at == address => right = Some(node),
            (node, _) => wrong.push(node),
        }
    }
    for node in wrong {
        device.free(node)?;
    }
    right.context("the address was not given out again")
}

fn hostile_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test(
        "addresses of others are restored as 0, freed ones too, until they are back",
        move || {
            let device = bench.device();
            let (a, b) = (device.attach()?.context, device.attach()?.context);
            let (node, address) = a_node(device)?;
            let mut gone = Some(node);
            let mut delta = Delta::new()?;
            let mut intent = bench.intent();
            delta.add(0x680 / 4, 0, 0x1000);
            delta.add(0x1610 / 4, 0, address);
            delta.add(
                0x2400 / 4,
                0,
                system::awake(|| bench.control.read(gpu_control::FE_ADDRESS))?,
            );
            delta.add(0x2440 / 4, 0, bench.own.address + 0x7fff);
            intent.values.insert(0x2440 / 4, bench.own.address + 0x7fff);
            intent.values.insert(0x1610 / 4, address);
            // Given once more behind the second time: a delta that changes nothing.
            let mut again = Delta::new()?;
            again.add(0x1610 / 4, 0, address);
            for round in 0..14 {
                match round {
                    2 | 6 | 10 => {
                        device.free(gone.take().context("the node")?)?;
                        intent.values.insert(0x1610 / 4, 0);
                    }
                    4 | 8 | 12 => {
                        gone = Some(at_address(device, address)?);
                        intent.values.insert(0x1610 / 4, address);
                    }
                    _ => {}
                }
                let given = match round {
                    0 => delta.address(),
                    8 => again.address(),
                    _ => 0,
                };
                same("a", bench.commit_nop(a, given)?, Status::OK)?;
                if round > 0 {
                    bench.compare(&format!("round {round}"), &intent)?;
                }
                same("b", bench.commit_nop(b, 0)?, Status::OK)?;
            }
            device.free(gone.context("the node")?)?;
            device.detach(a)?;
            Ok(device.detach(b)?)
        },
    );
    suite.test(
        "deltas that lie, fault, or are gone when they are read",
        move || {
            let device = bench.device();
            let other = device.attach()?.context;
            let file = system::memory_file(DELTA_BYTES as u64)?;
            let cut = Region::map(file.try_clone()?, DELTA_BYTES, 0)?;
            let cut = Memory::new(cut);
            cut.write(RECORD_ARRAY, cut.address() as u32 + 64);
            cut.write(RECORD_COUNT, 100);
            type Change = fn(&mut Delta);
            let cases: [(&str, Change); 8] = [
                ("records at 16", |delta| {
                    delta.memory.write(RECORD_ARRAY, 16)
                }),
                ("records in the kernel", |delta| {
                    delta.memory.write(RECORD_ARRAY, 0xc000_8000)
                }),
                ("records above 4 GiB", |delta| {
                    delta.memory.write(RECORD_ARRAY + 4, 1)
                }),
                ("records that wrap", |delta| {
                    delta.memory.write(RECORD_ARRAY, 0xffff_fff0);
                    delta.memory.write(RECORD_COUNT, 0x1000);
                }),
                ("as many records as there are numbers", |delta| {
                    delta.memory.write(RECORD_COUNT, u32::MAX)
                }),
                ("states that are not kept", |delta| {
                    for address in [0, 0x580, 0xe00, 0xe01, 0xe04, 0xffff, 0x1_0000, u32::MAX] {
                        delta.add(address, 0, u32::MAX);
                    }
                }),
                ("a million vertex elements", |delta| {
                    delta.memory.write(ELEMENTS, 1_000_000)
                }),
                ("references that are gone", |delta| {
                    delta.add(0xa14 / 4, 0, 1);
                    delta.memory.write(REFERENCES, 0);
                }),
            ];
            for (what, change) in cases {
                let context = device.attach()?.context;
                let mut delta = Delta::new()?;
                same(
                    what,
                    bench.commit_nop(context, delta.address())?,
                    Status::OK,
                )?;
                change(&mut delta);
                for _ in 0..3 {
                    same(what, bench.commit_nop(other, 0)?, Status::OK)?;
                    same(what, bench.commit_nop(context, 0)?, Status::OK)?;
                    // There may be anything behind the true ones.
                    if delta.memory.read(RECORD_COUNT) != u32::MAX {
                        bench.compare(what, &bench.intent())?;
                    }
                }
                device.detach(context)?;
            }
            let context = device.attach()?.context;
            for address in [8, 0x1000, 0xc000_8000, 0xffff_fff8, u64::MAX - 7] {
                let what = format!("a delta at {address:#x}");
                same(&what, bench.commit_nop(context, address)?, Status::OK)?;
                same(&what, bench.commit_nop(other, address)?, Status::OK)?;
            }
            same("cut", bench.commit_nop(context, cut.address())?, Status::OK)?;
            same("references", cut.read(REFERENCES), 2)?;
            file.set_len(0)?;
            for _ in 0..3 {
                same("cut", bench.commit_nop(other, 0)?, Status::OK)?;
                same("cut", bench.commit_nop(context, 0)?, Status::OK)?;
            }
            bench.compare("after all", &bench.intent())?;
            device.detach(other)?;
            Ok(device.detach(context)?)
        },
    );
    suite.test("a delta that changes while it is read", move || {
        let device = bench.device();
        let (a, b) = (device.attach()?.context, device.attach()?.context);
        let delta = Delta::new()?;
        let (memory, stop) = (&delta.memory, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random::new(3);
                while !stop.load(SeqCst) {
                    let at = random.below(DELTA_BYTES as u32 / 4) as usize * 4;
                    if !matches!(at, REFERENCES | 16 | 20) {
                        memory.write(at, random.colour() & random.colour());
                    }
                }
            });
            let go = || -> Result<()> {
                for _ in 0..100 {
                    memory.write(REFERENCES, 0);
                    same("a", bench.commit_nop(a, delta.address())?, Status::OK)?;
                    same("b", bench.commit_nop(b, 0)?, Status::OK)?;
                }
                Ok(())
            };
            let result = go();
            stop.store(true, SeqCst);
            result
        })?;
        device.stall()?;
        same("violations", bench.control.violations(), 0)?;
        device.detach(a)?;
        Ok(device.detach(b)?)
    });
    suite.test("256 contexts and no more", move || {
        let device = bench.device();
        let mut contexts = Vec::new();
        let error = loop {
            match device.attach() {
                Ok(attached) => contexts.push(attached.context),
                Err(error) => break error,
            }
            ensure!(contexts.len() <= 256, "there is no limit");
        };
        let count = contexts.len();
        for context in contexts {
            device.detach(context)?;
        }
        // The client has one.
        same("contexts", count, 255)?;
        same("status", error.status(), Some(Status::OUT_OF_RESOURCES))?;
        Ok(())
    });
}

/// Contexts of one of many processes, each with a surface of its own. States of the resolve engine are loaded once, then
/// only what changes: the rest must come from the context.
fn paint(contexts: usize, commits: u32, seed: u32) -> Result<()> {
    const WIDTH: u32 = 64;
    const HEIGHT: u32 = 32;
    let client = Client::start()?;
    let device = client.device();
    let engine = Engine::Resolve {
        pipes: client.identity().pixel_pipes.max(1),
    };
    let buffer = device.allocate_contiguous(0x8000)?;
    let mut random = Random::new(seed);
    let mut all: Vec<(Blob, Surface, Vec<u32>, u32, u32)> = Vec::new();
    for number in 0..contexts as u32 {
        let surface = client.create_surface(WIDTH, HEIGHT)?;
        let colour = seed << 16 | number << 8 | 1;
        all.push((Blob::new(device)?, surface, vec![0; 16], colour, 0));
    }
    let Engine::Resolve { pipes } = engine else {
        return Ok(());
    };
    for _ in 0..commits {
        let at = random.below(contexts as u32) as usize;
        let (blob, surface, cells, colour, done) = &mut all[at];
        let cell = random.below(16);
        let rect = Rect::new(cell % 4 * 16, cell / 4 * 8, 16, 8);
        let mut stream = Stream::new();
        if *done == 0 {
            engine.fill(&mut stream, surface, rect, *colour);
        } else {
            let dest = surface.location.address + rect.y * surface.stride + rect.x * 4;
            match pipes {
                1 => stream.state(state::RS_DEST_ADDR, dest),
                _ => stream.states(state::RS_PIPE_DEST_ADDR, &vec![dest; pipes as usize]),
            };
            if random.below(2) == 0 {
                *colour += 1;
                stream.states(state::RS_FILL_VALUE, &[*colour; 4]);
            }
            stream.state(state::RS_KICKER, state::RS_KICK);
        }
        *done += 1;
        cells[cell as usize] = *colour;
        let delta = blob.fresh()?;
        for (byte, value) in loads(&stream) {
            blob.deltas[delta].add(byte / 4, 0, value);
        }
        blob.commit(device, &buffer, Pipe::Pipe3d, &stream, delta)?;
    }
    client.finish()?;
    for (number, (_, surface, cells, ..)) in all.iter().enumerate() {
        expect_pixels(surface, |x, y| cells[(y / 8 * 4 + x / 16) as usize])
            .with_context(|| format!("context {number}"))?;
    }
    device.free_contiguous(&buffer)?;
    Ok(())
}

fn main() -> ExitCode {
    let options = match Options::parse(&["count", "commits", "child", "off", "newer"]) {
        Ok(options) => options,
        Err(error) => {
            println!("# {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(seed) = options.get("child") {
        let go = || paint(4, options.number("commits", 100)?, seed.parse()?);
        return harness::exit(go());
    }
    harness::program(|| {
        let count = options.number("count", 100)?;
        let commits = options.number("commits", 800)?;
        let used = at_rest(ProcGc::used_now)?;
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        let shared = &bench;
        if options.get("off").is_some() {
            for contexts in [2, 7] {
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
        // Its states are looked at.
        system::stay_awake()?;
        if options.get("newer").is_some() {
            for name in ["5.0.11.p8", "6.2.4.p2", "6.4.11"] {
                suite.test(
                    format!("{name}: states of newer clients are kept"),
                    move || newer_states(shared, name),
                );
            }
            return suite.run();
        }
        plain_tests(&mut suite, &bench);
        hostile_tests(&mut suite, &bench);
        suite.test("state proof: 2 contexts", move || {
            proof(shared, 2, count, false)
        });
        suite.test("state proof: 7 contexts", move || {
            proof(shared, 7, count, false)
        });
        suite.test("5.0.11: states of newer clients are kept", move || {
            newer_states(shared, "5.0.11.p8")
        });
        for (name, deltas) in [("6.2.4.p2", 1), ("6.4.11", 1), ("6.4.11", 2)] {
            suite.test(
                format!("state proof: {name}, {deltas} delta(s) that collect"),
                move || collected(shared, name, deltas, count),
            );
        }
        suite.test("64 contexts in 16 processes, some killed", move || {
            many(commits)
        });
        suite.test("no violation", move || {
            same("violations", shared.control.violations(), 0)
        });
        let result = suite.run();
        bench.dump.free(bench.device())?;
        for buffer in [&bench.buffer, &bench.own] {
            bench.device().free_contiguous(buffer)?;
        }
        drop(bench);
        harness::settles("KiB used", used, ProcGc::used_now)?;
        result
    })
}
