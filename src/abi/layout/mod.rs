// SPDX-License-Identifier: GPL-2.0-only

//! Where the fields of each generation of the interface lie, as data.
//!
//! A [`Layout`] is one generation; [`LAYOUTS`] are all of them, one file a family. The generations
//! are a chain: [`v2::V2`] is written out, each other one names what differs from the one that it
//! is built on (mostly the one before it) and takes the rest from there, structure by structure and
//! field by field. Names in quotes are the C headers'. Offsets are bytes: those of [`Header`] and
//! [`Queue`] from the start of the interface and of the record, those of the union's members from
//! the start of the union, all others from the start of their structure. Sizes, alignment and
//! overlaps are checked when this is compiled; each offset is compared with the facts in tests/abi
//! by a host test, which reads these files too: they know nothing of the rest of the crate. This
//! file is the list of all structures and their fields, as one macro takes it.

pub(crate) mod counters;
pub(crate) mod power;
mod v2;
mod v4;
mod v4_6_9;
mod v5;
mod v6_2;
mod v6_4;
pub(crate) mod vector;

/// Bytes of the largest interface of any generation.
pub(crate) const MAX_INTERFACE_BYTES: usize = 400;

/// From one pool's counters in DATABASE to the next one's.
pub(crate) const POOL_BYTES: u16 = 40;

/// A field of 4 or 8 bytes, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    at: u16,
    bytes: u16,
}

/// A field of 4 bytes.
pub(crate) const fn word(at: u16) -> Field {
    Field { at, bytes: 4 }
}

/// A field of 8 bytes.
pub(crate) const fn long(at: u16) -> Field {
    Field { at, bytes: 8 }
}

/// Every interface starts with its command.
pub(crate) const COMMAND: Field = word(0);

/// A field that the generation does not have.
const ABSENT: Field = Field { at: 0, bytes: 0 };

impl Field {
    /// Whether the generation has it.
    pub(crate) fn exists(self) -> bool {
        self.bytes != 0
    }

    /// Its offset.
    pub(crate) fn at(self) -> u64 {
        self.at.into()
    }

    /// Its offset and bytes.
    #[cfg(test)]
    pub(crate) fn place(self) -> (usize, usize) {
        (self.at.into(), self.bytes.into())
    }

    /// The first byte behind it.
    pub(crate) const fn end(self) -> usize {
        // CAST: 16 bits; `from` is not const.
        self.at as usize + self.bytes as usize
    }

    /// The `index`th element of the array whose first is this.
    pub(crate) fn nth(self, index: u16) -> Self {
        Self {
            at: self.at + self.bytes * index,
            ..self
        }
    }

    /// The field `bytes` behind it, if it exists.
    pub(crate) fn behind(self, bytes: u16) -> Self {
        match self.exists() {
            true => Self {
                at: self.at + bytes,
                ..self
            },
            false => self,
        }
    }

    /// Its low 32 bits, 0 if it does not exist.
    #[inline]
    pub(crate) fn word(self, words: &[u32]) -> u32 {
        if self.bytes == 0 {
            return 0;
        }
        word_at(words, self.at.into())
    }

    /// Its value, 0 if it does not exist.
    #[inline]
    pub(crate) fn long(self, words: &[u32]) -> u64 {
        let at = usize::from(self.at);
        match self.bytes {
            0 => 0,
            4 => word_at(words, at).into(),
            _ => u64::from(word_at(words, at)) | u64::from(word_at(words, at + 4)) << 32,
        }
    }

    /// The words from it on.
    pub(crate) fn and_behind(self, words: &[u32]) -> &[u32] {
        words.get(usize::from(self.at) / 4..).unwrap_or_default()
    }

    /// A handle: one that does not fit 32 bits is none of ours, like all ones.
    #[inline]
    pub(crate) fn handle(self, words: &[u32]) -> u32 {
        u32::try_from(self.long(words)).unwrap_or(u32::MAX)
    }

    /// Writes 32 bits; the high half of a field of 64 becomes 0.
    #[inline]
    pub(crate) fn put(self, words: &mut [u32], value: u32) {
        self.put_long(words, value.into());
    }

    /// Writes 64 bits, or the low half into a field of 32.
    #[inline]
    pub(crate) fn put_long(self, words: &mut [u32], value: u64) {
        let at = usize::from(self.at);
        // CAST: the halves.
        match self.bytes {
            0 => {}
            4 => put_word_at(words, at, value as u32),
            _ => {
                put_word_at(words, at, value as u32);
                put_word_at(words, at + 4, (value >> 32) as u32);
            }
        }
    }

    /// Whether it lies inside `bytes` bytes, on its own alignment.
    const fn is_sound(self, bytes: u16) -> bool {
        match self.bytes {
            0 => self.at == 0,
            4 | 8 => self.at % self.bytes == 0 && self.end() <= bytes as usize,
            _ => false,
        }
    }

    const fn overlaps(self, other: Self) -> bool {
        let (first, second) = (self.at as usize, other.at as usize);
        first < other.end() && second < self.end()
    }
}

/// The word at a byte offset; 0 outside, which no layout asks for.
#[inline]
fn word_at(words: &[u32], at: usize) -> u32 {
    words.get(at / 4).copied().unwrap_or(0)
}

#[inline]
fn put_word_at(words: &mut [u32], at: usize, value: u32) {
    if let Some(word) = words.get_mut(at / 4) {
        *word = value;
    }
}

