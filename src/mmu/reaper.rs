// SPDX-License-Identifier: GPL-2.0-only

//! Stale translations: the TLBs of the cores, and the reaper of mappings that have ended.
//!
//! A core keeps translations in its TLB until its ring flushes the TLB. So changes of the tables
//! are counted ([`Vm::changes`]). If there were changes since the last flush, a core flushes its
//! TLB before its next job. The pages and addresses of an ended mapping stay allocated until every
//! TLB ([`Tlb`]) has been flushed after the end of the mapping. Then the reaper, a work item, frees
//! them. It also flushes the TLBs of cores without jobs. This module does not depend on rings.

use super::{
    stale::{
        flushed_by_all,
        Stale, //
    },
    Kept,
    StateGuard,
    Vm, //
};
use crate::{
    prelude::*,
    wait::{
        self,
        Left, //
    }, //
};
use kernel::{
    impl_has_work,
    workqueue::WorkItem, //
};

/// The TLB of a core.
pub(crate) trait Tlb: Send + Sync {
    /// The newest change that the last flush covers.
    /// [`NO_TRANSLATIONS`](super::NO_TRANSLATIONS): the core is off.
    fn flushed(&self) -> u64;

    /// If the core can take a job now, submits a flush for all changes so far. If it cannot, and a
    /// job is under way, the end of that job calls [`Vm::flushed`]. Does not wait.
    fn flush(self: Arc<Self>);
}

impl_has_work! {
    impl HasWork<Self> for Vm { self.reaper }
}

impl WorkItem for Vm {
    type Pointer = Arc<Vm>;

    fn run(this: Arc<Vm>) {
        this.reap();
    }
}

impl Vm {
    /// Adds core `core`, whose TLB is `tlb`. `ENOMEM`.
    pub(crate) fn attach(&self, core: usize, tlb: Arc<dyn Tlb>) -> Result<(), Errno> {
        Ok(self.tlbs.lock().push((core, tlb), GFP_KERNEL)?)
    }

    /// Removes core `core`, and frees the ended mappings that only its TLB could still hold.
    pub(crate) fn detach(&self, core: usize) {
        let mut tlbs = self.tlbs.lock();
        let place = tlbs.iter().position(|(other, _)| *other == core);
        let tlb = place.and_then(|place| tlbs.remove(place).ok());
        drop(tlbs);
        drop(tlb);
        self.reap();
    }

    /// The number of the newest change. A TLB flush by a job that is submitted after this call
    /// covers this change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Counts a change of the tables.
    pub(super) fn note_change(&self) -> u64 {
        // The page table entries must be in memory before a flush that covers this change.
        sys::barrier::write();
        self.changes.fetch_add(1, Release) + 1
    }

    /// Queues the reaper if ended mappings wait for it. Called when a TLB may have been flushed.
    /// Takes no lock. Before this call, the caller must change the result of [`Tlb::flushed`], with
    /// full ordering. So if this call misses a mapping that ends concurrently, the reaper that
    /// `retire` queues reads the new result.
    pub(crate) fn flushed(self: &Arc<Self>) {
        if self.has_stale.load(Relaxed) {
            self.queue_reaper();
        }
    }

    /// Adds an ended mapping, which no table has any more, to the stale list. What it keeps is
    /// freed after the TLBs have been flushed.
    pub(super) fn retire(self: &Arc<Self>, mut state: StateGuard<'_>, stale: ListArc<Stale<Kept>>) {
        // Under the lock, to keep the list in the order of the changes.
        let change = self.note_change();
        state.stale.push(stale, change);
        state.ended += 1;
        self.has_stale.store(true, Relaxed);
        drop(state);
        self.queue_reaper();
    }

    /// How many mappings have ended and are not freed yet.
    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        // CAST: fits, because each of these mappings occupies memory.
        (state.ended - state.freed) as usize
    }

    /// Waits until all mappings that have ended so far are freed. Without progress, it returns `Ok`
    /// after a while. `Interrupted`: a Unix signal came. A work item must not call this.
    pub(crate) fn wait_for_reclaim(&self) -> Result {
        self.wait_for_stale()?;
        if self.tables.has_spaces && self.tables.flat.is_some() {
            // The freed views may have been the last users of mappings in version 1's table.
            self.wait_for_stale()
        } else {
            Ok(())
        }
    }

    fn wait_for_stale(&self) -> Result {
        let mut state = self.state.lock();
        let wanted = state.ended;
        let limit = (wait::TIMEOUT, true);
        let waited = wait::while_progressing(&self.reclaimed, &mut state, limit, |state| {
            Ok(if state.freed < wanted {
                Left::Something(state.freed)
            } else {
                Left::Nothing
            })
        });
        match waited {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    fn queue_reaper(self: &Arc<Self>) {
        sys::work::enqueue(self.clone());
    }

    /// Frees the ended mappings that no TLB can still have. If others are left, flushes the TLBs.
    fn reap(&self) {
        let flushed = {
            // An upper bound, so it is read before the TLBs. A core that is off now may start, and
            // then load a translation of a mapping that ends after this read.
            let newest = self.changes();
            let tlbs = self.tlbs.lock();
            flushed_by_all(newest, tlbs.iter().map(|(_, tlb)| tlb.flushed()))
        };
        loop {
            let mut state = self.state.lock();
            let Some(stale) = state.stale.pop(flushed) else {
                self.has_stale.store(!state.stale.is_empty(), Relaxed);
                if state.stale.is_empty() {
                    return;
                }
                break;
            };
            let (mut space, mut addresses) = (None, None);
            match &stale.kept {
                Kept::Pages { .. } => state.room.give(stale.first(), stale.count),
                Kept::Object { given, .. } => addresses = given.as_ref(),
                Kept::Space { space: over } => {
                    space = state.spaces.get_mut(over.entry()).and_then(Option::take);
                }
                // These are linear mappings, whose addresses are not allocated.
                Kept::Memory { .. } | Kept::Framebuffer { .. } => {}
            }
            drop(state);
            drop(space);
            let _ = addresses.map(|given| given.give(stale.count));
            // Dropped without the lock, because it may have many pages.
            drop(stale);
            self.state.lock().freed += 1;
            self.reclaimed.notify_all();
            sys::yield_if_due();
        }
        for (_, tlb) in self.tlbs.lock().iter() {
            tlb.clone().flush();
        }
    }
}
