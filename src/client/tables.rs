// SPDX-License-Identifier: GPL-2.0-only

//! The tables of a process: its objects by their handles, and the state that belongs to them all.

use super::{
    client_memory::{
        left_of,
        ClientMemory,
        UserViews, //
    },
    handles::Handles,
    name::PieceEntry,
    node::NodeEntry,
    profile::Profile,
    signal::SignalEntry,
    usage::VideoLedgers,
    PoolView, //
};
use crate::{
    abi::Ledger,
    addr::Range,
    context::{
        kept::Kept,
        scrub::{
            OwnData,
            Scrub, //
        },
        Context,
        Hold, //
    },
    memory::{
        Backing,
        Buffer,
        FramebufferUse,
        Node,
        UserMemory, //
    },
    mmu::AddressSpace,
    prelude::*,
    stream::{
        addresses::AddressSet,
        loaded::{
            Loaded,
            Origin, //
        },
        words::Pipe, //
    },
    sys::{
        framebuffer::Framebuffer,
        power::KeptOn, //
    }, //
};

/// The tables of a process.
pub(super) struct Tables {
    pub(super) nodes: Handles<NodeEntry>,
    pub(super) buffers: Handles<BufferEntry>,
    pub(super) signals: Handles<SignalEntry>,
    pub(super) user_memory: Handles<Mapped>,
    /// `None` on cores without a 3D engine, whose contexts have no states.
    pub(super) contexts: Handles<Option<Arc<Context>>>,
    /// GPU addresses of the process's nodes, buffers, mapped user memory and framebuffers.
    pub(super) addresses: AddressSet,
    /// The process's own MMU tables, if it has any.
    pub(super) space: Option<Arc<AddressSpace>>,
    pub(super) per_core: [PerCore; MAX_CORES],
    /// By core, number of submitted jobs. 64 bits do not wrap in practice.
    pub(super) jobs: [u64; MAX_CORES],
    /// Views of nodes and buffers. Windows on the pool are not included.
    pub(super) user_views: UserViews,
    /// Handles of the buffers that recent commands were in. 0: none.
    pub(super) command_buffers: [u32; 4],
    /// Views of nodes and buffers that a thread of the process must end.
    pub(super) left_views: KVec<(Backing, usize)>,
    /// The memory that a LOCK is mapping, and whether cached: for a fast look-up by mmap.
    pub(super) asked: Option<(Backing, bool)>,
    /// Spare memory for the commands of the next COMMIT.
    pub(super) words: Option<KVVec<u32>>,
    pub(super) video: VideoLedgers,
    pub(super) non_paged: Ledger,
    pub(super) contiguous: Ledger,
    /// User memory, and dma-bufs of other drivers.
    pub(super) mapped: Ledger,
    /// Framebuffers that the process has mapped, also in `addresses`. An entry keeps the memory.
    pub(super) framebuffers: KVec<NamedFramebuffer>,
    pub(super) pieces: KVec<PieceEntry>,
    pub(super) shared_infos: KVec<StoredInfo>,
    pub(super) profile: Profile,
    /// By core, the reference that keeps it on for the process.
    pub(super) kept_on: [Option<KeptOn>; MAX_CORES],
    /// By core, the last setting of CONFIG_POWER_MANAGEMENT.
    pub(super) manages_power: [Option<bool>; MAX_CORES],
    /// The process's mappings of the pool, in the order of their creation.
    pub(super) pool_views: KVec<Arc<PoolView>>,
    /// MAP_MEMORY has mapped the pool, and no UNMAP_MEMORY has followed.
    pub(super) has_mapped_pool: bool,
}

/// A contiguous buffer in a process's table.
pub(super) struct BufferEntry {
    pub(super) buffer: ClientMemory<Buffer>,
    /// User address of its view. 0: it has none.
    pub(super) user: usize,
    /// ALLOCATE_NON_PAGED_MEMORY has allocated it.
    pub(super) non_paged: bool,
}

impl BufferEntry {
    pub(super) fn shown(&self) -> Option<(Backing, usize)> {
        let backing = || Backing::Contiguous((*self.buffer).clone());
        (self.user != 0).then(|| (backing(), self.user))
    }

    /// Bytes from user address `user` to the end of the view. `None`: `user` is not in the view.
    pub(super) fn bytes_from(&self, user: usize) -> Option<usize> {
        match self.user {
            0 => None,
            start => left_of(start, self.buffer.bytes(), user),
        }
    }
}

/// An import by Russell King's ioctls or MAP_USER_MEMORY.
pub(super) enum Mapped {
    /// Memory that the driver does not own.
    Memory(ClientMemory<UserMemory>),
    /// The node of a dma-buf, with its handle.
    Node(u32, Arc<Node>),
    /// Memory that the process may use and the GPU reaches without a mapping: a framebuffer.
    Framebuffer,
}

impl Mapped {
    /// The memory, if the driver does not own it.
    pub(super) fn memory(&self) -> Option<&ClientMemory<UserMemory>> {
        match self {
            Mapped::Memory(memory) => Some(memory),
            Mapped::Node(..) | Mapped::Framebuffer => None,
        }
    }

    /// Drops it. The GPU must have ended its use.
    pub(super) fn release(self) {
        if let Mapped::Memory(memory) = self {
            memory.release();
        }
    }
}

