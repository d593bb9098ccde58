// SPDX-License-Identifier: GPL-2.0-only

//! Free ranges of a line of numbers: bytes of a bank, or pages of an address space.
//!
//! Pure logic. An AVL tree ordered by start, in which every node knows the longest range of its
//! subtree, so that the first range that is long enough is found in logarithmic time whatever the
//! number of ranges, and whatever a client does to their order. No function calls itself: the kernel's
//! stack is small, and the tree's height is a client's to choose within its bound. Its nodes live in
//! one array, which grows only in [`Ranges::reserve`]: giving a range back needs no memory and cannot
//! fail.

use crate::error::Result;
use kernel::prelude::*;

/// Ranges that are long enough but too badly aligned are tried this often; then only those that fit
/// with any alignment count.
const ALIGNMENT_TRIES: usize = 16;

/// No node.
const NONE: u32 = u32::MAX;

/// The most nodes on a way down: an AVL tree of that height has more nodes than fit 32 bits.
const MAX_HEIGHT: usize = 48;

/// A free range, as a node of the tree.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    length: usize,
    /// Length of the longest range of this subtree.
    longest: usize,
    /// Nodes on the longest way down from here.
    height: u32,
    left: u32,
    right: u32,
}

/// The way from the root down to a place: nodes, and whether it goes on to the right.
struct Path {
    /// Twice the node, and 1 for the right: to be cleared quickly.
    steps: [u32; MAX_HEIGHT],
    len: usize,
}

impl Path {
    fn new() -> Self {
        Self {
            steps: [0; MAX_HEIGHT],
            len: 0,
        }
    }

    fn push(&mut self, node: u32, right: bool) {
        if let Some(step) = self.steps.get_mut(self.len) {
            // Nodes are of 24 bytes, so there are far fewer than 2^31.
            *step = node << 1 | u32::from(right);
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<(u32, bool)> {
        self.len = self.len.checked_sub(1)?;
        let step = self.steps.get(self.len)?;
        Some((step >> 1, step & 1 != 0))
    }
}

/// A set of free ranges, no two of which touch.
pub(crate) struct Ranges {
    nodes: KVVec<Free>,
    /// Unused nodes, a list through `left`.
    spare: u32,
    root: u32,
    /// How many ranges may become free one by one: what `nodes` has room for.
    promised: usize,
}

impl Ranges {
    /// A set of one range, or of none if it is empty.
    pub(crate) fn new(start: usize, length: usize) -> Result<Self> {
        let mut ranges = Self {
            nodes: KVVec::new(),
            spare: NONE,
            root: NONE,
            promised: 0,
        };
        ranges.reserve()?;
        ranges.promised = 0;
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
            let node = self.first_at_least(from, length)?;
            if let Some(at) = fit(node, length, alignment) {
                return Some(at);
            }
            from = node.start + 1;
        }
        let with_padding = length.checked_add(alignment - 1)?;
        let node = self.first_at_least(from, with_padding)?;
        fit(node, length, alignment)
    }

    /// The node with the lowest start of at least `from` and a length of at least `length`.
    fn first_at_least(&self, from: usize, length: usize) -> Option<Free> {
        // The lowest node on the way that is long enough itself, or has one that is to its right.
        let mut best = None;
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            if node.start < from {
                at = node.right;
            } else {
                if node.length >= length || self.longest(node.right) >= length {
                    best = Some(node);
                }
                at = node.left;
            }
        }
        let best = best?;
        if best.length >= length {
            return Some(best);
        }
        // All of the right subtree counts: the leftmost of it that is long enough.
        let mut node = self.node(best.right)?;
        loop {
            node = if self.longest(node.left) >= length {
                self.node(node.left)?
            } else if node.length >= length {
                return Some(node);
            } else {
                self.node(node.right)?
            };
        }
    }

    /// Takes `length` numbers at `at`, which [`Ranges::find`] gave.
    pub(crate) fn take(&mut self, at: usize, length: usize) {
        let Some(whole) = self.last_before(at.saturating_add(1)) else {
            return;
        };
        let (before, end) = (at - whole.start, whole.start + whole.length);
        let after = end - (at + length);
        match (before, after) {
            (0, 0) => self.remove(whole.start),
            (0, after) => self.resize(whole.start, at + length, after),
            (before, 0) => self.resize(whole.start, whole.start, before),
            (before, after) => {
                self.resize(whole.start, whole.start, before);
                self.insert(at + length, after);
            }
        }
    }

