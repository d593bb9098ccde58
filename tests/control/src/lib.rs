// SPDX-License-Identifier: GPL-2.0-only
//! Layout of the control BAR (PCI BAR 2, 4 KiB) of the software GPU.
//!
//! A guest program maps `/sys/bus/pci/devices/0000:00:01.0/resource2`, or the file in [`CONTROL_VARIABLE`], and uses
//! plain aligned 32-bit loads and stores at the byte offsets below. Accesses to this BAR do not count as GPU register
//! accesses.
//!
//! A board with several cores has one PCI device per core, at [`PLACES`] in the order 3D, 2D, VG. Each has its own
//! control BAR with the core's counters, violations, expectations, and faults.
//!
//! Registers are little-endian 32-bit words. Unless stated otherwise, "w" registers read as the remaining armed
//! value. Writes to read-only offsets have no effect.

#![no_std]
#![forbid(unsafe_code)]

pub mod frames;

/// Start of the driver's scratch memory in GPU addresses. Faults that affect draws ignore draws to this memory: the
/// driver clears it between processes, and such a small draw takes no time.
pub const SCRATCH: u32 = 0xfc00_0000;

/// Size of the control BAR in bytes.
pub const BAR_SIZE: u64 = 4096;
/// PCI region index of the control BAR (`resource2` in sysfs).
pub const BAR_INDEX: u32 = 2;
/// Size in bytes of BAR 0, the GPU's register block.
pub const REGISTER_BAR_SIZE: u64 = 256 * 1024;
/// PCI vendor id. 0x1234 is the unassigned id that QEMU uses for its own teaching devices.
pub const PCI_VENDOR_ID: u16 = 0x1234;
/// PCI device id ("GC" in ASCII). No driver in Linux claims 1234:4743.
pub const PCI_DEVICE_ID: u16 = 0x4743;

/// Environment variable of the guest with the cores' control BARs, `FILE:OFFSET` each, separated by blanks. It is
/// unset if the cores' PCI devices have the BARs.
pub const CONTROL_VARIABLE: &str = "GALCORE_CONTROL";

/// The address and interrupt of a core on the virtual board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Slot on PCI bus 0.
    pub slot: u32,
    /// Address of BAR 0, as Linux assigns it.
    pub registers: u32,
    /// Number of the shared GIC interrupt (SPI) that INTA of the slot raises.
    pub interrupt: u32,
}

/// The places of a board's cores, in order. Slot 2 is used by the runner's serial ports.
pub const PLACES: [Place; 3] = [
    Place {
        slot: 1,
        registers: 0x1000_0000,
        interrupt: 4,
    },
    Place {
        slot: 3,
        registers: 0x1004_0000,
        interrupt: 6,
    },
    Place {
        slot: 4,
        registers: 0x1008_0000,
        interrupt: 3,
    },
];

/// ro: [`MAGIC_VALUE`].
pub const MAGIC: usize = 0x000;
/// Value of [`MAGIC`] ("GPUC").
pub const MAGIC_VALUE: u32 = 0x4350_5547;
/// ro: [`VERSION_VALUE`]; increases when the meaning of an offset changes.
pub const VERSION: usize = 0x004;
/// Value of [`VERSION`].
pub const VERSION_VALUE: u32 = 1;
/// ro: the core that the model emulates, a code of [`Board`].
pub const BOARD: usize = 0x008;
/// ro: state of the front end, a code of [`FrontEndState`].
pub const FE_STATE: usize = 0x00c;
/// ro: GPU address of the front end's next 64-bit unit.
pub const FE_ADDRESS: usize = 0x010;
/// ro: number of unexpected violations so far (they fail the run).
pub const VIOLATIONS: usize = 0x014;
/// ro: kind of the latest violation, expected or not, a code of [`ViolationKind`]; 0 = none so far.
pub const LAST_VIOLATION: usize = 0x018;
/// ro: stream position (GPU address), or register offset for register violations, of the latest violation.
pub const LAST_VIOLATION_ADDRESS: usize = 0x01c;
/// ro: number of violations so far that a test had declared by [`EXPECT_VIOLATION`].
pub const EXPECTED_SEEN: usize = 0x020;
/// ro: number of warnings so far.
pub const WARNINGS: usize = 0x024;
/// ro: pending interrupt bits, read without acknowledging them.
pub const PENDING_INTERRUPTS: usize = 0x028;
/// ro: 1 while rectangles, resolves or events wait in the pixel engine's queue.
pub const WORK_PENDING: usize = 0x02c;
/// ro: total milliseconds that the host kept threads of the machine and the model waiting for a processor; 0 if the
/// host does not report it. This is an upper limit for delays in the guest that the host caused.
pub const HOST_WAIT: usize = 0x030;

