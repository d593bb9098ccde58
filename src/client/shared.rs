// SPDX-License-Identifier: GPL-2.0-only

//! Nodes that every process can lock and free (parameter `sharedNodes`).
//!
//! In the vendor's driver, any process can use any node. This driver has a registry of all nodes.
//! Their handles are unique in the device. A process that locks another process's node gets an
//! entry in its own table, with its own locks and view. The entry lasts until the last unlock. FREE
//! by any process ends the owner's entry. Source: sources.md, video memory.
//!
//! Lock: `galcore shared nodes`, a leaf.

use super::{
    change::Change,
    client_memory::ClientMemory,
    handles::Handles,
    node::{
        NodeEntry,
        Origin, //
    },
    Process, //
};
use crate::memory::Node;
use crate::prelude::*;

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

    /// Reserves a handle. It names no node until [`SharedNodes::publish`].
    fn reserve(&self) -> Result<u32> {
        self.registry.lock().insert(None)
    }

    /// Adds a node under its handle. The node is in its owner's table.
    fn publish(&self, handle: u32, shared: Shared) {
        let mut shared = Some(shared);
        if let Some(place) = self.registry.lock().get_mut(handle) {
            core::mem::swap(place, &mut shared);
        }
        // If the handle was removed, this drops the node: without the lock.
        drop(shared);
    }

    /// Removes a node. From then on, no other process can lock it.
    fn remove(&self, handle: u32) {
        let shared = self.registry.lock().remove(handle);
        // Without the lock, because this may drop the last references.
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
}

/// Adds `entry` to the table, under a handle of the table or the registry. Returns the handle.
pub(super) fn insert(process: &Arc<Process>, mut entry: NodeEntry) -> Result<u32> {
    if entry.node.wrapped().is_some() {
        entry.back = Some(Change::give_back_node(process, entry.node.clone())?);
    }
    let Some(registry) = process.registry() else {
        return process.tables().insert_node(None, entry);
    };
    let handle = registry.reserve()?;
    let shared = Shared {
        node: entry.node.clone(),
        owner: process.clone(),
    };
    let inserted = process.tables().insert_node(Some(handle), entry);
    match inserted {
        Ok(_) => registry.publish(handle, shared),
        Err(_) => registry.remove(handle),
    }
    inserted
}

/// If nodes are shared and `handle` is another process's, adds the node to the table. A caller
/// that does not lock the node must call [`nodes::end_if_over`](super::nodes::end_if_over) next.
pub(super) fn import(process: &Process, handle: u32) -> Result {
    let Some(registry) = process.registry() else {
        return Ok(());
    };
    if process.tables().nodes.get(handle).is_some() {
        return Ok(());
    }
    let Some(node) = registry.node(handle) else {
        return Ok(());
    };
    let entry = NodeEntry::new(ClientMemory::new(node, process)?, Origin::Shared);
    let inserted = process.tables().insert_node(Some(handle), entry);
    match inserted {
        // Another thread was faster.
        Ok(_) | Err(Error::InvalidData) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The process whose entry a FREE of `handle` ends.
pub(super) fn owner_of(process: &Arc<Process>, handle: u32) -> Arc<Process> {
    let Some(registry) = process.registry() else {
        return process.clone();
    };
    registry.owner(handle).unwrap_or_else(|| process.clone())
}

/// Removes a freed node from the registry.
pub(super) fn unshare(process: &Process, handle: u32) {
    if let Some(registry) = process.registry() {
        registry.remove(handle);
    }
}

/// Removes all nodes of the process from the registry.
pub(super) fn unshare_all(process: &Process) {
    let Some(registry) = process.registry() else {
        return;
    };
    let mut next = 0;
    // Bounded: the handles increase.
    loop {
        let found = {
            let tables = process.tables();
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
