// SPDX-License-Identifier: GPL-2.0-only

//! Bytes to requests, replies to bytes, for any [`Layout`].
//!
//! A table in the form of code: an arm for each command, a function for each structure. Which arms
//! there are is seen at once only where they stand together.

use super::{
    layout::{
        counters::CountersLayout,
        Command,
        CommandBufferLayout,
        Field,
        IdentityWord,
        Layout,
        UnknownSignal,
        COMMAND,
        LAYOUTS,
        LOCK_PARTS,
        POOL_BYTES,
        UNLOCK_PARTS, //
    },
    vector::COMMAND_BUFFER_INFO,
    CacheRange,
    ClientContext,
    CommandBuffer,
    Commands,
    Commit,
    CoreSelector,
    CounterSet,
    Delta,
    Foreign,
    HardwareType,
    Ledger,
    NamedBuffer,
    NamedUserMemory,
    NodeMetadata,
    Parts,
    ProcessLedgers,
    Record,
    Reply,
    Request,
    Routing,
    SharedBuffer,
    SharedInfo,
    Surface,
    Text,
    UserSignal,
    EX_CORES,
    MAX_CORES,
    MAX_PARTS,
    MAX_SUB_COMMIT_BYTES,
    MAX_TEXT_WORDS, //
};
use crate::{
    error::Error,
    limits::FULL_SCALE,
    sys, //
};

/// MAP_USER_MEMORY's `physical` that means: by user address.
const NO_PHYSICAL: u32 = u32::MAX;

/// TIMESTAMP's requests.
const TIMESTAMP_STOP: u32 = 0;
const TIMESTAMP_START: u32 = 1;
const TIMESTAMP_QUERY: u32 = 2;

/// The name that a profiler's file has if nobody has given it one: "vprofiler.xml".
const PROFILE_NAME: &[u8; 16] = b"vprofiler.xml\0\0\0";

/// `gcvVIDMEM_INFO_DIRTY_RECTANGLE`.
const DIRTY_RECTANGLE: u32 = 1;

/// Words of a text that DEBUG prints.
const MESSAGE_WORDS: usize = 20;

/// `gceENGINE` of the engine that copies (BLT).
const ENGINE_COPY: u32 = 1;

/// Where the registers on the APB begin: the default of the vendor's parameter.
const REGISTER_APB: u64 = 0x30_0000;

/// Bits of a GPU address, on all cores that have come so far.
const ADDRESS_BITS: u32 = 32;

/// What QUERY_VIDEO_MEMORY calls the pool where it has a name: no buffer's handle has these low 15
/// bits.
pub(super) const POOL_NAME: u32 = 0x7FFF_F000;

/// `gceCOMPRESSION_OPTION`: colour, depth, and both of surfaces with several samples.
const ALL_COMPRESSIONS: u32 = 0xF;

/// QUERY_CHIP_OPTION's answers that say nothing of the cores that there are: the vendor's defaults.
const ATTRIBUTE_CACHE: u32 = 2;
const ALL_NETWORKS: u32 = 0xFF;

/// Bytes around the commands that the client leaves to the kernel, where it does not say.
const RESERVED_HEAD: u32 = 32;
const RESERVED_TAIL: u32 = 8;

/// `gcePOOL`.
const POOL_UNKNOWN: u32 = 0;
const POOL_DEFAULT: u32 = 1;
const POOL_LOCAL: u32 = 2;
const POOL_UNIFIED: u32 = 5;
const POOL_SYSTEM: u32 = 6;
const POOL_VIRTUAL: u32 = 7;
const POOL_CONTIGUOUS: u32 = 9;
const POOL_DEFAULT_FORCE_CONTIGUOUS: u32 = 10;
const POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE: u32 = 11;

/// `gceSURF_TYPE`: the first number that `gcvSURF_IMAGE` has moved, and the first that was none
/// before.
const SURFACE_IMAGE: u32 = 8;
const OLD_SURFACE_TYPES: u32 = 11;

/// The number of types in 4.0.0, whose banks in the pool are known; what they are for of an unknown
/// one, and the bits of the number of a type.
const SURFACE_TYPES: u32 = 12;
const SURFACE_UNKNOWN: u32 = 0;
const SURFACE_MASK: u32 = 0xFF;

