// SPDX-License-Identifier: GPL-2.0-only

//! Contexts of the interfaces without ATTACH: a `gcoCONTEXT` in the client's memory. It has a
//! buffer of states, which run before the commands when another context is loaded.
//!
//! The vendor's drivers run the buffer in place, and write into it. This driver copies the states,
//! checks them like commands, and runs the copy in the ring. So a client can have any number of
//! contexts. The driver only remembers the last loaded context, by process and id. So a made-up id
//! can only name a context of the same process.
//!
//! When the commands are in the ring, the driver writes two values with the client's rights: the id
//! of a new context, and the word that marks the buffer as used. It ignores faults. Source:
//! sources.md, contexts in the client's memory.
//!
//! State deltas: lists in the client's memory of the states that its commands have changed.
//!
//! Older clients count references to deltas. For these the driver reads a delta when the context is
//! loaded again, not when a COMMIT passes it: the client adds to the delta until another COMMIT of
//! the context switches. The clients of the newest generations do not count. For these the driver
//! reads the delta of a COMMIT that switches, and the reply says that it switched. If the COMMIT
//! does not switch, the client keeps adding to the delta, and the driver keeps nothing.
//!
//! A delta that is invalid or cannot be read counts as empty: its states have already been loaded
//! once, and some clients put deltas on the stack. The driver never follows a pointer from one
//! delta to the next, and writes only reference counts. Source: sources.md, contexts.

use super::{
    check::{
        self,
        mistake,
        refuse, //
    },
    tables::{
        PerCore,
        Tables, //
    },
    Core,
    Process, //
};
use crate::{
    abi::{
        self,
        ClientContext,
        Commit,
        Delta,
        Format, //
    },
    context::{
        new_number,
        Buffers,
        Owner,
        Record,
        PENDING, //
    },
    prelude::*,
    ring::{
        Checked,
        InContext,
        Source,
        MAX_STATE_WORDS, //
    },
    stream::{
        checker::Exit,
        words::Pipe, //
    },
    sys::user::{
        self,
        UserWords, //
    }, //
};
use kernel::transmute::AsBytes;

/// Bytes at the start of the buffer that are reserved for a pipe switch.
const HEAD_BYTES: u64 = 32;

/// Bytes after the states that are reserved for a LINK.
const LINK_BYTES: u64 = 8;

/// The most bytes of a buffer.
// CAST: 64 KiB.
const MAX_BUFFER_BYTES: u64 = (MAX_STATE_WORDS * 4) as u64;

/// The states of a buffer, copied and checked.
struct States {
    words: KVVec<u32>,
    entry: Pipe,
    exit: Exit,
    /// `AddressSet::version` at the last check.
    version: u64,
}

/// The context of a COMMIT.
pub(super) struct OwnContext {
    /// User address of the `gcoCONTEXT`.
    user: u64,
    format: Format,
    pub(super) given: ClientContext,
    process: u64,
    /// The client's id of the context, or a new one.
    id: u64,
    states: Option<States>,
    /// The states are for an engine that the core lacks.
    is_left_out: bool,
    /// The states are in the ring.
    used: bool,
}

impl OwnContext {
    /// The context of a COMMIT. Errors: as [`OwnContext::read`].
    pub(super) fn of(commit: &Commit, process: &Process) -> Result<Self> {
        Self::read(commit.context_buffer, commit.format, process)
    }

    /// Reads a `gcoCONTEXT`. `InvalidArgument`: the address is 0. `OutOfResources`: it cannot be
    /// read. `InvalidObject`: it is no `gcoCONTEXT`.
    fn read(user: u64, format: Format, process: &Process) -> Result<Self> {
        if user == 0 {
            refuse!(InvalidArgument: "contextBuffer is 0");
        }
        let mut room = UserWords::<{ abi::MAX_CONTEXT_BYTES / 4 }>::new();
        let words = room
            .read(user, format.context_bytes())
            .map_err(|_| mistake!(OutOfResources: "contextBuffer {:#x} cannot be read", user))?;
        let given = format.decode_context(words);
        if given.object != ClientContext::OBJECT_TYPE {
            refuse!(InvalidObject:
                "contextBuffer {:#x} has object {:#x}: it is {:#x} (CTXT)",
                user, given.object, ClientContext::OBJECT_TYPE);
        }
        Ok(Self {
            user,
            format,
            given,
            process: process.number,
            id: match given.id {
                0 => new_number(),
                id => id,
            },
            states: None,
            is_left_out: false,
            used: false,
        })
    }

