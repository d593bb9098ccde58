// SPDX-License-Identifier: GPL-2.0-only

//! Likely mistakes in commands that the checker accepts. They help authors of clients.
//!
//! Pure logic. This code refuses nothing, and only runs while dynamic debug is on. Silicon does not
//! report these mistakes.
//!
//! Also addresses of samplers that are off, which no engine uses: clients' libraries leave
//! placeholders or addresses of freed memory in the states of samplers that they have switched off.
//! When the checker meets the first such address, [`first_used`] scans the stream once for the
//! first one that a draw uses. Source: sources.md, 3D.

use super::{
    table::{
        self,
        opcode, //
    },
    words::state::{
        self,
        word, //
    }, //
};
use core::cell::Cell;
use kernel::fmt;

/// A likely mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lint {
    /// There are no commands.
    Empty,
    /// They set a target, but draw nothing.
    NoDraw,
    /// The command at this word reads a source that no commands have loaded, or only with 0 or with
    /// memory freed since.
    NoSource(usize),
    /// The command at this word draws to a target that no commands have loaded.
    NoTarget(usize),
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Lint::Empty => f.write_str(
                "there are no commands: do the bytes include the driver's head and tail?",
            ),
            Lint::NoDraw => f.write_str(
                "the commands set a target but draw nothing: do the bytes include the driver's head and tail?",
            ),
            Lint::NoSource(at) => write!(
                f,
                "a blit from state 0x1200 (DE.SRC_ADDRESS), which is 0, was never loaded, or whose memory is freed, at word {at}"
            ),
            Lint::NoTarget(at) => write!(
                f,
                "a draw to state 0x1228 (DE.DEST_ADDRESS), which was never loaded, or whose memory is freed, at word {at}"
            ),
        }
    }
}

const DEST_CONFIG: u32 = word(0x1234);
const ROP: u32 = word(0x125C);

/// What a stream has loaded so far.
#[derive(Default)]
struct Seen {
    config: Option<u32>,
    rop: Option<u32>,
    /// The stream has set a target.
    aims: bool,
}

/// The first likely mistake in `words`. `resolve_target`: the state with the resolve engine's
/// target. `has_source` and `has_target` say whether those of the 2D engine are loaded.
pub(crate) fn first(
    words: &[u32],
    resolve_target: u32,
    [has_source, has_target]: [bool; 2],
) -> Option<Lint> {
    let mut seen = Seen::default();
    let (mut at, mut draws) = (0, false);
    while let Some(&header) = words.get(at) {
        let after = words.get(at + 1..).unwrap_or_default();
        match header >> 27 {
            opcode::LOAD_STATE => {
                // CAST: at most 1024.
                let count = table::load_count(header) as usize;
                for (state, &value) in (header & 0xFFFF..).zip(after.iter().take(count)) {
                    match state {
                        DEST_CONFIG => seen.config = Some(value),
                        ROP => seen.rop = Some(value),
                        _ => {}
                    }
                    seen.aims |= state == resolve_target || state == state::DE_DEST_ADDRESS;
                    draws |= matches!(
                        state,
                        state::RS_KICKER | state::RS_KICKER_INPLACE | state::DE_VR_CONFIG
                    );
                }
            }
            opcode::DRAW_2D => {
                draws = true;
                let has_data = (header >> 16) & 0x7FF != 0;
                if !has_source && !has_data && seen.reads() {
                    return Some(Lint::NoSource(at));
                }
                if !has_target {
                    return Some(Lint::NoTarget(at));
                }
            }
            opcode::DRAW_PRIMITIVES | opcode::DRAW_INDEXED | opcode::DRAW_INSTANCED => draws = true,
            _ => {}
        }
        // CAST: some thousands.
        at += table::length(header) as usize;
    }
    if words.is_empty() {
        return Some(Lint::Empty);
    }
    (seen.aims && !draws).then_some(Lint::NoDraw)
}