/// A generation of the interface, as those see it who only decode by it.
#[derive(Clone, Copy)]
pub(crate) struct Format(pub(super) &'static Layout);

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Format {}

impl core::fmt::Debug for Format {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A field that holds an address of the client's.
pub(super) trait UserField {
    /// The address. Of a 32-bit program only the low half counts: such programs sign-extend
    /// addresses, or leave what was there in the other half.
    fn user(self, words: &[u32]) -> u64;
}

impl UserField for Field {
    #[inline]
    fn user(self, words: &[u32]) -> u64 {
        sys::user::narrow(self.long(words))
    }
}

impl Format {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Bytes of its ioctl argument.
    pub(crate) fn argument_bytes(self) -> u16 {
        self.0.argument_bytes
    }

    /// Whether it takes an interface of `input` bytes, answered in `output` bytes.
    pub(crate) fn takes(self, input: u64, output: u64) -> bool {
        self.0.takes(input, output)
    }

    /// Whether interfaces may be shorter than its own.
    pub(crate) fn may_be_shorter(self) -> bool {
        self.0.may_be_shorter
    }

    /// Bytes of a record of an event queue that [`Format::decode_record`] wants.
    pub(crate) fn record_bytes(self) -> usize {
        self.0.record_bytes()
    }

    /// Bytes of a `gcoCMDBUF` that [`Format::decode_command_buffer`] wants.
    pub(crate) fn command_buffer_bytes(self) -> usize {
        self.0.command_buffer_bytes()
    }

    /// The kind of core that the command is for, as the generation numbers it.
    #[inline]
    pub(crate) fn hardware_type(self, words: &[u32]) -> u32 {
        self.0.header.hardware_type.word(words)
    }

    /// Whether the request is answered before anybody looks at the kind of core: by CHIP_INFO
    /// clients ask which there are.
    pub(crate) fn is_for_any_type(self, request: &Request) -> bool {
        match request {
            Request::ChipInfo => true,
            Request::Version | Request::SetTimeout { .. } => {
                self.0.quirks.hardware.routing != Routing::Type
            }
            _ => false,
        }
    }

    /// The core that the command is for.
    #[inline]
    pub(crate) fn core(self, words: &[u32]) -> CoreSelector {
        CoreSelector::new(
            &self.0.quirks.hardware,
            self.hardware_type(words),
            self.0.header.core_index.word(words),
        )
    }

    /// The C headers' name of the command, without its `gcvHAL_`; empty: the generation has none of
    /// this number.
    pub(crate) fn command_name(self, words: &[u32]) -> &'static str {
        self.command(words).c_name()
    }

    /// Whether the command is for a vector graphics core.
    #[inline]
    fn is_for_vector(self, words: &[u32]) -> bool {
        self.hardware_type(words) == u32::from(self.0.quirks.hardware.vector)
    }

    #[inline]
    fn command(self, words: &[u32]) -> Command {
        self.0.command(COMMAND.word(words))
    }

    fn union(self, words: &[u32]) -> &[u32] {
        words
            .get(usize::from(self.0.union_at) / 4..)
            .unwrap_or_default()
    }

    fn union_mut(self, words: &mut [u32]) -> &mut [u32] {
        words
            .get_mut(usize::from(self.0.union_at) / 4..)
            .unwrap_or_default()
    }
}

impl Format {
    /// CHIP_INFO's answer. A 3D core's id is its number among those; the others' is the default.
    #[cold]
    fn encode_cores(self, u: &mut [u32], cores: [Option<HardwareType>; MAX_CORES]) {
        const DEFAULT_ID: u32 = u32::MAX;
        let numbers = &self.0.quirks.hardware;
        let fields = &self.0.chip_info;
        zero(u, fields.bytes);
        let (mut count, mut slot) = (0, 0);
        let cores = (0u32..).zip(cores);
        for (index, kind) in cores.filter_map(|(index, kind)| Some((index, kind?))) {
            let (number, id) = match kind {
                HardwareType::ThreeD => (numbers.three_d, slot),
                HardwareType::Both => (numbers.both, slot),
                HardwareType::TwoD if numbers.routing == Routing::Slot => (numbers.two_d, 0),
                HardwareType::TwoD => (numbers.two_d, DEFAULT_ID),
                HardwareType::Vector => (numbers.vector, DEFAULT_ID),
            };
            slot += u32::from(number != numbers.two_d && number != numbers.vector);
            fields.kind.nth(count).put(u, number.into());
            fields.id.nth(count).put(u, id);
            fields.index.nth(count).put(u, index);
            count += 1;
        }
        fields.count.put(u, count.into());
    }

    /// Whether it is a command that no client of the generation sends: none at all, one that only
    /// queues have, or that libraries do without.
    pub(crate) fn is_never_sent(self, words: &[u32]) -> bool {
        let quirks = &self.0.quirks;
        match self.command(words) {
            Command::Unknown => quirks.gpu_stuck == 0 || COMMAND.word(words) != quirks.gpu_stuck,
            Command::AllocateVideoMemory => !quirks.allocates_surfaces,
            Command::CommitDone => !quirks.takes_commit_done,
            Command::Signal
            | Command::WriteData
            | Command::SetIdle
            | Command::MapPhysical
            | Command::SyncPoint
            | Command::ReadRegisterEx
            | Command::WriteRegisterEx
            | Command::DestroyMmu => true,
            _ => false,
        }
    }

    /// Reads a request, apart from who runs it: there decoding is a part of that.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_apart(self, words: &[u32]) -> Request {
        self.decode(words)
    }

    /// Reads a request.
    #[inline(always)]
    pub(crate) fn decode(self, words: &[u32]) -> Request {
        let layout = self.0;
        let u = self.union(words);
        match self.command(words) {
            Command::QueryVideoMemory => Request::QueryVideoMemory,
            Command::QueryChipIdentity => Request::QueryChipIdentity,
            Command::QueryKernelSettings => Request::QueryKernelSettings,
            Command::GetBaseAddress => Request::GetBaseAddress,
            Command::Version => Request::Version,
            Command::ChipInfo => Request::ChipInfo,
            Command::QueryChipOption => Request::ChipOptions,
            Command::AllocateNonPagedMemory => Request::AllocateContiguous {
                bytes: layout.allocate_non_paged.size.long(u),
                non_paged: true,
            },
            Command::AllocateContiguousMemory => Request::AllocateContiguous {
                bytes: layout.allocate_contiguous.size.long(u),
                non_paged: false,
            },
            Command::FreeNonPagedMemory => Request::FreeContiguous(self.non_paged(u)),
            Command::FreeContiguousMemory => Request::FreeContiguous(self.contiguous(u)),
            Command::AllocateLinearVideoMemory => self.allocate_linear(u),
            Command::AllocateVideoMemory => self.allocate_surface(u),
            Command::FreeVideoMemory => Request::FreeNode {
                node: layout.free_node.node.handle(u),
                if_unlocked: layout.quirks.locked_cannot_be_freed,
            },
            Command::ReleaseVideoMemory => Request::FreeNode {
                node: layout.release_node.node.handle(u),
                if_unlocked: false,
            },
            Command::LockVideoMemory => Request::Lock {
                node: layout.lock.node.handle(u),
                cacheable: layout.lock.cacheable.word(u) != 0,
                again: layout.quirks.locks_again,
                parts: parts(layout.lock.parts, LOCK_PARTS, u),
            },
            Command::UnlockVideoMemory => Request::Unlock {
                node: layout.unlock.node.handle(u),
                parts: parts(layout.unlock.parts, UNLOCK_PARTS, u),
                later: layout.quirks.unlocks_later,
            },
            Command::NameVideoMemory => Request::NameNode {
                node: layout.name_node.node.handle(u),
            },
            Command::ImportVideoMemory => Request::ImportNode {
                name: layout.import_node.name.word(u),
            },
            Command::WrapUserMemory => self.wrap(u),
            Command::ExportVideoMemory => Request::ExportNode {
                node: layout.export_node.node.handle(u),
                flags: Some(layout.export_node.flags.word(u)),
            },
            Command::GetVideoMemoryFd => Request::ExportNode {
                node: layout.node_fd.node.handle(u),
                flags: None,
            },
            Command::SetVideoMemoryMetadata if layout.metadata.bytes != 0 => self.metadata(u),
            Command::GetGraphicBufferFd if layout.graphic_buffer.bytes != 0 => {
                let fields = &layout.graphic_buffer;
                // CAST: less than 3.
                let mut nodes: [u32; super::GRAPHIC_BUFFER_NODES] =
                    core::array::from_fn(|at| fields.nodes.nth(at as u16).handle(u));
                let mut is_over = false;
                for node in &mut nodes {
                    is_over |= *node == 0 && self.0.quirks.no_node_ends;
                    if is_over {
                        *node = 0;
                    }
                }
                Request::KeepGraphicBuffer {
                    nodes,
                    piece: fields.piece.handle(u),
                    signal: fields.signal.handle(u),
                }
            }
            Command::Shbuf => Request::SharedBuffer(self.shared_buffer(u)),
            // Of a sync point: these are not built.
            Command::CreateNativeFence if !layout.create_fence.signal.exists() => {
                Request::Refused(Error::NotSupported)
            }
            Command::CreateNativeFence => Request::CreateFence {
                signal: layout.create_fence.signal.handle(u),
            },
            Command::WaitFence => Request::WaitNode {
                node: layout.wait_node.node.handle(u),
            },
            Command::WaitNativeFence => Request::WaitFence {
                // CAST: the bits of a signed field.
                fd: layout.wait_fence.fd.word(u) as i32,
                milliseconds: layout.wait_fence.timeout.word(u),
            },
            Command::BottomHalfUnlockVideoMemory => Request::FinishUnlock {
                node: layout.finish_unlock.node.handle(u),
                later: layout.quirks.unlocks_later,
            },
            Command::EventCommit if self.copies(layout.event.engine, words) => {
                Request::Refused(Error::NotSupported)
            }
            Command::EventCommit => Request::EventCommit {
                queue: layout.event.queue.user(u),
                format: self,
            },
            Command::UserSignal => Request::UserSignal(self.user_signal(u)),
            Command::Commit if self.copies(layout.commit.engine, words) => {
                Request::Refused(Error::NotSupported)
            }
            Command::Commit => match self.vector() {
                Some(format) if self.is_for_vector(words) => {
                    Request::VectorCommit(format.decode_commit(u))
                }
                _ => self.commit(u),
            },
            Command::QueryCommandBuffer => Request::QueryCommandBuffer,
            Command::Stall => Request::Stall {
                is_limited: layout.quirks.stall_is_limited,
            },
            Command::Cache if layout.quirks.cache_is_ignored => Request::Ignored,
            Command::Cache => Request::Cache(CacheRange {
                operation: layout.cache.operation.word(u),
                user: layout.cache.logical.user(u),
                bytes: layout.cache.size.long(u),
                node: match layout.quirks.caches_by_address {
                    true => None,
                    false => Some(layout.cache.node.handle(u)),
                },
                by_node: layout.quirks.caches_nodes,
            }),
            Command::MapMemory => match layout.map_memory.physical.handle(u) {
                POOL_NAME if layout.quirks.names_pool => Request::MapPool {
                    bytes: layout.map_memory.size.long(u),
                },
                handle => Request::MapMemory { handle },
            },
            Command::UnmapMemory => match layout.unmap_memory.physical.handle(u) {
                POOL_NAME if layout.quirks.names_pool => Request::UnmapPool {
                    user: layout.unmap_memory.logical.user(u),
                    bytes: layout.unmap_memory.size.long(u),
                },
                handle => Request::UnmapMemory { handle },
            },
            Command::AllocateVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Request::AllocateContiguous {
                    bytes: layout.allocate_commands.size.long(u),
                    non_paged: false,
                }
            }
            Command::FreeVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Request::FreeContiguous(self.commands(u))
            }
            Command::MapUserMemory => self.map_user(u),
            Command::UnmapUserMemory => Request::UnmapUser(self.user_memory(u)),
            Command::QueryChipFrequency => Request::QueryFrequency,
            Command::QueryCpuFrequency => Request::QueryCpuFrequency,
            // It would keep all others out for as long as the client likes; jobs need it not.
            Command::DeviceMutex => Request::Ignored,
            Command::SetPowerManagementState => {
                match layout.quirks.power.find(layout.set_power.state.word(u)) {
                    Some((state, way)) => Request::SetPower { state, way },
                    None => Request::Refused(Error::InvalidArgument),
                }
            }
            Command::ConfigPowerManagement => Request::ConfigPower {
                enable: layout.config_power.enable.word(u) != 0,
            },
            Command::SetFscaleValue => match layout.set_scale.value.word(u) {
                scale @ 1..=FULL_SCALE => Request::SetScale { scale },
                _ => Request::Refused(Error::InvalidArgument),
            },
            Command::GetFscaleValue => Request::QueryScale,
            // So is what it has under way.
            Command::Reset if layout.quirks.resets => Request::Reset,
            Command::Reset => Request::Refused(Error::NotSupported),
            Command::QueryPowerManagementState => Request::QueryPower,
            Command::QueryResetTimeStamp => Request::QueryResets,
            Command::Timestamp => match layout.timestamp.request.word(u) {
                TIMESTAMP_QUERY => Request::QueryTimer {
                    timer: layout.timestamp.timer.word(u),
                },
                _ => Request::Refused(Error::InvalidArgument),
            },
            Command::Database => Request::Database {
                process: match layout.database.is_valid.word(u) {
                    0 => None,
                    _ => Some(layout.database.process.word(u)),
                },
            },
            Command::SetTimeout => Request::SetTimeout {
                milliseconds: layout.timeout.timeout.word(u),
            },
            Command::Attach => Request::Attach {
                newer: layout.quirks.newer_contexts,
            },
            Command::Detach => Request::Detach {
                context: layout.detach.context.handle(u),
                must_exist: layout.quirks.detaches_known,
            },
            // There they have an interface to themselves.
            Command::GetProfileSetting
            | Command::SetProfileSetting
            | Command::ReadAllProfileRegisters
            | Command::ReadAllProfileNewRegistersPart1
            | Command::ReadAllProfileNewRegistersPart2
            | Command::ReadAllProfileRegistersPart1
            | Command::ReadAllProfileRegistersPart2
            | Command::ReadProfilerNewRegisterSetting
            | Command::ReadProfilerRegisterSetting
            | Command::ProfileRegisters2d
                if layout.profiler_bytes != 0 =>
            {
                Request::Refused(Error::InvalidArgument)
            }
            Command::GetProfileSetting
            | Command::SetProfileSetting
            | Command::ReadAllProfileRegisters
            | Command::ReadAllProfileNewRegistersPart1
            | Command::ReadAllProfileNewRegistersPart2
            | Command::ReadAllProfileRegistersPart1
            | Command::ReadAllProfileRegistersPart2
            | Command::ReadProfilerNewRegisterSetting
            | Command::ReadProfilerRegisterSetting
            | Command::ProfileRegisters2d => self.decode_profiler(words),
            Command::ReadRegister => Request::ReadRegister {
                address: layout.read_register.address.word(u),
                off_reads_zero: layout.quirks.off_reads_zero,
            },
            Command::WriteRegister => Request::WriteRegister {
                address: layout.write_register.address.word(u),
                data: layout.write_register.data.word(u),
                off_reads_zero: layout.quirks.off_reads_zero,
            },
            Command::ReadRegisterEx if layout.read_registers.bytes != 0 => Request::ReadRegisters {
                address: layout.read_registers.address.word(u),
                cores: layout.read_registers.cores.word(u),
            },
            Command::WriteRegisterEx if layout.write_registers.bytes != 0 => {
                let data = layout.write_registers.data.and_behind(u);
                Request::WriteRegisters {
                    address: layout.write_registers.address.word(u),
                    cores: layout.write_registers.cores.word(u),
                    data: core::array::from_fn(|core| data.get(core).copied().unwrap_or(0)),
                }
            }
            Command::Debug if layout.debug.bytes != 0 => Request::Print,
            Command::DumpGpuState => Request::DumpState,
            Command::DumpEvent => Request::DumpJobs,
            Command::GetSharedInfo => Request::ReadShared(self.shared_info(u)),
            Command::SetSharedInfo => Request::WriteShared(self.own_shared_info(u)),
            // The hang check sees for itself, and whose job it is.
            Command::Unknown
                if layout.quirks.gpu_stuck != 0
                    && COMMAND.word(words) == layout.quirks.gpu_stuck =>
            {
                Request::Ignored
            }
            // Of a scheduler that is compiled out.
            Command::CommitDone if layout.quirks.takes_commit_done => Request::Ignored,
            // Only for queues, or compiled out of every Linux build.
            Command::Unknown
            | Command::Signal
            | Command::WriteData
            | Command::SetIdle
            | Command::MapPhysical
            | Command::GetFrameInfo
            | Command::CommitDone
            | Command::SyncPoint
            | Command::DestroyMmu
            | Command::GcOff
            | Command::GcOn => Request::Refused(Error::InvalidArgument),
            // These exist, and are not built.
            Command::ReadRegisterEx
            | Command::WriteRegisterEx
            | Command::Debug
            | Command::DebugDump
            | Command::Compose
            | Command::DumpGpuProfile
            | Command::AllocateVirtualCommandBuffer
            | Command::FreeVirtualCommandBuffer
            | Command::FlushCache
            | Command::GetMmuVersion
            | Command::VidmemDatabase
            | Command::GetGraphicBufferFd
            | Command::SetVideoMemoryMetadata
            | Command::SyncVideoMemory
            | Command::Dec200Test
            | Command::Dec300Read
            | Command::Dec300Write
            | Command::Dec300Flush
            | Command::Dec300FlushWait
            | Command::UpdateDebugCallback
            | Command::ConfigCtxFramework
            | Command::ApbAxifeAccess
            | Command::CancelJob => Request::Refused(Error::NotSupported),
        }
    }

    /// SET_VIDEO_MEMORY_METADATA.
    fn metadata(self, u: &[u32]) -> Request {
        let fields = &self.0.metadata;
        let node = fields.node.handle(u);
        if fields.readback.word(u) != 0 {
            return Request::ReadMetadata { node };
        }
        // CAST: the bits of a signed field; less than 5.
        let metadata = NodeMetadata {
            status: fields.status.word(u) as i32,
            words: core::array::from_fn(|at| fields.fast_clear.nth(at as u16).word(u)),
        };
        Request::SetMetadata { node, metadata }
    }

    /// Whether `bytes` bytes of payload are part of an interface of `words`: builds without the
    /// profiler have smaller ones.
    fn has_room(self, words: &[u32], bytes: usize) -> bool {
        bytes != 0 && usize::from(self.0.union_at) + bytes <= 4 * words.len()
    }

    /// A command's counters as an interface of `words` words has them; builds whose contexts do not
    /// count have no room in front of them.
    fn counters_in(self, words: &[u32], counters: &CountersLayout) -> Option<CountersLayout> {
        let whole = counters.end();
        let bare = CountersLayout { at: 0, ..*counters };
        [*counters, bare].into_iter().find(|counters| {
            !counters.words.is_empty()
                && self.has_room(words, counters.end())
                && counters.end() <= whole
        })
    }

    /// The counters that a command tells in an interface of `words` words, and which they are.
    fn counters(self, words: &[u32]) -> Option<(CountersLayout, CounterSet)> {
        let profile = &self.0.profile;
        let (counters, set) =
            match self.command(words) {
                Command::ReadAllProfileRegisters => (&profile.all, CounterSet::Whole),
                Command::ReadAllProfileNewRegistersPart1
                | Command::ReadAllProfileRegistersPart1 => (&profile.part_1, CounterSet::First),
                Command::ReadAllProfileNewRegistersPart2
                | Command::ReadAllProfileRegistersPart2 => (&profile.part_2, CounterSet::Second),
                _ => return None,
            };
        Some((self.counters_in(words, counters)?, set))
    }

    /// Bytes of the interface that the profiler's commands have to themselves; 0: there is none.
    pub(crate) fn profiler_bytes(self) -> usize {
        self.0.profiler_bytes.into()
    }

    /// The generation where the profiler's commands have an interface to themselves. There is one.
    pub(crate) fn with_profiler_interface() -> Option<Self> {
        let mut layouts = LAYOUTS.iter();
        layouts
            .find(|layout| layout.profiler_bytes != 0)
            .map(Format)
    }

    /// Reads a request of an interface that the profiler's commands have to themselves. Others are
    /// none there.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_profiler_interface(self, words: &[u32]) -> Request {
        match self.is_profiler(words) {
            true => self.decode_profiler(words),
            false => Request::Refused(Error::InvalidArgument),
        }
    }

    /// Reads a request of the profiler's. Builds without it have no room for some: these do
    /// nothing.
    #[cold]
    #[inline(never)]
    fn decode_profiler(self, words: &[u32]) -> Request {
        let layout = self.0;
        let u = self.union(words);
        let has_room = |bytes: u16| self.has_room(words, bytes.into());
        let is_built = layout.quirks.has_profiler;
        let mut counters = [&layout.profile.all, &layout.profile.part_1].into_iter();
        // The smaller payloads may fit all the same.
        if !counters.any(|counters| self.counters_in(words, counters).is_some()) {
            return Request::Ignored;
        }
        match self.command(words) {
            Command::GetProfileSetting if has_room(layout.profile_setting.bytes) => {
                Request::ProfileSetting {
                    is_built,
                    is_on: layout.quirks.profiles,
                }
            }
            Command::SetProfileSetting if has_room(layout.set_profile.bytes) => {
                Request::SetProfileSetting {
                    enable: layout.set_profile.enable.word(u) != 0,
                    is_built,
                }
            }
            Command::ProfileRegisters2d if has_room(layout.counters_2d.bytes) => {
                Request::ReadCounters2d {
                    user: layout.counters_2d.result.user(u),
                }
            }
            Command::ReadProfilerNewRegisterSetting | Command::ReadProfilerRegisterSetting
                if has_room(layout.profile_clear.bytes) =>
            {
                Request::ClearCounters {
                    clears: layout.profile_clear.clears.word(u) != 0,
                }
            }
            _ => match self.counters(words) {
                Some((_, set)) => Request::ReadCounters(set),
                None => Request::Ignored,
            },
        }
    }

    /// Whether it is a command of the profiler's.
    fn is_profiler(self, words: &[u32]) -> bool {
        matches!(
            self.command(words),
            Command::GetProfileSetting
                | Command::SetProfileSetting
                | Command::ReadAllProfileRegistersPart1
                | Command::ReadAllProfileRegistersPart2
                | Command::ReadProfilerRegisterSetting
                | Command::ProfileRegisters2d
        )
    }

    /// The text that DEBUG or SET_PROFILE_SETTING has.
    #[cold]
    pub(crate) fn text(self, words: &[u32]) -> Text {
        let (field, count) = match self.command(words) {
            Command::Debug => (self.0.debug.message, MESSAGE_WORDS),
            _ => (self.0.set_profile.name, MAX_TEXT_WORDS),
        };
        let mut text = Text([0; MAX_TEXT_WORDS]);
        if field.exists() {
            let found = field.and_behind(self.union(words)).iter().take(count);
            text.0
                .iter_mut()
                .zip(found)
                .for_each(|(to, from)| *to = *from);
        }
        text
    }

    fn shared_info(self, u: &[u32]) -> SharedInfo {
        let fields = &self.0.shared_info;
        SharedInfo {
            process: fields.process.word(u),
            id: fields.id.word(u),
            data: fields.data.user(u),
            bytes: fields.size.long(u),
            node: fields.node.handle(u),
            node_data: fields.node_data.user(u),
            is_rectangle: fields.kind.word(u) == DIRTY_RECTANGLE,
        }
    }

    fn own_shared_info(self, u: &[u32]) -> SharedInfo {
        let fields = &self.0.set_shared_info;
        SharedInfo {
            process: 0,
            id: fields.id.word(u),
            data: fields.data.user(u),
            bytes: fields.size.long(u),
            node: fields.node.handle(u),
            node_data: fields.node_data.user(u),
            is_rectangle: fields.kind.word(u) == DIRTY_RECTANGLE,
        }
    }

    fn contiguous(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_contiguous;
        NamedBuffer {
            bytes: fields.size.long(u),
            handle: fields.physical.handle(u),
            user: fields.logical.user(u),
        }
    }

    fn non_paged(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_non_paged;
        NamedBuffer {
            bytes: fields.size.long(u),
            handle: fields.physical.handle(u),
            user: fields.logical.user(u),
        }
    }

    fn commands(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_commands;
        NamedBuffer {
            bytes: fields.size.long(u),
            handle: fields.physical.handle(u),
            user: fields.logical.user(u),
        }
    }

    fn user_memory(self, u: &[u32]) -> NamedUserMemory {
        let fields = &self.0.unmap_user;
        NamedUserMemory {
            user: fields.memory.user(u),
            bytes: fields.size.long(u),
            info: fields.info.handle(u),
        }
    }

    /// `gceSURF_TYPE` with the numbers of 4.0.0; flags are kept.
    fn surface_type(self, kind: u32) -> u32 {
        let types = self.0.quirks.surface_types.into();
        match kind {
            _ if types != 0 => match kind & SURFACE_MASK {
                kind if (SURFACE_TYPES..types).contains(&kind) => SURFACE_UNKNOWN,
                kind => kind,
            },
            _ if self.0.quirks.image_surfaces => kind,
            SURFACE_IMAGE..OLD_SURFACE_TYPES => kind + 1,
            OLD_SURFACE_TYPES => u32::MAX,
            _ => kind,
        }
    }

    /// `gcePOOL` with the numbers of 4.0.0.
    fn pool(self, pool: u32) -> u32 {
        if pool < self.0.quirks.pools {
            pool
        } else {
            POOL_UNKNOWN
        }
    }

    /// A pool with the numbers of 4.0.0 as this generation numbers it: what lies in pages of its
    /// own is VIRTUAL where there is no pool of such memory.
    fn pool_number(self, pool: u32) -> u32 {
        if pool < self.0.quirks.pools {
            pool
        } else {
            POOL_VIRTUAL
        }
    }

    fn allocate_linear(self, u: &[u32]) -> Request {
        let fields = &self.0.allocate_linear;
        let flags = &self.0.quirks.flags;
        let flag = fields.flag.word(u);
        if flag & flags.secure != 0 {
            return Request::Refused(Error::NotSupported);
        }
        let Ok(bytes) = u32::try_from(fields.size.long(u)) else {
            return Request::Refused(Error::OutOfMemory);
        };
        let is = |bits| flag & bits != 0;
        let pool = match self.pool(fields.pool.word(u)) {
            // The pool is never shown cached.
            POOL_SYSTEM if is(flags.cacheable) => POOL_UNKNOWN,
            // Without a number of its own.
            POOL_VIRTUAL if is(flags.contiguous) && self.has_no_contiguous_pool() => {
                POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.contiguous) => {
                match is(flags.cacheable) {
                    true => POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE,
                    false => POOL_DEFAULT_FORCE_CONTIGUOUS,
                }
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.cacheable | flags.scattered) => {
                POOL_VIRTUAL
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.fast) => POOL_SYSTEM,
            pool => pool,
        };
        Request::AllocateLinear {
            bytes,
            alignment: fields.alignment.word(u),
            kind: self.surface_type(fields.kind.word(u)),
            pool,
        }
    }

    /// Whether pool CONTIGUOUS is none.
    fn has_no_contiguous_pool(self) -> bool {
        self.0.quirks.pools <= POOL_CONTIGUOUS
    }

    fn allocate_surface(self, u: &[u32]) -> Request {
        if !self.0.quirks.allocates_surfaces {
            return Request::Refused(Error::NotSupported);
        }
        let fields = &self.0.allocate_surface;
        Request::AllocateSurface(Surface {
            width: fields.width.word(u),
            height: fields.height.word(u),
            depth: fields.depth.word(u),
            format: fields.format.word(u),
            kind: self.surface_type(fields.kind.word(u)),
            pool: self.pool(fields.pool.word(u)),
        })
    }

    fn map_user(self, u: &[u32]) -> Request {
        let fields = &self.0.map_user;
        let (user, bytes) = (fields.memory.user(u), fields.size.long(u));
        let is_aligned = user & (self.0.quirks.user_alignment - 1) == 0;
        match fields.physical.word(u) {
            0 | NO_PHYSICAL if !is_aligned && bytes != 0 => Request::Refused(Error::OutOfMemory),
            0 | NO_PHYSICAL => Request::MapUser { user, bytes },
            physical => Request::MapPhysical { physical, bytes },
        }
    }

    fn wrap(self, u: &[u32]) -> Request {
        let fields = &self.0.wrap;
        let kinds = &self.0.quirks.flags;
        let kind = fields.flag.word(u) & (kinds.dma_buf | kinds.user_memory);
        match kind {
            0 => Request::Refused(Error::InvalidArgument),
            _ if kind == kinds.dma_buf => Request::Wrap(Foreign::DmaBuf {
                // CAST: the bits of a signed field.
                fd: fields.handle.word(u) as i32,
            }),
            // Where the memory is physically is not looked at: that of the client's choice is
            // nobody's to map. Who sees it somewhere gets what it sees there, and who sees it
            // nowhere, at 0, has asked for something, and gets nothing.
            _ if kind == kinds.user_memory => Request::Wrap(Foreign::User {
                user: fields.logical.user(u),
                bytes: fields.size.long(u),
            }),
            _ => Request::Refused(Error::InvalidArgument),
        }
    }

    fn shared_buffer(self, u: &[u32]) -> SharedBuffer {
        let fields = &self.0.shared_buffer;
        let id = fields.id.handle(u);
        let user = fields.data.user(u);
        let bytes = fields.size.word(u);
        match fields.command.word(u) {
            0 => SharedBuffer::Create { bytes },
            1 => SharedBuffer::Destroy { id },
            2 => SharedBuffer::Map { id },
            3 => SharedBuffer::Write { id, user, bytes },
            4 => SharedBuffer::Read { id, user, bytes },
            _ => SharedBuffer::Unknown,
        }
    }

    fn user_signal(self, u: &[u32]) -> UserSignal {
        let fields = &self.0.user_signal;
        let id = fields.id.word(u);
        match fields.command.word(u) {
            0 => UserSignal::Create {
                manual_reset: fields.manual_reset.word(u) != 0,
            },
            1 => UserSignal::Destroy { id },
            2 => UserSignal::Signal {
                id,
                state: fields.state.word(u) != 0,
            },
            3 => UserSignal::Wait {
                id,
                milliseconds: fields.wait.word(u),
            },
            _ if !self.0.quirks.maps_signals => UserSignal::Unknown,
            4 => UserSignal::Map { id },
            5 => UserSignal::Destroy { id },
            _ => UserSignal::Unknown,
        }
    }

    /// Whether commands are for the engine that copies, which none of these cores has. `own`: where
    /// the structure itself says so, if it does.
    fn copies(self, own: Field, words: &[u32]) -> bool {
        let engine = match own.exists() {
            true => own.word(self.union(words)),
            false => self.0.header.engine.word(words),
        };
        engine == ENGINE_COPY
    }

    fn commit(self, u: &[u32]) -> Request {
        let fields = &self.0.commit;
        match (self.decode_commit(u), fields.count.word(u)) {
            (Some(commit), 0 | 1) => Request::Commit(commit),
            (Some(first), count) if count <= MAX_PARTS => Request::CommitAll { first, count },
            _ => Request::Refused(Error::InvalidArgument),
        }
    }

    /// The part of the core number `index`, below the `count` of [`Request::CommitAll`], whose
    /// interface is `words`. Who has no commands of its own gets the first one's.
    pub(crate) fn decode_part(self, words: &[u32], index: u32) -> Commit {
        let u = self.union(words);
        let fields = &self.0.commit;
        // CAST: below MAX_PARTS.
        let nth = |first: Field| first.nth(index as u16);
        let commands = match nth(fields.command_buffer).user(u) {
            0 => fields.command_buffer.user(u),
            own => own,
        };
        Commit {
            context: nth(fields.context).long(u),
            context_buffer: 0,
            commands: Commands::Described(commands),
            delta: nth(fields.delta).user(u),
            // The first part has it.
            queue: 0,
            core: None,
            next: 0,
            format: self,
        }
    }

    /// Bytes of a `gcsHAL_SUBCOMMIT`, which [`Format::decode_commit`] wants; 0: there is none.
    pub(crate) fn sub_commit_bytes(self) -> usize {
        match self.0.commit.next.exists() {
            true => MAX_SUB_COMMIT_BYTES,
            false => 0,
        }
    }

    /// Reads COMMIT's arguments, or a `gcsHAL_SUBCOMMIT`, of [`Format::sub_commit_bytes`] bytes.
    /// `None`: its numbers are of no buffer.
    #[inline]
    pub(crate) fn decode_commit(self, u: &[u32]) -> Option<Commit> {
        let fields = &self.0.commit;
        let commands = if fields.command_buffer.exists() {
            Commands::Described(fields.command_buffer.user(u))
        } else {
            let (buffer, next) = self.decode_location(fields.location.and_behind(u))?;
            Commands::Here(buffer, next)
        };
        Some(Commit {
            context: fields.context.long(u),
            context_buffer: fields.context_buffer.user(u),
            commands,
            delta: fields.delta.user(u),
            queue: fields.queue.user(u),
            core: fields.core.exists().then(|| fields.core.word(u)),
            next: fields.next.user(u),
            format: self,
        })
    }

    /// Reads one record of an event queue, of [`Format::record_bytes`] bytes, and the address of
    /// the next (0: the last).
    pub(crate) fn decode_record(self, words: &[u32]) -> (Record, u64) {
        let layout = self.0;
        let next = layout.queue.next.user(words);
        let interface = words
            .get(usize::from(layout.queue.command) / 4..)
            .unwrap_or_default();
        let u = words
            .get(usize::from(layout.queue.union_at) / 4..)
            .unwrap_or_default();
        let record = match self.command(interface) {
            Command::Signal => Record::Signal {
                id: layout.signal.signal.handle(u),
                process: layout.signal.process.long(u),
            },
            Command::UnlockVideoMemory => Record::Unlock {
                node: layout.unlock.node.handle(u),
                later: layout.quirks.unlocks_later,
            },
            Command::BottomHalfUnlockVideoMemory => Record::Unlock {
                node: layout.finish_unlock.node.handle(u),
                later: layout.quirks.unlocks_later,
            },
            Command::FreeVideoMemory => Record::FreeNode {
                node: layout.free_node.node.handle(u),
            },
            Command::FreeContiguousMemory => Record::FreeBuffer(self.contiguous(u)),
            Command::FreeNonPagedMemory => Record::FreeBuffer(self.non_paged(u)),
            Command::FreeVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Record::FreeBuffer(self.commands(u))
            }
            Command::UnmapUserMemory => Record::UnmapUser(self.user_memory(u)),
            Command::WriteData => Record::WriteData {
                address: layout.write_data.address.word(u),
                data: layout.write_data.data.word(u),
            },
            Command::Timestamp => match layout.timestamp.request.word(u) {
                request @ (TIMESTAMP_STOP | TIMESTAMP_START) => Record::Timestamp {
                    timer: layout.timestamp.timer.word(u),
                    start: request == TIMESTAMP_START,
                },
                _ => Record::Other,
            },
            Command::CommitDone => Record::CommitDone,
            _ => Record::Other,
        };
        (record, next)
    }

    /// The object type of a `gcoCMDBUF`.
    pub(crate) fn command_buffer_object(self, words: &[u32]) -> u32 {
        self.0.command_buffer.object.word(words)
    }

    /// Reads a `gcoCMDBUF`, of [`Format::command_buffer_bytes`] bytes.
    pub(crate) fn decode_command_buffer(self, words: &[u32]) -> CommandBuffer {
        let fields: &CommandBufferLayout = &self.0.command_buffer;
        let or = |field: Field, default| match field.exists() {
            true => field.word(words),
            false => default,
        };
        CommandBuffer {
            object: fields.object.word(words),
            entry_pipe: fields.entry_pipe.word(words),
            logical: fields.logical.user(words),
            start_offset: fields.start_offset.word(words),
            offset: fields.offset.word(words),
            reserved_head: or(fields.reserved_head, RESERVED_HEAD),
            reserved_tail: or(fields.reserved_tail, RESERVED_TAIL),
        }
    }

    /// Bytes of a `gcsHAL_COMMAND_LOCATION`, which [`Format::decode_location`] wants; 0: there is
    /// none.
    pub(crate) fn location_bytes(self) -> usize {
        self.0.location.bytes.into()
    }

    /// Reads a `gcsHAL_COMMAND_LOCATION`, of [`Format::location_bytes`] bytes, and the address of
    /// the next (0: the last). `None`: its numbers are of no buffer.
    pub(crate) fn decode_location(self, words: &[u32]) -> Option<(CommandBuffer, u64)> {
        let fields = &self.0.location;
        let (start, tail) = (
            fields.start_offset.word(words),
            fields.reserved_tail.word(words),
        );
        let end = start.checked_add(fields.size.word(words))?;
        let buffer = CommandBuffer {
            object: CommandBuffer::OBJECT_TYPE,
            entry_pipe: fields.entry_pipe.word(words),
            logical: fields.logical.user(words),
            start_offset: start,
            offset: end.checked_sub(tail)?,
            reserved_head: fields.reserved_head.word(words),
            reserved_tail: tail,
        };
        Some((buffer, fields.next.user(words)))
    }

    /// Bytes of a `gcsSTATE_DELTA`, which [`Format::decode_delta`] wants; 0: there is none.
    pub(crate) fn delta_bytes(self) -> usize {
        self.0.delta.bytes.into()
    }

    /// Reads a `gcsSTATE_DELTA`, of [`Format::delta_bytes`] bytes.
    pub(crate) fn decode_delta(self, words: &[u32]) -> Delta {
        let fields = &self.0.delta;
        Delta {
            references: match fields.references.exists() {
                // CAST: the bits of a signed field.
                true => fields.references.word(words) as i32,
                // The newest generations do not count: what was given is to be read.
                false => 1,
            },
            element_count: {
                let more = u32::from(self.0.quirks.elements_and_one);
                fields.element_count.word(words).saturating_sub(more)
            },
            record_count: fields.record_count.word(words),
            records: fields.records.user(words),
        }
    }

    /// Whether a delta is read in the switch that it comes with: where its references are not
    /// counted.
    pub(crate) fn merges_at_once(self) -> bool {
        let fields = &self.0.delta;
        fields.bytes != 0 && !fields.references.exists()
    }

    /// Offset of a delta's reference count, if the generation has one.
    pub(crate) fn delta_references(self) -> Option<u64> {
        let field = self.0.delta.references;
        field.exists().then_some(field.at())
    }

    /// Bytes of a `gcoCONTEXT`, which [`Format::decode_context`] wants; 0: contexts are the
    /// kernel's.
    pub(crate) fn context_bytes(self) -> usize {
        self.0.context.bytes.into()
    }

    /// Reads a `gcoCONTEXT`, of [`Format::context_bytes`] bytes.
    pub(crate) fn decode_context(self, words: &[u32]) -> ClientContext {
        let fields = &self.0.context;
        ClientContext {
            object: fields.object.word(words),
            id: fields.id.long(words),
            has_head: fields.pipe_2d_index.word(words) != 0,
            buffer_bytes: fields.buffer_size.word(words),
            logical: fields.logical.user(words),
            link: fields.link.user(words),
            initial_pipe: fields.initial_pipe.word(words),
            entry_pipe: fields.entry_pipe.word(words),
            in_use: fields.in_use.user(words),
        }
    }

    /// Offset of the id, of 8 bytes, in a `gcoCONTEXT`.
    pub(crate) fn context_id(self) -> u64 {
        self.0.context.id.at()
    }

    /// Writes the status.
    #[inline]
    pub(super) fn put_status(self, words: &mut [u32], status: u32) {
        self.0.header.status.put(words, status);
        if self.0.user_signal.status.exists() && self.command(words) == Command::UserSignal {
            self.put_wait_status(words);
        }
    }

    /// Writes how the wait for a signal has ended besides: nothing is ever called off.
    fn put_wait_status(self, words: &mut [u32]) {
        if let UserSignal::Wait { .. } = self.user_signal(self.union(words)) {
            self.0.user_signal.status.put(self.union_mut(words), 0);
        }
    }

    /// Writes the status of success.
    #[inline]
    pub(crate) fn succeed(self, words: &mut [u32], reply: &Reply<'_>) {
        self.put_status(words, reply.status());
    }

    /// Writes the status of a failure, as this generation tells it.
    pub(crate) fn fail(self, words: &mut [u32], error: Error) {
        let told = self.told(words, error);
        // CAST: the bits of a signed field.
        self.put_status(words, told.status() as u32);
    }

    /// What this generation calls a failure of the request in `words`.
    pub(crate) fn told(self, words: &[u32], error: Error) -> Error {
        let is_old = self.0.quirks.unknown_signal == UnknownSignal::Invalid;
        match (self.command(words), error) {
            (Command::UserSignal, Error::NotFound) if is_old => {
                match self.user_signal(self.union(words)) {
                    UserSignal::Signal { .. } => Error::InvalidRequest,
                    _ => Error::InvalidArgument,
                }
            }
            (
                Command::LockVideoMemory
                | Command::UnlockVideoMemory
                | Command::BottomHalfUnlockVideoMemory
                | Command::ReleaseVideoMemory
                | Command::NameVideoMemory
                | Command::ExportVideoMemory
                | Command::GetVideoMemoryFd
                | Command::SetVideoMemoryMetadata
                | Command::WaitFence
                | Command::GetGraphicBufferFd,
                Error::InvalidObject | Error::InvalidData,
            ) if self.0.quirks.unknown_node_not_found => Error::NotFound,
            (_, error) => error,
        }
    }

    /// Answers a request of an interface that the profiler's commands have to themselves.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer_profiler(self, words: &mut [u32], answer: Result<Reply<'_>, Error>) {
        let status = match answer {
            Ok(reply) => {
                self.encode_profiler(words, &reply);
                reply.status()
            }
            // CAST: the bits of a signed field.
            Err(error) => error.status() as u32,
        };
        self.put_status(words, status);
    }

    /// Writes a reply of the profiler's. Apart from the others, which are to be quick.
    #[cold]
    #[inline(never)]
    fn encode_profiler(self, words: &mut [u32], reply: &Reply<'_>) {
        match reply {
            Reply::ProfileSetting { enable, name } => {
                let u = self.union_mut(words);
                let fields = &self.0.profile_setting;
                fields.enable.put(u, (*enable).into());
                fields.sync.put(u, 0);
                fields.mode.put(u, 0);
                fields.probe.put(u, 0);
                if fields.name.exists() {
                    encode_name(fields.name, u, name.as_deref());
                }
            }
            Reply::Counters(cells) => {
                let Some((counters, _)) = self.counters(words) else {
                    return;
                };
                let u = self.union_mut(words);
                let told = u
                    .get_mut(usize::from(counters.at) / 4..)
                    .unwrap_or_default();
                for (place, counter) in told.iter_mut().zip(counters.words) {
                    if let Some(value) = counter.value(cells) {
                        *place = value;
                    }
                }
            }
            _ => {}
        }
    }

    /// Writes a reply over the request that it answers.
    pub(crate) fn encode(self, words: &mut [u32], reply: &Reply<'_>) {
        let layout = self.0;
        // Few replies depend on it: it is looked up where one does.
        let number = COMMAND.word(words);
        let command = || layout.command(number);
        if let Reply::Submitted { number } = *reply {
            layout.header.handle.put_long(words, number);
            return;
        }
        let u = self.union_mut(words);
        match *reply {
            Reply::Nothing | Reply::Submitted { .. } => {}
            Reply::CommandBuffer => {
                if let Some(info) = u.get_mut(..COMMAND_BUFFER_INFO.len()) {
                    info.copy_from_slice(&COMMAND_BUFFER_INFO);
                }
            }
            Reply::Committed {
                counted,
                stamp,
                switched,
            } => {
                layout.commit.stamp.put_long(u, stamp);
                layout.commit.switched.put(u, switched.into());
                if let Some(number) = counted {
                    layout.header.handle.put_long(words, number);
                }
            }
            Reply::VideoMemory { pool_bytes } => {
                // No internal and external memory here.
                zero(u, layout.video_memory.bytes);
                if layout.quirks.names_pool && pool_bytes != 0 {
                    layout.video_memory.contiguous_physical.put(u, POOL_NAME);
                }
                layout.video_memory.contiguous_size.put_long(u, pool_bytes);
            }
            Reply::ChipIdentity(identity) => self.encode_identity(u, identity),
            Reply::ChipOptions {
                profiler,
                fast_clear,
                compression,
                power,
                shaders,
                pool,
            } => {
                let fields = &layout.options;
                zero(u, fields.bytes);
                fields.profiler.put(u, profiler.into());
                fields.fast_clear.put(u, fast_clear.into());
                fields.power.put(u, power.into());
                fields.mmu.put(u, 1);
                let compressions = if compression { ALL_COMPRESSIONS } else { 0 };
                fields.compression.put(u, compressions);
                fields.small_batch.put(u, 1);
                fields.attribute_cache.put(u, ATTRIBUTE_CACHE);
                fields.pools.put(u, pool.into());
                fields.shaders.put(u, shaders);
                fields.networks.put(u, ALL_NETWORKS);
            }
            Reply::ProfileSetting { .. } | Reply::Counters(_) => self.encode_profiler(words, reply),
            Reply::Register(data) => layout.read_register.data.put(u, data),
            Reply::Off => layout.read_register.data.put(u, 0),
            Reply::Registers(data) => {
                // CAST: 4 of them.
                for (core, data) in data.into_iter().enumerate() {
                    if let Some(data) = data {
                        layout.read_registers.data.nth(core as u16).put(u, data);
                    }
                }
            }
            Reply::AllOff => {
                // CAST: 4 of them.
                for core in 0..EX_CORES as u16 {
                    layout.read_registers.data.nth(core).put(u, 0);
                }
            }
            Reply::Scale { scale } => {
                layout.scale.value.put(u, scale);
                layout.scale.min.put(u, 1);
                layout.scale.max.put(u, FULL_SCALE);
            }
            Reply::Frequency { core, shader } => {
                layout.chip_frequency.core.put(u, core);
                layout.chip_frequency.shader.put(u, shader);
            }
            Reply::CpuFrequency => layout.cpu_frequency.frequency.put(u, 0),
            Reply::KernelSettings { signal } => {
                // CAST: the bits of a signed field.
                layout.kernel_settings.signal.put(u, signal as u32);
            }
            Reply::BaseAddress(address) => {
                layout.base_address.base_address.put(u, address);
                layout.base_address.range_count.put(u, 0);
                layout.base_address.range_start.put(u, 0);
                layout.base_address.range_end.put(u, 0);
            }
            Reply::Version => {
                let [major, minor, patch, build] = layout.version;
                layout.version_numbers.major.put(u, major);
                layout.version_numbers.minor.put(u, minor);
                layout.version_numbers.patch.put(u, patch);
                layout.version_numbers.build.put(u, build);
            }
            Reply::ChipInfo(cores) => self.encode_cores(u, cores),
            Reply::Buffer {
                bytes: size,
                address,
                handle,
                user,
            } => {
                if command() == Command::AllocateVirtualCommandBuffer {
                    let fields = &layout.allocate_commands;
                    fields.size.put_long(u, size);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                } else if command() == Command::AllocateContiguousMemory {
                    let fields = &layout.allocate_contiguous;
                    fields.size.put_long(u, size);
                    fields.address.put(u, address);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                } else {
                    let fields = &layout.allocate_non_paged;
                    fields.size.put_long(u, size);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                }
            }
            Reply::Mapped { user } => layout.map_memory.logical.put_long(u, user),
            Reply::UserMemory { info, address } => {
                layout.map_user.info.put(u, info);
                layout.map_user.address.put(u, address);
            }
            Reply::ConfigPower { old } => layout.config_power.old.put(u, old.into()),
            Reply::Power { state, is_idle } => {
                layout.power.state.put(u, layout.quirks.power.number(state));
                layout.power.is_idle.put(u, is_idle.into());
            }
            Reply::Resets { count } => {
                layout.resets.stamp.put_long(u, count);
                layout.resets.context.put(u, 0);
            }
            // CAST: the bits of a signed field.
            Reply::TimeDelta { microseconds } => layout.timestamp.delta.put(u, microseconds as u32),
            Reply::Database(ref ledgers) => self.encode_database(u, ledgers),
            Reply::Node { node, pool, bytes } => {
                let pool = self.pool_number(pool);
                layout.allocate_linear.pool.put(u, pool);
                layout.allocate_linear.node.put(u, node);
                if layout.quirks.tells_bytes {
                    layout.allocate_linear.size.put_long(u, bytes);
                }
            }
            Reply::Surface {
                width,
                height,
                pool,
                node,
            } => {
                layout.allocate_surface.width.put(u, width);
                layout.allocate_surface.height.put(u, height);
                layout.allocate_surface.pool.put(u, pool);
                layout.allocate_surface.node.put(u, node);
            }
            Reply::Locked { address, user } => {
                if let Some(address) = address {
                    layout.lock.address.put(u, address);
                    layout.lock.memory.put_long(u, 0);
                    layout.lock.gid.put(u, 0);
                    layout.lock.physical_address.put(u, 0);
                }
                if let Some(user) = user {
                    layout.lock.memory.put_long(u, user);
                }
            }
            Reply::Name(name) => layout.name_node.name.put(u, name),
            Reply::Imported { node } => layout.import_node.node.put(u, node),
            Reply::Wrapped { node, bytes } => {
                layout.wrap.node.put(u, node);
                layout.wrap.granted.put_long(u, bytes);
            }
            Reply::File(ref file) => {
                let field = match command() {
                    Command::ExportVideoMemory => layout.export_node.fd,
                    Command::CreateNativeFence => layout.create_fence.fd,
                    Command::GetGraphicBufferFd => layout.graphic_buffer.fd,
                    _ => layout.node_fd.fd,
                };
                field.put(u, file.number());
            }
            Reply::Metadata(metadata) => {
                let fields = &layout.metadata;
                // CAST: the bits of a signed field.
                fields.status.put(u, metadata.status as u32);
                for (at, word) in (0u16..).zip(metadata.words) {
                    fields.fast_clear.nth(at).put(u, word);
                }
            }
            Reply::SharedBuffer { id } => layout.shared_buffer.id.put(u, id),
            Reply::Copied { bytes } => layout.shared_buffer.size.put(u, bytes.unwrap_or(0)),
            Reply::Unlocked {
                asynchronous,
                pool,
                bytes,
            } => {
                layout.unlock.asynchronous.put(u, asynchronous.into());
                layout.unlock.pool.put(u, self.pool_number(pool));
                layout.unlock.size.put_long(u, bytes);
            }
            Reply::Unmapped => {
                layout.unlock.pool.put(u, POOL_UNKNOWN);
                layout.unlock.size.put(u, 0);
            }
            Reply::Signal { id } => layout.user_signal.id.put(u, id),
            Reply::Context {
                context,
                state_count,
            } => {
                layout.attach.context.put(u, context);
                layout.attach.state_count.put_long(u, state_count);
                layout.attach.record_count.put_long(u, state_count);
                layout.attach.buffer_bytes.put(u, 0);
            }
        }
    }

    fn encode_identity(self, u: &mut [u32], identity: &IdentityWords) {
        let words = self.0.identity.words;
        let Some(u) = u.get_mut(..usize::from(self.0.identity.bytes) / 4) else {
            return;
        };
        let (told, rest) = u.split_at_mut(words.len().min(u.len()));
        for (place, &word) in told.iter_mut().zip(words) {
            // CAST: the number of a variant.
            *place = identity.0[word as usize];
        }
        rest.fill(0);
        let fields = &self.0.identity;
        fields.register_apb.put_long(u, REGISTER_APB);
        fields.address_bits.put(u, ADDRESS_BITS);
        for field in fields.internal_memory {
            field.put(u, u32::MAX);
        }
    }

    fn encode_database(self, u: &mut [u32], ledgers: &ProcessLedgers) {
        let fields = &self.0.database;
        let (process, is_valid) = (fields.process.word(u), fields.is_valid.word(u));
        zero(u, fields.bytes);
        fields.process.put(u, process);
        fields.is_valid.put(u, is_valid);
        let mut put = |amounts: [Field; 3], counts: [Field; 2], behind: u16, ledger: &Ledger| {
            let Ledger {
                bytes, max, total, ..
            } = *ledger;
            for (field, value) in amounts.into_iter().zip([bytes, max, total]) {
                field.behind(behind).put_long(u, value);
            }
            for (field, value) in counts.into_iter().zip([ledger.given, ledger.returned]) {
                field.behind(behind).put(u, value);
            }
        };
        put(
            [fields.video, fields.video_max, fields.video_total],
            [fields.video_given, fields.video_returned],
            0,
            &ledgers.video,
        );
        put(
            [
                fields.non_paged,
                fields.non_paged_max,
                fields.non_paged_total,
            ],
            [fields.non_paged_given, fields.non_paged_returned],
            0,
            &ledgers.non_paged,
        );
        let (contiguous, pools) = match self.0.quirks.one_paged_pool {
            true => (
                &ledgers.in_one_piece,
                [Some(&ledgers.pool), Some(&ledgers.paged), None],
            ),
            false => (
                &ledgers.contiguous,
                [
                    Some(&ledgers.pool),
                    Some(&ledgers.contiguous_pages),
                    Some(&ledgers.scattered),
                ],
            ),
        };
        put(
            [
                fields.contiguous,
                fields.contiguous_max,
                fields.contiguous_total,
            ],
            [fields.contiguous_given, fields.contiguous_returned],
            0,
            contiguous,
        );
        for (place, pool) in (0..).zip(pools) {
            let Some(pool) = pool else { continue };
            put(
                [fields.pool, fields.pool_max, fields.pool_total],
                [fields.pool_given, fields.pool_returned],
                place * POOL_BYTES,
                pool,
            );
        }
    }
}

