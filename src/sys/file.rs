// SPDX-License-Identifier: GPL-2.0-only

//! New files and their descriptors, for the process that calls a command.

use super::prelude::*;
use kernel::{
    bindings,
    fs::{
        file::{
            flags,
            FileDescriptorReservation, //
        },
        File, //
    }, //
};

/// A descriptor for a file that does not exist yet.
pub(super) struct Reserved(FileDescriptorReservation);

impl Reserved {
    /// Reserves a descriptor of the calling process. `EMFILE`: it has none left.
    pub(super) fn new() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC).map(Self)
    }

    /// As [`Reserved::new`], but `exec` does not close the descriptor.
    pub(super) fn kept_by_exec() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(0).map(Self)
    }

    /// Combines the descriptor with its file. `ENOMEM`: `file` is null.
    ///
    /// # Safety
    ///
    /// `file` is null, or a file of which the caller passes a reference.
    pub(super) unsafe fn fill(self, file: *mut bindings::file) -> Result<NewFile> {
        let file = NonNull::new(file).ok_or(ENOMEM)?;
        Ok(NewFile {
            reservation: self.0,
            // SAFETY: By the caller `file` is live, and its reference passes to the result.
            file: unsafe { ARef::from_raw(file.cast::<File>()) },
        })
    }
}

/// A file with a descriptor. [`NewFile::install`] makes them visible to the process. Dropping this
/// frees both.
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
    /// The descriptor.
    pub(crate) fn number(&self) -> u32 {
        self.reservation.reserved_fd()
    }

    /// Installs the file in the calling process.
    pub(crate) fn install(self) {
        self.reservation.fd_install(self.file);
    }
}
