// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of driver memory into processes.
//!
//! In a window, a mapping of physical memory, a process only sees granted parts: pages are mapped
//! on a fault if the [`Pager`] grants them. Revoked pages are unmapped ([`Views::zap`]), and the
//! next access is a bus error.
//!
//! All open files of one process share a `struct address_space` ([`Views`]). An open file of any of
//! the device nodes has this address space instead of that of its inode. So one call finds all
//! windows on the pool of this process's files, and none of another process. No process pays for
//! the mappings of another.

use super::{
    mmio::Part,
    prelude::*,
    shim,
    GFP_CLIENT, //
};
use core::ffi::c_int;
use kernel::{
    bindings,
    io::PhysAddr,
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
        usize_as_u64(pages) << bindings::PAGE_SHIFT
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
        mremap: Some(stay),
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

/// The most memory areas of windows on the pool for one process's files. Each part of a split
/// window counts.
const MAX_AREAS: i32 = 2048;

/// About how many page table entries one call of [`Views::zap`] visits. Calls do not yield.
const ENTRIES_AT_ONCE: usize = 1 << 14;

/// The address space of one process's files.
///
/// # Invariants
///
/// `inode` is an anonymous inode, and this owns a reference.
pub(crate) struct Views {
    inode: *mut bindings::inode,
    areas: Atomic<i32>,
}

// SAFETY: `inode` is only passed to functions that any thread may call.
unsafe impl Send for Views {}
// SAFETY: As above. The other field is atomic.
unsafe impl Sync for Views {}

impl Views {
    /// An address space without areas. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: The call has no preconditions. It returns an inode with a reference, or an error.
        let inode = from_err_ptr(unsafe { shim::gal_new_inode() })?;
        // INVARIANT: Created just now. This owns the reference.
        let views = Self {
            inode,
            areas: Atomic::new(0),
        };
        Ok(Arc::new(views, GFP_KERNEL)?)
    }

    /// Sets this as the address space of a file that is being opened.
    ///
    /// # Safety
    ///
    /// `file` is being opened, and keeps this object until its release.
    pub(super) unsafe fn adopt(&self, file: *mut bindings::file) {
        // SAFETY: By the caller nothing else uses the file yet. By the type invariant the inode,
        // and so its address space, is live.
        unsafe { (*file).f_mapping = (*self.inode).i_mapping };
    }

    /// Counts one more area. `ENOMEM`: there are [`MAX_AREAS`].
    pub(super) fn add_area(&self) -> Result {
        if self.areas.fetch_add(1, Relaxed) >= MAX_AREAS {
            self.areas.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Counts an area that already exists, after a split.
    pub(super) fn note_area(&self) {
        self.areas.fetch_add(1, Relaxed);
    }

    /// Whether there is room for one more area.
    pub(super) fn has_room(&self) -> bool {
        self.areas.load(Relaxed) < MAX_AREAS
    }

    /// Whether there are areas.
    pub(crate) fn are_shown(&self) -> bool {
        self.areas.load(Relaxed) > 0
    }

    /// Subtracts `count` areas.
    pub(super) fn remove_areas(&self, count: i32) {
        self.areas.fetch_sub(count, Relaxed);
    }

    /// Unmaps a part of the pool from all windows: the first of `bytes` bytes from `offset`, as
    /// many as do not take long. Returns their number, a multiple of the page size and at least one
    /// page.
    ///
    /// The time is linear in the number of pages and in the number of areas.
    pub(crate) fn zap(&self, offset: usize, bytes: usize) -> usize {
        // CAST: never negative.
        let areas = self.areas.load(Relaxed).max(1) as usize;
        let pages = (ENTRIES_AT_ONCE / areas).max(1);
        let bytes = bytes.min(pages << bindings::PAGE_SHIFT);
        // CAST: as C converts a size.
        let (from, length) = (offset as bindings::loff_t, bytes as bindings::loff_t);
        // SAFETY: By the type invariant the inode is live. Any range is allowed.
        unsafe { bindings::unmap_mapping_range((*self.inode).i_mapping, from, length, 1) };
        bytes
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses the inode after this
        // drop.
        unsafe { bindings::iput(self.inode) }
    }
}
