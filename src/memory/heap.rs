// SPDX-License-Identifier: GPL-2.0-only

//! The banked heap of the video memory pool.
//!
//! Pure logic over offsets in bytes from the start of the pool. In a bank, the best fit is used
//! ([`Ranges`]). The type of a surface selects the order of the banks, so that surfaces that are
//! used together are in different memory banks. Allocating and freeing take logarithmic time in the
//! number of free pieces. Source: sources.md, video memory.

use crate::prelude::*;
use crate::ranges::Ranges;

/// The maximum number of banks. Memory after the last bank is not used.
const MAX_BANKS: usize = 8;

/// A remainder of at most this many bytes is added to the allocation before it.
const SPLIT_THRESHOLD: usize = 64;

/// Requests of at least this many bytes are refused while less than 1/32 of the heap is free.
const SMALL: usize = 4096;

/// The type of a surface (`gceSURF_TYPE` of the v4 interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurfaceType(u32);

impl SurfaceType {
    /// Number of types in the v4 interface. A number with flag bits is not a type.
    const COUNT: u32 = 12;

    /// From the interface's number.
    pub(crate) fn new(number: u32) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// The distance of this type's first bank from the end. 1: the last bank. `None`: bank 0.
    fn distance(self) -> Option<usize> {
        match self.0 {
            4 | 6 => Some(1),
            5 | 11 => Some(2),
            3 => Some(3),
            2 => Some(4),
            1 => Some(5),
            7 => Some(6),
            _ => None,
        }
    }

    /// The first of `banks` banks to search.
    fn bank(self, banks: usize) -> usize {
        self.distance()
            .map_or(0, |distance| banks.saturating_sub(distance))
    }
}

/// An allocated piece of the heap. Return it with [`Heap::free`] or [`Heap::free_of`].
#[derive(Debug)]
pub(crate) struct Span {
    bank: usize,
    offset: usize,
    bytes: usize,
    /// The owner noted for all of its pages. 0: not looked up, or they differ.
    owner: u64,
}

impl Span {
    /// Offset in bytes from the start of the pool.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Its size: at least the requested size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pages that it overlaps.
    fn pages(&self) -> core::ops::Range<usize> {
        self.offset / PAGE_SIZE..(self.offset + self.bytes).div_ceil(PAGE_SIZE)
    }
}

/// The allocator of the pool.
pub(crate) struct Heap {
    /// The free ranges of each bank.
    banks: KVec<Ranges>,
    free: usize,
    /// The minimum of `free` so far.
    least_free: usize,
    total: usize,
    /// The last owner of each page. Empty: not tracked. See [`Heap::keep_owners`].
    owners: KVVec<u64>,
}

impl Heap {
    /// A heap of `bytes`, in banks of `bank_size` (0: one bank).
    pub(crate) fn new(bytes: usize, bank_size: usize) -> Result<Self> {
        let bank_size = if bank_size == 0 { bytes } else { bank_size };
        let mut banks = KVec::new();
        let mut start = 0;
        while start < bytes && banks.len() < MAX_BANKS {
            let end = start.saturating_add(bank_size).min(bytes);
            banks.push(Ranges::new(start, end - start)?, GFP_KERNEL)?;
            start = end;
        }
        Ok(Self {
            banks,
            free: start,
            least_free: start,
            total: start,
            owners: KVVec::new(),
        })
    }

    /// Starts to track the last owner of each page. From now on, no two spans may share a page.
    pub(crate) fn keep_owners(&mut self) -> Result {
        let pages = self.total.div_ceil(PAGE_SIZE);
        self.owners = KVVec::from_elem(0, pages, GFP_KERNEL)?;
        Ok(())
    }

    /// Removes the first `bytes`, which must be free. If owners are tracked, call
    /// [`Heap::keep_owners`] before: it counts these pages, too.
    pub(crate) fn leave_out(&mut self, bytes: usize) -> Result {
        let Some(first) = self.banks.get_mut(0) else {
            return Ok(());
        };
        let there = first.free_at(0);
        let bytes = bytes.min(there);
        *first = Ranges::new(bytes, there - bytes)?;
        self.free -= bytes;
        self.least_free = self.free;
        self.total -= bytes;
        Ok(())
    }

    /// Whether `owner` (not 0) was the last owner of every page of a span.
    ///
    /// Not inlined: in the caller too few registers would be left for the loop over pages.
    #[inline(never)]
    pub(crate) fn is_left_by(&self, span: &mut Span, owner: u64) -> bool {
        let pages = self.owners.get(span.pages());
        let is_left = pages.is_some_and(|pages| pages.iter().all(|&last| last == owner));
        if is_left {
            span.owner = owner;
        }
        is_left
    }

