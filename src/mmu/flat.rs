// SPDX-License-Identifier: GPL-2.0-only

//! The page table of MMU version 1. It is flat: a word for each 4 KiB page above bit 31.
//!
//! The GPU reads entry n at byte 4 n of the table, for any n that a stray address yields. No entry
//! can be invalid. So the table always has all 2^19 entries (2 MiB), even on the first cores, whose
//! drivers had a table of 128 KiB. Unused entries lead to a scratch page, which stray accesses hit.
//!
//! Source: sources.md, MMU.

use super::{
    FIRST_PAGE,
    FIRST_SCRATCH_PAGE,
    PAGES,
    PART_PAGES,
    SCRATCH_PARTS, //
};
use crate::addr::Range;
use crate::sys::dma::{
    self,
    DmaBuffer, //
};
use crate::sys::prelude::*;

/// Bytes of scratch memory for states that hold physical addresses: engines walk upwards from
/// these. Unused entries lead to its first page.
const SCRATCH_BYTES: usize = 64 << 10;

pub(super) struct Flat {
    table: DmaBuffer,
    address: u32,
    scratch: DmaBuffer,
    /// A page for each part of scratch memory.
    parts: DmaBuffer,
    /// The value of unused entries.
    scratch_entry: u32,
}

impl Flat {
    /// A table that maps every page to scratch memory. `ENOMEM`: no memory below 4 GiB.
    pub(super) fn new(dev: &dma::Device) -> Result<Self> {
        let scratch = DmaBuffer::new(dev, SCRATCH_BYTES)?;
        let scratch_entry = u32::try_from(scratch.dma_address())?;
        let table = DmaBuffer::new(dev, PAGES * 4)?;
        table.fill(scratch_entry);
        let parts = DmaBuffer::new(dev, SCRATCH_PARTS * PAGE_SIZE)?;
        let first_part = u32::try_from(parts.dma_address())?;
        let this = Self {
            address: u32::try_from(table.dma_address())?,
            table,
            scratch,
            parts,
            scratch_entry,
        };
        for part in 0..SCRATCH_PARTS {
            // CAST: a few pages, below 4 GiB.
            let page = first_part + (part * PAGE_SIZE) as u32;
            let first = FIRST_SCRATCH_PAGE + part * PART_PAGES;
            this.set(first, core::iter::repeat_n(page, PART_PAGES));
        }
        Ok(this)
    }

    /// Physical address of the table.
    pub(super) fn address(&self) -> u32 {
        self.address
    }

    pub(super) fn scratch(&self) -> Option<Range> {
        Range::new(self.scratch_entry, SCRATCH_BYTES)
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// Bytes of the table and its scratch memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.size() + self.scratch.size() + self.parts.size()
    }

    /// Copies entries to `to`, as many as fit.
    pub(super) fn copy(&self, to: &mut [u8]) -> Result {
        let bytes = to.len().min(self.table.size());
        self.table.copy(0, &mut to[..bytes])
    }

    /// Maps the pages from `first` on to the physical `addresses`. Pages below bit 31 have no
    /// entries, and are skipped.
    pub(super) fn set(&self, first: usize, addresses: impl Iterator<Item = u32>) {
        let (offset, below) = entry_of(first);
        // This cannot fail: every page above bit 31 has an entry.
        let _ = match below {
            0 => self.table.write_each(offset, addresses),
            below => self.table.write_each(offset, addresses.skip(below)),
        };
    }

    /// As [`Flat::set`], for wider addresses. If another core of the device can reach a page and a
    /// core with this MMU cannot, this core gets scratch memory instead.
    pub(super) fn set_wide(&self, first: usize, addresses: impl Iterator<Item = u64>) {
        let narrow = |it| u32::try_from(it).unwrap_or(self.scratch_entry);
        self.set(first, addresses.map(narrow));
    }

    /// Maps the `count` pages from `first` on to the scratch page.
    pub(super) fn clear(&self, first: usize, count: usize) {
        self.set(first, (0..count).map(|_| self.scratch_entry));
    }
}

/// Byte offset of the entry of page `first`, or of the first later page that has an entry, and the
/// number of pages without an entry.
fn entry_of(first: usize) -> (usize, usize) {
    let below = FIRST_PAGE.saturating_sub(first);
    (first.saturating_sub(FIRST_PAGE) * 4, below)
}

#[kernel::macros::kunit_tests(galcore_flat)]
mod tests {
    use super::*;

    #[test]
    fn pages_above_bit_31_have_entries() {
        assert_eq!(FIRST_PAGE, 0x8000_0000 >> 12);
        assert_eq!(entry_of(FIRST_PAGE), (0, 0));
        assert_eq!(entry_of(FIRST_PAGE + 1), (4, 0));
        assert_eq!(entry_of(FIRST_PAGE + PAGES - 1), (PAGES * 4 - 4, 0));
    }

    #[test]
    fn pages_below_have_none_and_shift_no_other() {
        assert_eq!(entry_of(FIRST_PAGE - 1), (0, 1));
        assert_eq!(entry_of(FIRST_PAGE - 16), (0, 16));
        assert_eq!(entry_of(0), (0, FIRST_PAGE));
    }
}
