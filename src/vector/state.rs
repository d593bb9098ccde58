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
        Retired,
        Slot,
        Space, //
    },
    stream::vector::{
        Exit,
        Values,
        ADDRESS_STATES,
        TARGET, //
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
    /// What is to be done at the tessellator's and the drawing engine's events.
    pub(super) early: [P; 2],
    /// What is to be done at its end.
    pub(super) late: P,
    /// Its length in units of 8 bytes.
    pub(super) units: u32,
    /// Its words are there.
    pub(super) is_filled: bool,
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
    /// The process whose addresses it holds; 0: not known.
    author: u64,
    /// These, by [`ADDRESS_STATES`].
    values: Values,
    /// How many ranges had left the author's reach when they were looked at.
    removals: u64,
}

/// What a job that comes loads.
pub(super) struct Loads {
    /// The context's name.
    pub(super) context: u64,
    /// Its commands are to run: it is not the one whose states are loaded.
    pub(super) is_switched: bool,
    /// By [`ADDRESS_STATES`], a bit: an address there is to be replaced by harmless memory's.
    pub(super) wipes: u32,
}

/// Whose job it is, and how it leaves what the core holds.
pub(super) struct Author<'a> {
    /// The process.
    pub(super) process: u64,
    /// The name of its context; 0: none yet.
    pub(super) context: u64,
    /// How many ranges have left its reach.
    pub(super) removals: u64,
    /// Whether it may name an address; `None`: nobody looks.
    pub(super) is_allowed: Option<&'a dyn Fn(u32) -> bool>,
    /// What the context's commands do, and what the others do.
    pub(super) exits: [&'a Exit; 2],
}

impl CoreState {
    /// Nothing is known: as after a reset.
    pub(super) fn new() -> Self {
        Self {
            context: None,
            contexts: 0,
            author: 0,
            values: [0; ADDRESS_STATES.len()],
            removals: 0,
        }
    }

    /// The core has been reset.
    pub(super) fn forget(&mut self) {
        self.context = None;
        self.author = 0;
    }

    /// What a job of `author`'s must load; `scratch` is what harmless memory's address is. `None`:
    /// it would draw there.
    pub(super) fn loads(&self, author: &Author<'_>, scratch: u32) -> Option<Loads> {
        // A name that has never been given is none.
        let context = match author.context {
            id @ 1.. if id <= self.contexts => id,
            _ => self.contexts + 1,
        };
        let is_stale = |value| match author.is_allowed {
            None => false,
            Some(_) if self.author != author.process => true,
            Some(_) if self.removals == author.removals => false,
            Some(is_allowed) => !is_allowed(value),
        };
        let values = self.values.iter().enumerate();
        let wipes = values.fold(0, |wipes, (which, &value)| {
            wipes | u32::from(is_stale(value)) << which
        });
        let is_switched = self.context != Some((author.process, context));
        let [of_context, others] = author.exits;
        let draws_before = match is_switched {
            true if of_context.draws_before => true,
            true if of_context.loaded[TARGET].is_some_and(|target| target != scratch) => false,
            _ => others.draws_before,
        };
        let has_target = wipes & 1 << TARGET == 0 && self.values[TARGET] != scratch;
        let may_draw = has_target || !draws_before || author.is_allowed.is_none();
        may_draw.then_some(Loads {
            context,
            is_switched,
            wipes,
        })
    }

    /// Such a job is in the queue; `scratch` is what harmless memory's address is.
    pub(super) fn note(&mut self, author: &Author<'_>, loads: &Loads, scratch: u32) {
        self.contexts = self.contexts.max(loads.context);
        self.context = Some((author.process, loads.context));
        self.removals = author.removals;
        self.author = match author.is_allowed {
            Some(_) => author.process,
            None => 0,
        };
        let [context, others] = author.exits.map(|exit| &exit.loaded);
        for (which, value) in self.values.iter_mut().enumerate() {
            if loads.wipes & 1 << which != 0 {
                *value = scratch;
            }
            let of_context = context[which].filter(|_| loads.is_switched);
            *value = others[which].or(of_context).unwrap_or(*value);
        }
    }
}

/// The state of a queue.
pub(super) struct State<P> {
    space: Space,
    pub(super) jobs: Flights<Job<P>, JOBS>,
    pub(super) core: CoreState,
    /// The oldest job has been started.
    pub(super) is_running: bool,
    /// Interrupts that have come since.
    pub(super) raised: u32,
    /// How often something has changed that submitters wait for.
    pub(super) moves: u64,
    /// No more jobs.
    pub(super) is_stopped: bool,
    /// The front end has stopped for good.
    pub(super) is_dead: bool,
    /// The newest job that has ended.
    pub(super) completed: u64,
    /// The hang check is queued.
    pub(super) is_checked: bool,
    /// What `completed` was when the hang check looked last.
    pub(super) last_seen: u64,
    /// Looks without progress since.
    pub(super) idle_looks: u32,
}

