// SPDX-License-Identifier: GPL-2.0-only

//! The queue of a core for vector graphics, and the jobs in it.
//!
//! Such a core has no ring: it is started with an address and a length, and runs until an END. A
//! job is one start. Its words are copied into coherent memory of ours: what makes the core forget
//! addresses, the client's context if another's is loaded, its commands, a drain, an event for each
//! module that has something to do, and an END. The pixel engine's event and the END's interrupt
//! end the job; then the next is started. So a client's words never run from its own memory, and no
//! job is under way whose memory has gone: what clients let go of is tied to the newest job
//! ([`Waited`]).
//!
//! # Addresses that stay in the core
//!
//! States keep their values from job to job. If another process's job comes, all that take
//! addresses are loaded with harmless ones in front, with what says how far they go, and its
//! context is loaded anew; if the same process has let go of memory, those that name it
//! ([`state::CoreState`]). Commands are checked against what they find ([`Entry`]); if that is
//! otherwise when the place is reserved, they are checked again.
//!
//! # Locks
//!
//! As those of [`Ring`](crate::ring::Ring): `galcore completion` lets one thread at a time end
//! jobs; `galcore vector` is a spinlock, held for moments, also under what comes before
//! `galcore ring`. Who has a place to fill is not preempted.
//!
//! Source: sources.md, vector graphics.

mod complete;
mod debug;
mod dump;
mod hang;
mod power;
mod state;
mod trace;

use crate::{
    error::{
        Error,
        Result, //
    },
    hw::{
        vector::END_INTERRUPT,
        Hardware, //
    },
    ring::{
        print_words,
        Dumps,
        Given,
        History,
        Load,
        Noted,
        Payload,
        Phase,
        Reclaimer,
        Retired,
        Space,
        Waited, //
    },
    stream::vector::{
        self as words,
        Module,
        Values,
        TRACKED, //
    },
    sys::{
        self,
        clock::Stamp,
        dma::DmaBuffer,
        unload::InUse, //
    }, //
};
use kernel::{
    list::{
        List,
        ListArc, //
    },
    new_delayed_work,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_condvar,
        new_mutex,
        new_spinlock,
        Arc,
        CondVar,
        Mutex,
        SpinLock, //
    },
    workqueue::{
        DelayedWork,
        Work, //
    }, //
};
use state::{
    Job,
    State, //
};

pub(crate) use state::{
    Author,
    Entry, //
};

/// Bytes of the memory for jobs.
const BYTES: usize = 1 << 20;

/// Bytes that jobs begin on multiples of.
const UNIT: usize = 64;

/// Bytes of the largest job, which finds a place whenever there is no other.
const MAX_BYTES: usize = Space::largest(BYTES) - UNIT;

/// Bytes of memory that is nobody's, where addresses of nothing lead.
pub(crate) const SCRATCH_BYTES: usize = 4096;

/// Words around a client's at most: states, drain, events, END.
const FRAME_WORDS: usize = 2 * TRACKED.len() + 6 + 2 * 3 + 2;

/// The most words of a client's in one job.
pub(crate) const MAX_WORDS: usize = (MAX_BYTES - UNIT) / 4 - FRAME_WORDS;

/// Interrupts: of the tessellator and the drawing engine, and the first of the pixel engine's.
const EARLY: [(Module, u32); 2] = [(Module::Tessellator, 1), (Module::Drawing, 2)];
const FIRST_PIXEL: u32 = 3;

/// What a process submits.
pub(crate) struct Submission<'a, P> {
    /// Whose it is.
    pub(crate) author: Author<'a>,
    /// What its commands have been checked against.
    pub(crate) entry: &'a Entry,
    /// What they leave in the core.
    pub(crate) exit: &'a Values,
    /// How many words the context has, and how many there are besides.
    pub(crate) words: [usize; 2],
    /// What is to be done at the tessellator's and at the drawing engine's event; `None`: nothing.
    pub(crate) early: [Option<&'a mut P>; 2],
    /// What is to be done at the end.
    pub(crate) late: &'a mut P,
}

/// What came of asking for a place.
pub(crate) enum Attempt {
    /// Here it is.
    Place(Reservation),
    /// There is none now.
    Full,
    /// The job would find something else than its commands were checked against.
    Changed,
}

/// A place in the queue for one job, to be filled by [`Queue::fill`], soon: others wait. Until then
/// the thread must not sleep, and is not preempted.
#[must_use]
pub(crate) struct Reservation {
    at: usize,
    id: u32,
    /// The job's number.
    pub(crate) number: u64,
    /// What it finds in the core.
    pub(crate) entry: Entry,
    has_early: [bool; 2],
    _no_preemption: sys::NoPreemption,
}

