// SPDX-License-Identifier: GPL-2.0-only

//! Nodes of video memory: ALLOCATE, LOCK, UNLOCK, FREE.

use super::{
    changes::{
        Change,
        Returned, //
    },
    ledgers::Sort,
    names,
    shared_info::Note,
    tables::Tables,
    user_views::{
        UserView,
        Viewed, //
    },
    visible::Visible,
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
    error::{
        Error,
        Result, //
    },
    memory::{
        granted,
        surface,
        Backing,
        Node,
        Pool,
        View, //
    },
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::chrdev::OpenFile, //
};
use kernel::{
    list::ListArc,
    prelude::KBox,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// How far the end of a node in a process's table has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It can be used.
    Alive,
    /// A queue that is being submitted will free it.
    Claimed,
    /// FREE has come; it goes with its last lock.
    Freed,
}

/// Where a node in a process's table comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The process has allocated it: its ledgers have the bytes.
    Own,
    /// By its name, as a dma-buf, or of memory that is not ours: the process's ledgers do not have
    /// the bytes.
    Foreign,
    /// It is another process's, and nodes are shared: the entry goes with its last lock.
    Shared,
}

/// The process's view of a page-backed node.
#[derive(Clone, Copy)]
pub(super) enum PagesView {
    /// No view.
    None,
    /// A LOCK makes it.
    BeingMade,
    /// The same, by a handle of a DRM file.
    BeingMadeOfObject,
    /// It is at user address `user`, for `locks` locks.
    At { user: usize, locks: u32 },
}

/// A node in a process's table.
pub(super) struct NodeEntry {
    pub(super) node: Visible<Node>,
    pub(super) origin: Origin,
    /// What lies in it, as it was allocated.
    kind: u32,
    /// Bytes that the client is granted; 0: all that there are.
    granted: u32,
    pub(super) life: Life,
    pub(super) locks: u32,
    /// By place, the cores for which it has been locked since it was not locked at all.
    locked_for: u8,
    /// Where the process sees it, if it is page-backed.
    pub(super) view: PagesView,
    /// The last LOCK asked for a cached view.
    pub(super) is_cached: bool,
    /// How often it was imported while it was there already: each import takes one more free. Short,
    /// as an entry is moved often, and more than 64 bytes by a call.
    pub(super) imports: u16,
    /// The process may free it. Else it has only got objects of it.
    pub(super) is_numbered: bool,
    /// How many handles of DRM files it has: no free takes these.
    pub(super) objects: u16,
    /// How many of its locks, and of its view's, are by those. An UNLOCK by the process's handle takes
    /// none of them.
    pub(super) object_locks: u16,
    /// Its name, once it has one.
    pub(super) name: Option<names::Name<Node>>,
    /// The return of the process's own memory, if it is that: made with it, as it must not fail.
    pub(super) back: Option<ListArc<Change>>,
    /// What the process has noted of it, if it has. Apart: an entry is moved, and few have one.
    pub(super) note: Option<KBox<Note>>,
}

/// How LOCK is asked for.
#[derive(Clone, Copy)]
pub(super) struct Locking {
    /// Map the user's view cached.
    pub(super) cacheable: bool,
    /// The place of the core for which.
    pub(super) core: usize,
    /// That core knows physical addresses only: memory in one piece.
    pub(super) physical: bool,
    /// A process that has a page-backed node locked for a core may lock it for that again.
    pub(super) again: bool,
    /// By a handle of a DRM file.
    pub(super) of_object: bool,
    pub(super) parts: Parts,
}

/// How UNLOCK is asked for.
#[derive(Clone, Copy)]
pub(super) struct Unlocking {
    pub(super) parts: Parts,
    /// The event takes every node's lock off. Until then commands that use the node may still come.
    pub(super) later: bool,
    /// By a handle of a DRM file.
    pub(super) of_object: bool,
}

/// What a FREE has claimed.
pub(super) enum Claimed {
    Node,
    /// One of several imports of it: the node stays.
    Import,
}

