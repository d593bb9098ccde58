// SPDX-License-Identifier: GPL-2.0-only

//! The users of a device: what counts for all processes of one together.
//!
//! A user is [`sys::user_id`]'s: within a user namespace, the user who made that. Each has an entry
//! of its own, so that one user's account never holds another user up. An entry lasts as long as the
//! user has a process here, and then until what it owes for failed look-ups ([`super::guesses`]) is
//! paid, which takes seconds. Of users without processes at most [`MAX_DEBTORS`] have an entry.
//!
//! Lock: `galcore users`, a leaf.

use crate::sys;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Users without processes who may owe something. One more, and the one who owes the least is
/// forgiven.
const MAX_DEBTORS: usize = 256;

/// One user's account.
struct Entry {
    /// When all that the user owes is paid, by the monotonic clock.
    paid: Arc<Atomic<u64>>,
    /// How many [`Member`]s there are.
    members: usize,
}

impl Entry {
    /// What is not paid at `now`, in nanoseconds.
    fn owed(&self, now: u64) -> u64 {
        self.paid.load(Relaxed).saturating_sub(now)
    }
}

/// Memory for an account.
struct Room(Arc<Atomic<u64>>, RBTreeNodeReservation<u32, Entry>);

impl Room {
    fn new() -> Result<Self> {
        let paid = Arc::new(Atomic::new(0), sys::GFP_CLIENT)?;
        let node = RBTreeNodeReservation::new(sys::GFP_CLIENT)?;
        Ok(Self(paid, node))
    }
}

/// The accounts, by the users' numbers.
struct Accounts(RBTree<u32, Entry>);

impl Accounts {
    /// One member more of `user`, `limit` at most; `room` is taken if it has no account. `EAGAIN`:
    /// there are as many.
    fn enter(
        &mut self,
        user: u32,
        limit: usize,
        now: u64,
        room: &mut Option<Room>,
    ) -> Result<Arc<Atomic<u64>>> {
        if let Some(entry) = self.0.get_mut(&user) {
            if entry.members >= limit {
                return Err(EAGAIN);
            }
            entry.members += 1;
            return Ok(entry.paid.clone());
        }
        self.forget_debtors(now);
        let Room(paid, node) = room.take().ok_or(ENOMEM)?;
        let entry = Entry {
            paid: paid.clone(),
            members: 1,
        };
        self.0.insert(node.into_node(user, entry));
        Ok(paid)
    }

    /// One member less of `user`.
    fn leave(&mut self, user: u32, now: u64) {
        let Some(entry) = self.0.get_mut(&user) else {
            return;
        };
        entry.members -= 1;
        if entry.members == 0 && entry.owed(now) == 0 {
            self.0.remove(&user);
        }
    }

    /// Makes room for one more user without members.
    fn forget_debtors(&mut self, now: u64) {
        // Ends: each round but the last removes one.
        loop {
            let (mut count, mut least) = (0, None);
            for (&user, entry) in &self.0 {
                if entry.members == 0 {
                    let owed = entry.owed(now);
                    count += 1;
                    least = least.min(Some((owed, user))).or(Some((owed, user)));
                }
            }
            match least {
                Some((owed, user)) if owed == 0 || count >= MAX_DEBTORS => {
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
    /// None yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            accounts <- new_mutex!(Accounts(RBTree::new()), "galcore users"),
        })
    }

    /// A process more of the calling user. `EAGAIN`: it has `limit`, and is not the administrator.
    /// `ENOMEM`.
    pub(super) fn enter_process(self: &Arc<Self>, limit: usize) -> Result<Member> {
        self.enter(match sys::is_admin() {
            true => usize::MAX,
            false => limit,
        })
    }

    /// The calling user, whether it has a process here or not. `ENOMEM`.
    pub(super) fn caller(self: &Arc<Self>) -> Result<Member> {
        self.enter(usize::MAX)
    }

    fn enter(self: &Arc<Self>, limit: usize) -> Result<Member> {
        let user = sys::user_id();
        let now = sys::monotonic_ns();
        // Before the lock, which all users take: a process at its cgroup's limit may take long.
        let mut room = Some(Room::new()?);
        let paid = self.accounts.lock().enter(user, limit, now, &mut room)?;
        Ok(Member {
            users: self.clone(),
            user,
            paid,
        })
    }
}

/// What keeps a user's account: a process, or a call.
pub(super) struct Member {
    users: Arc<Users>,
    user: u32,
    paid: Arc<Atomic<u64>>,
}

impl Member {
    /// When all that the user owes is paid, by the monotonic clock.
    pub(super) fn paid(&self) -> &Atomic<u64> {
        &self.paid
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let now = sys::monotonic_ns();
        self.users.accounts.lock().leave(self.user, now);
    }
}
