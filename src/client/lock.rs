// SPDX-License-Identifier: GPL-2.0-only

//! LOCK and UNLOCK of nodes of video memory.

use super::{
    node::{
        Locking,
        NodeEntry,
        Origin,
        PagesView,
        Unlocking, //
    },
    nodes,
    shared,
    submission,
    window,
    Core,
    PoolView,
    Process, //
};
use crate::{
    abi::{
        Parts,
        Record,
        Reply, //
    },
    memory::View,
    prelude::*,
    sys::chrdev::OpenFile, //
};

/// LOCK: adds a lock, a view, or both.
pub(super) fn lock(
    process: &Arc<Process>,
    file: &OpenFile,
    view: Option<Arc<PoolView>>,
    handle: u32,
    how: Locking,
) -> Result<Reply<'static>> {
    shared::import(process, handle)?;
    let result = lock_own(process, file, view, handle, how);
    if result.is_err() {
        nodes::end_if_over(process, handle);
    }
    result
}

fn lock_own(
    process: &Arc<Process>,
    file: &OpenFile,
    view: Option<Arc<PoolView>>,
    handle: u32,
    how: Locking,
) -> Result<Reply<'static>> {
    let Parts {
        lock: locks,
        view: shows,
    } = how.parts;
    let reply = |(address, physical): (u32, u32), user: Option<usize>| Reply::Locked {
        address: locks.then_some(address),
        physical,
        user: user.map(usize_as_u64),
    };
    let base = process.device.base_address;
    let (address, backing, node) = loop {
        let mut tables = process.tables();
        let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        if !entry.is_alive() {
            return Err(Error::InvalidObject);
        }
        // Every LOCK of contiguous memory returns its physical address.
        let physical = entry.node.physical(base);
        let address = if how.physical {
            physical.ok_or(Error::NotSupported)?
        } else {
            entry.node.address()
        };
        let address = (address, physical.unwrap_or(0));
        let backing = match entry.node.view() {
            View::Pool(_) if shows && how.cacheable => return Err(Error::InvalidRequest),
            View::Pool(offset) => {
                entry.add_locks(&how)?;
                if !shows {
                    return Ok(reply(address, None));
                }
                let user = tables.in_pool(view, offset);
                drop(tables);
                let user = user.or_else(|| window::map_whole_pool(process, file, offset));
                if user.is_none() && locks {
                    let _ = unlock(
                        process,
                        handle,
                        Unlocking {
                            parts: how.parts,
                            by_event: false,
                            of_object: how.of_object,
                        },
                    );
                }
                let user = user.ok_or(Error::OutOfMemory)?;
                return Ok(reply(address, Some(user)));
            }
            View::Own(user) => {
                entry.add_locks(&how)?;
                // The address is only valid in the process that has wrapped the memory.
                let user = if entry.origin == Origin::Shared {
                    0
                } else {
                    user
                };
                return Ok(reply(address, shows.then_some(user)));
            }
            View::Pages(backing) => backing,
        };
        if !shows {
            entry.add_locks(&how)?;
            return Ok(reply(address, None));
        }
        // As in the C drivers: in most generations, a further LOCK gets the view of the first LOCK,
        // cached or not. In a few, a client may lock a node only once for each core.
        match entry.view {
            PagesView::None => {
                // When the view exists, `show_node` adds this lock to `object_locks`.
                entry.add_locks(&Locking {
                    of_object: false,
                    ..how
                })?;
                entry.view = if how.of_object {
                    PagesView::BeingMadeOfObject
                } else {
                    PagesView::BeingMade
                };
                entry.is_cached = how.cacheable;
                let node = (*entry.node).clone();
                tables.asked = Some((backing.clone(), how.cacheable));
                break (address, backing, node);
            }
            PagesView::At { user, locks: views } if entry.may_lock(&how) => {
                let views = views.checked_add(1).ok_or(Error::OutOfResources)?;
                entry.add_locks(&how)?;
                entry.view = PagesView::At { user, locks: views };
                return Ok(reply(address, Some(user)));
            }
            PagesView::BeingMade | PagesView::BeingMadeOfObject if entry.may_lock(&how) => {
                if process.view_made.wait_interruptible(&mut tables) {
                    return Err(Error::Interrupted);
                }
            }
            _ => return Err(Error::MemoryLocked),
        }
    };
    let mapped = backing.map_into_caller(file);
    let mut tables = process.tables();
    // Not the last reference: the LOCK that set `asked` still has its own.
    tables.asked = None;
    // The tables were unlocked. A record or a thread may have ended the node, and another node may
    // have its handle now.
    let is_there = tables
        .nodes
        .get(handle)
        .is_some_and(|entry| entry.gets_view() && Arc::ptr_eq(&entry.node, &node));
    let noted = if is_there {
        mapped.and_then(|user| {
            let shown = tables.show_node(handle, user, backing.bytes());
            shown.map(|()| user)
        })
    } else {
        Err(Error::InvalidObject)
    };
    if noted.is_err() && is_there {
        if let Some(entry) = tables.nodes.get_mut(handle) {
            entry.view = PagesView::None;
            entry.take_locks_off(locks.into());
        }
    }
    drop(tables);
    process.view_made.notify_all();
    if let (Err(_), Ok(user)) = (&noted, mapped) {
        window::end_view_here(process, Some((backing, user)));
    }
    noted.map(|user| reply(address, Some(user)))
}

