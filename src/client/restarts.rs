// SPDX-License-Identifier: GPL-2.0-only

//! Waits that Unix signals interrupt, and how long they have lasted.
//!
//! The kernel restarts the ioctl of an interrupted wait: always ([`Error::Interrupted`]), or, of what
//! the client itself waits for, when the handlers allow that (`SA_RESTART`). It has the arguments it
//! had. With an interval timer, as an X server has, that would begin the wait's time anew with each
//! tick. So the beginning is kept, by thread and by what is waited for, until the thread waits again.
//! `ERESTART_RESTARTBLOCK` is no way: with a handler it becomes `EINTR`, which the vendor's libraries
//! take for a failure.
//!
//! STALL's job is kept, too: what others have submitted since is not waited for.
//!
//! A restarted call has the user's stack where it was, and is the thread's next call from there. What
//! a handler calls is below that; a call from above, or a second one from the same depth, shows that
//! the first was left, by `longjmp` or with `EINTR`, and what was kept is dropped. If the very next
//! call from this depth is the same wait, it counts as the old one within [`GAP`], or at any time if
//! the thread had to stop: a wait's time may end too early then. STALL waits for newer jobs if the
//! thread has called anything since.
//!
//! Of a COMMIT of several parts it is kept how many have been submitted, if the thread stops or
//! freezes amid them. A handler that leaves by `longjmp` and then commits something else with the
//! same addresses, from the same depth, loses these parts.
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

/// Interrupted waits that are kept of one process: one for each thread in a handler, or in a handler
/// that has interrupted another. One more takes the place of the oldest, but for parts of a COMMIT.
const MAX_KEPT: usize = 512;

/// The wait time that means for ever.
const FOREVER: u32 = u32::MAX;

/// How long after its interruption a wait is resumed with the time that it had left, in nanoseconds:
/// few handlers take so long. Later ones have all their time.
const GAP: u64 = 1_000 * MILLISECOND;

/// Nanoseconds of a millisecond, and of a tick.
const MILLISECOND: u64 = 1_000_000;
// CAST: at least 32 bits into 64.
const TICK: u64 = 1_000_000_000 / sys::HZ as u64;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limited {
    /// A user signal, so many milliseconds.
    Signal(u32, u32),
    /// A fence, by its descriptor, so many milliseconds.
    Fence(i32, u32),
    /// All that a core has, so many milliseconds; [`u32::MAX`]: as long as it gets on.
    Stall(usize, u32),
    /// That a core gets on with what the process has there.
    Progress(usize),
    /// A place for a part of a COMMIT after others: where the commands of the first part are in user
    /// memory, and the next part, or the queue. Its progress is how many parts have been submitted.
    Part(u64, u64),
}

/// An interrupted wait.
#[derive(Clone, Copy)]
struct Kept {
    /// The thread's number.
    thread: i32,
    /// Where its stack was in user space.
    stack: usize,
    what: Limited,
    /// When it began, or something moved last, by the monotonic clock.
    since: u64,
    /// When it was interrupted.
    until: u64,
    /// The job that is waited for, if that stays the same.
    goal: u64,
    /// How far things had come then.
    progress: u64,
    /// One of the parts of a COMMIT has switched contexts.
    was_switched: bool,
    /// A call from the same depth has begun since.
    has_come: bool,
    /// So has one of a handler, or from deeper than that.
    has_called: bool,
}

/// The interrupted waits of a process.
#[pin_data]
pub(super) struct Restarts {
    /// Whether there may be some.
    any: Atomic<bool>,
    #[pin]
    kept: Mutex<KVec<Kept>>,
}

