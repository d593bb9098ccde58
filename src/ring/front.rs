// SPDX-License-Identifier: GPL-2.0-only

//! The ring as a [`FrontEnd`].

use super::{
    after_reset::{
        AfterReset,
        Cause, //
    },
    dump::{
        Addressing,
        Snapshot, //
    },
    engine::FrontEnd,
    inflight::IDS,
    job::{
        Job,
        JobKind,
        Outcome,
        Payload,
        RingJob,
        Tables, //
    },
    phase::Phase,
    recovery::REST_TIME,
    state::{
        GpuState,
        RingState,
        State,
        Whereabouts, //
    },
    Ring,
    RingEnd,
    IDLE_UNITS,
    USABLE_BYTES,
    WAIT_LINK_BYTES, //
};
use crate::{
    context::scrub::{
        Lists,
        OwnData,
        Part,
        PIPES, //
    },
    hw::Progress,
    mmu::NO_TRANSLATIONS,
    stream::{
        resolve,
        words::{
            self,
            PageTables,
            Pipe, //
        }, //
    },
    sys::{
        self,
        prelude::*, //
    },
    wait, //
};

/// How often [`FrontEnd::stop`] checks for the stop at an END, at most, and the pause after each
/// check, in microseconds.
const STOP_CHECKS: u32 = 100;
const STOP_PAUSE: i64 = 50;

impl<P: Payload> JobKind for RingEnd<P> {
    type Payload = P;
    type Job = RingJob;
    type State = RingState;

    const JOBS: usize = IDS;
    const SPARES: usize = IDS;
    const BYTES: usize = USABLE_BYTES;
    const GAP: usize = WAIT_LINK_BYTES;

    #[inline(always)]
    fn popped(state: &mut RingState, mark: usize) {
        // The front end is in this job's idle loop, or past it.
        state.rest = mark;
    }

    fn depends_on(job: &RingJob) -> (bool, bool) {
        (job.basis.has_commands, job.basis.continues)
    }
}

impl<P: Payload> FrontEnd for RingEnd<P> {
    const HAS_DIVIDER: bool = true;

    fn is_running(state: &State<Self>) -> bool {
        state.jobs.len() > 0
    }

    #[inline(always)]
    fn begin(ring: &Ring<P>, state: &mut State<Self>) {
        ring.trace_begin(state);
    }

    fn end_raised(ring: &Arc<Ring<P>>) {
        // The caller holds `completion`, because event bits must not outlive their jobs.
        let fired = ring.take_events();
        let (done, certain, before) = {
            let state = ring.state.lock();
            let flights = &state.jobs;
            (flights.done(fired), flights.certain(fired), state.completed)
        };
        // Events come in order. If an earlier one is missing, either it was lost, or the newest one
        // is spurious. The position of the front end decides.
        let done = if done > certain {
            done.min(certain.max(ring.passed()))
        } else {
            done
        };
        ring.end_oldest(done);
        if ring.hardware.has_failed() {
            // Blame the job that was oldest before this call: it may have ended and still be the
            // cause. A job that begins now is not.
            ring.state.lock().watch.note_failure(before);
        }
    }

    fn settle(ring: &Arc<Ring<P>>) -> Progress {
        ring.end_done();
        // The state is not locked, because this call selects and reads many counters.
        ring.progress()
    }

    #[inline(always)]
    fn ending(ring: &Ring<P>, job: &mut RingJob, _: Outcome) {
        if job.flushed > ring.front.flushed.load(Relaxed) {
            // Store this before the address space checks whether any mapping waits for the flush.
            ring.front.flushed.xchg(job.flushed, Full);
        }
    }

    #[inline(always)]
    fn ended(ring: &Ring<P>, job: RingJob) {
        if let Some(context) = job.context {
            ring.reclaimer.drop_later(context);
        }
    }

    fn flushed(ring: &Ring<P>) {
        ring.front.vm.flushed();
    }

