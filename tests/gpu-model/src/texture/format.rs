// SPDX-License-Identifier: GPL-2.0-only
//! Texture formats: sizes and decoding.
//!
//! Facts: Mesa's texture formats in `common_3d.xml`; the compressed formats as defined by OpenGL ES 3 and its
//! extensions.

use super::Features;
use crate::shader::half;

/// A texel: red, green, blue, alpha.
pub type Texel = [f32; 4];

/// 4 x 4 texels, row by row.
pub type Tile = [Texel; 16];

/// A format: the number in CONFIG0, or 64 plus the number in CONFIG1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    code: u32,
    is_srgb: bool,
    /// The core swaps the two base colors of ETC2's T mode.
    swaps_t_mode: bool,
}

const EXTENDED: u32 = 64;

impl Format {
    /// The format with these numbers, if both core and model support it.
    pub(super) fn new(base: u32, extended: u32, is_srgb: bool, core: &Features) -> Option<Self> {
        let code = if base == 0 { EXTENDED + extended } else { base };
        let is_there = match code {
            1..=13 | 16 | 17 | 19..=21 | 30 => true,
            // ETC2, formats with red and green, and 10 bits per color.
            64..=70 | 76 | 77 => core.has_halti0,
            // Half floats.
            71..=73 => core.has_half_floats,
            29 | 74 | 75 | 78..=81 | 91 | 97 | 98 => core.has_halti2,
            _ => false,
        };
        is_there.then_some(Self {
            code,
            is_srgb,
            swaps_t_mode: !core.has_halti1,
        })
    }

    /// Bytes per 4 x 4 texels, if they are compressed together.
    pub(super) fn block_bytes(self) -> Option<u32> {
        match self.code {
            19 | 30 | 64 | 65 | 67 | 77 => Some(8),
            20 | 21 | 66 | 68 | 69 => Some(16),
            _ => None,
        }
    }

    /// Bytes per texel.
    pub(super) fn bytes(self) -> u32 {
        match self.code {
            1..=3 | 78 | 97 => 1,
            4..=6 | 11..=13 | 16 | 70 | 71 | 79 => 2,
            73 | 75 => 8,
            _ => 4,
        }
    }

    /// A number that is unique for the format.
    pub(super) fn key(self) -> u64 {
        u64::from(self.code) << 2 | u64::from(self.swaps_t_mode) << 1 | u64::from(self.is_srgb)
    }

    /// Decodes 4 x 4 texels. `bytes` must hold all of them.
    pub(super) fn decode(self, bytes: &[u8], tile: &mut Tile) {
        match self.code {
            19 => dxt_colors(bytes, false, tile),
            20 => {
                dxt_colors(&bytes[8..], true, tile);
                for (index, texel) in tile.iter_mut().enumerate() {
                    texel[3] = f32::from(bytes[index / 2] >> (4 * (index % 2)) & 15) / 15.0;
                }
            }
            21 => {
                dxt_colors(&bytes[8..], true, tile);
                dxt_alpha(bytes, tile);
            }
            30 | 64 => self.etc(bytes, false, tile),
            65 => self.etc(bytes, true, tile),
            66 => {
                self.etc(&bytes[8..], false, tile);
                eac(bytes, tile, 3, 255.0, |value| (value / 8).clamp(0, 255));
            }
            67 => eac(bytes, tile, 0, 2047.0, |value| (value + 4).clamp(0, 2047)),
            68 => {
                eac(bytes, tile, 0, 2047.0, |value| (value + 4).clamp(0, 2047));
                eac(&bytes[8..], tile, 1, 2047.0, |value| {
                    (value + 4).clamp(0, 2047)
                });
            }
            77 => eac_signed(bytes, tile, 0),
            69 => {
                eac_signed(bytes, tile, 0);
                eac_signed(&bytes[8..], tile, 1);
            }
            _ => {
                let texels = bytes.chunks_exact(self.bytes() as usize);
                for (texel, bytes) in tile.iter_mut().zip(texels) {
                    *texel = self.texel(bytes);
                }
            }
        }
        if matches!(self.code, 67 | 68 | 69 | 77) {
            for texel in tile.iter_mut() {
                texel[2] = 0.0;
                texel[3] = 1.0;
                if self.code == 67 || self.code == 77 {
                    texel[1] = 0.0;
                }
            }
        }
        if self.is_srgb {
            for color in tile.iter_mut().flat_map(|texel| &mut texel[..3]) {
                *color = match *color {
                    dark if dark <= 0.04045 => dark / 12.92,
                    light => ((light + 0.055) / 1.055).powf(2.4),
                };
            }
        }
    }

