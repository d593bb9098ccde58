// SPDX-License-Identifier: GPL-2.0-only

//! Whether a core makes progress, according to what the hang check sees.
//!
//! Pure logic. A core has moved if a job has ended, the front end's position has changed, or the
//! counters of drawn primitives have changed. (A long draw still draws primitives.) If a core does
//! not move within a time limit, it hangs. The limit is short if the core has reported an error, or
//! stops at a command that does not exist. An error alone proves nothing: the core may move on.
//!
//! A job that moves may still take too long, and so may several jobs of one process. Their time
//! counts only while they delay other processes, and the count ends when these have had their turn.
//! If jobs of several processes alternate before the job of another, each process has a count.

use super::GPU_TIMEOUT;
use crate::{
    hw::Progress,
    stream::words, //
};
use kernel::time::msecs_to_jiffies;

/// How long a core that has reported an error may make no progress, in ms. Most cores move on.
const FAILED_TIME: u32 = 100;

/// The most time that one look charges to a job that delays others, in milliseconds. On a busy
/// machine a look may be late, which is not the job's fault.
const LOOK_TIME: u32 = 250;

/// How long no process must be delayed before the counts are cleared, in milliseconds. A COMMIT
/// that a Unix signal interrupts does not wait until it is restarted.
const FREE_TIME: u32 = 1000;

/// Whether a core that hangs is reset, and how long it may make no progress, in jiffies: without an
/// error, and after one. `timeout`: the parameter `gpuTimeout`.
pub(crate) fn limits(timeout: u32) -> (bool, (usize, usize)) {
    let (recovers, limit) = match timeout {
        0 => (false, GPU_TIMEOUT),
        limit => (true, limit),
    };
    let limits = [limit, FAILED_TIME].map(msecs_to_jiffies);
    (recovers, limits.into())
}

/// The most processes that have a count: more than can have jobs in a ring.
const MOST_COUNTED: usize = 32;

/// How long a process has delayed others.
#[derive(Clone, Copy, Default)]
struct Count {
    /// 0: the slot is free.
    process: u64,
    /// In jiffies.
    held_up: usize,
    /// The count ends when another process's job with this number or a higher one has ended.
    until: u64,
}

/// What the hang check has seen.
pub(crate) struct Watch {
    /// The newest job that had ended at the last look.
    completed: u64,
    /// The last progress seen. `None`: none yet.
    seen: Option<Progress>,
    /// When this progress was first seen, in jiffies.
    since: usize,
    /// The core reported an error when this job was the newest that had ended.
    failed: Option<u64>,
    /// A look has seen the error.
    is_failure_seen: bool,
    /// The hang has been logged.
    is_told: bool,
    /// How often looks found that the core had moved.
    moves: u64,
    counts: [Count; MOST_COUNTED],
    /// The process of the oldest job at the last look.
    holder: u64,
    /// When the last look was, in jiffies.
    looked: Option<usize>,
    /// Since when nothing is delayed, in jiffies. Only set while there are counts.
    free: Option<usize>,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The core has moved.
    Moves,
    /// It has not moved. This number of jiffies is left until it counts as a hang.
    Stalled(usize),
    /// It has not moved within its time limit.
    Hangs,
}

impl Watch {
    /// A watch of a core whose newest ended job is `completed`.
    pub(crate) fn new(completed: u64) -> Self {
        Self {
            completed,
            seen: None,
            since: 0,
            failed: None,
            is_failure_seen: false,
            is_told: false,
            moves: 0,
            counts: [Count::default(); MOST_COUNTED],
            holder: 0,
            looked: None,
            free: None,
        }
    }

    /// Starts over: the core was reset, or is unknown. `completed`: the newest job that has ended.
    pub(crate) fn forget(&mut self, completed: u64) {
        self.failed = None;
        self.look_anew(completed);
    }

    /// As [`Watch::forget`], but an error since the end of job `completed` still counts.
    pub(crate) fn look_anew(&mut self, completed: u64) {
        *self = Self {
            failed: self.failed.filter(|&job| job == completed),
            moves: self.moves.wrapping_add(1),
            ..Self::new(completed)
        };
    }

