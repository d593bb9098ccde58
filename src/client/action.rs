// SPDX-License-Identifier: GPL-2.0-only

//! The actions at the end of a client's job: the records of its event queue.
//!
//! The interrupt's thread or the hang check runs them in the order of the jobs, under no lock but
//! `galcore completion`. They only note work that can take long: [`Change`],
//! [`Retired`](crate::ring::Retired).

use super::{
    change::{
        Change,
        Count, //
    },
    completion::CompletionPage,
    dump,
    signal::Signal,
    timer,
    usage::Usage,
    Process,
    CLIENTS, //
};
use crate::{
    memory::Word,
    mmu::SpaceId,
    prelude::*,
    ring::{
        Culprit,
        Loss, //
        Named,
        Outcome,
        Payload,
        Share,
    },
    sys::fence::Fence, //
};
use kernel::list::ListArc;

/// The largest list, in records, whose memory is kept for another job.
const SPARE_ROOM: usize = 16;

/// An action of an event. It takes constant time, and never waits for anything that a client can
/// delay. The tag is a word, as in [`Error`].
#[repr(u32)]
pub(crate) enum Action {
    /// Sets a user signal.
    Signal(Arc<Signal>),
    /// Notes a change of a process's tables, or a return of memory to the process.
    Change(ListArc<Change>),
    /// Writes a word in the client's memory.
    Write(Word, u32),
    /// Changes a counter in the client's memory.
    Count(Count),
    /// Stores the time in one of a process's timers: as its start if `true`, else as its end.
    Timestamp(Arc<Process>, u32, bool),
    /// Sends the realtime signal that the module parameters name, with this value.
    LinuxSignal(Arc<Process>, u32),
    /// Ends a fence of a SUBMIT, with an error if its job was dropped.
    Fence(Fence),
}

impl Action {
    /// Runs the action of a job that has ended with `outcome`.
    fn run(self, outcome: Outcome) {
        match self {
            Action::Signal(signal) => signal.job_ended(outcome),
            Action::Change(change) => Change::note(change),
            Action::Write(word, value) => word.write(value),
            Action::Count(count) => count.run(),
            Action::Timestamp(process, timer, start) => timer::note_time(&process, timer, start),
            Action::LinuxSignal(process, value) => timer::send_signal(&process, value),
            Action::Fence(fence) if outcome == Outcome::Done => fence.signal(),
            Action::Fence(fence) => drop(fence),
        }
    }
}

/// The actions at the end of a client's job.
#[derive(Default)]
pub(crate) struct Events {
    actions: KVVec<Action>,
    /// The usage of the client. `None`: the job is the driver's own.
    usage: Option<Arc<Usage>>,
    /// The completion page that shows the job's end; the job's core; its number on the page.
    shown: Option<(Arc<CompletionPage>, usize, u64)>,
    /// Number of client streams in the job, 0 or 1. `u32`, because padding is copied separately.
    streams: u32,
}

impl Events {
    /// An empty list for the process of `usage`, which reuses the memory of `spare`.
    pub(super) fn new(spare: Self, usage: &Arc<Usage>) -> Self {
        // `spare` was usually of the same process: also reuse its reference.
        let own = spare.usage.filter(|own| Arc::ptr_eq(own, usage));
        Self {
            actions: spare.actions,
            usage: own.or_else(|| Some(usage.clone())),
            shown: None,
            streams: 0,
        }
    }

    /// Returns whether dropping it releases nothing.
    pub(super) fn are_nothing(&self) -> bool {
        self.actions.capacity() == 0 && self.usage.is_none() && self.shown.is_none()
    }

    /// Notes that the job has commands of a client.
    pub(super) fn note_commands(&mut self) {
        self.streams = 1;
    }

    /// Reserves memory for `count` more actions.
    pub(super) fn reserve(&mut self, count: usize) -> Result {
        Ok(self.actions.reserve(count, crate::sys::GFP_CLIENT)?)
    }

    pub(super) fn push(&mut self, action: Action) -> Result {
        Ok(self.actions.push(action, crate::sys::GFP_CLIENT)?)
    }

    /// Makes `page` show the end of this job, the next one that it counts on core `core`. The page
    /// shows it before the actions run.
    pub(super) fn show_on(&mut self, page: &Arc<CompletionPage>, core: usize) {
        self.shown = Some((page.clone(), core, page.newest(core) + 1));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Action> {
        self.actions.iter()
    }
}

impl Payload for Events {
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        if let Some((page, core, number)) = self.shown.take() {
            page.show(core, number, outcome);
        }
        if let (Outcome::Done, true, Some(usage)) = (outcome, self.has_commands(), &self.usage) {
            usage.shares().note_known(true);
        }
        let actions = self.actions.drain_all();
        actions.for_each(|action| action.run(outcome));
    }

    #[inline]
    fn used(&self, core: usize, counts: u64) {
        if let Some(usage) = &self.usage {
            usage.add(core, counts);
        }
    }

    fn is_reusable(&self) -> bool {
        self.actions.capacity() <= SPARE_ROOM
    }

    fn actions(&self) -> usize {
        self.actions.len()
    }

    fn has_commands(&self) -> bool {
        self.streams != 0
    }

    fn process(&self) -> u64 {
        self.usage.as_ref().map_or(0, |usage| usage.process())
    }

    #[inline]
    fn space(&self) -> Option<SpaceId> {
        self.usage.as_ref()?.space()
    }

    fn share(&self, core: usize) -> Option<&Share> {
        self.usage.as_ref()?.shares().of(core)
    }

    fn holds_up(&self, core: usize, waiters: u32) -> bool {
        self.usage
            .as_ref()
            .is_some_and(|usage| usage.holds_up(core, waiters))
    }

    fn process_id(&self) -> i32 {
        self.usage.as_ref().map_or(0, |usage| usage.process_id())
    }

    fn named_by(process: u64, words: &[&[u32]], base: Option<u32>) -> Option<Named> {
        let process = CLIENTS.get()?.process(process)?;
        Some(dump::named_by(&process, words, base))
    }

    fn culprit(process: u64) -> Option<Culprit> {
        CLIENTS.get()?.culprit(process)
    }

    fn core_was_reset(core: usize, losses: &[Loss], cost: u32) {
        let Some(clients) = CLIENTS.get().filter(|_| !losses.is_empty()) else {
            return;
        };
        clients.charge(core, losses, cost);
    }
}
