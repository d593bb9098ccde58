// SPDX-License-Identifier: GPL-2.0-only

//! Waits that Unix signals interrupt, and how long they have lasted.
//!
//! The kernel restarts the ioctl of an interrupted wait: always ([`Error::Interrupted`]), or, of what
//! the client itself waits for, when the handlers allow that (`SA_RESTART`). It has the arguments it
//! had. With an interval timer, as an X server has, that would begin the wait's time anew with each
//! tick. `ERESTART_RESTARTBLOCK` is no way: with a handler it becomes `EINTR`, which the vendor's
//! libraries take for a failure.
//!
//! So what the call has come to is kept under a number, which the caller finds in the interface's
//! `status`, an output, and the restarted call passes back: when the wait began, the job that STALL
//! waits for, how many parts of a COMMIT have been submitted. A call that does not pass it back is
//! another one, from a handler, or after one that has left by `longjmp`. An interface that is used
//! again after `EINTR`, with its old `status`, goes on with the call.
//!
//! Lock: `galcore restarts`, a leaf.

use super::{
    waits::waited,
    Process, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    sys::{
        self,
        trace::WaitFor, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Mutex, //
    },
    time::Delta, //
};

/// Interrupted calls that are kept of one process, and as many of all others that have got a file of
/// its: one for each thread in a handler, or in a handler that has interrupted another. One more takes
/// the place of the oldest, of the process that has most.
const MAX_KEPT: usize = 256;

/// Of one thread: more handlers do not interrupt each other.
const MAX_OF_THREAD: usize = 8;

/// Numbers of interrupted calls have these bits, which no status has, and count below.
const NUMBERS: u32 = 0x5A00_0000;
const COUNT: u32 = 0x00FF_FFFF;

/// The wait time that means for ever.
const FOREVER: u32 = u32::MAX;

/// Nanoseconds of a millisecond, and of a tick.
const MILLISECOND: u64 = 1_000_000;
// CAST: at least 32 bits into 64.
const TICK: u64 = 1_000_000_000 / sys::HZ as u64;

/// For how long requests wait for memory before they fail, over their restarts, in nanoseconds: each
/// restart waits for what was freed by then.
const RECLAIM_TIME: u64 = 5_000 * MILLISECOND;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limited {
    /// A user signal; milliseconds.
    Signal(u32, u32),
    /// A fence, by its descriptor; milliseconds.
    Fence(i32, u32),
    /// All that a core has; milliseconds, or [`u32::MAX`]: as long as it gets on.
    Stall(usize, u32),
    /// That a core gets on with what the process has there.
    Progress(usize),
    /// A place for a part of a COMMIT after others: where the commands of the first part are in user
    /// memory, and the next part, or the queue. Its progress is how many parts have been submitted.
    Part(u64, u64),
    /// Memory that comes back.
    Reclaim,
}

impl Limited {
    /// The answer if it does not come.
    fn over(self) -> Error {
        match self {
            Limited::Signal(..) | Limited::Fence(..) => Error::Timeout,
            _ => Error::GpuNotResponding,
        }
    }
}

/// An interrupted call.
#[derive(Clone, Copy)]
struct Kept {
    thread: i32,
    /// The thread's process, if that has got a file of another; 0: the file is its own.
    process: i32,
    /// The call's number; 0: it has not ended yet.
    number: u32,
    what: Limited,
    /// When it began, or something moved last, by the monotonic clock.
    since: u64,
    /// The job that is waited for, if that stays the same.
    goal: u64,
    /// How far things had come then.
    progress: u64,
    /// One of the parts of a COMMIT has switched contexts.
    was_switched: bool,
    is_back: bool,
}

impl Kept {
    /// A call of `thread`'s that ends now, and waits for `what`.
    fn new(thread: i32, what: Limited) -> Self {
        Self {
            thread,
            process: 0,
            number: 0,
            what,
            since: 0,
            goal: 0,
            progress: 0,
            was_switched: false,
            is_back: false,
        }
    }
}

