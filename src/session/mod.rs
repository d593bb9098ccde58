// SPDX-License-Identifier: GPL-2.0-only

//! What a process owns, and the running of its requests.
//!
//! A [`Process`] stands for all files that one process has open: libraries open the device more
//! than once and use handles across. It ends with the last of them; then everything it owned is
//! given back, behind the GPU's last use.
//!
//! # Locks
//!
//! [`Process::tables`] is held for look-ups and changes only, never while the GPU or user space is
//! waited for. Under it: the heap's, the MMU's and the ring's, when an object goes. Page faults of the
//! pool's windows take it, and so do actions, under `galcore completion`.

mod client_context;
mod commit;
mod completion;
mod deltas;
mod foreign;
mod handles;
mod ledger;
mod names;
mod queue;
mod shared;
mod shared_buffers;

use crate::{
    abi::{
        self,
        detect::Choice,
        CacheRange,
        NamedUserMemory,
        Record,
        Reply,
        Request,
        UserSignal, //
    },
    board::Device,
    command::{
        context::Context,
        reach::Reach,
        Attempt,
        Stream,
        Turn,
        GPU_TIMEOUT, //
    },
    diag::log::{
        warn_client,
        RateLimit, //
    },
    error::{
        Error,
        Result, //
    },
    event::{
        Action,
        Actions,
        Held,
        Signal, //
    },
    memory::{
        surface,
        Backing,
        Buffer,
        Node,
        View,
        Word, //
    },
    sys::{
        self,
        chrdev::OpenFile,
        pages::Sync,
        window::{
            self,
            Pager, //
        },
    },
};
use foreign::Mapped;
use handles::Handles;
use queue::Queue;
use shared_buffers::PieceEntry;

pub(crate) use {
    completion::CompletionPage,
    ledger::Ledger,
    names::Names,
    shared::SharedNodes,
    shared_buffers::SharedBuffers, //
};

use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
    task::Task,
    time::Delta, //
};

/// The most contexts of one process: each takes contiguous memory.
const MAX_CONTEXTS: usize = 256;

/// Timers of a process.
const TIMERS: usize = 8;

/// When a timer was started and stopped, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Timer {
    start: u64,
    stop: u64,
}

/// The number of the next process. 64 bits do not come round.
static PROCESSES: Atomic<u64> = Atomic::new(1);

/// Accesses to the pool outside the process's nodes.
static STRAYS: RateLimit = RateLimit::new();

/// A process's window on the pool.
pub(crate) type PoolView = window::View<Process>;

/// A node in a process's table.
struct NodeEntry {
    node: Arc<Node>,
    locks: u32,
    /// A queue that is being submitted will free it.
    claimed: bool,
    /// FREE has come; the node goes with its last lock.
    freed: bool,
    /// Its page-backed view is being made.
    mapping: bool,
    /// Its page-backed view is to be cached.
    cached: bool,
    /// Where a page-backed node is mapped.
    user: Option<usize>,
    /// How many locks share that mapping.
    views: u32,
    /// It is another process's: the entry goes with its last lock.
    imported: bool,
    /// It came by its name: another process's books have its bytes.
    foreign: bool,
    /// How often it was imported while it was there already: so many frees more must come.
    imports: u32,
    /// Its name, once it has one.
    name: Option<names::Name<Node>>,
}

impl NodeEntry {
    /// A node that is not locked.
    fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            locks: 0,
            claimed: false,
            freed: false,
            mapping: false,
            cached: false,
            user: None,
            imported: false,
            foreign: false,
            imports: 0,
            name: None,
            views: 0,
        }
    }
}

impl NodeEntry {
    /// Locks it once more. `OutOfResources`: too often.
    fn add_lock(&mut self) -> Result {
        self.locks = self.locks.checked_add(1).ok_or(Error::OutOfResources)?;
        Ok(())
    }

    /// Takes one lock off, if there is one.
    fn take_lock_off(&mut self) {
        self.locks = self.locks.saturating_sub(1);
    }
}

/// What a FREE has claimed.
enum Claimed {
    /// The node.
    Node,
    /// One of several imports of it: the node stays.
    Import,
}

/// A contiguous buffer in a process's table.
struct BufferEntry {
    buffer: Arc<Buffer>,
    /// Where it is mapped; 0 while it is not.
    user: usize,
    /// It came by ALLOCATE_NON_PAGED_MEMORY.
    non_paged: bool,
}

/// A signal in a process's table.
struct SignalEntry {
    signal: Arc<Signal>,
    /// 1 from CREATE, and 1 for each MAP.
    references: u32,
}

struct Tables {
    nodes: Handles<NodeEntry>,
    buffers: Handles<BufferEntry>,
    signals: Handles<SignalEntry>,
    user_memory: Handles<Mapped>,
    /// Without states on cores without a 3D engine.
    contexts: Handles<Option<Arc<Context>>>,
    /// Where the process's GPU memory is: nodes, buffers and mapped user memory.
    reach: Reach,
    /// Handles of the buffers that commands came from lately; 0: none.
    command_buffers: [u32; 4],
    /// What a LOCK maps right now, and whether cached: found without a search.
    asked: Option<(Backing, bool)>,
    /// Room for the next COMMIT's commands.
    words: Option<KVVec<u32>>,
    video: Ledger,
    non_paged: Ledger,
    contiguous: Ledger,
    timers: [Timer; TIMERS],
    completion: Option<Arc<CompletionPage>>,
    pieces: KVec<PieceEntry>,
    /// Where the process has mapped the pool; the last mmap's is the last.
    pool_views: KVec<Arc<PoolView>>,
}

