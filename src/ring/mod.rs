// SPDX-License-Identifier: GPL-2.0-only

//! The ring that a core's front end runs, and the jobs in it.
//!
//! One piece of coherent memory. At its end the front end idles in a WAIT and a LINK back to it. A job's
//! words are written behind it (what makes the GPU forget another process's addresses, a LINK to the
//! client's context and back if another's is loaded, or the states of a context that the client keeps
//! itself, a pipe switch if one is due, the client's checked words, an event, a new WAIT and LINK), and then
//! the old WAIT becomes a LINK to it: first the target, a barrier, then the opcode. So a client's words run
//! from the kernel's memory, never from its own.
//!
//! The ring is generic over what happens when a job ends ([`Payload`]): it does not know what a client is.
//!
//! # Addresses that stay in the GPU
//!
//! The ring knows for each pipe whose commands were the last to use it
//! ([`Author`](crate::stream::scrub::Author)). If another author's come, the states that take addresses are
//! loaded with harmless ones in front ([`crate::stream::scrub`]), and the context is loaded anew. When a
//! process has freed memory, those of its states that hold addresses there, and no others
//! ([`crate::stream::loaded`]), are loaded with harmless ones in front of its next commands.
//!
//! # Translations that stay in the TLB
//!
//! A job flushes the TLB if the address space has changed since the last job that did; when it has ended the
//! address space is told ([`Vm::flushed`]).
//!
//! # Locks
//!
//! `galcore completion` lets one thread at a time end jobs: the interrupt's or the hang check's. What they
//! do at their end is done under it, so it comes before all that that takes.
//!
//! `galcore ring` ([`Ring::state`]) is a spinlock, as are all locks that the interrupt's thread takes and
//! clients too: a thread of low priority that is preempted while it has one would hold up everybody. It is
//! held for moments only. Who has a place to fill ([`Reservation`]) is not preempted either; others wait for it
//! interruptibly. Nothing is locked under it but the allocator.

mod frame;
mod hang;
mod hider;
mod inflight;
mod job;
mod reclaim;
mod space;
mod state;

use crate::{
    error::{
        Error,
        Result, //
    },
    hw::Hardware,
    memory::gpu_address,
    mmu::{
        Tlb,
        Vm,
        NO_TRANSLATIONS, //
    },
    stream::{
        checker::Engines,
        scrub::{
            self,
            PIPES, //
        },
        words, //
    },
    sys::{
        self,
        dma::DmaBuffer, //
    }, //
};
use frame::{
    Frame,
    Section, //
};
use inflight::IDS;
use job::Job;
use kernel::{
    list::ListArc,
    new_delayed_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        new_condvar,
        new_mutex,
        new_spinlock,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Jiffies, //
    },
    workqueue::DelayedWork, //
};
use space::Space;
use state::{
    Place,
    State, //
};

pub(crate) use {
    frame::{
        Checked,
        InContext,
        Source,
        Stream, //
    },
    hider::Hider,
    job::{
        JobInfo,
        Outcome,
        Payload, //
    },
    reclaim::{
        Kept,
        Numbers,
        Reclaimer,
        Retired,
        Shown,
        Waited,
        MAX_CORES, //
    }, //
};

/// Bytes of the ring's memory.
const RING_BYTES: usize = 1 << 20;

/// Bytes at the end that the front end may prefetch but that hold no command.
const PREFETCH_MARGIN: usize = 64;

/// Bytes of the ring that hold commands.
const USABLE_BYTES: usize = RING_BYTES - PREFETCH_MARGIN;

/// Bytes of the idle loop.
const WAIT_LINK_BYTES: usize = 16;

/// Bytes around a client's words at most: MMU flush, scrub of both pipes, LINK to a context, pipe switch, stall, drain,
/// event, idle loop.
const FRAME_BYTES: usize = 4
    * (words::FLUSH_MMU_WORDS
        + PIPES * words::SELECT_PIPE_WORDS
        + scrub::MAX_WORDS
        + words::LINK_WORDS
        + words::EVENT_WORDS)
    + Section::MAX_BYTES
    + WAIT_LINK_BYTES;

/// The most words of a client's in one job.
pub(crate) const MAX_STREAM_WORDS: usize = (Space::largest(USABLE_BYTES) - FRAME_BYTES) / 4;

/// The most words of the states of a context in a client's memory: 64 KiB.
pub(crate) const MAX_STATE_WORDS: usize = 64 * 1024 / 4;