    fn forget_translations(ring: &Ring<P>) {
        ring.front.flushed.xchg(NO_TRANSLATIONS, Full);
    }

    fn addressing(ring: &Ring<P>) -> Addressing<'_> {
        Addressing::Translated(&ring.front.vm)
    }

    fn snapshot(ring: &Ring<P>, has_culprit: bool) -> Result<Snapshot> {
        ring.snapshot(has_culprit)
    }

    fn hold(ring: &Ring<P>) -> Result {
        ring.hold_front_end()?;
        sys::barrier::write();
        // During this sleep the front end fetches the new idle loops, so it runs nothing after
        // them.
        fsleep(Delta::from_millis(1));
        Ok(())
    }

    fn release(ring: &Ring<P>) -> Result {
        let state = ring.state.lock();
        ring.link_allowed(&state)?;
        drop(state);
        sys::barrier::write();
        Ok(())
    }

    /// Jobs that continue in the running job's context get this time, too. No other job begins.
    fn bring_to_rest(ring: &Arc<Ring<P>>) -> Result {
        ring.cut_links(&ring.state.lock())?;
        sys::barrier::write();
        if wait::poll(REST_TIME, || ring.comes_to_rest().then_some(())).is_some() {
            return Ok(());
        }
        {
            let state = ring.state.lock();
            let mut wait = state.front.rest;
            for (_, slot) in state.jobs.iter() {
                ring.memory.write(wait, words::WAIT)?;
                wait = slot.mark;
            }
        }
        sys::barrier::write();
        ring.comes_to_rest();
        Ok(())
    }

    fn has_begun(ring: &Ring<P>) -> bool {
        let position = ring.hardware.position();
        ring.whereabouts(&ring.state.lock(), position) != Whereabouts::Before
    }

    fn prepare(ring: &Ring<P>, _: Cause, decisions: &[AfterReset; IDS]) -> Result<(u32, u32)> {
        ring.mark_flushed();
        ring.set_up()?;
        let mut state = ring.state.lock();
        for (age, decision) in decisions.iter().enumerate() {
            if decision.is_dropped() {
                ring.drop_job(&mut state, age)?;
            }
        }
        // The state after the last job: nothing is known.
        state.front.gpu = GpuState::default();
        ring.rest_again(&state)?;
        ring.link_allowed(&state)?;
        let oldest = StartAt::oldest(&state);
        let rest = state.front.rest;
        drop(state);
        ring.entry_point(oldest, rest)
    }

    fn run(ring: &Arc<Ring<P>>, (address, units): (u32, u32)) -> Result {
        ring.hardware.run_front_end(address, units)
    }

    fn stop(ring: &Ring<P>) {
        let rest = ring.state.lock().front.rest;
        if ring.memory.write(rest, words::END).is_ok() {
            sys::barrier::write();
            for _ in 0..STOP_CHECKS {
                if ring.hardware.has_stopped() {
                    return;
                }
                fsleep(Delta::from_micros(STOP_PAUSE));
            }
        }
        // The clock must not stop during a fetch, so reset the core.
        if ring.hardware.reset().is_err() {
            ring.hardware.isolate();
        }
    }

    fn went_off(state: &mut RingState) {
        state.gpu = state.gpu.after_pause();
    }

    fn start_again(ring: &Arc<Ring<P>>) -> Result {
        ring.mark_flushed();
        ring.set_up()?;
        let (rest, held) = {
            let mut state = ring.state.lock();
            let rest = state.front.rest;
            ring.rest_again(&state)?;
            ring.link_up(&state)?;
            state.is_off = false;
            let is_held = core::mem::take(&mut state.is_held);
            ring.trace_begin(&mut state);
            (rest, StartAt::oldest(&state).filter(|_| is_held))
        };
        // The held job needs the state that the core had before it went off.
        let (address, units) = ring.entry_point(held, rest)?;
        sys::barrier::write();
        ring.hardware.enable_interrupts();
        ring.hardware.run_front_end(address, units)?;
        if ring.state.lock().phase.is_stopped() {
            // A close sets the phase and then masks the interrupt, perhaps before the enable above.
            ring.hardware.disable_interrupts();
        }
        Ok(())
    }

    fn hold_jobs(ring: &Arc<Ring<P>>, _: u64, milliseconds: u32) -> bool {
        wait::poll(milliseconds, || ring.hold_jobs()).is_some()
    }

    fn release_jobs(ring: &Arc<Ring<P>>) {
        let completing = ring.completion.lock();
        if ring.pause() {
            let mut state = ring.state.lock();
            state.phase.hold(false);
            if !state.is_off {
                state.is_held = false;
                ring.trace_begin(&mut state);
                // All offsets are in the ring.
                let _ = ring.link_up(&state);
            }
        }
        sys::barrier::write();
        drop(completing);
        ring.resume();
    }
}

