// SPDX-License-Identifier: GPL-2.0-only

//! Diagnostics for the administrator: `/proc/driver/gc`, and `galcore` and `gc` in debugfs.
//!
//! Its only state is the filter of `vidmem`. It takes the locks of other rooms, one at a time.

pub(crate) mod debugfs;
pub(crate) mod gc;
pub(crate) mod proc;