/// 64-bit counters: low word at the offset, high word at the offset + 4. Reading the low word latches the high one.
pub mod counter {
    /// Reads of the GPU's register block.
    pub const MMIO_READS: usize = 0x040;
    /// Writes to the GPU's register block.
    pub const MMIO_WRITES: usize = 0x048;
    /// Commands executed by the front end, without those of an idle WAIT/LINK loop.
    pub const COMMANDS: usize = 0x050;
    /// 2D rectangles executed, including clipped ones; each rectangle of a DRAW_2D counts.
    pub const DRAWS_2D: usize = 0x058;
    /// Resolves executed.
    pub const RESOLVES: usize = 0x060;
    /// 3D draw commands consumed.
    pub const DRAWS_3D: usize = 0x068;
    /// Events that fired (set their interrupt bit), from the front end or the pixel engine.
    pub const EVENTS: usize = 0x070;
    /// Interrupts delivered to the guest.
    pub const INTERRUPTS: usize = 0x078;
    /// Reads of the interrupt acknowledge register.
    pub const ACKNOWLEDGES: usize = 0x080;
    /// Soft resets.
    pub const RESETS: usize = 0x088;
    /// Front end starts (COMMAND_CONTROL writes with the enable bit).
    pub const STARTS: usize = 0x090;
    /// State words loaded.
    pub const STATE_WORDS: usize = 0x098;
    /// Page-table entries read into a TLB.
    pub const TLB_FILLS: usize = 0x0a0;
    /// Rectangles drawn by a VG core, including clipped ones.
    pub const TLB_FLUSHES: usize = 0x0a8;
    /// Path data consumed by a VG core: DATA commands with the tessellator on.
    pub const PIXELS: usize = 0x0b0;
    /// Bytes the GPU read from guest memory, without the idle WAIT/LINK loop.
    pub const BYTES_READ: usize = 0x0b8;
    /// Bytes the GPU wrote to guest memory.
    pub const BYTES_WRITTEN: usize = 0x0c0;
    /// Rectangles of a VG core drawn (also those clipped away).
    pub const VG_RECTANGLES: usize = 0x0c8;
    /// Path data of a VG core consumed: DATA commands with the tessellator on.
    pub const VG_PATHS: usize = 0x0d0;
    /// Pulses of the reset line: see [`RESET_LINE`](super::RESET_LINE).
    pub const LINE_RESETS: usize = 0x0d8;
    /// Number of times the core's power came back: see [`POWER`](super::POWER).
    pub const POWER_UPS: usize = 0x0e0;
    /// Number of times the core's clock came back.
    pub const CLOCK_UPS: usize = 0x0e8;
    /// Vertices processed by a vertex shader.
    pub const VERTICES: usize = 0x130;
    /// Points, lines and triangles of 3D draws.
    pub const PRIMITIVES: usize = 0x138;
    /// Primitives that were culled because they faced away or had no area.
    pub const CULLED: usize = 0x140;
    /// Primitives that were outside the view, fully or partly.
    pub const CLIPPED: usize = 0x148;
    /// Quads of 2 x 2 pixels processed by a pixel shader.
    pub const QUADS: usize = 0x150;
    /// Pixels of 3D draws that passed all tests.
    pub const PIXELS_3D: usize = 0x158;
    /// Shader instructions executed, per vertex or pixel.
    pub const INSTRUCTIONS: usize = 0x160;
    /// Texels that shaders requested.
    pub const TEXELS: usize = 0x168;
    /// Name and offset of all counters.
    pub const ALL: [(&str, usize); 30] = [
        ("mmio_reads", MMIO_READS),
        ("mmio_writes", MMIO_WRITES),
        ("commands", COMMANDS),
        ("draws_2d", DRAWS_2D),
        ("resolves", RESOLVES),
        ("draws_3d", DRAWS_3D),
        ("events", EVENTS),
        ("interrupts", INTERRUPTS),
        ("acknowledges", ACKNOWLEDGES),
        ("resets", RESETS),
        ("starts", STARTS),
        ("state_words", STATE_WORDS),
        ("tlb_fills", TLB_FILLS),
        ("tlb_flushes", TLB_FLUSHES),
        ("pixels", PIXELS),
        ("bytes_read", BYTES_READ),
        ("bytes_written", BYTES_WRITTEN),
        ("vg_rectangles", VG_RECTANGLES),
        ("vg_paths", VG_PATHS),
        ("line_resets", LINE_RESETS),
        ("power_ups", POWER_UPS),
        ("clock_ups", CLOCK_UPS),
        ("vertices", VERTICES),
        ("primitives", PRIMITIVES),
        ("culled", CULLED),
        ("clipped", CLIPPED),
        ("quads", QUADS),
        ("pixels_3d", PIXELS_3D),
        ("instructions", INSTRUCTIONS),
        ("texels", TEXELS),
    ];
    /// Offset of the first counter.
    pub const FIRST: usize = MMIO_READS;
    /// Offset of the first counter of 3D draws.
    pub const FIRST_3D: usize = VERTICES;
    /// Index in [`ALL`] of the counter at this offset.
    pub const fn place(offset: usize) -> usize {
        match offset {
            FIRST_3D.. => 22 + (offset - FIRST_3D) / 8,
            _ => (offset - FIRST) / 8,
        }
    }
}

