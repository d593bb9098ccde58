// SPDX-License-Identifier: GPL-2.0-only

//! A core that goes off while it has nothing to do.
//!
//! Jobs go into the ring whether the core is on or not: who submits never waits for it. The hang
//! check ([`super::hang`]), which the first of them queues, keeps the core on as long as there are
//! any, and lets go of it when it finds none. So a job costs nothing for it.
//!
//! *Off*: the ring is at rest. Nobody gets a place meanwhile; the front end stops at an END in
//! place of its idle loop's WAIT; the clocks go, and perhaps the power. From then on nothing is
//! known of the core, which holds no translations: memory is free without its doing.
//!
//! *On*: it is reset and set up as at first, and its front end starts in the idle loop in front of
//! the oldest job, of those that have come meanwhile. These rest on nothing that was there before.
//!
//! The machine's sleep lets nobody have a place, and waits until what is under way has ended. If
//! that takes long, what has not begun is *held*: the links to jobs become idle loops, but for
//! those to jobs that go on in the context of the one in front of them, which would not find it
//! after the sleep. When the front end rests, the core may go off. Awake again, it runs what is
//! left. A job that runs on is dropped after `jobTimeout`; without one it keeps the machine awake, as
//! it cannot be run once more as if it had not begun.

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    job::Payload,
    phase::Phase,
    Tolls, //
};
use crate::{
    hw::Hardware,
    sys::{
        self,
        clock::Stamp, //
    },
    wait, //
};
use kernel::{
    prelude::*,
    sync::{
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc, //
    }, //
};

/// How long a new speed waits for who ends jobs, in milliseconds.
const SPEED_TIME: u32 = 20;

/// Who ends jobs, or resets the core.
type Completing<'a> = Guard<'a, (), MutexBackend>;

/// How long what is under way may take before the machine sleeps, in milliseconds.
const SLEEP_TIME: u32 = 5000;

impl<F: FrontEnd> Engine<F> {
    /// Switches the core off. `EBUSY`: it has something to do; the hang check lets go of it later.
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

    /// Switches the core on, which lets it run what has come meanwhile. An error, which has been
    /// printed, is final.
    pub(crate) fn switch_on(self: &Arc<Self>) -> Result {
        if self.hardware.is_cycled() {
            return self.hardware.switch_on_cycled();
        }
        if self.is_dead() {
            return self.hardware.switch_on_isolated();
        }
        self.hardware.switch_on()?;
        let completing = self.completion.lock();
        let is_ours = self.pause();
        // What has come meanwhile has not run so far, and may fail at once.
        self.state.lock().meter.begin(Stamp::now());
        self.forget_progress();
        let started = match is_ours {
            true => F::start_again(self),
            // It is being stopped.
            false => {
                self.state.lock().is_off = false;
                Ok(())
            }
        };
        if started.is_err() {
            F::forget_translations(self);
            self.hardware.isolate();
            self.hardware.switch_off();
        }
        drop(completing);
        self.resume();
        // What has ended meanwhile is not flushed past yet.
        F::flushed(self);
        started
    }

    /// Keeps the core on for what is under way; says whether it is. If it cannot be switched on it
    /// is given up.
    pub(super) fn hold_power(self: &Arc<Self>) -> bool {
        let is_on = self.hardware.hold();
        if !is_on {
            self.lose();
        }
        is_on
    }

    /// Something has come since the core has been slowed down: it runs at the speed that it is to
    /// have.
    pub(crate) fn catch_up(&self) {
        if self.hardware.is_slow() || self.hardware.is_out_of_step() {
            self.hardware.set_slow(false);
            let completing = self.completion.lock();
            self.load_speed(&completing);
        }
    }

    /// From now on the core runs at `scale` 64ths of its clock, when it is on and has something to
    /// do. Waits no longer than a moment: if the core is recovered right now, the next job sees to
    /// it.
    pub(crate) fn set_scale(&self, scale: u32) {
        self.hardware.set_scale(scale);
        if let Some(completing) = wait::poll(SPEED_TIME, || self.completion.try_lock()) {
            self.load_speed(&completing);
        }
    }

