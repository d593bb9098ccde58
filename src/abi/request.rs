// SPDX-License-Identifier: GPL-2.0-only

//! Requests of clients, independent of the generation of the interface.
//!
//! A variant without a doc line is the command with its name. `user` is a user address. `node`,
//! `handle`, `id` and `info` are handles of the process.

use super::*;
use crate::error::Error;
use kernel::fmt::{
    self,
    Write, //
};

/// A decoded command.
///
/// `repr` keeps the tag out of 64-bit fields, where 32-bit machines need several instructions.
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
        /// NON_PAGED, which has a separate account.
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
        /// The alignment of the offset in the pool.
        alignment: u32,
        kind: u32,
        /// `gcePOOL`.
        pool: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Lock {
        node: u32,
        /// Requests a cached user mapping.
        cacheable: bool,
        /// The process may lock a page-backed node again.
        again: bool,
        parts: Parts,
    },
    /// UNLOCK_VIDEO_MEMORY.
    Unlock {
        node: u32,
        parts: Parts,
        /// The UNLOCK record that must follow ends the lock of every kind of node.
        by_event: bool,
    },
    /// NAME_VIDEO_MEMORY.
    NameNode {
        node: u32,
    },
    /// IMPORT_VIDEO_MEMORY.
    ImportNode {
        /// The name from NAME_VIDEO_MEMORY.
        name: u32,
    },
    /// WRAP_USER_MEMORY: the GPU may write the memory if the process may.
    Wrap {
        what: Foreign,
        /// User memory must be whole cache lines.
        in_lines: bool,
    },
    /// EXPORT_VIDEO_MEMORY and GET_VIDEO_MEMORY_FD.
    ExportNode {
        node: u32,
        /// Flags of `open` for the descriptor; `None`: `O_RDWR | O_CLOEXEC`.
        flags: Option<u32>,
    },
    /// SET_VIDEO_MEMORY_METADATA.
    SetMetadata {
        node: u32,
        metadata: NodeMetadata,
    },
    /// SET_VIDEO_MEMORY_METADATA, used for reading.
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
        /// The signal whose next setting completes the fence.
        signal: u32,
    },
    /// WAIT_NATIVE_FENCE.
    WaitFence {
        fd: i32,
        /// The timeout; all ones: unlimited.
        milliseconds: u32,
    },
    /// WAIT_FENCE: waits for the kernel's own fence of a node. No node has one.
    WaitNode {
        node: u32,
    },
    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: the second half of UNLOCK, outside of a queue.
    FinishUnlock {
        node: u32,
        /// This ends the lock of every kind of node.
        by_event: bool,
    },
    /// FREE_VIDEO_MEMORY and RELEASE_VIDEO_MEMORY.
    FreeNode {
        node: u32,
        /// Refuses a locked node; else the free waits for the last unlock.
        if_unlocked: bool,
    },
    UserSignal(UserSignal),
    Attach {
        /// Contexts have the states of 5.0.11 and later.
        newer: bool,
    },
    Detach {
        context: u32,
        /// An unknown context is an error; else it is ignored.
        must_exist: bool,
    },
    Commit(Commit),
    /// COMMIT for several cores of a kind: the part of the first, and their number
    /// ([`Format::decode_part`]).
    CommitAll {
        /// The part of the first core.
        first: Commit,
        /// The number of cores, 2 to [`MAX_PARTS`].
        count: u32,
    },
    /// COMMIT for the vector graphics core.
    VectorCommit(vector::Commit),
    QueryCommandBuffer,
    EventCommit {
        /// User address of the first `gcsQUEUE`.
        queue: u64,
        /// How to read it.
        format: Format,
    },
    Stall {
        /// SET_TIMEOUT limits the wait.
        is_limited: bool,
    },
    Cache(CacheRange),
    MapMemory {
        handle: u32,
    },
    /// MAP_MEMORY of the pool.
    MapPool {
        /// Any number of bytes.
        bytes: u64,
    },
    /// UNMAP_MEMORY of the pool.
    UnmapPool {
        /// The address of the mapping, or any other.
        user: u64,
        /// Any number of bytes.
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
        /// The generation has a profiler, which can be off.
        is_built: bool,
        /// It is on by default.
        is_on: bool,
    },
    /// SET_PROFILE_SETTING, with the text of a file's name.
    SetProfileSetting {
        enable: bool,
        /// The generation has a profiler, which can be off.
        is_built: bool,
    },
    /// READ_ALL_PROFILE_REGISTERS and its partial variants.
    ReadCounters(CounterSet),
    /// PROFILE_REGISTERS_2D.
    ReadCounters2d {
        /// User address of the result: cycles and pixels.
        user: u64,
    },
    /// READ_PROFILER_REGISTER_SETTING.
    ClearCounters {
        /// Each read resets the counters.
        clears: bool,
    },
    ReadRegister {
        address: u32,
        /// A core that is off reads 0.
        off_reads_zero: bool,
    },
    WriteRegister {
        address: u32,
        data: u32,
        /// A write to a core that is off succeeds.
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
        /// The word for each core.
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
        /// How to enter the state.
        way: PowerWay,
    },
    /// CONFIG_POWER_MANAGEMENT.
    ConfigPower {
        /// Whether the core may be switched off while this process has it open.
        enable: bool,
    },
    /// QUERY_RESET_TIME_STAMP.
    QueryResets,
    /// TIMESTAMP: the time between a timer's start and stop.
    QueryTimer {
        timer: u32,
    },
    /// DATABASE: the memory accounts of a process.
    Database {
        /// The process; `None`: not given.
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
        /// RESET always succeeds; else only if a core was reset.
        succeeds: bool,
    },
    /// BROADCAST_GPU_STUCK.
    GpuStuck,
    /// A command that succeeds and does nothing, as in the C driver's default build.
    Ignored,
    /// A command that is unknown, not built, only for queues, or malformed.
    Refused(Error),
}