/// The job where the front end starts after a reset, and the state that it needs first.
struct StartAt {
    /// The pipe that the job needs.
    pipe: Option<Pipe>,
    /// The tables that it or a later job needs.
    tables: Option<PageTables>,
    /// Some job runs in the 2D pipe.
    uses_2d: bool,
    /// Data that the first such job needs there. `None`: none, or it loads its own.
    data: Option<Arc<OwnData>>,
    /// Offsets of its first word, and of the idle loop after it.
    start: usize,
    mark: usize,
}

impl StartAt {
    fn oldest<P: Payload>(state: &State<RingEnd<P>>) -> Option<Self> {
        let (_, slot) = state.jobs.get(0)?;
        let runs = |job: &&Job<RingEnd<P>>| job.own.uses.pipe_2d && job.outcome == Outcome::Done;
        let mut jobs = state.jobs.iter().map(|(_, slot)| &slot.load);
        let in_2d = jobs.find(runs);
        Some(Self {
            pipe: slot.load.own.basis.pipe,
            tables: state.tables_before(0),
            uses_2d: in_2d.is_some(),
            data: in_2d.and_then(|job| job.own.data.clone()),
            start: slot.start,
            mark: slot.mark,
        })
    }
}

impl<P: Payload> Ring<P> {
    /// Counts the TLB as flushed: it is empty, and stays empty until the front end starts.
    fn mark_flushed(&self) {
        let changes = self.front.vm.changes();
        self.front.flushed.xchg(changes, Full);
    }

    /// The number of jobs, from the oldest, that are done according to the front end's position.
    ///
    /// If it is within a job, all earlier jobs are done: a drain precedes the LINK out of each job.
    /// If it is in the idle loop after a job, or in the first words of the next, that job is done
    /// only if all modules are idle. The front end prefetches that far, but no farther.
    pub(super) fn passed(&self) -> usize {
        let position = self.hardware.position();
        let idle = self.hardware.is_idle();
        match self.whereabouts(&self.state.lock(), position) {
            Whereabouts::In(age) => age,
            Whereabouts::Entering(age) => (age + usize::from(idle)).saturating_sub(1),
            Whereabouts::After(age) => age + usize::from(idle),
            Whereabouts::Before | Whereabouts::Lost => 0,
        }
    }

    /// Where the front end is, if it is at GPU address `position`.
    pub(super) fn whereabouts(&self, state: &State<RingEnd<P>>, position: u32) -> Whereabouts {
        let place = u32_as_usize(position.wrapping_sub(self.address));
        state.whereabouts(place, position)
    }

