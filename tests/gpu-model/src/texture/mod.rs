// SPDX-License-Identifier: GPL-2.0-only
//! Textures: [`Setup`] is the state of a sampler. [`Units`] read texels according to it, through a [`Cache`] of decoded
//! tiles.
//!
//! Facts: sources.md, textures. Choices where no source gives the behavior: the switch between the two filters is at a
//! level of detail of 0, borders are transparent black, depth is returned in red, green and blue.

use crate::personality::Personality;
use crate::shader::Fault;
use crate::shader::Lane;
use crate::shader::Lod;
use crate::shader::Lookup;
use crate::shader::Sampler;
use crate::shader::LANES;

mod format;
mod setup;

use format::Texel;
use format::Tile;
use setup::Filter;
use setup::Kind;
use setup::Level;
use setup::Wrap;
use setup::LEVELS;

pub use setup::Mistake;
pub use setup::Setup;

/// Capabilities of a core's texture units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    has_halti0: bool,
    has_halti1: bool,
    has_halti2: bool,
    has_half_floats: bool,
    has_alignment: bool,
    has_any_size: bool,
    has_linear: bool,
    has_supertiles: bool,
    has_seamless_cubes: bool,
    has_status: bool,
    largest: u32,
}

impl Features {
    /// The capabilities of a core.
    pub fn of(core: &Personality) -> Self {
        let minor = |word: usize, bit: u32| core.minor[word] >> bit & 1 != 0;
        Self {
            has_halti0: minor(1, 23),
            has_halti1: minor(2, 11),
            has_halti2: minor(4, 16),
            has_half_floats: minor(1, 11),
            has_alignment: minor(1, 20),
            has_any_size: minor(1, 21),
            has_linear: minor(1, 22),
            has_supertiles: minor(2, 3),
            has_seamless_cubes: minor(2, 2),
            has_status: minor(2, 29),
            largest: if minor(0, 3) { 8192 } else { 2048 },
        }
    }
}

/// The memory that textures are read from.
pub trait Memory {
    /// Reads bytes at a GPU address.
    ///
    /// # Errors
    ///
    /// [`Fault::Memory`]: the address is outside memory. The implementation has reported it.
    fn read(&mut self, address: u32, bytes: &mut [u8]) -> Result<(), Fault>;
}

/// Tiles per cache: four 64-bit lines of the largest format each.
const TILES: usize = 1024;

/// Decoded tiles of 4 x 4 texels, by address and format. Like the hardware, it does not notice changes of memory: drop
/// the tiles when the command stream flushes the texture cache.
pub struct Cache {
    keys: Box<[u64; TILES]>,
    tiles: Vec<Tile>,
    /// Tiles that were read from memory.
    pub misses: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            keys: Box::new([u64::MAX; TILES]),
            tiles: vec![[[0.0; 4]; 16]; TILES],
            misses: 0,
        }
    }
}

impl Cache {
    /// Drops all tiles.
    pub fn drop_all(&mut self) {
        self.keys.fill(u64::MAX);
    }

    /// Returns a tile. Reads it first if it is not in the cache.
    #[inline]
    fn find(
        &mut self,
        setup: &Setup,
        (level, slice): (u32, u32),
        (column, row): (u32, u32),
        memory: &mut dyn Memory,
    ) -> Result<&Tile, Fault> {
        let level = &setup.levels[level as usize];
        let address = level.tile(slice, column, row);
        let mut key = u64::from(address) | setup.key;
        if level.stride().is_some() {
            // Fewer bytes are read at the right and lower edges.
            let left = |size: u32, tile: u32| u64::from(size.saturating_sub(4 * tile).min(4) & 3);
            key |= left(level.width, column) << 41 | left(level.height, row) << 61;
        }
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % TILES;
        if self.keys[slot] != key {
            self.keys[slot] = u64::MAX;
            self.misses += 1;
            let mut bytes = [0; 256];
            let bytes = &mut bytes[..level.tile_bytes as usize];
            read_tile(setup, level, address, (column, row), bytes, memory)?;
            setup.format.decode(bytes, &mut self.tiles[slot]);
            self.keys[slot] = key;
        }
        Ok(&self.tiles[slot])
    }
}

