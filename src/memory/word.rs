// SPDX-License-Identifier: GPL-2.0-only

//! Objects of clients of any kind, and words in their memory.

use super::{
    node::Place,
    pool::PoolMemory,
    Buffer,
    Node,
    UserMemory, //
};
use crate::prelude::*;

/// A word of GPU memory, by its object and offset.
pub(crate) struct Word {
    object: Object,
    offset: usize,
    /// Its GPU address.
    address: u32,
}

/// Memory of a client, of any kind.
pub(crate) enum Object {
    /// A node.
    Node(Arc<Node>),
    /// A contiguous buffer.
    Buffer(Arc<Buffer>),
    /// User memory, or a dma-buf.
    UserMemory(Arc<UserMemory>),
}

impl Object {
    /// Copies from byte `offset`, a multiple of 4, to `to`. May sleep. `EINVAL`: out of range, a
    /// framebuffer, or an imported dma-buf. `ENOMEM`.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> kernel::error::Result {
        match self {
            Object::Node(node) => node.copy(offset, to),
            Object::Buffer(buffer) => buffer.memory.copy(offset, to),
            Object::UserMemory(memory) => memory.copy(offset, to),
        }
    }

    /// The DMA address of page `index`.
    pub(crate) fn page(&self, index: usize) -> u64 {
        let mapping = match self {
            Object::Node(node) => node.mapping(),
            Object::Buffer(_) => None,
            Object::UserMemory(memory) => Some(&memory.mapping),
        };
        if let Some(mapping) = mapping {
            let pages = mapping.backing().pages().dma_addresses();
            return pages.get(index).map_or(0, |&page| sys::widen(page));
        }
        let start = match self {
            Object::Node(node) => match &node.place {
                Some(Place::Pool(span)) => {
                    let pool = node.memory.pool.as_ref();
                    pool.map_or(0, |pool| pool.memory.start() + usize_as_u64(span.offset()))
                }
                Some(Place::Pages(buffer)) => buffer.memory.dma_address(),
                _ => 0,
            },
            Object::Buffer(buffer) => buffer.memory.dma_address(),
            Object::UserMemory(_) => 0,
        };
        (start & !(usize_as_u64(PAGE_SIZE) - 1)) + usize_as_u64(index * PAGE_SIZE)
    }
}

impl Word {
    /// The word at GPU address `address`, if it is aligned and among the `bytes` of `object`, which
    /// is at `start`.
    fn at(object: Object, start: u32, bytes: usize, address: u32) -> Option<Self> {
        let offset = u32_as_usize(address.checked_sub(start)?);
        (address % 4 == 0 && offset.checked_add(4)? <= bytes).then_some(Self {
            object,
            offset,
            address,
        })
    }

    /// The word at GPU address `address`, if it is in `node`, which is at `start`, and writable.
    pub(crate) fn in_node(node: &Arc<Node>, start: u32, address: u32) -> Option<Self> {
        let backing = node.mapping().map(|mapping| mapping.backing());
        if backing.is_some_and(|backing| !backing.pages().is_writeable()) {
            return None;
        }
        Self::at(Object::Node(node.clone()), start, node.bytes(), address)
    }

    /// The word at GPU address `address`, if it is in `buffer`.
    pub(crate) fn in_buffer(buffer: &Arc<Buffer>, address: u32) -> Option<Self> {
        let object = Object::Buffer(buffer.clone());
        Self::at(object, buffer.address(), buffer.bytes(), address)
    }

    /// The word at GPU address `address`, if it is in `memory`, which is at `start`, and writable.
    pub(crate) fn in_user_memory(
        memory: &Arc<UserMemory>,
        start: u32,
        address: u32,
    ) -> Option<Self> {
        if !memory.mapping.backing().pages().is_writeable() {
            return None;
        }
        let object = Object::UserMemory(memory.clone());
        Self::at(object, start, memory.bytes, address)
    }

    /// Whether a write needs a temporary mapping, as in a reserved pool.
    pub(crate) fn is_slow(&self) -> bool {
        match &self.object {
            Object::Node(node) => {
                let pool = node.memory.pool.as_ref().map(|pool| &pool.memory);
                node.pool_range().is_some() && matches!(pool, Some(PoolMemory::Reserved(_)))
            }
            _ => false,
        }
    }

    /// The object that contains it.
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// GPU address of the word.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Reads the word. `None`: its object is not contiguous or cannot be mapped.
    pub(crate) fn read(&self) -> Option<u32> {
        match &self.object {
            Object::Node(node) => node.read(self.offset),
            Object::Buffer(buffer) => buffer.read(self.offset),
            Object::UserMemory(_) => None,
        }
    }

    /// Adds `step` to the word. Returns the sum. A concurrent write may be lost.
    pub(crate) fn count(&self, step: i32) -> Option<u32> {
        let now = self.read()?.wrapping_add_signed(step);
        self.write(now);
        Some(now)
    }

    /// Writes the word.
    pub(crate) fn write(&self, word: u32) {
        match &self.object {
            Object::Node(node) => node.write(self.offset, word),
            Object::Buffer(buffer) => buffer.write(self.offset, word),
            Object::UserMemory(memory) => memory.write(self.offset, word),
        }
    }
}
