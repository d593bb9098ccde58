// SPDX-License-Identifier: GPL-2.0-only

//! What a generation does its own way besides places and numbers.

use super::{
    power,
    Index, //
};

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
    /// A core for neural networks; a 3D core where there is no such kind.
    pub(crate) neural: u8,
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
    /// Of pages that come when they are used: in pages, whatever the pool.
    pub(crate) on_fault: u32,
    /// In memory that the processor does not see, which there is none of.
    pub(crate) unseen: u32,
    /// In whole pages, as a dma-buf has.
    pub(crate) exportable: u32,
    /// What memory in pages can have, and the pool cannot.
    pub(crate) paged: u32,
    /// All that some memory can have.
    pub(crate) known: u32,
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
    /// `gcvSURF_IMAGE` is there: numbers from 8 on are one higher than before.
    pub(crate) image_surfaces: bool,
    /// `gceSURF_TYPE` numbers from here on are none, and bits above the low 8 are hints; 0: those
    /// of 4.0.0, where such bits keep a surface out of the pool.
    pub(crate) surface_types: u8,
    /// `gcvPOOL` numbers from here on are none.
    pub(crate) pools: u32,
    /// The number of the pool of memory on the chip, which none has, where that comes before the
    /// scattered pool: later numbers are one higher. `u32::MAX`: it does not.
    pub(crate) sram_pool: u32,
    /// ALLOCATE_LINEAR_VIDEO_MEMORY tells how many bytes there are.
    pub(crate) tells_bytes: bool,
    /// Flags of an allocation.
    pub(crate) flags: Index<AllocationFlags>,
    /// CACHE does nothing: all views are uncached.
    pub(crate) cache_is_ignored: bool,
    /// CACHE is of a node, whatever range it names: [`by_node`](crate::abi::CacheRange::by_node).
    pub(crate) caches_nodes: bool,
    /// FLUSH_CACHE and GET_MMU_VERSION are built, and there is a pool for command buffers.
    pub(crate) flushes: bool,
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
    /// Answers are those of 6.4: which number says what is wrong, and that a descriptor is taken.
    pub(crate) answers_as_6_4: bool,
    /// Memory that lacks what the flags of an allocation ask for is not given, nor that of another
    /// pool than the one that there is; else these are hints. A process's own memory is wrapped in
    /// whole cache lines, which nothing else of the process can share; else in any bytes. Where the
    /// vendor's driver was read: NXP's from 6.4.0.p1 to 6.4.11.p3. Later ones have more flags.
    pub(crate) strict_memory: bool,
    /// FREE of a locked node fails; else it waits for the last unlock.
    pub(crate) locked_cannot_be_freed: bool,
    /// A page-backed node can be locked again by who has it locked.
    pub(crate) locks_again: bool,
    /// MAP_USER_MEMORY wants addresses in multiples of this; a power of 2.
    pub(crate) user_alignment: u64,
    /// RESET always succeeds; else it is not for cores as old as those, unless one was reset.
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
