// SPDX-License-Identifier: GPL-2.0-only

//! Replies to commands, in the terms of [`Request`], and the memory accounts of DATABASE.

use super::*;
use crate::{
    prelude::*,
    sys::file::NewFile, //
};

/// The reply to a command. Large parts are boxed, to keep it small.
///
/// `repr` keeps the tag out of 64-bit fields, where 32-bit machines need several instructions.
#[derive(Debug)]
#[repr(u32)]
pub(crate) enum Reply<'a> {
    /// Only the status.
    Nothing,
    /// QUERY_VIDEO_MEMORY.
    VideoMemory {
        /// Bytes of the pool.
        pool_bytes: u64,
    },
    /// QUERY_CHIP_IDENTITY, and 32 or 64: the bits of the program.
    ChipIdentity(&'a IdentityWords, u8),
    /// QUERY_KERNEL_SETTINGS.
    KernelSettings {
        /// Realtime signal number.
        signal: i32,
    },
    /// GET_BASE_ADDRESS.
    BaseAddress(u32),
    /// GET_MMU_VERSION: 0 is version 1.
    MmuVersion(u32),
    /// VERSION.
    Version {
        /// The parameter `version`; `None`: the version of the generation.
        claim: Option<[u32; 4]>,
    },
    /// CHIP_INFO: the cores, in this order.
    ChipInfo([Option<HardwareType>; MAX_CORES]),
    /// QUERY_CHIP_OPTION.
    ChipOptions {
        /// The profiler is available.
        profiler: bool,
        /// Clients may use fast clear.
        fast_clear: bool,
        /// Clients may use compression.
        compression: bool,
        /// Cores may be switched off.
        power: bool,
        /// The number of shader cores.
        shaders: u32,
        /// The number of neural cores.
        neural_cores: u32,
        /// There is a pool.
        pool: bool,
        /// `USC_CONTROL.L1_CACHE_RATIO`, as contexts load it.
        l1_cache: u32,
    },
    /// ALLOCATE_CONTIGUOUS_MEMORY and ALLOCATE_NON_PAGED_MEMORY.
    Buffer {
        bytes: u64,
        address: u32,
        handle: u32,
        user: u64,
    },
    /// MAP_MEMORY.
    Mapped { user: u64 },
    /// MAP_USER_MEMORY.
    UserMemory { info: u32, address: u32 },
    /// QUERY_CHIP_FREQUENCY, in Hz; 0: unknown.
    Frequency {
        core: u32,
        /// The shader clock.
        shader: u32,
    },
    /// QUERY_CPU_FREQUENCY: unknown.
    CpuFrequency,
    /// GET_FSCALE_VALUE, in 64ths of the clock.
    Scale { scale: u32 },
    /// GET_PROFILE_SETTING.
    ProfileSetting {
        enable: bool,
        /// The name of the file; `None`: not set.
        name: Option<KBox<Text>>,
    },
    /// READ_ALL_PROFILE_REGISTERS and its partial variants.
    Counters(KBox<Cells>),
    /// READ_REGISTER.
    Register(u32),
    /// READ_REGISTER_EX, for the selected cores.
    Registers([Option<u32>; EX_CORES]),
    /// READ_REGISTER of a core that is off: reads 0, with the status for a core that is not ready.
    Off,
    /// READ_REGISTER_EX with at least one core off: reads 0 for all cores.
    AllOff,
    /// QUERY_POWER_MANAGEMENT_STATE.
    Power {
        state: PowerState,
        /// The core has no work.
        is_idle: bool,
    },
    /// CONFIG_POWER_MANAGEMENT.
    ConfigPower {
        /// Whether the core could be switched off before.
        old: bool,
    },
    /// TIMESTAMP.
    TimeDelta { microseconds: i32 },
    /// DATABASE.
    Database(KBox<ProcessLedgers>),
    /// EVENT_COMMIT of a process with a completion page.
    Submitted {
        /// The number of the job, from 1 up.
        number: u64,
    },
    /// QUERY_COMMAND_BUFFER.
    CommandBuffer,
    /// COMMIT.
    Committed {
        /// The number of the job, from 1 up, for a process with a completion page.
        counted: Option<u64>,
        /// The number of the job on the core, from 1 up.
        stamp: u64,
        /// The core had to load the context.
        switched: bool,
    },
    /// QUERY_RESET_TIME_STAMP.
    Resets {
        /// The number of resets of the core after a hang.
        count: u64,
    },
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    Node {
        node: u32,
        /// Its pool (`gcePOOL`).
        pool: u32,
        bytes: u64,
    },
    /// ALLOCATE_VIDEO_MEMORY.
    Surface {
        /// Pixels, as aligned.
        width: u32,
        /// Rows, as aligned.
        height: u32,
        /// Its pool (`gcePOOL`).
        pool: u32,
        node: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Locked {
        /// GPU address; `None`: the request was for a view only.
        address: Option<u32>,
        /// Physical address of contiguous memory; 0: not contiguous.
        physical: u32,
        /// User address; `None`: the request was for a lock only.
        user: Option<u64>,
    },
    /// NAME_VIDEO_MEMORY: the name.
    Name(u32),
    /// IMPORT_VIDEO_MEMORY.
    Imported { node: u32 },
    /// WRAP_USER_MEMORY.
    Wrapped { node: u32, bytes: u64 },
    /// EXPORT_VIDEO_MEMORY, GET_VIDEO_MEMORY_FD, GET_GRAPHIC_BUFFER_FD and CREATE_NATIVE_FENCE: a
    /// file to install once the reply has been copied to the caller.
    File(NewFile),
    /// The metadata of a node.
    Metadata(NodeMetadata),
    /// SHBUF's CREATE.
    SharedBuffer { id: u32 },
    /// SHBUF's READ.
    Copied {
        /// Bytes copied; `None`: the buffer has not been written yet.
        bytes: Option<u32>,
    },
    /// UNLOCK_VIDEO_MEMORY that ends the lock.
    Unlocked {
        /// An UNLOCK record must follow in an event queue.
        asynchronous: bool,
        /// Its pool (`gcePOOL`).
        pool: u32,
        bytes: u64,
    },
    /// UNLOCK_VIDEO_MEMORY that ends the view only.
    Unmapped,
    /// USER_SIGNAL's CREATE.
    Signal { id: u32 },
    /// ATTACH.
    Context {
        context: u32,
        /// The highest state of the context, plus 1.
        state_count: u64,
    },
}

impl Reply<'_> {
    /// The value for the interface's `status` field.
    pub(crate) fn status(&self) -> u32 {
        match self {
            Reply::Copied { bytes: None } => STATUS_SKIP,
            Reply::Off | Reply::AllOff => STATUS_CHIP_NOT_READY,
            _ => 0,
        }
    }
}

