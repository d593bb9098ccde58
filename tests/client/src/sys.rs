// SPDX-License-Identifier: GPL-2.0-only
//! With `unsafe`, as [`crate::raw`]: ioctl, mappings, and words in memory that the GPU shares.
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

/// One of the two buffers that the argument block of the ioctl names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The bytes given.
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
    /// Input size as claimed.
    pub input_size: u64,
    /// Output address.
    pub output: Place,
    /// Output size as claimed.
    pub output_size: u64,
    /// Added to both addresses shifted left by 32 bits: what an old client leaves in the padding behind a pointer.
    pub padding: u32,
}

/// Sends `request` about `bytes`, which hold the request and receive the answer. Returns what ioctl returns.
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

/// As [`exchange`], with the argument block of 16 bytes that older generations have.
pub fn exchange_short(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    let address = u32::try_from(bytes.as_mut_ptr() as usize)
        .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let size = bytes.len() as u32;
    let mut block = [address, size, address, size];
    // SAFETY: the block and the bytes that it names live through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, block.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Sends `request` about the bytes themselves, without an argument block.
pub fn exchange_plain(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    // SAFETY: the bytes live through the call; the caller gives as many as the request's number says.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, bytes.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// As [`exchange`] with the answer in memory of its own.
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
    // SAFETY: the block and both buffers live through the call; the sizes are theirs.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, block.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// As [`exchange`] with an argument block of the caller's making. A driver that believes a wrong size would read or
/// write past `bytes`; tests that claim more than they have give room for what the driver may do at worst.
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
    // SAFETY: the block lives through the call, and so do the bytes it names; see above for their size.
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
    // SAFETY: the driver cannot reach anything of this program by an address that is not mapped.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, address) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A descriptor that the driver has just given to this process.
pub fn take_descriptor(number: u64) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    // Checked, so that a driver's mistake is noticed here.
    // SAFETY: the number is only looked at.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the driver gave it to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `UDMABUF_CREATE`.
const UDMABUF_CREATE: u32 = 0x4018_7542;

/// A dma-buf of another driver (udmabuf): all `bytes` bytes of `memory`, a memory file that cannot shrink.
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
    // SAFETY: the call made it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// `UDMABUF_CREATE_LIST`.
const UDMABUF_CREATE_LIST: u32 = 0x4008_7543;

/// As [`udmabuf`], of the same `bytes` bytes `count` times behind each other.
pub fn udmabuf_list(memory: BorrowedFd<'_>, bytes: u64, count: usize) -> io::Result<OwnedFd> {
    let driver = File::options()
        .read(true)
        .write(true)
        .open("/dev/udmabuf")?;
    // struct udmabuf_create_list: flags, count; then for each: memfd, padding, offset, size.
    let mut list = vec![1 | (count as u64) << 32];
    for _ in 0..count {
        list.extend([memory.as_raw_fd() as u64, 0, bytes]);
    }
    // SAFETY: the list lives through the call, and is as long as it says.
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
    // SAFETY: the call made it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// `SW_SYNC_IOC_CREATE_FENCE` and `SW_SYNC_IOC_INC`.
const SW_SYNC_CREATE_FENCE: u32 = 0xc028_5700;
const SW_SYNC_INC: u32 = 0x4004_5701;

/// A timeline of the kernel's sw_sync driver, whose fences are signaled by hand.
#[derive(Debug)]
pub struct SoftwareSync(File);

impl SoftwareSync {
    /// A new one, at 0.
    pub fn open() -> io::Result<Self> {
        File::options()
            .read(true)
            .write(true)
            .open("/sys/kernel/debug/sync/sw_sync")
            .map(Self)
    }

    /// A sync file that is signaled when the timeline comes to `value`.
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

    /// Goes on by `count`.
    pub fn increase(&self, mut count: u32) -> io::Result<()> {
        // SAFETY: the word lives through the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SW_SYNC_INC as _, &mut count) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Memory of the process's own, whose pages come late: what touches them waits until they are given (userfaultfd).
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
    /// `bytes` bytes, whole pages, none of which is there. Fails where the kernel has no userfaultfd.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let region = Region::anonymous(bytes)?;
        // SAFETY: it is used for memory of this object alone, which nothing in Rust has a reference to.
        let faults = unsafe { rustix::mm::userfaultfd(rustix::mm::UserfaultfdFlags::CLOEXEC)? };
        let late = Self { faults, region };
        late.control(UFFDIO_API, &mut [UFFD_API, 0, 0])?;
        let (start, bytes) = (late.region.address(), bytes as u64);
        late.control(UFFDIO_REGISTER, &mut [start, bytes, MODE_MISSING, 0])?;
        Ok(late)
    }

    fn control<const N: usize>(&self, request: u32, words: &mut [u64; N]) -> io::Result<()> {
        // SAFETY: the request is for as many words, and changes memory of this object alone.
        let result =
            unsafe { libc::ioctl(self.faults.as_raw_fd(), request as _, words.as_mut_ptr()) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.region.address()
    }

    /// Waits until something touches a page that is not there.
    pub fn wait(&self) -> io::Result<()> {
        let mut message = [0; 32];
        let read = rustix::io::read(&self.faults, &mut message)?;
        (read == message.len())
            .then_some(())
            .ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    /// The first page is there now, and holds `words`.
    pub fn give(&self, words: &[u32]) -> io::Result<()> {
        let page = Region::anonymous(PAGE)?;
        for (at, &word) in words.iter().enumerate() {
            page.write(at * 4, word);
        }
        let (to, from) = (self.address(), page.address());
        self.control(UFFDIO_COPY, &mut [to, from, PAGE as u64, 0, 0])
    }
}

/// Memory that the GPU or the device shares with this process; read and written word by word.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owned: bool,
}

// SAFETY: the memory belongs to the process, not to a thread, and is only accessed by volatile reads and writes,
// as memory is that another device changes at any time.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` bytes of `file` at `offset`, shared, for reading and writing.
    pub fn map(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Self::map_with(file, bytes, offset, protection, MapFlags::SHARED)
    }

    /// Maps `bytes` bytes of `file` at `offset`, shared, for reading; [`Region::write`] would end the process.
    pub fn map_read_only(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        Self::map_with(file, bytes, offset, ProtFlags::READ, MapFlags::SHARED)
    }

    /// As [`Region::map`], but private.
    pub fn map_private(file: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Self::map_with(file, bytes, offset, protection, MapFlags::PRIVATE)
    }

    /// As [`Region::map_private`], but as code, as a loader maps a library; [`Region::write`] would end the process.
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
        // SAFETY: the kernel chooses a free place; nothing that exists is replaced.
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

    /// `bytes` bytes of the process's own memory, zeros.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place; nothing that exists is replaced.
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

    /// Asks the kernel for huge pages where the memory has not been touched yet.
    pub fn make_huge(&self) -> io::Result<()> {
        // SAFETY: only the size of its pages changes; the memory stays what it is.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                rustix::mm::Advice::LinuxHugepage,
            )?
        };
        Ok(())
    }

    /// Takes access to some pages away, or gives it. Touching memory without access ends the process.
    pub fn protect(&self, offset: usize, bytes: usize, read: bool, write: bool) -> io::Result<()> {
        use rustix::mm::MprotectFlags;
        assert!(offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes));
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, read);
        flags.set(MprotectFlags::WRITE, write);
        // SAFETY: inside the region; only access changes, and what is in it stays.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().add(offset).cast(), bytes, flags)? };
        Ok(())
    }

    /// Unmaps the pages from `offset` on, `bytes` of them; what is before and behind stays.
    pub fn cut(self, offset: usize, bytes: usize) -> io::Result<(Self, Self)> {
        let end = offset.checked_add(bytes);
        let end = end.filter(|end| *end < self.bytes && self.owned && offset > 0);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: inside the region, whose owner this is; no reference into it exists.
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

    /// Asks for write access to a mapping that was made without.
    pub fn make_writable(&self) -> io::Result<()> {
        use rustix::mm::MprotectFlags;
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: only access is added; the memory stays what it is.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().cast(), self.bytes, flags)? };
        Ok(())
    }

    /// Memory that the driver mapped into this process and named in its answer. It stays the driver's: it goes when
    /// the handle is freed, and then this value must not be used any more, as [`crate::device`] sees to.
    pub(crate) fn of_driver(logical: u64, bytes: usize) -> io::Result<Self> {
        let address = usize::try_from(logical).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
        let start = NonNull::new(address as *mut u8).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            start,
            bytes,
            owned: false,
        })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address in this process, as the driver's commands want it.
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
        // SAFETY: inside the region, as just checked.
        unsafe { self.start.as_ptr().add(offset).cast::<u32>() }
    }

    /// The word at a byte offset that is a multiple of 4.
    ///
    /// # Panics
    ///
    /// When it is not inside.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: `word` checked the place; mappings are page aligned, so the word is aligned.
        unsafe { self.word(offset).read_volatile() }
    }

    /// The byte offset of the first word that is not `value`, of those from `start` on in `bytes` bytes.
    ///
    /// # Panics
    ///
    /// When they are not inside, or `start` is no multiple of 4.
    pub fn find_other_than(&self, start: usize, bytes: usize, value: u32) -> Option<usize> {
        const AT_ONCE: usize = 16;
        let words = bytes / 4;
        if words == 0 {
            return None;
        }
        let first = self.word(start);
        self.word(start + 4 * (words - 1));
        // SAFETY: up to the last word all are inside, as just checked; mappings are page aligned.
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
    /// When it is not inside.
    pub fn write(&self, offset: usize, value: u32) {
        // SAFETY: as for `read`.
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

/// A copy of this process that does nothing; it ends when this goes, or the thread that made it does, however that
/// ends: it has this process's files open, and what those keep.
#[derive(Debug)]
pub struct Idle {
    process: libc::pid_t,
}

impl Idle {
    /// Forks.
    pub fn fork() -> io::Result<Self> {
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the child calls nothing but system calls, as it must when other threads exist.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => loop {
                // SAFETY: touch no memory.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // It may have ended before that.
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

/// Files of processes that have opened one each and exited, which this process has now.
#[derive(Debug)]
pub struct Orphans {
    /// The files.
    pub files: Vec<OwnedFd>,
    /// Why the next process could not open one; 0: that was all.
    pub error: i32,
}

/// The system call, as the C library's would have all threads of this process do it.
#[cfg(target_arch = "arm")]
const SET_USER: libc::c_long = libc::SYS_setuid32;
#[cfg(not(target_arch = "arm"))]
const SET_USER: libc::c_long = libc::SYS_setuid;

/// Has `count` processes of `user`, one after another, open `path`, with this process's table of files.
pub fn orphan(path: &std::ffi::CStr, count: u32, user: u32) -> io::Result<Orphans> {
    let (report, end) = rustix::pipe::pipe()?;
    let mut report = File::from(report);
    let mut files = Vec::new();
    for _ in 0..count {
        // SAFETY: the child calls nothing but system calls, as it must when other threads exist, with its own memory.
        let child = unsafe {
            let flags = libc::CLONE_FILES | libc::SIGCHLD;
            let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
            if child == 0 {
                let is_user = user == 0 || libc::syscall(SET_USER, user) == 0;
                let opened = match is_user {
                    true => libc::open(path.as_ptr(), libc::O_RDWR),
                    false => -1,
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
            // SAFETY: the child has opened it for this process, and has left it.
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

/// How often [`tick`]'s signal has come.
pub fn ticks() -> u32 {
    TICKS.load(Ordering::Relaxed)
}

/// Sends this process SIGALRM each `milliseconds`, 0: not any more, with a handler that counts and lets system calls be
/// restarted, as an X server has it.
pub fn tick(milliseconds: u32) -> io::Result<()> {
    accept_signal(libc::SIGALRM)?;
    // SAFETY: zeros are a valid value of both; they and the handler are valid as long as they are looked at.
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

/// Becomes an ordinary user, for good: the process's capabilities go.
pub fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: touches no memory.
    match unsafe { libc::setuid(user) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this thread, the only one of its process, to a user namespace of its own. Another process maps its users.
pub fn leave_users() -> io::Result<()> {
    // SAFETY: touches no memory.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the Unix signal `number`, which whoever started this process may have blocked, come to this thread.
pub fn accept_signal(number: i32) -> io::Result<()> {
    // SAFETY: an empty set is what the bytes are made into before they are looked at.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is this function's own.
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

/// Blocks the Unix signal `number` in this thread, and in those it starts, and makes a file that tells of each that
/// comes: 128 bytes, see `signalfd_siginfo` in signalfd(2).
pub fn signal_file(number: i32) -> io::Result<File> {
    // SAFETY: an empty set is what the bytes are made into before they are looked at.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is this function's own, and the file descriptor that comes out is new and nobody else's.
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