/// The interrupted calls of a process.
#[pin_data]
pub(super) struct Restarts {
    /// How many restarted calls are under way.
    back: Atomic<usize>,
    /// How many numbers have been given.
    numbers: Atomic<u32>,
    #[pin]
    kept: Mutex<KVec<Kept>>,
}

impl Restarts {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            back: Atomic::new(0),
            numbers: Atomic::new(0),
            kept <- new_mutex!(KVec::new(), "galcore restarts"),
        })
    }

    /// `thread` passes `number` back; says whether that is a call of its.
    fn begin(&self, thread: i32, number: u32) -> bool {
        let mut is_back = false;
        for kept in self.kept.lock().iter_mut() {
            if (kept.thread, kept.number) == (thread, number) {
                kept.is_back = true;
                is_back = true;
            }
        }
        self.back.add(is_back.into(), Relaxed);
        is_back
    }

    /// The call that `thread` has restarted ends: what it did not take is dropped.
    fn end(&self, thread: i32) {
        self.back.add(usize::MAX, Relaxed);
        let mut kept = self.kept.lock();
        kept.retain(|kept| kept.thread != thread || !kept.is_back);
    }

    /// Takes what is kept of the call that `thread` has restarted, and that waits for `what` now.
    fn take(&self, thread: i32, what: Limited) -> Option<Kept> {
        if self.back.load(Relaxed) == 0 {
            return None;
        }
        let mut kept = self.kept.lock();
        let is_it = |kept: &Kept| kept.is_back && (kept.thread, kept.what) == (thread, what);
        let index = kept.iter().position(is_it)?;
        kept.remove(index).ok()
    }

    /// Keeps what a call has come to that is interrupted; says whether it could.
    fn keep(&self, new: Kept) -> bool {
        let mut kept = self.kept.lock();
        if let Some(gone) = surplus(&kept, &new) {
            drop(kept.remove(gone));
        }
        kept.push(new, sys::GFP_CLIENT).is_ok()
    }

    /// The number of the call of `thread`'s that ends now, interrupted, if something is kept of it,
    /// and whether it has submitted some parts. What it had and has not come to again stays.
    fn number(&self, thread: i32) -> Option<(u32, bool)> {
        let number = NUMBERS | self.numbers.fetch_add(1, Relaxed) & COUNT;
        let (mut is_kept, mut has_parts) = (false, false);
        for kept in self.kept.lock().iter_mut() {
            if kept.thread == thread && (kept.number == 0 || kept.is_back) {
                kept.number = number;
                kept.is_back = false;
                is_kept = true;
                has_parts |= matches!(kept.what, Limited::Part(..));
            }
        }
        is_kept.then_some((number, has_parts))
    }
}

/// Which of the calls that are `kept` makes room for a `new` one, if there is none.
fn surplus(kept: &[Kept], new: &Kept) -> Option<usize> {
    // A thread's own go first: it leaves them by `longjmp`.
    let of_thread = |kept: &&Kept| kept.thread == new.thread;
    if kept.iter().filter(of_thread).count() >= MAX_OF_THREAD {
        return kept.iter().position(|kept| of_thread(&kept));
    }
    let competes = |kept: &&Kept| (kept.process == 0) == (new.process == 0);
    let rivals = || kept.iter().filter(competes);
    if rivals().count() < MAX_KEPT {
        return None;
    }
    // Threads may have ended, and processes: so nothing is refused for what is there.
    let largest = match new.process {
        0 => 0,
        _ => {
            let share = |process| rivals().filter(|kept| kept.process == process).count();
            // Of several the one with the oldest: the last in this order.
            let newest_first = rivals().rev().map(|kept| kept.process);
            newest_first.max_by_key(|&it| share(it))?
        }
    };
    kept.iter().position(|kept| kept.process == largest)
}

fn thread() -> i32 {
    kernel::current!().pid()
}

/// How many of `milliseconds` are left at `now` of a wait that began at `since`.
fn left(milliseconds: u32, since: u64, now: u64) -> u32 {
    let gone = now.saturating_sub(since);
    let all = u64::from(milliseconds) * MILLISECOND;
    // Rounded up.
    let left = all.saturating_sub(gone) + MILLISECOND - 1;
    // CAST: less than 2^63, and at most `milliseconds` then.
    Delta::from_nanos(left as i64).as_millis() as u32
}

