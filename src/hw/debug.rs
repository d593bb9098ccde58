// SPDX-License-Identifier: GPL-2.0-only

//! Registers for debugging: which of them the administrator may read and write, and the values of
//! the debug ports.
//!
//! Only registers that the core is known to have can be read: other accesses may cause a bus error,
//! and stop the machine. The acknowledge register cannot be read, because a read would take
//! interrupts away from the driver.
//!
//! Only registers that change the core's speed or its debug output can be written: clock gating,
//! the switches of the memory controller and the selectors of counters. Others cannot: the clock
//! control stops and resets the core without the driver's knowledge; page tables, memory bases, the
//! MMU and the front end's position isolate processes; other readers use the counters; and the
//! driver uses the interrupts.
//!
//! Register dump of a core that hangs.
//!
//! It only has registers that the core has and that can be read without side effects, so not the
//! acknowledge register. Its registers are those of etnaviv's dumps, which tools read, and the
//! core's identity. Source: sources.md, bring-up.

use super::{
    profile::CONFIGS,
    regs::*,
    Hardware,
    MmuVersion, //
};
use crate::{
    abi::HardwareType,
    sys::prelude::*, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    io::{
        register::Array,
        Io, //
    }, //
};

/// Ranges of registers that all cores with a ring have: first and last byte offset.
const READABLE: [(u32, u32); 9] = [
    (0x000, 0x00C),
    (0x014, 0x02C),
    (0x034, 0x034),
    (0x03C, 0x044),
    (0x100, 0x10C),
    (0x400, 0x428),
    (0x438, 0x478),
    (0x480, 0x480),
    (0x658, 0x66C),
];

/// Ranges of cores with more than one word of minor features.
const READABLE_LATER: [(u32, u32); 5] = [
    (0x048, 0x048),
    (0x074, 0x08C),
    (0x094, 0x094),
    (0x09C, 0x0A0),
    (0x0DC, 0x0DC),
];

/// The range of MMU version 2.
const READABLE_MMU: (u32, u32) = (0x188, 0x19C);

/// The range of a secure MMU.
const READABLE_SECURE: (u32, u32) = (0x380, 0x388);

/// Registers that may be written.
const WRITABLE: [u32; 5] = [0x100, 0x414, 0x470, 0x474, 0x478];

/// Other registers that may be written, but not on early cores, where no driver does.
const WRITABLE_LATER: [u32; 2] = [0x104, 0x10C];

/// The bits of a selector. If all are set, the block's counters are reset.
const SELECTOR: u32 = 0xF;

/// A debug port: its name and offset, the register and the first bit that select its value, and its
/// value for selector 15.
struct Port(&'static str, usize, usize, u32, u32);

/// The debug ports, one for each block.
static PORTS: [Port; 10] = [
    Port("RA", 0x448, 1, 16, 0x1234_4321),
    Port("TX", 0x44C, 1, 24, 0x1221_1221),
    Port("FE", 0x450, 0, 0, 0xBABE_F00D),
    Port("PE", 0x454, 0, 16, 0xBABE_F00D),
    Port("DE", 0x458, 0, 8, 0xBABE_F00D),
    Port("SH", 0x45C, 0, 24, 0xDEAD_BEEF),
    Port("PA", 0x460, 1, 0, 0x0000_AAAA),
    Port("SE", 0x464, 1, 8, 0x5E5E_5E5E),
    Port("MC", 0x468, 2, 0, 0x1234_5678),
    Port("HI", 0x46C, 2, 8, 0xAAAA_AAAA),
];

/// The values of a port, by selector.
type Shown = [u32; 16];

/// The state of a core, for the log.
pub(crate) struct StateDump {
    registers: [(&'static str, u32); 9],
    ports: KVec<Shown>,
}

impl StateDump {
    /// An empty dump. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            registers: [("", 0); 9],
            ports: KVec::from_elem([0; 16], PORTS.len(), GFP_KERNEL)?,
        })
    }
}

