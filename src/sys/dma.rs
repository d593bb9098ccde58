// SPDX-License-Identifier: GPL-2.0-only

//! Physically contiguous, coherent memory for CPU and GPU.
//!
//! Unlike `kernel::dma::Coherent` it may outlive the binding of a device, and can be mapped into a
//! process.

use super::{
    physical::Part,
    platform::OwnDevice,
    prelude::*,
    raw_device,
    region::{
        Assigned,
        Region, //
    },
    shim,
    vma::NewArea, //
};
use core::ops::Range;
use kernel::{
    bindings,
    device,
    dma::{
        DmaAddress,
        DmaMask, //
    },
    io::PhysAddr, //
};

/// The least number of words to copy by a C function, which costs a call but moves several at once.
const MANY_WORDS: usize = 16;

/// Builder of the device that owns the memory of a GPU.
///
/// The driver makes this device and never binds it, so that memory stays valid while cores of the
/// GPU are bound and unbound.
pub(crate) struct Setup<'a> {
    core: &'a device::Device,
    region: Option<Assigned>,
    owner: OwnDevice,
}

impl<'a> Setup<'a> {
    /// A device `name` with the DMA setup of `core`. `ENODEV`: an IOMMU or a hypervisor translates
    /// its addresses.
    pub(crate) fn new(name: &'static CStr, core: &'a device::Device) -> Result<Self> {
        if is_translated(core) {
            return Err(ENODEV);
        }
        let owner = OwnDevice::without_resources(name)?;
        let dev = raw_device(owner.as_ref());
        // SAFETY: Both devices are valid, and nothing is mapped for ours yet. The GPU's MMU has no
        // segment limit.
        to_result(unsafe {
            shim::gal_allow_long_segments(dev);
            shim::gal_configure_dma(dev, raw_device(core))
        })?;
        if is_translated(owner.as_ref()) {
            return Err(ENODEV);
        }
        Ok(Self {
            core,
            region: None,
            owner,
        })
    }

    /// Sets the DMA masks for mapped pages and for coherent memory.
    pub(crate) fn set_masks(&mut self, pages: DmaMask, coherent: DmaMask) -> Result {
        let dev = raw_device(self.owner.as_ref());
        // SAFETY: The device is valid. No memory is allocated for it now, which takes a `Device`,
        // and there is none yet.
        unsafe {
            to_result(bindings::dma_set_mask(dev, pages.value()))?;
            to_result(bindings::dma_set_coherent_mask(dev, coherent.value()))
        }
    }

    /// Takes contiguous memory from the first reserved region of the core's node. `EBUSY`: already
    /// set. `EINVAL`: there is no reusable region.
    pub(crate) fn assign_region(&mut self) -> Result {
        if self.region.is_some() {
            return Err(EBUSY);
        }
        if !Region::of(self.core)?.is_some_and(|region| region.is_reusable) {
            return Err(EINVAL);
        }
        // SAFETY: No memory is allocated for our device, which takes a `Device`, and there is none
        // yet. All memory holds a `Device`, which holds the region.
        let region = unsafe { Assigned::new(self.owner.as_ref(), self.core)? };
        self.region = Some(region);
        Ok(())
    }

    /// Ends the setup: memory can be allocated from now on.
    pub(crate) fn finish(self) -> Result<Device> {
        let inner = Inner {
            _region: self.region,
            owner: self.owner,
        };
        // INVARIANT: `new` has checked that addresses are not translated.
        Ok(Device(Arc::new(inner, GFP_KERNEL)?))
    }
}

/// Whether an IOMMU or a hypervisor translates addresses of `dev`.
pub(crate) fn is_translated(dev: &device::Device) -> bool {
    // SAFETY: The reference guarantees a live device, which the call only reads.
    unsafe { shim::gal_is_translated(raw_device(dev)) }
}

struct Inner {
    /// Released before the device.
    _region: Option<Assigned>,
    owner: OwnDevice,
}

/// A device to allocate memory for. Each allocation holds a reference, so that the device and its
/// region outlive it.
///
/// # Invariants
///
/// The kernel's DMA interface does not translate for the device: an address of coherent memory is
/// its physical one, which `dma_to_phys` returns.
#[derive(Clone)]
pub(crate) struct Device(Arc<Inner>);

