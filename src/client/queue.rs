// SPDX-License-Identifier: GPL-2.0-only

//! Event queues. The driver turns a client's list of records into actions.
//!
//! The driver reads, bounds and resolves the whole list before any record takes effect. A list that
//! cannot be read, has no end, or holds an invalid record has no effect. A record about an object
//! that has ended is ignored. (The C driver ignores it when the event fires.) If a record frees a
//! handle, the handle is claimed immediately, so that no other record can free it. If the
//! submission fails, the handle is put back. Source: sources.md, event queues.

use super::{
    action::{
        Action,
        Events, //
    },
    change::{
        Change,
        Count,
        Kind,
        Returned, //
    },
    check::{
        mistake,
        refuse, //
    },
    client_memory::Viewed,
    handles::Detached,
    import,
    node::Claimed,
    nodes,
    shared,
    signals,
    tables::{
        BufferEntry,
        Mapped,
        Tables, //
    },
    window,
    Process, //
};
use crate::{
    abi::{
        self,
        Format,
        NamedBuffer,
        Record,
        ShownHandle, //
    },
    limits::{
        MAX_RECORDS,
        MAX_TIMERS, //
    },
    log::{
        self,
        debug_client, //
    },
    memory::Word,
    modes::Zone,
    prelude::*,
    sys::user::UserWords, //
};

/// An object that a resolved queue has claimed.
enum Claim {
    Buffer(Detached<BufferEntry>),
    UserMemory(Detached<Mapped>),
    /// A node, claimed in the table of its owner.
    Node(Arc<Process>, u32, Claimed),
    /// Nothing: a record that is left out. The log says so when the queue has been submitted.
    Nothing(Record),
}

/// A record of a process's queue that is left out, for the log.
struct LeftOut<'a>(&'a Process, Record);

impl fmt::Display for LeftOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.1 {
            Record::Signal { .. } => "a SIGNAL record",
            Record::Unlock { .. } => "an UNLOCK_VIDEO_MEMORY record",
            Record::FreeNode { .. } => "a FREE_VIDEO_MEMORY record",
            Record::FreeBuffer(_) => "a record that frees a buffer",
            Record::UnmapUser(_) => "an UNMAP_USER_MEMORY record",
            Record::Timestamp { .. } => "a TIMESTAMP record",
            _ => "a record",
        };
        write!(f, "{what} is left out: ")?;
        match self.1 {
            Record::Signal { id, process } if !means(self.0, process) => {
                write!(f, "signal {id:#x} is for process {process:#x}")
            }
            Record::Signal { id, .. } => write!(f, "{id:#x} is no signal of the process's"),
            Record::Unlock { node, .. } | Record::FreeNode { node } => {
                f.write_fmt(fmt!("there is no node {}", ShownHandle(node)))
            }
            Record::FreeBuffer(NamedBuffer { handle, .. }) => {
                f.write_fmt(fmt!("there is no buffer {}", ShownHandle(handle)))
            }
            Record::UnmapUser(named) => {
                f.write_fmt(fmt!("there is no info {}", ShownHandle(named.info)))
            }
            Record::Timestamp { timer, .. } => {
                write!(f, "there is no timer {timer:#x}, but {MAX_TIMERS}")
            }
            Record::Other { number, name: "" } => write!(f, "command {number} cannot be queued"),
            Record::Other {
                name: "TIMESTAMP", ..
            } => f.write_str("request of TIMESTAMP is neither 0 (stop) nor 1 (start)"),
            Record::Other { number, name } => {
                write!(f, "command {number} (gcvHAL_{name}) cannot be queued")
            }
            _ => f.write_str("it does nothing"),
        }
    }
}

/// A list of records, resolved to actions.
pub(super) struct Queue<'a> {
    process: &'a Arc<Process>,
    events: Events,
    /// `None` for most queues, which claim nothing.
    claims: Option<KVec<Claim>>,
    /// Set if records write words. How many ranges had been removed from the process's addresses
    /// when the words were looked up.
    writes: Option<u64>,
}

/// Whether a SIGNAL record with process `number` means this process's signals: `number` is this
/// process or the caller, or no client. The C drivers ignore the number, and a library may
/// still use the one from before a fork. Only the low 32 bits count.
#[inline(always)]
fn is_named(process: &Process, number: u64) -> bool {
    // CAST: the low half, a process id.
    let number = number as i32;
    // A process that shares the memory map may use its own number.
    number == process.id()
        || number == 0
        || !process.clients.has(number)
        || number == kernel::current!().group_leader().pid()
}

