// SPDX-License-Identifier: GPL-2.0-only

//! Files that a command makes for its caller.

use core::ptr::NonNull;
use kernel::{
    bindings,
    fs::{
        file::{
            flags,
            FileDescriptorReservation, //
        },
        File, //
    },
    prelude::*,
    sync::aref::ARef, //
};

/// A number for a file that is yet to be made.
pub(super) struct Reserved(FileDescriptorReservation);

impl Reserved {
    /// One of the calling process's. `EMFILE`: it has none left.
    pub(super) fn new() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC).map(Self)
    }

    /// As [`Reserved::new`], but `exec` does not close it.
    pub(super) fn kept_by_exec() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(0).map(Self)
    }

    /// The number with its file. `ENOMEM`: there is none.
    ///
    /// # Safety
    ///
    /// `file` is null, or a file of which the caller gives a reference away.
    pub(super) unsafe fn fill(self, file: *mut bindings::file) -> Result<NewFile> {
        let file = NonNull::new(file).ok_or(ENOMEM)?;
        Ok(NewFile {
            reservation: self.0,
            // SAFETY: By the caller's contract `file` is live, and its reference passes to the
            // result.
            file: unsafe { ARef::from_raw(file.cast::<File>()) },
        })
    }
}

/// A file that has its number, but is not yet the process's: [`NewFile::install`] makes it so. One
/// that is dropped before that leaves no trace.
pub(crate) struct NewFile {
    reservation: FileDescriptorReservation,
    file: ARef<File>,
}

impl core::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "fd {}", self.number())
    }
}

impl NewFile {
    /// The descriptor's number.
    pub(crate) fn number(&self) -> u32 {
        self.reservation.reserved_fd()
    }

    /// Gives it to the calling process.
    pub(crate) fn install(self) {
        self.reservation.fd_install(self.file);
    }
}