/// Which parts of a LOCK or an UNLOCK `field` asks for by its `bits`; without one, both.
fn parts(field: Field, bits: [u32; 2], u: &[u32]) -> Parts {
    let has = |bit: u32| !field.exists() || field.word(u) & bit != 0;
    let [lock, view] = bits.map(has);
    Parts { lock, view }
}

/// Writes the name of a profiler's file, with zeros behind it.
fn encode_name(field: Field, u: &mut [u32], name: Option<&Text>) {
    // CAST: 32 of them.
    for word in 0..MAX_TEXT_WORDS as u16 {
        let at = usize::from(word);
        let default = PROFILE_NAME.chunks_exact(4).nth(at);
        let default = default.and_then(|letters| letters.try_into().ok());
        let value = match name {
            Some(name) => name.0.get(at).copied().unwrap_or(0),
            None => default.map_or(0, u32::from_ne_bytes),
        };
        field.nth(word).put(u, value);
    }
}

/// Clears the first `bytes` bytes.
fn zero(u: &mut [u32], bytes: u16) {
    if let Some(u) = u.get_mut(..usize::from(bytes) / 4) {
        u.fill(0);
    }
}

/// What the core says, by [`IdentityWord`]; what it does not is 0. Made once: it does not change.
#[derive(Debug)]
pub(crate) struct IdentityWords(pub(crate) [u32; IdentityWord::COUNT]);