/// The most words of a client's in one job that may have such a context in front.
pub(crate) const MAX_WORDS_BEHIND_STATES: usize =
    MAX_STREAM_WORDS - MAX_STATE_WORDS - Section::MAX_BYTES / 4;

/// How long a submitter waits without any progress of the GPU, in milliseconds (`gcdGPU_TIMEOUT` of
/// the 4.6.9 driver).
pub(crate) const GPU_TIMEOUT: u32 = 20_000;

/// The ring of one core.
#[pin_data]
pub(crate) struct Ring<P: Payload> {
    memory: DmaBuffer,
    /// GPU address of the memory.
    address: u32,
    event_padding: bool,
    /// Bits of the caches that the core's engines have.
    caches: u32,
    hardware: Arc<Hardware>,
    vm: Arc<Vm>,
    reclaimer: Arc<Reclaimer>,
    /// The change of the address space that the core's TLB has been flushed past.
    flushed: Atomic<u64>,
    #[pin]
    state: SpinLock<State<P>>,
    #[pin]
    moved: CondVar,
    /// One thread at a time ends jobs.
    #[pin]
    completion: Mutex<()>,
    #[pin]
    hang_check: DelayedWork<Ring<P>>,
}

/// How long a submitter goes on waiting for its place.
pub(crate) struct PlaceTimeout {
    /// What [`State::moves`] was before the last try.
    moves: u64,
    completed: u64,
    left: Jiffies,
}

/// A place in the ring for one job, and the sole right to write to the ring. To be filled by
/// [`Ring::fill`], soon: others wait. As long as it lives the thread must not sleep, and is not preempted.
///
/// Dropped without being filled, it is given back: the job ends as [`Outcome::NeverRun`].
pub(crate) struct Reservation<'r, P: Payload> {
    ring: &'r Arc<Ring<P>>,
    place: Place,
    frame: Frame,
    /// LINK back from the context's states.
    back: Option<[u32; 2]>,
    /// Others wait until it is filled, whatever their priority. `None`: it is.
    no_preemption: Option<sys::NoPreemption>,
}

impl<P: Payload> Reservation<'_, P> {
    /// The job's number.
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// If the context is loaded: the LINK that its states must end with.
    pub(crate) fn back(&self) -> Option<[u32; 2]> {
        self.back
    }

    /// Whether the states of the client's own context are loaded.
    pub(crate) fn loads_states(&self) -> bool {
        self.frame.states.is_some()
    }
}

impl<P: Payload> Drop for Reservation<'_, P> {
    fn drop(&mut self) {
        if self.no_preemption.is_some() {
            self.ring.give_back(self.place);
        }
    }
}

/// What became of a try to reserve a place in the ring.
pub(crate) enum Attempt<'a, 'r, P: Payload> {
    /// There it is.
    Reserved(&'a mut Reservation<'r, P>),
    /// There is none now.
    Full,
    /// The context must be loaded first, and is not ready for that.
    NotLoaded,
}

impl<P: Payload> Ring<P> {
    /// Allocates the ring of the core `hardware`. `ENOMEM`: no memory that the GPU reaches.
    pub(crate) fn new(
        hardware: Arc<Hardware>,
        base_address: u32,
        engines: Engines,
        vm: Arc<Vm>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let memory = DmaBuffer::new(hardware.device(), RING_BYTES)?;
        let spares = KVVec::with_capacity(IDS, GFP_KERNEL)?;
        let address = gpu_address(memory.dma_address(), RING_BYTES, base_address).ok_or(ENOMEM)?;
        Arc::pin_init(
            pin_init!(Self {
                memory,
                address,
                event_padding: hardware.identity().needs_event_padding(),
                caches: words::caches(engines.pipe_3d, engines.pipe_2d),
                hardware,
                vm,
                reclaimer,
                flushed: Atomic::new(NO_TRANSLATIONS),
                state <- new_spinlock!(State::new(spares), "galcore ring"),
                moved <- new_condvar!("galcore ring"),
                completion <- new_mutex!((), "galcore completion"),
                hang_check <- new_delayed_work!("galcore hang check"),
            }),
            GFP_KERNEL,
        )
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size()
    }

