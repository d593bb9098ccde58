// SPDX-License-Identifier: GPL-2.0-only

//! COMMIT: submits a client's command buffer to the GPU.
//!
//! The commands are in user memory, and so is the description of their buffer. The driver copies
//! both, checks them against its own record of the buffer and with the stream checker, and runs the
//! copy ([`submission::Submission`]). Source: sources.md, COMMIT.

use super::{
    check::{
        self,
        mistake,
        refuse, //
    },
    client_context::OwnContext,
    framebuffers,
    queue::Queue,
    restarts::{
        self,
        Limited, //
    },
    submission::{
        self,
        Work, //
    },
    Core,
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
    limits::{
        MAX_LOCATIONS,
        MAX_SUB_COMMITS, //
    },
    log::{
        debug_client,
        warn_client,
        RateLimit, //
    },
    prelude::*,
    ring::{
        MAX_STREAM_WORDS,
        MAX_WORDS_AFTER_STATES, //
    },
    stream::words::{
        self,
        Pipe, //
    },
    sys::user::{
        append_words,
        UserWords, //
    }, //
};

static FAILURES: RateLimit = RateLimit::new();

/// The progress of a COMMIT of several parts.
struct Parts {
    /// Identifies the COMMIT among the interrupted calls of its thread.
    what: Limited,
    /// Number of submitted parts.
    done: u32,
    /// A submitted part has switched contexts.
    was_switched: bool,
}

impl Parts {
    /// The progress of the COMMIT that begins with `first`: none, unless a Unix signal has
    /// interrupted it.
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
        let (done, was_switched) = restarts::parts_done(process, what);
        Self {
            what,
            done,
            was_switched,
        }
    }
}

/// Alignment of the offsets and of the reserved sizes, in bytes.
const ALIGNMENT: u32 = 8;

/// The largest memory for commands, in words, that a process keeps between COMMITs.
const SPARE_WORDS: usize = 8192;

/// Runs a COMMIT whose parts each name a core. Submits the parts in order. An error does not
/// undo the parts that are submitted. `InvalidArgument`: no such core, or too many parts. Other
/// errors: as [`commit`].
pub(super) fn commit_parts(
    process: &Arc<Process>,
    selector: CoreSelector,
    first: Commit,
) -> Result<Reply<'_>> {
    let mut part = first;
    let mut parts = Parts::resume(process, &first);
    // CAST: a few.
    for number in 0..MAX_SUB_COMMITS as u32 {
        let index = part.core.unwrap_or_default();
        let core = process.device.core_of_part(selector, index);
        let core = core.map_err(|error| err_no_core(error, "coreId", index, selector))?;
        // The client may have shortened the chain since the interruption. Run its last part again.
        if number >= parts.done || part.next == 0 {
            let mut reply = commit_part(process, &core, &part, &mut parts)?;
            if part.next == 0 {
                if let Reply::Committed { switched, .. } = &mut reply {
                    // The reply says whether any part has switched contexts.
                    *switched = parts.was_switched;
                }
                return Ok(reply);
            }
        }
        let mut buf = UserWords::<{ abi::MAX_SUB_COMMIT_BYTES / 4 }>::new();
        let words = buf
            .read(part.next, part.format.sub_commit_bytes())
            .map_err(|_| mistake!(OutOfResources: "cannot read subCommit at {:#x}", part.next))?;
        part = part.format.decode_commit(words);
    }
    Err(mistake!(InvalidArgument: "more than {MAX_SUB_COMMITS} subCommits"))
}

/// Runs a COMMIT with one part for each of the first `count` cores of a kind. `first` is the
/// first part, and `part` returns the others. If a core is missing, no part runs. Any other
/// error does not undo the parts that are submitted. Errors: as [`commit`].
pub(super) fn commit_all(
    process: &Arc<Process>,
    selector: CoreSelector,
    first: Commit,
    count: u32,
    part: impl Fn(u32) -> Commit,
) -> Result<Reply<'_>> {
    let core = |index| {
        let core = process.device.core(selector.with_index(index));
        core.map_err(|error| err_no_core(error, "the core of a part", index, selector))
    };
    for index in 1..count {
        core(index)?;
    }
    let part = |index| if index == 0 { first } else { part(index) };
    let mut parts = Parts::resume(process, &first);
    let last = count.max(1) - 1;
    for index in parts.done.min(last)..last {
        commit_part(process, &*core(index)?, &part(index), &mut parts)?;
    }
    // The reply reports only the last part's switch.
    commit_part(process, &*core(last)?, &part(last), &mut parts)
}

