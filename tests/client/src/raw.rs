// SPDX-License-Identifier: GPL-2.0-only
//! What a program does to a driver beside asking it: words at addresses that may not be there, mappings of any kind,
//! Unix signals for one thread, threads that seldom run.
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
    /// Words go through it, so that the kernel and not this program stumbles over what is not there.
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

/// The word at `address` of this process; `None`: it cannot be read.
pub fn peek(address: u64) -> io::Result<Option<u32>> {
    with_pipe(|read, write| {
        let mut word = 0u32;
        // SAFETY: the kernel checks the address; the word is this function's own.
        unsafe {
            if libc::write(write, address as usize as *const libc::c_void, 4) != 4 {
                return None;
            }
            let taken = libc::read(read, (&raw mut word).cast(), 4);
            (taken == 4).then_some(word)
        }
    })
}

/// Memory that this process has mapped somehow. Nothing in the program refers into it: it is only ever looked at by
/// [`peek`] and written by [`Area::poke`], so that it may be changed, moved and cut at will.
#[derive(Debug)]
pub struct Area {
    address: usize,
    bytes: usize,
    /// The driver has mapped it, and takes it away.
    is_drivers: bool,
}

/// Kinds of [`Area`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Not shared: copies of what is written to.
    pub private: bool,
    /// Not for writing.
    pub read_only: bool,
    /// All of it is to be there at once.
    pub populate: bool,
}

