// SPDX-License-Identifier: GPL-2.0-only
//! The MMU of VG cores. The two low bits of an address are its tag. Tag 0 is a physical address. Tag 2 goes through a
//! flat table of 8192 pages of 4 KiB, whose entries are physical addresses without flags. Tags 1 and 3 are invalid.

use crate::memory::Snapshot;
use crate::mmu::Cache;
use crate::mmu::Fault;
use crate::mmu::Mmu;
use crate::mmu::MmuV1;
use crate::mmu::Port;
use crate::mmu::Setup;
use crate::mmu::Translated;
use crate::mmu::VIRTUAL;

/// Address bits that hold the tag.
pub const TAG: u32 = 3;
/// Tag of addresses that go through the table.
pub const TAG_VIRTUAL: u32 = 2;
/// Bytes that the table covers.
pub const REACH: u32 = 32 << 20;

/// Whether the tag is valid.
pub fn is_tag(tag: u32) -> bool {
    tag == 0 || tag == TAG_VIRTUAL
}

/// Uses the page table and TLBs of MMU v1.
#[derive(Default)]
pub struct MmuVg(MmuV1);

impl Mmu for MmuVg {
    fn translate(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
        setup: &Setup,
        memory: &Snapshot,
    ) -> Result<Translated, Fault> {
        let untagged = address & !TAG;
        match address & TAG {
            0 => Ok(Translated {
                physical: untagged.into(),
                span: (u32::MAX - untagged).saturating_add(1),
                stale: None,
                filled: false,
            }),
            TAG_VIRTUAL if untagged < REACH => {
                let table = setup.ports[port as usize].table;
                if table.is_some_and(|table| table & TAG != 0) {
                    return Err(Fault::Address("goes through a table that is not physical"));
                }
                self.0
                    .translate(port, VIRTUAL | untagged, write, setup, memory)
            }
            TAG_VIRTUAL => Err(Fault::Address("is beyond the table's 32 MiB")),
            _ => Err(Fault::Address("has a tag that means nothing")),
        }
    }

    fn tlbs(&mut self) -> &mut dyn Cache {
        self.0.tlbs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;
    use crate::mmu::PortSetup;

    const TABLE: u32 = 0x4000_0000;

    fn setup(table: Option<u32>) -> Setup {
        let port = PortSetup {
            table,
            // Not used here.
            base: 0x1000_0000,
        };
        Setup {
            ports: [port; 5],
            ..Setup::default()
        }
    }

    fn memory() -> Snapshot {
        let memory = GuestMemory::new();
        memory.add_anonymous(TABLE.into(), 0x1_0000).unwrap();
        memory.snapshot()
    }

    #[test]
    fn the_tag_says_what_an_address_is() {
        let (memory, mut mmu) = (memory(), MmuVg::default());
        memory
            .write(TABLE + 4 * 0x1234, &0x4567_8000u32.to_le_bytes())
            .unwrap();
        let mut translate = |address, table| {
            mmu.translate(Port::Pixel, address, true, &setup(table), &memory)
                .map(|translated| (translated.physical, translated.span))
        };
        assert_eq!(translate(0x4123_4560, None), Ok((0x4123_4560, 0xbedc_baa0)));
        assert_eq!(translate(0, None), Ok((0, u32::MAX)));
        assert_eq!(
            translate(0x0123_4abe, Some(TABLE)),
            Ok((0x4567_8abc, 0x544))
        );
        assert_eq!(translate(0x0123_4002, None), Err(Fault::NoTable));
        for (address, table) in [
            (0x0200_0002, TABLE),
            (0x0123_4001, TABLE),
            (0x0123_4003, TABLE),
            (0x0123_4002, TABLE | 2),
        ] {
            let fault = translate(address, Some(table));
            assert!(matches!(fault, Err(Fault::Address(_))), "{address:#x}");
        }
    }

    #[test]
    fn stale_entries_show() {
        let (memory, mut mmu, setup) = (memory(), MmuVg::default(), setup(Some(TABLE)));
        let mut stale = || {
            let translated = mmu.translate(Port::FrontEnd, 0x1002, false, &setup, &memory);
            translated.unwrap().stale
        };
        assert_eq!(stale(), None);
        memory
            .write(TABLE + 4, &0x5000_0000u32.to_le_bytes())
            .unwrap();
        assert_eq!(stale(), Some((0, 0x5000_0000)));
        assert_eq!(mmu.flush(1), 1);
        let translated = mmu.translate(Port::FrontEnd, 0x1002, false, &setup, &memory);
        assert_eq!(translated.unwrap().stale, None);
    }
}
