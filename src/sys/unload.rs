// SPDX-License-Identifier: GPL-2.0-only

//! Uses of this module's code, which must end before the module is unloaded.
//!
//! A registration that safe code forgets (`mem::forget`, a leaked box) is never undone, and the
//! kernel would call into an unloaded module. So each registration holds an [`InUse`]. If one is
//! left when the module's queue ([`super::work::OwnQueue`]) is dropped, the last step of the
//! unload, the queue stays. Then the unload stops with a `BUG`, and the code is never freed.

use super::prelude::*;

/// Number of [`InUse`].
static USES: Atomic<usize> = Atomic::new(0);

/// Whether new ones may be made.
static IS_OPEN: Atomic<i32> = Atomic::new(0);

/// Keeps the module's code and its queue while it lives, and permanently if it is forgotten.
///
/// # Invariants
///
/// It is counted in [`USES`], and already was when [`IS_OPEN`] was read as not 0.
pub(crate) struct InUse(());

impl InUse {
    /// Adds a use. `ENODEV`: the module has no queue yet, or no longer.
    pub(crate) fn new() -> Result<Self> {
        // Fully ordered with the next access, as those of `close` are: either `close` sees the use,
        // or the use sees that the module is closed.
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
    /// There is a forgotten use, for which this is called once.
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

/// Allows uses.
///
/// # Safety
///
/// The module's queue exists, and stays until [`close`] returns `true`.
pub(super) unsafe fn open() {
    IS_OPEN.xchg(1, Full);
}

/// Allows no more uses. Returns whether there are none; if not, call it again.
pub(super) fn close() -> bool {
    IS_OPEN.xchg(0, Full);
    USES.fetch_add(0usize, Full) == 0
}
