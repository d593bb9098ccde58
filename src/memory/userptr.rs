// SPDX-License-Identifier: GPL-2.0-only

//! User memory and dma-bufs, mapped for the GPU.

use crate::{
    mmu::{
        Extent,
        Mapping, //
    },
    prelude::*,
    sys::pages::Sync, //
};

/// A range of user memory, or a dma-buf, mapped for the GPU.
pub(crate) struct UserMemory {
    pub(super) mapping: Mapping,
    /// The offset of the range in its first page.
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// Its address in the process. A dma-buf has none.
    pub(super) user: Option<usize>,
    /// A stream has used the range.
    pub(super) is_used: Atomic<bool>,
}

impl UserMemory {
    /// The range's place for the GPU.
    pub(crate) fn extent(&self) -> Extent<'_> {
        Extent::Pages(&self.mapping)
    }

    /// GPU address of the first byte. `view` is the address of the first page in the process's own
    /// tables, if these map it.
    pub(crate) fn address_at(&self, view: Option<u32>) -> u32 {
        let first = view.or(self.mapping.address()).unwrap_or(0);
        // CAST: less than a page.
        first + self.offset as u32
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its address in the process. `None`: it is a dma-buf.
    pub(crate) fn user(&self) -> Option<usize> {
        self.user
    }

    /// Whether it is user memory, not a dma-buf.
    pub(crate) fn is_users(&self) -> bool {
        self.user.is_some()
    }

    /// Whether all `bytes` from user address `user` on are in this range.
    pub(crate) fn contains(&self, user: usize, bytes: usize) -> bool {
        self.user
            .and_then(|start| user.checked_sub(start))
            .and_then(|at| at.checked_add(bytes))
            .is_some_and(|end| end <= self.bytes)
    }

    /// Whether the GPU may write to it.
    pub(crate) fn is_writeable(&self) -> bool {
        self.mapping.backing().pages().is_writeable()
    }

    /// Whether a stream has used it.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// Notes that a stream uses it.
    pub(crate) fn note_use(&self) {
        self.is_used.store(true, Relaxed);
    }

    /// Copies from byte `offset` to `to`.
    pub(super) fn copy(&self, offset: usize, to: &mut [u8]) -> kernel::error::Result {
        let pages = self.mapping.backing().pages();
        pages.copy(self.offset + offset, to)
    }

    pub(super) fn write(&self, offset: usize, word: u32) {
        let pages = self.mapping.backing().pages();
        pages.write(self.offset + offset, word);
    }

    /// Synchronizes about the next `bytes` bytes for the CPU. Returns whether more are left: see
    /// [`crate::sys::pages::Pages::give_back`].
    pub(crate) fn give_back(&self, bytes: usize) -> bool {
        self.mapping.backing().pages().give_back(bytes)
    }

    /// Synchronizes the caches for `bytes` from user address `user` on, which are in this range.
    pub(crate) fn sync(&self, user: usize, bytes: usize, direction: Sync) {
        if let Some(at) = self.user.and_then(|start| user.checked_sub(start)) {
            let backing = self.mapping.backing();
            backing.sync(self.offset + at, bytes, direction);
        }
    }
}
