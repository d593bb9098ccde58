// SPDX-License-Identifier: GPL-2.0-only

//! Maps the pinned pages of processes for the device, and accounts for them by RLIMIT_MEMLOCK.
//!
//! The limit is that of the process. As with io_uring, it applies to the sum over all pins of the
//! user, because pins can outlive their process through a file that others have open. Each memory
//! map shows its own pins as `VmPin`.
//!
//! A pinned page of a large folio (a huge page) keeps the whole folio, even if the process has
//! unmapped the rest. So all pages of a folio count, once for each process that has pinned any of
//! them. Pins of a folio count instead if there are more of them than pages, because each takes
//! room in the GPU's address space.
//!
//! Lock: `galcore locked pages`, a leaf. Memory for entries is allocated before the lock is taken.

use super::{
    dma,
    mapped::{
        Mapped,
        Reservation,
        Reservations, //
    },
    prelude::*,
    raw_device,
    shim,
    GFP_CLIENT, //
};
use core::ops::Range;
use kernel::{
    bindings,
    dma::DmaAddress,
    mm::Mm,
    new_mutex, //
};

/// Pinned user pages that are mapped for a device. Each is mapped once, however often it is pinned,
/// so that all users share its DMA syncs. For the same reason a page is never both pinned and
/// imported.
#[pin_data]
pub(crate) struct PinnedPages {
    pub(super) dev: dma::Device,
    #[pin]
    registry: Mutex<Mapped>,
    /// The pins of all users.
    #[pin]
    sums: Mutex<Sums>,
}

/// The physical address of a page.
///
/// # Safety
///
/// `page` points to a page.
unsafe fn physical(page: *mut bindings::page) -> u64 {
    // SAFETY: The call only computes with the pointer, which by the contract points to a page.
    super::widen(unsafe { shim::gal_page_address(page) })
}

/// The most ranges of a dma-buf to add or remove in one hold of the lock.
const PART: usize = 256;

impl PinnedPages {
    /// A registry without pinned pages.
    pub(crate) fn new(dev: &dma::Device) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                registry <- new_mutex!(Mapped::new(), "galcore pinned pages"),
                sums <- new_mutex!(Sums::new(), "galcore locked pages"),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps a page. `ENOMEM`. `EBUSY`: it is mapped as a part of a dma-buf. `ERANGE`: the device
    /// cannot reach it. A bounce buffer (swiotlb) cannot replace it, because no request of a client
    /// tells whether the CPU or the device writes next.
    ///
    /// # Safety
    ///
    /// The page is pinned, and stays so until [`PinnedPages::unmap`].
    pub(super) unsafe fn map(&self, page: *mut bindings::page) -> Result<DmaAddress> {
        // SAFETY: By the caller's contract the page is pinned, so it is a valid page.
        let address = unsafe { physical(page) };
        if !self
            .dev
            .reaches(&(address..address + usize_as_u64(PAGE_SIZE)))
        {
            return Err(ERANGE);
        }
        let reservation = Reservation::new()?;
        self.registry.lock().pin(reservation, address, || {
            let mut dma = 0;
            // SAFETY: By the caller the page is pinned.
            if unsafe { shim::gal_map_page(raw_device(&self.dev), page, &mut dma) } {
                Ok(dma)
            } else {
                Err(ENOMEM)
            }
        })
    }

    /// Ends one use of a page.
    ///
    /// # Safety
    ///
    /// The use is from [`PinnedPages::map`], and the device has finished with it.
    pub(super) unsafe fn unmap(&self, page: *mut bindings::page) {
        let mut registry = self.registry.lock();
        // SAFETY: By the caller's contract the page is still pinned, so it is a valid page.
        let address = unsafe { physical(page) };
        if let Some(dma) = registry.unpin(address) {
            // SAFETY: By the registry this was the last use, and by the caller's contract the
            // device has finished with it. The lock excludes a new mapping of the page meanwhile.
            unsafe { shim::gal_unmap_page(raw_device(&self.dev), dma) };
        }
    }

