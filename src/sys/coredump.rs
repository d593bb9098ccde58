// SPDX-License-Identifier: GPL-2.0-only

//! Device coredumps: the state of a device that hangs.
//!
//! The kernel keeps one dump for each device (`/sys/class/devcoredump`, only for root), until root
//! writes to it or five minutes have passed. A [`Stand`] is for one more dump of the same device.

use super::{
    prelude::*,
    raw_device,
    shim, //
};
use kernel::{
    device::Device,
    faux,
    str::CString, //
};

/// Whether the kernel supports device coredumps.
pub(crate) fn is_possible() -> bool {
    // SAFETY: Only returns the kernel's configuration.
    unsafe { shim::gal_has_dumps() }
}

/// A child device, for one more dump of its parent. The dump outlives it.
pub(crate) struct Stand(faux::Registration);

impl Stand {
    /// Creates child `number` of `parent`, the device of core `core`. May sleep.
    pub(crate) fn new(parent: &Device, core: usize, number: usize) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("galcore-dump.{core}.{number}"))?;
        faux::Registration::new(&name, Some(parent)).map(Self)
    }

    /// The device of the dump.
    pub(crate) fn device(&self) -> &Device {
        // Since Linux 7.3 there is a type in between.
        let own = self.0.as_ref();
        own.as_ref()
    }
}

/// A dump that is being written.
///
/// # Invariants
///
/// `data` points to `size` initialized bytes from `gal_allocate_dump`, which this value owns.
pub(crate) struct File {
    data: NonNull<u8>,
    size: usize,
}

impl File {
    /// A dump of `size` zeros. Does not sleep. `ENOMEM`: no memory is free now.
    pub(crate) fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(EINVAL);
        }
        // SAFETY: An allocation has no preconditions. Null is handled below.
        let data = unsafe { shim::gal_allocate_dump(size) };
        // INVARIANT: Zeroed memory, allocated just now.
        Ok(Self {
            data: NonNull::new(data.cast()).ok_or(ENOMEM)?,
            size,
        })
    }

    /// The bytes of the dump.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant. The borrow of `self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.size) }
    }

    /// Publishes the first `used` bytes as the dump of `dev`. Replaces an earlier one. May sleep.
    pub(crate) fn publish(self, dev: &Device, used: usize) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariant this value owns the memory. The call passes it to the
        // kernel.
        unsafe {
            shim::gal_publish_dump(
                raw_device(dev),
                this.data.as_ptr().cast(),
                used.min(this.size),
            )
        };
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `data` came from `gal_allocate_dump`. Nothing uses it after
        // this drop.
        unsafe { shim::gal_free_dump(self.data.as_ptr().cast()) }
    }
}
