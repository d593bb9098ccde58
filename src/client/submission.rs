// SPDX-License-Identifier: GPL-2.0-only

//! Checked commands and a queue of records on their way into the ring.
//!
//! What a check has found may change until the job has its place: other threads of the process map
//! and free memory. So [`Submission`] checks again, under the tables' lock, before each attempt.

use super::{
    client_context::OwnContext,
    commit,
    deltas::{
        self,
        Merged, //
    },
    queue::Queue,
    tables::{
        PerCore,
        Tables, //
    },
    waits::{
        self,
        waited, //
    },
    Core,
    Events,
    Process, //
};
use crate::{
    abi::{
        Format,
        Reply, //
    },
    context::{
        kept::Kept,
        scrub::{
            Author,
            OwnData,
            Scrub,
            PIPES, //
        },
        Context as AttachedContext,
        Hold,
        Load, //
    },
    prelude::*,
    ring::{
        Attempt,
        Checked,
        InContext,
        Reservation,
        Source,
        Stream,
        GPU_TIMEOUT, //
    },
    stream::{
        addresses::AddressSet,
        bounds::{
            self,
            Mask, //
        },
        checker::Exit,
        loaded::Loaded,
        lookup::{
            Addresses,
            Lookup, //
        },
        states,
        words::{
            select_idle_pipe,
            select_pipe,
            Caches,
            Pipe,
            SELECT_PIPE_WORDS, //
        }, //
    },
    sys::{
        self,
        trace::WaitFor, //
    }, //
};
use core::cell::Cell;

/// A submitted job.
pub(super) struct Submitted {
    /// The job's number in its ring.
    pub(super) job: u64,
    /// Its number on the completion page, if the process has one.
    pub(super) counted: Option<u64>,
}

impl From<Submitted> for Reply<'_> {
    fn from(submitted: Submitted) -> Self {
        match submitted.counted {
            Some(number) => Self::Submitted { number },
            None => Self::Nothing,
        }
    }
}

/// Submits `commands`, if there are any, and the queue to `core`. A completion page numbers the
/// job, and shows its end before its actions run.
///
/// The job reserves its place in the ring under the tables' lock. So checks under this lock are
/// still valid then, and memory that leaves the tables later is kept until the job has ended.
pub(super) fn submit(
    process: &Process,
    core: &Core,
    mut commands: Option<&mut Submission<'_>>,
    queue: &mut Queue<'_>,
) -> Result<Submitted> {
    let (ring, page) = (core.ring(), process.completion());
    let mut turn = ring.turn(Some(process.usage.shares()));
    if commands.is_some() {
        queue.events().note_commands();
    }
    // Ends: each round waits, or another thread was faster, or a hang was charged.
    loop {
        let mut tables = process.tables();
        if let Some(commands) = &mut commands {
            // Records cannot hang a core, so only commands wait.
            if !has_waited(process) {
                drop(tables);
                turn.leave();
                wait_for_hangs(process)?;
                continue;
            }
            commands.check(&tables)?;
        }
        queue.check(&tables)?;
        if let Some(page) = page {
            queue.events().show_on(page, core.index());
        }
        let stream = commands.as_ref().map(|commands| commands.stream());
        let mut attempt = ring.reserve(stream.as_ref(), queue.events(), &mut turn);
        if let Ok(Attempt::Reserved(place)) = &attempt {
            process.note_job(&mut tables, core.index(), place.number());
            if let Some(page) = page {
                page.count(core.index());
            }
            if let Some(commands) = &commands {
                commands.placed(&mut tables);
            }
            queue.withdraw(&mut tables);
        }
        let counted = page.map(|page| page.newest(core.index()));
        drop(tables);
        match &mut attempt {
            // Other submitters wait until the place is filled.
            Ok(Attempt::Reserved(place)) => {
                let job = if place.loads() {
                    let stream = commands.map(|commands| {
                        commands.begun(place);
                        commands.stream()
                    });
                    ring.fill(place, stream.as_ref())?
                } else {
                    ring.fill(place, stream.as_ref())?
                };
                return Ok(Submitted { job, counted });
            }
            Err(error) => return Err(*error),
            Ok(Attempt::Full) => waited(WaitFor::Place(core.index()), GPU_TIMEOUT, || {
                ring.wait_for_place(&mut turn)
            })?,
            Ok(Attempt::NotLoaded) => {
                turn.leave();
                if let Some(commands) = &mut commands {
                    commands.load()?;
                }
            }
        }
    }
}