#[kernel::macros::kunit_tests(galcore_abi)]
mod tests {
    use super::*;

    #[test]
    fn one_generation_has_an_interface_for_the_profiler() {
        let has = |layout: &&Layout| layout.profiler_bytes != 0;
        assert_eq!(LAYOUTS.iter().filter(has).count(), 1);
        let format = Format::with_profiler_interface().unwrap();
        assert_eq!(format.name(), "6.4.11");
    }

    fn format(name: &str) -> Format {
        Format(LAYOUTS.iter().find(|layout| layout.name == name).unwrap())
    }

    fn put_word(words: &mut [u32], at: usize, value: u32) {
        words[at / 4] = value;
    }

    fn word(words: &[u32], at: usize) -> u32 {
        words[at / 4]
    }

    fn interface(command: u32) -> [u32; 168 / 4] {
        let mut words = [0; 168 / 4];
        put_word(&mut words, 0, command);
        words
    }

    #[test]
    fn fields_lie_where_the_c_header_has_them() {
        let format = format("4.0.0");
        let mut words = interface(19);
        put_word(&mut words, 32, 1);
        put_word(&mut words, 40, 2);
        put_word(&mut words, 44, 1);
        put_word(&mut words, 48, 3);
        put_word(&mut words, 56, 4);
        assert_eq!(
            format.decode(&words),
            Request::Commit(Commit {
                context: 1,
                context_buffer: 0,
                commands: Commands::Described(sys::user::narrow(0x1_0000_0002)),
                delta: 3,
                queue: 4,
                core: None,
                next: 0,
                format,
            })
        );
    }

