// SPDX-License-Identifier: GPL-2.0-only

//! Ids of events under way, oldest first.
//!
//! Pure logic. Each job has one event of the pixel engine, and the GPU raises events in the order of
//! the ring. Ids wrap. So a true interrupt bit says that its job and all before it are done; if
//! bits of earlier jobs are missing, the ring checks whether it is true.

use crate::sys::prelude::*;

/// Event ids of jobs: 30 and 31 mean exceptions.
pub(crate) const IDS: usize = 30;

/// A job under way, or one that has ended.
pub(crate) struct Slot<T> {
    /// Where it starts in the ring.
    pub(crate) start: usize,
    /// Its idle loop.
    pub(crate) mark: usize,
    /// Its number, from 1 up.
    pub(crate) number: u64,
    pub(crate) load: T,
}

/// Jobs that the GPU has not finished.
pub(crate) struct InFlight<T> {
    slots: [Option<Slot<T>>; IDS],
    ids: usize,
    first: usize,
    count: usize,
    numbers: u64,
}

impl<T> InFlight<T> {
    /// No jobs, with `ids` ids, [`IDS`] at most; the first job is `newest` + 1. Made in place, as it
    /// is large.
    pub(crate) fn init(ids: usize, newest: u64) -> impl Init<Self> {
        init!(Self {
            slots <- pin_init::init_array_from_fn(|_| None),
            ids: ids.min(IDS),
            first: 0,
            count: 0,
            numbers: newest,
        })
    }

    /// `index` in the ring of ids, for an index of less than twice its size.
    #[inline(always)]
    fn wrap(&self, index: usize) -> usize {
        if index >= self.ids {
            index - self.ids
        } else {
            index
        }
    }

    /// Jobs under way.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Number of the newest job ever made; 0: none.
    pub(crate) fn newest(&self) -> u64 {
        self.numbers
    }

    /// Whether an id is free.
    pub(crate) fn has_room(&self) -> bool {
        self.count < self.ids
    }

    /// Adds a job that starts at `start` of the ring and has its idle loop at `mark`; returns
    /// its event id and its number, or gives `load` back when no id is free.
    pub(crate) fn begin(&mut self, start: usize, mark: usize, load: T) -> Result<(u32, u64), T> {
        if !self.has_room() {
            return Err(load);
        }
        let id = self.wrap(self.first + self.count);
        self.numbers += 1;
        self.slots[id] = Some(Slot {
            start,
            mark,
            number: self.numbers,
            load,
        });
        self.count += 1;
        // CAST: less than 30.
        Ok((id as u32, self.numbers))
    }

    /// How many jobs, from the oldest, the event bits `fired` say are done.
    pub(crate) fn done(&self, fired: u32) -> usize {
        (0..self.count)
            .rev()
            .find(|&i| fired & (1 << self.wrap(self.first + i)) != 0)
            .map_or(0, |i| i + 1)
    }

    /// How many jobs, from the oldest, have each raised its own bit in `fired`.
    pub(crate) fn certain(&self, fired: u32) -> usize {
        (0..self.count)
            .take_while(|&i| fired & (1 << self.wrap(self.first + i)) != 0)
            .count()
    }

    /// The event id and the job of this age; 0 is the oldest.
    pub(crate) fn get(&self, age: usize) -> Option<(u32, &Slot<T>)> {
        if age >= self.count {
            return None;
        }
        let id = self.wrap(self.first + age);
        // CAST: less than 30.
        self.slots[id].as_ref().map(|slot| (id as u32, slot))
    }

    /// As [`InFlight::get`], to change the job.
    pub(crate) fn get_mut(&mut self, age: usize) -> Option<&mut Slot<T>> {
        if age >= self.count {
            return None;
        }
        let id = self.wrap(self.first + age);
        self.slots[id].as_mut()
    }

