// SPDX-License-Identifier: GPL-2.0-only

//! The power of a core: its clocks, its reset line, and the power domain of its node.
//!
//! While a core is off, an access to its registers hangs the machine. So code that accesses
//! registers must keep the core on ([`Hardware::supply`]), or be the code that switches it. With a
//! shared line the hard interrupt handler may run at any time, so it checks whether the core is on.
//!
//! The durations of a core's power states.

use super::{
    clocks::{
        Clocks,
        Points, //
    },
    identity::read_model,
    load_clock,
    load_divider,
    regs::*,
    Hardware, //
};
use crate::{
    limits::FULL_SCALE,
    sys::{
        self,
        power::Supply,
        prelude::*,
        trace,
        tree::ResetLine, //
    }, //
};
use kernel::io::Io;

/// `PM_MODULE_CONTROLS`: no module's clock is gated.
const NO_GATING: u32 = 0xBFF;

/// Position of the divider in `HI_CLOCK_CONTROL`.
const SCALE_SHIFT: u32 = 2;

/// The power resources of a core.
pub(crate) struct Power {
    /// The clocks, initially enabled.
    pub(crate) clocks: Clocks,
    /// The reset line, if the node names one.
    pub(crate) line: Option<ResetLine>,
    /// Users of the supply keep the core on.
    pub(crate) supply: Supply,
}

/// The power state of a core.
pub(super) struct State {
    pub(super) is_on: Atomic<bool>,
    /// A recovery cycles the power domain, so that the core loses its state.
    is_cycled: Atomic<bool>,
    /// The core has gone off since the start of the cycle.
    went_off: Atomic<bool>,
    /// `HI_IDLE_STATE` and `HI_CLOCK_CONTROL` when the core went off.
    last_idle: Atomic<u32>,
    last_clock: Atomic<u32>,
    /// The requested speed, in 64ths of its clock.
    scale: Atomic<u32>,
    /// The limit that thermal throttling sets for the speed.
    limit: Atomic<u32>,
    /// The limit that the administrator sets for the speed.
    cap: Atomic<u32>,
    /// The core is idle and runs at 1/64 of its clock.
    is_slow: Atomic<bool>,
    /// The speed that is loaded in the core.
    loaded: Atomic<u32>,
    /// The core is held in reset, isolated from the bus.
    is_isolated: Atomic<bool>,
    /// A client requested SUSPEND instead of OFF.
    was_suspended: Atomic<bool>,
    /// The time in each power state.
    times: Arc<Times>,
}

impl State {
    /// The state of a core that is on. `ENOMEM`.
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

    /// Accounts for a change of the power state.
    fn note_time(&self) {
        let is_slow = self.is_slow.load(Relaxed);
        let was_suspended = self.was_suspended.load(Relaxed);
        self.times
            .note(match (self.is_on.load(Relaxed), is_slow, was_suspended) {
                (true, false, _) => PowerState::On,
                (true, true, _) => PowerState::Idle,
                (false, _, false) => PowerState::Off,
                (false, _, true) => PowerState::Suspend,
            });
    }
}

impl Hardware {
    /// The supply, whose users keep the core on.
    pub(crate) fn supply(&self) -> &Supply {
        &self.power.supply
    }

    /// Keeps the core on until its supply is released. `false`: the core cannot be switched on.
    /// This has been printed, and the caller must give up the core.
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

    /// Whether the core is on. A caller that then accesses a register must be the code that
    /// switches the core, or must keep that code from running.
    pub(crate) fn is_on(&self) -> bool {
        self.state.is_on.load(Relaxed)
    }

    /// `HI_IDLE_STATE` and `HI_CLOCK_CONTROL` from when the core went off.
    pub(crate) fn last_state(&self) -> (u32, u32) {
        let state = &self.state;
        (
            state.last_idle.load(Relaxed),
            state.last_clock.load(Relaxed),
        )
    }

    /// The requested speed while the core has work, in 64ths of its clock.
    pub(crate) fn scale(&self) -> u32 {
        self.state.scale.load(Relaxed)
    }

    /// Sets the requested speed. [`Hardware::load_speed`] loads it.
    pub(crate) fn set_scale(&self, scale: u32) {
        self.state.scale.store(scale, Relaxed);
    }

