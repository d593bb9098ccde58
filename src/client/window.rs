// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of a process: its windows on the pool, and the views of its buffers and nodes.

use super::{
    action,
    client_memory::Viewed,
    node::{
        NodeEntry,
        Origin, //
    },
    tables::{
        Mapped,
        Tables, //
    },
    PoolView,
    Process, //
};
use crate::{
    abi::Reply,
    log::{
        warn_client,
        RateLimit, //
    },
    memory::{
        Backing,
        Node,
        Object,
        View,
        Word, //
    },
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::{
        chrdev::OpenFile,
        mmio::Part,
        vma::{
            NewArea,
            Pager, //
        }, //
    }, //
};

/// Accesses to the pool outside of the process's nodes.
static STRAYS: RateLimit = RateLimit::new();

/// Maps what the offset of `area` names: the pool, the completion page, a buffer or a node.
///
/// Returns the view if it is of the pool. `EPERM`: the caller is another program (logged).
pub(crate) fn mmap(
    process: &Arc<Process>,
    area: NewArea<'_>,
) -> Result<Option<Arc<PoolView>>, Errno> {
    process.check_own().map_err(|_| EPERM)?;
    let offset = area.offset();
    if offset == 0 {
        let window = PoolView::prepare(area, process.clone(), process.views.clone())?;
        let view = window.view().clone();
        let mut tables = process.tables();
        tables.pool_views.retain(|view| !view.is_over());
        tables.pool_views.push(view.clone(), sys::GFP_CLIENT)?;
        drop(tables);
        window.attach();
        return Ok(Some(view));
    }
    if offset == action::FILE_OFFSET {
        area.make_read_only()?;
        let page = action::ask_for_completion(process)?;
        return sys::vma::map(area, page, true).map(|()| None);
    }
    let (backing, cached) = process.tables().backing_at(offset).ok_or(EINVAL)?;
    backing.map(area, cached).map(|()| None)
}

impl Pager for Process {
    fn memory(&self) -> Option<Part<'_>> {
        self.device.memory.pool_part()
    }

    fn grant(&self, offset: usize, show: &mut dyn FnMut(usize, usize)) {
        let memory = &self.device.memory;
        if memory.is_pool_shared() {
            show(0, memory.pool_bytes());
            return;
        }
        // Under the lock: a thread that removes the node can only unmap it after this.
        let mut tables = self.tables();
        let base = memory.pool_address();
        let shown = u32::try_from(offset)
            .ok()
            .and_then(|offset| base.checked_add(offset))
            .and_then(|address| tables.addresses.show(address));
        match shown {
            // CAST: 32 bits into at least 32. Nothing else lies at the pool's addresses.
            Some(node) => show((node.start() - base) as usize, node.bytes()),
            None => warn_client!(STRAYS:
                "accesses the pool at offset {:#x}, which is in none of its nodes (see sharedPool)",
                offset),
        }
    }
}

/// MAP_MEMORY of the pool: returns the address of the whole pool in `view`, in another window
/// of the process, or in a new window. `InvalidArgument`: no bytes. `OutOfMemory`.
pub(super) fn map_pool(
    process: &Arc<Process>,
    file: &OpenFile,
    view: Option<Arc<PoolView>>,
    bytes: u64,
) -> Result<Reply<'static>> {
    if bytes == 0 {
        return Err(Error::InvalidArgument);
    }
    let last = process.device.memory.pool_bytes().saturating_sub(1);
    let user = process.tables().in_pool(view, last);
    let user = user.and_then(|user| user.checked_sub(last));
    let user = user.or_else(|| map_whole_pool(process, file, 0));
    let user = user.ok_or(Error::OutOfMemory)?;
    process.tables().has_mapped_pool = true;
    Ok(Reply::Mapped {
        user: usize_as_u64(user),
    })
}

/// UNMAP_MEMORY of the pool. As in the C driver, any address names the one mapping. It stays,
/// because nodes are visible in it. `InvalidArgument`: no mapping, or address or size is 0.
pub(super) fn unmap_pool(process: &Process, user: u64, bytes: u64) -> Result {
    let is_named = user != 0 && bytes != 0;
    if is_named && core::mem::take(&mut process.tables().has_mapped_pool) {
        Ok(())
    } else {
        Err(Error::InvalidArgument)
    }
}

