// SPDX-License-Identifier: GPL-2.0-only

//! The `struct address_space` that all files of one process share.
//!
//! An open file of the device has this address space instead of its inode's, whichever device node
//! was opened. So one call finds every window on the pool of the process's files, and none of
//! another process's: no process pays for the mappings of another.

use super::prelude::*;
use super::shim;
use kernel::bindings;

/// Most memory areas of windows on the pool for one process's files. Each part of a split window
/// counts.
pub(crate) const MAX_AREAS: i32 = 2048;

/// About the most page table entries that one call of [`Views::zap`] visits, as it does not yield.
const ENTRIES_AT_ONCE: usize = 1 << 14;

/// The address space of one process's files.
///
/// # Invariants
///
/// `inode` is an anonymous inode of our own, with a reference.
pub(crate) struct Views {
    inode: *mut bindings::inode,
    areas: Atomic<i32>,
}

// SAFETY: The inode is only passed to functions that any thread may call.
unsafe impl Send for Views {}
// SAFETY: As above; the rest is atomic.
unsafe impl Sync for Views {}

impl Views {
    /// An address space without areas. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: Making an inode has no preconditions; the call returns it with a reference, or an
        // error.
        let inode = from_err_ptr(unsafe { shim::gal_new_inode() })?;
        // INVARIANT: Made just now, and the reference is ours.
        let views = Self {
            inode,
            areas: Atomic::new(0),
        };
        Ok(Arc::new(views, GFP_KERNEL)?)
    }

    /// Sets it as the address space of a file that is being opened.
    ///
    /// # Safety
    ///
    /// `file` is being opened, and keeps this object until it is released.
    pub(super) unsafe fn adopt(&self, file: *mut bindings::file) {
        // SAFETY: By the caller, and the type invariant.
        unsafe { shim::gal_set_mapping(file, self.inode) }
    }

    /// Counts one more area. `ENOMEM`: there are [`MAX_AREAS`].
    pub(super) fn add_area(&self) -> Result {
        if self.areas.fetch_add(1, Relaxed) >= MAX_AREAS {
            self.areas.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Counts an area that already exists, after a split.
    pub(super) fn note_area(&self) {
        self.areas.fetch_add(1, Relaxed);
    }

    /// Whether there is room for one more area.
    pub(super) fn has_room(&self) -> bool {
        self.areas.load(Relaxed) < MAX_AREAS
    }

    /// Whether there are areas.
    pub(crate) fn are_shown(&self) -> bool {
        self.areas.load(Relaxed) > 0
    }

    /// Uncounts `count` areas.
    pub(super) fn remove_areas(&self, count: i32) {
        self.areas.fetch_sub(count, Relaxed);
    }

    /// Unmaps the first of `bytes` from `offset` of the pool from all windows, as many as do not
    /// take long. Returns their number, at least one page, in whole pages.
    ///
    /// Takes time linear in the pages and in the areas.
    pub(crate) fn zap(&self, offset: usize, bytes: usize) -> usize {
        // CAST: never negative.
        let areas = self.areas.load(Relaxed).max(1) as usize;
        let pages = (ENTRIES_AT_ONCE / areas).max(1);
        let bytes = bytes.min(pages << bindings::PAGE_SHIFT);
        // SAFETY: By the type invariant the inode is live; the range may be any.
        unsafe { shim::gal_zap(self.inode, offset, bytes) };
        bytes
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours, and nothing uses the inode after
        // this drop.
        unsafe { bindings::iput(self.inode) }
    }
}