    /// Decodes a single texel.
    fn texel(self, bytes: &[u8]) -> Texel {
        let word = bytes
            .iter()
            .rev()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let part = |low: u32, bits: u32| {
            let most = (1u32 << bits) - 1;
            (word as u32 >> low & most) as f32 / most as f32
        };
        let signed = |low: u32| f32::from((word >> low) as i8).max(-127.0) / 127.0;
        let half = |low: u32| half((word >> low) as u16);
        let float = |low: u32| f32::from_bits((word >> low) as u32);
        match self.code {
            1 => [0.0, 0.0, 0.0, part(0, 8)],
            2 => [part(0, 8), part(0, 8), part(0, 8), 1.0],
            3 => [part(0, 8); 4],
            4 => [part(0, 8), part(0, 8), part(0, 8), part(8, 8)],
            5 => [part(8, 4), part(4, 4), part(0, 4), part(12, 4)],
            6 => [part(8, 4), part(4, 4), part(0, 4), 1.0],
            7 => [part(16, 8), part(8, 8), part(0, 8), part(24, 8)],
            8 => [part(16, 8), part(8, 8), part(0, 8), 1.0],
            9 => [part(0, 8), part(8, 8), part(16, 8), part(24, 8)],
            10 => [part(0, 8), part(8, 8), part(16, 8), 1.0],
            11 => [part(11, 5), part(5, 6), part(0, 5), 1.0],
            12 => [part(10, 5), part(5, 5), part(0, 5), part(15, 1)],
            13 => [part(10, 5), part(5, 5), part(0, 5), 1.0],
            16 => [part(0, 16), part(0, 16), part(0, 16), 1.0],
            17 | 98 => [part(8, 24), part(8, 24), part(8, 24), 1.0],
            29 => {
                let scale = ((word >> 27) as f32 - 24.0).exp2();
                let color = |low: u32| (word >> low & 0x1ff) as f32 * scale;
                [color(0), color(9), color(18), 1.0]
            }
            70 => [part(0, 8), part(8, 8), 0.0, 1.0],
            71 => [half(0), 0.0, 0.0, 1.0],
            72 => [half(0), half(16), 0.0, 1.0],
            73 => [half(0), half(16), half(32), half(48)],
            74 => [float(0), 0.0, 0.0, 1.0],
            75 => [float(0), float(32), 0.0, 1.0],
            76 => [part(0, 10), part(10, 10), part(20, 10), part(30, 2)],
            78 => [signed(0), 0.0, 0.0, 1.0],
            79 => [signed(0), signed(8), 0.0, 1.0],
            80 => [signed(0), signed(8), signed(16), 1.0],
            81 => [signed(0), signed(8), signed(16), signed(24)],
            91 => {
                // A half float without sign and low bits.
                let color = |low: u32, bits: u32| {
                    let value = (word >> low) as u16 & ((1 << bits) - 1);
                    crate::shader::half(value << (15 - bits))
                };
                [color(0, 11), color(11, 11), color(22, 10), 1.0]
            }
            _ => [part(0, 8), 0.0, 0.0, 1.0],
        }
    }

    fn etc(self, bytes: &[u8], has_holes: bool, tile: &mut Tile) {
        // Big endian, unlike everything else.
        let word = bytes[..8]
            .iter()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let is_etc1 = self.code == 30;
        etc_colors(word, is_etc1, has_holes, self.swaps_t_mode, tile);
    }
}

fn rgb565(color: u16) -> [f32; 3] {
    let part = |low: u32, most: u16| f32::from(color >> low & most) / f32::from(most);
    [part(11, 31), part(5, 63), part(0, 31)]
}

