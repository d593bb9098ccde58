// SPDX-License-Identifier: GPL-2.0-only

//! The GPU's address space.
//!
//! MMU version 1: GPU addresses with bit 31 clear are physical, counted from `baseAddress`; the
//! others go through one flat table of 4 KiB pages. Owns that table and the book of its pages, which
//! lies beside it and not, as the C driver's, inside, where the GPU would read it. An entry that is
//! not in use points at one scratch page: a stray access of the GPU lands there and nowhere else.
//!
//! # Stale translations
//!
//! The GPU keeps translations until its TLB is flushed, through the ring. A change of the table asks
//! the ring for a flush in its next submission. Pages and addresses of an ended mapping are kept
//! until a submission behind that flush has ended; the reaper, a work item, makes one if nobody else
//! does.
//!
//! Lock: `galcore mmu` guards the book; the ring's is never taken under it. Source:
//! spec/memory-events.md section 5.

use crate::{
    command::{
        Ring,
        GPU_TIMEOUT, //
    },
    error::{
        Error,
        Result, //
    },
    event::{
        Action,
        Actions, //
    },
    memory::{
        ranges::Ranges,
        Paged, //
    },
    sys::{
        self,
        dma::DmaBuffer, //
    },
};
use kernel::{
    device, impl_has_delayed_work, new_delayed_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        DelayedWork,
        WorkItem, //
    },
};

/// Pages above bit 31: 2 GiB.
const PAGES: usize = 1 << 19;

/// First GPU address that is translated.
const FIRST_ADDRESS: u32 = 1 << 31;

/// Binary logarithm of a page's bytes.
const PAGE_BITS: u32 = 12;

/// Mappings that the reaper ends with one submission.
const REAPED_AT_ONCE: usize = 64;

/// When the reaper tries again after the ring took nothing, in milliseconds.
const RETRY: u32 = 1000;

/// An ended mapping that the GPU may still have in its TLB.
pub(crate) struct Stale {
    first: usize,
    count: usize,
    _backing: Arc<Paged>,
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
}

/// The address space of one core.
#[pin_data]
pub(crate) struct AddressSpace {
    table: DmaBuffer,
    /// Physical address of the table.
    address: u32,
    scratch: DmaBuffer,
    /// What unused entries hold.
    scratch_entry: u32,
    ring: Arc<Ring>,
    #[pin]
    book: Mutex<Book>,
    #[pin]
    reaper: DelayedWork<AddressSpace>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for AddressSpace { self.reaper }
}

impl AddressSpace {
    /// An address space in which every page is the scratch page. `ENOMEM`: no memory below 4 GiB.
    pub(crate) fn new(
        dev: &device::Device,
        ring: Arc<Ring>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let scratch = DmaBuffer::new(dev, PAGE_SIZE)?;
        let scratch_entry = u32::try_from(scratch.dma_address())?;
        let table = DmaBuffer::new(dev, PAGES * 4)?;
        table.fill(scratch_entry);
        let free = Ranges::new(0, PAGES).map_err(|_| ENOMEM)?;
        Arc::pin_init(
            try_pin_init!(Self {
                address: u32::try_from(table.dma_address())?,
                table,
                scratch,
                scratch_entry,
                ring,
                book <- new_mutex!(Book {
                    free,
                    used: 0,
                    mappings: 0,
                    stale: KVVec::new(),
                    settled: KVVec::new(),
                }, "galcore mmu"),
                reaper <- new_delayed_work!("galcore reaper"),
            }),
            GFP_KERNEL,
        )
    }

    /// Physical address of the table, for the page-table registers.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Entries in all, and entries in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (PAGES, self.book.lock().used)
    }

    /// Bytes of the longest free piece.
    pub(crate) fn longest_free(&self) -> usize {
        self.book.lock().free.longest_free() * PAGE_SIZE
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.size() + self.scratch.size()
    }

    /// Maps pages one behind the other. `OutOfResources`: no such room, or no memory to note it.
    pub(crate) fn map(self: &Arc<Self>, backing: Arc<Paged>) -> Result<Mapping> {
        let count = backing.dma_addresses().len();
        let first = {
            let mut book = self.book.lock();
            // Mappings that live, and those that wait for their flush.
            let room = book.mappings + 1 - book.stale.len().min(book.mappings);
            book.stale
                .reserve(room, GFP_KERNEL)
                .map_err(|_| Error::OutOfResources)?;
            let room = book.mappings + 1 - book.settled.len().min(book.mappings);
            book.settled
                .reserve(room, GFP_KERNEL)
                .map_err(|_| Error::OutOfResources)?;
            let first = book.free.find(count, 1).ok_or(Error::OutOfResources)?;
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
            let entry = sys::widen(page) as u32;
            self.table.write((first + i) * 4, entry)?;
        }
        self.ring.request_flush();
        Ok(mapping)
    }

    /// Ends a mapping; its pages wait for the flush.
    fn unmap(self: &Arc<Self>, first: usize, count: usize, backing: Arc<Paged>) {
        for entry in first..first + count {
            // Inside the table, as when it was mapped.
            let _ = self.table.write(entry * 4, self.scratch_entry);
        }
        self.ring.request_flush();
        let stale = Stale {
            first,
            count,
            _backing: backing,
        };
        let mut book = self.book.lock();
        // There is room: `map` has seen to it.
        let _ = book.stale.push_within_capacity(stale);
        drop(book);
        self.reap_in(0);
    }

    /// Waits until what has been unmapped so far is free. Not for actions or the work queue.
    pub(crate) fn settle(&self) -> Result {
        let is_stale = !self.book.lock().stale.is_empty();
        if is_stale {
            self.dismiss_reaper();
        }
        if let Err(Error::Interrupted) = self.ring.wait_idle(GPU_TIMEOUT) {
            return Err(Error::Interrupted);
        }
        let is_settled = !self.book.lock().settled.is_empty();
        if is_settled {
            self.dismiss_reaper();
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
        book.used -= stale.count;
        book.free.give(stale.first, stale.count);
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
        // CAST: less than 2^19 pages.
        FIRST_ADDRESS | ((self.first as u32) << PAGE_BITS)
    }

    /// The pages.
    pub(crate) fn backing(&self) -> &Arc<Paged> {
        &self.backing
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.space
            .unmap(self.first, self.count, self.backing.clone());
    }
}
