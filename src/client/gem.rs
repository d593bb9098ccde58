// SPDX-License-Identifier: GPL-2.0-only

//! Objects of the DRM nodes: nodes of video memory that have handles of DRM files, beside that of the
//! process or without.
//!
//! A process's entry of the node counts them apart, and lives as long as either kind of handle is
//! there. What processes share of an object is the node's: its
//! memory and its [`metadata`](Node::metadata).

use super::{
    node::{
        Life,
        NodeEntry,
        Unlocking, //
    },
    streams::FENCE_TIMEOUT,
    tables::Tables,
    Clients,
    Locking,
    Process, //
};
use crate::{
    abi::{
        default_pool,
        CacheRange,
        Parts,
        Reply, //
    },
    error::{
        Error,
        Result, //
    },
    memory::{
        Node,
        Pool,
        UserMemory, //
    },
    stream::addresses::Owner,
    sys::{
        chrdev::OpenFile,
        dma_buf::{
            Access,
            DmaBuf, //
        }, //
    }, //
};
use kernel::{
    page::page_align,
    sync::Arc, //
};

/// `gcvVIDMEM_TYPE_GENERIC`, and the alignment of an object.
const GENERIC: u32 = 0;
const ALIGNMENT: u32 = 256;

/// CACHE: what was written goes to memory; what is read comes from there.
const CLEAN: u32 = 1;
const INVALIDATE: u32 = 2;

/// A LOCK or UNLOCK of the node and of its view.
const BOTH: Parts = Parts {
    lock: true,
    view: true,
};

impl Process {
    /// Allocates at least `bytes` bytes. The process has the node by a handle that the caller gives
    /// back, by [`Process::release_object`], once there is an object.
    pub(crate) fn create_object(
        self: &Arc<Self>,
        bytes: u64,
        is_contiguous: bool,
        is_cacheable: bool,
    ) -> Result<Arc<Node>> {
        self.create_object_in(bytes, default_pool(is_contiguous, is_cacheable))
    }

    /// The same in a pool.
    pub(super) fn create_object_in(self: &Arc<Self>, bytes: u64, pool: u32) -> Result<Arc<Node>> {
        self.check_own()?;
        let bytes = usize::try_from(bytes).ok().and_then(page_align);
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let bytes = bytes.ok_or(Error::OutOfMemory)?;
        let (handle, ..) = self.allocate_node(bytes, ALIGNMENT, GENERIC, pool)?;
        self.live_node(handle)
    }

    /// A handle of the process's for `node`, which the caller frees: see [`Process::have_node`].
    pub(crate) fn refer_to_object(self: &Arc<Self>, node: &Arc<Node>) -> Result<u32> {
        self.check_own()?;
        self.note_sharing(node);
        self.have_node(node.clone(), None)
    }

    /// Another process's node may have been used by both.
    fn note_sharing(&self, node: &Node) {
        if !node.is_made_by(self.number) {
            node.share();
        }
    }

    /// The handle that it has. `InvalidObject`: it has freed that.
    fn object_handle(&self, node: &Arc<Node>) -> Result<u32> {
        let mut tables = self.tables();
        let found = tables.handle_of(node);
        found.map(|(handle, _)| handle).ok_or(Error::InvalidObject)
    }

    /// GPU address of `node`, for the process. `InvalidArgument`: it does not have it.
    pub(crate) fn object_address(&self, node: &Node) -> Result<u32> {
        self.tables().address_of(node).ok_or(Error::InvalidArgument)
    }

    /// Frees a handle of the process's for `node`, as its commands do.
    pub(crate) fn release_object(self: &Arc<Self>, node: &Arc<Node>) {
        if let Ok(handle) = self.object_handle(node) {
            let _ = self.free_node(handle, false);
        }
    }

    /// The object gets a handle of a DRM file.
    pub(crate) fn enter_object(self: &Arc<Self>, node: &Arc<Node>) -> Result {
        self.check_own()?;
        self.note_sharing(node);
        self.have(node, true).map(|_| ())
    }