    /// GPU address of the ring's memory.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Puts words that set the core up, and an END, at the ring's start; returns their GPU address and
    /// their length in units of 8 bytes. The front end must be stopped.
    pub(crate) fn stage(&self, words: &[[u32; 10]]) -> Result<(u32, u32), kernel::error::Error> {
        let mut at = 0;
        for words in words {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
        }
        self.memory.write_words(at, &[words::END, 0])?;
        sys::barrier::write();
        // CAST: less than `RING_BYTES`.
        Ok((self.address, (at / 8 + 1) as u32))
    }

    /// Makes an idle loop at the ring's start and opens the ring; returns the loop's GPU address
    /// and its length in units of 8 bytes. The front end must be stopped, and have been reset.
    pub(crate) fn start(&self) -> Result<(u32, u32), kernel::error::Error> {
        self.memory
            .write_words(0, &words::wait_link(self.address))?;
        sys::barrier::write();
        let mut state = self.state.lock();
        state.start();
        // The reset has emptied the TLB.
        self.flushed.store(self.vm.changes(), Relaxed);
        // CAST: 16 bytes.
        Ok((self.address, (WAIT_LINK_BYTES / 8) as u32))
    }

    /// Whether the ring takes jobs.
    pub(crate) fn is_running(&self) -> bool {
        !self.state.lock().is_stopped
    }

    /// Lets nobody submit any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }

