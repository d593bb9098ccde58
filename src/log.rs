// SPDX-License-Identifier: GPL-2.0-only

//! Lines in the kernel log that a process can cause: a few, then silence for a while.

use crate::{
    modes::{
        self,
        Mode, //
    },
    sys, //
};
use kernel::{
    fmt,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Lines in one window.
const BURST: u32 = 10;

/// Lines in one window of what the admin has asked for.
const ASKED_BURST: u32 = 100;

/// Binary logarithm of a window's jiffies: 5 to 10 seconds, however many these are.
const WINDOW: u32 = (5 * sys::HZ).next_power_of_two().ilog2();

/// A limit of lines, ten if nothing else is said, in a window of 5 to 10 seconds, and of what the
/// admin wants to be printed.
pub(crate) struct RateLimit {
    mode: Mode,
    burst: u32,
    window: Atomic<u32>,
    lines: Atomic<u32>,
}

impl RateLimit {
    /// Of warnings. Nothing printed yet.
    pub(crate) const fn new() -> Self {
        Self::of(Mode::Warnings)
    }

    /// Of what is printed while `mode` is on.
    pub(crate) const fn of(mode: Mode) -> Self {
        Self {
            mode,
            burst: BURST,
            window: Atomic::new(0),
            lines: Atomic::new(0),
        }
    }

    /// Of what is printed while the admin has `mode` on: more lines of it, but a process can cause
    /// them all the same.
    pub(crate) const fn asked(mode: Mode) -> Self {
        let mut limit = Self::of(mode);
        limit.burst = ASKED_BURST;
        limit
    }

    /// Whether one more line may be printed now.
    pub(crate) fn allow(&self) -> bool {
        if !modes::is_on(self.mode) {
            return false;
        }
        // CAST: the low word of the count of windows is enough to tell two neighbours apart.
        let now = (sys::jiffies() >> WINDOW) as u32;
        // Two racing callers may let a line more or less through; that is harmless.
        if self.window.load(Relaxed) != now {
            self.window.store(now, Relaxed);
            self.lines.store(0, Relaxed);
        }
        self.lines.fetch_add(1, Relaxed) < self.burst
    }
}

/// The calling process, as lines that it causes name it: by its number, and if the admin wants that
/// by the name of its program and its thread's number.
pub(crate) struct ThisProcess;

impl fmt::Display for ThisProcess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = kernel::current!();
        let process = sys::process_id(task);
        if !modes::is_on(Mode::Pids) {
            return out.write_fmt(fmt!("process {process}"));
        }
        let name = sys::CommandName::of_caller();
        out.write_fmt(fmt!("process {process} ({name}, thread {})", task.pid()))
    }
}

/// Prints a warning about a process's bad input, with its name, within the limit.
macro_rules! warn_client {
    ($limit:expr, $($arg:tt)*) => {
        if $limit.allow() {
            kernel::prelude::pr_warn!(
                "{}: {}\n",
                $crate::log::ThisProcess,
                kernel::prelude::fmt!($($arg)*)
            );
        }
    };
}
pub(crate) use warn_client;

/// Lines of [`debug_client`].
static DEBUG_LINES: RateLimit = RateLimit::asked(Mode::Warnings);

/// Whether one more line of [`debug_client`] may be printed now.
#[cold]
pub(crate) fn allows_debug_line() -> bool {
    sys::debugs() && DEBUG_LINES.allow()
}

/// Prints a line for debugging about what a process asks for, with its name, if dynamic debug is
/// on: the `kernel` crate's own macro does not know that. A hundred of all processes in a window.
macro_rules! debug_client {
    ($($arg:tt)*) => {
        if $crate::log::allows_debug_line() {
            kernel::print_macro!(
                kernel::print::format_strings::DEBUG,
                false,
                "{}: {}\n",
                $crate::log::ThisProcess,
                kernel::prelude::fmt!($($arg)*)
            );
        }
    };
}
pub(crate) use debug_client;
