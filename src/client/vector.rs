// SPDX-License-Identifier: GPL-2.0-only

//! COMMIT for the vector graphics core.
//!
//! A COMMIT has a context, command buffers and a table of tasks, all in the client's memory. The
//! driver copies each once, up to a bound, checks the copy before anything takes effect, and runs
//! it. It writes back only a context's new name. Source: sources.md, vector graphics.

use super::{
    action::Events,
    check::{
        mistake,
        refuse, //
    },
    framebuffers,
    node::NodeEntry,
    queue::Queue,
    restarts::waited,
    signals,
    submission,
    tables::Tables,
    vector_args::{
        read_context,
        read_table,
        read_tasks,
        read_words,
        write_name,
        DRAWING,
        PIXEL,
        TESSELLATOR, //
    },
    PoolView,
    Process,
    VectorCore, //
};
use crate::{
    abi::{
        vector::{
            self,
            Buffer,
            Commit,
            VectorFormat, //
        },
        Record,
        Reply, //
    },
    limits::MAX_VECTOR_BUFFERS,
    log::{
        warn_client,
        RateLimit, //
    },
    memory::Word,
    prelude::*,
    ring::{
        Payload,
        GPU_TIMEOUT, //
    },
    stream::{
        addresses::{
            Kind,
            Owner, //
        },
        vector::{
            self as stream,
            Access,
            Refusal,
            Values,
            CALL_WORDS, //
        }, //
    },
    sys::{
        trace::WaitFor,
        user::{
            append_words,
            UserWords, //
        }, //
    },
    vector::{
        Attempt,
        Author,
        Entry,
        Submission,
        MAX_WORDS,
        SCRATCH_BYTES, //
    }, //
};

static REFUSALS: RateLimit = RateLimit::new();

/// Alignment of buffers and of their commands.
const BUFFER_ALIGNMENT: u32 = 64;

/// The bits of an address that give its kind. 0: physical.
const TAG: u32 = 3;

const UNIT_WORDS: usize = 2;

/// The pool to use instead of `pool`. It is contiguous if any pool would do: the core has no MMU.
pub(super) fn pool(pool: u32) -> u32 {
    /// `gcvPOOL_DEFAULT`, `_LOCAL` and `_UNIFIED`.
    const ANY: [u32; 3] = [1, 2, 5];
    /// `gcvPOOL_DEFAULT_FORCE_CONTIGUOUS`.
    const CONTIGUOUS: u32 = 10;
    if ANY.contains(&pool) {
        CONTIGUOUS
    } else {
        pool
    }
}

/// The most words that the CALLs of a COMMIT may copy, including dropped ones (from RETURN on).
const MAX_CALLED_WORDS: usize = 2 * MAX_WORDS;

/// A command buffer: the user address of its head, and the number of units to cut off its end.
struct Source {
    format: VectorFormat,
    user: u64,
    cut: usize,
}

/// The commands of the context, then all others.
type Commands = [KVVec<u32>; 2];

/// The state that commands were checked against, and the state in which they leave the core.
struct Checked {
    removals: u64,
    entry: Entry,
    exit: Values,
}

/// The tasks of a COMMIT: for the tessellator's event, for the drawing engine's event, and for the
/// end.
struct Tasks<'a>([Queue<'a>; 3]);

impl<'a> Tasks<'a> {
    #[inline(never)]
    fn resolve(process: &'a Arc<Process>, records: &[(usize, Record)]) -> Result<KBox<Self>> {
        let all = [(); 3].map(|()| Queue::empty(process, Events::default()));
        let mut tasks = KBox::new(Self(all), sys::GFP_CLIENT)?;
        let all = &mut tasks.0;
        for &(block, record) in records {
            let queue = match block {
                TESSELLATOR => &mut all[0],
                DRAWING => &mut all[1],
                _ => &mut all[2],
            };
            queue.add(record)?;
        }
        Ok(tasks)
    }

    fn check(&mut self, tables: &Tables) -> Result {
        self.0.iter_mut().try_for_each(|queue| queue.check(tables))
    }
}

