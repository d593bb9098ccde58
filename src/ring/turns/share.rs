// SPDX-License-Identifier: GPL-2.0-only

//! Per-process accounting: GPU time and scheduling state on each core.

use super::{
    average_with,
    ALONE,
    ALONE_QUANTA, //
};
use crate::{
    limits::MAX_CORES,
    mmu::SpaceId,
    sys::prelude::*, //
};

/// Largest absolute nice value.
const MAX_NICE: u32 = 20;

/// The most attempts to store a reported time.
const TRIES: u32 = 8;

/// Job and waiter counts of a process on one core, packed so that a job reads one word.
#[derive(Clone, Copy)]
pub(super) struct Load(u32);

impl Load {
    /// A job with a place.
    pub(super) const JOB: u32 = 1;
    /// A thread that waits for a place or for jobs. There are always fewer jobs than this.
    const THREAD: u32 = 256;

    pub(super) fn jobs(self) -> u32 {
        self.0 % Self::THREAD
    }

    pub(super) fn threads(self) -> u32 {
        self.0 / Self::THREAD
    }
}

/// A process's share of a core. Changed under the engine's lock. Times are counts of
/// [`clock`](crate::sys::clock).
pub(crate) struct Share {
    /// A [`Load`]. [`State::place_waiters`](crate::ring::State::place_waiters) also counts its
    /// threads.
    pub(super) load: Atomic<u32>,
    /// Average time of its jobs; 0: none has ended.
    pub(super) average: Atomic<u32>,
    /// Virtual finish time of its last job.
    pub(super) finish: Atomic<u64>,
    /// The nice value of the thread that submitted last while the core was shared.
    pub(super) nice: Atomic<i32>,
    /// Tickets with lower numbers are invalid: the process has lost its turn since.
    pub(super) valid_from: Atomic<u64>,
}

/// The account of a process: the time that its jobs take of the cores, and its share of each. Its
/// jobs hold references.
pub(crate) struct Account {
    /// The number of the process.
    pub(crate) process: u64,
    /// Its id in the initial PID namespace.
    pub(crate) process_id: i32,
    /// The process's own MMU tables, if it has any.
    pub(crate) space: Option<SpaceId>,
    /// By core, the time for which its jobs have kept the core busy, in counts of
    /// [`clock`](crate::sys::clock).
    busy: [Atomic<u64>; MAX_CORES],
    /// By core, the largest busy time that was reported.
    reported: [Atomic<u64>; MAX_CORES],
    pub(super) shares: [Share; MAX_CORES],
    /// Number of its unsignaled fences.
    pub(crate) fences: Atomic<usize>,
    /// The process has ended.
    is_over: Atomic<bool>,
    /// The GPU has finished commands of the process.
    is_known: Atomic<bool>,
    /// A hang that predates the process may still be charged.
    is_on_trial: Atomic<bool>,
}

impl Account {
    /// The account of a new process with this number, id and own MMU tables.
    pub(crate) const fn new(process: u64, process_id: i32, space: Option<SpaceId>) -> Self {
        Self {
            process,
            process_id,
            space,
            busy: [const { Atomic::new(0) }; MAX_CORES],
            reported: [const { Atomic::new(0) }; MAX_CORES],
            shares: [const { Share::new() }; MAX_CORES],
            fences: Atomic::new(0),
            is_over: Atomic::new(false),
            is_known: Atomic::new(false),
            is_on_trial: Atomic::new(false),
        }
    }

    /// Its share of `core`.
    pub(crate) fn share(&self, core: usize) -> Option<&Share> {
        self.shares.get(core)
    }

    /// Notes that the process has ended.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether the process holds up others: it has ended, or some of the `waiters` threads that
    /// wait for `core` are not its own.
    pub(in crate::ring) fn holds_up(&self, core: usize, waiters: u32) -> bool {
        self.is_over.load(Relaxed) || waiters > self.share(core).map_or(0, Share::waiting)
    }

    /// Adds the time for which an ended job has kept `core` busy. A 64-bit count does not
    /// wrap in practice.
    #[inline]
    pub(in crate::ring) fn add(&self, core: usize, counts: u64) {
        if let Some(busy) = self.busy.get(core) {
            busy.add(counts, Relaxed);
        }
    }

    /// The time for which ended jobs have kept `core` busy.
    pub(crate) fn busy(&self, core: usize) -> u64 {
        self.busy.get(core).map_or(0, |busy| busy.load(Relaxed))
    }

    /// The time to report for `counts`, which can be too small: a job that has just ended may not be
    /// added yet. Returns only stored times, so that no later report is smaller.
    pub(crate) fn report_monotonic(&self, core: usize, counts: u64) -> u64 {
        let Some(reported) = self.reported.get(core) else {
            return counts;
        };
        let mut most = reported.load(Relaxed);
        for _ in 0..TRIES {
            if counts <= most {
                break;
            }
            match reported.cmpxchg(most, counts, Relaxed) {
                Ok(_) => return counts,
                // Another thread has stored a larger time.
                Err(others) => most = others,
            }
        }
        most
    }