    /// Forgets the owners of all pages. Error: this number of bytes is in use.
    pub(crate) fn leave(&mut self) -> core::result::Result<(), usize> {
        match self.total - self.free {
            0 => {
                self.owners.fill(0);
                Ok(())
            }
            taken => Err(taken),
        }
    }

    /// Free bytes.
    pub(crate) fn free_bytes(&self) -> usize {
        self.free
    }

    /// The smallest number of free bytes so far.
    pub(crate) fn least_free_bytes(&self) -> usize {
        self.least_free
    }

    /// Bytes in all banks.
    pub(crate) fn total_bytes(&self) -> usize {
        self.total
    }

    /// Whether a request for `asked` bytes, before alignment, may be granted now. While less than
    /// 1/32 is free, only small requests may.
    pub(crate) fn is_open_to(&self, asked: usize) -> bool {
        asked < SMALL || self.free >= self.total / 32
    }

    /// Allocates `bytes`, more than 0, at an offset that is a multiple of `alignment` (0: any).
    ///
    /// `OutOfMemory`: no bank has a piece that fits.
    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        alignment: usize,
        kind: SurfaceType,
    ) -> Result<Span> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        if bytes > self.free {
            return Err(Error::OutOfMemory);
        }
        let first = kind.bank(self.banks.len());
        let alignment = alignment.max(1);
        // `Init` has a `chain`, too, so name the trait.
        let order = Iterator::chain((0..=first).rev(), first + 1..self.banks.len());
        for bank in order {
            let Some(ranges) = self.banks.get_mut(bank) else {
                break;
            };
            if let Some(offset) = ranges.find(bytes, alignment) {
                ranges.reserve()?;
                let rest = ranges.free_at(offset) - bytes;
                let bytes = bytes + if rest > SPLIT_THRESHOLD { 0 } else { rest };
                ranges.take(offset, bytes);
                self.free -= bytes;
                self.least_free = self.least_free.min(self.free);
                return Ok(Span {
                    bank,
                    offset,
                    bytes,
                    owner: 0,
                });
            }
        }
        Err(Error::OutOfMemory)
    }

    /// Frees a span that `owner` has used (0: any process), and merges it with free neighbors.
    pub(crate) fn free_of(&mut self, span: Span, owner: u64) {
        // Skip this if the owner is noted already: there may be many pages.
        if span.owner == 0 || span.owner != owner {
            if let Some(pages) = self.owners.get_mut(span.pages()) {
                pages.fill(owner);
            }
        }
        self.free(span);
    }

    /// Frees a span that was never used, and merges it with free neighbors.
    pub(crate) fn free(&mut self, span: Span) {
        self.free += span.bytes;
        if let Some(ranges) = self.banks.get_mut(span.bank) {
            ranges.give(span.offset, span.bytes);
        }
    }
}

/// Rounds a request of `bytes` up to `alignment`, if that is a power of 2, as the vendor's driver
/// does. `None`: the result needs more than 32 bits.
pub(crate) fn granted(bytes: u32, alignment: u32) -> Option<u32> {
    if !alignment.is_power_of_two() {
        return Some(bytes);
    }
    // With a mask, because a division takes a hundred instructions on ARM.
    let mask = alignment - 1;
    bytes.checked_add(mask).map(|end| end & !mask)
}

/// A common multiple of `alignment` (0: any) and the page size. It is the least one if `alignment`
/// is a power of two or a multiple of the page size. `None`: it needs more than 32 bits.
pub(crate) fn with_pages(alignment: u32) -> Option<u32> {
    // CAST: A page is far below 4 GiB.
    const PAGE: u32 = PAGE_SIZE as u32;
    match alignment {
        0 => Some(PAGE),
        _ if alignment.is_power_of_two() => Some(alignment.max(PAGE)),
        _ if alignment % PAGE == 0 => Some(alignment),
        _ => alignment.checked_mul(PAGE),
    }
}

