// SPDX-License-Identifier: GPL-2.0-only

//! Physically contiguous memory that CPU and GPU both see, without cache maintenance.
//!
//! `kernel::dma::Coherent` needs a bound device and cannot be mapped into a process; this one may
//! outlive the binding and can.

use super::{
    raw_device,
    shim, //
};
use kernel::{
    bindings,
    device::{
        self,
        Core, //
    },
    dma::{
        Device as _,
        DmaAddress,
        DmaMask, //
    },
    error::to_result,
    mm::virt::VmaNew,
    platform,
    prelude::*,
    sync::aref::ARef, //
};

/// Sets which addresses `pdev` reaches: of mapped pages, and of coherent memory. To be called from
/// probe, before any allocation.
pub(crate) fn set_masks(
    pdev: &platform::Device<Core<'_>>,
    pages: DmaMask,
    coherent: DmaMask,
) -> Result {
    super::dma_buf::allow_long_segments(pdev.as_ref());
    // SAFETY: In probe nobody else allocates for the device.
    unsafe {
        pdev.dma_set_mask(pages)?;
        pdev.dma_set_coherent_mask(coherent)
    }
}

/// Coherent memory, write-combined for the CPU, zeroed when made.
///
/// # Invariants
///
/// `cpu` and `dma` are the two addresses of one live allocation of `size` bytes by
/// `dma_alloc_attrs` for `dev`, aligned to a page.
pub(crate) struct DmaBuffer {
    dev: ARef<device::Device>,
    cpu: *mut u8,
    dma: DmaAddress,
    size: usize,
}

// SAFETY: The memory belongs to this value; all access is by volatile words.
unsafe impl Send for DmaBuffer {}
// SAFETY: As above; concurrent writers of one word leave one of the words.
unsafe impl Sync for DmaBuffer {}

impl DmaBuffer {
    const ATTRS: c_ulong = bindings::DMA_ATTR_WRITE_COMBINE as c_ulong;

    /// Allocates `size` bytes, a multiple of the page size, for `dev`.
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let mut dma = 0;
        // SAFETY: `dev` is a valid device; the result is checked.
        let cpu = unsafe {
            bindings::dma_alloc_attrs(
                raw_device(dev),
                size,
                &mut dma,
                bindings::GFP_KERNEL | bindings::__GFP_NOWARN,
                Self::ATTRS,
            )
        };
        if cpu.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Allocated just now.
        Ok(Self {
            dev: dev.into(),
            cpu: cpu.cast(),
            dma,
            size,
        })
    }

    /// The address that the device uses.
    pub(crate) fn dma_address(&self) -> u64 {
        super::widen(self.dma)
    }

    /// The physical address.
    pub(crate) fn physical(&self) -> u64 {
        // SAFETY: Our own allocation for this device.
        super::widen(unsafe { shim::gal_dma_to_phys(raw_device(&self.dev), self.dma) })
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
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

    /// Writes `words` from byte `offset`, a multiple of 4; `EINVAL` when they do not fit.
    pub(crate) fn write_words(&self, offset: usize, words: &[u32]) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if offset % 4 != 0 || core::mem::size_of_val(words) > room {
            return Err(EINVAL);
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

    /// Fills the buffer with `word`.
    pub(crate) fn fill(&self, word: u32) {
        for i in 0..self.size / 4 {
            // SAFETY: Inside the allocation and aligned.
            unsafe { self.cpu.cast::<u32>().add(i).write_volatile(word) };
        }
    }

    /// Fills `size` bytes from `offset`, multiples of 4, with zeros; `EINVAL` outside the buffer.
    pub(crate) fn zero(&self, offset: usize, size: usize) -> Result {
        let room = self.size.checked_sub(offset).ok_or(EINVAL)?;
        if size > room {
            return Err(EINVAL);
        }
        // SAFETY: Inside the allocation. Users and the GPU may write it at the same time; then
        // either's bytes stay.
        unsafe { self.cpu.add(offset).write_bytes(0, size) };
        Ok(())
    }

    /// Maps the buffer's start into the area, which must not be longer. The area does not keep the
    /// buffer alive: see `vma::map`.
    pub(super) fn mmap(&self, area: &VmaNew) -> Result {
        if area.end() - area.start() > self.size {
            return Err(EINVAL);
        }
        // SAFETY: `area` is being set up by our mmap handler, the buffer is live, sizes agree.
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
        // SAFETY: By the type invariant; nobody else frees it.
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