impl NodeEntry {
    /// A node that is not locked.
    pub(super) fn new(node: Visible<Node>, origin: Origin) -> Self {
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
            is_numbered: true,
            objects: 0,
            object_locks: 0,
            name: None,
            back: None,
            note: None,
        }
    }

    /// One that the process has allocated for a surface of this kind, of `bytes` at this alignment.
    fn allocated(node: Visible<Node>, kind: u32, bytes: u32, alignment: u32) -> Self {
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

    /// Bytes that the client is granted.
    fn bytes(&self) -> u64 {
        match self.granted {
            // CAST: at most 64 bits.
            0 => self.node.bytes() as u64,
            granted => granted.into(),
        }
    }

    /// In which ledgers it counts, if it is the process's own.
    fn sort(&self) -> Sort {
        Sort {
            pool: self.node.pool(),
            kind: self.kind,
        }
    }

    /// Gives the process's own memory back to it.
    pub(super) fn give_back(&self) {
        if self.back.is_some() {
            Returned::Node(self.node.clone()).finish();
        }
    }

    /// Whether it can be used: it is not freed, and no FREE is under way.
    pub(super) fn is_alive(&self) -> bool {
        self.life == Life::Alive
    }

    /// Where the process sees it, if it is page-backed and has a view.
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

    /// Whether a thread's LOCK is mapping it for the process.
    fn gets_view(&self) -> bool {
        matches!(
            self.view,
            PagesView::BeingMade | PagesView::BeingMadeOfObject
        )
    }

    /// Locks it once more, if it is locked by `how`. `OutOfResources`: too often.
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

    /// Whether it may be locked once more in this way.
    fn may_lock(&self, how: &Locking) -> bool {
        how.again || self.locked_for & 1 << how.core == 0
    }

    /// Whether it has been freed, or is another process's, and is not locked.
    #[inline]
    fn is_over(&self) -> bool {
        self.locks == 0 && (self.life == Life::Freed || self.origin == Origin::Shared)
    }

    /// Whether it has locks that are not by handles of DRM files.
    fn has_plain_locks(&self) -> bool {
        let is_made = matches!(self.view, PagesView::BeingMadeOfObject);
        self.locks > u32::from(self.object_locks) + u32::from(is_made)
    }

    /// Takes one of these off, if there is one.
    pub(super) fn take_lock_off(&mut self) {
        if self.has_plain_locks() {
            self.take_locks_off(1);
        }
    }

    /// Takes those by handles of DRM files off; says whether its view, if it has one, was theirs
    /// alone.
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

    /// The same of a node that is locked and has a view of its own.
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

/// How often an allocation waits for memory of others: they may go on freeing some forever.
const RECLAIMS: u32 = 4;

/// How often in each of these what the process itself has freed is waited for.
const STEPS: u32 = 3;

impl Process {
    /// ALLOCATE_VIDEO_MEMORY: the surface's size is the kernel's to know.
    pub(super) fn allocate_surface(self: &Arc<Self>, surface: abi::Surface) -> Result<Reply<'_>> {
        let core = self.device.first_core();
        let has_super_tiles = core.is_ok_and(|core| core.identity().super_tile_mode != 0);
        let size = surface::size(&surface, has_super_tiles)?;
        let (node, pool, _) =
            self.allocate_node(size.bytes, surface::ALIGNMENT, surface.kind, surface.pool)?;
        Ok(Reply::Surface {
            width: size.width,
            height: size.height,
            pool,
            node,
        })
    }

    /// Returns the handle, the pool that it is from, and the bytes granted.
    pub(super) fn allocate_node(
        self: &Arc<Self>,
        bytes: u32,
        alignment: u32,
        kind: u32,
        pool: u32,
    ) -> Result<(u32, u32, u64)> {
        let memory = self.device.memory();
        memory.failures().pass()?;
        let allocate = || {
            // Else its pages would be taken and cleared for nothing.
            if pool == Pool::Virtual.number() && !self.has_room(bytes) {
                return Err(Error::OutOfMemory);
            }
            let node = memory.allocate_node(bytes, alignment, kind, pool, self.number)?;
            Visible::new(node, self).map_err(|_| Error::OutOfMemory)
        };
        let node = match allocate() {
            // What was freed may still wait for the GPU: let it come back, and try once more.
            Err(Error::OutOfMemory) if memory.could_have(bytes, alignment, pool) => self
                .reclaiming(|waits| match waits {
                    true => self.reclaim_and(allocate),
                    false => allocate(),
                })?,
            other => other?,
        };
        let pool = node.pool();
        let entry = NodeEntry::allocated(node, kind, bytes, alignment);
        let bytes = entry.bytes();
        Ok((self.insert_node(entry)?, pool.number(), bytes))
    }

    /// Tries `allocate` once what the process itself has freed is back, and, if that is not enough,
    /// what others have, and those that are ending: that may take them long. On cores that hang
    /// neither comes back.
    fn reclaim_and<T>(&self, allocate: impl Fn() -> Result<T>) -> Result<T> {
        let reclaimer = self.device.reclaimer();
        for _ in 0..RECLAIMS {
            let freed = reclaimer.freed();
            // Memory that an own job frees takes some steps: it is hidden, then dropped.
            for _ in 0..STEPS {
                let goes_on = self.reclaim()?;
                match allocate() {
                    Err(Error::OutOfMemory) if goes_on => {}
                    other => return other,
                }
            }
            match reclaimer.wait_for_others() {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) => break,
                // Jobs freed more as they ended, after what was waited for.
                Ok(()) if reclaimer.freed() != freed => {}
                Ok(()) => break,
            }
        }
        allocate()
    }

    /// Waits until the memory that the process, and jobs that have ended, have freed is back; says
    /// whether the cores go on. `Interrupted`. The caller has no lock.
    pub(super) fn reclaim(&self) -> Result<bool> {
        // First: what records have freed may only be noted, by a job that has ended.
        self.take_left_views();
        let reclaimer = self.device.reclaimer();
        // What does not come back now comes back later.
        if reclaimer.wait_for_own(&self.hider) == Err(Error::Interrupted) {
            return Err(Error::Interrupted);
        }
        match self.device.wait_for_reclaim(self.usage.shares()) {
            Err(Error::GpuNotResponding) => Ok(false),
            outcome => outcome,
        }
    }

    /// LOCK: a lock, a view, or both.
    pub(super) fn lock(
        self: &Arc<Self>,
        file: &OpenFile,
        view: Option<Arc<PoolView>>,
        handle: u32,
        how: Locking,
    ) -> Result<Reply<'_>> {
        self.import(handle)?;
        let result = self.lock_own(file, view, handle, how);
        if result.is_err() {
            self.end_if_over(handle);
        }
        result
    }

    fn lock_own(
        self: &Arc<Self>,
        file: &OpenFile,
        view: Option<Arc<PoolView>>,
        handle: u32,
        how: Locking,
    ) -> Result<Reply<'_>> {
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
        let base = self.device.base_address();
        let (address, backing, node) = loop {
            let mut tables = self.tables();
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            if !entry.is_alive() {
                return Err(Error::InvalidObject);
            }
            // The address of memory in one piece says where that is in any case.
            let physical = entry.node.physical(base);
            let address = match how.physical {
                true => physical.ok_or(Error::NotSupported)?,
                false => entry.node.address(),
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
                    let user = user.or_else(|| self.map_whole_pool(file, offset));
                    if user.is_none() && locks {
                        let _ = self.unlock(
                            handle,
                            Unlocking {
                                parts: how.parts,
                                later: false,
                                of_object: how.of_object,
                            },
                        );
                    }
                    let user = user.ok_or(Error::OutOfMemory)?;
                    return Ok(reply(address, Some(user)));
                }
                View::Own(user) => {
                    entry.add_locks(&how)?;
                    // Only in the process that wrapped it.
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
            // As the C drivers: most clients lock as often as they want, and get the same view,
            // cached or not as the first has asked; a few may do it once.
            match entry.view {
                PagesView::None => {
                    // An object's lock counts as such once its view is there.
                    entry.add_locks(&Locking {
                        of_object: false,
                        ..how
                    })?;
                    entry.view = match how.of_object {
                        true => PagesView::BeingMadeOfObject,
                        false => PagesView::BeingMade,
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
                    if self.view_made.wait_interruptible(&mut tables) {
                        return Err(Error::Interrupted);
                    }
                }
                _ => return Err(Error::MemoryLocked),
            }
        };
        let mapped = backing.map_into_caller(file);
        let mut tables = self.tables();
        // Never the last reference: each LOCK has its own.
        tables.asked = None;
        // Records and other threads may have ended the node meanwhile, and another have its handle.
        let is_there = tables
            .nodes
            .get(handle)
            .is_some_and(|entry| entry.gets_view() && Arc::ptr_eq(&entry.node, &node));
        let noted = match is_there {
            true => mapped.and_then(|user| {
                let shown = tables.show_node(handle, user, backing.bytes());
                shown.map(|()| user)
            }),
            false => Err(Error::InvalidObject),
        };
        if noted.is_err() && is_there {
            if let Some(entry) = tables.nodes.get_mut(handle) {
                entry.view = PagesView::None;
                entry.take_locks_off(locks.into());
            }
        }
        drop(tables);
        self.view_made.notify_all();
        if let (Err(_), Ok(user)) = (&noted, mapped) {
            self.end_view_here(Some((backing, user)));
        }
        noted.map(|user| reply(address, Some(user)))
    }

    /// MAP_MEMORY of the pool: where all of it is, in `view`, in another window of the process, or
    /// in a new one. `InvalidArgument`: no bytes. `OutOfMemory`.
    pub(super) fn map_pool(
        self: &Arc<Self>,
        file: &OpenFile,
        view: Option<Arc<PoolView>>,
        bytes: u64,
    ) -> Result<Reply<'_>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        let last = self.device.memory().pool_bytes().saturating_sub(1);
        let user = self.tables().in_pool(view, last);
        let user = user.and_then(|user| user.checked_sub(last));
        let user = user.or_else(|| self.map_whole_pool(file, 0));
        let user = user.ok_or(Error::OutOfMemory)?;
        self.tables().has_mapped_pool = true;
        Ok(Reply::Mapped {
            // CAST: at most 64 bits.
            user: user as u64,
        })
    }

    /// UNMAP_MEMORY of the pool. As the C driver it looks at no address: there is one mapping of
    /// it, which stays here, as nodes are seen in it. `InvalidArgument`: there is none, or nothing
    /// is named.
    pub(super) fn unmap_pool(&self, user: u64, bytes: u64) -> Result {
        let is_named = user != 0 && bytes != 0;
        match is_named && core::mem::take(&mut self.tables().has_mapped_pool) {
            true => Ok(()),
            false => Err(Error::InvalidArgument),
        }
    }

    /// Maps all of the pool for a client that has not: returns where byte `offset` of it is.
    pub(super) fn map_whole_pool(&self, file: &OpenFile, offset: usize) -> Option<usize> {
        let bytes = self.device.memory().pool_bytes();
        let start = file.map_into_caller(bytes, 0).ok()?;
        start.checked_add(offset)
    }

    /// The ioctl half of UNLOCK: all of it for a node in the pool; for a page-backed one the end of
    /// the user's view, with the lock itself left to the event that must follow. `MemoryUnlocked`.
    pub(super) fn unlock(&self, handle: u32, how: Unlocking) -> Result<Reply<'_>> {
        let Unlocking {
            parts,
            later,
            of_object,
        } = how;
        // Another process's node, which this one has not locked, is there, and not locked.
        self.import(handle)?;
        let (reply, view, over) = {
            let mut tables = self.tables();
            // What another thread's LOCK is making could not be ended once its last lock has gone.
            while parts.view && tables.nodes.get(handle).is_some_and(NodeEntry::gets_view) {
                if self.view_made.wait_interruptible(&mut tables) {
                    return Err(Error::Interrupted);
                }
            }
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            let has_lock = match of_object {
                true => entry.object_locks > 0,
                false => entry.has_plain_locks(),
            };
            if parts.lock && !has_lock {
                drop(tables);
                self.end_if_over(handle);
                return Err(Error::MemoryUnlocked);
            }
            // Now: a second UNLOCK before the event of the first would take another thread's lock.
            if of_object {
                entry.object_locks = entry.object_locks.saturating_sub(1);
            }
            let is_asynchronous = parts.lock && (later || entry.node.is_paged());
            let reply = match parts.lock {
                true => Reply::Unlocked {
                    asynchronous: is_asynchronous,
                    pool: entry.node.pool().number(),
                    bytes: entry.bytes(),
                },
                false => Reply::Unmapped,
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
            let over = match may_be_over {
                true => tables.take_if_over(handle),
                false => None,
            };
            (reply, view, over)
        };
        self.end_view_here(view);
        if let Some(entry) = over {
            self.end_node_here(entry);
        }
        Ok(reply)
    }

    /// Ends the caller's view of a page-backed node that is not locked: its unlocks came by records
    /// alone, which run where the view cannot be ended.
    pub(super) fn end_view(&self, handle: u32) {
        let idle = {
            let mut tables = self.tables();
            match tables.nodes.get(handle) {
                Some(entry) if entry.locks == 0 => tables.hide_node(handle),
                _ => None,
            }
        };
        self.end_view_here(idle);
    }

    /// Ends a view of the process's. Where the caller is another process, or the kernel has no memory
    /// to end it, [`Process::end_left_views`] will.
    #[inline]
    pub(super) fn end_view_here(&self, view: Option<(Backing, usize)>) {
        if let Some(view) = view {
            self.end_this_view(view);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_this_view(&self, (backing, user): (Backing, usize)) {
        if !self.is_callers() || !backing.unmap(user) {
            self.leave_view(&mut self.tables(), (backing.clone(), user));
        }
    }

    /// Notes a view that cannot be ended now. Without memory it stays until the process ends.
    pub(super) fn leave_view(&self, tables: &mut Tables, view: (Backing, usize)) {
        let _ = tables.left_views.push(view, crate::sys::GFP_CLIENT);
        self.has_left_views.store(true, Relaxed);
    }

    /// Ends the views that records have left, as they run where none can be ended. The caller has no
    /// lock.
    #[inline]
    pub(super) fn end_left_views(&self) {
        if self.has_left_views.load(Relaxed) {
            self.take_left_views();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_left_views(&self) {
        self.has_left_views.store(false, Relaxed);
        let views = core::mem::take(&mut self.tables().left_views);
        for view in views {
            self.end_view_here(Some(view));
        }
    }

    /// Ends a node that is over, and its view. Takes time: no lock may be held.
    #[inline]
    pub(super) fn end_node_here(&self, entry: NodeEntry) {
        self.end_view_here(entry.shown());
        entry.node.end_here();
    }

    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: the event half of UNLOCK, after what is in the ring.
    pub(super) fn queue_unlock(
        self: &Arc<Self>,
        core: &Core,
        handle: u32,
        later: bool,
    ) -> Result<Reply<'_>> {
        if self.tables().nodes.get(handle).is_none() {
            return Err(Error::InvalidObject);
        }
        self.queue_record(
            core,
            Record::Unlock {
                node: handle,
                later,
            },
        )
    }

    /// Claims a node for the caller, which will free it. `InvalidObject`: handle 0. `InvalidData`:
    /// unknown, claimed or freed already. `MemoryLocked`: locked, and it is wanted only
    /// `if_unlocked`.
    pub(super) fn claim_node(&self, handle: u32, if_unlocked: bool) -> Result<Claimed> {
        if handle == 0 {
            return Err(Error::InvalidObject);
        }
        match self.tables().nodes.get_mut(handle) {
            Some(entry) if if_unlocked && entry.is_alive() && entry.locks > 0 => {
                Err(Error::MemoryLocked)
            }
            Some(entry) if entry.is_alive() && entry.imports > 0 => {
                entry.imports -= 1;
                Ok(Claimed::Import)
            }
            Some(entry) if entry.is_alive() && entry.objects > 0 && entry.is_numbered => {
                entry.is_numbered = false;
                Ok(Claimed::Import)
            }
            Some(entry) if !entry.is_numbered => Err(Error::InvalidData),
            Some(entry) if entry.is_alive() => {
                entry.life = Life::Claimed;
                Ok(Claimed::Node)
            }
            _ => Err(Error::InvalidData),
        }
    }

    /// Takes a claim back.
    pub(super) fn unclaim_node(&self, handle: u32, claimed: &Claimed) {
        if let Some(entry) = self.tables().nodes.get_mut(handle) {
            match claimed {
                Claimed::Node => entry.life = Life::Alive,
                Claimed::Import if !entry.is_numbered => entry.is_numbered = true,
                Claimed::Import => entry.imports = entry.imports.saturating_add(1),
            }
        }
    }

    /// Frees what most FREEs are about, under one lock: a node that only this process has, which is
    /// not its own memory, and whose view, if it has one, stays until its last lock goes. `None`:
    /// it is another. Else the node, if it is over, to be ended without a lock.
    #[inline]
    fn free_plain_node(&self, handle: u32, if_unlocked: bool) -> Option<Option<NodeEntry>> {
        if self.registry().is_some() {
            return None;
        }
        let mut tables = self.tables();
        let entry = tables.nodes.get_mut(handle)?;
        let is_plain = match entry.locks {
            0 => matches!(entry.view, PagesView::None),
            _ => !if_unlocked,
        };
        let is_shared = entry.imports > 0 || entry.objects > 0 || !entry.is_numbered;
        if !is_plain || !entry.is_alive() || is_shared || entry.back.is_some() {
            return None;
        }
        entry.life = Life::Freed;
        Some(tables.take_if_over(handle))
    }

    /// FREE: ends a node, or one of several imports of it. Errors as [`Process::claim_node`].
    pub(super) fn free_node(self: &Arc<Self>, handle: u32, if_unlocked: bool) -> Result {
        self.end_left_views();
        if let Some(over) = self.free_plain_node(handle, if_unlocked) {
            if let Some(entry) = over {
                self.end_node_here(entry);
            }
            return Ok(());
        }
        let owner = self.owner_of(handle);
        if owner.wrapped_node(handle).is_some() {
            owner.wait_for_own_work()?;
        }
        if let Claimed::Import = owner.claim_node(handle, if_unlocked)? {
            return Ok(());
        }
        self.end_view(handle);
        if let Some(entry) = owner.tables().nodes.get_mut(handle) {
            entry.life = Life::Freed;
        }
        owner.unshare(handle);
        // One that is locked goes with its last lock, and its memory with that.
        let over = owner.tables().take_if_over(handle);
        if let Some(entry) = over {
            entry.give_back();
            owner.end_node_here(entry);
        }
        Ok(())
    }

    /// The node of a handle, if it is the process's own memory.
    pub(super) fn wrapped_node(&self, handle: u32) -> Option<Arc<Node>> {
        let tables = self.tables();
        let entry = tables.nodes.get(handle)?;
        entry.back.as_ref().map(|_| entry.node.clone())
    }

    /// Ends a node that is over. Takes time: no lock may be held.
    pub(super) fn end_if_over(&self, handle: u32) {
        let over = self.tables().take_if_over(handle);
        if let Some(entry) = over {
            self.end_node_here(entry);
        }
    }
}

impl Tables {
    /// Has a node in the table under `handle`, or any if that is `None`, in reach and in the
    /// ledgers, or nothing of it; returns its handle. `MemoryLocked`: its addresses are in reach
    /// already. `OutOfResources`, `OutOfMemory`.
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
        let mut reach = || match gives_addresses {
            true => self.addresses.insert(address, bytes, owner),
            false => Ok(()),
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

    /// Notes where a page-backed node is mapped. `InvalidObject`: it is gone. `OutOfMemory`.
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

    /// Forgets where a page-backed node is mapped; returns that, to be unmapped.
    pub(super) fn hide_node(&mut self, handle: u32) -> Option<(Backing, usize)> {
        let entry = self.nodes.get_mut(handle)?;
        let view = entry.shown()?;
        entry.view = PagesView::None;
        self.user_views.remove(view.1, Viewed::Node(handle));
        Some(view)
    }

    /// The event half of UNLOCK: for page-backed nodes, or for `all`.
    /// Returns what is over.
    pub(super) fn finish_unlock(&mut self, handle: u32, all: bool) -> Option<NodeEntry> {
        if let Some(entry) = self.nodes.get_mut(handle) {
            if all || entry.node.is_paged() {
                entry.take_lock_off();
            }
        }
        self.take_if_over(handle)
    }

    /// Takes a node out that has been freed, or is another process's, and is not locked.
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
