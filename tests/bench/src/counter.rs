// SPDX-License-Identifier: GPL-2.0-only
//! The processor's count of retired instructions, user space and kernel together. The only file with `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::FromRawFd;

/// `PERF_TYPE_RAW`: the event's number is the processor's own.
const TYPE_RAW: u64 = 4;
/// INST_RETIRED of ARMv7's performance monitors: instruction architecturally executed. QEMU has it with `-icount`.
const INST_RETIRED: u64 = 0x08;
/// Bytes of `struct perf_event_attr` as far as it is filled in here (`PERF_ATTR_SIZE_VER5`).
const ATTRIBUTES: usize = 112;
/// In the flags: always on the counter, or an error; never taken in turns with others.
const PINNED: u64 = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The counter of processor 0.
#[derive(Debug)]
pub struct Counter {
    file: File,
}

impl Counter {
    /// A counter that counts; none where it stands still, as in QEMU without `-icount`.
    pub fn running() -> io::Result<Option<Self>> {
        let mut counter = Self::retired_instructions()?;
        let moves = counter.read()? < counter.read()?;
        Ok(moves.then_some(counter))
    }

    /// Starts to count, whatever runs there. ENOENT where the processor has no such event.
    fn retired_instructions() -> io::Result<Self> {
        let mut attributes = [0_u64; ATTRIBUTES / 8];
        attributes[0] = TYPE_RAW | (ATTRIBUTES as u64) << 32;
        attributes[1] = INST_RETIRED;
        attributes[5] = PINNED;
        let every_process: libc::pid_t = -1;
        let processor: libc::c_int = 0;
        let no_group: libc::c_int = -1;
        // SAFETY: the attributes live through the call and are as long as they say.
        let file = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                every_process,
                processor,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call made this descriptor, and it is nobody else's. Descriptors fit an int.
        let file = unsafe { File::from_raw_fd(file as libc::c_int) };
        Ok(Self { file })
    }

    /// Instructions until now, this call's own among them.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut value = [0; 8];
        match self.file.read(&mut value)? {
            8 => Ok(u64::from_ne_bytes(value)),
            // A pinned event that lost its counter reads as nothing.
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The cheapest system call, always made.
pub fn parent() -> libc::pid_t {
    // SAFETY: touches no memory.
    unsafe { libc::getppid() }
}
