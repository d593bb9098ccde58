// SPDX-License-Identifier: GPL-2.0-only

//! Memory barriers; the `kernel` crate's have other names from one release to the next.

use super::shim;

/// `wmb()`: writes before it reach memory, as devices see it, before writes after it.
pub(crate) fn write() {
    // SAFETY: A barrier has no conditions.
    unsafe { shim::gal_wmb() }
}

/// `smp_rmb()`: reads before it are done before reads after it.
pub(crate) fn smp_read() {
    // SAFETY: A barrier has no conditions.
    unsafe { shim::gal_smp_rmb() }
}

/// `smp_wmb()`: other processors see writes before it before writes after it.
pub(crate) fn smp_write() {
    // SAFETY: A barrier has no conditions.
    unsafe { shim::gal_smp_wmb() }
}
