// SPDX-License-Identifier: GPL-2.0-only

//! Allocations of clients that fail because the admin wants it (`memFail` of `/proc/driver/gc`).

use crate::{
    error::{
        Error,
        Result, //
    },
    sys, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Allocations that are granted first, so that a client can start. Source: the vendor's driver.
const GRANTED: u32 = 30;

/// How many allocations fail.
pub(crate) struct Failures {
    /// Of 2^32; 0: none. All of them, if it is the largest number.
    rate: Atomic<u32>,
    /// The number of allocations that are granted first.
    left: Atomic<u32>,
}

impl Failures {
    /// No allocation fails.
    pub(super) const fn none() -> Self {
        Self {
            rate: Atomic::new(0),
            left: Atomic::new(0),
        }
    }

    /// From now on `rate` of 2^32 allocations fail, at random, after the first [`GRANTED`].
    pub(crate) fn set(&self, rate: u32) {
        self.left.store(GRANTED, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    /// A client's request allocates memory. `OutOfMemory`: this one must fail.
    #[inline]
    pub(crate) fn pass(&self) -> Result {
        match self.rate.load(Relaxed) {
            0 => Ok(()),
            rate => self.draw(rate, sys::random()),
        }
    }

    #[cold]
    fn draw(&self, rate: u32, lot: u32) -> Result {
        let left = self.left.load(Relaxed);
        if left > 0 {
            // Of two at once one more may be granted.
            self.left.store(left - 1, Relaxed);
            return Ok(());
        }
        match lot < rate || rate == u32::MAX {
            true => Err(Error::OutOfMemory),
            false => Ok(()),
        }
    }
}

#[kernel::macros::kunit_tests(galcore_failures)]
mod tests {
    use super::*;

    #[test]
    fn thirty_are_granted_and_then_it_is_a_matter_of_luck() {
        let failures = Failures::none();
        assert_eq!(failures.pass(), Ok(()));
        failures.set(1 << 31);
        for _ in 0..GRANTED {
            assert_eq!(failures.draw(1 << 31, 0), Ok(()));
        }
        assert_eq!(failures.draw(1 << 31, 0), Err(Error::OutOfMemory));
        assert_eq!(
            failures.draw(1 << 31, (1 << 31) - 1),
            Err(Error::OutOfMemory)
        );
        assert_eq!(failures.draw(1 << 31, 1 << 31), Ok(()));
        assert_eq!(failures.draw(u32::MAX, u32::MAX), Err(Error::OutOfMemory));
        failures.set(0);
        for _ in 0..2 * GRANTED {
            assert_eq!(failures.pass(), Ok(()));
        }
    }
}