/// w: any write sets all counters to 0 (violations, warnings and expectations stay).
pub const RESET_COUNTERS: usize = 0x100;
/// rw: word address (byte address / 4, 0..0xFFFF) of the state that [`STATE_VALUE`] shows.
pub const STATE_INDEX: usize = 0x104;
/// ro: value of the selected word of the GPU's state memory.
pub const STATE_VALUE: usize = 0x108;
/// w: writes all words of the state memory, by word address, to [`STATE_DUMP_BYTES`] of guest memory at this physical
/// address. The address is a multiple of 4. Nonexistent memory is skipped.
pub const STATE_DUMP: usize = 0x114;
/// Bytes that [`STATE_DUMP`] writes.
pub const STATE_DUMP_BYTES: usize = 0x4_0000;
/// w: writes the last [`FETCH_DUMP_UNITS`] units that the front end fetched to [`FETCH_DUMP_BYTES`] of guest memory
/// at this physical address, oldest first, and then forgets them. Each unit takes four words: its GPU address, its
/// two words, and 1. Zeros follow the newest. An idle loop appears once. The address is a multiple of 4.
pub const FETCH_DUMP: usize = 0x118;
/// Maximum number of units that [`FETCH_DUMP`] writes.
pub const FETCH_DUMP_UNITS: usize = 8192;
/// Bytes that [`FETCH_DUMP`] writes.
pub const FETCH_DUMP_BYTES: usize = FETCH_DUMP_UNITS * 16;
/// w: writes a list of the memory that engines may write, according to the tables of MMU version 2, to
/// [`WRITEABLE_DUMP_BYTES`] of guest memory at this physical address. Each range takes four words: the lowest GPU
/// address that maps to its start, bits 31:0 of its physical address, its size in bytes, and 1 with bits 39:32 of the
/// address in bits 15:8. Zeros follow the last range. The list is empty before the tables are loaded and with another
/// MMU. The address is a multiple of 4.
pub const WRITEABLE_DUMP: usize = 0x128;
/// Maximum number of ranges that [`WRITEABLE_DUMP`] writes.
pub const WRITEABLE_DUMP_RANGES: usize = 8192;
/// Bytes that [`WRITEABLE_DUMP`] writes.
pub const WRITEABLE_DUMP_BYTES: usize = WRITEABLE_DUMP_RANGES * 16;
/// rw: bit 0 asserts the core's reset line, like a reset controller (this register fits `snps,dw-high-reset`). When
/// the bit is cleared, the core is in its power-on state.
pub const RESET_LINE: usize = 0x11c;
/// rw: supplies from the board's power controller: [`POWER_CLOCK`] and [`POWER_DOMAIN`]. Both are on at first.
/// Without one of them, an access to the core's registers is a violation (on silicon the machine stops). Without the
/// clock the core stops, and it must be idle at that time. Without the power domain it loses all state.
pub const POWER: usize = 0x120;
/// In [`POWER`]: the core's clock runs.
pub const POWER_CLOCK: u32 = 1;
/// In [`POWER`]: the core's power domain is on.
pub const POWER_DOMAIN: u32 = 2;
/// ro: the core's clock rate in 64ths, as loaded into the divider of its clock register. 64 at power-on, and for a
/// core without a divider (VG).
pub const SCALE: usize = 0x124;
/// w: declares expected violations: kind in bits 15:0, number in bits 31:16 (0 = once, 0xFFFF = any number, until
/// [`CLEAR_EXPECTATIONS`]). Expected violations affect the GPU as usual (a hang stays a hang) but do not fail the
/// run. Reads as the number of open expectations.
pub const EXPECT_VIOLATION: usize = 0x10c;
/// w: any write clears all open expectations.
pub const CLEAR_EXPECTATIONS: usize = 0x110;
/// In [`EXPECT_VIOLATION`]: any number of this kind.
pub const EXPECT_ANY_NUMBER: u32 = 0xffff_0000;