    /// The event ids and the jobs, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &Slot<T>)> {
        (0..self.count).filter_map(|age| self.get(age))
    }

    /// Takes the oldest job out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Slot<T>> {
        let done = self.slots[self.first].take()?;
        self.first = self.wrap(self.first + 1);
        self.count -= 1;
        Some(done)
    }

    /// What job `number` carries, or the newest before it, if that is under way.
    pub(crate) fn load_at(&mut self, number: u64) -> Option<&mut T> {
        let newer = self.numbers.saturating_sub(number);
        let newer = usize::try_from(newer).ok()?;
        let age = self.count.checked_sub(1)?.checked_sub(newer)?;
        self.get_mut(age).map(|slot| &mut slot.load)
    }
}

#[kernel::macros::kunit_tests(galcore_inflight)]
mod tests {
    use super::*;

    fn new<T>() -> KBox<InFlight<T>> {
        KBox::init(InFlight::init(IDS, 0), GFP_KERNEL).unwrap()
    }

    #[test]
    fn fewer_ids_go_round_earlier() {
        let mut flights = KBox::init(InFlight::init(10, 5), GFP_KERNEL).unwrap();
        for job in 0..10u32 {
            assert_eq!(flights.begin(0, 0, job), Ok((job, 6 + u64::from(job))));
        }
        assert_eq!(flights.begin(0, 0, 10), Err(10));
        assert!(flights.pop().is_some());
        assert_eq!(flights.begin(0, 0, 10), Ok((0, 16)));
    }

    #[test]
    fn ids_go_round_and_numbers_go_up() {
        let mut flights = new();
        for round in 0..100u64 {
            let begun = flights.begin(0, 7, round);
            assert_eq!(begun, Ok(((round % 30) as u32, round + 1)));
            let done = flights.pop().unwrap();
            assert_eq!((done.mark, done.number, done.load), (7, round + 1, round));
        }
        assert!(flights.pop().is_none());
    }

    #[test]
    fn there_are_thirty() {
        let mut flights = new();
        for i in 0..IDS {
            assert!(flights.begin(0, i, i).is_ok());
        }
        assert_eq!(flights.begin(0, 30, 30), Err(30));
        assert!(flights.pop().is_some());
        assert_eq!(flights.begin(0, 30, 30), Ok((0, 31)));
    }

    #[test]
    fn a_bit_counts_for_all_before_it() {
        let mut flights = new();
        for i in 0..28 {
            assert!(flights.begin(10 * i, 10 * i + 8, ()).is_ok());
            assert!(flights.pop().is_some());
        }
        // Ids 28, 29, 0, 1 are under way.
        for i in 0..4 {
            assert!(flights.begin(10 * i, 10 * i + 8, ()).is_ok());
        }
        assert_eq!(flights.done(0), 0);
        assert_eq!(flights.done(1 << 28), 1);
        assert_eq!(flights.done(1 << 0), 3);
        assert_eq!(flights.done(1 << 28 | 1 << 1), 4);
        // Only the first two have theirs; the fourth's may be true or not.
        assert_eq!(flights.certain(1 << 28 | 1 << 29 | 1 << 1), 2);
        assert_eq!(flights.certain(1 << 29), 0);
        assert_eq!(
            flights.get(2).map(|(id, slot)| (id, slot.mark)),
            Some((0, 28))
        );
        // Bits of ids that are not under way say nothing.
        assert_eq!(flights.done(1 << 5), 0);
        assert_eq!(flights.len(), 4);
    }

    #[test]
    fn garbage_goes_with_the_newest() {
        let mut flights = new();
        assert!(flights.load_at(u64::MAX).is_none());
        for load in 1..=3 {
            assert!(flights.begin(0, 0, load).is_ok());
        }
        assert_eq!(flights.load_at(u64::MAX), Some(&mut 3));
        assert_eq!(flights.load_at(3), Some(&mut 3));
        assert_eq!(flights.load_at(2), Some(&mut 2));
        assert!(flights.pop().is_some());
        // Gone, so there is nothing to wait for.
        assert!(flights.load_at(1).is_none());
        assert!(flights.load_at(0).is_none());
        assert_eq!(flights.load_at(2), Some(&mut 2));
    }
}
