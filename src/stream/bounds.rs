// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the 2D engine and of the resolve engine: whether a draw stays in the memory in which
//! its source and its target begin.
//!
//! Pure logic. The software GPU's tests compare it with the bytes that these engines access.
//!
//! [`DrawState`] records the loads of one stream in order. At each kick (a command that starts an
//! engine) it checks the draw with these values. The driver makes sure that the engine has the same
//! values, even after other processes' commands, a reset, or power-off. States that a kick needs
//! but the stream has not loaded ([`Problem::Missing`]) are *lent*: the driver loads the process's
//! last values ([`load_of`]) first. So another process's draws do not change a client's values.
//!
//! Sources: the register database (state_2d.xml); sources.md, engines.
//!
//! [`resolve`] has the ranges of the resolve engine's kicks. With one pixel pipe, the target is
//! `RS_DEST_ADDR`. With two, or with HALTI5, it is the first `RS_PIPE_DEST_ADDR`. With two it is
//! also the second, if the target is split. `RS_DEST_ADDR` counts, too, if the stream loads it. The
//! same applies to the source. A kick in place fills a number of tiles of the color surface of tile
//! status. A copy with fast clear of color, and a kick in place, also read the status of their
//! tiles. That status must lie entirely in the memory in which `TS_COLOR_STATUS_BASE` is.

use super::{
    blit,
    resolve::{
        self,
        check_end,
        Tiler, //
    }, //
};
use core::cell::Cell;

#[path = "bounds/draws.rs"]
mod draws;
#[path = "bounds/states.rs"]
mod states;

pub(crate) use super::resolve::{
    Mask,
    Problem, //
};
pub(crate) use states::*;

/// Whether a stream has loaded a state of [`BLOCKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    /// The process has never loaded a state of the same set.
    Never,
    /// The process may have loaded it, but this stream has not.
    Before,
    /// The stream loaded this value last. Also a layout of 0, if the process has loaded no other.
    Here(u32),
}

/// How [`DrawState::load`] handles a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// The state does not bound a kick.
    Other,
    /// The value is noted. The end of the pass hands it to [`Loaded`](super::loaded::Loaded).
    Noted,
    /// The state is one of [`BLOCKS`]. [`Loaded`](super::loaded::Loaded) must note that the stream
    /// loads it.
    Block,
    /// The load is allowed, and leaves the bounds unchanged.
    Allowed,
    /// The state must be loaded with this value instead.
    Instead(u32),
    /// The load is not allowed: later draws would have no bound.
    Refused,
}

/// Properties of a core's engines that affect the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 2D engine is PE 2.0, which has `DE_ROT_ANGLE`.
    pub(crate) has_pe20: bool,
    /// Every draw is rotated by `DE_ROT_ANGLE`. Earlier cores ignore it, or its mask bits.
    pub(crate) rotates: bool,
    /// Targets of format A8 have one byte per pixel.
    pub(crate) has_a8_target: bool,
    /// The resolve engine has supertiles.
    pub(crate) has_supertiles: bool,
    /// Number of pixel pipes.
    pub(crate) pixel_pipes: u32,
    /// The core has HALTI5.
    pub(crate) halti5: bool,
    /// A tile of tile status has 128 or 256 bytes instead of 64.
    pub(crate) has_large_tiles: bool,
    /// SMALL_MSAA: a tile of a kick in place may have 256 bytes.
    pub(crate) has_small_msaa: bool,
    /// The status of a tile has 2 bits instead of 4.
    pub(crate) has_2_bits_per_tile: bool,
    /// The resolve engine has the YUV tiler.
    pub(crate) has_yuv_tiler: bool,
}

impl Engines {
    /// Whether resolves use the addresses of pixel pipes. With HALTI5 they do even with one pipe.
    pub(super) fn has_pipe_addresses(&self) -> bool {
        self.pixel_pipes > 1 || self.halti5
    }
}

/// The values of [`STATES`] that a stream has loaded so far.
#[derive(Clone, Copy)]
pub(crate) struct DrawState {
    values: [u32; STATES.len()],
    /// Bit mask of the states that are loaded.
    known: Mask,
    /// Bit mask of the states whose value the hardware has converted.
    converted: Mask,
    /// Bit mask of the states that the stream loads with an unknown effect. They cannot be lent.
    lost: Mask,
    /// The whole clipping window of the 2D engine is in the target's memory.
    is_roomy: bool,
    tiler: Tiler,
    engines: Engines,
}

