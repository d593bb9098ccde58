// SPDX-License-Identifier: GPL-2.0-only
//! The processor's count of retired instructions, in user space and kernel. This is the only file with `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::FromRawFd;

/// `PERF_TYPE_RAW`: an event number of the processor.
const TYPE_RAW: u64 = 4;
/// INST_RETIRED of ARMv7's performance monitors: instruction architecturally executed. QEMU supports it with
/// `-icount`.
const INST_RETIRED: u64 = 0x08;
/// Bytes of `struct perf_event_attr` up to the last field used here (`PERF_ATTR_SIZE_VER5`).
const ATTRIBUTES: usize = 112;
/// Flag: the event is always on a counter, or fails; the kernel does not multiplex it.
const PINNED: u64 = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The counter of processor 0.
#[derive(Debug)]
pub struct Counter {
    file: File,
}

impl Counter {
    /// A running counter. `None` if it does not advance, as in QEMU without `-icount`.
    pub fn running() -> io::Result<Option<Self>> {
        let mut counter = Self::retired_instructions()?;
        let moves = counter.read()? < counter.read()?;
        Ok(moves.then_some(counter))
    }

    /// Starts counting everything that runs on the processor. ENOENT if the processor has no such event.
    fn retired_instructions() -> io::Result<Self> {
        let mut attributes = [0_u64; ATTRIBUTES / 8];
        attributes[0] = TYPE_RAW | (ATTRIBUTES as u64) << 32;
        attributes[1] = INST_RETIRED;
        attributes[5] = PINNED;
        let every_process: libc::pid_t = -1;
        let processor: libc::c_int = 0;
        let no_group: libc::c_int = -1;
        // SAFETY: the attributes live through the call and have the stated size.
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
        // SAFETY: the call created this descriptor, which has no other owner. Descriptors fit an int.
        let file = unsafe { File::from_raw_fd(file as libc::c_int) };
        Ok(Self { file })
    }

    /// Instructions so far, including those of this call.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut value = [0; 8];
        match self.file.read(&mut value)? {
            8 => Ok(u64::from_ne_bytes(value)),
            // A pinned event that lost its counter reads as end of file.
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The cheapest system call; the C library does not cache it.
pub fn parent() -> libc::pid_t {
    // SAFETY: this call accesses no memory.
    unsafe { libc::getppid() }
}
