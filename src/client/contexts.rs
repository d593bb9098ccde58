// SPDX-License-Identifier: GPL-2.0-only

//! ATTACH and DETACH of contexts, STALL, and reports of hung cores.

use super::{
    restarts::{
        self,
        Limited, //
    },
    waits,
    Core,
    Process, //
};
use crate::{
    abi::{
        CoreSelector,
        Reply, //
    },
    context::Context,
    limits::MAX_CONTEXTS,
    log::{
        warn_client,
        RateLimit, //
    },
    modes,
    prelude::*,
    ring::{
        Waited,
        GPU_TIMEOUT, //
    },
    sys::trace::WaitFor, //
};

/// The unit of STALL's timeout, in milliseconds: the interval at which the vendor's STALL checks
/// the time (`gcdGPU_ADVANCETIMER`).
const STALL_STEP: u32 = 250;

/// Reports of hung cores.
static STUCK: RateLimit = RateLimit::new();

/// ATTACH: a context with the states after a reset. `newer`: the client is of 5.0.11 or later.
///
/// `OutOfResources`: the process has [`MAX_CONTEXTS`]. `OutOfMemory`.
pub(super) fn attach(process: &Process, core: &Core, newer: bool) -> Result<Reply<'static>> {
    let map = core.state_map(newer);
    let memory = &process.device.memory;
    let context = if core.pipes().pipe_3d {
        modes::pass_allocation()?;
        Some(Context::new(memory, core.index(), map, process.space())?)
    } else {
        None
    };
    let mut tables = process.tables();
    if tables.contexts.len() >= MAX_CONTEXTS {
        drop(tables);
        return Err(Error::OutOfResources);
    }
    let held = context.clone();
    let inserted = tables.contexts.insert(context);
    drop(tables);
    drop(held);
    Ok(Reply::Context {
        context: inserted?,
        state_count: usize_as_u64(map.state_count),
    })
}

/// DETACH. Returns whether the context existed.
pub(super) fn detach(process: &Process, context: u32) -> bool {
    let mut tables = process.tables();
    let removed = tables.contexts.remove(context);
    // The core keeps its states. So note the addresses in them, but do not keep the memory of
    // the context.
    let mut lasts: [Option<Arc<Context>>; MAX_CORES] = Default::default();
    if let Some(Some(removed)) = &removed {
        for (core, last) in tables.per_core.iter_mut().zip(&mut lasts) {
            let is_last = |last: &mut Arc<Context>| Arc::ptr_eq(last, removed);
            *last = core.last_context.take_if(is_last);
            if let Some(last) = last {
                last.leave_to(&core.loaded);
            }
        }
    }
    drop(tables);
    // Drop without the lock. Jobs that load the context hold references.
    let is_known = removed.is_some();
    drop((removed, lasts));
    is_known
}

/// STALL: waits until all jobs in the core's ring have ended. `GpuNotResponding`: if the STALL
/// of the generation `is_limited`, the process's timeout is over; else, the core makes no
/// progress. `Interrupted`.
pub(super) fn stall(process: &Process, core: &Core, is_limited: bool) -> Result {
    let stalled = wait_for_all(process, core, is_limited);
    if stalled == Err(Error::GpuNotResponding) {
        core.engine().look_now();
        warn_client!(STUCK: "STALL: GPU Stuck: core {} has not done all in time", core.index());
    }
    stalled?;
    waits::finish_returns(process);
    Ok(())
}

fn wait_for_all(process: &Process, core: &Core, is_limited: bool) -> Result {
    let ring = core.engine();
    let newest = ring.newest();
    if is_limited {
        let what = WaitFor::Job(core.index(), newest);
        let timeout = process.stall_timeout.load(Relaxed).max(1);
        let timeout = timeout.next_multiple_of(STALL_STEP);
        let what = (what, Limited::Stall(core.index(), timeout));
        let wait = |left, goal| ring.wait_for(goal, left);
        restarts::limited_for(process, newest, what, timeout, || 0, wait)
    } else {
        let what = WaitFor::Job(core.index(), newest);
        let what = (what, Limited::Stall(core.index(), u32::MAX));
        let wait = |left, goal| ring.wait_for_progress(goal, left, &process.account);
        restarts::limited_for(process, newest, what, GPU_TIMEOUT, || ring.moves(), wait)
    }
}

/// RESET: resets the core for an administrator, if it hangs. Other processes must not drop the
/// jobs of others, so for them it only counts a reset. `NotSupported`: it has not reset the
/// core, and the generation reports this (`succeeds` is not set).
pub(super) fn reset(process: &Process, selector: CoreSelector, succeeds: bool) -> Result {
    if sys::is_admin() {
        if let Ok(core) = process.device.any(selector) {
            let was_reset = core.reset_if_hung();
            if was_reset {
                warn_client!(STUCK: "RESET: core {} hung, and was reset", core.index());
                return Ok(());
            }
            warn_client!(STUCK: "RESET: core {} makes progress, or is idle: it was not reset",
                core.index());
        }
    }
    if succeeds {
        process.resets_asked.fetch_add(1, Relaxed);
        Ok(())
    } else {
        Err(Error::NotSupported)
    }
}

/// BROADCAST_GPU_STUCK: runs the hang check now. For an administrator, it resets a hung core
/// without waiting for the hang's timeout.
pub(super) fn report_stuck(process: &Process, selector: CoreSelector) {
    if let Ok(core) = process.device.any(selector) {
        if sys::is_admin() {
            _ = core.reset_if_hung();
        } else {
            core.look_now()
        }
    }
}
