// SPDX-License-Identifier: GPL-2.0-only

//! The GPU's address space.
//!
//! Addresses with bit 31 set are pages of 4 KiB, scattered in memory, whatever the MMU: nodes of pool
//! VIRTUAL and user memory. Owns the MMU's tables and the book of those pages, which lies beside the
//! tables and not, as the C driver's, inside, where the GPU would read it.
//!
//! Addresses with bit 31 clear are physical. With MMU version 1 ([`flat`]) the hardware makes them so,
//! counted from `baseAddress`, and nobody can keep a client from any. With MMU version 2
//! ([`two_level`]) every address is translated: what the GPU is to reach there is mapped to its own
//! address, and nothing else: the pool, for good; contiguous buffers, while they live; the ring, which
//! the GPU cannot write.
//!
//! # Scratch
//!
//! The last 64 MiB of addresses all lead to one page that nobody has, whatever the MMU: there states lead
//! that hold no address of the client's. Not left unmapped with version 2, where each access would
//! raise an exception: to clients a state that holds 0 is no mistake.
//!
//! # Stale translations
//!
//! The GPU keeps translations until its TLB is flushed, through the ring. A change of the table asks
//! the ring for a flush in its next submission. Pages and addresses of an ended mapping are kept
//! until a submission behind that flush has ended; the reaper, a work item, makes one if nobody else
//! does.
//!
//! Lock: `galcore mmu` guards the book and the making of tables; the ring's is never taken under it.
//! Entries are written by whoever has their pages. Source: spec/memory-events.md section 5.

mod flat;
mod two_level;

use crate::{
    client::action::{
        Action,
        Actions, //
    },
    error::{
        Error,
        Result, //
    },
    hw::MmuVersion,
    memory::{
        ranges::Ranges,
        Paged, //
    },
    ring::{
        Ring,
        GPU_TIMEOUT, //
    },
    sys::{
        self,
        dma::DmaBuffer, //
    }, //
};
use flat::Flat;
use kernel::{
    device, impl_has_delayed_work, new_delayed_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        new_condvar,
        new_mutex,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        DelayedWork,
        WorkItem, //
    },
};
use two_level::TwoLevel;

pub(crate) use two_level::Access;

/// Pages above bit 31: 2 GiB.
const PAGES: usize = 1 << 19;

/// Number of the first of them: a page's number is its GPU address without the last 12 bits.
const FIRST_PAGE: usize = 1 << 19;

/// The last of them are never given out: all lead to one page that is nobody's. 64 MiB, for an engine
/// walks on from the address that it is given.
const SCRATCH_PAGES: usize = 1 << 14;

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

/// The MMU's tables.
enum Tables {
    Flat(Flat),
    TwoLevel(TwoLevel),
}

impl Tables {
    /// Makes what `count` pages from `first` need. One caller at a time.
    fn prepare(&self, first: usize, count: usize) -> Result {
        match self {
            Tables::Flat(_) => Ok(()),
            Tables::TwoLevel(tables) => Ok(tables.prepare(first, count)?),
        }
    }

    /// Lets a page lead to physical address `address`. Version 1 has no read-only pages.
    fn set(&self, page: usize, address: u32, access: Access) {
        match self {
            Tables::Flat(table) => table.set(page, address),
            Tables::TwoLevel(tables) => tables.set(page, address, access),
        }
    }

    fn clear(&self, page: usize) {
        match self {
            Tables::Flat(table) => table.clear(page),
            Tables::TwoLevel(tables) => tables.clear(page),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Tables::Flat(table) => table.bytes(),
            Tables::TwoLevel(tables) => tables.bytes(),
        }
    }
}

/// What lies behind a mapping, kept until no translation of it is left.
#[expect(dead_code, reason = "what is kept is only ever dropped")]
enum Kept {
    Pages(Arc<Paged>),
    Memory(Arc<DmaBuffer>),
}

/// Mappings that the reaper ends with one submission.
const REAPED_AT_ONCE: usize = 64;

/// When the reaper tries again after the ring took nothing, in milliseconds.
const RETRY: u32 = 1000;

/// An ended mapping that the GPU may still have in its TLB.
pub(crate) struct Stale {
    first: usize,
    count: usize,
    _kept: Kept,
}

/// Which pages are in use.
struct Book {
    free: Ranges,
    used: usize,
    mappings: usize,
    /// Has room for every live mapping, so that ending one needs no memory.
    stale: KVVec<Stale>,
    /// No translation of them is left; their pages are to be freed. Has as much room.
    settled: KVVec<Stale>,
    /// How many mappings have been ended so far, and of how many the pages are free.
    ended: u64,
    freed: u64,
}

