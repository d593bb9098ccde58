// SPDX-License-Identifier: GPL-2.0-only

//! The memory region of a device-tree node (`memory-region`).

use super::{
    prelude::*,
    raw_device,
    shim,
    widen, //
};
use kernel::device;

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First physical address.
    pub(crate) start: u64,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The kernel uses the region while the device does not, so memory in it must be allocated.
    pub(crate) is_reusable: bool,
}

impl Region {
    /// The first region of `dev`'s node, if there is one. `EINVAL`: the kernel has not reserved it.
    pub(crate) fn of(dev: &device::Device) -> Result<Option<Self>> {
        let (mut start, mut size, mut is_reusable) = (0, 0, false);
        // SAFETY: The device is valid. The call writes only to the three variables.
        let found = unsafe {
            shim::gal_memory_region(raw_device(dev), &mut start, &mut size, &mut is_reusable)
        };
        if found == 0 {
            return Ok(None);
        }
        to_result(found.min(0))?;
        Ok(Some(Self {
            start: widen(start),
            bytes: widen(size),
            is_reusable,
        }))
    }
}

/// Makes a reusable region the source of a device's contiguous memory, until this is dropped.
///
/// # Invariants
///
/// The device has an assigned region, which only `Drop` releases.
pub(super) struct Assigned(ARef<device::Device>);

impl Assigned {
    /// Assigns the first region of `core`'s node to `dev`, as the source of its contiguous memory.
    ///
    /// # Safety
    ///
    /// `dev` has no contiguous memory yet, and none is allocated for it during the call. Memory
    /// that is allocated later does not outlive this.
    pub(super) unsafe fn new(dev: &device::Device, core: &device::Device) -> Result<Self> {
        // SAFETY: The devices are valid. By the caller `dev` has no memory during the call.
        to_result(unsafe { shim::gal_assign_region(raw_device(dev), raw_device(core)) })?;
        // INVARIANT: Assigned just now.
        Ok(Self(dev.into()))
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the device has the region, and only this drop releases it.
        unsafe { shim::gal_release_region(raw_device(&self.0)) }
    }
}