/// Reads the bytes of a tile. Linear tiles are read row by row, only within the texture.
#[inline(never)]
fn read_tile(
    setup: &Setup,
    level: &Level,
    address: u32,
    (column, row): (u32, u32),
    bytes: &mut [u8],
    memory: &mut dyn Memory,
) -> Result<(), Fault> {
    if let Some(stride) = level.stride() {
        let texel = setup.format.bytes();
        let rows = bytes.chunks_exact_mut(4 * texel as usize);
        for (y, bytes) in (0..level.height.saturating_sub(4 * row)).zip(rows) {
            let columns = level.width.saturating_sub(4 * column).min(4);
            let address = address.wrapping_add(y * stride);
            memory.read(address, &mut bytes[..(columns * texel) as usize])?;
        }
        return Ok(());
    }
    if let Some(status) = setup.status {
        // Two bits per 64 bytes; 1: the tile was cleared, and its memory was not written since.
        let index = address.wrapping_sub(setup.levels[0].address) / 64;
        let mut byte = [0];
        memory.read(status.address.wrapping_add(index / 4), &mut byte)?;
        if byte[0] >> (2 * (index % 4)) & 3 == 1 {
            let is_wide = setup.format.bytes() == 8;
            for (number, word) in bytes.chunks_exact_mut(4).enumerate() {
                let clear = status.clear[if is_wide { number % 2 } else { 0 }];
                word.copy_from_slice(&clear.to_le_bytes());
            }
            return Ok(());
        }
    }
    memory.read(address, bytes)
}

/// The texture units as seen by a shader.
pub struct Units<'a> {
    /// Samplers by number; `None`: the sampler was not set up.
    pub setups: &'a [Option<Setup>],
    /// Source of texels.
    pub memory: &'a mut dyn Memory,
    /// Decoded tiles.
    pub cache: &'a mut Cache,
    /// Whether the lanes are squares of pixels. Otherwise there are no derivatives, and level 0 is read.
    pub has_derivatives: bool,
    /// Number of requests so far, one per lane.
    pub requests: u64,
    /// Number of texels read so far.
    pub texels: u64,
}

impl Sampler for Units<'_> {
    fn sample(&mut self, lookup: &Lookup<'_>, out: &mut [Lane; 4]) -> Result<(), Fault> {
        let setup = self.setups.get(lookup.unit).and_then(Option::as_ref);
        let setup = setup.ok_or(Fault::Sampler(lookup.unit))?;
        self.requests += u64::from(lookup.mask.count_ones());
        let lods = Lods::of(setup, lookup, self.has_derivatives);
        let is_plain = setup.swizzle == [0, 1, 2, 3];
        let mut taps = Taps {
            setup,
            cache: self.cache,
            memory: self.memory,
            reference: None,
            texels: 0,
        };
        for lane in (0..LANES).filter(|lane| lookup.mask >> lane & 1 != 0) {
            let position = Position::of(setup, lookup, lane);
            taps.reference = lookup.reference.map(|reference| reference[lane]);
            let texel = taps.levels(&position, lods.at(lane))?;
            if is_plain {
                out.iter_mut()
                    .zip(texel)
                    .for_each(|(out, value)| out[lane] = value);
                continue;
            }
            for (channel, out) in setup.swizzle.iter().zip(out.iter_mut()) {
                out[lane] = match channel {
                    0..=3 => texel[*channel],
                    4 => 0.0,
                    _ => 1.0,
                };
            }
        }
        self.texels += taps.texels;
        Ok(())
    }

    fn load(&mut self, address: u32) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.memory.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

/// A texture position: 0 to 1 in each direction, and the face.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Position {
    at: [f32; 3],
    face: u32,
}

/// The axis of each cube face, and the axes of its two directions: number and sign. Order: +x -x +y -y +z -z.
const FACES: [[(usize, f32); 3]; 6] = [
    [(0, 1.0), (2, -1.0), (1, -1.0)],
    [(0, -1.0), (2, 1.0), (1, -1.0)],
    [(1, 1.0), (0, 1.0), (2, 1.0)],
    [(1, -1.0), (0, 1.0), (2, -1.0)],
    [(2, 1.0), (0, 1.0), (1, -1.0)],
    [(2, -1.0), (0, -1.0), (1, -1.0)],
];

/// The cube face that a direction passes through.
fn face(direction: [f32; 3]) -> u32 {
    let [x, y, z] = direction.map(f32::abs);
    let axis = if x >= y && x >= z {
        0
    } else if y >= z {
        1
    } else {
        2
    };
    2 * axis + u32::from(direction[axis as usize] < 0.0)
}

