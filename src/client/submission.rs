// SPDX-License-Identifier: GPL-2.0-only

//! Checked commands and a queue of records on their way into the ring.
//!
//! What a check has found may change until the job has its place: other threads of the process map
//! and free memory. So [`Submission`] checks again, under the tables' lock, before each attempt.

use super::{
    check::{
        self,
        Stale, //
    },
    client_context::{
        self,
        Merged,
        OwnContext, //
    },
    queue::Queue,
    restarts,
    tables::{
        PerCore,
        Tables, //
    },
    waits,
    Core,
    Events,
    Process, //
};
use crate::{
    abi::{
        Format,
        Record,
        Reply, //
    },
    context::{
        kept::Kept,
        scrub::{
            Author,
            Lists,
            OwnData,
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
        Payload,
        Reservation,
        Source,
        Stream,
        GPU_TIMEOUT, //
    },
    stream::{
        addresses::{
            AddressSet,
            Lookup, //
        },
        bounds::{
            self,
            Mask, //
        },
        checker::Exit,
        states,
        words::Pipe, //
    },
    sys::trace::WaitFor, //
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
fn submit(
    process: &Process,
    core: &Core,
    mut commands: Option<&mut Submission<'_>>,
    queue: &mut Queue<'_>,
) -> Result<Submitted> {
    let (ring, page) = (core.engine(), process.completion());
    let mut turn = ring.turn(Some(&process.account));
    if commands.is_some() {
        queue.events().note_commands();
    }
    turn.wish.note(queue.events().actions(), commands.is_some());
    // Ends: a round repeats only after a wait, or because another thread has changed the state.
    loop {
        let mut tables = process.tables();
        if let Some(commands) = &mut commands {
            // Records cannot hang a core, so only commands wait.
            if !process.resets.has_waited() {
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
                let job = if place.loads_context() {
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
            Ok(Attempt::Unavailable) => {
                restarts::waited(WaitFor::Place(core.index()), GPU_TIMEOUT, || {
                    ring.wait_for_place(&mut turn)
                })?
            }
            Ok(Attempt::NotLoaded) => {
                turn.leave();
                if let Some(commands) = &mut commands {
                    commands.load()?;
                }
            }
        }
    }
}

/// The copied commands of a job, and their context.
pub(super) struct Work<'a> {
    pub(super) words: &'a mut KVVec<u32>,
    /// The pipe that the client asks for, and the pipe in which they begin.
    pub(super) entry: [Pipe; 2],
    /// The pipe that they leave selected, according to the client (`exitPipe`).
    pub(super) claimed: Option<Pipe>,
    /// A context in the client's memory.
    pub(super) own: Option<&'a mut OwnContext>,
    /// An attached context: one of ATTACH.
    pub(super) hold: Option<Hold>,
    /// User address of the delta that updates the attached context. 0: none.
    pub(super) delta: u64,
    pub(super) format: Format,
}

/// Checks commands. Submits them with their context and the records that `fill` puts into `queue`.
/// Also returns whether the context was switched. Errors: as [`commit`](super::commit::commit).
#[inline(always)]
pub(super) fn submit_words<'a>(
    process: &'a Arc<Process>,
    core: &Core,
    work: Work<'_>,
    queue: &mut Queue<'a>,
    fill: impl FnOnce(&mut Queue<'a>) -> Result,
) -> Result<(Submitted, bool)> {
    let Work {
        words,
        entry: [asked, entry],
        claimed,
        own,
        mut hold,
        delta,
        format,
    } = work;
    let (stale, data, lent, of_context);
    let (exit, version, epoch) = {
        let mut tables = process.tables();
        // If this fails, no loads are noted: nothing is lent, and a FREE resets all addresses.
        let on_core = &mut tables.per_core[core.index()];
        let _ = on_core.loaded.prepare();
        data = on_core.data(core.scrub())?;
        let on_core = &tables.per_core[core.index()];
        let loaded = &on_core.loaded;
        let may_be_stale = loaded.may_be_stale(tables.addresses.removals());
        stale = if may_be_stale && process.device.parameters.check_addresses {
            check::find_stale(process, core, &tables, own.is_some(), hold.as_mut())?
        } else {
            None
        };
        loaded.begin(on_core.origin(hold.as_ref()));
        let commands = (&mut words[..], [asked, entry], 0);
        let exit = check::check(process, core, &tables, commands)
            .inspect_err(|_| on_core.restore_data(core.scrub()))?;
        lent = loaded.lent();
        of_context = loaded.in_context(lent);
        check::lint(core, &tables, words);
        if lent != 0 {
            check::complete(words, entry, core.engine().caches(), loaded)?;
        }
        (exit, tables.addresses.version(), loaded.epoch())
    };
    fill(queue)?;
    let mut work = Submission {
        process,
        core,
        words,
        entry,
        claimed,
        exit,
        version,
        own,
        hold,
        load: None,
        delta,
        format,
        merged: Merged::default(),
        switched: None,
        stale,
        data,
        epoch,
        is_context_new: false,
        lent,
        of_context,
        left: Cell::new(None),
    };
    // The context has the values of some lent states. Prepare it before these are checked.
    if of_context != 0 {
        work.load()?;
    }
    let submitted = submit(process, core, Some(&mut work), queue)?;
    work.finish();
    Ok((submitted, work.switched.is_some()))
}

/// EVENT_COMMIT: runs the records after all jobs in the ring.
pub(super) fn event_commit(
    process: &Arc<Process>,
    core: &Core,
    queue: u64,
    format: Format,
) -> Result<Reply<'static>> {
    let first = queue;
    let mut queue = Queue::empty(process, core.engine().empty_payload());
    queue.read(first, format)?;
    if queue.is_empty() {
        queue.submitted();
        return Ok(Reply::Nothing);
    }
    let reply = submit(process, core, None, &mut queue)?.into();
    queue.submitted();
    Ok(reply)
}

/// Runs one record after all jobs in the ring.
pub(super) fn queue_record(
    process: &Arc<Process>,
    core: &Core,
    record: Record,
) -> Result<Reply<'static>> {
    let mut queue = Queue::empty(process, core.engine().empty_payload());
    queue.add(record)?;
    let reply = submit(process, core, None, &mut queue)?.into();
    queue.submitted();
    Ok(reply)
}

/// If hangs were charged to the process, waits before its commands.
#[inline]
pub(super) fn wait_for_hangs(process: &Process) -> Result {
    process.resets.note_caller();
    let hangs = &process.clients.hangs;
    process.resets.try_out(hangs);
    process.resets.wait_for_hangs(hangs)
}

impl Process {
    /// Notes job `number` as the process's last one on the core at `place`.
    #[inline]
    pub(super) fn note_job(&self, tables: &mut Tables, place: usize, number: u64) {
        tables.jobs[place] = tables.jobs[place].wrapping_add(1);
        self.last_jobs[place].store(number, Relaxed);
    }
}

/// Checked commands on their way into the ring.
pub(super) struct Submission<'a> {
    process: &'a Process,
    core: &'a Core,
    words: &'a mut [u32],
    entry: Pipe,
    /// See [`Work::claimed`].
    claimed: Option<Pipe>,
    exit: Exit,
    /// [`AddressSet::version`] of the process's addresses at the last check.
    version: u64,
    own: Option<&'a mut OwnContext>,
    hold: Option<Hold>,
    /// How to load the attached context. Set when the context is up to date.
    load: Option<Load>,
    /// User address of the delta of the COMMIT. 0: none.
    delta: u64,
    format: Format,
    /// The deltas that have updated the context.
    merged: Merged,
    /// Number of the job that loads the context.
    switched: Option<u64>,
    /// By pipe, states that hold addresses of freed memory, and words that overwrite them. Usually
    /// `None`, so it is boxed.
    stale: Option<KBox<[Stale; PIPES]>>,
    /// The data that the process has loaded into the 2D pipe before.
    data: Option<Arc<OwnData>>,
    /// [`Loaded::epoch`](crate::stream::loaded::Loaded::epoch) at the last check.
    epoch: u64,
    /// The context was prepared after the last check of the commands.
    is_context_new: bool,
    /// The lent states, which [`check::complete`] has prepended to the commands.
    lent: Mask,
    /// The lent states that the context loads.
    of_context: Mask,
    /// The context of the process's previous commands. It must be dropped without locks.
    left: Cell<Option<Arc<AttachedContext>>>,
}

