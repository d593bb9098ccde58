// SPDX-License-Identifier: GPL-2.0-only

//! The tables of MMU version 2: 1024 first-level entries of 4 MiB. Each has a second-level table
//! for pages of 4 KiB or of 64 KiB.
//!
//! A second-level table is made when the first page in its 4 MiB is mapped, and stays. An access
//! through an unused entry raises an exception, and goes to the safe bytes, which have no other
//! use. Only permanent mappings, such as the pool's, use pages of 64 KiB, where they fill 4 MiB.
//!
//! The tables of a process ([`TwoLevel::beside`]) have their own first level. They share the safe
//! bytes and scratch memory with the device's tables.
//!
//! Source: sources.md, MMU, engines.

use super::{
    Paged,
    FIRST_SCRATCH_PAGE,
    PAGE_BITS,
    PART_PAGES,
    SCRATCH_PARTS, //
};
use crate::sys::dma::{
    self,
    DmaBuffer, //
};
use crate::sys::prelude::*;
use core::ops::Range;
use kernel::{
    dma::DmaAddress,
    page::page_align,
    sync::SetOnce, //
};

const FIRST_ENTRIES: usize = 1024;

/// Pages of 4 KiB that a first-level entry covers.
const SMALL_PER_FIRST: usize = 1024;

/// Pages of 64 KiB that a first-level entry covers.
const LARGE_PER_FIRST: usize = 64;

/// Pages of 4 KiB in one of 64 KiB.
const SMALL_PER_LARGE: usize = SMALL_PER_FIRST / LARGE_PER_FIRST;

/// Bytes of a second-level table for large pages.
const LARGE_TABLE_BYTES: usize = LARGE_PER_FIRST * 4;

/// The most ranges with large pages.
const LARGE_RANGES: usize = 16;

/// An entry of either level that is valid.
const PRESENT: u32 = 1 << 0;

/// An entry of either level that is not valid: an access raises an exception.
const EXCEPTION: u32 = 1 << 1;

/// Second-level entry: the page is writable.
const WRITEABLE: u32 = 1 << 2;

/// Where a second-level entry has bits 39:32 of a page's address. Source: etnaviv.
const HIGH_SHIFT: u32 = 4;

/// First-level entry: the second level has pages of 64 KiB.
const LARGE_PAGES: u32 = 1 << 2;

/// Number of entries in use of the page table array. Each has 8 bytes.
pub(super) const ARRAY_ENTRIES: usize = PAGE_SIZE / 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

impl Access {
    pub(super) fn of(pages: &Paged) -> Self {
        if pages.pages().is_writeable() {
            Self::ReadWrite
        } else {
            Self::ReadOnly
        }
    }
}

/// Second-level entry of the page at physical address `address`, which has 40 bits.
const fn page_entry(address: u64, access: Access) -> u32 {
    let writeable = match access {
        Access::ReadOnly => 0,
        Access::ReadWrite => WRITEABLE,
    };
    // CAST: the halves of the address. The upper one has 8 bits.
    let high = ((address >> 32) as u32 & 0xFF) << HIGH_SHIFT;
    (address as u32 & !0xFFF) | high | writeable | PRESENT
}

/// First-level entry of the second-level table at physical address `address`.
const fn table_entry(address: u32, large: bool) -> u32 {
    let size = if large { LARGE_PAGES } else { 0 };
    (address & !0x3F) | size | PRESENT
}

/// Index of a page's first-level entry, and of its entry in the second level.
const fn place(page: usize) -> (usize, usize) {
    (page / SMALL_PER_FIRST, page % SMALL_PER_FIRST)
}

/// The first-level entries of the `count` pages from `first` on.
fn touched(first: usize, count: usize) -> Range<usize> {
    let end = (first + count).div_ceil(SMALL_PER_FIRST);
    first / SMALL_PER_FIRST..end.min(FIRST_ENTRIES)
}

/// A range of pages, split by the sizes of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Split {
    /// Small pages before the first whole 4 MiB.
    head: Range<usize>,
    /// First-level entries that the range fills.
    whole: Range<usize>,
    /// Small pages after the last whole 4 MiB.
    tail: Range<usize>,
}

fn split(first: usize, count: usize) -> Split {
    let end = first + count;
    let from = first.div_ceil(SMALL_PER_FIRST);
    let to = end / SMALL_PER_FIRST;
    if from >= to {
        return Split {
            head: first..end,
            whole: from..from,
            tail: end..end,
        };
    }
    Split {
        head: first..from * SMALL_PER_FIRST,
        whole: from..to,
        tail: to * SMALL_PER_FIRST..end,
    }
}

