// SPDX-License-Identifier: GPL-2.0-only

//! The cores in the device tree, the drivers that are bound to them, and what a core's node names:
//! its clocks, reset lines, memory region and interrupt line.
//!
//! Clocks may lack names; the `kernel` crate only supports named clocks. Boards without a node name
//! interrupt lines by their numbers in the board's documents.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse,
    widen, //
};
use core::ptr;
use kernel::{
    bindings,
    device::{
        self,
        Device, //
    },
    io::PhysAddr,
    irq::{
        Flags,
        IrqReturn,
        ThreadedHandler,
        ThreadedIrqReturn,
        ThreadedRegistration, //
    },
    platform,
    str::BStr, //
};

/// Number of enabled device-tree nodes of cores.
pub(crate) fn count_nodes() -> usize {
    // SAFETY: The call walks the device tree under the tree's lock and has no preconditions.
    let count = unsafe { shim::gal_count_nodes() };
    u32_as_usize(count)
}

/// Number of power domains in the node of `dev`.
pub(crate) fn count_domains(dev: &Device) -> u32 {
    // SAFETY: The reference guarantees a live device.
    unsafe { shim::gal_count_domains(raw_device(dev)) }
}

/// A device-tree node of a core.
pub(crate) struct Node {
    /// Whether the node is enabled.
    pub(crate) is_enabled: bool,
    /// The interrupt, as for the parameter `irqLine`. 0: none.
    pub(crate) line: u32,
}

/// The node whose registers start at `registers`. If there are several, prefers an enabled one.
pub(crate) fn node_at(registers: PhysAddr) -> Option<Node> {
    let mut node = Node {
        is_enabled: false,
        line: 0,
    };
    // SAFETY: The call searches the tree and only writes to the two fields.
    unsafe { shim::gal_find_node(registers, &mut node.is_enabled, &mut node.line) }.then_some(node)
}

/// Room for a name, in bytes, with the terminating zero.
const NAME_BYTES: usize = 64;

/// The names of the device and the driver of a core in the device tree.
pub(crate) struct NodeHolder {
    device: [u8; NAME_BYTES],
    driver: [u8; NAME_BYTES],
}

impl NodeHolder {
    /// Of the enabled node with index `index`. `None`: there is none. Does not wait: a driver that
    /// is binding or unbinding may be missing.
    pub(crate) fn of(index: u32) -> Option<Self> {
        let (mut device, mut driver) = ([0; NAME_BYTES], [0; NAME_BYTES]);
        // SAFETY: Both buffers have the given length. The call writes terminated strings.
        let is_there = unsafe {
            shim::gal_node_holder(
                index,
                device.as_mut_ptr().cast(),
                driver.as_mut_ptr().cast(),
                NAME_BYTES,
            )
        };
        is_there.then_some(Self { device, driver })
    }

    /// The device's name. Empty if the node has no device.
    pub(crate) fn device(&self) -> &BStr {
        text(&self.device)
    }

    /// The driver's name. Empty if no driver is bound.
    pub(crate) fn driver(&self) -> &BStr {
        text(&self.driver)
    }
}

/// The text before the terminating zero.
fn text(bytes: &[u8]) -> &BStr {
    let end = bytes.iter().position(|&byte| byte == 0);
    BStr::from_bytes(&bytes[..end.unwrap_or(bytes.len())])
}

/// All clocks of a node, in the order of the node.
///
/// # Invariants
///
/// `first` points to `count` clocks from `clk_bulk_get_all`. Only `Drop` puts them. `first` may be
/// null if `count` is 0.
pub(crate) struct NodeClocks {
    first: *mut bindings::clk_bulk_data,
    count: c_int,
}

// SAFETY: Any thread may use clocks.
unsafe impl Send for NodeClocks {}
// SAFETY: As above. The clock framework serializes concurrent calls.
unsafe impl Sync for NodeClocks {}

impl NodeClocks {
    /// Gets the clocks of `dev`, without enabling them. `EPROBE_DEFER`: one does not exist yet.
    pub(crate) fn get(dev: &Device) -> Result<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: The reference guarantees a live device.
        let count = unsafe { bindings::clk_bulk_get_all(raw_device(dev), &mut first) };
        to_result(count)?;
        // INVARIANT: Acquired just now. Nothing was allocated if `count` is 0.
        Ok(Self { first, count })
    }

    fn all(&self) -> &[bindings::clk_bulk_data] {
        match usize::try_from(self.count) {
            // SAFETY: By the type invariant there are `count` clocks, which live as long as `self`.
            Ok(count @ 1..) => unsafe { core::slice::from_raw_parts(self.first, count) },
            _ => &[],
        }
    }

    /// Number of clocks.
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// The name of a clock in the node, if any.
    pub(crate) fn name(&self, which: usize) -> Option<&CStr> {
        let name = self.all().get(which)?.id;
        // SAFETY: The names are strings of the node, which lives as long as its device.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// Enables all clocks.
    pub(crate) fn enable(&self) -> Result {
        // SAFETY: By the type invariant there are `count` clocks.
        unsafe {
            to_result(bindings::clk_bulk_prepare(self.count, self.first))?;
            to_result(bindings::clk_bulk_enable(self.count, self.first))
                .inspect_err(|_| bindings::clk_bulk_unprepare(self.count, self.first))
        }
    }

    /// Disables all clocks, after [`NodeClocks::enable`].
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariant there are `count` clocks.
        unsafe {
            bindings::clk_bulk_disable(self.count, self.first);
            bindings::clk_bulk_unprepare(self.count, self.first);
        }
    }

    /// The rate of a clock, in Hz. 0: there is no clock, or its rate is unknown.
    pub(crate) fn rate(&self, which: Option<usize>) -> usize {
        let clock = which.and_then(|which| self.all().get(which));
        clock.map_or(0, |clock| {
            // SAFETY: By the type invariant the clock has not been put.
            unsafe { bindings::clk_get_rate(clock.clk) }
        })
    }

    /// Sets the rate of a clock. Does nothing if there is no clock.
    pub(crate) fn set_rate(&self, which: Option<usize>, hertz: usize) -> Result {
        let clock = which.and_then(|which| self.all().get(which));
        clock.map_or(Ok(()), |clock| {
            // SAFETY: By the type invariant the clock has not been put.
            to_result(unsafe { bindings::clk_set_rate(clock.clk, hertz) })
        })
    }
}

