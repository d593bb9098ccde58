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
//!    ([`Ring::set_up`]).
//! 4. *Judge* ([`super::verdict`]). All jobs keep their places, ids and numbers. A dropped one's
//!    words become a jump to its event: so it ends in its turn, as [`Outcome::Dropped`], and its
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
//! All of it is bounded: the filling of a place, resets, the end of the interrupt half, the set-up.

use super::{
    dump::Evidence,
    job::Outcome,
    phase::Phase,
    state::{
        GpuState,
        State,
        Whereabouts, //
    },
    verdict::{
        judge,
        Fate, //
    },
    Payload,
    Ring,
    Tolls,
    IDS,
    WAIT_LINK_BYTES, //
};
use crate::{
    context::scrub::{
        Lists,
        Part,
        PIPES, //
    },
    modes::{
        self,
        Mode, //
    },
    stream::words::{
        self,
        Pipe, //
    },
    sys,
    wait, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Full,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How long a place may take to be filled, in milliseconds. It takes microseconds, unless the
/// processor is another guest's.
const FILL_TIME: u32 = 1000;

/// Looks until `look` says whether the queue of jobs is the recovery's, [`FILL_TIME`] at most;
/// returns that, or that it is not.
pub(crate) fn until_filled(look: impl FnMut() -> Option<bool>) -> bool {
    wait::poll(FILL_TIME, look).unwrap_or(false)
}

/// How long the job that runs may take to end when a reset is asked for, in milliseconds.
pub(crate) const REST_TIME: u32 = 100;

/// How long such a reset may take, in milliseconds.
pub(crate) const RESET_TIME: u32 = 5000;

/// How often a core is reset for nobody's guilt, without a job that is done, before it is given up.
const BLAMELESS_RESETS: u32 = 3;

/// Why a core is reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It does not get on.
    Hang,
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
    address: u32,
    units: u32,
    /// At which try it came back.
    attempts: u32,
    /// The log is told.
    tells: bool,
}

