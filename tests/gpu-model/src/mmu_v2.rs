// SPDX-License-Identifier: GPL-2.0-only
//! MMU v2: two levels of tables, pages of four sizes, exceptions (sources.md, engines, MMU).
//!
//! Address bits 31:22 select one of 1024 first-level entries. An entry holds the page size of its 4 MiB and the address
//! of their second-level table. Until the MMU is enabled, addresses are physical, relative to the memory base. As with
//! MMU v1, the TLBs have no size limit and keep all results, missing pages included, until a flush.

use crate::memory::Snapshot;
use crate::mmu::Cache;
use crate::mmu::Cause;
use crate::mmu::Exception;
use crate::mmu::Fault;
use crate::mmu::Mmu;
use crate::mmu::Port;
use crate::mmu::Setup;
use crate::mmu::Tlbs;
use crate::mmu::Translated;

/// Lowest address bit of the first-level index.
const FIRST_SHIFT: u32 = 22;
/// The entry is present.
const PRESENT: u32 = 1 << 0;
/// Accesses through an entry that is not present raise an exception.
const EXCEPTION: u32 = 1 << 1;
/// The page is writeable.
const WRITEABLE: u32 = 1 << 2;
/// Binary logarithms of the page sizes in bits 3:2 of a first-level entry.
const PAGE_SHIFTS: [u32; 4] = [12, 16, 20, 24];
/// Bits of a second-level entry that hold bits 39:32 of the page's address: mask and shift.
const HIGH: (u32, u32) = (0xff, 4);
/// Bits of a first-level entry outside the address: second-level tables are aligned to 64 bytes.
const FIRST_FLAGS: u32 = 0x3f;
/// Key of a TLB entry: binary logarithm of the page size, and page number. A walk applies to the whole page.
type Page = (u32, u32);

/// Result of a table walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    /// Binary logarithm of the page size.
    shift: u32,
    /// The deciding entry: the second-level entry, or the first-level entry if that is not present.
    entry: u32,
    /// The first-level entry is not present.
    ends_early: bool,
}

impl Walk {
    fn page(&self, address: u32) -> Page {
        (self.shift, address >> self.shift)
    }

    /// The translation of an access that uses this walk, while the tables give `now`.
    fn leads(self, address: u32, write: bool, now: Self) -> Result<Translated, Fault> {
        let stale = (self != now).then_some((self.entry, now.entry));
        let refuse = |cause, told| Err(Fault::Exception(Exception { cause, told, stale }));
        if self.entry & PRESENT == 0 || self.ends_early {
            let cause = if self.ends_early {
                Cause::NoSecondLevel
            } else {
                Cause::NoPage
            };
            return refuse(cause, self.entry & EXCEPTION != 0);
        }
        if write && self.entry & WRITEABLE == 0 {
            return refuse(Cause::ReadOnly, true);
        }
        let offset = address & ((1 << self.shift) - 1);
        Ok(Translated {
            physical: page_address(self.entry, self.shift) | u64::from(offset),
            span: (1 << self.shift) - offset,
            stale,
            filled: false,
        })
    }
}

/// MMU v2.
#[derive(Default)]
pub struct MmuV2 {
    tlbs: Tlbs<Page, Walk>,
}

/// Physical address (40 bits) of the page in a second-level entry.
fn page_address(entry: u32, shift: u32) -> u64 {
    let (mask, begin) = HIGH;
    u64::from(entry >> begin & mask) << 32 | u64::from(entry >> shift << shift)
}

fn entry(memory: &Snapshot, slot: u32) -> Result<u32, Fault> {
    memory.read_u32(slot).map_err(|_| Fault::TableOutside(slot))
}

