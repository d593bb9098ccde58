// SPDX-License-Identifier: GPL-2.0-only

//! Accounts of hangs, and the waits that follow from them. They outlive files and processes.
//!
//! A hang blocks all other processes until the driver detects it. The kinds of accounts are:
//!
//! * *Processes* that have hung a core. A process keeps its account when it reopens the device or
//!   runs another program. After [`MAX_HANGS`] hangs the driver refuses its commands.
//! * *Strangers*: processes that opened the device after the first hang that is not forgiven, and
//!   whose commands the GPU has never finished. New processes cost nothing, and some programs can
//!   create them with a new user. After a hang, strangers wait as long as the hang blocked the
//!   core. So known processes get at least half of the core's time. Then strangers run in this
//!   order: first by the number of hangs that strangers of their user have caused, then by the time
//!   at which they opened the device, and last, those that have hung the core. So a stranger waits
//!   for one hang of each other user, not for one of each process that a user has opened in
//!   advance. If a former stranger hangs the core, all that came after the first hang are strangers
//!   again. Otherwise each could become known by one small job.
//! * *Users*, for hangs by processes that were no strangers. After more than [`MAX_HANGS`] of
//!   these, all processes of the user wait: they may have been opened in advance.
//!
//! A wait for one hang of others lasts as long as the hang, but at most [`MOST_COST`], plus up to
//! two [`HEAD_START`]. A process that submits with `CAP_SYS_ADMIN` only waits for its own hangs: it
//! can stop the machine anyway. So if all programs on a board run as root, none waits for another.
//! Each account is forgiven one hang for each [`GOOD_TIME`] without one.
//!
//! The tables are bounded. In a full table, a new account replaces the one that was quiet longest.
//!
//! Pure logic, except for the lock (`galcore hangs`, a leaf).

use crate::prelude::*;

/// The wait after the second hang, in milliseconds. Each further hang doubles it.
const FIRST_WAIT: u32 = 100;

/// Hangs after which a process's commands are refused.
pub(super) const MAX_HANGS: u32 = 8;

/// The most hangs that an account counts. So a refusal ends at most 4 minutes after a hang.
const MAX_OWED: u32 = 11;

/// The longest wait for one hang of others, without head starts, in milliseconds.
const MOST_COST: u32 = 10_000;

/// The head start of an earlier stranger, in milliseconds: two sleeps of a waiting process.
const HEAD_START: u32 = 40;

/// The time without a hang after which one hang is forgiven, in milliseconds.
const GOOD_TIME: u32 = 60_000;

/// The most accounts of processes, and of users.
const PROCESSES: usize = 64;
const USERS: usize = 32;

/// Identifies a process until the next boot, by its ID and its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId(pub(super) i32, pub(super) u64);

/// A process that may have caused hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Submitter {
    pub(super) process: ProcessId,
    /// The ID of its user. `None`: an administrator's process.
    pub(super) user: Option<u32>,
    /// When it opened the device, in jiffies.
    pub(super) since: u64,
    /// The GPU has finished commands of the process since the process last hung a core. Also see
    /// [`Charged::makes_strangers`].
    pub(super) is_known: bool,
    /// It has hung a core since it opened the device, even if the hang was forgiven.
    pub(super) has_hung: bool,
}

/// Hangs that are not forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    /// The number of hangs at the time of the last one.
    owed: u32,
    /// Time of the first hang, in jiffies.
    first: u64,
    /// Time of the last hang, in jiffies.
    last: u64,
    /// How long the last hang blocked the core, in jiffies.
    cost: u32,
}

impl Account {
    const NONE: Self = Self {
        owed: 0,
        first: 0,
        last: 0,
        cost: 0,
    };

    /// Number of hangs that are not forgiven at `now`.
    fn owed(&self, now: u64) -> u32 {
        // All hangs are forgiven long before 32 bits of jiffies overflow.
        let quiet = u32::try_from(now.saturating_sub(self.last)).unwrap_or(u32::MAX);
        self.owed.saturating_sub(quiet / ticks(GOOD_TIME))
    }

