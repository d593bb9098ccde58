// SPDX-License-Identifier: GPL-2.0-only

//! Trace events of waits.

use crate::prelude::*;
use crate::sys::trace::WaitFor;

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
