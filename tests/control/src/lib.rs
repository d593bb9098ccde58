// SPDX-License-Identifier: GPL-2.0-only
//! Layout of the control BAR (PCI BAR 2, 4 KiB) of the software GPU.
//!
//! A guest program maps `/sys/bus/pci/devices/0000:00:01.0/resource2`, or what [`CONTROL_VARIABLE`] names, and uses plain
//! aligned 32-bit loads and stores at the byte offsets below. Accesses to this BAR are not counted as GPU register accesses.
//!
//! A board with several cores has a PCI device for each, at [`PLACES`] in the order 3D, 2D, VG, with a control BAR of its
//! own: counters, violations, expectations and faults are that core's.
//!
//! Registers are little-endian 32-bit words. "w" registers read back as what is still armed, unless said
//! otherwise. Writes to read-only offsets have no effect.

#![no_std]
#![forbid(unsafe_code)]

pub mod frames;

/// GPU addresses from here on are the driver's scratch memory. Faults of draws leave draws to it alone: it clears that
/// between processes, and so small a draw takes no time.
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

/// Environment variable of the guest with the control BAR of each core, `FILE:OFFSET` each and separated by blanks; not set
/// where the cores' PCI devices have them.
pub const CONTROL_VARIABLE: &str = "GALCORE_CONTROL";

/// Where the virtual board has a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Slot on PCI bus 0.
    pub slot: u32,
    /// Where Linux puts BAR 0.
    pub registers: u32,
    /// Number of the shared interrupt of the GIC (SPI) that INTA of the slot raises.
    pub interrupt: u32,
}

/// The places of a board's cores, in their order. Slot 2 has the runner's serial ports.
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
/// What [`MAGIC`] reads as ("GPUC").
pub const MAGIC_VALUE: u32 = 0x4350_5547;
/// ro: [`VERSION_VALUE`]; goes up when an offset changes its meaning.
pub const VERSION: usize = 0x004;
/// What [`VERSION`] reads as.
pub const VERSION_VALUE: u32 = 1;
/// ro: which core the model plays, a code of [`Board`].
pub const BOARD: usize = 0x008;
/// ro: state of the front end, a code of [`FrontEndState`].
pub const FE_STATE: usize = 0x00c;
/// ro: GPU address of the front end's next 64-bit unit.
pub const FE_ADDRESS: usize = 0x010;
/// ro: violations so far that were not expected (they fail the run).
pub const VIOLATIONS: usize = 0x014;
/// ro: kind of the latest violation, expected or not, a code of [`ViolationKind`]; 0 = none so far.
pub const LAST_VIOLATION: usize = 0x018;
/// ro: stream position (GPU address), or register offset for register violations, of the latest violation.
pub const LAST_VIOLATION_ADDRESS: usize = 0x01c;
/// ro: violations so far that a test had declared by [`EXPECT_VIOLATION`].
pub const EXPECTED_SEEN: usize = 0x020;
/// ro: warnings so far.
pub const WARNINGS: usize = 0x024;
/// ro: pending interrupt bits, read without acknowledging them.
pub const PENDING_INTERRUPTS: usize = 0x028;
/// ro: 1 while rectangles, resolves or events wait in the pixel engine's queue.
pub const WORK_PENDING: usize = 0x02c;
/// ro: milliseconds for which the host kept threads of the machine and of the model waiting for a processor so far, all
/// of them together; 0 where the host does not say. Of time in the guest that much at most was the host's doing.
pub const HOST_WAIT: usize = 0x030;

