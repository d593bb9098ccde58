// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the 2D engine's writes, and of the resolve engine's reads and writes: whether a draw
//! stays in the memory that its source and its target begin in.
//!
//! Pure logic: the software GPU's tests compare it with the bytes that these engines access.
//!
//! [`Target`] notes the loads of one stream in their order, and judges each kick, a command that
//! starts an engine, by them. The engine holds these values at the kick, regardless of other
//! threads, processes, resets or pauses. A stream that kicks before it has loaded all of the states
//! ([`Problem::Missing`]) is *lent* the others: the driver loads the process's last values
//! ([`load_of`]) before the stream. So a client's values survive another process's draws.
//!
//! For the resolve engine, see [`resolve`]. With one pixel pipe its target is `RS_DEST_ADDR`. With
//! two, and with HALTI5, it is the first `RS_PIPE_DEST_ADDR`; also the second if the target is
//! split, and `RS_DEST_ADDR` if the stream has loaded it. The same rule holds for the source. A
//! kick in place fills a given number of tiles of the color surface that has tile status. A copy
//! with fast clear of color on, and a kick in place, also read the status of these tiles: its last
//! byte must lie in the memory that `TS_COLOR_STATUS_BASE` is in.
//!
//! A kick of the 2D engine is assumed to write, in the target's own coordinates:
//!
//! * for `DRAW_2D`: its rectangles, clipped to the clipping window. A line includes both ends. An
//!   inverted rectangle counts as the area between its corners;
//! * for the filter: its window, which nothing clips.
//!
//! A mirrored draw stays within the same area. The pixels of a rotated target may lie anywhere
//! within the width and height that states give it. So all rows and columns up to these count, and
//! the drawn area must lie in them. Tiles are 4 x 4 pixels. Sources give two meanings to the stride
//! of tiled targets; the one that reaches farther counts.
//!
//! The last byte must lie in the range that the target's address is in. The checker refuses uses
//! that no source describes: targets in several planes or in minor tiles; unknown formats and
//! rotations; blocks of a multi-source blit that rotate the target on their own; values that
//! `LOAD_STATE` converts; strides of more bits than the state has. Without a fetch of the target
//! the engine writes whole cache blocks: a load that disables the fetch is changed to enable it.
//!
//! Sources: the register database (state_2d.xml); sources.md, engines.

use super::{
    resolve,
    tiler::{
        self,
        Tiler, //
    }, //
};
use core::cell::Cell;

const fn word(byte: u32) -> u32 {
    byte >> 2
}

/// The states that bound a kick, in the order of [`Target::values`]: those of the 2D engine, then
/// those of the resolve engine.
pub(crate) const STATES: [u32; 26] = [
    word(0x1228),
    word(0x122C),
    word(0x1230),
    word(0x1234),
    word(0x1260),
    word(0x1264),
    word(0x12A8),
    word(0x12AC),
    word(0x12B4),
    word(0x12BC),
    word(0x1604),
    word(0x1608),
    word(0x160C),
    word(0x1610),
    word(0x1614),
    word(0x1620),
    word(0x163C),
    word(0x1654),
    word(0x1658),
    word(0x165C),
    word(0x16C0),
    word(0x16C4),
    word(0x16E0),
    word(0x16E4),
    word(0x1700),
    word(0x1704),
];

/// Indexes in [`STATES`]: `DE_DEST_ADDRESS`, `_STRIDE`, `_ROTATION_CONFIG`, `_CONFIG`,
/// `DE_CLIP_TOP_LEFT`, `_BOTTOM_RIGHT`, `DE_VR_TARGET_WINDOW_LOW`, `_HIGH`,
/// `DE_DEST_ROTATION_HEIGHT`, `DE_ROT_ANGLE`.
const ADDRESS: usize = 0;
const STRIDE: usize = 1;
const ROTATION: usize = 2;
const CONFIG: usize = 3;
const CLIP_LOW: usize = 4;
const CLIP_HIGH: usize = 5;
const WINDOW_LOW: usize = 6;
const WINDOW_HIGH: usize = 7;
const HEIGHT: usize = 8;
const ANGLE: usize = 9;

