// SPDX-License-Identifier: GPL-2.0-only

//! Pages that the device pins in processes, counted against RLIMIT_MEMLOCK.
//!
//! The limit is a process's, but what counts is the sum of all that its user has pinned, as with
//! io_uring: a process can end and leave its pins to a file that others have. Like those of all
//! processes with `CAP_IPC_LOCK` such pins would count nowhere else. Each memory map shows its own
//! as `VmPin`.
//!
//! A page of a large folio (a huge page) keeps the whole folio, also when the process has unmapped
//! all else of it. So a folio counts with all its pages, once for each process that has pinned some,
//! and these do not count besides: only pins beyond as many, which take room in the GPU's address
//! space all the same.
//!
//! Lock: `galcore locked pages`, a leaf. Memory for entries is allocated before it is taken.

use super::{
    shim,
    GFP_CLIENT, //
};
use kernel::{
    mm::Mm,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        aref::ARef,
        new_mutex,
        Arc,
        Mutex, //
    }, //
};

/// A large folio, of which a page is pinned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Folio {
    /// Its physical address.
    pub(super) start: u64,
    /// How many it has, more than one.
    pub(super) pages: usize,
}

/// For whom a folio counts: its physical address, the address of the memory map, and the user, if
/// there is a limit.
type Key = (u64, usize, Option<u32>);

/// A folio that counts.
struct Whole {
    /// How often its pages are pinned, not 0.
    pins: usize,
    /// How many it has.
    pages: usize,
}

impl Whole {
    /// As how many pages it counts: as all of its own while one is pinned, and as more if these are
    /// pinned more often.
    fn count(&self) -> usize {
        match self.pins {
            0 => 0,
            pins => pins.max(self.pages),
        }
    }
}

/// What is pinned.
struct Sums {
    /// Pages, by the users that have pinned them. None has 0.
    users: RBTree<u32, usize>,
    /// Large folios, whose pages are part of those.
    folios: RBTree<Key, Whole>,
}

impl Sums {
    fn new() -> Self {
        Self {
            users: RBTree::new(),
            folios: RBTree::new(),
        }
    }

    /// Adds `count` pages, at least one, of `user`. `ENOMEM`: more than `limit` in all.
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

    /// Takes `count` of them back.
    fn remove(&mut self, user: u32, count: usize) {
        let Some(sum) = self.users.get_mut(&user) else {
            return;
        };
        *sum = sum.saturating_sub(count);
        if *sum == 0 {
            self.users.remove(&user);
        }
    }

    /// Adds `pins` pins of a folio of `pages` pages. How many pages that has added: see
    /// [`Whole::count`]. `ENOMEM`: more than `limit` in all.
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

    /// Takes `pins` pins of a folio back. How many pages are left that [`Sums::remove`] takes back.
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

/// What all users have pinned for one device.
#[pin_data]
pub(super) struct Accounts {
    #[pin]
    sums: Mutex<Sums>,
}

impl Accounts {
    /// No page is locked.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sums <- new_mutex!(Sums::new(), "galcore locked pages"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Pages that count as locked.
///
/// # Invariants
///
/// `count` pages are counted in `mm` and, if there is a user, in `accounts`, besides folios.
pub(super) struct Locked {
    mm: ARef<Mm>,
    count: usize,
    accounts: Arc<Accounts>,
    /// Whose they are, if there is a limit.
    user: Option<u32>,
}

/// How many pages the calling process may lock.
fn limit() -> usize {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_lock_limit() }
}

impl Locked {
    /// None yet of `wanted` pages of the calling process, nor of its user. `ESRCH`: it is no process.
    /// `E2BIG`: that number exceeds its limit in any case.
    pub(super) fn new(accounts: &Arc<Accounts>, wanted: usize) -> Result<Self> {
        let current = kernel::current!();
        let mm: &Mm = current.mm().ok_or(ESRCH)?;
        // SAFETY: Only looks at the calling thread.
        let is_exempt = unsafe { shim::gal_may_lock_all() };
        // Those that were pinned on the way to a refusal would keep out others of the user's.
        if !is_exempt && wanted > limit() {
            return Err(E2BIG);
        }
        // INVARIANT: None.
        Ok(Self {
            mm: mm.into(),
            count: 0,
            accounts: accounts.clone(),
            user: (!is_exempt).then(super::user_id),
        })
    }

