// SPDX-License-Identifier: GPL-2.0-only

//! The engine of a core: the part of its job handling that all kinds of front ends share.
//!
//! Each kind implements [`FrontEnd`]. The ring ([`super::Ring`]) runs job after job by itself. The
//! queue of a core for vector graphics (`vector`) starts the front end once for each job. They
//! share the places for jobs, job numbers, completion, hang check, recovery, power, dumps and
//! traces.

use super::{
    after_reset::{
        AfterReset,
        Cause, //
    },
    dump::{
        self,
        Addressing,
        Dumps,
        Snapshot, //
    },
    history::{
        Given,
        History, //
    },
    inflight::IDS,
    job::{
        JobKind,
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
    state::{
        Handover,
        State, //
    }, //
};
use crate::{
    hw::{
        Hardware,
        Progress, //
    },
    sys::{
        self,
        clock::Stamp,
        dma::DmaBuffer,
        prelude::*,
        unload::InUse, //
    }, //
};
use kernel::{
    new_delayed_work,
    new_work,
    workqueue::{
        DelayedWork,
        Work, //
    }, //
};

/// The operations of one kind of front end. "The engine is ours" means: new jobs get no place in
/// `memory`, all words of earlier jobs are written, and the caller holds `completion`.
pub(crate) trait FrontEnd: JobKind {
    /// Whether the core's clock has a divider.
    const HAS_DIVIDER: bool;

    /// Whether the core runs a job, and so should make progress.
    fn is_running(state: &State<Self>) -> bool;

    /// Called when the oldest job has changed, its words are written, or the core starts.
    fn begin(engine: &Engine<Self>, state: &mut State<Self>);

    /// Ends the jobs that are done according to raised interrupts. The caller holds `completion`.
    fn end_raised(engine: &Arc<Engine<Self>>);

    /// Ends all jobs that are done, even without an interrupt. Returns the core's progress. The
    /// caller holds `completion`.
    fn settle(engine: &Arc<Engine<Self>>) -> Progress;

    /// Called when a job ends, before [`Payload::end`].
    fn ending(engine: &Engine<Self>, job: &mut Self::Job, outcome: Outcome);

    fn ended(_: &Engine<Self>, _: Self::Job) {}

    /// Called when jobs have ended or the TLB was flushed. The reaper may now free more memory.
    fn flushed(_: &Engine<Self>) {}

    /// Notes that the core's TLB is empty, and stays empty until the core is started.
    fn forget_translations(_: &Engine<Self>) {}

    /// The kind of the addresses in a dump.
    fn addressing(engine: &Engine<Self>) -> Addressing<'_>;

    /// Collects the core's state for a dump. `has_culprit`: the oldest job is the guilty one. The
    /// engine is ours, and the front end is held. Does not wait.
    fn snapshot(engine: &Engine<Self>, has_culprit: bool) -> Result<Snapshot>;

    /// Prevents the front end from entering or leaving the oldest job. The engine is ours.
    fn hold(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// Undoes [`FrontEnd::hold`]. Jobs may have ended meanwhile.
    fn release(_: &Engine<Self>) -> Result {
        Ok(())
    }

    /// Gives the running job [`REST_TIME`](super::REST_TIME) to end. The engine is ours.
    fn bring_to_rest(engine: &Arc<Engine<Self>>) -> Result;

    /// Whether the front end has begun the oldest job. The engine is ours.
    fn has_begun(engine: &Engine<Self>) -> bool;

    /// Prepares a core that was reset to run the jobs according to `decisions`. Returns the front
    /// end's start address, and the number of units of 8 bytes there. The engine is ours.
    fn prepare(
        engine: &Engine<Self>,
        cause: Cause,
        decisions: &[AfterReset; IDS],
    ) -> Result<(u32, u32)>;

    /// Starts the front end at `start`, from [`FrontEnd::prepare`]. The engine is ours.
    fn run(engine: &Arc<Engine<Self>>, start: (u32, u32)) -> Result;

    /// Stops the front end, which is idle, before the core is switched off. The engine is ours.
    fn stop(_: &Engine<Self>) {}

    fn went_off(state: &mut Self::State);

    /// Starts the front end of a core that was switched on. The engine is ours.
    fn start_again(engine: &Arc<Engine<Self>>) -> Result;

    /// Called at system suspend if the jobs up to `newest` take long. Waits until no job runs, for
    /// `milliseconds` at most. Returns whether no job runs.
    fn hold_jobs(engine: &Arc<Engine<Self>>, newest: u64, milliseconds: u32) -> bool;

    /// Undoes [`FrontEnd::hold_jobs`]. If the core is off, the jobs begin when it comes on.
    fn release_jobs(_: &Arc<Engine<Self>>) {}
}

/// An engine's core, and the core's parameters.
pub(crate) struct Config {
    /// Index among the device's cores.
    pub(crate) core: usize,
    pub(crate) handover: Handover,
    /// Physical address of GPU address 0.
    pub(crate) base_address: u32,
    /// How long the core may make no progress before it is reset, in milliseconds. 0: no limit.
    pub(crate) timeout: u32,
    /// How long a job may delay other processes, in milliseconds. 0: no limit.
    pub(crate) job_timeout: u32,
    /// The parameter `stuckDump`; 0: no dumps.
    pub(crate) dump_level: u32,
}

impl Config {
    /// [`Config::job_timeout`], but at least [`Config::timeout`].
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
    pub(crate) config: Config,
    /// The memory for the jobs' words.
    pub(crate) memory: Arc<DmaBuffer>,
    /// The front end's address of `memory`.
    pub(crate) address: u32,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    #[pin]
    pub(crate) state: SpinLock<State<F>>,
    /// Notified when [`State::moves`] has changed, for example because a job has ended.
    #[pin]
    pub(super) progress: CondVar,
    /// Submitters sleep here until they are first in the line.
    #[pin]
    pub(super) turned: CondVar,
    /// How often the core was reset, or bound again.
    pub(super) resets: Atomic<u32>,
    #[pin]
    pub(super) dumps: Dumps,
    #[pin]
    pub(super) dump_work: Work<Engine<F>, { dump::WORK }>,
    /// Held by the thread that ends jobs.
    #[pin]
    pub(super) completion: Mutex<()>,
    /// Taken before `completion` by [`Engine::if_on`], which clients can call from many threads. So
    /// the interrupt thread waits for one of them at most.
    #[pin]
    pub(super) look: Mutex<()>,
    #[pin]
    pub(super) hang_check: DelayedWork<Engine<F>>,
    pub(super) in_use: InUse,
}

impl<F: FrontEnd> Engine<F> {
    /// An engine for the core `hardware`. The front end finds `memory` at `address`.
    #[inline(never)]
    pub(crate) fn new(
        front: F,
        hardware: Arc<Hardware>,
        memory: DmaBuffer,
        address: u32,
        reclaimer: Arc<Reclaimer>,
        config: Config,
    ) -> Result<Arc<Self>> {
        let memory = Arc::new(memory, GFP_KERNEL)?;
        let in_use = InUse::new()?;
        let spares = KVVec::with_capacity(F::SPARES, GFP_KERNEL)?;
        let history = History::new(F::BYTES)?;
        let (handover, dump_level) = (config.handover, config.dump_level);
        Arc::pin_init(
            pin_init!(Self {
                front,
                config,
                memory,
                address,
                hardware,
                reclaimer,
                state <- new_spinlock!(State::init(spares, &handover, history), "galcore ring"),
                progress <- new_condvar!("galcore ring"),
                turned <- new_condvar!("galcore line"),
                resets: Atomic::new(handover.resets),
                dumps <- Dumps::new(dump_level),
                dump_work <- new_work!("galcore dump"),
                completion <- new_mutex!((), "galcore completion"),
                look <- new_mutex!((), "galcore look"),
                hang_check <- new_delayed_work!("galcore hang check"),
                in_use,
            }),
            GFP_KERNEL,
        )
    }

    /// What the core's next engine takes over.
    pub(crate) fn handover(&self) -> Handover {
        let state = self.state.lock();
        Handover {
            newest: state.jobs.newest(),
            resets: self.resets(),
            epoch: state.line.epoch(),
        }
    }

    /// The memory of the jobs' words.
    pub(crate) fn memory(&self) -> &Arc<DmaBuffer> {
        &self.memory
    }

    /// The front end's address of `memory`.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// The front end's address of the byte at `offset`.
    pub(crate) fn gpu(&self, offset: usize) -> u32 {
        // CAST: less than the size of `memory`, which ends below 4 GiB.
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

    /// How often the core was reset, or bound again. A change means that its states are lost.
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

    /// Drops the spare payloads that an ending process used last. All of its jobs have ended.
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

    /// The oldest job from number `from` on whose words are all in the ring. Takes the ring's lock
    /// for a moment.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        let state = self.state.lock();
        let newest = state.jobs.newest();
        let written = newest - u64::from(state.is_filling && newest != 0);
        let noted = state.history.oldest(from, newest)?;
        (noted.number <= written).then_some(Given {
            noted,
            address: self.address + noted.start,
            is_under_way: noted.number > state.completed,
        })
    }

    /// Copies words of a job, from its byte `offset` on; returns whether they are the job's: its
    /// place may have been reused.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        let first = u32_as_usize(job.noted.start + offset);
        for (index, word) in to.iter_mut().enumerate() {
            match self.memory.read(first + 4 * index) {
                Ok(read) => *word = read,
                Err(_) => return false,
            }
        }
        // The words are read before the place is looked up again.
        sys::barrier::smp_read();
        self.state.lock().history.job(job.noted.number) == Some(job.noted)
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
