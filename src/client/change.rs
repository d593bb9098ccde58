// SPDX-License-Identifier: GPL-2.0-only

//! A noted change: the effect of a queue's record that is not applied yet. See
//! [`super::waits`].

use super::{
    signal::Signal,
    Process, //
};
use crate::{
    memory::{
        Node,
        UserMemory,
        Word, //
    },
    sys::{
        self,
        prelude::*, //
    }, //
};
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    List,
    ListLinks, //
};

/// The most bytes of memory that the interrupt thread itself returns for one record.
const SMALL: usize = 64 << 10;

/// The most bytes that one step returns.
const STEP: usize = 1 << 20;

/// Memory that a process gets back after the GPU's last use.
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
    pub(super) fn step(&self) -> bool {
        self.memory().is_some_and(|memory| memory.give_back(STEP))
    }

    /// Returns all of it, unless the thread is killed.
    pub(super) fn finish(&self) {
        while !sys::is_killed() && self.step() {
            sys::yield_if_due();
        }
    }
}

pub(super) enum Kind {
    Unlock {
        node: u32,
        /// Unlock any kind of node, not only a page-backed one.
        all: bool,
        /// The node wraps memory of the process. If this unlock ends the node, the memory returns.
        is_wrapped: bool,
    },
    Free {
        node: u32,
        /// The node wraps memory of the process.
        is_wrapped: bool,
    },
    GiveBack(Returned),
    /// Write a word that is slow to write.
    Write(Word, u32),
    /// Add to a counter that is slow to write.
    Count(Count),
}

/// A change of a counter, which is a word of a client's memory.
pub(crate) struct Count {
    pub(super) counter: Word,
    /// 1, or -1.
    pub(super) step: i32,
    /// A word with the final value of the counter, and the signal to set when the counter reaches
    /// this value.
    pub(super) until: Option<(Word, Option<Arc<Signal>>)>,
}

impl Count {
    pub(super) fn run(&self) {
        let now = self.counter.count(self.step);
        if let Some((wanted, Some(signal))) = &self.until {
            if now.is_some() && now == wanted.read() {
                signal.signal(true);
            }
        }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &Word> {
        let wanted = self.until.as_ref().map(|(wanted, _)| wanted);
        // `Init` has a `chain`, too.
        Iterator::chain(core::iter::once(&self.counter), wanted)
    }
}

/// The effect of a record.
#[pin_data]
pub(crate) struct Change {
    #[pin]
    links: ListLinks,
    process: Arc<Process>,
    pub(super) kind: Kind,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Change { untracked; }
}

impl_list_item! {
    impl ListItem<0> for Change { using ListLinks { self.links }; }
}

impl Change {
    pub(super) fn new(process: &Arc<Process>, kind: Kind) -> Result<ListArc<Self>> {
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

    /// The event half of UNLOCK. Without `all`, it unlocks only page-backed nodes. `None`: there
    /// is no such node.
    pub(super) fn unlock(
        process: &Arc<Process>,
        node: u32,
        all: bool,
    ) -> Result<Option<ListArc<Self>>> {
        let Some(is_wrapped) = is_wrapped(process, node) else {
            return Ok(None);
        };
        let kind = Kind::Unlock {
            node,
            all,
            is_wrapped,
        };
        Self::new(process, kind).map(Some)
    }

    /// The free of a claimed node.
    pub(super) fn free(process: &Arc<Process>, node: u32) -> Result<ListArc<Self>> {
        let is_wrapped = is_wrapped(process, node).unwrap_or(false);
        Self::new(process, Kind::Free { node, is_wrapped })
    }

    /// Notes the change, or returns small memory at once. Called by the interrupt thread.
    pub(crate) fn note(this: ListArc<Self>) {
        if let Kind::GiveBack(returned) = &this.kind {
            match returned.memory() {
                Some(memory) if memory.bytes() > SMALL => {}
                // The memory stays: the table or the reclaimer has another reference.
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
        // If the flag was already set, the work item is queued and has not read the changes yet.
        if !was_noted {
            process.queue_changes();
        }
    }
}

/// Changes that are not applied yet, in order.
pub(super) struct Changes {
    pub(super) tables: List<Change>,
    pub(super) returns: List<Change>,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            tables: List::new(),
            returns: List::new(),
        }
    }
}

/// Whether the node of a handle is wrapped memory of the process. `None`: there is no such node.
pub(super) fn is_wrapped(process: &Process, handle: u32) -> Option<bool> {
    let tables = process.tables();
    let entry = tables.nodes.get(handle);
    entry.map(|entry| entry.back.is_some())
}
