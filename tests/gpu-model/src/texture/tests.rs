// SPDX-License-Identifier: GPL-2.0-only
//! Known texels of every format, layouts compared with the resolve engine's, filters, wrap modes, levels, cubes.

use std::collections::HashMap;

use gpu_control::Board;

use super::*;
use crate::surface;
use crate::surface::Surface;

/// Memory that starts at an address and counts the bytes read.
struct Plain {
    base: u32,
    bytes: Vec<u8>,
    reads: usize,
}

impl Plain {
    fn new(bytes: usize) -> Self {
        Self {
            base: 0x1000_0000,
            bytes: vec![0; bytes],
            reads: 0,
        }
    }

    fn put(&mut self, address: u32, bytes: &[u8]) {
        let at = (address - self.base) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Memory for Plain {
    fn read(&mut self, address: u32, bytes: &mut [u8]) -> Result<(), Fault> {
        self.reads += 1;
        let at = address.wrapping_sub(self.base) as usize;
        let found = self
            .bytes
            .get(at..)
            .and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(found.ok_or(Fault::Memory(address))?);
        Ok(())
    }
}

fn features(board: Board) -> Features {
    Features::of(&Personality::of(board))
}

const REPEAT: u32 = 0;
const MIRROR: u32 = 1;
const EDGE: u32 = 2;
const BORDER: u32 = 3;
const NEAREST: u32 = 1;
const LINEAR: u32 = 2;
const IDENTITY: u32 = 0x0032_1000;

/// Setup of a sampler.
#[derive(Clone, Copy)]
struct Wanted {
    board: Board,
    kind: u32,
    size: (u32, u32),
    wrap: u32,
    min: u32,
    mip: u32,
    mag: u32,
    format: (u32, u32),
    addressing: u32,
    alignment: u32,
    /// Of CONFIG1.
    more: u32,
    log_size: u32,
    /// Lowest and highest levels and bias, in 32nds.
    lod: (u32, u32, i32),
    stride: u32,
    base_lod: u32,
    volume: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            board: Board::Gc2000,
            kind: 2,
            size: (8, 8),
            wrap: EDGE,
            min: NEAREST,
            mip: 0,
            mag: NEAREST,
            format: (7, 0),
            addressing: 0,
            alignment: 1,
            more: IDENTITY,
            log_size: 0,
            lod: (0, 0, 0),
            stride: 0,
            base_lod: 0,
            volume: 0,
        }
    }
}

impl Wanted {
    fn state(&self, sampler: u32, addresses: &[u32]) -> HashMap<u32, u32> {
        let is_new = self.board == Board::Gc3000;
        let (low, high, bias) = self.lod;
        let config = self.kind
            | self.wrap << 3
            | self.wrap << 5
            | self.min << 7
            | self.mip << 9
            | self.mag << 11
            | self.format.0 << 13
            | self.addressing << 20;
        let lod = u32::from(bias != 0) | high << 1 | low << 11 | (bias as u32 & 0x3ff) << 21;
        let more = self.more | self.format.1 | self.alignment << 26;
        let mut state = HashMap::new();
        for (old, new, value) in [
            (0x2000, 0x1_0000, config),
            (0x2040, 0x1_0080, self.size.0 | self.size.1 << 16),
            (0x2080, 0x1_0100, self.log_size),
            (0x20c0, 0x1_0180, lod),
            (0x2180, 0x1_0300, self.volume | self.wrap << 28),
            (0x21c0, 0x1_0380, more),
            (0x2c00, 0x1_0280, self.stride),
            (0, 0x1_0700, self.base_lod),
        ] {
            state.insert(if is_new { new } else { old } + 4 * sampler, value);
        }
        for (level, address) in addresses.iter().enumerate() {
            let level = level as u32;
            let place = if is_new {
                0x1_0800 + 64 * sampler + 4 * level
            } else {
                0x2400 + 0x40 * level + 4 * sampler
            };
            state.insert(place, *address);
        }
        state
    }

    fn setup(&self, addresses: &[u32]) -> Result<Option<Setup>, Mistake> {
        let state = self.state(5, addresses);
        let read = |address: u32| state.get(&address).copied().unwrap_or_default();
        Setup::read(&features(self.board), 5, &read)
    }
}

/// The texel of one lane, from all lanes' coordinates.
fn sample(
    wanted: &Wanted,
    addresses: &[u32],
    memory: &mut Plain,
    at: impl Fn(usize) -> [f32; 3],
    lod: Lod<'_>,
) -> [Texel; LANES] {
    let setup = wanted
        .setup(addresses)
        .expect("a mistake")
        .expect("it is off");
    let coordinates: [Lane; 4] =
        std::array::from_fn(|c| std::array::from_fn(|lane| if c < 3 { at(lane)[c] } else { 0.0 }));
    let mut out = [[0.0; LANES]; 4];
    let mut cache = Cache::default();
    let mut units = Units {
        setups: &[None, Some(setup)],
        memory,
        cache: &mut cache,
        has_derivatives: true,
        requests: 0,
        texels: 0,
    };
    let lookup = Lookup {
        unit: 1,
        coordinates: coordinates.each_ref(),
        lod,
        reference: None,
        mask: u64::MAX,
    };
    assert_eq!(units.sample(&lookup, &mut out), Ok(()));
    assert_eq!(units.requests, 64);
    std::array::from_fn(|lane| [0, 1, 2, 3].map(|channel| out[channel][lane]))
}

fn one(wanted: &Wanted, memory: &mut Plain, at: [f32; 3]) -> Texel {
    let addresses = [memory.base];
    sample(wanted, &addresses, memory, |_| at, Lod::Derived(None))[0]
}

