// SPDX-License-Identifier: GPL-2.0-only

//! An allocator of number ranges: bytes of a bank, or pages of an address space.
//!
//! Pure logic. Two kernel rbtrees hold the free ranges. The one by end finds a range's neighbors.
//! The one by length finds the shortest range that is long enough (best fit; the first of equal
//! ones). So every operation takes logarithmic time, for any number and order of ranges. The end is
//! a key, because it stays when numbers are taken from the start. Only [`Ranges::reserve`]
//! allocates nodes, which are kept: freeing needs no memory and cannot fail.

use crate::{
    prelude::*,
    sys::GFP_UNCHARGED, //
};
use core::cell::Cell;

/// The most tries of ranges that are long enough but may be misaligned. After these, only ranges
/// that fit with any alignment are tried.
const ALIGNMENT_TRIES: usize = 16;

/// The number of spare nodes that are always kept.
const SPARE_NODES: usize = 64;

/// Length and end of a free range.
type ByLength = (usize, usize);

/// The two tree nodes for one more range.
struct Spare {
    end: RBTreeNodeReservation<usize, usize>,
    length: RBTreeNodeReservation<Cell<ByLength>, ()>,
}

/// A set of free ranges. No two of them touch.
pub(crate) struct Ranges {
    /// The start of each range, by its end.
    starts: RBTree<usize, usize>,
    /// The ranges by length. A length may change in place if the order stays the same.
    lengths: RBTree<Cell<ByLength>, ()>,
    /// Unused nodes, with capacity for all nodes.
    spare: KVVec<Spare>,
    /// The number of all nodes, used and unused.
    nodes: usize,
    /// The number of ranges that may be freed without an allocation.
    promised: usize,
}

impl Ranges {
    /// A set of one range. Empty if `length` is 0.
    pub(crate) fn new(start: usize, length: usize) -> Result<Self> {
        let mut ranges = Self {
            starts: RBTree::new(),
            lengths: RBTree::new(),
            spare: KVVec::new(),
            nodes: 0,
            promised: 0,
        };
        ranges.reserve()?;
        ranges.promised = 0;
        if length > 0 {
            ranges.insert(start, start + length);
        }
        Ok(ranges)
    }

    /// Allocates nodes to take and free one more range. Each [`Ranges::take`] needs one such call,
    /// which [`Ranges::give`] consumes.
    pub(crate) fn reserve(&mut self) -> Result {
        // Between n taken ranges there are at most n + 1 free ones.
        while self.nodes < self.promised + 2 {
            let room = self.nodes + 1 - self.spare.len();
            self.spare.reserve(room, GFP_UNCHARGED)?;
            let spare = Spare {
                end: RBTreeNodeReservation::new(GFP_UNCHARGED)?,
                length: RBTreeNodeReservation::new(GFP_UNCHARGED)?,
            };
            self.put_aside(spare);
            self.nodes += 1;
        }
        self.promised += 1;
        Ok(())
    }

    /// Finds a place for `length` numbers (at least 1) at a multiple of `alignment` (at least 1),
    /// in the shortest range with room for them.
    pub(crate) fn find(&self, length: usize, alignment: usize) -> Option<usize> {
        let mut least = (length, 0);
        for _ in 0..ALIGNMENT_TRIES {
            let range = self.first_from(least)?;
            if let Some(at) = fit(range, length, alignment) {
                return Some(at);
            }
            least = (range.0, range.1 + 1);
        }
        let with_padding = length.checked_add(alignment - 1)?;
        fit(self.first_from((with_padding, 0))?, length, alignment)
    }

    /// The first range from `least` on, in the order of lengths, and of ends for equal lengths.
    fn first_from(&self, least: ByLength) -> Option<ByLength> {
        let cursor = self.lengths.cursor_lower_bound(&Cell::new(least))?;
        Some(cursor.current().0.get())
    }

