// SPDX-License-Identifier: GPL-2.0-only

//! One core's hardware: its registers, identity, interrupt and reset.
//!
//! The only room that accesses registers. Its only lock is `galcore power times`, a leaf. Source:
//! sources.md, bring-up.

mod clocks;
mod debug;
pub(crate) mod identity;
mod interrupt;
mod power;
mod profile;
mod recovery;
mod regs;
pub(crate) mod vector;

use crate::{
    abi::{
        row::Row,
        HardwareType, //
    },
    limits::FULL_SCALE,
    log::RateLimit,
    modes::Mode,
    params::{
        self,
        Choice, //
    },
    sys::{
        dma,
        mmio::Registers,
        prelude::*, //
    }, //
};
use kernel::{
    device,
    io::Io, //
};
use regs::*;

pub(crate) use clocks::{
    Clocks,
    Points,
    NAMED, //
};
pub(crate) use debug::{
    RegisterDump,
    StateDump, //
};
pub(crate) use identity::Identity;
pub(crate) use power::{
    Power,
    PowerTimes,
    Powered, //
};
pub(crate) use profile::Counting;
pub(crate) use recovery::Progress;

/// The most consecutive soft resets.
const RESET_ATTEMPTS: u32 = 20;

/// The most resets after these by the reset line, if any, and then by the power domain.
const LINE_ATTEMPTS: u32 = 3;
const DOMAIN_ATTEMPTS: u32 = 2;

/// Limits log lines about resets, because a process that hangs cores can cause them.
static RESETS: RateLimit = RateLimit::new();

/// The timeout of the setup of MMU version 2, in milliseconds.
const SETUP_TIMEOUT: u32 = 1000;

/// Value of the AXI attributes: cached reads and writes, which i.MX6 needs.
const AXI_CACHE: u32 = 2;

/// Base value of `PM_PULSE_EATER`, and bit 17 (internal DFS).
const PULSE_EATER: u32 = 0x0159_0880;
const PULSE_EATER_DFS: u32 = 1 << 17;

/// The kind of MMU that a core has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MmuVersion {
    /// A flat table for addresses with bit 31 set.
    V1,
    /// Two levels of tables for all addresses, with exceptions.
    V2,
}

impl MmuVersion {
    /// The MMU of the core `identity`.
    pub(crate) fn of(identity: &Identity) -> Self {
        if identity.has_mmu_v2() {
            MmuVersion::V2
        } else {
            MmuVersion::V1
        }
    }
}

/// The hardware of one core.
pub(crate) struct Hardware {
    /// The core's place in the device, for traces.
    place: usize,
    pub(crate) dev: ARef<device::Device>,
    /// The device for which memory is allocated.
    pub(crate) memory: dma::Device,
    registers: Registers,
    power: Power,
    state: power::State,
    tally: Arc<profile::Tally>,
    pub(crate) identity: Identity,
    /// Acknowledged event bits that no thread has processed yet.
    pending: Atomic<u32>,
    /// The hard interrupt handler is reading the acknowledge register.
    is_taking: Atomic<u32>,
    /// The core has reported an error since the last call of [`Hardware::has_failed`].
    has_failed: Atomic<bool>,
    /// The interrupt line has delivered an interrupt of this core.
    line_works: Atomic<bool>,
    /// The administrator has disabled its interrupts.
    is_silenced: Atomic<bool>,
    errors: RateLimit,
    /// Limits log lines about power.
    power_lines: RateLimit,
}