fn near(a: Texel, b: Texel) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
}

/// The first of 4 x 4 texels with these bytes.
fn first_texel(board: Board, format: (u32, u32), log_size: u32, bytes: &[u8]) -> Texel {
    let mut memory = Plain::new(256);
    memory.put(0x1000_0000, bytes);
    let wanted = Wanted {
        board,
        size: (4, 4),
        format,
        log_size,
        alignment: 0,
        ..Wanted::default()
    };
    one(&wanted, &mut memory, [0.1, 0.1, 0.0])
}

#[test]
fn formats_have_their_texels() {
    let f = |value: u8, most: u8| f32::from(value) / f32::from(most);
    let le = |word: u32| word.to_le_bytes().to_vec();
    for (format, bytes, wanted) in [
        ((1, 0), vec![0x40], [0.0, 0.0, 0.0, f(0x40, 255)]),
        (
            (2, 0),
            vec![0x40],
            [f(0x40, 255), f(0x40, 255), f(0x40, 255), 1.0],
        ),
        ((3, 0), vec![0x40], [f(0x40, 255); 4]),
        (
            (4, 0),
            vec![0x40, 0x80],
            [f(0x40, 255), f(0x40, 255), f(0x40, 255), f(0x80, 255)],
        ),
        ((5, 0), le(0x1234), [f(2, 15), f(3, 15), f(4, 15), f(1, 15)]),
        ((6, 0), le(0x1234), [f(2, 15), f(3, 15), f(4, 15), 1.0]),
        (
            (7, 0),
            le(0x1122_3344),
            [f(0x22, 255), f(0x33, 255), f(0x44, 255), f(0x11, 255)],
        ),
        (
            (8, 0),
            le(0x1122_3344),
            [f(0x22, 255), f(0x33, 255), f(0x44, 255), 1.0],
        ),
        (
            (9, 0),
            le(0x1122_3344),
            [f(0x44, 255), f(0x33, 255), f(0x22, 255), f(0x11, 255)],
        ),
        (
            (10, 0),
            le(0x1122_3344),
            [f(0x44, 255), f(0x33, 255), f(0x22, 255), 1.0],
        ),
        (
            (11, 0),
            le(3 << 11 | 5 << 5 | 7),
            [f(3, 31), f(5, 63), f(7, 31), 1.0],
        ),
        (
            (12, 0),
            le(1 << 15 | 3 << 10 | 5 << 5 | 7),
            [f(3, 31), f(5, 31), f(7, 31), 1.0],
        ),
        (
            (12, 0),
            le(3 << 10 | 5 << 5 | 7),
            [f(3, 31), f(5, 31), f(7, 31), 0.0],
        ),
        (
            (13, 0),
            le(3 << 10 | 5 << 5 | 7),
            [f(3, 31), f(5, 31), f(7, 31), 1.0],
        ),
        (
            (16, 0),
            le(0x8000),
            [
                32_768.0 / 65_535.0,
                32_768.0 / 65_535.0,
                32_768.0 / 65_535.0,
                1.0,
            ],
        ),
        (
            (17, 0),
            le(0x80_0000 << 8 | 0x55),
            [0.500_000_03, 0.500_000_03, 0.500_000_03, 1.0],
        ),
        (
            (29, 0),
            le(24 << 27 | 3 << 18 | 2 << 9 | 1),
            [1.0, 2.0, 3.0, 1.0],
        ),
        (
            (0, 6),
            vec![0x40, 0x80],
            [f(0x40, 255), f(0x80, 255), 0.0, 1.0],
        ),
        ((0, 7), le(0x3c00), [1.0, 0.0, 0.0, 1.0]),
        ((0, 8), le(0x3800_c000), [-2.0, 0.5, 0.0, 1.0]),
        (
            (0, 9),
            [le(0x3800_c000), le(0x4200_3c00)].concat(),
            [-2.0, 0.5, 1.0, 3.0],
        ),
        ((0, 10), le(0x4048_0000), [3.125, 0.0, 0.0, 1.0]),
        (
            (0, 11),
            [le(0x4048_0000), le(0xbf80_0000)].concat(),
            [3.125, -1.0, 0.0, 1.0],
        ),
        (
            (0, 12),
            le(1 << 30 | 1023 << 20 | 511),
            [511.0 / 1023.0, 0.0, 1.0, 1.0 / 3.0],
        ),
        ((0, 14), vec![0x80], [-1.0, 0.0, 0.0, 1.0]),
        ((0, 15), vec![0x81, 127], [-1.0, 1.0, 0.0, 1.0]),
        ((0, 16), le(0x0000_7f81), [-1.0, 1.0, 0.0, 1.0]),
        ((0, 17), le(0x7f00_7f81), [-1.0, 1.0, 0.0, 1.0]),
        // Small floats: of 11 bits with exponent 5 and fraction 6, of 10 bits with fraction 5.
        (
            (0, 27),
            le(15 << 6 | (16 << 6) << 11 | (14 << 5) << 22),
            [1.0, 2.0, 0.5, 1.0],
        ),
        ((0, 33), vec![0x40], [f(0x40, 255), 0.0, 0.0, 1.0]),
    ] {
        let found = first_texel(Board::Gc3000, format, 0, &bytes);
        assert!(
            near(found, wanted),
            "{format:?}: {found:?} instead of {wanted:?}"
        );
    }
    let dark = first_texel(Board::Gc2000, (9, 0), 1 << 31, &[10, 255, 128, 128]);
    let wanted = [10.0 / 255.0 / 12.92, 1.0, 0.215_860_5, f(128, 255)];
    assert!(near(dark, wanted), "{dark:?}");
    // Cores from HALTI0 on have 10 bits per color.
    for board in [Board::Gc880, Board::Gc2000] {
        let found = first_texel(board, (0, 12), 0, &le(1 << 30 | 1023 << 20 | 511));
        assert!(
            near(found, [511.0 / 1023.0, 0.0, 1.0, 1.0 / 3.0]),
            "{board:?}: {found:?}"
        );
    }
}

