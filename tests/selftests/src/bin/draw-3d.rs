// SPDX-License-Identifier: GPL-2.0-only
//! Pictures of the 3D core: triangles with depth, drawn with shaders that the test assembles, and compared pixel by
//! pixel with a software rendering. Two alternating contexts, each with its own shaders, constants and states, whose
//! pictures must not mix.
//!
//! Flat colours, and depths that are constant over a triangle, must match exactly. A shaded cube may differ by one in
//! 255.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::command_memory;
use galcore_client::client::place;
use galcore_client::client::CommandMemory;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::profile;
use galcore_client::profile::Counters;
use galcore_client::state;
use galcore_client::stream::point;
use galcore_client::stream::Pipe;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::deltas::Blob;
use galcore_selftests::deltas::Collector;
use galcore_selftests::deltas::Delta;
use galcore_selftests::deltas::ELEMENTS;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::unlock;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::Board;
use gpu_isa::assemble;

/// Width and height of a picture in pixels: a supertile, or two of half its height.
const SIDE: u32 = 64;
const HEIGHT: u32 = 128;
const BYTES: u32 = SIDE * HEIGHT * 4;
const HALF: u32 = BYTES / 2;
/// The clear colour of pictures.
const BLANK: u32 = 0xff10_2030;
/// The generation whose contexts have the states of GC3000.
const NEWER: &str = "6.2.4.p2";

/// States that the front end converts from 16.16.
const FIXED: [u32; 8] = [
    0x0a00, 0x0a04, 0x0a0c, 0x0a10, 0x0c00, 0x0c04, 0x0c08, 0x0c0c,
];

/// A locked node of video memory.
struct Area {
    node: Node,
    address: u32,
    memory: Memory,
}

/// A context with its deltas, with or without reference counts.
enum Contexts {
    Counted(Blob),
    Collected(Collector),
}

impl Contexts {
    fn new(device: &Device, board: Board) -> Result<Self> {
        Ok(match board {
            Board::Gc3000 => Self::Collected(Collector::new(device, 1)?),
            _ => Self::Counted(Blob::new(device)?),
        })
    }

    fn handle(&self) -> u32 {
        match self {
            Self::Counted(blob) => blob.handle,
            Self::Collected(collector) => collector.handle,
        }
    }

    fn commit(
        &mut self,
        device: &Device,
        buffer: &Buffer,
        stream: &Stream,
        changes: &Delta,
    ) -> Result<()> {
        match self {
            Self::Collected(collector) => {
                collector.commit(device, buffer, Pipe::Pipe3d, stream, changes)?;
            }
            Self::Counted(blob) => {
                let delta = blob.fresh()?;
                blob.deltas[delta].fold(changes);
                blob.commit(device, buffer, Pipe::Pipe3d, stream, delta)?;
            }
        }
        Ok(())
    }
}

/// A client with a target, depth, vertices, and a linear copy of the target.
struct Painter<'a> {
    bench: &'a Bench,
    context: Contexts,
    colour: Area,
    depth: Area,
    vertices: Area,
    picture: Area,
    /// The current values of the states.
    states: BTreeMap<u32, u32>,
    elements: u32,
}

struct Bench {
    device: Device,
    board: Board,
    control: Control,
    pool: Memory,
    buffer: Buffer,
    memory: CommandMemory,
}

impl Bench {
    fn new() -> Result<Self> {
        let control = Control::open()?;
        let board = control.board().context("an unknown board")?;
        let device = match board {
            Board::Gc3000 => Device::open_as(Abi::named(NEWER).context("a generation")?, true)?,
            _ => Device::open()?,
        };
        let pool = device.map_pool()?;
        let (buffer, memory) = command_memory(&device, &pool, 0x8000)?;
        Ok(Self {
            device,
            board,
            control,
            pool,
            buffer,
            memory,
        })
    }

    fn area(&self, bytes: u32, kind: u32) -> Result<Area> {
        let node = self.device.allocate(bytes, 64, kind, Pool::DEFAULT)?;
        let location = self.device.lock(node)?;
        Ok(Area {
            node,
            address: location.address,
            memory: self.device.memory(node, location, &self.pool)?,
        })
    }

    fn is_newer(&self) -> bool {
        self.board == Board::Gc3000
    }
}

/// The states of a shader stage: its constants, its code, and the length of the code.
struct Stage {
    constants: u32,
    code: u32,
    range: u32,
    first: u32,
}

