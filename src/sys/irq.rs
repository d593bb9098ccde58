// SPDX-License-Identifier: GPL-2.0-only

//! Interrupt lines by the numbers of board documents, and the handler's registration.

use super::{
    shim,
    unload::InUse, //
};
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

/// The Linux number of `line` of the SoC's interrupt controller: on a GIC, or a controller that
/// feeds one, the interrupt id (shared ones start at 32), with one-cell specifiers its input.
///
/// The number stays the line's permanently, as that of a line in the device tree does: a holder of
/// a number could not learn that it is no longer valid.
///
/// `EINVAL`: no such line. `ENODEV`: neither the device tree's root nor the SoC's bus names one.
pub(crate) fn map_line(line: u32) -> Result<u32> {
    // SAFETY: Any number may be asked for.
    let irq = unsafe { shim::gal_map_irq_line(line) };
    u32::try_from(irq).map_err(|_| Error::from_errno(irq))
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
/// If it is forgotten the handler is called for ever: it lives in the same box, and the code stays.
pub(crate) struct Registration<'bound, T: Handler + 'static> {
    #[cfg(gal_irq_handler_has_device)]
    _inner: Pin<KBox<ThreadedRegistration<Shaped<T>>>>,
    #[cfg(not(gal_irq_handler_has_device))]
    _inner: Pin<KBox<ThreadedRegistration<'bound, Shaped<T>>>>,
    /// For the handler: after the interrupt.
    _in_use: InUse,
    _device: PhantomData<&'bound device::Device<device::Bound>>,
}

impl<'bound, T: Handler + 'static> Registration<'bound, T> {
    /// Requests the first interrupt of `pdev` for `handler`; the line may be shared.
    pub(crate) fn new(
        pdev: &'bound platform::Device<device::Bound>,
        name: &'static CStr,
        handler: T,
    ) -> Result<Self> {
        let in_use = InUse::new()?;
        let handler = Ok::<_, Error>(Shaped(handler));
        #[cfg(gal_irq_handler_has_device)]
        let registration = pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler);
        // SAFETY: The registration must be undone before the handler, or the module's code, goes.
        // Code that forgets the box forgets the use beside it too, and then the module's code
        // stays; and a box that is forgotten is not freed, nor the handler in it. The device is
        // only looked at when it is dropped.
        #[cfg(not(gal_irq_handler_has_device))]
        let registration =
            unsafe { pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler) };
        Ok(Self {
            _inner: KBox::pin_init(registration, GFP_KERNEL)?,
            _in_use: in_use,
            _device: PhantomData,
        })
    }
}
