// SPDX-License-Identifier: GPL-2.0-only

//! The resets that affected a process, and the waits before its commands after hangs that it or
//! others have caused ([`super::hangs`]).
//!
//! While no core has hung, a submission only compares two words. A charge is written before any
//! process can reserve a place in the ring again, and checked before each attempt to reserve one.
//! So threads that were about to reserve a place during the reset also wait.

use super::hangs::{
    Charged,
    Due,
    HangAccounts,
    ProcessId,
    Submitter,
    MAX_HANGS, //
};
use crate::{
    log::{
        warn_client,
        RateLimit, //
    },
    modes::{
        self,
        Mode, //
    },
    prelude::*,
    ring::{
        Account,
        Culprit,
        Loss, //
    },
    sys::CommandName, //
};

/// The length of one sleep during a wait, in milliseconds.
const STEP: u32 = 20;

/// The longest wait before commands, in milliseconds, even if others hang the core again.
const MAX_WAIT: u32 = 60_000;

static WAITS: RateLimit = RateLimit::new();

const NO_USER: u32 = u32::MAX;

/// The resets that affected a process.
pub(crate) struct Resets {
    /// Number of resets that the process has caused.
    guilty: Atomic<u32>,
    /// Number of other resets of cores on which it had jobs.
    innocent: Atomic<u32>,
    /// Number of its jobs that were dropped.
    dropped: Atomic<u32>,
    /// Number of charges that may make it wait.
    charges: Atomic<u32>,
    /// The value of `charges` up to which it has waited.
    waited: Atomic<u32>,
    /// The latest end of the wait before its commands, in jiffies. 0: no wait. Kept here, because a
    /// Unix signal restarts the call.
    wait_ends: Atomic<u64>,
    /// The value of `wait_ends` when a wait was last logged.
    logged: Atomic<u64>,
    /// The process, without its user. Noted at open, because a process has no ID after its end.
    opener: Submitter,
    /// Tells whether the process is known.
    account: Arc<Account>,
    /// The real user ID of the last submission.
    real_user: Atomic<u32>,
    /// The user whose account is charged, or [`NO_USER`].
    user: Atomic<u32>,
    name: CommandName,
}

/// Counts of the resets that affected a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Resets that it has caused.
    pub(crate) guilty: u32,
    /// Resets that others have caused.
    pub(crate) innocent: u32,
    /// Jobs that it has lost.
    pub(crate) dropped: u32,
}

impl Resets {
    /// For the calling process, with leader `leader`. It still waits for earlier hangs in `hangs`.
    pub(super) fn new(leader: &Task, hangs: &HangAccounts, account: Arc<Account>) -> Self {
        let who = Submitter {
            process: ProcessId(sys::process_id(leader), sys::start_time(leader)),
            user: None,
            since: sys::jiffies64(),
            is_known: false,
            has_hung: false,
        };
        let resets = Self::of(who, account);
        resets.note_caller();
        let is_due = hangs.due(&resets.who()) != Due::Nothing;
        resets.charges.store(is_due.into(), Relaxed);
        resets
    }

    fn of(opener: Submitter, account: Arc<Account>) -> Self {
        Self {
            account,
            real_user: Atomic::new(NO_USER),
            user: Atomic::new(opener.user.unwrap_or(NO_USER)),
            guilty: Atomic::new(0),
            innocent: Atomic::new(0),
            dropped: Atomic::new(0),
            charges: Atomic::new(0),
            waited: Atomic::new(0),
            wait_ends: Atomic::new(0),
            logged: Atomic::new(0),
            opener,
            name: CommandName::of_caller(),
        }
    }

    /// The process, its current user, and what it has done so far.
    fn who(&self) -> Submitter {
        let user = self.user.load(Relaxed);
        Submitter {
            user: (user != NO_USER).then_some(user),
            is_known: self.account.is_known(),
            has_hung: self.guilty.load(Relaxed) != 0,
            ..self.opener
        }
    }

