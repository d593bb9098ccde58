// SPDX-License-Identifier: GPL-2.0-only

//! Differences between generations other than offsets and numbers.

use super::{
    power,
    Index, //
};

/// How a generation finds the core that a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// By type only. If no core has the type, the first core.
    Type,
    /// By type, and index among the cores of this type. If no core has the type, the first core.
    TypeAndIndex,
    /// By type and index. If no core has the type, an error, unless it is 2D or vector graphics.
    Slot,
}

/// Numbers of `gceHARDWARE_TYPE`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HardwareTypes {
    /// How the generation finds a core.
    pub(crate) routing: Routing,
    pub(crate) three_d: u8,
    pub(crate) two_d: u8,
    pub(crate) both: u8,
    pub(crate) vector: u8,
    /// A neural network core; the number of 3D where the generation has no such kind.
    pub(crate) neural: u8,
}

/// Bits of ALLOCATE_LINEAR_VIDEO_MEMORY's flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationFlags {
    pub(crate) contiguous: u32,
    pub(crate) scattered: u32,
    /// Memory that the CPU cannot access.
    pub(crate) secure: u32,
    /// Memory with cached user mappings: not in the pool.
    pub(crate) cacheable: u32,
    /// Memory of the pool only.
    pub(crate) fast: u32,
    /// Pages allocated on fault: scattered pages, for any pool.
    pub(crate) on_fault: u32,
    /// Memory without a CPU mapping. No pool has such memory.
    pub(crate) unseen: u32,
    /// Whole pages, for a dma-buf.
    pub(crate) exportable: u32,
    /// Flags that scattered pages support, and the pool does not.
    pub(crate) paged: u32,
    /// Flags that some memory supports.
    pub(crate) known: u32,
    /// Of WRAP_USER_MEMORY: a dma-buf.
    pub(crate) dma_buf: u32,
    /// Of WRAP_USER_MEMORY: user memory.
    pub(crate) user_memory: u32,
}

/// The error of USER_SIGNAL for an unknown signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownSignal {
    /// INVALID_REQUEST for SIGNAL, INVALID_ARGUMENT for other commands.
    Invalid,
    /// NOT_FOUND.
    NotFound,
}

/// Differences of a generation other than offsets and numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// `gcvSURF_IMAGE` exists: numbers from 8 on are one higher than before.
    pub(crate) image_surfaces: bool,
    /// The end of `gceSURF_TYPE` numbers, if bits above the low 8 are hints. 0: the numbers of
    /// 4.0.0, in which such bits keep a surface out of the pool.
    pub(crate) surface_types: u8,
    /// The end of `gcvPOOL` numbers.
    pub(crate) pools: u32,
    /// The number of the pool of on-chip memory, if it precedes the scattered pool: later numbers
    /// are one higher. No board has this pool. `u32::MAX`: it does not precede it.
    pub(crate) sram_pool: u32,
    /// ALLOCATE_LINEAR_VIDEO_MEMORY returns the allocated size.
    pub(crate) returns_bytes: bool,
    pub(crate) flags: Index<AllocationFlags>,
    /// CACHE does nothing: all mappings are uncached.
    pub(crate) cache_is_ignored: bool,
    /// CACHE acts on a node, for any range: [`by_node`](crate::abi::CacheRange::by_node).
    pub(crate) caches_nodes: bool,
    /// FLUSH_CACHE and GET_MMU_VERSION are built, and there is a pool for command buffers.
    pub(crate) flushes: bool,
    /// DETACH of an unknown context is INVALID_OBJECT; else it does nothing.
    pub(crate) detaches_known: bool,
    /// COMMIT_DONE is also a command, which does nothing; else only a record.
    pub(crate) takes_commit_done: bool,
    /// CACHE finds the node by the address, and ignores the handle.
    pub(crate) caches_by_address: bool,
    /// While the profiler is off, GET_PROFILE_SETTING reports that, and SET_PROFILE_SETTING fails;
    /// else both do nothing, as in builds without a profiler.
    pub(crate) has_profiler: bool,
    /// The profiler, if any, is on by default.
    pub(crate) profiles: bool,
    /// Registers of a core that is off read 0 and ignore writes; else the core is not ready.
    pub(crate) off_reads_zero: bool,
    /// Signals can be mapped.
    pub(crate) maps_signals: bool,
    /// The error for an unknown signal.
    pub(crate) unknown_signal: UnknownSignal,
    /// The error for an unknown node is NOT_FOUND; else INVALID_OBJECT, or INVALID_DATA for FREE.
    pub(crate) unknown_node_not_found: bool,
    /// Errors are those of 6.4, and WRAP_USER_MEMORY overwrites the descriptor of a dma-buf.
    pub(crate) answers_as_6_4: bool,
    /// Allocation flags and the pool's index are mandatory; else they are hints. User memory is
    /// wrapped in whole cache lines, which the process uses for nothing else; else at any byte. For
    /// versions with a known vendor driver: NXP's from 6.4.0.p1 to 6.4.11.p3. Later versions have
    /// more flags.
    pub(crate) strict_memory: bool,
    /// FREE of a locked node fails; else it waits for the last unlock.
    pub(crate) locked_cannot_be_freed: bool,
    /// A process can lock a page-backed node again.
    pub(crate) locks_again: bool,
    /// Alignment of MAP_USER_MEMORY's addresses, a power of 2.
    pub(crate) user_alignment: u64,
    /// RESET always succeeds; else it returns NOT_SUPPORTED unless a core was reset.
    pub(crate) resets: bool,
    /// BROADCAST_GPU_STUCK's number, in builds that watch the GPU themselves; 0: absent.
    pub(crate) gpu_stuck: u32,
    /// Numbers of power states.
    pub(crate) power: power::PowerNumbers,
    /// ALLOCATE_VIDEO_MEMORY is built.
    pub(crate) allocates_surfaces: bool,
    /// The record after an UNLOCK ends the lock of every node, not only of a page-backed one.
    /// Clients call FREE, and commit the last commands that use the node, before that record.
    pub(crate) unlocks_by_event: bool,
    /// ALLOCATE_VIRTUAL_COMMAND_BUFFER and FREE_VIRTUAL_COMMAND_BUFFER are built.
    pub(crate) allocates_commands: bool,
    /// QUERY_VIDEO_MEMORY returns a name of the pool for MAP_MEMORY; else the name is 0, which
    /// clients pass to mmap as the offset.
    pub(crate) names_pool: bool,
    /// All nodes outside SYSTEM are in one pool, and DATABASE counts contiguous ones as contiguous
    /// memory.
    pub(crate) one_paged_pool: bool,
    /// SET_TIMEOUT limits STALL; else it waits while the core makes progress.
    pub(crate) stall_is_limited: bool,
    /// Contexts have the states of 5.0.11 and later.
    pub(crate) newer_contexts: bool,
    /// A delta's number of vertex elements is one too high; 0 means no change.
    pub(crate) elements_and_one: bool,
    /// Node 0 ends the list of a graphic buffer's nodes; else it is skipped.
    pub(crate) no_node_ends: bool,
}
