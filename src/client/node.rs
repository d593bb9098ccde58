// SPDX-License-Identifier: GPL-2.0-only

//! A node of video memory in a process's table.

use super::{
    change::{
        Change,
        Returned, //
    },
    client_memory::{
        left_of,
        ClientMemory, //
    },
    name::Name,
    usage::Sort, //
};
use crate::{
    abi::Parts,
    memory::{
        granted,
        Backing,
        Node,
        Pool,
        View, //
    },
    prelude::*, //
};

/// The life cycle of a node in a process's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// A queue that is being submitted will free it.
    Claimed,
    /// The client has freed it. The last unlock ends it.
    Freed,
}

/// The origin of a node in a process's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The process has allocated it. Its ledgers count the bytes.
    Own,
    /// Imported by name, a dma-buf, or memory that the driver does not own. The process's ledgers
    /// do not count the bytes.
    Foreign,
    /// A node of another process, if nodes are shared. Its last unlock removes the entry.
    Shared,
}

/// The process's view of a page-backed node.
#[derive(Clone, Copy)]
pub(super) enum PagesView {
    None,
    /// A LOCK is creating it.
    BeingMade,
    /// A LOCK by a handle of a DRM file is creating it.
    BeingMadeOfObject,
    /// Mapped at user address `user`, for `locks` locks.
    At {
        user: usize,
        locks: u32,
    },
}

/// A node in a process's table.
pub(super) struct NodeEntry {
    pub(super) node: ClientMemory<Node>,
    pub(super) origin: Origin,
    /// The type of the surface for which the node was allocated.
    kind: u32,
    /// Bytes granted to the client. 0: all bytes of the node.
    granted: u32,
    pub(super) life: Life,
    pub(super) locks: u32,
    /// Bit mask, by place, of the cores for which it was locked. The last unlock clears it.
    locked_for: u8,
    pub(super) view: PagesView,
    /// The last LOCK asked for a cached view.
    pub(super) is_cached: bool,
    /// Number of repeated imports. Each import needs its own FREE. 16 bits, because entries are
    /// moved often, and moving more than 64 bytes calls `memcpy`.
    pub(super) imports: u16,
    /// The process has a handle that FREE accepts. Otherwise, only DRM files have handles.
    pub(super) has_handle: bool,
    /// Number of handles of DRM files. FREE does not remove these.
    pub(super) objects: u16,
    /// Number of locks by handles of DRM files, each of the node and its view. An UNLOCK by the
    /// process's handle does not remove these.
    pub(super) object_locks: u16,
    pub(super) name: Option<Name<Node>>,
    /// The [`Change`] that returns wrapped memory to the process. `None` for other nodes. Allocated
    /// in advance, because the return must not fail.
    pub(super) back: Option<ListArc<Change>>,
    /// The note of SET_SHARED_INFO. Boxed, because entries are moved and few have a note.
    pub(super) note: Option<KBox<Note>>,
}

/// Arguments of LOCK.
#[derive(Clone, Copy)]
pub(super) struct Locking {
    pub(super) cacheable: bool,
    /// The place of the core that will use the node.
    pub(super) core: usize,
    /// The core uses physical addresses, so the node must be contiguous.
    pub(super) physical: bool,
    /// The process may lock a page-backed node more than once for the same core.
    pub(super) again: bool,
    pub(super) of_object: bool,
    pub(super) parts: Parts,
}

/// Arguments of UNLOCK.
#[derive(Clone, Copy)]
pub(super) struct Unlocking {
    pub(super) parts: Parts,
    /// The event removes the lock of all kinds of nodes, not only of page-backed nodes: commands
    /// that use the node may be submitted before the event.
    pub(super) by_event: bool,
    pub(super) of_object: bool,
}

/// What [`nodes::claim`](super::nodes::claim) has claimed.
pub(super) enum Claimed {
    Node,
    /// One of several imports, or the handle of a node that DRM files also have. The node stays.
    Import,
}

impl NodeEntry {
    pub(super) fn new(node: ClientMemory<Node>, origin: Origin) -> Self {
        Self {
            node,
            origin,
            kind: 0,
            granted: 0,
            life: Life::Alive,
            locks: 0,
            locked_for: 0,
            view: PagesView::None,
            is_cached: false,
            imports: 0,
            has_handle: true,
            objects: 0,
            object_locks: 0,
            name: None,
            back: None,
            note: None,
        }
    }

    /// A node that the process has allocated for `bytes` bytes of a surface of kind `kind`.
    pub(super) fn allocated(
        node: ClientMemory<Node>,
        kind: u32,
        bytes: u32,
        alignment: u32,
    ) -> Self {
        let granted = match node.pool() {
            Pool::System => granted(bytes, alignment),
            Pool::Contiguous | Pool::Virtual => None,
        };
        Self {
            kind,
            granted: granted.unwrap_or(0),
            ..Self::new(node, Origin::Own)
        }
    }

    /// Bytes granted to the client.
    pub(super) fn bytes(&self) -> u64 {
        match self.granted {
            0 => usize_as_u64(self.node.bytes()),
            granted => granted.into(),
        }
    }

    /// The ledgers that count it, if the process has allocated it.
    pub(super) fn sort(&self) -> Sort {
        Sort {
            pool: self.node.pool(),
            kind: self.kind,
        }
    }

    /// Returns wrapped memory to the process.
    pub(super) fn give_back(&self) {
        if self.back.is_some() {
            Returned::Node(self.node.clone()).finish();
        }
    }

    /// Whether it is neither freed nor claimed by a FREE.
    pub(super) fn is_alive(&self) -> bool {
        self.life == Life::Alive
    }

