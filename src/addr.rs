// SPDX-License-Identifier: GPL-2.0-only

//! Ranges of GPU addresses, as parameters, memory and the checker of commands speak of them.
//!
//! Pure logic.

use kernel::prelude::*;

/// GPU addresses from `start`, `bytes` (at least 1) of them; they do not wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    start: u32,
    bytes: u32,
}

impl Range {
    /// A range; `None`: it is empty or reaches past the last address.
    pub(crate) const fn new(start: u32, bytes: usize) -> Option<Self> {
        // CAST: 32 bits into at least 32.
        if bytes == 0 || bytes > u32::MAX as usize || bytes - 1 > (u32::MAX - start) as usize {
            return None;
        }
        // CAST: looked at above.
        let bytes = bytes as u32;
        Some(Self { start, bytes })
    }

    /// First address.
    pub(crate) fn start(self) -> u32 {
        self.start
    }

    /// Number of addresses.
    pub(crate) fn bytes(self) -> usize {
        // CAST: 32 bits into at least 32.
        self.bytes as usize
    }

    /// Last address.
    pub(crate) fn last(self) -> u32 {
        self.start + (self.bytes - 1)
    }

    /// Whether `address` lies in it.
    pub(crate) fn contains(self, address: u32) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    /// Whether all of `other` lies in it.
    pub(crate) fn holds(self, other: Self) -> bool {
        self.contains(other.start) && self.contains(other.last())
    }
}

#[kunit_tests(galcore_addr)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_neither_empty_nor_wraps() {
        assert_eq!(Range::new(5, 0), None);
        assert_eq!(Range::new(2, u32::MAX as usize), None);
        assert_eq!(Range::new(0xFFFF_F000, 0x1001), None);
        let last = Range::new(0xFFFF_F000, 0x1000).unwrap();
        assert_eq!((last.start(), last.bytes()), (0xFFFF_F000, 0x1000));
        assert_eq!(last.last(), u32::MAX);
        assert!(last.contains(u32::MAX) && last.contains(0xFFFF_F000));
        assert!(!last.contains(0xFFFF_EFFF) && !last.contains(0));
        let part = Range::new(0xFFFF_F800, 0x800).unwrap();
        assert!(last.holds(last) && last.holds(part) && !part.holds(last));
    }
}