impl Hardware {
    /// Whether the register at byte offset `offset` may be read.
    pub(crate) fn is_readable(&self, offset: u32) -> bool {
        let is_in = |range: &(u32, u32)| (range.0..=range.1).contains(&offset);
        offset % 4 == 0
            && (READABLE.iter().any(is_in)
                || self.identity.has_more_registers() && READABLE_LATER.iter().any(is_in)
                || self.identity.has_mmu_v2() && is_in(&READABLE_MMU)
                || self.identity.has_secure_mmu && is_in(&READABLE_SECURE))
    }

    /// Whether `value` may be written to the register at byte offset `offset`.
    pub(crate) fn is_writable(&self, offset: u32, value: u32) -> bool {
        let is_there = WRITABLE.contains(&offset)
            || !self.identity.is_early() && WRITABLE_LATER.contains(&offset);
        let selects = CONFIGS.contains(&u32_as_usize(offset));
        let mut fields = (0..32).step_by(8).map(|shift| value >> shift & SELECTOR);
        is_there && !(selects && fields.any(|field| field == SELECTOR))
    }

    /// Reads the register at byte offset `offset`, which must be readable. The core must be on, and
    /// the caller must be allowed to reset it.
    pub(crate) fn read_register(&self, offset: u32) -> u32 {
        self.registers.try_read32(u32_as_usize(offset)).unwrap_or(0)
    }

    /// Writes the register at byte offset `offset`, which must be writable. Conditions as for
    /// [`Hardware::read_register`].
    pub(crate) fn write_register(&self, offset: u32, value: u32) {
        if !self.is_isolated() {
            let _ = self.registers.try_write32(value, u32_as_usize(offset));
        }
    }

    /// Stores the state of the core in `dump`, and resets the counters of its blocks. Conditions as
    /// for [`Hardware::read_register`].
    pub(crate) fn dump_state(&self, dump: &mut StateDump) {
        let regs = &self.registers;
        dump.registers = [
            ("clock control", regs.read(HI_CLOCK_CONTROL).into_raw()),
            ("idle", regs.read(HI_IDLE_STATE).into_raw()),
            ("AXI status", regs.read(HI_AXI_STATUS).into_raw()),
            ("module controls", regs.read(PM_MODULE_CONTROLS).into_raw()),
            ("DMA status", regs.read(FE_DMA_STATUS).into_raw()),
            ("DMA state", regs.read(FE_DMA_DEBUG_STATE).into_raw()),
            ("front end at", regs.read(FE_DMA_ADDRESS).into_raw()),
            ("word 0", regs.read(FE_DMA_LOW).into_raw()),
            ("word 1", regs.read(FE_DMA_HIGH).into_raw()),
        ];
        if self.is_isolated() {
            return;
        }
        if self.tally.is_wanted() {
            self.count();
        }
        self.with_selectors(|| {
            for (&Port(_, offset, config, shift, _), shown) in PORTS.iter().zip(&mut dump.ports) {
                for (select, shown) in (0u32..).zip(shown) {
                    *shown = self.selected(offset, config, select << shift);
                }
                // The selector of the next port is in another field.
                let _ = self.selected(offset, config, 0);
            }
        });
        self.forget_selected();
    }

    /// Prints a dump.
    pub(crate) fn print_state(&self, dump: &StateDump) {
        for (name, value) in dump.registers {
            dev_info!(self.dev, "GPU state: {} {:#010x}\n", name, value);
        }
        for (Port(name, .., signature), shown) in PORTS.iter().zip(&dump.ports) {
            let [counters @ .., sign] = shown;
            let is_right = sign == signature;
            dev_info!(
                self.dev,
                "GPU state: {} signature {:#010x}{}, {:x?}\n",
                name,
                sign,
                if is_right { "" } else { " (wrong)" },
                counters
            );
        }
    }
}

/// The most registers in a dump.
const MAX_REGISTERS: usize = 56;

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