    /// User address of the view, if the node is page-backed and has a view.
    pub(super) fn user(&self) -> Option<usize> {
        match self.view {
            PagesView::At { user, .. } => Some(user),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn shown(&self) -> Option<(Backing, usize)> {
        let user = self.user()?;
        match self.node.view() {
            View::Pages(backing) => Some((backing, user)),
            View::Pool(_) | View::Own(_) => None,
        }
    }

    /// Whether a LOCK is creating its view.
    pub(super) fn gets_view(&self) -> bool {
        matches!(
            self.view,
            PagesView::BeingMade | PagesView::BeingMadeOfObject
        )
    }

    /// Adds a lock if `how` asks for one. `OutOfResources`: too many locks.
    pub(super) fn add_locks(&mut self, how: &Locking) -> Result {
        let more = how.parts.lock.into();
        let locks = self.locks.checked_add(more).ok_or(Error::OutOfResources)?;
        if how.of_object {
            let more = self.object_locks.checked_add(1);
            self.object_locks = more.ok_or(Error::OutOfResources)?;
        }
        self.locks = locks;
        self.locked_for |= u8::from(how.parts.lock) << how.core;
        Ok(())
    }

    /// Whether `how` may lock it.
    pub(super) fn may_lock(&self, how: &Locking) -> bool {
        how.again || self.locked_for & 1 << how.core == 0
    }

    /// Whether it is unlocked, and also freed or shared.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.locks == 0 && (self.life == Life::Freed || self.origin == Origin::Shared)
    }

    /// Whether it has locks by the process's handle, not only by handles of DRM files.
    pub(super) fn has_plain_locks(&self) -> bool {
        let is_made = matches!(self.view, PagesView::BeingMadeOfObject);
        self.locks > u32::from(self.object_locks) + u32::from(is_made)
    }

    /// Removes a lock by the process's handle, if there is one.
    pub(super) fn take_lock_off(&mut self) {
        if self.has_plain_locks() {
            self.take_locks_off(1);
        }
    }

    /// Removes all locks by handles of DRM files. Returns whether this leaves a view that no lock
    /// uses.
    pub(super) fn take_object_locks_off(&mut self) -> bool {
        let count = core::mem::take(&mut self.object_locks).into();
        self.take_locks_off(count);
        match &mut self.view {
            PagesView::At { locks, .. } if *locks > count => {
                *locks -= count;
                false
            }
            PagesView::At { .. } => true,
            _ => false,
        }
    }

    pub(super) fn take_locks_off(&mut self, count: u32) {
        self.locks = self.locks.saturating_sub(count);
        if self.locks == 0 {
            self.locked_for = 0;
        }
    }

    /// Bytes from user address `user` to the end of the view of a locked node outside of the pool.
    pub(super) fn bytes_from(&self, user: usize) -> Option<usize> {
        if self.locks == 0 {
            return None;
        }
        match self.node.view() {
            View::Pages(backing) => left_of(self.user()?, backing.bytes(), user),
            View::Own(start) => left_of(start, self.node.bytes(), user),
            View::Pool(_) => None,
        }
    }
}

/// Words of a [`Note`].
pub(super) const NOTE_WORDS: usize = 8;

/// Word offsets of the rectangle to redraw: of its corner and its size.
const X: usize = 1;
const Y: usize = 2;
const WIDTH: usize = 5;
const HEIGHT: usize = 6;

/// A note of a node: whether the node's tile status is off, two corners and the size of a
/// rectangle, and a clear value.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Note(pub(super) [u32; NOTE_WORDS]);

impl Note {
    /// Copies `other`, with the union of both rectangles. Ignores an empty rectangle.
    pub(super) fn enlarge(&mut self, other: &Self) {
        let (old, mut new) = (self.0, other.0);
        let is_empty = |note: &[u32; NOTE_WORDS]| note[WIDTH] == 0 || note[HEIGHT] == 0;
        if is_empty(&new) {
            return;
        }
        if !is_empty(&old) {
            for (at, size) in [(X, WIDTH), (Y, HEIGHT)] {
                let start = old[at].min(new[at]);
                let end = |note: &[u32; NOTE_WORDS]| note[at].saturating_add(note[size]);
                let last = end(&old).max(end(&new));
                (new[at], new[size]) = (start, last - start);
            }
        }
        self.0 = new;
    }

    /// Returns the note with its rectangle rounded to tiles, and empties the rectangle.
    pub(super) fn take_rectangle(&mut self) -> Self {
        let mut tiles = *self;
        for (at, size, place, unit) in [(X, WIDTH, 32, 16), (Y, HEIGHT, 4, 4)] {
            tiles.0[at] &= !(place - 1);
            tiles.0[size] = tiles.0[size].saturating_add(unit - 1) & !(unit - 1);
            (self.0[at], self.0[size]) = (0, 0);
        }
        tiles
    }
}

#[kunit_tests(galcore_node)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_grow_and_are_taken_in_tiles() {
        let note = |x, y, width, height| Note([0, x, y, 0, 0, width, height, 7]);
        let mut all = Note::default();
        all.enlarge(&note(40, 10, 8, 2));
        assert_eq!(all, note(40, 10, 8, 2));
        all.enlarge(&note(100, 3, 5, 1));
        assert_eq!(all, note(40, 3, 65, 9));
        all.enlarge(&note(0, 0, 0, 4));
        assert_eq!(all, note(40, 3, 65, 9));
        assert_eq!(all.take_rectangle(), note(32, 0, 80, 12));
        assert_eq!(all, note(0, 0, 0, 0));
        all.enlarge(&note(u32::MAX, 1, u32::MAX, 1));
        all.enlarge(&note(1, 1, 1, 1));
        assert_eq!(all, note(1, 1, u32::MAX - 1, 1));
        assert_eq!(all.take_rectangle().0[WIDTH], u32::MAX & !15);
    }
}
