// SPDX-License-Identifier: GPL-2.0-only

//! A character device with a fixed major number.
//!
//! The `kernel` crate has only miscdevices, with major 10. The major of galcore is 199.

use super::{
    prelude::*,
    unload::InUse,
    vma::{
        NewArea,
        Views, //
    }, //
};
use kernel::{
    bindings,
    error::from_result,
    fs::{
        file::flags,
        File, //
    },
    mm::virt::VmaNew,
    seq_file::SeqFile,
    types::ForeignOwnable, //
};

/// The kind of program that makes a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A program with the kernel's word width.
    Native,
    /// A 32-bit program on a 64-bit kernel.
    #[cfg(CONFIG_COMPAT)]
    Compat,
}

impl Caller {
    /// Whether its addresses have 32 bits.
    pub(crate) fn is_32_bit(self) -> bool {
        cfg!(not(CONFIG_64BIT)) || self != Caller::Native
    }
}

/// The operations of an open file of the device.
pub(crate) trait FileOperations: Send + Sync + Sized + 'static {
    /// Called when a process opens the device.
    fn open() -> Result<Arc<Self>>;

    /// The address space of the file.
    fn views(&self) -> &Views;

    /// Handles `ioctl(2)` of `caller`.
    fn ioctl(
        self: ArcBorrow<'_, Self>,
        file: &OpenFile,
        caller: Caller,
        code: u32,
        argument: usize,
    ) -> Result<isize>;

    /// Prints to `/proc/PID/fdinfo/FD`.
    #[cfg(CONFIG_PROC_FS)]
    fn show(self: ArcBorrow<'_, Self>, out: &SeqFile);

    /// Handles `mmap(2)`.
    fn mmap(self: ArcBorrow<'_, Self>, area: NewArea<'_>) -> Result;

    /// Called when the last descriptor of the file is closed.
    fn release(self: Arc<Self>);
}

/// An open file during an ioctl.
#[repr(transparent)]
pub(crate) struct OpenFile(File);

impl OpenFile {
    /// Whether it is open for reading and writing, as mappings require.
    pub(crate) fn is_read_write(&self) -> bool {
        self.0.flags() & flags::O_ACCMODE == flags::O_RDWR
    }

    /// Maps `bytes` of this file, from byte `offset` on, into the calling process. The mapping is
    /// shared, readable and writable. Calls the file's `mmap`: the caller must not hold a lock that
    /// `mmap` takes. Returns the address.
    pub(crate) fn map_into_caller(&self, bytes: usize, offset: usize) -> Result<usize> {
        // SAFETY: The file is open during the call.
        unsafe { super::map_file(self.0.as_ptr(), bytes, true, offset) }
    }
}

/// `FOP_UNSIGNED_OFFSET`: allows mmap offsets from 4 GiB up, also on 32-bit machines. bindgen skips
/// it because of a cast in its definition.
const UNSIGNED_OFFSET: bindings::fop_flags_t = 1 << 5;

/// This module's `struct module`.
const fn this_module() -> *mut bindings::module {
    #[cfg(MODULE)]
    {
        #[allow(improper_ctypes, reason = "only its address is taken")]
        extern "C" {
            static __this_module: kernel::types::Opaque<bindings::module>;
        }
        // SAFETY: The linker has created it for this module, and it lives as long as the code.
        unsafe { __this_module.get() }
    }
    #[cfg(not(MODULE))]
    core::ptr::null_mut()
}

struct Operations<T>(PhantomData<T>);

impl<T: FileOperations> Operations<T> {
    const TABLE: bindings::file_operations = bindings::file_operations {
        owner: this_module(),
        open: Some(Self::open),
        release: Some(Self::release),
        unlocked_ioctl: Some(Self::ioctl),
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: Some(Self::compat_ioctl),
        mmap: Some(Self::mmap),
        #[cfg(CONFIG_PROC_FS)]
        show_fdinfo: Some(Self::show_fdinfo),
        fop_flags: UNSIGNED_OFFSET,
        ..pin_init::zeroed()
    };