/// One process's objects.
#[pin_data]
pub(crate) struct Process {
    device: Arc<Device>,
    leader: ARef<Task>,
    /// No other process has had it, or will.
    number: u64,
    /// How long STALL waits, in milliseconds.
    stall_timeout: Atomic<u32>,
    /// The generation of the interface that the process's files speak, and why: that of the file that
    /// settled last. See [`abi::detect::Choice::pack`], with the bytes of the interface above.
    interface: Atomic<u32>,
    #[pin]
    tables: Mutex<Tables>,
}

impl Process {
    /// A process without objects.
    pub(crate) fn new(
        device: Arc<Device>,
        leader: ARef<Task>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        Arc::pin_init(
            pin_init!(Self {
                device,
                leader,
                number: PROCESSES.fetch_add(1, Relaxed),
                stall_timeout: Atomic::new(GPU_TIMEOUT),
                interface: Atomic::new(0),
                tables <- new_mutex!(Tables {
                    nodes: Handles::new(),
                    buffers: Handles::new(),
                    signals: Handles::new(),
                    user_memory: Handles::new(),
                    contexts: Handles::new(),
                    reach: Reach::new(),
                    command_buffers: [0; 4],
                    asked: None,
                    words: None,
                    video: Ledger::default(),
                    non_paged: Ledger::default(),
                    contiguous: Ledger::default(),
                    timers: [Timer::default(); TIMERS],
                    completion: None,
                    pieces: KVec::new(),
                    pool_views: KVec::new(),
                }, "galcore process"),
            }),
            GFP_KERNEL,
        )
    }

    /// Notes which generation of the interface a file of the process speaks, in how many bytes.
    pub(crate) fn note_interface(&self, choice: Choice, bytes: u16) {
        self.interface
            .store(choice.pack() | u32::from(bytes) << 16, Relaxed);
    }

    /// What was noted last.
    pub(crate) fn interface(&self) -> Option<(Choice, u32)> {
        let noted = self.interface.load(Relaxed);
        Choice::unpack(noted & 0xFFFF).map(|choice| (choice, noted >> 16))
    }

    /// Takes a node of the pool out of the process's windows.
    fn hide(&self, node: &Node) {
        let Some((offset, bytes)) = node.pool_range() else {
            return;
        };
        let mut at = 0;
        // One at a time: the memory manager's locks come before the tables'.
        loop {
            let view = {
                let tables = self.tables.lock();
                tables.pool_views.get(at).cloned()
            };
            match view {
                Some(view) => view.zap(offset, bytes),
                None => break,
            }
            at += 1;
        }
    }

    /// Gives everything back once the GPU cannot use it any more.
    pub(crate) fn end(self: Arc<Self>) {
        self.unshare_all();
        // The views hold the process. No window stands any more: each keeps its file open.
        let views = core::mem::take(&mut self.tables.lock().pool_views);
        drop(views);
        let device = self.device.clone();
        device.core().ring().retire(Held::Process(self));
    }

