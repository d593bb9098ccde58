// SPDX-License-Identifier: GPL-2.0-only

//! The values of states that contexts keep, and those that are kept for a process without them.
//!
//! An [`Image`] is a context's stream with the client's values, before its addresses are checked.
//! [`Kept`] has the states that a process's commands have loaded, if its contexts keep none.
//!
//! Some clients of the oldest interfaces pass a context without states, and load each state once.
//! The core holds it until it is off, or another process's commands come. This module keeps a copy
//! of two kinds of states: those that a context of the core keeps, and those of the 2D pipe except
//! for its data, which [`OwnData`](super::scrub::OwnData) has. The copy is loaded in the place of a
//! context's states, and checked like them: memory may have been freed since.
//!
//! Pure logic.

use super::{
    map::{
        load,
        Group,
        StateMap, //
    },
    Record, //
};
use crate::{
    prelude::*,
    stream::{
        bounds,
        resolve,
        states::{
            self,
            mark,
            members,
            Sets, //
        },
        table::{
            loads,
            FIXP, //
        },
        words::{
            self,
            state,
            Caches,
            Pipe, //
        }, //
    }, //
};

/// Number of states that can be kept. A multiple of 32.
const LIMIT: usize = states::ADDRESSES_END;

/// The most vertex elements of a core.
const ELEMENTS: u32 = 16;

/// The state TS.MEM_CONFIG.
const MEM_CONFIG: u32 = state::word(0x1654);

/// What the commands of one process have loaded into one core.
pub(crate) struct Kept {
    /// The value of each state.
    values: KVVec<u32>,
    /// A bit for each state that has a value, and a bit for each whose value is a 16.16 number.
    known: KVVec<u32>,
    converted: KVVec<u32>,
    /// Number of times that all addresses were forgotten: see [`crate::stream::loaded`].
    epoch: u64,
}

impl Kept {
    /// An empty copy. `OutOfMemory`.
    pub(crate) fn new() -> Result<Self> {
        let zeros = |count| KVVec::from_elem(0u32, count, crate::sys::GFP_CLIENT);
        Ok(Self {
            values: zeros(LIMIT)?,
            known: zeros(LIMIT / 32)?,
            converted: zeros(LIMIT / 32)?,
            epoch: 0,
        })
    }

    /// Notes the states that the checked `words` load. `map` says what contexts of the core keep.
    pub(crate) fn note(&mut self, words: &[u32], map: &StateMap, sets: Sets<'_>) {
        for (address, value, is_converted) in loads(words) {
            let is_kept = match states::pipe_of(address) {
                Pipe::Pipe3d => map.place(address).is_some(),
                Pipe::Pipe2d => {
                    // States that say how far the engine draws are watched, but carry no data.
                    let is_plain = || bounds::looked_at_2d().any(|state| state == address);
                    sets.takes_address(address) || !sets.is_watched(address) || is_plain()
                }
            };
            let (true, Some(place)) = (is_kept, self.values.get_mut(u32_as_usize(address))) else {
                continue;
            };
            *place = value;
            if address == state::FE_VERTEX_ELEMENT_CONFIG {
                // This state switches the other elements off.
                mark(&mut self.known, address + 1, ELEMENTS - 1, false);
            }
            mark(&mut self.known, address, 1, true);
            mark(&mut self.converted, address, 1, is_converted);
        }
    }

    /// Notes that the GPU no longer holds the values of `states`.
    pub(crate) fn forget(&mut self, states: &[u32]) {
        for &state in states {
            mark(&mut self.known, state, 1, false);
        }
    }

    /// Forgets all addresses if the GPU has done so since. `epoch`: how often it has, in all.
    pub(crate) fn follow(&mut self, epoch: u64) {
        if core::mem::replace(&mut self.epoch, epoch) == epoch {
            return;
        }
        // CAST: a constant.
        for state in (0..LIMIT as u32).filter(|&state| states::takes_address(state)) {
            mark(&mut self.known, state, 1, false);
        }
    }

    /// Words that load all kept states, and the pipe in which they begin. They end in pipe `last`.
    /// `OutOfMemory`.
    pub(crate) fn words(&self, last: Pipe, caches: &Caches) -> Result<(KVVec<u32>, Pipe)> {
        let other = match last {
            Pipe::Pipe3d => Pipe::Pipe2d,
            Pipe::Pipe2d => Pipe::Pipe3d,
        };
        let mut words = load(self.states(other))?;
        let entry = if words.is_empty() { last } else { other };
        if entry == other {
            let switch = words::select_pipe(caches, last);
            words.extend_from_slice(&switch, crate::sys::GFP_CLIENT)?;
        }
        words.extend_from_slice(&load(self.states(last))?, crate::sys::GFP_CLIENT)?;
        Ok((words, entry))
    }

    /// The kept states of `pipe` with their values, in the form in which they are loaded.
    fn states(&self, pipe: Pipe) -> impl Iterator<Item = (u32, u32)> + '_ {
        let known = members(self.known.iter().copied());
        let known = known.filter(move |&state| states::pipe_of(state) == pipe);
        known.map(|state| {
            let value = self.values.get(u32_as_usize(state)).copied().unwrap_or(0);
            match state {
                MEM_CONFIG => (state, value & !AUTO_DISABLE),
                _ if is_set(&self.converted, state) => (state | FIXP, value),
                _ => (state, value),
            }
        })
    }
}