impl Drop for NodeClocks {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Nothing uses the clocks after this drop.
        unsafe { bindings::clk_bulk_put_all(self.count, self.first) }
    }
}

/// How long a device is held in reset, in milliseconds.
const HOLD_TIME: i64 = 1;

/// All reset lines of a device, driven together. No other device uses them.
///
/// # Invariants
///
/// `0` is a live reset control, which only `Drop` puts.
pub(crate) struct ResetLine(NonNull<bindings::reset_control>);

// SAFETY: Any thread may use reset controls.
unsafe impl Send for ResetLine {}
// SAFETY: As above. Their controller handles concurrent calls.
unsafe impl Sync for ResetLine {}

impl ResetLine {
    /// Gets the lines in the node of `dev`, if any. Releases `dev` from reset. `EPROBE_DEFER`: the
    /// controller does not exist yet.
    pub(crate) fn get(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        // SAFETY: The reference guarantees a live, bound device.
        let line = from_err_ptr(unsafe { shim::gal_get_reset(raw_device(dev)) })?;
        // INVARIANT: Acquired just now.
        let Some(line) = NonNull::new(line).map(Self) else {
            return Ok(None);
        };
        match line.drive(false) {
            // If a controller can only pulse the line, the device is not in reset.
            Ok(()) | Err(ENOTSUPP) => Ok(Some(line)),
            Err(error) => Err(error),
        }
    }

    /// Resets the device. It loses all of its state.
    pub(crate) fn pulse(&self) -> Result {
        match self.drive(true) {
            Ok(()) => {
                fsleep(Delta::from_millis(HOLD_TIME));
                self.drive(false)
            }
            // SAFETY: By the type invariant the reset control has not been put.
            Err(ENOTSUPP) => to_result(unsafe { shim::gal_pulse_reset(self.0.as_ptr()) }),
            Err(error) => Err(error),
        }
    }

    fn drive(&self, is_held: bool) -> Result {
        // SAFETY: By the type invariant the reset control has not been put.
        to_result(unsafe { shim::gal_drive_reset(self.0.as_ptr(), is_held) })
    }
}

impl Drop for ResetLine {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reset control has not been put. Nothing uses it after
        // this drop.
        unsafe { shim::gal_put_reset(self.0.as_ptr()) }
    }
}

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First physical address.
    pub(crate) start: u64,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The kernel uses the region while the device does not, so memory in it must be allocated.
    pub(crate) is_reusable: bool,
}

impl Region {
    /// The first region of `dev`'s node, if there is one. `EINVAL`: the kernel has not reserved it.
    pub(crate) fn of(dev: &device::Device) -> Result<Option<Self>> {
        let (mut start, mut size, mut is_reusable) = (0, 0, false);
        // SAFETY: The device is valid. The call writes only to the three variables.
        let found = unsafe {
            shim::gal_memory_region(raw_device(dev), &mut start, &mut size, &mut is_reusable)
        };
        if found == 0 {
            return Ok(None);
        }
        to_result(found.min(0))?;
        Ok(Some(Self {
            start: widen(start),
            bytes: widen(size),
            is_reusable,
        }))
    }
}

/// Makes a reusable region the source of a device's contiguous memory, until this is dropped.
///
/// # Invariants
///
/// The device has an assigned region, which only `Drop` releases.
pub(super) struct Assigned(ARef<device::Device>);

impl Assigned {
    /// Assigns the first region of `core`'s node to `dev`, as the source of its contiguous memory.
    ///
    /// # Safety
    ///
    /// `dev` has no contiguous memory yet, and none is allocated for it during the call. Memory
    /// that is allocated later does not outlive this.
    pub(super) unsafe fn new(dev: &device::Device, core: &device::Device) -> Result<Self> {
        // SAFETY: The devices are valid. By the caller `dev` has no memory during the call.
        to_result(unsafe { shim::gal_assign_region(raw_device(dev), raw_device(core)) })?;
        // INVARIANT: Assigned just now.
        Ok(Self(dev.into()))
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the device has the region, and only this drop releases it.
        unsafe { shim::gal_release_region(raw_device(&self.0)) }
    }
}

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

    /// Called in the interrupt thread, after `handle` has woken it.
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
