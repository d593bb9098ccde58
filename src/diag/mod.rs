// SPDX-License-Identifier: GPL-2.0-only

//! Diagnostics for the administrator: `/proc/driver/gc`, and `galcore` and `gc` in debugfs.
//!
//! Its only state is the filter of `vidmem`. It takes the locks of other rooms, one at a time.

pub(crate) mod debugfs;
pub(crate) mod gc;
pub(crate) mod proc;

use crate::{
    client::{
        Clients,
        CLIENTS, //
    },
    prelude::*, //
};

/// Calls `show` with the bound device and its clients, if any.
fn with_clients(
    f: &mut fmt::Formatter<'_>,
    show: fn(&mut fmt::Formatter<'_>, &Clients) -> fmt::Result,
) -> fmt::Result {
    CLIENTS.get().map_or(Ok(()), |clients| show(f, &clients))
}
