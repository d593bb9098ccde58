// SPDX-License-Identifier: GPL-2.0-only

//! One GPU core: its registers, identity, reset and interrupt.
//!
//! Owns the register mapping, the ring and the MMU table. Takes no lock of its own; the interrupt
//! half only reads and clears the acknowledge register and wakes the thread.

mod identity;
mod monitor;
mod regs;

use crate::{
    command::{
        checker::{
            Engines,
            PhysicalStates,
            Scratch, //
        },
        context::StateMap,
        scrub::Scrub,
        states::States,
        words::{
            self,
            Pipe, //
        },
        Ring, //
    },
    error,
    event::Actions,
    mmu::{
        AddressSpace,
        Version, //
    },
    params::Parameters,
    sys::{
        self,
        irq::Handler,
        mmio::Registers, //
    },
};
use identity::Words;
use kernel::{
    device,
    io::Io,
    irq::ThreadedIrqReturn,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use regs::*;

pub(crate) use {
    identity::Identity,
    monitor::Monitor, //
};

/// How often a core is reset before it is given up.
const RESET_ATTEMPTS: u32 = 20;

/// How long the first event may take, in milliseconds.
const FIRST_EVENT_TIMEOUT: u32 = 1000;

/// How long setting MMU version 2 up may take, in milliseconds.
const SETUP_TIMEOUT: u32 = 100;

/// How long work under way may take to end when the core is stopped, in milliseconds.
const STOP_TIMEOUT: u32 = 100;

/// Value of the AXI configuration: cached reads and writes, which i.MX6 needs.
const AXI_CACHE: u32 = 2;

/// The undivided clock.
const FULL_SPEED: u32 = 64;

/// Base value of the pulse eater, and its bit 17 (internal DFS).
const PULSE_EATER: u32 = 0x0159_0880;
const PULSE_EATER_DFS: u32 = 1 << 17;

impl Words for Registers {
    fn identity(&self) -> HI_CHIP_IDENTITY {
        self.read(HI_CHIP_IDENTITY)
    }
    fn model(&self) -> u32 {
        self.read(HI_CHIP_MODEL).into_raw()
    }
    fn revision(&self) -> u32 {
        self.read(HI_CHIP_REV).into_raw()
    }
    fn date_time(&self) -> (u32, u32) {
        (
            self.read(HI_CHIP_DATE).into_raw(),
            self.read(HI_CHIP_TIME).into_raw(),
        )
    }
    fn features(&self) -> u32 {
        self.read(HI_CHIP_FEATURE).into_raw()
    }
    fn minor_features_0(&self) -> u32 {
        self.read(HI_CHIP_MINOR_FEATURE_0).into_raw()
    }
    fn more_minor_features(&self) -> [u32; 3] {
        [
            self.read(HI_CHIP_MINOR_FEATURE_1).into_raw(),
            self.read(HI_CHIP_MINOR_FEATURE_2).into_raw(),
            self.read(HI_CHIP_MINOR_FEATURE_3).into_raw(),
        ]
    }
    fn specs(&self) -> (HI_CHIP_SPECS, HI_CHIP_SPECS_2, HI_CHIP_SPECS_3) {
        (
            self.read(HI_CHIP_SPECS),
            self.read(HI_CHIP_SPECS_2),
            self.read(HI_CHIP_SPECS_3),
        )
    }
}

/// What `/proc/driver/gc` shows of the registers.
pub(crate) struct IdleState {
    /// `HI_IDLE_STATE`.
    pub(crate) idle: u32,
    /// `HI_CLOCK_CONTROL`.
    pub(crate) clock_control: u32,
    /// Whether all modules are idle and the front end rests at the ring's end.
    pub(crate) is_idle: bool,
}

/// A core.
pub(crate) struct Core {
    dev: ARef<device::Device>,
    registers: Arc<Registers>,
    monitor: Arc<Monitor>,
    identity: Identity,
    states: Arc<States>,
    base_address: u32,
    scratch: Scratch,
    scrub: Arc<Scrub>,
    state_map: Arc<StateMap>,
    space: Arc<AddressSpace>,
    ring: Arc<Ring>,
}

impl Core {
    /// Identifies and resets the core behind `registers`. It does not run yet.
    ///
    /// Every failure has been printed.
    pub(crate) fn new(
        dev: &device::Device,
        registers: Registers,
        parameters: &Parameters,
    ) -> Result<Arc<Self>> {
        let identity = identify(dev, &registers)?;
        reset(dev, &registers, &identity)?;
        let registers = Arc::new(registers, GFP_KERNEL)?;
        let mmu = if identity.has_mmu_v2() {
            Version::V2
        } else {
            Version::V1
        };
        // Version 2 translates every address: there is nothing to count from.
        let base_address = match mmu {
            Version::V1 => parameters.base_address,
            Version::V2 => 0,
        };
        let monitor = Monitor::new(dev, registers.clone(), mmu)?;
        let padding = identity.needs_event_padding();
        let states = States::new(&identity)
            .inspect_err(|_| dev_err!(dev, "no memory for the list of states\n"))?;
        let engines = states.engines();
        let ring = Ring::new(dev, base_address, padding, engines, mmu, monitor.clone())
            .and_then(|ring| Arc::pin_init(ring, GFP_KERNEL))
            .inspect_err(|_| dev_err!(dev, "no memory for the command ring\n"))?;
        let space = AddressSpace::new(dev, ring.clone(), mmu)
            .inspect_err(|_| dev_err!(dev, "no memory for the MMU's tables\n"))?;
        let scratch = Scratch {
            address: space.scratch_address(),
            // Past the MMU, and past the registers that say where GPU address 0 lies.
            physical: space
                .physical_scratch()
                .filter(|_| !identity.has_new_memory_controller())
                .map(|scratch| PhysicalStates {
                    base: base_address,
                    scratch,
                }),
        };
        let state_map = StateMap::new(&identity).map_err(|error| {
            dev_err!(dev, "no map of the contexts' states ({error:?})\n");
            ENOMEM
        })?;
        let scrub = Scrub::new(&states, &state_map, &scratch).map_err(|error| {
            dev_err!(
                dev,
                "no list of the states that hold addresses ({error:?})\n"
            );
            ENOMEM
        })?;
        let core = Arc::new(
            Self {
                dev: dev.into(),
                registers,
                state_map,
                identity,
                states,
                base_address,
                scratch,
                scrub,
                space,
                monitor,
                ring,
            },
            GFP_KERNEL,
        )?;
        core.initialize(parameters);
        Ok(core)
    }

    /// The device, for its memory.
    pub(crate) fn device(&self) -> &device::Device {
        &self.dev
    }

    /// Who the core is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The states that contexts keep.
    pub(crate) fn state_map(&self) -> &Arc<StateMap> {
        &self.state_map
    }

    /// The pipes of the core.
    pub(crate) fn engines(&self) -> Engines {
        self.states.engines()
    }

    /// The states of the core.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Physical address of GPU address 0.
    pub(crate) fn base_address(&self) -> u32 {
        self.base_address
    }

    /// Memory that is nobody's, as states name it.
    pub(crate) fn scratch(&self) -> Scratch {
        self.scratch
    }

    /// What makes the core forget addresses.
    pub(crate) fn scrub(&self) -> &Scrub {
        &self.scrub
    }

    /// The command ring.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// The GPU's address space.
    pub(crate) fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    /// Bytes of memory that the core itself takes.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.bytes() + self.space.bytes()
    }

    /// Sets the registers that a reset has cleared.
    fn initialize(&self, parameters: &Parameters) {
        let regs = &*self.registers;
        let id = &self.identity;
        regs.write_reg(HI_MEMORY_COUNTER_RESET::from_raw(u32::MAX));
        regs.write_reg(HI_MEMORY_COUNTER_RESET::zeroed());
        regs.write_reg(
            HI_AXI_CONFIG::zeroed()
                .with_const_awcache::<AXI_CACHE>()
                .with_const_arcache::<AXI_CACHE>(),
        );
        self.set_memory_base();
        if let Some(table) = self.space.flat_table() {
            self.set_page_table(table);
        }
        self.set_clock_gating();
        if id.model == 0x2000 && id.revision == 0x5108 {
            let bus = regs.read(MC_BUS_CONFIG).into_raw();
            regs.write_reg(MC_BUS_CONFIG::from_raw((bus & !0xFF) | 0x01));
        }
        let fast_clear = id.fast_clear(parameters.fast_clear);
        let compression = id.compression(parameters.fast_clear, parameters.compression);
        let memory = regs.read(MC_DEBUG_MEMORY);
        let memory = match id.outstanding_limit(regs) {
            Some(limit) => MC_DEBUG_MEMORY::from_raw((memory.into_raw() & !0xFF) | limit),
            None => memory,
        };
        regs.write_reg(
            memory
                .with_fast_clear_bypass(!fast_clear)
                .with_compression_bypass(!compression)
                .with_hz_l2_disable(id.has_faulty_hz_cache()),
        );
    }

    /// Tells every unit where GPU address 0 lies.
    fn set_memory_base(&self) {
        let regs = &*self.registers;
        let base = self.base_address;
        regs.write_reg(MC_MEMORY_BASE_ADDR_FE::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_RA::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_PE::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_TX::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_PEZ::from_raw(base));
    }

    /// Tells every unit where the page table lies (MMU version 1).
    fn set_page_table(&self, table: u32) {
        let regs = &*self.registers;
        regs.write_reg(MC_MMU_FE_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_RA_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_TX_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_PE_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_PEZ_PAGE_TABLE::from_raw(table));
    }

    /// Switches the clock gating of idle modules on, but for those with known faults.
    fn set_clock_gating(&self) {
        let regs = &*self.registers;
        let id = &self.identity;
        let stalls = matches!(id.revision, 0x4301 | 0x4302);
        regs.write_reg(
            regs.read(PM_POWER_CONTROLS)
                .with_enable_module_clock_gating(true)
                .with_disable_stall_module_clock_gating(stalls),
        );
        let pe = id.revision < 0x5000
            && id.minor_features[1] & (1 << 9) == 0
            && id.minor_features[0] & (1 << 27) != 0;
        let pa = id.model >= 0x400 && id.model != 0x420;
        regs.write_reg(
            regs.read(PM_MODULE_CONTROLS)
                .with_disable_module_clock_gating_pe(pe)
                .with_disable_module_clock_gating_pa(pa),
        );
    }

    /// Starts the front end in the ring's idle loop. The interrupt must be requested. What the GPU
    /// does not do has been printed.
    pub(crate) fn start(&self) -> Result {
        if let Some((table, safe)) = self.space.two_level_table() {
            self.enable_mmu(table, safe)?;
        }
        let (address, units) = self.ring.start()?;
        self.registers.write_reg(HI_INTR_ENBL::from_raw(u32::MAX));
        self.run_front_end(address, units)
    }

    /// Lets the front end run from `address`, where `units` of 8 bytes lie.
    fn run_front_end(&self, address: u32, units: u32) -> Result {
        let regs = &*self.registers;
        regs.write_reg(FE_COMMAND_ADDRESS::from_raw(address));
        regs.write_reg(
            FE_COMMAND_CONTROL::zeroed()
                .with_enable(true)
                .try_with_prefetch(units)?,
        );
        Ok(())
    }

    /// Switches MMU version 2 on: the front end itself loads where the tables lie, while addresses are
    /// still physical; when it has stopped, the switch is a register's.
    fn enable_mmu(&self, table: u32, safe: u32) -> Result {
        let regs = &*self.registers;
        let mut setup = KVec::with_capacity(2, GFP_KERNEL)?;
        for pipe in [Pipe::Pipe3d, Pipe::Pipe2d] {
            if self.engines().has(pipe) {
                setup.push(words::configure_mmu(pipe, table, safe), GFP_KERNEL)?;
            }
        }
        let (address, units) = self.ring.stage(&setup)?;
        self.run_front_end(address, units)?;
        for _ in 0..SETUP_TIMEOUT {
            fsleep(Delta::from_millis(1));
            if regs.read(HI_IDLE_STATE).fe() && self.monitor.is_idle() {
                regs.write_reg(MMUV2_CONTROL::zeroed().with_enable(true));
                return Ok(());
            }
        }
        dev_err!(
            self.dev,
            "the GPU does not take its MMU's tables (front end at {:#010x}, idle {:#010x})\n",
            self.monitor.position(),
            regs.read(HI_IDLE_STATE).into_raw()
        );
        Err(ENODEV)
    }

    /// Sends one event through the core and looks whether its interrupt comes: a wrong line shows
    /// here and not as a client's delay. Every failure has been printed.
    pub(crate) fn test_interrupt(&self) -> Result {
        let number = self.ring.submit(&mut Actions::new());
        let result = number.and_then(|number| self.ring.wait_for(number, FIRST_EVENT_TIMEOUT));
        match result {
            // Without the interrupt the watchdog has ended the submission.
            Ok(()) if self.monitor.line_works() => Ok(()),
            Ok(()) => {
                dev_err!(
                    self.dev,
                    "the GPU runs, but its interrupt does not come on this line: check irqLine or the node's interrupts\n"
                );
                Err(ENODEV)
            }
            Err(error::Error::Interrupted) => {
                dev_err!(self.dev, "loading was interrupted\n");
                Err(EINTR)
            }
            Err(_) => {
                dev_err!(
                    self.dev,
                    "the GPU does not run its command ring (front end at {:#010x}, state {:#x})\n",
                    self.monitor.position(),
                    self.registers.read(FE_DMA_DEBUG_STATE).into_raw()
                );
                Err(ENODEV)
            }
        }
    }

    /// Lets what is under way end, for a moment, and then nobody submit any more.
    pub(crate) fn drain(&self) {
        let newest = self.ring.newest();
        let _ = self.ring.poll_for(newest, STOP_TIMEOUT);
        self.ring.close();
    }

    /// Stops the core: the front end is reset, and what has not ended is dropped. The interrupt must
    /// be freed.
    pub(crate) fn stop(&self) {
        self.ring.close();
        let regs = &*self.registers;
        regs.write_reg(HI_INTR_ENBL::zeroed());
        if reset(&self.dev, regs, &self.identity).is_err() {
            // It keeps running: hold it in reset, cut off from the bus, before its memory goes.
            regs.write_reg(
                HI_CLOCK_CONTROL::zeroed()
                    .with_isolate_gpu(true)
                    .with_soft_reset(true),
            );
            let _ = regs.read(HI_CLOCK_CONTROL);
        }
        self.ring.abandon();
        sys::work::flush();
        // Ends: nothing waits for the GPU any more, so each round drops something.
        while self.ring.has_reclaims() {
            sys::work::flush();
        }
        self.ring.dismiss_watchdog();
        self.space.sweep();
        self.space.dismiss_reaper();
    }

    /// The state of the modules and the front end.
    pub(crate) fn idle_state(&self) -> IdleState {
        let regs = &*self.registers;
        let idle = regs.read(HI_IDLE_STATE).into_raw();
        let clock_control = regs.read(HI_CLOCK_CONTROL).into_raw();
        let at = regs.read(FE_DMA_ADDRESS).into_raw();
        // Bits 1 to 7 are the modules that every core has; bit 0 is the front end, which loops.
        let modules = idle & 0xFE == 0xFE;
        IdleState {
            idle,
            clock_control,
            is_idle: modules && at.wrapping_sub(self.ring.idle_loop()) <= 16,
        }
    }
}

