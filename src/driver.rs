// SPDX-License-Identifier: GPL-2.0-only

//! The platform driver: probe and unbind.

use crate::{
    abi::HardwareType,
    client::{
        AnyCore,
        Clients,
        Device,
        Governed,
        PowerSwitch,
        Published,
        Running,
        CLIENTS, //
    },
    hw::{
        self,
        Clocks,
        Hardware,
        Identity,
        MmuVersion,
        Points,
        Power,
        Powered, //
    },
    memory::VideoMemory,
    mmu::Vm,
    params::{
        CoreLocation,
        Parameters,
        PoolSource,
        Refusal, //
    },
    ring::Reclaimer,
    sys::{
        self,
        dma::{
            self,
            DmaBuffer,
            Setup, //
        },
        mmio::{
            Claim,
            Registers, //
        },
        platform::{
            OwnDevice,
            StandIn, //
        },
        power::{
            Managed,
            Supply, //
        },
        prelude::*,
        text_files::{
            Attribute,
            ShownAttribute,
            Text, //
        },
        tree::{
            self,
            NodeHolder,
            Region,
            Registration,
            ResetLine, //
        }, //
    },
    uapi::nodes::OfCore, //
};
use kernel::{
    device::Core as CoreContext,
    dma::DmaMask,
    of,
    platform, //
};

/// Name of the driver, and of devices for cores that the parameters describe.
pub(crate) const NAME: &CStr = c"galcore";

crate::sys::platform::of_device_table!(
    NODES,
    <Driver as platform::Driver>::IdInfo,
    [(of::DeviceId::new(c"vivante,gc"), ())]
);

/// The most flushes of the work queue at module unload.
const END_ROUNDS: u32 = 64;

/// The most device-tree nodes in the log if no core is bound.
const MAX_TOLD: u32 = 8;

/// The driver.
pub(crate) struct Driver;

/// The resources of a bound core. They are dropped in this order, while it is on.
pub(crate) struct Bound<'bound> {
    /// The component for drivers that wait for all cores. Removed before these may bind this core.
    _stand_in: Option<StandIn>,
    /// The file `gpu_govern`, if the core has operating points.
    _shown: Option<ShownAttribute<'bound>>,
    _governed: Option<Governed>,
    /// Makes the core visible to clients.
    _published: Published,
    /// The DRM nodes of the core, if any.
    _drm: OfCore,
    /// The interrupt. Freeing it waits for its thread.
    _interrupt: Registration<'bound, AnyCore>,
    /// Stops the core, and frees its place.
    _running: Running,
    /// Runtime power management.
    power: Managed<'bound, PowerSwitch>,
    /// Switches off the core's clocks.
    _powered: Powered,
    /// Releases the core's voltage, after its clocks are off.
    _points: Option<Arc<Points>>,
    /// Releases the core's registers to other drivers. This driver does not access them after that,
    /// even if the core is still referenced.
    _claim: Claim,
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.power.keep_on();
    }
}

/// Dropping this removes the clients of the device: at module unload, or if the probe of the first
/// core fails. Otherwise the clients outlive the cores.
pub(crate) struct ClientsGuard;