/// What a queue is made for.
pub(crate) struct Setup {
    /// The core's place.
    pub(crate) core: usize,
    /// Number of the last job of a core that was there before.
    pub(crate) newest: u64,
    /// How often its GPU was reset, or had gone.
    pub(crate) resets: u32,
    /// How long the core may stand still, in milliseconds; 0: it is never reset.
    pub(crate) timeout: u32,
    /// How long a job may hold others up, in milliseconds; 0: for ever.
    pub(crate) job_timeout: u32,
    /// Physical address of the core's page table.
    pub(crate) table: u32,
    /// Physical address of GPU address 0.
    pub(crate) base_address: u32,
    /// How much is kept of what it did when it hung; 0: nothing.
    pub(crate) dump_level: u32,
}

/// The queue of one core.
#[pin_data]
pub(crate) struct Queue<P: Payload> {
    memory: DmaBuffer,
    /// Physical address of the memory, and of that which is nobody's.
    address: u32,
    nobodys: DmaBuffer,
    scratch: u32,
    hardware: Arc<Hardware>,
    reclaimer: Arc<Reclaimer>,
    #[pin]
    state: SpinLock<State<P>>,
    #[pin]
    moved: CondVar,
    /// One thread at a time ends jobs.
    #[pin]
    completion: Mutex<()>,
    #[pin]
    hang_check: DelayedWork<Queue<P>>,
    /// What it did when it hung.
    #[pin]
    dumps: Dumps,
    #[pin]
    dump_work: Work<Queue<P>, { dump::WORK }>,
    setup: Setup,
    /// How often the core was reset because it hung, or came back after it was unbound.
    resets: Atomic<u32>,
    in_use: InUse,
}

impl<P: Payload> Queue<P> {
    /// The queue of the core `hardware`, which knows its page table from now on. `ENOMEM`: no
    /// memory that it reaches.
    pub(crate) fn new(
        hardware: Arc<Hardware>,
        reclaimer: Arc<Reclaimer>,
        setup: Setup,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let memory = DmaBuffer::new(hardware.memory(), BYTES)?;
        let nobodys = DmaBuffer::new(hardware.memory(), SCRATCH_BYTES)?;
        // The DMA mask has all of it below 4 GiB.
        let address = u32::try_from(memory.dma_address())?;
        let scratch = u32::try_from(nobodys.dma_address())?;
        let in_use = InUse::new()?;
        let history = History::new(BYTES)?;
        let (newest, resets) = (setup.newest, setup.resets);
        let dump_level = setup.dump_level;
        hardware.set_vector_table(setup.table);
        Arc::pin_init(
            pin_init!(Self {
                memory,
                address,
                nobodys,
                scratch,
                hardware,
                reclaimer,
                state <- new_spinlock!(State::new(newest, history), "galcore vector"),
                moved <- new_condvar!("galcore vector"),
                completion <- new_mutex!((), "galcore completion"),
                hang_check <- new_delayed_work!("galcore hang check"),
                dumps <- Dumps::new(dump_level),
                dump_work <- new_work!("galcore dump"),
                setup,
                resets: Atomic::new(resets),
                in_use,
            }),
            GFP_KERNEL,
        )
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size() + self.nobodys.size()
    }

