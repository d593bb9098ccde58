// SPDX-License-Identifier: GPL-2.0-only

//! The ranges that the resolve engine and the YUV tiler access, from the first byte of their
//! sources and targets, and why a kick of an engine cannot be bounded ([`Problem`]).
//!
//! Pure logic, without imports. The software GPU's tests compare it with what the engines access.
//!
//! The window counts pixels of the source, rounded up to the engine's blocks of 16 x 4 pixels. A
//! copy that averages neighbors writes half as many in each averaged direction. A fill writes all,
//! and reads none. Each pixel pipe has a window of that size at its own offset in the picture. The
//! window's end is rounded up to a block, too. Tiles count as a whole. A core without supertiles
//! may take them for tiles: there, what reaches farther counts. A split surface has a half for each
//! of two pipes. Its blocks of 8 x 4 pixels alternate between them like a checkerboard. Unknown
//! formats count as the largest pixel.
//!
//! The tiler packs YUV planes into a tiled surface of YUY2, for video textures. While `YUV_CONFIG`
//! enables it, a kick of the resolve engine starts the tiler instead of a resolve. So it must not
//! stay on for the kicks of another stream: each stream loads all of these states itself, and turns
//! the tiler off.
//!
//! The tiler's window is rounded up to the resolve engine's blocks of 16 x 4 pixels. Sources give
//! two meanings to the stride of tiled surfaces. The one that reaches farther counts.
//!
//! Sources: the register database (state_3d.xml); sources.md, engines; Mesa (etnaviv_yuv.c).

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
    /// large, the window is empty, or an engine may take its origin as negative.
    pub(crate) fn last_byte(self, origin: u32, in_half: bool) -> Option<u32> {
        let (width, height) = (self.window & 0xFFFF, self.window >> 16);
        let (x, y) = (origin & 0xFFFF, origin >> 16);
        if width == 0 || height == 0 || origin & 0x8000_8000 != 0 {
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

/// A set of [`bounds::STATES`](super::bounds::STATES): a bit for each.
pub(crate) type Mask = u64;

/// Why a kick cannot be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The stream has not loaded these states.
    Missing(Mask),
    /// The kick may go past the end of the memory in which its target or its source begins. The
    /// state with that address, and its value.
    Beyond(u32, u32),
    /// The driver does not know how far the engine goes with this state and value.
    Unbounded(u32, u32),
    /// A draw carries data that nothing uses: the state with the source's configuration, and its
    /// value.
    Data(u32, u32),
    /// The stream has not loaded states that cannot be lent: one of these, or their unit's first.
    Unloaded(u32),
}

/// Fails unless byte `last` of a surface is in the same memory as its first byte. The `address` of
/// that is in `state`. `last` is `None` if the surface ends too far away.
pub(crate) fn check_end(
    (state, address): (u32, u32),
    last: Option<u32>,
    last_of: impl FnOnce(u32, u32) -> Option<u32>,
) -> Result<(), Problem> {
    let room = last_of(state, address).and_then(|end| end.checked_sub(address));
    match last.zip(room) {
        Some((last, room)) if last <= room => Ok(()),
        _ => Err(Problem::Beyond(state, address)),
    }
}

/// `YUV_CONFIG` (a word address), the first of the tiler's states.
pub(crate) const CONFIG: u32 = 0x1678 >> 2;

/// Bit of `YUV_CONFIG`: kicks start the tiler.
pub(crate) const ENABLE: u32 = 1;

/// Number of the tiler's states.
pub(crate) const COUNT: usize = 10;

/// Indexes in [`Tiler::values`]: `YUV_WINDOW_SIZE`, and the addresses of the Y, U and V planes and
/// of the target. Each stride follows its address.
const WINDOW: usize = 1;
const PLANES: [usize; 3] = [2, 4, 6];
const TARGET: usize = 8;

/// Formats of `YUV_CONFIG` (bits 5:4): chroma, subsampled 2 x 2, in two planes or in one.
const THREE_PLANES: u32 = 0;
const NV12: u32 = 1;

/// The fields of `YUV_CONFIG`: enable, format, U and V swapped.
const FIELDS: u32 = ENABLE | 3 << 4 | 1 << 8;

/// A `LOAD_STATE` that turns the tiler off.
pub(crate) const OFF: [u32; 2] = [0x0801_0000 | CONFIG, 0];

/// The state (a word address) with the target's address.
pub(crate) const TARGET_STATE: u32 = CONFIG + TARGET as u32;

const STRIDE_BITS: u32 = 0x3_FFFF;

/// The tiler's states that a stream has loaded so far.
#[derive(Clone, Copy)]
pub(crate) struct Tiler {
    values: [u32; COUNT],
    /// Bit mask of the states that were loaded while the tiler's pipe was selected.
    known: u32,
    is_on: bool,
}

/// Whether `state` is the address of a plane or of the target.
pub(crate) const fn is_surface(state: u32) -> bool {
    let place = state.wrapping_sub(CONFIG);
    place >= PLANES[0] as u32 && place < COUNT as u32 && place & 1 == 0
}

/// Whether `state` is the address of a plane.
pub(crate) const fn is_read(state: u32) -> bool {
    is_surface(state) && state != TARGET_STATE
}

impl Tiler {
    /// The states of a stream that has not loaded anything.
    pub(crate) const fn new() -> Self {
        Self {
            values: [0; COUNT],
            known: 0,
            is_on: false,
        }
    }

    /// Notes a load of `state` by the stream. Without `in_pipe`, the effect is unknown.
    pub(crate) fn load(&mut self, state: u32, value: u32, in_pipe: bool) {
        // CAST: 32 bits into at least 32.
        let place = state.wrapping_sub(CONFIG) as usize;
        let Some(to) = self.values.get_mut(place) else {
            return;
        };
        self.known = self.known & !(1 << place) | u32::from(in_pipe) << place;
        if place == 0 {
            let was_on = self.is_on;
            self.is_on = value & ENABLE != 0 || was_on && !in_pipe;
            if was_on && !in_pipe {
                // It may keep the value that has turned it on.
                return;
            }
        }
        *to = value;
    }

    /// Whether a kick may start the tiler.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The value of `YUV_CONFIG`.
    pub(crate) fn config(&self) -> u32 {
        self.values[0]
    }

    /// Checks a kick while the tiler is on. `last_of` gets a state and the address in it. It
    /// returns the last address of the memory there, if the process may use that.
    pub(crate) fn check_kick(
        &self,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        self.check_known(1 | 1 << WINDOW)?;
        let planes = match (self.config() & !FIELDS, self.config() >> 4 & 3) {
            (0, THREE_PLANES) => 3,
            (0, NV12) => 2,
            _ => return Err(self.unbounded(0)),
        };
        let window = self.values[WINDOW];
        let columns = (window & 0xFFFF).next_multiple_of(16);
        let rows = (window >> 16).next_multiple_of(4);
        if columns == 0 || rows == 0 {
            return Err(self.unbounded(WINDOW));
        }
        let last = |stride: u32, rows: u32, bytes: u32| {
            (rows - 1).checked_mul(stride)?.checked_add(bytes - 1)
        };
        for (plane, &place) in PLANES.iter().take(planes).enumerate() {
            let stride = self.stride(place)?;
            let end = match (plane, planes) {
                (0, _) => last(stride, rows, columns),
                (_, 2) => last(stride, rows / 2, columns),
                _ => last(stride, rows / 2, columns / 2),
            };
            self.check(place, end, &mut last_of)?;
        }
        let stride = self.stride(TARGET)?;
        let as_rows = last(stride, rows, 2 * columns);
        // A row of tiles has four times the pixels and four times the stride of a pixel row.
        let as_tiles = last(4 * stride, rows / 4, 8 * columns);
        let end = as_rows.zip(as_tiles).map(|(rows, tiles)| rows.max(tiles));
        self.check(TARGET, end, last_of)
    }

    fn check_known(&self, needed: u32) -> Result<(), Problem> {
        match needed & !self.known {
            0 => Ok(()),
            _ => Err(Problem::Unloaded(CONFIG)),
        }
    }

    /// The stride of the surface whose address is at `place`, if both are loaded.
    fn stride(&self, place: usize) -> Result<u32, Problem> {
        self.check_known(3 << place)?;
        match self.values[place + 1] {
            stride @ 0..=STRIDE_BITS => Ok(stride),
            _ => Err(self.unbounded(place + 1)),
        }
    }

    /// Fails unless byte `end` of the surface whose address is at `place` is in its memory.
    fn check(
        &self,
        place: usize,
        end: Option<u32>,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        // CAST: at most ten.
        let surface = (CONFIG + place as u32, self.values[place]);
        check_end(surface, end, last_of)
    }

    fn unbounded(&self, place: usize) -> Problem {
        // CAST: at most ten.
        Problem::Unbounded(CONFIG + place as u32, self.values[place])
    }
}
