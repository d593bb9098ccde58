// SPDX-License-Identifier: GPL-2.0-only

//! The [`FrontEnd`] that is started once for each job.
//!
//! A job has ended when the pixel engine's event and the END's interrupt have arrived. These may be
//! lost, so it has also ended when the modules have been idle for [`IDLE_TIME`]. Then the next job
//! is started. After a reset the running job is guilty, because no other was started. The others
//! run again. Each of them loads its own context or follows a job of its own process.

use super::{
    state::{
        SingleJob,
        SingleState, //
    },
    Queue,
    SingleEnd,
    BYTES,
    EARLY,
    FIRST_PIXEL,
    UNIT, //
};
use crate::sys::prelude::*;
use crate::{
    hw::{
        vector::END_INTERRUPT,
        Hardware,
        Progress, //
    },
    ring::{
        Addressing,
        AfterReset,
        Cause,
        FrontEnd,
        JobKind,
        Outcome,
        Payload,
        Snapshot,
        State,
        Waited,
        IDS,
        REST_TIME, //
    },
    sys,
    wait, //
};
use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    time::msecs_to_jiffies, //
};

/// How long a core must be idle to have ended its job, in milliseconds. Not a number of checks,
/// because clients can trigger checks.
const IDLE_TIME: u32 = 60;

/// The meaning of the raised interrupts for the oldest job.
enum Event<P> {
    /// No event.
    None,
    /// A module has raised its event.
    Early(P),
    /// The job has ended, or must not continue.
    Ended,
}

impl<P: Payload> JobKind for SingleEnd<P> {
    type Payload = P;
    type Job = SingleJob<P>;
    type State = SingleState;

    /// The number of interrupts of the pixel engine.
    const JOBS: usize = 10;
    const SPARES: usize = 0;
    const BYTES: usize = BYTES;
    const GAP: usize = UNIT;

    fn state(_: u64) -> SingleState {
        SingleState::new()
    }

    fn popped(state: &mut SingleState, _: usize) {
        state.start(false);
    }

    fn depends_on(_: &SingleJob<P>) -> (bool, bool) {
        // The previous job has loaded the same context, or the job loads its own.
        (true, false)
    }
}

impl<P: Payload> FrontEnd for SingleEnd<P> {
    const HAS_DIVIDER: bool = false;

    fn is_running(state: &State<Self>) -> bool {
        state.front.is_running
    }

    /// Starts the oldest job, if its words are written and it was not started.
    fn begin(queue: &Queue<P>, state: &mut State<Self>) {
        // A thread may fill a place after the queue was closed. It must not start the job, because
        // the core may already be reset.
        if state.front.is_running || state.phase.is_stopped() || state.is_off {
            return;
        }
        let Some((_, slot)) = state.jobs.get(0) else {
            return;
        };
        let is_filled = !state.is_filling || state.jobs.len() > 1;
        if is_filled && slot.load.outcome == Outcome::Done {
            queue.trace_start(slot.number);
            let address = queue.gpu(slot.start);
            queue.hardware.start_vector(address, slot.load.own.units);
            state.front.start(true);
        }
    }

    fn end_raised(queue: &Arc<Queue<P>>) {
        // Takes the bits under `completion`, so that they do not outlive their jobs.
        let fired = queue.take_events();
        let before = {
            let mut state = queue.state.lock();
            state.front.raised |= fired;
            state.completed
        };
        queue.end_events();
        if queue.hardware.has_failed() {
            queue.state.lock().watch.note_failure(before);
        }
    }

    fn settle(queue: &Arc<Queue<P>>) -> Progress {
        Self::end_raised(queue);
        let progress = queue.hardware.vector_progress();
        let is_idle = queue.hardware.is_vector_idle();
        let has_ended = {
            let front = &mut queue.state.lock().front;
            let now = sys::jiffies();
            let since = front.idle_since.filter(|_| is_idle);
            front.idle_since = is_idle.then_some(since.unwrap_or(now));
            // CAST: jiffies have the machine's width.
            let limit = msecs_to_jiffies(IDLE_TIME) as usize;
            front.is_running && since.is_some_and(|since| now.wrapping_sub(since) > limit)
        };
        if has_ended {
            queue.end_oldest(1);
            queue.end_events();
        }
        progress
    }

    fn ending(_: &Queue<P>, job: &mut SingleJob<P>, outcome: Outcome) {
        for payload in &mut job.early {
            payload.end(outcome);
        }
    }

