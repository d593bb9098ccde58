// SPDX-License-Identifier: GPL-2.0-only

//! Nodes that every process can lock and free (parameter `sharedNodes`).
//!
//! In the vendor's driver, any process can use any node. This driver has a registry of all nodes.
//! Their handles are unique in the device. A process that locks another process's node gets an
//! entry in its own table, with its own locks and view. The entry lasts until the last unlock. FREE
//! by any process ends the owner's entry. Source: sources.md, video memory.
//!
//! Lock: `galcore shared nodes`, a leaf.
//!
//! GET_SHARED_INFO and SET_SHARED_INFO: data that a process publishes under a number of its choice,
//! and a process's notes of nodes.
//!
//! Data lasts as long as its process. Readers are the process itself, and threads whose effective
//! user is that of the publishing thread. So the user that starts a set-user-ID program cannot read
//! its data. Users are compared by their ids in the initial namespace. Processes outside of the
//! reader's PID namespace are not found. Only the owner of a node can access its note, unless the
//! parameter `sharedNodes` shares nodes. Source: sources.md, commands.

use super::{
    change::{
        Change,
        Kind,
        Returned, //
    },
    client_memory::ClientMemory,
    handles::Handles,
    node::{
        NodeEntry,
        Note,
        Origin,
        NOTE_WORDS, //
    },
    tables::StoredInfo,
    Process, //
};
use crate::{
    abi::SharedInfo,
    limits::{
        MAX_SHARED_INFOS,
        MAX_SHARED_INFO_BYTES, //
    },
    memory::Node,
    prelude::*,
    sys::user, //
};

/// A node in the registry.
pub(super) struct Shared {
    node: Arc<Node>,
    owner: Arc<Process>,
}

/// The registry of all nodes of a device. A reserved handle has `None`.
pub(super) type SharedNodes = Mutex<Handles<Option<Shared>>>;

/// Removes a node from the registry. From then on, no other process can lock it.
fn remove(registry: &SharedNodes, handle: u32) {
    let shared = registry.lock().remove(handle);
    // Without the lock, because this may drop the last references.
    drop(shared);
}

impl Process {
    /// The registry, if nodes are shared.
    pub(super) fn registry(&self) -> Option<&SharedNodes> {
        let is_shared = self.device.parameters.shared_nodes;
        is_shared.then(|| &self.clients.shared_nodes)
    }
}

/// Adds `entry` to the table, under a handle of the table or the registry. Returns the handle.
pub(super) fn insert(process: &Arc<Process>, mut entry: NodeEntry) -> Result<u32> {
    if entry.node.wrapped().is_some() {
        entry.back = Some(Change::new(
            process,
            Kind::GiveBack(Returned::Node(entry.node.clone())),
        )?);
    }
    let Some(registry) = process.registry() else {
        return process.tables().insert_node(None, entry);
    };
    let handle = registry.lock().insert(None)?;
    let mut shared = Some(Shared {
        node: entry.node.clone(),
        owner: process.clone(),
    });
    let inserted = process.tables().insert_node(Some(handle), entry);
    if inserted.is_err() {
        remove(registry, handle);
    } else if let Some(place) = registry.lock().get_mut(handle) {
        core::mem::swap(place, &mut shared);
    }
    // If the handle was removed, this drops the node: without the lock.
    drop(shared);
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
    let node_of = |shared: &Option<Shared>| Some(shared.as_ref()?.node.clone());
    let node = registry.lock().get(handle).and_then(node_of);
    let Some(node) = node else {
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
    let owner_of = |shared: &Option<Shared>| Some(shared.as_ref()?.owner.clone());
    let owner = registry.lock().get(handle).and_then(owner_of);
    owner.unwrap_or_else(|| process.clone())
}

/// Removes a freed node from the registry.
pub(super) fn unshare(process: &Process, handle: u32) {
    if let Some(registry) = process.registry() {
        remove(registry, handle);
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
                    remove(registry, handle);
                }
                next = handle + 1;
            }
            None => break,
        }
    }
}

