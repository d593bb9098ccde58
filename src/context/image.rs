// SPDX-License-Identifier: GPL-2.0-only

//! A context's stream with the client's values, before its addresses are checked.
//!
//! Pure logic.

use super::{
    map::{
        Group,
        StateMap, //
    },
    Record, //
};
use crate::{
    prelude::*,
    stream::{
        resolve,
        words::{
            self,
            state, //
        }, //
    }, //
};

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

/// The stream with the client's values, before its addresses are checked.
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