/// Indexes in [`STATES`]: `RS_CONFIG`, `_SOURCE_ADDR`, `_SOURCE_STRIDE`, `_DEST_ADDR`,
/// `_DEST_STRIDE`, `_WINDOW_SIZE`, `_CLEAR_CONTROL`; `TS_MEM_CONFIG`, `_COLOR_STATUS_BASE`,
/// `_COLOR_SURFACE_BASE`; the first `RS_PIPE_SOURCE_ADDR`, `_PIPE_DEST_ADDR` and `_PIPE_OFFSET`.
const RS_CONFIG: usize = 10;
const RS_SOURCE: usize = 11;
const RS_SOURCE_STRIDE: usize = 12;
const RS_ADDRESS: usize = 13;
const RS_STRIDE: usize = 14;
const RS_WINDOW: usize = 15;
const RS_CLEAR: usize = 16;
const TS_CONFIG: usize = 17;
const TS_STATUS: usize = 18;
const TS_SURFACE: usize = 19;
const RS_PIPE_SOURCE: usize = 20;
const RS_PIPE_ADDRESS: usize = 22;
const RS_PIPE_OFFSET: usize = 24;

/// `TS_MEM_CONFIG`, `COLOR_FAST_CLEAR`: reads of color use tile status.
const COLOR_FAST_CLEAR: u32 = 1 << 1;

/// Bit mask of those of [`STATES`] that belong to the 3D pipe.
pub(crate) const OF_3D: u32 = (1 << STATES.len()) - (1 << RS_CONFIG);

/// `DE_DEYUV_CONVERSION`: bit 1 is set if the target has several planes.
const DEYUV: u32 = word(0x130C);
const DEYUV_PLANES: u32 = 1 << 1;

/// `DE_PE_CONFIG`: whether the engine fetches the target first. Without the fetch (0), it writes
/// whole cache blocks, past the drawn area. With the mask bit a load leaves the field unchanged.
const PE_CONFIG: u32 = word(0x12B0);
const FETCH: u32 = 3;
const FETCH_DEFAULT: u32 = 1;
const FETCH_MASK: u32 = 1 << 3;

/// `DE_BLOCK4_ROT_ANGLE` and `DE_BLOCK8_ROT_ANGLE`: the angle of each of several sources.
const BLOCK4_ANGLE: u32 = word(0x128F0);
const BLOCK8_ANGLE: u32 = word(0x12BE0);

/// `DE_ROT_ANGLE`: the rotation of the target. With the mask bit a load leaves it unchanged.
const ANGLE_TARGET: u32 = 7 << 3;
const ANGLE_TARGET_MASK: u32 = 1 << 9;
/// The other mask bits of `DE_ROT_ANGLE`.
const ANGLE_OTHER_MASKS: u32 = 1 << 8 | 1 << 15 | 1 << 19;

/// Bits of `DE_DEST_CONFIG`.
const TILED: u32 = 1 << 8;
const MINOR_TILED: u32 = 1 << 26;
const COMMAND_LINE: u32 = 1;
const COMMAND_MULTI: u32 = 8;
/// The commands of `DRAW_2D` that sources describe: CLEAR, LINE, BIT_BLT, STRETCH_BLT,
/// MULTI_SOURCE_BLT.
const DRAWS: [u32; 5] = [0, COMMAND_LINE, 2, 4, COMMAND_MULTI];

const STRIDE_BITS: u32 = 0x3_FFFF;

/// The range of states that [`PLACES`] covers.
const FIRST: u32 = STATES[ADDRESS];
const NEAR: usize = (STATES[STATES.len() - 1] - FIRST + 1) as usize;

/// Values of [`PLACES`], which has for each state from [`FIRST`] on one of these or its index in
/// [`STATES`].
const NONE: u8 = 0xFF;
const PLANES: u8 = 0xFE;
const FETCHES: u8 = 0xFD;
const TILES: u8 = 0xFC;
const PLACES: [u8; NEAR] = places();

const fn places() -> [u8; NEAR] {
    let mut places = [NONE; NEAR];
    let mut place = 0;
    while place < STATES.len() {
        // CAST: some twenty.
        places[(STATES[place] - FIRST) as usize] = place as u8;
        place += 1;
    }
    let mut state = tiler::CONFIG;
    while state < tiler::CONFIG + tiler::COUNT as u32 {
        places[(state - FIRST) as usize] = TILES;
        state += 1;
    }
    places[(DEYUV - FIRST) as usize] = PLANES;
    places[(PE_CONFIG - FIRST) as usize] = FETCHES;
    places
}

