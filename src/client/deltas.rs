// SPDX-License-Identifier: GPL-2.0-only

//! State deltas: lists in the client's memory of the states that its commands have changed.
//!
//! Older clients count references to deltas. For these the driver reads a delta when the context is
//! loaded again, not when a COMMIT passes it: the client adds to the delta until another COMMIT of
//! the context switches. The clients of the newest generations do not count. For these the driver
//! reads the delta of a COMMIT that switches, and the reply says that it switched. If the COMMIT
//! does not switch, the client keeps adding to the delta, and the driver keeps nothing.
//!
//! A delta that is invalid or cannot be read counts as empty: its states have already been loaded
//! once, and some clients put deltas on the stack. The driver never follows a pointer from one
//! delta to the next, and writes only reference counts. Source: sources.md, contexts.

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
    prelude::*,
    sys::user::UserWords, //
};
use kernel::uaccess::UserSlice;

/// Number of records that are copied at a time.
const RECORDS_AT_ONCE: usize = 64;

/// Deltas that a switch has read.
#[derive(Default)]
pub(super) struct Merged {
    deltas: [u64; PENDING],
    count: usize,
}

/// Reads the head of a delta. `None`: it cannot be read, or the generation has no deltas.
fn read_delta(user: u64, format: Format) -> Option<Delta> {
    let at = usize::try_from(user).ok()?;
    let bytes = format.delta_bytes();
    if bytes == 0 {
        return None;
    }
    let mut room = UserWords::<{ abi::MAX_DELTA_BYTES / 4 }>::new();
    Some(format.decode_delta(room.read(at, bytes).ok()?))
}

/// Adds to a delta's reference count, if it has one. Returns whether the write succeeded.
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

/// Applies the records of a delta to `buffers`, in pieces.
fn merge_records(buffers: &mut Buffers, delta: &Delta) {
    // At most one record for each state.
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

/// Updates the copy that the next switch loads. `given` is the delta of the switching COMMIT (0:
/// none). If the switch fails, the caller may call this again.
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
        // Skip a delta that the client has dropped, or whose memory it has reused.
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

/// Called when job `number` has switched contexts. Drops the references to the merged deltas, and
/// notes the delta of the COMMIT (0: none) for both copies.
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
    // A delta without records needs no reference.
    let Some(delta) = read_delta(attached, format).filter(|delta| delta.records != 0) else {
        return;
    };
    if add_references(attached, &delta, 2, format) {
        buffers.attach(attached);
    }
}
