// SPDX-License-Identifier: GPL-2.0-only

//! COMMIT: a client's command buffer goes to the GPU.
//!
//! The buffer's description is user memory and so are the commands: both are copied, checked
//! against the kernel's own record of the buffer and by the stream checker, and run from the copy.
//! Source: sources.md, COMMIT. The file is long as a COMMIT's way is: its steps
//! share [`Submission`], and the parts that stand alone (deltas, contexts, queue) have files.

use super::{
    client_context::OwnContext,
    deltas::{
        self,
        Merged, //
    },
    queue::Queue,
    restarts::Limited,
    submit::Submitted,
    tables::{
        PerCore,
        Tables, //
    },
    Core,
    Events,
    Process,
    TablesGuard, //
};
use crate::{
    abi::{
        self,
        CommandBuffer,
        Commands,
        Commit,
        CoreSelector,
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
    error::{
        Error,
        Result, //
    },
    limits::{
        MAX_LOCATIONS,
        MAX_SUB_COMMITS, //
    },
    log::{
        self,
        debug_client,
        warn_client,
        RateLimit, //
    },
    modes::Zone,
    ring::{
        Checked,
        InContext,
        Reservation,
        Source,
        Stream,
        MAX_STREAM_WORDS,
        MAX_WORDS_BEHIND_STATES, //
    },
    stream::{
        bounds,
        checker::{
            self,
            Exit,
            Refusal, //
        },
        doubts,
        loaded::Loaded,
        lookup::{
            Addresses,
            Lookup, //
        },
        states,
        words::{
            select_idle_pipe,
            select_pipe,
            state::DE_SRC_ADDRESS,
            Caches,
            Pipe,
            SELECT_PIPE_WORDS, //
        }, //
    },
    sys::{
        self,
        user::{
            append_words,
            UserWords, //
        }, //
    }, //
};
use core::cell::Cell;
use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

/// Refused streams, of whatever process.
static REFUSALS: RateLimit = RateLimit::new();

/// Failed submissions, of whatever process.
static FAILURES: RateLimit = RateLimit::new();

/// Submissions that are wrong in themselves, of whatever process.
static MISTAKES: RateLimit = RateLimit::new();

/// Tells the log what is wrong with what a process submits; the value is the error.
macro_rules! mistake {
    (in queue, $error:expr, $text:tt $(, $value:expr)* $(,)?) => {{
        $crate::client::commit::tell_mistake("queue", kernel::prelude::fmt!($text $(, core::convert::identity($value))*));
        $error
    }};
    ($error:expr, $text:tt $(, $value:expr)* $(,)?) => {{
        // Copies: a value whose address is taken stays in memory on the way of those that are
        // right.
        $crate::client::commit::tell_mistake("COMMIT", kernel::prelude::fmt!($text $(, core::convert::identity($value))*));
        $error
    }};
}
pub(super) use mistake;

/// See [`mistake`].
#[cold]
#[inline(never)]
pub(super) fn tell_mistake(of: &str, what: fmt::Arguments<'_>) {
    warn_client!(MISTAKES, "{}: {}", of, what);
}

/// How far a COMMIT of several parts has come.
struct Parts {
    /// What tells it from others of its thread.
    what: Limited,
    /// How many parts have been submitted.
    done: u32,
    /// One of them has switched contexts.
    was_switched: bool,
}

impl Parts {
    /// That which begins with `first`: from its start, or from where it was interrupted.
    fn resume(process: &Process, first: &Commit) -> Self {
        let commands = match first.commands {
            Commands::Described(user) => user,
            Commands::Here(buffer, _) => buffer.logical,
        };
        let others = match first.next {
            0 => first.queue,
            next => next,
        };
        let what = Limited::Part(commands, others);
        let (done, was_switched) = process.parts_done(what);
        Self {
            what,
            done,
            was_switched,
        }
    }
}

/// Commands start and end on 64-bit units.
const ALIGNMENT: u32 = 8;

/// Words that a process keeps room for between COMMITs, at most.
const SPARE_WORDS: usize = 8192;

impl Process {
    /// Runs a COMMIT of parts that each name their core, one after the other: on error those before
    /// have been submitted. `InvalidArgument`: no such core, or too many parts. Else as
    /// [`Process::commit`].
    pub(super) fn commit_parts(
        self: &Arc<Self>,
        selector: CoreSelector,
        first: Commit,
    ) -> Result<Reply<'_>> {
        let mut part = first;
        let mut parts = Parts::resume(self, &first);
        // CAST: a few.
        for number in 0..MAX_SUB_COMMITS as u32 {
            let index = part.core.unwrap_or_default();
            let core = self.device.core_of_part(selector, index);
            let core = core.map_err(|error| no_core(error, "coreId", index, selector))?;
            if number >= parts.done || part.next == 0 {
                let reply = self.commit_part(&core, &part, &mut parts)?;
                if part.next == 0 {
                    return Ok(reply);
                }
            }
            let unreadable = || {
                mistake!(
                    Error::OutOfResources,
                    "no subCommit can be read at {:#x}",
                    part.next
                )
            };
            let at = usize::try_from(part.next).map_err(|_| unreadable())?;
            let mut room = UserWords::<{ abi::MAX_SUB_COMMIT_BYTES / 4 }>::new();
            let words = room
                .read(at, part.format.sub_commit_bytes())
                .map_err(|_| unreadable())?;
            part = part.format.decode_commit(words);
        }
        Err(mistake!(
            Error::InvalidArgument,
            "more than {MAX_SUB_COMMITS} subCommits"
        ))
    }

    /// Runs a COMMIT whose arrays have a part for each of the first `count` cores of a kind:
    /// `first`, and what `part` says. A core that is not there ends it before any part runs; any
    /// other error ends it after the parts that have run. Errors as [`Process::commit`].
    pub(super) fn commit_all(
        self: &Arc<Self>,
        selector: CoreSelector,
        first: Commit,
        count: u32,
        part: impl Fn(u32) -> Commit,
    ) -> Result<Reply<'_>> {
        let core = |index| {
            let core = self.device.core(selector.with_index(index));
            core.map_err(|error| no_core(error, "the core of a part", index, selector))
        };
        for index in 1..count {
            core(index)?;
        }
        let mut parts = Parts::resume(self, &first);
        let last = count.max(1) - 1;
        for index in parts.done.min(last)..last {
            let part = if index == 0 { first } else { part(index) };
            self.commit_part(&*core(index)?, &part, &mut parts)?;
        }
        let part = if last == 0 { first } else { part(last) };
        // The last one's answer is the COMMIT's.
        parts.was_switched = false;
        self.commit_part(&*core(last)?, &part, &mut parts)
    }

    /// Runs the next of several parts. Those before have been submitted: if a Unix signal interrupts
    /// this one, the restarted call goes on with it.
    fn commit_part(
        self: &Arc<Self>,
        core: &Core,
        part: &Commit,
        parts: &mut Parts,
    ) -> Result<Reply<'_>> {
        let outcome = self.commit(core, part);
        if matches!(outcome, Err(Error::Interrupted)) && parts.done > 0 {
            self.keep_parts(parts.what, parts.done, parts.was_switched)?;
        }
        let mut reply = outcome?;
        parts.done += 1;
        if let Reply::Committed { switched, .. } = &mut reply {
            // The last answer has that of any part.
            parts.was_switched |= *switched;
            *switched = parts.was_switched;
        }
        Ok(reply)
    }

    /// Runs a COMMIT.
    ///
    /// On error nothing of it has any effect. `InvalidArgument`: no buffer, bad geometry, unknown
    /// pipe. `OutOfResources`: the description cannot be read. `InvalidObject`: it is
    /// none. `InvalidAddress`: the commands lie in no buffer of the caller. `InvalidData`: the
    /// checker refuses them. `GpuNotResponding`: its commands have hung cores too often. Else what
    /// the context's states, the queue or the ring say.
    pub(super) fn commit(self: &Arc<Self>, core: &Core, commit: &Commit) -> Result<Reply<'_>> {
        self.pay()?;
        self.look_for_framebuffers();
        let (format, mut room) = (commit.format, Description::new());
        let mut buffer = match commit.commands {
            Commands::Described(user) => {
                format.decode_command_buffer(read_description(user, format, &mut room)?)
            }
            Commands::Here(buffer, _) => buffer,
        };
        let mut own = None;
        if commit.format.context_bytes() != 0 {
            let own = own.insert(OwnContext::of(commit, self)?);
            buffer.entry_pipe = own.entry_pipe();
            if self.device.has_engines_apart() {
                own.suit(core);
            }
        }
        let entry = entry_pipe(core, "entryPipe", buffer.entry_pipe)?;
        let mut words = KVVec::new();
        let tables = self.tables();
        // An unknown context is none, as to the C drivers. A core without 3D looks at none.
        let context = match u32::try_from(commit.context) {
            Ok(handle @ 1..) if core.engines().pipe_3d => tables.contexts.get(handle).cloned(),
            _ => None,
        };
        if context.is_none() && own.is_none() && commit.context != 0 && core.engines().pipe_3d {
            no_context(commit.context);
        }
        self.copy_commands(tables, &mut words, &buffer, commit)?;
        let context = match context {
            // One of a core without states.
            Some(None) => {
                return Err(mistake!(
                    Error::InvalidArgument,
                    "context {:#x} is of a core without 3D",
                    commit.context
                ))
            }
            // Its states would be wrong here.
            Some(Some(context)) if context.core() != core.index() => {
                return Err(mistake!(
                    Error::InvalidArgument,
                    "context {:#x} is of another core",
                    commit.context
                ));
            }
            context => context.flatten(),
        };
        let hold = context.map(|context| context.hold()).transpose()?;
        let mut queue = Queue::empty(self, core.ring().empty_payload());
        let fill = |queue: &mut Queue<'_>| queue.read(commit.queue, format);
        let (submitted, switched) = self.submit_words(
            core,
            (&mut words, entry),
            (own.as_mut(), hold),
            (commit.delta, format),
            &mut queue,
            fill,
        )?;
        let reply = Reply::Committed {
            counted: submitted.counted,
            stamp: submitted.job,
            switched,
        };
        queue.submitted();
        self.keep_room(words);
        Ok(reply)
    }

    /// Checks the copied commands `words`, and submits them with their context, of either kind, which
    /// the delta at user address `delta` brings up to date, and the records that `fill` has put into
    /// `queue`. Returns whether the context was switched, too. Errors as
    /// [`Process::commit`].
    #[inline(always)]
    pub(super) fn submit_words<'a>(
        self: &'a Arc<Self>,
        core: &Core,
        (words, entry): (&mut KVVec<u32>, Pipe),
        (own, mut hold): (Option<&mut OwnContext>, Option<Hold>),
        (delta, format): (u64, Format),
        queue: &mut Queue<'a>,
        fill: impl FnOnce(&mut Queue<'a>) -> Result,
    ) -> Result<(Submitted, bool)> {
        let (stale, data, lent, of_context);
        let (exit, removals, wipes) = {
            let mut tables = self.tables();
            // Without room for it a FREE costs the client more; nothing else does.
            let _ = tables.per_core[core.index()].loaded.prepare();
            data = tables.per_core[core.index()].data(core.scrub());
            let loaded = &tables.per_core[core.index()].loaded;
            let may_be_stale = loaded.may_be_stale(tables.addresses.removals());
            stale = match may_be_stale && self.device.parameters().check_addresses {
                true => self.find_stale(core, &tables, own.is_some(), hold.as_mut())?,
                false => None,
            };
            loaded.begin(tables.per_core[core.index()].origin(hold.as_ref()));
            let exit = self.check(core, &tables, words, entry)?;
            lent = loaded.lent();
            of_context = loaded.in_context(lent);
            if lent != 0 {
                complete(words, entry, core.ring().caches(), loaded)?;
            }
            self.doubt(core, &tables, words);
            let (removals, wipes) = (tables.addresses.removals(), loaded.wipes());
            (exit, removals, wipes)
        };
        fill(queue)?;
        let mut work = Submission {
            process: self,
            core,
            words,
            entry,
            exit,
            removals,
            own,
            hold,
            load: None,
            delta,
            format,
            merged: Merged::default(),
            switched: None,
            stale,
            data,
            wipes,
            is_context_new: false,
            lent,
            of_context,
            left: Cell::new(None),
        };
        // Their draws are judged once it is known what that loads.
        if of_context != 0 {
            work.load()?;
        }
        let submitted = self.submit(core, Some(&mut work), queue)?;
        work.finish();
        Ok((submitted, work.switched.is_some()))
    }

    /// Copies the commands of `buffer`, which is that of `commit`, and of the chain of
    /// `gcsHAL_COMMAND_LOCATION` after it, to `words`. Unlocks the tables. Errors as
    /// [`Process::commit`]; also `InvalidArgument`: too long a chain.
    #[inline(always)]
    pub(super) fn copy_commands(
        &self,
        tables: TablesGuard<'_>,
        words: &mut KVVec<u32>,
        buffer: &CommandBuffer,
        commit: &Commit,
    ) -> Result {
        let limit = match commit.format.context_bytes() {
            0 => MAX_STREAM_WORDS,
            // Whether its states come in front or not.
            _ => MAX_WORDS_BEHIND_STATES,
        };
        self.append_commands(tables, words, buffer, limit)?;
        match commit.commands {
            Commands::Described(_) | Commands::Here(_, 0) => Ok(()),
            Commands::Here(_, next) => self.copy_chain(words, next, commit.format, limit),
        }
    }

    /// Appends the commands of the chain at user address `next` to `words`, `limit` words at most.
    /// Chains are rare.
    #[cold]
    #[inline(never)]
    fn copy_chain(
        &self,
        words: &mut KVVec<u32>,
        mut next: u64,
        format: Format,
        limit: usize,
    ) -> Result {
        for _ in 0..MAX_LOCATIONS {
            if next == 0 {
                return Ok(());
            }
            if sys::is_killed() {
                return Err(Error::Interrupted);
            }
            let unreadable = || {
                mistake!(
                    Error::OutOfResources,
                    "no command location can be read at {:#x}",
                    next
                )
            };
            let at = usize::try_from(next).map_err(|_| unreadable())?;
            let mut room = UserWords::<{ abi::MAX_LOCATION_BYTES / 4 }>::new();
            let location = room
                .read(at, format.location_bytes())
                .map_err(|_| unreadable())?;
            let (buffer, following) = format.decode_location(location);
            self.append_commands(self.tables(), words, &buffer, limit)?;
            next = following;
        }
        Err(mistake!(
            Error::InvalidArgument,
            "more than {MAX_LOCATIONS} command locations"
        ))
    }

    /// Appends the commands between the reserved head and tail to `words`, which has `limit` words at
    /// most then. Without room it gets the spare memory. Unlocks the tables.
    #[inline(always)]
    fn append_commands(
        &self,
        mut tables: TablesGuard<'_>,
        words: &mut KVVec<u32>,
        buffer: &CommandBuffer,
        limit: usize,
    ) -> Result {
        let (start, end) = command_range(buffer)?;
        let logical = usize::try_from(buffer.logical).map_err(|_| not_ours(buffer))?;
        let pool = self.device.memory().pool_address();
        let room = tables
            .bytes_from(logical, pool)
            .ok_or_else(|| not_ours(buffer))?;
        if words.capacity() == 0 {
            if let Some(spare) = tables.words.take() {
                // It holds nothing, and dropped it would ask the allocator.
                core::mem::forget(core::mem::replace(words, spare));
                words.clear();
            }
        }
        drop(tables);
        // CAST: 32 bits into at least 32.
        if (end + u64::from(buffer.reserved_tail)) > room as u64 {
            return Err(mistake!(
                Error::InvalidArgument,
                "the commands end at {:#x}, and {:#x} bytes for the driver after them are not in the {:#x} bytes from {:#x} on", end, buffer.reserved_tail, room, logical));
        }
        // Both are below `room` now, so they fit.
        let count = (end - start) as usize / 4;
        let from = logical
            .checked_add(start as usize)
            .ok_or_else(|| not_ours(buffer))?;
        if count > limit - words.len().min(limit) {
            return Err(mistake!(
                Error::InvalidArgument,
                "more than {:#x} words of commands",
                limit
            ));
        }
        append_words(words, from, count).map_err(|error| match error {
            EFAULT => mistake!(
                Error::InvalidAddress,
                "the commands at {:#x} cannot be read: nothing is mapped there any more",
                from
            ),
            error => error.into(),
        })
    }

    /// Keeps the memory of copied commands for the next COMMIT, unless it is much.
    pub(super) fn keep_room(&self, words: KVVec<u32>) {
        if words.capacity() <= SPARE_WORDS {
            // Those of another thread's, if there are any, go instead.
            let other = self.tables().words.replace(words);
            drop(other);
        }
    }

    /// Checks the copied commands; returns the state that they leave the core in.
    #[inline(always)]
    fn check(&self, core: &Core, tables: &Tables, words: &mut [u32], entry: Pipe) -> Result<Exit> {
        let addresses = self.addresses(core, tables);
        let loaded = &tables.per_core[core.index()].loaded;
        let checked = match self.device.parameters().mend_addresses {
            true => checker::check_states(words, core.states(), entry, addresses, Some(loaded)),
            false => checker::check(words, core.states(), entry, addresses, Some(loaded)),
        };
        checked.map_err(|refusal| self.refuse("command buffer", refusal, tables))
    }

    /// Tells the log what looks like a mistake in checked commands, while that is wanted.
    #[inline(never)]
    fn doubt(&self, core: &Core, tables: &Tables, words: &[u32]) {
        if !log::debugs(Zone::Command) {
            return;
        }
        let source = tables.per_core[core.index()].loaded.value(DE_SRC_ADDRESS);
        // That is what 0 has become.
        let has_source = source.is_some_and(|it| it != core.scratch().in_pipe(Pipe::Pipe2d));
        let resolve_target = core.states().resolve_target();
        if let Some(doubt) = doubts::first(words, resolve_target, has_source) {
            debug_client!(in Command, "COMMIT: {}", doubt);
        }
    }

    /// Tells the log of a refused stream.
    #[cold]
    #[inline(never)]
    fn refuse(&self, what: &str, refusal: Refusal, tables: &Tables) -> Error {
        // What is mapped now may not have been found.
        self.forget_mappings();
        let hint = tables.hint(&refusal);
        warn_client!(REFUSALS, "{} refused: {}{}", what, refusal, hint);
        Error::InvalidData
    }

    /// Checks the copied states of a context, where addresses that are not the process's become the
    /// scratch memory's; returns the state that they leave the core in.
    pub(super) fn check_states(
        &self,
        core: &Core,
        tables: &Tables,
        words: &mut [u32],
        entry: Pipe,
    ) -> Result<Exit> {
        let addresses = self.addresses(core, tables);
        let loaded = &tables.per_core[core.index()].loaded;
        checker::check_states(words, core.states(), entry, addresses, Some(loaded))
            .map_err(|refusal| self.refuse("context", refusal, tables))
    }
}

