// SPDX-License-Identifier: GPL-2.0-only

//! Where the words of the last jobs lie, of running and ended ones, for `debugfs`.
//!
//! Pure logic. The memory for jobs is a ring. A place has a *position*: its offset plus the bytes of
//! all earlier rounds. The words of a job are intact until a position is used that is more than one
//! round after its start. A place is noted before it is written: a reader copies the words without
//! a lock, then checks that they are still intact. So it stops neither the front end nor submitters.
//! Positions wrap at 4 GiB, which is more than the bytes of all jobs whose numbers are known.

use crate::sys::prelude::*;

/// How many jobs, at most: a power of two.
const JOBS: usize = 512;

/// A job's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The job's number; 0: none.
    pub(crate) number: u64,
    /// The process that has submitted it, by its leader's number in the initial namespace; 0: the
    /// driver.
    pub(crate) process: i32,
    /// Offset of its first byte, and how many there are.
    pub(crate) start: u32,
    pub(crate) bytes: u32,
    /// The process's own words: bytes from the start, and their count.
    pub(crate) own: (u32, u32),
}

/// A job's words, and its position.
#[derive(Clone, Copy, Default)]
struct Slot {
    noted: Noted,
    position: u32,
}

/// The last jobs.
pub(crate) struct History {
    /// By the lowest bits of the number.
    slots: KVVec<Slot>,
    /// Bytes of the memory.
    size: u32,
    /// Bytes of all rounds before this one.
    rounds: u32,
    /// Where the newest starts, and the position where it ends.
    start: u32,
    end: u32,
}

impl History {
    /// An empty history of memory of `size` bytes. `ENOMEM`.
    pub(crate) fn new(size: usize) -> Result<Self> {
        Ok(Self {
            slots: KVVec::from_elem(Slot::default(), JOBS, GFP_KERNEL)?,
            size: u32::try_from(size)?,
            rounds: 0,
            start: 0,
            end: 0,
        })
    }

    /// One that notes nothing.
    #[cfg(CONFIG_KUNIT)]
    pub(crate) fn none() -> Self {
        Self {
            slots: KVVec::new(),
            size: 0,
            rounds: 0,
            start: 0,
            end: 0,
        }
    }

    /// The slot of a number.
    fn index(number: u64) -> usize {
        // CAST: the low bits.
        number as usize & (JOBS - 1)
    }

    /// Notes the place of a job before its words are written. Numbers increase.
    #[inline]
    pub(crate) fn note(&mut self, noted: Noted) {
        let Some(slot) = self.slots.get_mut(Self::index(noted.number)) else {
            return;
        };
        if noted.start < self.start {
            self.rounds = self.rounds.wrapping_add(self.size);
        }
        let position = self.rounds.wrapping_add(noted.start);
        *slot = Slot { noted, position };
        self.start = noted.start;
        self.end = position.wrapping_add(noted.bytes);
    }

    /// Job `number` has none of its process's words: its place was given back.
    pub(crate) fn give_back(&mut self, number: u64) {
        if let Some(slot) = self.slots.get_mut(Self::index(number)) {
            slot.noted.own = (0, 0);
        }
    }

    /// The memory is used from its start again: nothing of before is there.
    pub(crate) fn forget(&mut self) {
        self.rounds = self.rounds.wrapping_add(self.size.wrapping_mul(2));
        self.start = 0;
        self.end = self.rounds;
    }

    /// Job `number`, if its words are all there: they, or what was to be written over those before
    /// them.
    pub(crate) fn job(&self, number: u64) -> Option<Noted> {
        let slot = self.slots.get(Self::index(number))?;
        let is_there = self.end.wrapping_sub(slot.position) <= self.size;
        (slot.noted.number == number && number != 0 && is_there).then_some(slot.noted)
    }

    /// The oldest of those from number `from` to number `newest`, which is the newest, whose words
    /// are all there.
    pub(crate) fn oldest(&self, from: u64, newest: u64) -> Option<Noted> {
        let kept = newest.saturating_sub(usize_as_u64(JOBS) - 1);
        // Of these the ones from some number on are there: numbers and positions go up together.
        let (mut first, mut last) = (kept.max(from).max(1), newest);
        // Ends: the range is halved.
        while first < last {
            let middle = first + ((last - first) >> 1);
            match self.job(middle) {
                Some(_) => last = middle,
                None => first = middle + 1,
            }
        }
        self.job(first)
    }
}

/// A job whose words are still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) noted: Noted,
    /// Their address for the front end.
    pub(crate) address: u32,
    pub(crate) is_under_way: bool,
}

#[kunit_tests(galcore_history)]
mod tests {
    use super::*;

    const SIZE: u32 = 1024;

    fn noted(number: u64, start: u32, bytes: u32) -> Noted {
        Noted {
            number,
            process: 7,
            start,
            bytes,
            own: (8, 16),
        }
    }

    fn oldest(history: &History, from: u64, newest: u64) -> u64 {
        history.oldest(from, newest).map_or(0, |noted| noted.number)
    }

    #[test]
    fn what_is_written_over_is_not_there() {
        // CAST: small.
        let mut history = History::new(SIZE as usize).unwrap();
        assert_eq!(oldest(&history, 0, 5), 0);
        history.note(noted(6, 16, 400));
        history.note(noted(7, 416, 400));
        assert_eq!((oldest(&history, 0, 7), oldest(&history, 7, 7)), (6, 7));
        assert_eq!(oldest(&history, 8, 7), 0);
        // The next round: the first bytes belong to no job.
        history.note(noted(8, 0, 16));
        assert_eq!(history.job(6), Some(noted(6, 16, 400)));
        history.note(noted(9, 16, 8));
        assert_eq!(history.job(6), None);
        assert_eq!(oldest(&history, 0, 9), 7);
        // Of a part of it the rest is not there either.
        history.note(noted(10, 24, 392));
        assert_eq!(oldest(&history, 0, 10), 7);
        history.note(noted(11, 416, 8));
        assert_eq!(oldest(&history, 0, 11), 8);
        history.forget();
        assert_eq!(oldest(&history, 0, 11), 0);
        history.note(noted(12, 16, 8));
        assert_eq!(oldest(&history, 0, 12), 12);
    }

    #[test]
    fn of_many_the_last_are_known() {
        // CAST: small.
        let mut history = History::new(SIZE as usize).unwrap();
        for number in 1..=3 * JOBS as u64 {
            // CAST: small.
            let start = (number as u32 * 8) % SIZE;
            history.note(noted(number, start, 8));
            let there = number.min(u64::from(SIZE) / 8);
            assert_eq!(oldest(&history, 0, number), number - there + 1);
        }
        // Memory for more than are kept.
        let mut history = History::new(1 << 20).unwrap();
        for number in 1..=2 * JOBS as u64 {
            // CAST: small.
            history.note(noted(number, number as u32 * 16, 16));
        }
        assert_eq!(oldest(&history, 0, 2 * JOBS as u64), JOBS as u64 + 1);
        assert_eq!(history.job(JOBS as u64), None);
    }

    #[test]
    fn positions_come_round() {
        // CAST: small.
        let mut history = History::new(SIZE as usize).unwrap();
        history.rounds = 0u32.wrapping_sub(SIZE);
        for number in 1..=8 {
            // CAST: small.
            history.note(noted(number, (number as u32 * 512) % SIZE, 512));
            assert_eq!(oldest(&history, 0, number), number.saturating_sub(1).max(1));
        }
    }
}
