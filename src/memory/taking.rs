// SPDX-License-Identifier: GPL-2.0-only

//! Memory of the machine's that clients are taking at this moment.
//!
//! What is available does not show it before it is taken. So what all are about to take is added
//! up, and leaves the machine its reserve together.

use crate::{
    error::{
        Error,
        Result, //
    },
    limits,
    sys, //
};
use ::core::cell::Cell;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};

/// What is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    /// Scattered pages.
    Scattered,
    /// Pages in one piece. What the kernel has with each, such as its own mapping, may be as much
    /// again, and is not asked for gently: twice the reserve is left.
    Contiguous,
}

/// How many bytes clients are about to take.
pub(super) struct Taking(Atomic<u64>);

impl Taking {
    /// No bytes.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The caller is about to take `bytes`. `OutOfMemory`: that, with what others are about to
    /// take, leaves the machine less than its reserve.
    pub(super) fn begin(&self, bytes: usize, pieces: Pieces) -> Result<Share<'_>> {
        // Alone first: a request that can never be granted must not block others.
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
        // What is available is asked for last: what others have taken by now is not in it.
        let all = usize::try_from(others.saturating_add(own)).unwrap_or(usize::MAX);
        match leaves_reserve(all, pieces) {
            true => Ok(share),
            false => Err(Error::OutOfMemory),
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

/// What one caller is about to take. It ends with this.
pub(super) struct Share<'a> {
    of: &'a Taking,
    left: Cell<u64>,
}

impl Share<'_> {
    /// `bytes` of it have been taken: what is available shows them.
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
