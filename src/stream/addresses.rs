// SPDX-License-Identifier: GPL-2.0-only

//! The GPU addresses that a process's commands may name, their look-up, and the replacement for
//! address 0.
//!
//! Pure logic: a tree of address ranges that do not overlap. The counts of removals and additions
//! show whether the result of an earlier check is still valid.

use super::{
    states::{
        is_physical,
        pipe_of, //
    },
    words::Pipe, //
};
use crate::{
    addr::Range,
    mmu::SCRATCH_BYTES,
    prelude::*, //
};
use core::cell::Cell;

/// Kinds of objects that have a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A node.
    Node,
    /// A contiguous buffer.
    Buffer,
    /// Mapped user memory.
    UserMemory,
    /// A framebuffer of another driver.
    Framebuffer,
}

/// The object of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The kind of object.
    pub(crate) kind: Kind,
    /// The object's handle.
    pub(crate) handle: u32,
}

struct Piece {
    range: Range,
    owner: Owner,
    /// A window of the process may map the range.
    shown: bool,
}

/// Number of removed ranges that are remembered.
const LEFT: usize = 16;

/// Added to [`AddressSet::version`] for another reason than a removal.
const NEWS: u64 = 1 << 56;

/// The ranges of one process.
pub(crate) struct AddressSet {
    pieces: RBTree<u32, Piece>,
    additions: u64,
    /// See [`AddressSet::version`].
    version: Cell<u64>,
    /// The last removed ranges, to diagnose later uses: a circular buffer, and its next place.
    left: [Option<(Range, Owner)>; LEFT],
    next_left: usize,
}

impl AddressSet {
    /// An empty set.
    pub(crate) fn new() -> Self {
        Self {
            pieces: RBTree::new(),
            additions: 0,
            version: Cell::new(0),
            left: [const { None }; LEFT],
            next_left: 0,
        }
    }

    /// Adds the `bytes` at `start`, which belong to `owner`. Ignores a range that wraps.
    ///
    /// `MemoryLocked`: the range overlaps another one. `OutOfMemory`.
    pub(crate) fn insert(&mut self, start: u32, bytes: usize, owner: Owner) -> Result {
        if let Some(range) = Range::new(start, bytes) {
            if self
                .last_until(range.last())
                .is_some_and(|(_, range)| range.last() >= start)
            {
                return Err(Error::MemoryLocked);
            }
            let piece = Piece {
                range,
                owner,
                shown: false,
            };
            self.pieces
                .try_create_and_insert(start, piece, crate::sys::GFP_CLIENT)?;
            // It cannot wrap.
            self.additions += 1;
        }
        Ok(())
    }

    /// Adds a range with a made-up owner.
    #[cfg(CONFIG_KUNIT)]
    pub(crate) fn add(&mut self, start: u32, bytes: usize) -> Result {
        let owner = Owner {
            kind: Kind::Node,
            handle: start | 1,
        };
        self.insert(start, bytes, owner)
    }

    /// Removes the range that begins at `start`, if there is one. Returns whether it was shown.
    pub(crate) fn remove(&mut self, start: u32) -> bool {
        let Some(piece) = self.pieces.remove(&start) else {
            return false;
        };
        self.left[self.next_left % LEFT] = Some((piece.range, piece.owner));
        self.next_left = (self.next_left + 1) % LEFT;
        // It cannot reach NEWS.
        self.version.set(self.version.get() + 1);
        piece.shown
    }

    /// Notes that earlier checks of streams may be out of date for another reason than a removal.
    /// At most 255 times.
    pub(crate) fn invalidate(&self) {
        self.version.set(self.version.get().wrapping_add(NEWS));
    }

    /// A number that changes when earlier checks of streams may be out of date. Its bits below
    /// [`NEWS`] count the removals.
    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Whether ranges were removed between these two versions.
    pub(crate) fn is_removed(before: u64, after: u64) -> bool {
        (before ^ after) & (NEWS - 1) != 0
    }

    /// The owner of a removed `address`, if it was in one of the last [`LEFT`] removed ranges.
    pub(crate) fn owner_before(&self, address: u32) -> Option<Owner> {
        let places = (1..=LEFT).map(|age| (self.next_left + LEFT - age) % LEFT);
        let mut left = places.filter_map(|place| self.left[place]);
        let found = left.find(|(range, _)| range.contains(address));
        found.map(|(_, owner)| owner)
    }

