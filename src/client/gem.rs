// SPDX-License-Identifier: GPL-2.0-only

//! Objects of the DRM nodes: nodes of video memory with handles of DRM files. A process may have
//! its own handle for the same node, too.
//!
//! The process's entry of the node counts each kind of handle separately, and lives while there is
//! one. Processes share the memory of a node and its [`metadata`](Node::metadata).

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
            Access,
            DmaBuf, //
        }, //
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

impl Process {
    /// Allocates at least `bytes` bytes. The process gets a handle for the node. The caller frees
    /// it with [`Process::release_object`] when the object exists.
    pub(crate) fn create_object(
        self: &Arc<Self>,
        bytes: u64,
        is_contiguous: bool,
        is_cacheable: bool,
    ) -> Result<Arc<Node>> {
        self.create_object_in(bytes, default_pool(is_contiguous, is_cacheable))
    }

    /// As [`Process::create_object`], in the given pool.
    pub(super) fn create_object_in(self: &Arc<Self>, bytes: u64, pool: u32) -> Result<Arc<Node>> {
        self.check_own()?;
        let bytes = usize::try_from(bytes).ok().and_then(page_align);
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let bytes = bytes.ok_or(Error::OutOfMemory)?;
        let (handle, ..) = self.allocate_node(bytes, ALIGNMENT, GENERIC, pool)?;
        self.live_node(handle)
    }

    /// A handle of the process for `node`. The caller frees it: see [`Process::have_node`].
    pub(crate) fn refer_to_object(self: &Arc<Self>, node: &Arc<Node>) -> Result<u32> {
        self.check_own()?;
        self.note_sharing(node);
        self.have_node(node.clone(), None)
    }

    /// Marks the node of another process as shared: both processes may have used it.
    fn note_sharing(&self, node: &Node) {
        if !node.is_made_by(self.number) {
            node.share();
        }
    }

    /// The process's handle for `node`. `InvalidObject`: the process does not have it.
    fn object_handle(&self, node: &Arc<Node>) -> Result<u32> {
        let mut tables = self.tables();
        let found = tables.handle_of(node);
        found.map(|(handle, _)| handle).ok_or(Error::InvalidObject)
    }

    /// GPU address of `node` in the process. `InvalidArgument`: the process does not have it.
    pub(crate) fn object_address(&self, node: &Node) -> Result<u32> {
        self.tables().address_of(node).ok_or(Error::InvalidArgument)
    }

    /// Frees a handle of the process for `node`, as FREE does.
    pub(crate) fn release_object(self: &Arc<Self>, node: &Arc<Node>) {
        if let Ok(handle) = self.object_handle(node) {
            let _ = self.free_node(handle, false);
        }
    }

    /// Adds a handle of a DRM file.
    pub(crate) fn enter_object(self: &Arc<Self>, node: &Arc<Node>) -> Result {
        self.check_own()?;
        self.note_sharing(node);
        self.have(node, true).map(|_| ())
    }

    /// Removes a handle of a DRM file. Does not wait, because a Unix signal could not interrupt it.
    /// Wrapped memory returns to the process after the GPU's last use.
    pub(crate) fn leave_object(self: &Arc<Self>, node: &Arc<Node>) {
        self.end_object(node, true);
    }