/// The states (word addresses) of the 2D pipe whose loads [`Target::load`] must see, except the
/// angles of sources.
pub(crate) fn looked_at_2d() -> impl Iterator<Item = u32> {
    let states = STATES.into_iter().take(RS_CONFIG);
    states.chain([DEYUV, PE_CONFIG])
}

/// The states (word addresses) of the 3D pipe whose loads [`Target::load`] must see.
pub(crate) fn looked_at_3d() -> impl Iterator<Item = u32> {
    let of_tiler = (tiler::CONFIG..).take(tiler::COUNT);
    STATES.into_iter().skip(RS_CONFIG).chain(of_tiler)
}

/// `TS_COLOR_SURFACE_BASE`.
pub(crate) const STATUS_SURFACE: u32 = STATES[TS_SURFACE];

/// Whether `state` is an address of tile status, or of its surface.
pub(crate) const fn is_status(state: u32) -> bool {
    state == STATES[TS_STATUS] || state == STATES[TS_SURFACE]
}

/// Whether `state` is an address that the resolve engine reads from.
#[inline(always)]
pub(crate) const fn is_read(state: u32) -> bool {
    state == STATES[RS_SOURCE]
        || state == STATES[TS_STATUS]
        || state & !1 == STATES[RS_PIPE_SOURCE]
        || tiler::is_read(state)
}

/// Whether `state` is the address of a source or a target.
#[inline(always)]
pub(crate) const fn is_surface(state: u32) -> bool {
    is_read(state)
        || state == STATES[ADDRESS]
        || state == STATES[RS_ADDRESS]
        || state == STATES[TS_SURFACE]
        || state & !1 == STATES[RS_PIPE_ADDRESS]
        || tiler::is_surface(state)
}

/// The index of `state` in [`STATES`].
pub(crate) fn place_of(state: u32) -> Option<usize> {
    Some(usize::from(place(state))).filter(|&place| place < STATES.len())
}

#[inline(always)]
fn place(state: u32) -> u8 {
    // CAST: 32 bits into at least 32.
    let near = PLACES.get(state.wrapping_sub(FIRST) as usize);
    near.copied().unwrap_or(NONE)
}

/// Whether `state` is the angle of one of several sources, which must not rotate the target.
fn is_block_angle(state: u32) -> bool {
    state >= BLOCK4_ANGLE && (state < BLOCK4_ANGLE + 4 || state.wrapping_sub(BLOCK8_ANGLE) < 8)
}

/// Why a kick cannot be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The stream has not loaded these states: a bit for each of [`STATES`].
    Missing(u32),
    /// The kick may go past the end of the memory that its target or its source begins in: the
    /// state with that address, and its value.
    Beyond(u32, u32),
    /// The driver does not know how far the engine goes with this state and value.
    Unbounded(u32, u32),
    /// The stream has not loaded a state that it must load itself.
    Unloaded,
}

/// How [`Target::load`] has judged a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// The state does not bound a kick.
    Other,
    /// The value has been noted. The process's [`Loaded`](super::loaded::Loaded) must keep it.
    Noted,
    /// The load is valid and leaves the bounds unchanged.
    Masked,
    /// The state must be loaded with this value instead.
    Instead(u32),
    /// The load is not allowed: later draws would have no bound.
    Refused,
}

/// Pixels of a target. `right` and `bottom` are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

fn signed(value: u32) -> i32 {
    // CAST: a coordinate is a signed 16-bit number.
    i32::from(value as u16 as i16)
}

