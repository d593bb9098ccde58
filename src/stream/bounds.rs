// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the 2D engine and of the resolve engine: whether a draw stays in the memory in which
//! its source and its target begin.
//!
//! Pure logic. The software GPU's tests compare it with the bytes that these engines access.
//!
//! [`Target`] records the loads of one stream in order. At each kick (a command that starts an
//! engine) it checks the draw with these values. The engine holds the same values, whatever other
//! threads and processes do, and after resets and pauses. States that a kick needs and the stream
//! has not loaded ([`Problem::Missing`]) are *lent*: the driver loads the process's last values
//! ([`load_of`]) first. So another process's draws do not change a client's values.
//!
//! Sources: the register database (state_2d.xml); sources.md, engines.

use super::{
    blit,
    problem::check_end,
    resolve,
    tiler::{
        self,
        Tiler, //
    }, //
};
use core::cell::Cell;

#[path = "bounds/draws.rs"]
mod draws;
#[path = "bounds/resolves.rs"]
mod resolves;
#[path = "bounds/states.rs"]
mod states;

pub(crate) use super::problem::{
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
    /// The stream loaded this value last, or the state is a layout that was always 0.
    Here(u32),
}

/// How [`Target::load`] handles a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// The state does not bound a kick.
    Other,
    /// The value is noted. The process's [`Loaded`](super::loaded::Loaded) must keep it, too.
    Noted,
    /// The state is one of [`BLOCKS`]. [`Loaded`](super::loaded::Loaded) must note that the stream
    /// loads it.
    Block,
    /// The load is allowed, and leaves the bounds unchanged.
    Masked,
    /// The state must be loaded with this value instead.
    Instead(u32),
    /// The load is not allowed: later draws would have no bound.
    Refused,
}

/// Properties of a core's engines that affect the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 2D engine is PE 2.0, which has `DE_ROT_ANGLE`.
    pub(crate) turns: bool,
    /// Every draw is rotated by `DE_ROT_ANGLE`. Earlier cores ignore it, or its mask bits.
    pub(crate) rotates: bool,
    /// Targets of alpha have one byte for each pixel.
    pub(crate) has_a8_target: bool,
    /// The resolve engine has supertiles.
    pub(crate) has_supertiles: bool,
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
    /// Bit mask of the states that are loaded.
    known: Mask,
    /// Bit mask of the states whose value the hardware has converted.
    odd: Mask,
    /// Bit mask of the states that the stream loads with an unknown effect. They cannot be lent.
    lost: Mask,
    /// The whole clipping window of the 2D engine is in the target's memory.
    is_roomy: bool,
    tiler: Tiler,
    engines: Engines,
}

impl Target {
    /// The state of a stream that has not loaded anything.
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

    /// Notes a load of `state` (a word address) with `value`. The hardware converts the value if
    /// `converted`. If `in_pipe` is not set, the state's pipe is not selected, and the effect of
    /// the load is unknown.
    #[inline(always)]
    pub(crate) fn load(&mut self, state: u32, value: u32, converted: bool, in_pipe: bool) -> Load {
        let refused_if = |refused| if refused { Load::Refused } else { Load::Other };
        match place(state) {
            NONE if is_block(state) => {
                let of_target = FIELDS[0];
                // With the mask bit, the target's rotation stays 0.
                let turns = is_block_angle(state)
                    && (value & of_target.bits != 0 && value & of_target.mask == 0
                        || flips_late(value));
                let is_early = is_block_angle(state)
                    && !self.engines.rotates
                    && value & (FIELDS[0].bits | FIELDS[1].bits) != 0;
                if turns || is_early || converted || !in_pipe {
                    Load::Refused
                } else {
                    Load::Block
                }
            }
            NONE => Load::Other,
            PLANES => refused_if(value & DEYUV_PLANES != 0 || converted),
            CHOICES => refused_if(value & SELECTS != 0 || converted),
            FETCHES => {
                let mut with = value;
                if matches!(value & (FETCH | FETCH_MASK), 0 | FETCH) {
                    with = value & !FETCH | FETCH_DEFAULT;
                }
                if value & (NO_FETCH | NO_FETCH_MASK) == NO_FETCH {
                    with &= !NO_FETCH;
                }
                if converted {
                    Load::Refused
                } else if with != value {
                    Load::Instead(with)
                } else {
                    Load::Masked
                }
            }
            TILES => {
                self.tiler.load(state, value, in_pipe);
                if converted || self.tiler.is_on() && !self.engines.has_yuv_tiler {
                    Load::Refused
                } else {
                    Load::Masked
                }
            }
            PARTS if state == FIELDS[0].state && self.is_unknown_turn(value, converted) => {
                Load::Refused
            }
            PARTS => {
                let mut load = Load::Masked;
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
        let is_known = self.engines.turns && self.engines.rotates;
        converted || flips_late(value) || turns && !is_known
    }

    #[inline(always)]
    fn note(&mut self, place: usize, value: u32, converted: bool, in_pipe: bool) {
        if let Some(to) = self.values.get_mut(place) {
            *to = value;
        }
        self.known = self.known & !bit(place) | Mask::from(in_pipe) << place;
        self.lost |= Mask::from(!in_pipe) << place;
        self.odd = self.odd & !bit(place) | Mask::from(converted) << place;
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
        self.odd &= !missing;
        self.is_roomy = false;
        self.lost & missing == 0
    }

    /// Bytes from the address in the state at `place` to the last byte of its memory. `needed`: the
    /// states that bound the access. None of them may be converted.
    fn room_of(
        &self,
        place: usize,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        self.check_plain(needed)?;
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
                to.set(if self.odd & bit(place) == 0 { value } else { 0 });
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
    fn check_plain(&self, needed: Mask) -> Result<(), Problem> {
        self.check_known(needed)?;
        match self.odd & needed {
            0 => Ok(()),
            // CAST: at most 63.
            odd => Err(self.unbounded(odd.trailing_zeros() as usize)),
        }
    }
}

#[cfg(CONFIG_KUNIT)]
#[path = "bounds/tests.rs"]
mod tests;
