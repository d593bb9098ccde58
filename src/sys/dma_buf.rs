// SPDX-License-Identifier: GPL-2.0-only

//! dma-bufs: memory of other drivers for our device, and our memory for other drivers and
//! processes.
//!
//! Without `CONFIG_DMA_SHARED_BUFFER` every call here answers `ENOTSUPP`. The C half is
//! `shim_dma_buf.c`.

use super::{
    dma,
    file::{
        NewFile,
        Reserved, //
    },
    mapped,
    pages::PinnedPages,
    physical::Part,
    raw_device,
    shim,
    vma::NewArea,
    GFP_CLIENT, //
};
use core::{
    marker::PhantomData,
    ops::Range,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings,
    device,
    dma::DmaAddress,
    error::{
        from_err_ptr,
        to_result, //
    },
    fs::file::flags,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    types::ForeignOwnable, //
};

/// A dma-buf.
///
/// A descriptor is looked up once a call: another thread can put another file in its place at any
/// time.
///
/// # Invariants
///
/// The pointer is valid, and a reference is ours.
pub(crate) struct DmaBuf(NonNull<shim::dma_buf>);

// SAFETY: The kernel's functions on them may be called by any thread.
unsafe impl Send for DmaBuf {}
// SAFETY: `&self` only reaches those functions, and they may run on several threads at once.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// That of the calling process's descriptor `fd`. `EBADF`, `EINVAL`: there is none.
    /// `ENOTSUPP`: the kernel has no dma-bufs.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: The call looks the descriptor up in the caller's table and refuses numbers that
        // are not in use.
        let buffer = from_err_ptr(unsafe { shim::gal_get_buffer(fd) })?;
        // INVARIANT: It came with a reference.
        NonNull::new(buffer).map(Self).ok_or(EINVAL)
    }

    /// A reference of its own.
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

    /// The pointer, with its reference.
    pub(super) fn into_raw(self) -> *mut shim::dma_buf {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    fn is_writeable(&self) -> bool {
        // SAFETY: By the type invariant the dma-buf is live.
        unsafe { shim::gal_is_writeable(self.0.as_ptr()) }
    }

    fn bytes(&self) -> usize {
        // SAFETY: By the type invariant the dma-buf is live.
        unsafe { shim::gal_buffer_bytes(self.0.as_ptr()) }
    }

    fn file(&self) -> *mut bindings::file {
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

/// Whether the calling process's descriptor `fd` is a dma-buf, whosever.
pub(crate) fn is_buffer(fd: i32) -> bool {
    DmaBuf::get(fd).is_ok()
}

/// The addresses of a dma-buf's pages, as it is attached. `EINVAL`: it is not made of whole pages.
/// `ENOMEM`.
///
/// # Safety
///
/// `import` is an attachment of `buffer`, and is mapped.
unsafe fn pages_of(buffer: &DmaBuf, import: &shim::gal_import) -> Result<KVVec<DmaAddress>> {
    let bytes = buffer.bytes();
    if bytes == 0 || bytes % PAGE_SIZE != 0 {
        return Err(EINVAL);
    }
    let count = bytes / PAGE_SIZE;
    let mut pages = KVVec::from_elem(0, count, GFP_CLIENT)?;
    // SAFETY: By the caller; there is room for `count`.
    to_result(unsafe { shim::gal_import_pages(import, pages.as_mut_ptr(), count) })?;
    Ok(pages)
}

/// A device that only looks where memory is: what is mapped for it is not mapped for ours, so that
/// what is handed over meanwhile, and the kernel's DMA checker, see one mapping only.
struct Looker(ARef<device::Device>);

impl Looker {
    /// A new one; `None`: the kernel has no dma-bufs. `ENOMEM`.
    fn new() -> Result<Option<Self>> {
        // SAFETY: Making a device has no preconditions; the call returns it with a reference, or an
        // error.
        let dev = from_err_ptr(unsafe { shim::gal_new_looker() })?;
        Ok(NonNull::new(dev).map(|dev| {
            // SAFETY: It came with a reference, which becomes ours. `device::Device` is a
            // transparent wrapper.
            Self(unsafe { ARef::from_raw(dev.cast()) })
        }))
    }

    /// The physical ranges of a dma-buf's memory, and what keeps it there meanwhile.
    fn look<'a>(&self, buffer: &'a DmaBuf) -> Result<(Seen<'a>, KVVec<Range<u64>>)> {
        let mut import = shim::gal_import {
            attachment: null_mut(),
            table: null_mut(),
            read_only: true,
        };
        let (dev, raw) = (raw_device(&self.0), buffer.0.as_ptr());
        // SAFETY: The device and the buffer are valid; the parts are written if it succeeds.
        to_result(unsafe { shim::gal_attach(dev, raw, true, &mut import) })?;
        // INVARIANT: Attached just now.
        let seen = Seen { buffer, import };
        // SAFETY: The import was attached and mapped just now, so its table of pages is valid.
        let pages = unsafe { pages_of(buffer, &seen.import) }?;
        let ranges = mapped::ranges(&pages)?;
        Ok((seen, ranges))
    }
}

/// A dma-buf that a [`Looker`] looks at.
///
/// # Invariants
///
/// `import` is an attachment of `buffer`, and is mapped.
struct Seen<'a> {
    buffer: &'a DmaBuf,
    import: shim::gal_import,
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is attached, and nothing uses it after this drop.
        unsafe { shim::gal_detach(self.buffer.0.as_ptr(), &self.import) };
    }
}

