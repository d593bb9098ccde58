// SPDX-License-Identifier: GPL-2.0-only

//! CACHE: memory that a client and the GPU both use is handed over.

use super::{
    import::Mapped,
    Process, //
};
use crate::{
    abi::CacheRange,
    error::{
        Error,
        Result, //
    },
    memory::{
        Backing,
        View, //
    },
    sys::pages::Sync, //
};

impl Process {
    /// CACHE: hands a range of the caller's own memory to the GPU or back.
    ///
    /// `InvalidArgument`: no such operation, no range. `InvalidAddress`: the range is not the
    /// caller's. A pure invalidation does not exist here: it would drop what others wrote beside
    /// it.
    pub(super) fn maintain_cache(&self, range: CacheRange) -> Result {
        let direction = match range.operation {
            // CLEAN, FLUSH.
            1 | 3 => Some(Sync::ForDevice),
            // INVALIDATE.
            2 => Some(Sync::ForCpu),
            // MEMORY_BARRIER: the system call is one.
            4 => None,
            _ => return Err(Error::InvalidArgument),
        };
        let Some(direction) = direction else {
            return Ok(());
        };
        if range.node.is_some_and(|node| node != 0) && (range.user == 0 || range.bytes == 0) {
            return match range.may_be_nothing {
                true => Ok(()),
                false => Err(Error::InvalidArgument),
            };
        }
        let user = usize::try_from(range.user).map_err(|_| Error::InvalidAddress)?;
        let bytes = usize::try_from(range.bytes).map_err(|_| Error::InvalidAddress)?;
        let tables = self.tables();
        let pinned = tables
            .user_memory
            .values()
            .filter_map(Mapped::memory)
            .find(|memory| memory.contains(user, bytes));
        if let Some(memory) = pinned.cloned() {
            drop(tables);
            memory.sync(user, bytes, direction);
            return Ok(());
        }
        let node = range
            .node
            .unwrap_or_else(|| tables.user_views.node_at(user));
        if node == 0 {
            // Foreign memory, which the client keeps in order itself.
            return Ok(());
        }
        let entry = tables.nodes.get(node).ok_or(Error::InvalidObject)?;
        if let Some(memory) = entry.node.wrapped() {
            if memory.is_users() && !memory.contains(user, bytes) {
                return Err(Error::InvalidAddress);
            }
            let node = entry.node.clone();
            drop(tables);
            if let Some(memory) = node.wrapped() {
                memory.sync(user, bytes, direction);
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
            pages.sync(at, bytes, direction);
        }
        // Every other view is write-combined: there is nothing to maintain.
        Ok(())
    }
}
