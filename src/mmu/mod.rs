// SPDX-License-Identifier: GPL-2.0-only

//! The GPU addresses of a device, which all of its cores share.
//!
//! With both MMU versions, addresses with bit 31 set lead to pages of 4 KiB, scattered in memory:
//! nodes of pool VIRTUAL and user memory. This module owns the MMU's tables and the state of those
//! pages. The tables cannot hold it: a page stays in use after its entries are cleared, until no
//! TLB holds them.
//!
//! Addresses with bit 31 clear are physical addresses minus a base. With MMU version 1 ([`flat`])
//! the hardware defines them: the base is `baseAddress`, and clients can reach all of them. MMU
//! version 2 ([`two_level`]) translates every address. The driver chooses the base, and maps only
//! what the GPU must reach. If processes share the tables or the pool, the pool is always mapped.
//!
//! # Address spaces
//!
//! With version 2 each process has tables of its own ([`AddressSpace`]), unless `sharedNodes` is 1
//! or the first core has both 3D and 2D. They map the process's memory ([`GpuView`]), and what the
//! driver maps for all processes: rings (read-only), `allowedRanges`, framebuffers, scratch memory.
//! The ring loads the tables of a job's process. Clients exchange addresses, so at first an
//! address means the same memory in all tables. When the 2 GiB are full, each process's tables
//! choose the addresses of new mappings. A device of several cores refuses these mappings instead,
//! because one of the cores may have version 1.
//!
//! # Scratch
//!
//! The last 64 MiB of addresses lead to scratch pages. The driver loads such an address into each
//! address state for which the client has no valid address, for example one that it loads with 0.
//! Tables of version 2 map these pages, too: accesses to unmapped addresses raise exceptions.
//!
//! Locks: `galcore mmu` guards the state and the device's tables. `galcore space`, also taken under
//! it, guards a process's views, their addresses and its second-level tables. `galcore tlbs` guards
//! the list of the TLBs. The cores' own locks are taken after it. Entries need no lock: only the
//! owner of a page writes its entry. Source: sources.md, MMU.

mod flat;
mod mapping;
mod reaper;
mod space;
mod stale;
mod two_level;

use crate::{
    addr::Range,
    hw::MmuVersion,
    prelude::*,
    sys::{
        dma::{
            self,
            DmaBuffer, //
        },
        framebuffer::Framebuffer, //
    }, //
};
use flat::Flat;
use kernel::{
    dma::DmaAddress,
    new_work,
    sync::lock::{
        mutex::MutexBackend,
        Guard, //
    },
    workqueue::Work, //
};
use mapping::HighPages;
use space::Given;
use stale::{
    Stale,
    StaleList, //
};
use two_level::{
    Access,
    Held,
    TwoLevel, //
};

pub(crate) use mapping::{
    Counter,
    Mapped,
    Mapping,
    Paged, //
};
pub(crate) use reaper::Tlb;
pub(crate) use space::{
    AddressSpace,
    Extent,
    GpuView,
    Space,
    SpaceId, //
};
pub(crate) use stale::NO_TRANSLATIONS;

/// Pages whose addresses have bit 31 set: 2 GiB.
const PAGES: usize = 1 << 19;

/// Number of the first of these pages. A page's number is its GPU address >> 12.
const FIRST_PAGE: usize = 1 << 19;

/// Parts of scratch memory. Each pipe of each core has its own part, and clears it before another
/// process's commands, because the last process may have drawn there by mistake.
const SCRATCH_PARTS: usize = 2 * MAX_CORES;

/// Pages of GPU addresses that lead to one scratch page: 8 MiB, because an engine accesses memory
/// upwards from an address.
const PART_PAGES: usize = 1 << 11;

// CAST: 8 MiB.
/// The size of a part in bytes.
pub(crate) const SCRATCH_BYTES: u32 = (PART_PAGES as u32) << PAGE_BITS;

/// The last pages lead to scratch memory and are never allocated.
const SCRATCH_PAGES: usize = SCRATCH_PARTS * PART_PAGES;

const FREE_PAGES: usize = PAGES - SCRATCH_PAGES;