impl Hardware {
    /// Takes over the core `dev` at `place` of the device, and resets it. `ENODEV`: it stays busy.
    ///
    /// Prints every failure.
    pub(crate) fn new(
        dev: &device::Device,
        place: usize,
        memory: &dma::Device,
        registers: Registers,
        power: Power,
        identity: Identity,
    ) -> Result<Arc<Self>> {
        let (state, tally) = (power::State::new()?, profile::Tally::new()?);
        // Initialized in place, because it is too large for the stack.
        let hardware = Arc::init(
            init!(Self {
                place,
                dev: dev.into(),
                memory: memory.clone(),
                registers,
                power,
                state,
                tally,
                identity,
                pending: Atomic::new(0),
                is_taking: Atomic::new(0),
                has_failed: Atomic::new(false),
                line_works: Atomic::new(false),
                is_silenced: Atomic::new(false),
                errors: RateLimit::of(Mode::Errors),
                power_lines: RateLimit::asked(Mode::Power),
            }),
            GFP_KERNEL,
        )?;
        hardware.trace_power(true);
        hardware.reset()?;
        Ok(hardware)
    }

    /// The version of its MMU.
    pub(crate) fn mmu_version(&self) -> MmuVersion {
        MmuVersion::of(&self.identity)
    }

    /// Sets the registers that a reset has cleared.
    ///
    /// `table`: physical address of MMU version 1's page table.
    pub(crate) fn initialize(
        &self,
        base_address: u32,
        table: Option<u32>,
        fast_clear: Choice,
        compression: Choice,
    ) {
        let regs = &self.registers;
        let id = &self.identity;
        regs.write_reg(HI_MEMORY_COUNTER_RESET::from_raw(u32::MAX));
        regs.write_reg(HI_MEMORY_COUNTER_RESET::zeroed());
        if !id.is_early() {
            regs.write_reg(
                HI_AXI_CONFIG::zeroed()
                    .with_const_awcache::<AXI_CACHE>()
                    .with_const_arcache::<AXI_CACHE>(),
            );
        }
        self.set_memory_base(match self.mmu_version() {
            MmuVersion::V1 => base_address,
            // The page tables include the base. Addresses are physical until the tables are loaded.
            MmuVersion::V2 => 0,
        });
        if let Some(table) = table {
            self.set_page_table(table);
        }
        if id.has_secure_mmu {
            let control = regs.read(MMUV2_AHB_CONTROL);
            regs.write_reg(control.with_nonsec_access(true));
        }
        self.set_clock_gating();
        if id.model == 0x2000 && id.revision == 0x5108 {
            let bus = regs.read(MC_BUS_CONFIG).into_raw();
            regs.write_reg(MC_BUS_CONFIG::from_raw((bus & !0xFF) | 0x01));
        }
        self.set_memory_switches(fast_clear, compression);
        self.note_full_speed();
        self.load_speed();
    }

    /// Sets the switches of the memory controller that the core has, and leaves others unchanged.
    fn set_memory_switches(&self, fast_clear: Choice, compression: Choice) {
        let regs = &self.registers;
        let id = &self.identity;
        let before = regs.read(MC_DEBUG_MEMORY);
        let mut memory = before;
        if let Some(limit) = id.outstanding_limit(regs) {
            memory = MC_DEBUG_MEMORY::from_raw((memory.into_raw() & !0xFF) | limit);
        }
        if id.has_fast_clear() {
            memory = memory.with_fast_clear_bypass(!id.fast_clear(fast_clear));
        }
        if id.has_compression_bypass() {
            memory = memory.with_compression_bypass(!id.compression(fast_clear, compression));
        }
        if id.has_faulty_hz_cache() {
            memory = memory.with_hz_l2_disable(true);
        }
        if memory.into_raw() != before.into_raw() {
            regs.write_reg(memory);
        }
    }

    /// Sets the physical address of GPU address 0 for every unit.
    fn set_memory_base(&self, base: u32) {
        let regs = &self.registers;
        regs.write_reg(MC_MEMORY_BASE_ADDR_FE::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_RA::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_PE::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_TX::from_raw(base));
        regs.write_reg(MC_MEMORY_BASE_ADDR_PEZ::from_raw(base));
    }

    /// Sets the page table of every unit (MMU version 1).
    pub(crate) fn set_page_table(&self, table: u32) {
        let regs = &self.registers;
        regs.write_reg(MC_MMU_FE_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_RA_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_TX_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_PE_PAGE_TABLE::from_raw(table));
        regs.write_reg(MC_MMU_PEZ_PAGE_TABLE::from_raw(table));
    }

