// SPDX-License-Identifier: GPL-2.0-only

//! The single start as a [`FrontEnd`]: what it does in its own way.
//!
//! A job has ended when the pixel engine's event and the END's interrupt have come, or, as they may
//! be lost, when the modules have been idle for [`IDLE_TIME`]. Then the next one is started. After a
//! reset the running job is guilty: it was started, and nothing shows how far its front end came.
//! All others have not been started; each loads its own context, for a guilty process's came before.

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
use crate::{
    hw::{
        vector::END_INTERRUPT,
        Hardware,
        Progress, //
    },
    ring::{
        Addressing,
        Cause,
        Evidence,
        Fate,
        FrontEnd,
        Outcome,
        Payload,
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
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies, //
};

/// How long a core must be seen idle, without any progress, to have ended its job, in milliseconds:
/// by time, as others can have it looked at.
const IDLE_TIME: u32 = 60;

/// What raised interrupts say of the oldest job.
enum Event<P> {
    /// Nothing more.
    None,
    /// A module has come so far.
    Early(P),
    /// It has ended, or is not to run any more.
    Ended,
}

impl<P: Payload> FrontEnd for SingleEnd<P> {
    type Payload = P;
    type Job = SingleJob<P>;
    type State = SingleState;

    /// Interrupts of the pixel engine.
    const JOBS: usize = 10;
    const SPARES: usize = 0;
    const BYTES: usize = BYTES;
    const GAP: usize = UNIT;
    const HAS_DIVIDER: bool = false;

    fn state(_: u64) -> SingleState {
        SingleState::new()
    }

    fn popped(state: &mut SingleState, _: usize) {
        state.start(false);
    }

    fn rests_on(_: &SingleJob<P>) -> (bool, bool) {
        // The context of the job before it is its own process's, or it loads its own.
        (true, false)
    }

    fn is_running(state: &State<Self>) -> bool {
        state.front.is_running
    }

    /// Starts the oldest job, if its words are there and it has not been started.
    fn begin(queue: &Queue<P>, state: &mut State<Self>) {
        // Who still fills a place when the queue is closed does not start it: the core may be reset
        // already.
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
        // Taken under the lock: bits that wait outside could outlive their jobs.
        let fired = queue.hardware.take_events(|| queue.oldest_process());
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
        Addressing::Physical(queue.seat.base_address)
    }

    fn evidence(queue: &Queue<P>, _: bool) -> Result<Evidence> {
        let registers = queue.hardware.dump_vector_registers()?;
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
        Evidence::of_job(registers, words, queue.gpu(at), process, job)
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

    fn prepare(queue: &Queue<P>, _: Cause, fates: &[Fate; IDS]) -> Result<(u32, u32)> {
        queue.hardware.set_vector_table(queue.front.table);
        let mut state = queue.state.lock();
        state.front.core.forget();
        state.front.start(false);
        for (age, fate) in fates.iter().enumerate() {
            let number = state.jobs.get(age).map(|(_, slot)| slot.number);
            if let (Some(number), true) = (number, fate.is_dropped()) {
                if let Some(job) = state.jobs.load_at(number) {
                    job.outcome = Outcome::Dropped;
                }
            }
        }
        // Each job has its own.
        Ok((0, 0))
    }

    fn run(queue: &Arc<Queue<P>>, _: (u32, u32)) -> Result {
        // Those that are dropped have been charged by now.
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

    /// Nothing is held: a job depends on states that the one before it has left.
    fn hold_jobs(queue: &Arc<Queue<P>>, newest: u64, milliseconds: u32) -> bool {
        queue.poll_for(newest, milliseconds)
    }
}

impl<P: Payload> Queue<P> {
    /// Runs what the raised interrupts ask for. The caller holds `completion`.
    fn end_events(&self) {
        // Ends: each interrupt is taken once, and the next job has none of its own yet; and the jobs
        // that are dropped are limited.
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
            // Not before it is charged.
            return match slot.load.outcome == Outcome::Dropped && !is_paused {
                true => Event::Ended,
                false => Event::None,
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
        match raised & wanted == wanted {
            true => Event::Ended,
            false => Event::None,
        }
    }
}
