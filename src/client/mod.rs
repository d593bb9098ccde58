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
//! pool's windows take it. Actions, in the interrupt's thread, do not: see [`changes`].

pub(crate) mod action;
mod changes;
mod client_context;
mod commit;
mod completion;
mod deltas;
mod ending;
mod foreign;
mod guesses;
mod handles;
mod ledger;
mod names;
mod queue;
mod shared;
mod shared_buffers;
pub(crate) mod signal;
mod user_views;
mod visible;

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
    context::Context,
    error::{
        Error,
        Result, //
    },
    gpu::Device,
    limits::{
        MAX_CONTEXTS,
        MAX_TIMERS as TIMERS, //
    },
    log::{
        warn_client,
        RateLimit, //
    },
    memory::{
        surface,
        Backing,
        Buffer,
        Node,
        UserMemory,
        View,
        Word, //
    },
    ring::{
        Attempt,
        Stream,
        Turn,
        GPU_TIMEOUT, //
    },
    stream::{
        loaded::Loaded,
        reach::{
            Kind,
            Owner,
            Reach, //
        }, //
    },
    sys::{
        self,
        chrdev::OpenFile,
        pages::Sync,
        views::Views,
        window::{
            self,
            Pager, //
        }, //
    }, //
};
use action::{
    Action,
    Actions, //
};
use changes::{
    Changes,
    Returned, //
};
use foreign::Mapped;
use handles::Handles;
use queue::Queue;
use shared_buffers::PieceEntry;
use signal::Signal;
use user_views::{
    UserView,
    UserViews,
    Viewed, //
};
use visible::Visible;

pub(crate) use changes::Change;
pub(crate) use completion::CompletionPage;
pub(crate) use ledger::Ledger;
pub(crate) use names::Names;
pub(crate) use shared::SharedNodes;
pub(crate) use shared_buffers::SharedBuffers;

use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Relaxed, //
        },
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        new_mutex,
        new_spinlock,
        Arc,
        Mutex,
        SpinLock, //
    },
    task::Task,
    time::Delta,
    workqueue::{
        self,
        new_work, //
    }, //
};

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
    node: Visible<Node>,
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
    fn new(node: Visible<Node>) -> Self {
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
    buffer: Visible<Buffer>,
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
    /// Which addresses the process's commands have had the GPU load.
    loaded: Loaded,
    /// The attached context of the last commands that had one.
    last_context: Option<Arc<Context>>,
    /// Where the process has it mapped, but for the pool's windows.
    user_views: UserViews,
    /// Handles of the buffers that commands came from lately; 0: none.
    command_buffers: [u32; 4],
    /// What a LOCK maps right now, and whether cached: found without a search.
    asked: Option<(Backing, bool)>,
    /// Room for the next COMMIT's commands.
    words: Option<KVVec<u32>>,
    video: Ledger,
    non_paged: Ledger,
    contiguous: Ledger,
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
    opener: sys::Opener,
    /// No other process has had it, or will.
    number: u64,
    /// How long STALL waits, in milliseconds.
    stall_timeout: Atomic<u32>,
    /// The generation of the interface that the process's files speak, and why: that of the file that
    /// settled last. See [`abi::detect::Choice::pack`], with the bytes of the interface above.
    interface: Atomic<u32>,
    /// What the process's files map.
    views: Arc<Views>,
    /// Number of its last submission; 0: none.
    last_job: Atomic<u64>,
    /// There may be something in `changes`: for the tables, of memory that comes back.
    has_changes: Atomic<bool>,
    has_returns: Atomic<bool>,
    #[pin]
    changes: SpinLock<Changes>,
    /// One thread at a time gives memory back.
    #[pin]
    returning: Mutex<()>,
    #[pin]
    timers: SpinLock<[Timer; TIMERS]>,
    #[pin]
    changes_work: workqueue::Work<Process, 0>,
    /// How far its end has come.
    ending_step: Atomic<u32>,
    #[pin]
    ending_work: workqueue::Work<Process, 1>,
    #[pin]
    tables: Mutex<Tables>,
}