    /// Enables the core's interrupts, unless the administrator has disabled them.
    pub(crate) fn enable_interrupts(&self) {
        let interrupts = match self.identity.hardware_type() {
            _ if self.is_silenced.load(Relaxed) => 0,
            HardwareType::Vector => vector::INTERRUPTS,
            _ => u32::MAX,
        };
        self.registers.write_reg(HI_INTR_ENBL::from_raw(interrupts));
    }

    /// Sets whether the core's interrupts stay disabled. [`Hardware::enable_interrupts`] applies
    /// it. The hang check finds events without an interrupt.
    pub(crate) fn set_silenced(&self, is_silenced: bool) {
        self.is_silenced.store(is_silenced, Relaxed);
    }

    /// Disables all interrupts of the core.
    pub(crate) fn disable_interrupts(&self) {
        if !self.is_on() {
            return;
        }
        self.registers.write_reg(HI_INTR_ENBL::zeroed());
    }

    /// Starts the front end at GPU address `address`, with a prefetch of `units` of 8 bytes.
    /// `EINVAL`: more than the register can hold.
    pub(crate) fn run_front_end(&self, address: u32, units: u32) -> Result {
        let control = FE_COMMAND_CONTROL::zeroed()
            .with_enable(true)
            .try_with_prefetch(units)?;
        self.registers
            .write_reg(FE_COMMAND_ADDRESS::from_raw(address));
        self.registers.write_reg(control);
        if self.identity.has_secure_mmu {
            let control = MMUV2_SEC_COMMAND_CONTROL::zeroed()
                .with_enable(true)
                .try_with_prefetch(units)?;
            self.registers.write_reg(control);
        }
        Ok(())
    }

    /// Sets the physical addresses of a secure MMU's page table array, aligned to 4 KiB, and of its
    /// safe bytes, aligned to 64 bytes. Later the front end loads an entry of the array.
    pub(crate) fn set_page_table_array(&self, array: u32, safe: u32) {
        let regs = &self.registers;
        regs.write_reg(MMUV2_PTA_ADDRESS_LOW::from_raw(array));
        regs.write_reg(MMUV2_PTA_ADDRESS_HIGH::zeroed());
        regs.write_reg(MMUV2_PTA_CONTROL::zeroed().with_enable(true));
        regs.write_reg(MMUV2_NONSEC_SAFE_ADDR_LOW::from_raw(safe));
        regs.write_reg(MMUV2_SEC_SAFE_ADDR_LOW::from_raw(safe));
        regs.write_reg(MMUV2_SAFE_ADDRESS_CONFIG::zeroed());
    }

    /// Enables MMU version 2. The front end executes the words at `address` (`units` of 8 bytes,
    /// with an END), which load the tables, while addresses are still physical. After it has
    /// stopped, a register enables the MMU. `ENODEV`: it does not stop. This has been printed.
    pub(crate) fn enable_mmu(&self, address: u32, units: u32) -> Result {
        self.run_front_end(address, units)?;
        let regs = &self.registers;
        for _ in 0..SETUP_TIMEOUT {
            fsleep(Delta::from_millis(1));
            if regs.read(HI_IDLE_STATE).fe() && self.is_idle() {
                if self.identity.has_secure_mmu {
                    regs.write_reg(MMUV2_SEC_CONTROL::zeroed().with_enable(true))
                } else {
                    regs.write_reg(MMUV2_CONTROL::zeroed().with_enable(true))
                }
                return Ok(());
            }
        }
        dev_err!(
            self.dev,
            "the GPU does not take its MMU's tables (front end at {:#010x}, idle {:#010x})\n",
            self.position(),
            regs.read(HI_IDLE_STATE).into_raw()
        );
        Err(ENODEV)
    }