impl DrawState {
    /// The state of a stream that has not loaded anything.
    pub(crate) const fn new(engines: Engines) -> Self {
        Self {
            values: [0; STATES.len()],
            known: 0,
            converted: 0,
            lost: 0,
            is_roomy: false,
            tiler: Tiler::new(),
            engines,
        }
    }

    /// Notes a load of `state` (a word address) with `value`. The hardware converts the value if
    /// `converted`. If `in_pipe` is not set, the state's pipe is not selected, and the effect of
    /// the load is unknown.
    #[inline(always)]
    pub(crate) fn load(&mut self, state: u32, value: u32, converted: bool, in_pipe: bool) -> Load {
        let refused_if = |refused| if refused { Load::Refused } else { Load::Other };
        match place(state) {
            NONE if is_block(state) => {
                let [target, source, ..] = FIELDS;
                // With the mask bit, the target's rotation stays 0.
                let is_bad_angle = is_block_angle(state)
                    && (value & target.bits != 0 && value & target.mask == 0
                        || flips_late(value)
                        || !self.engines.rotates && value & (target.bits | source.bits) != 0);
                if is_bad_angle || converted || !in_pipe {
                    Load::Refused
                } else {
                    Load::Block
                }
            }
            NONE => Load::Other,
            PLANES => refused_if(value & DEYUV_PLANES != 0 || converted),
            CHOICES => refused_if(value & SELECTS != 0 || converted),
            FETCHES => {
                // Whatever the mask bits: some core may ignore them.
                let mut with = value & !NO_FETCH;
                if matches!(value & FETCH, 0 | FETCH) {
                    with = with & !FETCH | FETCH_DEFAULT;
                }
                if converted {
                    Load::Refused
                } else if with != value {
                    Load::Instead(with)
                } else {
                    Load::Allowed
                }
            }
            TILES => {
                self.tiler.load(state, value, in_pipe);
                if converted || self.tiler.is_on() && !self.engines.has_yuv_tiler {
                    Load::Refused
                } else {
                    Load::Allowed
                }
            }
            PARTS if state == FIELDS[0].state && self.is_unknown_turn(value, converted) => {
                Load::Refused
            }
            PARTS => {
                let mut load = Load::Allowed;
                for (field, place) in FIELDS.iter().zip(FIELD_PLACES) {
                    if field.state == state && (value & field.mask == 0 || converted) {
                        self.note(place, value & field.bits, converted, in_pipe);
                        load = Load::Noted;
                    }
                }
                load
            }
            place => {
                self.note(usize::from(place), value, converted, in_pipe);
                Load::Noted
            }
        }
    }

    /// Whether no bound is known after this load of `DE_ROT_ANGLE`. Only later cores with PE 2.0 are
    /// known to rotate every draw by it, and to have its mask bits.
    fn is_unknown_turn(&self, value: u32, converted: bool) -> bool {
        let turns = value & (FIELDS[0].bits | FIELDS[1].bits) != 0;
        let is_known = self.engines.has_pe20 && self.engines.rotates;
        converted || flips_late(value) || turns && !is_known
    }

    #[inline(always)]
    fn note(&mut self, place: usize, value: u32, converted: bool, in_pipe: bool) {
        if let Some(to) = self.values.get_mut(place) {
            *to = value;
        }
        self.known = self.known & !bit(place) | Mask::from(in_pipe) << place;
        self.lost |= Mask::from(!in_pipe) << place;
        self.converted = self.converted & !bit(place) | Mask::from(converted) << place;
        self.is_roomy &= place > ANGLE;
    }

    /// Notes that the driver loads the `missing` states with values from `value_of` before the
    /// stream. `false`: the stream itself loads one of them with an unknown effect.
    pub(crate) fn lend(&mut self, missing: Mask, mut value_of: impl FnMut(u32) -> u32) -> bool {
        for (place, (to, state)) in self.values.iter_mut().zip(STATES).enumerate() {
            if missing & bit(place) != 0 {
                *to = value_of(state);
            }
        }
        self.known |= missing;
        self.converted &= !missing;
        self.is_roomy = false;
        self.lost & missing == 0
    }

    /// The offset of the memory's last byte from the address in the state at `place`. `needed`: the
    /// states that bound the access. None of them may be converted.
    fn room_of(
        &self,
        place: usize,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        self.check_unconverted(needed)?;
        let address = self.values[place];
        let last = last_of(STATES[place], address);
        last.and_then(|last| last.checked_sub(address))
            .ok_or(self.beyond(place))
    }

    fn beyond(&self, place: usize) -> Problem {
        Problem::Beyond(STATES[place], self.values[place])
    }