/// The tables of a process, to be used.
type TablesGuard<'a> = Guard<'a, Tables, MutexBackend>;

impl Process {
    /// A process without objects.
    pub(crate) fn new(
        device: Arc<Device>,
        leader: ARef<Task>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let views = Views::new()?;
        Arc::pin_init(
            pin_init!(Self {
                device,
                leader,
                opener: sys::Opener::current(),
                views,
                last_job: Atomic::new(0),
                has_changes: Atomic::new(false),
                has_returns: Atomic::new(false),
                changes <- new_spinlock!(Changes::new(), "galcore changes"),
                returning <- new_mutex!((), "galcore returns"),
                timers <- new_spinlock!([Timer::default(); TIMERS], "galcore timers"),
                changes_work <- new_work!("galcore changes"),
                ending_step: Atomic::new(0),
                ending_work <- new_work!("galcore ending"),
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
                    loaded: Loaded::new(),
                    last_context: None,
                    user_views: UserViews::new(),
                    command_buffers: [0; 4],
                    asked: None,
                    words: None,
                    video: Ledger::default(),
                    non_paged: Ledger::default(),
                    contiguous: Ledger::default(),
                    completion: None,
                    pieces: KVec::new(),
                    pool_views: KVec::new(),
                }, "galcore process"),
            }),
            GFP_KERNEL_ACCOUNT,
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

