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
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    bindings,
    device,
    dma::DmaAddress,
    error::{
        from_err_ptr,
        to_result, //
    },
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        aref::ARef,
        Arc,
        Mutex,
        UniqueArc, //
    },
    types::ForeignOwnable, //
};

/// A dma-buf.
///
/// # Invariants
///
/// The pointer is valid, and a reference is ours.
struct Buffer(NonNull<shim::dma_buf>);

// SAFETY: The kernel's functions on them may be called by any thread.
unsafe impl Send for Buffer {}
// SAFETY: As above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// That of the calling process's descriptor `fd`. `EBADF`, `EINVAL`: there is none.
    fn get(fd: i32) -> Result<Self> {
        // SAFETY: Any number may be given.
        let buffer = from_err_ptr(unsafe { shim::gal_get_buffer(fd) })?;
        // INVARIANT: It came with a reference.
        NonNull::new(buffer).map(Self).ok_or(EINVAL)
    }

    fn is_writeable(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_is_writeable(self.0.as_ptr()) }
    }

    fn file(&self) -> *mut bindings::file {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_buffer_file(self.0.as_ptr()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { shim::gal_put_buffer(self.0.as_ptr()) }
    }
}

/// A dma-buf that is attached to a device and mapped for it.
struct Attached {
    parts: shim::gal_import,
    buffer: Buffer,
}

// SAFETY: As for [`Buffer`].
unsafe impl Send for Attached {}
// SAFETY: As for [`Buffer`]; nothing changes behind `&self`.
unsafe impl Sync for Attached {}

struct Shared {
    attached: Arc<Attached>,
    users: usize,
}

/// The dma-bufs of others that a device has. Each is attached and mapped once, however often it is imported.
///
/// Lock: `galcore imports`, outermost; under it the owners of dma-bufs are called.
#[pin_data]
pub(crate) struct Imports {
    dev: ARef<device::Device>,
    /// By the address of the `struct dma_buf`.
    #[pin]
    book: Mutex<RBTree<usize, Shared>>,
}

impl Imports {
    /// None yet.
    pub(crate) fn new(dev: &device::Device) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.into(),
                book <- new_mutex!(RBTree::new(), "galcore imports"),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes the dma-buf of the calling process's descriptor `fd`.
    ///
    /// `EBADF`, `EINVAL`: there is none. `EACCES`: it is to be written, and is for reading only. Else what its
    /// owner says.
    pub(crate) fn import(self: &Arc<Self>, fd: i32, write: bool) -> Result<Import> {
        let buffer = Buffer::get(fd)?;
        if write && !buffer.is_writeable() {
            return Err(EACCES);
        }
        let key = buffer.0.as_ptr().addr();
        let mut book = self.book.lock();
        let attached = if let Some(shared) = book.get_mut(&key) {
            shared.users = shared.users.checked_add(1).ok_or(ENOMEM)?;
            shared.attached.clone()
        } else {
            // Room first: what is attached must get into the book.
            let place = UniqueArc::<Attached>::new_uninit(GFP_KERNEL)?;
            let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let mut parts = shim::gal_import {
                attachment: null_mut(),
                table: null_mut(),
                bytes: 0,
            };
            let dev = raw_device(&self.dev);
            // SAFETY: The device and the buffer are valid; the parts are written if it succeeds.
            to_result(unsafe { shim::gal_attach(dev, buffer.0.as_ptr(), &mut parts) })?;
            let attached: Arc<Attached> = place.write(Attached { parts, buffer }).into();
            let shared = Shared {
                attached: attached.clone(),
                users: 1,
            };
            book.insert(room.into_node(key, shared));
            attached
        };
        drop(book);
        // INVARIANT: One more user.
        Ok(Import {
            imports: self.clone(),
            attached,
            write,
        })
    }
}

/// A use of somebody's dma-buf by our device.
///
/// # Invariants
///
/// It is one of the users of `attached` in the book.
pub(crate) struct Import {
    imports: Arc<Imports>,
    attached: Arc<Attached>,
    write: bool,
}

impl Import {
    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.attached.parts.bytes
    }

    /// Whether the device may write it.
    pub(crate) fn is_writeable(&self) -> bool {
        self.write
    }

    /// The device's addresses of its pages. `EINVAL`: it is not made of whole pages. `ENOMEM`.
    pub(crate) fn pages(&self) -> Result<KVVec<DmaAddress>> {
        if self.bytes() == 0 || self.bytes() % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let count = self.bytes() / PAGE_SIZE;
        let mut pages = KVVec::from_elem(0, count, GFP_KERNEL)?;
        let parts = &self.attached.parts;
        // SAFETY: By the type invariant it is mapped; there is room for `count`.
        to_result(unsafe { shim::gal_import_pages(parts, pages.as_mut_ptr(), count) })?;
        Ok(pages)
    }

    /// Maps all of it into the calling process, as its owner does that. Returns the address.
    pub(crate) fn map_into_caller(&self) -> Result<usize> {
        let file = self.attached.buffer.file();
        // SAFETY: The dma-buf holds its file; the memory manager checks the rest.
        let address = unsafe { shim::gal_map_file(file, self.bytes(), self.write) };
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
            let file = self.attached.buffer.file();
            // SAFETY: The memory map is locked, so the area is valid and does not change.
            let is_ours = unsafe { shim::gal_is_mapped(area.as_ptr(), file) };
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
        let buffer = self.attached.buffer.0.as_ptr();
        let mut book = self.imports.book.lock();
        let Some(shared) = book.get_mut(&buffer.addr()) else {
            return;
        };
        shared.users -= 1;
        if shared.users == 0 {
            // SAFETY: By the type invariant it is attached; this was its last user.
            unsafe { shim::gal_detach(buffer, &self.attached.parts) };
            let last = book.remove(&buffer.addr());
            // The last reference of the buffer may go with ours: not under the lock.
            drop(book);
            drop(last);
        }
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