/// Runs a COMMIT on `core`. `view` is the file's mapping of the pool.
///
/// A COMMIT that fails has no effect. `InvalidArgument`: no context, an invalid number of
/// buffers, a buffer outside of the caller's memory, or invalid tasks. `OutOfResources`: its
/// memory cannot be read, or is too long. `InvalidAddress`: a CALL out of the caller's memory.
/// `InvalidData`: the checker refuses the commands. Also the errors of the tasks and the queue.
pub(super) fn commit(
    process: &Arc<Process>,
    core: &VectorCore,
    view: Option<Arc<PoolView>>,
    commit: Commit,
) -> Result<Reply<'static>> {
    let count = u32_as_usize(commit.count);
    if commit.context == 0 || commit.queue == 0 || !(2..=MAX_VECTOR_BUFFERS).contains(&count) {
        refuse!(InvalidArgument:
            "context {:#x}, queue {:#x}, {:#x} buffers: the first two are not 0, of buffers there are 2 to {MAX_VECTOR_BUFFERS}",
            commit.context, commit.queue, commit.count);
    }
    submission::wait_for_hangs(process)?;
    framebuffers::look_for_framebuffers(process);
    let context = read_context(&commit)?;
    let table = read_table(&commit)?;
    // Each of the kernel's events replaces a unit at the end of the commands.
    let events = [TESSELLATOR, DRAWING, PIXEL].map(|block| table.heads[block] != 0);
    let events = events.into_iter().filter(|&has| has).count();
    let mut commands = read_commands(process, &commit, count, events, &view)?;
    let records = read_tasks(&commit, &table)?;
    let mut checked = None;
    // Check the commands before the tasks claim objects.
    check(
        process,
        core,
        &process.tables(),
        context.id,
        &mut commands,
        &mut checked,
    )?;
    let mut tasks = Tasks::resolve(process, &records)?;
    let queue = core.engine();
    let mut turn = queue.turn(Some(&process.account));
    let late = tasks.0[2].events();
    late.note_commands();
    turn.wish.note(late.actions(), true);
    let place = loop {
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        let mut tables = process.tables();
        if !process.resets.has_waited() {
            drop(tables);
            turn.leave();
            submission::wait_for_hangs(process)?;
            continue;
        }
        let checked = check(
            process,
            core,
            &tables,
            context.id,
            &mut commands,
            &mut checked,
        )?;
        tasks.check(&tables)?;
        let is_allowed = |value| bytes_from(process, core, &tables, value).is_some();
        let [first, second, late] = &mut tasks.0;
        let early = [first, second].map(|queue| {
            if queue.is_empty() {
                None
            } else {
                Some(queue.events())
            }
        });
        let mut submission = Submission {
            author: author(process, context.id, checked.removals, &is_allowed),
            entry: &checked.entry,
            exit: &checked.exit,
            words: commands.each_ref().map(|words| words.len()),
            early,
            late: late.events(),
        };
        let attempt = queue.reserve(&mut submission, &mut turn)?;
        match attempt {
            Attempt::Place(place) => {
                process.note_job(&mut tables, core.index(), place.number);
                for queue in &tasks.0 {
                    queue.withdraw(&mut tables);
                }
                break place;
            }
            // Another job has changed the core's state since the check, so check again.
            Attempt::Changed => {}
            Attempt::Unavailable => {
                drop(tables);
                let wait = || queue.wait_for_place(&mut turn);
                waited(WaitFor::Place(core.index()), GPU_TIMEOUT, wait)?;
            }
        }
    };
    let (entered, is_switched) = (place.entry.context, place.entry.is_switched);
    queue.fill(place, commands.each_ref().map(|words| &words[..]));
    tasks.0.iter_mut().for_each(Queue::finish);
    if !is_switched {
        if let Ok(signal) = signals::find(process, context.signal) {
            signal.signal(true);
        }
    }
    if entered != context.id {
        // If this fails, the client does not learn the name. The commands still run.
        let _ = write_name(&commit, entered);
    }
    Ok(Reply::Nothing)
}

/// Appends the commands of a buffer to `words`, at most `room` words. `called` is the number of
/// words that CALLs may still copy.
fn copy_buffer(
    process: &Process,
    Source { format, user, cut }: Source,
    room: usize,
    called: &mut usize,
    view: &Option<Arc<PoolView>>,
    words: &mut KVVec<u32>,
) -> Result {
    let head = usize::try_from(user).map_err(|_| Error::OutOfResources)?;
    let mut space = UserWords::<{ vector::MAX_BUFFER_BYTES / 4 }>::new();
    let copy = space
        .read(head, format.buffer_bytes())
        .map_err(|_| Error::OutOfResources)?;
    let buffer = format.decode_buffer(copy);
    if !process
        .tables()
        .has_buffer(&buffer, format, process.device.base_address)
    {
        refuse!(InvalidArgument:
            "the command buffer with its head at {:#x} is not in memory of this driver that the process has locked",
            user);
    }
    // CAST: both are below the bytes of a node now.
    let (offset, units) = (buffer.offset as usize, buffer.units as usize);
    let units = units.checked_sub(cut).ok_or_else(|| {
        mistake!(InvalidArgument: "the command buffer with its head at {:#x} has no commands", user)
    })?;
    let count = units * UNIT_WORDS;
    if count > room {
        return Err(Error::OutOfResources);
    }
    let at = head.checked_add(offset).ok_or(Error::OutOfResources)?;
    let first = words.len();
    append_words(words, at, count).map_err(|_| Error::OutOfResources)?;
    match stream::next_call(&words[first..], 0).map_err(refused)? {
        None => Ok(()),
        Some(_) => copy_calls(process, words, first, room, called, view),
    }
}

