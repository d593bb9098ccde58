// SPDX-License-Identifier: GPL-2.0-only

//! The address space that a device's cores share.
//!
//! Addresses with bit 31 set are pages of 4 KiB, scattered in memory, whatever the MMU: nodes of
//! pool VIRTUAL and user memory. Owns the MMU's tables and the state of those pages, which lies
//! beside the tables and not, as the C driver's, inside, where the GPU would read it.
//!
//! Addresses with bit 31 clear are physical, counted from a base. With MMU version 1 ([`flat`]) the
//! hardware makes them so, the base is `baseAddress`, and no client can be kept from any. With MMU
//! version 2 ([`two_level`]) every address is translated, the driver chooses the base, and only what
//! the GPU must reach there is mapped: the pool, permanently; contiguous buffers, and the rings, which
//! the GPU cannot write, while they live.
//!
//! # Address spaces
//!
//! With version 2 each process has tables of its own ([`AddressSpace`]), unless nodes are shared: its
//! memory is there by a [`GpuView`], and what the driver has for all (rings, which the GPU cannot write,
//! `allowedRanges`, framebuffers, scratch memory) in all of them. The ring loads the tables of the
//! process whose job comes. An address means the same memory in all tables as long as there are some
//! that no process has: clients hand them to each other. Beyond these 2 GiB a process has its own, and
//! other memory may be there for others; but not on a device of several cores, one of which may have
//! version 1.
//!
//! # Scratch
//!
//! The last 64 MiB of addresses all lead to one scratch page, whatever the MMU: states that hold no
//! address of the client's point there. They are mapped with version 2, too, where each access
//! would raise an exception otherwise: to clients a state that holds 0 is no mistake.
//!
//! # Stale translations
//!
//! A core keeps translations in its TLB until that is flushed, through its ring. So changes of the
//! tables are counted ([`Vm::changes`]): a core whose TLB has not been flushed past the newest
//! flushes it before its next job. Pages and addresses of an ended mapping are kept until every
//! core has been flushed past its end ([`Tlb`]); the reaper, a work item, frees them then, and
//! flushes the TLBs of cores that have no job. The address space does not know rings.
//!
//! Locks: `galcore mmu` guards the state and the making of tables; under it comes `galcore space`, which
//! guards the making of a process's tables. `galcore tlbs` guards the list of the cores; under it come
//! their own. Entries need no lock: only the owner of a page writes its entry. Source: sources.md, MMU.

mod flat;
mod mapping;
mod paged;
mod space;
mod stale;
mod two_level;

