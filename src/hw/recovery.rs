// SPDX-License-Identifier: GPL-2.0-only

//! What recovery wants of a core: whether it gets on, and a reset of one that does not.
//!
//! Source: sources.md, bring-up, power, profiling.

use super::{
    regs::*,
    Hardware,
    Identity, //
};
use kernel::{
    io::Io,
    prelude::*,
    sync::atomic::{
        Full,
        Relaxed, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// `FE_DMA_DEBUG_STATE`: the front end makes out what a command is.
const DECODES: u32 = 1;

/// Counters of the pixel engine: pixels that were drawn by colour, by depth alone, in 2D.
const PIXELS_3D: [u32; 2] = [2, 3];
const PIXELS_2D: u32 = 11;

/// Counters of the rasterizer: pixels, primitives.
const RASTERIZED: [u32; 2] = [0, 3];

/// How long the interrupt half may take, in milliseconds. It takes microseconds, unless the
/// processor is another guest's.
const INTERRUPT_TIME: u32 = 1000;

/// How far a core is. Equal to one of before, it has not moved meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// GPU address that the front end is at.
    pub(crate) position: u32,
    /// The counters of what was drawn, in one number.
    pub(crate) drawn: u32,
    /// The first word of the command that the front end makes out, if it does that while every
    /// module that it feeds is idle. While a draw is under way the words are often its own, and no
    /// command.
    pub(crate) command: Option<u32>,
}

impl Hardware {
    /// How far the core, which has these pipes, is. The caller excludes other users of the
    /// selectors.
    pub(crate) fn progress(&self, has_3d: bool, has_2d: bool) -> Progress {
        let regs = &self.registers;
        let mut drawn = 0u32;
        // Any of them moves: the sum would hide only two that cancel each other out.
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

    /// Resets a core that hangs, until it is idle and the same as before
    /// ([`Hardware::reset_until`]), and forgets its interrupts; returns how many times. It raises
    /// no interrupt any more. `ENODEV`: it does not come back, which has been printed.
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
                "the GPU comes out of reset as another: model {:#x} revision {:#x}\n",
                found.model,
                found.revision
            ),
            None => dev_err!(
                self.dev,
                "the GPU does not come out of reset (idle {:#010x}, clock control {:#010x})\n",
                self.idle(),
                self.clock_control()
            ),
        }
        Err(ENODEV)
    }

    /// Forgets what the core has raised before it was reset. A job that runs once more has the
    /// event that it had: a bit of before would end it.
    ///
    /// The interrupt half may be between reading the register and reporting what it read. It marks
    /// itself before it reads: one that read before the reset is seen here, and one that reads
    /// after it reads nothing.
    pub(super) fn forget_interrupts(&self) -> Result {
        // A read that began earlier is over for the bus: the reset was read back after it.
        for _ in 0..INTERRUPT_TIME {
            // In full order with the interrupt half's.
            if self.is_taking.fetch_add(0, Full) == 0 {
                let _ = self.pending.xchg(0, Full);
                self.has_failed.store(false, Relaxed);
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        dev_err!(self.dev, "its interrupt does not come to an end\n");
        Err(ENODEV)
    }
}
