// SPDX-License-Identifier: GPL-2.0-only

//! Device coredumps: the state of a device that hangs.
//!
//! The kernel keeps one for each device (`/sys/class/devcoredump`, for root only), until root
//! writes to it, or five minutes have passed. A [`Stand`] allows more than one for a device.

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

/// A child of a device, for one more dump of that device. The dump outlives it.
pub(crate) struct Stand(faux::Registration);

impl Stand {
    /// Makes device `number` for core `core`, whose device is `parent`. May sleep.
    pub(crate) fn new(parent: &Device, core: usize, number: usize) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("galcore-dump.{core}.{number}"))?;
        faux::Registration::new(&name, Some(parent)).map(Self)
    }

    /// The device of the dump.
    pub(crate) fn device(&self) -> &Device {
        // From Linux 7.3 on there is a type in between.
        let own = self.0.as_ref();
        own.as_ref()
    }
}

/// A dump that is being written.
///
/// # Invariants
///
/// `data` is `size` initialized bytes from `gal_allocate_dump`, and belongs to this value.
pub(crate) struct File {
    data: NonNull<u8>,
    size: usize,
}

impl File {
    /// A dump of `size` zeros. Waits for nothing. `ENOMEM`: no memory is free now.
    pub(crate) fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(EINVAL);
        }
        // SAFETY: An allocation has no preconditions; a null result is refused below.
        let data = unsafe { shim::gal_allocate_dump(size) };
        // INVARIANT: Zeroed memory, allocated just now.
        Ok(Self {
            data: NonNull::new(data.cast()).ok_or(ENOMEM)?,
            size,
        })
    }

    /// The bytes of the dump.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant; borrowed as this value is.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.size) }
    }

    /// Publishes the first `used` bytes as the dump of `dev`, and replaces an earlier one. May
    /// sleep.
    pub(crate) fn publish(self, dev: &Device, used: usize) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariant the memory is ours; its ownership passes to the kernel
        // here.
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
        // SAFETY: By the type invariant `data` came from `gal_allocate_dump`, and nothing uses it
        // after this drop.
        unsafe { shim::gal_free_dump(self.data.as_ptr().cast()) }
    }
}