    fn key(&self, folio: Folio) -> Key {
        // CAST: An address. No other memory map has it while this one is held.
        (folio.start, self.mm.as_raw() as usize, self.user)
    }

    /// `pins` more pages are pinned: all of `folio`, which count as that does until
    /// [`Locked::leave`], or of none, which count until this goes. Called by the process that has
    /// made this. `ENOMEM`: that exceeds the user's limit, or no memory; they do not count.
    pub(super) fn add(&mut self, folio: Option<Folio>, pins: usize) -> Result {
        let sum = RBTreeNodeReservation::new(GFP_CLIENT)?;
        let limit = limit();
        let (mut added, mut count) = (pins, self.count);
        match (folio, self.user) {
            (Some(folio), _) => {
                let room = RBTreeNodeReservation::new(GFP_CLIENT)?;
                let key = self.key(folio);
                let mut sums = self.accounts.sums.lock();
                added = sums.join((room, sum), key, folio.pages, pins, limit)?;
            }
            (None, user) => {
                count = count.checked_add(pins).ok_or(ENOMEM)?;
                if let Some(user) = user {
                    self.accounts.sums.lock().add(sum, user, pins, limit)?;
                }
            }
        }
        // INVARIANT: Those of no folio are counted here and there.
        self.count = count;
        // SAFETY: A reference is held, so the memory map is live.
        unsafe { shim::gal_add_pinned(self.mm.as_raw(), added) };
        Ok(())
    }

    /// Takes `pins` pins of `folio` back that count, before its pages are released. If they
    /// were the last, the folio's pages count here: it may be released only after they leave it, and
    /// they count until this goes.
    pub(super) fn leave(&mut self, folio: Folio, pins: usize) {
        let left = self.accounts.sums.lock().leave(&self.key(folio), pins);
        // INVARIANT: Those that the folio has counted.
        self.count = self.count.saturating_add(left);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; a reference is held.
        unsafe { shim::gal_remove_pinned(self.mm.as_raw(), self.count) };
        if let Some(user) = self.user {
            self.accounts.sums.lock().remove(user, self.count);
        }
    }
}

#[kunit_tests(galcore_locked)]
mod tests {
    use super::*;

    fn add(sums: &mut Sums, user: u32, count: usize, limit: usize) -> Result {
        sums.add(RBTreeNodeReservation::new(GFP_KERNEL)?, user, count, limit)
    }

    /// Adds `pins` pages, and has them join a folio of 512.
    fn join(sums: &mut Sums, key: Key, pins: usize, limit: usize) -> Result<usize> {
        let rooms = (
            RBTreeNodeReservation::new(GFP_KERNEL)?,
            RBTreeNodeReservation::new(GFP_KERNEL)?,
        );
        sums.join(rooms, key, 512, pins, limit)
    }

    #[test]
    fn a_user_has_one_limit() {
        let mut sums = Sums::new();
        assert!(add(&mut sums, 1000, 6, 8).is_ok());
        assert_eq!(add(&mut sums, 1000, 3, 8), Err(ENOMEM));
        assert!(add(&mut sums, 1000, 2, 8).is_ok());
        // Others have theirs; and a limit can be changed.
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
        // What is refused does not count.
        assert_eq!(join(&mut sums, second, 1, 600), Err(ENOMEM));
        assert_eq!(sums.users.get(&1000), Some(&512));
        // At the limit the rest of the first one is for nothing.
        assert_eq!(join(&mut sums, first, 1, 512), Ok(0));
        assert_eq!(sums.leave(&first, 1), 0);
        // All of one, and each of its pages twice.
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
        // Those without a limit do not count for those with one.
        assert_eq!(join(&mut sums, (0, 1, None), 1, 0), Ok(512));
        assert_eq!(sums.users.get(&1000), Some(&1024));
        assert_eq!(sums.leave(&(0, 1, None), 1), 512);
        assert_eq!(sums.leave(&(0, 3, Some(1001)), 1), 512);
    }
}
