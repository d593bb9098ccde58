// SPDX-License-Identifier: GPL-2.0-only

//! Uses of this module's code, which must end before the module is unloaded.
//!
//! If safe code leaks a registration (`mem::forget`, a leaked box), the registration never ends.
//! The kernel would then call into an unloaded module. So each registration holds an [`InUse`]. The
//! last step of the unload drops the module's queues ([`super::work::OwnQueue`]). If an [`InUse`]
//! is left, the queues stay. Then the unload stops with a `BUG`, and the code is never freed.

use super::prelude::*;

/// Number of [`InUse`] values.
static USES: Atomic<usize> = Atomic::new(0);

/// Not 0 if new ones may be created.
static IS_OPEN: Atomic<i32> = Atomic::new(0);

/// Keeps the module's code and its queues while it lives. If it is leaked, they stay permanently.
///
/// # Invariants
///
/// It is counted in [`USES`], and was so already when [`IS_OPEN`] was read and was not 0.
pub(crate) struct InUse(());

impl InUse {
    /// Adds a use. `ENODEV`: the module has no queues yet, or they are gone.
    pub(crate) fn new() -> Result<Self> {
        // Fully ordered with the next access, as the two in `close` are. So either `close` sees the
        // use, or the use sees that the module is closed.
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
    /// Ends a use that was leaked.
    ///
    /// # Safety
    ///
    /// A use was leaked, and this is called once for it.
    pub(super) unsafe fn end() {
        // INVARIANT: By the caller the use is counted.
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
/// The module's queues exist, and stay until [`close`] returns `true`.
pub(super) unsafe fn open() {
    IS_OPEN.xchg(1, Full);
}

/// Allows no new uses. Returns whether no use is left. If not, the caller calls it again.
pub(super) fn close() -> bool {
    IS_OPEN.xchg(0, Full);
    USES.fetch_add(0usize, Full) == 0
}
