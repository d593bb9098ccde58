// SPDX-License-Identifier: GPL-2.0-only

//! Who has hung cores lately, and what that costs: the records of it, which outlive files and
//! processes.
//!
//! A hang costs all others the time until it is noticed, so whoever causes hangs must not get as
//! many as he likes. There are two kinds of accounts:
//!
//! * of each *process* that has hung a core. It is the process's, not its files': who closes and
//!   opens the device again, or runs another program in the same process, finds it as it was. At
//!   [`MAX_HANGS`] the process is refused; so is only who has done it himself.
//! * of its *user*, as a new process costs nothing: all processes that he has started since his
//!   first hang that is not forgiven wait in front of their commands, as long as if they had caused
//!   all of them. Else one would fork, or start the program again, after each. They are not
//!   refused, for most may be innocent: the wait is counted from the last hang and below a minute,
//!   and when it is over they run as fast as any. What was open before and has never hung a core
//!   does not wait at all, so a desktop goes on beside one bad program. Only when there are more
//!   hangs than one process can cause do these wait, too, a few seconds each time ([`OLD_WAIT`]):
//!   they may be the next ones of many that were opened in advance.
//!
//! Other users never wait. Processes that have `CAP_SYS_ADMIN` when they submit have no user's
//! account: they can stop the machine by other means, and where all programs are root's none
//! is to wait for another. One hang is forgiven for each [`GOOD_TIME`] without any, in both.
//!
//! Both tables are bounded. If one is full, who has hung nothing for the longest time is forgotten.
//! That takes hangs of as many others within a few minutes; a user's account is with each of his
//! hangs the newest, so his own processes do not push it out.
//!
//! Pure logic, but for the lock (`galcore guilt`, a leaf).

use crate::sys;
use kernel::{
    prelude::*,
    sync::{
        new_spinlock,
        SpinLock, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    }, //
};

/// The wait behind the second hang, in milliseconds; each further one doubles it.
const FIRST_WAIT: u32 = 100;

/// Hangs after which a process's commands are refused.
pub(super) const MAX_HANGS: u32 = 8;

/// Hangs that an account holds at most: the wait behind them is 51 s.
const MAX_OWED: u32 = 11;

/// Hangs whose wait is the longest for who was there before and has caused none: it is 6.4 s.
const OLD_WAIT: u32 = 8;

/// How long it takes without a hang until one is forgiven, in milliseconds.
const GOOD_TIME: u32 = 60_000;

/// Accounts of processes, and of users.
const PROCESSES: usize = 64;
const USERS: usize = 32;

/// A process, as no other is as long as the machine runs: its id, and when it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId(pub(super) i32, pub(super) u64);

/// Who may have caused hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Person {
    /// The process.
    pub(super) process: ProcessId,
    /// The user that it is on account of; `None`: of nobody's.
    pub(super) user: Option<u32>,
    /// When it has opened the device, in jiffies.
    pub(super) since: u64,
}

/// Hangs that are not forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    /// How many, when the last one came.
    owed: u32,
    /// When the first one of them came, in jiffies.
    first: u64,
    /// When the last one came.
    last: u64,
}

impl Account {
    /// How many hangs are not forgiven at `now`.
    fn owed(&self, now: u64) -> u32 {
        // A time that is more than 32 bits is long enough.
        let quiet = u32::try_from(now.saturating_sub(self.last)).unwrap_or(u32::MAX);
        self.owed.saturating_sub(quiet / ticks(GOOD_TIME))
    }

    /// One hang more.
    fn charge(&mut self, now: u64) {
        let owed = self.owed(now);
        if owed == 0 {
            self.first = now;
        }
        self.owed = (owed + 1).min(MAX_OWED);
        self.last = now;
    }

    /// How many jiffies are left at `now` of the wait behind `owed` hangs.
    fn left(&self, owed: u32, now: u64) -> u64 {
        let wait = u64::from(ticks(wait_for(owed)));
        wait.saturating_sub(now.saturating_sub(self.last))
    }
}

/// Accounts, by whose they are.
struct Table<K, const N: usize>([Option<(K, Account)>; N]);

impl<K: Copy + PartialEq, const N: usize> Table<K, N> {
    const fn new() -> Self {
        Self([const { None }; N])
    }

    /// That of `who`, if there is something in it.
    fn get(&self, who: K, now: u64) -> Option<Account> {
        let mut all = self.0.iter().flatten();
        let (_, account) = all.find(|(other, _)| *other == who)?;
        (account.owed(now) > 0).then_some(*account)
    }

