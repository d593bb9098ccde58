// SPDX-License-Identifier: GPL-2.0-only

//! Addresses of samplers that are off. No engine uses them.
//!
//! Pure logic. Clients' libraries leave placeholders or addresses of freed memory in the states of
//! samplers that they have switched off. When the checker meets the first such address,
//! [`first_used`] scans the stream once for the first one that a draw uses. Source: sources.md, 3D.

use super::{
    decode::{
        self,
        opcode, //
    },
    words::state::{
        self,
        word, //
    }, //
};
use core::cell::Cell;

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
        let length = decode::length(header) as usize;
        match header >> 27 {
            opcode::LOAD_STATE => {
                let count = decode::load_count(header) as usize;
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