/// If hangs were charged to the process, waits before its commands.
#[inline]
pub(super) fn wait_for_hangs(process: &Process) -> Result {
    process.resets.note_caller();
    let hangs = process.clients.hangs();
    process.resets.try_out(hangs);
    process.resets.wait_for_hangs(hangs)
}

/// Whether commands may run without a wait. The caller holds the tables' lock.
#[inline]
pub(super) fn has_waited(process: &Process) -> bool {
    process.resets.has_waited()
}

impl Process {
    /// Notes job `number` as the process's last one on the core at `place`.
    #[inline]
    pub(super) fn note_job(&self, tables: &mut Tables, place: usize, number: u64) {
        tables.jobs[place] = tables.jobs[place].wrapping_add(1);
        self.last_jobs[place].store(number, Relaxed);
    }

    /// The GPU addresses that the process's commands may name.
    pub(super) fn addresses<'a>(&'a self, core: &Core, tables: &'a Tables) -> Addresses<'a> {
        let parameters = self.device.parameters();
        if !parameters.check_addresses {
            return Addresses::Any;
        }
        Addresses::Of {
            own: &tables.addresses,
            common: &parameters.allowed_ranges,
            scratch: core.scratch(),
        }
    }
}

/// Finds the states that hold addresses of memory that the process has freed since its last
/// commands. Called before the new commands are noted. `own`: the new commands have a context
/// in the client's memory. `hold`: they have this attached context.
pub(super) fn find_stale(
    process: &Process,
    core: &Core,
    tables: &Tables,
    own: bool,
    hold: Option<&mut Hold>,
) -> Result<Option<KBox<[Stale; PIPES]>>> {
    let PerCore {
        loaded,
        last_context,
        ..
    } = &tables.per_core[core.index()];
    let mut all: [Stale; PIPES] = Default::default();
    let addresses = process.addresses(core, tables);
    let is_unsure = match hold.and_then(Hold::buffers) {
        Some(buffers) if !own => buffers.has_strays(Lookup::new(addresses)),
        // The GPU may still hold addresses from the context of earlier commands. The process
        // may have sent these through another open file, with the other kind of context.
        _ => {
            let last = last_context.as_ref();
            last.is_some_and(|last| last.may_have_strays(Lookup::new(addresses)))
        }
    };
    if is_unsure || loaded.is_unsure() {
        loaded.forget_all();
        return Ok(None);
    }
    let mut lookup = Lookup::new(addresses);
    for (pipe, stale) in [Pipe::Pipe3d, Pipe::Pipe2d].into_iter().zip(&mut all) {
        let is_allowed = |state, value| lookup.resolve(state, value).is_some();
        loaded.stale(pipe, is_allowed, &mut stale.states, &mut stale.held)?;
        if !stale.states.is_empty() {
            stale.words = core.scrub().stale(pipe, &stale.states, &core.scratch())?;
        }
    }
    if all.iter().all(|stale| stale.states.is_empty()) {
        return Ok(None);
    }
    let all = KBox::new(all, sys::GFP_CLIENT)?;
    // Forget them now: the new commands, noted later, may load them again. This function must
    // not fail after this: only a failure after `Loaded::begin` makes all states unsure.
    for stale in all.iter() {
        loaded.forget(&stale.states);
    }
    Ok(Some(all))
}

