// SPDX-License-Identifier: GPL-2.0-only

//! A platform device made by the driver itself, for boards whose device tree has no node.

use kernel::{
    bindings,
    error::from_err_ptr,
    io::PhysAddr,
    prelude::*, //
};

/// An interrupt number as a resource's, whatever the machine's width.
fn number<T: From<u32>>(irq: u32) -> T {
    irq.into()
}

/// A platform device with registers and an interrupt.
///
/// # Invariants
///
/// `0` was registered by us and is unregistered once.
pub(crate) struct OwnDevice(*mut bindings::platform_device);

// SAFETY: Only used to unregister and to look at the binding, which any thread may do.
unsafe impl Send for OwnDevice {}
// SAFETY: As above.
unsafe impl Sync for OwnDevice {}

impl OwnDevice {
    /// Registers a device `name` with `size` bytes of registers at `start` and Linux interrupt
    /// `irq`. The driver of that name probes it before this returns.
    pub(crate) fn new(name: &'static CStr, start: PhysAddr, size: usize, irq: u32) -> Result<Self> {
        let last = PhysAddr::try_from(size)
            .ok()
            .and_then(|size| size.checked_sub(1))
            .and_then(|length| start.checked_add(length))
            .ok_or(EINVAL)?;
        let resources = [
            bindings::resource {
                start,
                end: last,
                flags: bindings::IORESOURCE_MEM as c_ulong,
                ..pin_init::zeroed()
            },
            bindings::resource {
                start: number(irq),
                end: number(irq),
                flags: bindings::IORESOURCE_IRQ as c_ulong,
                ..pin_init::zeroed()
            },
        ];
        let info = bindings::platform_device_info {
            name: name.as_char_ptr(),
            id: bindings::PLATFORM_DEVID_NONE,
            res: resources.as_ptr(),
            num_res: 2,
            dma_mask: 0xFFFF_FFFF,
            ..pin_init::zeroed()
        };
        // SAFETY: Name and resources are copied.
        let device = from_err_ptr(unsafe { bindings::platform_device_register_full(&info) })?;
        // INVARIANT: Registered just now.
        Ok(Self(device))
    }

    /// Whether a driver has taken the device.
    pub(crate) fn is_bound(&self) -> bool {
        // SAFETY: The device is live; probing ended before `new` returned, and only sysfs could
        // change the binding, of which this is a snapshot.
        unsafe { !(*self.0).dev.driver.is_null() }
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::platform_device_unregister(self.0) }
    }
}
