// SPDX-License-Identifier: GPL-2.0-only

//! The users of a device: limits that all processes of a user share.
//!
//! [`sys::user_id`] identifies a user: in user namespaces, the maker of the outermost one, or if
//! that is root, the user of its ID 0. Each has an entry of its own, so no user delays another. The
//! entry lasts while the user has a process with the device open, and until its failed look-ups are
//! paid off. At most [`MAX_DEBTORS`] users without processes have one.
//!
//! [`look_up`] limits failed look-ups of names of nodes and ids of shared buffers
//! ([`super::name`]). A name is a capability: a process that knows it gets the object. So trial
//! and error must not find names. Each user has [`FREE_TRIES`] failed look-ups, and then one for
//! each [`COST`]. The limit is for users, because a user can start any number of processes. The
//! cost is charged before the look-up, and refunded if the name exists. So a process cannot avoid
//! it by being killed. A user that only asks for existing names never waits, whatever other users
//! do. The system's administrator, who can read all memory, does not pay.
//!
//! Lock: `galcore users`, a leaf.

use crate::{
    error::{
        self,
        Error, //
    },
    log::{
        warn_client,
        RateLimit, //
    },
    sys::{
        self,
        prelude::*, //
    }, //
};

/// The most accounts without processes. One more removes the account with the smallest debt.
const MAX_DEBTORS: usize = 256;

/// A user's account.
pub(super) struct Entry {
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
pub(super) struct Accounts(RBTree<u32, Entry>);

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
pub(super) type Users = Mutex<Accounts>;

/// No users.
pub(super) fn none() -> impl PinInit<Users> {
    new_mutex!(Accounts(RBTree::new()), "galcore users")
}

/// Adds a process of the calling user. `EAGAIN`: the user has `limit` processes, and is no
/// administrator. `ENOMEM`.
pub(super) fn enter_process(users: &Arc<Users>, limit: usize) -> Result<Member> {
    enter(users, if sys::is_admin() { usize::MAX } else { limit })
}

/// A member of the calling user, which need not have a process.
fn enter(users: &Arc<Users>, limit: usize) -> Result<Member> {
    let user = sys::user_id();
    let now = sys::monotonic_ns();
    // Allocate without the lock, because all users take it: a process at the limit of its
    // cgroup may take long.
    let mut spare = Some(Reservation::new()?);
    let free_at = users.lock().enter(user, limit, now, &mut spare)?;
    Ok(Member {
        users: users.clone(),
        user,
        free_at,
    })
}

/// Keeps a user's account while a process exists or a call runs.
pub(super) struct Member {
    users: Arc<Users>,
    user: u32,
    /// The time, by the monotonic clock, at which the user is free of debt.
    free_at: Arc<Atomic<u64>>,
}

impl Drop for Member {
    fn drop(&mut self) {
        let now = sys::monotonic_ns();
        self.users.lock().leave(self.user, now);
    }
}

/// The cost of a failed look-up, in nanoseconds: 200 ms.
const COST: u64 = 200_000_000;

/// Number of failed look-ups before the first wait.
const FREE_TRIES: u64 = 64;

/// The largest debt, in nanoseconds, that causes no wait.
const CREDIT: u64 = FREE_TRIES * COST;

/// Binary logarithm of the nanoseconds of about a millisecond.
const MILLISECOND: u32 = 20;

static FAILURES: RateLimit = RateLimit::new();

/// Charges a look-up at `now` to an account that is free of debt at `free_at`. Returns the new time
/// at which it is free of debt, or how long to wait before the next attempt.
fn charge(free_at: u64, now: u64) -> Result<u64, u64> {
    let debt = free_at.saturating_sub(now);
    match debt.saturating_add(COST).checked_sub(CREDIT) {
        Some(wait) if wait > 0 => Err(wait),
        _ => Ok(free_at.max(now).saturating_add(COST)),
    }
}

/// Looks up a name with `look`. If that returns `NotFound`, the calling user, one of `users`, pays.
///
/// `Interrupted`: a Unix signal interrupts the wait. `OutOfMemory`.
pub(super) fn look_up<T>(
    users: &Arc<Users>,
    look: impl FnOnce() -> error::Result<T>,
) -> error::Result<T> {
    let user = enter(users, usize::MAX)?;
    let account = &user.free_at;
    let mut is_told = false;
    // Each round waits, or another thread of the user was faster. A Unix signal ends the loop.
    loop {
        let (free_at, now) = (account.load(Relaxed), sys::monotonic_ns());
        match charge(free_at, now) {
            Ok(then) => {
                if account.cmpxchg(free_at, then, Relaxed).is_ok() {
                    break;
                }
            }
            Err(_) if sys::is_admin() => return look(),
            Err(wait) => {
                if !core::mem::replace(&mut is_told, true) {
                    warn_client!(FAILURES:
                        "{} has tried many names that no node or shared buffer has: from now on it waits before each",
                        sys::CommandName::of_caller());
                }
                // CAST: at most [`CREDIT`], in milliseconds.
                sys::sleep((wait >> MILLISECOND) as u32 + 1).map_err(|_| Error::Interrupted)?;
            }
        }
    }
    let found = look();
    if !matches!(found, Err(Error::NotFound)) || sys::is_admin() {
        account.fetch_sub(COST, Relaxed);
    }
    found
}

#[kernel::macros::kunit_tests(galcore_lookups)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_free_and_then_one_for_each_cost() {
        let start = 1000 * COST;
        let mut free_at = 0;
        for _ in 0..FREE_TRIES {
            free_at = charge(free_at, start).unwrap();
        }
        assert_eq!(charge(free_at, start), Err(COST));
        assert_eq!(charge(free_at, start + COST / 2), Err(COST / 2));
        let mut tries = 0;
        let mut now = start;
        // A caller that never pauses, over the time of 100 costs.
        while now < start + 100 * COST {
            if let Ok(then) = charge(free_at, now) {
                free_at = then;
                tries += 1;
            }
            now += COST / 8;
        }
        assert_eq!(tries, 99);
    }

    #[test]
    fn what_is_given_back_was_never_paid() {
        let now = 7 * COST;
        let mut free_at = 0;
        for _ in 0..10 * FREE_TRIES {
            free_at = charge(free_at, now).unwrap() - COST;
        }
        assert_eq!(free_at, now);
        assert_eq!(charge(u64::MAX, 0).err(), Some(u64::MAX - CREDIT));
    }
}
