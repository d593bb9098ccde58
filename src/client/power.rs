// SPDX-License-Identifier: GPL-2.0-only

//! Requests of processes for the power and the clock of cores.
//!
//! A core runs at the highest clock that any process with open files requests. A process that
//! requests no clock counts as full speed, so a client can slow down only its own drawing. Lock:
//! `galcore speeds`. It is above `galcore processes` and the locks of the core.

use super::{
    Clients,
    Process, //
};
use crate::{
    abi::{
        CoreSelector,
        PowerState,
        PowerWay,
        Reply, //
    },
    limits::FULL_SCALE,
    prelude::*,
    sys::{
        power::KeptOn,
        work::by_worker, //
    }, //
};

/// SET_POWER_MANAGEMENT_STATE. A core that is gone counts as off. Errors: as
/// [`AnyCore::set_power`](crate::gpu::AnyCore::set_power) and
/// [`Device::core`](crate::gpu::Device::core).
pub(super) fn set(
    process: &Process,
    selector: CoreSelector,
    state: PowerState,
    way: PowerWay,
) -> Result {
    match process.device.any(selector) {
        Ok(core) => {
            let is_alone = process.clients.are_only(process);
            core.set_power(state, way, is_alone, &process.account)
        }
        Err(Error::GpuNotResponding) if state != PowerState::On => Ok(()),
        Err(error) => Err(error),
    }
}

/// QUERY_POWER_MANAGEMENT_STATE: the state, and whether the core is idle. A core that is gone
/// counts as off. Other errors: as [`Device::core`](crate::gpu::Device::core).
pub(super) fn query(process: &Process, selector: CoreSelector) -> Result<Reply<'_>> {
    let (state, is_idle) = match process.device.any(selector) {
        Ok(core) => core.power(),
        Err(Error::GpuNotResponding) => (PowerState::Off, true),
        Err(error) => return Err(error),
    };
    Ok(Reply::Power { state, is_idle })
}

/// SET_FSCALE_VALUE. Also valid for a core that is gone. `NotSupported`: it has no divider.
/// Other errors: as [`Device::place`](crate::gpu::Device::place).
pub(super) fn set_scale(process: &Process, selector: CoreSelector, scale: u32) -> Result {
    let place = process.device.place(selector)?;
    if process.device.is_vector(place) {
        return Err(Error::NotSupported);
    }
    process.scales[place].store(scale, Relaxed);
    process.clients.set_speeds();
    Ok(())
}

/// GET_FSCALE_VALUE: the clock that this process requests. Errors: as
/// [`Device::place`](crate::gpu::Device::place).
pub(super) fn query_scale(process: &Process, selector: CoreSelector) -> Result<Reply<'_>> {
    let place = process.device.place(selector)?;
    Ok(Reply::Scale {
        scale: requested_scale(process, place),
    })
}

/// The requested clock of the core at `place`, in 64ths.
fn requested_scale(process: &Process, place: usize) -> u32 {
    process.scales[place].load(Relaxed)
}

/// CONFIG_POWER_MANAGEMENT: if `enable`, the process lets the core switch off.
/// `GpuNotResponding`: the core cannot be switched on. Other errors: as
/// [`Device::core`](crate::gpu::Device::core).
pub(super) fn configure(
    process: &Process,
    selector: CoreSelector,
    enable: bool,
) -> Result<Reply<'_>> {
    let place = process.device.place(selector)?;
    // A release needs no core.
    let kept = if enable {
        None
    } else {
        Some(process.device.any(selector)?.keep_on()?)
    };
    let mut tables = process.tables();
    let said = tables.manages_power[place].replace(enable);
    let old = core::mem::replace(&mut tables.kept_on[place], kept);
    drop(tables);
    // Without the tables' lock.
    drop::<Option<KeptOn>>(old);
    Ok(Reply::ConfigPower {
        old: said.unwrap_or(process.device.parameters.power_management),
    })
}

impl Clients {
    /// Sets the clock of each core to the highest one that a process requests.
    pub(crate) fn set_speeds(&self) {
        by_worker(|| self.load_speeds())
    }

    fn load_speeds(&self) {
        let _one_at_a_time = self.speeds.lock();
        // A process that joins after the walk finds this set, and sets the clocks again.
        self.has_lowered.store(true, Relaxed);
        let (mut scales, mut has_lowered) = ([0; MAX_CORES], false);
        self.for_each_member(|process| {
            for (place, scale) in scales.iter_mut().enumerate() {
                *scale = requested_scale(process, place).max(*scale);
                has_lowered |= requested_scale(process, place) != FULL_SCALE;
            }
        });
        self.has_lowered.store(has_lowered, Relaxed);
        for core in self.device().cores() {
            let scale = match scales[core.index()] {
                0 => FULL_SCALE,
                scale => scale,
            };
            if core.hardware().scale() != scale {
                core.engine().set_scale(scale);
            }
        }
    }

    /// Whether no other process has files.
    fn are_only(&self, process: &Process) -> bool {
        let mut is_only = true;
        self.for_each_member(|other| is_only &= core::ptr::eq(other, process));
        is_only
    }

    /// Called when a process has joined or left. Sets the clocks if that may change them.
    pub(super) fn note_change(&self, process: &Process) {
        let has_own = (0..MAX_CORES).any(|place| requested_scale(process, place) != FULL_SCALE);
        if has_own || self.has_lowered.load(Relaxed) {
            self.set_speeds();
        }
    }
}
