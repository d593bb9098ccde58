// SPDX-License-Identifier: GPL-2.0-only

//! Scattered pages that the GPU accesses through its MMU.

use super::{
    dma,
    dma_buf::Import,
    pinned::{
        Folio,
        Locked,
        PinnedPages, //
    },
    prelude::*,
    raw_device,
    shim,
    unload::InUse,
    vma::{
        Memory,
        NewArea, //
    },
    GFP_CLIENT, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    bindings,
    dma::DmaAddress,
    impl_has_work,
    new_work,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use pin_init::InPlaceWrite;

/// The most pinned pages to handle at once. Releasing more takes a noticeable time.
const MANY: usize = 1024;

/// Order of the largest block to allocate: 256 KiB.
const LARGEST_ORDER: u32 = 6;

/// The direction of a DMA sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// The CPU has written; the device will read.
    ForDevice,
    /// The device has written; the CPU will read.
    ForCpu,
}

/// The source of the pages.
enum Origin {
    /// Allocated by this driver, in blocks of contiguous pages. Holds the order of each block.
    Allocated(KVVec<u8>),
    /// Pages of a process, pinned by this driver.
    Pinned {
        /// The part that is the client's memory: offset and bytes.
        piece: (usize, usize),
        /// The client and the device may write them.
        write: bool,
        /// Bytes from the start of the piece that were synced for the CPU.
        returned: Atomic<usize>,
        /// Maps the pages.
        registry: Arc<PinnedPages>,
        /// Accounts for the pages.
        locked: Locked,
    },
    /// Pages of a dma-buf, which its exporter owns.
    Imported(Import),
}

/// The large folio of a page, if any.
///
/// # Safety
///
/// `page` is pinned.
unsafe fn folio(page: *mut bindings::page) -> Option<Folio> {
    let mut start = 0;
    // SAFETY: By the caller's contract the page is pinned, so its folio stays as it is; `start` is
    // valid for the write.
    let pages = unsafe { shim::gal_folio_pages(page, &mut start) };
    (pages > 1).then(|| Folio {
        start: super::widen(start),
        pages,
    })
}

/// Pages with their device addresses.
///
/// # Invariants
///
/// The first `dma.len()` of `pages` are mapped for `dev` at the addresses in `dma`. Allocated pages
/// are ours alone, and consist of consecutive blocks. Pinned pages are pinned by us. If the pages
/// are imported, `pages` is empty, and their exporter has mapped them at the addresses in `dma`.
pub(crate) struct Pages {
    dev: dma::Device,
    origin: Origin,
    pages: KVVec<*mut bindings::page>,
    dma: KVVec<DmaAddress>,
}

// SAFETY: Only the DMA API and short-lived mappings access the pages. Any thread may use both.
unsafe impl Send for Pages {}
// SAFETY: `&self` changes only `returned`, an atomic, and pages, by single words.
unsafe impl core::marker::Sync for Pages {}

impl Pages {
    fn empty(dev: &dma::Device, origin: Origin, count: usize) -> Result<Self> {
        // INVARIANT: No pages yet.
        Ok(Self {
            dev: dev.clone(),
            origin,
            pages: KVVec::with_capacity(count, GFP_CLIENT)?,
            dma: KVVec::with_capacity(count, GFP_CLIENT)?,
        })
    }

    /// Allocates `count` zeroed pages for `dev`. `ENOMEM`: also if the process is being killed.
    ///
    /// Allocates the largest blocks possible: a block takes little more time than a page. Calls
    /// `has` with the number of pages in each block.
    pub(crate) fn allocate(dev: &dma::Device, count: usize, has: impl Fn(usize)) -> Result<Self> {
        let orders = KVVec::with_capacity(count, GFP_CLIENT)?;
        let mut this = Self::empty(dev, Origin::Allocated(orders), count)?;
        let mut order = LARGEST_ORDER;
        // Ends: each round adds pages, or the next one asks for fewer.
        while let Some(largest) = (count - this.pages.len()).checked_ilog2() {
            order = order.min(largest);
            match this.allocate_block(order) {
                Ok(()) => has(1 << order),
                Err(error) if order == 0 => return Err(error),
                Err(_) => order -= 1,
            }
        }
        Ok(this)
    }