impl Area {
    /// The area between two corners of a rectangle. The second is exclusive, unless it is `inside`
    /// or not past the first. A negative coordinate makes the area unbounded, because some engines
    /// may have unsigned coordinates.
    fn between(first: u32, second: u32, inside: bool) -> Self {
        let span = |a: i32, b: i32| match (a < 0 || b < 0, b > a && !inside) {
            (true, _) => (a.min(b), i32::MAX),
            (false, true) => (a, b),
            (false, false) => (a.min(b), a.max(b) + 1),
        };
        let (left, right) = span(signed(first), signed(second));
        let (top, bottom) = span(signed(first >> 16), signed(second >> 16));
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    /// The part of the area in a clipping window, if any. An empty or inverted window does not
    /// clip.
    fn clipped(self, low: u32, high: u32) -> Option<Self> {
        // CAST: fifteen bits.
        let corner = |word: u32| ((word & 0x7FFF) as i32, (word >> 16 & 0x7FFF) as i32);
        let ((left, top), (right, bottom)) = (corner(low), corner(high));
        if left >= right || top >= bottom {
            return Some(self);
        }
        let both = Self {
            left: self.left.max(left),
            top: self.top.max(top),
            right: self.right.min(right),
            bottom: self.bottom.min(bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }
}

/// Bytes of a pixel of a target's format, and the number of pixels in a group, minus 1. `None`: an
/// unknown format, or several planes.
fn pixel(format: u32) -> Option<(u32, u32)> {
    Some(match format {
        0..=4 | 19 => (2, 0),
        5 | 6 => (4, 0),
        // YUY2 and UYVY.
        7 | 8 => (2, 1),
        9 | 10 | 16 => (1, 0),
        _ => return None,
    })
}

/// Properties of a core's engines on which the bounds depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 2D engine is PE 2.0, which rotates by `DE_ROT_ANGLE`.
    pub(crate) turns: bool,
    /// Number of pixel pipes.
    pub(crate) pixel_pipes: u32,
    /// HALTI5: resolves use the addresses of pipes even with one pipe.
    pub(crate) halti5: bool,
    /// A tile of tile status has 128 or 256 bytes instead of 64.
    pub(crate) has_large_tiles: bool,
    /// The status of a tile has 2 bits instead of 4.
    pub(crate) has_2_bits_per_tile: bool,
    /// The resolve engine has the YUV tiler.
    pub(crate) has_yuv_tiler: bool,
}

/// The values of [`STATES`] that a stream has loaded so far.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    values: [u32; STATES.len()],
    /// Bit mask of the states that have been loaded.
    known: u32,
    /// Bit mask of the states whose value was converted.
    odd: u32,
    /// Bit mask of the states that the stream loads with unknown effect: they cannot be lent.
    lost: u32,
    /// The 2D engine's whole clipping window is in the memory.
    is_roomy: bool,
    tiler: Tiler,
    engines: Engines,
}

impl Target {
    /// For a stream that has not loaded anything.
    pub(crate) const fn new(engines: Engines) -> Self {
        Self {
            values: [0; STATES.len()],
            known: 0,
            odd: 0,
            lost: 0,
            is_roomy: false,
            tiler: Tiler::new(),
            engines,
        }
    }

    /// Notes a load of `state` (a word address) with `value`, which the hardware converts if
    /// `converted`. Without `in_pipe` the state's pipe is not selected, and the effect of the load
    /// is not known.
    #[inline(always)]
    pub(crate) fn load(&mut self, state: u32, value: u32, converted: bool, in_pipe: bool) -> Load {
        let refused_if = |refused| match refused {
            true => Load::Refused,
            false => Load::Other,
        };
        match place(state) {
            // With the mask bit the angle stays 0.
            NONE if is_block_angle(state) => {
                let turns = value & ANGLE_TARGET != 0 && value & ANGLE_TARGET_MASK == 0;
                refused_if(turns || converted)
            }
            NONE => Load::Other,
            PLANES => refused_if(value & DEYUV_PLANES != 0 || converted),
            FETCHES => match (converted, value & (FETCH | FETCH_MASK)) {
                (true, _) => Load::Refused,
                (false, 0) => Load::Instead(value | FETCH_DEFAULT),
                (false, _) => Load::Masked,
            },
            TILES => {
                self.tiler.load(state, value, in_pipe);
                match converted || self.tiler.is_on() && !self.engines.has_yuv_tiler {
                    true => Load::Refused,
                    false => Load::Masked,
                }
            }
            place => {
                let place = usize::from(place);
                if place == ANGLE && value & ANGLE_TARGET_MASK != 0 && !converted {
                    return Load::Masked;
                }
                if let Some(to) = self.values.get_mut(place) {
                    *to = value;
                }
                self.known = self.known & !(1 << place) | u32::from(in_pipe) << place;
                self.lost |= u32::from(!in_pipe) << place;
                self.odd &= !(1 << place);
                self.odd |= u32::from(converted) << place;
                self.is_roomy &= place >= RS_CONFIG;
                Load::Noted
            }
        }
    }