impl Drop for ClientsGuard {
    fn drop(&mut self) {
        let Some(clients) = CLIENTS.retract() else {
            return;
        };
        // No core is bound, and no file is open. Released memory is queued once for each core, and
        // the end of a process takes three steps.
        for _ in 0..END_ROUNDS {
            sys::work::flush();
            if !clients.device().reclaimer.is_busy() {
                break;
            }
        }
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
        let parameters = Parameters::load()?;
        let dev = pdev.as_ref();
        if dma::is_translated(dev) {
            dev_err!(dev, "{}", TRANSLATED);
            return Err(ENODEV);
        }
        // A register access to a core without power hangs the machine.
        if tree::count_domains(dev) > 1 {
            dev_err!(
                dev,
                "its node names several power domains, of which the kernel switches none\n"
            );
            return Err(EINVAL);
        }
        let clocks = Clocks::get(dev)
            .and_then(|clocks| clocks.enable().map(|()| clocks))
            .inspect_err(|&error| {
                if error != EPROBE_DEFER {
                    dev_err!(dev, "its clocks cannot be enabled ({error:?})\n");
                }
            })?;
        let points = Points::get(dev)?;
        let supply = Supply::new(dev)?;
        let line = ResetLine::get(dev).inspect_err(|&error| {
            if error != EPROBE_DEFER {
                dev_err!(
                    dev,
                    "its reset line cannot be requested ({error:?}): no other device may have it\n"
                );
            }
        })?;
        let (registers, claim) = map_registers(pdev)?;
        let start = claim.start();
        let identity = hw::identify(dev, &registers)?;
        let kind = identity.hardware_type();
        let clock_rates = parameters.core_clocks;
        let (is_wanted, clock_rate, name) = match kind {
            HardwareType::ThreeD | HardwareType::Both => {
                (parameters.kinds.three_d, clock_rates.three_d, "3d")
            }
            HardwareType::TwoD => (parameters.kinds.two_d, clock_rates.two_d, "2d"),
            HardwareType::Vector => (parameters.kinds.vector, clock_rates.vector, "vg"),
            HardwareType::Neural => (parameters.kinds.neural, clock_rates.three_d, "npu"),
        };
        if !is_wanted {
            dev_info!(
                dev,
                "left to others: {name} is not among the cores of the parameter\n"
            );
            return Err(ENODEV);
        }
        let points = set_clock(dev, &clocks, points, clock_rate)?;
        if let (rate @ 1.., _) = clocks.rates() {
            dev_info!(dev, "its clock: {rate} Hz\n");
        }
        let shares_board = parameters.shares_board;
        let (clients, made) = find_clients(dev, parameters, &identity)?;
        let device = clients.device();
        let place = device.take_place(start).map_err(|error| match error {
            EBUSY => {
                // Other cores work, so this does not report a driver failure to the kernel.
                dev_info!(
                    dev,
                    "left to others: this device has as many cores as there can be\n"
                );
                ENODEV
            }
            other => other,
        })?;
        let power = Power {
            clocks,
            line,
            supply: supply.clone(),
        };
        let hardware = Hardware::new(
            dev,
            place.index(),
            device.memory.owner(),
            registers,
            power,
            identity,
        )?;
        let powered = Powered(hardware.clone());
        let core = place.new_core(hardware.clone())?;
        // Dropped after the interrupt, if the rest fails.
        let running = Running {
            core: core.clone(),
            place,
        };
        let interrupt = Registration::new(pdev, NAME, core.clone()).inspect_err(|error| {
            dev_err!(dev, "its interrupt cannot be requested ({error:?})\n");
        })?;
        core.start().inspect_err(|_| core.drain())?;
        let parameters = &device.parameters;
        let (delay, stays_on) = (parameters.autosuspend, !parameters.power_management);
        let switch = core.power_switch(&device.memory);
        let power = Managed::new(dev, &supply, switch, delay, stays_on)?;
        let published = running.place.publish(core)?;
        clients.set_speeds();
        let (governed, shown) = match (kind, &points) {
            (HardwareType::ThreeD | HardwareType::Both, Some(points)) => {
                let governed = device.governor.add(hardware, points.clone())?;
                (Some(governed), show_govern(dev))
            }
            _ => (None, None),
        };
        // From now on runtime PM may switch the core off.
        supply.request_off();
        made.keep();
        Ok(Bound {
            _stand_in: shares_board.then(|| stand_in(dev)).flatten(),
            _shown: shown,
            _governed: governed,
            _published: published,
            _drm: OfCore::new(&clients, dev),
            _interrupt: interrupt,
            _running: running,
            power,
            _powered: powered,
            _points: points,
            _claim: claim,
        })
    }
}

