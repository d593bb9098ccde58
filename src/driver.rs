// SPDX-License-Identifier: GPL-2.0-only

//! The platform driver: probe and unbind.

use crate::{
    client::{
        Clients,
        Core,
        Device,
        Interrupt,
        CLIENTS, //
    },
    hw::Hardware,
    memory::VideoMemory,
    mmu::Vm,
    params::{
        Parameters,
        PoolSource,
        Refusal, //
    },
    ring::Reclaimer,
    sys::{
        dma::Setup,
        irq::{
            self,
            Registration, //
        },
        mmio::Registers,
        platform::OwnDevice,
        region::Region, //
    }, //
};
use kernel::{
    clk::OptionalClk,
    device::Core as CoreContext,
    dma::DmaMask,
    of,
    platform,
    prelude::*,
    sync::Arc, //
};

/// Name of the driver, and of the device that parameters make.
pub(crate) const NAME: &CStr = c"galcore";

/// Clocks of a node, by etnaviv's names. Each may be absent: old trees name some, boards without
/// a node none.
const CLOCKS: [&CStr; 4] = [c"bus", c"core", c"shader", c"reg"];

crate::sys::platform::of_device_table!(
    NODES,
    <Driver as platform::Driver>::IdInfo,
    [(of::DeviceId::new(c"vivante,gc"), ())]
);

/// The driver.
pub(crate) struct Driver;

/// The enabled clocks of a core.
struct Clocks([Option<OptionalClk>; CLOCKS.len()]);

impl Clocks {
    fn enable(dev: &kernel::device::Device) -> Result<Self> {
        let mut clocks = Self([const { None }; CLOCKS.len()]);
        for (slot, name) in clocks.0.iter_mut().zip(CLOCKS) {
            let clock = OptionalClk::get(dev, Some(name))?;
            clock.prepare_enable()?;
            *slot = Some(clock);
        }
        Ok(clocks)
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        for clock in self.0.iter().flatten() {
            clock.disable_unprepare();
        }
    }
}

/// What a bound core has; dropped in this order.
pub(crate) struct Bound<'bound> {
    /// The device can be found.
    _published: Published,
    /// The interrupt, whose end waits for its thread.
    _interrupt: Registration<'bound, Interrupt>,
    /// Stops the core when all who use it are gone.
    _running: Running,
    _clocks: Clocks,
}

/// The device is what `open(2)` finds; at its end the core's work comes to rest.
struct Published(Arc<Core>);

impl Drop for Published {
    fn drop(&mut self) {
        drop(CLIENTS.retract());
        // While its interrupt still comes.
        self.0.drain();
    }
}

/// A core that has been started.
struct Running(Arc<Core>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl platform::Driver for Driver {
    type IdInfo = ();
    type Data<'bound> = Bound<'bound>;
    const OF_ID_TABLE: Option<of::IdTable<Self::IdInfo>> = Some(&NODES);

    fn probe<'bound>(
        pdev: &'bound platform::Device<CoreContext<'_>>,
        _: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        let mut parameters = Parameters::load()?;
        let dev = pdev.as_ref();
        if CLIENTS.get().is_some() {
            dev_err!(
                dev,
                "one core is bound already, and this driver drives one\n"
            );
            return Err(EBUSY);
        }
        let mut dma = Setup::new(pdev).inspect_err(|&error| match error {
            ENODEV => dev_err!(
                dev,
                "an IOMMU is between it and memory, and it needs physical addresses: boot with iommu.passthrough=1\n"
            ),
            _ => dev_err!(dev, "memory of its last driver is still in use\n"),
        })?;
        let clocks = Clocks::enable(dev).inspect_err(|error| {
            dev_err!(dev, "its clocks cannot be enabled ({error:?})\n");
        })?;
        set_dma_mask(dev, &mut dma, &parameters)?;
        use_region(dev, &mut dma, &mut parameters)?;
        let dma = dma.finish()?;
        let registers = map_registers(pdev)?;
        let hardware = Hardware::new(&dma, registers)?;
        let vm = Vm::new(&dma, &[hardware.mmu_version()])
            .inspect_err(|_| dev_err!(dev, "no memory for the MMU's tables\n"))?;
        let reclaimer = Reclaimer::new()?;
        let core = Core::new(0, hardware, vm.clone(), reclaimer.clone(), &parameters)?;
        let memory = VideoMemory::new(
            &dma,
            &parameters,
            core.base_address(),
            core.identity(),
            vm.clone(),
        )?;
        // Dropped after the interrupt, should the rest fail.
        let running = Running(core.clone());
        let interrupt = Registration::new(pdev, NAME, core.interrupt()).inspect_err(|error| {
            dev_err!(dev, "its interrupt cannot be requested ({error:?})\n");
        })?;
        core.start()?;
        core.test_interrupt()?;
        let device = Device::new(parameters, core.clone(), vm, memory, reclaimer)?;
        CLIENTS.publish(Clients::new(device)?)?;
        Ok(Bound {
            _published: Published(core.clone()),
            _interrupt: interrupt,
            _running: running,
            _clocks: clocks,
        })
    }
}

