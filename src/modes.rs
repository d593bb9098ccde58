// SPDX-License-Identifier: GPL-2.0-only

//! What the admin sets by `/proc/driver/gc`, for all cores, until the module is unloaded.
//!
//! Submissions and allocations read it only while a static key is on: while `hang`, `dumpCmdBuf` or
//! `memFail` is set.

use crate::prelude::*;
use crate::sys;

/// Something that can be on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Lines that a process causes name its program and its thread, too.
    Pids = 1 << 0,
    /// A core that hangs is reset by itself. What `silentReset` has set.
    Resets = 1 << 1,
    /// The words of what clients commit are printed.
    Commands = 1 << 2,
    /// Lines about the power and the clock of each core.
    Power = 1 << 3,
    /// Lines about errors that clients can cause.
    Errors = 1 << 4,
    /// Lines about what clients do wrong.
    Warnings = 1 << 5,
    /// One LINK of [`LINK_COUNT`] leads nowhere.
    Hangs = 1 << 6,
}

/// Those that are on at first.
const DEFAULT: u32 = Mode::Resets as u32 | Mode::Errors as u32 | Mode::Warnings as u32;

/// Parts of the driver whose lines for debugging `debug` in `/proc/driver/gc` switches on. The
/// vendor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// What is refused, and why.
    Kernel = 8,
    /// What looks wrong in commands.
    Command = 32,
    /// Which generation of the interface a file speaks, and the rest.
    Driver = 64,
    /// Records of queues that are left out.
    Event = 512,
}

/// Those that have lines.
pub(crate) const ZONES_WITH_LINES: u32 =
    Zone::Kernel as u32 | Zone::Command as u32 | Zone::Driver as u32 | Zone::Event as u32;

/// Those that are on.
static ZONES: Atomic<u32> = Atomic::new(0);

/// Whether lines of `zone` are on.
pub(crate) fn is_zone_on(zone: Zone) -> bool {
    // CAST: its bit.
    ZONES.load(Relaxed) & zone as u32 != 0
}

/// Switches lines of these zones on, and all others off.
pub(crate) fn set_zones(zones: u32) {
    ZONES.store(zones, Relaxed);
}

/// Those that are on.
static MODES: Atomic<u32> = Atomic::new(DEFAULT);

/// Whether `mode` is on.
#[inline]
pub(crate) fn is_on(mode: Mode) -> bool {
    // CAST: its bit.
    MODES.load(Relaxed) & mode as u32 != 0
}

/// The same on the path of a submission, where it costs nothing while the key is off.
#[inline(always)]
pub(crate) fn is_on_in_path(mode: Mode) -> bool {
    sys::watches_paths() && is_on(mode)
}

/// Switches the key on if a mode or `memFail` needs it. Sleeps.
fn follow() {
    let in_path = Mode::Commands as u32 | Mode::Hangs as u32;
    sys::watch_paths(MODES.load(Relaxed) & in_path != 0 || FAILURES.rate.load(Relaxed) != 0);
}

/// Switches `mode` on or off. Two threads at once may lose one change; callers hold
/// `galcore commands`.
pub(crate) fn set(mode: Mode, on: bool) {
    // CAST: its bit.
    let others = MODES.load(Relaxed) & !(mode as u32);
    MODES.store(others | if on { mode as u32 } else { 0 }, Relaxed);
    if mode == Mode::Hangs {
        LINKS.0.store(LINK_COUNT, Relaxed);
    }
    follow();
}

/// Switches `mode` over; returns whether it is on now. See [`set`].
pub(crate) fn toggle(mode: Mode) -> bool {
    let on = !is_on(mode);
    set(mode, on);
    on
}

/// One of this number of LINKs to commands leads nowhere. Source: the vendor's driver.
const LINK_COUNT: u32 = 50;

/// LINKs to commands up to the next that leads nowhere, including it.
pub(crate) struct Links(Atomic<u32>);

/// Those of all rings. Two threads at once may lose one count.
pub(crate) static LINKS: Links = Links(Atomic::new(LINK_COUNT));