/// Sets the clock of `dev` to `wanted` Hz, if given, through its operating points, if any. Called
/// only for a core that this driver takes. `ENOMEM`.
fn set_clock(
    dev: &kernel::device::Device,
    clocks: &Clocks,
    points: Option<Points>,
    wanted: Option<usize>,
) -> Result<Option<Arc<Points>>> {
    let set = match (&points, wanted) {
        (Some(points), wanted) => points.set_first(dev, clocks, wanted),
        (None, Some(rate)) => clocks.set_rate(rate),
        (None, None) => Ok(()),
    };
    if let Err(error) = set {
        let rate = wanted.unwrap_or(clocks.rates().0);
        dev_warn!(dev, "its clock cannot be set to {rate} Hz ({error:?})\n");
    }
    Ok(match points {
        Some(points) => Some(Arc::new(points, GFP_KERNEL)?),
        None => None,
    })
}

/// The file `gpu_govern`.
struct Govern;

impl Attribute for Govern {
    fn show(text: &mut Text<'_>) -> Result {
        let clients = CLIENTS.get().ok_or(ENODEV)?;
        clients.device().governor.show(text)
    }

    fn store(text: &[u8]) -> Result {
        let clients = CLIENTS.get().ok_or(ENODEV)?;
        clients.device().governor.switch(text)
    }
}

/// Creates the file `gpu_govern`. Logs a failure. The core works without the file.
fn show_govern(dev: &kernel::device::Device<kernel::device::Bound>) -> Option<ShownAttribute<'_>> {
    let shown = ShownAttribute::new::<Govern>(dev);
    let shown = shown.inspect_err(|error| {
        dev_warn!(dev, "no file gpu_govern ({error:?})\n");
    });
    shown.ok()
}

/// Registers a component for the core `dev`, on a board where etnaviv may drive other cores. The
/// device of etnaviv is only bound when each node has its component.
fn stand_in(dev: &kernel::device::Device<kernel::device::Bound>) -> Option<StandIn> {
    let stand_in = StandIn::new(dev).inspect_err(|error| {
        dev_warn!(
            dev,
            "a driver that waits for all cores does not come up ({error:?})\n"
        );
    });
    stand_in.ok().flatten()
}

const TRANSLATED: &str = "an IOMMU is between it and memory, and it needs physical addresses: \
    boot with iommu.passthrough=1\n";

/// Clients of a new device, if any. Dropping this removes them, unless a core is bound.
struct Made(Option<Arc<Clients>>);

impl Made {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let clients = self.0.take();
        if clients.is_some_and(|clients| clients.device().close_if_deserted()) {
            drop(ClientsGuard);
        }
    }
}