/// The second level of a first-level entry.
struct Second {
    small: SetOnce<DmaBuffer>,
    /// The second level has large pages instead, which are all mapped permanently.
    is_large: Atomic<bool>,
}

/// Linear pages that several mappings, or the tables of all processes, can map.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) pages: Range<usize>,
    pub(super) access: Access,
    /// Large pages map them, and are never unmapped.
    pub(super) is_permanent: bool,
}

/// New second-level tables that are not yet in use, with their first-level entries.
pub(super) struct Made(KVec<(usize, DmaBuffer)>);

/// `count` empty slots.
fn unset<T>(count: usize) -> Result<KVec<SetOnce<T>>> {
    let mut slots = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        slots.push(SetOnce::new(), GFP_KERNEL)?;
    }
    Ok(slots)
}

pub(super) struct TwoLevel {
    dev: dma::Device,
    /// Physical address of linear address 0.
    base: u64,
    /// The first level. In the device's tables, the safe bytes and the page table array are in the
    /// pages after it. The first entry of the array is the device's.
    first: DmaBuffer,
    address: u32,
    /// The second level, by first-level entry.
    second: KVVec<Second>,
    /// The second-level tables for large pages: one buffer for each range.
    large: KVec<SetOnce<DmaBuffer>>,
    /// For each part of scratch memory, its second-level table and its page.
    scratch: Arc<KVec<(DmaBuffer, DmaBuffer)>>,
    /// The tables are a process's, and memory for them is charged to it.
    is_process: bool,
}

/// `bytes` of contiguous memory for tables.
fn table_memory(dev: &dma::Device, bytes: usize, is_process: bool) -> Result<DmaBuffer> {
    if is_process {
        DmaBuffer::charged(dev, bytes)
    } else {
        DmaBuffer::new(dev, bytes)
    }
}

impl TwoLevel {
    /// Tables that map only scratch memory. Linear addresses count from `base`, a multiple of 64
    /// KiB. `ENOMEM`: no memory below 4 GiB.
    pub(super) fn new(dev: &dma::Device, base: u32) -> Result<Self> {
        let mut scratch = KVec::with_capacity(SCRATCH_PARTS, GFP_KERNEL)?;
        for _ in 0..SCRATCH_PARTS {
            let page = DmaBuffer::new(dev, PAGE_SIZE)?;
            let table = DmaBuffer::new(dev, PAGE_SIZE)?;
            table.fill(page_entry(page.dma_address(), Access::ReadWrite));
            scratch.push((table, page), GFP_KERNEL)?;
        }
        let scratch = Arc::new(scratch, GFP_KERNEL)?;
        let this = Self::with(dev, base.into(), 3 * PAGE_SIZE, scratch, false)?;
        this.list(0, &this)?;
        Ok(this)
    }

    /// Tables of a process. They map only the same scratch memory. `ENOMEM`.
    pub(super) fn beside(&self) -> Result<Self> {
        Self::with(&self.dev, self.base, PAGE_SIZE, self.scratch.clone(), true)
    }

    fn with(
        dev: &dma::Device,
        base: u64,
        bytes: usize,
        scratch: Arc<KVec<(DmaBuffer, DmaBuffer)>>,
        is_process: bool,
    ) -> Result<Self> {
        let first = table_memory(dev, bytes, is_process)?;
        for entry in 0..FIRST_ENTRIES {
            first.write(entry * 4, EXCEPTION)?;
        }
        let flags = crate::sys::GFP_CLIENT;
        let mut second = KVVec::with_capacity(FIRST_ENTRIES, flags)?;
        for _ in 0..FIRST_ENTRIES {
            let empty = Second {
                small: SetOnce::new(),
                is_large: Atomic::new(false),
            };
            second.push(empty, flags)?;
        }
        // All of it must lie below 4 GiB.
        let end = first.dma_address() + first.size() as u64;
        if end > 1 << 32 {
            return Err(ENOMEM);
        }
        let this = Self {
            dev: dev.clone(),
            base,
            address: u32::try_from(first.dma_address())?,
            first,
            second,
            large: unset(LARGE_RANGES)?,
            scratch,
            is_process,
        };
        for (part, (table, _)) in this.scratch.iter().enumerate() {
            let address = u32::try_from(table.dma_address())?;
            for entry in touched(FIRST_SCRATCH_PAGE + part * PART_PAGES, PART_PAGES) {
                this.publish(entry, address, false)?;
            }
        }
        Ok(this)
    }

