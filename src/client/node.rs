// SPDX-License-Identifier: GPL-2.0-only

//! Nodes of video memory: ALLOCATE, LOCK, UNLOCK, FREE.

use super::{
    changes::{
        Change,
        Returned, //
    },
    client_memory::{
        self,
        ClientMemory, //
    },
    ledgers::Sort,
    names,
    queue,
    restarts,
    shared,
    shared_info::Note,
    tables::Tables,
    user_views::{
        UserView,
        Viewed, //
    },
    waits,
    window::{
        left_of,
        PoolView, //
    },
    Core,
    Process, //
};
use crate::{
    abi::{
        self,
        Parts,
        Record,
        Reply, //
    },
    memory::{
        granted,
        surface,
        Backing,
        Node,
        Pool,
        View, //
    },
    modes,
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::chrdev::OpenFile, //
};
use kernel::{
    list::ListArc,
    prelude::KBox, //
};

/// The life cycle of a node in a process's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// A queue that is being submitted will free it.
    Claimed,
    /// The client has freed it. The last unlock ends it.
    Freed,
}

/// The origin of a node in a process's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The process has allocated it. Its ledgers count the bytes.
    Own,
    /// Imported by name, a dma-buf, or memory that the driver does not own. The process's ledgers
    /// do not count the bytes.
    Foreign,
    /// A node of another process, if nodes are shared. Its last unlock removes the entry.
    Shared,
}

/// The process's view of a page-backed node.
#[derive(Clone, Copy)]
pub(super) enum PagesView {
    None,
    /// A LOCK is creating it.
    BeingMade,
    /// A LOCK by a handle of a DRM file is creating it.
    BeingMadeOfObject,
    /// Mapped at user address `user`, for `locks` locks.
    At {
        user: usize,
        locks: u32,
    },
}

/// A node in a process's table.
pub(super) struct NodeEntry {
    pub(super) node: ClientMemory<Node>,
    pub(super) origin: Origin,
    /// The type of the surface for which the node was allocated.
    kind: u32,
    /// Bytes granted to the client. 0: all bytes of the node.
    granted: u32,
    pub(super) life: Life,
    pub(super) locks: u32,
    /// Bit mask, by place, of the cores for which it was locked. The last unlock clears it.
    locked_for: u8,
    /// The view of a page-backed node.
    pub(super) view: PagesView,
    /// The last LOCK asked for a cached view.
    pub(super) is_cached: bool,
    /// Number of repeated imports. Each import needs its own FREE. 16 bits, because entries are
    /// moved often, and moving more than 64 bytes calls `memcpy`.
    pub(super) imports: u16,
    /// The process has a handle that FREE accepts. Otherwise, only DRM files have handles.
    pub(super) has_handle: bool,
    /// Number of handles of DRM files. FREE does not remove these.
    pub(super) objects: u16,
    /// Number of locks by handles of DRM files, each of the node and its view. An UNLOCK by the
    /// process's handle does not remove these.
    pub(super) object_locks: u16,
    pub(super) name: Option<names::Name<Node>>,
    /// The [`Change`] that returns wrapped memory to the process. `None` for other nodes. Allocated
    /// in advance, because the return must not fail.
    pub(super) back: Option<ListArc<Change>>,
    /// The note of SET_SHARED_INFO. Boxed, because entries are moved and few have a note.
    pub(super) note: Option<KBox<Note>>,
}

/// Arguments of LOCK.
#[derive(Clone, Copy)]
pub(super) struct Locking {
    /// Map the user's view cached.
    pub(super) cacheable: bool,
    /// The place of the core that will use the node.
    pub(super) core: usize,
    /// The core uses physical addresses, so the node must be contiguous.
    pub(super) physical: bool,
    /// The process may lock a page-backed node more than once for the same core.
    pub(super) again: bool,
    /// The LOCK is by a handle of a DRM file.
    pub(super) of_object: bool,
    pub(super) parts: Parts,
}

/// Arguments of UNLOCK.
#[derive(Clone, Copy)]
pub(super) struct Unlocking {
    pub(super) parts: Parts,
    /// The event removes the lock of all kinds of nodes, not only of page-backed nodes: commands
    /// that use the node may be submitted before the event.
    pub(super) by_event: bool,
    /// The UNLOCK is by a handle of a DRM file.
    pub(super) of_object: bool,
}