/// Finds the device of all cores, and its clients. If there is none, creates one, with memory that
/// the core `dev` with `identity` reaches.
fn find_clients(
    dev: &kernel::device::Device,
    mut parameters: KBox<Parameters>,
    identity: &Identity,
) -> Result<(Arc<Clients>, Made)> {
    if let Some(clients) = CLIENTS.get() {
        return Ok((clients, Made(None)));
    }
    let mut dma = Setup::new(c"galcore-memory", dev).inspect_err(|&error| match error {
        ENODEV => dev_err!(dev, "{}", TRANSLATED),
        EPROBE_DEFER => {}
        _ => dev_err!(dev, "no device for its memory ({error:?})\n"),
    })?;
    let version = MmuVersion::of(identity);
    // A core that is bound later may have a simpler MMU.
    let versions = match tree::count_nodes() + parameters.locations.iter().flatten().count() {
        0 | 1 => [version, version],
        _ => [version, MmuVersion::V1],
    };
    set_dma_masks(dev, &mut dma, &parameters, version)?;
    use_region(dev, &mut dma, &mut parameters)?;
    let dma = dma.finish()?;
    // With MMU version 1 and an old memory controller, tile status ignores the base address.
    let may_count = parameters.base_address == 0 && identity.has_new_memory_controller();
    let given = parameters.base_address;
    let base_address = if version == MmuVersion::V2 || may_count {
        // Two pages, because the kernel may allocate a single one outside the contiguous area.
        let contiguous = DmaBuffer::new(&dma, 2 * PAGE_SIZE)
            .inspect_err(|_| dev_err!(dev, "no contiguous memory: increase cma=\n"))?;
        parameters.choose_base(contiguous.dma_address())
    } else {
        given
    };
    if given != 0 && base_address != given {
        dev_info!(
            dev,
            "baseAddress is for cores with an older MMU: addresses count from {base_address:#x}\n"
        );
    }
    let counted = parameters.count_from(base_address);
    counted.map_err(|Refusal(name, why)| {
        dev_err!(dev, "{name} {why} (base address {base_address:#x})\n");
        EINVAL
    })?;
    // Ring commands only load the MMU of one pipe.
    let has_two = identity.has_3d() && identity.has_2d();
    let is_shared = parameters.shared_nodes || has_two;
    let vm = Vm::new(&dma, &versions, base_address, is_shared)
        .inspect_err(|_| dev_err!(dev, "no memory for the MMU's tables\n"))?;
    let memory = VideoMemory::new(dev, &dma, &parameters, base_address, identity, vm.clone())?;
    let device = Device::new(parameters, base_address, vm, memory, Reclaimer::new()?)?;
    let clients = Clients::new(device)?;
    // If another core was quicker, use its device.
    let made = match CLIENTS.publish(clients.clone()) {
        Ok(()) => Made(Some(clients)),
        Err(_) => Made(None),
    };
    Ok((CLIENTS.get().ok_or(EPROBE_DEFER)?, made))
}

/// Limits pages to addresses that an MMU of `version` reaches. Limits coherent memory to addresses
/// that the GPU reaches without its MMU, if the kernel accepts this.
fn set_dma_masks(
    dev: &kernel::device::Device,
    dma: &mut Setup<'_>,
    parameters: &Parameters,
    version: MmuVersion,
) -> Result {
    let low = DmaMask::new::<32>();
    let pages = match version {
        MmuVersion::V1 => low,
        MmuVersion::V2 => DmaMask::new::<40>(),
    };
    let counts = parameters.base_address != 0 && version == MmuVersion::V1;
    if !counts && dma.set_masks(pages, DmaMask::new::<31>()).is_ok() {
        return Ok(());
    }
    // The kernel refuses a 31-bit mask if memory lies above 2 GiB. Then buffers there fail later.
    dma.set_masks(pages, low).inspect_err(|error| {
        dev_err!(dev, "it cannot reach memory ({error:?})\n");
    })
}

