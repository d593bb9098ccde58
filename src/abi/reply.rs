// SPDX-License-Identifier: GPL-2.0-only

//! What a command gives back, in the terms of [`Request`], and how much a process has, which
//! DATABASE tells.

use super::*;
use crate::{
    limits::MAX_CORES,
    sys::file::NewFile, //
};
use kernel::prelude::*;

/// What a command gives back.
///
/// Small: what is large is somewhere else.
///
/// Its tag is its own: inside of a 64-bit field it takes 32-bit machines several instructions.
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
    /// QUERY_CHIP_IDENTITY, of a program of 32 bits or 64.
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
        /// What the parameter `version` says; `None`: that of the generation.
        claim: Option<[u32; 4]>,
    },
    /// CHIP_INFO: the cores that there are, in this order.
    ChipInfo([Option<HardwareType>; MAX_CORES]),
    /// QUERY_CHIP_OPTION.
    ChipOptions {
        /// There is a profiler.
        profiler: bool,
        /// Fast clear may be used.
        fast_clear: bool,
        /// Compression may be used.
        compression: bool,
        /// Cores may go off.
        power: bool,
        /// Shader cores.
        shaders: u32,
        /// Neural cores.
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
    /// QUERY_CHIP_FREQUENCY: in Hz; 0: not known.
    Frequency {
        core: u32,
        /// The shaders'.
        shader: u32,
    },
    /// QUERY_CPU_FREQUENCY: not known.
    CpuFrequency,
    /// GET_FSCALE_VALUE: in 64ths of the clock.
    Scale { scale: u32 },
    /// GET_PROFILE_SETTING.
    ProfileSetting {
        enable: bool,
        /// The name of a file; `None`: nobody has set one.
        name: Option<KBox<Text>>,
    },
    /// READ_ALL_PROFILE_REGISTERS and its parts.
    Counters(KBox<Cells>),
    /// READ_REGISTER.
    Register(u32),
    /// READ_REGISTER_EX: of the cores that were asked for.
    Registers([Option<u32>; EX_CORES]),
    /// The core is off: a register of it is 0, and the core not ready.
    Off,
    /// The same for READ_REGISTER_EX, of which core ever.
    AllOff,
    /// QUERY_POWER_MANAGEMENT_STATE.
    Power {
        state: PowerState,
        /// Nothing is under way.
        is_idle: bool,
    },
    /// CONFIG_POWER_MANAGEMENT.
    ConfigPower {
        /// Whether the core might go off before.
        old: bool,
    },
    /// TIMESTAMP.
    TimeDelta { microseconds: i32 },
    /// DATABASE: video memory, non-paged, contiguous.
    Database(KBox<ProcessLedgers>),
    /// EVENT_COMMIT of a process with a completion page.
    Submitted {
        /// Its number, from 1 up.
        number: u64,
    },
    /// QUERY_COMMAND_BUFFER.
    CommandBuffer,
    /// COMMIT.
    Committed {
        /// Its number, from 1 up, in a process with a completion page.
        counted: Option<u64>,
        /// The core's number of it, from 1 up.
        stamp: u64,
        /// The context has been loaded for it.
        switched: bool,
    },
    /// QUERY_RESET_TIME_STAMP.
    Resets {
        /// How often the core has been reset because it hung.
        count: u64,
    },
    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    Node {
        node: u32,
        /// `gcePOOL` where it lies.
        pool: u32,
        bytes: u64,
    },
    /// ALLOCATE_VIDEO_MEMORY.
    Surface {
        /// Pixels, as aligned.
        width: u32,
        /// Rows, as aligned.
        height: u32,
        /// `gcePOOL` where it lies.
        pool: u32,
        node: u32,
    },
    /// LOCK_VIDEO_MEMORY.
    Locked {
        /// GPU address; `None`: no lock was asked for.
        address: Option<u32>,
        /// Physical address of memory in one piece; 0: of other memory.
        physical: u32,
        /// User address; `None`: no view was asked for.
        user: Option<u64>,
    },
    /// NAME_VIDEO_MEMORY: the name.
    Name(u32),
    /// IMPORT_VIDEO_MEMORY.
    Imported { node: u32 },
    /// WRAP_USER_MEMORY.
    Wrapped { node: u32, bytes: u64 },
    /// EXPORT_VIDEO_MEMORY, GET_VIDEO_MEMORY_FD and CREATE_NATIVE_FENCE: to be installed when the
    /// caller has been told.
    File(NewFile),
    /// What is known of a node.
    Metadata(NodeMetadata),
    /// SHBUF's CREATE.
    SharedBuffer { id: u32 },
    /// SHBUF's READ.
    Copied {
        /// Bytes; `None`: nobody has written yet.
        bytes: Option<u32>,
    },
    /// UNLOCK_VIDEO_MEMORY of the lock.
    Unlocked {
        /// An UNLOCK record must follow in an event queue.
        asynchronous: bool,
        /// `gcePOOL` where it lies.
        pool: u32,
        bytes: u64,
    },
    /// UNLOCK_VIDEO_MEMORY of the view alone.
    Unmapped,
    /// USER_SIGNAL's CREATE.
    Signal { id: u32 },
    /// ATTACH.
    Context {
        context: u32,
        /// Highest state that the context covers, plus 1.
        state_count: u64,
    },
}

