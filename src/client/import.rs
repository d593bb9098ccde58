// SPDX-License-Identifier: GPL-2.0-only

//! Imports of memory that the driver does not own, and exports of nodes.
//!
//! A client's own memory or a dma-buf becomes a node (WRAP_USER_MEMORY) or user memory (Russell
//! King's ioctls; MAP_USER_MEMORY, only for the client's own memory). A dma-buf that this driver
//! has exported yields its node, so no memory is mapped for the GPU twice. EXPORT_VIDEO_MEMORY and
//! GET_VIDEO_MEMORY_FD make a dma-buf of a node. The dma-buf keeps the node until its last
//! descriptor, view and importer ends, even if the handle is freed.
//!
//! Named nodes: a process passes a node to another process by its name (NAME_VIDEO_MEMORY,
//! IMPORT_VIDEO_MEMORY). See [`Name`].

use super::{
    change::Returned,
    client_memory::ClientMemory,
    framebuffers,
    name::Name,
    node::{
        Life,
        NodeEntry,
        Origin, //
    },
    nodes,
    restarts,
    shared,
    tables::Mapped,
    waits,
    Process, //
};
use crate::{
    abi::{
        extensions::ImportRequest,
        Foreign,
        Reply, //
    },
    limits::CACHE_LINE,
    memory::{
        Elsewhere,
        Node,
        UserMemory,
        View, //
    },
    prelude::*,
    sys::dma_buf::{
        Access,
        DmaBuf, //
    }, //
};

/// The memory that a request names. A descriptor is looked up once: its file can change.
pub(super) enum Source {
    DmaBuf(DmaBuf),
    User { user: u64, bytes: u64 },
}

impl Source {
    /// `InvalidArgument`: the descriptor is no dma-buf. `NotSupported`: the kernel has no dma-bufs.
    fn of(what: Foreign) -> Result<Self> {
        Ok(match what {
            Foreign::DmaBuf { fd } => Self::DmaBuf(DmaBuf::get(fd)?),
            Foreign::User { user, bytes } => Self::User { user, bytes },
        })
    }
}

/// Maps `source` for the GPU. If memory is short and `waits` is set, waits until some is
/// reclaimed.
pub(super) fn take(
    process: &Process,
    source: &Source,
    write: bool,
    waits: bool,
) -> Result<UserMemory> {
    // Memory that records have unmapped counts against the limits until it is returned.
    waits::finish_returns(process);
    let memory = &process.device.memory;
    let reclaim = || {
        if waits {
            waits::reclaim(process).map(|_| ())
        } else {
            Ok(())
        }
    };
    match *source {
        Source::DmaBuf(ref buffer) => memory.import(buffer, write, true, reclaim),
        Source::User { user: 0, .. } | Source::User { bytes: 0, .. } => Err(Error::InvalidArgument),
        Source::User { user, bytes } => memory.map_user(user, bytes, write, reclaim),
    }
}

/// Russell King's ioctls. Returns the handle (for UNMAP_USER_MEMORY) and the GPU address.
///
/// For a dma-buf of this driver the process gets a reference to the node, as with WRAP, until
/// it unmaps the memory.
pub(crate) fn map_foreign(process: &Arc<Process>, request: ImportRequest) -> Result<(u32, u32)> {
    process.check_own()?;
    let source = Source::of(request.what)?;
    match own_source(process, &source)? {
        Some(node) => map_own(process, node),
        None => insert_user_memory(process, take_shown(process, &source, request.write, true)?),
    }
}

/// The node of `buffer`, if this driver has exported it. `InvalidArgument`: the file is
/// read-only, and another process made the node. A process that has a node can write to it,
/// because the GPU has only one mapping.
pub(super) fn own_node(process: &Process, buffer: &DmaBuf) -> Result<Option<Arc<Node>>> {
    match process.device.memory.exporter().find(buffer) {
        Some((node, false)) if !node.is_made_by(process.number) => Err(Error::InvalidArgument),
        found => Ok(found.map(|(node, _)| node)),
    }
}

/// As [`own_node`], for any source; `None` for the caller's own memory.
fn own_source(process: &Process, source: &Source) -> Result<Option<Arc<Node>>> {
    match source {
        Source::DmaBuf(buffer) => own_node(process, buffer),
        Source::User { .. } => Ok(None),
    }
}