    fn unbounded(&self, place: usize) -> Problem {
        Problem::Unbounded(state_of(STATES[place]), self.values[place])
    }

    /// The states that the stream has loaded or was lent: a bit mask of [`STATES`].
    pub(crate) fn known(&self) -> Mask {
        self.known
    }

    /// Copies the values of the known states to `to`, but 0 for states that were converted.
    pub(crate) fn put(&self, to: &[Cell<u32>; STATES.len()]) {
        for place in places_in(self.known) {
            if let (Some(&value), Some(to)) = (self.values.get(place), to.get(place)) {
                to.set(if self.converted & bit(place) == 0 {
                    value
                } else {
                    0
                });
            }
        }
    }

    /// The value of `YUV_CONFIG`, if the tiler is on after the loads so far.
    pub(crate) fn tiler_left_on(&self) -> Option<u32> {
        self.tiler.is_on().then(|| self.tiler.config())
    }

    /// Fails unless the stream has loaded or was lent all of the `needed` states.
    fn check_known(&self, needed: Mask) -> Result<(), Problem> {
        match needed & !self.known {
            0 => Ok(()),
            missing => Err(Problem::Missing(missing)),
        }
    }

    /// As [`Self::check_known`]. Also fails if one of the states was converted.
    fn check_unconverted(&self, needed: Mask) -> Result<(), Problem> {
        self.check_known(needed)?;
        match self.converted & needed {
            0 => Ok(()),
            // CAST: at most 63.
            converted => Err(self.unbounded(converted.trailing_zeros() as usize)),
        }
    }

    /// Whether `state` is the address of a tiled target or source.
    pub(crate) fn is_tiled(&self, state: u32) -> bool {
        state == STATES[ADDRESS] && self.values[CONFIG] & draws::TILED != 0
            || state == STATES[SRC_ADDRESS] && self.values[SRC_CONFIG] & blit::TILED != 0
    }

    /// The command of `DRAW_2D`.
    fn command(&self) -> u32 {
        self.values[CONFIG] >> 12 & 0xF
    }

    /// As [`blit::pixel`], for the target.
    fn pixel(&self) -> Option<(u32, u32)> {
        match self.values[CONFIG] & 0x1F {
            // Indexes and single bits are formats of sources.
            9 | 10 => None,
            // No source says what a core without this format draws.
            blit::A8 if !self.engines.has_a8_target => Some((4, 0)),
            format => blit::pixel(format),
        }
    }

    /// The target's rotation.
    fn rotation(&self) -> blit::Rotation {
        blit::Rotation {
            angle: self.values[ANGLE] >> 3,
            width: self.values[ROTATION],
            height: self.values[HEIGHT],
        }
    }

    /// The states that a resolve may need and that are not known: a bit mask of [`STATES`].
    pub(crate) fn all_of_resolves(&self) -> Mask {
        let all = bit(RS_CONFIG)
            | bit(RS_SOURCE_STRIDE)
            | bit(RS_STRIDE)
            | bit(RS_WINDOW)
            | bit(RS_CLEAR)
            | bit(TS_CONFIG)
            | bit(TS_STATUS)
            | bit(TS_SURFACE);
        let surfaces = match (self.engines.pixel_pipes, self.engines.has_pipe_addresses()) {
            (_, false) => bit(RS_SOURCE) | bit(RS_ADDRESS),
            (0 | 1, true) => bit(RS_PIPE_SOURCE) | bit(RS_PIPE_ADDRESS) | bit(RS_PIPE_OFFSET),
            _ => 3 << RS_PIPE_SOURCE | 3 << RS_PIPE_ADDRESS | 3 << RS_PIPE_OFFSET,
        };
        let extra = if self.engines.has_large_tiles || self.engines.has_small_msaa {
            bit(RS_EXTRA)
        } else {
            0
        };
        (all | surfaces | extra) & !self.known
    }

