// SPDX-License-Identifier: GPL-2.0-only

//! Free ranges of a line of numbers: bytes of a bank, or pages of an address space.
//!
//! Pure logic. A treap ordered by start, in which every node knows the longest range below it, so
//! that the first range that is long enough is found in logarithmic time whatever the number of
//! ranges. Its nodes live in one array, which grows only in [`Ranges::reserve`]: giving a range back
//! needs no memory and cannot fail.

use crate::error::Result;
use kernel::prelude::*;

/// Ranges that are long enough but too badly aligned are tried this often; then only those that fit
/// with any alignment count.
const ALIGNMENT_TRIES: usize = 16;

/// No node.
const NONE: u32 = u32::MAX;

/// A free range, as a node of the treap.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    length: usize,
    /// Length of the longest range of this subtree.
    longest: usize,
    priority: u32,
    left: u32,
    right: u32,
}

/// A set of free ranges, no two of which touch.
pub(crate) struct Ranges {
    nodes: KVVec<Free>,
    /// Unused nodes, a list through `left`.
    spare: u32,
    root: u32,
    /// How many ranges may become free one by one: what `nodes` has room for.
    promised: usize,
    random: u32,
}

impl Ranges {
    /// A set of one range, or of none if it is empty.
    pub(crate) fn new(start: usize, length: usize) -> Result<Self> {
        let mut ranges = Self {
            nodes: KVVec::new(),
            spare: NONE,
            root: NONE,
            promised: 0,
            random: 0x9E37_79B9,
        };
        ranges.reserve()?;
        if length > 0 {
            ranges.insert(start, length);
        }
        Ok(ranges)
    }

    /// Makes room for one more range to be taken out and given back. Every [`Ranges::take`] needs
    /// one, and [`Ranges::give`] uses it up.
    pub(crate) fn reserve(&mut self) -> Result {
        // Between n ranges that are taken there are at most n + 1 that are free.
        let needed = self.promised + 2;
        if needed > self.nodes.capacity() {
            let more = needed.max(16) - self.nodes.len();
            self.nodes.reserve(more, GFP_KERNEL)?;
        }
        self.promised += 1;
        Ok(())
    }

    /// The first place where `length` numbers, more than 0, fit at a multiple of `alignment` (at
    /// least 1).
    pub(crate) fn find(&self, length: usize, alignment: usize) -> Option<usize> {
        let mut from = 0;
        for _ in 0..ALIGNMENT_TRIES {
            let node = self.first_at_least(self.root, from, length)?;
            if let Some(at) = fit(node, length, alignment) {
                return Some(at);
            }
            from = node.start + 1;
        }
        let with_padding = length.checked_add(alignment - 1)?;
        let node = self.first_at_least(self.root, from, with_padding)?;
        fit(node, length, alignment)
    }

    /// The node with the lowest start of at least `from` and a length of at least `length`.
    fn first_at_least(&self, root: u32, from: usize, length: usize) -> Option<Free> {
        let node = self.node(root)?;
        if node.longest < length {
            return None;
        }
        if node.start >= from {
            if let Some(found) = self.first_at_least(node.left, from, length) {
                return Some(found);
            }
            if node.length >= length {
                return Some(node);
            }
        }
        self.first_at_least(node.right, from, length)
    }

    /// Takes `length` numbers at `at`, which [`Ranges::find`] gave.
    pub(crate) fn take(&mut self, at: usize, length: usize) {
        let Some(whole) = self.last_before(self.root, at.saturating_add(1)) else {
            return;
        };
        self.remove(whole.start);
        let end = whole.start + whole.length;
        if at > whole.start {
            self.insert(whole.start, at - whole.start);
        }
        if end > at + length {
            self.insert(at + length, end - at - length);
        }
    }

    /// How many free numbers follow each other from `at` on.
    pub(crate) fn free_at(&self, at: usize) -> usize {
        match self.last_before(self.root, at.saturating_add(1)) {
            Some(node) if node.start + node.length > at => node.start + node.length - at,
            _ => 0,
        }
    }

    /// Gives `length` numbers from `start` back and merges them with their neighbours.
    pub(crate) fn give(&mut self, start: usize, length: usize) {
        let (mut first, mut end) = (start, start + length);
        if let Some(after) = self.last_before(self.root, end.saturating_add(1)) {
            if after.start == end {
                self.remove(after.start);
                end += after.length;
            }
        }
        if let Some(before) = self.last_before(self.root, start) {
            if before.start + before.length == start {
                self.remove(before.start);
                first = before.start;
            }
        }
        self.insert(first, end - first);
        self.promised -= 1;
    }

