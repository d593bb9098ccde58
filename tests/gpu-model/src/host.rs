// SPDX-License-Identifier: GPL-2.0-only
//! The register block as seen by the host's loads and stores (sources.md, engines).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;

use gpu_control::counter;
use gpu_control::fault;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;

use crate::control::Faults;
use crate::gpu::lock;
use crate::gpu::Gpu;
use crate::gpu::Request;
use crate::personality::Access;
use crate::profile::Mover;
use crate::profile::CYCLES_PER_MICROSECOND;
use crate::registers::*;
use crate::strict::hex;
use crate::strict::Finding;
use crate::tile_status::StatusFormat;

/// A model number that no board has.
const ANOTHER_MODEL: u32 = 0x1000;
/// Bytes per unit of the front end's prefetch count.
const UNIT: u32 = 8;

impl Gpu {
    /// Reads the register at an aligned byte offset of BAR 0.
    pub fn mmio_read(&self, offset: u32) -> u32 {
        self.counters.add(counter::MMIO_READS, 1);
        if self.faults.dead.load(Relaxed) != 0 {
            return u32::MAX;
        }
        if !self.has_power() {
            self.power_violation(offset, "read of a register of a core that is off".into());
            return u32::MAX;
        }
        if self.personality.access(offset) == Access::Absent {
            self.register_violation(
                offset,
                "read of a register that this core does not have".into(),
            );
            return 0;
        }
        let value = self.read_register(offset);
        self.trace(|| format!("read  {offset:#05x} {}", hex(value)));
        self.poke_front_end();
        value
    }

    /// Writes the register at an aligned byte offset of BAR 0.
    pub fn mmio_write(&self, offset: u32, value: u32) {
        self.counters.add(counter::MMIO_WRITES, 1);
        if self.faults.dead.load(Relaxed) != 0 {
            return;
        }
        if !self.has_power() {
            let text = format!("write of {value:#x} to a register of a core that is off");
            self.power_violation(offset, text);
            return;
        }
        self.trace(|| format!("write {offset:#05x} {}", hex(value)));
        match self.personality.access(offset) {
            Access::ReadWrite => self.write_register(offset, value),
            Access::ReadOnly => {
                self.register_violation(
                    offset,
                    format!("write of {value:#x} to a read-only register"),
                );
            }
            Access::Absent => {
                let text =
                    format!("write of {value:#x} to a register that this core does not have");
                self.register_violation(offset, text);
            }
        }
        self.poke_front_end();
    }

    /// Handles an access to BAR 0 that is not an aligned 32-bit access.
    pub fn bad_access(&self, offset: u64, bytes: usize, write: bool) {
        let direction = if write { "write" } else { "read" };
        let detail = format!("{direction} of {bytes} bytes");
        let finding = Finding {
            detail,
            address: offset as u32,
            ..Finding::default()
        };
        self.recorder
            .violation(ViolationKind::RegisterAccess, finding);
    }

    fn power_violation(&self, offset: u32, detail: String) {
        let finding = Finding {
            detail,
            address: offset,
            ..Finding::default()
        };
        self.recorder.violation(ViolationKind::PoweredOff, finding);
    }

    fn register_violation(&self, offset: u32, detail: String) {
        let finding = Finding {
            detail,
            address: offset,
            ..Finding::default()
        };
        self.recorder
            .violation(ViolationKind::UnknownRegister, finding);
    }

    /// Wakes a front end in its idle loop, which polls memory whenever the host accesses the GPU.
    fn poke_front_end(&self) {
        if self.front_end_state() == FrontEndState::Waiting {
            self.wake();
        }
    }

    fn lingering(&self) -> bool {
        self.busy_until.load(Relaxed) > self.micros()
    }

    fn idle_state(&self) -> u32 {
        if self.stuck.load(SeqCst) {
            return 0;
        }
        let mut idle = self.personality.idle_bits();
        if self.front_end_state() != FrontEndState::Stopped || self.lingering() {
            idle &= !IDLE_STATE_FE;
        }
        if self.work_pending() || self.lingering() {
            let vg = IDLE_STATE_VG | IDLE_STATE_TS;
            let engines = if self.personality.has_vg() {
                vg
            } else {
                IDLE_STATE_DE
            };
            idle &= !(engines | IDLE_STATE_PE);
        }
        idle
    }

