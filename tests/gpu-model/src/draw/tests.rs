// SPDX-License-Identifier: GPL-2.0-only
//! Draws on plain memory, compared with a simple renderer without blocks, planes and tiles.

use std::collections::BTreeMap;

use gpu_control::Board;
use gpu_isa::assemble;

use super::*;
use crate::engine2d::tests::FlatBus;
use crate::gpu::Random;
use crate::surface::Layout;
use crate::surface::Surface;

const VERTICES: u32 = 0x1000;
const MORE_VERTICES: u32 = 0x8000;
const INDICES: u32 = 0xc000;
const STATUS: u32 = 0xe000;
const DEPTH_STATUS: u32 = 0xf000;
const COLOUR: u32 = 0x1_0000;
const DEPTH: u32 = 0x8_0000;
/// Width and height of the target in pixels.
const SIDE: u32 = 64;
/// Distance between the halves of a split surface with 4 bytes per pixel.
const HALF: u32 = SIDE * SIDE * 2;

/// A surface: address of the first byte, layout, bytes per pixel.
#[derive(Clone, Copy, Debug)]
struct Shown {
    base: u32,
    bytes: u32,
    layout: Layout,
    is_split: bool,
}

struct Rig {
    board: Board,
    states: BTreeMap<u32, u32>,
    elements: u32,
    bus: FlatBus,
    colour: Shown,
    depth: Shown,
}

impl Rig {
    /// A core that draws into a target of 64 x 64 pixels of 32 bits. Its shaders pass position and one varying on. No
    /// depth test, all components.
    fn new(board: Board, layout: Layout) -> Self {
        let is_split = board == Board::Gc2000;
        let shown = |base| Shown {
            base,
            bytes: 4,
            layout,
            is_split,
        };
        let mut rig = Self {
            board,
            states: BTreeMap::new(),
            elements: 0,
            bus: FlatBus::new(),
            colour: shown(COLOUR),
            depth: shown(DEPTH),
        };
        rig.bus.bytes.fill(0);
        let super_tiled = u32::from(layout == Layout::Supertiled);
        let single = match (board, layout) {
            (Board::Gc3000, Layout::Linear) => 1 << 8,
            (Board::Gc3000, _) => 2 << 8,
            _ => 0,
        };
        let half = (SIDE / 2) as f32;
        let half = half.to_bits();
        rig.set_all(&[
            (VS_OUTPUT_COUNT, 2),
            (VS_TEMP_REGISTER_CONTROL, 4),
            (VS_OUTPUT, 0x0100),
            (VS_INPUT, 0x0302_0100),
            (PA_VIEWPORT_SCALE, half),
            (PA_VIEWPORT_SCALE + 4, half),
            (PA_VIEWPORT_SCALE + 8, 1f32.to_bits()),
            (PA_VIEWPORT_OFFSET, half),
            (PA_VIEWPORT_OFFSET + 4, half),
            (PA_SYSTEM_MODE, 0x11),
            (PA_CONFIG, 2 << 12 | 1 << 16),
            (PA_LINE_WIDTH, 0.5f32.to_bits()),
            (SE_SCISSOR + 8, (SIDE as f32 + 0.07).to_bits()),
            (SE_SCISSOR + 12, (SIDE as f32 + 0.07).to_bits()),
            (PS_OUTPUT_REG, 1),
            (PS_INPUT_COUNT, 2),
            (PS_TEMP_REGISTER_CONTROL, 4),
            (GL_VARYING_NUM_COMPONENTS, 4),
            (PE_COLOR_FORMAT, 6 | 0xf << 8 | super_tiled << 20),
            (PE_DEPTH_CONFIG, 1 << 4 | super_tiled << 26),
            (PE_COLOR_ADDR, COLOUR),
            (PE_PIPE_COLOR_ADDR, COLOUR),
            (
                PE_PIPE_COLOR_ADDR + 4,
                COLOUR + if is_split { HALF } else { 0 },
            ),
            (PE_COLOR_STRIDE, SIDE * 4),
            (PE_DEPTH_ADDR, DEPTH),
            (PE_PIPE_DEPTH_ADDR, DEPTH),
            (
                PE_PIPE_DEPTH_ADDR + 4,
                DEPTH + if is_split { HALF } else { 0 },
            ),
            (PE_DEPTH_STRIDE, SIDE * 4),
            (PE_DITHER, u32::MAX),
            (PE_DITHER + 4, u32::MAX),
            (PE_LOGIC_OP, 0xe_4000 | single | 12),
        ]);
        rig.code("nop", false);
        rig.code("nop", true);
        rig
    }

    fn set(&mut self, state: u32, value: u32) {
        self.states.insert(state, value);
    }

    fn set_all(&mut self, list: &[(u32, u32)]) {
        self.states.extend(list.iter().copied());
    }

    fn float(&mut self, state: u32, value: f32) {
        self.set(state, value.to_bits());
    }

    /// Loads a shader.
    fn code(&mut self, text: &str, is_pixel: bool) {
        let code = assemble(text).expect(text);
        let count = code.len() as u32 / WORDS;
        let (memory, range, first) = match (self.board, is_pixel) {
            (Board::Dove, false) => (VS_INST_MEM, VS_END_PC, 0),
            (Board::Dove, true) => (PS_INST_MEM, PS_END_PC, 0),
            (_, false) => (SH_INST_MEM, VS_RANGE, 0),
            (_, true) => (SH_INST_MEM + 0x1000, PS_RANGE, 0x100),
        };
        let value = match self.board {
            Board::Dove => count,
            _ => (first + count - 1) << 16 | first,
        };
        self.set(range, value);
        for (at, word) in (memory..).step_by(4).zip(code) {
            self.set(at, word);
        }
    }

    /// Sets a constant of a shader.
    fn constant(&mut self, is_pixel: bool, number: u32, value: [f32; 4]) {
        let first = match (self.board, is_pixel) {
            (Board::Gc3000, false) => SH_UNIFORMS,
            (Board::Gc3000, true) => {
                self.set(PS_UNIFORM_BASE, 128);
                SH_UNIFORMS + 16 * 128
            }
            (_, false) => VS_UNIFORMS,
            (_, true) => PS_UNIFORMS,
        };
        for (at, component) in value.into_iter().enumerate() {
            self.float(first + 16 * number + 4 * at as u32, component);
        }
    }

    /// Sets the vertex elements of one stream: type, components, normalization and offset.
    fn elements(&mut self, stride: u32, list: &[(u32, u32, u32, u32)]) {
        for (number, (kind, components, normalized, offset)) in (0..).zip(list) {
            let config = kind | components % 4 << 12 | normalized << 14 | offset << 16;
            self.set(FE_VERTEX_ELEMENT_CONFIG + 4 * number, config);
        }
        self.elements = list.len() as u32;
        self.set(VS_INPUT_COUNT, list.len() as u32);
        self.stream(0, VERTICES, stride, 0);
    }

