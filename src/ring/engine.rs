// SPDX-License-Identifier: GPL-2.0-only

//! The jobs of a core, whatever its front end: what is the same for each kind.
//!
//! A kind of front end is a [`FrontEnd`]: the ring ([`super::Ring`]), which the front end follows
//! by itself, and the single start of cores for vector graphics (`vector`), which are started once
//! for each job. Both have the same places, numbers, ends, hang check, recovery, power, dumps and
//! traces; the trait names what they do in their own way.

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

/// What a kind of front end does in its own way. "The engine is ours" is said where nobody gets a
/// place, the last one is filled, and the caller holds `completion`.
pub(crate) trait FrontEnd: Sized + Send + Sync + 'static {
    /// What a job does when it has ended.
    type Payload: Payload;
    /// What it keeps of a job besides.
    type Job: Send + Unpin;
    /// What it knows besides.
    type State: Send + Unpin;

    /// Jobs at once, [`IDS`] at most.
    const JOBS: usize;
    /// Emptied payloads that are kept, for [`Engine::empty_payload`].
    const SPARES: usize;
    /// Bytes of the memory that hold jobs.
    const BYTES: usize;
    /// Bytes at the end of each place that belong to the next job, too.
    const GAP: usize;
    /// Its clock has a divider.
    const HAS_DIVIDER: bool;

    /// A core of which nothing is known, whose jobs are numbered behind `newest`.
    fn state(newest: u64) -> Self::State;

    /// The oldest job was taken out, whose place had `mark` at its end.
    fn popped(state: &mut Self::State, mark: usize);

    /// Does from now on what the admin wants.
    fn follow_modes(_: &mut Self::State) {}

    /// Whether a job has commands of a process's, and whether these run in the context of the ones
    /// in front of them and do not load it.
    fn rests_on(job: &Self::Job) -> (bool, bool);

    /// Whether a job is under way that the core is to get on with.
    fn is_running(state: &State<Self>) -> bool;

    /// Another job is the oldest, or it has its words, or the core is on.
    fn begin(engine: &Engine<Self>, state: &mut State<Self>);

    /// Ends what raised interrupts say has ended. The caller holds `completion`.
    fn end_raised(engine: &Arc<Engine<Self>>);

    /// Ends what has ended, whatever interrupts say; returns how far the core is. The caller holds
    /// `completion`.
    fn settle(engine: &Arc<Engine<Self>>) -> Progress;

    /// A job ends: before its payload's end.
    fn ending(engine: &Engine<Self>, job: &mut Self::Job, outcome: Outcome);

    /// A job has ended.
    fn ended(_: &Engine<Self>, _: Self::Job) {}

    /// Jobs have ended, or the core has changed otherwise: what memory waits for that looks again.
    fn flushed(_: &Engine<Self>) {}

    /// The core holds no translations any more, and will hold none before it is started.
    fn forget_translations(_: &Engine<Self>) {}

    /// Lets the core raise interrupts.
    fn enable_interrupts(hardware: &Hardware);

    /// How addresses of a dump are to be read.
    fn addressing(engine: &Engine<Self>) -> Addressing<'_>;

    /// What the core was doing. `has_culprit`: the oldest job is the guilty one. The engine is
    /// ours, and the front end is held. Waits for nothing.
    fn evidence(engine: &Engine<Self>, has_culprit: bool) -> Result<Evidence>;

    /// Lets the front end neither begin the oldest job nor leave it. The engine is ours.
    fn hold(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// The end of [`FrontEnd::hold`], whatever has ended meanwhile.
    fn release(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// Lets what runs end, [`REST_TIME`](super::REST_TIME) at most. The engine is ours.
    fn bring_to_rest(engine: &Arc<Engine<Self>>) -> Result;

    /// Whether the front end has begun the oldest job. The engine is ours.
    fn has_begun(engine: &Engine<Self>) -> bool;

    /// Prepares a core that was reset for the jobs, which have these fates; returns where the front
    /// end is to start, and how many units of 8 bytes lie there. The engine is ours.
    fn prepare(engine: &Engine<Self>, cause: Cause, fates: &[Fate; IDS]) -> Result<(u32, u32)>;

    /// Lets it run from there. The engine is ours.
    fn run(engine: &Arc<Engine<Self>>, start: (u32, u32)) -> Result;

    /// Stops the front end, which rests, before the core goes off. The engine is ours.
    fn stop(_: &Engine<Self>) {}

    /// The core is off.
    fn went_off(state: &mut Self::State);

    /// Lets a core that has come on run. The engine is ours.
    fn start_again(engine: &Arc<Engine<Self>>) -> Result;

    /// The machine falls asleep, and what is under way has not ended for long: whether nothing runs
    /// any more, `milliseconds` later at most.
    fn hold_jobs(engine: &Arc<Engine<Self>>, newest: u64, milliseconds: u32) -> bool;

    /// What was held may begin.
    fn release_jobs(_: &Arc<Engine<Self>>) {}
}

/// What a core goes on from that comes back.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past {
    /// Number of the last job that was there.
    pub(crate) newest: u64,
    /// How often it was reset by then, or had gone.
    pub(crate) resets: u32,
    /// How far its line had come.
    pub(super) epoch: Epoch,
}

