// SPDX-License-Identifier: GPL-2.0-only

//! Handles: small positive integers that name a process's objects.
//!
//! Pure logic. The low bits of a handle are the place of a slot. The high bits count the slot's
//! uses, which detects stale handles. A look-up takes constant time. The slot that has been free
//! the longest is used next, so a handle repeats after 65,536 uses of its slot. Objects whose
//! numbers are allocated elsewhere are in a tree next to the slots. A table holds at most [`LIMIT`]
//! objects.

use crate::prelude::*;

/// The most objects of one kind in one process.
pub(crate) use crate::limits::MAX_HANDLES as LIMIT;

/// Bits of a handle for the slot's place plus 1. Handle 0 is invalid.
const PLACE_BITS: u32 = 15;

/// The highest count of uses: a handle fits into a signed 32-bit field.
const LAST_USE: u32 = (1 << (31 - PLACE_BITS)) - 1;

/// Number of slots to allocate before a slot is reused.
const SPREAD: usize = 64;

const NONE: u32 = u32::MAX;

enum State<T> {
    /// Free, with the next slot of the free list.
    Free(u32),
    Used(T),
    /// The object is detached.
    Away,
}

struct Slot<T> {
    uses: u32,
    state: State<T>,
}

/// An object that is detached from its table. Its slot stays reserved until [`Handles::put_back`]
/// or [`Handles::give_up`].
#[must_use]
pub(crate) struct Detached<T> {
    place: u32,
    pub(super) handle: u32,
    pub(super) object: T,
}

/// Objects by handle.
pub(crate) struct Handles<T> {
    slots: KVVec<Slot<T>>,
    /// Head and tail of the list of free slots.
    first_free: u32,
    last_free: u32,
    /// Objects whose numbers are allocated elsewhere.
    others: RBTree<u32, T>,
    count: usize,
}

