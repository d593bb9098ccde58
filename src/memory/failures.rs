// SPDX-License-Identifier: GPL-2.0-only

//! Fault injection for clients' allocations (`memFail` of `/proc/driver/gc`).

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

/// Allocations that succeed first, so that a client can start. Source: the vendor's driver.
const GRANTED: u32 = 30;

/// The share of allocations that fails.
pub(crate) struct Failures {
    /// Failures in 2^32 allocations; 0: none, `u32::MAX`: all.
    rate: Atomic<u32>,
    /// The number of allocations that still succeed.
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

    /// Makes `rate` of 2^32 allocations fail, at random, after the first [`GRANTED`].
    pub(crate) fn set(&self, rate: u32) {
        self.left.store(GRANTED, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    /// Decides whether a client's allocation may proceed. `OutOfMemory`: it must fail.
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
            // A race may grant one more.
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
