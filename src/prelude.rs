// SPDX-License-Identifier: GPL-2.0-only

//! What most files import: the kernel crate's common names, and the driver's errors in place of the
//! kernel's. Files of [`sys`] import [`sys::prelude`], which has
//! the kernel's.

pub(crate) use crate::{
    error::{
        Error,
        Result, //
    },
    limits::MAX_CORES,
    sys::{
        self,
        prelude::*, //
    }, //
};
pub(crate) use kernel::error::Error as Errno;