fn handle(place: u32, uses: u32) -> u32 {
    uses << PLACE_BITS | (place + 1)
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Handles<T> {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self {
            slots: KVVec::new(),
            first_free: NONE,
            last_free: NONE,
            others: RBTree::new(),
            count: 0,
        }
    }

    fn slot(&mut self, place: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(u32_as_usize(place))
    }

    /// The place of a handle's slot, if the handle is not stale.
    fn place(&self, handle: u32) -> Option<u32> {
        let place = (handle & ((1 << PLACE_BITS) - 1)).checked_sub(1)?;
        let slot = self.slots.get(u32_as_usize(place))?;
        (slot.uses == handle >> PLACE_BITS).then_some(place)
    }

    /// Appends a slot without object to the list of free slots.
    fn release(&mut self, place: u32) {
        self.count -= 1;
        if let Some(slot) = self.slot(place) {
            slot.uses = if slot.uses == LAST_USE {
                0
            } else {
                slot.uses + 1
            };
            slot.state = State::Free(NONE);
        }
        let last = core::mem::replace(&mut self.last_free, place);
        match self.slot(last) {
            Some(slot) => slot.state = State::Free(place),
            None => self.first_free = place,
        }
    }

    /// Adds an object. `OutOfResources`: the table has [`LIMIT`] objects.
    pub(crate) fn insert(&mut self, object: T) -> Result<u32> {
        if self.count >= LIMIT {
            return Err(Error::OutOfResources);
        }
        let place = self.first_free;
        let few = self.slots.len() < SPREAD;
        let slot = match self.slot(place) {
            Some(slot) if !few => slot,
            _ => {
                let fresh = Slot {
                    uses: 0,
                    state: State::Used(object),
                };
                self.slots.push(fresh, crate::sys::GFP_CLIENT)?;
                self.count += 1;
                // CAST: at most [`LIMIT`] slots.
                return Ok(handle(self.slots.len() as u32 - 1, 0));
            }
        };
        let number = handle(place, slot.uses);
        if let State::Free(next) = core::mem::replace(&mut slot.state, State::Used(object)) {
            self.first_free = next;
            if next == NONE {
                self.last_free = NONE;
            }
        }
        self.count += 1;
        Ok(number)
    }

    /// Adds an object under a number that is allocated elsewhere. All objects of such a table must
    /// be added so. `OutOfResources`: the table has [`LIMIT`] objects. `InvalidData`: the number is
    /// used.
    pub(crate) fn insert_at(&mut self, handle: u32, object: T) -> Result {
        if self.count >= LIMIT {
            return Err(Error::OutOfResources);
        }
        if self.get(handle).is_some() {
            return Err(Error::InvalidData);
        }
        self.others
            .try_create_and_insert(handle, object, crate::sys::GFP_CLIENT)?;
        self.count += 1;
        Ok(())
    }

    /// The first object of [`Handles::insert_at`] whose number is at least `from`: the number, and
    /// what `look` returns for the object.
    pub(crate) fn first_from<R>(&self, from: u32, look: impl FnOnce(&T) -> R) -> Option<(u32, R)> {
        let cursor = self.others.cursor_lower_bound(&from)?;
        let (&handle, object) = cursor.current();
        Some((handle, look(object)))
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The object of a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        if let Some(place) = self.place(handle) {
            if let State::Used(object) = &self.slots.get(u32_as_usize(place))?.state {
                return Some(object);
            }
        }
        self.others.get(&handle)
    }

    /// The object of a handle, mutable.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        match self.place(handle) {
            Some(place) => match &mut self.slots.get_mut(u32_as_usize(place))?.state {
                State::Used(object) => Some(object),
                _ => None,
            },
            None => self.others.get_mut(&handle),
        }
    }

    /// Takes an object out of its slot. The slot is [`State::Away`] then.
    fn take(&mut self, handle: u32) -> Option<(u32, T)> {
        let place = self.place(handle)?;
        let slot = self.slot(place)?;
        match core::mem::replace(&mut slot.state, State::Away) {
            State::Used(object) => Some((place, object)),
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        if let Some((place, object)) = self.take(handle) {
            self.release(place);
            return Some(object);
        }
        let object = self.others.remove(&handle)?;
        self.count -= 1;
        Some(object)
    }

    /// Takes an object out. It can be put back without allocation. `NotFound`: no such object.
    pub(crate) fn detach(&mut self, handle: u32) -> Result<Detached<T>> {
        let (place, object) = self.take(handle).ok_or(Error::NotFound)?;
        Ok(Detached {
            place,
            handle,
            object,
        })
    }

    /// Puts back a detached object.
    pub(crate) fn put_back(&mut self, detached: Detached<T>) {
        if let Some(slot) = self.slot(detached.place) {
            slot.state = State::Used(detached.object);
        }
    }

    /// Frees the slot of a detached object. Returns the object.
    pub(crate) fn give_up(&mut self, detached: Detached<T>) -> T {
        self.release(detached.place);
        detached.object
    }

    /// Passes each object to `take`.
    pub(crate) fn for_each(mut self, mut take: impl FnMut(T)) {
        for slot in core::mem::take(&mut self.slots) {
            if let State::Used(object) = slot.state {
                take(object);
            }
        }
        while let Some(number) = self.others.cursor_front().map(|first| *first.current().0) {
            if let Some(object) = self.others.remove(&number) {
                take(object);
            }
        }
    }

    /// All objects, with their handles.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        let used = self.slots.iter().zip(0..).filter_map(|(slot, place)| {
            let number = handle(place, slot.uses);
            match &slot.state {
                State::Used(object) => Some((number, object)),
                _ => None,
            }
        });
        let others = self.others.iter().map(|(&number, object)| (number, object));
        // `Init` has a `chain`, too.
        Iterator::chain(used, others)
    }

    /// All objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.numbered().map(|(_, object)| object)
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
        assert!(handles.numbered().eq([(2, &'b')]));
        for none in [0, 1, 3, u32::MAX, 1 << 31 | 2] {
            assert_eq!(handles.get(none), None);
        }
    }

    #[test]
    fn a_slot_is_used_again_under_other_numbers() {
        let mut handles = Handles::new();
        let mut seen: KVVec<u32> = KVVec::new();
        for i in 0..4 * SPREAD {
            let number = handles.insert(i).unwrap();
            assert!(number > 0 && number <= i32::MAX as u32);
            assert!(!seen.contains(&number));
            assert_eq!(handles.get(number), Some(&i));
            assert_eq!(handles.remove(number), Some(i));
            assert!(seen.iter().all(|&stale| handles.get(stale).is_none()));
            seen.push(number, GFP_KERNEL).unwrap();
        }
        assert_eq!(handles.slots.len(), SPREAD);
        // The first number repeats after the last use.
        handles.slots[0].uses = LAST_USE;
        let highest = super::handle(0, LAST_USE);
        assert!(highest <= i32::MAX as u32);
        assert_eq!(handles.insert(7), Ok(highest));
        assert_eq!(handles.remove(highest), Some(7));
        assert_eq!(handles.slots[0].uses, 0);
    }

    #[test]
    fn so_many_and_no_more() {
        let mut handles = Handles::new();
        for _ in 0..LIMIT {
            assert!(handles.insert(()).is_ok());
        }
        assert_eq!(handles.insert(()), Err(Error::OutOfResources));
        assert_eq!(handles.values().count(), LIMIT);
        assert_eq!(handles.len(), LIMIT);
        // Free slots in another order: each is used again.
        for place in (0..LIMIT as u32).rev().step_by(2) {
            assert!(handles.remove(super::handle(place, 0)).is_some());
        }
        assert_eq!(handles.len(), LIMIT / 2);
        for _ in 0..LIMIT / 2 {
            assert!(handles.insert(()).is_ok());
        }
        assert_eq!(handles.insert(()), Err(Error::OutOfResources));
        assert_eq!(handles.slots.len(), LIMIT);
    }

    #[test]
    fn what_is_detached_can_go_back() {
        let mut handles = Handles::new();
        assert_eq!(handles.insert('a'), Ok(1));
        let detached = handles.detach(1).unwrap();
        assert_eq!((handles.get(1), detached.object), (None, 'a'));
        assert!(handles.detach(1).is_err());
        handles.put_back(detached);
        assert_eq!(handles.get(1), Some(&'a'));
        assert_eq!(handles.insert('b'), Ok(2));
        let detached = handles.detach(1).unwrap();
        assert_eq!(handles.len(), 2);
        assert_eq!(handles.give_up(detached), 'a');
        assert_eq!((handles.get(1), handles.len()), (None, 1));
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
}
