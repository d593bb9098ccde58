// SPDX-License-Identifier: GPL-2.0-only

//! Waits for jobs, and the trace events of waits.

use super::{
    restarts::{
        self,
        Limited, //
    },
    Process, //
};
use crate::{
    prelude::*,
    ring::{
        Engine,
        FrontEnd,
        Numbers,
        Waited,
        GPU_TIMEOUT, //
    },
    sys::trace::WaitFor, //
};

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

impl Process {
    /// The process's last job on each core.
    pub(super) fn last_jobs(&self) -> Numbers {
        core::array::from_fn(|core| self.last_jobs[core].load(Relaxed))
    }
}

/// Waits until job `number` of a core has ended. `Interrupted`: a Unix signal interrupts the
/// wait. `GpuNotResponding`: the core makes no progress.
pub(super) fn progressing<F: FrontEnd>(
    process: &Process,
    engine: &Engine<F>,
    number: u64,
) -> Result {
    let core = engine.config.core;
    let what = (WaitFor::Job(core, number), Limited::Progress(core));
    let wait = |left| engine.wait_for_progress(number, left, process.usage.shares());
    restarts::limited(process, what, GPU_TIMEOUT, || engine.moves(), wait)
}

/// Waits until all jobs of the process have ended, and no longer use wrapped memory.
/// `Interrupted`: a Unix signal interrupts the wait. `GpuNotResponding`: a core makes no
/// progress, and may still use the memory.
pub(super) fn wait_for_own_work(process: &Process) -> Result {
    match wait_for_cores(process, None) {
        // Jobs that were dropped with a reset or a dead core have ended.
        Err(Error::GpuNotResponding)
            if process.device.reclaimer().are_over(&process.last_jobs()) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Waits until the process's jobs on all cores but the one at place `except` have ended.
/// `Interrupted`: by a Unix signal. `GpuNotResponding`: a core makes no progress.
pub(super) fn wait_for_cores(process: &Process, except: Option<usize>) -> Result {
    let mut result = Ok(());
    let last = process.last_jobs();
    for core in process.device.cores() {
        if Some(core.index()) == except {
            continue;
        }
        match progressing(process, core.ring(), last[core.index()]) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            outcome => result = result.and(outcome),
        }
    }
    for core in process.device.vectors() {
        let (number, queue) = (last[core.index()], core.queue());
        match progressing(process, queue, number) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The job was dropped with its core: it has ended.
            Err(_) if queue.is_over(number) => {}
            outcome => result = result.and(outcome),
        }
    }
    result
}
