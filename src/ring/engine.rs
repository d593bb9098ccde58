// SPDX-License-Identifier: GPL-2.0-only

//! The jobs of a core: what all kinds of front ends share.
//!
//! A kind of front end is a [`FrontEnd`]: the ring ([`super::Ring`]), which runs job after job by
//! itself, or the single start of cores for vector graphics (`vector`), started once for each job.
//! Places, job numbers, completion, hang check, recovery, power, dumps and traces are shared; the
//! trait names the rest.

use super::{
    dump::{
        self,
        Addressing,
        Dumps,
        Evidence, //
    },
    history::History,
    inflight::IDS,
    job::{
        Job,
        Outcome,
        Payload, //
    },
    meter::Load,
    phase::Phase,
    reclaim::{
        Reclaimer,
        Retired,
        Waited, //
    },
    recovery::Cause,
    state::State,
    turns::Epoch,
    verdict::Fate, //
};
use crate::sys::prelude::*;
use crate::{
    hw::{
        Hardware,
        Progress, //
    },
    sys::{
        clock::Stamp,
        dma::DmaBuffer,
        unload::InUse, //
    }, //
};
use kernel::{
    list::ListArc,
    new_delayed_work,
    new_work,
    workqueue::{
        DelayedWork,
        Work, //
    }, //
};

/// What a kind of front end does in its own way. "The engine is ours" means: no job gets a place,
/// the last place is filled, and the caller holds `completion`.
pub(crate) trait FrontEnd: Sized + Send + Sync + 'static {
    /// What a job does when it ends.
    type Payload: Payload;
    /// What the front end keeps of a job.
    type Job: Send + Unpin;
    /// Its part of the engine's state.
    type State: Send + Unpin;

    /// Jobs under way at once, [`IDS`] at most.
    const JOBS: usize;
    /// Emptied payloads that are kept for [`Engine::empty_payload`].
    const SPARES: usize;
    /// Bytes of the memory that hold jobs.
    const BYTES: usize;
    /// Bytes at the end of each place that the next job uses, too.
    const GAP: usize;
    /// Whether its clock has a divider.
    const HAS_DIVIDER: bool;

    /// The state of a core of which nothing is known. Its next job is `newest` + 1.
    fn state(newest: u64) -> Self::State;

    /// The oldest job was taken out; its place ended at `mark`.
    fn popped(state: &mut Self::State, mark: usize);

    /// Whether a job has commands of a process, and whether these run in the context that earlier
    /// commands have loaded.
    fn rests_on(job: &Self::Job) -> (bool, bool);

    /// Whether a job is under way that the core should make progress with.
    fn is_running(state: &State<Self>) -> bool;

    /// The oldest job is another one, or its words are written, or the core is on.
    fn begin(engine: &Engine<Self>, state: &mut State<Self>);

    /// Ends the jobs that raised interrupts say are done. The caller holds `completion`.
    fn end_raised(engine: &Arc<Engine<Self>>);

    /// Ends all jobs that are done, even without an interrupt; returns how far the core is. The
    /// caller holds `completion`.
    fn settle(engine: &Arc<Engine<Self>>) -> Progress;

    /// A job ends: called before the end of its payload.
    fn ending(engine: &Engine<Self>, job: &mut Self::Job, outcome: Outcome);

    fn ended(_: &Engine<Self>, _: Self::Job) {}

    /// Jobs have ended, or the TLB was flushed: memory that waits for either is looked at again.
    fn flushed(_: &Engine<Self>) {}

    /// The core holds no translations, and gets none before it is started.
    fn forget_translations(_: &Engine<Self>) {}

    fn enable_interrupts(hardware: &Hardware);

    /// What the addresses in a dump are.
    fn addressing(engine: &Engine<Self>) -> Addressing<'_>;

    /// What the core was doing. `has_culprit`: the oldest job is the guilty one. The engine is
    /// ours, and the front end is held. Does not wait.
    fn evidence(engine: &Engine<Self>, has_culprit: bool) -> Result<Evidence>;

    /// Keeps the front end from beginning and from leaving the oldest job. The engine is ours.
    fn hold(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// The end of [`FrontEnd::hold`], whether jobs have ended meanwhile or not.
    fn release(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// Lets the running job end, for [`REST_TIME`](super::REST_TIME) at most. The engine is ours.
    fn bring_to_rest(engine: &Arc<Engine<Self>>) -> Result;

    /// Whether the front end has begun the oldest job. The engine is ours.
    fn has_begun(engine: &Engine<Self>) -> bool;

    /// Prepares a core that was reset for the jobs, which have these fates; returns the address
    /// where the front end starts, and the number of units of 8 bytes there. The engine is ours.
    fn prepare(engine: &Engine<Self>, cause: Cause, fates: &[Fate; IDS]) -> Result<(u32, u32)>;

    /// Starts the front end there. The engine is ours.
    fn run(engine: &Arc<Engine<Self>>, start: (u32, u32)) -> Result;

    /// Stops the front end, which is at rest, before the core goes off. The engine is ours.
    fn stop(_: &Engine<Self>) {}

    fn went_off(state: &mut Self::State);

    /// Starts the front end of a core that has come on. The engine is ours.
    fn start_again(engine: &Arc<Engine<Self>>) -> Result;

    /// The machine falls asleep while a job runs for long: whether nothing runs any more, after
    /// `milliseconds` at most.
    fn hold_jobs(engine: &Arc<Engine<Self>>, newest: u64, milliseconds: u32) -> bool;

    /// The end of [`FrontEnd::hold_jobs`].
    fn release_jobs(_: &Arc<Engine<Self>>) {}
}

/// What the engine of a core takes over from the one before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past {
    /// Number of its last job.
    pub(crate) newest: u64,
    /// How often the core had been reset because it hung, or had come back.
    pub(crate) resets: u32,
    pub(super) epoch: Epoch,
}

