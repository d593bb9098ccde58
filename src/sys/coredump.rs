// SPDX-License-Identifier: GPL-2.0-only

//! Files of the kernel's device coredumps: the state of a device that hangs.
//!
//! The kernel shows one for each device, until it is written to, or five minutes have passed, to
//! root alone (`/sys/class/devcoredump`). A [`Stand`] lets it show more than one of a device.

use super::{
    raw_device,
    shim, //
};
use core::ptr::NonNull;
use kernel::{
    device::Device,
    faux,
    prelude::*,
    str::CString, //
};

/// Whether the kernel takes any.
pub(crate) fn is_possible() -> bool {
    // SAFETY: Only says how the kernel was configured.
    unsafe { shim::gal_has_dumps() }
}

/// A device, below another one, that one more dump of that is shown of. The dump outlives it.
pub(crate) struct Stand(faux::Registration);

impl Stand {
    /// Number `number` of core `core`, whose device is `parent`. May sleep.
    pub(crate) fn new(parent: &Device, core: usize, number: usize) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("galcore-dump.{core}.{number}"))?;
        faux::Registration::new(&name, Some(parent)).map(Self)
    }

    /// The device of the dump.
    pub(crate) fn device(&self) -> &Device {
        // From Linux 7.3 on there is a type between.
        let own = self.0.as_ref();
        own.as_ref()
    }
}

/// A file that is being written.
///
/// # Invariants
///
/// `data` is memory of `size` bytes by `gal_allocate_dump`, initialized, and this value's own.
pub(crate) struct File {
    data: NonNull<u8>,
    size: usize,
}

impl File {
    /// One of `size` zeros. Waits for nothing. `ENOMEM`: no memory that is free now.
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

    /// Gives the first `used` bytes to the kernel as the dump of `dev`, in place of an earlier one.
    /// May sleep.
    pub(crate) fn publish(self, dev: &Device, used: usize) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariant the memory is ours; it is given away here, and not dropped.
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
