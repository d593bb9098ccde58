// SPDX-License-Identifier: GPL-2.0-only
//! The pixel engine: depth, stencil and alpha tests, blending, and surfaces in memory, with their tile status.

use super::raster::lane_at;
use super::raster::lanes;
use super::raster::Block;
use super::raster::BLOCK;
use super::raster::PLACES;
use super::Core;
use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::registers::state::*;
use crate::shader::half;
use crate::shader::Lane;
use crate::shader::LANES;
use crate::surface::Layout;
use crate::surface::Surface;
use crate::tile_status::TileStatus;
use crate::tile_status::TILE;

/// Width and height of a tile in pixels.
const SIDE: usize = 4;
/// Pixels of a tile.
const PIXELS: usize = SIDE * SIDE;
/// Mode of [`PE_LOGIC_OP`] `[9:8]`: one buffer for all pipes, with rows that are not tiled.
const LINEAR: u32 = 1;
/// The logic operation that copies the new color.
const COPY: u32 = 12;
/// Bits of [`PE_DEPTH_CONFIG`].
const DEPTH_WRITE: u32 = 1 << 12;
const EARLY_Z: u32 = 1 << 16;
const ONLY_DEPTH: u32 = 1 << 20;
/// Disables everything after the pixel shader: no stencil, no depth writes. The rasterizer's early test remains active
/// (Mesa's `etna_update_zsa`).
const DISABLE_ZS: u32 = 1 << 24;
/// Bit of [`RA_EARLY_DEPTH`].
const EARLY_TEST: u32 = 1;

/// Whether `new` passes the comparison with `old`.
fn passes<T: PartialOrd>(function: u32, new: T, old: T) -> bool {
    match function & 7 {
        0 => false,
        1 => new < old,
        2 => new == old,
        3 => new <= old,
        4 => new > old,
        5 => new != old,
        6 => new >= old,
        _ => true,
    }
}

/// Applies a stencil operation to a value.
fn stencil(operation: u32, old: u8, reference: u8) -> u8 {
    match operation & 7 {
        0 => old,
        1 => 0,
        2 => reference,
        3 => old.saturating_add(1),
        4 => old.saturating_sub(1),
        5 => !old,
        6 => old.wrapping_add(1),
        _ => old.wrapping_sub(1),
    }
}

/// Clamps a number to 0 to 1 for storage. NaN becomes 0.
fn unit(value: f32) -> f32 {
    if value > 0.0 {
        value.min(1.0)
    } else {
        0.0
    }
}

/// Converts a number from 0 to 1 to this number of bits, rounded to the nearest value. NaN becomes 0.
fn normalized(value: f32, bits: u32) -> u32 {
    let most = (1u32 << bits) - 1;
    whole(unit(value) * most as f32 + 0.5)
}

/// The integer part of a number from 0 to 2^22, in steps that compilers can vectorize. A cast cannot be vectorized,
/// because it handles numbers that are too large.
fn whole(value: f32) -> u32 {
    // Floats from this value on have no fraction.
    const WHOLE: f32 = 8_388_608.0;
    let near = (value + WHOLE) - WHOLE;
    let below = if near > value { near - 1.0 } else { near };
    (below + WHOLE).to_bits() & 0x7f_ffff
}

/// The same for numbers from 0 to 2^31.
fn whole_of_double(value: f64) -> u32 {
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    let near = (value + WHOLE) - WHOLE;
    let below = if near > value { near - 1.0 } else { near };
    (below + WHOLE).to_bits() as u32
}

/// Position of a component in a pixel: first bit and number of bits. 0 bits: absent.
type Field = (u32, u32);

/// Encodes a float without sign in `bits` bits, with a 5-bit exponent like a half float. Rounds down, as Mesa's
/// software does; silicon's rounding is not known.
fn unsigned_float(value: f32, bits: u32) -> u32 {
    let mantissa = bits - 5;
    let infinite = 31 << mantissa;
    if value.is_nan() {
        return infinite | 1;
    }
    let word = value.to_bits();
    let exponent = (word >> 23 & 0xff) as i32 - 127 + 15;
    match exponent {
        _ if value.is_sign_negative() => 0,
        _ if value.is_infinite() => infinite,
        31.. => infinite - 1,
        1.. => (exponent as u32) << mantissa | (word & 0x7f_ffff) >> (23 - mantissa),
        _ => {
            let shift = 24 - mantissa + exponent.unsigned_abs();
            (word & 0x7f_ffff | 0x80_0000)
                .checked_shr(shift)
                .unwrap_or(0)
        }
    }
}

