// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of driver memory into processes.

use super::{
    dma::DmaBuffer,
    physical::Reserved,
    shim, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    mm::virt::{
        VmaNew,
        VmaRef, //
    },
    prelude::*,
    sync::Arc, //
};

/// Something whose memory can be mapped and must live as long as the mapping.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// The memory.
    fn memory(&self) -> &DmaBuffer;
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
/// `EINVAL` when the area is longer than the memory. Called from an mmap handler.
pub(crate) fn map<T: Mappable>(area: &VmaNew, object: Arc<T>) -> Result {
    object.memory().mmap(area)?;
    let vma = area.as_ptr();
    // SAFETY: The area is being set up by the caller; nothing else uses these two fields.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(object).cast_mut().cast();
        (*vma).vm_ops = Keep::<T>::operations();
    }
    Ok(())
}

/// Maps the start of `memory` into `area`, write-combined.
///
/// `EINVAL` when the area is longer than the memory. Called from an mmap handler of a file whose
/// module cannot go away while the mapping stands, and whose memory the module keeps till then.
pub(crate) fn map_reserved(area: &VmaNew, memory: &Reserved) -> Result {
    if area.end() - area.start() > memory.size() {
        return Err(EINVAL);
    }
    // SAFETY: The range is inside memory that is no system RAM and is ours alone.
    to_result(unsafe { shim::gal_mmap_physical(area.as_ptr(), memory.start()) })
}

/// Maps the start of `memory` into `area`, under the same condition.
pub(crate) fn map_lasting(area: &VmaNew, memory: &DmaBuffer) -> Result {
    memory.mmap(area)
}

/// The byte offset into the file that the mapping was asked for.
pub(crate) fn file_offset(area: &VmaRef) -> u64 {
    // SAFETY: A valid area, locked by the caller's reference.
    let pages = unsafe { (*area.as_ptr()).vm_pgoff };
    (pages as u64) << bindings::PAGE_SHIFT
}
