// SPDX-License-Identifier: GPL-2.0-only

//! New files and their descriptors: files that only keep an object alive, fences (`dma_fence` in a
//! sync file), and our memory as dma-bufs.
//!
//! Without `CONFIG_SYNC_FILE` and `CONFIG_DMA_SHARED_BUFFER` fences and dma-bufs fail with
//! `ENOTSUPP`. The C halves are `shim_fence.c` and `shim_dma_buf.c`.

use super::{
    dma_buf::{
        Access,
        DmaBuf, //
    },
    mmio::Part,
    pages::Pages,
    prelude::*,
    shim,
    unload::InUse,
    work,
    GFP_CLIENT, //
};
use core::ptr::null_mut;
use kernel::{
    bindings,
    fs::{
        file::{
            flags,
            FileDescriptorReservation, //
        },
        File, //
    },
    types::ForeignOwnable, //
};

/// A descriptor for a file that does not exist yet.
pub(super) struct Reserved(FileDescriptorReservation);

impl Reserved {
    /// Reserves a descriptor of the calling process. `EMFILE`: it has none left.
    pub(super) fn new() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC).map(Self)
    }

    /// As [`Reserved::new`], but `exec` does not close the descriptor.
    pub(super) fn kept_by_exec() -> Result<Self> {
        FileDescriptorReservation::get_unused_fd_flags(0).map(Self)
    }

    /// Combines the descriptor with its file. `ENOMEM`: `file` is null.
    ///
    /// # Safety
    ///
    /// `file` is null, or a file of which the caller passes a reference.
    pub(super) unsafe fn fill(self, file: *mut bindings::file) -> Result<NewFile> {
        let file = NonNull::new(file).ok_or(ENOMEM)?;
        Ok(NewFile {
            reservation: self.0,
            // SAFETY: By the caller `file` is live, and its reference passes to the result.
            file: unsafe { ARef::from_raw(file.cast::<File>()) },
        })
    }
}

/// A file with a descriptor. [`NewFile::install`] makes them visible to the process. Dropping this
/// frees both.
pub(crate) struct NewFile {
    reservation: FileDescriptorReservation,
    file: ARef<File>,
}

impl core::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "fd {}", self.number())
    }
}

impl NewFile {
    /// The descriptor.
    pub(crate) fn number(&self) -> u32 {
        self.reservation.reserved_fd()
    }

    /// Installs the file in the calling process.
    pub(crate) fn install(self) {
        self.reservation.fd_install(self.file);
    }
}

/// The object of a file.
#[repr(C)]
struct Held<T> {
    base: shim::gal_held,
    object: T,
}

/// # Safety
///
/// `held` is the `base` of a boxed `Held<T>`. The box passes to this call.
unsafe extern "C" fn put_held<T>(held: *mut shim::gal_held) {
    // SAFETY: By the caller. `base` is the first field.
    let held = unsafe { KBox::<Held<T>>::from_raw(held.cast()) };
    drop(held);
}

/// Creates a file that keeps `object`, and the module, until the last descriptor of the file in any
/// process is closed. Then `object` is dropped, in a context that may sleep.
///
/// `EMFILE`: the process has no descriptor left. `ENOMEM`.
pub(crate) fn keep<T: Send + 'static>(object: T) -> Result<NewFile> {
    let reserved = Reserved::new()?;
    let held = Held {
        base: shim::gal_held {
            put: Some(put_held::<T>),
        },
        object,
    };
    let held = KBox::into_raw(KBox::new(held, GFP_CLIENT)?);
    // SAFETY: The file owns the box, and calls `put_held` once to free it. Any thread may drop `T`.
    let file = from_err_ptr(unsafe { shim::gal_new_holder(held.cast()) }).inspect_err(|_| {
        // SAFETY: The call failed, so this function still owns `held`.
        unsafe { put_held::<T>(held.cast()) };
    })?;
    // SAFETY: A new file, and this function owns its only reference.
    unsafe { reserved.fill(file) }
}

/// A fence that is not signaled yet. So that nothing waits forever, it is signaled with an error
/// when this is dropped, or after 10 seconds.
///
/// # Invariants
///
/// The pointer references a live fence of `gal_new_fence`, and this owns a reference.
pub(crate) struct Fence {
    fence: NonNull<shim::gal_fence>,
    /// Keeps the code of the work item that ends it loaded.
    _in_use: InUse,
}

