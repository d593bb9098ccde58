// SPDX-License-Identifier: GPL-2.0-only

//! Interrupt lines by their numbers in board documents, and the registration of handlers.

use super::{
    prelude::*,
    shim,
    unload::InUse, //
};
use kernel::{
    device,
    irq::{
        Flags,
        IrqReturn,
        ThreadedHandler,
        ThreadedIrqReturn,
        ThreadedRegistration, //
    },
    platform, //
};

/// The Linux number of `line` of the SoC's interrupt controller. For a GIC, or a controller that
/// feeds one, `line` is the interrupt ID. For others, it is the one-cell specifier.
///
/// The mapping is permanent, as for a line in the device tree, because users of the number would
/// not notice that it has become invalid.
///
/// `EINVAL`: no such line; shared ones of a GIC start at 32. `EOPNOTSUPP`: an unknown type of
/// specifier. `ENODEV`: neither the device tree's root nor the SoC's bus names a controller.
pub(crate) fn map_line(line: u32) -> Result<u32> {
    // SAFETY: The call accepts any number.
    let irq = unsafe { shim::gal_map_irq_line(line) };
    u32::try_from(irq).map_err(|_| Error::from_errno(irq))
}

/// The handler of an interrupt.
pub(crate) trait Handler: Send + Sync {
    /// Called in hard interrupt context.
    fn handle(&self) -> ThreadedIrqReturn;

    /// Called in the interrupt's thread, after `handle` has woken it.
    fn handle_threaded(&self);
}

/// A [`Handler`] that implements the trait of this kernel's `kernel` crate.
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

/// A requested interrupt of a bound device. Dropping it waits for the handler and its thread.
///
/// If this is leaked, the interrupt stays requested. That is sound: the handler in the box and the
/// module's code stay, too.
pub(crate) struct Registration<'bound, T: Handler + 'static> {
    #[cfg(gal_irq_handler_has_device)]
    _inner: Pin<KBox<ThreadedRegistration<Shaped<T>>>>,
    #[cfg(not(gal_irq_handler_has_device))]
    _inner: Pin<KBox<ThreadedRegistration<'bound, Shaped<T>>>>,
    /// Keeps the handler loaded. Dropped after the interrupt is freed.
    _in_use: InUse,
    _device: PhantomData<&'bound device::Device<device::Bound>>,
}

impl<'bound, T: Handler + 'static> Registration<'bound, T> {
    /// Requests the first interrupt of `pdev` for `handler`. The line may be shared.
    pub(crate) fn new(
        pdev: &'bound platform::Device<device::Bound>,
        name: &'static CStr,
        handler: T,
    ) -> Result<Self> {
        let in_use = InUse::new()?;
        let handler = Ok::<_, Error>(Shaped(handler));
        #[cfg(gal_irq_handler_has_device)]
        let registration = pdev.request_threaded_irq_by_index(Flags::SHARED, 0, name, handler);
        // SAFETY: The registration must end before the handler is freed or the module is unloaded.
        // If the box is leaked, neither it nor the handler in it is freed. Its `InUse` is leaked
        // too, so the module's code stays. The device is only read when this is dropped.
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
