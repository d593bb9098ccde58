// SPDX-License-Identifier: GPL-2.0-only

//! Stand-ins for cores: components that do nothing, for a driver that waits for all cores of the
//! device tree, as etnaviv does.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use kernel::device;

/// A component for a device-tree node that we drive.
///
/// An aggregate that has bound it prevents the unload of the module. If this is dropped, the
/// component stays until the aggregate ends.
///
/// # Invariants
///
/// `raw` came from `gal_new_stand_in`, and stays valid until this is dropped: remaining components
/// are freed only after the last use of the module.
pub(crate) struct StandIn {
    raw: *mut shim::gal_stand_in,
    _in_use: InUse,
}

// SAFETY: Only used to drop it, which any thread may do.
unsafe impl Send for StandIn {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for StandIn {}

impl StandIn {
    /// Adds a component for the core `dev`, if it has a node. Aggregates that waited only for it
    /// are bound before this returns, and may cause an error. `EBUSY`: the core has one.
    pub(crate) fn new(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        let in_use = InUse::new()?;
        // SAFETY: The device is live; the call uses only its name and its node.
        let raw = from_err_ptr(unsafe { shim::gal_new_stand_in(raw_device(dev)) })?;
        if raw.is_null() {
            return Ok(None);
        }
        // INVARIANT: Made just now, or reused, and exclusive in both cases.
        Ok(Some(Self {
            raw,
            _in_use: in_use,
        }))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `raw` is a live stand-in, and nothing uses it after this
        // drop.
        unsafe { shim::gal_drop_stand_in(self.raw) }
    }
}

/// Frees all remaining components.
///
/// # Safety
///
/// No [`InUse`] exists, and none can be made.
pub(super) unsafe fn end_all() {
    // SAFETY: By the caller there is no `StandIn`.
    unsafe { shim::gal_end_stand_ins() }
}