    /// The core's progress. Iterations of an idle loop do not count.
    pub(super) fn progress(&self) -> Progress {
        let pipes = self.front.setup.pipes;
        let progress = self.hardware.progress(pipes.pipe_3d, pipes.pipe_2d);
        let state = self.state.lock();
        let rest = match self.whereabouts(&state, progress.position) {
            Whereabouts::Before => Some(state.front.rest),
            Whereabouts::After(age) => state.jobs.get(age).map(|(_, slot)| slot.mark),
            Whereabouts::Entering(_) | Whereabouts::In(_) | Whereabouts::Lost => None,
        };
        match rest {
            Some(rest) => Progress {
                position: self.gpu(rest),
                command: None,
                ..progress
            },
            None => progress,
        }
    }

    /// Keeps the front end before the oldest job, or at its end. The ring is paused.
    fn hold_front_end(&self) -> Result {
        let state = self.state.lock();
        let Some((_, oldest)) = state.jobs.get(0) else {
            return Ok(());
        };
        // The target words stay, for the release. A link that is already cut does not change.
        self.memory.write(state.front.rest, words::WAIT)?;
        self.memory.write(oldest.mark, words::WAIT)
    }

    /// Ends the jobs that are done, by their events and by the front end's position. The caller
    /// holds `completion`.
    fn end_done(self: &Arc<Self>) {
        RingEnd::end_raised(self);
        self.end_oldest(self.passed());
    }

    /// Waits until the front end has fetched the new idle loops, and ends the jobs that are done.
    /// Returns whether nothing runs.
    fn comes_to_rest(self: &Arc<Self>) -> bool {
        fsleep(Delta::from_millis(1));
        self.hardware.acknowledge();
        self.end_done();
        let position = self.hardware.position();
        self.hardware.is_idle()
            && self.whereabouts(&self.state.lock(), position) == Whereabouts::Before
    }

    /// Links up the jobs that may begin. The ring is paused.
    fn link_allowed(&self, state: &State<RingEnd<P>>) -> Result {
        self.link_up(state)?;
        match state.phase {
            Phase::Asleep { holding: true } => self.cut_links(state),
            _ => Ok(()),
        }
    }