    /// Drops what is under way. The front end must be stopped for good, and the ring closed.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.close();
        loop {
            let Some(done) = self.state.lock().pop() else {
                break;
            };
            let mut job = done.load;
            job.payload.end(Outcome::Dropped);
            self.reclaimer.take(&mut job.retired, job.retired_count);
        }
        let mut state = self.state.lock();
        state.completed = state.in_flight.newest();
        state.is_dead = true;
        drop(state);
        self.flushed.store(NO_TRANSLATIONS, Release);
        self.vm.flushed();
        self.moved.notify_all();
    }

    /// GPU address of the idle loop at the ring's end, where the front end rests when all is done.
    pub(crate) fn idle_loop(&self) -> u32 {
        let wait = self.state.lock().wait;
        self.gpu(wait)
    }

    /// GPU address of a byte of the ring.
    fn gpu(&self, offset: usize) -> u32 {
        // CAST: less than `RING_BYTES`. The ring ends below bit 31.
        self.address + offset as u32
    }

    /// The jobs under way, oldest first, one at a time: calls `look` with each.
    pub(crate) fn for_each_job(&self, mut look: impl FnMut(JobInfo)) {
        let mut age = 0;
        // Ends: no more than there are ids.
        while age < IDS {
            let state = self.state.lock();
            let Some((event, slot)) = state.in_flight.get(age) else {
                return;
            };
            let info = JobInfo {
                number: slot.number,
                event,
                process: slot.load.payload.process(),
                uses: slot.load.uses,
                words: (self.gpu(slot.start), self.gpu(slot.mark)),
                retired: slot.load.retired_count,
            };
            drop(state);
            look(info);
            age += 1;
        }
    }

    /// Puts an event at the ring's end whose job does what `payload` says; returns the job's number.
    ///
    /// On error the ring is as it was and `payload` is untouched. `Interrupted`: a Unix signal came
    /// while waiting for a place. `GpuNotResponding`: no place for [`GPU_TIMEOUT`].
    pub(crate) fn submit(self: &Arc<Self>, payload: &mut P) -> Result<u64> {
        let mut timeout = self.place_timeout();
        loop {
            if let Attempt::Reserved(place) = self.reserve(None, payload, None, &mut None)? {
                return self.fill(place, None);
            }
            self.wait_for_place(&mut timeout)?;
        }
    }

    /// What a submitter that has not tried yet needs for [`Ring::wait_for_place`].
    pub(crate) fn place_timeout(&self) -> PlaceTimeout {
        let state = self.state.lock();
        PlaceTimeout {
            moves: state.moves,
            completed: state.completed,
            left: msecs_to_jiffies(GPU_TIMEOUT),
        }
    }

    /// Waits until trying again is worth it.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: none ended for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_place(&self, timeout: &mut PlaceTimeout) -> Result {
        let mut state = self.state.lock();
        while state.moves == timeout.moves {
            timeout.left = self.wait(&mut state, timeout.left)?;
        }
        timeout.moves = state.moves;
        if state.completed != timeout.completed {
            timeout.completed = state.completed;
            timeout.left = msecs_to_jiffies(GPU_TIMEOUT);
        }
        Ok(())
    }

    /// Reserves a place with an event id for a job with `stream` (or nothing) and `payload`, and the right to
    /// write, if all three can be had at once. Does not wait.
    ///
    /// What the caller's locks protect when it calls this is so when the job gets its place in
    /// the order of the ring: whoever ties memory to the newest job later ties it to this one.
    ///
    /// On error, and when there is no place, nothing has changed. `InvalidArgument`: more than
    /// [`MAX_STREAM_WORDS`], or than [`MAX_STATE_WORDS`] and [`MAX_WORDS_BEHIND_STATES`].
    /// `GpuNotResponding`: the ring is closed.
    ///
    /// `count`, if given, may change the payload once the place is certain. `room` is where the answer is put, to
    /// be moved no more.
    pub(crate) fn reserve<'a, 'r>(
        self: &'r Arc<Self>,
        stream: Option<&Stream<'_>>,
        payload: &mut P,
        count: Option<&dyn Fn(&mut P)>,
        room: &'a mut Option<Reservation<'r, P>>,
    ) -> Result<Attempt<'a, 'r, P>> {
        let states = stream.and_then(Stream::states);
        let most = match states {
            Some(_) => MAX_WORDS_BEHIND_STATES,
            None => MAX_STREAM_WORDS,
        };
        if stream.is_some_and(|stream| stream.commands.words.len() > most)
            || states.is_some_and(|states| states.words.len() > MAX_STATE_WORDS)
        {
            return Err(Error::InvalidArgument);
        }
        let commands = stream.map(|stream| stream.commands);
        let command_bytes = commands.map_or(0, |commands| commands.bytes());
        let mut state = self.state.lock();
        if state.is_stopped {
            return Err(Error::GpuNotResponding);
        }
        let context = stream.and_then(|stream| stream.context);
        let author = stream.and_then(|stream| stream.author.map(|(author, _)| author));
        let uses = stream.map_or(Engines::default(), |stream| stream.commands.uses);
        let source = match context {
            Some(context) if state.gpu.needs(context.owner, author, uses) => context.source,
            _ => Source::Nothing,
        };
        if let Source::Unready = source {
            return Ok(Attempt::NotLoaded);
        }
        let uses = source.with_uses(uses);
        let changes = self.vm.changes();
        let flush = state.gpu.flushed != changes;
        let frame = Frame::new(self.caches, &state.gpu, stream, source, uses, flush);
        let until_loaded = frame.until_loaded();
        let state_bytes = match (&frame.states, states) {
            (Some(_), Some(states)) => states.bytes(),
            _ => 0,
        };
        let bytes =
            command_bytes + self.event_bytes() + WAIT_LINK_BYTES + frame.bytes() + state_bytes;
        let Some(at) = state.find(bytes) else {
            return Ok(Attempt::Full);
        };
        if let Some(count) = count {
            count(payload);
        }
        let context_copy = match source {
            Source::Copy(context, _) => Some(context.clone()),
            _ => None,
        };
        let job = Job::new(core::mem::take(payload), context_copy, uses, changes);
        let place = state.reserve(at, bytes, job).map_err(|job| {
            *payload = job.payload;
            Error::GpuNotResponding
        })?;
        state.gpu.flushed = changes;
        if let Some(commands) = commands {
            state.gpu.pipe = Some(commands.exit);
            state.gpu.context = context.map(|context| context.owner);
            state.gpu.authors.note(uses, author);
        }
        let back = frame.load.map(|_| {
            let target = self.gpu(at + until_loaded);
            // CAST: less than `RING_BYTES`.
            [words::link(target, (bytes - until_loaded) as u32), target]
        });
        Ok(Attempt::Reserved(room.insert(Reservation {
            ring: self,
            place,
            frame,
            back,
            no_preemption: Some(sys::NoPreemption::new()),
        })))
    }

    /// Writes the words of a job, with the same `stream` as when its place was reserved, and starts it; returns its
    /// number.
    pub(crate) fn fill(
        self: &Arc<Self>,
        reservation: &mut Reservation<'_, P>,
        stream: Option<&Stream<'_>>,
    ) -> Result<u64> {
        let place = reservation.place;
        let no_preemption = reservation.no_preemption.take();
        let written = self.write(place, &reservation.frame, stream);
        let mut state = self.state.lock();
        state.filled();
        self.placed(state);
        drop(no_preemption);
        // Every offset was checked against the ring's size when its place was reserved.
        written.map(|()| place.number).map_err(Error::from)
    }

    /// A place that will not be filled becomes a job of nothing but an event.
    #[cold]
    #[inline(never)]
    fn give_back(self: &Arc<Self>, place: Place) {
        let event = place.wait - self.event_bytes();
        let target = self.gpu(event);
        // CAST: few bytes.
        let bytes = (self.event_bytes() + WAIT_LINK_BYTES) as u32;
        // Where there is nothing to skip, the event's own words take its place.
        let link = [words::link(target, bytes), target];
        let write = || {
            self.memory.write_words(place.at, &link)?;
            self.write_end(place, event)?;
            self.start_at(place)
        };
        // Every offset was checked against the ring's size when its place was reserved.
        let _ = write();
        let mut state = self.state.lock();
        state.given_back();
        self.placed(state);
    }

    /// A place has been filled, or given back: others may have one.
    fn placed(self: &Arc<Self>, mut state: Guard<'_, State<P>, SpinLockBackend>) {
        let check = !core::mem::replace(&mut state.is_checked, true);
        let waiters = state.waiters > 0;
        drop(state);
        if waiters {
            self.moved.notify_all();
        }
        if check {
            self.check_again();
        }
    }

    /// Waits for something to move, `left` jiffies at most; returns what is left of them.
    fn wait(
        &self,
        state: &mut Guard<'_, State<P>, SpinLockBackend>,
        left: Jiffies,
    ) -> Result<Jiffies> {
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        state.waiters += 1;
        let woken = self.moved.wait_interruptible_timeout(state, left);
        state.waiters -= 1;
        match woken {
            CondVarTimeoutResult::Woken { jiffies } => Ok(jiffies),
            CondVarTimeoutResult::Timeout => Ok(0),
            CondVarTimeoutResult::Signal { .. } => Err(Error::Interrupted),
        }
    }

    /// Bytes of an event.
    fn event_bytes(&self) -> usize {
        words::event_len(self.event_padding) * 4
    }

    /// Writes a job and links it in.
    fn write(
        &self,
        place: Place,
        frame: &Frame,
        stream: Option<&Stream<'_>>,
    ) -> Result<(), kernel::error::Error> {
        let mut at = place.at;
        let emit = |words: &[u32]| -> Result<(), kernel::error::Error> {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
            Ok(())
        };
        frame.emit(self.caches, self.hardware.mmu_version(), stream, emit)?;
        self.write_end(place, at)?;
        self.start_at(place)
    }

    /// Writes a job's event at offset `at`, and the idle loop behind it.
    fn write_end(&self, place: Place, at: usize) -> Result<(), kernel::error::Error> {
        let event = words::event(place.event);
        self.memory
            .write_words(at, &event[..words::event_len(self.event_padding)])?;
        self.memory
            .write_words(place.wait, &words::wait_link(self.gpu(place.wait)))
    }

    /// Sends the front end to a job whose words are there.
    fn start_at(&self, place: Place) -> Result<(), kernel::error::Error> {
        let bytes = place.wait + WAIT_LINK_BYTES - place.at;
        // All of it must be in memory before the front end can be sent there.
        sys::barrier::write();
        let target = self.gpu(place.at);
        self.memory.write(place.previous_wait + 4, target)?;
        sys::barrier::write();
        // CAST: less than `RING_BYTES`.
        self.memory
            .write(place.previous_wait, words::link(target, bytes as u32))?;
        sys::barrier::write();
        Ok(())
    }

    /// Ends the jobs that raised events say are done.
    pub(crate) fn complete(self: &Arc<Self>) {
        let completing = self.completion.lock();
        // Taken under the lock: bits that wait outside could outlive their jobs.
        let fired = self.hardware.take_events();
        let (done, certain) = {
            let state = self.state.lock();
            (state.in_flight.done(fired), state.in_flight.certain(fired))
        };
        // Events come in order. If one before the newest has not, one has been lost, or this one is
        // not true: the front end's place tells.
        let done = if done > certain {
            done.min(certain.max(self.passed()))
        } else {
            done
        };
        self.end_oldest(done);
        drop(completing);
    }

    /// How many jobs, from the oldest, the front end has passed.
    ///
    /// In a job, those before it are done: their LINK was behind the drain. In its idle loop it
    /// is done too if the modules say that they are idle; the address alone may be a prefetch's.
    fn passed(&self) -> usize {
        let place = self.hardware.position().wrapping_sub(self.address);
        let idle = self.hardware.is_idle();
        // CAST: 32 bits into at least 32.
        let place = place as usize;
        let state = self.state.lock();
        state
            .in_flight
            .position(|start, wait| (start..=wait + WAIT_LINK_BYTES).contains(&place))
            .map_or(0, |(index, wait)| {
                index + usize::from(place >= wait && idle)
            })
    }

    /// Ends the oldest `count` jobs. The caller holds `completion`.
    fn end_oldest(self: &Arc<Self>, count: usize) {
        if count == 0 {
            return;
        }
        let mut state = self.state.lock();
        for _ in 0..count {
            let Some(mut done) = state.pop() else {
                break;
            };
            drop(state);
            let job = &mut done.load;
            job.payload.end(match job.is_empty {
                false => Outcome::Done,
                true => Outcome::NeverRun,
            });
            if job.flushed > self.flushed.load(Relaxed) {
                self.flushed.store(job.flushed, Release);
            }
            self.reclaimer.take(&mut job.retired, job.retired_count);
            if let Some(context) = job.context.take() {
                self.reclaimer.drop_later(context);
            }
            // A long list is freed here: that may sleep.
            let payload = core::mem::take(&mut job.payload);
            let spare = payload.is_reusable().then_some(payload);
            state = self.state.lock();
            state.completed = state.completed.max(done.number);
            state.moves += 1;
            if let Some(payload) = spare {
                // With no room left it is freed: it holds nothing, and is small.
                let _ = state.spares.push_within_capacity(payload);
            }
        }
        let waiters = state.waiters > 0;
        drop(state);
        self.vm.flushed();
        if waiters {
            self.moved.notify_all();
        }
    }

    /// A payload without anything to do, with memory of an earlier one's if there is such.
    pub(crate) fn empty_payload(&self) -> P {
        self.state.lock().spares.pop().unwrap_or_default()
    }

    /// Waits until job `number` has ended and done what it had to, `milliseconds` at most.
    pub(crate) fn wait_for(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(milliseconds).saturating_add(1);
        while state.completed < number {
            if state.is_stopped {
                return Err(Error::GpuNotResponding);
            }
            left = self.wait(&mut state, left)?;
        }
        Ok(())
    }

    /// Waits until job `number` has ended and done what it had to, as long as the GPU makes progress.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: none ended for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_progress(&self, number: u64) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(GPU_TIMEOUT);
        while state.completed < number {
            if state.is_stopped {
                return Err(Error::GpuNotResponding);
            }
            let before = state.completed;
            left = self.wait(&mut state, left)?;
            if state.completed != before {
                left = msecs_to_jiffies(GPU_TIMEOUT);
            }
        }
        Ok(())
    }

    /// Whether job `number` has ended and done what it had to.
    pub(crate) fn has_ended(&self, number: u64) -> bool {
        self.state.lock().completed >= number
    }

    /// Waits for job `number` without minding Unix signals; says whether it has ended.
    pub(crate) fn poll_for(&self, number: u64, milliseconds: u32) -> bool {
        for _ in 0..milliseconds {
            let state = self.state.lock();
            if state.completed >= number || state.is_dead {
                return true;
            }
            drop(state);
            fsleep(Delta::from_millis(1));
        }
        false
    }
}