impl Reply<'_> {
    /// The value for the interface's `status` field: success, or that there was nothing to do.
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

/// What clients tell each other of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    /// A descriptor of its tile status' dma-buf, of the process that has told it; less than 0:
    /// none.
    pub(crate) status: i32,
    /// Whether it is cleared fast, by what value (64 bits), whether it is compressed, and how.
    pub(crate) words: [u32; Self::WORDS],
}

impl NodeMetadata {
    /// How many words there are beside the descriptor.
    pub(crate) const WORDS: usize = 5;
    /// It has no tile status.
    pub(crate) const NO_STATUS: i32 = -1;
}

/// Cores that READ_REGISTER_EX and WRITE_REGISTER_EX have room for.
pub(crate) const EX_CORES: usize = 4;

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Now.
    pub(crate) bytes: u64,
    /// The most at one time.
    pub(crate) max: u64,
    /// All that was ever given out.
    pub(crate) total: u64,
    /// How often some were given out; comes round.
    pub(crate) given: u32,
    /// How often some were given back; comes round.
    pub(crate) returned: u32,
}

impl Ledger {
    /// Notes bytes given out.
    pub(crate) fn add(&mut self, bytes: usize) {
        // CAST: at most 64 bits.
        let bytes = bytes as u64;
        // 64 bits of bytes do not come round.
        self.bytes = self.bytes.wrapping_add(bytes);
        self.max = self.max.max(self.bytes);
        self.total = self.total.wrapping_add(bytes);
        self.given = self.given.wrapping_add(1);
    }

    /// Notes bytes given back.
    pub(crate) fn remove(&mut self, bytes: usize) {
        // CAST: at most 64 bits.
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        self.returned = self.returned.wrapping_add(1);
    }
}

/// What DATABASE tells of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessLedgers {
    /// Nodes of video memory.
    pub(crate) video: Ledger,
    /// Buffers of ALLOCATE_NON_PAGED_MEMORY.
    pub(crate) non_paged: Ledger,
    /// Buffers of ALLOCATE_CONTIGUOUS_MEMORY.
    pub(crate) contiguous: Ledger,
    /// Nodes that lie in one piece: those in the pool, and in contiguous pages of their own.
    pub(crate) in_one_piece: Ledger,
    /// Nodes in the pool.
    pub(crate) pool: Ledger,
    /// Nodes in contiguous pages of their own.
    pub(crate) contiguous_pages: Ledger,
    /// Nodes in scattered pages.
    pub(crate) scattered: Ledger,
    /// Nodes in pages of their own.
    pub(crate) paged: Ledger,
}

#[kernel::macros::kunit_tests(galcore_ledger)]
mod tests {
    use super::*;

    #[test]
    fn the_most_and_all_stay() {
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
