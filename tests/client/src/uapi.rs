// SPDX-License-Identifier: GPL-2.0-only
//! The wire structures: the Rust counterpart of `include/uapi/linux/galcore-4.0.0.h`.
//!
//! Structures are values that are encoded to and decoded from bytes at explicit offsets. Their layout therefore does
//! not depend on a compiler, and memory is never reinterpreted. `tests/layout.rs` compares the offsets with the facts
//! that also verify the C header.

use std::fmt;

/// The request number of every command.
pub const IOCTL_INTERFACE: u32 = 30000;

/// Russell King's `IOC_GDMABUF_MAP`, in its first form, and `IOC_GMEMBUF_MAP`.
pub const IOC_GDMABUF_MAP: u32 = 0xc058_5f00;
/// See [`IOC_GDMABUF_MAP`].
pub const IOC_GDMABUF_MAP_OLD: u32 = 0xc014_5f00;
/// See [`IOC_GDMABUF_MAP`].
pub const IOC_GMEMBUF_MAP: u32 = 0xc060_5f01;
/// The kernel's internal entry point, which the driver refuses.
pub const IOCTL_KERNEL_INTERFACE: u32 = 30001;
/// Never implemented.
pub const IOCTL_TERMINATE: u32 = 30002;
/// Bytes of [`Interface`].
pub const INTERFACE_SIZE: usize = 168;
/// Offset of the union in [`Interface`].
pub const UNION_OFFSET: usize = 32;
/// Offset of the status in it.
pub const STATUS_OFFSET: usize = 8;
/// Bytes of an event queue record: the next record's address, then an interface.
pub const QUEUE_RECORD_SIZE: usize = 176;
/// Marks a [`CommandBufferRecord`]: "CMDB".
pub const OBJECT_COMMAND_BUFFER: u32 = 0x4244_4d43;
/// Bytes before a client's commands that the driver uses.
pub const RESERVED_HEAD: u32 = 32;
/// Bytes after a client's commands that the driver uses.
pub const RESERVED_TAIL: u32 = 8;

/// Parts of LOCK in generations that select them (`op`): a lock for the GPU, and a view for the processor.
pub const LOCK_PARTS: u64 = 1 | 2;

/// The same parts of UNLOCK.
pub const UNLOCK_PARTS: u64 = 4 | 8;
/// Selects the generation of the interface that a file uses: `_IOW('G', 1, char[16])`.
pub const IOCTL_SET_INTERFACE: u32 = 0x4010_4701;
/// Reads how resets of cores affected the process: `_IOR('G', 2, struct galcore_resets)`.
pub const IOCTL_RESETS: u32 = 0x8010_4702;
/// The version that [`Version`] returns.
pub const VERSION: (i32, i32, i32, u32) = (4, 6, 9, 1210);
/// Offset for mmap of the completion page.
pub const COMPLETION_OFFSET: u64 = 1 << 36;
/// [`UserSignal::wait`] without a time limit.
pub const INFINITE: u32 = 0xffff_ffff;

/// A value at a fixed offset in a wire structure.
pub trait Wire: Sized {
    /// Its size in bytes.
    const SIZE: usize;
    /// Reads it from the start of `bytes`.
    fn take(bytes: &[u8]) -> Self;
    /// Writes it to the start of `bytes`.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            const SIZE: usize = size_of::<$type>();
            fn take(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$type>()];
                word.copy_from_slice(&bytes[..Self::SIZE]);
                Self::from_ne_bytes(word)
            }
            fn put(&self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

integer!(u8, u32, i32, u64);

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const SIZE: usize = N * T::SIZE;
    fn take(bytes: &[u8]) -> Self {
        std::array::from_fn(|index| T::take(&bytes[index * T::SIZE..]))
    }
    fn put(&self, bytes: &mut [u8]) {
        for (index, value) in self.iter().enumerate() {
            value.put(&mut bytes[index * T::SIZE..]);
        }
    }
}

/// A member of the interface's union, or another structure that a client passes.
pub trait Structure: Wire {
    /// Its name in the C header; for union members the member's name.
    const NAME: &'static str;
    /// Name, offset and size of each field.
    const FIELDS: &'static [(&'static str, usize, usize)];
}