/// A color format: bytes per pixel; fields of red, green, blue, alpha; whether alpha is used; whether components are
/// floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    bytes: u32,
    fields: [Field; 4],
    has_alpha: bool,
    is_float: bool,
}

impl Format {
    fn of(word: u32) -> Option<Self> {
        let none = (0, 0);
        let extended = word >> 24 & 0x7f;
        let code = if extended != 0 {
            0x100 | extended
        } else {
            word & 0xf
        };
        let (bytes, fields) = match code {
            0 | 1 => (2, [(8, 4), (4, 4), (0, 4), (12, 4)]),
            2 | 3 => (2, [(10, 5), (5, 5), (0, 5), (15, 1)]),
            4 => (2, [(11, 5), (5, 6), (0, 5), none]),
            5 | 6 => (4, [(16, 8), (8, 8), (0, 8), (24, 8)]),
            0x110 => (1, [none, none, none, (0, 8)]),
            0x116 => (4, [(0, 10), (10, 10), (20, 10), (30, 2)]),
            0x11d => (4, [(0, 11), (11, 11), (22, 10), none]),
            0x11f => (2, [(0, 8), (8, 8), none, none]),
            0x123 => (1, [(0, 8), none, none, none]),
            _ => return None,
        };
        Some(Self {
            bytes,
            fields,
            has_alpha: !matches!(code, 0 | 2 | 5) && fields[3].1 != 0,
            is_float: code == 0x11d,
        })
    }

    fn unpack(&self, pixel: u32) -> [f32; 4] {
        std::array::from_fn(|at| match self.fields[at] {
            (_, 0) => [0.0, 0.0, 0.0, 1.0][at],
            _ if at == 3 && !self.has_alpha => 1.0,
            (shift, bits) if self.is_float => {
                let value = (pixel >> shift) as u16 & ((1 << bits) - 1);
                half(value << (15 - bits))
            }
            (shift, bits) => {
                let most = (1u32 << bits) - 1;
                (pixel >> shift & most) as f32 / most as f32
            }
        })
    }

    /// The bits of the components in `components` (one bit each).
    fn mask(&self, components: u32) -> u32 {
        let fields = self.fields.iter().enumerate();
        fields.fold(0, |mask, (at, (shift, bits))| {
            let field = ((1u64 << bits) - 1) as u32;
            mask | if components >> at & 1 != 0 {
                field << shift
            } else {
                0
            }
        })
    }

    /// `dither` is added before truncation: one half rounds.
    fn pack(&self, colour: [f32; 4], dither: f32) -> u32 {
        let fields = self.fields.iter().enumerate();
        fields.fold(0, |pixel, (at, (shift, bits))| {
            let value = if at == 3 && !self.has_alpha {
                1.0
            } else {
                colour[at]
            };
            let field = match bits {
                5.. if self.is_float => unsigned_float(value, *bits),
                8.. => normalized(value, *bits),
                _ => {
                    let most = (1u32 << bits) - 1;
                    let value = unit(value) * most as f32;
                    whole(value + dither).min(most)
                }
            };
            pixel | field << shift
        })
    }

    /// The same for all lanes, component by component.
    fn pack_all(&self, colours: &[Box<Lane>; 4], dither: &Lane) -> [u32; LANES] {
        let mut all = [0; LANES];
        for (at, (shift, bits)) in self.fields.iter().enumerate() {
            let most = ((1u64 << bits) - 1) as u32;
            if at == 3 && !self.has_alpha {
                all.iter_mut().for_each(|pixel| *pixel |= most << shift);
                continue;
            }
            if self.is_float && *bits > 0 {
                for (pixel, value) in all.iter_mut().zip(colours[at].iter()) {
                    *pixel |= unsigned_float(*value, *bits) << shift;
                }
                continue;
            }
            let scale = most as f32;
            for (lane, pixel) in all.iter_mut().enumerate() {
                let rest = if *bits >= 8 { 0.5 } else { dither[lane] };
                let field = whole(unit(colours[at][lane]) * scale + rest).min(most);
                *pixel |= field << shift;
            }
        }
        all
    }
}

/// Blending equation of color or of alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Equation {
    source: u32,
    target: u32,
    function: u32,
}

