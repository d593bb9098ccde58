// SPDX-License-Identifier: GPL-2.0-only

//! Runtime power management of a core: it goes off while it has nothing to do.
//!
//! Jobs get places in the ring whether the core is on or off, so a submitter never waits for the
//! core to come on. The first job queues the hang check ([`super::hang`]). It keeps the core on
//! while there are jobs, and releases it afterwards. So power management adds no cost to each job.
//!
//! *Off*: the ring is at rest, and no job gets a place. An END replaces the WAIT of the idle loop,
//! and the front end stops there. Then the clocks stop, and perhaps the power. From then on the
//! core's TLB counts as empty, so memory is freed without a flush.
//!
//! *On*: the core is reset and set up as at its start. The front end starts in the idle loop before
//! the oldest of the jobs that were submitted meanwhile. These depend on no earlier state.
//!
//! Before the machine sleeps, no job gets a place, and jobs under way get some time to end. After
//! that time, jobs that have not begun are *held*: the links to them become idle loops, except if a
//! job continues in its predecessor's context, which the sleep would destroy. When the front end
//! rests, the core may go off. When the machine is awake, the core runs the held jobs. A running
//! job that does not end is dropped after `jobTimeout`. Without this limit it keeps the machine
//! awake, because it cannot be restarted.

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    job::Payload,
    phase::Phase,
    Losses, //
};
use crate::sys::prelude::*;
use crate::{
    hw::Hardware,
    sys::{
        self,
        clock::Stamp, //
    },
    wait, //
};
use kernel::sync::lock::{
    mutex::MutexBackend,
    Guard, //
};

/// How long a change of speed waits for `completion`, in milliseconds.
const SPEED_TIME: u32 = 20;

/// Held to end jobs, or to reset the core.
type Completing<'a> = Guard<'a, (), MutexBackend>;

/// How long jobs under way may run before the others are held for system suspend, in milliseconds.
const SLEEP_TIME: u32 = 5000;

impl<F: FrontEnd> Engine<F> {
    /// Switches the core off. `EBUSY`: it has work (the hang check releases it later), or is kept
    /// on.
    pub(crate) fn switch_off(self: &Arc<Self>) -> Result {
        if self.hardware.is_cycled() {
            self.hardware.switch_off();
            return Ok(());
        }
        let completing = self.completion.lock();
        {
            let mut state = self.state.lock();
            if state.phase == Phase::Dead {
                drop(state);
                self.hardware.switch_off();
                return Ok(());
            }
            let is_kept_on = self.hardware.supply().is_kept_on() && !state.phase.is_asleep();
            if !state.is_at_rest() || is_kept_on {
                return Err(EBUSY);
            }
            state.is_paused = true;
        }
        F::stop(self);
        self.hardware.switch_off();
        {
            let mut state = self.state.lock();
            state.is_off = true;
            F::went_off(&mut state.front);
        }
        F::forget_translations(self);
        drop(completing);
        self.resume();
        F::flushed(self);
        Ok(())
    }

    /// Switches the core on. It then runs the jobs that were submitted meanwhile. Errors are final,
    /// and have been printed.
    pub(crate) fn switch_on(self: &Arc<Self>) -> Result {
        if self.hardware.is_cycled() {
            return self.hardware.clock();
        }
        if self.is_dead() {
            return self.hardware.switch_on_isolated();
        }
        self.hardware.switch_on()?;
        let completing = self.completion.lock();
        let is_ours = self.pause();
        // Jobs that were submitted meanwhile begin now, and may fail immediately.
        self.state.lock().meter.begin(Stamp::now());
        self.forget_progress();
        let started = if is_ours {
            F::start_again(self)
        } else {
            // The core is being stopped.
            self.state.lock().is_off = false;
            Ok(())
        };
        if started.is_err() {
            F::forget_translations(self);
            self.hardware.isolate();
            self.hardware.switch_off();
        }
        drop(completing);
        self.resume();
        // Changes of the address space while the core was off may wait for a flush.
        F::flushed(self);
        started
    }

    /// Keeps the core on for the jobs under way. Returns whether it is on. If it cannot be switched
    /// on, it is given up.
    pub(super) fn hold_power(self: &Arc<Self>) -> bool {
        let is_on = self.hardware.hold();
        if !is_on {
            self.lose();
        }
        is_on
    }

    /// Ends [`Engine::slow_down`]: loads the requested speed, because there is something to do.
    pub(crate) fn catch_up(&self) {
        if self.hardware.is_slow() || self.hardware.is_out_of_step() {
            self.hardware.set_slow(false);
            let completing = self.completion.lock();
            self.load_speed(&completing);
        }
    }

    /// Sets the speed while the core is on and has something to do, to `scale` 64ths of the clock.
    /// Waits at most [`SPEED_TIME`]. During a recovery, the next job loads the speed instead.
    pub(crate) fn set_scale(&self, scale: u32) {
        self.hardware.set_scale(scale);
        if let Some(completing) = wait::poll(SPEED_TIME, || self.completion.try_lock()) {
            self.load_speed(&completing);
        }
    }

