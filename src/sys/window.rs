// SPDX-License-Identifier: GPL-2.0-only

//! Windows: mappings of physical memory in which a process only sees granted parts.
//!
//! Pages are mapped on a fault if the [`Pager`] grants them. Revoked pages are unmapped
//! ([`Views::zap`]), and the next access is a bus error.

use super::{
    physical::Part,
    prelude::*,
    shim,
    views::Views,
    vma::{
        self,
        NewArea, //
    },
    GFP_CLIENT, //
};
use kernel::{
    bindings,
    io::PhysAddr, //
};

/// The owner of memory. It decides which parts a window maps.
pub(crate) trait Pager: Send + Sync + 'static {
    /// The memory. `None`: there is none.
    fn memory(&self) -> Option<Part<'_>>;

    /// If the process may see byte `offset`, calls `show` with a part of the memory around it
    /// (offset and size in bytes, whole pages). The part must stay granted until `show` returns.
    fn grant(&self, offset: usize, show: &mut dyn FnMut(usize, usize));
}

/// A window in a process.
///
/// # Invariants
///
/// The `memory_bytes` bytes at `physical` are a [`Part`] of the pager, which lives as long as this.
/// `views` counts `areas` areas for it.
pub(crate) struct View<P> {
    pager: Arc<P>,
    /// The address space of the mapped file.
    views: Arc<Views>,
    /// Physical address of the memory's first byte.
    physical: PhysAddr,
    /// Size of the memory, in bytes.
    memory_bytes: usize,
    /// Address of the memory map, only for comparison.
    mm: usize,
    start: usize,
    bytes: usize,
    /// Number of areas of the window.
    areas: Atomic<i32>,
}

impl<P: Pager> View<P> {
    /// Prepares `area` to become a window on the memory of `pager`.
    ///
    /// `EINVAL`: there is no memory, or the area is longer. `ENOMEM`: `views` is full. `views` must
    /// be the address space of the file: [`Views::zap`] only finds windows there.
    pub(crate) fn prepare(
        area: NewArea<'_>,
        pager: Arc<P>,
        views: Arc<Views>,
    ) -> Result<Prepared<'_, P>> {
        let memory = pager.memory().ok_or(EINVAL)?;
        let (physical, memory_bytes) = (memory.start(), memory.bytes());
        if area.bytes() > memory_bytes {
            return Err(EINVAL);
        }
        // SAFETY: By its invariant the area is being set up.
        unsafe { shim::gal_prepare_window(area.as_ptr(), physical) };
        views.add_area()?;
        // INVARIANT: Counted just now. The view holds a reference of the pager, so nothing has
        // exclusive access to the pager, and its memory stays valid.
        let view = Self {
            pager,
            views,
            physical,
            memory_bytes,
            mm: current_mm(),
            start: area.start(),
            bytes: area.bytes(),
            areas: Atomic::new(1),
        };
        let view = Arc::new(view, GFP_CLIENT)?;
        Ok(Prepared { view, area })
    }

    /// Address and size in bytes, if the window exists in the calling process.
    pub(crate) fn place(&self) -> Option<(usize, usize)> {
        let exists = self.areas.load(Relaxed) > 0 && self.mm == current_mm();
        exists.then_some((self.start, self.bytes))
    }

    /// Whether the window was unmapped.
    pub(crate) fn is_over(&self) -> bool {
        self.areas.load(Relaxed) == 0
    }

    const OPERATIONS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        fault: Some(Self::fault),
        may_split: Some(Self::may_split),
        mremap: Some(vma::stay),
        ..pin_init::zeroed()
    };

    fn operations() -> &'static bindings::vm_operations_struct {
        &Self::OPERATIONS
    }

    /// # Safety
    ///
    /// Called by the memory manager for a part or a copy of an area that [`View::prepare`] counted.
    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area from which this one was copied still owns a reference.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_add(1, Relaxed);
        kept.views.note_area();
        // Leaks a reference for the new area, and keeps that of the old area.
        core::mem::forget(kept.clone());
        core::mem::forget(kept);
    }

    /// # Safety
    ///
    /// Called by the memory manager, once for each area that `prepare` or `open` counted.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The area owns one reference, and ends with this call.
        let kept = unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<Self>()) };
        kept.areas.fetch_sub(1, Relaxed);
        kept.views.remove_areas(1);
    }

    /// # Safety
    ///
    /// Called by the memory manager before it splits an area of a view.
    unsafe extern "C" fn may_split(vma: *mut bindings::vm_area_struct, _: c_ulong) -> c_int {
        // SAFETY: The area owns a reference to a view of this type, so the view is live.
        let view = unsafe { &*(*vma).vm_private_data.cast_const().cast::<Self>() };
        if view.views.has_room() {
            0
        } else {
            ENOMEM.to_errno()
        }
    }

    /// # Safety
    ///
    /// Called by the memory manager with a fault in an area that `prepare` or `open` counted.
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
            // Limits the part to the memory, for any answer of the pager.
            let first = first.min(view.memory_bytes);
            let bytes = bytes.min(view.memory_bytes - first);
            // SAFETY: By the type invariant the memory lives as long as the view, which the area
            // keeps. The part is inside of the memory, and the area was prepared for it.
            result = unsafe { shim::gal_fault_physical(vmf, view.physical, first, bytes) };
        });
        result
    }
}

/// A view whose area is not a window yet.
pub(crate) struct Prepared<'a, P> {
    view: Arc<View<P>>,
    area: NewArea<'a>,
}

impl<P: Pager> Prepared<'_, P> {
    /// The view.
    pub(crate) fn view(&self) -> &Arc<View<P>> {
        &self.view
    }

    /// Makes the area a window. An mmap handler must not fail after this: the area would leak the
    /// view.
    pub(crate) fn attach(self) {
        let vma = self.area.as_ptr();
        // SAFETY: By its invariant the area is being set up. Nothing else uses these fields,
        // because an area is only used once. The view was created for this area, and has counted
        // it.
        unsafe {
            (*vma).vm_private_data = Arc::into_raw(self.view).cast_mut().cast();
            (*vma).vm_ops = View::<P>::operations();
        }
    }
}

impl<P> Drop for View<P> {
    fn drop(&mut self) {
        // Subtracts a prepared area that never became a window.
        self.views.remove_areas(self.areas.load(Relaxed));
    }
}

/// Address of the calling process's memory map. 0: there is none.
fn current_mm() -> usize {
    let current = kernel::current!();
    current.mm().map_or(0, |mm| mm.as_raw() as usize)
}
