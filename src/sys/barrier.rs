// SPDX-License-Identifier: GPL-2.0-only

//! Memory barriers. Those of the `kernel` crate change their names between releases.

use super::shim;
use kernel::bindings;

/// `wmb()`: orders writes to memory and devices.
pub(crate) fn write() {
    // SAFETY: A barrier has no conditions.
    unsafe { shim::gal_wmb() }
}

/// `smp_rmb()`: orders reads between CPUs. Pairs with the lock under which memory is given to others
/// before they write to it.
pub(crate) fn smp_read() {
    // SAFETY: A barrier has no conditions.
    unsafe { bindings::smp_rmb() }
}

/// `smp_wmb()`: orders writes between CPUs. Pairs with the clients' reads of the completion page.
pub(crate) fn smp_write() {
    // SAFETY: A barrier has no conditions.
    unsafe { bindings::smp_wmb() }
}
