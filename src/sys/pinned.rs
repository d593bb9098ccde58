// SPDX-License-Identifier: GPL-2.0-only

//! Maps the pinned pages of processes for the device.

use super::{
    dma,
    locked::Accounts,
    mapped::{
        Mapped,
        Reservation,
        Reservations, //
    },
    prelude::*,
    raw_device,
    shim, //
};
use core::ops::Range;
use kernel::{
    bindings,
    dma::DmaAddress,
    new_mutex, //
};

/// Pinned user pages that are mapped for a device. Each is mapped once, however often it is pinned,
/// so that all users share its DMA syncs. For the same reason a page is never both pinned and
/// imported.
#[pin_data]
pub(crate) struct PinnedPages {
    pub(super) dev: dma::Device,
    #[pin]
    registry: Mutex<Mapped>,
    pub(super) accounts: Arc<Accounts>,
}

/// The physical address of a page.
///
/// # Safety
///
/// `page` points to a page.
unsafe fn physical(page: *mut bindings::page) -> u64 {
    // SAFETY: The call only computes with the pointer, which by the contract points to a page.
    super::widen(unsafe { shim::gal_page_address(page) })
}

impl PinnedPages {
    /// A registry without pinned pages.
    pub(crate) fn new(dev: &dma::Device) -> Result<Arc<Self>> {
        let accounts = Accounts::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                accounts,
                registry <- new_mutex!(Mapped::new(), "galcore pinned pages"),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps a page. `ENOMEM`. `EBUSY`: it is mapped as a part of a dma-buf. `ERANGE`: the device
    /// cannot reach it. A bounce buffer (swiotlb) cannot replace it, because no request of a client
    /// tells whether the CPU or the device writes next.
    ///
    /// # Safety
    ///
    /// The page is pinned, and stays so until [`PinnedPages::unmap`].
    pub(super) unsafe fn map(&self, page: *mut bindings::page) -> Result<DmaAddress> {
        // SAFETY: By the caller's contract the page is pinned, so it is a valid page.
        let address = unsafe { physical(page) };
        // CAST: at most 64 bits.
        if !self.dev.reaches(&(address..address + PAGE_SIZE as u64)) {
            return Err(ERANGE);
        }
        let reservation = Reservation::new()?;
        self.registry.lock().pin(reservation, address, || {
            let mut dma = 0;
            // SAFETY: By the caller the page is pinned.
            if unsafe { shim::gal_map_page(raw_device(&self.dev), page, &mut dma) } {
                Ok(dma)
            } else {
                Err(ENOMEM)
            }
        })
    }

    /// Ends one use of a page.
    ///
    /// # Safety
    ///
    /// The use is from [`PinnedPages::map`], and the device has finished with it.
    pub(super) unsafe fn unmap(&self, page: *mut bindings::page) {
        let mut registry = self.registry.lock();
        // SAFETY: By the caller's contract the page is still pinned, so it is a valid page.
        let address = unsafe { physical(page) };
        if let Some(dma) = registry.unpin(address) {
            // SAFETY: By the registry this was the last use, and by the caller's contract the
            // device has finished with it. The lock excludes a new mapping of the page meanwhile.
            unsafe { shim::gal_unmap_page(raw_device(&self.dev), dma) };
        }
    }

    /// Notes that the physical `ranges` will be mapped for a dma-buf. `EBUSY`: some are mapped.
    pub(super) fn import(&self, ranges: &[Range<u64>]) -> Result {
        let reservations = Reservations::new(ranges.len())?;
        self.registry.lock().import(reservations, ranges)
    }

    /// Undoes [`PinnedPages::import`] after the ranges were unmapped.
    pub(super) fn forget(&self, ranges: &[Range<u64>]) {
        self.registry.lock().forget(ranges);
    }
}