    #[test]
    fn every_number_of_every_generation_is_a_request() {
        for layout in &LAYOUTS {
            let format = Format(layout);
            let mut words = [0; 400 / 4];
            for number in 0..200 {
                put_word(&mut words, 0, number);
                let request = format.decode(&words);
                if number >= layout.commands.len() as u32 {
                    let wanted = match number == layout.quirks.gpu_stuck {
                        true => Request::Ignored,
                        false => Request::Refused(Error::InvalidArgument),
                    };
                    assert_eq!(request, wanted);
                }
            }
            put_word(&mut words, 0, u32::MAX);
            assert_eq!(
                format.decode(&words),
                Request::Refused(Error::InvalidArgument)
            );
        }
        let format = format("4.0.0");
        assert_eq!(
            format.decode(&interface(17)),
            Request::Refused(Error::InvalidArgument)
        );
        assert_eq!(
            format.decode(&interface(6)),
            Request::Refused(Error::NotSupported)
        );
        assert_eq!(format.decode(&interface(55)), Request::QueryResets);
    }

    #[test]
    fn a_handle_of_64_bits_is_none() {
        let mut words = interface(13);
        put_word(&mut words, 32, 1);
        put_word(&mut words, 36, 1);
        assert_eq!(
            format("4.0.0").decode(&words),
            Request::Lock {
                node: u32::MAX,
                cacheable: false,
                again: false,
                parts: Parts {
                    lock: true,
                    view: true,
                },
            }
        );
    }

