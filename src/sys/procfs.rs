// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`: a text file that also accepts commands.

use super::{
    prelude::*,
    shim,
    unload::InUse, //
};
use kernel::{
    bindings,
    seq_file::SeqFile, //
};

/// The maximum length of a command, in bytes.
pub(crate) const COMMAND_BYTES: usize = 256;

/// The operations of the file.
pub(crate) trait ProcFile {
    /// Prints the contents.
    fn show(out: &SeqFile);

    /// Handles a command.
    fn command(text: &[u8]) -> Result;
}

/// The entry, with the callbacks of `T`.
///
/// # Invariants
///
/// `entry` came from `gal_proc_create` with the callbacks of `T` and is not removed yet.
pub(crate) struct Entry<T> {
    entry: *mut shim::proc_dir_entry,
    /// Keeps the callbacks loaded.
    _in_use: InUse,
    _answers: PhantomData<fn() -> T>,
}

// SAFETY: It is only used to remove the entry, which any thread may do.
unsafe impl<T> Send for Entry<T> {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl<T> Sync for Entry<T> {}

impl<T: ProcFile> Entry<T> {
    const ANSWERS: shim::gal_proc_answers = shim::gal_proc_answers {
        show: Some(Self::show),
        write: Some(Self::write),
    };

    fn answers() -> &'static shim::gal_proc_answers {
        &Self::ANSWERS
    }

    /// Creates `/proc/driver/gc`.
    pub(crate) fn new() -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: The callbacks are static and need no data, so they may be called at any time.
        let entry = unsafe { shim::gal_proc_create(Self::answers()) };
        if entry.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Created just now.
        Ok(Self {
            entry,
            _in_use: in_use,
            _answers: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by seq_file for a read of the entry.
    unsafe extern "C" fn show(m: *mut bindings::seq_file) -> c_int {
        // SAFETY: `m` is valid during the call.
        T::show(unsafe { SeqFile::from_raw(m) });
        0
    }

    /// Handles a write to the entry. `from` may be any user pointer.
    extern "C" fn write(from: *const c_char, bytes: usize) -> isize {
        let mut text = [0; COMMAND_BYTES];
        let part = bytes.min(COMMAND_BYTES);
        let result = UserSlice::new(UserPtr::from_addr(from as usize), part)
            .reader()
            .read_slice(&mut text[..part])
            .and_then(|()| T::command(&text[..part]));
        match (result, isize::try_from(bytes)) {
            (Ok(()), Ok(bytes)) => bytes,
            (Ok(()), Err(_)) => EINVAL.to_errno() as isize,
            (Err(error), _) => error.to_errno() as isize,
        }
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The call waits for readers and writers.
        unsafe { shim::gal_proc_remove(self.entry) }
    }
}