    /// Notes that the physical `ranges` will be mapped for a dma-buf. `EBUSY`: some are mapped, or
    /// noted by another import that is about to fail.
    pub(super) fn import(&self, ranges: &[Range<u64>]) -> Result {
        let mut reservations = Reservations::new(ranges.len())?;
        for (count, part) in ranges.chunks(PART).enumerate() {
            super::yield_if_due();
            let added = self.registry.lock().import(&mut reservations, part);
            if added.is_err() {
                self.forget(&ranges[..count * PART]);
                return added;
            }
        }
        Ok(())
    }

    /// Undoes [`PinnedPages::import`] after the ranges were unmapped.
    pub(super) fn forget(&self, ranges: &[Range<u64>]) {
        for part in ranges.chunks(PART) {
            super::yield_if_due();
            self.registry.lock().forget(part);
        }
    }
}

/// A large folio with a pinned page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Folio {
    /// Its physical address.
    pub(super) start: u64,
    /// Number of pages, more than one.
    pub(super) pages: usize,
}

/// A folio's physical address, the address of the memory map, and, if there is a limit, the user.
type Key = (u64, usize, Option<u32>);

/// The account of a folio.
struct Whole {
    /// Number of pins of its pages, not 0.
    pins: usize,
    /// Number of pages.
    pages: usize,
}

impl Whole {
    /// How many pages count: all of the folio, or the number of pins if that is larger.
    fn count(&self) -> usize {
        match self.pins {
            0 => 0,
            pins => pins.max(self.pages),
        }
    }
}

struct Sums {
    /// Pages by user. No entry is 0.
    users: RBTree<u32, usize>,
    /// Large folios, whose pages are included in `users`.
    folios: RBTree<Key, Whole>,
}

impl Sums {
    fn new() -> Self {
        Self {
            users: RBTree::new(),
            folios: RBTree::new(),
        }
    }

    /// Adds `count` pages, at least one, to the sum of `user`. `ENOMEM`: the sum exceeds `limit`.
    fn add(
        &mut self,
        room: RBTreeNodeReservation<u32, usize>,
        user: u32,
        count: usize,
        limit: usize,
    ) -> Result {
        let before = self.users.get_mut(&user);
        let sum = before.as_ref().map_or(0, |sum| **sum);
        let sum = sum.checked_add(count).filter(|&sum| sum <= limit);
        let sum = sum.ok_or(ENOMEM)?;
        match before {
            Some(before) => *before = sum,
            None => {
                self.users.insert(room.into_node(user, sum));
            }
        }
        Ok(())
    }

    /// Subtracts `count` pages from the sum of `user`.
    fn remove(&mut self, user: u32, count: usize) {
        let Some(sum) = self.users.get_mut(&user) else {
            return;
        };
        *sum = sum.saturating_sub(count);
        if *sum == 0 {
            self.users.remove(&user);
        }
    }

    /// Adds `pins` pins to a folio of `pages` pages. Returns by how many pages [`Whole::count`]
    /// grows. `ENOMEM`: the sum exceeds `limit`.
    fn join(
        &mut self,
        (room, sum): (
            RBTreeNodeReservation<Key, Whole>,
            RBTreeNodeReservation<u32, usize>,
        ),
        key: Key,
        pages: usize,
        pins: usize,
        limit: usize,
    ) -> Result<usize> {
        let before = self.folios.get(&key);
        let (pins_before, count) = before.map_or((0, 0), |whole| (whole.pins, whole.count()));
        let pins = pins_before.checked_add(pins).ok_or(ENOMEM)?;
        let whole = Whole { pins, pages };
        let added = whole.count().saturating_sub(count);
        if let (Some(user), 1..) = (key.2, added) {
            self.add(sum, user, added, limit)?;
        }
        match self.folios.get_mut(&key) {
            Some(before) => before.pins = pins,
            None => {
                self.folios.insert(room.into_node(key, whole));
            }
        }
        Ok(added)
    }

    /// Removes `pins` pins of a folio. Returns the number of pages for [`Sums::remove`].
    fn leave(&mut self, key: &Key, pins: usize) -> usize {
        let Some(whole) = self.folios.get_mut(key) else {
            return 0;
        };
        let before = whole.count();
        whole.pins = whole.pins.saturating_sub(pins);
        let left = whole.count();
        if left == 0 {
            self.folios.remove(key);
        }
        before.saturating_sub(left)
    }
}