impl Kind {
    fn protection(self) -> i32 {
        match self.read_only {
            true => libc::PROT_READ,
            false => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

impl Area {
    /// Maps `bytes` of `file` at `offset`; without a file, memory of the process's own.
    pub fn map(file: Option<&dyn AsFd>, bytes: usize, offset: u64, kind: Kind) -> io::Result<Self> {
        let mut flags = match kind.private || file.is_none() {
            true => libc::MAP_PRIVATE,
            false => libc::MAP_SHARED,
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
        // SAFETY: the kernel chooses a free place; nothing that exists is replaced.
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

    /// Memory that a driver has mapped and named in an answer, or another area's.
    pub fn of_driver(address: u64, bytes: usize) -> io::Result<Self> {
        let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self {
            address,
            bytes,
            is_drivers: true,
        })
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at a byte offset; `None`: it cannot be read.
    pub fn peek(&self, offset: usize) -> io::Result<Option<u32>> {
        peek((self.address + offset) as u64)
    }

    /// Writes the word at a byte offset; says whether that could be done.
    pub fn poke(&self, offset: usize, word: u32) -> io::Result<bool> {
        if offset.checked_add(4).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        with_pipe(|read, write| {
            let place = (self.address + offset) as *mut libc::c_void;
            // SAFETY: inside the area, into which nothing of the program refers; the kernel checks the address.
            unsafe {
                if libc::write(write, (&raw const word).cast(), 4) != 4 {
                    return false;
                }
                if libc::read(read, place, 4) == 4 {
                    return true;
                }
                // It is still in the pipe.
                let mut rest = 0u32;
                libc::read(read, (&raw mut rest).cast(), 4);
                false
            }
        })
    }

    /// Changes what may be done with some of it.
    pub fn protect(&self, offset: usize, bytes: usize, kind: Kind) -> io::Result<()> {
        self.inside(offset, bytes)?;
        let place = (self.address + offset) as *mut libc::c_void;
        // SAFETY: inside the area, into which nothing of the program refers.
        match unsafe { libc::mprotect(place, bytes, kind.protection()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Moves it, or makes it longer or shorter.
    pub fn remap(&mut self, bytes: usize) -> io::Result<()> {
        let place = self.address as *mut libc::c_void;
        // SAFETY: all of the area, into which nothing of the program refers; the kernel chooses a free place.
        let start = unsafe { libc::mremap(place, self.bytes, bytes, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.address = start as usize;
        self.bytes = bytes;
        Ok(())
    }

    /// Moves it, with the size that it has.
    pub fn move_away(&mut self) -> io::Result<()> {
        let (from, to) = (
            self.address,
            Self::map(None, self.bytes, 0, Kind::default())?,
        );
        let places = [from, to.address].map(|at| at as *mut libc::c_void);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both areas are whole, and nothing of the program refers into them.
        let start = unsafe { libc::mremap(places[0], self.bytes, self.bytes, flags, places[1]) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.address = to.address;
        // What was there is gone.
        std::mem::forget(to);
        Ok(())
    }

    /// Unmaps some of it. What is gone must not be used any more: another mapping may come there.
    pub fn cut(mut self, offset: usize, bytes: usize) -> io::Result<Vec<Self>> {
        self.inside(offset, bytes)?;
        let place = (self.address + offset) as *mut libc::c_void;
        // SAFETY: inside the area, into which nothing of the program refers.
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
            // SAFETY: this value made the mapping, and nothing refers into it.
            unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
        }
    }
}

/// Unmaps a view that the driver has made, by munmap(2). Nothing of the program refers into it.
pub fn unmap_view(address: u64, bytes: usize) -> io::Result<()> {
    // SAFETY: as above, which the caller has seen to.
    match unsafe { libc::munmap(address as *mut libc::c_void, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// From now on SIGUSR1 does nothing but end what a thread waits for in the kernel.
pub fn interruptible() -> io::Result<()> {
    // SAFETY: zeros are an empty set of signals and no flags; the handler does nothing.
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

/// What [`on_signal`] is to do.
static HANDLER: OnceLock<fn()> = OnceLock::new();

extern "C" fn handle(_: libc::c_int) {
    if let Some(body) = HANDLER.get() {
        body();
    }
}

/// From now on the Unix signal `number` has the thread that gets it do `body`. `restarts`: then the kernel goes on with
/// what it has interrupted (`SA_RESTART`), else that fails with EINTR. All signals of a program have the first `body`.
pub fn on_signal(number: i32, restarts: bool, body: fn()) -> io::Result<()> {
    HANDLER.get_or_init(|| body);
    crate::sys::accept_signal(number)?;
    // SAFETY: zeros are an empty set of signals and no flags; the handler is this file's.
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

/// The calling thread's handlers run on `stack` from now on.
pub fn handle_on(stack: &'static mut [u8]) -> io::Result<()> {
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the memory is lent for the rest of the program's time.
    match unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread, for [`interrupt`].
pub fn thread() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::gettid() }
}

/// Sends SIGUSR1 to a thread of this process.
pub fn interrupt(thread: i32) -> io::Result<()> {
    interrupt_by(thread, libc::SIGUSR1)
}

/// The same by another signal.
pub fn interrupt_by(thread: i32, number: i32) -> io::Result<()> {
    // SAFETY: touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread runs on one processor only.
pub fn stay_on(processor: usize) -> io::Result<()> {
    // SAFETY: the set is this function's own.
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

/// The calling thread runs before others. For root alone.
pub fn urgent() -> io::Result<()> {
    // SAFETY: touches no memory. Of 0 it is the thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread runs only where no other wants to.
pub fn give_way() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has another process do `body` that shares this one's memory map and files; what it returned.
pub fn sharing_memory<F: FnOnce() -> i32>(body: F) -> io::Result<i32> {
    extern "C" fn run<F: FnOnce() -> i32>(place: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `sharing_memory` waits for the end of this, with the place.
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
    // SAFETY: this thread goes on when the other process has ended; until then nobody else has the stack and the
    // place.
    let process = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        libc::clone(run::<F>, top, flags, shared.cast())
    };
    if process < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the child is this process's own, and has ended.
    unsafe {
        libc::waitpid(process, std::ptr::null_mut(), 0);
        Ok((&raw const (*shared).1).read_volatile())
    }
}

/// A file that was opened by another process, which shares this one's memory map and files and has ended.
pub fn opened_by_another(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the path lives through the call.
    match sharing_memory(|| unsafe { libc::open(path.as_ptr(), libc::O_RDWR) })? {
        ..0 => Err(io::ErrorKind::NotFound.into()),
        // SAFETY: the descriptor is nobody else's, as the other's files are this process's.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// A copy of this process, which does something and ends.
#[derive(Debug)]
pub struct Copied {
    process: libc::pid_t,
}

/// Forks; the copy does `body`, ends with status 0 if that is true, else with 1, and is killed when the thread that
/// made it ends. For processes with one thread: others would not be in the copy, but what they hold would.
pub fn copied(body: impl FnOnce() -> bool) -> io::Result<Copied> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: with one thread the copy is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let body = std::panic::AssertUnwindSafe(body);
            let is_good = std::panic::catch_unwind(body).unwrap_or(false);
            // SAFETY: touches no memory; what the original does at its end is left to it.
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

    /// Kills it, and waits for its end, if that comes within a second. Says how it has ended: an exit status, or the
    /// Unix signal with the sign changed.
    pub fn end(&self) -> Option<i32> {
        // SAFETY: the child is this process's own and has not been waited for.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        self.wait(1000)
    }

    /// Waits for its end, so many milliseconds; as [`Copied::end`].
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
        // SAFETY: what is polled and the status are this function's own.
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
