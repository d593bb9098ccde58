// SPDX-License-Identifier: GPL-2.0-only

//! The MMU tables of one process, for MMU version 2, and their mappings.
//!
//! An [`AddressSpace`] is made for a process. At first it only maps what all tables map. A
//! [`GpuView`] maps an object of the process until the view is dropped. Several views of an object
//! share a mapping. Pages get the same address as in the other tables if that is free here, or else
//! another address. The ring loads the tables with the jobs of the process. The ring names only
//! the device's tables or those of living processes. The process drops [`Space`] when it has no
//! jobs. The tables are kept until every core has loaded other tables.

use super::{
    mapping::{
        address,
        bytes,
        HighPages, //
    },
    pages,
    stale::Stale,
    two_level::{
        Access,
        Held,
        Made,
        TwoLevel, //
    },
    Contents,
    Kept,
    Mapping,
    Pages,
    Vm,
    FIRST_PAGE,
    PAGE_BITS, //
};
use crate::{
    prelude::*,
    sys::{
        trace,
        GFP_CLIENT, //
    }, //
};

/// Entries of the page table array that are reserved for processes of the administrator.
const RESERVED: usize = 32;

/// The memory of an object, for a mapping in the tables of a process.
pub(crate) enum Extent<'a> {
    /// `bytes` of physical memory at GPU address `address`, which has bit 31 clear.
    Linear {
        address: u32,
        bytes: usize,
        contents: Contents,
    },
    /// Pages at allocated addresses.
    Pages(&'a Mapping),
}

impl Extent<'_> {
    /// The first page, if all tables use the same address, and the number of pages.
    fn pages(&self) -> (Option<usize>, usize) {
        match *self {
            Self::Linear { address, bytes, .. } => {
                let (first, count) = pages(address, bytes);
                (Some(first), count)
            }
            Self::Pages(mapping) => {
                let first = mapping
                    .address()
                    .map(|address| u32_as_usize(address) >> PAGE_BITS);
                (first, mapping.backing().pages().dma_addresses().len())
            }
        }
    }
}

/// The key of an object's views.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The first page, at the address that all tables use.
    At(usize),
    /// Pages whose address these tables choose. The key is the kernel address of the pages' record.
    Of(usize),
}

struct Views {
    first: usize,
    users: u32,
    /// Number of views being added, and of ended views of which a TLB can have translations. While
    /// it is not 0, the addresses stay reserved, and a new view gets the same ones.
    holds: u32,
}

/// The addresses of an ended view. A TLB may have translations of them.
pub(super) struct Given {
    space: Arc<AddressSpace>,
    key: Key,
}

impl Given {
    /// Frees the `count` pages, unless another view of the object uses them.
    pub(super) fn give(&self, count: usize) {
        self.space.places.lock().release(self.key, count);
    }
}

/// The mappings in the tables of a process.
struct Places {
    views: RBTree<Key, Views>,
    room: HighPages,
}

impl Places {
    /// Reserves addresses for an object of `count` pages, from page `wanted` on if they are free.
    /// Returns the first page. `OutOfResources`: no room for them.
    fn hold(
        &mut self,
        key: Key,
        (wanted, count): (Option<usize>, usize),
        node: RBTreeNodeReservation<Key, Views>,
    ) -> Result<usize> {
        if let Some(views) = self.views.get_mut(&key) {
            views.holds = views.holds.checked_add(1).ok_or(Error::OutOfResources)?;
            return Ok(views.first);
        }
        let first = match key {
            Key::At(first) => first,
            Key::Of(_) => self.room.take_near(wanted, count)?,
        };
        let (users, holds) = (0, 1);
        let views = Views {
            first,
            users,
            holds,
        };
        self.views.insert(node.into_node(key, views));
        Ok(first)
    }

    /// Reverts [`Places::hold`]. Frees the addresses with their last use.
    fn release(&mut self, key: Key, count: usize) {
        let Some(views) = self.views.get_mut(&key) else {
            return;
        };
        views.holds -= 1;
        let first = views.first;
        if views.users == 0 && views.holds == 0 {
            let _ = self.views.remove(&key);
            if let Key::Of(_) = key {
                self.room.give(first, count);
            }
        }
    }
}

/// How the MMU identifies the tables of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceId {
    /// Physical address of the first level.
    pub(crate) address: u32,
    /// The entry of the page table array, for cores with a secure MMU. It is not 0.
    pub(crate) entry: u32,
}

/// The tables of one process, and their mappings.
#[pin_data]
pub(crate) struct AddressSpace {
    vm: Arc<Vm>,
    tables: TwoLevel,
    /// The entry in the page table array. Set once, before the tables are shared.
    entry: Atomic<usize>,
    process: i32,
    #[pin]
    places: Mutex<Places>,
}

impl AddressSpace {
    /// How the MMU identifies them.
    pub(crate) fn id(&self) -> SpaceId {
        SpaceId {
            address: self.tables.address(),
            // CAST: a few hundred.
            entry: self.entry() as u32,
        }
    }

