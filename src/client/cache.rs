// SPDX-License-Identifier: GPL-2.0-only

//! CACHE: cache maintenance of memory that a client and the GPU share.

use super::{
    tables::Mapped,
    Process, //
};
use crate::{
    abi::CacheRange,
    memory::{
        Backing,
        View, //
    },
    prelude::*,
    sys::pages::Sync, //
};

/// Bytes that are maintained in one step, which takes some milliseconds.
const PIECE: usize = 4 << 20;

/// CACHE: maintains a range of the caller's own memory, for the GPU or for the CPU.
///
/// `InvalidArgument`: no such operation, or no range. `InvalidAddress`: the range is not the
/// caller's. No operation only invalidates: that would drop other data in the same cache lines.
/// From 6.4.11 on, the node selects the memory: see [`maintain_node`].
pub(super) fn maintain(process: &Process, range: CacheRange) -> Result {
    let direction = match range.operation {
        // CLEAN, FLUSH.
        1 | 3 => Some(Sync::ForDevice),
        // INVALIDATE.
        2 => Some(Sync::ForCpu),
        // MEMORY_BARRIER: the system call itself is a barrier.
        4 => None,
        _ => return Err(Error::InvalidArgument),
    };
    if range.by_node {
        let all = usize::MAX;
        let user = usize::try_from(range.user).unwrap_or(all);
        let bytes = usize::try_from(range.bytes).unwrap_or(all);
        return maintain_node(process, range.node.unwrap_or(0), user, bytes, direction);
    }
    let Some(direction) = direction else {
        return Ok(());
    };
    if range.node.is_some_and(|node| node != 0) && (range.user == 0 || range.bytes == 0) {
        return Err(Error::InvalidArgument);
    }
    let user = usize::try_from(range.user).map_err(|_| Error::InvalidAddress)?;
    let bytes = usize::try_from(range.bytes).map_err(|_| Error::InvalidAddress)?;
    let tables = process.tables();
    let pinned = tables
        .user_memory
        .values()
        .filter_map(Mapped::memory)
        .find(|memory| memory.contains(user, bytes));
    if let Some(memory) = pinned.map(|memory| (**memory).clone()) {
        drop(tables);
        in_pieces(user, bytes, |at, bytes| memory.sync(at, bytes, direction));
        return Ok(());
    }
    let node = range
        .node
        .unwrap_or_else(|| tables.user_views.node_at(user));
    if node == 0 {
        // Memory that this driver does not know. The client maintains it itself.
        return Ok(());
    }
    let entry = tables.nodes.get(node).ok_or(Error::InvalidObject)?;
    if let Some(memory) = entry.node.wrapped() {
        if !memory.is_users() {
            return Ok(());
        }
        if !memory.contains(user, bytes) {
            return Err(Error::InvalidAddress);
        }
        let node = entry.node.clone();
        drop(tables);
        if let Some(memory) = node.wrapped() {
            in_pieces(user, bytes, |at, bytes| memory.sync(at, bytes, direction));
        }
        return Ok(());
    }
    if let (true, Some(start), View::Pages(Backing::Scattered(pages))) =
        (entry.is_cached, entry.user(), entry.node.view())
    {
        let at = user.checked_sub(start).ok_or(Error::InvalidAddress)?;
        if at.checked_add(bytes).is_none_or(|end| end > pages.bytes()) {
            return Err(Error::InvalidAddress);
        }
        drop(tables);
        in_pieces(at, bytes, |at, bytes| pages.sync(at, bytes, direction));
    }
    // All other views are write-combined, and need no maintenance.
    Ok(())
}

/// CACHE of 6.4.11: maintains the part of the node that lies in the range. If `direction` is
/// `None`, the operation is a barrier.
///
/// `NotFound`: no such node. `InvalidArgument`: the node has no view.
fn maintain_node(
    process: &Process,
    handle: u32,
    user: usize,
    bytes: usize,
    direction: Option<Sync>,
) -> Result {
    let tables = process.tables();
    let entry = tables.nodes.get(handle).ok_or(Error::NotFound)?;
    let Some(direction) = direction else {
        return Ok(());
    };
    let node = entry.node.clone();
    if let Some(memory) = node.wrapped() {
        drop(tables);
        if let Some(start) = memory.user() {
            let (at, bytes) = named_part(start, memory.bytes(), user, bytes);
            in_pieces(start + at, bytes, |at, bytes| {
                memory.sync(at, bytes, direction)
            });
        }
        return Ok(());
    }
    // Views in the pool are write-combined: nothing to maintain.
    if let View::Pages(backing) = node.view() {
        let start = entry.user().ok_or(Error::InvalidArgument)?;
        let is_cached = entry.is_cached;
        drop(tables);
        if let (true, Backing::Scattered(pages)) = (is_cached, backing) {
            let (at, bytes) = named_part(start, pages.bytes(), user, bytes);
            in_pieces(at, bytes, |at, bytes| pages.sync(at, bytes, direction));
        }
    }
    Ok(())
}

/// Calls `hand_over` for `bytes` bytes from `at`, in pieces. Yields after each piece. Skips the
/// rest if the thread is killed.
fn in_pieces(at: usize, bytes: usize, hand_over: impl Fn(usize, usize)) {
    let mut done = 0;
    while done < bytes && !sys::is_killed() {
        let piece = PIECE.min(bytes - done);
        hand_over(at + done, piece);
        done += piece;
        sys::yield_if_due();
    }
}

/// The part of the `length` bytes at `start` that lies in the `bytes` bytes at `user`, as offset
/// and size. If `bytes` or `user` is 0, it is all of them.
fn named_part(start: usize, length: usize, user: usize, bytes: usize) -> (usize, usize) {
    if user == 0 || bytes == 0 {
        return (0, length);
    }
    let inside = |address: usize| address.saturating_sub(start).min(length);
    let at = inside(user);
    (at, inside(user.saturating_add(bytes)) - at)
}

#[kunit_tests(galcore_cache)]
mod tests {
    // Import only this: the code that the macro generates uses another `Sync`.
    use super::named_part;

    #[test]
    fn ranges_are_cut() {
        assert_eq!(named_part(0x1000, 0x100, 0x1000, 0x100), (0, 0x100));
        assert_eq!(named_part(0x1000, 0x100, 0x1010, 0x10), (0x10, 0x10));
        assert_eq!(named_part(0x1000, 0x100, 0x10f0, 0x1000), (0xf0, 0x10));
        assert_eq!(named_part(0x1000, 0x100, 0xff0, 0x20), (0, 0x10));
        assert_eq!(named_part(0x1000, 0x100, 0x2000, 0x20), (0x100, 0));
        assert_eq!(named_part(0x1000, 0x100, 0x10, 0x20), (0, 0));
        assert_eq!(named_part(0x1000, 0x100, 0, 0x20), (0, 0x100));
        assert_eq!(named_part(0x1000, 0x100, 0x1010, 0), (0, 0x100));
        let all = usize::MAX;
        assert_eq!(named_part(0x1000, 0x100, all, all), (0x100, 0));
    }
}
