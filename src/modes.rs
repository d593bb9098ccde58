// SPDX-License-Identifier: GPL-2.0-only

//! Settings of the administrator for all cores, by `/proc/driver/gc`, until the module is unloaded.
//!
//! Submissions and allocations only read them while a static key is on. It is on while `hang`,
//! `dumpCmdBuf` or `memFail` is set.

use crate::prelude::*;

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Log lines about a process also have the names of its program and its thread.
    Pids = 1 << 0,
    /// A core that hangs is reset without a command, as set by `silentReset`.
    Resets = 1 << 1,
    /// The words of clients' commands are printed.
    Commands = 1 << 2,
    /// Log lines about the power and the clock of each core are printed.
    Power = 1 << 3,
    /// Log lines about errors that clients can cause are printed.
    Errors = 1 << 4,
    /// Log lines about mistakes of clients are printed.
    Warnings = 1 << 5,
    /// One LINK of [`LINK_COUNT`] leads nowhere.
    Hangs = 1 << 6,
}

/// The modes that are initially on.
const DEFAULT: u32 = Mode::Resets as u32 | Mode::Errors as u32 | Mode::Warnings as u32;

/// Parts of the driver with debug lines, which `debug` of `/proc/driver/gc` enables. The numbers
/// are the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Refused requests, and the reasons.
    Kernel = 8,
    /// Suspicious commands.
    Command = 32,
    /// The generation of the interface that a file uses, and the rest.
    Driver = 64,
    /// Ignored records of event queues.
    Event = 512,
}

/// The zones that have lines.
pub(crate) const ZONES_WITH_LINES: u32 =
    Zone::Kernel as u32 | Zone::Command as u32 | Zone::Driver as u32 | Zone::Event as u32;

/// Those that are on.
static ZONES: Atomic<u32> = Atomic::new(0);

/// Whether lines of `zone` are on.
pub(crate) fn is_zone_on(zone: Zone) -> bool {
    // CAST: its bit.
    ZONES.load(Relaxed) & zone as u32 != 0
}

/// Enables the lines of `zones`, and disables those of all others.
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

/// As [`is_on`], for the path of a submission. It costs nothing while the key is off.
#[inline(always)]
pub(crate) fn is_on_in_path(mode: Mode) -> bool {
    sys::watches_paths() && is_on(mode)
}

/// Switches the key on if a mode or `memFail` needs it, otherwise off. May sleep.
fn follow() {
    let in_path = Mode::Commands as u32 | Mode::Hangs as u32;
    sys::watch_paths(MODES.load(Relaxed) & in_path != 0 || FAILURES.rate.load(Relaxed) != 0);
}

/// Switches `mode` on or off. Callers hold `galcore commands`, because concurrent calls may lose a
/// change.
pub(crate) fn set(mode: Mode, on: bool) {
    // CAST: its bit.
    let others = MODES.load(Relaxed) & !(mode as u32);
    MODES.store(others | if on { mode as u32 } else { 0 }, Relaxed);
    if mode == Mode::Hangs {
        LINKS.0.store(LINK_COUNT, Relaxed);
    }
    follow();
}

/// Toggles `mode`. Returns whether it is on now. See [`set`].
pub(crate) fn toggle(mode: Mode) -> bool {
    let on = !is_on(mode);
    set(mode, on);
    on
}

/// One of this number of LINKs to commands leads nowhere. Source: the vendor's driver.
const LINK_COUNT: u32 = 50;

/// The number of LINKs to commands up to the next one that leads nowhere, including it.
pub(crate) struct Links(Atomic<u32>);

/// The count of all rings. Concurrent calls may lose a count.
pub(crate) static LINKS: Links = Links(Atomic::new(LINK_COUNT));

impl Links {
    /// Whether the LINK to a job leads nowhere. Not for a core that is off: its LINKs are written
    /// when it is switched on.
    #[cold]
    pub(crate) fn is_last(&self, has_commands: bool, is_off: bool) -> bool {
        has_commands && !is_off && self.0.load(Relaxed) == 1
    }

    /// Counts a LINK. It leads nowhere if `is_last`.
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

/// The first allocations, which succeed, so that a client can start. Source: the vendor's driver.
const GRANTED: u32 = 30;

/// The failures of clients' allocations.
struct Failures {
    /// How many of 2^32 fail. 0: none. [`u32::MAX`]: all.
    rate: Atomic<u32>,
    /// The number of allocations that succeed before that.
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
            // Concurrent calls may lose a count.
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

/// Called for each allocation by a client's request. `OutOfMemory`: this one must fail.
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
            // Ends: one of this number of LINKs leads nowhere.
            for _ in 0..LINK_COUNT {
                // Jobs without commands do not count.
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
        // The bad LINK waits until the core is on.
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