    pub(super) fn entry(&self) -> usize {
        self.entry.load(Relaxed)
    }

    pub(super) fn tables(&self) -> &TwoLevel {
        &self.tables
    }

    /// Maps linear pages that all tables map. Error: `ENOMEM`.
    pub(super) fn begin_common(
        &self,
        first: usize,
        count: usize,
        access: Access,
    ) -> Result<(), Errno> {
        let _places = self.places.lock();
        self.tables.begin_linear(first, count, access)
    }

    /// Unmaps such pages, except for those that other mappings hold.
    pub(super) fn end_common(&self, pages: Pages, held: &[Held]) {
        self.tables.end_linear(pages, held);
    }

    /// The key for the views of an object at `extent`.
    fn key(&self, extent: &Extent<'_>) -> Key {
        match extent {
            Extent::Pages(mapping) if self.vm.tables.has_own_addresses() => {
                // CAST: an address. It is unique among these objects.
                Key::Of(Arc::as_ptr(mapping.backing()) as usize)
            }
            _ => Key::At(extent.pages().0.unwrap_or(0)),
        }
    }

    /// Adds a view of an object. The first view maps the object. Returns the first page.
    /// Errors: `OutOfResources` if there is no room, and `OutOfMemory`.
    fn begin(&self, extent: &Extent<'_>) -> Result<usize> {
        let (key, place) = (self.key(extent), extent.pages());
        // Without the lock: at the limit of a cgroup this may take long.
        let node = RBTreeNodeReservation::new(GFP_CLIENT)?;
        let first = self.places.lock().hold(key, place, node)?;
        let made = self.tables.make(first, place.1, true);
        let mut places = self.places.lock();
        let begun = made
            .map_err(Error::from)
            .and_then(|made| self.add(&mut places, extent, made));
        places.release(key, place.1);
        begun.map(|()| first)
    }

    /// Adds a view of an object whose addresses are reserved. `made`: second-level tables for it.
    fn add(&self, places: &mut Places, extent: &Extent<'_>, made: Made) -> Result {
        let views = places.views.get_mut(&self.key(extent));
        let views = views.ok_or(Error::OutOfResources)?;
        let users = views.users.checked_add(1).ok_or(Error::OutOfResources)?;
        if views.users == 0 {
            self.tables.adopt(made)?;
            match *extent {
                Extent::Linear { contents, .. } => {
                    let (_, count) = extent.pages();
                    let access = contents.access();
                    self.tables.begin_linear(views.first, count, access)?;
                }
                Extent::Pages(mapping) => {
                    let backing = mapping.backing();
                    let (pages, access) = (backing.pages().dma_addresses(), Access::of(backing));
                    self.tables.set_each(views.first, pages, access);
                }
            }
            // Under the lock: a thread that finds the view may submit a job, which must flush.
            self.vm.note_change();
        }
        views.users = users;
        Ok(())
    }

    /// Ends a view of `count` pages from `first` on. Returns whether it was the last view.
    fn end(&self, key: Key, first: usize, count: usize, held: &[Held]) -> bool {
        let mut places = self.places.lock();
        let Some(views) = places.views.get_mut(&key) else {
            return false;
        };
        views.users -= 1;
        if views.users > 0 {
            return false;
        }
        if first < FIRST_PAGE {
            self.tables.end_linear(first..first + count, held)
        } else {
            self.tables.clear_each(first, count)
        }
        views.holds += 1;
        if let Key::At(_) = key {
            places.release(key, count);
        }
        true
    }

    /// Whether there is room for pages of `bytes` in all. Always `true` if these tables do not
    /// choose addresses.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let longest = || self.places.lock().room.free.longest_free();
        !self.vm.tables.has_own_addresses() || bytes.div_ceil(PAGE_SIZE) <= longest()
    }

    /// GPU address of the first page of an object at `extent`, if it has a view.
    pub(crate) fn address_of(&self, extent: &Extent<'_>) -> Option<u32> {
        let key = self.key(extent);
        let places = self.places.lock();
        let views = places.views.get(&key).filter(|views| views.users > 0);
        // CAST: less than 2^20 pages.
        views.map(|views| (views.first as u32) << PAGE_BITS)
    }
}

/// A process's reference to its tables. Dropped when the process has no unfinished jobs.
pub(crate) struct Space {
    space: Arc<AddressSpace>,
    /// The record to retire at the end. `None` only during a drop.
    stale: Option<ListArc<Stale<Kept>>>,
}

impl Space {
    /// The tables.
    pub(crate) fn tables(&self) -> &Arc<AddressSpace> {
        &self.space
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Some(stale) = self.stale.take() {
            let vm = &self.space.vm;
            vm.retire(vm.state.lock(), stale);
        }
    }
}

/// Maps an object in the tables of a process, until this is dropped. The object is kept until no
/// TLB has a translation of it.
pub(crate) struct GpuView {
    space: Arc<AddressSpace>,
    key: Key,
    /// Its address differs from the one in other tables.
    is_apart: bool,
    /// The record to retire at the end. `None` only during a drop.
    stale: Option<ListArc<Stale<Kept>>>,
}

