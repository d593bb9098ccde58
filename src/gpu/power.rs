// SPDX-License-Identifier: GPL-2.0-only

//! Power requests of clients: the vendor's power states, the clock, and keeping a core on.
//!
//! Runtime power management switches a core off and on. A client can have it switched off earlier,
//! but cannot prevent its use by others. So OFF, SUSPEND and IDLE last until the next job. Source:
//! sources.md, power.

use super::{
    any::{
        each,
        AnyCore, //
    },
    registers::IdleState,
    Device, //
};
use crate::{
    abi::{
        CoreSelector,
        PowerState,
        PowerWay, //
    },
    prelude::*,
    ring::{
        Payload,
        Shares,
        Waited, //
    },
    sys::{
        self,
        power::KeptOn,
        work, //
    },
    wait, //
};

/// How long a thread waits until the core goes off, in milliseconds. A flush of the MMU may be
/// under way, and its thread may wait for a CPU. A thread that must not wait for jobs only waits
/// for short reads of the core's state.
const OFF_TIME: u32 = 500;
const LOOK_TIME: u32 = 50;

impl<P: Payload> Device<P> {
    /// The core of any kind that `selector` selects. Errors as [`Device::core`].
    pub(crate) fn any(&self, selector: CoreSelector) -> Result<AnyCore<P>> {
        if self.is_vector(self.place(selector)?) {
            self.vector(selector).map(AnyCore::Vector)
        } else {
            self.core(selector).map(AnyCore::Ring)
        }
    }
}

impl<P: Payload> AnyCore<P> {
    /// Brings the core into `state` until its next job. `is_alone`: no other process uses it. If
    /// another does, the core goes off after its usual delay. `own` counts waiting threads of the
    /// caller. `ChipNotReady`: it is not idle, and the caller must not wait. `GpuNotResponding`: it
    /// cannot be switched on. `Interrupted`: a Unix signal arrived.
    pub(crate) fn set_power(
        &self,
        state: PowerState,
        way: PowerWay,
        is_alone: bool,
        own: &Shares,
    ) -> Result {
        let supply = self.hardware().supply();
        match (state, self.is_dead()) {
            (PowerState::On, true) => return Err(Error::GpuNotResponding),
            (PowerState::On, false) => {
                return work::by_worker(|| {
                    supply.wake().map_err(|_| Error::GpuNotResponding)?;
                    self.speed_up();
                    Ok(())
                })
            }
            // A dead core counts as off.
            (_, true) => return Ok(()),
            (_, false) => {}
        }
        match way {
            // The hang check handles jobs that do not end.
            PowerWay::Waiting => {
                if self.wait_for_rest(own) == Err(Error::Interrupted) {
                    return Err(Error::Interrupted);
                }
            }
            PowerWay::IfIdle if !self.is_idle() => return Err(Error::ChipNotReady),
            PowerWay::IfIdle | PowerWay::Later => {}
        }
        if !is_alone {
            return Ok(());
        }
        if state == PowerState::Idle {
            work::by_worker(|| -> Result {
                self.release_now();
                supply.wake().map_err(|_| Error::GpuNotResponding)?;
                each!(self, core => core.engine().slow_down());
                Ok(())
            })?;
        } else {
            self.go_off(
                state,
                match way {
                    PowerWay::Waiting => OFF_TIME,
                    PowerWay::IfIdle => LOOK_TIME,
                    PowerWay::Later => 0,
                },
            );
        }
        Ok(())
    }

    /// Has an idle core switched off, and waits for it: at most `time` milliseconds, and not after
    /// the process is killed.
    fn go_off(&self, state: PowerState, time: u32) {
        let supply = self.hardware().supply();
        self.hardware().note_suspended(state == PowerState::Suspend);
        let time = if supply.is_kept_on() { 0 } else { time };
        // Reads of its state, and the release of memory, briefly keep it on.
        let _: Option<()> = wait::poll(time, || {
            let may_go = work::by_worker(|| {
                self.release_now();
                supply.switch_off_now()
            });
            (!may_go || !self.hardware().is_on() || sys::is_killed()).then_some(())
        });
    }

    /// Switches the core on, or off if it is idle. A core that was given up is left as it is.
    pub(crate) fn switch(&self, on: bool) {
        if self.is_dead() {
            return;
        }
        if on {
            // If this fails, the core is left as it is.
            let _ = work::by_worker(|| self.hardware().supply().wake());
        } else if self.is_idle() {
            self.go_off(PowerState::Off, OFF_TIME);
        }
    }

    /// Ends the uses that have kept the core on for jobs that have ended.
    fn release_now(&self) {
        each!(self, core => core.engine().release_now())
    }

    /// Ends the lowest speed of an idle core.
    fn speed_up(&self) {
        each!(self, core => core.engine().catch_up())
    }

    /// The power state of the core, and whether it is idle. A core with jobs counts as on, a dead
    /// one as off.
    pub(crate) fn power(&self) -> (PowerState, bool) {
        let idle = self.idle_state();
        let Some(IdleState { is_idle, .. }) = idle.filter(|_| !self.is_dead()) else {
            return (PowerState::Off, true);
        };
        let hardware = self.hardware();
        let state = if !self.is_idle() {
            PowerState::On
        } else if hardware.is_on() {
            if hardware.is_slow() {
                PowerState::Idle
            } else {
                PowerState::On
            }
        } else if hardware.was_suspended() {
            PowerState::Suspend
        } else {
            PowerState::Off
        };
        (state, is_idle)
    }

    /// Keeps the core on until the returned value is dropped. `GpuNotResponding`: it cannot be
    /// switched on.
    pub(crate) fn keep_on(&self) -> Result<KeptOn> {
        if self.is_dead() {
            return Err(Error::GpuNotResponding);
        }
        let kept = work::by_worker(|| self.hardware().supply().keep());
        kept.map_err(|_| Error::GpuNotResponding)
    }

    /// The rates of the core's and the shaders' clock, in Hz. 0: unknown.
    pub(crate) fn frequencies(&self) -> (u32, u32) {
        self.hardware().frequencies()
    }

    pub(super) fn is_idle(&self) -> bool {
        each!(self, core => core.engine().is_idle())
    }

    fn is_dead(&self) -> bool {
        each!(self, core => core.engine().is_dead())
    }

    fn wait_for_rest(&self, own: &Shares) -> Result {
        let newest = self.newest();
        each!(self, core => core.engine().wait_for_progress(newest, wait::TIMEOUT, own))
    }
}
