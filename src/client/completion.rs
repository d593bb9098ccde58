// SPDX-License-Identifier: GPL-2.0-only

//! The completion page: where a client sees without a system call what has been done.
//!
//! One page for a process that asks for it, by mapping it ([`FILE_OFFSET`]), read-only. The driver
//! writes the number of the process's last completed job and when that was. 64-bit words are
//! not written at once on 32-bit machines, so a sequence number stands before them: odd while they
//! change. Layout: `struct galcore_completion` of the C header.

use crate::{
    error::Result,
    sys::{
        self,
        dma,
        pages::Pages,
        vma::Mappable, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// Offset of the page in the file, above every address that names a buffer.
pub(crate) const FILE_OFFSET: u64 = 1 << 36;

/// Offsets in the page, in bytes.
const SEQUENCE: usize = 0;
const COMPLETED: usize = 8;
const TIMESTAMP: usize = 16;

/// The page of one process. Its lock is a leaf.
#[pin_data]
pub(crate) struct CompletionPage {
    pages: Pages,
    /// Number of the last job.
    submitted: Atomic<u64>,
    /// The page's sequence number.
    #[pin]
    sequence: SpinLock<u32>,
}

impl CompletionPage {
    /// A page that says: none.
    pub(crate) fn new(dev: &dma::Device) -> Result<Arc<Self>> {
        let pages = Pages::allocate(dev, 1)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                pages,
                submitted: Atomic::new(0),
                sequence <- new_spinlock!(0, "galcore completion page"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// Numbers one more job. Called in the order of the ring.
    pub(crate) fn count(&self) -> u64 {
        self.submitted.fetch_add(1, Relaxed) + 1
    }

    /// Shows that job `number` has ended, now.
    pub(crate) fn show(&self, number: u64) {
        let mut sequence = self.sequence.lock();
        *sequence = sequence.wrapping_add(1);
        let now = sys::monotonic_ns();
        self.pages.poke(SEQUENCE, *sequence);
        sys::barrier::smp_write();
        for (at, value) in [(COMPLETED, number), (TIMESTAMP, now)] {
            // CAST: the two halves.
            self.pages.poke(at, value as u32);
            self.pages.poke(at + 4, (value >> 32) as u32);
        }
        sys::barrier::smp_write();
        *sequence = sequence.wrapping_add(1);
        self.pages.poke(SEQUENCE, *sequence);
    }
}

impl Mappable for CompletionPage {
    type Memory = Pages;

    fn memory(&self) -> &Pages {
        &self.pages
    }
}