    /// One hang more for `who`; returns the account.
    fn charge(&mut self, who: K, now: u64) -> Account {
        let known = self
            .0
            .iter()
            .position(|slot| slot.is_some_and(|(other, _)| other == who));
        let quiet = |slot: &Option<(K, Account)>| match slot {
            Some((_, account)) => now.saturating_sub(account.last),
            None => u64::MAX,
        };
        let oldest = || {
            let slots = self.0.iter().enumerate();
            slots.max_by_key(|(_, slot)| quiet(slot)).map(|(at, _)| at)
        };
        let nobodys = Account {
            owed: 0,
            first: now,
            last: now,
        };
        let mut account = nobodys;
        if let Some(slot) = known.or_else(oldest).and_then(|at| self.0.get_mut(at)) {
            if let Some((_, before)) = slot.filter(|(other, _)| *other == who) {
                account = before;
            }
            account.charge(now);
            *slot = Some((who, account));
        }
        account
    }
}

/// What is due in front of a process's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// They wait: for its own hangs, or, if this is so, for those of others of its user.
    Wait(bool),
    /// They are refused.
    Refusal,
}

/// The accounts.
struct Accounts {
    processes: Table<ProcessId, PROCESSES>,
    users: Table<u32, USERS>,
}

impl Accounts {
    const fn new() -> Self {
        Self {
            processes: Table::new(),
            users: Table::new(),
        }
    }

    fn charge(&mut self, who: &Person, now: u64) -> u32 {
        if let Some(user) = who.user {
            self.users.charge(user, now);
        }
        self.processes.charge(who.process, now).owed
    }

    fn due(&self, who: &Person, now: u64) -> Due {
        let own = self.processes.get(who.process, now);
        let owed = own.map_or(0, |own| own.owed(now));
        if owed >= MAX_HANGS {
            return Due::Refusal;
        }
        let own_wait = own.map_or(0, |own| own.left(owed, now));
        let users = who.user.and_then(|user| self.users.get(user, now));
        let users_wait = users.map_or(0, |users| {
            let all = users.owed(now);
            // Who has opened it in the moment of the hang has not seen it.
            let is_old = who.since < users.first;
            match (owed == 0 && is_old, all) {
                (true, ..=MAX_HANGS) => 0,
                (true, _) => users.left(OLD_WAIT, now),
                (false, _) => users.left(all, now),
            }
        });
        match own_wait.max(users_wait) {
            0 => Due::Nothing,
            _ => Due::Wait(users_wait > own_wait),
        }
    }
}

/// The records of a device.
#[pin_data]
pub(crate) struct Guilt {
    #[pin]
    accounts: SpinLock<Accounts>,
}

impl Guilt {
    /// Nobody has done anything.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            accounts <- new_spinlock!(Accounts::new(), "galcore guilt"),
        })
    }

    /// `who` has hung a core; returns how many times that makes of the process's.
    pub(super) fn charge(&self, who: &Person) -> u32 {
        self.accounts.lock().charge(who, sys::jiffies64())
    }

    /// What is due in front of the commands of `who`.
    pub(super) fn due(&self, who: &Person) -> Due {
        self.accounts.lock().due(who, sys::jiffies64())
    }

    /// Calls `look` with each user who has an account, and how many hangs are in it.
    pub(crate) fn for_each_user(&self, mut look: impl FnMut(u32, u32)) {
        for index in 0..USERS {
            let now = sys::jiffies64();
            let slot = self.accounts.lock().users.0.get(index).copied().flatten();
            if let Some((user, account)) = slot.filter(|(_, account)| account.owed(now) > 0) {
                look(user, account.owed(now));
            }
        }
    }
}

/// Milliseconds in jiffies; one at least.
fn ticks(milliseconds: u32) -> u32 {
    let ticks: Jiffies = msecs_to_jiffies(milliseconds);
    // CAST: a minute's; jiffies have the machine's width.
    match milliseconds {
        0 => 0,
        _ => (ticks as u32).max(1),
    }
}

/// How long commands wait behind so many hangs, in milliseconds.
fn wait_for(owed: u32) -> u32 {
    match owed {
        0 | 1 => 0,
        _ => FIRST_WAIT << (owed.min(MAX_OWED) - 2),
    }
}

#[kernel::macros::kunit_tests(galcore_guilt)]
mod tests {
    use super::*;

    /// Process `process` of user 1000, which has opened the device at `since`.
    fn of_user(process: i32, since: u64) -> Person {
        Person {
            process: ProcessId(process, 7),
            user: Some(1000),
            since,
        }
    }

    /// How long `who` waits at `now`, and whether it does so for others.
    fn wait(accounts: &Accounts, who: &Person, now: u64) -> Option<(u64, bool)> {
        let mut all = 0;
        let mut is_for_others = false;
        while let Due::Wait(others) = accounts.due(who, now + all) {
            is_for_others = others;
            all += 1;
        }
        (all > 0).then_some((all, is_for_others))
    }