    #[test]
    fn parts_of_a_lock_are_asked_for_and_answered_apart() {
        let format = format("6.4.11");
        for (op, lock, view) in [
            (0, false, false),
            (1, true, false),
            (2, false, true),
            (3, true, true),
            (12, false, false),
        ] {
            let mut words = [0xAAAA_AAAA; 384 / 4];
            put_word(&mut words, 0, 9);
            put_word(&mut words, 80, op);
            let Request::Lock { parts, .. } = format.decode(&words) else {
                panic!("no LOCK");
            };
            assert_eq!(parts, Parts { lock, view });
            let address = lock.then_some(0x1000);
            let user = view.then_some(0x2000);
            format.encode(&mut words, &Reply::Locked { address, user });
            let found = (word(&words, 48), word(&words, 56));
            let memory = [[0xAAAA_AAAA, 0x2000], [0, 0x2000]][usize::from(lock)];
            let address = [0xAAAA_AAAA, 0x1000][usize::from(lock)];
            assert_eq!(found, (address, memory[usize::from(view)]));
        }
        let mut words = [0; 384 / 4];
        put_word(&mut words, 0, 10);
        put_word(&mut words, 68, 12);
        let both = Parts {
            lock: true,
            view: true,
        };
        let unlock = Request::Unlock {
            node: 0,
            parts: both,
            later: true,
        };
        assert_eq!(format.decode(&words), unlock);
    }

