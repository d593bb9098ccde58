// SPDX-License-Identifier: GPL-2.0-only

//! The memory that parameters name: the pool, the ranges for all clients, and the base address from
//! which the GPU reaches them.

use super::{
    fits,
    physical,
    text,
    Parameters,
    Refusal, //
};
use crate::{
    abi::row::number,
    addr::Range,
    sys::{
        self,
        platform::RawParameters,
        prelude::*,
        tree::Region, //
    }, //
};
use kernel::io::PhysAddr;

/// Size of the physical memory that the GPU reaches without its MMU: addresses with bit 31 clear.
pub(crate) const LINEAR_WINDOW: u64 = 1 << 31;

/// The end of the physical addresses that the GPU reaches without its MMU. A window wraps there.
const PHYSICAL_END: u64 = 1 << 32;

/// A chosen base address is a multiple of the first of these powers of two if the GPU then reaches
/// all memory, otherwise of the second. Tables have pages of 64 KiB.
const BASE_STEPS: [u64; 2] = [512 << 20, 64 << 10];

/// The default of `contiguousSize`.
pub(super) const DEFAULT_POOL: usize = 4 << 20;

/// The source of the video memory pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolSource {
    None,
    /// Physical memory that the kernel does not use: start and size in bytes.
    Reserved(PhysAddr, usize),
    /// The same, from the device tree.
    Region(PhysAddr, usize),
    /// Memory to allocate at load: size in bytes.
    Allocated(usize),
}

/// The most ranges of `allowedRanges`.
pub(super) const ALLOWED_RANGES: usize = 4;

/// The ranges, as physical address and size in bytes.
pub(super) type NamedRanges = [Option<(u64, usize)>; ALLOWED_RANGES];

#[inline(never)]
pub(super) fn pool_source(raw: &RawParameters) -> Result<PoolSource, Refusal> {
    let (base, size) = (raw.contiguousBase, raw.contiguousSize);
    if size % PAGE_SIZE != 0 {
        return Err(Refusal(
            "contiguousSize",
            "must be a multiple of the page size",
        ));
    }
    if usize_as_u64(size) > LINEAR_WINDOW {
        return Err(Refusal(
            "contiguousSize",
            "is more than the GPU reaches (2 GiB)",
        ));
    }
    let start = physical("contiguousBase", base)?;
    match (base, size) {
        (_, 0) => Ok(PoolSource::None),
        (0, _) => Ok(PoolSource::Allocated(size)),
        _ => {
            if !fits(base, size) {
                return Err(Refusal("contiguousSize", "reaches past the address space"));
            }
            below_end("contiguousBase", usize_as_u64(base), usize_as_u64(size))?;
            Ok(PoolSource::Reserved(start, size))
        }
    }
}

/// The word in `allowedRanges` that allows framebuffers.
const FRAMEBUFFER: &str = "framebuffer";

/// Parses `allowedRanges`: the ranges, and whether framebuffers are allowed.
#[inline(never)]
pub(super) fn named_ranges(raw: &RawParameters) -> Result<(NamedRanges, bool), Refusal> {
    let refuse = |why| Refusal("allowedRanges", why);
    let mut ranges = [None; ALLOWED_RANGES];
    let mut places = ranges.iter_mut();
    let mut framebuffers = false;
    let mut parts = text(&raw.allowedRanges)
        .split(',')
        .filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        if part == FRAMEBUFFER {
            framebuffers = true;
            continue;
        }
        let pair = number(part).zip(parts.next().and_then(number));
        let (start, bytes) = pair.ok_or(refuse(
            "must be pairs of address and bytes, or say framebuffer",
        ))?;
        if bytes == 0 {
            return Err(refuse("names a range of no bytes"));
        }
        let start = usize_as_u64(start);
        below_end("allowedRanges", start, bytes as u64)?;
        *places.next().ok_or(refuse("names more than 4 ranges"))? = Some((start, bytes));
    }
    Ok((ranges, framebuffers))
}

/// Refuses memory of parameter `name` that no GPU reaches without its MMU, from any base address.
fn below_end(name: &'static str, start: u64, bytes: u64) -> Result<(), Refusal> {
    match start.checked_add(bytes) {
        Some(end) if end <= PHYSICAL_END => Ok(()),
        _ => Err(Refusal(
            name,
            "ends above 4 GiB, where the GPU does not reach",
        )),
    }
}

/// The GPU address, without the MMU, of `bytes` bytes at physical address `start`. GPU address 0 is
/// at `base`. `None`: the GPU does not reach all of them.
pub(crate) fn linear_address(start: u64, bytes: u64, base: u32) -> Option<u32> {
    let first = start.checked_sub(base.into())?;
    let is_reached =
        first.checked_add(bytes)? <= LINEAR_WINDOW && start.checked_add(bytes)? <= PHYSICAL_END;
    is_reached.then(|| u32::try_from(first).ok()).flatten()
}