// SAFETY: Any thread may call the functions of fences.
unsafe impl Send for Fence {}
// SAFETY: `&self` only allows calls of those functions, which may run concurrently.
unsafe impl Sync for Fence {}

impl Fence {
    /// A fence that fails with `ETIMEDOUT` after 10 seconds. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Self::make(None)
    }

    /// As [`Self::new`], for a job of the core with index `core`. Jobs of one core end in order.
    pub(crate) fn of_core(core: usize) -> Result<Self> {
        Self::make(Some(core))
    }

    fn make(core: Option<usize>) -> Result<Self> {
        let in_use = InUse::new()?;
        let queue = work::raw_queue(&in_use);
        // SAFETY: The queue lives as long as there is an [`InUse`], and the work item of fences ends
        // before it.
        let fence = from_err_ptr(unsafe { shim::gal_new_fence(queue, number_of(core)) })?;
        // INVARIANT: Created just now.
        let fence = NonNull::new(fence).ok_or(ENOMEM)?;
        Ok(Self {
            fence,
            _in_use: in_use,
        })
    }

    /// Creates a sync file for it. `EMFILE`: the process has no descriptor left. `ENOMEM`.
    pub(crate) fn file(&self) -> Result<NewFile> {
        let reserved = Reserved::new()?;
        // SAFETY: By the type invariant the fence is live; the result is checked.
        let file = from_err_ptr(unsafe { shim::gal_fence_file(self.fence.as_ptr()) })?;
        // SAFETY: A new file, and this call owns its only reference.
        unsafe { reserved.fill(file) }
    }

    /// A reference that others can wait for.
    pub(crate) fn share(&self) -> Option<SharedFence> {
        // SAFETY: By the type invariant the fence is live.
        let fence = unsafe { shim::gal_share_fence(self.fence.as_ptr()) };
        // INVARIANT: The call returned it with a reference.
        NonNull::new(fence).map(SharedFence)
    }

    /// Whether it has timed out.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: By the type invariant the fence is live.
        unsafe { shim::gal_fence_is_over(self.fence.as_ptr()) }
    }

    /// Signals the fence.
    pub(crate) fn signal(self) {
        // SAFETY: By the type invariant the fence is live. This consumes `self`, so it is only
        // signaled once.
        unsafe { shim::gal_signal_fence(self.fence.as_ptr()) };
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The reference passes to the call.
        unsafe { shim::gal_end_fence(self.fence.as_ptr(), -(bindings::ECANCELED as c_int)) };
    }
}

/// The number of the core with an index, for C. 0: none.
pub(super) fn number_of(core: Option<usize>) -> u32 {
    core.and_then(|core| u32::try_from(core).ok())
        .map_or(0, |core| core.saturating_add(1))
}

/// A fence that others may wait for.
///
/// # Invariants
///
/// The pointer references a live fence, and this owns a reference.
pub(crate) struct SharedFence(pub(super) NonNull<shim::dma_fence>);

impl Drop for SharedFence {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses it after this drop.
        unsafe { shim::gal_put_fence(self.0.as_ptr()) };
    }
}

/// Waits for the sync file with descriptor `fd` of the calling process. Times out after
/// `milliseconds`, rounded up; all ones: never.
///
/// `EINVAL`: there is no such file. `ETIMEDOUT`: it was not signaled in time. `ERESTARTSYS`: a Unix
/// signal interrupted the wait. If it `outlasts` signals, only a fatal one does.
pub(crate) fn wait(fd: i32, milliseconds: u32, outlasts: bool) -> Result {
    // SAFETY: The call looks up the descriptor in the caller's table and refuses numbers that are
    // not in use.
    kernel::error::to_result(unsafe { shim::gal_wait_fence(fd, milliseconds, outlasts) })
}

/// Memory that can be exported as a dma-buf.
pub(crate) enum Memory<'a> {
    /// Contiguous and uncached.
    Part(Part<'a>),
    /// Pages.
    Pages(&'a Pages),
}

/// An object whose memory can be exported as a dma-buf.
pub(crate) trait Exportable: Send + Sync + 'static {
    /// The memory. `None`: it cannot be exported.
    fn memory(&self) -> Option<Memory<'_>>;
}

