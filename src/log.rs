// SPDX-License-Identifier: GPL-2.0-only

//! Rate limits for lines of the kernel log that processes can cause.

use crate::{
    modes::{
        self,
        Mode,
        Zone, //
    },
    prelude::*, //
};

/// The most lines of one process in one window (5 to 10 seconds).
const BURST: u32 = 10;

/// The same for lines that the administrator has enabled.
const ASKED_BURST: u32 = 100;

/// The most lines of all processes of a user, as a multiple of those of one process.
const USER_SHARE: u32 = 3;

/// The most processes, and users, that one limit counts separately in one window.
const TRACKED: usize = 16;

/// Binary logarithm of the length of a window in jiffies: 5 to 10 seconds.
const WINDOW: u32 = (5 * sys::HZ).next_power_of_two().ilog2();

/// The numbers of lines of up to `N` owners in one window.
///
/// A slot has the number of its owner in the upper half, then 16 bits of the window's number, then
/// the number of lines. Races may change the number of lines slightly, which is harmless.
struct Counts<const N: usize>([Atomic<u64>; N]);

impl<const N: usize> Counts<N> {
    /// All slots are free.
    const fn new() -> Self {
        Self([const { Atomic::new(0) }; N])
    }

    /// Counts a line of `owner` in `window`, up to `most` + 1. Returns the lines counted before.
    /// `None`: no slot is free in this window.
    fn count(&self, owner: u32, window: u16, most: u32) -> Option<u32> {
        let first = u64::from(owner) << 32 | u64::from(window) << 16 | 1;
        for slot in &self.0 {
            let found = slot.load(Relaxed);
            if found >> 16 == first >> 16 && found & 0xFFFF != 0 {
                // CAST: 16 bits.
                let before = (found & 0xFFFF) as u32;
                if before <= most {
                    slot.fetch_add(1, Relaxed);
                }
                return Some(before);
            }
        }
        let is_free = |found: u64| found >> 16 & 0xFFFF != u64::from(window) || found & 0xFFFF == 0;
        for slot in &self.0 {
            let found = slot.load(Relaxed);
            if is_free(found) && slot.cmpxchg(found, first, Relaxed).is_ok() {
                return Some(0);
            }
        }
        None
    }
}

/// A limit of lines in a window of 5 to 10 seconds. Each process has its own limit, so that the
/// lines of one do not suppress those of another. All processes of a user have a common limit, too,
/// because a user can start many. Processes, or users, beyond [`TRACKED`] share one limit.
pub(crate) struct RateLimit {
    mode: Mode,
    burst: u32,
    processes: Counts<TRACKED>,
    users: Counts<TRACKED>,
    rest: Counts<1>,
}

impl RateLimit {
    /// A limit for warnings.
    pub(crate) const fn new() -> Self {
        Self::of(Mode::Warnings)
    }

    /// A limit for lines that are printed while `mode` is on.
    pub(crate) const fn of(mode: Mode) -> Self {
        Self {
            mode,
            burst: BURST,
            processes: Counts::new(),
            users: Counts::new(),
            rest: Counts::new(),
        }
    }

    /// A higher limit, for lines that the administrator enables by `mode` but processes cause.
    pub(crate) const fn asked(mode: Mode) -> Self {
        let mut limit = Self::of(mode);
        limit.burst = ASKED_BURST;
        limit
    }

    /// Counts a line of the calling process. Returns whether to print it.
    pub(crate) fn allow(&self) -> bool {
        let process = sys::process_id(kernel::current!());
        self.allow_of(process, Some(sys::user_id()))
    }

    /// Counts a line about jobs of process `id` (0: the driver). Returns whether to print it.
    pub(crate) fn allow_job(&self, id: i32) -> bool {
        self.allow_of(id, None)
    }

