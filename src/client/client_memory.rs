// SPDX-License-Identifier: GPL-2.0-only

//! Memory of any kind that the GPU or user space can access.
//!
//! [`ClientMemory`] is made before a handle names the memory. It then has all that its end needs.
//! The end has a fixed order: its holder removes it from the process's tables; it is removed from
//! all windows; after the GPU's last use, it is unmapped from the process's own MMU tables, if
//! there are any. If an error path drops it, all of this happens, too.
//!
//! The views of a process's GPU memory, by user address.
//!
//! They are a tree of ranges that do not overlap. A look-up takes logarithmic time. If the
//! process unmaps a view itself, its range stays until another view overlaps it or its object ends.
//! So a caller must compare the result with the object.

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
        PoolPart,
        Reclaimer,
        Retirable,
        Retired, //
    }, //
};
use core::ops::Deref;

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
            reclaimer: process.device.reclaimer.clone(),
            retired: Some(retired),
        })
    }
}

/// Whether the process may still have addresses for `bytes` bytes of pages.
pub(super) fn has_room(process: &Process, bytes: u32) -> bool {
    process
        .space()
        .is_none_or(|space| space.has_room(u32_as_usize(bytes)))
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
            self.reclaimer.retire(None, retired);
        }
    }
}

impl<T> Deref for ClientMemory<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}

/// The object of a view, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Viewed {
    Buffer(u32),
    /// A node that is not in the pool.
    Node(u32),
}

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserView {
    /// User address of its first byte.
    pub(super) start: usize,
    pub(super) bytes: usize,
    /// The object that it shows.
    pub(super) of: Viewed,
}

impl UserView {
    fn end(&self) -> usize {
        self.start.saturating_add(self.bytes)
    }
}

/// The views of a process.
pub(super) struct UserViews(RBTree<usize, UserView>);

impl UserViews {
    pub(super) fn new() -> Self {
        Self(RBTree::new())
    }

    /// The last view that begins at `user` or before.
    fn at_or_before(&self, user: usize) -> Option<UserView> {
        let Some(cursor) = self.0.cursor_lower_bound(&user) else {
            return self.0.cursor_back().map(|last| *last.current().1);
        };
        match cursor.current() {
            (&start, view) if start == user => Some(*view),
            _ => cursor.peek_prev().map(|(_, view)| *view),
        }
    }

    /// Adds a view. Removes overlapping views, because the process must have unmapped them. Removes
    /// them even on `OutOfMemory`.
    pub(super) fn insert(&mut self, view: UserView) -> Result {
        // Bounded: each round removes a view.
        while let Some(old) = self.at_or_before(view.end().saturating_sub(1)) {
            if old.end() <= view.start {
                break;
            }
            let _ = self.0.remove(&old.start);
        }
        self.0
            .try_create_and_insert(view.start, view, crate::sys::GFP_CLIENT)?;
        Ok(())
    }

    /// Removes the view of `of` at `start`, if it exists.
    pub(super) fn remove(&mut self, start: usize, of: Viewed) {
        if self.0.get(&start).is_some_and(|view| view.of == of) {
            let _ = self.0.remove(&start);
        }
    }

    /// The handle of the node that is mapped at `user`. 0: there is none.
    pub(super) fn node_at(&self, user: usize) -> u32 {
        match self.find(user).map(|view| view.of) {
            Some(Viewed::Node(handle)) => handle,
            _ => 0,
        }
    }

    /// The view that contains `user`.
    pub(super) fn find(&self, user: usize) -> Option<UserView> {
        self.at_or_before(user).filter(|view| user < view.end())
    }
}

/// Bytes from `user` to the end of the `bytes` bytes at `start`, if `user` lies in them.
pub(super) fn left_of(start: usize, bytes: usize, user: usize) -> Option<usize> {
    let at = user.checked_sub(start)?;
    bytes.checked_sub(at).filter(|&left| left > 0)
}

#[kunit_tests(galcore_user_views)]
mod tests {
    use super::*;

    fn view(start: usize, bytes: usize, handle: u32) -> UserView {
        UserView {
            start,
            bytes,
            of: Viewed::Node(handle),
        }
    }

    #[test]
    fn a_view_is_found_by_any_of_its_addresses() {
        let mut views = UserViews::new();
        assert_eq!(views.find(0x1000), None);
        for (start, handle) in [(0x5000, 1), (0x1000, 2), (0x3000, 3)] {
            assert!(views.insert(view(start, 0x1000, handle)).is_ok());
        }
        assert_eq!(views.find(0xFFF), None);
        assert_eq!(views.find(0x1000), Some(view(0x1000, 0x1000, 2)));
        assert_eq!(views.find(0x1FFF), Some(view(0x1000, 0x1000, 2)));
        assert_eq!(views.find(0x2000), None);
        assert_eq!(views.find(0x5FFF), Some(view(0x5000, 0x1000, 1)));
        assert_eq!(views.find(0x6000), None);
        assert_eq!(views.find(usize::MAX), None);
    }

    #[test]
    fn a_new_view_takes_the_place_of_old_ones() {
        let mut views = UserViews::new();
        for (start, handle) in [(0x1000, 1), (0x2000, 2), (0x3000, 3), (0x4000, 4)] {
            assert!(views.insert(view(start, 0x1000, handle)).is_ok());
        }
        assert!(views.insert(view(0x1800, 0x2000, 5)).is_ok());
        assert_eq!(views.find(0x1000), None);
        assert_eq!(views.find(0x1800), Some(view(0x1800, 0x2000, 5)));
        assert_eq!(views.find(0x3800), None);
        assert_eq!(views.find(0x4000), Some(view(0x4000, 0x1000, 4)));
        // A view inside a larger one also replaces it.
        assert!(views.insert(view(0x2000, 0x100, 6)).is_ok());
        assert_eq!(views.find(0x1800), None);
        assert_eq!(views.find(0x20FF), Some(view(0x2000, 0x100, 6)));
    }

    #[test]
    fn only_its_own_view_is_forgotten() {
        let mut views = UserViews::new();
        assert!(views.insert(view(0x1000, 0x1000, 1)).is_ok());
        views.remove(0x1000, Viewed::Buffer(1));
        views.remove(0x1800, Viewed::Node(1));
        assert!(views.find(0x1000).is_some());
        views.remove(0x1000, Viewed::Node(1));
        assert!(views.find(0x1000).is_none());
    }

    #[test]
    fn the_last_address_does_not_wrap() {
        let mut views = UserViews::new();
        let last = usize::MAX - 0xFFF;
        assert!(views.insert(view(last, 0x1000, 1)).is_ok());
        assert!(views.insert(view(0, 0x1000, 2)).is_ok());
        assert_eq!(views.find(last), Some(view(last, 0x1000, 1)));
        assert_eq!(views.find(0), Some(view(0, 0x1000, 2)));
    }
}
