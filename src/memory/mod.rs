// SPDX-License-Identifier: GPL-2.0-only

//! Memory that clients place things in: the pool, its nodes, and contiguous buffers.
//!
//! Owns the pool and its [`Heap`], whose mutex is a leaf lock but for the allocator. Every piece is
//! zeroed before anybody sees it, and gives itself back when its last reference goes: the table's,
//! the GPU's ([`crate::command::Ring::retire`]) or a mapping's.

mod heap;
pub(crate) mod ranges;

use crate::{
    error::{
        Error,
        Result, //
    },
    params::{
        Parameters,
        PoolSource,
        LINEAR_WINDOW, //
    },
    sys::{
        self,
        dma::DmaBuffer,
        physical::Reserved,
        vma::Mappable, //
    },
};
use heap::{
    Heap,
    Span,
    SurfaceType, //
};
use kernel::{
    device,
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// The address by which the GPU reaches physical address `physical` without its MMU, if it does.
pub(crate) fn gpu_address(physical: u64, base_address: u32) -> Option<u32> {
    let address = physical.checked_sub(u64::from(base_address))?;
    if address < LINEAR_WINDOW {
        u32::try_from(address).ok()
    } else {
        None
    }
}

/// Where a surface is to lie, or lies (`gcePOOL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The pool.
    System,
    /// Pages of its own, physically contiguous.
    Contiguous,
}

impl Pool {
    /// The interface's number.
    pub(crate) fn number(self) -> u32 {
        match self {
            Pool::System => 6,
            Pool::Contiguous => 9,
        }
    }

    /// The pools that a request for pool `number` tries, in order. Those that no board has (on-chip
    /// memory) and the page-wise one, which does not exist yet, are left out.
    fn walk(number: u32) -> &'static [Pool] {
        match number {
            // DEFAULT, LOCAL, UNIFIED, DEFAULT_FORCE_CONTIGUOUS.
            1 | 2 | 5 | 10 => &[Pool::System, Pool::Contiguous],
            6 => &[Pool::System],
            9 => &[Pool::Contiguous],
            _ => &[],
        }
    }
}

/// Bytes in use, for `/proc/driver/gc`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Of the pool.
    pub(crate) pool: usize,
    /// Contiguous buffers and nodes outside the pool.
    pub(crate) contiguous: usize,
}

/// A contiguous buffer.
pub(crate) struct Buffer {
    memory: DmaBuffer,
    address: u32,
    owner: Arc<Counter>,
}

impl Buffer {
    /// GPU address of its first byte.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size()
    }

    /// The file offset by which its owner maps it: its DMA address, unique among live buffers.
    pub(crate) fn file_offset(&self) -> u64 {
        self.memory.dma_address()
    }
}

impl Mappable for Buffer {
    fn memory(&self) -> &DmaBuffer {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.owner.0.fetch_sub(self.memory.size(), Relaxed);
    }
}

/// Bytes of live contiguous buffers.
struct Counter(Atomic<usize>);

enum Place {
    Pool(Span),
    Pages(Arc<Buffer>),
}

/// A video memory node.
pub(crate) struct Node {
    memory: Arc<VideoMemory>,
    /// `None` only while being dropped.
    place: Option<Place>,
}

/// How a node's owner sees it in its own memory.
pub(crate) enum View {
    /// At this offset of the pool's mapping.
    Pool(usize),
    /// As a buffer that needs a mapping of its own.
    Pages(Arc<Buffer>),
}

impl Node {
    /// Where it lies.
    pub(crate) fn pool(&self) -> Pool {
        match self.place {
            Some(Place::Pages(_)) => Pool::Contiguous,
            _ => Pool::System,
        }
    }

    /// GPU address of its first byte.
    pub(crate) fn address(&self) -> u32 {
        match &self.place {
            Some(Place::Pages(buffer)) => buffer.address(),
            // CAST: the pool lies below 2 GiB of GPU addresses, checked when it was made.
            Some(Place::Pool(span)) => self.memory.pool_address() + span.offset() as u32,
            None => 0,
        }
    }

    /// How its owner sees it.
    pub(crate) fn view(&self) -> View {
        match &self.place {
            Some(Place::Pages(buffer)) => View::Pages(buffer.clone()),
            Some(Place::Pool(span)) => View::Pool(span.offset()),
            None => View::Pool(0),
        }
    }

    /// Its bytes' offset in the pool and their number, if it lies there.
    pub(crate) fn pool_range(&self) -> Option<(usize, usize)> {
        match &self.place {
            Some(Place::Pool(span)) => Some((span.offset(), span.bytes())),
            _ => None,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(Place::Pool(span)) = self.place.take() {
            if let Some(pool) = &self.memory.pool {
                pool.heap.lock().free(span);
            }
        }
    }
}

enum PoolMemory {
    Reserved(Reserved),
    Allocated(DmaBuffer),
}

impl PoolMemory {
    fn bytes(&self) -> usize {
        match self {
            PoolMemory::Reserved(memory) => memory.size(),
            PoolMemory::Allocated(memory) => memory.size(),
        }
    }

    fn start(&self) -> u64 {
        match self {
            PoolMemory::Reserved(memory) => sys::widen(memory.start()),
            PoolMemory::Allocated(memory) => memory.dma_address(),
        }
    }

