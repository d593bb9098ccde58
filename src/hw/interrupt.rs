// SPDX-License-Identifier: GPL-2.0-only

//! What the core tells of itself while it runs: interrupts, and where its front end is.
//!
//! Called by the interrupt and by the ring's hang check. A register is read once a call.

use super::{
    regs::*,
    Hardware,
    MmuVersion, //
};
use crate::abi::HardwareType;
use kernel::{
    io::{
        register::Array,
        Io, //
    },
    prelude::*,
    sync::atomic::{
        Full,
        Relaxed,
        Release, //
    }, //
};

/// Causes of MMU version 2's exceptions, by the code less 1.
const CAUSES: [&str; 6] = [
    "no second-level table",
    "no page",
    "write to a read-only page",
    "out of bounds",
    "read of secure memory",
    "write to secure memory",
];

/// Units of MMU version 2 that have exceptions of their own.
const MMU_UNITS: usize = 4;

impl Hardware {
    /// Takes raised interrupts from the core; says whether there were any. May be called anywhere.
    pub(crate) fn acknowledge(&self) -> bool {
        let raised = self.registers.read(HI_INTR_ACKNOWLEDGE).into_raw();
        // All bits together: the core has gone from the bus.
        if raised == 0 || raised == u32::MAX {
            return false;
        }
        let mut seen = self.pending.load(Relaxed);
        while let Err(now) = self.pending.cmpxchg(seen, seen | raised, Full) {
            seen = now;
        }
        true
    }

    /// The interrupt half: as [`Hardware::acknowledge`], and remembers that the line works. A core
    /// that is off has raised none.
    pub(crate) fn interrupt(&self) -> bool {
        // Before the register is read: see `forget_interrupts`.
        self.is_taking.xchg(1, Full);
        let ours = self.is_on() && self.acknowledge();
        if ours {
            self.line_works.store(true, Relaxed);
        }
        self.is_taking.store(0, Release);
        ours
    }

    /// Whether the line has ever brought an interrupt of this core.
    pub(crate) fn line_works(&self) -> bool {
        self.line_works.load(Relaxed)
    }

    /// Hands the events over that have been taken, and prints errors, with what `whose` says: the
    /// id of the process whose job is the oldest under way; 0: none is, or it is the driver's.
    #[inline]
    pub(crate) fn take_events(&self, whose: impl Fn() -> i32) -> u32 {
        let raised = HI_INTR_ACKNOWLEDGE::from_raw(self.pending.xchg(0, Full));
        if raised.axi_bus_error() || raised.mmu_exception() {
            self.take_failures(raised, &whose);
        }
        raised.events().get()
    }

    /// Prints the errors among what was `raised`. Apart from the jobs that have ended, as there are
    /// none in most.
    #[cold]
    #[inline(never)]
    fn take_failures(&self, raised: HI_INTR_ACKNOWLEDGE, whose: &dyn Fn() -> i32) {
        self.has_failed.store(true, Relaxed);
        if raised.axi_bus_error() && self.errors.allow_job(whose()) {
            dev_err!(
                self.dev,
                "the GPU met a bus error (AXI status {:#x}, front end at {:#010x}, oldest job: process {})\n",
                self.registers.read(HI_AXI_STATUS).into_raw(),
                self.position(),
                whose()
            );
        }
        if raised.mmu_exception() {
            self.report_mmu_exception(whose);
        }
    }

    /// Prints what the MMU did not let through, and lets it tell of the next time.
    fn report_mmu_exception(&self, whose: &dyn Fn() -> i32) {
        let is_allowed = self.errors.allow_job(whose());
        if self.mmu_version() == MmuVersion::V1 {
            if is_allowed {
                dev_err!(
                    self.dev,
                    "the GPU met an MMU exception, which its MMU does not know\n"
                );
            }
            return;
        }
        let regs = &self.registers;
        let is_secure = self.identity.has_secure_mmu;
        let status = if is_secure {
            let status = regs.read(MMUV2_SEC_STATUS).into_raw();
            regs.write_reg(MMUV2_SEC_STATUS::zeroed());
            status
        } else {
            let status = regs.read(MMUV2_STATUS).into_raw();
            regs.write_reg(MMUV2_STATUS::zeroed());
            status
        };
        if !is_allowed {
            return;
        }
        for unit in 0..MMU_UNITS {
            // CAST: four bits.
            let code = (status >> (4 * unit) & 0xF) as usize;
            let (Some(at), 1..) = (MMUV2_EXCEPTION_ADDR::try_at(unit), code) else {
                continue;
            };
            dev_err!(
                self.dev,
                "the GPU's MMU did not let an access through: {} at {:#010x} (unit {unit}, status {status:#x}, front end at {:#010x}, oldest job: process {})\n",
                CAUSES.get(code - 1).unwrap_or(&"unknown cause"),
                match is_secure {
                    true => regs.read(MMUV2_SEC_EXCEPTION_ADDR).into_raw(),
                    false => regs.read(at).into_raw(),
                },
                self.position(),
                whose()
            );
        }
    }

    /// GPU address that the front end is at.
    pub(crate) fn position(&self) -> u32 {
        match self.identity.hardware_type() {
            HardwareType::Vector => self.vector_position(),
            _ => self.registers.read(FE_DMA_ADDRESS).into_raw(),
        }
    }

    /// `FE_DMA_DEBUG_STATE`: what the front end does.
    pub(crate) fn front_end_state(&self) -> u32 {
        self.registers.read(FE_DMA_DEBUG_STATE).into_raw()
    }

    /// Whether the modules that every core has, but for the front end, are idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.registers.read(HI_IDLE_STATE).into_raw() & 0xFE == 0xFE
    }

    /// Whether the front end has stopped, and all modules that it feeds are idle.
    pub(crate) fn has_stopped(&self) -> bool {
        let idle = self.registers.read(HI_IDLE_STATE);
        idle.fe() && idle.into_raw() & 0xFE == 0xFE
    }

    /// Whether one more line about errors may be printed now, which jobs of process `id` have caused.
    pub(crate) fn may_tell(&self, id: i32) -> bool {
        self.errors.allow_job(id)
    }

    /// Says that a job is dropped as it has held others up for `limit` milliseconds.
    pub(crate) fn report_too_long(&self, limit: u32) {
        dev_err!(
            self.dev,
            "a job has held others up for {limit} ms (jobTimeout): it is dropped\n"
        );
    }

    /// Prints that the core does not move any more, in the words of the vendor's driver, which
    /// scripts look for.
    pub(crate) fn report_hang(&self) {
        let position = self.position();
        match self.identity.hardware_type() {
            HardwareType::Vector => dev_err!(
                self.dev,
                "!!FATAL!! GPU Stuck: the GPU hangs (front end at {position:#010x})\n"
            ),
            _ => dev_err!(
                self.dev,
                "!!FATAL!! GPU Stuck: the GPU hangs (front end at {position:#010x}, state {:#x})\n",
                self.front_end_state()
            ),
        }
        dev_err!(
            self.dev,
            "  idle=0x{:08X} axi=0x{:08X} cmd=0x{position:08X}\n",
            self.registers.read(HI_IDLE_STATE).into_raw(),
            self.registers.read(HI_AXI_STATUS).into_raw()
        );
    }
}