/// Whether the bit of `state` is set.
fn is_set(bits: &[u32], state: u32) -> bool {
    let word = bits.get(u32_as_usize(state / 32));
    word.is_some_and(|word| word & 1 << (state & 31) != 0)
}

/// Bits of `TS_MEM_CONFIG` with which tile status disables itself. Whole-word records clear them.
pub(super) const AUTO_DISABLE: u32 = 1 << 4 | 1 << 5 | 1 << 13;

/// The most words of the `LOAD_STATE` of the vertex elements: the header, 16 elements, padding.
const ELEMENT_WORDS: usize = 18;

/// The word that a record with `mask` stores at the special place `at` instead of `value`.
#[inline(never)]
fn special_value(map: &StateMap, at: usize, mask: u32, value: u32) -> u32 {
    if at == map.mem_config && matches!(mask, 0 | u32::MAX) {
        value & !AUTO_DISABLE
    } else if at == map.yuv_config {
        // Otherwise, a kick in the client's commands would start the tiler.
        value & !resolve::ENABLE
    } else {
        value
    }
}

/// A context's stream with the client's values, before its addresses are checked.
pub(super) struct Image {
    pub(super) map: Arc<StateMap>,
    pub(super) words: KVVec<u32>,
    /// Number of vertex elements to load. 0: the client has not set it, which means all.
    element_count: usize,
    /// The vertex elements have changed.
    pub(super) elements_changed: bool,
    /// States that are GPU addresses have changed.
    pub(super) addresses_changed: bool,
}

impl Image {
    pub(super) fn new(map: Arc<StateMap>) -> Result<Self> {
        let mut words = KVVec::with_capacity(map.template.len(), crate::sys::GFP_CLIENT)?;
        words.extend_from_slice(&map.template, crate::sys::GFP_CLIENT)?;
        Ok(Self {
            map,
            words,
            element_count: 0,
            elements_changed: false,
            addresses_changed: false,
        })
    }

    /// Applies records. Calls `changed` for each word that changes. A [`Group`] is written as a
    /// whole, so its words are left out. Must be fast: there can be thousands of records.
    #[inline]
    pub(super) fn apply_all(
        &mut self,
        records: impl Iterator<Item = Record>,
        mut changed: impl FnMut(usize, u32),
    ) {
        let places = self.map.places();
        let words = &mut self.words[..];
        for record in records {
            let Some((at, is_special)) = places.find(record.address) else {
                continue;
            };
            let Some(word) = words.get_mut(at) else {
                continue;
            };
            let value = match record.mask {
                0 | u32::MAX => record.data,
                mask => (*word & !mask) | (record.data & mask),
            };
            if is_special {
                let value = special_value(&self.map, at, record.mask, value);
                if *word == value {
                    continue;
                }
                *word = value;
                match self.map.group(at, record.address) {
                    Group::Elements => self.elements_changed = true,
                    Group::Addresses => self.addresses_changed = true,
                    Group::None => changed(at, value),
                }
            } else if *word != value {
                *word = value;
                changed(at, value);
            }
        }
    }

    /// Applies a record. Returns the place of the word that has changed, unless it is in a
    /// [`Group`].
    #[cfg(CONFIG_KUNIT)]
    pub(super) fn apply(&mut self, record: Record) -> Option<usize> {
        let mut changed = None;
        self.apply_all(core::iter::once(record), |at, _| changed = Some(at));
        changed
    }

    /// Takes over all values of `other`. Calls `changed` for each word that changes and is in no
    /// [`Group`].
    pub(super) fn follow(&mut self, other: &Self, mut changed: impl FnMut(usize, u32)) {
        for slot in &self.map.addresses {
            let (word, wanted) = (&mut self.words[slot.word], other.words[slot.word]);
            self.addresses_changed |= *word != wanted;
            *word = wanted;
        }
        let (first, count) = self.map.elements;
        self.elements_changed |= self.element_count != other.element_count;
        self.element_count = other.element_count;
        for (at, (word, &wanted)) in self.words.iter_mut().zip(&other.words).enumerate() {
            if *word == wanted {
                continue;
            }
            *word = wanted;
            if (first..first + count).contains(&at) {
                self.elements_changed = true;
            } else {
                changed(at, wanted);
            }
        }
    }

    pub(super) fn set_element_count(&mut self, count: u32) {
        let (_, all) = self.map.elements;
        let count = u32_as_usize(count).min(all);
        if count != 0 && count != self.element_count {
            self.element_count = count;
            self.elements_changed = true;
        }
    }

    /// The `LOAD_STATE` of the vertex elements, with NOPs after it, and the number of words.
    ///
    /// It only loads the elements in use. The first load disables all others. Each further load
    /// enables its element.
    pub(super) fn element_words(&self) -> ([u32; ELEMENT_WORDS], usize) {
        let (first, all) = self.map.elements;
        let count = match self.element_count {
            0 => all,
            count => count,
        };
        let mut block = [0; ELEMENT_WORDS];
        // CAST: at most 16.
        block[0] = words::load_state(state::FE_VERTEX_ELEMENT_CONFIG, count as u32);
        for (to, from) in block[1..].iter_mut().zip(&self.words[first..first + count]) {
            *to = *from;
        }
        let after = (1 + count).next_multiple_of(2);
        let len = (1 + all).next_multiple_of(2);
        block[after..len]
            .iter_mut()
            .step_by(2)
            .for_each(|word| *word = words::NOP);
        (block, len)
    }
}

mod tests;
