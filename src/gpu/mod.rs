// SPDX-License-Identifier: GPL-2.0-only

//! The GPU: its cores and their memory.

mod any;
pub(crate) mod core;
mod device;
mod govern;
mod power;
mod registers;
mod route;
mod usage;
mod vector;

pub(crate) use {
    self::core::Core,
    any::{
        each,
        AnyCore, //
    },
    device::{
        Admin,
        Device,
        Published,
        Running, //
    },
    govern::Governed,
    vector::VectorCore, //
};