    /// The format of tile status, with the memory base that the host has set.
    pub(crate) fn status_format(&self) -> StatusFormat {
        StatusFormat::of(
            &self.personality,
            self.registers.get(MC_MEMORY_BASE_ADDR_PE),
        )
    }

    fn clock_control(&self) -> u32 {
        let idle = self.idle_state() == self.personality.idle_bits();
        self.registers.get(HI_CLOCK_CONTROL) | if idle { CLOCK_CONTROL_IDLE } else { 0 }
    }

    fn read_register(&self, offset: u32) -> u32 {
        if offset == HI_CHIP_MODEL {
            match self.faults.identity.load(Relaxed) {
                fault::IDENTITY_ZERO => return 0,
                fault::IDENTITY_ONES => return u32::MAX,
                fault::IDENTITY_OTHER => return ANOTHER_MODEL,
                _ => {}
            }
        }
        if let Some(word) = self.personality.identity_word(offset) {
            return word;
        }
        match offset {
            HI_CLOCK_CONTROL => self.clock_control(),
            HI_IDLE_STATE => self.idle_state(),
            HI_INTR_ACKNOWLEDGE => self.acknowledge(),
            HI_PROFILE_READ_BYTES8 => self.total_read(),
            HI_PROFILE_WRITE_BYTES8 => self.total_written(),
            HI_PROFILE_TOTAL_CYCLES => self.cycles_since(self.total_base.load(Relaxed)),
            HI_PROFILE_IDLE_CYCLES => 0,
            MC_PROFILE_CYCLE_COUNTER => self
                .registers
                .get(offset)
                .wrapping_add(self.cycles_since(self.cycle_base.load(Relaxed))),
            MC_PROFILE_RA_READ..=MC_PROFILE_HI_READ => self.profile_port(offset),
            VG_FETCH_CURRENT => self.front_end_address(),
            // The start address is write-only.
            FE_COMMAND_ADDRESS => 0,
            FE_DMA_DEBUG_STATE => self.look(
                || self.visible.dma_state.load(Relaxed),
                [dma_state::WAIT, dma_state::LINK],
            ),
            FE_DMA_ADDRESS => {
                let address = self.front_end_address();
                self.look(|| address, [address, address.wrapping_add(UNIT)])
            }
            FE_DMA_LOW => self.visible.low.load(Relaxed),
            FE_DMA_HIGH => self.visible.high.load(Relaxed),
            _ => self.registers.get(offset),
        }
    }

    /// Reads a register of a waiting front end, which alternates between its WAIT and its LINK with each read.
    fn look(&self, otherwise: impl FnOnce() -> u32, waiting: [u32; 2]) -> u32 {
        if self.front_end_state() != FrontEndState::Waiting {
            return otherwise();
        }
        waiting[(self.visible.looks.fetch_add(1, Relaxed) % 2) as usize]
    }

    fn cycles_since(&self, micros: u64) -> u32 {
        (self.micros().saturating_sub(micros) * CYCLES_PER_MICROSECOND) as u32
    }

    fn acknowledge(&self) -> u32 {
        self.counters.add(counter::ACKNOWLEDGES, 1);
        let mut pending = lock(&self.pending);
        let bits = pending.bits;
        pending.bits = 0;
        pending.silent = 0;
        self.interrupts.acknowledge();
        bits
    }

    fn write_register(&self, offset: u32, value: u32) {
        match offset {
            HI_CLOCK_CONTROL => self.write_clock_control(value),
            HI_INTR_ENBL => {
                let pending = lock(&self.pending);
                self.registers.set(offset, value);
                self.update_line(&pending);
            }
            HI_MEMORY_COUNTER_RESET => {
                self.registers.set(offset, value);
                if value & 1 != 0 {
                    self.profile.clear_totals();
                }
            }
            HI_PROFILE_TOTAL_CYCLES => self.total_base.store(self.micros(), Relaxed),
            MC_PROFILE_CYCLE_COUNTER => {
                self.registers.set(offset, value);
                self.cycle_base.store(self.micros(), Relaxed);
            }
            MC_PROFILE_CONFIG0..=MC_PROFILE_CONFIG2 => {
                self.registers.set(offset, value);
                self.select_counters(offset, value);
            }
            MMUV2_CONTROL | MMUV2_SEC_CONTROL => self.control_mmu(value),
            MMUV2_AHB_CONTROL => self.control_ahb(value),
            // The start waits for the write of the other register.
            FE_COMMAND_CONTROL if self.personality.has_secure_mmu() => {
                self.registers.set(offset, value);
            }
            MMUV2_SEC_COMMAND_CONTROL => {
                self.registers.set(offset, value);
                let problem = (value != self.registers.get(FE_COMMAND_CONTROL))
                    .then_some("with another window than FE_COMMAND_CONTROL has");
                self.refuse_start(problem);
                self.control_front_end(value);
            }
            FE_COMMAND_CONTROL => {
                self.registers.set(offset, value);
                self.control_front_end(value);
            }
            VG_FETCH_COUNT => {
                self.registers.set(offset, value);
                let address = self.registers.get(VG_FETCH_ADDRESS);
                self.start_front_end(address, value.saturating_mul(UNIT));
            }
            _ => self.registers.set(offset, value),
        }
    }