impl Parameters {
    /// Memory from parameters or the device tree that the GPU must reach: its parameter, first
    /// physical address and size in bytes.
    fn named_memory(&self) -> impl Iterator<Item = (&'static str, u64, u64)> + '_ {
        let pool = match self.pool {
            PoolSource::Reserved(start, bytes) => {
                Some(("contiguousBase", sys::widen(start), usize_as_u64(bytes)))
            }
            PoolSource::None | PoolSource::Region(..) | PoolSource::Allocated(_) => None,
        };
        let region = self
            .region
            .map(|region| ("memory-region", region.start, region.bytes));
        let ranges = self.named_ranges.iter().flatten();
        let ranges = ranges.map(|&(start, bytes)| ("allowedRanges", start, usize_as_u64(bytes)));
        // Names the trait, because `Init` also has a `chain`.
        Iterator::chain([pool, region].into_iter().flatten(), ranges)
    }

    /// Chooses a base address from which the GPU reaches contiguous memory and, if possible, all
    /// named memory. Some contiguous memory is at `contiguous`.
    pub(crate) fn choose_base(&self, contiguous: u64) -> u32 {
        let bases = BASE_STEPS.map(|step| self.base_of(step, contiguous));
        let best = bases.iter().find(|base| self.unreached(**base).is_none());
        *best.unwrap_or(&bases[0])
    }

    /// The best base address for [`Parameters::choose_base`] among multiples of `step`.
    fn base_of(&self, step: u64, contiguous: u64) -> u32 {
        let down = |address: u64| address & !(step - 1);
        // The lowest base from which the GPU reaches memory up to `end`, at most 4 GiB.
        let least = |end: u64| down(end.saturating_sub(LINEAR_WINDOW) + step - 1);
        let contiguous_end = contiguous.saturating_add(2 * usize_as_u64(PAGE_SIZE));
        let (mut low, mut end) = (contiguous, contiguous_end);
        for (_, start, bytes) in self.named_memory() {
            low = low.min(start);
            end = end.max(start.saturating_add(bytes));
        }
        if end <= LINEAR_WINDOW {
            return 0;
        }
        // A GiB below the lowest memory: the kernel may allocate memory there, too.
        let base = down(low).saturating_sub(1 << 30).max(least(end));
        // Contiguous memory has priority, because a core needs the ring, which is there.
        let base = base
            .min(down(low).max(least(contiguous_end)))
            .min(down(contiguous))
            .min(PHYSICAL_END - LINEAR_WINDOW);
        u32::try_from(base).unwrap_or(0)
    }

    /// Named memory that the GPU does not reach from `base`.
    fn unreached(&self, base: u32) -> Option<Refusal> {
        self.named_memory().find_map(|(name, start, bytes)| {
            let why = match linear_address(start, bytes, base) {
                Some(_) => return None,
                None if start < base.into() => {
                    "lies below the base address, where the GPU does not reach"
                }
                None => "ends more than 2 GiB above the base address, where the GPU does not reach",
            };
            Some(Refusal(name, why))
        })
    }

    /// Sets the base address to `base`, instead of the parameter's. Refuses named memory that the
    /// GPU does not reach from there.
    pub(crate) fn count_from(&mut self, base: u32) -> Result<(), Refusal> {
        if let Some(refusal) = self.unreached(base) {
            return Err(refusal);
        }
        for (range, named) in self.allowed_ranges.iter_mut().zip(self.named_ranges) {
            *range = named.and_then(|(start, bytes)| {
                let address = linear_address(start, usize_as_u64(bytes), base)?;
                Range::new(address, bytes)
            });
        }
        self.base_address = base;
        Ok(())
    }

    /// Selects the source of the pool on a device whose node has `region`.
    ///
    /// `contiguousBase` overrides the region, and `contiguousSize` 0 overrides both. If the kernel
    /// does not use the region, the pool is all of it, or its first `contiguousSize` bytes if that
    /// is not the default. In a reusable region, `contiguousSize` bytes are allocated.
    pub(crate) fn place_pool(&mut self, region: Option<Region>) -> Result<(), Refusal> {
        const NAME: &str = "memory-region";
        let (PoolSource::Allocated(wanted), Some(region)) = (self.pool, region) else {
            return Ok(());
        };
        let (page, asked) = (usize_as_u64(PAGE_SIZE), usize_as_u64(wanted));
        if region.start % page != 0 || region.bytes % page != 0 || region.bytes == 0 {
            return Err(Refusal(NAME, "does not begin and end between pages"));
        }
        let is_default = wanted == DEFAULT_POOL;
        if asked > region.bytes && !is_default {
            return Err(Refusal(
                NAME,
                "is smaller than contiguousSize: correct one of them",
            ));
        }
        let bytes = if region.is_reusable {
            asked.min(region.bytes)
        } else if is_default {
            region.bytes
        } else {
            asked
        };
        below_end(NAME, region.start, region.bytes)?;
        let too_large = |_| Refusal(NAME, "is more than the address space");
        let size = usize::try_from(bytes).map_err(too_large)?;
        self.pool = if region.is_reusable {
            PoolSource::Allocated(size)
        } else {
            let start = PhysAddr::try_from(region.start)
                .map_err(|_| Refusal(NAME, "is no physical address"))?;
            PoolSource::Region(start, size)
        };
        self.region = Some(region);
        Ok(())
    }
}
