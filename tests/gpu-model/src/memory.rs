// SPDX-License-Identifier: GPL-2.0-only
//! Guest memory as seen by the GPU: the regions that the machine mapped for DMA, shared with the guest.
//!
//! All `unsafe` code for the mapping is in the `vm-memory` crate. This file has none.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::RwLock;

use vm_memory::Bytes;
use vm_memory::FileOffset;
use vm_memory::GuestAddress;
use vm_memory::GuestMemory as _;
use vm_memory::GuestMemoryMmap;
use vm_memory::GuestMemoryRegion;
use vm_memory::GuestRegionMmap;
use vm_memory::MmapRegion;
use vm_memory::Permissions;

/// An access touched an address that no region covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideMemory;

/// The currently mapped regions. Cheap to clone. A clone keeps the mappings alive.
#[derive(Clone, Default)]
pub struct Snapshot(Arc<GuestMemoryMmap>);

impl Snapshot {
    /// Reads `data.len()` bytes at a physical address.
    pub fn read(&self, address: impl Into<u64>, data: &mut [u8]) -> Result<(), OutsideMemory> {
        self.0
            .read_slice(data, GuestAddress(address.into()))
            .map_err(|_| OutsideMemory)
    }

    /// Writes `data` at a physical address. Writes nothing if any byte lies outside.
    pub fn write(&self, address: impl Into<u64>, data: &[u8]) -> Result<(), OutsideMemory> {
        let base = GuestAddress(address.into());
        if !self.0.check_range(base, data.len(), Permissions::Write) {
            return Err(OutsideMemory);
        }
        self.0.write_slice(data, base).map_err(|_| OutsideMemory)
    }

    /// Reads a naturally aligned 64-bit unit in one access.
    pub fn read_u64(&self, address: impl Into<u64>) -> Result<u64, OutsideMemory> {
        self.0
            .load::<u64>(GuestAddress(address.into()), Ordering::Acquire)
            .map(u64::from_le)
            .map_err(|_| OutsideMemory)
    }

    /// Reads a naturally aligned 32-bit word in one access.
    pub fn read_u32(&self, address: impl Into<u64>) -> Result<u32, OutsideMemory> {
        self.0
            .load::<u32>(GuestAddress(address.into()), Ordering::Acquire)
            .map(u32::from_le)
            .map_err(|_| OutsideMemory)
    }
}

/// The set of mapped regions. Each change replaces the whole set.
#[derive(Default)]
pub struct GuestMemory {
    mapped: RwLock<Mapped>,
}

#[derive(Default)]
struct Mapped {
    regions: Vec<Arc<GuestRegionMmap>>,
    snapshot: Snapshot,
}

impl GuestMemory {
    /// Guest memory without regions.
    pub fn new() -> Self {
        Self::default()
    }

    /// The currently mapped regions.
    pub fn snapshot(&self) -> Snapshot {
        let mapped = self
            .mapped
            .read()
            .unwrap_or_else(|poison| poison.into_inner());
        mapped.snapshot.clone()
    }

    /// Adds private zeroed memory, for tests.
    pub fn add_anonymous(&self, base: u64, bytes: usize) -> io::Result<()> {
        self.insert(base, MmapRegion::new(bytes).map_err(io::Error::other)?)
    }

    /// Maps `bytes` bytes of `file`, starting at `offset`, shared, at physical address `base`.
    pub fn map_file(&self, base: u64, bytes: u64, file: File, offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::new(file, offset), bytes)
            .map_err(io::Error::other)?;
        self.insert(base, region)
    }

    /// Removes every region in the range. Returns the number of removed regions.
    pub fn unmap(&self, base: u64, bytes: u64) -> io::Result<usize> {
        let end = base.saturating_add(bytes);
        let mut mapped = self
            .mapped
            .write()
            .unwrap_or_else(|poison| poison.into_inner());
        let mut regions = mapped.regions.clone();
        regions.retain(|region| {
            region.start_addr().0 < base || region.start_addr().0 + region.len() > end
        });
        let removed = mapped.regions.len() - regions.len();
        mapped.replace(regions)?;
        Ok(removed)
    }

    /// Removes all regions.
    pub fn unmap_all(&self) -> io::Result<usize> {
        self.unmap(0, u64::MAX)
    }

    fn insert(&self, base: u64, region: MmapRegion) -> io::Result<()> {
        let region = GuestRegionMmap::new(region, GuestAddress(base))
            .ok_or_else(|| io::Error::other("region beyond the address space"))?;
        let mut mapped = self
            .mapped
            .write()
            .unwrap_or_else(|poison| poison.into_inner());
        let mut regions = mapped.regions.clone();
        regions.push(Arc::new(region));
        mapped.replace(regions)
    }
}

impl Mapped {
    fn replace(&mut self, mut regions: Vec<Arc<GuestRegionMmap>>) -> io::Result<()> {
        regions.sort_by_key(|region| region.start_addr());
        let map = if regions.is_empty() {
            GuestMemoryMmap::default()
        } else {
            GuestMemoryMmap::from_arc_regions(regions.clone()).map_err(io::Error::other)?
        };
        self.regions = regions;
        self.snapshot = Snapshot(Arc::new(map));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::io::Seek;
    use std::io::SeekFrom;

    use super::*;

    #[test]
    fn a_mapped_file_is_shared_both_ways() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(0x3000).unwrap();
        let memory = GuestMemory::new();
        memory
            .map_file(0x4000_0000, 0x2000, file.try_clone().unwrap(), 0x1000)
            .unwrap();
        memory.snapshot().write(0x4000_0010u32, b"shared").unwrap();
        let mut seen = [0; 6];
        file.seek(SeekFrom::Start(0x1010)).unwrap();
        file.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"shared");
        std::os::unix::fs::FileExt::write_all_at(&file, &7u64.to_le_bytes(), 0x1020).unwrap();
        assert_eq!(memory.snapshot().read_u64(0x4000_0020u32), Ok(7));
    }

    #[test]
    fn outside_is_refused_whole() {
        let memory = GuestMemory::new();
        memory.add_anonymous(0x1000, 0x1000).unwrap();
        let snapshot = memory.snapshot();
        assert_eq!(snapshot.write(0x1ffcu32, &[1; 8]), Err(OutsideMemory));
        assert_eq!(snapshot.read_u32(0x1ffcu32), Ok(0));
        assert_eq!(snapshot.read_u32(0x2000u32), Err(OutsideMemory));
        assert_eq!(snapshot.read_u64(0xffcu32), Err(OutsideMemory));
    }

    #[test]
    fn unmapping_takes_away_what_lies_inside() {
        let memory = GuestMemory::new();
        memory.add_anonymous(0x1000, 0x1000).unwrap();
        memory.add_anonymous(0x8000, 0x1000).unwrap();
        assert!(memory.add_anonymous(0x1800, 0x1000).is_err());
        assert_eq!(memory.unmap(0x1000, 0x1000).unwrap(), 1);
        assert_eq!(memory.snapshot().read_u32(0x1000u32), Err(OutsideMemory));
        assert_eq!(memory.snapshot().read_u32(0x8000u32), Ok(0));
        assert_eq!(memory.unmap_all().unwrap(), 1);
        assert_eq!(memory.snapshot().read_u32(0x8000u32), Err(OutsideMemory));
    }
}