    /// Takes `length` numbers at `at`, a result of [`Ranges::find`].
    pub(crate) fn take(&mut self, at: usize, length: usize) {
        let Some((start, end)) = self.around(at) else {
            return;
        };
        let after = at + length;
        if after < end {
            self.set_start(end, after);
            self.resize((end - start, end), (end - after, end));
            if start < at {
                self.insert(start, at);
            }
        } else if start < at {
            self.set_end(start, end, at);
            self.resize((end - start, end), (at - start, at));
        } else {
            self.remove(start, end);
        }
    }

    /// The number of consecutive free numbers from `at` on.
    pub(crate) fn free_at(&self, at: usize) -> usize {
        self.around(at).map_or(0, |(_, end)| end - at)
    }

    /// The length of the longest free range.
    pub(crate) fn longest_free(&self) -> usize {
        let longest = self.lengths.cursor_back();
        longest.map_or(0, |cursor| cursor.current().0.get().0)
    }

    /// Frees `length` numbers from `start` on and merges them with their neighbors.
    pub(crate) fn give(&mut self, start: usize, length: usize) {
        let end = start + length;
        let cursor = self.starts.cursor_lower_bound(&start);
        let mut after = cursor.as_ref().map(|cursor| cursor.current());
        let mut before = None;
        if let Some((_, &first)) = after.filter(|&(&end, _)| end == start) {
            before = Some(first);
            after = cursor.as_ref().and_then(|cursor| cursor.peek_next());
        }
        let after = after.filter(|&(_, &start)| start == end);
        match (before, after.map(|(&last, _)| last)) {
            (None, None) => self.insert(start, end),
            (Some(first), None) => {
                self.set_end(first, start, end);
                self.resize((start - first, start), (end - first, end));
            }
            (before, Some(last)) => {
                let first = before.unwrap_or(start);
                if first < start {
                    self.remove(first, start);
                }
                self.set_start(last, first);
                self.resize((last - end, last), (last - first, last));
            }
        }
        self.promised -= 1;
        self.shrink();
    }

    /// Frees some spare nodes if there are many, because the number of objects may never be as high
    /// again.
    fn shrink(&mut self) {
        for _ in 0..2 {
            let needed = self.promised + 2;
            if self.nodes <= 2 * needed + SPARE_NODES {
                return;
            }
            let Some(spare) = self.spare.pop() else {
                return;
            };
            drop(spare);
            self.nodes -= 1;
        }
    }

    /// Changes the start of the range that ends at `end`.
    fn set_start(&mut self, end: usize, new: usize) {
        if let Some(start) = self.starts.get_mut(&end) {
            *start = new;
        }
    }

    /// Changes the end of the range from `start` to `end`.
    fn set_end(&mut self, start: usize, end: usize, new: usize) {
        if let Some(node) = self.starts.remove_node(&end) {
            let node = node.into_reservation().into_node(new, start);
            self.starts.insert(node);
        }
    }

    /// Changes the length or the end of a range: in place, if this keeps the order of the lengths.
    fn resize(&mut self, old: ByLength, new: ByLength) {
        let old = Cell::new(old);
        let Some(cursor) = self.lengths.cursor_lower_bound(&old) else {
            return;
        };
        let after = cursor.peek_prev().is_none_or(|(key, ())| key.get() < new);
        if after && cursor.peek_next().is_none_or(|(key, ())| key.get() > new) {
            cursor.current().0.set(new);
        } else if let Some(node) = self.lengths.remove_node(&old) {
            let node = node.into_reservation().into_node(Cell::new(new), ());
            self.lengths.insert(node);
        }
    }

    /// Start and end of the free range that contains `at`.
    fn around(&self, at: usize) -> Option<(usize, usize)> {
        let cursor = self.starts.cursor_lower_bound(&at.checked_add(1)?)?;
        let (&end, &start) = cursor.current();
        (start <= at).then_some((start, end))
    }

    fn insert(&mut self, start: usize, end: usize) {
        // `reserve` has allocated nodes for every range that can become free.
        if let Some(spare) = self.spare.pop() {
            self.starts.insert(spare.end.into_node(end, start));
            let key = Cell::new((end - start, end));
            self.lengths.insert(spare.length.into_node(key, ()));
        }
    }