/// Pages that count as locked.
///
/// # Invariants
///
/// `mm` and, if there is a user, `registry` count these `count` pages, in addition to folios.
pub(super) struct Locked {
    mm: ARef<Mm>,
    count: usize,
    registry: Arc<PinnedPages>,
    /// The owner, if there is a limit.
    user: Option<u32>,
}

/// The calling process's limit, in pages.
fn limit() -> usize {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_lock_limit() }
}

impl Locked {
    /// Prepares to account for `wanted` pages of the calling process. `ESRCH`: the caller is a
    /// kernel thread. `E2BIG`: `wanted` alone exceeds the limit.
    pub(super) fn new(registry: &Arc<PinnedPages>, wanted: usize) -> Result<Self> {
        let current = kernel::current!();
        let mm: &Mm = current.mm().ok_or(ESRCH)?;
        let namespace = &raw mut bindings::init_user_ns;
        // SAFETY: Only reads the calling thread, and compares it with the first namespace. Without
        // audit: refusals are usual, because this is called for each pin.
        let is_exempt =
            unsafe { bindings::ns_capable_noaudit(namespace, bindings::CAP_IPC_LOCK as c_int) };
        // Refuses it here: pins up to the limit would make other requests of the user fail.
        if !is_exempt && wanted > limit() {
            return Err(E2BIG);
        }
        // INVARIANT: No pages are counted yet.
        Ok(Self {
            mm: mm.into(),
            count: 0,
            registry: registry.clone(),
            user: (!is_exempt).then(super::user_id),
        })
    }

    /// Adds `pages` to the pinned pages that the memory map shows. As in RDMA, without `mmap_lock`:
    /// the end of a job must not wait for that lock.
    fn show(&self, pages: i64) {
        // SAFETY: This holds a reference, so the memory map is live. The counter is atomic.
        unsafe {
            let map = self.mm.as_raw();
            bindings::atomic64_add(pages, &raw mut (*map).__bindgen_anon_1.pinned_vm)
        };
    }

    fn key(&self, folio: Folio) -> Key {
        // CAST: An address. It is unique, because this holds the memory map.
        (folio.start, self.mm.as_raw() as usize, self.user)
    }

    /// Adds `pins` pins. Pins of a `folio` count with it until [`Locked::leave`], others until this
    /// is dropped. Must be called by the process that created this. `ENOMEM`: no memory, or the
    /// user's limit is exceeded. Then nothing is added.
    pub(super) fn add(&mut self, folio: Option<Folio>, pins: usize) -> Result {
        let sum = RBTreeNodeReservation::new(GFP_CLIENT)?;
        let limit = limit();
        let (mut added, mut count) = (pins, self.count);
        match (folio, self.user) {
            (Some(folio), _) => {
                let room = RBTreeNodeReservation::new(GFP_CLIENT)?;
                let key = self.key(folio);
                let mut sums = self.registry.sums.lock();
                added = sums.join((room, sum), key, folio.pages, pins, limit)?;
            }
            (None, user) => {
                count = count.checked_add(pins).ok_or(ENOMEM)?;
                if let Some(user) = user {
                    self.registry.sums.lock().add(sum, user, pins, limit)?;
                }
            }
        }
        // INVARIANT: Pins without a folio were also counted in `registry`.
        self.count = count;
        // CAST: the pages of one process.
        self.show(added as i64);
        Ok(())
    }

    /// Removes `pins` pins of `folio`, before its pages are released. The pages that
    /// [`Sums::leave`] returns count until this is dropped, which is after the release.
    pub(super) fn leave(&mut self, folio: Folio, pins: usize) {
        let left = self.registry.sums.lock().leave(&self.key(folio), pins);
        // INVARIANT: The folio has counted these pages.
        self.count = self.count.saturating_add(left);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // CAST: the pages of one process.
        self.show(-(self.count as i64));
        if let Some(user) = self.user {
            self.registry.sums.lock().remove(user, self.count);
        }
    }
}

#[kunit_tests(galcore_locked)]
mod tests {
    use super::*;