impl Restarts {
    /// None yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            any: Atomic::new(false),
            kept <- new_mutex!(KVec::new(), "galcore restarts"),
        })
    }

    /// This thread begins a call with its stack at `stack`: what it does not resume is dropped.
    fn begin(&self, (thread, stack): (i32, usize)) {
        let mut kept = self.kept.lock();
        kept.retain(|kept| {
            if kept.thread != thread {
                return true;
            }
            if kept.stack == stack {
                return !core::mem::replace(&mut kept.has_come, true);
            }
            kept.has_called = true;
            // A handler's stack of its own may lie above: parts are not submitted twice for that.
            kept.stack > stack || matches!(kept.what, Limited::Part(..))
        });
        self.any.store(!kept.is_empty(), Relaxed);
    }

    /// Takes what is kept of this thread, which waits for `what` now, with its stack at `stack`.
    fn take(&self, (thread, stack): (i32, usize), what: Limited) -> Option<Kept> {
        let mut kept = self.kept.lock();
        let is_own = |kept: &Kept| (kept.thread, kept.stack) == (thread, stack);
        let index = kept.iter().position(is_own)?;
        // A call may have waited for more than one thing to get on.
        let others = |kept: &&mut Kept| kept.what != what;
        // What a handler waits for does not make a COMMIT's parts undone.
        if let Some(Limited::Progress(_) | Limited::Part(..)) =
            kept.get_mut(index).filter(others).map(|kept| kept.what)
        {
            return None;
        }
        let found = kept.remove(index).ok();
        self.any.store(!kept.is_empty(), Relaxed);
        found.filter(|found| found.what == what)
    }

    /// Keeps it; says whether it could. If not, the wait's time begins anew.
    fn keep(&self, new: Kept) -> bool {
        let mut kept = self.kept.lock();
        let is_own = |kept: &Kept| (kept.thread, kept.stack) == (new.thread, new.stack);
        let own = kept.iter().position(is_own);
        // Parts that have been submitted are not submitted again.
        let oldest = || {
            kept.iter()
                .position(|kept| !matches!(kept.what, Limited::Part(..)))
        };
        match own {
            None if kept.len() >= MAX_KEPT => match oldest() {
                Some(index) => drop(kept.remove(index)),
                None => return false,
            },
            None => {}
            Some(index) => drop(kept.remove(index)),
        }
        let is_kept = kept.push(new, sys::GFP_CLIENT).is_ok();
        self.any.store(!kept.is_empty(), Relaxed);
        is_kept
    }
}

