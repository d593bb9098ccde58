// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory and register ranges, by address, and a core's registers. They stay mapped as
//! long as they are referenced.
//!
//! `kernel::io::mem::IoMem` only lives while a driver is bound. An open file may live longer, so
//! this mapping is an object of its own. It has the same `Io` methods.

use super::{
    platform::{
        lies_in,
        name_memory, //
    },
    prelude::*,
    shim,
    tree,
    widen, //
};
use core::ptr::null_mut;
use kernel::{
    bindings,
    device::{
        self,
        Bound, //
    },
    io::{
        Mmio,
        MmioRaw,
        PhysAddr, //
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

/// A part of contiguous memory, borrowed from its owner for `'a`.
///
/// # Invariants
///
/// The `bytes` bytes at `start` are whole pages. Only the owner uses them during `'a`. No Rust
/// reference to them exists.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    start: PhysAddr,
    bytes: usize,
    _lender: PhantomData<&'a ()>,
}

impl<'a> Part<'a> {
    /// The `bytes` bytes at `offset` of the `size` bytes at `start`. `None`: they are outside, or
    /// not whole pages.
    ///
    /// # Safety
    ///
    /// The `size` bytes at `start` satisfy the invariants.
    pub(super) unsafe fn new(
        start: PhysAddr,
        size: usize,
        offset: usize,
        bytes: usize,
    ) -> Option<Self> {
        let end = offset.checked_add(bytes).filter(|&end| end <= size)?;
        let first = start.checked_add(PhysAddr::try_from(offset).ok()?)?;
        // CAST: only the bits below a page count.
        let is_whole = bytes > 0 && (first as usize | end | offset) % PAGE_SIZE == 0;
        // INVARIANT: Checked, and by the caller.
        is_whole.then_some(Self {
            start: first,
            bytes,
            _lender: PhantomData,
        })
    }

    /// The physical address.
    pub(super) fn start(&self) -> PhysAddr {
        self.start
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A range of physical addresses that is claimed in `/proc/iomem`.
///
/// # Invariants
///
/// The range was requested, and only `Drop` releases it.
pub(crate) struct Claim {
    start: PhysAddr,
    size: usize,
}

impl Claim {
    /// Claims `size` bytes at `start` under `name`. `EBUSY`: another driver has any of them.
    pub(crate) fn new(start: PhysAddr, size: usize, name: &'static CStr) -> Result<Self> {
        // CAST: a physical address has at least as many bits as a virtual one.
        let bytes = size as PhysAddr;
        // SAFETY: Any range may be requested. The name is static.
        let found = unsafe { bindings::request_mem_region(start, bytes, name.as_char_ptr()) };
        if found.is_null() {
            return Err(EBUSY);
        }
        // INVARIANT: Requested just now.
        Ok(Self { start, size })
    }

    /// First physical address.
    pub(crate) fn start(&self) -> PhysAddr {
        self.start
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // CAST: as in `new`.
        // SAFETY: By the type invariant the range is requested.
        unsafe { bindings::release_mem_region(self.start, self.size as PhysAddr) }
    }
}

/// Whether any part of the range is system RAM.
pub(crate) fn is_system_ram(start: PhysAddr, size: usize) -> bool {
    // SAFETY: The call looks up the range in the tree of resources. It accepts any numbers.
    unsafe { shim::gal_is_system_ram(start, size) }
}

/// The declaration of memory that the kernel does not manage. The driver can check that the range
/// is neither another driver's nor system RAM. Only the machine's owner knows that it is memory,
/// and that nothing unknown to the kernel uses it.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The parameters `contiguousBase` and `contiguousSize`.
    Parameters,
    /// The first memory region of this device's node.
    Node(&'a device::Device),
}

impl Source<'_> {
    fn names(self, start: u64, size: usize) -> bool {
        match self {
            Source::Parameters => name_memory(start, size),
            Source::Node(dev) => match tree::Region::of(dev) {
                Ok(Some(region)) => lies_in(start, size, region.start, region.bytes),
                _ => false,
            },
        }
    }
}

/// Memory that the kernel does not manage, owned by this driver.
///
/// # Invariants
///
/// The range is claimed, in whole pages, and no part of it is system RAM.
pub(crate) struct Reserved(Claim);

impl Reserved {
    /// Claims the `size` bytes at `start`, which `source` must declare.
    ///
    /// `EEXIST`: some are system RAM. `EBUSY`: another driver has some. `EINVAL`: they are not
    /// whole pages, or `source` does not declare them.
    pub(crate) fn new(start: PhysAddr, size: usize, source: Source<'_>) -> Result<Self> {
        // CAST: only the bits below a page count.
        if (start as usize | size) % PAGE_SIZE != 0 || !source.names(widen(start), size) {
            return Err(EINVAL);
        }
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

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.size()
    }

    /// The `bytes` bytes at `offset`. `None`: they are outside of the memory, or not whole pages.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Option<Part<'_>> {
        // SAFETY: By the type invariant only this owns the memory, until it is dropped.
        unsafe { Part::new(self.start(), self.size(), offset, bytes) }
    }

    /// The address of the `bytes` bytes at `offset`. `EINVAL`: they are outside of the memory.
    fn at(&self, offset: usize, bytes: usize) -> Result<PhysAddr> {
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        if end > self.size() {
            return Err(EINVAL);
        }
        Ok(self.start() + PhysAddr::try_from(offset)?)
    }

    /// The address of the word at byte `offset`. `EINVAL`: not a multiple of 4 inside the memory.
    fn word(&self, offset: usize) -> Result<PhysAddr> {
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        self.at(offset, 4)
    }

    /// Writes one word at byte `offset`. `EINVAL`: not a multiple of 4 inside the memory.
    pub(crate) fn write(&self, offset: usize, word: u32) -> Result {
        let at = self.word(offset)?;
        // SAFETY: By the type invariant only this owns the memory, and the word is inside.
        to_result(unsafe { shim::gal_write_physical(at, word) })
    }

    /// Reads the word at byte `offset`. `EINVAL`: not a multiple of 4 inside the memory. `ENOMEM`:
    /// it cannot be mapped. May sleep.
    pub(crate) fn read(&self, offset: usize) -> Result<u32> {
        let at = self.word(offset)?;
        let mut word = 0;
        // SAFETY: By the type invariant only this owns the memory, and the word is inside.
        to_result(unsafe { shim::gal_read_physical(at, &mut word) })?;
        Ok(word)
    }

    /// Copies from `offset` to `to`. `EINVAL`: outside. `ENOMEM`: it cannot be mapped. May sleep.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        let start = self.at(offset, to.len())?;
        // SAFETY: By the type invariant only this owns the memory. The range is inside. `to` has
        // room for it.
        to_result(unsafe { shim::gal_use_physical(start, to.len(), to.as_mut_ptr().cast(), 0) })
    }

    /// Fills `size` bytes from `offset` with `byte`. `EINVAL`: outside of the memory. `ENOMEM`: it
    /// cannot be mapped. May sleep.
    pub(crate) fn fill_bytes(&self, offset: usize, size: usize, byte: u8) -> Result {
        let start = self.at(offset, size)?;
        // SAFETY: By the type invariant only this owns the memory, and the range is inside.
        to_result(unsafe { shim::gal_use_physical(start, size, null_mut(), byte) })
    }
}