/// All 16 texels of a block.
fn block(board: Board, format: (u32, u32), bytes: &[u8]) -> Vec<[i32; 4]> {
    let mut memory = Plain::new(16);
    memory.put(0x1000_0000, bytes);
    let wanted = Wanted {
        board,
        size: (4, 4),
        format,
        ..Wanted::default()
    };
    let addresses = [memory.base];
    let at = |lane: usize| {
        [
            (lane % 4) as f32 / 4.0 + 0.1,
            (lane / 4 % 4) as f32 / 4.0 + 0.1,
            0.0,
        ]
    };
    let texels = sample(&wanted, &addresses, &mut memory, at, Lod::Derived(None));
    texels[..16]
        .iter()
        .map(|texel| texel.map(|c| (c * 255.0).round() as i32))
        .collect()
}

#[test]
fn dxt_blocks_have_their_colors() {
    // Red to blue. Row 0 has all four indices.
    let opaque = [0x00, 0xf8, 0x1f, 0x00, 0xe4, 0, 0, 0xff];
    let red = [255, 0, 0, 255];
    let found = block(Board::Dove, (19, 0), &opaque);
    assert_eq!(
        found[..4],
        [red, [0, 0, 255, 255], [170, 0, 85, 255], [85, 0, 170, 255]]
    );
    assert_eq!((found[4], found[15]), (red, [85, 0, 170, 255]));
    // The opposite order has a hole.
    let holed = [0x1f, 0x00, 0x00, 0xf8, 0xe4, 0, 0, 0];
    let found = block(Board::Dove, (19, 0), &holed);
    assert_eq!(found[1..4], [red, [128, 0, 128, 255], [0; 4]]);
    // DXT3: four bits of alpha per texel. It always has four colors.
    let alpha = [0x50, 0xfa, 0, 0, 0, 0, 0, 0x10];
    let found = block(Board::Gc2000, (20, 0), &[alpha, holed].concat());
    let alphas: Vec<i32> = found.iter().map(|texel| texel[3]).collect();
    assert_eq!(
        alphas,
        [0, 85, 170, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17]
    );
    assert_eq!(found[3], [170, 0, 85, 255]);
    // DXT5: indices 0 to 7 in the first texels, ends 210 and 0.
    let bits = (0..8u64).fold(0, |bits, index| bits | index << (3 * index));
    let alpha = |ends: [u8; 2]| [&ends[..], &bits.to_le_bytes()[..6]].concat();
    let found = block(
        Board::Gc2000,
        (21, 0),
        &[alpha([210, 0]), opaque.to_vec()].concat(),
    );
    let alphas: Vec<i32> = found[..8].iter().map(|texel| texel[3]).collect();
    assert_eq!(alphas, [210, 0, 180, 150, 120, 90, 60, 30]);
    let found = block(
        Board::Gc2000,
        (21, 0),
        &[alpha([0, 100]), opaque.to_vec()].concat(),
    );
    let alphas: Vec<i32> = found[..8].iter().map(|texel| texel[3]).collect();
    assert_eq!(alphas, [0, 100, 20, 40, 60, 80, 0, 255]);
}

/// An ETC block from its fields: value and lowest bit.
fn etc(fields: &[(u64, u32)]) -> [u8; 8] {
    fields
        .iter()
        .fold(0u64, |word, (value, low)| word | value << low)
        .to_be_bytes()
}

#[test]
fn etc1_blocks_have_their_colors() {
    // Two halves with 4 bits per color, side by side; tables 0 and 7. All texels have index 0, the second column 3.
    let indices = [(0xf0, 16), (0xf0, 0)];
    let halves = [
        (1, 60),
        (15, 56),
        (2, 52),
        (0, 48),
        (3, 44),
        (8, 40),
        (0, 37),
        (7, 34),
    ];
    let block_of = |flip: u64| etc(&[&halves[..], &indices, &[(flip, 32)]].concat());
    let found = block(Board::Dove, (30, 0), &block_of(0));
    assert_eq!(found[0], [17 + 2, 34 + 2, 51 + 2, 255]);
    assert_eq!(found[1], [17 - 8, 34 - 8, 51 - 8, 255]);
    assert_eq!(found[2], [255, 47, 136 + 47, 255]);
    let found = block(Board::Dove, (30, 0), &block_of(1));
    assert_eq!((found[3], found[5]), ([19, 36, 53, 255], [9, 26, 43, 255]));
    assert_eq!((found[8], found[9]), ([255, 47, 183, 255], [72, 0, 0, 255]));
    // 5 bits per color. The second half has a 3-bit difference.
    let fields = [
        (16, 59),
        (5, 56),
        (8, 51),
        (1, 48),
        (31, 43),
        (7, 40),
        (1, 37),
        (0, 34),
        (1, 33),
    ];
    let found = block(Board::Dove, (30, 0), &etc(&fields));
    assert_eq!(found[0], [132 + 5, 66 + 5, 255, 255]);
    assert_eq!(found[3], [107 + 2, 74 + 2, 247 + 2, 255]);
}

