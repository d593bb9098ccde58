// SPDX-License-Identifier: GPL-2.0-only

//! Numbers of `gceCHIPPOWERSTATE`, by generation. Source: tests/abi; for their meaning: sources.md,
//! power.

use PowerState::*;
use PowerWay::*;

/// The power state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PowerState {
    /// Clock and power on.
    On,
    /// Power on, at the lowest clock.
    Idle,
    /// Clock off.
    Suspend,
    /// Clock and power off.
    Off,
}

/// How to enter a power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PowerWay {
    /// Once the core is idle; the caller waits for that.
    Waiting,
    /// Once the core is idle; the caller does not wait.
    Later,
    /// Only if the core is idle now.
    IfIdle,
}

/// A number, its state, and how to enter it.
type Entry = (u32, PowerState, PowerWay);

/// States by number, in lists that generations share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerNumbers(&'static [&'static [Entry]]);

impl PowerNumbers {
    fn all(&self) -> impl Iterator<Item = &'static Entry> {
        self.0.iter().copied().flatten()
    }

    /// The state with a number, and how to enter it.
    pub(crate) fn find(&self, number: u32) -> Option<(PowerState, PowerWay)> {
        let found = self.all().find(|entry| entry.0 == number);
        found.map(|&(_, state, way)| (state, way))
    }

    /// The number of a state; the one that waits.
    pub(crate) fn number(&self, state: PowerState) -> u32 {
        let found = self
            .all()
            .find(|entry| entry.1 == state && entry.2 == Waiting);
        found.map_or(0, |entry| entry.0)
    }
}

/// States of all generations before 6.4.
const FIRST: &[Entry] = &[
    (0, On, Waiting),
    (1, Off, Waiting),
    (2, Idle, Waiting),
    (3, Suspend, Waiting),
];

/// States added in 0.8.0.3184.
const MORE: &[Entry] = &[
    (4, Suspend, Later),
    (5, Off, Later),
    (6, Idle, IfIdle),
    (7, Suspend, IfIdle),
    (8, Off, IfIdle),
    (9, Off, Later),
];

/// States added in 4.0.0: OFF_TIMEOUT, ON_AUTO.
const TIMED: &[Entry] = &[(10, Off, IfIdle), (11, On, IfIdle)];

/// The oldest driver for Dove.
pub(crate) const DOVE_OLD: PowerNumbers = PowerNumbers(&[FIRST]);

/// 0.8.0.3184.
pub(crate) const DOVE: PowerNumbers = PowerNumbers(&[FIRST, MORE]);

/// v2.
pub(crate) const V2: PowerNumbers = PowerNumbers(&[
    FIRST,
    &[
        (4, On, IfIdle),
        (5, Suspend, Later),
        (6, Off, Later),
        (7, Idle, IfIdle),
        (8, Suspend, IfIdle),
        (9, Off, IfIdle),
        (10, Off, Later),
    ],
]);

/// 4.6.6.
pub(crate) const V4: PowerNumbers = PowerNumbers(&[FIRST, MORE, &[(10, On, IfIdle)]]);

/// 4.6.9.8290, Marvell's.
pub(crate) const MARVELL: PowerNumbers = PowerNumbers(&[
    FIRST,
    &[
        (4, Suspend, Later),
        (5, Off, Later),
        (6, Idle, IfIdle),
        (7, Suspend, IfIdle),
        (8, Off, IfIdle),
        (9, Off, IfIdle),
        (10, Off, Later),
        (11, Off, IfIdle),
        (12, On, IfIdle),
    ],
]);

/// From 4.0.0 to 6.2.3.
pub(crate) const V4_0_0: PowerNumbers = PowerNumbers(&[FIRST, MORE, TIMED]);

/// 5.0.11.p6, with hints.
pub(crate) const P6: PowerNumbers =
    PowerNumbers(&[FIRST, MORE, TIMED, &[(12, On, Later), (13, Off, Later)]]);

/// 6.2.4.
pub(crate) const V6_2_4: PowerNumbers = PowerNumbers(&[
    FIRST,
    &[
        (4, Idle, IfIdle),
        (5, Suspend, IfIdle),
        (6, Off, IfIdle),
        (7, Off, IfIdle),
        (8, On, IfIdle),
    ],
]);

/// 6.4, in another order and with flags.
pub(crate) const V6_4: PowerNumbers = PowerNumbers(&[&[
    (0, On, Waiting),
    (1, Idle, Waiting),
    (2, Suspend, Waiting),
    (3, Off, Waiting),
    (4, On, IfIdle),
    (17, Idle, IfIdle),
    (18, Suspend, IfIdle),
    (19, Off, IfIdle),
    (33, Idle, IfIdle),
    (34, Suspend, IfIdle),
    (35, Off, IfIdle),
]]);
