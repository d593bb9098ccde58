// SPDX-License-Identifier: GPL-2.0-only

//! The end of jobs, and waits for it and for places.

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
    turns::{
        Account,
        Reservation,
        Share,
        Wish, //
    },
    GPU_TIMEOUT, //
};
use crate::{
    prelude::*,
    sys::clock::Stamp,
    wait::{
        self,
        Left, //
    }, //
};
use kernel::sync::{
    lock::{
        spinlock::SpinLockBackend,
        Guard, //
    },
    CondVarTimeoutResult, //
};

/// A job with more actions than this is charged for their time, because the next job must not pay.
const FEW_ACTIONS: usize = 64;

/// How long a submitter still waits for its place.
#[derive(Default)]
struct PlaceTimeout {
    /// [`State::moves`] at the last try. `None`: there was no try.
    moves: Option<u64>,
    /// [`State::progress`] when the timeout last began.
    progress: Option<u64>,
    left: Jiffies,
}

/// A submitter's attempts to get a place. If this is dropped without a place, it leaves the line.
pub(crate) struct Turn<'e, F: FrontEnd> {
    engine: &'e Engine<F>,
    pub(crate) wish: Wish<'e>,
    timeout: PlaceTimeout,
}

impl<F: FrontEnd> Turn<'_, F> {
    /// Leaves the line, because this submitter now does something that may take long.
    pub(crate) fn leave(&mut self) {
        if !self.wish.is_waiting() {
            return;
        }
        let mut state = self.engine.state.lock();
        let moves = state.moves;
        if state.line.leave(&mut self.wish, moves) {
            state.moves += 1;
        }
    }
}

impl PlaceTimeout {
    /// Whether something has changed since the last try. Progress of the GPU restarts the timeout.
    fn has_moved<F: FrontEnd>(&mut self, state: &State<F>) -> bool {
        let progress = state.progress();
        if self.progress.replace(progress) != Some(progress) {
            self.left = msecs_to_jiffies(GPU_TIMEOUT);
        }
        self.moves != Some(state.moves)
    }
}

impl<F: FrontEnd> Drop for Turn<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

