// SPDX-License-Identifier: GPL-2.0-only

//! What an admin sees: `/proc/driver/gc`, `/sys/kernel/debug/galcore` and `gc`, and the log.
//!
//! Owns nothing but counters; takes the locks of those it asks, one at a time.

mod command;
pub(crate) mod debugfs;
pub(crate) mod gc;
pub(crate) mod proc;
mod ring;
