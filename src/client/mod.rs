// SPDX-License-Identifier: GPL-2.0-only

//! The clients: processes that have the device open, their objects, and their requests.
//!
//! A [`Process`] covers all files of the device that one program (one memory map of a process) has
//! opened: libraries open the device more than once, and use a handle with any of the files. It
//! ends when its last file is closed. Its objects are released after the GPU's last use.
//!
//! A file can outlive the program that opened it, and reach others by fork, exec, or a socket. The
//! [`Process`] only serves callers with its own memory map: see [`Process::check_caller`].
//!
//! # Locks
//!
//! The lock of [`Process::tables`] is held for look-ups and changes, never during a wait for the
//! GPU or user space. The end of an object takes the locks of the heap, the MMU and the ring under
//! it. Page faults in the pool's windows take it. The actions of jobs, which run in the interrupt's
//! thread, do not: see [`changes`].

mod action;
mod buffer;
mod cache;
mod change;
mod changes;
mod check;
mod client_context;
mod client_memory;
mod clients;
mod commit;
mod completion;
mod contexts;
mod deltas;
mod dump;
mod ending;
mod framebuffers;
pub(crate) mod gem;
mod graphic_buffers;
mod handles;
mod hangs;
mod hints;
pub(crate) mod import;
mod ledgers;
mod lock;
mod name;
mod names;
mod node;
mod nodes;
mod power;
pub(crate) mod profile;
mod query;
mod queue;
mod records;
mod registers;
mod resets;
pub(crate) mod restarts;
mod shared;
mod shared_buffers;
mod shared_info;
mod signal;
mod signals;
pub(crate) mod streams;
mod submission;
mod tables;
mod timer;
mod unnamed;
mod usage;
mod user_views;
mod userptr;
mod users;
mod vector;
mod vector_args;
mod waits;
pub(crate) mod window;

use crate::{
    abi::{
        detect::Choice,
        evidence::ObjectKinds,
        Commit,
        CoreSelector,
        Reply,
        Request,
        Text, //
    },
    gpu,
    hw::MmuVersion,
    limits::{
        FULL_SCALE,
        MAX_CORES,
        MAX_TIMERS, //
    },
    log::{
        warn_client,
        RateLimit, //
    },
    mmu::{
        AddressSpace,
        Space, //
    },
    prelude::*,
    ring::{
        Revoker,
        GPU_TIMEOUT, //
    },
    sys::{
        self,
        chrdev::OpenFile,
        dma_buf::Access,
        trace::WaitFor,
        views::Views, //
    }, //
};
use action::Events;
use change::Changes;
use completion::CompletionPage;
use kernel::{
    mm::Mm,
    new_work,
    sync::{
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        SetOnce, //
    },
    task::Task,
    workqueue, //
};
use node::{
    Locking,
    Unlocking, //
};
use resets::Resets;
use restarts::{
    Limited,
    Restarts, //
};
use tables::Tables;
use timer::Timer;
use usage::Usage;

pub(crate) use clients::{
    Clients,
    CLIENTS, //
};
pub(crate) use ledgers::KINDS;
pub(crate) use streams::{
    check_alive,
    outlast_number,
    settle_number,
    Stream,
    Used,
    FENCE_TIMEOUT, //
};

/// A core whose jobs end with events of clients.
pub(crate) type Core = gpu::Core<Events>;

/// A core for vector graphics, whose jobs end with events of clients.
pub(crate) type VectorCore = gpu::VectorCore<Events>;

/// A [`Core`] or a [`VectorCore`].
pub(crate) type AnyCore = gpu::AnyCore<Events>;

/// The interrupt handlers of an [`AnyCore`].
pub(crate) type Interrupt = gpu::Interrupt<Events>;

/// The power operations of an [`AnyCore`].
pub(crate) type PowerSwitch = gpu::PowerSwitch<Events>;

/// A device and its cores.
pub(crate) type Device = gpu::Device<Events>;

/// A core whose operating points can be switched by the file `gpu_govern`.
pub(crate) use crate::gpu::Governed;

/// A process's window on the pool.
pub(crate) type PoolView = sys::window::View<Process>;

/// A core that clients can find, until dropped.
pub(crate) type Published = gpu::Published<Events>;

