// SPDX-License-Identifier: GPL-2.0-only

//! The range that the resolve engine accesses, from the first byte of its source and its target.
//!
//! Pure logic, without imports. The software GPU's tests compare it with what the engine accesses.
//!
//! The window counts pixels of the source, rounded up to the engine's blocks of 16 x 4 pixels. A
//! copy that averages neighbors writes half as many in each averaged direction. A fill writes all,
//! and reads none. Each pixel pipe has a window of that size at its own offset in the picture. The
//! window's end is rounded up to a block, too. Tiles count as a whole. A core without supertiles may
//! take them for tiles: there, what reaches farther counts. A split surface has a half for each of
//! two pipes. Its blocks of 8 x 4 pixels alternate between them like a checkerboard. Unknown formats
//! count as the largest pixel.
//!
//! Sources: the register database (state_3d.xml); sources.md, engines.

/// Bits of `RS_CONFIG`.
const HALF_WIDTH: u32 = 5;
const HALF_HEIGHT: u32 = 6;
const SOURCE_TILED: u32 = 1 << 7;
const TARGET_TILED: u32 = 1 << 14;

/// Fields of `RS_SOURCE_STRIDE` and `RS_DEST_STRIDE`.
const STRIDE: u32 = 0x3_FFFF;
const SUPERTILED: u32 = 1 << 31;
/// Another order in supertiles of the same size. Only valid with [`SUPERTILED`].
const SUPERTILED_NEW: u32 = 1 << 27;
const SPLIT: u32 = 1 << 30;

/// `RS_CLEAR_CONTROL`: the kick is a fill.
pub(crate) const FILL: u32 = 3 << 16;

/// `RS_SOURCE_STRIDE`, `TS_MODE`: the tile size of tile status. It moves no pixels.
pub(crate) const TS_MODE: u32 = 1 << 29;

/// The states that a kick uses.
#[derive(Clone, Copy)]
pub(crate) struct Kick {
    /// `RS_CONFIG`.
    pub(crate) config: u32,
    /// `RS_SOURCE_STRIDE`.
    pub(crate) source_stride: u32,
    /// `RS_DEST_STRIDE`.
    pub(crate) stride: u32,
    /// `RS_WINDOW_SIZE`.
    pub(crate) window: u32,
    /// `RS_CLEAR_CONTROL`.
    pub(crate) clear: u32,
    /// The core has supertiles.
    pub(crate) has_supertiles: bool,
}

/// The source or the target of a kick.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    format: u32,
    is_tiled: bool,
    stride: u32,
    window: u32,
    /// Binary logarithm of the ratio of columns and of rows in the window to those here.
    halves: [u32; 2],
    has_supertiles: bool,
}

/// Bytes of a pixel.
fn pixel(format: u32) -> u32 {
    match format {
        // S8.
        16 => 1,
        // 16 bits a pixel, YUY2, D16.
        0..=4 | 7 | 24 => 2,
        // X8R8G8B8, A8R8G8B8, A2R10G10B10, D32.
        5 | 6 | 22 | 23 => 4,
        // 64BPP_CLEAR.
        21 => 8,
        _ => 16,
    }
}

impl Kick {
    /// The surface that the kick writes to.
    pub(crate) fn target(self) -> Side {
        let halves = match self.clear & FILL {
            0 => [HALF_WIDTH, HALF_HEIGHT].map(|bit| self.config >> bit & 1),
            _ => [0; 2],
        };
        Side {
            format: self.config >> 8 & 0x1F,
            is_tiled: self.config & TARGET_TILED != 0,
            stride: self.stride,
            window: self.window,
            halves,
            has_supertiles: self.has_supertiles,
        }
    }

    /// The surface that the kick reads. A fill has none.
    pub(crate) fn source(self) -> Option<Side> {
        (self.clear & FILL == 0).then_some(Side {
            format: self.config & 0x1F,
            is_tiled: self.config & SOURCE_TILED != 0,
            stride: self.source_stride & !TS_MODE,
            window: self.window,
            halves: [0; 2],
            has_supertiles: self.has_supertiles,
        })
    }
}

impl Side {
    /// Whether it has a half for each of two pipes.
    pub(crate) fn is_split(self) -> bool {
        self.stride & SPLIT != 0
    }

    /// Whether the sources describe its layout.
    pub(crate) fn is_known(self) -> bool {
        let known = if self.is_tiled && self.stride & SUPERTILED != 0 {
            STRIDE | SPLIT | SUPERTILED | SUPERTILED_NEW
        } else {
            STRIDE | SPLIT
        };
        self.stride & !known == 0
    }

    /// The offset of the last byte that a pipe accesses, for a window at `origin` (as in
    /// `RS_PIPE_OFFSET`). `in_half`: the offset in either half of a split surface. `None`: too
    /// large, or the window is empty.
    pub(crate) fn last_byte(self, origin: u32, in_half: bool) -> Option<u32> {
        let (width, height) = (self.window & 0xFFFF, self.window >> 16);
        let (x, y) = (origin & 0xFFFF, origin >> 16);
        if width == 0 || height == 0 {
            return None;
        }
        let last = |first: u32, size: u32, block: u32, half: u32| {
            ((first + size.next_multiple_of(block)).next_multiple_of(block) - 1) >> half
        };
        let [across, down] = self.halves;
        // The engine accesses four pixels of a row at a time.
        let x = last(x, width, 16, across) | 3;
        let rows = [y >> down, last(y, height, 4, down)];
        if in_half {
            self.offset(x | 15, rows.map(|y| y >> 3 << 2 | 3))
        } else {
            self.offset(x, rows)
        }
    }

    /// The offset of the last byte of all tiles (pixels if linear) up to column `x`, in the rows
    /// from `first` to `y`.
    fn offset(self, x: u32, [first, y]: [u32; 2]) -> Option<u32> {
        let (bytes, stride) = (pixel(self.format), self.stride & STRIDE);
        let in_row = |row: u32, pixels: u32| row.checked_add(pixels.checked_mul(bytes)? - 1);
        if !self.is_tiled {
            return in_row(y.checked_mul(stride)?, x + 1);
        }
        let (x, y) = (x >> 2, y >> 2);
        let in_tiles = in_row(y.checked_mul(stride)?, 16 * (x + 1))?;
        if self.stride & SUPERTILED == 0 {
            return Some(in_tiles);
        }
        let in_block = |x: u32, y: u32| {
            let tile = (y & 15) >> 2 << 6 | (x & 15) >> 1 << 3 | (y & 3) << 1 | x & 1;
            let row = (y >> 4).checked_mul(stride)?.checked_mul(16)?;
            in_row(row, 4096 * (x >> 4) + 16 * (tile + 1))
        };
        let last = if self.has_supertiles {
            in_block(x, y)?
        } else {
            in_block(x, y)?.max(in_tiles)
        };
        // With a short stride, the blocks above may end farther away.
        match (y & !15).checked_sub(1) {
            Some(above) if above >= first >> 2 => Some(last.max(in_block(x, above)?)),
            _ => Some(last),
        }
    }
}
