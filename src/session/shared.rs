// SPDX-License-Identifier: GPL-2.0-only

//! Nodes that every process can lock and free (parameter `sharedNodes`).
//!
//! The vendor's driver takes any node from anybody. Here that is a book of all nodes, by handles that
//! are unique in the device: a process that locks a node which is not its own gets an entry for it in
//! its own table, with locks and a view of its own, until it has given its locks back. The owner's
//! entry is what FREE ends, whoever asks. Source: spec/memory-events.md sections 3.5 and 3.6.
//!
//! Lock: `galcore shared nodes`, taken under no other but `galcore completion`, and with none under it.

use super::{
    handles::Handles,
    NodeEntry,
    Process, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    memory::Node,
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
    book: Mutex<Handles<Shared>>,
}

impl SharedNodes {
    /// An empty book.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            book <- new_mutex!(Handles::new(), "galcore shared nodes"),
        })
    }

    /// Notes a node, and gives it its handle.
    fn insert(&self, node: Arc<Node>, owner: Arc<Process>) -> Result<u32> {
        self.book.lock().insert(Shared { node, owner })
    }

    /// Forgets a node: nobody else can lock it from now on.
    fn remove(&self, handle: u32) {
        let shared = self.book.lock().remove(handle);
        // What it held may go with it: not under the lock.
        drop(shared);
    }

    fn node(&self, handle: u32) -> Option<Arc<Node>> {
        let book = self.book.lock();
        Some(book.get(handle)?.node.clone())
    }

    fn owner(&self, handle: u32) -> Option<Arc<Process>> {
        let book = self.book.lock();
        Some(book.get(handle)?.owner.clone())
    }
}

impl Process {
    /// The book, if nodes are shared.
    fn book(&self) -> Option<&SharedNodes> {
        let is_shared = self.device.parameters().shared_nodes;
        is_shared.then(|| self.device.shared_nodes())
    }

    /// Has `entry` in the table, under a number of its own or of the book's; returns it.
    pub(super) fn insert_node(self: &Arc<Self>, entry: NodeEntry) -> Result<u32> {
        let Some(book) = self.book() else {
            return self.tables.lock().nodes.insert(entry);
        };
        let handle = book.insert(entry.node.clone(), self.clone())?;
        let inserted = self.tables.lock().nodes.insert_at(handle, entry);
        inserted
            .map(|()| handle)
            .inspect_err(|_| book.remove(handle))
    }

    /// Gets another process's node, if nodes are shared and there is such a one. To be followed by
    /// [`Process::drop_if_over`], should it not be locked.
    pub(super) fn import(&self, handle: u32) -> Result {
        let Some(book) = self.book() else {
            return Ok(());
        };
        if self.tables.lock().nodes.get(handle).is_some() {
            return Ok(());
        }
        let Some(node) = book.node(handle) else {
            return Ok(());
        };
        // Dropped after the lock, should it not be kept.
        let held = node.clone();
        let (address, bytes) = (node.address(), node.bytes());
        let mut tables = self.tables.lock();
        tables.reach.add(address, bytes)?;
        let entry = NodeEntry {
            imported: true,
            ..NodeEntry::new(node)
        };
        match tables.nodes.insert_at(handle, entry) {
            // Another thread was quicker.
            Err(Error::InvalidData) => {}
            Err(error) => {
                tables.reach.remove(address);
                drop(tables);
                drop(held);
                return Err(error);
            }
            Ok(()) => {}
        }
        Ok(())
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
                let tables = self.tables.lock();
                tables.nodes.first_from(next, |entry| entry.imported)
            };
            match found {
                Some((handle, imported)) => {
                    if !imported {
                        book.remove(handle);
                    }
                    next = handle + 1;
                }
                None => break,
            }
        }
    }
}
