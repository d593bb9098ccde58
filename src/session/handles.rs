// SPDX-License-Identifier: GPL-2.0-only

//! Handles: small positive integers that stand for a process's objects.
//!
//! Pure logic. A number is not used again until all others have been, so that a stale one is
//! noticed. At most [`LIMIT`] objects of a kind live at once.

use crate::error::{
    Error,
    Result, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// The most objects of one kind in one process.
pub(crate) const LIMIT: usize = 1 << 14;

/// Highest handle: it must fit a signed 32-bit field.
const LAST: u32 = i32::MAX as u32;

/// An object that is out of its table for the time being, with the room to go back.
pub(crate) struct Detached<T> {
    handle: u32,
    object: T,
    room: RBTreeNodeReservation<u32, T>,
}

impl<T> Detached<T> {
    /// The object.
    pub(crate) fn get(&self) -> &T {
        &self.object
    }
}

/// Objects by handle.
pub(crate) struct Handles<T> {
    objects: RBTree<u32, T>,
    count: usize,
    next: u32,
}

impl<T> Handles<T> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            objects: RBTree::new(),
            count: 0,
            next: 1,
        }
    }

    /// Adds an object. `OutOfResources`: there are [`LIMIT`] already.
    pub(crate) fn insert(&mut self, object: T) -> Result<u32> {
        if self.count >= LIMIT {
            return Err(Error::OutOfResources);
        }
        // Ends: there are far fewer objects than numbers.
        while self.objects.get(&self.next).is_some() {
            self.advance();
        }
        let handle = self.next;
        self.objects
            .try_create_and_insert(handle, object, GFP_KERNEL)?;
        self.count += 1;
        self.advance();
        Ok(handle)
    }

    /// Adds an object under a number that is given out elsewhere. `OutOfResources`: there are
    /// [`LIMIT`] already. `InvalidData`: the number is taken.
    pub(crate) fn insert_at(&mut self, handle: u32, object: T) -> Result {
        if self.count >= LIMIT {
            return Err(Error::OutOfResources);
        }
        if self.objects.get(&handle).is_some() {
            return Err(Error::InvalidData);
        }
        self.objects
            .try_create_and_insert(handle, object, GFP_KERNEL)?;
        self.count += 1;
        Ok(())
    }

    /// The number of the first object from number `from` on, and what `look` says of it.
    pub(crate) fn first_from<R>(&self, from: u32, look: impl FnOnce(&T) -> R) -> Option<(u32, R)> {
        let cursor = self.objects.cursor_lower_bound(&from)?;
        let (&handle, object) = cursor.current();
        Some((handle, look(object)))
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn advance(&mut self) {
        self.next = if self.next >= LAST { 1 } else { self.next + 1 };
    }

    /// The object of a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        self.objects.get(&handle)
    }

    /// The object of a handle, to be changed.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.objects.get_mut(&handle)
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        let object = self.objects.remove(&handle)?;
        self.count -= 1;
        Some(object)
    }

    /// Takes an object out so that it can be put back without memory. `NotFound`: unknown.
    pub(crate) fn detach(&mut self, handle: u32) -> Result<Detached<T>> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let object = self.remove(handle).ok_or(Error::NotFound)?;
        Ok(Detached {
            handle,
            object,
            room,
        })
    }

    /// Puts back an object that [`Handles::detach`] took out.
    pub(crate) fn put_back(&mut self, detached: Detached<T>) {
        let node = detached.room.into_node(detached.handle, detached.object);
        self.objects.insert(node);
        self.count += 1;
    }

    /// All objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values()
    }
}

#[kunit_tests(galcore_handles)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_used_again_soon() {
        let mut handles = Handles::new();
        assert_eq!(handles.insert('a'), Ok(1));
        assert_eq!(handles.remove(1), Some('a'));
        assert_eq!(handles.remove(1), None);
        assert_eq!(handles.insert('b'), Ok(2));
        assert_eq!(handles.get(2), Some(&'b'));
        assert_eq!(handles.get(0), None);
    }

    #[test]
    fn what_is_detached_can_go_back() {
        let mut handles = Handles::new();
        assert_eq!(handles.insert('a'), Ok(1));
        let detached = handles.detach(1).unwrap();
        assert_eq!((handles.get(1), *detached.get()), (None, 'a'));
        assert!(handles.detach(1).is_err());
        handles.put_back(detached);
        assert_eq!(handles.get(1), Some(&'a'));
        assert_eq!(handles.insert('b'), Ok(2));
    }

    #[test]
    fn numbers_can_be_given() {
        let mut handles = Handles::new();
        assert_eq!(handles.insert_at(7, 'a'), Ok(()));
        assert_eq!(handles.insert_at(7, 'b'), Err(Error::InvalidData));
        assert_eq!(handles.insert_at(3, 'c'), Ok(()));
        let first = |handles: &Handles<char>, from| handles.first_from(from, |&object| object);
        assert_eq!(first(&handles, 1), Some((3, 'c')));
        assert_eq!(first(&handles, 4), Some((7, 'a')));
        assert_eq!(first(&handles, 8), None);
        assert_eq!(handles.remove(7), Some('a'));
        assert_eq!(first(&handles, 4), None);
    }

    #[test]
    fn numbers_wrap_around_the_living() {
        let mut handles = Handles::new();
        assert_eq!(handles.insert(0), Ok(1));
        handles.next = LAST;
        assert_eq!(handles.insert(1), Ok(LAST));
        assert_eq!(handles.insert(2), Ok(2));
    }
}