    /// Adds a block of 2 to the power of `order` pages. `ENOMEM`: there is none.
    fn allocate_block(&mut self, order: u32) -> Result {
        let Origin::Allocated(orders) = &mut self.origin else {
            return Err(EINVAL);
        };
        let count = 1 << order;
        let pages = self.pages.spare_capacity_mut();
        let pages = pages.get_mut(..count).ok_or(EINVAL)?;
        let addresses = self.dma.spare_capacity_mut();
        let addresses = addresses.get_mut(..count).ok_or(EINVAL)?;
        let mut dma = 0;
        // SAFETY: The reference that `self.dev` holds guarantees a live device; `dma` is valid for
        // the write.
        let block = unsafe { shim::gal_alloc_block(raw_device(&self.dev), order, &mut dma) };
        if block.is_null() {
            return Err(ENOMEM);
        }
        // Does not fail: there is room.
        // CAST: At most `LARGEST_ORDER`.
        orders.push(order as u8, GFP_CLIENT)?;
        for (index, (page, address)) in pages.iter_mut().zip(addresses).enumerate() {
            page.write(block.wrapping_add(index));
            // CAST: Less than the block's size.
            address.write(dma + (index * PAGE_SIZE) as DmaAddress);
        }
        // INVARIANT: One call has allocated and mapped the block.
        // SAFETY: There was room for `count` of each, and all of it has been written.
        unsafe {
            self.pages.inc_len(count);
            self.dma.inc_len(count);
        }
        Ok(())
    }

    /// Pins the `count` pages of the calling process from `user`, a page boundary, for reading and,
    /// with `write`, writing. Maps them, and syncs them for the device. [`Pages::give_back`] later
    /// syncs only `piece` (offset and bytes) for the CPU. The drop calls it for what is left.
    ///
    /// A pinned page keeps all of its large folio in memory. So all of the folio is accounted for,
    /// once for each process.
    ///
    /// `ENOMEM`: no memory, or more than is left of the user's limit of locked memory. `E2BIG`:
    /// more than the whole limit. `EINTR`: the process is being killed. `EFAULT`: some pages do not
    /// exist or, with `write`, are not writable. `EBUSY`: some are mapped as parts of a dma-buf.
    /// `ERANGE`: the device does not reach some.
    pub(crate) fn pin(
        registry: &Arc<PinnedPages>,
        user: usize,
        count: usize,
        piece: (usize, usize),
        write: bool,
    ) -> Result<Self> {
        // The kernel takes the count as an `int`.
        i32::try_from(count)?;
        // The vector grows as pages are pinned, so that the limit bounds both.
        let mut this = Self::empty(
            &registry.dev,
            Origin::Pinned {
                piece,
                write,
                returned: Atomic::new(0),
                registry: registry.clone(),
                locked: Locked::new(registry, count)?,
            },
            0,
        )?;
        while this.pages.len() < count {
            super::yield_if_due();
            if super::is_killed() {
                return Err(EINTR);
            }
            let done = this.pages.len();
            let at = user.checked_add(done * PAGE_SIZE).ok_or(EFAULT)?;
            // With FUSE a process can make a page fault last. So no fault is taken while pinned
            // pages are not accounted for yet: with faults, one page is pinned at a time.
            if this.pin_some(at, MANY.min(count - done), false).is_err() {
                this.pin_some(at, 1, true)?;
            }
            this.count(done)?;
        }
        this.dma.reserve(count, GFP_CLIENT)?;
        for (index, &page) in this.pages.iter().enumerate() {
            if index % MANY == 0 {
                super::yield_if_due();
                if super::is_killed() {
                    return Err(EINTR);
                }
            }
            // SAFETY: It was pinned above, and stays so until `drop` has unmapped it.
            let dma = unsafe { registry.map(page)? };
            // INVARIANT: Mapped; there is room.
            this.dma.push(dma, GFP_CLIENT)?;
            // All of the page is synced, because the GPU can read it all. Outside the piece, the
            // zeros that replaced another process's data may still be only in the caches.
            this.sync(index * PAGE_SIZE, PAGE_SIZE, Sync::ForDevice);
        }
        Ok(this)
    }