impl Equation {
    /// Component `at` of the result.
    fn apply(&self, at: usize, new: &[f32; 4], old: &[f32; 4], constant: &[f32; 4]) -> f32 {
        let factor = |code: u32| match code {
            0 => 0.0,
            1 => 1.0,
            2 => new[at],
            3 => 1.0 - new[at],
            4 => new[3],
            5 => 1.0 - new[3],
            6 => old[3],
            7 => 1.0 - old[3],
            8 => old[at],
            9 => 1.0 - old[at],
            10 if at == 3 => 1.0,
            10 => new[3].min(1.0 - old[3]),
            11 => constant[3],
            12 => 1.0 - constant[3],
            13 => constant[at],
            14 => 1.0 - constant[at],
            _ => 0.0,
        };
        let (source, target) = (new[at] * factor(self.source), old[at] * factor(self.target));
        match self.function {
            0 => source + target,
            1 => source - target,
            2 => target - source,
            3 => new[at].min(old[at]),
            _ => new[at].max(old[at]),
        }
    }
}

/// A surface that receives pixels.
struct Target {
    surface: Surface,
    port: Port,
    status: Option<TileStatus>,
}

impl Target {
    /// From three states: the address with one pixel pipe, the addresses with two, and the stride.
    fn new(
        core: &Core,
        states: &StateBlock,
        [plain, of_pipes, stride]: [u32; 3],
        bytes: u32,
        is_supertiled: bool,
        port: Port,
    ) -> Self {
        let mode = if core.has_single_buffer {
            states.get(PE_LOGIC_OP) >> 8 & 3
        } else {
            0
        };
        let has_pipes = core.pixel_pipes > 1;
        let bases = if has_pipes {
            [0, 4].map(|pipe| states.get(of_pipes + pipe))
        } else {
            [states.get(plain); 2]
        };
        let stride = states.get(stride);
        let (layout, stride) = match (mode, is_supertiled) {
            (LINEAR, _) => (Layout::Linear, stride),
            (_, true) => (Layout::Supertiled, 4 * (stride & 0x3_ffff)),
            (_, false) => (Layout::Tiled, 4 * (stride & 0x3_ffff)),
        };
        Self {
            surface: Surface {
                bases,
                stride,
                bytes,
                layout,
                is_split: has_pipes && mode == 0,
            },
            port,
            status: match port {
                Port::Depth => TileStatus::of_depth(states, core.status),
                _ => TileStatus::new(states, core.status),
            },
        }
    }

    /// Changes pixels of the 4 x 4 tile at `x`, `y`. `change` gets all pixels of the tile and returns a mask of the
    /// changed ones, by rows. Without `needs_old` it gets zeros.
    fn update(
        &self,
        x: u32,
        y: u32,
        needs_old: bool,
        bus: &mut dyn Bus,
        change: impl FnOnce(&mut [u32; PIXELS]) -> u16,
    ) {
        let each = self.surface.bytes as usize;
        // The rows of a tile are contiguous, other rows are not.
        let (rows, pixels) = match self.surface.layout {
            Layout::Linear => (SIDE, SIDE),
            _ => (1, PIXELS),
        };
        let mut bytes = [0; 4 * PIXELS];
        let bytes = &mut bytes[..each * PIXELS];
        let mut cleared = [false; SIDE];
        let address = |row: usize| self.surface.address(x, y + row as u32);
        for (row, bytes) in bytes.chunks_exact_mut(each * pixels).enumerate() {
            let at = address(row);
            match &self.status {
                Some(status) if status.is_cleared(at, bus) => {
                    cleared[row] = true;
                    status.clear(at, bytes);
                }
                _ if needs_old => bus.read(self.port, at, bytes),
                _ => {}
            }
        }
        let mut all = [0; PIXELS];
        match each {
            4 => load::<4>(bytes, &mut all),
            2 => load::<2>(bytes, &mut all),
            _ => load::<1>(bytes, &mut all),
        }
        let changed = change(&mut all);
        match each {
            4 => store::<4>(&all, bytes),
            2 => store::<2>(&all, bytes),
            _ => store::<1>(&all, bytes),
        }
        for row in 0..rows {
            let changed = changed >> (row * pixels) & (((1u32 << pixels) - 1) as u16);
            if changed == 0 {
                continue;
            }
            let at = address(row);
            let bytes = &bytes[row * pixels * each..][..pixels * each];
            match &self.status {
                Some(status) if cleared[row] => {
                    // The other pixels of the tile become plain data too.
                    let first = at & !(TILE - 1);
                    let mut tile = [0; TILE as usize];
                    status.clear(first, &mut tile);
                    tile[(at - first) as usize..][..bytes.len()].copy_from_slice(bytes);
                    bus.write(self.port, first, &tile);
                    status.set_drawn(at, bus);
                }
                _ if needs_old => bus.write(self.port, at, bytes),
                _ => self.write_runs(at, changed, bytes, bus),
            }
        }
    }

