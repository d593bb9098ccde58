// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of the v2 family: contexts in user memory, native pointers, no profiler builds of other
//! sizes.

use super::*;

/// v2, of RK2918 and JZ4770 boards.
pub(crate) const V2: Layout = Layout {
    name: "v2",
    version: [0, 0, 0, 0],
    argument_bytes: 16,
    sizes: &[216],
    may_be_shorter: false,
    union_at: 16,
    model: 0,
    header: Header {
        hardware_type: ABSENT,
        core_index: ABSENT,
        engine: ABSENT,
        status: word(4),
        handle: word(8),
    },
    queue: Queue {
        next: word(0),
        command: 4,
        union_at: 20,
        bytes: 220,
    },
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory FreeVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache
    },
    identity: IdentityLayout {
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 StreamCount RegisterMax
            ThreadCount ShaderCoreCount VertexCacheSize VertexOutputBufferSize
        },
        bytes: 48,
        ..IdentityLayout::ABSENT
    },
    vector: None,
    profile: counters::Profile::V2,
    profiler_bytes: 0,
    quirks: Quirks {
        hardware: HardwareTypes {
            routing: Routing::Type,
            three_d: 1,
            two_d: 2,
            both: 3,
            vector: 4,
        },
        image_surfaces: false,
        surface_types: 0,
        pools: 10,
        tells_bytes: false,
        flags: AllocationFlags {
            contiguous: 0x0,
            scattered: 0x0,
            secure: 0x0,
            cacheable: 0x0,
            fast: 0x0,
            dma_buf: 0x0,
            user_memory: 0x0,
        },
        cache_is_ignored: true,
        caches_nodes: false,
        detaches_known: false,
        takes_commit_done: false,
        caches_by_address: false,
        has_profiler: false,
        profiles: true,
        off_reads_zero: true,
        maps_signals: false,
        unknown_signal: UnknownSignal::Invalid,
        unknown_node_not_found: false,
        locked_cannot_be_freed: true,
        locks_again: true,
        user_alignment: 64,
        resets: false,
        gpu_stuck: 36,
        power: power::V2,
        allocates_surfaces: true,
        allocates_commands: false,
        unlocks_later: false,
        names_pool: false,
        one_paged_pool: false,
        stall_is_limited: true,
        newer_contexts: false,
        elements_and_one: false,
        no_node_ends: false,
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
        size: word(4),
        logical: word(8),
    },
    unmap_memory: UnmapMemory {
        bytes: 12,
        physical: word(0),
        size: word(4),
        logical: word(8),
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
        bytes: 12,
        node: word(0),
        address: word(4),
        memory: word(8),
        ..LockVideoMemory::ABSENT
    },
    unlock: UnlockVideoMemory {
        bytes: 12,
        node: word(0),
        asynchronous: word(8),
        ..UnlockVideoMemory::ABSENT
    },
    name_node: NameVideoMemory::ABSENT,
    import_node: ImportVideoMemory::ABSENT,
    wrap: WrapUserMemory::ABSENT,
    export_node: ExportVideoMemory::ABSENT,
    node_fd: GetVideoMemoryFd::ABSENT,
    metadata: SetVidMemMetadata::ABSENT,
    graphic_buffer: GetGraphicBufferFd::ABSENT,
    shared_buffer: ShBuf::ABSENT,
    create_fence: CreateNativeFence::ABSENT,
    wait_fence: WaitNativeFence::ABSENT,
    wait_node: WaitFence::ABSENT,
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
    allocate_commands: AllocateVirtualCommandBuffer::ABSENT,
    free_commands: FreeVirtualCommandBuffer::ABSENT,
    allocate_contiguous: AllocateContiguousMemory {
        bytes: 12,
        size: word(0),
        physical: word(4),
        logical: word(8),
        ..AllocateContiguousMemory::ABSENT
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
        ..Event::ABSENT
    },
    commit: Commit {
        bytes: 12,
        command_buffer: word(0),
        context_buffer: word(4),
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
        ..UserSignal::ABSENT
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
    set_power: SetPowerManagement {
        bytes: 4,
        state: word(0),
    },
    config_power: ConfigPowerManagement::ABSENT,
    power: QueryPowerManagement {
        bytes: 8,
        state: word(0),
        is_idle: word(4),
    },
    cache: Cache {
        bytes: 16,
        logical: word(8),
        size: word(12),
        ..Cache::ABSENT
    },
    timestamp: TimeStamp::ABSENT,
    kernel_settings: QueryKernelSettings {
        bytes: 4,
        signal: word(0),
    },
    version_numbers: Version::ABSENT,
    attach: Attach::ABSENT,
    detach: Detach::ABSENT,
    timeout: SetTimeOut::ABSENT,
    database: Database::ABSENT,
    chip_info: ChipInfo::ABSENT,
    resets: QueryResetTimeStamp::ABSENT,
    options: QueryChipOptions::ABSENT,
    chip_frequency: QueryChipFrequency::ABSENT,
    set_scale: SetFscaleValue::ABSENT,
    scale: GetFscaleValue::ABSENT,
    cpu_frequency: QueryCpuFrequency::ABSENT,
    read_register: ReadRegister {
        bytes: 8,
        address: word(0),
        data: word(4),
    },
    write_register: WriteRegister {
        bytes: 8,
        address: word(0),
        data: word(4),
    },
    read_registers: ReadRegisterEx::ABSENT,
    write_registers: WriteRegisterEx::ABSENT,
    profile_setting: GetProfileSetting {
        bytes: 132,
        enable: word(0),
        name: word(4),
        ..GetProfileSetting::ABSENT
    },
    set_profile: SetProfileSetting {
        bytes: 132,
        enable: word(0),
        name: word(4),
    },
    counters_2d: ProfileRegisters2d {
        bytes: 4,
        result: word(0),
    },
    profile_clear: ReadProfilerRegisterSetting::ABSENT,
    debug: Debug {
        bytes: 96,
        message: word(16),
        ..Debug::ABSENT
    },
    shared_info: GetSharedInfo::ABSENT,
    set_shared_info: SetSharedInfo::ABSENT,
    command_buffer: CommandBufferLayout {
        bytes: 48,
        object: word(0),
        logical: word(16),
        start_offset: word(24),
        offset: word(28),
        ..CommandBufferLayout::ABSENT
    },
    location: LocationLayout::ABSENT,
    delta: DeltaLayout::ABSENT,
    context: ContextLayout {
        bytes: 128,
        object: word(0),
        id: long(16),
        pipe_2d_index: word(52),
        buffer_size: word(64),
        logical: word(76),
        link: word(80),
        initial_pipe: word(84),
        entry_pipe: word(88),
        in_use: word(100),
    },
};

