// SPDX-License-Identifier: GPL-2.0-only

//! Names of the objects that processes pass to each other: nodes ([`super::names`]) and shared
//! buffers ([`super::shared_buffers`]).
//!
//! A name is a capability: any process that knows it may import the object. So names are random
//! 31-bit numbers (the vendor's count up), and failed look-ups are rate-limited
//! ([`super::users`]). In all generations, a node's name is a 32-bit field. A shared buffer's id
//! has 64 bits, but a 32-bit client keeps it in a pointer, and the vendor's ids are 32-bit
//! integers. A name lasts while a process or a graphic buffer ([`super::graphic_buffers`]) holds
//! it. Source: `tests/abi`; generations from 5.0.11 on.
//!
//! Lock: `galcore names`, a leaf.

use super::users::{
    self,
    Users, //
};
use crate::{
    prelude::*,
    sys, //
};
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};

/// The most attempts to find a free name.
const TRIES: usize = 64;

struct Named<T> {
    thing: Arc<T>,
    /// Number of [`Name`]s for it.
    holders: usize,
}

struct Registry<T>(RBTree<u32, Named<T>>);

impl<T> Registry<T> {
    /// Adds a thing with one holder, under the first free name that `draw` returns. 0 is no name.
    /// `OutOfResources`: all names drawn are used.
    fn insert(
        &mut self,
        room: RBTreeNodeReservation<u32, Named<T>>,
        thing: Arc<T>,
        mut draw: impl FnMut() -> u32,
    ) -> Result<u32> {
        for _ in 0..TRIES {
            let name = draw();
            if name != 0 && self.0.get(&name).is_none() {
                self.0
                    .insert(room.into_node(name, Named { thing, holders: 1 }));
                return Ok(name);
            }
        }
        Err(Error::OutOfResources)
    }

    /// Adds a holder. `NotFound`: no such name. `OutOfResources`: too many holders.
    fn hold(&mut self, name: u32) -> Result<Arc<T>> {
        let named = self.0.get_mut(&name).ok_or(Error::NotFound)?;
        named.holders = named.holders.checked_add(1).ok_or(Error::OutOfResources)?;
        Ok(named.thing.clone())
    }

    /// Removes a holder. Returns the thing if this was the last one: drop it without the lock.
    fn remove_holder(&mut self, name: u32) -> Option<Arc<T>> {
        let named = self.0.get_mut(&name)?;
        named.holders -= 1;
        match named.holders {
            0 => self.0.remove(&name).map(|named| named.thing),
            _ => None,
        }
    }
}

/// The names of a device's things of one kind.
#[pin_data]
pub(crate) struct Names<T> {
    #[pin]
    registry: Mutex<Registry<T>>,
}

impl<T> Names<T> {
    /// An empty registry.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            registry <- new_mutex!(Registry(RBTree::new()), "galcore names"),
        })
    }
}

/// A name of a thing. A process that has the thing holds it.
pub(super) struct Name<T> {
    names: Arc<Names<T>>,
    number: u32,
}

impl<T> Name<T> {
    /// A new name. `OutOfMemory`. `OutOfResources`: no free name was found.
    pub(super) fn new(names: &Arc<Names<T>>, thing: Arc<T>) -> Result<Self> {
        // 31 bits: clients keep names in signed numbers.
        let draw = || sys::random() & 0x7FFF_FFFF;
        // Without the lock: this reclaims if the process is at the limit of its memory cgroup.
        let room = RBTreeNodeReservation::new(sys::GFP_CLIENT)?;
        let number = names.registry.lock().insert(room, thing, draw)?;
        Ok(Self {
            names: names.clone(),
            number,
        })
    }

    /// Holds an existing name. Also returns its thing. `NotFound`: no such name; the calling user,
    /// one of `users`, pays for this: see [`super::users`]. `Interrupted`. The caller holds no
    /// lock.
    pub(super) fn hold(
        users: &Arc<Users>,
        names: &Arc<Names<T>>,
        number: u32,
    ) -> Result<(Self, Arc<T>)> {
        let thing = users::look_up(users, || names.registry.lock().hold(number))?;
        let names = names.clone();
        Ok((Self { names, number }, thing))
    }

    /// As [`Name::hold`], for a process that has the thing and so does not guess. `NotFound`: the
    /// thing has just ended.
    pub(super) fn hold_own(names: &Arc<Names<T>>, number: u32) -> Result<(Self, Arc<T>)> {
        let thing = names.registry.lock().hold(number)?;
        let names = names.clone();
        Ok((Self { names, number }, thing))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl<T> Drop for Name<T> {
    fn drop(&mut self) {
        let last = self.names.registry.lock().remove_holder(self.number);
        // Without the lock.
        drop(last);
    }
}

#[kunit_tests(galcore_names)]
mod tests {
    use super::*;

    fn thing() -> Arc<u32> {
        Arc::new(7, GFP_KERNEL).unwrap()
    }

    fn insert(registry: &mut Registry<u32>, draw: impl FnMut() -> u32) -> Result<u32> {
        registry.insert(RBTreeNodeReservation::new(GFP_KERNEL)?, thing(), draw)
    }

    #[test]
    fn a_name_lasts_as_long_as_it_is_held() {
        let mut registry = Registry(RBTree::new());
        let name = insert(&mut registry, || 5).unwrap();
        assert_eq!(name, 5);
        assert_eq!(*registry.hold(5).unwrap(), 7);
        assert!(registry.remove_holder(5).is_none());
        assert!(registry.hold(5).is_ok());
        assert!(registry.remove_holder(5).is_none());
        assert!(registry.remove_holder(5).is_some());
        assert_eq!(registry.hold(5).err(), Some(Error::NotFound));
        assert!(registry.remove_holder(5).is_none());
    }

    #[test]
    fn names_are_not_given_twice() {
        let mut registry = Registry(RBTree::new());
        let mut next = 0;
        let mut draw = || {
            next += 1;
            next / 2
        };
        // 0 is no name.
        assert_eq!(insert(&mut registry, &mut draw), Ok(1));
        assert_eq!(insert(&mut registry, &mut draw), Ok(2));
        assert_eq!(insert(&mut registry, || 2), Err(Error::OutOfResources));
        assert_eq!(registry.hold(0).err(), Some(Error::NotFound));
    }
}
