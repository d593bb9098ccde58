// SPDX-License-Identifier: GPL-2.0-only

//! The state of an engine: its places, its jobs under way, and the GPU's state after these jobs.
//!
//! Pure logic.

use super::{
    after_reset::JobFacts,
    history::History,
    inflight::{
        InFlight,
        Slot,
        IDS, //
    },
    job::{
        Job,
        JobKind,
        Outcome,
        Tables, //
    },
    meter::Meter,
    phase::Phase,
    space::Space,
    turns::{
        Account,
        Epoch,
        Line,
        Wish, //
    },
    watch::Watch,
    Payload,
    RingEnd,
    PREFETCH_MARGIN,
    RING_BYTES,
    USABLE_BYTES,
    WAIT_LINK_BYTES, //
};
use crate::sys::prelude::*;
use crate::{
    context::{
        scrub::{
            Author,
            Authors, //
        },
        Owner, //
    },
    stream::words::{
        PageTables,
        Pipe,
        Pipes, //
    },
    sys::clock::Stamp, //
};

/// Equal to no change number, so the TLB must be flushed.
const NEVER_FLUSHED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In the idle loop before all jobs, or in the start words: no job has begun.
    Before,
    /// In the first words of the job of this age, or of the context that it loads. The front end
    /// may only have prefetched them, while it stalls at the end of the previous job.
    Entering(usize),
    /// In the job of this age, or in the context that it loads.
    In(usize),
    /// In the idle loop after the job of this age.
    After(usize),
    /// Somewhere else.
    Lost,
}

/// The most bytes that the front end prefetches. The margin at the ring's end has the same size.
const FETCHED_AHEAD: usize = PREFETCH_MARGIN;

/// The GPU's state after all jobs under way.
pub(super) struct GpuState {
    /// The selected pipe. `None`: unknown.
    pub(super) pipe: Option<Pipe>,
    /// The context whose states are loaded. `None`: unknown, or none.
    pub(super) context: Option<Owner>,
    /// The processes whose addresses and data its states may hold.
    pub(super) authors: Authors,
    /// The newest change of the address space that a TLB flush has covered.
    pub(super) flushed: u64,
    /// The tables that its MMU uses. `None`: unknown.
    pub(super) tables: Option<PageTables>,
}

impl GpuState {
    /// Whether a job of `author` must first load the context of `owner`. The job uses the engines
    /// `uses`.
    pub(super) fn needs(&self, owner: Owner, author: Option<Author>, uses: Pipes) -> bool {
        self.context != Some(owner)
            || author
                .is_some_and(|author| uses.pipe_3d && self.authors.are_others(Pipe::Pipe3d, author))
    }

    /// The state after the core was off: only the author of the 3D pipe's data is still known.
    pub(super) fn after_pause(&self) -> Self {
        Self {
            authors: self.authors.after_pause(),
            ..Self::default()
        }
    }
}