impl Stage {
    fn of(board: Board, is_pixel: bool) -> Self {
        let (constants, code, range, first) = match (board, is_pixel) {
            (Board::Dove, false) => (0x5000, 0x4000, 0x0800, 0),
            (Board::Dove, true) => (0x7000, 0x6000, 0x1000, 0),
            (Board::Gc3000, false) => (0x3_0000, 0xc000, 0x085c, 0),
            (Board::Gc3000, true) => (0x3_0800, 0xd000, 0x101c, 0x100),
            (_, false) => (0x5000, 0xc000, 0x085c, 0),
            (_, true) => (0x7000, 0xd000, 0x101c, 0x100),
        };
        Self {
            constants,
            code,
            range,
            first,
        }
    }
}

impl<'a> Painter<'a> {
    fn new(bench: &'a Bench) -> Result<Self> {
        let mut painter = Self {
            bench,
            context: Contexts::new(&bench.device, bench.board)?,
            colour: bench.area(BYTES, surface::RENDER_TARGET)?,
            depth: bench.area(BYTES, surface::DEPTH)?,
            vertices: bench.area(0x1_0000, surface::VERTEX)?,
            picture: bench.area(BYTES, surface::BITMAP)?,
            states: BTreeMap::new(),
            elements: 2,
        };
        painter.set_up();
        Ok(painter)
    }

    fn set(&mut self, state: u32, value: u32) {
        self.states.insert(state, value);
    }

    fn float(&mut self, state: u32, value: f32) {
        if FIXED.contains(&state) {
            self.set(state, (value * 65536.0) as i32 as u32)
        } else {
            self.set(state, value.to_bits())
        }
    }

