// SPDX-License-Identifier: GPL-2.0-only

//! The recovery of a core that hangs.
//!
//! It is part of the hang check. That is one work item for each core, so no two recoveries of a
//! core run at the same time. The rest of the driver and the other cores are not affected.
//!
//! 1. *Pause*. No job gets a place. A thread that has one fills it, and does not sleep. Then only
//!    the recovery writes to the ring. Submitters wait as for a full ring. `galcore completion` is
//!    held until the front end runs again, so no job ends. It is dropped only to charge processes,
//!    while the core is stopped.
//! 2. *Hold*. Jobs that are done are ended. The links into the oldest job and out of it become idle
//!    loops, so that no innocent job begins before the reset. If the front end now moves, this is
//!    no hang: the links are restored, and the recovery ends. Otherwise the core's state is saved
//!    for the dump ([`super::dump`]), which is written at the end.
//! 3. *Reset* ([`Hardware::recover`](crate::hw::Hardware::recover)). After it, no earlier access
//!    reaches memory, the TLB is empty, and no earlier event is pending, even in a running
//!    interrupt handler. The core is set up as at its start ([`FrontEnd::prepare`]).
//! 4. *Decide* ([`super::after_reset`]). All jobs keep their places, IDs and numbers. The words of
//!    a dropped job become a jump to its event, so it ends in order, as
//!    [`Outcome::Dropped`](super::Outcome::Dropped): its records run, and its memory is released.
//!    The other jobs run as they were written. They depend on the selected pipe: the words before
//!    them select it. They also depend on addresses in the GPU's states, so these are made harmless
//!    first.
//! 5. *Start*. The front end runs the start words ([`super::START_BYTES`]), which lead it to the
//!    oldest job. From there it follows the links.
//!
//! If a reset of the core fails, the core is *given up*: it is cut off from memory, which can then
//! be freed, and closed. All jobs end as dropped. Waiters and later submitters get an error: the
//! GPU does not respond. When the core is bound again, the driver makes another attempt.
//!
//! An unbind during a recovery first closes the ring and masks the interrupt, then waits for the
//! hang check. So when a recovery has unmasked the interrupt, it checks whether the ring is closed.
//!
//! # A job that takes too long
//!
//! A job may move and still delay others for longer than the parameter `jobTimeout`. Then it gets
//! [`REST_TIME`] to end, as below. If it does not end, it is dropped like one that hangs, and its
//! process is charged.
//!
//! # A requested reset
//!
//! The administrator may reset a core that makes progress. The links are cut, so that no job begins
//! unless it continues in the running job's context. All of these get [`REST_TIME`] to end. A job
//! that does not end is dropped like a guilty one, but no process is charged. If no job is under
//! way, the front end starts in its idle loop.
//!
//! The request RESET of an administrator's process resets a core only if it makes no progress for
//! 100 ms. No process is charged: a job without progress for such a short time may not hang.
//!
//! Every wait is bounded: for a place to be filled, a reset, the interrupt handler, and the setup.

use super::{
    after_reset::{
        decide,
        AfterReset,
        Cause, //
    },
    dump::{
        Snapshot,
        WORK, //
    },
    engine::{
        Engine,
        FrontEnd, //
    },
    inflight::IDS,
    job::Payload,
    Losses, //
};
use crate::{
    modes::{
        self,
        Mode, //
    },
    sys::{
        self,
        prelude::*, //
    },
    wait, //
};

/// How long a thread may take to fill its place, in milliseconds. It usually takes microseconds,
/// but a virtual CPU may be preempted.
const FILL_TIME: u32 = 1000;

/// How long running jobs may take to end before a requested reset, in milliseconds.
pub(crate) const REST_TIME: u32 = 100;

/// How long a requested reset may take, in milliseconds.
pub(super) const RESET_TIME: u32 = 5000;

/// The most resets in a row without a guilty process or a finished job. At the next such reset the
/// core is given up.
const BLAMELESS_RESETS: u32 = 3;

enum End {
    /// The core makes progress, or has no jobs.
    NoHang,
    /// The core could not be reset or set up.
    GivenUp,
}

/// How a core continues after its reset.
struct Start {
    /// The front end's start address, and the number of units of 8 bytes there.
    place: (u32, u32),
    /// Number of resets until it came back.
    attempts: u32,
    tells: bool,
}