    fn enable_interrupts(hardware: &Hardware) {
        hardware.enable_vector_interrupts();
    }

    fn addressing(queue: &Queue<P>) -> Addressing<'_> {
        Addressing::Physical(queue.config.base_address)
    }

    fn snapshot(queue: &Queue<P>, _: bool) -> Result<Snapshot> {
        let registers = queue.hardware.dump_registers()?;
        let (job, process, at, count) = {
            let state = queue.state.lock();
            let (event, slot) = state.jobs.get(0).ok_or(ENOENT)?;
            // CAST: 32 bits into at least 32.
            let count = 2 * slot.load.own.units as usize;
            let process = slot.load.payload.process();
            ((slot.number, event), process, slot.start, count)
        };
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        let mut words = VVec::with_capacity(count, flags)?;
        for word in 0..count {
            words.push(queue.memory.read(at + 4 * word)?, flags)?;
        }
        Snapshot::of_job(registers, words, queue.gpu(at), process, job)
    }

    fn bring_to_rest(queue: &Arc<Queue<P>>) -> Result {
        let _: Option<()> = wait::poll(REST_TIME, || {
            queue.hardware.acknowledge();
            Self::end_raised(queue);
            queue.is_idle().then_some(())
        });
        Ok(())
    }

    fn has_begun(queue: &Queue<P>) -> bool {
        queue.state.lock().front.is_running
    }

    fn prepare(queue: &Queue<P>, _: Cause, decisions: &[AfterReset; IDS]) -> Result<(u32, u32)> {
        queue.hardware.set_vector_table(queue.front.table);
        let mut state = queue.state.lock();
        state.front.core.forget();
        state.front.start(false);
        for (age, decision) in decisions.iter().enumerate() {
            let number = state.jobs.get(age).map(|(_, slot)| slot.number);
            if let (Some(number), true) = (number, decision.is_dropped()) {
                if let Some(job) = state.jobs.load_at(number) {
                    job.outcome = Outcome::Dropped;
                }
            }
        }
        // There is no position, because each job is started at its own address.
        Ok((0, 0))
    }

    fn run(queue: &Arc<Queue<P>>, _: (u32, u32)) -> Result {
        // Dropped jobs have been charged before this.
        queue.state.lock().is_paused = false;
        queue.end_events();
        Self::begin(queue, &mut queue.state.lock());
        Ok(())
    }

    fn went_off(state: &mut SingleState) {
        state.core.forget();
    }

    fn start_again(queue: &Arc<Queue<P>>) -> Result {
        queue.hardware.set_vector_table(queue.front.table);
        let mut state = queue.state.lock();
        state.is_off = false;
        state.front.raised = 0;
        Self::begin(queue, &mut state);
        Ok(())
    }

    /// Holds back no job, because a job depends on states that the job before it leaves.
    fn hold_jobs(queue: &Arc<Queue<P>>, newest: u64, milliseconds: u32) -> bool {
        queue.poll_for(newest, milliseconds)
    }
}

impl<P: Payload> Queue<P> {
    /// Processes the raised interrupts. The caller holds `completion`.
    fn end_events(&self) {
        // Ends: each interrupt is taken once, the next job has none yet, and there is a limited
        // number of dropped jobs.
        loop {
            match self.event() {
                Event::None => break,
                Event::Early(mut payload) => payload.end(Outcome::Done),
                Event::Ended => self.end_oldest(1),
            }
        }
    }

    fn event(&self) -> Event<P> {
        let mut state = self.state.lock();
        let raised = state.front.raised;
        let (is_running, is_paused) = (state.front.is_running, state.is_paused);
        let Some((id, slot)) = state.jobs.get(0) else {
            return Event::None;
        };
        if !is_running {
            // A dropped job must first be charged.
            return if slot.load.outcome == Outcome::Dropped && !is_paused {
                Event::Ended
            } else {
                Event::None
            };
        }
        let number = slot.number;
        for (which, (_, interrupt)) in EARLY.into_iter().enumerate() {
            if raised & 1 << interrupt != 0 {
                state.front.raised &= !(1 << interrupt);
                let Some(job) = state.jobs.load_at(number) else {
                    return Event::None;
                };
                return Event::Early(core::mem::take(&mut job.own.early[which]));
            }
        }
        let wanted = 1 << END_INTERRUPT | 1 << (FIRST_PIXEL + id);
        if raised & wanted == wanted {
            Event::Ended
        } else {
            Event::None
        }
    }
}
