// SPDX-License-Identifier: GPL-2.0-only

//! A process's objects, by their handles, and what is known of them together.

use super::{
    buffer::BufferEntry,
    framebuffers::Named,
    handles::Handles,
    import::Mapped,
    ledgers::VideoLedgers,
    node::NodeEntry,
    profile::Profile,
    shared_buffers::PieceEntry,
    shared_info::Info,
    signals::SignalEntry,
    user_views::UserViews,
    window::PoolView, //
};
use crate::{
    abi::Ledger,
    context::{
        kept::Kept,
        scrub::{
            OwnData,
            Scrub, //
        },
        Context,
        Hold, //
    },
    limits::MAX_CORES,
    memory::Backing,
    mmu::AddressSpace,
    stream::{
        addresses::AddressSet,
        loaded::{
            Loaded,
            Origin, //
        }, //
    },
    sys::power::KeptOn, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What one process has.
pub(super) struct Tables {
    pub(super) nodes: Handles<NodeEntry>,
    pub(super) buffers: Handles<BufferEntry>,
    pub(super) signals: Handles<SignalEntry>,
    pub(super) user_memory: Handles<Mapped>,
    /// Without states on cores without a 3D engine.
    pub(super) contexts: Handles<Option<Arc<Context>>>,
    /// Where the process's GPU memory is: nodes, buffers and mapped user memory.
    pub(super) addresses: AddressSet,
    /// Its tables of the MMU, if it has its own.
    pub(super) space: Option<Arc<AddressSpace>>,
    /// By core, what the process's commands have left in it.
    pub(super) per_core: [PerCore; MAX_CORES],
    /// By core, how many jobs the process has submitted. 64 bits do not wrap.
    pub(super) jobs: [u64; MAX_CORES],
    /// Where the process has it mapped, but for the pool's windows.
    pub(super) user_views: UserViews,
    /// Handles of the buffers that commands came from lately; 0: none.
    pub(super) command_buffers: [u32; 4],
    /// Views of nodes and buffers that only a thread of the process's can end.
    pub(super) left_views: KVec<(Backing, usize)>,
    /// What a LOCK maps right now, and whether cached: found without a search.
    pub(super) asked: Option<(Backing, bool)>,
    /// Room for the next COMMIT's commands.
    pub(super) words: Option<KVVec<u32>>,
    pub(super) video: VideoLedgers,
    pub(super) non_paged: Ledger,
    pub(super) contiguous: Ledger,
    /// User memory, and dma-bufs of others.
    pub(super) mapped: Ledger,
    /// Framebuffers that the process has mapped; in `addresses`, too. Their drivers keep the memory
    /// as long as it is here.
    pub(super) framebuffers: KVec<Named>,
    pub(super) pieces: KVec<PieceEntry>,
    /// What it leaves for others.
    pub(super) shared_infos: KVec<Info>,
    /// What it wants to know of the cores' work.
    pub(super) profile: Profile,
    /// By core, what keeps it on for the process.
    pub(super) kept_on: [Option<KeptOn>; MAX_CORES],
    /// By core, what CONFIG_POWER_MANAGEMENT has set last.
    pub(super) manages_power: [Option<bool>; MAX_CORES],
    /// Where the process has mapped the pool; the last mmap's is the last.
    pub(super) pool_views: KVec<Arc<PoolView>>,
    /// MAP_MEMORY has mapped the pool, and UNMAP_MEMORY has not been asked since.
    pub(super) has_mapped_pool: bool,
}

/// What a process's commands have left in one core.
pub(super) struct PerCore {
    /// Which addresses they have had it load.
    pub(super) loaded: Loaded,
    /// Which data they have had the 2D pipe load, once they have had any.
    pub(super) data: Option<Arc<OwnData>>,
    /// Which states, once they have had a context that keeps none.
    pub(super) kept: Option<Kept>,
    /// The attached context of the last of them that had one.
    pub(super) last_context: Option<Arc<Context>>,
}

impl PerCore {
    /// Nothing, in all cores.
    pub(super) fn all() -> [Self; MAX_CORES] {
        core::array::from_fn(|_| Self {
            loaded: Loaded::new(),
            data: None,
            kept: None,
            last_context: None,
        })
    }
}

impl PerCore {
    /// Where commands come from that come with the context of `hold`.
    pub(super) fn origin(&self, hold: Option<&Hold>) -> Origin {
        match (hold, &self.last_context) {
            (None, _) => Origin::Bare,
            (Some(hold), Some(last)) if Arc::ptr_eq(last, hold.context()) => Origin::Same,
            _ => Origin::Other,
        }
    }

    /// Which data the process's commands so far have had the 2D pipe load. Without memory it is as
    /// if they had loaded none.
    pub(super) fn data(&mut self, scrub: &Scrub) -> Option<Arc<OwnData>> {
        if let Some(noted) = self.loaded.take_data() {
            let noted = match &self.data {
                Some(_) => noted,
                // What there was no memory for before, too.
                None => {
                    self.data = OwnData::new(scrub).ok();
                    (0, u32::MAX)
                }
            };
            if let Some(data) = &self.data {
                data.update(noted, |state| self.loaded.data(state));
            }
        }
        self.data.clone()
    }
}

impl Tables {
    /// Nothing, of a process with these tables of the MMU. In its place: it is large.
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
