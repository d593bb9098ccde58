// SPDX-License-Identifier: GPL-2.0-only

//! What the queue knows: its jobs, and how the core will be left by them.
//!
//! Pure logic.

use super::{
    BYTES,
    UNIT, //
};
use crate::{
    ring::{
        Flights,
        History,
        Meter,
        Payload,
        Phase,
        Retired,
        Slot,
        Space,
        Watch, //
    },
    stream::vector::{
        nothing,
        Values,
        ADDRESS_STATES, //
    }, //
};
use kernel::{
    list::List,
    prelude::*, //
};

/// Jobs at once: interrupts of the pixel engine.
pub(super) const JOBS: usize = 10;

/// What is kept of a job besides its place and its number.
pub(super) struct Job<P> {
    /// The process that has submitted it, by its number.
    pub(super) process: u64,
    /// What is to be done at the tessellator's and the drawing engine's events.
    pub(super) early: [P; 2],
    /// What is to be done at its end.
    pub(super) late: P,
    /// Its length in units of 8 bytes.
    pub(super) units: u32,
    /// Its words are there.
    pub(super) is_filled: bool,
    /// It is not to run any more: it ends when it is the oldest.
    pub(super) is_dropped: bool,
    /// What it keeps, and how many they are.
    pub(super) retired: List<Retired>,
    pub(super) retired_count: u64,
}

/// What the core holds behind all jobs.
pub(super) struct CoreState {
    /// The process and the name of the context whose states are loaded.
    context: Option<(u64, u64)>,
    /// Names given to contexts so far.
    contexts: u64,
    /// The process whose states it holds; 0: not known.
    author: u64,
    /// These, by [`TRACKED`](crate::stream::vector::TRACKED).
    values: Values,
    /// How many ranges had left the author's reach when they were looked at.
    removals: u64,
}

/// What a job finds in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The context's name.
    pub(crate) context: u64,
    /// Its commands are to run: it is not the one whose states are loaded.
    pub(crate) is_switched: bool,
    /// By [`TRACKED`](crate::stream::vector::TRACKED), a bit: the value is loaded in front of the
    /// job.
    pub(super) wipes: u32,
    /// What the core holds then. Of no meaning if nobody looks at addresses.
    pub(crate) values: Values,
}

/// Whose job it is.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    /// The process, by its number.
    pub(crate) process: u64,
    /// The name of its context; 0: none yet.
    pub(crate) context: u64,
    /// How many ranges have left its reach.
    pub(crate) removals: u64,
    /// Whether it may name an address; `None`: nobody looks.
    pub(crate) is_allowed: Option<&'a dyn Fn(u32) -> bool>,
}

impl CoreState {
    /// Nothing is known: as after a reset.
    pub(super) fn new() -> Self {
        Self {
            context: None,
            contexts: 0,
            author: 0,
            values: nothing(0),
            removals: 0,
        }
    }

    /// The core has been reset.
    pub(super) fn forget(&mut self) {
        self.context = None;
        self.author = 0;
    }

