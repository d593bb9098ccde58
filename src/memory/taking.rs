// SPDX-License-Identifier: GPL-2.0-only

//! Memory that clients are about to allocate.
//!
//! The kernel's count of available memory still includes it. So the driver adds these allocations
//! up, and refuses those that would not leave the machine its reserve.

use crate::{
    limits,
    prelude::*,
    sys, //
};
use ::core::cell::Cell;

/// Kinds of allocations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    /// Scattered pages.
    Scattered,
    /// Contiguous pages. The kernel's own overhead, such as its mapping, may have the same size,
    /// and the allocation can invoke the OOM killer. So twice the reserve is left.
    Contiguous,
}

/// The bytes that clients are about to allocate.
pub(super) struct Taking(Atomic<u64>);

impl Taking {
    /// No bytes.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Announces an allocation of `bytes`. `OutOfMemory`: together with those of other callers, it
    /// would leave the machine less than its reserve.
    pub(super) fn begin(&self, bytes: usize, pieces: Pieces) -> Result<Share<'_>> {
        // First check it alone: a request that can never be granted must not block others.
        if !leaves_reserve(bytes, pieces) {
            return Err(Error::OutOfMemory);
        }
        // CAST: at most 64 bits.
        let own = bytes as u64;
        let others = self.0.fetch_add(own, Full);
        let share = Share {
            of: self,
            left: Cell::new(own),
        };
        // Read the available memory last: it then lacks what other callers have allocated by now.
        let all = usize::try_from(others.saturating_add(own)).unwrap_or(usize::MAX);
        if leaves_reserve(all, pieces) {
            Ok(share)
        } else {
            Err(Error::OutOfMemory)
        }
    }
}

fn leaves_reserve(bytes: usize, pieces: Pieces) -> bool {
    let (available, total) = sys::memory_bytes();
    let more = match pieces {
        Pieces::Scattered => 0,
        Pieces::Contiguous => limits::memory_reserve(total),
    };
    limits::leaves_reserve(bytes.saturating_add(more), available, total)
}

/// The bytes that one caller is about to allocate. A drop ends the announcement.
pub(super) struct Share<'a> {
    of: &'a Taking,
    left: Cell<u64>,
}

impl Share<'_> {
    /// Subtracts `bytes` that are allocated now: the available memory no longer includes them.
    pub(super) fn has(&self, bytes: usize) {
        // CAST: at most 64 bits.
        let done = self.left.get().min(bytes as u64);
        self.left.set(self.left.get() - done);
        self.of.0.fetch_sub(done, Full);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.left.get(), Full);
    }
}
