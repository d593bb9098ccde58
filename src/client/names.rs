// SPDX-License-Identifier: GPL-2.0-only

//! Names of nodes: a process passes a node to another process by its name (NAME_VIDEO_MEMORY,
//! IMPORT_VIDEO_MEMORY). Shared buffers have names, too ([`super::shared_buffers`]).
//!
//! A name is a capability: any process that knows it may import the node. So names are random
//! 31-bit numbers (the vendor's count up), and failed look-ups are rate-limited
//! ([`super::users`]). In all generations, a node's name is a 32-bit field. A shared buffer's id
//! has 64 bits, but a 32-bit client keeps it in a pointer, and the vendor's ids are 32-bit
//! integers. A name lasts while a process or a graphic buffer ([`super::graphic_buffers`]) holds
//! it. Source: `tests/abi`; generations from 5.0.11 on.
//!
//! Lock: `galcore names`, a leaf.

use super::{
    client_memory,
    node::{
        Life,
        NodeEntry,
        Origin, //
    },
    shared,
    users::{
        self,
        Users, //
    },
    Process, //
};
use crate::{
    abi::Reply,
    memory::Node,
    prelude::*,
    sys, //
};
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};

/// The most attempts to find a free name or to add a node.
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

/// NAME_VIDEO_MEMORY. Errors: as [`name_of`].
pub(super) fn name(process: &Process, handle: u32) -> Result<Reply<'_>> {
    name_of(process, handle).map(Reply::Name)
}

/// The node's name. A node without a name gets one. `InvalidObject`: no such node.
/// `NotSupported`: the node is wrapped memory of the process.
pub(super) fn name_of(process: &Process, handle: u32) -> Result<u32> {
    let node = {
        let tables = process.tables();
        let entry = tables.nodes.get(handle).ok_or(Error::InvalidObject)?;
        if !entry.is_alive() {
            return Err(Error::InvalidObject);
        }
        if let Some(name) = &entry.name {
            return Ok(name.number);
        }
        if entry.node.own_view().is_some() {
            return Err(Error::NotSupported);
        }
        entry.node.clone()
    };
    // Other processes may write to it from now on.
    node.share();
    let name = Name::new(process.clients.names(), node.clone())?;
    let number = name.number;
    let mut tables = process.tables();
    let entry = match tables.nodes.get_mut(handle) {
        Some(entry) if entry.is_alive() && Arc::ptr_eq(&entry.node, &node) => entry,
        // The node is freed, and the handle may be reused.
        _ => {
            drop(tables);
            drop(name);
            return Err(Error::InvalidObject);
        }
    };
    match &entry.name {
        // Another thread was faster.
        Some(other) => {
            let number = other.number;
            drop(tables);
            drop(name);
            Ok(number)
        }
        None => {
            entry.name = Some(name);
            Ok(number)
        }
    }
}

/// IMPORT_VIDEO_MEMORY: a handle for the node with this name. A process that already has the
/// node gets the same handle, and must free it once more. `NotFound`: no such name.
pub(super) fn import_named(process: &Arc<Process>, number: u32) -> Result<Reply<'_>> {
    let (users, names) = (process.clients.users(), process.clients.names());
    let (name, node) = Name::hold(users, names, number)?;
    let node = have_node(process, node, Some(name))?;
    Ok(Reply::Imported { node })
}

/// A handle for a node of another process, which was passed under `name` or otherwise. If this
/// process already has the node, even freed but still locked, returns the same handle.
/// `MemoryLocked`: the node is about to be freed.
pub(super) fn have_node(
    process: &Arc<Process>,
    node: Arc<Node>,
    name: Option<Name<Node>>,
) -> Result<u32> {
    let (handle, is_new) = have(process, &node, false)?;
    if !is_new {
        return Ok(handle);
    }
    let mut tables = process.tables();
    // Another thread may have named the node, or freed it and reused the handle.
    let is_unnamed =
        |entry: &&mut NodeEntry| Arc::ptr_eq(&entry.node, &node) && entry.name.is_none();
    if let Some(entry) = tables.nodes.get_mut(handle).filter(is_unnamed) {
        entry.name = name;
    }
    Ok(handle)
}

/// Adds a reference to `node`: a DRM file's if `as_object`, else one that the process frees.
/// Returns the handle, and whether it is new.
pub(super) fn have(
    process: &Arc<Process>,
    node: &Arc<Node>,
    as_object: bool,
) -> Result<(u32, bool)> {
    // Other threads of the process may add or free the node concurrently.
    for _ in 0..TRIES {
        if let Some(handle) = have_again(process, node, as_object)? {
            return Ok((handle, false));
        }
        // DRM adds objects where waiting is not allowed.
        let shown = client_memory::show(process, node.clone(), !as_object)?;
        let mut entry = NodeEntry::new(shown, Origin::Foreign);
        (entry.has_handle, entry.objects) = (!as_object, as_object.into());
        match shared::insert(process, entry) {
            Err(Error::MemoryLocked) => {}
            inserted => return Ok((inserted?, true)),
        }
    }
    Err(Error::MemoryLocked)
}

/// Adds a reference to a node, if the process has the node. Returns its handle. `MemoryLocked`:
/// the node is about to be freed.
fn have_again(process: &Process, node: &Arc<Node>, as_object: bool) -> Result<Option<u32>> {
    let mut tables = process.tables();
    let address = tables.address_of(node);
    if address.and_then(|it| tables.addresses.owner(it)).is_none() {
        return Ok(None);
    }
    let found = tables.handle_of(node);
    let found = found.filter(|(_, entry)| entry.origin != Origin::Shared);
    let (handle, entry) = found.ok_or(Error::MemoryLocked)?;
    // The node is freed but still locked: make it alive again.
    if entry.life == Life::Freed && process.registry().is_none() {
        (entry.life, entry.has_handle) = (Life::Alive, false);
    }
    if !entry.is_alive() {
        return Err(Error::MemoryLocked);
    }
    if as_object {
        entry.objects = entry.objects.checked_add(1).ok_or(Error::OutOfResources)?;
    } else if !entry.has_handle {
        entry.has_handle = true;
    } else {
        let imports = entry.imports.checked_add(1);
        entry.imports = imports.ok_or(Error::OutOfResources)?;
    }
    Ok(Some(handle))
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