/// Has checked commands begin with loads of what they were lent: they draw before they have loaded
/// all that says how far. The ring drains both pipes before.
#[cold]
#[inline(never)]
fn complete(words: &mut KVVec<u32>, entry: Pipe, caches: &Caches, loaded: &Loaded) -> Result {
    let lent = loaded.lent();
    let room = lent_words(lent);
    let count = words.len();
    words.resize(count + room, 0, sys::GFP_CLIENT)?;
    words.copy_within(..count, room);
    let value_of = |place, _| loaded.lent_value(place);
    write_lent(&mut words[..room], lent, entry, caches, value_of);
    Ok(())
}

/// A bit for each of [`bounds::STATES`] of a pipe.
const LENT_OF_PIPES: [(Pipe, u32); 2] = [
    (Pipe::Pipe2d, !bounds::OF_3D),
    (Pipe::Pipe3d, bounds::OF_3D),
];

/// The words of [`write_lent`].
fn lent_words(lent: u32) -> usize {
    let pipes = LENT_OF_PIPES
        .iter()
        .filter(|(_, states)| lent & states != 0);
    // CAST: two, and as many as there are states.
    let (pipes, states) = (pipes.count(), lent.count_ones() as usize);
    2 * states + 2 + pipes * SELECT_PIPE_WORDS
}

