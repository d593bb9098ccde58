// SPDX-License-Identifier: GPL-2.0-only

//! The ring of commands that a core's front end runs, and the jobs in it.
//!
//! The ring is a buffer of coherent memory. The front end idles after the last job, in a WAIT and a
//! LINK back to that WAIT. A new job's words follow this idle loop: loads that make the GPU forget
//! another process's addresses; a LINK to the client's context and back if another one is loaded,
//! or the states of a context that the client keeps itself; a pipe switch if needed; the client's
//! checked words; an event; a new idle loop. Then a LINK to the job replaces the old WAIT: first
//! the target, a barrier, then the opcode. So client commands run from kernel memory only.
//!
//! The ring is generic over what a job does when it ends ([`Payload`]), and does not depend on
//! clients. An [`Engine`] is common to the ring and the queue of vector graphics cores. The part
//! that differs is a [`FrontEnd`].
//!
//! # Addresses that stay in the GPU
//!
//! The ring keeps, for each pipe, the author of the last commands
//! ([`Author`](crate::context::scrub::Author)). Before another author's commands, the ring loads
//! harmless addresses into all states that take addresses ([`crate::context::scrub`]), and loads
//! the context again. States may still hold addresses of memory that a process has freed
//! ([`crate::stream::loaded`]). They get harmless ones before its next commands.
//!
//! # Translations that stay in the TLB
//!
//! A job flushes the TLB if the address space has changed since the last flush. When the job has
//! ended, it reports that to the address space ([`Vm::flushed`]). With MMU version 2 a flush also
//! loads the tables of the job's process, so a job also flushes if another process's tables are
//! loaded. A job's words never name the tables of another process, which may be freed while the
//! words are still in the ring.
//!
//! # A core that hangs
//!
//! The hang check ([`hang`]) tests whether the core makes progress ([`watch`]). If not, the core is
//! reset ([`recovery`]). The guilty job and the later jobs of its process are dropped
//! ([`after_reset`]). The others run from their start.
//!
//! # For debugging
//!
//! The administrator can reset the core ([`hang`]), make every Nth LINK lead to the [`TRAP`], and
//! have commands printed ([`crate::modes`]).
//!
//! # A core that is off
//!
//! A core goes off while it has no jobs. The next job switches it on ([`power`]).
//!
//! # Locks
//!
//! The mutex `galcore completion` is held to end jobs, by the interrupt thread or the hang check,
//! and while a recovery must prevent that. Jobs run their actions under it, so it is taken before
//! all locks that actions take.
//!
//! `galcore ring` ([`Engine::state`]) is a spinlock, as is every lock that clients and the
//! interrupt thread share: a preempted thread of low priority must not delay others. It is held
//! briefly. A thread that fills a place ([`Reservation`]) is not preempted either. Others wait
//! interruptibly. Only the allocator's locks, and those to wake the first in the [line](turns), are
//! taken under it.

mod after_reset;
mod complete;
mod dump;
mod engine;
mod frame;
mod front;
mod hang;
mod history;
mod inflight;
mod job;
mod meter;
mod phase;
mod power;
mod reclaim;
mod recovery;
mod snapshot;
mod space;
mod state;
mod submit;
mod trace;
mod turns;
mod watch;

use crate::{
    context::scrub::{
        self,
        Scrub,
        PIPES, //
    },
    hw::{
        Hardware,
        MmuVersion, //
    },
    memory::gpu_address,
    mmu::{
        SpaceId,
        Tlb,
        Vm,
        NO_TRANSLATIONS, //
    },
    params::Choice,
    stream::{
        resolve,
        words::{
            self,
            Caches,
            PageTables,
            Pipe,
            Pipes, //
        }, //
    },
    sys::{
        self,
        dma::DmaBuffer,
        prelude::*, //
    },
    wait, //
};
use frame::Section;

pub(crate) use {
    after_reset::{
        AfterReset,
        Cause, //
    },
    complete::Turn,
    dump::{
        Addressing,
        Snapshot,
        MAX_PIECES, //
    },
    engine::{
        Config,
        Engine,
        FrontEnd, //
    },
    frame::{
        Checked,
        InContext,
        Source,
        Stream, //
    },
    history::{
        Given,
        Noted, //
    },
    inflight::IDS,
    job::{
        Culprit,
        Job,
        JobInfo,
        JobKind,
        Loss,
        Losses,
        Named,
        Outcome,
        Payload,
        Piece, //
    },
    meter::Load,
    reclaim::{
        Numbers,
        PoolPart,
        Reclaimer,
        Retirable,
        Retired,
        Revoker,
        Waited, //
    },
    recovery::REST_TIME,
    space::Space,
    state::{
        Handover,
        State, //
    },
    submit::{
        Attempt,
        Reservation, //
    },
    turns::Account,
};

const RING_BYTES: usize = 1 << 20;

/// Bytes at the ring's end that the front end may prefetch. They hold no command.
const PREFETCH_MARGIN: usize = 64;

