// SPDX-License-Identifier: GPL-2.0-only

//! The states that a process's commands have loaded, if its contexts keep none.
//!
//! Some clients of the oldest interfaces pass a context without states, and load each state once.
//! The core holds it until it is off, or another process's commands come. This module keeps a copy
//! of two kinds of states: those that a context of the core keeps, and those of the 2D pipe except
//! for its data, which [`OwnData`](super::scrub::OwnData) has. The copy is loaded in the place of a
//! context's states, and checked like them: memory may have been freed since.
//!
//! Pure logic.

use super::{
    image::AUTO_DISABLE,
    map::load,
    StateMap, //
};
use crate::{
    prelude::*,
    stream::{
        bounds,
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

#[kunit_tests(galcore_kept)]
mod tests {
    use super::*;
    use crate::{
        hw::{
            Identity,
            MmuVersion, //
        },
        stream::{
            states::cores,
            words::load_state, //
        },
    };

    const CACHES: Caches = Caches::new(true, true, true, MmuVersion::V1);

    fn note(kept: &mut Kept, words: &[u32]) {
        let map = StateMap::new(&Identity::default()).unwrap();
        let dove = cores::dove();
        kept.note(words, &map, dove.sets().unwrap());
    }

    fn kept(words: &[u32]) -> Kept {
        let mut kept = Kept::new().unwrap();
        note(&mut kept, words);
        kept
    }

    /// The header of a load of consecutive states.
    fn states(byte: u32, count: u32) -> u32 {
        load_state(state::word(byte), count)
    }

    #[test]
    fn what_was_loaded_comes_back() {
        let first = [states(0xA14, 1), 5, states(0x1604, 2), 6, 7, 0];
        let mut kept = kept(&first);
        assert_eq!(
            kept.words(Pipe::Pipe3d, &CACHES).unwrap().0[..],
            [states(0xA14, 1), 5, states(0x1604, 2), 6, 7, 0]
        );
        // Later values replace these, also for 16.16 numbers.
        note(
            &mut kept,
            &[states(0xA14, 1), 8, states(0xA00, 2) | FIXP, 1, 2, 0],
        );
        assert_eq!(
            kept.words(Pipe::Pipe3d, &CACHES).unwrap().0[..],
            [
                states(0xA00, 2) | FIXP,
                1,
                2,
                0,
                states(0xA14, 1),
                8,
                states(0x1604, 2),
                6,
                7,
                0
            ]
        );
    }

    #[test]
    fn nothing_is_done_again() {
        // Flushes, semaphores, kicks, pipe switches, and draws.
        let kept = kept(&[
            states(0x380C, 1),
            3,
            states(0x3808, 1),
            0x701,
            states(0x1650, 1),
            1,
            states(0x1600, 1),
            1,
            states(0x3800, 1),
            1,
            states(0x1294, 1),
            1,
            0x2000_0100,
            0,
            0,
            0x10_0010,
            states(0x3824, 1),
            4,
        ]);
        assert!(kept.words(Pipe::Pipe3d, &CACHES).unwrap().0.is_empty());
    }

    #[test]
    fn only_elements_in_use_come_back() {
        let mut kept = kept(&[states(0x600, 3), 1, 2, 3]);
        note(&mut kept, &[states(0x600, 1), 4]);
        let words = kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words[..], [states(0x600, 1), 4]);
    }

    #[test]
    fn tile_status_is_not_switched_off() {
        let kept = kept(&[states(0x1654, 1), 0x2032]);
        let words = kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words[..], [states(0x1654, 1), 2]);
    }

    #[test]
    fn each_pipe_has_its_own() {
        // DE.SRC_ADDRESS and DE.SRC_STRIDE, and a color: that one is data of the pipe.
        let kept = kept(&[states(0x1200, 2), 1, 2, 0, states(0x1218, 1), 3]);
        let (words, entry) = kept.words(Pipe::Pipe2d, &CACHES).unwrap();
        assert_eq!(
            (&words[..], entry),
            (&[states(0x1200, 2), 1, 2, 0][..], Pipe::Pipe2d)
        );
        let (words, entry) = kept.words(Pipe::Pipe3d, &CACHES).unwrap();
        assert_eq!(entry, Pipe::Pipe2d);
        assert_eq!(words[4..], words::select_pipe(&CACHES, Pipe::Pipe3d));
    }

    #[test]
    fn addresses_are_forgotten_when_the_gpu_forgets_them() {
        let mut kept = kept(&[states(0x1604, 4), 1, 2, 3, 4, 0]);
        kept.forget(&[state::word(0x1610)]);
        let words = |kept: &Kept| kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words(&kept)[..], [states(0x1604, 3), 1, 2, 3]);
        kept.follow(0);
        assert_eq!(words(&kept)[..], [states(0x1604, 3), 1, 2, 3]);
        kept.follow(1);
        let left = [states(0x1604, 1), 1, states(0x160C, 1), 3];
        assert_eq!(words(&kept)[..], left);
    }
}
