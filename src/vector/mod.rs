// SPDX-License-Identifier: GPL-2.0-only

//! The queue of a core for vector graphics, and the jobs in it.
//!
//! Such a core has no ring. The driver starts it with an address and a length for each job, and it
//! runs until an END. The driver copies the words of a job into its own coherent memory, so a
//! client's words never run from the client's memory. A job has loads that reset address states,
//! the client's context if another one is loaded, the commands, a drain, an event for each module
//! with a payload, and an END. The pixel engine's event and the END's interrupt complete the job,
//! and the driver starts the next. Memory that clients release waits for the newest job
//! ([`Waited`](crate::ring::Waited)), so that no job uses freed memory.
//!
//! # Addresses that stay in the core
//!
//! States keep their values from job to job. A job of another process first loads harmless values
//! into all states with addresses or sizes, and then its context. If the same process has released
//! memory, harmless values only replace the addresses of that memory ([`front::CoreState`]).
//! Commands are checked against the values that they will find ([`Entry`]). They are checked again
//! if these have changed when the place is reserved.
//!
//! # Locks
//!
//! The locks of each [`Engine`]. A thread that fills a place is not preempted.
//!
//! Source: sources.md, vector graphics.

mod front;

use crate::{
    hw::{
        vector::END_INTERRUPT,
        Hardware, //
    },
    log,
    modes::{
        self,
        Mode, //
    },
    prelude::*,
    ring::{
        Config,
        Engine,
        FrontEnd,
        Job,
        Noted,
        Payload,
        Reclaimer,
        Space,
        State,
        Turn, //
    },
    stream::vector::{
        self as words,
        Module,
        Values,
        TRACKED, //
    },
    sys::{
        dma::DmaBuffer,
        trace, //
    }, //
};
use front::SingleJob;

pub(crate) use front::{
    Author,
    Entry, //
};

/// Size of the memory for jobs, in bytes.
const BYTES: usize = 1 << 20;

/// Alignment of jobs in bytes.
const UNIT: usize = 64;

/// Size of the largest job, in bytes. It fits whenever the queue is empty.
const MAX_BYTES: usize = Space::largest(BYTES) - UNIT;

/// Size of the scratch memory, in bytes. Its address replaces unused addresses.
pub(crate) const SCRATCH_BYTES: usize = 4096;

/// The most words of the driver in one job: states, drain, events, END.
const FRAME_WORDS: usize = 2 * TRACKED.len() + 6 + 2 * 3 + 2;

/// The most words of a client in one job.
pub(crate) const MAX_WORDS: usize = (MAX_BYTES - UNIT) / 4 - FRAME_WORDS;

/// The interrupts of the tessellator and the drawing engine, and the first of the pixel engine.
const EARLY: [(Module, u32); 2] = [(Module::Tessellator, 1), (Module::Drawing, 2)];
const FIRST_PIXEL: u32 = 3;

/// A submission of a process.
pub(crate) struct Submission<'a, P> {
    pub(crate) author: Author<'a>,
    /// The state that its commands were checked against.
    pub(crate) entry: &'a Entry,
    /// The values that its commands leave in the core.
    pub(crate) exit: &'a Values,
    /// Numbers of words of the context and of the other commands.
    pub(crate) words: [usize; 2],
    /// The payloads of the tessellator's and the drawing engine's events. `None`: no event.
    pub(crate) early: [Option<&'a mut P>; 2],
    /// The payload of the job's end.
    pub(crate) late: &'a mut P,
}

/// The result of [`Queue::reserve`].
pub(crate) enum Attempt {
    Place(Reservation),
    /// No place is free, or it is not the caller's turn. Wait and retry.
    Unavailable,
    /// The core's state differs from the one that the commands were checked against.
    Changed,
}

/// A place in the queue for one job. [`Queue::fill`] must follow soon, because others wait. Until
/// then the thread must not sleep, and is not preempted.
#[must_use]
pub(crate) struct Reservation {
    at: usize,
    id: u32,
    pub(crate) number: u64,
    /// The state that the job finds in the core.
    pub(crate) entry: Entry,
    has_early: [bool; 2],
    _no_preemption: sys::NoPreemption,
}

