// SPDX-License-Identifier: GPL-2.0-only

//! dma-bufs: memory of other drivers for our device, and our memory for other drivers and processes.
//!
//! Without `CONFIG_DMA_SHARED_BUFFER` every call here answers `EOPNOTSUPP`. The C half is
//! `shim_dma_buf.c`.

use super::{
    file::{
        NewFile,
        Reserved, //
    },
    raw_device,
    shim, //
};
use core::ptr::null_mut;
use kernel::{
    bindings,
    device,
    dma::DmaAddress,
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::ForeignOwnable, //
};

/// Somebody's dma-buf, attached to our device and mapped for it.
///
/// # Invariants
///
/// The parts are those of one live `gal_import_buffer`.
pub(crate) struct Import(shim::gal_import);

// SAFETY: The kernel's functions on them may be called by any thread.
unsafe impl Send for Import {}
// SAFETY: As above; nothing changes behind `&self`.
unsafe impl Sync for Import {}

impl Import {
    /// Takes the dma-buf of the calling process's descriptor `fd`, for `dev` to read and, with `write`,
    /// to write.
    ///
    /// `EBADF`, `EINVAL`: there is none. `EACCES`: the descriptor is for reading. Else what its owner says.
    pub(crate) fn new(dev: &device::Device, fd: i32, write: bool) -> Result<Self> {
        let mut parts = shim::gal_import {
            buffer: null_mut(),
            attachment: null_mut(),
            table: null_mut(),
            bytes: 0,
            write,
        };
        // SAFETY: `dev` is valid; the parts are written if it succeeds.
        to_result(unsafe { shim::gal_import_buffer(raw_device(dev), fd, write, &mut parts) })?;
        // INVARIANT: Taken just now.
        Ok(Self(parts))
    }

    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether the device may write it.
    pub(crate) fn is_writeable(&self) -> bool {
        self.0.write
    }

    /// The device's addresses of its pages. `EINVAL`: it is not made of whole pages. `ENOMEM`.
    pub(crate) fn pages(&self) -> Result<KVVec<DmaAddress>> {
        if self.bytes() == 0 || self.bytes() % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let count = self.bytes() / PAGE_SIZE;
        let mut pages = KVVec::from_elem(0, count, GFP_KERNEL)?;
        // SAFETY: By the type invariant; there is room for `count`.
        to_result(unsafe { shim::gal_import_pages(&self.0, pages.as_mut_ptr(), count) })?;
        Ok(pages)
    }

    fn file(&self) -> *mut bindings::file {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_import_file(&self.0) }
    }

    /// Maps all of it into the calling process, as its owner does that. Returns the address.
    pub(crate) fn map_into_caller(&self) -> Result<usize> {
        // SAFETY: The dma-buf holds its file; the memory manager checks the rest.
        let address = unsafe { shim::gal_map_file(self.file(), self.bytes(), self.0.write) };
        super::mapped_address(address)
    }

    /// Ends the calling process's view of it at `user`, if that is what is there.
    pub(crate) fn unmap(&self, user: usize) {
        let current = kernel::current!();
        let Some(mm) = current.mm() else {
            return;
        };
        {
            let lock = mm.mmap_read_lock();
            let Some(area) = lock.vma_lookup(user) else {
                return;
            };
            // SAFETY: The memory map is locked, so the area is valid and does not change.
            let is_ours = unsafe { shim::gal_is_mapped(area.as_ptr(), self.file()) };
            if !is_ours || area.start() != user || area.end() - user != self.bytes() {
                return;
            }
        }
        // Another thread may change its own memory map in between; it is its own.
        // SAFETY: Works on the caller's memory map and checks the range.
        let _ = unsafe { bindings::vm_munmap(user, self.bytes()) };
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the device does not use it any more.
        unsafe { shim::gal_end_import(&mut self.0) }
    }
}

/// Memory that can be a dma-buf.
pub(crate) enum Memory<'a> {
    /// From this physical address on, in no cache.
    Range(u64),
    /// Pages.
    Pages(&'a super::pages::Pages),
}

/// Something whose memory can be a dma-buf, and stays the same as long as it lives.
pub(crate) trait Exportable: Send + Sync + 'static {
    /// Bytes, a multiple of the page size.
    fn bytes(&self) -> usize;

    /// Where they are. `None`: they cannot be a dma-buf.
    fn memory(&self) -> Option<Memory<'_>>;
}

/// # Safety
///
/// `owner` came from `into_foreign`, and this is its end.
unsafe extern "C" fn put<T: 'static>(owner: *mut c_void) {
    // SAFETY: By the caller.
    drop(unsafe { Arc::<T>::from_foreign(owner) });
}

/// Makes a dma-buf of `object`'s memory, which it keeps alive. `EINVAL`: it cannot be one. `EMFILE`: the
/// process has no descriptor left.
pub(crate) fn export<T: Exportable>(object: Arc<T>) -> Result<NewFile> {
    let reserved = Reserved::new()?;
    let (pages, start) = match object.memory().ok_or(EINVAL)? {
        Memory::Range(start) => (null_mut(), start.try_into()?),
        Memory::Pages(pages) => (pages.as_raw().ok_or(EINVAL)?, 0),
    };
    let bytes = object.bytes();
    let owner = object.into_foreign();
    let what = shim::gal_export {
        pages,
        start,
        bytes,
        owner: owner.cast(),
        put: Some(put::<T>),
    };
    // SAFETY: The memory lives as long as the object, of which the dma-buf gets a reference. It is at least
    // as long as said.
    let file = from_err_ptr(unsafe { shim::gal_export_buffer(&what) }).inspect_err(|_| {
        // SAFETY: It was not taken.
        unsafe { put::<T>(owner.cast()) };
    })?;
    // SAFETY: A new file, whose only reference is ours.
    unsafe { reserved.fill(file) }
}

/// Lets what is mapped for `dev` be in one piece, however long: its MMU has no limit.
pub(crate) fn allow_long_segments(dev: &device::Device) {
    // SAFETY: The device is valid; only probe sets this.
    unsafe { shim::gal_allow_long_segments(raw_device(dev)) }
}
