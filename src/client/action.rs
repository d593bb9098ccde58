// SPDX-License-Identifier: GPL-2.0-only

//! The actions at the end of a client's job: the records of its event queue.
//!
//! The interrupt thread or the hang check runs them in the order of the jobs, under no lock but
//! `galcore completion`. They only note work that can take long: [`Change`],
//! [`Retired`](crate::ring::Retired). Among the actions are timers that records start and stop,
//! Unix signals, and the memory of the guilty process in the dump of a hang.
//!
//! The completion page: shows a client which jobs have ended, without a system call.
//!
//! A process gets the page by mapping it read-only ([`FILE_OFFSET`]). The page has a head, with the
//! version of the layout, and a slot for each core. A slot holds the number of the process's last
//! job that has ended on the core, the time of its end, and the number of the last dropped job. A
//! job is dropped if its core is reset or stopped. A 32-bit machine writes a 64-bit word in two
//! steps. So a sequence number precedes the words, and is odd while they change. The C header
//! describes the layout: `struct galcore_completion`.

use super::{
    change::{
        Change,
        Count, //
    },
    signal::Signal,
    tables::Tables,
    Process,
    CLIENTS, //
};
use crate::{
    abi::Reply,
    addr::Range,
    memory::{
        Object,
        Word, //
    },
    prelude::*,
    ring::{
        Account,
        Culprit,
        Loss,
        Named,
        Outcome,
        Payload,
        Piece,
        MAX_PIECES, //
    },
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::{
        dma,
        file::Fence,
        pages::Pages,
        vma::Mappable, //
    }, //
};

/// The largest list, in records, whose memory is kept for another job.
const SPARE_ROOM: usize = 16;

/// An action of an event. It takes constant time, and never waits for anything that a client can
/// delay. The tag is a word, as in [`Error`].
#[repr(u32)]
pub(crate) enum Action {
    /// Sets a user signal.
    Signal(Arc<Signal>),
    /// Notes a change of a process's tables, or a return of memory to the process.
    Change(ListArc<Change>),
    /// Writes a word in the client's memory.
    Write(Word, u32),
    /// Changes a counter in the client's memory.
    Count(Count),
    /// Stores the time in one of a process's timers: as its start if `true`, else as its end.
    Timestamp(Arc<Process>, u32, bool),
    /// Sends the realtime signal that the module parameters name, with this value.
    LinuxSignal(Arc<Process>, u32),
    /// Ends a fence of a SUBMIT, with an error if its job was dropped.
    Fence(Fence),
}

impl Action {
    /// Runs the action of a job that has ended with `outcome`.
    fn run(self, outcome: Outcome) {
        match self {
            Action::Signal(signal) => signal.job_ended(outcome),
            Action::Change(change) => Change::note(change),
            Action::Write(word, value) => word.write(value),
            Action::Count(count) => count.run(),
            Action::Timestamp(process, timer, start) => note_time(&process, timer, start),
            Action::LinuxSignal(process, value) => send_signal(&process, value),
            Action::Fence(fence) if outcome == Outcome::Done => fence.signal(),
            Action::Fence(fence) => drop(fence),
        }
    }
}

/// The actions at the end of a client's job.
#[derive(Default)]
pub(crate) struct Events {
    actions: KVVec<Action>,
    /// The account of the client. `None`: the job is the driver's own.
    account: Option<Arc<Account>>,
    /// The completion page that shows the job's end; the job's core; its number on the page.
    shown: Option<(Arc<CompletionPage>, usize, u64)>,
    /// Number of client streams in the job, 0 or 1. `u32`, because padding is copied separately.
    streams: u32,
}

impl Events {
    /// An empty list for the process of `account`, which reuses the memory of `spare`.
    pub(super) fn new(spare: Self, account: &Arc<Account>) -> Self {
        // `spare` was usually of the same process: also reuse its reference.
        let own = spare.account.filter(|own| Arc::ptr_eq(own, account));
        Self {
            actions: spare.actions,
            account: own.or_else(|| Some(account.clone())),
            shown: None,
            streams: 0,
        }
    }

    /// Returns whether dropping it releases nothing.
    pub(super) fn are_nothing(&self) -> bool {
        self.actions.capacity() == 0 && self.account.is_none() && self.shown.is_none()
    }

    /// Notes that the job has commands of a client.
    pub(super) fn note_commands(&mut self) {
        self.streams = 1;
    }

    /// Reserves memory for `count` more actions.
    pub(super) fn reserve(&mut self, count: usize) -> Result {
        Ok(self.actions.reserve(count, crate::sys::GFP_CLIENT)?)
    }

    pub(super) fn push(&mut self, action: Action) -> Result {
        Ok(self.actions.push(action, crate::sys::GFP_CLIENT)?)
    }

