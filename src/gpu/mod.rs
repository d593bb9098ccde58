// SPDX-License-Identifier: GPL-2.0-only

//! The GPU: its cores and their memory.

mod any;
mod core;
mod device;
mod govern;
mod route;

pub(crate) use {
    self::core::{
        Core,
        VectorCore, //
    },
    any::{
        each,
        AnyCore,
        PowerSwitch, //
    },
    device::{
        Admin,
        Device,
        Published,
        Running, //
    },
    govern::Governed, //
};