/// Maps the whole pool. Returns the user address of its byte `offset`.
pub(super) fn map_whole_pool(process: &Process, file: &OpenFile, offset: usize) -> Option<usize> {
    let bytes = process.device.memory.pool_bytes();
    let start = file.map_into_caller(bytes, 0).ok()?;
    start.checked_add(offset)
}

/// Ends the caller's view of an unlocked page-backed node. If a record has removed the last
/// lock, the view still exists: records run in a context that cannot unmap.
pub(super) fn end_view(process: &Process, handle: u32) {
    let idle = {
        let mut tables = process.tables();
        match tables.nodes.get(handle) {
            Some(entry) if entry.locks == 0 => tables.hide_node(handle),
            _ => None,
        }
    };
    end_view_here(process, idle);
}

/// Ends a view of the process. If the caller is another process, or memory is short, leaves it
/// to [`end_left_views`].
#[inline]
pub(super) fn end_view_here(process: &Process, view: Option<(Backing, usize)>) {
    if let Some(view) = view {
        end_this_view(process, view);
    }
}

#[cold]
#[inline(never)]
fn end_this_view(process: &Process, (backing, user): (Backing, usize)) {
    if !process.is_callers() || !backing.unmap(user) {
        leave_view(process, &mut process.tables(), (backing.clone(), user));
    }
}

/// Notes a view that cannot be ended now. If there is no memory for the note, the view stays
/// until the process ends.
pub(super) fn leave_view(process: &Process, tables: &mut Tables, view: (Backing, usize)) {
    let _ = tables.left_views.push(view, crate::sys::GFP_CLIENT);
    process.has_left_views.store(true, Relaxed);
}

/// Ends the views that were left (see [`end_view`]). The caller holds no lock.
#[inline]
pub(super) fn end_left_views(process: &Process) {
    if process.has_left_views.load(Relaxed) {
        take_left_views(process);
    }
}

#[cold]
#[inline(never)]
pub(super) fn take_left_views(process: &Process) {
    process.has_left_views.store(false, Relaxed);
    let views = core::mem::take(&mut process.tables().left_views);
    for view in views {
        end_view_here(process, Some(view));
    }
}

impl Tables {
    /// User address of byte `offset` of the pool: in `view`, or else in the newest other view that
    /// includes it.
    pub(super) fn in_pool(&self, view: Option<Arc<PoolView>>, offset: usize) -> Option<usize> {
        let all = self.pool_views.iter().rev();
        // `Init` has a `chain`, too.
        Iterator::chain(view.iter(), all)
            .filter_map(|view| view.place())
            .find(|&(_, bytes)| offset < bytes)
            .map(|(start, _)| start + offset)
    }

    /// The buffer or page-backed node whose file offset is `offset`, and whether its view is
    /// cached.
    fn backing_at(&mut self, offset: u64) -> Option<(Backing, bool)> {
        let asked = self
            .asked
            .take_if(|(asked, _)| asked.file_offset() == offset);
        if asked.is_some() {
            return asked;
        }
        let buffers = self
            .buffers
            .values()
            .map(|entry| (Backing::Contiguous(entry.buffer.clone()), false));
        let nodes = self
            .nodes
            .values()
            .filter_map(|entry| match entry.node.view() {
                View::Pages(backing) => Some((backing, entry.is_cached)),
                View::Pool(_) | View::Own(_) => None,
            });
        // `Init` has a `chain`, too.
        Iterator::chain(buffers, nodes).find(|(backing, _)| backing.file_offset() == offset)
    }

    /// Bytes from user address `user` to the end of the buffer or node that is mapped there.
    /// `None`: there is none. `pool_address` is the GPU address of the pool.
    pub(super) fn bytes_from(&mut self, user: usize, pool_address: u32) -> Option<usize> {
        // Most clients write their commands to a few buffers in turn.
        for &handle in &self.command_buffers {
            if let Some(left) = self
                .buffers
                .get(handle)
                .and_then(|entry| entry.bytes_from(user))
            {
                return Some(left);
            }
        }
        match self.user_views.find(user).map(|view| view.of) {
            Some(Viewed::Buffer(handle)) => {
                let left = self.buffers.get(handle)?.bytes_from(user)?;
                self.command_buffers.rotate_right(1);
                self.command_buffers[0] = handle;
                Some(left)
            }
            Some(Viewed::Node(handle)) => self.nodes.get(handle)?.bytes_from(user),
            None => self.pool_bytes_from(user, pool_address),
        }
    }