/// 64-bit counters: low word at the offset, high word at the offset + 4. Reading the low word latches the high one.
pub mod counter {
    /// Reads of the GPU's register block.
    pub const MMIO_READS: usize = 0x040;
    /// Writes to the GPU's register block.
    pub const MMIO_WRITES: usize = 0x048;
    /// Commands executed by the front end, without those of an idle WAIT/LINK loop.
    pub const COMMANDS: usize = 0x050;
    /// 2D rectangles executed (also those clipped away), one for each rectangle of a DRAW_2D.
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
    /// Flushes of a TLB by the stream (state 0x3810; 0x184 with MMU v2).
    pub const TLB_FLUSHES: usize = 0x0a8;
    /// Pixels written by the 2D engine and by resolve.
    pub const PIXELS: usize = 0x0b0;
    /// Bytes the GPU read from guest memory, without the idle WAIT/LINK loop.
    pub const BYTES_READ: usize = 0x0b8;
    /// Bytes the GPU wrote to guest memory.
    pub const BYTES_WRITTEN: usize = 0x0c0;
    /// Rectangles of a VG core drawn (also those clipped away).
    pub const VG_RECTANGLES: usize = 0x0c8;
    /// Path data of a VG core consumed: DATA commands with the tessellator on.
    pub const VG_PATHS: usize = 0x0d0;
    /// Pulses of the reset line, see [`RESET_LINE`](super::RESET_LINE).
    pub const LINE_RESETS: usize = 0x0d8;
    /// How often the core got power again, see [`POWER`](super::POWER).
    pub const POWER_UPS: usize = 0x0e0;
    /// How often its clock came again.
    pub const CLOCK_UPS: usize = 0x0e8;
    /// Vertices that a vertex shader ran for.
    pub const VERTICES: usize = 0x130;
    /// Points, lines and triangles of 3D draws.
    pub const PRIMITIVES: usize = 0x138;
    /// Of these, those that faced away or had no area.
    pub const CULLED: usize = 0x140;
    /// Of these, those that were not in the view, or in it in part.
    pub const CLIPPED: usize = 0x148;
    /// Squares of 2 x 2 pixels that a pixel shader ran for.
    pub const QUADS: usize = 0x150;
    /// Pixels of 3D draws that passed all tests.
    pub const PIXELS_3D: usize = 0x158;
    /// Instructions of shaders, for each vertex or pixel.
    pub const INSTRUCTIONS: usize = 0x160;
    /// Texels that shaders asked for.
    pub const TEXELS: usize = 0x168;
    /// All counters: name and offset.
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
    /// Offset of the first of those of 3D draws.
    pub const FIRST_3D: usize = VERTICES;
    /// The place of a counter in [`ALL`], by its offset.
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
/// w: the physical address of [`STATE_DUMP_BYTES`] of guest memory, to which all words of the state memory are written
/// now, by word address. A multiple of 4; memory that is not there stays unwritten.
pub const STATE_DUMP: usize = 0x114;
/// Bytes that [`STATE_DUMP`] writes.
pub const STATE_DUMP_BYTES: usize = 0x4_0000;
/// w: the physical address of [`FETCH_DUMP_BYTES`] of guest memory, to which the last [`FETCH_DUMP_UNITS`] units that the
/// front end fetched are written now, the oldest first, and are then forgotten. For each, four words: its GPU address, its
/// two words, 1. Zeros follow the newest. An idle loop is there once. The address is a multiple of 4.
pub const FETCH_DUMP: usize = 0x118;
/// The most units that [`FETCH_DUMP`] writes.
pub const FETCH_DUMP_UNITS: usize = 8192;
/// Bytes that [`FETCH_DUMP`] writes.
pub const FETCH_DUMP_BYTES: usize = FETCH_DUMP_UNITS * 16;
/// w: the physical address of [`WRITEABLE_DUMP_BYTES`] of guest memory, to which the memory that engines may write is
/// written now, as MMU version 2's tables have it: for each range four words, the lowest GPU address that leads to its
/// beginning, bits 31:0 of its physical address, its bytes, and 1 with bits 39:32 of the address in bits 15:8. Zeros follow
/// the last. No ranges before the tables are loaded, and none with another MMU. The address is a multiple of 4.
pub const WRITEABLE_DUMP: usize = 0x128;
/// The most ranges that [`WRITEABLE_DUMP`] writes.
pub const WRITEABLE_DUMP_RANGES: usize = 8192;
/// Bytes that [`WRITEABLE_DUMP`] writes.
pub const WRITEABLE_DUMP_BYTES: usize = WRITEABLE_DUMP_RANGES * 16;
/// rw: bit 0 holds the core in the reset of its line, as a reset controller does (`snps,dw-high-reset` is one whose
/// register this may be). When it falls the core is as at power-on.
pub const RESET_LINE: usize = 0x11c;
/// rw: what the core gets from the board's power controller: [`POWER_CLOCK`], [`POWER_DOMAIN`]; both at first. An access
/// to a register of a core that lacks one is a violation (on silicon the machine stops). Without the clock it stands
/// still, and must not be in the middle of anything; with the domain it loses all of its state.
pub const POWER: usize = 0x120;
/// In [`POWER`]: its clock runs.
pub const POWER_CLOCK: u32 = 1;
/// In [`POWER`]: its power domain is on.
pub const POWER_DOMAIN: u32 = 2;
/// ro: 64ths of its clock that the core runs at: what its clock register's divider was loaded with. 64 at power-on, and
/// for a core without a divider (VG).
pub const SCALE: usize = 0x124;
/// w: declares that a violation is about to be provoked: kind in bits 15:0, how often in bits 31:16 (0 = once,
/// 0xFFFF = any number, until [`CLEAR_EXPECTATIONS`]). Expected violations have their effect on the GPU (a hang
/// stays a hang) but do not fail the run. Reads as the number of expectations still open.
pub const EXPECT_VIOLATION: usize = 0x10c;
/// w: any write forgets all open expectations.
pub const CLEAR_EXPECTATIONS: usize = 0x110;
/// In [`EXPECT_VIOLATION`]: this kind any number of times.
pub const EXPECT_ANY_NUMBER: u32 = 0xffff_0000;

/// Faults that a test can arm.
pub mod fault {
    /// w: any write disarms all faults of this module and leaves the poll seed alone.
    pub const CLEAR_ALL: usize = 0x200;
    /// w: the front end hangs instead of executing the n-th command from now (1 = the next one, the commands of the
    /// idle loop not counted), in the way of [`HANG_KIND`]; 0 disarms.
    pub const HANG_AT_COMMAND: usize = 0x204;
    /// w: the front end hangs at the n-th draw (2D, 3D or resolve kick) from now; 0 disarms.
    pub const HANG_AT_DRAW: usize = 0x208;
    /// w: the next n events set their pending bit without raising the interrupt line.
    pub const DROP_INTERRUPTS: usize = 0x20c;
    /// w: interrupts come n microseconds late, until set to 0.
    pub const DELAY_INTERRUPTS: usize = 0x210;
    /// w: for each of the next n events one more interrupt comes as soon as the line is acknowledged, with nothing
    /// pending.
    pub const DUPLICATE_INTERRUPTS: usize = 0x214;
    /// w: raises n interrupts with nothing pending, about 2 ms apart. Reads as those still to come.
    pub const SPURIOUS_INTERRUPTS: usize = 0x218;
    /// w: sets these bits in the interrupt acknowledge register now (30 = MMU exception, 31 = AXI bus error).
    pub const RAISE_BITS: usize = 0x21c;
    /// w: the next n soft resets never become idle (the idle bits of 0x000 and 0x004 read 0 until a later reset
    /// works or the fault is disarmed); 0xFFFFFFFF = all.
    pub const RESET_STUCK: usize = 0x220;
    /// w: the chip model register (0x020) reads as a stranger, a value of [`IDENTITY_OK`] and following. See also
    /// [`IDENTITY_AFTER_RESET`].
    pub const IDENTITY: usize = 0x224;
    /// w: 1 = the register block is dead: reads give 0xFFFFFFFF, writes are lost. The control BAR goes on.
    pub const DEAD: usize = 0x228;
    /// w: idle bits show busy for n microseconds after the GPU became idle.
    pub const IDLE_DELAY: usize = 0x22c;
    /// w: seed of the random phase of the WAIT/LINK poll and of the pixel engine's lag.
    pub const POLL_SEED: usize = 0x230;
    /// w: 1 = TLBs keep nothing (every access reads the page table); 0 = they keep entries until flushed.
    pub const TLB_OFF: usize = 0x234;
    /// w: the next n events are lost altogether: no pending bit, no interrupt.
    pub const LOSE_EVENTS: usize = 0x238;