    /// The object whose end is the last one before `address`, and the distance from that end.
    pub(crate) fn owner_in_front(&self, address: u32) -> Option<(Owner, u32)> {
        let (owner, range) = self.last_until(address)?;
        let distance = address.checked_sub(range.last())?.checked_sub(1)?;
        Some((owner, distance))
    }

    /// Number of removals so far. Each invalidates earlier addresses found.
    pub(crate) fn removals(&self) -> u64 {
        self.version.get() & (NEWS - 1)
    }

    /// Number of additions and removals so far. Each invalidates the results of earlier look-ups.
    pub(crate) fn changes(&self) -> u64 {
        self.additions + self.removals()
    }

    /// The last range that begins at or before `address`, and its owner.
    fn last_until(&self, address: u32) -> Option<(Owner, Range)> {
        let cursor = self.pieces.cursor_lower_bound(&address);
        let (_, piece) = match &cursor {
            Some(cursor) if *cursor.current().0 == address => cursor.current(),
            Some(cursor) => cursor.peek_prev()?,
            None => {
                let last = self.pieces.cursor_back()?;
                let (_, piece) = last.current();
                return Some((piece.owner, piece.range));
            }
        };
        Some((piece.owner, piece.range))
    }

    /// The range that contains `address`.
    pub(crate) fn find(&self, address: u32) -> Option<Range> {
        let (_, range) = self.last_until(address)?;
        range.contains(address).then_some(range)
    }

    /// The object that has `address`.
    pub(crate) fn owner(&self, address: u32) -> Option<Owner> {
        let (owner, range) = self.last_until(address)?;
        range.contains(address).then_some(owner)
    }

    /// As [`AddressSet::find`], and marks the range as shown.
    pub(crate) fn show(&mut self, address: u32) -> Option<Range> {
        let range = self.find(address)?;
        self.pieces.get_mut(&range.start())?.shown = true;
        Some(range)
    }
}

/// States of tile status on cores without memory controller 2.0. They hold physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalStates {
    /// Physical address of GPU address 0. Clients add it to GPU addresses.
    pub(crate) base: u32,
    /// Physical addresses of scratch memory.
    pub(crate) scratch: Range,
}

/// Scratch memory of a core. Reads and writes of it by an engine do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    /// GPU addresses of it, for states of the 3D pipe and for states of the 2D pipe.
    pub(crate) addresses: [u32; 2],
    /// For states that hold physical addresses, if this core has such states.
    pub(crate) physical: Option<PhysicalStates>,
}

impl Scratch {
    /// Its GPU address in a pipe.
    pub(crate) fn in_pipe(&self, pipe: Pipe) -> u32 {
        self.addresses[pipe.index()]
    }

    /// The value of `state` (a word address) for the first byte.
    pub(crate) fn of(&self, state: u32) -> u32 {
        match self.physical_in(state) {
            Some(physical) => physical.scratch.start(),
            None => self.in_pipe(pipe_of(state)),
        }
    }

    /// The value of `state` for the last byte.
    fn last_of(&self, state: u32) -> u32 {
        match self.physical_in(state) {
            Some(physical) => physical.scratch.last(),
            None => self
                .in_pipe(pipe_of(state))
                .saturating_add(SCRATCH_BYTES - 1),
        }
    }

    /// See [`PhysicalStates`]. `None`: `state` holds a GPU address.
    fn physical_in(&self, state: u32) -> Option<PhysicalStates> {
        self.physical.filter(|_| is_physical(state))
    }
}

/// The GPU addresses that a stream may use.
#[derive(Clone, Copy)]
pub(crate) enum Addresses<'a> {
    /// Any, without a look-up.
    Any,
    /// Those of a process, and common ones.
    Of {
        /// The process's memory.
        own: &'a AddressSet,
        /// Memory that every process may use.
        common: &'a [Option<Range>],
        /// The replacement of 0.
        scratch: Scratch,
    },
}

/// Number of ranges that are remembered.
const REMEMBERED: usize = 4;

/// GPU addresses below this are physical minus a base, or (MMU version 2) mapped one to one.
const LINEAR_END: u32 = 1 << 31;

/// Looks up addresses, and remembers the last ranges that it has found.
pub(crate) struct Lookup<'a> {
    addresses: Addresses<'a>,
    recent: [Option<Range>; REMEMBERED],
    next: usize,
}

