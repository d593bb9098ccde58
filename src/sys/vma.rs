// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of driver memory into processes.

use super::{
    dma::DmaBuffer,
    pages::Pages,
    prelude::*,
    shim, //
};
use core::ffi::c_int;
use kernel::{
    bindings,
    mm::virt::{
        flags::WRITE as VM_WRITE,
        VmaNew, //
    }, //
};

/// An area that becomes a mapping of a file of the device. Every use consumes it, so that it is set
/// up once, for one purpose.
///
/// # Invariants
///
/// The mmap handler of a file of the device is setting up the area. The area is shared, and only
/// the owner of this maps anything in it.
pub(crate) struct NewArea<'a>(&'a VmaNew);

impl<'a> NewArea<'a> {
    /// An area of a file of the device. `ENOTTY`, galcore's error for all that it does not map: the
    /// area is private.
    ///
    /// Every kind of mapping of the device's files is checked here.
    ///
    /// # Safety
    ///
    /// The mmap handler of such a file is setting up the area, and calls this once.
    pub(super) unsafe fn new(area: &'a VmaNew) -> Result<Self> {
        // SAFETY: By the caller the area may be read.
        to_result(unsafe { shim::gal_check_area(area.as_ptr()) }).map_err(|_| ENOTTY)?;
        // INVARIANT: By the caller, and checked just now.
        Ok(Self(area))
    }

    /// The requested byte offset into the file.
    pub(crate) fn offset(&self) -> u64 {
        // SAFETY: By the type invariant nothing else changes it.
        let pages = unsafe { (*self.0.as_ptr()).vm_pgoff };
        // CAST: at most 64 bits.
        (pages as u64) << bindings::PAGE_SHIFT
    }

    /// The start address in the process.
    pub(super) fn start(&self) -> usize {
        self.0.start()
    }

    /// Bytes, a multiple of the page size.
    pub(super) fn bytes(&self) -> usize {
        self.0.end() - self.0.start()
    }

    /// The area, to be set up.
    pub(super) fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.0.as_ptr()
    }

    /// Makes it read-only permanently. `EACCES`: writing was requested.
    pub(crate) fn make_read_only(&self) -> Result {
        if self.0.flags() & VM_WRITE != 0 {
            return Err(EACCES);
        }
        self.0.try_clear_maywrite()
    }
}

/// Memory that can be mapped into a process.
pub(crate) trait Memory {
    /// Maps the memory's start into `area`, with `cached` as cached memory if possible.
    ///
    /// # Safety
    ///
    /// The memory lives as long as the mapping: until `area`, and all areas that are split off it
    /// or copied from it, are gone, or, on an error, until the area is empty again.
    unsafe fn map_into(&self, area: &NewArea<'_>, cached: bool) -> Result;
}

impl Memory for DmaBuffer {
    unsafe fn map_into(&self, area: &NewArea<'_>, _: bool) -> Result {
        // SAFETY: The caller keeps to the contract of `map_into`, which is that of `mmap`.
        unsafe { self.mmap(area) }
    }
}

impl Memory for Pages {
    unsafe fn map_into(&self, area: &NewArea<'_>, cached: bool) -> Result {
        // SAFETY: The caller keeps to the contract of `map_into`, which is that of `mmap`.
        unsafe { self.mmap(area, cached) }
    }
}

/// Something whose memory can be mapped and must live as long as the mapping.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// The type of memory.
    type Memory: Memory;

    /// The memory.
    fn memory(&self) -> &Self::Memory;
}

/// Refuses to move an area: LOCK returns its address, and UNLOCK unmaps it there.
///
/// # Safety
///
/// Called by the memory manager before it moves an area.
pub(super) unsafe extern "C" fn stay(_: *mut bindings::vm_area_struct) -> c_int {
    EINVAL.to_errno()
}

/// Ties an `Arc<T>` to a memory area: each area, also a split one, owns one reference.
struct Keep<T>(PhantomData<T>);

impl<T: Mappable> Keep<T> {
    const OPERATIONS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        mremap: Some(stay),
        ..pin_init::zeroed()
    };

    fn operations() -> &'static bindings::vm_operations_struct {
        &Self::OPERATIONS
    }

    /// # Safety
    ///
    /// Called by the memory manager for an area that [`map`] set up.
    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: `map` stored a pointer from `Arc::into_raw`, of which the area that this one was
        // copied from still owns a reference.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) };
        // Keeps one reference for the new area, and that of the old area.
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// Called by the memory manager, once for each area that `map` or `open` counted.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area owns one reference, and ends here.
        drop(unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) });
    }
}

/// Maps the start of `object`'s memory into `area`, which keeps the object alive.
///
/// Fails if the area is longer than the memory.
pub(crate) fn map<T: Mappable>(area: NewArea<'_>, object: Arc<T>, cached: bool) -> Result {
    let vma = area.as_ptr();
    // SAFETY: By the area's invariant it may be read.
    let page = unsafe { (*vma).vm_pgoff };
    // SAFETY: From now on the area has a reference of the object, so nothing has exclusive access
    // to the object, and any memory of it stays valid as long. On an error the area is emptied
    // while we have that reference.
    let mapped = unsafe { object.memory().map_into(&area, cached) };
    mapped.inspect_err(|_| {
        // The memory manager unmaps the area only after the handler has returned, when the object
        // may already be freed: other threads must not see its pages then.
        // SAFETY: By the area's invariant it is being set up, so no other thread changes it.
        unsafe { shim::gal_clear_area(vma) };
    })?;
    // SAFETY: By the area's invariant it is being set up, and nothing else uses these two fields:
    // only one thing is made of an area.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(object).cast_mut().cast();
        (*vma).vm_ops = Keep::<T>::operations();
        // Not among the pool's windows, whose pages are unmapped by file offset.
        (*vma).vm_pgoff = page | ABOVE_WINDOWS;
    }
    Ok(())
}

/// File offset of objects in pages: 4 GiB, above any pool.
const ABOVE_WINDOWS: c_ulong = 1 << (32 - bindings::PAGE_SHIFT);

/// Bytes of the calling process's mapping of `object` at `user`, if it is there.
///
/// A child, or a process that has unmapped it, may have another mapping there.
pub(crate) fn view_bytes<T: Mappable>(user: usize, object: &Arc<T>) -> Option<usize> {
    let current = kernel::current!();
    let lock = current.mm()?.mmap_read_lock();
    let area = lock.vma_lookup(user)?;
    let vma = area.as_ptr();
    // SAFETY: The memory map is locked, so the area is valid and does not change.
    let (operations, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
    let is_ours = core::ptr::eq(operations, Keep::<T>::operations())
        && core::ptr::eq(data.cast_const().cast::<T>(), Arc::as_ptr(object));
    (is_ours && area.start() == user).then(|| area.end() - area.start())
}

/// Unmaps `object` from the calling process at `user`, if it is there. Returns whether it is gone.
pub(crate) fn unmap<T: Mappable>(user: usize, object: &Arc<T>) -> bool {
    view_bytes(user, object).is_none_or(|bytes| {
        // Another thread may change the memory map in between: that affects only its own process.
        // SAFETY: Works on the caller's memory map and checks the range.
        unsafe { bindings::vm_munmap(user, bytes) == 0 }
    })
}
