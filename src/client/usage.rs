// SPDX-License-Identifier: GPL-2.0-only

//! What a process has used of the cores.

use super::{
    AnyCore,
    Process, //
};
use crate::{
    limits::MAX_CORES,
    sys::clock, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Of one process. Its jobs have it, and it ends with the last of them.
pub(crate) struct Usage {
    /// The process, by its number.
    process: u64,
    /// Its id, where ids count from the start.
    process_id: i32,
    /// By core, how long its jobs have kept it busy, in counts of
    /// [`clock`](crate::sys::clock).
    busy: [Atomic<u64>; MAX_CORES],
}

impl Usage {
    /// None yet, of the process with this number and this id.
    pub(super) fn new(process: u64, process_id: i32) -> Self {
        Self {
            process,
            process_id,
            busy: [const { Atomic::new(0) }; MAX_CORES],
        }
    }

    /// The process, by its number.
    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// Its id, where ids count from the start.
    pub(super) fn process_id(&self) -> i32 {
        self.process_id
    }

    /// A job has kept `core` busy for so long. 64 bits do not come round.
    #[inline]
    pub(super) fn add(&self, core: usize, counts: u64) {
        if let Some(busy) = self.busy.get(core) {
            busy.add(counts, Relaxed);
        }
    }

    /// How long jobs that have ended have kept `core` busy.
    pub(super) fn busy(&self, core: usize) -> u64 {
        self.busy.get(core).map_or(0, |busy| busy.load(Relaxed))
    }
}

impl Process {
    /// How long its jobs have kept `core` busy, in nanoseconds, with what one under way has so far.
    pub(crate) fn busy_on(&self, core: &AnyCore) -> u64 {
        let ended = self.usage.busy(core.index());
        let running = match core.load().running {
            Some((process, counts)) if process == self.number => counts,
            _ => 0,
        };
        clock::nanoseconds(ended.saturating_add(running))
    }

    /// By core, how many jobs it has submitted.
    pub(crate) fn jobs(&self) -> [u64; MAX_CORES] {
        self.tables().jobs
    }
}
