// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 5.0.11.

use super::{
    v4_6_9::V4_6_9,
    *, //
};

/// 5.0.11.p6.31013, of PXA1928.
pub(crate) const P6: Layout = Layout {
    name: "5.0.11.p6",
    version: [5, 0, 11, 31013],
    sizes: &[320],
    queue: Queue {
        bytes: 328,
        ..V4_6_9.queue
    },
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory ReleaseVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache Timestamp Database Version
        ChipInfo Attach Detach Compose SetTimeout GetFrameInfo QueryCommandBuffer
        CommitDone DumpGpuState DumpEvent AllocateVirtualCommandBuffer
        FreeVirtualCommandBuffer SetFscaleValue GetFscaleValue NameVideoMemory
        ImportVideoMemory FlushCache GetMmuVersion QueryResetTimeStamp ReadRegisterEx
        WriteRegisterEx SyncPoint CreateNativeFence DestroyMmu Shbuf
        ConfigPowerManagement GetVideoMemoryFd
    },
    identity: IdentityLayout {
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 Minor3 Minor4 Minor5
            AllStreams RegisterMax ThreadCount ShaderCoreCount VertexCacheSize
            VertexOutputBufferSize PixelPipes InstructionCount ConstantCount BufferSize
            FreeVaryings SuperTileMode Control2d Product EcoFlags
        },
        bytes: 128,
        ..IdentityLayout::ABSENT
    },
    vector: Some(vector::V5),
    quirks: Quirks {
        surface_types: 12,
        power: power::P6,
        pools: 10,
        unknown_node_not_found: true,
        stall_is_limited: false,
        newer_contexts: true,
        locks_again: true,
        allocates_commands: true,
        unlocks_later: true,
        flags: AllocationFlags {
            contiguous: 0x1,
            secure: 0x4,
            scattered: 0x8,
            cacheable: 0x2,
            ..V4_6_9.quirks.flags
        },
        ..V4_6_9.quirks
    },
    allocate_linear: AllocateLinearVideoMemory {
        flag: word(12),
        pool: word(16),
        node: word(20),
        ..V4_6_9.allocate_linear
    },
    allocate_surface: AllocateVideoMemory {
        bytes: 28,
        node: word(24),
        ..V4_6_9.allocate_surface
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
        ..LockVideoMemory::ABSENT
    },
    config_power: ConfigPowerManagement {
        bytes: 4,
        enable: word(0),
        ..ConfigPowerManagement::ABSENT
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
    cache: Cache {
        node: word(32),
        ..V4_6_9.cache
    },
    attach: Attach {
        bytes: 56,
        record_count: word(16),
        buffer_bytes: word(48),
        ..V4_6_9.attach
    },
    database: Database {
        bytes: 288,
        non_paged: long(48),
        non_paged_max: long(56),
        non_paged_total: long(64),
        contiguous: long(88),
        contiguous_max: long(96),
        contiguous_total: long(104),
        pool: long(168),
        pool_max: long(176),
        pool_total: long(184),
        ..V4_6_9.database
    },
    command_buffer: CommandBufferLayout {
        bytes: 104,
        entry_pipe: word(16),
        logical: long(48),
        start_offset: word(60),
        offset: word(64),
        ..V4_6_9.command_buffer
    },
    profile: counters::Profile::V4_0_0,
    profile_setting: GetProfileSetting {
        bytes: 4,
        enable: word(0),
        ..GetProfileSetting::ABSENT
    },
    set_profile: SetProfileSetting {
        bytes: 4,
        enable: word(0),
        ..SetProfileSetting::ABSENT
    },
    shared_info: GetSharedInfo::ABSENT,
    set_shared_info: SetSharedInfo::ABSENT,
    ..V4_6_9
};

/// 5.0.11.p8.41671, of i.MX6; p7 is the same.
pub(crate) const P8: Layout = Layout {
    name: "5.0.11.p8",
    version: [5, 0, 11, 41671],
    commands: &commands! {
        QueryVideoMemory QueryChipIdentity AllocateNonPagedMemory FreeNonPagedMemory
        AllocateContiguousMemory FreeContiguousMemory AllocateVideoMemory
        AllocateLinearVideoMemory ReleaseVideoMemory MapMemory UnmapMemory MapUserMemory
        UnmapUserMemory LockVideoMemory UnlockVideoMemory EventCommit UserSignal Signal
        WriteData Commit Stall ReadRegister WriteRegister GetProfileSetting
        SetProfileSetting ReadAllProfileRegisters ProfileRegisters2d
        SetPowerManagementState QueryPowerManagementState GetBaseAddress SetIdle
        QueryKernelSettings Reset MapPhysical Debug Cache Timestamp Database Version
        ChipInfo Attach Detach Compose SetTimeout GetFrameInfo QueryCommandBuffer
        CommitDone DumpGpuState DumpEvent AllocateVirtualCommandBuffer
        FreeVirtualCommandBuffer SetFscaleValue GetFscaleValue NameVideoMemory
        ImportVideoMemory QueryResetTimeStamp ReadRegisterEx WriteRegisterEx SyncPoint
        CreateNativeFence WaitNativeFence DestroyMmu Shbuf ConfigPowerManagement
        GetVideoMemoryFd WrapUserMemory
    },
    identity: IdentityLayout {
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 Minor3 Minor4 Minor5 Minor6
            AllStreams RegisterMax ThreadCount ShaderCoreCount VertexCacheSize
            VertexOutputBufferSize PixelPipes InstructionCount ConstantCount BufferSize
            FreeVaryings SuperTileMode Control2d Product Flags
        },
        bytes: 100,
        ..IdentityLayout::ABSENT
    },
    quirks: Quirks {
        flags: AllocationFlags {
            dma_buf: 0x20,
            user_memory: 0x40,
            ..P6.quirks.flags
        },
        caches_by_address: true,
        has_profiler: true,
        power: power::V4_0_0,
        ..P6.quirks
    },
    database: Database {
        video_given: word(32),
        video_returned: word(36),
        non_paged_given: word(72),
        non_paged_returned: word(76),
        contiguous_given: word(112),
        contiguous_returned: word(116),
        pool_given: word(192),
        pool_returned: word(196),
        ..P6.database
    },
    wrap: WrapUserMemory {
        bytes: 40,
        flag: word(16),
        handle: word(20),
        logical: long(24),
        physical: word(32),
        size: word(36),
        node: word(8),
        ..WrapUserMemory::ABSENT
    },
    wait_fence: WaitNativeFence {
        bytes: 8,
        fd: word(0),
        timeout: word(4),
    },
    profile: counters::Profile::V4_6_9,
    ..P6
};
