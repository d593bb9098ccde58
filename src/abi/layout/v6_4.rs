// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 6.4.11: compact records, commands described in COMMIT itself.

use super::*;

/// 6.4.11.p3.1049711, of i.MX 6.12.3-1.0.0.
pub(crate) const V6_4_11: Layout = Layout {
    name: "6.4.11",
    version: [6, 4, 11, 1049711],
    argument_bytes: 32,
    sizes: &[384],
    may_be_shorter: true,
    union_at: 40,
    model: 0,
    header: Header {
        hardware_type: word(4),
        status: word(16),
        handle: ABSENT,
    },
    queue: Queue {
        next: long(0),
        command: 8,
        union_at: 16,
        bytes: 48,
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
        words: &[
            IdentityWord::Model,
            IdentityWord::Revision,
            IdentityWord::Date,
            IdentityWord::Features,
            IdentityWord::Minor0,
            IdentityWord::Minor1,
            IdentityWord::Minor2,
            IdentityWord::Minor3,
            IdentityWord::Minor4,
            IdentityWord::Minor5,
            IdentityWord::Minor6,
            IdentityWord::StreamCount,
            IdentityWord::PixelPipes,
            IdentityWord::ResolvePipes,
            IdentityWord::InstructionCount,
            IdentityWord::FragmentInstructionCount,
            IdentityWord::ConstantCount,
            IdentityWord::VaryingsCount,
            IdentityWord::CoreCount,
            IdentityWord::Clusters,
            IdentityWord::Product,
            IdentityWord::Flags,
            IdentityWord::Eco,
            IdentityWord::Customer,
        ],
        bytes: 152,
    },
    manners: Manners {
        hardware: HardwareTypes {
            three_d: 2,
            two_d: 3,
            both: 1,
            vector: 5,
        },
        image_surfaces: true,
        pools: 9,
        flags: AllocationFlags {
            contiguous: 0x1,
            scattered: 0x2,
            secure: 0x40,
            dma_buf: 0x1000,
            user_memory: 0x2000,
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
        bytes: 328,
        base_address: word(0),
        range_count: word(4),
        ..GetBaseAddress::ABSENT
    },
    video_memory: QueryVideoMemory {
        bytes: 64,
        internal_physical: word(0),
        internal_size: long(8),
        external_physical: word(16),
        external_size: long(24),
        contiguous_physical: word(32),
        contiguous_size: long(40),
        exclusive_physical: word(48),
        exclusive_size: long(56),
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
        bytes: 40,
        size: long(0),
        alignment: word(8),
        kind: word(12),
        flag: word(16),
        pool: word(20),
        node: word(36),
    },
    allocate_surface: AllocateVideoMemory::ABSENT,
    free_node: FreeVideoMemory::ABSENT,
    release_node: ReleaseVideoMemory {
        bytes: 4,
        node: word(0),
    },
    lock: LockVideoMemory {
        bytes: 48,
        node: word(0),
        cacheable: word(4),
        address: long(8),
        memory: long(16),
        gid: word(24),
        physical_address: long(32),
    },
    unlock: UnlockVideoMemory {
        bytes: 32,
        node: long(0),
        asynchronous: word(24),
    },
    name_node: NameVideoMemory {
        bytes: 8,
        node: word(0),
        name: word(4),
    },
    import_node: ImportVideoMemory {
        bytes: 8,
        name: word(0),
        node: word(4),
    },
    wrap: WrapUserMemory {
        bytes: 56,
        flag: word(0),
        handle: word(4),
        logical: long(16),
        physical: long(24),
        size: long(32),
        node: word(44),
        granted: long(48),
    },
    export_node: ExportVideoMemory {
        bytes: 12,
        node: word(0),
        fd: word(8),
    },
    node_fd: GetVideoMemoryFd {
        bytes: 12,
        node: word(0),
        fd: word(8),
    },
    shared_buffer: ShBuf {
        bytes: 32,
        command: word(0),
        id: long(8),
        data: long(16),
        size: word(24),
    },
    create_fence: CreateNativeFence {
        bytes: 16,
        signal: long(0),
        fd: word(8),
    },
    wait_fence: WaitNativeFence {
        bytes: 8,
        fd: word(0),
        timeout: word(4),
    },
    finish_unlock: BottomHalfUnlockVideoMemory {
        bytes: 8,
        node: word(0),
    },
    allocate_non_paged: AllocateNonPagedMemory {
        bytes: 32,
        size: long(8),
        physical: word(16),
        logical: long(24),
    },
    free_non_paged: FreeNonPagedMemory {
        bytes: 24,
        size: long(0),
        physical: word(8),
        logical: long(16),
    },
    allocate_contiguous: AllocateContiguousMemory::ABSENT,
    free_contiguous: FreeContiguousMemory::ABSENT,
    event: Event {
        bytes: 16,
        queue: long(0),
    },
    commit: Commit {
        bytes: 152,
        context: long(16),
        delta: long(8),
        queue: long(24),
        core: word(0),
        next: long(112),
        location: word(32),
        ..Commit::ABSENT
    },
    map_user: MapUserMemory::ABSENT,
    unmap_user: UnmapUserMemory::ABSENT,
    user_signal: UserSignal {
        bytes: 24,
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
        bytes: 48,
        operation: word(0),
        logical: long(16),
        size: long(24),
        node: word(40),
    },
    timestamp: TimeStamp {
        bytes: 12,
        timer: word(0),
        request: word(4),
        delta: word(8),
    },
    kernel_settings: QueryKernelSettings::ABSENT,
    version_numbers: Version {
        bytes: 16,
        major: word(0),
        minor: word(4),
        patch: word(8),
        build: word(12),
    },
    attach: Attach {
        bytes: 48,
        context: word(0),
        state_count: long(8),
        record_count: word(16),
        buffer_bytes: word(40),
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
        bytes: 288,
        is_valid: word(0),
        process: word(4),
        video: long(8),
        video_max: long(16),
        video_total: long(24),
        non_paged: long(48),
        non_paged_max: long(56),
        non_paged_total: long(64),
        contiguous: long(88),
        contiguous_max: long(96),
        contiguous_total: long(104),
    },
    chip_info: ChipInfo {
        bytes: 340,
        count: word(0),
        kind: word(4),
    },
    resets: QueryResetTimeStamp {
        bytes: 16,
        stamp: long(0),
        context: long(8),
    },
    options: QueryChipOptions {
        bytes: 248,
        fast_clear: word(4),
        mmu: word(12),
        compression: word(16),
    },
    command_buffer: CommandBufferLayout {
        bytes: 136,
        object: word(0),
        entry_pipe: word(16),
        logical: long(56),
        start_offset: word(68),
        offset: word(72),
        reserved_head: word(32),
        reserved_tail: word(36),
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
    context: ContextLayout::ABSENT,
};