/// A contiguous buffer, as in the arguments of FREE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedBuffer {
    pub(crate) bytes: u64,
    /// The handle, the field `physical` of the interface.
    pub(crate) handle: u32,
    pub(crate) user: u64,
}

/// Pinned user memory, as in the arguments of UNMAP_USER_MEMORY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedUserMemory {
    pub(crate) user: u64,
    pub(crate) bytes: u64,
    pub(crate) info: u32,
}

/// The arguments of CACHE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheRange {
    /// 1 clean, 2 invalidate, 3 flush, 4 barrier.
    pub(crate) operation: u32,
    pub(crate) user: u64,
    pub(crate) bytes: u64,
    /// The node, 0 for foreign memory; `None`: the address finds the node.
    pub(crate) node: Option<u32>,
    /// Maintains the node: as many bytes as the range has, or all if it has none. Else the range
    /// must be the client's memory.
    pub(crate) by_node: bool,
}

/// Sub-commands of USER_SIGNAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserSignal {
    /// Makes a signal.
    Create {
        /// A wait does not reset the signal.
        manual_reset: bool,
    },
    /// Drops a reference.
    Destroy {
        id: u32,
    },
    /// Sets or resets the signal.
    Signal {
        id: u32,
        /// Set, else reset.
        state: bool,
    },
    /// Waits for the signal.
    Wait {
        id: u32,
        /// The timeout; all ones: unlimited.
        milliseconds: u32,
    },
    /// Takes a reference.
    Map {
        id: u32,
    },
    Unknown,
}

/// SHBUF: a small buffer through which processes exchange data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedBuffer {
    /// Makes a buffer.
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
    /// Copies into the buffer.
    Write {
        id: u32,
        user: u64,
        bytes: u32,
    },
    /// Copies out of the buffer.
    Read {
        id: u32,
        user: u64,
        /// The most bytes.
        bytes: u32,
    },
    Unknown,
}

/// Where COMMIT's commands are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// In a `gcoCMDBUF` at this user address.
    Described(u64),
    /// In the request; the next `gcsHAL_COMMAND_LOCATION` is at this user address, 0: none.
    Here(CommandBuffer, u64),
}

/// The parts of a LOCK or an UNLOCK; both, if the generation has no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) lock: bool,
    /// The user mapping.
    pub(crate) view: bool,
}

/// The arguments of COMMIT.
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
    /// The core, if the generation has this field.
    pub(crate) core: Option<u32>,
    /// User address of the next core's part, a `gcsHAL_SUBCOMMIT`; 0: none.
    pub(crate) next: u64,
    /// The format of these structures.
    pub(crate) format: Format,
}

/// A set of the profiler's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterSet {
    /// All counters.
    Whole,
    First,
    Second,
}

/// The arguments of GET_SHARED_INFO and SET_SHARED_INFO.
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
    /// User address of the node's data.
    pub(crate) node_data: u64,
    /// The node's data is a dirty rectangle, which is enlarged.
    pub(crate) is_rectangle: bool,
}

/// A client's text, in words, up to the NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) [u32; MAX_TEXT_WORDS]);

/// The maximum length of a text, in words.
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

/// The geometry of a surface.
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

/// The kind of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HardwareType {
    ThreeD,
    TwoD,
    Both,
    Vector,
    Neural,
}

impl HardwareType {
    /// Its name for logs.
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

/// The target core of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreSelector {
    /// The generation's numbers of the kinds.
    numbers: &'static HardwareTypes,
    /// The kind's number (`gceHARDWARE_TYPE`).
    hardware_type: u32,
    /// The index among cores of this kind.
    index: u32,
}

impl CoreSelector {
    /// Core `index` of the kind `hardware_type`, in a generation's numbers.
    pub(crate) fn new(numbers: &'static HardwareTypes, hardware_type: u32, index: u32) -> Self {
        Self {
            numbers,
            hardware_type,
            index,
        }
    }

    /// The same kind with another index, for a COMMIT that has a core index of its own.
    pub(crate) fn with_index(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Kind and index, in the numbers of the request.
    pub(crate) fn numbers(self) -> (u32, u32) {
        (self.hardware_type, self.index)
    }

    /// How the generation finds the core.
    pub(crate) fn routing(self) -> Routing {
        self.numbers.routing
    }

    /// The kind; `None`: unknown number.
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

    /// Whether the kind is 3D without 2D.
    #[inline]
    pub(crate) fn is_three_d(self) -> bool {
        self.hardware_type == self.numbers.three_d.into()
    }

    /// Whether the request selects no core, so the first one is the default: the generation has no
    /// such field, or the number is unknown.
    #[inline]
    pub(crate) fn is_unnamed(self) -> bool {
        self.numbers.routing == Routing::Type && self.hardware_type().is_none()
    }

    /// Whether the number of the kind is at most `last`.
    #[inline]
    pub(crate) fn is_up_to(self, last: u32) -> bool {
        self.hardware_type <= last
    }

    /// The index among cores of this kind.
    pub(crate) fn index(self) -> usize {
        // CAST: 32 bits into at least 32.
        self.index as usize
    }
}
