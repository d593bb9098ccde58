// SPDX-License-Identifier: GPL-2.0-only

//! The completion page: shows a client which jobs have ended, without a system call.
//!
//! A process gets the page by mapping it read-only ([`FILE_OFFSET`]). The page has a head, with the
//! version of the layout, and a slot for each core. A slot holds the number of the process's last
//! job that has ended on the core, the time of its end, and the number of the last dropped job. A
//! job is dropped if its core is reset or stopped. A 32-bit machine writes a 64-bit word in two
//! steps. So a sequence number precedes the words, and is odd while they change. The C header
//! describes the layout: `struct galcore_completion`.

use super::Process;
use crate::{
    limits::MAX_CORES,
    prelude::*,
    ring::Outcome,
    sys::{
        self,
        dma,
        pages::Pages,
        vma::Mappable, //
    }, //
};

/// Offset of the page in the file. It is above every address that names a buffer.
pub(crate) const FILE_OFFSET: u64 = 1 << 36;

/// Version of the layout.
const VERSION: u32 = 1;

/// Offsets in the head, in bytes: the version and the number of slots.
const HEAD_VERSION: usize = 0;
const HEAD_CORES: usize = 4;

/// Bytes of the head, and of each slot after it: not less than a cache line of any processor.
const HEAD_BYTES: usize = 64;
const SLOT_BYTES: usize = 64;

/// Offsets in a slot, in bytes.
const SEQUENCE: usize = 0;
const COMPLETED: usize = 8;
const TIMESTAMP: usize = 16;
const DROPPED: usize = 24;

const _: () = assert!(HEAD_BYTES + MAX_CORES * SLOT_BYTES <= PAGE_SIZE);

/// The page of one process. Its lock is a leaf.
#[pin_data]
pub(crate) struct CompletionPage {
    pages: Pages,
    /// By core, number of the newest job.
    submitted: [Atomic<u64>; MAX_CORES],
    /// By core, the slot's sequence number.
    #[pin]
    sequences: SpinLock<[u32; MAX_CORES]>,
}

impl CompletionPage {
    /// A page without ended jobs.
    pub(crate) fn new(dev: &dma::Device) -> Result<Arc<Self>> {
        let pages = Pages::allocate(dev, 1, |_| {})?;
        pages.poke(HEAD_VERSION, VERSION);
        // CAST: a few.
        pages.poke(HEAD_CORES, MAX_CORES as u32);
        Ok(Arc::pin_init(
            pin_init!(Self {
                pages,
                submitted: [const { Atomic::new(0) }; MAX_CORES],
                sequences <- new_spinlock!([0; MAX_CORES], "galcore completion page"),
            }),
            sys::GFP_CLIENT,
        )?)
    }

    /// Counts a job of core `core`. Called in the ring's order, under the tables' lock.
    pub(crate) fn count(&self, core: usize) {
        self.submitted[core].fetch_add(1, Relaxed);
    }

    /// The number of the newest job of core `core`.
    pub(crate) fn newest(&self, core: usize) -> u64 {
        self.submitted[core].load(Relaxed)
    }

    /// Shows that job `number` of core `core` has ended now with `outcome`.
    pub(crate) fn show(&self, core: usize, number: u64, outcome: Outcome) {
        let slot = HEAD_BYTES + core * SLOT_BYTES;
        let mut sequences = self.sequences.lock();
        let sequence = &mut sequences[core];
        *sequence = sequence.wrapping_add(1);
        let now = sys::monotonic_ns();
        self.pages.poke(slot + SEQUENCE, *sequence);
        sys::barrier::smp_write();
        let poke = |at, value: u64| {
            // CAST: the two halves.
            self.pages.poke(slot + at, value as u32);
            self.pages.poke(slot + at + 4, (value >> 32) as u32);
        };
        poke(COMPLETED, number);
        poke(TIMESTAMP, now);
        if outcome == Outcome::Dropped {
            poke(DROPPED, number);
        }
        sys::barrier::smp_write();
        *sequence = sequence.wrapping_add(1);
        self.pages.poke(slot + SEQUENCE, *sequence);
    }
}

impl Mappable for CompletionPage {
    type Memory = Pages;

    fn memory(&self) -> &Pages {
        &self.pages
    }
}

/// The completion page. The first call makes it.
pub(super) fn ask_for_completion(
    process: &Process,
) -> Result<Arc<CompletionPage>, kernel::error::Error> {
    let page = CompletionPage::new(process.device.memory().owner()).map_err(|_| ENOMEM)?;
    // The lock, because only one thread at a time may populate it.
    let tables = process.tables();
    process.completion.populate(page);
    let page = process.completion().cloned();
    drop(tables);
    page.ok_or(ENOMEM)
}

impl Process {
    /// The completion page, if the process has asked for it.
    #[inline]
    pub(super) fn completion(&self) -> Option<&Arc<CompletionPage>> {
        self.completion.as_ref()
    }
}