use crate::{
    addr::Range,
    error::{
        Error,
        Result, //
    },
    hw::MmuVersion,
    limits::MAX_CORES,
    ranges::Ranges,
    sys::{
        self,
        dma::{
            self,
            DmaBuffer, //
        },
        framebuffer::Framebuffer, //
    },
    wait::{
        self,
        Left, //
    }, //
};
use flat::Flat;
use kernel::{
    dma::DmaAddress,
    impl_has_work,
    list::ListArc,
    new_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        new_condvar,
        new_mutex,
        Arc,
        CondVar,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use space::Given;
use stale::{
    flushed_by_all,
    Stale,
    StaleList, //
};
use two_level::{
    Access,
    Held,
    TwoLevel, //
};

pub(crate) use {
    mapping::{
        LinearMapping,
        Mapping, //
    },
    paged::{
        Counter,
        Paged, //
    },
    space::{
        AddressSpace,
        GpuView,
        Lies,
        Space,
        SpaceId, //
    },
    stale::NO_TRANSLATIONS, //
};

/// Pages above bit 31: 2 GiB.
const PAGES: usize = 1 << 19;

/// Number of the first of them: a page's number is its GPU address without the last 12 bits.
const FIRST_PAGE: usize = 1 << 19;

/// Scratch memory is apart for each pipe of each core: what a process has drawn there by mistake is
/// cleared by the pipe that the next one uses.
const SCRATCH_PARTS: usize = 2 * MAX_CORES;

/// Pages of GPU addresses that lead to one page of scratch memory: 8 MiB, since an engine accesses
/// memory from the given address upwards.
const PART_PAGES: usize = 1 << 11;

// CAST: 8 MiB.
/// The same in bytes.
pub(crate) const SCRATCH_BYTES: u32 = (PART_PAGES as u32) << PAGE_BITS;

/// The last pages are never allocated: they lead to scratch memory.
const SCRATCH_PAGES: usize = SCRATCH_PARTS * PART_PAGES;

/// Those that can be given out.
const FREE_PAGES: usize = PAGES - SCRATCH_PAGES;

/// Number of the first scratch page.
const FIRST_SCRATCH_PAGE: usize = FIRST_PAGE + FREE_PAGES;

/// Binary logarithm of a page's bytes.
const PAGE_BITS: u32 = 12;

// An entry is written for each page of the kernel's.
const _: () = assert!(
    PAGE_SIZE == 1 << PAGE_BITS,
    "the driver wants a kernel with pages of 4 KiB"
);

/// Numbers of pages.
type Pages = core::ops::Range<usize>;

/// The tables of the MMU versions that the device's cores have.
struct Tables {
    flat: Option<Flat>,
    /// Those of no process. What they have, each process's have, too.
    two_level: Option<TwoLevel>,
    /// Each process has tables of its own of version 2.
    has_spaces: bool,
}

impl Tables {
    /// Lets the pages from `first` on lead to the physical `addresses`, in the tables that all
    /// processes share. Version 1 has no read-only pages.
    fn set(&self, first: usize, addresses: &[DmaAddress], access: Access) {
        if let Some(table) = &self.flat {
            table.set_wide(first, addresses.iter().map(|&it| sys::widen(it)));
        }
        if let Some(tables) = self.shared() {
            tables.set_each(first, addresses, access);
        }
    }

    /// Lets `count` pages from `first` lead nowhere there.
    fn clear(&self, first: usize, count: usize) {
        if let Some(table) = &self.flat {
            table.clear(first, count);
        }
        if let Some(tables) = self.shared() {
            tables.clear_each(first, count);
        }
    }

    /// Whether a process may have other addresses with bit 31 set than others for the same pages.
    fn has_own_addresses(&self) -> bool {
        self.has_spaces && self.flat.is_none()
    }

    /// Those of version 2 that have what clients have, if all share them.
    fn shared(&self) -> Option<&TwoLevel> {
        self.two_level.as_ref().filter(|_| !self.has_spaces)
    }

    fn bytes(&self) -> usize {
        self.flat.as_ref().map_or(0, Flat::bytes)
            + self.two_level.as_ref().map_or(0, TwoLevel::bytes)
    }
}

/// What contiguous memory holds, and so whether the GPU may write there. Every caller that maps
/// some must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// What the GPU executes, or the kernel trusts. An engine that could write there would run
    /// words that no check has seen: read-only, where the MMU can keep it so.
    Executed,
    /// Clients' data.
    Clients,
}

impl Contents {
    fn access(self) -> Access {
        match self {
            Self::Executed => Access::ReadOnly,
            Self::Clients => Access::ReadWrite,
        }
    }
}

/// What a mapping leads to, kept until no translation of it is left.
enum Kept {
    Pages {
        _pages: Arc<Paged>,
    },
    /// Contiguous memory. Only ever dropped.
    Memory {
        _memory: Arc<DmaBuffer>,
    },
    /// A framebuffer. Only ever dropped.
    Framebuffer {
        _file: Framebuffer,
    },
    /// What a process has had in its tables.
    Object {
        _object: Arc<dyn Send + Sync>,
        /// Its addresses, if the process's tables gave them out.
        given: Option<Given>,
    },
    /// A process's tables.
    Space {
        space: Arc<AddressSpace>,
    },
}