    /// How often the core has moved, apart from ends of jobs.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Notes that job `number` of process `process` (0: the driver) has ended.
    #[inline]
    pub(crate) fn ended(&mut self, process: u64, number: u64) {
        // Counts have no gaps, so the first tells whether there are any.
        if process != 0 && self.counts[0].process != 0 {
            self.end_turn(process, number);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_turn(&mut self, process: u64, number: u64) {
        let mut left = 0;
        for index in 0..MOST_COUNTED {
            let count = core::mem::take(&mut self.counts[index]);
            if count.process == process || number < count.until {
                self.counts[left] = count;
                left += usize::from(count.process != 0);
            }
        }
    }

    /// Whether the oldest job's process, `process`, has delayed others for `limit` milliseconds (0:
    /// no limit). `holds_up`: whether it delays them now. `last`: the newest job of another
    /// process, or the next job.
    pub(crate) fn is_too_long(
        &mut self,
        now: usize,
        (process, last): (u64, u64),
        holds_up: bool,
        limit: u32,
    ) -> bool {
        if process != 0 && core::mem::replace(&mut self.holder, process) != process {
            self.looked = None;
        }
        match self.counts[0].process {
            0 => {}
            _ if process == 0 || holds_up => self.free = None,
            _ => {
                let then = *self.free.get_or_insert(now);
                if now.wrapping_sub(then) >= msecs_to_jiffies(FREE_TIME) {
                    // The others have had their turn, or wait no longer.
                    self.counts = [Count::default(); MOST_COUNTED];
                }
            }
        }
        let before = self.looked.replace(now).filter(|_| holds_up);
        let passed = before.map_or(0, |before| now.wrapping_sub(before));
        let [most, limit] = [LOOK_TIME, limit].map(msecs_to_jiffies);
        let is_its = |count: &&mut Count| [0, process].contains(&count.process);
        let Some(count) = self.counts.iter_mut().find(is_its).filter(|_| passed != 0) else {
            return false;
        };
        if count.process != process {
            *count = Count {
                process,
                held_up: 0,
                until: last,
            };
        }
        count.held_up = count.held_up.saturating_add(passed.min(most));
        limit != 0 && count.held_up >= limit
    }

    /// Notes that the core has reported an error. `completed`: the newest job that had ended then.
    pub(crate) fn note_failure(&mut self, completed: u64) {
        self.failed = Some(completed);
        self.is_failure_seen = false;
    }

    /// Whether a job has ended since the last call. `completed`: the newest job that has ended.
    pub(crate) fn has_ended(&mut self, completed: u64) -> bool {
        let has = self.completed != completed;
        if has {
            *self = Self {
                failed: self.failed.filter(|&job| job == completed),
                moves: self.moves,
                counts: self.counts,
                holder: self.holder,
                free: self.free,
                ..Self::new(completed)
            };
        }
        has
    }

    /// Looks at the core's `progress`. The limits: how long it may make no progress without an
    /// error, and how long after one.
    pub(crate) fn look(
        &mut self,
        now: usize,
        progress: Progress,
        (limit, failed): (usize, usize),
    ) -> Finding {
        if self.seen != Some(progress) {
            self.seen = Some(progress);
            self.since = now;
            // The core has moved on since an error that an earlier look saw.
            if core::mem::replace(&mut self.is_failure_seen, true) {
                self.failed = None;
            }
            self.is_told = false;
            self.moves = self.moves.wrapping_add(1);
            return Finding::Moves;
        }
        let is_illegal = progress.command.is_some_and(|word| !words::exists(word));
        let limit = if self.failed.is_some() || is_illegal {
            limit.min(failed)
        } else {
            limit
        };
        match limit.checked_sub(now.wrapping_sub(self.since)) {
            None | Some(0) => Finding::Hangs,
            Some(left) => Finding::Stalled(left),
        }
    }

    /// How long the core has not moved, in jiffies.
    pub(crate) fn standstill(&self, now: usize) -> usize {
        match self.seen {
            Some(_) => now.wrapping_sub(self.since),
            None => 0,
        }
    }

    /// Whether the core has not moved since the last look.
    pub(crate) fn is_there(&self, progress: Progress) -> bool {
        self.seen == Some(progress)
    }

    /// Whether the caller should log the hang. True once, until the core moves.
    pub(crate) fn tell(&mut self) -> bool {
        !core::mem::replace(&mut self.is_told, true)
    }
}

#[kernel::macros::kunit_tests(galcore_watch)]
mod tests {
    use super::{
        Finding::{
            Hangs,
            Moves,
            Stalled, //
        },
        *,
    };

    fn at(position: u32, drawn: u32) -> Progress {
        Progress {
            position,
            drawn,
            command: None,
        }
    }

    #[test]
    fn what_stands_still_hangs_when_its_time_is_over() {
        let mut watch = Watch::new(7);
        // Jiffies wrap.
        let start = usize::MAX - 2;
        assert_eq!(watch.look(start, at(8, 0), (10, 5)), Moves);
        assert_eq!(
            watch.look(start.wrapping_add(4), at(8, 0), (10, 5)),
            Stalled(6)
        );
        assert!(watch.is_there(at(8, 0)));
        assert_eq!(watch.look(start.wrapping_add(10), at(8, 0), (10, 5)), Hangs);
        assert!(watch.tell());
        assert!(!watch.tell());
        assert_eq!(watch.look(start.wrapping_add(99), at(8, 0), (10, 5)), Hangs);
    }

    #[test]
    fn whatever_moves_is_progress() {
        let mut watch = Watch::new(7);
        assert_eq!(watch.look(0, at(8, 0), (10, 5)), Moves);
        assert_eq!(watch.look(9, at(16, 0), (10, 5)), Moves);
        assert_eq!(watch.look(18, at(16, 1), (10, 5)), Moves);
        assert_eq!(watch.look(27, at(16, 1), (10, 5)), Stalled(1));
        assert!(!watch.has_ended(7));
        assert!(watch.has_ended(8));
        assert_eq!(watch.look(36, at(16, 1), (10, 5)), Moves);
    }

    #[test]
    fn a_job_has_a_limit_only_while_it_holds_others_up() {
        let mut watch = Watch::new(7);
        let start = usize::MAX - 2;
        let mut now = start;
        // Alone, a job has no limit.
        for _ in 0..100 {
            now = now.wrapping_add(msecs_to_jiffies(100));
            assert!(!watch.is_too_long(now, (3, 9), false, 1000));
        }
        for _ in 0..9 {
            now = now.wrapping_add(msecs_to_jiffies(100));
            assert!(!watch.is_too_long(now, (3, 9), true, 1000));
        }
        // A late look counts as little as one in time.
        now = now.wrapping_add(msecs_to_jiffies(60_000));
        assert!(watch.is_too_long(now, (3, 9), true, 1000));
        assert!(!watch.is_too_long(now.wrapping_add(1), (3, 9), true, 0));
        // The next process has its own count, which begins with the first look at its job.
        watch.ended(3, 8);
        assert!(watch.has_ended(8));
        let later = |time| now.wrapping_add(msecs_to_jiffies(time));
        assert!(!watch.is_too_long(later(2000), (4, 12), true, 200));
        assert!(watch.is_too_long(later(2200), (4, 12), true, 200));
        // Its next job adds to the count. The driver's jobs do not count as another process's.
        watch.ended(4, 9);
        watch.ended(0, 10);
        assert!(watch.has_ended(10));
        assert!(!watch.is_too_long(later(2250), (4, 12), true, 200));
        assert!(watch.is_too_long(later(2300), (4, 12), true, 200));
        // A job of another process ran in between.
        watch.ended(5, 12);
        assert!(!watch.is_too_long(later(2400), (4, 14), true, 200));
        assert!(watch.is_too_long(later(2500), (4, 14), true, 200));
    }

    #[test]
    fn processes_that_alternate_before_another_are_counted_each() {
        let mut watch = Watch::new(0);
        // Job 20 is a third process's. Two processes alternate before it, with jobs of 100 ms each.
        let mut found = None;
        for job in 1..20_u32 {
            let process = u64::from(2 + job % 2);
            let then = 1000 + msecs_to_jiffies(100 * job);
            assert!(!watch.is_too_long(then, (process, 20), true, 1000));
            if watch.is_too_long(then + msecs_to_jiffies(100) - 1, (process, 20), true, 300) {
                found.get_or_insert(job);
            }
            watch.ended(process, job.into());
        }
        assert_eq!(found, Some(7));
        // After job 20 has ended, all counts begin again.
        watch.ended(9, 20);
        assert_eq!(watch.counts[0].process, 0);
        // The counts also begin again if the other process waits no longer.
        let mut watch = Watch::new(20);
        assert!(!watch.is_too_long(10_000, (3, 30), true, 300));
        assert!(!watch.is_too_long(10_000 + msecs_to_jiffies(100), (3, 30), true, 300));
        assert_eq!(watch.counts[0].process, 3);
        for (time, holds_up, process) in [
            (200, false, 3),
            (300, true, 3),
            (400, false, 3),
            (1300, false, 3),
            (1400, false, 0),
        ] {
            watch.is_too_long(10_000 + msecs_to_jiffies(time), (3, 30), holds_up, 1000);
            assert_eq!(watch.counts[0].process, process);
        }
        // Two processes that wait for each other take turns.
        let mut watch = Watch::new(0);
        for job in 1..20_u32 {
            let process = u64::from(2 + job % 2);
            let then = 1000 + msecs_to_jiffies(100 * job);
            let last = u64::from(job) + 1;
            assert!(!watch.is_too_long(then, (process, last), true, 300));
            assert!(!watch.is_too_long(
                then + msecs_to_jiffies(100) - 1,
                (process, last),
                true,
                300
            ));
            watch.ended(process, job.into());
        }
    }

    #[test]
    fn moves_are_counted_over_jobs() {
        let mut watch = Watch::new(7);
        watch.look(0, at(8, 0), (10, 5));
        watch.look(1, at(8, 0), (10, 5));
        assert_eq!(watch.moves(), 1);
        assert!(watch.has_ended(8));
        watch.look(2, at(8, 0), (10, 5));
        assert_eq!(watch.moves(), 2);
        watch.forget(8);
        assert_eq!(watch.moves(), 3);
    }

    #[test]
    fn an_error_that_is_not_got_over_is_a_hang_at_once() {
        let mut watch = Watch::new(0);
        watch.note_failure(0);
        assert_eq!(watch.look(0, at(8, 0), (1000, 5)), Moves);
        // The core has moved on.
        assert_eq!(watch.look(5, at(16, 0), (1000, 5)), Moves);
        assert_eq!(watch.look(10, at(16, 0), (1000, 5)), Stalled(995));
        watch.note_failure(0);
        assert_eq!(watch.look(15, at(16, 0), (1000, 5)), Hangs);
        // The error came when the core was started.
        watch.look_anew(0);
        assert_eq!(watch.look(15, at(16, 0), (1000, 5)), Moves);
        assert_eq!(watch.look(20, at(16, 0), (1000, 5)), Hangs);
        watch.forget(0);
        assert_eq!(watch.look(20, at(16, 0), (1000, 5)), Moves);
        assert_ne!(watch.look(25, at(16, 0), (1000, 5)), Hangs);
        // The job that caused the error has ended, or the error came after its end.
        assert!(watch.has_ended(1));
        assert_eq!(watch.look(16, at(17, 0), (1000, 5)), Moves);
        assert_eq!(watch.look(17, at(17, 0), (1000, 5)), Stalled(999));
        watch.note_failure(2);
        assert!(watch.has_ended(2));
        assert_eq!(watch.look(18, at(18, 0), (1000, 5)), Moves);
        assert_eq!(watch.look(19, at(18, 0), (1000, 5)), Stalled(4));
        assert_eq!(watch.look(23, at(18, 0), (1000, 5)), Hangs);
        let stuck = Progress {
            command: Some(0xF800_0000),
            ..at(24, 0)
        };
        assert_eq!(watch.look(24, stuck, (1000, 5)), Moves);
        assert_eq!(watch.look(29, stuck, (1000, 5)), Hangs);
        let waits = Progress {
            command: Some(words::NOP),
            ..at(32, 0)
        };
        assert_eq!(watch.look(30, waits, (1000, 5)), Moves);
        assert_eq!(watch.look(35, waits, (1000, 5)), Stalled(995));
    }
}