/// Projects a direction to a face: 0 to 1 in both directions.
fn on_face(face: u32, direction: [f32; 3]) -> [f32; 3] {
    let [(axis, sign), s, t] = FACES[face as usize];
    let half = 0.5 / (direction[axis] * sign);
    let along = |(axis, sign): (usize, f32)| direction[axis] * sign * half + 0.5;
    [along(s), along(t), 0.0]
}

impl Position {
    fn of(setup: &Setup, lookup: &Lookup<'_>, lane: usize) -> Self {
        let [s, t, r, _] = lookup.coordinates;
        let at = [s[lane], t[lane], r[lane]];
        if setup.kind != Kind::Cube {
            return Self { at, face: 0 };
        }
        let face = face(at);
        Self {
            at: on_face(face, at),
            face,
        }
    }
}

/// Levels of detail for the lanes of a wave.
enum Lods<'a> {
    /// The same for all lanes.
    Same(f32),
    /// One per square of pixels, and an optional bias per lane.
    Squares([f32; LANES / 4], Option<&'a Lane>),
    /// One per lane.
    Each(Box<Lane>),
}

impl<'a> Lods<'a> {
    fn of(setup: &Setup, lookup: &Lookup<'a>, has_derivatives: bool) -> Self {
        // Without levels and with a single filter, the level of detail has no effect.
        if setup.mip == Filter::None && setup.min == setup.mag {
            return Self::Same(0.0);
        }
        match lookup.lod {
            Lod::Derived(None) if !has_derivatives => Self::Same(setup.bias),
            Lod::Derived(Some(bias)) if !has_derivatives => {
                Self::Each(Box::new(bias.map(|bias| bias + setup.bias)))
            }
            Lod::Derived(bias) => {
                let [s, t, r, _] = lookup.coordinates;
                let corner = |lane: usize| [s[lane], t[lane], r[lane]];
                let squares = std::array::from_fn(|square| {
                    let [at, right, below] = [0, 1, 2].map(|lane| corner(4 * square + lane));
                    let change = |to: [f32; 3]| std::array::from_fn(|c| to[c] - at[c]);
                    detail(setup, at, change(right), change(below)) + setup.bias
                });
                Self::Squares(squares, bias)
            }
            Lod::Given(levels) => Self::Each(Box::new(levels.map(|level| level + setup.bias))),
            Lod::Gradients(right, below) => {
                let [s, t, r, _] = lookup.coordinates;
                Self::Each(Box::new(std::array::from_fn(|lane| {
                    let [right, below] = [right, below].map(|change| change.map(|axis| axis[lane]));
                    detail(setup, [s[lane], t[lane], r[lane]], right, below) + setup.bias
                })))
            }
        }
    }

    fn at(&self, lane: usize) -> f32 {
        match self {
            Self::Same(lod) => *lod,
            Self::Squares(squares, None) => squares[lane / 4],
            Self::Squares(squares, Some(bias)) => squares[lane / 4] + bias[lane],
            Self::Each(lods) => lods[lane],
        }
    }
}

/// The level at which a step of one pixel equals one texel, from the changes to the right and downwards.
fn detail(setup: &Setup, at: [f32; 3], right: [f32; 3], below: [f32; 3]) -> f32 {
    let size = [setup.width as f32, setup.height as f32, setup.depth as f32];
    let squared = |change: [f32; 3]| match setup.kind {
        Kind::Cube => {
            // The derivative of a quotient.
            let [(axis, sign), s, t] = FACES[face(at) as usize];
            let depth = at[axis] * sign;
            let along = |(number, direction): (usize, f32), size: f32| {
                let moves = change[number] * depth - at[number] * change[axis] * sign;
                moves * direction * 0.5 / (depth * depth) * size
            };
            let (s, t) = (along(s, size[0]), along(t, size[1]));
            s * s + t * t
        }
        kind => {
            let count = if kind == Kind::Solid { 3 } else { 2 };
            (0..count)
                .map(|c| change[c] * size[c])
                .map(|texels| texels * texels)
                .sum()
        }
    };
    0.5 * squared(right).max(squared(below)).log2()
}

/// Reads texels for one lane.
struct Taps<'a> {
    setup: &'a Setup,
    cache: &'a mut Cache,
    memory: &'a mut dyn Memory,
    reference: Option<f32>,
    texels: u64,
}