    fn code(&mut self, text: &str, is_pixel: bool) -> Result<()> {
        let stage = Stage::of(self.bench.board, is_pixel);
        let code = assemble(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        let count = code.len() as u32 / 4;
        let range = match self.bench.board {
            Board::Dove => count,
            _ => (stage.first + count - 1) << 16 | stage.first,
        };
        self.set(stage.range, range);
        for (at, word) in (stage.code..).step_by(4).zip(code) {
            self.set(at, word);
        }
        Ok(())
    }

    fn constant(&mut self, is_pixel: bool, number: u32, value: [f32; 4]) {
        let first = Stage::of(self.bench.board, is_pixel).constants + 16 * number;
        for (at, value) in (first..).step_by(4).zip(value) {
            self.set(at, value.to_bits());
        }
    }

    /// Enables the depth test and all components, with one varying, and vertices of position and colour (4 floats
    /// each).
    fn set_up(&mut self) {
        let (board, colour, depth) = (self.bench.board, self.colour.address, self.depth.address);
        let super_tiled = u32::from(board != Board::Dove);
        let split = if board == Board::Gc2000 { HALF } else { 0 };
        self.set(0x0600, 16 << 24 | 8);
        self.set(0x0604, 32 << 24 | 16 << 16 | 1 << 7 | 8);
        let vertices = self.vertices.address;
        let streams: &[(u32, u32)] = match board {
            Board::Dove => &[(0x064c, vertices), (0x0650, 32)],
            Board::Gc3000 => &[(0x1_4600, vertices), (0x1_4640, 32)],
            _ => &[(0x0680, vertices), (0x06a0, 32)],
        };
        let surfaces: &[(u32, u32)] = match board {
            Board::Dove | Board::Gc880 => &[(0x1430, colour), (0x1410, depth)],
            _ => &[
                (0x1460, colour),
                (0x1464, colour + split),
                (0x1480, depth),
                (0x1484, depth + split),
            ],
        };
        self.states.extend(streams.iter().chain(surfaces).copied());
        for (state, value) in [
            (0x0804, 2),
            (0x0808, 2),
            (0x080c, 4),
            (0x0810, 0x0100),
            (0x0820, 0x0100),
            (0x0a28, 0x11),
            (0x0a34, 2 << 12 | 1 << 16),
            (0x0838, 0),
            (0x1018, 0),
            (0x1004, 1),
            (0x1008, 2),
            (0x100c, 4),
            (0x3820, 4),
            (0x1400, 1 | 1 << 4 | 1 << 8 | 1 << 12 | super_tiled << 26),
            (0x1414, SIDE * 4),
            (0x1418, 0),
            (0x141c, 0),
            (0x1420, 0),
            (0x1428, 0),
            (0x142c, 6 | 0xf << 8 | super_tiled << 20),
            (0x1434, SIDE * 4),
            (
                0x14a4,
                if self.bench.is_newer() {
                    0xe_420c
                } else {
                    0xe_400c
                },
            ),
        ] {
            self.set(state, value);
        }
        if self.bench.is_newer() {
            self.set(0x0864, 0);
            self.set(0x1024, 0x80);
        }
        for (state, value) in [
            (0x0a00, SIDE as f32 / 2.0),
            (0x0a04, HEIGHT as f32 / 2.0),
            (0x0a08, 1.0),
            (0x0a0c, SIDE as f32 / 2.0),
            (0x0a10, HEIGHT as f32 / 2.0),
            (0x0a14, 0.0),
            (0x0c00, 0.0),
            (0x0c04, 0.0),
            (0x0c08, SIDE as f32 + 0.0625),
            (0x0c0c, HEIGHT as f32 + 0.0625),
        ] {
            self.float(state, value);
        }
    }

    /// The difference from `before`, as loads and as a delta.
    fn changes(&self, before: &BTreeMap<u32, u32>) -> Result<(Stream, Delta)> {
        let (mut stream, mut delta) = (Stream::new(), Delta::new()?);
        // If one element changes, load all: a load of the first resets the others.
        let elements = 0x600..0x600 + 4 * self.elements;
        let is_same = |state: &u32| before.get(state) == self.states.get(state);
        let all_elements = !elements.clone().step_by(4).all(|state| is_same(&state));
        for (&state, &value) in &self.states {
            let wanted = if elements.contains(&state) {
                all_elements
            } else {
                !is_same(&state)
            };
            if !wanted {
                continue;
            }
            let fixed = if FIXED.contains(&state) { 1 << 26 } else { 0 };
            stream.raw(&[0x0801_0000 | fixed | state / 4, value]);
            delta.add(state / 4, 0, value);
        }
        if all_elements {
            delta.memory.write(ELEMENTS, self.elements);
        }
        Ok((stream, delta))
    }

    /// Writes vertices, starting with number `first`.
    fn put(&self, first: usize, list: &[([f32; 4], [f32; 4])]) {
        let floats = list
            .iter()
            .flat_map(|(place, colour)| place.iter().chain(colour));
        for (at, value) in floats.enumerate() {
            self.vertices
                .memory
                .write(32 * first + 4 * at, value.to_bits());
        }
    }

    fn clear(&self) {
        self.colour.memory.fill(BLANK);
        // The farthest depth.
        self.depth.memory.fill(u32::MAX << 8);
        self.picture.memory.fill(0);
    }

    /// Commits the difference from `before`, then `draws`.
    fn commit(&mut self, before: &BTreeMap<u32, u32>, draws: &Stream) -> Result<()> {
        let (mut stream, delta) = self.changes(before)?;
        stream.append(draws).flush(Pipe::Pipe3d);
        let bench = self.bench;
        bench.device.stall()?;
        self.context
            .commit(&bench.device, &bench.buffer, &stream, &delta)
    }

    /// Resolves the target into rows, and compares each channel with a tolerance.
    fn expect(&mut self, what: &str, wanted: &[u32], tolerance: u32) -> Result<()> {
        let (stream, delta) = self.resolve()?;
        let bench = self.bench;
        bench.device.stall()?;
        self.context
            .commit(&bench.device, &bench.buffer, &stream, &delta)?;
        bench.device.stall()?;
        let mut wrong = 0;
        let mut first = None;
        for (at, wanted) in wanted.iter().enumerate() {
            let found = self.picture.memory.read(4 * at);
            let is_near = (0..4).all(|byte| {
                let channel = |word: u32| word >> (8 * byte) & 0xff;
                channel(found).abs_diff(channel(*wanted)) <= tolerance
            });
            if !is_near {
                wrong += 1;
                first.get_or_insert((at, found, *wanted));
            }
        }
        if let Some((at, found, wanted)) = first {
            let (x, y) = (at % SIDE as usize, at / SIDE as usize);
            bail!("{what}: {wrong} pixels wrong: {x},{y} is {found:#x}, not {wanted:#x}");
        }
        Ok(())
    }

    /// A stream that resolves the target into rows.
    fn resolve(&mut self) -> Result<(Stream, Delta)> {
        let before = self.states.clone();
        let board = self.bench.board;
        let split = u32::from(board == Board::Gc2000);
        let super_tiled = u32::from(board != Board::Dove);
        let (from, to) = (self.colour.address, self.picture.address);
        let half = HALF * split;
        let pipes = !matches!(board, Board::Dove | Board::Gc880);
        // Each of two pipes resolves half of the rows. If both share one buffer, the first pipe resolves all.
        let rows = if split != 0 { HEIGHT / 2 } else { HEIGHT };
        for (state, value) in [
            (state::RS_CONFIG, 6 | 6 << 8 | 1 << 7),
            (
                state::RS_SOURCE_STRIDE,
                SIDE * 16 | super_tiled << 31 | split << 30,
            ),
            (state::RS_DEST_STRIDE, SIDE * 4),
            (state::RS_WINDOW_SIZE, point(SIDE, rows)),
            (state::RS_DITHER, u32::MAX),
            (state::RS_DITHER + 4, u32::MAX),
            (state::RS_CLEAR_CONTROL, 0),
            (state::RS_EXTRA_CONFIG, 0),
        ] {
            self.set(state, value);
        }
        if pipes {
            for (state, value) in [
                (state::RS_PIPE_SOURCE_ADDR, from),
                (state::RS_PIPE_SOURCE_ADDR + 4, from + half),
                (state::RS_PIPE_DEST_ADDR, to),
                (state::RS_PIPE_DEST_ADDR + 4, to),
                (state::RS_PIPE_OFFSET, 0),
                (state::RS_PIPE_OFFSET + 4, point(0, rows * split)),
            ] {
                self.set(state, value);
            }
        } else {
            self.set(state::RS_SOURCE_ADDR, from);
            self.set(state::RS_DEST_ADDR, to);
        }
        let (loads, delta) = self.changes(&before)?;
        let mut stream = Stream::new();
        stream.flush(Pipe::Pipe3d).stall().append(&loads);
        if self.bench.is_newer() {
            stream.state(0x16b8, 1);
        }
        stream
            .state(state::RS_KICKER, state::RS_KICK)
            .flush(Pipe::Pipe3d);
        Ok((stream, delta))
    }

    fn end(self) -> Result<()> {
        let device = &self.bench.device;
        device.stall()?;
        device.detach(self.context.handle())?;
        for area in [self.colour, self.depth, self.vertices, self.picture] {
            unlock(device, area.node)?;
            device.free(area.node)?;
        }
        Ok(())
    }
}

/// DRAW_PRIMITIVES of triangles, starting at a vertex.
fn draw(first: u32, triangles: u32) -> Stream {
    let mut stream = Stream::new();
    stream.raw(&[0x2800_0000, 4, first, triangles]);
    stream
}

/// The components of an A8R8G8B8 word.
fn rgba(argb: u32) -> [f32; 4] {
    [16, 8, 0, 24].map(|shift| (argb >> shift & 0xff) as f32 / 255.0)
}

/// A triangle on the picture: corners in pixels, depth from 0 to 1, colour.
#[derive(Clone, Copy)]
struct Triangle {
    corners: [[f32; 2]; 3],
    depth: f32,
    colour: u32,
}

impl Triangle {
    fn random(random: &mut Random, colour: u32) -> Self {
        let coarse = random.below(2) == 0;
        let mut number = |most: u32| {
            if coarse {
                // Puts centres of pixels on the sides.
                random.below(most) as f32 + 0.5
            } else {
                random.below(16 * (most + 16)) as f32 / 16.0 - 8.0
            }
        };
        let corners = [(); 3].map(|()| [number(SIDE), number(HEIGHT)]);
        Self {
            corners,
            depth: (1 + random.below(1000)) as f32 / 1024.0,
            colour,
        }
    }