/// Bytes of the ring that hold jobs.
const USABLE_BYTES: usize = RING_BYTES - PREFETCH_MARGIN - START_BYTES;

/// Bytes after those for the start words, which the front end runs first. They set up the core,
/// load the state that the oldest job needs, and link to that job. The [`TRAP`] is at their end.
const START_BYTES: usize = (4
    * (words::USE_TABLES_WORDS
        + (PIPES + 1) * words::SELECT_PIPE_WORDS
        + scrub::MAX_ADDRESS_WORDS
        + scrub::MAX_2D_WORDS
        + resolve::OFF.len()
        + words::LINK_WORDS)
    + WAIT_LINK_BYTES)
    .next_multiple_of(64);

/// Offset of an idle loop that the front end never leaves. Spoiled LINKs lead there
/// ([`Mode::Hangs`](crate::modes::Mode)).
const TRAP: usize = USABLE_BYTES + START_BYTES - WAIT_LINK_BYTES;

const WAIT_LINK_BYTES: usize = 16;
/// The length of an idle loop in the front end's units of 8 bytes.
const IDLE_UNITS: u32 = 2;

/// The most bytes around a client's words: MMU flush, scrub of both pipes, LINK to a context, pipe
/// switch, stall, drain, event, idle loop.
const FRAME_BYTES: usize = 4
    * (words::FLUSH_MMU_WORDS
        + PIPES * words::SELECT_PIPE_WORDS
        + scrub::MAX_WORDS
        + words::LINK_WORDS
        + words::EVENT_WORDS)
    + Section::MAX_BYTES
    + WAIT_LINK_BYTES;

/// The most client words in one job.
pub(crate) const MAX_STREAM_WORDS: usize = (Space::largest(USABLE_BYTES) - FRAME_BYTES) / 4;

/// The most state words of a context in a client's memory: 64 KiB.
pub(crate) const MAX_STATE_WORDS: usize = 64 * 1024 / 4;

/// The most client words in one job that includes such states.
pub(crate) const MAX_WORDS_AFTER_STATES: usize =
    MAX_STREAM_WORDS - MAX_STATE_WORDS - Section::MAX_BYTES / 4;

/// How long a submitter waits while the GPU makes no progress, in milliseconds.
pub(crate) const GPU_TIMEOUT: u32 = wait::TIMEOUT;

/// Properties of a core that its ring needs.
pub(crate) struct Setup {
    pub(crate) fast_clear: Choice,
    pub(crate) compression: Choice,
    pub(crate) pipes: Pipes,
    /// The words that make the core forget addresses.
    pub(crate) scrub: Arc<Scrub>,
}

/// The ring of one core.
pub(crate) type Ring<P> = Engine<RingEnd<P>>;

/// The front end of a ring, which follows its LINKs.
pub(crate) struct RingEnd<P> {
    setup: Setup,
    event_padding: bool,
    caches: Caches,
    vm: Arc<Vm>,
    /// The device's page tables, which belong to no process.
    tables: PageTables,
    /// The newest change of the address space that a flush of the core's TLB has covered.
    flushed: Atomic<u64>,
    payload: PhantomData<fn() -> P>,
}

impl<P> RingEnd<P> {
    /// The tables of the process that has `space`.
    fn tables_of(&self, space: Option<SpaceId>) -> PageTables {
        match (self.tables, space) {
            (PageTables::V2(_), Some(space)) => PageTables::V2(space.address),
            (PageTables::Secure(_), Some(space)) => PageTables::Secure(space.entry),
            (tables, _) => tables,
        }
    }
}

impl<P: Payload> Ring<P> {
    /// Allocates the ring of the core `hardware`. `ENOMEM`, or `ERANGE`: out of the GPU's reach.
    pub(crate) fn with_vm(
        hardware: Arc<Hardware>,
        config: Config,
        setup: Setup,
        vm: Arc<Vm>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let memory = DmaBuffer::new(&hardware.memory, RING_BYTES)?;
        let address =
            gpu_address(memory.dma_address(), RING_BYTES, config.base_address).ok_or(ERANGE)?;
        let identity = &hardware.identity;
        let caches = Caches::new(
            setup.pipes.pipe_3d,
            setup.pipes.pipe_2d,
            identity.has_fast_clear(),
            hardware.mmu_version(),
        );
        let tables = match (hardware.mmu_version(), vm.two_level_table()) {
            (MmuVersion::V2, Some(_)) if identity.has_secure_mmu => PageTables::Secure(0),
            (MmuVersion::V2, Some([table, ..])) => PageTables::V2(table),
            _ => PageTables::V1,
        };
        let front = RingEnd {
            event_padding: identity.needs_event_padding(),
            caches: if identity.has_3d() && identity.has_halti5() {
                caches.with_halti5()
            } else {
                caches
            },
            setup,
            vm,
            tables,
            flushed: Atomic::new(NO_TRANSLATIONS),
            payload: PhantomData,
        };
        Engine::new(front, hardware, memory, address, reclaimer, config)
    }