    /// Notes that the driver loads the `missing` states with their `value_of` before the stream.
    /// `false`: the stream itself loads one of them, with an unknown effect.
    pub(crate) fn lend(&mut self, missing: u32, mut value_of: impl FnMut(u32) -> u32) -> bool {
        for (place, (to, state)) in self.values.iter_mut().zip(STATES).enumerate() {
            if missing & 1 << place != 0 {
                *to = value_of(state);
            }
        }
        self.known |= missing;
        self.odd &= !missing;
        self.is_roomy = false;
        self.lost & missing == 0
    }

    /// Judges a `DRAW_2D` of rectangles, each of two `corners`. `last_of` returns the last address
    /// of the memory that the address in a state is in, if the process may write there.
    pub(crate) fn draw(
        &mut self,
        corners: impl Iterator<Item = u32>,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if self.is_roomy {
            return Ok(());
        }
        let command = self.values[CONFIG] >> 12 & 0xF;
        // Other commands are the filter's or internal, and may not be clipped.
        if self.known & 1 << CONFIG != 0 && !DRAWS.contains(&command) {
            return Err(self.beyond(ADDRESS));
        }
        const NEEDED: u32 = 1 << CLIP_LOW | 1 << CLIP_HIGH;
        let room = self.room(NEEDED, last_of)?;
        let (low, high) = (self.values[CLIP_LOW], self.values[CLIP_HIGH]);
        let everything = Area {
            left: 0,
            top: 0,
            right: i32::MAX,
            bottom: i32::MAX,
        };
        // In most cases all of the clipping window is in the memory.
        let window = everything.clipped(low, high);
        if window.is_none_or(|window| self.fits(window, room)) {
            self.is_roomy = true;
            return Ok(());
        }
        let is_line = command == COMMAND_LINE;
        let mut corners = corners;
        while let (Some(first), Some(second)) = (corners.next(), corners.next()) {
            let area = Area::between(first, second, is_line).clipped(low, high);
            if area.is_some_and(|area| !self.fits(area, room)) {
                return Err(self.beyond(ADDRESS));
            }
        }
        Ok(())
    }

    /// Judges a kick of the filter.
    pub(crate) fn filter(
        &self,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        const NEEDED: u32 = 1 << WINDOW_LOW | 1 << WINDOW_HIGH;
        let room = self.room(NEEDED, last_of)?;
        let (low, high) = (self.values[WINDOW_LOW], self.values[WINDOW_HIGH]);
        // CAST: sixteen bits.
        let span = |low: u32, high: u32| {
            let (low, high) = ((low & 0xFFFF) as i32, (high & 0xFFFF) as i32);
            (low.min(high), high.max(low + 1))
        };
        let (left, right) = span(low, high);
        let (top, bottom) = span(low >> 16, high >> 16);
        let window = Area {
            left,
            top,
            right,
            bottom,
        };
        match self.fits(window, room) {
            true => Ok(()),
            false => Err(self.beyond(ADDRESS)),
        }
    }

    /// [`Self::room_of`] the 2D engine's target. `needed`: other states that must be known.
    fn room(
        &self,
        needed: u32,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        let mut needed = needed | 1 << ADDRESS | 1 << STRIDE | 1 << ROTATION | 1 << CONFIG;
        if self.engines.turns {
            needed |= 1 << ANGLE;
            // These rotations count rows from the bottom.
            if !matches!(self.turn(), 0 | 1 | 4) {
                needed |= 1 << HEIGHT;
            }
        }
        self.check_known(needed)?;
        self.room_of(ADDRESS, needed, last_of)
    }