    /// Writes the pixels in `changed`. Adjacent pixels are written together.
    fn write_runs(&self, at: u32, changed: u16, bytes: &[u8], bus: &mut dyn Bus) {
        let each = self.surface.bytes as usize;
        let mut pixel = 0;
        while changed >> pixel != 0 {
            pixel += (changed >> pixel).trailing_zeros();
            let count = (!(u32::from(changed) >> pixel)).trailing_zeros();
            let first = pixel as usize * each;
            bus.write(
                self.port,
                at.wrapping_add(first as u32),
                &bytes[first..][..count as usize * each],
            );
            pixel += count;
            if pixel >= u16::BITS {
                break;
            }
        }
    }
}

/// Loads pixels of `EACH` bytes.
fn load<const EACH: usize>(bytes: &[u8], pixels: &mut [u32; PIXELS]) {
    for (pixel, bytes) in pixels.iter_mut().zip(bytes.chunks_exact(EACH)) {
        let mut word = [0; 4];
        word[..EACH].copy_from_slice(bytes);
        *pixel = u32::from_le_bytes(word);
    }
}

fn store<const EACH: usize>(pixels: &[u32; PIXELS], bytes: &mut [u8]) {
    for (pixel, bytes) in pixels.iter().zip(bytes.chunks_exact_mut(EACH)) {
        bytes.copy_from_slice(&pixel.to_le_bytes()[..EACH]);
    }
}

/// The lanes of the four tiles of a block, in row order.
const TILES: [[usize; PIXELS]; 4] = {
    let mut all = [[0; PIXELS]; 4];
    let mut at = 0;
    while at < 4 * PIXELS {
        let (tile, pixel) = (at / PIXELS, at % PIXELS);
        let (left, top) = (tile % 2 * SIDE, tile / 2 * SIDE);
        all[tile][pixel] = lane_at(left + pixel % SIDE, top + pixel / SIDE);
        at += 1;
    }
    all
};

/// The four tiles of a block: left column, top row, and the lanes of their pixels in row order.
fn tiles(block: &Block) -> impl Iterator<Item = (u32, u32, &'static [usize; PIXELS])> {
    let (x, y) = (block.x as u32, block.y as u32);
    let tiles = TILES.iter().enumerate();
    tiles.map(move |(number, lanes)| {
        let (left, top) = (number % 2 * SIDE, number / 2 * SIDE);
        (x + left as u32, y + top as u32, lanes)
    })
}

/// Converts the lanes in `mask` to a mask of the tile's pixels.
fn gather(mask: u64, lanes: &[usize; PIXELS]) -> u16 {
    if mask == u64::MAX {
        return u16::MAX;
    }
    let bits = lanes.iter().enumerate();
    bits.fold(0, |all, (pixel, lane)| {
        all | ((mask >> lane & 1) as u16) << pixel
    })
}

/// Iterates over the set bits of a tile's mask.
fn set(mask: u16) -> impl Iterator<Item = usize> {
    (0..PIXELS).filter(move |pixel| mask >> pixel & 1 != 0)
}

/// Setup of the depth and stencil tests.
struct DepthStencil {
    target: Target,
    is_long: bool,
    /// Comparison function, if depth is tested.
    depth: Option<u32>,
    /// The rasterizer has tested depth. A depth from the pixel shader comes too late.
    is_early: bool,
    writes_depth: bool,
    /// Front and back faces.
    stencil: Option<[Stencil; 2]>,
}

#[derive(Clone, Copy)]
struct Stencil {
    operations: u32,
    reference: u8,
    mask: u8,
    writes: u8,
}

impl DepthStencil {
    fn new(core: &Core, states: &StateBlock) -> Option<Self> {
        let config = states.get(PE_DEPTH_CONFIG);
        let one = states.get(PE_STENCIL_CONFIG);
        let is_long = config & 1 << 4 != 0;
        let is_early = config & EARLY_Z != 0 && states.get(RA_EARLY_DEPTH) & EARLY_TEST != 0;
        let is_late = config & DISABLE_ZS == 0;
        let depth = (config & 3 != 0 && (is_early || is_late)).then_some(config >> 8 & 7);
        let byte = |word: u32, shift: u32| (word >> shift) as u8;
        let operations = states.get(PE_STENCIL_OP);
        let front = Stencil {
            operations,
            reference: byte(one, 8),
            mask: byte(one, 16),
            writes: byte(one, 24),
        };
        let two = states.get(PE_STENCIL_CONFIG_EXT2);
        let back = Stencil {
            operations: operations >> 16,
            reference: byte(states.get(PE_STENCIL_CONFIG_EXT), 0),
            mask: byte(two, 0),
            writes: byte(two, 8),
        };
        let stencil = match one & 3 {
            _ if !is_long || !is_late => None,
            0 => None,
            1 => Some([front; 2]),
            _ => Some([front, back]),
        };
        let writes_depth = depth.is_some() && is_late && config & DEPTH_WRITE != 0;
        let is_used = stencil.is_some() || writes_depth || depth.is_some_and(|test| test != 7);
        is_used.then(|| Self {
            target: Target::new(
                core,
                states,
                [PE_DEPTH_ADDR, PE_PIPE_DEPTH_ADDR, PE_DEPTH_STRIDE],
                if is_long { 4 } else { 2 },
                config & 1 << 26 != 0,
                Port::Depth,
            ),
            is_long,
            depth,
            is_early,
            writes_depth,
            stencil,
        })
    }

