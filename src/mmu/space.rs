// SPDX-License-Identifier: GPL-2.0-only

//! The tables of one process, for MMU version 2, and what it has there.
//!
//! An [`AddressSpace`] is made with the process and has what all have in common. A [`GpuView`] adds an
//! object of the process's, as long as it lives; several views of one object are one mapping. Pages
//! have the address that they have in all tables, if that is free in these, else another. The ring
//! loads the tables with the process's jobs, and names only tables whose process is there: its own, or
//! the device's. [`Space`], at whose end the process has no jobs, keeps the tables until every core has
//! loaded others.

use super::{
    mapping::{
        address,
        bytes, //
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
    Room,
    Vm,
    FIRST_PAGE,
    PAGE_BITS, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    sys::{
        self,
        trace,
        GFP_CLIENT, //
    }, //
};
use kernel::{
    list::ListArc,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Entries of the page table array that only the administrator's processes get.
const RESERVED: usize = 32;

/// Where an object lies that a process's tables lead to.
pub(crate) enum Lies<'a> {
    /// `bytes` at GPU address `address`, below bit 31, as physical memory.
    Linear {
        address: u32,
        bytes: usize,
        contents: Contents,
    },
    /// Pages, at the addresses that they have been given.
    Pages(&'a Mapping),
}

impl Lies<'_> {
    /// Number of the first page, where all tables have it that can, and of pages.
    fn pages(&self) -> (Option<usize>, usize) {
        match *self {
            Self::Linear { address, bytes, .. } => {
                let (first, count) = pages(address, bytes);
                (Some(first), count)
            }
            Self::Pages(mapping) => {
                // CAST: 32 bits into at least 32.
                let first = mapping
                    .address()
                    .map(|address| address as usize >> PAGE_BITS);
                (first, mapping.backing().dma_addresses().len())
            }
        }
    }
}

/// What the views of an object are found by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Its first page.
    At(usize),
    /// Pages at an address of these tables' own: where the kernel has them noted.
    Of(usize),
}

/// The views of an object.
struct Views {
    first: usize,
    users: u32,
    /// How many views need its addresses besides: those that begin, and those that have ended until no
    /// TLB knows them. One that begins meanwhile has them again.
    holds: u32,
}

/// The addresses of a view that has ended, until no TLB knows them.
pub(super) struct Given {
    space: Arc<AddressSpace>,
    key: Key,
}

impl Given {
    /// `count` pages are free, but for another view of the object.
    pub(super) fn give(&self, count: usize) {
        self.space.places.lock().release(self.key, count);
    }
}

/// What there is in the tables of a process.
struct Places {
    views: RBTree<Key, Views>,
    room: Room,
}

impl Places {
    /// Holds the addresses of an object of `count` pages, at `wanted` if that can be: the first page.
    /// `OutOfResources`: there is no such room.
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

    /// Ends a hold of them.
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

/// What the MMU knows the tables of a process by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceId {
    /// Physical address of the first level.
    pub(crate) address: u32,
    /// The entry of the page table array, for cores with a secure MMU. More than 0.
    pub(crate) entry: u32,
}

/// The tables of one process.
#[pin_data]
pub(crate) struct AddressSpace {
    vm: Arc<Vm>,
    tables: TwoLevel,
    /// Its entry in the page table array. Set once, before anybody else has it.
    entry: Atomic<usize>,
    /// Its process, for traces.
    process: i32,
    #[pin]
    places: Mutex<Places>,
}

impl AddressSpace {
    /// What the MMU knows them by.
    pub(crate) fn id(&self) -> SpaceId {
        SpaceId {
            address: self.tables.address(),
            // CAST: a few hundred.
            entry: self.entry() as u32,
        }
    }

    /// Their entry in the page table array.
    pub(super) fn entry(&self) -> usize {
        self.entry.load(Relaxed)
    }

    pub(super) fn tables(&self) -> &TwoLevel {
        &self.tables
    }

    /// Maps linear pages, as all tables do. `ENOMEM`.
    pub(super) fn begin_common(
        &self,
        first: usize,
        count: usize,
        access: Access,
    ) -> Result<(), kernel::error::Error> {
        let _places = self.places.lock();
        self.tables.begin_linear(first, count, access)
    }

    /// Lets them lead nowhere, but those that are `held`.
    pub(super) fn end_common(&self, pages: Pages, held: &[Held]) {
        self.tables.end_linear(pages, held);
    }

    /// What the views of what lies so are found by.
    fn key(&self, lies: &Lies<'_>) -> Key {
        match lies {
            Lies::Pages(mapping) if self.vm.tables.has_own_addresses() => {
                // CAST: a number that no other pages have.
                Key::Of(Arc::as_ptr(mapping.backing()) as usize)
            }
            _ => Key::At(lies.pages().0.unwrap_or(0)),
        }
    }

    /// Maps what lies so, if no view has. Returns its first page. `OutOfResources`: no such room.
    /// `OutOfMemory`.
    fn begin(&self, lies: &Lies<'_>) -> Result<usize> {
        let (key, place) = (self.key(lies), lies.pages());
        // Before the lock: a process at its cgroup's limit may take long.
        let node = RBTreeNodeReservation::new(GFP_CLIENT)?;
        let first = self.places.lock().hold(key, place, node)?;
        let made = self.tables.make(first, place.1, true);
        let mut places = self.places.lock();
        let begun = made
            .map_err(Error::from)
            .and_then(|made| self.add(&mut places, lies, made));
        places.release(key, place.1);
        begun.map(|()| first)
    }

