// SPDX-License-Identifier: GPL-2.0-only

//! Calls that Unix signals interrupt, and the state from which the restarted calls resume.
//!
//! After a signal has interrupted a wait, the kernel restarts the ioctl. For a wait that the client
//! has requested ([`Error::WaitInterrupted`]), it does so only if the handlers allow it
//! (`SA_RESTART`). The arguments are unchanged. So each tick of an interval timer, which X servers
//! have, would restart the timeout. `ERESTART_RESTARTBLOCK` does not help: if there is a handler it
//! becomes `EINTR`, which the vendor's libraries take for a failure.
//!
//! So the driver gives the call a number and keeps its state: when the wait began, the job that
//! STALL waits for, the number of submitted parts of a COMMIT. It writes the number to the
//! interface's `status`, an output, and the restarted call passes it back. A call without the
//! number is a different call: a handler makes it, or has left the first call by `longjmp`. A call
//! after `EINTR` with the same interface, and so the old `status`, resumes the first call.
//!
//! Lock: `galcore restarts`, a leaf.

use super::Process;
use crate::{
    prelude::*,
    sys::trace::WaitFor, //
};

/// The most kept calls of the process that owns the files; and again of all other processes
/// together. There is one for each thread, and for each handler that the thread is in. One more
/// call replaces the oldest of the process with the most calls.
const MAX_KEPT: usize = 256;

/// The most interrupted calls of a thread. Handlers do not nest deeper.
const MAX_OF_THREAD: usize = 8;

/// The bits that mark the number of an interrupted call: no status has them. The lower bits count.
const NUMBERS: u32 = 0x5A00_0000;
const COUNT: u32 = 0x00FF_FFFF;

/// The timeout of a wait without a time limit.
const FOREVER: u32 = u32::MAX;

/// Nanoseconds in a millisecond, and in a tick.
const MILLISECOND: u64 = 1_000_000;
// CAST: at least 32 bits into 64.
const TICK: u64 = 1_000_000_000 / sys::HZ as u64;

/// The longest wait of a request for memory, including its restarts, in nanoseconds. A restart may
/// find more freed memory to wait for, so the sum is limited.
const RECLAIM_TIME: u64 = 5_000 * MILLISECOND;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limited {
    /// A user signal, and the timeout in milliseconds.
    Signal(u32, u32),
    /// A fence, by its descriptor, and the timeout in milliseconds.
    Fence(i32, u32),
    /// All jobs of a core, and the timeout in milliseconds. [`u32::MAX`]: while it progresses.
    Stall(usize, u32),
    /// Progress of a core with the process's jobs.
    Progress(usize),
    /// A place for a later part of a COMMIT. The user addresses of its first part's commands and of
    /// its second part or queue identify it. `progress` is the number of submitted parts.
    Part(u64, u64),
    /// Memory that is being reclaimed.
    Reclaim,
}

impl Limited {
    /// The error of a timeout.
    fn over(self) -> Error {
        match self {
            Limited::Signal(..) | Limited::Fence(..) => Error::Timeout,
            _ => Error::GpuNotResponding,
        }
    }
}

/// An interrupted call.
#[derive(Clone, Copy)]
struct InterruptedCall {
    thread: i32,
    /// The thread's process, if it uses another process's file. 0: the file is its own.
    process: i32,
    /// The number of the call. 0: it has not returned yet.
    number: u32,
    what: Limited,
    /// When the wait began or `progress` last changed, by the monotonic clock.
    since: u64,
    /// The job that it waits for, if the restarted call must wait for the same job.
    goal: u64,
    /// The progress at `since`.
    progress: u64,
    /// A submitted part of a COMMIT has switched contexts.
    was_switched: bool,
    /// The thread has restarted it.
    is_back: bool,
}

impl InterruptedCall {
    /// An interrupted call of `thread`, which waits for `what`.
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
    /// Number of restarted calls that are running.
    back: Atomic<usize>,
    /// The count in the next number.
    numbers: Atomic<u32>,
    #[pin]
    kept: Mutex<KVec<InterruptedCall>>,
}

