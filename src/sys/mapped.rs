// SPDX-License-Identifier: GPL-2.0-only

//! The registry of user pages and dma-bufs that are mapped for the device.
//!
//! Pure logic. No page may be mapped twice: a DMA sync of one mapping does not sync the other, and
//! the kernel's DMA debugging reports a page with more than seven mappings as a leak. So a pinned
//! page is mapped once, however often it is pinned. A page of a dma-buf can neither be pinned nor
//! be in another dma-buf. There is an entry for each pinned page and for each range of a dma-buf.
//! Entries are allocated before the registry's lock is taken ([`Reservation`]): at the limit of its
//! memory cgroup, a process reclaims memory there, and must not delay others.

use super::{
    prelude::*,
    GFP_CLIENT, //
};
use core::ops::Range;
use kernel::dma::DmaAddress;

/// A pinned page: its DMA address and its number of pins.
struct Pinned {
    dma: DmaAddress,
    users: usize,
}

/// Memory for the entry of a pinned page.
pub(super) struct Reservation(RBTreeNodeReservation<u64, Pinned>);

impl Reservation {
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_CLIENT)?))
    }
}

/// Memory for the entries of a dma-buf's ranges.
pub(super) struct Reservations(KVVec<RBTreeNodeReservation<u64, u64>>);

impl Reservations {
    /// Allocates memory for `count` ranges. `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        let mut reservations = KVVec::with_capacity(count, GFP_CLIENT)?;
        for _ in 0..count {
            reservations.push(RBTreeNodeReservation::new(GFP_CLIENT)?, GFP_CLIENT)?;
        }
        Ok(Self(reservations))
    }
}

/// Mapped pages, by physical address.
pub(super) struct Mapped {
    pinned: RBTree<u64, Pinned>,
    /// The ends of the dma-bufs' ranges, by their starts.
    imported: RBTree<u64, u64>,
}

/// Whether `starts`, a tree of disjoint ranges, has a range that overlaps `wanted`. `end` returns
/// the end of a range.
fn overlaps<T>(starts: &RBTree<u64, T>, wanted: &Range<u64>, end: impl Fn(u64, &T) -> u64) -> bool {
    // If any range overlaps `wanted`, the last one that begins before the end of `wanted` does.
    let last = match starts.cursor_lower_bound(&wanted.end) {
        Some(cursor) => cursor.peek_prev().map(|(&start, range)| end(start, range)),
        None => starts.cursor_back().map(|cursor| {
            let (&start, range) = cursor.current();
            end(start, range)
        }),
    };
    last.is_some_and(|end| end > wanted.start)
}

impl Mapped {
    /// An empty registry.
    pub(super) fn new() -> Self {
        Self {
            pinned: RBTree::new(),
            imported: RBTree::new(),
        }
    }

    /// Adds a pin of the page at `page`. For the first pin, calls `map` and returns its error.
    /// `EBUSY`: a dma-buf has the page.
    pub(super) fn pin(
        &mut self,
        reservation: Reservation,
        page: u64,
        map: impl FnOnce() -> Result<DmaAddress>,
    ) -> Result<DmaAddress> {
        if let Some(pinned) = self.pinned.get_mut(&page) {
            pinned.users = pinned.users.checked_add(1).ok_or(ENOMEM)?;
            return Ok(pinned.dma);
        }
        let wanted = page..page.saturating_add(usize_as_u64(PAGE_SIZE));
        if overlaps(&self.imported, &wanted, |_, &end| end) {
            return Err(EBUSY);
        }
        let dma = map()?;
        self.pinned
            .insert(reservation.0.into_node(page, Pinned { dma, users: 1 }));
        Ok(dma)
    }

    /// Removes a pin of the page at `page`. Returns its DMA address if it was the last pin.
    pub(super) fn unpin(&mut self, page: u64) -> Option<DmaAddress> {
        let pinned = self.pinned.get_mut(&page)?;
        pinned.users -= 1;
        match pinned.users {
            0 => self.pinned.remove(&page).map(|pinned| pinned.dma),
            _ => None,
        }
    }

    /// Adds the ranges of a dma-buf. `EBUSY`: two of them overlap, or one is already mapped.
    /// `ENOMEM`: too few `nodes`. On failure none is added.
    pub(super) fn import(&mut self, nodes: &mut Reservations, ranges: &[Range<u64>]) -> Result {
        for (at, range) in ranges.iter().enumerate() {
            let node = nodes.0.pop().ok_or(ENOMEM);
            if let Err(error) = node.and_then(|node| self.import_one(node, range)) {
                self.forget(&ranges[..at]);
                return Err(error);
            }
        }
        Ok(())
    }

