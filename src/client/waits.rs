// SPDX-License-Identifier: GPL-2.0-only

//! Waits for jobs, and for freed memory.
//!
//! Changes that the records of a process's queues make to its tables.
//!
//! A record takes effect when its job ends, in the interrupt thread. This thread must not wait
//! for the tables' lock, which a client can keep busy. So it only notes the change. The next caller
//! of [`Process::tables`], a thread of the process or a work item, applies it. So a client that
//! sees a signal also sees the effects of the records before it.
//!
//! Two effects can take long: writing a word in a part of the pool that the kernel has not mapped,
//! and synchronizing memory that a record returns to the process ([`Kind::GiveBack`]), unless it
//! is small. A thread that waits for a signal or in STALL applies these, or else the work item.
//!
//! Locks: `galcore changes` is a leaf. `galcore returns` ([`Process::returning`]) is above the
//! tables' lock. It is held for one step of a return.

use super::{
    change::{
        Change,
        Kind, //
    },
    client_memory::{
        ClientMemory,
        Reachable, //
    },
    node::{
        Life,
        NodeEntry, //
    },
    restarts::{
        self,
        Limited, //
    },
    shared,
    tables::Tables,
    window,
    Process, //
};
use crate::{
    prelude::*,
    ring::{
        Engine,
        FrontEnd,
        Numbers,
        Waited,
        GPU_TIMEOUT, //
    },
    sys::trace::WaitFor, //
};

/// How often an allocation waits for other processes' memory. They may free memory forever.
const RECLAIMS: u32 = 4;

/// How often, before each of these waits, it waits for memory that the process has freed itself.
const STEPS: u32 = 3;

impl Process {
    /// The process's last job on each core.
    pub(super) fn last_jobs(&self) -> Numbers {
        core::array::from_fn(|core| self.last_jobs[core].load(Relaxed))
    }
}

/// Waits until job `number` of a core has ended. `Interrupted`: a Unix signal interrupts the
/// wait. `GpuNotResponding`: the core makes no progress.
pub(super) fn progressing<F: FrontEnd>(
    process: &Process,
    engine: &Engine<F>,
    number: u64,
) -> Result {
    let core = engine.config.core;
    let what = (WaitFor::Job(core, number), Limited::Progress(core));
    let wait = |left| engine.wait_for_progress(number, left, &process.account);
    restarts::limited(process, what, GPU_TIMEOUT, || engine.moves(), wait)
}

