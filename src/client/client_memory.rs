// SPDX-License-Identifier: GPL-2.0-only

//! Memory of any kind that the GPU or user space can access.
//!
//! [`ClientMemory`] is made before a handle names the memory. It then has all that its end needs.
//! The end has a fixed order: its holder removes it from the process's tables; it is removed from
//! all windows; after the GPU's last use, it is unmapped from the process's own MMU tables, if
//! there are any. If an error path drops it, all of this happens, too.

use super::Process;
use crate::{
    memory::{
        Buffer,
        Node,
        UserMemory, //
    },
    mmu::{
        Contents,
        Extent,
        GpuView, //
    },
    prelude::*,
    ring::{
        PoolPart, //
        Reclaimer,
        Retirable,
        Retired,
    }, //
};
use core::ops::Deref;
use kernel::list::ListArc;

impl Retirable for Node {
    fn bytes(&self) -> usize {
        Node::bytes(self)
    }
}

impl Retirable for Buffer {
    fn bytes(&self) -> usize {
        Buffer::bytes(self)
    }
}

impl Retirable for UserMemory {
    fn bytes(&self) -> usize {
        UserMemory::bytes(self)
    }
}

/// Memory of a client.
pub(super) trait Reachable: Retirable + Sized + 'static {
    /// Its offset and size in the pool, in bytes, if it is there.
    fn in_pool(&self) -> Option<(usize, usize)> {
        None
    }

    /// How a process's own MMU tables map it. `None`: all tables map it, or none do.
    fn extent(&self) -> Option<Extent<'_>>;

    /// GPU address of its first byte, if the process's own MMU tables map it at `view`.
    fn address_at(&self, view: Option<u32>) -> u32;
}

impl Reachable for Node {
    fn in_pool(&self) -> Option<(usize, usize)> {
        self.pool_range()
    }

    fn extent(&self) -> Option<Extent<'_>> {
        Node::extent(self)
    }

    fn address_at(&self, view: Option<u32>) -> u32 {
        Node::address_at(self, view)
    }
}

impl Reachable for Buffer {
    fn extent(&self) -> Option<Extent<'_>> {
        Some(Buffer::extent(self, Contents::Clients))
    }

    fn address_at(&self, _view: Option<u32>) -> u32 {
        Buffer::address(self)
    }
}

impl Reachable for UserMemory {
    fn extent(&self) -> Option<Extent<'_>> {
        Some(UserMemory::extent(self))
    }

    fn address_at(&self, view: Option<u32>) -> u32 {
        UserMemory::address_at(self, view)
    }
}

/// Memory that the GPU can or will access, and that may be in the process's windows.
pub(super) struct ClientMemory<T> {
    object: Arc<T>,
    reclaimer: Arc<Reclaimer>,
    /// What its end needs. `None` only during a drop.
    retired: Option<ListArc<Retired>>,
}

impl<T: Reachable> ClientMemory<T> {
    /// Prepares `object` for `process`. No handle may name it yet. Drops it on error.
    /// `OutOfResources`: the process has no addresses for it. `OutOfMemory`.
    pub(super) fn new(object: Arc<T>, process: &Process) -> Result<Self> {
        let in_pool = object.in_pool().map(|range| PoolPart {
            revoker: process.revoker.clone(),
            range,
        });
        let place = process
            .space()
            .and_then(|space| Some((space, object.extent()?)));
        let view = place.map(|(space, extent)| GpuView::new(space, &extent, object.clone()));
        let view = view.transpose()?;
        let retired = Retired::new(object.clone(), in_pool, view)?;
        Ok(Self {
            object,
            reclaimer: process.device.reclaimer().clone(),
            retired: Some(retired),
        })
    }
}

/// Whether the process may still have addresses for `bytes` bytes of pages.
pub(super) fn has_room(process: &Process, bytes: u32) -> bool {
    // CAST: 32 bits into at least 32.
    process
        .space()
        .is_none_or(|space| space.has_room(bytes as usize))
}

impl<T: Reachable> ClientMemory<T> {
    /// GPU address of its first byte in the process.
    #[inline]
    pub(super) fn address(&self) -> u32 {
        let retired = self.retired.as_ref();
        self.object
            .address_at(retired.and_then(|retired| retired.view_address()))
    }
}

impl<T> ClientMemory<T> {
    /// Notes its removal from the process's addresses. `shown`: windows may show it.
    pub(super) fn leaves_addresses(&self, shown: bool) {
        if let (true, Some(retired)) = (shown, &self.retired) {
            retired.leaves_windows();
        }
    }

    /// Ends it in the calling thread, unless that is killed. If the GPU is idle, small memory is
    /// free when this returns. The caller holds no lock.
    pub(super) fn end_here(mut self) {
        if let Some(retired) = self.retired.take() {
            self.reclaimer.retire_here(retired);
        }
    }

    /// Ends it. The GPU must have ended its use, and no window may show it.
    pub(super) fn release(mut self) {
        drop(self.retired.take());
    }
}

impl<T> Drop for ClientMemory<T> {
    fn drop(&mut self) {
        if let Some(retired) = self.retired.take() {
            self.reclaimer.retire(retired);
        }
    }
}

impl<T> Deref for ClientMemory<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}
