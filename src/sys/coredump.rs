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
    alloc::flags::__GFP_NOWARN,
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
pub(crate) struct File(VVec<u8>);

impl File {
    /// A dump of `size` zeros. Does not sleep. `ENOMEM`: no memory is free now.
    pub(crate) fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(EINVAL);
        }
        // Does not reclaim memory. Without free memory there is no dump.
        Ok(Self(VVec::from_elem(0, size, GFP_NOWAIT | __GFP_NOWARN)?))
    }

    /// The bytes of the dump.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Publishes the first `used` bytes as the dump of `dev`. Replaces an earlier one. May sleep.
    pub(crate) fn publish(self, dev: &Device, used: usize) {
        let (data, size, _) = self.0.into_raw_parts();
        // SAFETY: The memory is from `vmalloc()`. The call passes it to the kernel, which frees it.
        unsafe { shim::gal_publish_dump(raw_device(dev), data.cast(), used.min(size)) };
    }
}
