// SPDX-License-Identifier: GPL-2.0-only

//! Wire formats: bytes to requests, replies to bytes.
//!
//! Knows no hardware and no kernel object. A request is the same whichever generation of the
//! interface it came in. The generations are data ([`layout`]); one decoder and encoder serves all
//! of them ([`codec`]); which one a file speaks is decided at its first ioctl ([`detect`]). What is
//! below is a list: every request and every reply, with what they hold.

mod codec;
pub(crate) mod detect;
pub(crate) mod evidence;
pub(crate) mod extensions;
pub(crate) mod layout;
mod ledger;
pub(crate) mod programs;
pub(crate) mod vector;

use crate::{
    error::Error,
    limits::MAX_CORES,
    sys::file::NewFile, //
};
use kernel::{
    fmt::{
        self,
        Write, //
    },
    prelude::*, //
};
pub(crate) use ledger::{
    Ledger, //
    ProcessLedgers,
};

pub(crate) use codec::{
    Format,
    IdentityWords, //
};
pub(crate) use extensions::Foreign;
pub(crate) use layout::{
    counters::{
        Cells,
        Counter, //
    },
    power::{
        PowerState,
        PowerWay, //
    },
    HardwareTypes,
    Routing,
    MAX_COMMAND_BUFFER_BYTES,
    MAX_CONTEXT_BYTES,
    MAX_DELTA_BYTES,
    MAX_INTERFACE_BYTES,
    MAX_LOCATION_BYTES,
    MAX_PARTS,
    MAX_RECORD_BYTES,
    MAX_SUB_COMMIT_BYTES, //
};

/// The newest generation's numbers: major, minor, patch, build.
pub(crate) fn newest_version() -> [u32; 4] {
    let versions = layout::LAYOUTS.iter().map(|layout| layout.version);
    versions.max().unwrap_or_default()
}

/// A contiguous buffer as FREE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedBuffer {
    /// Bytes.
    pub(crate) bytes: u64,
    /// The handle, which the interface calls `physical`.
    pub(crate) handle: u32,
    /// User address.
    pub(crate) user: u64,
}

/// Pinned user memory as UNMAP_USER_MEMORY names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedUserMemory {
    /// User address.
    pub(crate) user: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// The handle.
    pub(crate) info: u32,
}

/// CACHE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheRange {
    /// 1 clean, 2 invalidate, 3 flush, 4 barrier.
    pub(crate) operation: u32,
    /// User address.
    pub(crate) user: u64,
    /// Bytes.
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
        /// The signal.
        id: u32,
    },
    /// Sets or resets.
    Signal {
        /// The signal.
        id: u32,
        /// Set.
        state: bool,
    },
    /// Waits.
    Wait {
        /// The signal.
        id: u32,
        /// How long; all ones is for ever.
        milliseconds: u32,
    },
    /// Takes a reference.
    Map {
        /// The signal.
        id: u32,
    },
    /// No such sub-command.
    Unknown,
}

/// SHBUF: a small piece of memory that processes hand data over in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedBuffer {
    /// Makes one.
    Create {
        /// Bytes.
        bytes: u32,
    },
    /// Drops a reference.
    Destroy {
        /// The buffer.
        id: u32,
    },
    /// Takes a reference.
    Map {
        /// The buffer.
        id: u32,
    },
    /// Copies into it.
    Write {
        /// The buffer.
        id: u32,
        /// User address.
        user: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Copies out of it.
    Read {
        /// The buffer.
        id: u32,
        /// User address.
        user: u64,
        /// Bytes, at most.
        bytes: u32,
    },
    /// No such sub-command.
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
    /// The lock, for the GPU.
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
    /// The commands.
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
    /// Which data.
    pub(crate) id: u32,
    /// User address of the data; 0: none.
    pub(crate) data: u64,
    /// Bytes.
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
    /// Pixels.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// Slices.
    pub(crate) depth: u32,
    /// `gceSURF_FORMAT`.
    pub(crate) format: u32,
    /// `gceSURF_TYPE`.
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
    /// Both.
    Both,
    /// Vector graphics.
    Vector,
}

