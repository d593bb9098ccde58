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

/// How long a device is held in reset, in milliseconds.
const HOLD_TIME: i64 = 1;

/// All reset lines of a device, driven together. No other device uses them.
///
/// # Invariants
///
/// `0` is a live reset control, which only `Drop` puts.
pub(crate) struct ResetLine(NonNull<bindings::reset_control>);

// SAFETY: Any thread may use reset controls.
unsafe impl Send for ResetLine {}
// SAFETY: As above. Their controller handles concurrent calls.
unsafe impl Sync for ResetLine {}

impl ResetLine {
    /// Gets the lines in the node of `dev`, if any. Releases `dev` from reset. `EPROBE_DEFER`: the
    /// controller does not exist yet.
    pub(crate) fn get(dev: &device::Device<device::Bound>) -> Result<Option<Self>> {
        // SAFETY: The reference guarantees a live, bound device.
        let line = from_err_ptr(unsafe { shim::gal_get_reset(raw_device(dev)) })?;
        // INVARIANT: Acquired just now.
        let Some(line) = NonNull::new(line).map(Self) else {
            return Ok(None);
        };
        match line.drive(false) {
            // If a controller can only pulse the line, the device is not in reset.
            Ok(()) | Err(ENOTSUPP) => Ok(Some(line)),
            Err(error) => Err(error),
        }
    }

    /// Resets the device. It loses all of its state.
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
        // SAFETY: By the type invariant the reset control has not been put. Nothing uses it after
        // this drop.
        unsafe { shim::gal_put_reset(self.0.as_ptr()) }
    }
}
