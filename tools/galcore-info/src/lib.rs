// SPDX-License-Identifier: GPL-2.0-only
//! What galcore-info knows of the driver's files, for the tests that read them.

mod decode;
pub mod ring;
