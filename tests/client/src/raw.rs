// SPDX-License-Identifier: GPL-2.0-only
//! Unusual operations on a driver: accesses to addresses that may be unmapped, mappings of any kind, Unix signals for
//! one thread, and threads with special priorities.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

thread_local! {
    /// Words are copied through a pipe, so that an invalid address gives the kernel an error instead of a fault here.
    static PIPE: OnceCell<(OwnedFd, OwnedFd)> = const { OnceCell::new() };
}

fn with_pipe<T>(body: impl FnOnce(i32, i32) -> T) -> io::Result<T> {
    PIPE.with(|pipe| {
        if pipe.get().is_none() {
            let _ = pipe.set(rustix::pipe::pipe()?);
        }
        let (read, write) = pipe.get().ok_or(io::ErrorKind::Other)?;
        Ok(body(read.as_raw_fd(), write.as_raw_fd()))
    })
}

/// Reads the word at `address` in this process. `None` if it is not readable.
pub fn peek(address: u64) -> io::Result<Option<u32>> {
    with_pipe(|read, write| {
        let mut word = 0u32;
        // SAFETY: the kernel checks the address; the word is a local variable.
        unsafe {
            if libc::write(write, address as usize as *const libc::c_void, 4) != 4 {
                return None;
            }
            let taken = libc::read(read, (&raw mut word).cast(), 4);
            (taken == 4).then_some(word)
        }
    })
}

/// Mapped memory of this process of any kind. No Rust reference points into it: it is only read by [`peek`] and
/// written by [`Area::poke`]. Therefore it can be changed, moved, and cut freely.
#[derive(Debug)]
pub struct Area {
    address: usize,
    bytes: usize,
    /// The driver mapped it, and unmaps it.
    is_drivers: bool,
}

/// Kinds of [`Area`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Private: written pages are copies.
    pub private: bool,
    /// Read-only.
    pub read_only: bool,
    /// All pages are mapped at once.
    pub populate: bool,
}

impl Kind {
    fn protection(self) -> i32 {
        if self.read_only {
            libc::PROT_READ
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        }
    }
}

impl Area {
    /// Maps `bytes` of `file` at `offset`, or anonymous memory without a file.
    pub fn map(file: Option<&dyn AsFd>, bytes: usize, offset: u64, kind: Kind) -> io::Result<Self> {
        let mut flags = if kind.private || file.is_none() {
            libc::MAP_PRIVATE
        } else {
            libc::MAP_SHARED
        };
        if kind.populate {
            flags |= libc::MAP_POPULATE;
        }
        if file.is_none() {
            flags |= libc::MAP_ANONYMOUS;
        }
        let descriptor = file.map_or(-1, |file| file.as_fd().as_raw_fd());
        let offset = libc::off64_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let none = std::ptr::null_mut();
        // SAFETY: the kernel chooses a free address; no existing mapping is replaced.
        let start =
            unsafe { libc::mmap64(none, bytes, kind.protection(), flags, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            address: start as usize,
            bytes,
            is_drivers: false,
        })
    }

