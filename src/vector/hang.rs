// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: ends jobs whose interrupts have not come, and the core's hangs.
//!
//! While jobs are under way it looks every [`PERIOD`]. If none has ended since it looked last, it
//! takes raised interrupts itself; modules that are idle two periods later say that the job has
//! ended without its interrupts. A core that has not got on for the time of the parameter
//! `gpuTimeout` ([`Watch`](crate::ring::Watch)), or a short one if it has told of an error, is
//! recovered, by the rules of [`ring`](crate::ring).
//!
//! # Recovery
//!
//! 1. Nobody gets a place in the queue, and who has one fills it; nobody ends jobs.
//! 2. What it was doing is noted for the dump ([`super::dump`]), which is written at the end. The
//!    core is reset ([`Hardware::recover`](crate::hw::Hardware::recover)): by its own soft reset,
//!    which no other core shares. It is told again where its page table lies; its states are
//!    unknown.
//! 3. The job that runs is guilty: it has been started, and there is nothing that tells how far its
//!    front end came. It is dropped, and what its process has queued behind it, which counts on
//!    states of its. All others have not been started; each loads its own context, for a guilty
//!    process's came before.
//! 4. Processes are told ([`Payload::core_was_reset`]). Then the jobs end in their order, and the
//!    next one is started.

use super::Queue;
use crate::{
    modes::{
        self,
        Mode, //
    },
    ring::{
        dismiss,
        limits,
        until_filled,
        Cause,
        Evidence,
        Finding,
        Outcome,
        Payload,
        Phase,
        Tolls,
        Waited,
        REST_TIME, //
    },
    sys::{
        self,
        unload::InUse,
        work::Delayed, //
    }, //
};
use kernel::{
    impl_has_delayed_work,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
    workqueue::WorkItem, //
};

/// How often the hang check looks while jobs are under way, in milliseconds.
const PERIOD: u32 = 30;

/// How long a core must be seen idle, without any progress, to have ended its job, in milliseconds:
/// by time, as others can have it looked at.
const IDLE_TIME: u32 = 2 * PERIOD;

impl_has_delayed_work! {
    impl{P: Payload} HasDelayedWork<Self> for Queue<P> { self.hang_check }
}

impl<P: Payload> Delayed for Queue<P> {
    fn in_use(&self) -> &InUse {
        &self.in_use
    }
}

impl<P: Payload> WorkItem for Queue<P> {
    type Pointer = Arc<Queue<P>>;

    fn run(this: Arc<Queue<P>>) {
        if let Some(delay) = this.look() {
            sys::work::enqueue_delayed::<Self, 0>(this, delay);
        }
    }
}

impl<P: Payload> Queue<P> {
    /// Queues the hang check: `now`, as the core is to be switched on, or for later.
    pub(super) fn check_soon(self: &Arc<Self>, now: bool) {
        let delay = if now { 0 } else { PERIOD };
        sys::work::enqueue_delayed::<Self, 0>(self.clone(), msecs_to_jiffies(delay));
    }

    /// Waits until the hang check has seen that the queue is closed, and has let go of it: whoever
    /// binds the core next wants its registers. The queue must be closed.
    pub(crate) fn dismiss_hang_check(&self) {
        dismiss(
            || sys::work::flush_delayed(&self.hang_check),
            || self.state.lock().is_checked,
        );
        self.dismiss_dump();
    }

    /// One look; says when the next is due, if any is.
    fn look(self: &Arc<Self>) -> Option<Jiffies> {
        let period = msecs_to_jiffies(PERIOD);
        // Something has come since.
        self.hardware.set_slow(false);
        let is_reset_asked = {
            let mut state = self.state.lock();
            state.is_reset_asked &= state.may_be_reset();
            let is_idle = state.jobs.len() == 0 && !state.is_reset_asked;
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
            let newest = self.newest();
            let _ = self.poll_for(newest, REST_TIME);
            self.recover(Cause::Asked);
            self.state.lock().is_reset_asked = false;
        }
        {
            let mut state = self.state.lock();
            let completed = state.completed;
            if state.watch.has_ended(completed) {
                state.idle_since = None;
                return Some(period);
            }
        }
        self.hardware.acknowledge();
        self.complete();
        let (recovers, limits) = limits(self.setup.timeout);
        let completing = self.completion.lock();
        let (progress, is_idle) = (
            self.hardware.vector_progress(),
            self.hardware.is_vector_idle(),
        );
        let mut state = self.state.lock();
        let completed = state.completed;
        if state.watch.has_ended(completed) || !state.is_running {
            state.idle_since = None;
            return Some(period);
        }
        let now = sys::jiffies();
        let since = *state.idle_since.get_or_insert(now);
        // CAST: jiffies have the machine's width.
        let is_over = now.wrapping_sub(since) > msecs_to_jiffies(IDLE_TIME) as usize;
        if is_idle && is_over {
            drop(state);
            self.end_oldest(Outcome::Done);
            self.end_raised();
            return Some(period);
        }
        if !is_idle {
            state.idle_since = None;
        }
        let holds_up = state.holds_up(self.setup.core);
        if state
            .watch
            .is_too_long(now, holds_up, self.setup.job_timeout)
            && recovers
        {
            drop(state);
            drop(completing);
            self.recover(Cause::TooLong);
            return Some(period);
        }
        match state.watch.look(now, progress, limits) {
            Finding::Moves => Some(period),
            // CAST: jiffies have the machine's width.
            Finding::Stands(left) => Some(period.min(left as Jiffies)),
            Finding::Hangs if recovers => {
                drop(state);
                drop(completing);
                self.recover(Cause::Hang);
                Some(period)
            }
            Finding::Hangs => {
                let is_new = state.watch.tell();
                drop(state);
                if is_new {
                    self.trace_hang(false);
                    self.hardware.report_vector_hang();
                }
                Some(period)
            }
        }
    }

