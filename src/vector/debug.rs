// SPDX-License-Identifier: GPL-2.0-only

//! What the admin does to a queue by `/proc/driver/gc`: as to a ring, but that there are no LINKs.

use super::{
    state::State,
    Queue, //
};
use crate::{
    modes::{
        self,
        Mode, //
    },
    ring::{
        Payload,
        Phase,
        RESET_TIME, //
    },
    wait, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl<P> State<P> {
    /// Does from now on what the admin wants.
    pub(super) fn follow_modes(&mut self) {
        self.prints = modes::is_on(Mode::Commands);
    }

    /// Whether there is something to be reset.
    pub(super) fn may_be_reset(&self) -> bool {
        self.phase == Phase::Open && !self.is_off
    }
}

impl<P: Payload> Queue<P> {
    /// The modes have changed.
    pub(crate) fn follow_modes(&self) {
        self.state.lock().follow_modes();
    }

    /// Resets the core, unless it is off: then it is reset as it comes on. What is under way gets a
    /// moment to end; then the job that runs is dropped, and what its process has behind it. Nobody
    /// is guilty. Waits until it is done, [`RESET_TIME`] at most.
    pub(crate) fn reset_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            if !state.may_be_reset() {
                return;
            }
            state.is_reset_asked = true;
            !core::mem::replace(&mut state.is_checked, true)
        };
        if checks {
            self.check_soon(true);
        }
        let is_done = || (!self.state.lock().is_reset_asked).then_some(());
        if wait::poll(RESET_TIME, is_done).is_none() {
            dev_warn!(
                self.hardware.device(),
                "the reset that was asked for takes long\n"
            );
        }
    }

    /// Lets the core raise interrupts from now on, or not. If not, the hang check finds what has
    /// ended.
    pub(crate) fn set_interrupts(&self, on: bool) {
        self.hardware.set_silenced(!on);
        let _completing = self.completion.lock();
        if self.state.lock().phase.is_stopped() || self.hardware.is_isolated() {
            return;
        }
        let kept_on = self.hardware.supply().if_on();
        // One that is off is told with its next job.
        if let Some(_kept_on) = kept_on.filter(|_| self.hardware.is_on()) {
            self.hardware.enable_vector_interrupts();
        }
    }
}