/// Runs the next of several parts. If a Unix signal interrupts it, the restarted call resumes
/// with this part.
fn commit_part(
    process: &Arc<Process>,
    core: &Core,
    part: &Commit,
    parts: &mut Parts,
) -> Result<Reply<'static>> {
    let outcome = commit(process, core, part);
    if matches!(outcome, Err(Error::Interrupted)) && parts.done > 0 {
        restarts::keep_parts(process, parts.what, parts.done, parts.was_switched)?;
    }
    let reply = outcome?;
    parts.done += 1;
    if let Reply::Committed { switched, .. } = reply {
        parts.was_switched |= switched;
    }
    Ok(reply)
}

/// Runs a COMMIT.
///
/// A COMMIT that fails has no effect, but 2D data that it loads may stay if the checker accepts the
/// commands. `InvalidArgument`: `commandBuffer` is 0, invalid offsets or sizes, unknown pipe, or a
/// context of another core. `OutOfResources`: the description cannot be read. `InvalidObject`: it
/// does not describe a command buffer. `InvalidAddress`: the commands are in no buffer of the
/// caller. `InvalidData`: the checker refuses the commands. `GpuNotResponding`: the process has
/// hung cores too often. Also the errors of the context's states, of the queue and of the ring.
pub(super) fn commit(
    process: &Arc<Process>,
    core: &Core,
    commit: &Commit,
) -> Result<Reply<'static>> {
    submission::wait_for_hangs(process)?;
    framebuffers::look_for_framebuffers(process);
    let (format, mut desc) = (commit.format, Description::new());
    let mut buffer = match commit.commands {
        Commands::Described(user) => {
            format.decode_command_buffer(read_description(user, format, &mut desc)?)
        }
        Commands::Here(buffer, _) => buffer,
    };
    let mut own = None;
    if commit.format.context_bytes() != 0 {
        let own = own.insert(OwnContext::of(commit, process)?);
        buffer.entry_pipe = own.given.entry_pipe;
        if process.device.has_engines_apart() {
            own.adapt_to(core);
        }
    }
    let asked = check::entry_pipe(core, "entryPipe", buffer.entry_pipe)?;
    let mut words = KVVec::new();
    let tables = process.tables();
    // Cores without 3D ignore all contexts.
    let names_context = commit.context != 0 && core.pipes().pipe_3d;
    let context = match u32::try_from(commit.context) {
        Ok(handle) if names_context => tables.contexts.get(handle).cloned(),
        _ => None,
    };
    let entry = tables.per_core[core.index()].entered(asked, context.as_ref());
    let exit = copy_commands(process, core, tables, &mut words, &buffer, commit)?;
    let hold = match context {
        // The states of a context are only valid on its own core.
        Some(Some(context)) if context.core() == core.index() => Some(context.hold()?),
        Some(Some(_)) => {
            refuse!(InvalidArgument: "context {:#x} is of another core", commit.context);
        }
        // The driver keeps no states for a core without 3D.
        Some(None) => {
            refuse!(InvalidArgument: "context {:#x} is of a core without 3D", commit.context);
        }
        None => {
            // As in the C drivers, an unknown context is ignored.
            if names_context && own.is_none() {
                log_unknown_context(commit.context);
            }
            None
        }
    };
    let mut queue = Queue::empty(process, core.engine().empty_payload());
    let fill = |queue: &mut Queue<'_>| queue.read(commit.queue, format);
    let work = Work {
        words: &mut words,
        entry: [asked, entry],
        claimed: Pipe::from_number(exit),
        own: own.as_mut(),
        hold,
        delta: commit.delta,
        format,
    };
    let (submitted, switched) = submission::submit_words(process, core, work, &mut queue, fill)?;
    let reply = Reply::Committed {
        counted: submitted.counted,
        stamp: submitted.job,
        switched,
    };
    queue.submitted();
    keep_spare(process, words);
    Ok(reply)
}