    /// w: 1 = an event that comes while an interrupt is late ([`DELAY_INTERRUPTS`]) makes it as late again: one interrupt
    /// for all that come close behind each other.
    pub const GATHER_INTERRUPTS: usize = 0x23c;
    /// w: while not 0, the front end executes no command: it stays where it is, or where a start puts it. What the engines
    /// have got already goes on. Other cores do not notice.
    pub const HOLD: usize = 0x240;

    /// w: on a VG core, how its modules' events come against the interrupt of END: [`EVENTS_FREE`] and following.
    pub const EVENT_ORDER: usize = 0x244;

    /// w: how [`HANG_AT_COMMAND`], [`HANG_AT_DRAW`] and [`HANG_AT_COLOUR`] hang, one of [`HANG_SILENT`] and following.
    pub const HANG_KIND: usize = 0x248;
    /// w: the n-th draw from now never ends: what is behind it in the engine, events and semaphores too, never comes. The
    /// front end goes on until it has to wait. 0 disarms; what hangs goes on then.
    pub const ENDLESS_DRAW: usize = 0x24c;
    /// w: each draw takes n microseconds more, until set to 0. The pixel engine's counters move meanwhile.
    pub const SLOW_DRAWS: usize = 0x250;
    /// w: the interrupt line is stuck: [`LINE_WORKS`] and following.
    pub const LINE: usize = 0x254;
    /// w: what [`IDENTITY`] becomes at the next soft reset, which clears this.
    pub const IDENTITY_AFTER_RESET: usize = 0x258;