impl GpuView {
    /// Maps `object`, which is at `extent`, in `space`. Errors: `OutOfResources` if there is no
    /// room, and `OutOfMemory`.
    pub(crate) fn new<T: Send + Sync + 'static>(
        space: &Arc<AddressSpace>,
        extent: &Extent<'_>,
        object: Arc<T>,
    ) -> Result<Self> {
        let (key, (wanted, count)) = (space.key(extent), extent.pages());
        let kept = Kept::Object {
            _object: object,
            given: matches!(key, Key::Of(_)).then(|| Given {
                space: space.clone(),
                key,
            }),
        };
        let stale = Stale::new(0, count, kept)?;
        stale.place(space.begin(extent)?);
        let is_apart = wanted != Some(stale.first());
        if is_apart {
            trace::Map::record(|| trace::Map {
                process: space.process,
                address: address(&stale),
                bytes: bytes(&stale),
            });
        }
        Ok(Self {
            space: space.clone(),
            key,
            is_apart,
            stale: Some(stale),
        })
    }

    /// GPU address of the object's first page.
    pub(crate) fn address(&self) -> u32 {
        self.stale.as_ref().map_or(0, |stale| address(stale))
    }
}

impl Drop for GpuView {
    fn drop(&mut self) {
        let Some(stale) = self.stale.take() else {
            return;
        };
        if self.is_apart {
            trace::Unmap::record(|| trace::Unmap {
                process: self.space.process,
                address: address(&stale),
                bytes: bytes(&stale),
            });
        }
        let vm = &self.space.vm;
        let (first, count) = (stale.first(), stale.count);
        if first < FIRST_PAGE {
            let state = vm.state.lock();
            if self.space.end(self.key, first, count, &state.held) {
                vm.retire(state, stale);
            }
        } else if self.space.end(self.key, first, count, &[]) {
            vm.retire(vm.state.lock(), stale);
        }
    }
}

impl Vm {
    /// Whether processes have tables of their own.
    pub(crate) fn has_spaces(&self) -> bool {
        self.tables.has_spaces
    }

    /// A copy of the list of pages that all tables map. Error: `ENOMEM`.
    fn held(&self) -> Result<KVec<Held>, Errno> {
        let count = self.state.lock().held.len();
        let mut held = KVec::with_capacity(count, GFP_CLIENT)?;
        // The caller adds the pages that are mapped after this copy.
        for one in self.state.lock().held.iter().take(count) {
            let _ = held.push_within_capacity(one.clone());
        }
        Ok(held)
    }

    /// The tables with this id, if they still exist.
    pub(crate) fn space(&self, id: SpaceId) -> Option<Arc<AddressSpace>> {
        let state = self.state.lock();
        let mut spaces = state.spaces.iter().flatten();
        spaces.find(|space| space.id() == id).cloned()
    }

    /// Tables for a new process. `None`: processes have none. `ENOMEM`. `ENOSPC`: no entry of the
    /// page table array is free, or only [`RESERVED`] ones and the caller is not an administrator.
    pub(crate) fn new_space(self: &Arc<Self>) -> Result<Option<Space>, Errno> {
        let Some(common) = self.tables.two_level.as_ref().filter(|_| self.has_spaces()) else {
            return Ok(None);
        };
        // Do most of the work without the lock, because all processes take it.
        let held = self.held()?;
        let tables = common.beside()?;
        held.iter().try_for_each(|held| tables.begin_held(held))?;
        let room = HighPages::new().map_err(|_| ENOMEM)?;
        let space = Arc::pin_init(
            pin_init!(AddressSpace {
                vm: self.clone(),
                tables,
                entry: Atomic::new(0),
                process: trace::process(),
                places <- new_mutex!(Places {
                    views: RBTree::new(),
                    room,
                }, "galcore space"),
            }),
            GFP_CLIENT,
        )?;
        let kept = Kept::Space {
            space: space.clone(),
        };
        let stale = Stale::new(0, 0, kept)?;
        let reserved = if sys::is_admin() { 0 } else { RESERVED };
        let mut state = self.state.lock();
        let spaces = state.spaces.iter().enumerate().skip(1);
        let mut free = spaces.filter(|(_, space)| space.is_none());
        let (entry, _) = free.nth(reserved).ok_or(ENOSPC)?;
        // Apply the changes since the copy.
        for gone in held.iter().filter(|held| !state.held.contains(held)) {
            space.end_common(gone.pages.clone(), &state.held);
        }
        for new in state.held.iter().filter(|new| !held.contains(new)) {
            space.tables.begin_held(new)?;
        }
        space.entry.store(entry, Relaxed);
        common.list(entry, &space.tables)?;
        if let Some(slot) = state.spaces.get_mut(entry) {
            *slot = Some(space.clone());
        }
        drop(state);
        sys::barrier::write();
        Ok(Some(Space {
            space,
            stale: Some(stale),
        }))
    }
}