/// Whether a SIGNAL record with process `number` may mean a signal that this process can find: as
/// [`is_named`], or signals are shared.
#[inline(always)]
fn means(process: &Process, number: u64) -> bool {
    is_named(process, number) || signals::shares_signals(process)
}

impl<'a> Queue<'a> {
    /// An empty queue. It reuses the memory of `spare`.
    pub(super) fn empty(process: &'a Arc<Process>, spare: Events) -> Self {
        Self {
            process,
            events: Events::new(spare, &process.account),
            claims: None,
            writes: None,
        }
    }

    /// Reads and resolves the list at user address `first` (0: empty), and appends it to the queue.
    /// Works in place, because to move a queue takes as long as to read a record.
    ///
    /// `OutOfResources`: a record cannot be read. `InvalidData`: the list is too long, or cyclic.
    /// `InvalidArgument`: a realtime signal to another process, or a counter outside of the
    /// caller's memory. `InvalidAddress`: a word to write outside of the caller's memory.
    #[inline(never)]
    pub(super) fn read(&mut self, first: u64, format: Format) -> Result {
        let mut next = first;
        let mut records = 0;
        while next != 0 {
            if records == MAX_RECORDS {
                refuse!(in queue, InvalidData:
                    "more than {MAX_RECORDS} records in a queue, or a circle");
            }
            if sys::is_killed() {
                return Err(Error::Interrupted);
            }
            records += 1;
            let mut room = UserWords::<{ abi::MAX_RECORD_BYTES / 4 }>::new();
            let words = room.read(next, format.record_bytes()).map_err(|_| {
                mistake!(in queue, OutOfResources:
                    "no record of a queue can be read at {:#x}", next)
            })?;
            let (record, following) = format.decode_record(words);
            self.add(record)?;
            next = following;
        }
        Ok(())
    }