    /// w: the front end hangs at each draw whose colour (of a 2D clear, of a resolve fill) is this, in the way of
    /// [`HANG_KIND`]; 0 disarms. So a process can hang by its own commands, whoever else draws.
    pub const HANG_AT_COLOUR: usize = 0x25c;

    /// w: 1 = soft resets never become idle, as with [`RESET_STUCK`], until the core is reset by its line
    /// ([`RESET_LINE`](super::RESET_LINE)), which clears this.
    pub const RESET_NEEDS_LINE: usize = 0x260;

    /// w: the same until its power domain has been off ([`POWER`](super::POWER)), which clears this.
    pub const RESET_NEEDS_POWER: usize = 0x264;

    /// w: how many bytes, at most 64 and a multiple of 8, the front end's address register runs ahead of a stall, along
    /// LINKs: what it has fetched while it waits.
    pub const FETCH_AHEAD: usize = 0x268;

    /// [`HANG_KIND`]: it stands still at the command.
    pub const HANG_SILENT: u32 = 0;
    /// [`HANG_KIND`]: the same, and the fetched words show an opcode that does not exist.
    pub const HANG_ILLEGAL_OPCODE: u32 = 1;
    /// [`HANG_KIND`]: it stalls for a semaphore that never comes.
    pub const HANG_STALL: u32 = 2;
    /// [`HANG_KIND`]: an MMU exception at the command's address, told by interrupt bit 30 and, with MMU v2, its registers.
    pub const HANG_MMU_EXCEPTION: u32 = 3;
    /// [`HANG_KIND`]: a bus error, told by interrupt bit 31 and the status of the bus.
    pub const HANG_BUS_ERROR: u32 = 4;

    /// [`LINE`]: it works.
    pub const LINE_WORKS: u32 = 0;
    /// [`LINE`]: it never rises.
    pub const LINE_LOW: u32 = 1;
    /// [`LINE`]: it never falls: interrupts come about 2 ms apart whatever is acknowledged.
    pub const LINE_HIGH: u32 = 2;

    /// [`EVENT_ORDER`]: before END's or after it, as it happens.
    pub const EVENTS_FREE: u32 = 0;
    /// [`EVENT_ORDER`]: before END's, which waits until all modules have drained.
    pub const EVENTS_FIRST: u32 = 1;
    /// [`EVENT_ORDER`]: after END's is acknowledged, or some 20 ms after it: the modules do nothing before, but for stalls.
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

/// A core. `Dove` has the name of the board whose only one it is.
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

