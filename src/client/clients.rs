// SPDX-License-Identifier: GPL-2.0-only

//! The clients of a device: the processes that have it open, and the objects that they share.
//!
//! Lock: `galcore processes`, a spinlock, because the recovery of a core takes it and must not wait
//! for a preempted holder. Its holder takes only `galcore hangs`, and does not allocate.

use super::{
    handles::Handles,
    hangs::HangAccounts,
    name::{
        self,
        Names,
        SharedBuffers, //
    },
    shared::SharedNodes,
    signals::SharedSignals,
    users::{
        self,
        Users, //
    },
    Device,
    Process, //
};
use crate::{
    error::Error,
    limits::{
        MAX_PROCESSES,
        MAX_SPACES, //
    },
    memory::Node,
    mmu::Space,
    ring::{
        Culprit,
        Loss, //
    },
    sys::{
        self,
        drm,
        prelude::*,
        slot::Slot, //
    }, //
};
use kernel::mm::Mm;

/// The bound device and its clients. `open(2)` and procfs use it.
pub(crate) static CLIENTS: Slot<Clients> = Slot::new();

/// A process with open files or unfinished work.
struct Member {
    /// The leader of its thread group. The reference prevents reuse of the task by other processes.
    /// All programs that the process executes share the leader, but not the memory map of
    /// `process`.
    leader: ARef<Task>,
    /// Number of open files. 0: the process is ending.
    files: usize,
    process: Arc<Process>,
}

/// The processes. A process that has exited stays while another process has its file open. One
/// process can collect many such files, so no request of a client may walk all members.
struct Members {
    /// All members, by number.
    all: RBTree<u64, Member>,
    /// Members with files, by the address of the leader and the number.
    open: RBTree<(usize, u64), ()>,
}

/// Preallocated nodes for one member.
struct Reservation {
    member: RBTreeNodeReservation<u64, Member>,
    open: RBTreeNodeReservation<(usize, u64), ()>,
}

impl Reservation {
    fn new() -> Result<Self> {
        Ok(Self {
            member: RBTreeNodeReservation::new(sys::GFP_CLIENT)?,
            open: RBTreeNodeReservation::new(sys::GFP_CLIENT)?,
        })
    }
}

/// The address of a task. It is unique while a reference exists.
fn place_of(task: &Task) -> usize {
    task.as_ptr().addr()
}

impl Members {
    fn new() -> Self {
        Self {
            all: RBTree::new(),
            open: RBTree::new(),
        }
    }

    /// Adds a process with one file.
    fn insert(&mut self, nodes: Reservation, leader: ARef<Task>, process: Arc<Process>) {
        let number = process.number;
        let key = (place_of(&leader), number);
        self.open.insert(nodes.open.into_node(key, ()));
        let member = Member {
            leader,
            files: 1,
            process,
        };
        self.all.insert(nodes.member.into_node(number, member));
    }

    /// The member with this number, if it has files.
    fn get_open(&self, number: u64) -> Option<&Member> {
        self.all.get(&number).filter(|member| member.files > 0)
    }

    /// The member with files that has this leader and for which `is_it` returns true.
    fn of_leader(&self, leader: &Task, is_it: impl Fn(&Process) -> bool) -> Option<&Member> {
        let place = place_of(leader);
        let mut from = 0;
        // Bounded: each step goes to the next member of the leader.
        loop {
            let cursor = self.open.cursor_lower_bound(&(place, from))?;
            let &(of, number) = cursor.current().0;
            if of != place {
                return None;
            }
            match self.get_open(number) {
                Some(member) if is_it(&member.process) => return Some(member),
                _ => from = number + 1,
            }
        }
    }

    /// The first member whose number is at least `from`.
    fn next(&self, from: u64) -> Option<&Member> {
        let cursor = self.all.cursor_lower_bound(&from)?;
        self.all.get(cursor.current().0)
    }

    /// Adds a file to the process with this leader and memory map, if that has files.
    fn join(&mut self, leader: &Task, mm: &Mm) -> Option<Arc<Process>> {
        let member = self.of_leader(leader, |process| process.has_mm(Some(mm)))?;
        let number = member.process.number;
        let member = self.all.get_mut(&number)?;
        member.files += 1;
        Some(member.process.clone())
    }

