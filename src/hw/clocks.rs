// SPDX-License-Identifier: GPL-2.0-only

//! The clocks of a core, by the names of the kernel's binding or by their order.

use crate::sys::clk::NodeClocks;
use crate::sys::prelude::*;
use kernel::device::Device;

/// Names of a node's clocks, in the order of the kernel's binding. Each may be absent: old device
/// trees only name some, and boards without a node name none.
const CLOCKS: [&CStr; 4] = [c"bus", c"core", c"shader", c"reg"];

/// Indexes in [`CLOCKS`].
const CORE: usize = 1;
const SHADER: usize = 2;

/// The index of clock `which` of [`CLOCKS`] among a node's `count` clocks. Vendors' trees use other
/// names or none. Then the clocks have the order of the binding, and a single clock is the core's.
fn find_clock<'a>(
    count: usize,
    name: impl Fn(usize) -> Option<&'a CStr>,
    which: usize,
) -> Option<usize> {
    let has = |wanted: &CStr| (0..count).find(|&at| name(at) == Some(wanted));
    if CLOCKS.into_iter().any(|known| has(known).is_some()) {
        return has(CLOCKS[which]);
    }
    match count {
        1 => (which == CORE).then_some(0),
        _ => (which < count).then_some(which),
    }
}

/// The clocks of a core. Dropping this disables them.
pub(crate) struct Clocks {
    clocks: NodeClocks,
    core: Option<usize>,
    shader: Option<usize>,
    are_on: Atomic<bool>,
}

impl Clocks {
    /// Gets all clocks of the node of `dev`, not enabled. `EPROBE_DEFER`: they do not exist yet.
    pub(crate) fn get(dev: &Device) -> Result<Self> {
        let clocks = NodeClocks::get(dev)?;
        let find = |which| find_clock(clocks.len(), |at| clocks.name(at), which);
        Ok(Self {
            core: find(CORE),
            shader: find(SHADER),
            clocks,
            are_on: Atomic::new(false),
        })
    }

    /// Enables the clocks. Only the code that switches the core calls this and `disable`.
    pub(crate) fn enable(&self) -> Result {
        if !self.are_on.load(Relaxed) {
            self.clocks.enable()?;
            self.are_on.store(true, Relaxed);
        }
        Ok(())
    }

    /// Sets the rate of the core's clock, in Hz, if there is one.
    pub(crate) fn set_rate(&self, hertz: usize) -> Result {
        self.clocks.set_rate(self.core, hertz)
    }

    /// Sets the rate of the shaders' clock, in Hz, if there is one.
    pub(super) fn set_shader_rate(&self, hertz: usize) -> Result {
        match self.clocks.rate(self.shader) {
            0 => Ok(()),
            _ => self.clocks.set_rate(self.shader, hertz),
        }
    }

    /// The rates of the core's and the shaders' clock, in Hz. 0: unknown. Shaders without a clock
    /// of their own run at the core's rate.
    pub(crate) fn rates(&self) -> (usize, usize) {
        match (self.clocks.rate(self.core), self.clocks.rate(self.shader)) {
            (core, 0) => (core, core),
            rates => rates,
        }
    }

    pub(super) fn disable(&self) {
        if self.are_on.load(Relaxed) {
            self.are_on.store(false, Relaxed);
            self.clocks.disable();
        }
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        self.disable();
    }
}

#[kernel::macros::kunit_tests(galcore_clocks)]
mod tests {
    use super::*;

    /// The indexes of the core's and the shaders' clock.
    fn found(names: &[Option<&CStr>]) -> (Option<usize>, Option<usize>) {
        let find = |which| find_clock(names.len(), |at| names[at], which);
        (find(CORE), find(SHADER))
    }

    #[test]
    fn clocks_have_names() {
        // The clocks of i.MX8M Plus, Dove, and the 2D core of i.MX6.
        let all = [c"core", c"shader", c"bus", c"reg"].map(Some);
        assert_eq!(found(&all), (Some(0), Some(1)));
        assert_eq!(found(&[Some(c"core")]), (Some(0), None));
        assert_eq!(found(&[c"bus", c"core"].map(Some)), (Some(1), None));
        // One name is from the binding, so the order is not used.
        assert_eq!(found(&[c"bus", c"gpu"].map(Some)), (None, None));
    }

    #[test]
    fn without_names_their_order_counts() {
        assert_eq!(found(&[]), (None, None));
        assert_eq!(found(&[None]), (Some(0), None));
        assert_eq!(found(&[None; 2]), (Some(1), None));
        assert_eq!(found(&[None; 3]), (Some(1), Some(2)));
        assert_eq!(found(&[c"aclk", c"cclk"].map(Some)), (Some(1), None));
    }
}
