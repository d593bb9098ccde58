// SPDX-License-Identifier: GPL-2.0-only
//! Address translation from GPU addresses to physical addresses, through TLBs that keep stale entries.
//!
//! MMU v1 (sources.md, engines): with bit 31 clear, the port's memory base is added; with bit 31 set, the port's flat
//! page table is used. The TLB has no size limit and keeps every entry until a flush or a reset, so the model detects a
//! driver that changes an entry without a flush. MMU v2 is in [`crate::mmu_v2`].

use std::collections::HashMap;
use std::hash::Hash;

use crate::memory::Snapshot;
use crate::registers::*;

/// A module's path to memory. Each port has its own page-table register, memory base and TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Port {
    /// Command fetch.
    FrontEnd = 0,
    /// Textures; sources of 2D blits and resolves.
    Texture = 1,
    /// Color; destinations of 2D draws and resolves.
    Pixel = 2,
    /// Depth.
    Depth = 3,
    /// Rasterizer.
    Raster = 4,
}

impl Port {
    /// All ports in the order of the page-table registers and of the flush bits.
    pub const ALL: [Port; 5] = [
        Port::FrontEnd,
        Port::Texture,
        Port::Pixel,
        Port::Depth,
        Port::Raster,
    ];

    /// The port's page-table register.
    pub fn table_register(self) -> u32 {
        MC_MMU_FE_PAGE_TABLE + 4 * self as u32
    }

    /// The port's memory base register.
    pub fn base_register(self) -> u32 {
        match self {
            Port::FrontEnd => MC_MEMORY_BASE_ADDR_FE,
            Port::Texture => MC_MEMORY_BASE_ADDR_TX,
            Port::Pixel => MC_MEMORY_BASE_ADDR_PE,
            Port::Depth => MC_MEMORY_BASE_ADDR_PEZ,
            Port::Raster => MC_MEMORY_BASE_ADDR_RA,
        }
    }

    /// The bit of GL_FLUSH_MMU that flushes the port's TLB. Bits 0 and 3 (FE, PE) are documented. The assignment of 1,
    /// 2 and 4 is not, and drivers always write all five.
    pub fn flush_bit(self) -> u32 {
        1 << match self {
            Port::FrontEnd => 0,
            Port::Texture => 1,
            Port::Depth => 2,
            Port::Pixel => 3,
            Port::Raster => 4,
        }
    }
}

/// Host setup of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSetup {
    /// Physical address of the page table; `None` = not written since reset.
    pub table: Option<u32>,
    /// Physical address of GPU address 0.
    pub base: u32,
}

/// Host setup of MMU v2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V2Setup {
    /// Translation is enabled. Otherwise addresses are physical, like those of MMU v1 below bit 31.
    pub enabled: bool,
    /// Physical address of the first-level table; `None` = not loaded since reset.
    pub table: Option<u32>,
    /// Physical address of the 64 bytes returned by reads without a page; `None` = not loaded since reset.
    pub safe: Option<u32>,
}

/// All inputs of a translation except the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// By [`Port`] number.
    pub ports: [PortSetup; 5],
    /// MMU v2, on cores that have it.
    pub v2: V2Setup,
}

/// A translated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Physical address, of 40 bits.
    pub physical: u64,
    /// Bytes from `physical` on that this translation covers.
    pub span: u32,
    /// A TLB entry that differs from the page table: (used, in the table).
    pub stale: Option<(u32, u32)>,
    /// The page table was read.
    pub filled: bool,
}

/// Why an address has no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No page table was programmed.
    NoTable,
    /// The entry at this physical address lies outside memory.
    TableOutside(u32),
    /// MMU v2: an exception.
    Exception(Exception),
    /// VG cores: the address is invalid for this reason.
    Address(&'static str),
}

/// An access that MMU v2 refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The reason.
    pub cause: Cause,
    /// The entry requests an exception. Otherwise the access silently uses the safe address.
    pub told: bool,
    /// A TLB entry that differs from the tables: (used, in the tables).
    pub stale: Option<(u32, u32)>,
}

/// Causes of exceptions, with the codes of the status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// The first-level entry is not present.
    NoSecondLevel = 1,
    /// The second-level entry is not present.
    NoPage = 2,
    /// A write to a page that is not writeable.
    ReadOnly = 3,
}