#[kunit_tests(galcore_physical)]
mod tests {
    use super::*;

    const PAGE: usize = PAGE_SIZE;

    fn part(start: usize, size: usize, offset: usize, bytes: usize) -> Option<(usize, usize)> {
        // SAFETY: The result is only used for its numbers.
        let part = unsafe { Part::new(start as PhysAddr, size, offset, bytes) }?;
        Some((part.start() as usize, part.bytes()))
    }

    #[test]
    fn a_part_lies_inside() {
        assert_eq!(part(PAGE, 3 * PAGE, 0, 3 * PAGE), Some((PAGE, 3 * PAGE)));
        assert_eq!(part(PAGE, 3 * PAGE, 2 * PAGE, PAGE), Some((3 * PAGE, PAGE)));
        for (offset, bytes) in [
            (0, 4 * PAGE),
            (2 * PAGE, 2 * PAGE),
            (3 * PAGE, PAGE),
            (usize::MAX - PAGE + 1, PAGE),
            (usize::MAX - PAGE + 1, 2 * PAGE),
            (PAGE, usize::MAX - PAGE + 1),
        ] {
            assert_eq!(part(PAGE, 3 * PAGE, offset, bytes), None);
        }
    }

    #[test]
    fn a_part_is_of_whole_pages() {
        for (start, offset, bytes) in [(4, 0, PAGE), (0, 4, PAGE), (0, 0, 4), (0, 0, 0)] {
            assert_eq!(part(start, 3 * PAGE, offset, bytes), None);
        }
        // An unaligned start and an unaligned offset do not make up for each other.
        assert_eq!(part(PAGE - 4, 3 * PAGE, 4, PAGE), None);
    }
}
