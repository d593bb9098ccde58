// SPDX-License-Identifier: GPL-2.0-only

//! A job: what is submitted to the GPU at once, and what is to happen when it ends.

use super::{
    dump::{
        Culprit,
        Named, //
    },
    engine::FrontEnd,
    reclaim::Retired,
    turns::Share, //
};
use crate::{
    context::{
        Context,
        Load, //
    },
    mmu::SpaceId,
    stream::{
        checker::Engines,
        words::{
            PageTables,
            Pipe, //
        }, //
    }, //
};
use kernel::{
    list::List,
    sync::Arc, //
};

/// How a job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The GPU has done it.
    Done,
    /// The GPU was stopped, or reset, before it had done all of it, and will not do it any more.
    Dropped,
    /// The place that was reserved for it has not been filled.
    NeverRun,
}

/// What a job does when it has ended. The ring does not know more of it.
pub(crate) trait Payload: Default + Send + Unpin + 'static {
    /// The job has ended. Called once, by the interrupt's thread or the hang check: what is done
    /// here is bounded by a constant for each record, and waits for nothing that a client can hold
    /// up.
    fn end(&mut self, outcome: Outcome);

    /// It has kept the core at place `core` busy for so long, in counts of
    /// [`clock`](crate::sys::clock). Called before [`Payload::end`], and after it if that took long.
    fn used(&self, core: usize, counts: u64);

    /// Whether its memory is worth being used by another job, now that it has ended.
    fn is_reusable(&self) -> bool;

    /// How many actions its end has.
    fn actions(&self) -> usize;

    /// Whether its job has commands of a client's.
    fn has_commands(&self) -> bool;

    /// The process that has submitted it, by its number; 0: the driver.
    fn process(&self) -> u64;

    /// That process's own tables of the MMU, if it has some.
    fn space(&self) -> Option<SpaceId>;

    /// What its process has of the core at place `core`; `None`: it is the driver's. Called with the
    /// core's lock.
    fn share(&self, core: usize) -> Option<&Share>;

    /// Whether its process has ended, or `waiters` threads wait for the core at place `core` and not
    /// all of them are its process's. Called with the core's lock.
    fn holds_up(&self, core: usize, waiters: u32) -> bool;

    /// The number of that process's leader in the initial namespace; 0: the driver.
    fn process_id(&self) -> i32;

    /// Who the process with number `process` is, whose job is under way. No lock is held.
    fn culprit(process: u64) -> Option<Culprit>;

    /// The memory of the process with number `process` that `words`, its commands, name, if it has
    /// not ended: by GPU addresses, or by physical ones, if GPU address 0 is at `base`. Called by
    /// who writes a dump; no lock is held.
    fn named_by(process: u64, words: &[&[u32]], base: Option<u32>) -> Option<Named>;

    /// The core at place `core` hung and has been reset, or given up: what that means to each
    /// process that had jobs there. It has kept the core for `cost` jiffies. Called by the hang check;
    /// no lock is held.
    fn core_was_reset(core: usize, tolls: &[Toll], cost: u32);
}

/// What the reset of a core has cost a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toll {
    /// The process, by its number.
    pub(crate) process: u64,
    /// Its job hung.
    pub(crate) is_guilty: bool,
    /// How many of its jobs were dropped.
    pub(crate) dropped: u32,
}

/// What a job has to do with the tables that the MMU uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tables {
    /// It uses whichever there are.
    #[default]
    Any,
    /// It uses these, which an earlier job has loaded.
    Loaded(PageTables),
    /// It loads those that it uses.
    Loads,
}

/// What a job's words rest on: where another is taken out in front of it, this must be made so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Basis {
    /// The pipe that is selected where they start; `None`: whichever.
    pub(super) pipe: Option<Pipe>,
    /// The tables.
    pub(super) tables: Tables,
    /// There are commands of a process's among them.
    pub(super) has_commands: bool,
    /// These: how many bytes behind the job's start, and how many.
    pub(super) commands: (u32, u32),
    /// These run in the context that the commands in front of them ran in, and do not load it.
    pub(super) continues: bool,
    /// Where the front end goes to load their context.
    pub(super) load: Option<Load>,
}

/// What is kept of a job besides its place and its number.
pub(crate) struct Job<F: FrontEnd> {
    /// The payload.
    pub(crate) payload: F::Payload,
    /// How it has ended when its event comes.
    pub(crate) outcome: Outcome,
    /// How long it was taken to be, in counts of [`clock`](crate::sys::clock).
    pub(super) cost: u64,
    /// What it keeps, and how many they are.
    pub(crate) retired: List<Retired>,
    pub(crate) retired_count: u64,
    /// What its kind of front end keeps of it.
    pub(crate) own: F::Job,
}

/// What the ring keeps of a job.
#[derive(Default)]
pub(crate) struct RingJob {
    /// The context that it loads.
    pub(super) context: Option<Arc<Context>>,
    /// The engines that its commands use.
    pub(super) uses: Engines,
    /// The change of the address space that the core's TLB has been flushed past when it has ended.
    pub(super) flushed: u64,
    /// What its words rest on.
    pub(super) basis: Basis,
}

/// A job under way, as the admin sees it.
pub(crate) struct JobInfo {
    /// Its number.
    pub(crate) number: u64,
    /// Its event id.
    pub(crate) event: u32,
    /// The process that has submitted it, by its number; 0: the driver.
    pub(crate) process: u64,
    /// The engines that its commands use.
    pub(crate) uses: Engines,
    /// GPU addresses of its words: the first, and the WAIT at their end.
    pub(crate) words: (u32, u32),
    /// Objects that it keeps.
    pub(crate) retired: u64,
}

#[cfg(CONFIG_KUNIT)]
impl Payload for u32 {
    fn end(&mut self, _: Outcome) {}

    fn used(&self, _: usize, _: u64) {}

    fn is_reusable(&self) -> bool {
        true
    }

    fn actions(&self) -> usize {
        0
    }

    fn has_commands(&self) -> bool {
        false
    }

    fn process(&self) -> u64 {
        (*self).into()
    }

    fn space(&self) -> Option<SpaceId> {
        None
    }

    fn share(&self, _: usize) -> Option<&Share> {
        None
    }

    fn holds_up(&self, _: usize, _: u32) -> bool {
        false
    }

    fn process_id(&self) -> i32 {
        0
    }

    fn culprit(_: u64) -> Option<Culprit> {
        None
    }

    fn named_by(_: u64, _: &[&[u32]], _: Option<u32>) -> Option<Named> {
        None
    }

    fn core_was_reset(_: usize, _: &[Toll], _: u32) {}
}