impl Kept {
    /// Whether others may have mapped the same memory.
    fn may_be_mapped_again(&self) -> bool {
        matches!(self, Self::Framebuffer { .. })
    }
}

/// The TLB of a core that works in an address space.
pub(crate) trait Tlb: Send + Sync {
    /// The change past which it has been flushed; [`NO_TRANSLATIONS`]: its core is off.
    fn flushed(&self) -> u64;

    /// Has it flushed past all changes that were made before this call, if the core can take a job
    /// now; if not, the end of one that is under way calls [`Vm::flushed`]. Waits for nothing.
    fn flush(self: Arc<Self>);
}

/// The state, locked.
type StateGuard<'a> = Guard<'a, State, MutexBackend>;

/// Addresses with bit 31 set, to give out.
struct Room {
    free: Ranges,
    /// Pages that are given out.
    used: usize,
}

impl Room {
    fn new() -> Result<Self> {
        Ok(Self {
            free: Ranges::new(FIRST_PAGE, FREE_PAGES)?,
            used: 0,
        })
    }

    /// Number of the first of `count` pages. `OutOfResources`: there is no such room, or no memory
    /// to note it.
    fn take(&mut self, count: usize) -> Result<usize> {
        let first = self.free.find(count, 1).ok_or(Error::OutOfResources)?;
        self.take_at(first, count)
    }

    /// The same; from page `wanted` on, if that is free.
    fn take_near(&mut self, wanted: Option<usize>, count: usize) -> Result<usize> {
        match wanted.filter(|&first| self.free.free_at(first) >= count) {
            Some(first) => self.take_at(first, count),
            None => self.take(count),
        }
    }

    fn take_at(&mut self, first: usize, count: usize) -> Result<usize> {
        self.free.reserve().map_err(|_| Error::OutOfResources)?;
        self.free.take(first, count);
        self.used += count;
        Ok(first)
    }

    /// Takes them back.
    fn give(&mut self, first: usize, count: usize) {
        self.used -= count;
        self.free.give(first, count);
    }
}

/// Which pages are in use.
struct State {
    /// What all tables have, or would have.
    room: Room,
    /// Below [`FIRST_PAGE`] what may have several mappings, which stay for as long as one does: what
    /// is mapped permanently, and each mapping of a framebuffer. If processes have tables of their
    /// own, all that these have in common.
    held: KVec<Held>,
    /// The processes' tables, by their entry in the page table array; none at 0, which is the
    /// device's. Empty if processes have none.
    spaces: KVec<Option<Arc<AddressSpace>>>,
    stale: StaleList<Kept>,
    /// How many mappings have been ended so far, and of how many the pages are free.
    ended: u64,
    freed: u64,
}

/// The GPU addresses of a device.
#[pin_data]
pub(crate) struct Vm {
    tables: Tables,
    /// Number of the newest change that a TLB may not know of.
    changes: Atomic<u64>,
    /// There are mappings that have ended and are not free.
    has_stale: Atomic<bool>,
    #[pin]
    state: Mutex<State>,
    #[pin]
    tlbs: Mutex<KVec<(usize, Arc<dyn Tlb>)>>,
    /// Pages have been freed.
    #[pin]
    reclaimed: CondVar,
    #[pin]
    reaper: Work<Vm>,
}

impl_has_work! {
    impl HasWork<Self> for Vm { self.reaper }
}

impl WorkItem for Vm {
    type Pointer = Arc<Vm>;

    fn run(this: Arc<Vm>) {
        this.reap();
    }
}