    /// Bytes from the address in the state at `place` to the last byte of its memory. `needed`: the
    /// states that bound the access, none of which may be converted.
    fn room_of(
        &self,
        place: usize,
        needed: u32,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        let odd = self.odd & needed;
        if odd != 0 {
            // CAST: at most 31.
            return Err(self.unbounded(odd.trailing_zeros() as usize));
        }
        let address = self.values[place];
        let last = last_of(STATES[place], address);
        last.and_then(|last| last.checked_sub(address))
            .ok_or(self.beyond(place))
    }

    fn beyond(&self, place: usize) -> Problem {
        Problem::Beyond(STATES[place], self.values[place])
    }

    fn unbounded(&self, place: usize) -> Problem {
        Problem::Unbounded(STATES[place], self.values[place])
    }

    /// The states that the stream has loaded or was lent: a bit for each of [`STATES`].
    pub(crate) fn known(&self) -> u32 {
        self.known
    }

    /// Copies the values of the known states to `to`, and 0 for those that were converted.
    pub(crate) fn put(&self, to: &[Cell<u32>; STATES.len()]) {
        for ((place, &value), to) in self.values.iter().enumerate().zip(to) {
            if self.known & 1 << place != 0 {
                to.set(if self.odd & 1 << place == 0 { value } else { 0 });
            }
        }
    }

    /// The unknown states that a resolve may need: a bit for each of [`STATES`].
    pub(crate) fn all_of_resolves(&self) -> u32 {
        let all = 1 << RS_CONFIG
            | 1 << RS_SOURCE_STRIDE
            | 1 << RS_STRIDE
            | 1 << RS_WINDOW
            | 1 << RS_CLEAR
            | 1 << TS_CONFIG
            | 1 << TS_STATUS
            | 1 << TS_SURFACE;
        let surfaces = match (self.engines.pixel_pipes, self.engines.halti5) {
            (0 | 1, false) => 1 << RS_SOURCE | 1 << RS_ADDRESS,
            (0 | 1, true) => 1 << RS_PIPE_SOURCE | 1 << RS_PIPE_ADDRESS | 1 << RS_PIPE_OFFSET,
            _ => 3 << RS_PIPE_SOURCE | 3 << RS_PIPE_ADDRESS | 3 << RS_PIPE_OFFSET,
        };
        (all | surfaces) & !self.known
    }

    /// Judges a kick of the resolve engine. `TS_COLOR_SURFACE_BASE` holds addresses plus
    /// `status_base`.
    pub(crate) fn resolve(
        &self,
        status_base: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if self.tiler.is_on() {
            // Mesa turns fills off before.
            self.check_known(1 << RS_CLEAR)?;
            if self.odd & 1 << RS_CLEAR != 0 || self.values[RS_CLEAR] & resolve::FILL != 0 {
                return Err(self.unbounded(RS_CLEAR));
            }
            if self.engines.pixel_pipes > 2 {
                return Err(Problem::Unbounded(tiler::CONFIG, self.tiler.config()));
            }
            return self.tiler.judge(last_of);
        }
        let needed = 1 << RS_CONFIG | 1 << RS_STRIDE | 1 << RS_WINDOW | 1 << RS_CLEAR;
        self.check_known(needed)?;
        let window = self.values[RS_WINDOW];
        if window & 0xFFFF == 0 || window >> 16 == 0 {
            return Err(self.unbounded(RS_WINDOW));
        }
        let kick = resolve::Kick {
            config: self.values[RS_CONFIG],
            source_stride: self.values[RS_SOURCE_STRIDE],
            stride: self.values[RS_STRIDE],
            window,
            clear: self.values[RS_CLEAR],
        };
        self.check_side(
            kick.target(),
            needed,
            [RS_STRIDE, RS_ADDRESS, RS_PIPE_ADDRESS],
            &mut last_of,
        )?;
        let Some(source) = kick.source() else {
            return Ok(());
        };
        let needed = needed | 1 << RS_SOURCE_STRIDE | 1 << TS_CONFIG;
        let places = [RS_SOURCE_STRIDE, RS_SOURCE, RS_PIPE_SOURCE];
        let (first, last) = self.check_side(source, needed, places, &mut last_of)?;
        if self.values[TS_CONFIG] & COLOR_FAST_CLEAR == 0 {
            return Ok(());
        }
        let needed = 1 << TS_CONFIG | 1 << TS_STATUS | 1 << TS_SURFACE;
        self.check_known(needed)?;
        let surface = self.values[TS_SURFACE].wrapping_sub(status_base);
        // No source says which status the engine reads for tiles before the surface.
        if first < surface {
            return Err(self.beyond(TS_SURFACE));
        }
        let tile = (last - surface) / self.bytes_per_tile();
        self.check_status(tile, needed, last_of)
    }

