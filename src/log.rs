// SPDX-License-Identifier: GPL-2.0-only

//! Lines in the kernel log that a process can cause: a few, then silence for a while.

use crate::sys;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Lines in one window.
const BURST: u32 = 10;

/// Binary logarithm of a window's jiffies: 5 seconds at 100 Hz, 2 at 250 Hz.
const WINDOW: u32 = 9;

/// A limit of ten lines in a window of 512 jiffies.
pub(crate) struct RateLimit {
    window: Atomic<u32>,
    lines: Atomic<u32>,
}

impl RateLimit {
    /// Nothing printed yet.
    pub(crate) const fn new() -> Self {
        Self {
            window: Atomic::new(0),
            lines: Atomic::new(0),
        }
    }

    /// Whether one more line may be printed now.
    pub(crate) fn allow(&self) -> bool {
        // CAST: the low word of the count of windows is enough to tell two neighbours apart.
        let now = (sys::jiffies() >> WINDOW) as u32;
        // Two racing callers may let a line more or less through; that is harmless.
        if self.window.load(Relaxed) != now {
            self.window.store(now, Relaxed);
            self.lines.store(0, Relaxed);
        }
        self.lines.fetch_add(1, Relaxed) < BURST
    }
}

/// Prints a warning about a process's bad input, with its name, within the limit.
macro_rules! warn_client {
    ($limit:expr, $($arg:tt)*) => {
        if $limit.allow() {
            let task = kernel::current!();
            kernel::prelude::pr_warn!(
                "process {}: {}\n",
                $crate::sys::process_id(task),
                kernel::prelude::fmt!($($arg)*)
            );
        }
    };
}
pub(crate) use warn_client;