    /// Pins pages of the calling process from `at`, at least one and at most `most`. With `fault`
    /// it faults missing ones in. `EFAULT`, `ENOMEM`: none is pinned.
    fn pin_some(&mut self, at: usize, most: usize, fault: bool) -> Result {
        let write = self.is_writeable();
        self.pages.reserve(most, GFP_CLIENT)?;
        let spare = self.pages.spare_capacity_mut();
        let to = spare.get_mut(..most).ok_or(EINVAL)?.as_mut_ptr();
        let mut how = bindings::FOLL_LONGTERM;
        if write {
            how |= bindings::FOLL_WRITE;
        }
        if !fault {
            how |= bindings::FOLL_NOFAULT;
        }
        // CAST: `pin` has checked that the whole count fits.
        // SAFETY: There is room for `most` pointers. The call checks the addresses.
        let pinned = unsafe { bindings::pin_user_pages_fast(at, most as c_int, how, to.cast()) };
        match usize::try_from(pinned) {
            // SAFETY: The call wrote `got` page pointers, `most` at most, to the spare capacity.
            Ok(got @ 1..) => unsafe { self.pages.inc_len(got) },
            _ if pinned == -(bindings::ENOMEM as c_int) => return Err(ENOMEM),
            _ => return Err(EFAULT),
        }
        Ok(())
    }

    /// Accounts for the pinned pages from index `at` on. `ENOMEM`: no memory, or the limit is
    /// exceeded: then the remaining pages are released.
    fn count(&mut self, mut at: usize) -> Result {
        let write = self.is_writeable();
        let Origin::Pinned { locked, .. } = &mut self.origin else {
            return Err(EINVAL);
        };
        let mut result = Ok(());
        // SAFETY: By the type invariant they are pinned.
        for run in self.pages[at..].chunk_by(|&a, &b| unsafe { folio(a) == folio(b) }) {
            // SAFETY: By the type invariant it is pinned.
            result = locked.add(unsafe { folio(run[0]) }, run.len());
            if result.is_err() {
                break;
            }
            at += run.len();
        }
        let rest = &mut self.pages[at..];
        // SAFETY: They are pinned by us, with this `write`, and not mapped yet.
        unsafe { bindings::unpin_user_pages_dirty_lock(rest.as_mut_ptr(), rest.len(), write) };
        // INVARIANT: This removes the released pages.
        self.pages.truncate(at);
        result
    }

    /// The pages of a dma-buf. `EINVAL`: it is not made of whole pages.
    pub(crate) fn import(dev: &dma::Device, import: Import) -> Result<Self> {
        let dma = import.pages()?;
        // INVARIANT: The dma-buf's exporter has mapped them.
        Ok(Self {
            dev: dev.clone(),
            origin: Origin::Imported(import),
            pages: KVVec::new(),
            dma,
        })
    }

    /// The dma-buf of imported pages.
    pub(crate) fn imported(&self) -> Option<&Import> {
        match &self.origin {
            Origin::Imported(import) => Some(import),
            _ => None,
        }
    }

    /// The pages, if this driver allocated them.
    pub(super) fn allocated(&self) -> Option<&[*mut bindings::page]> {
        match &self.origin {
            Origin::Allocated(_) => Some(&self.pages),
            _ => None,
        }
    }

    /// Syncs the next `bytes` bytes of pinned pages for the CPU, each byte once. Returns whether
    /// more are left. The device must not write the pages any more.
    pub(crate) fn give_back(&self, bytes: usize) -> bool {
        let Origin::Pinned {
            piece: (start, size),
            returned,
            ..
        } = &self.origin
        else {
            return false;
        };
        if self.dma.len() != self.pages.len() || returned.load(Relaxed) >= *size {
            return false;
        }
        let at = returned.fetch_add(bytes, Relaxed);
        let Some(left) = size.checked_sub(at) else {
            return false;
        };
        self.sync(start + at, bytes.min(left), Sync::ForCpu);
        left > bytes
    }

    /// The pages' device addresses.
    pub(crate) fn dma_addresses(&self) -> &[DmaAddress] {
        &self.dma
    }

