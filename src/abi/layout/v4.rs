// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 4.6.6: contexts in the kernel, native pointers.

use super::{
    v2::V2,
    *, //
};

/// 4.6.6.1381, of i.MX6 before release 4.0.0, and of the GCW Zero.
pub(crate) const V4: Layout = Layout {
    name: "v4",
    version: [4, 6, 6, 1381],
    sizes: &[128, 224],
    union_at: 24,
    header: Header {
        hardware_type: word(4),
        core_index: ABSENT,
        engine: ABSENT,
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
        words: &identity! {
            Model Revision Features Minor0 Minor1 Minor2 Minor3 StreamCount RegisterMax
            ThreadCount ShaderCoreCount VertexCacheSize VertexOutputBufferSize
            PixelPipes InstructionCount ConstantCount BufferSize
        },
        bytes: 68,
        ..IdentityLayout::ABSENT
    },
    vector: Some(vector::V4),
    quirks: Quirks {
        image_surfaces: true,
        cache_is_ignored: false,
        maps_signals: true,
        locked_cannot_be_freed: false,
        locks_again: false,
        user_alignment: 1,
        resets: true,
        gpu_stuck: 0,
        off_reads_zero: false,
        power: power::V4,
        allocates_surfaces: false,
        ..V2.quirks
    },
    lock: LockVideoMemory {
        bytes: 16,
        cacheable: word(4),
        address: word(8),
        memory: word(12),
        ..V2.lock
    },
    allocate_contiguous: AllocateContiguousMemory {
        bytes: 16,
        size: word(0),
        address: word(4),
        physical: word(8),
        logical: word(12),
    },
    commit: Commit {
        bytes: 16,
        context: word(0),
        command_buffer: word(4),
        delta: word(8),
        queue: word(12),
        ..Commit::ABSENT
    },
    cache: Cache {
        bytes: 20,
        operation: word(0),
        node: word(16),
        ..V2.cache
    },
    timestamp: TimeStamp {
        bytes: 12,
        timer: word(0),
        request: word(4),
        delta: word(8),
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
        ..Database::ABSENT
    },
    chip_info: ChipInfo {
        bytes: 16,
        count: word(0),
        kind: word(4),
        ..ChipInfo::ABSENT
    },
    command_buffer: CommandBufferLayout {
        bytes: 60,
        entry_pipe: word(4),
        logical: word(32),
        start_offset: word(40),
        offset: word(44),
        ..V2.command_buffer
    },
    delta: DeltaLayout {
        bytes: 40,
        references: word(4),
        element_count: word(8),
        record_count: word(12),
        records: word(16),
    },
    context: ContextLayout::ABSENT,
    debug: Debug {
        bytes: 104,
        message: word(24),
        kind: word(16),
    },
    shared_info: GetSharedInfo {
        bytes: 28,
        process: word(0),
        id: word(4),
        node: word(8),
        data: word(12),
        node_data: word(16),
        size: word(20),
        kind: word(24),
    },
    set_shared_info: SetSharedInfo {
        bytes: 24,
        id: word(0),
        node: word(4),
        data: word(8),
        node_data: word(12),
        size: word(16),
        kind: word(20),
    },
    ..V2
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
