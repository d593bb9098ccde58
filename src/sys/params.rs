// SPDX-License-Identifier: GPL-2.0-only

//! The raw module parameters.
//!
//! They live in the C shim, because the `module!` macro's parameters do not show in sysfs. They are
//! read-only after load, so one copy taken at module init is the truth for good.

use super::shim;

pub(crate) use super::shim::gal_parameters as RawParameters;

/// A copy of the parameters as the loader filled them in.
pub(crate) fn read() -> RawParameters {
    // SAFETY: The loader wrote the parameters before module init; permission 0444 lets nobody
    // write them afterwards.
    unsafe { core::ptr::addr_of!(shim::gal_parameters).read() }
}
