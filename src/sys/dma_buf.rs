// SPDX-License-Identifier: GPL-2.0-only

//! dma-bufs: imports other drivers' memory for our device.
//!
//! Without `CONFIG_DMA_SHARED_BUFFER` the functions fail with `ENOTSUPP`. The C half is
//! `shim_dma_buf.c`.

use super::{
    dma,
    mapped,
    pinned::PinnedPages,
    prelude::*,
    raw_device,
    shim,
    vma::NewArea,
    GFP_CLIENT, //
};
use core::{
    ops::Range,
    ptr::null_mut, //
};
use kernel::{
    bindings,
    device,
    dma::DmaAddress,
    fs::file::flags,
    new_mutex, //
};

/// A dma-buf.
///
/// A call must look up a descriptor only once: another thread can replace its file at any time.
///
/// # Invariants
///
/// The pointer is valid, and this owns a reference.
pub(crate) struct DmaBuf(NonNull<shim::dma_buf>);

// SAFETY: Any thread may call the kernel's functions on a dma-buf.
unsafe impl Send for DmaBuf {}
// SAFETY: `&self` only reaches those functions, and they may run on several threads at once.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// The dma-buf of the calling process's descriptor `fd`. `EBADF`, `EINVAL`: it is none.
    /// `ENOTSUPP`: the kernel has no dma-bufs.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: The call looks the descriptor up in the caller's table and refuses numbers that
        // are not in use.
        let buffer = from_err_ptr(unsafe { shim::gal_get_buffer(fd) })?;
        // INVARIANT: It came with a reference.
        NonNull::new(buffer).map(Self).ok_or(EINVAL)
    }

    /// Takes over a reference to `buffer`.
    ///
    /// # Safety
    ///
    /// The caller owns the reference, and does not use it afterwards.
    pub(super) unsafe fn from_raw(buffer: NonNull<shim::dma_buf>) -> Self {
        // INVARIANT: By the caller.
        Self(buffer)
    }

    /// The C pointer, valid as long as this.
    pub(super) fn as_ptr(&self) -> *mut shim::dma_buf {
        self.0.as_ptr()
    }

    /// Takes a reference to the dma-buf at `raw`.
    ///
    /// # Safety
    ///
    /// `raw` is null, or a live dma-buf.
    pub(super) unsafe fn hold(raw: *mut shim::dma_buf) -> Result<Self> {
        let buffer = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: By the caller it is live, so its reference count is above 0.
        unsafe { shim::gal_hold_buffer(raw) };
        // INVARIANT: The reference was taken just now.
        Ok(Self(buffer))
    }

    /// The pointer. The caller takes over its reference.
    pub(super) fn into_raw(self) -> *mut shim::dma_buf {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    pub(super) fn is_writeable(&self) -> bool {
        // SAFETY: By the type invariant the dma-buf is live.
        unsafe { shim::gal_is_writeable(self.0.as_ptr()) }
    }

    fn bytes(&self) -> usize {
        // SAFETY: By the type invariant the dma-buf is live.
        unsafe { shim::gal_buffer_bytes(self.0.as_ptr()) }
    }

    pub(super) fn file(&self) -> *mut bindings::file {
        // SAFETY: By the type invariant the dma-buf is live.
        unsafe { shim::gal_buffer_file(self.0.as_ptr()) }
    }
}

impl Clone for DmaBuf {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant the dma-buf is live, so its reference count is above 0.
        unsafe { shim::gal_hold_buffer(self.0.as_ptr()) };
        // INVARIANT: The reference was taken just now.
        Self(self.0)
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this reference is ours, and nothing uses it after this
        // drop.
        unsafe { shim::gal_put_buffer(self.0.as_ptr()) }
    }
}

/// Whether the calling process's descriptor `fd` is a dma-buf, of any driver.
pub(crate) fn is_buffer(fd: i32) -> bool {
    DmaBuf::get(fd).is_ok()
}

/// A dma-buf that is attached to a device, and mapped for it.
///
/// # Invariants
///
/// `import` is an attachment of `buffer`, and is mapped.
struct Attachment {
    buffer: DmaBuf,
    import: shim::gal_import,
}