    fn stream(&mut self, number: u32, address: u32, stride: u32, divisor: u32) {
        match self.board {
            Board::Dove => {
                self.set(FE_VERTEX_STREAM_BASE_ADDR, address);
                self.set(FE_VERTEX_STREAM_CONTROL, stride);
            }
            Board::Gc3000 => {
                self.set(NFE_VERTEX_STREAMS_BASE_ADDR + 4 * number, address);
                self.set(NFE_VERTEX_STREAMS_CONTROL + 4 * number, stride);
                self.set(NFE_VERTEX_STREAMS_DIVISOR + 4 * number, divisor);
            }
            _ => {
                self.set(FE_VERTEX_STREAMS_BASE_ADDR + 4 * number, address);
                self.set(
                    FE_VERTEX_STREAMS_CONTROL + 4 * number,
                    stride | divisor << 16,
                );
            }
        }
    }

    /// Sets vertices with position (4 floats) and color (4 floats).
    fn vertices(&mut self, list: &[([f32; 4], [f32; 4])]) {
        self.elements(32, &[(8, 4, 0, 0), (8, 4, 0, 16)]);
        let floats = list
            .iter()
            .flat_map(|(place, colour)| place.iter().chain(colour));
        self.put(VERTICES, floats.flat_map(|value| value.to_le_bytes()));
    }

    fn put(&mut self, address: u32, bytes: impl IntoIterator<Item = u8>) {
        for (at, byte) in (address as usize..).zip(bytes) {
            self.bus.bytes[at] = byte;
        }
    }

    fn core(&self) -> Core {
        let personality = Personality::of(self.board);
        Core::of(&personality, StatusFormat::of(&personality, 0))
    }

    fn draw(&self, command: Command) -> Result<Draw, Wrong> {
        let core = self.core();
        Draw::new(
            core,
            command,
            self.elements,
            |state| self.states.get(&state).copied().unwrap_or(0),
            |address, count| {
                let bytes = &self.bus.bytes[address as usize..][..4 * count as usize];
                let words = bytes.chunks_exact(4);
                words
                    .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                    .collect()
            },
            |code| Program::decode(&code, &core.features).map(Arc::new),
        )
    }

    fn run_command(&mut self, command: Command) -> Counts {
        let draw = self.draw(command).unwrap();
        // Draw as a whole, in parts on one thread, and in parts on two threads. Results and counters must be the same.
        let before = self.bus.bytes.clone();
        let mut first = None;
        for (large, threads) in [(u64::MAX, 1), (0, 1), (0, 2)] {
            let mut workers = Workers::new(threads);
            workers.large = large;
            self.bus.bytes.copy_from_slice(&before);
            self.bus.pipes = Default::default();
            self.bus.steps.store(0, Relaxed);
            let (counts, result) = draw.run(&mut workers, &mut self.bus);
            assert_eq!(result, Ok(()));
            let mut pipes = self.bus.pipes;
            if draw.samplers.iter().any(Option::is_some) {
                // Each part's texture cache reads separately.
                pipes.iter_mut().for_each(|pipe| pipe.read = 0);
            }
            let done = (counts, pipes, self.bus.steps.load(Relaxed));
            let (wanted, bytes) = first.get_or_insert_with(|| (done, self.bus.bytes.clone()));
            assert_eq!(done, *wanted, "{threads} threads");
            assert!(self.bus.bytes == *bytes, "{threads} threads");
        }
        first.expect("a draw").0 .0
    }

    fn run(&mut self, kind: u32, primitives: u32) -> Counts {
        self.run_command(Command::of_primitives(kind, 0, primitives, None))
    }

    fn wrong(&self) -> String {
        let command = Command::of_primitives(4, 0, 1, None);
        let (kind, text) = self.draw(command).map(drop).unwrap_err();
        assert_eq!(kind, ViolationKind::DrawState, "{text}");
        text
    }

    fn address(&self, shown: Shown, x: u32, y: u32) -> usize {
        let surface = Surface {
            bases: [shown.base, shown.base + HALF],
            stride: SIDE * shown.bytes * if shown.layout == Layout::Linear { 1 } else { 4 },
            bytes: shown.bytes,
            layout: shown.layout,
            is_split: shown.is_split,
        };
        surface.address(x, y) as usize
    }

    fn pixel(&self, x: u32, y: u32) -> u32 {
        self.value(self.colour, x, y)
    }

    fn value(&self, shown: Shown, x: u32, y: u32) -> u32 {
        let mut word = [0; 4];
        let bytes = shown.bytes as usize;
        let at = self.address(shown, x, y);
        word[..bytes].copy_from_slice(&self.bus.bytes[at..at + bytes]);
        u32::from_le_bytes(word)
    }

    fn picture(&self) -> Vec<u32> {
        let rows = (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| (x, y)));
        rows.map(|(x, y)| self.pixel(x, y)).collect()
    }
}

/// The color in an A8R8G8B8 word.
fn rgba(argb: u32) -> [f32; 4] {
    [16, 8, 0, 24].map(|shift| (argb >> shift & 0xff) as f32 / 255.0)
}

/// The clip space coordinates of a window position (in pixels), with w = 1.
fn clip(x: f32, y: f32, z: f32) -> [f32; 4] {
    let half = SIDE as f32 / 2.0;
    [x / half - 1.0, y / half - 1.0, z, 1.0]
}

/// Whether the center of a pixel is in a triangle of window positions. Checks the side of each edge; points on a left
/// or top edge are inside.
fn is_inside(corners: [[f32; 2]; 3], x: u32, y: u32) -> bool {
    let snapped = corners.map(|at| at.map(|at| (f64::from(at) * 16.0).round()));
    let (px, py) = (f64::from(16 * x + 8), f64::from(16 * y + 8));
    let side = |[ax, ay]: [f64; 2], [bx, by]: [f64; 2], x: f64, y: f64| {
        (bx - ax) * (y - ay) - (by - ay) * (x - ax)
    };
    (0..3).all(|number| {
        let (a, b, c) = (
            snapped[number],
            snapped[(number + 1) % 3],
            snapped[(number + 2) % 3],
        );
        let inside = side(a, b, c[0], c[1]);
        let here = side(a, b, px, py);
        if inside == 0.0 {
            return false;
        }
        if here != 0.0 {
            return here.signum() == inside.signum();
        }
        // On the edge: move slightly to the right, and less downwards, and check again.
        let moved = side(a, b, px + 0.01, py + 0.0001);
        moved.signum() == inside.signum()
    })
}