    /// The node with the highest start below `limit`.
    fn last_before(&self, root: u32, limit: usize) -> Option<Free> {
        let mut best = None;
        let mut at = root;
        while let Some(node) = self.node(at) {
            if node.start < limit {
                best = Some(node);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        best
    }

    fn node(&self, index: u32) -> Option<Free> {
        // CAST: 32 bits into at least 32.
        self.nodes.get(index as usize).copied()
    }

    fn set(&mut self, index: u32, change: impl FnOnce(&mut Free)) {
        if let Some(node) = self.nodes.get_mut(index as usize) {
            change(node);
        }
    }

    /// Recomputes what a node knows of its subtree.
    fn update(&mut self, index: u32) {
        if let Some(node) = self.node(index) {
            let below = |child| self.node(child).map_or(0, |child| child.longest);
            let longest = node.length.max(below(node.left)).max(below(node.right));
            self.set(index, |node| node.longest = longest);
        }
    }

    /// Splits a subtree into the ranges that start below `limit` and the others.
    fn split(&mut self, root: u32, limit: usize) -> (u32, u32) {
        let Some(node) = self.node(root) else {
            return (NONE, NONE);
        };
        if node.start < limit {
            let (left, right) = self.split(node.right, limit);
            self.set(root, |node| node.right = left);
            self.update(root);
            (root, right)
        } else {
            let (left, right) = self.split(node.left, limit);
            self.set(root, |node| node.left = right);
            self.update(root);
            (left, root)
        }
    }

    /// Joins two subtrees, all of the first before all of the second.
    fn join(&mut self, left: u32, right: u32) -> u32 {
        let (Some(a), Some(b)) = (self.node(left), self.node(right)) else {
            return if left == NONE { right } else { left };
        };
        if a.priority > b.priority {
            let joined = self.join(a.right, right);
            self.set(left, |node| node.right = joined);
            self.update(left);
            left
        } else {
            let joined = self.join(left, b.left);
            self.set(right, |node| node.left = joined);
            self.update(right);
            right
        }
    }

    fn insert(&mut self, start: usize, length: usize) {
        let free = Free {
            start,
            length,
            longest: length,
            priority: self.next_random(),
            left: NONE,
            right: NONE,
        };
        let index = match self.node(self.spare) {
            Some(unused) => {
                let index = self.spare;
                self.spare = unused.left;
                self.set(index, |node| *node = free);
                index
            }
            None => {
                // CAST: far fewer than 2^32 ranges.
                let index = self.nodes.len() as u32;
                if self.nodes.push_within_capacity(free).is_err() {
                    // `reserve` has made room for every range that can become free.
                    return;
                }
                index
            }
        };
        let (before, after) = self.split(self.root, start);
        let joined = self.join(before, index);
        self.root = self.join(joined, after);
    }

    /// Takes the range that starts at `start` out.
    fn remove(&mut self, start: usize) {
        let (before, rest) = self.split(self.root, start);
        let (index, after) = self.split(rest, start + 1);
        self.root = self.join(before, after);
        if index != NONE {
            let spare = self.spare;
            self.set(index, |node| {
                node.left = spare;
                node.right = NONE;
            });
            self.spare = index;
        }
    }

    /// Xorshift: spreads the priorities; nothing depends on its being secret.
    fn next_random(&mut self) -> u32 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random = x;
        x
    }
}

/// Where in a free range the numbers fit.
fn fit(node: Free, length: usize, alignment: usize) -> Option<usize> {
    let at = node.start.checked_next_multiple_of(alignment)?;
    let end = at.checked_add(length)?;
    (end <= node.start + node.length).then_some(at)
}

#[kunit_tests(galcore_ranges)]
mod tests {
    use super::*;

    fn depth(ranges: &Ranges, root: u32) -> usize {
        ranges.node(root).map_or(0, |node| {
            1 + depth(ranges, node.left).max(depth(ranges, node.right))
        })
    }

    fn take(ranges: &mut Ranges, length: usize, alignment: usize) -> Option<usize> {
        let at = ranges.find(length, alignment)?;
        ranges.reserve().unwrap();
        ranges.take(at, length);
        Some(at)
    }

    #[test]
    fn first_fit_by_address() {
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

    /// Random use against a plain array of numbers, with the first fit searched the slow way.
    #[test]
    fn the_same_as_a_plain_search() {
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
                let plain = (0..=SIZE - length)
                    .step_by(alignment)
                    .find(|&at| used[at..at + length].iter().all(|&used| !used));
                let found = take(&mut ranges, length, alignment);
                // Both find a place or none; and the first, but for the alignment's bounded tries.
                assert_eq!(found, plain);
                if let Some(at) = found {
                    used[at..at + length].fill(true);
                    taken.push((at, length), GFP_KERNEL).unwrap();
                }
            } else if !taken.is_empty() {
                let (at, length) = taken.remove(random(taken.len())).unwrap();
                used[at..at + length].fill(false);
                ranges.give(at, length);
            }
        }
        while let Some((at, length)) = taken.pop() {
            ranges.give(at, length);
        }
        assert_eq!(take(&mut ranges, SIZE, 1), Some(0));
    }

    #[test]
    fn ten_thousand_ranges_stay_shallow() {
        let mut ranges = Ranges::new(0, 20_000).unwrap();
        for at in 0..20_000 {
            assert_eq!(take(&mut ranges, 1, 1), Some(at));
        }
        for at in 0..10_000 {
            ranges.give(2 * at, 1);
        }
        // About 2 ln n = 18 on average, and hardly ever twice that.
        assert!(depth(&ranges, ranges.root) < 60);
        for at in 0..10_000 {
            ranges.give(2 * at + 1, 1);
        }
        assert_eq!(take(&mut ranges, 20_000, 1), Some(0));
    }
}