impl<F: FrontEnd> Engine<F> {
    /// Recovers a core that makes no progress or must be reset. Called by the hang check.
    pub(super) fn recover(self: &Arc<Self>, cause: Cause) {
        let (mut losses, mut snapshot) = (Losses::new(), None);
        let cost = match cause {
            Cause::TooLong => msecs_to_jiffies(self.config.job_limit()),
            Cause::Hang | Cause::Hurry | Cause::Asked => {
                self.state.lock().watch.standstill(sys::jiffies())
            }
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let completing = self.completion.lock();
        let found = if self.pause() {
            self.recover_paused(cause, &mut losses, &mut snapshot)
        } else {
            Err(End::NoHang)
        };
        if let Err(End::GivenUp) = found {
            self.cut_off(&mut losses);
        }
        drop(completing);
        // The core is stopped. Charge processes before a dropped job ends: then a process that has
        // closed its files is forgotten. And charge them before jobs get places: waiting submitters
        // must see it.
        F::Payload::core_was_reset(self.config.core, losses.all(), cost);
        let completing = self.completion.lock();
        match found {
            Ok(start) => {
                // Trace this before a dropped job ends.
                self.trace_reset(Some(start.attempts));
                if self.go_on(&start, &losses).is_err() {
                    self.trace_reset(None);
                    self.cut_off(&mut losses);
                    self.abandon();
                }
            }
            Err(End::GivenUp) => {
                self.trace_reset(None);
                self.abandon();
            }
            Err(End::NoHang) => {}
        }
        drop(completing);
        self.reopen();
        // The reset has flushed the TLB.
        F::flushed(self);
        if let Some(snapshot) = snapshot {
            // Not written here, because this takes a time that depends on the guilty process.
            self.dumps.write_later::<_, WORK>(snapshot, self.clone());
        }
    }

    /// Prevents jobs from getting places, and waits until the last place is filled. Returns whether
    /// the ring is ours.
    pub(super) fn pause(&self) -> bool {
        let is_ours = wait::poll(FILL_TIME, || {
            let mut state = self.state.lock();
            if state.phase.is_stopped() {
                return Some(false);
            }
            state.is_paused = true;
            (!state.is_filling).then_some(true)
        });
        is_ours.unwrap_or(false)
    }

    /// Ends [`Engine::pause`], and restarts the time limit of a hang.
    pub(super) fn resume(&self) {
        {
            let mut state = self.state.lock();
            let completed = state.completed;
            state.watch.look_anew(completed);
        }
        self.reopen();
    }

    /// Ends [`Engine::pause`].
    fn reopen(&self) {
        let mut state = self.state.lock();
        state.is_paused = false;
        state.moves += 1;
        drop(state);
        self.progress.notify_all();
    }

    /// Forgets the progress and the errors seen so far.
    pub(super) fn forget_progress(&self) {
        let mut state = self.state.lock();
        let completed = state.completed;
        state.watch.forget(completed);
    }

    #[inline(never)]
    fn recover_paused(
        self: &Arc<Self>,
        cause: Cause,
        losses: &mut Losses,
        snapshot: &mut Option<KBox<Snapshot>>,
    ) -> Result<Start, End> {
        match cause {
            Cause::Hang | Cause::Hurry => self.hold_hanging()?,
            Cause::TooLong => self.hold_running()?,
            Cause::Asked => F::bring_to_rest(self).map_err(|_| End::GivenUp)?,
        }
        let decisions = self.decide(cause, losses);
        let may_tell = || self.hardware.may_tell(self.oldest_process());
        let tells = modes::is_on(Mode::Errors) && (cause == Cause::Asked || may_tell());
        if cause != Cause::Asked {
            let has_culprit = decisions[0] == AfterReset::Guilty;
            self.trace_hang(has_culprit);
            let take = || F::snapshot(self, has_culprit);
            *snapshot = self.dumps.snapshot_of::<F::Payload>(&self.hardware, take);
            if tells {
                match cause {
                    Cause::TooLong => dev_err!(
                        self.hardware.dev,
                        "a job has held others up for {} ms (jobTimeout): it is dropped\n",
                        self.config.job_limit()
                    ),
                    _ => self.hardware.report_hang(),
                }
            }
        }
        self.resets.fetch_add(1, Relaxed);
        let attempts = self.hardware.recover().map_err(|_| End::GivenUp)?;
        // Do this now, because the next job may fail before the recovery is over.
        self.forget_progress();
        let place = F::prepare(self, cause, &decisions).map_err(|_| End::GivenUp)?;
        {
            let mut state = self.state.lock();
            match (cause, decisions[0]) {
                (Cause::Asked, _) => {}
                (_, AfterReset::Guilty) => state.blameless = 0,
                (_, _) => state.blameless += 1,
            }
            if state.blameless > BLAMELESS_RESETS {
                drop(state);
                dev_err!(
                    self.hardware.dev,
                    "the GPU hangs again and again, and no process has caused it\n"
                );
                return Err(End::GivenUp);
            }
        }
        Ok(Start {
            place,
            attempts,
            tells,
        })
    }

    /// Holds the front end if the core still hangs.
    fn hold_hanging(self: &Arc<Self>) -> Result<(), End> {
        if !self.still_hangs() {
            return Err(End::NoHang);
        }
        F::hold(self).map_err(|_| End::GivenUp)?;
        if !self.still_hangs() {
            F::release(self).map_err(|_| End::GivenUp)?;
            return Err(End::NoHang);
        }
        Ok(())
    }

    /// Holds the front end in the running job, unless that job ends now.
    fn hold_running(self: &Arc<Self>) -> Result<(), End> {
        F::bring_to_rest(self).map_err(|_| End::GivenUp)?;
        let is_over = {
            let mut state = self.state.lock();
            let completed = state.completed;
            state.watch.has_ended(completed)
        };
        if is_over {
            F::release(self).map_err(|_| End::GivenUp)?;
            return Err(End::NoHang);
        }
        Ok(())
    }

    /// Starts the core, which was reset, with the jobs as rewritten.
    #[inline(never)]
    fn go_on(self: &Arc<Self>, start: &Start, losses: &Losses) -> Result {
        self.hardware.enable_interrupts();
        F::run(self, start.place)?;
        if self.state.lock().phase.is_stopped() {
            // A close sets the phase and then masks the interrupt, perhaps before the enable above.
            self.hardware.disable_interrupts();
        }
        if start.tells {
            let (dropped, attempts) = (losses.dropped(), start.attempts);
            dev_warn!(
                self.hardware.dev,
                "the GPU was reset (at try {attempts}): jobs dropped {dropped}, the others go on\n"
            );
        }
        Ok(())
    }

    /// Ends the jobs that are done. Returns whether there were none, and the core has not moved.
    fn still_hangs(self: &Arc<Self>) -> bool {
        self.hardware.acknowledge();
        let progress = F::settle(self);
        let mut state = self.state.lock();
        let completed = state.completed;
        !state.watch.has_ended(completed) && F::is_running(&state) && state.watch.is_there(progress)
    }

    /// Decides what becomes of the jobs, oldest first. The ring is ours, and the front end is held.
    #[inline(never)]
    fn decide(&self, cause: Cause, losses: &mut Losses) -> [AfterReset; IDS] {
        let has_begun = F::has_begun(self);
        let (job_facts, count) = self.state.lock().job_facts();
        let decisions = decide(&job_facts[..count], has_begun);
        for (job, &decision) in job_facts[..count].iter().zip(&decisions) {
            // If the administrator has requested the reset, no process is at fault.
            let is_asked = matches!(cause, Cause::Asked | Cause::Hurry);
            let is_guilty = decision == AfterReset::Guilty && !is_asked;
            losses.note(job.process, is_guilty, decision.is_dropped());
        }
        decisions
    }

    /// Gives up the core: cuts it off from memory, and counts all jobs under way as dropped.
    fn cut_off(&self, losses: &mut Losses) {
        self.hardware.disable_interrupts();
        self.hardware.isolate();
        dev_err!(
            self.hardware.dev,
            "the GPU cannot be recovered: it is given up until it is bound again\n"
        );
        // Innocent processes lose all jobs, too, so count from 0.
        losses.forget_dropped();
        self.note_all(losses);
    }

    /// Counts all jobs under way as dropped, without a guilty process.
    pub(super) fn note_all(&self, losses: &mut Losses) {
        let state = self.state.lock();
        let (job_facts, count) = state.job_facts();
        for job in &job_facts[..count] {
            losses.note(job.process, false, true);
        }
    }
}
