// SPDX-License-Identifier: GPL-2.0-only

//! The words that jobs gave the front end, as long as they are in the memory for jobs.
//!
//! A reader stops neither the front end nor submitters: it reads words without a lock, and they are
//! valid if the job's place has not been reused afterwards ([`History`]).

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

/// A job whose words are still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) noted: Noted,
    /// Their address for the front end.
    pub(crate) address: u32,
    pub(crate) is_under_way: bool,
}

impl Given {
    /// Copies words of the job from `memory`, from its byte `offset` on; returns whether they are
    /// the job's. `look` returns the job of a number that is still there.
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
        // The words are read before the place is looked up again.
        sys::barrier::smp_read();
        look(self.noted.number) == Some(self.noted)
    }
}

impl History {
    /// The oldest job from number `from` on whose words are there, in memory at GPU address
    /// `address`. The numbers are those of the newest job, the newest whose words are written, and
    /// the newest that has ended.
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
    /// The oldest job from number `from` on whose words are all in the ring. Takes the ring's lock
    /// for a moment.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        let state = self.state.lock();
        let newest = state.jobs.newest();
        let written = newest - u64::from(state.is_filling && newest != 0);
        let history = &state.history;
        history.given(from, self.address, [newest, written, state.completed])
    }

    /// Copies words of a job, from its byte `offset` on; returns whether they are the job's: its
    /// place may have been reused.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        job.copy(&self.memory, offset, to, |number| {
            self.state.lock().history.job(number)
        })
    }
}