/// A framebuffer that a process's commands may name.
pub(super) struct NamedFramebuffer {
    pub(super) range: Range,
    pub(super) kept: Framebuffer,
    /// Keeps the framebuffer mapped for the GPU.
    pub(super) _use: FramebufferUse,
}

/// Data stored by SET_SHARED_INFO.
pub(super) struct StoredInfo {
    pub(super) id: u32,
    pub(super) user: u32,
    pub(super) bytes: KVec<u8>,
}

/// The state in which a process's commands have left a core.
pub(super) struct PerCore {
    pub(super) loaded: Loaded,
    /// Data that they have loaded into the 2D pipe, if any.
    pub(super) data: Option<Arc<OwnData>>,
    /// States that they have loaded, if they had a context that keeps none.
    pub(super) kept: Option<Kept>,
    /// The attached context of the last commands that had one.
    pub(super) last_context: Option<Arc<Context>>,
    /// The pipe that the last commands left selected, as the client claims and in fact, if these
    /// differ.
    pub(super) left: Option<(Pipe, Pipe)>,
}

impl PerCore {
    /// The initial state, for all cores.
    pub(super) fn all() -> [Self; MAX_CORES] {
        core::array::from_fn(|_| Self {
            loaded: Loaded::new(),
            data: None,
            kept: None,
            last_context: None,
            left: None,
        })
    }

    /// The pipe in which commands with `context`, or without, begin. `entry`: the pipe that the
    /// client says they need. If the last commands said that they leave `entry` selected, but left
    /// the other pipe, the vendor's driver does not switch back until it loads another context.
    /// libetnaviv needs this: it selects 2D once, but always says 3D.
    #[inline(always)]
    pub(super) fn entered(&self, entry: Pipe, context: Option<&Option<Arc<Context>>>) -> Pipe {
        match self.left {
            Some((claimed, left)) if claimed == entry && self.continues(context) => left,
            _ => entry,
        }
    }

    /// Whether commands with `context`, or without, run in the context of the last commands.
    #[cold]
    fn continues(&self, context: Option<&Option<Arc<Context>>>) -> bool {
        match (context.and_then(Option::as_ref), &self.last_context) {
            (Some(context), Some(last)) => Arc::ptr_eq(context, last),
            (context, _) => context.is_none(),
        }
    }

    /// The origin of commands with the attached context `hold`.
    pub(super) fn origin(&self, hold: Option<&Hold>) -> Origin {
        match (hold, &self.last_context) {
            (None, _) => Origin::Bare,
            (Some(hold), Some(last)) if Arc::ptr_eq(last, hold.context()) => Origin::Same,
            _ => Origin::Other,
        }
    }

    /// The data that the process's commands have loaded into the 2D pipe so far, if any.
    /// `OutOfMemory`: there is no memory for its first copy.
    #[inline(always)]
    pub(super) fn data(&mut self, scrub: &Scrub) -> Result<Option<Arc<OwnData>>> {
        if let Some(noted) = self.loaded.noted() {
            self.copy_data(scrub, noted)?;
        }
        Ok(self.data.clone())
    }

    #[inline(never)]
    fn copy_data(&mut self, scrub: &Scrub, noted: (u32, u32)) -> Result {
        let data = match &mut self.data {
            Some(data) => data,
            none => none.insert(OwnData::new(scrub)?),
        };
        data.for_each(noted, |state, to| {
            to.store(self.loaded.data(state), Relaxed)
        });
        self.loaded.forget_noted();
        Ok(())
    }

    /// Restores the data as [`Self::data`] last returned it: the commands that were checked since
    /// are refused.
    #[cold]
    #[inline(never)]
    pub(super) fn restore_data(&self, scrub: &Scrub) {
        let Some(noted) = self.loaded.noted() else {
            return;
        };
        match &self.data {
            Some(data) => data.for_each(noted, |state, value| {
                self.loaded.restore_data(state, value.load(Relaxed))
            }),
            None => scrub.for_each_data(noted, |state| self.loaded.restore_data(state, 0)),
        }
        self.loaded.forget_noted();
    }
}

impl Tables {
    /// Empty tables for a process that has its own MMU tables `space`, or none. They are
    /// initialized in place, because they are large.
    pub(super) fn init(space: Option<Arc<AddressSpace>>) -> impl Init<Self> {
        init!(Self {
            nodes: Handles::new(),
            buffers: Handles::new(),
            signals: Handles::new(),
            user_memory: Handles::new(),
            contexts: Handles::new(),
            addresses: AddressSet::new(),
            space,
            per_core: PerCore::all(),
            jobs: [0; MAX_CORES],
            user_views: UserViews::new(),
            command_buffers: [0; 4],
            left_views: KVec::new(),
            asked: None,
            words: None,
            video: VideoLedgers::default(),
            non_paged: Ledger::default(),
            contiguous: Ledger::default(),
            mapped: Ledger::default(),
            framebuffers: KVec::new(),
            pieces: KVec::new(),
            shared_infos: KVec::new(),
            profile: Profile::default(),
            kept_on: [const { None }; MAX_CORES],
            manages_power: [None; MAX_CORES],
            pool_views: KVec::new(),
            has_mapped_pool: false,
        })
    }
}
