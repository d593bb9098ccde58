// SPDX-License-Identifier: GPL-2.0-only

//! Objects of the DRM nodes: nodes of video memory with handles of DRM files. A process may have
//! its own handle for the same node, too.
//!
//! The process's entry of the node counts each kind of handle separately, and lives while there is
//! one. Processes share the memory of a node and its [`metadata`](Node::metadata).
//!
//! Also the ioctls for metadata of nodes, which clients exchange (SET_VIDEO_MEMORY_METADATA), and
//! descriptors that keep the objects of a picture alive while processes pass it on
//! (GET_GRAPHIC_BUFFER_FD).
//!
//! The vendor's driver holds a reference to the dma-buf in the metadata, but never uses it. A node
//! whose metadata names its own dma-buf would then never be freed. So this driver checks the
//! descriptor, but holds no reference. Source: 6.4.11's `gc_hal_kernel.c`.

use super::{
    cache,
    import,
    lock,
    name::{
        self,
        Name,
        Piece, //
    },
    node::{
        Life,
        Locking,
        NodeEntry,
        Unlocking, //
    },
    nodes,
    shared,
    signal::Signal,
    signals,
    tables::Tables,
    waits,
    window,
    Clients,
    Process, //
};
use crate::{
    abi::{
        default_pool,
        CacheRange,
        NodeMetadata,
        Parts,
        Reply,
        GRAPHIC_BUFFER_NODES, //
    },
    memory::{
        Node,
        Pool,
        UserMemory, //
    },
    prelude::*,
    stream::addresses::Owner,
    sys::{
        chrdev::OpenFile,
        dma_buf::{
            self,
            Access,
            DmaBuf, //
        },
        file, //
    }, //
};
use kernel::page::page_align;

/// The type of an object (`gcvVIDMEM_TYPE_GENERIC`), and its alignment in bytes.
const GENERIC: u32 = 0;
const ALIGNMENT: u32 = 256;

/// Operations of CACHE.
const CLEAN: u32 = 1;
const INVALIDATE: u32 = 2;

/// A LOCK or UNLOCK of the node and of its view.
const BOTH: Parts = Parts {
    lock: true,
    view: true,
};

/// Allocates at least `bytes` bytes. The process gets a handle for the node. The caller frees
/// it with [`release`] when the object exists.
pub(crate) fn create(
    process: &Arc<Process>,
    bytes: u64,
    is_contiguous: bool,
    is_cacheable: bool,
) -> Result<Arc<Node>> {
    create_in(process, bytes, default_pool(is_contiguous, is_cacheable))
}

/// As [`create`], in the given pool.
pub(super) fn create_in(process: &Arc<Process>, bytes: u64, pool: u32) -> Result<Arc<Node>> {
    process.check_own()?;
    let bytes = usize::try_from(bytes).ok().and_then(page_align);
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.ok_or(Error::OutOfMemory)?;
    let (handle, ..) = nodes::allocate(process, bytes, ALIGNMENT, GENERIC, pool)?;
    import::live_node(process, handle)
}

/// A handle of the process for `node`. The caller frees it: see [`import::have_node`].
pub(crate) fn refer_to(process: &Arc<Process>, node: &Arc<Node>) -> Result<u32> {
    process.check_own()?;
    note_sharing(process, node);
    import::have_node(process, node.clone(), None)
}

/// Marks the node of another process as shared: both processes may have used it.
fn note_sharing(process: &Process, node: &Node) {
    if !node.is_made_by(process.number) {
        node.share();
    }
}

/// The process's handle for `node`. `InvalidObject`: the process does not have it.
fn handle_of(process: &Process, node: &Arc<Node>) -> Result<u32> {
    let mut tables = process.tables();
    let found = tables.handle_of(node);
    found.map(|(handle, _)| handle).ok_or(Error::InvalidObject)
}

/// GPU address of `node` in the process. `InvalidArgument`: the process does not have it.
pub(crate) fn address_of(process: &Process, node: &Node) -> Result<u32> {
    process
        .tables()
        .address_of(node)
        .ok_or(Error::InvalidArgument)
}

