// SPDX-License-Identifier: GPL-2.0-only

//! Ledgers of a process's memory, by pool and by kind of surface. Pure logic.

use crate::{
    abi::Ledger,
    memory::Pool, //
};

/// Number of kinds of surfaces (`gceVIDMEM_TYPE` of the 6.4 driver).
pub(crate) const KINDS: usize = 17;

/// The bits of a request's kind that are no flags.
const KIND_MASK: u32 = 0xFF;

/// Nodes of video memory that a process has allocated.
#[derive(Clone, Copy, Default)]
pub(crate) struct VideoLedgers {
    pub(crate) all: Ledger,
    /// In the pool.
    pub(crate) system: Ledger,
    /// In contiguous pages of their own.
    pub(crate) contiguous: Ledger,
    pub(crate) scattered: Ledger,
    /// In the pool, or in contiguous pages of their own.
    pub(crate) in_one_piece: Ledger,
    /// In pages of their own.
    pub(crate) paged: Ledger,
    /// By the surface's kind.
    pub(crate) kinds: [Ledger; KINDS],
}

/// The pool and the kind of a node.
#[derive(Clone, Copy)]
pub(super) struct Sort {
    pub(super) pool: Pool,
    /// The kind that ALLOCATE_VIDEO_MEMORY names.
    pub(super) kind: u32,
}

impl VideoLedgers {
    /// The ledgers that count a node of this sort.
    fn of(&mut self, sort: Sort) -> impl Iterator<Item = &mut Ledger> {
        let (in_one_piece, paged) = (&mut self.in_one_piece, &mut self.paged);
        let pools = match sort.pool {
            Pool::System => [Some(&mut self.system), Some(in_one_piece), None],
            Pool::Contiguous => [Some(&mut self.contiguous), Some(in_one_piece), Some(paged)],
            Pool::Virtual => [Some(&mut self.scattered), None, Some(paged)],
        };
        // CAST: 8 bits.
        let kind = (sort.kind & KIND_MASK) as usize;
        // An unknown kind counts as 0, "no kind".
        let kind = if kind < KINDS { kind } else { 0 };
        let others = [&mut self.all, &mut self.kinds[kind]];
        // `Init` has a `chain`, too.
        Iterator::chain(others.into_iter(), pools.into_iter().flatten())
    }

    /// Adds a node of `bytes` bytes.
    pub(super) fn add(&mut self, sort: Sort, bytes: usize) {
        self.of(sort).for_each(|ledger| ledger.add(bytes));
    }

    /// Removes a node of `bytes` bytes.
    pub(super) fn remove(&mut self, sort: Sort, bytes: usize) {
        self.of(sort).for_each(|ledger| ledger.remove(bytes));
    }
}

/// All memory of a process, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ledgers {
    /// Nodes of video memory.
    pub(crate) video: VideoLedgers,
    /// Buffers of ALLOCATE_NON_PAGED_MEMORY.
    pub(crate) non_paged: Ledger,
    /// Buffers of ALLOCATE_CONTIGUOUS_MEMORY.
    pub(crate) contiguous: Ledger,
    /// Memory of other drivers and the process's own memory, if mapped for the GPU.
    pub(crate) mapped: Ledger,
}

#[kernel::macros::kunit_tests(galcore_ledgers)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_in_its_pool_and_kind() {
        let mut ledgers = VideoLedgers::default();
        let sort = |pool, kind| Sort { pool, kind };
        ledgers.add(sort(Pool::System, 4), 100);
        ledgers.add(sort(Pool::Virtual, 0x104), 30);
        ledgers.add(sort(Pool::Contiguous, 200), 7);
        ledgers.remove(sort(Pool::System, 4), 100);
        let now = [
            ledgers.all,
            ledgers.system,
            ledgers.contiguous,
            ledgers.scattered,
            ledgers.in_one_piece,
            ledgers.paged,
            ledgers.kinds[4],
            ledgers.kinds[0],
        ];
        let bytes = now.map(|ledger| ledger.bytes);
        assert_eq!(bytes, [37, 0, 7, 30, 7, 37, 30, 7]);
        let most = now.map(|ledger| ledger.max);
        assert_eq!(most, [137, 100, 7, 30, 107, 37, 130, 7]);
    }
}
