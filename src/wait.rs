// SPDX-License-Identifier: GPL-2.0-only

//! Waiting for what may take long as long as it gets on.

use crate::error::{
    Error,
    Result, //
};
use kernel::{
    sync::{
        lock::{
            Backend,
            Guard, //
        },
        CondVar,
        CondVarTimeoutResult, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// How long something is waited for that makes no progress, in milliseconds (`gcdGPU_TIMEOUT` of
/// the 4.6.9 driver).
pub(crate) const TIMEOUT: u32 = 20_000;

/// What is left to wait for.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// Something. The number is another one when it has got on.
    Something(u64),
}

/// Waits on `moved` with the lock of `state` until `look` says that nothing is left: for that many
/// milliseconds, and if `starts_over`, for [`TIMEOUT`] after each progress.
///
/// `Interrupted`: a Unix signal came. `GpuNotResponding`: the time is over. Else what `look` says.
pub(crate) fn while_moving<T: ?Sized, B: Backend>(
    moved: &CondVar,
    state: &mut Guard<'_, T, B>,
    (milliseconds, starts_over): (u32, bool),
    look: impl Fn(&T) -> Result<Left>,
) -> Result {
    let mut left = msecs_to_jiffies(milliseconds);
    let mut before = None;
    // Ends: what is waited for is so much at most when this begins.
    while let Left::Something(now) = look(state)? {
        if before.replace(now).is_some_and(|before| before != now) && starts_over {
            left = msecs_to_jiffies(TIMEOUT);
        }
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        left = match moved.wait_interruptible_timeout(state, left) {
            CondVarTimeoutResult::Woken { jiffies } => jiffies,
            // One more look: it may have ended just now.
            CondVarTimeoutResult::Timeout => 0,
            CondVarTimeoutResult::Signal { .. } => return Err(Error::Interrupted),
        };
    }
    Ok(())
}

/// Looks until `look` finds something, or `milliseconds` have passed; returns what it has found.
/// Does not mind Unix signals.
pub(crate) fn poll<T>(milliseconds: u32, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::<Monotonic>::now();
    // Ends: the clock goes on.
    loop {
        // Before the look: the last one is after the time.
        let is_over = begun.elapsed() >= Delta::from_millis(milliseconds.into());
        let found = look();
        if found.is_some() || is_over {
            return found;
        }
        fsleep(Delta::from_millis(1));
    }
}