impl Submission<'_> {
    /// Called when the commands are in the ring. Finishes the submission.
    fn finish(&mut self) {
        if let Some(own) = &self.own {
            own.write_back();
            if own.keeps_nothing() {
                self.keep();
            }
        }
        let buffers = self.hold.as_mut().and_then(Hold::buffers);
        if let (Some(number), Some(buffers)) = (self.switched, buffers) {
            client_context::switched(buffers, number, &self.merged, self.delta, self.format);
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

    /// The author of the commands, and the lists of words that make the GPU forget addresses. `None`:
    /// addresses are not checked.
    #[inline(always)]
    fn author(&self) -> Option<(Author, Lists<'_>)> {
        if !self.process.device.parameters.check_addresses {
            return None;
        }
        let author = Author {
            process: self.process.number,
            epoch: self.epoch,
        };
        let lists = Lists {
            scrub: self.core.scrub(),
            stale: match self.stale.as_deref() {
                Some([first, second]) => [&first.words, &second.words],
                None => [&[]; PIPES],
            },
            data: self.data.as_ref(),
        };
        Some((author, lists))
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
            // The context loads first. Its loads may be noted after the commands' loads, or never.
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
            let commands = (
                &mut self.words[..],
                [self.entry; 2],
                check::lent_words(self.lent),
            );
            self.exit = check::check(self.process, self.core, tables, commands)?;
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
        let room = check::lent_words(self.lent);
        if let Some(words) = self.words.get_mut(..room) {
            let caches = self.core.engine().caches();
            check::write_lent(words, self.lent, self.entry, caches, value_of);
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
        let own = &mut tables.per_core[self.core.index()];
        let left = self.exit.pipe;
        let claimed = self.claimed.filter(|&claimed| claimed != left);
        own.left = claimed.map(|claimed| (claimed, left));
        if let Some(context) = self.hold.as_ref().map(Hold::context) {
            let last = own.last_context.as_ref();
            if !last.is_some_and(|last| Arc::ptr_eq(last, context)) {
                // The GPU still holds states that the last context has loaded and that this context
                // does not keep.
                if last.is_some_and(|last| !last.keeps_as(context)) {
                    own.loaded.mark_unsure();
                }
                // The lock is held, so the last reference must not be dropped here.
                self.left.set(own.last_context.replace(context.clone()));
            }
        }
        let loaded = &own.loaded;
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
    fn load(&mut self) -> Result {
        if let Some(own) = &mut self.own {
            own.load(self.process, self.core)?;
            self.is_context_new = true;
            return Ok(());
        }
        if let Some(buffers) = self.hold.as_mut().and_then(Hold::buffers) {
            waits::progressing(self.process, self.core.engine(), buffers.last_use())?;
            self.merged = client_context::merge(buffers, self.delta, self.format);
            self.load = Some(buffers.load());
            self.is_context_new = true;
        }
        Ok(())
    }

    /// Called when a place is reserved for a job that loads a context. Other submitters wait until
    /// it is filled.
    fn begun(&mut self, place: &Reservation<'_, Events>) {
        if let (true, Some(own)) = (place.loads_client_states(), &mut self.own) {
            own.loaded();
        }
        let buffers = self.hold.as_mut().and_then(Hold::buffers);
        if let (Some(link), Some(buffers)) = (place.return_link(), buffers) {
            buffers.set_link(link);
            self.switched = Some(place.number());
        }
    }
}