fn map_own(process: &Arc<Process>, node: Arc<Node>) -> Result<(u32, u32)> {
    let handle = have_node(process, node.clone(), None)?;
    let inserted = {
        let mut tables = process.tables();
        // Another thread may have freed the node.
        let address = match tables.handle_of(&node) {
            Some((found, entry)) if found == handle => Ok(entry.node.address()),
            _ => Err(Error::MemoryLocked),
        };
        address.and_then(|address| {
            let mapped = Mapped::Node(handle, node.clone());
            Ok((tables.user_memory.insert(mapped)?, address))
        })
    };
    inserted.inspect_err(|_| {
        if has_node(process, handle, &node) {
            let _ = nodes::free(process, handle, false);
        }
    })
}

/// Drops an import that UNMAP_USER_MEMORY has removed from the table, after the GPU's last use.
pub(super) fn unmap_foreign(process: &Arc<Process>, mapped: Mapped) {
    match mapped {
        Mapped::Memory(memory) => {
            Returned::Memory(memory.clone()).finish();
            memory.end_here();
        }
        // The handle may have been reused for another node.
        Mapped::Node(handle, node) if has_node(process, handle, &node) => {
            let _ = nodes::free(process, handle, false);
        }
        Mapped::Node(..) | Mapped::Framebuffer => {}
    }
}

/// Whether `handle` is the process's handle for `node`.
pub(super) fn has_node(process: &Process, handle: u32, node: &Arc<Node>) -> bool {
    let tables = process.tables();
    let entry = tables.nodes.get(handle);
    entry.is_some_and(|entry| Arc::ptr_eq(&entry.node, node))
}

/// As [`take`], and maps the memory in the process's own MMU tables.
pub(super) fn take_shown(
    process: &Process,
    source: &Source,
    write: bool,
    waits: bool,
) -> Result<ClientMemory<UserMemory>> {
    let memory = take(process, source, write, waits)?;
    waits::show(process, Arc::new(memory, crate::sys::GFP_CLIENT)?, waits)
}

/// Adds `memory` to the table. Returns the handle and the GPU address.
pub(super) fn insert_user_memory(
    process: &Process,
    memory: ClientMemory<UserMemory>,
) -> Result<(u32, u32)> {
    let address = memory.address();
    let info = process.tables().insert_user_memory(memory)?;
    Ok((info, address))
}

/// WRAP_USER_MEMORY: makes a node of the memory. No ledger counts it. A node of memory without
/// pages (a framebuffer) adds no addresses, because the process may already use these.
///
/// `NotSupported`: `in_lines` is set, and the process's memory is not whole cache lines.
/// Cleaning or invalidating a line would destroy the other data in it.
pub(super) fn wrap(process: &Arc<Process>, what: Foreign, in_lines: bool) -> Result<Reply<'_>> {
    let source = Source::of(what)?;
    if let Some(node) = own_source(process, &source)? {
        let bytes = node.bytes();
        return wrap_own(process, node, bytes);
    }
    let taken = match source {
        // Check before pinning.
        Source::User { user, bytes } if in_lines && (user | bytes) & (CACHE_LINE - 1) != 0 => {
            Err(Error::NotSupported)
        }
        _ => restarts::reclaiming(process, |waits| {
            let memory = take(process, &source, true, waits)?;
            let bytes = memory.bytes();
            let node = process.device.memory.wrap(memory, process.number)?;
            Ok((waits::show(process, node, waits)?, bytes))
        }),
    };
    let (node, bytes) = match (taken, source) {
        (Err(Error::Interrupted), _) => return Err(Error::Interrupted),
        (Err(error), Source::User { user, bytes }) => {
            let may_be_mapped = match error {
                Error::OutOfResources => true,
                Error::NotSupported => is_shown(process, user),
                _ => false,
            };
            return match framebuffers::elsewhere(process, user, bytes) {
                Some(memory) => wrap_elsewhere(process, memory, bytes),
                None if may_be_mapped => wrap_shown(process, user, bytes),
                None => Err(error),
            };
        }
        (taken, _) => taken?,
    };
    let node = shared::insert(process, NodeEntry::new(node, Origin::Foreign))?;
    Ok(Reply::Wrapped {
        node,
        bytes: usize_as_u64(bytes),
    })
}

