// SPDX-License-Identifier: GPL-2.0-only

//! The hang check: ends jobs whose interrupts have not come, and the core's hangs.
//!
//! While jobs are under way it looks every [`PERIOD`]. If none has ended since it looked last, it
//! takes raised interrupts itself; modules that are idle a period later say that the job has ended
//! without its interrupts. A core whose front end has not moved for `gpuTimeout` either is reset by
//! its own soft reset, which no other core shares, and its job is dropped.

use super::Queue;
use crate::{
    ring::{
        Outcome,
        Payload, //
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

/// Looks without any progress after which the core hangs, for the parameter `gpuTimeout`; 0: never.
/// The first look only learns where the core is.
pub(super) fn hang_looks(timeout: u32) -> u32 {
    match timeout {
        0 => 0,
        _ => timeout.div_ceil(PERIOD).max(IDLE_LOOKS) + 1,
    }
}

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
        let position = self.hardware.position();
        let (idle, still) = {
            let mut state = self.state.lock();
            if state.is_stopped || state.jobs.len() == 0 {
                state.is_checked = false;
                return false;
            }
            let has_ended = state.completed != state.last_seen;
            let has_moved = state.position != position;
            state.last_seen = state.completed;
            state.position = position;
            // Saturates: it may stand for ever if it is not to be reset.
            state.idle_looks = state.idle_looks.saturating_add(1);
            state.still_looks = state.still_looks.saturating_add(1);
            if has_ended {
                state.idle_looks = 0;
            }
            if has_ended || has_moved {
                state.still_looks = 0;
            }
            if has_ended {
                return true;
            }
            (state.idle_looks, state.still_looks)
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
        if idle >= IDLE_LOOKS && self.hardware.is_vector_idle() {
            self.end_oldest(Outcome::Done);
        } else if self.hang_looks != 0 && still >= self.hang_looks {
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

#[kernel::macros::kunit_tests(galcore_vector_hang)]
mod tests {
    use super::hang_looks;

    #[test]
    fn the_time_is_counted_in_looks() {
        assert_eq!(hang_looks(0), 0);
        // An idle core has ended its job; that is found out first.
        assert_eq!(hang_looks(1), 3);
        assert_eq!(hang_looks(300), 4);
        assert_eq!(hang_looks(301), 5);
        assert_eq!(hang_looks(5000), 51);
    }
}
