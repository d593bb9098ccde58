// SPDX-License-Identifier: GPL-2.0-only

//! The recovery of a core that hangs.
//!
//! It is the hang check's, which is one work item of the core's: nothing of it runs twice at a
//! time. The rest of the driver goes on; other cores do not notice.
//!
//! 1. *Nobody ends jobs*: `galcore completion` is held until the front end runs again. *Nobody gets
//!    a place* in the ring, and who has one fills it, which takes no sleep: then the ring's memory
//!    is this thread's. Submitters wait as for a full ring.
//! 2. What has ended by now has. *The front end is held* where it is: the links into the oldest job
//!    and out of it become idle loops. If it gets on now, it was no hang: the links come back, and
//!    that was it. So an innocent job that is behind has not begun when the core is reset.
//!    What it was doing is noted for the dump ([`super::dump`]), which is written at the end.
//! 3. *Reset* ([`Hardware::recover`](crate::hw::Hardware::recover)): nothing of before reaches
//!    memory any more, the TLB is empty, no event of before is left, not even with an interrupt
//!    under way. It is the same core as before, and is set up as it was at first
//!    ([`FrontEnd::prepare`]).
//! 4. *Judge* ([`super::verdict`]). All jobs keep their places, ids and numbers. A dropped one's
//!    words become a jump to its event: so it ends in its turn, as [`Outcome::Dropped`](super::Outcome::Dropped), and its
//!    records run and its memory is let go of as ever. Those that run are as they were written.
//!    They rest on the pipe that is selected, which the jump in front of them sees to, and on
//!    addresses that the GPU holds, which are all made nobody's first.
//! 5. *The front end starts* behind the ring's jobs ([`super::START_BYTES`]), goes to the oldest,
//!    and from there along the links that there are.
//!
//! If the core does not come out of its reset it is *given up*: cut off from memory, so that
//! nothing is freed under it, and closed. All jobs end as dropped, who waits or comes is told that
//! the GPU does not respond, and memory comes back. Unbinding and binding it, or the module, tries
//! again.
//!
//! What it may be unbound by meanwhile waits for the hang check, and closes the ring and masks the
//! interrupt before; so whoever masks last here looks whether the ring is closed.
//!
//! # A job that takes too long
//!
//! A job may move and still hold up others for longer than the parameter `jobTimeout`. Then it gets
//! [`REST_TIME`] to end, as below; if it does not, it is dropped as one that hangs, and its process
//! is charged.
//!
//! # A reset that is asked for
//!
//! The admin may have the core reset though it gets on. Then what runs gets [`REST_TIME`] to end,
//! with the links cut, so that no other begins but those that go on in its context. If it does not,
//! it is dropped as a guilty job is, but nobody is charged. If nothing is under way the front end
//! starts where it rests.
//!
//! RESET of an admin's process has only a core reset that does not get on, as a hang, but after a
//! tenth of a second; no process is charged either, as what takes longer may be no hang.
//!
//! All of it is bounded: the filling of a place, resets, the end of the interrupt half, the set-up.

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
use crate::{
    modes::{
        self,
        Mode, //
    },
    sys,
    wait, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::msecs_to_jiffies, //
};

/// How long a place may take to be filled, in milliseconds. It takes microseconds, unless the
/// processor is another guest's.
const FILL_TIME: u32 = 1000;

/// How long the job that runs may take to end when a reset is asked for, in milliseconds.
pub(crate) const REST_TIME: u32 = 100;

/// How long such a reset may take, in milliseconds.
pub(super) const RESET_TIME: u32 = 5000;

/// How often a core is reset for nobody's guilt, without a job that is done, before it is given up.
const BLAMELESS_RESETS: u32 = 3;

/// Why a core is reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It does not get on.
    Hang,
    /// It does not get on, and an admin does not want to wait until it counts as a hang.
    Hurry,
    /// It gets on, but the job that runs has held others up for too long.
    TooLong,
    /// The admin wants it.
    Asked,
}

/// Why a recovery ends early.
enum End {
    /// The core gets on, or there is nothing to get on with.
    NoHang,
    /// It does not come back.
    GivenUp,
}

/// A core that was reset: how it goes on.
struct Start {
    /// Where the front end begins, and how many units of 8 bytes lie there.
    place: (u32, u32),
    /// At which try it came back.
    attempts: u32,
    /// The log is told.
    tells: bool,
}

impl<F: FrontEnd> Engine<F> {
    /// Recovers the core, which was seen not to get on, or is to be reset. The hang check's.
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
        // The core stands still: before a job that was judged ends, and who has closed its files is
        // forgotten with it; before anybody gets a place again, as what is due is due for those who
        // wait for one, too.
        F::Payload::core_was_reset(self.seat.core, tolls.all(), cost);
        let completing = self.completion.lock();
        match found {
            Ok(start) => {
                // Before a job that is dropped ends.
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

    /// Lets nobody have a place, and waits until the last one is filled; says whether the ring is
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

    /// The end of [`Engine::pause`], and how far the core was before does not count.
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

    /// What was seen of the core does not count any more.
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
        // Not later: the next job may fail before the recovery is over.
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

    /// Holds the front end, if it still hangs then.
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

    /// Holds the front end in the job that runs, if that does not end now.
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

    /// Lets the core, which was reset, run the jobs as they are now.
    #[inline(never)]
    fn go_on(self: &Arc<Self>, start: &Start, tolls: &Tolls) -> Result {
        F::enable_interrupts(&self.hardware);
        F::run(self, start.place)?;
        if self.state.lock().phase.is_stopped() {
            // Whoever has closed it has masked the interrupt by now, or does so later.
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

    /// Ends what has ended; says whether nothing has, and the core is where it was.
    fn still_hangs(self: &Arc<Self>) -> bool {
        self.hardware.acknowledge();
        let progress = F::settle(self);
        let mut state = self.state.lock();
        let completed = state.completed;
        !state.watch.has_ended(completed) && F::is_running(&state) && state.watch.is_there(progress)
    }

    /// Says what becomes of the jobs, oldest first. The ring is ours, and the front end is held.
    #[inline(never)]
    fn judge(&self, cause: Cause, tolls: &mut Tolls) -> [Fate; IDS] {
        let has_begun = F::has_begun(self);
        let (suspects, count) = self.state.lock().suspects();
        let fates = judge(&suspects[..count], has_begun);
        for (suspect, &fate) in suspects[..count].iter().zip(&fates) {
            // What an admin has dropped is no process's fault.
            let is_asked = matches!(cause, Cause::Asked | Cause::Hurry);
            let is_guilty = fate == Fate::Guilty && !is_asked;
            tolls.note(suspect.process, is_guilty, fate.is_dropped());
        }
        fates
    }

    /// Gives the core up: it is cut off, and all that is under way is to be dropped.
    fn cut_off(&self, tolls: &mut Tolls) {
        self.hardware.disable_interrupts();
        self.hardware.isolate();
        dev_err!(
            self.hardware.device(),
            "the GPU cannot be recovered: it is given up until it is bound again\n"
        );
        // Whoever was not guilty loses as much.
        tolls.forget_dropped();
        self.note_all(tolls);
    }

    /// Notes that all that is under way is dropped, by nobody's guilt.
    pub(super) fn note_all(&self, tolls: &mut Tolls) {
        let state = self.state.lock();
        let (suspects, count) = state.suspects();
        for suspect in &suspects[..count] {
            tolls.note(suspect.process, false, true);
        }
    }
}
