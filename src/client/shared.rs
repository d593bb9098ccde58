// SPDX-License-Identifier: GPL-2.0-only

//! Nodes that every process can lock and free (parameter `sharedNodes`).
//!
//! The vendor's driver takes any node from anybody. Here that is a registry of all nodes, by
//! handles that are unique in the device: a process that locks a node which is not its own gets an
//! entry for it in its own table, with locks and a view of its own, until it has given its locks
//! back. FREE by any process ends the owner's entry. Source: sources.md, video memory.
//!
//! Lock: `galcore shared nodes`, a leaf.

use super::{
    changes::Change,
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

/// A node in the registry.
struct Shared {
    node: Arc<Node>,
    owner: Arc<Process>,
}

/// The registry of all nodes of a device.
#[pin_data]
pub(crate) struct SharedNodes {
    #[pin]
    registry: Mutex<Handles<Option<Shared>>>,
}

impl SharedNodes {
    /// An empty registry.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            registry <- new_mutex!(Handles::new(), "galcore shared nodes"),
        })
    }

    /// Reserves a handle, which finds nothing before [`SharedNodes::publish`].
    fn reserve(&self) -> Result<u32> {
        self.registry.lock().insert(None)
    }

    /// Notes a node, which its owner has, under its handle.
    fn publish(&self, handle: u32, shared: Shared) {
        let mut shared = Some(shared);
        if let Some(place) = self.registry.lock().get_mut(handle) {
            core::mem::swap(place, &mut shared);
        }
        // Not under the lock, should the handle be gone already.
        drop(shared);
    }

    /// Forgets a node: no other process can lock it from now on.
    fn remove(&self, handle: u32) {
        let shared = self.registry.lock().remove(handle);
        // What it held may go with it: not under the lock.
        drop(shared);
    }

    fn node(&self, handle: u32) -> Option<Arc<Node>> {
        let registry = self.registry.lock();
        Some(registry.get(handle)?.as_ref()?.node.clone())
    }

    fn owner(&self, handle: u32) -> Option<Arc<Process>> {
        let registry = self.registry.lock();
        Some(registry.get(handle)?.as_ref()?.owner.clone())
    }
}

impl Process {
    /// The registry, if nodes are shared.
    pub(super) fn registry(&self) -> Option<&SharedNodes> {
        let is_shared = self.device.parameters().shared_nodes;
        is_shared.then(|| self.clients.shared_nodes())
    }

    /// Has `entry` in the table, under a number of its own or of the registry's; returns it.
    pub(super) fn insert_node(self: &Arc<Self>, mut entry: NodeEntry) -> Result<u32> {
        if entry.node.wrapped().is_some() {
            entry.back = Some(Change::give_back_node(self, entry.node.clone())?);
        }
        let Some(registry) = self.registry() else {
            return self.tables().insert_node(None, entry);
        };
        let handle = registry.reserve()?;
        let shared = Shared {
            node: entry.node.clone(),
            owner: self.clone(),
        };
        let inserted = self.tables().insert_node(Some(handle), entry);
        match inserted {
            Ok(_) => registry.publish(handle, shared),
            Err(_) => registry.remove(handle),
        }
        inserted
    }

    /// Gets another process's node, if nodes are shared and there is such a one. To be followed by
    /// [`Process::end_if_over`], should it not be locked.
    pub(super) fn import(&self, handle: u32) -> Result {
        let Some(registry) = self.registry() else {
            return Ok(());
        };
        if self.tables().nodes.get(handle).is_some() {
            return Ok(());
        }
        let Some(node) = registry.node(handle) else {
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
        let Some(registry) = self.registry() else {
            return self.clone();
        };
        registry.owner(handle).unwrap_or_else(|| self.clone())
    }

    /// Takes a node that FREE has come for out of the registry.
    pub(super) fn unshare(&self, handle: u32) {
        if let Some(registry) = self.registry() {
            registry.remove(handle);
        }
    }

    /// Takes all own nodes out of the registry.
    pub(super) fn unshare_all(&self) {
        let Some(registry) = self.registry() else {
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
                        registry.remove(handle);
                    }
                    next = handle + 1;
                }
                None => break,
            }
        }
    }
}