/// Every core with its supported layouts.
fn cores() -> Vec<(Board, Layout)> {
    vec![
        (Board::Dove, Layout::Tiled),
        (Board::Gc880, Layout::Tiled),
        (Board::Gc880, Layout::Supertiled),
        (Board::Gc2000, Layout::Tiled),
        (Board::Gc2000, Layout::Supertiled),
        (Board::Gc3000, Layout::Supertiled),
        (Board::Gc3000, Layout::Linear),
    ]
}

/// Random triangles in sixteenths of a pixel. Many have corners at pixel centers.
fn corners(random: &mut Random) -> [[f32; 2]; 3] {
    let coarse = random.below(2) == 0;
    let mut number = || {
        if coarse {
            random.below(SIDE) as f32 + 0.5
        } else {
            random.below(16 * (SIDE + 16)) as f32 / 16.0 - 8.0
        }
    };
    [(); 3].map(|()| [number(), number()])
}

#[test]
fn triangles_cover_their_pixels_on_every_core() {
    for (board, layout) in cores() {
        let mut rig = Rig::new(board, layout);
        let mut random = Random::new(7);
        let mut wanted = vec![0; (SIDE * SIDE) as usize];
        let mut pixels = 0;
        let mut list = Vec::new();
        for _ in 0..60 {
            let corners = corners(&mut random);
            let colour = random.below(u32::MAX);
            list.extend(corners.map(|[x, y]| (clip(x, y, 0.0), rgba(colour))));
            for (at, pixel) in (0..).zip(wanted.iter_mut()) {
                if is_inside(corners, at % SIDE, at / SIDE) {
                    *pixel = colour;
                    pixels += 1;
                }
            }
        }
        rig.vertices(&list);
        let counts = rig.run(4, 60);
        assert!(rig.picture() == wanted, "{board:?} {layout:?}");
        assert_eq!(counts.vertices, 180);
        assert_eq!(counts.primitives, 60);
        assert_eq!(counts.pixels, pixels);
        assert_eq!(counts.instructions[0], 180);
        assert_eq!(counts.instructions[1], 4 * counts.quads);
    }
}

#[test]
fn the_nearest_is_seen_in_both_depth_formats() {
    for (board, layout) in cores() {
        for is_long in [false, true] {
            let mut rig = Rig::new(board, layout);
            let bytes = if is_long { 4 } else { 2 };
            rig.depth.bytes = bytes;
            let config = rig.states[&PE_DEPTH_CONFIG] & !(1 << 4);
            rig.set(
                PE_DEPTH_CONFIG,
                config | 1 | 1 << 8 | 1 << 12 | u32::from(is_long) << 4,
            );
            rig.set(PE_DEPTH_STRIDE, SIDE * bytes);
            rig.bus.bytes[DEPTH as usize..].fill(0xff);
            let mut random = Random::new(9);
            let mut wanted = vec![(0, 1.0f32); (SIDE * SIDE) as usize];
            let mut list = Vec::new();
            for _ in 0..60 {
                let corners = corners(&mut random);
                let colour = random.below(u32::MAX);
                let depth = (1 + random.below(1000)) as f32 / 1024.0;
                // Cores that convert depth do so from -1 to 1.
                let z = if board == Board::Dove {
                    depth
                } else {
                    2.0 * depth - 1.0
                };
                list.extend(corners.map(|[x, y]| (clip(x, y, z), rgba(colour))));
                for (at, (pixel, nearest)) in (0..).zip(wanted.iter_mut()) {
                    if is_inside(corners, at % SIDE, at / SIDE) && depth < *nearest {
                        (*pixel, *nearest) = (colour, depth);
                    }
                }
            }
            rig.vertices(&list);
            rig.run(4, 60);
            let picture = rig.picture();
            for (at, (colour, depth)) in (0..).zip(&wanted) {
                let (x, y) = (at % SIDE, at / SIDE);
                let what = format!("{board:?} {layout:?} {is_long} {x},{y}");
                assert_eq!(picture[at as usize], *colour, "{what}");
                let stored = rig.value(rig.depth, x, y);
                let depth = f64::from(*depth);
                // Pixels that were not drawn keep their depth, and the stencil stays 0xff.
                let wanted = if is_long {
                    ((depth * 16_777_215.0).round() as u32) << 8 | 0xff
                } else {
                    (depth * 65535.0).round() as u32
                };
                assert!(
                    stored.abs_diff(wanted) <= if is_long { 0x100 } else { 1 },
                    "{what}"
                );
            }
        }
    }
}

/// Mesa disables the late tests if the early test is on.
#[test]
fn depth_is_tested_early_where_nothing_is_late() {
    for is_early in [true, false] {
        let mut rig = Rig::new(Board::Gc880, Layout::Supertiled);
        let config = rig.states[&PE_DEPTH_CONFIG] & !(7 << 8) | 1 | 1 << 4;
        rig.set(PE_DEPTH_STRIDE, SIDE * 4);
        rig.set(PE_DEPTH_CONFIG, config | 7 << 8 | 1 << 12);
        rig.vertices(&sheet(0xff00_0001, 0.5));
        rig.run(5, 2);
        // Equal. The other bits would write depth and stencil if the late tests were on.
        rig.set(
            PE_DEPTH_CONFIG,
            config | 2 << 8 | 1 << 12 | 1 << 16 | 1 << 24,
        );
        rig.set(PE_STENCIL_CONFIG, 1 | 0xff << 24);
        rig.set(PE_STENCIL_OP, 0x1117);
        rig.set(RA_EARLY_DEPTH, u32::from(is_early));
        let before = rig.value(rig.depth, 0, 0);
        for (colour, z) in [(0xff00_0002, 0.5), (0xff00_0003, 0.25)] {
            rig.vertices(&sheet(colour, z));
            rig.run(5, 2);
        }
        let seen = if is_early { 0xff00_0002 } else { 0xff00_0003 };
        let odd = rig.picture().into_iter().find(|pixel| *pixel != seen);
        assert_eq!(odd, None, "{is_early}");
        assert_eq!(rig.value(rig.depth, 0, 0), before);
    }
}

