// SPDX-License-Identifier: GPL-2.0-only

//! GET_SHARED_INFO and SET_SHARED_INFO: data that a process publishes under a number of its choice,
//! and a process's notes of nodes.
//!
//! Data lasts as long as its process. Readers are the process itself, and threads whose effective
//! user is that of the publishing thread. So the user that starts a set-user-ID program cannot read
//! its data. Users are compared by their ids in the initial namespace. Processes outside of the
//! reader's PID namespace are not found. Only the owner of a node can access its note, unless the
//! parameter `sharedNodes` shares nodes. Source: sources.md, commands.

use super::{
    shared,
    Process, //
};
use crate::{
    abi::SharedInfo,
    limits::{
        MAX_SHARED_INFOS,
        MAX_SHARED_INFO_BYTES, //
    },
    prelude::*,
    sys, //
};
use kernel::uaccess::UserSlice;

/// Published data.
pub(super) struct Info {
    id: u32,
    /// The user that may read it.
    user: u32,
    bytes: KVec<u8>,
}

const NOTE_WORDS: usize = 8;

/// Word offsets of the rectangle to redraw: of its corner and its size.
const X: usize = 1;
const Y: usize = 2;
const WIDTH: usize = 5;
const HEIGHT: usize = 6;

/// A note of a node: whether the node's tile status is off, two corners and the size of a
/// rectangle, and a clear value.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Note([u32; NOTE_WORDS]);

impl Note {
    /// Copies `other`, with the union of both rectangles. Ignores an empty rectangle.
    fn enlarge(&mut self, other: &Self) {
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
    fn take_rectangle(&mut self) -> Self {
        let mut tiles = *self;
        for (at, size, place, unit) in [(X, WIDTH, 32, 16), (Y, HEIGHT, 4, 4)] {
            tiles.0[at] &= !(place - 1);
            tiles.0[size] = tiles.0[size].saturating_add(unit - 1) & !(unit - 1);
            (self.0[at], self.0[size]) = (0, 0);
        }
        tiles
    }
}

fn address(user: u64) -> Result<UserPtr> {
    let at = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
    Ok(UserPtr::from_addr(at))
}

/// SET_SHARED_INFO. `InvalidData`: the number has data of another size, or no such node.
/// `OutOfResources`: too much data, or data that cannot be read. `OutOfMemory`.
pub(super) fn write(process: &Arc<Process>, info: SharedInfo) -> Result {
    if info.data != 0 && info.bytes != 0 {
        let length = usize::try_from(info.bytes).ok();
        let length = length.filter(|&length| length <= MAX_SHARED_INFO_BYTES);
        let length = length.ok_or(Error::OutOfResources)?;
        let mut bytes = KVec::new();
        UserSlice::new(address(info.data)?, length)
            .reader()
            .read_all(&mut bytes, sys::GFP_CLIENT)?;
        let old = keep(process, info.id, bytes)?;
        drop(old);
    }
    if info.node != 0 {
        let mut words = [0; NOTE_WORDS];
        let length = core::mem::size_of_val(&words);
        let mut reader = UserSlice::new(address(info.node_data)?, length).reader();
        for word in &mut words {
            *word = reader.read()?;
        }
        with_note(process, info.node, |note| {
            if info.is_rectangle {
                note.enlarge(&Note(words))
            } else {
                *note = Note(words);
            }
        })?;
    }
    Ok(())
}

/// Keeps data under a number. Returns the old data. The caller drops it.
fn keep(process: &Process, id: u32, mut bytes: KVec<u8>) -> Result<KVec<u8>> {
    let user = sys::effective_user_id();
    let mut tables = process.tables();
    let infos = &mut tables.shared_infos;
    if let Some(info) = infos.iter_mut().find(|info| info.id == id) {
        if info.bytes.len() != bytes.len() {
            return Err(Error::InvalidData);
        }
        info.user = user;
        core::mem::swap(&mut info.bytes, &mut bytes);
        return Ok(bytes);
    }
    if infos.len() >= MAX_SHARED_INFOS {
        return Err(Error::OutOfResources);
    }
    // Reserve first: a failure must not drop the data under the lock.
    infos.reserve(1, sys::GFP_CLIENT)?;
    infos.push(Info { id, user, bytes }, sys::GFP_CLIENT)?;
    Ok(KVec::new())
}

/// GET_SHARED_INFO. `InvalidData`: no such process, no data for this user, or no such node.
/// `OutOfResources`: user memory cannot be written.
pub(super) fn read(process: &Arc<Process>, info: SharedInfo) -> Result {
    if info.data != 0 && info.bytes != 0 {
        let number = i32::try_from(info.process).map_err(|_| Error::InvalidData)?;
        let (owner, reader) = if number == process.id() {
            (process.clone(), None)
        } else {
            let owner = process.clients.find(number).ok_or(Error::InvalidData)?;
            (owner, Some(sys::effective_user_id()))
        };
        let bytes = shared_info(&owner, info.id, reader, info.bytes)?;
        // Drop the owner before the copy, so that the memory of an ending process is freed.
        drop(owner);
        UserSlice::new(address(info.data)?, bytes.len())
            .writer()
            .write_slice(&bytes)?;
    }
    if info.node != 0 {
        let mut answer = Note::default();
        with_note(process, info.node, |note| {
            answer = if info.is_rectangle {
                note.take_rectangle()
            } else {
                *note
            };
        })?;
        let length = core::mem::size_of_val(&answer.0);
        UserSlice::new(address(info.node_data)?, length)
            .writer()
            .write(&answer.0)?;
    }
    Ok(())
}

/// Copies up to `most` bytes of the data under a number. The reader is a user, or (`None`) the
/// process itself.
fn shared_info(process: &Process, id: u32, reader: Option<u32>, most: u64) -> Result<KVec<u8>> {
    let tables = process.tables();
    let mut infos = tables.shared_infos.iter();
    let info = infos.find(|info| info.id == id && reader.is_none_or(|user| user == info.user));
    let bytes = &info.ok_or(Error::InvalidData)?.bytes;
    let length = usize::try_from(most).map_or(bytes.len(), |most| most.min(bytes.len()));
    let mut copy = KVec::with_capacity(length, sys::GFP_CLIENT)?;
    copy.extend_from_slice(&bytes[..length], sys::GFP_CLIENT)?;
    Ok(copy)
}

/// Calls `change` with the note of a node. `InvalidData`: no such node. `OutOfMemory`.
fn with_note(process: &Arc<Process>, node: u32, change: impl FnOnce(&mut Note)) -> Result {
    let owner = shared::owner_of(process, node);
    let mut tables = owner.tables();
    let entry = tables.nodes.get_mut(node).ok_or(Error::InvalidData)?;
    let note = match &mut entry.note {
        Some(note) => note,
        none => none.insert(KBox::new(Note::default(), sys::GFP_CLIENT)?),
    };
    change(note);
    Ok(())
}

#[kunit_tests(galcore_shared_info)]
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