#[kunit_tests(galcore_heap)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn kind(number: u32) -> SurfaceType {
        SurfaceType::new(number).unwrap()
    }

    #[test]
    fn banks_follow_the_type() {
        // The pool of an RK2918: 128 MiB in banks of 16 MiB.
        let mut heap = Heap::new(128 * MIB, 16 * MIB).unwrap();
        for (number, bank) in [(4, 7), (5, 6), (3, 5), (2, 4), (1, 3), (7, 2), (0, 0)] {
            let span = heap.allocate(0x1000, 64, kind(number)).unwrap();
            assert_eq!(span.offset() / (16 * MIB), bank);
            heap.free(span);
        }
        assert_eq!(heap.free_bytes(), 128 * MIB);
    }

    #[test]
    fn what_is_left_out_is_free_for_none() {
        let mut heap = Heap::new(4 * MIB, MIB).unwrap();
        heap.keep_owners().unwrap();
        heap.leave_out(4096).unwrap();
        let all = 4 * MIB - 4096;
        assert_eq!(
            [
                heap.total_bytes(),
                heap.free_bytes(),
                heap.least_free_bytes()
            ],
            [all; 3]
        );
        let vertex = heap.allocate(100, 1, kind(2)).unwrap();
        assert_eq!(vertex.offset(), 4096);
        assert_eq!(heap.leave(), Err(vertex.bytes()));
        heap.free_of(vertex, 3);
        // Freeing the first span does not merge it with the memory that was left out.
        let [a, b] =
            [2, 2].map(|number| heap.allocate(MIB / 2 - 4096, 4096, kind(number)).unwrap());
        assert_eq!([a.offset(), b.offset()], [4096, MIB / 2]);
        heap.free(b);
        heap.free(a);
        assert_eq!(heap.free_bytes(), all);
        // The owner of the last page is also kept.
        let last = heap.allocate(4096, 1, kind(4)).unwrap();
        assert_eq!(heap.leave(), Err(last.bytes()));
        heap.free_of(last, 3);
        assert_eq!(heap.leave(), Ok(()));
        // A bank that is left out completely has no memory.
        let mut heap = Heap::new(8192, 4096).unwrap();
        heap.leave_out(4096).unwrap();
        assert_eq!(heap.allocate(4096, 1, kind(0)).unwrap().offset(), 4096);
        assert!(heap.allocate(1, 1, kind(0)).is_err());
    }

    #[test]
    fn a_full_bank_overflows_downwards_then_upwards() {
        let mut heap = Heap::new(4 * MIB, MIB).unwrap();
        // Vertex: N - 4 = 0. Depth: N - 2 = 2.
        let depth: [Span; 4] =
            core::array::from_fn(|_| heap.allocate(MIB - 4096, 1, kind(5)).unwrap());
        let banks = depth.each_ref().map(|span| span.offset() / MIB);
        assert_eq!(banks, [2, 1, 0, 3]);
        depth.into_iter().for_each(|span| heap.free(span));
        assert_eq!(heap.free_bytes(), 4 * MIB);
        assert_eq!(heap.least_free_bytes(), 4 * 4096);
    }

    #[test]
    fn grants_are_multiples_of_the_alignment() {
        for (bytes, alignment, expected) in [
            (5000, 0, Some(5000)),
            (5000, 1, Some(5000)),
            (5000, 3, Some(5000)),
            (5000, 64, Some(0x13C0)),
            (0x13C0, 64, Some(0x13C0)),
            (1, 0x10_0000, Some(0x10_0000)),
            (0x8000_0001, 0x8000_0000, None),
            (u32::MAX, 2, None),
        ] {
            assert_eq!(granted(bytes, alignment), expected);
        }
    }

    #[test]
    fn alignments_with_pages_have_32_bits() {
        for (alignment, expected) in [
            (0, Some(0x1000)),
            (64, Some(0x1000)),
            (0x1000, Some(0x1000)),
            (0x3000, Some(0x3000)),
            (3, Some(0x3000)),
            (0x1800, Some(0x180_0000)),
            (0x8000_0000, Some(0x8000_0000)),
            (0x10_0001, None),
            (u32::MAX, None),
        ] {
            assert_eq!(with_pages(alignment), expected);
        }
    }

    #[test]
    fn alignment_is_by_offset_and_any_number() {
        let mut heap = Heap::new(MIB, 0).unwrap();
        let first = heap.allocate(100, 0, kind(0)).unwrap();
        let second = heap.allocate(100, 96, kind(0)).unwrap();
        let third = heap.allocate(100, 4096, kind(0)).unwrap();
        assert_eq!(first.offset(), 0);
        assert_eq!(second.offset(), 192);
        assert_eq!(third.offset(), 4096);
        for span in [second, first, third] {
            heap.free(span);
        }
        let all = heap.allocate(MIB, 1, kind(0)).unwrap();
        assert_eq!(all.bytes(), MIB);
        heap.free(all);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut heap = Heap::new(MIB, 0).unwrap();
        assert_eq!(
            heap.allocate(0, 1, kind(0)).err(),
            Some(Error::InvalidArgument)
        );
        assert_eq!(
            heap.allocate(MIB + 1, 1, kind(0)).err(),
            Some(Error::OutOfMemory)
        );
        let span = heap.allocate(1, usize::MAX, kind(0)).unwrap();
        assert_eq!(span.offset(), 0);
        assert_eq!(
            heap.allocate(1, usize::MAX, kind(0)).err(),
            Some(Error::OutOfMemory)
        );
        heap.free(span);
        assert!(SurfaceType::new(12).is_none());
        assert!(SurfaceType::new(0x104).is_none());
    }

    #[test]
    fn the_last_part_is_for_small_ones() {
        let mut heap = Heap::new(32 * 4096, 0).unwrap();
        let most = heap.allocate(31 * 4096, 1, kind(0)).unwrap();
        assert!(heap.is_open_to(SMALL));
        let bit = heap.allocate(100, 1, kind(0)).unwrap();
        assert!(!heap.is_open_to(SMALL));
        assert!(heap.is_open_to(SMALL - 1));
        let last = heap.allocate(heap.free_bytes(), 1, kind(0)).unwrap();
        assert_eq!(heap.free_bytes(), 0);
        for span in [bit, most, last] {
            heap.free(span);
        }
        assert!(heap.is_open_to(SMALL));
    }

    #[test]
    fn a_small_remainder_goes_along() {
        let mut heap = Heap::new(8192, 0).unwrap();
        let span = heap.allocate(8192 - 64, 1, kind(0)).unwrap();
        assert_eq!(span.bytes(), 8192);
        heap.free(span);
    }

    #[test]
    fn what_an_owner_left_is_known() {
        let mut heap = Heap::new(8 * PAGE_SIZE, 0).unwrap();
        let mut span = heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut span, 1));
        heap.free(span);
        heap.keep_owners().unwrap();
        // The initial contents have no owner.
        let mut span = heap.allocate(2 * PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut span, 1));
        heap.free_of(span, 1);
        let mut first = heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        let mut second = heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(heap.is_left_by(&mut first, 1) && heap.is_left_by(&mut second, 1));
        assert!(!heap.is_left_by(&mut first, 2));
        heap.free_of(second, 2);
        // Fails while a span is in use.
        assert_eq!(heap.leave(), Err(first.bytes()));
        // `free`: the span was never used.
        heap.free(first);
        let mut both = heap.allocate(2 * PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut both, 1) && !heap.is_left_by(&mut both, 2));
        heap.free_of(both, 2);
        let mut larger = heap.allocate(3 * PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut larger, 2));
        heap.free_of(larger, 0);
        let mut none = heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut none, 2));
        heap.free_of(none, 2);
        assert_eq!(heap.leave(), Ok(()));
        let mut none = heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        assert!(!heap.is_left_by(&mut none, 2));
        heap.free(none);
    }

    #[test]
    fn what_a_span_knows_of_its_owner_is_not_taken_for_another() {
        let mut heap = Heap::new(8 * PAGE_SIZE, 0).unwrap();
        heap.keep_owners().unwrap();
        let allocate = |heap: &mut Heap| heap.allocate(PAGE_SIZE, PAGE_SIZE, kind(0)).unwrap();
        let span = allocate(&mut heap);
        heap.free_of(span, 1);
        // First the same owner uses it again: it is still its own. Then others may have used it.
        for (last, is_own) in [(1, true), (1, true), (0, true), (1, false), (2, true)] {
            let mut span = allocate(&mut heap);
            assert_eq!(heap.is_left_by(&mut span, 1), is_own);
            heap.free_of(span, last);
        }
        let mut span = allocate(&mut heap);
        assert!(!heap.is_left_by(&mut span, 1) && heap.is_left_by(&mut span, 2));
        heap.free(span);
    }

    /// Random use, compared with a byte map: no overlap, no leak, whole banks at the end.
    #[test]
    fn random_use_keeps_every_byte() {
        const UNIT: usize = 256;
        const UNITS: usize = 512;
        let mut heap = Heap::new(UNIT * UNITS, UNIT * UNITS / 4).unwrap();
        let mut used = [false; UNITS];
        let mut spans: KVec<Span> = KVec::new();
        let mut seed = 12345u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for _ in 0..2000 {
            if spans.is_empty() || random(3) > 0 {
                let units = 1 + random(12);
                let kind = kind(random(12) as u32);
                if let Ok(span) = heap.allocate(units * UNIT, UNIT << random(3), kind) {
                    for unit in &mut used[span.offset() / UNIT..][..span.bytes() / UNIT] {
                        assert!(!*unit);
                        *unit = true;
                    }
                    spans.push(span, GFP_KERNEL).unwrap();
                }
            } else {
                let index = random(spans.len());
                let span = spans.remove(index).unwrap();
                used[span.offset() / UNIT..][..span.bytes() / UNIT].fill(false);
                heap.free(span);
            }
            let taken = used.iter().filter(|&&unit| unit).count();
            assert_eq!(heap.free_bytes(), (UNITS - taken) * UNIT);
        }
        spans.into_iter().for_each(|span| heap.free(span));
        for number in [4, 5, 3, 2] {
            let bank = heap.allocate(UNIT * UNITS / 4, 1, kind(number)).unwrap();
            assert_eq!(bank.bytes(), heap.total_bytes() / 4);
            heap.free(bank);
        }
        assert_eq!(heap.free_bytes(), heap.total_bytes());
    }
}
