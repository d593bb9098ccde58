// SPDX-License-Identifier: GPL-2.0-only

//! Command streams: their words, the checker of client streams, and the addresses they may name.
//!
//! Pure logic without locks.

pub(crate) mod addresses;
mod blit;
pub(crate) mod bounds;
pub(crate) mod checker;
pub(crate) mod lint;
pub(crate) mod loaded;
pub(crate) mod resolve;
pub(crate) mod states;
pub(crate) mod table;
pub(crate) mod vector;
pub(crate) mod words;