/// Replaces CALLs from word `first` on with the called commands, up to `room` words.
#[cold]
fn copy_calls(
    process: &Process,
    words: &mut KVVec<u32>,
    first: usize,
    room: usize,
    called: &mut usize,
    view: &Option<Arc<PoolView>>,
) -> Result {
    let mut commands = KVVec::new();
    commands.extend_from_slice(&words[first..], sys::GFP_CLIENT)?;
    words.truncate(first);
    let limit = first + room;
    let fits = |words: &KVVec<u32>, more| {
        if more <= limit - words.len() {
            Ok(())
        } else {
            Err(Error::OutOfResources)
        }
    };
    let mut at = 0;
    while let Some(call) = stream::next_call(&commands, at).map_err(refused)? {
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        fits(words, call.at - at)?;
        words.extend_from_slice(&commands[at..call.at], sys::GFP_CLIENT)?;
        fits(words, call.words)?;
        let left = called.checked_sub(call.words);
        *called = left.ok_or(Error::OutOfResources)?;
        let base = process.device.base_address;
        let user = process.tables().called(call, base, view.clone());
        let user = user.ok_or_else(|| {
            mistake!(InvalidAddress:
                "a CALL of {:#x}, which is not in the process's memory", call.address)
        })?;
        let start = words.len();
        append_words(words, user, call.words).map_err(|_| Error::OutOfResources)?;
        let length = stream::called(&words[start..]).map_err(refused)?;
        words.truncate(start + length);
        at = call.at + CALL_WORDS;
    }
    fits(words, commands.len() - at)?;
    Ok(words.extend_from_slice(&commands[at..], sys::GFP_CLIENT)?)
}

/// Reads the commands of a queue of `count` buffers. The kernel's events replace the last
/// `events` units of the last buffer.
#[inline(never)]
fn read_commands(
    process: &Process,
    commit: &Commit,
    count: usize,
    events: usize,
    view: &Option<Arc<PoolView>>,
) -> Result<Commands> {
    let entries = read_words(commit.queue, vector::ENTRY_BYTES / 4 * count)?;
    let mut commands = Commands::default();
    let mut called = MAX_CALLED_WORDS;
    for (index, entry) in entries.chunks_exact(vector::ENTRY_BYTES / 4).enumerate() {
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        let cut = if index + 1 == count { 1 + events } else { 1 };
        let user = commit.format.decode_entry(entry).buffer;
        let room = MAX_WORDS - commands[0].len() - commands[1].len();
        let words = &mut commands[index.min(1)];
        let source = Source {
            format: commit.format,
            user,
            cut,
        };
        copy_buffer(process, source, room, &mut called, view, words)?;
    }
    Ok(commands)
}

/// Checks copied commands, unless they were already checked against the present state.
#[inline(never)]
fn check<'a>(
    process: &Process,
    core: &VectorCore,
    tables: &Tables,
    context: u64,
    commands: &mut Commands,
    checked: &'a mut Option<KBox<Checked>>,
) -> Result<&'a Checked> {
    let bytes_from = |value| bytes_from(process, core, tables, value);
    let is_allowed = |value| bytes_from(value).is_some();
    let removals = tables.addresses.removals();
    let entry = core
        .engine()
        .entry(&author(process, context, removals, &is_allowed));
    let was = checked.take();
    let was = was.filter(|checked| checked.removals == removals && checked.entry == entry);
    if let Some(was) = was {
        return Ok(checked.insert(was));
    }
    let checks = process.device.parameters.check_addresses;
    let access = Access {
        scratch: core.engine().scratch(),
        bytes_from: checks.then_some(&bytes_from as &dyn Fn(u32) -> Option<u64>),
        forgives: true,
    };
    let [own, others] = commands;
    let of_context = stream::check(own, entry.values, &access).map_err(refused)?;
    let found = if entry.is_switched {
        of_context
    } else {
        entry.values
    };
    let access = Access {
        forgives: false,
        ..access
    };
    let exit = stream::check(others, found, &access).map_err(|refusal| {
        // The next COMMIT looks for framebuffers again: the client may have just mapped one.
        framebuffers::forget_mappings(process);
        refused(refusal)
    })?;
    let found = Checked {
        removals,
        entry,
        exit,
    };
    Ok(checked.insert(KBox::new(found, sys::GFP_CLIENT)?))
}

