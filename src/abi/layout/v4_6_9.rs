// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 4.6.9: pointers of 64 bits.

use super::{
    v4::V4,
    *, //
};

/// 4.6.9.1210, of i.MX6 release 4.0.0.
pub(crate) const V4_0_0: Layout = Layout {
    name: "4.0.0",
    version: [4, 6, 9, 1210],
    argument_bytes: 32,
    sizes: &[168, 240],
    union_at: 32,
    header: Header {
        handle: long(16),
        ..V4.header
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
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 Minor3 StreamCount RegisterMax
            ThreadCount ShaderCoreCount VertexCacheSize VertexOutputBufferSize
            PixelPipes InstructionCount ConstantCount BufferSize VaryingsCount
            SuperTileMode
        },
        bytes: 76,
        ..IdentityLayout::ABSENT
    },
    vector: Some(vector::V4_6_9),
    quirks: Quirks {
        pools: 12,
        power: power::V4_0_0,
        unknown_signal: UnknownSignal::NotFound,
        ..V4.quirks
    },
    video_memory: QueryVideoMemory {
        bytes: 48,
        internal_size: long(8),
        external_physical: word(16),
        external_size: long(24),
        contiguous_physical: word(32),
        contiguous_size: long(40),
        ..V4.video_memory
    },
    map_memory: MapMemory {
        bytes: 24,
        physical: word(0),
        size: long(8),
        logical: long(16),
    },
    unmap_memory: UnmapMemory {
        bytes: 24,
        physical: word(0),
        size: long(8),
        logical: long(16),
    },
    allocate_linear: AllocateLinearVideoMemory {
        bytes: 24,
        node: long(16),
        ..V4.allocate_linear
    },
    allocate_surface: AllocateVideoMemory {
        bytes: 32,
        node: long(24),
        ..V4.allocate_surface
    },
    free_node: FreeVideoMemory {
        bytes: 8,
        node: long(0),
    },
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
        ..UnlockVideoMemory::ABSENT
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
    set_scale: SetFscaleValue {
        bytes: 4,
        value: word(0),
    },
    scale: GetFscaleValue {
        bytes: 12,
        value: word(0),
        min: word(4),
        max: word(8),
    },
    allocate_commands: AllocateVirtualCommandBuffer {
        bytes: 24,
        size: long(0),
        physical: word(8),
        logical: long(16),
    },
    free_commands: FreeVirtualCommandBuffer {
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
        ..Event::ABSENT
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
    signal: Signal {
        bytes: 32,
        signal: long(0),
        process: long(16),
    },
    cache: Cache {
        bytes: 40,
        operation: word(0),
        logical: long(16),
        size: long(24),
        node: long(32),
    },
    attach: Attach {
        bytes: 16,
        state_count: long(8),
        ..V4.attach
    },
    database: Database {
        bytes: 136,
        video: long(8),
        video_max: long(16),
        video_total: long(24),
        non_paged: long(40),
        non_paged_max: long(48),
        non_paged_total: long(56),
        contiguous: long(72),
        contiguous_max: long(80),
        contiguous_total: long(88),
        ..V4.database
    },
    resets: QueryResetTimeStamp {
        bytes: 8,
        stamp: long(0),
        ..QueryResetTimeStamp::ABSENT
    },
    command_buffer: CommandBufferLayout {
        bytes: 72,
        logical: long(32),
        start_offset: word(44),
        offset: word(48),
        ..V4.command_buffer
    },
    delta: DeltaLayout {
        bytes: 64,
        records: long(16),
        ..V4.delta
    },
    profile: counters::Profile::V4_0_0,
    counters_2d: ProfileRegisters2d {
        bytes: 8,
        result: long(0),
    },
    shared_info: GetSharedInfo {
        bytes: 48,
        process: word(0),
        id: word(4),
        node: long(8),
        data: long(16),
        node_data: long(24),
        size: long(32),
        kind: word(40),
    },
    set_shared_info: SetSharedInfo {
        bytes: 48,
        id: word(0),
        node: long(8),
        data: long(16),
        node_data: long(24),
        size: long(32),
        kind: word(40),
    },
    ..V4
};

/// 4.6.9.6622, of i.MX6 release 4.1.0.
pub(crate) const V4_1_0: Layout = Layout {
    name: "4.1.0",
    version: [4, 6, 9, 6622],
    identity: IdentityLayout {
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 Minor3 Minor4 StreamCount
            RegisterMax ThreadCount ShaderCoreCount VertexCacheSize
            VertexOutputBufferSize PixelPipes InstructionCount ConstantCount BufferSize
            VaryingsCount SuperTileMode
        },
        bytes: 80,
        ..IdentityLayout::ABSENT
    },
    shared_info: GetSharedInfo {
        bytes: 16,
        process: word(0),
        id: word(4),
        data: word(12),
        size: word(8),
        ..GetSharedInfo::ABSENT
    },
    set_shared_info: SetSharedInfo {
        bytes: 12,
        id: word(0),
        data: word(4),
        size: word(8),
        ..SetSharedInfo::ABSENT
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
    profile: counters::Profile::V4_6_9,
    quirks: Quirks {
        profiles: false,
        ..V4_1_0.quirks
    },
    ..V4_1_0
};