/// What [`claim`] has claimed.
pub(super) enum Claimed {
    Node,
    /// One of several imports, or the handle of a node that DRM files also have. The node stays.
    Import,
}

impl NodeEntry {
    /// An unlocked node.
    pub(super) fn new(node: ClientMemory<Node>, origin: Origin) -> Self {
        Self {
            node,
            origin,
            kind: 0,
            granted: 0,
            life: Life::Alive,
            locks: 0,
            locked_for: 0,
            view: PagesView::None,
            is_cached: false,
            imports: 0,
            has_handle: true,
            objects: 0,
            object_locks: 0,
            name: None,
            back: None,
            note: None,
        }
    }

    /// A node that the process has allocated for `bytes` bytes of a surface of kind `kind`.
    fn allocated(node: ClientMemory<Node>, kind: u32, bytes: u32, alignment: u32) -> Self {
        let granted = match node.pool() {
            Pool::System => granted(bytes, alignment),
            Pool::Contiguous | Pool::Virtual => None,
        };
        Self {
            kind,
            granted: granted.unwrap_or(0),
            ..Self::new(node, Origin::Own)
        }
    }

    /// Bytes granted to the client.
    fn bytes(&self) -> u64 {
        match self.granted {
            // CAST: at most 64 bits.
            0 => self.node.bytes() as u64,
            granted => granted.into(),
        }
    }

    /// The ledgers that count it, if the process has allocated it.
    fn sort(&self) -> Sort {
        Sort {
            pool: self.node.pool(),
            kind: self.kind,
        }
    }

    /// Returns wrapped memory to the process.
    pub(super) fn give_back(&self) {
        if self.back.is_some() {
            Returned::Node(self.node.clone()).finish();
        }
    }

    /// Whether it is neither freed nor claimed by a FREE.
    pub(super) fn is_alive(&self) -> bool {
        self.life == Life::Alive
    }

