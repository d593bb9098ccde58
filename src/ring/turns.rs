// SPDX-License-Identifier: GPL-2.0-only

//! Which submitter gets the next place in the ring: start-time fair queuing.
//!
//! Called under the engine's lock. Does not access the hardware. A core runs jobs in the order of
//! their places, so the driver shares its time among processes when it assigns places. A process
//! has a [`Share`] of each core. Its next job starts, in virtual time, where its last one ended,
//! but not in the past. Until a job has ended, the average of the process's earlier jobs counts as
//! its time. Submitters without a place wait in a [`Line`], sorted by start. Only the first gets a
//! place: no smaller job overtakes it. Virtual time does not pass while a process is alone here.
//!
//! A job with a place cannot be overtaken, so a process's places are limited. On a shared core it
//! has places for jobs that together take a [`QUANTUM`], but at least for one job. Alone it has
//! places for [`ALONE_QUANTA`] quanta, but at least for [`ALONE`] jobs. Short jobs do not reach
//! these limits.
//!
//! As in the CPU scheduler, the nice value of the submitting thread weights the time: each step up
//! adds a quarter, each step down takes off about a fifth. The weights of cgroups have no effect.
//!
//! The interrupt thread runs the actions of ended jobs one after the other. Another process's event
//! may wait for these. So jobs with places have at most [`MOST_ACTIONS`], unless one alone has more.
//!
//! A job with a place runs even if another process's job before it hangs. If several *strangers*
//! had places, each could hang the core in turn without the wait that a hang causes. So only one
//! has places at a time. A stranger is a process whose commands the GPU has never finished. Here a
//! process on trial also is one: it opened the device after a hang that is not forgiven yet.
//! Strangers take turns: while others wait, one has places for a [`QUANTUM`].
//!
//! A free place wakes one thread: submitters in a line sleep until they are first. The first might
//! fail to take its place, perhaps because its thread has a low priority. Then the hang check ends
//! its turn. Its process is charged for the time, because no other process could take the place.
//! The other waiting threads of the process must join the line again.

mod share;

use crate::{
    limits::MAX_RECORDS,
    sys::{
        self,
        prelude::*, //
    }, //
};
use share::Load;

pub(crate) use share::{
    Account,
    Share, //
};

/// How long the jobs with places of one process may take together on a shared core, in
/// milliseconds. Another process waits at most this long for them, unless a job takes longer.
const QUANTUM: u32 = 20;

/// For a process alone on its core: the most quanta of places, and the jobs that always have one.
const ALONE_QUANTA: u32 = 50;
const ALONE: u32 = 4;

/// How long a core counts as shared after it was shared, in milliseconds. A process that submits
/// one job at a time has no job on the core between two jobs.
const SHARED: u32 = 1000;

/// How far in the virtual future a job may start, in quanta: enough to charge a job of ten seconds.
const MOST_DEBT: u64 = 500;

/// The most actions of all jobs with places: the event of another process may wait for them.
const MOST_ACTIONS: usize = MAX_RECORDS;

/// How long the first in a line may take to react to a change, in milliseconds.
const PATIENCE: u32 = 20;

/// The charge for a lost turn, in quanta: [`PATIENCE`], and some of the hang check's period.
const LATE_QUANTA: u64 = 2;

/// The most threads that are woken at once to join again, after their process has lost its turn.
const MOST_SENT_BACK: usize = 16;

/// The most waiting strangers that are searched for a thread of the process with places.
const MOST_LOOKED_AT: usize = 16;

/// The newest job counts for an eighth of the average: its time may include switching the core on.
const WEIGHT: u32 = 8;

/// `average`, updated with another `time`.
fn average_with(average: u32, time: u32) -> u32 {
    // Does not overflow: at most the larger of the two.
    average - average / WEIGHT + time / WEIGHT
}

/// A position in a line: the virtual start, and the order among equal starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    start: u64,
    number: u64,
}

/// A thread in a line.
struct Waiter {
    task: ARef<Task>,
    /// Its process's account, and the core.
    account: Option<(Arc<Account>, usize)>,
    /// If its process is a stranger: the address of the process's account.
    stranger: Option<usize>,
}

impl Waiter {
    fn share(&self) -> Option<&Share> {
        let (account, core) = self.account.as_ref()?;
        account.share(*core)
    }
}

/// Memory for an entry of a line.
pub(super) struct Reservation(RBTreeNodeReservation<Ticket, Waiter>);

impl Reservation {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(sys::GFP_CLIENT)?))
    }
}