impl Seen {
    /// Whether a DRAW_2D reads its source. BIT_BLT and STRETCH_BLT do, unless the result of the
    /// raster operation is the same for both values of a source bit.
    fn reads(&self) -> bool {
        let blits = self
            .config
            .is_some_and(|it| matches!((it >> 12) & 0xF, 2 | 4));
        blits && self.rop.is_none_or(|rop| (rop >> 2 ^ rop) & 0x33 != 0)
    }
}

/// Samplers of one kind, with the states of their configurations and addresses.
struct Kind {
    /// The first configuration state, and the bits that are 0 if the sampler is off.
    config: u32,
    on: u32,
    /// Index of the first sampler in [`Uses`], and their number.
    place: usize,
    samplers: u32,
    /// The first address state, and the number of address states of each sampler.
    first: u32,
    levels: u32,
    /// Distances from an address to that of the next sampler, and to that of the next level.
    steps: (u32, u32),
}

/// `TS_SAMPLER`, `TE_SAMPLER`, `NTE_SAMPLER`, and the addresses that HALTI5 adds to the first. How
/// clients switch a texture descriptor off is not known.
const KINDS: [Kind; 4] = [
    Kind {
        config: word(0x1720),
        on: 1,
        place: 0,
        samplers: 8,
        first: word(0x1740),
        levels: 1,
        steps: (1, 8),
    },
    Kind {
        config: word(0x2000),
        on: 7,
        place: 8,
        samplers: 16,
        first: word(0x2400),
        levels: 14,
        steps: (1, 16),
    },
    Kind {
        config: word(0x10000),
        on: 7,
        place: 8 + 16,
        samplers: 32,
        first: word(0x10800),
        levels: 16,
        steps: (16, 1),
    },
    Kind {
        config: word(0x1720),
        on: 1,
        place: 8 + 16 + 32,
        samplers: 8,
        first: word(0x1A80),
        levels: 1,
        steps: (1, 8),
    },
];

const SAMPLERS: usize = 8 + 16 + 32 + 8;

impl Kind {
    /// The sampler that `state` configures.
    fn configured(&self, state: u32) -> Option<u32> {
        let sampler = state.checked_sub(self.config)?;
        (sampler < self.samplers).then_some(sampler)
    }

    /// The sampler and the level to which address state `state` belongs.
    fn address(&self, state: u32) -> Option<(u32, u32)> {
        let at = state.checked_sub(self.first)?;
        if at >= self.samplers * self.levels {
            return None;
        }
        Some(match self.steps {
            (1, level) => (at % level, at / level),
            (sampler, _) => (at / sampler, at % sampler),
        })
    }
}

/// Whether a sampler is on.
#[derive(Clone, Copy)]
enum Switch {
    /// The stream has not configured it.
    Unknown,
    Off,
    On,
}

#[derive(Clone, Copy)]
struct Sampler {
    switch: Switch,
    /// A bit for each level whose address is stray: the client may not use it.
    strays: u16,
    /// Index of the word with the first stray address.
    at: u32,
}

/// The samplers of a stream.
struct Uses {
    samplers: [Sampler; SAMPLERS],
    any: bool,
}

/// Whether `state` (a word address) is the address of a sampler.
pub(super) fn is_sampler(state: u32) -> bool {
    KINDS.iter().any(|kind| kind.address(state).is_some())
}

/// The index in `words` of the first stray address that a draw uses. The sampler of that address is
/// on, or the stream has not configured it. `is_stray` gets a state and its value. `u32::MAX`:
/// there is none.
#[cold]
#[inline(never)]
pub(super) fn first_used(words: &[Cell<u32>], mut is_stray: impl FnMut(u32, u32) -> bool) -> u32 {
    let mut uses = Uses {
        samplers: [Sampler {
            switch: Switch::Unknown,
            strays: 0,
            at: 0,
        }; SAMPLERS],
        any: false,
    };
    let mut at = 0;
    while let Some(header) = words.get(at).map(Cell::get) {
        // CAST: some thousands, so also below.
        let length = table::length(header) as usize;
        match header >> 27 {
            opcode::LOAD_STATE => {
                let count = table::load_count(header) as usize;
                let values = words.get(at + 1..).unwrap_or_default().iter().take(count);
                for ((place, value), state) in (at + 1..).zip(values).zip(header & 0xFFFF..) {
                    if state == state::CL_KICKER {
                        if let Some(used) = uses.first() {
                            return used;
                        }
                    }
                    // CAST: a stream has fewer words.
                    uses.load(state, value.get(), place as u32, &mut is_stray);
                }
            }
            opcode::DRAW_PRIMITIVES | opcode::DRAW_INDEXED | opcode::DRAW_INSTANCED => {
                if let Some(used) = uses.first() {
                    return used;
                }
            }
            _ => {}
        }
        at += length;
    }
    u32::MAX
}

