// SPDX-License-Identifier: GPL-2.0-only

//! The GPU's address space.
//!
//! MMU version 1: GPU addresses with bit 31 clear are physical, counted from `baseAddress`; the
//! others go through one flat table of 4 KiB pages. Owns that table. Nothing is mapped yet, so every
//! entry points at one scratch page: a stray access of the GPU lands there and nowhere else.
//! Source: spec/memory-events.md section 5.

use crate::sys::dma::DmaBuffer;
use kernel::{
    device,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Bytes of the table for all 2 GiB above bit 31: one word a page.
const TABLE_BYTES: usize = 2 << 20;

/// The flat table of MMU version 1.
pub(crate) struct PageTable {
    table: DmaBuffer,
    scratch: DmaBuffer,
    address: u32,
}

impl PageTable {
    /// Makes a table in which every page is the scratch page. `ENOMEM`: no memory below 4 GiB.
    pub(crate) fn new(dev: &device::Device) -> Result<Self> {
        let scratch = DmaBuffer::new(dev, PAGE_SIZE)?;
        let table = DmaBuffer::new(dev, TABLE_BYTES)?;
        table.fill(u32::try_from(scratch.dma_address())?);
        Ok(Self {
            address: u32::try_from(table.dma_address())?,
            table,
            scratch,
        })
    }

    /// Physical address of the table, for the page-table registers.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Entries in all, and entries in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (TABLE_BYTES / 4, 0)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.size() + self.scratch.size()
    }
}
