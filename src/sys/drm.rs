// SPDX-License-Identifier: GPL-2.0-only

//! A DRM node with GEM objects.
//!
//! The `kernel` crate supports DRM only if it is built in. If DRM is a module that is not loaded
//! when this module is loaded, there is no node. The C half is `shim_drm.c`.

use super::{
    chrdev::OpenFile,
    dma_buf::{
        Access,
        DmaBuf, //
    },
    file::{
        self,
        SharedFence, //
    },
    prelude::*,
    raw_device,
    shim,
    unload::InUse,
    vma::{
        NewArea,
        Views, //
    }, //
};
use kernel::{
    bindings,
    device,
    error::from_result,
    mm::virt::VmaNew,
    page::page_align,
    seq_file::SeqFile,
    types::ForeignOwnable, //
};

// CAST: a small number.
/// Length of the longest ioctl argument, in words.
pub(crate) const WORDS: usize = shim::gal_drm_limits_GAL_DRM_WORDS as usize;

/// The driver that a node reports.
#[derive(Clone, Copy)]
pub(crate) enum Driver {
    /// The vendor's.
    Vivante,
    /// Linux's etnaviv.
    Etnaviv,
}

/// The operations of an open file of the node.
pub(crate) trait NodeFile: Send + Sync + Sized + 'static {
    /// The object of a handle.
    type Object: Send + Sync + 'static;

    /// The driver that the node reports.
    const DRIVER: Driver;

    /// Called when a process opens the node.
    fn open() -> Result<Arc<Self>>;

    /// The address space of the file, if it has one of its own. Called once, after `open`.
    fn views(&self) -> Option<&Views>;

    /// Called before each use of the file.
    fn bind(self: ArcBorrow<'_, Self>) -> Result;

    /// Handles ioctl `number` of the driver. The argument is written back only on success.
    fn call(
        self: ArcBorrow<'_, Self>,
        file: &Opened<Self>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result;

    /// Handles `mmap(2)`.
    fn mmap(self: ArcBorrow<'_, Self>, area: NewArea<'_>) -> Result;

    /// Prints to `/proc/PID/fdinfo/FD`.
    fn show(self: ArcBorrow<'_, Self>, out: &SeqFile);

    /// Called when `object` gets a handle of the file.
    fn enter(self: ArcBorrow<'_, Self>, object: &Arc<Self::Object>) -> Result;

    /// Called when `object` loses a handle of the file. The file may be closing.
    fn leave(self: ArcBorrow<'_, Self>, object: &Arc<Self::Object>);

    /// Fails unless the caller may export `object`. If this export `is_first`, others may use the
    /// object after it.
    fn check(&self, object: &Arc<Self::Object>, is_first: bool) -> Result;

    /// Exports `object` as a dma-buf with `access`.
    fn export(object: &Arc<Self::Object>, access: Access) -> Result<DmaBuf>;

    /// Imports `buffer` for the calling process. After `EBUSY` or `ENOMEM`, [`NodeFile::settle`]
    /// may help. Called under locks of DRM, so it must not wait for the GPU.
    fn import(buffer: &DmaBuf) -> Result<Arc<Self::Object>>;

    /// Waits for work that prevents the import of a dma-buf.
    fn settle(self: ArcBorrow<'_, Self>) -> Result;

    /// Called when the last descriptor of the file is closed.
    fn release(self: Arc<Self>);
}

/// An open file of a node during an ioctl.
///
/// # Invariants
///
/// The pointer is valid and belongs to a node with [`Answers`] of `T`.
pub(crate) struct Opened<T>(NonNull<shim::drm_file>, PhantomData<T>);

impl<T: NodeFile> Opened<T> {
    /// The file itself.
    pub(crate) fn file(&self) -> &OpenFile {
        // SAFETY: By the type invariant. The file is open during the ioctl. `OpenFile` is a
        // transparent wrapper of `struct file`.
        unsafe { &*shim::gal_open_file(self.0.as_ptr()).cast::<OpenFile>() }
    }

    /// Creates a handle for `object`, which has `bytes` bytes.
    pub(crate) fn insert(&self, object: Arc<T::Object>, bytes: usize) -> Result<u32> {
        let bytes = page_align(bytes).ok_or(EINVAL)?;
        let mut handle = 0;
        // SAFETY: By the type invariant. The content is an `Arc` of this node's type of object,
        // which passes to the call. The size is in whole pages.
        to_result(unsafe {
            shim::gal_new_object(
                self.0.as_ptr(),
                bytes,
                object.into_foreign().cast(),
                &mut handle,
            )
        })?;
        Ok(handle)
    }

    /// The object of a handle.
    pub(crate) fn find(&self, handle: u32) -> Option<Found<T>> {
        // SAFETY: By the type invariant. The call refuses unknown handles.
        let object = unsafe { shim::gal_find_object(self.0.as_ptr(), handle) };
        // INVARIANT: The call returned it with a reference. The file only has objects of this node.
        NonNull::new(object).map(|object| Found(object, PhantomData))
    }
}

/// An object that has a handle.
///
/// # Invariants
///
/// The pointer is valid and belongs to a node with [`Answers`] of `T`. This owns a reference.
pub(crate) struct Found<T: NodeFile>(NonNull<shim::drm_gem_object>, PhantomData<T>);

impl<T: NodeFile> Found<T> {
    /// Size in bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: By the type invariant the object is live. Its size never changes.
        unsafe { shim::gal_object_bytes(self.0.as_ptr()) }
    }

    /// The object.
    pub(crate) fn get(&self) -> ArcBorrow<'_, T::Object> {
        // SAFETY: By the type invariant the content is an `Arc` of such an object. It lives as long
        // as the reference.
        unsafe { Arc::borrow(shim::gal_object_content(self.0.as_ptr()).cast()) }
    }
}

impl<T: NodeFile> Found<T> {
    /// Whether it was exported, so that others may use it.
    pub(crate) fn is_shared(&self) -> bool {
        // SAFETY: By the type invariant the object is live. The call reads one word of it.
        unsafe { shim::gal_is_shared(self.0.as_ptr()) }
    }

    /// The exported dma-buf, if any.
    pub(crate) fn buffer(&self) -> Option<Shared> {
        if !self.is_shared() {
            return None;
        }
        // SAFETY: By the type invariant the object is live.
        let buffer = unsafe { shim::gal_object_buffer(self.0.as_ptr()) };
        // INVARIANT: The call returned it with a reference.
        NonNull::new(buffer).map(Shared)
    }
}

/// The exported dma-buf of an object, with the fences of its users.
///
/// # Invariants
///
/// The pointer is valid, and this owns a reference.
pub(crate) struct Shared(NonNull<shim::dma_buf>);

impl Shared {
    /// The address of the `struct dma_buf`, which identifies it.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Waits for the fences of others: for all if the caller `writes`, otherwise for those of
    /// writers. Skips this driver's fences for the core with index `except`. `ETIMEDOUT`: they take
    /// longer than `milliseconds`. `ERESTARTSYS`: a Unix signal interrupted the wait. If it
    /// `outlasts` signals, only a fatal one does.
    pub(crate) fn wait_for_others(
        &self,
        writes: bool,
        milliseconds: u32,
        except: Option<usize>,
        outlasts: bool,
    ) -> Result {
        let except = file::number_of(except);
        // SAFETY: By the type invariant the dma-buf is live during the call.
        to_result(unsafe {
            shim::gal_wait_for_others(self.0.as_ptr(), writes, milliseconds, except, outlasts)
        })
    }

    /// Adds `fence` for others to wait for. `ENOMEM`: it was not added.
    pub(crate) fn show(&self, fence: &SharedFence, writes: bool) -> Result {
        // SAFETY: By the type invariants of both.
        to_result(unsafe { shim::gal_show_fence(self.0.as_ptr(), fence.0.as_ptr(), writes) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses it after this drop.
        unsafe { shim::gal_put_buffer(self.0.as_ptr()) }
    }
}

impl<T: NodeFile> Drop for Found<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference. Nothing uses it after this drop.
        unsafe { shim::gal_put_object(self.0.as_ptr()) }
    }
}

/// The functions that C calls.
struct Answers<T>(PhantomData<T>);

impl<T: NodeFile> Answers<T> {
    const TABLE: shim::gal_drm_answers = shim::gal_drm_answers {
        open: Some(Self::open),
        adopt: Some(Self::adopt),
        bind: Some(Self::bind),
        close: Some(Self::close),
        call: Some(Self::call),
        mmap: Some(Self::mmap),
        show: Some(Self::show),
        enter: Some(Self::enter),
        leave: Some(Self::leave),
        put: Some(Self::put),
        check: Some(Self::check),
        export: Some(Self::export),
        import: Some(Self::import),
        settle: Some(Self::settle),
    };

    fn table() -> &'static shim::gal_drm_answers {
        &Self::TABLE
    }

    /// # Safety
    ///
    /// `state` came from [`Self::open`], and [`Self::close`] does not run during `'a`.
    unsafe fn file<'a>(state: *mut c_void) -> ArcBorrow<'a, T> {
        // SAFETY: `open` made the state from an `Arc<T>`, which `close` has not taken back yet.
        unsafe { Arc::<T>::borrow(state.cast()) }
    }

    /// # Safety
    ///
    /// `content` is an `Arc` of an object, which stays valid during `'a`.
    unsafe fn object<'a>(content: *mut c_void) -> ArcBorrow<'a, T::Object> {
        // SAFETY: By the caller the content is such an `Arc`, which stays valid during `'a`.
        unsafe { Arc::<T::Object>::borrow(content.cast()) }
    }

    /// # Safety
    ///
    /// Called by DRM for a file that is being opened.
    unsafe extern "C" fn open(state: *mut *mut c_void) -> c_int {
        from_result(|| {
            let file = T::open()?;
            // SAFETY: By the caller `state` is valid for writes.
            unsafe { *state = file.into_foreign().cast() };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called for a file that is being opened, after `open`.
    unsafe extern "C" fn adopt(state: *mut c_void, file: *mut bindings::file) {
        // SAFETY: By the caller. The file keeps its state, and so the address space, until its
        // release.
        unsafe {
            if let Some(views) = Self::file(state).views() {
                views.adopt(file);
            }
        }
    }

    /// # Safety
    ///
    /// Called by DRM with a file that `open` set up.
    unsafe extern "C" fn bind(state: *mut c_void) -> c_int {
        // SAFETY: By the caller. The file is not released during the call.
        from_result(|| T::bind(unsafe { Self::file(state) }).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by DRM once, after all other calls for a file that `open` set up.
    unsafe extern "C" fn close(state: *mut c_void) {
        // SAFETY: `open` stored it. Nothing uses it after this call.
        T::release(unsafe { Arc::<T>::from_foreign(state.cast()) });
    }

    /// # Safety
    ///
    /// Called by DRM with a file that `open` set up and `bytes` bytes of kernel memory.
    unsafe extern "C" fn call(
        state: *mut c_void,
        file: *mut shim::drm_file,
        number: c_uint,
        data: *mut c_void,
        bytes: usize,
    ) -> c_int {
        let mut words = [0; WORDS];
        let bytes = bytes.min(size_of_val(&words));
        // SAFETY: By the caller. The array has room for `bytes` bytes.
        unsafe { data.copy_to_nonoverlapping(words.as_mut_ptr().cast(), bytes) };
        from_result(|| {
            // INVARIANT: By the caller.
            let opened = Opened(NonNull::new(file).ok_or(EINVAL)?, PhantomData);
            // SAFETY: By the caller. The file is not released during the call.
            T::call(unsafe { Self::file(state) }, &opened, number, &mut words)?;
            // SAFETY: As many bytes as were read from there. No other thread uses the memory.
            unsafe { data.copy_from_nonoverlapping(words.as_ptr().cast(), bytes) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the memory manager with a file that `open` set up and a new area.
    unsafe extern "C" fn mmap(state: *mut c_void, vma: *mut bindings::vm_area_struct) -> c_int {
        // SAFETY: The area is new and locked.
        let area = unsafe { VmaNew::from_raw(vma) };
        from_result(|| {
            // SAFETY: This is the mmap handler, and it calls this once.
            let area = unsafe { NewArea::new(area) }?;
            // SAFETY: By the caller. The file is not released during the call.
            T::mmap(unsafe { Self::file(state) }, area).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// Called by procfs with a file that `open` set up, of which it holds a reference.
    unsafe extern "C" fn show(state: *mut c_void, m: *mut bindings::seq_file) {
        // SAFETY: By the caller. `m` is valid during the call, and only this thread uses it.
        unsafe { T::show(Self::file(state), SeqFile::from_raw(m)) };
    }

    /// # Safety
    ///
    /// Called by DRM with a file that `open` set up and an object of its node.
    unsafe extern "C" fn enter(state: *mut c_void, content: *mut c_void) -> c_int {
        from_result(|| {
            // SAFETY: By the caller. The object has a reference during the call.
            let (file, object) = unsafe { (Self::file(state), Self::object(content)) };
            T::enter(file, &object.into()).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// As [`Self::enter`].
    unsafe extern "C" fn leave(state: *mut c_void, content: *mut c_void) {
        // SAFETY: By the caller. The object has a reference during the call.
        let (file, object) = unsafe { (Self::file(state), Self::object(content)) };
        T::leave(file, &object.into());
    }

    /// # Safety
    ///
    /// Called once for each content.
    unsafe extern "C" fn put(content: *mut c_void) {
        // SAFETY: By the caller it is an `Arc` that nothing uses after this.
        drop(unsafe { Arc::<T::Object>::from_foreign(content.cast()) });
    }

    /// # Safety
    ///
    /// Called by DRM with a file that `open` set up and an object of its node.
    unsafe extern "C" fn check(state: *mut c_void, content: *mut c_void, is_first: bool) -> c_int {
        from_result(|| {
            // SAFETY: By the caller. The object has a reference during the call.
            let (file, object) = unsafe { (Self::file(state), Self::object(content)) };
            file.check(&object.into(), is_first).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// Called by DRM with an object of such a node.
    unsafe extern "C" fn export(content: *mut c_void, flags: c_int) -> *mut shim::dma_buf {
        // SAFETY: By the caller. The object has a reference during the call.
        let object = unsafe { Self::object(content) };
        // CAST: keeps the bits.
        match T::export(&object.into(), Access::of_flags(flags as u32)) {
            Ok(buffer) => buffer.into_raw(),
            Err(error) => error.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// Called by DRM with a dma-buf that stays live during the call.
    unsafe extern "C" fn import(buffer: *mut shim::dma_buf) -> *mut c_void {
        // SAFETY: DRM holds a reference of the dma-buf during the call.
        let imported = unsafe { DmaBuf::hold(buffer) }.and_then(|buffer| T::import(&buffer));
        match imported {
            Ok(object) => object.into_foreign().cast(),
            Err(error) => error.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// Called by DRM with a file that `open` set up.
    unsafe extern "C" fn settle(state: *mut c_void) -> c_int {
        // SAFETY: By the caller. The file is not released during the call.
        from_result(|| T::settle(unsafe { Self::file(state) }).map(|()| 0))
    }
}

/// A registered node. Its open files may outlive it. They then return `ENODEV`.
///
/// # Invariants
///
/// `raw` came from `gal_new_node`.
pub(crate) struct Node {
    raw: NonNull<shim::drm_device>,
    parent: ARef<device::Device>,
    /// Keeps the callbacks loaded.
    _in_use: InUse,
}

// SAFETY: `raw` is only used to end the node, which any thread may do.
unsafe impl Send for Node {}
// SAFETY: No method that takes `&self` uses `raw`.
unsafe impl Sync for Node {}

/// Whether DRM was available when the module was loaded.
pub(crate) fn is_there() -> bool {
    // SAFETY: The call only reads a variable of the module.
    unsafe { shim::gal_has_drm() }
}

impl Node {
    /// Registers a node below the device `parent`. `ENOTSUPP`: there is no DRM.
    pub(crate) fn new<T: NodeFile>(parent: &device::Device) -> Result<Self> {
        if !is_there() {
            return Err(ENOTSUPP);
        }
        let in_use = InUse::new()?;
        let driver = match T::DRIVER {
            Driver::Vivante => shim::gal_drm_driver_GAL_VIVANTE,
            Driver::Etnaviv => shim::gal_drm_driver_GAL_ETNAVIV,
        };
        // SAFETY: The device is live, DRM is available, and the table is static.
        let raw = unsafe { shim::gal_new_node(raw_device(parent), driver, Answers::<T>::table()) };
        // INVARIANT: Created just now.
        Ok(Self {
            raw: NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?,
            parent: parent.into(),
            _in_use: in_use,
        })
    }

    /// Whether `dev` is the parent device.
    pub(crate) fn is_of(&self, dev: &device::Device) -> bool {
        raw_device(&self.parent) == raw_device(dev)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Nothing uses it after this drop.
        unsafe { shim::gal_end_node(self.raw.as_ptr()) }
    }
}