    fn allow_of(&self, process: i32, user: Option<u32>) -> bool {
        if !modes::is_on(self.mode) {
            return false;
        }
        // CAST: the low bits suffice to distinguish adjacent windows.
        let window = (sys::jiffies() >> WINDOW) as u16;
        let burst = self.burst;
        let rest = || {
            self.rest
                .count(0, window, burst)
                .is_some_and(|lines| lines < burst)
        };
        // CAST: only compared.
        let of_process = self.processes.count(process as u32, window, burst);
        match (of_process, user) {
            (Some(lines), _) if lines >= burst => {
                if lines == burst && process != 0 {
                    pr_warn!("process {process}: more such lines are left out for some seconds\n");
                }
                false
            }
            (Some(_), None) => true,
            (None, None) => rest(),
            (_, Some(user)) => {
                let most = USER_SHARE * burst;
                let of_user = self.users.count(user, window, most);
                of_user.map_or_else(rest, |lines| lines < most)
            }
        }
    }
}

/// The calling process, for log lines: its ID and, if the administrator enables this, its command
/// name and thread ID.
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

/// The most words in one line.
const LINE_WORDS: usize = 8;

/// The most words of one job.
pub(crate) const MAX_WORDS: usize = 32 * LINE_WORDS;

/// Limits the printed commands of all processes.
static COMMANDS: RateLimit = RateLimit::of(Mode::Commands);

/// Prints the commands of job `number` of core `core`, which the calling process has submitted.
#[cold]
#[inline(never)]
pub(crate) fn print_commands(core: usize, number: u64, parts: &[&[u32]]) {
    if COMMANDS.allow() {
        let count: usize = parts.iter().map(|words| words.len()).sum();
        pr_info!("{ThisProcess}: job {number:#x} of core {core}, {count} words\n");
        print_words(parts);
    }
}

/// Prints at most [`MAX_WORDS`] words.
pub(crate) fn print_words(parts: &[&[u32]]) {
    let lines = || parts.iter().flat_map(|words| words.chunks(LINE_WORDS));
    for line in lines().take(MAX_WORDS / LINE_WORDS) {
        pr_info!("{}\n", Words(line));
    }
    if lines().nth(MAX_WORDS / LINE_WORDS).is_some() {
        pr_info!("...\n");
    }
}

/// Words in a line.
struct Words<'a>(&'a [u32]);

impl fmt::Display for Words<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|word| out.write_fmt(fmt!(" {word:08x}")))
    }
}

/// Prints a warning about bad input of the calling process, with its ID, within the limit.
macro_rules! warn_client {
    ($limit:ident: $($arg:tt)*) => {
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

/// The limit of [`debug_client`].
static DEBUG_LINES: RateLimit = RateLimit::asked(Mode::Warnings);

/// Whether dynamic debug or `zone` enables debug lines.
#[cold]
pub(crate) fn debugs(zone: Zone) -> bool {
    sys::debugs() || modes::is_zone_on(zone)
}

/// Counts a line of [`debug_client`]. Returns whether to print it.
#[cold]
pub(crate) fn allows_debug_line(zone: Zone) -> bool {
    debugs(zone) && DEBUG_LINES.allow()
}

/// Prints a debug line about a request of the calling process, with its ID, if dynamic debug or the
/// zone is on (the `kernel` crate's own macro supports neither). At most a hundred lines of a
/// process in a window.
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
        // CAST: at most `tries`.
        allowed.count() as u32
    }

    /// A limit whose mode the test switches on.
    fn limit() -> RateLimit {
        RateLimit::of(Mode::Resets)
    }

    #[test]
    fn who_prints_much_hides_no_other() {
        let limit = limit();
        let was_on = modes::is_on(Mode::Resets);
        modes::set(Mode::Resets, true);
        // The test may run across the end of a window, and count the lines of two.
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
        assert_eq!(counts.count(0, 0, 1), Some(0));
        assert_eq!(counts.count(0, 0, 1), Some(1));
        assert_eq!(counts.count(0, 0, 1), Some(2));
        assert_eq!(counts.count(0, 0, 1), Some(2));
        assert_eq!(counts.count(5, 0, 1), Some(0));
        assert_eq!(counts.count(6, 0, 1), None);
        assert_eq!(counts.count(6, 1, 1), Some(0));
        assert_eq!(counts.count(0, 1, 2), Some(0));
        assert_eq!(counts.count(0, 1, 2), Some(1));
    }
}
