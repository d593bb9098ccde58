// SPDX-License-Identifier: GPL-2.0-only

//! The SYSTEM pool: its memory, and the heap that allocates it.
//!
//! Lock: `galcore heap`, of level 5 of the lock order. Its holder may call the page allocator.
//!
//! The kernel's count of available memory (`si_mem_available()`) does not know about allocations in
//! progress. [`Pending`] adds them up, and refuses one that would use up the machine's reserve.

use super::{
    gpu_address,
    heap::{
        Heap,
        Span, //
    }, //
};
use crate::{
    limits,
    log::RateLimit,
    params::{
        Parameters,
        PoolSource, //
    },
    prelude::*,
    sys::{
        dma::{
            self,
            DmaBuffer, //
        },
        mmio::{
            Part,
            Reserved,
            Source, //
        }, //
    }, //
};
use ::core::cell::Cell;
use kernel::device::Device;

/// Limits lines about words that were not written.
static LOST: RateLimit = RateLimit::new();

pub(super) enum PoolMemory {
    Reserved(Reserved),
    Allocated(DmaBuffer),
}

/// Calls the method of the memory, of either kind.
macro_rules! either {
    ($this:ident.$method:ident($($argument:expr),*)) => {
        match $this {
            PoolMemory::Reserved(memory) => memory.$method($($argument),*),
            PoolMemory::Allocated(memory) => memory.$method($($argument),*),
        }
    };
}

impl PoolMemory {
    pub(super) fn bytes(&self) -> usize {
        either!(self.size())
    }

    /// Whether it is system RAM, which a hibernation image includes.
    pub(super) fn is_system_ram(&self) -> bool {
        matches!(self, PoolMemory::Allocated(_))
    }

    pub(super) fn start(&self) -> u64 {
        match self {
            PoolMemory::Reserved(memory) => sys::widen(memory.start()),
            PoolMemory::Allocated(memory) => memory.dma_address(),
        }
    }

    /// The `bytes` bytes at `offset`, if they are whole pages.
    pub(super) fn part(&self, offset: usize, bytes: usize) -> Option<Part<'_>> {
        either!(self.part(offset, bytes))
    }

    pub(super) fn write(&self, offset: usize, word: u32) {
        // The offset is inside the pool, but no memory may be left to map it.
        if let Err(error) = either!(self.write(offset, word)) {
            if LOST.allow_job(0) {
                pr_warn!("cannot write the pool's word at offset {offset:#x} ({error:?})\n");
            }
        }
    }

    pub(super) fn read(&self, offset: usize) -> kernel::error::Result<u32> {
        either!(self.read(offset))
    }

    pub(super) fn copy(&self, offset: usize, to: &mut [u8]) -> kernel::error::Result {
        either!(self.copy(offset, to))
    }

    fn fill(&self, offset: usize, bytes: usize, byte: u8) -> kernel::error::Result {
        either!(self.fill_bytes(offset, bytes, byte))
    }
}

/// Number of bytes to fill between two checks for a fatal signal.
const FILL_STEP: usize = 1 << 20;

/// Fills `span` with `byte`. `Interrupted`: the calling thread is killed. `OutOfMemory`.
pub(super) fn fill_in_steps(memory: &PoolMemory, span: &Span, byte: u8) -> Result {
    let mut done = 0;
    while done < span.bytes() {
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        let bytes = FILL_STEP.min(span.bytes() - done);
        memory.fill(span.offset() + done, bytes, byte)?;
        done += bytes;
    }
    Ok(())
}

/// The step by which the request shrinks if the allocation fails, as in the C driver.
const POOL_STEP: usize = 4 << 20;

/// Bytes for rings and clients' buffers that the pool leaves free if it takes all other memory.
const RESERVE: usize = 4 << 20;

/// Allocates the pool, or as much of it as there is memory for. Warns if the pool is smaller than
/// requested.
fn allocate_pool(dev: &Device, owner: &dma::Device, wanted: usize) -> Option<DmaBuffer> {
    let mut bytes = wanted;
    // Held until this returns, so that the pool cannot take the last memory.
    let mut reserve = None;
    loop {
        if let Ok(memory) = DmaBuffer::new(owner, bytes) {
            if bytes < wanted {
                dev_warn!(
                    dev,
                    "the pool has {} of {} KiB: reduce contiguousSize, or increase cma= or memory-region\n",
                    bytes / 1024,
                    wanted / 1024
                );
            }
            return Some(memory);
        }
        if bytes <= POOL_STEP {
            dev_warn!(
                dev,
                "no contiguous memory, so no pool: increase cma= or memory-region\n"
            );
            return None;
        }
        bytes -= POOL_STEP;
        reserve = reserve.or_else(|| DmaBuffer::new(owner, RESERVE).ok());
    }
}

