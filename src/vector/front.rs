// SPDX-License-Identifier: GPL-2.0-only

//! The [`FrontEnd`] that is started once for each job.
//!
//! A job has ended when the pixel engine's event and the END's interrupt have arrived. These may be
//! lost, so it has also ended when the modules have been idle for [`IDLE_TIME`]. Then the next job
//! is started. After a reset the running job is guilty, because no other was started. The others
//! run again. Each of them loads its own context or follows a job of its own process.

use super::{
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
        Progress, //
    },
    prelude::*,
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
    stream::vector::{
        nothing,
        Values,
        ADDRESS_STATES, //
    },
    wait, //
};
use kernel::alloc::flags::{
    GFP_NOWAIT,
    __GFP_NOWARN, //
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
            let limit = msecs_to_jiffies(IDLE_TIME);
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

    fn addressing(queue: &Queue<P>) -> Addressing<'_> {
        Addressing::Physical(queue.config.base_address)
    }

    fn snapshot(queue: &Queue<P>, _: bool) -> Result<Snapshot, Errno> {
        let registers = queue.hardware.dump_registers()?;
        let (job, process, at, count) = {
            let state = queue.state.lock();
            let (event, slot) = state.jobs.get(0).ok_or(ENOENT)?;
            let count = 2 * u32_as_usize(slot.load.own.units);
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

    fn bring_to_rest(queue: &Arc<Queue<P>>) -> Result<(), Errno> {
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

    fn prepare(
        queue: &Queue<P>,
        _: Cause,
        decisions: &[AfterReset; IDS],
    ) -> Result<(u32, u32), Errno> {
        queue.hardware.set_page_table(queue.front.table);
        let mut state = queue.state.lock();
        state.front.core.forget();
        state.front.start(false);
        for (age, decision) in decisions.iter().enumerate() {
            if let (Some(slot), true) = (state.jobs.get_mut(age), decision.is_dropped()) {
                slot.load.outcome = Outcome::Dropped;
            }
        }
        // There is no position, because each job is started at its own address.
        Ok((0, 0))
    }

    fn run(queue: &Arc<Queue<P>>, _: (u32, u32)) -> Result<(), Errno> {
        // Dropped jobs have been charged before this.
        queue.state.lock().is_paused = false;
        queue.end_events();
        Self::begin(queue, &mut queue.state.lock());
        Ok(())
    }

    fn went_off(state: &mut SingleState) {
        state.core.forget();
    }

    fn start_again(queue: &Arc<Queue<P>>) -> Result<(), Errno> {
        queue.hardware.set_page_table(queue.front.table);
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
        for (which, (_, interrupt)) in EARLY.into_iter().enumerate() {
            if raised & 1 << interrupt != 0 {
                state.front.raised &= !(1 << interrupt);
                let Some(oldest) = state.jobs.get_mut(0) else {
                    return Event::None;
                };
                return Event::Early(core::mem::take(&mut oldest.load.own.early[which]));
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

/// Data of a job.
pub(crate) struct SingleJob<P> {
    /// The payloads of the tessellator's and the drawing engine's events.
    pub(super) early: [P; 2],
    /// The length in units of 8 bytes.
    pub(super) units: u32,
}

/// The core's state after all jobs in the queue. It is unknown at first.
#[derive(Default)]
pub(super) struct CoreState {
    /// The process and the name of the context whose states are loaded.
    context: Option<(u64, u64)>,
    /// The last name of a context.
    contexts: u64,
    /// The process that has loaded the values. 0: unknown.
    author: u64,
    /// The values of [`TRACKED`](crate::stream::vector::TRACKED).
    values: Values,
    /// The author's count of removed ranges when the values were checked.
    removals: u64,
}

/// The state that a job finds in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The context's name.
    pub(crate) context: u64,
    /// Another context is loaded, so the commands of this context run first.
    pub(crate) is_switched: bool,
    /// Bit mask of [`TRACKED`](crate::stream::vector::TRACKED): values to load before the job.
    pub(super) wipes: u32,
    /// The core's values after these loads. Not used if addresses are not checked.
    pub(crate) values: Values,
}

/// The author of a job.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    /// The number of the process.
    pub(crate) process: u64,
    /// The name of the context; 0: none yet.
    pub(crate) context: u64,
    /// Number of ranges removed from the process's addresses.
    pub(crate) removals: u64,
    /// Whether the process may use an address. `None`: addresses are not checked.
    pub(crate) is_allowed: Option<&'a dyn Fn(u32) -> bool>,
}

impl CoreState {
    /// Notes that the core was reset.
    pub(super) fn forget(&mut self) {
        self.context = None;
        self.author = 0;
    }

    /// The state that a job of `author` finds. `scratch` is the address of scratch memory. All
    /// states of another process are replaced, so that jobs do not depend on earlier processes.
    pub(super) fn entry(&self, author: &Author<'_>, scratch: u32) -> Entry {
        // Ignores a name that no context has had.
        let context = match author.context {
            id @ 1.. if id <= self.contexts => id,
            _ => self.contexts + 1,
        };
        let is_switched = self.context != Some((author.process, context));
        let (wipes, values) = match author.is_allowed {
            None => (0, nothing(scratch)),
            // Loads all values, even those that the core has: a reset may drop the jobs before this
            // one.
            Some(_) if self.author != author.process => (u32::MAX, nothing(scratch)),
            Some(_) if self.removals == author.removals => (u32::MAX, self.values),
            Some(is_allowed) => {
                let mut values = self.values;
                for value in values.iter_mut().take(ADDRESS_STATES) {
                    if !is_allowed(*value) {
                        *value = scratch;
                    }
                }
                (u32::MAX, values)
            }
        };
        Entry {
            context,
            is_switched,
            wipes,
            values,
        }
    }

    /// Whether a context has this name.
    pub(super) fn knows(&self, context: u64) -> bool {
        context <= self.contexts
    }

    /// Notes that a job with `entry` is in the queue and leaves the values `exit`.
    pub(super) fn note(&mut self, author: &Author<'_>, entry: &Entry, exit: &Values) {
        self.contexts = self.contexts.max(entry.context);
        self.context = Some((author.process, entry.context));
        self.removals = author.removals;
        self.author = match author.is_allowed {
            Some(_) => author.process,
            None => 0,
        };
        self.values = *exit;
    }
}

/// The state of the front end, which is stopped at first.
#[derive(Default)]
pub(crate) struct SingleState {
    pub(super) core: CoreState,
    /// The oldest job was started.
    pub(super) is_running: bool,
    /// Interrupts since the start.
    pub(super) raised: u32,
    /// When the core was first seen idle since the start, in jiffies.
    pub(super) idle_since: Option<usize>,
}

impl SingleState {
    /// Notes that the oldest job was started, or that none is running.
    pub(super) fn start(&mut self, is_running: bool) {
        self.is_running = is_running;
        self.raised = 0;
        self.idle_since = None;
    }
}

#[kunit_tests(galcore_vector_state)]
mod tests {
    use super::*;
    use crate::stream::vector::TARGET;

    const SCRATCH: u32 = 0x40;

    /// Puts a job into the queue that loads `target`, if that is not 0.
    fn submit(
        core: &mut CoreState,
        (process, context, removals): (u64, u64, u64),
        is_allowed: &dyn Fn(u32) -> bool,
        target: u32,
    ) -> Entry {
        let author = Author {
            process,
            context,
            removals,
            is_allowed: Some(is_allowed),
        };
        let entry = core.entry(&author, SCRATCH);
        let mut exit = entry.values;
        if target != 0 {
            exit[TARGET] = target;
        }
        core.note(&author, &entry, &exit);
        entry
    }

    #[test]
    fn a_context_runs_when_it_changes() {
        let mut core = CoreState::default();
        let any = |_| true;
        let mut run = |process, context| {
            let entry = submit(&mut core, (process, context, 0), &any, 0x1000);
            (entry.context, entry.is_switched)
        };
        assert_eq!(run(1, 0), (1, true));
        assert_eq!(run(1, 1), (1, false));
        assert_eq!(run(1, 0), (2, true));
        assert_eq!(run(1, 1), (1, true));
        // Of another process, which uses the name of a context that is not its own.
        assert_eq!(run(2, 1), (1, true));
        assert_eq!(run(1, 1), (1, true));
        // A name that no context has.
        assert_eq!(run(1, 77), (3, true));
        assert_eq!(run(1, u64::MAX), (4, true));
        core.forget();
        let entry = submit(&mut core, (1, 4, 0), &any, 0);
        assert_eq!(
            (entry.context, entry.is_switched, entry.wipes),
            (4, true, u32::MAX)
        );
        assert_eq!(entry.values, nothing(SCRATCH));
    }

    #[test]
    fn addresses_of_others_and_of_freed_memory_are_wiped() {
        let mut core = CoreState::default();
        let mine = |value| value == 0x1000 || value == SCRATCH;
        let wipes = |core: &mut CoreState, who, is_allowed: &dyn Fn(u32) -> bool, target| {
            let entry = submit(core, who, is_allowed, target);
            (entry.wipes, entry.values[TARGET])
        };
        let all = (u32::MAX, SCRATCH);
        assert_eq!(wipes(&mut core, (1, 0, 0), &mine, 0x1000), all);
        assert_eq!(wipes(&mut core, (1, 1, 0), &mine, 0), (u32::MAX, 0x1000));
        // No address in the core was released.
        assert_eq!(wipes(&mut core, (1, 1, 5), &mine, 0), (u32::MAX, 0x1000));
        let none = |value| value == SCRATCH;
        assert_eq!(wipes(&mut core, (1, 1, 6), &none, 0x2000), all);
        // The values are only checked after a release.
        assert_eq!(wipes(&mut core, (1, 1, 6), &none, 0), (u32::MAX, 0x2000));
        assert_eq!(wipes(&mut core, (2, 0, 6), &mine, 0x1000), all);
        assert_eq!(wipes(&mut core, (1, 1, 6), &mine, 0), all);
    }

    #[test]
    fn what_is_found_of_others_is_always_the_same() {
        let any = |_: u32| true;
        let mut core = CoreState::default();
        let author = Author {
            process: 1,
            context: 1,
            removals: 3,
            is_allowed: Some(&any),
        };
        submit(&mut core, (1, 0, 0), &any, 0x1000);
        submit(&mut core, (2, 0, 0), &any, 0x2000);
        let entry = core.entry(&author, SCRATCH);
        submit(&mut core, (3, 2, 0), &any, 0x3000);
        assert_eq!(core.entry(&author, SCRATCH), entry);
        // If addresses are not checked, nothing is replaced. A checked job after that replaces all.
        let trusted = Author {
            is_allowed: None,
            ..author
        };
        let entry = core.entry(&trusted, SCRATCH);
        assert_eq!((entry.wipes, entry.is_switched), (0, true));
        core.note(&trusted, &entry, &[0x5000; 32]);
        assert_eq!(core.entry(&author, SCRATCH).wipes, u32::MAX);
    }
}
