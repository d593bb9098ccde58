// SPDX-License-Identifier: GPL-2.0-only

//! The recovery of a core that hangs.
//!
//! It is part of the hang check, which is one work item of the core: it never runs twice at a time.
//! The rest of the driver and other cores do not notice.
//!
//! 1. *Pause*. `galcore completion` is held until the front end runs again, so no job ends. No job
//!    gets a place, and a thread that has one fills it, for which it does not sleep: then the
//!    ring's memory belongs to this thread. Submitters wait as for a full ring.
//! 2. *Hold*. Jobs that are done are ended. The links into the oldest job and out of it become idle
//!    loops, so that no innocent job begins before the reset. If the front end moves now, this was
//!    not a hang: the links are restored, and the recovery ends. What the core was doing is kept
//!    for the dump ([`super::dump`]), which is written at the end.
//! 3. *Reset* ([`Hardware::recover`](crate::hw::Hardware::recover)). After it, no earlier access
//!    reaches memory, the TLB is empty, and no earlier event is left, not even in an interrupt
//!    under way. The core is set up as at first ([`FrontEnd::prepare`]).
//! 4. *Judge* ([`super::verdict`]). All jobs keep their places, ids and numbers. The words of a
//!    dropped job become a jump to its event, so it ends in its turn, as
//!    [`Outcome::Dropped`](super::Outcome::Dropped): its records run, and its memory is released.
//!    The other jobs run as they were written. They depend on the selected pipe, which the jump
//!    before them selects, and on addresses that the GPU holds, all of which are made harmless
//!    first.
//! 5. *Start*. The front end starts at the words after the ring's jobs ([`super::START_BYTES`]),
//!    goes to the oldest job, and follows the links from there.
//!
//! If the core does not come out of its reset it is *given up*: cut off from memory, which can then
//! be freed, and closed. All jobs end as dropped, and waiters and later submitters learn that the
//! GPU does not respond. Binding the core again, or loading the module again, makes another
//! attempt.
//!
//! An unbind during a recovery first closes the ring and masks the interrupt, then waits for the
//! hang check. A recovery that unmasks it then checks whether the ring is closed.
//!
//! # A job that takes too long
//!
//! A job may move and still hold up others for longer than the parameter `jobTimeout`. Then it gets
//! [`REST_TIME`] to end, as below; if it does not end, it is dropped as one that hangs, and its
//! process is charged.
//!
//! # A reset that is asked for
//!
//! The admin may reset a core that makes progress. The links are cut, so that no job begins but
//! those that continue in the context of the running one, and all of these get [`REST_TIME`] to
//! end. A job that does not end is dropped as a guilty one, but no process is charged. If nothing
//! is under way, the front end starts where it rests.
//!
//! RESET of an admin's process resets only a core that makes no progress, as for a hang, but after
//! a tenth of a second. No process is charged: a job that is slow for so short a time may not hang.
//!
//! All of it is bounded: the filling of a place, resets, the end of the interrupt handler, the
//! set-up.

use super::{
    dump::Evidence,
    engine::{
        Engine,
        FrontEnd, //
    },
    inflight::IDS,
    job::Payload,
    verdict::{
        judge,
        Fate, //
    },
    Tolls, //
};
use crate::sys::prelude::*;
use crate::{
    modes::{
        self,
        Mode, //
    },
    sys,
    wait, //
};
use kernel::time::msecs_to_jiffies;

/// How long a thread may take to fill its place, in milliseconds: microseconds, but for a preempted
/// virtual CPU.
const FILL_TIME: u32 = 1000;

/// How long running jobs may take to end before a reset that is asked for, in milliseconds.
pub(crate) const REST_TIME: u32 = 100;

/// How long such a reset may take, in milliseconds.
pub(super) const RESET_TIME: u32 = 5000;

/// How often a core is reset without a guilty process and without a finished job before it is given
/// up.
const BLAMELESS_RESETS: u32 = 3;

/// Why a core is reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It makes no progress.
    Hang,
    /// It makes no progress, and an admin does not wait for the time of a hang.
    Hurry,
    /// It makes progress, but the running job has held others up for too long.
    TooLong,
    /// An admin has asked.
    Asked,
}

enum End {
    /// The core makes progress, or has no jobs.
    NoHang,
    /// The core does not come out of its reset.
    GivenUp,
}

/// How a core continues after its reset.
struct Start {
    /// The address where the front end starts, and the number of units of 8 bytes there.
    place: (u32, u32),
    /// The attempt at which it came back.
    attempts: u32,
    tells: bool,
}

