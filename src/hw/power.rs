// SPDX-License-Identifier: GPL-2.0-only

//! The power of a core: its clocks, its reset line, and the power domain of its node.
//!
//! A core that is off has no registers: on silicon the machine stops at an access. Code that
//! touches one either keeps the core on ([`Hardware::supply`]) or is the code that switches it. The
//! interrupt half, which runs at any time when other devices share the line, asks whether it is on.

use super::{
    identity::raw_model_and_revision,
    load_clock,
    load_divider,
    points::Points,
    regs::*,
    times::{
        self,
        PowerTimes,
        Times, //
    },
    Hardware, //
};
use crate::{
    limits::FULL_SCALE,
    sys::{
        clk::NodeClocks,
        power::Supply,
        reset::ResetLine,
        trace, //
    }, //
};
use kernel::{
    device::Device,
    io::Io,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
};

/// Clocks of a node, as the kernel's binding names and orders them. Each may be absent: old trees
/// name some, boards without a node none.
const CLOCKS: [&CStr; 4] = [c"bus", c"core", c"shader", c"reg"];

/// Places among them.
const CORE: usize = 1;
const SHADER: usize = 2;

/// Which of `count` clocks is the one at `which` of [`CLOCKS`]. Vendors' trees have names of their
/// own, or none: there the order is the binding's, and the only clock is the core's.
fn find_clock<'a>(
    count: usize,
    name: impl Fn(usize) -> Option<&'a CStr>,
    which: usize,
) -> Option<usize> {
    let has = |wanted: &CStr| (0..count).find(|&at| name(at) == Some(wanted));
    if CLOCKS.into_iter().any(|known| has(known).is_some()) {
        return has(CLOCKS[which]);
    }
    match count {
        1 => (which == CORE).then_some(0),
        _ => (which < count).then_some(which),
    }
}

/// `PM_MODULE_CONTROLS`: no module's clock is gated.
const NO_GATING: u32 = 0xBFF;

/// Where `HI_CLOCK_CONTROL` has the 64ths.
const SCALE_SHIFT: u32 = 2;

/// The clocks of a core; off again when they are dropped.
pub(crate) struct Clocks {
    clocks: NodeClocks,
    core: Option<usize>,
    shader: Option<usize>,
    are_on: Atomic<bool>,
}

impl Clocks {
    /// All that the node of `dev` has, off. `EPROBE_DEFER`: they are not there yet.
    pub(crate) fn get(dev: &Device) -> Result<Self> {
        let clocks = NodeClocks::get(dev)?;
        let find = |which| find_clock(clocks.len(), |at| clocks.name(at), which);
        Ok(Self {
            core: find(CORE),
            shader: find(SHADER),
            clocks,
            are_on: Atomic::new(false),
        })
    }

    /// Switches them on. By the one that switches the core.
    pub(crate) fn enable(&self) -> Result {
        if !self.are_on.load(Relaxed) {
            self.clocks.enable()?;
            self.are_on.store(true, Relaxed);
        }
        Ok(())
    }

    /// Sets the rate of the core's clock, in Hz, if it has one.
    pub(crate) fn set_rate(&self, hertz: usize) -> Result {
        self.clocks.set_rate(self.core, hertz)
    }

    /// The same of the shaders', if they have one of their own.
    pub(super) fn set_shader_rate(&self, hertz: usize) -> Result {
        match self.clocks.rate(self.shader) {
            0 => Ok(()),
            _ => self.clocks.set_rate(self.shader, hertz),
        }
    }

    /// In Hz, the rates of the core's clock and of the shaders', which is the core's if they have
    /// none of their own; 0: not known.
    pub(crate) fn rates(&self) -> (usize, usize) {
        match (self.clocks.rate(self.core), self.clocks.rate(self.shader)) {
            (core, 0) => (core, core),
            rates => rates,
        }
    }