    /// Adds a hang that blocked the core for `cost` jiffies.
    fn charge(&mut self, cost: u32, now: u64) {
        let owed = self.owed(now);
        if owed == 0 {
            self.first = now;
        }
        self.owed = (owed + 1).min(MAX_OWED);
        self.last = now;
        self.cost = cost.min(ticks(MOST_COST));
    }

    /// The jiffies left at `now` of a wait that began at the last hang and lasts `wait` jiffies.
    fn left(&self, wait: u32, now: u64) -> u64 {
        u64::from(wait).saturating_sub(now.saturating_sub(self.last))
    }

    /// The jiffies left at `now` for processes that wait for the hangs of others, and give these
    /// others a head start of `head_start` jiffies.
    fn left_for_others(&self, head_start: u32, now: u64) -> u64 {
        match self.owed(now) {
            0 => 0,
            _ => self.left(self.cost + head_start, now),
        }
    }

    /// Whether `who` opened the device after the first hang that is not forgiven, or in the same
    /// jiffy.
    fn is_new(&self, who: &Submitter, now: u64) -> bool {
        self.owed(now) > 0 && who.since >= self.first
    }
}

/// A table of accounts by owner.
struct Table<K, const N: usize>([Option<(K, Account)>; N]);

impl<K: Copy + PartialEq, const N: usize> Table<K, N> {
    const fn new() -> Self {
        Self([const { None }; N])
    }

    /// The account of `who`. `None`: there is none, or all its hangs are forgiven.
    fn get(&self, who: K, now: u64) -> Option<Account> {
        let mut all = self.0.iter().flatten();
        let (_, account) = all.find(|(other, _)| *other == who)?;
        (account.owed(now) > 0).then_some(*account)
    }

    /// Adds a hang of `who` that blocked the core for `cost` jiffies. Returns the account.
    fn charge(&mut self, who: K, cost: u32, now: u64) -> Account {
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
        let mut account = Account::NONE;
        if let Some(slot) = known.or_else(oldest).and_then(|at| self.0.get_mut(at)) {
            if let Some((_, before)) = slot.filter(|(other, _)| *other == who) {
                account = before;
            }
            account.charge(cost, now);
            *slot = Some((who, account));
        }
        account
    }
}

/// What a process must do before it may submit commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// It waits: for the hangs of others if `true`, otherwise for its own.
    Wait(bool),
    Refusal,
}

impl Due {
    fn of(own: u64, others: u64) -> Self {
        match own.max(others) {
            0 => Self::Nothing,
            _ => Self::Wait(others > own),
        }
    }
}

struct Accounts {
    processes: Table<ProcessId, PROCESSES>,
    users: Table<u32, USERS>,
    /// All hangs that strangers wait for: those of all users.
    strangers: Account,
    /// For each user, the hangs that its strangers have caused.
    strangers_of: Table<u32, USERS>,
    /// The lowest rank of the strangers that have waited since the last hang and hung no core.
    eldest: Option<Rank>,
}

/// A stranger's rank; the lowest runs first. The number of hangs that strangers of its user have
/// caused, then the time at which it opened the device.
type Rank = (u32, u64);

impl Accounts {
    const fn new() -> Self {
        Self {
            processes: Table::new(),
            users: Table::new(),
            strangers: Account::NONE,
            strangers_of: Table::new(),
            eldest: None,
        }
    }

    fn charge(&mut self, submitter: &Submitter, cost: u32, now: u64) -> Charged {
        let is_new = self.strangers.is_new(submitter, now);
        if let Some(user) = submitter.user {
            self.strangers.charge(cost, now);
            self.eldest = None;
            let users = if submitter.is_known || !is_new {
                &mut self.users
            } else {
                &mut self.strangers_of
            };
            users.charge(user, cost, now);
        }
        Charged {
            owed: self.processes.charge(submitter.process, cost, now).owed,
            makes_strangers: submitter.is_known && is_new && submitter.user.is_some(),
        }
    }

