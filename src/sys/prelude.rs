// SPDX-License-Identifier: GPL-2.0-only

//! Items of the `kernel` crate, outside of its own prelude, that most files import.

pub(crate) use super::{
    u32_as_usize,
    usize_as_u64, //
};
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
    list::ListArc,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
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
    task::Task,
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Jiffies, //
    },
    uaccess::UserSlice, //
};