#[test]
fn etc2_blocks_have_their_modes() {
    // T: red beyond 31. First 0x84 0x.. : red 10, green 3, blue 5; second 1, 2, 3; distance 1 is 6.
    let fields = [
        (0b111, 61),
        (0b10, 59),
        (0b010, 56),
        (3, 52),
        (5, 48),
        (1, 44),
        (2, 40),
        (3, 36),
        (0, 34),
        (1, 33),
        (1, 32),
        // Texels of the first column have indices 0 to 3.
        (0b1100, 16),
        (0b1010, 0),
    ];
    let (first, second) = ([170, 51, 85, 255], [17, 34, 51, 255]);
    let column = |found: &[[i32; 4]]| [found[0], found[4], found[8], found[12]];
    let found = block(Board::Gc3000, (0, 0), &etc(&fields));
    let around = |color: [i32; 4], by: i32| [color[0] + by, color[1] + by, color[2] + by, 255];
    assert_eq!(
        column(&found),
        [first, around(second, 6), second, around(second, -6)]
    );
    // Cores before HALTI1 have the two colors in the opposite order.
    let found = block(Board::Gc2000, (0, 0), &etc(&fields));
    assert_eq!(
        column(&found),
        [second, around(first, 6), first, around(first, -6)]
    );
    // The same without the opaque bit, in a format with holes: index 2 is a hole.
    let holed: Vec<(u64, u32)> = fields
        .iter()
        .copied()
        .filter(|(_, low)| *low != 33)
        .collect();
    let found = block(Board::Gc3000, (0, 1), &etc(&holed));
    assert_eq!(
        column(&found),
        [first, around(second, 6), [0; 4], around(second, -6)]
    );
    // H mode: green overflows, because its 5 bits are 00010 and the difference is -3. Colors 2, 1, 2 and 4, 6, 8;
    // distance 4 is 23.
    let fields = [
        (2, 59),
        (0, 56),
        (1, 52),
        (0b101, 48),
        (4, 43),
        (6, 39),
        (8, 35),
        (1, 34),
        (1, 33),
        (0, 32),
        (0b1100, 16),
        (0b1010, 0),
    ];
    let found = block(Board::Gc3000, (0, 0), &etc(&fields));
    let all = [
        [57, 40, 57, 255],
        [11, 0, 11, 255],
        [91, 125, 159, 255],
        [45, 79, 113, 255],
    ];
    assert_eq!(column(&found), all);
    // Planar mode: blue overflows. Origin 0, right full red, below full green.
    let fields = [
        // Blue: 5 bits 11100 and 3 of difference 100 is -4: bits 43 to 47 and 40 to 42.
        (1, 42),
        (0b00000, 43),
        (1, 33),
        (0b11111, 34),
        (1, 32),
        (0b111_1111, 6),
    ];
    let found = block(Board::Gc3000, (0, 0), &etc(&fields));
    // Blue of the origin is in bits 48, 44, 43 and 41 to 39; none of them is set here.
    assert_eq!(found[0], [0, 0, 0, 255]);
    assert_eq!(found[2], [128, 0, 0, 255]);
    assert_eq!(found[12], [0, 191, 0, 255]);
    assert_eq!(found[15], [191, 191, 0, 255]);
}

#[test]
fn eac_blocks_have_their_values() {
    let color = etc(&[(1, 60), (1, 56), (1, 52), (1, 48), (1, 44), (1, 40)]);
    // Base 100, multiplier 2, table 13; indices 0 to 7 down the first two columns.
    let bits = (0..8u64).fold(0, |bits, index| bits | index << (45 - 3 * index));
    let alpha = (100u64 << 56 | 0x2d << 48 | bits).to_be_bytes();
    let found = block(Board::Gc2000, (0, 2), &[alpha, color].concat());
    let alphas = [0, 4, 8, 12, 1, 5, 9, 13].map(|at| found[at][3]);
    assert_eq!(alphas, [98, 96, 94, 80, 100, 102, 104, 118]);
    let found = block(Board::Gc2000, (0, 3), &alpha);
    let first = ((100 * 8 + 4 - 16) as f32 / 2047.0 * 255.0).round() as i32;
    assert_eq!(found[0], [first, 0, 0, 255]);
    let found = block(
        Board::Gc2000,
        (0, 5),
        &[alpha, [0x81, 0, 0, 0, 0, 0, 0, 0]].concat(),
    );
    let first = ((100 * 8 - 16) as f32 / 1023.0 * 255.0).round() as i32;
    // Base -127. A multiplier of 0 means one eighth: -127 * 8 - 3.
    assert_eq!(
        found[0][..2],
        [first, (-1019.0f32 / 1023.0 * 255.0).round() as i32]
    );
}