/// Faults that a test can arm.
pub mod fault {
    /// w: any write disarms all faults of this module, but keeps the poll seed.
    pub const CLEAR_ALL: usize = 0x200;
    /// w: the front end hangs instead of executing the n-th command from now (1 = the next one; commands of the idle
    /// loop do not count), in the way of [`HANG_KIND`]; 0 disarms.
    pub const HANG_AT_COMMAND: usize = 0x204;
    /// w: the front end hangs at the n-th draw (2D, 3D or resolve kick) from now; 0 disarms.
    pub const HANG_AT_DRAW: usize = 0x208;
    /// w: the next n events set their pending bit without raising the interrupt line.
    pub const DROP_INTERRUPTS: usize = 0x20c;
    /// w: interrupts are n microseconds late, until set to 0.
    pub const DELAY_INTERRUPTS: usize = 0x210;
    /// w: for each of the next n events, an additional interrupt without a pending bit comes after the
    /// acknowledgment.
    pub const DUPLICATE_INTERRUPTS: usize = 0x214;
    /// w: raises n interrupts without pending bits, about 2 ms apart. Reads as the remaining number.
    pub const SPURIOUS_INTERRUPTS: usize = 0x218;
    /// w: sets these bits in the interrupt acknowledge register now (30 = MMU exception, 31 = AXI bus error).
    pub const RAISE_BITS: usize = 0x21c;
    /// w: the next n soft resets never become idle: the idle bits of 0x000 and 0x004 read 0 until a later reset
    /// succeeds or the fault is disarmed. 0xFFFFFFFF = all.
    pub const RESET_STUCK: usize = 0x220;
    /// w: the chip model register (0x020) reads as another value: [`IDENTITY_OK`] and the following constants. See
    /// also [`IDENTITY_AFTER_RESET`].
    pub const IDENTITY: usize = 0x224;
    /// w: 1 = the register block is dead: reads return 0xFFFFFFFF, writes are lost. The control BAR still works.
    pub const DEAD: usize = 0x228;
    /// w: idle bits show busy for n microseconds after the GPU becomes idle.
    pub const IDLE_DELAY: usize = 0x22c;
    /// w: seed of the random phase of the WAIT/LINK poll and of the pixel engine's lag.
    pub const POLL_SEED: usize = 0x230;
    /// w: 1 = TLBs are off, and every access reads the page table; 0 = TLBs keep entries until flushed.
    pub const TLB_OFF: usize = 0x234;
    /// w: the next n events are lost completely: no pending bit, no interrupt.
    pub const LOSE_EVENTS: usize = 0x238;