/// The interrupt of a core.
pub(crate) struct Interrupt(pub(crate) Arc<Core>);

impl Handler for Interrupt {
    fn handle(&self) -> ThreadedIrqReturn {
        if self.0.monitor.interrupt() {
            ThreadedIrqReturn::WakeThread
        } else {
            ThreadedIrqReturn::None
        }
    }

    fn handle_threaded(&self) {
        self.0.ring.complete();
    }
}

/// Switches the clocks on and reads who is there.
fn identify(dev: &device::Device, regs: &Registers) -> Result<Identity> {
    load_clock(regs, HI_CLOCK_CONTROL::zeroed());
    let identity = Identity::read(regs);
    if !identity.is_plausible() {
        dev_err!(
            dev,
            "no GPU answers at this register base (model {:#x}, features {:#010x}): check registerMemBase or the node's reg\n",
            identity.model,
            identity.features
        );
        return Err(ENODEV);
    }
    dev_info!(
        dev,
        "GC{:x} revision {:x}, features {:#010x}, minor {:#010x} {:#010x} {:#010x} {:#010x}\n",
        identity.model,
        identity.revision,
        identity.features,
        identity.minor_features[0],
        identity.minor_features[1],
        identity.minor_features[2],
        identity.minor_features[3]
    );
    if !identity.is_known() {
        dev_info!(
            dev,
            "this core is new to the driver: its features alone say which states clients may load\n"
        );
    }
    Ok(identity)
}