impl<'a> Lookup<'a> {
    /// A look-up that remembers no range yet.
    pub(crate) fn new(addresses: Addresses<'a>) -> Self {
        Self {
            addresses,
            recent: [None; REMEMBERED],
            next: 0,
        }
    }

    /// Notes that earlier checks of the process's streams may be out of date.
    #[cold]
    pub(crate) fn invalidate(&self) {
        if let Addresses::Of { own, .. } = self.addresses {
            own.invalidate();
        }
    }

    /// The value to load into address state `state` (a word address) if a client loads `value`.
    /// `None`: the client may not use that address.
    pub(crate) fn resolve(&mut self, state: u32, value: u32) -> Option<u32> {
        let Addresses::Of {
            own,
            common,
            scratch,
        } = self.addresses
        else {
            return Some(value);
        };
        let placeholder = scratch.of(state);
        // A stream that is checked again already has the scratch address.
        if value == 0 || value == placeholder {
            return Some(placeholder);
        }
        let (_, address) = gpu_address(&scratch, state, value)?;
        self.range(own, common, address).map(|_| value)
    }

    /// The value of `state` for the last byte of the memory in which `value` is. `None`: the
    /// process may not use it.
    pub(crate) fn last_of(&mut self, state: u32, value: u32) -> Option<u32> {
        let Addresses::Of {
            own,
            common,
            scratch,
        } = self.addresses
        else {
            return Some(u32::MAX);
        };
        if value == scratch.of(state) {
            return Some(scratch.last_of(state));
        }
        let (base, address) = gpu_address(&scratch, state, value)?;
        self.range(own, common, address)?.last().checked_add(base)
    }

    /// What clients add to a GPU address that they load into `state`.
    pub(crate) fn base_of(&self, state: u32) -> u32 {
        match self.addresses {
            Addresses::Any => 0,
            Addresses::Of { scratch, .. } => scratch
                .physical_in(state)
                .map_or(0, |physical| physical.base),
        }
    }

    /// The range that contains `address`.
    #[inline(always)]
    fn range(&mut self, own: &AddressSet, common: &[Option<Range>], address: u32) -> Option<Range> {
        let mut recent = self.recent.iter().copied().flatten();
        if let Some(range) = recent.find(|range| range.contains(address)) {
            return Some(range);
        }
        let in_common = || {
            let mut ranges = common.iter().copied().flatten();
            ranges.find(|range| range.contains(address))
        };
        let found = own.find(address).or_else(in_common);
        if found.is_some() {
            self.recent[self.next] = found;
            self.next = (self.next + 1) % REMEMBERED;
        }
        found
    }

    /// The value of `state` for scratch memory, or 0 if addresses are not looked up.
    pub(crate) fn scratch(&self, state: u32) -> u32 {
        match self.addresses {
            Addresses::Any => 0,
            Addresses::Of { scratch, .. } => scratch.of(state),
        }
    }
}

/// The base of `value` in `state`, and its GPU address. `None`: it is a physical address that no
/// process may use.
fn gpu_address(scratch: &Scratch, state: u32, value: u32) -> Option<(u32, u32)> {
    let Some(physical) = scratch.physical_in(state) else {
        return Some((0, value));
    };
    let address = value.wrapping_sub(physical.base);
    // The MMU translates GPU addresses from here on, so they are not physical.
    (address < LINEAR_END).then_some((physical.base, address))
}

