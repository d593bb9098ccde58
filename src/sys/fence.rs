// SPDX-License-Identifier: GPL-2.0-only

//! Fences for other drivers and processes: `dma_fence` in a sync file.
//!
//! Without `CONFIG_SYNC_FILE` every call here returns `ENOTSUPP`. The C half is `shim_fence.c`.

use super::{
    file::{
        NewFile,
        Reserved, //
    },
    prelude::*,
    shim,
    unload::InUse,
    work, //
};
use kernel::bindings;

/// A fence that is not signaled yet. So that nothing waits forever, it is signaled with an error
/// when this is dropped, or after 10 seconds.
///
/// # Invariants
///
/// The pointer references a live fence of `gal_new_fence`, and this owns a reference.
pub(crate) struct Fence {
    fence: NonNull<shim::gal_fence>,
    /// Keeps the code of the work item that ends it loaded.
    _in_use: InUse,
}

// SAFETY: Any thread may call the functions of fences.
unsafe impl Send for Fence {}
// SAFETY: `&self` only allows calls of those functions, which may run concurrently.
unsafe impl Sync for Fence {}

impl Fence {
    /// A fence that fails with `ETIMEDOUT` after 10 seconds. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Self::make(None)
    }

    /// As [`Self::new`], for a job of the core with index `core`. Jobs of one core end in order.
    pub(crate) fn of_core(core: usize) -> Result<Self> {
        Self::make(Some(core))
    }

    fn make(core: Option<usize>) -> Result<Self> {
        let in_use = InUse::new()?;
        let queue = work::raw_queue(&in_use);
        // SAFETY: The queue lives as long as there is an [`InUse`], and the work item of fences ends
        // before it.
        let fence = from_err_ptr(unsafe { shim::gal_new_fence(queue, number_of(core)) })?;
        // INVARIANT: Created just now.
        let fence = NonNull::new(fence).ok_or(ENOMEM)?;
        Ok(Self {
            fence,
            _in_use: in_use,
        })
    }

    /// Creates a sync file for it. `EMFILE`: the process has no descriptor left. `ENOMEM`.
    pub(crate) fn file(&self) -> Result<NewFile> {
        let reserved = Reserved::new()?;
        // SAFETY: By the type invariant the fence is live; the result is checked.
        let file = from_err_ptr(unsafe { shim::gal_fence_file(self.fence.as_ptr()) })?;
        // SAFETY: A new file, and this call owns its only reference.
        unsafe { reserved.fill(file) }
    }

    /// A reference that others can wait for.
    pub(crate) fn share(&self) -> Option<SharedFence> {
        // SAFETY: By the type invariant the fence is live.
        let fence = unsafe { shim::gal_share_fence(self.fence.as_ptr()) };
        // INVARIANT: The call returned it with a reference.
        NonNull::new(fence).map(SharedFence)
    }

    /// Whether it has timed out.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: By the type invariant the fence is live.
        unsafe { shim::gal_fence_is_over(self.fence.as_ptr()) }
    }

    /// Signals the fence.
    pub(crate) fn signal(self) {
        // SAFETY: By the type invariant the fence is live. This consumes `self`, so it is only
        // signaled once.
        unsafe { shim::gal_signal_fence(self.fence.as_ptr()) };
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The reference passes to the call.
        unsafe { shim::gal_end_fence(self.fence.as_ptr(), -(bindings::ECANCELED as c_int)) };
    }
}

/// The number of the core with an index, for C. 0: none.
pub(super) fn number_of(core: Option<usize>) -> u32 {
    core.and_then(|core| u32::try_from(core).ok())
        .map_or(0, |core| core.saturating_add(1))
}

/// A fence that others may wait for.
///
/// # Invariants
///
/// The pointer references a live fence, and this owns a reference.
pub(crate) struct SharedFence(pub(super) NonNull<shim::dma_fence>);

impl Drop for SharedFence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses it after this drop.
        unsafe { shim::gal_put_fence(self.0.as_ptr()) };
    }
}

/// Waits for the sync file with descriptor `fd` of the calling process. Times out after
/// `milliseconds`, rounded up; all ones: never.
///
/// `EINVAL`: there is no such file. `ETIMEDOUT`: it was not signaled in time. `ERESTARTSYS`: a Unix
/// signal interrupted the wait. If it `outlasts` signals, only a fatal one does.
pub(crate) fn wait(fd: i32, milliseconds: u32, outlasts: bool) -> Result {
    // SAFETY: The call looks up the descriptor in the caller's table and refuses numbers that are
    // not in use.
    kernel::error::to_result(unsafe { shim::gal_wait_fence(fd, milliseconds, outlasts) })
}