impl Restarts {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            back: Atomic::new(0),
            numbers: Atomic::new(0),
            kept <- new_mutex!(KVec::new(), "galcore restarts"),
        })
    }

    /// Called when `thread` passes back `number`. Returns whether this is one of its interrupted
    /// calls.
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

    /// Ends the restarted call of `thread`. Drops the state that the call has not taken.
    fn end(&self, thread: i32) {
        self.back.fetch_sub(1, Relaxed);
        let mut kept = self.kept.lock();
        kept.retain(|kept| kept.thread != thread || !kept.is_back);
    }

    /// Takes the state of the call that `thread` has restarted, when the call waits for `what`
    /// again.
    fn take(&self, thread: i32, what: Limited) -> Option<InterruptedCall> {
        if self.back.load(Relaxed) == 0 {
            return None;
        }
        let mut kept = self.kept.lock();
        let is_it =
            |kept: &InterruptedCall| kept.is_back && (kept.thread, kept.what) == (thread, what);
        let index = kept.iter().position(is_it)?;
        kept.remove(index).ok()
    }

    /// Keeps the state of an interrupted call. Returns false if there is no memory for it.
    fn keep(&self, new: InterruptedCall) -> bool {
        let mut kept = self.kept.lock();
        if let Some(gone) = surplus(&kept, &new) {
            drop(kept.remove(gone));
        }
        kept.push(new, sys::GFP_CLIENT).is_ok()
    }

    /// Assigns a number to the interrupted call of `thread`, if its state is kept. Also returns
    /// whether it has submitted parts. State that a restarted call has not taken yet is kept.
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

/// The index of the call in `kept` that the `new` one must replace. `None`: there is room.
fn surplus(kept: &[InterruptedCall], new: &InterruptedCall) -> Option<usize> {
    // First replace the thread's own calls: it has left them by `longjmp`.
    let of_thread = |kept: &&InterruptedCall| kept.thread == new.thread;
    if kept.iter().filter(of_thread).count() >= MAX_OF_THREAD {
        return kept.iter().position(|kept| of_thread(&kept));
    }
    let competes = |kept: &&InterruptedCall| (kept.process == 0) == (new.process == 0);
    let rivals = || kept.iter().filter(competes);
    if rivals().count() < MAX_KEPT {
        return None;
    }
    // Replace a call instead of refusing the new one: kept calls may be of threads or processes
    // that have ended.
    let largest = match new.process {
        0 => 0,
        _ => {
            let share = |process| rivals().filter(|kept| kept.process == process).count();
            // If processes have equally many, `max_by_key` takes the last: it has the oldest call.
            let newest_first = rivals().rev().map(|kept| kept.process);
            newest_first.max_by_key(|&it| share(it))?
        }
    };
    kept.iter().position(|kept| kept.process == largest)
}

fn thread() -> i32 {
    kernel::current!().pid()
}

/// The milliseconds left at `now` of a wait that began at `since` and lasts `milliseconds`.
fn left(milliseconds: u32, since: u64, now: u64) -> u32 {
    let gone = now.saturating_sub(since);
    let all = u64::from(milliseconds) * MILLISECOND;
    // Rounded up.
    let left = all.saturating_sub(gone) + MILLISECOND - 1;
    // CAST: less than 2^63, and at most `milliseconds` then.
    Delta::from_nanos(left as i64).as_millis() as u32
}

/// Calls and traces `wait`, which waits for `what`, for at most `milliseconds` ([`u32::MAX`]:
/// without limit).
#[inline(always)]
pub(super) fn waited<T>(
    what: WaitFor,
    milliseconds: u32,
    wait: impl FnOnce() -> Result<T>,
) -> Result<T> {
    what.record(milliseconds, wait, |result| match result {
        Ok(_) => 0,
        Err(error) => error.status(),
    })
}