impl HardwareType {
    /// What it is called where people read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HardwareType::ThreeD => "3d",
            HardwareType::TwoD => "2d",
            HardwareType::Both => "3d-2d",
            HardwareType::Vector => "vg",
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

/// The most nodes of a graphic buffer.
pub(crate) const GRAPHIC_BUFFER_NODES: usize = 3;

/// What clients tell each other of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    /// A descriptor of its tile status' dma-buf, of the process that has told it; less than 0:
    /// none.
    pub(crate) status: i32,
    /// Whether it is cleared fast, by what value (64 bits), whether it is compressed, and how.
    pub(crate) words: [u32; Self::WORDS],
}

impl NodeMetadata {
    /// How many words there are beside the descriptor.
    pub(crate) const WORDS: usize = 5;
    /// It has no tile status.
    pub(crate) const NO_STATUS: i32 = -1;
}

/// What a command asks for.
///
/// Its tag is its own: inside of a 64-bit field it takes 32-bit machines several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    /// QUERY_VIDEO_MEMORY.
    QueryVideoMemory,
    /// QUERY_CHIP_IDENTITY.
    QueryChipIdentity,
    /// QUERY_KERNEL_SETTINGS.
    QueryKernelSettings,
    /// GET_BASE_ADDRESS.
    GetBaseAddress,
    /// VERSION.
    Version,
    /// CHIP_INFO.
    ChipInfo,
    /// ALLOCATE_CONTIGUOUS_MEMORY and ALLOCATE_NON_PAGED_MEMORY.
    AllocateContiguous {
        /// Bytes wanted.
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
        /// Bytes wanted.
        bytes: u32,
        /// Of the offset in the pool.
        alignment: u32,
        /// `gceSURF_TYPE`.
        kind: u32,
        /// `gcePOOL`.
        pool: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Lock {
        /// The node.
        node: u32,
        /// The user's mapping is to be cached.
        cacheable: bool,
        /// Who has a page-backed node locked may lock it again.
        again: bool,
        /// What is to be done.
        parts: Parts,
    },
    /// UNLOCK_VIDEO_MEMORY.
    Unlock {
        /// The node.
        node: u32,
        /// What is to be done.
        parts: Parts,
        /// The lock goes with the record that follows, whatever the node is.
        later: bool,
    },
    /// NAME_VIDEO_MEMORY.
    NameNode {
        /// The node.
        node: u32,
    },
    /// IMPORT_VIDEO_MEMORY.
    ImportNode {
        /// What NAME_VIDEO_MEMORY answered.
        name: u32,
    },
    /// WRAP_USER_MEMORY: the GPU may write it, if the process may.
    Wrap(Foreign),
    /// EXPORT_VIDEO_MEMORY and GET_VIDEO_MEMORY_FD.
    ExportNode {
        /// The node.
        node: u32,
        /// Flags of `open` for the descriptor; `None`: for reading and writing, and closed by
        /// `exec`.
        flags: Option<u32>,
    },
    /// SET_VIDEO_MEMORY_METADATA.
    SetMetadata {
        /// The node.
        node: u32,
        /// What is told of it.
        metadata: NodeMetadata,
    },
    /// SET_VIDEO_MEMORY_METADATA that asks.
    ReadMetadata {
        /// The node.
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
        /// Descriptor of a sync file.
        fd: i32,
        /// How long; all ones is for ever.
        milliseconds: u32,
    },
    /// WAIT_FENCE: wait for the kernel's own fence of a node, which there is none of.
    WaitNode {
        /// The node.
        node: u32,
    },
    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: what else a record of a queue does.
    FinishUnlock {
        /// The node.
        node: u32,
        /// It takes the lock off whatever the node is.
        later: bool,
    },
    /// FREE_VIDEO_MEMORY and RELEASE_VIDEO_MEMORY.
    FreeNode {
        /// The node.
        node: u32,
        /// A locked one is refused; else it waits for its last unlock.
        if_unlocked: bool,
    },
    /// USER_SIGNAL.
    UserSignal(UserSignal),
    /// ATTACH.
    Attach {
        /// Contexts keep what those from 5.0.11 on do.
        newer: bool,
    },
    /// DETACH.
    Detach {
        /// The context.
        context: u32,
        /// Of an unknown one it fails; else nothing is to be done.
        must_exist: bool,
    },
    /// COMMIT.
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
    /// QUERY_COMMAND_BUFFER.
    QueryCommandBuffer,
    /// EVENT_COMMIT.
    EventCommit {
        /// First `gcsQUEUE`.
        queue: u64,
        /// How to read it.
        format: Format,
    },
    /// STALL.
    Stall {
        /// Not longer than SET_TIMEOUT says.
        is_limited: bool,
    },
    /// CACHE.
    Cache(CacheRange),
    /// MAP_MEMORY.
    MapMemory {
        /// The buffer.
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
    /// UNMAP_MEMORY.
    UnmapMemory {
        /// The buffer.
        handle: u32,
    },
    /// MAP_USER_MEMORY.
    MapUser {
        /// User address.
        user: u64,
        /// Bytes.
        bytes: u64,
    },
    /// MAP_USER_MEMORY of physical memory.
    MapPhysical {
        /// Address.
        physical: u32,
        /// Bytes.
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
        /// The profiler is on.
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
    /// READ_REGISTER.
    ReadRegister {
        /// Byte offset.
        address: u32,
        /// It is 0 where the core is off.
        off_reads_zero: bool,
    },
    /// WRITE_REGISTER.
    WriteRegister {
        /// Byte offset.
        address: u32,
        /// What is written.
        data: u32,
        /// It is well where the core is off.
        off_reads_zero: bool,
    },
    /// READ_REGISTER_EX.
    ReadRegisters {
        /// Byte offset.
        address: u32,
        /// A bit for each core of the kind.
        cores: u32,
    },
    /// WRITE_REGISTER_EX.
    WriteRegisters {
        /// Byte offset.
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
        /// The state.
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
        /// The timer.
        timer: u32,
    },
    /// DATABASE: what a process has.
    Database {
        /// The process; `None`: the client does not say.
        process: Option<u32>,
    },
    /// QUERY_CHIP_FREQUENCY.
    QueryFrequency,
    /// QUERY_CPU_FREQUENCY.
    QueryCpuFrequency,
    /// GET_FSCALE_VALUE.
    QueryScale,
    /// SET_FSCALE_VALUE.
    SetScale {
        /// 64ths of the clock, from 1 to 64.
        scale: u32,
    },
    /// SET_TIMEOUT.
    SetTimeout {
        /// For STALL, in milliseconds.
        milliseconds: u32,
    },
    /// RESET.
    Reset,
    /// A command that succeeds and does nothing, as in the C driver's default build.
    Ignored,
    /// A command that does not exist, is not built, only queues may hold, or makes no sense.
    Refused(Error),
}

/// What a command gives back.
///
/// Small: what is large is somewhere else.
///
/// Its tag is its own: inside of a 64-bit field it takes 32-bit machines several instructions.
#[derive(Debug)]
#[repr(u32)]
pub(crate) enum Reply<'a> {
    /// Only the status.
    Nothing,
    /// QUERY_VIDEO_MEMORY.
    VideoMemory {
        /// Bytes of the pool.
        pool_bytes: u64,
    },
    /// QUERY_CHIP_IDENTITY.
    ChipIdentity(&'a IdentityWords),
    /// QUERY_KERNEL_SETTINGS.
    KernelSettings {
        /// Realtime signal number.
        signal: i32,
    },
    /// GET_BASE_ADDRESS.
    BaseAddress(u32),
    /// VERSION: that of the generation.
    Version,
    /// CHIP_INFO: the cores that there are, in this order.
    ChipInfo([Option<HardwareType>; MAX_CORES]),
    /// QUERY_CHIP_OPTION.
    ChipOptions {
        /// There is a profiler.
        profiler: bool,
        /// Fast clear may be used.
        fast_clear: bool,
        /// Compression may be used.
        compression: bool,
        /// Cores may go off.
        power: bool,
        /// Shader cores.
        shaders: u32,
        /// There is a pool.
        pool: bool,
    },
    /// ALLOCATE_CONTIGUOUS_MEMORY and ALLOCATE_NON_PAGED_MEMORY.
    Buffer {
        /// Bytes granted.
        bytes: u64,
        /// GPU address.
        address: u32,
        /// Handle.
        handle: u32,
        /// User address.
        user: u64,
    },
    /// MAP_MEMORY.
    Mapped {
        /// User address.
        user: u64,
    },
    /// MAP_USER_MEMORY.
    UserMemory {
        /// Handle.
        info: u32,
        /// GPU address.
        address: u32,
    },
    /// QUERY_CHIP_FREQUENCY: in Hz; 0: not known.
    Frequency {
        /// The core's clock.
        core: u32,
        /// The shaders'.
        shader: u32,
    },
    /// QUERY_CPU_FREQUENCY: not known.
    CpuFrequency,
    /// GET_FSCALE_VALUE: in 64ths of the clock.
    Scale {
        /// Now.
        scale: u32,
    },
    /// GET_PROFILE_SETTING.
    ProfileSetting {
        /// It is on.
        enable: bool,
        /// The name of a file; `None`: nobody has set one.
        name: Option<KBox<Text>>,
    },
    /// READ_ALL_PROFILE_REGISTERS and its parts.
    Counters(KBox<Cells>),
    /// READ_REGISTER.
    Register(u32),
    /// READ_REGISTER_EX: of the cores that were asked for.
    Registers([Option<u32>; EX_CORES]),
    /// The core is off: a register of it is 0, and the core not ready.
    Off,
    /// The same for READ_REGISTER_EX, of which core ever.
    AllOff,
    /// QUERY_POWER_MANAGEMENT_STATE.
    Power {
        /// The state.
        state: PowerState,
        /// Nothing is under way.
        is_idle: bool,
    },
    /// CONFIG_POWER_MANAGEMENT.
    ConfigPower {
        /// Whether the core might go off before.
        old: bool,
    },
    /// TIMESTAMP.
    TimeDelta {
        /// Microseconds.
        microseconds: i32,
    },
    /// DATABASE: video memory, non-paged, contiguous.
    Database(KBox<ProcessLedgers>),
    /// EVENT_COMMIT of a process with a completion page.
    Submitted {
        /// Its number, from 1 up.
        number: u64,
    },
    /// QUERY_COMMAND_BUFFER.
    CommandBuffer,
    /// COMMIT.
    Committed {
        /// Its number, from 1 up, in a process with a completion page.
        counted: Option<u64>,
        /// The core's number of it, from 1 up.
        stamp: u64,
        /// The context has been loaded for it.
        switched: bool,
    },
    /// QUERY_RESET_TIME_STAMP.
    Resets {
        /// How often the core has been reset because it hung.
        count: u64,
    },
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    Node {
        /// Handle.
        node: u32,
        /// `gcePOOL` where it lies.
        pool: u32,
        /// Its bytes.
        bytes: u64,
    },
    /// ALLOCATE_VIDEO_MEMORY.
    Surface {
        /// Pixels, as aligned.
        width: u32,
        /// Rows, as aligned.
        height: u32,
        /// `gcePOOL` where it lies.
        pool: u32,
        /// Handle.
        node: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Locked {
        /// GPU address; `None`: no lock was asked for.
        address: Option<u32>,
        /// User address; `None`: no view was asked for.
        user: Option<u64>,
    },
    /// NAME_VIDEO_MEMORY: the name.
    Name(u32),
    /// IMPORT_VIDEO_MEMORY.
    Imported {
        /// Handle.
        node: u32,
    },
    /// WRAP_USER_MEMORY.
    Wrapped {
        /// Handle.
        node: u32,
        /// Bytes.
        bytes: u64,
    },
    /// EXPORT_VIDEO_MEMORY, GET_VIDEO_MEMORY_FD and CREATE_NATIVE_FENCE: to be installed when the
    /// caller has been told.
    File(NewFile),
    /// What is known of a node.
    Metadata(NodeMetadata),
    /// SHBUF's CREATE.
    SharedBuffer {
        /// The buffer.
        id: u32,
    },
    /// SHBUF's READ.
    Copied {
        /// Bytes; `None`: nobody has written yet.
        bytes: Option<u32>,
    },
    /// UNLOCK_VIDEO_MEMORY of the lock.
    Unlocked {
        /// An UNLOCK record must follow in an event queue.
        asynchronous: bool,
        /// `gcePOOL` where it lies.
        pool: u32,
        /// Its bytes.
        bytes: u64,
    },
    /// UNLOCK_VIDEO_MEMORY of the view alone.
    Unmapped,
    /// USER_SIGNAL's CREATE.
    Signal {
        /// Handle.
        id: u32,
    },
    /// ATTACH.
    Context {
        /// Handle.
        context: u32,
        /// Highest state that the context covers, plus 1.
        state_count: u64,
    },
}

/// One record of an event queue.
///
/// Its tag is its own: inside of a 64-bit field it takes 32-bit machines several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Record {
    /// SIGNAL.
    Signal {
        /// The signal.
        id: u32,
        /// The process that it is for; looked at only where events send realtime signals.
        process: u64,
    },
    /// UNLOCK_VIDEO_MEMORY.
    Unlock {
        /// The node.
        node: u32,
        /// It takes the lock off whatever the node is.
        later: bool,
    },
    /// FREE_VIDEO_MEMORY.
    FreeNode {
        /// The node.
        node: u32,
    },
    /// FREE_CONTIGUOUS_MEMORY and FREE_NON_PAGED_MEMORY.
    FreeBuffer(NamedBuffer),
    /// UNMAP_USER_MEMORY.
    UnmapUser(NamedUserMemory),
    /// WRITE_DATA.
    WriteData {
        /// GPU address.
        address: u32,
        /// The word.
        data: u32,
    },
    /// TIMESTAMP.
    Timestamp {
        /// The timer.
        timer: u32,
        /// It starts; else it stops.
        start: bool,
    },
    /// COMMIT_DONE: nothing but a place in the order.
    CommitDone,
    /// INCREMENT and DECREMENT.
    Count {
        /// Physical address of the word.
        address: u32,
        /// It grows.
        up: bool,
    },
    /// LOCKDOWN.
    CountTo {
        /// Physical address of the word that `counter` is compared with.
        wanted: u32,
        /// Physical address of the word that grows.
        counter: u32,
        /// Set when they are equal.
        signal: u32,
    },
    /// Any other command: passed over, as by the C drivers' release builds.
    Other,
}

/// `gcsSTATE_DELTA`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Copies of contexts that have yet to take it over.
    pub(crate) references: i32,
    /// Vertex elements in use; 0: as before.
    pub(crate) element_count: u32,
    /// Records.
    pub(crate) record_count: u32,
    /// User address of the records; 0: none.
    pub(crate) records: u64,
}

/// Words of a `gcsSTATE_DELTA_RECORD`: the state's word address, the mask, the value. Every
/// generation has the same.
pub(crate) const DELTA_RECORD_WORDS: usize = 3;

/// `gcoCMDBUF`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandBuffer {
    /// Object type.
    pub(crate) object: u32,
    /// Pipe that the commands need at their start.
    pub(crate) entry_pipe: u32,
    /// User address of the buffer.
    pub(crate) logical: u64,
    /// First byte of this commit, with the reserved head.
    pub(crate) start_offset: u32,
    /// First byte behind the commands.
    pub(crate) offset: u32,
    /// Bytes at the start that the client leaves to the kernel.
    pub(crate) reserved_head: u32,
    /// Bytes behind the commands that the client leaves to the kernel.
    pub(crate) reserved_tail: u32,
}