    /// Makes `page` show the end of this job, the next one that it counts on core `core`. The page
    /// shows it before the actions run.
    pub(super) fn show_on(&mut self, page: &Arc<CompletionPage>, core: usize) {
        self.shown = Some((page.clone(), core, page.newest(core) + 1));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Action> {
        self.actions.iter()
    }
}

impl Payload for Events {
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        if let Some((page, core, number)) = self.shown.take() {
            page.show(core, number, outcome);
        }
        if let (Outcome::Done, true, Some(account)) = (outcome, self.streams != 0, &self.account) {
            account.note_known(true);
        }
        let actions = self.actions.drain_all();
        actions.for_each(|action| action.run(outcome));
    }

    fn is_reusable(&self) -> bool {
        self.actions.capacity() <= SPARE_ROOM
    }

    fn actions(&self) -> usize {
        self.actions.len()
    }

    #[inline]
    fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    fn named_by(process: u64, words: &[&[u32]], base: Option<u32>) -> Option<Named> {
        let process = CLIENTS.get()?.process(process)?;
        Some(named_by(&process, words, base))
    }

    fn culprit(process: u64) -> Option<Culprit> {
        CLIENTS.get()?.culprit(process)
    }

    fn core_was_reset(core: usize, losses: &[Loss], cost: u32) {
        let Some(clients) = CLIENTS.get().filter(|_| !losses.is_empty()) else {
            return;
        };
        clients.charge(core, losses, cost);
    }
}

/// Offset of the page in the file. It is above every address that names a buffer.
pub(crate) const FILE_OFFSET: u64 = 1 << 36;

/// Version of the layout.
const VERSION: u32 = 1;

/// Offsets in the head, in bytes: the version and the number of slots.
const HEAD_VERSION: usize = 0;
const HEAD_CORES: usize = 4;

/// Bytes of the head, and of each slot after it: not less than a cache line of any processor.
const HEAD_BYTES: usize = 64;
const SLOT_BYTES: usize = 64;

/// Offsets in a slot, in bytes.
const SEQUENCE: usize = 0;
const COMPLETED: usize = 8;
const TIMESTAMP: usize = 16;
const DROPPED: usize = 24;

const _: () = assert!(HEAD_BYTES + MAX_CORES * SLOT_BYTES <= PAGE_SIZE);

/// The page of one process. Its lock is a leaf.
#[pin_data]
pub(crate) struct CompletionPage {
    pages: Pages,
    /// By core, number of the newest job.
    submitted: [Atomic<u64>; MAX_CORES],
    /// By core, the slot's sequence number.
    #[pin]
    sequences: SpinLock<[u32; MAX_CORES]>,
}

impl CompletionPage {
    /// A page without ended jobs.
    pub(crate) fn new(dev: &dma::Device) -> Result<Arc<Self>> {
        let pages = Pages::allocate(dev, 1, |_| {})?;
        pages.poke(HEAD_VERSION, VERSION);
        // CAST: a few.
        pages.poke(HEAD_CORES, MAX_CORES as u32);
        Ok(Arc::pin_init(
            pin_init!(Self {
                pages,
                submitted: [const { Atomic::new(0) }; MAX_CORES],
                sequences <- new_spinlock!([0; MAX_CORES], "galcore completion page"),
            }),
            sys::GFP_CLIENT,
        )?)
    }

    /// Counts a job of core `core`. Called in the ring's order, under the tables' lock.
    pub(crate) fn count(&self, core: usize) {
        self.submitted[core].fetch_add(1, Relaxed);
    }

    /// The number of the newest job of core `core`.
    pub(crate) fn newest(&self, core: usize) -> u64 {
        self.submitted[core].load(Relaxed)
    }

    /// Shows that job `number` of core `core` has ended now with `outcome`.
    pub(crate) fn show(&self, core: usize, number: u64, outcome: Outcome) {
        let slot = HEAD_BYTES + core * SLOT_BYTES;
        let mut sequences = self.sequences.lock();
        let sequence = &mut sequences[core];
        *sequence = sequence.wrapping_add(1);
        let now = sys::monotonic_ns();
        self.pages.poke(slot + SEQUENCE, *sequence);
        sys::barrier::smp_write();
        let poke = |at, value: u64| {
            // CAST: the two halves.
            self.pages.poke(slot + at, value as u32);
            self.pages.poke(slot + at + 4, (value >> 32) as u32);
        };
        poke(COMPLETED, number);
        poke(TIMESTAMP, now);
        if outcome == Outcome::Dropped {
            poke(DROPPED, number);
        }
        sys::barrier::smp_write();
        *sequence = sequence.wrapping_add(1);
        self.pages.poke(slot + SEQUENCE, *sequence);
    }
}

impl Mappable for CompletionPage {
    type Memory = Pages;

    fn memory(&self) -> &Pages {
        &self.pages
    }
}

