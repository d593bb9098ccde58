// SPDX-License-Identifier: GPL-2.0-only

//! The clients of a device: the table of processes that have it open, and what they share.
//!
//! Lock: `galcore processes`, outermost; nothing is waited for under it.

use super::{
    names::Names,
    shared::SharedNodes,
    shared_buffers::SharedBuffers,
    Device,
    Process, //
};
use crate::{
    memory::Node,
    sys::slot::Slot, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        new_mutex,
        Arc,
        Mutex, //
    },
    task::Task, //
};

/// The device that is bound now, and its clients: what `open(2)` and procfs find.
pub(crate) static CLIENTS: Slot<Clients> = Slot::new();

/// A process with open files.
struct Member {
    /// Its thread group's leader, which no other process can be while it is held here.
    leader: ARef<Task>,
    files: usize,
    process: Arc<Process>,
}

/// A device and those who have it open.
#[pin_data]
pub(crate) struct Clients {
    device: Arc<Device>,
    #[pin]
    shared_nodes: SharedNodes,
    names: Arc<Names<Node>>,
    shared_buffers: Arc<SharedBuffers>,
    #[pin]
    processes: Mutex<KVec<Member>>,
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
                processes <- new_mutex!(KVec::new(), "galcore processes"),
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

    /// The names of nodes.
    pub(super) fn names(&self) -> &Arc<Names<Node>> {
        &self.names
    }

    /// The buffers that processes share.
    pub(super) fn shared_buffers(&self) -> &Arc<SharedBuffers> {
        &self.shared_buffers
    }

    /// A file is opened: returns the objects of the calling process, which its files share.
    pub(crate) fn join(self: &Arc<Self>) -> Result<Arc<Process>> {
        let current = kernel::current!();
        let leader = current.group_leader();
        let mut members = self.processes.lock();
        if let Some(member) = members
            .iter_mut()
            .find(|member| core::ptr::eq(&*member.leader, leader))
        {
            member.files += 1;
            return Ok(member.process.clone());
        }
        let process = Process::new(self.clone(), leader.into())?;
        members.push(
            Member {
                leader: leader.into(),
                files: 1,
                process: process.clone(),
            },
            GFP_KERNEL,
        )?;
        Ok(process)
    }

    /// Calls `look` with the id and the objects of each process that has files.
    pub(crate) fn for_each_process(&self, mut look: impl FnMut(i32, &Process)) {
        for member in self.processes.lock().iter() {
            look(member.leader.tgid_nr_ns(None), &member.process);
        }
    }

    /// Whether the process with this number, as the caller sees it, has files.
    #[cold]
    pub(super) fn has(&self, number: i32) -> bool {
        let members = self.processes.lock();
        let mut leaders = members.iter().map(|member| &member.leader);
        leaders.any(|leader| leader.tgid_nr_ns(None) == number)
    }

    /// A file is closed; with its last one a process ends.
    pub(crate) fn leave(&self, process: Arc<Process>) {
        let over = {
            let mut members = self.processes.lock();
            let index = members
                .iter()
                .position(|member| Arc::ptr_eq(&member.process, &process));
            match index.and_then(|index| Some((index, members.get_mut(index)?))) {
                Some((_, member)) if member.files > 1 => {
                    member.files -= 1;
                    None
                }
                Some((index, _)) => members.remove(index).ok(),
                None => None,
            }
        };
        if over.is_some() {
            drop(over);
            process.end();
        }
    }
}