impl Reply<'_> {
    /// The value for the interface's `status` field: success, or that there was nothing to do.
    pub(crate) fn status(&self) -> u32 {
        match self {
            Reply::Copied { bytes: None } => STATUS_SKIP,
            Reply::Off | Reply::AllOff => STATUS_CHIP_NOT_READY,
            _ => 0,
        }
    }
}

/// `gcvSTATUS_SKIP`.
const STATUS_SKIP: u32 = 13;

/// `gcvSTATUS_CHIP_NOT_READY`.
const STATUS_CHIP_NOT_READY: u32 = 11;

/// Cores that READ_REGISTER_EX and WRITE_REGISTER_EX have room for.
pub(crate) const EX_CORES: usize = 4;

impl CommandBuffer {
    /// Its object type: the letters CMDB.
    pub(crate) const OBJECT_TYPE: u32 = 0x4244_4D43;
}

/// `gcoCONTEXT`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientContext {
    /// Object type.
    pub(crate) object: u32,
    /// Its name, from the driver; 0: it has none yet.
    pub(crate) id: u64,
    /// Its buffer begins with room for a pipe switch.
    pub(crate) has_head: bool,
    /// Bytes of its buffer.
    pub(crate) buffer_bytes: u32,
    /// User address of its buffer.
    pub(crate) logical: u64,
    /// User address of the room for a LINK in it, behind the states.
    pub(crate) link: u64,
    /// Pipe that the states need at their start.
    pub(crate) initial_pipe: u32,
    /// Pipe that the commands need at their start.
    pub(crate) entry_pipe: u32,
    /// User address of a word that becomes 1 when the buffer is used; 0: none.
    pub(crate) in_use: u64,
}

impl ClientContext {
    /// Its object type: the letters CTXT.
    pub(crate) const OBJECT_TYPE: u32 = 0x5458_5443;
}