/// A core that has been started, until dropped.
pub(crate) type Running = gpu::Running<Events>;

static PASSED_ON: RateLimit = RateLimit::new();

/// The number of the next process. 64 bits never wrap.
static PROCESSES: Atomic<u64> = Atomic::new(1);

/// A process that has the device open, and its objects.
#[pin_data]
pub(crate) struct Process {
    device: Arc<Device>,
    clients: Arc<Clients>,
    /// Counts the process for its user.
    _member: users::Member,
    /// The process's own MMU tables, if it has any.
    space: Option<Space>,
    leader: ARef<Task>,
    /// The memory map of its user addresses, windows and pins. `exec` gives the leader another one.
    /// The reference keeps only the `mm_struct`, so that no other map gets its address.
    mm: ARef<Mm>,
    /// The leader's id in the PID namespace of the process.
    own_id: i32,
    /// The completion page, once the process has asked for it. Set under the tables' lock.
    completion: SetOnce<Arc<CompletionPage>>,
    /// Unique for the life of the module.
    number: u64,
    /// How long STALL waits, in milliseconds.
    stall_timeout: Atomic<u32>,
    /// The interface generation last detected for a file of the process. Bits 0 to 15:
    /// [`Choice::pack`], which includes the reason. Bits 16 to 31: the size of a request in bytes.
    interface: Atomic<u32>,
    /// User mappings of the process's files.
    views: Arc<Views>,
    /// Removes freed memory from these mappings.
    revoker: Arc<Revoker>,
    #[pin]
    restarts: Restarts,
    /// Resets that affected the process, and its waits for hangs.
    resets: Resets,
    /// Number of resets that it has requested.
    resets_asked: Atomic<u32>,
    /// For each core, the clock that the process has requested, in 64ths of the full clock.
    scales: [Atomic<u32>; MAX_CORES],
    /// The time that its jobs have kept the cores busy.
    usage: Arc<Usage>,
    /// Index plus 1 of the core of its last COMMIT that named no core. 0: all such COMMITs went to
    /// the first core. See [`unnamed`].
    unnamed_core: Atomic<usize>,
    /// The stamp of the last search for framebuffers in its mappings: see [`framebuffers`].
    mappings_seen: Atomic<usize>,
    /// For each core, the number of its last job. 0: none.
    last_jobs: [Atomic<u64>; MAX_CORES],
    /// `changes` may hold changes of the tables.
    has_changes: Atomic<bool>,
    /// `changes` may hold memory to return.
    has_returns: Atomic<bool>,
    has_left_views: Atomic<bool>,
    #[pin]
    changes: SpinLock<Changes>,
    /// Allows one thread at a time to return memory.
    #[pin]
    returning: Mutex<()>,
    #[pin]
    timers: SpinLock<[Timer; MAX_TIMERS]>,
    #[pin]
    changes_work: workqueue::Work<Process, 0>,
    ending_step: Atomic<u32>,
    #[pin]
    ending_work: workqueue::Work<Process, 1>,
    #[pin]
    tables: Mutex<Tables>,
    /// Notified when the mapping of a page-backed node is done or has failed.
    #[pin]
    view_made: CondVar,
}

type TablesGuard<'a> = Guard<'a, Tables, MutexBackend>;