impl Process {
    /// Does `wait`, which takes as many milliseconds at most as it is given: `milliseconds` in all,
    /// over the restarts of the ioctl. `progress`: what starts them over when it changes.
    #[inline]
    pub(super) fn limited<T>(
        &self,
        (trace, what): (WaitFor, Limited),
        milliseconds: u32,
        progress: impl Fn() -> u64,
        wait: impl FnOnce(u32) -> Result<T>,
    ) -> Result<T> {
        self.limited_for(0, (trace, what), milliseconds, progress, |left, _| {
            wait(left)
        })
    }

    /// The same for job `goal`, which `wait` is given, too: of a wait that is resumed it is that of
    /// the first time.
    #[inline]
    pub(super) fn limited_for<T>(
        &self,
        goal: u64,
        (trace, what): (WaitFor, Limited),
        milliseconds: u32,
        progress: impl Fn() -> u64,
        wait: impl FnOnce(u32, u64) -> Result<T>,
    ) -> Result<T> {
        let (begun, before) = (sys::jiffies(), progress());
        let kept = self.restarts.take(thread(), what);
        let goal = kept.as_ref().map_or(goal, |kept| kept.goal);
        let earlier = kept
            .filter(|kept| kept.progress == before)
            .map(|kept| kept.since);
        let limit = match earlier {
            Some(since) if milliseconds != FOREVER => {
                left(milliseconds, since, sys::monotonic_ns())
            }
            _ => milliseconds,
        };
        let outcome = waited(trace, limit, || wait(limit, goal));
        if limit == 0 && matches!(outcome, Err(Error::Interrupted)) {
            // Another signal came before it was restarted: its time is over all the same.
            return Err(what.over());
        }
        if outcome.as_ref().err() != Some(&Error::Interrupted) {
            return outcome;
        }
        if milliseconds != FOREVER {
            let after = progress();
            let since = earlier.filter(|_| after == before);
            let ticks = match after == before {
                // The first one may have been almost over.
                true => sys::jiffies().wrapping_sub(begun).saturating_sub(1),
                false => 0,
            };
            self.interrupted((what, goal), since, ticks, after);
        }
        Err(match what {
            Limited::Progress(_) | Limited::Part(..) => Error::Interrupted,
            _ => Error::WaitInterrupted,
        })
    }

    /// The calling thread begins a call, and finds `status` in the interface. Says whether that is a
    /// restarted one: then it calls [`Process::end_call`].
    #[inline]
    pub(crate) fn begin_call(&self, status: u32) -> bool {
        status & !COUNT == NUMBERS && self.restarts.begin(thread(), status)
    }

    /// A restarted call ends.
    #[cold]
    pub(crate) fn end_call(&self) {
        self.restarts.end(thread());
    }

    /// The number of the calling thread's call, which is interrupted, if something is kept of it, and
    /// whether it must not begin anew: it has submitted some of its parts.
    #[cold]
    pub(crate) fn interrupted_call(&self) -> Option<(u32, bool)> {
        self.restarts.number(thread())
    }

    /// How many parts of the COMMIT that `what` names were submitted before it was interrupted, if it
    /// is a restarted one, and whether one of them has switched contexts.
    pub(super) fn parts_done(&self, what: Limited) -> (u32, bool) {
        let kept = self.restarts.take(thread(), what);
        // CAST: the count was 32 bits.
        kept.map_or((0, false), |kept| (kept.progress as u32, kept.was_switched))
    }

    /// A COMMIT is interrupted after `count` of its parts. `OutOfMemory`: none to note that.
    pub(super) fn keep_parts(&self, what: Limited, count: u32, was_switched: bool) -> Result {
        let kept = Kept {
            progress: count.into(),
            was_switched,
            ..Kept::new(thread(), what)
        };
        let is_kept = self.restarts.keep(kept);
        is_kept.then_some(()).ok_or(Error::OutOfMemory)
    }