#[test]
fn cleared_tiles_become_data_where_they_are_drawn() {
    for (board, layout) in cores() {
        if layout == Layout::Linear {
            continue;
        }
        let bits = if board == Board::Dove { 4 } else { 2 };
        let mut rig = Rig::new(board, layout);
        let config = rig.states[&PE_DEPTH_CONFIG];
        let (clear, depth_clear) = (0x8040_2010, 0x7fff_ff05);
        rig.set_all(&[
            (PE_DEPTH_CONFIG, config | 1 | 1 << 8 | 1 << 12),
            (TS_MEM_CONFIG, TS_COLOR_FAST_CLEAR | TS_DEPTH_FAST_CLEAR),
            (TS_COLOR_STATUS_BASE, STATUS),
            (TS_COLOR_SURFACE_BASE, COLOUR),
            (TS_COLOR_CLEAR_VALUE, clear),
            (TS_DEPTH_STATUS_BASE, DEPTH_STATUS),
            (TS_DEPTH_SURFACE_BASE, DEPTH),
            (TS_DEPTH_CLEAR_VALUE, depth_clear),
        ]);
        let tiles = SIDE * SIDE / 16;
        let status = if bits == 2 { 0x55 } else { 0x11 };
        for base in [STATUS, DEPTH_STATUS] {
            rig.put(base, vec![status; (tiles * bits / 8) as usize]);
        }
        rig.bus.bytes[COLOUR as usize..].fill(0xdb);
        // The first triangle is nearer than the cleared depth, the second one is not.
        let near = if board == Board::Dove { 0.25 } else { -0.5 };
        let far = 0.75;
        let corners = [[3.0, 2.0], [40.0, 9.0], [11.0, 50.0]];
        let vertex = |z: f32, colour: u32| move |[x, y]: [f32; 2]| (clip(x, y, z), rgba(colour));
        let list: Vec<_> = corners.map(vertex(near, 0xff11_2233)).into_iter().collect();
        rig.vertices(&[list, corners.map(vertex(far, 0xffff_ffff)).to_vec()].concat());
        rig.run(4, 2);
        let is_cleared = |rig: &Rig, status: u32, base: u32, address: usize| {
            let tile = (address as u32 - base) / 64;
            let byte = rig.bus.bytes[(status + tile * bits / 8) as usize];
            byte >> (tile * bits % 8) & 3 == 1
        };
        let mut drawn = vec![false; (SIDE * SIDE / 16) as usize];
        for at in 0..SIDE * SIDE {
            let (x, y) = (at % SIDE, at / SIDE);
            drawn[(y / 4 * 16 + x / 4) as usize] |= is_inside(corners, x, y);
        }
        for at in 0..SIDE * SIDE {
            let (x, y) = (at % SIDE, at / SIDE);
            let what = format!("{board:?} {layout:?} {x},{y}");
            let is_drawn = drawn[(y / 4 * 16 + x / 4) as usize];
            for (status, shown, base) in [
                (STATUS, rig.colour, COLOUR),
                (DEPTH_STATUS, rig.depth, DEPTH),
            ] {
                let address = rig.address(shown, x, y);
                assert_eq!(is_cleared(&rig, status, base, address), !is_drawn, "{what}");
            }
            if is_drawn {
                let is_inside = is_inside(corners, x, y);
                let wanted = if is_inside { 0xff11_2233 } else { clear };
                assert_eq!(rig.pixel(x, y), wanted, "{what}");
                let depth = rig.value(rig.depth, x, y);
                assert_eq!(depth & 0xff, 5, "{what}");
                assert_eq!(depth >> 8 == depth_clear >> 8, !is_inside, "{what}");
            } else {
                assert_eq!(rig.pixel(x, y), 0xdbdb_dbdb, "{what}");
            }
        }
    }
}

/// A grid of 9 by 9 corners, with one strip per row. Every other pixel block gets its own flat color.
#[test]
fn indices_of_every_size_name_vertices() {
    let mut pictures = Vec::new();
    for (size, restart) in [(0, 0xff), (1, 0xffff), (2, u32::MAX)] {
        let mut rig = Rig::new(Board::Gc2000, Layout::Tiled);
        let mut list = Vec::new();
        // The first two vertices are not indexed.
        list.extend([([f32::NAN; 4], [0.0; 4]); 2]);
        for at in 0..81u32 {
            let (x, y) = (8.0 * (at % 9) as f32, 8.0 * (at / 9) as f32);
            list.push((clip(x, y, 0.0), rgba(0xff00_0000 | at * 0x3_0201)));
        }
        rig.vertices(&list);
        let mut indices: Vec<u32> = Vec::new();
        for row in 0..8 {
            indices.extend((0..9).flat_map(|column| [row * 9 + column, row * 9 + 9 + column]));
            indices.push(restart);
        }
        // The draw's start skips the first index.
        indices.insert(0, 3);
        let bytes = 1 << size;
        let all = indices
            .iter()
            .flat_map(|index| index.to_le_bytes()[..bytes].to_vec());
        rig.put(INDICES, all);
        rig.set_all(&[
            (FE_INDEX_STREAM_BASE_ADDR, INDICES),
            (FE_INDEX_STREAM_CONTROL, size | 1 << 8),
            (FE_PRIMITIVE_RESTART_INDEX, restart),
        ]);
        let command = Command {
            kind: 5,
            start: 1,
            vertices: indices.len() as u32 - 1,
            indexed: Some(2),
            instances: 1,
        };
        let counts = rig.run_command(command);
        assert_eq!(counts.primitives, 8 * 16);
        // Each vertex is shaded once.
        assert_eq!(counts.vertices, 81);
        assert_eq!(counts.pixels, 64 * 64);
        pictures.push(rig.picture());
    }
    assert!(pictures[0] == pictures[1] && pictures[1] == pictures[2]);
    let mut rig = Rig::new(Board::Dove, Layout::Tiled);
    rig.elements(32, &[(8, 4, 0, 0)]);
    rig.set(FE_INDEX_STREAM_CONTROL, 2);
    let draw = rig.draw(Command::of_primitives(4, 0, 1, Some(0)));
    assert_eq!(draw.map(drop).unwrap_err().0, ViolationKind::Unsupported);
}

/// A GC3000 reads code of any length from memory. Each shader then counts from its own start.
#[test]
fn code_is_taken_from_memory() {
    let colour = [0.25, 0.5, 0.75, 1.0];
    let corners = [[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]];
    let corners = corners.map(|[x, y]| ([x, y, 0.0, 1.0], colour));
    let (vertex, pixel) = (0x4000, 0x7000);
    let texts = ["nop\n".repeat(600), "mov t1, t1.zyxw".to_string()];
    let pictures = [Board::Gc3000, Board::Gc2000].map(|board| {
        let mut rig = Rig::new(board, Layout::Tiled);
        rig.vertices(&corners);
        for (address, text) in [vertex, pixel].into_iter().zip(&texts) {
            let code = assemble(text).unwrap();
            rig.put(address, code.into_iter().flat_map(u32::to_le_bytes));
        }
        rig.set_all(&[
            (VS_ICACHE_CONTROL, 0x31),
            (VS_INST_ADDR, vertex),
            (PS_INST_ADDR, pixel),
        ]);
        if board == Board::Gc3000 {
            rig.set_all(&[(VS_RANGE, 599 << 16), (PS_RANGE, 0)]);
        }
        rig.run(4, 1);
        rig.pixel(8, 8)
    });
    // The other core has no such states.
    assert_eq!(pictures, [0xffbf_8040, 0xff40_80bf]);
    let mut rig = Rig::new(Board::Gc3000, Layout::Tiled);
    rig.set(VS_RANGE, 599 << 16);
    assert!(rig.wrong().contains("of a memory of 512"));
}

