// SPDX-License-Identifier: GPL-2.0-only

//! The end of jobs, and waiting for it.

use super::{
    state::State,
    Queue,
    EARLY,
    FIRST_PIXEL, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    hw::vector::END_INTERRUPT,
    ring::{
        Outcome,
        Payload,
        Phase,
        GPU_TIMEOUT, //
    },
    sys::clock::Stamp,
    wait, //
};
use kernel::{
    sync::{
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        CondVarTimeoutResult, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    }, //
};

/// How long a submitter goes on waiting for its place.
pub(crate) struct PlaceTimeout {
    moves: u64,
    /// What [`State::progress`] was when the time began.
    progress: u64,
    left: Jiffies,
}

/// What raised interrupts say of the job that runs.
enum Progress<P> {
    /// Nothing more.
    None,
    /// A module has come so far.
    Early(P),
    /// It has ended.
    Ended,
    /// It is not to run any more.
    Dropped,
}

impl<P: Payload> Queue<P> {
    /// The id of the process whose job is the oldest under way; 0: none is, or it is the driver's.
    pub(super) fn oldest_process(&self) -> i32 {
        let state = self.state.lock();
        let oldest = state.jobs.get(0);
        oldest.map_or(0, |(_, slot)| slot.load.late.process_id())
    }

    /// Does what raised interrupts say is to be done.
    pub(crate) fn complete(&self) {
        let completing = self.completion.lock();
        // Taken under the lock: bits that wait outside could outlive their jobs.
        let fired = self.hardware.take_events(|| self.oldest_process());
        let before = {
            let mut state = self.state.lock();
            state.raised |= fired;
            state.completed
        };
        self.end_raised();
        if self.hardware.has_failed() {
            self.state.lock().watch.note_failure(before);
        }
        drop(completing);
    }

    /// Does what is to be done by now. The caller holds `completion`.
    pub(super) fn end_raised(&self) {
        // Ends: each interrupt is taken once, and the next job has none of its own yet; and there
        // are so many jobs that are dropped.
        loop {
            match self.progress() {
                Progress::None => break,
                Progress::Early(mut payload) => payload.end(Outcome::Done),
                Progress::Ended => self.end_oldest(Outcome::Done),
                Progress::Dropped => self.end_oldest(Outcome::Dropped),
            }
        }
    }

    fn progress(&self) -> Progress<P> {
        let mut state = self.state.lock();
        let is_paused = state.is_paused;
        if !state.is_running {
            return match state.jobs.oldest() {
                // Not before it is charged.
                Some((_, _, job)) if job.is_dropped && !is_paused => Progress::Dropped,
                _ => Progress::None,
            };
        }
        let raised = state.raised;
        let Some((id, _, job)) = state.jobs.oldest() else {
            return Progress::None;
        };
        for (which, (_, interrupt)) in EARLY.into_iter().enumerate() {
            if raised & 1 << interrupt != 0 {
                let payload = core::mem::take(&mut job.early[which]);
                state.raised &= !(1 << interrupt);
                return Progress::Early(payload);
            }
        }
        let wanted = 1 << END_INTERRUPT | 1 << (FIRST_PIXEL + id);
        match raised & wanted == wanted {
            true => Progress::Ended,
            false => Progress::None,
        }
    }

    /// Ends the oldest job, and starts the next. The caller holds `completion`.
    pub(super) fn end_oldest(&self, outcome: Outcome) {
        let (done, taken) = {
            let mut state = self.state.lock();
            let done = state.pop();
            let taken = match done {
                Some(_) => state.meter.end(Stamp::now()),
                None => 0,
            };
            if let Some(done) = &done {
                self.trace_end(done.number, outcome);
            }
            self.start_next(&mut state);
            (done, taken)
        };
        let Some(mut done) = done else {
            return;
        };
        let job = &mut done.load;
        // Before anybody who waits for it is told.
        job.late.used(self.setup.core, taken);
        for payload in &mut job.early {
            payload.end(outcome);
        }
        job.late.end(outcome);
        if job.retired_count != 0 {
            self.reclaimer.take(&mut job.retired, job.retired_count);
        }
        let mut state = self.state.lock();
        state.completed = state.completed.max(done.number);
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }

    /// Drops what is under way. The front end must be stopped for good.
    pub(crate) fn abandon(&self) {
        self.close();
        let completing = self.completion.lock();
        self.state.lock().phase = Phase::Dead;
        // Ends: the queue is closed.
        while self.state.lock().jobs.len() > 0 {
            self.end_oldest(Outcome::Dropped);
        }
        drop(completing);
        self.moved.notify_all();
    }

    /// What a submitter that has not tried yet needs for [`Queue::wait_for_place`].
    pub(crate) fn place_timeout(&self) -> PlaceTimeout {
        let state = self.state.lock();
        PlaceTimeout {
            moves: state.moves,
            progress: state.progress(),
            left: msecs_to_jiffies(GPU_TIMEOUT),
        }
    }

    /// Waits until trying again is worth it.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: nothing moved for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_place(&self, timeout: &mut PlaceTimeout) -> Result {
        let mut state = self.state.lock();
        state.place_waiters += 1;
        let waited = loop {
            let progress = state.progress();
            if core::mem::replace(&mut timeout.progress, progress) != progress {
                timeout.left = msecs_to_jiffies(GPU_TIMEOUT);
            }
            if core::mem::replace(&mut timeout.moves, state.moves) != state.moves {
                break Ok(());
            }
            match self.wait(&mut state, timeout.left) {
                Ok(left) => timeout.left = left,
                Err(error) => break Err(error),
            }
        };
        state.place_waiters -= 1;
        waited
    }

    /// How far the core has come: another number whenever it has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.state.lock().progress()
    }

    /// Waits until job `number` has ended and done what it had to, as long as the core makes
    /// progress: as the hang check sees it.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: nothing moved for `milliseconds`, and
    /// then for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_progress(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(milliseconds);
        while state.completed < number {
            if state.phase.is_stopped() {
                return Err(Error::GpuNotResponding);
            }
            let before = state.progress();
            left = self.wait(&mut state, left)?;
            if state.progress() != before {
                left = msecs_to_jiffies(GPU_TIMEOUT);
            }
        }
        Ok(())
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
    fn wait(
        &self,
        state: &mut Guard<'_, State<P>, SpinLockBackend>,
        left: Jiffies,
    ) -> Result<Jiffies> {
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        match self.moved.wait_interruptible_timeout(state, left) {
            CondVarTimeoutResult::Woken { jiffies } => Ok(jiffies),
            CondVarTimeoutResult::Timeout => Ok(0),
            CondVarTimeoutResult::Signal { .. } => Err(Error::Interrupted),
        }
    }
}