    /// Replaces the WAIT before each job by a LINK to the job. The ring is paused.
    pub(super) fn link_up(&self, state: &State<RingEnd<P>>) -> Result {
        let mut wait = state.front.rest;
        for (_, slot) in state.jobs.iter() {
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

    /// Rewrites all idle loops: with MMU version 1 an engine may have overwritten them. The ring is
    /// paused, and the front end is stopped.
    fn rest_again(&self, state: &State<RingEnd<P>>) -> Result {
        let rewrite = |wait| {
            let idle_loop = words::wait_link(self.gpu(wait));
            self.memory.write_words(wait, &idle_loop)
        };
        rewrite(state.front.rest)?;
        state
            .jobs
            .iter()
            .try_for_each(|(_, slot)| rewrite(slot.mark))
    }

    /// Drops the job of this age. It keeps only the flush that loads the tables that later jobs of
    /// its process use, a select of the pipe that the next job needs, and the event.
    fn drop_job(&self, state: &mut State<RingEnd<P>>, age: usize) -> Result {
        let next = state.jobs.get(age + 1);
        let pipe = next.and_then(|(_, slot)| slot.load.own.basis.pipe);
        let Some(slot) = state.jobs.get_mut(age) else {
            return Ok(());
        };
        let (start, mark, job) = (slot.start, slot.mark, &mut slot.load);
        job.outcome = Outcome::Dropped;
        if !job.own.basis.has_commands {
            // It only consists of a flush and its event.
            return Ok(());
        }
        // Do not count its flush: with MMU version 1 it does not run.
        job.own.flushed = 0;
        let event = mark - self.event_bytes();
        let mut at = start;
        if self.front.tables != PageTables::V1 && job.own.basis.tables == Tables::Loads {
            at += 4 * words::FLUSH_MMU_WORDS;
        }
        if let Some(pipe) = pipe {
            // The earlier jobs have drained, so the pipe is idle.
            let select = words::select_idle_pipe(pipe);
            self.memory.write_words(at, &select)?;
            at += core::mem::size_of_val(&select);
        }
        // Cannot happen: the drain of the job is longer than the select and the LINK.
        if at + 4 * words::LINK_WORDS > event {
            return Err(EINVAL);
        }
        let target = self.gpu(event);
        // CAST: few bytes.
        let bytes = (mark + WAIT_LINK_BYTES - event) as u32;
        self.memory
            .write_words(at, &[words::link(target, bytes), target])
    }

    /// The address and the length of what the front end runs first: start words that lead to `job`,
    /// or the idle loop at `rest`.
    fn entry_point(&self, job: Option<StartAt>, rest: usize) -> Result<(u32, u32)> {
        match job {
            Some(job) => self.start_at_job(job),
            None => Ok((self.gpu(rest), IDLE_UNITS)),
        }
    }

    /// Writes the start words, which lead the front end to `job`.
    fn start_at_job(&self, job: StartAt) -> Result<(u32, u32)> {
        let lists = Lists {
            scrub: &self.front.setup.scrub,
            stale: [&[]; PIPES],
            data: job.data.as_ref(),
        };
        let mut words = self.start_words();
        let in_2d = if job.uses_2d {
            Part::Fresh(Pipe::Pipe2d)
        } else {
            Part::All(Pipe::Pipe2d)
        };
        // The reset has set the states that take addresses to 0, which is also an address.
        for part in [Part::All(Pipe::Pipe3d), in_2d] {
            if self.front.setup.pipes.has(part.pipe()) && !lists.words(part).is_empty() {
                words.put(&words::select_pipe(&self.front.caches, part.pipe()))?;
                lists.emit(part, &self.front.caches, |piece| words.put(piece))?;
                if part.pipe() == Pipe::Pipe3d {
                    words.put(&resolve::OFF)?;
                }
            }
        }
        match job.tables {
            None | Some(PageTables::V1) => {}
            Some(tables) => words.put(&words::use_tables(tables))?,
        }
        if let Some(pipe) = job.pipe {
            words.put(&words::select_pipe(&self.front.caches, pipe))?;
        }
        let target = self.gpu(job.start);
        // CAST: less than `RING_BYTES`.
        let bytes = (job.mark + WAIT_LINK_BYTES - job.start) as u32;
        words.put(&[words::link(target, bytes), target])?;
        Ok(words.finish())
    }

    /// Prevents jobs from beginning that can also begin after system sleep. `Some`: nothing runs.
    fn hold_jobs(self: &Arc<Self>) -> Option<()> {
        let _completing = self.completion.lock();
        self.end_done();
        {
            let mut state = self.state.lock();
            // The caller tries again. A core that is off here is about to come on.
            if state.is_filling || state.is_off {
                return None;
            }
            // From now on a recovery leaves the links cut.
            state.phase.hold(true);
            // All offsets are in the ring.
            let _ = self.cut_links(&state);
        }
        sys::barrier::write();
        // During this sleep the front end fetches the new idle loops.
        fsleep(Delta::from_millis(1));
        self.end_done();
        let position = self.hardware.position();
        let mut state = self.state.lock();
        let is_before = self.whereabouts(&state, position) == Whereabouts::Before;
        let oldest = state.jobs.get(0);
        let is_held = oldest.map(|(_, slot)| is_before && !slot.load.own.basis.continues);
        state.is_held = is_held == Some(true);
        (is_held != Some(false)).then_some(())
    }

    /// Restores the idle loop before each job, except for jobs that continue in their predecessor's
    /// context. No place is being filled.
    pub(super) fn cut_links(&self, state: &State<RingEnd<P>>) -> Result {
        let mut wait = state.front.rest;
        for (_, slot) in state.jobs.iter() {
            if !slot.load.own.basis.continues {
                self.memory.write(wait, words::WAIT)?;
            }
            wait = slot.mark;
        }
        Ok(())
    }
}
