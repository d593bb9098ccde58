// SPDX-License-Identifier: GPL-2.0-only

//! What a process submits: a stream, or nothing, and the queue of records behind it.

use super::{
    action::{
        Action,
        Events, //
    },
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
    error::{
        Error,
        Result, //
    },
    ring::{
        Attempt,
        Numbers,
        Reservation,
        Stream,
        GPU_TIMEOUT, //
    },
    sys::trace::WaitFor, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// What a process submits.
pub(super) trait Work {
    /// Whether there are commands.
    const HAS_COMMANDS: bool;

    /// Looks at what may have changed since it was looked at last. Called under the tables' lock
    /// before each try to get a place in the ring: what it finds there is so when the job takes
    /// its place, and memory that leaves the tables later is kept until the job has ended.
    fn check(&mut self, tables: &Tables) -> Result;

    /// The commands, if any.
    fn stream(&self) -> Option<Stream<'_>>;

    /// A place has been taken. The tables' lock is held.
    fn placed(&self, tables: &mut Tables);

    /// Makes the commands' context ready to be loaded. May wait; no lock is held.
    fn load(&mut self) -> Result;

    /// A place has been taken for a job that loads a context. Others wait until it is filled.
    fn begun(&mut self, place: &Reservation<'_, Events>);
}

/// What became of it.
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

/// Nothing but a queue.
pub(super) struct QueueOnly;

impl Work for QueueOnly {
    const HAS_COMMANDS: bool = false;

    fn check(&mut self, _: &Tables) -> Result {
        Ok(())
    }

    fn stream(&self) -> Option<Stream<'_>> {
        None
    }

    fn placed(&self, _: &mut Tables) {}

    fn load(&mut self) -> Result {
        Ok(())
    }

    fn begun(&mut self, _: &Reservation<'_, Events>) {}
}

impl Process {
    /// The completion page, made if it is not there yet.
    pub(super) fn ask_for_completion(&self) -> Result<Arc<CompletionPage>, kernel::error::Error> {
        let page = CompletionPage::new(self.device.memory().owner()).map_err(|_| ENOMEM)?;
        // One thread at a time.
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

    /// Submits `work` to `core`, and the queue behind it; with a completion page, numbers the job
    /// and shows its end before its other actions run.
    pub(super) fn submit<W: Work>(
        &self,
        core: &Core,
        work: &mut W,
        queue: &mut Queue<'_>,
    ) -> Result<Submitted> {
        let ring = core.ring();
        let page = self.completion();
        if page.is_some() {
            // Room first, for the number, which is only known when nothing may fail any more.
            queue.events().reserve(1)?;
        }
        let number = Atomic::new(0u64);
        let count_job = |events: &mut Events| {
            if let Some(page) = page {
                let mine = page.count(core.index());
                number.store(mine, Relaxed);
                events.push_first(Action::Show(page.clone(), core.index(), mine));
            }
        };
        let count: Option<&dyn Fn(&mut Events)> = match page {
            Some(_) => Some(&count_job),
            None => None,
        };
        let mut timeout = ring.place_timeout();
        let mut room = None;
        // Each round waits, or somebody has been quicker, or a hang was charged meanwhile.
        let job = loop {
            let mut tables = self.tables();
            // Records do not hang.
            if W::HAS_COMMANDS && !self.is_paid() {
                drop(tables);
                self.pay()?;
                continue;
            }
            work.check(&tables)?;
            queue.check(&tables)?;
            let stream = work.stream();
            let attempt = ring.reserve(stream.as_ref(), queue.events(), count, &mut room)?;
            if let Attempt::Reserved(place) = &attempt {
                self.note_job(&mut tables, core.index(), place.number());
                work.placed(&mut tables);
                queue.withdraw(&mut tables);
            }
            drop(tables);
            match attempt {
                Attempt::Reserved(place) if !place.loads() => {
                    break ring.fill(place, stream.as_ref())?;
                }
                Attempt::Reserved(place) => {
                    work.begun(place);
                    break ring.fill(place, work.stream().as_ref())?;
                }
                Attempt::Full => waited(WaitFor::Place(core.index()), GPU_TIMEOUT, || {
                    let wait = || ring.wait_for_place(&mut timeout);
                    self.usage.waiting(core.index(), wait)
                })?,
                Attempt::NotLoaded => work.load()?,
            }
        };
        Ok(Submitted {
            job,
            counted: page.map(|_| number.load(Relaxed)),
        })
    }

    /// In front of commands: waits as long as is due for hangs.
    #[inline]
    pub(super) fn pay(&self) -> Result {
        self.resets.note_caller();
        self.resets.pay(self.clients.guilt())
    }

    /// Whether nothing may be due. Asked for under the tables' lock.
    #[inline]
    pub(super) fn is_paid(&self) -> bool {
        self.resets.is_paid()
    }

    /// Notes the process's last job on the core at `place`.
    #[inline]
    pub(super) fn note_job(&self, tables: &mut Tables, place: usize, number: u64) {
        tables.jobs[place] = tables.jobs[place].wrapping_add(1);
        self.last_jobs[place].store(number, Relaxed);
    }

    /// By core, the process's last job.
    pub(super) fn last_jobs(&self) -> Numbers {
        core::array::from_fn(|core| self.last_jobs[core].load(Relaxed))
    }

    /// Waits until job `number` of `core` has ended. `Interrupted`: a Unix signal came.
    /// `GpuNotResponding`: the core makes no progress.
    pub(super) fn progressing(&self, core: &Core, number: u64) -> Result {
        let ring = core.ring();
        let what = WaitFor::Job(core.index(), number);
        let what = (what, Limited::Progress(core.index()));
        let wait = |left| ring.wait_for_progress(number, left);
        self.limited(what, GPU_TIMEOUT, || ring.moves(), wait)
    }

    /// Waits until all that the process has submitted has ended: what it could use of the process's
    /// own memory is the process's again then. `Interrupted`: a Unix signal came.
    /// `GpuNotResponding`: a core makes no progress, and may still use it.
    pub(super) fn wait_for_own_work(&self) -> Result {
        match self.wait_for_cores(None) {
            // What a reset has taken, or a core that was given up, is over.
            Err(Error::GpuNotResponding) if self.device.reclaimer().are_over(&self.last_jobs()) => {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Waits until what the process has submitted to cores other than that at `except` has ended.
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: one of them makes no progress.
    pub(super) fn wait_for_cores(&self, except: Option<usize>) -> Result {
        let mut result = Ok(());
        let last = self.last_jobs();
        for core in self.device.cores() {
            if Some(core.index()) == except {
                continue;
            }
            match self.progressing(&core, last[core.index()]) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                outcome => result = result.and(outcome),
            }
        }
        for core in self.device.vectors() {
            let (number, queue) = (last[core.index()], core.queue());
            let what = WaitFor::Job(core.index(), number);
            let what = (what, Limited::Progress(core.index()));
            let wait = |left| queue.wait_for_progress(number, left);
            match self.limited(what, GPU_TIMEOUT, || queue.moves(), wait) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                outcome => result = result.and(outcome),
            }
        }
        result
    }
}