impl<F: FrontEnd> Engine<F> {
    /// Drops all jobs under way. The front end must be stopped permanently, or cut off from memory.
    /// The caller holds `completion`.
    #[inline(never)]
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
            state.charge(self.config.core, Stamp::now());
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
        self.notify_closed();
    }

    /// Wakes all waiters, because no job gets a place any more.
    pub(super) fn notify_closed(&self) {
        self.progress.notify_all();
        self.turned.notify_all();
    }

    /// Ends a dropped job. A separate function, because this is rare.
    #[cold]
    #[inline(never)]
    fn abandon_job(&self, job: Job<F>) {
        drop(self.end_job(job));
    }

    /// Ends the jobs that are done according to raised interrupts.
    pub(crate) fn complete(self: &Arc<Self>) {
        let completing = self.completion.lock();
        F::end_raised(self);
        drop(completing);
    }

    /// Takes the raised events, and prints errors. The caller holds `completion`.
    #[inline]
    pub(crate) fn take_events(&self) -> u32 {
        let raised = self.hardware.take_raised();
        if raised.axi_bus_error() || raised.mmu_exception() {
            self.hardware.report_failures(raised, self.oldest_process());
        }
        raised.events().get()
    }

    /// The ID of the oldest job's process. 0: the driver, or no job.
    pub(super) fn oldest_process(&self) -> i32 {
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
            // Charge the process before waiters see that the job has ended.
            state.charge(self.config.core, now);
            let Some(done) = state.pop() else {
                break;
            };
            let (number, outcome) = (done.number, done.load.outcome);
            self.trace_end(number, outcome);
            F::begin(self, &mut state);
            drop(state);
            let actions = done.load.payload.actions();
            let payload = self.end_job(done.load);
            if actions > FEW_ACTIONS {
                let now = Stamp::now();
                let mut state = self.state.lock();
                state.charge_actions(self.config.core, now, &payload);
            }
            // Payloads with long lists are freed here, without the lock, because that may sleep.
            let spare = payload.is_reusable().then_some(payload);
            state = self.state.lock();
            state.completed = state.completed.max(number);
            state.moves += 1;
            if outcome == Outcome::Done {
                state.blameless = 0;
            }
            if let Some(payload) = spare {
                // If there is no room, this frees the payload, which is fast: it is empty.
                let _ = state.spares.push_within_capacity(payload);
            }
        }
        let waiters = state.waiters > 0;
        drop(state);
        F::flushed(self);
        if waiters {
            self.progress.notify_all();
        }
    }

    /// Runs the actions of `job`, which has ended, and releases its resources. Returns the payload.
    #[inline(always)]
    fn end_job(&self, job: Job<F>) -> F::Payload {
        let Job {
            mut payload,
            outcome,
            cost: _,
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

    /// An empty payload. It reuses the memory of an earlier one if possible.
    pub(crate) fn empty_payload(&self) -> F::Payload {
        self.state.lock().spares.pop().unwrap_or_default()
    }

    /// Unlocks `state` after a place has been filled or given back, wakes the waiters and ensures
    /// that a hang check is queued.
    #[inline(always)]
    pub(crate) fn publish(self: &Arc<Self>, mut state: Guard<'_, State<F>, SpinLockBackend>) {
        let check = state.needs_check();
        let is_off = state.is_off;
        let waiters = state.waiters > 0;
        drop(state);
        if waiters {
            self.progress.notify_all();
        }
        if check {
            let hardware = &self.hardware;
            self.check_soon(is_off || hardware.is_slow() || hardware.is_out_of_step());
        }
    }

    /// A new turn of a submitter of `account`, or of the driver. Takes no lock, because most
    /// submitters get a place immediately.
    pub(crate) fn turn<'e>(&'e self, account: Option<&'e Arc<Account>>) -> Turn<'e, F> {
        Turn {
            engine: self,
            wish: account.map_or(Wish::new(None), |account| {
                Wish::of(account, self.config.core)
            }),
            timeout: PlaceTimeout::default(),
        }
    }

    /// Waits until another try may succeed: it is the caller's turn, and something has changed
    /// since the last try. Returns at once after the first try: something may have changed.
    ///
    /// The wait counts as a delay by the oldest job's process, unless that is the caller's own.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: no progress for [`GPU_TIMEOUT`].
    /// `OutOfMemory`: no memory for an entry in the line.
    pub(crate) fn wait_for_place(self: &Arc<Self>, turn: &mut Turn<'_, F>) -> Result {
        let Turn { wish, timeout, .. } = turn;
        let mut reservation = None;
        let mut state = self.state.lock();
        if state.line.is_lost(wish) || !wish.is_waiting() {
            drop(state);
            let made = Reservation::new().map_err(|_| Error::OutOfMemory)?;
            reservation = Some(made);
            state = self.state.lock();
        }
        if let Some(reservation) = reservation {
            let moves = state.moves;
            state.line.join(wish, reservation, moves);
            if state.phase == Phase::Open && state.needs_check() {
                drop(state);
                self.check_soon(false);
                state = self.state.lock();
            }
        }
        let share = wish.share;
        self.counted(&mut state, share, |state| {
            self.wait_for_turn(state, wish, timeout)
        })
    }

    /// Runs `wait`. Meanwhile the calling thread, of `share`, counts as a waiter.
    fn counted(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        share: Option<&Share>,
        wait: impl FnOnce(&mut Guard<'_, State<F>, SpinLockBackend>) -> Result,
    ) -> Result {
        state.place_waiters += 1;
        if let Some(share) = share {
            share.add_waiter();
        }
        let waited = wait(state);
        if let Some(share) = share {
            share.remove_waiter();
        }
        state.place_waiters -= 1;
        waited
    }

    /// See [`Engine::wait_for_place`].
    fn wait_for_turn(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        wish: &mut Wish<'_>,
        timeout: &mut PlaceTimeout,
    ) -> Result {
        loop {
            let (moves, waiters) = (state.moves, state.place_waiters);
            let has_moved = timeout.has_moved(state);
            if state.line.admits(wish, moves, waiters) && has_moved {
                timeout.moves = Some(moves);
                return Ok(());
            }
            if state.line.is_lost(wish) || state.phase.is_stopped() {
                return Ok(());
            }
            let progress = if state.line.is_first(wish) {
                &self.progress
            } else {
                &self.turned
            };
            timeout.left = self.wait(state, progress, timeout.left)?;
        }
    }

    /// Waits at most `milliseconds` until job `number` has ended and its actions have run.
    pub(crate) fn wait_for(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(milliseconds).saturating_add(1);
        while state.completed < number {
            // A wait of 0 is a timeout, even if the thread has a signal pending.
            if state.phase.is_stopped() || milliseconds == 0 {
                return Err(Error::GpuNotResponding);
            }
            left = self.wait(&mut state, &self.progress, left)?;
        }
        if state.is_lost(number) {
            Err(Error::GpuNotResponding)
        } else {
            Ok(())
        }
    }

    /// A measure of the core's progress. It changes when the core has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.state.lock().progress()
    }

    /// Waits until job `number` has ended and its actions have run, as long as the hang check sees
    /// progress. The wait counts as a delay by the oldest job's process, unless that is the one of
    /// `own`.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: no progress in the first
    /// `milliseconds`, or for 20 s after progress.
    pub(crate) fn wait_for_progress(
        &self,
        number: u64,
        milliseconds: u32,
        own: &Account,
    ) -> Result {
        let mut state = self.state.lock();
        // Counted until the end of the wait, because jobs only notify if there are waiters.
        state.waiters += 1;
        let share = own.share(self.config.core);
        let waited = self.counted(&mut state, share, |state| {
            let limit = (milliseconds, true);
            wait::while_progressing(&self.progress, state, limit, |state| {
                let has_ended = state.completed >= number;
                if has_ended && !state.is_lost(number) {
                    Ok(Left::Nothing)
                } else if has_ended || state.phase.is_stopped() {
                    Err(Error::GpuNotResponding)
                } else {
                    Ok(Left::Something(state.progress()))
                }
            })
        });
        state.waiters -= 1;
        waited
    }

    /// Waits for job `number`, ignoring Unix signals. Returns whether it has ended.
    pub(crate) fn poll_for(&self, number: u64, milliseconds: u32) -> bool {
        let has_ended = wait::poll(milliseconds, || {
            let state = self.state.lock();
            (state.completed >= number || state.phase == Phase::Dead).then_some(())
        });
        has_ended.is_some()
    }

    /// Waits at most `left` jiffies until `progress` is notified. Returns the jiffies left.
    fn wait(
        &self,
        state: &mut Guard<'_, State<F>, SpinLockBackend>,
        progress: &CondVar,
        left: Jiffies,
    ) -> Result<Jiffies> {
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        state.waiters += 1;
        let woken = progress.wait_interruptible_timeout(state, left);
        state.waiters -= 1;
        match woken {
            CondVarTimeoutResult::Woken { jiffies } => Ok(jiffies),
            CondVarTimeoutResult::Timeout => Ok(0),
            CondVarTimeoutResult::Signal { .. } => Err(Error::Interrupted),
        }
    }
}