/// An address space of the GPU.
pub trait Mmu: Send + Sync {
    /// Translates one address of a port, for reading or for writing.
    fn translate(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Result<Translated, Fault>;

    /// Translates without side effects: fills no TLB. `None`: nothing that 3D engines could use.
    fn peek(
        &self,
        _port: Port,
        _address: u32,
        _write: bool,
        _setup: &Setup,
        _memory: &Snapshot,
    ) -> Option<Translated> {
        None
    }

    /// The TLBs.
    fn tlbs(&mut self) -> &mut dyn Cache;

    /// Drops the TLBs whose flush bit is set. Returns their number.
    fn flush(&mut self, bits: u32) -> u32 {
        self.tlbs().flush(bits)
    }

    /// Drops everything.
    fn reset(&mut self) {
        self.tlbs().reset();
    }

    /// Whether the TLBs keep entries at all.
    fn set_caching(&mut self, on: bool) {
        self.tlbs().set_caching(on);
    }
}

/// TLBs, independent of their contents.
pub trait Cache {
    /// Drops the TLBs whose flush bit is set. Returns their number.
    fn flush(&mut self, bits: u32) -> u32;

    /// Drops everything.
    fn reset(&mut self);

    /// Whether entries are kept at all.
    fn set_caching(&mut self, on: bool);
}

/// A TLB for each port that keeps the look-up result of each page. It has no size limit and drops nothing until a
/// flush.
pub struct Tlbs<K, V> {
    ports: [HashMap<K, V>; 5],
    caching: bool,
}

impl<K, V> Default for Tlbs<K, V> {
    fn default() -> Self {
        Self {
            ports: Default::default(),
            caching: true,
        }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Tlbs<K, V> {
    /// The result that a port uses for an access to one of `pages`, and whether it must read the tables. The result is
    /// the TLB's entry for the first page that has one, or else `now`, the result from the tables.
    pub fn look(&self, port: Port, pages: impl IntoIterator<Item = K>, now: V) -> (V, bool) {
        let tlb = &self.ports[port as usize];
        let kept = pages.into_iter().find_map(|page| tlb.get(&page)).copied();
        (kept.unwrap_or(now), kept.is_none())
    }

    /// Stores a port's look-up result for a page.
    pub fn keep(&mut self, port: Port, page: K, now: V) {
        if self.caching {
            self.ports[port as usize].insert(page, now);
        }
    }
}

impl<K, V> Cache for Tlbs<K, V> {
    fn flush(&mut self, bits: u32) -> u32 {
        let mut flushed = 0;
        for port in Port::ALL {
            if bits & port.flush_bit() != 0 {
                self.ports[port as usize].clear();
                flushed += 1;
            }
        }
        flushed
    }

    fn reset(&mut self) {
        self.ports.iter_mut().for_each(HashMap::clear);
    }

    fn set_caching(&mut self, on: bool) {
        self.caching = on;
        if !on {
            self.reset();
        }
    }
}

const PAGE: u32 = 4096;
/// GPU addresses with this bit go through the page table.
pub const VIRTUAL: u32 = 1 << 31;

/// MMU v1: a flat table of 4 KiB pages.
#[derive(Default)]
pub struct MmuV1 {
    tlbs: Tlbs<u32, u32>,
}

impl Mmu for MmuV1 {
    fn translate(
        &mut self,
        port: Port,
        address: u32,
        _write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Result<Translated, Fault> {
        let (translated, now) = self.find(port, address, setup, memory)?;
        if translated.filled {
            self.tlbs.keep(port, (address & !VIRTUAL) / PAGE, now);
        }
        Ok(translated)
    }

    fn peek(
        &self,
        port: Port,
        address: u32,
        _write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Option<Translated> {
        let found = self.find(port, address, setup, memory);
        found.ok().map(|(translated, _)| translated)
    }

    fn tlbs(&mut self) -> &mut dyn Cache {
        &mut self.tlbs
    }
}

impl MmuV1 {
    /// The translation of an access, and the entry in the table.
    fn find(
        &self,
        port: Port,
        address: u32,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Result<(Translated, u32), Fault> {
        let setup = setup.ports[port as usize];
        if address & VIRTUAL == 0 {
            let physical = setup.base.wrapping_add(address);
            let translated = Translated {
                physical: physical.into(),
                span: VIRTUAL - address,
                stale: None,
                filled: false,
            };
            return Ok((translated, 0));
        }
        let index = (address & !VIRTUAL) / PAGE;
        let table = setup.table.ok_or(Fault::NoTable)?;
        let slot = table.wrapping_add(4 * index);
        let now = memory
            .read_u32(slot)
            .map_err(|_| Fault::TableOutside(slot))?;
        let (entry, filled) = self.tlbs.look(port, [index], now);
        let offset = address % PAGE;
        let translated = Translated {
            physical: ((entry & !(PAGE - 1)) | offset).into(),
            span: PAGE - offset,
            // Compare only the page: the hardware ignores the low bits.
            stale: ((entry ^ now) & !(PAGE - 1) != 0).then_some((entry, now)),
            filled,
        };
        Ok((translated, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;

    const TABLE: u32 = 0x4000_0000;

    fn memory() -> GuestMemory {
        let memory = GuestMemory::new();
        memory.add_anonymous(u64::from(TABLE), 0x1_0000).unwrap();
        memory
    }

    fn setup() -> Setup {
        let port = PortSetup {
            table: Some(TABLE),
            base: 0x1000_0000,
        };
        Setup {
            ports: [port; 5],
            ..Setup::default()
        }
    }

    fn set_entry(memory: &GuestMemory, index: u32, entry: u32) {
        memory
            .snapshot()
            .write(TABLE + 4 * index, &entry.to_le_bytes())
            .unwrap();
    }

    #[test]
    fn linear_addresses_add_the_memory_base() {
        let mut setup = setup();
        setup.ports[Port::Pixel as usize].base = 0x2000_0000;
        let snapshot = memory().snapshot();
        let mut mmu = MmuV1::default();
        let mut physical = |port, address| {
            mmu.translate(port, address, false, &setup, &snapshot)
                .unwrap()
                .physical
        };
        assert_eq!(physical(Port::FrontEnd, 0x1234), 0x1000_1234);
        assert_eq!(physical(Port::Pixel, 0x1234), 0x2000_1234);
        assert_eq!(physical(Port::FrontEnd, 0x7fff_ffff), 0x8fff_ffff);
    }

    #[test]
    fn virtual_addresses_go_through_the_table() {
        let memory = memory();
        set_entry(&memory, 2, 0x4000_9000 | 0xabc);
        let mut mmu = MmuV1::default();
        let translated = mmu
            .translate(
                Port::Pixel,
                0x8000_2ff0,
                false,
                &setup(),
                &memory.snapshot(),
            )
            .unwrap();
        assert_eq!(
            translated,
            Translated {
                physical: 0x4000_9ff0,
                span: 16,
                stale: None,
                filled: true
            }
        );
    }

    #[test]
    fn a_stale_entry_is_used_and_reported_until_flushed() {
        let memory = memory();
        let snapshot = memory.snapshot();
        let setup = setup();
        set_entry(&memory, 0, 0x4000_5000);
        let mut mmu = MmuV1::default();
        assert!(
            mmu.translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
                .unwrap()
                .filled
        );
        set_entry(&memory, 0, 0x4000_6000);
        let stale = mmu
            .translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
            .unwrap();
        assert_eq!(stale.physical, 0x4000_5000);
        assert_eq!(stale.stale, Some((0x4000_5000, 0x4000_6000)));
        assert!(!stale.filled);
        // Another port has its own TLB.
        let other = mmu
            .translate(Port::Texture, VIRTUAL, false, &setup, &snapshot)
            .unwrap();
        assert_eq!((other.physical, other.stale), (0x4000_6000, None));
        // A flush of other ports has no effect on this one.
        assert_eq!(mmu.flush(0x1f & !Port::Pixel.flush_bit()), 4);
        assert!(mmu
            .translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
            .unwrap()
            .stale
            .is_some());
        assert_eq!(mmu.flush(0x1f), 5);
        let fresh = mmu
            .translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
            .unwrap();
        assert_eq!((fresh.physical, fresh.stale), (0x4000_6000, None));
    }

    #[test]
    fn reset_and_switched_off_caching_forget() {
        let memory = memory();
        let snapshot = memory.snapshot();
        let setup = setup();
        let mut mmu = MmuV1::default();
        mmu.translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
            .unwrap();
        set_entry(&memory, 0, 0x4000_6000);
        mmu.reset();
        assert_eq!(
            mmu.translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
                .unwrap()
                .stale,
            None
        );
        mmu.set_caching(false);
        set_entry(&memory, 0, 0x4000_7000);
        let fresh = mmu
            .translate(Port::Pixel, VIRTUAL, false, &setup, &snapshot)
            .unwrap();
        assert_eq!((fresh.physical, fresh.stale), (0x4000_7000, None));
    }

    #[test]
    fn a_missing_table_is_a_fault() {
        let memory = memory();
        let mut mmu = MmuV1::default();
        let mut setup = setup();
        setup.ports[Port::Pixel as usize].table = None;
        let result = mmu.translate(Port::Pixel, VIRTUAL, false, &setup, &memory.snapshot());
        assert_eq!(result, Err(Fault::NoTable));
        setup.ports[Port::Pixel as usize].table = Some(0x1000);
        let result = mmu.translate(
            Port::Pixel,
            VIRTUAL + PAGE,
            false,
            &setup,
            &memory.snapshot(),
        );
        assert_eq!(result, Err(Fault::TableOutside(0x1004)));
    }

    #[test]
    fn flush_bits_are_one_for_each_port() {
        assert_eq!(
            Port::ALL.iter().map(|port| port.flush_bit()).sum::<u32>(),
            0x1f
        );
    }
}
