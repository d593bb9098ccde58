// SPDX-License-Identifier: GPL-2.0-only

//! Interrupts of a running core, and the position of its front end.
//!
//! The interrupt handlers and the hang check call these functions. Each call reads a register once.

use super::{
    regs::*,
    Hardware,
    MmuVersion, //
};
use crate::abi::HardwareType;
use crate::prelude::*;
use kernel::io::{
    register::Array,
    Io, //
};

/// Causes of exceptions of MMU version 2, by code minus 1.
const CAUSES: [&str; 6] = [
    "no second-level table",
    "no page",
    "write to a read-only page",
    "out of bounds",
    "read of secure memory",
    "write to secure memory",
];

/// Number of units of MMU version 2 with exceptions of their own.
const MMU_UNITS: usize = 4;

impl Hardware {
    /// Acknowledges pending interrupts. Returns whether there were any. May be called in any
    /// context.
    pub(crate) fn acknowledge(&self) -> bool {
        let raised = self.registers.read(HI_INTR_ACKNOWLEDGE).into_raw();
        // All bits set: the core has disappeared from the bus.
        if raised == 0 || raised == u32::MAX {
            return false;
        }
        let mut seen = self.pending.load(Relaxed);
        while let Err(now) = self.pending.cmpxchg(seen, seen | raised, Full) {
            seen = now;
        }
        true
    }

    /// The hard interrupt handler. As [`Hardware::acknowledge`], and notes that the line works.
    /// Ignores a core that is off.
    pub(crate) fn interrupt(&self) -> bool {
        // Set before the register is read: see `forget_interrupts`.
        self.is_taking.xchg(1, Full);
        let ours = self.is_on() && self.acknowledge();
        if ours {
            self.line_works.store(true, Relaxed);
        }
        self.is_taking.store(0, Release);
        ours
    }

    /// Whether the line has ever delivered an interrupt of this core.
    pub(crate) fn line_works(&self) -> bool {
        self.line_works.load(Relaxed)
    }

    /// Takes what the core has raised. Errors in it must be reported ([`Self::report_failures`]).
    #[inline]
    pub(crate) fn take_raised(&self) -> HI_INTR_ACKNOWLEDGE {
        HI_INTR_ACKNOWLEDGE::from_raw(self.pending.xchg(0, Full))
    }

    /// Prints the errors in `raised`. `process`: the ID of the oldest running job's process. 0:
    /// there is no such job, or it is the driver's.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_failures(&self, raised: HI_INTR_ACKNOWLEDGE, process: i32) {
        self.has_failed.store(true, Relaxed);
        if raised.axi_bus_error() && self.errors.allow_job(process) {
            dev_err!(
                self.dev,
                "the GPU met a bus error (AXI status {:#x}, front end at {:#010x}, oldest job: process {})\n",
                self.registers.read(HI_AXI_STATUS).into_raw(),
                self.position(),
                process
            );
        }
        if raised.mmu_exception() {
            self.report_mmu_exception(process);
        }
    }

    /// Prints the exceptions of the MMU, and clears them, so that it reports the next.
    fn report_mmu_exception(&self, process: i32) {
        let is_allowed = self.errors.allow_job(process);
        if self.mmu_version() == MmuVersion::V1 {
            if is_allowed {
                dev_err!(
                    self.dev,
                    "the GPU reported an MMU exception, which MMU version 1 does not have\n"
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
            let address = if is_secure {
                regs.read(MMUV2_SEC_EXCEPTION_ADDR).into_raw()
            } else {
                regs.read(at).into_raw()
            };
            dev_err!(
                self.dev,
                "the GPU's MMU did not let an access through: {} at {:#010x} (unit {unit}, status {status:#x}, front end at {:#010x}, oldest job: process {})\n",
                CAUSES.get(code - 1).unwrap_or(&"unknown cause"),
                address,
                self.position(),
                process
            );
        }
    }

    /// GPU address of the front end's position.
    pub(crate) fn position(&self) -> u32 {
        match self.identity.hardware_type() {
            HardwareType::Vector => self.registers.read(VG_COMMAND_POSITION).into_raw(),
            _ => self.registers.read(FE_DMA_ADDRESS).into_raw(),
        }
    }

    /// `FE_DMA_DEBUG_STATE`: the state of the front end.
    pub(crate) fn front_end_state(&self) -> u32 {
        self.registers.read(FE_DMA_DEBUG_STATE).into_raw()
    }

    /// Whether the modules that every core has, except the front end, are idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.registers.read(HI_IDLE_STATE).into_raw() & 0xFE == 0xFE
    }

    /// Whether the front end has stopped, and all modules that it feeds are idle.
    pub(crate) fn has_stopped(&self) -> bool {
        let idle = self.registers.read(HI_IDLE_STATE);
        idle.fe() && idle.into_raw() & 0xFE == 0xFE
    }

    /// Whether the rate limit allows another log line about errors that jobs of process `id`
    /// caused.
    pub(crate) fn may_tell(&self, id: i32) -> bool {
        self.errors.allow_job(id)
    }

    /// Prints that the core hangs, in the vendor's words, which scripts search for.
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