#[test]
fn triangles_that_face_away_are_culled() {
    // Clockwise on the screen, with row 0 at the top.
    let clockwise = [[8.0, 8.0], [40.0, 8.0], [8.0, 40.0]];
    let [a, b, c] = clockwise;
    for (mode, seen) in [(0, [true, true]), (1, [false, true]), (2, [true, false])] {
        for (corners, is_seen) in [clockwise, [a, c, b]].into_iter().zip(seen) {
            let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
            rig.set(PA_CONFIG, 2 << 12 | 1 << 16 | mode << 8);
            let vertices = corners.map(|[x, y]| (clip(x, y, 0.0), [1.0; 4]));
            rig.vertices(&vertices);
            let counts = rig.run(4, 1);
            assert_eq!(counts.pixels != 0, is_seen, "{mode}");
            assert_eq!(counts.culled, u64::from(!is_seen));
        }
    }
}

#[test]
fn the_scissor_keeps_pixels_out() {
    let mut rig = Rig::new(Board::Gc880, Layout::Supertiled);
    for (at, edge) in [(0, 5.0), (4, 7.0), (8, 30.07), (12, 22.07)] {
        rig.float(SE_SCISSOR + at, edge);
    }
    let corners = [[-100.0, -100.0], [300.0, -100.0], [-100.0, 300.0]];
    rig.vertices(&corners.map(|[x, y]| (clip(x, y, 0.0), [1.0; 4])));
    assert_eq!(rig.run(4, 1).pixels, 25 * 15);
    for at in 0..SIDE * SIDE {
        let (x, y) = (at % SIDE, at / SIDE);
        let is_seen = (5..30).contains(&x) && (7..22).contains(&y);
        assert_eq!(rig.pixel(x, y) != 0, is_seen, "{x},{y}");
    }
}

/// Colors are perspective-correct, triangles are cut at the near plane, and those outside the view are dropped.
#[test]
fn triangles_are_cut_at_the_near_plane() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    // w ranges from 1 at the left to 3 at the right, and red from 0 to 1.
    let vertex =
        |x: f32, y: f32, w: f32, red: f32| ([x * w, y * w, 0.5 * w, w], [red, 0.0, 0.0, 1.0]);
    rig.vertices(&[
        vertex(-1.0, -1.0, 1.0, 0.0),
        vertex(1.0, -1.0, 3.0, 1.0),
        vertex(-1.0, 1.0, 1.0, 0.0),
        vertex(1.0, 1.0, 3.0, 1.0),
    ]);
    let counts = rig.run(5, 2);
    assert_eq!((counts.pixels, counts.clipped), (64 * 64, 0));
    for x in 0..SIDE {
        let part = (f64::from(x) + 0.5) / f64::from(SIDE);
        let red = (part / 3.0) / ((1.0 - part) + part / 3.0);
        let found = f64::from(rig.pixel(x, 31) >> 16 & 0xff);
        assert!((found - 255.0 * red).abs() <= 0.51, "{x}: {found} {red}");
    }
    // The near plane is in the middle: only the left half is visible.
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    let vertex = |x: f32, y: f32, z: f32| ([x, y, z, 1.0], [1.0; 4]);
    rig.vertices(&[
        vertex(-1.0, -1.0, 1.0),
        vertex(1.0, -1.0, -3.0),
        vertex(-1.0, 1.0, 1.0),
        vertex(1.0, 1.0, -3.0),
    ]);
    let counts = rig.run(5, 2);
    assert_eq!(counts.clipped, 2);
    assert_eq!(counts.pixels, 32 * 64);
    assert!((0..SIDE).all(|x| (rig.pixel(x, 20) != 0) == (x < 32)));
    // Completely beyond the far plane.
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    rig.vertices(&[
        vertex(-1.0, -1.0, 1.5),
        vertex(1.0, -1.0, 1.5),
        vertex(-1.0, 1.0, 1.5),
    ]);
    let counts = rig.run(4, 1);
    assert_eq!((counts.clipped, counts.pixels, counts.culled), (1, 0, 0));
}

#[test]
fn flat_varyings_are_the_provoking_vertexs() {
    for (mode, wanted) in [(0x10, 0xffff_0000), (0x11, 0xff00_00ff)] {
        let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
        rig.set(PA_CONFIG, 2 << 12);
        rig.set(PA_SYSTEM_MODE, mode);
        rig.vertices(&[
            (clip(-8.0, -8.0, 0.0), rgba(0xffff_0000)),
            (clip(200.0, -8.0, 0.0), rgba(0xff00_ff00)),
            (clip(-8.0, 200.0, 0.0), rgba(0xff00_00ff)),
        ]);
        rig.run(4, 1);
        assert!(rig.picture().iter().all(|pixel| *pixel == wanted));
    }
}

/// The whole target in one color.
fn sheet(colour: u32, z: f32) -> [([f32; 4], [f32; 4]); 4] {
    let most = SIDE as f32;
    [[0.0, 0.0], [most, 0.0], [0.0, most], [most, most]].map(|[x, y]| (clip(x, y, z), rgba(colour)))
}

#[test]
fn masks_and_blending_keep_what_was_there() {
    let mut rig = Rig::new(Board::Gc2000, Layout::Supertiled);
    rig.vertices(&sheet(0xff40_8020, 0.0));
    rig.run(5, 2);
    // Green and alpha only.
    let format = rig.states[&PE_COLOR_FORMAT];
    rig.set(PE_COLOR_FORMAT, format & !0xf00 | 0xa00);
    rig.vertices(&sheet(0x1112_1314, 0.0));
    rig.run(5, 2);
    assert!(rig.picture().iter().all(|pixel| *pixel == 0x1140_1320));
    // Source alpha and one minus source alpha.
    rig.set(PE_COLOR_FORMAT, format);
    rig.set(PE_ALPHA_CONFIG, 1 | 4 << 4 | 5 << 8);
    rig.vertices(&sheet(0x80ff_0000, 0.0));
    rig.run(5, 2);
    let mix = |new: u32, old: u32| (f64::from(new * 128 + old * 127) / 255.0).round() as u32;
    let wanted = mix(0x80, 0x11) << 24 | mix(0xff, 0x40) << 16 | mix(0, 0x13) << 8 | mix(0, 0x20);
    for pixel in rig.picture() {
        let differs = (0..4).any(|at| {
            let byte = |word: u32| word >> (8 * at) & 0xff;
            byte(pixel).abs_diff(byte(wanted)) > 1
        });
        assert!(!differs, "{pixel:#x} {wanted:#x}");
    }
}