impl<F: FrontEnd> Engine<F> {
    /// Recovers the core, which makes no progress, or must be reset. Called by the hang check.
    pub(super) fn recover(self: &Arc<Self>, cause: Cause) {
        let (mut tolls, mut evidence) = (Tolls::new(), None);
        let cost = match cause {
            Cause::TooLong => msecs_to_jiffies(self.seat.job_limit()),
            Cause::Hang | Cause::Hurry | Cause::Asked => {
                self.state.lock().watch.standstill(sys::jiffies())
            }
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let completing = self.completion.lock();
        let found = match self.pause() {
            true => self.recover_paused(cause, &mut tolls, &mut evidence),
            false => Err(End::NoHang),
        };
        if let Err(End::GivenUp) = found {
            self.cut_off(&mut tolls);
        }
        drop(completing);
        // The core is stopped. Charge processes before a judged job ends, as a process that has
        // closed its files is forgotten then; and before a place is given, as the charge is due to
        // those that wait for one.
        F::Payload::core_was_reset(self.seat.core, tolls.all(), cost);
        let completing = self.completion.lock();
        match found {
            Ok(start) => {
                // Before a dropped job ends.
                self.trace_reset(Some(start.attempts));
                if self.go_on(&start, &tolls).is_err() {
                    self.trace_reset(None);
                    self.cut_off(&mut tolls);
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
        if let Some(evidence) = evidence {
            self.write_dump_later(evidence);
        }
    }

    /// Stops giving places, and waits until the last one is filled; returns whether the ring is
    /// ours.
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

    /// The end of [`Engine::pause`]; the time of a hang starts again.
    pub(super) fn resume(&self) {
        {
            let mut state = self.state.lock();
            let completed = state.completed;
            state.watch.look_anew(completed);
        }
        self.reopen();
    }

    /// The end of [`Engine::pause`].
    fn reopen(&self) {
        let mut state = self.state.lock();
        state.is_paused = false;
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }

    /// Forgets the progress that was seen, and errors.
    pub(super) fn forget_progress(&self) {
        let mut state = self.state.lock();
        let completed = state.completed;
        state.watch.forget(completed);
    }

    #[inline(never)]
    fn recover_paused(
        self: &Arc<Self>,
        cause: Cause,
        tolls: &mut Tolls,
        evidence: &mut Option<KBox<Evidence>>,
    ) -> Result<Start, End> {
        match cause {
            Cause::Hang | Cause::Hurry => self.hold_hanging()?,
            Cause::TooLong => self.hold_running()?,
            Cause::Asked => F::bring_to_rest(self).map_err(|_| End::GivenUp)?,
        }
        let fates = self.judge(cause, tolls);
        let may_tell = || self.hardware.may_tell(self.oldest_process());
        let tells = modes::is_on(Mode::Errors) && (cause == Cause::Asked || may_tell());
        if cause != Cause::Asked {
            self.trace_hang(fates[0] == Fate::Guilty);
            *evidence = self.take_evidence(fates[0] == Fate::Guilty);
            if tells {
                match cause {
                    Cause::TooLong => self.hardware.report_too_long(self.seat.job_limit()),
                    _ => self.hardware.report_hang(),
                }
            }
        }
        self.resets.fetch_add(1, Relaxed);
        let attempts = self.hardware.recover().map_err(|_| End::GivenUp)?;
        // Now, as the next job may fail before the recovery is over.
        self.forget_progress();
        let place = F::prepare(self, cause, &fates).map_err(|_| End::GivenUp)?;
        {
            let mut state = self.state.lock();
            match (cause, fates[0]) {
                (Cause::Asked, _) => {}
                (_, Fate::Guilty) => state.blameless = 0,
                (_, _) => state.blameless += 1,
            }
            if state.blameless > BLAMELESS_RESETS {
                drop(state);
                dev_err!(
                    self.hardware.device(),
                    "the GPU hangs without anybody's guilt, again and again\n"
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

    /// Holds the front end in the running job if that does not end now.
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

    /// Starts the core, which was reset, with the jobs as they are now.
    #[inline(never)]
    fn go_on(self: &Arc<Self>, start: &Start, tolls: &Tolls) -> Result {
        F::enable_interrupts(&self.hardware);
        F::run(self, start.place)?;
        if self.state.lock().phase.is_stopped() {
            // Closing masks the interrupt after it sets the phase: it may have done so before this.
            self.hardware.disable_interrupts();
        }
        if start.tells {
            let (dropped, attempts) = (tolls.dropped(), start.attempts);
            dev_warn!(
                self.hardware.device(),
                "the GPU was reset (at try {attempts}): jobs dropped {dropped}, the others go on\n"
            );
        }
        Ok(())
    }

    /// Ends the jobs that are done; returns whether there are none, and the core has not moved.
    fn still_hangs(self: &Arc<Self>) -> bool {
        self.hardware.acknowledge();
        let progress = F::settle(self);
        let mut state = self.state.lock();
        let completed = state.completed;
        !state.watch.has_ended(completed) && F::is_running(&state) && state.watch.is_there(progress)
    }

    /// Decides the fates of the jobs, oldest first. The ring is ours, and the front end is held.
    #[inline(never)]
    fn judge(&self, cause: Cause, tolls: &mut Tolls) -> [Fate; IDS] {
        let has_begun = F::has_begun(self);
        let (suspects, count) = self.state.lock().suspects();
        let fates = judge(&suspects[..count], has_begun);
        for (suspect, &fate) in suspects[..count].iter().zip(&fates) {
            // A job that an admin has dropped is no process's fault.
            let is_asked = matches!(cause, Cause::Asked | Cause::Hurry);
            let is_guilty = fate == Fate::Guilty && !is_asked;
            tolls.note(suspect.process, is_guilty, fate.is_dropped());
        }
        fates
    }

    /// Gives the core up: it is cut off, and all jobs under way are counted as dropped.
    fn cut_off(&self, tolls: &mut Tolls) {
        self.hardware.disable_interrupts();
        self.hardware.isolate();
        dev_err!(
            self.hardware.device(),
            "the GPU cannot be recovered: it is given up until it is bound again\n"
        );
        // Innocent processes lose as much.
        tolls.forget_dropped();
        self.note_all(tolls);
    }

    /// Counts all jobs under way as dropped, without a guilty process.
    pub(super) fn note_all(&self, tolls: &mut Tolls) {
        let state = self.state.lock();
        let (suspects, count) = state.suspects();
        for suspect in &suspects[..count] {
            tolls.note(suspect.process, false, true);
        }
    }
}
