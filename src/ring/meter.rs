// SPDX-License-Identifier: GPL-2.0-only

//! How long a core has been busy.
//!
//! Pure logic. A job begins when it is submitted, when the previous one has ended, or when the core
//! has come on, whichever is latest. It ends when its end is seen. So each job costs one reading of
//! the clock, and the times of all jobs add up to the time that the core was busy. If several ends
//! are seen at once, the oldest job has taken the time.

use crate::sys::clock::Stamp;

/// What is known of one core, in counts of [`clock`](crate::sys::clock).
pub(crate) struct Meter {
    busy: u64,
    /// When the oldest job under way has begun.
    since: Stamp,
}

/// What a core has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Load {
    /// How long it has been busy, in counts.
    pub(crate) busy: u64,
    /// Whose job is under way, by number (0: the driver's), and for how long. Part of `busy`.
    pub(crate) running: Option<(u64, u64)>,
}

impl Meter {
    /// A core that has done nothing.
    pub(crate) fn new() -> Self {
        Self {
            busy: 0,
            since: Stamp::now(),
        }
    }

    /// A job is submitted while there is no other, or the oldest finds the core on from now.
    #[inline]
    pub(crate) fn begin(&mut self, now: Stamp) {
        self.since = now;
    }

    /// The oldest job has ended; returns how long it has taken.
    #[inline]
    pub(crate) fn end(&mut self, now: Stamp) -> u64 {
        let taken = now.since(self.since);
        self.since = now;
        self.busy = self.busy.wrapping_add(taken);
        taken
    }

    /// What it has done, and does for `process` if a job is under way.
    pub(crate) fn load(&self, process: Option<u64>, now: Stamp) -> Load {
        let running = process.map(|process| (process, now.since(self.since)));
        let taken = running.map_or(0, |(_, taken)| taken);
        Load {
            busy: self.busy.wrapping_add(taken),
            running,
        }
    }
}

#[kernel::macros::kunit_tests(galcore_meter)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_jobs_add_up() {
        let mut meter = Meter::new();
        meter.begin(Stamp::at(100, 0));
        assert_eq!(meter.end(Stamp::at(150, 1)), 50);
        // It was submitted while the first was under way.
        assert_eq!(meter.end(Stamp::at(170, 1)), 20);
        // Seen with it.
        assert_eq!(meter.end(Stamp::at(170, 1)), 0);
        // Nothing was under way.
        meter.begin(Stamp::at(1000, 3));
        assert_eq!(meter.end(Stamp::at(1005, 3)), 5);
        let load = meter.load(None, Stamp::at(2000, 3));
        assert_eq!((load.busy, load.running), (75, None));
    }

    #[test]
    fn what_is_under_way_counts() {
        let mut meter = Meter::new();
        meter.begin(Stamp::at(10, 0));
        meter.end(Stamp::at(20, 0));
        meter.begin(Stamp::at(30, 0));
        let load = meter.load(Some(7), Stamp::at(70, 0));
        assert_eq!((load.busy, load.running), (50, Some((7, 40))));
        assert_eq!(meter.end(Stamp::at(80, 0)), 50);
    }
}