    /// Their size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.dma.len() * PAGE_SIZE
    }

    /// Whether the device may write the pages.
    pub(crate) fn is_writeable(&self) -> bool {
        match &self.origin {
            Origin::Allocated(_) => true,
            Origin::Pinned { write, .. } => *write,
            Origin::Imported(import) => import.is_writeable(),
        }
    }

    /// Syncs `size` bytes from `offset`, as far as they are inside the pages. For the CPU it does
    /// nothing if the device may not write the pages. For a dma-buf it does nothing, because the
    /// exporter and the users sync it (`DMA_BUF_IOCTL_SYNC`).
    pub(crate) fn sync(&self, offset: usize, size: usize, direction: Sync) {
        let write = self.is_writeable();
        if !write && direction == Sync::ForCpu || self.imported().is_some() {
            return;
        }
        let end = offset.saturating_add(size).min(self.size());
        let mut at = offset;
        while at < end {
            let within = at % PAGE_SIZE;
            let part = (PAGE_SIZE - within).min(end - at);
            if let Some(&page) = self.dma.get(at / PAGE_SIZE) {
                let offset = within as DmaAddress;
                // SAFETY: By the type invariant the page is mapped, and the part is inside it.
                unsafe {
                    match direction {
                        Sync::ForDevice => {
                            let dev = raw_device(&self.dev);
                            shim::gal_sync_for_device(dev, page + offset, part)
                        }
                        Sync::ForCpu => {
                            shim::gal_sync_for_cpu(raw_device(&self.dev), page + offset, part)
                        }
                    }
                }
            }
            at += part;
        }
    }

    /// Writes one word at byte `offset`, a multiple of 4, visible to CPU and device. Does nothing
    /// outside the pages, in pages that the device may not write, and in a dma-buf.
    pub(crate) fn write(&self, offset: usize, word: u32) {
        if !self.is_writeable() {
            return;
        }
        let index = offset / PAGE_SIZE;
        if let (Some(&page), Some(&dma)) = (self.pages.get(index), self.dma.get(index)) {
            if offset % 4 == 0 {
                // SAFETY: By the type invariant the page is ours or pinned, and mapped at `dma`.
                unsafe {
                    shim::gal_write_page(raw_device(&self.dev), page, dma, offset % PAGE_SIZE, word)
                };
            }
        }
    }

    /// Copies the bytes at `offset`, as the CPU sees them, to `to`. There is no DMA sync: writes of
    /// the device that the client has not synced may be missing. `EINVAL`: outside the pages, or
    /// imported. `ENOMEM`. May sleep.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        let end = offset.checked_add(to.len()).ok_or(EINVAL)?;
        if to.is_empty() || end > self.pages.len() * PAGE_SIZE || self.imported().is_some() {
            return Err(EINVAL);
        }
        let cached = !matches!(self.origin, Origin::Allocated(_));
        // SAFETY: By the type invariant the pages are ours or pinned. The call only reads them. The
        // range is inside `pages`, as checked above, and fills `to`.
        to_result(unsafe {
            shim::gal_copy_pages(
                self.pages.as_ptr().cast_mut(),
                offset,
                to.as_mut_ptr().cast(),
                to.len(),
                cached,
            )
        })
    }

    /// Writes one word at byte `offset`, a multiple of 4, without a DMA sync. Does nothing outside
    /// the pages, and to pages that this driver has not allocated.
    pub(crate) fn poke(&self, offset: usize, word: u32) {
        if !matches!(self.origin, Origin::Allocated(_)) {
            return;
        }
        if let Some(&page) = self.pages.get(offset / PAGE_SIZE) {
            if offset % 4 == 0 {
                // SAFETY: By the type invariant the page is ours.
                unsafe { shim::gal_poke_page(page, offset % PAGE_SIZE, word) };
            }
        }
    }
}

