// SPDX-License-Identifier: GPL-2.0-only

//! How much a process has of something: now, at most so far, and in all. Pure logic.

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Now.
    pub(crate) bytes: u64,
    /// The most at one time.
    pub(crate) max: u64,
    /// All that was ever given out.
    pub(crate) total: u64,
    /// How often some were given out; comes round.
    pub(crate) given: u32,
    /// How often some were given back; comes round.
    pub(crate) returned: u32,
}

impl Ledger {
    /// Notes bytes given out.
    pub(crate) fn add(&mut self, bytes: usize) {
        // CAST: at most 64 bits.
        let bytes = bytes as u64;
        // 64 bits of bytes do not come round.
        self.bytes = self.bytes.wrapping_add(bytes);
        self.max = self.max.max(self.bytes);
        self.total = self.total.wrapping_add(bytes);
        self.given = self.given.wrapping_add(1);
    }

    /// Notes bytes given back.
    pub(crate) fn remove(&mut self, bytes: usize) {
        // CAST: at most 64 bits.
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        self.returned = self.returned.wrapping_add(1);
    }
}

/// What DATABASE tells of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessLedgers {
    /// Nodes of video memory.
    pub(crate) video: Ledger,
    /// Buffers of ALLOCATE_NON_PAGED_MEMORY.
    pub(crate) non_paged: Ledger,
    /// Buffers of ALLOCATE_CONTIGUOUS_MEMORY.
    pub(crate) contiguous: Ledger,
    /// Nodes that lie in one piece: those in the pool, and in contiguous pages of their own.
    pub(crate) in_one_piece: Ledger,
    /// Nodes in the pool.
    pub(crate) pool: Ledger,
    /// Nodes in contiguous pages of their own.
    pub(crate) contiguous_pages: Ledger,
    /// Nodes in scattered pages.
    pub(crate) scattered: Ledger,
    /// Nodes in pages of their own.
    pub(crate) paged: Ledger,
}

#[kernel::macros::kunit_tests(galcore_ledger)]
mod tests {
    use super::*;

    #[test]
    fn the_most_and_all_stay() {
        let mut ledger = Ledger::default();
        ledger.add(100);
        ledger.remove(60);
        ledger.add(10);
        assert_eq!((ledger.bytes, ledger.max, ledger.total), (50, 100, 110));
        assert_eq!((ledger.given, ledger.returned), (2, 1));
        ledger.remove(1000);
        assert_eq!(ledger.bytes, 0);
    }
}
