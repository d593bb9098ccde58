// SPDX-License-Identifier: GPL-2.0-only

//! Nodes of video memory in the tables: ALLOCATE, FREE, and the claims of records.

use super::{
    change,
    client_memory::{
        self,
        ClientMemory,
        UserView,
        Viewed, //
    },
    node::{
        Claimed,
        Life,
        NodeEntry,
        Origin,
        PagesView, //
    },
    restarts,
    shared,
    tables::Tables,
    waits,
    window,
    Process, //
};
use crate::{
    abi::{
        self,
        Reply, //
    },
    memory::{
        surface,
        Backing,
        Pool, //
    },
    modes,
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    }, //
};

/// ALLOCATE_VIDEO_MEMORY: the driver computes the size of the surface.
pub(super) fn allocate_surface(process: &Arc<Process>, surface: abi::Surface) -> Result<Reply<'_>> {
    let core = process.device.first_core();
    let has_super_tiles = core.is_ok_and(|core| core.identity().super_tile_mode != 0);
    let size = surface::size(&surface, has_super_tiles)?;
    let (node, pool, _) = allocate(
        process,
        size.bytes,
        surface::ALIGNMENT,
        surface.kind,
        surface.pool,
    )?;
    Ok(Reply::Surface {
        width: size.width,
        height: size.height,
        pool,
        node,
    })
}

/// Returns the handle, the number of the pool, and the granted bytes.
pub(super) fn allocate(
    process: &Arc<Process>,
    bytes: u32,
    alignment: u32,
    kind: u32,
    pool: u32,
) -> Result<(u32, u32, u64)> {
    let memory = &process.device.memory;
    modes::pass_allocation()?;
    let allocate = || {
        // Check this first, because allocating and clearing the pages costs time.
        if pool == Pool::Virtual.number() && !client_memory::has_room(process, bytes) {
            return Err(Error::OutOfMemory);
        }
        let node = memory.allocate_node(bytes, alignment, kind, pool, process.number)?;
        ClientMemory::new(node, process).map_err(|_| Error::OutOfMemory)
    };
    let node = match allocate() {
        // Freed memory may still wait for the GPU. Reclaim it, and try again.
        Err(Error::OutOfMemory) if memory.could_have(bytes, alignment, pool) => {
            restarts::reclaiming(process, |waits| {
                if waits {
                    waits::reclaim_and(process, allocate)
                } else {
                    allocate()
                }
            })?
        }
        other => other?,
    };
    let pool = node.pool();
    let entry = NodeEntry::allocated(node, kind, bytes, alignment);
    let bytes = entry.bytes();
    Ok((shared::insert(process, entry)?, pool.number(), bytes))
}

/// Claims a node that the caller will free. `InvalidObject`: handle 0. `InvalidData`: no such
/// node, or claimed or freed. `MemoryLocked`: locked, and `if_unlocked` is set.
pub(super) fn claim(process: &Process, handle: u32, if_unlocked: bool) -> Result<Claimed> {
    if handle == 0 {
        return Err(Error::InvalidObject);
    }
    match process.tables().nodes.get_mut(handle) {
        Some(entry) if if_unlocked && entry.is_alive() && entry.locks > 0 => {
            Err(Error::MemoryLocked)
        }
        Some(entry) if entry.is_alive() && entry.imports > 0 => {
            entry.imports -= 1;
            Ok(Claimed::Import)
        }
        Some(entry) if entry.is_alive() && entry.objects > 0 && entry.has_handle => {
            entry.has_handle = false;
            Ok(Claimed::Import)
        }
        Some(entry) if !entry.has_handle => Err(Error::InvalidData),
        Some(entry) if entry.is_alive() => {
            entry.life = Life::Claimed;
            Ok(Claimed::Node)
        }
        _ => Err(Error::InvalidData),
    }
}

/// Reverts [`claim`].
pub(super) fn unclaim(process: &Process, handle: u32, claimed: &Claimed) {
    if let Some(entry) = process.tables().nodes.get_mut(handle) {
        match claimed {
            Claimed::Node => entry.life = Life::Alive,
            Claimed::Import if !entry.has_handle => entry.has_handle = true,
            Claimed::Import => entry.imports = entry.imports.saturating_add(1),
        }
    }
}

/// The fast path of FREE, which takes the lock once. It frees a node that only this process
/// has, that wraps no memory, and that is locked or has no view. `None`: the slow path must
/// free it. `Some`: it is freed. If a node is returned, it is over, and the caller ends it
/// without locks.
#[inline]
fn free_plain(process: &Process, handle: u32, if_unlocked: bool) -> Option<Option<NodeEntry>> {
    if process.registry().is_some() {
        return None;
    }
    let mut tables = process.tables();
    let entry = tables.nodes.get_mut(handle)?;
    let is_plain = match entry.locks {
        0 => matches!(entry.view, PagesView::None),
        _ => !if_unlocked,
    };
    let is_shared = entry.imports > 0 || entry.objects > 0 || !entry.has_handle;
    if !is_plain || !entry.is_alive() || is_shared || entry.back.is_some() {
        return None;
    }
    entry.life = Life::Freed;
    Some(tables.take_if_over(handle))
}