    /// Runs one request of the interface.
    ///
    /// `view` gives the pool's mapping by the file that asks, if it has one.
    pub(crate) fn run(
        self: &Arc<Self>,
        file: &OpenFile,
        view: impl FnOnce() -> Option<Arc<PoolView>>,
        request: Request,
    ) -> Result<Reply<'_>> {
        match request {
            Request::QueryVideoMemory => Ok(Reply::VideoMemory {
                pool_bytes: self.device.memory().pool_bytes() as u64,
            }),
            Request::QueryChipIdentity => Ok(Reply::ChipIdentity(self.device.identity_words())),
            Request::QueryKernelSettings => Ok(Reply::KernelSettings {
                signal: self.device.parameters().signal,
            }),
            Request::GetBaseAddress => Ok(Reply::BaseAddress(self.device.core().base_address())),
            Request::Version => Ok(Reply::Version),
            Request::ChipInfo => Ok(Reply::ChipInfo(
                self.device.core().identity().hardware_type(),
            )),
            Request::ChipOptions => {
                let identity = self.device.identity();
                Ok(Reply::ChipOptions {
                    fast_clear: identity.has_fast_clear(),
                    compression: identity.has_compression(),
                })
            }
            Request::AllocateContiguous { bytes, non_paged } => {
                self.allocate_buffer(file, bytes, non_paged)
            }
            Request::FreeContiguous(buffer) => {
                let entry = self.remove_buffer(buffer)?;
                unmap_buffer(&entry);
                self.retire(Held::Buffer(entry.buffer));
                Ok(Reply::Nothing)
            }
            Request::AllocateLinear {
                bytes,
                alignment,
                kind,
                pool,
            } => {
                let (node, pool) = self.allocate_node(bytes, alignment, kind, pool)?;
                Ok(Reply::Node { node, pool })
            }
            Request::AllocateSurface(surface) => self.allocate_surface(surface),
            Request::Lock {
                node,
                cacheable,
                again,
            } => self.lock(file, view(), node, cacheable, again),
            Request::Unlock { node } => self.unlock(node),
            Request::NameNode { node } => self.name_node(node),
            Request::ImportNode { name } => self.import_named(name),
            Request::Wrap(what) => self.wrap(what),
            Request::ExportNode { node } => self.export_node(node),
            Request::SharedBuffer(command) => self.shared_buffer(command),
            Request::CreateFence { signal } => {
                if self.device.parameters().linux_signal {
                    return Err(Error::InvalidArgument);
                }
                self.signal(signal)?.fence_file().map(Reply::File)
            }
            Request::WaitFence { fd, milliseconds } => {
                sys::fence::wait(fd, milliseconds)?;
                Ok(Reply::Nothing)
            }
            Request::FinishUnlock { node } => self.queue_unlock(node),
            Request::FreeNode { node, if_unlocked } => {
                self.free_node(node, if_unlocked).map(|()| Reply::Nothing)
            }
            Request::UserSignal(command) => self.user_signal(command),
            Request::Attach => self.attach(),
            Request::Detach { context } => {
                // What the GPU still reads is kept by the submissions that load it.
                let removed = self.tables.lock().contexts.remove(context);
                removed
                    .map(|_| Reply::Nothing)
                    .ok_or(Error::InvalidArgument)
            }
            Request::Commit(commit) => self.commit(commit),
            Request::EventCommit { queue, format } => self.event_commit(queue, format),
            Request::Stall => {
                let timeout = self.stall_timeout.load(Relaxed);
                self.device.core().ring().wait_idle(timeout)?;
                Ok(Reply::Nothing)
            }
            Request::Cache(range) => self.maintain_cache(range).map(|()| Reply::Nothing),
            Request::MapMemory { handle } => self.map_memory(file, handle),
            Request::UnmapMemory { handle } => {
                if handle == 0 {
                    return Err(Error::InvalidArgument);
                }
                let mut tables = self.tables.lock();
                let entry = tables.buffers.get_mut(handle).ok_or(Error::NotFound)?;
                if entry.user == 0 {
                    return Err(Error::InvalidArgument);
                }
                let (user, buffer) = (core::mem::take(&mut entry.user), entry.buffer.clone());
                drop(tables);
                sys::vma::unmap(user, &buffer);
                Ok(Reply::Nothing)
            }
            Request::MapUser { user, bytes } => {
                if user == 0 || bytes == 0 {
                    return Err(Error::InvalidArgument);
                }
                let memory = self.device.memory().map_user(user, bytes, true)?;
                let (info, address) = self.insert_user_memory(memory)?;
                Ok(Reply::UserMemory { info, address })
            }
            Request::UnmapUser(named) => {
                let mapped = self.remove_user_memory(named)?;
                self.unmap_foreign(mapped);
                Ok(Reply::Nothing)
            }
            Request::QueryPower => Ok(Reply::Power {
                is_idle: self.device.core().idle_state().is_idle,
            }),
            Request::QueryTimer { timer } => self.time_delta(timer),
            Request::Database { process } => {
                // Other processes' books are theirs.
                if i32::try_from(process).ok() != Some(self.leader.tgid_nr_ns(None)) {
                    return Err(Error::InvalidData);
                }
                let ledgers = {
                    let tables = self.tables.lock();
                    [tables.video, tables.non_paged, tables.contiguous]
                };
                Ok(Reply::Database(KBox::new(ledgers, GFP_KERNEL)?))
            }
            Request::SetTimeout { milliseconds } => {
                self.stall_timeout
                    .store(milliseconds.min(GPU_TIMEOUT), Relaxed);
                Ok(Reply::Nothing)
            }
            Request::QueryResets => Ok(Reply::Resets { count: 0 }),
            Request::Ignored => Ok(Reply::Nothing),
            Request::Refused(error) => Err(error),
        }
    }

    /// Maps what the file offset of `area` names: the pool at 0, or a buffer of this process.
    ///
    /// Returns the view, if it is one of the pool.
    pub(crate) fn mmap(
        self: &Arc<Self>,
        area: &VmaNew,
    ) -> Result<Option<Arc<PoolView>>, kernel::error::Error> {
        let offset = sys::vma::file_offset(area);
        if offset == 0 {
            let view = self.device.memory().map_pool(area, self.clone())?;
            let mut tables = self.tables.lock();
            tables.pool_views.retain(|view| !view.is_over());
            tables.pool_views.push(view.clone(), GFP_KERNEL)?;
            drop(tables);
            view.clone().attach(area);
            return Ok(Some(view));
        }
        if offset == completion::FILE_OFFSET {
            sys::vma::make_read_only(area)?;
            let page = self.ask_for_completion()?;
            return sys::vma::map(area, page, true).map(|()| None);
        }
        let (backing, cached) = self.tables.lock().backing_at(offset).ok_or(EINVAL)?;
        backing.map(area, cached).map(|()| None)
    }

    /// ATTACH: a context with states as after a reset.
    ///
    /// `OutOfResources`: the process has [`MAX_CONTEXTS`]. `OutOfMemory`.
    fn attach(&self) -> Result<Reply<'_>> {
        let core = self.device.core();
        let map = core.state_map();
        let context = match core.engines().pipe_3d {
            true => Some(Context::new(self.device.memory(), map)?),
            false => None,
        };
        let mut tables = self.tables.lock();
        if tables.contexts.len() >= MAX_CONTEXTS {
            drop(tables);
            return Err(Error::OutOfResources);
        }
        let held = context.clone();
        let inserted = tables.contexts.insert(context);
        drop(tables);
        drop(held);
        Ok(Reply::Context {
            context: inserted?,
            // CAST: at most 64 bits.
            state_count: map.state_count() as u64,
        })
    }

    /// The completion page, made if it is not there yet.
    fn ask_for_completion(&self) -> Result<Arc<CompletionPage>, kernel::error::Error> {
        let page = CompletionPage::new(self.device.core().device()).map_err(|_| ENOMEM)?;
        let mut tables = self.tables.lock();
        Ok(tables.completion.get_or_insert(page).clone())
    }

    /// The completion page, if the process has asked for it.
    fn completion(&self) -> Option<Arc<CompletionPage>> {
        self.tables.lock().completion.clone()
    }

    /// Submits `work`, and the queue behind it; with a completion page, numbers the submission and
    /// shows its end before its other actions run.
    fn submit(&self, work: &mut impl Work, queue: &mut Queue<'_>) -> Result<Reply<'_>> {
        let ring = self.device.core().ring();
        let page = self.completion();
        // Room first, for the number, which is only known when nothing may fail any more, and a context.
        queue.actions().reserve(2, GFP_KERNEL)?;
        let number = Atomic::new(0u64);
        let count = |actions: &mut Actions| {
            if let Some(page) = &page {
                let mine = page.count();
                number.store(mine, Relaxed);
                let _ = actions.insert_within_capacity(0, Action::Show(page.clone(), mine));
            }
        };
        let mut patience = ring.patience();
        let mut turn = None;
        loop {
            let attempt = {
                let mut tables = self.tables.lock();
                work.check(&tables)?;
                let attempt =
                    ring.begin(work.stream(), queue.actions(), Some(&count), &mut turn)?;
                if let Attempt::Turn(_) = attempt {
                    queue.withdraw(&mut tables);
                }
                attempt
            };
            match attempt {
                Attempt::Turn(turn) => {
                    work.begun(turn);
                    ring.finish(turn, work.stream())?;
                    break;
                }
                Attempt::Full => ring.wait_for_place(&mut patience)?,
                Attempt::NotLoaded => work.load()?,
            }
        }
        Ok(match page {
            Some(_) => Reply::Submitted {
                number: number.load(Relaxed),
            },
            None => Reply::Nothing,
        })
    }

    /// Notes when a timer starts or stops.
    pub(crate) fn note_time(&self, timer: u32, start: bool) {
        let now = sys::monotonic_ns();
        // CAST: 32 bits into at least 32.
        if let Some(timer) = self.tables.lock().timers.get_mut(timer as usize) {
            if start {
                timer.start = now;
            } else {
                timer.stop = now;
            }
        }
    }

    /// Sends the realtime signal of the parameters to this process.
    pub(crate) fn send_signal(&self, value: u32) {
        let number = self.device.parameters().signal;
        sys::send_signal(&self.leader, number, value);
    }

    fn time_delta(&self, timer: u32) -> Result<Reply<'_>> {
        let tables = self.tables.lock();
        // CAST: 32 bits into at least 32.
        let timer = tables
            .timers
            .get(timer as usize)
            .ok_or(Error::InvalidArgument)?;
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

    /// Drops `held` behind everything that is in the ring now.
    fn retire(&self, held: Held) {
        self.device.core().ring().retire(held);
    }

    fn allocate_buffer(
        self: &Arc<Self>,
        file: &OpenFile,
        bytes: u64,
        non_paged: bool,
    ) -> Result<Reply<'_>> {
        let buffer = self.device.memory().allocate_buffer(bytes)?;
        let handle = {
            let mut tables = self.tables.lock();
            tables.reach.add(buffer.address(), buffer.bytes())?;
            let inserted = tables.buffers.insert(BufferEntry {
                buffer: buffer.clone(),
                user: 0,
                non_paged,
            });
            let handle = inserted.inspect_err(|_| {
                tables.reach.remove(buffer.address());
            })?;
            tables.buffer_ledger(non_paged).add(buffer.bytes());
            handle
        };
        let mapped = Backing::Contiguous(buffer.clone()).map_into_caller(file);
        let mut tables = self.tables.lock();
        let entry = tables.buffers.get_mut(handle);
        match (mapped, entry) {
            (Ok(user), Some(entry)) => {
                entry.user = user;
                Ok(Reply::Buffer {
                    bytes: buffer.bytes() as u64,
                    address: buffer.address(),
                    handle,
                    user: user as u64,
                })
            }
            (mapped, _) => {
                let entry = tables.remove_buffer(handle);
                drop(tables);
                drop(entry);
                let user = mapped?;
                // Another thread guessed the handle and freed it meanwhile.
                sys::vma::unmap(user, &buffer);
                Err(Error::NotFound)
            }
        }
    }

    /// Takes a buffer out of the table. `InvalidArgument`: a field is 0. `NotFound`: unknown.
    fn remove_buffer(&self, named: crate::abi::NamedBuffer) -> Result<BufferEntry> {
        if named.bytes == 0 || named.handle == 0 || named.user == 0 {
            return Err(Error::InvalidArgument);
        }
        self.tables
            .lock()
            .remove_buffer(named.handle)
            .ok_or(Error::NotFound)
    }

    /// Takes pinned user memory out of the table. `InvalidArgument`: a field is 0. `NotFound`: unknown.
    fn remove_user_memory(&self, named: NamedUserMemory) -> Result<Mapped> {
        if named.user == 0 || named.bytes == 0 || named.info == 0 {
            return Err(Error::InvalidArgument);
        }
        let mut tables = self.tables.lock();
        let mapped = tables.user_memory.remove(named.info);
        let mapped = mapped.ok_or(Error::NotFound)?;
        if let Some(memory) = mapped.memory() {
            tables.reach.remove(memory.address());
        }
        Ok(mapped)
    }

    /// MAP_MEMORY: the caller's view of a buffer, made anew if UNMAP_MEMORY has ended it.
    fn map_memory(self: &Arc<Self>, file: &OpenFile, handle: u32) -> Result<Reply<'_>> {
        if handle == 0 {
            return Err(Error::InvalidArgument);
        }
        let (buffer, user) = {
            let tables = self.tables.lock();
            let entry = tables.buffers.get(handle).ok_or(Error::NotFound)?;
            (entry.buffer.clone(), entry.user)
        };
        if user != 0 {
            return Ok(Reply::Mapped { user: user as u64 });
        }
        let user = Backing::Contiguous(buffer.clone()).map_into_caller(file)?;
        let mut tables = self.tables.lock();
        match tables.buffers.get_mut(handle) {
            Some(entry) if entry.user == 0 => {
                entry.user = user;
                Ok(Reply::Mapped { user: user as u64 })
            }
            // Another thread was quicker, or has freed it.
            entry => {
                let first = entry.map(|entry| entry.user);
                drop(tables);
                sys::vma::unmap(user, &buffer);
                first
                    .map(|user| Reply::Mapped { user: user as u64 })
                    .ok_or(Error::NotFound)
            }
        }
    }

    /// CACHE: hands a range of the caller's own memory to the GPU or back.
    ///
    /// `InvalidArgument`: no such operation, no range. `InvalidAddress`: the range is not the
    /// caller's. A pure invalidation does not exist here: it would drop what others wrote beside it.
    fn maintain_cache(&self, range: CacheRange) -> Result {
        let direction = match range.operation {
            // CLEAN, FLUSH.
            1 | 3 => Some(Sync::ForDevice),
            // INVALIDATE.
            2 => Some(Sync::ForCpu),
            // MEMORY_BARRIER: the system call is one.
            4 => None,
            _ => return Err(Error::InvalidArgument),
        };
        let Some(direction) = direction else {
            return Ok(());
        };
        if range.node != 0 && (range.user == 0 || range.bytes == 0) {
            return Err(Error::InvalidArgument);
        }
        let user = usize::try_from(range.user).map_err(|_| Error::InvalidAddress)?;
        let bytes = usize::try_from(range.bytes).map_err(|_| Error::InvalidAddress)?;
        let tables = self.tables.lock();
        let pinned = tables
            .user_memory
            .values()
            .filter_map(Mapped::memory)
            .find(|memory| memory.contains(user, bytes));
        if let Some(memory) = pinned.cloned() {
            drop(tables);
            memory.sync(user, bytes, direction);
            return Ok(());
        }
        if range.node == 0 {
            // Foreign memory, which the client keeps in order itself.
            return Ok(());
        }
        let entry = tables.nodes.get(range.node).ok_or(Error::InvalidObject)?;
        if let Some(memory) = entry.node.wrapped() {
            if memory.is_users() && !memory.contains(user, bytes) {
                return Err(Error::InvalidAddress);
            }
            let node = entry.node.clone();
            drop(tables);
            if let Some(memory) = node.wrapped() {
                memory.sync(user, bytes, direction);
            }
            return Ok(());
        }
        if let (true, Some(start), View::Pages(Backing::Scattered(pages))) =
            (entry.cached, entry.user, entry.node.view())
        {
            let at = user.checked_sub(start).ok_or(Error::InvalidAddress)?;
            if at.checked_add(bytes).is_none_or(|end| end > pages.bytes()) {
                return Err(Error::InvalidAddress);
            }
            drop(tables);
            pages.sync(at, bytes, direction);
        }
        // Every other view is write-combined: there is nothing to maintain.
        Ok(())
    }

    /// ALLOCATE_VIDEO_MEMORY: the surface's size is the kernel's to know.
    fn allocate_surface(self: &Arc<Self>, surface: abi::Surface) -> Result<Reply<'_>> {
        let has_super_tiles = self.device.identity().super_tile_mode != 0;
        let size = surface::size(&surface, has_super_tiles)?;
        let (node, pool) =
            self.allocate_node(size.bytes, surface::ALIGNMENT, surface.kind, surface.pool)?;
        Ok(Reply::Surface {
            width: size.width,
            height: size.height,
            pool,
            node,
        })
    }

    /// Returns the handle, and the pool that it is from.
    fn allocate_node(
        self: &Arc<Self>,
        bytes: u32,
        alignment: u32,
        kind: u32,
        pool: u32,
    ) -> Result<(u32, u32)> {
        let memory = self.device.memory();
        let node = match memory.allocate_node(bytes, alignment, kind, pool, self.number) {
            // What was freed may still wait for the GPU: let it come back, and try once more.
            Err(Error::OutOfMemory) if memory.could_have(bytes, pool) => {
                match self.device.core().ring().wait_idle(GPU_TIMEOUT) {
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    _ => self.device.core().space().settle()?,
                }
                memory.allocate_node(bytes, alignment, kind, pool, self.number)?
            }
            other => other?,
        };
        let pool = node.pool().number();
        let (granted, address) = (node.bytes(), node.address());
        {
            let mut tables = self.tables.lock();
            tables.reach.add(address, granted)?;
            tables.video.add(granted);
        }
        let node = self.insert_reached(NodeEntry::new(node));
        if node.is_err() {
            self.tables.lock().video.remove(granted);
        }
        node.map(|node| (node, pool))
    }

    /// Has `entry`, whose addresses are in reach, in the table; should that fail, they are not any more.
    fn insert_reached(self: &Arc<Self>, entry: NodeEntry) -> Result<u32> {
        // Dropped after the lock, should it not be kept.
        let held = entry.node.clone();
        let inserted = self.insert_node(entry);
        if inserted.is_err() {
            self.tables.lock().reach.remove(held.address());
        }
        inserted
    }

    fn lock(
        self: &Arc<Self>,
        file: &OpenFile,
        view: Option<Arc<PoolView>>,
        handle: u32,
        cacheable: bool,
        again: bool,
    ) -> Result<Reply<'_>> {
        self.import(handle)?;
        let result = self.lock_own(file, view, handle, cacheable, again);
        if result.is_err() {
            self.drop_if_over(handle);
        }
        result
    }

    fn lock_own(
        self: &Arc<Self>,
        file: &OpenFile,
        view: Option<Arc<PoolView>>,
        handle: u32,
        cacheable: bool,
        again: bool,
    ) -> Result<Reply<'_>> {
        let (address, backing) = {
            let mut tables = self.tables.lock();
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            if entry.freed || entry.claimed {
                return Err(Error::InvalidObject);
            }
            let address = entry.node.address();
            match entry.node.view() {
                View::Pool(_) if cacheable => return Err(Error::InvalidRequest),
                View::Pool(offset) => {
                    entry.add_lock()?;
                    let user = tables.in_pool(view, offset);
                    drop(tables);
                    return match user.or_else(|| self.map_whole_pool(file, offset)) {
                        Some(user) => Ok(Reply::Locked {
                            address,
                            user: user as u64,
                        }),
                        None => {
                            let _ = self.unlock(handle);
                            Err(Error::OutOfMemory)
                        }
                    };
                }
                View::Own(user) => {
                    entry.add_lock()?;
                    // Only in the process that wrapped it.
                    let user = if entry.imported { 0 } else { user };
                    return Ok(Reply::Locked {
                        address,
                        // CAST: at most 64 bits.
                        user: user as u64,
                    });
                }
                // As the C driver: older clients lock as often as they want, and get the same view;
                // for newer ones a second view in one process is refused.
                View::Pages(_) if again && entry.user.is_some() && entry.cached == cacheable => {
                    let user = entry.user.ok_or(Error::MemoryLocked)?;
                    let views = entry.views.checked_add(1).ok_or(Error::OutOfResources)?;
                    entry.add_lock()?;
                    entry.views = views;
                    return Ok(Reply::Locked {
                        address,
                        // CAST: at most 64 bits.
                        user: user as u64,
                    });
                }
                View::Pages(_) if entry.user.is_some() || entry.mapping => {
                    return Err(Error::MemoryLocked)
                }
                View::Pages(backing) => {
                    entry.add_lock()?;
                    entry.mapping = true;
                    entry.cached = cacheable;
                    tables.asked = Some((backing.clone(), cacheable));
                    (address, backing)
                }
            }
        };
        let mapped = backing.map_into_caller(file);
        let mut tables = self.tables.lock();
        // Never the last reference: each LOCK has its own.
        tables.asked = None;
        match (mapped, tables.nodes.get_mut(handle)) {
            (Ok(user), Some(entry)) => {
                entry.mapping = false;
                entry.user = Some(user);
                entry.views = 1;
                Ok(Reply::Locked {
                    address,
                    user: user as u64,
                })
            }
            (Ok(user), None) => {
                drop(tables);
                backing.unmap(user);
                Err(Error::InvalidObject)
            }
            (Err(error), entry) => {
                if let Some(entry) = entry {
                    entry.mapping = false;
                    entry.take_lock_off();
                }
                Err(error)
            }
        }
    }

    /// Maps all of the pool for a client that has not: returns where byte `offset` of it is.
    fn map_whole_pool(&self, file: &OpenFile, offset: usize) -> Option<usize> {
        let bytes = self.device.memory().pool_bytes();
        let start = file.map_into_caller(bytes, 0).ok()?;
        start.checked_add(offset)
    }

    /// The ioctl half of UNLOCK: all of it for a node in the pool; for a page-backed one the end of
    /// the user's view, with the lock itself left to the event that must follow.
    fn unlock(&self, handle: u32) -> Result<Reply<'_>> {
        // Another process's node, which this one has not locked, is there, and not locked.
        self.import(handle)?;
        let (pages, user) = {
            let mut tables = self.tables.lock();
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            match entry.node.view() {
                View::Pages(backing) if entry.locks > 0 => {
                    entry.views = entry.views.saturating_sub(1);
                    let user = match entry.views {
                        0 => entry.user.take(),
                        _ => None,
                    };
                    (Some(backing), user)
                }
                _ if entry.locks == 0 => {
                    drop(tables);
                    self.drop_if_over(handle);
                    return Err(Error::MemoryUnlocked);
                }
                _ => {
                    entry.take_lock_off();
                    (None, None)
                }
            }
        };
        if let (Some(backing), Some(user)) = (&pages, user) {
            backing.unmap(user);
        }
        if pages.is_none() {
            self.drop_if_over(handle);
        }
        Ok(Reply::Unlocked {
            asynchronous: pages.is_some(),
        })
    }

    /// Ends the caller's view of a page-backed node that is not locked: its unlocks came by records
    /// alone, which run where the view cannot be ended.
    fn end_view(&self, handle: u32) {
        let idle = {
            let mut tables = self.tables.lock();
            match tables.nodes.get_mut(handle) {
                Some(entry) if entry.locks == 0 => match entry.node.view() {
                    View::Pages(backing) => entry.user.take().map(|user| (backing, user)),
                    View::Pool(_) | View::Own(_) => None,
                },
                _ => None,
            }
        };
        if let Some((backing, user)) = idle {
            backing.unmap(user);
        }
    }

    /// The event half of UNLOCK, for page-backed nodes.
    pub(crate) fn finish_unlock(&self, handle: u32) {
        let mut tables = self.tables.lock();
        if let Some(entry) = tables.nodes.get_mut(handle) {
            if matches!(entry.node.view(), View::Pages(_)) {
                entry.take_lock_off();
            }
        }
        drop(tables);
        self.drop_if_over(handle);
    }

    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: the event half of UNLOCK, behind what is in the ring.
    fn queue_unlock(self: &Arc<Self>, handle: u32) -> Result<Reply<'_>> {
        if self.tables.lock().nodes.get(handle).is_none() {
            return Err(Error::InvalidObject);
        }
        self.queue_record(Record::Unlock { node: handle })
    }

    /// Claims a node for who will free it. `InvalidObject`: handle 0. `InvalidData`: unknown,
    /// claimed or freed already. `MemoryLocked`: locked, and it is wanted only `if_unlocked`.
    fn claim_node(&self, handle: u32, if_unlocked: bool) -> Result<Claimed> {
        if handle == 0 {
            return Err(Error::InvalidObject);
        }
        match self.tables.lock().nodes.get_mut(handle) {
            Some(entry) if if_unlocked && !entry.freed && !entry.claimed && entry.locks > 0 => {
                Err(Error::MemoryLocked)
            }
            Some(entry) if !entry.freed && !entry.claimed && entry.imports > 0 => {
                entry.imports -= 1;
                Ok(Claimed::Import)
            }
            Some(entry) if !entry.freed && !entry.claimed => {
                entry.claimed = true;
                Ok(Claimed::Node)
            }
            _ => Err(Error::InvalidData),
        }
    }

    /// FREE. Errors as [`Process::claim_node`].
    fn free_node(self: &Arc<Self>, handle: u32, if_unlocked: bool) -> Result {
        let owner = self.owner_of(handle);
        if let Claimed::Node = owner.claim_node(handle, if_unlocked)? {
            self.end_view(handle);
            owner.finish_free(handle);
        }
        Ok(())
    }

    /// Takes a claim back.
    fn unclaim_node(&self, handle: u32, claimed: &Claimed) {
        if let Some(entry) = self.tables.lock().nodes.get_mut(handle) {
            match claimed {
                Claimed::Node => entry.claimed = false,
                Claimed::Import => entry.imports = entry.imports.saturating_add(1),
            }
        }
    }

    /// Frees a claimed node, unless it is locked: then its last unlock does.
    pub(crate) fn finish_free(&self, handle: u32) {
        if let Some(entry) = self.tables.lock().nodes.get_mut(handle) {
            entry.freed = true;
        }
        self.unshare(handle);
        self.drop_if_over(handle);
    }

    fn drop_if_over(&self, handle: u32) {
        let over = {
            let mut tables = self.tables.lock();
            match tables.nodes.get(handle) {
                Some(entry) if (entry.freed || entry.imported) && entry.locks == 0 => {
                    let bytes = entry.node.bytes();
                    let is_ours = !entry.imported && !entry.foreign;
                    let address = entry.node.address();
                    if is_ours {
                        tables.video.remove(bytes);
                    }
                    let shown = tables.reach.remove(address);
                    tables.nodes.remove(handle).map(|entry| (entry, shown))
                }
                _ => None,
            }
        };
        if let Some((entry, shown)) = over {
            if shown {
                self.hide(&entry.node);
            }
            self.retire(Held::Node(entry.node));
        }
    }

    fn signal(&self, id: u32) -> Result<Arc<Signal>> {
        let tables = self.tables.lock();
        let entry = tables.signals.get(id).ok_or(Error::NotFound)?;
        Ok(entry.signal.clone())
    }

    fn user_signal(&self, command: UserSignal) -> Result<Reply<'_>> {
        if self.device.parameters().linux_signal {
            return Err(Error::InvalidArgument);
        }
        match command {
            UserSignal::Create { manual_reset } => {
                let signal = Signal::new(manual_reset)?;
                let id = self.tables.lock().signals.insert(SignalEntry {
                    signal,
                    references: 1,
                })?;
                Ok(Reply::Signal { id })
            }
            UserSignal::Destroy { id } => {
                let over = {
                    let mut tables = self.tables.lock();
                    let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                    entry.references -= 1;
                    match entry.references {
                        0 => tables.signals.remove(id),
                        _ => None,
                    }
                };
                if let Some(entry) = over {
                    entry.signal.end();
                }
                Ok(Reply::Nothing)
            }
            UserSignal::Signal { id, state } => {
                self.signal(id)?.signal(state);
                Ok(Reply::Nothing)
            }
            UserSignal::Wait { id, milliseconds } => {
                self.signal(id)?.wait(milliseconds)?;
                Ok(Reply::Nothing)
            }
            UserSignal::Map { id } => {
                let mut tables = self.tables.lock();
                let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                entry.references = entry
                    .references
                    .checked_add(1)
                    .ok_or(Error::OutOfResources)?;
                Ok(Reply::Nothing)
            }
            UserSignal::Unknown => Err(Error::InvalidArgument),
        }
    }
}