/// Checked commands on their way into the ring.
pub(super) struct Submission<'a> {
    pub(super) process: &'a Process,
    pub(super) core: &'a Core,
    pub(super) words: &'a mut [u32],
    pub(super) entry: Pipe,
    pub(super) exit: Exit,
    /// [`AddressSet::version`] of the process's addresses at the last check.
    pub(super) version: u64,
    /// The context in the client's memory, if there is one.
    pub(super) own: Option<&'a mut OwnContext>,
    /// The context that ATTACH has made, if there is one.
    pub(super) hold: Option<Hold>,
    /// How to load the attached context. Set when the context is up to date.
    pub(super) load: Option<Load>,
    /// User address of the delta of the COMMIT. 0: none.
    pub(super) delta: u64,
    /// The layout of deltas.
    pub(super) format: Format,
    /// The deltas that have updated the context.
    pub(super) merged: Merged,
    /// Number of the job that loads the context.
    pub(super) switched: Option<u64>,
    /// By pipe, states that hold addresses of freed memory, and words that overwrite them. Usually
    /// `None`, so it is boxed.
    pub(super) stale: Option<KBox<[Stale; PIPES]>>,
    /// The data that the process has loaded into the 2D pipe before.
    pub(super) data: Option<Arc<OwnData>>,
    /// [`Loaded::epoch`] at the last check.
    pub(super) epoch: u64,
    /// The context was prepared after the last check of the commands.
    pub(super) is_context_new: bool,
    /// The lent states, which [`complete`] has prepended to the commands.
    pub(super) lent: Mask,
    /// The lent states that the context loads.
    pub(super) of_context: Mask,
    /// The context of the process's previous commands. It must be dropped without locks.
    pub(super) left: Cell<Option<Arc<AttachedContext>>>,
}

/// States of one pipe that hold addresses of freed memory.
#[derive(Default)]
pub(super) struct Stale {
    states: KVVec<u32>,
    /// The value of each state.
    held: KVVec<u32>,
    /// Loads that overwrite the states.
    words: KVVec<u32>,
}