    /// User address of the view, if the node is page-backed and has a view.
    pub(super) fn user(&self) -> Option<usize> {
        match self.view {
            PagesView::At { user, .. } => Some(user),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn shown(&self) -> Option<(Backing, usize)> {
        let user = self.user()?;
        match self.node.view() {
            View::Pages(backing) => Some((backing, user)),
            View::Pool(_) | View::Own(_) => None,
        }
    }

    /// Whether a LOCK is creating its view.
    fn gets_view(&self) -> bool {
        matches!(
            self.view,
            PagesView::BeingMade | PagesView::BeingMadeOfObject
        )
    }

    /// Adds a lock if `how` asks for one. `OutOfResources`: too many locks.
    fn add_locks(&mut self, how: &Locking) -> Result {
        let more = how.parts.lock.into();
        let locks = self.locks.checked_add(more).ok_or(Error::OutOfResources)?;
        if how.of_object {
            let more = self.object_locks.checked_add(1);
            self.object_locks = more.ok_or(Error::OutOfResources)?;
        }
        self.locks = locks;
        self.locked_for |= u8::from(how.parts.lock) << how.core;
        Ok(())
    }

    /// Whether `how` may lock it.
    fn may_lock(&self, how: &Locking) -> bool {
        how.again || self.locked_for & 1 << how.core == 0
    }

    /// Whether it is unlocked, and also freed or shared.
    #[inline]
    fn is_over(&self) -> bool {
        self.locks == 0 && (self.life == Life::Freed || self.origin == Origin::Shared)
    }

    /// Whether it has locks by the process's handle, not only by handles of DRM files.
    fn has_plain_locks(&self) -> bool {
        let is_made = matches!(self.view, PagesView::BeingMadeOfObject);
        self.locks > u32::from(self.object_locks) + u32::from(is_made)
    }

    /// Removes a lock by the process's handle, if there is one.
    pub(super) fn take_lock_off(&mut self) {
        if self.has_plain_locks() {
            self.take_locks_off(1);
        }
    }

    /// Removes all locks by handles of DRM files. Returns whether this leaves a view that no lock
    /// uses.
    pub(super) fn take_object_locks_off(&mut self) -> bool {
        let count = core::mem::take(&mut self.object_locks).into();
        self.take_locks_off(count);
        match &mut self.view {
            PagesView::At { locks, .. } if *locks > count => {
                *locks -= count;
                false
            }
            PagesView::At { .. } => true,
            _ => false,
        }
    }

    fn take_locks_off(&mut self, count: u32) {
        self.locks = self.locks.saturating_sub(count);
        if self.locks == 0 {
            self.locked_for = 0;
        }
    }

    /// Bytes from user address `user` to the end of the view of a locked node outside of the pool.
    pub(super) fn bytes_from(&self, user: usize) -> Option<usize> {
        if self.locks == 0 {
            return None;
        }
        match self.node.view() {
            View::Pages(backing) => left_of(self.user()?, backing.bytes(), user),
            View::Own(start) => left_of(start, self.node.bytes(), user),
            View::Pool(_) => None,
        }
    }
}

/// How often an allocation waits for other processes' memory. They may free memory forever.
const RECLAIMS: u32 = 4;

/// How often, before each of these waits, it waits for memory that the process has freed itself.
const STEPS: u32 = 3;

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
    let memory = process.device.memory();
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
                    reclaim_and(process, allocate)
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

/// Reclaims memory that the process has freed, and tries `allocate` again. If that is not
/// enough, waits for memory of other processes and of ending ones, which may take long. Hung
/// cores return no memory.
fn reclaim_and<T>(process: &Process, allocate: impl Fn() -> Result<T>) -> Result<T> {
    let reclaimer = process.device.reclaimer();
    for _ in 0..RECLAIMS {
        let freed = reclaimer.freed();
        // Memory that a job of the process frees is reclaimed in steps: it is unmapped, and then
        // dropped.
        for _ in 0..STEPS {
            let goes_on = reclaim(process)?;
            match allocate() {
                Err(Error::OutOfMemory) if goes_on => {}
                other => return other,
            }
        }
        match reclaimer.wait_for_others() {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => break,
            // Jobs that ended during the wait have freed more memory.
            Ok(()) if reclaimer.freed() != freed => {}
            Ok(()) => break,
        }
    }
    allocate()
}

/// Waits for memory that the process and ended jobs have freed. Returns whether the cores make
/// progress. `Interrupted`. The caller holds no lock.
pub(super) fn reclaim(process: &Process) -> Result<bool> {
    // First: taking the tables' lock applies the changes that ended jobs have noted.
    take_left_views(process);
    let reclaimer = process.device.reclaimer();
    // On any other error, the memory is reclaimed later.
    if reclaimer.wait_for_own(&process.revoker) == Err(Error::Interrupted) {
        return Err(Error::Interrupted);
    }
    match process.device.wait_for_reclaim(process.usage.shares()) {
        Err(Error::GpuNotResponding) => Ok(false),
        outcome => outcome,
    }
}

/// LOCK: adds a lock, a view, or both.
pub(super) fn lock(
    process: &Arc<Process>,
    file: &OpenFile,
    view: Option<Arc<PoolView>>,
    handle: u32,
    how: Locking,
) -> Result<Reply<'static>> {
    shared::import(process, handle)?;
    let result = lock_own(process, file, view, handle, how);
    if result.is_err() {
        end_if_over(process, handle);
    }
    result
}

fn lock_own(
    process: &Arc<Process>,
    file: &OpenFile,
    view: Option<Arc<PoolView>>,
    handle: u32,
    how: Locking,
) -> Result<Reply<'static>> {
    let Parts {
        lock: locks,
        view: shows,
    } = how.parts;
    let reply = |(address, physical): (u32, u32), user: Option<usize>| Reply::Locked {
        address: locks.then_some(address),
        physical,
        // CAST: at most 64 bits.
        user: user.map(|user| user as u64),
    };
    let base = process.device.base_address();
    let (address, backing, node) = loop {
        let mut tables = process.tables();
        let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        if !entry.is_alive() {
            return Err(Error::InvalidObject);
        }
        // Every LOCK of contiguous memory returns its physical address.
        let physical = entry.node.physical(base);
        let address = if how.physical {
            physical.ok_or(Error::NotSupported)?
        } else {
            entry.node.address()
        };
        let address = (address, physical.unwrap_or(0));
        let backing = match entry.node.view() {
            View::Pool(_) if shows && how.cacheable => return Err(Error::InvalidRequest),
            View::Pool(offset) => {
                entry.add_locks(&how)?;
                if !shows {
                    return Ok(reply(address, None));
                }
                let user = tables.in_pool(view, offset);
                drop(tables);
                let user = user.or_else(|| map_whole_pool(process, file, offset));
                if user.is_none() && locks {
                    let _ = unlock(
                        process,
                        handle,
                        Unlocking {
                            parts: how.parts,
                            by_event: false,
                            of_object: how.of_object,
                        },
                    );
                }
                let user = user.ok_or(Error::OutOfMemory)?;
                return Ok(reply(address, Some(user)));
            }
            View::Own(user) => {
                entry.add_locks(&how)?;
                // The address is only valid in the process that has wrapped the memory.
                let user = if entry.origin == Origin::Shared {
                    0
                } else {
                    user
                };
                return Ok(reply(address, shows.then_some(user)));
            }
            View::Pages(backing) => backing,
        };
        if !shows {
            entry.add_locks(&how)?;
            return Ok(reply(address, None));
        }
        // As in the C drivers: in most generations, each further LOCK gets the view of the
        // first LOCK, cached or not. In a few, a client may lock only once for each core.
        match entry.view {
            PagesView::None => {
                // `object_locks` counts the lock when the view exists.
                entry.add_locks(&Locking {
                    of_object: false,
                    ..how
                })?;
                entry.view = if how.of_object {
                    PagesView::BeingMadeOfObject
                } else {
                    PagesView::BeingMade
                };
                entry.is_cached = how.cacheable;
                let node = (*entry.node).clone();
                tables.asked = Some((backing.clone(), how.cacheable));
                break (address, backing, node);
            }
            PagesView::At { user, locks: views } if entry.may_lock(&how) => {
                let views = views.checked_add(1).ok_or(Error::OutOfResources)?;
                entry.add_locks(&how)?;
                entry.view = PagesView::At { user, locks: views };
                return Ok(reply(address, Some(user)));
            }
            PagesView::BeingMade | PagesView::BeingMadeOfObject if entry.may_lock(&how) => {
                if process.view_made.wait_interruptible(&mut tables) {
                    return Err(Error::Interrupted);
                }
            }
            _ => return Err(Error::MemoryLocked),
        }
    };
    let mapped = backing.map_into_caller(file);
    let mut tables = process.tables();
    // `backing` holds another reference, so this drops nothing.
    tables.asked = None;
    // Meanwhile a record or thread may have ended the node, and its handle may be reused.
    let is_there = tables
        .nodes
        .get(handle)
        .is_some_and(|entry| entry.gets_view() && Arc::ptr_eq(&entry.node, &node));
    let noted = if is_there {
        mapped.and_then(|user| {
            let shown = tables.show_node(handle, user, backing.bytes());
            shown.map(|()| user)
        })
    } else {
        Err(Error::InvalidObject)
    };
    if noted.is_err() && is_there {
        if let Some(entry) = tables.nodes.get_mut(handle) {
            entry.view = PagesView::None;
            entry.take_locks_off(locks.into());
        }
    }
    drop(tables);
    process.view_made.notify_all();
    if let (Err(_), Ok(user)) = (&noted, mapped) {
        end_view_here(process, Some((backing, user)));
    }
    noted.map(|user| reply(address, Some(user)))
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
    let last = process.device.memory().pool_bytes().saturating_sub(1);
    let user = process.tables().in_pool(view, last);
    let user = user.and_then(|user| user.checked_sub(last));
    let user = user.or_else(|| map_whole_pool(process, file, 0));
    let user = user.ok_or(Error::OutOfMemory)?;
    process.tables().has_mapped_pool = true;
    Ok(Reply::Mapped {
        // CAST: at most 64 bits.
        user: user as u64,
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
    let bytes = process.device.memory().pool_bytes();
    let start = file.map_into_caller(bytes, 0).ok()?;
    start.checked_add(offset)
}

/// The ioctl half of UNLOCK. It ends the view of a page-backed node. For such a node, or with
/// `by_event`, the event that must follow removes the lock; else this does. `MemoryUnlocked`.
pub(super) fn unlock(process: &Process, handle: u32, how: Unlocking) -> Result<Reply<'_>> {
    let Unlocking {
        parts,
        by_event,
        of_object,
    } = how;
    // Shared nodes that this process has not locked: `MemoryUnlocked`, not `InvalidObject`.
    shared::import(process, handle)?;
    let (reply, view, over) = {
        let mut tables = process.tables();
        // Another thread's LOCK is creating a view. Nothing would end it after the last unlock.
        while parts.view && tables.nodes.get(handle).is_some_and(NodeEntry::gets_view) {
            if process.view_made.wait_interruptible(&mut tables) {
                return Err(Error::Interrupted);
            }
        }
        let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        let has_lock = if of_object {
            entry.object_locks > 0
        } else {
            entry.has_plain_locks()
        };
        if parts.lock && !has_lock {
            drop(tables);
            end_if_over(process, handle);
            return Err(Error::MemoryUnlocked);
        }
        // Now, not in the event: a second UNLOCK before the event must not find this lock.
        if of_object {
            entry.object_locks = entry.object_locks.saturating_sub(1);
        }
        let is_asynchronous = parts.lock && (by_event || entry.node.is_paged());
        let reply = if parts.lock {
            Reply::Unlocked {
                asynchronous: is_asynchronous,
                pool: entry.node.pool().number(),
                bytes: entry.bytes(),
            }
        } else {
            Reply::Unmapped
        };
        if parts.lock && !is_asynchronous {
            entry.take_locks_off(1);
        }
        let may_be_over = !is_asynchronous && entry.is_over();
        let objects = entry.object_locks.into();
        let view = match &mut entry.view {
            PagesView::At { locks, .. } if parts.view && *locks > objects => {
                *locks -= 1;
                match *locks {
                    0 => tables.hide_node(handle),
                    _ => None,
                }
            }
            _ => None,
        };
        let over = if may_be_over {
            tables.take_if_over(handle)
        } else {
            None
        };
        (reply, view, over)
    };
    end_view_here(process, view);
    if let Some(entry) = over {
        end_node_here(process, entry);
    }
    Ok(reply)
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
fn take_left_views(process: &Process) {
    process.has_left_views.store(false, Relaxed);
    let views = core::mem::take(&mut process.tables().left_views);
    for view in views {
        end_view_here(process, Some(view));
    }
}

/// Ends a node that is over, and its view. May sleep. The caller holds no lock.
#[inline]
pub(super) fn end_node_here(process: &Process, entry: NodeEntry) {
    end_view_here(process, entry.shown());
    entry.node.end_here();
}

/// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: queues the event half of UNLOCK after all jobs in the ring.
pub(super) fn queue_unlock(
    process: &Arc<Process>,
    core: &Core,
    handle: u32,
    by_event: bool,
) -> Result<Reply<'static>> {
    if process.tables().nodes.get(handle).is_none() {
        return Err(Error::InvalidObject);
    }
    queue::queue_record(
        process,
        core,
        Record::Unlock {
            node: handle,
            by_event,
        },
    )
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
    end_left_views(process);
    if let Some(over) = free_plain(process, handle, if_unlocked) {
        if let Some(entry) = over {
            end_node_here(process, entry);
        }
        return Ok(());
    }
    let owner = shared::owner_of(process, handle);
    if wrapped(&owner, handle).is_some() {
        waits::wait_for_own_work(&owner)?;
    }
    if let Claimed::Import = claim(&owner, handle, if_unlocked)? {
        return Ok(());
    }
    end_view(process, handle);
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

/// The node of a handle, if it is wrapped memory of the process.
pub(super) fn wrapped(process: &Process, handle: u32) -> Option<Arc<Node>> {
    let tables = process.tables();
    let entry = tables.nodes.get(handle)?;
    entry.back.as_ref().map(|_| entry.node.clone())
}

/// Ends a node if it is over. May sleep. The caller holds no lock.
pub(super) fn end_if_over(process: &Process, handle: u32) {
    let over = process.tables().take_if_over(handle);
    if let Some(entry) = over {
        end_node_here(process, entry);
    }
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
    fn show_node(&mut self, handle: u32, user: usize, bytes: usize) -> Result {
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