    /// Sets the limit of thermal throttling, in 64ths.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.state.limit.store(limit, Relaxed);
    }

    /// Sets the administrator's limit, in 64ths.
    pub(crate) fn set_cap(&self, cap: u32) {
        self.state.cap.store(cap, Relaxed);
    }

    /// Whether the core runs at the lowest speed because it is idle.
    pub(crate) fn is_slow(&self) -> bool {
        self.state.is_slow.load(Relaxed)
    }

    /// Sets whether the core runs at the lowest speed. [`Hardware::load_speed`] loads it.
    pub(crate) fn set_slow(&self, is_slow: bool) {
        if self.state.is_slow.xchg(is_slow, Relaxed) != is_slow {
            self.state.note_time();
        }
    }

    /// Whether the core is isolated. Then its clock register must not change.
    pub(crate) fn is_isolated(&self) -> bool {
        self.state.is_isolated.load(Relaxed)
    }

    /// Notes whether the core is isolated.
    pub(super) fn note_isolated(&self, is_isolated: bool) {
        self.state.is_isolated.store(is_isolated, Relaxed);
    }

    /// Notes whether a client requested SUSPEND instead of OFF as the next off state.
    pub(crate) fn note_suspended(&self, is_suspended: bool) {
        if self.state.was_suspended.xchg(is_suspended, Relaxed) != is_suspended {
            self.state.note_time();
        }
    }

    /// The last value of [`Hardware::note_suspended`].
    pub(crate) fn was_suspended(&self) -> bool {
        self.state.was_suspended.load(Relaxed)
    }

    fn speed(&self) -> u32 {
        if self.is_slow() {
            1
        } else {
            let (limit, cap) = (&self.state.limit, &self.state.cap);
            self.scale().min(limit.load(Relaxed)).min(cap.load(Relaxed))
        }
    }

    /// Whether the loaded speed differs from the wanted speed.
    #[inline]
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.state.loaded.load(Relaxed) != self.speed()
    }

    /// Notes that the core runs at full speed, as after a reset.
    pub(super) fn note_full_speed(&self) {
        self.state.loaded.store(FULL_SCALE, Relaxed);
    }

    /// Loads the wanted speed. The core must be on, and the caller must be allowed to reset it. No
    /// module clock is gated during the load (sources.md, power).
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

    /// The rates of the core's and the shaders' clocks at the wanted speed, in Hz. 0: unknown.
    pub(crate) fn frequencies(&self) -> (u32, u32) {
        let scaled = |rate: usize| {
            // CAST: `min` limits it to 32 bits.
            (rate / FULL_SCALE as usize * self.speed() as usize).min(u32::MAX as usize) as u32
        };
        let (core, shader) = self.power.clocks.rates();
        (scaled(core), scaled(shader))
    }

    /// Sets the rate of the core's clocks to `rate` Hz, one of its `points`. It may be busy or off.
    pub(crate) fn set_rate(&self, points: &Points, rate: usize) -> Result {
        // If the core is on, keeps it on during the change.
        let _kept_on = self.power.supply.if_on();
        points.set_rate(&self.dev, &self.power.clocks, rate)
    }

    /// The time in each power state since the core was bound.
    pub(crate) fn power_times(&self) -> PowerTimes {
        self.state.times.read()
    }

    /// The rate of the core's clock before the divider, in Hz.
    pub(crate) fn rate(&self) -> usize {
        self.power.clocks.rates().0
    }

    /// Whether a recovery cycles the power domain. Then the core goes off even if it has jobs.
    pub(crate) fn is_cycled(&self) -> bool {
        self.state.is_cycled.load(Relaxed)
    }

    /// Switches the core off. It must be idle, with the front end stopped, unless it hangs. No
    /// register may be accessed afterwards.
    pub(crate) fn switch_off(&self) {
        if !self.is_on() {
            return;
        }
        if self.tally.is_wanted() && !self.is_cycled() {
            self.count();
        }
        self.disable_interrupts();
        // These reads also flush the posted write before the clock is disabled.
        self.state.last_idle.store(self.idle(), Relaxed);
        self.state.last_clock.store(self.clock_control(), Relaxed);
        self.state.went_off.store(true, Relaxed);
        self.trace_power(false);
        self.state.is_on.xchg(false, Full);
        self.state.note_time();
        // Waits for a hard interrupt handler that has seen the core on.
        let _ = self.forget_interrupts();
        self.power.clocks.disable();
        self.tell_power("off");
    }

    /// Switches the core on and resets it. Its power domain must be on. `ENODEV`: the reset failed,
    /// or the identity has changed. The latter has been printed.
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

    /// If the administrator has enabled this, prints that the core was switched `which` way.
    fn tell_power(&self, which: &str) {
        if self.power_lines.allow_job(0) {
            dev_info!(self.dev, "it is {which}\n");
        }
    }

    /// Switches on a core that was given up, and keeps it isolated.
    pub(crate) fn switch_on_isolated(&self) -> Result {
        self.enable_clocks()?;
        if !self.state.is_on.xchg(true, Full) {
            self.trace_power(true);
        }
        self.state.note_time();
        self.isolate();
        Ok(())
    }

    fn enable_clocks(&self) -> Result {
        self.power.clocks.enable().inspect_err(|error| {
            dev_err!(self.dev, "its clocks cannot be enabled ({error:?})\n");
        })
    }

    /// Enables the clocks and loads the clock register. The core is then on, but not reset.
    pub(crate) fn clock(&self) -> Result {
        self.enable_clocks()?;
        load_clock(&self.registers, HI_CLOCK_CONTROL::zeroed());
        if !self.state.is_on.xchg(true, Full) {
            self.trace_power(true);
        }
        self.state.note_time();
        Ok(())
    }

    /// The core's number in traces.
    fn trace_core(&self) -> u32 {
        // CAST: there are few.
        self.place as u32
    }

    /// Traces that the core was switched on, or is being switched off.
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

    /// Fails if model or revision have changed.
    fn check_identity(&self) -> Result {
        let (model, revision) = read_model(&self.registers);
        if (model, revision) == self.identity.read_model {
            return Ok(());
        }
        if self.errors.allow_job(0) {
            dev_err!(
                self.dev,
                "the GPU has another identity after power-on: model {model:#x} revision {revision:#x}\n"
            );
        }
        Err(ENODEV)
    }

    /// Switches the power domain off and on, for a core that no other method resets. The caller
    /// holds the supply.
    pub(super) fn cycle(&self) -> Result {
        self.state.is_cycled.store(true, Relaxed);
        self.state.went_off.store(false, Relaxed);
        let mut cycled = self.power.supply.cycle();
        if cycled == Err(EBUSY) && self.state.went_off.load(Relaxed) {
            // The core went off, but was already on again when the kernel checked.
            cycled = Ok(());
        }
        self.state.is_cycled.store(false, Relaxed);
        // EIO: it has no power.
        if cycled == Err(EIO) {
            return cycled;
        }
        // For any other result the caller continues to use the core.
        self.clock()?;
        cycled
    }
}