    /// Notes that the calling thread submits. Its user is charged for hangs, not the user that
    /// opened the file, which may have had more rights.
    #[inline]
    pub(super) fn note_caller(&self) {
        let user = sys::user_id();
        if self.real_user.load(Relaxed) != user {
            self.note_user(user);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_user(&self, user: u32) {
        self.real_user.store(user, Relaxed);
        let is_admin = sys::is_admin();
        let charged = if is_admin { NO_USER } else { user };
        // An administrator's process is no stranger. With any other user it starts as one.
        self.account.note_known(is_admin);
        self.account.note_trial(!is_admin);
        self.user.store(charged, Relaxed);
        // The new user may have an account.
        self.look_again();
    }

    /// Describes the process for the log and dumps.
    pub(super) fn culprit(&self) -> Culprit {
        Culprit {
            id: self.opener.process.0,
            user: self.real_user.load(Relaxed),
            name: self.name.clone(),
        }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            guilty: self.guilty.load(Relaxed),
            innocent: self.innocent.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }

    /// Notes the process's loss of a reset of core `core`. The hang blocked the core for `cost`
    /// jiffies. Returns the charge, if the process is guilty.
    pub(super) fn note(
        &self,
        core: usize,
        loss: &Loss,
        hangs: &HangAccounts,
        cost: u32,
    ) -> Option<Charged> {
        self.dropped.fetch_add(loss.dropped, Relaxed);
        if !loss.is_guilty {
            self.innocent.fetch_add(1, Relaxed);
            return None;
        }
        self.guilty.fetch_add(1, Relaxed);
        let charged = hangs.charge(&self.who(), cost);
        if self.who().user.is_some() {
            self.account.note_known(false);
        }
        self.look_again();
        let owed = charged.owed;
        let what = match owed {
            MAX_HANGS.. => "its commands are refused from now on",
            2.. => "its next commands have to wait",
            _ => "what it has queued there is dropped",
        };
        // No rate limit is needed: after MAX_HANGS hangs the process is refused.
        if !modes::is_on(Mode::Errors) {
            return Some(charged);
        }
        pr_warn!(
            "process {} ({}) has hung the GPU (core {core}, time {owed}, user {}): {what}\n",
            self.opener.process.0,
            self.name,
            self.real_user.load(Relaxed)
        );
        Some(charged)
    }

    /// Notes that another process was charged with a hang.
    pub(super) fn note_others(&self, charged: &Charged, hangs: &HangAccounts) {
        if charged.makes_strangers && hangs.is_new(&self.who()) {
            self.account.note_known(false);
        }
        self.look_again();
    }

    /// Called before commands. Ends the process's trial if all hangs from before it opened the
    /// device are forgiven.
    #[inline]
    pub(super) fn try_out(&self, hangs: &HangAccounts) {
        if self.account.is_on_trial() && !hangs.is_new(&self.opener) {
            self.account.note_trial(false);
        }
    }

    fn look_again(&self) {
        // Full ordering: others see the charge first.
        self.charges.fetch_add(1, Full);
    }

    /// Whether commands need not wait. Called under the lock under which commands reserve their
    /// place in the ring.
    #[inline]
    pub(super) fn has_waited(&self) -> bool {
        self.charges.load(Acquire) == self.waited.load(Relaxed)
    }

    /// Waits before commands, if the process must. `GpuNotResponding`: its commands are refused.
    /// `Interrupted`: a Unix signal came.
    #[inline]
    pub(super) fn wait_for_hangs(&self, hangs: &HangAccounts) -> Result {
        if self.has_waited() {
            Ok(())
        } else {
            self.wait_now(hangs)
        }
    }

    /// The latest end of the wait of a call that waits at `now`.
    fn wait_end(&self, now: u64) -> u64 {
        let known = self.wait_ends.load(Relaxed);
        // A much older end belongs to a call that was not restarted.
        if known != 0 && now < known.saturating_add(sys::HZ.into()) {
            return known;
        }
        let end = now.saturating_add(usize_as_u64(msecs_to_jiffies(MAX_WAIT)));
        self.wait_ends.store(end, Relaxed);
        end
    }

    #[cold]
    #[inline(never)]
    fn wait_now(&self, hangs: &HangAccounts) -> Result {
        let end = self.wait_end(sys::jiffies64());
        loop {
            let charges = self.charges.load(Acquire);
            match hangs.due(&self.who()) {
                Due::Refusal => return Err(Error::GpuNotResponding),
                Due::Wait(is_for_others) if sys::jiffies64() < end => {
                    if is_for_others && self.logged.load(Relaxed) != end {
                        self.logged.store(end, Relaxed);
                        warn_client!(WAITS:
                            "{} waits before its commands: other programs have hung the GPU",
                            self.name);
                    }
                }
                Due::Nothing | Due::Wait(_) => {
                    // This may overwrite a newer value from another thread, which only repeats the
                    // check.
                    self.waited.store(charges, Relaxed);
                    self.wait_ends.store(0, Relaxed);
                    return Ok(());
                }
            }
            sys::sleep(STEP).map_err(|_| Error::Interrupted)?;
        }
    }
}

#[kunit_tests(galcore_resets)]
mod tests {
    use super::*;

    fn resets(process: i32, user: u32) -> Resets {
        let who = Submitter {
            process: ProcessId(process, 0),
            user: Some(user),
            since: sys::jiffies64(),
            is_known: false,
            has_hung: false,
        };
        let account = Arc::new(Account::new(1, process, None), GFP_KERNEL).unwrap();
        Resets::of(who, account)
    }

    fn loss(is_guilty: bool) -> Loss {
        Loss {
            process: 1,
            is_guilty,
            dropped: 2,
        }
    }

    #[test]
    fn the_innocent_pay_nothing() {
        let hangs = KBox::pin_init(HangAccounts::new(), GFP_KERNEL).unwrap();
        let resets = resets(1, 1000);
        assert_eq!(resets.note(0, &loss(false), &hangs, 5), None);
        let counts = resets.counts();
        assert_eq!((counts.guilty, counts.innocent, counts.dropped), (0, 1, 2));
        assert!(resets.has_waited());
        assert_eq!(resets.wait_for_hangs(&hangs), Ok(()));
    }

    #[test]
    fn the_guilty_and_others_look_what_is_due() {
        let hangs = KBox::pin_init(HangAccounts::new(), GFP_KERNEL).unwrap();
        let (culprit, other) = (resets(1, 1000), resets(3, 1001));
        for _ in 0..MAX_HANGS {
            let charged = culprit.note(0, &loss(true), &hangs, 0).unwrap();
            other.note_others(&charged, &hangs);
        }
        assert_eq!(culprit.counts().guilty, MAX_HANGS);
        let waited = [&culprit, &other].map(Resets::has_waited);
        assert_eq!(waited, [false, false]);
        assert_eq!(culprit.wait_for_hangs(&hangs), Err(Error::GpuNotResponding));
        assert!(!culprit.has_waited());
        assert_eq!(other.wait_for_hangs(&hangs), Ok(()));
        assert!(other.has_waited());
    }

    #[test]
    fn a_wait_that_begins_anew_ends_when_it_did() {
        let hangs = KBox::pin_init(HangAccounts::new(), GFP_KERNEL).unwrap();
        let resets = resets(1, 1000);
        let end = resets.wait_end(100);
        assert!(end > 100);
        assert_eq!(resets.wait_end(end), end);
        // The call was not restarted.
        let later = end + 2 * u64::from(sys::HZ);
        assert!(resets.wait_end(later) > later);
        // When the call ends, the wait also ends.
        resets.look_again();
        assert_eq!(resets.wait_for_hangs(&hangs), Ok(()));
        assert_eq!(resets.wait_end(100), end);
    }

    #[test]
    fn who_was_trusted_in_vain_makes_strangers() {
        let hangs = KBox::pin_init(HangAccounts::new(), GFP_KERNEL).unwrap();
        let first = resets(1, 1000);
        first.note(0, &loss(true), &hangs, 0).unwrap();
        // These processes open the device after the first hang.
        let later = [2, 3].map(|process| resets(process, 1000));
        for one in &later {
            one.account.note_known(true);
        }
        let charged = later[0].note(0, &loss(true), &hangs, 0).unwrap();
        assert!(charged.makes_strangers);
        later[1].note_others(&charged, &hangs);
        assert!(!later[1].who().is_known);
    }
}
