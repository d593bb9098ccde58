// SPDX-License-Identifier: GPL-2.0-only

//! The end of a process: all that it owned is given back, by a work item of its own.
//!
//! The last close waits for nothing, so a process that is killed is gone at once whatever it had.
//! If all that the process has submitted has ended by then, its own memory is its own again when
//! the close returns: a process that shares the memory may write there once this one is gone. The
//! work item does all else, in steps, each of which waits in the ring and not there:
//!
//! 1. what the process itself has submitted ends; then its own memory is its own again, and nothing
//!    more can be charged to it;
//! 2. what all processes have submitted by then ends; then everything is dropped.

use super::{
    tables::PerCore,
    Process, //
};
use crate::{
    ring::{
        Kept,
        Numbers,
        Retired, //
    },
    sys, //
};
use kernel::{
    impl_has_work,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::WorkItem, //
};

impl_has_work! {
    impl HasWork<Self, 0> for Process { self.changes_work }
    impl HasWork<Self, 1> for Process { self.ending_work }
}

impl WorkItem<0> for Process {
    type Pointer = Arc<Process>;

    fn run(this: Arc<Process>) {
        // Taking the tables applies what has changed in them.
        drop(this.tables());
        this.finish_returns();
    }
}

impl WorkItem<1> for Process {
    type Pointer = Arc<Process>;

    fn run(this: Arc<Process>) {
        this.take_ending_step();
    }
}

/// What it waits for in the rings has ended.
impl Kept for Process {
    fn bytes(&self) -> usize {
        usize::MAX
    }

    fn passed(self: Arc<Self>) {
        Self::go_on_ending(self);
    }
}

/// The steps.
const OWN_WORK: u32 = 0;
const ALL_WORK: u32 = 1;
const OVER: u32 = 2;

impl Process {
    /// Has the records' effects applied soon.
    pub(super) fn queue_changes(self: &Arc<Self>) {
        sys::work::enqueue::<Arc<Self>, 0>(self.clone());
    }

    /// The last file has been closed: gives everything back once the GPU cannot use it any more.
    /// Takes what the process's own memory takes to be given back, unless the thread is killed.
    pub(crate) fn end(self: Arc<Self>) {
        let reclaimer = self.device.reclaimer();
        reclaimer.note_ending(true);
        self.usage.end();
        if reclaimer.are_over(&self.last_jobs()) {
            self.unshare_all();
            self.unshare_signals();
            self.give_all_back();
        }
        Self::go_on_ending(self);
    }

    /// What the process waited for has ended.
    pub(crate) fn go_on_ending(this: Arc<Self>) {
        sys::work::enqueue::<Arc<Self>, 1>(this);
    }

    fn take_ending_step(self: &Arc<Self>) {
        let reclaimer = self.device.reclaimer();
        let step = self.ending_step.load(Relaxed);
        self.ending_step.store(step + 1, Relaxed);
        match step {
            OWN_WORK => {
                self.unshare_all();
                self.unshare_signals();
                // The windows hold the process. None is mapped any more: each keeps its file open.
                let views = core::mem::take(&mut self.tables().pool_views);
                drop(views);
                self.wait_in_rings(self.last_jobs());
            }
            ALL_WORK => {
                self.clients.forget(self);
                let cores = self.device.cores();
                cores.for_each(|core| core.ring().forget_process(self.number));
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

    /// Goes on ending when these jobs have ended.
    fn wait_in_rings(self: &Arc<Self>, numbers: Numbers) {
        let reclaimer = self.device.reclaimer();
        match Retired::new(self.clone(), None, None) {
            Ok(item) => reclaimer.retire_behind(numbers, item),
            // No memory to wait in the rings: here, then, in this process's own work item.
            Err(_) => {
                // A job whose client has gone may still be running: until its core is reset.
                while !reclaimer.are_over(&numbers) {
                    fsleep(Delta::from_millis(10));
                }
                Self::go_on_ending(self.clone());
            }
        }
    }

    /// Gives the process's own memory back to the process, or to its other users.
    fn give_all_back(&self) {
        self.finish_returns();
        let all = self.tables().own_memory();
        for returned in &all {
            returned.finish();
        }
    }

    /// Drops everything: the GPU is past it, and no handle names it.
    fn release_all(&self) {
        self.end_counts();
        // First, so that jobs of other processes keep no core on for it. Not under the tables' lock.
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

    /// Drops contexts, shared memory, framebuffers and what is kept for each core. Not inlined: the
    /// tables' values would be on the caller's stack, too.
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
