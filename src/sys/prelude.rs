// SPDX-License-Identifier: GPL-2.0-only

//! Items of the `kernel` crate, outside of its own prelude, that most files import.

pub(crate) use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
pub(crate) use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        new_condvar,
        new_mutex,
        new_spinlock,
        Arc,
        ArcBorrow,
        CondVar,
        Mutex,
        SpinLock, //
    },
    time::Delta, //
};