impl Links {
    /// Whether the LINK to a job leads nowhere. The links of a core that is off are written when it
    /// is switched on.
    #[cold]
    pub(crate) fn is_last(&self, has_commands: bool, is_off: bool) -> bool {
        has_commands && !is_off && self.0.load(Relaxed) == 1
    }

    /// Counts one more LINK, which leads nowhere if `is_last`.
    #[cold]
    pub(crate) fn count(&self, has_commands: bool, is_last: bool) {
        if is_last {
            self.0.store(LINK_COUNT, Relaxed);
        } else if has_commands {
            let left = self.0.load(Relaxed).saturating_sub(1);
            self.0.store(left.max(1), Relaxed);
        }
    }
}

/// Allocations that are granted first, so that a client can start. Source: the vendor's driver.
const GRANTED: u32 = 30;

/// How many allocations of clients fail.
struct Failures {
    /// Of 2^32; 0: none. All of them, if it is the largest number.
    rate: Atomic<u32>,
    /// The number of allocations that are granted first.
    left: Atomic<u32>,
}

static FAILURES: Failures = Failures::none();

impl Failures {
    const fn none() -> Self {
        Self {
            rate: Atomic::new(0),
            left: Atomic::new(0),
        }
    }

    fn set(&self, rate: u32) {
        self.left.store(GRANTED, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    #[cold]
    fn draw(&self, lot: u32) -> Result {
        let (left, rate) = (self.left.load(Relaxed), self.rate.load(Relaxed));
        if left > 0 {
            // Two threads at once may lose one count.
            self.left.store(left - 1, Relaxed);
        } else if lot < rate || rate == u32::MAX {
            return Err(Error::OutOfMemory);
        }
        Ok(())
    }
}

/// Makes `rate` of 2^32 allocations fail at random, after the first [`GRANTED`]. See [`set`].
pub(crate) fn set_failures(rate: u32) {
    FAILURES.set(rate);
    follow();
}

/// A client's request allocates memory. `OutOfMemory`: this one must fail.
#[inline(always)]
pub(crate) fn pass_allocation() -> Result {
    if sys::watches_paths() {
        FAILURES.draw(sys::random())?;
    }
    Ok(())
}

#[kernel::macros::kunit_tests(galcore_modes)]
mod tests {
    use super::*;

    #[test]
    fn one_link_of_fifty_leads_nowhere() {
        let all = Links(Atomic::new(LINK_COUNT));
        let mut spoiled = [0; 3];
        let mut links = 0;
        for count in &mut spoiled {
            // Ends: there is one among this number.
            for _ in 0..LINK_COUNT {
                // Jobs of no commands do not count.
                assert!(!all.is_last(false, false));
                all.count(false, false);
                links += 1;
                let is_last = all.is_last(true, false);
                all.count(true, is_last);
                if is_last {
                    break;
                }
            }
            *count = links;
        }
        assert_eq!(spoiled, [LINK_COUNT, 2 * LINK_COUNT, 3 * LINK_COUNT]);
        // It waits for the core to be on.
        all.0.store(1, Relaxed);
        assert!(!all.is_last(true, true));
        all.count(true, false);
        assert!(all.is_last(true, false));
    }

    #[test]
    fn thirty_are_granted_and_then_it_is_a_matter_of_luck() {
        let failures = Failures::none();
        assert_eq!(failures.draw(0), Ok(()));
        failures.set(1 << 31);
        for _ in 0..GRANTED {
            assert_eq!(failures.draw(0), Ok(()));
        }
        assert_eq!(failures.draw(0), Err(Error::OutOfMemory));
        assert_eq!(failures.draw((1 << 31) - 1), Err(Error::OutOfMemory));
        assert_eq!(failures.draw(1 << 31), Ok(()));
        failures.rate.store(u32::MAX, Relaxed);
        assert_eq!(failures.draw(u32::MAX), Err(Error::OutOfMemory));
        failures.set(0);
        for _ in 0..2 * GRANTED {
            assert_eq!(failures.draw(0), Ok(()));
        }
    }
}