    /// As [`Tables::bytes_from`], for an address in a window on the pool.
    fn pool_bytes_from(&self, user: usize, pool_address: u32) -> Option<usize> {
        let (entry, offset, window) = self.pool_node_at(user, pool_address)?;
        let (start, bytes) = entry.node.pool_range().filter(|_| entry.locks > 0)?;
        // Up to the end of the node or of the window.
        let end = start.checked_add(bytes)?.min(window);
        end.checked_sub(offset).filter(|&left| left > 0)
    }

    /// The node that a window on the pool shows at `user`, the offset in the pool, and the size of
    /// the window.
    pub(super) fn pool_node_at(
        &self,
        user: usize,
        pool_address: u32,
    ) -> Option<(&NodeEntry, usize, usize)> {
        let places = self.pool_views.iter().filter_map(|view| view.place());
        let mut offsets = places.filter_map(|place| Some((user.checked_sub(place.0)?, place.1)));
        let (offset, window) = offsets.find(|&(offset, bytes)| offset < bytes)?;
        let address = pool_address.checked_add(u32::try_from(offset).ok()?)?;
        let Owner { kind, handle } = self.addresses.owner(address)?;
        let entry = self.nodes.get(handle).filter(|_| kind == Kind::Node)?;
        Some((entry, offset, window))
    }

    /// The node whose first byte is mapped at `user`, if it has `bytes` bytes and is not freed.
    pub(super) fn node_shown_at(
        &self,
        user: usize,
        bytes: usize,
        pool_address: u32,
    ) -> Option<Arc<Node>> {
        let entry = match self.user_views.find(user).map(|view| view.of) {
            Some(Viewed::Node(handle)) => {
                let entry = self.nodes.get(handle);
                entry.filter(|entry| entry.user() == Some(user))
            }
            Some(Viewed::Buffer(_)) => None,
            None => {
                let (entry, offset, _) = self.pool_node_at(user, pool_address)?;
                let range = entry.node.pool_range();
                range.filter(|&(start, _)| start == offset).map(|_| entry)
            }
        };
        let entry = entry.filter(|entry| entry.is_alive() && bytes <= entry.node.bytes())?;
        Some(entry.node.clone())
    }

    /// The word at GPU address `address`, if it lies in memory of this process.
    pub(super) fn word_at(&self, address: u32) -> Option<Word> {
        let Owner { kind, handle } = self.addresses.owner(address)?;
        match kind {
            Kind::Node => {
                let entry = self.nodes.get(handle)?;
                // A node that was imported, or that DRM files have, may be used without a lock.
                let is_held = entry.locks > 0
                    || entry.origin == Origin::Foreign
                    || entry.imports > 0
                    || entry.objects > 0;
                is_held
                    .then(|| Word::in_node(&entry.node, entry.node.address(), address))
                    .flatten()
            }
            Kind::Buffer => Word::in_buffer(&self.buffers.get(handle)?.buffer, address),
            Kind::UserMemory => {
                let memory = self.user_memory.get(handle)?.memory()?;
                Word::in_user_memory(memory, memory.address(), address)
            }
            // The driver must not access a framebuffer.
            Kind::Framebuffer => None,
        }
    }

    /// Whether a word's object still has the word's address. An object that a queue has claimed is
    /// in no table. It keeps its addresses until the job has its place.
    pub(super) fn has_word(&self, word: &Word) -> bool {
        let Some(Owner { kind, handle }) = self.addresses.owner(word.address()) else {
            return false;
        };
        match (kind, word.object()) {
            (Kind::Node, Object::Node(node)) => self
                .nodes
                .get(handle)
                .is_none_or(|entry| Arc::ptr_eq(&entry.node, node)),
            (Kind::Buffer, Object::Buffer(buffer)) => self
                .buffers
                .get(handle)
                .is_none_or(|entry| Arc::ptr_eq(&entry.buffer, buffer)),
            (Kind::UserMemory, Object::UserMemory(memory)) => self
                .user_memory
                .get(handle)
                .and_then(Mapped::memory)
                .is_none_or(|found| Arc::ptr_eq(found, memory)),
            _ => false,
        }
    }
}
