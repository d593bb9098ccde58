// SPDX-License-Identifier: GPL-2.0-only

//! The clients of a device: the table of processes that have it open, and what they share.
//!
//! Lock: `galcore processes`, a spinlock: the recovery of a core takes it, and whoever has it must
//! not be preempted. Under it comes `galcore guilt` alone, and nothing is allocated.

use super::{
    guilt::Guilt,
    names::Names,
    shared::SharedNodes,
    shared_buffers::SharedBuffers,
    shared_signals::SharedSignals,
    Device,
    Process, //
};
use crate::{
    memory::Node,
    ring::Toll,
    sys::slot::Slot, //
};
use kernel::{
    mm::Mm,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Atomic,
        new_mutex,
        new_spinlock,
        Arc,
        Mutex,
        SpinLock, //
    },
    task::Task, //
};

/// The device that is bound now, and its clients: what `open(2)` and procfs find.
pub(crate) static CLIENTS: Slot<Clients> = Slot::new();

/// A process with open files, or one whose work has not ended yet.
struct Member {
    /// Its thread group's leader, which no other process can be while it is held here. Programs
    /// that it has executed have it too: they differ by their memory map, which is the `process`'s.
    leader: ARef<Task>,
    /// 0: it ends, and is nobody's any more.
    files: usize,
    process: Arc<Process>,
}

/// A device and those who have it open.
#[pin_data]
pub(crate) struct Clients {
    device: Arc<Device>,
    #[pin]
    shared_nodes: SharedNodes,
    #[pin]
    shared_signals: SharedSignals,
    names: Arc<Names<Node>>,
    shared_buffers: Arc<SharedBuffers>,
    #[pin]
    processes: SpinLock<KVec<Member>>,
    #[pin]
    guilt: Guilt,
    /// A process wants less than a core's full clock.
    pub(super) has_lowered: Atomic<bool>,
    /// One thread at a time sets the cores' clocks.
    #[pin]
    pub(super) speeds: Mutex<()>,
}