impl Submission<'_> {
    /// Called when the commands are in the ring. Finishes the submission.
    pub(super) fn finish(&mut self) {
        if let Some(own) = &self.own {
            own.write_back();
            if own.keeps_nothing() {
                self.keep();
            }
        }
        let buffers = self.hold.as_mut().and_then(Hold::buffers);
        if let (Some(number), Some(buffers)) = (self.switched, buffers) {
            deltas::switched(buffers, number, &self.merged, self.delta, self.format);
        }
    }

    /// Records the loads of the commands, because the client's context has no room for states. If
    /// no memory is left, records nothing. The order of two threads' records may differ from the
    /// order of their jobs.
    #[cold]
    #[inline(never)]
    fn keep(&self) {
        let mut tables = self.process.tables();
        let PerCore { loaded, kept, .. } = &mut tables.per_core[self.core.index()];
        if kept.is_none() {
            *kept = Kept::new().ok();
        }
        let (Some(kept), Some(sets)) = (kept, self.core.states().sets()) else {
            return;
        };
        kept.follow(loaded.epoch());
        let stale = self.stale.iter().flat_map(|all| all.iter());
        stale.for_each(|stale| kept.forget(&stale.states));
        kept.note(self.words, self.core.state_map(false), sets);
    }

    /// The author of the commands and the core's scrub lists. `None`: addresses are not checked.
    fn author(&self) -> Option<(Author, &Scrub)> {
        if !self.process.device.parameters().check_addresses {
            return None;
        }
        let author = Author {
            process: self.process.number,
            epoch: self.epoch,
        };
        Some((author, self.core.scrub()))
    }

    /// Checks again what may have changed since the last check. Called under the tables' lock,
    /// before each attempt to reserve a place in the ring.
    fn check(&mut self, tables: &Tables) -> Result {
        if tables.addresses.version() != self.version || self.is_context_new || self.load.is_some()
        {
            self.check_again(tables)?;
        }
        match &mut self.own {
            Some(own) => own.check(self.process, self.core, tables),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_again(&mut self, tables: &Tables) -> Result {
        let loaded = &tables.per_core[self.core.index()].loaded;
        let version = tables.addresses.version();
        let is_invalid = version != self.version;
        // Another thread may have unlocked or freed memory that the commands name.
        let is_removed = AddressSet::is_removed(self.version, version);
        if is_removed {
            // `loaded` already includes the commands. So it does not say what the GPU holds now.
            loaded.forget_all();
            self.epoch = loaded.epoch();
            self.stale = None;
        }
        if is_invalid && self.own.is_some() {
            // The GPU loads the context first, but it may be noted after the commands, or never.
            loaded.mark_unsure();
        }
        let is_context_new = core::mem::take(&mut self.is_context_new);
        if self.load.is_some() {
            self.check_context(tables);
        }
        let lends_again = self.lent != 0 && (is_context_new || is_removed);
        if is_invalid || lends_again || is_context_new && self.own.is_some() {
            // The commands already begin with loads of the lent states.
            loaded.stop_lending();
            if lends_again {
                self.lend_again(tables, is_context_new);
            }
            let commands = (&mut self.words[..], self.entry, lent_words(self.lent));
            self.exit = commit::check(self.process, self.core, tables, commands)?;
            self.version = version;
        }
        Ok(())
    }

    /// Checks the addresses that the attached context loads.
    fn check_context(&mut self, tables: &Tables) {
        if let Some(buffers) = self.hold.as_mut().and_then(Hold::buffers) {
            let lookup = Lookup::new(self.process.addresses(self.core, tables));
            buffers.check_addresses(lookup, tables.addresses.changes());
        }
    }

    /// Updates the prepended loads of lent states: with the values that a new context loads, and
    /// with the address of scratch memory where memory was freed.
    #[cold]
    #[inline(never)]
    fn lend_again(&mut self, tables: &Tables, is_context_new: bool) {
        let loaded = &tables.per_core[self.core.index()].loaded;
        let mut lookup = Lookup::new(self.process.addresses(self.core, tables));
        let mut buffers = self.hold.as_mut().and_then(Hold::buffers);
        let of_context = self.of_context;
        let value_of = |place, old| {
            let state = bounds::STATES.get(place).copied().unwrap_or_default();
            let value = match &mut buffers {
                _ if !is_context_new => old,
                Some(buffers) if of_context >> place & 1 != 0 => {
                    buffers.value(state).unwrap_or(old)
                }
                // The process's own commands have loaded the state.
                Some(_) => old,
                None => loaded.last(place),
            };
            if states::takes_address(state) {
                lookup
                    .resolve(state, value)
                    .unwrap_or(lookup.scratch(state))
            } else {
                value
            }
        };
        let room = lent_words(self.lent);
        if let Some(words) = self.words.get_mut(..room) {
            let caches = self.core.ring().caches();
            write_lent(words, self.lent, self.entry, caches, value_of);
        }
    }

    /// The commands in the form that the ring takes.
    #[inline(always)]
    fn stream(&self) -> Stream<'_> {
        let attached = || {
            let context = self.hold.as_ref()?.context();
            Some(InContext {
                owner: context.owner(),
                source: match self.load {
                    Some(load) => Source::Copy(context, load),
                    None => Source::Unready,
                },
            })
        };
        Stream {
            commands: Checked {
                words: self.words,
                entry: self.entry,
                exit: self.exit.pipe,
                armed: self.exit.armed,
                uses: self.exit.uses,
            },
            author: self.author(),
            stale: match self.stale.as_deref() {
                Some([first, second]) => [&first.words, &second.words],
                None => [&[]; PIPES],
            },
            data: self.data.as_deref(),
            context: self
                .own
                .as_deref()
                .map(OwnContext::in_ring)
                .or_else(attached),
        }
    }

    /// Called under the tables' lock when a place in the ring is reserved.
    fn placed(&self, tables: &mut Tables) {
        let removals = tables.addresses.removals();
        let PerCore {
            loaded,
            last_context,
            ..
        } = &mut tables.per_core[self.core.index()];
        if let Some(context) = self.hold.as_ref().map(Hold::context) {
            let is_last = |last: &Arc<_>| Arc::ptr_eq(last, context);
            if !last_context.as_ref().is_some_and(is_last) {
                // The GPU still holds states that the last context has loaded and that this context
                // does not keep.
                if last_context
                    .as_ref()
                    .is_some_and(|last| !last.keeps_as(context))
                {
                    loaded.mark_unsure();
                }
                // The lock is held, so the last reference must not be dropped here.
                self.left.set(last_context.replace(context.clone()));
            }
        }
        loaded.placed(self.load.is_some());
        let mut is_clean = true;
        let stale = self.stale.iter().flat_map(|all| all.iter());
        for (pipe, stale) in [Pipe::Pipe3d, Pipe::Pipe2d].into_iter().zip(stale) {
            if !self.exit.uses.has(pipe) {
                loaded.remember(&stale.states, &stale.held);
                is_clean &= stale.states.is_empty();
            }
        }
        if is_clean {
            loaded.verify(removals);
        }
    }

    /// Prepares the context of the commands for loading. May sleep. The caller holds no lock.
    pub(super) fn load(&mut self) -> Result {
        if let Some(own) = &mut self.own {
            own.load(self.process, self.core)?;
            self.is_context_new = true;
            return Ok(());
        }
        if let Some(buffers) = self.hold.as_mut().and_then(Hold::buffers) {
            waits::progressing(self.process, self.core.ring(), buffers.last_use())?;
            self.merged = deltas::merge(buffers, self.delta, self.format);
            self.load = Some(buffers.load());
            self.is_context_new = true;
        }
        Ok(())
    }

    /// Called when a place is reserved for a job that loads a context. Other submitters wait until
    /// it is filled.
    fn begun(&mut self, place: &Reservation<'_, Events>) {
        if let (true, Some(own)) = (place.loads_states(), &mut self.own) {
            own.loaded();
        }
        let buffers = self.hold.as_mut().and_then(Hold::buffers);
        if let (Some(link), Some(buffers)) = (place.back(), buffers) {
            buffers.set_link(link);
            self.switched = Some(place.number());
        }
    }
}