    /// Where 32 bits come round.
    const START: u64 = u32::MAX as u64 - 5;

    #[test]
    fn who_hangs_it_again_and_again_pays_more_each_time_and_is_refused() {
        let waits: [u32; 13] = core::array::from_fn(|owed| wait_for(owed as u32));
        assert_eq!(
            waits,
            [0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 51200]
        );
        let mut accounts = Accounts::new();
        let who = of_user(1, START);
        assert_eq!(accounts.due(&who, START), Due::Nothing);
        for wanted in 1..MAX_HANGS {
            assert_eq!(accounts.charge(&who, START), wanted);
            let ticks = ticks(wait_for(wanted));
            let due = (ticks > 0).then_some((u64::from(ticks), false));
            assert_eq!(wait(&accounts, &who, START), due);
        }
        let after = START + u64::from(ticks(wait_for(7)));
        assert_eq!(accounts.due(&who, after), Due::Nothing);
        assert_eq!(accounts.charge(&who, after), MAX_HANGS);
        assert_eq!(accounts.due(&who, after), Due::Refusal);
        // The same process, with files that were opened later.
        let again = of_user(1, after + 3);
        assert_eq!(accounts.due(&again, after + 3), Due::Refusal);
        // Another one that has got its id.
        let other = Person {
            process: ProcessId(1, 8),
            user: Some(1001),
            ..again
        };
        assert_eq!(accounts.due(&other, after), Due::Nothing);
    }

    #[test]
    fn hangs_are_forgiven_one_by_one() {
        let mut accounts = Accounts::new();
        let who = of_user(1, START);
        for _ in 0..20 {
            accounts.charge(&who, START);
        }
        let minute = u64::from(ticks(GOOD_TIME));
        let account = |accounts: &Accounts, minutes: u64| {
            let now = START + minutes * minute;
            accounts
                .processes
                .get(who.process, now)
                .map(|own| own.owed(now))
        };
        assert_eq!(account(&accounts, 0), Some(MAX_OWED));
        assert_eq!(account(&accounts, 1), Some(MAX_OWED - 1));
        assert_eq!(account(&accounts, 10), Some(1));
        assert_eq!(account(&accounts, 11), None);
        assert_eq!(account(&accounts, 1000), None);
        let now = START + 9 * minute;
        assert_eq!(accounts.charge(&who, now), 3);
        let now = now + 5 * minute;
        assert_eq!(accounts.due(&who, now), Due::Nothing);
        assert_eq!(accounts.charge(&who, now), 1);
    }

    #[test]
    fn a_users_new_processes_share_the_wait_and_no_others_do() {
        let mut accounts = Accounts::new();
        let old = of_user(1, START);
        let now = START + 10;
        for process in 2..6 {
            accounts.charge(&of_user(process, now), now);
        }
        // Who has hung it, and who comes; not who was there, nor others, nor the administrator's.
        let users = |owed| Some((u64::from(ticks(wait_for(owed))), true));
        assert_eq!(wait(&accounts, &of_user(2, now), now), users(4));
        assert_eq!(wait(&accounts, &of_user(9, now), now), users(4));
        assert_eq!(accounts.due(&old, now), Due::Nothing);
        for user in [None, Some(1001)] {
            let other = Person {
                user,
                ..of_user(9, now)
            };
            assert_eq!(accounts.due(&other, now), Due::Nothing);
        }
        let after = now + u64::from(ticks(wait_for(4)));
        assert_eq!(accounts.due(&of_user(9, now), after), Due::Nothing);
        for process in 6..40 {
            accounts.charge(&of_user(process, now), now);
        }
        // Nobody is refused for others, whatever they do.
        assert_eq!(wait(&accounts, &of_user(90, now), now), users(MAX_OWED));
        assert_eq!(wait(&accounts, &old, now), users(OLD_WAIT));
        // An administrator's is refused for what it has done itself.
        let admin = Person {
            user: None,
            ..of_user(99, now)
        };
        for _ in 0..MAX_HANGS {
            accounts.charge(&admin, now);
        }
        assert_eq!(accounts.due(&admin, now), Due::Refusal);
    }

    #[test]
    fn a_full_table_forgets_who_was_quiet_the_longest() {
        let mut table: Table<u32, 3> = Table::new();
        for user in 0..3 {
            table.charge(user, START + u64::from(user));
        }
        let now = START + 7;
        assert_eq!(table.charge(0, now).owed, 2);
        assert_eq!(table.charge(3, now).owed, 1);
        let known: [bool; 4] = core::array::from_fn(|user| table.get(user as u32, now).is_some());
        assert_eq!(known, [true, false, true, true]);
    }
}
