// SPDX-License-Identifier: GPL-2.0-only

//! The registration of the platform driver. Also platform devices that the driver creates itself,
//! for boards without a node in the device tree.
//!
//! Also stand-ins for cores. A driver such as etnaviv waits until all cores of the device tree have
//! a component. A stand-in is a component that does nothing.
//!
//! The raw module parameters are in the C shim, because parameters of the `module!` macro do not
//! appear in sysfs. They are read-only after load.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use core::mem::ManuallyDrop;
use kernel::{
    acpi,
    bindings,
    device,
    driver::{
        self,
        DriverLayout,
        RegistrationOps, //
    },
    error::from_result,
    io::PhysAddr,
    of,
    platform,
    types::Opaque, //
};

/// A driver's table of device-tree matches, and its aliases for module tools:
/// `of_device_table!(NAME, IdInfo, [entries])`.
#[cfg(not(gal_of_table_has_two_names))]
macro_rules! of_device_table {
    ($name:ident, $info:ty, $entries:tt) => {
        kernel::of_device_table!($name, $info, $entries);
    };
}

/// A driver's table of device-tree matches, and its aliases for module tools:
/// `of_device_table!(NAME, IdInfo, [entries])`.
#[cfg(gal_of_table_has_two_names)]
macro_rules! of_device_table {
    ($name:ident, $info:ty, $entries:tt) => {
        kernel::of_device_table!($name, MODULE_TABLE, $info, $entries);
    };
}

pub(crate) use of_device_table;

/// As the `kernel` crate's adapter of a platform driver, but with synchronous probing. Devices are
/// probed one after the other, before the registration of the driver or the device returns.
pub(crate) struct Adapter<T>(PhantomData<T>);

// SAFETY: As for `kernel::platform::Adapter`. The driver type is the C structure with an embedded
// `struct device_driver` at that offset, and the data is that of the driver.
unsafe impl<T: platform::Driver> DriverLayout for Adapter<T> {
    type DriverType = bindings::platform_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = core::mem::offset_of!(Self::DriverType, driver);
}

// SAFETY: `unregister` removes exactly what a successful `register` with the same `driver` added.
unsafe impl<T: platform::Driver> RegistrationOps for Adapter<T> {
    unsafe fn register(
        driver: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let table = T::OF_ID_TABLE.map_or(core::ptr::null(), |table| table.as_ptr());
        // Ended by `unregister`, or never.
        let in_use = ManuallyDrop::new(InUse::new()?);
        // SAFETY: Only this call uses the structure until it is registered. It stays valid until it
        // is unregistered.
        to_result(unsafe {
            let driver = driver.get();
            (*driver).driver.name = name.as_char_ptr();
            (*driver).driver.of_match_table = table;
            (*driver).driver.probe_type = bindings::probe_type_PROBE_FORCE_SYNCHRONOUS;
            (*driver).probe = Some(Self::probe);
            (*driver).remove = Some(Self::remove);
            bindings::__platform_driver_register(driver, module.as_ptr(), name.as_char_ptr())
        })
        .inspect_err(|_| drop(ManuallyDrop::into_inner(in_use)))
    }

    unsafe fn unregister(driver: &Opaque<Self::DriverType>) {
        // SAFETY: By the caller it is registered, once, and `register` has leaked one `InUse`.
        unsafe {
            bindings::platform_driver_unregister(driver.get());
            InUse::end();
        }
    }
}

