// SPDX-License-Identifier: GPL-2.0-only

//! Folders of text files in debugfs.
//!
//! The `kernel` crate's files have operations in this module without an owner. Debugfs reads them
//! when a file is closed, even after the module is unloaded. Here an open file keeps the module.

use super::{
    prelude::*,
    shim,
    unload::InUse, //
};
use kernel::{
    bindings,
    seq_file::SeqFile,
    seq_print,
    uaccess::{
        UserSlice,
        UserSliceReader, //
    }, //
};

/// Prints a file.
type Show = fn(&mut fmt::Formatter<'_>) -> fmt::Result;

/// Handles a write.
type Take = fn(&mut UserSliceReader) -> Result;

/// A reader's position in a file of records, initially zeros.
pub(crate) type Mark = [u64; 5];

/// Advances to the next record. Returns whether there is one.
type Advance = fn(&mut Mark) -> bool;

/// Prints the current record. May be called repeatedly for one record.
type ShowRecord = fn(&mut Mark, &mut fmt::Formatter<'_>) -> fmt::Result;

/// The callbacks of a file of records.
#[repr(C)]
struct Records {
    // First, as C gets a pointer to the records and uses this part.
    callbacks: shim::gal_debug_records,
    advance: Advance,
    show: ShowRecord,
}

/// A file in debugfs.
#[repr(C)]
pub(crate) struct File {
    // First, as C gets a pointer to the file and uses this part.
    answers: shim::gal_debug_answers,
    records: Option<Records>,
    name: &'static CStr,
    show: Show,
    take: Option<Take>,
}

impl File {
    /// A file that root may read.
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

    /// A file of records, which are made as it is read. Only `CAP_SYS_ADMIN` may open it.
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

    /// A file that root may read and write.
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
/// `m` is of a read of the file that contains `answers`.
unsafe extern "C" fn show_file(
    m: *mut bindings::seq_file,
    answers: *const shim::gal_debug_answers,
) -> c_int {
    // SAFETY: C has a pointer to a static file, which begins with the answers.
    let file = unsafe { &*answers.cast::<File>() };
    // SAFETY: Valid for the length of the call.
    seq_print!(unsafe { SeqFile::from_raw(m) }, "{file}");
    0
}

/// # Safety
///
/// `answers` is in a file; `from` may be any user pointer.
unsafe extern "C" fn write_file(
    from: *const c_char,
    bytes: usize,
    answers: *const shim::gal_debug_answers,
) -> isize {
    // SAFETY: C has a pointer to a static file, which begins with `answers`.
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
/// `mark` belongs to one reader, without concurrent use; `records` is the start of a static
/// [`Records`].
unsafe extern "C" fn advance_records(
    mark: *mut shim::gal_mark,
    records: *const shim::gal_debug_records,
) -> bool {
    // SAFETY: By the caller; C was given all of it.
    let records = unsafe { &*records.cast::<Records>() };
    // SAFETY: By the caller; its file's lock is held.
    let mark = unsafe { &mut *mark };
    (records.advance)(&mut mark.words)
}

/// # Safety
///
/// As [`advance_records`]; `m` is of a read of the file.
unsafe extern "C" fn show_record(
    m: *mut bindings::seq_file,
    mark: *mut shim::gal_mark,
    records: *const shim::gal_debug_records,
) -> c_int {
    // SAFETY: By the caller; C was given all of it.
    let records = unsafe { &*records.cast::<Records>() };
    // SAFETY: By the caller; its file's lock is held.
    let mark = unsafe { &mut *mark };
    let shown = Shown(core::cell::Cell::new(Some((&mut mark.words, records.show))));
    // SAFETY: Valid for the length of the call.
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

/// A folder of files at the top of debugfs, while it lives.
///
/// # Invariants
///
/// `folder` came from `gal_debug_folder`, and is not removed yet.
pub(crate) struct Folder {
    folder: *mut bindings::dentry,
    /// Keeps the files' callbacks loaded.
    _in_use: InUse,
}

// SAFETY: Only used to remove the folder, which any thread may do.
unsafe impl Send for Folder {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for Folder {}

impl Folder {
    /// Makes the folder as far as possible: nothing without debugfs. `ENODEV`: the module is being
    /// unloaded.
    pub(crate) fn new(name: &CStr, files: &'static [File]) -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: A string. The result may be an error pointer, which the other calls accept.
        let folder = unsafe { shim::gal_debug_folder(name.as_char_ptr()) };
        for file in files {
            if let Some(records) = &file.records {
                let records = core::ptr::from_ref(records).cast();
                // SAFETY: A string; the records are static, so they may be called at any time.
                unsafe {
                    shim::gal_debug_records_file(folder, file.name.as_char_ptr(), records);
                }
                continue;
            }
            let answers = core::ptr::from_ref(file).cast();
            // SAFETY: A string; the answers are static, so they may be called at any time.
            unsafe {
                shim::gal_debug_file(
                    folder,
                    file.name.as_char_ptr(),
                    file.take.is_some(),
                    answers,
                );
            }
        }
        // INVARIANT: Made just now.
        Ok(Self {
            folder,
            _in_use: in_use,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Waits for readers and writers.
        unsafe { shim::gal_debug_remove(self.folder) }
    }
}
