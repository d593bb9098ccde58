// SPDX-License-Identifier: GPL-2.0-only

//! A process's usage of the cores.

use super::{
    AnyCore,
    Process, //
};
use crate::{
    limits::{
        MAX_CORES,
        MAX_PROCESS_FENCES, //
    },
    mmu::SpaceId,
    prelude::*,
    ring::{
        Share,
        Shares, //
    },
    sys::clock, //
};

/// The usage of a process. Its jobs hold references.
pub(crate) struct Usage {
    /// The number of the process.
    process: u64,
    /// Its id in the initial PID namespace.
    process_id: i32,
    /// The process's own MMU tables, if it has any.
    space: Option<SpaceId>,
    /// By core, the time for which its jobs have kept the core busy, in counts of [`clock`].
    busy: [Atomic<u64>; MAX_CORES],
    /// By core, the largest busy time that was reported.
    reported: [Atomic<u64>; MAX_CORES],
    /// Its shares of the cores, and its waiting threads.
    shares: Arc<Shares>,
    /// Number of its unsignaled fences.
    fences: Atomic<usize>,
    /// The process has ended.
    is_over: Atomic<bool>,
}

/// Counts for one unsignaled fence of a process.
pub(super) struct OneFence(Arc<Usage>);

impl OneFence {
    /// Counts one more fence. `OutOfResources`: the process has [`MAX_PROCESS_FENCES`].
    pub(super) fn new(usage: &Arc<Usage>) -> Result<Self> {
        let before = usage.fences.fetch_add(1, Relaxed);
        let one = Self(usage.clone());
        if before < MAX_PROCESS_FENCES {
            Ok(one)
        } else {
            Err(Error::OutOfResources)
        }
    }
}

impl Drop for OneFence {
    fn drop(&mut self) {
        self.0.fences.fetch_sub(1, Relaxed);
    }
}

/// The most attempts to store a reported time.
const TRIES: u32 = 8;

impl Usage {
    /// The usage, so far none, of the process with this number, id and own MMU tables. `ENOMEM`.
    pub(super) fn new(
        process: u64,
        process_id: i32,
        space: Option<SpaceId>,
    ) -> Result<Self, kernel::error::Error> {
        Ok(Self {
            process,
            process_id,
            space,
            busy: [const { Atomic::new(0) }; MAX_CORES],
            reported: [const { Atomic::new(0) }; MAX_CORES],
            shares: Arc::new(Shares::new(), crate::sys::GFP_CLIENT)?,
            fences: Atomic::new(0),
            is_over: Atomic::new(false),
        })
    }

    /// Notes that the process has ended.
    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Its shares of the cores.
    pub(super) fn shares(&self) -> &Arc<Shares> {
        &self.shares
    }

    /// Whether the process holds up others: it has ended, or some of the `waiters` threads that
    /// wait for `core` are not its own.
    pub(super) fn holds_up(&self, core: usize, waiters: u32) -> bool {
        self.is_over.load(Relaxed) || waiters > self.shares.of(core).map_or(0, Share::waiting)
    }

    /// The process's own MMU tables, if it has any.
    #[inline]
    pub(super) fn space(&self) -> Option<SpaceId> {
        self.space
    }

    /// The number of the process.
    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// Its id in the initial PID namespace.
    pub(super) fn process_id(&self) -> i32 {
        self.process_id
    }

    /// Adds the time for which an ended job has kept `core` busy. 64 bits never wrap.
    #[inline]
    pub(super) fn add(&self, core: usize, counts: u64) {
        if let Some(busy) = self.busy.get(core) {
            busy.add(counts, Relaxed);
        }
    }

    /// The time for which ended jobs have kept `core` busy.
    pub(super) fn busy(&self, core: usize) -> u64 {
        self.busy.get(core).map_or(0, |busy| busy.load(Relaxed))
    }

    /// The time to report for `counts`. It never decreases. `counts` can be too small: a job that
    /// has just ended may not be added yet.
    fn tell(&self, core: usize, counts: u64) -> u64 {
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
                Err(others) => most = others,
            }
        }
        counts.max(most)
    }
}

impl Process {
    /// The time for which its jobs, including the running one, have kept `core` busy, in
    /// nanoseconds. It never decreases.
    pub(crate) fn busy_on(&self, core: &AnyCore) -> u64 {
        let ended = self.usage.busy(core.index());
        let running = match core.load().running {
            Some((process, counts)) if process == self.number => counts,
            _ => 0,
        };
        let counts = self.usage.tell(core.index(), ended.saturating_add(running));
        clock::nanoseconds(counts)
    }

    /// Number of submitted jobs, by core.
    pub(crate) fn jobs(&self) -> [u64; MAX_CORES] {
        self.tables().jobs
    }
}

#[kernel::macros::kunit_tests(galcore_usage)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_never_becomes_less() {
        let usage = Usage::new(1, 1, None).unwrap();
        assert_eq!(usage.tell(0, 50), 50);
        // The job has ended, but is not added yet.
        assert_eq!(usage.tell(0, 0), 50);
        usage.add(0, 48);
        assert_eq!(usage.tell(0, usage.busy(0)), 50);
        assert_eq!(usage.tell(0, 51), 51);
        assert_eq!(usage.tell(1, 7), 7);
        assert_eq!(usage.tell(MAX_CORES, 9), 9);
    }
}
