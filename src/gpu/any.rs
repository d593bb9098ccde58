// SPDX-License-Identifier: GPL-2.0-only

//! A core of any kind, to bind it, to switch it and to show it.

use super::{
    core::{
        IdleState,
        Interrupt,
        PowerSwitch, //
    },
    device::Place,
    Core,
    VectorCore, //
};
use crate::{
    abi::HardwareType,
    hw::{
        Hardware,
        Identity, //
    },
    memory::VideoMemory,
    ring::{
        Past,
        Payload,
        Waited, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What is the same for each kind of core: `$do` with the core as `$core`.
macro_rules! each {
    ($any:expr, $core:ident => $do:expr) => {
        match $any {
            $crate::gpu::AnyCore::Ring($core) => $do,
            $crate::gpu::AnyCore::Vector($core) => $do,
        }
    };
}

pub(super) use each;

/// A core of whatever kind.
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
    /// The core `hardware`, which has been reset, at `place`. It does not run yet.
    ///
    /// Every failure has been printed.
    pub(crate) fn new(place: &Place<P>, hardware: Arc<Hardware>) -> Result<Self> {
        match hardware.identity().hardware_type() {
            HardwareType::Vector => VectorCore::new(place, hardware).map(Self::Vector),
            _ => Core::new(place, hardware).map(Self::Ring),
        }
    }

    /// What its interrupt does.
    pub(crate) fn interrupt(&self) -> Interrupt<P> {
        Interrupt(self.clone())
    }

    /// What switches it off and on. What it draws lies in `memory`.
    pub(crate) fn power_switch(&self, memory: &Arc<VideoMemory>) -> PowerSwitch<P> {
        PowerSwitch {
            core: self.clone(),
            memory: memory.clone(),
        }
    }

    /// Starts it, and looks whether its interrupt comes. The interrupt must be requested. What it
    /// does not do has been printed.
    pub(crate) fn start(&self) -> Result {
        match self {
            Self::Ring(core) => {
                core.start()?;
                core.test_interrupt()
            }
            Self::Vector(core) => core.start(),
        }
    }

    /// Waits a moment for the jobs under way, then closes the core: no more jobs are taken.
    pub(crate) fn drain(&self) {
        each!(self, core => core.drain())
    }

    /// Its hardware.
    pub(crate) fn hardware(&self) -> &Hardware {
        each!(self, core => core.hardware())
    }

    pub(super) fn identity(&self) -> &Identity {
        self.hardware().identity()
    }

    /// The state of its modules; `None`: it has been stopped.
    pub(super) fn idle_state(&self) -> Option<IdleState> {
        each!(self, core => core.idle_state())
    }

    /// How often it was reset, or came back.
    pub(crate) fn resets(&self) -> u32 {
        each!(self, core => core.engine().resets())
    }

    /// What the next one here goes on from.
    pub(crate) fn past(&self) -> Past {
        each!(self, core => core.engine().past())
    }

    /// The number of its newest job.
    pub(crate) fn newest(&self) -> u64 {
        each!(self, core => core.engine().newest())
    }
}