/// The place of an engine: its core, and the parameters for it.
pub(crate) struct Seat {
    /// Index among the device's cores.
    pub(crate) core: usize,
    pub(crate) past: Past,
    /// Physical address of GPU address 0.
    pub(crate) base_address: u32,
    /// How long it may make no progress before it is reset, in milliseconds; 0: for ever.
    pub(crate) timeout: u32,
    /// How long a job may hold others up, in milliseconds; 0: for ever.
    pub(crate) job_timeout: u32,
    /// The parameter `stuckDump`; 0: no dumps.
    pub(crate) dump_level: u32,
}

impl Seat {
    /// [`Seat::job_timeout`], but not less than the time of a hang.
    pub(super) fn job_limit(&self) -> u32 {
        match self.job_timeout {
            0 => 0,
            limit => limit.max(self.timeout),
        }
    }
}

/// The jobs of one core.
#[pin_data]
pub(crate) struct Engine<F: FrontEnd> {
    pub(crate) front: F,
    pub(crate) seat: Seat,
    /// The words of jobs.
    pub(crate) memory: Arc<DmaBuffer>,
    /// Its address for the front end.
    pub(crate) address: u32,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    #[pin]
    pub(crate) state: SpinLock<State<F>>,
    /// Threads wait here until the core has moved.
    #[pin]
    pub(super) moved: CondVar,
    /// Submitters wait here until they are first in the line.
    #[pin]
    pub(super) turned: CondVar,
    /// How often the core was reset because it hung, or came back after it was unbound.
    pub(super) resets: Atomic<u32>,
    #[pin]
    pub(super) dumps: Dumps,
    #[pin]
    pub(super) dump_work: Work<Engine<F>, { dump::WORK }>,
    /// Held by the thread that ends jobs.
    #[pin]
    pub(super) completion: Mutex<()>,
    /// Taken before `completion` by threads that look at the core, so that the interrupt's thread
    /// waits for one of them at most.
    #[pin]
    pub(super) looks: Mutex<()>,
    #[pin]
    pub(super) hang_check: DelayedWork<Engine<F>>,
    pub(super) in_use: InUse,
}