impl Book {
    /// Makes room for one more mapping to be ended.
    fn admit(&mut self) -> Result {
        // Mappings that live, and those that wait for their flush.
        let room = self.mappings + 1 - self.stale.len().min(self.mappings);
        self.stale
            .reserve(room, GFP_KERNEL)
            .map_err(|_| Error::OutOfResources)?;
        let room = self.mappings + 1 - self.settled.len().min(self.mappings);
        self.settled
            .reserve(room, GFP_KERNEL)
            .map_err(|_| Error::OutOfResources)
    }
}

/// The address space of one core.
#[pin_data]
pub(crate) struct AddressSpace {
    tables: Tables,
    ring: Arc<Ring>,
    #[pin]
    book: Mutex<Book>,
    /// Pages have been freed.
    #[pin]
    settled: CondVar,
    #[pin]
    reaper: DelayedWork<AddressSpace>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for AddressSpace { self.reaper }
}

impl AddressSpace {
    /// An address space in which nothing is mapped but, where it must be, the ring. `ENOMEM`: no memory
    /// below 4 GiB.
    pub(crate) fn new(
        dev: &device::Device,
        ring: Arc<Ring>,
        version: MmuVersion,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let tables = match version {
            // What is not in use leads there.
            MmuVersion::V1 => Tables::Flat(Flat::new(dev)?),
            MmuVersion::V2 => {
                let tables = TwoLevel::new(dev)?;
                tables.map_scratch(FIRST_SCRATCH_PAGE, SCRATCH_PAGES)?;
                Tables::TwoLevel(tables)
            }
        };
        let free = Ranges::new(FIRST_PAGE, FREE_PAGES).map_err(|_| ENOMEM)?;
        let (address, bytes) = (ring.address(), ring.bytes());
        let space = Arc::pin_init(
            try_pin_init!(Self {
                tables,
                ring,
                book <- new_mutex!(Book {
                    free,
                    used: 0,
                    mappings: 0,
                    stale: KVVec::new(),
                    settled: KVVec::new(),
                    ended: 0,
                    freed: 0,
                }, "galcore mmu"),
                settled <- new_condvar!("galcore mmu"),
                reaper <- new_delayed_work!("galcore reaper"),
            }),
            GFP_KERNEL,
        )?;
        space.map_for_good(address, bytes, Access::ReadOnly)?;
        Ok(space)
    }

    /// Physical address of MMU version 1's table, for the page-table registers.
    pub(crate) fn flat_table(&self) -> Option<u32> {
        match &self.tables {
            Tables::Flat(table) => Some(table.address()),
            Tables::TwoLevel(_) => None,
        }
    }

    /// GPU address of memory that is nobody's: what is read there means nothing, and what is written there
    /// does no harm.
    pub(crate) fn scratch_address(&self) -> u32 {
        // CAST: less than 2^20 pages.
        (FIRST_SCRATCH_PAGE as u32) << PAGE_BITS
    }

    /// Physical address of such memory, 64 KiB of it, with MMU version 1.
    pub(crate) fn physical_scratch(&self) -> Option<u32> {
        match &self.tables {
            Tables::Flat(table) => Some(table.scratch_address()),
            Tables::TwoLevel(_) => None,
        }
    }

    /// Physical addresses of MMU version 2's first level and of its safe bytes.
    pub(crate) fn two_level_table(&self) -> Option<(u32, u32)> {
        match &self.tables {
            Tables::Flat(_) => None,
            Tables::TwoLevel(tables) => Some((tables.address(), tables.safe_address())),
        }
    }

    /// Lets the GPU reach `bytes` at its address `address`, below bit 31, as physical memory: their pages, for as long as the space lives. `ENOMEM`: no memory for the tables.
    pub(crate) fn map_for_good(
        &self,
        address: u32,
        bytes: usize,
        access: Access,
    ) -> Result<(), kernel::error::Error> {
        let Tables::TwoLevel(tables) = &self.tables else {
            // It does already.
            return Ok(());
        };
        let (first, count) = pages(address, bytes);
        let book = self.book.lock();
        tables.map_linear(first, count, access)?;
        drop(book);
        self.ring.request_flush();
        Ok(())
    }

