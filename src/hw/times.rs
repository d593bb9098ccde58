// SPDX-License-Identifier: GPL-2.0-only

//! Durations of a core's power states.

use crate::sys;
use crate::sys::prelude::*;

/// A core's power state, by the vendor's names.
#[derive(Clone, Copy)]
pub(super) enum Power {
    On,
    Off,
    Idle,
    Suspend,
}

/// Durations since the core was bound, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct PowerTimes {
    /// Time on.
    pub(crate) on: u64,
    /// Time off.
    pub(crate) off: u64,
    /// Time on, at the lowest clock.
    pub(crate) idle: u64,
    /// Time off, after a client requested SUSPEND.
    pub(crate) suspend: u64,
}

struct Running {
    past: PowerTimes,
    power: Power,
    /// The start of the current state, by the monotonic clock, in nanoseconds.
    since: u64,
}

impl Running {
    fn catch_up(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        let past = match self.power {
            Power::On => &mut self.past.on,
            Power::Off => &mut self.past.off,
            Power::Idle => &mut self.past.idle,
            Power::Suspend => &mut self.past.suspend,
        };
        *past = past.saturating_add(passed);
        self.since = now;
    }
}

/// The times of one core. Lock: `galcore power times`, a leaf.
#[pin_data]
pub(super) struct Times {
    #[pin]
    running: SpinLock<Running>,
}

impl Times {
    /// Starts the times of a core that is on.
    pub(super) fn new() -> Result<Arc<Self>> {
        let running = Running {
            past: PowerTimes::default(),
            power: Power::On,
            since: sys::monotonic_ns(),
        };
        let times = pin_init!(Self {
            running <- new_spinlock!(running, "galcore power times"),
        });
        Arc::pin_init(times, GFP_KERNEL)
    }

    /// Notes a new power state.
    pub(super) fn note(&self, power: Power) {
        let mut running = self.running.lock();
        running.catch_up(sys::monotonic_ns());
        running.power = power;
    }

    /// The times until now.
    pub(super) fn read(&self) -> PowerTimes {
        let mut running = self.running.lock();
        running.catch_up(sys::monotonic_ns());
        running.past
    }
}

#[kunit_tests(galcore_times)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_time() {
        let mut running = Running {
            past: PowerTimes::default(),
            power: Power::On,
            since: 100,
        };
        for (power, until) in [
            (Power::Idle, 110),
            (Power::Suspend, 130),
            (Power::Off, 170),
            (Power::On, 250),
            (Power::On, 260),
        ] {
            running.catch_up(until);
            running.power = power;
        }
        // If the clock goes back, no time is subtracted.
        running.catch_up(200);
        let PowerTimes {
            on,
            off,
            idle,
            suspend,
        } = running.past;
        assert_eq!((on, off, idle, suspend), (20, 80, 20, 40));
    }
}
