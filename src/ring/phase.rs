// SPDX-License-Identifier: GPL-2.0-only

//! Whether a core takes jobs.
//!
//! Pure logic. Three things are not phases, as each is the case in several of them: a core is off
//! and takes jobs, which run when it comes on; it is recovered while the machine falls asleep; a
//! place is filled while the ring is closed.

/// Whether a core takes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No more jobs: the core has not been started yet, or is being stopped.
    Stopped,
    /// Jobs get places.
    Open,
    /// The machine falls asleep, or sleeps: no job gets a place. `holding`: nor do those begin that
    /// can begin after the sleep.
    Asleep { holding: bool },
    /// No more jobs, and the front end does not run until the core is bound again.
    Dead,
}

impl Phase {
    /// Whether no job gets a place any more.
    pub(crate) fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped | Self::Dead)
    }

    /// Whether the machine falls asleep, or sleeps.
    pub(crate) fn is_asleep(self) -> bool {
        matches!(self, Self::Asleep { .. })
    }

    /// No more jobs.
    pub(crate) fn stop(&mut self) {
        if *self != Self::Dead {
            *self = Self::Stopped;
        }
    }

    /// The machine falls asleep.
    pub(crate) fn fall_asleep(&mut self) {
        if *self == Self::Open {
            *self = Self::Asleep { holding: false };
        }
    }

    /// While the machine falls asleep, jobs that can begin later do not begin, or do.
    pub(crate) fn hold(&mut self, on: bool) {
        if let Self::Asleep { holding } = self {
            *holding = on;
        }
    }

    /// The machine is awake.
    pub(crate) fn wake_up(&mut self) {
        if self.is_asleep() {
            *self = Self::Open;
        }
    }
}

#[kernel::macros::kunit_tests(galcore_phase)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_core_sleeps_and_wakes_up() {
        for before in [Phase::Stopped, Phase::Dead] {
            let mut phase = before;
            phase.fall_asleep();
            phase.hold(true);
            phase.wake_up();
            assert_eq!(phase, before);
            assert!(phase.is_stopped() && !phase.is_asleep());
        }
        let mut phase = Phase::Open;
        phase.hold(true);
        assert_eq!(phase, Phase::Open);
        phase.fall_asleep();
        phase.hold(true);
        assert_eq!(phase, Phase::Asleep { holding: true });
        // Once more changes nothing.
        phase.fall_asleep();
        assert_eq!(phase, Phase::Asleep { holding: true });
        assert!(!phase.is_stopped());
        phase.wake_up();
        assert_eq!(phase, Phase::Open);
    }

    #[test]
    fn a_dead_core_is_not_merely_stopped() {
        let mut phase = Phase::Asleep { holding: true };
        phase.stop();
        assert_eq!(phase, Phase::Stopped);
        phase = Phase::Dead;
        phase.stop();
        assert_eq!(phase, Phase::Dead);
    }
}