    /// Controls MMU v2. It may be enabled only if the core is idle and the tables are set. Only a reset disables it.
    fn control_mmu(&self, value: u32) {
        let setup = self.setup().v2;
        let state = self.front_end_state();
        let problem = if value & MMUV2_CONTROL_ENABLE == 0 {
            setup
                .enabled
                .then_some("switched off: only a reset does that")
        } else {
            [
                (setup.table.is_none(), "enabled without its table"),
                (setup.safe.is_none(), "enabled without a safe address"),
                (
                    self.work_pending()
                        || !matches!(state, FrontEndState::Stopped | FrontEndState::Waiting),
                    "enabled while work is under way",
                ),
            ]
            .into_iter()
            .find_map(|(wrong, text)| wrong.then_some(text))
        };
        let control = self.personality.mmu_control();
        if let Some(problem) = problem {
            let finding = Finding {
                detail: format!("MMU {problem}"),
                address: control,
                ..Finding::default()
            };
            self.recorder.violation(ViolationKind::MmuSetup, finding);
        }
        let kept = self.registers.get(control) & MMUV2_CONTROL_ENABLE;
        self.registers
            .set(control, value & MMUV2_CONTROL_ENABLE | kept);
    }

    /// Resets a secure core. The clock register does not.
    fn control_ahb(&self, value: u32) {
        self.registers
            .set(MMUV2_AHB_CONTROL, value & AHB_CONTROL_NONSEC_ACCESS);
        if value & AHB_CONTROL_RESET == 0 {
            return;
        }
        if self.registers.get(HI_CLOCK_CONTROL) & CLOCK_CONTROL_ISOLATE_GPU == 0 {
            let finding = Finding {
                detail: "reset without isolation".into(),
                address: MMUV2_AHB_CONTROL,
                ..Finding::default()
            };
            self.recorder
                .violation(ViolationKind::ResetSequence, finding);
        }
        self.end_reset();
    }

    /// The soft reset bit stops all work when set. The reset takes effect when the bit is cleared.
    fn write_clock_control(&self, value: u32) {
        let before = self.registers.get(HI_CLOCK_CONTROL);
        self.registers
            .set(HI_CLOCK_CONTROL, value & CLOCK_CONTROL_STORED);
        if value & CLOCK_CONTROL_LOAD != 0 && !self.personality.has_vg() {
            self.load_divider(value);
        }
        let was = before & CLOCK_CONTROL_SOFT_RESET != 0;
        let is = value & CLOCK_CONTROL_SOFT_RESET != 0;
        if is && !was {
            if value & CLOCK_CONTROL_ISOLATE_GPU == 0 {
                let finding = Finding {
                    detail: format!("soft reset without isolation ({value:#x})"),
                    address: HI_CLOCK_CONTROL,
                    ..Finding::default()
                };
                self.recorder
                    .violation(ViolationKind::ResetSequence, finding);
            }
            if !self.personality.has_secure_mmu() {
                self.reset();
            }
        }
        if was && !is && !self.personality.has_secure_mmu() {
            self.end_reset();
        }
    }

    fn end_reset(&self) {
        self.reset();
        self.counters.add(counter::RESETS, 1);
        match self.faults.identity_after_reset.swap(0, Relaxed) {
            fault::IDENTITY_OK => {}
            identity => self.faults.identity.store(identity, Relaxed),
        }
        let stuck = Faults::take(&self.faults.reset_stuck)
            || self.faults.reset_needs_line.load(Relaxed) != 0
            || self.faults.reset_needs_power.load(Relaxed) != 0;
        self.stuck.store(stuck, SeqCst);
    }