/// SET_SHARED_INFO. `InvalidData`: the number has data of another size, or no such node.
/// `OutOfResources`: too much data, or data that cannot be read. `OutOfMemory`.
pub(super) fn write(process: &Arc<Process>, info: SharedInfo) -> Result {
    if info.data != 0 && info.bytes != 0 {
        let length = usize::try_from(info.bytes).ok();
        let length = length.filter(|&length| length <= MAX_SHARED_INFO_BYTES);
        let length = length.ok_or(Error::OutOfResources)?;
        let old = keep(process, info.id, user::get_bytes(info.data, length)?)?;
        drop(old);
    }
    if info.node != 0 {
        let mut words = [0; NOTE_WORDS];
        user::get(info.node_data, &mut words)?;
        with_note(process, info.node, |note| {
            if info.is_rectangle {
                note.enlarge(&Note(words))
            } else {
                *note = Note(words);
            }
        })?;
    }
    Ok(())
}

/// Keeps data under a number. Returns the old data. The caller drops it.
fn keep(process: &Process, id: u32, mut bytes: KVec<u8>) -> Result<KVec<u8>> {
    let user = sys::effective_user_id();
    let mut tables = process.tables();
    let infos = &mut tables.shared_infos;
    if let Some(info) = infos.iter_mut().find(|info| info.id == id) {
        if info.bytes.len() != bytes.len() {
            return Err(Error::InvalidData);
        }
        info.user = user;
        core::mem::swap(&mut info.bytes, &mut bytes);
        return Ok(bytes);
    }
    if infos.len() >= MAX_SHARED_INFOS {
        return Err(Error::OutOfResources);
    }
    // Reserve first: a failure must not drop the data under the lock.
    infos.reserve(1, sys::GFP_CLIENT)?;
    infos.push(StoredInfo { id, user, bytes }, sys::GFP_CLIENT)?;
    Ok(KVec::new())
}

/// GET_SHARED_INFO. `InvalidData`: no such process, no data for this user, or no such node.
/// `OutOfResources`: user memory cannot be written.
pub(super) fn read(process: &Arc<Process>, info: SharedInfo) -> Result {
    if info.data != 0 && info.bytes != 0 {
        let number = i32::try_from(info.process).map_err(|_| Error::InvalidData)?;
        let (owner, reader) = if number == process.id() {
            (process.clone(), None)
        } else {
            let owner = process.clients.find(number).ok_or(Error::InvalidData)?;
            (owner, Some(sys::effective_user_id()))
        };
        let bytes = shared_info(&owner, info.id, reader, info.bytes)?;
        // Drop the owner before the copy, so that the memory of an ending process is freed.
        drop(owner);
        user::put_bytes(info.data, &bytes)?;
    }
    if info.node != 0 {
        let mut answer = Note::default();
        with_note(process, info.node, |note| {
            answer = if info.is_rectangle {
                note.take_rectangle()
            } else {
                *note
            };
        })?;
        user::put(info.node_data, &answer.0)?;
    }
    Ok(())
}

/// Copies up to `most` bytes of the data under a number. The reader is a user, or (`None`) the
/// process itself.
fn shared_info(process: &Process, id: u32, reader: Option<u32>, most: u64) -> Result<KVec<u8>> {
    let tables = process.tables();
    let mut infos = tables.shared_infos.iter();
    let info = infos.find(|info| info.id == id && reader.is_none_or(|user| user == info.user));
    let bytes = &info.ok_or(Error::InvalidData)?.bytes;
    let length = usize::try_from(most).map_or(bytes.len(), |most| most.min(bytes.len()));
    let mut copy = KVec::with_capacity(length, sys::GFP_CLIENT)?;
    copy.extend_from_slice(&bytes[..length], sys::GFP_CLIENT)?;
    Ok(copy)
}

/// Calls `change` with the note of a node. `InvalidData`: no such node. `OutOfMemory`.
fn with_note(process: &Arc<Process>, node: u32, change: impl FnOnce(&mut Note)) -> Result {
    let owner = owner_of(process, node);
    let mut tables = owner.tables();
    let entry = tables.nodes.get_mut(node).ok_or(Error::InvalidData)?;
    let note = match &mut entry.note {
        Some(note) => note,
        none => none.insert(KBox::new(Note::default(), sys::GFP_CLIENT)?),
    };
    change(note);
    Ok(())
}