    fn due(&mut self, who: &Submitter, now: u64) -> Due {
        let own = self.processes.get(who.process, now);
        let owed = own.map_or(0, |own| own.owed(now));
        if owed >= MAX_HANGS {
            return Due::Refusal;
        }
        let own_wait = own.map_or(0, |own| own.left(ticks(wait_for(owed)), now));
        let Some(user) = who.user else {
            return Due::of(own_wait, 0);
        };
        let is_stranger = owed > 0 || self.strangers.is_new(who, now) && !who.is_known;
        let others_wait = match self.users.get(user, now) {
            _ if is_stranger => {
                let of_user = self.strangers_of.get(user, now);
                let rank = (of_user.map_or(0, |hangs| hangs.owed(now)), who.since);
                let eldest = self.eldest.unwrap_or(rank);
                // Its account alone is not enough: its hangs may be forgiven while it waits for
                // others, or the account may be dropped.
                let is_guilty = owed > 0 || who.has_hung;
                let head_start = match (is_guilty, rank > eldest) {
                    (true, _) => 2 * ticks(HEAD_START),
                    (_, is_younger) => u32::from(is_younger) * ticks(HEAD_START),
                };
                if !is_guilty {
                    self.eldest = Some(eldest.min(rank));
                }
                self.strangers.left_for_others(head_start, now)
            }
            Some(users) if users.owed(now) > MAX_HANGS => users.left_for_others(0, now),
            _ => 0,
        };
        Due::of(own_wait, others_wait)
    }
}

/// The result of charging a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// Number of the process's hangs that are not forgiven.
    pub(super) owed: u32,
    /// All processes that opened the device after the first hang become strangers again.
    pub(super) makes_strangers: bool,
}

/// The accounts of a device.
#[pin_data]
pub(crate) struct HangAccounts {
    #[pin]
    accounts: SpinLock<Accounts>,
}

impl HangAccounts {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            accounts <- new_spinlock!(Accounts::new(), "galcore hangs"),
        })
    }

    /// Charges `who` with a hang that blocked a core for `cost` jiffies.
    pub(super) fn charge(&self, who: &Submitter, cost: u32) -> Charged {
        self.accounts.lock().charge(who, cost, sys::jiffies64())
    }

    /// Whether `who` opened the device after the first hang that is not forgiven.
    pub(super) fn is_new(&self, who: &Submitter) -> bool {
        let now = sys::jiffies64();
        self.accounts.lock().strangers.is_new(who, now)
    }

    /// What `who` must do before it may submit commands.
    pub(super) fn due(&self, who: &Submitter) -> Due {
        self.accounts.lock().due(who, sys::jiffies64())
    }

    /// Calls `look` with each user that has an account, and the number of its hangs.
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

/// Converts milliseconds to jiffies: at least one, or 0 for 0.
fn ticks(milliseconds: u32) -> u32 {
    let ticks: Jiffies = msecs_to_jiffies(milliseconds);
    // CAST: a minute's; jiffies have the machine's width.
    match milliseconds {
        0 => 0,
        _ => (ticks as u32).max(1),
    }
}

/// How long a process waits before its commands after `owed` hangs, in milliseconds.
fn wait_for(owed: u32) -> u32 {
    match owed {
        0 | 1 => 0,
        _ => FIRST_WAIT << (owed.min(MAX_OWED) - 2),
    }
}

#[kernel::macros::kunit_tests(galcore_hangs)]
mod tests {
    use super::*;

    /// Process `process` of user 1000. It opened the device at `since`.
    fn of_user(process: i32, since: u64) -> Submitter {
        Submitter {
            process: ProcessId(process, 7),
            user: Some(1000),
            since,
            is_known: false,
            has_hung: false,
        }
    }