/// What a process submits.
trait Work {
    /// Looks at what may have changed since it was looked at last. Called under the tables' lock
    /// before each try to get a place in the ring: what it finds there is so when the submission takes
    /// its place, and memory that leaves the tables later is kept until the submission has ended.
    fn check(&mut self, tables: &Tables) -> Result;

    /// The commands, if any.
    fn stream(&self) -> Option<Stream<'_>>;

    /// Makes the commands' context ready to be loaded. May wait; no lock is held.
    fn load(&mut self) -> Result;

    /// A place has been taken. Others wait until it is filled.
    fn begun(&mut self, turn: &Turn);
}

/// Nothing but a queue.
struct QueueOnly;

impl Work for QueueOnly {
    fn check(&mut self, _: &Tables) -> Result {
        Ok(())
    }

    fn stream(&self) -> Option<Stream<'_>> {
        None
    }

    fn load(&mut self) -> Result {
        Ok(())
    }

    fn begun(&mut self, _: &Turn) {}
}

impl Pager for Process {
    fn grant(&self, offset: usize, show: &mut dyn FnMut(usize, usize)) {
        let memory = self.device.memory();
        if memory.is_pool_shared() {
            show(0, memory.pool_bytes());
            return;
        }
        // Under the lock: whoever takes the node out then unmaps it, and must come later.
        let mut tables = self.tables.lock();
        let base = memory.pool_address();
        let shown = u32::try_from(offset)
            .ok()
            .and_then(|offset| base.checked_add(offset))
            .and_then(|address| tables.reach.show(address));
        match shown {
            // CAST: 32 bits into at least 32. Nothing else lies at the pool's addresses.
            Some(node) => show((node.start() - base) as usize, node.bytes()),
            None => warn_client!(
                STRAYS,
                "touches the pool at offset {:#x}, which is in none of its nodes (see sharedPool)",
                offset
            ),
        }
    }
}