    /// Removes a file of the member with this number. Returns whether it was the last one.
    fn leave(&mut self, number: u64) -> bool {
        let Some(member) = self.all.get_mut(&number) else {
            return false;
        };
        member.files -= 1;
        let is_over = member.files == 0;
        if is_over {
            let key = (place_of(&member.leader), number);
            self.open.remove(&key);
        }
        is_over
    }
}

/// A device with its clients.
#[pin_data]
pub(crate) struct Clients {
    device: Arc<Device>,
    #[pin]
    pub(super) shared_nodes: SharedNodes,
    #[pin]
    pub(super) shared_signals: SharedSignals,
    pub(super) names: Arc<Names<Node>>,
    pub(super) shared_buffers: Arc<SharedBuffers>,
    pub(super) users: Arc<Users>,
    /// The DRM nodes, if any. Each belongs to one of the device's cores.
    #[pin]
    pub(crate) drm: Mutex<[Option<drm::Node>; 2]>,
    #[pin]
    processes: SpinLock<Members>,
    #[pin]
    pub(crate) hangs: HangAccounts,
    /// A process has asked for less than the full clock of a core.
    pub(super) has_lowered: Atomic<bool>,
    /// Held while a thread sets the clocks of the cores.
    #[pin]
    pub(super) speeds: Mutex<()>,
}

impl Clients {
    /// A device without clients.
    pub(crate) fn new(device: Arc<Device>) -> Result<Arc<Self>> {
        let names = Arc::pin_init(name::no_names(), GFP_KERNEL)?;
        let shared_buffers = Arc::pin_init(name::no_names(), GFP_KERNEL)?;
        let users = Arc::pin_init(users::none(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                device,
                names,
                shared_buffers,
                users,
                shared_nodes <- new_mutex!(Handles::new(), "galcore shared nodes"),
                shared_signals <- new_mutex!(Handles::new(), "galcore shared signals"),
                drm <- new_mutex!([const { None }; 2], "galcore drm"),
                processes <- new_spinlock!(Members::new(), "galcore processes"),
                hangs <- HangAccounts::new(),
                has_lowered: Atomic::new(false),
                speeds <- new_mutex!((), "galcore speeds"),
            }),
            GFP_KERNEL,
        )
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// MMU tables for a new process, if each process has its own. `ENOSPC`: no tables are left.
    /// `ENOMEM`. `ERESTARTSYS`: a Unix signal interrupts it.
    pub(super) fn new_space(&self) -> Result<Option<Space>> {
        let vm = &self.device.vm;
        self.once_more(ENOSPC, || vm.new_space())
    }

    /// Counts a new process of the calling user. `EAGAIN`: the user has too many. `ENOMEM`.
    /// `ERESTARTSYS`: a Unix signal interrupts it.
    pub(super) fn new_member(&self) -> Result<users::Member> {
        let limit = self.max_processes();
        self.once_more(EAGAIN, || users::enter_process(&self.users, limit))
    }

    /// Calls `take`. If it fails with `full`, waits until the ending processes have ended and no
    /// TLB holds their tables, and calls it again.
    fn once_more<T>(&self, full: kernel::error::Error, take: impl Fn() -> Result<T>) -> Result<T> {
        let taken = take();
        if taken.as_ref().err() != Some(&full) {
            return taken;
        }
        let ended = self.device.reclaimer.wait_for_others();
        match ended.and_then(|()| self.device.vm.wait_for_reclaim()) {
            Err(Error::Interrupted) => Err(ERESTARTSYS),
            _ => take(),
        }
    }

    /// The most processes of one user.
    pub(crate) fn max_processes(&self) -> usize {
        if self.device().vm.has_spaces() {
            MAX_SPACES
        } else {
            MAX_PROCESSES
        }
    }

    /// Opens a file. Returns the [`Process`] of the caller, which all of its files share. Each
    /// program that a process executes gets its own. `ESRCH`: the caller has no memory map.
    /// `EAGAIN`: its user has too many processes. `ENOSPC`: all users together have too many.
    pub(crate) fn join(self: &Arc<Self>) -> Result<Arc<Process>> {
        let current = kernel::current!();
        let leader = current.group_leader();
        let mm: &Mm = current.mm().ok_or(ESRCH)?;
        if let Some(process) = self.processes.lock().join(leader, mm) {
            return Ok(process);
        }
        // If another thread is faster, this is dropped at the end, without the lock.
        let process = match Process::new(self.clone(), leader.into(), mm.into()) {
            // Another thread may have used the last free place for this same process.
            Err(EAGAIN) => return self.processes.lock().join(leader, mm).ok_or(EAGAIN),
            process => process?,
        };
        let nodes = Reservation::new()?;
        {
            let mut members = self.processes.lock();
            // Another thread may have been faster.
            if let Some(process) = members.join(leader, mm) {
                return Ok(process);
            }
            members.insert(nodes, leader.into(), process.clone());
        }
        self.note_change(&process);
        Ok(process)
    }