/// Nothing is known, as after a reset.
impl Default for GpuState {
    fn default() -> Self {
        Self {
            pipe: None,
            context: None,
            authors: Authors::default(),
            flushed: NEVER_FLUSHED,
            tables: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of its words.
    pub(super) at: usize,
    /// Offset of the WAIT after its words.
    pub(super) wait: usize,
    /// Offset of the WAIT that a LINK to the place must replace.
    pub(super) previous_wait: usize,
    /// Its event ID. A byte keeps the place small, because it is copied.
    pub(super) event: u8,
    /// The previous job's LINK leads to the [`TRAP`](super::TRAP) instead of here.
    pub(super) is_spoiled: bool,
    pub(super) number: u64,
}

/// The ring's part of an engine's state.
#[derive(Default)]
pub(crate) struct RingState {
    /// Offset of the WAIT after the newest job.
    pub(super) wait: usize,
    pub(super) gpu: GpuState,
    /// Offset of the WAIT before the oldest job. The front end loops there if no job is under way.
    pub(super) rest: usize,
    /// The newest job whose begin was traced, or 0. Updated only while the tracepoint is enabled.
    pub(super) begun: u64,
}

/// What an engine hands over to the next engine of its core.
#[derive(Clone, Copy, Default)]
pub(crate) struct Handover {
    /// Number of its last job.
    pub(crate) newest: u64,
    /// How often the core had been reset, or bound again.
    pub(crate) resets: u32,
    pub(super) epoch: Epoch,
}

/// The state of an engine.
pub(crate) struct State<F: JobKind> {
    space: Space,
    pub(crate) phase: Phase,
    /// A place is being filled.
    pub(crate) is_filling: bool,
    /// No job gets a place: the core is being reset, or switched off or on.
    pub(crate) is_paused: bool,
    /// Jobs under way do not begin until the machine is awake and the core is on.
    pub(super) is_held: bool,
    /// The core is off: the front end does not run. Jobs wait.
    pub(crate) is_off: bool,
    /// The administrator has requested a reset.
    pub(super) is_reset_asked: bool,
    /// The time in jiffies until which a core without progress is reset early.
    pub(super) hurry: Option<usize>,
    /// Number of changes so far. Submitters wait for the next one.
    pub(super) moves: u64,
    pub(crate) jobs: InFlight<Job<F>>,
    /// The locations of the last jobs' words.
    pub(crate) history: History,
    /// How long the core has been busy with jobs.
    pub(super) meter: Meter,
    /// Emptied payloads for new jobs. The vector never grows.
    pub(super) spares: KVVec<F::Payload>,
    /// Number of threads that wait for a change.
    pub(super) waiters: usize,
    /// Number of threads that wait for a place or for jobs. See
    /// [`Share::waiting`](super::turns::Share::waiting).
    pub(super) place_waiters: u32,
    /// Submitters that wait for a place.
    pub(super) line: Line,
    /// Number of the newest job that has ended.
    pub(crate) completed: u64,
    /// Number of the first job that was dropped when the core was stopped permanently.
    pub(super) lost_from: u64,
    /// The hang check is queued.
    pub(super) is_checked: bool,
    pub(crate) watch: Watch,
    /// Number of resets without a guilty process since the last job that was done.
    pub(super) blameless: u32,
    /// The front end's part.
    pub(crate) front: F::State,
}

impl<F: JobKind> State<F> {
    /// A stopped engine that continues from `handover`. It is built in place, because it is large.
    pub(super) fn init(
        spares: KVVec<F::Payload>,
        handover: &Handover,
        history: History,
    ) -> impl Init<Self> {
        let (newest, epoch) = (handover.newest, handover.epoch);
        init!(Self {
            space: Space::new(F::BYTES, F::GAP),
            phase: Phase::Stopped,
            is_filling: false,
            is_paused: false,
            is_held: false,
            is_off: false,
            is_reset_asked: false,
            hurry: None,
            moves: 0,
            jobs <- InFlight::init(F::JOBS, newest),
            history,
            meter: Meter::new(),
            spares,
            waiters: 0,
            place_waiters: 0,
            line: Line::new(epoch),
            completed: newest,
            lost_from: u64::MAX,
            is_checked: false,
            watch: Watch::new(newest),
            blameless: 0,
            front: Default::default(),
        })
    }

    /// Opens the engine. The core must have been reset, and its front end must idle.
    pub(crate) fn open(&mut self) {
        self.space = Space::new(F::BYTES, F::GAP);
        self.history.forget();
        self.phase = Phase::Open;
        self.is_held = false;
        self.is_off = false;
    }

    /// Requests the hang check. Returns whether the caller must queue it.
    pub(super) fn needs_check(&mut self) -> bool {
        !core::mem::replace(&mut self.is_checked, true)
    }

    /// Whether a submitter is first in the line. If it does not react in time, it loses its turn.
    pub(super) fn is_taken_soon(&mut self, now: usize) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        if self.line.skip_missing(self.moves, now) {
            self.moves += 1;
        }
        self.line.has_first()
    }

    /// Whether the core may go off: nothing runs or begins, and no hang check is queued.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_open = !(self.phase.is_stopped() || self.is_paused || self.is_filling);
        is_open && !self.is_checked && self.has_nothing_to_do()
    }

