// SPDX-License-Identifier: GPL-2.0-only

//! The range that the YUV tiler accesses.
//!
//! The tiler packs YUV planes into a tiled surface of YUY2, for video textures. While `YUV_CONFIG`
//! enables it, a kick of the resolve engine starts the tiler instead of a resolve. So it must not
//! stay on for the kicks of another stream: each stream loads all of these states itself, and turns
//! the tiler off.
//!
//! Pure logic. The software GPU's tests compare it with the bytes
//! that the tiler accesses.
//!
//! The window is rounded up to the resolve engine's blocks of 16 x 4 pixels. Sources give two
//! meanings to the stride of tiled surfaces. The one that reaches farther counts.
//!
//! Sources: the register database (state_3d.xml); Mesa (etnaviv_yuv.c).

use super::problem::{
    check_end,
    Problem, //
};

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