    /// If `closes`, removes a handle of a DRM file. When none is left, removes the locks by such
    /// handles, as clients expect. Frees the node unless the process has a handle of its own.
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
            self.unshare(handle);
        }
        self.end_view_here(view);
        if let Some(entry) = over {
            entry.give_back();
            self.end_node_here(entry);
        }
    }

    /// LOCK: returns the user address of the view. `OutOfResources`: 65,535 locks exist.
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
                    // Another thread has closed the handle.
                    self.end_object(node, false);
                    return Err(Error::InvalidObject);
                }
                Ok(user.unwrap_or(0))
            }
            _ => Err(Error::InvalidData),
        }
    }

    /// UNLOCK, with its event half after all jobs in the ring. `MemoryUnlocked`: no lock by
    /// GEM_LOCK is left.
    pub(crate) fn unlock_object(self: &Arc<Self>, node: &Arc<Node>) -> Result {
        self.check_own()?;
        let handle = self.object_handle(node)?;
        let unlocked = self.unlock(
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
            let queued = self
                .device
                .first_core()
                .and_then(|core| self.queue_unlock(&core, handle, false).map(|_| ()));
            if queued.is_err() {
                // No ring takes the event half: finish now.
                let over = self.tables().finish_unlock(handle, false);
                if let Some(entry) = over {
                    self.end_node_here(entry);
                }
            }
        }
        Ok(())
    }

    /// CACHE: maintains `bytes` bytes at `user`, or the whole object if either is 0.
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

    /// Cleans the caches before the GPU uses the caller's wrapped memory. Other objects need no
    /// cleaning.
    pub(crate) fn hand_over(&self, node: &Arc<Node>) -> Result {
        if node.wrapped().is_some_and(UserMemory::is_users) {
            self.maintain_object(node, CLEAN, 0, 0)
        } else {
            Ok(())
        }
    }

    /// As [`Process::hand_over`], but only before the first use: the client may have written the
    /// memory since it was pinned.
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

    /// Invalidates the caches before the caller reads its wrapped memory.
    pub(crate) fn take_back(&self, node: &Arc<Node>) -> Result {
        self.hand_over_first(node)?;
        if node.wrapped().is_some_and(UserMemory::is_users) {
            self.maintain_object(node, INVALIDATE, 0, 0)
        } else {
            Ok(())
        }
    }

    /// The number of the node's pool in the process's generation of the interface.
    pub(crate) fn object_pool(&self, node: &Node) -> u32 {
        let number = Pool::number(node.pool());
        let interface = self.interface();
        interface.map_or(number, |(choice, _)| choice.format().pool_number(number))
    }

    /// Makes `status` the tile status of `node`, and marks all tiles as not cleared.
    pub(crate) fn attach_object(&self, node: &Node, status: &Arc<Node>) -> Result {
        self.check_own()?;
        let core = self.device.first_core();
        let byte = core.map_or(0, |core| core.identity().plain_tiles());
        let metadata = node.metadata();
        metadata.attach_status(status, |status| status.fill(byte))
    }

    /// The node of a dma-buf. Does not wait: see [`Process::settle_objects`].
    fn import_object(&self, buffer: &DmaBuf) -> Result<Arc<Node>> {
        if let Some(node) = self.own_node(buffer)? {
            return Ok(node);
        }
        // As everywhere in DRM, the mode of the file does not matter: Mesa's buffers of displays
        // are read-only.
        let memory = self.device.memory();
        let imported = memory.import(buffer, true, false, || Ok(()))?;
        memory.wrap(imported, self.number)
    }

    /// Checks that the caller may export `node`. `InvalidData`: the file is another process's. If
    /// it `is_first`, waits for the jobs that write the node: importers only see the fences of
    /// later jobs.
    pub(crate) fn check_export(&self, node: &Node, is_first: bool) -> Result {
        self.check_own()?;
        if is_first {
            self.wait_for_object(node, false, FENCE_TIMEOUT)
        } else {
            Ok(())
        }
    }

    /// Waits for memory that the process has released. Called if an import finds the memory in use.
    pub(crate) fn settle_objects(&self) -> Result {
        self.check_own()?;
        self.finish_returns();
        self.reclaim().map(|_| ())
    }
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
        process.import_object(buffer)
    }

    /// A dma-buf of a node. `access` limits mappings, not importers: see
    /// [`Process::import_object`]. `NotSupported`: the node cannot be exported.
    pub(crate) fn export_object(&self, node: &Arc<Node>, access: Access) -> Result<DmaBuf> {
        // Other processes may write to it from now on.
        node.share();
        let exporter = self.device().memory().exporter();
        exporter
            .make(node.clone(), access, true)
            .map_err(Into::into)
    }
}
