// SPDX-License-Identifier: GPL-2.0-only

//! Takes memory of one process out of its windows when no caller waits for that.
//!
//! A record has freed it, or the thread that freed it by an ioctl was killed meanwhile. It can take
//! long, windows times pages: so each process has a list and a work item of its own, and delays its
//! own memory alone. While the process is being killed, its windows are about to end anyway, and
//! each waits for the step under way: so the work item gives way.
//!
//! The list's lock is `galcore revoking`, a leaf.

use super::{
    Count,
    Reclaimer,
    Retired, //
};
use crate::{
    prelude::*,
    sys::vma::Views, //
};
use kernel::{
    impl_has_work,
    list::List,
    new_spinlock,
    new_work,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

/// The time that a process that is being killed has between two steps, in milliseconds.
const GAP: i64 = 50;

/// How often it has that: enough for an end, and a bound if others go on using its files.
const GAPS: u32 = 40;

struct Queue {
    items: List<Retired>,
    /// The items that have come, and are revoked.
    count: Count,
}

/// Unmaps memory of one process from its windows.
#[pin_data]
pub(crate) struct Revoker {
    views: Arc<Views>,
    owner: ARef<Task>,
    reclaimer: Arc<Reclaimer>,
    /// The owner's remaining gaps.
    gaps: Atomic<u32>,
    #[pin]
    queue: SpinLock<Queue>,
    #[pin]
    work: Work<Revoker>,
}

impl_has_work! {
    impl HasWork<Self> for Revoker { self.work }
}

impl WorkItem for Revoker {
    type Pointer = Arc<Revoker>;

    fn run(this: Arc<Revoker>) {
        this.revoke_all();
    }
}

impl Revoker {
    /// The revoker of the windows `views` of the process of `owner`. `ENOMEM`.
    pub(crate) fn new(
        views: Arc<Views>,
        owner: ARef<Task>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, Errno> {
        Arc::pin_init(
            pin_init!(Self {
                views,
                owner,
                reclaimer,
                gaps: Atomic::new(GAPS),
                queue <- new_spinlock!(
                    Queue {
                        items: List::new(),
                        count: Count::default(),
                    },
                    "galcore revoking"
                ),
                work <- new_work!("galcore revoking"),
            }),
            sys::GFP_CLIENT,
        )
    }

    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// The items that have come, and are revoked.
    pub(super) fn count(&self) -> Count {
        self.queue.lock().count
    }

    /// Revokes `item` later, and releases it then.
    pub(super) fn revoke_later(self: &Arc<Self>, item: ListArc<Retired>) {
        self.reclaimer.note(true, |state| &mut state.revokes);
        let mut queue = self.queue.lock();
        queue.items.push_back(item);
        queue.count.begun += 1;
        drop(queue);
        sys::work::enqueue(self.clone());
    }

    fn revoke_all(&self) {
        // Bounded: the number of the process's objects is, and that of each one's steps.
        loop {
            let item = self.queue.lock().items.pop_front();
            let Some(item) = item else {
                return;
            };
            item.revoke(|| {
                self.give_way();
                false
            });
            self.reclaimer.retire(None, item);
            self.queue.lock().count.ended += 1;
            self.reclaimer.note(false, |state| &mut state.revokes);
            sys::yield_if_due();
        }
    }

    /// Gives the owner's windows time to end, if they are about to.
    fn give_way(&self) {
        let left = self.gaps.load(Relaxed);
        if left > 0 && self.views.are_shown() && sys::is_ending(&self.owner) {
            // Only the work item changes it.
            self.gaps.store(left - 1, Relaxed);
            fsleep(Delta::from_millis(GAP));
        }
    }
}