/// Walks the tables.
fn walk(table: u32, address: u32, memory: &Snapshot) -> Result<Walk, Fault> {
    let first = entry(memory, table.wrapping_add(4 * (address >> FIRST_SHIFT)))?;
    if first & PRESENT == 0 {
        return Ok(Walk {
            shift: FIRST_SHIFT,
            entry: first,
            ends_early: true,
        });
    }
    let shift = PAGE_SHIFTS[(first >> 2 & 3) as usize];
    // A second-level table for pages of 16 MiB has one entry, whichever 4 MiB of the page are addressed.
    let index = (address & ((1 << FIRST_SHIFT) - 1)) >> shift;
    let slot = (first & !FIRST_FLAGS).wrapping_add(4 * index);
    Ok(Walk {
        shift,
        entry: entry(memory, slot)?,
        ends_early: false,
    })
}

/// A memory range that engines may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writeable {
    /// Physical address.
    pub physical: u64,
    /// The lowest GPU address that maps to it.
    pub address: u32,
    /// Bytes.
    pub bytes: u32,
}

/// All memory that the tables let engines write, sorted by physical address. Ranges that are adjacent for the GPU too
/// are merged.
pub fn writeable(table: u32, memory: &Snapshot) -> Vec<Writeable> {
    let mut pages = Vec::new();
    for first in 0..1u32 << (32 - FIRST_SHIFT) {
        let base = first << FIRST_SHIFT;
        let Ok(word) = entry(memory, table.wrapping_add(4 * first)) else {
            continue;
        };
        if word & PRESENT == 0 {
            continue;
        }
        let shift = PAGE_SHIFTS[(word >> 2 & 3) as usize];
        for index in 0..(1u32 << FIRST_SHIFT >> shift).max(1) {
            let address = base + (index << shift);
            match walk(table, address, memory) {
                Ok(walk) if walk.entry & (PRESENT | WRITEABLE) == PRESENT | WRITEABLE => {
                    pages.push(Writeable {
                        physical: page_address(walk.entry, shift),
                        address,
                        bytes: 1 << shift,
                    });
                }
                _ => {}
            }
        }
    }
    pages.sort_unstable();
    let mut ranges: Vec<Writeable> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            // Several addresses may map to one page.
            Some(last) if last.physical == page.physical && last.bytes == page.bytes => {}
            Some(last)
                if last.physical + u64::from(last.bytes) == page.physical
                    && last.address.wrapping_add(last.bytes) == page.address =>
            {
                last.bytes += page.bytes;
            }
            _ => ranges.push(page),
        }
    }
    ranges
}