    /// The object loses a handle of a DRM file. Nothing waits here, where no Unix signal could be
    /// answered: the process's own memory is its own again once the GPU is done with it.
    pub(crate) fn leave_object(self: &Arc<Self>, node: &Arc<Node>) {
        self.end_object(node, true);
    }

    /// Ends what the process has of the object by handles of DRM files, if it has none, or the last
    /// `closes`: clients expect that a handle takes its locks along.
    fn end_object(&self, node: &Arc<Node>, closes: bool) {
        let is_freed;
        let (handle, view, over) = {
            let mut tables = self.tables();
            let found = tables.handle_of(node);
            let Some((handle, entry)) = found else {
                return;
            };
            entry.objects = entry.objects.saturating_sub(closes.into());
            if entry.objects > 0 {
                return;
            }
            let is_last = !entry.is_numbered;
            is_freed = is_last && entry.is_alive();
            let ends_view = entry.take_object_locks_off() || (is_last && entry.locks == 0);
            if is_freed {
                entry.life = Life::Freed;
            }
            let view = ends_view.then(|| tables.hide_node(handle)).flatten();
            (handle, view, tables.take_if_over(handle))
        };
        if is_freed {
            self.unshare(handle);
        }
        self.end_view_here(view);
        if let Some(entry) = over {
            entry.give_back();
            self.end_node_here(entry);
        }
    }

