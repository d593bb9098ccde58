// SPDX-License-Identifier: GPL-2.0-only

//! The clocks of a core, by the names of the kernel's binding or by their order.
//!
//! The operating points of a core, if its node has them: the rates of its clock, each with a
//! voltage.
//!
//! Clock gating of idle modules. Modules that are known to fail with it, by model and revision, are
//! not gated. Source: sources.md, bring-up, and etnaviv of Linux 7.3.

use super::{
    identity::Identity,
    regs::*,
    Hardware,
    PULSE_EATER, //
};
use crate::sys::{
    prelude::*,
    tree::NodeClocks, //
};
use kernel::{
    clk::Hertz,
    device::Device,
    io::Io, //
};

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

/// The number of operating points that have names in NXP's driver: the highest ones.
pub(crate) const NAMED: usize = 3;

#[cfg(all(CONFIG_PM_OPP, CONFIG_OF))]
mod table {
    //! The kernel's OPP table.

    use crate::sys::prelude::*;
    use kernel::{
        clk::Hertz,
        device::Device,
        opp,
        str::CString, //
    };

    /// The kernel's default way to set clock and voltage.
    #[derive(Default)]
    struct AsUsual;

    #[vtable]
    impl opp::ConfigOps for AsUsual {}

    /// The table of a device.
    pub(super) struct Table {
        table: opp::Table,
        /// Dropped after the table.
        _config: opp::ConfigToken,
    }

    fn names(name: &CStr) -> Result<KVec<CString>> {
        let mut names = KVec::with_capacity(1, GFP_KERNEL)?;
        names.push(name.try_into()?, GFP_KERNEL)?;
        Ok(names)
    }

    impl Table {
        /// The table of `dev`, with its clock "core" and, if it has one, its regulator "core".
        /// `None`: its node has no table.
        pub(super) fn get(dev: &Device) -> Result<Option<Self>> {
            let has = |name| dev.fwnode().is_some_and(|node| node.property_present(name));
            if !has(c"operating-points-v2") && !has(c"operating-points") {
                return Ok(None);
            }
            let mut config = opp::Config::<AsUsual>::new().set_clk_names(names(c"core")?)?;
            if has(c"core-supply") {
                config = config.set_regulator_names(names(c"core")?)?;
            }
            let config = config.set(dev)?;
            Ok(Some(Self {
                table: opp::Table::from_of(&dev.into(), 0)?,
                _config: config,
            }))
        }

        /// The highest rate, in Hz, that is at most `most`.
        pub(super) fn highest(&self, most: usize) -> Option<usize> {
            let search = opp::SearchType::Floor;
            let point = self.table.opp_from_freq(Hertz(most), None, None, search);
            Some(point.ok()?.freq(None).as_hz())
        }

        /// Sets the clock to `rate`, and the voltage to that of the operating point.
        pub(super) fn set_rate(&self, rate: Hertz) -> Result {
            self.table.set_rate(rate)
        }
    }
}

#[cfg(not(all(CONFIG_PM_OPP, CONFIG_OF)))]
mod table {
    //! A kernel without OPP tables.

    use crate::sys::prelude::*;
    use core::convert::Infallible;
    use kernel::{
        clk::Hertz,
        device::Device, //
    };

    /// Never exists.
    pub(super) struct Table(Infallible);

    impl Table {
        pub(super) fn get(_: &Device) -> Result<Option<Self>> {
            Ok(None)
        }

        pub(super) fn highest(&self, _: usize) -> Option<usize> {
            match self.0 {}
        }

        pub(super) fn set_rate(&self, _: Hertz) -> Result {
            match self.0 {}
        }
    }
}

/// The operating points of a core. Only the owner of this sets its rate. After the drop, the last
/// rate stays set, the voltage does not.
pub(crate) struct Points {
    table: table::Table,
    highest: [usize; NAMED],
    /// The number of used elements of `highest`, at least one.
    count: usize,
}

impl Points {
    /// Gets the operating points of `dev`, if any. `EPROBE_DEFER`: their clock or regulator does
    /// not exist yet. Prints other errors, and then returns `None`.
    pub(crate) fn get(dev: &Device) -> Result<Option<Self>> {
        let found = match table::Table::get(dev) {
            Err(EPROBE_DEFER) => return Err(EPROBE_DEFER),
            Ok(None) => return Ok(None),
            Ok(Some(table)) => Self::of(table),
            Err(error) => Err(error),
        };
        let points = found.inspect_err(|error| {
            dev_warn!(dev, "its operating points cannot be used ({error:?})\n");
        });
        let Ok(points) = points else {
            return Ok(None);
        };
        dev_info!(
            dev,
            "its operating points: up to {} Hz\n",
            points.highest[0]
        );
        Ok(Some(points))
    }

