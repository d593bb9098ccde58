// SPDX-License-Identifier: GPL-2.0-only

//! `gpu_govern`, a sysfs attribute of the platform driver. The `kernel` crate has no driver
//! attributes yet.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use core::fmt::Write;
use kernel::device;

/// The callbacks of the file.
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

/// The file in sysfs. Dropping the last one removes the file.
///
/// # Invariants
///
/// `gal_show_govern` has succeeded for it, with a device that stays bound for `'bound`.
pub(crate) struct Shown<'bound> {
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

impl<'bound> Shown<'bound> {
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

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The driver exists as long as it has a bound device. After
        // the last of these calls returns, no callback runs.
        unsafe { shim::gal_hide_govern() }
    }
}
