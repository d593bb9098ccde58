// SPDX-License-Identifier: GPL-2.0-only

//! What stands around a client's words in the ring: its commands, and the states of a context that it
//! keeps in its own memory, in front of them.
//!
//! Pure logic. The vendor's drivers run such a context where it lies: they write a pipe switch into its
//! head and a LINK into its end. Here its states are copied into the ring, so the switch stands in front of
//! them, and no LINK is needed. Source: spec/command-hw.md sections 2.6 and 3.

use super::Checked;
use crate::stream::words::{
    self,
    Pipe, //
};

/// Bytes of `words` words, if they are `there`.
pub(super) const fn bytes_if(there: bool, words: usize) -> usize {
    if there {
        words * 4
    } else {
        0
    }
}

/// Words before and behind a client's. Small: they are made when they are written.
pub(super) struct Surround {
    caches: u32,
    /// The pipe that the client's words need at their start, if another one is selected.
    switch: Option<Pipe>,
    /// They leave a semaphore armed.
    armed: bool,
}

impl Surround {
    /// The most bytes of it.
    pub(super) const MAX_BYTES: usize =
        4 * (words::SELECT_PIPE_WORDS + words::STALL_FE_TO_PE.len() + words::DRAIN_WORDS);

    /// For `inner` behind what leaves `pipe` selected (`None`: not known), on a core with `caches`.
    pub(super) fn new(caches: u32, pipe: Option<Pipe>, inner: &Checked<'_>) -> Self {
        Self {
            caches,
            switch: (pipe != Some(inner.entry)).then_some(inner.entry),
            armed: inner.armed,
        }
    }

    /// Bytes of it, without the client's words.
    pub(super) fn bytes(&self) -> usize {
        bytes_if(self.switch.is_some(), words::SELECT_PIPE_WORDS)
            + bytes_if(self.armed, words::STALL_FE_TO_PE.len())
            + bytes_if(true, words::DRAIN_WORDS)
    }

    /// Gives all words in their order, with the client's in the middle, to `emit`.
    pub(super) fn emit<E>(
        &self,
        inner: &[u32],
        mut emit: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(pipe) = self.switch {
            emit(&words::select_pipe(self.caches, pipe))?;
        }
        emit(inner)?;
        if inner.len() % 2 != 0 {
            emit(&[0])?;
        }
        if self.armed {
            emit(&words::STALL_FE_TO_PE)?;
        }
        // What follows is checked as if nothing was under way.
        emit(&words::drain(self.caches))
    }
}

#[kernel::macros::kunit_tests(galcore_surround)]
mod tests {
    use super::*;
    use crate::stream::checker::Engines;
    use kernel::prelude::*;

    const BOTH: u32 = words::caches(true, true);

    /// The words, and whether they are as many as was said.
    fn words_of(pipe: Option<Pipe>, states: &Checked<'_>) -> (KVec<u32>, bool) {
        let surround = Surround::new(BOTH, pipe, states);
        let mut all = KVec::new();
        let result = surround.emit(states.words, |words| {
            all.extend_from_slice(words, GFP_KERNEL)
        });
        let bytes = surround.bytes() + states.bytes();
        let fits = surround.bytes() <= Surround::MAX_BYTES;
        let is_right = result.is_ok() && fits && bytes == all.len() * 4;
        (all, is_right)
    }

    fn states(words: &[u32], armed: bool) -> Checked<'_> {
        Checked {
            words,
            entry: Pipe::Pipe3d,
            exit: Pipe::Pipe3d,
            armed,
            uses: Engines::default(),
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