/// 0.8.0.1998 and 0.8.0.1123, of Marvell Dove.
pub(crate) const DOVE_OLD: Layout = Layout {
    name: "dove_old",
    model: 0x600,
    identity: IdentityLayout {
        words: &identity! {
            Model Revision Features Minor0 Minor1 StreamCount RegisterMax ThreadCount
            ShaderCoreCount VertexCacheSize VertexOutputBufferSize
        },
        bytes: 44,
        ..IdentityLayout::ABSENT
    },
    write_data: WriteData {
        bytes: 12,
        address: word(0),
        data: word(8),
    },
    command_buffer: CommandBufferLayout {
        bytes: 36,
        ..V2.command_buffer
    },
    quirks: Quirks {
        gpu_stuck: 0,
        power: power::DOVE_OLD,
        ..V2.quirks
    },
    ..V2
};

/// 0.8.0.3184, of Marvell Dove (CuBox).
pub(crate) const DOVE: Layout = Layout {
    name: "dove",
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory FreeVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache GcOff GcOn
    },
    user_signal: UserSignal {
        bytes: 24,
        wait: word(16),
        state: word(20),
        ..DOVE_OLD.user_signal
    },
    context: ContextLayout {
        bytes: 216,
        logical: word(156),
        link: word(160),
        initial_pipe: word(164),
        entry_pipe: word(168),
        in_use: word(180),
        ..DOVE_OLD.context
    },
    quirks: Quirks {
        power: power::DOVE,
        ..DOVE_OLD.quirks
    },
    ..DOVE_OLD
};

/// Arnova 10B G3 (RK2918): v2 without the profiler's counters.
pub(crate) const ARNOVA: Layout = Layout {
    name: "arnova",
    sizes: &[64],
    queue: Queue {
        bytes: 68,
        ..V2.queue
    },
    profile: counters::Profile::ABSENT,
    profile_setting: GetProfileSetting::ABSENT,
    set_profile: SetProfileSetting::ABSENT,
    counters_2d: ProfileRegisters2d::ABSENT,
    debug: Debug::ABSENT,
    ..V2
};