    fn load_divider(&self, value: u32) {
        let (shift, mask) = CLOCK_CONTROL_SCALE;
        let scale = value >> shift & mask;
        if (1..=FULL_SCALE).contains(&scale) {
            self.scale.store(scale, SeqCst);
            return;
        }
        let finding = Finding {
            detail: format!("loaded with {scale}"),
            address: HI_CLOCK_CONTROL,
            ..Finding::default()
        };
        self.recorder
            .violation(ViolationKind::ClockDivider, finding);
    }

    fn start_problem(&self, window: u32) -> Option<&'static str> {
        let clock = self.registers.get(HI_CLOCK_CONTROL);
        let state = self.front_end_state();
        let is_vg = self.personality.has_vg();
        let clocks = if is_vg {
            CLOCK_CONTROL_VG_CLK_DIS
        } else {
            CLOCK_CONTROL_CLK_DIS
        };
        [
            (clock & clocks == clocks, "with the clocks off"),
            (clock & CLOCK_CONTROL_ISOLATE_GPU != 0, "while isolated"),
            (clock & CLOCK_CONTROL_SOFT_RESET != 0, "in soft reset"),
            (
                !matches!(state, FrontEndState::Stopped | FrontEndState::Hung),
                "while it runs",
            ),
            (
                // MMU v2 does not use the memory base.
                !is_vg
                    && !self.personality.has_mmu_v2()
                    && !self.registers.was_written(MC_MEMORY_BASE_ADDR_FE),
                "without its memory base (0x41c) programmed since reset",
            ),
            (
                self.personality.has_secure_mmu()
                    && self.registers.get(MMUV2_AHB_CONTROL) & AHB_CONTROL_NONSEC_ACCESS == 0,
                "of a secure core that lets nobody in",
            ),
            (is_vg && window == 0, "with a count of 0"),
            (
                is_vg && !self.registers.was_written(MC_MMU_FE_PAGE_TABLE),
                "without its page table (0x400) programmed since reset",
            ),
        ]
        .into_iter()
        .find_map(|(wrong, text)| wrong.then_some(text))
    }

    /// Reports a wrong start.
    fn refuse_start(&self, problem: Option<&'static str>) {
        if let Some(problem) = problem {
            let finding = Finding {
                detail: format!("start of the front end {problem}"),
                address: self.registers.get(FE_COMMAND_ADDRESS),
                ..Finding::default()
            };
            self.recorder
                .violation(ViolationKind::FrontEndStart, finding);
        }
    }

    fn control_front_end(&self, value: u32) {
        if value & COMMAND_CONTROL_ENABLE != 0 {
            let address = self.registers.get(FE_COMMAND_ADDRESS);
            self.start_front_end(address, (value & 0xffff) * UNIT);
        } else {
            self.request(Request::Stop);
        }
    }

    fn start_front_end(&self, address: u32, window: u32) {
        self.counters.add(counter::STARTS, 1);
        self.refuse_start(self.start_problem(window));
        if self.front_end_state() == FrontEndState::Hung || self.stuck.load(SeqCst) {
            self.recorder
                .warning("start of a hung front end: only a reset helps");
            return;
        }
        if window == 0 && self.personality.has_vg() {
            return;
        }
        self.request(Request::Start { address, window });
    }

    fn request(&self, request: Request) {
        let mut slot = lock(&self.request);
        *slot = Some(request);
        self.has_request.store(true, SeqCst);
        if let Request::Start { address, .. } = request {
            self.visible.address.store(address, Relaxed);
            self.publish(FrontEndState::Running, dma_state::DEC);
        }
        drop(slot);
        self.wake();
    }

    /// Counts memory traffic of the GPU for the registers and the control BAR.
    pub(crate) fn count_traffic(&self, mover: Mover, read: u64, written: u64) {
        self.counters.add(counter::BYTES_READ, read);
        self.counters.add(counter::BYTES_WRITTEN, written);
        let counts = self.registers.get(HI_MEMORY_COUNTER_RESET) & 1 == 0;
        self.profile.count_traffic(mover, read, written, counts);
    }
}