impl<P: Payload> Ring<P> {
    /// Recovers the core, which was seen not to get on, or is to be reset. The hang check's.
    pub(super) fn recover(self: &Arc<Self>, cause: Cause) {
        let (mut tolls, mut evidence) = (Tolls::new(), None);
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
        P::core_was_reset(self.setup.core, tolls.all());
        let completing = self.completion.lock();
        match found {
            Ok(start) => {
                let goes_on = self.go_on(&start, &tolls).is_ok();
                self.trace_reset(goes_on.then_some(start.attempts));
                if !goes_on {
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
        self.resume();
        // The reset has flushed the TLB.
        self.vm.flushed();
        if let Some(evidence) = evidence {
            self.write_dump_later(evidence);
        }
    }

    /// Lets nobody have a place, and waits until the last one is filled; says whether the ring is
    /// ours.
    pub(super) fn pause(&self) -> bool {
        until_filled(|| {
            let mut state = self.state.lock();
            if state.phase.is_stopped() {
                return Some(false);
            }
            state.is_paused = true;
            (!state.is_filling).then_some(true)
        })
    }

    /// The end of [`Ring::pause`].
    pub(super) fn resume(&self) {
        let mut state = self.state.lock();
        state.is_paused = false;
        state.moves += 1;
        let completed = state.completed;
        state.watch.forget(completed);
        drop(state);
        self.moved.notify_all();
    }

    fn recover_paused(
        self: &Arc<Self>,
        cause: Cause,
        tolls: &mut Tolls,
        evidence: &mut Option<KBox<Evidence>>,
    ) -> Result<Start, End> {
        match cause {
            Cause::Hang => self.hold_hanging()?,
            Cause::TooLong => self.hold_running()?,
            Cause::Asked => self.bring_to_rest().map_err(|_| End::GivenUp)?,
        }
        let fates = self.judge(cause, tolls);
        let may_tell = || self.hardware.may_tell(self.oldest_process());
        let tells = modes::is_on(Mode::Resets) && (cause == Cause::Asked || may_tell());
        if cause != Cause::Asked {
            self.trace_hang(fates[0] == Fate::Guilty);
            *evidence = self.take_evidence(fates[0] == Fate::Guilty);
            if tells {
                match cause {
                    Cause::TooLong => self.hardware.report_too_long(self.setup.job_timeout),
                    _ => self.hardware.report_hang(),
                }
            }
        }
        self.resets.fetch_add(1, Relaxed);
        let attempts = self.hardware.recover().map_err(|_| End::GivenUp)?;
        // It holds no translations, and makes none before it starts.
        let changes = self.vm.changes();
        self.flushed.xchg(changes, Full);
        let (address, units) = self
            .set_up()
            .and_then(|()| self.sentence(cause, &fates))
            .map_err(|_| End::GivenUp)?;
        {
            let state = self.state.lock();
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
            address,
            units,
            attempts,
            tells,
        })
    }

    /// Holds the front end, if it still hangs then.
    fn hold_hanging(self: &Arc<Self>) -> Result<(), End> {
        if !self.still_hangs() {
            return Err(End::NoHang);
        }
        self.hold_front_end().map_err(|_| End::GivenUp)?;
        sys::barrier::write();
        // What it did before it saw the idle loops it has done by now, or does not do any more.
        fsleep(Delta::from_millis(1));
        if !self.still_hangs() {
            self.release_front_end().map_err(|_| End::GivenUp)?;
            return Err(End::NoHang);
        }
        Ok(())
    }

    /// Holds the front end in the job that runs, if that does not end now.
    fn hold_running(self: &Arc<Self>) -> Result<(), End> {
        self.bring_to_rest().map_err(|_| End::GivenUp)?;
        let is_over = {
            let mut state = self.state.lock();
            let completed = state.completed;
            state.watch.has_ended(completed)
        };
        if is_over {
            self.release_front_end().map_err(|_| End::GivenUp)?;
            return Err(End::NoHang);
        }
        Ok(())
    }

    /// Lets what runs end, with what goes on in its context, [`REST_TIME`] at most, and no job
    /// begin. The ring is ours.
    fn bring_to_rest(self: &Arc<Self>) -> Result {
        self.cut_links(&self.state.lock())?;
        sys::barrier::write();
        if wait::poll(REST_TIME, || self.is_at_rest().then_some(())).is_some() {
            return Ok(());
        }
        {
            let state = self.state.lock();
            let mut wait = state.rest;
            for age in 0..state.in_flight.len() {
                self.memory.write(wait, words::WAIT)?;
                if let Some((_, slot)) = state.in_flight.get(age) {
                    wait = slot.mark;
                }
            }
        }
        sys::barrier::write();
        self.is_at_rest();
        Ok(())
    }

    /// Ends what has ended; says whether nothing runs. What the front end did before it saw the
    /// idle loops that have been made it has done by then.
    fn is_at_rest(self: &Arc<Self>) -> bool {
        fsleep(Delta::from_millis(1));
        self.hardware.acknowledge();
        self.end_raised();
        self.end_oldest(self.passed());
        let position = self.hardware.position();
        self.hardware.is_idle()
            && self.whereabouts(&self.state.lock(), position) == Whereabouts::Before
    }

    /// Lets the core, which was reset, run the jobs as they are now.
    fn go_on(&self, start: &Start, tolls: &Tolls) -> Result {
        self.hardware.enable_interrupts();
        self.hardware.run_front_end(start.address, start.units)?;
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
        self.end_raised();
        self.end_oldest(self.passed());
        let progress = self.progress();
        let mut state = self.state.lock();
        let completed = state.completed;
        !state.watch.has_ended(completed)
            && state.in_flight.len() > 0
            && state.watch.is_there(progress)
    }

    /// Lets the front end neither begin the oldest job nor leave it. The ring is ours.
    fn hold_front_end(&self) -> Result {
        let state = self.state.lock();
        let Some((_, oldest)) = state.in_flight.get(0) else {
            return Ok(());
        };
        // The second words stay, for the release. A LINK that is an idle loop's already is none to
        // us.
        self.memory.write(state.rest, words::WAIT)?;
        self.memory.write(oldest.mark, words::WAIT)
    }

    /// The end of [`Ring::hold_front_end`], whatever has ended meanwhile.
    fn release_front_end(&self) -> Result {
        let state = self.state.lock();
        self.link_up(&state)?;
        sys::barrier::write();
        Ok(())
    }

    /// Makes the idle loop in front of each job lead to it. The ring is ours.
    pub(super) fn link_up(&self, state: &State<P>) -> Result {
        let mut wait = state.rest;
        for age in 0..state.in_flight.len() {
            let Some((_, slot)) = state.in_flight.get(age) else {
                break;
            };
            let target = self.gpu(slot.start);
            let bytes = slot.mark + WAIT_LINK_BYTES - slot.start;
            self.memory.write(wait + 4, target)?;
            sys::barrier::write();
            // CAST: less than `RING_BYTES`.
            let link = words::link(target, bytes as u32);
            self.memory.write(wait, link)?;
            wait = slot.mark;
        }
        Ok(())
    }

    /// Says what becomes of the jobs, oldest first. The ring is ours, and the front end is held.
    fn judge(&self, cause: Cause, tolls: &mut Tolls) -> [Fate; IDS] {
        let position = self.hardware.position();
        let state = self.state.lock();
        let has_begun = self.whereabouts(&state, position) != Whereabouts::Before;
        let (suspects, count) = state.suspects();
        drop(state);
        let fates = judge(&suspects[..count], has_begun);
        for (suspect, &fate) in suspects[..count].iter().zip(&fates) {
            let is_guilty = fate == Fate::Guilty && cause != Cause::Asked;
            tolls.note(suspect.process, is_guilty, fate.is_dropped());
        }
        fates
    }

    /// Makes the words of the jobs as their fates are; returns where the front end is to start, and
    /// how many units of 8 bytes lie there. The ring is ours, and the front end is stopped.
    fn sentence(&self, cause: Cause, fates: &[Fate; IDS]) -> Result<(u32, u32)> {
        let mut state = self.state.lock();
        for (age, fate) in fates.iter().enumerate() {
            if fate.is_dropped() {
                self.drop_job(&mut state, age)?;
            }
        }
        match (cause, fates[0]) {
            (Cause::Asked, _) => {}
            (_, Fate::Guilty) => state.blameless = 0,
            (_, _) => state.blameless += 1,
        }
        // Behind the last job.
        state.gpu = GpuState::unknown();
        self.link_up(&state)?;
        if state.phase == (Phase::Asleep { holding: true }) {
            self.cut_links(&state)?;
        }
        let oldest = state.in_flight.get(0);
        let oldest = oldest.map(|(_, slot)| (slot.load.basis.pipe, slot.start, slot.mark));
        let rest = state.rest;
        drop(state);
        match oldest {
            Some((pipe, start, mark)) => self.start_at_job(pipe, start, mark),
            // CAST: 16 bytes.
            None => Ok((self.gpu(rest), (WAIT_LINK_BYTES / 8) as u32)),
        }
    }

    /// Makes the job of this age one that is dropped: of its words, but for the event, nothing is
    /// left but the pipe that what is behind it wants.
    fn drop_job(&self, state: &mut State<P>, age: usize) -> Result {
        let next = state.in_flight.get(age + 1);
        let pipe = next.and_then(|(_, slot)| slot.load.basis.pipe);
        let Some((number, start, mark)) = state
            .in_flight
            .get(age)
            .map(|(_, slot)| (slot.number, slot.start, slot.mark))
        else {
            return Ok(());
        };
        let Some(job) = state.in_flight.load_at(number) else {
            return Ok(());
        };
        job.outcome = Outcome::Dropped;
        if !job.basis.has_commands {
            // A flush and the event are all that there is.
            return Ok(());
        }
        // Not by this job.
        job.flushed = 0;
        let event = mark - self.event_bytes();
        let mut at = start;
        if let Some(pipe) = pipe {
            // The jobs in front have drained.
            let select = words::select_idle_pipe(pipe);
            self.memory.write_words(at, &select)?;
            at += core::mem::size_of_val(&select);
        }
        // The drain alone is longer than both.
        if at + 4 * words::LINK_WORDS > event {
            return Err(EINVAL);
        }
        let target = self.gpu(event);
        // CAST: few bytes.
        let bytes = (mark + WAIT_LINK_BYTES - event) as u32;
        self.memory
            .write_words(at, &[words::link(target, bytes), target])
    }

    /// Makes the words that the front end begins with, where the oldest job, from `start` to
    /// `mark`, wants `pipe`.
    pub(super) fn start_at_job(
        &self,
        pipe: Option<Pipe>,
        start: usize,
        mark: usize,
    ) -> Result<(u32, u32)> {
        let lists = Lists {
            scrub: &self.setup.scrub,
            stale: [&[]; PIPES],
            data: None,
        };
        let mut words = self.start_words();
        // The reset has made them 0, which is an address too.
        for part in [Part::All3d, Part::All2d] {
            if self.setup.engines.has(part.pipe()) && !lists.words(part).is_empty() {
                words.put(&words::select_pipe(&self.caches, part.pipe()))?;
                words.put(lists.words(part))?;
            }
        }
        if let Some(pipe) = pipe {
            words.put(&words::select_pipe(&self.caches, pipe))?;
        }
        let target = self.gpu(start);
        // CAST: less than `RING_BYTES`.
        let bytes = (mark + WAIT_LINK_BYTES - start) as u32;
        words.put(&[words::link(target, bytes), target])?;
        Ok(words.finish())
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