fn author<'a>(
    process: &Process,
    context: u64,
    removals: u64,
    is_allowed: &'a dyn Fn(u32) -> bool,
) -> Author<'a> {
    let checks = process.device.parameters.check_addresses;
    Author {
        process: process.number,
        context,
        removals,
        is_allowed: checks.then_some(is_allowed),
    }
}

/// The number of bytes from physical address `value` to the end of its contiguous memory.
/// `None`: the process may not use this address.
fn bytes_from(process: &Process, core: &VectorCore, tables: &Tables, value: u32) -> Option<u64> {
    if value & TAG != 0 {
        return None;
    }
    if value == core.engine().scratch() {
        return Some(usize_as_u64(SCRATCH_BYTES));
    }
    let base = process.device.base_address;
    if let Some(piece) = tables.physical_bytes(value, base) {
        return Some(usize_as_u64(piece.left));
    }
    let address = value.checked_sub(base)?;
    if let Some(bytes) = tables.framebuffer_bytes(address) {
        return Some(bytes);
    }
    let ranges = &process.device.parameters.allowed_ranges;
    let range = ranges
        .iter()
        .flatten()
        .find(|range| range.contains(address))?;
    Some(u64::from(range.last() - address) + 1)
}

fn refused(refusal: Refusal) -> Error {
    warn_client!(REFUSALS: "vector graphics commands refused: {}", refusal);
    Error::InvalidData
}

/// A contiguous piece of a process's memory.
struct Piece<'a> {
    /// The node. `None`: a contiguous buffer.
    node: Option<(u32, &'a NodeEntry)>,
    /// Bytes before an address in it, and from the address on.
    before: usize,
    left: usize,
}

impl Tables {
    /// The process's memory at physical address `address`. `base` is that of GPU address 0.
    fn physical_bytes(&self, address: u32, base: u32) -> Option<Piece<'_>> {
        let address = address.checked_sub(base)?;
        let Owner { kind, handle } = self.addresses.owner(address)?;
        let (node, start, bytes) = match kind {
            Kind::Node => {
                let entry = self.nodes.get(handle)?;
                entry.node.physical(base)?;
                let (start, bytes) = (entry.node.address(), entry.node.bytes());
                (Some((handle, entry)), start, bytes)
            }
            Kind::Buffer => {
                let buffer = &self.buffers.get(handle)?.buffer;
                (None, buffer.address(), buffer.bytes())
            }
            Kind::UserMemory | Kind::Framebuffer => return None,
        };
        let before = u32_as_usize(address.checked_sub(start)?);
        Some(Piece {
            node,
            before,
            left: bytes.checked_sub(before)?,
        })
    }

    /// Whether a command buffer and the head before it are in a node that the process has locked,
    /// or in one of its contiguous buffers.
    fn has_buffer(&self, buffer: &Buffer, format: VectorFormat, base: u32) -> bool {
        let Some(piece) = self.physical_bytes(buffer.address, base) else {
            return false;
        };
        let is_held = match piece.node {
            Some((handle, entry)) => handle == buffer.node && entry.is_alive() && entry.locks > 0,
            None => true,
        };
        // CAST: 32 bits into at least 32, and at most 64 bits.
        let offset = buffer.offset as usize;
        is_held
            && buffer.address & TAG == 0
            && buffer.offset % BUFFER_ALIGNMENT == 0
            && offset >= format.buffer_bytes()
            && offset <= piece.before
            && u64::from(buffer.units) * 8 <= piece.left as u64
    }

    /// The word at physical address `address`, if it is in contiguous memory of the process.
    pub(super) fn word_at_physical(&self, address: u32, base: u32) -> Option<Word> {
        self.physical_bytes(address, base)?;
        self.word_at(address.checked_sub(base)?)
    }

    /// The user address of the commands that `call` names, if they are in a locked node that the
    /// process has mapped.
    fn called(&self, call: stream::Call, base: u32, view: Option<Arc<PoolView>>) -> Option<usize> {
        if call.address & TAG != 0 {
            return None;
        }
        let piece = self.physical_bytes(call.address, base)?;
        if call.words > piece.left / 4 {
            return None;
        }
        let (_, entry) = piece.node.filter(|(_, entry)| entry.locks > 0)?;
        match entry.node.pool_range() {
            Some((offset, _)) => self.in_pool(view, offset.checked_add(piece.before)?),
            None => entry.user()?.checked_add(piece.before),
        }
    }
}