fn mix(a: Texel, b: Texel, weight: f32) -> Texel {
    std::array::from_fn(|c| a[c] + (b[c] - a[c]) * weight)
}

impl Taps<'_> {
    /// Filters between levels.
    fn levels(&mut self, position: &Position, lod: f32) -> Result<Texel, Fault> {
        let setup = self.setup;
        let clamped = lod.min(setup.max_lod).max(setup.min_lod);
        let is_small = clamped > 0.0 && lod > setup.min_lod;
        let filter = if is_small { setup.min } else { setup.mag };
        let last = LEVELS - 1;
        match setup.mip {
            Filter::None => self.level(position, (setup.min_lod as u32).min(last), filter),
            Filter::Nearest => {
                let level = ((clamped + 0.5).ceil() - 1.0).max(0.0) as u32;
                self.level(position, level.min(last), filter)
            }
            Filter::Linear => {
                let level = (clamped as u32).min(last);
                let weight = clamped - level as f32;
                let low = self.level(position, level, filter)?;
                if weight <= 0.0 || level == last {
                    return Ok(low);
                }
                Ok(mix(low, self.level(position, level + 1, filter)?, weight))
            }
        }
    }

    /// Filters within a level, and between slices.
    fn level(&mut self, position: &Position, level: u32, filter: Filter) -> Result<Texel, Fault> {
        let slices = self.setup.slices(level);
        match self.setup.kind {
            Kind::Flat => self.slice(position, level, 0, filter),
            Kind::Cube => self.slice(position, level, position.face, filter),
            Kind::Array => {
                let slice = (position.at[2] + 0.5)
                    .floor()
                    .clamp(0.0, (slices - 1) as f32);
                self.slice(position, level, slice as u32, filter)
            }
            Kind::Solid => {
                let wrap = self.setup.wrap[2];
                let at = position.at[2] * slices as f32;
                if filter != Filter::Linear {
                    return match wrapped(wrap, whole(at), slices) {
                        Some(slice) => self.slice(position, level, slice, filter),
                        None => Ok([0.0; 4]),
                    };
                }
                let first = whole(at - 0.5);
                let mut both = [[0.0; 4]; 2];
                for (texel, slice) in both.iter_mut().zip([first, first.saturating_add(1)]) {
                    if let Some(slice) = wrapped(wrap, slice, slices) {
                        *texel = self.slice(position, level, slice, filter)?;
                    }
                }
                Ok(mix(both[0], both[1], at - 0.5 - (at - 0.5).floor()))
            }
        }
    }

    /// Filters within a face or slice.
    fn slice(
        &mut self,
        position: &Position,
        level: u32,
        slice: u32,
        filter: Filter,
    ) -> Result<Texel, Fault> {
        let Level { width, height, .. } = self.setup.levels[level as usize];
        let (x, y) = (
            position.at[0] * width as f32,
            position.at[1] * height as f32,
        );
        if filter != Filter::Linear {
            return self.texel((level, slice), whole(x), whole(y));
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (whole(x), whole(y));
        let (across, down) = (x - left as f32, y - top as f32);
        let place = (level, slice);
        let (right, bottom) = (left.saturating_add(1), top.saturating_add(1));
        let is_inside = left >= 0 && top >= 0 && right < width as i32 && bottom < height as i32;
        let is_plain = is_inside && self.reference.is_none();
        let corner = |x: i32, y: i32| ((y & 3) << 2 | x & 3) as usize;
        let tile = (left as u32 / 4, top as u32 / 4);
        let [a, b, c, d] = match (is_plain, left & 3 == 3, top & 3 == 3) {
            // Usually all four are in one tile, or in two.
            (true, false, false) => {
                self.texels += 4;
                let tile = self.cache.find(self.setup, place, tile, self.memory)?;
                let at = corner(left, top);
                [0, 1, 4, 5].map(|more| tile[(at + more) & 15])
            }
            (true, true, false) => {
                self.texels += 4;
                let at = corner(left, top);
                let one = self.cache.find(self.setup, place, tile, self.memory)?;
                let [a, c] = [at, at + 4].map(|at| one[at & 15]);
                let other = (tile.0 + 1, tile.1);
                let other = self.cache.find(self.setup, place, other, self.memory)?;
                [a, other[(at - 3) & 15], c, other[(at + 1) & 15]]
            }
            (true, false, true) => {
                self.texels += 4;
                let at = corner(left, top);
                let one = self.cache.find(self.setup, place, tile, self.memory)?;
                let [a, b] = [at, at + 1].map(|at| one[at & 15]);
                let other = (tile.0, tile.1 + 1);
                let other = self.cache.find(self.setup, place, other, self.memory)?;
                [a, b, other[(at - 12) & 15], other[(at - 11) & 15]]
            }
            _ => [
                self.texel(place, left, top)?,
                self.texel(place, right, top)?,
                self.texel(place, left, bottom)?,
                self.texel(place, right, bottom)?,
            ],
        };
        Ok(mix(mix(a, b, across), mix(c, d, across), down))
    }

    /// One texel, which may lie outside the texture.
    fn texel(&mut self, (level, slice): (u32, u32), x: i32, y: i32) -> Result<Texel, Fault> {
        let setup = self.setup;
        let Level { width, height, .. } = setup.levels[level as usize];
        let is_inside = (0..width as i32).contains(&x) && (0..height as i32).contains(&y);
        let (x, y, slice) = if is_inside {
            (x as u32, y as u32, slice)
        } else if setup.kind == Kind::Cube {
            self.beside(level, slice, x, y)
        } else {
            let [wrap_x, wrap_y, _] = setup.wrap;
            match (wrapped(wrap_x, x, width), wrapped(wrap_y, y, height)) {
                (Some(x), Some(y)) => (x, y, slice),
                _ => return Ok([0.0; 4]),
            }
        };
        self.texels += 1;
        let tile = self
            .cache
            .find(setup, (level, slice), (x / 4, y / 4), self.memory)?;
        let texel = tile[(y % 4 * 4 + x % 4) as usize];
        Ok(match (setup.compare, self.reference) {
            (Some(function), Some(reference)) => {
                // In every format, depth is a fraction of 1, and the reference is clamped to the same range (GLES 3.0,
                // 3.8.14). The shadow look-ups of dEQP use references beyond that range, and Mesa leaves the clamping
                // to the GPU.
                let is_true = compares(function, reference.clamp(0.0, 1.0), texel[0]);
                let value = if is_true { 1.0 } else { 0.0 };
                [value, value, value, 1.0]
            }
            _ => texel,
        })
    }

    /// A texel next to a face: clamped to the face, or on the neighboring face if the cube is seamless.
    fn beside(&self, level: u32, slice: u32, x: i32, y: i32) -> (u32, u32, u32) {
        let Level { width, height, .. } = self.setup.levels[level as usize];
        let edge = |at: i32, size: u32| at.clamp(0, size as i32 - 1) as u32;
        let (inner_x, inner_y) = (edge(x, width), edge(y, height));
        let is_corner = inner_x as i32 != x && inner_y as i32 != y;
        if !self.setup.is_seamless || is_corner {
            return (inner_x, inner_y, slice);
        }
        let [(axis, sign), s, t] = FACES[slice as usize];
        let along = |at: i32, size: u32| (2 * at + 1) as f32 / size as f32 - 1.0;
        let mut direction = [0.0; 3];
        direction[axis] = sign;
        direction[s.0] = along(x, width) * s.1;
        direction[t.0] = along(y, height) * t.1;
        let slice = face(direction);
        let [u, v, _] = on_face(slice, direction);
        let (x, y) = (whole(u * width as f32), whole(v * height as f32));
        (edge(x, width), edge(y, height), slice)
    }
}

/// Rounds down to an integer.
fn whole(value: f32) -> i32 {
    crate::shader::floor(value) as i32
}

/// The texel that replaces one that may lie outside; `None`: the border.
fn wrapped(wrap: Wrap, at: i32, size: u32) -> Option<u32> {
    let size = size as i32;
    match wrap {
        Wrap::Repeat => Some(at.rem_euclid(size) as u32),
        Wrap::Mirror => {
            let at = at.rem_euclid(2 * size);
            Some(at.min(2 * size - 1 - at) as u32)
        }
        Wrap::Edge => Some(at.clamp(0, size - 1) as u32),
        Wrap::Border => u32::try_from(at).ok().filter(|at| *at < size as u32),
    }
}

/// Compares a reference with depth. The function numbers are those of BASELOD.
fn compares(function: u32, reference: f32, depth: f32) -> bool {
    match function {
        0 => reference <= depth,
        1 => reference >= depth,
        2 => reference < depth,
        3 => reference > depth,
        4 => reference == depth,
        5 => reference != depth,
        6 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
