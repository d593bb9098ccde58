// SPDX-License-Identifier: GPL-2.0-only

//! What clients let go of: kept until the GPU cannot use it any more, then dropped by a work item.
//!
//! [`Retired`] is made together with the memory that it will keep, so that letting go needs no memory and
//! cannot fail. Its way: if windows of the process may show it, it is taken out of them; then it is tied
//! to the newest submission under way; when that has ended it is dropped. The first and the last step can
//! be long, and are the work item's: never the interrupt's thread's.

use super::{
    Ring,
    GPU_TIMEOUT, //
};
use crate::{
    client::{
        action::Held,
        Process, //
    },
    error::Result,
    sys::{
        self,
        views::Views, //
    }, //
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        ListArc,
        ListLinks, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::msecs_to_jiffies, //
};

/// Bytes up to which something is dropped by who lets go of it, if nothing is under way.
const SMALL: usize = 1 << 20;

/// The newest submission, whichever it is.
const NEWEST: u64 = u64::MAX;

/// A part of the pool that windows may show.
pub(crate) struct Shown {
    /// The process's windows.
    pub(crate) views: Arc<Views>,
    /// Offset in the pool, and bytes.
    pub(crate) range: (usize, usize),
}

/// Something that a client has let go of, or will.
#[pin_data]
pub(crate) struct Retired {
    #[pin]
    links: ListLinks,
    held: Held,
    shown: Option<Shown>,
    /// Bytes of `shown` that some window may still show, at its end.
    to_hide: Atomic<usize>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Retired { untracked; }
}

impl_list_item! {
    impl ListItem<0> for Retired { using ListLinks { self.links }; }
}

impl Retired {
    /// Prepares to let go of `held`, which lies in `shown`, if in the pool. `OutOfMemory`.
    pub(crate) fn new(held: Held, shown: Option<Shown>) -> Result<ListArc<Self>> {
        Ok(ListArc::pin_init(
            try_pin_init!(Self {
                links <- ListLinks::new(),
                held,
                shown,
                to_hide: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?)
    }

    /// From now on no window can show it that does not already, but some may: they are to be cleared.
    pub(crate) fn leaves_windows(&self) {
        if let Some(shown) = &self.shown {
            self.to_hide.store(shown.range.1, Relaxed);
        }
    }

    fn may_be_shown(&self) -> bool {
        self.to_hide.load(Relaxed) != 0
    }

    /// Takes it out of all windows, in steps, until `stop` says so.
    fn hide(&self, stop: impl Fn() -> bool) {
        let Some(Shown { views, range }) = &self.shown else {
            return;
        };
        loop {
            let left = self.to_hide.load(Relaxed);
            if left == 0 || stop() {
                return;
            }
            let done = views.zap(range.0 + (range.1 - left), left);
            self.to_hide.store(left - done, Relaxed);
            sys::yield_if_due();
        }
    }
}

impl Ring {
    /// Lets go of `item`: behind everything that is in the ring now, when no window shows it any more.
    /// Takes no longer than a lock.
    pub(crate) fn retire(self: &Arc<Self>, item: ListArc<Retired>) {
        self.retire_behind(NEWEST, item);
    }

    /// The same, behind submission `number`.
    pub(crate) fn retire_behind(self: &Arc<Self>, number: u64, item: ListArc<Retired>) {
        if let Some(item) = self.try_retire(number, item) {
            self.reclaim_later(item);
        }
    }

    /// The same as [`Ring::retire`] by a thread that has the time to do it, until it is killed: what is
    /// small and not in use is gone when this returns. No lock may be held.
    pub(crate) fn retire_here(self: &Arc<Self>, item: ListArc<Retired>) {
        item.hide(sys::is_killed);
        match self.try_retire(NEWEST, item) {
            Some(item) if !item.may_be_shown() && item.held.bytes() <= SMALL => drop(item),
            Some(item) => self.reclaim_later(item),
            None => {}
        }
    }

    /// Ties `item` to submission `number`, or to the newest before; gives it back if it need not wait for the
    /// GPU, or must be hidden first.
    fn try_retire(&self, number: u64, item: ListArc<Retired>) -> Option<ListArc<Retired>> {
        if item.may_be_shown() {
            return Some(item);
        }
        let mut state = self.state.lock();
        match state.in_flight.load_at(number) {
            Some(load) => {
                load.retired.push_back(item);
                load.retired_count += 1;
                None
            }
            None => Some(item),
        }
    }

    /// Hands `item` to the work item.
    fn reclaim_later(self: &Arc<Self>, item: ListArc<Retired>) {
        let mut state = self.state.lock();
        state.reclaims.push_back(item);
        state.reclaims_begun += 1;
        drop(state);
        self.queue_reclaim();
    }

    pub(super) fn queue_reclaim(self: &Arc<Self>) {
        let _ = sys::work::queue().enqueue::<Arc<Self>, 1>(self.clone());
    }

    /// Drops what may be dropped, and hides what must be hidden. The work item.
    pub(super) fn reclaim(self: &Arc<Self>) {
        // Ends: what comes back to the list has been hidden.
        loop {
            let item = self.state.lock().reclaims.pop_front();
            let Some(item) = item else {
                return;
            };
            if item.may_be_shown() {
                item.hide(|| false);
                self.retire(item);
            } else if let Held::Process(process) = &item.held {
                Process::go_on_ending(process.clone());
            } else {
                drop(item);
            }
            let mut state = self.state.lock();
            state.reclaims_ended += 1;
            let waiters = state.waiters > 0;
            drop(state);
            if waiters {
                self.moved.notify_all();
            }
            sys::yield_if_due();
        }
    }

    /// Counts a process that begins to end, or has ended.
    pub(crate) fn note_ending(&self, begins: bool) {
        let mut state = self.state.lock();
        state.endings = match begins {
            true => state.endings + 1,
            false => state.endings - 1,
        };
    }

    /// How many objects have been let go of and are not dropped yet, and how many processes have begun to end
    /// and have not.
    pub(crate) fn pending(&self) -> (usize, usize) {
        let state = self.state.lock();
        let kept: u64 = state.in_flight.loads().map(|load| load.retired_count).sum();
        let reclaims = state.reclaims_begun - state.reclaims_ended;
        // CAST: each of them takes memory.
        ((kept + reclaims) as usize, state.endings)
    }

    /// Whether something that has been let go of is not dropped yet.
    pub(crate) fn has_reclaims(&self) -> bool {
        let state = self.state.lock();
        state.endings != 0 || state.reclaims_ended != state.reclaims_begun
    }

    /// Waits until what had been let go of is free, as far as the GPU goes on. `Interrupted`: a Unix signal
    /// came. `GpuNotResponding`: the GPU makes no progress. Not for actions or the work queue.
    pub(crate) fn settle(&self) -> Result {
        // Once for what must be hidden, once for what must be dropped.
        self.wait_for_reclaims()?;
        self.wait_for_progress(self.newest())?;
        self.wait_for_reclaims()
    }

    fn wait_for_reclaims(&self) -> Result {
        let mut state = self.state.lock();
        let wanted = state.reclaims_begun;
        let mut left = msecs_to_jiffies(GPU_TIMEOUT);
        while state.reclaims_ended < wanted {
            let before = state.reclaims_ended;
            left = self.wait(&mut state, left)?;
            if state.reclaims_ended != before {
                left = msecs_to_jiffies(GPU_TIMEOUT);
            }
        }
        Ok(())
    }
}
