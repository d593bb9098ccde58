// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: looks whether the GPU makes progress, and ends jobs whose interrupt is missing.
//!
//! While jobs are under way it looks every [`PERIOD`]. If none has ended since the last look, it
//! takes raised events itself, and reads the position of the front end, which proves that all jobs
//! before it have drained. So a lost interrupt costs two periods at most. If still none has ended,
//! it looks whether the core has moved ([`Watch`](super::watch::Watch)). A core that has not moved
//! for the time of the parameter `gpuTimeout` is recovered; without that time, or with `silentReset
//! 0` in `/proc/driver/gc`, the log gets one line. A core whose job has held up others for the time
//! of `jobTimeout` is recovered, too. While submitters wait, it also looks whether the first of
//! them comes.
//!
//! While jobs end in time, it reads nothing from the core.

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    phase::Phase,
    recovery::{
        Cause,
        RESET_TIME, //
    },
    state::State,
    watch::{
        limits,
        Finding, //
    }, //
};
use crate::{
    modes::{
        self,
        Mode, //
    },
    prelude::*,
    sys::{
        self,
        unload::InUse,
        work::Delayed, //
    },
    wait, //
};
use kernel::{
    impl_has_delayed_work,
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
    workqueue::WorkItem, //
};

/// How often the hang check looks while jobs are under way, in milliseconds. It notices a hang at
/// most two periods late: one after the last job that ends, one to see the position first.
const PERIOD: u32 = 30;

/// How long a core is watched that an admin says hangs, in milliseconds: enough to see it without
/// progress for 100, at intervals of 30.
const HURRY_TIME: u32 = 400;

/// How often a flush of the hang check is repeated: a job that is being filled may queue it again.
const DISMISSALS: u32 = 8;

impl_has_delayed_work! {
    impl{F: FrontEnd} HasDelayedWork<Self> for Engine<F> { self.hang_check }
}

impl<F: FrontEnd> Delayed for Engine<F> {
    fn in_use(&self) -> &InUse {
        &self.in_use
    }
}

impl<F: FrontEnd> WorkItem for Engine<F> {
    type Pointer = Arc<Engine<F>>;

    fn run(this: Arc<Engine<F>>) {
        if let Some(delay) = this.look() {
            sys::work::enqueue_delayed::<Self, 0>(this, delay);
        }
    }
}

impl<F: FrontEnd> State<F> {
    /// Hurries no longer if the time for it is over, or there is nothing to hurry.
    pub(super) fn end_hurry(&mut self, now: usize) {
        let is_over = self.has_nothing_to_do() || !self.may_be_reset();
        // They are close, but the count may have begun again between them.
        self.hurry = self
            .hurry
            .filter(|until| !is_over && now.wrapping_sub(*until) > usize::MAX / 2);
    }

    /// Whether there is something to be reset.
    pub(super) fn may_be_reset(&self) -> bool {
        self.phase == Phase::Open && !self.is_off
    }
}

impl<F: FrontEnd> Engine<F> {
    /// Queues the hang check: at once if `now`, as the core must be switched on, or for later.
    pub(super) fn check_soon(self: &Arc<Self>, now: bool) {
        let delay = if now { 0 } else { PERIOD };
        sys::work::enqueue_delayed::<Self, 0>(self.clone(), msecs_to_jiffies(delay));
    }

    /// Waits until the hang check has seen that the ring is closed, and has dropped its reference:
    /// the core's next binding claims its registers. The ring must be closed.
    pub(crate) fn dismiss_hang_check(&self) {
        self.dismiss_looks();
        self.dismiss_dump();
    }

    /// Flushes the hang check until it is not queued any more. One that runs may queue itself once.
    pub(super) fn dismiss_looks(&self) {
        for _ in 0..DISMISSALS {
            sys::work::flush_delayed(&self.hang_check);
            if !self.state.lock().is_checked {
                return;
            }
        }
    }

    /// Releases the core now if it is kept on for jobs that have ended. Not if a job is under way:
    /// each look at one counts.
    pub(crate) fn release_now(&self) {
        for _ in 0..DISMISSALS {
            let state = self.state.lock();
            if !state.is_checked || state.jobs.len() > 0 {
                return;
            }
            drop(state);
            sys::work::flush_delayed(&self.hang_check);
        }
    }