/// The ioctl half of UNLOCK. For a page-backed node, it removes one use of the view; the last one
/// ends the view. For such a node, or with `by_event`, the event half must follow, and removes the
/// lock. Otherwise, this call removes the lock. `MemoryUnlocked`: there is no lock to remove.
pub(super) fn unlock(process: &Process, handle: u32, how: Unlocking) -> Result<Reply<'_>> {
    let Unlocking {
        parts,
        by_event,
        of_object,
    } = how;
    // Imports a shared node that this process has not locked: UNLOCK of it returns
    // `MemoryUnlocked`, not `InvalidObject`.
    shared::import(process, handle)?;
    let (reply, view, over) = {
        let mut tables = process.tables();
        // Waits while a LOCK of another thread is creating the view: after the last UNLOCK, nothing
        // would end that view.
        while parts.view && tables.nodes.get(handle).is_some_and(NodeEntry::gets_view) {
            if process.view_made.wait_interruptible(&mut tables) {
                return Err(Error::Interrupted);
            }
        }
        let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
        let has_lock = if of_object {
            entry.object_locks > 0
        } else {
            entry.has_plain_locks()
        };
        if parts.lock && !has_lock {
            drop(tables);
            nodes::end_if_over(process, handle);
            return Err(Error::MemoryUnlocked);
        }
        // Not in the event half: a second GEM_UNLOCK may come before it, and must not find this
        // lock.
        if of_object {
            entry.object_locks = entry.object_locks.saturating_sub(1);
        }
        let is_asynchronous = parts.lock && (by_event || entry.node.is_paged());
        let reply = if parts.lock {
            Reply::Unlocked {
                asynchronous: is_asynchronous,
                pool: entry.node.pool().number(),
                bytes: entry.bytes(),
            }
        } else {
            Reply::Unmapped
        };
        if parts.lock && !is_asynchronous {
            entry.take_locks_off(1);
        }
        let may_be_over = !is_asynchronous && entry.is_over();
        let objects = entry.object_locks.into();
        let view = match &mut entry.view {
            PagesView::At { locks, .. } if parts.view && *locks > objects => {
                *locks -= 1;
                match *locks {
                    0 => tables.hide_node(handle),
                    _ => None,
                }
            }
            _ => None,
        };
        let over = if may_be_over {
            tables.take_if_over(handle)
        } else {
            None
        };
        (reply, view, over)
    };
    window::end_view_here(process, view);
    if let Some(entry) = over {
        nodes::end_node_here(process, entry);
    }
    Ok(reply)
}

/// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: queues the event half of UNLOCK after all jobs in the ring.
pub(super) fn queue_unlock(
    process: &Arc<Process>,
    core: &Core,
    handle: u32,
    by_event: bool,
) -> Result<Reply<'static>> {
    if process.tables().nodes.get(handle).is_none() {
        return Err(Error::InvalidObject);
    }
    submission::queue_record(
        process,
        core,
        Record::Unlock {
            node: handle,
            by_event,
        },
    )
}
