// SPDX-License-Identifier: GPL-2.0-only

//! What stands around the states of a context that a client keeps in its own memory, in front of its
//! commands.
//!
//! Pure logic. The vendor's drivers run such a context where it lies: they write a pipe switch into its
//! head and a LINK into its end. Here its states are copied into the ring, so the switch stands in front of
//! them, and no LINK is needed. Source: spec/command-hw.md section 3.

use super::{
    words::{
        self,
        Pipe, //
    },
    Checked,
};

/// Bytes of a pipe switch.
const SWITCH_BYTES: usize = 4 * words::SELECT_PIPE_WORDS;

/// Bytes of a stall.
const STALL_BYTES: usize = 4 * words::STALL_FE_TO_PE.len();

/// Bytes of a drain.
const DRAIN_BYTES: usize = 4 * words::DRAIN_WORDS;

/// Words before and behind the states.
pub(super) struct Preface {
    caches: u32,
    /// The pipe that the states need at their start, if another one is selected.
    switch: Option<Pipe>,
    /// They leave a semaphore armed.
    armed: bool,
}

impl Preface {
    /// The most bytes of it.
    pub(super) const MAX_BYTES: usize = SWITCH_BYTES + STALL_BYTES + DRAIN_BYTES;

    /// For `states` behind what leaves `pipe` selected (`None`: not known), on a core with `caches`.
    pub(super) fn new(caches: u32, pipe: Option<Pipe>, states: &Checked<'_>) -> Self {
        Self {
            caches,
            switch: (pipe != Some(states.entry)).then_some(states.entry),
            armed: states.armed,
        }
    }

    /// Bytes of it, without the states.
    pub(super) fn bytes(&self) -> usize {
        let switch = if self.switch.is_some() {
            SWITCH_BYTES
        } else {
            0
        };
        let stall = if self.armed { STALL_BYTES } else { 0 };
        switch + stall + DRAIN_BYTES
    }

    /// Gives all words in their order, with those of the states, to `emit`.
    pub(super) fn emit<E>(
        &self,
        states: &[u32],
        mut emit: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(pipe) = self.switch {
            emit(&words::select_pipe(self.caches, pipe))?;
        }
        emit(states)?;
        if states.len() % 2 != 0 {
            emit(&[0])?;
        }
        if self.armed {
            emit(&words::STALL_FE_TO_PE)?;
        }
        // Commands are checked as if nothing was under way, and states may have begun something.
        emit(&words::drain(self.caches))
    }
}

#[kernel::macros::kunit_tests(galcore_preface)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    const BOTH: u32 = words::caches(true, true);

    /// The words, and whether they are as many as was said.
    fn words_of(pipe: Option<Pipe>, states: &Checked<'_>) -> (KVec<u32>, bool) {
        let preface = Preface::new(BOTH, pipe, states);
        let mut all = KVec::new();
        let result = preface.emit(states.words, |words| {
            all.extend_from_slice(words, GFP_KERNEL)
        });
        let bytes = preface.bytes() + states.bytes();
        let fits = preface.bytes() <= Preface::MAX_BYTES;
        let is_right = result.is_ok() && fits && bytes == all.len() * 4;
        (all, is_right)
    }

    fn states(words: &[u32], armed: bool) -> Checked<'_> {
        Checked {
            words,
            entry: Pipe::Pipe3d,
            exit: Pipe::Pipe3d,
            armed,
        }
    }

    #[test]
    fn states_in_the_pipe_that_is_selected() {
        let (all, is_right) = words_of(Some(Pipe::Pipe3d), &states(&[0x0801_0285, 0x1234], false));
        assert!(is_right);
        assert_eq!(
            all[..],
            [
                0x0801_0285,
                0x1234,
                0x0801_0E03,
                0xB,
                0x0801_0E02,
                0x701,
                0x4800_0000,
                0x701
            ]
        );
    }

    #[test]
    fn states_in_another_pipe() {
        // After a reset it is not known which: then it is another.
        for pipe in [None, Some(Pipe::Pipe2d)] {
            let (all, is_right) =
                words_of(pipe, &states(&[0x0801_0285, 0x1234, 0x1800_0000], true));
            assert!(is_right);
            assert_eq!(
                all[..],
                [
                    // Flush, semaphore, stall, select.
                    0x0801_0E03,
                    0xB,
                    0x0801_0E02,
                    0x701,
                    0x4800_0000,
                    0x701,
                    0x0801_0E00,
                    0,
                    // The states, in whole units.
                    0x0801_0285,
                    0x1234,
                    0x1800_0000,
                    0,
                    // The stall that they left out, then the drain.
                    0x4800_0000,
                    0x701,
                    0x0801_0E03,
                    0xB,
                    0x0801_0E02,
                    0x701,
                    0x4800_0000,
                    0x701
                ]
            );
        }
    }

    #[test]
    fn nothing_but_a_frame() {
        let (all, is_right) = words_of(Some(Pipe::Pipe3d), &states(&[], false));
        assert!(is_right);
        assert_eq!(all.len(), 6);
    }
}