/// Writes the clock register at full speed, loading the divider.
fn load_clock(regs: &Registers, control: HI_CLOCK_CONTROL) -> HI_CLOCK_CONTROL {
    let control = control.with_const_fscale_val::<FULL_SPEED>();
    regs.write_reg(control.with_fscale_cmd_load(true));
    regs.write_reg(control);
    control
}

/// One soft reset; says whether the core came out of it idle.
fn reset_once(regs: &Registers, identity: &Identity) -> bool {
    let millisecond = Delta::from_millis(1);
    regs.write_reg(PM_MODULE_CONTROLS::zeroed());
    // Early cores (no further feature words) are not known to have a pulse eater.
    if identity.minor_features[0] & (1 << 21) != 0 {
        let eater = PULSE_EATER | PULSE_EATER_DFS;
        regs.write_reg(PM_PULSE_EATER::from_raw(eater));
        regs.write_reg(PM_PULSE_EATER::from_raw(eater | 1));
        regs.write_reg(PM_PULSE_EATER::from_raw(eater));
    }
    let control = load_clock(regs, HI_CLOCK_CONTROL::zeroed());
    fsleep(millisecond);
    let isolated = control.with_isolate_gpu(true);
    regs.write_reg(isolated);
    regs.write_reg(isolated.with_soft_reset(true));
    fsleep(millisecond);
    regs.write_reg(isolated);
    regs.write_reg(control);
    let clock = regs.read(HI_CLOCK_CONTROL);
    let is_idle = regs.read(HI_IDLE_STATE).fe() && clock.idle_3d() && clock.idle_2d();
    is_idle && !(identity.has_mmu_v2() && regs.read(MMUV2_CONTROL).enable())
}

/// Resets the core until it is idle, [`RESET_ATTEMPTS`] times at most.
fn reset(dev: &device::Device, regs: &Registers, identity: &Identity) -> Result {
    for _ in 0..RESET_ATTEMPTS {
        if reset_once(regs, identity) {
            return Ok(());
        }
    }
    dev_err!(
        dev,
        "the GPU does not come out of reset (idle {:#010x}, clock control {:#010x})\n",
        regs.read(HI_IDLE_STATE).into_raw(),
        regs.read(HI_CLOCK_CONTROL).into_raw()
    );
    // Not ETIMEDOUT, of which the driver core would make a line of its own.
    Err(ENODEV)
}