impl Memory for Pages {
    /// Maps only allocated pages. Those that are not cached are write-combined. `ENXIO`: the area
    /// is longer. `EINVAL`: the pages are not ours.
    unsafe fn map_into(&self, area: &NewArea<'_>, cached: bool) -> Result {
        let Origin::Allocated(orders) = &self.origin else {
            return Err(EINVAL);
        };
        let vma = area.as_ptr();
        let wanted = area.bytes() / PAGE_SIZE;
        if wanted > self.pages.len() {
            return Err(ENXIO);
        }
        // SAFETY: By its invariant the area is being set up, and is empty. It has at least one
        // page, so there is a page of ours.
        unsafe { shim::gal_mmap_begin(vma, self.pages[0], cached) };
        let mut at = 0;
        for &order in orders {
            let count = (1 << order).min(wanted - at);
            if count == 0 {
                break;
            }
            let user = area.start() + at * PAGE_SIZE;
            // SAFETY: By its invariant the area is being set up. It has room for `count` pages from
            // `user` on, and the block has that many. By the caller these outlive the mapping.
            to_result(unsafe { shim::gal_mmap_block(vma, user, self.pages[at], count) })?;
            at += count;
        }
        Ok(())
    }
}

/// Pages that a work item drops.
#[pin_data]
struct Later {
    #[pin]
    work: Work<Later>,
    _pages: Pages,
}

impl_has_work! {
    impl HasWork<Self> for Later { self.work }
}

impl WorkItem for Later {
    type Pointer = Pin<KBox<Later>>;

    fn run(this: Self::Pointer) {
        drop(this);
    }
}

impl Pages {
    /// Moves the pages to a work item that drops them, if there is memory for the work item.
    fn drop_later(&mut self) {
        let Ok(in_use) = InUse::new() else {
            return;
        };
        let Ok(room) = KBox::<Later>::new_uninit(GFP_KERNEL | __GFP_NOWARN) else {
            return;
        };
        let nothing = Self {
            dev: self.dev.clone(),
            origin: Origin::Allocated(KVVec::new()),
            pages: KVVec::new(),
            dma: KVVec::new(),
        };
        let pages = core::mem::replace(self, nothing);
        let later = room.write_pin_init(pin_init!(Later {
            work <- new_work!("galcore pages"),
            _pages: pages,
        }));
        match later {
            Ok(later) => super::work::enqueue_in(&in_use, later),
            Err(never) => match never {},
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let is_pinned = matches!(self.origin, Origin::Pinned { .. });
        if is_pinned && self.pages.len() > MANY && super::is_killed() {
            // So the exit of the process does not wait for the release.
            self.drop_later();
        }
        let _ = self.give_back(isize::MAX as usize);
        let dev = raw_device(&self.dev);
        match &mut self.origin {
            Origin::Allocated(orders) => {
                let mut at = 0;
                let both = kernel::dma::DataDirection::Bidirectional.into();
                for &order in orders.iter() {
                    let (block, dma) = (self.pages[at], self.dma[at]);
                    // SAFETY: By the type invariant the block is ours, and nothing uses it after
                    // this drop.
                    unsafe { bindings::dma_free_pages(dev, PAGE_SIZE << order, block, dma, both) };
                    at += 1 << order;
                }
            }
            Origin::Pinned {
                write,
                registry,
                locked,
                ..
            } => {
                for part in self.pages[..self.dma.len()].chunks(MANY) {
                    super::yield_if_due();
                    for &page in part {
                        // SAFETY: By the type invariant it is mapped, and this use of it ends.
                        unsafe { registry.unmap(page) };
                    }
                }
                // Before the pages are released, because another folio may start there afterwards.
                for part in self.pages.chunks(MANY) {
                    super::yield_if_due();
                    // SAFETY: By the type invariant they are pinned.
                    for run in part.chunk_by(|&a, &b| unsafe { folio(a) == folio(b) }) {
                        // SAFETY: By the type invariant it is pinned.
                        if let Some(folio) = unsafe { folio(run[0]) } {
                            locked.leave(folio, run.len());
                        }
                    }
                }
                // SAFETY: By the type invariant `pages` are pinned by us, with this `write`; none
                // is mapped any more.
                unsafe {
                    bindings::unpin_user_pages_dirty_lock(
                        self.pages.as_mut_ptr(),
                        self.pages.len(),
                        *write,
                    )
                };
            }
            Origin::Imported(_) => {}
        }
    }
}