    /// Depths in their stored form.
    fn stored(&self, depths: &[f64; LANES]) -> [u32; LANES] {
        let most = if self.is_long { 16_777_215.0 } else { 65535.0 };
        depths.map(|depth| whole_of_double(depth * most + 0.5))
    }

    /// Tests and updates the pixels in `live`. Returns the changed pixels and the passing ones.
    fn test(
        &self,
        pixels: &mut [u32; PIXELS],
        depths: &[u32; PIXELS],
        live: u16,
        is_clockwise: bool,
    ) -> (u16, u16) {
        let shift = if self.is_long { 8 } else { 0 };
        let mut passes_depth = [true; PIXELS];
        if let Some(function) = self.depth {
            for ((passes_depth, new), old) in passes_depth.iter_mut().zip(depths).zip(&*pixels) {
                *passes_depth = passes(function, *new, old >> shift);
            }
        }
        let (mut changed, mut passed) = (0, 0);
        for pixel in 0..PIXELS {
            let old = pixels[pixel];
            let old_stencil = old & ((1 << shift) - 1);
            let (stencil_now, passes_stencil) = match &self.stencil {
                // "Front" in the states means clockwise on the screen.
                Some(sides) => {
                    sides[usize::from(!is_clockwise)].test(old_stencil as u8, passes_depth[pixel])
                }
                None => (old_stencil, true),
            };
            let is_live = live >> pixel & 1 != 0;
            let passes = passes_depth[pixel] && passes_stencil;
            let depth_now = if passes && self.writes_depth {
                depths[pixel]
            } else {
                old >> shift
            };
            let now = if is_live {
                depth_now << shift | stencil_now
            } else {
                old
            };
            changed |= u16::from(now != old) << pixel;
            passed |= u16::from(passes) << pixel;
            pixels[pixel] = now;
        }
        (changed, passed & live)
    }
}

impl Stencil {
    /// The new stencil value, and whether the test passes.
    fn test(&self, old: u8, passes_depth: bool) -> (u32, bool) {
        let of = |value: u8| value & self.mask;
        let passes_stencil = passes(self.operations, of(self.reference), of(old));
        let operation = match (passes_stencil, passes_depth) {
            (false, _) => self.operations >> 8,
            (true, false) => self.operations >> 12,
            (true, true) => self.operations >> 4,
        };
        let made = stencil(operation, old, self.reference);
        let now = old & !self.writes | made & self.writes;
        (now.into(), passes_stencil)
    }
}

/// Setup of color writes.
struct Colour {
    target: Target,
    format: Format,
    /// The bits to write.
    mask: u32,
    /// Equations of color and alpha.
    blend: Option<[Equation; 2]>,
    constant: [f32; 4],
    logic: u32,
    dither: Option<[u32; 2]>,
}

impl Colour {
    fn new(core: &Core, states: &StateBlock) -> Option<Self> {
        let word = states.get(PE_COLOR_FORMAT);
        let format = Format::of(word)?;
        let components = word >> 8 & 0xf;
        // Formats without alpha are written completely.
        let components = components
            | if format.has_alpha {
                0
            } else {
                components >> 2 & 1
            } << 3;
        let mask = format.mask(components);
        if mask == 0 || states.get(PE_DEPTH_CONFIG) & ONLY_DEPTH != 0 {
            return None;
        }
        let config = states.get(PE_ALPHA_CONFIG);
        let equation = |shift: u32| Equation {
            source: config >> (4 + shift) & 0xf,
            target: config >> (8 + shift) & 0xf,
            function: config >> (12 + shift) & 7,
        };
        let alpha = if config & 1 << 16 != 0 {
            equation(16)
        } else {
            equation(0)
        };
        let constant = states.get(PE_ALPHA_BLEND_COLOR);
        let dither = [0, 4].map(|at| states.get(PE_DITHER + at));
        Some(Self {
            target: Target::new(
                core,
                states,
                [PE_COLOR_ADDR, PE_PIPE_COLOR_ADDR, PE_COLOR_STRIDE],
                format.bytes,
                word & 1 << 20 != 0,
                Port::Pixel,
            ),
            format,
            mask,
            blend: (config & 1 != 0).then(|| [equation(0), alpha]),
            constant: [16, 8, 0, 24].map(|shift| (constant >> shift & 0xff) as f32 / 255.0),
            logic: if core.has_logic_op {
                states.get(PE_LOGIC_OP) & 0xf
            } else {
                COPY
            },
            dither: (dither != [u32::MAX; 2]).then_some(dither),
        })
    }

