// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of driver memory into processes.

use super::{
    dma::DmaBuffer,
    pages::Pages,
    physical::Reserved,
    shim, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    mm::virt::{
        flags::WRITE as VM_WRITE,
        VmaNew,
        VmaRef, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Makes `area` read-only for good. `EACCES`: it was asked for writing.
pub(crate) fn make_read_only(area: &VmaNew) -> Result {
    if area.flags() & VM_WRITE != 0 {
        return Err(EACCES);
    }
    area.try_clear_maywrite()
}

/// Memory that can be mapped into a process.
pub(crate) trait Memory {
    /// Maps the memory's start into `area`, cached if the memory allows it and `cached` says so.
    fn map_into(&self, area: &VmaNew, cached: bool) -> Result;
}

impl Memory for DmaBuffer {
    fn map_into(&self, area: &VmaNew, _: bool) -> Result {
        self.mmap(area)
    }
}

impl Memory for Pages {
    fn map_into(&self, area: &VmaNew, cached: bool) -> Result {
        self.mmap(area, cached)
    }
}

/// Something whose memory can be mapped and must live as long as the mapping.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// How the memory is kept.
    type Memory: Memory;

    /// The memory.
    fn memory(&self) -> &Self::Memory;
}

/// Ties an `Arc<T>` to a memory area: the area owns one reference, a split area one each.
struct Keep<T>(PhantomData<T>);

impl<T: Mappable> Keep<T> {
    const OPERATIONS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
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
        // One reference for the new area, and the old one's is not ours to drop.
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// Called by the memory manager, once for each area that `map` or `open` counted.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area owns one reference and goes away.
        drop(unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) });
    }
}

/// Maps the start of `object`'s memory into `area`, which keeps the object alive.
///
/// Fails when the area is longer than the memory. Called from an mmap handler.
pub(crate) fn map<T: Mappable>(area: &VmaNew, object: Arc<T>, cached: bool) -> Result {
    object.memory().map_into(area, cached)?;
    let vma = area.as_ptr();
    // SAFETY: The area is being set up by the caller; nothing else uses these two fields.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(object).cast_mut().cast();
        (*vma).vm_ops = Keep::<T>::operations();
    }
    Ok(())
}

/// Ends the calling process's view of `object` at `user`, if that is what is there.
///
/// A child, or a process that has unmapped the view itself, may have something else there by now.
pub(crate) fn unmap<T: Mappable>(user: usize, object: &Arc<T>) {
    let current = kernel::current!();
    let Some(mm) = current.mm() else {
        return;
    };
    let bytes = {
        let lock = mm.mmap_read_lock();
        let Some(area) = lock.vma_lookup(user) else {
            return;
        };
        let vma = area.as_ptr();
        // SAFETY: The memory map is locked, so the area is valid and does not change.
        let (operations, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
        let is_ours = core::ptr::eq(operations, Keep::<T>::operations())
            && core::ptr::eq(data.cast_const().cast::<T>(), Arc::as_ptr(object));
        if !is_ours || area.start() != user {
            return;
        }
        area.end() - area.start()
    };
    // Another thread may change its own memory map in between; it is its own.
    // SAFETY: Works on the caller's memory map and checks the range.
    let _ = unsafe { bindings::vm_munmap(user, bytes) };
}

impl Memory for Reserved {
    fn map_into(&self, area: &VmaNew, _: bool) -> Result {
        if area.end() - area.start() > self.size() {
            return Err(EINVAL);
        }
        // SAFETY: The range is inside memory that is no system RAM and is ours alone.
        to_result(unsafe { shim::gal_mmap_physical(area.as_ptr(), self.start()) })
    }
}

/// A mapping that knows whether it still stands, and where.
pub(crate) struct View {
    /// Identity of the memory map; only compared.
    mm: usize,
    start: usize,
    bytes: usize,
    /// Areas that the mapping consists of.
    areas: Atomic<i32>,
}

impl View {
    /// Address and bytes, if the view stands in the calling process.
    pub(crate) fn place(&self) -> Option<(usize, usize)> {
        let stands = self.areas.load(Relaxed) > 0 && self.mm == current_mm();
        stands.then_some((self.start, self.bytes))
    }

    /// Whether the view is gone for good.
    pub(crate) fn is_over(&self) -> bool {
        self.areas.load(Relaxed) == 0
    }

    const OPERATIONS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        ..pin_init::zeroed()
    };

    fn operations() -> &'static bindings::vm_operations_struct {
        &Self::OPERATIONS
    }

    /// # Safety
    ///
    /// As [`Keep::open`].
    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: As in `Keep::open`.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_add(1, Relaxed);
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// As [`Keep::close`].
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: As in `Keep::close`.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_sub(1, Relaxed);
    }
}

/// Identity of the calling process's memory map.
fn current_mm() -> usize {
    let current = kernel::current!();
    current.mm().map_or(0, |mm| mm.as_raw() as usize)
}

/// Maps the start of `memory` into `area` and returns the view.
///
/// Fails when the area is longer than the memory. Called from an mmap handler of a file whose module
/// and memory stay while the mapping stands.
pub(crate) fn map_view(area: &VmaNew, memory: &impl Memory) -> Result<Arc<View>> {
    let view = Arc::new(
        View {
            mm: current_mm(),
            start: area.start(),
            bytes: area.end() - area.start(),
            areas: Atomic::new(1),
        },
        GFP_KERNEL,
    )?;
    memory.map_into(area, false)?;
    let vma = area.as_ptr();
    // SAFETY: The area is being set up by the caller; nothing else uses these two fields.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(view.clone()).cast_mut().cast();
        (*vma).vm_ops = View::operations();
    }
    Ok(view)
}

/// The byte offset into the file that the mapping was asked for.
pub(crate) fn file_offset(area: &VmaRef) -> u64 {
    // SAFETY: A valid area, locked by the caller's reference.
    let pages = unsafe { (*area.as_ptr()).vm_pgoff };
    (pages as u64) << bindings::PAGE_SHIFT
}
