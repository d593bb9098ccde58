// SPDX-License-Identifier: GPL-2.0-only

//! A core that goes off while it has nothing to do: as one with a ring
//! ([`Ring::switch_off`](crate::ring::Ring::switch_off)), but that it stops by itself behind each
//! job.

use super::Queue;
use crate::{
    ring::{
        dismiss,
        let_go,
        Payload,
        Phase,
        Tolls,
        SLEEP_TIME, //
    },
    sys, //
};
use kernel::prelude::*;

impl<P: Payload> Queue<P> {
    /// Switches the core off. `EBUSY`: it has something to do; the hang check lets go of it later.
    pub(crate) fn switch_off(&self) -> Result {
        if self.hardware.is_cycled() {
            self.hardware.switch_off();
            return Ok(());
        }
        let completing = self.completion.lock();
        {
            let mut state = self.state.lock();
            let is_open = !(state.phase.is_stopped() || state.is_paused);
            let is_kept_on = self.hardware.supply().is_kept_on() && !state.phase.is_asleep();
            let is_at_rest = is_open && !state.is_checked && state.jobs.len() == 0 && !is_kept_on;
            if !is_at_rest && state.phase != Phase::Dead {
                return Err(EBUSY);
            }
            // From now on jobs wait.
            state.is_off = true;
            state.core.forget();
        }
        self.hardware.switch_off();
        drop(completing);
        Ok(())
    }

    /// Switches the core on, and starts what has come meanwhile. An error, which has been printed,
    /// is final.
    pub(crate) fn switch_on(&self) -> Result {
        if self.hardware.is_cycled() {
            return self.hardware.switch_on_cycled();
        }
        if self.is_dead() {
            return self.hardware.switch_on_isolated();
        }
        self.hardware.switch_on()?;
        let completing = self.completion.lock();
        self.hardware.set_vector_table(self.setup.table);
        let mut state = self.state.lock();
        state.is_off = false;
        state.raised = 0;
        self.start_next(&mut state);
        drop(state);
        drop(completing);
        Ok(())
    }

    /// Keeps the core on for what is under way; says whether it is. If it cannot be switched on it
    /// is given up.
    pub(super) fn hold_power(&self) -> bool {
        let is_on = self.hardware.hold();
        if !is_on {
            self.lose();
        }
        is_on
    }

    /// It is said to be at its lowest clock until it has something to do, if it is on and has
    /// nothing now: it has only one.
    pub(crate) fn slow_down(&self) {
        let state = self.state.lock();
        if !state.is_off && !state.is_checked && state.jobs.len() == 0 {
            self.hardware.set_slow(true);
        }
    }

    /// Has what kept the core on for jobs that have ended let go of it now.
    pub(crate) fn let_go(&self) {
        let_go(
            || sys::work::flush_delayed(&self.hang_check),
            || {
                let state = self.state.lock();
                state.is_checked && state.jobs.len() == 0
            },
        );
    }

    /// Drops what is under way, by nobody's guilt, and tells its processes and the log. The front
    /// end must be stopped for good, or cut off from memory.
    pub(crate) fn lose(&self) {
        self.close();
        let mut tolls = Tolls::new();
        {
            let state = self.state.lock();
            for job in state.jobs.loads() {
                tolls.note(job.process, false, true);
            }
        }
        P::core_was_reset(self.setup.core, tolls.all());
        self.abandon();
        self.hardware.tell_dropped(tolls.dropped());
    }

    /// The machine is going to sleep: waits for what is under way, and lets nothing begin. `EBUSY`:
    /// it does not end for twice [`SLEEP_TIME`], and is not taken for a hang or too long. Nothing of
    /// it is held: a job rests on states that
    /// the one in front of it has left.
    pub(crate) fn fall_asleep(&self) -> Result {
        let newest = {
            let mut state = self.state.lock();
            state.phase.fall_asleep();
            state.jobs.newest()
        };
        let longest = self.setup.timeout.max(self.setup.job_timeout);
        if !self.poll_for(newest, longest.saturating_add(2 * SLEEP_TIME)) {
            self.hardware.tell_sleepless();
            self.wake_up();
            return Err(EBUSY);
        }
        dismiss(
            || sys::work::flush_delayed(&self.hang_check),
            || self.state.lock().is_checked,
        );
        Ok(())
    }

    /// The machine is awake.
    pub(crate) fn wake_up(&self) {
        self.hardware.supply().wake_if_kept();
        let mut state = self.state.lock();
        state.phase.wake_up();
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }
}