impl<P> State<P> {
    /// A queue that is stopped, whose jobs are numbered behind `newest`.
    pub(super) fn new(newest: u64) -> Self {
        Self {
            space: Space::new(BYTES, UNIT),
            jobs: Flights::new(newest),
            core: CoreState::new(),
            is_running: false,
            raised: 0,
            moves: 0,
            is_stopped: true,
            is_dead: false,
            completed: newest,
            is_checked: false,
            last_seen: newest,
            idle_looks: 0,
        }
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

    /// Takes the oldest job out; its place is free.
    pub(super) fn pop(&mut self) -> Option<Slot<Job<P>>> {
        let done = self.jobs.pop()?;
        self.space.free_before(done.mark);
        self.is_running = false;
        self.raised = 0;
        Some(done)
    }
}

#[kunit_tests(galcore_vector_state)]
mod tests {
    use super::*;

    const NOTHING: Exit = Exit {
        loaded: [None; ADDRESS_STATES.len()],
        draws_before: false,
    };
    const ALL: u32 = (1 << ADDRESS_STATES.len()) - 1;
    const SCRATCH: u32 = 0x40;

    fn submit(
        core: &mut CoreState,
        (process, context, removals): (u64, u64, u64),
        is_allowed: &dyn Fn(u32) -> bool,
        target: u32,
    ) -> Loads {
        let mut exit = NOTHING;
        exit.loaded[TARGET] = Some(target);
        let author = Author {
            process,
            context,
            removals,
            is_allowed: Some(is_allowed),
            exits: [&NOTHING, &exit],
        };
        let loads = core.loads(&author, SCRATCH).unwrap();
        core.note(&author, &loads, SCRATCH);
        loads
    }

    #[test]
    fn a_context_runs_when_it_changes() {
        let mut core = CoreState::new();
        let any = |_| true;
        let mut run = |process, context| {
            let loads = submit(&mut core, (process, context, 0), &any, 0x1000);
            (loads.context, loads.is_switched)
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
        let loads = submit(&mut core, (1, 4, 0), &any, 0);
        assert_eq!(
            (loads.context, loads.is_switched, loads.wipes),
            (4, true, ALL)
        );
    }

    #[test]
    fn addresses_of_others_and_of_freed_memory_are_wiped() {
        let mut core = CoreState::new();
        let mine = |value| value == 0x1000 || value == SCRATCH;
        assert_eq!(submit(&mut core, (1, 0, 0), &mine, 0x1000).wipes, ALL);
        assert_eq!(submit(&mut core, (1, 1, 0), &mine, 0x1000).wipes, 0);
        // Nothing has left that the core holds.
        assert_eq!(submit(&mut core, (1, 1, 5), &mine, 0x1000).wipes, 0);
        let none = |value| value == SCRATCH;
        assert_eq!(submit(&mut core, (1, 1, 6), &none, 0x2000).wipes, 1);
        assert_eq!(core.values[0], 0x2000);
        // Looked at once for each that leaves.
        assert_eq!(submit(&mut core, (1, 1, 6), &none, 0x2000).wipes, 0);
        assert_eq!(submit(&mut core, (2, 0, 6), &mine, 0x1000).wipes, ALL);
        assert_eq!(core.values, {
            let mut values = [SCRATCH; ADDRESS_STATES.len()];
            values[0] = 0x1000;
            values
        });
    }

    #[test]
    fn what_a_context_loads_counts_if_it_runs() {
        let mut core = CoreState::new();
        let any = |_: u32| true;
        let mut context = NOTHING;
        (context.loaded[1], context.loaded[2]) = (Some(0x3000), Some(0x4000));
        let mut others = NOTHING;
        others.loaded[1] = Some(0x5000);
        let mut run = |removals| {
            let author = Author {
                process: 1,
                context: 1,
                removals,
                is_allowed: Some(&any),
                exits: [&context, &others],
            };
            let loads = core.loads(&author, SCRATCH).unwrap();
            core.note(&author, &loads, SCRATCH);
            (loads.is_switched, core.values[1], core.values[2])
        };
        assert_eq!(run(0), (true, 0x5000, 0x4000));
        assert_eq!(run(0), (false, 0x5000, 0x4000));
    }

    #[test]
    fn nothing_is_drawn_where_no_target_is() {
        let any = |_: u32| true;
        let mut core = CoreState::new();
        let may = |core: &CoreState, process, context: &Exit, others: &Exit| {
            let author = Author {
                process,
                context: 1,
                removals: 0,
                is_allowed: Some(&any),
                exits: [context, others],
            };
            core.loads(&author, SCRATCH).is_some()
        };
        let draws = Exit {
            draws_before: true,
            ..NOTHING
        };
        let mut loads = NOTHING;
        loads.loaded[TARGET] = Some(0x1000);
        assert!(may(&core, 1, &NOTHING, &NOTHING));
        assert!(!may(&core, 1, &NOTHING, &draws));
        assert!(!may(&core, 1, &draws, &loads));
        // The context has one.
        assert!(may(&core, 1, &loads, &draws));
        submit(&mut core, (1, 0, 0), &any, 0x1000);
        assert!(may(&core, 1, &NOTHING, &draws));
        assert!(!may(&core, 2, &NOTHING, &draws));
        submit(&mut core, (1, 1, 0), &any, SCRATCH);
        assert!(!may(&core, 1, &NOTHING, &draws));
        // A context that does not run helps nobody.
        assert!(!may(&core, 1, &loads, &draws));
    }

    #[test]
    fn ten_jobs_and_their_places() {
        let job = || Job {
            early: [0, 0],
            late: 7,
            units: 1,
            is_filled: true,
            retired: List::new(),
            retired_count: 0,
        };
        let mut state: State<u32> = State::new(5);
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