/// A stranger whose jobs have places.
#[derive(Clone, Copy)]
struct Holder {
    /// The address of its account.
    account: usize,
    newest: u64,
    /// When it got its first place, in jiffies.
    since: usize,
}

impl Holder {
    fn is_within_quantum(&self, now: usize) -> bool {
        is_within(QUANTUM, self.since, now)
    }
}

/// A submitter's request for a place.
pub(crate) struct Wish<'s> {
    /// `None`: the driver, which never waits in line.
    pub(super) share: Option<&'s Share>,
    /// Its position in the line, if it waits.
    ticket: Option<Ticket>,
    /// The expected virtual time of its job. Set when it joins the line or gets its place. 0: its
    /// process was alone.
    cost: u64,
    is_alone: bool,
    /// The number of its job's actions, and whether the job has commands.
    actions: usize,
    has_commands: bool,
    /// The account of its process. `None`: the driver.
    pub(crate) account: Option<&'s Arc<Account>>,
    core: usize,
}

impl<'s> Wish<'s> {
    /// A request of the driver or, with `share`, of a known process.
    pub(super) fn new(share: Option<&'s Share>) -> Self {
        Self {
            share,
            ticket: None,
            cost: 0,
            is_alone: false,
            actions: 0,
            has_commands: false,
            account: None,
            core: 0,
        }
    }

    /// A request of the calling thread for a place on `core`.
    pub(super) fn of(account: &'s Arc<Account>, core: usize) -> Self {
        Self {
            account: Some(account),
            core,
            ..Self::new(account.share(core))
        }
    }

    /// Notes the properties of its job that matter for its place.
    pub(crate) fn note(&mut self, actions: usize, has_commands: bool) {
        self.actions = actions;
        self.has_commands = has_commands;
    }

    /// The stranger that submits the job's commands. `None`: no stranger, or no commands.
    fn stranger(&self) -> Option<usize> {
        let account = self.account.filter(|_| self.has_commands)?;
        let is_trusted = account.is_known() && !account.is_on_trial();
        (!is_trusted).then(|| core::ptr::from_ref(&**account).addr())
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.ticket.is_some()
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}

/// The virtual time of a line. The core's next line continues it, because shares outlive a line.
#[derive(Clone, Copy, Default)]
pub(super) struct Epoch {
    now: u64,
    tickets: u64,
}

/// The submitters that wait for a place.
pub(super) struct Line {
    waiting: RBTree<Ticket, Waiter>,
    /// Waiting strangers, which also wait for each other's jobs.
    strangers: RBTree<Ticket, Waiter>,
    /// The ticket that may have the next place. Its thread was woken when it became the first.
    first: Option<Ticket>,
    /// The engine's count of changes (`moves`) when thread `first` last tried to get a place.
    first_saw: u64,
    /// When the hang check noticed that thread `first` does not react, in jiffies.
    missed: Option<usize>,
    tickets: u64,
    /// Virtual time: the latest start of a job with a place.
    now: u64,
    /// Average time of jobs, in virtual time.
    average: u32,
    /// Number of jobs with places, without the driver's own, and number of their actions.
    under_way: u32,
    actions: usize,
    /// The stranger with places.
    stranger: Option<Holder>,
    /// When the core was last shared, in jiffies.
    shared: Option<usize>,
    /// [`QUANTUM`], in counts of [`clock`](crate::sys::clock).
    quantum: u32,
}

/// `time`, limited to 32 bits, which hold at least some seconds.
fn at_most_a_word(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

/// Whether less than `milliseconds` have passed since `then`.
fn is_within(milliseconds: u32, then: usize, now: usize) -> bool {
    now.wrapping_sub(then) < msecs_to_jiffies(milliseconds)
}

fn front(line: &RBTree<Ticket, Waiter>) -> Option<Ticket> {
    line.cursor_front().map(|front| *front.current().0)
}

impl Line {
    /// An empty line that continues `epoch`.
    pub(super) fn new(epoch: Epoch) -> Self {
        Self {
            waiting: RBTree::new(),
            strangers: RBTree::new(),
            first: None,
            first_saw: 0,
            missed: None,
            tickets: epoch.tickets,
            now: epoch.now,
            average: 0,
            under_way: 0,
            actions: 0,
            stranger: None,
            shared: None,
            quantum: at_most_a_word(sys::clock::counts(QUANTUM)),
        }
    }

    /// What the core's next line takes over.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch {
            now: self.now,
            tickets: self.tickets,
        }
    }