impl Clients {
    /// A device that nobody has open.
    pub(crate) fn new(device: Arc<Device>) -> Result<Arc<Self>> {
        let names = Arc::pin_init(Names::new(), GFP_KERNEL)?;
        let shared_buffers = Arc::pin_init(Names::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                device,
                names,
                shared_buffers,
                shared_nodes <- SharedNodes::new(),
                shared_signals <- SharedSignals::new(),
                processes <- new_spinlock!(KVec::new(), "galcore processes"),
                guilt <- Guilt::new(),
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

    /// The nodes that every process can use, if nodes are shared.
    pub(super) fn shared_nodes(&self) -> &SharedNodes {
        &self.shared_nodes
    }

    pub(super) fn shared_signals(&self) -> &SharedSignals {
        &self.shared_signals
    }

    /// Who has hung cores lately.
    pub(crate) fn guilt(&self) -> &Guilt {
        &self.guilt
    }

    /// The names of nodes.
    pub(super) fn names(&self) -> &Arc<Names<Node>> {
        &self.names
    }

    /// The buffers that processes share.
    pub(super) fn shared_buffers(&self) -> &Arc<SharedBuffers> {
        &self.shared_buffers
    }

    /// A file is opened: returns the objects of the calling process, which its files share. Another
    /// program that the process executes has objects of its own. `ESRCH`: no process calls.
    pub(crate) fn join(self: &Arc<Self>) -> Result<Arc<Process>> {
        let current = kernel::current!();
        let leader = current.group_leader();
        let mm: &Mm = current.mm().ok_or(ESRCH)?;
        if let Some(process) = self.joined(leader, mm) {
            return Ok(process);
        }
        // What is made here for nothing goes at the end, without the lock.
        let process = Process::new(self.clone(), leader.into(), mm.into())?;
        let mut room = KVec::new();
        loop {
            let wanted = {
                let mut members = self.processes.lock();
                // Another thread may have been quicker.
                if let Some(process) = Self::join_member(&mut members, leader, mm) {
                    return Ok(process);
                }
                let wanted = members.len() + 1;
                if members.capacity() < wanted && room.capacity() >= wanted {
                    members.drain_all().for_each(|member| {
                        // There is room.
                        let _ = room.push_within_capacity(member);
                    });
                    core::mem::swap(&mut *members, &mut room);
                }
                let member = Member {
                    leader: leader.into(),
                    files: 1,
                    process: process.clone(),
                };
                match members.push_within_capacity(member) {
                    Ok(()) => break,
                    Err(_) => wanted,
                }
            };
            room = KVec::with_capacity(wanted * 2, GFP_KERNEL)?;
        }
        self.note_change(&process);
        Ok(process)
    }

    /// A file more of the process with this leader and memory map, if it has any.
    fn joined(&self, leader: &Task, mm: &Mm) -> Option<Arc<Process>> {
        Self::join_member(&mut self.processes.lock(), leader, mm)
    }

    fn join_member(members: &mut KVec<Member>, leader: &Task, mm: &Mm) -> Option<Arc<Process>> {
        let member = members.iter_mut().find(|member| {
            member.files > 0
                && core::ptr::eq(&*member.leader, leader)
                && member.process.has_mm(Some(mm))
        })?;
        member.files += 1;
        Some(member.process.clone())
    }

    /// Calls `look` with the id and the objects of each process that has files. One that comes or
    /// goes meanwhile may be left out.
    pub(crate) fn for_each_process(&self, mut look: impl FnMut(i32, &Process)) {
        let mut index = 0;
        loop {
            let (leader, process) = {
                let members = self.processes.lock();
                let Some(member) = members.get(index) else {
                    return;
                };
                let has_files = member.files > 0;
                let process = has_files.then(|| member.process.clone());
                (member.leader.tgid_nr_ns(None), process)
            };
            if let Some(process) = process {
                look(leader, &process);
            }
            index += 1;
        }
    }

    /// Calls `look` with each process that has files. Nothing is to be allocated, or waited for.
    pub(super) fn for_each_member(&self, mut look: impl FnMut(&Process)) {
        let members = self.processes.lock();
        let open = members.iter().filter(|member| member.files > 0);
        open.for_each(|member| look(&member.process));
    }

    /// Core `core` was reset, which has cost these processes that: each learns of it, also one that
    /// has closed its files, and who has caused it is charged.
    pub(super) fn charge(&self, core: usize, tolls: &[Toll]) {
        let members = self.processes.lock();
        for toll in tolls {
            let its = |member: &&Member| member.process.number() == toll.process;
            let Some(member) = members.iter().find(its) else {
                continue;
            };
            let (id, resets) = (member.leader.tgid_nr_ns(None), member.process.resets());
            if let Some(who) = resets.note(id, core, toll, &self.guilt) {
                let others = members.iter().filter(|other| !its(other));
                others.for_each(|other| other.process.resets().note_others(&who));
            }
        }
    }

    /// The process with this number of ours, and its id, if it has files.
    pub(super) fn process(&self, number: u64) -> Option<(i32, Arc<Process>)> {
        let members = self.processes.lock();
        let mut members = members.iter();
        let member =
            members.find(|member| member.files > 0 && member.process.number() == number)?;
        Some((member.leader.tgid_nr_ns(None), member.process.clone()))
    }

    /// The process with this number, as the caller sees it, if it has files.
    #[cold]
    pub(super) fn find(&self, number: i32) -> Option<Arc<Process>> {
        // 0 is what all have that the caller does not see.
        if number <= 0 {
            return None;
        }
        let members = self.processes.lock();
        let mut open = members.iter().filter(|member| member.files > 0);
        let member = open.find(|member| member.leader.tgid_nr_ns(None) == number)?;
        Some(member.process.clone())
    }

    /// Whether the process with this number, as the caller sees it, has files.
    #[cold]
    pub(super) fn has(&self, number: i32) -> bool {
        let members = self.processes.lock();
        let mut open = members.iter().filter(|member| member.files > 0);
        number > 0 && open.any(|member| member.leader.tgid_nr_ns(None) == number)
    }

    /// A file is closed; with its last one a process ends.
    pub(crate) fn leave(&self, process: Arc<Process>) {
        let is_over = {
            let mut members = self.processes.lock();
            let member = members
                .iter_mut()
                .find(|member| Arc::ptr_eq(&member.process, &process));
            member.is_some_and(|member| {
                member.files -= 1;
                member.files == 0
            })
        };
        if is_over {
            self.note_change(&process);
            process.end();
        }
    }

    /// All that `process`, which ends, has submitted has ended: nothing more can be charged to it.
    pub(super) fn forget(&self, process: &Process) {
        let gone = {
            let mut members = self.processes.lock();
            let index = members
                .iter()
                .position(|member| core::ptr::eq(&*member.process, process));
            index.and_then(|index| members.remove(index).ok())
        };
        drop(gone);
    }
}
