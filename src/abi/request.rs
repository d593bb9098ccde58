// SPDX-License-Identifier: GPL-2.0-only

//! What a command asks for, whichever generation it came in.
//!
//! A variant without a doc line is the command of its name. `user` is a user address, `node`,
//! `handle`, `id` and `info` are handles of the process's.

use super::*;
use crate::error::Error;
use kernel::fmt::{
    self,
    Write, //
};

/// What a command asks for.
///
/// Its tag is its own: inside of a 64-bit field it takes 32-bit machines several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    QueryVideoMemory,
    QueryChipIdentity,
    QueryKernelSettings,
    GetBaseAddress,
    GetMmuVersion,
    Version,
    ChipInfo,
    /// ALLOCATE_CONTIGUOUS_MEMORY and ALLOCATE_NON_PAGED_MEMORY.
    AllocateContiguous {
        bytes: u64,
        /// NON_PAGED: counted apart.
        non_paged: bool,
    },
    /// FREE_CONTIGUOUS_MEMORY and FREE_NON_PAGED_MEMORY.
    FreeContiguous(NamedBuffer),
    /// QUERY_CHIP_OPTION.
    ChipOptions,
    /// ALLOCATE_VIDEO_MEMORY.
    AllocateSurface(Surface),
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    AllocateLinear {
        bytes: u32,
        /// Of the offset in the pool.
        alignment: u32,
        kind: u32,
        /// `gcePOOL`.
        pool: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Lock {
        node: u32,
        /// The user's mapping is to be cached.
        cacheable: bool,
        /// Who has a page-backed node locked may lock it again.
        again: bool,
        parts: Parts,
    },
    /// UNLOCK_VIDEO_MEMORY.
    Unlock {
        node: u32,
        parts: Parts,
        /// The lock goes with the record that follows, whatever the node is.
        later: bool,
    },
    /// NAME_VIDEO_MEMORY.
    NameNode {
        node: u32,
    },
    /// IMPORT_VIDEO_MEMORY.
    ImportNode {
        /// What NAME_VIDEO_MEMORY answered.
        name: u32,
    },
    /// WRAP_USER_MEMORY: the GPU may write it, if the process may.
    Wrap {
        what: Foreign,
        /// The process's own memory must be whole lines of the cache.
        in_lines: bool,
    },
    /// EXPORT_VIDEO_MEMORY and GET_VIDEO_MEMORY_FD.
    ExportNode {
        node: u32,
        /// Flags of `open` for the descriptor; `None`: for reading and writing, and closed by
        /// `exec`.
        flags: Option<u32>,
    },
    /// SET_VIDEO_MEMORY_METADATA.
    SetMetadata {
        node: u32,
        metadata: NodeMetadata,
    },
    /// SET_VIDEO_MEMORY_METADATA that asks.
    ReadMetadata {
        node: u32,
    },
    /// GET_GRAPHIC_BUFFER_FD.
    KeepGraphicBuffer {
        /// Nodes; 0: none.
        nodes: [u32; GRAPHIC_BUFFER_NODES],
        /// A shared buffer, or 0.
        piece: u32,
        /// A signal, or 0.
        signal: u32,
    },
    /// SHBUF.
    SharedBuffer(SharedBuffer),
    /// CREATE_NATIVE_FENCE.
    CreateFence {
        /// The signal whose next setting it is about.
        signal: u32,
    },
    /// WAIT_NATIVE_FENCE.
    WaitFence {
        fd: i32,
        /// How long; all ones is for ever.
        milliseconds: u32,
    },
    /// WAIT_FENCE: wait for the kernel's own fence of a node, which there is none of.
    WaitNode {
        node: u32,
    },
    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: what else a record of a queue does.
    FinishUnlock {
        node: u32,
        /// It takes the lock off whatever the node is.
        later: bool,
    },
    /// FREE_VIDEO_MEMORY and RELEASE_VIDEO_MEMORY.
    FreeNode {
        node: u32,
        /// A locked one is refused; else it waits for its last unlock.
        if_unlocked: bool,
    },
    UserSignal(UserSignal),
    Attach {
        /// Contexts keep what those from 5.0.11 on do.
        newer: bool,
    },
    Detach {
        context: u32,
        /// Of an unknown one it fails; else nothing is to be done.
        must_exist: bool,
    },
    Commit(Commit),
    /// COMMIT for several cores of a kind: the first one's part, and how many there are
    /// ([`Format::decode_part`]).
    CommitAll {
        /// The first one's.
        first: Commit,
        /// 2 to [`MAX_PARTS`].
        count: u32,
    },
    /// COMMIT for the vector graphics core.
    VectorCommit(vector::Commit),
    QueryCommandBuffer,
    EventCommit {
        /// First `gcsQUEUE`.
        queue: u64,
        /// How to read it.
        format: Format,
    },
    Stall {
        /// Not longer than SET_TIMEOUT says.
        is_limited: bool,
    },
    Cache(CacheRange),
    MapMemory {
        handle: u32,
    },
    /// MAP_MEMORY of the pool.
    MapPool {
        /// Bytes, however many.
        bytes: u64,
    },
    /// UNMAP_MEMORY of the pool.
    UnmapPool {
        /// Where it is, or anywhere.
        user: u64,
        /// Bytes, however many.
        bytes: u64,
    },
    UnmapMemory {
        handle: u32,
    },
    /// MAP_USER_MEMORY.
    MapUser {
        user: u64,
        bytes: u64,
    },
    /// MAP_USER_MEMORY of physical memory.
    MapPhysical {
        physical: u32,
        bytes: u64,
    },
    /// UNMAP_USER_MEMORY.
    UnmapUser(NamedUserMemory),
    /// GET_PROFILE_SETTING.
    ProfileSetting {
        /// The generation's builds have a profiler, which can be off.
        is_built: bool,
        /// It is on if nobody has said otherwise.
        is_on: bool,
    },
    /// SET_PROFILE_SETTING, with the text of a file's name.
    SetProfileSetting {
        enable: bool,
        /// The generation's builds have one, which can be off.
        is_built: bool,
    },
    /// READ_ALL_PROFILE_REGISTERS and its parts.
    ReadCounters(CounterSet),
    /// PROFILE_REGISTERS_2D.
    ReadCounters2d {
        /// User address where cycles and pixels go.
        user: u64,
    },
    /// READ_PROFILER_REGISTER_SETTING.
    ClearCounters {
        /// Each reading begins a new count.
        clears: bool,
    },
    ReadRegister {
        address: u32,
        /// It is 0 where the core is off.
        off_reads_zero: bool,
    },
    WriteRegister {
        address: u32,
        data: u32,
        /// It is well where the core is off.
        off_reads_zero: bool,
    },
    /// READ_REGISTER_EX.
    ReadRegisters {
        address: u32,
        /// A bit for each core of the kind.
        cores: u32,
    },
    /// WRITE_REGISTER_EX.
    WriteRegisters {
        address: u32,
        /// A bit for each core of the kind.
        cores: u32,
        /// What is written, by core.
        data: [u32; EX_CORES],
    },
    /// DEBUG, with a text for the log.
    Print,
    /// DUMP_GPU_STATE.
    DumpState,
    /// DUMP_EVENT.
    DumpJobs,
    /// GET_SHARED_INFO.
    ReadShared(SharedInfo),
    /// SET_SHARED_INFO.
    WriteShared(SharedInfo),
    /// QUERY_POWER_MANAGEMENT_STATE.
    QueryPower,
    /// SET_POWER_MANAGEMENT_STATE.
    SetPower {
        state: PowerState,
        /// How it is to be reached.
        way: PowerWay,
    },
    /// CONFIG_POWER_MANAGEMENT.
    ConfigPower {
        /// The core may go off while this process has it open.
        enable: bool,
    },
    /// QUERY_RESET_TIME_STAMP.
    QueryResets,
    /// TIMESTAMP: the time between a timer's start and stop.
    QueryTimer {
        timer: u32,
    },
    /// DATABASE: what a process has.
    Database {
        /// The process; `None`: the client does not say.
        process: Option<u32>,
    },
    /// QUERY_CHIP_FREQUENCY.
    QueryFrequency,
    QueryCpuFrequency,
    /// GET_FSCALE_VALUE.
    QueryScale,
    /// SET_FSCALE_VALUE.
    SetScale {
        /// 64ths of the clock, from 1 to 64.
        scale: u32,
    },
    SetTimeout {
        /// For STALL, in milliseconds.
        milliseconds: u32,
    },
    Reset {
        /// It succeeds whatever comes of it; else only if a core was reset.
        succeeds: bool,
    },
    /// BROADCAST_GPU_STUCK.
    GpuStuck,
    /// A command that succeeds and does nothing, as in the C driver's default build.
    Ignored,
    /// A command that does not exist, is not built, only queues may hold, or makes no sense.
    Refused(Error),
}