/// Structures of fields, and [`Layout`], which has one of each.
macro_rules! structures {
    (
        $(#[$layout_meta:meta])*
        layout { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }
        $(
            $(#[$meta:meta])*
            $member:ident: $name:ident = $c_name:literal {
                $($(#[$field_meta:meta])* $field:ident = $($c_field:literal)|+,)*
            }
        )*
    ) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $name {
                /// Bytes of the structure; 0: the generation does not have it.
                pub(crate) bytes: u16,
                $($(#[$field_meta])* pub(crate) $field: Field,)*
            }

            impl $name {
                /// None of it.
                #[allow(dead_code, reason = "some structures are whole in every generation")]
                const ABSENT: Self = Self { bytes: 0, $($field: ABSENT,)* };

                const fn is_sound(&self) -> bool {
                    let fields = [$(self.$field,)*];
                    let mut at = 0;
                    while at < fields.len() {
                        if !fields[at].is_sound(self.bytes) {
                            return false;
                        }
                        let mut other = 0;
                        while other < at {
                            if fields[at].overlaps(fields[other]) {
                                return false;
                            }
                            other += 1;
                        }
                        at += 1;
                    }
                    true
                }
            }
        )*

        $(#[$layout_meta])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Layout {
            $($(#[$own_meta])* pub(crate) $own: $own_type,)*
            $($(#[$meta])* pub(crate) $member: $name,)*
        }

        impl Layout {
            const fn structures_are_sound(&self) -> bool {
                $(self.$member.is_sound() &&)* true
            }

            /// Tells each structure's C name and bytes, and each field with its C names.
            #[cfg(test)]
            pub(crate) fn visit(
                &self,
                structure: &mut dyn FnMut(&'static str, u16),
                field: &mut dyn FnMut(&'static str, &[&'static str], Field),
            ) {
                $(
                    structure($c_name, self.$member.bytes);
                    $(field($c_name, &[$($c_field),+], self.$member.$field);)*
                )*
            }
        }
    };
}

structures! {
    /// One generation of the interface.
    layout {
        /// The name that parameters and logs use.
        name: &'static str,
        /// What VERSION answers; zeros where there is no such command.
        version: [u32; 4],
        /// Bytes of the ioctl's argument: 16 or 32.
        argument_bytes: u16,
        /// Bytes of the interface as builds with and without the profiler have it.
        sizes: &'static [u16],
        /// Smaller ones are taken too, in and out apart: the rest counts as 0.
        may_be_shorter: bool,
        /// Where the union starts.
        union_at: u16,
        /// The model of core whose boards had this generation; 0: many.
        model: u32,
        /// The header.
        header: Header,
        /// A record of an event queue.
        queue: Queue,
        /// Commands by number.
        commands: &'static [Command],
        /// QUERY_CHIP_IDENTITY's answer.
        identity: IdentityLayout,
        /// What differs besides places.
        quirks: Quirks,
        /// COMMIT for the vector graphics core; `None`: its boards have none.
        vector: Option<vector::Vector>,
        /// What the profiler's commands tell.
        profile: counters::Profile,
        /// Bytes of the interface that these commands have to themselves, behind an ioctl of its
        /// own; 0: none.
        profiler_bytes: u16,
    }

    /// GET_BASE_ADDRESS.
    base_address: GetBaseAddress = "GetBaseAddress" {
        /// Out: what GPU addresses are counted from.
        base_address = "baseAddress",
        /// Out: ranges that the MMU maps as they are.
        range_count = "flatMappingRangeCount",
        /// Out: such a range.
        range_start = "flatMappingStart",
        /// Out: its end.
        range_end = "flatMappingEnd",
    }
    /// QUERY_VIDEO_MEMORY, all out.
    video_memory: QueryVideoMemory = "QueryVideoMemory" {
        /// Memory on the chip.
        internal_physical = "internalPhysical" | "internalPhysName",
        /// Its bytes.
        internal_size = "internalSize",
        /// Memory of a card.
        external_physical = "externalPhysical" | "externalPhysName",
        /// Its bytes.
        external_size = "externalSize",
        /// The pool: the offset for mmap.
        contiguous_physical = "contiguousPhysical" | "contiguousPhysName",
        /// Its bytes.
        contiguous_size = "contiguousSize",
        /// Memory that only the GPU reaches.
        exclusive_physical = "exclusivePhysName",
        /// Its bytes.
        exclusive_size = "exclusiveSize",
    }
    /// MAP_MEMORY.
    map_memory: MapMemory = "MapMemory" {
        /// In: handle.
        physical = "physical" | "physName",
        /// In: bytes.
        size = "bytes",
        /// Out: user address.
        logical = "logical",
    }
    /// UNMAP_MEMORY.
    unmap_memory: UnmapMemory = "UnmapMemory" {
        /// In: handle.
        physical = "physical" | "physName",
        /// In: bytes.
        size = "bytes",
        /// In: user address.
        logical = "logical",
    }
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    allocate_linear: AllocateLinearVideoMemory = "AllocateLinearVideoMemory" {
        /// In: bytes.
        size = "bytes",
        /// In: alignment.
        alignment = "alignment",
        /// In: `gceSURF_TYPE`.
        kind = "type",
        /// In: flags.
        flag = "flag",
        /// In and out: `gcePOOL`.
        pool = "pool",
        /// Out: handle.
        node = "node",
    }
    /// ALLOCATE_VIDEO_MEMORY: a surface by its geometry.
    allocate_surface: AllocateVideoMemory = "AllocateVideoMemory" {
        /// In and out: pixels.
        width = "width",
        /// In and out: rows.
        height = "height",
        /// In: slices.
        depth = "depth",
        /// In: `gceSURF_FORMAT`.
        format = "format",
        /// In: `gceSURF_TYPE`.
        kind = "type",
        /// In and out: `gcePOOL`.
        pool = "pool",
        /// Out: handle.
        node = "node",
    }
    /// FREE_VIDEO_MEMORY, up to 4.6.9.
    free_node: FreeVideoMemory = "FreeVideoMemory" {
        /// In: handle.
        node = "node",
    }
    /// RELEASE_VIDEO_MEMORY, from 5.0.11.
    release_node: ReleaseVideoMemory = "ReleaseVideoMemory" {
        /// In: handle.
        node = "node",
    }
    /// LOCK_VIDEO_MEMORY.
    lock: LockVideoMemory = "LockVideoMemory" {
        /// In: handle.
        node = "node",
        /// In: whether the user's view is to be cached.
        cacheable = "cacheable",
        /// Out: GPU address.
        address = "address",
        /// Out: user address.
        memory = "memory",
        /// Out: a handle of video hardware, which there is not.
        gid = "gid",
        /// Out: not told.
        physical_address = "physicalAddress",
        /// In: bits of [`LOCK_PARTS`].
        parts = "op",
    }
    /// UNLOCK_VIDEO_MEMORY.
    unlock: UnlockVideoMemory = "UnlockVideoMemory" {
        /// In: handle.
        node = "node",
        /// Out: a second half must follow.
        asynchronous = "asynchroneous",
        /// Out: `gcePOOL` where it lies.
        pool = "pool",
        /// Out: its bytes.
        size = "bytes",
        /// In: bits of [`UNLOCK_PARTS`].
        parts = "op",
    }
    /// NAME_VIDEO_MEMORY.
    name_node: NameVideoMemory = "NameVideoMemory" {
        /// In: handle.
        node = "handle",
        /// Out: name.
        name = "name",
    }
    /// IMPORT_VIDEO_MEMORY.
    import_node: ImportVideoMemory = "ImportVideoMemory" {
        /// In: name.
        name = "name",
        /// Out: handle.
        node = "handle",
    }
    /// WRAP_USER_MEMORY.
    wrap: WrapUserMemory = "WrapUserMemory" {
        /// In: what kind of memory.
        flag = "desc.flag",
        /// In: descriptor of a dma-buf.
        handle = "desc.handle",
        /// In: user address.
        logical = "desc.logical",
        /// In: physical address, or all ones.
        physical = "desc.physical",
        /// In: bytes.
        size = "desc.size",
        /// Out: handle.
        node = "node",
        /// Out: bytes.
        granted = "bytes",
    }
    /// EXPORT_VIDEO_MEMORY.
    export_node: ExportVideoMemory = "ExportVideoMemory" {
        /// In: handle.
        node = "node",
        /// In: flags of `open`.
        flags = "flags",
        /// Out: descriptor of the dma-buf.
        fd = "fd",
    }
    /// GET_VIDEO_MEMORY_FD.
    node_fd: GetVideoMemoryFd = "GetVideoMemoryFd" {
        /// In: handle.
        node = "handle",
        /// Out: descriptor of the dma-buf.
        fd = "fd",
    }
    /// SET_VIDEO_MEMORY_METADATA.
    metadata: SetVidMemMetadata = "SetVidMemMetadata" {
        /// In: handle.
        node = "node",
        /// In: whether it is asked for.
        readback = "readback",
        /// In and out: descriptor of the tile status' dma-buf.
        status = "ts_fd",
        /// In and out: whether it is cleared fast. Four words follow it.
        fast_clear = "fc_enabled",
        /// The last of these.
        format = "compress_format",
    }
    /// GET_GRAPHIC_BUFFER_FD.
    graphic_buffer: GetGraphicBufferFd = "GetGraphicBufferFd" {
        /// In: handles, behind each other.
        nodes = "node",
        /// In: a shared buffer.
        piece = "shBuf",
        /// In: a signal.
        signal = "signal",
        /// Out: descriptor of what keeps them.
        fd = "fd",
    }
    /// SHBUF.
    shared_buffer: ShBuf = "ShBuf" {
        /// In: sub-command.
        command = "command",
        /// In and out: the buffer.
        id = "id",
        /// In: user address.
        data = "data",
        /// In and out: bytes.
        size = "bytes",
    }
    /// CREATE_NATIVE_FENCE; up to 5.0.11 it is of a sync point, which there is not.
    create_fence: CreateNativeFence = "CreateNativeFence" {
        /// In: the signal.
        signal = "signal",
        /// Out: descriptor of the sync file.
        fd = "fenceFD",
    }
    /// WAIT_NATIVE_FENCE.
    wait_fence: WaitNativeFence = "WaitNativeFence" {
        /// In: descriptor of the sync file.
        fd = "fenceFD",
        /// In: milliseconds.
        timeout = "timeout",
    }
    /// WAIT_FENCE.
    wait_node: WaitFence = "WaitFence" {
        /// In: handle.
        node = "handle",
    }
    /// BOTTOM_HALF_UNLOCK_VIDEO_MEMORY.
    finish_unlock: BottomHalfUnlockVideoMemory = "BottomHalfUnlockVideoMemory" {
        /// In: handle.
        node = "node",
    }
    /// ALLOCATE_NON_PAGED_MEMORY.
    allocate_non_paged: AllocateNonPagedMemory = "AllocateNonPagedMemory" {
        /// In and out: bytes.
        size = "bytes",
        /// Out: handle.
        physical = "physical" | "physName",
        /// Out: user address.
        logical = "logical",
    }
    /// FREE_NON_PAGED_MEMORY.
    free_non_paged: FreeNonPagedMemory = "FreeNonPagedMemory" {
        /// In: bytes.
        size = "bytes",
        /// In: handle.
        physical = "physical" | "physName",
        /// In: user address.
        logical = "logical",
    }
    /// ALLOCATE_VIRTUAL_COMMAND_BUFFER: memory for commands, whose GPU address is not told.
    allocate_commands: AllocateVirtualCommandBuffer = "AllocateVirtualCommandBuffer" {
        /// In and out: bytes.
        size = "bytes",
        /// Out: handle.
        physical = "physical",
        /// Out: user address.
        logical = "logical",
    }
    /// FREE_VIRTUAL_COMMAND_BUFFER.
    free_commands: FreeVirtualCommandBuffer = "FreeVirtualCommandBuffer" {
        /// In: bytes.
        size = "bytes",
        /// In: handle.
        physical = "physical",
        /// In: user address.
        logical = "logical",
    }
    /// ALLOCATE_CONTIGUOUS_MEMORY.
    allocate_contiguous: AllocateContiguousMemory = "AllocateContiguousMemory" {
        /// In and out: bytes.
        size = "bytes",
        /// Out: GPU address.
        address = "address",
        /// Out: handle.
        physical = "physical",
        /// Out: user address.
        logical = "logical",
    }
    /// FREE_CONTIGUOUS_MEMORY.
    free_contiguous: FreeContiguousMemory = "FreeContiguousMemory" {
        /// In: bytes.
        size = "bytes",
        /// In: handle.
        physical = "physical",
        /// In: user address.
        logical = "logical",
    }
    /// EVENT_COMMIT.
    event: Event = "Event" {
        /// In: first record.
        queue = "queue",
        /// In: 0, the drawing engine; 1, the copying one.
        engine = "engine",
    }
    /// COMMIT.
    commit: Commit = "Commit" {
        /// In: what ATTACH gave; the first core's, where there is one for each. What has the name
        /// of one beside the array of all is the client's own pointer to that.
        context = "contexts" | "context" | "subCommit.context",
        /// In: `gcoCMDBUF`, likewise.
        command_buffer = "commandBuffers" | "commandBuffer",
        /// In: `gcoCONTEXT`.
        context_buffer = "contextBuffer",
        /// In: `gcsSTATE_DELTA`, likewise.
        delta = "deltas" | "delta" | "subCommit.delta",
        /// In: first record.
        queue = "queue" | "subCommit.queue",
        /// In: for so many cores, [`MAX_PARTS`] at most.
        count = "count",
        /// In: 0, the drawing engine; 1, the copying one. Where the header has it, too, no kernel
        /// reads what has this name with a digit.
        engine = "engine",
        /// In: which core.
        core = "subCommit.coreId",
        /// In: the next core's part.
        next = "subCommit.next",
        /// Out: its number.
        stamp = "commitStamp",
        /// Out: the context was loaded, and the delta taken over.
        switched = "contextSwitched",
        /// In: where a `gcsHAL_COMMAND_LOCATION` of the commands begins, which is what the first
        /// field of one says.
        location = "subCommit.commandBuffer.priority",
    }
    /// MAP_USER_MEMORY.
    map_user: MapUserMemory = "MapUserMemory" {
        /// In: user address.
        memory = "memory",
        /// In: physical address, or all ones.
        physical = "physical",
        /// In: bytes.
        size = "size",
        /// Out: handle.
        info = "info",
        /// Out: GPU address.
        address = "address",
    }
    /// UNMAP_USER_MEMORY.
    unmap_user: UnmapUserMemory = "UnmapUserMemory" {
        /// In: user address.
        memory = "memory",
        /// In: bytes.
        size = "size",
        /// In: handle.
        info = "info",
    }
    /// USER_SIGNAL.
    user_signal: UserSignal = "UserSignal" {
        /// In: sub-command.
        command = "command",
        /// In and out: the signal.
        id = "id",
        /// In: it stays set.
        manual_reset = "manualReset",
        /// In: milliseconds.
        wait = "wait",
        /// In: set or reset.
        state = "state",
        /// Out, of a wait: whether the signal was set because its work was called off.
        status = "status",
    }
    /// SIGNAL, in queues.
    signal: Signal = "Signal" {
        /// In: the signal.
        signal = "signal",
        /// In: whose it is.
        process = "process",
    }
    /// WRITE_DATA, in queues.
    write_data: WriteData = "WriteData" {
        /// In: GPU address.
        address = "address",
        /// In: the word.
        data = "data",
    }
    /// SET_POWER_MANAGEMENT_STATE.
    set_power: SetPowerManagement = "SetPowerManagement" {
        /// In: `gceCHIPPOWERSTATE`.
        state = "state",
    }
    /// CONFIG_POWER_MANAGEMENT.
    config_power: ConfigPowerManagement = "ConfigPowerManagement" {
        /// In: whether the core may go off.
        enable = "enable",
        /// Out: whether it might before.
        old = "oldValue",
    }
    /// QUERY_POWER_MANAGEMENT_STATE, all out.
    power: QueryPowerManagement = "QueryPowerManagement" {
        /// `gceCHIPPOWERSTATE`.
        state = "state",
        /// Nothing is under way.
        is_idle = "isIdle",
    }
    /// CACHE.
    cache: Cache = "Cache" {
        /// In: operation.
        operation = "operation",
        /// In: user address.
        logical = "logical",
        /// In: bytes.
        size = "bytes",
        /// In: handle.
        node = "node",
    }
    /// TIMESTAMP.
    timestamp: TimeStamp = "TimeStamp" {
        /// In: timer.
        timer = "timer",
        /// In: stop, start, query.
        request = "request",
        /// Out: microseconds.
        delta = "timeDelta",
    }
    /// QUERY_KERNEL_SETTINGS.
    kernel_settings: QueryKernelSettings = "QueryKernelSettings" {
        /// Out: number of the realtime signal.
        signal = "settings.signal",
    }
    /// VERSION, all out.
    version_numbers: Version = "Version" {
        /// Major.
        major = "major",
        /// Minor.
        minor = "minor",
        /// Patch.
        patch = "patch",
        /// Build.
        build = "build",
    }
    /// ATTACH, all out.
    attach: Attach = "Attach" {
        /// Handle.
        context = "context",
        /// Highest state plus 1.
        state_count = "stateCount" | "maxState",
        /// States that a delta may hold.
        record_count = "numStates",
        /// Bytes of the buffers, if they are shown to the client: they are not.
        buffer_bytes = "bytes",
    }
    /// DETACH.
    detach: Detach = "Detach" {
        /// In: handle.
        context = "context",
    }
    /// SET_TIMEOUT.
    timeout: SetTimeOut = "SetTimeOut" {
        /// In: milliseconds.
        timeout = "timeOut",
    }
    /// DATABASE.
    database: Database = "Database" {
        /// In: the process is said.
        is_valid = "validProcessID",
        /// In: the process.
        process = "processID",
        /// Out: video memory now.
        video = "vidMem.counters.bytes",
        /// Out: at most.
        video_max = "vidMem.counters.maxBytes",
        /// Out: in all.
        video_total = "vidMem.counters.totalBytes",
        /// Out: how often some was allocated.
        video_given = "vidMem.counters.allocCount",
        /// Out: how often some was freed.
        video_returned = "vidMem.counters.freeCount",
        /// Out: non-paged buffers now.
        non_paged = "nonPaged.counters.bytes",
        /// Out: at most.
        non_paged_max = "nonPaged.counters.maxBytes",
        /// Out: in all.
        non_paged_total = "nonPaged.counters.totalBytes",
        /// Out: how often some was allocated.
        non_paged_given = "nonPaged.counters.allocCount",
        /// Out: how often some was freed.
        non_paged_returned = "nonPaged.counters.freeCount",
        /// Out: contiguous buffers now.
        contiguous = "contiguous.counters.bytes",
        /// Out: at most.
        contiguous_max = "contiguous.counters.maxBytes",
        /// Out: in all.
        contiguous_total = "contiguous.counters.totalBytes",
        /// Out: how often some was allocated.
        contiguous_given = "contiguous.counters.allocCount",
        /// Out: how often some was freed.
        contiguous_returned = "contiguous.counters.freeCount",
        /// Out: nodes of the first pool now. The next pools' are [`POOL_BYTES`] behind each other.
        pool = "vidMemPool[0].counters.bytes",
        /// Out: at most.
        pool_max = "vidMemPool[0].counters.maxBytes",
        /// Out: in all.
        pool_total = "vidMemPool[0].counters.totalBytes",
        /// Out: how often some was allocated.
        pool_given = "vidMemPool[0].counters.allocCount",
        /// Out: how often some was freed.
        pool_returned = "vidMemPool[0].counters.freeCount",
    }
    /// CHIP_INFO, all out: count, then arrays.
    chip_info: ChipInfo = "ChipInfo" {
        /// Cores.
        count = "count",
        /// The first one's type.
        kind = "types",
        /// The first one's id.
        id = "ids",
        /// The first one's index.
        index = "coreIndexs",
    }
    /// QUERY_RESET_TIME_STAMP, all out.
    resets: QueryResetTimeStamp = "QueryResetTimeStamp" {
        /// How often the core has been reset.
        stamp = "timeStamp",
        /// The context to blame: none.
        context = "contextID",
    }
    /// QUERY_CHIP_OPTION, all out.
    options: QueryChipOptions = "QueryChipOptions" {
        /// Out: there is a profiler.
        profiler = "gpuProfiler",
        /// Fast clear may be used.
        fast_clear = "allowFastClear",
        /// Cores may go off.
        power = "powerManagement",
        /// There is an MMU.
        mmu = "enableMMU",
        /// Kinds of compression that may be used.
        compression = "allowCompression",
        /// Work may be cut small.
        small_batch = "smallBatch",
        /// How much of a cache attributes have, as a code.
        attribute_cache = "uscAttribCacheRatio",
        /// Pools of memory.
        pools = "vidMemCount",
        /// Shader cores.
        shaders = "hasShader",
        /// A mask of engines for networks, of which there is none.
        networks = "enableNNClusters",
    }
    /// QUERY_CHIP_FREQUENCY, all out.
    chip_frequency: QueryChipFrequency = "QueryChipFrequency" {
        /// In Hz.
        core = "mcClk",
        /// In Hz.
        shader = "shClk",
    }
    /// SET_FSCALE_VALUE.
    set_scale: SetFscaleValue = "SetFscaleValue" {
        /// In: 64ths of the full clock.
        value = "value",
    }
    /// GET_FSCALE_VALUE, all out.
    scale: GetFscaleValue = "GetFscaleValue" {
        /// 64ths of the full clock.
        value = "value",
        /// The least.
        min = "minValue",
        /// The most.
        max = "maxValue",
    }
    /// QUERY_CPU_FREQUENCY.
    cpu_frequency: QueryCpuFrequency = "QueryCPUFrequency" {
        /// Out: in kHz.
        frequency = "CPUFrequency",
    }
    /// READ_REGISTER.
    read_register: ReadRegister = "ReadRegisterData" {
        /// In: byte offset.
        address = "address",
        /// Out: what it holds; of DUMP_GPU_STATE, whether there was something to dump.
        data = "data",
    }
    /// WRITE_REGISTER.
    write_register: WriteRegister = "WriteRegisterData" {
        /// In: byte offset.
        address = "address",
        /// In: what is written.
        data = "data",
    }
    /// READ_REGISTER_EX: of several cores.
    read_registers: ReadRegisterEx = "ReadRegisterDataEx" {
        /// In: byte offset.
        address = "address",
        /// In: a bit for each core of the kind.
        cores = "coreSelect",
        /// Out: what it holds in the first; 4 of them.
        data = "data",
    }
    /// WRITE_REGISTER_EX: of several cores.
    write_registers: WriteRegisterEx = "WriteRegisterDataEx" {
        /// In: byte offset.
        address = "address",
        /// In: a bit for each core of the kind.
        cores = "coreSelect",
        /// In: what is written in the first; 4 of them.
        data = "data",
    }
    /// GET_PROFILE_SETTING, all out.
    profile_setting: GetProfileSetting = "GetProfileSetting" {
        /// Whether the library is to profile.
        enable = "enable",
        /// The first of the 32 words of the name of the file that it writes.
        name = "fileName",
        /// It waits for all commands first: 0.
        sync = "syncMode",
        /// What is counted: 0.
        mode = "profileMode",
        /// How: 0.
        probe = "probeMode",
    }
    /// SET_PROFILE_SETTING.
    set_profile: SetProfileSetting = "SetProfileSetting" {
        /// In: whether it is to.
        enable = "enable",
        /// In: the first of the 32 words of the file's name.
        name = "fileName",
    }
    /// PROFILE_REGISTERS_2D.
    counters_2d: ProfileRegisters2d = "RegisterProfileData2D" {
        /// In: user address of a `gcs2D_PROFILE`.
        result = "hwProfile2D",
    }
    /// READ_PROFILER_REGISTER_SETTING.
    profile_clear: ReadProfilerRegisterSetting = "SetProfilerRegisterClear" {
        /// In: reading clears.
        clears = "bclear",
    }
    /// DEBUG.
    debug: Debug = "Debug" {
        /// In: the first of the 20 words of a text for the log.
        message = "message",
        /// In: `gceDEBUG_MESSAGE_TYPE`.
        kind = "type",
    }
    /// GET_SHARED_INFO.
    shared_info: GetSharedInfo = "GetSharedInfo" {
        /// In: the process whose data it is.
        process = "pid",
        /// In: which data.
        id = "dataId",
        /// In: a node, or 0.
        node = "node",
        /// In: user address where the data goes.
        data = "data",
        /// In: user address where what is noted of the node goes.
        node_data = "nodeData",
        /// In: bytes of the data.
        size = "size" | "bytes",
        /// In: `gceVIDMEM_NODE_SHARED_INFO_TYPE`.
        kind = "infoType",
    }
    /// SET_SHARED_INFO.
    set_shared_info: SetSharedInfo = "SetSharedInfo" {
        /// In: which data.
        id = "dataId",
        /// In: a node, or 0.
        node = "node",
        /// In: user address of the data.
        data = "data",
        /// In: user address of what is to be noted of the node.
        node_data = "nodeData",
        /// In: bytes of the data.
        size = "size" | "bytes",
        /// In: `gceVIDMEM_NODE_SHARED_INFO_TYPE`.
        kind = "infoType",
    }
    /// `gcoCMDBUF`.
    command_buffer: CommandBufferLayout = "gcoCMDBUF" {
        /// Object type.
        object = "object.type",
        /// Pipe at the start.
        entry_pipe = "entryPipe",
        /// User address of the buffer.
        logical = "logical",
        /// Start of the head.
        start_offset = "startOffset",
        /// End of the commands.
        offset = "offset",
        /// Bytes of the head, where the client says so.
        reserved_head = "reservedHead",
        /// Bytes of the tail, where the client says so.
        reserved_tail = "reservedTail",
    }
    /// `gcsHAL_COMMAND_LOCATION`: commands of a COMMIT, in it or behind it.
    location: LocationLayout = "gcsHAL_COMMAND_LOCATION" {
        /// User address of their buffer.
        logical = "logical",
        /// First byte in it.
        start_offset = "startOffset",
        /// Bytes, with head and tail.
        size = "size",
        /// Bytes of the head.
        reserved_head = "reservedHead",
        /// Bytes of the tail.
        reserved_tail = "reservedTail",
        /// Pipe at the start, of the first.
        entry_pipe = "entryPipe",
        /// User address of the next.
        next = "next",
    }
    /// `gcsSTATE_DELTA`: what a COMMIT has changed of its context.
    delta: DeltaLayout = "gcsSTATE_DELTA" {
        /// Copies of the context that have yet to take it over.
        references = "refCount",
        /// Vertex elements in use.
        element_count = "elementCount",
        /// Records.
        record_count = "recordCount",
        /// The records.
        records = "recordArray",
    }
    /// `gcoCONTEXT`: the context of clients without ATTACH.
    context: ContextLayout = "gcoCONTEXT" {
        /// Object type.
        object = "object.type",
        /// In and out: its name; 0: it has none yet.
        id = "id",
        /// Not 0: its buffer begins with room for a pipe switch.
        pipe_2d_index = "pipe2DIndex",
        /// Bytes of its buffer.
        buffer_size = "bufferSize",
        /// User address of its buffer.
        logical = "logical",
        /// User address of the room for a LINK in it.
        link = "link",
        /// Pipe at the start of its buffer.
        initial_pipe = "initialPipe",
        /// Pipe at the start of the client's commands.
        entry_pipe = "entryPipe",
        /// User address of a word that becomes 1 when the buffer is used.
        in_use = "inUse",
    }
}

/// Bits of LOCK's `op` (`gceLOCK_VIDEO_MEMORY_OP`): a lock for the GPU, and a user's view.
pub(crate) const LOCK_PARTS: [u32; 2] = [1, 2];

/// The same of UNLOCK's.
pub(crate) const UNLOCK_PARTS: [u32; 2] = [4, 8];

/// The header of the interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Core that the command is for (`gceHARDWARE_TYPE`).
    pub(crate) hardware_type: Field,
    /// Which of that kind.
    pub(crate) core_index: Field,
    /// 0, the drawing engine; 1, the copying one; where a structure has no such field of its own.
    pub(crate) engine: Field,
    /// Result.
    pub(crate) status: Field,
    /// A place that no kernel uses; where it has 64 bits it tells numbers of jobs.
    pub(crate) handle: Field,
}

/// A record of an event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    /// User address of the next record.
    pub(crate) next: Field,
    /// The command.
    pub(crate) command: u16,
    /// Start of the payload.
    pub(crate) union_at: u16,
    /// Bytes of the whole, in the build with the smallest interface.
    pub(crate) bytes: u16,
}

/// Bytes of the largest payload that a record may have.
const RECORD_PAYLOAD_BYTES: usize = 32;

/// Bytes of the largest record.
pub(crate) const MAX_RECORD_BYTES: usize = 8 + MAX_INTERFACE_BYTES;

/// Bytes of the largest `gcsSTATE_DELTA`.
pub(crate) const MAX_DELTA_BYTES: usize = 72;

/// Bytes of the largest `gcsHAL_COMMAND_LOCATION`.
pub(crate) const MAX_LOCATION_BYTES: usize = 80;

/// Bytes of a `gcsHAL_SUBCOMMIT`.
pub(crate) const MAX_SUB_COMMIT_BYTES: usize = 128;

/// Elements of COMMIT's arrays.
pub(crate) const MAX_PARTS: u32 = 10;

/// Bytes of the largest `gcoCONTEXT`.
pub(crate) const MAX_CONTEXT_BYTES: usize = 216;

/// Bytes of the largest `gcoCMDBUF`'s part that is read.
pub(crate) const MAX_COMMAND_BUFFER_BYTES: usize = 80;

/// A fact about the core, in QUERY_CHIP_IDENTITY's answer.
macro_rules! identity_words {
    ($($(#[$meta:meta])* $name:ident = $c_name:literal,)*) => {
        /// A word of QUERY_CHIP_IDENTITY's answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum IdentityWord { $($(#[$meta])* $name,)* }

        impl IdentityWord {
            /// How many there are.
            pub(crate) const COUNT: usize = [$(Self::$name),*].len();

            /// The C header's name.
            #[cfg(test)]
            pub(crate) fn c_name(self) -> &'static str {
                match self { $(Self::$name => $c_name,)* }
            }
        }
    };
}

identity_words! {
    /// Model.
    Model = "chipModel",
    /// Revision.
    Revision = "chipRevision",
    /// Model as the register has it, which generations with a list of cores look them up by.
    RawModel = "chipModel",
    /// Revision, likewise.
    RawRevision = "chipRevision",
    /// Date of the design.
    Date = "chipDate",
    /// Features.
    Features = "chipFeatures",
    /// Minor features.
    Minor0 = "chipMinorFeatures",
    /// Minor features.
    Minor1 = "chipMinorFeatures1",
    /// Minor features.
    Minor2 = "chipMinorFeatures2",
    /// Minor features.
    Minor3 = "chipMinorFeatures3",
    /// Minor features.
    Minor4 = "chipMinorFeatures4",
    /// Minor features.
    Minor5 = "chipMinorFeatures5",
    /// Minor features.
    Minor6 = "chipMinorFeatures6",
    /// Vertex streams.
    StreamCount = "streamCount",
    /// Vertex streams, by a newer register if it says so.
    AllStreams = "streamCount",
    /// Temporary registers.
    RegisterMax = "registerMax",
    /// Threads.
    ThreadCount = "threadCount",
    /// Shader cores.
    ShaderCoreCount = "shaderCoreCount",
    /// Entries of the vertex cache.
    VertexCacheSize = "vertexCacheSize",
    /// Bytes of the vertex output buffer.
    VertexOutputBufferSize = "vertexOutputBufferSize",
    /// Pixel pipes.
    PixelPipes = "pixelPipes",
    /// Pixel pipes, as the list of cores has them.
    ListedPipes = "pixelPipes",
    /// Resolve pipes: as many.
    ResolvePipes = "resolvePipes",
    /// Shader instructions.
    InstructionCount = "instructionCount",
    /// Fragment shader instructions: 0, they are not counted apart.
    FragmentInstructionCount = "PSInstructionCount",
    /// Uniforms.
    ConstantCount = "numConstants",
    /// Uniforms, as the list of cores has them.
    ListedConstants = "numConstants",
    /// Buffer size.
    BufferSize = "bufferSize",
    /// Varyings.
    VaryingsCount = "varyingsCount",
    /// Varyings but for the position, where that takes one.
    FreeVaryings = "varyingsCount",
    /// Layout of super tiles.
    SuperTileMode = "superTileMode",
    /// Cores behind this one: 1.
    CoreCount = "gpuCoreCount",
    /// Shader clusters: 0.
    Clusters = "clusterAvailMask",
    /// Control of the 2D engine: 0.
    Control2d = "chip2DControl",
    /// Product: 0 on these cores.
    Product = "productID",
    /// Engineering change: 0.
    EcoFlags = "ecoFlags",
    /// Flags: of the model that is not the register's.
    Flags = "chipFlags",
    /// Flags: none of the register's model.
    RawFlags = "chipFlags",
    /// Engineering change: 0.
    Eco = "ecoID",
    /// Customer: 0.
    Customer = "customerID",
}

/// QUERY_CHIP_IDENTITY's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityLayout {
    /// Its words, one behind the other.
    pub(crate) words: &'static [IdentityWord],
    /// Where the registers of another bus begin, of 64 bits.
    pub(crate) register_apb: Field,
    /// Bits of a GPU address.
    pub(crate) address_bits: Field,
    /// Addresses of memory inside the core, which none has: all ones.
    pub(crate) internal_memory: &'static [Field],
    /// Bytes of it; what else is behind the words is 0.
    pub(crate) bytes: u16,
}

impl IdentityLayout {
    /// Nothing.
    const ABSENT: Self = Self {
        words: &[],
        register_apb: ABSENT,
        address_bits: ABSENT,
        internal_memory: &[],
        bytes: 0,
    };
}

/// How a generation finds the core that a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// By its type alone; a type that no core has means the first core.
    Type,
    /// By its type, and the index among cores of this; the same.
    TypeAndIndex,
    /// The same, but a type that no core has is refused unless it is 2D or vector graphics.
    Slot,
}

/// Numbers of `gceHARDWARE_TYPE`, and what they mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HardwareTypes {
    /// How a core is found.
    pub(crate) routing: Routing,
    /// A 3D core.
    pub(crate) three_d: u8,
    /// A 2D core.
    pub(crate) two_d: u8,
    /// Both in one.
    pub(crate) both: u8,
    /// A core for vector graphics.
    pub(crate) vector: u8,
}

/// Bits of ALLOCATE_LINEAR_VIDEO_MEMORY's flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationFlags {
    /// In one piece.
    pub(crate) contiguous: u32,
    /// In pages.
    pub(crate) scattered: u32,
    /// In memory that the processor does not reach.
    pub(crate) secure: u32,
    /// In memory that LOCK can show cached: not in the pool.
    pub(crate) cacheable: u32,
    /// In the pool or nowhere.
    pub(crate) fast: u32,
    /// WRAP_USER_MEMORY's: a dma-buf.
    pub(crate) dma_buf: u32,
    /// WRAP_USER_MEMORY's: memory of the client.
    pub(crate) user_memory: u32,
}

/// What USER_SIGNAL says about a signal that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownSignal {
    /// INVALID_REQUEST to SIGNAL, INVALID_ARGUMENT to the others.
    Invalid,
    /// NOT_FOUND.
    NotFound,
}

/// What a generation does its own way besides places and numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// Numbers of core types.
    pub(crate) hardware: HardwareTypes,
    /// `gcvSURF_IMAGE` is there: numbers from 8 on are one higher than before.
    pub(crate) image_surfaces: bool,
    /// `gceSURF_TYPE` numbers from here on are none, and bits above the low 8 are hints; 0: those
    /// of 4.0.0, where such bits keep a surface out of the pool.
    pub(crate) surface_types: u8,
    /// `gcvPOOL` numbers from here on are none.
    pub(crate) pools: u32,
    /// ALLOCATE_LINEAR_VIDEO_MEMORY tells how many bytes there are.
    pub(crate) tells_bytes: bool,
    /// Flags of an allocation.
    pub(crate) flags: AllocationFlags,
    /// CACHE does nothing: all views are uncached.
    pub(crate) cache_is_ignored: bool,
    /// CACHE is of a node, whatever range it names: [`by_node`](crate::abi::CacheRange::by_node).
    pub(crate) caches_nodes: bool,
    /// DETACH of an unknown context is INVALID_OBJECT; else nothing is to be done.
    pub(crate) detaches_known: bool,
    /// COMMIT_DONE is a command, too, which does nothing; else only a record.
    pub(crate) takes_commit_done: bool,
    /// CACHE is told the node by the address: what it names is not looked at.
    pub(crate) caches_by_address: bool,
    /// GET_PROFILE_SETTING answers that the profiler is off, and SET_PROFILE_SETTING that there is
    /// none; else both do nothing, as builds without it. If there is one.
    pub(crate) has_profiler: bool,
    /// Where there is one, it is on if nobody has said otherwise.
    pub(crate) profiles: bool,
    /// A register of a core that is off reads 0, and writing it does nothing; else the core is not
    /// ready.
    pub(crate) off_reads_zero: bool,
    /// Signals can be mapped.
    pub(crate) maps_signals: bool,
    /// An unknown signal.
    pub(crate) unknown_signal: UnknownSignal,
    /// An unknown node is NOT_FOUND; else INVALID_OBJECT, and to FREE INVALID_DATA.
    pub(crate) unknown_node_not_found: bool,
    /// FREE of a locked node fails; else it waits for the last unlock.
    pub(crate) locked_cannot_be_freed: bool,
    /// A page-backed node can be locked again by who has it locked.
    pub(crate) locks_again: bool,
    /// MAP_USER_MEMORY wants addresses in multiples of this; a power of 2.
    pub(crate) user_alignment: u64,
    /// RESET always succeeds; else it is not for cores as old as those.
    pub(crate) resets: bool,
    /// Number of BROADCAST_GPU_STUCK, which builds have that watch the GPU themselves; 0: none has.
    pub(crate) gpu_stuck: u32,
    /// Numbers of power states.
    pub(crate) power: power::PowerNumbers,
    /// ALLOCATE_VIDEO_MEMORY is built.
    pub(crate) allocates_surfaces: bool,
    /// UNLOCK leaves the lock of every node, and not of a page-backed one alone, to the record that
    /// must follow: FREE comes between, and the commands that use the node before the record.
    pub(crate) unlocks_later: bool,
    /// ALLOCATE and FREE_VIRTUAL_COMMAND_BUFFER are built.
    pub(crate) allocates_commands: bool,
    /// QUERY_VIDEO_MEMORY names the pool, and MAP_MEMORY maps what it names; else clients give mmap
    /// the name, which is 0, as the offset.
    pub(crate) names_pool: bool,
    /// All nodes in pages of their own are of one pool, and DATABASE counts those that lie in one
    /// piece as contiguous memory.
    pub(crate) one_paged_pool: bool,
    /// STALL waits no longer than SET_TIMEOUT says; else as long as the core gets on.
    pub(crate) stall_is_limited: bool,
    /// Contexts keep what the drivers from 5.0.11 on have them keep.
    pub(crate) newer_contexts: bool,
    /// A delta's number of vertex elements is 1 more than there are; 0: as before.
    pub(crate) elements_and_one: bool,
    /// The nodes of a graphic buffer end with the first that is 0; else it is a gap.
    pub(crate) no_node_ends: bool,
}

/// Commands, whatever their numbers.
macro_rules! command_names {
    ($($(#[$meta:meta])* $name:ident = $c_name:literal,)*) => {
        /// A command (`gceHAL_COMMAND_CODES`), whatever its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Command {
            /// None.
            Unknown,
            $(#[doc = $c_name] $name,)*
        }

        impl Command {
            /// The C headers' name, without its `gcvHAL_`; empty: it is none.
            pub(crate) fn c_name(self) -> &'static str {
                match self { Self::Unknown => "", $(Self::$name => $c_name,)* }
            }
        }
    };
}

command_names! {
    QueryVideoMemory = "QUERY_VIDEO_MEMORY",
    QueryChipIdentity = "QUERY_CHIP_IDENTITY",
    AllocateNonPagedMemory = "ALLOCATE_NON_PAGED_MEMORY",
    FreeNonPagedMemory = "FREE_NON_PAGED_MEMORY",
    AllocateContiguousMemory = "ALLOCATE_CONTIGUOUS_MEMORY",
    FreeContiguousMemory = "FREE_CONTIGUOUS_MEMORY",
    AllocateVideoMemory = "ALLOCATE_VIDEO_MEMORY",
    AllocateLinearVideoMemory = "ALLOCATE_LINEAR_VIDEO_MEMORY",
    FreeVideoMemory = "FREE_VIDEO_MEMORY",
    MapMemory = "MAP_MEMORY",
    UnmapMemory = "UNMAP_MEMORY",
    MapUserMemory = "MAP_USER_MEMORY",
    UnmapUserMemory = "UNMAP_USER_MEMORY",
    LockVideoMemory = "LOCK_VIDEO_MEMORY",
    UnlockVideoMemory = "UNLOCK_VIDEO_MEMORY",
    EventCommit = "EVENT_COMMIT",
    UserSignal = "USER_SIGNAL",
    Signal = "SIGNAL",
    WriteData = "WRITE_DATA",
    Commit = "COMMIT",
    Stall = "STALL",
    ReadRegister = "READ_REGISTER",
    WriteRegister = "WRITE_REGISTER",
    GetProfileSetting = "GET_PROFILE_SETTING",
    SetProfileSetting = "SET_PROFILE_SETTING",
    ReadAllProfileRegisters = "READ_ALL_PROFILE_REGISTERS",
    ProfileRegisters2d = "PROFILE_REGISTERS_2D",
    SetPowerManagementState = "SET_POWER_MANAGEMENT_STATE",
    QueryPowerManagementState = "QUERY_POWER_MANAGEMENT_STATE",
    GetBaseAddress = "GET_BASE_ADDRESS",
    SetIdle = "SET_IDLE",
    QueryKernelSettings = "QUERY_KERNEL_SETTINGS",
    Reset = "RESET",
    MapPhysical = "MAP_PHYSICAL",
    Debug = "DEBUG",
    Cache = "CACHE",
    GcOff = "GC_OFF",
    GcOn = "GC_ON",
    Timestamp = "TIMESTAMP",
    Database = "DATABASE",
    Version = "VERSION",
    ChipInfo = "CHIP_INFO",
    Attach = "ATTACH",
    Detach = "DETACH",
    Compose = "COMPOSE",
    SetTimeout = "SET_TIMEOUT",
    GetFrameInfo = "GET_FRAME_INFO",
    GetSharedInfo = "GET_SHARED_INFO",
    SetSharedInfo = "SET_SHARED_INFO",
    QueryCommandBuffer = "QUERY_COMMAND_BUFFER",
    CommitDone = "COMMIT_DONE",
    DumpGpuState = "DUMP_GPU_STATE",
    DumpEvent = "DUMP_EVENT",
    AllocateVirtualCommandBuffer = "ALLOCATE_VIRTUAL_COMMAND_BUFFER",
    FreeVirtualCommandBuffer = "FREE_VIRTUAL_COMMAND_BUFFER",
    SetFscaleValue = "SET_FSCALE_VALUE",
    GetFscaleValue = "GET_FSCALE_VALUE",
    QueryResetTimeStamp = "QUERY_RESET_TIME_STAMP",
    SyncPoint = "SYNC_POINT",
    CreateNativeFence = "CREATE_NATIVE_FENCE",
    VidmemDatabase = "VIDMEM_DATABASE",
    ReleaseVideoMemory = "RELEASE_VIDEO_MEMORY",
    NameVideoMemory = "NAME_VIDEO_MEMORY",
    ImportVideoMemory = "IMPORT_VIDEO_MEMORY",
    FlushCache = "FLUSH_CACHE",
    GetMmuVersion = "GET_MMU_VERSION",
    ReadRegisterEx = "READ_REGISTER_EX",
    WriteRegisterEx = "WRITE_REGISTER_EX",
    DestroyMmu = "DESTROY_MMU",
    Shbuf = "SHBUF",
    ConfigPowerManagement = "CONFIG_POWER_MANAGEMENT",
    GetVideoMemoryFd = "GET_VIDEO_MEMORY_FD",
    WaitNativeFence = "WAIT_NATIVE_FENCE",
    WrapUserMemory = "WRAP_USER_MEMORY",
    ReadAllProfileNewRegistersPart1 = "READ_ALL_PROFILE_NEW_REGISTERS_PART1",
    ReadAllProfileNewRegistersPart2 = "READ_ALL_PROFILE_NEW_REGISTERS_PART2",
    ReadProfilerNewRegisterSetting = "READ_PROFILER_NEW_REGISTER_SETTING",
    DumpGpuProfile = "DUMP_GPU_PROFILE",
    WaitFence = "WAIT_FENCE",
    BottomHalfUnlockVideoMemory = "BOTTOM_HALF_UNLOCK_VIDEO_MEMORY",
    QueryChipFrequency = "QUERY_CHIP_FREQUENCY",
    ReadAllProfileRegistersPart1 = "READ_ALL_PROFILE_REGISTERS_PART1",
    ReadAllProfileRegistersPart2 = "READ_ALL_PROFILE_REGISTERS_PART2",
    ReadProfilerRegisterSetting = "READ_PROFILER_REGISTER_SETTING",
    ExportVideoMemory = "EXPORT_VIDEO_MEMORY",
    GetGraphicBufferFd = "GET_GRAPHIC_BUFFER_FD",
    SetVideoMemoryMetadata = "SET_VIDEO_MEMORY_METADATA",
    QueryChipOption = "QUERY_CHIP_OPTION",
    DeviceMutex = "DEVICE_MUTEX",
    DebugDump = "DEBUG_DUMP",
    Dec200Test = "DEC200_TEST",
    Dec300Read = "DEC300_READ",
    Dec300Write = "DEC300_WRITE",
    Dec300Flush = "DEC300_FLUSH",
    Dec300FlushWait = "DEC300_FLUSH_WAIT",
    UpdateDebugCallback = "UPDATE_DEBUG_CALLBACK",
    ConfigCtxFramework = "CONFIG_CTX_FRAMEWORK",
    ApbAxifeAccess = "APB_AXIFE_ACCESS",
    QueryCpuFrequency = "QUERY_CPU_FREQUENCY",
    SyncVideoMemory = "SYNC_VIDEO_MEMORY",
    CancelJob = "CANCEL_JOB",
}

/// A list of commands in the order of their numbers, from 0 up.
macro_rules! commands {
    ($($name:ident)*) => { [$(Command::$name,)*] };
}
use commands;

/// A list of facts about the core in the order in which QUERY_CHIP_IDENTITY tells them.
macro_rules! identity {
    ($($name:ident)*) => { [$(IdentityWord::$name,)*] };
}
use identity;

/// All generations. Of those that cannot be told apart the first is taken, unless something else
/// decides.
pub(crate) static LAYOUTS: [Layout; 16] = [
    v2::DOVE.checked(),
    v2::DOVE_OLD.checked(),
    v2::V2.checked(),
    v2::ARNOVA.checked(),
    v4::V4.checked(),
    v4::EUREKA.checked(),
    v4_6_9::V4_0_0.checked(),
    v4_6_9::V4_1_0.checked(),
    v4_6_9::V4_6_9.checked(),
    v5::P8.checked(),
    v5::P6.checked(),
    v6_2::V6_2_4_P2.checked(),
    v6_2::V6_2_4_P3.checked(),
    v6_2::V6_2_3.checked(),
    v6_2::V6_2_2.checked(),
    v6_4::V6_4_11.checked(),
];

impl Layout {
    /// The command of a number.
    #[inline]
    pub(crate) fn command(&self, number: u32) -> Command {
        // CAST: 32 bits into at least 32.
        match self.commands.get(number as usize) {
            Some(&command) => command,
            None => Command::Unknown,
        }
    }

    /// Bytes of a record that are read.
    pub(crate) fn record_bytes(&self) -> usize {
        self.queue.bytes.into()
    }

    /// Bytes of a `gcoCMDBUF` that are read: all that the driver looks at. 0: there is none.
    pub(crate) fn command_buffer_bytes(&self) -> usize {
        self.command_buffer.read_bytes()
    }

    /// Whether builds of this generation have interfaces of `bytes` bytes.
    pub(crate) fn has_size(&self, bytes: u64) -> bool {
        self.sizes.iter().any(|&size| u64::from(size) == bytes)
    }

    /// Whether this generation takes an interface of `input` bytes, answered in `output` bytes.
    pub(crate) fn takes(&self, input: u64, output: u64) -> bool {
        if input == output && self.has_size(input) {
            return true;
        }
        let shorter = u64::from(self.union_at)..=u64::from(self.sizes[0]);
        self.may_be_shorter && shorter.contains(&input) && shorter.contains(&output)
    }

    /// Itself. Used where the compiler evaluates it: it does not compile with a layout that is not
    /// sound.
    const fn checked(self) -> Self {
        assert!(self.is_sound());
        self
    }

    const fn is_sound(&self) -> bool {
        let mut at = 0;
        let mut smallest = u16::MAX;
        while at < self.sizes.len() {
            if self.sizes[at] as usize > MAX_INTERFACE_BYTES {
                return false;
            }
            if self.sizes[at] < smallest {
                smallest = self.sizes[at];
            }
            at += 1;
        }
        let room = smallest - self.union_at;
        let header = self.header.status.is_sound(self.union_at)
            && self.header.hardware_type.is_sound(self.union_at)
            && self.header.core_index.is_sound(self.union_at)
            && self.header.engine.is_sound(self.union_at)
            && self.header.handle.is_sound(self.union_at);
        let record = self.queue.next.is_sound(self.queue.command)
            && self.queue.command + 4 <= self.queue.union_at
            && self.queue.union_at as usize + RECORD_PAYLOAD_BYTES <= self.queue.bytes as usize
            && self.queue.bytes as usize <= MAX_RECORD_BYTES
            && self.signal.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.write_data.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.unlock.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.free_contiguous.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.free_non_paged.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.free_commands.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.unmap_user.bytes as usize <= RECORD_PAYLOAD_BYTES
            && self.timestamp.bytes as usize <= RECORD_PAYLOAD_BYTES;
        header
            && record
            && self.structures_are_sound()
            && (self.argument_bytes == 16 || self.argument_bytes == 32)
            && self.identity.words.len() * 4 <= self.identity.bytes as usize
            && self.identity.bytes <= room
            && self.commit.bytes <= room
            && match &self.vector {
                Some(vector) => vector.is_sound() && vector::COMMIT_BYTES <= room,
                None => true,
            }
            && self.database.bytes <= room
            && self.chip_info.bytes <= room
            && self.lock.bytes <= room
            && self.user_signal.bytes <= room
            && self.attach.bytes <= room
            && self.options.bytes <= room
            && self.chip_frequency.bytes <= room
            && self.allocate_commands.bytes <= room
            && self.free_commands.bytes <= room
            && self.cpu_frequency.bytes <= room
            && self.read_register.bytes <= room
            && self.write_register.bytes <= room
            && self.read_registers.bytes <= room
            && self.write_registers.bytes <= room
            && self.shared_info.bytes <= room
            && self.set_shared_info.bytes <= room
            && self.profiler_bytes as usize <= MAX_INTERFACE_BYTES
            && (self.debug.bytes == 0 || self.debug.message.is_sound(self.debug.bytes))
            && self.set_scale.bytes <= room
            && self.scale.bytes <= room
            && self.base_address.bytes <= room
            && self.command_buffer.read_bytes() <= MAX_COMMAND_BUFFER_BYTES
            && self.delta.bytes as usize <= MAX_DELTA_BYTES
            && self.location.bytes as usize <= MAX_LOCATION_BYTES
            && self.commit.next.end() <= MAX_SUB_COMMIT_BYTES
            && self.wrap.bytes <= room
            && self.export_node.bytes <= room
            && self.node_fd.bytes <= room
            && self.metadata.bytes <= room
            && self.graphic_buffer.bytes <= room
            && self.shared_buffer.bytes <= room
            && self.create_fence.bytes <= room
            && self.wait_fence.bytes <= room
            && self.wait_node.bytes <= room
            && self.context.bytes as usize <= MAX_CONTEXT_BYTES
    }
}

impl CommandBufferLayout {
    const fn read_bytes(&self) -> usize {
        let fields = [
            self.object,
            self.entry_pipe,
            self.logical,
            self.start_offset,
            self.offset,
            self.reserved_head,
            self.reserved_tail,
        ];
        let mut bytes = 0;
        let mut at = 0;
        while at < fields.len() {
            if fields[at].end() > bytes {
                bytes = fields[at].end();
            }
            at += 1;
        }
        bytes
    }
}
