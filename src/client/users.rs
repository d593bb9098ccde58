// SPDX-License-Identifier: GPL-2.0-only

//! The users of a device: limits that all processes of a user share.
//!
//! [`sys::user_id`] identifies a user: in user namespaces, the maker of the outermost one, or if
//! that is root, the user of its ID 0. Each has an entry of its own, so no user delays another. The
//! entry lasts while the user has a process with the device open, and until its failed look-ups
//! ([`super::lookups`]) are paid off. At most [`MAX_DEBTORS`] users without processes have one.
//!
//! Lock: `galcore users`, a leaf.

use crate::sys;
use crate::sys::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};

/// The most accounts without processes. One more removes the account with the smallest debt.
const MAX_DEBTORS: usize = 256;

/// A user's account.
struct Entry {
    /// The time, by the monotonic clock, at which the user is free of debt.
    free_at: Arc<Atomic<u64>>,
    /// Number of [`Member`]s.
    members: usize,
}

impl Entry {
    /// The debt at `now`, in nanoseconds.
    fn debt(&self, now: u64) -> u64 {
        self.free_at.load(Relaxed).saturating_sub(now)
    }
}

/// Preallocated memory for an account.
struct Reservation(Arc<Atomic<u64>>, RBTreeNodeReservation<u32, Entry>);

impl Reservation {
    fn new() -> Result<Self> {
        let free_at = Arc::new(Atomic::new(0), sys::GFP_CLIENT)?;
        let node = RBTreeNodeReservation::new(sys::GFP_CLIENT)?;
        Ok(Self(free_at, node))
    }
}

/// Accounts by user id.
struct Accounts(RBTree<u32, Entry>);

impl Accounts {
    /// Adds a member of `user`. Takes `spare` if the user has no account. `EAGAIN`: the user already
    /// has `limit` members.
    fn enter(
        &mut self,
        user: u32,
        limit: usize,
        now: u64,
        spare: &mut Option<Reservation>,
    ) -> Result<Arc<Atomic<u64>>> {
        if let Some(entry) = self.0.get_mut(&user) {
            if entry.members >= limit {
                return Err(EAGAIN);
            }
            entry.members += 1;
            return Ok(entry.free_at.clone());
        }
        self.forget_debtors(now);
        let Reservation(free_at, node) = spare.take().ok_or(ENOMEM)?;
        let entry = Entry {
            free_at: free_at.clone(),
            members: 1,
        };
        self.0.insert(node.into_node(user, entry));
        Ok(free_at)
    }

    /// Removes a member of `user`.
    fn leave(&mut self, user: u32, now: u64) {
        let Some(entry) = self.0.get_mut(&user) else {
            return;
        };
        entry.members -= 1;
        if entry.members == 0 && entry.debt(now) == 0 {
            self.0.remove(&user);
        }
    }

    /// Makes room for one more user without members.
    fn forget_debtors(&mut self, now: u64) {
        // Bounded: each round but the last removes an account.
        loop {
            let (mut count, mut least) = (0, None);
            for (&user, entry) in &self.0 {
                if entry.members == 0 {
                    let debt = entry.debt(now);
                    count += 1;
                    least = least.min(Some((debt, user))).or(Some((debt, user)));
                }
            }
            match least {
                Some((debt, user)) if debt == 0 || count >= MAX_DEBTORS => {
                    self.0.remove(&user);
                }
                _ => return,
            }
        }
    }
}

/// The users of a device.
#[pin_data]
pub(crate) struct Users {
    #[pin]
    accounts: Mutex<Accounts>,
}

impl Users {
    /// No users.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            accounts <- new_mutex!(Accounts(RBTree::new()), "galcore users"),
        })
    }

    /// Adds a process of the calling user. `EAGAIN`: the user has `limit` processes, and is no
    /// administrator. `ENOMEM`.
    pub(super) fn enter_process(self: &Arc<Self>, limit: usize) -> Result<Member> {
        self.enter(match sys::is_admin() {
            true => usize::MAX,
            false => limit,
        })
    }

    /// The calling user. It need not have a process. `ENOMEM`.
    pub(super) fn caller(self: &Arc<Self>) -> Result<Member> {
        self.enter(usize::MAX)
    }

    fn enter(self: &Arc<Self>, limit: usize) -> Result<Member> {
        let user = sys::user_id();
        let now = sys::monotonic_ns();
        // Allocate without the lock, because all users take it: a process at the limit of its
        // cgroup may take long.
        let mut spare = Some(Reservation::new()?);
        let free_at = self.accounts.lock().enter(user, limit, now, &mut spare)?;
        Ok(Member {
            users: self.clone(),
            user,
            free_at,
        })
    }
}

/// Keeps a user's account while a process exists or a call runs.
pub(super) struct Member {
    users: Arc<Users>,
    user: u32,
    free_at: Arc<Atomic<u64>>,
}

impl Member {
    /// The time, by the monotonic clock, at which the user is free of debt.
    pub(super) fn free_at(&self) -> &Atomic<u64> {
        &self.free_at
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let now = sys::monotonic_ns();
        self.users.accounts.lock().leave(self.user, now);
    }
}