impl Vm {
    /// An address space in which nothing is mapped, with tables for MMUs of `versions`. Addresses with
    /// bit 31 clear count from physical address `base`. `is_shared`: by all processes, also where
    /// each could have tables of its own. `ENOMEM`: no memory below 4 GiB.
    pub(crate) fn new(
        dev: &dma::Device,
        versions: &[MmuVersion],
        base: u32,
        is_shared: bool,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let has_spaces = versions.contains(&MmuVersion::V2) && !is_shared;
        let mut tables = Tables {
            flat: None,
            two_level: None,
            has_spaces,
        };
        if versions.contains(&MmuVersion::V1) {
            // What is not in use leads to the scratch page.
            tables.flat = Some(Flat::new(dev)?);
        }
        if versions.contains(&MmuVersion::V2) {
            tables.two_level = Some(TwoLevel::new(dev, base)?);
        }
        let mut spaces = KVec::new();
        if has_spaces {
            spaces.reserve(two_level::ARRAY_ENTRIES, GFP_KERNEL)?;
            for _ in 0..two_level::ARRAY_ENTRIES {
                spaces.push(None, GFP_KERNEL)?;
            }
        }
        let room = Room::new().map_err(|_| ENOMEM)?;
        Arc::pin_init(
            pin_init!(Self {
                tables,
                changes: Atomic::new(0),
                has_stale: Atomic::new(false),
                state <- new_mutex!(State {
                    room,
                    held: KVec::new(),
                    spaces,
                    stale: StaleList::new(),
                    ended: 0,
                    freed: 0,
                }, "galcore mmu"),
                tlbs <- new_mutex!(KVec::new(), "galcore tlbs"),
                reclaimed <- new_condvar!("galcore mmu"),
                reaper <- new_work!("galcore reaper"),
            }),
            GFP_KERNEL,
        )
    }

    /// From now on core `core`, whose TLB is `tlb`, works in the address space. `ENOMEM`.
    pub(crate) fn attach(
        &self,
        core: usize,
        tlb: Arc<dyn Tlb>,
    ) -> Result<(), kernel::error::Error> {
        Ok(self.tlbs.lock().push((core, tlb), GFP_KERNEL)?)
    }

    /// Core `core` does not work in it any more: frees what it alone could still hold.
    pub(crate) fn detach(&self, core: usize) {
        let mut tlbs = self.tlbs.lock();
        let place = tlbs.iter().position(|(other, _)| *other == core);
        let tlb = place.and_then(|place| tlbs.remove(place).ok());
        drop(tlbs);
        drop(tlb);
        self.reap();
    }

    /// The number of the newest change: a TLB that is flushed by a job which was submitted after
    /// this was asked has been flushed past it.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// The tables have changed.
    fn note_change(&self) -> u64 {
        // The tables must be in memory when a flush comes.
        sys::barrier::write();
        self.changes.fetch_add(1, Release) + 1
    }

    /// A TLB may have been flushed: what no TLB can hold any more is freed soon. Takes no lock.
    /// What [`Tlb::flushed`] answers must have changed before, in full order: the reaper looks at
    /// it after what this looks at.
    pub(crate) fn flushed(self: &Arc<Self>) {
        if self.has_stale.load(Relaxed) {
            self.queue_reaper();
        }
    }

    /// Whether a core whose MMU is of `version` can work in it.
    pub(crate) fn has_tables_of(&self, version: MmuVersion) -> bool {
        match version {
            MmuVersion::V1 => self.tables.flat.is_some(),
            MmuVersion::V2 => self.tables.two_level.is_some(),
        }
    }

    /// Physical address of MMU version 1's table, for the page-table registers.
    pub(crate) fn flat_table(&self) -> Option<u32> {
        self.tables.flat.as_ref().map(Flat::address)
    }

    /// GPU address of scratch memory of the second or first pipe of core `core`: reads return nothing
    /// useful, and writes do no harm.
    pub(crate) fn scratch_address(&self, core: usize, is_second: bool) -> u32 {
        let part = (2 * core + usize::from(is_second)) % SCRATCH_PARTS;
        // CAST: less than 2^20 pages.
        ((FIRST_SCRATCH_PAGE + part * PART_PAGES) as u32) << PAGE_BITS
    }