    /// w: 1 = an event during the delay of an interrupt ([`DELAY_INTERRUPTS`]) restarts the delay, so that close
    /// events share one interrupt.
    pub const GATHER_INTERRUPTS: usize = 0x23c;
    /// w: while not 0, the front end executes no command. It stays at its address, or at the address of a start. Work
    /// that the engines already have continues. Other cores are not affected.
    pub const HOLD: usize = 0x240;

    /// w: on a VG core, the order of its modules' events and the interrupt of END: [`EVENTS_FREE`] and the following
    /// constants.
    pub const EVENT_ORDER: usize = 0x244;

    /// w: how [`HANG_AT_COMMAND`], [`HANG_AT_DRAW`] and [`HANG_AT_COLOUR`] hang: [`HANG_SILENT`] or one of the
    /// following constants.
    pub const HANG_KIND: usize = 0x248;
    /// w: the n-th draw from now never ends, and later work in the engine, including events and semaphores, never
    /// completes. The front end continues until it has to wait. 0 disarms; a hung draw then continues.
    pub const ENDLESS_DRAW: usize = 0x24c;
    /// w: each draw takes n additional microseconds, until set to 0. The pixel engine's counters advance in this
    /// time.
    pub const SLOW_DRAWS: usize = 0x250;
    /// w: the state of the interrupt line: [`LINE_WORKS`] and the following constants.
    pub const LINE: usize = 0x254;
    /// w: the value that [`IDENTITY`] gets at the next soft reset, which clears this register.
    pub const IDENTITY_AFTER_RESET: usize = 0x258;

    /// w: the front end hangs at each draw with this color (of a 2D clear or a resolve fill), in the way of
    /// [`HANG_KIND`]; 0 disarms. This lets a process hang by its own commands, independent of other processes' draws.
    pub const HANG_AT_COLOUR: usize = 0x25c;

    /// w: 1 = soft resets never become idle, as with [`RESET_STUCK`], until a reset by the line
    /// ([`RESET_LINE`](super::RESET_LINE)), which clears this register.
    pub const RESET_NEEDS_LINE: usize = 0x260;

    /// w: the same until the power domain is turned off ([`POWER`](super::POWER)), which clears this register.
    pub const RESET_NEEDS_POWER: usize = 0x264;

    /// w: number of bytes, at most 64 and a multiple of 8, by which the front end's address register runs ahead of a
    /// stall, also along LINKs. It models the prefetch during the wait.
    pub const FETCH_AHEAD: usize = 0x268;

    /// [`HANG_KIND`]: the front end stops at the command.
    pub const HANG_SILENT: u32 = 0;
    /// [`HANG_KIND`]: the same, and the fetched words show an invalid opcode.
    pub const HANG_ILLEGAL_OPCODE: u32 = 1;
    /// [`HANG_KIND`]: the front end stalls for a semaphore that never comes.
    pub const HANG_STALL: u32 = 2;
    /// [`HANG_KIND`]: an MMU exception at the command's address, reported by interrupt bit 30 and, with MMU v2, its
    /// registers.
    pub const HANG_MMU_EXCEPTION: u32 = 3;
    /// [`HANG_KIND`]: a bus error, reported by interrupt bit 31 and the bus status.
    pub const HANG_BUS_ERROR: u32 = 4;

    /// [`LINE`]: it works.
    pub const LINE_WORKS: u32 = 0;
    /// [`LINE`]: it never rises.
    pub const LINE_LOW: u32 = 1;
    /// [`LINE`]: it never falls: interrupts come about 2 ms apart, regardless of acknowledgments.
    pub const LINE_HIGH: u32 = 2;

    /// [`EVENT_ORDER`]: before or after END's interrupt, without a fixed order.
    pub const EVENTS_FREE: u32 = 0;
    /// [`EVENT_ORDER`]: before END's interrupt, which waits until all modules have drained.
    pub const EVENTS_FIRST: u32 = 1;
    /// [`EVENT_ORDER`]: after END's interrupt is acknowledged, or about 20 ms after it. Until then the modules work
    /// only for stalls.
    pub const EVENTS_LAST: u32 = 2;

