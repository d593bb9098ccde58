// SPDX-License-Identifier: GPL-2.0-only
//! The state of a sampler: texture, layout, filters and wrap modes.

use super::format::Format;
use super::Features;

/// Maximum number of levels of a texture.
pub(super) const LEVELS: u32 = 14;

/// Texture type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flat,
    Solid,
    Array,
    Cube,
}

/// Wrap mode for coordinates outside 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrap {
    Repeat,
    Mirror,
    Edge,
    Border,
}

/// Filter between texels, or between levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    Nearest,
    Linear,
}

/// Layout of texels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Rows of texels, with this stride in bytes.
    Linear(u32),
    /// Rows of 4 x 4 tiles, at least this many texels wide.
    Tiled(u32),
    Supertiled,
    /// Tiled, in two parts, one per pixel pipe.
    SplitTiled,
    SplitSupertiled,
}

/// Tile status of the texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) address: u32,
    pub(super) clear: [u32; 2],
}

/// Reason why a sampler's setup cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The core lacks this texture type.
    Type(u32),
    /// The core or the model lacks the format: its number, and the extended number.
    Format(u32, u32),
    /// The core reads only textures whose sizes are powers of two, unless they are clamped and have no levels.
    Size(u32, u32),
    /// A width or height is 0 or above the core's maximum.
    Empty,
    /// The core cannot read this layout.
    Layout(u32),
    /// The setup uses another byte order, which the model does not support.
    Endian(u32),
    /// The filter does not exist.
    Filter(u32),
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Type(number) => write!(f, "texture type {number} does not exist"),
            Self::Format(base, extended) => {
                write!(f, "texture format {base} (extended {extended}) is not there")
            }
            Self::Size(width, height) => write!(
                f,
                "{width} x {height} texels: this core wants powers of two, or no levels and clamping"
            ),
            Self::Empty => write!(f, "a size that the core does not have"),
            Self::Layout(number) => write!(f, "this core does not read textures of layout {number}"),
            Self::Endian(number) => write!(f, "byte order {number} is not known"),
            Self::Filter(number) => write!(f, "filter {number} does not exist"),
        }
    }
}

/// A sampler as a draw uses it.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) kind: Kind,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) depth: u32,
    pub(super) wrap: [Wrap; 3],
    pub(super) min: Filter,
    pub(super) mip: Filter,
    pub(super) mag: Filter,
    pub(super) format: Format,
    pub(super) min_lod: f32,
    pub(super) max_lod: f32,
    pub(super) bias: f32,
    /// Channel for each component: 4 is zero, 5 is one.
    pub(super) swizzle: [usize; 4],
    pub(super) is_seamless: bool,
    pub(super) compare: Option<u32>,
    pub(super) status: Option<Status>,
    pub(super) levels: [Level; LEVELS as usize],
    /// Part of the cache key that the tiles of this texture share: format and stride.
    pub(super) key: u64,
}

/// A level of a texture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) address: u32,
    /// Number of tiles per row, padded.
    columns: u32,
    /// Bytes per face or slice.
    slice: u32,
    /// Bytes per 4 x 4 texels.
    pub(super) tile_bytes: u32,
    layout: Layout,
}

/// Access to the registers of a sampler.
struct Registers<'a> {
    sampler: u32,
    is_new: bool,
    read: &'a dyn Fn(u32) -> u32,
}

impl Registers<'_> {
    /// Reads a register of the sampler. `old` and `new` are the addresses in the two kinds of block; at 0 there is
    /// none.
    fn get(&self, old: u32, new: u32) -> u32 {
        match if self.is_new { new } else { old } {
            0 => 0,
            base => (self.read)(base + 4 * self.sampler),
        }
    }

    fn address(&self, level: u32) -> u32 {
        let (sampler, level) = (4 * self.sampler, 4 * level);
        if self.is_new {
            (self.read)(0x1_0800 + 16 * sampler + level)
        } else {
            (self.read)(0x2400 + 16 * level + sampler)
        }
    }
}

/// Converts a number with five fraction bits.
fn fixed(word: u32, low: u32) -> f32 {
    (word >> low & 0x3ff) as f32 / 32.0
}