impl Mmu for MmuV2 {
    fn translate(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Result<Translated, Fault> {
        let (result, new) = self.find(port, address, write, setup, memory);
        if let Some(walk) = new {
            self.tlbs.keep(port, walk.page(address), walk);
        }
        result
    }

    fn peek(
        &self,
        port: Port,
        address: u32,
        write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Option<Translated> {
        self.find(port, address, write, setup, memory).0.ok()
    }

    fn tlbs(&mut self) -> &mut dyn Cache {
        &mut self.tlbs
    }
}

impl MmuV2 {
    /// The translation of an access, and the result that the TLB must keep.
    fn find(
        &self,
        port: Port,
        address: u32,
        write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> (Result<Translated, Fault>, Option<Walk>) {
        if !setup.v2.enabled {
            let translated = Translated {
                physical: setup.ports[port as usize].base.wrapping_add(address).into(),
                span: (u32::MAX - address).saturating_add(1),
                stale: None,
                filled: false,
            };
            return (Ok(translated), None);
        }
        let table = setup.v2.table.ok_or(Fault::NoTable);
        let now = match table.and_then(|table| walk(table, address, memory)) {
            Ok(now) => now,
            Err(fault) => return (Err(fault), None),
        };
        let sizes = PAGE_SHIFTS.into_iter().chain([FIRST_SHIFT]);
        let pages = sizes.map(|shift| (shift, address >> shift));
        let (used, filled) = self.tlbs.look(port, pages, now);
        let result = used
            .leads(address, write, now)
            .map(|translated| Translated {
                filled,
                ..translated
            });
        (result, filled.then_some(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;
    use crate::mmu::V2Setup;

    const TABLE: u32 = 0x4000_0000;
    const SECOND: u32 = 0x4000_1000;

    struct Bench {
        memory: GuestMemory,
        mmu: MmuV2,
        setup: Setup,
    }

    impl Bench {
        fn new() -> Self {
            let memory = GuestMemory::new();
            memory.add_anonymous(u64::from(TABLE), 0x1_0000).unwrap();
            let bench = Self {
                memory,
                mmu: MmuV2::default(),
                setup: Setup {
                    v2: V2Setup {
                        enabled: true,
                        table: Some(TABLE),
                        safe: None,
                    },
                    ..Setup::default()
                },
            };
            for index in 0..1024 {
                bench.set(TABLE, index, EXCEPTION);
                bench.set(SECOND, index, EXCEPTION);
            }
            bench
        }

        fn set(&self, table: u32, index: u32, entry: u32) {
            let memory = self.memory.snapshot();
            memory
                .write(table + 4 * index, &entry.to_le_bytes())
                .unwrap();
        }

        fn translate(&mut self, address: u32, write: bool) -> Result<Translated, Fault> {
            let memory = self.memory.snapshot();
            self.mmu
                .translate(Port::Pixel, address, write, &self.setup, &memory)
        }

        fn physical(&mut self, address: u32) -> u64 {
            self.translate(address, true).unwrap().physical
        }

        fn refused(&mut self, address: u32, write: bool) -> Exception {
            match self.translate(address, write) {
                Err(Fault::Exception(exception)) => exception,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn pages_of_each_size() {
        let mut bench = Bench::new();
        for (code, shift) in PAGE_SHIFTS.into_iter().enumerate() {
            let code = code as u32;
            let first = 8 + 4 * code;
            bench.set(TABLE, first, SECOND | code << 2 | PRESENT);
            let index = if shift == 24 { 0 } else { 2 };
            bench.set(SECOND, index, 0x8500_0000 | WRITEABLE | PRESENT);
            let base = (first << 22) + if shift == 24 { 0 } else { 2 << shift };
            let inside = (1 << shift) - 8;
            let translated = bench.translate(base + (inside & 0x3f_ffff), true).unwrap();
            assert_eq!(
                translated.physical,
                0x8500_0000 + u64::from(inside & 0x3f_ffff),
                "{shift}"
            );
            bench.mmu.reset();
        }
    }

    #[test]
    fn pages_lie_in_40_bits() {
        let mut bench = Bench::new();
        bench.set(TABLE, 1, SECOND | PRESENT);
        bench.set(SECOND, 3, 0x4123_4000 | 0x81 << 4 | WRITEABLE | PRESENT);
        assert_eq!(bench.physical(0x0040_3ff0), 0x81_4123_4ff0);
        bench.set(TABLE, 2, SECOND | 1 << 2 | PRESENT);
        assert_eq!(bench.physical(0x0083_0ff0), 0x81_4123_0ff0);
    }

    #[test]
    fn a_span_ends_with_its_page() {
        let mut bench = Bench::new();
        bench.set(TABLE, 1, SECOND | PRESENT);
        bench.set(SECOND, 3, 0x4123_4000 | WRITEABLE | PRESENT);
        let translated = bench.translate(0x0040_3ff0, true).unwrap();
        assert_eq!((translated.physical, translated.span), (0x4123_4ff0, 16));
        bench.set(TABLE, 2, SECOND | 1 << 2 | PRESENT);
        let translated = bench.translate(0x0083_0ff0, true).unwrap();
        assert_eq!(
            (translated.physical, translated.span),
            (0x4123_0ff0, 0xf010)
        );
    }

    #[test]
    fn what_leads_nowhere_is_an_exception() {
        let mut bench = Bench::new();
        let exception = bench.refused(0x0040_0000, false);
        assert_eq!(
            (exception.cause, exception.told),
            (Cause::NoSecondLevel, true)
        );
        bench.set(TABLE, 1, SECOND | PRESENT);
        bench.set(TABLE, 2, 0);
        bench.set(SECOND, 1, 0);
        bench.mmu.flush(0x1f);
        let exception = bench.refused(0x0040_0000, true);
        assert_eq!((exception.cause, exception.told), (Cause::NoPage, true));
        // Without the bit, no exception is raised.
        assert!(!bench.refused(0x0040_1000, true).told);
        assert!(!bench.refused(0x0080_0000, true).told);
    }

    #[test]
    fn read_only_pages_are_read_only() {
        let mut bench = Bench::new();
        bench.set(TABLE, 1, SECOND | PRESENT);
        bench.set(SECOND, 0, 0x4123_4000 | PRESENT);
        assert!(bench.translate(0x0040_0000, false).is_ok());
        assert_eq!(bench.refused(0x0040_0000, true).cause, Cause::ReadOnly);
    }

    #[test]
    fn stale_entries_are_used_and_reported_until_flushed() {
        let mut bench = Bench::new();
        bench.set(TABLE, 1, SECOND | PRESENT);
        bench.set(SECOND, 0, 0x4123_4000 | WRITEABLE | PRESENT);
        assert!(bench.translate(0x0040_0000, true).unwrap().filled);
        bench.set(SECOND, 0, EXCEPTION);
        let stale = bench.translate(0x0040_0000, true).unwrap();
        assert_eq!(stale.physical, 0x4123_4000);
        assert_eq!(stale.stale, Some((0x4123_4005, EXCEPTION)));
        // A flush of other ports has no effect.
        assert_eq!(bench.mmu.flush(0x1f & !Port::Pixel.flush_bit()), 4);
        assert!(bench.translate(0x0040_0000, true).is_ok());
        assert_eq!(bench.mmu.flush(0x1f), 5);
        assert_eq!(bench.refused(0x0040_0000, true).stale, None);
        // The TLB keeps a missing page too.
        bench.set(SECOND, 0, 0x4123_4000 | WRITEABLE | PRESENT);
        assert!(bench.refused(0x0040_0000, true).stale.is_some());
        bench.mmu.flush(0x1f);
        assert_eq!(bench.physical(0x0040_0000), 0x4123_4000);
    }

    #[test]
    fn what_may_be_written_is_listed() {
        let bench = Bench::new();
        bench.set(TABLE, 1, SECOND | PRESENT);
        let page = |at: u32| 0x4123_0000 + at * 0x1000;
        for (index, entry) in [
            (0, page(0) | WRITEABLE | PRESENT),
            (1, page(1) | WRITEABLE | PRESENT),
            (2, page(2) | PRESENT),
            (3, page(3) | WRITEABLE),
            // Two addresses of one page.
            (8, page(9) | WRITEABLE | PRESENT),
            (9, page(9) | WRITEABLE | PRESENT),
        ] {
            bench.set(SECOND, index, entry);
        }
        let range = |physical, address, bytes| Writeable {
            physical,
            address,
            bytes,
        };
        assert_eq!(
            writeable(TABLE, &bench.memory.snapshot()),
            [
                range(page(0).into(), 0x0040_0000, 0x2000),
                range(page(9).into(), 0x0040_8000, 0x1000)
            ]
        );
    }

    #[test]
    fn before_it_is_enabled_addresses_are_physical() {
        let mut bench = Bench::new();
        bench.setup.v2.enabled = false;
        bench.setup.ports[Port::Pixel as usize].base = 0x1000_0000;
        assert_eq!(bench.physical(0x1234), 0x1000_1234);
        bench.setup.v2.enabled = true;
        bench.setup.v2.table = None;
        assert_eq!(bench.translate(0, false), Err(Fault::NoTable));
    }

    #[test]
    fn tables_outside_memory_are_a_fault() {
        let mut bench = Bench::new();
        bench.set(TABLE, 1, 0x1000 | PRESENT);
        assert_eq!(
            bench.translate(0x0040_2000, false),
            Err(Fault::TableOutside(0x1008))
        );
    }
}
