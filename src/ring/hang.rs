// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: tests whether the core makes progress, and ends jobs whose interrupt is missing.
//!
//! While jobs are under way it looks at the core every [`PERIOD`]. If no job has ended since the
//! last look, it takes raised events itself, and reads the front end's position: all jobs before
//! this position have drained. So a lost interrupt delays a job by two periods at most. If still no
//! job has ended, it tests whether the core has moved ([`Watch`](super::watch::Watch)). A core that
//! has not moved for the time `gpuTimeout` (a parameter) is recovered. If that is 0, or after
//! `silentReset 0` in `/proc/driver/gc`, the hang is only logged, once. A core is also recovered if
//! its job has delayed others for the time `jobTimeout`. While submitters wait, the hang check also
//! tests whether the first reacts.
//!
//! While jobs end in time, it reads no registers.

use super::{
    after_reset::Cause,
    engine::{
        Engine,
        FrontEnd, //
    },
    phase::Phase,
    recovery::RESET_TIME,
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
        unload::InUse,
        work::Delayed, //
    },
    wait, //
};
use kernel::{
    impl_has_delayed_work,
    workqueue::WorkItem, //
};

/// The time between two looks while jobs are under way, in milliseconds. A hang is found at most
/// two periods late: one passes after the last end of a job, one until the position is first read.
const PERIOD: u32 = 30;

/// How long to watch a core that hangs according to an administrator, in milliseconds. Enough for
/// looks every 30 ms to see no progress for 100 ms.
const HURRY_TIME: u32 = 400;

/// The most flushes of the hang check in a row: a place that is being filled may queue it again.
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
    /// Ends the early reset if its time is over, or there is nothing to reset.
    pub(super) fn end_hurry(&mut self, now: usize) {
        let is_over = self.has_nothing_to_do() || !self.may_be_reset();
        // Both times are close, but jiffies may have wrapped in between.
        self.hurry = self
            .hurry
            .filter(|until| !is_over && now.wrapping_sub(*until) > usize::MAX / 2);
    }

    /// Whether the core can be reset: it is open, and on.
    pub(super) fn may_be_reset(&self) -> bool {
        self.phase == Phase::Open && !self.is_off
    }
}

impl<F: FrontEnd> Engine<F> {
    /// Queues the hang check: to run immediately if `now`, otherwise after [`PERIOD`].
    pub(super) fn check_soon(self: &Arc<Self>, now: bool) {
        let delay = if now { 0 } else { PERIOD };
        sys::work::enqueue_delayed::<Self, 0>(self.clone(), msecs_to_jiffies(delay));
    }

    /// Waits until the hang check has seen that the ring is closed, and has dropped its reference.
    /// Otherwise the core's next binding could not claim the registers. The ring must be closed.
    pub(crate) fn dismiss_hang_check(&self) {
        self.flush_hang_check();
        self.dumps.dismiss(&self.dump_work);
    }

    /// Flushes the hang check until it is no longer queued. A running one may queue itself again.
    pub(super) fn flush_hang_check(&self) {
        for _ in 0..DISMISSALS {
            sys::work::flush_delayed(&self.hang_check);
            if !self.state.lock().is_checked {
                return;
            }
        }
    }

    /// Releases the core now if it is kept on only for jobs that have ended. Does nothing if a job
    /// is under way, because each look then counts.
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

    /// Looks once. Returns the delay until the next look, if one is needed.
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
        let (recovers, mut limits) = limits(self.config.timeout);
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
        let holds_up = state.holds_up(self.config.core);
        let limit = self.config.job_limit();
        let holder = state.oldest_process();
        let holder = (holder, state.last_of_others(holder));
        if state.watch.is_too_long(now, holder, holds_up, limit) && recovers {
            drop(state);
            self.recover(Cause::TooLong);
            return Some(period);
        }
        match state.watch.look(now, progress, limits) {
            Finding::Moves => Some(period),
            Finding::Stalled(left) => Some(period.min(left)),
            Finding::Hangs if recovers || is_hurried => {
                drop(state);
                self.recover(if is_hurried {
                    Cause::Hurry
                } else {
                    Cause::Hang
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

    /// Resets the core. (If the core is off, the next switch-on resets it.) A running job that does
    /// not end soon is dropped, with the later jobs of its process. The others run. No process is
    /// charged. Waits at most [`RESET_TIME`] for the reset.
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
                self.hardware.dev,
                "the requested reset has not finished yet\n"
            );
        }
    }

    /// Makes the hang check look now, if jobs are under way, because they are reported to hang.
    pub(crate) fn look_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            state.may_be_reset() && !state.has_nothing_to_do() && state.needs_check()
        };
        if checks {
            self.check_soon(true);
        }
    }

    /// Resets the core if it makes no progress for 100 ms within the next [`HURRY_TIME`], even if
    /// recovery is disabled. No process is charged. Waits for the result, and returns whether it
    /// was reset.
    pub(crate) fn reset_if_hung(self: &Arc<Self>) -> bool {
        let before = self.resets();
        {
            let mut state = self.state.lock();
            let time = msecs_to_jiffies(HURRY_TIME);
            state.hurry = Some(sys::jiffies().wrapping_add(time));
            state.end_hurry(sys::jiffies());
        }
        self.look_now();
        let is_done = || self.state.lock().hurry.is_none().then_some(());
        let _: Option<()> = wait::poll(RESET_TIME, is_done);
        self.resets() != before
    }
}