    #[test]
    fn a_reply_keeps_what_it_does_not_say() {
        let format = format("4.0.0");
        let mut words = [0xAAAA_AAAA; 168 / 4];
        put_word(&mut words, 0, 16);
        format.encode(&mut words, &Reply::Signal { id: 5 });
        format.fail(&mut words, Error::NotFound);
        assert_eq!(word(&words, 36), 5);
        assert_eq!(word(&words, 8), 0xFFFF_FFED);
        assert_eq!(word(&words, 32), 0xAAAA_AAAA);
        assert_eq!(word(&words, 40), 0xAAAA_AAAA);
    }

    #[test]
    fn contiguous_and_non_paged_differ() {
        let format = format("4.0.0");
        let reply = Reply::Buffer {
            bytes: 4096,
            address: 0x1000,
            handle: 7,
            user: 0x2000,
        };
        let mut words = interface(4);
        format.encode(&mut words, &reply);
        assert_eq!((word(&words, 40), word(&words, 44)), (0x1000, 7));
        let mut words = interface(2);
        format.encode(&mut words, &reply);
        assert_eq!((word(&words, 40), word(&words, 44)), (7, 0));
        assert_eq!(word(&words, 48), 0x2000);
    }

    #[test]
    fn old_clients_hear_of_unknown_signals_in_their_own_way() {
        let status = |name, sub_command| {
            let format = format(name);
            let mut words = [0; 216 / 4];
            put_word(&mut words, 0, 16);
            let at = if name == "v2" { 16 } else { 32 };
            put_word(&mut words, at, sub_command);
            format.fail(&mut words, Error::NotFound);
            word(&words, if name == "v2" { 4 } else { 8 }) as i32
        };
        assert_eq!(
            (status("v2", 1), status("v2", 2), status("v2", 3)),
            (-1, -21, -1)
        );
        assert_eq!((status("4.0.0", 1), status("4.0.0", 2)), (-19, -19));
    }

