// SPDX-License-Identifier: GPL-2.0-only

//! The end of jobs, and waiting for it.

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    job::{
        Job,
        Outcome,
        Payload, //
    },
    phase::Phase,
    state::State,
    GPU_TIMEOUT, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    limits::MAX_CORES,
    sys::clock::Stamp,
    wait::{
        self,
        Left, //
    }, //
};
use kernel::{
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        Arc,
        CondVarTimeoutResult, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    }, //
};

/// How long a submitter goes on waiting for its place.
pub(crate) struct PlaceTimeout {
    /// What [`State::moves`] was before the last try; `None`: not looked at.
    moves: Option<u64>,
    /// What [`State::progress`] was when the time began.
    progress: Option<u64>,
    left: Jiffies,
}

/// By core, the threads of a process that wait for a place there, or for jobs. Changed together with
/// [`State::place_waiters`], under the same lock.
pub(crate) struct Waiters([Atomic<usize>; MAX_CORES]);

impl Waiters {
    /// None.
    pub(crate) const fn new() -> Self {
        Self([const { Atomic::new(0) }; MAX_CORES])
    }

    /// How many wait for `core`.
    pub(crate) fn of(&self, core: usize) -> usize {
        self.0.get(core).map_or(0, |waiters| waiters.load(Relaxed))
    }

    fn add(&self, core: usize, count: usize) {
        if let Some(waiters) = self.0.get(core) {
            waiters.add(count, Relaxed);
        }
    }
}

impl<F: FrontEnd> Engine<F> {
    /// Drops what is under way. The front end must be stopped for good, or cut off from memory. The
    /// caller holds `completion`.
    pub(super) fn abandon(&self) {
        self.close();
        {
            let mut state = self.state.lock();
            if let Some((_, oldest)) = state.jobs.get(0) {
                state.lost_from = state.lost_from.min(oldest.number);
            }
        }
        loop {
            let mut state = self.state.lock();
            state.charge(self.seat.core, Stamp::now());
            let Some(mut done) = state.pop() else {
                break;
            };
            done.load.outcome = Outcome::Dropped;
            self.trace_end(done.number, Outcome::Dropped);
            drop(state);
            self.abandon_job(done.load);
        }
        let mut state = self.state.lock();
        state.completed = state.jobs.newest();
        state.phase = Phase::Dead;
        drop(state);
        F::forget_translations(self);
        F::flushed(self);
        self.moved.notify_all();
    }

    /// Ends `job`, which was dropped. Apart from those that are done.
    #[cold]
    #[inline(never)]
    fn abandon_job(&self, job: Job<F>) {
        drop(self.end_job(job));
    }

    /// Ends the jobs that raised interrupts say are done.
    pub(crate) fn complete(self: &Arc<Self>) {
        let completing = self.completion.lock();
        F::end_raised(self);
        drop(completing);
    }

    /// The id of the process whose job is the oldest under way; 0: none is, or it is the driver's.
    pub(crate) fn oldest_process(&self) -> i32 {
        let state = self.state.lock();
        let oldest = state.jobs.get(0);
        oldest.map_or(0, |(_, slot)| slot.load.payload.process_id())
    }

    /// Ends the oldest `count` jobs. The caller holds `completion`.
    pub(crate) fn end_oldest(&self, count: usize) {
        if count == 0 {
            return;
        }
        let now = Stamp::now();
        let mut state = self.state.lock();
        for _ in 0..count {
            // Before anybody who waits for it is told.
            state.charge(self.seat.core, now);
            let Some(done) = state.pop() else {
                break;
            };
            let (number, outcome) = (done.number, done.load.outcome);
            self.trace_end(number, outcome);
            F::begin(self, &mut state);
            drop(state);
            let payload = self.end_job(done.load);
            // A long list is freed here: that may sleep.
            let spare = payload.is_reusable().then_some(payload);
            state = self.state.lock();
            state.completed = state.completed.max(number);
            state.moves += 1;
            if outcome == Outcome::Done {
                state.blameless = 0;
            }
            if let Some(payload) = spare {
                // With no room left it is freed: it holds nothing, and is small.
                let _ = state.spares.push_within_capacity(payload);
            }
        }
        let waiters = state.waiters > 0;
        drop(state);
        F::flushed(self);
        if waiters {
            self.moved.notify_all();
        }
    }

    /// Does what is to be done when `job` has ended, and lets go of what it kept; returns what is
    /// left of its payload.
    #[inline(always)]
    fn end_job(&self, job: Job<F>) -> F::Payload {
        let Job {
            mut payload,
            outcome,
            mut retired,
            retired_count,
            mut own,
        } = job;
        F::ending(self, &mut own, outcome);
        payload.end(outcome);
        if retired_count > 0 {
            self.reclaimer.take(&mut retired, retired_count);
        }
        F::ended(self, own);
        payload
    }

    /// A payload without anything to do, with memory of an earlier one's if there is such.
    pub(crate) fn empty_payload(&self) -> F::Payload {
        self.state.lock().spares.pop().unwrap_or_default()
    }