/// A dma-buf that is, or is about to be, attached to a device and mapped for it.
#[pin_data]
struct Attached {
    buffer: DmaBuf,
    #[pin]
    parts: Mutex<Option<Parts>>,
}

/// What attaching brings.
struct Parts {
    import: shim::gal_import,
    /// Where its memory is.
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

/// The dma-bufs of others that a device has. Each is attached and mapped once, however often it is
/// imported.
///
/// Locks: `galcore attachment`, one for each dma-buf, outermost: its owner is called under it, and
/// may wait. Under it `galcore imports`, which guards the registry, and that of [`PinnedPages`].
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
    /// None yet. What is imported is not to be among `pinned`.
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

    /// Takes a dma-buf; `minds_mode`: what its file may be used for counts.
    ///
    /// `EINVAL`: it is not made of whole pages. `EACCES`: writing was requested, and the file is
    /// for reading only. `EBUSY`: some of its memory is mapped for the device already, as a process's own
    /// or as another dma-buf, or is in it twice. `ERANGE`: some lies where the device does not reach it.
    /// Else its exporter's error.
    pub(crate) fn import(
        self: &Arc<Self>,
        buffer: &DmaBuf,
        write: bool,
        minds_mode: bool,
    ) -> Result<Import> {
        if write && minds_mode && !buffer.is_writeable() {
            return Err(EACCES);
        }
        // From here on it is a user, whose end undoes that.
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

    /// Attaches a dma-buf, unless its memory is mapped already: then the device must not have it
    /// twice, not even while that is found out.
    fn attach(&self, buffer: &DmaBuf) -> Result<Parts> {
        let looker = self.looker.as_ref().ok_or(ENOTSUPP)?;
        let (seen, ranges) = looker.look(buffer)?;
        // Its owner would map a copy (swiotlb), and not synchronize it.
        if !ranges.iter().all(|range| self.dev.reaches(range)) {
            return Err(ERANGE);
        }
        self.pinned.import(&ranges)?;
        let mut import = shim::gal_import {
            attachment: null_mut(),
            table: null_mut(),
            read_only: false,
        };
        let (dev, raw) = (raw_device(&self.dev), buffer.0.as_ptr());
        // SAFETY: The device and the buffer are valid; the parts are written if it succeeds.
        let attached = to_result(unsafe { shim::gal_attach(dev, raw, false, &mut import) });
        // As long as it is seen it stays where it is.
        drop(seen);
        match attached {
            Ok(()) => Ok(Parts { import, ranges }),
            Err(error) => {
                self.pinned.forget(&ranges);
                Err(error)
            }
        }
    }

    /// Counts one more user of a dma-buf.
    fn enter(&self, buffer: &DmaBuf) -> Result<Arc<Attached>> {
        let key = buffer.0.as_ptr().addr();
        // Before the lock, which all processes take: one at its cgroup's limit may take long.
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

    /// Counts one user less; whether it was the last one.
    fn leave(&self, key: usize) -> bool {
        let mut registry = self.registry.lock();
        registry.get_mut(&key).is_none_or(|shared| {
            shared.users -= 1;
            shared.users == 0
        })
    }

    /// Counts one user less, unless it is the last one.
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

    /// Forgets a dma-buf, unless it has users again.
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

/// A use of another driver's dma-buf by our device.
///
/// # Invariants
///
/// It is one of the users of `attached` in the registry.
pub(crate) struct Import {
    imports: Arc<Imports>,
    attached: Arc<Attached>,
    write: bool,
    /// The file that its owner shows a view of it by: only compared.
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

    /// The device's addresses of its pages. `EINVAL`: it is not made of whole pages. `ENOMEM`.
    pub(crate) fn pages(&self) -> Result<KVVec<DmaAddress>> {
        let parts = self.attached.parts.lock();
        let parts = parts.as_ref().ok_or(EINVAL)?;
        // SAFETY: By the type invariant it is mapped.
        unsafe { pages_of(&self.attached.buffer, &parts.import) }
    }

    /// Maps all of it into the calling process, as its owner does that. Returns the address.
    pub(crate) fn map_into_caller(&self) -> Result<usize> {
        let file = self.attached.buffer.file();
        // SAFETY: The dma-buf is live, and it holds its file.
        let user = unsafe { super::map_file(file, self.bytes(), self.write, 0) }?;
        if let Some((_, file)) = view_at(user) {
            self.view.store(file, Relaxed);
        }
        Ok(user)
    }

    /// Maps it into an area, as its owner does that: the area is the owner's then.
    pub(crate) fn map(&self, area: NewArea<'_>) -> Result {
        // Its owner does not look at the mode of the file by which the process has it.
        if !self.write {
            area.make_read_only()?;
        }
        let buffer = self.attached.buffer.0.as_ptr();
        // SAFETY: The dma-buf is live, and the area being set up, of which nothing else is made.
        to_result(unsafe { shim::gal_mmap_buffer(buffer, area.as_ptr()) })
    }

    /// Whether the calling process has its view at `user`.
    pub(crate) fn is_seen_at(&self, user: usize) -> bool {
        // Its owner may have put another file in place of the dma-buf's.
        view_at(user) == Some((self.bytes(), self.view.load(Relaxed)))
    }

    /// Ends the calling process's view of it at `user`, if that is what is there; says whether it is not
    /// there now.
    pub(crate) fn unmap(&self, user: usize) -> bool {
        // Another thread may change its own memory map in between; it is its own.
        // SAFETY: Works on the caller's memory map and checks the range.
        !self.is_seen_at(user) || unsafe { bindings::vm_munmap(user, self.bytes()) == 0 }
    }
}

/// Bytes and file (an address, only to be compared) of the area that begins at `user` in the
/// calling process.
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
        // Only the last one waits for those that attach it.
        if self.imports.leave_others(key) {
            return;
        }
        let mut parts = self.attached.parts.lock();
        if !self.imports.leave(key) {
            return;
        }
        if let Some(parts) = parts.take() {
            // SAFETY: It is attached, and has no user.
            unsafe { shim::gal_detach(buffer, &parts.import) };
            self.imports.pinned.forget(&parts.ranges);
        }
        drop(parts);
        // The last reference of the buffer may go with ours: not under a lock.
        drop(self.imports.forget(key));
    }
}

/// Memory that can be a dma-buf.
pub(crate) enum Memory<'a> {
    /// Contiguous, in no cache.
    Part(Part<'a>),
    /// Pages.
    Pages(&'a super::pages::Pages),
}

/// Something whose memory can be a dma-buf.
pub(crate) trait Exportable: Send + Sync + 'static {
    /// The memory. `None`: it cannot be a dma-buf.
    fn memory(&self) -> Option<Memory<'_>>;
}

/// What a new dma-buf's descriptor may be used for, in flags of `open`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access(u32);

impl Access {
    /// Reading and writing; `exec` closes it.
    pub(crate) const FULL: Self = Self(flags::O_RDWR | flags::O_CLOEXEC);

