// SPDX-License-Identifier: GPL-2.0-only

//! The framebuffers that a process may draw into: those that it maps for writing
//! (`allowedRanges=framebuffer`), and MAP_USER_MEMORY's memory without pages.

use super::{
    tables::{
        NamedFramebuffer,
        Tables, //
    },
    Process, //
};
use crate::{
    addr::Range,
    log::debug_client,
    memory::{
        gpu_address,
        Elsewhere, //
    },
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::{
        framebuffer,
        widen, //
    }, //
};
use kernel::io::PhysAddr;

/// A stamp that forces a search: [`framebuffer::stamp`] never returns it twice.
pub(super) const UNSEEN: usize = usize::MAX;

/// Searches for framebuffers, if the parameter asks for it and the process's mappings have
/// changed since the last search. The process's commands may name the addresses of the
/// framebuffers found until the process ends.
#[inline(always)]
pub(super) fn look_for_framebuffers(process: &Process) {
    if process.device.parameters.framebuffers {
        look_at_mappings(process);
    }
}

/// Makes the next [`look_for_framebuffers`] search, even if no mapping has changed.
pub(super) fn forget_mappings(process: &Process) {
    process.mappings_seen.store(UNSEEN, Relaxed);
}

#[cold]
#[inline(never)]
fn look_at_mappings(process: &Process) {
    let stamp = framebuffer::stamp();
    if process.mappings_seen.load(Relaxed) == stamp {
        return;
    }
    let known = process.tables().known_framebuffers();
    let Ok(mapped) = framebuffer::mapped(known.into_iter().flatten()) else {
        return;
    };
    let framebuffers = process.device.memory.framebuffers();
    for one in mapped {
        let Some(range) = framebuffers.range_of(&one) else {
            continue;
        };
        if process.tables().has_framebuffer(range) {
            continue;
        }
        let kept = one.kept();
        let Some(of) = framebuffers.admit(&process.device.vm, &kept, range) else {
            continue;
        };
        let mut named = Some(NamedFramebuffer {
            range,
            kept,
            _use: of,
        });
        let noted = process.tables().insert_framebuffer(&mut named);
        // Without the lock, drop what was not noted or was replaced.
        drop(named);
        if let Err(error) = noted {
            debug_client!("a framebuffer cannot be noted: {error:?}");
        }
    }
    process.mappings_seen.store(stamp, Relaxed);
}

/// Whether the process may use `range`, which this driver has not allocated.
pub(super) fn may_use_anyway(process: &Process, range: Range) -> bool {
    let allowed = &process.device.parameters.allowed_ranges;
    let holds = |of: &Range| of.holds(range);
    allowed.iter().flatten().any(holds) || process.tables().has_framebuffer(range)
}

/// The memory of `bytes` bytes at user address `user`, if it has no pages and the process may
/// use it.
pub(super) fn elsewhere(process: &Process, user: u64, bytes: u64) -> Option<Elsewhere> {
    Some(Elsewhere {
        address: address_without_pages(process, user, bytes)?,
        bytes: usize::try_from(bytes).ok()?,
        user: usize::try_from(user).ok()?,
    })
}

/// The GPU address of `bytes` bytes at user address `user`, if they have no pages and the
/// process may use them.
pub(super) fn address_without_pages(process: &Process, user: u64, bytes: u64) -> Option<u32> {
    let parameters = &process.device.parameters;
    if !parameters.framebuffers && parameters.allowed_ranges.iter().flatten().next().is_none() {
        return None;
    }
    let (user, bytes) = (usize::try_from(user).ok()?, usize::try_from(bytes).ok()?);
    // Search first, so that a framebuffer at `user` is known.
    forget_mappings(process);
    look_for_framebuffers(process);
    let physical = widen(framebuffer::physical_of(user, bytes)?);
    let address = gpu_address(physical, bytes, process.device.base_address)?;
    let range = Range::new(address, bytes)?;
    may_use_anyway(process, range).then_some(address)
}

impl Tables {
    /// Whether `range` lies in a framebuffer that the process's commands may name.
    fn has_framebuffer(&self, range: Range) -> bool {
        self.framebuffers.iter().any(|of| of.range.holds(range))
    }

    /// Start (a physical address) and size in bytes of each framebuffer of the process.
    fn known_framebuffers(&self) -> [Option<(PhysAddr, usize)>; framebuffer::MOST] {
        let mut all = [None; framebuffer::MOST];
        for (place, known) in all.iter_mut().zip(&self.framebuffers) {
            *place = Some((known.kept.start(), known.kept.bytes()));
        }
        all
    }

    /// Lets the process's commands name a framebuffer's addresses, and keeps its memory. Takes
    /// `named`, and puts the entry that it replaces there. `MemoryLocked`: another object has these
    /// addresses. `OutOfResources`: too many framebuffers. `OutOfMemory`.
    fn insert_framebuffer(&mut self, named: &mut Option<NamedFramebuffer>) -> Result {
        let Some(range) = named.as_ref().map(|named| named.range) else {
            return Ok(());
        };
        // Another thread may have been faster.
        if self.has_framebuffer(range) {
            return Ok(());
        }
        self.framebuffers.reserve(1, crate::sys::GFP_CLIENT)?;
        // The process may have mapped parts of the framebuffer before. The framebuffer replaces the
        // entry of one part. The other entries stay.
        let of_it = |of: &&NamedFramebuffer| range.holds(of.range);
        let place = self.framebuffers.iter().position(|of| of_it(&of));
        if place.is_none() && self.framebuffers.len() >= framebuffer::MOST {
            return Err(Error::OutOfResources);
        }
        let owner = Owner {
            kind: Kind::Framebuffer,
            // Framebuffers have no handles.
            handle: 0,
        };
        for part in self.framebuffers.iter().filter(of_it) {
            self.addresses.remove(part.range.start());
        }
        let mut insert = |range: Range| self.addresses.insert(range.start(), range.bytes(), owner);
        insert(range).inspect_err(|_| {
            // On failure the process keeps the parts. Inserting them needs no new memory. A part
            // within another part needs no range of its own.
            let is_in_another = |part: &NamedFramebuffer| {
                let mut others = self.framebuffers.iter().map(|of| of.range);
                others.any(|other| other != part.range && other.holds(part.range))
            };
            let parts = self.framebuffers.iter().filter(of_it);
            for part in parts.filter(|part| !is_in_another(part)) {
                let _ = insert(part.range);
            }
        })?;
        match place.and_then(|place| self.framebuffers.get_mut(place)) {
            Some(known) => {
                if let Some(named) = named {
                    core::mem::swap(known, named);
                }
            }
            None => {
                if let Some(named) = named.take() {
                    // Reserved above.
                    let _ = self.framebuffers.push_within_capacity(named);
                }
            }
        }
        Ok(())
    }

    /// Bytes from GPU address `address` to the end of a framebuffer of the process.
    pub(super) fn framebuffer_bytes(&self, address: u32) -> Option<u64> {
        let mut all = self.framebuffers.iter();
        let range = all.find(|of| of.range.contains(address))?.range;
        Some(u64::from(range.last() - address) + 1)
    }
}