/// Waits until all jobs of the process have ended, and no longer use wrapped memory.
/// `Interrupted`: a Unix signal interrupts the wait. `GpuNotResponding`: a core makes no
/// progress, and may still use the memory.
pub(super) fn wait_for_own_work(process: &Process) -> Result {
    match wait_for_cores(process, None) {
        // Jobs that were dropped with a reset or a dead core have ended.
        Err(Error::GpuNotResponding) if process.device.reclaimer.are_over(&process.last_jobs()) => {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Waits until the process's jobs on all cores but the one at place `except` have ended.
/// `Interrupted`: by a Unix signal. `GpuNotResponding`: a core makes no progress.
pub(super) fn wait_for_cores(process: &Process, except: Option<usize>) -> Result {
    let mut result = Ok(());
    let last = process.last_jobs();
    for core in process.device.cores() {
        if Some(core.index()) == except {
            continue;
        }
        match progressing(process, core.engine(), last[core.index()]) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            outcome => result = result.and(outcome),
        }
    }
    for core in process.device.vectors() {
        let (number, queue) = (last[core.index()], core.engine());
        match progressing(process, queue, number) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The job was dropped with its core: it has ended.
            Err(_) if queue.is_over(number) => {}
            outcome => result = result.and(outcome),
        }
    }
    result
}

/// Reclaims memory that the process has freed, and tries `allocate` again. If that is not
/// enough, waits for memory of other processes and of ending ones, which may take long. Hung
/// cores return no memory.
pub(super) fn reclaim_and<T>(process: &Process, allocate: impl Fn() -> Result<T>) -> Result<T> {
    let reclaimer = &process.device.reclaimer;
    for _ in 0..RECLAIMS {
        let freed = reclaimer.freed();
        // Memory that a job of the process frees is reclaimed in steps: it is unmapped, and then
        // dropped.
        for _ in 0..STEPS {
            let goes_on = reclaim(process)?;
            match allocate() {
                Err(Error::OutOfMemory) if goes_on => {}
                other => return other,
            }
        }
        match reclaimer.wait_for_others() {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => break,
            // Jobs that ended during the wait have freed more memory.
            Ok(()) if reclaimer.freed() != freed => {}
            Ok(()) => break,
        }
    }
    allocate()
}

/// Waits for memory that the process and ended jobs have freed. Returns whether the cores make
/// progress. `Interrupted`. The caller holds no lock.
pub(super) fn reclaim(process: &Process) -> Result<bool> {
    // First: taking the tables' lock applies the changes that ended jobs have noted.
    window::take_left_views(process);
    let reclaimer = &process.device.reclaimer;
    // On any other error, the memory is reclaimed later.
    if reclaimer.wait_for_own(&process.revoker) == Err(Error::Interrupted) {
        return Err(Error::Interrupted);
    }
    match process.device.wait_for_reclaim(&process.account) {
        Err(Error::GpuNotResponding) => Ok(false),
        outcome => outcome,
    }
}

/// As [`ClientMemory::new`]. If the process has no addresses and `waits` is set, waits until
/// some are reclaimed. The caller holds no lock. `Interrupted`.
pub(super) fn show<T: Reachable>(
    process: &Process,
    object: Arc<T>,
    waits: bool,
) -> Result<ClientMemory<T>> {
    match ClientMemory::new(object.clone(), process) {
        Err(Error::OutOfResources) if waits => {
            reclaim(process)?;
            ClientMemory::new(object, process)
        }
        shown => shown,
    }
}

/// Applies noted changes. The caller holds the tables' lock.
#[cold]
#[inline(never)]
pub(super) fn apply(process: &Process, tables: &mut Tables) {
    process.has_changes.store(false, Relaxed);
    // Bounded by the records of the jobs in the rings: a new job needs the tables' lock.
    loop {
        let Some(change) = process.changes.lock().tables.pop_front() else {
            return;
        };
        match change.kind {
            Kind::Unlock { node, all, .. } => {
                let over = tables.finish_unlock(node, all);
                drop_node(process, tables, over);
            }
            Kind::Free { node, .. } => {
                if let Some(entry) = tables.nodes.get_mut(node) {
                    entry.life = Life::Freed;
                }
                shared::unshare(process, node);
                let over = tables.take_if_over(node);
                drop_node(process, tables, over);
            }
            Kind::GiveBack(_) | Kind::Write(..) | Kind::Count(_) => {}
        }
    }
}

/// Drops a node that has ended, without waiting for the GPU. Queues the return of wrapped
/// memory.
fn drop_node(process: &Process, tables: &mut Tables, entry: Option<NodeEntry>) {
    let Some(mut entry) = entry else {
        return;
    };
    if let Some(view) = entry.shown() {
        window::leave_view(process, tables, view);
    }
    if let Some(back) = entry.back.take() {
        process.changes.lock().returns.push_back(back);
        process.has_returns.xchg(true, Full);
    }
}

/// Finishes all returns, unless the thread is killed.
#[inline]
pub(super) fn finish_returns(process: &Process) {
    if process.has_returns.load(Acquire) {
        take_returns(process);
    }
}

#[cold]
#[inline(never)]
fn take_returns(process: &Process) {
    loop {
        let returning = process.returning.lock();
        let Some(change) = next_return(process) else {
            return;
        };
        let is_more = match &change.kind {
            Kind::GiveBack(returned) => returned.step(),
            Kind::Write(word, value) => {
                word.write(*value);
                false
            }
            Kind::Count(count) => {
                count.run();
                false
            }
            Kind::Unlock { .. } | Kind::Free { .. } => false,
        };
        if is_more {
            process.changes.lock().returns.push_front(change)
        } else {
            // Under the lock: a caller that finds no change relies on the drop of the last one.
            drop(change)
        }
        drop(returning);
        if sys::is_killed() {
            return;
        }
        sys::yield_if_due();
    }
}

/// The next return. `None`: all returns noted so far are finished. The caller holds
/// `returning`.
fn next_return(process: &Process) -> Option<ListArc<Change>> {
    if let Some(change) = process.changes.lock().returns.pop_front() {
        return Some(change);
    }
    // The end of a node adds a return. Nodes end under the tables' lock, so none ends while
    // this function holds it.
    let _tables = process.tables();
    let mut changes = process.changes.lock();
    let next = changes.returns.pop_front();
    if next.is_none() {
        // Under the lock: a change that is noted later sets it again.
        process.has_returns.store(false, Relaxed);
    }
    next
}