    /// The vertices for a core whose depth range is -1 to 1, or 0 to 1.
    fn vertices(&self, board: Board) -> [([f32; 4], [f32; 4]); 3] {
        let z = match board {
            Board::Dove => self.depth,
            _ => 2.0 * self.depth - 1.0,
        };
        self.corners.map(|[x, y]| {
            let place = [
                x / (SIDE as f32 / 2.0) - 1.0,
                y / (HEIGHT as f32 / 2.0) - 1.0,
                z,
                1.0,
            ];
            (place, rgba(self.colour))
        })
    }

    /// Whether a pixel's centre is inside. A centre on a side counts if the side is a left or a top one.
    fn covers(&self, x: u32, y: u32) -> bool {
        let corners = self
            .corners
            .map(|at| at.map(|at| (at * 16.0).round() as i64));
        let (px, py) = (i64::from(16 * x + 8), i64::from(16 * y + 8));
        let side = |[ax, ay]: [i64; 2], [bx, by]: [i64; 2], x: i64, y: i64| {
            (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        };
        (0..3).all(|number| {
            let [a, b, c] = [0, 1, 2].map(|more| corners[(number + more) % 3]);
            let inside = side(a, b, c[0], c[1]).signum();
            let here = side(a, b, px, py).signum();
            // The inside of a left side is to its right; that of a level top side is below it.
            let after = if a[1] == b[1] {
                side(a, b, px, py + 1).signum()
            } else {
                side(a, b, px + 1, py).signum()
            };
            inside != 0 && (here == inside || here == 0 && after == inside)
        })
    }

    /// Draws the pixels without a nearer triangle; returns their number.
    fn render(&self, picture: &mut [u32], depths: &mut [f32]) -> u32 {
        let mut drawn = 0;
        for (at, (pixel, nearest)) in (0..).zip(picture.iter_mut().zip(depths)) {
            if self.depth < *nearest && self.covers(at % SIDE, at / SIDE) {
                (*pixel, *nearest) = (self.colour, self.depth);
                drawn += 1;
            }
        }
        drawn
    }

    /// The orientation on the screen, with the first row at the top.
    fn is_clockwise(&self) -> bool {
        let [[ax, ay], [bx, by], [cx, cy]] = self.corners;
        (bx - ax) * (cy - ay) > (cx - ax) * (by - ay)
    }
}

/// The software rendering of triangles, and the number of drawn pixels.
fn painted(list: &[Triangle]) -> (Vec<u32>, u32) {
    let pixels = (SIDE * HEIGHT) as usize;
    let (mut picture, mut depths) = (vec![BLANK; pixels], vec![1.0; pixels]);
    let drawn = list.iter().map(|it| it.render(&mut picture, &mut depths));
    let drawn = drawn.sum();
    (picture, drawn)
}

fn rendered(list: &[Triangle]) -> Vec<u32> {
    painted(list).0
}

/// Flat triangles at random depths.
fn flat(bench: &Bench, count: u32) -> Result<()> {
    let mut painter = Painter::new(bench)?;
    painter.code("nop", false)?;
    painter.code("nop", true)?;
    let mut random = Random::new(83);
    let list: Vec<_> = (0..count)
        .map(|_| {
            let colour = random.colour();
            Triangle::random(&mut random, colour)
        })
        .collect();
    let vertices: Vec<_> = list
        .iter()
        .flat_map(|it| it.vertices(bench.board))
        .collect();
    painter.put(0, &vertices);
    painter.clear();
    let before = bench.control.counter(counter::VERTICES);
    painter.commit(&BTreeMap::new(), &draw(0, count))?;
    painter.expect("flat triangles", &rendered(&list), 0)?;
    let shaded = bench.control.counter(counter::VERTICES) - before;
    same("vertices", shaded, u64::from(3 * count))?;
    painter.end()
}

/// Placeholder addresses that a library leaves in a disabled sampler do not change the picture. In an enabled sampler
/// the driver refuses them.
fn placeholders(bench: &Bench) -> Result<()> {
    const PLACEHOLDER: u32 = 0x7fff_fff0;
    // The tile status of the fourth sampler, and the picture of the sixth.
    let samplers = [
        (0x172c, 0x174c),
        if bench.is_newer() {
            (0x1_0014, 0x1_0940)
        } else {
            (0x2014, 0x2414)
        },
    ];
    let mut painter = Painter::new(bench)?;
    painter.code("nop", false)?;
    painter.code("nop", true)?;
    let mut random = Random::new(41);
    let list = [0xff12_3456, 0xff65_4321].map(|colour| Triangle::random(&mut random, colour));
    let vertices = list.map(|it| it.vertices(bench.board)).concat();
    painter.put(0, &vertices);
    painter.clear();
    for (config, address) in samplers {
        painter.set(config, 0);
        painter.set(address, PLACEHOLDER);
    }
    painter.commit(&BTreeMap::new(), &draw(0, 2))?;
    painter.expect("beside placeholders", &rendered(&list), 0)?;
    for (config, address) in samplers {
        let mut stream = Stream::new();
        let on = stream.state(config, 1).state(address, PLACEHOLDER);
        on.append(&draw(0, 2));
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
        let draws = bench.control.counters().draws();
        let status = bench.device.send_commit(&record, 0, &mut Queue::new())?;
        let what = format!("a sampler that is on, state {address:#x}");
        same(&what, status, Status::INVALID_DATA)?;
        bench.device.stall()?;
        same(&what, bench.control.counters().draws(), draws)?;
    }
    painter.end()
}

/// The profiler's counts of a draw match those of the software rendering, in several generations. All counts differ, so
/// that the test detects swapped counters.
fn counted(bench: &Bench) -> Result<()> {
    const GENERATIONS: [&str; 5] = ["dove", "v4", "5.0.11.p8", "6.2.4.p2", "6.4.11"];
    const COUNT: u32 = 100;
    // The sampler's states: configuration, size, levels, further settings, address.
    let sampler = if bench.is_newer() {
        [0x1_0000, 0x1_0080, 0x1_0180, 0x1_0380, 0x1_0800]
    } else {
        [0x2000, 0x2040, 0x20c0, 0x21c0, 0x2400]
    };
    let mut painter = Painter::new(bench)?;
    painter.code("nop\nnop\nnop", false)?;
    painter.code("texld t1, tex0, t1\nnop", true)?;
    let alignment = u32::from(bench.board != Board::Dove);
    for (state, value) in sampler.into_iter().zip([
        2 | 2 << 3 | 2 << 5 | 1 << 7 | 1 << 11 | 7 << 13,
        16 << 16 | 16,
        0,
        0x0032_1000 | alignment << 26,
        painter.picture.address,
    ]) {
        painter.set(state, value);
    }
    // Clockwise triangles are culled.
    painter.set(0x0a34, 2 << 12 | 1 << 16 | 1 << 8);
    let mut random = Random::new(61);
    let list: Vec<_> = (0..COUNT)
        .map(|_| Triangle::random(&mut random, 0))
        .collect();
    let vertices: Vec<_> = list
        .iter()
        .flat_map(|it| it.vertices(bench.board))
        .collect();
    painter.put(0, &vertices);
    let seen: Vec<_> = list
        .iter()
        .filter(|it| !it.is_clockwise())
        .copied()
        .collect();
    let (culled, pixels) = (COUNT - seen.len() as u32, painted(&seen).1);
    for name in GENERATIONS {
        let device = Device::open_as(Abi::named(name).context(name)?, true)?;
        let read = || -> Result<Vec<Counters>> {
            let commands = profile::commands(device.abi()).into_iter();
            let answers = commands.map(|command| {
                let (status, counters) = profile::read(&device, command)?;
                same(command, status, Status::OK)?;
                Ok(counters)
            });
            answers.collect()
        };
        read()?;
        painter.clear();
        let quads = bench.control.counter(counter::QUADS);
        painter.commit(&BTreeMap::new(), &draw(0, COUNT))?;
        bench.device.stall()?;
        let quads = (bench.control.counter(counter::QUADS) - quads) as u32;
        ensure!(4 * quads > pixels, "{quads} squares, {pixels} pixels");
        let all = read()?;
        let mut found = 0;
        for (names, wanted) in [
            (&["vs_inst_counter"][..], 3 * 3 * COUNT),
            (
                &["rendered_vertice_counter", "vs_rendered_vertice_counter"],
                3 * COUNT,
            ),
            (&["ps_inst_counter"], 2 * 4 * quads),
            (
                &["rendered_pixel_counter", "ps_rendered_pixel_counter"],
                4 * quads,
            ),
            (&["pa_input_vtx_counter"], 3 * COUNT),
            (&["pa_input_prim_counter"], COUNT),
            (&["pa_output_prim_counter"], COUNT - culled),
            (&["pa_culled_counter", "pa_culled_prim_counter"], culled),
            (&["se_culled_triangle_count"], culled),
            (
                &["ra_valid_pixel_count", "ra_valid_pixel_count_to_render"],
                pixels,
            ),
            (&["ra_total_quad_count"], quads),
            (
                &["ra_total_primitive_count", "ra_input_prim_count"],
                COUNT - culled,
            ),
            (&["tx_total_texture_requests"], 4 * quads),
        ] {
            if let Some(told) = profile::sum(&all, names) {
                same(&format!("{name}: {names:?}"), told, wanted)?;
                found += 1;
            }
        }
        ensure!(found >= 12, "{name}: {found} of these counters");
        let names =
            ["pe", "pe0", "pe1"].map(|pipe| format!("{pipe}_pixel_count_drawn_by_color_pipe"));
        let told = profile::sum(&all, &names.each_ref().map(String::as_str)).context(name)?;
        // The driver may also have cleared scratch memory: a page for each of two pixel pipes.
        let more = told.checked_sub(pixels);
        ensure!(
            matches!(more, Some(0 | 1024 | 2048)),
            "{name}: {told} pixels, not {pixels}"
        );
    }
    painter.end()
}

/// The faces of a cube: the normal, and two directions in the plane.
const FACES: [[[f32; 3]; 3]; 6] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
];

/// A cube that the vertex shader rotates and the pixel shader lights. Only the depth test selects the visible faces.
fn cube(bench: &Bench) -> Result<()> {
    const LIGHT: [f32; 3] = [0.36, -0.48, -0.8];
    let mut painter = Painter::new(bench)?;
    // Rotates position and normal by the rows of a matrix; the second output is the normal.
    painter.code(
        "dp3 t2.x___, t0, u0\n\
         dp3 t2._y__, t0, u1\n\
         dp3 t2.__z_, t0, u2\n\
         dp3 t3.x___, t1, u0\n\
         dp3 t3._y__, t1, u1\n\
         dp3 t3.__z_, t1, u2\n\
         mul t0.xyz_, t2, u3\n\
         add t0.__z_, t0, u3.wwww\n\
         mov t1.xyz_, t3",
        false,
    )?;
    // Light and colours in the constants from 0 on.
    painter.code(
        "dp3 t2.x___, t1, u0\n\
         select.lt t2.x___, t2, u1, t2\n\
         mov t3, u2\n\
         mad t1, t2.xxxx, t3, u3",
        true,
    )?;
    let (sine, cosine) = (0.6f32, 0.8f32);
    let rows = [
        [cosine, 0.0, sine],
        [sine * sine, cosine, -sine * cosine],
        [-sine * cosine, sine, cosine * cosine],
    ];
    let near = if bench.board == Board::Dove { 0.5 } else { 0.0 };
    let depth = if bench.board == Board::Dove {
        0.25
    } else {
        0.5
    };
    for (number, [x, y, z]) in (0..).zip(rows) {
        painter.constant(false, number, [x, y, z, 0.0]);
    }
    painter.constant(false, 3, [0.5, 0.5, depth, near]);
    painter.constant(true, 0, [LIGHT[0], LIGHT[1], LIGHT[2], 0.0]);
    painter.constant(true, 1, [0.0; 4]);
    painter.constant(true, 2, [0.75, 0.5, 0.25, 0.0]);
    painter.constant(true, 3, [0.125, 0.125, 0.25, 1.0]);
    let mut vertices = Vec::new();
    let mut faces = Vec::new();
    for [normal, along, up] in FACES {
        let corner =
            |a: f32, b: f32| std::array::from_fn(|at| normal[at] + a * along[at] + b * up[at]);
        let corners: [[f32; 3]; 4] = [
            corner(-1.0, -1.0),
            corner(1.0, -1.0),
            corner(1.0, 1.0),
            corner(-1.0, 1.0),
        ];
        for at in [0, 1, 2, 0, 2, 3] {
            let [x, y, z] = corners[at];
            vertices.push(([x, y, z, 1.0], [normal[0], normal[1], normal[2], 0.0]));
        }
        let turned = |of: [f32; 3]| rows.map(|row| (0..3).map(|at| row[at] * of[at]).sum::<f32>());
        let lit = turned(normal);
        let light = (0..3).map(|at| lit[at] * LIGHT[at]).sum::<f32>().max(0.0);
        let channel = |scale: f32, least: f32| ((light * scale + least) * 255.0 + 0.5) as u32;
        let colour = 0xff00_0000
            | channel(0.75, 0.125) << 16
            | channel(0.5, 0.125) << 8
            | channel(0.25, 0.25);
        // Visible faces point towards the eye, which is at a smaller z than the whole cube.
        let is_seen = lit[2] < -1e-3;
        for half in [[0, 1, 2], [0, 2, 3]] {
            let corners = half.map(|at| {
                let [x, y, _] = turned(corners[at]);
                [
                    (x * 0.5 + 1.0) * (SIDE as f32 / 2.0),
                    (y * 0.5 + 1.0) * (HEIGHT as f32 / 2.0),
                ]
            });
            if is_seen {
                faces.push(Triangle {
                    corners,
                    depth: 0.5,
                    colour,
                });
            }
        }
    }
    painter.put(0, &vertices);
    painter.clear();
    painter.commit(&BTreeMap::new(), &draw(0, vertices.len() as u32 / 3))?;
    ensure!(faces.len() >= 4, "only {} triangles are seen", faces.len());
    painter.expect("a cube", &rendered(&faces), 1)?;
    painter.end()
}

/// Two alternating contexts, each with a triangle per turn. All states come from the context, except those that change.
fn turns(bench: &Bench, switches: u32) -> Result<()> {
    /// The largest number of triangles of a picture.
    const MOST: usize = 24;
    let mut painters = [Painter::new(bench)?, Painter::new(bench)?];
    // The first takes its colour from the vertex, the second from a constant. The second one's vertex shader uses its
    // constants 1 and 0, which leave the vertices in place; constants of another context would move them.
    painters[0].code("nop", false)?;
    painters[0].code("nop", true)?;
    painters[1].code("mov t2, u0\nmad t0, t0, t2, u1", false)?;
    painters[1].code("mov t1, u0", true)?;
    painters[1].constant(false, 0, [1.0; 4]);
    painters[1].constant(false, 1, [0.0; 4]);
    let mut lists: [Vec<Triangle>; 2] = [Vec::new(), Vec::new()];
    let mut loaded = [BTreeMap::new(), BTreeMap::new()];
    let mut random = Random::new(switches);
    painters.iter().for_each(Painter::clear);
    for turn in 0..switches {
        let which = random.below(2) as usize;
        let (painter, list) = (&mut painters[which], &mut lists[which]);
        if list.len() == MOST {
            painter.expect(&format!("context {which}, turn {turn}"), &rendered(list), 0)?;
            loaded[which].clone_from(&painter.states);
            painter.clear();
            list.clear();
        }
        let colour = random.colour();
        let triangle = Triangle::random(&mut random, colour);
        painter.put(3 * list.len(), &triangle.vertices(bench.board));
        if which == 1 {
            painter.constant(true, 0, rgba(colour));
        }
        let first = 3 * list.len() as u32;
        list.push(triangle);
        painter.commit(&loaded[which], &draw(first, 1))?;
        loaded[which].clone_from(&painter.states);
    }
    for (which, (mut painter, list)) in painters.into_iter().zip(lists).enumerate() {
        painter.expect(&format!("context {which}"), &rendered(&list), 0)?;
        painter.end()?;
    }
    Ok(())
}

/// Two threads use one context, and a third thread detaches it. All COMMITs return, and another context does not
/// change.
fn shared_context(bench: &Bench) -> Result<()> {
    let device = &bench.device;
    let context = device.attach()?.context;
    let run = |first: u32| -> Result<Vec<Status>> {
        let (buffer, memory) = command_memory(device, &bench.pool, 0x1000)?;
        let mut found = Vec::new();
        for turn in 0..60 {
            let mut stream = Stream::new();
            stream.raw(&[0x0801_0000 | 0x5000 / 4, first + turn]);
            stream.flush(Pipe::Pipe3d);
            let record = place(&buffer, 0, Pipe::Pipe3d, &stream);
            let delta = Delta::new()?;
            let (handle, at) = (context, delta.address());
            let status = device.send_commit_with_delta(&record, handle, at, &mut Queue::new())?;
            // Frees the memory of the delta, whatever still refers to it.
            drop(delta);
            found.push(status);
        }
        device.stall()?;
        memory.free(device, &buffer)?;
        Ok(found)
    };
    std::thread::scope(|scope| -> Result<()> {
        let threads = [0, 1000, 2000].map(|first| scope.spawn(move || run(first)));
        std::thread::sleep(Duration::from_millis(30));
        device.detach(context)?;
        for thread in threads {
            let found = thread.join().ok().context("a panic")??;
            ensure!(
                found.iter().all(|&status| status == Status::OK),
                "{found:?}"
            );
        }
        Ok(())
    })?;
    flat(bench, 20)
}

/// While a job runs, its target is unlocked and freed, and its context detached. The job must not draw on memory that
/// is allocated afterwards.
fn freed_meanwhile(bench: &Bench) -> Result<()> {
    let device = &bench.device;
    let mut painter = Painter::new(bench)?;
    painter.code("nop", false)?;
    painter.code("nop", true)?;
    let triangle = Triangle::random(&mut Random::new(5), 0xbad0_bad0);
    painter.put(0, &triangle.vertices(bench.board));
    painter.clear();
    let armed = bench.control.arm(fault::SLOW_DRAWS, 500_000);
    painter.commit(&BTreeMap::new(), &draw(0, 1))?;
    device.detach(painter.context.handle())?;
    for area in [
        &painter.colour,
        &painter.depth,
        &painter.vertices,
        &painter.picture,
    ] {
        unlock(device, area.node)?;
        device.free(area.node)?;
        // A second free must fail.
        ensure!(device.free(area.node).is_err(), "freed twice");
    }
    let mut others = Vec::new();
    for _ in 0..8 {
        let area = bench.area(BYTES, surface::RENDER_TARGET)?;
        area.memory.fill(0x0707_0707);
        others.push(area);
    }
    device.stall()?;
    drop(armed);
    for area in others {
        let other = area.memory.find_other_than(0x0707_0707);
        ensure!(other.is_none(), "drawn on: {other:x?}");
        unlock(device, area.node)?;
        device.free(area.node)?;
    }
    flat(bench, 20)
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["switches"])?;
        let switches = options.number("switches", 100)?;
        let used = at_rest(ProcGc::used_now)?;
        let bench = Bench::new()?;
        let shared = &bench;
        let mut suite = Suite::new();
        suite.test("flat triangles with depth", move || flat(shared, 200));
        suite.test("placeholders in samplers that are off", move || {
            placeholders(shared)
        });
        suite.test("a lit cube", move || cube(shared));
        // A core that goes off between a draw and the reading loses its counts.
        suite.test("what the profiler counts", move || {
            system::awake(|| counted(shared))?
        });
        suite.test("two contexts by turns", move || turns(shared, switches));
        suite.test("freed meanwhile", move || freed_meanwhile(shared));
        suite.test("a context of three threads", move || shared_context(shared));
        suite.test("no violation", move || {
            same("violations", shared.control.violations(), 0)
        });
        let result = suite.run();
        let Bench {
            device,
            buffer,
            memory,
            ..
        } = bench;
        memory.free(&device, &buffer)?;
        drop(device);
        harness::settles("KiB used", used, ProcGc::used_now)?;
        result
    })
}