/// A contiguous buffer as FREE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedBuffer {
    pub(crate) bytes: u64,
    /// The handle, which the interface calls `physical`.
    pub(crate) handle: u32,
    pub(crate) user: u64,
}

/// Pinned user memory as UNMAP_USER_MEMORY names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedUserMemory {
    pub(crate) user: u64,
    pub(crate) bytes: u64,
    pub(crate) info: u32,
}

/// CACHE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheRange {
    /// 1 clean, 2 invalidate, 3 flush, 4 barrier.
    pub(crate) operation: u32,
    pub(crate) user: u64,
    pub(crate) bytes: u64,
    /// The node, 0 for foreign memory; `None`: what the address is.
    pub(crate) node: Option<u32>,
    /// The node is what counts: as much of it as the range names, all without one. Else the range
    /// must be the client's.
    pub(crate) by_node: bool,
}

/// Sub-commands of USER_SIGNAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserSignal {
    /// Makes a signal.
    Create {
        /// It stays set until it is reset.
        manual_reset: bool,
    },
    /// Drops a reference.
    Destroy {
        id: u32,
    },
    /// Sets or resets.
    Signal {
        id: u32,
        /// Set.
        state: bool,
    },
    /// Waits.
    Wait {
        id: u32,
        /// How long; all ones is for ever.
        milliseconds: u32,
    },
    /// Takes a reference.
    Map {
        id: u32,
    },
    Unknown,
}