/// Calls `wait` with the rest of a timeout of `milliseconds`. The time before a restart counts. The
/// timeout restarts when `progress` returns another value.
#[inline]
pub(super) fn limited<T>(
    process: &Process,
    (trace, what): (WaitFor, Limited),
    milliseconds: u32,
    progress: impl Fn() -> u64,
    wait: impl FnOnce(u32) -> Result<T>,
) -> Result<T> {
    limited_for(
        process,
        0,
        (trace, what),
        milliseconds,
        progress,
        |left, _| wait(left),
    )
}

/// As [`limited`], but also passes job `goal` to `wait`. A restarted call passes the
/// goal of the first call instead.
#[inline]
pub(super) fn limited_for<T>(
    process: &Process,
    goal: u64,
    (trace, what): (WaitFor, Limited),
    milliseconds: u32,
    progress: impl Fn() -> u64,
    wait: impl FnOnce(u32, u64) -> Result<T>,
) -> Result<T> {
    let (begun, before) = (sys::jiffies(), progress());
    let kept = process.restarts.take(thread(), what);
    let goal = kept.as_ref().map_or(goal, |kept| kept.goal);
    let earlier = kept
        .filter(|kept| kept.progress == before)
        .map(|kept| kept.since);
    let limit = match earlier {
        Some(since) if milliseconds != FOREVER => left(milliseconds, since, sys::monotonic_ns()),
        _ => milliseconds,
    };
    let outcome = waited(trace, limit, || wait(limit, goal));
    if !matches!(outcome, Err(Error::Interrupted)) {
        return outcome;
    }
    if limit == 0 {
        // No time was left at the start of this call, so this is a timeout.
        return Err(what.over());
    }
    if milliseconds != FOREVER {
        let after = progress();
        let since = earlier.filter(|_| after == before);
        let ticks = if after == before {
            // The first jiffy may have been almost over.
            sys::jiffies().wrapping_sub(begun).saturating_sub(1)
        } else {
            0
        };
        interrupted(process, (what, goal), since, ticks, after);
    }
    Err(match what {
        Limited::Progress(_) | Limited::Part(..) => Error::Interrupted,
        _ => Error::WaitInterrupted,
    })
}

/// Begins a call of the calling thread, with `status` in the interface. Returns whether it is a
/// restarted call. If so, the caller must call [`end_call`].
#[inline]
pub(crate) fn begin_call(process: &Process, status: u32) -> bool {
    status & !COUNT == NUMBERS && process.restarts.begin(thread(), status)
}

/// Ends a restarted call.
#[cold]
pub(crate) fn end_call(process: &Process) {
    process.restarts.end(thread());
}

/// Assigns a number to the calling thread's interrupted call, if its state is kept. Also
/// returns whether it has submitted parts, and so must not start from the beginning.
#[cold]
pub(crate) fn interrupted_call(process: &Process) -> Option<(u32, bool)> {
    process.restarts.number(thread())
}

/// How many parts of the restarted COMMIT `what` were submitted before the interruption, and
/// whether one has switched contexts. 0 for a new COMMIT.
pub(super) fn parts_done(process: &Process, what: Limited) -> (u32, bool) {
    let kept = process.restarts.take(thread(), what);
    // CAST: the count was 32 bits.
    kept.map_or((0, false), |kept| (kept.progress as u32, kept.was_switched))
}

/// Keeps the state of a COMMIT that was interrupted after `count` of its parts. `OutOfMemory`.
pub(super) fn keep_parts(
    process: &Process,
    what: Limited,
    count: u32,
    was_switched: bool,
) -> Result {
    let kept = InterruptedCall {
        progress: count.into(),
        was_switched,
        ..InterruptedCall::new(thread(), what)
    };
    let is_kept = process.restarts.keep(kept);
    is_kept.then_some(()).ok_or(Error::OutOfMemory)
}

