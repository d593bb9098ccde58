// SPDX-License-Identifier: GPL-2.0-only

//! State deltas: what a client says its commands have changed, as lists in its own memory.
//!
//! Where the client counts references they are read when a context is loaded again, not when they
//! are given: a client goes on adding to one for as long as no other COMMIT of its context has
//! switched. Where it does not (the newest generations) the one that a COMMIT gives is read if that
//! COMMIT switches, and the answer says so; else the client goes on adding, and nothing is kept. What
//! cannot be read, or makes no sense, counts as empty: a delta describes states that have been
//! loaded once already, and clients exist that leave theirs on the stack. The driver follows no
//! pointer from one to the next, and writes nothing but reference counts. Source:
//! sources.md, contexts.

use crate::{
    abi::{
        self,
        Delta,
        Format, //
    },
    context::{
        Buffers,
        Record,
        PENDING, //
    },
    sys::user::UserWords, //
};
use kernel::{
    prelude::*,
    uaccess::UserSlice, //
};

/// Records that are copied at a time.
const RECORDS_AT_ONCE: usize = 64;

/// Deltas that have been read for a switch.
#[derive(Default)]
pub(super) struct Merged {
    deltas: [u64; PENDING],
    count: usize,
}

/// Reads a delta's head; `None`: it cannot be read, or the generation has none.
fn read_delta(user: u64, format: Format) -> Option<Delta> {
    let at = usize::try_from(user).ok()?;
    let bytes = format.delta_bytes();
    if bytes == 0 {
        return None;
    }
    let mut room = UserWords::<{ abi::MAX_DELTA_BYTES / 4 }>::new();
    Some(format.decode_delta(room.read(at, bytes).ok()?))
}

/// Adds to a delta's reference count, if it has one; says whether that could be written.
fn add_references(user: u64, delta: &Delta, add: i32, format: Format) -> bool {
    let Some(offset) = format.delta_references() else {
        return true;
    };
    let count = delta.references.wrapping_add(add);
    user.checked_add(offset)
        .and_then(|at| usize::try_from(at).ok())
        .is_some_and(|at| {
            UserSlice::new(UserPtr::from_addr(at), 4)
                .writer()
                .write(&count)
                .is_ok()
        })
}

/// Copies the records of a delta, in pieces, into `buffers`.
fn merge_records(buffers: &mut Buffers, delta: &Delta) {
    // A state needs no more than one.
    let mut left = usize::try_from(delta.record_count)
        .unwrap_or(usize::MAX)
        .min(buffers.state_count());
    let mut at = delta.records;
    while left > 0 {
        let mut words = [0u32; RECORDS_AT_ONCE * abi::DELTA_RECORD_WORDS];
        let some = left.min(RECORDS_AT_ONCE);
        let words = &mut words[..some * abi::DELTA_RECORD_WORDS];
        let bytes = zerocopy::IntoBytes::as_mut_bytes(words);
        let length = bytes.len();
        let Ok(from) = usize::try_from(at) else {
            return;
        };
        let mut reader = UserSlice::new(UserPtr::from_addr(from), length).reader();
        if reader.read_slice(bytes).is_err() {
            return;
        }
        let records = words.chunks_exact(abi::DELTA_RECORD_WORDS);
        buffers.apply(records.filter_map(|record| match *record {
            [address, mask, data] => Some(Record {
                address,
                mask,
                data,
            }),
            _ => None,
        }));
        left -= some;
        // CAST: at most 64 bits.
        let Some(next) = at.checked_add(length as u64) else {
            return;
        };
        at = next;
    }
}

/// Brings the copy that the next switch uses up to date; `given` is the delta of the COMMIT that
/// switches (0: none). If nothing comes of the switch, it can be done again.
pub(super) fn merge(buffers: &mut Buffers, given: u64, format: Format) -> Merged {
    let mut merged = Merged::default();
    if format.merges_at_once() {
        buffers.follow();
        if let Some(delta) = read_delta(given, format).filter(|_| given != 0) {
            merge_records(buffers, &delta);
            buffers.set_element_count(delta.element_count);
        }
        buffers.finish_merge();
        return merged;
    }
    let (pending, count) = buffers.pending();
    for &user in &pending[..count] {
        // Who has dropped it, by its count or by giving its memory another use, has no claim on it.
        let Some(delta) = read_delta(user, format).filter(|delta| delta.references > 0) else {
            continue;
        };
        merge_records(buffers, &delta);
        buffers.set_element_count(delta.element_count);
        merged.deltas[merged.count] = user;
        merged.count += 1;
    }
    buffers.finish_merge();
    merged
}

/// Job `number` has switched: drops its references to the merged deltas, and notes the one that
/// came with it (0: none) for both copies.
pub(super) fn switched(
    buffers: &mut Buffers,
    number: u64,
    merged: &Merged,
    attached: u64,
    format: Format,
) {
    buffers.switched(number);
    for &user in &merged.deltas[..merged.count] {
        if let Some(delta) = read_delta(user, format).filter(|delta| delta.references > 0) {
            add_references(user, &delta, -1, format);
        }
    }
    if attached == 0 || format.merges_at_once() {
        return;
    }
    // Without records there is nothing to remember.
    let Some(delta) = read_delta(attached, format).filter(|delta| delta.records != 0) else {
        return;
    };
    if add_references(attached, &delta, 2, format) {
        buffers.attach(attached);
    }
}
