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
    /// Lines about resets.
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
    /// What `silentReset` has set. On at first: with the vendor's driver it is that a core that
    /// hangs is reset without being asked.
    SilentResets = 1 << 7,
}

/// Those that are on at first.
const DEFAULT: u32 =
    Mode::Resets as u32 | Mode::Errors as u32 | Mode::Warnings as u32 | Mode::SilentResets as u32;

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