macro_rules! structure {
    ($($(#[$meta:meta])* $name:ident = $c_name:literal, $size:literal {
        $($(#[$field_meta:meta])* $offset:literal => $field:ident: $type:ty,)*
        $(; $($(#[$more_meta:meta])* $more:ident: $more_type:ty,)*)?
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            $($($(#[$more_meta])* pub $more: $more_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self::take(&[0; $size])
            }
        }

        impl Wire for $name {
            const SIZE: usize = $size;
            fn take(bytes: &[u8]) -> Self {
                Self {
                    $($field: <$type>::take(&bytes[$offset..]),)*
                    $($($more: Default::default(),)*)?
                }
            }
            fn put(&self, bytes: &mut [u8]) {
                $(self.$field.put(&mut bytes[$offset..]);)*
            }
        }

        impl Structure for $name {
            const NAME: &'static str = $c_name;
            const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), $offset, <$type as Wire>::SIZE),)*];
        }
    )*

        /// Every structure: name, size, fields.
        pub const STRUCTURES: &[(&str, usize, &[(&str, usize, usize)])] =
            &[$(($c_name, $size, $name::FIELDS),)*];
    };
}

structure! {
    /// GET_BASE_ADDRESS.
    GetBaseAddress = "GetBaseAddress", 4 {
        /// Out: physical address of GPU address 0.
        0 => base_address: u32,
    }
    /// QUERY_VIDEO_MEMORY.
    QueryVideoMemory = "QueryVideoMemory", 48 {
        /// Out: 0.
        0 => internal_physical: u32,
        /// Out: 0.
        8 => internal_size: u64,
        /// Out: 0.
        16 => external_physical: u32,
        /// Out: 0.
        24 => external_size: u64,
        /// Out: offset for mmap.
        32 => contiguous_physical: u32,
        /// Out: bytes of the SYSTEM pool, length for mmap.
        40 => contiguous_size: u64,
    }
    /// QUERY_CHIP_IDENTITY: all out.
    QueryChipIdentity = "QueryChipIdentity", 76 {
        /// Model: 0x600 is a GC600.
        0 => chip_model: u32,
        /// Revision of the model.
        4 => chip_revision: u32,
        /// Features: [`feature`].
        8 => chip_features: u32,
        /// Minor features, word 0.
        12 => chip_minor_features: u32,
        /// Minor features, word 1.
        16 => chip_minor_features1: u32,
        /// Minor features, word 2.
        20 => chip_minor_features2: u32,
        /// Minor features, word 3.
        24 => chip_minor_features3: u32,
        /// Vertex streams.
        28 => stream_count: u32,
        /// Temporary registers.
        32 => register_max: u32,
        /// Shader threads.
        36 => thread_count: u32,
        /// Shader cores.
        40 => shader_core_count: u32,
        /// Entries of the vertex cache.
        44 => vertex_cache_size: u32,
        /// Entries of the vertex output buffer.
        48 => vertex_output_buffer_size: u32,
        /// Pixel pipes.
        52 => pixel_pipes: u32,
        /// Instructions a shader may have.
        56 => instruction_count: u32,
        /// Shader constants.
        60 => num_constants: u32,
        /// Command buffer size of the core.
        64 => buffer_size: u32,
        /// Varyings.
        68 => varyings_count: u32,
        /// Order of tiles in a supertile; 0 = none.
        72 => super_tile_mode: u32,
    }
    /// MAP_MEMORY.
    MapMemory = "MapMemory", 24 {
        /// In: handle.
        0 => physical: u32,
        /// In: size.
        8 => bytes: u64,
        /// Out: address in the caller.
        16 => logical: u64,
    }
    /// UNMAP_MEMORY.
    UnmapMemory = "UnmapMemory", 24 {
        /// In: handle.
        0 => physical: u32,
        /// In: size.
        8 => bytes: u64,
        /// In: address in the caller.
        16 => logical: u64,
    }
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    AllocateLinearVideoMemory = "AllocateLinearVideoMemory", 24 {
        /// In: size.
        0 => bytes: u32,
        /// In: alignment of the start in the pool.
        4 => alignment: u32,
        /// In: [`surface`] type.
        8 => surface_type: u32,
        /// In: [`Pool`] to allocate from; out: the actual pool.
        12 => pool: u32,
        /// Out: handle.
        16 => node: u64,
    }
    /// ALLOCATE_VIDEO_MEMORY: not supported in this generation.
    AllocateVideoMemory = "AllocateVideoMemory", 32 {
        /// Pixels.
        0 => width: u32,
        /// Pixels.
        4 => height: u32,
        /// Slices.
        8 => depth: u32,
        /// Surface format.
        12 => format: u32,
        /// [`surface`] type.
        16 => surface_type: u32,
        /// [`Pool`].
        20 => pool: u32,
        /// Handle.
        24 => node: u64,
    }
    /// FREE_VIDEO_MEMORY, also in queues.
    FreeVideoMemory = "FreeVideoMemory", 8 {
        /// In: handle.
        0 => node: u64,
    }
    /// LOCK_VIDEO_MEMORY.
    LockVideoMemory = "LockVideoMemory", 24 {
        /// In: handle.
        0 => node: u64,
        /// In: boolean.
        8 => cacheable: i32,
        /// Out: GPU address.
        12 => address: u32,
        /// Out: address in the caller.
        16 => memory: u64,
    }
    /// UNLOCK_VIDEO_MEMORY, also in queues.
    UnlockVideoMemory = "UnlockVideoMemory", 16 {
        /// In: handle.
        0 => node: u64,
        /// In: [`surface`] type.
        8 => surface_type: u32,
        /// Out: boolean: a second half must follow in a queue.
        12 => asynchroneous: i32,
    }
    /// ALLOCATE_NON_PAGED_MEMORY.
    AllocateNonPagedMemory = "AllocateNonPagedMemory", 24 {
        /// In: size; out: rounded up to pages.
        0 => bytes: u64,
        /// Out: handle.
        8 => physical: u32,
        /// Out: address in the caller.
        16 => logical: u64,
    }
    /// FREE_NON_PAGED_MEMORY, also in queues.
    FreeNonPagedMemory = "FreeNonPagedMemory", 24 {
        /// In: not 0.
        0 => bytes: u64,
        /// In: handle.
        8 => physical: u32,
        /// In: not 0.
        16 => logical: u64,
    }
    /// ALLOCATE_VIRTUAL_COMMAND_BUFFER.
    AllocateVirtualCommandBuffer = "AllocateVirtualCommandBuffer", 24 {
        /// In: size.
        0 => bytes: u64,
        /// Out: handle.
        8 => physical: u32,
        /// Out: address in the caller.
        16 => logical: u64,
    }
    /// FREE_VIRTUAL_COMMAND_BUFFER.
    FreeVirtualCommandBuffer = "FreeVirtualCommandBuffer", 24 {
        /// In: size.
        0 => bytes: u64,
        /// In: handle.
        8 => physical: u32,
        /// In: address in the caller.
        16 => logical: u64,
    }
    /// ALLOCATE_CONTIGUOUS_MEMORY.
    AllocateContiguousMemory = "AllocateContiguousMemory", 24 {
        /// In: size; out: rounded up to pages.
        0 => bytes: u64,
        /// Out: GPU address.
        8 => address: u32,
        /// Out: handle.
        12 => physical: u32,
        /// Out: address in the caller.
        16 => logical: u64,
    }
    /// FREE_CONTIGUOUS_MEMORY, also in queues.
    FreeContiguousMemory = "FreeContiguousMemory", 24 {
        /// In: not 0.
        0 => bytes: u64,
        /// In: handle.
        8 => physical: u32,
        /// In: not 0.
        16 => logical: u64,
    }
    /// EVENT_COMMIT.
    Event = "Event", 8 {
        /// In: address of the first record, or 0.
        0 => queue: u64,
    }
    /// COMMIT.
    Commit = "Commit", 32 {
        /// In: context of ATTACH, or 0.
        0 => context: u64,
        /// In: address of a [`CommandBufferRecord`].
        8 => command_buffer: u64,
        /// In: address of a state delta, or 0.
        16 => delta: u64,
        /// In: address of the first record, or 0.
        24 => queue: u64,
    }
    /// MAP_USER_MEMORY.
    MapUserMemory = "MapUserMemory", 32 {
        /// In: address in the caller.
        0 => memory: u64,
        /// In: 0xffffffff.
        8 => physical: u32,
        /// In: bytes.
        16 => size: u64,
        /// Out: handle.
        24 => info: u32,
        /// Out: GPU address.
        28 => address: u32,
    }
    /// UNMAP_USER_MEMORY, also in queues.
    UnmapUserMemory = "UnmapUserMemory", 24 {
        /// In: as given to MAP.
        0 => memory: u64,
        /// In: as given to MAP.
        8 => size: u64,
        /// In: handle.
        16 => info: u32,
        /// In: GPU address.
        20 => address: u32,
    }
    /// USER_SIGNAL.
    UserSignal = "UserSignal", 20 {
        /// In: sub-command, [`signal`].
        0 => command: u32,
        /// Out of CREATE, in of all others.
        4 => id: i32,
        /// In of CREATE: boolean.
        8 => manual_reset: i32,
        /// In of WAIT: milliseconds or [`INFINITE`].
        12 => wait: u32,
        /// In of SIGNAL: boolean.
        16 => state: i32,
    }
    /// SIGNAL, in queues only.
    Signal = "Signal", 32 {
        /// Id of the signal.
        0 => signal: u64,
        /// 0.
        8 => aux_signal: u64,
        /// The caller's process id.
        16 => process: u64,
        /// A hint: 4 = pixel.
        24 => from_where: u32,
    }
    /// WRITE_DATA, in queues only.
    WriteData = "WriteData", 8 {
        /// GPU address of a word in the caller's memory.
        0 => address: u32,
        /// Word.
        4 => data: u32,
    }
    /// READ_REGISTER.
    ReadRegisterData = "ReadRegisterData", 8 {
        /// In: byte offset.
        0 => address: u32,
        /// Out: word.
        4 => data: u32,
    }
    /// WRITE_REGISTER.
    WriteRegisterData = "WriteRegisterData", 8 {
        /// In: byte offset.
        0 => address: u32,
        /// In: word.
        4 => data: u32,
    }
    /// SET_POWER_MANAGEMENT_STATE.
    SetPowerManagement = "SetPowerManagement", 4 {
        /// In: power state.
        0 => state: u32,
    }
    /// QUERY_POWER_MANAGEMENT_STATE.
    QueryPowerManagement = "QueryPowerManagement", 8 {
        /// Out: power state.
        0 => state: u32,
        /// Out: boolean.
        4 => is_idle: i32,
    }
    /// CACHE.
    Cache = "Cache", 40 {
        /// In: [`cache`].
        0 => operation: u32,
        /// Not used.
        8 => process: u64,
        /// In: address in the caller.
        16 => logical: u64,
        /// In: bytes.
        24 => bytes: u64,
        /// In: handle; 0: foreign memory.
        32 => node: u64,
    }
    /// TIMESTAMP, also in queues.
    TimeStamp = "TimeStamp", 12 {
        /// In: 0 to 7.
        0 => timer: u32,
        /// In: [`timestamp`]: 2; in a queue 0 or 1.
        4 => request: u32,
        /// Out: microseconds.
        8 => time_delta: i32,
    }
    /// QUERY_KERNEL_SETTINGS.
    QueryKernelSettings = "QueryKernelSettings", 4 {
        /// Out: the module parameter `signal`.
        0 => signal: i32,
    }
    /// VERSION: all out.
    Version = "Version", 16 {
        /// 4.
        0 => major: i32,
        /// 6.
        4 => minor: i32,
        /// 9.
        8 => patch: i32,
        /// 1210.
        12 => build: u32,
    }
    /// CHIP_INFO: all out.
    ChipInfo = "ChipInfo", 16 {
        /// Cores.
        0 => count: i32,
        /// [`hardware`] type of each.
        4 => types: [u32; 3],
    }
    /// ATTACH: all out.
    Attach = "Attach", 16 {
        /// Handle for COMMIT.
        0 => context: u32,
        /// Word states that a context covers.
        8 => state_count: u64,
    }
    /// DETACH.
    Detach = "Detach", 4 {
        /// In: handle.
        0 => context: u32,
    }
    /// gcoCMDBUF: commands to run.
    CommandBufferRecord = "gcoCMDBUF", 72 {
        /// [`OBJECT_COMMAND_BUFFER`].
        0 => object: u32,
        /// Pipe selected at the start of the commands: 0 = 3D, 1 = 2D.
        4 => entry_pipe: i32,
        /// Pipe selected at their end.
        8 => exit_pipe: i32,
        /// Used only by the client.
        12 => using_2d: i32,
        /// Used only by the client.
        16 => using_3d: i32,
        /// Used only by the client.
        20 => using_filter_blit: i32,
        /// Used only by the client.
        24 => using_palette: i32,
        /// Handle of that memory; used only by the client. In 6.4.11 it is the handle of a node, by which the
        /// vendor's driver finds the commands.
        28 => physical: u32,
        /// Address of the memory with the commands.
        32 => logical: u64,
        /// Size of that memory.
        40 => bytes: u32,
        /// Start of the reserved head.
        44 => start_offset: u32,
        /// End of the commands, start of the reserved tail.
        48 => offset: u32,
        /// Used only by the client.
        52 => free: u32,
        /// Used only by the client.
        56 => last_reserve: u64,
        /// Used only by the client.
        64 => last_offset: u32,
        ;
        /// GPU address of that memory. Clients of 6.4.11 set it, as the vendor's GPU executes the commands in place.
        address: u32,
    }
}

/// One request and its answer: 168 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Interface {
    bytes: [u8; INTERFACE_SIZE],
}

impl Interface {
    /// A request of `command`; all other bytes are 0.
    pub fn new(command: Command) -> Self {
        let mut interface = Self {
            bytes: [0; INTERFACE_SIZE],
        };
        command.0.put(&mut interface.bytes);
        interface
    }

    /// A request of `command` with its union member.
    pub fn with<T: Structure>(command: Command, payload: &T) -> Self {
        let mut interface = Self::new(command);
        interface.set(payload);
        interface
    }

    /// A request or an answer, from its bytes.
    ///
    /// # Panics
    ///
    /// If the number of bytes is not that of an interface.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut interface = Self {
            bytes: [0; INTERFACE_SIZE],
        };
        interface.bytes.copy_from_slice(bytes);
        interface
    }

    /// The member of the union.
    pub fn get<T: Structure>(&self) -> T {
        T::take(&self.bytes[UNION_OFFSET..])
    }

    /// Replaces the member of the union.
    pub fn set<T: Structure>(&mut self, payload: &T) {
        payload.put(&mut self.bytes[UNION_OFFSET..]);
    }

    /// The command number.
    pub fn command(&self) -> Command {
        Command(u32::take(&self.bytes))
    }

    /// Selects the core by its [`hardware`] type.
    pub fn set_hardware_type(&mut self, value: u32) {
        value.put(&mut self.bytes[4..]);
    }

    /// The [`hardware`] type of the core.
    pub fn hardware_type(&self) -> u32 {
        u32::take(&self.bytes[4..])
    }

    /// The answer's status.
    pub fn status(&self) -> Status {
        Status(i32::take(&self.bytes[STATUS_OFFSET..]))
    }

    /// The handle in the header: the number of a submission, if the driver returns it.
    pub fn handle(&self) -> u64 {
        u64::take(&self.bytes[16..])
    }

    /// Presets the handle.
    pub fn set_handle(&mut self, handle: u64) {
        handle.put(&mut self.bytes[16..]);
    }

    /// Presets the status (the driver overwrites it).
    pub fn set_status(&mut self, status: Status) {
        status.0.put(&mut self.bytes[STATUS_OFFSET..]);
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8; INTERFACE_SIZE] {
        &self.bytes
    }

    /// All bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8; INTERFACE_SIZE] {
        &mut self.bytes
    }
}