    fn import_one(&mut self, node: RBTreeNodeReservation<u64, u64>, range: &Range<u64>) -> Result {
        let page_end = |start: u64, _: &Pinned| start.saturating_add(usize_as_u64(PAGE_SIZE));
        if overlaps(&self.imported, range, |_, &end| end) || overlaps(&self.pinned, range, page_end)
        {
            return Err(EBUSY);
        }
        self.imported.insert(node.into_node(range.start, range.end));
        Ok(())
    }

    /// Removes ranges that [`Mapped::import`] has added.
    pub(super) fn forget(&mut self, ranges: &[Range<u64>]) {
        for range in ranges {
            self.imported.remove(&range.start);
        }
    }
}

/// The ranges of `pages`. Merges adjacent pages, without sorting.
pub(super) fn ranges(pages: &[DmaAddress]) -> Result<KVVec<Range<u64>>> {
    let mut ranges: KVVec<Range<u64>> = KVVec::new();
    for &page in pages {
        let start = super::widen(page);
        let end = start.checked_add(usize_as_u64(PAGE_SIZE)).ok_or(EINVAL)?;
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end, GFP_CLIENT)?,
        }
    }
    Ok(ranges)
}

#[kunit_tests(galcore_mapped)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_SIZE as u64;

    fn pages(range: Range<u64>) -> Range<u64> {
        range.start * PAGE..range.end * PAGE
    }

    fn pin(
        mapped: &mut Mapped,
        page: u64,
        map: impl FnOnce() -> Result<DmaAddress>,
    ) -> Result<DmaAddress> {
        mapped.pin(Reservation::new()?, page, map)
    }

    fn import(mapped: &mut Mapped, ranges: &[Range<u64>]) -> Result {
        mapped.import(&mut Reservations::new(ranges.len())?, ranges)
    }

    #[test]
    fn a_page_is_mapped_once_however_often_it_is_pinned() {
        let mut mapped = Mapped::new();
        assert_eq!(pin(&mut mapped, PAGE, || Ok(7)).ok(), Some(7));
        assert_eq!(pin(&mut mapped, PAGE, || Err(EINVAL)).ok(), Some(7));
        assert!(mapped.unpin(PAGE).is_none());
        assert_eq!(mapped.unpin(PAGE), Some(7));
        assert!(mapped.unpin(PAGE).is_none());
        assert_eq!(pin(&mut mapped, PAGE, || Err(EFAULT)).err(), Some(EFAULT));
        assert!(mapped.unpin(PAGE).is_none());
    }

    #[test]
    fn no_page_is_pinned_and_imported() {
        let mut mapped = Mapped::new();
        assert!(import(&mut mapped, &[pages(4..6), pages(8..9)]).is_ok());
        for (page, is_free) in [(3, true), (4, false), (5, false), (6, true), (7, true)] {
            assert_eq!(pin(&mut mapped, page * PAGE, || Ok(0)).is_ok(), is_free);
        }
        assert_eq!(pin(&mut mapped, 8 * PAGE, || Ok(0)).err(), Some(EBUSY));
        for (range, is_free) in [(0..3, true), (0..4, false), (2..4, false), (3..5, false)] {
            let ranges = [pages(range)];
            assert_eq!(import(&mut mapped, &ranges).is_ok(), is_free);
            if is_free {
                mapped.forget(&ranges);
            }
        }
        mapped.forget(&[pages(4..6)]);
        assert!(pin(&mut mapped, 4 * PAGE, || Ok(0)).is_ok());
        assert!(pin(&mut mapped, 8 * PAGE, || Ok(0)).is_err());
    }

    #[test]
    fn what_is_refused_leaves_nothing() {
        let mut mapped = Mapped::new();
        assert!(import(&mut mapped, &[pages(10..20)]).is_ok());
        for overlap in [9..11, 10..20, 12..13, 19..21, 5..30] {
            let wanted = [pages(1..3), pages(overlap)];
            assert_eq!(import(&mut mapped, &wanted).err(), Some(EBUSY));
        }
        assert!(import(&mut mapped, &[pages(1..3), pages(20..21)]).is_ok());
        // The same page twice in one dma-buf.
        assert!(import(&mut mapped, &[pages(30..31), pages(30..31)]).is_err());
        assert!(import(&mut mapped, &[pages(30..31)]).is_ok());
    }

    #[test]
    fn pages_become_ranges() {
        let page = PAGE_SIZE as DmaAddress;
        let pages = [4 * page, 5 * page, 6 * page, page, 9 * page, 8 * page];
        let found = ranges(&pages).unwrap();
        let wanted = [(4, 7), (1, 2), (9, 10), (8, 9)];
        assert_eq!(found.len(), wanted.len());
        for (range, (start, end)) in found.iter().zip(wanted) {
            assert_eq!((range.start, range.end), (start * PAGE, end * PAGE));
        }
        assert!(ranges(&[]).unwrap().is_empty());
    }
}
