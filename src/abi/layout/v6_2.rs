// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 6.2.

use super::*;

/// 6.2.4.p2.163672, of i.MX 4.14.78_1.0.0.
pub(crate) const V6_2_4_P2: Layout = Layout {
    name: "6.2.4.p2",
    version: [6, 2, 4, 163672],
    argument_bytes: 32,
    sizes: &[400, 344],
    may_be_shorter: false,
    union_at: 40,
    model: 0,
    header: Header {
        hardware_type: word(4),
        status: word(12),
        handle: long(16),
    },
    queue: Queue {
        next: long(0),
        command: 8,
        union_at: 48,
        bytes: 352,
    },
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity QueryChipFrequency AllocateNonPagedMemory
        FreeNonPagedMemory AllocateContiguousMemory FreeContiguousMemory
        AllocateVideoMemory AllocateLinearVideoMemory ReleaseVideoMemory MapMemory
        UnmapMemory MapUserMemory UnmapUserMemory LockVideoMemory UnlockVideoMemory
        EventCommit UserSignal Signal WriteData Commit Stall ReadRegister WriteRegister
        GetProfileSetting SetProfileSetting ProfileRegisters2d
        ReadAllProfileRegistersPart1 ReadAllProfileRegistersPart2
        ReadProfilerRegisterSetting SetPowerManagementState QueryPowerManagementState
        GetBaseAddress SetIdle QueryKernelSettings Reset MapPhysical Debug Cache
        Timestamp Database Version ChipInfo Attach Detach SetTimeout GetFrameInfo
        DumpGpuProfile QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue ExportVideoMemory NameVideoMemory ImportVideoMemory
        QueryResetTimeStamp ReadRegisterEx WriteRegisterEx CreateNativeFence
        WaitNativeFence DestroyMmu Shbuf GetGraphicBufferFd SetVideoMemoryMetadata
        GetVideoMemoryFd ConfigPowerManagement WrapUserMemory WaitFence DeviceMutex
        BottomHalfUnlockVideoMemory QueryChipOption
    },
    identity: IdentityLayout {
        words: &[
            IdentityWord::Model,
            IdentityWord::Revision,
            IdentityWord::Date,
            IdentityWord::StreamCount,
            IdentityWord::PixelPipes,
            IdentityWord::ResolvePipes,
            IdentityWord::InstructionCount,
            IdentityWord::ConstantCount,
            IdentityWord::VaryingsCount,
            IdentityWord::CoreCount,
            IdentityWord::Product,
            IdentityWord::Flags,
            IdentityWord::Eco,
            IdentityWord::Customer,
        ],
        bytes: 56,
    },
    manners: Manners {
        hardware: HardwareTypes {
            three_d: 1,
            two_d: 2,
            both: 4,
            vector: 3,
        },
        image_surfaces: true,
        pools: 10,
        flags: AllocationFlags {
            contiguous: 0x1,
            scattered: 0x8,
            secure: 0x4,
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
        bytes: 264,
        base_address: word(0),
        range_count: word(4),
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
        flag: word(12),
        pool: word(16),
        node: word(20),
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
    free_node: FreeVideoMemory::ABSENT,
    release_node: ReleaseVideoMemory {
        bytes: 4,
        node: word(0),
    },
    lock: LockVideoMemory {
        bytes: 40,
        node: word(0),
        cacheable: word(4),
        address: word(8),
        memory: long(16),
        gid: word(24),
        physical_address: long(32),
    },
    unlock: UnlockVideoMemory {
        bytes: 24,
        node: long(0),
        asynchronous: word(20),
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
        bytes: 112,
        flag: word(0),
        handle: word(4),
        logical: long(16),
        physical: word(24),
        size: word(28),
        node: word(96),
        granted: long(104),
    },
    export_node: ExportVideoMemory {
        bytes: 12,
        node: word(0),
        fd: word(8),
    },
    node_fd: GetVideoMemoryFd {
        bytes: 8,
        node: word(0),
        fd: word(4),
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
        bytes: 304,
        context: long(0),
        command_buffer: long(8),
        delta: long(16),
        queue: long(264),
        count: word(284),
        engine: word(272),
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
        node: word(32),
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
        bytes: 56,
        context: word(0),
        state_count: long(8),
        record_count: word(16),
        buffer_bytes: word(48),
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
        bytes: 84,
        count: word(0),
        kind: word(4),
    },
    resets: QueryResetTimeStamp {
        bytes: 16,
        stamp: long(0),
        context: long(8),
    },
    options: QueryChipOptions {
        bytes: 28,
        fast_clear: word(4),
        mmu: word(12),
        compression: word(16),
    },
    command_buffer: CommandBufferLayout {
        bytes: 136,
        object: word(0),
        entry_pipe: word(16),
        logical: long(40),
        start_offset: word(52),
        offset: word(56),
        reserved_tail: word(32),
        ..CommandBufferLayout::ABSENT
    },
    location: LocationLayout::ABSENT,
    delta: DeltaLayout {
        bytes: 56,
        element_count: word(8),
        record_count: word(12),
        records: long(16),
        ..DeltaLayout::ABSENT
    },
    context: ContextLayout::ABSENT,
};

/// 6.2.4.p3.174315, of STM32.
pub(crate) const V6_2_4_P3: Layout = Layout {
    name: "6.2.4.p3",
    version: [6, 2, 4, 174315],
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity QueryChipFrequency AllocateNonPagedMemory
        FreeNonPagedMemory AllocateContiguousMemory FreeContiguousMemory
        AllocateVideoMemory AllocateLinearVideoMemory ReleaseVideoMemory MapMemory
        UnmapMemory MapUserMemory UnmapUserMemory LockVideoMemory UnlockVideoMemory
        EventCommit UserSignal Signal WriteData Commit Stall ReadRegister WriteRegister
        GetProfileSetting SetProfileSetting ProfileRegisters2d
        ReadAllProfileRegistersPart1 ReadAllProfileRegistersPart2
        ReadProfilerRegisterSetting SetPowerManagementState QueryPowerManagementState
        GetBaseAddress SetIdle QueryKernelSettings Reset MapPhysical Debug Cache
        Timestamp Database Version ChipInfo Attach Detach SetTimeout GetFrameInfo
        DumpGpuProfile QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue ExportVideoMemory NameVideoMemory ImportVideoMemory
        QueryResetTimeStamp ReadRegisterEx WriteRegisterEx CreateNativeFence
        WaitNativeFence DestroyMmu Shbuf GetGraphicBufferFd SetVideoMemoryMetadata
        GetVideoMemoryFd ConfigPowerManagement WrapUserMemory WaitFence
        BottomHalfUnlockVideoMemory QueryChipOption
    },
    delta: DeltaLayout {
        bytes: 72,
        references: word(8),
        element_count: word(12),
        record_count: word(16),
        records: long(24),
    },
    ..V6_2_4_P2
};

