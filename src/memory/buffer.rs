// SPDX-License-Identifier: GPL-2.0-only

//! Contiguous buffers.

use crate::{
    mmu::{
        Contents,
        Counter,
        Extent,
        GpuView,
        Mapped, //
    },
    sys::{
        dma::DmaBuffer,
        vma::Mappable, //
    }, //
};
use kernel::sync::Arc;

/// A contiguous buffer.
pub(crate) struct Buffer {
    pub(super) memory: Arc<DmaBuffer>,
    pub(super) address: u32,
    pub(super) counter: Counter,
    /// Its mapping in the MMU's common tables. It keeps the memory while translations exist.
    pub(super) _mapping: Option<Mapped>,
    /// Its mapping in the tables of one process, if nothing else keeps it there.
    pub(super) _view: Option<GpuView>,
}

impl Buffer {
    /// The buffer's place for the GPU, with these contents.
    pub(crate) fn extent(&self, contents: Contents) -> Extent<'_> {
        Extent::Linear {
            address: self.address,
            bytes: self.memory.size(),
            contents,
        }
    }

    /// GPU address of the first byte.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Its size, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size()
    }

    pub(super) fn write(&self, offset: usize, word: u32) {
        // The caller has checked the offset.
        let _ = self.memory.write(offset, word);
    }

    pub(super) fn read(&self, offset: usize) -> Option<u32> {
        self.memory.read(offset).ok()
    }

    /// The file offset with which its owner maps it: its DMA address, unique among live buffers.
    pub(crate) fn file_offset(&self) -> u64 {
        self.memory.dma_address()
    }
}

impl Mappable for Buffer {
    type Memory = DmaBuffer;

    fn memory(&self) -> &DmaBuffer {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.counter.remove(self.memory.size());
    }
}