impl<T: platform::Driver> Adapter<T> {
    extern "C" fn probe(pdev: *mut bindings::platform_device) -> c_int {
        // SAFETY: The bus calls this with a valid device, from the driver core.
        let pdev = unsafe { &*pdev.cast::<platform::Device<device::CoreInternal<'_>>>() };
        // SAFETY: The table's data is of the driver's type.
        #[allow(unused_unsafe, reason = "a safe function before Linux 7.3")]
        let info = unsafe { <Self as driver::Adapter>::id_info(pdev.as_ref()) };
        from_result(|| {
            pdev.as_ref().set_drvdata(T::probe(pdev, info))?;
            Ok(0)
        })
    }

    extern "C" fn remove(pdev: *mut bindings::platform_device) {
        // SAFETY: The driver core calls this with a device bound to this driver, and holds its
        // lock.
        let pdev = unsafe { &*pdev.cast::<platform::Device<device::CoreInternal<'_>>>() };
        // SAFETY: A successful probe has stored data of this type.
        let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        T::unbind(pdev, data);
    }
}

impl<T: platform::Driver> driver::Adapter for Adapter<T> {
    type IdInfo = T::IdInfo;

    fn of_id_table() -> Option<of::IdTable<Self::IdInfo>> {
        T::OF_ID_TABLE
    }

    fn acpi_id_table() -> Option<acpi::IdTable<Self::IdInfo>> {
        None
    }
}

/// An interrupt number in the type of a resource, for any machine's width.
fn number<T: From<u32>>(irq: u32) -> T {
    irq.into()
}

/// A platform device that this driver has created.
///
/// # Invariants
///
/// This driver registered `0`, and only `Drop` unregisters it.
pub(crate) struct OwnDevice(*mut bindings::platform_device);

// SAFETY: It is only used to unregister, to read the binding and as a device. Any thread may do
// these.
unsafe impl Send for OwnDevice {}
// SAFETY: `&self` only reads the binding or returns the device. Any thread may do both.
unsafe impl Sync for OwnDevice {}

impl OwnDevice {
    /// Registers a device `name`, with `number` if there are several. It has `size` bytes of
    /// registers at `start` and Linux interrupt `irq`. The driver of that name probes it before
    /// this returns. `EINVAL`: no core's parameters name these registers.
    pub(crate) fn new(
        name: &'static CStr,
        number: Option<u8>,
        start: PhysAddr,
        size: usize,
        irq: u32,
    ) -> Result<Self> {
        if !name_registers(super::widen(start), size) {
            return Err(EINVAL);
        }
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
                start: self::number(irq),
                end: self::number(irq),
                flags: bindings::IORESOURCE_IRQ as c_ulong,
                ..pin_init::zeroed()
            },
        ];
        let id = number.map_or(bindings::PLATFORM_DEVID_NONE, i32::from);
        Self::register(name, id, &resources)
    }

    /// Registers a device `name` that only owns memory, and lives as long as this. There may be
    /// several of them. No driver may have that name.
    pub(super) fn without_resources(name: &'static CStr) -> Result<Self> {
        Self::register(name, bindings::PLATFORM_DEVID_AUTO, &[])
    }

    fn register(name: &'static CStr, id: i32, resources: &[bindings::resource]) -> Result<Self> {
        let info = bindings::platform_device_info {
            name: name.as_char_ptr(),
            id,
            res: resources.as_ptr(),
            // CAST: two at most.
            num_res: resources.len() as c_uint,
            dma_mask: 0xFFFF_FFFF,
            ..pin_init::zeroed()
        };
        // SAFETY: `info` is valid during the call, which copies its name and its resources.
        let device = from_err_ptr(unsafe { bindings::platform_device_register_full(&info) })?;
        // INVARIANT: Registered just now.
        Ok(Self(device))
    }

    /// Whether a driver is bound to the device.
    pub(crate) fn is_bound(&self) -> bool {
        // SAFETY: The device is live. Probing ended before `new` returned. Only sysfs could change
        // the binding, and this is a snapshot.
        let driver = unsafe { core::ptr::addr_of!((*self.0).dev.driver).read_volatile() };
        !driver.is_null()
    }
}

impl AsRef<device::Device> for OwnDevice {
    fn as_ref(&self) -> &device::Device {
        // SAFETY: By the type invariant the device is registered as long as this lives.
        unsafe { device::Device::from_raw(&raw mut (*self.0).dev) }
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is registered. Only this drop unregisters it.
        unsafe { bindings::platform_device_unregister(self.0) }
    }
}