impl<P: Payload> Tlb for Ring<P> {
    fn flushed(&self) -> u64 {
        self.flushed.load(Acquire)
    }

    fn flush(self: Arc<Self>) {
        {
            let state = self.state.lock();
            if state.gpu.flushed == self.vm.changes() {
                // By a job that is under way, or has ended just now.
                return;
            }
        }
        let (mut payload, mut room) = (P::default(), None);
        let attempt = self.reserve(None, &mut payload, None, &mut room);
        // Full, it is not idle either: the next job flushes. Closed, it is being stopped.
        if let Ok(Attempt::Reserved(place)) = attempt {
            let _ = self.fill(place, None);
        }
    }
}

impl<P: Payload> Waited for Ring<P> {
    fn newest(&self) -> u64 {
        self.state.lock().in_flight.newest()
    }

    fn tie(&self, number: u64, item: ListArc<Retired>) -> Option<ListArc<Retired>> {
        let mut state = self.state.lock();
        match state.in_flight.load_at(number) {
            Some(job) => {
                job.retired.push_back(item);
                job.retired_count += 1;
                None
            }
            None => Some(item),
        }
    }

    fn tied(&self) -> u64 {
        let state = self.state.lock();
        state.in_flight.loads().map(|job| job.retired_count).sum()
    }
}