    /// What the process's files map.
    pub(crate) fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// The tables, with all applied that records have changed.
    fn tables(&self) -> TablesGuard<'_> {
        let mut tables = self.tables.lock();
        if self.has_changes.load(Acquire) {
            self.apply_changes(&mut tables);
        }
        tables
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
                entry.buffer.end_here();
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
                let removed = self.tables().contexts.remove(context);
                removed
                    .map(|_| Reply::Nothing)
                    .ok_or(Error::InvalidArgument)
            }
            Request::Commit(commit) => self.commit(commit),
            Request::EventCommit { queue, format } => self.event_commit(queue, format),
            Request::Stall => {
                let timeout = self.stall_timeout.load(Relaxed);
                self.device.core().ring().wait_idle(timeout)?;
                self.finish_returns();
                Ok(Reply::Nothing)
            }
            Request::Cache(range) => self.maintain_cache(range).map(|()| Reply::Nothing),
            Request::MapMemory { handle } => self.map_memory(file, handle),
            Request::UnmapMemory { handle } => {
                if handle == 0 {
                    return Err(Error::InvalidArgument);
                }
                let mut tables = self.tables();
                let entry = tables.buffers.get_mut(handle).ok_or(Error::NotFound)?;
                if entry.user == 0 {
                    return Err(Error::InvalidArgument);
                }
                let (user, buffer) = (core::mem::take(&mut entry.user), entry.buffer.clone());
                tables.user_views.remove(user, Viewed::Buffer(handle));
                drop(tables);
                sys::vma::unmap(user, &buffer);
                Ok(Reply::Nothing)
            }
            Request::MapUser { user, bytes } => {
                if user == 0 || bytes == 0 {
                    return Err(Error::InvalidArgument);
                }
                // What records have unmapped counts as long as it is not given back.
                self.finish_returns();
                let memory = self.device.memory().map_user(user, bytes, true)?;
                let (info, address) = self.insert_user_memory(memory)?;
                Ok(Reply::UserMemory { info, address })
            }
            Request::UnmapUser(named) => {
                self.wait_for_own_work()?;
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
                    let tables = self.tables();
                    [tables.video, tables.non_paged, tables.contiguous]
                };
                Ok(Reply::Database(KBox::new(ledgers, GFP_KERNEL_ACCOUNT)?))
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
            let memory = self.device.memory();
            let view = memory.map_pool(area, self.clone(), self.views.clone())?;
            let mut tables = self.tables();
            tables.pool_views.retain(|view| !view.is_over());
            tables.pool_views.push(view.clone(), GFP_KERNEL_ACCOUNT)?;
            drop(tables);
            view.clone().attach(area);
            return Ok(Some(view));
        }
        if offset == completion::FILE_OFFSET {
            sys::vma::make_read_only(area)?;
            let page = self.ask_for_completion()?;
            return sys::vma::map(area, page, true).map(|()| None);
        }
        let (backing, cached) = self.tables().backing_at(offset).ok_or(EINVAL)?;
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
        let mut tables = self.tables();
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
        let mut tables = self.tables();
        Ok(tables.completion.get_or_insert(page).clone())
    }

    /// The completion page, if the process has asked for it.
    fn completion(&self) -> Option<Arc<CompletionPage>> {
        self.tables().completion.clone()
    }

    /// Submits `work`, and the queue behind it; with a completion page, numbers the submission and
    /// shows its end before its other actions run.
    fn submit(&self, work: &mut impl Work, queue: &mut Queue<'_>) -> Result<Reply<'_>> {
        let ring = self.device.core().ring();
        let page = self.completion();
        // Room first, for the number, which is only known when nothing may fail any more, and a context.
        queue.actions().reserve(2, GFP_KERNEL_ACCOUNT)?;
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
                let mut tables = self.tables();
                work.check(&tables)?;
                queue.check(&tables)?;
                let attempt =
                    ring.begin(work.stream(), queue.actions(), Some(&count), &mut turn)?;
                if let Attempt::Turn(turn) = &attempt {
                    self.last_job.store(turn.number(), Relaxed);
                    work.placed(&mut tables);
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
        if let Some(timer) = self.timers.lock().get_mut(timer as usize) {
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
        self.opener.send_signal(&self.leader, number, value);
    }

    fn time_delta(&self, timer: u32) -> Result<Reply<'_>> {
        // CAST: 32 bits into at least 32.
        let timer = self.timers.lock().get(timer as usize).copied();
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

    /// Waits until all that the process has submitted has ended, or the GPU makes no progress: what it could
    /// use of the process's own memory is the process's again then. `Interrupted`: a Unix signal came.
    fn wait_for_own_work(&self) -> Result {
        let last = self.last_job.load(Relaxed);
        match self.device.core().ring().wait_for_progress(last) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    fn allocate_buffer(
        self: &Arc<Self>,
        file: &OpenFile,
        bytes: u64,
        non_paged: bool,
    ) -> Result<Reply<'_>> {
        let buffer = self.device.memory().allocate_buffer(bytes)?;
        let entry = BufferEntry {
            buffer: Visible::new(buffer.clone(), self)?,
            user: 0,
            non_paged,
        };
        let handle = self.tables().insert_buffer(entry)?;
        let mapped = Backing::Contiguous(buffer.clone()).map_into_caller(file);
        let mut tables = self.tables();
        let noted = mapped.and_then(|user| tables.show_buffer(handle, user).map(|()| user));
        match noted {
            Ok(user) => Ok(Reply::Buffer {
                bytes: buffer.bytes() as u64,
                address: buffer.address(),
                handle,
                user: user as u64,
            }),
            Err(error) => {
                // Another thread may have named its address, or guessed the handle and freed it.
                let entry = tables.remove_buffer(handle);
                drop(tables);
                if let Ok(user) = mapped {
                    sys::vma::unmap(user, &buffer);
                }
                if let Some(entry) = entry {
                    entry.buffer.end_here();
                }
                Err(error)
            }
        }
    }

    /// Takes a buffer out of the table. `InvalidArgument`: a field is 0. `NotFound`: unknown.
    fn remove_buffer(&self, named: crate::abi::NamedBuffer) -> Result<BufferEntry> {
        if named.bytes == 0 || named.handle == 0 || named.user == 0 {
            return Err(Error::InvalidArgument);
        }
        self.tables()
            .remove_buffer(named.handle)
            .ok_or(Error::NotFound)
    }

    /// Takes pinned user memory out of the table. `InvalidArgument`: a field is 0. `NotFound`: unknown.
    fn remove_user_memory(&self, named: NamedUserMemory) -> Result<Mapped> {
        if named.user == 0 || named.bytes == 0 || named.info == 0 {
            return Err(Error::InvalidArgument);
        }
        let mut tables = self.tables();
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
            let tables = self.tables();
            let entry = tables.buffers.get(handle).ok_or(Error::NotFound)?;
            (entry.buffer.clone(), entry.user)
        };
        if user != 0 {
            return Ok(Reply::Mapped { user: user as u64 });
        }
        let user = Backing::Contiguous(buffer.clone()).map_into_caller(file)?;
        let mut tables = self.tables();
        let first = tables.buffers.get(handle).map_or(0, |entry| entry.user);
        let noted = match first {
            0 => tables.show_buffer(handle, user),
            // Another thread was quicker.
            _ => Ok(()),
        };
        drop(tables);
        if noted.is_err() || first != 0 {
            sys::vma::unmap(user, &buffer);
        }
        let user = if first == 0 { user } else { first };
        noted.map(|()| Reply::Mapped { user: user as u64 })
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
        let tables = self.tables();
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
                self.device.core().space().settle()?;
                memory.allocate_node(bytes, alignment, kind, pool, self.number)?
            }
            other => other?,
        };
        let pool = node.pool().number();
        let handle = self.insert_node(NodeEntry::new(Visible::new(node, self)?))?;
        Ok((handle, pool))
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
            self.end_if_over(handle);
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
            let mut tables = self.tables();
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
        let mut tables = self.tables();
        // Never the last reference: each LOCK has its own.
        tables.asked = None;
        let noted = mapped.and_then(|user| {
            let shown = tables.show_node(handle, user, backing.bytes());
            shown.map(|()| user)
        });
        if let Some(entry) = tables.nodes.get_mut(handle) {
            entry.mapping = false;
            if noted.is_err() {
                entry.take_lock_off();
            }
        }
        drop(tables);
        if let (Err(_), Ok(user)) = (&noted, mapped) {
            backing.unmap(user);
        }
        noted.map(|user| Reply::Locked {
            address,
            user: user as u64,
        })
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
            let mut tables = self.tables();
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            match entry.node.view() {
                View::Pages(backing) if entry.locks > 0 => {
                    entry.views = entry.views.saturating_sub(1);
                    let user = match entry.views {
                        0 => tables.hide_node(handle),
                        _ => None,
                    };
                    (Some(backing), user)
                }
                _ if entry.locks == 0 => {
                    drop(tables);
                    self.end_if_over(handle);
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
            self.end_if_over(handle);
        }
        Ok(Reply::Unlocked {
            asynchronous: pages.is_some(),
        })
    }

    /// Ends the caller's view of a page-backed node that is not locked: its unlocks came by records
    /// alone, which run where the view cannot be ended.
    fn end_view(&self, handle: u32) {
        let idle = {
            let mut tables = self.tables();
            match tables.nodes.get(handle) {
                Some(entry) if entry.locks == 0 => match entry.node.view() {
                    View::Pages(backing) => tables.hide_node(handle).map(|user| (backing, user)),
                    View::Pool(_) | View::Own(_) => None,
                },
                _ => None,
            }
        };
        if let Some((backing, user)) = idle {
            backing.unmap(user);
        }
    }

    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: the event half of UNLOCK, behind what is in the ring.
    fn queue_unlock(self: &Arc<Self>, handle: u32) -> Result<Reply<'_>> {
        if self.tables().nodes.get(handle).is_none() {
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
        match self.tables().nodes.get_mut(handle) {
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

    /// Takes a claim back.
    fn unclaim_node(&self, handle: u32, claimed: &Claimed) {
        if let Some(entry) = self.tables().nodes.get_mut(handle) {
            match claimed {
                Claimed::Node => entry.claimed = false,
                Claimed::Import => entry.imports = entry.imports.saturating_add(1),
            }
        }
    }

    /// FREE: ends a node, or one of several imports of it. Errors as [`Process::claim_node`].
    fn free_node(self: &Arc<Self>, handle: u32, if_unlocked: bool) -> Result {
        let owner = self.owner_of(handle);
        let wrapped = owner.wrapped_node(handle);
        if wrapped.is_some() {
            owner.wait_for_own_work()?;
        }
        if let Claimed::Import = owner.claim_node(handle, if_unlocked)? {
            return Ok(());
        }
        self.end_view(handle);
        if let Some(entry) = owner.tables().nodes.get_mut(handle) {
            entry.freed = true;
        }
        owner.unshare(handle);
        if let Some(node) = wrapped {
            Returned::Node(node).finish();
        }
        owner.end_if_over(handle);
        Ok(())
    }

    /// The node of a handle, if it is the process's own memory.
    fn wrapped_node(&self, handle: u32) -> Option<Arc<Node>> {
        let tables = self.tables();
        let entry = tables.nodes.get(handle)?;
        let is_wrapped = entry.node.wrapped().is_some();
        is_wrapped.then(|| entry.node.clone())
    }

    /// Ends a node that is over. Takes time: no lock may be held.
    fn end_if_over(&self, handle: u32) {
        let over = self.tables().take_if_over(handle);
        if let Some(entry) = over {
            entry.node.end_here();
        }
    }

    fn signal(&self, id: u32) -> Result<Arc<Signal>> {
        let tables = self.tables();
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
                let id = self.tables().signals.insert(SignalEntry {
                    signal,
                    references: 1,
                })?;
                Ok(Reply::Signal { id })
            }
            UserSignal::Destroy { id } => {
                let over = {
                    let mut tables = self.tables();
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
                self.finish_returns();
                Ok(Reply::Nothing)
            }
            UserSignal::Map { id } => {
                let mut tables = self.tables();
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

    /// A place has been taken. The tables' lock is held.
    fn placed(&mut self, tables: &mut Tables);

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

    fn placed(&mut self, _: &mut Tables) {}

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
        let mut tables = self.tables();
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

    /// Has a buffer in the table, in reach and in the books, or nothing of it. `OutOfResources`, `OutOfMemory`.
    fn insert_buffer(&mut self, entry: BufferEntry) -> Result<u32> {
        let (address, bytes) = (entry.buffer.address(), entry.buffer.bytes());
        let non_paged = entry.non_paged;
        let handle = self.buffers.insert(entry)?;
        let owner = Owner {
            kind: Kind::Buffer,
            handle,
        };
        if let Err(error) = self.reach.insert(address, bytes, owner) {
            drop(self.buffers.remove(handle));
            return Err(error);
        }
        self.buffer_ledger(non_paged).add(bytes);
        Ok(handle)
    }

    /// Notes where a buffer is mapped. `NotFound`: it is gone. `OutOfMemory`.
    fn show_buffer(&mut self, handle: u32, user: usize) -> Result {
        let entry = self.buffers.get_mut(handle).ok_or(Error::NotFound)?;
        self.user_views.insert(UserView {
            start: user,
            bytes: entry.buffer.bytes(),
            of: Viewed::Buffer(handle),
        })?;
        entry.user = user;
        Ok(())
    }

    /// Has a node in the table under `handle`, or any if that is `None`, in reach and in the books, or nothing
    /// of it; returns its handle. `MemoryLocked`: its addresses are in reach already. `OutOfResources`,
    /// `OutOfMemory`.
    fn insert_node(&mut self, handle: Option<u32>, entry: NodeEntry) -> Result<u32> {
        let (address, bytes) = (entry.node.address(), entry.node.bytes());
        let is_ours = entry.is_ours();
        let own = match entry.node.view() {
            View::Own(user) if !entry.imported => Some(user),
            _ => None,
        };
        let handle = match handle {
            Some(handle) => self.nodes.insert_at(handle, entry).map(|()| handle)?,
            None => self.nodes.insert(entry)?,
        };
        let owner = Owner {
            kind: Kind::Node,
            handle,
        };
        let view = |user| UserView {
            start: user,
            bytes,
            of: Viewed::Node(handle),
        };
        let noted = match own {
            Some(user) => self.user_views.insert(view(user)),
            None => Ok(()),
        };
        if let Err(error) = noted.and_then(|()| self.reach.insert(address, bytes, owner)) {
            if let Some(user) = own {
                self.user_views.remove(user, Viewed::Node(handle));
            }
            drop(self.nodes.remove(handle));
            return Err(error);
        }
        if is_ours {
            self.video.add(bytes);
        }
        Ok(handle)
    }

    /// Has user memory in the table and in reach, or nothing of it. `OutOfResources`, `OutOfMemory`.
    fn insert_user_memory(&mut self, memory: Visible<UserMemory>) -> Result<u32> {
        let (address, bytes) = (memory.address(), memory.bytes());
        let handle = self.user_memory.insert(Mapped::Memory(memory))?;
        let owner = Owner {
            kind: Kind::UserMemory,
            handle,
        };
        if let Err(error) = self.reach.insert(address, bytes, owner) {
            drop(self.user_memory.remove(handle));
            return Err(error);
        }
        Ok(handle)
    }

    /// Notes where a page-backed node is mapped. `InvalidObject`: it is gone. `OutOfMemory`.
    fn show_node(&mut self, handle: u32, user: usize, bytes: usize) -> Result {
        let entry = self.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        self.user_views.insert(UserView {
            start: user,
            bytes,
            of: Viewed::Node(handle),
        })?;
        entry.user = Some(user);
        entry.views = 1;
        Ok(())
    }

    /// Forgets where a page-backed node is mapped; returns where it was, to be unmapped.
    fn hide_node(&mut self, handle: u32) -> Option<usize> {
        let user = self.nodes.get_mut(handle)?.user.take()?;
        self.user_views.remove(user, Viewed::Node(handle));
        Some(user)
    }

    /// The event half of UNLOCK, for page-backed nodes.
    fn finish_unlock(&mut self, handle: u32) {
        if let Some(entry) = self.nodes.get_mut(handle) {
            if matches!(entry.node.view(), View::Pages(_)) {
                entry.take_lock_off();
            }
        }
        // Its end is not waited for.
        drop(self.take_if_over(handle));
    }

    /// Takes a node out that has been freed, or is another process's, and is not locked.
    fn take_if_over(&mut self, handle: u32) -> Option<NodeEntry> {
        let entry = self.nodes.get(handle)?;
        if !(entry.freed || entry.imported) || entry.locks > 0 {
            return None;
        }
        let entry = self.nodes.remove(handle)?;
        let shown = self.reach.remove(entry.node.address());
        entry.node.leaves_reach(shown);
        if entry.is_ours() {
            self.video.remove(entry.node.bytes());
        }
        if let View::Own(user) = entry.node.view() {
            self.user_views.remove(user, Viewed::Node(handle));
        }
        if let Some(user) = entry.user {
            self.user_views.remove(user, Viewed::Node(handle));
        }
        Some(entry)
    }

    /// The process's own memory that the GPU can use, as much as there is memory to note.
    fn own_memory(&self) -> KVVec<Returned> {
        let mut all = KVVec::new();
        let memory = self.user_memory.values().filter_map(Mapped::memory);
        let memory = memory.map(|memory| Returned::Memory(memory.clone()));
        let wrapped = self
            .nodes
            .values()
            .filter(|entry| entry.node.wrapped().is_some());
        let nodes = wrapped.map(|entry| Returned::Node(entry.node.clone()));
        // `Init` has a `chain` too, so this one is called by its trait.
        for returned in Iterator::chain(memory, nodes) {
            if all.push(returned, GFP_KERNEL).is_err() {
                break;
            }
        }
        all
    }

    /// Forgets where a buffer that leaves is mapped.
    fn forget_view(&mut self, entry: &BufferEntry) {
        if let Some(UserView { of, .. }) = self.user_views.find(entry.user) {
            if matches!(of, Viewed::Buffer(_)) {
                self.user_views.remove(entry.user, of);
            }
        }
    }

    /// Takes a buffer out, with its bytes out of the book.
    fn remove_buffer(&mut self, handle: u32) -> Option<BufferEntry> {
        let entry = self.buffers.remove(handle)?;
        self.user_views.remove(entry.user, Viewed::Buffer(handle));
        self.reach.remove(entry.buffer.address());
        self.buffer_ledger(entry.non_paged)
            .remove(entry.buffer.bytes());
        Some(entry)
    }

    /// The word at GPU address `address`, if it lies in memory of this process.
    fn word_at(&self, address: u32) -> Option<Word> {
        let Owner { kind, handle } = self.reach.owner(address)?;
        match kind {
            Kind::Node => {
                let entry = self.nodes.get(handle)?;
                // What came from elsewhere may be mapped without being locked.
                let is_held = entry.locks > 0 || entry.foreign || entry.imports > 0;
                is_held
                    .then(|| Word::in_node(&entry.node, address))
                    .flatten()
            }
            Kind::Buffer => Word::in_buffer(&self.buffers.get(handle)?.buffer, address),
            Kind::UserMemory => {
                let mapped = self.user_memory.get(handle)?;
                Word::in_user_memory(mapped.memory()?, address)
            }
        }
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

    /// How many bytes of one piece of this process's GPU memory, which lies at `pool_address` if in the pool,
    /// lie at user address `user` and behind it; `None`: it lies in none.
    fn bytes_from(&mut self, user: usize, pool_address: u32) -> Option<usize> {
        // Clients write their commands into few buffers, in turn.
        for &handle in &self.command_buffers {
            if let Some(left) = self
                .buffers
                .get(handle)
                .and_then(|entry| entry.bytes_from(user))
            {
                return Some(left);
            }
        }
        match self.user_views.find(user).map(|view| view.of) {
            Some(Viewed::Buffer(handle)) => {
                let left = self.buffers.get(handle)?.bytes_from(user)?;
                self.command_buffers.rotate_right(1);
                self.command_buffers[0] = handle;
                Some(left)
            }
            Some(Viewed::Node(handle)) => self.nodes.get(handle)?.bytes_from(user),
            None => self.pool_bytes_from(user, pool_address),
        }
    }

    /// The same through a window on the pool.
    fn pool_bytes_from(&self, user: usize, pool_address: u32) -> Option<usize> {
        let places = self.pool_views.iter().filter_map(|view| view.place());
        let mut offsets = places.filter_map(|place| Some((user.checked_sub(place.0)?, place.1)));
        let (offset, window) = offsets.find(|&(offset, bytes)| offset < bytes)?;
        let address = pool_address.checked_add(u32::try_from(offset).ok()?)?;
        let Owner { kind, handle } = self.reach.owner(address)?;
        let entry = self.nodes.get(handle).filter(|entry| entry.locks > 0)?;
        let (start, bytes) = entry.node.pool_range().filter(|_| kind == Kind::Node)?;
        // As far as both the node and the window go.
        let end = start.checked_add(bytes)?.min(window);
        end.checked_sub(offset).filter(|&left| left > 0)
    }
}

impl BufferEntry {
    /// How many of its bytes lie at user address `user` and behind it.
    fn bytes_from(&self, user: usize) -> Option<usize> {
        match self.user {
            0 => None,
            start => left_of(start, self.buffer.bytes(), user),
        }
    }
}

impl NodeEntry {
    /// The same of a node that is locked and has a view of its own.
    fn bytes_from(&self, user: usize) -> Option<usize> {
        if self.locks == 0 {
            return None;
        }
        match self.node.view() {
            View::Pages(backing) => left_of(self.user?, backing.bytes(), user),
            View::Own(start) => left_of(start, self.node.bytes(), user),
            View::Pool(_) => None,
        }
    }

    /// The process's books have its bytes.
    fn is_ours(&self) -> bool {
        !self.imported && !self.foreign
    }
}

/// How many of `bytes` from `start` lie at `user` and behind it, if it lies in them.
fn left_of(start: usize, bytes: usize, user: usize) -> Option<usize> {
    let at = user.checked_sub(start)?;
    bytes.checked_sub(at).filter(|&left| left > 0)
}

/// Ends the caller's view of a buffer.
fn unmap_buffer(entry: &BufferEntry) {
    if entry.user != 0 {
        sys::vma::unmap(entry.user, &entry.buffer);
    }
}
