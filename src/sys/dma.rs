// SPDX-License-Identifier: GPL-2.0-only

//! Physically contiguous, coherent memory that CPU and GPU share.
//!
//! Unlike `kernel::dma::Coherent` it may exist when no device is bound, and can be mapped into a
//! process.

use super::{
    mmio::Part,
    platform::OwnDevice,
    prelude::*,
    raw_device,
    shim,
    tree::{
        Assigned,
        Region, //
    },
    vma::{
        Memory,
        NewArea, //
    }, //
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

/// A C function copies at least this many words: it costs a call, but moves several words at once.
const MANY_WORDS: usize = 16;

/// Builds the device that owns the memory of a GPU.
///
/// The driver creates this device and never binds it. So memory stays valid while cores of the GPU
/// are bound and unbound.
pub(crate) struct Setup<'a> {
    core: &'a device::Device,
    region: Option<Assigned>,
    owner: OwnDevice,
}

impl<'a> Setup<'a> {
    /// Creates device `name`, with the DMA setup of `core`. `ENODEV`: an IOMMU or a hypervisor
    /// translates its addresses.
    pub(crate) fn new(name: &'static CStr, core: &'a device::Device) -> Result<Self> {
        if is_translated(core) {
            return Err(ENODEV);
        }
        let owner = OwnDevice::without_resources(name)?;
        let dev = raw_device(owner.as_ref());
        // SAFETY: Both devices are valid, and nothing is mapped for the new one yet. The GPU's MMU
        // does not limit segments.
        to_result(unsafe {
            bindings::dma_set_max_seg_size(dev, u32::MAX);
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

    /// Sets the DMA masks for streaming mappings and for coherent memory.
    pub(crate) fn set_masks(&mut self, pages: DmaMask, coherent: DmaMask) -> Result {
        let dev = raw_device(self.owner.as_ref());
        // SAFETY: The device is valid. No memory is allocated for it: that requires a `Device`, and
        // there is none yet.
        unsafe {
            to_result(bindings::dma_set_mask(dev, pages.value()))?;
            to_result(bindings::dma_set_coherent_mask(dev, coherent.value()))
        }
    }

    /// Makes the first reserved region of the core's node the source of contiguous memory. `EBUSY`:
    /// already done. `EINVAL`: that region does not exist, or is not reusable.
    pub(crate) fn assign_region(&mut self) -> Result {
        if self.region.is_some() {
            return Err(EBUSY);
        }
        if !Region::of(self.core)?.is_some_and(|region| region.is_reusable) {
            return Err(EINVAL);
        }
        // SAFETY: No memory is allocated for our device: that requires a `Device`, and there is
        // none yet. All memory keeps a `Device`, which keeps the region.
        let region = unsafe { Assigned::new(self.owner.as_ref(), self.core)? };
        self.region = Some(region);
        Ok(())
    }

    /// Ends the setup. From now on memory can be allocated.
    pub(crate) fn finish(self) -> Result<Device> {
        let inner = Inner {
            _region: self.region,
            owner: self.owner,
        };
        // INVARIANT: `new` has checked that addresses are not translated.
        Ok(Device(Arc::new(inner, GFP_KERNEL)?))
    }
}

/// Whether an IOMMU or a hypervisor translates the addresses of `dev`.
pub(crate) fn is_translated(dev: &device::Device) -> bool {
    // SAFETY: The reference guarantees a live device, which the call only reads.
    unsafe { shim::gal_is_translated(raw_device(dev)) }
}

struct Inner {
    /// Dropped before the device.
    _region: Option<Assigned>,
    owner: OwnDevice,
}

/// A device for which memory is allocated. Each allocation holds a reference, so the device and its
/// region outlive the allocation.
///
/// # Invariants
///
/// The device's DMA addresses are not translated: `dma_to_phys` returns the physical address of
/// coherent memory.
#[derive(Clone)]
pub(crate) struct Device(Arc<Inner>);

impl Device {
    /// Whether the device reaches the whole physical `range` without a bounce buffer.
    pub(super) fn reaches(&self, range: &Range<u64>) -> bool {
        // CAST: physical addresses, converted from the kernel's type for them.
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

/// Coherent memory. It is write-combined for the CPU, and zeroed at allocation.
///
/// # Invariants
///
/// `cpu`, `dma` and `physical` are the addresses of one live allocation by `dma_alloc_attrs` for
/// `dev`. It has `size` bytes, in whole pages.
pub(crate) struct DmaBuffer {
    dev: Device,
    cpu: *mut u8,
    dma: DmaAddress,
    physical: PhysAddr,
    size: usize,
}

// SAFETY: The memory belongs to this value; all access is by volatile words.
unsafe impl Send for DmaBuffer {}
// SAFETY: As above. If several threads write one word, the word of one of them stays.
unsafe impl Sync for DmaBuffer {}

impl DmaBuffer {
    const ATTRS: c_ulong = bindings::DMA_ATTR_WRITE_COMBINE as c_ulong;

    /// `__GFP_RETRY_MAYFAIL`: does not invoke the OOM killer.
    const NO_FORCE: bindings::gfp_t = 1 << bindings::___GFP_RETRY_MAYFAIL_BIT;

    /// Allocates `size` bytes for `dev`. `EINVAL`: not a multiple of the page size. `ENOMEM`.
    pub(crate) fn new(dev: &Device, size: usize) -> Result<Self> {
        Self::allocate(dev, size, bindings::GFP_KERNEL)
    }

    /// As [`Self::new`], but charged to the calling process, unless the memory is from CMA.
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
        // SAFETY: The address is of this device. By the device's invariant the call returns the
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

    /// `bytes` bytes at `offset`. `None`: outside of the buffer, or not whole pages.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Option<Part<'_>> {
        // SAFETY: By the type invariant the memory is ours until this is dropped.
        unsafe { Part::new(self.physical, self.size, offset, bytes) }
    }

    /// The word at byte `offset`, inside the allocation and aligned. `EINVAL`: not a multiple of 4,
    /// or outside of the buffer.
    fn word(&self, offset: usize) -> Result<*mut u32> {
        if offset % 4 != 0 || offset >= self.size {
            return Err(EINVAL);
        }
        Ok(self.cpu.wrapping_add(offset).cast())
    }

    /// Writes one word at byte `offset`. `EINVAL`: not a multiple of 4, or outside of the buffer.
    pub(crate) fn write(&self, offset: usize, word: u32) -> Result {
        // SAFETY: The word is inside the allocation, whose size is a multiple of 4.
        unsafe { self.word(offset)?.write_volatile(word) };
        Ok(())
    }

    /// The word at byte `offset`. `EINVAL`: not a multiple of 4, or outside of the buffer.
    pub(crate) fn read(&self, offset: usize) -> Result<u32> {
        // SAFETY: The word is inside the allocation, whose size is a multiple of 4.
        Ok(unsafe { self.word(offset)?.read_volatile() })
    }

    /// Copies from byte `offset` to `to`. `EINVAL`: not a multiple of 4, or not all in the buffer.
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

    /// Writes `words` from byte `offset` on. `EINVAL`: not a multiple of 4, or they do not fit.
    pub(crate) fn write_words(&self, offset: usize, words: &[u32]) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if offset % 4 != 0 || core::mem::size_of_val(words) > room {
            return Err(EINVAL);
        }
        if words.len() >= MANY_WORDS {
            let bytes = core::mem::size_of_val(words);
            // SAFETY: Inside the allocation, as checked above, of which there is no slice. In C as
            // in `fill_bytes`.
            unsafe {
                let to = self.cpu.add(offset).cast();
                shim::gal_copy_to_memory(to, words.as_ptr().cast(), bytes)
            };
            return Ok(());
        }
        self.write_each(offset, words.iter().copied())
    }

    /// Writes `words` from byte `offset` on, and ignores those that do not fit. `EINVAL`: no
    /// multiple of 4, or outside of the buffer.
    #[inline]
    pub(crate) fn write_each(&self, offset: usize, words: impl Iterator<Item = u32>) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        for (i, word) in (0..room / 4).zip(words) {
            // SAFETY: Aligned, and inside the allocation, because there is room for `i + 1` words.
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
        // It fits.
        let _ = self.write_each(0, core::iter::repeat(word));
    }

    /// Fills `size` bytes from `offset` on with `byte`. `EINVAL`: not all are in the buffer.
    pub(crate) fn fill_bytes(&self, offset: usize, size: usize, byte: u8) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if size > room {
            return Err(EINVAL);
        }
        // SAFETY: Inside the allocation. In C, because it would be a data race in Rust: users, the
        // GPU and other callers may write at the same time. Then the bytes of one of them stay.
        unsafe { shim::gal_fill_memory(self.cpu.add(offset).cast(), size, byte) };
        Ok(())
    }
}

impl Memory for DmaBuffer {
    /// `EINVAL`: the area is longer than the buffer.
    unsafe fn map_into(&self, area: &NewArea<'_>, _: bool) -> Result {
        if area.bytes() > self.size {
            return Err(EINVAL);
        }
        // SAFETY: By its invariant the area is being set up, and is empty. The buffer is not
        // shorter, and by the caller's contract exists as long.
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
