// SPDX-License-Identifier: GPL-2.0-only

//! Clock gating of idle modules. Modules that are known to fail with it, by model and revision, are
//! not gated. Source: sources.md, bring-up, and etnaviv of Linux 7.3.

use super::{
    identity::Identity,
    regs::*,
    Hardware,
    PULSE_EATER, //
};
use crate::prelude::*;
use kernel::io::Io;

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

#[kunit_tests(galcore_gating)]
mod tests {
    use super::*;

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