    /// Switches them off. By the same.
    fn disable(&self) {
        if self.are_on.load(Relaxed) {
            self.are_on.store(false, Relaxed);
            self.clocks.disable();
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
    /// It has gone off since it was to be.
    went_off: Atomic<bool>,
    /// `HI_IDLE_STATE` and `HI_CLOCK_CONTROL` when it went off.
    last_idle: Atomic<u32>,
    last_clock: Atomic<u32>,
    /// The 64ths of its clock at which it must run.
    scale: Atomic<u32>,
    /// And at most, as it is too warm.
    limit: Atomic<u32>,
    /// And at most, as the admin wants it.
    cap: Atomic<u32>,
    /// It has nothing to do, and runs at 1 of them until it has.
    is_slow: Atomic<bool>,
    /// How many it runs at.
    loaded: Atomic<u32>,
    /// It is held in its reset, cut off from the bus.
    is_isolated: Atomic<bool>,
    /// Its last state was to be SUSPEND and not OFF.
    was_suspended: Atomic<bool>,
    /// How long it has been on and off.
    times: Arc<Times>,
}

impl State {
    /// Of a core that is on. `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            is_on: Atomic::new(true),
            is_cycled: Atomic::new(false),
            went_off: Atomic::new(false),
            last_idle: Atomic::new(0),
            last_clock: Atomic::new(0),
            scale: Atomic::new(FULL_SCALE),
            limit: Atomic::new(FULL_SCALE),
            cap: Atomic::new(FULL_SCALE),
            is_slow: Atomic::new(false),
            loaded: Atomic::new(FULL_SCALE),
            is_isolated: Atomic::new(false),
            was_suspended: Atomic::new(false),
            times: Times::new()?,
        })
    }

    /// Whether the core is on, or how, has changed.
    fn note_time(&self) {
        let is_slow = self.is_slow.load(Relaxed);
        let was_suspended = self.was_suspended.load(Relaxed);
        self.times
            .note(match (self.is_on.load(Relaxed), is_slow, was_suspended) {
                (true, false, _) => times::Power::On,
                (true, true, _) => times::Power::Idle,
                (false, _, false) => times::Power::Off,
                (false, _, true) => times::Power::Suspend,
            });
    }
}

impl Hardware {
    /// What keeps the core on.
    pub(crate) fn supply(&self) -> &Supply {
        &self.power.supply
    }

    /// Keeps the core on until its supply is released; says whether it is. If not, which has been
    /// printed, the caller must give it up.
    pub(crate) fn hold(&self) -> bool {
        let held = self.power.supply.hold();
        if held.is_err() {
            dev_err!(
                self.dev,
                "the GPU cannot be switched on: it is given up until it is bound again\n"
            );
        }
        held.is_ok()
    }

    /// Says how many jobs are dropped, if any, as the core goes.
    pub(crate) fn tell_dropped(&self, dropped: u32) {
        if dropped > 0 {
            dev_warn!(
                self.dev,
                "jobs that had not ended and are dropped: {dropped}\n"
            );
        }
    }

    /// Says that what is under way keeps the machine awake.
    pub(crate) fn tell_sleepless(&self) {
        dev_warn!(
            self.dev,
            "what the GPU does takes too long: the machine does not sleep\n"
        );
    }

    /// Whether the core has registers now. A caller that then touches one switches the core itself,
    /// or has made sure that nothing else does.
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

    /// The 64ths of its clock at which it must run when it has something to do.
    pub(crate) fn scale(&self) -> u32 {
        self.state.scale.load(Relaxed)
    }

    /// Sets these 64ths from now on. [`Hardware::load_speed`] loads them.
    pub(crate) fn set_scale(&self, scale: u32) {
        self.state.scale.store(scale, Relaxed);
    }

