// SPDX-License-Identifier: GPL-2.0-only

//! Pages that the device pins in processes, counted against RLIMIT_MEMLOCK.
//!
//! The limit is a process's, but what counts is the sum of all that its user has pinned, as with
//! io_uring: a process can end and leave its pins to a file that others have. Like those of all
//! processes with `CAP_IPC_LOCK` such pins would count nowhere else. Each memory map shows its own
//! as `VmPin`.
//!
//! Lock: `galcore locked pages`, a leaf.

use super::shim;
use kernel::{
    mm::Mm,
    prelude::*,
    rbtree::RBTree,
    sync::{
        aref::ARef,
        new_mutex,
        Arc,
        Mutex, //
    }, //
};

/// Pages that are pinned, by the users that have pinned them. None has 0.
struct Sums(RBTree<u32, usize>);

impl Sums {
    /// Adds `count` pages, at least one, of `user`. `ENOMEM`: more than `limit` in all, or no
    /// memory.
    fn add(&mut self, user: u32, count: usize, limit: usize) -> Result {
        let before = self.0.get_mut(&user);
        let sum = before.as_ref().map_or(0, |sum| **sum);
        let sum = sum.checked_add(count).filter(|&sum| sum <= limit);
        let sum = sum.ok_or(ENOMEM)?;
        match before {
            Some(before) => *before = sum,
            None => {
                self.0.try_create_and_insert(user, sum, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Takes `count` of them back.
    fn remove(&mut self, user: u32, count: usize) {
        let Some(sum) = self.0.get_mut(&user) else {
            return;
        };
        *sum = sum.saturating_sub(count);
        if *sum == 0 {
            self.0.remove(&user);
        }
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
                sums <- new_mutex!(Sums(RBTree::new()), "galcore locked pages"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Pages that count as locked.
///
/// # Invariants
///
/// `count` pages are counted in `mm`.
pub(super) struct Locked {
    mm: ARef<Mm>,
    count: usize,
    /// Where they count against the limit, and whose they are.
    account: Option<(Arc<Accounts>, u32)>,
}

impl Locked {
    /// Counts `count` pages, at least one, for the calling process and its user, until this goes.
    /// `ENOMEM`: that exceeds the user's limit of locked pages. `ESRCH`: it is no process.
    pub(super) fn new(accounts: &Arc<Accounts>, count: usize) -> Result<Self> {
        let current = kernel::current!();
        let mm: &Mm = current.mm().ok_or(ESRCH)?;
        // SAFETY: Only look at the calling thread.
        let (limit, is_exempt) = unsafe { (shim::gal_lock_limit(), shim::gal_may_lock_all()) };
        let account = match is_exempt {
            true => None,
            false => {
                let user = super::user_id();
                accounts.sums.lock().add(user, count, limit)?;
                Some((accounts.clone(), user))
            }
        };
        // SAFETY: The memory map is the caller's own.
        unsafe { shim::gal_add_pinned(mm.as_raw(), count) };
        // INVARIANT: Counted just now.
        Ok(Self {
            mm: mm.into(),
            count,
            account,
        })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; a reference is held.
        unsafe { shim::gal_remove_pinned(self.mm.as_raw(), self.count) };
        if let Some((accounts, user)) = &self.account {
            accounts.sums.lock().remove(*user, self.count);
        }
    }
}

#[kunit_tests(galcore_locked)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_limit() {
        let mut sums = Sums(RBTree::new());
        assert!(sums.add(1000, 6, 8).is_ok());
        assert_eq!(sums.add(1000, 3, 8), Err(ENOMEM));
        assert!(sums.add(1000, 2, 8).is_ok());
        // Others have theirs; and a limit can be changed.
        assert!(sums.add(1001, 8, 8).is_ok());
        assert_eq!(sums.add(1000, 1, 4), Err(ENOMEM));
        assert!(sums.add(1000, 1, 9).is_ok());
        assert_eq!(sums.add(1000, usize::MAX, usize::MAX), Err(ENOMEM));
        sums.remove(1000, 9);
        sums.remove(1001, 7);
        assert!(sums.0.get(&1000).is_none());
        assert_eq!(sums.0.get(&1001), Some(&1));
    }
}