/// Frees a handle of the process for `node`, as FREE does.
pub(crate) fn release(process: &Arc<Process>, node: &Arc<Node>) {
    if let Ok(handle) = handle_of(process, node) {
        let _ = nodes::free(process, handle, false);
    }
}

/// Adds a handle of a DRM file.
pub(crate) fn enter(process: &Arc<Process>, node: &Arc<Node>) -> Result {
    process.check_own()?;
    note_sharing(process, node);
    import::have(process, node, true).map(|_| ())
}

/// Removes a handle of a DRM file. Does not wait, because a Unix signal could not interrupt it.
/// Wrapped memory returns to the process after the GPU's last use.
pub(crate) fn leave(process: &Arc<Process>, node: &Arc<Node>) {
    end(process, node, true);
}

/// If `closes`, removes a handle of a DRM file. When none is left, removes the locks by such
/// handles, as clients expect. Frees the node unless the process has a handle of its own.
fn end(process: &Process, node: &Arc<Node>, closes: bool) {
    let is_freed;
    let (handle, view, over) = {
        let mut tables = process.tables();
        let found = tables.handle_of(node);
        let Some((handle, entry)) = found else {
            return;
        };
        entry.objects = entry.objects.saturating_sub(closes.into());
        if entry.objects > 0 {
            return;
        }
        let is_last = !entry.has_handle;
        is_freed = is_last && entry.is_alive();
        let ends_view = entry.take_object_locks_off() || (is_last && entry.locks == 0);
        if is_freed {
            entry.life = Life::Freed;
        }
        let view = ends_view.then(|| tables.hide_node(handle)).flatten();
        (handle, view, tables.take_if_over(handle))
    };
    if is_freed {
        shared::unshare(process, handle);
    }
    window::end_view_here(process, view);
    if let Some(entry) = over {
        // Otherwise, the GPU may still write wrapped memory. It returns after the last use.
        if process.device.reclaimer.are_over(&process.last_jobs()) {
            entry.give_back();
        }
        nodes::end_node_here(process, entry);
    }
}

/// LOCK: returns the user address of the view. `OutOfResources`: 65,535 locks exist.
pub(crate) fn lock(
    process: &Arc<Process>,
    file: &OpenFile,
    node: &Arc<Node>,
    cacheable: bool,
) -> Result<u64> {
    process.check_own()?;
    let (core, physical) = match process.device.first_core() {
        Ok(core) => (core.index(), false),
        Err(_) => {
            let vector = process.device.vectors().next();
            (vector.ok_or(Error::GpuNotResponding)?.index(), true)
        }
    };
    let how = Locking {
        cacheable,
        core,
        physical,
        again: true,
        of_object: true,
        parts: BOTH,
    };
    let handle = handle_of(process, node)?;
    match lock::lock(process, file, None, handle, how)? {
        Reply::Locked { user, .. } => {
            let mut tables = process.tables();
            let entry = tables.handle_of(node);
            let is_there = entry.is_some_and(|(_, entry)| entry.objects > 0);
            drop(tables);
            if !is_there {
                // Another thread has closed the handle.
                end(process, node, false);
                return Err(Error::InvalidObject);
            }
            Ok(user.unwrap_or(0))
        }
        _ => Err(Error::InvalidData),
    }
}

/// UNLOCK, with its event half after all jobs in the ring. `MemoryUnlocked`: no lock by
/// GEM_LOCK is left.
pub(crate) fn unlock(process: &Arc<Process>, node: &Arc<Node>) -> Result {
    process.check_own()?;
    let handle = handle_of(process, node)?;
    let unlocked = lock::unlock(
        process,
        handle,
        Unlocking {
            parts: BOTH,
            by_event: false,
            of_object: true,
        },
    )?;
    if let Reply::Unlocked {
        asynchronous: true, ..
    } = unlocked
    {
        let queued = process
            .device
            .first_core()
            .and_then(|core| lock::queue_unlock(process, &core, handle, false).map(|_| ()));
        if queued.is_err() {
            // No ring takes the event half: finish now.
            let over = process.tables().finish_unlock(handle, false);
            if let Some(entry) = over {
                nodes::end_node_here(process, entry);
            }
        }
    }
    Ok(())
}