/// Writes loads of the states `lent`, a bit for each of [`bounds::STATES`], which end in pipe `last`.
/// `value_of` gives the value of each by its place and what was there.
fn write_lent(
    to: &mut [u32],
    lent: u32,
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
        match core::mem::take(&mut is_first) {
            true => put(&select_idle_pipe(pipe), &mut pairs),
            false => put(&select_pipe(caches, pipe), &mut pairs),
        }
        for place in (0..bounds::STATES.len()).filter(|place| lent & states & 1 << place != 0) {
            if let Some(to) = pairs.next() {
                to.copy_from_slice(&bounds::load_of(place, value_of(place, to[1])));
            }
        }
    }
    put(&select_pipe(caches, last), &mut pairs);
}

/// Tells the log of a part for a core that there never was.
#[cold]
#[inline(never)]
fn no_core(error: Error, what: &str, index: u32, selector: CoreSelector) -> Error {
    match error {
        Error::InvalidArgument => mistake!(
            error,
            "{} is {:#x} and hardwareType {:#x}: there is no such core",
            what,
            index,
            selector.numbers().0
        ),
        error => error,
    }
}

/// Tells the log of a context that is none.
#[cold]
#[inline(never)]
fn no_context(context: u64) {
    debug_client!(in Command, "COMMIT: the process has no context {:#x}: the commands run without one", context);
}