    /// How often the core was reset because it hung, or came back after it was unbound.
    pub(crate) fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// Whether nothing runs in it any more, and nothing will.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().phase == Phase::Dead
    }

    /// How long the core has been busy.
    pub(crate) fn load(&self) -> Load {
        let state = self.state.lock();
        let process = state.jobs.get(0).map(|(_, slot)| slot.load.process);
        state.meter.load(process, Stamp::now())
    }

    /// Physical address of memory that is nobody's.
    pub(crate) fn scratch(&self) -> u32 {
        self.scratch
    }

    /// Starts the front end on nothing but an END: its interrupt shows that the line works. The
    /// queue must not be open yet.
    pub(crate) fn start_test(&self) -> Result<(), kernel::error::Error> {
        // The first unit is never a job's.
        self.memory.write_words(0, &words::end(END_INTERRUPT))?;
        sys::barrier::write();
        self.hardware.start_vector(self.address, 1);
        Ok(())
    }

    /// Opens the queue. The front end must be stopped.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Open;
        state.follow_modes();
    }

    /// Lets nobody submit any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.phase.stop();
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }

    /// What a job of `author`'s would find in the core now.
    pub(crate) fn entry(&self, author: &Author<'_>) -> Entry {
        self.state.lock().core.entry(author, self.scratch)
    }

    /// Reserves a place with an interrupt for `work`, if there is one. Does not wait.
    ///
    /// What the caller's locks protect when it calls this is so when the job gets its place in the
    /// order of the queue: whoever ties memory to the newest job later ties it to this one.
    ///
    /// On error, and when there is no place, nothing has changed. `OutOfResources`: more words than
    /// [`MAX_WORDS`]. `GpuNotResponding`: the queue is closed.
    pub(crate) fn reserve(&self, work: &mut Submission<'_, P>) -> Result<Attempt> {
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
        if state.is_paused || state.phase != Phase::Open {
            return Ok(Attempt::Full);
        }
        let entry = state.core.entry(&work.author, self.scratch);
        // The name of a context that is new now, and was then, is nothing that a check rests on.
        let name = match state.core.knows(entry.context) {
            true => entry.context,
            false => work.entry.context,
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
        // CAST: 32 bits into at least 32.
        let wipes = entry.wipes.count_ones() as usize;
        let length = 2 * wipes + context + others + words::drain().len() + 2 * events + 2;
        let bytes = (4 * length).next_multiple_of(UNIT);
        let Some(at) = state.find(bytes) else {
            return Ok(Attempt::Full);
        };
        let early = work.early.each_mut();
        let process = work.late.process_id();
        let job = Job {
            process: work.author.process,
            early: early.map(|payload| match payload {
                Some(payload) => core::mem::take(*payload),
                None => P::default(),
            }),
            late: core::mem::take(work.late),
            // CAST: less than `BYTES`.
            units: length.div_ceil(2) as u32,
            is_filled: false,
            is_dropped: false,
            retired: List::new(),
            retired_count: 0,
        };
        let (id, number) = state.take(at, bytes, job).map_err(|job| {
            *work.late = job.late;
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
        if state.jobs.len() == 1 {
            state.meter.begin(Stamp::now());
        }
        self.trace_submit(&mut state, (id, number), entry.context, work);
        state.core.note(&work.author, &entry, work.exit);
        Ok(Attempt::Place(Reservation {
            at,
            id,
            number,
            entry,
            has_early,
            _no_preemption: sys::NoPreemption::new(),
        }))
    }

    /// Writes the words of a job, with the same commands as when its place was reserved, and lets
    /// it run.
    pub(crate) fn fill(self: &Arc<Self>, place: Reservation, commands: [&[u32]; 2]) {
        // Every offset was checked against the memory's size when the place was reserved.
        let _ = self.write(&place, commands);
        sys::barrier::write();
        let mut state = self.state.lock();
        if let Some(job) = state.jobs.load_at(place.number) {
            job.is_filled = true;
        }
        self.start_next(&mut state);
        let check = !core::mem::replace(&mut state.is_checked, true);
        let (is_off, prints) = (state.is_off, state.prints);
        drop(state);
        let (number, is_switched) = (place.number, place.entry.is_switched);
        drop(place);
        if check {
            self.check_soon(is_off);
        }
        if prints {
            let [context, commands] = commands;
            let context = if is_switched { context } else { &[][..] };
            print_words(self.setup.core, number, &[context, commands]);
        }
    }

    /// The oldest job from number `from` on whose words are in the memory, all of them. Takes the
    /// queue's lock for a moment.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        let state = self.state.lock();
        let history = &state.history;
        let newest = state.jobs.newest();
        let written = state.written(newest);
        history.given(from, self.address, [newest, written, state.completed])
    }

    /// Copies words of a job, from byte `offset` of its own on. Whether they are those: its place
    /// may have been given to another.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        job.copy(&self.memory, offset, to, |number| {
            self.state.lock().history.job(number)
        })
    }

    fn write(
        &self,
        place: &Reservation,
        [context, commands]: [&[u32]; 2],
    ) -> Result<(), kernel::error::Error> {
        let mut at = place.at;
        let mut emit = |words: &[u32]| -> Result<(), kernel::error::Error> {
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

    /// Starts the oldest job, if its words are there and it has not been started.
    fn start_next(&self, state: &mut State<P>) {
        // Who still fills a place when the queue is closed does not start it: the core may be reset
        // already.
        if state.is_running || state.phase.is_stopped() || state.is_off {
            return;
        }
        let number = state.jobs.get(0).map_or(0, |(_, slot)| slot.number);
        if let Some((_, at, job)) = state.jobs.oldest() {
            if job.is_filled && !job.is_dropped {
                self.trace_begin(number);
                // CAST: less than `BYTES`. The memory ends below 4 GiB.
                self.hardware
                    .start_vector(self.address + at as u32, job.units);
                state.is_running = true;
                state.raised = 0;
            }
        }
    }
}

impl<P: Payload> Waited for Queue<P> {
    fn newest(&self) -> u64 {
        self.state.lock().jobs.newest()
    }

    fn is_idle(&self) -> bool {
        self.state.lock().jobs.len() == 0
    }

    fn tie(&self, number: u64, item: ListArc<Retired>) -> Option<ListArc<Retired>> {
        let mut state = self.state.lock();
        match state.jobs.load_at(number) {
            Some(job) => {
                job.retired.push_back(item);
                job.retired_count += 1;
                None
            }
            None => Some(item),
        }
    }

    fn is_over(&self, number: u64) -> bool {
        self.state.lock().completed >= number
    }
}