/// What an engine knows of its core.
pub(crate) struct Seat {
    /// Its place among the device's.
    pub(crate) core: usize,
    /// What it goes on from.
    pub(crate) past: Past,
    /// Physical address of GPU address 0.
    pub(crate) base_address: u32,
    /// How long it may stand still before it is reset, in milliseconds; 0: for ever.
    pub(crate) timeout: u32,
    /// How long a job may hold others up, in milliseconds; 0: for ever.
    pub(crate) job_timeout: u32,
    /// How much is kept of what it did when it hung; 0: nothing.
    pub(crate) dump_level: u32,
}

impl Seat {
    /// How long a job may hold others up, in milliseconds; 0: for ever. One that does not move has
    /// the time of a hang.
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
    /// Where the words of jobs are.
    pub(crate) memory: Arc<DmaBuffer>,
    /// Its address, as the front end has it.
    pub(crate) address: u32,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    #[pin]
    pub(crate) state: SpinLock<State<F>>,
    /// What threads wait for that wait for the core has moved.
    #[pin]
    pub(super) moved: CondVar,
    /// Where submitters wait until they are first in the line.
    #[pin]
    pub(super) turned: CondVar,
    /// How often the core was reset because it hung, or came back after it was unbound.
    pub(super) resets: Atomic<u32>,
    /// What it did when it hung.
    #[pin]
    pub(super) dumps: Dumps,
    #[pin]
    pub(super) dump_work: Work<Engine<F>, { dump::WORK }>,
    /// One thread at a time ends jobs.
    #[pin]
    pub(super) completion: Mutex<()>,
    /// Who looks at the core, so that who ends jobs waits for one at most.
    #[pin]
    pub(super) looks: Mutex<()>,
    #[pin]
    pub(super) hang_check: DelayedWork<Engine<F>>,
    pub(super) in_use: InUse,
}

impl<F: FrontEnd> Engine<F> {
    /// The engine of the core `hardware` in `memory`, which has this address for it.
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

    /// What the next one of its core goes on from.
    pub(crate) fn past(&self) -> Past {
        let state = self.state.lock();
        Past {
            newest: state.jobs.newest(),
            resets: self.resets(),
            epoch: state.line.epoch(),
        }
    }

    /// Where the words of jobs are.
    pub(crate) fn memory(&self) -> &Arc<DmaBuffer> {
        &self.memory
    }

    /// The address of that, as the front end has it.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// The address of a byte of it.
    pub(crate) fn gpu(&self, offset: usize) -> u32 {
        // CAST: less than its size. It ends below bit 31, or 4 GiB.
        self.address + offset as u32
    }

    /// Lets nobody submit any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.phase.stop();
        state.moves += 1;
        drop(state);
        self.notify_closed();
    }

    /// Whether nothing runs in it any more, and nothing will.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().phase == Phase::Dead
    }

    /// How often the core was reset because it hung, or came back after it was unbound: who saw
    /// another number has lost what was there.
    pub(crate) fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// How long the core has been busy.
    pub(crate) fn load(&self) -> Load {
        let state = self.state.lock();
        let oldest = state.jobs.get(0);
        let process = oldest.map(|(_, slot)| slot.load.payload.process());
        state.meter.load(process, Stamp::now())
    }

    /// A process has ended, with all that it has submitted: nothing of it is kept.
    pub(crate) fn forget_process(&self, process: u64) {
        let is_its = |payload: &F::Payload| payload.process() == process;
        // Ends: there are a few, and the process makes no more.
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
    /// A job that keeps nothing.
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