    /// The calling process, if it has files.
    pub(super) fn of_caller(&self) -> Option<Arc<Process>> {
        let current = kernel::current!();
        let mm: &Mm = current.mm()?;
        let members = self.processes.lock();
        let member =
            members.of_leader(current.group_leader(), |process| process.has_mm(Some(mm)))?;
        Some(member.process.clone())
    }

    /// Calls `show` with the id and the [`Process`] of each process that has files, until it fails.
    /// Skips processes that come during the walk, and may skip those that end.
    pub(crate) fn for_each_process(
        &self,
        mut show: impl FnMut(i32, &Process) -> fmt::Result,
    ) -> fmt::Result {
        let (mut from, mut end) = (0, None);
        // Bounded: stops at the member that was the newest when the walk began.
        loop {
            let (leader, process, has_files) = {
                let members = self.processes.lock();
                let newest = || {
                    members
                        .all
                        .cursor_back()
                        .map_or(0, |last| *last.current().0)
                };
                let end = *end.get_or_insert_with(newest);
                let Some(member) = members.next(from).filter(|_| from <= end) else {
                    return Ok(());
                };
                let leader = member.leader.tgid_nr_ns(None);
                (leader, member.process.clone(), member.files > 0)
            };
            from = process.number + 1;
            if has_files {
                show(leader, &process)?;
            }
        }
    }

    /// Calls `look` with each process that has files. `look` must not sleep or allocate.
    pub(super) fn for_each_member(&self, mut look: impl FnMut(&Process)) {
        let members = self.processes.lock();
        let open = members.all.values().filter(|member| member.files > 0);
        open.for_each(|member| look(&member.process));
    }

    /// Notes the losses of a reset of core `core`, and charges the guilty process. Processes that
    /// have closed their files are included.
    pub(super) fn charge(&self, core: usize, losses: &[Loss], cost: u32) {
        let members = self.processes.lock();
        for loss in losses {
            let Some(member) = members.all.get(&loss.process) else {
                continue;
            };
            let noted = member.process.resets.note(core, loss, &self.hangs, cost);
            if let Some(charged) = noted {
                let is_other = |other: &&Member| other.process.number != loss.process;
                let others = members.all.values().filter(is_other);
                others.for_each(|other| other.process.resets.note_others(&charged, &self.hangs));
            }
        }
    }

    /// The process whose [`Process::number`] this is, if it has files.
    pub(super) fn process(&self, number: u64) -> Option<Arc<Process>> {
        let members = self.processes.lock();
        Some(members.get_open(number)?.process.clone())
    }

    /// Describes the process with this number, even if it has closed its files or exited.
    pub(super) fn culprit(&self, number: u64) -> Option<Culprit> {
        let members = self.processes.lock();
        Some(members.all.get(&number)?.process.resets.culprit())
    }

    /// The process with this id in the caller's PID namespace, if it has files.
    #[cold]
    pub(super) fn find(&self, number: i32) -> Option<Arc<Process>> {
        let leader = sys::leader_of(number)?;
        let members = self.processes.lock();
        let member = members.of_leader(&leader, |_| true)?;
        Some(member.process.clone())
    }

    /// Whether the process with this id in the caller's PID namespace has files.
    #[cold]
    pub(super) fn has(&self, number: i32) -> bool {
        self.find(number).is_some()
    }

    /// Closes a file. Closing the last one ends the process.
    pub(crate) fn leave(&self, process: Arc<Process>) {
        let is_over = self.processes.lock().leave(process.number);
        if is_over {
            self.note_change(&process);
            process.end();
        }
    }

    /// Removes an ending process. All of its jobs have ended, so nothing can be charged to it.
    pub(super) fn forget(&self, process: &Process) {
        let gone = self.processes.lock().all.remove(&process.number);
        // Without the lock.
        drop(gone);
    }
}
