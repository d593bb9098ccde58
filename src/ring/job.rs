// SPDX-License-Identifier: GPL-2.0-only

//! A job: one submission to the GPU, and what happens when it ends.

use super::{
    inflight::IDS,
    reclaim::Retired,
    turns::Account, //
};
use crate::{
    addr::Range,
    context::{
        scrub::OwnData,
        Context,
        Load, //
    },
    memory::Object,
    prelude::*,
    stream::words::{
        PageTables,
        Pipe,
        Pipes, //
    },
    sys::CommandName, //
};
use kernel::list::List;

/// How a job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The GPU has finished it.
    Done,
    /// The GPU was stopped or reset before it finished the job, which does not run again.
    Dropped,
    /// Its place was reserved and not filled.
    NeverRun,
}

/// What a job does when it ends, as far as the ring knows.
pub(crate) trait Payload: Default + Send + Unpin + 'static {
    /// The job has ended. Called once, by the interrupt thread or the hang check: each record
    /// takes constant time, and none waits for anything that a client can delay.
    fn end(&mut self, outcome: Outcome);

    /// Whether another job should reuse its memory.
    fn is_reusable(&self) -> bool;

    fn actions(&self) -> usize;

    /// The account of the process that submitted it; `None`: the driver. Called with the core's
    /// lock.
    fn account(&self) -> Option<&Account>;

    /// The number of that process; 0: the driver.
    fn process(&self) -> u64 {
        self.account().map_or(0, |account| account.process)
    }

    /// The id of that process's leader in the initial namespace; 0: the driver.
    fn process_id(&self) -> i32 {
        self.account().map_or(0, |account| account.process_id)
    }

    /// The identity of process number `process`, whose job is under way. No lock is held.
    fn culprit(process: u64) -> Option<Culprit>;

    /// The memory of process number `process` that its commands, `words`, name; `None` if it has
    /// ended. The addresses are the GPU's, or physical ones if GPU address 0 is at `base`. Called
    /// while a dump is written; no lock is held.
    fn named_by(process: u64, words: &[&[u32]], base: Option<u32>) -> Option<Named>;

    /// The core with index `core` was reset after a hang, or given up: charges each process that
    /// had jobs there. The guilty one has kept the core for `cost` jiffies. Called by the hang
    /// check; no lock is held.
    fn core_was_reset(core: usize, losses: &[Loss], cost: u32);
}

/// A piece of memory that the commands of a guilty process name.
pub(crate) struct Piece {
    pub(crate) range: Range,
    pub(crate) memory: Object,
}

/// The identity of a process when it opened the device.
pub(crate) struct Culprit {
    pub(crate) id: i32,
    pub(crate) user: u32,
    pub(crate) name: CommandName,
}

/// What is known of the guilty process.
pub(crate) struct Named {
    /// The generation of its interface.
    pub(crate) generation: Option<&'static str>,
    /// The memory that its commands name.
    pub(crate) pieces: KVec<Piece>,
}

/// The losses of a process in the reset of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The number of the process.
    pub(crate) process: u64,
    /// Its job hung.
    pub(crate) is_guilty: bool,
    /// Jobs of it that were dropped.
    pub(crate) dropped: u32,
}

/// The loss of each process.
pub(crate) struct Losses {
    list: [Loss; IDS],
    count: usize,
}

impl Losses {
    /// No losses.
    pub(crate) fn new() -> Self {
        Self {
            list: [Loss::default(); IDS],
            count: 0,
        }
    }

    /// Adds a job to the loss of `process`.
    pub(crate) fn note(&mut self, process: u64, is_guilty: bool, is_dropped: bool) {
        if process == 0 {
            return;
        }
        let known = self.all().iter().position(|loss| loss.process == process);
        let at = known.unwrap_or(self.count);
        // There are no more processes than jobs.
        let Some(loss) = self.list.get_mut(at) else {
            return;
        };
        self.count = self.count.max(at + 1);
        loss.process = process;
        loss.is_guilty |= is_guilty;
        loss.dropped += u32::from(is_dropped);
    }

    /// Sets all counts of dropped jobs to 0, to count them again.
    pub(crate) fn forget_dropped(&mut self) {
        self.list.iter_mut().for_each(|loss| loss.dropped = 0);
    }

    /// How many jobs are dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.all().iter().map(|loss| loss.dropped).sum()
    }

    /// The losses of all processes that had jobs.
    pub(crate) fn all(&self) -> &[Loss] {
        &self.list[..self.count]
    }
}

/// How a job uses the MMU's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tables {
    /// It works with any tables.
    #[default]
    Any,
    /// It uses these, which an earlier job has loaded.
    Loaded(PageTables),
    /// It loads its own.
    Loads,
}