    /// One look; returns when the next is due, if any.
    fn look(self: &Arc<Self>) -> Option<Jiffies> {
        let period = msecs_to_jiffies(PERIOD);
        self.catch_up();
        let is_reset_asked = {
            let mut state = self.state.lock();
            let is_taken_soon = state.is_taken_soon(sys::jiffies());
            state.is_reset_asked &= state.may_be_reset();
            state.end_hurry(sys::jiffies());
            let is_idle = state.has_nothing_to_do() && !state.is_reset_asked;
            if is_idle && is_taken_soon {
                return Some(period);
            }
            if state.phase.is_stopped() || is_idle {
                state.is_checked = false;
                drop(state);
                self.hardware.supply().release();
                return None;
            }
            state.is_reset_asked
        };
        if !self.hold_power() {
            return Some(period);
        }
        if is_reset_asked {
            self.recover(Cause::Asked);
            self.state.lock().is_reset_asked = false;
        }
        {
            let mut state = self.state.lock();
            let completed = state.completed;
            if state.watch.has_ended(completed) {
                return Some(period);
            }
        }
        self.hardware.acknowledge();
        let completing = self.completion.lock();
        let progress = F::settle(self);
        drop(completing);
        let (recovers, mut limits) = limits(self.seat.timeout);
        let recovers = recovers && modes::is_on(Mode::Resets);
        let mut state = self.state.lock();
        let is_hurried = state.hurry.is_some();
        if is_hurried {
            limits.0 = limits.0.min(limits.1);
        }
        let completed = state.completed;
        if state.watch.has_ended(completed) || !F::is_running(&state) {
            return Some(period);
        }
        let now = sys::jiffies();
        let holds_up = state.holds_up(self.seat.core);
        let limit = self.seat.job_limit();
        let holder = state.oldest_process();
        let holder = (holder, state.last_of_others(holder));
        if state.watch.is_too_long(now, holder, holds_up, limit) && recovers {
            drop(state);
            self.recover(Cause::TooLong);
            return Some(period);
        }
        match state.watch.look(now, progress, limits) {
            Finding::Moves => Some(period),
            // CAST: jiffies have the machine's width.
            Finding::Stalled(left) => Some(period.min(left as Jiffies)),
            Finding::Hangs if recovers || is_hurried => {
                drop(state);
                self.recover(match is_hurried {
                    true => Cause::Hurry,
                    false => Cause::Hang,
                });
                self.state.lock().hurry = None;
                Some(period)
            }
            Finding::Hangs => {
                let is_new = state.watch.tell();
                drop(state);
                if is_new {
                    self.trace_hang(false);
                    self.hardware.report_hang();
                }
                Some(period)
            }
        }
    }

    /// Resets the core, unless it is off: then it is reset when it is switched on. A running job that
    /// does not end soon is dropped, with the later jobs of its process; the others run. No process
    /// is charged. Waits for the reset, at most [`RESET_TIME`].
    pub(crate) fn reset_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            if !state.may_be_reset() {
                return;
            }
            state.is_reset_asked = true;
            state.needs_check()
        };
        if checks {
            self.check_soon(true);
        }
        let is_done = || (!self.state.lock().is_reset_asked).then_some(());
        if wait::poll(RESET_TIME, is_done).is_none() {
            dev_warn!(
                self.hardware.device(),
                "the reset that was asked for takes long\n"
            );
        }
    }

    /// Has the hang check look now, if there is something under way: it is said to hang.
    pub(crate) fn look_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            state.may_be_reset() && !state.has_nothing_to_do() && state.needs_check()
        };
        if checks {
            self.check_soon(true);
        }
    }

    /// Resets the core if it makes no progress for 100 ms within the next [`HURRY_TIME`], as a hang
    /// without a charge; whether it was reset. Also without recovery. Waits until that is
    /// known.
    pub(crate) fn reset_if_hung(self: &Arc<Self>) -> bool {
        let before = self.resets();
        {
            let mut state = self.state.lock();
            // CAST: jiffies have the machine's width.
            let time = msecs_to_jiffies(HURRY_TIME) as usize;
            state.hurry = Some(sys::jiffies().wrapping_add(time));
            state.end_hurry(sys::jiffies());
        }
        self.look_now();
        let is_done = || self.state.lock().hurry.is_none().then_some(());
        let _: Option<()> = wait::poll(RESET_TIME, is_done);
        self.resets() != before
    }
}