    fn of(table: table::Table) -> Result<Self> {
        let (mut highest, mut count) = ([0; NAMED], 0);
        let mut most = usize::MAX;
        while let Some(rate) = table.highest(most).filter(|_| count < NAMED) {
            highest[count] = rate;
            count += 1;
            match rate.checked_sub(1) {
                Some(below) => most = below,
                None => break,
            }
        }
        match count {
            0 => Err(ENOENT),
            _ => Ok(Self {
                table,
                highest,
                count,
            }),
        }
    }

    /// The rates in Hz, the highest first: one to [`NAMED`].
    pub(crate) fn rates(&self) -> &[usize] {
        &self.highest[..self.count]
    }

    /// Sets the initial rate of a core: `wanted` Hz, or the current rate, limited to the highest
    /// operating point.
    pub(crate) fn set_first(&self, dev: &Device, clocks: &Clocks, wanted: Option<usize>) -> Result {
        let wanted = wanted.unwrap_or_else(|| clocks.rates().0);
        let rate = wanted.min(self.highest[0]);
        if rate < wanted {
            dev_warn!(
                dev,
                "its clock: {wanted} Hz is above its operating points, and reduced to {rate} Hz\n"
            );
        }
        match rate {
            // The rate is unknown.
            0 => Ok(()),
            _ => self.set_rate(dev, clocks, rate),
        }
    }

    /// Sets the rate of the core's clock, in Hz, with its voltage. Also sets the shaders' clock, if
    /// there is one, but only prints a failure of that.
    pub(super) fn set_rate(&self, dev: &Device, clocks: &Clocks, rate: usize) -> Result {
        let follow = || {
            if let Err(error) = clocks.set_shader_rate(rate) {
                dev_warn!(
                    dev,
                    "its shaders' clock cannot be set to {rate} Hz ({error:?})\n"
                );
            }
        };
        // In this order the voltage is never too low for either clock.
        let is_lower = rate < clocks.rates().0;
        if is_lower {
            follow();
        }
        self.table.set_rate(Hertz(rate))?;
        if !is_lower {
            follow();
        }
        Ok(())
    }
}

/// `PM_MODULE_CONTROLS`: modules that are not gated.
const PE: u32 = 1 << 2;
const PA: u32 = 1 << 4;
const SE: u32 = 1 << 5;
const RA: u32 = 1 << 6;
const TX: u32 = 1 << 7;
const SH_EU: u32 = 1 << 10;
/// The meaning of this bit is not documented.
const UNNAMED: u32 = 1 << 15;
const RA_EZ: u32 = 1 << 16;
const RA_HZ: u32 = 1 << 17;

/// `PM_PULSE_EATER`.
const EATER_SLOW: u32 = 1 << 16;
const EATER_DFS: u32 = 1 << 17;
const EATER_NO_DFS: u32 = 1 << 18;
const EATER_WIDE: u32 = 1 << 23;

/// Bits of the minor feature words.
const MINOR0_HZ: u32 = 1 << 27;
const MINOR1_PE_GATING_FIXED: u32 = 1 << 9;
const MINOR3_BUG_FIXES12: u32 = 1 << 15;

impl Identity {
    /// The bits of `PM_MODULE_CONTROLS` for modules that are not gated. For early cores at most
    /// that of the pixel engine, as in Dove's driver.
    fn ungated(&self) -> u32 {
        let mut bits = 0;
        let mut set = |bit, is_set| bits |= if is_set { bit } else { 0 };
        let is_any = |cores: &[(u32, u32)]| cores.iter().any(|core| self.is(core.0, core.1));
        let minor = &self.minor_features;
        set(
            PE,
            self.revision < 0x5000
                && minor[1] & MINOR1_PE_GATING_FIXED == 0
                && minor[0] & MINOR0_HZ != 0,
        );
        if self.is_early() {
            return bits;
        }
        set(
            PA,
            self.model >= 0x400 && self.model != 0x420 && minor[3] & MINOR3_BUG_FIXES12 == 0,
        );
        set(UNNAMED, self.revision < 0x5422);
        set(
            TX,
            is_any(&[
                (0x2000, 0x5108),
                (0x4000, 0x5222),
                (0x7000, 0x6202),
                (0x7000, 0x6203),
            ]),
        );
        set(SE | RA, is_any(&[(0x7000, 0x6202)]));
        set(
            SH_EU,
            is_any(&[(0x8000, 0x7200), (0x8000, 0x8002), (0x9200, 0x6304)]),
        );
        set(RA_HZ | RA_EZ, true);
        bits
    }