    fn remove(&mut self, start: usize, end: usize) {
        let by_end = self.starts.remove_node(&end);
        let by_length = self.lengths.remove_node(&Cell::new((end - start, end)));
        if let (Some(by_end), Some(by_length)) = (by_end, by_length) {
            self.put_aside(Spare {
                end: by_end.into_reservation(),
                length: by_length.into_reservation(),
            });
        }
    }

    fn put_aside(&mut self, spare: Spare) {
        // The capacity suffices for all nodes. Otherwise the node would be freed.
        let _ = self.spare.push_within_capacity(spare);
    }
}

/// The first place in a free range where the numbers fit.
fn fit((room, end): ByLength, length: usize, alignment: usize) -> Option<usize> {
    let start = end - room;
    // Avoids the division for pages and powers of two, because 32-bit ARM divides in software.
    let at = match alignment {
        1 => start,
        _ if alignment.is_power_of_two() => start.checked_add(alignment - 1)? & !(alignment - 1),
        _ => start.checked_next_multiple_of(alignment)?,
    };
    (at.checked_add(length)? <= end).then_some(at)
}

#[kunit_tests(galcore_ranges)]
mod tests {
    use super::*;

    /// Checks that the two trees have the same ranges, that none touch, and that every node is used
    /// or spare. Returns the number of ranges.
    fn check(ranges: &Ranges) -> usize {
        let mut count = 0;
        let mut last_end = None;
        for (&end, &start) in &ranges.starts {
            assert!(start < end && last_end.is_none_or(|last| last < start));
            assert!(ranges.lengths.get(&Cell::new((end - start, end))).is_some());
            last_end = Some(end);
            count += 1;
        }
        assert_eq!(ranges.lengths.iter().count(), count);
        let mut least = (0, 0);
        for key in ranges.lengths.keys() {
            assert!(least < key.get());
            least = key.get();
        }
        assert_eq!(count + ranges.spare.len(), ranges.nodes);
        let longest = ranges.starts.iter().map(|(end, start)| end - start).max();
        assert_eq!(ranges.longest_free(), longest.unwrap_or(0));
        count
    }

    fn take(ranges: &mut Ranges, length: usize, alignment: usize) -> Option<usize> {
        let at = ranges.find(length, alignment)?;
        ranges.reserve().unwrap();
        ranges.take(at, length);
        Some(at)
    }

    #[test]
    fn the_first_place_of_the_shortest_range() {
        let mut ranges = Ranges::new(100, 100).unwrap();
        assert_eq!(take(&mut ranges, 10, 1), Some(100));
        assert_eq!(take(&mut ranges, 10, 16), Some(112));
        assert_eq!(take(&mut ranges, 2, 1), Some(110));
        assert_eq!(take(&mut ranges, 78, 1), Some(122));
        assert_eq!(take(&mut ranges, 1, 1), None);
        ranges.give(112, 10);
        assert_eq!(ranges.free_at(112), 10);
        assert_eq!(ranges.free_at(111), 0);
        assert_eq!(take(&mut ranges, 11, 1), None);
        ranges.give(110, 2);
        assert_eq!(take(&mut ranges, 11, 1), Some(110));
        ranges.give(110, 11);
        ranges.give(100, 10);
        ranges.give(122, 78);
        assert_eq!(take(&mut ranges, 100, 1), Some(100));
    }

    #[test]
    fn nodes_of_many_are_not_kept() {
        const COUNT: usize = 1000;
        let mut ranges = Ranges::new(0, COUNT).unwrap();
        for at in 0..COUNT {
            assert_eq!(take(&mut ranges, 1, 1), Some(at));
        }
        for at in (0..COUNT).step_by(2) {
            ranges.give(at, 1);
        }
        assert_eq!(check(&ranges), COUNT / 2);
        for at in (1..COUNT).step_by(2) {
            ranges.give(at, 1);
        }
        assert_eq!(check(&ranges), 1);
        assert!(ranges.nodes <= 2 * 2 + SPARE_NODES);
        // Nodes are allocated again.
        for at in 0..COUNT {
            assert_eq!(take(&mut ranges, 1, 1), Some(at));
        }
    }

