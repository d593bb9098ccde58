// SPDX-License-Identifier: GPL-2.0-only
//! Decoders of galcore-info for the driver's files, shared with the tests that read them.

mod decode;
pub mod ring;
