// SPDX-License-Identifier: GPL-2.0-only

//! Framebuffers of other drivers that the GPU may draw into (`allowedRanges=framebuffer`).
//!
//! fbdev has no list that modules can read, but a process that draws into a framebuffer has mapped
//! it. `framebuffers` of [`crate::client`] decides which process may use a framebuffer, and keeps
//! its memory. This file maps it for the GPU, once for all processes.

use super::gpu_address;
use crate::sys::prelude::*;
use crate::{
    addr::Range,
    log::{
        RateLimit,
        ThisProcess, //
    },
    mmu::{
        Mapped,
        Vm, //
    },
    sys::{
        framebuffer::Framebuffer,
        widen, //
    }, //
};
use kernel::new_mutex;

/// The most framebuffers that are logged. Each is logged once.
const MOST_LOGGED: usize = 8;

/// Limits log lines about refused framebuffers.
static REFUSED: RateLimit = RateLimit::new();

/// A framebuffer that the GPU can reach.
struct Reached {
    range: Range,
    /// The number of processes that may use it.
    users: usize,
    /// Its mapping, if the GPU reaches it through the MMU.
    _mapping: Option<Mapped>,
}

struct State {
    reached: KVec<Reached>,
    logged: [Option<u32>; MOST_LOGGED],
}

/// The framebuffers that processes may use.
#[pin_data]
pub(crate) struct Framebuffers {
    base_address: u32,
    #[pin]
    state: Mutex<State>,
}

/// A process's use of a framebuffer. Do not drop it under a lock of the process.
pub(crate) struct Use {
    of: Arc<Framebuffers>,
    range: Range,
}

impl Drop for Use {
    fn drop(&mut self) {
        self.of.leave(self.range);
    }
}

impl State {
    /// Returns whether the framebuffer at `start` was not logged before. Marks it as logged.
    fn is_new(&mut self, start: u32) -> bool {
        if self.logged.contains(&Some(start)) {
            return false;
        }
        let room = self.logged.iter_mut().find(|place| place.is_none());
        room.map(|place| *place = Some(start)).is_some()
    }
}

impl Framebuffers {
    /// An empty set. GPU addresses count from `base_address`.
    pub(super) fn new(base_address: u32) -> Result<impl PinInit<Self>> {
        Ok(pin_init!(Self {
            base_address,
            state <- new_mutex!(State {
                reached: KVec::new(),
                logged: [None; MOST_LOGGED],
            }, "galcore framebuffers"),
        }))
    }

    /// The GPU addresses of a framebuffer that a process has mapped. `None`: the GPU cannot reach
    /// it.
    pub(crate) fn range_of(&self, mapped: &Framebuffer) -> Option<Range> {
        let (start, bytes) = (widen(mapped.start()), mapped.bytes());
        let range = gpu_address(start, bytes, self.base_address)
            .and_then(|address| Range::new(address, bytes));
        if range.is_none() {
            refuse(mapped, "it does not reach there");
        }
        range
    }

    /// Maps `kept`, which a process has mapped, at `range` for the GPU, until the returned value is
    /// dropped. `None`: out of memory. A process has at most a few.
    pub(crate) fn admit(
        self: &Arc<Self>,
        vm: &Arc<Vm>,
        kept: &Framebuffer,
        range: Range,
    ) -> Option<Use> {
        let mut state = self.state.lock();
        let known = state.reached.iter_mut().find(|one| one.range.holds(range));
        let range = match known {
            Some(one) => {
                one.users += 1;
                one.range
            }
            None => {
                let mapping = vm.map_framebuffer(kept, range).ok();
                let reached = mapping.and_then(|mapping| {
                    let one = Reached {
                        range,
                        users: 1,
                        _mapping: mapping,
                    };
                    state.reached.push(one, crate::sys::GFP_UNCHARGED).ok()
                });
                if reached.is_none() {
                    drop(state);
                    refuse(
                        kept,
                        "there is no memory to note it, or for the MMU's tables",
                    );
                    return None;
                }
                if state.is_new(range.start()) {
                    let (start, bytes) = (widen(kept.start()), kept.bytes());
                    pr_info!("{ThisProcess}: has mapped a framebuffer of {bytes:#x} bytes at {start:#x}: such processes may draw there\n");
                }
                range
            }
        };
        drop(state);
        Some(Use {
            of: self.clone(),
            range,
        })
    }

    /// Ends the use of `range` by one process.
    fn leave(&self, range: Range) {
        let mut state = self.state.lock();
        let reached = &mut state.reached;
        let Some(place) = reached.iter().position(|one| one.range == range) else {
            return;
        };
        reached[place].users -= 1;
        if reached[place].users == 0 {
            let _ = reached.remove(place);
        }
    }
}

/// Logs a framebuffer that the GPU cannot use.
#[cold]
fn refuse(mapped: &Framebuffer, why: &str) {
    if REFUSED.allow() {
        let start = widen(mapped.start());
        pr_warn!("{ThisProcess}: the framebuffer at {start:#x} is not for the GPU: {why}\n");
    }
}
