// SPDX-License-Identifier: GPL-2.0-only

//! Changes that the records of a process's queues make to its tables.
//!
//! A record takes effect when its job ends, in the interrupt's thread. This thread must not wait
//! for the tables' lock, which a client can keep busy. So it only notes the change. The next caller
//! of [`Process::tables`], a thread of the process or a work item, applies it. So a client that
//! sees a signal also sees the effects of the records before it.
//!
//! Two effects can take long: writing a word in a part of the pool that the kernel has not mapped,
//! and synchronizing memory that a record returns to the process ([`Change::give_back`]), unless it
//! is small. A thread that waits for a signal or in STALL applies these, or else the work item.
//!
//! Locks: `galcore changes` is a leaf. `galcore returns` ([`Process::returning`]) is above the
//! tables' lock. It is held for one step of a return.

use super::{
    change::{
        Change,
        Kind, //
    },
    node::{
        Life,
        NodeEntry, //
    },
    shared,
    tables::Tables,
    window,
    Process, //
};
use crate::sys::{
    self,
    prelude::*, //
};
use kernel::list::ListArc;

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