/// Tells the log of commands that lie in no memory of the process's.
#[cold]
#[inline(never)]
fn not_ours(buffer: &CommandBuffer) -> Error {
    mistake!(
        Error::InvalidAddress,
        "the commands at logical {:#x} are in no memory of this driver's that the process has locked and mapped", buffer.logical)
}

impl Process {
    /// Which GPU addresses its commands may name.
    fn addresses<'a>(&'a self, core: &Core, tables: &'a Tables) -> Addresses<'a> {
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

/// Checked commands on their way into the ring.
pub(super) struct Submission<'a> {
    process: &'a Process,
    core: &'a Core,
    words: &'a mut [u32],
    entry: Pipe,
    exit: Exit,
    /// How many ranges had left the process's addresses at the last check.
    removals: u64,
    /// The context, if it is in the client's memory.
    own: Option<&'a mut OwnContext>,
    /// The context, if it is one of ATTACH.
    hold: Option<Hold>,
    /// How to load it, once it is up to date.
    load: Option<Load>,
    /// User address of the delta that came with them; 0: none.
    delta: u64,
    /// How to read deltas.
    format: Format,
    /// The deltas that brought the context up to date.
    merged: Merged,
    /// The job that loads it.
    switched: Option<u64>,
    /// By pipe, states with freed memory, and the words that make the GPU forget it; `None`: there
    /// are none, as most often: boxed, so that the others carry little.
    stale: Option<KBox<[Stale; PIPES]>>,
    /// What the process has loaded of the 2D pipe's data before.
    data: Option<Arc<OwnData>>,
    /// How often the GPU had to forget all of the process's addresses, at the last check.
    wipes: u64,
    /// The context must be loaded before the commands, which were checked without it.
    is_context_new: bool,
    /// Which states they were lent: they begin with those of [`complete`].
    lent: u32,
    /// Of these, those that the context loads.
    of_context: u32,
    /// The context of the process's previous commands, which is dropped outside of the locks.
    left: Cell<Option<Arc<AttachedContext>>>,
}

/// States of one pipe that hold memory which the process has freed.
#[derive(Default)]
struct Stale {
    states: KVVec<u32>,
    /// What they hold.
    held: KVVec<u32>,
    words: KVVec<u32>,
}

impl Submission<'_> {
    /// Does what is left when the commands are in the ring.
    fn finish(&mut self) {
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

    /// The commands had a context that keeps nothing: notes what they load. Without memory it is as
    /// if they loaded nothing. Threads that share such a context have it in no order anyway.
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
        kept.follow(loaded.wipes());
        let stale = self.stale.iter().flat_map(|all| all.iter());
        stale.for_each(|stale| kept.forget(&stale.states));
        kept.note(self.words, self.core.state_map(false), sets);
    }
}

