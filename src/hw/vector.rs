// SPDX-License-Identifier: GPL-2.0-only

//! Functions for a core for vector graphics: front end, reset and idle state.
//!
//! Source: sources.md, vector graphics.

use super::{
    regs::*,
    Hardware,
    Progress, //
};
use crate::prelude::*;
use kernel::io::Io;

/// The interrupt of an END of the front end.
pub(crate) const END_INTERRUPT: u32 = 13;

/// All interrupts except the overflow of the tessellator, for which nothing waits.
pub(super) const INTERRUPTS: u32 = !1;

/// Modules that are idle after a job: front end, drawing engine, image, path, tessellator.
const IDLE: u32 = 0xF01;

impl Hardware {
    /// Starts the front end with `units` of 8 bytes at physical address `address`. The address is a
    /// multiple of 64. The words must already be in memory.
    pub(crate) fn start_vector(&self, address: u32, units: u32) {
        let regs = &self.registers;
        self.enable_interrupts();
        regs.write_reg(VG_COMMAND_ADDRESS::from_raw(address));
        regs.write_reg(VG_COMMAND_COUNT::from_raw(units));
    }

    /// Whether all modules that draw are idle.
    pub(crate) fn is_vector_idle(&self) -> bool {
        self.idle() & IDLE == IDLE
    }

    /// The progress of the core: the position of the front end and the idle modules. There are no
    /// counters.
    pub(crate) fn vector_progress(&self) -> Progress {
        Progress {
            position: self.position(),
            drawn: self.idle(),
            command: None,
        }
    }

    /// Does one soft reset. Returns whether the core is idle after it.
    pub(super) fn reset_vector_once(&self) -> bool {
        let regs = &self.registers;
        let millisecond = Delta::from_millis(1);
        let control = regs.read(HI_CLOCK_CONTROL);
        regs.write_reg(PM_MODULE_CONTROLS::zeroed());
        fsleep(millisecond);
        let isolated = control.with_isolate_gpu(true);
        regs.write_reg(isolated);
        regs.write_reg(isolated.with_soft_reset(true));
        fsleep(millisecond);
        regs.write_reg(isolated.with_soft_reset(false));
        regs.write_reg(control.with_isolate_gpu(false).with_soft_reset(false));
        let clock = regs.read(HI_CLOCK_CONTROL);
        regs.read(HI_IDLE_STATE).fe() && clock.idle_3d() && clock.idle_2d()
    }
}
