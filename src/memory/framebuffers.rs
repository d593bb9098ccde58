// SPDX-License-Identifier: GPL-2.0-only

//! Framebuffers of other drivers that the GPU may draw into (`allowedRanges=framebuffer`).
//!
//! fbdev has no list that modules can read, but who draws into a framebuffer has mapped it. So a
//! range is known from when the first client shows that it can write there, and for good: its file
//! is kept, and with it the memory, until the device goes. Which process may name it is the
//! process's affair: see `framebuffers` of [`crate::client`].

use super::gpu_address;
use crate::{
    addr::Range,
    log::{
        RateLimit,
        ThisProcess, //
    },
    mmu::{
        Access,
        Vm, //
    },
    sys::{
        framebuffer::Framebuffer,
        widen, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// Framebuffers that a device can know.
const MOST: usize = 8;

/// Those that are not taken.
static REFUSED: RateLimit = RateLimit::new();

/// The known ones.
#[pin_data]
pub(crate) struct Framebuffers {
    base_address: u32,
    #[pin]
    known: Mutex<[Option<(Range, Framebuffer)>; MOST]>,
}

impl Framebuffers {
    /// None. GPU addresses are counted from `base_address`.
    pub(super) fn new(base_address: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            base_address,
            known <- new_mutex!([const { None }; MOST], "galcore framebuffers"),
        })
    }

    /// Has the GPU of `vm` reach what a process has mapped; returns its GPU addresses. `None`: it
    /// does not reach there, or too many are known, or there is no memory for its tables.
    pub(crate) fn admit(&self, vm: &Vm, mapped: Framebuffer) -> Option<Range> {
        let (start, bytes) = (widen(mapped.start()), mapped.bytes());
        let refuse = |why| {
            if REFUSED.allow() {
                pr_warn!(
                    "{ThisProcess}: the framebuffer at {start:#x} is not for the GPU: {why}\n"
                );
            }
        };
        let range = gpu_address(start, bytes, self.base_address)
            .and_then(|address| Range::new(address, bytes));
        let Some(range) = range else {
            refuse("it does not reach there");
            return None;
        };
        let mut known = self.known.lock();
        let is_of = |entry: &Option<(Range, _)>| match entry {
            Some((of, _)) => of.start() == range.start(),
            None => true,
        };
        // A process may have mapped less of it before.
        let place = known
            .iter()
            .position(|entry| entry.is_some() && is_of(entry))
            .or_else(|| known.iter().position(is_of));
        let Some(place) = place.and_then(|place| known.get_mut(place)) else {
            refuse("too many are known");
            return None;
        };
        if place
            .as_ref()
            .is_some_and(|(of, _)| of.last() >= range.last())
        {
            return Some(range);
        }
        if vm
            .map_for_good(range.start(), bytes, Access::ReadWrite)
            .is_err()
        {
            refuse("no memory for the MMU's tables");
            return None;
        }
        pr_info!("{ThisProcess}: has mapped a framebuffer of {bytes:#x} bytes at {start:#x}: who has may draw there\n");
        let before = place.replace((range, mapped));
        drop(known);
        // Its file is put without the lock.
        drop(before);
        Some(range)
    }
}