impl Device {
    /// Whether the device reaches all of this physical memory without a bounce buffer.
    pub(super) fn reaches(&self, range: &Range<u64>) -> bool {
        // CAST: physical addresses, which came from the kernel's type of them.
        let (start, bytes) = (range.start as PhysAddr, (range.end - range.start) as usize);
        // SAFETY: The device is valid; the call only computes.
        unsafe { shim::gal_reaches(raw_device(self), start, bytes) }
    }
}

impl core::ops::Deref for Device {
    type Target = device::Device;

    fn deref(&self) -> &device::Device {
        self.0.owner.as_ref()
    }
}

/// Coherent memory, write-combined for the CPU, zeroed when made.
///
/// # Invariants
///
/// `cpu`, `dma` and `physical` are the three addresses of one live allocation of `size` bytes,
/// whole pages, by `dma_alloc_attrs` for `dev`.
pub(crate) struct DmaBuffer {
    dev: Device,
    cpu: *mut u8,
    dma: DmaAddress,
    physical: PhysAddr,
    size: usize,
}

// SAFETY: The memory belongs to this value; all access is by volatile words.
unsafe impl Send for DmaBuffer {}
// SAFETY: As above; concurrent writers of one word leave one of the words.
unsafe impl Sync for DmaBuffer {}

impl DmaBuffer {
    const ATTRS: c_ulong = bindings::DMA_ATTR_WRITE_COMBINE as c_ulong;

    /// `__GFP_RETRY_MAYFAIL`: does not invoke the OOM killer.
    const NO_FORCE: bindings::gfp_t = 1 << bindings::___GFP_RETRY_MAYFAIL_BIT;

    /// Allocates `size` bytes, a multiple of the page size (else `EINVAL`), for `dev`. `ENOMEM`.
    pub(crate) fn new(dev: &Device, size: usize) -> Result<Self> {
        Self::allocate(dev, size, bindings::GFP_KERNEL)
    }

    /// As [`Self::new`], charged to the calling process if the memory is not from CMA.
    pub(crate) fn charged(dev: &Device, size: usize) -> Result<Self> {
        Self::allocate(dev, size, bindings::GFP_KERNEL_ACCOUNT)
    }

    fn allocate(dev: &Device, size: usize, flags: bindings::gfp_t) -> Result<Self> {
        if size == 0 || size % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let mut dma = 0;
        // SAFETY: `dev` is a valid device; the result is checked.
        let cpu = unsafe {
            bindings::dma_alloc_attrs(
                raw_device(dev),
                size,
                &mut dma,
                flags | Self::NO_FORCE | bindings::__GFP_NOWARN,
                Self::ATTRS,
            )
        };
        if cpu.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: The address is of this device, for which by its invariant the call returns the
        // physical address.
        let physical = unsafe { shim::gal_dma_to_phys(raw_device(dev), dma) };
        // INVARIANT: Allocated just now.
        Ok(Self {
            dev: dev.clone(),
            cpu: cpu.cast(),
            dma,
            physical,
            size,
        })
    }

    /// The address that the device uses.
    pub(crate) fn dma_address(&self) -> u64 {
        super::widen(self.dma)
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// `bytes` bytes at `offset`. `None`: outside the buffer, or not whole pages.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Option<Part<'_>> {
        // SAFETY: By the type invariant the memory is our own, until this is dropped.
        unsafe { Part::new(self.physical, self.size, offset, bytes) }
    }

    /// Writes one word at byte `offset`, a multiple of 4 inside the buffer; `EINVAL` otherwise.
    pub(crate) fn write(&self, offset: usize, word: u32) -> Result {
        if offset % 4 != 0 || offset >= self.size {
            return Err(EINVAL);
        }
        // SAFETY: Inside the allocation (its size is a multiple of 4) and aligned.
        unsafe { self.cpu.add(offset).cast::<u32>().write_volatile(word) };
        Ok(())
    }

