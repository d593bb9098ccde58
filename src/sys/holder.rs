// SPDX-License-Identifier: GPL-2.0-only

//! Files that do nothing but keep an object.

use super::{
    file::{
        NewFile,
        Reserved, //
    },
    shim,
    GFP_CLIENT, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// What a file keeps.
#[repr(C)]
struct Held<T> {
    base: shim::gal_held,
    object: T,
}

/// # Safety
///
/// `held` is the `base` of a `Held<T>` that was a box, and this is its end.
unsafe extern "C" fn put<T>(held: *mut shim::gal_held) {
    // SAFETY: By the caller; the base is the first of its fields.
    let held = unsafe { KBox::<Held<T>>::from_raw(held.cast()) };
    drop(held);
}

/// A file that keeps `object` until its last descriptor is closed, in whatever process: then it is
/// dropped, where it may sleep. The file holds the module as long.
///
/// `EMFILE`: the process has no descriptor left. `ENOMEM`.
pub(crate) fn keep<T: Send + 'static>(object: T) -> Result<NewFile> {
    let reserved = Reserved::new()?;
    let held = Held {
        base: shim::gal_held {
            put: Some(put::<T>),
        },
        object,
    };
    let held = KBox::into_raw(KBox::new(held, GFP_CLIENT)?);
    // SAFETY: The file gets the box, and ends it by its function once; `T` may be dropped by any
    // thread.
    let file = from_err_ptr(unsafe { shim::gal_new_holder(held.cast()) }).inspect_err(|_| {
        // SAFETY: The call failed, so `held` was not taken and is still ours to drop.
        unsafe { put::<T>(held.cast()) };
    })?;
    // SAFETY: A new file, whose only reference is ours.
    unsafe { reserved.fill(file) }
}
