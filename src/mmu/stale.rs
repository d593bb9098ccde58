// SPDX-License-Identifier: GPL-2.0-only

//! Ended mappings, in the order of their ends, until no TLB can hold a translation of them.
//!
//! Pure logic. Changes of an address space are numbered from 1. A TLB is flushed *past* change N if
//! it was flushed after that change. If change N has ended a mapping, the mapping is free when
//! every TLB of its address space is flushed past N: [`flushed_by_all`].

use crate::sys::prelude::*;
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    List,
    ListLinks, //
};

/// The flush position of a core that is off: its TLB is empty.
pub(crate) const NO_TRANSLATIONS: u64 = u64::MAX;

/// A GPU mapping, live or ended. The atomics only allow writes through a [`ListArc`]: one thread
/// has it, or the list's lock is held.
#[pin_data]
pub(super) struct Stale<K> {
    #[pin]
    links: ListLinks,
    /// Number of the first page.
    first: Atomic<usize>,
    pub(super) count: usize,
    /// The memory that the pages led to.
    pub(super) kept: K,
    /// The change that has ended it. 0: it is live.
    change: Atomic<u64>,
}

impl_list_arc_safe! {
    impl{K} ListArcSafe<0> for Stale<K> { untracked; }
}

impl_list_item! {
    impl{K} ListItem<0> for Stale<K> { using ListLinks { self.links }; }
}

impl<K> Stale<K> {
    /// A live mapping of `count` pages from page `first` on to `kept`. `ENOMEM`.
    pub(super) fn new(first: usize, count: usize, kept: K) -> Result<ListArc<Self>> {
        ListArc::pin_init(
            try_pin_init!(Self {
                links <- ListLinks::new(),
                first: Atomic::new(first),
                count,
                kept,
                change: Atomic::new(0),
            }),
            crate::sys::GFP_CLIENT,
        )
    }

    /// Number of the first page.
    pub(super) fn first(&self) -> usize {
        self.first.load(Relaxed)
    }

    /// Sets the first page, if it was unknown at creation.
    pub(super) fn place(&self, first: usize) {
        self.first.store(first, Relaxed);
    }
}

/// Ended mappings, oldest first.
pub(super) struct StaleList<K>(List<Stale<K>>);

impl<K> StaleList<K> {
    pub(super) fn new() -> Self {
        Self(List::new())
    }

    /// Adds a mapping that change `change` has ended. It must be the newest change.
    pub(super) fn push(&mut self, stale: ListArc<Stale<K>>, change: u64) {
        stale.change.store(change, Relaxed);
        self.0.push_back(stale);
    }

    /// Removes the oldest mapping, if every TLB is flushed past the change that has ended it.
    pub(super) fn pop(&mut self, flushed: u64) -> Option<ListArc<Stale<K>>> {
        let mut cursor = self.0.cursor_front();
        let oldest = cursor.peek_next()?;
        (oldest.change.load(Relaxed) <= flushed).then(|| oldest.remove())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The change that all TLBs are flushed past. `each`: the change that each is flushed past.
/// `newest`: the newest change, read before these. It caps the result: a core that is off now may
/// power on and cache translations that a later change removes.
pub(super) fn flushed_by_all(newest: u64, each: impl Iterator<Item = u64>) -> u64 {
    each.fold(newest, u64::min)
}

#[kunit_tests(galcore_stale)]
mod tests {
    use super::*;

    fn list(changes: &[u64]) -> StaleList<u64> {
        let mut list = StaleList::new();
        for &change in changes {
            list.push(Stale::new(1, 1, change).unwrap(), change);
        }
        list
    }

    fn popped(list: &mut StaleList<u64>, flushed: u64) -> Option<u64> {
        list.pop(flushed).map(|stale| stale.kept)
    }

    #[test]
    fn they_go_in_the_order_in_which_they_ended() {
        let mut list = list(&[3, 5, 9]);
        assert_eq!(popped(&mut list, 2), None);
        assert_eq!(popped(&mut list, 5), Some(3));
        assert_eq!(popped(&mut list, 5), Some(5));
        assert_eq!(popped(&mut list, 8), None);
        assert!(!list.is_empty());
        assert_eq!(popped(&mut list, NO_TRANSLATIONS), Some(9));
        assert!(list.is_empty());
    }

    #[test]
    fn one_is_free_only_after_both_cores_have_flushed() {
        let mut list = list(&[7]);
        let mut cores = [6, 4];
        let flushed = |cores: &[u64; 2]| flushed_by_all(100, cores.iter().copied());
        assert_eq!(popped(&mut list, flushed(&cores)), None);
        // One of them is flushed past it, and goes on.
        for change in [7, 100] {
            cores[0] = change;
            assert_eq!(popped(&mut list, flushed(&cores)), None);
        }
        cores[1] = 7;
        assert_eq!(popped(&mut list, flushed(&cores)), Some(7));
    }

    #[test]
    fn a_core_that_is_off_has_no_translations() {
        let mut list = list(&[7]);
        assert_eq!(
            popped(
                &mut list,
                flushed_by_all(7, [NO_TRANSLATIONS, 6].into_iter())
            ),
            None
        );
        assert_eq!(
            popped(
                &mut list,
                flushed_by_all(7, [7, NO_TRANSLATIONS].into_iter())
            ),
            Some(7)
        );
    }

    #[test]
    fn a_core_that_was_off_may_hold_what_ended_later() {
        let mut list = list(&[7, 8]);
        // The newest change is 7. Then a core starts, and change 8 ends a mapping that it has used.
        let off: [&[u64]; 2] = [&[], &[NO_TRANSLATIONS]];
        for each in off {
            assert_eq!(flushed_by_all(7, each.iter().copied()), 7);
        }
        assert_eq!(popped(&mut list, 7), Some(7));
        assert_eq!(popped(&mut list, 7), None);
    }
}
