// SPDX-License-Identifier: GPL-2.0-only

//! How a core comes to be, and the device that open files see.
//!
//! A core is a platform device: one that the device tree describes (`vivante,gc`, as for etnaviv),
//! or one that this driver makes from its parameters. Either way [`driver::Driver`] probes it.
//!
//! Lock: [`Device::processes`], outermost; nothing is waited for under it.

use super::Core;
use crate::{
    abi::IdentityWords,
    client::{
        Names,
        Process,
        SharedBuffers,
        SharedNodes, //
    },
    hw::Identity,
    memory::{
        Node,
        VideoMemory, //
    },
    params::Parameters,
    sys::{
        irq::LineMapping,
        platform::OwnDevice, //
    }, //
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

/// A process with open files.
struct Member {
    /// Its thread group's leader, which no other process can be while it is held here.
    leader: ARef<Task>,
    files: usize,
    process: Arc<Process>,
}

/// What open files see: a core and the memory it works on.
#[pin_data]
pub(crate) struct Device {
    parameters: Parameters,
    core: Arc<Core>,
    /// The core's, as clients are to see it.
    identity: Identity,
    /// The same as they are told it.
    identity_words: IdentityWords,
    memory: Arc<VideoMemory>,
    #[pin]
    shared_nodes: SharedNodes,
    names: Arc<Names<Node>>,
    shared_buffers: Arc<SharedBuffers>,
    #[pin]
    processes: Mutex<KVec<Member>>,
}

impl Device {
    /// A device without processes.
    pub(crate) fn new(
        parameters: Parameters,
        core: Arc<Core>,
        memory: Arc<VideoMemory>,
    ) -> Result<Arc<Self>> {
        let identity = core
            .identity()
            .reported(parameters.fast_clear, parameters.compression);
        let names = Arc::pin_init(Names::new(), GFP_KERNEL)?;
        let shared_buffers = Arc::pin_init(Names::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                parameters,
                names,
                shared_buffers,
                core,
                identity_words: IdentityWords::from(&identity),
                identity,
                memory,
                shared_nodes <- SharedNodes::new(),
                processes <- new_mutex!(KVec::new(), "galcore processes"),
            }),
            GFP_KERNEL,
        )
    }

    /// The module's parameters.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The core.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Arc<VideoMemory> {
        &self.memory
    }

    /// The nodes that every process can use, if nodes are shared.
    pub(crate) fn shared_nodes(&self) -> &SharedNodes {
        &self.shared_nodes
    }

    /// The names of nodes.
    pub(crate) fn names(&self) -> &Arc<Names<Node>> {
        &self.names
    }

    /// The buffers that processes share.
    pub(crate) fn shared_buffers(&self) -> &Arc<SharedBuffers> {
        &self.shared_buffers
    }

    /// The core's identity as clients are to see it.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The words of [`Device::identity`] that clients are told.
    pub(crate) fn identity_words(&self) -> &IdentityWords {
        &self.identity_words
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
