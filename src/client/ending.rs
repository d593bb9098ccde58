// SPDX-License-Identifier: GPL-2.0-only

//! The end of a process: a work item releases all of its objects.
//!
//! The last close does not wait, so that a killed process exits at once. If all jobs of the process
//! have ended, the close returns the process's own memory: processes that share it may then write
//! to it. The work item does the rest in two steps, which wait in the rings, not in the workqueue:
//!
//! 1. When the process's own jobs have ended, it returns the process's own memory, and nothing more
//!    can be charged to the process.
//! 2. When all jobs that exist by then have ended, it drops everything.

use super::{
    profile,
    shared,
    signals,
    tables::PerCore,
    waits,
    Process, //
};
use crate::{
    prelude::*,
    ring::{
        Numbers,
        Retirable,
        Retired, //
    }, //
};
use kernel::{
    impl_has_work,
    workqueue::WorkItem, //
};

impl_has_work! {
    impl HasWork<Self, 0> for Process { self.changes_work }
    impl HasWork<Self, 1> for Process { self.ending_work }
}

impl WorkItem<0> for Process {
    type Pointer = Arc<Process>;

    fn run(this: Arc<Process>) {
        // Locking the tables applies the changes.
        drop(this.tables());
        waits::finish_returns(&this);
    }
}

impl WorkItem<1> for Process {
    type Pointer = Arc<Process>;

    fn run(this: Arc<Process>) {
        this.take_ending_step();
    }
}

/// Waits in the rings for the next step of its end.
impl Retirable for Process {
    fn bytes(&self) -> usize {
        usize::MAX
    }

    fn passed(self: Arc<Self>) {
        Self::go_on_ending(self);
    }
}

/// The steps of the end.
const OWN_WORK: u32 = 0;
const ALL_WORK: u32 = 1;
const OVER: u32 = 2;

impl Process {
    /// Queues the work item that applies changes.
    pub(super) fn queue_changes(self: &Arc<Self>) {
        sys::work::enqueue::<Arc<Self>, 0>(self.clone());
    }

    /// Ends the process after its last close. Everything is released after the GPU's last use. If
    /// all jobs have ended, this returns the process's own memory, unless the thread is killed.
    pub(crate) fn end(self: Arc<Self>) {
        let reclaimer = &self.device.reclaimer;
        reclaimer.note_ending(true);
        self.account.end();
        if reclaimer.are_over(&self.last_jobs()) {
            shared::unshare_all(&self);
            signals::unshare(&self);
            self.give_all_back();
        }
        Self::go_on_ending(self);
    }

    /// Queues the next step of the end.
    pub(crate) fn go_on_ending(this: Arc<Self>) {
        sys::work::enqueue::<Arc<Self>, 1>(this);
    }

    fn take_ending_step(self: &Arc<Self>) {
        let reclaimer = &self.device.reclaimer;
        let step = self.ending_step.load(Relaxed);
        self.ending_step.store(step + 1, Relaxed);
        match step {
            OWN_WORK => {
                shared::unshare_all(self);
                signals::unshare(self);
                // The windows hold references to the process. None is mapped, because a mapping
                // keeps its file open.
                let views = core::mem::take(&mut self.tables().pool_views);
                drop(views);
                self.wait_in_rings(self.last_jobs());
            }
            ALL_WORK => {
                self.clients.forget(self);
                let cores = self.device.cores();
                cores.for_each(|core| core.engine().forget_process(self.number));
                self.give_all_back();
                self.wait_in_rings(reclaimer.newest());
            }
            OVER => {
                self.release_all();
                reclaimer.note_ending(false);
            }
            _ => {}
        }
    }

    /// Queues the next step of the end for when these jobs have ended.
    fn wait_in_rings(self: &Arc<Self>, numbers: Numbers) {
        let reclaimer = &self.device.reclaimer;
        match Retired::new(self.clone(), None, None) {
            Ok(item) => reclaimer.retire(Some(&numbers), item),
            // No memory for a wait in the rings: wait here, in the process's own work item.
            Err(_) => {
                // Bounded: the hang check resets a core with a job that does not end.
                while !reclaimer.are_over(&numbers) {
                    fsleep(Delta::from_millis(10));
                }
                Self::go_on_ending(self.clone());
            }
        }
    }

    /// Returns the process's own memory to the process, or to its other users.
    fn give_all_back(&self) {
        waits::finish_returns(self);
        let all = self.tables().own_memory();
        for returned in &all {
            returned.finish();
        }
    }

    /// Drops everything. The GPU must have ended its use, and no handle may name it.
    fn release_all(&self) {
        profile::end_counts(self);
        // First, so that the cores can be switched off; without the tables' lock.
        let kept_on = core::mem::take(&mut self.tables().kept_on);
        drop(kept_on);
        let nodes = core::mem::take(&mut self.tables().nodes);
        nodes.for_each(|entry| {
            entry.node.release();
            sys::yield_if_due();
        });
        let buffers = core::mem::take(&mut self.tables().buffers);
        buffers.for_each(|entry| {
            entry.buffer.release();
            sys::yield_if_due();
        });
        let memory = core::mem::take(&mut self.tables().user_memory);
        memory.for_each(|mapped| {
            mapped.release();
            sys::yield_if_due();
        });
        self.drop_kept();
    }

    /// Drops contexts, shared memory, framebuffers and the state of each core. It is not inlined,
    /// which keeps the values off the caller's stack.
    #[inline(never)]
    fn drop_kept(&self) {
        let mut tables = self.tables();
        let contexts = core::mem::take(&mut tables.contexts);
        let pieces = core::mem::take(&mut tables.pieces);
        let shared_infos = core::mem::take(&mut tables.shared_infos);
        let framebuffers = core::mem::take(&mut tables.framebuffers);
        let left_views = core::mem::take(&mut tables.left_views);
        let per_core = core::mem::replace(&mut tables.per_core, PerCore::all());
        drop(tables);
        drop((
            contexts,
            pieces,
            shared_infos,
            framebuffers,
            per_core,
            left_views,
        ));
    }
}
