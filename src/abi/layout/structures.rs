// SPDX-License-Identifier: GPL-2.0-only

//! The structures of the interface, and the fields that the driver reads (`in`) and writes
//! (`out`). Names in quotes are those of the C headers; each generation uses one of them.
//! A structure without a doc line is of the command with its name. `tests/abi/tables.py` reads this
//! list.

use super::*;

structures! {
    /// One generation of the interface.
    layout {
        /// The name for parameters and logs.
        name: &'static str,
        /// VERSION's answer: major, minor, patch; zeros if there is no such command.
        version: [u8; 3],
        /// The last number of VERSION's answer.
        build: u32,
        /// Bytes of the ioctl's argument: 16 or 32.
        argument_bytes: u16,
        /// Bytes of the interface in builds with and without the profiler.
        sizes: &'static [u16],
        /// Accepts shorter interfaces, for input and output separately; the rest reads as 0.
        may_be_shorter: bool,
        /// Offset of the union.
        union_at: u16,
        /// The core model of boards with this generation; 0: several models.
        model: u16,
        /// The header.
        header: Header,
        /// A record of an event queue.
        queue: Queue,
        /// Commands, by number.
        commands: &'static [Command],
        /// Numbers of core types.
        hardware: HardwareTypes,
        /// Bytes of a `gcsHAL_SUBCOMMIT`; 0: there is none.
        sub_commit_bytes: u16,
        /// QUERY_CHIP_IDENTITY's answer.
        identity: Index<IdentityLayout>,
        /// Differences other than offsets.
        quirks: &'static Quirks,
        /// COMMIT for the vector graphics core; `None`: no board has one.
        vector: Option<&'static vector::Vector>,
        /// The counters of the profiler's commands.
        profile: Index<Profile>,
        /// Bytes of the separate interface of these commands, which has its own ioctl; 0: none.
        profiler_bytes: u16,
        /// Offset of the union in that interface.
        profiler_union_at: u16,
    }

    base_address: &GetBaseAddress = "GetBaseAddress" {
        out base_address = "baseAddress", // physical address of GPU address 0
        out range_count = "flatMappingRangeCount", // ranges with an identity mapping
        out range_start = "flatMappingStart", // the first range
        out range_end = "flatMappingEnd",
    }
    video_memory: &QueryVideoMemory = "QueryVideoMemory" {
        out internal_physical = "internalPhysical" | "internalPhysName", // memory on the chip
        out internal_size = "internalSize", // its bytes
        out external_physical = "externalPhysical" | "externalPhysName", // memory of a card
        out external_size = "externalSize", // its bytes
        // the pool: the offset for mmap
        out contiguous_physical = "contiguousPhysical" | "contiguousPhysName",
        out contiguous_size = "contiguousSize", // its bytes
        out exclusive_physical = "exclusivePhysName", // memory that only the GPU reaches
        out exclusive_size = "exclusiveSize", // its bytes
        out virtual_pool = "virtualPoolEnabled",
    }
    map_memory: &MapMemory = "MapMemory" {
        in physical = "physical" | "physName",
        in size = "bytes",
        out logical = "logical",
    }
    unmap_memory: &UnmapMemory = "UnmapMemory" {
        in physical = "physical" | "physName",
        in size = "bytes",
        in logical = "logical",
    }
    allocate_linear: *AllocateLinearVideoMemory = "AllocateLinearVideoMemory" {
        in size = "bytes",
        in alignment = "alignment",
        in kind = "type", // `gceSURF_TYPE`
        in flag = "flag",
        inout pool = "pool", // `gcePOOL`
        in index = "vidMemIndex", // index of a pool
        out node = "node",
    }
    /// ALLOCATE_VIDEO_MEMORY: a surface by its geometry.
    allocate_surface: &AllocateVideoMemory = "AllocateVideoMemory" {
        inout width = "width",
        inout height = "height",
        in depth = "depth",
        in format = "format", // `gceSURF_FORMAT`
        in kind = "type", // `gceSURF_TYPE`
        inout pool = "pool", // `gcePOOL`
        out node = "node",
    }
    /// FREE_VIDEO_MEMORY, up to 4.6.9.
    free_node: *FreeVideoMemory = "FreeVideoMemory" {
        in node = "node",
    }
    /// RELEASE_VIDEO_MEMORY, from 5.0.11.
    release_node: *ReleaseVideoMemory = "ReleaseVideoMemory" {
        in node = "node",
    }
    lock: *LockVideoMemory = "LockVideoMemory" {
        in node = "node",
        in cacheable = "cacheable", // request a cached user mapping
        out address = "address", // GPU address
        out memory = "memory",
        out gid = "gid", // handle of video hardware: none
        out physical_address = "physicalAddress",
        in parts = "op", // bits of [`LOCK_PARTS`]
    }
    unlock: *UnlockVideoMemory = "UnlockVideoMemory" {
        in node = "node",
        out asynchronous = "asynchroneous", // a second half must follow
        out pool = "pool", // `gcePOOL`
        out size = "bytes", // the node's size
        in parts = "op", // bits of [`UNLOCK_PARTS`]
    }
    name_node: &NameVideoMemory = "NameVideoMemory" {
        in node = "handle",
        out name = "name",
    }
    import_node: &ImportVideoMemory = "ImportVideoMemory" {
        in name = "name",
        out node = "handle",
    }
    wrap: &WrapUserMemory = "WrapUserMemory" {
        in flag = "desc.flag", // kind of memory
        inout handle = "desc.handle", // descriptor of a dma-buf
        in logical = "desc.logical",
        in physical = "desc.physical", // physical address, or all ones
        in size = "desc.size",
        out node = "node",
        out granted = "bytes",
    }
    export_node: &ExportVideoMemory = "ExportVideoMemory" {
        in node = "node",
        in flags = "flags", // flags of `open`
        out fd = "fd",
    }
    node_fd: &GetVideoMemoryFd = "GetVideoMemoryFd" {
        in node = "handle",
        out fd = "fd",
    }
    /// SET_VIDEO_MEMORY_METADATA.
    metadata: &SetVidMemMetadata = "SetVidMemMetadata" {
        in node = "node",
        in readback = "readback", // read, else set
        inout status = "ts_fd", // descriptor of the tile status' dma-buf
        inout fast_clear = "fc_enabled", // fast clear; four words follow
        inout format = "compress_format", // the last of them
    }
    graphic_buffer: &GetGraphicBufferFd = "GetGraphicBufferFd" {
        in nodes = "node", // the first handle of an array
        in piece = "shBuf", // a shared buffer
        in signal = "signal", // a signal
        out fd = "fd", // descriptor that holds references to them
    }
    /// SHBUF.
    shared_buffer: &ShBuf = "ShBuf" {
        in command = "command",
        inout id = "id", // the buffer
        in data = "data",
        inout size = "bytes",
    }
    /// CREATE_NATIVE_FENCE. Up to 5.0.11 it is for a sync point, which does not exist here.
    create_fence: &CreateNativeFence = "CreateNativeFence" {
        in signal = "signal",
        out fd = "fenceFD", // descriptor of the sync file
    }
    wait_fence: &WaitNativeFence = "WaitNativeFence" {
        in fd = "fenceFD", // descriptor of the sync file
        in timeout = "timeout",
    }
    wait_node: &WaitFence = "WaitFence" {
        in node = "handle",
    }
    finish_unlock: &BottomHalfUnlockVideoMemory = "BottomHalfUnlockVideoMemory" {
        in node = "node",
    }
    allocate_non_paged: &AllocateNonPagedMemory = "AllocateNonPagedMemory" {
        inout size = "bytes",
        out physical = "physical" | "physName",
        out logical = "logical",
    }
    free_non_paged: &FreeNonPagedMemory = "FreeNonPagedMemory" {
        in size = "bytes",
        in physical = "physical" | "physName",
        in logical = "logical",
    }
    /// ALLOCATE_VIRTUAL_COMMAND_BUFFER: memory for commands, without a GPU address.
    allocate_commands: &AllocateVirtualCommandBuffer = "AllocateVirtualCommandBuffer" {
        inout size = "bytes",
        out physical = "physical",
        out logical = "logical",
    }
    free_commands: &FreeVirtualCommandBuffer = "FreeVirtualCommandBuffer" {
        in size = "bytes",
        in physical = "physical",
        in logical = "logical",
    }
    allocate_contiguous: &AllocateContiguousMemory = "AllocateContiguousMemory" {
        inout size = "bytes",
        out address = "address", // GPU address
        out physical = "physical",
        out logical = "logical",
    }
    free_contiguous: &FreeContiguousMemory = "FreeContiguousMemory" {
        in size = "bytes",
        in physical = "physical",
        in logical = "logical",
    }
    /// EVENT_COMMIT.
    event: Event = "Event" {
        in queue = "queue", // first record
        in engine = "engine", // 0: render, 1: copy
    }
    commit: Commit = "Commit" {
        // context from ATTACH; the first core's, if each core has one. Beside an array, the
        // singular name is the client's own pointer to it.
        in context = "contexts" | "context" | "subCommit.context",
        in command_buffer = "commandBuffers" | "commandBuffer", // `gcoCMDBUF`, likewise
        in context_buffer = "contextBuffer", // `gcoCONTEXT`
        in delta = "deltas" | "delta" | "subCommit.delta", // `gcsSTATE_DELTA`, likewise
        in queue = "queue" | "subCommit.queue", // first record
        in count = "count", // number of cores, [`MAX_PARTS`] at most
        // 0: render, 1: copy. If the header has this field, too, the name here ends in a digit, and
        // no kernel reads it.
        in engine = "engine",
        in core = "subCommit.coreId", // core index
        in next = "subCommit.next", // the next core's part
        out stamp = "commitStamp", // number of the job
        out switched = "contextSwitched", // the context was loaded and the delta merged
        // offset of a `gcsHAL_COMMAND_LOCATION`: that of its first field
        in location = "subCommit.commandBuffer.priority",
    }
    map_user: &MapUserMemory = "MapUserMemory" {
        in memory = "memory",
        in physical = "physical", // physical address, or all ones
        in size = "size",
        out info = "info",
        out address = "address", // GPU address
    }
    unmap_user: &UnmapUserMemory = "UnmapUserMemory" {
        in memory = "memory",
        in size = "size",
        in info = "info",
    }
    user_signal: UserSignal = "UserSignal" {
        in command = "command",
        inout id = "id",
        in manual_reset = "manualReset", // a wait does not reset it
        in wait = "wait",
        in state = "state", // set or reset
        // of a wait: the signal was set because its work was canceled
        out status = "status",
    }
    /// SIGNAL, in queues.
    signal: &Signal = "Signal" {
        in signal = "signal",
        in process = "process", // process of the signal
    }
    /// WRITE_DATA, in queues.
    write_data: &WriteData = "WriteData" {
        in address = "address", // GPU address
        in data = "data", // the word
    }
    /// SET_POWER_MANAGEMENT_STATE.
    set_power: &SetPowerManagement = "SetPowerManagement" {
        in state = "state", // `gceCHIPPOWERSTATE`
    }
    config_power: &ConfigPowerManagement = "ConfigPowerManagement" {
        in enable = "enable", // whether the core may be switched off
        out old = "oldValue", // the previous value
    }
    /// QUERY_POWER_MANAGEMENT_STATE.
    power: &QueryPowerManagement = "QueryPowerManagement" {
        out state = "state", // `gceCHIPPOWERSTATE`
        out is_idle = "isIdle", // the core has no work
    }
    cache: &Cache = "Cache" {
        in operation = "operation",
        in logical = "logical",
        in size = "bytes",
        in node = "node",
    }
    /// FLUSH_CACHE.
    flush_cache: &CacheFlush = "CacheFlush" {
        in logical = "vaddr",
        in size = "offset", // bytes
        in direction = "dir", // `enum dma_data_direction`
    }
    mmu_version: &GetMmuVersion = "GetMmuVersion" {
        out version = "mmuVersion", // 0: version 1
    }
    /// TIMESTAMP.
    timestamp: &TimeStamp = "TimeStamp" {
        in timer = "timer",
        in request = "request", // stop, start, query
        out delta = "timeDelta", // microseconds
    }
    kernel_settings: &QueryKernelSettings = "QueryKernelSettings" {
        out signal = "settings.signal", // number of the realtime signal
    }
    version_numbers: &Version = "Version" {
        out major = "major",
        out minor = "minor",
        out patch = "patch",
        out build = "build",
    }
    attach: &Attach = "Attach" {
        out context = "context",
        out state_count = "stateCount" | "maxState", // highest state plus 1
        out record_count = "numStates", // states that a delta may hold
        // bytes of the buffers, if the client can map them: 0
        out buffer_bytes = "bytes",
    }
    detach: &Detach = "Detach" {
        in context = "context",
    }
    /// SET_TIMEOUT.
    timeout: &SetTimeOut = "SetTimeOut" {
        in timeout = "timeOut",
    }
    database: &Database = "Database" {
        in is_valid = "validProcessID", // `process` is valid
        in process = "processID",
        out video = "vidMem.counters.bytes", // video memory now
        out video_max = "vidMem.counters.maxBytes",
        out video_total = "vidMem.counters.totalBytes",
        out video_given = "vidMem.counters.allocCount",
        out video_returned = "vidMem.counters.freeCount",
        out non_paged = "nonPaged.counters.bytes", // non-paged buffers now
        out non_paged_max = "nonPaged.counters.maxBytes",
        out non_paged_total = "nonPaged.counters.totalBytes",
        out non_paged_given = "nonPaged.counters.allocCount",
        out non_paged_returned = "nonPaged.counters.freeCount",
        out contiguous = "contiguous.counters.bytes", // contiguous buffers now
        out contiguous_max = "contiguous.counters.maxBytes",
        out contiguous_total = "contiguous.counters.totalBytes",
        out contiguous_given = "contiguous.counters.allocCount",
        out contiguous_returned = "contiguous.counters.freeCount",
        // nodes of the first pool now; other pools follow at distances of [`POOL_BYTES`]
        out pool = "vidMemPool[0].counters.bytes",
        out pool_max = "vidMemPool[0].counters.maxBytes",
        out pool_total = "vidMemPool[0].counters.totalBytes",
        out pool_given = "vidMemPool[0].counters.allocCount",
        out pool_returned = "vidMemPool[0].counters.freeCount",
    }
    /// CHIP_INFO: count, then arrays.
    chip_info: &ChipInfo = "ChipInfo" {
        out count = "count",
        out kind = "types",
        out id = "ids",
        out index = "coreIndexs",
    }
    resets: &QueryResetTimeStamp = "QueryResetTimeStamp" {
        out stamp = "timeStamp", // number of resets of the core
        out context = "contextID", // the guilty context: none
    }
    /// QUERY_CHIP_OPTION.
    options: &QueryChipOptions = "QueryChipOptions" {
        out profiler = "gpuProfiler", // the profiler is available
        out fast_clear = "allowFastClear", // clients may use fast clear
        out power = "powerManagement", // cores may be switched off
        out mmu = "enableMMU", // there is an MMU
        out compression = "allowCompression", // allowed kinds of compression
        out small_batch = "smallBatch", // small batches allowed
        out l1_cache = "uscL1CacheRatio", // L1's share of the shaders' cache, as a code
        // the attributes' share of a cache, as a code
        out attribute_cache = "uscAttribCacheRatio",
        out pools = "vidMemCount", // pools of memory
        out shaders = "hasShader", // shader cores
        // mask of neural network engines; there are none
        out networks = "enableNNClusters",
        out neural_cores = "activeNNCoreCount",
    }
    chip_frequency: &QueryChipFrequency = "QueryChipFrequency" {
        out core = "mcClk", // in Hz
        out shader = "shClk", // in Hz
    }
    set_scale: &SetFscaleValue = "SetFscaleValue" {
        in value = "value", // 64ths of the full clock
    }
    scale: &GetFscaleValue = "GetFscaleValue" {
        out value = "value", // 64ths of the full clock
        out min = "minValue", // minimum
        out max = "maxValue", // maximum
    }
    cpu_frequency: &QueryCpuFrequency = "QueryCPUFrequency" {
        out frequency = "CPUFrequency", // in kHz
    }
    /// READ_REGISTER.
    read_register: &ReadRegister = "ReadRegisterData" {
        in address = "address", // byte offset
        // value; for DUMP_GPU_STATE, whether a dump was made
        out data = "data",
    }
    /// WRITE_REGISTER.
    write_register: &WriteRegister = "WriteRegisterData" {
        in address = "address", // byte offset
        in data = "data", // value
    }
    /// READ_REGISTER_EX: of several cores.
    read_registers: &ReadRegisterEx = "ReadRegisterDataEx" {
        in address = "address", // byte offset
        in cores = "coreSelect", // a bit for each core of the kind
        out data = "data", // value for the first core, of 4
    }
    /// WRITE_REGISTER_EX: of several cores.
    write_registers: &WriteRegisterEx = "WriteRegisterDataEx" {
        in address = "address", // byte offset
        in cores = "coreSelect", // a bit for each core of the kind
        in data = "data", // value for the first core, of 4
    }
    profile_setting: &GetProfileSetting = "GetProfileSetting" {
        out enable = "enable", // whether the library profiles
        out name = "fileName", // first of 32 words: the name of the file that it writes
        out sync = "syncMode", // wait for all commands first: 0
        out mode = "profileMode", // what is counted: 0
        out probe = "probeMode", // how: 0
    }
    set_profile: &SetProfileSetting = "SetProfileSetting" {
        in enable = "enable", // whether to profile
        in name = "fileName", // first of 32 words: the file's name
    }
    /// PROFILE_REGISTERS_2D.
    counters_2d: &ProfileRegisters2d = "RegisterProfileData2D" {
        in result = "hwProfile2D", // user address of a `gcs2D_PROFILE`
    }
    /// READ_PROFILER_REGISTER_SETTING.
    profile_clear: &ReadProfilerRegisterSetting = "SetProfilerRegisterClear" {
        in clears = "bclear", // a read resets the counters
    }
    debug: &Debug = "Debug" {
        in message = "message", // first of 20 words: a text for the log
        in kind = "type", // `gceDEBUG_MESSAGE_TYPE`
    }
    shared_info: &GetSharedInfo = "GetSharedInfo" {
        in process = "pid", // process that owns the data
        in id = "dataId", // which data
        in node = "node", // a node, or 0
        in data = "data", // user address for the data
        in node_data = "nodeData", // user address for the node's data
        in size = "size" | "bytes", // bytes of the data
        in kind = "infoType", // `gceVIDMEM_NODE_SHARED_INFO_TYPE`
    }
    set_shared_info: &SetSharedInfo = "SetSharedInfo" {
        in id = "dataId", // which data
        in node = "node", // a node, or 0
        in data = "data", // user address of the data
        in node_data = "nodeData", // user address of the node's data
        in size = "size" | "bytes", // bytes of the data
        in kind = "infoType", // `gceVIDMEM_NODE_SHARED_INFO_TYPE`
    }
    /// `gcoCMDBUF`.
    command_buffer: &CommandBufferLayout = "gcoCMDBUF" {
        in object = "object.type", // object type
        in entry_pipe = "entryPipe", // pipe at the start
        in exit_pipe = "exitPipe", // pipe at the end
        in logical = "logical", // user address of the buffer
        in start_offset = "startOffset", // start of the head
        in offset = "offset", // end of the commands
        in reserved_head = "reservedHead", // bytes of the head, if the client sets them
        in reserved_tail = "reservedTail", // bytes of the tail, if the client sets them
    }
    /// `gcsHAL_COMMAND_LOCATION`: commands of a COMMIT, embedded or in a list.
    location: &LocationLayout = "gcsHAL_COMMAND_LOCATION" {
        in logical = "logical", // user address of their buffer
        in start_offset = "startOffset", // first byte in it
        in size = "size", // bytes, with head and tail
        in reserved_head = "reservedHead", // bytes of the head
        in reserved_tail = "reservedTail", // bytes of the tail
        in entry_pipe = "entryPipe", // pipe at the start
        in exit_pipe = "exitPipe", // pipe at the end
        in next = "next", // user address of the next
    }
    /// `gcsSTATE_DELTA`: changes of a COMMIT to its context.
    delta: &DeltaLayout = "gcsSTATE_DELTA" {
        in references = "refCount", // context copies that have not merged it yet
        in element_count = "elementCount", // vertex elements in use
        in record_count = "recordCount",
        in records = "recordArray",
    }
    /// `gcoCONTEXT`: the context of clients without ATTACH.
    context: &ContextLayout = "gcoCONTEXT" {
        in object = "object.type", // object type
        inout id = "id", // 0: none yet
        in pipe_2d_index = "pipe2DIndex", // not 0: the buffer begins with room for a pipe switch
        in buffer_size = "bufferSize", // bytes of its buffer
        in logical = "logical", // user address of its buffer
        in link = "link", // user address of the room for a LINK in it
        in initial_pipe = "initialPipe", // pipe at the start of its buffer
        in entry_pipe = "entryPipe", // pipe at the start of the client's commands
        in in_use = "inUse", // user address of a word to set to 1 when the buffer is used
    }
}
