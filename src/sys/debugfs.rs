// SPDX-License-Identifier: GPL-2.0-only

//! Directories of text files in debugfs.
//!
//! The `kernel` crate puts its file operations into this module, without an owner. Debugfs reads
//! them when a file is closed, even after the unload. Here an open file keeps the module loaded.

use super::{
    prelude::*,
    shim,
    unload::InUse, //
};
use kernel::{
    bindings,
    seq_file::SeqFile,
    seq_print,
    uaccess::UserSliceReader, //
};

/// Prints a file.
type Show = fn(&mut fmt::Formatter<'_>) -> fmt::Result;

/// Handles a write.
type Take = fn(&mut UserSliceReader) -> Result;

/// A reader's position in a file of records. Initially all zeros.
pub(crate) type Mark = [u64; 5];

/// Advances to the next record. Returns whether there is one.
type Advance = fn(&mut Mark) -> bool;

/// Prints the current record. May be called repeatedly for one record.
type ShowRecord = fn(&mut Mark, &mut fmt::Formatter<'_>) -> fmt::Result;

/// The callbacks of a file of records.
#[repr(C)]
struct Records {
    // The first field, because C uses a pointer to the records as a pointer to this field.
    callbacks: shim::gal_debug_records,
    advance: Advance,
    show: ShowRecord,
}

/// A file in debugfs.
#[repr(C)]
pub(crate) struct File {
    // The first field, because C uses a pointer to the file as a pointer to this field.
    answers: shim::gal_debug_answers,
    records: Option<Records>,
    name: &'static CStr,
    show: Show,
    take: Option<Take>,
}

impl File {
    /// A file that only root may read.
    pub(crate) const fn new(name: &'static CStr, show: Show) -> Self {
        Self {
            answers: shim::gal_debug_answers {
                show: Some(show_file),
                write: Some(write_file),
            },
            records: None,
            name,
            show,
            take: None,
        }
    }

    /// A file of records, which are produced while it is read. Opening it takes `CAP_SYS_ADMIN`.
    pub(crate) const fn of_records(
        name: &'static CStr,
        advance: Advance,
        show: ShowRecord,
    ) -> Self {
        let mut file = Self::new(name, |_| Ok(()));
        file.records = Some(Records {
            callbacks: shim::gal_debug_records {
                advance: Some(advance_records),
                show: Some(show_record),
            },
            advance,
            show,
        });
        file
    }

    /// A file that only root may read and write.
    pub(crate) const fn writable(name: &'static CStr, show: Show, take: Take) -> Self {
        let mut file = Self::new(name, show);
        file.take = Some(take);
        file
    }
}

impl fmt::Display for File {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.show)(out)
    }
}

/// # Safety
///
/// `m` belongs to a read of the file that contains `answers`.
unsafe extern "C" fn show_file(
    m: *mut bindings::seq_file,
    answers: *const shim::gal_debug_answers,
) -> c_int {
    // SAFETY: `answers` is the first field of a static [`File`].
    let file = unsafe { &*answers.cast::<File>() };
    // SAFETY: `m` is valid during the call.
    seq_print!(unsafe { SeqFile::from_raw(m) }, "{file}");
    0
}

/// # Safety
///
/// `answers` is the first field of a [`File`]. `from` may be any user pointer.
unsafe extern "C" fn write_file(
    from: *const c_char,
    bytes: usize,
    answers: *const shim::gal_debug_answers,
) -> isize {
    // SAFETY: `answers` is the first field of a static [`File`].
    let file = unsafe { &*answers.cast::<File>() };
    let Some(take) = file.take else {
        return EINVAL.to_errno() as isize;
    };
    let mut reader = UserSlice::new(UserPtr::from_addr(from as usize), bytes).reader();
    match (take(&mut reader), isize::try_from(bytes)) {
        (Ok(()), Ok(bytes)) => bytes,
        (Ok(()), Err(_)) => EINVAL.to_errno() as isize,
        (Err(error), _) => error.to_errno() as isize,
    }
}

/// # Safety
///
/// `mark` belongs to one reader, and nothing else uses it during the call. `records` is the first
/// field of a static [`Records`].
unsafe extern "C" fn advance_records(
    mark: *mut shim::gal_mark,
    records: *const shim::gal_debug_records,
) -> bool {
    // SAFETY: By the caller it is part of a whole [`Records`].
    let records = unsafe { &*records.cast::<Records>() };
    // SAFETY: By the caller. The lock of the open file is held.
    let mark = unsafe { &mut *mark };
    (records.advance)(&mut mark.words)
}

/// # Safety
///
/// As [`advance_records`]. `m` belongs to a read of the file.
unsafe extern "C" fn show_record(
    m: *mut bindings::seq_file,
    mark: *mut shim::gal_mark,
    records: *const shim::gal_debug_records,
) -> c_int {
    // SAFETY: By the caller it is part of a whole [`Records`].
    let records = unsafe { &*records.cast::<Records>() };
    // SAFETY: By the caller. The lock of the open file is held.
    let mark = unsafe { &mut *mark };
    let shown = Shown(core::cell::Cell::new(Some((&mut mark.words, records.show))));
    // SAFETY: `m` is valid during the call.
    seq_print!(unsafe { SeqFile::from_raw(m) }, "{shown}");
    0
}

/// A record that is printed once.
struct Shown<'a>(core::cell::Cell<Option<(&'a mut Mark, ShowRecord)>>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.take() {
            Some((mark, show)) => show(mark, out),
            None => Ok(()),
        }
    }
}

/// A directory of files at the top of debugfs. Dropping it removes them.
///
/// # Invariants
///
/// `folder` came from `gal_debug_folder` and is not removed yet.
pub(crate) struct Folder {
    folder: *mut bindings::dentry,
    /// Keeps the files' callbacks loaded.
    _in_use: InUse,
}

// SAFETY: It is only used to remove the directory, which any thread may do.
unsafe impl Send for Folder {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for Folder {}

impl Folder {
    /// Creates the directory. Ignores errors, such as a missing debugfs. `ENODEV`: the module is
    /// being unloaded.
    pub(crate) fn new(name: &CStr, files: &'static [File]) -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: `name` is a C string. The other calls accept the result, even if it is an error.
        let folder = unsafe { shim::gal_debug_folder(name.as_char_ptr()) };
        for file in files {
            if let Some(records) = &file.records {
                let records = core::ptr::from_ref(records).cast();
                // SAFETY: A C string, and static callbacks, which may be called at any time.
                unsafe {
                    shim::gal_debug_records_file(folder, file.name.as_char_ptr(), records);
                }
                continue;
            }
            let answers = core::ptr::from_ref(file).cast();
            // SAFETY: A C string, and static callbacks, which may be called at any time.
            unsafe {
                shim::gal_debug_file(
                    folder,
                    file.name.as_char_ptr(),
                    file.take.is_some(),
                    answers,
                );
            }
        }
        // INVARIANT: Created just now.
        Ok(Self {
            folder,
            _in_use: in_use,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The call waits for readers and writers.
        unsafe { shim::gal_debug_remove(self.folder) }
    }
}
