// SPDX-License-Identifier: GPL-2.0-only

//! The clocks of a device-tree node, with or without names. The `kernel` crate only supports named
//! clocks.

use super::prelude::*;
use super::raw_device;
use core::ptr;
use kernel::{
    bindings,
    device::Device, //
};

/// All clocks of a node, in the order of the node.
///
/// # Invariants
///
/// `first` points to `count` clocks from `clk_bulk_get_all`. Only `Drop` puts them. `first` may be
/// null if `count` is 0.
pub(crate) struct NodeClocks {
    first: *mut bindings::clk_bulk_data,
    count: c_int,
}

// SAFETY: Any thread may use clocks.
unsafe impl Send for NodeClocks {}
// SAFETY: As above. The clock framework serializes concurrent calls.
unsafe impl Sync for NodeClocks {}

impl NodeClocks {
    /// Gets the clocks of `dev`, without enabling them. `EPROBE_DEFER`: one does not exist yet.
    pub(crate) fn get(dev: &Device) -> Result<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: The reference guarantees a live device.
        let count = unsafe { bindings::clk_bulk_get_all(raw_device(dev), &mut first) };
        to_result(count)?;
        // INVARIANT: Acquired just now. Nothing was allocated if `count` is 0.
        Ok(Self { first, count })
    }

    fn all(&self) -> &[bindings::clk_bulk_data] {
        match usize::try_from(self.count) {
            // SAFETY: By the type invariant there are `count` clocks, which live as long as `self`.
            Ok(count @ 1..) => unsafe { core::slice::from_raw_parts(self.first, count) },
            _ => &[],
        }
    }

    /// Number of clocks.
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// The name of a clock in the node, if any.
    pub(crate) fn name(&self, which: usize) -> Option<&CStr> {
        let name = self.all().get(which)?.id;
        // SAFETY: The names are strings of the node, which lives as long as its device.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// Enables all clocks.
    pub(crate) fn enable(&self) -> Result {
        // SAFETY: By the type invariant there are `count` clocks.
        unsafe {
            to_result(bindings::clk_bulk_prepare(self.count, self.first))?;
            to_result(bindings::clk_bulk_enable(self.count, self.first))
                .inspect_err(|_| bindings::clk_bulk_unprepare(self.count, self.first))
        }
    }

    /// Disables all clocks, after [`NodeClocks::enable`].
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariant there are `count` clocks.
        unsafe {
            bindings::clk_bulk_disable(self.count, self.first);
            bindings::clk_bulk_unprepare(self.count, self.first);
        }
    }

    /// The rate of a clock, in Hz. 0: there is no clock, or its rate is unknown.
    pub(crate) fn rate(&self, which: Option<usize>) -> usize {
        let clock = which.and_then(|which| self.all().get(which));
        clock.map_or(0, |clock| {
            // SAFETY: By the type invariant the clock has not been put.
            unsafe { bindings::clk_get_rate(clock.clk) }
        })
    }

    /// Sets the rate of a clock. Does nothing if there is no clock.
    pub(crate) fn set_rate(&self, which: Option<usize>, hertz: usize) -> Result {
        let clock = which.and_then(|which| self.all().get(which));
        clock.map_or(Ok(()), |clock| {
            // SAFETY: By the type invariant the clock has not been put.
            to_result(unsafe { bindings::clk_set_rate(clock.clk, hertz) })
        })
    }
}

impl Drop for NodeClocks {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Nothing uses the clocks after this drop.
        unsafe { bindings::clk_bulk_put_all(self.count, self.first) }
    }
}
