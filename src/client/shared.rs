// SPDX-License-Identifier: GPL-2.0-only

//! Nodes that every process can lock and free (parameter `sharedNodes`).
//!
//! The vendor's driver takes any node from anybody. Here that is a book of all nodes, by handles that
//! are unique in the device: a process that locks a node which is not its own gets an entry for it in
//! its own table, with locks and a view of its own, until it has given its locks back. The owner's
//! entry is what FREE ends, whoever asks. Source: spec/memory-events.md sections 3.5 and 3.6.
//!
//! Lock: `galcore shared nodes`, a leaf.

use super::{
    handles::Handles,
    node::{
        NodeEntry,
        Origin, //
    },
    visible::Visible,
    Process, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    memory::Node, //
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// A node in the book.
struct Shared {
    node: Arc<Node>,
    owner: Arc<Process>,
}

/// The book of all nodes of a device.
#[pin_data]
pub(crate) struct SharedNodes {
    #[pin]
    book: Mutex<Handles<Option<Shared>>>,
}

impl SharedNodes {
    /// An empty book.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            book <- new_mutex!(Handles::new(), "galcore shared nodes"),
        })
    }

    /// Gives a handle, under which nobody finds anything before [`SharedNodes::publish`].
    fn reserve(&self) -> Result<u32> {
        self.book.lock().insert(None)
    }

    /// Notes a node, which its owner has, under its handle.
    fn publish(&self, handle: u32, shared: Shared) {
        let mut shared = Some(shared);
        if let Some(place) = self.book.lock().get_mut(handle) {
            core::mem::swap(place, &mut shared);
        }
        // Not under the lock, should the handle be gone already.
        drop(shared);
    }

    /// Forgets a node: nobody else can lock it from now on.
    fn remove(&self, handle: u32) {
        let shared = self.book.lock().remove(handle);
        // What it held may go with it: not under the lock.
        drop(shared);
    }

    fn node(&self, handle: u32) -> Option<Arc<Node>> {
        let book = self.book.lock();
        Some(book.get(handle)?.as_ref()?.node.clone())
    }

    fn owner(&self, handle: u32) -> Option<Arc<Process>> {
        let book = self.book.lock();
        Some(book.get(handle)?.as_ref()?.owner.clone())
    }
}

impl Process {
    /// The book, if nodes are shared.
    fn book(&self) -> Option<&SharedNodes> {
        let is_shared = self.device.parameters().shared_nodes;
        is_shared.then(|| self.clients.shared_nodes())
    }

    /// Has `entry` in the table, under a number of its own or of the book's; returns it.
    pub(super) fn insert_node(self: &Arc<Self>, entry: NodeEntry) -> Result<u32> {
        let Some(book) = self.book() else {
            return self.tables().insert_node(None, entry);
        };
        let handle = book.reserve()?;
        let shared = Shared {
            node: entry.node.clone(),
            owner: self.clone(),
        };
        let inserted = self.tables().insert_node(Some(handle), entry);
        match inserted {
            Ok(_) => book.publish(handle, shared),
            Err(_) => book.remove(handle),
        }
        inserted
    }

    /// Gets another process's node, if nodes are shared and there is such a one. To be followed by
    /// [`Process::end_if_over`], should it not be locked.
    pub(super) fn import(&self, handle: u32) -> Result {
        let Some(book) = self.book() else {
            return Ok(());
        };
        if self.tables().nodes.get(handle).is_some() {
            return Ok(());
        }
        let Some(node) = book.node(handle) else {
            return Ok(());
        };
        let entry = NodeEntry::new(Visible::new(node, self)?, Origin::Shared);
        let inserted = self.tables().insert_node(Some(handle), entry);
        match inserted {
            // Another thread was quicker.
            Ok(_) | Err(Error::InvalidData) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whose table FREE of `handle` is about.
    pub(super) fn owner_of(self: &Arc<Self>, handle: u32) -> Arc<Self> {
        let Some(book) = self.book() else {
            return self.clone();
        };
        book.owner(handle).unwrap_or_else(|| self.clone())
    }

    /// Takes a node that FREE has come for out of the book.
    pub(super) fn unshare(&self, handle: u32) {
        if let Some(book) = self.book() {
            book.remove(handle);
        }
    }

    /// Takes all own nodes out of the book.
    pub(super) fn unshare_all(&self) {
        let Some(book) = self.book() else {
            return;
        };
        let mut next = 0;
        // Ends: the handles grow.
        loop {
            let found = {
                let tables = self.tables();
                tables.nodes.first_from(next, |entry| entry.origin)
            };
            match found {
                Some((handle, origin)) => {
                    if origin != Origin::Shared {
                        book.remove(handle);
                    }
                    next = handle + 1;
                }
                None => break,
            }
        }
    }
}