    /// LOCK: where the process sees it. `OutOfResources`: it is locked 65,535 times.
    pub(crate) fn lock_object(
        self: &Arc<Self>,
        file: &OpenFile,
        node: &Arc<Node>,
        cacheable: bool,
    ) -> Result<u64> {
        self.check_own()?;
        let (core, physical) = match self.device.first_core() {
            Ok(core) => (core.index(), false),
            Err(_) => {
                let vector = self.device.vectors().next();
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
        let handle = self.object_handle(node)?;
        match self.lock(file, None, handle, how)? {
            Reply::Locked { user, .. } => {
                let mut tables = self.tables();
                let entry = tables.handle_of(node);
                let is_there = entry.is_some_and(|(_, entry)| entry.objects > 0);
                drop(tables);
                if !is_there {
                    // Another thread has closed it meanwhile.
                    self.end_object(node, false);
                    return Err(Error::InvalidObject);
                }
                Ok(user.unwrap_or(0))
            }
            _ => Err(Error::InvalidData),
        }
    }

    /// UNLOCK, and the event half of it, after what is in the ring. `MemoryUnlocked`: no GEM_LOCK is
    /// left.
    pub(crate) fn unlock_object(self: &Arc<Self>, node: &Arc<Node>) -> Result {
        self.check_own()?;
        let handle = self.object_handle(node)?;
        let unlocked = self.unlock(
            handle,
            Unlocking {
                parts: BOTH,
                later: false,
                of_object: true,
            },
        )?;
        if let Reply::Unlocked {
            asynchronous: true, ..
        } = unlocked
        {
            let queued = self
                .device
                .first_core()
                .and_then(|core| self.queue_unlock(&core, handle, false).map(|_| ()));
            if queued.is_err() {
                // There is no ring that it could wait in.
                let over = self.tables().finish_unlock(handle, false);
                if let Some(entry) = over {
                    self.end_node_here(entry);
                }
            }
        }
        Ok(())
    }

    /// CACHE: as much of it as `bytes` bytes at `user` name; all of it, if either is 0.
    pub(crate) fn maintain_object(
        &self,
        node: &Arc<Node>,
        operation: u32,
        user: u64,
        bytes: u64,
    ) -> Result {
        self.check_own()?;
        self.maintain_cache(CacheRange {
            operation,
            user,
            bytes,
            node: Some(self.object_handle(node)?),
            by_node: true,
        })
    }

    /// Hands an object of the caller's own memory to the GPU. Others are in no cache.
    pub(crate) fn hand_over(&self, node: &Arc<Node>) -> Result {
        match node.wrapped().is_some_and(UserMemory::is_users) {
            true => self.maintain_object(node, CLEAN, 0, 0),
            false => Ok(()),
        }
    }

    /// The same, if it is used for the first time: what was written since it was pinned counts.
    pub(crate) fn hand_over_first(&self, node: &Arc<Node>) -> Result {
        match node.wrapped() {
            Some(memory) if !memory.is_used() => {
                self.hand_over(node)?;
                memory.note_use();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The opposite, for the caller to read.
    pub(crate) fn take_back(&self, node: &Arc<Node>) -> Result {
        self.hand_over_first(node)?;
        match node.wrapped().is_some_and(UserMemory::is_users) {
            true => self.maintain_object(node, INVALIDATE, 0, 0),
            false => Ok(()),
        }
    }

    /// The number of the node's pool, as the process's generation of the interface has it.
    pub(crate) fn object_pool(&self, node: &Node) -> u32 {
        let number = Pool::number(node.pool());
        let interface = self.interface();
        interface.map_or(number, |(choice, _)| choice.format().pool_number(number))
    }

    /// Makes `status` the tile status of `node`, filled with the code of tiles that are not
    /// cleared.
    pub(crate) fn attach_object(&self, node: &Node, status: &Arc<Node>) -> Result {
        self.check_own()?;
        let core = self.device.first_core();
        let byte = core.map_or(0, |core| core.identity().plain_tiles());
        let metadata = node.metadata();
        metadata.attach_status(status, |status| status.fill(byte))
    }

    /// The node that a dma-buf is. It waits for nothing: see [`Process::settle_objects`].
    fn import_object(&self, buffer: &DmaBuf) -> Result<Arc<Node>> {
        if let Some(node) = self.own_node(buffer)? {
            return Ok(node);
        }
        // As everywhere in DRM the mode of its file does not count: Mesa's buffers of displays are
        // for reading only.
        let memory = self.device.memory();
        let imported = memory.import(buffer, true, false, || Ok(()))?;
        memory.wrap(imported, self.number)
    }

    /// Whether the caller may hand `node` on. `InvalidData`: it has got the file from the process. If
    /// it `is_first`, waits for the jobs that write it: whatever imports it knows of later ones alone.
    pub(crate) fn check_export(&self, node: &Node, is_first: bool) -> Result {
        self.check_own()?;
        match is_first {
            true => self.wait_for_object(node, false, FENCE_TIMEOUT),
            false => Ok(()),
        }
    }

    /// Waits for memory that the process has released, if an import found that still in use.
    pub(crate) fn settle_objects(&self) -> Result {
        self.check_own()?;
        self.finish_returns();
        self.reclaim().map(|_| ())
    }
}

impl Tables {
    /// GPU address of `node`, if the process may have it.
    pub(super) fn address_of(&self, node: &Node) -> Option<u32> {
        let view = match (&self.space, node.lies()) {
            (Some(space), Some(lies)) => Some(space.address_of(&lies)?),
            _ => None,
        };
        Some(node.address_at(view))
    }

    /// The handle of `node`, and its entry, if it is there.
    pub(super) fn handle_of(&mut self, node: &Arc<Node>) -> Option<(u32, &mut NodeEntry)> {
        let Owner { handle, .. } = self.addresses.owner(self.address_of(node)?)?;
        let entry = self.nodes.get_mut(handle)?;
        Arc::ptr_eq(&entry.node, node).then_some((handle, entry))
    }
}

impl Clients {
    /// The node that a dma-buf is, for the calling process, which has a DRM file.
    /// `InvalidArgument`: it has none.
    pub(crate) fn import_object(&self, buffer: &DmaBuf) -> Result<Arc<Node>> {
        let process = self.of_caller().ok_or(Error::InvalidArgument)?;
        process.import_object(buffer)
    }

    /// A dma-buf of a node; whatever it can be mapped for, importers read and write it: see
    /// [`Process::import_object`]. `NotSupported`: it cannot be one.
    pub(crate) fn export_object(&self, node: &Arc<Node>, access: Access) -> Result<DmaBuf> {
        // Others may leave something in it from now on.
        node.share();
        let exporter = self.device().memory().exporter();
        exporter
            .make(node.clone(), access, true)
            .map_err(Into::into)
    }
}