impl<F: FrontEnd> Engine<F> {
    /// The engine of the core `hardware` in `memory`, whose address for the front end is `address`.
    #[inline(never)]
    pub(crate) fn new(
        front: F,
        hardware: Arc<Hardware>,
        memory: DmaBuffer,
        address: u32,
        reclaimer: Arc<Reclaimer>,
        seat: Seat,
    ) -> Result<Arc<Self>> {
        let memory = Arc::new(memory, GFP_KERNEL)?;
        let in_use = InUse::new()?;
        let spares = KVVec::with_capacity(F::SPARES, GFP_KERNEL)?;
        let history = History::new(F::BYTES)?;
        let (past, dump_level) = (seat.past, seat.dump_level);
        Arc::pin_init(
            pin_init!(Self {
                front,
                seat,
                memory,
                address,
                hardware,
                reclaimer,
                state <- new_spinlock!(State::init(spares, &past, history), "galcore ring"),
                moved <- new_condvar!("galcore ring"),
                turned <- new_condvar!("galcore line"),
                resets: Atomic::new(past.resets),
                dumps <- Dumps::new(dump_level),
                dump_work <- new_work!("galcore dump"),
                completion <- new_mutex!((), "galcore completion"),
                looks <- new_mutex!((), "galcore looks"),
                hang_check <- new_delayed_work!("galcore hang check"),
                in_use,
            }),
            GFP_KERNEL,
        )
    }

    /// What the core's next engine takes over.
    pub(crate) fn past(&self) -> Past {
        let state = self.state.lock();
        Past {
            newest: state.jobs.newest(),
            resets: self.resets(),
            epoch: state.line.epoch(),
        }
    }

    /// The memory of the jobs' words.
    pub(crate) fn memory(&self) -> &Arc<DmaBuffer> {
        &self.memory
    }

    /// Its address for the front end.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// The front end's address of the byte at `offset`.
    pub(crate) fn gpu(&self, offset: usize) -> u32 {
        // CAST: less than its size. It ends below bit 31, or 4 GiB.
        self.address + offset as u32
    }

    /// Stops all submission.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.phase.stop();
        state.moves += 1;
        drop(state);
        self.notify_closed();
    }

    /// Whether the engine is closed and all of its jobs have ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().phase == Phase::Dead
    }

    /// How often the core was reset because it hung, or came back after it was unbound. If the
    /// number has changed, the states of the core are lost.
    pub(crate) fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// How long the core has been busy, and with which process now.
    pub(crate) fn load(&self) -> Load {
        let state = self.state.lock();
        let oldest = state.jobs.get(0);
        let process = oldest.map(|(_, slot)| slot.load.payload.process());
        state.meter.load(process, Stamp::now())
    }

    /// A process has ended, with all of its jobs: drops the spare payloads that it used last.
    pub(crate) fn forget_process(&self, process: u64) {
        let is_its = |payload: &F::Payload| payload.process() == process;
        // Bounded: there are `SPARES` at most, and the process makes no more.
        loop {
            let spare = {
                let mut state = self.state.lock();
                let place = state.spares.iter().position(is_its);
                place.and_then(|place| state.spares.remove(place).ok())
            };
            if spare.is_none() {
                return;
            }
        }
    }
}

impl<F: FrontEnd> Waited for Engine<F> {
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

impl<F: FrontEnd> Job<F> {
    /// A job that keeps no memory yet.
    pub(crate) fn new(payload: F::Payload, own: F::Job) -> Self {
        Self {
            payload,
            outcome: Outcome::Done,
            cost: 0,
            retired: kernel::list::List::new(),
            retired_count: 0,
            own,
        }
    }
}