/// The calling thread, and where its stack is in user space.
fn caller() -> (i32, usize) {
    (kernel::current!().pid(), sys::user_stack())
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
        let (earlier, goal) = match self.restarts.any.load(Relaxed) {
            true => self.resumed(what, before, goal),
            false => (None, goal),
        };
        let limit = match earlier {
            Some(since) if milliseconds != FOREVER => {
                left(milliseconds, since, sys::monotonic_ns())
            }
            _ => milliseconds,
        };
        let outcome = waited(trace, limit, || wait(limit, goal));
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

    /// The calling thread begins an ioctl.
    #[inline]
    pub(crate) fn begin_call(&self) {
        if self.restarts.any.load(Relaxed) {
            self.restarts.begin(caller());
        }
    }

    /// How many parts of the COMMIT that `what` names the calling thread has submitted before a Unix
    /// signal interrupted it, and whether one of them has switched contexts.
    pub(super) fn parts_done(&self, what: Limited) -> (u32, bool) {
        if !self.restarts.any.load(Relaxed) {
            return (0, false);
        }
        let kept = self.restarts.take(caller(), what);
        // CAST: the count was 32 bits.
        kept.map_or((0, false), |kept| (kept.progress as u32, kept.was_switched))
    }

    /// A COMMIT is interrupted after `count` of its parts: says whether it may end here, as the
    /// kernel restarts it at once, and resumes it there. After a handler it might not come back.
    pub(super) fn keep_parts(&self, what: Limited, count: u32, was_switched: bool) -> bool {
        let (thread, stack) = caller();
        sys::is_stopping()
            && self.restarts.keep(Kept {
                thread,
                stack,
                what,
                since: 0,
                until: 0,
                goal: 0,
                progress: count.into(),
                was_switched,
                has_come: false,
                has_called: false,
            })
    }

    /// When the wait began that the calling thread resumes, if it does and has moved no further; and
    /// the job that it waits for, else `goal`.
    #[cold]
    #[inline(never)]
    fn resumed(&self, what: Limited, progress: u64, goal: u64) -> (Option<u64>, u64) {
        let kept = self.restarts.take(caller(), what);
        let is_soon = |kept: &Kept| sys::monotonic_ns().saturating_sub(kept.until) < GAP;
        match kept.filter(is_soon) {
            Some(kept) => {
                let since = (kept.progress == progress).then_some(kept.since);
                let goal = if kept.has_called { goal } else { kept.goal };
                (since, goal)
            }
            None => (None, goal),
        }
    }

    /// The calling thread's wait, which began at `since`, or so many ticks ago, is interrupted.
    #[cold]
    #[inline(never)]
    fn interrupted(
        &self,
        (what, goal): (Limited, u64),
        since: Option<u64>,
        ticks: usize,
        progress: u64,
    ) {
        if !matches!(what, Limited::Progress(_)) && !sys::will_restart() {
            return;
        }
        let now = sys::monotonic_ns();
        // CAST: at most 64 bits.
        let gone = (ticks as u64).saturating_mul(TICK);
        let (thread, stack) = caller();
        self.restarts.keep(Kept {
            thread,
            stack,
            what,
            since: since.unwrap_or(now.saturating_sub(gone)),
            // What runs no handler comes back to the same call, however late.
            until: if sys::is_stopping() { u64::MAX } else { now },
            goal,
            progress,
            was_switched: false,
            has_come: false,
            has_called: false,
        });
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

    fn kept(thread: i32, since: u64) -> Kept {
        Kept {
            thread,
            stack: 0x1000,
            what: Limited::Signal(1, 500),
            since,
            until: since,
            goal: 0,
            progress: 0,
            was_switched: false,
            has_come: false,
            has_called: false,
        }
    }

    #[test]
    fn what_was_left_is_dropped() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let what = Limited::Signal(1, 500);
        let begin = |stack| restarts.begin((1, stack));
        let take = || restarts.take((1, 0x1000), what).map(|kept| kept.has_called);
        // The restart itself; another thread's calls do not matter.
        restarts.keep(kept(1, 5));
        restarts.begin((2, 0x1000));
        begin(0x1000);
        assert_eq!(take(), Some(false));
        // After calls of a handler.
        restarts.keep(kept(1, 5));
        begin(0x800);
        begin(0x800);
        begin(0x1000);
        assert_eq!(take(), Some(true));
        // Another call came first, from the same depth or from above.
        for stack in [0x1000, 0x2000] {
            restarts.keep(kept(1, 5));
            begin(stack);
            begin(0x1000);
            assert_eq!(take(), None);
            assert!(!restarts.any.load(Relaxed));
        }
        // Parts stay for a handler on a stack of its own, and not for another COMMIT.
        let parts = Limited::Part(7, 8);
        let keep = || {
            restarts.keep(Kept {
                what: parts,
                ..kept(1, 5)
            })
        };
        keep();
        begin(0x2000);
        begin(0x1000);
        assert!(restarts.take((1, 0x1000), parts).is_some());
        keep();
        begin(0x1000);
        begin(0x1000);
        assert!(restarts.take((1, 0x1000), parts).is_none());
    }

    #[test]
    fn a_wait_is_resumed_once_by_its_thread_for_the_same_thing() {
        let restarts = KBox::pin_init(Restarts::new(), GFP_KERNEL).unwrap();
        let at = |stack, thread, what| restarts.take((thread, stack), what).map(|kept| kept.since);
        let take = |thread, what| at(0x1000, thread, what);
        restarts.keep(kept(1, 5));
        restarts.keep(kept(2, 6));
        assert_eq!(take(3, Limited::Signal(1, 500)), None);
        // A handler's wait is another, and leaves this one as it is.
        assert_eq!(at(0x800, 1, Limited::Signal(1, 500)), None);
        assert_eq!(take(1, Limited::Signal(1, 500)), Some(5));
        assert_eq!(take(1, Limited::Signal(1, 500)), None);
        assert_eq!(take(2, Limited::Signal(1, 501)), None);
        assert_eq!(take(2, Limited::Signal(1, 500)), None);
        for thread in 0..1000 {
            restarts.keep(kept(thread, 5));
        }
        assert_eq!(restarts.kept.lock().len(), MAX_KEPT);
        assert_eq!(take(0, Limited::Signal(1, 500)), None);
        assert_eq!(take(999, Limited::Signal(1, 500)), Some(5));
    }
}
