// SPDX-License-Identifier: GPL-2.0-only

//! The power of a core: its clocks, its reset line, and the power domain of its node.
//!
//! A core that is off has no registers: on silicon the machine stops at an access. Who touches one
//! keeps the core on ([`Hardware::supply`]) or is the one that switches it. The interrupt half, which
//! others on the line may call at any time, asks whether it is on.

use super::{
    identity::raw_model_and_revision,
    load_clock,
    regs::*,
    Hardware, //
};
use crate::sys::{
    power::Supply,
    reset::ResetLine, //
};
use kernel::{
    clk::OptionalClk,
    device::Device,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// Clocks of a node, by etnaviv's names. Each may be absent: old trees name some, boards without
/// a node none.
const CLOCKS: [&CStr; 4] = [c"bus", c"core", c"shader", c"reg"];

/// The clocks of a core; off again when they are dropped.
pub(crate) struct Clocks {
    clocks: [OptionalClk; CLOCKS.len()],
    are_on: Atomic<bool>,
}

impl Clocks {
    /// Those that the node of `dev` names, off. `EPROBE_DEFER`: they are not there yet.
    pub(crate) fn get(dev: &Device) -> Result<Self> {
        let get = |which: usize| OptionalClk::get(dev, Some(CLOCKS[which]));
        Ok(Self {
            clocks: [get(0)?, get(1)?, get(2)?, get(3)?],
            are_on: Atomic::new(false),
        })
    }

    /// Switches them on. By the one that switches the core.
    pub(crate) fn enable(&self) -> Result {
        if self.are_on.load(Relaxed) {
            return Ok(());
        }
        for (count, clock) in self.clocks.iter().enumerate() {
            if let Err(error) = clock.prepare_enable() {
                let enabled = self.clocks.iter().take(count);
                enabled.for_each(|clock| clock.disable_unprepare());
                return Err(error);
            }
        }
        self.are_on.store(true, Relaxed);
        Ok(())
    }

    /// Switches them off. By the same.
    fn disable(&self) {
        if self.are_on.load(Relaxed) {
            self.are_on.store(false, Relaxed);
            let clocks = self.clocks.iter().rev();
            clocks.for_each(|clock| clock.disable_unprepare());
        }
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        self.disable();
    }
}

/// What a core gets its power by.
pub(crate) struct Power {
    /// Its clocks, on at first.
    pub(crate) clocks: Clocks,
    /// Its reset line, if its node names one.
    pub(crate) line: Option<ResetLine>,
    /// What keeps it on.
    pub(crate) supply: Supply,
}

/// Whether a core is on; off with its clocks when it is dropped.
pub(super) struct State {
    pub(super) is_on: Atomic<bool>,
    /// It is switched off to be switched on again, and nothing else.
    is_cycled: Atomic<bool>,
    /// `HI_IDLE_STATE` and `HI_CLOCK_CONTROL` when it went off.
    last_idle: Atomic<u32>,
    last_clock: Atomic<u32>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            is_on: Atomic::new(true),
            is_cycled: Atomic::new(false),
            last_idle: Atomic::new(0),
            last_clock: Atomic::new(0),
        }
    }
}

impl Hardware {
    /// What keeps the core on.
    pub(crate) fn supply(&self) -> &Supply {
        &self.power.supply
    }

    /// Whether the core has registers now. Who asks, and then touches one, is the one that switches
    /// it, or has made sure that nobody does.
    pub(crate) fn is_on(&self) -> bool {
        self.state.is_on.load(Relaxed)
    }

    /// `HI_IDLE_STATE` and `HI_CLOCK_CONTROL` as they were when the core went off.
    pub(crate) fn last_state(&self) -> (u32, u32) {
        let state = &self.state;
        (
            state.last_idle.load(Relaxed),
            state.last_clock.load(Relaxed),
        )
    }

    /// Whether the core only loses its state, in a recovery: what runs on it does not matter.
    pub(crate) fn is_cycled(&self) -> bool {
        self.state.is_cycled.load(Relaxed)
    }

    /// Switches the core off: it must be idle, and the front end stopped, unless it hangs. Nobody touches
    /// a register afterwards.
    pub(crate) fn switch_off(&self) {
        if !self.is_on() {
            return;
        }
        self.disable_interrupts();
        // Also read back: it must have arrived before the clock goes.
        self.state.last_idle.store(self.idle(), Relaxed);
        self.state.last_clock.store(self.clock_control(), Relaxed);
        self.state.is_on.xchg(false, Full);
        // One that has seen that it is on may still read the register.
        let _ = self.forget_interrupts();
        self.power.clocks.disable();
    }

    /// Switches the core on and resets it. Its power domain is on. `ENODEV`: it does not come back, or
    /// is another, which has been printed.
    pub(crate) fn switch_on(&self) -> Result {
        self.clock()?;
        let result = self.check_identity().and_then(|()| self.reset());
        if result.is_err() {
            self.isolate();
        }
        result
    }

    /// Switches a core on that was given up, and keeps it cut off.
    pub(crate) fn switch_on_isolated(&self) -> Result {
        self.clock()?;
        self.isolate();
        Ok(())
    }

    fn clock(&self) -> Result {
        self.power.clocks.enable().inspect_err(|error| {
            dev_err!(self.dev, "its clocks cannot be enabled ({error:?})\n");
        })?;
        load_clock(&self.registers, HI_CLOCK_CONTROL::zeroed());
        self.state.is_on.xchg(true, Full);
        Ok(())
    }

    /// Whether the core is the one that it was.
    fn check_identity(&self) -> Result {
        let (model, revision) = raw_model_and_revision(&self.registers);
        if (model, revision) == self.identity.raw {
            return Ok(());
        }
        dev_err!(
            self.dev,
            "the GPU comes back as another: model {model:#x} revision {revision:#x}\n"
        );
        Err(ENODEV)
    }

    /// Lets the power domain switch off and on, for a core that nothing else resets. The caller holds
    /// the supply.
    pub(super) fn cycle(&self) -> Result {
        self.state.is_cycled.store(true, Relaxed);
        let cycled = self.power.supply.cycle();
        self.state.is_cycled.store(false, Relaxed);
        // Whatever came of it: the caller goes on.
        self.clock()?;
        cycled
    }
}

/// A core that is bound: switched off when this is dropped.
pub(crate) struct Powered(pub(crate) Arc<Hardware>);

impl Drop for Powered {
    fn drop(&mut self) {
        self.0.switch_off();
    }
}