/// The SYSTEM pool.
#[pin_data]
pub(super) struct SystemPool {
    pub(super) memory: PoolMemory,
    pub(super) address: u32,
    #[pin]
    pub(super) heap: Mutex<Heap>,
}

impl SystemPool {
    pub(super) fn new(
        dev: &Device,
        owner: &dma::Device,
        parameters: &Parameters,
        base_address: u32,
    ) -> kernel::error::Result<Option<Pin<KBox<Self>>>> {
        let memory = match parameters.pool {
            PoolSource::None => return Ok(None),
            PoolSource::Reserved(start, bytes) | PoolSource::Region(start, bytes) => {
                let (name, advice, source) = match parameters.pool {
                    PoolSource::Region(..) => (
                        "memory-region",
                        "mark the node no-map or reusable",
                        Source::Node(dev),
                    ),
                    _ => (
                        "contiguousBase",
                        "exclude it with mem= or a no-map reservation",
                        Source::Parameters,
                    ),
                };
                PoolMemory::Reserved(Reserved::new(start, bytes, source).inspect_err(|&error| {
                    if error == EEXIST {
                        dev_err!(
                            dev,
                            "{name} {start:#x} is memory that the kernel uses itself: {advice}\n"
                        );
                    } else if error == EBUSY {
                        dev_err!(dev, "{name} {start:#x} belongs to another driver\n");
                    } else {
                        dev_err!(dev, "{name} {start:#x} cannot be used ({error:?})\n");
                    }
                })?)
            }
            PoolSource::Allocated(bytes) => match allocate_pool(dev, owner, bytes) {
                Some(memory) => PoolMemory::Allocated(memory),
                None => return Ok(None),
            },
        };
        let address = gpu_address(memory.start(), memory.bytes(), base_address)
            .ok_or(EINVAL)
            .inspect_err(|_| {
                dev_err!(dev, "the GPU does not reach the pool: check baseAddress\n");
            })?;
        let mut heap = Heap::new(memory.bytes(), parameters.bank_size).map_err(|_| ENOMEM)?;
        if !parameters.shared_pool && !parameters.shared_nodes {
            // If memory is shared, the last owner is not the only one that may have used it.
            heap.keep_owners().map_err(|_| ENOMEM)?;
        }
        if address == 0 {
            // For clients and the command checker, GPU address 0 means no memory.
            heap.leave_out(PAGE_SIZE).map_err(|_| ENOMEM)?;
        }
        KBox::pin_init(
            pin_init!(Self {
                memory,
                address,
                heap <- new_mutex!(heap, "galcore heap"),
            }),
            GFP_KERNEL,
        )
        .map(Some)
    }
}

/// Kinds of allocations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    /// Scattered pages.
    Scattered,
    /// Contiguous pages. Mapping them can need as much memory again, and failure invokes the OOM
    /// killer. So twice the reserve is kept.
    Contiguous,
}

/// The bytes of the allocations in progress.
pub(super) struct Pending(Atomic<u64>);

impl Pending {
    /// No bytes.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Announces an allocation of `bytes`. `OutOfMemory`: together with those of other callers, it
    /// would leave the machine less than its reserve.
    pub(super) fn begin(&self, bytes: usize, pieces: Pieces) -> Result<PendingAllocation<'_>> {
        // First check it alone: a request that can never be granted must not block others.
        if !leaves_reserve(bytes, pieces) {
            return Err(Error::OutOfMemory);
        }
        let own = usize_as_u64(bytes);
        let others = self.0.fetch_add(own, Full);
        let allocation = PendingAllocation {
            all: self,
            left: Cell::new(own),
        };
        // Read the available memory last. Memory that others have allocated meanwhile then counts
        // at most twice, never zero times.
        let all = usize::try_from(others.saturating_add(own)).unwrap_or(usize::MAX);
        if leaves_reserve(all, pieces) {
            Ok(allocation)
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

/// One allocation in progress, until this is dropped.
pub(super) struct PendingAllocation<'a> {
    all: &'a Pending,
    /// The bytes that are not allocated yet.
    left: Cell<u64>,
}

impl PendingAllocation<'_> {
    /// Subtracts `bytes` that are allocated now: the available memory no longer includes them.
    pub(super) fn allocated(&self, bytes: usize) {
        let done = self.left.get().min(usize_as_u64(bytes));
        self.left.set(self.left.get() - done);
        self.all.0.fetch_sub(done, Full);
    }
}

impl Drop for PendingAllocation<'_> {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.left.get(), Full);
    }
}