/// Copies the commands of `commit` to `words`: first those in its `buffer`, then those of its
/// chain of `gcsHAL_COMMAND_LOCATION`. Unlocks the tables. Returns `exitPipe` of the last of them.
/// Errors: as [`commit`]; also `InvalidArgument`: the chain is too long.
#[inline(always)]
pub(super) fn copy_commands(
    process: &Process,
    core: &Core,
    tables: TablesGuard<'_>,
    words: &mut KVVec<u32>,
    buffer: &CommandBuffer,
    commit: &Commit,
) -> Result<u32> {
    let limit = match commit.format.context_bytes() {
        0 => MAX_STREAM_WORDS,
        // Leave room for the states of the context, even if they are not loaded.
        _ => MAX_WORDS_AFTER_STATES,
    };
    append_commands(process, tables, words, buffer, limit)?;
    match commit.commands {
        Commands::Described(_) | Commands::Here(_, 0) => Ok(buffer.exit_pipe),
        Commands::Here(_, next) => {
            let pipes = (core, buffer.exit_pipe);
            copy_chain(process, pipes, words, next, commit.format, limit)
        }
    }
}

/// Appends the commands of the chain at user address `next` to `words`, up to `limit` words in
/// all. If `entryPipe` of a location is not `exitPipe` of the location before, selects it first.
/// Chains are rare. Returns the last `exitPipe`.
#[cold]
#[inline(never)]
fn copy_chain(
    process: &Process,
    (core, mut exit): (&Core, u32),
    words: &mut KVVec<u32>,
    mut next: u64,
    format: Format,
    limit: usize,
) -> Result<u32> {
    let has_both = core.pipes().pipe_3d && core.pipes().pipe_2d;
    for _ in 0..MAX_LOCATIONS {
        if next == 0 {
            return Ok(exit);
        }
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        let mut buf = UserWords::<{ abi::MAX_LOCATION_BYTES / 4 }>::new();
        let location = buf
            .read(next, format.location_bytes())
            .map_err(|_| mistake!(OutOfResources: "cannot read command location at {:#x}", next))?;
        let (buffer, following) = format.decode_location(location);
        let entry = Pipe::from_number(buffer.entry_pipe).filter(|_| has_both);
        if let Some(entry) = entry.filter(|_| buffer.entry_pipe != exit) {
            let select = words::select_pipe(core.engine().caches(), entry);
            if select.len() > limit - words.len().min(limit) {
                return Err(err_too_long(limit));
            }
            words.extend_from_slice(&select, sys::GFP_CLIENT)?;
        }
        append_commands(process, process.tables(), words, &buffer, limit)?;
        exit = buffer.exit_pipe;
        next = following;
    }
    Err(mistake!(InvalidArgument: "more than {MAX_LOCATIONS} command locations"))
}

/// Appends the commands between the reserved head and tail to `words`, up to `limit` words in
/// all. If `words` has no memory, takes the process's spare memory. Unlocks the tables.
#[inline(always)]
fn append_commands(
    process: &Process,
    mut tables: TablesGuard<'_>,
    words: &mut KVVec<u32>,
    buffer: &CommandBuffer,
    limit: usize,
) -> Result {
    let (start, end) = command_range(buffer)?;
    let logical = usize::try_from(buffer.logical).map_err(|_| err_not_mapped(buffer))?;
    let pool = process.device.memory.pool_address();
    let available = tables
        .bytes_from(logical, pool)
        .ok_or_else(|| err_not_mapped(buffer))?;
    if words.capacity() == 0 {
        if let Some(spare) = tables.words.take() {
            // The old `words` is empty, but `drop` would still call the allocator.
            core::mem::forget(core::mem::replace(words, spare));
            words.clear();
        }
    }
    drop(tables);
    if (end + u64::from(buffer.reserved_tail)) > usize_as_u64(available) {
        refuse!(InvalidArgument:
            "the commands end at {:#x}: with {:#x} reserved bytes after them they do not fit in the {:#x} bytes from {:#x} on",
            end, buffer.reserved_tail, available, logical);
    }
    // `start` and `end` are at most `available`, a `usize`.
    let count = (end - start) as usize / 4;
    let from = logical
        .checked_add(start as usize)
        .ok_or_else(|| err_not_mapped(buffer))?;
    if count > limit - words.len().min(limit) {
        return Err(err_too_long(limit));
    }
    append_words(words, from, count).map_err(|error| match error {
        EFAULT => mistake!(InvalidAddress: "cannot read the commands at {:#x}", from),
        error => error.into(),
    })
}