    /// Resets the core until it is idle. `ENODEV`: it stays busy. This has been printed.
    pub(crate) fn reset(&self) -> Result {
        // The callbacks of the power domain may call this, so this must not cause callbacks.
        if self.reset_until(false, |_| true).is_some() {
            return Ok(());
        }
        // A client may cause this repeatedly.
        if self.errors.allow_job(0) {
            self.report_stuck();
        }
        // Not ETIMEDOUT, because the driver core prints a line for that.
        Err(ENODEV)
    }

    /// Prints that the core stays busy after its resets.
    fn report_stuck(&self) {
        dev_err!(
            self.dev,
            "the GPU does not come out of reset (idle {:#010x}, clock control {:#010x})\n",
            self.idle(),
            self.clock_control()
        );
    }

    /// Resets the core until it is idle and `is_right` accepts it: at most [`RESET_ATTEMPTS`] times
    /// by a soft reset, then [`LINE_ATTEMPTS`] times by the reset line, then, if it `may_cycle`,
    /// [`DOMAIN_ATTEMPTS`] times by the power domain. The code that switches the core on or off
    /// must not set `may_cycle`. Returns the number of resets on success.
    fn reset_until(&self, may_cycle: bool, mut is_right: impl FnMut(&Self) -> bool) -> Option<u32> {
        for attempt in 1..=RESET_ATTEMPTS {
            if self.reset_once() && is_right(self) {
                return Some(attempt);
            }
        }
        let mut attempts = RESET_ATTEMPTS;
        if let Some(line) = &self.power.line {
            if RESETS.allow_job(0) {
                dev_warn!(
                    self.dev,
                    "the GPU does not come out of its soft reset: it is reset by its line\n"
                );
            }
            for _ in 0..LINE_ATTEMPTS {
                attempts += 1;
                if let Err(error) = line.pulse() {
                    if RESETS.allow_job(0) {
                        dev_err!(self.dev, "its reset line does not work ({error:?})\n");
                    }
                    break;
                }
                // This also reset the clock register.
                load_clock(&self.registers, HI_CLOCK_CONTROL::zeroed());
                if self.reset_once() && is_right(self) {
                    return Some(attempts);
                }
            }
        }
        if may_cycle && self.power.supply.has_domain() {
            if RESETS.allow_job(0) {
                dev_warn!(
                    self.dev,
                    "the GPU does not come out of its reset: its power domain is switched off and on\n"
                );
            }
            for _ in 0..DOMAIN_ATTEMPTS {
                attempts += 1;
                if let Err(error) = self.cycle() {
                    if RESETS.allow_job(0) {
                        dev_err!(self.dev, "its power domain does not go off ({error:?})\n");
                    }
                    break;
                }
                if self.reset_once() && is_right(self) {
                    return Some(attempts);
                }
            }
        }
        None
    }

    /// Does one soft reset. Returns whether the core is idle after it.
    fn reset_once(&self) -> bool {
        self.note_isolated(false);
        self.forget_counters();
        match self.identity.hardware_type() {
            HardwareType::Vector => self.reset_vector_once(),
            _ => reset_once(&self.registers, &self.identity),
        }
    }

    /// For a core whose reset has failed. Holds it in reset and isolates it from the bus, so that
    /// its memory may be freed.
    pub(crate) fn isolate(&self) {
        self.note_isolated(true);
        if !self.is_on() {
            return;
        }
        let regs = &self.registers;
        regs.write_reg(
            HI_CLOCK_CONTROL::zeroed()
                .with_isolate_gpu(true)
                .with_soft_reset(true),
        );
        if self.identity.has_secure_mmu {
            regs.write_reg(MMUV2_AHB_CONTROL::zeroed().with_reset(true));
        }
        let _ = regs.read(HI_CLOCK_CONTROL);
    }

    /// `HI_IDLE_STATE`: a bit for each module. If the core is off, the last value before.
    pub(crate) fn idle(&self) -> u32 {
        if !self.is_on() {
            return self.last_state().0;
        }
        self.registers.read(HI_IDLE_STATE).into_raw()
    }