    /// Sets up the registers of a core that has been reset, and its MMU. With MMU version 2 the
    /// front end loads the addresses of the tables while addresses are still physical. After it has
    /// stopped, a register enables translation. `ENODEV`: it does not stop, which has been printed.
    pub(crate) fn set_up(&self) -> Result<(), kernel::error::Error> {
        let version = self.hardware.mmu_version();
        let table = match version {
            MmuVersion::V1 => self.front.vm.flat_table(),
            MmuVersion::V2 => None,
        };
        let Setup {
            fast_clear,
            compression,
            ..
        } = self.front.setup;
        self.hardware
            .initialize(self.config.base_address, table, fast_clear, compression);
        let (MmuVersion::V2, Some([table, safe, array])) =
            (version, self.front.vm.two_level_table())
        else {
            return Ok(());
        };
        let mut start = self.start_words();
        if self.hardware.identity.has_secure_mmu {
            self.hardware.set_page_table_array(array, safe);
            start.put(&words::load_page_tables(0))?;
        } else {
            for pipe in [Pipe::Pipe3d, Pipe::Pipe2d] {
                if self.front.setup.pipes.has(pipe) {
                    start.put(&words::configure_mmu(pipe, table, safe))?;
                }
            }
        }
        start.put(&[words::END, 0])?;
        let (address, units) = start.finish();
        // Does not wrap: the ring lies below 4 GiB.
        let physical = address.wrapping_add(self.config.base_address);
        self.hardware.enable_mmu(physical, units)
    }

    /// Begins to write the start words.
    fn start_words(&self) -> StartWords<'_> {
        StartWords {
            memory: &self.memory,
            address: self.gpu(USABLE_BYTES),
            bytes: 0,
        }
    }

    /// Makes an idle loop at the ring's start and opens the ring. Returns the GPU address, and the
    /// number of units of 8 bytes there. The core must have been reset and its front end stopped.
    pub(crate) fn start(&self) -> Result<(u32, u32), kernel::error::Error> {
        self.memory
            .write_words(0, &words::wait_link(self.address))?;
        self.memory
            .write_words(TRAP, &words::wait_link(self.gpu(TRAP)))?;
        sys::barrier::write();
        let mut state = self.state.lock();
        state.start();
        // The reset has emptied the TLB.
        self.front.flushed.store(self.front.vm.changes(), Relaxed);
        Ok((self.address, IDLE_UNITS))
    }

    /// The commands that flush the core's caches.
    pub(crate) fn caches(&self) -> &Caches {
        &self.front.caches
    }

    /// GPU address of the idle loop after the last job.
    pub(crate) fn idle_loop(&self) -> u32 {
        let wait = self.state.lock().front.wait;
        self.gpu(wait)
    }

    /// Calls `look` with each job under way, oldest first.
    pub(crate) fn for_each_job(&self, mut look: impl FnMut(JobInfo)) {
        for age in 0..IDS {
            let state = self.state.lock();
            let Some((event, slot)) = state.jobs.get(age) else {
                return;
            };
            let info = JobInfo {
                number: slot.number,
                event,
                process: slot.load.payload.process(),
                uses: slot.load.own.uses,
                words: (self.gpu(slot.start), self.gpu(slot.mark)),
                retired: slot.load.retired_count,
            };
            drop(state);
            look(info);
        }
    }
}

/// The start words at [`USABLE_BYTES`]. The front end must be stopped while they are written.
struct StartWords<'a> {
    memory: &'a DmaBuffer,
    /// GPU address of the first word.
    address: u32,
    bytes: usize,
}

impl StartWords<'_> {
    /// Appends whole commands.
    fn put(&mut self, words: &[u32]) -> Result<(), kernel::error::Error> {
        let bytes = core::mem::size_of_val(words);
        if bytes > TRAP - USABLE_BYTES - self.bytes {
            return Err(EINVAL);
        }
        self.memory.write_words(USABLE_BYTES + self.bytes, words)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The front end's start address, and the number of units of 8 bytes there.
    fn finish(self) -> (u32, u32) {
        sys::barrier::write();
        // CAST: at most `START_BYTES`.
        (self.address, self.bytes.div_ceil(8) as u32)
    }
}

impl<P: Payload> Tlb for Ring<P> {
    fn flushed(&self) -> u64 {
        self.front.flushed.load(Acquire)
    }

    fn flush(self: Arc<Self>) {
        {
            let state = self.state.lock();
            if self.flushed() == NO_TRANSLATIONS
                || state.front.gpu.flushed == self.front.vm.changes()
            {
                // The core is off, or a job under way (or one that has just ended) flushes the TLB.
                return;
            }
        }
        // If the ring is full, its next job flushes the TLB. If it is closed, the core is stopped.
        let _ = self.submit();
    }
}