impl Attachment {
    fn new(dev: &device::Device, buffer: &DmaBuf, read_only: bool) -> Result<Self> {
        let mut import = shim::gal_import {
            attachment: null_mut(),
            table: null_mut(),
            read_only,
        };
        let (dev, raw) = (raw_device(dev), buffer.0.as_ptr());
        // SAFETY: The device and the buffer are valid; the parts are written if it succeeds.
        to_result(unsafe { shim::gal_attach(dev, raw, read_only, &mut import) })?;
        // INVARIANT: Attached just now.
        Ok(Self {
            buffer: buffer.clone(),
            import,
        })
    }

    /// The DMA addresses of the pages. `EINVAL`: it does not consist of whole pages. `ENOMEM`.
    fn pages(&self) -> Result<KVVec<DmaAddress>> {
        let bytes = self.buffer.bytes();
        if bytes == 0 || bytes % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let count = bytes / PAGE_SIZE;
        let mut pages = KVVec::from_elem(0, count, GFP_CLIENT)?;
        // SAFETY: By the type invariant it is mapped; there is room for `count`.
        to_result(unsafe { shim::gal_import_pages(&self.import, pages.as_mut_ptr(), count) })?;
        Ok(pages)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is attached, and nothing uses it after this drop.
        unsafe { shim::gal_detach(self.buffer.0.as_ptr(), &self.import) };
    }
}

/// A separate device that is only used to find out where memory is. Our own device must have only
/// one mapping of it, for the DMA syncs and the kernel's DMA debugging.
struct Looker(ARef<device::Device>);

impl Looker {
    /// Creates the device. `None`: the kernel has no dma-bufs. `ENOMEM`.
    fn new() -> Result<Option<Self>> {
        // SAFETY: Making a device has no preconditions; the call returns it with a reference, or an
        // error.
        let dev = from_err_ptr(unsafe { shim::gal_new_observer() })?;
        Ok(NonNull::new(dev).map(|dev| {
            // SAFETY: It came with a reference, which becomes ours. `device::Device` is a
            // transparent wrapper.
            Self(unsafe { ARef::from_raw(dev.cast()) })
        }))
    }

    /// The physical ranges of a dma-buf's memory, and the attachment that keeps it in place.
    fn look(&self, buffer: &DmaBuf) -> Result<(Attachment, KVVec<Range<u64>>)> {
        let seen = Attachment::new(&self.0, buffer, true)?;
        let ranges = mapped::ranges(&seen.pages()?)?;
        Ok((seen, ranges))
    }
}

/// A dma-buf that is or will be attached to our device, and mapped for it.
#[pin_data]
struct Attached {
    buffer: DmaBuf,
    #[pin]
    parts: Mutex<Option<Parts>>,
}

/// The result of attaching.
struct Parts {
    attachment: Attachment,
    /// The physical ranges of the memory.
    ranges: KVVec<Range<u64>>,
}

// SAFETY: As for [`DmaBuf`]; the parts change under their lock.
unsafe impl Send for Attached {}
// SAFETY: `&self` only reaches functions that any thread may call, and parts under their lock.
unsafe impl Sync for Attached {}

struct Shared {
    attached: Arc<Attached>,
    users: usize,
}

/// The dma-bufs that a device imports. Each is attached and mapped only once, even if it is
/// imported several times.
///
/// Locks: each dma-buf has a `galcore attachment`, the outermost one. It is held during calls to
/// the exporter, which may wait. `galcore imports`, which protects the registry, and the lock of
/// [`PinnedPages`] are taken under it.
#[pin_data]
pub(crate) struct Imports {
    dev: dma::Device,
    looker: Option<Looker>,
    pinned: Arc<PinnedPages>,
    /// By the address of the `struct dma_buf`.
    #[pin]
    registry: Mutex<RBTree<usize, Shared>>,
}

