// SPDX-License-Identifier: GPL-2.0-only

//! Imports of memory that the driver does not own, and exports of nodes.
//!
//! A client's own memory or a dma-buf becomes a node (WRAP_USER_MEMORY) or user memory (Russell
//! King's ioctls; MAP_USER_MEMORY, only for the client's own memory). A dma-buf that this driver
//! has exported yields its node, so no memory is mapped for the GPU twice. EXPORT_VIDEO_MEMORY and
//! GET_VIDEO_MEMORY_FD make a dma-buf of a node. The dma-buf keeps the node until its last
//! descriptor, view and importer ends, even if the handle is freed.

use super::{
    changes::Returned,
    client_memory::ClientMemory,
    node::{
        NodeEntry,
        Origin, //
    },
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

/// An import by Russell King's ioctls or MAP_USER_MEMORY.
pub(super) enum Mapped {
    /// Memory that the driver does not own.
    Memory(ClientMemory<UserMemory>),
    /// The node of a dma-buf, with its handle.
    Node(u32, Arc<Node>),
    /// Memory that the process may use and the GPU reaches without a mapping: a framebuffer.
    Common,
}

impl Mapped {
    /// The memory, if the driver does not own it.
    pub(super) fn memory(&self) -> Option<&ClientMemory<UserMemory>> {
        match self {
            Mapped::Memory(memory) => Some(memory),
            Mapped::Node(..) | Mapped::Common => None,
        }
    }

    /// Drops it. The GPU must have ended its use.
    pub(super) fn release(self) {
        if let Mapped::Memory(memory) = self {
            memory.release();
        }
    }
}

impl Process {
    /// Maps `source` for the GPU. If memory is short and `waits` is set, waits until some is
    /// reclaimed.
    pub(super) fn take(&self, source: &Source, write: bool, waits: bool) -> Result<UserMemory> {
        // Memory that records have unmapped counts against the limits until it is returned.
        self.finish_returns();
        let memory = self.device.memory();
        let reclaim = || {
            if waits {
                self.reclaim().map(|_| ())
            } else {
                Ok(())
            }
        };
        match *source {
            Source::DmaBuf(ref buffer) => memory.import(buffer, write, true, reclaim),
            Source::User { user: 0, .. } | Source::User { bytes: 0, .. } => {
                Err(Error::InvalidArgument)
            }
            Source::User { user, bytes } => memory.map_user(user, bytes, write, reclaim),
        }
    }

    /// Russell King's ioctls. Returns the handle (for UNMAP_USER_MEMORY) and the GPU address.
    ///
    /// For a dma-buf of this driver the process gets a reference to the node, as with WRAP, until
    /// it unmaps the memory.
    pub(crate) fn map_foreign(self: &Arc<Self>, request: ImportRequest) -> Result<(u32, u32)> {
        self.check_own()?;
        let source = Source::of(request.what)?;
        match self.own_source(&source)? {
            Some(node) => self.map_own(node),
            None => self.insert_user_memory(self.take_shown(&source, request.write, true)?),
        }
    }

    /// The node of `buffer`, if this driver has exported it. `InvalidArgument`: the file is
    /// read-only, and another process made the node. A process that has a node can write to it,
    /// because the GPU has only one mapping.
    pub(super) fn own_node(&self, buffer: &DmaBuf) -> Result<Option<Arc<Node>>> {
        match self.device.memory().exporter().find(buffer) {
            Some((node, false)) if !node.is_made_by(self.number) => Err(Error::InvalidArgument),
            found => Ok(found.map(|(node, _)| node)),
        }
    }

    /// As [`Process::own_node`], for any source; `None` for the caller's own memory.
    fn own_source(&self, source: &Source) -> Result<Option<Arc<Node>>> {
        match source {
            Source::DmaBuf(buffer) => self.own_node(buffer),
            Source::User { .. } => Ok(None),
        }
    }

    fn map_own(self: &Arc<Self>, node: Arc<Node>) -> Result<(u32, u32)> {
        let handle = self.have_node(node.clone(), None)?;
        let inserted = {
            let mut tables = self.tables();
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
            if self.has_node(handle, &node) {
                let _ = self.free_node(handle, false);
            }
        })
    }

    /// Drops an import that UNMAP_USER_MEMORY has removed from the table, after the GPU's last use.
    pub(super) fn unmap_foreign(self: &Arc<Self>, mapped: Mapped) {
        match mapped {
            Mapped::Memory(memory) => {
                Returned::Memory(memory.clone()).finish();
                memory.end_here();
            }
            // The handle may have been reused for another node.
            Mapped::Node(handle, node) if self.has_node(handle, &node) => {
                let _ = self.free_node(handle, false);
            }
            Mapped::Node(..) | Mapped::Common => {}
        }
    }

    /// Whether `handle` is the process's handle for `node`.
    pub(super) fn has_node(&self, handle: u32, node: &Arc<Node>) -> bool {
        let tables = self.tables();
        let entry = tables.nodes.get(handle);
        entry.is_some_and(|entry| Arc::ptr_eq(&entry.node, node))
    }

    /// As [`Process::take`], and maps the memory in the process's own MMU tables.
    pub(super) fn take_shown(
        &self,
        source: &Source,
        write: bool,
        waits: bool,
    ) -> Result<ClientMemory<UserMemory>> {
        let memory = self.take(source, write, waits)?;
        self.show(Arc::new(memory, crate::sys::GFP_CLIENT)?, waits)
    }

    /// Adds `memory` to the table. Returns the handle and the GPU address.
    pub(super) fn insert_user_memory(
        &self,
        memory: ClientMemory<UserMemory>,
    ) -> Result<(u32, u32)> {
        let address = memory.address();
        let info = self.tables().insert_user_memory(memory)?;
        Ok((info, address))
    }

    /// WRAP_USER_MEMORY: makes a node of the memory. No ledger counts it. A node of memory without
    /// pages (a framebuffer) adds no addresses, because the process may already use these.
    ///
    /// `NotSupported`: `in_lines` is set, and the process's memory is not whole cache lines.
    /// Cleaning or invalidating a line would destroy the other data in it.
    pub(super) fn wrap(self: &Arc<Self>, what: Foreign, in_lines: bool) -> Result<Reply<'_>> {
        let source = Source::of(what)?;
        if let Some(node) = self.own_source(&source)? {
            let bytes = node.bytes();
            return self.wrap_own(node, bytes);
        }
        let taken = match source {
            // Check before pinning.
            Source::User { user, bytes } if in_lines && (user | bytes) & (CACHE_LINE - 1) != 0 => {
                Err(Error::NotSupported)
            }
            _ => self.reclaiming(|waits| {
                let memory = self.take(&source, true, waits)?;
                let bytes = memory.bytes();
                let node = self.device.memory().wrap(memory, self.number)?;
                Ok((self.show(node, waits)?, bytes))
            }),
        };
        let (node, bytes) = match (taken, source) {
            (Err(Error::Interrupted), _) => return Err(Error::Interrupted),
            (Err(error), Source::User { user, bytes }) => {
                let may_be_mapped = match error {
                    Error::OutOfResources => true,
                    Error::NotSupported => self.is_shown(user),
                    _ => false,
                };
                return match self.elsewhere(user, bytes) {
                    Some(memory) => self.wrap_elsewhere(memory, bytes),
                    None if may_be_mapped => self.wrap_shown(user, bytes),
                    None => Err(error),
                };
            }
            (taken, _) => taken?,
        };
        let node = self.insert_node(NodeEntry::new(node, Origin::Foreign))?;
        Ok(Reply::Wrapped {
            node,
            // CAST: at most 64 bits.
            bytes: bytes as u64,
        })
    }

    /// Wraps the caller's own memory for an object. If it `is_written`, or the MMU cannot
    /// write-protect it, the GPU can write to it, so the process must have write access.
    /// `OutOfResources`: the memory cannot be pinned.
    pub(crate) fn wrap_object(&self, user: u64, bytes: u64, is_written: bool) -> Result<Arc<Node>> {
        self.check_own()?;
        let source = Source::User { user, bytes };
        let memory = self.reclaiming(|waits| self.take(&source, is_written, waits))?;
        if is_written && !memory.is_writeable() {
            return Err(Error::OutOfResources);
        }
        self.device.memory().wrap(memory, self.number)
    }

    /// WRAP of a dma-buf of this driver: returns its node, as an import by name does. Holds no
    /// reference to the dma-buf, which would keep the module loaded.
    fn wrap_own(self: &Arc<Self>, node: Arc<Node>, bytes: usize) -> Result<Reply<'_>> {
        let node = self.have_node(node, None)?;
        Ok(Reply::Wrapped {
            node,
            // CAST: at most 64 bits.
            bytes: bytes as u64,
        })
    }

    fn wrap_elsewhere(self: &Arc<Self>, memory: Elsewhere, bytes: u64) -> Result<Reply<'_>> {
        let node = self.device.memory().name_elsewhere(memory, self.number)?;
        let node = self.insert_node(NodeEntry::new(
            ClientMemory::new(node, self)?,
            Origin::Foreign,
        ))?;
        Ok(Reply::Wrapped { node, bytes })
    }

    /// Whether a node of the process is mapped at `user`.
    fn is_shown(&self, user: u64) -> bool {
        let pool = self.device.memory().pool_address();
        let tables = self.tables();
        usize::try_from(user).is_ok_and(|user| {
            tables.user_views.find(user).is_some() || tables.pool_node_at(user, pool).is_some()
        })
    }

    /// WRAP of memory that cannot be pinned. If it is a view of a node of the process, from the
    /// node's start, returns that node. `OutOfResources`: it is not.
    fn wrap_shown(self: &Arc<Self>, user: u64, bytes: u64) -> Result<Reply<'_>> {
        let numbers = (usize::try_from(user), usize::try_from(bytes));
        let (Ok(user), Ok(bytes)) = numbers else {
            return Err(Error::OutOfResources);
        };
        let pool = self.device.memory().pool_address();
        let node = self.tables().node_shown_at(user, bytes, pool);
        let node = node.ok_or(Error::OutOfResources)?;
        match node.view() {
            View::Pages(backing) if !backing.is_seen_at(user, bytes) => Err(Error::OutOfResources),
            _ => self.wrap_own(node, bytes),
        }
    }

    /// The node of a handle. `InvalidObject`: no such node, or the node is freed.
    pub(super) fn live_node(&self, handle: u32) -> Result<Arc<Node>> {
        let tables = self.tables();
        let entry = tables.nodes.get(handle).ok_or(Error::InvalidObject)?;
        if entry.is_alive() {
            Ok(entry.node.clone())
        } else {
            Err(Error::InvalidObject)
        }
    }

    /// WAIT_FENCE. `InvalidObject`: no such node. `NotSupported`: nodes have no fences.
    pub(super) fn wait_node(&self, handle: u32) -> Result<Reply<'_>> {
        self.live_node(handle)
            .and_then(|_| Err(Error::NotSupported))
    }

    /// EXPORT_VIDEO_MEMORY, GET_VIDEO_MEMORY_FD: exports the node as a dma-buf. Its descriptor
    /// permits `access`.
    ///
    /// `InvalidObject`: no such node. `NotSupported`: the node wraps memory or is not in whole
    /// pages (`sharedPool`), or the kernel has no dma-bufs. `OutOfResources`: no descriptor is
    /// left.
    pub(super) fn export_node(&self, handle: u32, access: Access) -> Result<Reply<'_>> {
        let node = self.live_node(handle)?;
        // Other processes may write to it from now on.
        node.share();
        let exporter = self.device.memory().exporter();
        let exported = exporter.export(node, access).map_err(|error| match error {
            EINVAL => Error::NotSupported,
            error => error.into(),
        });
        exported.map(Reply::File)
    }
}