    /// What a job of `author`'s finds; `scratch` is what harmless memory's address is. Another's
    /// states are all replaced: what a process finds does not depend on who came before it.
    pub(super) fn entry(&self, author: &Author<'_>, scratch: u32) -> Entry {
        // A name that has never been given is none.
        let context = match author.context {
            id @ 1.. if id <= self.contexts => id,
            _ => self.contexts + 1,
        };
        let is_switched = self.context != Some((author.process, context));
        let (wipes, values) = match author.is_allowed {
            None => (0, nothing(scratch)),
            // All are loaded, also what the core has: a job in front may be lost with a reset.
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

    /// Whether a context has been given this name.
    pub(super) fn knows(&self, context: u64) -> bool {
        context <= self.contexts
    }

    /// Such a job is in the queue, which leaves `exit`.
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

/// The state of a queue.
pub(super) struct State<P> {
    space: Space,
    pub(super) jobs: Flights<Job<P>, JOBS>,
    /// Where the words of the last ones lie.
    pub(super) history: History,
    /// How long it has been busy with them.
    pub(super) meter: Meter,
    pub(super) core: CoreState,
    /// The oldest job has been started.
    pub(super) is_running: bool,
    /// Interrupts that have come since.
    pub(super) raised: u32,
    /// How often something has changed that submitters wait for.
    pub(super) moves: u64,
    /// Whether it takes jobs.
    pub(super) phase: Phase,
    /// Threads of processes that wait for a place.
    pub(super) place_waiters: usize,
    /// The newest job that has ended.
    pub(super) completed: u64,
    /// The hang check is queued.
    pub(super) is_checked: bool,
    /// What the hang check has seen.
    pub(super) watch: Watch,
    /// When the core was first seen idle since a job has ended, in jiffies.
    pub(super) idle_since: Option<usize>,
    /// The core is being reset: nobody gets a place.
    pub(super) is_paused: bool,
    /// The core is off: jobs wait.
    pub(super) is_off: bool,
    /// The admin wants commands to be printed.
    pub(super) prints: bool,
    /// The admin wants the core to be reset.
    pub(super) is_reset_asked: bool,
}

impl<P> State<P> {
    /// A queue that is stopped, whose jobs are numbered behind `newest`.
    pub(super) fn new(newest: u64, history: History) -> Self {
        Self {
            space: Space::new(BYTES, UNIT),
            jobs: Flights::new(newest),
            history,
            meter: Meter::new(),
            core: CoreState::new(),
            is_running: false,
            raised: 0,
            moves: 0,
            phase: Phase::Stopped,
            place_waiters: 0,
            completed: newest,
            is_checked: false,
            watch: Watch::new(newest),
            idle_since: None,
            is_paused: false,
            is_off: false,
            prints: false,
            is_reset_asked: false,
        }
    }

    /// How far the core has come: changes with each job that ends, and whenever the hang check sees
    /// it move.
    pub(super) fn progress(&self) -> u64 {
        self.completed.wrapping_add(self.watch.moves())
    }

    /// Where a job of `bytes`, a multiple of [`UNIT`], can go now, if there is such a place and an
    /// interrupt.
    pub(super) fn find(&self, bytes: usize) -> Option<usize> {
        match self.jobs.has_room() {
            true => self.space.place(bytes),
            false => None,
        }
    }

    /// Takes the place of `bytes` at `at`, which [`State::find`] has just given, for `job`; returns
    /// its id and its number.
    pub(super) fn take(
        &mut self,
        at: usize,
        bytes: usize,
        job: Job<P>,
    ) -> Result<(u32, u64), Job<P>> {
        let begun = self.jobs.begin(at, at + bytes - UNIT, job)?;
        self.space.take(at, bytes);
        Ok(begun)
    }

    /// Number of the newest job in front of which all have their words, it too; `newest` is the
    /// last of all.
    pub(super) fn written(&self, newest: u64) -> u64 {
        let ages = 0..self.jobs.len();
        let mut slots = ages.filter_map(|age| self.jobs.get(age).map(|(_, slot)| slot));
        let unfilled = slots.find(|slot| !slot.load.is_filled);
        unfilled.map_or(newest, |slot| slot.number - 1)
    }

    /// Whether all jobs have their words.
    pub(super) fn are_filled(&self) -> bool {
        self.jobs.loads().all(|job| job.is_filled)
    }

    /// Takes the oldest job out; its place is free.
    pub(super) fn pop(&mut self) -> Option<Slot<Job<P>>> {
        let done = self.jobs.pop()?;
        self.space.free_before(done.mark);
        self.is_running = false;
        self.raised = 0;
        Some(done)
    }
}

impl<P: Payload> State<P> {
    /// Whether the oldest job, on core `core`, holds anything up but its own process: another's job,
    /// a submitter, the machine's sleep, or the end of what its process had.
    pub(super) fn holds_up(&self, core: usize) -> bool {
        let Some((_, oldest)) = self.jobs.get(0) else {
            return false;
        };
        let own = oldest.load.process;
        let mut others = self.jobs.loads().map(|job| job.process);
        self.phase.is_asleep()
            || oldest.load.late.holds_up(core, self.place_waiters)
            || others.any(|process| process != own)
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
        let mut core = CoreState::new();
        let any = |_| true;
        let mut run = |process, context| {
            let entry = submit(&mut core, (process, context, 0), &any, 0x1000);
            (entry.context, entry.is_switched)
        };
        assert_eq!(run(1, 0), (1, true));
        assert_eq!(run(1, 1), (1, false));
        assert_eq!(run(1, 0), (2, true));
        assert_eq!(run(1, 1), (1, true));
        // Another process's, whose name is not its own.
        assert_eq!(run(2, 1), (1, true));
        assert_eq!(run(1, 1), (1, true));
        // A name that nobody has.
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
        let mut core = CoreState::new();
        let mine = |value| value == 0x1000 || value == SCRATCH;
        let wipes = |core: &mut CoreState, who, is_allowed: &dyn Fn(u32) -> bool, target| {
            let entry = submit(core, who, is_allowed, target);
            (entry.wipes, entry.values[TARGET])
        };
        let all = (u32::MAX, SCRATCH);
        assert_eq!(wipes(&mut core, (1, 0, 0), &mine, 0x1000), all);
        assert_eq!(wipes(&mut core, (1, 1, 0), &mine, 0), (u32::MAX, 0x1000));
        // Nothing has left that the core holds.
        assert_eq!(wipes(&mut core, (1, 1, 5), &mine, 0), (u32::MAX, 0x1000));
        let none = |value| value == SCRATCH;
        assert_eq!(wipes(&mut core, (1, 1, 6), &none, 0x2000), all);
        // Looked at once for each that leaves.
        assert_eq!(wipes(&mut core, (1, 1, 6), &none, 0), (u32::MAX, 0x2000));
        assert_eq!(wipes(&mut core, (2, 0, 6), &mine, 0x1000), all);
        assert_eq!(wipes(&mut core, (1, 1, 6), &mine, 0), all);
    }

    #[test]
    fn what_is_found_of_others_is_always_the_same() {
        let any = |_: u32| true;
        let mut core = CoreState::new();
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
        // Nobody looks: nothing is replaced, and what is there is nobody's for who does look.
        let trusted = Author {
            is_allowed: None,
            ..author
        };
        let entry = core.entry(&trusted, SCRATCH);
        assert_eq!((entry.wipes, entry.is_switched), (0, true));
        core.note(&trusted, &entry, &[0x5000; 32]);
        assert_eq!(core.entry(&author, SCRATCH).wipes, u32::MAX);
    }

    #[test]
    fn ten_jobs_and_their_places() {
        let job = || Job {
            process: 1,
            early: [0, 0],
            late: 7,
            units: 1,
            is_filled: true,
            is_dropped: false,
            retired: List::new(),
            retired_count: 0,
        };
        let mut state: State<u32> = State::new(5, History::none());
        for number in 0..10 {
            let at = state.find(UNIT).unwrap();
            assert_eq!(at, UNIT * (1 + number));
            let begun = state.take(at, UNIT, job()).map_err(|_| ()).unwrap();
            assert_eq!(begun, (number as u32, 6 + number as u64));
        }
        assert!(state.find(UNIT).is_none());
        state.is_running = true;
        assert_eq!(state.pop().unwrap().number, 6);
        assert!(!state.is_running);
        let at = state.find(UNIT).unwrap();
        assert_eq!(
            state.take(at, UNIT, job()).map_err(|_| ()).unwrap(),
            (0, 16)
        );
        while state.pop().is_some() {}
        assert!(state.find(super::super::MAX_BYTES).is_some());
    }
}
