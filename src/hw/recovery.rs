// SPDX-License-Identifier: GPL-2.0-only

//! Recovery of a core: whether it makes progress, and the reset if it does not.
//!
//! Source: sources.md, bring-up, power, profiling.

use super::{
    regs::*,
    Hardware,
    Identity, //
};
use crate::sys::prelude::*;
use kernel::io::Io;

/// `FE_DMA_DEBUG_STATE`: the front end decodes a command.
const DECODES: u32 = 1;

/// Counters of the pixel engine: pixels drawn with color, with depth only, in 2D.
const PIXELS_3D: [u32; 2] = [2, 3];
const PIXELS_2D: u32 = 11;

/// Counters of the rasterizer: pixels, primitives.
const RASTERIZED: [u32; 2] = [0, 3];

/// The most time of the hard interrupt handler, in milliseconds. It takes microseconds, unless a
/// hypervisor runs another guest.
const INTERRUPT_TIME: u32 = 1000;

/// The progress of a core. If two values are equal, the core has made no progress in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// GPU address of the front end's position.
    pub(crate) position: u32,
    /// A hash of the counters of drawn pixels.
    pub(crate) drawn: u32,
    /// The first word of the command that the front end decodes, if all other modules are idle.
    /// During a draw the word is often data of the draw, and not a command.
    pub(crate) command: Option<u32>,
}

impl Hardware {
    /// Reads the progress of the core, which has these pipes. The caller excludes other users of
    /// the selectors.
    pub(crate) fn progress(&self, has_3d: bool, has_2d: bool) -> Progress {
        let regs = &self.registers;
        let mut drawn = 0u32;
        // A rotating sum changes with any counter, unless the changes cancel each other out.
        let mut count = |value: u32| drawn = drawn.rotate_left(5).wrapping_add(value);
        let mut pixels = |select: u32| {
            regs.write_reg(MC_PROFILE_CONFIG0::from_raw(select << 16));
            count(regs.read(MC_PROFILE_PE_READ).into_raw());
        };
        if has_2d {
            pixels(PIXELS_2D);
        }
        if has_3d {
            PIXELS_3D.into_iter().for_each(&mut pixels);
            for select in RASTERIZED {
                regs.write_reg(MC_PROFILE_CONFIG1::from_raw(select << 16));
                count(regs.read(MC_PROFILE_RA_READ).into_raw());
            }
        }
        let state = regs.read(FE_DMA_DEBUG_STATE);
        let decodes = u32::from(state.command()) == DECODES;
        Progress {
            position: self.position(),
            drawn,
            command: (decodes && self.is_idle()).then(|| regs.read(FE_DMA_LOW).into_raw()),
        }
    }

    /// Whether the core has reported a bus error or an MMU exception since the last call.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed) && self.has_failed.xchg(false, Relaxed)
    }

    /// Resets a core that hangs until it is idle and has its identity ([`Hardware::reset_until`]).
    /// Drops its interrupts, which stay disabled. Returns the number of resets. `ENODEV`: the core
    /// is lost. This has been printed.
    pub(crate) fn recover(&self) -> Result<u32> {
        self.disable_interrupts();
        let mut stranger = None;
        let attempts = self.reset_until(true, |hardware| {
            let found = Identity::read(&hardware.registers);
            let is_same = found == hardware.identity;
            stranger = (!is_same).then_some(found);
            is_same
        });
        if let Some(attempts) = attempts {
            self.forget_interrupts()?;
            return Ok(attempts);
        }
        match stranger {
            Some(found) => dev_err!(
                self.dev,
                "the GPU has another identity after the reset: model {:#x} revision {:#x}\n",
                found.model,
                found.revision
            ),
            None => self.report_stuck(),
        }
        Err(ENODEV)
    }

    /// Drops the interrupts that the core raised before its reset. A job that runs again keeps its
    /// event number, so an old bit would complete it.
    ///
    /// The hard interrupt handler may have read the register, but not noted the bits yet. It sets
    /// `is_taking` before it reads. So this waits for a handler that read before the reset. A
    /// handler that reads later finds no bits.
    pub(super) fn forget_interrupts(&self) -> Result {
        // The read after the reset has completed all earlier reads on the bus.
        for _ in 0..INTERRUPT_TIME {
            // Fully ordered with the handler's.
            if self.is_taking.fetch_add(0, Full) == 0 {
                let _ = self.pending.xchg(0, Full);
                self.has_failed.store(false, Relaxed);
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        dev_err!(self.dev, "its interrupt handler does not finish\n");
        Err(ENODEV)
    }
}
