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
/// If `ours`, the mapping was made by `gal_map_irq_line` and is disposed of once. Else somebody else
/// has it too, and it stays.
pub(crate) struct LineMapping {
    number: u32,
    ours: bool,
}

impl LineMapping {
    /// Maps `line`: on a GIC the interrupt id (shared ones start at 32), on a controller with
    /// one-cell specifiers its input.
    ///
    /// `EINVAL`: no such line. `ENODEV`: the device tree names no root controller.
    pub(crate) fn new(line: u32) -> Result<Self> {
        let mut existed = false;
        // SAFETY: Any number may be asked for.
        let irq = unsafe { shim::gal_map_irq_line(line, &mut existed) };
        let number = u32::try_from(irq).map_err(|_| Error::from_errno(irq))?;
        // INVARIANT: Made just now, unless it was there.
        Ok(Self {
            number,
            ours: !existed,
        })
    }

    /// The Linux number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for LineMapping {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: By the type invariant.
            unsafe { shim::gal_unmap_irq(self.number) }
        }
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