    /// Does `request`, which waits for memory to come back before it fails if it is given `true`: that
    /// ends [`RECLAIM_TIME`] after the call has begun, over the restarts of the ioctl.
    pub(super) fn reclaiming<T>(&self, request: impl FnOnce(bool) -> Result<T>) -> Result<T> {
        let now = sys::monotonic_ns();
        let kept = self.restarts.take(thread(), Limited::Reclaim);
        let since = kept.map_or(now, |kept| kept.since);
        let outcome = request(now.saturating_sub(since) < RECLAIM_TIME);
        if matches!(outcome, Err(Error::Interrupted)) {
            self.restarts.keep(Kept {
                since,
                ..Kept::new(thread(), Limited::Reclaim)
            });
        }
        outcome
    }

    /// The calling thread's wait, which began at `since`, or `ticks` ticks ago, is interrupted.
    #[cold]
    #[inline(never)]
    fn interrupted(
        &self,
        (what, goal): (Limited, u64),
        since: Option<u64>,
        ticks: usize,
        progress: u64,
    ) {
        let is_own = self.is_callers();
        let is_kept = match what {
            // Else it is another process's call, which this one does not restart.
            Limited::Progress(_) => is_own,
            _ => sys::will_restart(),
        };
        if !is_kept || sys::is_killed() {
            return;
        }
        let now = sys::monotonic_ns();
        // CAST: at most 64 bits.
        let gone = (ticks as u64).saturating_mul(TICK);
        let process = match is_own {
            true => 0,
            false => sys::process_id(kernel::current!().group_leader()),
        };
        let kept = Kept {
            process,
            since: since.unwrap_or(now.saturating_sub(gone)),
            goal,
            progress,
            ..Kept::new(thread(), what)
        };
        self.restarts.keep(kept);
    }
}

#[kernel::macros::kunit_tests(galcore_restarts)]
mod tests {
    use super::*;

    const NOW: u64 = 7_000 * MILLISECOND;

    #[test]
    fn what_is_left_is_rounded_up() {
        assert_eq!(left(500, NOW, NOW), 500);
        let after = |ns: u64| left(500, NOW, NOW + ns);
        assert_eq!(after(10 * MILLISECOND), 490);
        assert_eq!(after(10 * MILLISECOND + 1), 490);
        assert_eq!(after(500 * MILLISECOND - 1), 1);
        assert_eq!(after(500 * MILLISECOND), 0);
        assert_eq!(after(u64::MAX - NOW), 0);
        assert_eq!(left(u32::MAX - 1, NOW, NOW), u32::MAX - 1);
        // The clock does not go back; if it does nothing is longer than it was.
        assert_eq!(left(500, NOW, 0), 500);
    }

    const WHAT: Limited = Limited::Signal(1, 500);

    /// A call of `thread`'s that waits for `what` is interrupted: its number.
    fn interrupted(restarts: &Restarts, thread: i32, what: Limited, since: u64) -> u32 {
        let kept = Kept {
            since,
            ..Kept::new(thread, what)
        };
        assert!(restarts.keep(kept));
        restarts.number(thread).unwrap().0
    }

