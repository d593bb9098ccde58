// SPDX-License-Identifier: GPL-2.0-only

//! Text files in debugfs ([`Folder`]), in `/proc` ([`ProcEntry`]) and in sysfs ([`Attribute`]).
//!
//! The `kernel` crate puts its debugfs operations into this module, without an owner. Debugfs reads
//! them when a file is closed, even after the unload. Here an open file keeps the module loaded.
//! The crate has no driver attributes yet.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use core::fmt::Write;
use kernel::{
    bindings,
    device,
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

/// A file in debugfs or in `/proc`.
#[repr(C)]
pub(crate) struct File {
    // The first field, because C uses a pointer to the file as a pointer to this field.
    answers: shim::gal_file_answers,
    records: Option<Records>,
    name: &'static CStr,
    show: Show,
    take: Option<Take>,
}

impl File {
    /// A file that only root may read.
    pub(crate) const fn new(name: &'static CStr, show: Show) -> Self {
        Self {
            answers: shim::gal_file_answers {
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
    answers: *const shim::gal_file_answers,
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
    answers: *const shim::gal_file_answers,
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
    let shown = Once(core::cell::Cell::new(Some((&mut mark.words, records.show))));
    // SAFETY: `m` is valid during the call.
    seq_print!(unsafe { SeqFile::from_raw(m) }, "{shown}");
    0
}

/// A record that is printed once.
struct Once<'a>(core::cell::Cell<Option<(&'a mut Mark, ShowRecord)>>);

impl fmt::Display for Once<'_> {
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

/// A file in `/proc`. Dropping it removes it.
///
/// # Invariants
///
/// `entry` came from `gal_proc_create` and is not removed yet.
pub(crate) struct ProcEntry {
    entry: *mut shim::proc_dir_entry,
    /// Keeps the callbacks loaded.
    _in_use: InUse,
}

// SAFETY: It is only used to remove the entry, which any thread may do.
unsafe impl Send for ProcEntry {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for ProcEntry {}

impl ProcEntry {
    /// Creates `file` in `/proc`. All may read it. A program without `CAP_SYS_ADMIN` cannot open it
    /// for a privileged writer; the file's `write` must check the writer. `ENOMEM`, `ENODEV`: the
    /// module is being unloaded.
    pub(crate) fn new(file: &'static File) -> Result<Self> {
        let in_use = InUse::new()?;
        let answers = core::ptr::from_ref(file).cast();
        // SAFETY: A C string, and static callbacks, which may be called at any time.
        let entry = unsafe { shim::gal_proc_create(file.name.as_char_ptr(), answers) };
        if entry.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Created just now.
        Ok(Self {
            entry,
            _in_use: in_use,
        })
    }
}

impl Drop for ProcEntry {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The call waits for readers and writers.
        unsafe { shim::gal_proc_remove(self.entry) }
    }
}

/// The callbacks of `gpu_govern`, an attribute of the platform driver.
pub(crate) trait Attribute: 'static {
    /// Writes the contents.
    fn show(text: &mut Text<'_>) -> Result;

    /// Handles a write.
    fn store(text: &[u8]) -> Result;
}

/// A text buffer.
pub(crate) struct Text<'a> {
    memory: &'a mut [u8],
    bytes: usize,
}

impl<'a> Text<'a> {
    /// An empty text.
    pub(crate) fn new(memory: &'a mut [u8]) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends `text`. Fails if there is no room.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        Write::write_fmt(self, text)
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.memory.get_mut(self.bytes..);
        let room = room.and_then(|room| room.get_mut(..text.len()));
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.bytes += text.len();
        Ok(())
    }
}

/// `gpu_govern` in sysfs. Dropping the last one removes the file.
///
/// # Invariants
///
/// `gal_show_govern` has succeeded for it, with a device that stays bound for `'bound`.
pub(crate) struct ShownAttribute<'bound> {
    /// Keeps the callbacks loaded.
    _in_use: InUse,
    _bound: PhantomData<&'bound ()>,
}

/// The callbacks for C.
struct Answers<T>(PhantomData<T>);

impl<T: Attribute> Answers<T> {
    const TABLE: shim::gal_govern_answers = shim::gal_govern_answers {
        show: Some(Self::show),
        store: Some(Self::store),
    };

    fn table() -> &'static shim::gal_govern_answers {
        &Self::TABLE
    }

    /// # Safety
    ///
    /// `page` is a page that only this call uses.
    unsafe extern "C" fn show(page: *mut c_char) -> isize {
        // SAFETY: By the caller. Sysfs has cleared the page.
        let page = unsafe { core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE_SIZE) };
        let mut text = Text::new(page);
        match T::show(&mut text) {
            // CAST: at most a page.
            Ok(()) => text.bytes() as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// `text` is valid for reads of `bytes` bytes during the call.
    unsafe extern "C" fn store(text: *const c_char, bytes: usize) -> isize {
        // SAFETY: By the caller `text` is valid for reads of `bytes` bytes during the call.
        let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), bytes) };
        match T::store(text) {
            // CAST: sysfs takes at most a page.
            Ok(()) => bytes as isize,
            Err(error) => error.to_errno() as isize,
        }
    }
}

impl<'bound> ShownAttribute<'bound> {
    /// Creates the file of `dev`'s driver with the callbacks of `T`, unless it exists. The
    /// callbacks may be called before this returns. `EBUSY`: the file belongs to another driver, or
    /// has other callbacks.
    pub(crate) fn new<T: Attribute>(dev: &'bound device::Device<device::Bound>) -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: The device is bound. The callbacks are static and need no data.
        to_result(unsafe { shim::gal_show_govern(raw_device(dev), Answers::<T>::table()) })?;
        // INVARIANT: `gal_show_govern` succeeded just now.
        Ok(Self {
            _in_use: in_use,
            _bound: PhantomData,
        })
    }
}

impl Drop for ShownAttribute<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The driver exists as long as it has a bound device. After
        // the last of these calls returns, no callback runs.
        unsafe { shim::gal_hide_govern() }
    }
}
