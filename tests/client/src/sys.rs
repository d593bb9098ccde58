// SPDX-License-Identifier: GPL-2.0-only
//! The system calls that need `unsafe`, like [`crate::raw`]: ioctl, mappings, and accesses to memory that the GPU
//! shares.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use rustix::mm::MapFlags;
use rustix::mm::ProtFlags;

/// A buffer address in the ioctl's argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The given bytes.
    Buffer,
    /// Address 0.
    Null,
    /// An address that is never mapped.
    Unmapped,
}

/// Never mapped: below every system's `mmap_min_addr`.
const UNMAPPED: u64 = 0x10;

/// The argument block of the ioctl, for tests that send wrong ones.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// Input address.
    pub input: Place,
    /// Input size, as claimed.
    pub input_size: u64,
    /// Output address.
    pub output: Place,
    /// Output size, as claimed.
    pub output_size: u64,
    /// Shifted left by 32 bits and added to both addresses: the garbage that an old client leaves in the padding
    /// after a pointer.
    pub padding: u32,
}

/// Sends `request` with `bytes`, which hold the request and receive the answer. Returns the result of ioctl.
pub fn exchange(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    let size = bytes.len() as u64;
    let arguments = Arguments {
        input: Place::Buffer,
        input_size: size,
        output: Place::Buffer,
        output_size: size,
        padding: 0,
    };
    exchange_with(fd, request, bytes, arguments)
}