fn filter(number: u32) -> Filter {
    match number {
        0 => Filter::None,
        1 => Filter::Nearest,
        // Includes anisotropic filters.
        _ => Filter::Linear,
    }
}

impl Setup {
    /// Reads the state of a sampler. `read` returns the state at a byte address. `None`: the sampler is off.
    ///
    /// # Errors
    ///
    /// [`Mistake`]: the core or the model does not support the setup.
    pub fn read(
        core: &Features,
        sampler: u32,
        read: &dyn Fn(u32) -> u32,
    ) -> Result<Option<Self>, Mistake> {
        let registers = Registers {
            sampler,
            is_new: core.has_halti1,
            read,
        };
        let config = registers.get(0x2000, 0x1_0000);
        let more = registers.get(0x21c0, 0x1_0380);
        let kind = match (config & 7, more >> 24 & 1) {
            (0, _) => return Ok(None),
            (1 | 2, 0) => Kind::Flat,
            (1..=3, 1) => Kind::Array,
            (3, _) => Kind::Solid,
            (5, _) => Kind::Cube,
            (other, _) => return Err(Mistake::Type(other)),
        };
        if config >> 22 & 3 != 0 {
            return Err(Mistake::Endian(config >> 22 & 3));
        }
        let size = registers.get(0x2040, 0x1_0080);
        let (width, height) = (size & 0xffff, if config & 7 == 1 { 1 } else { size >> 16 });
        if width == 0 || height == 0 || width.max(height) > core.largest {
            return Err(Mistake::Empty);
        }
        let log_size = registers.get(0x2080, 0x1_0100);
        let (base, extended) = (config >> 13 & 31, more & 63);
        let format = Format::new(base, extended, log_size >> 31 != 0, core);
        let format = format.ok_or(Mistake::Format(base, extended))?;
        let volume = registers.get(0x2180, 0x1_0300);
        let wrap = [config >> 3, config >> 5, volume >> 28].map(|mode| match mode & 3 {
            0 => Wrap::Repeat,
            1 => Wrap::Mirror,
            2 => Wrap::Edge,
            _ => Wrap::Border,
        });
        let mip = filter(config >> 9 & 3);
        let is_power = width.is_power_of_two() && height.is_power_of_two();
        let is_clamped = wrap[..2].iter().all(|wrap| *wrap == Wrap::Edge);
        let is_plain = is_clamped && mip == Filter::None;
        if !(core.has_any_size || is_power || is_plain) {
            return Err(Mistake::Size(width, height));
        }
        let lod = registers.get(0x20c0, 0x1_0180);
        let bias = ((lod >> 21 & 0x3ff) << 22) as i32 >> 22;
        let base_lod = registers.get(0, 0x1_0700);
        let layout = Self::layout(core, &registers, config, more)?;
        let stride = match layout {
            Layout::Linear(stride) => u64::from(stride & 0x3_ffff),
            _ => 0,
        };
        let swizzle = [8, 12, 16, 20].map(|low| (more >> low & 7) as usize);
        Ok(Some(Self {
            kind,
            width,
            height,
            depth: (volume & 0x3fff).max(1),
            wrap,
            min: filter(config >> 7 & 3),
            mip,
            mag: filter(config >> 11 & 3),
            format,
            min_lod: fixed(lod, 11),
            max_lod: fixed(lod, 1),
            bias: if lod & 1 != 0 {
                bias as f32 / 32.0
            } else {
                0.0
            },
            swizzle: if core.has_halti0 {
                swizzle
            } else {
                [0, 1, 2, 3]
            },
            is_seamless: core.has_seamless_cubes && more >> 25 & 1 != 0,
            compare: (base_lod >> 16 & 1 != 0).then_some(base_lod >> 20 & 7),
            status: Self::status(core, sampler, more, read),
            levels: std::array::from_fn(|level| {
                let size = ((width >> level).max(1), (height >> level).max(1));
                Level::new(size, registers.address(level as u32), format, layout)
            }),
            key: format.key() << 32 | stride << 43,
        }))
    }