/// SHBUF: a small piece of memory that processes hand data over in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedBuffer {
    /// Makes one.
    Create {
        bytes: u32,
    },
    /// Drops a reference.
    Destroy {
        id: u32,
    },
    /// Takes a reference.
    Map {
        id: u32,
    },
    /// Copies into it.
    Write {
        id: u32,
        user: u64,
        bytes: u32,
    },
    /// Copies out of it.
    Read {
        id: u32,
        user: u64,
        /// Bytes, at most.
        bytes: u32,
    },
    Unknown,
}

/// Where COMMIT's commands are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// In a `gcoCMDBUF` at this user address.
    Described(u64),
    /// In the request, and the `gcsHAL_COMMAND_LOCATION` with those behind them at this user
    /// address; 0: none.
    Here(CommandBuffer, u64),
}

/// Which parts of a LOCK or an UNLOCK are done: both, where a generation does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) lock: bool,
    /// The view, for the user.
    pub(crate) view: bool,
}

/// COMMIT's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Context handle; 0: none.
    pub(crate) context: u64,
    /// User address of a `gcoCONTEXT`, from clients without ATTACH; 0: none.
    pub(crate) context_buffer: u64,
    pub(crate) commands: Commands,
    /// User address of the first `gcsSTATE_DELTA`; 0: none.
    pub(crate) delta: u64,
    /// User address of the first `gcsQUEUE`; 0: none.
    pub(crate) queue: u64,
    /// The core, where the generation names it here.
    pub(crate) core: Option<u32>,
    /// User address of another core's part, a `gcsHAL_SUBCOMMIT`; 0: none.
    pub(crate) next: u64,
    /// How to read all of these.
    pub(crate) format: Format,
}

/// Which of the profiler's counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterSet {
    /// All in one piece.
    Whole,
    /// The first part.
    First,
    /// The second part.
    Second,
}

