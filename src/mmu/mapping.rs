// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of an address space, which a drop ends, and their trace events.

use super::{
    stale::Stale,
    Kept,
    Paged,
    Vm,
    PAGE_BITS, //
};
use crate::prelude::*;
use crate::sys::trace;
use kernel::list::ListArc;

struct Mapped {
    vm: Arc<Vm>,
    /// The process that has made the mapping, for traces.
    process: i32,
    /// The record for the end. `None` only during a drop.
    stale: Option<ListArc<Stale<Kept>>>,
}

impl Mapped {
    fn new(vm: &Arc<Vm>, stale: ListArc<Stale<Kept>>) -> Self {
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
    // CAST: at most 64 bits.
    (stale.count as u64) << PAGE_BITS
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

/// Contiguous memory at its own address, until this is dropped.
pub(crate) struct LinearMapping {
    _mapped: Mapped,
}

impl LinearMapping {
    /// A mapping by the calling process. `stale` is the record for its end.
    pub(super) fn new(vm: &Arc<Vm>, stale: ListArc<Stale<Kept>>) -> Self {
        Self {
            _mapped: Mapped::new(vm, stale),
        }
    }
}