impl Uses {
    fn load(
        &mut self,
        state: u32,
        value: u32,
        place: u32,
        is_stray: &mut impl FnMut(u32, u32) -> bool,
    ) {
        for kind in &KINDS {
            // CAST: few samplers.
            let index = |sampler: u32| kind.place + sampler as usize;
            if let Some(sampler) = kind.configured(state) {
                if let Some(sampler) = self.samplers.get_mut(index(sampler)) {
                    sampler.switch = match value & kind.on {
                        0 => Switch::Off,
                        _ => Switch::On,
                    };
                }
            } else if let Some((sampler, level)) = kind.address(state) {
                let Some(sampler) = self.samplers.get_mut(index(sampler)) else {
                    continue;
                };
                sampler.strays &= !(1 << level);
                if is_stray(state, value) {
                    if sampler.strays == 0 {
                        sampler.at = place;
                    }
                    sampler.strays |= 1 << level;
                    self.any = true;
                }
            }
        }
    }

    /// The first stray address that a draw at this point uses.
    fn first(&self) -> Option<u32> {
        if !self.any {
            return None;
        }
        let is_used =
            |sampler: &&Sampler| sampler.strays != 0 && !matches!(sampler.switch, Switch::Off);
        let used = self.samplers.iter().filter(is_used);
        used.map(|sampler| sampler.at).min()
    }
}

#[kernel::macros::kunit_tests(galcore_lint)]
mod tests {
    use super::*;
    use crate::stream::words::load_state;

    fn found(words: &[u32], has_source: bool) -> Option<Lint> {
        first(words, state::RS_DEST_ADDR, [has_source, true])
    }

    /// A draw of a rectangle.
    fn draw(command: u32, rop: u32) -> [u32; 14] {
        [
            load_state(state::DE_DEST_ADDRESS, 4),
            0x4000,
            128,
            0,
            command << 12 | 6,
            0,
            load_state(ROP, 3),
            rop,
            0,
            32 << 16 | 32,
            0x2000_0100,
            0,
            0,
            32 << 16 | 32,
        ]
    }

    #[test]
    fn a_blit_has_a_source() {
        let no_source = Some(Lint::NoSource(10));
        assert_eq!(found(&draw(2, 0xCC), false), no_source);
        assert_eq!(found(&draw(4, 0xCC), false), no_source);
        assert_eq!(found(&draw(2, 0xCC), true), None);
        let without = first(&draw(0, 0xCC), state::RS_DEST_ADDR, [false; 2]);
        assert_eq!(without, Some(Lint::NoTarget(10)));
        // A clear reads no source, nor does a pattern alone.
        assert_eq!(found(&draw(0, 0xCC), false), None);
        assert_eq!(found(&draw(2, 0xF0), false), None);
    }

    #[test]
    fn what_draws_nothing_is_seen() {
        assert_eq!(found(&[], true), Some(Lint::Empty));
        let words = draw(0, 0xCC);
        assert_eq!(found(&words[..10], true), Some(Lint::NoDraw));
        // A state that sets no target, and incomplete commands.
        assert_eq!(found(&words[6..10], true), None);
        assert_eq!(found(&[load_state(0x600, 0)], true), None);
        assert_eq!(found(&[0x2000_0000], true), None);
    }
}
