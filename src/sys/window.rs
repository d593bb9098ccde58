// SPDX-License-Identifier: GPL-2.0-only

//! Windows: mappings of physical memory of which a process sees only what its owner grants.
//!
//! Nothing is mapped beforehand. A page that is touched is asked for ([`Pager`]); one that is taken
//! back is unmapped ([`Views::zap`]), and touching it again is a bus error.

use super::{
    dma::DmaBuffer,
    physical::Reserved,
    shim,
    views::Views,
    widen, //
};
use kernel::{
    bindings,
    io::PhysAddr,
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Decides what a window shows.
pub(crate) trait Pager: Send + Sync + 'static {
    /// Calls `show` with a part of the memory (offset and bytes, whole pages) that holds byte
    /// `offset`, if the process may see it. Until `show` has returned the part must stay granted.
    fn grant(&self, offset: usize, show: &mut dyn FnMut(usize, usize));
}

/// Memory that a window can show.
pub(crate) trait Panorama {
    /// Physical address and bytes.
    fn extent(&self) -> (u64, usize);
}

impl Panorama for Reserved {
    fn extent(&self) -> (u64, usize) {
        (widen(self.start()), self.size())
    }
}

impl Panorama for DmaBuffer {
    fn extent(&self) -> (u64, usize) {
        (self.physical(), self.size())
    }
}

/// A window in a process: where it is, and whether it still stands.
///
/// # Invariants
///
/// `physical` is the physical address of memory that lives as long as the mapped file is open. `areas`
/// areas are counted in `views` for it.
pub(crate) struct View<P> {
    pager: Arc<P>,
    /// Those of the process whose file is mapped.
    views: Arc<Views>,
    /// Physical address of what the window's first byte shows.
    physical: PhysAddr,
    /// Identity of the memory map; only compared.
    mm: usize,
    start: usize,
    bytes: usize,
    /// Areas that the window consists of.
    areas: Atomic<i32>,
}

impl<P: Pager> View<P> {
    /// Prepares `area` to become a window on `memory` whose contents `pager` grants, by
    /// [`View::attach`].
    ///
    /// `EINVAL`: the area is longer than the memory. `ENOMEM`: `views` has as many as it may have. Called
    /// from an mmap handler of a file that keeps the module and the memory, and whose address space is
    /// that of `views`.
    pub(crate) fn new(
        area: &VmaNew,
        memory: &impl Panorama,
        pager: Arc<P>,
        views: Arc<Views>,
    ) -> Result<Arc<Self>> {
        let (physical, size) = memory.extent();
        let bytes = area.end() - area.start();
        if bytes > size {
            return Err(EINVAL);
        }
        let physical = PhysAddr::try_from(physical)?;
        // SAFETY: The area is being set up by our mmap handler.
        unsafe { shim::gal_prepare_window(area.as_ptr()) };
        views.add_area()?;
        // INVARIANT: Counted just now; the memory is the caller's promise.
        let view = Self {
            pager,
            views,
            physical,
            mm: current_mm(),
            start: area.start(),
            bytes,
            areas: Atomic::new(1),
        };
        Ok(Arc::new(view, GFP_KERNEL_ACCOUNT)?)
    }

    /// Makes the area that the view was prepared for the window. The last thing that an mmap handler
    /// does: an area whose handler fails afterwards would keep the view for ever.
    pub(crate) fn attach(self: Arc<Self>, area: &VmaNew) {
        let vma = area.as_ptr();
        // SAFETY: The area is being set up by our mmap handler; nothing else uses these two fields.
        unsafe {
            (*vma).vm_private_data = Arc::into_raw(self).cast_mut().cast();
            (*vma).vm_ops = Self::operations();
        }
    }

    /// Address and bytes, if the window stands in the calling process.
    pub(crate) fn place(&self) -> Option<(usize, usize)> {
        let stands = self.areas.load(Relaxed) > 0 && self.mm == current_mm();
        stands.then_some((self.start, self.bytes))
    }

    /// Whether the window is gone for good.
    pub(crate) fn is_over(&self) -> bool {
        self.areas.load(Relaxed) == 0
    }

    const OPERATIONS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        fault: Some(Self::fault),
        may_split: Some(Self::may_split),
        mremap: Some(Self::mremap),
        ..pin_init::zeroed()
    };

    fn operations() -> &'static bindings::vm_operations_struct {
        &Self::OPERATIONS
    }

    /// # Safety
    ///
    /// Called by the memory manager for an area that [`View::new`] set up, or a part or copy of one.
    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area that this one was copied from still owns a reference.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_add(1, Relaxed);
        kept.views.note_area();
        // One reference for the new area, and the old one's is not ours to drop.
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// Called by the memory manager, once for each area that `new` or `open` counted.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area owns one reference and goes away.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_sub(1, Relaxed);
        kept.views.remove_areas(1);
    }

    /// # Safety
    ///
    /// Called by the memory manager for an area of ours that is to become two.
    unsafe extern "C" fn may_split(vma: *mut bindings::vm_area_struct, _: c_ulong) -> c_int {
        // SAFETY: The area owns a reference.
        let view = unsafe { &*(*vma).vm_private_data.cast_const().cast::<Self>() };
        match view.views.has_room() {
            true => 0,
            false => ENOMEM.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by the memory manager for an area that is to be moved.
    unsafe extern "C" fn mremap(_: *mut bindings::vm_area_struct) -> c_int {
        // LOCK gives out addresses in the window: it stays where it is.
        EINVAL.to_errno()
    }

    /// # Safety
    ///
    /// Called by the memory manager with a fault in an area that `new` or `open` counted.
    unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: The fault and its area are valid during the call, and the area owns a reference.
        let (view, page) = unsafe {
            let place = &(*vmf).__bindgen_anon_1;
            (
                &*(*place.vma).vm_private_data.cast_const().cast::<Self>(),
                place.pgoff,
            )
        };
        let mut result = bindings::vm_fault_reason_VM_FAULT_SIGBUS as bindings::vm_fault_t;
        let offset = page << bindings::PAGE_SHIFT;
        view.pager.grant(offset, &mut |first, bytes| {
            // SAFETY: The part is inside the memory, by the pager's promise, and stays granted.
            result = unsafe { shim::gal_fault_physical(vmf, view.physical, first, bytes) };
        });
        result
    }
}

impl<P> Drop for View<P> {
    fn drop(&mut self) {
        // One that never became a window.
        self.views.remove_areas(self.areas.load(Relaxed));
    }
}

/// Identity of the calling process's memory map.
fn current_mm() -> usize {
    let current = kernel::current!();
    current.mm().map_or(0, |mm| mm.as_raw() as usize)
}