    fn layout(
        core: &Features,
        registers: &Registers<'_>,
        config: u32,
        more: u32,
    ) -> Result<Layout, Mistake> {
        match (config >> 20 & 3, more >> 26 & 7) {
            (0, 0) => Ok(Layout::Tiled(4)),
            (0, _) if !core.has_alignment => Ok(Layout::Tiled(4)),
            (0, 1) => Ok(Layout::Tiled(16)),
            (0, 2) if core.has_supertiles => Ok(Layout::Supertiled),
            (0, 3) => Ok(Layout::SplitTiled),
            (0, 4) => Ok(Layout::SplitSupertiled),
            (3, _) if core.has_linear => Ok(Layout::Linear(registers.get(0x2c00, 0x1_0280))),
            (0, alignment) => Err(Mistake::Layout(alignment)),
            (addressing, _) => Err(Mistake::Layout(addressing << 4)),
        }
    }

    fn status(
        core: &Features,
        sampler: u32,
        more: u32,
        read: &dyn Fn(u32) -> u32,
    ) -> Option<Status> {
        let register = |base: u32| read(base + 4 * sampler);
        // Only eight samplers have these registers.
        let is_there = core.has_status && sampler < 8 && more >> 30 & 1 != 0;
        (is_there && register(0x1720) & 1 != 0).then(|| Status {
            address: register(0x1740),
            clear: [register(0x1760), register(0x1780)],
        })
    }

    /// Number of faces or slices of a level.
    pub(super) fn slices(&self, level: u32) -> u32 {
        match self.kind {
            Kind::Flat => 1,
            Kind::Cube => 6,
            Kind::Array => self.depth,
            Kind::Solid => (self.depth >> level).max(1),
        }
    }
}

impl Level {
    fn new((width, height): (u32, u32), address: u32, format: Format, layout: Layout) -> Self {
        let up = |size: u32, to: u32| size.div_ceil(to) * to;
        let (align_x, align_y) = match layout {
            _ if format.block_bytes().is_some() => (4, 4),
            Layout::Linear(_) => (4, 4),
            Layout::Tiled(align) => (align, 4),
            Layout::Supertiled => (64, 64),
            Layout::SplitTiled => (16, 8),
            Layout::SplitSupertiled => (64, 128),
        };
        let tile_bytes = format.block_bytes().unwrap_or(16 * format.bytes());
        let (columns, rows) = (up(width, align_x) / 4, up(height, align_y) / 4);
        let (layout, slice) = match layout {
            // Compressed blocks are stored row by row.
            _ if format.block_bytes().is_some() => (Layout::Tiled(4), columns * rows * tile_bytes),
            Layout::Linear(stride) => (layout, stride.wrapping_mul(4 * rows)),
            _ => (layout, columns * rows * tile_bytes),
        };
        Self {
            width,
            height,
            address,
            columns,
            slice,
            tile_bytes,
            layout,
        }
    }

    /// The address of 4 x 4 texels, by face or slice, and column and row of tiles.
    pub(super) fn tile(&self, slice: u32, mut x: u32, mut y: u32) -> u32 {
        let mut base = self.address.wrapping_add(slice.wrapping_mul(self.slice));
        if matches!(self.layout, Layout::SplitTiled | Layout::SplitSupertiled) {
            let odd = y & 1;
            if (x >> 1 ^ odd) & 1 != 0 {
                base = base.wrapping_add(self.slice / 2);
            }
            (x, y) = (x & !2 | odd << 1, y >> 1);
        }
        let index = match self.layout {
            Layout::Linear(stride) => {
                let row = (4 * y).wrapping_mul(stride);
                return base.wrapping_add(row).wrapping_add(x * self.tile_bytes / 4);
            }
            Layout::Supertiled | Layout::SplitSupertiled => {
                let inside = y % 16 / 4 * 64 + x % 16 / 2 * 8 + y % 4 * 2 + x % 2;
                (y / 16 * (self.columns / 16) + x / 16) * 256 + inside
            }
            Layout::Tiled(_) | Layout::SplitTiled => y * self.columns + x,
        };
        base.wrapping_add(index.wrapping_mul(self.tile_bytes))
    }

    /// Stride in bytes, if the texels of a row are contiguous.
    pub(super) fn stride(&self) -> Option<u32> {
        match self.layout {
            Layout::Linear(stride) => Some(stride),
            _ => None,
        }
    }
}
