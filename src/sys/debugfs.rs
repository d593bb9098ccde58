// SPDX-License-Identifier: GPL-2.0-only

//! Folders of text files in debugfs.
//!
//! Not those of the `kernel` crate: their operations are in this module and name no owner, but
//! debugfs looks into them when a file is closed, also when the module is not there any more. While
//! one of ours is open the module stays.

use super::{
    shim,
    unload::InUse, //
};
use kernel::{
    bindings,
    fmt,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    uaccess::{
        UserSlice,
        UserSliceReader, //
    }, //
};

/// Prints a file.
type Show = fn(&mut fmt::Formatter<'_>) -> fmt::Result;

/// Takes what is written.
type Take = fn(&mut UserSliceReader) -> Result;

/// Where a reader of a file of records is: zeros at first.
pub(crate) type Mark = [u64; 5];

/// Goes on to the next record; says whether there is one.
type Advance = fn(&mut Mark) -> bool;

/// Prints the record that there is. May be called more than once for one.
type ShowRecord = fn(&mut Mark, &mut fmt::Formatter<'_>) -> fmt::Result;

/// What makes the records of a file.
#[repr(C)]
struct Records {
    // In front: C is given the records, and has this of them.
    callbacks: shim::gal_debug_records,
    advance: Advance,
    show: ShowRecord,
}

/// A file.
#[repr(C)]
pub(crate) struct File {
    // In front: C is given the file, and has this of it.
    answers: shim::gal_debug_answers,
    records: Option<Records>,
    name: &'static CStr,
    show: Show,
    take: Option<Take>,
}

impl File {
    /// One that root may read.
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

    /// One that is made piece by piece, as it is read, and that only `CAP_SYS_ADMIN` may open.
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

    /// One that root may read and write.
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
/// `m` is that of a read of the file that `answers` is in.
unsafe extern "C" fn show_file(
    m: *mut bindings::seq_file,
    answers: *const shim::gal_debug_answers,
) -> c_int {
    // SAFETY: C was given a file that lasts, at whose start the answers are.
    let file = unsafe { &*answers.cast::<File>() };
    // SAFETY: Valid for the length of the call.
    seq_print!(unsafe { SeqFile::from_raw(m) }, "{file}");
    0
}

/// # Safety
///
/// `answers` is in a file; `from` is a user pointer, which may be any.
unsafe extern "C" fn write_file(
    from: *const c_char,
    bytes: usize,
    answers: *const shim::gal_debug_answers,
) -> isize {
    // SAFETY: C was given a file that lasts, at whose start `answers` is.
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
/// `mark` is one reader's, without concurrent use; `records` is at the start of a [`Records`] that
/// lasts.
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
/// As [`advance_records`]; `m` is that of a read of the file.
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

/// A record, to be printed once.
struct Shown<'a>(core::cell::Cell<Option<(&'a mut Mark, ShowRecord)>>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.take() {
            Some((mark, show)) => show(mark, out),
            None => Ok(()),
        }
    }
}

/// A folder of files at the top of debugfs, as long as it lives.
///
/// # Invariants
///
/// `folder` came from `gal_debug_folder`, and is not removed yet.
pub(crate) struct Folder {
    folder: *mut bindings::dentry,
    /// For the files.
    _in_use: InUse,
}

// SAFETY: Only used to remove the folder, which any thread may do.
unsafe impl Send for Folder {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for Folder {}

impl Folder {
    /// Makes it, or what of it can be made: nothing where there is no debugfs. `ENODEV`: the module
    /// goes.
    pub(crate) fn new(name: &CStr, files: &'static [File]) -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: A string. What comes back may be an error, which the others take.
        let folder = unsafe { shim::gal_debug_folder(name.as_char_ptr()) };
        for file in files {
            if let Some(records) = &file.records {
                let records = core::ptr::from_ref(records).cast();
                // SAFETY: A string; the records are part of something that lasts, and so may be
                // called at any time.
                unsafe {
                    shim::gal_debug_records_file(folder, file.name.as_char_ptr(), records);
                }
                continue;
            }
            let answers = core::ptr::from_ref(file).cast();
            // SAFETY: A string; the answers are part of something that lasts, and so may be called
            // at any time.
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