    /// The same, at most: it is too warm.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.hardware.set_limit(limit);
        let completing = self.completion.lock();
        self.load_speed(&completing);
    }

    /// The same, as the admin wants it.
    pub(crate) fn set_cap(&self, cap: u32) {
        self.hardware.set_cap(cap);
        let completing = self.completion.lock();
        self.load_speed(&completing);
    }

    /// Lets the core run at the speed that it is to have, if it is on. Nobody resets it meanwhile,
    /// or stops it for good: who does so closes the ring first, and then waits for `completing`.
    fn load_speed(&self, _completing: &Completing<'_>) {
        if !F::HAS_DIVIDER || self.state.lock().phase.is_stopped() {
            return;
        }
        // Only now: who waits would keep a power domain on that is to go off.
        if let Some(_kept_on) = self
            .hardware
            .supply()
            .if_on()
            .filter(|_| self.hardware.is_on())
        {
            self.hardware.load_speed();
        }
    }

    /// Calls `look` with the core if it is on: it stays so meanwhile, and no other thread touches what
    /// only one may. `None`: it is off, or has been stopped. Any client can have many threads do so:
    /// they wait for each other first, and the interrupt's thread has one of them before it and not
    /// all. See [`sys::work::by_worker`], too.
    pub(crate) fn if_on<T: Send>(&self, look: impl FnOnce(&Hardware) -> T + Send) -> Option<T> {
        sys::work::by_worker(|| self.look_if_on(look))
    }

    fn look_if_on<T>(&self, look: impl FnOnce(&Hardware) -> T) -> Option<T> {
        let _looking = self.looks.lock();
        let _completing = self.completion.lock();
        if self.state.lock().phase.is_stopped() {
            return None;
        }
        // Only now: as above.
        let kept_on = self.hardware.supply().if_on();
        let _kept_on = kept_on.filter(|_| self.hardware.is_on())?;
        Some(look(&self.hardware))
    }

    /// Lets the core run at its lowest clock until it has something to do, if it has nothing now.
    pub(crate) fn slow_down(&self) {
        let completing = self.completion.lock();
        {
            let state = self.state.lock();
            if !state.is_at_rest() || state.is_off {
                return;
            }
            // Whoever begins something from now on has the hang check look at once.
            self.hardware.set_slow(true);
        }
        self.load_speed(&completing);
    }

    /// Keeps jobs from being ended, and the core from being reset, as long as what this returns
    /// lives.
    pub(crate) fn hold_completion(&self) -> Completing<'_> {
        self.completion.lock()
    }

    /// Drops what is under way, by nobody's guilt, and tells its processes and the log. The front
    /// end must be stopped for good, or cut off from memory.
    pub(crate) fn lose(self: &Arc<Self>) {
        self.close();
        let mut tolls = Tolls::new();
        self.note_all(&mut tolls);
        F::Payload::core_was_reset(self.seat.core, tolls.all(), 0);
        let completing = self.completion.lock();
        self.abandon();
        drop(completing);
        self.hardware.tell_dropped(tolls.dropped());
    }

    /// The machine is going to sleep: waits for what is under way, and lets nothing begin. `EBUSY`:
    /// what runs does not end, nor is it taken for a hang, or for too long.
    pub(crate) fn fall_asleep(self: &Arc<Self>) -> Result {
        let newest = {
            let mut state = self.state.lock();
            state.phase.fall_asleep();
            state.jobs.newest()
        };
        // What hangs or takes too long is found out by then.
        let longest = self.seat.timeout.max(self.seat.job_limit());
        let more = longest.saturating_add(SLEEP_TIME);
        let is_quiet = self.poll_for(newest, SLEEP_TIME) || F::hold_jobs(self, newest, more);
        if !is_quiet {
            self.hardware.tell_sleepless();
            self.wake_up();
            return Err(EBUSY);
        }
        self.dismiss_looks();
        Ok(())
    }

    /// The machine is awake.
    pub(crate) fn wake_up(self: &Arc<Self>) {
        F::release_jobs(self);
        self.hardware.supply().wake_if_kept();
        let mut state = self.state.lock();
        state.phase.wake_up();
        state.moves += 1;
        let is_due = state.jobs.len() > 0 || state.line.has_first();
        let checks = is_due && !state.phase.is_stopped() && state.needs_check();
        drop(state);
        self.moved.notify_all();
        if checks {
            self.check_soon(true);
        }
        // What was let go of while nobody had a place for a flush.
        F::flushed(self);
    }
}
