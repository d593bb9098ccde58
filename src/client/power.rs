// SPDX-License-Identifier: GPL-2.0-only

//! What processes want of the cores' power and clock.
//!
//! A core runs at the highest clock that any process with open files wants; who has said nothing wants
//! the full one. So a client can slow down its own drawing and nobody else's. Lock: `galcore speeds`,
//! above `galcore processes` and the core's.

use super::{
    Clients,
    Process, //
};
use crate::{
    abi::{
        CoreSelector,
        Reply, //
    },
    error::{
        Error,
        Result, //
    },
    gpu,
    limits::{
        FULL_SCALE,
        MAX_CORES, //
    },
    sys::power::KeptOn, //
};
use kernel::sync::atomic::Relaxed;

impl Process {
    /// SET_FSCALE_VALUE. `NotSupported`: the core has no divider. Else as
    /// [`Device::core`](gpu::Device::core).
    pub(super) fn set_scale(&self, selector: CoreSelector, scale: u32) -> Result {
        let gpu::AnyCore::Ring(core) = self.device.any(selector)? else {
            return Err(Error::NotSupported);
        };
        self.scales[core.index()].store(scale, Relaxed);
        self.clients.set_speeds();
        Ok(())
    }

    /// 64ths of the clock of core `place` that it wants.
    fn scale(&self, place: usize) -> u32 {
        self.scales[place].load(Relaxed)
    }

    /// CONFIG_POWER_MANAGEMENT: whether the core may go off as far as this process is concerned.
    /// `GpuNotResponding`: it cannot be switched on. Else as [`Device::core`](gpu::Device::core).
    pub(super) fn config_power(&self, selector: CoreSelector, enable: bool) -> Result<Reply<'_>> {
        let place = self.device.place(selector)?;
        let core = self.device.any(selector)?;
        let kept = match enable {
            true => None,
            false => Some(core.keep_on()?),
        };
        let old = core::mem::replace(&mut self.tables().kept_on[place], kept);
        let reply = Reply::ConfigPower { old: old.is_none() };
        // Not under the tables' lock.
        drop::<Option<KeptOn>>(old);
        Ok(reply)
    }
}

impl Clients {
    /// Lets each core run at the highest clock that a process wants.
    pub(super) fn set_speeds(&self) {
        let _one_at_a_time = self.speeds.lock();
        let (mut scales, mut has_wishes) = ([0; MAX_CORES], false);
        self.for_each_member(|process| {
            for (place, scale) in scales.iter_mut().enumerate() {
                *scale = process.scale(place).max(*scale);
                has_wishes |= process.scale(place) != FULL_SCALE;
            }
        });
        self.has_wishes.store(has_wishes, Relaxed);
        for core in self.device().cores() {
            let scale = match scales[core.index()] {
                0 => FULL_SCALE,
                scale => scale,
            };
            if core.hardware().scale() != scale {
                core.ring().set_scale(scale);
            }
        }
    }

    /// A process has come, or goes: what it wants counts, or does not any more.
    pub(super) fn note_change(&self, process: &Process) {
        let has_own = (0..MAX_CORES).any(|place| process.scale(place) != FULL_SCALE);
        if has_own || self.has_wishes.load(Relaxed) {
            self.set_speeds();
        }
    }
}