    /// Checks a kick of the resolve engine. `TS_COLOR_SURFACE_BASE` holds a GPU address plus
    /// `status_base`: 0, unless the state holds a physical address.
    pub(crate) fn resolve(
        &self,
        status_base: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if self.tiler.is_on() {
            // Mesa loads 0 into both before it starts the tiler.
            self.check_unconverted(bit(RS_CLEAR) | bit(RS_SOURCE_STRIDE))?;
            if self.values[RS_CLEAR] & resolve::FILL != 0 {
                return Err(self.unbounded(RS_CLEAR));
            }
            if self.values[RS_SOURCE_STRIDE] != 0 {
                return Err(self.unbounded(RS_SOURCE_STRIDE));
            }
            if self.engines.pixel_pipes > 2 {
                return Err(Problem::Unbounded(resolve::CONFIG, self.tiler.config()));
            }
            return self.tiler.check_kick(last_of);
        }
        let needed = bit(RS_CONFIG) | bit(RS_STRIDE) | bit(RS_WINDOW) | bit(RS_CLEAR);
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
            has_supertiles: self.engines.has_supertiles,
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
        let needed = needed | bit(RS_SOURCE_STRIDE) | bit(TS_CONFIG);
        let places = [RS_SOURCE_STRIDE, RS_SOURCE, RS_PIPE_SOURCE];
        let (first, last) = self.check_side(source, needed, places, &mut last_of)?;
        if self.values[TS_CONFIG] & COLOR_FAST_CLEAR == 0 {
            return Ok(());
        }
        let needed = bit(TS_CONFIG) | bit(TS_STATUS) | bit(TS_SURFACE);
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
    /// that must be known, and not converted.
    fn check_status(
        &self,
        last: u32,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let room = self.room_of(TS_STATUS, needed, last_of)?;
        let byte = if self.engines.has_2_bits_per_tile {
            last / 4
        } else {
            last / 2
        };
        if byte <= room {
            Ok(())
        } else {
            Err(self.beyond(TS_STATUS))
        }
    }

    /// Bytes of the surface per tile of tile status, for a copy.
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

    /// The most bytes that a kick in place may fill for each tile. Mesa selects the size by
    /// `RS_EXTRA_CONFIG`, other sources by the stride.
    fn bytes_per_filled_tile(&self) -> u32 {
        let has_mode = self.values[RS_SOURCE_STRIDE] & resolve::TS_MODE != 0;
        let has_extra_mode = self.values[RS_EXTRA] & EXTRA_TS_MODE != 0;
        match (self.engines.has_large_tiles, self.engines.has_small_msaa) {
            (true, _) if has_mode || has_extra_mode => 256,
            (true, _) => 128,
            (false, true) if has_mode || has_extra_mode => 256,
            (false, _) => 64,
        }
    }

    /// Fails unless the source or target of a kick is in its memory. The address is in the state at
    /// `plain`, or with several pixel pipes or HALTI5 in the states from `of_pipes` on. The stride
    /// is in the state at `stride`. `needed`: other states that must be known. Returns the first
    /// and the last address.
    fn check_side(
        &self,
        side: resolve::Side,
        needed: Mask,
        [stride, single, of_pipes]: [usize; 3],
        last_of: &mut impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(u32, u32), Problem> {
        let pipes = self.engines.pixel_pipes;
        let has_addresses = self.engines.has_pipe_addresses();
        let is_split = pipes > 1 && side.is_split();
        // No source describes more than two pixel pipes.
        if !side.is_known() || pipes > 2 {
            return Err(self.unbounded(stride));
        }
        let needed = needed
            | match (pipes, has_addresses) {
                (_, false) => bit(single),
                (0 | 1, true) => bit(of_pipes) | bit(RS_PIPE_OFFSET),
                _ => (1 | Mask::from(is_split) << 1) << of_pipes | 3 << RS_PIPE_OFFSET,
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
        let farthest = match (pipes, has_addresses) {
            (_, false) => return fits(single, side.last_byte(0, false)),
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
        if self.known & bit(single) != 0 {
            side = join(side, fits(single, farthest)?);
        }
        Ok(side)
    }

    /// Checks a kick in place that fills `tiles` tiles of the color surface of tile status.
    pub(crate) fn fill_tiles(
        &self,
        tiles: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if let Some(config) = self.tiler_left_on() {
            return Err(Problem::Unbounded(resolve::CONFIG, config));
        }
        let mut needed = bit(TS_STATUS) | bit(TS_SURFACE);
        if self.engines.has_large_tiles || self.engines.has_small_msaa {
            needed |= bit(RS_SOURCE_STRIDE) | bit(RS_EXTRA);
        }
        self.check_known(needed)?;
        let Some(last) = tiles.checked_sub(1) else {
            return Ok(());
        };
        let room = self.room_of(TS_SURFACE, needed, &mut last_of)?;
        let bytes = tiles.checked_mul(self.bytes_per_filled_tile());
        if bytes.is_some_and(|bytes| bytes - 1 <= room) {
            self.check_status(last, needed, last_of)
        } else {
            Err(self.beyond(TS_SURFACE))
        }
    }
}

#[cfg(CONFIG_KUNIT)]
#[path = "bounds/tests.rs"]
mod tests;
