// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`: one file that is read as text and takes written commands.

use super::shim;
use kernel::{
    bindings,
    prelude::*,
    seq_file::SeqFile,
    uaccess::UserSlice, //
};

/// Longest command that the file takes, in bytes.
pub(crate) const COMMAND_BYTES: usize = 256;

/// The two directions of the file. Implemented once, by `diag`.
pub(crate) trait ProcFile {
    /// Prints the contents.
    fn show(out: &SeqFile);

    /// Takes one command.
    fn command(text: &[u8]) -> Result;
}

/// Who answers.
type Answerer = crate::diag::proc::Status;

/// The entry.
///
/// # Invariants
///
/// `0` came from `gal_proc_create` and is not removed yet.
pub(crate) struct Entry(*mut shim::proc_dir_entry);

// SAFETY: Only used to remove the entry, which any thread may do.
unsafe impl Send for Entry {}
// SAFETY: No method takes `&self`.
unsafe impl Sync for Entry {}

impl Entry {
    /// Makes `/proc/driver/gc`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The callbacks below need no data.
        let entry = unsafe { shim::gal_proc_create(core::ptr::null_mut()) };
        if entry.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Made just now.
        Ok(Self(entry))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Waits for readers and writers.
        unsafe { shim::gal_proc_remove(self.0) }
    }
}

/// # Safety
///
/// Called by seq_file for a read of the entry.
#[no_mangle]
unsafe extern "C" fn gal_proc_show(m: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: Valid for the length of the call.
    Answerer::show(unsafe { SeqFile::from_raw(m) });
    0
}

/// # Safety
///
/// Called by procfs for a write to the entry; `from` is a user pointer.
#[no_mangle]
unsafe extern "C" fn gal_proc_write(_: *mut c_void, from: *const c_char, bytes: usize) -> isize {
    let mut text = [0; COMMAND_BYTES];
    let part = bytes.min(COMMAND_BYTES);
    let result = UserSlice::new(UserPtr::from_addr(from as usize), part)
        .reader()
        .read_slice(&mut text[..part])
        .and_then(|()| Answerer::command(&text[..part]));
    match (result, isize::try_from(bytes)) {
        (Ok(()), Ok(bytes)) => bytes,
        (Ok(()), Err(_)) => EINVAL.to_errno() as isize,
        (Err(error), _) => error.to_errno() as isize,
    }
}