/// The queue of one core.
pub(crate) type Queue<P> = Engine<SingleEnd<P>>;

/// A front end that is started once for each job.
pub(crate) struct SingleEnd<P> {
    /// The scratch memory, and its physical address.
    scratch_memory: DmaBuffer,
    scratch: u32,
    /// Physical address of the core's page table.
    table: u32,
    payload: PhantomData<fn() -> P>,
}

impl<P: Payload> Queue<P> {
    /// Creates the queue of the core `hardware`, and sets the core's page table at physical address
    /// `table`. `ENOMEM`: no memory that the core reaches.
    pub(crate) fn with_table(
        hardware: Arc<Hardware>,
        config: Config,
        table: u32,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, Errno> {
        let memory = DmaBuffer::new(&hardware.memory, BYTES)?;
        let scratch_memory = DmaBuffer::new(&hardware.memory, SCRATCH_BYTES)?;
        // The DMA mask keeps the memory below 4 GiB.
        let address = u32::try_from(memory.dma_address())?;
        let scratch = u32::try_from(scratch_memory.dma_address())?;
        hardware.set_page_table(table);
        let front = SingleEnd {
            scratch_memory,
            scratch,
            table,
            payload: PhantomData,
        };
        Engine::new(front, hardware, memory, address, reclaimer, config)
    }

    /// Size of the queue's memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size() + self.front.scratch_memory.size()
    }

    /// Physical address of the scratch memory.
    pub(crate) fn scratch(&self) -> u32 {
        self.front.scratch
    }

    /// Starts the front end with an END, whose interrupt shows that the line works. The queue must
    /// not be open yet.
    pub(crate) fn start_test(&self) -> Result<(), Errno> {
        // No job begins at offset 0.
        self.memory.write_words(0, &words::end(END_INTERRUPT))?;
        sys::barrier::write();
        self.hardware.start_vector(self.address, 1);
        Ok(())
    }

    /// Opens the queue. The front end must be stopped.
    pub(crate) fn open(&self) {
        self.state.lock().open();
    }

    /// The state that a job of `author` would find in the core now.
    pub(crate) fn entry(&self, author: &Author<'_>) -> Entry {
        self.state
            .lock()
            .front
            .core
            .entry(author, self.front.scratch)
    }

    /// Reserves a place and an interrupt for `work`, if these are free and it is the caller's
    /// `turn`. Does not wait.
    ///
    /// `turn.wish` must have noted the payload's actions and commands.
    ///
    /// The caller's locks must keep its memory mapped until the job is in the queue. Memory that is
    /// released after this waits for this job.
    ///
    /// On an error or without a place, nothing changes. `OutOfResources`: more words than
    /// [`MAX_WORDS`]. `GpuNotResponding`: the queue is closed.
    #[inline(never)]
    pub(crate) fn reserve(
        &self,
        work: &mut Submission<'_, P>,
        turn: &mut Turn<'_, SingleEnd<P>>,
    ) -> Result<Attempt> {
        let [context, others] = work.words;
        if context
            .checked_add(others)
            .is_none_or(|all| all > MAX_WORDS)
        {
            return Err(Error::OutOfResources);
        }
        let mut state = self.state.lock();
        if state.phase.is_stopped() {
            return Err(Error::GpuNotResponding);
        }
        // The entry may change until the queue opens, so do not compute it now.
        if !state.is_open() {
            return Ok(Attempt::Unavailable);
        }
        let entry = state.front.core.entry(&work.author, self.front.scratch);
        // If the context was new at the check and is still new, its name does not matter.
        let name = if state.front.core.knows(entry.context) {
            entry.context
        } else {
            work.entry.context
        };
        let found = Entry {
            context: name,
            ..entry
        };
        if found != *work.entry {
            return Ok(Attempt::Changed);
        }
        let has_early = work.early.each_ref().map(Option::is_some);
        let context = if entry.is_switched { context } else { 0 };
        let events = has_early.iter().filter(|&&has| has).count() + 1;
        let wipes = u32_as_usize(entry.wipes.count_ones());
        let length = 2 * wipes + context + others + words::drain().len() + 2 * events + 2;
        let bytes = (4 * length).next_multiple_of(UNIT);
        let Some(at) = state.find(bytes, &mut turn.wish) else {
            return Ok(Attempt::Unavailable);
        };
        let early = work.early.each_mut();
        let process = turn.wish.account.map_or(0, |account| account.process_id);
        let own = SingleJob {
            early: early.map(|payload| match payload {
                Some(payload) => core::mem::take(*payload),
                None => P::default(),
            }),
            // CAST: less than `BYTES`.
            units: length.div_ceil(2) as u32,
        };
        let job = Job::new(core::mem::take(work.late), own);
        let taken = state.take(at, bytes, &mut turn.wish, job);
        let (id, number) = taken.map_err(|job| {
            *work.late = job.payload;
            Error::GpuNotResponding
        })?;
        // CAST: less than `BYTES`.
        let words = [
            at,
            4 * length.next_multiple_of(2),
            8 * wipes,
            4 * (context + others),
        ]
        .map(|n| n as u32);
        let [start, bytes, before, own] = words;
        state.history.note(Noted {
            number,
            process,
            start,
            bytes,
            own: (before, own),
        });
        self.trace_submit(&mut state, (id, number), entry.context, work);
        state.front.core.note(&work.author, &entry, work.exit);
        Ok(Attempt::Place(Reservation {
            at,
            id,
            number,
            entry,
            has_early,
            _no_preemption: sys::NoPreemption::new(),
        }))
    }