    fn known(who: Submitter) -> Submitter {
        Submitter {
            is_known: true,
            ..who
        }
    }

    /// How long `who` waits from `now`, and whether it waits for others.
    fn wait(accounts: &mut Accounts, who: &Submitter, now: u64) -> Option<(u64, bool)> {
        let mut all = 0;
        let mut is_for_others = false;
        while let Due::Wait(others) = accounts.due(who, now + all) {
            is_for_others = others;
            all += 1;
        }
        (all > 0).then_some((all, is_for_others))
    }

    /// Just before 32 bits wrap.
    const START: u64 = u32::MAX as u64 - 5;

    const COST: u32 = 7;

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
            assert_eq!(accounts.charge(&who, 0, START).owed, wanted);
            // The hang has no cost, but other waiting processes have a head start.
            let (own, last) = (ticks(wait_for(wanted)), 2 * ticks(HEAD_START));
            let due = Some((u64::from(own.max(last)), last > own));
            assert_eq!(wait(&mut accounts, &who, START), due);
        }
        let after = START + u64::from(ticks(wait_for(7)));
        assert_eq!(accounts.due(&who, after), Due::Nothing);
        assert_eq!(accounts.charge(&who, 0, after).owed, MAX_HANGS);
        assert_eq!(accounts.due(&who, after), Due::Refusal);
        // The same process, after it has opened the device again.
        let again = of_user(1, after + 3);
        assert_eq!(accounts.due(&again, after + 3), Due::Refusal);
        // Another process that reuses its id.
        let other = Submitter {
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
            accounts.charge(&who, 0, START);
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
        assert_eq!(accounts.charge(&who, 0, now).owed, 3);
        let now = now + 5 * minute;
        assert_eq!(accounts.due(&who, now), Due::Nothing);
        assert_eq!(accounts.charge(&who, 0, now).owed, 1);
    }

    #[test]
    fn strangers_wait_as_long_as_a_hang_has_cost() {
        let mut accounts = Accounts::new();
        let (old, now) = (of_user(1, START), START + 10);
        let due = Some((u64::from(COST), true));
        let of_other = |who: Submitter| Submitter {
            user: Some(1001),
            ..who
        };
        for process in 2..6 {
            let charged = accounts.charge(&of_user(process, now), COST, now);
            assert!(!charged.makes_strangers);
            // A new process, of any user.
            let new = of_user(90, now);
            assert_eq!(wait(&mut accounts, &new, now), due);
            assert_eq!(wait(&mut accounts, &of_other(new), now), due);
            // Older processes, known processes and an administrator's do not wait.
            let admins = Submitter { user: None, ..new };
            for submitter in [old, of_other(old), known(new), admins] {
                assert_eq!(accounts.due(&submitter, now), Due::Nothing);
            }
        }
        // A process that has hung the core is a stranger, even if its later commands were finished.
        let last = u64::from(COST + 2 * ticks(HEAD_START));
        let guilty = known(of_user(2, now));
        assert_eq!(wait(&mut accounts, &guilty, now), Some((last, true)));
        let new = of_other(of_user(90, now));
        assert_eq!(accounts.due(&new, now + 7), Due::Nothing);
        // A known process makes strangers only if it opened the device after the first hang.
        assert!(
            accounts
                .charge(&known(of_user(7, now)), COST, now)
                .makes_strangers
        );
        assert!(!accounts.charge(&known(old), COST, now).makes_strangers);
        // The longest wait for others.
        accounts.charge(&of_user(9, now), u32::MAX, now);
        let longest = u64::from(ticks(MOST_COST));
        assert_eq!(
            wait(&mut accounts, &of_user(90, now), now),
            Some((longest, true))
        );
    }

    #[test]
    fn the_stranger_that_came_first_goes_first() {
        let mut accounts = Accounts::new();
        accounts.charge(&of_user(1, START), COST, START);
        let [elder, younger] = [1, 2].map(|at| of_user(90 + at, START + at as u64));
        let after = |head_start| Some((u64::from(COST + head_start), true));
        let now = START + 3;
        accounts.charge(&of_user(2, now), COST, now);
        assert_eq!(wait(&mut accounts, &younger, now), after(0));
        assert_eq!(wait(&mut accounts, &elder, now), after(0));
        assert_eq!(wait(&mut accounts, &younger, now), after(ticks(HEAD_START)));
        // This process has hung the core, but its hang is forgiven.
        let guilty = Submitter {
            has_hung: true,
            ..of_user(92, START)
        };
        let last = after(2 * ticks(HEAD_START));
        assert_eq!(wait(&mut accounts, &guilty, now), last);
        assert_eq!(wait(&mut accounts, &elder, now), after(0));
        // Only strangers that have waited since the last hang count.
        accounts.charge(&elder, COST, now);
        assert_eq!(wait(&mut accounts, &younger, now), after(0));
    }

    #[test]
    fn a_stranger_waits_for_one_hang_of_another_user() {
        let mut accounts = Accounts::new();
        let now = START + 10;
        accounts.charge(&of_user(1, START), COST, START);
        // Processes that were opened in advance.
        let waiting = [2, 3].map(|process| of_user(process, now));
        let newcomer = Submitter {
            user: Some(1001),
            ..of_user(90, now + 1)
        };
        accounts.charge(&of_user(1, now), COST, now);
        accounts.charge(&waiting[0], COST, now + 1);
        assert_ne!(accounts.due(&waiting[1], now + 1), Due::Nothing);
        let last = now + 1 + u64::from(COST);
        assert_ne!(accounts.due(&newcomer, last - 1), Due::Nothing);
        assert_eq!(accounts.due(&newcomer, last), Due::Nothing);
        let younger = u64::from(COST + ticks(HEAD_START));
        assert_ne!(accounts.due(&waiting[1], now + younger), Due::Nothing);
        assert_eq!(accounts.due(&waiting[1], now + 1 + younger), Due::Nothing);
    }

    #[test]
    fn many_hangs_of_a_user_are_waited_for_by_all_of_it() {
        let mut accounts = Accounts::new();
        let (old, now) = (of_user(1, START), START + 10);
        for process in 0..MAX_HANGS as i32 {
            accounts.charge(&of_user(10 + process, START), COST, now);
            assert_eq!(accounts.due(&old, now), Due::Nothing);
        }
        accounts.charge(&of_user(50, START), COST, now);
        let due = Some((u64::from(COST), true));
        assert_eq!(wait(&mut accounts, &old, now), due);
        assert_eq!(wait(&mut accounts, &known(of_user(2, now)), now), due);
        let other = Submitter {
            user: Some(1001),
            ..old
        };
        assert_eq!(accounts.due(&other, now), Due::Nothing);
        // An administrator's process is refused for its own hangs, and waits for no other process.
        let admin = Submitter {
            user: None,
            ..of_user(99, now)
        };
        for _ in 0..MAX_HANGS {
            assert!(!accounts.charge(&known(admin), COST, now).makes_strangers);
        }
        assert_eq!(accounts.due(&admin, now), Due::Refusal);
    }

    #[test]
    fn a_full_table_forgets_who_was_quiet_the_longest() {
        let mut table: Table<u32, 3> = Table::new();
        for user in 0..3 {
            table.charge(user, 0, START + u64::from(user));
        }
        let now = START + 7;
        assert_eq!(table.charge(0, 0, now).owed, 2);
        assert_eq!(table.charge(3, 0, now).owed, 1);
        let known: [bool; 4] = core::array::from_fn(|user| table.get(user as u32, now).is_some());
        assert_eq!(known, [true, false, true, true]);
    }
}
