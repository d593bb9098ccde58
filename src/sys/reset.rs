// SPDX-License-Identifier: GPL-2.0-only

//! The reset lines of a device: `resets` in its node.

use super::{
    prelude::*,
    raw_device,
    shim, //
};
use kernel::{
    bindings,
    device,
    time::delay::fsleep, //
};

/// Milliseconds that a device is held in reset.
const HOLD_TIME: i64 = 1;

/// All reset lines of a device, driven as one, which no other device uses.
///
/// # Invariants
///
/// `0` is a live reset control, which only `Drop` puts.
pub(crate) struct ResetLine(NonNull<bindings::reset_control>);

// SAFETY: Reset controls may be used by any thread.
unsafe impl Send for ResetLine {}
// SAFETY: As above; their controller orders what several threads do.
unsafe impl Sync for ResetLine {}

impl ResetLine {
    /// The lines in the node of `dev`, if any. Releases `dev` from reset. `EPROBE_DEFER`: the
    /// controller does not exist yet.
    pub(crate) fn get(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        // SAFETY: The reference guarantees a live, bound device.
        let line = from_err_ptr(unsafe { shim::gal_get_reset(raw_device(dev)) })?;
        // INVARIANT: Got just now.
        let Some(line) = NonNull::new(line).map(Self) else {
            return Ok(None);
        };
        match line.drive(false) {
            // A controller that can only pulse has the device out of reset.
            Ok(()) | Err(ENOTSUPP) => Ok(Some(line)),
            Err(error) => Err(error),
        }
    }

    /// Resets the device, which loses all of its state.
    pub(crate) fn pulse(&self) -> Result {
        match self.drive(true) {
            Ok(()) => {
                fsleep(Delta::from_millis(HOLD_TIME));
                self.drive(false)
            }
            // SAFETY: By the type invariant the reset control has not been put.
            Err(ENOTSUPP) => to_result(unsafe { shim::gal_pulse_reset(self.0.as_ptr()) }),
            Err(error) => Err(error),
        }
    }

    fn drive(&self, is_held: bool) -> Result {
        // SAFETY: By the type invariant the reset control has not been put.
        to_result(unsafe { shim::gal_drive_reset(self.0.as_ptr(), is_held) })
    }
}

impl Drop for ResetLine {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reset control has not been put, and nothing uses it
        // after this drop.
        unsafe { shim::gal_put_reset(self.0.as_ptr()) }
    }
}