    /// The word at byte `offset`, a multiple of 4 inside the buffer; `EINVAL` otherwise.
    pub(crate) fn read(&self, offset: usize) -> Result<u32> {
        if offset % 4 != 0 || offset >= self.size {
            return Err(EINVAL);
        }
        // SAFETY: Inside the allocation (its size is a multiple of 4) and aligned.
        Ok(unsafe { self.cpu.add(offset).cast::<u32>().read_volatile() })
    }

    /// Copies from byte `offset`, a multiple of 4, to `to`. `EINVAL`: not all of it is inside.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if to.len() > room {
            return Err(EINVAL);
        }
        for (at, bytes) in (offset..).step_by(4).zip(to.chunks_mut(4)) {
            let word = self.read(at)?.to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        Ok(())
    }

    /// Writes `words` from byte `offset`, a multiple of 4. `EINVAL`: they do not fit.
    pub(crate) fn write_words(&self, offset: usize, words: &[u32]) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if offset % 4 != 0 || core::mem::size_of_val(words) > room {
            return Err(EINVAL);
        }
        if words.len() >= MANY_WORDS {
            let bytes = core::mem::size_of_val(words);
            // SAFETY: Inside the allocation, checked above, of which no slice is. C does it, as
            // `zero`.
            unsafe {
                let to = self.cpu.add(offset).cast();
                shim::gal_copy_to_memory(to, words.as_ptr().cast(), bytes)
            };
            return Ok(());
        }
        for (i, &word) in words.iter().enumerate() {
            // SAFETY: Inside the allocation and aligned, checked above.
            unsafe {
                self.cpu
                    .add(offset)
                    .cast::<u32>()
                    .add(i)
                    .write_volatile(word)
            };
        }
        Ok(())
    }

    /// Writes `words` from byte `offset`, a multiple of 4 inside the buffer, else `EINVAL`. Ignores
    /// those that do not fit.
    #[inline]
    pub(crate) fn write_each(&self, offset: usize, words: impl Iterator<Item = u32>) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        for (i, word) in (0..room / 4).zip(words) {
            // SAFETY: Inside the allocation, as there is room for `i + 1` words, and aligned.
            unsafe {
                self.cpu
                    .add(offset)
                    .cast::<u32>()
                    .add(i)
                    .write_volatile(word)
            };
        }
        Ok(())
    }

    /// Fills the buffer with `word`.
    pub(crate) fn fill(&self, word: u32) {
        for i in 0..self.size / 4 {
            // SAFETY: `i` counts whole words of the allocation, so the write is inside it and
            // aligned.
            unsafe { self.cpu.cast::<u32>().add(i).write_volatile(word) };
        }
    }

    /// Fills `size` bytes from `offset` with `byte`; `EINVAL` outside the buffer.
    pub(crate) fn fill_bytes(&self, offset: usize, size: usize, byte: u8) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if size > room {
            return Err(EINVAL);
        }
        // SAFETY: Inside the allocation. Done in C, as in Rust it would be a data race: users, the
        // GPU and other callers may write it at the same time. Then either's bytes stay.
        unsafe { shim::gal_fill_memory(self.cpu.add(offset).cast(), size, byte) };
        Ok(())
    }

    /// Maps the buffer's start into the area. `EINVAL`: the area is longer.
    ///
    /// # Safety
    ///
    /// As for [`super::vma::Memory::map_into`].
    pub(super) unsafe fn mmap(&self, area: &NewArea<'_>) -> Result {
        if area.bytes() > self.size {
            return Err(EINVAL);
        }
        // SAFETY: By its invariant the area is being set up, and is empty; the buffer is not
        // shorter, and by the caller's contract lives as long.
        to_result(unsafe {
            shim::gal_mmap_dma(
                area.as_ptr(),
                raw_device(&self.dev),
                self.cpu.cast(),
                self.dma,
                self.size,
                Self::ATTRS,
            )
        })
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the memory is ours, and only this drop frees it.
        unsafe {
            bindings::dma_free_attrs(
                raw_device(&self.dev),
                self.size,
                self.cpu.cast(),
                self.dma,
                Self::ATTRS,
            )
        }
    }
}
