// SPDX-License-Identifier: GPL-2.0-only

//! Standing in for a core at a driver that waits for all cores of the device tree (etnaviv does):
//! a component of the kernel's that does nothing.

use super::{
    raw_device,
    shim,
    unload::InUse, //
};
use kernel::{
    device,
    error::from_err_ptr,
    prelude::*, //
};

/// A component for a device-tree node that is ours.
///
/// An aggregate that has it keeps the module from being unloaded, and keeps it, too, if it is
/// dropped, until the aggregate ends.
///
/// # Invariants
///
/// `raw` is of `gal_new_stand_in`, and stays until this is dropped: all that are left are freed
/// only after the last use of the module.
pub(crate) struct StandIn {
    raw: *mut shim::gal_stand_in,
    _in_use: InUse,
}

// SAFETY: Only used to drop it, which any thread may do.
unsafe impl Send for StandIn {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for StandIn {}

impl StandIn {
    /// Adds a component for the core `dev`, if it has a node. Drivers that waited for it alone are
    /// bound before this returns: an error may be theirs. `EBUSY`: there is one for it.
    pub(crate) fn new(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        let in_use = InUse::new()?;
        // SAFETY: The device is live; of it only its name and its node are taken.
        let raw = from_err_ptr(unsafe { shim::gal_new_stand_in(raw_device(dev)) })?;
        if raw.is_null() {
            return Ok(None);
        }
        // INVARIANT: Made just now, or taken up again, and exclusive in both cases.
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

/// Ends all that is left of them, whatever their aggregates.
///
/// # Safety
///
/// There is no [`InUse`] any more, and none can be had.
pub(super) unsafe fn end_all() {
    // SAFETY: By the caller there is no `StandIn`.
    unsafe { shim::gal_end_stand_ins() }
}