/// What a job's words depend on: if the job before is dropped, this must be restored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Basis {
    /// The pipe that is selected at their start; `None`: any.
    pub(super) pipe: Option<Pipe>,
    pub(super) tables: Tables,
    /// There are commands of a process among them.
    pub(super) has_commands: bool,
    /// Offset of these in the job, and bytes.
    pub(super) commands: (u32, u32),
    /// These run in the context that earlier commands have loaded.
    pub(super) continues: bool,
    /// Where the front end goes to load their context.
    pub(super) load: Option<Load>,
}

/// A kind of front end, as far as its jobs and the engine's state depend on it.
pub(crate) trait JobKind: Sized + Send + Sync + 'static {
    /// What a job does when it ends.
    type Payload: Payload;
    /// The front end's part of a job.
    type Job: Send + Unpin;
    /// The front end's part of the engine's state. At first nothing is known of the core.
    type State: Default + Send + Unpin;

    /// The most jobs under way at once, not more than [`IDS`].
    const JOBS: usize;
    /// Number of emptied payloads that the engine keeps for new jobs.
    const SPARES: usize;
    /// Bytes of the engine's memory that hold jobs.
    const BYTES: usize;
    /// How many bytes at the end of a job's place belong to the next job, too.
    const GAP: usize;

    /// Called when the oldest job was removed. Its place ended at `mark`.
    fn popped(state: &mut Self::State, mark: usize);

    /// Whether `job` has commands of a process, and whether these need the context loaded before.
    fn depends_on(job: &Self::Job) -> (bool, bool);
}

/// What is kept of a job.
pub(crate) struct Job<F: JobKind> {
    pub(crate) payload: F::Payload,
    /// How it ends when its event comes.
    pub(crate) outcome: Outcome,
    /// Its expected time, in counts of [`clock`](crate::sys::clock).
    pub(super) cost: u64,
    /// Released memory that waits for the job, and the number of items.
    pub(crate) retired: List<Retired>,
    pub(crate) retired_count: u64,
    /// The front end's part.
    pub(crate) own: F::Job,
}

impl<F: JobKind> Job<F> {
    /// A job that keeps no memory yet.
    pub(crate) fn new(payload: F::Payload, own: F::Job) -> Self {
        Self {
            payload,
            outcome: Outcome::Done,
            cost: 0,
            retired: List::new(),
            retired_count: 0,
            own,
        }
    }
}

/// The ring's part of a job.
#[derive(Default)]
pub(crate) struct RingJob {
    /// The context that it loads.
    pub(super) context: Option<Arc<Context>>,
    pub(super) uses: Pipes,
    /// The change of the address space that the TLB is flushed past when the job has ended.
    pub(super) flushed: u64,
    /// It uses the 2D pipe with data that the author's earlier jobs have loaded.
    pub(super) data: Option<Arc<OwnData>>,
    pub(super) basis: Basis,
}

/// A job under way, for the admin.
pub(crate) struct JobInfo {
    pub(crate) number: u64,
    pub(crate) event: u32,
    /// The number of the process that submitted it; 0: the driver.
    pub(crate) process: u64,
    pub(crate) uses: Pipes,
    /// GPU addresses of its words: the first, and the WAIT at their end.
    pub(crate) words: (u32, u32),
    /// Items of released memory that wait for it.
    pub(crate) retired: u64,
}

#[cfg(CONFIG_KUNIT)]
impl Payload for u32 {
    fn end(&mut self, _: Outcome) {}

    fn is_reusable(&self) -> bool {
        true
    }

    fn actions(&self) -> usize {
        0
    }

    fn account(&self) -> Option<&Account> {
        None
    }

    fn process(&self) -> u64 {
        (*self).into()
    }

    fn culprit(_: u64) -> Option<Culprit> {
        None
    }

    fn named_by(_: u64, _: &[&[u32]], _: Option<u32>) -> Option<Named> {
        None
    }

    fn core_was_reset(_: usize, _: &[Loss], _: u32) {}
}

#[kunit_tests(galcore_losses)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_one() {
        let mut losses = Losses::new();
        losses.note(0, false, true);
        losses.note(7, true, true);
        losses.note(9, false, false);
        losses.note(7, false, true);
        let fields = |loss: &Loss| (loss.process, loss.is_guilty, loss.dropped);
        assert_eq!(losses.all().len(), 2);
        assert_eq!(fields(&losses.all()[0]), (7, true, 2));
        assert_eq!(fields(&losses.all()[1]), (9, false, 0));
        assert_eq!(losses.dropped(), 2);
        losses.forget_dropped();
        assert_eq!(losses.dropped(), 0);
        for process in 100..200 {
            losses.note(process, false, true);
        }
        assert_eq!(losses.all().len(), IDS);
    }
}