    /// Whether `wish` may have a place now. Also notes whether the core is shared, and may remove
    /// `wish` from the line. `moves`: the engine's count of changes. `waiters`: all that wait.
    pub(super) fn admits(&mut self, wish: &mut Wish<'_>, moves: u64, waiters: u32) -> bool {
        let Some(share) = wish.share else {
            return true;
        };
        let now = sys::jiffies();
        let load = share.load();
        if self.under_way > load.jobs() || waiters > load.threads() {
            self.shared = Some(now);
        }
        if self.first != wish.ticket {
            return false;
        }
        if self.first.is_some() {
            self.first_saw = moves;
            self.missed = None;
        }
        let holder = self.stranger;
        if let Some((holder, stranger)) = holder.and_then(|it| Some((it, wish.stranger()?))) {
            let is_own = holder.account == stranger;
            match wish.ticket {
                Some(_) if is_own => {}
                Some(ticket) => {
                    // Its process has become a stranger since it joined.
                    self.remove(ticket, moves);
                    return false;
                }
                // After the quantum other strangers go first.
                None if is_own && (holder.is_within_quantum(now) || self.strangers.is_empty()) => {}
                None => return false,
            }
        }
        let actions = self.actions.saturating_add(wish.actions);
        if self.under_way > 0 && actions > MOST_ACTIONS {
            return false;
        }
        let is_shared = self.is_shared(now);
        wish.is_alone = !is_shared;
        share.has_room(load.jobs(), is_shared, self.quantum)
    }

    /// Notes that `wish` has got a place, for job `number`.
    #[inline]
    pub(super) fn admit(&mut self, wish: &mut Wish<'_>, number: u64, moves: u64) {
        let Some(share) = wish.share else {
            return;
        };
        let start = match wish.ticket.take() {
            Some(ticket) => {
                self.remove(ticket, moves);
                ticket.start
            }
            None if wish.is_alone => {
                wish.cost = 0;
                self.now
            }
            None => self.claim(wish, share),
        };
        self.now = self.now.max(start);
        self.under_way += 1;
        self.actions = self.actions.saturating_add(wish.actions);
        share.load.add(Load::JOB, Relaxed);
        if let Some(stranger) = wish.stranger() {
            let since = self
                .stranger
                .map_or_else(sys::jiffies, |holder| holder.since);
            self.stranger = Some(Holder {
                account: stranger,
                newest: number,
                since,
            });
            self.choose(moves);
        }
    }

    /// Notes the end of job `number`, of any process or the driver. `moves` does not count it yet.
    pub(super) fn pass(&mut self, number: u64, moves: u64) {
        if self.stranger.is_some_and(|holder| holder.newest <= number) {
            self.stranger = None;
            self.choose(moves);
        }
    }

    /// Notes that a job of `share` with this number of actions has ended. It was expected to take
    /// `cost` in virtual time, and took `taken` of the core's time.
    #[inline]
    pub(super) fn ended(&mut self, share: &Share, cost: u64, taken: u64, actions: usize) {
        self.under_way = self.under_way.saturating_sub(1);
        self.actions = self.actions.saturating_sub(actions);
        let mut weighed = taken;
        if cost != 0 || (self.shared.is_some() && self.is_shared(sys::jiffies())) {
            weighed = share.weigh(taken);
            share.settle(cost, weighed, self.now);
        }
        self.average = average_with(self.average, at_most_a_word(weighed));
        share.ended(at_most_a_word(taken));
    }

    /// Whether more than one process has used the core lately.
    fn is_shared(&self, now: usize) -> bool {
        self.shared.is_some_and(|then| is_within(SHARED, then, now))
    }

    /// Adds `wish` to the line, in the memory of `reservation`.
    pub(super) fn join(&mut self, wish: &mut Wish<'_>, reservation: Reservation, moves: u64) {
        let Some(share) = wish.share else {
            return;
        };
        if wish.ticket.take().is_some() {
            // It has lost its turn.
            share.correct(wish.cost, 0);
        }
        let ticket = Ticket {
            start: self.claim(wish, share),
            number: self.tickets,
        };
        self.tickets += 1;
        let waiter = Waiter {
            task: ARef::from(&**kernel::current!()),
            account: wish.account.map(|account| (account.clone(), wish.core)),
            stranger: wish.stranger(),
        };
        let line = match waiter.stranger {
            Some(_) => &mut self.strangers,
            None => &mut self.waiting,
        };
        line.insert(reservation.0.into_node(ticket, waiter));
        wish.ticket = Some(ticket);
        self.choose(moves);
    }