    /// Whether it has no room for states. The driver then keeps the states of the process.
    pub(super) fn keeps_nothing(&self) -> bool {
        let given = &self.given;
        has_no_buffer(given) || given.link.wrapping_sub(given.logical) == HEAD_BYTES
    }

    /// Leaves the states out if `core` lacks the engine in which they begin. Only used if each
    /// engine is a core of its own: the commands are then for another engine than the context.
    #[cold]
    pub(super) fn adapt_to(&mut self, core: &Core) {
        let initial = Pipe::from_number(self.given.initial_pipe);
        let is_of_another = initial.is_some_and(|pipe| !core.pipes().has(pipe));
        self.is_left_out = is_of_another && !self.keeps_nothing();
    }

    /// The context in the form that the ring takes.
    pub(super) fn in_ring(&self) -> InContext<'_> {
        let source = match &self.states {
            _ if self.is_left_out => Source::Nothing,
            // As in the vendor's drivers: the first commands load all states they need.
            _ if self.given.id == 0 && !self.keeps_nothing() => Source::Nothing,
            Some(states) => Source::Words(Checked {
                words: &states.words,
                entry: states.entry,
                exit: states.exit.pipe,
                armed: states.exit.armed,
                uses: states.exit.uses,
            }),
            None => Source::Unready,
        };
        InContext {
            owner: Owner::Client {
                process: self.process,
                id: self.id,
            },
            source,
        }
    }

    /// Copies and checks the states. If the context keeps none, puts the states before them that
    /// the process's commands have loaded. `InvalidArgument`: bad geometry. `InvalidAddress`: the
    /// states cannot be read. `InvalidData`: the checker refuses them. `OutOfMemory`.
    pub(super) fn load(&mut self, process: &Process, core: &Core) -> Result {
        let given = &self.given;
        let mut entry = if self.keeps_nothing() {
            check::entry_pipe(core, "entryPipe", given.entry_pipe)?
        } else {
            check::entry_pipe(core, "initialPipe", given.initial_pipe)?
        };
        let (start, bytes) = match given.id {
            // The buffer of a new context is ignored.
            0 => (0, 0),
            _ => state_range(given)?,
        };
        let mut words = KVVec::from_elem(0u32, bytes / 4, sys::GFP_CLIENT)?;
        user::get(start, &mut words).map_err(|_| Error::InvalidAddress)?;
        let mut tables = process.tables();
        if self.keeps_nothing() {
            let PerCore { loaded, kept, .. } = &mut tables.per_core[core.index()];
            if let Some(kept) = kept {
                kept.follow(loaded.epoch());
                let (mut all, first) = kept.words(entry, core.engine().caches())?;
                all.extend_from_slice(&words, sys::GFP_CLIENT)?;
                // No known client loads more states.
                if all.len() <= MAX_STATE_WORDS {
                    (words, entry) = (all, first);
                }
            }
        }
        let exit = check::check_context(process, core, &tables, &mut words, entry)?;
        let version = tables.addresses.version();
        drop(tables);
        self.states = Some(States {
            words,
            entry,
            exit,
            version,
        });
        Ok(())
    }

    /// Checks the states again if the last check may be out of date.
    pub(super) fn check(&mut self, process: &Process, core: &Core, tables: &Tables) -> Result {
        let version = tables.addresses.version();
        match &mut self.states {
            Some(states) if states.version != version => {
                states.exit =
                    check::check_context(process, core, tables, &mut states.words, states.entry)?;
                states.version = version;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that the states are in the ring.
    pub(super) fn loaded(&mut self) {
        self.used = true;
    }

    /// Tells the client the id, and that the buffer is used, when the commands are in the ring.
    pub(super) fn write_back(&self) {
        if self.given.id == 0 {
            let at = self.user.checked_add(self.format.context_id());
            tell(at, &self.id);
        }
        if self.used && self.given.in_use != 0 {
            tell(Some(self.given.in_use), &1u32);
        }
    }
}

/// Writes to the client's memory; ignores a fault.
fn tell<T: AsBytes>(at: Option<u64>, value: &T) {
    if let Some(at) = at {
        let _ = user::put(at, value);
    }
}

fn has_no_buffer(context: &ClientContext) -> bool {
    context.logical == 0 && context.link == 0 && context.buffer_bytes == 0
}

/// User address and size in bytes of a buffer's states, between the head and the LINK.
fn state_range(context: &ClientContext) -> Result<(u64, usize)> {
    if has_no_buffer(context) {
        return Ok((0, 0));
    }
    let buffer_bytes = u64::from(context.buffer_bytes);
    let end = context.link.checked_sub(context.logical);
    let end = end.filter(|end| {
        end % 8 == 0
            && (HEAD_BYTES..=MAX_BUFFER_BYTES).contains(end)
            && end + LINK_BYTES <= buffer_bytes
    });
    let (Some(end), true) = (end, buffer_bytes <= MAX_BUFFER_BYTES) else {
        refuse!(InvalidArgument:
            "the context at logical {:#x}, of {:#x} bytes, has its link at {:#x}",
            context.logical, buffer_bytes, context.link);
    };
    let skipped = if context.has_head { HEAD_BYTES } else { 0 };
    let start = context.logical.checked_add(skipped);
    // CAST: at most 64 KiB.
    Ok((
        start.ok_or(Error::InvalidArgument)?,
        (end - skipped) as usize,
    ))
}

/// Number of records that are copied at a time.
const RECORDS_AT_ONCE: usize = 64;

/// Deltas that a switch has read.
#[derive(Default)]
pub(super) struct Merged {
    deltas: [u64; PENDING],
    count: usize,
}

/// Reads the head of a delta. `None`: it cannot be read, or the generation has no deltas.
fn read_delta(user: u64, format: Format) -> Option<Delta> {
    let bytes = format.delta_bytes();
    if bytes == 0 {
        return None;
    }
    let mut room = UserWords::<{ abi::MAX_DELTA_BYTES / 4 }>::new();
    Some(format.decode_delta(room.read(user, bytes).ok()?))
}

/// Adds to a delta's reference count, if it has one. Returns whether the write succeeded.
fn add_references(user: u64, delta: &Delta, add: i32, format: Format) -> bool {
    let Some(offset) = format.delta_references() else {
        return true;
    };
    let count = delta.references.wrapping_add(add);
    let at = user.checked_add(offset);
    at.is_some_and(|at| user::put(at, &count).is_ok())
}

/// Applies the records of a delta to `buffers`, in pieces.
fn merge_records(buffers: &mut Buffers, delta: &Delta) {
    // At most one record for each state.
    let mut left = usize::try_from(delta.record_count)
        .unwrap_or(usize::MAX)
        .min(buffers.state_count());
    let mut at = delta.records;
    while left > 0 {
        let mut words = [0u32; RECORDS_AT_ONCE * abi::DELTA_RECORD_WORDS];
        let some = left.min(RECORDS_AT_ONCE);
        let words = &mut words[..some * abi::DELTA_RECORD_WORDS];
        if user::get(at, words).is_err() {
            return;
        }
        let records = words.chunks_exact(abi::DELTA_RECORD_WORDS);
        buffers.apply(records.filter_map(|record| match *record {
            [address, mask, data] => Some(Record {
                address,
                mask,
                data,
            }),
            _ => None,
        }));
        left -= some;
        let Some(next) = at.checked_add(usize_as_u64(core::mem::size_of_val(words))) else {
            return;
        };
        at = next;
    }
}

/// Updates the copy that the next switch loads. `given` is the delta of the switching COMMIT (0:
/// none). If the switch fails, the caller may call this again.
pub(super) fn merge(buffers: &mut Buffers, given: u64, format: Format) -> Merged {
    let mut merged = Merged::default();
    if format.merges_at_once() {
        buffers.follow();
        if let Some(delta) = read_delta(given, format).filter(|_| given != 0) {
            merge_records(buffers, &delta);
            buffers.set_element_count(delta.element_count);
        }
        buffers.finish_merge();
        return merged;
    }
    let (pending, count) = buffers.pending();
    for &user in &pending[..count] {
        // Skip a delta that the client has dropped, or whose memory it has reused.
        let Some(delta) = read_delta(user, format).filter(|delta| delta.references > 0) else {
            continue;
        };
        merge_records(buffers, &delta);
        buffers.set_element_count(delta.element_count);
        merged.deltas[merged.count] = user;
        merged.count += 1;
    }
    buffers.finish_merge();
    merged
}

/// Called when job `number` has switched contexts. Drops the references to the merged deltas, and
/// notes the delta of the COMMIT (0: none) for both copies.
pub(super) fn switched(
    buffers: &mut Buffers,
    number: u64,
    merged: &Merged,
    attached: u64,
    format: Format,
) {
    buffers.switched(number);
    for &user in &merged.deltas[..merged.count] {
        if let Some(delta) = read_delta(user, format).filter(|delta| delta.references > 0) {
            add_references(user, &delta, -1, format);
        }
    }
    if attached == 0 || format.merges_at_once() {
        return;
    }
    // A delta without records needs no reference.
    let Some(delta) = read_delta(attached, format).filter(|delta| delta.records != 0) else {
        return;
    };
    if add_references(attached, &delta, 2, format) {
        buffers.attach(attached);
    }
}

#[kunit_tests(galcore_client_context)]
mod tests {
    use super::*;

    fn range(logical: u64, link: u64, buffer_bytes: u32, has_head: bool) -> Result<(u64, usize)> {
        state_range(&ClientContext {
            object: ClientContext::OBJECT_TYPE,
            id: 1,
            has_head,
            buffer_bytes,
            logical,
            link,
            initial_pipe: 0,
            entry_pipe: 0,
            in_use: 0,
        })
    }

    #[test]
    fn states_lie_between_head_and_link() {
        // The smallest buffer: the head, the LINK, and the word that marks the buffer as used.
        assert_eq!(range(0x1000, 0x1020, 44, true), Ok((0x1020, 0)));
        assert_eq!(range(0x1000, 0x1020, 40, true), Ok((0x1020, 0)));
        assert_eq!(range(0x1000, 0x1020, 44, false), Ok((0x1000, 32)));
        assert_eq!(range(0x1000, 0x1100, 0x1000, true), Ok((0x1020, 0xE0)));
        // The driver copies the states, so they need not be aligned.
        assert_eq!(range(0x1001, 0x1101, 0x1000, true), Ok((0x1021, 0xE0)));
        assert_eq!(range(0, 0xFFF8, 0x1_0000, true), Ok((0x20, 0xFFD8)));
        // No buffer.
        assert_eq!(range(0, 0, 0, true), Ok((0, 0)));
        assert_eq!(range(0, 0, 0, false), Ok((0, 0)));
    }

    #[test]
    fn lies_about_the_buffer_are_refused() {
        for (logical, link, bytes) in [
            // The LINK is before the buffer, in its head, not aligned, or past its end.
            (0x1000, 0xFF8, 0x1000),
            (0x1000, 0x1000, 0x1000),
            (0x1000, 0x1018, 0x1000),
            (0x1000, 0x1024, 0x1000),
            (0x1000, 0x1020, 39),
            (0x1000, 0x2000, 0x1000),
            (0x1000, 0x1FF9, 0x1000),
            (0x1000, 0, 0x1000),
            (0, 0, 1),
            (0, 1, 0),
            (0x1000, 0x1020, 0),
            // Too large.
            (0x1000, 0x1020, 0x1_0008),
            (0x1000, 0x1_1000, 0x1_0008),
            (0x1000, 0x1020, u32::MAX),
            (0, u64::from(u32::MAX) & !7, u32::MAX),
            (u64::MAX, 0, 0x1000),
            (0, u64::MAX & !7, 0x1000),
        ] {
            assert_eq!(
                range(logical, link, bytes, true),
                Err(Error::InvalidArgument)
            );
        }
        // At the end of the address space: nothing wraps.
        let top = u64::MAX - 0xFF;
        assert_eq!(range(top, top + 0x20, 0x100, true), Ok((top + 0x20, 0)));
    }
}
