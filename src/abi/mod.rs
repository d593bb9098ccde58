// SPDX-License-Identifier: GPL-2.0-only

//! Wire formats: bytes to requests, replies to bytes.
//!
//! This code knows no hardware and no kernel objects. [`Request`] and [`Reply`] do not depend on
//! the generation of the interface. Generations are data ([`layout`]), which one codec interprets
//! ([`codec`]). The first ioctl on a file selects its generation ([`detect`]).

mod codec;
pub(crate) mod detect;
pub(crate) mod evidence;
pub(crate) mod extensions;
pub(crate) mod layout;
pub(crate) mod programs;
mod reply;
mod request;
pub(crate) mod row;
pub(crate) mod vector;

pub(crate) use codec::{
    default_pool,
    records::*,
    Format,
    IdentityWords,
    ShownHandle, //
};
pub(crate) use extensions::Foreign;
pub(crate) use layout::{
    counters::{
        Cells,
        Counter, //
    },
    power::{
        PowerState,
        PowerWay, //
    },
    HardwareTypes,
    Routing,
    MAX_COMMAND_BUFFER_BYTES,
    MAX_CONTEXT_BYTES,
    MAX_DELTA_BYTES,
    MAX_INTERFACE_BYTES,
    MAX_LOCATION_BYTES,
    MAX_PARTS,
    MAX_RECORD_BYTES,
    MAX_SUB_COMMIT_BYTES, //
};
pub(crate) use reply::*;
pub(crate) use request::*;

/// The version of the newest generation: major, minor, patch, build.
pub(crate) fn newest_version() -> [u32; 4] {
    let versions = layout::LAYOUTS.iter().map(layout::Layout::version);
    versions.max().unwrap_or_default()
}