    /// Physical addresses of such memory, with MMU version 1.
    pub(crate) fn physical_scratch(&self) -> Option<Range> {
        self.tables.flat.as_ref().and_then(Flat::scratch)
    }

    /// Physical addresses of MMU version 2's first level, of its safe bytes, and of the page table array
    /// for cores with a secure MMU.
    pub(crate) fn two_level_table(&self) -> Option<[u32; 3]> {
        let tables = self.tables.two_level.as_ref()?;
        Some([
            tables.address(),
            tables.safe_address(),
            tables.array_address(),
        ])
    }

    /// Lets the GPU read and write `bytes` of clients' at its address `address`, below bit 31, as
    /// physical memory: their pages, for as long as the address space lives. `ENOMEM`: no memory
    /// for the tables.
    pub(crate) fn map_for_good(
        &self,
        address: u32,
        bytes: usize,
    ) -> Result<(), kernel::error::Error> {
        let Some(tables) = &self.tables.two_level else {
            // It does already.
            return Ok(());
        };
        let (first, count) = pages(address, bytes);
        let mut state = self.state.lock();
        tables.map_linear(first, count)?;
        let held = Held {
            pages: first..first + count,
            access: Access::ReadWrite,
            is_permanent: true,
        };
        // Before any process has tables.
        state.held.push(held, GFP_KERNEL)?;
        drop(state);
        self.note_change();
        Ok(())
    }

    /// Lets the GPU reach `memory`, whose address is `address`, below bit 31, as physical memory,
    /// until what is returned is dropped; with MMU version 1 it does already, and may write there,
    /// whatever the `contents`. `OutOfResources`: no memory for the tables, or to note it.
    pub(crate) fn map_linear(
        self: &Arc<Self>,
        memory: &Arc<DmaBuffer>,
        address: u32,
        contents: Contents,
    ) -> Result<Option<LinearMapping>> {
        let kept = || Kept::Memory {
            _memory: memory.clone(),
        };
        self.map_piece(address, memory.size(), contents, kept)
    }

    /// The same for clients' memory of another driver's, at `range`, which is kept until no
    /// translation of it is left.
    pub(crate) fn map_framebuffer(
        self: &Arc<Self>,
        framebuffer: &Framebuffer,
        range: Range,
    ) -> Result<Option<LinearMapping>> {
        let kept = || Kept::Framebuffer {
            _file: framebuffer.again(),
        };
        self.map_piece(range.start(), range.bytes(), Contents::Clients, kept)
    }

    fn map_piece(
        self: &Arc<Self>,
        address: u32,
        bytes: usize,
        contents: Contents,
        kept: impl FnOnce() -> Kept,
    ) -> Result<Option<LinearMapping>> {
        let Some(tables) = &self.tables.two_level else {
            return Ok(None);
        };
        let (first, count) = pages(address, bytes);
        let stale = Stale::new(first, count, kept()).map_err(|_| Error::OutOfResources)?;
        let access = contents.access();
        let mut state = self.state.lock();
        let is_held = self.tables.has_spaces || stale.kept.may_be_mapped_again();
        // What is reserved is taken, below.
        state
            .held
            .reserve(usize::from(is_held), GFP_KERNEL)
            .map_err(|_| Error::OutOfResources)?;
        let mut begin = tables.begin_linear(first, count, access);
        for space in state.spaces.iter().flatten() {
            begin = begin.and_then(|()| space.begin_common(first, count, access));
        }
        let pages = first..first + count;
        if begin.is_err() {
            // Some tables have led there, and a TLB may know it.
            self.end_common(&state, pages);
            self.retire(state, stale);
            return Err(Error::OutOfResources);
        }
        if is_held {
            let is_permanent = false;
            let _ = state.held.push_within_capacity(Held {
                pages,
                access,
                is_permanent,
            });
        }
        drop(state);
        self.note_change();
        Ok(Some(LinearMapping::new(self, stale)))
    }

