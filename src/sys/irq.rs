// SPDX-License-Identifier: GPL-2.0-only

//! Interrupt lines by the numbers of board documents, and the handler's registration.

use super::shim;
use core::marker::PhantomData;
use kernel::{
    device,
    irq::{
        Flags,
        IrqReturn,
        ThreadedHandler,
        ThreadedIrqReturn,
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

/// What an interrupt calls.
pub(crate) trait Handler: Send + Sync {
    /// In interrupt context.
    fn handle(&self) -> ThreadedIrqReturn;

    /// In the interrupt's thread, after `handle` asked for it.
    fn handle_threaded(&self);
}

/// A [`Handler`] in the shape that this kernel's crate wants.
struct Shaped<T>(T);

#[cfg(gal_irq_handler_has_device)]
impl<T: Handler + 'static> ThreadedHandler for Shaped<T> {
    fn handle(&self, _: &device::Device<device::Bound>) -> ThreadedIrqReturn {
        self.0.handle()
    }

    fn handle_threaded(&self, _: &device::Device<device::Bound>) -> IrqReturn {
        self.0.handle_threaded();
        IrqReturn::Handled
    }
}

#[cfg(not(gal_irq_handler_has_device))]
impl<T: Handler + 'static> ThreadedHandler for Shaped<T> {
    fn handle(&self) -> ThreadedIrqReturn {
        self.0.handle()
    }

    fn handle_threaded(&self) -> IrqReturn {
        self.0.handle_threaded();
        IrqReturn::Handled
    }
}

/// A requested interrupt of a bound device. Its end waits for the handler and its thread.
///
/// It is to be kept in the driver's data, which is dropped at unbind: never forget it.
pub(crate) struct Registration<'bound, T: Handler + 'static> {
    #[cfg(gal_irq_handler_has_device)]
    _inner: Pin<KBox<ThreadedRegistration<Shaped<T>>>>,
    #[cfg(not(gal_irq_handler_has_device))]
    _inner: Pin<KBox<ThreadedRegistration<'bound, Shaped<T>>>>,
    _device: PhantomData<&'bound device::Device<device::Bound>>,
}

impl<'bound, T: Handler + 'static> Registration<'bound, T> {
    /// Requests the first interrupt of `pdev` for `handler`; the line may be shared.
    pub(crate) fn new(
        pdev: &'bound platform::Device<device::Bound>,
        name: &'static CStr,
        handler: T,
    ) -> Result<Self> {
        let handler = Ok::<_, Error>(Shaped(handler));
        #[cfg(gal_irq_handler_has_device)]
        let registration = pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler);
        // SAFETY: The registration stays in a box of a type that is never forgotten.
        #[cfg(not(gal_irq_handler_has_device))]
        let registration =
            unsafe { pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler) };
        Ok(Self {
            _inner: KBox::pin_init(registration, GFP_KERNEL)?,
            _device: PhantomData,
        })
    }
}

/// Whether an enabled device-tree node describes a core whose registers start at `registers`.
pub(crate) fn node_exists(registers: kernel::io::PhysAddr) -> bool {
    // SAFETY: Only looks the tree up.
    unsafe { shim::gal_node_exists(registers) }
}
