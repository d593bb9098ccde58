// SPDX-License-Identifier: GPL-2.0-only

//! The `struct address_space` that all open files of one process share.
//!
//! An open file of any of the device nodes has this address space instead of that of its inode. So
//! one call finds all windows on the pool of this process's files, and none of another process. No
//! process pays for the mappings of another.

use super::prelude::*;
use super::shim;
use kernel::bindings;

/// The most memory areas of windows on the pool for one process's files. Each part of a split
/// window counts.
pub(crate) const MAX_AREAS: i32 = 2048;

/// About how many page table entries one call of [`Views::zap`] visits. Calls do not yield.
const ENTRIES_AT_ONCE: usize = 1 << 14;

/// The address space of one process's files.
///
/// # Invariants
///
/// `inode` is an anonymous inode, and this owns a reference.
pub(crate) struct Views {
    inode: *mut bindings::inode,
    areas: Atomic<i32>,
}

// SAFETY: `inode` is only passed to functions that any thread may call.
unsafe impl Send for Views {}
// SAFETY: As above. The other field is atomic.
unsafe impl Sync for Views {}

impl Views {
    /// An address space without areas. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: The call has no preconditions. It returns an inode with a reference, or an error.
        let inode = from_err_ptr(unsafe { shim::gal_new_inode() })?;
        // INVARIANT: Created just now. This owns the reference.
        let views = Self {
            inode,
            areas: Atomic::new(0),
        };
        Ok(Arc::new(views, GFP_KERNEL)?)
    }

    /// Sets this as the address space of a file that is being opened.
    ///
    /// # Safety
    ///
    /// `file` is being opened, and keeps this object until its release.
    pub(super) unsafe fn adopt(&self, file: *mut bindings::file) {
        // SAFETY: By the caller and the type invariant.
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

    /// Subtracts `count` areas.
    pub(super) fn remove_areas(&self, count: i32) {
        self.areas.fetch_sub(count, Relaxed);
    }

    /// Unmaps a part of the pool from all windows: the first of `bytes` bytes from `offset`, as
    /// many as do not take long. Returns their number, a multiple of the page size and at least one
    /// page.
    ///
    /// The time is linear in the number of pages and in the number of areas.
    pub(crate) fn zap(&self, offset: usize, bytes: usize) -> usize {
        // CAST: never negative.
        let areas = self.areas.load(Relaxed).max(1) as usize;
        let pages = (ENTRIES_AT_ONCE / areas).max(1);
        let bytes = bytes.min(pages << bindings::PAGE_SHIFT);
        // SAFETY: By the type invariant the inode is live. Any range is allowed.
        unsafe { shim::gal_zap(self.inode, offset, bytes) };
        bytes
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses the inode after this
        // drop.
        unsafe { bindings::iput(self.inode) }
    }
}