#[test]
fn the_stencil_counts_layers_and_discards() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    let config = rig.states[&PE_DEPTH_CONFIG];
    rig.bus.bytes[DEPTH as usize..][..(SIDE * SIDE * 4) as usize].fill(0);
    rig.set(PE_DEPTH_CONFIG, config & !3);
    // Always passes and increments, on both sides.
    rig.set_all(&[
        (PE_STENCIL_OP, 0x0007 | 3 << 4),
        (PE_STENCIL_CONFIG, 1 | 0xffff << 16),
    ]);
    let mut random = Random::new(31);
    let mut layers = vec![0; (SIDE * SIDE) as usize];
    let mut list = Vec::new();
    for _ in 0..20 {
        let corners = corners(&mut random);
        list.extend(corners.map(|[x, y]| (clip(x, y, 0.0), [1.0; 4])));
        for (at, count) in (0..).zip(layers.iter_mut()) {
            *count += u32::from(is_inside(corners, at % SIDE, at / SIDE));
        }
    }
    rig.vertices(&list);
    rig.run(4, 20);
    for (at, count) in (0..).zip(&layers) {
        assert_eq!(rig.value(rig.depth, at % SIDE, at / SIDE), *count, "{at}");
    }
    // Draw only where there are two layers.
    rig.set_all(&[
        (PE_STENCIL_OP, 2),
        (PE_STENCIL_CONFIG, 1 | 2 << 8 | 0xffff << 16),
    ]);
    rig.vertices(&sheet(0x0102_0304, 0.0));
    let counts = rig.run(5, 2);
    let wanted = layers.iter().filter(|count| **count == 2).count();
    assert_eq!(counts.pixels, wanted as u64);
    for (at, count) in (0..).zip(&layers) {
        let pixel = rig.pixel(at % SIDE, at / SIDE);
        assert_eq!(pixel == 0x0102_0304, *count == 2, "{at}");
    }
}

#[test]
fn discarded_pixels_leave_nothing() {
    for test in 0..2 {
        let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
        let config = rig.states[&PE_DEPTH_CONFIG];
        rig.set(PE_DEPTH_CONFIG, config | 1 | 7 << 8 | 1 << 12);
        rig.constant(true, 0, [31.0, 0.0, 0.0, 0.0]);
        match test {
            // Discarded by the shader: left of the middle.
            0 => rig.code("texkill.lt t0.xxxx, u0.xxxx", true),
            // Discarded by alpha, which is 0 or 1.
            _ => {
                rig.code("set.ge t1.___w, t0.xxxx, u0.xxxx", true);
                rig.set(PE_ALPHA_OP, 1 | 4 << 4 | 0x80 << 8);
            }
        }
        rig.vertices(&sheet(0xff00_ff00, 0.0));
        assert_eq!(rig.run(5, 2).pixels, 33 * 64);
        for x in 0..SIDE {
            assert_eq!(rig.pixel(x, 9), if x < 31 { 0 } else { 0xff00_ff00 }, "{x}");
            assert_eq!(rig.value(rig.depth, x, 9) != 0, x >= 31, "{x}");
        }
    }
}

#[test]
fn shaders_move_and_colour() {
    for (board, layout) in cores() {
        let mut rig = Rig::new(board, layout);
        // Half size and moved. Red is the column, green the row.
        rig.code("mov t2, u0\nmad t0.xy__, t0, t2, u1", false);
        rig.code("mul t1, t0, u0", true);
        rig.constant(false, 0, [0.5, 0.5, 0.0, 0.0]);
        rig.constant(false, 1, [0.25, -0.25, 0.0, 0.0]);
        rig.constant(true, 0, [1.0 / 64.0, 1.0 / 64.0, 0.0, 0.0]);
        rig.vertices(&sheet(0, 0.0));
        assert_eq!(rig.run(5, 2).pixels, 32 * 32, "{board:?}");
        for at in 0..SIDE * SIDE {
            let (x, y) = (at % SIDE, at / SIDE);
            let is_seen = (24..56).contains(&x) && (8..40).contains(&y);
            let byte = |at: u32| ((f64::from(at) + 0.5) / 64.0 * 255.0 + 0.5) as u32;
            let wanted = if is_seen {
                byte(x) << 16 | byte(y) << 8
            } else {
                0
            };
            assert_eq!(rig.pixel(x, y), wanted, "{board:?} {x},{y}");
        }
    }
}

#[test]
fn vertices_come_from_several_streams_and_formats() {
    for board in [Board::Gc880, Board::Gc2000, Board::Gc3000] {
        let layout = Layout::Supertiled;
        let mut rig = Rig::new(board, layout);
        // Positions are shorts in one stream, colors are normalized bytes in another.
        rig.set_all(&[
            (FE_VERTEX_ELEMENT_CONFIG, 2 | 2 << 12 | 4 << 16),
            (FE_VERTEX_ELEMENT_CONFIG + 4, 1 | 1 << 8 | 1 << 14),
            (VS_INPUT_COUNT, 2),
        ]);
        rig.elements = 2;
        rig.stream(0, VERTICES, 12, 0);
        rig.stream(1, MORE_VERTICES, 4, 0);
        let places: [[i16; 2]; 3] = [[-1, -1], [3, -1], [-1, 3]];
        for (at, place) in (0..).zip(places) {
            let bytes = place.iter().flat_map(|at| at.to_le_bytes());
            rig.put(VERTICES + 12 * at + 4, bytes);
            rig.put(MORE_VERTICES + 4 * at, [0x11, 0x22, 0x33, 0x44]);
        }
        assert_eq!(rig.run(4, 1).pixels, 64 * 64, "{board:?}");
        assert!(rig.picture().iter().all(|pixel| *pixel == 0x4411_2233));
    }
}