/// Wraps the caller's own memory for an object. If it `is_written`, or the MMU cannot
/// write-protect it, the GPU can write to it, so the process must have write access.
/// `OutOfResources`: the memory cannot be pinned.
pub(crate) fn wrap_object(
    process: &Process,
    user: u64,
    bytes: u64,
    is_written: bool,
) -> Result<Arc<Node>> {
    process.check_own()?;
    let source = Source::User { user, bytes };
    let memory = restarts::reclaiming(process, |waits| take(process, &source, is_written, waits))?;
    if is_written && !memory.is_writeable() {
        return Err(Error::OutOfResources);
    }
    process.device.memory.wrap(memory, process.number)
}

/// WRAP of a dma-buf of this driver: returns its node, as an import by name does. Holds no
/// reference to the dma-buf, which would keep the module loaded.
fn wrap_own(process: &Arc<Process>, node: Arc<Node>, bytes: usize) -> Result<Reply<'_>> {
    let node = have_node(process, node, None)?;
    Ok(Reply::Wrapped {
        node,
        bytes: usize_as_u64(bytes),
    })
}

fn wrap_elsewhere(process: &Arc<Process>, memory: Elsewhere, bytes: u64) -> Result<Reply<'_>> {
    let node = process
        .device
        .memory
        .name_elsewhere(memory, process.number)?;
    let node = shared::insert(
        process,
        NodeEntry::new(ClientMemory::new(node, process)?, Origin::Foreign),
    )?;
    Ok(Reply::Wrapped { node, bytes })
}

/// Whether a node of the process is mapped at `user`.
fn is_shown(process: &Process, user: u64) -> bool {
    let pool = process.device.memory.pool_address();
    let tables = process.tables();
    usize::try_from(user).is_ok_and(|user| {
        tables.user_views.find(user).is_some() || tables.pool_node_at(user, pool).is_some()
    })
}

/// WRAP of memory that cannot be pinned. If it is a view of a node of the process, from the
/// node's start, returns that node. `OutOfResources`: it is not.
fn wrap_shown(process: &Arc<Process>, user: u64, bytes: u64) -> Result<Reply<'_>> {
    let numbers = (usize::try_from(user), usize::try_from(bytes));
    let (Ok(user), Ok(bytes)) = numbers else {
        return Err(Error::OutOfResources);
    };
    let pool = process.device.memory.pool_address();
    let node = process.tables().node_shown_at(user, bytes, pool);
    let node = node.ok_or(Error::OutOfResources)?;
    match node.view() {
        View::Pages(backing) if !backing.is_seen_at(user, bytes) => Err(Error::OutOfResources),
        _ => wrap_own(process, node, bytes),
    }
}

/// The node of a handle. `InvalidObject`: no such node, or the node is freed.
pub(super) fn live_node(process: &Process, handle: u32) -> Result<Arc<Node>> {
    let tables = process.tables();
    let entry = tables.nodes.get(handle).ok_or(Error::InvalidObject)?;
    if entry.is_alive() {
        Ok(entry.node.clone())
    } else {
        Err(Error::InvalidObject)
    }
}

/// WAIT_FENCE. `InvalidObject`: no such node. `NotSupported`: nodes have no fences.
pub(super) fn wait_node(process: &Process, handle: u32) -> Result<Reply<'_>> {
    live_node(process, handle).and_then(|_| Err(Error::NotSupported))
}

/// EXPORT_VIDEO_MEMORY, GET_VIDEO_MEMORY_FD: exports the node as a dma-buf. Its descriptor
/// permits `access`.
///
/// `InvalidObject`: no such node. `NotSupported`: the node wraps memory or is not in whole
/// pages (`sharedPool`), or the kernel has no dma-bufs. `OutOfResources`: no descriptor is
/// left.
pub(super) fn export_node(process: &Process, handle: u32, access: Access) -> Result<Reply<'_>> {
    let node = live_node(process, handle)?;
    // Other processes may write to it from now on.
    node.share();
    let exporter = process.device.memory.exporter();
    let exported = exporter.export(node, access).map_err(|error| match error {
        EINVAL => Error::NotSupported,
        error => error.into(),
    });
    exported.map(Reply::File)
}

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
            return Ok(name.number);
        }
        if entry.node.own_view().is_some() {
            return Err(Error::NotSupported);
        }
        entry.node.clone()
    };
    // Other processes may write to it from now on.
    node.share();
    let name = Name::new(&process.clients.names, node.clone())?;
    let number = name.number;
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
            let number = other.number;
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
    let (users, names) = (&process.clients.users, &process.clients.names);
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
