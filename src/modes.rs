// SPDX-License-Identifier: GPL-2.0-only

//! Debug modes that the admin sets by `/proc/driver/gc`, for all cores and as long as the module is
//! loaded.
//!
//! The path of a job does not look here: the rings keep what concerns them in a word of their own,
//! which each change updates.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Something that can be on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Lines that a process causes name its program and its thread, too.
    Pids = 1 << 0,
    /// A core that hangs is reset by itself. What `silentReset` has set.
    Resets = 1 << 1,
    /// The words of what clients commit are printed.
    Commands = 1 << 2,
    /// Each core's going off and on, and its clock.
    Power = 1 << 3,
    /// Lines about errors that clients can cause.
    Errors = 1 << 4,
    /// Lines about what clients do wrong.
    Warnings = 1 << 5,
    /// One LINK of many leads nowhere.
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

/// Switches `mode` on or off. By one thread at a time.
pub(crate) fn set(mode: Mode, on: bool) {
    // CAST: its bit.
    let others = MODES.load(Relaxed) & !(mode as u32);
    MODES.store(others | if on { mode as u32 } else { 0 }, Relaxed);
}

/// Switches `mode` over; returns whether it is on now. By one thread at a time.
pub(crate) fn toggle(mode: Mode) -> bool {
    let on = !is_on(mode);
    set(mode, on);
    on
}