/// A component for the device-tree node of a core that this driver drives.
///
/// While an aggregate has bound it, the module cannot be unloaded. When this is dropped, the
/// component stays until that aggregate ends.
///
/// # Invariants
///
/// `raw` came from `gal_new_stand_in`, and stays valid until this is dropped. Remaining components
/// are only freed after the last [`InUse`].
pub(crate) struct StandIn {
    raw: *mut shim::gal_stand_in,
    _in_use: InUse,
}

// SAFETY: `raw` is only used to drop it, which any thread may do.
unsafe impl Send for StandIn {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for StandIn {}

impl StandIn {
    /// Adds a component for the core `dev`, if it has a node. If an aggregate waited only for this
    /// component, it is bound before this returns. Its errors are returned. `EBUSY`: the core
    /// already has one.
    pub(crate) fn new(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        let in_use = InUse::new()?;
        // SAFETY: The device is live. The call only uses its name and its node.
        let raw = from_err_ptr(unsafe { shim::gal_new_stand_in(raw_device(dev)) })?;
        if raw.is_null() {
            return Ok(None);
        }
        // INVARIANT: Created or reused just now. In both cases only this value owns it.
        Ok(Some(Self {
            raw,
            _in_use: in_use,
        }))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `raw` is live. Nothing uses it after this drop.
        unsafe { shim::gal_drop_stand_in(self.raw) }
    }
}

/// Frees all remaining components.
///
/// # Safety
///
/// No [`InUse`] exists, and none can be created.
pub(super) unsafe fn end_all() {
    // SAFETY: By the caller there is no `StandIn`.
    unsafe { shim::gal_end_stand_ins() }
}

pub(crate) use super::shim::gal_parameters as RawParameters;

/// The parameters as the loader has set them. Do not copy them to a stack: they are large.
pub(crate) fn all() -> &'static RawParameters {
    // SAFETY: The loader wrote the parameters before module init. Permission 0444 allows no write
    // afterwards.
    unsafe { &*core::ptr::addr_of!(shim::gal_parameters) }
}

/// Whether the parameters of any core with an interrupt line name the `size` bytes at `start` as
/// its registers.
fn name_registers(start: u64, size: usize) -> bool {
    let raw = all();
    let single = [
        (raw.irqLine, (raw.registerMemBase, raw.registerMemSize)),
        (
            raw.irqLine2D,
            (raw.registerMemBase2D, raw.registerMemSize2D),
        ),
        (
            raw.irqLineVG,
            (raw.registerMemBaseVG, raw.registerMemSizeVG),
        ),
    ];
    let several = raw.registerBases.into_iter().zip(raw.registerSizes);
    let several = raw.irqs.into_iter().zip(several);
    let several_2d = raw.register2DBases.into_iter().zip(raw.register2DSizes);
    let several_2d = raw.irq2Ds.into_iter().zip(several_2d);
    // Names the trait, because `Init` also has a `chain`.
    let all = Iterator::chain(single.into_iter(), several);
    Iterator::chain(all, several_2d).any(|(line, (base, bytes))| {
        line > 0 && base != 0 && (usize_as_u64(base), bytes) == (start, size)
    })
}

/// Whether `contiguousBase`, if it is set, and `contiguousSize` name all of the `size` bytes at
/// `start`.
pub(super) fn name_memory(start: u64, size: usize) -> bool {
    let raw = all();
    let (first, bytes) = (
        usize_as_u64(raw.contiguousBase),
        usize_as_u64(raw.contiguousSize),
    );
    first != 0 && lies_in(start, size, first, bytes)
}

/// Whether the `size` bytes at `start` lie in the `bytes` bytes at `first`.
pub(super) fn lies_in(start: u64, size: usize, first: u64, bytes: u64) -> bool {
    let offset = start.checked_sub(first);
    let end = offset.and_then(|offset| offset.checked_add(usize_as_u64(size)));
    end.is_some_and(|end| end <= bytes)
}