#[test]
fn instances_have_rows_of_their_own() {
    let mut rig = Rig::new(Board::Gc3000, Layout::Supertiled);
    rig.set_all(&[
        (FE_VERTEX_ELEMENT_CONFIG, 8 | 2 << 12),
        (FE_VERTEX_ELEMENT_CONFIG + 4, 1 | 1 << 8 | 1 << 14),
        (FE_VERTEX_ELEMENT_CONFIG + 8, 8 | 2 << 8 | 2 << 12),
        (VS_INPUT_COUNT, 3),
    ]);
    rig.elements = 3;
    rig.code("add t0.xy__, t0, t2", false);
    rig.stream(0, VERTICES, 8, 0);
    rig.stream(1, MORE_VERTICES, 4, 2);
    rig.stream(2, MORE_VERTICES + 0x100, 8, 1);
    // A square of 16 x 16 pixels, drawn four times.
    let square = [[-1.0f32, -1.0], [-0.5, -1.0], [-1.0, -0.5], [-0.5, -0.5]];
    rig.put(
        VERTICES,
        square.iter().flatten().flat_map(|at| at.to_le_bytes()),
    );
    let colours = [0xff11_2233u32, 0xff44_5566];
    let swapped = colours.map(|argb| argb & 0xff00_ff00 | argb >> 16 & 0xff | (argb & 0xff) << 16);
    rig.put(
        MORE_VERTICES,
        swapped.iter().flat_map(|word| word.to_le_bytes()),
    );
    let moves = [[0.0f32, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5]];
    rig.put(
        MORE_VERTICES + 0x100,
        moves.iter().flatten().flat_map(|at| at.to_le_bytes()),
    );
    let counts = rig.run_command(Command::of_instances([12 << 27 | 5 << 16 | 4, 4, 0]));
    assert_eq!((counts.pixels, counts.primitives), (4 * 256, 8));
    for at in 0..32 * 32 {
        let (x, y) = (at % 32, at / 32);
        assert_eq!(rig.pixel(x, y), colours[(y / 16) as usize], "{x},{y}");
    }
    assert_eq!(rig.pixel(32, 0), 0);
    // Each square is too small to be split, but all of them together are not.
    let draw = rig.draw(Command::of_instances([12 << 27 | 5 << 16 | 4, 4, 0]));
    let mut workers = Workers::new(2);
    workers.large = 4 * 256;
    rig.bus.parts = 0;
    draw.unwrap().run(&mut workers, &mut rig.bus).1.unwrap();
    assert_eq!(rig.bus.parts, PARTS);
    let many = Command::of_instances([12 << 27 | 1 << 20 | 4 << 16 | 7, 1 << 24 | 9, 5]);
    let wanted = (4, 0, 9, Some(5), 0x1_0007);
    let found = (
        many.kind,
        many.start,
        many.vertices,
        many.indexed,
        many.instances,
    );
    assert_eq!(found, wanted);
}

#[test]
fn points_are_squares_with_coordinates_of_their_own() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    // The size is the shader's third output. The coordinates are the first two components of the varying.
    rig.set_all(&[
        (VS_OUTPUT_COUNT, 3),
        (VS_OUTPUT, 0x02_0100),
        (PA_CONFIG, 2 << 12 | 1 << 16 | 1 << 2 | 1 << 4),
        (GL_VARYING_COMPONENT_USE, 2 | 3 << 2 | 1 << 4 | 1 << 6),
    ]);
    rig.code("mov t2, u0", false);
    rig.constant(false, 0, [8.0; 4]);
    rig.vertices(&[(clip(20.0, 30.0, 0.0), [9.0, 9.0, 0.0, 1.0])]);
    assert_eq!(rig.run(1, 1).pixels, 64);
    for at in 0..SIDE * SIDE {
        let (x, y) = (at % SIDE, at / SIDE);
        let is_seen = (16..24).contains(&x) && (26..34).contains(&y);
        let byte = |at: u32| ((f64::from(at) + 0.5) / 8.0 * 255.0 + 0.5) as u32;
        let wanted = if is_seen {
            0xff00_0000 | byte(x - 16) << 16 | byte(y - 26) << 8
        } else {
            0
        };
        assert_eq!(rig.pixel(x, y), wanted, "{x},{y}");
    }
    // The state holds half of the size.
    rig.set(PA_CONFIG, 2 << 12 | 1 << 16);
    rig.float(PA_POINT_SIZE, 1.5);
    assert_eq!(rig.run(1, 1).pixels, 9);
}

#[test]
fn lines_go_from_pixel_to_pixel() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    let at = |x: f32, y: f32| (clip(x, y, 0.0), [1.0; 4]);
    rig.vertices(&[at(4.5, 4.5), at(40.5, 4.5), at(40.5, 24.5), at(4.5, 24.5)]);
    assert_eq!(rig.run(7, 4).pixels, 2 * (36 + 20));
    for at in 0..SIDE * SIDE {
        let (x, y) = (at % SIDE, at / SIDE);
        let in_box = (4..=40).contains(&x) && (4..=24).contains(&y);
        let within = (5..40).contains(&x) && (5..24).contains(&y);
        assert_eq!(rig.pixel(x, y) != 0, in_box && !within, "{x},{y}");
    }
}

#[test]
fn polygon_offset_moves_depth() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    let config = rig.states[&PE_DEPTH_CONFIG];
    rig.set(PE_DEPTH_CONFIG, config | 1 | 7 << 8 | 1 << 12);
    rig.float(SE_DEPTH_BIAS, 0.125);
    rig.vertices(&sheet(0, 0.0));
    rig.run(5, 2);
    let wanted = (0.625f64 * 16_777_215.0).round() as u32;
    assert_eq!(rig.value(rig.depth, 3, 3) >> 8, wanted);
}

/// gl_FragDepth, which Mesa uses to draw and copy depth pixels. An early test does not see this depth.
#[test]
fn a_pixel_shader_moves_its_depth() {
    for (board, layout) in cores() {
        for is_early in [false, true] {
            let mut rig = Rig::new(board, layout);
            let config = rig.states[&PE_DEPTH_CONFIG] | 1 | 7 << 8 | 1 << 12;
            rig.set(PE_DEPTH_CONFIG, config | u32::from(is_early) << 16);
            rig.set(RA_EARLY_DEPTH, u32::from(is_early));
            rig.code("mul t0.__z_, t0.xxxx, u0.xxxx", true);
            rig.constant(true, 0, [1.0 / 128.0; 4]);
            let z = if board == Board::Dove { 0.75 } else { 0.5 };
            rig.vertices(&sheet(0xff00_0001, z));
            rig.run(5, 2);
            for x in [0, 3, SIDE - 1] {
                let wanted = if is_early {
                    0.75
                } else {
                    (f64::from(x) + 0.5) / 128.0
                };
                let stored = rig.value(rig.depth, x, 5) >> 8;
                let what = format!("{board:?} {layout:?} {is_early} {x}");
                assert_eq!(stored, (wanted * 16_777_215.0f64).round() as u32, "{what}");
            }
            // With "less": passes only on the left.
            if !is_early {
                rig.set(PE_DEPTH_CONFIG, config & !(7 << 8 | 1 << 12) | 1 << 8);
                rig.code("mov t0.__z_, u0.yyyy", true);
                rig.constant(true, 0, [0.0, 0.25, 0.0, 0.0]);
                rig.vertices(&sheet(0xff00_0002, z));
                rig.run(5, 2);
                for x in [0, SIDE / 2 - 1, SIDE / 2, SIDE - 1] {
                    let colour = if x < SIDE / 2 {
                        0xff00_0001
                    } else {
                        0xff00_0002
                    };
                    assert_eq!(rig.pixel(x, 7), colour, "{board:?} {layout:?} {x}");
                }
            }
        }
    }
}

