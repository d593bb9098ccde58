// SPDX-License-Identifier: GPL-2.0-only

//! Interrupt lines by the numbers of board documents, and the handler's registration.

use super::shim;
use kernel::{
    device::Bound,
    irq::{
        Flags,
        ThreadedHandler,
        ThreadedRegistration, //
    },
    platform,
    prelude::*, //
};

/// A Linux interrupt number that stands for a line of the root interrupt controller.
///
/// # Invariants
///
/// The mapping was made by `gal_map_irq_line` and is disposed of once.
pub(crate) struct LineMapping(u32);

impl LineMapping {
    /// Maps `line`: on a GIC the interrupt id (shared ones start at 32), on a controller with
    /// one-cell specifiers its input.
    ///
    /// `EINVAL`: no such line. `ENODEV`: the device tree names no root controller.
    pub(crate) fn new(line: u32) -> Result<Self> {
        // SAFETY: Any number may be asked for.
        let irq = unsafe { shim::gal_map_irq_line(line) };
        if irq < 0 {
            return Err(Error::from_errno(irq));
        }
        // INVARIANT: Made just now.
        Ok(Self(irq as u32))
    }

    /// The Linux number.
    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

impl Drop for LineMapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_unmap_irq(self.0) }
    }
}

/// Requests the first interrupt of `pdev` for `handler`.
///
/// The registration must be kept in the driver's data (it is dropped at unbind, never forgotten).
pub(crate) fn request<'a, T: ThreadedHandler + 'a>(
    pdev: &'a platform::Device<Bound>,
    name: &'static CStr,
    handler: impl PinInit<T, Error> + 'a,
) -> impl PinInit<ThreadedRegistration<'a, T>, Error> + 'a {
    // SAFETY: The one caller pins the registration in a box that the driver's data owns.
    unsafe { pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler) }
}

/// Whether an enabled device-tree node describes a core whose registers start at `registers`.
pub(crate) fn node_exists(registers: kernel::io::PhysAddr) -> bool {
    // SAFETY: Only looks the tree up.
    unsafe { shim::gal_node_exists(registers) }
}