    /// Whether the GPU has finished commands of the process. If not, it is a *stranger*: its first
    /// commands may hang the core.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Relaxed)
    }

    /// Notes that the GPU has finished commands of the process, or that it is a stranger again.
    #[inline]
    pub(crate) fn note_known(&self, is_known: bool) {
        if self.is_known() != is_known {
            self.is_known.store(is_known, Relaxed);
        }
    }

    /// Whether it is on trial: it takes turns with strangers, but need not wait after hangs.
    #[inline]
    pub(crate) fn is_on_trial(&self) -> bool {
        self.is_on_trial.load(Relaxed)
    }

    /// Notes that its trial begins or ends.
    pub(crate) fn note_trial(&self, begins: bool) {
        self.is_on_trial.store(begins, Relaxed);
    }
}

impl Share {
    pub(super) const fn new() -> Self {
        Self {
            load: Atomic::new(0),
            average: Atomic::new(0),
            finish: Atomic::new(0),
            nice: Atomic::new(0),
            valid_from: Atomic::new(0),
        }
    }

    /// Converts `time` of the core into virtual time.
    pub(super) fn weigh(&self, time: u64) -> u64 {
        match self.nice.load(Relaxed) {
            0 => time,
            nice => Self::weigh_by(nice, time),
        }
    }

    fn weigh_by(nice: i32, mut time: u64) -> u64 {
        for _ in 0..nice.unsigned_abs().min(MAX_NICE) {
            // 5/4, and about 4/5.
            time = if nice > 0 {
                time.saturating_add(time >> 2)
            } else {
                time - (time >> 2) + (time >> 4)
            };
        }
        time
    }

    pub(super) fn load(&self) -> Load {
        Load(self.load.load(Relaxed))
    }

    /// The number of threads that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.load().threads()
    }

    pub(in crate::ring) fn add_waiter(&self) {
        self.load.add(Load::THREAD, Relaxed);
    }

    pub(in crate::ring) fn remove_waiter(&self) {
        self.load.add(Load::THREAD.wrapping_neg(), Relaxed);
    }

    /// The start of its next job, `now` or later, and the job's expected time: the average of its
    /// jobs, or `others` if none has ended. A new process starts later by `others`: else many new
    /// processes with one job each would always be first. `debt`: the most by which the time of
    /// earlier jobs delays the start.
    pub(super) fn claim(&self, now: u64, others: u32, debt: u64) -> (u64, u64) {
        let (earliest, average) = match self.average.load(Relaxed) {
            0 => (now.saturating_add(others.into()), others.into()),
            average => (now, average.into()),
        };
        let cost = self.weigh(average);
        let latest = earliest.saturating_add(debt);
        // `finish` keeps all debt: a submitter that leaves the line takes back exactly its claim.
        let start = self.finish.load(Relaxed).max(earliest);
        self.finish.store(start.saturating_add(cost), Relaxed);
        (start.min(latest), cost)
    }

    /// Replaces the expected `cost` of a job by `taken`, both in virtual time. `taken` is 0 if the
    /// job was canceled.
    pub(super) fn correct(&self, cost: u64, taken: u64) {
        let finish = self.finish.load(Relaxed).saturating_sub(cost);
        self.finish.store(finish.saturating_add(taken), Relaxed);
    }

    pub(super) fn ended(&self, taken: u32) {
        self.load.add(Load::JOB.wrapping_neg(), Relaxed);
        let average = average_with(self.average.load(Relaxed), taken);
        self.average.store(average.max(1), Relaxed);
    }

    /// Charges the virtual time `taken` of an ended job that has claimed `cost`. If it has claimed
    /// nothing, its time begins at the virtual time `now` or later.
    #[inline(never)]
    pub(super) fn settle(&self, cost: u64, taken: u64, now: u64) {
        match cost {
            // The process was alone when the job got its place.
            0 => {
                let start = self.finish.load(Relaxed).max(now);
                self.finish.store(start.saturating_add(taken), Relaxed);
            }
            _ => self.correct(cost, taken),
        }
    }

    /// Charges the time `taken` by the actions of its last job after that job's end.
    pub(in crate::ring) fn charge(&self, taken: u64) {
        self.correct(0, self.weigh(taken));
    }

    /// Whether another job may have a place.
    pub(super) fn has_room(&self, jobs: u32, is_shared: bool, quantum: u32) -> bool {
        let min = if is_shared { 1 } else { ALONE };
        if jobs < min {
            return true;
        }
        let average = self.average.load(Relaxed);
        // Does not overflow: 32 bits times 32 bits.
        let time = u64::from(average) * u64::from(jobs);
        if is_shared {
            average != 0 && time < quantum.into()
        } else {
            time < u64::from(quantum) * u64::from(ALONE_QUANTA)
        }
    }
}