/// CACHE: maintains `bytes` bytes at `user`, or the whole object if either is 0.
pub(crate) fn maintain(
    process: &Process,
    node: &Arc<Node>,
    operation: u32,
    user: u64,
    bytes: u64,
) -> Result {
    process.check_own()?;
    cache::maintain(
        process,
        CacheRange {
            operation,
            user,
            bytes,
            node: Some(handle_of(process, node)?),
            by_node: true,
        },
    )
}

/// Cleans the caches before the GPU uses the caller's wrapped memory. Other objects need no
/// cleaning.
pub(crate) fn hand_over(process: &Process, node: &Arc<Node>) -> Result {
    if node.wrapped().is_some_and(UserMemory::is_users) {
        maintain(process, node, CLEAN, 0, 0)
    } else {
        Ok(())
    }
}

/// As [`hand_over`], but only before the first use: the client may have written the
/// memory since it was pinned.
pub(crate) fn hand_over_first(process: &Process, node: &Arc<Node>) -> Result {
    match node.wrapped() {
        Some(memory) if !memory.is_used() => {
            hand_over(process, node)?;
            memory.note_use();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Invalidates the caches before the caller reads its wrapped memory.
pub(crate) fn take_back(process: &Process, node: &Arc<Node>) -> Result {
    hand_over_first(process, node)?;
    if node.wrapped().is_some_and(UserMemory::is_users) {
        maintain(process, node, INVALIDATE, 0, 0)
    } else {
        Ok(())
    }
}

/// The number of the node's pool in the process's generation of the interface.
pub(crate) fn pool_of(process: &Process, node: &Node) -> u32 {
    let number = Pool::number(node.pool());
    let interface = process.interface();
    interface.map_or(number, |(choice, _)| choice.format().pool_number(number))
}

/// Makes `status` the tile status of `node`, and marks all tiles as not cleared.
pub(crate) fn attach(process: &Process, node: &Node, status: &Arc<Node>) -> Result {
    process.check_own()?;
    let core = process.device.first_core();
    let byte = core.map_or(0, |core| core.identity().plain_tiles());
    let metadata = node.metadata();
    metadata.attach_status(status, |status| status.fill(byte))
}

/// The node of a dma-buf. Does not wait: see [`settle`].
fn import_object(process: &Process, buffer: &DmaBuf) -> Result<Arc<Node>> {
    if let Some(node) = import::own_node(process, buffer)? {
        return Ok(node);
    }
    // As everywhere in DRM, the mode of the file does not matter: Mesa's buffers of displays
    // are read-only.
    let memory = &process.device.memory;
    let imported = memory.import(buffer, true, false, || Ok(()))?;
    memory.wrap(imported, process.number)
}

/// Waits for memory that the process has released. Called if an import finds the memory in use.
pub(crate) fn settle(process: &Process) -> Result {
    process.check_own()?;
    waits::finish_returns(process);
    waits::reclaim(process).map(|_| ())
}

impl Tables {
    /// GPU address of `node`, if the process may have it.
    pub(super) fn address_of(&self, node: &Node) -> Option<u32> {
        let view = match (&self.space, node.extent()) {
            (Some(space), Some(extent)) => Some(space.address_of(&extent)?),
            _ => None,
        };
        Some(node.address_at(view))
    }

    /// The handle of `node` and its entry, if the process has it.
    pub(super) fn handle_of(&mut self, node: &Arc<Node>) -> Option<(u32, &mut NodeEntry)> {
        let Owner { handle, .. } = self.addresses.owner(self.address_of(node)?)?;
        let entry = self.nodes.get_mut(handle)?;
        Arc::ptr_eq(&entry.node, node).then_some((handle, entry))
    }
}

impl Clients {
    /// The node of a dma-buf, for the calling process. `InvalidArgument`: the process has no file.
    pub(crate) fn import_object(&self, buffer: &DmaBuf) -> Result<Arc<Node>> {
        let process = self.of_caller().ok_or(Error::InvalidArgument)?;
        import_object(&process, buffer)
    }

    /// A dma-buf of a node. `access` limits mappings, not importers: see
    /// [`import_object`]. `NotSupported`: the node cannot be exported.
    pub(crate) fn export_object(&self, node: &Arc<Node>, access: Access) -> Result<DmaBuf> {
        // Other processes may write to it from now on.
        node.share();
        let exporter = self.device().memory.exporter();
        exporter
            .make(node.clone(), access, true)
            .map_err(Into::into)
    }
}

/// A node and its name. Others can import the node by the name after its maker has freed it.
struct KeptNode {
    _node: Arc<Node>,
    _name: Name<Node>,
}

/// The objects that a descriptor keeps alive. It gives no access to them.
struct GraphicBuffer {
    _nodes: [Option<KeptNode>; GRAPHIC_BUFFER_NODES],
    _piece: Option<(Name<Piece>, Arc<Piece>)>,
    _signal: Option<Arc<Signal>>,
}

/// A node of the process and its name. `None`: the node wraps the process's own memory.
/// `InvalidObject`: no such node.
fn hold_node(process: &Process, handle: u32) -> Result<Option<KeptNode>> {
    match import::name_of(process, handle) {
        Ok(number) => {
            let (name, node) = Name::hold_own(&process.clients.names, number)?;
            Ok(Some(KeptNode {
                _node: node,
                _name: name,
            }))
        }
        // Wrapped memory has no name, and FREE or the end of the process returns it. A
        // descriptor that kept it could pin pages that no process is charged for.
        Err(Error::NotSupported) => import::live_node(process, handle).map(|_| None),
        Err(error) => Err(error),
    }
}

/// SET_VIDEO_MEMORY_METADATA. All processes that have the node can read it. `InvalidObject`: no
/// such node. `NotFound`: the descriptor is no dma-buf. It is stored then, but the words are
/// not, as in the vendor's driver.
pub(super) fn set_metadata(
    process: &Process,
    handle: u32,
    metadata: NodeMetadata,
) -> Result<Reply<'_>> {
    let node = import::live_node(process, handle)?;
    let noted = node.metadata();
    noted.set_status(metadata.status)?;
    if metadata.status >= 0 && !dma_buf::is_buffer(metadata.status) {
        return Err(Error::NotFound);
    }
    noted.set_words(metadata.words)?;
    Ok(Reply::Nothing)
}

/// Reads the metadata of a node. `InvalidObject`: no such node.
pub(super) fn read_metadata(process: &Process, handle: u32) -> Result<Reply<'_>> {
    let node = import::live_node(process, handle)?;
    Ok(Reply::Metadata(node.metadata().read()))
}

/// GET_GRAPHIC_BUFFER_FD: a descriptor that keeps objects and names until its last close. It
/// keeps the nodes, the shared buffer and the signal whose handles are not 0, and the names of
/// nodes and buffer. It does not keep nodes that wrap the process's own memory.
///
/// `InvalidObject`: no such node. `NotFound`: no such shared buffer or signal.
/// `OutOfResources`: no descriptor is left.
pub(super) fn keep(
    process: &Process,
    nodes: [u32; GRAPHIC_BUFFER_NODES],
    piece: u32,
    signal: u32,
) -> Result<Reply<'_>> {
    let mut kept = [const { None }; GRAPHIC_BUFFER_NODES];
    let named = nodes.into_iter().filter(|&handle| handle != 0);
    for (place, handle) in kept.iter_mut().zip(named) {
        *place = hold_node(process, handle)?;
    }
    let buffer = GraphicBuffer {
        _nodes: kept,
        _piece: match piece {
            0 => None,
            id => Some(name::hold_piece(process, id)?),
        },
        _signal: match signal {
            0 => None,
            id => Some(signals::find(process, id)?),
        },
    };
    Ok(Reply::File(file::keep(buffer)?))
}
