// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory and register ranges, by address.

use super::shim;
use kernel::{
    error::to_result,
    io::PhysAddr,
    prelude::*, //
};

/// A range of physical addresses that is claimed in `/proc/iomem`.
///
/// # Invariants
///
/// The range was requested and is released once, by `Drop`.
pub(crate) struct Claim {
    start: PhysAddr,
    size: usize,
}

impl Claim {
    /// Claims `size` bytes at `start` under `name`. `EBUSY` when another driver has any of them.
    pub(crate) fn new(start: PhysAddr, size: usize, name: &'static CStr) -> Result<Self> {
        // SAFETY: Any range may be asked for; the name is static.
        if unsafe { shim::gal_request_memory(start, size, name.as_char_ptr()) } {
            // INVARIANT: Requested just now.
            Ok(Self { start, size })
        } else {
            Err(EBUSY)
        }
    }

    /// First physical address.
    pub(crate) fn start(&self) -> PhysAddr {
        self.start
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the range is requested.
        unsafe { shim::gal_release_memory(self.start, self.size) }
    }
}

/// Whether any of the range is memory that the kernel hands out.
pub(crate) fn is_system_ram(start: PhysAddr, size: usize) -> bool {
    // SAFETY: Only looks the range up.
    unsafe { shim::gal_is_system_ram(start, size) }
}

/// Memory outside the kernel's, owned by this driver.
///
/// # Invariants
///
/// The range is claimed and no part of it is system RAM.
pub(crate) struct Reserved(Claim);

impl Reserved {
    /// Takes `size` bytes at `start`.
    ///
    /// `EEXIST` when the kernel uses any of them as its own memory, `EBUSY` when another driver has
    /// them.
    pub(crate) fn new(start: PhysAddr, size: usize) -> Result<Self> {
        if is_system_ram(start, size) {
            return Err(EEXIST);
        }
        // INVARIANT: Checked and claimed.
        Ok(Self(Claim::new(start, size, c"galcore pool")?))
    }

    /// First physical address.
    pub(crate) fn start(&self) -> PhysAddr {
        self.0.start()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.size()
    }

    /// Writes one word at byte `offset`, a multiple of 4 inside the memory; `EINVAL` otherwise.
    pub(crate) fn write(&self, offset: usize, word: u32) -> Result {
        if offset % 4 != 0 || offset >= self.size() {
            return Err(EINVAL);
        }
        let at = self.start() + PhysAddr::try_from(offset)?;
        // SAFETY: By the type invariant the memory is ours alone, and the word is inside.
        to_result(unsafe { shim::gal_write_physical(at, word) })
    }

    /// Fills `size` bytes from `offset` with zeros. `EINVAL` outside the memory, `ENOMEM` when no
    /// mapping can be made. May sleep.
    pub(crate) fn zero(&self, offset: usize, size: usize) -> Result {
        match offset.checked_add(size) {
            Some(end) if end <= self.size() => {}
            _ => return Err(EINVAL),
        }
        let start = self.start() + PhysAddr::try_from(offset)?;
        // SAFETY: By the type invariant the memory is ours alone, and the range is inside.
        to_result(unsafe { shim::gal_zero_physical(start, size) })
    }
}
