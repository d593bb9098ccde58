// SPDX-License-Identifier: GPL-2.0-only

//! What the front end was given: the words of jobs, as long as they are in the memory for jobs.
//!
//! The front end is not stopped for who looks, nor are submitters: words are read without a lock,
//! and are true if the job's place is still its own behind that ([`History`]).

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    history::History,
    Noted, //
};
use crate::sys::{
    self,
    dma::DmaBuffer, //
};

/// A job whose words are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Where they are.
    pub(crate) noted: Noted,
    /// The same, for the front end.
    pub(crate) address: u32,
    /// It has not ended.
    pub(crate) is_under_way: bool,
}

impl Given {
    /// Copies words of it from `memory`, from byte `offset` of its own on; whether they are those:
    /// `look` says what job of its number is there.
    fn copy(
        &self,
        memory: &DmaBuffer,
        offset: u32,
        to: &mut [u32],
        look: impl FnOnce(u64) -> Option<Noted>,
    ) -> bool {
        // CAST: 32 bits into at least 32.
        let first = (self.noted.start + offset) as usize;
        for (index, word) in to.iter_mut().enumerate() {
            match memory.read(first + 4 * index) {
                Ok(read) => *word = read,
                Err(_) => return false,
            }
        }
        // What the words were read before is asked now.
        sys::barrier::smp_read();
        look(self.noted.number) == Some(self.noted)
    }
}

impl History {
    /// The oldest job from number `from` on whose words are there, in memory whose GPU address is
    /// `address`. The newest of all, the newest whose words have been written, and the newest that
    /// has ended are `newest`, `written`, `ended`.
    fn given(&self, from: u64, address: u32, [newest, written, ended]: [u64; 3]) -> Option<Given> {
        let noted = self.oldest(from, newest)?;
        (noted.number <= written).then_some(Given {
            noted,
            address: address + noted.start,
            is_under_way: noted.number > ended,
        })
    }
}

impl<F: FrontEnd> Engine<F> {
    /// The oldest job from number `from` on whose words are in the ring, all of them. Takes the
    /// ring's lock for a moment.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        let state = self.state.lock();
        let newest = state.jobs.newest();
        let written = newest - u64::from(state.is_filling && newest != 0);
        let history = &state.history;
        history.given(from, self.address, [newest, written, state.completed])
    }

    /// Copies words of a job, from byte `offset` of its own on. Whether they are those: its place
    /// may have been given to another.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        job.copy(&self.memory, offset, to, |number| {
            self.state.lock().history.job(number)
        })
    }
}