/// 6.2.3.129602.
pub(crate) const V6_2_3: Layout = Layout {
    name: "6.2.3",
    version: [6, 2, 3, 129602],
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory ReleaseVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        ReadAllProfileNewRegistersPart1 ReadAllProfileNewRegistersPart2
        ReadProfilerNewRegisterSetting SetPowerManagementState QueryPowerManagementState
        GetBaseAddress SetIdle QueryKernelSettings Reset MapPhysical Debug Cache
        Timestamp Database Version ChipInfo Attach Detach SetTimeout GetFrameInfo
        DumpGpuProfile QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue NameVideoMemory ImportVideoMemory QueryResetTimeStamp
        ReadRegisterEx WriteRegisterEx CreateNativeFence WaitNativeFence DestroyMmu
        Shbuf GetVideoMemoryFd ConfigPowerManagement WrapUserMemory WaitFence
        BottomHalfUnlockVideoMemory
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
            IdentityWord::ConstantCount,
            IdentityWord::VaryingsCount,
            IdentityWord::CoreCount,
            IdentityWord::Product,
            IdentityWord::Flags,
            IdentityWord::Eco,
            IdentityWord::Customer,
        ],
        bytes: 88,
    },
    unlock: UnlockVideoMemory {
        bytes: 16,
        node: long(0),
        asynchronous: word(12),
    },
    options: QueryChipOptions::ABSENT,
    wrap: WrapUserMemory {
        bytes: 96,
        flag: word(0),
        handle: word(4),
        logical: long(8),
        physical: word(16),
        size: word(20),
        node: word(88),
        ..WrapUserMemory::ABSENT
    },
    export_node: ExportVideoMemory::ABSENT,
    ..V6_2_4_P3
};

/// 6.2.2.93313.
pub(crate) const V6_2_2: Layout = Layout {
    name: "6.2.2",
    version: [6, 2, 2, 93313],
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory ReleaseVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        ReadAllProfileNewRegistersPart1 ReadAllProfileNewRegistersPart2
        ReadProfilerNewRegisterSetting SetPowerManagementState QueryPowerManagementState
        GetBaseAddress SetIdle QueryKernelSettings Reset MapPhysical Debug Cache
        Timestamp Database Version ChipInfo Attach Detach Compose SetTimeout
        GetFrameInfo DumpGpuProfile QueryCommandBuffer CommitDone DumpGpuState DumpEvent
        AllocateVirtualCommandBuffer FreeVirtualCommandBuffer SetFscaleValue
        GetFscaleValue NameVideoMemory ImportVideoMemory QueryResetTimeStamp
        ReadRegisterEx WriteRegisterEx CreateNativeFence WaitNativeFence DestroyMmu
        Shbuf GetVideoMemoryFd ConfigPowerManagement WrapUserMemory WaitFence
        BottomHalfUnlockVideoMemory
    },
    base_address: GetBaseAddress {
        bytes: 12,
        base_address: word(0),
        range_start: word(4),
        range_end: word(8),
        ..GetBaseAddress::ABSENT
    },
    event: Event {
        bytes: 16,
        queue: long(0),
    },
    manners: Manners {
        flags: AllocationFlags {
            dma_buf: 0x20,
            user_memory: 0x40,
            ..V6_2_3.manners.flags
        },
        ..V6_2_3.manners
    },
    ..V6_2_3
};
