// SPDX-License-Identifier: GPL-2.0-only

//! A core of any kind: binding, power, interrupts and display.
//!
//! The hard interrupt handler only reads the acknowledge register, which clears that register, and
//! wakes the interrupt's thread.

use super::{
    core::Core,
    vector::VectorCore, //
};
use crate::sys::prelude::*;
use crate::{
    hw::{
        Hardware,
        Identity, //
    },
    memory::VideoMemory,
    ring::{
        Given,
        Handover,
        Payload,
        Waited, //
    },
    sys::{
        self,
        irq::Handler,
        power::Switch, //
    }, //
};
use kernel::{
    irq::ThreadedIrqReturn,
    time::delay::fsleep, //
};

/// Retries before hibernation while memory is not released yet, and milliseconds before each.
const RETURN_TRIES: u32 = 20;
const RETURN_PAUSE: i64 = 10;

/// Evaluates `$do` with the core of any kind as `$core`.
macro_rules! each {
    ($any:expr, $core:ident => $do:expr) => {
        match $any {
            $crate::gpu::AnyCore::Ring($core) => $do,
            $crate::gpu::AnyCore::Vector($core) => $do,
        }
    };
}

pub(crate) use each;

/// A core of any kind.
pub(crate) enum AnyCore<P: Payload> {
    /// One with a ring.
    Ring(Arc<Core<P>>),
    /// One for vector graphics.
    Vector(Arc<VectorCore<P>>),
}

impl<P: Payload> Clone for AnyCore<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Ring(core) => Self::Ring(core.clone()),
            Self::Vector(core) => Self::Vector(core.clone()),
        }
    }
}

impl<P: Payload> AnyCore<P> {
    /// The core's interrupt handlers.
    pub(crate) fn interrupt(&self) -> Interrupt<P> {
        Interrupt(self.clone())
    }

    /// The core's power switch. It draws to `memory`.
    pub(crate) fn power_switch(&self, memory: &Arc<VideoMemory>) -> PowerSwitch<P> {
        PowerSwitch {
            core: self.clone(),
            memory: memory.clone(),
        }
    }

    /// Starts the core and tests its interrupt, which must be requested. Prints failures of the
    /// GPU.
    pub(crate) fn start(&self) -> Result {
        match self {
            Self::Ring(core) => {
                core.start()?;
                core.test_interrupt()
            }
            Self::Vector(core) => core.start(),
        }
    }

    /// Waits briefly for running jobs, then closes the core for new ones.
    pub(crate) fn drain(&self) {
        each!(self, core => core.drain())
    }

    /// The core's hardware.
    pub(crate) fn hardware(&self) -> &Hardware {
        each!(self, core => core.hardware())
    }

    pub(super) fn identity(&self) -> &Identity {
        self.hardware().identity()
    }

    /// How often the core was reset or bound again.
    pub(crate) fn resets(&self) -> u32 {
        each!(self, core => core.engine().resets())
    }

    /// The counts from which the next core at its place continues.
    pub(crate) fn handover(&self) -> Handover {
        each!(self, core => core.engine().handover())
    }

    /// Runs the hang check of the core now.
    pub(crate) fn look_now(&self) {
        each!(self, core => core.engine().look_now())
    }

    /// Resets the core if it makes no progress. Returns whether it was reset.
    pub(crate) fn reset_if_hung(&self) -> bool {
        each!(self, core => core.engine().reset_if_hung())
    }

    /// The number of the core's newest job.
    pub(crate) fn newest(&self) -> u64 {
        each!(self, core => core.engine().newest())
    }

    /// The oldest job, from number `from` on, of which all words are in the memory for jobs.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        each!(self, core => core.engine().given(from))
    }

    /// Copies words of a job, from its byte `offset` on. Returns whether they are the job's: its
    /// memory may have been reused.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        each!(self, core => core.engine().copy_given(job, offset, to))
    }
}

/// The power operations of a core.
pub(crate) struct PowerSwitch<P: Payload> {
    core: AnyCore<P>,
    memory: Arc<VideoMemory>,
}

impl<P: Payload> Switch for PowerSwitch<P> {
    fn switch_off(&self) -> Result {
        each!(&self.core, core => core.engine().switch_off())
    }

    fn switch_on(&self) -> Result {
        each!(&self.core, core => core.engine().switch_on())
    }

    fn sleep(&self) -> Result {
        each!(&self.core, core => core.engine().fall_asleep())
    }

    fn wake(&self) {
        each!(&self.core, core => core.engine().wake_up())
    }

    fn hibernate(&self) -> Result {
        let mut tries = 0;
        loop {
            // Memory of processes that have exited may still be queued for release.
            sys::work::flush();
            let bytes = match self.memory.leave_pool() {
                Ok(()) => return Ok(()),
                Err(bytes) => bytes,
            };
            if tries == RETURN_TRIES {
                self.core.hardware().tell_lost(bytes);
                return Err(EBUSY);
            }
            fsleep(Delta::from_millis(RETURN_PAUSE));
            tries += 1;
        }
    }

    fn limit(&self, speed: u32) {
        if let AnyCore::Ring(core) = &self.core {
            core.ring().set_limit(speed.max(core.least_scale));
        }
    }

    fn has_divider(&self) -> bool {
        matches!(self.core, AnyCore::Ring(_))
    }
}

/// The interrupt handlers of a core.
pub(crate) struct Interrupt<P: Payload>(AnyCore<P>);

impl<P: Payload> Handler for Interrupt<P> {
    fn handle(&self) -> ThreadedIrqReturn {
        if self.0.hardware().interrupt() {
            ThreadedIrqReturn::WakeThread
        } else {
            ThreadedIrqReturn::None
        }
    }

    fn handle_threaded(&self) {
        each!(&self.0, core => core.engine().complete())
    }
}