    /// Whether no job is under way that may run now.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.jobs.len() == 0 || (self.is_held && self.phase.is_asleep())
    }

    /// A measure of progress. It changes when a job ends, and when the hang check sees the core
    /// move.
    pub(super) fn progress(&self) -> u64 {
        self.completed.wrapping_add(self.watch.moves())
    }

    /// Whether job `number` was dropped when the core was stopped permanently.
    pub(super) fn is_lost(&self, number: u64) -> bool {
        number >= self.lost_from
    }

    /// Whether jobs get places now.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open && !self.is_filling && !self.is_paused
    }

    /// A place for a job of `bytes`, which include the part shared with the next job. `None`: no
    /// place or event ID is free, `wish` is not first, or another place is being filled.
    pub(crate) fn find(&mut self, bytes: usize, wish: &mut Wish<'_>) -> Option<usize> {
        let is_admitted = self.line.admits(wish, self.moves, self.place_waiters);
        if is_admitted && self.is_open() && self.jobs.has_room() {
            self.space.place(bytes)
        } else {
            None
        }
    }

    /// Takes the `bytes` at `at` for `job`: [`State::find`] has just returned them. Returns the
    /// job's event ID and number. No other job gets a place until [`State::mark_filled`].
    pub(crate) fn take(
        &mut self,
        at: usize,
        bytes: usize,
        wish: &mut Wish<'_>,
        mut job: Job<F>,
    ) -> Result<(u32, u64), Job<F>> {
        if !self.jobs.has_room() {
            return Err(job);
        }
        let number = self.jobs.newest() + 1;
        self.line.admit(wish, number, self.moves);
        job.cost = wish.cost();
        let begun = self.jobs.begin(at, at + bytes - F::GAP, job)?;
        self.space.take(at, bytes);
        self.is_filling = true;
        if self.jobs.len() == 1 {
            self.meter.begin(Stamp::now());
        }
        Ok(begun)
    }

    /// Notes that the newest place is filled.
    pub(crate) fn mark_filled(&mut self) {
        self.is_filling = false;
        self.moves += 1;
    }

    /// Removes the oldest job, which has ended, and frees its place.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Slot<Job<F>>> {
        let done = self.jobs.pop()?;
        self.space.free_before(done.mark);
        F::popped(&mut self.front, done.mark);
        Some(done)
    }

    /// Charges the oldest job's process for its time. The job has ended on core `core` at `now`.
    #[inline]
    pub(super) fn charge(&mut self, core: usize, now: Stamp) {
        if let Some((_, oldest)) = self.jobs.get(0) {
            let (payload, taken) = (&oldest.load.payload, self.meter.end(now));
            let account = payload.account();
            if let Some(account) = account {
                account.add(core, taken);
            }
            self.watch.ended(payload.process(), oldest.number);
            self.line.pass(oldest.number, self.moves);
            if let Some(share) = account.and_then(|account| account.share(core)) {
                let (cost, actions) = (oldest.load.cost, payload.actions());
                self.line.ended(share, cost, taken, actions);
            }
        }
    }

    /// Charges the process of an ended job for the time of the job's actions, which ended at `now`.
    /// Else the next job, which may have begun, would pay for it.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_actions(&mut self, core: usize, now: Stamp, payload: &F::Payload) {
        if self.jobs.len() > 0 {
            let taken = self.meter.end(now);
            if let Some(account) = payload.account() {
                account.add(core, taken);
                if let Some(share) = account.share(core) {
                    share.charge(taken);
                }
            }
        }
    }

    /// The number of the oldest job's process. 0: the driver, or no job.
    pub(super) fn oldest_process(&self) -> u64 {
        let oldest = self.jobs.get(0);
        oldest.map_or(0, |(_, slot)| slot.load.payload.process())
    }

    /// Whether the oldest job on core `core` delays more than its own process: another process's
    /// job or submitter, system suspend, or the cleanup after its process has ended.
    pub(super) fn holds_up(&self, core: usize) -> bool {
        let Some((_, oldest)) = self.jobs.get(0) else {
            return false;
        };
        let payload = &oldest.load.payload;
        let own = payload.process();
        let holds_up = |account: &Account| account.holds_up(core, self.place_waiters);
        own != 0
            && (self.phase.is_asleep()
                || payload.account().is_some_and(holds_up)
                || self.newest_of_others(own).is_some())
    }

    /// The number of the newest job of a process other than `own`.
    fn newest_of_others(&self, own: u64) -> Option<u64> {
        self.jobs.iter().rev().find_map(|(_, slot)| {
            let is_others = ![0, own].contains(&slot.load.payload.process());
            is_others.then_some(slot.number)
        })
    }

    /// As [`Self::newest_of_others`], but if there is no such job, the next job's number.
    pub(super) fn last_of_others(&self, own: u64) -> u64 {
        let next = self.completed + self.jobs.len() as u64 + 1;
        self.newest_of_others(own).unwrap_or(next)
    }

    /// The input of [`decide`](super::after_reset::decide) for each job, oldest first, and the
    /// number of jobs.
    pub(super) fn job_facts(&self) -> ([JobFacts; IDS], usize) {
        let mut all = [JobFacts::default(); IDS];
        for (facts, (_, slot)) in all.iter_mut().zip(self.jobs.iter()) {
            let (has_commands, continues) = F::depends_on(&slot.load.own);
            *facts = JobFacts {
                process: slot.load.payload.process(),
                // The commands of a dropped job are gone.
                has_commands: has_commands && slot.load.outcome == Outcome::Done,
                continues,
            };
        }
        (all, self.jobs.len())
    }
}

