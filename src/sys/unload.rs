// SPDX-License-Identifier: GPL-2.0-only

//! What calls into this module, and so must be gone before its code is.
//!
//! A registration that safe code forgets (`mem::forget`, a box that is leaked) is never undone, and
//! the kernel would go on to call a module that is not there any more. So each of them holds an
//! [`InUse`]. The module's queue ([`super::work::OwnQueue`]), the last that goes, stays if there is
//! one left; then the unload stops with a `BUG`, and the code is never freed.

use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Release, //
    },
};

/// How many there are.
static USES: Atomic<usize> = Atomic::new(0);

/// Whether there may be more.
static IS_OPEN: Atomic<i32> = Atomic::new(0);

/// As long as it lives, and if it is forgotten for ever, the module's code and its queue stay.
///
/// # Invariants
///
/// It is counted in [`USES`], and was so when [`IS_OPEN`] was not 0.
pub(crate) struct InUse(());

impl InUse {
    /// One more. `ENODEV`: the module's queue is not there yet, or not any more.
    pub(crate) fn new() -> Result<Self> {
        // In full order with the next access, as those of `close` are: either it sees the use, or
        // the use sees it.
        USES.fetch_add(1usize, Full);
        // INVARIANT: Counted just now.
        let this = Self(());
        match IS_OPEN.load(Acquire) {
            0 => Err(ENODEV),
            _ => Ok(this),
        }
    }
}

impl InUse {
    /// Ends a use that was forgotten.
    ///
    /// # Safety
    ///
    /// There is one, for which this is called once.
    pub(super) unsafe fn end() {
        // INVARIANT: By the caller it is counted.
        drop(Self(()));
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        USES.fetch_sub(1usize, Release);
    }
}

/// From now on there may be uses.
///
/// # Safety
///
/// There is the module's queue, and it stays until [`close`] finds that there are no uses.
pub(super) unsafe fn open() {
    IS_OPEN.xchg(1, Full);
}

/// From now on there are no more uses; whether there are none. To be asked again if there are.
pub(super) fn close() -> bool {
    IS_OPEN.xchg(0, Full);
    USES.fetch_add(0usize, Full) == 0
}