#[kernel::macros::kunit_tests(galcore_address_set)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_own_addresses_only() {
        let mut set = AddressSet::new();
        assert!(set.find(0).is_none());
        for start in [0x3000, 0x1000, 0x8000_0000, 0x5000] {
            assert!(set.add(start, 0x1000).is_ok());
        }
        for start in [0x1000, 0x3000, 0x5000, 0x8000_0000] {
            for inside in [start, start + 1, start + 0xFFF] {
                assert_eq!(set.find(inside), Range::new(start, 0x1000));
            }
            assert!(set.find(start - 1).is_none());
            assert!(set.find(start + 0x1000).is_none());
        }
        assert!(set.find(u32::MAX).is_none());
    }

    #[test]
    fn ranges_may_touch_and_reach_the_end() {
        let mut set = AddressSet::new();
        assert!(set.add(0xFFFF_F000, 0x1000).is_ok());
        assert!(set.add(0xFFFF_E000, 0x1000).is_ok());
        assert_eq!(set.find(u32::MAX), Range::new(0xFFFF_F000, 0x1000));
        assert_eq!(set.find(0xFFFF_EFFF), Range::new(0xFFFF_E000, 0x1000));
        // A range that wraps is ignored.
        assert!(set.add(0xFFFF_0000, 0x2_0000).is_ok());
        assert!(set.find(0).is_none());
        assert!(set.find(0xFFFF_0000).is_none());
    }

    #[test]
    fn ranges_do_not_overlap() {
        let mut set = AddressSet::new();
        assert!(set.add(0x1000, 0x1000).is_ok());
        assert!(set.add(0x4000, 0x1000).is_ok());
        for (start, bytes) in [
            (0x1000, 0x1000),
            (0, 0x1001),
            (0x1FFF, 1),
            (0x1800, 0x10),
            (0x3000, 0x4000),
            (0x4FFF, 0x1000),
        ] {
            assert_eq!(set.add(start, bytes), Err(Error::MemoryLocked));
        }
        assert!(set.add(0x2000, 0x2000).is_ok());
        assert_eq!(set.owner(0x3FFF).map(|owner| owner.handle), Some(0x2001));
        assert_eq!(set.owner(0x5000), None);
    }

    #[test]
    fn what_leaves_is_counted() {
        let mut set = AddressSet::new();
        assert!(set.add(0x1000, 0x1000).is_ok());
        assert!(set.add(0x2000, 0x1000).is_ok());
        assert_eq!((set.removals(), set.changes()), (0, 2));
        // No range begins there.
        assert!(!set.remove(0x1800));
        assert_eq!(set.removals(), 0);
        assert!(!set.remove(0x1000));
        assert_eq!((set.removals(), set.changes()), (1, 3));
        let version = set.version();
        set.invalidate();
        assert_ne!(set.version(), version);
        assert!(!AddressSet::is_removed(version, set.version()));
        assert!(AddressSet::is_removed(0, set.version()));
        assert_eq!((set.removals(), set.changes()), (1, 3));
        // A range that wraps is ignored, and is no change.
        assert!(set.add(0xFFFF_F000, 0x2000).is_ok());
        assert_eq!(set.changes(), 3);
        assert!(set.find(0x1000).is_none());
        assert!(set.find(0x2000).is_some());
    }

    #[test]
    fn what_has_left_is_remembered_for_a_while() {
        let mut set = AddressSet::new();
        assert_eq!(set.owner_before(0x1000), None);
        for number in 1..=LEFT as u32 + 1 {
            assert!(set.add(number << 12, 0x1000).is_ok());
            set.remove(number << 12);
        }
        let before =
            |set: &AddressSet, address| set.owner_before(address).map(|owner| owner.handle);
        assert_eq!(before(&set, 0x1000), None);
        assert_eq!(before(&set, 0x2FFF), Some(0x2001));
        assert_eq!(before(&set, (LEFT as u32 + 1) << 12), Some(0x11001));
        // The latest removed range counts.
        assert!(set.add(0x2800, 0x1000).is_ok());
        set.remove(0x2800);
        assert_eq!(before(&set, 0x2FFF), Some(0x2801));
        assert!(set.add(0x2000, 0x1000).is_ok());
        let front = |set: &AddressSet, address| {
            set.owner_in_front(address)
                .map(|(owner, distance)| (owner.handle, distance))
        };
        assert_eq!(front(&set, 0x3000), Some((0x2001, 0)));
        assert_eq!(front(&set, 0x3040), Some((0x2001, 0x40)));
        assert_eq!(front(&set, 0x2FFF), None);
        assert_eq!(front(&set, 0x1FFF), None);
    }

    #[test]
    fn what_was_shown_is_known_when_it_leaves() {
        let mut set = AddressSet::new();
        assert!(set.add(0x1000, 0x1000).is_ok());
        assert!(set.add(0x2000, 0x1000).is_ok());
        assert!(set.show(0x3000).is_none());
        assert_eq!(set.show(0x1fff), Range::new(0x1000, 0x1000));
        assert!(!set.remove(0x2000));
        assert!(set.remove(0x1000));
        assert!(!set.remove(0x1000));
    }
}