impl Process {
    fn new(
        clients: Arc<Clients>,
        leader: ARef<Task>,
        mm: ARef<Mm>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let member = clients.new_member()?;
        let views = Views::new()?;
        let reclaimer = clients.device().reclaimer().clone();
        let revoker = Revoker::new(views.clone(), leader.clone(), reclaimer)?;
        let number = PROCESSES.fetch_add(1, Relaxed);
        let space = clients.new_space()?;
        let addresses = space.as_ref().map(|space| space.tables().clone());
        let id = addresses.as_ref().map(|space| space.id());
        let usage = Arc::new(Usage::new(number, leader.pid(), id)?, sys::GFP_CLIENT)?;
        Arc::pin_init(
            pin_init!(Self {
                device: clients.device().clone(),
                resets: Resets::new(&leader, clients.hangs(), usage.clone()),
                clients,
                _member: member,
                space,
                own_id: leader.tgid_nr_ns(None),
                completion: SetOnce::new(),
                leader,
                mm,
                views,
                revoker,
                restarts <- Restarts::new(),
                resets_asked: Atomic::new(0),
                scales: [const { Atomic::new(FULL_SCALE) }; MAX_CORES],
                unnamed_core: Atomic::new(0),
                mappings_seen: Atomic::new(framebuffers::UNSEEN),
                last_jobs: [const { Atomic::new(0) }; MAX_CORES],
                has_changes: Atomic::new(false),
                has_returns: Atomic::new(false),
                has_left_views: Atomic::new(false),
                changes <- new_spinlock!(Changes::new(), "galcore changes"),
                returning <- new_mutex!((), "galcore returns"),
                timers <- new_spinlock!([Timer::default(); MAX_TIMERS], "galcore timers"),
                changes_work <- new_work!("galcore changes"),
                ending_step: Atomic::new(0),
                ending_work <- new_work!("galcore ending"),
                number,
                usage,
                stall_timeout: Atomic::new(GPU_TIMEOUT),
                interface: Atomic::new(0),
                tables <- new_mutex!(Tables::init(addresses), "galcore process"),
                view_made <- new_condvar!("galcore view"),
            }),
            sys::GFP_CLIENT,
        )
    }

    /// The id of the process's leader in the PID namespace of the caller.
    #[inline]
    fn id(&self) -> i32 {
        let caller = kernel::current!();
        if core::ptr::eq(caller.group_leader().as_ptr(), self.leader.as_ptr()) {
            self.own_id
        } else {
            self.leader.tgid_nr_ns(None)
        }
    }

    /// The process's own MMU tables, if it has any.
    fn space(&self) -> Option<&Arc<AddressSpace>> {
        self.space.as_ref().map(Space::tables)
    }

    /// Whether `mm` is the process's memory map.
    #[inline]
    fn has_mm(&self, mm: Option<&Mm>) -> bool {
        mm.is_some_and(|mm| core::ptr::eq(mm, &*self.mm))
    }

    /// Whether the calling thread has the process's memory map. Another process may have its file.
    #[inline]
    fn is_callers(&self) -> bool {
        self.has_mm(kernel::current!().mm().map(|mm| &**mm))
    }

    /// Refuses `request` if it concerns memory or jobs and the caller has another memory map. The
    /// process's addresses, windows and pins are not valid there, and the caller's rights may
    /// differ. `InvalidData`: refused. It is the vendor driver's error for an unknown process.
    #[inline]
    fn check_caller(&self, request: &Request) -> Result {
        if self.is_callers() || is_for_anybody(request) {
            Ok(())
        } else {
            Err(refuse_caller())
        }
    }

    /// Refuses a caller with another memory map, as [`Process::check_caller`].
    pub(crate) fn check_own(&self) -> Result {
        if self.is_callers() {
            Ok(())
        } else {
            Err(refuse_caller())
        }
    }

    /// Notes the generation that a file of the process uses, and the size of its requests in bytes.
    pub(crate) fn note_interface(&self, choice: Choice, bytes: u16) {
        self.interface
            .store(choice.pack() | u32::from(bytes) << 16, Relaxed);
    }

    /// The arguments of the last [`Process::note_interface`].
    pub(crate) fn interface(&self) -> Option<(Choice, u32)> {
        let noted = self.interface.load(Relaxed);
        Choice::unpack(noted & 0xFFFF).map(|choice| (choice, noted >> 16))
    }

    /// The current name of its program.
    pub(crate) fn command_name(&self) -> sys::CommandName {
        sys::CommandName::of(&self.leader)
    }

    /// The kinds of objects that the process has and commands can name.
    pub(crate) fn object_kinds(&self) -> ObjectKinds {
        let tables = self.tables();
        ObjectKinds {
            nodes: tables.nodes.len() != 0,
            buffers: tables.buffers.len() != 0,
            user_memory: tables.user_memory.len() != 0,
            pool_view: tables.pool_views.iter().any(|view| !view.is_over()),
        }
    }

    /// Its number, unique for the life of the module.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Resets that affected it, and its waits for hangs.
    pub(crate) fn resets(&self) -> &Resets {
        &self.resets
    }