/// `gcvSTATUS_SKIP`.
const STATUS_SKIP: u32 = 13;

/// `gcvSTATUS_CHIP_NOT_READY`.
const STATUS_CHIP_NOT_READY: u32 = 11;

/// The most nodes of a graphic buffer.
pub(crate) const GRAPHIC_BUFFER_NODES: usize = 3;

/// A node's metadata, by which clients exchange its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    /// Descriptor of the tile status's dma-buf in the process that set it; negative: none.
    pub(crate) status: i32,
    /// Fast clear: enabled, value (64 bits). Compression: enabled, format.
    pub(crate) words: [u32; Self::WORDS],
}

impl NodeMetadata {
    /// Words besides the descriptor.
    pub(crate) const WORDS: usize = 5;
    /// No tile status.
    pub(crate) const NO_STATUS: i32 = -1;
}

/// The most cores of READ_REGISTER_EX and WRITE_REGISTER_EX.
pub(crate) const EX_CORES: usize = 4;

/// An account of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Bytes allocated now.
    pub(crate) bytes: u64,
    /// The maximum of `bytes`.
    pub(crate) max: u64,
    /// The sum of all allocations.
    pub(crate) total: u64,
    /// The number of allocations; wraps.
    pub(crate) given: u32,
    /// The number of frees; wraps.
    pub(crate) returned: u32,
}

impl Ledger {
    /// Adds an allocation.
    pub(crate) fn add(&mut self, bytes: usize) {
        let bytes = usize_as_u64(bytes);
        // In practice, 64 bits do not wrap.
        self.bytes = self.bytes.wrapping_add(bytes);
        self.max = self.max.max(self.bytes);
        self.total = self.total.wrapping_add(bytes);
        self.given = self.given.wrapping_add(1);
    }

    /// Subtracts a freed allocation.
    pub(crate) fn remove(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(usize_as_u64(bytes));
        self.returned = self.returned.wrapping_add(1);
    }
}

/// The memory accounts of a process (DATABASE).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessLedgers {
    /// Nodes of video memory.
    pub(crate) video: Ledger,
    /// Buffers of ALLOCATE_NON_PAGED_MEMORY.
    pub(crate) non_paged: Ledger,
    /// Buffers of ALLOCATE_CONTIGUOUS_MEMORY.
    pub(crate) contiguous: Ledger,
    /// Contiguous nodes: those in the pool, and in contiguous pages.
    pub(crate) in_one_piece: Ledger,
    /// Nodes in the pool.
    pub(crate) pool: Ledger,
    /// Nodes in contiguous pages.
    pub(crate) contiguous_pages: Ledger,
    /// Nodes in scattered pages.
    pub(crate) scattered: Ledger,
    /// Nodes in contiguous or scattered pages.
    pub(crate) paged: Ledger,
}

#[kernel::macros::kunit_tests(galcore_ledger)]
mod tests {
    use super::*;

    #[test]
    fn max_and_total_never_decrease() {
        let mut ledger = Ledger::default();
        ledger.add(100);
        ledger.remove(60);
        ledger.add(10);
        assert_eq!((ledger.bytes, ledger.max, ledger.total), (50, 100, 110));
        assert_eq!((ledger.given, ledger.returned), (2, 1));
        ledger.remove(1000);
        assert_eq!(ledger.bytes, 0);
    }
}