impl Submission<'_> {
    /// Whose addresses the commands name; `None`: addresses are not checked.
    fn author(&self) -> Option<(Author, &Scrub)> {
        if !self.process.device.parameters().check_addresses {
            return None;
        }
        let author = Author {
            process: self.process.number,
            wipes: self.wipes,
        };
        Some((author, self.core.scrub()))
    }
}

impl Process {
    /// Finds what the GPU must forget of what the process has freed since its last commands, before
    /// those that come now are noted. `own`: they come with a context in the client's memory;
    /// `hold`: with an attached one.
    fn find_stale(
        &self,
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
        let addresses = self.addresses(core, tables);
        let is_unsure = match hold.and_then(Hold::buffers) {
            Some(buffers) if !own => buffers.has_strays(Lookup::new(addresses)),
            // What the context of earlier commands has loaded may be there still: also that of
            // another file of the process, which speaks of contexts in another way.
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
        // Before the commands are noted, which may load the same states again. If nothing comes of
        // them, that leaves doubt. Nothing may fail from here on.
        for stale in all.iter() {
            loaded.forget(&stale.states);
        }
        Ok(Some(all))
    }
}

impl Submission<'_> {
    /// Looks at what may have changed since it was looked at last. Called under the tables' lock
    /// before each try to get a place in the ring.
    pub(super) fn check(&mut self, tables: &Tables) -> Result {
        let removals = tables.addresses.removals();
        // Another thread may have unlocked or freed what the commands name.
        let is_removed = removals != self.removals;
        if is_removed {
            // What the GPU has of it is not known: the commands are noted already.
            let loaded = &tables.per_core[self.core.index()].loaded;
            loaded.forget_all();
            if self.own.is_some() {
                // The context's states were noted later than the commands, and may count as checked.
                loaded.doubt();
            }
            self.wipes = loaded.wipes();
            self.stale = None;
        }
        let is_context_new = core::mem::take(&mut self.is_context_new);
        if self.load.is_some() {
            self.check_context(tables);
        }
        let lends_again = is_context_new && self.lent != 0;
        if is_removed || lends_again || is_context_new && self.own.is_some() {
            let loaded = &tables.per_core[self.core.index()].loaded;
            // What they begin with is there already.
            loaded.stop_lending();
            if lends_again {
                self.lend_again(loaded);
            }
            self.exit = self
                .process
                .check(self.core, tables, self.words, self.entry)?;
            self.removals = removals;
        }
        match &mut self.own {
            Some(own) => own.check(self.process, self.core, tables),
            None => Ok(()),
        }
    }

