// SPDX-License-Identifier: GPL-2.0-only

//! Standing in for a core at a driver that waits for all cores of the device tree (etnaviv does):
//! a component of the kernel's that does nothing.

use super::{
    raw_device,
    shim, //
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
/// `0` is of `gal_new_stand_in`, and stays until it is dropped: [`StandIns`] goes later.
pub(crate) struct StandIn(*mut shim::gal_stand_in);

// SAFETY: Only used to drop it, which any thread may do.
unsafe impl Send for StandIn {}
// SAFETY: As above.
unsafe impl Sync for StandIn {}

impl StandIn {
    /// Stands in for the core `dev`, if it has a node. Drivers that waited for it alone are bound
    /// before this returns: an error may be theirs.
    pub(crate) fn new(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        // SAFETY: The device is live; of it only its name and its node are taken.
        let stand_in = from_err_ptr(unsafe { shim::gal_new_stand_in(raw_device(dev)) })?;
        // INVARIANT: Made just now, or taken up again.
        Ok((!stand_in.is_null()).then(|| Self(stand_in)))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_drop_stand_in(self.0) }
    }
}

/// What ends all that is left of them with the module, whoever has it: dropped behind the last one.
pub(crate) struct StandIns;

impl Drop for StandIns {
    fn drop(&mut self) {
        // SAFETY: No driver of this module is registered any more, so that there are no new ones.
        unsafe { shim::gal_end_stand_ins() }
    }
}