impl Tables {
    fn buffer_ledger(&mut self, non_paged: bool) -> &mut Ledger {
        if non_paged {
            &mut self.non_paged
        } else {
            &mut self.contiguous
        }
    }

    /// Takes a buffer out, with its bytes out of the book.
    fn remove_buffer(&mut self, handle: u32) -> Option<BufferEntry> {
        let entry = self.buffers.remove(handle)?;
        self.reach.remove(entry.buffer.address());
        self.buffer_ledger(entry.non_paged)
            .remove(entry.buffer.bytes());
        Some(entry)
    }

    /// The word at GPU address `address`, if it lies in memory of this process.
    fn word_at(&self, address: u32) -> Option<Word> {
        let buffers = self.buffers.values();
        let nodes = self.nodes.values().filter(|entry| entry.locks > 0);
        let mapped = self.user_memory.values();
        nodes
            .filter_map(|entry| Word::in_node(&entry.node, address))
            .next()
            .or_else(|| {
                buffers
                    .filter_map(|entry| Word::in_buffer(&entry.buffer, address))
                    .next()
            })
            .or_else(|| {
                mapped
                    .filter_map(|mapped| mapped.word(address))
                    .next()
            })
    }

    /// Where byte `offset` of the pool is in the calling process: by `view`, or by the last one that
    /// reaches so far.
    fn in_pool(&self, view: Option<Arc<PoolView>>, offset: usize) -> Option<usize> {
        let all = self.pool_views.iter().rev();
        // `Init` has a `chain` too, so this one is called by its trait.
        Iterator::chain(view.iter(), all)
            .filter_map(|view| view.place())
            .find(|&(_, bytes)| offset < bytes)
            .map(|(start, _)| start + offset)
    }

