// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 6.4.11: compact records, commands described in COMMIT itself.

use super::{
    v6_2::V6_2_4_P3,
    *, //
};

/// 6.4.11.p3.1049711, of i.MX 6.12.3-1.0.0.
pub(crate) const V6_4_11: Layout = Layout {
    name: "6.4.11",
    version: [6, 4, 11, 1049711],
    sizes: &[384],
    may_be_shorter: true,
    header: Header {
        hardware_type: word(4),
        core_index: word(12),
        engine: word(20),
        status: word(16),
        handle: ABSENT,
    },
    queue: Queue {
        union_at: 16,
        bytes: 48,
        ..V6_2_4_P3.queue
    },
    commands: &commands! {
        ChipInfo Version QueryChipIdentity QueryChipOption QueryChipFrequency
        QueryVideoMemory AllocateLinearVideoMemory WrapUserMemory ReleaseVideoMemory
        LockVideoMemory UnlockVideoMemory BottomHalfUnlockVideoMemory MapMemory
        UnmapMemory Cache Attach Detach EventCommit Commit SetTimeout UserSignal Signal
        SetProfileSetting ReadProfilerRegisterSetting ReadAllProfileRegistersPart1
        ReadAllProfileRegistersPart2 Database ConfigPowerManagement DebugDump
        ReadRegister WriteRegister ProfileRegisters2d GetBaseAddress GetFrameInfo
        SetVideoMemoryMetadata QueryCommandBuffer QueryResetTimeStamp CreateNativeFence
        WaitNativeFence WaitFence ExportVideoMemory NameVideoMemory ImportVideoMemory
        DeviceMutex Dec200Test Dec300Read Dec300Write Dec300Flush Dec300FlushWait Shbuf
        GetGraphicBufferFd UpdateDebugCallback ConfigCtxFramework AllocateNonPagedMemory
        FreeNonPagedMemory WriteData ApbAxifeAccess Reset CommitDone GetVideoMemoryFd
        GetProfileSetting ReadRegisterEx WriteRegisterEx SetPowerManagementState
        QueryPowerManagementState QueryCpuFrequency DumpGpuState SyncVideoMemory
        CancelJob Timestamp SetFscaleValue GetFscaleValue DestroyMmu
    },
    identity: IdentityLayout {
        words: &identity! {
            RawModel RawRevision Date Features Minor0 Minor1 Minor2 Minor3 Minor4 Minor5
            Minor6 AllStreams ListedPipes ResolvePipes InstructionCount
            FragmentInstructionCount ListedConstants FreeVaryings CoreCount Clusters
            Product RawFlags Eco Customer
        },
        register_apb: long(136),
        address_bits: word(148),
        internal_memory: &[word(104), word(108), word(112), word(116)],
        bytes: 152,
    },
    vector: Some(vector::V6_4),
    quirks: Quirks {
        hardware: HardwareTypes {
            routing: Routing::Slot,
            three_d: 2,
            two_d: 3,
            both: 1,
            vector: 5,
        },
        power: power::V6_4,
        // One more than the facts name: commands.
        surface_types: 17,
        pools: 9,
        tells_bytes: true,
        one_paged_pool: true,
        caches_nodes: true,
        detaches_known: true,
        takes_commit_done: true,
        no_node_ends: true,
        flags: AllocationFlags {
            scattered: 0x2,
            secure: 0x40,
            cacheable: 0x10,
            ..V6_2_4_P3.quirks.flags
        },
        ..V6_2_4_P3.quirks
    },
    base_address: GetBaseAddress {
        bytes: 328,
        ..V6_2_4_P3.base_address
    },
    video_memory: QueryVideoMemory {
        bytes: 64,
        exclusive_physical: word(48),
        exclusive_size: long(56),
        ..V6_2_4_P3.video_memory
    },
    allocate_linear: AllocateLinearVideoMemory {
        bytes: 40,
        size: long(0),
        alignment: word(8),
        kind: word(12),
        flag: word(16),
        pool: word(20),
        node: word(36),
    },
    allocate_surface: AllocateVideoMemory::ABSENT,
    lock: LockVideoMemory {
        bytes: 48,
        address: long(8),
        parts: word(40),
        ..V6_2_4_P3.lock
    },
    unlock: UnlockVideoMemory {
        bytes: 32,
        node: long(0),
        asynchronous: word(24),
        pool: word(12),
        size: long(16),
        parts: word(28),
    },
    wrap: WrapUserMemory {
        bytes: 56,
        physical: long(24),
        size: long(32),
        node: word(44),
        granted: long(48),
        ..V6_2_4_P3.wrap
    },
    node_fd: GetVideoMemoryFd {
        bytes: 12,
        node: word(0),
        fd: word(8),
    },
    graphic_buffer: GetGraphicBufferFd {
        bytes: 40,
        signal: long(24),
        fd: word(32),
        ..V6_2_4_P3.graphic_buffer
    },
    allocate_non_paged: AllocateNonPagedMemory {
        bytes: 32,
        size: long(8),
        physical: word(16),
        logical: long(24),
    },
    allocate_commands: AllocateVirtualCommandBuffer::ABSENT,
    free_commands: FreeVirtualCommandBuffer::ABSENT,
    allocate_contiguous: AllocateContiguousMemory::ABSENT,
    free_contiguous: FreeContiguousMemory::ABSENT,
    event: Event {
        bytes: 16,
        queue: long(0),
        ..Event::ABSENT
    },
    commit: Commit {
        bytes: 152,
        context: long(16),
        delta: long(8),
        queue: long(24),
        core: word(0),
        next: long(112),
        location: word(32),
        stamp: long(136),
        switched: word(132),
        ..Commit::ABSENT
    },
    map_user: MapUserMemory::ABSENT,
    unmap_user: UnmapUserMemory::ABSENT,
    user_signal: UserSignal {
        bytes: 24,
        status: word(20),
        ..V6_2_4_P3.user_signal
    },
    cache: Cache {
        bytes: 48,
        node: word(40),
        ..V6_2_4_P3.cache
    },
    kernel_settings: QueryKernelSettings::ABSENT,
    attach: Attach {
        bytes: 48,
        buffer_bytes: word(40),
        ..V6_2_4_P3.attach
    },
    chip_info: ChipInfo {
        bytes: 340,
        id: word(88),
        index: word(172),
        ..V6_2_4_P3.chip_info
    },
    options: QueryChipOptions {
        bytes: 248,
        small_batch: word(20),
        attribute_cache: word(28),
        pools: word(220),
        shaders: word(228),
        networks: word(232),
        ..V6_2_4_P3.options
    },
    config_power: ConfigPowerManagement {
        bytes: 8,
        old: word(4),
        ..V6_2_4_P3.config_power
    },
    set_scale: SetFscaleValue {
        bytes: 8,
        ..V6_2_4_P3.set_scale
    },
    cpu_frequency: QueryCpuFrequency {
        bytes: 8,
        frequency: word(4),
    },
    command_buffer: CommandBufferLayout {
        logical: long(56),
        start_offset: word(68),
        offset: word(72),
        reserved_head: word(32),
        reserved_tail: word(36),
        ..V6_2_4_P3.command_buffer
    },
    location: LocationLayout {
        bytes: 80,
        logical: long(24),
        start_offset: word(32),
        size: word(36),
        reserved_head: word(40),
        reserved_tail: word(44),
        entry_pipe: word(60),
        next: long(72),
    },
    delta: DeltaLayout {
        bytes: 72,
        element_count: word(8),
        record_count: word(12),
        records: long(16),
        ..DeltaLayout::ABSENT
    },
    profile: counters::Profile::V6_4,
    profiler_bytes: 400,
    profile_setting: GetProfileSetting {
        bytes: 12,
        mode: word(4),
        probe: word(8),
        ..V6_2_4_P3.profile_setting
    },
    set_profile: SetProfileSetting {
        bytes: 12,
        ..V6_2_4_P3.set_profile
    },
    debug: Debug::ABSENT,
    ..V6_2_4_P3
};
