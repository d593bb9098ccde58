// SPDX-License-Identifier: GPL-2.0-only

//! The end of jobs, and waiting for it.

use super::{
    job::{
        Job,
        Outcome, //
    },
    phase::Phase,
    state::{
        State,
        Whereabouts, //
    },
    Payload,
    Ring, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    mmu::NO_TRANSLATIONS,
    sys::clock::Stamp,
    wait::{
        self,
        Left, //
    }, //
};
use kernel::{
    sync::{
        atomic::{
            Full,
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

impl<P: Payload> Ring<P> {
    /// Drops what is under way. The front end must be stopped for good, or cut off from memory.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.close();
        {
            let mut state = self.state.lock();
            if let Some((_, oldest)) = state.in_flight.get(0) {
                state.lost_from = state.lost_from.min(oldest.number);
            }
        }
        loop {
            let mut state = self.state.lock();
            state.charge(self.setup.core, Stamp::now());
            let Some(done) = state.pop() else {
                break;
            };
            self.trace_end(done.number, Outcome::Dropped);
            drop(state);
            self.abandon_job(done.load);
        }
        let mut state = self.state.lock();
        state.completed = state.in_flight.newest();
        state.phase = Phase::Dead;
        drop(state);
        self.flushed.xchg(NO_TRANSLATIONS, Full);
        self.vm.flushed();
        self.moved.notify_all();
    }

    /// Ends `job`, which was dropped. Apart from those that are done.
    #[cold]
    #[inline(never)]
    fn abandon_job(&self, job: Job<P>) {
        drop(self.end_job(job, Outcome::Dropped));
    }

    /// Ends the jobs that raised events say are done.
    pub(crate) fn complete(self: &Arc<Self>) {
        let completing = self.completion.lock();
        self.end_raised();
        drop(completing);
    }

    /// The same. The caller holds `completion`.
    pub(super) fn end_raised(self: &Arc<Self>) {
        // Taken under the lock: bits that wait outside could outlive their jobs.
        let fired = self.hardware.take_events(|| self.oldest_process());
        let (done, certain, before) = {
            let state = self.state.lock();
            let flights = &state.in_flight;
            (flights.done(fired), flights.certain(fired), state.completed)
        };
        // Events come in order. If one before the newest has not, one has been lost, or this one is
        // not true: the front end's place tells.
        let done = if done > certain {
            done.min(certain.max(self.passed()))
        } else {
            done
        };
        self.end_oldest(done);
        if self.hardware.has_failed() {
            // Not of a job that begins now: one that has ended with this may have caused it.
            self.state.lock().watch.note_failure(before);
        }
    }

    /// The id of the process whose job is the oldest under way; 0: none is, or it is the driver's.
    pub(super) fn oldest_process(&self) -> i32 {
        let state = self.state.lock();
        let oldest = state.in_flight.get(0);
        oldest.map_or(0, |(_, slot)| slot.load.payload.process_id())
    }

    /// How many jobs, from the oldest, the front end has passed.
    ///
    /// In a job, those before it are done: their LINK was behind the drain. In its idle loop it
    /// is done too if the modules say that they are idle, and in the first words of a job those
    /// before it are: the address alone may be a prefetch's. What is farther in is too far for one.
    pub(super) fn passed(&self) -> usize {
        let position = self.hardware.position();
        let idle = self.hardware.is_idle();
        match self.whereabouts(&self.state.lock(), position) {
            Whereabouts::In(age) => age,
            Whereabouts::Entering(age) => (age + usize::from(idle)).saturating_sub(1),
            Whereabouts::Behind(age) => age + usize::from(idle),
            Whereabouts::Before | Whereabouts::Lost => 0,
        }
    }

    /// Where the front end is when it is at GPU address `position`.
    pub(super) fn whereabouts(&self, state: &State<P>, position: u32) -> Whereabouts {
        // CAST: 32 bits into at least 32.
        let place = position.wrapping_sub(self.address) as usize;
        state.whereabouts(place, position)
    }

    /// Ends the oldest `count` jobs. The caller holds `completion`.
    pub(super) fn end_oldest(self: &Arc<Self>, count: usize) {
        if count == 0 {
            return;
        }
        let now = Stamp::now();
        let mut state = self.state.lock();
        for _ in 0..count {
            // Before anybody who waits for it is told.
            state.charge(self.setup.core, now);
            let Some(done) = state.pop() else {
                break;
            };
            self.trace_end(done.number, done.load.outcome);
            self.trace_begin(&mut state);
            drop(state);
            let (number, flushed, outcome) = (done.number, done.load.flushed, done.load.outcome);
            if flushed > self.flushed.load(Relaxed) {
                // Before the address space is asked whether something waits for it.
                self.flushed.xchg(flushed, Full);
            }
            let payload = self.end_job(done.load, outcome);
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
        self.vm.flushed();
        if waiters {
            self.moved.notify_all();
        }
    }

    /// Does what is to be done when `job` has ended, and lets go of what it kept; returns what is
    /// left of its payload.
    #[inline(always)]
    fn end_job(&self, job: Job<P>, outcome: Outcome) -> P {
        let Job {
            mut payload,
            context,
            mut retired,
            retired_count,
            ..
        } = job;
        payload.end(outcome);
        if retired_count > 0 {
            self.reclaimer.take(&mut retired, retired_count);
        }
        if let Some(context) = context {
            self.reclaimer.drop_later(context);
        }
        payload
    }

    /// A payload without anything to do, with memory of an earlier one's if there is such.
    pub(crate) fn empty_payload(&self) -> P {
        self.state.lock().spares.pop().unwrap_or_default()
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
    /// progress: as the hang check sees it.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: nothing moved for `milliseconds`, and
    /// then for 20 s.
    pub(crate) fn wait_for_progress(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        // Till the end: who moves wakes only if there are some.
        state.waiters += 1;
        let limit = (milliseconds, true);
        let waited = wait::while_moving(&self.moved, &mut state, limit, |state| {
            match state.completed >= number {
                true if state.is_lost(number) => Err(Error::GpuNotResponding),
                true => Ok(Left::Nothing),
                false if state.phase.is_stopped() => Err(Error::GpuNotResponding),
                false => Ok(Left::Something(state.progress())),
            }
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
        state: &mut Guard<'_, State<P>, SpinLockBackend>,
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