/// The resolve engine has the same layouts: each texel must be at its address.
#[test]
fn layouts_are_those_of_the_resolve_engine() {
    for (addressing, alignment, layout, is_split, board) in [
        (3, 0, surface::Layout::Linear, false, Board::Gc2000),
        (0, 1, surface::Layout::Tiled, false, Board::Gc2000),
        (0, 2, surface::Layout::Supertiled, false, Board::Gc3000),
        (0, 3, surface::Layout::Tiled, true, Board::Gc2000),
        (0, 4, surface::Layout::Supertiled, true, Board::Gc2000),
    ] {
        let (width, height) = (100, 90);
        // Padded to 128 x 128 or 112 x 96, or not padded.
        let (padded_width, padded_height) = match layout {
            surface::Layout::Supertiled => (128, 128),
            _ => (112, 96),
        };
        let surface = Surface {
            bases: [0x1000_0000, 0x1000_0000 + padded_width * padded_height * 2],
            stride: if addressing == 3 {
                4 * padded_width
            } else {
                16 * padded_width
            },
            bytes: 4,
            layout,
            is_split,
        };
        let mut memory = Plain::new((4 * padded_width * padded_height) as usize);
        for y in 0..height {
            for x in 0..width {
                memory.put(surface.address(x, y), &[x as u8, y as u8, 0, 255]);
            }
        }
        let wanted = Wanted {
            board,
            size: (width, height),
            addressing,
            alignment,
            stride: 4 * padded_width,
            ..Wanted::default()
        };
        let mut seen = 0;
        for start in (0..width * height).step_by(LANES) {
            let pixel = |lane: usize| {
                let index = (start + lane as u32).min(width * height - 1);
                (index % width, index / width)
            };
            let at = |lane: usize| {
                let (x, y) = pixel(lane);
                [
                    (x as f32 + 0.5) / width as f32,
                    (y as f32 + 0.5) / height as f32,
                    0.0,
                ]
            };
            let addresses = [0x1000_0000];
            let found = sample(&wanted, &addresses, &mut memory, at, Lod::Derived(None));
            for (lane, texel) in found.iter().enumerate() {
                let (x, y) = pixel(lane);
                let found = [texel[2], texel[1]].map(|c| (c * 255.0).round() as u32);
                assert_eq!(found, [x, y], "{layout:?} {is_split}");
                seen += 1;
            }
        }
        assert!(seen >= width * height);
    }
}

/// A luminance texture of one byte per texel: 4 x 4 texels, padded to 16 x 4. Each texel is its number times 10.
fn luminance() -> (Wanted, Plain) {
    let mut memory = Plain::new(64);
    let bytes: Vec<u8> = (0..16).map(|number| number * 10).collect();
    memory.put(0x1000_0000, &bytes);
    let wanted = Wanted {
        size: (4, 4),
        format: (2, 0),
        ..Wanted::default()
    };
    (wanted, memory)
}

fn level(texel: Texel) -> f32 {
    texel[0] * 255.0
}