/// Selects the source of the pool. A reusable region becomes the source of all contiguous memory.
fn use_region(
    dev: &kernel::device::Device,
    dma: &mut Setup<'_>,
    parameters: &mut Parameters,
) -> Result {
    let region = Region::of(dev).inspect_err(|_| {
        dev_err!(
            dev,
            "memory-region names no region that the kernel has set aside: check reserved-memory\n"
        );
    })?;
    let placed = parameters.place_pool(region);
    placed.map_err(|Refusal(name, why)| {
        dev_err!(dev, "{name} {why}\n");
        EINVAL
    })?;
    if let (Some(_), PoolSource::Reserved(..)) = (region, parameters.pool) {
        dev_info!(dev, "contiguousBase is given: the pool is there\n");
    }
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
fn map_registers(pdev: &platform::Device<CoreContext<'_>>) -> Result<(Registers, Claim)> {
    let resource = pdev.resource_by_index(0).ok_or(ENODEV).inspect_err(|_| {
        dev_err!(pdev, "it has no registers: the node lacks reg\n");
    })?;
    let start = resource.start();
    Registers::map(pdev, 0).inspect_err(|&error| {
        if error == EBUSY {
            dev_err!(
                pdev,
                "the registers at {start:#x} are taken: unbind the device that has them\n"
            );
        } else {
            dev_err!(
                pdev,
                "the registers at {start:#x} cannot be mapped ({error:?})\n"
            );
        }
    })
}

/// The platform devices for cores that the parameters describe.
pub(crate) struct ParameterCores {
    _devices: KVec<OwnDevice>,
}

impl ParameterCores {
    /// Creates a device for each core that the parameters, but no enabled node, describe.
    ///
    /// `ENODEV`: the driver has refused all of them, and has logged why.
    pub(crate) fn new(parameters: &Parameters) -> Result<Self> {
        let mut devices = KVec::new();
        let (mut described, mut bound) = (0, 0);
        for location in parameters.locations.iter().flatten() {
            let node = tree::node_at(location.registers);
            if node.as_ref().is_some_and(|node| node.is_enabled) {
                pr_info!(
                    "the device tree describes the core at {:#x}: its node is used\n",
                    location.registers
                );
                continue;
            }
            // The name of the first device has no number.
            let number = (described > 0).then_some(described);
            let device = new_device(location, node.map(|node| node.line), number)?;
            described += 1;
            bound += usize::from(device.is_bound());
            devices.push(device, GFP_KERNEL)?;
        }
        if described > 0 && bound == 0 {
            return Err(ENODEV);
        }
        if !has_core() {
            tell_of_nodes();
        }
        Ok(Self { _devices: devices })
    }
}

/// Whether a core is bound.
fn has_core() -> bool {
    let clients = CLIENTS.get();
    clients.is_some_and(|clients| clients.device().all_cores().next().is_some())
}

/// Logs why the module has no core: the nodes in the device tree, and the drivers bound to them.
/// Otherwise the driver would seem to work. Not inlined, because module load binds cores on the
/// same stack.
#[cold]
#[inline(never)]
fn tell_of_nodes() {
    // A tree has at most three such nodes, fewer than `MAX_TOLD`.
    let mut nodes = (0..MAX_TOLD).map_while(NodeHolder::of).peekable();
    if nodes.peek().is_none() {
        pr_warn!(
            "no core: the device tree has no enabled vivante,gc node, and no parameter describes one\n"
        );
    }
    for node in nodes {
        let (device, driver) = (node.device(), node.driver());
        if device.is_empty() {
            pr_warn!("no core: the kernel has created no device for a vivante,gc node\n");
        } else if driver.is_empty() {
            pr_notice!(
                "no core yet: {device} has no driver; it was refused above, is left to others, or waits for its clocks or power (devices_deferred in debugfs)\n"
            );
        } else {
            pr_warn!(
                "no core: {device} has the driver {driver}, which was first: keep it from loading, or share the cores out (parameter cores)\n"
            );
        }
    }
}

/// Creates a device for a core that the parameters describe. `line`: its interrupt in a disabled
/// node. 0: none. Refuses a different `irqLine`: documents of old kernels may use other numbers.
fn new_device(location: &CoreLocation, line: Option<u32>, number: Option<u8>) -> Result<OwnDevice> {
    let (start, size) = (location.registers, location.size);
    if let Some(right) = line.filter(|&line| line != 0 && line != location.line) {
        pr_err!(
            "irqLine {} is not the interrupt of the core at {start:#x}: the device tree's disabled node has {right}\n",
            location.line
        );
        return Err(EINVAL);
    }
    if crate::sys::mmio::is_system_ram(start, size) {
        pr_err!("registerMemBase {start:#x} is memory, not registers\n");
        return Err(EINVAL);
    }
    let line = tree::map_line(location.line).inspect_err(|error| {
        pr_err!(
            "irqLine {} is no line of the interrupt controller ({error:?})\n",
            location.line
        );
    })?;
    OwnDevice::new(NAME, number, start, size, line).inspect_err(|error| {
        pr_err!("no device at registerMemBase {start:#x} ({error:?})\n");
    })
}
