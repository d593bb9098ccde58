// SPDX-License-Identifier: GPL-2.0-only

//! Named nodes: a process passes a node to another process by its name (NAME_VIDEO_MEMORY,
//! IMPORT_VIDEO_MEMORY). See [`super::name`].

use super::{
    name::Name,
    node::{
        Life,
        NodeEntry,
        Origin, //
    },
    shared,
    waits,
    Process, //
};
use crate::{
    abi::Reply,
    memory::Node,
    prelude::*, //
};

/// The most attempts to add a node.
const TRIES: usize = 64;

/// NAME_VIDEO_MEMORY. Errors: as [`name_of`].
pub(super) fn name(process: &Process, handle: u32) -> Result<Reply<'_>> {
    name_of(process, handle).map(Reply::Name)
}

/// The node's name. A node without a name gets one. `InvalidObject`: no such node.
/// `NotSupported`: the node is wrapped memory of the process.
pub(super) fn name_of(process: &Process, handle: u32) -> Result<u32> {
    let node = {
        let tables = process.tables();
        let entry = tables.nodes.get(handle).ok_or(Error::InvalidObject)?;
        if !entry.is_alive() {
            return Err(Error::InvalidObject);
        }
        if let Some(name) = &entry.name {
            return Ok(name.number());
        }
        if entry.node.own_view().is_some() {
            return Err(Error::NotSupported);
        }
        entry.node.clone()
    };
    // Other processes may write to it from now on.
    node.share();
    let name = Name::new(process.clients.names(), node.clone())?;
    let number = name.number();
    let mut tables = process.tables();
    let entry = match tables.nodes.get_mut(handle) {
        Some(entry) if entry.is_alive() && Arc::ptr_eq(&entry.node, &node) => entry,
        // The node is freed, and the handle may be reused.
        _ => {
            drop(tables);
            drop(name);
            return Err(Error::InvalidObject);
        }
    };
    match &entry.name {
        // Another thread was faster.
        Some(other) => {
            let number = other.number();
            drop(tables);
            drop(name);
            Ok(number)
        }
        None => {
            entry.name = Some(name);
            Ok(number)
        }
    }
}

/// IMPORT_VIDEO_MEMORY: a handle for the node with this name. A process that already has the
/// node gets the same handle, and must free it once more. `NotFound`: no such name.
pub(super) fn import_named(process: &Arc<Process>, number: u32) -> Result<Reply<'_>> {
    let (users, names) = (process.clients.users(), process.clients.names());
    let (name, node) = Name::hold(users, names, number)?;
    let node = have_node(process, node, Some(name))?;
    Ok(Reply::Imported { node })
}

/// A handle for a node of another process, which was passed under `name` or otherwise. If this
/// process already has the node, even freed but still locked, returns the same handle.
/// `MemoryLocked`: the node is about to be freed.
pub(super) fn have_node(
    process: &Arc<Process>,
    node: Arc<Node>,
    name: Option<Name<Node>>,
) -> Result<u32> {
    let (handle, is_new) = have(process, &node, false)?;
    if !is_new {
        return Ok(handle);
    }
    let mut tables = process.tables();
    // Another thread may have named the node, or freed it and reused the handle.
    let is_unnamed =
        |entry: &&mut NodeEntry| Arc::ptr_eq(&entry.node, &node) && entry.name.is_none();
    if let Some(entry) = tables.nodes.get_mut(handle).filter(is_unnamed) {
        entry.name = name;
    }
    Ok(handle)
}

/// Adds a reference to `node`: a DRM file's if `as_object`, else one that the process frees.
/// Returns the handle, and whether it is new.
pub(super) fn have(
    process: &Arc<Process>,
    node: &Arc<Node>,
    as_object: bool,
) -> Result<(u32, bool)> {
    // Other threads of the process may add or free the node concurrently.
    for _ in 0..TRIES {
        if let Some(handle) = have_again(process, node, as_object)? {
            return Ok((handle, false));
        }
        // DRM adds objects where waiting is not allowed.
        let shown = waits::show(process, node.clone(), !as_object)?;
        let mut entry = NodeEntry::new(shown, Origin::Foreign);
        (entry.has_handle, entry.objects) = (!as_object, as_object.into());
        match shared::insert(process, entry) {
            Err(Error::MemoryLocked) => {}
            inserted => return Ok((inserted?, true)),
        }
    }
    Err(Error::MemoryLocked)
}

/// Adds a reference to a node, if the process has the node. Returns its handle. `MemoryLocked`:
/// the node is about to be freed.
fn have_again(process: &Process, node: &Arc<Node>, as_object: bool) -> Result<Option<u32>> {
    let mut tables = process.tables();
    let address = tables.address_of(node);
    if address.and_then(|it| tables.addresses.owner(it)).is_none() {
        return Ok(None);
    }
    let found = tables.handle_of(node);
    let found = found.filter(|(_, entry)| entry.origin != Origin::Shared);
    let (handle, entry) = found.ok_or(Error::MemoryLocked)?;
    // The node is freed but still locked: make it alive again.
    if entry.life == Life::Freed && process.registry().is_none() {
        (entry.life, entry.has_handle) = (Life::Alive, false);
    }
    if !entry.is_alive() {
        return Err(Error::MemoryLocked);
    }
    if as_object {
        entry.objects = entry.objects.checked_add(1).ok_or(Error::OutOfResources)?;
    } else if !entry.has_handle {
        entry.has_handle = true;
    } else {
        let imports = entry.imports.checked_add(1);
        entry.imports = imports.ok_or(Error::OutOfResources)?;
    }
    Ok(Some(handle))
}