/// The completion page. The first call makes it.
pub(super) fn ask_for_completion(process: &Process) -> Result<Arc<CompletionPage>, Errno> {
    let page = CompletionPage::new(process.device.memory.owner()).map_err(|_| ENOMEM)?;
    // The lock, because only one thread at a time may populate it.
    let tables = process.tables();
    process.completion.populate(page);
    let page = process.completion().cloned();
    drop(tables);
    page.ok_or(ENOMEM)
}

impl Process {
    /// The completion page, if the process has asked for it.
    #[inline]
    pub(super) fn completion(&self) -> Option<&Arc<CompletionPage>> {
        self.completion.as_ref()
    }
}

/// The times at which a timer was started and stopped, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Timer {
    start: u64,
    stop: u64,
}

/// Starts or stops a timer.
pub(super) fn note_time(process: &Process, timer: u32, start: bool) {
    let now = sys::monotonic_ns();
    if let Some(timer) = process.timers.lock().get_mut(u32_as_usize(timer)) {
        if start {
            timer.start = now;
        } else {
            timer.stop = now;
        }
    }
}

/// Sends this process the realtime signal that the module parameters name. Only its own threads
/// can ask for it, so no permission is checked.
pub(super) fn send_signal(process: &Process, value: u32) {
    let number = process.device.parameters.signal;
    sys::send_signal(&process.leader, &process.mm, number, value);
}

pub(super) fn time_delta(process: &Process, timer: u32) -> Result<Reply<'_>> {
    let timer = process.timers.lock().get(u32_as_usize(timer)).copied();
    let timer = timer.ok_or(Error::InvalidArgument)?;
    let nanoseconds = timer
        .stop
        .checked_sub(timer.start)
        .and_then(|delta| i64::try_from(delta).ok())
        .ok_or(Error::TimerOverflow)?;
    let microseconds = Delta::from_nanos(nanoseconds).as_micros_ceil();
    i32::try_from(microseconds)
        .map(|microseconds| Reply::TimeDelta { microseconds })
        .map_err(|_| Error::TimerOverflow)
}

/// Number of words that are looked up in one hold of the tables' lock.
const STEP: usize = 1024;

/// The memory of the process that `words` name, in their order: each piece once, at most
/// [`MAX_PIECES`]. A word that only looks like an address counts, too. If `base` is given, the
/// words are physical addresses, and `base` is that of GPU address 0. The caller holds no lock.
pub(super) fn named_by(process: &Process, words: &[&[u32]], base: Option<u32>) -> Named {
    let mut named = Named {
        generation: process
            .interface()
            .map(|(choice, _)| choice.format().name()),
        pieces: KVec::new(),
    };
    for step in words.iter().flat_map(|words| words.chunks(STEP)) {
        let tables = process.tables();
        for &word in step {
            // If no memory is left, return the pieces so far.
            let is_full = named.pieces.len() >= MAX_PIECES;
            if is_full || tables.add_named(word, base, &mut named).is_err() {
                return named;
            }
        }
    }
    named
}

impl Tables {
    /// Adds the memory that `word` names, if it is the process's and is not in the list yet.
    fn add_named(&self, word: u32, base: Option<u32>, named: &mut Named) -> Result {
        let Some(address) = word.checked_sub(base.unwrap_or(0)) else {
            return Ok(());
        };
        let is_there = |piece: &Piece| piece.range.contains(address);
        let Some(range) = self.addresses.find(address) else {
            return Ok(());
        };
        if named.pieces.iter().any(is_there) {
            return Ok(());
        }
        let is_reached = |memory: &Object| match (base, memory) {
            (None, _) | (_, Object::Buffer(_)) => true,
            (Some(base), Object::Node(node)) => node.physical(base).is_some(),
            // The core reaches it only by address translation.
            (Some(_), Object::UserMemory(_)) => false,
        };
        match self.object_at(address, range).filter(is_reached) {
            Some(memory) => Ok(named.pieces.push(Piece { range, memory }, GFP_NOWAIT)?),
            None => Ok(()),
        }
    }

    /// The object that has exactly `range`. GPU address `address` lies in it.
    fn object_at(&self, address: u32, range: Range) -> Option<Object> {
        let Owner { kind, handle } = self.addresses.owner(address)?;
        let (start, memory) = match kind {
            Kind::Node => {
                let node = &self.nodes.get(handle)?.node;
                (node.address(), Object::Node((**node).clone()))
            }
            Kind::Buffer => {
                let buffer = &self.buffers.get(handle)?.buffer;
                (buffer.address(), Object::Buffer((**buffer).clone()))
            }
            Kind::UserMemory => {
                let memory = self.user_memory.get(handle)?.memory()?;
                (memory.address(), Object::UserMemory((**memory).clone()))
            }
            Kind::Framebuffer => return None,
        };
        (start == range.start()).then_some(memory)
    }
}