const FIRST_SCRATCH_PAGE: usize = FIRST_PAGE + FREE_PAGES;

const PAGE_BITS: u32 = 12;

// The driver writes one entry for each kernel page.
const _: () = assert!(
    PAGE_SIZE == 1 << PAGE_BITS,
    "the driver needs a kernel with pages of 4 KiB"
);

/// A range of page numbers.
type Pages = core::ops::Range<usize>;

/// Tables for the MMU versions of the device's cores.
struct Tables {
    flat: Option<Flat>,
    /// The tables of the device. Each process's tables also map what these map.
    two_level: Option<TwoLevel>,
    /// Each process has its own tables of version 2.
    has_spaces: bool,
}

impl Tables {
    /// Maps the pages from `first` on to the physical `addresses`, in the tables that all processes
    /// share. Version 1 has no read-only pages.
    fn set(&self, first: usize, addresses: &[DmaAddress], access: Access) {
        if let Some(table) = &self.flat {
            table.set_wide(first, addresses.iter().map(|&it| sys::widen(it)));
        }
        if let Some(tables) = self.shared() {
            tables.set_each(first, addresses, access);
        }
    }

    /// Unmaps `count` pages from `first` on, in the tables that all processes share.
    fn clear(&self, first: usize, count: usize) {
        if let Some(table) = &self.flat {
            table.clear(first, count);
        }
        if let Some(tables) = self.shared() {
            tables.clear_each(first, count);
        }
    }

    /// Whether processes may have the same pages at different addresses with bit 31 set.
    fn has_own_addresses(&self) -> bool {
        self.has_spaces && self.flat.is_none()
    }

    /// The tables of version 2 that map clients' memory, if all processes share them.
    fn shared(&self) -> Option<&TwoLevel> {
        self.two_level.as_ref().filter(|_| !self.has_spaces)
    }

    fn bytes(&self) -> usize {
        self.flat.as_ref().map_or(0, Flat::bytes)
            + self.two_level.as_ref().map_or(0, TwoLevel::bytes)
    }
}

/// The contents of contiguous memory, which decide whether the GPU may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Words that the GPU executes, or that the kernel trusts. Mapped read-only if the MMU supports
    /// it: otherwise an engine could write unchecked words that the GPU then runs.
    Executed,
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

/// The target of a mapping, kept until no TLB has a translation of it.
enum Kept {
    Pages {
        _pages: Arc<Paged>,
    },
    Memory {
        _memory: Arc<DmaBuffer>,
    },
    Framebuffer {
        _file: Framebuffer,
    },
    /// An object that a process's tables have mapped.
    Object {
        _object: Arc<dyn Send + Sync>,
        /// Its addresses, if the process's tables allocated them.
        given: Option<Given>,
    },
    Space {
        space: Arc<AddressSpace>,
    },
}

impl Kept {
    /// Whether another mapping may map the same memory.
    fn may_be_mapped_again(&self) -> bool {
        matches!(self, Self::Framebuffer { .. })
    }
}

type StateGuard<'a> = Guard<'a, State, MutexBackend>;

/// The pages in use, and the mappings that have ended.
struct State {
    /// Addresses common to all tables: tables that map such an address map the same page.
    room: HighPages,
    /// Mappings below [`FIRST_PAGE`] that may share pages. A page stays mapped while one of them
    /// lives. They are the permanent mappings and those of framebuffers. If processes have tables,
    /// they are all linear mappings that are common to these tables.
    held: KVec<Held>,
    /// The processes' tables, by entry in the page table array; entry 0 is the device's. Empty if
    /// processes have none.
    spaces: KVec<Option<Arc<AddressSpace>>>,
    stale: StaleList<Kept>,
    /// How many mappings have ended, and how many of these are freed.
    ended: u64,
    freed: u64,
}

/// The GPU addresses of a device.
#[pin_data]
pub(crate) struct Vm {
    tables: Tables,
    /// Number of the newest change.
    changes: Atomic<u64>,
    /// `State::stale` is not empty.
    has_stale: Atomic<bool>,
    #[pin]
    state: Mutex<State>,
    #[pin]
    tlbs: Mutex<KVec<(usize, Arc<dyn Tlb>)>>,
    /// Notified when an ended mapping is freed.
    #[pin]
    reclaimed: CondVar,
    #[pin]
    reaper: Work<Vm>,
}