/// GET_SHARED_INFO's and SET_SHARED_INFO's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedInfo {
    /// The process whose data is read.
    pub(crate) process: u32,
    pub(crate) id: u32,
    /// User address of the data; 0: none.
    pub(crate) data: u64,
    pub(crate) bytes: u64,
    /// A node; 0: none.
    pub(crate) node: u32,
    /// User address of what is noted of it.
    pub(crate) node_data: u64,
    /// It is a rectangle that grows.
    pub(crate) is_rectangle: bool,
}

/// A text of a client's, in words, up to its zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) [u32; MAX_TEXT_WORDS]);

/// The most words of a text.
pub(crate) const MAX_TEXT_WORDS: usize = 32;

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = self.0.iter().flat_map(|word| word.to_ne_bytes());
        for letter in letters.take_while(|&letter| letter != 0) {
            let is_plain = letter.is_ascii_graphic() || letter == b' ';
            out.write_char(if is_plain { letter.into() } else { '?' })?;
        }
        Ok(())
    }
}

/// A surface by its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    pub(crate) format: u32,
    pub(crate) kind: u32,
    /// `gcePOOL`.
    pub(crate) pool: u32,
}

/// What a core can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HardwareType {
    /// 3D.
    ThreeD,
    /// 2D.
    TwoD,
    Both,
    /// Vector graphics.
    Vector,
    /// Neural networks.
    Neural,
}

impl HardwareType {
    /// What it is called where people read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HardwareType::ThreeD => "3d",
            HardwareType::TwoD => "2d",
            HardwareType::Both => "3d-2d",
            HardwareType::Vector => "vg",
            HardwareType::Neural => "npu",
        }
    }
}

/// Which core a command is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreSelector {
    /// How the generation numbers the kinds.
    numbers: &'static HardwareTypes,
    /// Its kind (`gceHARDWARE_TYPE`).
    hardware_type: u32,
    /// Which of that kind.
    index: u32,
}

impl CoreSelector {
    /// Core number `index` of those with type `hardware_type`, by the numbers of a generation.
    pub(crate) fn new(numbers: &'static HardwareTypes, hardware_type: u32, index: u32) -> Self {
        Self {
            numbers,
            hardware_type,
            index,
        }
    }

    /// The same for a COMMIT that names the core itself.
    pub(crate) fn with_index(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Its kind and which of that, as the request has them.
    pub(crate) fn numbers(self) -> (u32, u32) {
        (self.hardware_type, self.index)
    }

    /// How its generation finds the core.
    pub(crate) fn routing(self) -> Routing {
        self.numbers.routing
    }

    /// Its kind; `None`: the generation has no such number.
    #[inline]
    pub(crate) fn hardware_type(self) -> Option<HardwareType> {
        let numbers = self.numbers;
        match self.hardware_type {
            number if number == numbers.three_d.into() => Some(HardwareType::ThreeD),
            number if number == numbers.two_d.into() => Some(HardwareType::TwoD),
            number if number == numbers.both.into() => Some(HardwareType::Both),
            number if number == numbers.vector.into() => Some(HardwareType::Vector),
            number if number == numbers.neural.into() => Some(HardwareType::Neural),
            _ => None,
        }
    }

    /// Whether its kind is 3D alone.
    #[inline]
    pub(crate) fn is_three_d(self) -> bool {
        self.hardware_type == self.numbers.three_d.into()
    }

    /// Whether the request names no core where the first one is meant then: there is no room for
    /// it, or a number that is no kind's.
    #[inline]
    pub(crate) fn is_unnamed(self) -> bool {
        self.numbers.routing == Routing::Type && self.hardware_type().is_none()
    }

    /// Whether its kind's number is one of those up to `last`.
    #[inline]
    pub(crate) fn is_up_to(self, last: u32) -> bool {
        self.hardware_type <= last
    }

    /// Which of that kind.
    pub(crate) fn index(self) -> usize {
        // CAST: 32 bits into at least 32.
        self.index as usize
    }
}