    /// Sets the most 64ths from now on, whatever is requested.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.state.limit.store(limit, Relaxed);
    }

    /// The same, as the admin wants it.
    pub(crate) fn set_cap(&self, cap: u32) {
        self.state.cap.store(cap, Relaxed);
    }

    /// Whether it runs at the lowest clock as it has nothing to do.
    pub(crate) fn is_slow(&self) -> bool {
        self.state.is_slow.load(Relaxed)
    }

    /// Sets whether it does. [`Hardware::load_speed`] loads that.
    pub(crate) fn set_slow(&self, is_slow: bool) {
        if self.state.is_slow.xchg(is_slow, Relaxed) != is_slow {
            self.state.note_time();
        }
    }

    /// Whether it is cut off: then its clock register stays as it is.
    pub(crate) fn is_isolated(&self) -> bool {
        self.state.is_isolated.load(Relaxed)
    }

    /// It is cut off, or is not any more.
    pub(super) fn note_isolated(&self, is_isolated: bool) {
        self.state.is_isolated.store(is_isolated, Relaxed);
    }

    /// Whether a client wanted it to be SUSPEND, and not OFF, when it goes off next.
    pub(crate) fn note_suspended(&self, is_suspended: bool) {
        if self.state.was_suspended.xchg(is_suspended, Relaxed) != is_suspended {
            self.state.note_time();
        }
    }

    /// What [`Hardware::note_suspended`] noted last.
    pub(crate) fn was_suspended(&self) -> bool {
        self.state.was_suspended.load(Relaxed)
    }

    fn speed(&self) -> u32 {
        match self.is_slow() {
            true => 1,
            false => {
                let (limit, cap) = (&self.state.limit, &self.state.cap);
                self.scale().min(limit.load(Relaxed)).min(cap.load(Relaxed))
            }
        }
    }

    /// Whether it does not run at the speed that it should.
    #[inline]
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.state.loaded.load(Relaxed) != self.speed()
    }

    /// Its clock is the full one again, as after a reset.
    pub(super) fn note_full_speed(&self) {
        self.state.loaded.store(FULL_SCALE, Relaxed);
    }

    /// Sets the core, which is on, to the speed that it should run at. Only for a caller that may
    /// reset it. Module clocks are not gated meanwhile (sources.md, power).
    pub(crate) fn load_speed(&self) {
        if self.is_isolated() {
            return;
        }
        let speed = self.speed();
        if self.state.loaded.xchg(speed, Relaxed) == speed {
            return;
        }
        trace::Speed::record(|| trace::Speed {
            core: self.trace_core(),
            speed,
        });
        let regs = &self.registers;
        let has_gating = self.identity.has_power_registers() && !self.identity.is_early();
        let gating = has_gating.then(|| regs.read(PM_MODULE_CONTROLS));
        if let Some(gating) = gating {
            regs.write_reg(PM_MODULE_CONTROLS::from_raw(gating.into_raw() | NO_GATING));
        }
        load_divider(regs, HI_CLOCK_CONTROL::from_raw(speed << SCALE_SHIFT));
        if let Some(gating) = gating {
            regs.write_reg(gating);
        }
        if self.power_lines.allow_job(0) {
            dev_info!(self.dev, "it runs at {speed}/{FULL_SCALE} of its clock\n");
        }
    }

    /// In Hz, the rates of the core's and the shaders' clocks at the speed that it should have; 0:
    /// not known.
    pub(crate) fn frequencies(&self) -> (u32, u32) {
        let scaled = |rate: usize| {
            // CAST: less than the rate, which a 32-bit machine's word holds, or less than 4 GHz.
            (rate / FULL_SCALE as usize * self.speed() as usize).min(u32::MAX as usize) as u32
        };
        let (core, shader) = self.power.clocks.rates();
        (scaled(core), scaled(shader))
    }

    /// Sets the rate of its clocks to `rate` Hz, which is one of its `points`: at once, whatever it
    /// does, or while it is off.
    pub(crate) fn set_rate(&self, points: &Points, rate: usize) -> Result {
        // If it is on it stays so meanwhile.
        let _kept_on = self.power.supply.if_on();
        points.set_rate(&self.dev, &self.power.clocks, rate)
    }

    /// How long it has been on and off since it was bound.
    pub(crate) fn power_times(&self) -> PowerTimes {
        self.state.times.read()
    }

    /// In Hz, the rate of its clock, before its divider.
    pub(crate) fn rate(&self) -> usize {
        self.power.clocks.rates().0
    }

    /// Says that the machine is not to hibernate, as `bytes` of the pool would be lost.
    pub(crate) fn tell_lost(&self, bytes: usize) {
        dev_err!(
            self.dev,
            "hibernation would lose {} KiB of the pool, which lies outside of the kernel's memory: end the programs that draw first, or have the pool in CMA\n",
            bytes.div_ceil(1024)
        );
    }

    /// Whether the core only loses its state, in a recovery: what runs on it does not matter.
    pub(crate) fn is_cycled(&self) -> bool {
        self.state.is_cycled.load(Relaxed)
    }

    /// Switches the core off: it must be idle, and the front end stopped, unless it hangs. No
    /// register is touched afterwards.
    pub(crate) fn switch_off(&self) {
        if !self.is_on() {
            return;
        }
        if self.tally.is_wanted() && !self.is_cycled() {
            self.count();
        }
        self.disable_interrupts();
        // Also read back: it must have arrived before the clock goes.
        self.state.last_idle.store(self.idle(), Relaxed);
        self.state.last_clock.store(self.clock_control(), Relaxed);
        self.state.went_off.store(true, Relaxed);
        self.trace_power(false);
        self.state.is_on.xchg(false, Full);
        self.state.note_time();
        // One that has seen that it is on may still read the register.
        let _ = self.forget_interrupts();
        self.power.clocks.disable();
        self.tell_power("off");
    }

    /// Switches the core on and resets it. Its power domain is on. `ENODEV`: it does not come back,
    /// or is another, which has been printed.
    pub(crate) fn switch_on(&self) -> Result {
        self.set_slow(false);
        self.note_suspended(false);
        self.clock()?;
        let result = self.check_identity().and_then(|()| self.reset());
        if result.is_err() {
            self.isolate();
            self.switch_off();
        } else {
            self.tell_power("on");
        }
        result
    }

    /// Says that it has been switched `which` way, if the admin wants that.
    fn tell_power(&self, which: &str) {
        if self.power_lines.allow_job(0) {
            dev_info!(self.dev, "it is {which}\n");
        }
    }

    /// Switches a core on that was given up, and keeps it cut off.
    pub(crate) fn switch_on_isolated(&self) -> Result {
        self.enable_clocks()?;
        if !self.state.is_on.xchg(true, Full) {
            self.trace_power(true);
        }
        self.state.note_time();
        self.isolate();
        Ok(())
    }

    /// Switches the clocks on again, of a core that only loses its state.
    pub(crate) fn switch_on_cycled(&self) -> Result {
        self.clock()
    }

    fn enable_clocks(&self) -> Result {
        self.power.clocks.enable().inspect_err(|error| {
            dev_err!(self.dev, "its clocks cannot be enabled ({error:?})\n");
        })
    }

    fn clock(&self) -> Result {
        self.enable_clocks()?;
        load_clock(&self.registers, HI_CLOCK_CONTROL::zeroed());
        if !self.state.is_on.xchg(true, Full) {
            self.trace_power(true);
        }
        self.state.note_time();
        Ok(())
    }

    /// The core, as traces have it.
    fn trace_core(&self) -> u32 {
        // CAST: there are few.
        self.place as u32
    }

    /// It has been switched on, or is being switched off.
    pub(super) fn trace_power(&self, on: bool) {
        trace::Power::record(|| trace::Power {
            core: self.trace_core(),
            on,
            why: match () {
                () if self.is_cycled() => 2,
                () if self.is_isolated() => 3,
                () if self.was_suspended() => 1,
                () => 0,
            },
            speed: self.speed(),
        });
    }

    /// Whether the core is the one that it was.
    fn check_identity(&self) -> Result {
        let (model, revision) = raw_model_and_revision(&self.registers);
        if (model, revision) == self.identity.raw {
            return Ok(());
        }
        if self.errors.allow_job(0) {
            dev_err!(
                self.dev,
                "the GPU comes back as another: model {model:#x} revision {revision:#x}\n"
            );
        }
        Err(ENODEV)
    }

    /// Lets the power domain switch off and on, for a core that nothing else resets. The caller
    /// holds the supply.
    pub(super) fn cycle(&self) -> Result {
        self.state.is_cycled.store(true, Relaxed);
        self.state.went_off.store(false, Relaxed);
        let mut cycled = self.power.supply.cycle();
        if cycled == Err(EBUSY) && self.state.went_off.load(Relaxed) {
            // It was on again before that was seen.
            cycled = Ok(());
        }
        self.state.is_cycled.store(false, Relaxed);
        // It has no power.
        if cycled == Err(EIO) {
            return cycled;
        }
        // Whatever else came of it: the caller goes on.
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

#[kernel::macros::kunit_tests(galcore_power)]
mod tests {
    use super::*;

    /// The places of the core's and the shaders' clock.
    fn found(names: &[Option<&CStr>]) -> (Option<usize>, Option<usize>) {
        let find = |which| find_clock(names.len(), |at| names[at], which);
        (find(CORE), find(SHADER))
    }

    #[test]
    fn clocks_have_names() {
        // Those of i.MX8M Plus, Dove, and i.MX6's 2D core.
        let all = [c"core", c"shader", c"bus", c"reg"].map(Some);
        assert_eq!(found(&all), (Some(0), Some(1)));
        assert_eq!(found(&[Some(c"core")]), (Some(0), None));
        assert_eq!(found(&[c"bus", c"core"].map(Some)), (Some(1), None));
        // A name of the binding's is there: others are not guessed.
        assert_eq!(found(&[c"bus", c"gpu"].map(Some)), (None, None));
    }

    #[test]
    fn without_names_their_order_counts() {
        assert_eq!(found(&[]), (None, None));
        assert_eq!(found(&[None]), (Some(0), None));
        assert_eq!(found(&[None; 2]), (Some(1), None));
        assert_eq!(found(&[None; 3]), (Some(1), Some(2)));
        assert_eq!(found(&[c"aclk", c"cclk"].map(Some)), (Some(1), None));
    }
}