    fn needs_old(&self) -> bool {
        let whole = self.format.mask(0xf);
        self.blend.is_some() || self.logic != COPY || self.mask != whole
    }

    /// The amount added to a lane's color before truncation.
    fn dither(&self, lane: usize) -> f32 {
        let Some(words) = self.dither else { return 0.5 };
        let [x, y] = [0, 1].map(|axis| PLACES[axis][lane] & 3);
        let at = y * 4 + x;
        let nibble = words[(at / 8) as usize] >> (4 * (at % 8)) & 0xf;
        (nibble as f32 + 0.5) / 16.0
    }

    /// Packs the colors of all lanes without blending.
    fn pack(&self, colours: &[Box<Lane>; 4]) -> [u32; LANES] {
        let dither = match self.dither {
            None => [0.5; LANES],
            Some(_) => std::array::from_fn(|lane| self.dither(lane)),
        };
        self.format.pack_all(colours, &dither)
    }

    /// Packs a lane's color after blending with the old pixel.
    fn blended(&self, old: u32, colours: &[Box<Lane>; 4], lane: usize) -> u32 {
        let clamped = std::array::from_fn(|at| {
            if self.format.is_float {
                colours[at][lane]
            } else {
                unit(colours[at][lane])
            }
        });
        let Some([equation, alpha]) = &self.blend else {
            return self.format.pack(clamped, self.dither(lane));
        };
        let before = self.format.unpack(old);
        let colour = std::array::from_fn(|at| {
            let equation = if at == 3 { alpha } else { equation };
            equation.apply(at, &clamped, &before, &self.constant)
        });
        self.format.pack(colour, self.dither(lane))
    }

    /// The value to write for a new pixel.
    fn written(&self, old: u32, new: u32) -> u32 {
        let new = match self.logic {
            COPY => new,
            operation => logic(operation, new, old),
        };
        old & !self.mask | new & self.mask
    }
}

/// A logic operation. Its bits are the results for (new, old) = (0, 0), (0, 1), (1, 0), (1, 1).
fn logic(operation: u32, new: u32, old: u32) -> u32 {
    let terms = [!new & !old, !new & old, new & !old, new & old];
    let table = match operation {
        0 => 0b0000,
        1 => 0b0001,
        2 => 0b0010,
        3 => 0b0011,
        4 => 0b0100,
        5 => 0b0101,
        6 => 0b0110,
        7 => 0b0111,
        8 => 0b1000,
        9 => 0b1001,
        10 => 0b1010,
        11 => 0b1011,
        12 => 0b1100,
        13 => 0b1101,
        14 => 0b1110,
        _ => 0b1111,
    };
    let chosen = (0..4).filter(|at| table >> at & 1 != 0);
    chosen.fold(0, |all, at| all | terms[at])
}

/// The last stage of the pipeline.
pub(super) struct PixelEngine {
    depth: Option<DepthStencil>,
    colour: Option<Colour>,
    /// Function and reference of the alpha test.
    alpha: Option<(u32, u32)>,
    pipes: usize,
    /// Pixels that passed all tests, and drawn pixels that are not yet assigned to a pipe.
    pub(super) pixels: u64,
    untold: u64,
}

impl PixelEngine {
    /// Reports features that the model lacks.
    pub(super) fn check(core: &Core, states: &StateBlock) -> Result<(), String> {
        let word = states.get(PE_COLOR_FORMAT);
        if Format::of(word).is_none() {
            return Err(format!(
                "colour format {:#x}, {}",
                word >> 24 & 0x7f,
                word & 0xf
            ));
        }
        if core.has_logic_op && states.get(PE_LOGIC_OP) >> 31 != 0 {
            return Err("a target of sRGB".into());
        }
        Ok(())
    }

