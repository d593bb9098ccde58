// SPDX-License-Identifier: GPL-2.0-only

//! Lines in the kernel log that a process can cause: a few, then silence for a while.

use crate::{
    modes::{
        self,
        Mode,
        Zone, //
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

/// Lines of one process in one window.
const BURST: u32 = 10;

/// The same of what the admin has asked for.
const ASKED_BURST: u32 = 100;

/// The most lines of a user's processes together, as a multiple of one process's.
const USER_SHARE: u32 = 3;

/// Processes, and users, that one limit tells apart in one window.
const TRACKED: usize = 16;

/// Binary logarithm of a window's jiffies: 5 to 10 seconds, however many these are.
const WINDOW: u32 = (5 * sys::HZ).next_power_of_two().ilog2();

/// How many lines each of at most `N` has had in one window.
///
/// A slot has the number of its owner in the upper half, then 16 bits of the window's number, and
/// the lines. Racing callers may let a line more or less through; that is harmless.
struct Counts<const N: usize>([Atomic<u64>; N]);

impl<const N: usize> Counts<N> {
    /// None yet.
    const fn new() -> Self {
        Self([const { Atomic::new(0) }; N])
    }

    /// One line more of `who` in `window`: whether that makes `most` at most. `None`: the slots
    /// are others' in this window.
    fn count(&self, who: u32, window: u16, most: u32) -> Option<bool> {
        let first = u64::from(who) << 32 | u64::from(window) << 16 | 1;
        for slot in &self.0 {
            let found = slot.load(Relaxed);
            if found >> 16 == first >> 16 && found & 0xFFFF != 0 {
                let is_allowed = found & 0xFFFF < u64::from(most);
                if is_allowed {
                    slot.fetch_add(1, Relaxed);
                }
                return Some(is_allowed);
            }
        }
        let is_free = |found: u64| found >> 16 & 0xFFFF != u64::from(window) || found & 0xFFFF == 0;
        for slot in &self.0 {
            let found = slot.load(Relaxed);
            if is_free(found) && slot.cmpxchg(found, first, Relaxed).is_ok() {
                return Some(true);
            }
        }
        None
    }
}

/// A limit of lines in a window of 5 to 10 seconds. Each process has its own, so that one that
/// causes many does not hide what another one does; a user's have one together besides, as a user
/// can have many. Processes, or users, beyond [`TRACKED`] share one limit.
pub(crate) struct RateLimit {
    mode: Mode,
    burst: u32,
    processes: Counts<TRACKED>,
    users: Counts<TRACKED>,
    rest: Counts<1>,
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
            processes: Counts::new(),
            users: Counts::new(),
            rest: Counts::new(),
        }
    }

    /// Of what is printed while the admin has `mode` on: more lines of it, but a process can cause
    /// them all the same.
    pub(crate) const fn asked(mode: Mode) -> Self {
        let mut limit = Self::of(mode);
        limit.burst = ASKED_BURST;
        limit
    }

    /// Whether the calling process may have one more line printed now.
    pub(crate) fn allow(&self) -> bool {
        let process = sys::process_id(kernel::current!());
        self.allow_of(process, Some(sys::user_id()))
    }

    /// Whether one more line may be printed now of what jobs of process `id` have caused; 0: of
    /// what the driver has to say itself.
    pub(crate) fn allow_job(&self, id: i32) -> bool {
        self.allow_of(id, None)
    }

    fn allow_of(&self, process: i32, user: Option<u32>) -> bool {
        if !modes::is_on(self.mode) {
            return false;
        }
        // CAST: the low bits of the count of windows are enough to tell two neighbors apart.
        let window = (sys::jiffies() >> WINDOW) as u16;
        let rest = || self.rest.count(0, window, self.burst).unwrap_or(false);
        // CAST: only compared.
        let of_process = self.processes.count(process as u32, window, self.burst);
        match (of_process, user) {
            (Some(false), _) => false,
            (Some(true), None) => true,
            (None, None) => rest(),
            (_, Some(user)) => {
                let of_user = self.users.count(user, window, USER_SHARE * self.burst);
                of_user.unwrap_or_else(rest)
            }
        }
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

/// Whether lines for debugging of `zone` are wanted: by dynamic debug, or for the zone.
#[cold]
pub(crate) fn debugs(zone: Zone) -> bool {
    sys::debugs() || modes::is_zone_on(zone)
}

/// Whether one more line of [`debug_client`] may be printed now.
#[cold]
pub(crate) fn allows_debug_line(zone: Zone) -> bool {
    debugs(zone) && DEBUG_LINES.allow()
}

/// Prints a line for debugging about what a process asks for, with its name, if dynamic debug is
/// on, or its zone: the `kernel` crate's own macro does not know that. A hundred of a process in a
/// window.
macro_rules! debug_client {
    (in $zone:ident, $($arg:tt)*) => {
        if $crate::log::allows_debug_line($crate::modes::Zone::$zone) {
            kernel::print_macro!(
                kernel::print::format_strings::DEBUG,
                false,
                "{}: {}\n",
                $crate::log::ThisProcess,
                kernel::prelude::fmt!($($arg)*)
            );
        }
    };
    ($($arg:tt)*) => {
        $crate::log::debug_client!(in Driver, $($arg)*)
    };
}
pub(crate) use debug_client;

#[kernel::macros::kunit_tests(galcore_log)]
mod tests {
    use super::*;

    fn printed(limit: &RateLimit, process: i32, user: u32, tries: u32) -> u32 {
        let allowed = (0..tries).filter(|_| limit.allow_of(process, Some(user)));
        // CAST: as many as were tried at most.
        allowed.count() as u32
    }

    /// One that is on.
    fn limit() -> RateLimit {
        RateLimit::of(Mode::Resets)
    }

    #[test]
    fn who_prints_much_hides_no_other() {
        let limit = limit();
        let was_on = modes::is_on(Mode::Resets);
        modes::set(Mode::Resets, true);
        // A window may end meanwhile: then there are two.
        let once = |lines: u32, most: u32| assert!((most..=2 * most).contains(&lines));
        once(printed(&limit, 1, 1000, 1000), BURST);
        once(printed(&limit, 2, 1000, 1000), BURST);
        // One process after another, of one user.
        let all: u32 = (3..200).map(|id| printed(&limit, id, 1000, 20)).sum();
        assert!(all <= 2 * USER_SHARE * BURST);
        once(printed(&limit, 300, 1001, 5), 5);
        once(printed(&limit, 301, 1002, 5), 5);
        modes::set(Mode::Resets, was_on);
    }

    #[test]
    fn slots_are_used_again_in_the_next_window() {
        let counts = Counts::<2>::new();
        assert_eq!(counts.count(0, 0, 1), Some(true));
        assert_eq!(counts.count(0, 0, 1), Some(false));
        assert_eq!(counts.count(5, 0, 1), Some(true));
        assert_eq!(counts.count(6, 0, 1), None);
        assert_eq!(counts.count(6, 1, 1), Some(true));
        assert_eq!(counts.count(0, 1, 2), Some(true));
        assert_eq!(counts.count(0, 1, 2), Some(true));
        assert_eq!(counts.count(0, 1, 2), Some(false));
    }
}
