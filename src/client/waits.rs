// SPDX-License-Identifier: GPL-2.0-only

//! What traces show of a process that waits.

use crate::{
    error::Result,
    sys::trace::WaitFor, //
};

/// Does `wait`, which is for `what` and takes `milliseconds` at most ([`u32::MAX`]: for ever), and
/// returns what came of it.
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
