// SPDX-License-Identifier: GPL-2.0-only

//! Usage of a device's cores.

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
    /// The bound cores of any kind, by place.
    pub(crate) fn all_cores(&self) -> impl Iterator<Item = AnyCore<P>> + '_ {
        (0..crate::limits::MAX_CORES).filter_map(|place| self.any_at(place))
    }
}

impl<P: Payload> AnyCore<P> {
    /// The place in the device.
    pub(crate) fn index(&self) -> usize {
        each!(self, core => core.index())
    }

    /// The kind of core.
    pub(crate) fn kind(&self) -> HardwareType {
        self.identity().hardware_type()
    }

    /// Number of values that the parameter `identity` sets for it.
    pub(crate) fn amended(&self) -> usize {
        self.identity().given
    }

    /// Model and revision, as clients see them.
    pub(crate) fn model(&self) -> (u32, u32) {
        (self.identity().model, self.identity().revision)
    }

    /// Busy time since the core was bound.
    pub(crate) fn load(&self) -> Load {
        each!(self, core => core.engine().load())
    }

    /// Rate of its undivided clock, in Hz. 0: unknown.
    pub(crate) fn full_frequency(&self) -> u32 {
        u32::try_from(self.hardware().rate()).unwrap_or(u32::MAX)
    }

    /// Milliseconds without users after which the core is switched off.
    pub(crate) fn off_delay(&self) -> i32 {
        self.hardware().supply().off_delay()
    }

    /// Durations of its power states since it was bound.
    pub(crate) fn power_times(&self) -> PowerTimes {
        self.hardware().power_times()
    }
}