    /// The name used on command lines.
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

/// What the front end is doing.
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
    /// Hung for good; only a reset helps.
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
        /// What a driver or client did that silicon forbids.
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
    /// The front end decoded an opcode that it does not have. It hangs.
    IllegalOpcode = 1, "illegal-opcode";
    /// The front end fetched past the window that the start or LINK announced. It hangs.
    PrefetchOverrun = 2, "prefetch-overrun";
    /// A LINK, CALL, RETURN or start to an address that is not a multiple of 8. It hangs.
    MisalignedLink = 3, "misaligned-link";
    /// A 2D command in the 3D pipe or the other way round. The front end hangs.
    WrongPipe = 4, "wrong-pipe";
    /// Work for an engine that this core does not have, or its pipe selected. The front end hangs.
    MissingEngine = 5, "missing-engine";
    /// A stall on a token whose semaphore was never armed. The front end hangs.
    UnarmedStall = 6, "unarmed-stall";
    /// An access outside of memory: an AXI bus error.
    BusError = 7, "bus-error";
    /// A translation used a TLB entry that the page table no longer has.
    StaleTlb = 8, "stale-tlb";
    /// An access to a register that this core does not have, or a write to one that is read-only.
    UnknownRegister = 9, "unknown-register";
    /// A register access that is not an aligned 32-bit one.
    RegisterAccess = 10, "register-access";
    /// A LOAD_STATE into the host's registers or the front end's command registers; it has no effect.
    HostRegisterLoad = 11, "host-register-load";
    /// Two events from the pixel engine without the delay words that this core needs between them.
    EventMerge = 12, "event-merge";
    /// An event without a source, with two sources, or with the id of an exception (31).
    BadEvent = 13, "bad-event";
    /// A feature that the model does not have; memory stays as it was.
    Unsupported = 14, "unsupported";
    /// A resolve window that hangs silicon, or addresses or strides that it cannot do. The front end hangs.
    ResolveWindow = 15, "resolve-window";
    /// PIPE_SELECT while the pixel engine has work that nobody stalled for.
    PipeSwitchBusy = 16, "pipe-switch-busy";
    /// A soft reset without isolation.
    ResetSequence = 17, "reset-sequence";
    /// A start of the front end with clocks off, isolated, already running, or without the memory base programmed.
    FrontEndStart = 18, "front-end-start";
    /// A 2D draw with a misaligned surface, an unknown format or a bad command.
    BadDraw = 19, "bad-draw";
    /// A translation through a page table that nobody programmed since reset.
    NoPageTable = 20, "no-page-table";
    /// MMU v2 did not let an access through: no page there, or a write to one that is not writeable.
    MmuException = 21, "mmu-exception";
    /// MMU v2 set up wrongly: misaligned tables, enabled without them or amid work, switched off.
    MmuSetup = 22, "mmu-setup";
    /// A VG core's address that has a tag that means nothing, or lies beyond its page table.
    VgAddress = 23, "vg-address";
    /// A command of a VG core's front end that cannot be: a count of 0, an unknown module, RETURN without CALL.
    VgCommand = 24, "vg-command";
    /// An access to a register of a core whose clock or power is off.
    PoweredOff = 25, "powered-off";
    /// Clock or power taken from a core in the middle of its work, and not cut off from the bus.
    PowerOffBusy = 26, "power-off-busy";
    /// The clock's divider was loaded with something that is not 1 to 64.
    ClockDivider = 27, "clock-divider";
    /// An event from the pixel engine, or a flush of translations, while a cache has what nobody wrote back: of tile
    /// status, or, where translations are flushed, of pixels. It goes to memory later, where something else may be.
    UnflushedCache = 28, "unflushed-cache";
    /// The front end fetched what an engine wrote. What it executes is the kernel's, which writes with the processor.
    ExecutedWrite = 29, "executed-write";
    /// A 3D draw whose states hang silicon: vertex elements that are not the shader's inputs, a shader with more
    /// temporaries than it is set up with, that does not exist or cannot be executed, a sampler that was not set up, a
    /// scissor without its fraction. The front end hangs.
    DrawState = 30, "draw-state";
}