    /// What flags of `open` say of reading, writing and `exec`.
    pub(crate) fn of_flags(given: u32) -> Self {
        Self(given & (flags::O_ACCMODE | flags::O_CLOEXEC))
    }

    fn closes_on_exec(self) -> bool {
        self.0 & flags::O_CLOEXEC != 0
    }
}

/// What a dma-buf of ours keeps.
struct Owner<T> {
    object: Arc<T>,
    /// Whatever its file is for.
    importers_write: bool,
    /// Its address tells whose the dma-buf is, so it must not be another's as long as that lives.
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

/// Makes dma-bufs of objects, and knows them again.
pub(crate) struct Exporter<T> {
    /// So that no two of them have one address.
    _place: u8,
    _objects: PhantomData<fn() -> T>,
}

impl<T: Exportable> Exporter<T> {
    /// An exporter without dma-bufs.
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

    /// A new file of a dma-buf of `object`'s memory, as [`Exporter::make`] makes it. `EMFILE`: the
    /// process has no descriptor left.
    pub(crate) fn export(self: &Arc<Self>, object: Arc<T>, access: Access) -> Result<NewFile> {
        let reserved = match access.closes_on_exec() {
            true => Reserved::new()?,
            false => Reserved::kept_by_exec()?,
        };
        let buffer = self.make(object, access, false)?;
        let file = buffer.file();
        // Its reference is the dma-buf's.
        core::mem::forget(buffer);
        // SAFETY: A new file, whose only reference is ours.
        unsafe { reserved.fill(file) }
    }