    /// A view more of what is held and lies so, in tables that are `made`.
    fn add(&self, places: &mut Places, lies: &Lies<'_>, made: Made) -> Result {
        let views = places.views.get_mut(&self.key(lies));
        let views = views.ok_or(Error::OutOfResources)?;
        let users = views.users.checked_add(1).ok_or(Error::OutOfResources)?;
        if views.users == 0 {
            self.tables.adopt(made)?;
            match *lies {
                Lies::Linear { contents, .. } => {
                    let (_, count) = lies.pages();
                    let access = contents.access();
                    self.tables.begin_linear(views.first, count, access)?;
                }
                Lies::Pages(mapping) => {
                    let backing = mapping.backing();
                    let (pages, access) = (backing.dma_addresses(), Access::of(backing));
                    self.tables.set_each(views.first, pages, access);
                }
            }
            // Under the lock: another thread that finds the view submits jobs that flush.
            self.vm.note_change();
        }
        views.users = users;
        Ok(())
    }

    /// A view of `count` pages from `first` ends; says whether it was the last.
    fn end(&self, key: Key, first: usize, count: usize, held: &[Held]) -> bool {
        let mut places = self.places.lock();
        let Some(views) = places.views.get_mut(&key) else {
            return false;
        };
        views.users -= 1;
        if views.users > 0 {
            return false;
        }
        match first < FIRST_PAGE {
            true => self.tables.end_linear(first..first + count, held),
            false => self.tables.clear_each(first, count),
        }
        views.holds += 1;
        if let Key::At(_) = key {
            places.release(key, count);
        }
        true
    }

    /// Whether there are addresses for this many bytes of pages, if they are these tables' to give.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let longest = || self.places.lock().room.free.longest_free();
        !self.vm.tables.has_own_addresses() || bytes.div_ceil(PAGE_SIZE) <= longest()
    }

    /// GPU address of the first page of what lies so, if it has a view.
    pub(crate) fn address_of(&self, lies: &Lies<'_>) -> Option<u32> {
        let key = self.key(lies);
        let places = self.places.lock();
        let views = places.views.get(&key).filter(|views| views.users > 0);
        // CAST: less than 2^20 pages.
        views.map(|views| (views.first as u32) << PAGE_BITS)
    }
}

/// A process's hold of its tables. To be dropped when none of its jobs is under way.
pub(crate) struct Space {
    space: Arc<AddressSpace>,
    /// What its end needs. `None` only while being dropped.
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

/// An object in the tables of a process, until this is dropped. The object is kept until no core has a
/// translation of it.
pub(crate) struct GpuView {
    space: Arc<AddressSpace>,
    key: Key,
    /// It is at an address that only this process has for it.
    is_apart: bool,
    /// What its end needs. `None` only while being dropped.
    stale: Option<ListArc<Stale<Kept>>>,
}

impl GpuView {
    /// Has `space` lead to `object`, which lies so. `OutOfResources`: it has no such room.
    /// `OutOfMemory`.
    pub(crate) fn new<T: Send + Sync + 'static>(
        space: &Arc<AddressSpace>,
        lies: &Lies<'_>,
        object: Arc<T>,
    ) -> Result<Self> {
        let (key, (wanted, count)) = (space.key(lies), lies.pages());
        let kept = Kept::Object {
            _object: object,
            given: matches!(key, Key::Of(_)).then(|| Given {
                space: space.clone(),
                key,
            }),
        };
        let stale = Stale::new(0, count, kept)?;
        stale.place(space.begin(lies)?);
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

    /// A copy of what all tables have in common. `ENOMEM`.
    fn held(&self) -> Result<KVec<Held>, kernel::error::Error> {
        let count = self.state.lock().held.len();
        let mut held = KVec::with_capacity(count, GFP_CLIENT)?;
        // What does not fit any more is new to the caller.
        for one in self.state.lock().held.iter().take(count) {
            let _ = held.push_within_capacity(one.clone());
        }
        Ok(held)
    }

    /// The tables that have this id, if they are still there.
    pub(crate) fn space(&self, id: SpaceId) -> Option<Arc<AddressSpace>> {
        let state = self.state.lock();
        let mut spaces = state.spaces.iter().flatten();
        spaces.find(|space| space.id() == id).cloned()
    }

    /// Tables for one more process; `None`: processes have none. `ENOSPC`: the page table array has no
    /// free entry, or [`RESERVED`], and the caller is not the administrator. `ENOMEM`.
    pub(crate) fn new_space(self: &Arc<Self>) -> Result<Option<Space>, kernel::error::Error> {
        let Some(common) = self.tables.two_level.as_ref().filter(|_| self.has_spaces()) else {
            return Ok(None);
        };
        // Before the lock, which all processes take.
        let held = self.held()?;
        let tables = common.beside()?;
        held.iter().try_for_each(|held| tables.begin_held(held))?;
        let room = Room::new().map_err(|_| ENOMEM)?;
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
        let reserved = match sys::is_admin() {
            true => 0,
            false => RESERVED,
        };
        let mut state = self.state.lock();
        let spaces = state.spaces.iter().enumerate().skip(1);
        let mut free = spaces.filter(|(_, space)| space.is_none());
        let (entry, _) = free.nth(reserved).ok_or(ENOSPC)?;
        // What has changed meanwhile.
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
