// SPDX-License-Identifier: GPL-2.0-only

//! Register dump of a core that hangs.
//!
//! It only has registers that the core has and that can be read without side effects, so not the
//! acknowledge register. Its registers are those of etnaviv's dumps, which tools read, and the
//! core's identity. Source: sources.md, bring-up.

use super::{
    regs::*,
    Hardware,
    MmuVersion, //
};
use crate::abi::HardwareType;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    io::{
        register::Array,
        Io, //
    },
    prelude::*, //
};

/// The most registers in a dump.
pub(crate) const MAX_REGISTERS: usize = 56;

/// Byte offsets and values of registers.
pub(crate) struct RegisterDump {
    list: KVec<(u32, u32)>,
}

impl RegisterDump {
    fn new() -> Result<Self> {
        // Some callers must not wait for memory.
        let list = KVec::with_capacity(MAX_REGISTERS, GFP_NOWAIT | __GFP_NOWARN)?;
        Ok(Self { list })
    }

    fn put(&mut self, offset: u32, value: u32) {
        // There is room for all.
        let _ = self.list.push_within_capacity((offset, value));
    }

    /// All registers, as offset and value.
    pub(crate) fn all(&self) -> &[(u32, u32)] {
        &self.list
    }

    /// The position of the front end, if the dump has it.
    pub(crate) fn position(&self) -> Option<u32> {
        let mut all = self.all().iter();
        all.find(|found| matches!(found.0, POSITION | VECTOR_POSITION))
            .map(|found| found.1)
    }
}

/// `FE_DMA_ADDRESS`.
const POSITION: u32 = 0x664;

/// `VG_COMMAND_POSITION`.
const VECTOR_POSITION: u32 = 0x508;

/// Reads registers of `$hardware` into `$dump`.
macro_rules! put {
    ($hardware:expr, $dump:expr, $($offset:literal $name:ident),* $(,)?) => {
        {
            $($dump.put($offset, $hardware.registers.read($name).into_raw());)*
        }
    };
}

impl Hardware {
    /// Reads the registers. Does not sleep. `ENOMEM`.
    pub(crate) fn dump_registers(&self) -> Result<RegisterDump> {
        let mut dump = RegisterDump::new()?;
        if self.identity.hardware_type() == HardwareType::Vector {
            put!(self, dump, 0x508 VG_COMMAND_POSITION);
            self.dump_common(&mut dump);
            self.dump_page_tables(&mut dump);
            return Ok(dump);
        }
        // First the registers that change while the core makes progress.
        put!(
            self, dump,
            0x660 FE_DMA_DEBUG_STATE,
            0x664 FE_DMA_ADDRESS,
            0x668 FE_DMA_LOW,
            0x66C FE_DMA_HIGH,
            0x65C FE_DMA_STATUS,
        );
        self.dump_common(&mut dump);
        put!(
            self, dump,
            0x100 PM_POWER_CONTROLS,
            0x10C PM_PULSE_EATER,
            0x414 MC_DEBUG_MEMORY,
            0x418 MC_MEMORY_BASE_ADDR_RA,
            0x41C MC_MEMORY_BASE_ADDR_FE,
            0x420 MC_MEMORY_BASE_ADDR_TX,
            0x424 MC_MEMORY_BASE_ADDR_PEZ,
            0x428 MC_MEMORY_BASE_ADDR_PE,
            0x480 MC_BUS_CONFIG,
        );
        // Early cores do not have them: an access is a bus error.
        if self.identity.has_more_registers() {
            put!(
                self, dump,
                0x048 HI_CHIP_SPECS,
                0x074 HI_CHIP_MINOR_FEATURE_1,
                0x084 HI_CHIP_MINOR_FEATURE_2,
                0x088 HI_CHIP_MINOR_FEATURE_3,
                0x094 HI_CHIP_MINOR_FEATURE_4,
                0x0A0 HI_CHIP_MINOR_FEATURE_5,
                0x0DC HI_CHIP_MINOR_FEATURE_6,
            );
        }
        match self.mmu_version() {
            MmuVersion::V1 => self.dump_page_tables(&mut dump),
            MmuVersion::V2 if self.identity.has_secure_mmu => put!(
                self, dump,
                0x380 MMUV2_SEC_EXCEPTION_ADDR,
                0x384 MMUV2_SEC_STATUS,
                0x388 MMUV2_SEC_CONTROL,
                0x3A8 MMUV2_AHB_CONTROL,
            ),
            MmuVersion::V2 => {
                put!(self, dump, 0x188 MMUV2_STATUS, 0x18C MMUV2_CONTROL);
                for unit in 0..4 {
                    let address = self.registers.read(MMUV2_EXCEPTION_ADDR::at(unit));
                    // CAST: less than 4.
                    dump.put(0x190 + 4 * unit as u32, address.into_raw());
                }
            }
        }
        Ok(dump)
    }

    /// Reads the registers that every core has.
    fn dump_common(&self, dump: &mut RegisterDump) {
        put!(
            self, dump,
            0x000 HI_CLOCK_CONTROL,
            0x004 HI_IDLE_STATE,
            0x008 HI_AXI_CONFIG,
            0x00C HI_AXI_STATUS,
            0x014 HI_INTR_ENBL,
            0x018 HI_CHIP_IDENTITY,
            0x01C HI_CHIP_FEATURE,
            0x020 HI_CHIP_MODEL,
            0x024 HI_CHIP_REV,
            0x028 HI_CHIP_DATE,
            0x02C HI_CHIP_TIME,
            0x034 HI_CHIP_MINOR_FEATURE_0,
            0x104 PM_MODULE_CONTROLS,
        );
    }

    /// Reads the page table addresses of MMU version 1.
    fn dump_page_tables(&self, dump: &mut RegisterDump) {
        put!(
            self, dump,
            0x400 MC_MMU_FE_PAGE_TABLE,
            0x404 MC_MMU_TX_PAGE_TABLE,
            0x408 MC_MMU_PE_PAGE_TABLE,
            0x40C MC_MMU_PEZ_PAGE_TABLE,
            0x410 MC_MMU_RA_PAGE_TABLE,
        );
    }
}