    fn add(sums: &mut Sums, user: u32, count: usize, limit: usize) -> Result {
        sums.add(RBTreeNodeReservation::new(GFP_KERNEL)?, user, count, limit)
    }

    /// Adds `pins` pins of a folio of 512 pages.
    fn join(sums: &mut Sums, key: Key, pins: usize, limit: usize) -> Result<usize> {
        let reservations = (
            RBTreeNodeReservation::new(GFP_KERNEL)?,
            RBTreeNodeReservation::new(GFP_KERNEL)?,
        );
        sums.join(reservations, key, 512, pins, limit)
    }

    #[test]
    fn a_user_has_one_limit() {
        let mut sums = Sums::new();
        assert!(add(&mut sums, 1000, 6, 8).is_ok());
        assert_eq!(add(&mut sums, 1000, 3, 8), Err(ENOMEM));
        assert!(add(&mut sums, 1000, 2, 8).is_ok());
        // Each user has a limit, which can change.
        assert!(add(&mut sums, 1001, 8, 8).is_ok());
        assert_eq!(add(&mut sums, 1000, 1, 4), Err(ENOMEM));
        assert!(add(&mut sums, 1000, 1, 9).is_ok());
        assert_eq!(add(&mut sums, 1000, usize::MAX, usize::MAX), Err(ENOMEM));
        sums.remove(1000, 9);
        sums.remove(1001, 7);
        assert!(sums.users.get(&1000).is_none());
        assert_eq!(sums.users.get(&1001), Some(&1));
    }

    #[test]
    fn a_folio_counts_whole_and_once() {
        let mut sums = Sums::new();
        let (first, second) = ((0, 1, Some(1000)), (1 << 21, 1, Some(1000)));
        assert_eq!(join(&mut sums, first, 1, 600), Ok(512));
        assert_eq!(join(&mut sums, first, 80, 600), Ok(0));
        assert_eq!(sums.users.get(&1000), Some(&512));
        // Refused pins do not count.
        assert_eq!(join(&mut sums, second, 1, 600), Err(ENOMEM));
        assert_eq!(sums.users.get(&1000), Some(&512));
        // At the limit, further pages of a counted folio add nothing.
        assert_eq!(join(&mut sums, first, 1, 512), Ok(0));
        assert_eq!(sums.leave(&first, 1), 0);
        // All pages of one, and then each of them twice.
        assert_eq!(join(&mut sums, second, 512, 1024), Ok(512));
        assert_eq!(sums.leave(&second, 512), 512);
        sums.remove(1000, 512);
        assert_eq!(join(&mut sums, second, 1023, 2048), Ok(1023));
        assert_eq!(join(&mut sums, second, 1, 2048), Ok(1));
        assert_eq!(join(&mut sums, second, 600, 2048), Err(ENOMEM));
        assert_eq!(sums.users.get(&1000), Some(&1536));
        assert_eq!(sums.leave(&second, 1023), 512);
        assert_eq!(sums.leave(&second, 1), 512);
        assert_eq!(sums.leave(&second, 1), 0);
        sums.remove(1000, 512);
        assert_eq!(sums.users.get(&1000), Some(&1024));
        sums.remove(1000, 512);
        assert_eq!(sums.leave(&first, 80), 0);
        assert_eq!(sums.leave(&first, 1), 512);
        sums.remove(1000, 512);
        assert!(sums.users.get(&1000).is_none());
    }

    #[test]
    fn each_process_counts_a_folio() {
        let mut sums = Sums::new();
        for key in [(0, 1, Some(1000)), (0, 2, Some(1000)), (0, 3, Some(1001))] {
            assert_eq!(join(&mut sums, key, 1, 1024), Ok(512));
        }
        assert_eq!(
            join(&mut sums, (0, 4, Some(1000)), 1, 1024).err(),
            Some(ENOMEM)
        );
        // Pins without a limit do not count for pins with one.
        assert_eq!(join(&mut sums, (0, 1, None), 1, 0), Ok(512));
        assert_eq!(sums.users.get(&1000), Some(&1024));
        assert_eq!(sums.leave(&(0, 1, None), 1), 512);
        assert_eq!(sums.leave(&(0, 3, Some(1001)), 1), 512);
    }
}