    /// Lets linear `pages` lead nowhere in all tables, but those that are held.
    fn end_common(&self, state: &State, pages: Pages) {
        if let Some(tables) = &self.tables.two_level {
            tables.end_linear(pages.clone(), &state.held);
        }
        for space in state.spaces.iter().flatten() {
            space.end_common(pages.clone(), &state.held);
        }
    }

    /// Entries in all, and entries in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (FREE_PAGES, self.state.lock().room.used)
    }

    /// How many mappings have been ended whose pages are not free yet.
    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        // CAST: each of them takes memory.
        (state.ended - state.freed) as usize
    }

    /// Bytes of the longest free piece that a mapping could have.
    pub(crate) fn longest_free(&self) -> usize {
        match self.tables.has_own_addresses() {
            true => FREE_PAGES * PAGE_SIZE,
            false => self.state.lock().room.free.longest_free() * PAGE_SIZE,
        }
    }

    /// Bytes of the tables for MMUs of `version`, as [`Vm::copy_tables`] has them.
    pub(crate) fn table_bytes(&self, version: MmuVersion, space: Option<&AddressSpace>) -> usize {
        match version {
            MmuVersion::V1 => self.tables.flat.as_ref().map_or(0, Flat::table_bytes),
            MmuVersion::V2 => self.two_level_of(space).map_or(0, TwoLevel::table_bytes),
        }
    }

    /// Copies the tables for MMUs of `version` to `copy`, those of `space`, if that is a process's. They
    /// never move, but their entries change meanwhile.
    pub(crate) fn copy_tables(
        &self,
        version: MmuVersion,
        space: Option<&AddressSpace>,
        copy: &mut [u8],
    ) -> Result<(), kernel::error::Error> {
        match version {
            MmuVersion::V1 => self.tables.flat.as_ref().map_or(Ok(()), |it| it.copy(copy)),
            MmuVersion::V2 => self.two_level_of(space).map_or(Ok(()), |it| it.copy(copy)),
        }
    }

    fn two_level_of<'a>(&'a self, space: Option<&'a AddressSpace>) -> Option<&'a TwoLevel> {
        match space {
            Some(space) => Some(space.tables()),
            None => self.tables.two_level.as_ref(),
        }
    }

    /// Bytes of memory that the tables take.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.bytes()
    }

    /// Whether pages can be kept from being written.
    pub(crate) fn has_read_only_pages(&self) -> bool {
        self.tables.two_level.is_some() && self.tables.flat.is_none()
    }

    /// Maps pages at consecutive addresses; those that are not writeable only if
    /// [`Vm::has_read_only_pages`]. Where processes have tables of their own, these lead there by a
    /// [`GpuView`], which may have addresses of its own. `OutOfResources`: no such room, or no memory
    /// to note it.
    pub(crate) fn map(self: &Arc<Self>, backing: Arc<Paged>) -> Result<Mapping> {
        let count = backing.dma_addresses().len();
        let access = Access::of(&backing);
        let kept = Kept::Pages {
            _pages: backing.clone(),
        };
        // Before the lock, which all processes take: one at its cgroup's limit may take long.
        let stale = Stale::new(0, count, kept).map_err(|_| Error::OutOfResources)?;
        let mut state = self.state.lock();
        let first = match state.room.take(count) {
            Err(_) if self.tables.has_own_addresses() => return Ok(Mapping::of_views(backing)),
            first => first?,
        };
        stale.place(first);
        if let Some(tables) = self.tables.shared() {
            if tables.prepare(first, count).is_err() {
                state.room.give(first, count);
                return Err(Error::OutOfResources);
            }
        }
        drop(state);
        self.tables.set(first, backing.dma_addresses(), access);
        self.note_change();
        Ok(Mapping::new(self, backing, stale))
    }

    /// Ends a mapping; its pages wait for the flush.
    fn unmap(self: &Arc<Self>, stale: ListArc<Stale<Kept>>) {
        let (first, count) = (stale.first(), stale.count);
        let is_linear = first < FIRST_PAGE;
        if !is_linear {
            self.tables.clear(first, count);
        }
        let mut state = self.state.lock();
        if !is_linear && self.tables.has_own_addresses() {
            // The views of it have ended, and no TLB has any translation.
            state.room.give(first, count);
            return;
        }
        if is_linear {
            let pages = first..first + count;
            if self.tables.has_spaces || stale.kept.may_be_mapped_again() {
                let is_it = |held: &Held| held.pages == pages && !held.is_permanent;
                let place = state.held.iter().position(is_it);
                let _ = place.map(|place| state.held.remove(place));
            }
            self.end_common(&state, pages);
        }
        self.retire(state, stale);
    }

    /// What no table has any more waits for the flush.
    fn retire(self: &Arc<Self>, mut state: StateGuard<'_>, stale: ListArc<Stale<Kept>>) {
        // Under the lock, so that the list is in the order of the changes.
        let change = self.note_change();
        state.stale.push(stale, change);
        state.ended += 1;
        self.has_stale.store(true, Relaxed);
        drop(state);
        self.queue_reaper();
    }

    /// Waits until what has been unmapped so far is free; gives up when nothing becomes free.
    /// `Interrupted`: a Unix signal came. Not for the work queue.
    pub(crate) fn wait_for_reclaim(&self) -> Result {
        self.wait_for_stale()?;
        match self.tables.has_spaces && self.tables.flat.is_some() {
            // The end of a view ends a mapping, which version 1 has seen.
            true => self.wait_for_stale(),
            false => Ok(()),
        }
    }

    fn wait_for_stale(&self) -> Result {
        let mut state = self.state.lock();
        let wanted = state.ended;
        let limit = (wait::TIMEOUT, true);
        let waited = wait::while_moving(&self.reclaimed, &mut state, limit, |state| {
            Ok(match state.freed < wanted {
                true => Left::Something(state.freed),
                false => Left::Nothing,
            })
        });
        match waited {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    fn queue_reaper(self: &Arc<Self>) {
        sys::work::enqueue(self.clone());
    }

    /// Frees what no TLB can hold any more, and has those flushed that may hold the rest.
    fn reap(&self) {
        let flushed = {
            // Before the cores are looked at: of what ends later, one that is started meanwhile may
            // hold translations.
            let newest = self.changes();
            let tlbs = self.tlbs.lock();
            flushed_by_all(newest, tlbs.iter().map(|(_, tlb)| tlb.flushed()))
        };
        loop {
            let mut state = self.state.lock();
            let Some(stale) = state.stale.pop(flushed) else {
                self.has_stale.store(!state.stale.is_empty(), Relaxed);
                if state.stale.is_empty() {
                    return;
                }
                break;
            };
            let (mut space, mut addresses) = (None, None);
            match &stale.kept {
                Kept::Pages { .. } => state.room.give(stale.first(), stale.count),
                Kept::Object { given, .. } => addresses = given.as_ref(),
                Kept::Space { space: over } => {
                    space = state.spaces.get_mut(over.entry()).and_then(Option::take);
                }
                // They have their addresses from what they are.
                Kept::Memory { .. } | Kept::Framebuffer { .. } => {}
            }
            drop(state);
            drop(space);
            let _ = addresses.map(|given| given.give(stale.count));
            // Its pages may be many.
            drop(stale);
            self.state.lock().freed += 1;
            self.reclaimed.notify_all();
            sys::yield_if_due();
        }
        for (_, tlb) in self.tlbs.lock().iter() {
            tlb.clone().flush();
        }
    }
}

/// Number of the first page, and of pages, of `bytes` at `address`, below bit 31 all of them.
fn pages(address: u32, bytes: usize) -> (usize, usize) {
    // CAST: 32 bits into at least 32.
    let address = address as usize;
    let first = address / PAGE_SIZE;
    (first, (address + bytes).div_ceil(PAGE_SIZE) - first)
}