macro_rules! named {
    ($(#[$meta:meta])* $type:ident($inner:ty) { $($name:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub $inner);

        impl $type {
            $(#[doc = concat!("Number ", stringify!($value), ".")] pub const $name: $type = $type($value);)*

            /// Every known value and its name.
            pub const ALL: &'static [($type, &'static str)] = &[$(($type::$name, stringify!($name)),)*];

            /// The name of the value, if it has one.
            pub fn name(self) -> Option<&'static str> {
                Self::ALL.iter().find(|(value, _)| *value == self).map(|(_, name)| *name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name} ({})", self.0),
                    None => write!(f, "{} {}", stringify!($type), self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

named! {
    /// A command number.
    Command(u32) {
        QUERY_VIDEO_MEMORY = 0,
        QUERY_CHIP_IDENTITY = 1,
        ALLOCATE_NON_PAGED_MEMORY = 2,
        FREE_NON_PAGED_MEMORY = 3,
        ALLOCATE_CONTIGUOUS_MEMORY = 4,
        FREE_CONTIGUOUS_MEMORY = 5,
        ALLOCATE_VIDEO_MEMORY = 6,
        ALLOCATE_LINEAR_VIDEO_MEMORY = 7,
        FREE_VIDEO_MEMORY = 8,
        MAP_MEMORY = 9,
        UNMAP_MEMORY = 10,
        MAP_USER_MEMORY = 11,
        UNMAP_USER_MEMORY = 12,
        LOCK_VIDEO_MEMORY = 13,
        UNLOCK_VIDEO_MEMORY = 14,
        EVENT_COMMIT = 15,
        USER_SIGNAL = 16,
        SIGNAL = 17,
        WRITE_DATA = 18,
        COMMIT = 19,
        STALL = 20,
        READ_REGISTER = 21,
        WRITE_REGISTER = 22,
        GET_PROFILE_SETTING = 23,
        SET_PROFILE_SETTING = 24,
        READ_ALL_PROFILE_REGISTERS = 25,
        PROFILE_REGISTERS_2D = 26,
        SET_POWER_MANAGEMENT_STATE = 27,
        QUERY_POWER_MANAGEMENT_STATE = 28,
        GET_BASE_ADDRESS = 29,
        SET_IDLE = 30,
        QUERY_KERNEL_SETTINGS = 31,
        RESET = 32,
        MAP_PHYSICAL = 33,
        DEBUG = 34,
        CACHE = 35,
        TIMESTAMP = 36,
        DATABASE = 37,
        VERSION = 38,
        CHIP_INFO = 39,
        ATTACH = 40,
        DETACH = 41,
        COMPOSE = 42,
        SET_TIMEOUT = 43,
        GET_FRAME_INFO = 44,
        GET_SHARED_INFO = 45,
        SET_SHARED_INFO = 46,
        QUERY_COMMAND_BUFFER = 47,
        COMMIT_DONE = 48,
        DUMP_GPU_STATE = 49,
        DUMP_EVENT = 50,
        ALLOCATE_VIRTUAL_COMMAND_BUFFER = 51,
        FREE_VIRTUAL_COMMAND_BUFFER = 52,
        SET_FSCALE_VALUE = 53,
        GET_FSCALE_VALUE = 54,
        QUERY_RESET_TIME_STAMP = 55,
    }
}

named! {
    /// A command's result: 0, or negative.
    Status(i32) {
        OK = 0,
        TRUE = 1,
        CHIP_NOT_READY = 11,
        INVALID_ARGUMENT = -1,
        INVALID_OBJECT = -2,
        OUT_OF_MEMORY = -3,
        MEMORY_LOCKED = -4,
        MEMORY_UNLOCKED = -5,
        HEAP_CORRUPTED = -6,
        GENERIC_IO = -7,
        INVALID_ADDRESS = -8,
        CONTEXT_LOSSED = -9,
        TOO_COMPLEX = -10,
        BUFFER_TOO_SMALL = -11,
        INTERFACE_ERROR = -12,
        NOT_SUPPORTED = -13,
        MORE_DATA = -14,
        TIMEOUT = -15,
        OUT_OF_RESOURCES = -16,
        INVALID_DATA = -17,
        INVALID_MIPMAP = -18,
        NOT_FOUND = -19,
        NOT_ALIGNED = -20,
        INVALID_REQUEST = -21,
        GPU_NOT_RESPONDING = -22,
        TIMER_OVERFLOW = -23,
        VERSION_MISMATCH = -24,
        LOCKED = -25,
        INTERRUPTED = -26,
        DEVICE = -27,
    }
}

named! {
    /// The pool of an allocation.
    Pool(u32) {
        UNKNOWN = 0,
        DEFAULT = 1,
        LOCAL = 2,
        LOCAL_INTERNAL = 3,
        LOCAL_EXTERNAL = 4,
        UNIFIED = 5,
        SYSTEM = 6,
        VIRTUAL = 7,
        USER = 8,
        CONTIGUOUS = 9,
        DEFAULT_FORCE_CONTIGUOUS = 10,
        DEFAULT_FORCE_CONTIGUOUS_CACHEABLE = 11,
    }
}

/// Surface types.
pub mod surface {
    /// Unknown.
    pub const UNKNOWN: u32 = 0;
    /// Index buffer.
    pub const INDEX: u32 = 1;
    /// Vertex buffer.
    pub const VERTEX: u32 = 2;
    /// Texture.
    pub const TEXTURE: u32 = 3;
    /// Render target.
    pub const RENDER_TARGET: u32 = 4;
    /// Depth buffer.
    pub const DEPTH: u32 = 5;
    /// Bitmap.
    pub const BITMAP: u32 = 6;
    /// Tile status.
    pub const TILE_STATUS: u32 = 7;
    /// Flag: no tile status. Any flag keeps a surface out of the SYSTEM pool.
    pub const NO_TILE_STATUS: u32 = 0x100;
    /// Flag: do not allocate from video memory.
    pub const NO_VIDMEM: u32 = 0x200;
}

/// Hardware types.
pub mod hardware {
    /// A 3D core.
    pub const TYPE_3D: u32 = 1;
    /// A 2D core.
    pub const TYPE_2D: u32 = 2;
    /// Both engines in one core.
    pub const TYPE_3D2D: u32 = 3;
}

/// Bits of [`QueryChipIdentity::chip_features`].
pub mod feature {
    /// The core has a 3D pipe.
    pub const PIPE_3D: u32 = 1 << 2;
    /// The core has a 2D pipe.
    pub const PIPE_2D: u32 = 1 << 9;
    /// The core has a vector graphics pipe.
    pub const PIPE_VG: u32 = 1 << 26;
}

/// [`Cache::operation`].
pub mod cache {
    /// Writes the processor's cached data to memory.
    pub const CLEAN: u32 = 1;
    /// Makes the GPU's writes visible to the processor.
    pub const INVALIDATE: u32 = 2;
    /// Same as CLEAN.
    pub const FLUSH: u32 = 3;
    /// Only a barrier.
    pub const MEMORY_BARRIER: u32 = 4;
}

/// [`TimeStamp::request`].
pub mod timestamp {
    /// In a queue: stops the timer.
    pub const STOP: u32 = 0;
    /// In a queue: starts the timer.
    pub const START: u32 = 1;
    /// Not in a queue: returns the time between start and stop.
    pub const QUERY: u32 = 2;
}

/// Sub-commands of USER_SIGNAL.
pub mod signal {
    /// Makes a signal.
    pub const CREATE: u32 = 0;
    /// Drops a reference.
    pub const DESTROY: u32 = 1;
    /// Sets or resets a signal.
    pub const SIGNAL: u32 = 2;
    /// Waits for a signal.
    pub const WAIT: u32 = 3;
    /// Takes a reference.
    pub const MAP: u32 = 4;
    /// Same as DESTROY.
    pub const UNMAP: u32 = 5;
}