    /// How many free numbers follow each other from `at` on.
    pub(crate) fn free_at(&self, at: usize) -> usize {
        match self.last_before(at.saturating_add(1)) {
            Some(node) if node.start + node.length > at => node.start + node.length - at,
            _ => 0,
        }
    }

    /// The longest free range.
    pub(crate) fn longest_free(&self) -> usize {
        self.longest(self.root)
    }

    /// Gives `length` numbers from `start` back and merges them with their neighbours.
    pub(crate) fn give(&mut self, start: usize, length: usize) {
        let end = start + length;
        let after = self.last_before(end.saturating_add(1));
        let after = after.filter(|after| after.start == end);
        let before = self.last_before(start);
        let before = before.filter(|before| before.start + before.length == start);
        match (before, after) {
            (None, None) => self.insert(start, length),
            (Some(before), None) => {
                self.resize(before.start, before.start, before.length + length);
            }
            (None, Some(after)) => self.resize(after.start, start, length + after.length),
            (Some(before), Some(after)) => {
                self.remove(after.start);
                let length = before.length + length + after.length;
                self.resize(before.start, before.start, length);
            }
        }
        self.promised -= 1;
    }

    /// Changes the range that starts at `old`, without passing its neighbours: the tree's form stays.
    fn resize(&mut self, old: usize, start: usize, length: usize) {
        let mut path = Path::new();
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            if node.start == old {
                break;
            }
            let right = node.start < old;
            path.push(at, right);
            at = if right { node.right } else { node.left };
        }
        self.change(at, |node| {
            node.start = start;
            node.length = length;
        });
        self.update(at);
        while let Some((parent, _)) = path.pop() {
            self.update(parent);
        }
    }

    /// The node with the highest start below `limit`.
    fn last_before(&self, limit: usize) -> Option<Free> {
        let mut best = None;
        let mut at = self.root;
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

    fn longest(&self, index: u32) -> usize {
        self.node(index).map_or(0, |node| node.longest)
    }

    fn height(&self, index: u32) -> u32 {
        self.node(index).map_or(0, |node| node.height)
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut Free)) {
        if let Some(node) = self.nodes.get_mut(index as usize) {
            change(node);
        }
    }

    /// Recomputes what a node knows of its subtree.
    fn update(&mut self, index: u32) {
        if let Some(node) = self.node(index) {
            let longest = node
                .length
                .max(self.longest(node.left))
                .max(self.longest(node.right));
            let height = 1 + self.height(node.left).max(self.height(node.right));
            self.change(index, |node| {
                node.longest = longest;
                node.height = height;
            });
        }
    }

    /// Turns a subtree so that one of its root's children becomes its root, which is returned.
    fn rotate(&mut self, root: u32, child_is_right: bool) -> u32 {
        let Some(node) = self.node(root) else {
            return root;
        };
        let child = if child_is_right {
            node.right
        } else {
            node.left
        };
        let Some(risen) = self.node(child) else {
            return root;
        };
        if child_is_right {
            self.change(root, |node| node.right = risen.left);
            self.change(child, |node| node.left = root);
        } else {
            self.change(root, |node| node.left = risen.right);
            self.change(child, |node| node.right = root);
        }
        self.update(root);
        self.update(child);
        child
    }

    /// Makes a node's two sides differ by one level at most; returns the subtree's new root.
    fn balance(&mut self, index: u32) -> u32 {
        self.update(index);
        let Some(node) = self.node(index) else {
            return index;
        };
        let (left, right) = (self.height(node.left), self.height(node.right));
        if left.abs_diff(right) <= 1 {
            return index;
        }
        let heavy_right = right > left;
        let heavy = if heavy_right { node.right } else { node.left };
        if let Some(child) = self.node(heavy) {
            let (left, right) = (self.height(child.left), self.height(child.right));
            // The heavy child leans the other way: it is turned first.
            if if heavy_right {
                left > right
            } else {
                right > left
            } {
                let risen = self.rotate(heavy, !heavy_right);
                self.change(index, |node| {
                    if heavy_right {
                        node.right = risen;
                    } else {
                        node.left = risen;
                    }
                });
            }
        }
        self.rotate(index, heavy_right)
    }

    /// Puts `child` at the end of a path and rebalances upwards.
    fn attach(&mut self, mut path: Path, mut child: u32) {
        while let Some((parent, right)) = path.pop() {
            self.change(parent, |node| {
                if right {
                    node.right = child;
                } else {
                    node.left = child;
                }
            });
            child = self.balance(parent);
        }
        self.root = child;
    }

    fn insert(&mut self, start: usize, length: usize) {
        let free = Free {
            start,
            length,
            longest: length,
            height: 1,
            left: NONE,
            right: NONE,
        };
        let index = match self.node(self.spare) {
            Some(unused) => {
                let index = self.spare;
                self.spare = unused.left;
                self.change(index, |node| *node = free);
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
        let mut path = Path::new();
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            let right = node.start < start;
            path.push(at, right);
            at = if right { node.right } else { node.left };
        }
        self.attach(path, index);
    }

    /// Takes the range that starts at `start` out.
    fn remove(&mut self, start: usize) {
        let mut path = Path::new();
        let mut at = self.root;
        let gone = loop {
            let Some(node) = self.node(at) else {
                return;
            };
            if node.start == start {
                break node;
            }
            let right = node.start < start;
            path.push(at, right);
            at = if right { node.right } else { node.left };
        };
        if gone.left == NONE || gone.right == NONE {
            let child = if gone.left == NONE {
                gone.right
            } else {
                gone.left
            };
            self.attach(path, child);
        } else {
            // Its successor takes its place: the leftmost of its right subtree.
            path.push(at, true);
            let mut next = gone.right;
            while let Some(node) = self.node(next).filter(|node| node.left != NONE) {
                path.push(next, false);
                next = node.left;
            }
            if let Some(successor) = self.node(next) {
                self.change(at, |node| {
                    node.start = successor.start;
                    node.length = successor.length;
                });
                self.attach(path, successor.right);
                at = next;
            }
        }
        let spare = self.spare;
        self.change(at, |node| {
            node.left = spare;
            node.right = NONE;
        });
        self.spare = at;
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

    /// Checks order, height, balance and longest range of every node, without recursion; returns
    /// how many ranges there are.
    fn check(ranges: &Ranges) -> usize {
        let mut count = 0;
        let mut last_end = None;
        let mut path = Path::new();
        let mut at = ranges.root;
        loop {
            while let Some(node) = ranges.node(at) {
                path.push(at, false);
                at = node.left;
            }
            let Some((index, _)) = path.pop() else {
                return count;
            };
            let node = ranges.node(index).unwrap();
            let (left, right) = (ranges.height(node.left), ranges.height(node.right));
            assert!(left.abs_diff(right) <= 1);
            assert_eq!(node.height, 1 + left.max(right));
            let below = ranges.longest(node.left).max(ranges.longest(node.right));
            assert_eq!(node.longest, node.length.max(below));
            assert!(last_end.is_none_or(|end| end < node.start));
            last_end = Some(node.start + node.length);
            count += 1;
            at = node.right;
        }
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
        assert!(check(&ranges) > 1);
        while let Some((at, length)) = taken.pop() {
            ranges.give(at, length);
        }
        assert_eq!(take(&mut ranges, SIZE, 1), Some(0));
    }

    #[test]
    fn ten_thousand_ranges_stay_shallow() {
        const COUNT: usize = 10_000;
        let mut ranges = Ranges::new(0, 2 * COUNT).unwrap();
        for at in 0..2 * COUNT {
            assert_eq!(take(&mut ranges, 1, 1), Some(at));
        }
        assert_eq!(check(&ranges), 0);
        // In ascending order, the worst for a tree that does not balance.
        for at in 0..COUNT {
            ranges.give(2 * at, 1);
        }
        assert_eq!(check(&ranges), COUNT);
        // 1.44 times the binary logarithm.
        assert!(ranges.height(ranges.root) <= 19);
        assert_eq!(ranges.longest_free(), 1);
        for at in (0..COUNT).rev() {
            ranges.give(2 * at + 1, 1);
        }
        assert_eq!(check(&ranges), 1);
        assert_eq!(take(&mut ranges, 2 * COUNT, 1), Some(0));
    }
}
