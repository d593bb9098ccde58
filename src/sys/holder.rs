// SPDX-License-Identifier: GPL-2.0-only

//! Files that do nothing but keep an object alive.

use super::{
    file::{
        NewFile,
        Reserved, //
    },
    prelude::*,
    shim,
    GFP_CLIENT, //
};

/// The object of a file.
#[repr(C)]
struct Held<T> {
    base: shim::gal_held,
    object: T,
}

/// # Safety
///
/// `held` is the `base` of a boxed `Held<T>`. The box passes to this call.
unsafe extern "C" fn put<T>(held: *mut shim::gal_held) {
    // SAFETY: By the caller. `base` is the first field.
    let held = unsafe { KBox::<Held<T>>::from_raw(held.cast()) };
    drop(held);
}

/// Creates a file that keeps `object`, and the module, until the last descriptor of the file in any
/// process is closed. Then `object` is dropped, in a context that may sleep.
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
    // SAFETY: The file owns the box, and calls `put` once to free it. Any thread may drop `T`.
    let file = from_err_ptr(unsafe { shim::gal_new_holder(held.cast()) }).inspect_err(|_| {
        // SAFETY: The call failed, so this function still owns `held`.
        unsafe { put::<T>(held.cast()) };
    })?;
    // SAFETY: A new file, and this function owns its only reference.
    unsafe { reserved.fill(file) }
}