    /// Takes `wish` out of the line; returns whether it was the first.
    pub(super) fn leave(&mut self, wish: &mut Wish<'_>, moves: u64) -> bool {
        let Some(ticket) = wish.ticket.take() else {
            return false;
        };
        if let Some(share) = wish.share {
            share.correct(wish.cost, 0);
        }
        self.remove(ticket, moves)
    }

    /// Whether `wish` has lost its position in the line and must join again.
    pub(super) fn is_lost(&self, wish: &Wish<'_>) -> bool {
        wish.ticket
            .is_some_and(|ticket| self.waiter(ticket).is_none())
    }

    pub(super) fn is_first(&self, wish: &Wish<'_>) -> bool {
        self.first.is_some() && self.first == wish.ticket
    }

    pub(super) fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// Whether the first has not tried since a change, or waits while no process has a job here.
    fn is_missed(&self, moves: u64) -> bool {
        self.first.is_some() && (self.first_saw != moves || self.under_way == 0)
    }

    /// Called by the hang check. If the first has been missing for [`PATIENCE`], it loses its turn,
    /// and its thread is woken to join again. Returns whether it has lost its turn.
    pub(super) fn skip_missing(&mut self, moves: u64, now: usize) -> bool {
        if !self.is_missed(moves) {
            return false;
        }
        let then = *self.missed.get_or_insert(now);
        match self.first {
            Some(first) if !is_within(PATIENCE, then, now) => {
                if let Some(share) = self.waiter(first).and_then(Waiter::share) {
                    share.correct(0, u64::from(self.quantum) * LATE_QUANTA);
                    share.valid_from.store(self.tickets, Relaxed);
                }
                self.wake(first);
                self.remove(first, moves)
            }
            _ => false,
        }
    }

    fn waiter(&self, ticket: Ticket) -> Option<&Waiter> {
        let lines = [&self.waiting, &self.strangers];
        lines.into_iter().find_map(|line| line.get(&ticket))
    }

    fn wake(&self, ticket: Ticket) {
        if let Some(waiter) = self.waiter(ticket) {
            waiter.task.wake_up();
        }
    }

    /// Claims time of `share` for the job of the calling thread's `wish`; returns the job's start.
    fn claim(&self, wish: &mut Wish<'_>, share: &Share) -> u64 {
        if wish.account.is_some() {
            share.nice.store(sys::nice(), Relaxed);
        }
        let debt = u64::from(self.quantum) * MOST_DEBT;
        let (start, cost) = share.claim(self.now, self.average, debt);
        wish.cost = cost;
        start
    }

    fn remove(&mut self, ticket: Ticket, moves: u64) -> bool {
        let was_first = self.first == Some(ticket);
        self.waiting.remove(&ticket);
        self.strangers.remove(&ticket);
        self.choose(moves);
        was_first
    }

    /// The waiting stranger that may have the next place.
    fn next_stranger(&self) -> Option<Ticket> {
        let Some(holder) = self.stranger else {
            return front(&self.strangers);
        };
        // After its quantum the holder gets a place only if one of its tickets is at the front.
        let looked_at = if holder.is_within_quantum(sys::jiffies()) {
            MOST_LOOKED_AT
        } else {
            1
        };
        let mut next = self.strangers.iter().take(looked_at);
        let own = next.find(|(_, waiter)| waiter.stranger == Some(holder.account));
        own.map(|(ticket, _)| *ticket)
    }

    /// The ticket that may have the next place.
    fn next(&self) -> Option<Ticket> {
        let next = [front(&self.waiting), self.next_stranger()];
        next.into_iter().flatten().min()
    }

    /// Whether the process of `ticket` has lost a turn since the ticket was made.
    fn is_past(&self, ticket: Ticket) -> bool {
        let share = self.waiter(ticket).and_then(Waiter::share);
        share.is_some_and(|share| ticket.number < share.valid_from.load(Relaxed))
    }

    fn choose(&mut self, moves: u64) {
        let mut first = self.next();
        for _ in 0..MOST_SENT_BACK {
            let Some(past) = first.filter(|&first| self.is_past(first)) else {
                break;
            };
            self.wake(past);
            self.waiting.remove(&past);
            self.strangers.remove(&past);
            first = self.next();
        }
        if self.first != first {
            self.first = first;
            self.first_saw = moves;
            self.missed = None;
            if let Some(first) = first {
                self.wake(first);
            }
        }
    }
}

mod tests;
