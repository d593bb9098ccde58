// SPDX-License-Identifier: GPL-2.0-only

//! What the records of a queue change in their process's tables.
//!
//! A record takes effect when its job has ended: in the interrupt's thread, which must not wait for
//! the tables, since a client can keep them busy. There a record is only noted. The next caller of
//! [`Process::tables`] applies it: a thread of the process, in its own time, or a work item of the
//! process's. So a client that sees the signal after a record sees the record's effect, too.
//!
//! Some effects take time: a word in a pool that the kernel has no mapping of, and more than a
//! little memory that records give back to the process ([`Change::give_back`]), which must be
//! synchronized. The thread that waits for a signal does these, or STALL, or the work item.
//!
//! Locks: `galcore changes`, a leaf; `galcore returns` ([`Process::returning`]), above the tables',
//! held while one step of a return is made.

use super::{
    action::Count,
    node::{
        Life,
        NodeEntry, //
    },
    tables::Tables,
    Process, //
};
use crate::{
    memory::{
        Node,
        UserMemory,
        Word, //
    },
    sys, //
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListArc,
        ListLinks, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Full,
            Relaxed, //
        },
        Arc, //
    },
};

/// Bytes that the interrupt's thread itself gives back for one record.
const SMALL: usize = 64 << 10;

/// Bytes that are given back in one step.
const STEP: usize = 1 << 20;

/// Memory of a process's that it gets back.
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

    /// Gives a step back; says whether more is left.
    fn step(&self) -> bool {
        self.memory().is_some_and(|memory| memory.give_back(STEP))
    }

    /// Gives all of it back, unless the thread is killed.
    pub(super) fn finish(&self) {
        while !sys::is_killed() && self.step() {
            sys::yield_if_due();
        }
    }
}

enum Kind {
    /// One lock less on a node.
    Unlock {
        node: u32,
        /// Whatever it is; else on a page-backed one.
        all: bool,
        /// It is the process's own memory, which is the process's again with its last lock.
        is_wrapped: bool,
    },
    /// A node has been freed.
    Free {
        node: u32,
        /// As above.
        is_wrapped: bool,
    },
    /// The GPU is done with memory of the process's.
    GiveBack(Returned),
    /// Write a word, where that takes time.
    Write(Word, u32),
    /// The same for a word that counts.
    Count(Count),
}

/// A record's effect.
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

    /// The event half of UNLOCK: of a page-backed node, or of `all`.
    pub(super) fn unlock(process: &Arc<Process>, node: u32, all: bool) -> Result<ListArc<Self>> {
        let is_wrapped = process.wrapped_node(node).is_some();
        let kind = Kind::Unlock {
            node,
            all,
            is_wrapped,
        };
        Self::new(process, kind)
    }

    /// The end of a claimed node.
    pub(super) fn free(process: &Arc<Process>, node: u32) -> Result<ListArc<Self>> {
        let is_wrapped = process.wrapped_node(node).is_some();
        Self::new(process, Kind::Free { node, is_wrapped })
    }

    /// The process gets memory back that the GPU could use.
    pub(super) fn give_back(
        process: &Arc<Process>,
        memory: Arc<UserMemory>,
    ) -> Result<ListArc<Self>> {
        Self::new(process, Kind::GiveBack(Returned::Memory(memory)))
    }

    /// As [`Change::give_back`], with the memory of a wrapped node.
    pub(super) fn give_back_node(process: &Arc<Process>, node: Arc<Node>) -> Result<ListArc<Self>> {
        Self::new(process, Kind::GiveBack(Returned::Node(node)))
    }

    /// A word is written, which takes time.
    pub(super) fn write(process: &Arc<Process>, word: Word, value: u32) -> Result<ListArc<Self>> {
        Self::new(process, Kind::Write(word, value))
    }

    /// A word is counted in, which takes time.
    pub(super) fn count(process: &Arc<Process>, count: Count) -> Result<ListArc<Self>> {
        Self::new(process, Kind::Count(count))
    }

    /// Notes it. Called by the interrupt's thread.
    pub(crate) fn note(this: ListArc<Self>) {
        if let Kind::GiveBack(returned) = &this.kind {
            match returned.memory() {
                Some(memory) if memory.bytes() > SMALL => {}
                // Never the last reference: the table has one, or the reclaimer.
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
                    // What goes to the returns when this is applied.
                    process.has_returns.xchg(true, Full);
                }
                process.has_changes.xchg(true, Full)
            }
        };
        drop(changes);
        // Else the work item is queued already, and has not begun with them.
        if !was_noted {
            process.queue_changes();
        }
    }
}

/// The changes that are not applied yet, in order.
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

impl Process {
    /// Applies what records have changed. The caller has the tables.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_changes(&self, tables: &mut Tables) {
        self.has_changes.store(false, Relaxed);
        // Ends: as many records as the jobs under way have, and no more can come: they take the
        // tables.
        loop {
            let Some(change) = self.changes.lock().tables.pop_front() else {
                return;
            };
            match change.kind {
                Kind::Unlock { node, all, .. } => {
                    let over = tables.finish_unlock(node, all);
                    self.let_go(tables, over);
                }
                Kind::Free { node, .. } => {
                    if let Some(entry) = tables.nodes.get_mut(node) {
                        entry.life = Life::Freed;
                    }
                    self.unshare(node);
                    let over = tables.take_if_over(node);
                    self.let_go(tables, over);
                }
                Kind::GiveBack(_) | Kind::Write(..) | Kind::Count(_) => {}
            }
        }
    }

    /// Drops a node that has ended, without waiting for the GPU. The returns give the process its
    /// own memory back.
    fn let_go(&self, tables: &mut Tables, entry: Option<NodeEntry>) {
        let Some(mut entry) = entry else {
            return;
        };
        if let Some(view) = entry.shown() {
            self.leave_view(tables, view);
        }
        if let Some(back) = entry.back.take() {
            self.changes.lock().returns.push_back(back);
            self.has_returns.xchg(true, Full);
        }
    }

    /// Gives the process's memory back to it that the GPU is done with, unless the thread is
    /// killed.
    #[inline]
    pub(super) fn finish_returns(&self) {
        if self.has_returns.load(Acquire) {
            self.take_returns();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_returns(&self) {
        loop {
            let returning = self.returning.lock();
            let Some(change) = self.next_return() else {
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
            match is_more {
                true => self.changes.lock().returns.push_front(change),
                // Under the lock: a caller that finds no change left relies on the last one being
                // dropped.
                false => drop(change),
            }
            drop(returning);
            if sys::is_killed() {
                return;
            }
            sys::yield_if_due();
        }
    }

    /// The next return. `None`: there is none, nor will there be one of what has been noted so far.
    /// The caller has `returning`.
    fn next_return(&self) -> Option<ListArc<Change>> {
        if let Some(change) = self.changes.lock().returns.pop_front() {
            return Some(change);
        }
        // Nodes that have ended add returns. Changes are applied under the tables' lock, so none is
        // on its way while it is held.
        let _tables = self.tables();
        let mut changes = self.changes.lock();
        let next = changes.returns.pop_front();
        if next.is_none() {
            // Under the lock: what is noted from now on says so again.
            self.has_returns.store(false, Relaxed);
        }
        next
    }
}