impl Vm {
    /// An address space without mappings, with tables for MMUs of `versions`. Addresses with bit 31
    /// clear count from physical address `base`. `is_shared`: processes have no tables of their
    /// own. `ENOMEM`: no memory below 4 GiB.
    pub(crate) fn new(
        dev: &dma::Device,
        versions: &[MmuVersion],
        base: u32,
        is_shared: bool,
    ) -> Result<Arc<Self>, Errno> {
        let has_spaces = versions.contains(&MmuVersion::V2) && !is_shared;
        let has = |version| versions.contains(&version);
        let tables = Tables {
            // Unused entries lead to the scratch page.
            flat: has(MmuVersion::V1).then(|| Flat::new(dev)).transpose()?,
            two_level: has(MmuVersion::V2)
                .then(|| TwoLevel::new(dev, base))
                .transpose()?,
            has_spaces,
        };
        let count = usize::from(has_spaces) * two_level::ARRAY_ENTRIES;
        let spaces = KVec::from_elem(None, count, GFP_KERNEL)?;
        let room = HighPages::new().map_err(|_| ENOMEM)?;
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

    /// Whether a core with an MMU of `version` can use this address space.
    pub(crate) fn has_tables_of(&self, version: MmuVersion) -> bool {
        match version {
            MmuVersion::V1 => self.tables.flat.is_some(),
            MmuVersion::V2 => self.tables.two_level.is_some(),
        }
    }

    /// Physical address of MMU version 1's table.
    pub(crate) fn flat_table(&self) -> Option<u32> {
        self.tables.flat.as_ref().map(Flat::address)
    }

    /// GPU address of the scratch memory of the first or second pipe of core `core`.
    pub(crate) fn scratch_address(&self, core: usize, is_second: bool) -> u32 {
        let part = (2 * core + usize::from(is_second)) % SCRATCH_PARTS;
        // CAST: less than 2^20 pages.
        ((FIRST_SCRATCH_PAGE + part * PART_PAGES) as u32) << PAGE_BITS
    }

    /// Physical addresses of scratch memory, with MMU version 1.
    pub(crate) fn physical_scratch(&self) -> Option<Range> {
        self.tables.flat.as_ref().and_then(Flat::scratch)
    }

    /// Physical addresses of MMU version 2's first level, its safe bytes, and the page table array
    /// of a secure MMU.
    pub(crate) fn two_level_table(&self) -> Option<[u32; 3]> {
        let tables = self.tables.two_level.as_ref()?;
        Some([
            tables.address(),
            tables.safe_address(),
            tables.array_address(),
        ])
    }

    /// Permanently maps `bytes` of clients' memory at `address`, which has bit 31 clear, for
    /// reading and writing. `ENOMEM`: no memory for the tables.
    pub(crate) fn map_permanently(&self, address: u32, bytes: usize) -> Result<(), Errno> {
        let Some(tables) = &self.tables.two_level else {
            // With version 1 the GPU reaches them anyway.
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
        // No process has tables yet.
        state.held.push(held, GFP_KERNEL)?;
        drop(state);
        self.note_change();
        Ok(())
    }

    /// Maps `memory` at `address`, which has bit 31 clear, until the result is dropped. A core with
    /// MMU version 1 reaches the memory without a mapping, and can write it whatever its
    /// `contents`. `OutOfResources`: no memory for the tables, or for the record.
    pub(crate) fn map_linear(
        self: &Arc<Self>,
        memory: &Arc<DmaBuffer>,
        address: u32,
        contents: Contents,
    ) -> Result<Option<Mapped>> {
        let kept = || Kept::Memory {
            _memory: memory.clone(),
        };
        self.map_piece(address, memory.size(), contents, kept)
    }

    /// As [`Vm::map_linear`], for another driver's memory at `range`, which clients may write. It
    /// is kept until no TLB has a translation of it.
    pub(crate) fn map_framebuffer(
        self: &Arc<Self>,
        framebuffer: &Framebuffer,
        range: Range,
    ) -> Result<Option<Mapped>> {
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
    ) -> Result<Option<Mapped>> {
        let Some(tables) = &self.tables.two_level else {
            return Ok(None);
        };
        let (first, count) = pages(address, bytes);
        let stale = Stale::new(first, count, kept()).map_err(|_| Error::OutOfResources)?;
        let access = contents.access();
        let mut state = self.state.lock();
        let is_held = self.tables.has_spaces || stale.kept.may_be_mapped_again();
        // So that the push below cannot fail.
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
            // Some tables may have mapped it, so a TLB may have a translation.
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
        Ok(Some(Mapped::new(self, stale)))
    }

    /// Unmaps linear `pages` in all tables, except those that are held.
    fn end_common(&self, state: &State, pages: Pages) {
        if let Some(tables) = &self.tables.two_level {
            tables.end_linear(pages.clone(), &state.held);
        }
        for space in state.spaces.iter().flatten() {
            space.end_common(pages.clone(), &state.held);
        }
    }

    /// The number of pages that mappings can use in all, and of those that they use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (FREE_PAGES, self.state.lock().room.used)
    }

    /// Bytes of the longest free range that a mapping could have.
    pub(crate) fn longest_free(&self) -> usize {
        if self.tables.has_own_addresses() {
            FREE_PAGES * PAGE_SIZE
        } else {
            self.state.lock().room.free.longest_free() * PAGE_SIZE
        }
    }

    /// Bytes that [`Vm::copy_tables`] copies for MMUs of `version`.
    pub(crate) fn table_bytes(&self, version: MmuVersion, space: Option<&AddressSpace>) -> usize {
        match version {
            MmuVersion::V1 => self.tables.flat.as_ref().map_or(0, Flat::table_bytes),
            MmuVersion::V2 => self.two_level_of(space).map_or(0, TwoLevel::table_bytes),
        }
    }

    /// Copies the tables for MMUs of `version`, or those of `space`, to `copy`. Tables never move,
    /// but their entries may change meanwhile.
    pub(crate) fn copy_tables(
        &self,
        version: MmuVersion,
        space: Option<&AddressSpace>,
        copy: &mut [u8],
    ) -> Result<(), Errno> {
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

    /// Bytes of memory that the device's tables take.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.bytes()
    }

    /// Whether the MMUs of all cores support read-only pages.
    pub(crate) fn has_read_only_pages(&self) -> bool {
        self.tables.two_level.is_some() && self.tables.flat.is_none()
    }

    /// Maps pages at consecutive addresses. Read-only pages need [`Vm::has_read_only_pages`]. If
    /// processes have tables of their own, a [`GpuView`] maps the pages in these, perhaps at other
    /// addresses. `OutOfResources`: no free range, or no memory.
    pub(crate) fn map(self: &Arc<Self>, backing: Arc<Paged>) -> Result<Mapping> {
        let count = backing.pages().dma_addresses().len();
        let access = Access::of(&backing);
        let kept = Kept::Pages {
            _pages: backing.clone(),
        };
        // Allocated before the lock, which all processes take: a cgroup's limit may delay it.
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
        self.tables
            .set(first, backing.pages().dma_addresses(), access);
        self.note_change();
        Ok(Mapping::new(self, backing, stale))
    }

    /// Ends a mapping. Its pages are kept until the TLBs have been flushed.
    fn unmap(self: &Arc<Self>, stale: ListArc<Stale<Kept>>) {
        let (first, count) = (stale.first(), stale.count);
        let is_linear = first < FIRST_PAGE;
        if !is_linear {
            self.tables.clear(first, count);
        }
        let mut state = self.state.lock();
        if !is_linear && self.tables.has_own_addresses() {
            // The views of these pages have ended, and no TLB has a translation.
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
}

/// Number of the first page, and number of pages, of `bytes` at `address`, which has bit 31 clear.
fn pages(address: u32, bytes: usize) -> (usize, usize) {
    let address = u32_as_usize(address);
    let first = address / PAGE_SIZE;
    (first, (address + bytes).div_ceil(PAGE_SIZE) - first)
}
