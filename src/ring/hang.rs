// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: looks whether the GPU gets on, and ends jobs whose interrupt has not come.
//!
//! While jobs are under way it looks every [`PERIOD`]. If none has ended since it looked last, it
//! takes raised events itself, and reads where the front end is: behind the kernel's drain a
//! position is proof. So an interrupt that is lost costs two periods at most.

use super::{
    Payload,
    Ring,
    GPU_TIMEOUT, //
};
use crate::sys::{
    self,
    unload::InUse,
    work::Delayed, //
};
use kernel::{
    impl_has_delayed_work,
    sync::Arc,
    time::msecs_to_jiffies,
    workqueue::WorkItem, //
};

/// How often the hang check looks while jobs are under way, in milliseconds.
const PERIOD: u32 = 100;

/// Looks without any progress after which the GPU is said to hang.
const HANG_LOOKS: u32 = GPU_TIMEOUT / PERIOD;

impl_has_delayed_work! {
    impl{P: Payload} HasDelayedWork<Self> for Ring<P> { self.hang_check }
}

impl<P: Payload> Delayed for Ring<P> {
    fn in_use(&self) -> &InUse {
        &self.in_use
    }
}

impl<P: Payload> WorkItem for Ring<P> {
    type Pointer = Arc<Ring<P>>;

    fn run(this: Arc<Ring<P>>) {
        if this.look() {
            this.check_again();
        }
    }
}

impl<P: Payload> Ring<P> {
    /// Queues the hang check.
    pub(super) fn check_again(self: &Arc<Self>) {
        sys::work::enqueue_delayed::<Self, 0>(self.clone(), msecs_to_jiffies(PERIOD));
    }

    /// Waits until the hang check has seen that the ring is closed.
    pub(crate) fn dismiss_hang_check(&self) {
        sys::work::flush_delayed(&self.hang_check);
    }

    /// One look; says whether another is due.
    fn look(self: &Arc<Self>) -> bool {
        {
            let mut state = self.state.lock();
            if state.is_stopped || state.in_flight.len() == 0 {
                state.is_checked = false;
                return false;
            }
            let moved = state.completed != state.last_seen;
            state.last_seen = state.completed;
            state.idle_looks = if moved { 0 } else { state.idle_looks + 1 };
            if moved {
                return true;
            }
        }
        self.hardware.acknowledge();
        self.complete();
        let completing = self.completion.lock();
        self.end_oldest(self.passed());
        drop(completing);
        let mut state = self.state.lock();
        if state.completed == state.last_seen && state.idle_looks == HANG_LOOKS {
            drop(state);
            self.hardware.report_hang();
        } else if state.idle_looks > HANG_LOOKS {
            // Said once; no overflow however long it hangs.
            state.idle_looks = HANG_LOOKS + 1;
        }
        true
    }
}
