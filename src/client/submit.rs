// SPDX-License-Identifier: GPL-2.0-only

//! Submission of jobs: an optional stream, then a queue of records.

use super::{
    commit::Submission,
    completion::CompletionPage,
    queue::Queue,
    restarts::Limited,
    tables::Tables,
    waits::waited,
    Core,
    Process, //
};
use crate::{
    abi::Reply,
    prelude::*,
    ring::{
        Attempt,
        Engine,
        FrontEnd,
        Numbers,
        Waited,
        GPU_TIMEOUT, //
    },
    sys::trace::WaitFor, //
};

/// A submitted job.
pub(super) struct Submitted {
    /// The job's number in its ring.
    pub(super) job: u64,
    /// Its number on the completion page, if the process has one.
    pub(super) counted: Option<u64>,
}

impl From<Submitted> for Reply<'_> {
    fn from(submitted: Submitted) -> Self {
        match submitted.counted {
            Some(number) => Self::Submitted { number },
            None => Self::Nothing,
        }
    }
}

impl Process {
    /// The completion page. The first call makes it.
    pub(super) fn ask_for_completion(&self) -> Result<Arc<CompletionPage>, kernel::error::Error> {
        let page = CompletionPage::new(self.device.memory().owner()).map_err(|_| ENOMEM)?;
        // The lock, because only one thread at a time may populate it.
        let tables = self.tables();
        self.completion.populate(page);
        let page = self.completion().cloned();
        drop(tables);
        page.ok_or(ENOMEM)
    }

    /// The completion page, if the process has asked for it.
    #[inline]
    pub(super) fn completion(&self) -> Option<&Arc<CompletionPage>> {
        self.completion.as_ref()
    }

    /// Submits `commands`, if there are any, and the queue to `core`. A completion page numbers the
    /// job, and shows its end before its actions run.
    ///
    /// The job reserves its place in the ring under the tables' lock. So checks under this lock are
    /// still valid then, and memory that leaves the tables later is kept until the job has ended.
    pub(super) fn submit(
        &self,
        core: &Core,
        mut commands: Option<&mut Submission<'_>>,
        queue: &mut Queue<'_>,
    ) -> Result<Submitted> {
        let (ring, page) = (core.ring(), self.completion());
        let mut turn = ring.turn(Some(self.usage.shares()));
        if commands.is_some() {
            queue.events().note_commands();
        }
        // Ends: each round waits, or another thread was faster, or a hang was charged.
        loop {
            let mut tables = self.tables();
            if let Some(commands) = &mut commands {
                // Records cannot hang a core, so only commands pay.
                if !self.has_waited() {
                    drop(tables);
                    turn.leave();
                    self.wait_for_hangs()?;
                    continue;
                }
                commands.check(&tables)?;
            }
            queue.check(&tables)?;
            if let Some(page) = page {
                queue.events().show_on(page, core.index());
            }
            let stream = commands.as_ref().map(|commands| commands.stream());
            let mut attempt = ring.reserve(stream.as_ref(), queue.events(), &mut turn);
            if let Ok(Attempt::Reserved(place)) = &attempt {
                self.note_job(&mut tables, core.index(), place.number());
                if let Some(page) = page {
                    page.count(core.index());
                }
                if let Some(commands) = &commands {
                    commands.placed(&mut tables);
                }
                queue.withdraw(&mut tables);
            }
            let counted = page.map(|page| page.newest(core.index()));
            drop(tables);
            match &mut attempt {
                // Other submitters wait until the place is filled.
                Ok(Attempt::Reserved(place)) => {
                    let job = match place.loads() {
                        false => ring.fill(place, stream.as_ref())?,
                        true => {
                            let stream = commands.map(|commands| {
                                commands.begun(place);
                                commands.stream()
                            });
                            ring.fill(place, stream.as_ref())?
                        }
                    };
                    return Ok(Submitted { job, counted });
                }
                Err(error) => return Err(*error),
                Ok(Attempt::Full) => waited(WaitFor::Place(core.index()), GPU_TIMEOUT, || {
                    ring.wait_for_place(&mut turn)
                })?,
                Ok(Attempt::NotLoaded) => {
                    turn.leave();
                    if let Some(commands) = &mut commands {
                        commands.load()?;
                    }
                }
            }
        }
    }

    /// If hangs were charged to the process, waits before its commands.
    #[inline]
    pub(super) fn wait_for_hangs(&self) -> Result {
        self.resets.note_caller();
        let hangs = self.clients.hangs();
        self.resets.try_out(hangs);
        self.resets.wait_for_hangs(hangs)
    }

    /// Whether commands may run without a wait. The caller holds the tables' lock.
    #[inline]
    pub(super) fn has_waited(&self) -> bool {
        self.resets.has_waited()
    }

    /// Notes job `number` as the process's last one on the core at `place`.
    #[inline]
    pub(super) fn note_job(&self, tables: &mut Tables, place: usize, number: u64) {
        tables.jobs[place] = tables.jobs[place].wrapping_add(1);
        self.last_jobs[place].store(number, Relaxed);
    }

    /// The process's last job on each core.
    pub(super) fn last_jobs(&self) -> Numbers {
        core::array::from_fn(|core| self.last_jobs[core].load(Relaxed))
    }

    /// Waits until job `number` of a core has ended. `Interrupted`: a Unix signal interrupts the
    /// wait. `GpuNotResponding`: the core makes no progress.
    pub(super) fn progressing<F: FrontEnd>(&self, engine: &Engine<F>, number: u64) -> Result {
        let core = engine.config.core;
        let what = (WaitFor::Job(core, number), Limited::Progress(core));
        let wait = |left| engine.wait_for_progress(number, left, self.usage.shares());
        self.limited(what, GPU_TIMEOUT, || engine.moves(), wait)
    }

    /// Waits until all jobs of the process have ended, and no longer use wrapped memory.
    /// `Interrupted`: a Unix signal interrupts the wait. `GpuNotResponding`: a core makes no
    /// progress, and may still use the memory.
    pub(super) fn wait_for_own_work(&self) -> Result {
        match self.wait_for_cores(None) {
            // Jobs that were dropped with a reset or a dead core have ended.
            Err(Error::GpuNotResponding) if self.device.reclaimer().are_over(&self.last_jobs()) => {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Waits until the process's jobs on all cores but the one at place `except` have ended.
    /// `Interrupted`: by a Unix signal. `GpuNotResponding`: a core makes no progress.
    pub(super) fn wait_for_cores(&self, except: Option<usize>) -> Result {
        let mut result = Ok(());
        let last = self.last_jobs();
        for core in self.device.cores() {
            if Some(core.index()) == except {
                continue;
            }
            match self.progressing(core.ring(), last[core.index()]) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                outcome => result = result.and(outcome),
            }
        }
        for core in self.device.vectors() {
            let (number, queue) = (last[core.index()], core.queue());
            match self.progressing(queue, number) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // The job was dropped with its core: it has ended.
                Err(_) if queue.is_over(number) => {}
                outcome => result = result.and(outcome),
            }
        }
        result
    }
}
