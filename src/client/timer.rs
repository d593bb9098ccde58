// SPDX-License-Identifier: GPL-2.0-only

//! Timers that records start and stop, and Unix signals that records send.

use super::Process;
use crate::{
    abi::Reply,
    prelude::*,
    sys, //
};

/// The times at which a timer was started and stopped, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Timer {
    start: u64,
    stop: u64,
}

/// Starts or stops a timer.
pub(super) fn note_time(process: &Process, timer: u32, start: bool) {
    let now = sys::monotonic_ns();
    // CAST: 32 bits into at least 32.
    if let Some(timer) = process.timers.lock().get_mut(timer as usize) {
        if start {
            timer.start = now;
        } else {
            timer.stop = now;
        }
    }
}

/// Sends this process the realtime signal that the module parameters name. Only its own threads
/// can ask for it, so no permission is checked.
pub(super) fn send_signal(process: &Process, value: u32) {
    let number = process.device.parameters().signal;
    sys::send_signal(&process.leader, &process.mm, number, value);
}

pub(super) fn time_delta(process: &Process, timer: u32) -> Result<Reply<'_>> {
    // CAST: 32 bits into at least 32.
    let timer = process.timers.lock().get(timer as usize).copied();
    let timer = timer.ok_or(Error::InvalidArgument)?;
    let nanoseconds = timer
        .stop
        .checked_sub(timer.start)
        .and_then(|delta| i64::try_from(delta).ok())
        .ok_or(Error::TimerOverflow)?;
    let microseconds = Delta::from_nanos(nanoseconds).as_micros_ceil();
    i32::try_from(microseconds)
        .map(|microseconds| Reply::TimeDelta { microseconds })
        .map_err(|_| Error::TimerOverflow)
}