/// The colors of a DXT block. `is_opaque`: the format stores alpha elsewhere and always has four colors.
fn dxt_colors(bytes: &[u8], is_opaque: bool, tile: &mut Tile) {
    let ends = [0, 2].map(|at| u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let [a, b] = ends.map(rgb565);
    let mix = |weight: f32| {
        let color: [f32; 3] = std::array::from_fn(|c| a[c] + (b[c] - a[c]) * weight);
        [color[0], color[1], color[2], 1.0]
    };
    let colors = if is_opaque || ends[0] > ends[1] {
        [mix(0.0), mix(1.0), mix(1.0 / 3.0), mix(2.0 / 3.0)]
    } else {
        [mix(0.0), mix(1.0), mix(0.5), [0.0; 4]]
    };
    for (index, texel) in tile.iter_mut().enumerate() {
        *texel = colors[usize::from(bytes[4 + index / 4] >> (2 * (index % 4)) & 3)];
    }
}

/// The alpha of a DXT5 block.
fn dxt_alpha(bytes: &[u8], tile: &mut Tile) {
    let [a, b] = [f32::from(bytes[0]), f32::from(bytes[1])];
    let indices = bytes[2..8]
        .iter()
        .rev()
        .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    for (index, texel) in tile.iter_mut().enumerate() {
        let alpha = match (indices >> (3 * index) & 7) as u8 {
            0 => a,
            1 => b,
            number if bytes[0] > bytes[1] => a + (b - a) * f32::from(number - 1) / 7.0,
            6 => 0.0,
            7 => 255.0,
            number => a + (b - a) * f32::from(number - 1) / 5.0,
        };
        texel[3] = alpha / 255.0;
    }
}

/// Modifiers that ETC texels add to the color of their half: small and large, by table.
const ETC_STEPS: [[i32; 2]; 8] = [
    [2, 8],
    [5, 17],
    [9, 29],
    [13, 42],
    [18, 60],
    [24, 80],
    [33, 106],
    [47, 183],
];

/// Distances of ETC2's T and H modes.
const ETC_DISTANCES: [i32; 8] = [3, 6, 11, 16, 23, 32, 41, 64];

fn widen(value: i32, bits: u32) -> i32 {
    (value << (8 - bits)) | (value >> (2 * bits - 8))
}

fn etc_texel(color: [i32; 3]) -> Texel {
    let part = |color: i32| color.clamp(0, 255) as f32 / 255.0;
    [part(color[0]), part(color[1]), part(color[2]), 1.0]
}

/// The colors of an ETC block. The block's first byte is the highest byte of `word`.
fn etc_colors(word: u64, is_etc1: bool, has_holes: bool, swaps_t_mode: bool, tile: &mut Tile) {
    let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as i32;
    // In formats with holes, the differential bit means that the block is opaque, and all blocks are differential.
    let is_full = !has_holes || field(33, 1) != 0;
    let is_differential = has_holes || field(33, 1) != 0;
    let base = [59, 51, 43].map(|low| field(low, 5));
    let delta = [56, 48, 40].map(|low| field(low, 3) << 29 >> 29);
    let sum: [i32; 3] = std::array::from_fn(|c| base[c] + delta[c]);
    let index = |texel: usize| {
        // Column by column: first the high bits of all texels, then the low bits.
        let at = (texel % 4 * 4 + texel / 4) as u32;
        (field(16 + at, 1) << 1 | field(at, 1)) as usize
    };
    let beyond = sum.iter().position(|sum| !(0..32).contains(sum));
    if let Some(mode) = beyond.filter(|_| is_differential && !is_etc1) {
        if mode == 2 {
            return etc_plane(word, tile);
        }
        let colors = match mode {
            0 => t_mode(word, swaps_t_mode),
            _ => h_mode(word),
        };
        for (at, texel) in tile.iter_mut().enumerate() {
            *texel = match index(at) {
                2 if !is_full => [0.0; 4],
                number => etc_texel(colors[number]),
            };
        }
        return;
    }
    let halves: [[i32; 3]; 2] = if is_differential {
        [base, sum].map(|half| half.map(|color| widen(color & 31, 5)))
    } else {
        [[60, 52, 44], [56, 48, 40]].map(|half| half.map(|low| field(low, 4) * 17))
    };
    let tables = [field(37, 3), field(34, 3)].map(|table| ETC_STEPS[table as usize]);
    let is_flipped = field(32, 1) != 0;
    for (at, texel) in tile.iter_mut().enumerate() {
        let half = if is_flipped { at / 8 } else { at % 4 / 2 };
        let [small, large] = tables[half];
        let step = match index(at) {
            2 if !is_full => {
                *texel = [0.0; 4];
                continue;
            }
            0 if !is_full => 0,
            0 => small,
            1 => large,
            2 => -small,
            _ => -large,
        };
        *texel = etc_texel(halves[half].map(|color| color + step));
    }
}

/// The four colors of a block in T mode: one color, and three around another.
fn t_mode(word: u64, is_swapped: bool) -> [[i32; 3]; 4] {
    let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as i32;
    let first = [field(59, 2) << 2 | field(56, 2), field(52, 4), field(48, 4)];
    let second = [44, 40, 36].map(|low| field(low, 4));
    let (first, second) = if is_swapped {
        (second, first)
    } else {
        (first, second)
    };
    let [first, second] = [first, second].map(|color| color.map(|color| color * 17));
    let distance = ETC_DISTANCES[(field(34, 2) << 1 | field(32, 1)) as usize];
    [
        first,
        second.map(|color| color + distance),
        second,
        second.map(|color| color - distance),
    ]
}

/// The four colors of a block in H mode: two around each of two colors.
fn h_mode(word: u64) -> [[i32; 3]; 4] {
    let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as i32;
    let first = [
        field(59, 4),
        field(56, 3) << 1 | field(52, 1),
        field(51, 1) << 3 | field(47, 3),
    ];
    let second = [field(43, 4), field(39, 4), field(35, 4)];
    let number = |color: [i32; 3]| color[0] << 8 | color[1] << 4 | color[2];
    // The order of the two colors supplies one bit of the distance.
    let order = i32::from(number(first) >= number(second));
    let distance = ETC_DISTANCES[(field(34, 1) << 2 | field(32, 1) << 1 | order) as usize];
    let [first, second] = [first, second].map(|color| color.map(|color| color * 17));
    [
        first.map(|color| color + distance),
        first.map(|color| color - distance),
        second.map(|color| color + distance),
        second.map(|color| color - distance),
    ]
}

/// ETC2's planar mode: interpolates between three corners.
fn etc_plane(word: u64, tile: &mut Tile) {
    let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as i32;
    let origin = [
        widen(field(57, 6), 6),
        widen(field(56, 1) << 6 | field(49, 6), 7),
        widen(field(48, 1) << 5 | field(43, 2) << 3 | field(39, 3), 6),
    ];
    let right = [
        widen(field(34, 5) << 1 | field(32, 1), 6),
        widen(field(25, 7), 7),
        widen(field(19, 6), 6),
    ];
    let below = [
        widen(field(13, 6), 6),
        widen(field(6, 7), 7),
        widen(field(0, 6), 6),
    ];
    for (at, texel) in tile.iter_mut().enumerate() {
        let (x, y) = (at as i32 % 4, at as i32 / 4);
        *texel = etc_texel(std::array::from_fn(|c| {
            let (origin, right, below) = (origin[c], right[c], below[c]);
            (x * (right - origin) + y * (below - origin) + 4 * origin + 2) >> 2
        }));
    }
}

/// Modifiers that EAC texels add, by table.
const EAC_STEPS: [[i32; 8]; 16] = [
    [-3, -6, -9, -15, 2, 5, 8, 14],
    [-3, -7, -10, -13, 2, 6, 9, 12],
    [-2, -5, -8, -13, 1, 4, 7, 12],
    [-2, -4, -6, -13, 1, 3, 5, 12],
    [-3, -6, -8, -12, 2, 5, 7, 11],
    [-3, -7, -9, -11, 2, 6, 8, 10],
    [-4, -7, -8, -11, 3, 6, 7, 10],
    [-3, -5, -8, -11, 2, 4, 7, 10],
    [-2, -6, -8, -10, 1, 5, 7, 9],
    [-2, -5, -8, -10, 1, 4, 7, 9],
    [-2, -4, -8, -10, 1, 3, 7, 9],
    [-2, -5, -7, -10, 1, 4, 6, 9],
    [-3, -4, -7, -10, 2, 3, 6, 9],
    [-1, -2, -3, -10, 0, 1, 2, 9],
    [-4, -6, -8, -9, 3, 5, 7, 8],
    [-3, -5, -7, -9, 2, 4, 6, 8],
];

/// The value of each texel in eighths of the base's unit: base plus step times multiplier. A multiplier of 0 means one
/// eighth.
fn eac_values(bytes: &[u8], base: i32) -> [i32; 16] {
    let word = bytes[..8]
        .iter()
        .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let (multiplier, table) = (bytes[1] >> 4, bytes[1] & 15);
    let scale = if multiplier == 0 {
        1
    } else {
        8 * i32::from(multiplier)
    };
    std::array::from_fn(|at| {
        let column_first = (at % 4 * 4 + at / 4) as u32;
        let index = (word >> (45 - 3 * column_first) & 7) as usize;
        base * 8 + EAC_STEPS[usize::from(table)][index] * scale
    })
}

fn eac(bytes: &[u8], tile: &mut Tile, channel: usize, most: f32, end: impl Fn(i32) -> i32) {
    let mut values = eac_values(bytes, bytes[0].into());
    if most == 255.0 && bytes[1] >> 4 == 0 {
        // In 8-bit formats, a multiplier of 0 leaves only the base.
        values = [i32::from(bytes[0]) * 8; 16];
    }
    for (texel, value) in tile.iter_mut().zip(values) {
        texel[channel] = end(value) as f32 / most;
    }
}

fn eac_signed(bytes: &[u8], tile: &mut Tile, channel: usize) {
    let base = i32::from(bytes[0] as i8).max(-127);
    for (texel, value) in tile.iter_mut().zip(eac_values(bytes, base)) {
        texel[channel] = value.clamp(-1023, 1023) as f32 / 1023.0;
    }
}
