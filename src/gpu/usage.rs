// SPDX-License-Identifier: GPL-2.0-only

//! What the cores of a device have done.

use super::{
    any::{
        each,
        AnyCore, //
    },
    Device, //
};
use crate::{
    abi::HardwareType,
    hw::PowerTimes,
    ring::{
        Load,
        Payload, //
    }, //
};

impl<P: Payload> Device<P> {
    /// The cores that are there, of whatever kind, by place.
    pub(crate) fn all_cores(&self) -> impl Iterator<Item = AnyCore<P>> + '_ {
        (0..crate::limits::MAX_CORES).filter_map(|place| self.any_at(place))
    }
}

impl<P: Payload> AnyCore<P> {
    /// Its place among the device's cores.
    pub(crate) fn index(&self) -> usize {
        each!(self, core => core.index())
    }

    /// What it draws.
    pub(crate) fn kind(&self) -> HardwareType {
        self.identity().hardware_type()
    }

    /// How many values the parameter `identity` has for it.
    pub(crate) fn amended(&self) -> usize {
        self.identity().given
    }

    /// Its model and revision, as clients see them.
    pub(crate) fn model(&self) -> (u32, u32) {
        (self.identity().model, self.identity().revision)
    }

    /// How long it has been busy since it was bound.
    pub(crate) fn load(&self) -> Load {
        each!(self, core => core.engine().load())
    }

    /// In Hz, its clock when nothing slows it down; 0: not known.
    pub(crate) fn full_frequency(&self) -> u32 {
        u32::try_from(self.hardware().rate()).unwrap_or(u32::MAX)
    }

    /// Milliseconds without work after which it is switched off.
    pub(crate) fn off_delay(&self) -> i32 {
        self.hardware().supply().off_delay()
    }

    /// How long it has been on and off since then.
    pub(crate) fn power_times(&self) -> PowerTimes {
        self.hardware().power_times()
    }
}