    /// Looks at what the attached context loads.
    fn check_context(&mut self, tables: &Tables) {
        if let Some(buffers) = self.hold.as_mut().and_then(Hold::buffers) {
            let lookup = Lookup::new(self.process.addresses(self.core, tables));
            buffers.check_addresses(lookup, tables.addresses.changes());
        }
    }

    /// Lends the commands what the context loads, which comes before them.
    #[cold]
    #[inline(never)]
    fn lend_again(&mut self, loaded: &Loaded) {
        let mut buffers = self.hold.as_mut().and_then(Hold::buffers);
        let of_context = self.of_context;
        let value_of = |place, old| {
            let state = bounds::STATES.get(place).copied().unwrap_or_default();
            match &mut buffers {
                Some(buffers) if of_context & 1u32 << place != 0 => {
                    buffers.value(state).unwrap_or(old)
                }
                // It comes from the process's own commands.
                Some(_) => old,
                None if states::takes_address(state) => loaded.value(state).unwrap_or(old),
                None => loaded.last(place),
            }
        };
        let room = lent_words(self.lent);
        if let Some(words) = self.words.get_mut(..room) {
            let caches = self.core.ring().caches();
            write_lent(words, self.lent, self.entry, caches, value_of);
        }
    }

    /// The commands as the ring has them.
    #[inline(always)]
    pub(super) fn stream(&self) -> Stream<'_> {
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