    /// Fails unless the status of all tiles up to number `last` is in its memory. `needed`: states
    /// that must be known, none of them converted.
    fn check_status(
        &self,
        last: u32,
        needed: u32,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let room = self.room_of(TS_STATUS, needed, last_of)?;
        let byte = match self.engines.has_2_bits_per_tile {
            true => last / 4,
            false => last / 2,
        };
        match byte <= room {
            true => Ok(()),
            false => Err(self.beyond(TS_STATUS)),
        }
    }

    /// Bytes of the surface for each tile's status.
    fn bytes_per_tile(&self) -> u32 {
        match (
            self.engines.has_large_tiles,
            self.values[RS_SOURCE_STRIDE] & resolve::TS_MODE,
        ) {
            (false, _) => 64,
            (true, 0) => 128,
            (true, _) => 256,
        }
    }

    /// Fails unless a kick's source or target is in its memory. The addresses are the state at
    /// `plain`, or on cores with several pixel pipes those from `of_pipes` on; the stride is the
    /// state at `stride`. `needed`: other states that must be known. Returns the first and the last
    /// address.
    fn check_side(
        &self,
        side: resolve::Side,
        needed: u32,
        [stride, plain, of_pipes]: [usize; 3],
        last_of: &mut impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(u32, u32), Problem> {
        let has_pipes = self.engines.pixel_pipes > 1;
        let is_split = has_pipes && side.is_split();
        // No source describes more than two pipes.
        if !side.is_known() || self.engines.pixel_pipes > 2 {
            return Err(self.unbounded(stride));
        }
        let needed = needed
            | match (has_pipes, self.engines.halti5) {
                (true, _) => (1 | u32::from(is_split) << 1) << of_pipes | 3 << RS_PIPE_OFFSET,
                (false, true) => 1 << of_pipes | 1 << RS_PIPE_OFFSET,
                (false, false) => 1 << plain,
            };
        self.check_known(needed)?;
        let mut fits = |place: usize, last: Option<u32>| {
            let room = self.room_of(place, needed, &mut *last_of)?;
            let last = last
                .filter(|&last| last <= room)
                .ok_or(self.beyond(place))?;
            let first = self.values[place];
            Ok((first, first + last))
        };
        let join = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
        let of_pipe = |pipe| side.last_byte(self.values[RS_PIPE_OFFSET + pipe], is_split);
        let farthest = match (self.engines.pixel_pipes, self.engines.halti5) {
            (0 | 1, false) => return fits(plain, side.last_byte(0, false)),
            (0 | 1, true) => of_pipe(0),
            _ => {
                let both = of_pipe(0).zip(of_pipe(1));
                both.map(|(first, second)| first.max(second))
            }
        };
        let mut side = fits(of_pipes, farthest)?;
        if is_split {
            side = join(side, fits(of_pipes + 1, farthest)?);
        }
        if self.known & 1 << plain != 0 {
            side = join(side, fits(plain, farthest)?);
        }
        Ok(side)
    }

    /// Judges a kick that fills `tiles` of the color surface of tile status in place.
    pub(crate) fn fill_tiles(
        &self,
        tiles: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if let Some(config) = self.tiler_left_on() {
            return Err(Problem::Unbounded(tiler::CONFIG, config));
        }
        let mut needed = 1 << TS_STATUS | 1 << TS_SURFACE;
        needed |= u32::from(self.engines.has_large_tiles) << RS_SOURCE_STRIDE;
        self.check_known(needed)?;
        let Some(last) = tiles.checked_sub(1) else {
            return Ok(());
        };
        let room = self.room_of(TS_SURFACE, needed, &mut last_of)?;
        let bytes = tiles.checked_mul(self.bytes_per_tile());
        match bytes.is_some_and(|bytes| bytes - 1 <= room) {
            true => self.check_status(last, needed, last_of),
            false => Err(self.beyond(TS_SURFACE)),
        }
    }

    /// The value of `YUV_CONFIG`, if the tiler is on after the loads so far.
    pub(crate) fn tiler_left_on(&self) -> Option<u32> {
        self.tiler.is_on().then(|| self.tiler.config())
    }

    /// Fails unless the stream has loaded or was lent all of `needed`.
    fn check_known(&self, needed: u32) -> Result<(), Problem> {
        match needed & !self.known {
            0 => Ok(()),
            missing => Err(Problem::Missing(missing)),
        }
    }

    /// The target's rotation in `DE_ROT_ANGLE`.
    fn turn(&self) -> u32 {
        match self.engines.turns {
            true => (self.values[ANGLE] & ANGLE_TARGET) >> 3,
            false => 0,
        }
    }

    /// Whether all of `area` lies in the `room` bytes after the target's first byte.
    fn fits(&self, area: Area, room: u32) -> bool {
        self.last_byte(area).is_some_and(|last| last <= room)
    }

    /// The offset of the last byte of `area` from the target's first byte. `None`: too far, or not
    /// known.
    fn last_byte(&self, area: Area) -> Option<u32> {
        if area.left < 0 || area.top < 0 {
            return None;
        }
        let by_state = self.values[ROTATION] & 1 << 16 != 0;
        let turn = self.turn();
        // With several sources it is not known which angle counts.
        let command = self.values[CONFIG] >> 12 & 0xF;
        if command == COMMAND_MULTI && matches!(turn, 4 | 6) {
            return None;
        }
        // CAST: not negative.
        let (right, bottom) = (area.right as u32, area.bottom as u32);
        // PE 2.0 may ignore the rotation in DE_DEST_ROTATION_CONFIG: the farther of both counts.
        let turned = match by_state {
            true => self.last_byte_turned(4, right, bottom)?,
            false => 0,
        };
        match by_state && !self.engines.turns {
            true => Some(turned),
            false => Some(turned.max(self.last_byte_turned(turn, right, bottom)?)),
        }
    }

    /// As [`Self::last_byte`], for an area up to `right` and `bottom` on a target with rotation
    /// `turn`.
    fn last_byte_turned(&self, turn: u32, right: u32, bottom: u32) -> Option<u32> {
        let width = self.values[ROTATION] & 0xFFFF;
        let height = self.values[HEIGHT] & 0xFFFF;
        let in_width = |end: u32| (end <= width).then_some(width);
        let in_height = |end: u32| (end <= height).then_some(height);
        // The last columns and rows in memory, exclusive.
        let (columns, rows) = match turn {
            0 => (right, bottom),
            // FLIP_X, FLIP_Y, ROT90, ROT180, ROT270.
            1 => (in_width(right)?, bottom),
            2 => (right, in_height(bottom)?),
            4 => (in_width(bottom)?, right),
            5 => (in_width(right)?, in_height(bottom)?),
            6 => (bottom, in_height(right)?),
            _ => return None,
        };
        let (config, stride) = (self.values[CONFIG], self.values[STRIDE]);
        if config & MINOR_TILED != 0 || stride > STRIDE_BITS {
            return None;
        }
        let (bytes, pairs) = pixel(config & 0x1F)?;
        // There is at least one of each.
        let (x, y) = (columns.checked_sub(1)?, rows.checked_sub(1)?);
        let (row, in_row) = match config & TILED != 0 {
            true => (y & !3, (x | 3).checked_add(1)?.checked_mul(4 * bytes)?),
            false => (y, (x | pairs).checked_add(1)?.checked_mul(bytes)?),
        };
        row.checked_mul(stride)?.checked_add(in_row - 1)
    }
}

/// The words that load the state at `place` of [`STATES`] with the lent `value`.
pub(crate) fn load_of(place: usize, value: u32) -> [u32; 2] {
    let state = STATES.get(place).copied().unwrap_or_default();
    let value = match place {
        // The other fields stay unchanged.
        ANGLE => value & ANGLE_TARGET | ANGLE_OTHER_MASKS,
        _ => value,
    };
    [0x0801_0000 | state, value]
}

#[cfg(CONFIG_KUNIT)]
#[path = "bounds/tests.rs"]
mod tests;