    #[test]
    fn a_call_is_resumed_once_by_its_number() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let take = |thread, what| restarts.take(thread, what).map(|kept| kept.since);
        let number = interrupted(&restarts, 1, WHAT, 5);
        assert_eq!(number & !COUNT, NUMBERS);
        // Once.
        assert_eq!(restarts.number(1), None);
        // Without the number, and with that of another thread's call, it is another one.
        assert_eq!(take(1, WHAT), None);
        assert!(!restarts.begin(2, number) && !restarts.begin(1, number + 1));
        // So is a handler's, which is interrupted itself.
        let inner = interrupted(&restarts, 1, WHAT, 6);
        assert_ne!(inner, number);
        assert!(restarts.begin(1, inner));
        assert_eq!(take(1, WHAT), Some(6));
        restarts.end(1);
        assert!(restarts.begin(1, number));
        assert_eq!(take(2, WHAT), None);
        assert_eq!(take(1, WHAT), Some(5));
        assert_eq!(take(1, WHAT), None);
        restarts.end(1);
        assert!(!restarts.begin(1, number));
        assert_eq!(restarts.back.load(Relaxed), 0);
    }

    #[test]
    fn what_a_restarted_call_does_not_take_is_dropped() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let number = interrupted(&restarts, 1, WHAT, 5);
        assert!(restarts.begin(1, number));
        assert!(restarts.take(1, Limited::Signal(1, 501)).is_none());
        restarts.end(1);
        assert!(!restarts.begin(1, number));
        assert!(restarts.kept.lock().is_empty());
    }

    #[test]
    fn the_oldest_goes_where_there_are_too_many() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let first = interrupted(&restarts, 0, WHAT, 5);
        let mut last = first;
        // CAST: small.
        for thread in 1..=MAX_KEPT as i32 {
            last = interrupted(&restarts, thread, WHAT, 5);
        }
        assert_eq!(restarts.kept.lock().len(), MAX_KEPT);
        assert!(!restarts.begin(0, first));
        // CAST: small.
        assert!(restarts.begin(MAX_KEPT as i32, last));
        // A thread's own go before others'.
        for _ in 0..2 * MAX_OF_THREAD {
            interrupted(&restarts, 2, WHAT, 5);
        }
        let kept = restarts.kept.lock();
        let of_thread = kept.iter().filter(|kept| kept.thread == 2).count();
        assert_eq!((kept.len(), of_thread), (MAX_KEPT, MAX_OF_THREAD));
    }

    #[test]
    fn a_process_with_many_makes_room_for_others() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let own = interrupted(&restarts, 1, WHAT, 5);
        let keep = |process, thread| {
            restarts.keep(Kept {
                process,
                ..Kept::new(thread, WHAT)
            })
        };
        let of = |process| {
            let kept = restarts.kept.lock();
            kept.iter().filter(|kept| kept.process == process).count()
        };
        // Those of two processes, one of which has ended with all of its threads.
        assert!(keep(8, 2));
        // CAST: small.
        for thread in 0..MAX_KEPT as i32 {
            assert!(keep(9, 10 + thread));
        }
        assert_eq!((of(0), of(8), of(9)), (1, 1, MAX_KEPT - 1));
        for thread in 0..5 {
            assert!(keep(7, 1000 + thread));
        }
        assert_eq!((of(7), of(8), of(9)), (5, 1, MAX_KEPT - 6));
        assert!(restarts.begin(1, own));
        // All have one: the oldest goes, not that of a process that came before the newest.
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        for number in 1..=MAX_KEPT as i32 + 2 {
            let kept = Kept::new(number, WHAT);
            assert!(restarts.keep(Kept {
                process: number,
                ..kept
            }));
        }
        let kept = restarts.kept.lock();
        let processes = kept.iter().map(|kept| kept.process);
        assert!(processes.eq(3..=MAX_KEPT as i32 + 2));
    }

    #[test]
    fn parts_and_the_wait_amid_them_are_one_call() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let kept = |what, progress| Kept {
            progress,
            was_switched: true,
            ..Kept::new(1, what)
        };
        restarts.keep(kept(Limited::Progress(0), 9));
        restarts.keep(kept(Limited::Part(7, 8), 2));
        let (number, has_parts) = restarts.number(1).unwrap();
        assert!(has_parts && restarts.number(1).is_none());
        assert!(restarts.begin(1, number));
        let found = restarts.take(1, Limited::Part(7, 8)).unwrap();
        assert_eq!((found.progress, found.was_switched), (2, true));
        // It is interrupted before it comes to that wait again.
        restarts.keep(found);
        let (number, has_parts) = restarts.number(1).unwrap();
        restarts.end(1);
        assert!(has_parts && restarts.begin(1, number));
        assert!(restarts.take(1, Limited::Progress(0)).is_some());
        assert!(restarts.take(1, Limited::Part(7, 8)).is_some());
    }
}
