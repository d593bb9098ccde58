// SPDX-License-Identifier: GPL-2.0-only

//! Stand-ins for cores. A driver such as etnaviv waits until all cores of the device tree have a
//! component. A stand-in is a component that does nothing.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use kernel::device;

/// A component for the device-tree node of a core that this driver drives.
///
/// While an aggregate has bound it, the module cannot be unloaded. When this is dropped, the
/// component stays until that aggregate ends.
///
/// # Invariants
///
/// `raw` came from `gal_new_stand_in`, and stays valid until this is dropped. Remaining components
/// are only freed after the last [`InUse`].
pub(crate) struct StandIn {
    raw: *mut shim::gal_stand_in,
    _in_use: InUse,
}

// SAFETY: `raw` is only used to drop it, which any thread may do.
unsafe impl Send for StandIn {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for StandIn {}

impl StandIn {
    /// Adds a component for the core `dev`, if it has a node. If an aggregate waited only for this
    /// component, it is bound before this returns. Its errors are returned. `EBUSY`: the core
    /// already has one.
    pub(crate) fn new(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        let in_use = InUse::new()?;
        // SAFETY: The device is live. The call only uses its name and its node.
        let raw = from_err_ptr(unsafe { shim::gal_new_stand_in(raw_device(dev)) })?;
        if raw.is_null() {
            return Ok(None);
        }
        // INVARIANT: Created or reused just now. In both cases only this value owns it.
        Ok(Some(Self {
            raw,
            _in_use: in_use,
        }))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `raw` is live. Nothing uses it after this drop.
        unsafe { shim::gal_drop_stand_in(self.raw) }
    }
}

/// Frees all remaining components.
///
/// # Safety
///
/// No [`InUse`] exists, and none can be created.
pub(super) unsafe fn end_all() {
    // SAFETY: By the caller there is no `StandIn`.
    unsafe { shim::gal_end_stand_ins() }
}