#[test]
fn texels_are_wrapped() {
    let (mut wanted, mut memory) = luminance();
    // Columns -6 to 9 of row 0.
    for (wrap, columns) in [
        (REPEAT, [2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        (MIRROR, [2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1]),
        (EDGE, [0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3]),
        (
            BORDER,
            [-1, -1, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1, -1, -1, -1, -1],
        ),
    ] {
        wanted.wrap = wrap;
        for (step, column) in columns.iter().enumerate() {
            let s = (step as f32 - 5.5) / 4.0;
            let found = one(&wanted, &mut memory, [s, 0.3, 0.0]);
            let texel = match column {
                -1 => [0.0; 4],
                column => {
                    let value = (40 + 10 * column) as f32 / 255.0;
                    [value, value, value, 1.0]
                }
            };
            assert!(near(found, texel), "mode {wrap}, {s}: {found:?}");
            let found = one(&wanted, &mut memory, [0.3, s, 0.0]);
            let value = (10 + 40 * column) as f32 / 255.0;
            assert!(
                *column == -1 || near(found, [value, value, value, 1.0]),
                "{wrap} {s}"
            );
        }
    }
}

#[test]
fn texels_are_interpolated() {
    let (mut wanted, mut memory) = luminance();
    wanted.min = LINEAR;
    wanted.mag = LINEAR;
    let mut at = |wrap: u32, s: f32, t: f32| {
        wanted.wrap = wrap;
        let texel = one(&wanted, &mut memory, [s, t, 0.0]);
        (level(texel) * 1000.0).round() / 1000.0
    };
    // On a texel, between two texels, between four texels.
    assert_eq!(at(EDGE, 1.5 / 4.0, 1.5 / 4.0), 50.0);
    assert_eq!(at(EDGE, 2.0 / 4.0, 1.5 / 4.0), 55.0);
    assert_eq!(at(EDGE, 1.75 / 4.0, 2.25 / 4.0), 50.0 + 2.5 + 30.0);
    // At the left edge, and in the corner.
    assert_eq!(at(EDGE, 0.0, 0.5 / 4.0), 0.0);
    assert_eq!(at(EDGE, 1.0, 1.0), 150.0);
    assert_eq!(at(REPEAT, 0.0, 0.5 / 4.0), 15.0);
    assert_eq!(at(REPEAT, 0.0, 0.0), 75.0);
    assert_eq!(at(MIRROR, 0.0, 1.5 / 4.0), 40.0);
    assert_eq!(at(BORDER, 1.0, 0.5 / 4.0), 15.0);
}

/// A texture of 8 x 8 with four levels. All texels of level n are 10 * (n + 1).
fn levels() -> (Wanted, Plain, [u32; 4]) {
    let mut memory = Plain::new(512);
    let addresses = [0, 256, 320, 384].map(|offset| 0x1000_0000 + offset);
    for (number, address) in addresses.iter().enumerate() {
        memory.put(*address, &[10 * (number as u8 + 1); 64]);
    }
    let wanted = Wanted {
        format: (2, 0),
        lod: (0, 3 * 32, 0),
        ..Wanted::default()
    };
    (wanted, memory, addresses)
}

/// Luminance of the first lane if a step of one pixel is this many texels.
fn with_step(wanted: &Wanted, texels: (f32, f32), lod: Option<Lod<'_>>) -> f32 {
    let (_, mut memory, addresses) = levels();
    let at = |lane: usize| {
        let (x, y) = ((lane & 1) as f32, (lane >> 1 & 1) as f32);
        [0.3 + x * texels.0 / 8.0, 0.3 + y * texels.1 / 8.0, 0.0]
    };
    let lod = lod.unwrap_or(Lod::Derived(None));
    (level(sample(wanted, &addresses, &mut memory, at, lod)[0]) * 100.0).round() / 100.0
}

#[test]
fn levels_follow_the_step() {
    let (mut wanted, ..) = levels();
    wanted.mip = NEAREST;
    let nearest = |x: f32, y: f32| with_step(&wanted, (x, y), None);
    assert_eq!([nearest(1.0, 1.0), nearest(0.1, 0.5)], [10.0, 10.0]);
    assert_eq!([nearest(2.0, 1.0), nearest(0.1, 2.0)], [20.0, 20.0]);
    assert_eq!([nearest(1.4, 0.0), nearest(1.5, 0.0)], [10.0, 20.0]);
    assert_eq!([nearest(4.0, 0.0), nearest(1000.0, 0.0)], [30.0, 40.0]);
    wanted.mip = LINEAR;
    let linear = |x: f32| with_step(&wanted, (x, 0.0), None);
    assert_eq!(
        [linear(1.0), linear(2.0), linear(8.0), linear(64.0)],
        [10.0, 20.0, 40.0, 40.0]
    );
    let half = linear(std::f32::consts::SQRT_2);
    assert!((half - 15.0).abs() < 0.02, "{half}");
    // Limits.
    wanted.lod = (32, 2 * 32, 0);
    assert_eq!(
        [1.0, 64.0].map(|step| with_step(&wanted, (step, 0.0), None)),
        [20.0, 30.0]
    );
    // A bias in the state, and a bias of the instruction.
    wanted.lod = (0, 3 * 32, -32);
    assert_eq!(with_step(&wanted, (4.0, 0.0), None), 20.0);
    wanted.lod = (0, 3 * 32, 0);
    let bias = [1.5; LANES];
    assert_eq!(
        with_step(&wanted, (2.0, 0.0), Some(Lod::Derived(Some(&bias)))),
        35.0
    );
    assert_eq!(
        with_step(&wanted, (1.0, 0.0), Some(Lod::Given(&bias))),
        25.0
    );
    let (none, quarter) = ([0.0; LANES], [0.25; LANES]);
    let gradients = Lod::Gradients([&none; 3], [&none, &quarter, &none]);
    assert_eq!(with_step(&wanted, (8.0, 0.0), Some(gradients)), 20.0);
    // Without levels, the lowest permitted level.
    wanted.mip = 0;
    wanted.lod = (64, 64, 0);
    assert_eq!(with_step(&wanted, (1.0, 0.0), None), 30.0);
}

#[test]
fn filters_change_where_texels_become_small() {
    let (mut wanted, mut memory) = luminance();
    wanted.min = LINEAR;
    wanted.lod = (0, 1, 0);
    let addresses = [memory.base];
    let mut with = |wanted: &Wanted, step: f32| {
        let at = |lane: usize| [(1.9 + (lane & 1) as f32 * step) / 4.0, 0.5 / 4.0, 0.0];
        level(sample(wanted, &addresses, &mut memory, at, Lod::Derived(None))[0])
    };
    assert!((with(&wanted, 0.5) - 10.0).abs() < 1e-3);
    assert!((with(&wanted, 1.5) - 14.0).abs() < 1e-3);
    // Learned from the GC3000: with no level above 0, the minification filter is never used.
    wanted.lod = (0, 0, 0);
    assert!((with(&wanted, 1.5) - 10.0).abs() < 1e-3);
}

/// A cube with faces of 4 x 4 texels: luminance is 40 per face, red and green are column and row.
fn cube() -> (Wanted, Plain) {
    let mut memory = Plain::new(6 * 256);
    for face in 0..6u32 {
        for index in 0..16u32 {
            let texel = [(40 * face) as u8, (index / 4) as u8, (index % 4) as u8, 255];
            memory.put(0x1000_0000 + face * 256 + 4 * index, &texel);
        }
    }
    let wanted = Wanted {
        kind: 5,
        size: (4, 4),
        ..Wanted::default()
    };
    (wanted, memory)
}

/// Face, column and row of a texel.
fn place(texel: Texel) -> [i32; 3] {
    let [column, row, face, _] = texel.map(|c| (c * 255.0).round() as i32);
    [face / 40, column, row]
}

#[test]
fn directions_lead_to_faces() {
    let (wanted, mut memory) = cube();
    for (direction, wanted_place) in [
        // On +x, s runs along -z and t along -y.
        ([1.0, 0.4, 0.9], [0, 0, 1]),
        ([2.0, -1.8, -1.8], [0, 3, 3]),
        ([-1.0, 0.9, -0.4], [1, 1, 0]),
        ([0.9, 1.0, -0.9], [2, 3, 0]),
        ([-0.4, 3.0, 2.9], [2, 1, 3]),
        ([0.4, -1.0, 0.9], [3, 2, 0]),
        ([0.9, 0.4, 1.0], [4, 3, 1]),
        ([0.9, 0.4, -1.0], [5, 0, 1]),
    ] {
        let found = place(one(&wanted, &mut memory, direction));
        assert_eq!(found, wanted_place, "{direction:?}");
    }
}

#[test]
fn only_seamless_cubes_mix_faces() {
    let (mut wanted, mut memory) = cube();
    wanted.min = LINEAR;
    wanted.mag = LINEAR;
    wanted.board = Board::Gc3000;
    // The edge between +z and +x: halfway between face 4 and face 0.
    let edge = [1.0, 0.25, 1.0 + 1e-6];
    let found = one(&wanted, &mut memory, edge)[2] * 255.0;
    assert!((found - 160.0).abs() < 1e-2, "{found}");
    wanted.more |= 1 << 25;
    let texel = one(&wanted, &mut memory, edge).map(|c| c * 255.0);
    assert!((texel[2] - 80.0).abs() < 1e-2, "{texel:?}");
    // Row 1 on both faces; column 3 of one face, and 0 of the other.
    assert!(
        (texel[1] - 1.0).abs() < 1e-2 && (texel[0] - 1.5).abs() < 1e-2,
        "{texel:?}"
    );
}

#[test]
fn cubes_have_levels() {
    let (mut wanted, mut memory, addresses) = levels();
    memory.bytes.resize(1 << 12, 0);
    let faces = [0u32, 1024, 2048, 3072].map(|offset| 0x1000_0000 + offset);
    for (number, address) in faces.iter().enumerate() {
        memory.put(
            *address,
            &[10 * (number as u8 + 1); 768][..if number == 3 { 384 } else { 768 }],
        );
    }
    assert_eq!(addresses.len(), faces.len());
    wanted.kind = 5;
    wanted.mip = LINEAR;
    wanted.alignment = 1;
    wanted.size = (8, 8);
    // A step of 1/2 in a direction of length 2 is one of 8 * 0.5 * (0.5 / 2) = 1 texel.
    for (step, luminance) in [(0.5, 10.0), (1.0, 20.0), (2.0, 30.0)] {
        let at = |lane: usize| [2.0, 0.0, 0.1 + (lane & 1) as f32 * step];
        let found = level(sample(&wanted, &faces, &mut memory, at, Lod::Derived(None))[0]);
        assert!((found - luminance).abs() < 0.05, "{step}: {found}");
    }
}

#[test]
fn volumes_have_slices() {
    let mut memory = Plain::new(4 * 64);
    for slice in 0..4u32 {
        memory.put(0x1000_0000 + 64 * slice, &[20 * slice as u8; 64]);
    }
    let mut wanted = Wanted {
        kind: 3,
        size: (4, 4),
        format: (2, 0),
        volume: 4,
        ..Wanted::default()
    };
    let mut at = |wanted: &Wanted, r: f32| level(one(wanted, &mut memory, [0.4, 0.4, r])).round();
    assert_eq!(
        [at(&wanted, 0.3), at(&wanted, 0.8), at(&wanted, 7.0)],
        [20.0, 60.0, 60.0]
    );
    wanted.min = LINEAR;
    wanted.mag = LINEAR;
    assert_eq!([at(&wanted, 0.5), at(&wanted, 0.625)], [30.0, 40.0]);
    wanted.more |= 1 << 24;
    assert_eq!(
        [at(&wanted, 1.4), at(&wanted, 1.6), at(&wanted, 9.0)],
        [20.0, 40.0, 60.0]
    );
}

#[test]
fn channels_are_exchanged_where_the_core_can() {
    let mut memory = Plain::new(256);
    memory.put(0x1000_0000, &0x1122_3344u32.to_le_bytes());
    let mut wanted = Wanted {
        size: (4, 4),
        alignment: 0,
        more: 0x0045_0300,
        ..Wanted::default()
    };
    let [r, g, b, a] = [0x22, 0x33, 0x44, 0x11].map(|c| c as f32 / 255.0);
    let found = one(&wanted, &mut memory, [0.1; 3]);
    assert!(near(found, [a, r, 1.0, 0.0]), "{found:?}");
    wanted.board = Board::Dove;
    let found = one(&wanted, &mut memory, [0.1; 3]);
    assert!(near(found, [r, g, b, a]), "{found:?}");
}

#[test]
fn depth_is_compared() {
    let mut memory = Plain::new(256);
    memory.put(0x1000_0000, &[0, 0x80, 0, 0x40, 0xff, 0xff]);
    let wanted = Wanted {
        board: Board::Gc3000,
        size: (4, 4),
        format: (16, 0),
        min: LINEAR,
        mag: LINEAR,
        // Reference <= depth.
        base_lod: 1 << 16,
        ..Wanted::default()
    };
    let equal = Wanted {
        base_lod: 1 << 16 | 4 << 20,
        ..wanted
    };
    let setups = [&wanted, &equal].map(|wanted| wanted.setup(&[memory.base]).unwrap());
    let mut cache = Cache::default();
    let mut units = Units {
        setups: &setups,
        memory: &mut memory,
        cache: &mut cache,
        has_derivatives: true,
        requests: 0,
        texels: 0,
    };
    // Between the first two texels, with depths 0.5 and 0.25.
    let s: Lane = [1.0 / 4.0; LANES];
    let t: Lane = [0.0; LANES];
    let reference: Lane = std::array::from_fn(|lane| [0.2, 0.4, 0.6][lane % 3]);
    let lookup = Lookup {
        unit: 0,
        coordinates: [&s, &t, &t, &t],
        lod: Lod::Derived(None),
        reference: Some(&reference),
        mask: 0b111,
    };
    let mut out = [[9.0; LANES]; 4];
    assert_eq!(units.sample(&lookup, &mut out), Ok(()));
    assert_eq!(out[0][..4], [1.0, 0.5, 0.0, 9.0]);
    assert_eq!((units.requests, units.texels), (3, 12));
    // Between the next two texels, with depths 1 and 0: a reference above 1 equals the first, one below 0 the second.
    let s: Lane = [3.0 / 4.0; LANES];
    let reference: Lane = std::array::from_fn(|lane| [2.0, -1.0, 0.5][lane % 3]);
    let lookup = Lookup {
        unit: 1,
        coordinates: [&s, &t, &t, &t],
        reference: Some(&reference),
        ..lookup
    };
    assert_eq!(units.sample(&lookup, &mut out), Ok(()));
    assert_eq!(out[0][..4], [0.5, 0.5, 0.0, 9.0]);
}

#[test]
fn cleared_tiles_have_the_clear_value() {
    let mut memory = Plain::new(0x1000);
    // 16 x 4 texels are four tiles of 64 bytes; the second one is cleared.
    memory.put(0x1000_0000, &[0x22; 256]);
    memory.put(0x1000_0800, &[0b0100]);
    let wanted = Wanted {
        board: Board::Gc3000,
        size: (16, 4),
        more: IDENTITY | 1 << 30,
        ..Wanted::default()
    };
    let mut state = wanted.state(5, &[0x1000_0000]);
    state.insert(0x1720 + 20, 1);
    state.insert(0x1740 + 20, 0x1000_0800);
    state.insert(0x1760 + 20, 0xff00_ff00);
    let read = |address: u32| state.get(&address).copied().unwrap_or_default();
    let setup = Setup::read(&features(Board::Gc3000), 5, &read).unwrap();
    let mut cache = Cache::default();
    let setup = setup.unwrap();
    let mut texel = |column| {
        cache
            .find(&setup, (0, 0), (column, 0), &mut memory)
            .unwrap()[0][1]
    };
    assert_eq!(
        [texel(0), texel(1), texel(2)],
        [34.0 / 255.0, 1.0, 34.0 / 255.0]
    );
}

#[test]
fn the_cache_forgets_when_it_is_told() {
    let (wanted, mut memory) = luminance();
    let setup = wanted.setup(&[memory.base]).unwrap().unwrap();
    let mut cache = Cache::default();
    let first = |cache: &mut Cache, memory: &mut Plain| {
        let tile = cache.find(&setup, (0, 0), (0, 0), memory).unwrap();
        (tile[1][0] * 255.0).round()
    };
    assert_eq!(first(&mut cache, &mut memory), 10.0);
    memory.put(0x1000_0001, &[77]);
    assert_eq!((first(&mut cache, &mut memory), memory.reads), (10.0, 1));
    cache.drop_all();
    assert_eq!((first(&mut cache, &mut memory), cache.misses), (77.0, 2));
}

#[test]
fn what_is_not_there_is_said() {
    let mut memory = Plain::new(0);
    let setup = Wanted::default().setup(&[0x2000_0000]).unwrap();
    let mut cache = Cache::default();
    let mut units = Units {
        setups: &[None, setup],
        memory: &mut memory,
        cache: &mut cache,
        has_derivatives: true,
        requests: 0,
        texels: 0,
    };
    let zero: Lane = [0.0; LANES];
    let mut out = [zero; 4];
    for (unit, fault) in [
        (0, Fault::Sampler(0)),
        (1, Fault::Memory(0x2000_0000)),
        (2, Fault::Sampler(2)),
    ] {
        let lookup = Lookup {
            unit,
            coordinates: [&zero; 4],
            lod: Lod::Derived(None),
            reference: None,
            mask: 1,
        };
        assert_eq!(units.sample(&lookup, &mut out), Err(fault));
    }
}

#[test]
fn mistakes_are_found() {
    let base = Wanted::default();
    let mistake = |wanted: Wanted| wanted.setup(&[0]).err();
    assert!(Wanted { kind: 0, ..base }.setup(&[0]).unwrap().is_none());
    assert_eq!(mistake(base), None);
    assert_eq!(mistake(Wanted { kind: 4, ..base }), Some(Mistake::Type(4)));
    assert_eq!(
        mistake(Wanted {
            size: (0, 4),
            ..base
        }),
        Some(Mistake::Empty)
    );
    let dove = Wanted {
        board: Board::Dove,
        ..base
    };
    assert_eq!(
        mistake(Wanted {
            size: (4096, 4),
            ..dove
        }),
        Some(Mistake::Empty)
    );
    assert_eq!(
        mistake(Wanted {
            size: (4096, 4),
            ..base
        }),
        None
    );
    // Sizes that are not powers of two.
    let odd = Wanted {
        size: (6, 4),
        ..dove
    };
    assert_eq!(mistake(odd), None);
    assert_eq!(
        mistake(Wanted {
            wrap: REPEAT,
            ..odd
        }),
        Some(Mistake::Size(6, 4))
    );
    assert_eq!(
        mistake(Wanted {
            mip: NEAREST,
            ..odd
        }),
        Some(Mistake::Size(6, 4))
    );
    assert_eq!(
        mistake(Wanted {
            wrap: REPEAT,
            size: (6, 4),
            ..base
        }),
        None
    );
    // Layouts.
    assert_eq!(
        mistake(Wanted {
            addressing: 3,
            ..dove
        }),
        Some(Mistake::Layout(0x30))
    );
    assert_eq!(
        mistake(Wanted {
            alignment: 2,
            ..base
        }),
        Some(Mistake::Layout(2))
    );
    assert_eq!(
        mistake(Wanted {
            addressing: 1,
            ..base
        }),
        Some(Mistake::Layout(0x10))
    );
    // Formats: HALTI0 introduced ETC2, only the GC3000 has half floats, and ASTC is not modeled.
    for (format, has) in [
        ((30, 0), [true, true, true]),
        ((18, 0), [false, false, false]),
        ((0, 2), [false, true, true]),
        ((0, 7), [false, false, true]),
        ((0, 20), [false, false, false]),
    ] {
        for (board, has) in [Board::Dove, Board::Gc880, Board::Gc3000]
            .into_iter()
            .zip(has)
        {
            let wanted = (!has).then_some(Mistake::Format(format.0, format.1));
            assert_eq!(
                mistake(Wanted {
                    board,
                    format,
                    ..base
                }),
                wanted,
                "{board:?} {format:?}"
            );
        }
    }
}
