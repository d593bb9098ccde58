// SPDX-License-Identifier: GPL-2.0-only

//! Physically contiguous memory that CPU and GPU both see, without cache maintenance.
//!
//! `kernel::dma::Coherent` needs a bound device and cannot be mapped into a process; this one may
//! outlive the binding and can.

use super::{
    physical::Part,
    raw_device,
    region::Assigned,
    shim,
    vma::NewArea, //
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
    io::PhysAddr,
    page::PAGE_SIZE,
    platform,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
};

/// The most devices that memory is got for at a time.
const MAX_DEVICES: usize = 16;

/// The addresses of those devices; 0: free.
static DEVICES: [Atomic<usize>; MAX_DEVICES] = [const { Atomic::new(0) }; MAX_DEVICES];

/// Puts `address` into a free place of `table`, and says which. `EBUSY`: it is there already, or
/// there is none.
fn claim(table: &[Atomic<usize>], address: usize) -> Result<usize> {
    let place = table
        .iter()
        .position(|place| place.cmpxchg(0, address, Full).is_ok())
        .ok_or(EBUSY)?;
    // Of two who come at once both may be refused, but not both let through: who looks last sees
    // the other.
    let mut others = table.iter().enumerate();
    if others.any(|(at, other)| at != place && other.load(Acquire) == address) {
        table[place].store(0, Release);
        return Err(EBUSY);
    }
    Ok(place)
}

/// A device that nobody else gets memory for.
///
/// # Invariants
///
/// `DEVICES` has the device's address once, at `place`.
struct Claimed {
    place: usize,
    dev: ARef<device::Device>,
}

impl Claimed {
    /// Takes the device. `EBUSY`: somebody has it, or there are too many.
    fn new(dev: &device::Device) -> Result<Self> {
        // INVARIANT: It stays this device's address as long as `dev` is held.
        Ok(Self {
            place: claim(&DEVICES, core::ptr::from_ref(dev).addr())?,
            dev: dev.into(),
        })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(place) = DEVICES.get(self.place) {
            place.store(0, Release);
        }
    }
}

/// A device for which memory is about to be got: what decides where that comes from is set here,
/// while there is none.
pub(crate) struct Setup<'a, 'b> {
    pdev: &'a platform::Device<Core<'b>>,
    region: Option<Assigned>,
    claimed: Claimed,
}

impl<'a, 'b> Setup<'a, 'b> {
    /// Of a device that is being probed. `EBUSY`: memory that was got for it earlier is still in
    /// use. `ENODEV`: its addresses are not physical ones: an IOMMU translates them, or a
    /// hypervisor.
    pub(crate) fn new(pdev: &'a platform::Device<Core<'b>>) -> Result<Self> {
        let dev: &device::Device = pdev.as_ref();
        let claimed = Claimed::new(dev)?;
        // SAFETY: The device is valid.
        if unsafe { shim::gal_is_translated(raw_device(dev)) } {
            return Err(ENODEV);
        }
        // SAFETY: The device is valid, and nobody maps anything for it yet. Its MMU has no limit.
        unsafe { shim::gal_allow_long_segments(raw_device(dev)) };
        Ok(Self {
            pdev,
            region: None,
            claimed,
        })
    }

    /// Sets which addresses it reaches: of mapped pages, and of coherent memory.
    pub(crate) fn set_masks(&mut self, pages: DmaMask, coherent: DmaMask) -> Result {
        // SAFETY: Nobody else gets memory for the device: that takes a `Device`, and there is none.
        unsafe {
            self.pdev.dma_set_mask(pages)?;
            self.pdev.dma_set_coherent_mask(coherent)
        }
    }

    /// Has its contiguous memory come from its node's first region, a reusable one. `EBUSY`: it
    /// does so already.
    pub(crate) fn assign_region(&mut self) -> Result {
        if self.region.is_some() {
            return Err(EBUSY);
        }
        self.region = Some(Assigned::new(self.pdev.as_ref())?);
        Ok(())
    }

    /// From now on memory can be got for it.
    pub(crate) fn finish(self) -> Result<Device> {
        let inner = Inner {
            _region: self.region,
            claimed: self.claimed,
        };
        // INVARIANT: Looked at, and set, by this.
        Ok(Device(Arc::new(inner, GFP_KERNEL)?))
    }
}

struct Inner {
    /// Given back before another can set the device up.
    _region: Option<Assigned>,
    claimed: Claimed,
}

/// A device for which memory can be got. What is got has a reference of this, so that what decides
/// where it came from, and goes back to, stays as it is.
///
/// # Invariants
///
/// The kernel's DMA interface does not translate for the device: an address of coherent memory
/// stands for a physical one, which `dma_to_phys` tells.
#[derive(Clone)]
pub(crate) struct Device(Arc<Inner>);

impl core::ops::Deref for Device {
    type Target = device::Device;

    fn deref(&self) -> &device::Device {
        &self.0.claimed.dev
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

    /// Allocates `size` bytes, a multiple of the page size (else `EINVAL`), for `dev`.
    pub(crate) fn new(dev: &Device, size: usize) -> Result<Self> {
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
                bindings::GFP_KERNEL | bindings::__GFP_NOWARN,
                Self::ATTRS,
            )
        };
        if cpu.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: An address of this device's, for which by its invariant this says where it is.
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

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// `bytes` bytes at `offset`. `None`: these are not all there, or not whole pages.
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
        // SAFETY: Inside the allocation. C does it, as to Rust it would be a race: users, the GPU
        // and other callers may write it at the same time. Then either's bytes stay.
        unsafe { shim::gal_clear_memory(self.cpu.add(offset).cast(), size) };
        Ok(())
    }

    /// Maps the buffer's start into the area, which must not be longer. The area does not keep the
    /// buffer alive: see `vma::map`.
    pub(super) fn mmap(&self, area: &NewArea<'_>) -> Result {
        if area.bytes() > self.size {
            return Err(EINVAL);
        }
        // SAFETY: By its invariant the area is being set up, and is empty; the buffer is live, and
        // not shorter.
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

#[kunit_tests(galcore_dma)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_setup_at_a_time() {
        let table = [const { Atomic::new(0) }; 2];
        assert_eq!(claim(&table, 8), Ok(0));
        assert_eq!(claim(&table, 8), Err(EBUSY));
        assert_eq!(claim(&table, 16), Ok(1));
        // No room, also for those that are there.
        assert_eq!(claim(&table, 24), Err(EBUSY));
        assert_eq!(claim(&table, 16), Err(EBUSY));
        table[0].store(0, Release);
        // Not in the free place either, and that stays free.
        assert_eq!(claim(&table, 16), Err(EBUSY));
        assert_eq!(claim(&table, 24), Ok(0));
    }
}
