// SPDX-License-Identifier: GPL-2.0-only

//! Reads of registers for display. They keep the core on and exclude resets.

use super::any::{
    each,
    AnyCore, //
};
use crate::{
    hw::{
        Hardware,
        RegisterDump, //
    },
    prelude::*,
    ring::Payload,
    sys::work, //
};

/// The values of registers for `/proc/driver/gc`.
pub(crate) struct IdleState {
    /// `HI_IDLE_STATE`.
    pub(crate) idle: u32,
    /// `HI_CLOCK_CONTROL`.
    pub(crate) clock_control: u32,
    /// Whether no job is under way, all modules are idle, and the front end is at the ring's end.
    pub(crate) is_idle: bool,
}

impl<P: Payload> AnyCore<P> {
    /// Calls `look` with the core, if it is on. `None`: it is off or was stopped. `NotSupported`:
    /// it is for vector graphics.
    pub(crate) fn if_on<T: Send>(
        &self,
        look: impl FnOnce(&Hardware) -> T + Send,
    ) -> Result<Option<T>> {
        match self {
            AnyCore::Ring(core) => Ok(core.ring().if_on(look)),
            AnyCore::Vector(_) => Err(Error::NotSupported),
        }
    }

    /// The registers that can be read without side effects. `None`: the core is off or was stopped,
    /// or there is no memory.
    pub(crate) fn registers(&self) -> Option<RegisterDump> {
        work::by_worker(|| {
            let is_on = each!(self, core => core.is_on.lock());
            let kept_on = self.hardware().supply().if_on().filter(|_| *is_on);
            let _kept_on = kept_on.filter(|_| self.hardware().is_on())?;
            self.hardware().dump_registers().ok()
        })
    }

    /// The state of the modules and the front end. If the core is off, the state from when it went
    /// off. `None`: the core was stopped.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        work::by_worker(|| {
            let is_on = each!(self, core => core.is_on.lock());
            if !*is_on {
                return None;
            }
            let (hardware, has_ended) = (self.hardware(), self.is_idle());
            let kept_on = hardware.supply().if_on();
            // Does not read it while a recovery switches it off and on.
            let Some(_kept_on) = kept_on.filter(|_| hardware.is_on()) else {
                let (idle, clock_control) = hardware.last_state();
                return Some(IdleState {
                    idle,
                    clock_control,
                    is_idle: has_ended,
                });
            };
            let (idle, clock_control) = (hardware.idle(), hardware.clock_control());
            Some(IdleState {
                idle,
                clock_control,
                is_idle: has_ended && each!(self, core => core.rests(idle)),
            })
        })
    }
}