    /// [`IDENTITY`]: the true model.
    pub const IDENTITY_OK: u32 = 0;
    /// [`IDENTITY`]: the model register reads 0.
    pub const IDENTITY_ZERO: u32 = 1;
    /// [`IDENTITY`]: the model register reads 0xFFFFFFFF.
    pub const IDENTITY_ONES: u32 = 2;
    /// [`IDENTITY`]: the model register reads as another core's, 0x1000.
    pub const IDENTITY_OTHER: u32 = 3;
}

/// A core. `Dove` is named after the board, which has only this core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Board {
    /// Marvell Dove (CuBox): GC600, 2D and 3D in one core.
    Dove = 0,
    /// i.MX6 Quad: GC2000, 3D only.
    Gc2000 = 1,
    /// i.MX6 DualLite: GC880, 3D only.
    Gc880 = 2,
    /// i.MX6: GC320, 2D only.
    Gc320 = 3,
    /// i.MX6 QuadPlus: GC3000, 3D only, with MMU v2.
    Gc3000 = 4,
    /// i.MX6 QuadPlus: its GC320, 2D only, with MMU v2.
    Gc320Qp = 5,
    /// i.MX6: GC355, vector graphics only.
    Gc355 = 6,
    /// i.MX6 QuadPlus: its GC355, vector graphics only.
    Gc355Qp = 7,
    /// i.MX8M Plus: GC520L, 2D only, with MMU v2.
    Gc520l = 8,
    /// i.MX8M Plus: its neural core, GC8000, with MMU v2.
    Npu = 9,
    /// i.MX8M Plus: GC7000UL, 3D only, with MMU v2.
    Gc7000ul = 10,
}

impl Board {
    /// All boards.
    pub const ALL: [Board; 11] = [
        Board::Dove,
        Board::Gc2000,
        Board::Gc880,
        Board::Gc320,
        Board::Gc3000,
        Board::Gc320Qp,
        Board::Gc355,
        Board::Gc355Qp,
        Board::Gc520l,
        Board::Npu,
        Board::Gc7000ul,
    ];

    /// The name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Board::Dove => "dove",
            Board::Gc2000 => "gc2000",
            Board::Gc880 => "gc880",
            Board::Gc320 => "gc320",
            Board::Gc3000 => "gc3000",
            Board::Gc320Qp => "gc320-qp",
            Board::Gc355 => "gc355",
            Board::Gc355Qp => "gc355-qp",
            Board::Gc520l => "gc520l",
            Board::Npu => "npu",
            Board::Gc7000ul => "gc7000ul",
        }
    }

    /// The board of this name.
    pub fn from_name(name: &str) -> Option<Board> {
        Board::ALL.into_iter().find(|board| board.name() == name)
    }

    /// The board with this code in [`BOARD`].
    pub fn from_code(code: u32) -> Option<Board> {
        Board::ALL.into_iter().find(|board| *board as u32 == code)
    }
}

/// Activity of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FrontEndState {
    /// Never started, at END, or reset.
    Stopped = 0,
    /// Fetching and executing.
    Running = 1,
    /// In a WAIT (the idle loop).
    Waiting = 2,
    /// In a STALL.
    Stalled = 3,
    /// Hung; only a reset helps.
    Hung = 4,
}

impl FrontEndState {
    /// The state with this code in [`FE_STATE`].
    pub fn from_code(code: u32) -> Option<FrontEndState> {
        use FrontEndState::*;
        [Stopped, Running, Waiting, Stalled, Hung]
            .into_iter()
            .find(|state| *state as u32 == code)
    }
}

macro_rules! violation_kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Violations of hardware rules by a driver or a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum ViolationKind { $($(#[$doc])* $name = $code,)* }

        impl ViolationKind {
            /// All kinds.
            pub const ALL: &'static [ViolationKind] = &[$(ViolationKind::$name,)*];

            /// The name used in reports.
            pub const fn name(self) -> &'static str {
                match self { $(ViolationKind::$name => $text,)* }
            }

            /// The kind with this code in [`LAST_VIOLATION`].
            pub fn from_code(code: u32) -> Option<ViolationKind> {
                ViolationKind::ALL.iter().copied().find(|kind| *kind as u32 == code)
            }
        }
    };
}