/// Like [`exchange`], with the 16-byte argument block of older generations.
pub fn exchange_short(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    let address = u32::try_from(bytes.as_mut_ptr() as usize)
        .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let size = bytes.len() as u32;
    let mut block = [address, size, address, size];
    // SAFETY: the block and its bytes live through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, block.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Sends `request` with `bytes` as the argument itself, without an argument block.
pub fn exchange_plain(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    // SAFETY: the bytes live through the call; the caller passes the size that the request number encodes.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, bytes.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Like [`exchange`], with a separate buffer for the answer.
pub fn exchange_apart(
    fd: BorrowedFd<'_>,
    request: u32,
    input: &[u8],
    output: &mut [u8],
) -> io::Result<i32> {
    let mut block = [
        input.as_ptr() as usize as u64,
        input.len() as u64,
        output.as_mut_ptr() as usize as u64,
        output.len() as u64,
    ];
    // SAFETY: the block and both buffers live through the call; the sizes match the buffers.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, block.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Like [`exchange`], with the caller's argument block. A driver that trusts a wrong size would access memory after
/// `bytes`, so tests with wrong sizes allocate enough memory for the worst case.
pub fn exchange_with(
    fd: BorrowedFd<'_>,
    request: u32,
    bytes: &mut [u8],
    arguments: Arguments,
) -> io::Result<i32> {
    let address = bytes.as_mut_ptr() as usize as u64 | u64::from(arguments.padding) << 32;
    let place = |place| match place {
        Place::Buffer => address,
        Place::Null => 0,
        Place::Unmapped => UNMAPPED,
    };
    let mut block = [
        place(arguments.input),
        arguments.input_size,
        place(arguments.output),
        arguments.output_size,
    ];
    // SAFETY: the block and its bytes live through the call; see above for their size.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, block.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Sends `request` with an argument block at an address that is not mapped.
pub fn exchange_without_block(fd: BorrowedFd<'_>, request: u32, block: Place) -> io::Result<i32> {
    let address = match block {
        Place::Unmapped => UNMAPPED as usize,
        _ => 0,
    };
    // SAFETY: the driver cannot access memory through an unmapped address.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, address) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Takes ownership of a descriptor that the driver has just given to this process.
pub fn take_descriptor(number: u64) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    // Detects a wrong descriptor from the driver.
    // SAFETY: only the number is used.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the driver gave it only to this process.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `UDMABUF_CREATE`.
const UDMABUF_CREATE: u32 = 0x4018_7542;

/// A dma-buf of another driver (udmabuf): all `bytes` bytes of `memory`, a memfd that cannot shrink.
pub fn udmabuf(memory: BorrowedFd<'_>, bytes: u64) -> io::Result<OwnedFd> {
    let driver = File::options()
        .read(true)
        .write(true)
        .open("/dev/udmabuf")?;
    // struct udmabuf_create: memfd, flags (1: close on exec), offset, size.
    let mut create = [0u64; 3];
    create[0] = memory.as_raw_fd() as u64 | 1 << 32;
    create[2] = bytes;
    // SAFETY: the structure lives through the call.
    let result =
        unsafe { libc::ioctl(driver.as_raw_fd(), UDMABUF_CREATE as _, create.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call created it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// `UDMABUF_CREATE_LIST`.
const UDMABUF_CREATE_LIST: u32 = 0x4008_7543;

/// Like [`udmabuf`], with the same `bytes` bytes `count` times in a row.
pub fn udmabuf_list(memory: BorrowedFd<'_>, bytes: u64, count: usize) -> io::Result<OwnedFd> {
    let driver = File::options()
        .read(true)
        .write(true)
        .open("/dev/udmabuf")?;
    // struct udmabuf_create_list: flags, count; then for each entry: memfd, padding, offset, size.
    let mut list = vec![1 | (count as u64) << 32];
    for _ in 0..count {
        list.extend([memory.as_raw_fd() as u64, 0, bytes]);
    }
    // SAFETY: the list lives through the call, and has as many entries as its header states.
    let result = unsafe {
        libc::ioctl(
            driver.as_raw_fd(),
            UDMABUF_CREATE_LIST as _,
            list.as_mut_ptr(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call created it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// `SW_SYNC_IOC_CREATE_FENCE` and `SW_SYNC_IOC_INC`.
const SW_SYNC_CREATE_FENCE: u32 = 0xc028_5700;
const SW_SYNC_INC: u32 = 0x4004_5701;

/// A timeline of the kernel's sw_sync driver, with manually signaled fences.
#[derive(Debug)]
pub struct SoftwareSync(File);

impl SoftwareSync {
    /// Opens a new timeline at 0.
    pub fn open() -> io::Result<Self> {
        File::options()
            .read(true)
            .write(true)
            .open("/sys/kernel/debug/sync/sw_sync")
            .map(Self)
    }

    /// A sync file that is signaled when the timeline reaches `value`.
    pub fn fence(&self, value: u32) -> io::Result<OwnedFd> {
        // struct sw_sync_create_fence_data: value, name, fence.
        let mut create = [0u32; 10];
        create[0] = value;
        // SAFETY: the structure lives through the call.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                SW_SYNC_CREATE_FENCE as _,
                create.as_mut_ptr(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        take_descriptor(create[9].into())
    }

    /// Advances the timeline by `count`.
    pub fn increase(&self, mut count: u32) -> io::Result<()> {
        // SAFETY: the word lives through the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SW_SYNC_INC as _, &mut count) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Memory of this process with delayed pages (userfaultfd): an access waits until [`LateMemory::give`] supplies the
/// page.
pub struct LateMemory {
    faults: OwnedFd,
    region: Region,
}

const UFFDIO_API: u32 = 0xc018_aa3f;
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
const UFFDIO_COPY: u32 = 0xc028_aa03;
const UFFD_API: u64 = 0xaa;
const MODE_MISSING: u64 = 1;
const PAGE: usize = 4096;

impl LateMemory {
    /// Allocates `bytes` bytes, whole pages, without content. Fails if the kernel has no userfaultfd.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let region = Region::anonymous(bytes)?;
        // SAFETY: it is used only for this object's memory, to which no Rust reference exists.
        let faults = unsafe { rustix::mm::userfaultfd(rustix::mm::UserfaultfdFlags::CLOEXEC)? };
        let late = Self { faults, region };
        late.control(UFFDIO_API, &mut [UFFD_API, 0, 0])?;
        let (start, bytes) = (late.region.address(), bytes as u64);
        late.control(UFFDIO_REGISTER, &mut [start, bytes, MODE_MISSING, 0])?;
        Ok(late)
    }

    fn control<const N: usize>(&self, request: u32, words: &mut [u64; N]) -> io::Result<()> {
        // SAFETY: the request has this many words, and changes only this object's memory.
        let result =
            unsafe { libc::ioctl(self.faults.as_raw_fd(), request as _, words.as_mut_ptr()) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address.
    pub fn address(&self) -> u64 {
        self.region.address()
    }

    /// Waits until an access hits a missing page.
    pub fn wait(&self) -> io::Result<()> {
        let mut message = [0; 32];
        let read = rustix::io::read(&self.faults, &mut message)?;
        (read == message.len())
            .then_some(())
            .ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    /// Supplies the first page, with `words` as its content.
    pub fn give(&self, words: &[u32]) -> io::Result<()> {
        let page = Region::anonymous(PAGE)?;
        for (at, &word) in words.iter().enumerate() {
            page.write(at * 4, word);
        }
        let (to, from) = (self.address(), page.address());
        self.control(UFFDIO_COPY, &mut [to, from, PAGE as u64, 0, 0])
    }
}

/// Memory that this process shares with the GPU or the device, accessed word by word.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owned: bool,
}

// SAFETY: the memory belongs to the process, not to a thread. All accesses are volatile, as for memory that a device
// can change at any time.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` bytes of `file` at `offset`, shared, for reading and writing.
    pub fn map(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Self::map_with(file, bytes, offset, protection, MapFlags::SHARED)
    }

    /// Maps `bytes` bytes of `file` at `offset`, shared, read-only. [`Region::write`] would kill the process.
    pub fn map_read_only(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        Self::map_with(file, bytes, offset, ProtFlags::READ, MapFlags::SHARED)
    }

    /// Like [`Region::map`], but private.
    pub fn map_private(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Self::map_with(file, bytes, offset, protection, MapFlags::PRIVATE)
    }

    /// Like [`Region::map_private`], but executable, like a loader maps a library. [`Region::write`] would kill the
    /// process.
    pub fn map_code(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::EXEC;
        Self::map_with(file, bytes, 0, protection, MapFlags::PRIVATE)
    }

    fn map_with(
        file: impl AsFd,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free address; no existing mapping is replaced.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            start,
            bytes,
            owned: true,
        })
    }

    /// Allocates `bytes` bytes of zeros in this process.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address; no existing mapping is replaced.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            start,
            bytes,
            owned: true,
        })
    }

    /// Requests huge pages for parts of the memory that are still untouched.
    pub fn make_huge(&self) -> io::Result<()> {
        // SAFETY: only the page size changes, not the content.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                rustix::mm::Advice::LinuxHugepage,
            )?
        };
        Ok(())
    }

    /// Changes the access rights of some pages. Access without the right kills the process.
    pub fn protect(&self, offset: usize, bytes: usize, read: bool, write: bool) -> io::Result<()> {
        use rustix::mm::MprotectFlags;
        assert!(offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes));
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, read);
        flags.set(MprotectFlags::WRITE, write);
        // SAFETY: the range is inside the region; only access rights change, not the content.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().add(offset).cast(), bytes, flags)? };
        Ok(())
    }

    /// Unmaps `bytes` bytes of pages from `offset` on. The parts before and after stay mapped.
    pub fn cut(self, offset: usize, bytes: usize) -> io::Result<(Self, Self)> {
        let end = offset.checked_add(bytes);
        let end = end.filter(|end| *end < self.bytes && self.owned && offset > 0);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is inside the region, which is owned here; no reference into it exists.
        let (first, last) = unsafe {
            rustix::mm::munmap(self.start.as_ptr().add(offset).cast(), bytes)?;
            (self.start, self.start.add(end))
        };
        let rest = self.bytes - end;
        std::mem::forget(self);
        let part = |start, bytes| Self {
            start,
            bytes,
            owned: true,
        };
        Ok((part(first, offset), part(last, rest)))
    }

    /// Requests write access to a mapping that was made without it.
    pub fn make_writable(&self) -> io::Result<()> {
        use rustix::mm::MprotectFlags;
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: this only adds access rights; the content does not change.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().cast(), self.bytes, flags)? };
        Ok(())
    }

    /// Memory that the driver mapped into this process, with its address in an answer. The driver owns it and unmaps
    /// it when the handle is freed. This value must not be used afterwards; [`crate::device`] ensures that.
    pub(crate) fn of_driver(logical: u64, bytes: usize) -> io::Result<Self> {
        let address = usize::try_from(logical).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
        let start = NonNull::new(address as *mut u8).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            start,
            bytes,
            owned: false,
        })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address in this process, in the format of the driver's commands.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as usize as u64
    }

    fn word(&self, offset: usize) -> *mut u32 {
        assert!(
            (self.address() as usize + offset) % 4 == 0
                && offset.checked_add(4).is_some_and(|end| end <= self.bytes),
            "word at {offset:#x} of {:#x} bytes",
            self.bytes
        );
        // SAFETY: inside the region, as checked above.
        unsafe { self.start.as_ptr().add(offset).cast::<u32>() }
    }

    /// Reads the word at a byte offset that is a multiple of 4.
    ///
    /// # Panics
    ///
    /// If it is not inside.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: `word` checked the offset; mappings are page aligned, so the word is aligned.
        unsafe { self.word(offset).read_volatile() }
    }

    /// Byte offset of the first word that is not `value`, in the `bytes` bytes from `start` on.
    ///
    /// # Panics
    ///
    /// If they are not inside, or `start` is not a multiple of 4.
    pub fn find_other_than(&self, start: usize, bytes: usize, value: u32) -> Option<usize> {
        const AT_ONCE: usize = 16;
        let words = bytes / 4;
        if words == 0 {
            return None;
        }
        let first = self.word(start);
        self.word(start + 4 * (words - 1));
        // SAFETY: all words are inside, as checked above; mappings are page aligned.
        let read = |at: usize| unsafe { first.add(at).read_volatile() };
        let whole = words / AT_ONCE * AT_ONCE;
        let block = (0..whole).step_by(AT_ONCE).find(|block| {
            let differing =
                (0..AT_ONCE).fold(0, |differing, at| differing | (read(block + at) ^ value));
            differing != 0
        });
        let from = block.unwrap_or(whole);
        let found = (from..words).find(|at| read(*at) != value);
        found.map(|at| start + 4 * at)
    }

    /// Writes the word at a byte offset that is a multiple of 4.
    ///
    /// # Panics
    ///
    /// If it is not inside.
    pub fn write(&self, offset: usize, value: u32) {
        // SAFETY: same as for `read`.
        unsafe { self.word(offset).write_volatile(value) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: this value made the mapping and no reference into it exists.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// An idle copy of this process, which keeps this process's files and their resources open. It ends when this value
/// is dropped or when the thread that made it ends for any reason.
#[derive(Debug)]
pub struct Idle {
    process: libc::pid_t,
}

impl Idle {
    /// Forks.
    pub fn fork() -> io::Result<Self> {
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the child makes only system calls, as required when other threads exist.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => loop {
                // SAFETY: these calls access no memory.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // The parent may already have ended.
                    if libc::getppid() != parent {
                        libc::_exit(0);
                    }
                    libc::pause();
                }
            },
            process => Ok(Self { process }),
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own and has not been waited for.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

/// Files that other processes opened, one each, before they exited. This process now has them.
#[derive(Debug)]
pub struct Orphans {
    /// The files.
    pub files: Vec<OwnedFd>,
    /// errno of the first process that could not open one; 0 if all succeeded.
    pub error: i32,
}

/// The raw system call, because the C library's function changes all threads of this process.
#[cfg(target_arch = "arm")]
const SET_USER: libc::c_long = libc::SYS_setuid32;
#[cfg(not(target_arch = "arm"))]
const SET_USER: libc::c_long = libc::SYS_setuid;

/// Makes `count` processes of `user`, one after another, open `path` in this process's file table.
pub fn orphan(path: &std::ffi::CStr, count: u32, user: u32) -> io::Result<Orphans> {
    let (report, end) = rustix::pipe::pipe()?;
    let mut report = File::from(report);
    let mut files = Vec::new();
    for _ in 0..count {
        // SAFETY: the child makes only system calls, as required when other threads exist, and uses its own memory.
        let child = unsafe {
            let flags = libc::CLONE_FILES | libc::SIGCHLD;
            let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
            if child == 0 {
                let is_user = user == 0 || libc::syscall(SET_USER, user) == 0;
                let opened = if is_user {
                    libc::open(path.as_ptr(), libc::O_RDWR)
                } else {
                    -1
                };
                let said = match opened {
                    -1 => -*libc::__errno_location(),
                    opened => opened,
                };
                libc::write(end.as_raw_fd(), (&raw const said).cast(), 4);
                libc::_exit(0);
            }
            child
        };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut said = [0u8; 4];
        report.read_exact(&mut said)?;
        // SAFETY: the child is this process's own and has not been waited for.
        unsafe { libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0) };
        match i32::from_ne_bytes(said) {
            // SAFETY: the child opened the descriptor for this process and does not use it any more.
            file @ 0.. => files.push(unsafe { OwnedFd::from_raw_fd(file) }),
            error => {
                let error = -error;
                return Ok(Orphans { files, error });
            }
        }
    }
    Ok(Orphans { files, error: 0 })
}

static TICKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_tick(_signal: libc::c_int) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// Number of [`tick`] signals received.
pub fn ticks() -> u32 {
    TICKS.load(Ordering::Relaxed)
}

/// Sends SIGALRM to this process every `milliseconds`; 0 stops it. The handler counts the signals, and system calls
/// restart after it, like in an X server.
pub fn tick(milliseconds: u32) -> io::Result<()> {
    accept_signal(libc::SIGALRM)?;
    // SAFETY: zeros are a valid value of both structures; they and the handler stay valid while in use.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_tick as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        let mut timer: libc::itimerval = std::mem::zeroed();
        timer.it_interval.tv_usec = milliseconds as libc::suseconds_t * 1000;
        timer.it_value = timer.it_interval;
        match libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()) {
            0 => libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()),
            error => error,
        }
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Becomes an ordinary user permanently: the process loses its capabilities.
pub fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: this call accesses no memory.
    match unsafe { libc::setuid(user) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this thread, the only one of its process, to a new user namespace. Another process maps its users.
pub fn leave_users() -> io::Result<()> {
    // SAFETY: this call accesses no memory.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unblocks the Unix signal `number` in this thread. The parent process may have blocked it.
pub fn accept_signal(number: i32) -> io::Result<()> {
    // SAFETY: sigemptyset initializes the set before its first use.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a local variable.
    let error = unsafe {
        libc::sigemptyset(&mut set);
        if libc::sigaddset(&mut set, number) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
    };
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Blocks the Unix signal `number` in this thread and its later threads, and opens a file that reports each signal in
/// 128 bytes: see `signalfd_siginfo` in signalfd(2).
pub fn signal_file(number: i32) -> io::Result<File> {
    // SAFETY: sigemptyset initializes the set before its first use.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a local variable, and the new file descriptor has no other owner.
    unsafe {
        libc::sigemptyset(&mut set);
        if libc::sigaddset(&mut set, number) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(File::from_raw_fd(file)),
        }
    }
}