    /// Limits the speed, because the core is too warm.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.hardware.set_limit(limit);
        let completing = self.completion.lock();
        self.load_speed(&completing);
    }

    /// Limits the speed, as requested by the administrator.
    pub(crate) fn set_cap(&self, cap: u32) {
        self.hardware.set_cap(cap);
        let completing = self.completion.lock();
        self.load_speed(&completing);
    }

    /// Enables or disables the core's interrupts. Without them the hang check ends jobs.
    pub(crate) fn set_interrupts(&self, on: bool) {
        self.hardware.set_silenced(!on);
        // If the core is off, they are enabled when it is switched on.
        let _: Option<()> = self.if_on(|hardware| {
            if !hardware.is_isolated() {
                hardware.enable_interrupts();
            }
        });
    }

    /// Loads the requested speed if the core is on. No reset or permanent stop runs at the same
    /// time: it would wait for `completing`.
    fn load_speed(&self, _completing: &Completing<'_>) {
        if !F::HAS_DIVIDER || self.state.lock().phase.is_stopped() {
            return;
        }
        // Only now: a thread that waits for the lock must not keep the power domain on.
        if let Some(_kept_on) = self
            .hardware
            .supply()
            .if_on()
            .filter(|_| self.hardware.is_on())
        {
            self.hardware.load_speed();
        }
    }

    /// Calls `look` with the core if the core is on. It stays on during the call, and no other
    /// thread accesses registers that need exclusive access. `None`: it is off, or was stopped. A
    /// client can call this from many threads. They first wait for each other, so that the
    /// interrupt thread waits for one of them at most. See also [`sys::work::by_worker`].
    pub(crate) fn if_on<T: Send>(&self, look: impl FnOnce(&Hardware) -> T + Send) -> Option<T> {
        sys::work::by_worker(|| self.look_if_on(look))
    }

    fn look_if_on<T>(&self, look: impl FnOnce(&Hardware) -> T) -> Option<T> {
        let _looking = self.look.lock();
        let _completing = self.completion.lock();
        if self.state.lock().phase.is_stopped() {
            return None;
        }
        // Keep it on only now, as in `load_speed`.
        let kept_on = self.hardware.supply().if_on();
        let _kept_on = kept_on.filter(|_| self.hardware.is_on())?;
        Some(look(&self.hardware))
    }

    /// Runs the core at its lowest clock while it has nothing to do.
    pub(crate) fn slow_down(&self) {
        let completing = self.completion.lock();
        {
            let state = self.state.lock();
            if !state.is_at_rest() || state.is_off {
                return;
            }
            // If a job begins now, it queues the hang check without a delay.
            self.hardware.set_slow(true);
        }
        self.load_speed(&completing);
    }

    /// Prevents ends of jobs and resets of the core until the guard is dropped.
    pub(crate) fn hold_completion(&self) -> Completing<'_> {
        self.completion.lock()
    }

    /// Drops the jobs under way, without a guilty process. Notes this for their processes and in
    /// the log. The front end must be stopped permanently, or cut off from memory.
    pub(crate) fn lose(self: &Arc<Self>) {
        self.close();
        let mut losses = Losses::new();
        self.note_all(&mut losses);
        F::Payload::core_was_reset(self.config.core, losses.all(), 0);
        let completing = self.completion.lock();
        self.abandon();
        drop(completing);
        let dropped = losses.dropped();
        if dropped > 0 {
            dev_warn!(
                self.hardware.dev,
                "jobs that had not ended and are dropped: {dropped}\n"
            );
        }
    }

    /// Prepares for system suspend: gives no more places, and waits for the jobs under way.
    /// `EBUSY`: the running job does not end, but neither hangs nor takes too long.
    pub(crate) fn fall_asleep(self: &Arc<Self>) -> Result {
        let newest = {
            let mut state = self.state.lock();
            state.phase.fall_asleep();
            state.jobs.newest()
        };
        // Within this time the hang check finds a hang, or a job that takes too long.
        let longest = self.config.timeout.max(self.config.job_limit());
        let more = longest.saturating_add(SLEEP_TIME);
        let is_quiet = self.poll_for(newest, SLEEP_TIME) || F::hold_jobs(self, newest, more);
        if !is_quiet {
            dev_warn!(
                self.hardware.dev,
                "what the GPU does takes too long: the machine does not sleep\n"
            );
            self.wake_up();
            return Err(EBUSY);
        }
        self.flush_hang_check();
        Ok(())
    }

    /// Called when the machine is awake again.
    pub(crate) fn wake_up(self: &Arc<Self>) {
        F::release_jobs(self);
        self.hardware.supply().wake_if_kept();
        let mut state = self.state.lock();
        state.phase.wake_up();
        state.moves += 1;
        let is_due = state.jobs.len() > 0 || state.line.has_first();
        let checks = is_due && !state.phase.is_stopped() && state.needs_check();
        drop(state);
        self.progress.notify_all();
        if checks {
            self.check_soon(true);
        }
        // Mappings may have ended while no flush could get a place.
        F::flushed(self);
    }
}
