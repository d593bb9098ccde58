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
//! thread, do not: see [`waits`].

mod action;
mod buffer;
mod cache;
mod change;
mod check;
mod client_context;
mod client_memory;
mod clients;
mod commit;
mod contexts;
mod dispatch;
mod ending;
mod framebuffers;
pub(crate) mod gem;
mod handles;
mod hangs;
pub(crate) mod import;
mod lock;
mod name;
mod node;
mod nodes;
mod power;
pub(crate) mod profile;
mod queue;
mod resets;
pub(crate) mod restarts;
mod shared;
mod signal;
mod signals;
pub(crate) mod streams;
mod submission;
mod tables;
mod usage;
mod users;
mod vector;
mod vector_args;
mod waits;
pub(crate) mod window;

use crate::{
    abi::{
        detect::Choice,
        evidence::ObjectKinds,
        CoreSelector, //
    },
    gpu,
    limits::{
        FULL_SCALE,
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
        Account,
        Revoker,
        GPU_TIMEOUT, //
    },
    sys::vma::Views, //
};
use action::{
    CompletionPage,
    Events,
    Timer, //
};
use change::Changes;
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
    workqueue, //
};
use resets::Resets;
use restarts::Restarts;
use tables::Tables;

pub(crate) use clients::{
    Clients,
    CLIENTS, //
};
pub(crate) use streams::{
    check_alive,
    outlast_number,
    settle_number,
    Stream,
    Used,
    FENCE_TIMEOUT, //
};
pub(crate) use usage::KINDS;

/// A core whose jobs end with events of clients.
pub(crate) type Core = gpu::Core<Events>;

/// A core for vector graphics, whose jobs end with events of clients.
pub(crate) type VectorCore = gpu::VectorCore<Events>;

/// A [`Core`] or a [`VectorCore`].
pub(crate) type AnyCore = gpu::AnyCore<Events>;

/// The power operations of an [`AnyCore`].
pub(crate) type PowerSwitch = gpu::PowerSwitch<Events>;

/// A device and its cores.
pub(crate) type Device = gpu::Device<Events>;

/// A core whose operating points can be switched by the file `gpu_govern`.
pub(crate) use crate::gpu::Governed;

/// A process's window on the pool.
pub(crate) type PoolView = sys::vma::View<Process>;

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
    pub(crate) number: u64,
    /// How long STALL waits, in milliseconds.
    stall_timeout: Atomic<u32>,
    /// The interface generation last detected for a file of the process. Bits 0 to 15:
    /// [`Choice::pack`], which includes the reason. Bits 16 to 31: the size of a request in bytes.
    interface: Atomic<u32>,
    /// User mappings of the process's files.
    pub(crate) views: Arc<Views>,
    /// Removes freed memory from these mappings.
    revoker: Arc<Revoker>,
    #[pin]
    restarts: Restarts,
    /// Resets that affected the process, and its waits for hangs.
    pub(crate) resets: Resets,
    /// Number of resets that it has requested.
    resets_asked: Atomic<u32>,
    /// For each core, the clock that the process has requested, in 64ths of the full clock.
    scales: [Atomic<u32>; MAX_CORES],
    /// What its jobs take of the cores.
    account: Arc<Account>,
    /// Index plus 1 of the core of its last COMMIT that named no core. 0: all such COMMITs went to
    /// the first core. See [`dispatch`].
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
    fn new(clients: Arc<Clients>, leader: ARef<Task>, mm: ARef<Mm>) -> Result<Arc<Self>, Errno> {
        let member = clients.new_member()?;
        let views = Views::new()?;
        let reclaimer = clients.device().reclaimer.clone();
        let revoker = Revoker::new(views.clone(), leader.clone(), reclaimer)?;
        let number = PROCESSES.fetch_add(1, Relaxed);
        let space = clients.new_space()?;
        let addresses = space.as_ref().map(|space| space.tables().clone());
        let id = addresses.as_ref().map(|space| space.id());
        let account = Arc::new(Account::new(number, leader.pid(), id), sys::GFP_CLIENT)?;
        Arc::pin_init(
            pin_init!(Self {
                device: clients.device().clone(),
                resets: Resets::new(&leader, &clients.hangs, account.clone()),
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
                account,
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

    /// Locks the tables and applies the changes that records have made.
    fn tables(&self) -> TablesGuard<'_> {
        let mut tables = self.tables.lock();
        if self.has_changes.load(Acquire) {
            waits::apply(self, &mut tables);
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
}

#[cold]
#[inline(never)]
fn refuse_caller() -> Error {
    warn_client!(PASSED_ON:
        "has a file of another program, whose memory it is: it must open the device itself");
    Error::InvalidData
}
