// SPDX-License-Identifier: GPL-2.0-only

//! Which framebuffers a process may draw into: those that it has mapped for writing
//! (`allowedRanges=framebuffer`), and memory of MAP_USER_MEMORY that has no pages.

use super::{
    tables::Tables,
    Process, //
};
use crate::{
    addr::Range,
    error::Result,
    log::debug_client,
    memory::gpu_address,
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::{
        framebuffer,
        widen, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

/// Not a number that [`framebuffer::stamp`] would give twice.
pub(super) const UNSEEN: usize = usize::MAX;

impl Process {
    /// Looks for framebuffers, if they are wanted and the process has mapped something since it was
    /// looked last. Of one that is found its commands may name the addresses from now on, as long
    /// as the process lives.
    #[inline(always)]
    pub(super) fn look_for_framebuffers(&self) {
        if self.device.parameters().framebuffers {
            self.look_at_mappings();
        }
    }

    /// Has it look the next time, whatever the process has done since.
    pub(super) fn forget_mappings(&self) {
        self.mappings_seen.store(UNSEEN, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn look_at_mappings(&self) {
        let stamp = framebuffer::stamp();
        if self.mappings_seen.load(Relaxed) == stamp {
            return;
        }
        let Ok(mapped) = framebuffer::mapped() else {
            return;
        };
        let memory = self.device.memory();
        for one in mapped {
            let range = memory.framebuffers().admit(self.device.vm(), one);
            if let Some(range) = range {
                let noted = self.tables().insert_framebuffer(range);
                if let Err(error) = noted {
                    debug_client!("a framebuffer cannot be noted: {error:?}");
                }
            }
        }
        self.mappings_seen.store(stamp, Relaxed);
    }

    /// The ranges that the process may use without having got them from this driver.
    pub(super) fn may_use_anyway(&self, range: Range) -> bool {
        let allowed = &self.device.parameters().allowed_ranges;
        let holds = |of: &Range| of.holds(range);
        allowed.iter().flatten().any(holds) || self.tables().framebuffers.iter().any(holds)
    }

    /// The GPU address of `bytes` bytes at user address `user`, if they are memory without pages
    /// that the process may use.
    pub(super) fn address_without_pages(&self, user: u64, bytes: u64) -> Option<u32> {
        let parameters = self.device.parameters();
        if !parameters.framebuffers && parameters.allowed_ranges.iter().flatten().next().is_none() {
            return None;
        }
        let (user, bytes) = (usize::try_from(user).ok()?, usize::try_from(bytes).ok()?);
        // First, so that what is mapped is found whose address is looked up.
        self.forget_mappings();
        self.look_for_framebuffers();
        let physical = widen(framebuffer::physical_of(user, bytes)?);
        let address = gpu_address(physical, bytes, self.device.base_address())?;
        let range = Range::new(address, bytes)?;
        self.may_use_anyway(range).then_some(address)
    }
}

impl Tables {
    /// Has the process's commands name a framebuffer's addresses. `MemoryLocked`: they are another
    /// object's. `OutOfMemory`. Then they may not.
    fn insert_framebuffer(&mut self, range: Range) -> Result {
        let of_it = |of: &Range| of.start() == range.start();
        let known = self.framebuffers.iter().position(of_it);
        if let Some(known) = known.and_then(|place| self.framebuffers.get(place)) {
            if known.last() >= range.last() {
                return Ok(());
            }
        }
        self.framebuffers.reserve(1, GFP_KERNEL_ACCOUNT)?;
        if known.is_some() {
            self.addresses.remove(range.start());
            self.framebuffers.retain(|of| !of_it(of));
        }
        let owner = Owner {
            kind: Kind::Framebuffer,
            // It has none.
            handle: 0,
        };
        self.addresses.insert(range.start(), range.bytes(), owner)?;
        Ok(self.framebuffers.push(range, GFP_KERNEL_ACCOUNT)?)
    }

    /// How many bytes of a framebuffer of the process's lie at GPU address `address` and behind it.
    pub(super) fn framebuffer_bytes(&self, address: u32) -> Option<u64> {
        let mut all = self.framebuffers.iter();
        let range = all.find(|range| range.contains(address))?;
        Some(u64::from(range.last() - address) + 1)
    }
}