impl Imports {
    /// An empty registry. Memory in `pinned` cannot be imported.
    pub(crate) fn new(dev: &dma::Device, pinned: &Arc<PinnedPages>) -> Result<Arc<Self>> {
        let looker = Looker::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                looker,
                pinned: pinned.clone(),
                registry <- new_mutex!(RBTree::new(), "galcore imports"),
            }),
            GFP_KERNEL,
        )
    }

    /// Imports a dma-buf. `minds_mode`: whether to check the mode of its file.
    ///
    /// `EINVAL`: it does not consist of whole pages. `EACCES`: `write` was requested, and the file
    /// is read-only. `EBUSY`: some of its memory is already mapped for the device, as user memory
    /// or another dma-buf, or occurs in it twice. `ERANGE`: the device does not reach some of it.
    /// Also errors of the exporter.
    pub(crate) fn import(
        self: &Arc<Self>,
        buffer: &DmaBuf,
        write: bool,
        minds_mode: bool,
    ) -> Result<Import> {
        if write && minds_mode && !buffer.is_writeable() {
            return Err(EACCES);
        }
        // Dropping it undoes `enter`.
        let import = Import {
            imports: self.clone(),
            attached: self.enter(buffer)?,
            write,
            view: Atomic::new(0),
        };
        {
            let attached = &import.attached;
            let mut parts = attached.parts.lock();
            if parts.is_none() {
                *parts = Some(self.attach(&attached.buffer)?);
            }
        }
        Ok(import)
    }

    /// Attaches a dma-buf, unless its memory is already mapped. The device must not have two
    /// mappings of it, even during this check, so the [`Looker`] is attached first.
    fn attach(&self, buffer: &DmaBuf) -> Result<Parts> {
        let looker = self.looker.as_ref().ok_or(ENOTSUPP)?;
        let (seen, ranges) = looker.look(buffer)?;
        // Otherwise the exporter would map a bounce buffer (swiotlb), and not sync it.
        if !ranges.iter().all(|range| self.dev.reaches(range)) {
            return Err(ERANGE);
        }
        self.pinned.import(&ranges)?;
        let attached = Attachment::new(&self.dev, buffer, false);
        // Until now, the attachment to the looker has kept the memory in place.
        drop(seen);
        match attached {
            Ok(attachment) => Ok(Parts { attachment, ranges }),
            Err(error) => {
                self.pinned.forget(&ranges);
                Err(error)
            }
        }
    }

    /// Counts one more user of a dma-buf.
    fn enter(&self, buffer: &DmaBuf) -> Result<Arc<Attached>> {
        let key = buffer.0.as_ptr().addr();
        // Allocate before taking the lock, because all processes share it, and an allocation at the
        // limit of a cgroup may take long.
        let room = RBTreeNodeReservation::new(GFP_CLIENT)?;
        let attached = pin_init!(Attached {
            buffer: buffer.clone(),
            parts <- new_mutex!(None, "galcore attachment"),
        });
        let attached = Arc::pin_init(attached, GFP_CLIENT)?;
        let mut registry = self.registry.lock();
        if let Some(shared) = registry.get_mut(&key) {
            shared.users = shared.users.checked_add(1).ok_or(ENOMEM)?;
            return Ok(shared.attached.clone());
        }
        let shared = Shared {
            attached: attached.clone(),
            users: 1,
        };
        registry.insert(room.into_node(key, shared));
        Ok(attached)
    }

    /// Removes a user. Returns whether it was the last one.
    fn leave(&self, key: usize) -> bool {
        let mut registry = self.registry.lock();
        registry.get_mut(&key).is_none_or(|shared| {
            shared.users -= 1;
            shared.users == 0
        })
    }

    /// Removes a user, unless it is the last one. Returns whether it did.
    fn leave_others(&self, key: usize) -> bool {
        let mut registry = self.registry.lock();
        match registry.get_mut(&key) {
            Some(shared) if shared.users > 1 => {
                shared.users -= 1;
                true
            }
            _ => false,
        }
    }

    /// Removes a dma-buf from the registry, unless it has users again.
    fn forget(&self, key: usize) -> Option<Arc<Attached>> {
        let mut registry = self.registry.lock();
        match registry.get(&key) {
            Some(shared) if shared.users == 0 => {
                registry.remove(&key).map(|shared| shared.attached)
            }
            _ => None,
        }
    }
}

/// One use of another driver's dma-buf by our device.
///
/// # Invariants
///
/// It is one of the users of `attached` in the registry.
pub(crate) struct Import {
    imports: Arc<Imports>,
    attached: Arc<Attached>,
    write: bool,
    /// The address of the mapped file in the process's memory map. Only for comparison.
    view: Atomic<usize>,
}