    /// Lets the GPU reach `memory`, whose address is `address`, below bit 31, as physical memory; with
    /// MMU version 1 it does already. `OutOfResources`: no memory for the tables, or to note it.
    pub(crate) fn map_linear(
        self: &Arc<Self>,
        memory: &Arc<DmaBuffer>,
        address: u32,
    ) -> Result<Option<LinearMapping>> {
        let Tables::TwoLevel(tables) = &self.tables else {
            return Ok(None);
        };
        let (first, count) = pages(address, memory.size());
        {
            let mut book = self.book.lock();
            book.admit()?;
            tables
                .prepare(first, count)
                .map_err(|_| Error::OutOfResources)?;
            book.mappings += 1;
        }
        let mapping = LinearMapping {
            space: self.clone(),
            first,
            count,
            memory: memory.clone(),
        };
        for page in first..first + count {
            // CAST: less than 2^20 pages.
            tables.set(page, (page as u32) << PAGE_BITS, Access::ReadWrite);
        }
        self.ring.request_flush();
        Ok(Some(mapping))
    }

    /// Entries in all, and entries in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (FREE_PAGES, self.book.lock().used)
    }

    /// How many mappings have been ended whose pages are not free yet.
    pub(crate) fn pending(&self) -> usize {
        let book = self.book.lock();
        // CAST: each of them takes memory.
        (book.ended - book.freed) as usize
    }

    /// Bytes of the longest free piece.
    pub(crate) fn longest_free(&self) -> usize {
        self.book.lock().free.longest_free() * PAGE_SIZE
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.bytes()
    }

    /// Whether pages can be kept from being written.
    pub(crate) fn has_read_only_pages(&self) -> bool {
        matches!(self.tables, Tables::TwoLevel(_))
    }

    /// Maps pages one behind the other; those that are not writeable only if
    /// [`AddressSpace::has_read_only_pages`]. `OutOfResources`: no such room, or no memory to note it.
    pub(crate) fn map(self: &Arc<Self>, backing: Arc<Paged>) -> Result<Mapping> {
        let count = backing.dma_addresses().len();
        let access = if backing.is_writeable() {
            Access::ReadWrite
        } else {
            Access::ReadOnly
        };
        let first = {
            let mut book = self.book.lock();
            book.admit()?;
            let first = book.free.find(count, 1).ok_or(Error::OutOfResources)?;
            self.tables
                .prepare(first, count)
                .map_err(|_| Error::OutOfResources)?;
            book.free.reserve().map_err(|_| Error::OutOfResources)?;
            book.free.take(first, count);
            book.used += count;
            book.mappings += 1;
            first
        };
        let mapping = Mapping {
            space: self.clone(),
            first,
            count,
            backing,
        };
        for (i, &page) in mapping.backing.dma_addresses().iter().enumerate() {
            // CAST: the DMA mask keeps pages below 4 GiB.
            let address = sys::widen(page) as u32;
            self.tables.set(first + i, address, access);
        }
        self.ring.request_flush();
        Ok(mapping)
    }

    /// Ends a mapping; its pages wait for the flush.
    fn unmap(self: &Arc<Self>, first: usize, count: usize, kept: Kept) {
        for page in first..first + count {
            self.tables.clear(page);
        }
        self.ring.request_flush();
        let stale = Stale {
            first,
            count,
            _kept: kept,
        };
        let mut book = self.book.lock();
        // There is room: `map` has seen to it.
        let _ = book.stale.push_within_capacity(stale);
        book.ended += 1;
        drop(book);
        self.reap_in(0);
    }

    /// Waits until what clients have let go of so far is free, and what has been unmapped by then; gives up
    /// when the GPU makes no progress. `Interrupted`: a Unix signal came. Not for actions or the work queue.
    pub(crate) fn settle(&self) -> Result {
        match self.ring.settle() {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // It hangs, or has been stopped: nothing more will come back.
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        let mut left = msecs_to_jiffies(GPU_TIMEOUT);
        let mut book = self.book.lock();
        let wanted = book.ended;
        while book.freed < wanted {
            let before = book.freed;
            left = match self.settled.wait_interruptible_timeout(&mut book, left) {
                CondVarTimeoutResult::Woken { jiffies } => jiffies,
                CondVarTimeoutResult::Timeout => break,
                CondVarTimeoutResult::Signal { .. } => return Err(Error::Interrupted),
            };
            if book.freed != before {
                left = msecs_to_jiffies(GPU_TIMEOUT);
            }
        }
        Ok(())
    }

    /// Queues the reaper for `milliseconds` from now.
    fn reap_in(self: &Arc<Self>, milliseconds: u32) {
        let delay = msecs_to_jiffies(milliseconds);
        let _ = sys::work::queue().enqueue_delayed::<Arc<Self>, 0>(self.clone(), delay);
    }

    /// Lets the reaper run now, if it waits, and waits until it has.
    pub(crate) fn dismiss_reaper(&self) {
        sys::work::flush_delayed(&self.reaper);
    }

    /// Frees the addresses of what [`AddressSpace::unmap`] has ended, once no translation of it is left.
    /// Its pages may be many: the reaper frees them, and not the interrupt's thread.
    pub(crate) fn recycle(self: &Arc<Self>, stale: Stale) {
        let mut book = self.book.lock();
        // Below, memory has its addresses from where it lies.
        if stale.first >= FIRST_PAGE {
            book.used -= stale.count;
            book.free.give(stale.first, stale.count);
        }
        // There is room: `map` has seen to it.
        let _ = book.settled.push_within_capacity(stale);
        drop(book);
        self.reap_in(0);
    }

    /// Frees the pages of what has settled.
    fn bury(&self) {
        loop {
            let settled = {
                let mut book = self.book.lock();
                let settled = book.settled.pop();
                if settled.is_some() {
                    book.mappings -= 1;
                }
                settled
            };
            if settled.is_none() {
                break;
            }
            drop(settled);
            self.book.lock().freed += 1;
            self.settled.notify_all();
            sys::yield_if_due();
        }
    }

    /// Takes stale mappings as actions, a bounded number.
    fn take_stale(self: &Arc<Self>) -> Actions {
        let mut actions = Actions::new();
        for _ in 0..REAPED_AT_ONCE {
            if actions.reserve(1, GFP_KERNEL).is_err() {
                break;
            }
            let Some(stale) = self.book.lock().stale.pop() else {
                break;
            };
            // There is room for one.
            let _ = actions.push(Action::Recycle(self.clone(), stale), GFP_KERNEL);
        }
        actions
    }

    /// Frees all that is stale. The front end must be stopped.
    pub(crate) fn sweep(self: &Arc<Self>) {
        loop {
            let stale = self.book.lock().stale.pop();
            match stale {
                Some(stale) => self.recycle(stale),
                None => break,
            }
        }
        self.bury();
    }
}

