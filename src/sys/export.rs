// SPDX-License-Identifier: GPL-2.0-only

//! Exports our memory as dma-bufs, to other drivers and processes.
//!
//! Without `CONFIG_DMA_SHARED_BUFFER` the functions fail with `ENOTSUPP`. The C half is
//! `shim_dma_buf.c`.

use super::{
    dma_buf::{
        Access,
        DmaBuf, //
    },
    file::{
        NewFile,
        Reserved, //
    },
    pages::Pages,
    physical::Part,
    prelude::*,
    shim,
    GFP_CLIENT, //
};
use core::ptr::null_mut;
use kernel::types::ForeignOwnable;

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