    /// Resets the core, and drops the job that it hangs in and what its process has behind it; or,
    /// as the admin wants that, the one that runs, and nobody is charged.
    fn recover(self: &Arc<Self>, cause: Cause) {
        let (mut tolls, mut evidence) = (Tolls::new(), None);
        if self.pause() {
            let completing = self.completion.lock();
            let is_back = self.reset_core(cause, &mut tolls, &mut evidence);
            drop(completing);
            // Before anybody gets a place again, and before who has closed its files is gone.
            P::core_was_reset(self.setup.core, tolls.all());
            let completing = self.completion.lock();
            if !is_back {
                self.drop_all();
            }
            // Those that are dropped, which nobody else has ended meanwhile, and then the next one
            // is started.
            self.state.lock().is_paused = false;
            self.end_raised();
            self.start_next(&mut self.state.lock());
            drop(completing);
        }
        let mut state = self.state.lock();
        state.is_paused = false;
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
        if let Some(evidence) = evidence {
            self.write_dump_later(evidence);
        }
    }

    /// Lets nobody have a place, and waits until the last one is filled; says whether it is.
    fn pause(&self) -> bool {
        until_filled(|| {
            let mut state = self.state.lock();
            if state.phase.is_stopped() {
                return Some(false);
            }
            state.is_paused = true;
            state.are_filled().then_some(true)
        })
    }

    /// Resets the core if it still hangs, or that is asked for, and judges; says whether it is
    /// there again. The caller holds `completion`.
    fn reset_core(
        &self,
        cause: Cause,
        tolls: &mut Tolls,
        evidence: &mut Option<KBox<Evidence>>,
    ) -> bool {
        let is_asked = cause == Cause::Asked;
        self.hardware.acknowledge();
        let progress = self.hardware.vector_progress();
        if !is_asked {
            let mut state = self.state.lock();
            let completed = state.completed;
            let is_there = cause == Cause::TooLong || state.watch.is_there(progress);
            if state.watch.has_ended(completed) || !state.is_running || !is_there {
                return true;
            }
        }
        let may_tell = || self.hardware.may_tell(self.oldest_process());
        let tells = modes::is_on(Mode::Resets) && (is_asked || may_tell());
        if !is_asked {
            self.trace_hang(true);
            if tells {
                match cause {
                    Cause::TooLong => self.hardware.report_too_long(self.setup.job_timeout),
                    _ => self.hardware.report_vector_hang(),
                }
            }
            *evidence = self.take_evidence();
        }
        self.resets.fetch_add(1, Relaxed);
        let reset = self.hardware.recover();
        self.trace_reset(reset.as_ref().ok().copied());
        if reset.is_ok() {
            self.hardware.set_vector_table(self.setup.table);
        } else {
            self.hardware.isolate();
            dev_err!(
                self.hardware.device(),
                "the GPU cannot be recovered: it is given up until it is bound again\n"
            );
        }
        let mut state = self.state.lock();
        state.core.forget();
        state.is_running = false;
        state.raised = 0;
        state.idle_since = None;
        let guilty = state.jobs.oldest().map_or(0, |(_, _, job)| job.process);
        for age in 0..state.jobs.len() {
            let number = state.jobs.get(age).map_or(0, |(_, slot)| slot.number);
            if let Some(job) = state.jobs.load_at(number) {
                job.is_dropped = reset.is_err() || job.process == guilty;
                tolls.note(job.process, !is_asked && age == 0, job.is_dropped);
            }
        }
        drop(state);
        if let (true, Ok(attempts)) = (tells, reset) {
            dev_warn!(
                self.hardware.device(),
                "the GPU was reset (at try {attempts}): jobs dropped {}, the others go on\n",
                tolls.dropped()
            );
        }
        reset.is_ok()
    }

    /// Nothing runs any more: what there is has been marked as dropped.
    fn drop_all(&self) {
        self.state.lock().phase = Phase::Dead;
        self.close();
    }
}