/// The private data of an exported dma-buf.
struct Owner<T> {
    object: Arc<T>,
    /// Importers may write even if the file is read-only.
    importers_write: bool,
    /// The address of the exporter identifies it, so this address must not be reused while the
    /// dma-buf exists.
    _exporter: Arc<Exporter<T>>,
}

/// # Safety
///
/// `owner` came from `into_foreign`, and this is its end.
unsafe extern "C" fn put<T: Send + Sync + 'static>(owner: *mut c_void) {
    // SAFETY: By the caller's contract `owner` came from `into_foreign`, and nothing uses it
    // afterwards.
    drop(unsafe { KBox::<Owner<T>>::from_foreign(owner) });
}

/// Exports objects as dma-bufs, and recognizes its own dma-bufs.
pub(crate) struct Exporter<T> {
    /// Gives each exporter a unique address.
    _place: u8,
    _objects: PhantomData<fn() -> T>,
}

impl<T: Exportable> Exporter<T> {
    /// A new exporter.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let this = Self {
            _place: 0,
            _objects: PhantomData,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn tag(self: &Arc<Self>) -> *const c_void {
        Arc::as_ptr(self).cast()
    }

    /// Exports `object` as [`Exporter::make`] does, with a new descriptor. `EMFILE`: the process
    /// has none left.
    pub(crate) fn export(self: &Arc<Self>, object: Arc<T>, access: Access) -> Result<NewFile> {
        let reserved = if access.closes_on_exec() {
            Reserved::new()?
        } else {
            Reserved::kept_by_exec()?
        };
        let buffer = self.make(object, access, false)?;
        let file = buffer.file();
        // The file's reference is the one of the dma-buf.
        core::mem::forget(buffer);
        // SAFETY: A new file, whose only reference is ours.
        unsafe { reserved.fill(file) }
    }

    /// Exports the memory of `object` with the mode `access`. The dma-buf keeps the object alive.
    /// `importers_write`: importers may write even if `access` is read-only. `EINVAL`: it cannot be
    /// exported.
    pub(crate) fn make(
        self: &Arc<Self>,
        object: Arc<T>,
        access: Access,
        importers_write: bool,
    ) -> Result<DmaBuf> {
        let (pages, start, bytes) = match object.memory().ok_or(EINVAL)? {
            Memory::Part(part) => (null_mut(), part.start(), part.bytes()),
            Memory::Pages(pages) => {
                let pages = pages.allocated().ok_or(EINVAL)?;
                // C only reads them.
                (pages.as_ptr().cast_mut(), 0, pages.len() * PAGE_SIZE)
            }
        };
        let owner = Owner {
            object,
            importers_write,
            _exporter: self.clone(),
        };
        let owner = KBox::new(owner, GFP_CLIENT)?.into_foreign();
        let what = shim::gal_export {
            pages,
            start,
            bytes,
            exporter: self.tag(),
            owner: owner.cast(),
            put: Some(put::<T>),
            flags: access.flags(),
        };
        // SAFETY: The dma-buf gets a reference of the object. So nothing has exclusive access to
        // the object, and its memory and the array of pages, which has this length, stay valid.
        let buffer = from_err_ptr(unsafe { shim::gal_export_buffer(&what) }).inspect_err(|_| {
            // SAFETY: The export failed, so `owner` was not taken and is still ours to drop.
            unsafe { put::<T>(owner.cast()) };
        })?;
        let buffer = NonNull::new(buffer).ok_or(ENOMEM)?;
        // SAFETY: It came with a reference, which nothing else puts.
        Ok(unsafe { DmaBuf::from_raw(buffer) })
    }

    /// The object that `buffer` exports, and whether importers may write. `None`: `buffer` is not
    /// from this exporter.
    pub(crate) fn find(self: &Arc<Self>, buffer: &DmaBuf) -> Option<(Arc<T>, bool)> {
        // SAFETY: By its type invariant the dma-buf is live; the tag is only compared.
        let owner = unsafe { shim::gal_exported_by(buffer.as_ptr(), self.tag()) };
        let owner = NonNull::new(owner.cast::<Owner<T>>())?;
        // SAFETY: Only this exporter's dma-bufs have its address, and their owners are of this
        // type; the dma-buf keeps its owner alive.
        let owner = unsafe { owner.as_ref() };
        let is_writeable = owner.importers_write || buffer.is_writeable();
        Some((owner.object.clone(), is_writeable))
    }
}