    #[test]
    fn newer_clients_hear_that_a_node_is_not_found() {
        let status = |name, command, at, error| {
            let format = format(name);
            let mut words = [0; 400 / 4];
            put_word(&mut words, 0, command);
            format.fail(&mut words, error);
            word(&words, at) as i32
        };
        for error in [Error::InvalidObject, Error::InvalidData] {
            assert_eq!(status("6.4.11", 9, 16, error), -19);
            assert_eq!(status("5.0.11.p8", 8, 8, error), -19);
        }
        assert_eq!(status("6.4.11", 9, 16, Error::MemoryUnlocked), -5);
        // COMMIT.
        assert_eq!(status("6.4.11", 18, 16, Error::InvalidData), -17);
        assert_eq!(status("4.0.0", 13, 8, Error::InvalidObject), -2);
    }

    #[test]
    fn numbers_of_types_and_pools_are_made_equal() {
        let old = format("v2");
        assert_eq!((old.surface_type(7), old.surface_type(8)), (7, 9));
        assert_eq!((old.surface_type(10), old.surface_type(0x104)), (11, 0x104));
        assert_eq!(old.surface_type(11), u32::MAX);
        assert_eq!(format("4.0.0").surface_type(8), 8);
        assert_eq!((old.pool(9), old.pool(10)), (9, POOL_UNKNOWN));
        assert_eq!(format("4.0.0").pool(10), 10);
        assert_eq!(format("6.4.11").pool(9), POOL_UNKNOWN);
        let (before, newest) = (format("6.2.4.p2"), format("6.4.11"));
        assert_eq!((before.pool_number(9), newest.pool_number(9)), (9, 7));
        // Instructions, fences and commands lie in the first bank; hints do not matter.
        assert_eq!((before.surface_type(12), before.surface_type(16)), (0, 16));
        assert_eq!((newest.surface_type(14), newest.surface_type(16)), (0, 0));
        assert_eq!(
            (newest.surface_type(17), newest.surface_type(0x107)),
            (17, 7)
        );
        assert_eq!(format("5.0.11.p8").surface_type(12), 12);
    }

    #[test]
    fn flags_of_an_allocation_choose_the_pool() {
        let format = format("6.4.11");
        let pool = |flag, pool| {
            let mut words = [0; 384 / 4];
            put_word(&mut words, 0, 6);
            put_word(&mut words, 40, 4096);
            put_word(&mut words, 56, flag);
            put_word(&mut words, 60, pool);
            match format.decode(&words) {
                Request::AllocateLinear { pool, .. } => Some(pool),
                _ => None,
            }
        };
        for (flag, asked, wanted) in [
            (0, POOL_DEFAULT, POOL_DEFAULT),
            (1, POOL_DEFAULT, POOL_DEFAULT_FORCE_CONTIGUOUS),
            (2, POOL_DEFAULT, POOL_VIRTUAL),
            (0x10, POOL_DEFAULT, POOL_VIRTUAL),
            (0x11, POOL_UNIFIED, POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE),
            (0x10, POOL_SYSTEM, POOL_UNKNOWN),
            (1, POOL_VIRTUAL, POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE),
            (0x100, POOL_DEFAULT, POOL_SYSTEM),
            (0x100, POOL_VIRTUAL, POOL_VIRTUAL),
            (0, 9, POOL_UNKNOWN),
        ] {
            assert_eq!(pool(flag, asked), Some(wanted));
        }
        assert_eq!(pool(0x40, POOL_DEFAULT), None);
    }
}