    /// Sets entry `entry` of the device's page table array to `tables`. `EINVAL`: no such entry.
    pub(super) fn list(&self, entry: usize, tables: &Self) -> Result {
        // An entry has 64 bits. If bit 0 were set, the first level would have 1 KiB.
        self.first.write(2 * PAGE_SIZE + 8 * entry, tables.address)
    }

    pub(super) fn address(&self) -> u32 {
        self.address
    }

    pub(super) fn safe_address(&self) -> u32 {
        // CAST: a page.
        self.address + PAGE_SIZE as u32
    }

    pub(super) fn array_address(&self) -> u32 {
        // CAST: a page.
        self.address + 2 * PAGE_SIZE as u32
    }

    /// Bytes of the first buffer. Second-level tables are in other pages.
    pub(super) fn bytes(&self) -> usize {
        self.first.size()
    }

    /// Copies to `to`, as far as it fits, the first level, and then the second-level table of each
    /// valid entry, a page each, in order.
    pub(super) fn copy(&self, to: &mut [u8]) -> Result {
        let room = to.len().min(PAGE_SIZE);
        let (first, rest) = to.split_at_mut(room);
        self.first.copy(0, first)?;
        let entries = first.chunks_exact(4).enumerate();
        // Use the copy: the table may have more valid entries by now.
        let present = entries.filter(|(_, entry)| u32::from(entry[0]) & PRESENT != 0);
        for ((entry, _), page) in present.zip(rest.chunks_exact_mut(PAGE_SIZE)) {
            self.copy_second(entry, page)?;
        }
        Ok(())
    }