    /// A place has been taken. The tables' lock is held.
    pub(super) fn placed(&self, tables: &mut Tables) {
        let removals = tables.addresses.removals();
        let PerCore {
            loaded,
            last_context,
            ..
        } = &mut tables.per_core[self.core.index()];
        if let Some(context) = self.hold.as_ref().map(Hold::context) {
            let is_last = |last: &Arc<_>| Arc::ptr_eq(last, context);
            if !last_context.as_ref().is_some_and(is_last) {
                // What it has loaded, and this one does not keep, is there still.
                if last_context
                    .as_ref()
                    .is_some_and(|last| !last.keeps_as(context))
                {
                    loaded.doubt();
                }
                // Its last reference is not to go under the lock.
                self.left.set(last_context.replace(context.clone()));
            }
        }
        loaded.placed(self.load.is_some());
        let mut is_clean = true;
        let stale = self.stale.iter().flat_map(|all| all.iter());
        for (pipe, stale) in [Pipe::Pipe3d, Pipe::Pipe2d].into_iter().zip(stale) {
            match self.exit.uses.has(pipe) {
                true => {}
                false => {
                    loaded.remember(&stale.states, &stale.held);
                    is_clean &= stale.states.is_empty();
                }
            }
        }
        if is_clean {
            loaded.verify(removals);
        }
    }

    /// Makes the commands' context ready to be loaded. May wait; no lock is held.
    pub(super) fn load(&mut self) -> Result {
        if let Some(own) = &mut self.own {
            own.load(self.process, self.core)?;
            self.is_context_new = true;
            return Ok(());
        }
        if let Some(buffers) = self.hold.as_mut().and_then(Hold::buffers) {
            self.process
                .progressing(self.core.ring(), buffers.last_use())?;
            self.merged = deltas::merge(buffers, self.delta, self.format);
            self.load = Some(buffers.load());
            self.is_context_new = true;
        }
        Ok(())
    }

