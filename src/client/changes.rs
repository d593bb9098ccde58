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
    action::Count,
    node::{
        self,
        Life,
        NodeEntry, //
    },
    shared,
    tables::Tables,
    Process, //
};
use crate::sys::prelude::*;
use crate::{
    memory::{
        Node,
        UserMemory,
        Word, //
    },
    sys, //
};
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    List,
    ListArc,
    ListLinks, //
};

/// The largest memory, in bytes, that the interrupt's thread itself returns for a record.
const SMALL: usize = 64 << 10;

/// Bytes of one step of a return.
const STEP: usize = 1 << 20;

/// Memory of a process that the GPU returns.
pub(super) enum Returned {
    Node(Arc<Node>),
    Memory(Arc<UserMemory>),
}

impl Returned {
    fn memory(&self) -> Option<&UserMemory> {
        match self {
            Returned::Node(node) => node.wrapped(),
            Returned::Memory(memory) => Some(memory),
        }
    }

    /// Returns up to [`STEP`] bytes to the process. The result says whether more is left.
    fn step(&self) -> bool {
        self.memory().is_some_and(|memory| memory.give_back(STEP))
    }

    /// Returns all of it, unless the thread is killed.
    pub(super) fn finish(&self) {
        while !sys::is_killed() && self.step() {
            sys::yield_if_due();
        }
    }
}

enum Kind {
    /// Remove a lock from a node.
    Unlock {
        node: u32,
        /// For all kinds of nodes, not only page-backed ones.
        all: bool,
        /// The node wraps memory of the process. The last unlock returns it.
        is_wrapped: bool,
    },
    /// Free a node.
    Free {
        node: u32,
        /// The node wraps memory of the process.
        is_wrapped: bool,
    },
    /// Return memory to the process.
    GiveBack(Returned),
    /// Write a word that is slow to write.
    Write(Word, u32),
    /// Count in a word that is slow to write.
    Count(Count),
}

/// The effect of a record.
#[pin_data]
pub(crate) struct Change {
    #[pin]
    links: ListLinks,
    process: Arc<Process>,
    kind: Kind,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Change { untracked; }
}

impl_list_item! {
    impl ListItem<0> for Change { using ListLinks { self.links }; }
}

impl Change {
    fn new(process: &Arc<Process>, kind: Kind) -> Result<ListArc<Self>> {
        let process = process.clone();
        ListArc::pin_init(
            try_pin_init!(Self {
                links <- ListLinks::new(),
                process,
                kind,
            }),
            sys::GFP_CLIENT,
        )
    }

    /// The event half of UNLOCK, for page-backed nodes or for `all`.
    pub(super) fn unlock(process: &Arc<Process>, node: u32, all: bool) -> Result<ListArc<Self>> {
        let is_wrapped = node::wrapped(process, node).is_some();
        let kind = Kind::Unlock {
            node,
            all,
            is_wrapped,
        };
        Self::new(process, kind)
    }

    /// The free of a claimed node.
    pub(super) fn free(process: &Arc<Process>, node: u32) -> Result<ListArc<Self>> {
        let is_wrapped = node::wrapped(process, node).is_some();
        Self::new(process, Kind::Free { node, is_wrapped })
    }

    /// The return of memory that the GPU could use.
    pub(super) fn give_back(
        process: &Arc<Process>,
        memory: Arc<UserMemory>,
    ) -> Result<ListArc<Self>> {
        Self::new(process, Kind::GiveBack(Returned::Memory(memory)))
    }

    /// As [`Change::give_back`], for the memory of a wrapped node.
    pub(super) fn give_back_node(process: &Arc<Process>, node: Arc<Node>) -> Result<ListArc<Self>> {
        Self::new(process, Kind::GiveBack(Returned::Node(node)))
    }

    /// A write of a word that is slow to write.
    pub(super) fn write(process: &Arc<Process>, word: Word, value: u32) -> Result<ListArc<Self>> {
        Self::new(process, Kind::Write(word, value))
    }

    /// A count in a word that is slow to write.
    pub(super) fn count(process: &Arc<Process>, count: Count) -> Result<ListArc<Self>> {
        Self::new(process, Kind::Count(count))
    }

    /// Notes the change. The interrupt's thread calls it.
    pub(crate) fn note(this: ListArc<Self>) {
        if let Kind::GiveBack(returned) = &this.kind {
            match returned.memory() {
                Some(memory) if memory.bytes() > SMALL => {}
                // This never drops the last reference: the table or the reclaimer has one.
                _ => {
                    let _ = returned.step();
                    return;
                }
            }
        }
        let process = this.process.clone();
        let mut changes = process.changes.lock();
        let was_noted = match this.kind {
            Kind::GiveBack(_) | Kind::Write(..) | Kind::Count(_) => {
                changes.returns.push_back(this);
                process.has_returns.xchg(true, Full)
            }
            Kind::Unlock { is_wrapped, .. } | Kind::Free { is_wrapped, .. } => {
                changes.tables.push_back(this);
                if is_wrapped {
                    // Applying this change adds a return.
                    process.has_returns.xchg(true, Full);
                }
                process.has_changes.xchg(true, Full)
            }
        };
        drop(changes);
        // If a change was noted before, the work item is queued and has yet to look at the changes.
        if !was_noted {
            process.queue_changes();
        }
    }
}

/// Changes that are not applied yet, in order.
pub(super) struct Changes {
    tables: List<Change>,
    returns: List<Change>,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            tables: List::new(),
            returns: List::new(),
        }
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
        node::leave_view(process, tables, view);
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