impl<P: Payload> State<RingEnd<P>> {
    /// Opens the ring. The core must have been reset, with its front end idle at the ring's start.
    pub(super) fn start(&mut self) {
        self.front.wait = 0;
        self.front.rest = 0;
        self.front.gpu = GpuState::default();
        self.open();
    }

    /// The oldest job's number, if the job begins now: the core runs, and the job was not dropped
    /// and has not begun yet.
    pub(super) fn begins(&mut self) -> Option<u64> {
        let (_, oldest) = self.jobs.get(0)?;
        let number = oldest.number;
        let is_to_run = oldest.load.outcome == Outcome::Done;
        if self.is_off || self.is_held || !is_to_run || number <= self.front.begun {
            return None;
        }
        self.front.begun = number;
        Some(number)
    }

    /// Where the front end is. Its position is byte `place` of the ring, at GPU address `address`.
    pub(super) fn whereabouts(&self, place: usize, address: u32) -> Whereabouts {
        for (age, (_, slot)) in self.jobs.iter().enumerate() {
            let load = slot.load.own.basis.load;
            let into_load = load.and_then(|load| load.offset_of(address));
            let into_job = (slot.start..slot.mark)
                .contains(&place)
                .then(|| place - slot.start);
            match into_job.or(into_load) {
                Some(offset) if offset < FETCHED_AHEAD => return Whereabouts::Entering(age),
                Some(_) => return Whereabouts::In(age),
                None => {}
            }
            if is_in_loop(slot.mark, place) {
                return Whereabouts::After(age);
            }
        }
        // The start words, or the idle loop before the oldest job.
        let is_start = (USABLE_BYTES..RING_BYTES).contains(&place);
        if is_start || is_in_loop(self.front.rest, place) {
            Whereabouts::Before
        } else {
            Whereabouts::Lost
        }
    }

    /// The tables that the job of this age or a later one needs, and an earlier job has loaded.
    /// Their process has not ended. `None`: no job needs any until a job loads its own.
    pub(super) fn tables_before(&self, age: usize) -> Option<PageTables> {
        for (_, slot) in self.jobs.iter().skip(age) {
            match slot.load.own.basis.tables {
                Tables::Any => {}
                Tables::Loaded(tables) => return Some(tables),
                Tables::Loads => return None,
            }
        }
        None
    }

    /// Takes the `bytes` at `at` for `job`, as [`State::take`] does.
    pub(super) fn reserve(
        &mut self,
        at: usize,
        bytes: usize,
        wish: &mut Wish<'_>,
        job: Job<RingEnd<P>>,
    ) -> Result<Place, Job<RingEnd<P>>> {
        let wait = at + bytes - WAIT_LINK_BYTES;
        let (event, number) = self.take(at, bytes, wish, job)?;
        Ok(Place {
            at,
            wait,
            previous_wait: core::mem::replace(&mut self.front.wait, wait),
            // CAST: less than `IDS`.
            event: event as u8,
            is_spoiled: false,
            number,
        })
    }

    /// Notes that the newest place holds only its event: the job changes nothing in the GPU.
    pub(super) fn mark_given_back(&mut self) {
        if let Some(job) = self.jobs.load_at(u64::MAX) {
            job.outcome = Outcome::NeverRun;
            job.own.basis = Default::default();
            // Its flush was not run.
            job.own.flushed = 0;
        }
        self.history.give_back(self.jobs.newest());
        self.front.gpu = GpuState::default();
        self.mark_filled();
    }
}

/// Whether byte `place` is in the idle loop at `wait`, or immediately follows it.
fn is_in_loop(wait: usize, place: usize) -> bool {
    (wait..=wait + WAIT_LINK_BYTES).contains(&place)
}

mod tests;