    fn table() -> &'static bindings::file_operations {
        &Self::TABLE
    }

    /// # Safety
    ///
    /// Called by the VFS with a file that is being opened.
    unsafe extern "C" fn open(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            let state = T::open()?;
            // SAFETY: Only this call sets up the file. It holds a reference of its object until its
            // release, so nothing has exclusive access to the object, and `views` stays valid.
            unsafe {
                state.views().adopt(file);
                (*file).private_data = state.into_foreign();
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the VFS once, for a file that `open` set up.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` stored it, and no other call on this file follows.
        T::release(unsafe { Arc::<T>::from_foreign((*file).private_data) });
        0
    }

    /// # Safety
    ///
    /// Called by the VFS with a file that `open` set up.
    unsafe extern "C" fn ioctl(
        file: *mut bindings::file,
        code: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // SAFETY: The VFS calls this with a file that `open` set up, as `ioctl_of` requires.
        unsafe { Self::ioctl_of(Caller::Native, file, code, argument) }
    }

    /// # Safety
    ///
    /// As [`Self::ioctl`].
    #[cfg(CONFIG_COMPAT)]
    unsafe extern "C" fn compat_ioctl(
        file: *mut bindings::file,
        code: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // A 32-bit program does not set the upper half of the register.
        let argument = argument & 0xFFFF_FFFF;
        // SAFETY: The VFS calls this with a file that `open` set up, as `ioctl_of` requires.
        unsafe { Self::ioctl_of(Caller::Compat, file, code, argument) }
    }

    /// # Safety
    ///
    /// As [`Self::ioctl`].
    unsafe fn ioctl_of(
        caller: Caller,
        file: *mut bindings::file,
        code: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // SAFETY: `open` stored it and `release` cannot run during this call.
        let state = unsafe { Arc::<T>::borrow((*file).private_data) };
        // SAFETY: `File` is a transparent wrapper of `struct file`, and `OpenFile` of `File`. The
        // VFS holds a reference during the call.
        let open = unsafe { &*core::ptr::from_ref(File::from_raw_file(file)).cast::<OpenFile>() };
        match T::ioctl(state, open, caller, code, argument) {
            Ok(value) => value,
            Err(error) => error.to_errno() as c_long,
        }
    }

    /// # Safety
    ///
    /// Called by procfs with a file that `open` set up, of which it holds a reference during the
    /// call.
    #[cfg(CONFIG_PROC_FS)]
    unsafe extern "C" fn show_fdinfo(m: *mut bindings::seq_file, file: *mut bindings::file) {
        // SAFETY: `open` stored it and `release` cannot run during this call.
        let state = unsafe { Arc::<T>::borrow((*file).private_data) };
        // SAFETY: `m` is valid during the call, and only this thread uses it.
        T::show(state, unsafe { SeqFile::from_raw(m) });
    }

    /// # Safety
    ///
    /// Called by the memory manager with a file that `open` set up and a new area.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: `open` stored an `Arc<T>` in the file, and the VFS holds the file during this
        // call.
        let state = unsafe { Arc::<T>::borrow((*file).private_data) };
        // SAFETY: The area is new and locked.
        let area = unsafe { VmaNew::from_raw(vma) };
        from_result(|| {
            // SAFETY: This is the mmap handler, and it calls this once.
            let area = unsafe { NewArea::new(area) }?;
            T::mmap(state, area).map(|()| 0)
        })
    }
}

/// The registered device with its nodes.
///
/// # Invariants
///
/// `major` is registered under `name` with [`Operations`] for `minors` minors. `class` is live and
/// has one device for each minor below `nodes`.
pub(crate) struct CharDevice<T> {
    major: u32,
    name: &'static CStr,
    minors: u32,
    class: *mut bindings::class,
    nodes: u32,
    /// Keeps the operations loaded.
    _in_use: InUse,
    _files: PhantomData<fn() -> T>,
}

// SAFETY: It is only used to unregister, which any thread may do.
unsafe impl<T> Send for CharDevice<T> {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl<T> Sync for CharDevice<T> {}

/// Number of bits of the minor in a 32-bit device number.
const MINOR_BITS: u32 = 20;

impl<T: FileOperations> CharDevice<T> {
    /// Registers `major` (0: any) under `name`, and creates one device node for each of `nodes`, in
    /// a class named `class`. A `!` in a node's name becomes a `/` in `/dev`.
    pub(crate) fn new(
        major: u32,
        name: &'static CStr,
        class: &'static CStr,
        nodes: &[&'static CStr],
    ) -> Result<Self> {
        let count = u32::try_from(nodes.len())?;
        let in_use = InUse::new()?;
        // SAFETY: The name and the table of operations are static, so they outlive the
        // registration.
        let result = unsafe {
            bindings::__register_chrdev(
                major,
                0,
                count,
                name.as_char_ptr(),
                Operations::<T>::table(),
            )
        };
        to_result(result)?;
        let major = if major == 0 { result as u32 } else { major };
        // SAFETY: The name is static, so it outlives the class.
        let class = from_err_ptr(unsafe { bindings::class_create(class.as_char_ptr()) })
            .inspect_err(|_| {
                // SAFETY: The region was registered above with the same numbers and has no node
                // yet.
                unsafe { bindings::__unregister_chrdev(major, 0, count, name.as_char_ptr()) }
            })?;
        // INVARIANT: Registered, the class exists, no node yet.
        let mut device = Self {
            major,
            name,
            minors: count,
            class,
            nodes: 0,
            _in_use: in_use,
            _files: PhantomData,
        };
        for node in nodes {
            // SAFETY: The class is live. The format takes the one string that follows.
            from_err_ptr(unsafe {
                bindings::device_create(
                    device.class,
                    core::ptr::null_mut(),
                    (major << MINOR_BITS) | device.nodes,
                    core::ptr::null_mut(),
                    c"%s".as_char_ptr(),
                    node.as_char_ptr(),
                )
            })?;
            // INVARIANT: One more.
            device.nodes += 1;
        }
        Ok(device)
    }
}

impl<T> Drop for CharDevice<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the region, the class and `nodes` nodes exist. Only this
        // drop removes them.
        unsafe {
            for minor in 0..self.nodes {
                bindings::device_destroy(self.class, (self.major << MINOR_BITS) | minor);
            }
            bindings::class_destroy(self.class);
            bindings::__unregister_chrdev(self.major, 0, self.minors, self.name.as_char_ptr());
        }
    }
}