/// Calls `request`, with `true` if it may wait until memory is reclaimed. It may do so for
/// [`RECLAIM_TIME`] after the first call began, including restarts of the ioctl.
pub(super) fn reclaiming<T>(
    process: &Process,
    request: impl FnOnce(bool) -> Result<T>,
) -> Result<T> {
    let now = sys::monotonic_ns();
    let kept = process.restarts.take(thread(), Limited::Reclaim);
    let since = kept.map_or(now, |kept| kept.since);
    let outcome = request(now.saturating_sub(since) < RECLAIM_TIME);
    if matches!(outcome, Err(Error::Interrupted)) {
        process.restarts.keep(InterruptedCall {
            since,
            ..InterruptedCall::new(thread(), Limited::Reclaim)
        });
    }
    outcome
}

/// Keeps the state of the calling thread's interrupted wait. It began at `since`, or, if that
/// is `None`, `ticks` jiffies ago.
#[cold]
#[inline(never)]
fn interrupted(
    process: &Process,
    (what, goal): (Limited, u64),
    since: Option<u64>,
    ticks: usize,
    progress: u64,
) {
    let is_own = process.is_callers();
    let is_kept = match what {
        // If another process makes the call, the restarted call does not resume this wait.
        Limited::Progress(_) => is_own,
        _ => sys::will_restart(),
    };
    if !is_kept || sys::is_killed() {
        return;
    }
    let now = sys::monotonic_ns();
    let gone = usize_as_u64(ticks).saturating_mul(TICK);
    let caller = if is_own {
        0
    } else {
        sys::process_id(kernel::current!().group_leader())
    };
    let kept = InterruptedCall {
        process: caller,
        since: since.unwrap_or(now.saturating_sub(gone)),
        goal,
        progress,
        ..InterruptedCall::new(thread(), what)
    };
    process.restarts.keep(kept);
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
        // Even if the clock went back, the wait would not become longer.
        assert_eq!(left(500, NOW, 0), 500);
    }

    const WHAT: Limited = Limited::Signal(1, 500);

    /// Interrupts a call of `thread` that waits for `what`. Returns its number.
    fn interrupted(restarts: &Restarts, thread: i32, what: Limited, since: u64) -> u32 {
        let kept = InterruptedCall {
            since,
            ..InterruptedCall::new(thread, what)
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
        // The call has a number already.
        assert_eq!(restarts.number(1), None);
        // A call without the number, or with another thread's, is a different call.
        assert_eq!(take(1, WHAT), None);
        assert!(!restarts.begin(2, number) && !restarts.begin(1, number + 1));
        // So is the call of a handler, which is also interrupted.
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
        // A thread's own calls are replaced first.
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
            restarts.keep(InterruptedCall {
                process,
                ..InterruptedCall::new(thread, WHAT)
            })
        };
        let of = |process| {
            let kept = restarts.kept.lock();
            kept.iter().filter(|kept| kept.process == process).count()
        };
        // Calls of two processes. One has ended with all of its threads.
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
        // If each process has one call, the oldest is replaced.
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        for number in 1..=MAX_KEPT as i32 + 2 {
            let kept = InterruptedCall::new(number, WHAT);
            assert!(restarts.keep(InterruptedCall {
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
        let kept = |what, progress| InterruptedCall {
            progress,
            was_switched: true,
            ..InterruptedCall::new(1, what)
        };
        restarts.keep(kept(Limited::Progress(0), 9));
        restarts.keep(kept(Limited::Part(7, 8), 2));
        let (number, has_parts) = restarts.number(1).unwrap();
        assert!(has_parts && restarts.number(1).is_none());
        assert!(restarts.begin(1, number));
        let found = restarts.take(1, Limited::Part(7, 8)).unwrap();
        assert_eq!((found.progress, found.was_switched), (2, true));
        // The call is interrupted again before it reaches that wait.
        restarts.keep(found);
        let (number, has_parts) = restarts.number(1).unwrap();
        restarts.end(1);
        assert!(has_parts && restarts.begin(1, number));
        assert!(restarts.take(1, Limited::Progress(0)).is_some());
        assert!(restarts.take(1, Limited::Part(7, 8)).is_some());
    }
}
