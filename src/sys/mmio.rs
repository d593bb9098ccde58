// SPDX-License-Identifier: GPL-2.0-only

//! A core's registers. They stay mapped as long as they are referenced.
//!
//! `kernel::io::mem::IoMem` only lives while a driver is bound. An open file may live longer, so
//! this mapping is an object of its own. It has the same `Io` methods.

use super::physical::Claim;
use kernel::{
    bindings,
    device::Bound,
    io::{
        Mmio,
        MmioRaw, //
    },
    platform,
    prelude::*, //
};

#[cfg(gal_io_has_views)]
use kernel::io::{
    IoBase,
    MmioBackend,
    Region, //
};

#[cfg(not(gal_io_has_views))]
use kernel::io::{
    Io,
    IoCapable,
    IoKnownSize, //
};

#[cfg(gal_io_has_views)]
type Raw = MmioRaw<Region<MIN_SIZE>>;
#[cfg(not(gal_io_has_views))]
type Raw = MmioRaw<MIN_SIZE>;

/// The minimum size of a register block, in bytes: that of DRA7's node. It includes every register
/// of the 3D, 2D and host blocks that the kernel accesses.
pub(crate) const MIN_SIZE: usize = 0x700;

/// A mapped register block.
///
/// # Invariants
///
/// `io` is a live mapping of at least [`MIN_SIZE`] bytes from `ioremap`, which this value owns.
pub(crate) struct Registers {
    io: Raw,
}

impl Registers {
    /// Claims and maps block `index` of the registers of `pdev`. Drop the claim when the registers
    /// are no longer accessed. Then another driver may claim them, even while they are mapped here.
    ///
    /// `ENODEV`: there is no such block. `EBUSY`: another driver has it. `EINVAL`: its size is too
    /// small or not a multiple of 4.
    pub(crate) fn map(pdev: &platform::Device<Bound>, index: u32) -> Result<(Self, Claim)> {
        let resource = pdev.resource_by_index(index).ok_or(ENODEV)?;
        let (start, size) = (resource.start(), usize::try_from(resource.size())?);
        if size < MIN_SIZE {
            return Err(EINVAL);
        }
        let claim = Claim::new(start, size, c"galcore")?;
        // SAFETY: The claimed range is not empty.
        let address = unsafe { bindings::ioremap(start, size) };
        if address.is_null() {
            return Err(ENOMEM);
        }
        #[cfg(gal_io_has_views)]
        let io = Raw::new_region(address as usize, size);
        #[cfg(not(gal_io_has_views))]
        let io = Raw::new(address as usize, size);
        let io = io.inspect_err(|_| {
            // SAFETY: `address` came from `ioremap`, and nothing uses it after this drop.
            unsafe { bindings::iounmap(address) }
        })?;
        // INVARIANT: Mapped above, with at least `MIN_SIZE` bytes.
        Ok((Self { io }, claim))
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this value owns the mapping.
        unsafe { bindings::iounmap(self.io.addr() as *mut c_void) }
    }
}

#[cfg(gal_io_has_views)]
impl<'a> IoBase<'a> for &'a Registers {
    type Backend = MmioBackend;
    type Target = Region<MIN_SIZE>;

    #[inline]
    fn as_view(self) -> Mmio<'a, Self::Target> {
        // SAFETY: By the type invariant the mapping lives as long as `self`.
        unsafe { Mmio::from_raw(self.io) }
    }
}

#[cfg(not(gal_io_has_views))]
impl Registers {
    fn view(&self) -> &Mmio<MIN_SIZE> {
        // SAFETY: By the type invariant the mapping lives as long as `self`.
        unsafe { Mmio::from_raw(&self.io) }
    }
}

#[cfg(not(gal_io_has_views))]
impl Io for Registers {
    #[inline]
    fn addr(&self) -> usize {
        self.io.addr()
    }

    #[inline]
    fn maxsize(&self) -> usize {
        self.io.maxsize()
    }
}

#[cfg(not(gal_io_has_views))]
impl IoKnownSize for Registers {
    const MIN_SIZE: usize = MIN_SIZE;
}

#[cfg(not(gal_io_has_views))]
impl IoCapable<u32> for Registers {
    unsafe fn io_read(&self, address: usize) -> u32 {
        // SAFETY: By the caller the address is in the mapping.
        unsafe { self.view().io_read(address) }
    }

    unsafe fn io_write(&self, value: u32, address: usize) {
        // SAFETY: By the caller the address is in the mapping.
        unsafe { self.view().io_write(value, address) }
    }
}
