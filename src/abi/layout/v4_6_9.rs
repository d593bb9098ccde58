// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 4.6.9: pointers of 64 bits.

use super::*;

/// 4.6.9.1210, of i.MX6 release 4.0.0.
pub(crate) const V4_0_0: Layout = Layout {
    name: "4.0.0",
    version: [4, 6, 9, 1210],
    argument_bytes: 32,
    sizes: &[168, 240],
    may_be_shorter: false,
    union_at: 32,
    model: 0,
    header: Header {
        hardware_type: word(4),
        status: word(8),
        handle: long(16),
    },
    queue: Queue {
        next: long(0),
        command: 8,
        union_at: 40,
        bytes: 176,
    },
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory FreeVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache Timestamp Database Version
        ChipInfo Attach Detach Compose SetTimeout GetFrameInfo GetSharedInfo
        SetSharedInfo QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue QueryResetTimeStamp
    },
    identity: IdentityLayout {
        words: &[
            IdentityWord::Model,
            IdentityWord::Revision,
            IdentityWord::Features,
            IdentityWord::Minor0,
            IdentityWord::Minor1,
            IdentityWord::Minor2,
            IdentityWord::Minor3,
            IdentityWord::StreamCount,
            IdentityWord::RegisterMax,
            IdentityWord::ThreadCount,
            IdentityWord::ShaderCoreCount,
            IdentityWord::VertexCacheSize,
            IdentityWord::VertexOutputBufferSize,
            IdentityWord::PixelPipes,
            IdentityWord::InstructionCount,
            IdentityWord::ConstantCount,
            IdentityWord::BufferSize,
            IdentityWord::VaryingsCount,
            IdentityWord::SuperTileMode,
        ],
        bytes: 76,
    },
    manners: Manners {
        hardware: HardwareTypes {
            three_d: 1,
            two_d: 2,
            both: 3,
            vector: 4,
        },
        image_surfaces: true,
        pools: 12,
        flags: AllocationFlags {
            contiguous: 0x0,
            scattered: 0x0,
            secure: 0x0,
            dma_buf: 0x0,
            user_memory: 0x0,
        },
        cache_is_ignored: false,
        maps_signals: true,
        unknown_signal: UnknownSignal::NotFound,
        locked_cannot_be_freed: false,
        locks_again: false,
        user_alignment: 1,
        allocates_surfaces: false,
    },
    base_address: GetBaseAddress {
        bytes: 4,
        base_address: word(0),
        ..GetBaseAddress::ABSENT
    },
    video_memory: QueryVideoMemory {
        bytes: 48,
        internal_physical: word(0),
        internal_size: long(8),
        external_physical: word(16),
        external_size: long(24),
        contiguous_physical: word(32),
        contiguous_size: long(40),
        ..QueryVideoMemory::ABSENT
    },
    map_memory: MapMemory {
        bytes: 24,
        physical: word(0),
        logical: long(16),
    },
    unmap_memory: UnmapMemory {
        bytes: 24,
        physical: word(0),
    },
    allocate_linear: AllocateLinearVideoMemory {
        bytes: 24,
        size: word(0),
        alignment: word(4),
        kind: word(8),
        pool: word(12),
        node: long(16),
        ..AllocateLinearVideoMemory::ABSENT
    },
    allocate_surface: AllocateVideoMemory {
        bytes: 32,
        width: word(0),
        height: word(4),
        depth: word(8),
        format: word(12),
        kind: word(16),
        pool: word(20),
        node: long(24),
    },
    free_node: FreeVideoMemory {
        bytes: 8,
        node: long(0),
    },
    release_node: ReleaseVideoMemory::ABSENT,
    lock: LockVideoMemory {
        bytes: 24,
        node: long(0),
        cacheable: word(8),
        address: word(12),
        memory: long(16),
        ..LockVideoMemory::ABSENT
    },
    unlock: UnlockVideoMemory {
        bytes: 16,
        node: long(0),
        asynchronous: word(12),
    },
    name_node: NameVideoMemory::ABSENT,
    import_node: ImportVideoMemory::ABSENT,
    wrap: WrapUserMemory::ABSENT,
    export_node: ExportVideoMemory::ABSENT,
    node_fd: GetVideoMemoryFd::ABSENT,
    shared_buffer: ShBuf::ABSENT,
    create_fence: CreateNativeFence::ABSENT,
    wait_fence: WaitNativeFence::ABSENT,
    finish_unlock: BottomHalfUnlockVideoMemory::ABSENT,
    allocate_non_paged: AllocateNonPagedMemory {
        bytes: 24,
        size: long(0),
        physical: word(8),
        logical: long(16),
    },
    free_non_paged: FreeNonPagedMemory {
        bytes: 24,
        size: long(0),
        physical: word(8),
        logical: long(16),
    },
    allocate_contiguous: AllocateContiguousMemory {
        bytes: 24,
        size: long(0),
        address: word(8),
        physical: word(12),
        logical: long(16),
    },
    free_contiguous: FreeContiguousMemory {
        bytes: 24,
        size: long(0),
        physical: word(8),
        logical: long(16),
    },
    event: Event {
        bytes: 8,
        queue: long(0),
    },
    commit: Commit {
        bytes: 32,
        context: long(0),
        command_buffer: long(8),
        delta: long(16),
        queue: long(24),
        ..Commit::ABSENT
    },
    map_user: MapUserMemory {
        bytes: 32,
        memory: long(0),
        physical: word(8),
        size: long(16),
        info: word(24),
        address: word(28),
    },
    unmap_user: UnmapUserMemory {
        bytes: 24,
        memory: long(0),
        size: long(8),
        info: word(16),
    },
    user_signal: UserSignal {
        bytes: 20,
        command: word(0),
        id: word(4),
        manual_reset: word(8),
        wait: word(12),
        state: word(16),
    },
    signal: Signal {
        bytes: 32,
        signal: long(0),
        process: long(16),
    },
    write_data: WriteData {
        bytes: 8,
        address: word(0),
        data: word(4),
    },
    power: QueryPowerManagement {
        bytes: 8,
        state: word(0),
        is_idle: word(4),
    },
    cache: Cache {
        bytes: 40,
        operation: word(0),
        logical: long(16),
        size: long(24),
        node: long(32),
    },
    timestamp: TimeStamp {
        bytes: 12,
        timer: word(0),
        request: word(4),
        delta: word(8),
    },
    kernel_settings: QueryKernelSettings {
        bytes: 4,
        signal: word(0),
    },
    version_numbers: Version {
        bytes: 16,
        major: word(0),
        minor: word(4),
        patch: word(8),
        build: word(12),
    },
    attach: Attach {
        bytes: 16,
        context: word(0),
        state_count: long(8),
        ..Attach::ABSENT
    },
    detach: Detach {
        bytes: 4,
        context: word(0),
    },
    timeout: SetTimeOut {
        bytes: 4,
        timeout: word(0),
    },
    database: Database {
        bytes: 136,
        is_valid: word(0),
        process: word(4),
        video: long(8),
        video_max: long(16),
        video_total: long(24),
        non_paged: long(40),
        non_paged_max: long(48),
        non_paged_total: long(56),
        contiguous: long(72),
        contiguous_max: long(80),
        contiguous_total: long(88),
    },
    chip_info: ChipInfo {
        bytes: 16,
        count: word(0),
        kind: word(4),
    },
    resets: QueryResetTimeStamp {
        bytes: 8,
        stamp: long(0),
        ..QueryResetTimeStamp::ABSENT
    },
    options: QueryChipOptions::ABSENT,
    command_buffer: CommandBufferLayout {
        bytes: 72,
        object: word(0),
        entry_pipe: word(4),
        logical: long(32),
        start_offset: word(44),
        offset: word(48),
        ..CommandBufferLayout::ABSENT
    },
    location: LocationLayout::ABSENT,
    delta: DeltaLayout {
        bytes: 64,
        references: word(4),
        element_count: word(8),
        record_count: word(12),
        records: long(16),
    },
    context: ContextLayout::ABSENT,
};

