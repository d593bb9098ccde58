// SPDX-License-Identifier: GPL-2.0-only

//! The rate limit on failed look-ups of names of nodes and ids of shared buffers
//! ([`super::names`]).
//!
//! A name is a capability: a process that knows it gets the object. So trial and error must not
//! find names. Each user ([`super::users`]) has [`FREE_TRIES`] failed look-ups, and then one for
//! each [`COST`]. The limit is for users, because a user can start any number of processes. The
//! cost is charged before the look-up, and refunded if the name exists. So a process cannot avoid
//! it by being killed. A user that only asks for existing names never waits, whatever other users
//! do. The system's administrator, who can read all memory, does not pay.

use super::users::Users;
use crate::{
    log::{
        warn_client,
        RateLimit, //
    },
    prelude::*,
    sys, //
};

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
pub(super) fn look_up<T>(users: &Arc<Users>, look: impl FnOnce() -> Result<T>) -> Result<T> {
    let user = users.caller()?;
    let account = user.free_at();
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
                    warn_client!(
                        FAILURES,
                        "{} has tried many names of nodes or shared buffers that nothing has: from now on \
                         it waits before each",
                        sys::CommandName::of_caller()
                    );
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