    /// Memory that a driver mapped, with its address from an answer, or the memory of another area.
    pub fn of_driver(address: u64, bytes: usize) -> io::Result<Self> {
        let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self {
            address,
            bytes,
            is_drivers: true,
        })
    }

    /// The address.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the word at a byte offset. `None` if it is not readable.
    pub fn peek(&self, offset: usize) -> io::Result<Option<u32>> {
        peek((self.address + offset) as u64)
    }

    /// Writes the word at a byte offset. Returns whether this was possible.
    pub fn poke(&self, offset: usize, word: u32) -> io::Result<bool> {
        if offset.checked_add(4).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        with_pipe(|read, write| {
            let place = (self.address + offset) as *mut libc::c_void;
            // SAFETY: the address is inside the area, to which no reference exists; the kernel checks the address.
            unsafe {
                if libc::write(write, (&raw const word).cast(), 4) != 4 {
                    return false;
                }
                if libc::read(read, place, 4) == 4 {
                    return true;
                }
                // The word is still in the pipe.
                let mut rest = 0u32;
                libc::read(read, (&raw mut rest).cast(), 4);
                false
            }
        })
    }

    /// Changes the access rights of a part.
    pub fn protect(&self, offset: usize, bytes: usize, kind: Kind) -> io::Result<()> {
        self.inside(offset, bytes)?;
        let place = (self.address + offset) as *mut libc::c_void;
        // SAFETY: the range is inside the area, to which no reference exists.
        match unsafe { libc::mprotect(place, bytes, kind.protection()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Resizes the area, which may move it.
    pub fn remap(&mut self, bytes: usize) -> io::Result<()> {
        let place = self.address as *mut libc::c_void;
        // SAFETY: this is the whole area, to which no reference exists; the kernel chooses a free address.
        let start = unsafe { libc::mremap(place, self.bytes, bytes, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.address = start as usize;
        self.bytes = bytes;
        Ok(())
    }

    /// Moves the area without a change of its size.
    pub fn move_away(&mut self) -> io::Result<()> {
        let (from, to) = (
            self.address,
            Self::map(None, self.bytes, 0, Kind::default())?,
        );
        let places = [from, to.address].map(|at| at as *mut libc::c_void);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both areas are whole, and no reference to them exists.
        let start = unsafe { libc::mremap(places[0], self.bytes, self.bytes, flags, places[1]) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.address = to.address;
        // The move replaced this mapping.
        std::mem::forget(to);
        Ok(())
    }

    /// Unmaps a part. Its addresses must not be used any more, as another mapping may get them.
    pub fn cut(mut self, offset: usize, bytes: usize) -> io::Result<Vec<Self>> {
        self.inside(offset, bytes)?;
        let place = (self.address + offset) as *mut libc::c_void;
        // SAFETY: the range is inside the area, to which no reference exists.
        if unsafe { libc::munmap(place, bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let end = offset + bytes;
        let parts = [(0, offset), (end, self.bytes - end)];
        let address = self.address;
        self.bytes = 0;
        let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
        Ok(parts
            .map(|(offset, bytes)| Self {
                address: address + offset,
                bytes,
                is_drivers: false,
            })
            .collect())
    }

    fn inside(&self, offset: usize, bytes: usize) -> io::Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes && bytes > 0 => Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if self.bytes > 0 && !self.is_drivers {
            // SAFETY: this value owns the mapping, and no reference to it exists.
            unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
        }
    }
}

/// Unmaps a view that the driver mapped, by munmap(2). No reference to it may exist.
pub fn unmap_view(address: u64, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller guarantees the above.
    match unsafe { libc::munmap(address as *mut libc::c_void, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Installs an empty handler for SIGUSR1, so that the signal only interrupts waits in the kernel.
pub fn interruptible() -> io::Result<()> {
    // SAFETY: zeros are an empty signal set and no flags; the handler does nothing.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The function that [`on_signal`] installs.
static HANDLER: OnceLock<fn()> = OnceLock::new();

extern "C" fn handle(_: libc::c_int) {
    if let Some(body) = HANDLER.get() {
        body();
    }
}

/// Makes the thread that receives the Unix signal `number` call `body`. With `restarts` (`SA_RESTART`), the kernel
/// restarts an interrupted system call; otherwise it fails with EINTR. All signals of a program use the first `body`.
pub fn on_signal(number: i32, restarts: bool, body: fn()) -> io::Result<()> {
    HANDLER.get_or_init(|| body);
    crate::sys::accept_signal(number)?;
    // SAFETY: zeros are an empty signal set and no flags; the handler is a function of this file.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK | if restarts { libc::SA_RESTART } else { 0 };
        libc::sigaction(number, &action, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the calling thread's signal handlers run on `stack`.
pub fn handle_on(stack: &'static mut [u8]) -> io::Result<()> {
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the memory is lent for the program's whole lifetime.
    match unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Id of the calling thread, for [`interrupt`].
pub fn thread() -> i32 {
    // SAFETY: this call accesses no memory.
    unsafe { libc::gettid() }
}

/// Sends SIGUSR1 to a thread of this process.
pub fn interrupt(thread: i32) -> io::Result<()> {
    interrupt_by(thread, libc::SIGUSR1)
}

/// Sends another signal to a thread of this process.
pub fn interrupt_by(thread: i32, number: i32) -> io::Result<()> {
    // SAFETY: this call accesses no memory.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Pins the calling thread to one processor.
pub fn stay_on(processor: usize) -> io::Result<()> {
    // SAFETY: the set is a local variable.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the priority of the calling thread. Only root may do this.
pub fn urgent() -> io::Result<()> {
    // SAFETY: this call accesses no memory. Id 0 means the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the calling thread run only when no other thread wants to.
pub fn give_way() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs `body` in another process that shares this one's address space and files. Returns its result.
pub fn sharing_memory<F: FnOnce() -> i32>(body: F) -> io::Result<i32> {
    extern "C" fn run<F: FnOnce() -> i32>(place: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `sharing_memory` waits for the end of this process, and keeps the memory valid.
        let place = unsafe { &mut *place.cast::<(Option<F>, i32)>() };
        if let Some(body) = place.0.take() {
            place.1 = body();
        }
        0
    }
    let mut stack = vec![0u64; 1 << 15];
    let mut place = (Some(body), -1);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    let shared: *mut (Option<F>, i32) = &mut place;
    // SAFETY: this thread continues after the other process has ended; until then only that process uses the stack
    // and the memory.
    let process = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        libc::clone(run::<F>, top, flags, shared.cast())
    };
    if process < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the child belongs to this process, and has ended.
    unsafe {
        libc::waitpid(process, std::ptr::null_mut(), 0);
        Ok((&raw const (*shared).1).read_volatile())
    }
}

/// Opens a file in another process, which shares this one's address space and files and has ended since.
pub fn opened_by_another(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the path lives through the call.
    match sharing_memory(|| unsafe { libc::open(path.as_ptr(), libc::O_RDWR) })? {
        ..0 => Err(io::ErrorKind::NotFound.into()),
        // SAFETY: the descriptor has no other owner, because the other process used this one's file table.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// A copy of this process that runs a function and ends.
#[derive(Debug)]
pub struct Copied {
    process: libc::pid_t,
}

/// Forks. The copy runs `body` and exits with status 0 if it returns true, else with 1. It is killed when the thread
/// that made it ends. Only for processes with one thread: the copy would have other threads' locks, but not the
/// threads.
pub fn copied(body: impl FnOnce() -> bool) -> io::Result<Copied> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the process has one thread, so the copy is complete.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: this call accesses no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let body = std::panic::AssertUnwindSafe(body);
            let is_good = std::panic::catch_unwind(body).unwrap_or(false);
            // SAFETY: this call accesses no memory; exit handlers run only in the original.
            unsafe { libc::_exit(i32::from(!is_good)) }
        }
        process => Ok(Copied { process }),
    }
}

impl Copied {
    /// Its process id.
    pub fn id(&self) -> i32 {
        self.process
    }

    /// Kills it and waits up to a second for its end. Returns its exit status, or the negative number of the Unix
    /// signal.
    pub fn end(&self) -> Option<i32> {
        // SAFETY: the child belongs to this process and has not been waited for.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        self.wait(1000)
    }

    /// Waits up to `milliseconds` for its end; the result is that of [`Copied::end`].
    pub fn wait(&self, milliseconds: u32) -> Option<i32> {
        let process = rustix::process::Pid::from_raw(self.process)?;
        let flags = rustix::process::PidfdFlags::empty();
        let file = rustix::process::pidfd_open(process, flags).ok()?;
        let mut polled = libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut status = 0;
        // SAFETY: the poll structure and the status are local variables.
        let ended = unsafe {
            libc::poll(&mut polled, 1, milliseconds as i32);
            libc::waitpid(self.process, &mut status, libc::WNOHANG)
        };
        match ended {
            0 | -1 => None,
            _ if libc::WIFSIGNALED(status) => Some(-libc::WTERMSIG(status)),
            _ => Some(libc::WEXITSTATUS(status)),
        }
    }
}
