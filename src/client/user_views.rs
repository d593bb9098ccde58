// SPDX-License-Identifier: GPL-2.0-only

//! The views of a process's GPU memory, by user address.
//!
//! Pure logic: a tree of ranges that do not overlap. A look-up takes logarithmic time. If the
//! process unmaps a view itself, its range stays until another view overlaps it or its object ends.
//! So a caller must compare the result with the object.

use crate::prelude::*;
use kernel::rbtree::RBTree;

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