    pub(super) fn new(core: &Core, states: &StateBlock) -> Self {
        let alpha = states.get(PE_ALPHA_OP);
        Self {
            depth: DepthStencil::new(core, states),
            colour: Colour::new(core, states),
            alpha: (alpha & 1 != 0).then_some((alpha >> 4 & 7, alpha >> 8 & 0xff)),
            pipes: core.pixel_pipes,
            pixels: 0,
            untold: 0,
        }
    }

    /// Whether the alpha test may discard pixels.
    pub(super) fn tests_alpha(&self) -> bool {
        self.alpha.is_some()
    }

    /// Whether the depth test uses the depth after the pixel shader.
    pub(super) fn tests_depth_late(&self) -> bool {
        self.depth.as_ref().is_some_and(|depth| !depth.is_early)
    }

    /// Whether colors are written.
    pub(super) fn draws_colour(&self) -> bool {
        self.colour.is_some()
    }

    /// The lanes that pass the alpha test.
    pub(super) fn test_alpha(&self, mask: u64, alpha: &Lane) -> u64 {
        match self.alpha {
            None => mask,
            Some((function, reference)) => {
                mask & lanes(|lane| passes(function, normalized(alpha[lane], 8), reference))
            }
        }
    }

    /// The lanes that pass the stencil and depth tests. Updates their values.
    pub(super) fn test_depth(
        &self,
        block: &Block,
        mask: u64,
        depths: &[f64; LANES],
        is_clockwise: bool,
        bus: &mut dyn Bus,
    ) -> u64 {
        let Some(depth) = &self.depth else {
            return mask;
        };
        let stored = depth.stored(depths);
        let mut left = mask;
        for (x, y, lanes) in tiles(block) {
            let live = gather(mask, lanes);
            if live == 0 {
                continue;
            }
            let depths = lanes.map(|lane| stored[lane]);
            let mut passed = 0;
            depth.target.update(x, y, true, bus, |pixels| {
                let changed;
                (changed, passed) = depth.test(pixels, &depths, live, is_clockwise);
                changed
            });
            for pixel in set(live & !passed) {
                left &= !(1 << lanes[pixel]);
            }
        }
        left
    }

    /// Draws the lanes that have passed all tests.
    pub(super) fn passed(
        &mut self,
        block: &Block,
        mask: u64,
        colours: Option<&[Box<Lane>; 4]>,
        bus: &mut dyn Bus,
    ) {
        self.pixels += u64::from(mask.count_ones());
        let (Some(colour), Some(colours)) = (&self.colour, colours) else {
            return;
        };
        let needs_old = colour.needs_old();
        let packed = (colour.blend.is_none() && mask != 0).then(|| colour.pack(colours));
        for (number, (x, y, lanes)) in tiles(block).enumerate() {
            let live = gather(mask, lanes);
            if live != 0 {
                colour.target.update(x, y, needs_old, bus, |pixels| {
                    for (pixel, lane) in lanes.iter().enumerate() {
                        let is_live = live >> pixel & 1 != 0;
                        let old = pixels[pixel];
                        let new = match &packed {
                            Some(packed) => packed[*lane],
                            None if is_live => colour.blended(old, colours, *lane),
                            None => old,
                        };
                        let new = colour.written(old, new);
                        pixels[pixel] = if is_live { new } else { old };
                    }
                    live
                });
                self.untold += u64::from(live.count_ones());
            }
            // One pipe draws the upper half of a block, the other one the lower half.
            if self.pipes > 1 && number % 2 == 1 && self.untold != 0 {
                let pipe = (block.x / BLOCK ^ number as i32 / 2) & 1;
                bus.end_pipe(pipe as usize, std::mem::take(&mut self.untold));
            }
        }
    }