/// Lets coherent memory lie only where the GPU reaches it without its MMU, and pages below 4 GiB.
fn set_dma_mask(
    dev: &kernel::device::Device,
    dma: &mut Setup<'_, '_>,
    parameters: &Parameters,
) -> Result {
    let all = DmaMask::new::<32>();
    if parameters.base_address == 0 && dma.set_masks(all, DmaMask::new::<31>()).is_ok() {
        return Ok(());
    }
    // With memory above 2 GiB the mask cannot be had; what lies too high is refused one by one.
    dma.set_masks(all, all).inspect_err(|error| {
        dev_err!(dev, "it cannot reach memory ({error:?})\n");
    })
}

/// Settles where the pool comes from, and has all contiguous memory come from a reusable region.
fn use_region(
    dev: &kernel::device::Device,
    dma: &mut Setup<'_, '_>,
    parameters: &mut Parameters,
) -> Result {
    let region = Region::of(dev).inspect_err(|_| {
        dev_err!(
            dev,
            "memory-region names no region that the kernel has set aside: check reserved-memory\n"
        );
    })?;
    let place = parameters.place_pool(region);
    let pool = place.map_err(|Refusal(name, why)| {
        dev_err!(dev, "{name} {why}\n");
        EINVAL
    })?;
    if let (Some(_), PoolSource::Reserved(..)) = (region, pool) {
        dev_info!(dev, "contiguousBase is given: the pool is there\n");
    }
    parameters.pool = pool;
    match region {
        Some(region) if region.is_reusable => dma.assign_region().inspect_err(|_| {
            dev_err!(
                dev,
                "memory-region is reusable, and the kernel cannot lend it: it must be a shared-dma-pool, of whole blocks\n"
            );
        }),
        _ => Ok(()),
    }
}

/// Claims and maps the first register block of the device.
fn map_registers(pdev: &platform::Device<CoreContext<'_>>) -> Result<Registers> {
    let resource = pdev.resource_by_index(0).ok_or(ENODEV).inspect_err(|_| {
        dev_err!(pdev, "it has no registers: the node lacks reg\n");
    })?;
    let (start, size) = (resource.start(), usize::try_from(resource.size())?);
    Registers::map(start, size).inspect_err(|&error| {
        if error == EBUSY {
            dev_err!(
                pdev,
                "another driver has the registers at {start:#x}: unload etnaviv\n"
            );
        } else {
            dev_err!(
                pdev,
                "the registers at {start:#x} cannot be mapped ({error:?})\n"
            );
        }
    })
}

/// The platform device that the parameters describe.
pub(crate) struct ParameterCore {
    _device: OwnDevice,
}

impl ParameterCore {
    /// Makes the device, if the parameters name a core that no device-tree node describes.
    ///
    /// `ENODEV`: the driver has refused it, and has printed why.
    pub(crate) fn new(parameters: &Parameters) -> Result<Option<Self>> {
        let Some(location) = parameters.core else {
            return Ok(None);
        };
        if irq::node_exists(location.registers) {
            pr_info!("the device tree describes the core at registerMemBase: its node is used\n");
            return Ok(None);
        }
        if crate::sys::physical::is_system_ram(location.registers, location.size) {
            pr_err!(
                "registerMemBase {:#x} is memory, not registers\n",
                location.registers
            );
            return Err(EINVAL);
        }
        let line = irq::map_line(location.line).inspect_err(|error| {
            pr_err!(
                "irqLine {} is no line of the interrupt controller ({error:?})\n",
                location.line
            );
        })?;
        let device =
            OwnDevice::new(NAME, location.registers, location.size, line).inspect_err(|error| {
                pr_err!(
                    "no device at registerMemBase {:#x} ({error:?})\n",
                    location.registers
                );
            })?;
        if !device.is_bound() {
            return Err(ENODEV);
        }
        Ok(Some(Self { _device: device }))
    }
}