    /// The value for `PM_PULSE_EATER`. After a reset the register reads as `eater`, but not on all
    /// cores.
    fn eater(&self, eater: u32) -> u32 {
        let is_any = |cores: &[(u32, u32)]| cores.iter().any(|core| self.is(core.0, core.1));
        if is_any(&[(0x4000, 0x5208), (0x4000, 0x5222)]) {
            return PULSE_EATER | EATER_WIDE;
        }
        if is_any(&[(0x1000, 0x5039), (0x1000, 0x5040)]) {
            return PULSE_EATER & !EATER_SLOW | EATER_DFS;
        }
        if self.revision > 0x5420 && self.has_3d() {
            eater | EATER_NO_DFS
        } else {
            eater
        }
    }
}

impl Hardware {
    /// Enables clock gating of idle modules, or disables it while a reader of counters exists. The
    /// core must be on.
    pub(crate) fn set_counting_clocks(&self) {
        if !self.identity.has_power_registers() {
            return;
        }
        let regs = &self.registers;
        let (before, gates) = (regs.read(PM_POWER_CONTROLS), !self.tally.is_wanted());
        if before.enable_module_clock_gating() != gates {
            regs.write_reg(before.with_enable_module_clock_gating(gates));
        }
    }

    /// Sets up clock gating after a reset.
    pub(super) fn set_clock_gating(&self) {
        let regs = &self.registers;
        let id = &self.identity;
        if !id.has_power_registers() {
            return;
        }
        let stalls = matches!(id.revision, 0x4301 | 0x4302);
        regs.write_reg(
            regs.read(PM_POWER_CONTROLS)
                .with_enable_module_clock_gating(!self.tally.is_wanted())
                .with_disable_stall_module_clock_gating(stalls),
        );
        let ungated = id.ungated();
        // Not all early cores are known to have this register.
        if ungated != 0 || !id.is_early() {
            let controls = regs.read(PM_MODULE_CONTROLS).into_raw() | ungated;
            regs.write_reg(PM_MODULE_CONTROLS::from_raw(controls));
        }
        if id.has_more_registers() {
            let before = regs.read(PM_PULSE_EATER).into_raw();
            let eater = id.eater(before);
            if eater != before {
                regs.write_reg(PM_PULSE_EATER::from_raw(eater));
            }
        }
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

    fn core(model: u32, revision: u32) -> Identity {
        let mut id = Identity::default();
        (id.model, id.revision) = (model, revision);
        id
    }

    #[test]
    fn modules_are_gated_but_those_that_do_not_survive_it() {
        let always = RA_HZ | RA_EZ;
        let mut gc600 = core(0x600, 0x19);
        assert_eq!(gc600.ungated(), 0);
        gc600.minor_features[0] = MINOR0_HZ;
        assert_eq!(gc600.ungated(), PE);
        gc600.minor_features[1] = MINOR1_PE_GATING_FIXED;
        assert_eq!(gc600.ungated(), 0);
        let mut gc800 = core(0x800, 0x4604);
        assert_eq!(gc800.ungated(), always | PA | UNNAMED);
        gc800.minor_features[0] = MINOR0_HZ;
        assert_eq!(gc800.ungated(), always | PA | PE | UNNAMED);
        assert_eq!(core(0x320, 0x5007).ungated(), always | UNNAMED);
        assert_eq!(core(0x420, 0x5337).ungated(), always | UNNAMED);
        assert_eq!(core(0x2000, 0x5108).ungated(), always | PA | TX | UNNAMED);
        let mut gc3000 = core(0x3000, 0x5450);
        assert_eq!(gc3000.ungated(), always | PA);
        gc3000.minor_features[3] = MINOR3_BUG_FIXES12;
        assert_eq!(gc3000.ungated(), always);
        let mut gc7000 = core(0x7000, 0x6202);
        gc7000.minor_features[3] = MINOR3_BUG_FIXES12;
        assert_eq!(gc7000.ungated(), always | TX | SE | RA);
        gc7000 = core(0x8000, 0x8002);
        gc7000.minor_features[3] = MINOR3_BUG_FIXES12;
        assert_eq!(gc7000.ungated(), always | SH_EU);
    }

    #[test]
    fn the_pulse_eater_is_the_revisions() {
        let reset = 0x015B_0880;
        assert_eq!(core(0x2000, 0x5108).eater(reset), reset);
        for before in [reset, 0] {
            assert_eq!(core(0x4000, 0x5208).eater(before), 0x01D9_0880);
            assert_eq!(core(0x1000, 0x5039).eater(before), 0x015A_0880);
        }
        let mut gc3000 = core(0x3000, 0x5450);
        assert_eq!(gc3000.eater(reset), reset);
        gc3000.features = 1 << 2;
        assert_eq!(gc3000.eater(reset), 0x015F_0880);
    }
}
