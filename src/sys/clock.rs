// SPDX-License-Identifier: GPL-2.0-only

//! A fast clock, to measure every job.
//!
//! `ktime_get` takes sixty instructions on ARM, mostly to convert a counter to nanoseconds. This
//! uses the counter of the kernel's delays. Only a reader converts the result ([`nanoseconds`]).
//! The counter may wrap after a few seconds, so longer times are measured in jiffies.

use super::{
    jiffies,
    shim,
    usize_as_u64,
    HZ, //
};
use kernel::time::msecs_to_jiffies;

/// Times of more jiffies than this, a second, are measured in jiffies.
const LONG: usize = HZ as usize;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    count: usize,
    jiffies: usize,
}

impl Stamp {
    /// Returns the current time.
    #[inline]
    pub(crate) fn now() -> Self {
        Self {
            // SAFETY: Reading the cycle counter has no preconditions.
            count: unsafe { shim::gal_count() },
            jiffies: jiffies(),
        }
    }

    /// A stamp for tests.
    #[cfg(CONFIG_KUNIT)]
    pub(crate) fn at(count: usize, jiffies: usize) -> Self {
        Self { count, jiffies }
    }

    /// Counts since `earlier`.
    #[inline]
    pub(crate) fn since(self, earlier: Self) -> u64 {
        let jiffies = self.jiffies.wrapping_sub(earlier.jiffies);
        let count = self.count.wrapping_sub(earlier.count);
        if jiffies > LONG {
            return long(jiffies);
        }
        // The counters of two CPUs may differ slightly. CAST: at most 64 bits.
        if count > usize::MAX / 2 {
            0
        } else {
            count as u64
        }
    }
}

/// Counts in `jiffies`.
#[cold]
#[inline(never)]
fn long(jiffies: usize) -> u64 {
    // SAFETY: Only reads a value that does not change.
    let each = unsafe { shim::gal_counts_per_jiffy() };
    usize_as_u64(jiffies).saturating_mul(usize_as_u64(each))
}

/// Counts in `milliseconds`.
pub(crate) fn counts(milliseconds: u32) -> u64 {
    long(msecs_to_jiffies(milliseconds))
}

/// Converts counts to nanoseconds.
pub(crate) fn nanoseconds(counts: u64) -> u64 {
    // SAFETY: The conversion is arithmetic on its argument and has no preconditions.
    unsafe { shim::gal_count_ns(counts) }
}

#[kernel::macros::kunit_tests(galcore_clock)]
mod tests {
    use super::super::monotonic_ns;
    use super::*;
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    #[test]
    fn the_counter_may_wrap() {
        assert_eq!(
            Stamp::at(5, 1).since(Stamp::at(usize::MAX - 4, usize::MAX)),
            10
        );
        // The counter of another CPU is late.
        assert_eq!(Stamp::at(4, 0).since(Stamp::at(5, 0)), 0);
    }

    #[test]
    fn what_takes_long_is_measured_in_jiffies() {
        let second = Stamp::at(0, LONG + 1).since(Stamp::at(7, 0));
        let ns = nanoseconds(second);
        let wanted = 1_000_000_000 + 1_000_000_000 / u64::from(HZ);
        assert!(ns.abs_diff(wanted) < 1_000_000);
    }

    #[test]
    fn it_is_as_fast_as_the_kernels() {
        let (start, begun) = (monotonic_ns(), Stamp::now());
        fsleep(Delta::from_millis(30));
        let (end, over) = (Stamp::now(), monotonic_ns());
        let (counted, passed) = (nanoseconds(end.since(begun)), over - start);
        assert!((29_900_000..=passed + 100_000).contains(&counted));
    }
}