/// A bound core. Dropping this switches it off.
pub(crate) struct Powered(pub(crate) Arc<Hardware>);

impl Drop for Powered {
    fn drop(&mut self) {
        self.0.switch_off();
    }
}

/// A core's power state, by the vendor's names.
#[derive(Clone, Copy)]
enum PowerState {
    On,
    Off,
    Idle,
    Suspend,
}

/// Durations since the core was bound, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct PowerTimes {
    /// Time on.
    pub(crate) on: u64,
    /// Time off.
    pub(crate) off: u64,
    /// Time on, at the lowest clock.
    pub(crate) idle: u64,
    /// Time off, after a client requested SUSPEND.
    pub(crate) suspend: u64,
}

struct Running {
    past: PowerTimes,
    power: PowerState,
    /// The start of the current state, by the monotonic clock, in nanoseconds.
    since: u64,
}

impl Running {
    fn catch_up(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        let past = match self.power {
            PowerState::On => &mut self.past.on,
            PowerState::Off => &mut self.past.off,
            PowerState::Idle => &mut self.past.idle,
            PowerState::Suspend => &mut self.past.suspend,
        };
        *past = past.saturating_add(passed);
        self.since = now;
    }
}

/// The times of one core. Lock: `galcore power times`, a leaf.
#[pin_data]
struct Times {
    #[pin]
    running: SpinLock<Running>,
}

impl Times {
    /// Starts the times of a core that is on.
    fn new() -> Result<Arc<Self>> {
        let running = Running {
            past: PowerTimes::default(),
            power: PowerState::On,
            since: sys::monotonic_ns(),
        };
        let times = pin_init!(Self {
            running <- new_spinlock!(running, "galcore power times"),
        });
        Arc::pin_init(times, GFP_KERNEL)
    }

    /// Notes a new power state.
    fn note(&self, power: PowerState) {
        let mut running = self.running.lock();
        running.catch_up(sys::monotonic_ns());
        running.power = power;
    }

    /// The times until now.
    fn read(&self) -> PowerTimes {
        let mut running = self.running.lock();
        running.catch_up(sys::monotonic_ns());
        running.past
    }
}

#[kunit_tests(galcore_times)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_time() {
        let mut running = Running {
            past: PowerTimes::default(),
            power: PowerState::On,
            since: 100,
        };
        for (power, until) in [
            (PowerState::Idle, 110),
            (PowerState::Suspend, 130),
            (PowerState::Off, 170),
            (PowerState::On, 250),
            (PowerState::On, 260),
        ] {
            running.catch_up(until);
            running.power = power;
        }
        // If the clock goes back, no time is subtracted.
        running.catch_up(200);
        let PowerTimes {
            on,
            off,
            idle,
            suspend,
        } = running.past;
        assert_eq!((on, off, idle, suspend), (20, 80, 20, 40));
    }
}
