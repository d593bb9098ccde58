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

/// A fence that is not signaled yet. It is signaled with an error when this is dropped, or after
/// 10 s, so that others do not wait without a bound.
///
/// # Invariants
///
/// The pointer references a live fence of `gal_new_fence`, of which we own a reference.
pub(crate) struct Fence {
    fence: NonNull<shim::gal_fence>,
    /// Keeps the work item that ends it loaded.
    _in_use: InUse,
}

// SAFETY: Any thread may call the functions of fences.
unsafe impl Send for Fence {}
// SAFETY: `&self` only reaches those functions, and they may run on several threads at once.
unsafe impl Sync for Fence {}

impl Fence {
    /// A fence that fails with `ETIMEDOUT` if it is not signaled in time. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Self::make(None)
    }

    /// As [`Self::new`], for a job of the core at place `core`, whose jobs end in order.
    pub(crate) fn of_core(core: usize) -> Result<Self> {
        Self::make(Some(core))
    }

    fn make(core: Option<usize>) -> Result<Self> {
        let in_use = InUse::new()?;
        let queue = work::raw_queue(&in_use);
        // SAFETY: Makes a new one. The queue lives as long as there is a use, and `end_all` comes
        // before its end.
        let fence = from_err_ptr(unsafe { shim::gal_new_fence(queue, number_of(core)) })?;
        // INVARIANT: Made just now.
        let fence = NonNull::new(fence).ok_or(ENOMEM)?;
        Ok(Self {
            fence,
            _in_use: in_use,
        })
    }

    /// Makes a sync file of it. `EMFILE`: the process has no descriptor left. `ENOMEM`.
    pub(crate) fn file(&self) -> Result<NewFile> {
        let reserved = Reserved::new()?;
        // SAFETY: By the type invariant; the result is checked.
        let file = from_err_ptr(unsafe { shim::gal_fence_file(self.fence.as_ptr()) })?;
        // SAFETY: A new file, whose only reference is ours.
        unsafe { reserved.fill(file) }
    }

    /// A reference for others to wait for.
    pub(crate) fn share(&self) -> Option<SharedFence> {
        // SAFETY: By the type invariant the fence is live.
        let fence = unsafe { shim::gal_share_fence(self.fence.as_ptr()) };
        // INVARIANT: It came with a reference.
        NonNull::new(fence).map(SharedFence)
    }

    /// Whether it has timed out.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: By the type invariant the fence is live.
        unsafe { shim::gal_fence_is_over(self.fence.as_ptr()) }
    }

    /// Signals the fence.
    pub(crate) fn signal(self) {
        // SAFETY: By the type invariant the fence is live, and `self` ends with this call: it is
        // signaled once.
        unsafe { shim::gal_signal_fence(self.fence.as_ptr()) };
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference is given away.
        unsafe { shim::gal_end_fence(self.fence.as_ptr(), -(bindings::ECANCELED as c_int)) };
    }
}

/// The number of the core at a place, for C; 0: none.
pub(super) fn number_of(core: Option<usize>) -> u32 {
    core.and_then(|core| u32::try_from(core).ok())
        .map_or(0, |core| core.saturating_add(1))
}

/// A fence that others may wait for.
///
/// # Invariants
///
/// The pointer references a live fence, of which we own a reference.
pub(crate) struct SharedFence(pub(super) NonNull<shim::dma_fence>);

impl Drop for SharedFence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours, and nothing uses it afterwards.
        unsafe { shim::gal_put_fence(self.0.as_ptr()) };
    }
}

/// Waits for the sync file of the calling process's descriptor `fd`, at least `milliseconds`; all
/// ones is no limit.
///
/// `EINVAL`: there is none. `ETIMEDOUT`: not in that time. `ERESTARTSYS`: a Unix signal came first;
/// only a fatal one if the wait `outlasts` the others.
pub(crate) fn wait(fd: i32, milliseconds: u32, outlasts: bool) -> Result {
    // SAFETY: The call looks the descriptor up in the caller's table and refuses numbers that are
    // not in use.
    kernel::error::to_result(unsafe { shim::gal_wait_fence(fd, milliseconds, outlasts) })
}

/// Ends the work item of fences.
///
/// # Safety
///
/// No [`Fence`] exists, and none can be made.
pub(super) unsafe fn end_all() {
    // SAFETY: By the caller nothing queues it any more.
    unsafe { shim::gal_end_fences() }
}