    /// A place has been filled, or given back: others may have one.
    #[inline(always)]
    pub(crate) fn placed(self: &Arc<Self>, mut state: Guard<'_, State<F>, SpinLockBackend>) {
        let check = !core::mem::replace(&mut state.is_checked, true);
        let is_off = state.is_off;
        let waiters = state.waiters > 0;
        drop(state);
        if waiters {
            self.moved.notify_all();
        }
        if check {
            let hardware = &self.hardware;
            self.check_soon(is_off || hardware.is_slow() || hardware.is_out_of_step());
        }
    }

    /// What a submitter that has not tried yet needs for [`Engine::wait_for_place`]. Takes no lock:
    /// most find a place at once.
    pub(crate) fn place_timeout(&self) -> PlaceTimeout {
        PlaceTimeout {
            moves: None,
            progress: None,
            left: 0,
        }
    }

    /// Waits until trying again is worth it: after the first try that is at once, as something may
    /// have moved since.
    ///
    /// The oldest job's process holds this thread up if it is not the one that `own` is of.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: nothing moved for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_place(&self, timeout: &mut PlaceTimeout, own: &Waiters) -> Result {
        let mut state = self.state.lock();
        self.counted(&mut state, own, |state| {
            self.wait_until_moved(state, timeout)
        })
    }

    /// Does `wait`, and counts the thread meanwhile.
    fn counted(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        own: &Waiters,
        wait: impl FnOnce(&mut Guard<'_, State<F>, SpinLockBackend>) -> Result,
    ) -> Result {
        state.place_waiters += 1;
        own.add(self.seat.core, 1);
        let waited = wait(state);
        own.add(self.seat.core, usize::MAX);
        state.place_waiters -= 1;
        waited
    }

    /// See [`Engine::wait_for_place`]. The driver waits by this alone: nothing holds it up.
    pub(super) fn wait_until_moved(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        timeout: &mut PlaceTimeout,
    ) -> Result {
        loop {
            let progress = state.progress();
            if timeout.progress.replace(progress) != Some(progress) {
                timeout.left = msecs_to_jiffies(GPU_TIMEOUT);
            }
            if timeout.moves != Some(state.moves) {
                timeout.moves = Some(state.moves);
                return Ok(());
            }
            timeout.left = self.wait(state, timeout.left)?;
        }
    }

    /// Waits until job `number` has ended and done what it had to, `milliseconds` at most.
    pub(crate) fn wait_for(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(milliseconds).saturating_add(1);
        while state.completed < number {
            // A wait with no time left is over, also for a thread that has a signal pending.
            if state.phase.is_stopped() || milliseconds == 0 {
                return Err(Error::GpuNotResponding);
            }
            left = self.wait(&mut state, left)?;
        }
        match state.is_lost(number) {
            true => Err(Error::GpuNotResponding),
            false => Ok(()),
        }
    }

    /// How far the core has come: another number whenever it has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.state.lock().progress()
    }

    /// Waits until job `number` has ended and done what it had to, as long as the GPU makes
    /// progress: as the hang check sees it. The oldest job's process holds this thread up if it is
    /// not the one that `own` is of.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: nothing moved for `milliseconds`, and
    /// then for 20 s.
    pub(crate) fn wait_for_progress(
        &self,
        number: u64,
        milliseconds: u32,
        own: &Waiters,
    ) -> Result {
        let mut state = self.state.lock();
        // Till the end: who moves wakes only if there are some.
        state.waiters += 1;
        let waited = self.counted(&mut state, own, |state| {
            let limit = (milliseconds, true);
            wait::while_moving(&self.moved, state, limit, |state| {
                match state.completed >= number {
                    true if state.is_lost(number) => Err(Error::GpuNotResponding),
                    true => Ok(Left::Nothing),
                    false if state.phase.is_stopped() => Err(Error::GpuNotResponding),
                    false => Ok(Left::Something(state.progress())),
                }
            })
        });
        state.waiters -= 1;
        waited
    }

    /// Waits for job `number` without minding Unix signals; says whether it has ended.
    pub(crate) fn poll_for(&self, number: u64, milliseconds: u32) -> bool {
        let has_ended = wait::poll(milliseconds, || {
            let state = self.state.lock();
            (state.completed >= number || state.phase == Phase::Dead).then_some(())
        });
        has_ended.is_some()
    }

    /// Waits for something to move, `left` jiffies at most; returns what is left of them.
    pub(super) fn wait(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        left: Jiffies,
    ) -> Result<Jiffies> {
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        state.waiters += 1;
        let woken = self.moved.wait_interruptible_timeout(state, left);
        state.waiters -= 1;
        match woken {
            CondVarTimeoutResult::Woken { jiffies } => Ok(jiffies),
            CondVarTimeoutResult::Timeout => Ok(0),
            CondVarTimeoutResult::Signal { .. } => Err(Error::Interrupted),
        }
    }
}