    /// User mappings of the process's files.
    pub(crate) fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// Locks the tables and applies the changes that records have made.
    fn tables(&self) -> TablesGuard<'_> {
        let mut tables = self.tables.lock();
        if self.has_changes.load(Acquire) {
            changes::apply(self, &mut tables);
        }
        tables
    }

    /// Number of resets of the core, plus resets that this process has requested.
    fn resets_of(&self, selector: CoreSelector) -> u32 {
        let core = self.device.any(selector);
        let hangs = core.map_or(0, |core| core.resets());
        hangs.wrapping_add(self.resets_asked.load(Relaxed))
    }

    /// Whether `selector` names a core for vector graphics.
    #[inline(always)]
    fn is_vector(&self, selector: CoreSelector) -> bool {
        let place = self.device.place(selector);
        place.is_ok_and(|place| self.device.is_vector(place))
    }

    /// Runs a request of the profiler. `text` returns the text of a command that has one. Not
    /// inlined into [`Process::run`], which must be fast. `InvalidArgument`: no request of the
    /// profiler.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_profiler(
        &self,
        selector: CoreSelector,
        request: Request,
        text: &dyn Fn() -> Text,
    ) -> Result<Reply<'_>> {
        let done = |()| Reply::Nothing;
        self.check_caller(&request)?;
        match request {
            Request::ProfileSetting { is_built, is_on } => {
                profile::setting(self, selector, is_built, is_on)
            }
            Request::SetProfileSetting { enable, is_built } => {
                profile::set_setting(self, selector, enable, is_built, text()).map(done)
            }
            Request::ReadCounters(set) => profile::read_counters(self, selector, set),
            Request::ReadCounters2d { user } => {
                profile::read_counters_2d(self, selector, user).map(done)
            }
            Request::ClearCounters { clears } => {
                profile::set_clearing(self, clears);
                Ok(Reply::Nothing)
            }
            Request::Ignored => Ok(Reply::Nothing),
            Request::Refused(error) => Err(error),
            _ => Err(Error::InvalidArgument),
        }
    }

    /// Runs one request of the interface.
    ///
    /// `view` returns the calling file's mapping of the pool, if any. `part` returns the part of a
    /// COMMIT for one of several cores. `text` returns the text of a command, if any.
    pub(crate) fn run(
        self: &Arc<Self>,
        file: &OpenFile,
        view: impl FnOnce() -> Option<Arc<PoolView>>,
        part: impl Fn(u32) -> Commit,
        text: impl Fn() -> Text,
        core: CoreSelector,
        request: Request,
    ) -> Result<Reply<'_>> {
        let selector = core;
        let core = || self.device.core(selector);
        let done = |()| Reply::Nothing;
        self.check_caller(&request)?;
        match request {
            Request::QueryVideoMemory => Ok(query::video_memory(self)),
            Request::QueryChipIdentity => {
                let words = self.device.identity_words(selector)?;
                Ok(Reply::ChipIdentity(words, sys::program_bits()))
            }
            Request::QueryKernelSettings => Ok(query::settings(self)),
            Request::GetMmuVersion => {
                let version = core()?.hardware().mmu_version();
                Ok(Reply::MmuVersion(u32::from(version == MmuVersion::V2)))
            }
            Request::GetBaseAddress => Ok(Reply::BaseAddress(self.device.base_address())),
            Request::Version => Ok(query::version(self)),
            Request::ChipInfo => Ok(Reply::ChipInfo(self.device.kinds_in_order())),
            Request::ChipOptions => Ok(query::options(self, &*core()?)),
            Request::QueryScale => power::query_scale(self, selector),
            Request::SetScale { scale } => power::set_scale(self, selector, scale).map(done),
            request @ (Request::ProfileSetting { .. }
            | Request::SetProfileSetting { .. }
            | Request::ReadCounters(_)
            | Request::ReadCounters2d { .. }
            | Request::ClearCounters { .. }) => self.run_profiler(selector, request, &text),
            Request::ReadRegister {
                address,
                off_reads_zero,
            } => registers::read(self, selector, address, off_reads_zero),
            Request::WriteRegister {
                address,
                data,
                off_reads_zero,
            } => registers::write(self, selector, address, data, off_reads_zero),
            Request::ReadRegisters { address, cores } => {
                registers::read_all(self, selector, address, cores)
            }
            Request::WriteRegisters {
                address,
                cores,
                data,
            } => registers::write_all(self, selector, address, cores, data).map(done),
            Request::Print => {
                registers::print(self, text());
                Ok(Reply::Nothing)
            }
            Request::DumpState => registers::dump_state(self, selector),
            Request::DumpJobs => registers::dump_jobs(self).map(done),
            Request::ReadShared(info) => shared_info::read(self, info).map(done),
            Request::WriteShared(info) => shared_info::write(self, info).map(done),
            Request::QueryFrequency => {
                let (core, shader) = self.device.any(selector)?.frequencies();
                Ok(Reply::Frequency { core, shader })
            }
            Request::QueryCpuFrequency => Ok(Reply::CpuFrequency),
            Request::SetPower { state, way } => power::set(self, selector, state, way).map(done),
            Request::ConfigPower { enable } => power::configure(self, selector, enable),
            Request::QueryPower => power::query(self, selector),
            Request::QueryTimer { timer } => timer::time_delta(self, timer),
            Request::QueryResets => Ok(Reply::Resets {
                count: self.resets_of(selector).into(),
            }),
            Request::Database { process } => query::database(self, process),
            Request::AllocateContiguous { bytes, non_paged } => {
                buffer::allocate(self, file, bytes, non_paged)
            }
            Request::FreeContiguous(buffer) => buffer::free(self, buffer).map(done),
            Request::MapPool { bytes } => window::map_pool(self, file, view(), bytes),
            Request::UnmapPool { user, bytes } => window::unmap_pool(self, user, bytes).map(done),
            Request::MapMemory { handle } => buffer::map(self, file, handle),
            Request::UnmapMemory { handle } => buffer::unmap(self, handle).map(done),
            Request::AllocateLinear {
                bytes,
                alignment,
                kind,
                pool,
            } => {
                let pool = if self.is_vector(selector) {
                    vector::pool(pool)
                } else {
                    pool
                };
                let (node, pool, bytes) = nodes::allocate(self, bytes, alignment, kind, pool)?;
                Ok(Reply::Node { node, pool, bytes })
            }
            Request::AllocateSurface(surface) => nodes::allocate_surface(self, surface),
            Request::Lock {
                node,
                cacheable,
                again,
                parts,
            } => {
                let core = self.device.place(selector)?;
                let how = Locking {
                    core,
                    physical: self.device.is_vector(core),
                    cacheable,
                    again,
                    of_object: false,
                    parts,
                };
                lock::lock(self, file, view(), node, how)
            }
            Request::Unlock {
                node,
                parts,
                by_event,
            } => {
                let how = Unlocking {
                    parts,
                    by_event,
                    of_object: false,
                };
                lock::unlock(self, node, how)
            }
            Request::FinishUnlock { node, by_event } => lock::queue_unlock(
                self,
                &*unnamed::core_after_commands(self, selector)?,
                node,
                by_event,
            ),
            Request::FreeNode { node, if_unlocked } => {
                nodes::free(self, node, if_unlocked).map(done)
            }
            Request::NameNode { node } => names::name(self, node),
            Request::ImportNode { name } => names::import_named(self, name),
            Request::Wrap { what, in_lines } => import::wrap(self, what, in_lines),
            Request::ExportNode { node, flags } => {
                import::export_node(self, node, flags.map_or(Access::FULL, Access::of_flags))
            }
            Request::SetMetadata { node, metadata } => {
                graphic_buffers::set_metadata(self, node, metadata)
            }
            Request::ReadMetadata { node } => graphic_buffers::read_metadata(self, node),
            Request::KeepGraphicBuffer {
                nodes,
                piece,
                signal,
            } => graphic_buffers::keep(self, nodes, piece, signal),
            Request::SharedBuffer(command) => shared_buffers::run(self, command),
            // A core for vector graphics cannot use the GPU address.
            Request::MapUser { .. } if self.is_vector(selector) => Err(Error::NotSupported),
            Request::MapUser { user, bytes } => userptr::map(self, user, bytes),
            Request::MapPhysical { physical, bytes } => {
                userptr::map_physical(self, physical, bytes)
            }
            Request::UnmapUser(named) => userptr::unmap(self, named).map(done),
            Request::Cache(range) => cache::maintain(self, range).map(done),
            Request::UserSignal(command) => signals::run(self, command),
            Request::CreateFence { signal } => signals::create_fence(self, signal),
            Request::WaitFence { fd, milliseconds } => {
                let what = (WaitFor::Fence(fd), Limited::Fence(fd, milliseconds));
                let wait = |left| Ok(sys::fence::wait(fd, left, false)?);
                restarts::limited(self, what, milliseconds, || 0, wait).map(done)
            }
            Request::WaitNode { node } => import::wait_node(self, node),
            Request::Attach { newer } => contexts::attach(self, &*core()?, newer),
            Request::Detach {
                context,
                must_exist,
            } => {
                let existed = contexts::detach(self, context);
                if existed || !must_exist {
                    Ok(Reply::Nothing)
                } else {
                    Err(Error::InvalidObject)
                }
            }
            Request::Commit(commit) => {
                let committed = match commit.core {
                    Some(_) => commit::commit_parts(self, selector, commit),
                    None if selector.is_unnamed() && self.device.has_engines_apart() => {
                        unnamed::commit(self, selector, &commit)
                    }
                    None => core().and_then(|core| commit::commit(self, &core, &commit)),
                };
                commit::logged("COMMIT", committed)
            }
            Request::CommitAll { first, count } => {
                let committed = commit::commit_all(self, selector, first, count, part);
                commit::logged("COMMIT", committed)
            }
            Request::VectorCommit(commit) => {
                let core = self.device.vector(selector)?;
                vector::commit(self, &core, view(), commit)
            }
            Request::QueryCommandBuffer => {
                self.device.vector(selector).map(|_| Reply::CommandBuffer)
            }
            Request::EventCommit { queue, format } => {
                match unnamed::core_after_commands(self, selector) {
                    Ok(core) => commit::logged(
                        "EVENT_COMMIT",
                        submission::event_commit(self, &core, queue, format),
                    ),
                    Err(_) if format.vector_knows_events() && self.is_vector(selector) => {
                        Err(Error::NotSupported)
                    }
                    Err(error) => Err(error),
                }
            }
            Request::Stall { is_limited } => contexts::stall(
                self,
                &*unnamed::core_after_commands(self, selector)?,
                is_limited,
            )
            .map(done),
            Request::SetTimeout { milliseconds } => {
                let timeout = milliseconds.min(GPU_TIMEOUT);
                self.stall_timeout.store(timeout, Relaxed);
                Ok(Reply::Nothing)
            }
            Request::Reset { succeeds } => contexts::reset(self, selector, succeeds).map(done),
            Request::GpuStuck => {
                contexts::report_stuck(self, selector);
                Ok(Reply::Nothing)
            }
            Request::Ignored => Ok(Reply::Nothing),
            Request::Refused(error) => Err(error),
        }
    }
}

#[cold]
#[inline(never)]
fn refuse_caller() -> Error {
    warn_client!(
        PASSED_ON,
        "has a file of another program, whose memory it is: it must open the device itself"
    );
    Error::InvalidData
}

/// Whether any process that has the file may make `request`. Such requests need neither memory nor
/// jobs of the file's process: they query the device, or use signals, which processes share.
#[cold]
#[inline(never)]
fn is_for_anybody(request: &Request) -> bool {
    matches!(
        request,
        Request::QueryVideoMemory
            | Request::QueryChipIdentity
            | Request::QueryKernelSettings
            | Request::GetBaseAddress
            | Request::GetMmuVersion
            | Request::Version
            | Request::ChipInfo
            | Request::ChipOptions
            | Request::QueryScale
            | Request::QueryFrequency
            | Request::QueryCpuFrequency
            | Request::QueryPower
            | Request::QueryResets
            | Request::QueryTimer { .. }
            | Request::QueryCommandBuffer
            | Request::Database { .. }
            | Request::UserSignal(_)
            | Request::CreateFence { .. }
            | Request::WaitFence { .. }
            | Request::Ignored
            | Request::Refused(_)
    )
}