impl WorkItem for AddressSpace {
    type Pointer = Arc<AddressSpace>;

    fn run(this: Arc<AddressSpace>) {
        loop {
            this.bury();
            let mut actions = this.take_stale();
            if actions.is_empty() {
                return;
            }
            // The flush that `unmap` asked for goes with this submission or has gone before it.
            if this.ring.submit(&mut actions).is_ok() {
                continue;
            }
            let dead = this.ring.is_dead();
            for action in actions {
                match action {
                    Action::Recycle(space, stale) if !dead => {
                        // The GPU hangs: they wait for the next try. Their room is still theirs.
                        let _ = space.book.lock().stale.push_within_capacity(stale);
                    }
                    action => action.run(),
                }
            }
            if !dead {
                this.reap_in(RETRY);
                return;
            }
        }
    }
}

/// Pages at consecutive GPU addresses; ended by being dropped.
pub(crate) struct Mapping {
    space: Arc<AddressSpace>,
    first: usize,
    count: usize,
    backing: Arc<Paged>,
}

impl Mapping {
    /// GPU address of the first page.
    pub(crate) fn address(&self) -> u32 {
        // CAST: less than 2^20 pages.
        (self.first as u32) << PAGE_BITS
    }

    /// The pages.
    pub(crate) fn backing(&self) -> &Arc<Paged> {
        &self.backing
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let kept = Kept::Pages(self.backing.clone());
        self.space.unmap(self.first, self.count, kept);
    }
}

/// Contiguous memory at its own address; ended by being dropped.
pub(crate) struct LinearMapping {
    space: Arc<AddressSpace>,
    first: usize,
    count: usize,
    memory: Arc<DmaBuffer>,
}

impl Drop for LinearMapping {
    fn drop(&mut self) {
        let kept = Kept::Memory(self.memory.clone());
        self.space.unmap(self.first, self.count, kept);
    }
}

/// Number of the first page, and of pages, of `bytes` at `address`, below bit 31 all of them.
fn pages(address: u32, bytes: usize) -> (usize, usize) {
    // CAST: 32 bits into at least 32.
    let address = address as usize;
    let first = address / PAGE_SIZE;
    (first, (address + bytes).div_ceil(PAGE_SIZE) - first)
}