    /// Copies the second level of a first-level entry.
    fn copy_second(&self, entry: usize, page: &mut [u8]) -> Result {
        let second = self.second.get(entry).ok_or(EINVAL)?;
        if second.is_large.load(Relaxed) {
            for (large, bytes) in page.chunks_exact_mut(4).take(LARGE_PER_FIRST).enumerate() {
                // All large pages are linear.
                let number = entry * SMALL_PER_FIRST + large * SMALL_PER_LARGE;
                let word = page_entry(self.linear(number), Access::ReadWrite);
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            return Ok(());
        }
        let part = (entry * SMALL_PER_FIRST).checked_sub(FIRST_SCRATCH_PAGE);
        let scratch = part.and_then(|pages| self.scratch.get(pages / PART_PAGES));
        match (second.small.as_ref(), scratch) {
            (Some(table), _) | (None, Some((table, _))) => table.copy(0, page),
            (None, None) => Ok(()),
        }
    }

    /// Bytes that [`TwoLevel::copy`] copies.
    pub(super) fn table_bytes(&self) -> usize {
        let present = (0..FIRST_ENTRIES).filter(|entry| {
            let word = self.first.read(entry * 4);
            word.is_ok_and(|word| word & PRESENT != 0)
        });
        PAGE_SIZE * (1 + present.count())
    }

    /// A table of `bytes` without valid entries, and its physical address.
    fn table(&self, bytes: usize) -> Result<(DmaBuffer, u32)> {
        let table = table_memory(&self.dev, bytes, self.is_process)?;
        table.fill(EXCEPTION);
        let address = u32::try_from(table.dma_address())?;
        Ok((table, address))
    }

    /// Makes the second level for the `count` pages from `first` on. Callers must not run
    /// concurrently. `ENOMEM`: the tables made so far stay.
    pub(super) fn prepare(&self, first: usize, count: usize) -> Result {
        self.adopt(self.make(first, count, false)?)
    }

    /// Makes the second-level tables that the `count` pages from `first` on lack, for
    /// [`TwoLevel::adopt`]. If `is_charged`, they are charged to the calling process. `ENOMEM`.
    pub(super) fn make(&self, first: usize, count: usize, is_charged: bool) -> Result<Made> {
        let mut made = KVec::new();
        for entry in touched(first, count) {
            if !self.has_small(entry) && !self.has_large(entry) {
                let table = table_memory(&self.dev, PAGE_SIZE, is_charged)?;
                table.fill(EXCEPTION);
                // The caller may hold a lock that all processes take.
                made.push((entry, table), crate::sys::GFP_UNCHARGED)?;
            }
        }
        Ok(Made(made))
    }

    /// Uses the tables that are still missing. Callers must not run concurrently.
    pub(super) fn adopt(&self, made: Made) -> Result {
        for (entry, table) in made.0 {
            let second = self.second.get(entry).ok_or(EINVAL)?;
            if !self.has_small(entry) && !self.has_large(entry) {
                let address = u32::try_from(table.dma_address())?;
                second.small.populate(table);
                self.publish(entry, address, false)?;
            }
        }
        Ok(())
    }

    /// Makes a first-level entry point to the complete table at physical address `address`.
    fn publish(&self, entry: usize, address: u32, large: bool) -> Result {
        // Write the table first: the GPU may read the entry at any moment.
        crate::sys::barrier::write();
        self.first.write(entry * 4, table_entry(address, large))
    }

    fn has_small(&self, entry: usize) -> bool {
        self.second
            .get(entry)
            .is_some_and(|second| second.small.as_ref().is_some())
    }

    fn has_large(&self, entry: usize) -> bool {
        let second = self.second.get(entry);
        second.is_some_and(|second| second.is_large.load(Relaxed))
    }

    /// Maps the `count` pages from `first` on to their linear addresses, permanently, and writable.
    /// Callers must not run concurrently. `ENOMEM`: the pages mapped so far stay.
    pub(super) fn map_linear(&self, first: usize, count: usize) -> Result {
        let Split { head, whole, tail } = split(first, count);
        self.map_small(head)?;
        self.map_small(tail)?;
        let room = self.large.iter().find(|slot| slot.as_ref().is_none());
        let is_there = whole.clone().all(|entry| self.has_large(entry));
        let is_fresh = !whole.clone().any(|entry| self.has_small(entry));
        match room {
            _ if is_there => Ok(()),
            Some(room) if is_fresh => self.map_large(room, whole),
            _ => self.map_small(whole.start * SMALL_PER_FIRST..whole.end * SMALL_PER_FIRST),
        }
    }

    fn map_small(&self, pages: Range<usize>) -> Result {
        self.prepare(pages.start, pages.len())?;
        for page in pages {
            self.set_linear(page, Access::ReadWrite);
        }
        Ok(())
    }

    fn map_large(&self, room: &SetOnce<DmaBuffer>, whole: Range<usize>) -> Result {
        let bytes = page_align(whole.len() * LARGE_TABLE_BYTES).ok_or(EINVAL)?;
        let (tables, address) = self.table(bytes)?;
        for (i, large) in (whole.start * LARGE_PER_FIRST..whole.end * LARGE_PER_FIRST).enumerate() {
            let entry = page_entry(self.linear(large * SMALL_PER_LARGE), Access::ReadWrite);
            tables.write(i * 4, entry)?;
        }
        room.populate(tables);
        for (i, entry) in whole.enumerate() {
            // CAST: at most 1024 tables.
            self.publish(entry, address + (i * LARGE_TABLE_BYTES) as u32, true)?;
            if let Some(second) = self.second.get(entry) {
                second.is_large.store(true, Relaxed);
            }
        }
        Ok(())
    }

    fn write(&self, page: usize, word: u32) {
        let (first, second) = place(page);
        let table = self.second.get(first).and_then(|it| it.small.as_ref());
        if let Some(table) = table {
            // `second` is below 1024.
            let _ = table.write(second * 4, word);
        }
    }

    /// Physical address of a linear page.
    fn linear(&self, page: usize) -> u64 {
        self.base + (usize_as_u64(page) << PAGE_BITS)
    }

    /// As [`TwoLevel::set`], with the linear address of `page`.
    fn set_linear(&self, page: usize, access: Access) {
        self.set(page, self.linear(page), access);
    }

    /// Maps `page` to physical address `address`, after [`TwoLevel::prepare`]. Ignores large pages,
    /// which are permanent.
    fn set(&self, page: usize, address: u64, access: Access) {
        self.write(page, page_entry(address, access));
    }

    /// As [`TwoLevel::set`], for consecutive pages from `first` on.
    pub(super) fn set_each(&self, first: usize, addresses: &[DmaAddress], access: Access) {
        for (page, &address) in (first..).zip(addresses) {
            self.set(page, crate::sys::widen(address), access);
        }
    }

    fn clear(&self, page: usize) {
        self.write(page, EXCEPTION);
    }

    /// Unmaps `count` pages from `first`.
    pub(super) fn clear_each(&self, first: usize, count: usize) {
        for page in first..first + count {
            self.clear(page);
        }
    }

    /// Maps the `count` pages from `first` on to their linear addresses. Not concurrent. `ENOMEM`.
    pub(super) fn begin_linear(&self, first: usize, count: usize, access: Access) -> Result {
        self.prepare(first, count)?;
        for page in first..first + count {
            self.set_linear(page, access);
        }
        Ok(())
    }

    /// Maps what all tables map. Callers must not run concurrently. `ENOMEM`.
    pub(super) fn begin_held(&self, held: &Held) -> Result {
        let (first, count) = (held.pages.start, held.pages.len());
        if held.is_permanent {
            self.map_linear(first, count)
        } else {
            self.begin_linear(first, count, held.access)
        }
    }

    /// Unmaps linear `pages`, except for those that other mappings hold (`held`).
    pub(super) fn end_linear(&self, pages: Range<usize>, held: &[Held]) {
        let mut first = pages.start;
        while first < pages.end {
            let holding = held.iter().filter(|held| held.pages.contains(&first));
            let longest = holding.max_by_key(|held| held.pages.end);
            // The result is valid for all pages up to `end`.
            let end = longest.map_or_else(
                || {
                    let starts = held.iter().map(|held| held.pages.start);
                    starts
                        .filter(|&start| start > first)
                        .min()
                        .unwrap_or(pages.end)
                },
                |held| held.pages.end,
            );
            let end = end.min(pages.end);
            for page in first..end {
                match longest {
                    Some(held) => self.set_linear(page, held.access),
                    None => self.clear(page),
                }
            }
            first = end;
        }
    }
}

const _: () = assert!(
    PART_PAGES % SMALL_PER_FIRST == 0 && FIRST_SCRATCH_PAGE % SMALL_PER_FIRST == 0,
    "a part of scratch memory has second-level tables of its own"
);

#[kernel::macros::kunit_tests(galcore_two_level)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_those_of_the_hardware() {
        assert_eq!(page_entry(0x4567_8FFF, Access::ReadOnly), 0x4567_8001);
        assert_eq!(page_entry(0xFFFF_F000, Access::ReadWrite), 0xFFFF_F005);
        assert_eq!(page_entry(0x81_4567_8000, Access::ReadOnly), 0x4567_8811);
        assert_eq!(table_entry(0x4567_8000, false), 0x4567_8001);
        assert_eq!(table_entry(0x4567_8100, true), 0x4567_8105);
    }

    #[test]
    fn a_page_has_one_place() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(0x80000), (512, 0));
        assert_eq!(place(0xFFFFF), (1023, 1023));
        assert_eq!(touched(0x80000, 1), 512..513);
        assert_eq!(touched(0x803FF, 2), 512..514);
        assert_eq!(touched(0x80400, 1024), 513..514);
        assert_eq!(touched(0xFFFFF, 1), 1023..1024);
        assert!(touched(0x80400, 0).is_empty());
    }

    #[test]
    fn what_fills_4_mib_has_large_pages() {
        assert_eq!(
            split(0x58000, 0x8000),
            Split {
                head: 0x58000..0x58000,
                whole: 0x160..0x180,
                tail: 0x60000..0x60000
            }
        );
        assert_eq!(
            split(0x583FF, 0x402),
            Split {
                head: 0x583FF..0x58400,
                whole: 0x161..0x162,
                tail: 0x58800..0x58801
            }
        );
        // The two halves fill no 4 MiB.
        assert_eq!(split(0x58200, 0x400).head, 0x58200..0x58600);
    }

    #[test]
    fn a_split_covers_its_range_once() {
        let mut random = 1u32;
        for _ in 0..1000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let first = (random >> 14) as usize;
            let count = ((random >> 3) & 0x1FFF) as usize;
            let Split { head, whole, tail } = split(first, count);
            let inside = whole.len() * SMALL_PER_FIRST;
            assert_eq!(head.len() + inside + tail.len(), count);
            assert_eq!(head.start, first);
            assert_eq!(tail.end, first + count);
            if !whole.is_empty() {
                assert_eq!(head.end, whole.start * SMALL_PER_FIRST);
                assert_eq!(tail.start, whole.end * SMALL_PER_FIRST);
            }
            assert!(tail.len() < SMALL_PER_FIRST);
        }
    }
}