    fn zero(&self, offset: usize, bytes: usize) -> kernel::error::Result {
        match self {
            PoolMemory::Reserved(memory) => memory.zero(offset, bytes),
            PoolMemory::Allocated(memory) => memory.zero(offset, bytes),
        }
    }
}

/// The SYSTEM pool.
#[pin_data]
struct SystemPool {
    memory: PoolMemory,
    address: u32,
    #[pin]
    heap: Mutex<Heap>,
}

impl SystemPool {
    fn new(
        dev: &device::Device,
        parameters: &Parameters,
    ) -> kernel::error::Result<Option<Pin<KBox<Self>>>> {
        let memory = match parameters.pool {
            PoolSource::None => return Ok(None),
            PoolSource::Reserved(start, bytes) => {
                PoolMemory::Reserved(Reserved::new(start, bytes).inspect_err(|&error| {
                    if error == EADDRINUSE {
                        dev_err!(
                            dev,
                            "contiguousBase {start:#x} is memory that the kernel uses itself: keep it out with mem= or a no-map reservation\n"
                        );
                    } else {
                        dev_err!(dev, "contiguousBase {start:#x} belongs to another driver\n");
                    }
                })?)
            }
            PoolSource::Allocated(bytes) => {
                PoolMemory::Allocated(DmaBuffer::new(dev, bytes).inspect_err(|_| {
                    dev_err!(
                        dev,
                        "no {} KiB of contiguous memory: give less contiguousSize or more cma=\n",
                        bytes / 1024
                    );
                })?)
            }
        };
        let address = gpu_address(memory.start(), parameters.base_address)
            .ok_or(EINVAL)
            .inspect_err(|_| {
                dev_err!(dev, "the GPU does not reach the pool: check baseAddress\n");
            })?;
        let heap = Heap::new(memory.bytes(), parameters.bank_size).map_err(|_| ENOMEM)?;
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

/// All memory that one device hands out.
pub(crate) struct VideoMemory {
    dev: ARef<device::Device>,
    base_address: u32,
    pool: Option<Pin<KBox<SystemPool>>>,
    contiguous: Arc<Counter>,
}

impl VideoMemory {
    /// Sets the pool up. Every failure has been printed.
    pub(crate) fn new(
        dev: &device::Device,
        parameters: &Parameters,
    ) -> kernel::error::Result<Arc<Self>> {
        let this = Self {
            dev: dev.into(),
            base_address: parameters.base_address,
            pool: SystemPool::new(dev, parameters)?,
            contiguous: Arc::new(Counter(Atomic::new(0)), GFP_KERNEL)?,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Bytes of the pool; 0: there is none.
    pub(crate) fn pool_bytes(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.memory.bytes())
    }

    /// GPU address of the pool's first byte; 0 without a pool.
    fn pool_address(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.address)
    }

    /// What is in use.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            pool: self.pool.as_ref().map_or(0, |pool| {
                let heap = pool.heap.lock();
                heap.total_bytes() - heap.free_bytes()
            }),
            contiguous: self.contiguous.0.load(Relaxed),
        }
    }

    /// Maps the pool's start into `area`. `EINVAL`: no pool, or the area is longer.
    pub(crate) fn map_pool(&self, area: &VmaNew) -> kernel::error::Result {
        match self.pool.as_ref().map(|pool| &pool.memory) {
            None => Err(EINVAL),
            Some(PoolMemory::Reserved(memory)) => sys::vma::map_reserved(area, memory),
            Some(PoolMemory::Allocated(memory)) => sys::vma::map_lasting(area, memory),
        }
    }

    /// Allocates a contiguous buffer of at least `bytes`, zeroed.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: none that the GPU reaches.
    pub(crate) fn allocate_buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        if bytes > LINEAR_WINDOW {
            return Err(Error::OutOfMemory);
        }
        let bytes = usize::try_from(bytes)
            .ok()
            .and_then(sys::page_align)
            .ok_or(Error::OutOfMemory)?;
        let memory = DmaBuffer::new(&self.dev, bytes)?;
        let address =
            gpu_address(memory.dma_address(), self.base_address).ok_or(Error::OutOfMemory)?;
        self.contiguous.0.fetch_add(bytes, Relaxed);
        let buffer = Buffer {
            memory,
            address,
            owner: self.contiguous.clone(),
        };
        Ok(Arc::new(buffer, GFP_KERNEL)?)
    }

    /// Allocates a node of at least `bytes` in the first of pool `pool`'s pools that has them.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: no pool has them.
    pub(crate) fn allocate_node(
        self: &Arc<Self>,
        bytes: u32,
        alignment: u32,
        kind: u32,
        pool: u32,
    ) -> Result<Arc<Node>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        for pool in Pool::walk(pool) {
            let place = match pool {
                Pool::System => self.allocate_in_pool(bytes, alignment, kind),
                Pool::Contiguous => self.allocate_buffer(bytes.into()).map(Place::Pages),
            };
            if let Ok(place) = place {
                let node = Node {
                    memory: self.clone(),
                    place: Some(place),
                };
                return Ok(Arc::new(node, GFP_KERNEL)?);
            }
        }
        Err(Error::OutOfMemory)
    }

    fn allocate_in_pool(&self, bytes: u32, alignment: u32, kind: u32) -> Result<Place> {
        let pool = self.pool.as_ref().ok_or(Error::OutOfMemory)?;
        let kind = SurfaceType::new(kind).ok_or(Error::InvalidArgument)?;
        // CAST: `usize` has at least 32 bits here.
        let span = pool
            .heap
            .lock()
            .allocate(bytes as usize, alignment as usize, kind)?;
        match pool.memory.zero(span.offset(), span.bytes()) {
            Ok(()) => Ok(Place::Pool(span)),
            Err(error) => {
                pool.heap.lock().free(span);
                Err(error.into())
            }
        }
    }
}