    /// Resolves and appends one record. Errors as for [`Queue::read`].
    pub(super) fn add(&mut self, record: Record) -> Result {
        // Reserve memory in both lists first, because nothing may fail after a claim.
        self.events.reserve(1)?;
        if matches!(
            record,
            Record::FreeNode { .. } | Record::FreeBuffer(_) | Record::UnmapUser(_)
        ) {
            let claims = self.claims.get_or_insert_with(KVec::new);
            claims.reserve(1, sys::GFP_CLIENT)?;
        }
        let process = self.process;
        let action = match record {
            // Records about ended or unlocked objects have no effect. The C driver ignores them
            // when the event fires.
            Record::Signal {
                id,
                process: target,
            } if process.device.parameters.linux_signal => {
                // A process may only signal itself, which kill(2) always permits. A process that
                // shares the memory map may have another user.
                let is_own = sys::is_thread_of(&process.leader);
                if i32::try_from(target).ok() != Some(process.id()) || !is_own {
                    // CAST: the low half, a process id.
                    refuse!(in queue, InvalidArgument:
                        "a SIGNAL record is for process {}: with useLinuxSignal=1 the process that has opened the device, {}, can name itself alone",
                        target as i32, process.id());
                }
                Action::LinuxSignal(process.clone(), id)
            }
            // The number of another client means that client's signals, unless signals are shared.
            Record::Signal {
                id,
                process: target,
            } if means(process, target) => match signals::find(process, id) {
                Ok(signal) => Action::Signal(signal),
                Err(_) => return self.leave_out(record),
            },
            Record::Signal { .. } => return self.leave_out(record),
            Record::Unlock { node, by_event } => match Change::unlock(process, node, by_event)? {
                Some(change) => Action::Change(change),
                None => return self.leave_out(record),
            },
            Record::Count { address, up } => {
                let counter = self.counter(address)?;
                self.count(Count {
                    counter,
                    step: if up { 1 } else { -1 },
                    until: None,
                })?
            }
            Record::CountTo {
                wanted,
                counter,
                signal,
            } => {
                let until = (self.counter(wanted)?, signals::find(process, signal).ok());
                let counter = self.counter(counter)?;
                self.count(Count {
                    counter,
                    step: 1,
                    until: Some(until),
                })?
            }
            Record::FreeNode { node } => {
                let owner = shared::owner_of(process, node);
                // Allocate first, because nothing may fail after a claim.
                let change = Change::free(&owner, node)?;
                let Ok(claimed) = nodes::claim(&owner, node, false) else {
                    return self.leave_out(record);
                };
                let is_node = matches!(claimed, Claimed::Node);
                self.claim(Claim::Node(owner, node, claimed))?;
                if !is_node {
                    return Ok(());
                }
                Action::Change(change)
            }
            // The memory is released when the job is submitted, so it lasts until the job ends.
            Record::FreeBuffer(named) => {
                let detached = match process.tables().buffers.detach(named.handle) {
                    Ok(detached) => detached,
                    Err(Error::NotFound) => return self.leave_out(record),
                    Err(error) => return Err(error),
                };
                return self.claim(Claim::Buffer(detached));
            }
            Record::UnmapUser(named) => {
                // Allocate first, because nothing may fail after a claim.
                let memory = match process.tables().user_memory.get(named.info) {
                    Some(mapped) => mapped.memory().map(|memory| (**memory).clone()),
                    None => return self.leave_out(record),
                };
                let back = match memory {
                    Some(memory) => Some(Change::new(
                        process,
                        Kind::GiveBack(Returned::Memory(memory)),
                    )?),
                    None => None,
                };
                let detached = match process.tables().user_memory.detach(named.info) {
                    Ok(detached) => detached,
                    Err(Error::NotFound) => return self.leave_out(record),
                    Err(error) => return Err(error),
                };
                let node = match &detached.object {
                    Mapped::Memory(_) | Mapped::Framebuffer => None,
                    Mapped::Node(handle, node) => {
                        import::has_node(process, *handle, node).then_some(*handle)
                    }
                };
                self.claim(Claim::UserMemory(detached))?;
                match (back, node) {
                    (Some(back), _) => Action::Change(back),
                    (None, Some(node)) => return self.add(Record::FreeNode { node }),
                    (None, None) => return Ok(()),
                }
            }
            Record::WriteData { address, data } => {
                let tables = process.tables();
                // Accept both kinds of addresses. LOCK returns a GPU address. The vendor's drivers
                // take a physical one, which page-backed memory does not have.
                let base = process.device.base_address;
                let word = tables.word_at(address);
                let word = word.or_else(|| tables.word_at_physical(address, base));
                let word = word.ok_or_else(|| mistake!(in queue, InvalidAddress:
                    "a WRITE_DATA record is for {:#x}: not a multiple of 4, or not in locked memory of the process's",
                    address))?;
                if word.is_slow() {
                    drop(tables);
                    Action::Change(Change::new(process, Kind::Write(word, data))?)
                } else {
                    self.writes.get_or_insert(tables.addresses.removals());
                    Action::Write(word, data)
                }
            }
            Record::Timestamp { timer, start } => {
                if u32_as_usize(timer) >= MAX_TIMERS {
                    return self.leave_out(record);
                }
                Action::Timestamp(process.clone(), timer, start)
            }
            Record::CommitDone => return Ok(()),
            Record::Other { .. } => return self.leave_out(record),
        };
        self.events.push(action)
    }

    /// The word at physical address `address`. `InvalidArgument`: it is not in the caller's memory.
    fn counter(&mut self, address: u32) -> Result<Word> {
        let process = self.process;
        let tables = process.tables();
        let base = process.device.base_address;
        let word = tables.word_at_physical(address, base);
        self.writes.get_or_insert(tables.addresses.removals());
        word.ok_or_else(|| {
            mistake!(in queue, InvalidArgument:
                "a record counts at physical address {:#x}, which is not in the process's memory",
                address)
        })
    }

    fn count(&self, count: Count) -> Result<Action> {
        Ok(if count.words().any(Word::is_slow) {
            Action::Change(Change::new(self.process, Kind::Count(count))?)
        } else {
            Action::Count(count)
        })
    }

    fn claim(&mut self, claim: Claim) -> Result {
        let claims = self.claims.get_or_insert_with(KVec::new);
        Ok(claims.push(claim, sys::GFP_CLIENT)?)
    }

    /// Leaves `record` out. Notes it for the log, which has no such line if the queue is refused.
    #[cold]
    #[inline(never)]
    fn leave_out(&mut self, record: Record) -> Result {
        if log::debugs(Zone::Event) {
            // If this fails, the log lacks a line.
            let _ = self.claim(Claim::Nothing(record));
        }
        Ok(())
    }

    /// Whether the queue has neither actions nor claims.
    pub(super) fn is_empty(&self) -> bool {
        let is_nothing = |claim: &Claim| matches!(claim, Claim::Nothing(_));
        let claims = self.claims.as_ref();
        self.events.is_empty() && claims.is_none_or(|claims| claims.iter().all(is_nothing))
    }