    /// Makes a dma-buf of `object`'s memory, which it keeps alive, for `access`; `importers_write`
    /// also if that is for reading. `EINVAL`: it cannot be one.
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
            flags: access.0,
        };
        // SAFETY: The dma-buf gets a reference of the object, so the object is never exclusive, and
        // the memory that it lends stays lent as long; so does the array of pages, whose number
        // this is.
        let buffer = from_err_ptr(unsafe { shim::gal_export_buffer(&what) }).inspect_err(|_| {
            // SAFETY: The export failed, so `owner` was not taken and is still ours to drop.
            unsafe { put::<T>(owner.cast()) };
        })?;
        // INVARIANT: It came with a reference.
        NonNull::new(buffer).map(DmaBuf).ok_or(ENOMEM)
    }

    /// The object whose dma-buf `buffer` is, if it is one of this exporter's, and whether its
    /// importers may write.
    pub(crate) fn find(self: &Arc<Self>, buffer: &DmaBuf) -> Option<(Arc<T>, bool)> {
        // SAFETY: By its type invariant the dma-buf is live; the tag is only compared.
        let owner = unsafe { shim::gal_exported_by(buffer.0.as_ptr(), self.tag()) };
        let owner = NonNull::new(owner.cast::<Owner<T>>())?;
        // SAFETY: Only this exporter's dma-bufs have its address, and their owners are of this
        // type; the dma-buf keeps its own.
        let owner = unsafe { owner.as_ref() };
        let is_writeable = owner.importers_write || buffer.is_writeable();
        Some((owner.object.clone(), is_writeable))
    }
}
