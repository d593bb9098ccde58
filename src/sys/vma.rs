// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of driver memory into processes.

use super::{
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

/// A memory area that becomes a mapping of a device file. Each use consumes it, so that it is only
/// set up once.
///
/// # Invariants
///
/// The mmap handler of a device file is setting up the area. The area is shared, and only the owner
/// of this maps anything in it.
pub(crate) struct NewArea<'a>(&'a VmaNew);

impl<'a> NewArea<'a> {
    /// Wraps an area of a device file. `ENOTTY`, galcore's error for areas that it does not map:
    /// the area is private.
    ///
    /// This checks all kinds of mappings of device files.
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
        // SAFETY: By the type invariant nothing else changes the area.
        let pages = unsafe { (*self.0.as_ptr()).vm_pgoff };
        // CAST: at most 64 bits.
        (pages as u64) << bindings::PAGE_SHIFT
    }

    /// The start address in the process.
    pub(super) fn start(&self) -> usize {
        self.0.start()
    }

    /// Size in bytes, a multiple of the page size.
    pub(super) fn bytes(&self) -> usize {
        self.0.end() - self.0.start()
    }

    /// The C pointer of the area, to set it up.
    pub(super) fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.0.as_ptr()
    }

    /// Makes the mapping permanently read-only. `EACCES`: it was requested as writable.
    pub(crate) fn make_read_only(&self) -> Result {
        if self.0.flags() & VM_WRITE != 0 {
            return Err(EACCES);
        }
        self.0.try_clear_maywrite()
    }
}

/// Memory that can be mapped into a process.
pub(crate) trait Memory {
    /// Maps the start of the memory into `area`: with `cached`, as cached memory if possible.
    ///
    /// # Safety
    ///
    /// The memory lives as long as the mapping: until `area`, and all areas that are split off or
    /// copied from it, are gone. On an error, it lives until the area is empty again.
    unsafe fn map_into(&self, area: &NewArea<'_>, cached: bool) -> Result;
}

/// An object with memory that can be mapped. The object must live as long as the mapping.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// The type of memory.
    type Memory: Memory;

    /// The memory.
    fn memory(&self) -> &Self::Memory;
}

/// Refuses to move an area, because LOCK returns its address, and UNLOCK unmaps it there.
///
/// # Safety
///
/// Called by the memory manager before it moves an area.
pub(super) unsafe extern "C" fn stay(_: *mut bindings::vm_area_struct) -> c_int {
    EINVAL.to_errno()
}

/// Ties an `Arc<T>` to memory areas. Each area, also each part of a split one, owns one reference.
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
        // SAFETY: `map` stored a pointer from `Arc::into_raw`. The area from which this one was
        // copied still owns a reference.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) };
        // Leaks a reference for the new area, and keeps that of the old area.
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// Called by the memory manager, once for each area that `map` or `open` counted.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area owns one reference, and ends with this call.
        drop(unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) });
    }
}

/// Maps the start of `object`'s memory into `area`. The area keeps the object alive.
///
/// Fails if the area is longer than the memory.
pub(crate) fn map<T: Mappable>(area: NewArea<'_>, object: Arc<T>, cached: bool) -> Result {
    let vma = area.as_ptr();
    // SAFETY: By the invariant of the area it may be read.
    let page = unsafe { (*vma).vm_pgoff };
    // SAFETY: From now on the area has a reference of the object. So nothing has exclusive access
    // to the object, and its memory stays valid. On an error the area is emptied while this holds
    // the reference.
    let mapped = unsafe { object.memory().map_into(&area, cached) };
    mapped.inspect_err(|_| {
        // The memory manager only unmaps the area after the handler has returned. The object may be
        // freed before, and other threads must not see its pages then.
        // SAFETY: By its invariant the area is being set up, so no other thread changes it.
        unsafe { shim::gal_clear_area(vma) };
    })?;
    // SAFETY: By its invariant the area is being set up. Nothing else uses these fields, because an
    // area is only used once.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(object).cast_mut().cast();
        (*vma).vm_ops = Keep::<T>::operations();
        // Keeps it out of the pool's windows, whose pages are unmapped by file offset.
        (*vma).vm_pgoff = page | ABOVE_WINDOWS;
    }
    Ok(())
}

/// File offset of objects in pages: 4 GiB, above any pool.
const ABOVE_WINDOWS: c_ulong = 1 << (32 - bindings::PAGE_SHIFT);

/// The size of the calling process's mapping of `object` at `user`, in bytes, if it exists.
///
/// A child, or a process that has unmapped `object`, may have another mapping there.
pub(crate) fn view_bytes<T: Mappable>(user: usize, object: &Arc<T>) -> Option<usize> {
    let current = kernel::current!();
    let lock = current.mm()?.mmap_read_lock();
    let area = lock.vma_lookup(user)?;
    let vma = area.as_ptr();
    // SAFETY: The memory map is locked, so the area is valid and unchanged.
    let (operations, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
    let is_ours = core::ptr::eq(operations, Keep::<T>::operations())
        && core::ptr::eq(data.cast_const().cast::<T>(), Arc::as_ptr(object));
    (is_ours && area.start() == user).then(|| area.end() - area.start())
}

/// Unmaps `object` from the calling process at `user`. Returns whether it is not mapped there.
pub(crate) fn unmap<T: Mappable>(user: usize, object: &Arc<T>) -> bool {
    view_bytes(user, object).is_none_or(|bytes| {
        // Another thread may change the memory map in between. That only affects its own process.
        // SAFETY: The call works on the caller's memory map and checks the range.
        unsafe { bindings::vm_munmap(user, bytes) == 0 }
    })
}
