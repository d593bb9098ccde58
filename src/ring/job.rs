// SPDX-License-Identifier: GPL-2.0-only

//! A job: what is submitted to the GPU at once, and what is to happen when it ends.

use super::reclaim::Retired;
use crate::{
    context::Context,
    stream::checker::Engines, //
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
    /// The GPU was stopped before it had done all of it.
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

    /// Whether its memory is worth being used by another job, now that it has ended.
    fn is_reusable(&self) -> bool;

    /// The process that has submitted it, by its number; 0: the driver.
    fn process(&self) -> u64;
}

/// What the ring keeps of a job besides its place and its number.
pub(super) struct Job<P> {
    /// The payload.
    pub(super) payload: P,
    /// The context that it loads.
    pub(super) context: Option<Arc<Context>>,
    /// The engines that its commands use.
    pub(super) uses: Engines,
    /// The change of the address space that the core's TLB has been flushed past when it has ended.
    pub(super) flushed: u64,
    /// Nothing was written into its place.
    pub(super) is_empty: bool,
    /// What it keeps, and how many they are.
    pub(super) retired: List<Retired>,
    pub(super) retired_count: u64,
}

impl<P> Job<P> {
    /// A job that keeps nothing.
    pub(super) fn new(
        payload: P,
        context: Option<Arc<Context>>,
        uses: Engines,
        flushed: u64,
    ) -> Self {
        Self {
            payload,
            context,
            uses,
            flushed,
            is_empty: false,
            retired: List::new(),
            retired_count: 0,
        }
    }
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
