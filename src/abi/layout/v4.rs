// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 4.6.6: contexts in the kernel, native pointers.

use super::*;

/// 4.6.6.1381, of i.MX6 before release 4.0.0, and of the GCW Zero.
pub(crate) const V4: Layout = Layout {
    name: "v4",
    version: [4, 6, 6, 1381],
    argument_bytes: 16,
    sizes: &[128, 224],
    may_be_shorter: false,
    union_at: 24,
    model: 0,
    header: Header {
        hardware_type: word(4),
        status: word(8),
        handle: word(12),
    },
    queue: Queue {
        next: word(0),
        command: 8,
        union_at: 32,
        bytes: 136,
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
        ],
        bytes: 68,
    },
    manners: Manners {
        hardware: HardwareTypes {
            three_d: 1,
            two_d: 2,
            both: 3,
            vector: 4,
        },
        image_surfaces: true,
        pools: 10,
        flags: AllocationFlags {
            contiguous: 0x0,
            scattered: 0x0,
            secure: 0x0,
            dma_buf: 0x0,
            user_memory: 0x0,
        },
        cache_is_ignored: false,
        maps_signals: true,
        unknown_signal: UnknownSignal::Invalid,
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
        bytes: 24,
        internal_physical: word(0),
        internal_size: word(4),
        external_physical: word(8),
        external_size: word(12),
        contiguous_physical: word(16),
        contiguous_size: word(20),
        ..QueryVideoMemory::ABSENT
    },
    map_memory: MapMemory {
        bytes: 12,
        physical: word(0),
        logical: word(8),
    },
    unmap_memory: UnmapMemory {
        bytes: 12,
        physical: word(0),
    },
    allocate_linear: AllocateLinearVideoMemory {
        bytes: 20,
        size: word(0),
        alignment: word(4),
        kind: word(8),
        pool: word(12),
        node: word(16),
        ..AllocateLinearVideoMemory::ABSENT
    },
    allocate_surface: AllocateVideoMemory {
        bytes: 28,
        width: word(0),
        height: word(4),
        depth: word(8),
        format: word(12),
        kind: word(16),
        pool: word(20),
        node: word(24),
    },
    free_node: FreeVideoMemory {
        bytes: 4,
        node: word(0),
    },
    release_node: ReleaseVideoMemory::ABSENT,
    lock: LockVideoMemory {
        bytes: 16,
        node: word(0),
        cacheable: word(4),
        address: word(8),
        memory: word(12),
        ..LockVideoMemory::ABSENT
    },
    unlock: UnlockVideoMemory {
        bytes: 12,
        node: word(0),
        asynchronous: word(8),
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
        bytes: 12,
        size: word(0),
        physical: word(4),
        logical: word(8),
    },
    free_non_paged: FreeNonPagedMemory {
        bytes: 12,
        size: word(0),
        physical: word(4),
        logical: word(8),
    },
    allocate_contiguous: AllocateContiguousMemory {
        bytes: 16,
        size: word(0),
        address: word(4),
        physical: word(8),
        logical: word(12),
    },
    free_contiguous: FreeContiguousMemory {
        bytes: 12,
        size: word(0),
        physical: word(4),
        logical: word(8),
    },
    event: Event {
        bytes: 4,
        queue: word(0),
    },
    commit: Commit {
        bytes: 16,
        context: word(0),
        command_buffer: word(4),
        delta: word(8),
        queue: word(12),
        ..Commit::ABSENT
    },
    map_user: MapUserMemory {
        bytes: 16,
        memory: word(0),
        size: word(4),
        info: word(8),
        address: word(12),
        ..MapUserMemory::ABSENT
    },
    unmap_user: UnmapUserMemory {
        bytes: 16,
        memory: word(0),
        size: word(4),
        info: word(8),
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
        bytes: 16,
        signal: word(0),
        process: word(8),
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
        bytes: 20,
        operation: word(0),
        logical: word(8),
        size: word(12),
        node: word(16),
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
        bytes: 8,
        context: word(0),
        state_count: word(4),
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
        bytes: 104,
        is_valid: word(0),
        process: word(4),
        video: word(8),
        video_max: word(12),
        video_total: word(16),
        non_paged: word(32),
        non_paged_max: word(36),
        non_paged_total: word(40),
        contiguous: word(56),
        contiguous_max: word(60),
        contiguous_total: word(64),
    },
    chip_info: ChipInfo {
        bytes: 16,
        count: word(0),
        kind: word(4),
    },
    resets: QueryResetTimeStamp::ABSENT,
    options: QueryChipOptions::ABSENT,
    command_buffer: CommandBufferLayout {
        bytes: 60,
        object: word(0),
        entry_pipe: word(4),
        logical: word(32),
        start_offset: word(40),
        offset: word(44),
        ..CommandBufferLayout::ABSENT
    },
    location: LocationLayout::ABSENT,
    delta: DeltaLayout {
        bytes: 40,
        references: word(4),
        element_count: word(8),
        record_count: word(12),
        records: word(16),
    },
    context: ContextLayout::ABSENT,
};

/// 4.6.6.1381 with another CACHE.
pub(crate) const EUREKA: Layout = Layout {
    name: "eureka",
    cache: Cache {
        bytes: 28,
        operation: word(4),
        logical: word(16),
        size: word(20),
        node: word(24),
    },
    ..V4
};
