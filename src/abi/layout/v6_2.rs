// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of 6.2.

use super::{
    v5::P8,
    *, //
};

/// 6.2.2.93313.
pub(crate) const V6_2_2: Layout = Layout {
    name: "6.2.2",
    version: [6, 2, 2, 93313],
    sizes: &[400, 344],
    union_at: 40,
    header: Header {
        core_index: word(8),
        engine: word(28),
        status: word(12),
        ..P8.header
    },
    queue: Queue {
        union_at: 48,
        bytes: 352,
        ..P8.queue
    },
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
    identity: IdentityLayout {
        words: &identity! {
            RawModel RawRevision Date Features Minor0 Minor1 Minor2 Minor3 Minor4 Minor5
            Minor6 AllStreams ListedPipes ResolvePipes InstructionCount ListedConstants
            FreeVaryings CoreCount Product RawFlags Eco Customer
        },
        bytes: 88,
        ..IdentityLayout::ABSENT
    },
    quirks: Quirks {
        hardware: HardwareTypes {
            routing: Routing::TypeAndIndex,
            both: 4,
            vector: 3,
            ..P8.quirks.hardware
        },
        elements_and_one: true,
        surface_types: 16,
        names_pool: true,
        ..P8.quirks
    },
    base_address: GetBaseAddress {
        bytes: 12,
        range_start: word(4),
        range_end: word(8),
        ..P8.base_address
    },
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
    wait_node: WaitFence {
        bytes: 8,
        node: word(0),
    },
    create_fence: CreateNativeFence {
        signal: long(0),
        ..P8.create_fence
    },
    finish_unlock: BottomHalfUnlockVideoMemory {
        bytes: 8,
        node: word(0),
    },
    event: Event {
        bytes: 16,
        queue: long(0),
        engine: word(8),
    },
    commit: Commit {
        bytes: 304,
        context: long(104),
        command_buffer: long(184),
        delta: long(24),
        queue: long(264),
        count: word(284),
        engine: word(272),
        stamp: long(288),
        switched: word(296),
        ..P8.commit
    },
    chip_info: ChipInfo {
        bytes: 84,
        id: word(44),
        ..P8.chip_info
    },
    resets: QueryResetTimeStamp {
        bytes: 16,
        stamp: long(0),
        context: long(8),
    },
    command_buffer: CommandBufferLayout {
        bytes: 136,
        logical: long(40),
        start_offset: word(52),
        offset: word(56),
        reserved_tail: word(32),
        ..P8.command_buffer
    },
    delta: DeltaLayout {
        bytes: 72,
        references: word(8),
        element_count: word(12),
        record_count: word(16),
        records: long(24),
    },
    profile: counters::Profile::V6_2_2,
    profile_setting: GetProfileSetting {
        bytes: 8,
        sync: word(4),
        ..P8.profile_setting
    },
    set_profile: SetProfileSetting {
        bytes: 8,
        ..P8.set_profile
    },
    profile_clear: ReadProfilerRegisterSetting {
        bytes: 4,
        clears: word(0),
    },
    read_registers: ReadRegisterEx {
        bytes: 24,
        address: word(0),
        cores: word(4),
        data: word(8),
    },
    write_registers: WriteRegisterEx {
        bytes: 24,
        address: word(0),
        cores: word(4),
        data: word(8),
    },
    ..P8
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
    quirks: Quirks {
        flags: AllocationFlags {
            dma_buf: 0x1000,
            user_memory: 0x2000,
            ..V6_2_2.quirks.flags
        },
        ..V6_2_2.quirks
    },
    base_address: GetBaseAddress {
        bytes: 264,
        base_address: word(0),
        range_count: word(4),
        ..GetBaseAddress::ABSENT
    },
    event: Event {
        bytes: 8,
        engine: ABSENT,
        ..V6_2_2.event
    },
    commit: Commit {
        engine: ABSENT,
        ..V6_2_2.commit
    },
    ..V6_2_2
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
    identity: IdentityLayout {
        words: &identity! {
            RawModel RawRevision Date AllStreams ListedPipes ResolvePipes InstructionCount
            ListedConstants FreeVaryings CoreCount Product RawFlags Eco Customer
        },
        bytes: 56,
        ..IdentityLayout::ABSENT
    },
    quirks: Quirks {
        flags: AllocationFlags {
            fast: 0x100,
            ..V6_2_3.quirks.flags
        },
        caches_by_address: false,
        power: power::V6_2_4,
        ..V6_2_3.quirks
    },
    unlock: UnlockVideoMemory {
        bytes: 24,
        node: long(0),
        asynchronous: word(20),
        pool: word(12),
        size: word(16),
        ..UnlockVideoMemory::ABSENT
    },
    wrap: WrapUserMemory {
        bytes: 112,
        logical: long(16),
        physical: word(24),
        size: word(28),
        node: word(96),
        granted: long(104),
        ..V6_2_3.wrap
    },
    export_node: ExportVideoMemory {
        bytes: 12,
        node: word(0),
        flags: word(4),
        fd: word(8),
    },
    metadata: SetVidMemMetadata {
        bytes: 32,
        node: word(0),
        readback: word(4),
        status: word(8),
        fast_clear: word(12),
        format: word(28),
    },
    graphic_buffer: GetGraphicBufferFd {
        bytes: 32,
        nodes: word(0),
        piece: long(16),
        signal: word(24),
        fd: word(28),
    },
    options: QueryChipOptions {
        bytes: 28,
        profiler: word(0),
        fast_clear: word(4),
        power: word(8),
        mmu: word(12),
        compression: word(16),
        ..QueryChipOptions::ABSENT
    },
    chip_frequency: QueryChipFrequency {
        bytes: 8,
        core: word(0),
        shader: word(4),
    },
    profile: counters::Profile::V6_2_4,
    profile_setting: P8.profile_setting,
    set_profile: P8.set_profile,
    ..V6_2_3
};

/// 6.2.4.p2.163672, of i.MX 4.14.78_1.0.0.
pub(crate) const V6_2_4_P2: Layout = Layout {
    name: "6.2.4.p2",
    version: [6, 2, 4, 163672],
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
    delta: DeltaLayout {
        bytes: 56,
        element_count: word(8),
        record_count: word(12),
        records: long(16),
        ..DeltaLayout::ABSENT
    },
    ..V6_2_4_P3
};
