// SPDX-License-Identifier: GPL-2.0-only

//! The error type of the driver.
//!
//! A command that fails still returns 0 from `ioctl(2)`, and a number in the interface's `status`
//! field. Only a malformed envelope and an interrupted wait are an errno. Source of the numbers:
//! `gceSTATUS`, the same in every public generation.

use kernel::{
    alloc::AllocError,
    error::{
        code,
        Error as Errno, //
    },
    fmt,
};

/// Why a request failed. A word, because the compiler copies a [`Result`] with a byte bytewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Error {
    /// A value makes no sense, or the command does not exist.
    InvalidArgument,
    /// A handle names no object.
    InvalidObject,
    /// No memory of the wanted kind is left.
    OutOfMemory,
    /// The object is locked and the command needs it unlocked.
    MemoryLocked,
    /// The object is not locked and the command needs it locked.
    MemoryUnlocked,
    /// A file descriptor is of the wrong kind.
    GenericIo,
    /// An address is in no buffer of the caller.
    InvalidAddress,
    /// The driver or the generation does not support the command.
    NotSupported,
    /// A wait ended without its condition.
    Timeout,
    /// A limit was reached, or user memory cannot be read.
    OutOfResources,
    /// The data at a pointer is malformed.
    InvalidData,
    /// An id is unknown.
    NotFound,
    /// The object cannot be used in this way.
    InvalidRequest,
    /// The GPU made no progress for too long.
    GpuNotResponding,
    /// The core is not idle.
    ChipNotReady,
    /// A time difference does not fit its field.
    TimerOverflow,
    /// A Unix signal came before the call had any effect. The kernel always restarts it: the
    /// vendor's drivers do not wait there, and their libraries take `EINTR` for a failure.
    Interrupted,
    /// A Unix signal ended the client's wait. The kernel restarts the call if the handler allows
    /// that, else it is `EINTR`.
    WaitInterrupted,
    /// The ioctl itself is malformed: wrong code, wrong size, unreadable memory.
    Envelope,
}

impl Error {
    /// The value for the interface's `status` field (`gceSTATUS`).
    pub(crate) fn status(self) -> i32 {
        self.in_c().0
    }

    /// The value, and its name in the C headers without `gcvSTATUS_`.
    #[inline]
    fn in_c(self) -> (i32, &'static str) {
        match self {
            Error::InvalidArgument | Error::Envelope => (-1, "INVALID_ARGUMENT"),
            Error::InvalidObject => (-2, "INVALID_OBJECT"),
            Error::OutOfMemory => (-3, "OUT_OF_MEMORY"),
            Error::MemoryLocked => (-4, "MEMORY_LOCKED"),
            Error::MemoryUnlocked => (-5, "MEMORY_UNLOCKED"),
            Error::GenericIo => (-7, "GENERIC_IO"),
            Error::InvalidAddress => (-8, "INVALID_ADDRESS"),
            Error::NotSupported => (-13, "NOT_SUPPORTED"),
            Error::Timeout => (-15, "TIMEOUT"),
            Error::OutOfResources => (-16, "OUT_OF_RESOURCES"),
            Error::InvalidData => (-17, "INVALID_DATA"),
            Error::NotFound => (-19, "NOT_FOUND"),
            Error::InvalidRequest => (-21, "INVALID_REQUEST"),
            Error::GpuNotResponding => (-22, "GPU_NOT_RESPONDING"),
            Error::TimerOverflow => (-23, "TIMER_OVERFLOW"),
            // Not an error: the client must retry.
            Error::ChipNotReady => (11, "CHIP_NOT_READY"),
            Error::Interrupted | Error::WaitInterrupted => (-26, "INTERRUPTED"),
        }
    }

    /// The errno of `ioctl(2)`; `None`: the error is in `status`.
    pub(crate) fn errno(self) -> Option<Errno> {
        match self {
            Error::Envelope => Some(code::ENOTTY),
            Error::Interrupted => Some(code::ERESTARTNOINTR),
            Error::WaitInterrupted => Some(code::ERESTARTSYS),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, name) = self.in_c();
        write!(f, "gcvSTATUS_{name} ({status})")
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Error::OutOfMemory
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        if errno == code::ENOMEM {
            Error::OutOfMemory
        } else if errno == code::ERESTARTSYS {
            Error::Interrupted
        } else if errno == code::EFAULT || errno == code::EMFILE || errno == code::ENFILE {
            Error::OutOfResources
        } else if errno == code::ENOTSUPP {
            Error::NotSupported
        } else if errno == code::ETIMEDOUT {
            Error::Timeout
        } else {
            Error::InvalidArgument
        }
    }
}

/// Result of a command.
pub(crate) type Result<T = (), E = Error> = core::result::Result<T, E>;