    /// The place has been taken for a job that loads a context. Others wait until it is filled.
    pub(super) fn begun(&mut self, place: &Reservation<'_, Events>) {
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

/// Logs the error if the submission `what` has failed.
pub(super) fn logged<T>(what: &str, result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        // Else it comes again, or is the caller's to hear.
        if error.errno().is_none() {
            warn_client!(FAILURES, "{}: {}", what, error);
        }
    })
}

/// The pipe that commands begin in, as field `name` says. `InvalidArgument`: there is no such number.
pub(super) fn entry_pipe(core: &Core, name: &str, number: u32) -> Result<Pipe> {
    core.engines().entry(number).ok_or_else(|| {
        mistake!(
            Error::InvalidArgument,
            "{} is {:#x}: it is 0 (3D) or 1 (2D)",
            name,
            number
        )
    })
}

/// Room for the description of a command buffer.
pub(super) type Description = UserWords<{ abi::MAX_COMMAND_BUFFER_BYTES / 4 }>;

/// Reads the description of a command buffer to `room`. The caller decodes it from there: the
/// result is large, and moving it costs time.
pub(super) fn read_description(
    user: u64,
    format: Format,
    room: &mut Description,
) -> Result<&[u32]> {
    if user == 0 {
        return Err(mistake!(Error::InvalidArgument, "commandBuffer is 0"));
    }
    let unreadable = || {
        mistake!(
            Error::OutOfResources,
            "commandBuffer {:#x} cannot be read",
            user
        )
    };
    let at = usize::try_from(user).map_err(|_| unreadable())?;
    let words = room
        .read(at, format.command_buffer_bytes())
        .map_err(|_| unreadable())?;
    let object = format.command_buffer_object(words);
    if object == CommandBuffer::OBJECT_TYPE {
        Ok(words)
    } else {
        Err(mistake!(
            Error::InvalidObject,
            "commandBuffer {:#x} has object {:#x}: it is {:#x} (CMDB)",
            user,
            object,
            CommandBuffer::OBJECT_TYPE
        ))
    }
}

/// The bytes of the commands, from the buffer's start: after the head, before the tail.
#[inline(always)]
fn command_range(buffer: &CommandBuffer) -> Result<(u64, u64)> {
    let offset = buffer.offset.map_err(|size| {
        mistake!(
            Error::InvalidArgument,
            "startOffset {:#x} and size {:#x} wrap, or leave no room for reservedTail {:#x}",
            buffer.start_offset,
            size,
            buffer.reserved_tail
        )
    })?;
    let aligned = |value: u32| value % ALIGNMENT == 0;
    if !aligned(buffer.start_offset)
        || !aligned(offset)
        || !aligned(buffer.reserved_head)
        || !aligned(buffer.reserved_tail)
    {
        return Err(mistake!(
            Error::InvalidArgument,
            "from startOffset {:#x} (+ {:#x} for the driver) to {:#x} (+ {:#x}): all are multiples of {ALIGNMENT}", buffer.start_offset, buffer.reserved_head, offset, buffer.reserved_tail));
    }
    let start = u64::from(buffer.start_offset) + u64::from(buffer.reserved_head);
    let end = u64::from(offset);
    if start <= end {
        Ok((start, end))
    } else {
        Err(mistake!(
            Error::InvalidArgument,
            "startOffset {:#x} and {:#x} bytes for the driver are past the end of the commands, {:#x}", buffer.start_offset, buffer.reserved_head, end))
    }
}

#[kunit_tests(galcore_commit)]
mod tests {
    use super::*;

    fn range(start_offset: u32, offset: u32) -> Result<(u64, u64)> {
        command_range(&CommandBuffer {
            object: CommandBuffer::OBJECT_TYPE,
            entry_pipe: 0,
            logical: 0,
            start_offset,
            offset: Ok(offset),
            reserved_head: 32,
            reserved_tail: 8,
        })
    }

    #[test]
    fn the_head_is_not_the_clients() {
        assert_eq!(range(0, 32), Ok((32, 32)));
        assert_eq!(range(8, 80), Ok((40, 80)));
        assert_eq!(range(0, 24), Err(Error::InvalidArgument));
        assert_eq!(range(100, 200), Err(Error::InvalidArgument));
        assert_eq!(range(0, 36), Err(Error::InvalidArgument));
    }

    #[test]
    fn offsets_do_not_wrap() {
        assert_eq!(range(u32::MAX & !7, 32), Err(Error::InvalidArgument));
        assert_eq!(range(0, u32::MAX & !7), Ok((32, 0xFFFF_FFF8)));
    }
}