    /// Checks the words to write again, if ranges were removed since the lookup. Memory that is
    /// freed later lasts until the job has ended. `InvalidAddress`: a word is no longer in the
    /// caller's memory. `InvalidArgument`: a counter is not.
    #[inline(always)]
    pub(super) fn check(&mut self, tables: &Tables) -> Result {
        match self.writes {
            None => Ok(()),
            Some(looked_up) => self.check_writes(looked_up, tables),
        }
    }

    #[inline(never)]
    fn check_writes(&mut self, looked_up: u64, tables: &Tables) -> Result {
        let removals = tables.addresses.removals();
        if looked_up == removals {
            return Ok(());
        }
        let is_left = |word: &Word| tables.has_word(word);
        for action in self.events.iter() {
            match action {
                Action::Write(word, _) if !is_left(word) => return Err(Error::InvalidAddress),
                Action::Count(count) if !count.words().all(is_left) => {
                    return Err(Error::InvalidArgument);
                }
                _ => {}
            }
        }
        self.writes = Some(removals);
        Ok(())
    }

    /// The actions. The job takes them.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    /// Removes the memory that the queue releases from the process's addresses, so that later jobs
    /// cannot use it. Called under the tables' lock when the job has a place.
    #[inline(always)]
    pub(super) fn withdraw(&self, tables: &mut Tables) {
        if let Some(claims) = &self.claims {
            Self::withdraw_claims(claims, tables);
        }
    }

    #[inline(never)]
    fn withdraw_claims(claims: &[Claim], tables: &mut Tables) {
        for claim in claims {
            match claim {
                Claim::Buffer(detached) => {
                    tables.addresses.remove(detached.object.buffer.address());
                }
                Claim::UserMemory(detached) => {
                    if let Some(memory) = detached.object.memory() {
                        tables.addresses.remove(memory.address());
                    }
                }
                // The last unlock removes the node's addresses.
                Claim::Node(..) | Claim::Nothing(_) => {}
            }
        }
    }

    /// Completes the claims after the submission of the job.
    #[inline(always)]
    pub(super) fn submitted(mut self) {
        self.finish();
        if self.events.are_nothing() {
            // The job has taken the actions. `drop` would call the allocator.
            core::mem::forget(self);
        }
    }

    /// As [`Queue::submitted`], but the owner drops the queue.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        if let Some(claims) = self.claims.take() {
            self.finish_claims(claims);
        }
    }

    #[inline(never)]
    fn finish_claims(&self, claims: KVec<Claim>) {
        for claim in claims {
            match claim {
                // As in the C driver, the view ends now, and the memory when the event fires.
                Claim::Buffer(detached) => {
                    window::end_view_here(self.process, detached.object.shown());
                    let mut tables = self.process.tables();
                    let view = Viewed::Buffer(detached.handle);
                    tables.user_views.remove(detached.object.user, view);
                    let entry = tables.buffers.give_up(detached);
                    tables
                        .buffer_ledger(entry.non_paged)
                        .remove(entry.buffer.bytes());
                    drop(tables);
                    entry.buffer.end_here();
                }
                Claim::UserMemory(detached) => {
                    let mut tables = self.process.tables();
                    let mapped = tables.user_memory.give_up(detached);
                    if let Some(memory) = mapped.memory() {
                        tables.mapped.remove(memory.bytes());
                    }
                    drop(tables);
                    if let Mapped::Memory(memory) = mapped {
                        memory.end_here();
                    }
                }
                Claim::Node(..) => {}
                Claim::Nothing(record) => {
                    debug_client!(in Event, "{}", LeftOut(self.process, record))
                }
            }
        }
    }
}

impl Drop for Queue<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(claims) = self.claims.take() {
            self.put_back(claims);
        }
    }
}

impl Queue<'_> {
    #[cold]
    #[inline(never)]
    fn put_back(&self, claims: KVec<Claim>) {
        for claim in claims {
            match claim {
                Claim::Buffer(detached) => {
                    self.process.tables().buffers.put_back(detached);
                }
                Claim::UserMemory(detached) => {
                    self.process.tables().user_memory.put_back(detached);
                }
                Claim::Node(owner, node, claimed) => nodes::unclaim(&owner, node, &claimed),
                Claim::Nothing(_) => {}
            }
        }
    }
}