/// 4.6.9.6622, of i.MX6 release 4.1.0.
pub(crate) const V4_1_0: Layout = Layout {
    name: "4.1.0",
    version: [4, 6, 9, 6622],
    identity: IdentityLayout {
        words: &[
            IdentityWord::Model,
            IdentityWord::Revision,
            IdentityWord::Features,
            IdentityWord::Minor0,
            IdentityWord::Minor1,
            IdentityWord::Minor2,
            IdentityWord::Minor3,
            IdentityWord::Minor4,
            IdentityWord::StreamCount,
            IdentityWord::RegisterMax,
            IdentityWord::ThreadCount,
            IdentityWord::ShaderCoreCount,
            IdentityWord::VertexCacheSize,
            IdentityWord::VertexOutputBufferSize,
            IdentityWord::PixelPipes,
            IdentityWord::InstructionCount,
            IdentityWord::ConstantCount,
            IdentityWord::BufferSize,
            IdentityWord::VaryingsCount,
            IdentityWord::SuperTileMode,
        ],
        bytes: 80,
    },
    ..V4_0_0
};

/// 4.6.9.9754.
pub(crate) const V4_6_9: Layout = Layout {
    name: "4.6.9",
    version: [4, 6, 9, 9754],
    sizes: &[248, 240, 168],
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory FreeVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache Timestamp Database Version
        ChipInfo Attach Detach Compose SetTimeout GetFrameInfo GetSharedInfo
        SetSharedInfo QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue QueryResetTimeStamp SyncPoint CreateNativeFence VidmemDatabase
    },
    create_fence: CreateNativeFence {
        bytes: 16,
        fd: word(8),
        ..CreateNativeFence::ABSENT
    },
    ..V4_1_0
};