/// Keeps the memory of `words` for the next COMMIT, if it has at most [`SPARE_WORDS`] words.
pub(super) fn keep_spare(process: &Process, words: KVVec<u32>) {
    if words.capacity() <= SPARE_WORDS {
        // Another thread may have kept its memory. This replaces it, and drops it without the
        // lock.
        let other = process.tables().words.replace(words);
        drop(other);
    }
}

#[cold]
#[inline(never)]
fn err_no_core(error: Error, what: &str, index: u32, selector: CoreSelector) -> Error {
    match error {
        Error::InvalidArgument => mistake!(@ "COMMIT", error,
            "{} is {:#x} and hardwareType {:#x}: there is no such core",
            what, index, selector.numbers().0),
        error => error,
    }
}

#[cold]
#[inline(never)]
fn err_too_long(limit: usize) -> Error {
    mistake!(InvalidArgument: "more than {} words of commands", limit)
}

#[cold]
#[inline(never)]
fn log_unknown_context(context: u64) {
    debug_client!(in Command, "COMMIT: the process has no context {:#x}: the commands run without one", context);
}

#[cold]
#[inline(never)]
fn err_not_mapped(buffer: &CommandBuffer) -> Error {
    mistake!(InvalidAddress:
        "the commands at logical {:#x} are not in memory of this driver that the process has locked and mapped",
        buffer.logical)
}

/// Logs the error if submission `what` has failed. Errors with an errno are not logged: the caller
/// returns them to user space.
pub(super) fn logged<T>(what: &str, result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        if error.errno().is_none() {
            warn_client!(FAILURES: "{}: {}", what, error);
        }
    })
}

pub(super) type Description = UserWords<{ abi::MAX_COMMAND_BUFFER_BYTES / 4 }>;

/// Reads the description of a command buffer into `desc`. Returns its words; decoding them here
/// would copy the result once more.
pub(super) fn read_description(
    user: u64,
    format: Format,
    desc: &mut Description,
) -> Result<&[u32]> {
    if user == 0 {
        refuse!(InvalidArgument: "commandBuffer is 0");
    }
    let words = desc
        .read(user, format.command_buffer_bytes())
        .map_err(|_| mistake!(OutOfResources: "commandBuffer {:#x} cannot be read", user))?;
    let object = format.command_buffer_object(words);
    if object == CommandBuffer::OBJECT_TYPE {
        Ok(words)
    } else {
        Err(mistake!(InvalidObject:
            "commandBuffer {:#x} has object {:#x}: it must be {:#x} (CMDB)",
            user, object, CommandBuffer::OBJECT_TYPE))
    }
}

/// Byte range of the client's commands in the buffer: after the reserved head, before the reserved
/// tail.
#[inline(always)]
fn command_range(buffer: &CommandBuffer) -> Result<(u64, u64)> {
    let offset = buffer.offset.map_err(|size| {
        mistake!(InvalidArgument:
            "startOffset {:#x} and size {:#x} wrap, or leave no room for reservedTail {:#x}",
            buffer.start_offset, size, buffer.reserved_tail)
    })?;
    // CAST: only the lowest bits matter.
    let bits = buffer.logical as u32 | buffer.start_offset | offset;
    if (bits | buffer.reserved_head | buffer.reserved_tail) % ALIGNMENT != 0 {
        refuse!(InvalidArgument:
            "logical {:#x}, startOffset {:#x}, reservedHead {:#x}, end {:#x}, reservedTail {:#x}: must be multiples of {ALIGNMENT}",
            buffer.logical, buffer.start_offset, buffer.reserved_head, offset, buffer.reserved_tail);
    }
    let start = u64::from(buffer.start_offset) + u64::from(buffer.reserved_head);
    let end = u64::from(offset);
    if start <= end {
        Ok((start, end))
    } else {
        Err(mistake!(InvalidArgument:
            "startOffset {:#x} plus reservedHead {:#x} is past the end of the commands, {:#x}",
            buffer.start_offset, buffer.reserved_head, end))
    }
}

#[kunit_tests(galcore_commit)]
mod tests {
    use super::*;

    fn range(start_offset: u32, offset: u32) -> Result<(u64, u64)> {
        command_range(&CommandBuffer {
            object: CommandBuffer::OBJECT_TYPE,
            entry_pipe: 0,
            exit_pipe: u32::MAX,
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
