// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of an address space, which a drop ends, and their trace events. Also scattered pages
//! that the MMU maps or will map, and the allocator of their addresses.

use super::{
    stale::Stale,
    Kept,
    Vm,
    FIRST_PAGE,
    FREE_PAGES,
    PAGE_BITS, //
};
use crate::{
    prelude::*,
    ranges::Ranges,
    sys::{
        pages::{
            Pages,
            Sync, //
        },
        trace,
        vma::Mappable, //
    }, //
};

/// GPU addresses that lead to memory, until this is dropped.
pub(crate) struct Mapped {
    vm: Arc<Vm>,
    /// The process that has made the mapping, for traces.
    process: i32,
    /// The record for the end. `None` only during a drop.
    stale: Option<ListArc<Stale<Kept>>>,
}

impl Mapped {
    /// A mapping by the calling process. `stale` is the record for its end.
    pub(super) fn new(vm: &Arc<Vm>, stale: ListArc<Stale<Kept>>) -> Self {
        let process = trace::process();
        trace::Map::record(|| trace::Map {
            process,
            address: address(&stale),
            bytes: bytes(&stale),
        });
        Self {
            vm: vm.clone(),
            process,
            stale: Some(stale),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(stale) = self.stale.take() {
            trace::Unmap::record(|| trace::Unmap {
                process: self.process,
                address: address(&stale),
                bytes: bytes(&stale),
            });
            self.vm.unmap(stale);
        }
    }
}

pub(super) fn address(stale: &Stale<Kept>) -> u32 {
    // CAST: less than 2^20 pages.
    (stale.first() as u32) << PAGE_BITS
}

pub(super) fn bytes(stale: &Stale<Kept>) -> u64 {
    usize_as_u64(stale.count) << PAGE_BITS
}

/// Pages that the GPU can reach at consecutive addresses, until this is dropped.
pub(crate) struct Mapping {
    /// The mapping at the address that all tables use if they can. `None`: each process's tables
    /// map the pages at their own address, with a [`super::GpuView`].
    mapped: Option<Mapped>,
    backing: Arc<Paged>,
}

impl Mapping {
    pub(super) fn new(vm: &Arc<Vm>, backing: Arc<Paged>, stale: ListArc<Stale<Kept>>) -> Self {
        Self {
            mapped: Some(Mapped::new(vm, stale)),
            backing,
        }
    }

    /// Pages that each process maps at its own address.
    pub(super) fn of_views(backing: Arc<Paged>) -> Self {
        Self {
            mapped: None,
            backing,
        }
    }

    /// GPU address of the first page: the one that all tables use if they can.
    pub(crate) fn address(&self) -> Option<u32> {
        let stale = self.mapped.as_ref()?.stale.as_ref()?;
        Some(address(stale))
    }

    /// The pages.
    pub(crate) fn backing(&self) -> &Arc<Paged> {
        &self.backing
    }
}

/// Bytes of live objects of one kind.
#[derive(Clone)]
pub(crate) struct Counter(Arc<Atomic<usize>>);

impl Counter {
    /// A counter at 0. `OutOfMemory`.
    pub(crate) fn new() -> kernel::error::Result<Self> {
        Ok(Self(Arc::new(
            Atomic::new(0),
            kernel::alloc::flags::GFP_KERNEL,
        )?))
    }

    /// Counts `bytes` more.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` less.
    pub(crate) fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    /// The counted bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Pages that the MMU maps. While they live, a counter includes their bytes.
pub(crate) struct Paged {
    pages: Pages,
    counter: Option<Counter>,
}

impl Paged {
    /// `pages`, whose bytes are in `counter` until they are dropped.
    pub(crate) fn new(pages: Pages, counter: Option<&Counter>) -> Self {
        if let Some(counter) = counter {
            counter.add(pages.size());
        }
        Self {
            pages,
            counter: counter.cloned(),
        }
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.size()
    }

    /// The file offset with which its owner maps it: the bus address of the first page. It is
    /// unique among live objects.
    pub(crate) fn file_offset(&self) -> u64 {
        let first = self.pages.dma_addresses().first();
        first.map_or(0, |&page| sys::widen(page))
    }

    /// Synchronizes a range for the device or for the CPU: see [`Pages::sync`].
    pub(crate) fn sync(&self, offset: usize, bytes: usize, direction: Sync) {
        self.pages.sync(offset, bytes, direction);
    }
}

impl Mappable for Paged {
    type Memory = Pages;

    fn memory(&self) -> &Pages {
        &self.pages
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.remove(self.pages.size());
        }
    }
}

/// Allocates addresses with bit 31 set.
pub(super) struct HighPages {
    pub(super) free: Ranges,
    pub(super) used: usize,
}

impl HighPages {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            free: Ranges::new(FIRST_PAGE, FREE_PAGES)?,
            used: 0,
        })
    }

    /// Allocates `count` pages, returns the first. `OutOfResources`: no free range, or no memory.
    pub(super) fn take(&mut self, count: usize) -> Result<usize> {
        let first = self.free.find(count, 1).ok_or(Error::OutOfResources)?;
        self.take_at(first, count)
    }

    /// As [`HighPages::take`], from page `wanted` on if that is free.
    pub(super) fn take_near(&mut self, wanted: Option<usize>, count: usize) -> Result<usize> {
        match wanted.filter(|&first| self.free.free_at(first) >= count) {
            Some(first) => self.take_at(first, count),
            None => self.take(count),
        }
    }

    fn take_at(&mut self, first: usize, count: usize) -> Result<usize> {
        self.free.reserve().map_err(|_| Error::OutOfResources)?;
        self.free.take(first, count);
        self.used += count;
        Ok(first)
    }

    pub(super) fn give(&mut self, first: usize, count: usize) {
        self.used -= count;
        self.free.give(first, count);
    }
}