    #[test]
    fn a_hole_is_filled_before_longer_ranges_are_cut() {
        let mut ranges = Ranges::new(0, 100).unwrap();
        for (at, length) in [(0, 20), (20, 5), (25, 20), (45, 3), (48, 10)] {
            assert_eq!(take(&mut ranges, length, 1), Some(at));
        }
        ranges.give(20, 5);
        ranges.give(45, 3);
        assert_eq!(check(&ranges), 3);
        assert_eq!(take(&mut ranges, 3, 1), Some(45));
        assert_eq!(take(&mut ranges, 4, 1), Some(20));
        assert_eq!(take(&mut ranges, 6, 1), Some(58));
        assert_eq!(take(&mut ranges, 1, 1), Some(24));
        assert_eq!(take(&mut ranges, 36, 1), Some(64));
        assert_eq!(check(&ranges), 0);
    }

    /// The expected result of `find`, from a list of all free ranges, with its bounded tries.
    fn best_fit(used: &[bool], length: usize, alignment: usize) -> Option<usize> {
        let mut free: KVec<ByLength> = KVec::new();
        let mut start = 0usize;
        for end in 0..=used.len() {
            if used.get(end) != Some(&false) {
                if end - start >= length {
                    free.push((end - start, end), GFP_KERNEL).unwrap();
                }
                start = end + 1;
            }
        }
        free.sort_unstable();
        let place = |&range: &ByLength| fit(range, length, alignment);
        let (tried, rest) = free.split_at(free.len().min(ALIGNMENT_TRIES));
        let padded = |range: &&ByLength| range.0 >= length + alignment - 1;
        let found = tried.iter().find_map(place);
        found.or_else(|| rest.iter().find(padded).and_then(place))
    }

    /// Random use, compared with an array of numbers and a linear search for the best fit.
    #[test]
    fn the_same_as_a_search_from_end_to_end() {
        const SIZE: usize = 700;
        let mut ranges = Ranges::new(0, SIZE).unwrap();
        let mut used = [false; SIZE];
        let mut taken: KVec<(usize, usize)> = KVec::new();
        let mut seed = 7u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for _ in 0..3000 {
            if random(5) > 1 {
                let (length, alignment) = (1 + random(20), 1 << random(3));
                let found = take(&mut ranges, length, alignment);
                assert_eq!(found, best_fit(&used, length, alignment));
                if let Some(at) = found {
                    used[at..at + length].fill(true);
                    taken.push((at, length), GFP_KERNEL).unwrap();
                }
            } else if !taken.is_empty() {
                let (at, length) = taken.remove(random(taken.len())).unwrap();
                used[at..at + length].fill(false);
                ranges.give(at, length);
            }
            check(&ranges);
        }
        assert!(check(&ranges) > 1);
        while let Some((at, length)) = taken.pop() {
            ranges.give(at, length);
        }
        assert_eq!(take(&mut ranges, SIZE, 1), Some(0));
    }

    #[test]
    fn ten_thousand_ranges_come_and_go() {
        const COUNT: usize = 10_000;
        let mut ranges = Ranges::new(0, 2 * COUNT).unwrap();
        for at in 0..2 * COUNT {
            assert_eq!(take(&mut ranges, 1, 1), Some(at));
        }
        assert_eq!(check(&ranges), 0);
        for at in 0..COUNT {
            ranges.give(2 * at, 1);
        }
        assert_eq!(check(&ranges), COUNT);
        assert_eq!(ranges.longest_free(), 1);
        for at in (0..COUNT).rev() {
            ranges.give(2 * at + 1, 1);
        }
        assert_eq!(check(&ranges), 1);
        assert_eq!(take(&mut ranges, 2 * COUNT, 1), Some(0));
    }
}
