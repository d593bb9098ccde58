// SPDX-License-Identifier: GPL-2.0-only

//! Waits that may take long, as long as there is progress.

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

/// The longest wait without progress, in milliseconds (`gcdGPU_TIMEOUT` of the 4.6.9 driver).
pub(crate) const TIMEOUT: u32 = 20_000;

/// The remaining work of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// Some work. A different number means progress.
    Something(u64),
}

/// Waits on `progress` with the lock of `state` until `look` returns [`Left::Nothing`]: at most
/// `milliseconds` or, if `starts_over`, [`TIMEOUT`] since the last progress.
///
/// `Interrupted`: a Unix signal arrived. `GpuNotResponding`: timeout. Passes on errors of `look`.
pub(crate) fn while_progressing<T: ?Sized, B: Backend>(
    progress: &CondVar,
    state: &mut Guard<'_, T, B>,
    (milliseconds, starts_over): (u32, bool),
    look: impl Fn(&T) -> Result<Left>,
) -> Result {
    let mut left = msecs_to_jiffies(milliseconds);
    let mut before = None;
    // Ends: the work to wait for is limited when this begins.
    while let Left::Something(now) = look(state)? {
        if before.replace(now).is_some_and(|before| before != now) && starts_over {
            left = msecs_to_jiffies(TIMEOUT);
        }
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        left = match progress.wait_interruptible_timeout(state, left) {
            CondVarTimeoutResult::Woken { jiffies } => jiffies,
            // Looks once more, because the work may have ended just now.
            CondVarTimeoutResult::Timeout => 0,
            CondVarTimeoutResult::Signal { .. } => return Err(Error::Interrupted),
        };
    }
    Ok(())
}

/// Calls `look` until it returns a value or `milliseconds` have passed. Returns the value. Ignores
/// Unix signals.
pub(crate) fn poll<T>(milliseconds: u32, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::<Monotonic>::now();
    // Ends: the clock goes on.
    loop {
        // Read before the call, so that the last call is after the timeout.
        let is_over = begun.elapsed() >= Delta::from_millis(milliseconds.into());
        let found = look();
        if found.is_some() || is_over {
            return found;
        }
        fsleep(Delta::from_millis(1));
    }
}
