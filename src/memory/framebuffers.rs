// SPDX-License-Identifier: GPL-2.0-only

//! Framebuffers of other drivers that the GPU may draw into (`allowedRanges=framebuffer`).
//!
//! fbdev has no list that modules can read, but who draws into a framebuffer has mapped it. Which
//! process may name one, and has its driver keep the memory meanwhile, is the process's affair: see
//! `framebuffers` of [`crate::client`]. Here is what all have in common: where the GPU reaches it.

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

/// Framebuffers of which the log tells, each once.
const MOST: usize = 8;

/// Those that are not taken.
static REFUSED: RateLimit = RateLimit::new();

/// Those that have been shown.
#[pin_data]
pub(crate) struct Framebuffers {
    base_address: u32,
    #[pin]
    told: Mutex<[Option<u32>; MOST]>,
}

impl Framebuffers {
    /// None. GPU addresses are counted from `base_address`.
    pub(super) fn new(base_address: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            base_address,
            told <- new_mutex!([const { None }; MOST], "galcore framebuffers"),
        })
    }

    /// The GPU addresses of what a process has mapped; `None`: the GPU does not reach there.
    pub(crate) fn range_of(&self, mapped: &Framebuffer) -> Option<Range> {
        let (start, bytes) = (widen(mapped.start()), mapped.bytes());
        let range = gpu_address(start, bytes, self.base_address)
            .and_then(|address| Range::new(address, bytes));
        if range.is_none() {
            refuse(mapped, "it does not reach there");
        }
        range
    }

    /// Has the GPU of `vm` reach what a process has mapped, at `range`. Where it has once reached
    /// it always does: commands are kept from there. Says whether there is memory for its tables.
    pub(crate) fn admit(&self, vm: &Vm, mapped: &Framebuffer, range: Range) -> bool {
        // Always: what was mapped there before, of memory that was another's, may have been ended.
        let reached = vm.map_for_good(range.start(), range.bytes(), Access::ReadWrite);
        if reached.is_err() {
            refuse(mapped, "no memory for the MMU's tables");
            return false;
        }
        if self.is_new(range.start()) {
            let (start, bytes) = (widen(mapped.start()), mapped.bytes());
            pr_info!("{ThisProcess}: has mapped a framebuffer of {bytes:#x} bytes at {start:#x}: who has may draw there\n");
        }
        true
    }

    /// Whether the log has not told of the one at `start` yet, and will now.
    fn is_new(&self, start: u32) -> bool {
        let mut told = self.told.lock();
        if told.contains(&Some(start)) {
            return false;
        }
        let room = told.iter_mut().find(|place| place.is_none());
        room.map(|place| *place = Some(start)).is_some()
    }
}

/// Tells the log of one that is not for the GPU.
#[cold]
fn refuse(mapped: &Framebuffer, why: &str) {
    if REFUSED.allow() {
        let start = widen(mapped.start());
        pr_warn!("{ThisProcess}: the framebuffer at {start:#x} is not for the GPU: {why}\n");
    }
}
