// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: ends jobs whose interrupts have not come, and the core's hangs.
//!
//! While jobs are under way it looks every [`PERIOD`]. If none has ended since it looked last, it
//! takes raised interrupts itself; modules that are idle a period later say that the job has ended
//! without its interrupts. A core that has not got on for [`GPU_TIMEOUT`] is reset by its own soft
//! reset, which no other core shares, and its job is dropped.

use super::Queue;
use crate::{
    ring::{
        Outcome,
        Payload,
        GPU_TIMEOUT, //
    },
    sys::{
        self,
        unload::InUse,
        work::Delayed, //
    }, //
};
use kernel::{
    impl_has_delayed_work,
    sync::Arc,
    time::msecs_to_jiffies,
    workqueue::WorkItem, //
};

/// How often the hang check looks while jobs are under way, in milliseconds.
const PERIOD: u32 = 100;

/// Looks without any progress after which an idle core has ended its job.
const IDLE_LOOKS: u32 = 2;

/// Looks without any progress after which the core hangs.
const HANG_LOOKS: u32 = GPU_TIMEOUT / PERIOD;

impl_has_delayed_work! {
    impl{P: Payload} HasDelayedWork<Self> for Queue<P> { self.hang_check }
}

impl<P: Payload> Delayed for Queue<P> {
    fn in_use(&self) -> &InUse {
        &self.in_use
    }
}

impl<P: Payload> WorkItem for Queue<P> {
    type Pointer = Arc<Queue<P>>;

    fn run(this: Arc<Queue<P>>) {
        if this.look() {
            this.check_again();
        }
    }
}

impl<P: Payload> Queue<P> {
    /// Queues the hang check.
    pub(super) fn check_again(self: &Arc<Self>) {
        sys::work::enqueue_delayed::<Self, 0>(self.clone(), msecs_to_jiffies(PERIOD));
    }

    /// Waits until the hang check has seen that the queue is closed.
    pub(crate) fn dismiss_hang_check(&self) {
        sys::work::flush_delayed(&self.hang_check);
    }

    /// One look; says whether another is due.
    fn look(&self) -> bool {
        let looks = {
            let mut state = self.state.lock();
            if state.is_stopped || state.jobs.len() == 0 {
                state.is_checked = false;
                return false;
            }
            let moved = state.completed != state.last_seen;
            state.last_seen = state.completed;
            state.idle_looks = if moved { 0 } else { state.idle_looks + 1 };
            if moved {
                return true;
            }
            state.idle_looks
        };
        self.hardware.acknowledge();
        self.complete();
        let completing = self.completion.lock();
        {
            let state = self.state.lock();
            if state.completed != state.last_seen || !state.is_running {
                return true;
            }
        }
        if looks >= IDLE_LOOKS && self.hardware.is_vector_idle() {
            self.end_oldest(Outcome::Done);
        } else if looks >= HANG_LOOKS {
            self.hardware.report_vector_hang();
            self.recover();
        }
        drop(completing);
        true
    }

    /// Resets the core, and drops the job that it hangs in. The caller holds `completion`.
    fn recover(&self) {
        if self.hardware.reset().is_ok() {
            self.state.lock().core.forget();
            self.end_oldest(Outcome::Dropped);
            return;
        }
        self.hardware.isolate();
        self.state.lock().is_dead = true;
        self.close();
        // Nothing runs any more. Ends: nobody gets a place.
        while self.state.lock().jobs.len() > 0 {
            self.end_oldest(Outcome::Dropped);
        }
    }
}