    /// The buffer, or page-backed node, whose file offset is `offset`, and whether its view is to be
    /// cached.
    fn backing_at(&self, offset: u64) -> Option<(Backing, bool)> {
        if let Some((backing, cached)) = &self.asked {
            if backing.file_offset() == offset {
                return Some((backing.clone(), *cached));
            }
        }
        let buffers = self
            .buffers
            .values()
            .map(|entry| (Backing::Contiguous(entry.buffer.clone()), false));
        let nodes = self
            .nodes
            .values()
            .filter_map(|entry| match entry.node.view() {
                View::Pages(backing) => Some((backing, entry.cached)),
                View::Pool(_) | View::Own(_) => None,
            });
        // `Init` has a `chain` too, so this one is called by its trait.
        Iterator::chain(buffers, nodes).find(|(backing, _)| backing.file_offset() == offset)
    }

    /// How many bytes of one piece of this process's GPU memory lie at user address `user` and
    /// behind it; `None`: it lies in none.
    fn bytes_from(&mut self, user: usize) -> Option<usize> {
        let inside = |start: usize, bytes: usize| {
            let at = user.checked_sub(start)?;
            bytes.checked_sub(at).filter(|&left| left > 0)
        };
        let in_buffer = |entry: &BufferEntry| match entry.user {
            0 => None,
            start => inside(start, entry.buffer.bytes()),
        };
        // Clients write their commands into few buffers, in turn.
        for &handle in &self.command_buffers {
            if let Some(left) = self.buffers.get(handle).and_then(in_buffer) {
                return Some(left);
            }
        }
        if let Some((handle, left)) = self.buffers.find_map(in_buffer) {
            self.command_buffers.rotate_right(1);
            self.command_buffers[0] = handle;
            return Some(left);
        }
        self.nodes
            .values()
            .filter(|entry| entry.locks > 0)
            .find_map(|entry| match entry.node.view() {
                View::Pages(backing) => inside(entry.user?, backing.bytes()),
                View::Own(user) => inside(user, entry.node.bytes()),
                View::Pool(_) => {
                    let (offset, bytes) = entry.node.pool_range()?;
                    self.pool_views
                        .iter()
                        .filter_map(|view| view.place())
                        .filter(|&(_, length)| offset < length)
                        .find_map(|(start, length)| {
                            inside(start + offset, bytes.min(length - offset))
                        })
                }
            })
    }
}

/// Ends the caller's view of a buffer.
fn unmap_buffer(entry: &BufferEntry) {
    if entry.user != 0 {
        sys::vma::unmap(entry.user, &entry.buffer);
    }
}