/// Prepends loads of the *lent* states to checked commands: states that bound a draw, and that the
/// commands do not load before it. The ring drains both pipes before these loads.
#[cold]
#[inline(never)]
pub(super) fn complete(
    words: &mut KVVec<u32>,
    entry: Pipe,
    caches: &Caches,
    loaded: &Loaded,
) -> Result {
    let lent = loaded.lent();
    let room = lent_words(lent);
    let count = words.len();
    words.resize(count + room, 0, sys::GFP_CLIENT)?;
    words.copy_within(..count, room);
    let value_of = |place, _| loaded.lent_value(place);
    write_lent(&mut words[..room], lent, entry, caches, value_of);
    Ok(())
}

/// The states of each pipe, as a bit mask of [`bounds::STATES`].
const LENT_OF_PIPES: [(Pipe, Mask); 2] = [
    (Pipe::Pipe2d, !bounds::OF_3D),
    (Pipe::Pipe3d, bounds::OF_3D),
];

/// Number of words that [`write_lent`] writes.
fn lent_words(lent: Mask) -> usize {
    if lent == 0 {
        return 0;
    }
    let pipes = LENT_OF_PIPES
        .iter()
        .filter(|(_, states)| lent & states != 0);
    // CAST: at most the number of states.
    let (pipes, states) = (pipes.count(), lent.count_ones() as usize);
    2 * states + 2 + pipes * SELECT_PIPE_WORDS
}

/// Writes loads of the `lent` states (a bit mask of [`bounds::STATES`]), and then selects pipe
/// `last`. `value_of` gets the place of a state and its old word, and returns its value.
fn write_lent(
    to: &mut [u32],
    lent: Mask,
    last: Pipe,
    caches: &Caches,
    mut value_of: impl FnMut(usize, u32) -> u32,
) {
    let mut pairs = to.chunks_exact_mut(2);
    let put = |words: &[u32], pairs: &mut core::slice::ChunksExactMut<'_, u32>| {
        for (word, to) in words.chunks_exact(2).zip(pairs) {
            to.copy_from_slice(word);
        }
    };
    let mut is_first = true;
    for (pipe, states) in LENT_OF_PIPES {
        if lent & states == 0 {
            continue;
        }
        if core::mem::take(&mut is_first) {
            put(&select_idle_pipe(pipe), &mut pairs)
        } else {
            put(&select_pipe(caches, pipe), &mut pairs)
        }
        for place in bounds::places_in(lent & states) {
            if let Some(to) = pairs.next() {
                to.copy_from_slice(&bounds::load_of(place, value_of(place, to[1])));
            }
        }
    }
    put(&select_pipe(caches, last), &mut pairs);
}
