// SPDX-License-Identifier: GPL-2.0-only

//! Memory of one process that is to be taken out of its windows, by nobody who waits for that.
//!
//! A record has freed it, or who freed it by an ioctl was killed meanwhile. That can take long, as
//! it costs windows times pages: so each process has a list and a work item of its own, and pays
//! with its own memory's return alone. While the process is being killed, its windows are about to
//! go anyway, and each of them waits for the step under way: so the work item gives way then.
//!
//! The list's lock is `galcore hiding`, a leaf.

use super::reclaim::{
    Reclaimer,
    Retired, //
};
use crate::{
    error::Result,
    sys::{
        self,
        views::Views, //
    },
};
use kernel::{
    impl_has_work,
    list::{
        List,
        ListArc, //
    },
    new_spinlock, new_work,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    task::Task,
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// How long a process that is being killed has between two steps, in milliseconds.
const GAP: i64 = 50;

/// How often it has that: an end takes less. One whose files others go on using has ended long ago.
const GAPS: u32 = 40;

/// Items of a process, in order.
struct Queue {
    items: List<Retired>,
    /// How many have come, and how many have been hidden.
    begun: u64,
    ended: u64,
}

/// What hides memory of one process.
#[pin_data]
pub(crate) struct Hider {
    views: Arc<Views>,
    owner: ARef<Task>,
    reclaimer: Arc<Reclaimer>,
    /// How often the owner can still have a gap.
    gaps: Atomic<u32>,
    #[pin]
    queue: SpinLock<Queue>,
    #[pin]
    work: Work<Hider>,
}

impl_has_work! {
    impl HasWork<Self> for Hider { self.work }
}

impl WorkItem for Hider {
    type Pointer = Arc<Hider>;

    fn run(this: Arc<Hider>) {
        this.hide_all();
    }
}

impl Hider {
    /// One for the windows `views` of the process of `owner`. `ENOMEM`.
    pub(crate) fn new(
        views: Arc<Views>,
        owner: ARef<Task>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        Arc::pin_init(
            pin_init!(Self {
                views,
                owner,
                reclaimer,
                gaps: Atomic::new(GAPS),
                queue <- new_spinlock!(
                    Queue {
                        items: List::new(),
                        begun: 0,
                        ended: 0,
                    },
                    "galcore hiding"
                ),
                work <- new_work!("galcore hiding"),
            }),
            sys::GFP_CLIENT,
        )
    }

    /// The windows.
    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// How many items have come, and how many have been hidden.
    pub(super) fn counts(&self) -> (u64, u64) {
        let queue = self.queue.lock();
        (queue.begun, queue.ended)
    }

    /// Hides `item` some time, and lets go of it then.
    pub(super) fn hide_later(self: &Arc<Self>, item: ListArc<Retired>) {
        self.reclaimer.note_hiding(true);
        let mut queue = self.queue.lock();
        queue.items.push_back(item);
        queue.begun += 1;
        drop(queue);
        sys::work::enqueue(self.clone());
    }

    /// The work item.
    fn hide_all(&self) {
        // Ends: the process has so many objects at most, and each is hidden in so many steps.
        loop {
            let item = self.queue.lock().items.pop_front();
            let Some(item) = item else {
                return;
            };
            item.hide(|| {
                self.give_way();
                false
            });
            self.reclaimer.retire(item);
            self.queue.lock().ended += 1;
            self.reclaimer.note_hiding(false);
            sys::yield_if_due();
        }
    }

    /// Lets the owner's windows go, if they are about to.
    fn give_way(&self) {
        let left = self.gaps.load(Relaxed);
        if left > 0 && self.views.are_shown() && sys::is_ending(&self.owner) {
            // Only the work item counts.
            self.gaps.store(left - 1, Relaxed);
            fsleep(Delta::from_millis(GAP));
        }
    }
}