    /// Writes the words of a job, and starts it if the core is free. The commands are those for
    /// which the place was reserved.
    pub(crate) fn fill(self: &Arc<Self>, place: Reservation, commands: [&[u32]; 2]) {
        // Every offset was checked against the memory's size when the place was reserved.
        let _ = self.write(&place, commands);
        sys::barrier::write();
        let mut state = self.state.lock();
        state.mark_filled();
        SingleEnd::begin(self, &mut state);
        self.publish(state);
        let (number, is_switched) = (place.number, place.entry.is_switched);
        drop(place);
        if modes::is_on_in_path(Mode::Commands) {
            let [context, commands] = commands;
            let context = if is_switched { context } else { &[][..] };
            log::print_commands(self.config.core, number, &[context, commands]);
        }
    }

    fn write(&self, place: &Reservation, [context, commands]: [&[u32]; 2]) -> Result<(), Errno> {
        let mut at = place.at;
        let mut emit = |words: &[u32]| -> Result<(), Errno> {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
            Ok(())
        };
        let entry = &place.entry;
        for (which, (state, value)) in TRACKED.into_iter().zip(entry.values).enumerate() {
            if entry.wipes & 1 << which != 0 {
                emit(&words::state(state, value))?;
            }
        }
        if entry.is_switched {
            emit(context)?;
        }
        emit(commands)?;
        emit(&words::drain())?;
        for ((module, id), has) in EARLY.into_iter().zip(place.has_early) {
            if has {
                emit(&words::event(module, id))?;
            }
        }
        emit(&words::event(Module::Pixel, FIRST_PIXEL + place.id))?;
        emit(&words::end(END_INTERRUPT))
    }

    /// Traces that job `seqno` of `work`, with interrupt `id`, is queued. `context`: the name of
    /// its context.
    #[inline(always)]
    fn trace_submit(
        &self,
        state: &mut State<SingleEnd<P>>,
        (id, seqno): (u32, u64),
        context: u64,
        work: &Submission<'_, P>,
    ) {
        trace::Submit::record(|| {
            let job = state.jobs.load_at(seqno)?;
            Some(trace::Submit {
                core: self.trace_core(),
                process: job.payload.process_id(),
                context,
                pipe: trace::PIPE_VG,
                seqno,
                // CAST: at most `MAX_WORDS`.
                words: work.words.iter().sum::<usize>() as u32,
                event_id: id,
            })
        });
    }
}