#[test]
fn what_hangs_silicon_is_found_before_it_is_drawn() {
    let rig = |change: &dyn Fn(&mut Rig)| {
        let mut rig = Rig::new(Board::Gc2000, Layout::Tiled);
        rig.vertices(&sheet(0, 0.0));
        change(&mut rig);
        rig.wrong()
    };
    type Change<'a> = &'a dyn Fn(&mut Rig);
    let cases: [(&str, Change<'_>); 6] = [
        ("3 vertex elements", &|rig| rig.elements = 3),
        ("uses 5 temporaries", &|rig| rig.code("mov t4, t1", true)),
        ("scissor without a fraction: 64", &|rig| {
            rig.float(SE_SCISSOR + 8, 64.0);
        }),
        ("instruction 0", &|rig| rig.set(SH_INST_MEM, 0x3f)),
        ("instructions 511 to 513", &|rig| {
            rig.set(PS_RANGE, 512 << 16 | 511);
        }),
        ("instructions 4 to 3", &|rig| rig.set(VS_RANGE, 2 << 16 | 4)),
    ];
    for (text, change) in cases {
        let found = rig(change);
        assert!(found.contains(text), "{found}");
    }
}

#[test]
fn textures_are_looked_up_by_varyings() {
    for (board, layout) in cores() {
        let mut rig = Rig::new(board, layout);
        rig.code("texld t1, tex0, t1", true);
        // 16 x 16 texels, nearest, clamped, tiled, without levels.
        let [config, size, lod, more, address] = match board {
            Board::Gc3000 => [0x1_0000, 0x1_0080, 0x1_0180, 0x1_0380, 0x1_0800],
            _ => [0x2000, 0x2040, 0x20c0, 0x21c0, 0x2400],
        };
        rig.set_all(&[
            (config, 2 | 2 << 3 | 2 << 5 | 1 << 7 | 1 << 11 | 7 << 13),
            (size, 16 << 16 | 16),
            (lod, 0),
            (
                more,
                0x0032_1000 | if board == Board::Dove { 0 } else { 1 << 26 },
            ),
            (address, MORE_VERTICES),
        ]);
        let texel = |x: u32, y: u32| 0xff00_0000 | x << 20 | y << 12 | (x ^ y) << 4;
        for at in 0..256 {
            let (tile, inside) = (at / 16, at % 16);
            let (x, y) = (tile % 4 * 4 + inside % 4, tile / 4 * 4 + inside / 4);
            rig.put(MORE_VERTICES + 4 * at, texel(x, y).to_le_bytes());
        }
        let corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
        let most = SIDE as f32;
        let list = corners.map(|[s, t]| (clip(most * s, most * t, 0.0), [s, t, 0.0, 1.0]));
        rig.vertices(&list);
        let counts = rig.run(5, 2);
        assert_eq!(counts.requests, 4 * counts.quads);
        for at in 0..SIDE * SIDE {
            let (x, y) = (at % SIDE, at / SIDE);
            assert_eq!(rig.pixel(x, y), texel(x / 4, y / 4), "{board:?} {x},{y}");
        }
        rig.set(config, 0);
        assert!(rig.wrong().contains("sampler 0 is not set up"));
    }
}

#[test]
fn a_draw_without_states_draws_nothing() {
    for board in [Board::Dove, Board::Gc880, Board::Gc2000, Board::Gc3000] {
        let mut rig = Rig::new(board, Layout::Tiled);
        rig.states.clear();
        for kind in 1..=7 {
            let counts = rig.run(kind, 1);
            assert_eq!(counts.pixels, 0);
        }
        assert!(rig.bus.bytes.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_shader_that_never_ends_stops_the_draw() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    rig.code("again:\nadd t1, t1, t1\nbranch again", true);
    rig.vertices(&sheet(0, 0.0));
    let draw = rig.draw(Command::of_primitives(5, 0, 2, None)).unwrap();
    let mut first = None;
    for (large, threads) in [(u64::MAX, 1), (0, 2)] {
        let mut workers = Workers::new(threads);
        workers.large = large;
        let (counts, result) = draw.run(&mut workers, &mut rig.bus);
        assert!(matches!(result, Err(Stop::Endless(_))), "{result:?}");
        assert_eq!(counts.pixels, 0);
        assert_eq!(*first.get_or_insert(counts), counts);
    }
}

/// Rows of tiles that overlap: the order of the parts matters, so they are drawn in order.
#[test]
fn parts_that_meet_in_memory_are_drawn_in_order() {
    for (state, config) in [
        (PE_COLOR_STRIDE, 0),
        (PE_DEPTH_STRIDE, 1 | 1 << 8 | 1 << 12),
    ] {
        let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
        let depth = rig.states[&PE_DEPTH_CONFIG];
        rig.set(PE_DEPTH_CONFIG, depth | config);
        rig.set(state, 0);
        let mut random = Random::new(5);
        let mut list = Vec::new();
        for _ in 0..30 {
            let z = random.below(1000) as f32 / 1000.0;
            let colour = random.below(u32::MAX);
            list.extend(corners(&mut random).map(|[x, y]| (clip(x, y, z), rgba(colour))));
        }
        rig.vertices(&list);
        rig.bus.bytes[DEPTH as usize..].fill(0xff);
        assert_ne!(rig.run(4, 30).pixels, 0);
    }
}

/// The bus reports accesses outside memory.
#[test]
fn a_part_leaves_no_trace_where_something_is_to_be_told() {
    let mut rig = Rig::new(Board::Gc880, Layout::Tiled);
    rig.vertices(&sheet(0xff40_8020, 0.0));
    rig.set(PE_COLOR_ADDR, (1 << 20) - 0x2000);
    let draw = rig.draw(Command::of_primitives(5, 0, 2, None)).unwrap();
    let before = rig.bus.bytes.clone();
    for threads in [1, PARTS] {
        let mut workers = Workers::new(threads);
        let mut run = Run::new(&draw, &mut workers);
        let mut shapes = Vec::new();
        for [a, b, c] in [[0, 1, 2], [2, 1, 3]] {
            let corner = |at: usize| Vertex {
                position: sheet(0, 0.0)[at].0,
                size: None,
                varyings: [[0.0; 4]; VARYINGS],
            };
            let primitive = Primitive {
                vertices: [0, 1, 2],
                count: 3,
                provoking: 0,
                is_placed: true,
            };
            let shaded = [corner(a), corner(b), corner(c)];
            let counts = &mut Counts::default();
            run.setup
                .primitive(&primitive, &shaded, &mut shapes, counts);
        }
        assert!(matches!(run.cut(&shapes, &mut rig.bus), Cut::Dropped(_)));
        assert_eq!(run.counts, Counts::default());
        assert!(rig.bus.bytes == before, "{threads} threads");
    }
}