impl Import {
    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.attached.buffer.bytes()
    }

    /// Whether the device may write it.
    pub(crate) fn is_writeable(&self) -> bool {
        self.write
    }

    /// The DMA addresses of its pages. `EINVAL`: it does not consist of whole pages. `ENOMEM`.
    pub(crate) fn pages(&self) -> Result<KVVec<DmaAddress>> {
        let parts = self.attached.parts.lock();
        let parts = parts.as_ref().ok_or(EINVAL)?;
        parts.attachment.pages()
    }

    /// Maps all of it into the calling process by the exporter's `mmap`. Returns the address.
    pub(crate) fn map_into_caller(&self) -> Result<usize> {
        let file = self.attached.buffer.file();
        // SAFETY: The dma-buf is live, and it holds its file.
        let user = unsafe { super::map_file(file, self.bytes(), self.write, 0) }?;
        if let Some((_, file)) = view_at(user) {
            self.view.store(file, Relaxed);
        }
        Ok(user)
    }

    /// Maps it into `area` by its exporter's `mmap`, which takes over the area.
    pub(crate) fn map(&self, area: NewArea<'_>) -> Result {
        // The exporter does not check the mode of the process's file.
        if !self.write {
            area.make_read_only()?;
        }
        let buffer = self.attached.buffer.0.as_ptr();
        // SAFETY: The dma-buf is live, and the area being set up, of which nothing else is made.
        to_result(unsafe { shim::gal_mmap_buffer(buffer, area.as_ptr()) })
    }

    /// Whether the calling process has its mapping at `user`.
    pub(crate) fn is_seen_at(&self, user: usize) -> bool {
        // The exporter may have replaced the area's file.
        view_at(user) == Some((self.bytes(), self.view.load(Relaxed)))
    }

    /// Unmaps it from the calling process at `user`, if it is there. Returns whether it is gone.
    pub(crate) fn unmap(&self, user: usize) -> bool {
        // Another thread may change the memory map in between. That only affects its own process.
        // SAFETY: Works on the caller's memory map and checks the range.
        !self.is_seen_at(user) || unsafe { bindings::vm_munmap(user, self.bytes()) == 0 }
    }
}

/// Size and file (an address, only for comparison) of the calling process's area that begins at
/// `user`.
fn view_at(user: usize) -> Option<(usize, usize)> {
    let current = kernel::current!();
    let mm = current.mm()?;
    let lock = mm.mmap_read_lock();
    let area = lock.vma_lookup(user)?;
    // SAFETY: The memory map is locked, so the area is valid and does not change.
    let file = unsafe { (*area.as_ptr()).vm_file };
    (area.start() == user).then_some((area.end() - user, file.addr()))
}

impl Drop for Import {
    fn drop(&mut self) {
        let buffer = self.attached.buffer.0.as_ptr();
        let key = buffer.addr();
        // Only the last user waits for the attachment lock.
        if self.imports.leave_others(key) {
            return;
        }
        let mut parts = self.attached.parts.lock();
        if !self.imports.leave(key) {
            return;
        }
        if let Some(Parts { attachment, ranges }) = parts.take() {
            drop(attachment);
            self.imports.pinned.forget(&ranges);
        }
        drop(parts);
        // This may drop the last reference to the dma-buf, which must not happen under a lock.
        drop(self.imports.forget(key));
    }
}

/// Access mode of a new dma-buf's descriptor, as flags of `open`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access(u32);

impl Access {
    /// Reading and writing, closed on `exec`.
    pub(crate) const FULL: Self = Self(flags::O_RDWR | flags::O_CLOEXEC);

    /// The access mode in flags of `open`.
    pub(crate) fn of_flags(given: u32) -> Self {
        Self(given & (flags::O_ACCMODE | flags::O_CLOEXEC))
    }

    /// The flags of `open`.
    pub(super) fn flags(self) -> u32 {
        self.0
    }

    pub(super) fn closes_on_exec(self) -> bool {
        self.0 & flags::O_CLOEXEC != 0
    }
}