/// FREE: ends a node, or one of several imports of it. Errors: as [`claim`].
pub(super) fn free(process: &Arc<Process>, handle: u32, if_unlocked: bool) -> Result {
    window::end_left_views(process);
    if let Some(over) = free_plain(process, handle, if_unlocked) {
        if let Some(entry) = over {
            end_node_here(process, entry);
        }
        return Ok(());
    }
    let owner = shared::owner_of(process, handle);
    if change::is_wrapped(&owner, handle) == Some(true) {
        waits::wait_for_own_work(&owner)?;
    }
    if let Claimed::Import = claim(&owner, handle, if_unlocked)? {
        return Ok(());
    }
    window::end_view(process, handle);
    if let Some(entry) = owner.tables().nodes.get_mut(handle) {
        entry.life = Life::Freed;
    }
    shared::unshare(&owner, handle);
    // If it is locked, its last unlock ends it and frees its memory.
    let over = owner.tables().take_if_over(handle);
    if let Some(entry) = over {
        entry.give_back();
        end_node_here(&owner, entry);
    }
    Ok(())
}

/// Ends a node if it is over. May sleep. The caller holds no lock.
pub(super) fn end_if_over(process: &Process, handle: u32) {
    let over = process.tables().take_if_over(handle);
    if let Some(entry) = over {
        end_node_here(process, entry);
    }
}

/// Ends a node that is over, and its view. May sleep. The caller holds no lock.
#[inline]
pub(super) fn end_node_here(process: &Process, entry: NodeEntry) {
    window::end_view_here(process, entry.shown());
    entry.node.end_here();
}

impl Tables {
    /// Adds a node to the table, the process's addresses and the ledgers, under `handle`, or under
    /// a free handle if that is `None`. Returns the handle. `MemoryLocked`: the process already has
    /// these addresses. `OutOfResources`, `OutOfMemory`. On an error it adds nothing.
    pub(super) fn insert_node(&mut self, handle: Option<u32>, entry: NodeEntry) -> Result<u32> {
        let (address, bytes) = (entry.node.address(), entry.node.bytes());
        let (origin, sort) = (entry.origin, entry.sort());
        let gives_addresses = entry.node.gives_addresses();
        let own = match origin {
            Origin::Shared => None,
            Origin::Own | Origin::Foreign => entry.node.own_view(),
        };
        let handle = match handle {
            Some(handle) => self.nodes.insert_at(handle, entry).map(|()| handle)?,
            None => self.nodes.insert(entry)?,
        };
        let owner = Owner {
            kind: Kind::Node,
            handle,
        };
        let view = |user| UserView {
            start: user,
            bytes,
            of: Viewed::Node(handle),
        };
        let noted = match own {
            Some(user) => self.user_views.insert(view(user)),
            None => Ok(()),
        };
        let mut reach = || {
            if gives_addresses {
                self.addresses.insert(address, bytes, owner)
            } else {
                Ok(())
            }
        };
        if let Err(error) = noted.and_then(|()| reach()) {
            if let Some(user) = own {
                self.user_views.remove(user, Viewed::Node(handle));
            }
            drop(self.nodes.remove(handle));
            return Err(error);
        }
        if origin == Origin::Own {
            self.video.add(sort, bytes);
        }
        Ok(handle)
    }

    /// Notes the user address of a page-backed node. `InvalidObject`: no such node. `OutOfMemory`.
    pub(super) fn show_node(&mut self, handle: u32, user: usize, bytes: usize) -> Result {
        let entry = self.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        self.user_views.insert(UserView {
            start: user,
            bytes,
            of: Viewed::Node(handle),
        })?;
        let of_object = matches!(entry.view, PagesView::BeingMadeOfObject);
        entry.view = PagesView::At { user, locks: 1 };
        entry.object_locks = entry.object_locks.saturating_add(of_object.into());
        Ok(())
    }

    /// Removes the view of a page-backed node, and returns it. The caller unmaps it.
    pub(super) fn hide_node(&mut self, handle: u32) -> Option<(Backing, usize)> {
        let entry = self.nodes.get_mut(handle)?;
        let view = entry.shown()?;
        entry.view = PagesView::None;
        self.user_views.remove(view.1, Viewed::Node(handle));
        Some(view)
    }

    /// The event half of UNLOCK, for page-backed nodes, or with `all` for every kind of node.
    /// Returns the node if it is over.
    pub(super) fn finish_unlock(&mut self, handle: u32, all: bool) -> Option<NodeEntry> {
        if let Some(entry) = self.nodes.get_mut(handle) {
            if all || entry.node.is_paged() {
                entry.take_lock_off();
            }
        }
        self.take_if_over(handle)
    }

    /// If a node is over (unlocked, and freed or shared), removes it from the table, the addresses,
    /// the views and the ledgers.
    pub(super) fn take_if_over(&mut self, handle: u32) -> Option<NodeEntry> {
        let entry = self.nodes.get(handle)?;
        if !entry.is_over() {
            return None;
        }
        let entry = self.nodes.remove(handle)?;
        if entry.node.gives_addresses() {
            let shown = self.addresses.remove(entry.node.address());
            entry.node.leaves_addresses(shown);
        }
        if entry.origin == Origin::Own {
            self.video.remove(entry.sort(), entry.node.bytes());
        }
        if let Some(user) = entry.node.own_view() {
            self.user_views.remove(user, Viewed::Node(handle));
        }
        if let Some(user) = entry.user() {
            self.user_views.remove(user, Viewed::Node(handle));
        }
        Some(entry)
    }
}
