// SPDX-License-Identifier: GPL-2.0-only

//! Memory that the GPU, or user space, can reach: one object, whatever the memory is.
//!
//! A [`Visible`] is made before a handle names the memory, and with it everything that its end needs.
//! Each path ends it in the same order: it leaves the process's tables (its holder has taken it out),
//! then all windows, then waits for the GPU's last use, and leaves the process's own tables of the
//! MMU, if there are any. An error path gets all of that by dropping it.

use super::Process;
use crate::{
    error::{
        Error,
        Result, //
    },
    memory::{
        Buffer,
        Node,
        UserMemory, //
    },
    mmu::{
        Contents,
        GpuView,
        Lies, //
    },
    ring::{
        Kept,
        Reclaimer,
        Retired,
        Shown, //
    }, //
};
use core::ops::Deref;
use kernel::{
    list::ListArc,
    sync::Arc, //
};

impl Kept for Node {
    fn bytes(&self) -> usize {
        Node::bytes(self)
    }
}

impl Kept for Buffer {
    fn bytes(&self) -> usize {
        Buffer::bytes(self)
    }
}

impl Kept for UserMemory {
    fn bytes(&self) -> usize {
        UserMemory::bytes(self)
    }
}

/// Memory of a client.
pub(super) trait Reachable: Kept + Sized + 'static {
    /// Where it lies in the pool, if there: offset and bytes.
    fn in_pool(&self) -> Option<(usize, usize)> {
        None
    }

    /// Where a process's tables of the MMU lead to it; `None`: all tables do, or none.
    fn lies(&self) -> Option<Lies<'_>>;

    /// GPU address of its first byte, if the process's tables have it at `view`.
    fn address_at(&self, view: Option<u32>) -> u32;
}

impl Reachable for Node {
    fn in_pool(&self) -> Option<(usize, usize)> {
        self.pool_range()
    }

    fn lies(&self) -> Option<Lies<'_>> {
        Node::lies(self)
    }

    fn address_at(&self, view: Option<u32>) -> u32 {
        Node::address_at(self, view)
    }
}

impl Reachable for Buffer {
    fn lies(&self) -> Option<Lies<'_>> {
        Some(Buffer::lies(self, Contents::Clients))
    }

    fn address_at(&self, _view: Option<u32>) -> u32 {
        Buffer::address(self)
    }
}

impl Reachable for UserMemory {
    fn lies(&self) -> Option<Lies<'_>> {
        Some(UserMemory::lies(self))
    }

    fn address_at(&self, view: Option<u32>) -> u32 {
        UserMemory::address_at(self, view)
    }
}

/// Memory that the GPU can reach, or may soon, and that may be in the process's windows.
pub(super) struct Visible<T> {
    object: Arc<T>,
    reclaimer: Arc<Reclaimer>,
    /// What its end needs. `None` only while being dropped.
    retired: Option<ListArc<Retired>>,
}

impl<T: Reachable> Visible<T> {
    /// Prepares `object`, which no handle names yet, to be `process`'s. `OutOfResources`: the
    /// process has no addresses for it. `OutOfMemory`. Then it is dropped.
    pub(super) fn new(object: Arc<T>, process: &Process) -> Result<Self> {
        let shown = object.in_pool().map(|range| Shown {
            hider: process.hider.clone(),
            range,
        });
        let place = process
            .space()
            .and_then(|space| Some((space, object.lies()?)));
        let view = place.map(|(space, lies)| GpuView::new(space, &lies, object.clone()));
        let view = view.transpose()?;
        let retired = Retired::new(object.clone(), shown, view)?;
        Ok(Self {
            object,
            reclaimer: process.device.reclaimer().clone(),
            retired: Some(retired),
        })
    }
}

impl Process {
    /// Whether the process may have addresses for this many bytes of pages.
    pub(super) fn has_room(&self, bytes: u32) -> bool {
        // CAST: 32 bits into at least 32.
        self.space()
            .is_none_or(|space| space.has_room(bytes as usize))
    }

    /// [`Visible::new`], which `waits` for addresses to come back, if the process has none. The caller
    /// has no lock. `Interrupted`.
    pub(super) fn show<T: Reachable>(&self, object: Arc<T>, waits: bool) -> Result<Visible<T>> {
        match Visible::new(object.clone(), self) {
            Err(Error::OutOfResources) if waits => {
                self.reclaim()?;
                Visible::new(object, self)
            }
            shown => shown,
        }
    }
}

impl<T: Reachable> Visible<T> {
    /// GPU address of its first byte, for the process.
    #[inline]
    pub(super) fn address(&self) -> u32 {
        let retired = self.retired.as_ref();
        self.object
            .address_at(retired.and_then(|retired| retired.view_address()))
    }
}

impl<T> Visible<T> {
    /// It has left the process's addresses; `shown`: windows may show it.
    pub(super) fn leaves_addresses(&self, shown: bool) {
        if let (true, Some(retired)) = (shown, &self.retired) {
            retired.leaves_windows();
        }
    }

    /// Ends it by the calling thread, until that is killed: when nothing is under way, what is
    /// small is free when this returns. No lock may be held.
    pub(super) fn end_here(mut self) {
        if let Some(retired) = self.retired.take() {
            self.reclaimer.retire_here(retired);
        }
    }

    /// Ends it when the GPU does not use it any more, and no window shows it.
    pub(super) fn release(mut self) {
        drop(self.retired.take());
    }
}

impl<T> Drop for Visible<T> {
    fn drop(&mut self) {
        if let Some(retired) = self.retired.take() {
            self.reclaimer.retire(retired);
        }
    }
}

impl<T> Deref for Visible<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}