    /// Reports the pixels drawn since the last call.
    pub(super) fn tell(&mut self, bus: &mut dyn Bus) {
        bus.end_pipe(0, std::mem::take(&mut self.untold));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_keep_what_they_hold() {
        for word in [
            1,
            3,
            4,
            6,
            0x1000_0000,
            0x1600_0000,
            0x1f00_0000,
            0x2300_0000,
        ] {
            let format = Format::of(word).unwrap();
            let mut random = crate::gpu::Random::new(word.into());
            for _ in 0..500 {
                let pixel = random.below(u32::MAX) & format.mask(0xf);
                assert_eq!(format.pack(format.unpack(pixel), 0.5), pixel, "{word:#x}");
            }
        }
        let opaque = Format::of(5).unwrap();
        assert_eq!(opaque.unpack(0x0012_3456)[3], 1.0);
        assert_eq!(opaque.pack([0.0; 4], 0.5), 0xff00_0000);
        assert_eq!(Format::of(7), None);
    }

    #[test]
    fn floating_point_formats_keep_what_they_hold() {
        let format = Format::of(0x1d00_0000).unwrap();
        let mut random = crate::gpu::Random::new(7);
        for _ in 0..5000 {
            let pixel = random.below(u32::MAX);
            let is_finite = format.unpack(pixel).iter().all(|value| value.is_finite());
            if is_finite {
                assert_eq!(format.pack(format.unpack(pixel), 0.5), pixel, "{pixel:#x}");
            }
        }
        for (value, wanted) in [
            (1.0, 15 << 6),
            (1.999, 15 << 6 | 63),
            (-1.0, 0),
            (-f32::INFINITY, 0),
            (1e9, (31 << 6) - 1),
            (65024.0, (31 << 6) - 1),
            (f32::INFINITY, 31 << 6),
            (f32::NAN, 31 << 6 | 1),
            // The smallest value, and half of it.
            (2f32.powi(-20), 1),
            (2f32.powi(-21), 0),
            (0.0, 0),
            (f32::MIN_POSITIVE / 4.0, 0),
        ] {
            assert_eq!(unsigned_float(value, 11), wanted, "{value}");
        }
        assert_eq!(
            format.pack([1.0, 0.5, 2.0, 0.0], 0.5),
            960 | 896 << 11 | 512 << 22
        );
    }

    #[test]
    fn colours_go_to_the_nearest() {
        let format = Format::of(6).unwrap();
        let colour = [0.5, 1.0 / 255.0 * 1.49, 2.0, -1.0];
        assert_eq!(format.pack(colour, 0.5), 0x0080_01ff);
        assert_eq!(normalized(f32::NAN, 8), 0);
        let short = Format::of(4).unwrap();
        assert_eq!(
            short.pack([1.0, 0.5, 0.49, 0.0], 0.5),
            31 << 11 | 32 << 5 | 15
        );
        // Dithering selects one of the two neighboring values.
        let shades =
            [0.03125, 0.96875].map(|dither| short.pack([0.49, 0.0, 0.0, 0.0], dither) >> 11);
        assert_eq!(shades, [15, 16]);
    }

    #[test]
    fn comparisons_are_as_opengl_has_them() {
        let all = |new: u32, old: u32| {
            (0..8).fold(0, |mask, test| {
                mask | u32::from(passes(test, new, old)) << test
            })
        };
        assert_eq!(all(1, 2), 0b1010_1010);
        assert_eq!(all(2, 2), 0b1100_1100);
        assert_eq!(all(3, 2), 0b1111_0000);
        let made: Vec<_> = (0..8).map(|operation| stencil(operation, 255, 7)).collect();
        assert_eq!(made, [255, 0, 7, 255, 254, 0, 0, 254]);
        assert_eq!([4, 7].map(|operation| stencil(operation, 0, 7)), [0, 255]);
    }

    #[test]
    fn logic_operations_are_those_of_opengl() {
        let (new, old) = (0b0011, 0b0101);
        let results = [
            0b0000,
            !(new | old),
            !new & old,
            !new,
            new & !old,
            !old,
            new ^ old,
            !(new & old),
            new & old,
            !(new ^ old),
            old,
            !new | old,
            new,
            new | !old,
            new | old,
            0b1111,
        ];
        for (operation, wanted) in results.into_iter().enumerate() {
            let made = logic(operation as u32, new, old) & 0xf;
            assert_eq!(made, wanted & 0xf, "{operation}");
        }
    }

    #[test]
    fn blending_multiplies_and_adds() {
        let (new, old) = ([0.5, 0.25, 1.0, 0.5], [1.0, 0.5, 0.0, 1.0]);
        let constant = [0.125, 0.25, 0.5, 0.75];
        let of = |source, target, function, at| {
            let equation = Equation {
                source,
                target,
                function,
            };
            equation.apply(at, &new, &old, &constant)
        };
        assert_eq!(of(4, 5, 0, 0), 0.75);
        assert_eq!(of(1, 1, 1, 2), 1.0);
        assert_eq!(of(1, 1, 2, 0), 0.5);
        assert_eq!([of(0, 0, 3, 1), of(0, 0, 4, 1)], [0.25, 0.5]);
        assert_eq!([of(10, 0, 0, 0), of(10, 0, 0, 3)], [0.0, 0.5]);
        assert_eq!([of(13, 0, 0, 1), of(11, 0, 0, 1)], [0.0625, 0.1875]);
    }
}