violation_kinds! {
    /// The front end decoded an invalid opcode. It hangs.
    IllegalOpcode = 1, "illegal-opcode";
    /// The front end fetched beyond the window announced by the start or LINK. It hangs.
    PrefetchOverrun = 2, "prefetch-overrun";
    /// A LINK, CALL, RETURN or start to an address that is not a multiple of 8. It hangs.
    MisalignedLink = 3, "misaligned-link";
    /// A 2D command in the 3D pipe, or the reverse. The front end hangs.
    WrongPipe = 4, "wrong-pipe";
    /// Work for a missing engine, or selection of its pipe. The front end hangs.
    MissingEngine = 5, "missing-engine";
    /// A stall on a token whose semaphore was never armed, or by a load of the state for a token of the front end. The front end hangs.
    UnarmedStall = 6, "unarmed-stall";
    /// An access outside of memory: an AXI bus error.
    BusError = 7, "bus-error";
    /// A translation used a TLB entry that is no longer in the page table.
    StaleTlb = 8, "stale-tlb";
    /// An access to a nonexistent register of this core, or a write to a read-only one.
    UnknownRegister = 9, "unknown-register";
    /// A register access that is not an aligned 32-bit one.
    RegisterAccess = 10, "register-access";
    /// A LOAD_STATE to the host's registers or the front end's command registers; it has no effect.
    HostRegisterLoad = 11, "host-register-load";
    /// Two events from the pixel engine without the delay words that this core requires between them.
    EventMerge = 12, "event-merge";
    /// An event without a source, with two sources, or with the id of an exception (31).
    BadEvent = 13, "bad-event";
    /// A feature that the model does not have; memory is unchanged.
    Unsupported = 14, "unsupported";
    /// A resolve window that hangs silicon, or unsupported addresses or strides. The front end hangs.
    ResolveWindow = 15, "resolve-window";
    /// PIPE_SELECT while the pixel engine has work without a stall for it.
    PipeSwitchBusy = 16, "pipe-switch-busy";
    /// A soft reset without isolation.
    ResetSequence = 17, "reset-sequence";
    /// A start of the front end with clocks off, isolated, already running, or without the memory base programmed.
    FrontEndStart = 18, "front-end-start";
    /// A 2D draw with a misaligned surface, an unknown format or a bad command.
    BadDraw = 19, "bad-draw";
    /// A translation through a page table that was not programmed since reset.
    NoPageTable = 20, "no-page-table";
    /// MMU v2 denied an access: the page is missing, or a write to a read-only page.
    MmuException = 21, "mmu-exception";
    /// Wrong setup of MMU v2: misaligned tables, enabled without tables or during work, or disabled.
    MmuSetup = 22, "mmu-setup";
    /// A VG core's address with an invalid tag, or beyond its page table.
    VgAddress = 23, "vg-address";
    /// An invalid command of a VG core's front end: a count of 0, an unknown module, RETURN without CALL.
    VgCommand = 24, "vg-command";
    /// An access to a register of a core with its clock or power off.
    PoweredOff = 25, "powered-off";
    /// Clock or power removed from a core with unfinished work that is not isolated from the bus.
    PowerOffBusy = 26, "power-off-busy";
    /// The clock's divider was loaded with a value outside 1 to 64.
    ClockDivider = 27, "clock-divider";
    /// An event from the pixel engine, or a flush of translations, while a cache contains data that was not written
    /// back: of tile status, or, for a flush of translations, of pixels. Later it reaches memory that may be in use
    /// by others.
    UnflushedCache = 28, "unflushed-cache";
    /// The front end fetched memory that an engine wrote. Only the kernel may write commands, with the processor.
    ExecutedWrite = 29, "executed-write";
    /// A 3D draw with states that hang silicon: vertex elements that do not match the shader's inputs, a shader with
    /// more temporaries than configured, a missing or invalid shader, a sampler that is not set up, or a scissor
    /// without its fraction. The front end hangs.
    DrawState = 30, "draw-state";
}