    /// `HI_CLOCK_CONTROL`. If the core is off, the last value before.
    pub(crate) fn clock_control(&self) -> u32 {
        if !self.is_on() {
            return self.last_state().1;
        }
        self.registers.read(HI_CLOCK_CONTROL).into_raw()
    }
}

/// Enables the core's clocks in its clock register, and reads its identity. `ENODEV`: there is no
/// core. This has been printed.
pub(crate) fn identify(dev: &device::Device, regs: &Registers) -> Result<Identity> {
    load_clock(regs, HI_CLOCK_CONTROL::zeroed());
    let read = Identity::read(regs);
    let row = Row::of(params::identity(), (read.model, read.revision));
    let identity = read.amended(row);
    if !read.is_plausible() {
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
    if identity.overrides > 0 {
        dev_info!(
            dev,
            "values of its identity from the parameter identity: {}\n",
            identity.overrides
        );
    } else if !params::identity().is_empty() {
        let (model, revision) = (identity.model, identity.revision);
        dev_info!(
            dev,
            "the parameter identity has no value for {model:x}:{revision:x}\n"
        );
    }
    if identity.needs_flop_reset() {
        dev_warn!(
            dev,
            "what its shaders draw may be wrong: at start the vendor's driver resets their flip-flops by programs, which this driver lacks\n"
        );
    }
    if !identity.is_known() {
        dev_info!(
            dev,
            "this core is new to the driver: its features alone say which states clients may load\n"
        );
    }
    Ok(identity)
}

/// Writes the clock register with the full speed, and loads the divider.
fn load_clock(regs: &Registers, control: HI_CLOCK_CONTROL) -> HI_CLOCK_CONTROL {
    let control = control.with_const_fscale_val::<FULL_SCALE>();
    load_divider(regs, control);
    control
}

/// Writes the clock register, and loads the divider in it.
fn load_divider(regs: &Registers, control: HI_CLOCK_CONTROL) {
    regs.write_reg(control.with_fscale_cmd_load(true));
    regs.write_reg(control);
}

/// Does one soft reset. Returns whether the core is idle after it.
fn reset_once(regs: &Registers, identity: &Identity) -> bool {
    let millisecond = Delta::from_millis(1);
    // No clock is gated during the reset. Dove's driver does not reset early cores, because it
    // cannot isolate them. Etnaviv does reset them, on the same silicon.
    if identity.has_power_registers() {
        if identity.is_early() {
            regs.write_reg(PM_POWER_CONTROLS::zeroed());
        } else {
            regs.write_reg(PM_MODULE_CONTROLS::zeroed());
        }
    }
    // Early cores (no further feature words) are not known to have a pulse eater.
    if identity.has_more_registers() {
        let eater = PULSE_EATER | PULSE_EATER_DFS;
        regs.write_reg(PM_PULSE_EATER::from_raw(eater));
        regs.write_reg(PM_PULSE_EATER::from_raw(eater | 1));
        regs.write_reg(PM_PULSE_EATER::from_raw(eater));
    }
    let control = load_clock(regs, HI_CLOCK_CONTROL::zeroed());
    fsleep(millisecond);
    let isolated = control.with_isolate_gpu(true);
    regs.write_reg(isolated);
    if identity.has_secure_mmu {
        regs.write_reg(MMUV2_AHB_CONTROL::zeroed().with_reset(true))
    } else {
        regs.write_reg(isolated.with_soft_reset(true))
    }
    fsleep(millisecond);
    regs.write_reg(isolated);
    regs.write_reg(control);
    let clock = regs.read(HI_CLOCK_CONTROL);
    let is_idle = regs.read(HI_IDLE_STATE).fe() && clock.idle_3d() && clock.idle_2d();
    let translates = match (identity.has_secure_mmu, identity.has_mmu_v2()) {
        (true, _) => regs.read(MMUV2_SEC_CONTROL).enable(),
        (false, true) => regs.read(MMUV2_CONTROL).enable(),
        (false, false) => false,
    };
    is_idle && !translates
}
