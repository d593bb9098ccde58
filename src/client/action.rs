// SPDX-License-Identifier: GPL-2.0-only

//! Events: what happens when the GPU has passed a point of the ring.
//!
//! Owns the user signals' insides and the table of event ids. A [`Signal`]'s mutex is a leaf lock.
//! Actions run in the interrupt thread or the watchdog, in the order of submission, under nothing but
//! `galcore completion`. What can take long is only noted there: [`Change`], [`Retired`].

use super::{
    signal::Signal,
    Change,
    CompletionPage,
    Process, //
};
use crate::{
    context::Context,
    memory::{
        Buffer,
        Node,
        UserMemory,
        Word, //
    },
    mmu::{
        AddressSpace,
        Stale, //
    },
    ring::Retired, //
};
use kernel::{
    list::{
        List,
        ListArc, //
    },
    prelude::*,
    sync::Arc, //
};

/// Something that the GPU may still use, kept until it cannot any more; then dropped.
pub(crate) enum Held {
    /// A video memory node.
    Node(Arc<Node>),
    /// A contiguous buffer.
    Buffer(Arc<Buffer>),
    /// Pinned user memory.
    UserMemory(Arc<UserMemory>),
    /// A process that ends: it goes on with that.
    Process(Arc<Process>),
}

impl Held {
    /// Bytes that dropping it frees, at most.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Held::Node(node) => node.bytes(),
            Held::Buffer(buffer) => buffer.bytes(),
            Held::UserMemory(memory) => memory.bytes(),
            Held::Process(_) => usize::MAX,
        }
    }
}

/// What an event does when it fires. Each takes no longer than a constant, and waits for nothing that a client
/// can hold up: it runs in the interrupt's thread.
pub(crate) enum Action {
    /// Sets a user signal.
    Signal(Arc<Signal>),
    /// Notes what changes in the tables of a process, or what memory it gets back.
    Change(ListArc<Change>),
    /// Writes a word into its client's memory.
    Write(Word, u32),
    /// Notes the time for one of a process's timers; `true` is its start.
    Timestamp(Arc<Process>, u32, bool),
    /// Sends the realtime signal of the parameters, with this value.
    LinuxSignal(Arc<Process>, u32),
    /// Shows a submission's end on a process's completion page.
    Show(Arc<CompletionPage>, u64),
    /// Lets go of a context that has been loaded.
    Keep(Arc<Context>),
    /// Frees the pages and addresses of an ended mapping.
    Recycle(Arc<AddressSpace>, Stale),
}

impl Action {
    /// Does it.
    pub(crate) fn run(self) {
        match self {
            Action::Signal(signal) => signal.signal(true),
            Action::Change(change) => Change::note(change),
            Action::Write(word, value) => word.write(value),
            Action::Timestamp(process, timer, start) => process.note_time(timer, start),
            Action::LinuxSignal(process, value) => process.send_signal(value),
            Action::Show(page, number) => page.show(number),
            Action::Keep(context) => drop(context),
            Action::Recycle(space, stale) => space.recycle(stale),
        }
    }
}

/// What one submission does when it ends.
pub(crate) type Actions = KVVec<Action>;

/// What one submission carries.
pub(crate) struct Load {
    pub(crate) actions: Actions,
    /// What it keeps, and how many they are.
    pub(crate) retired: List<Retired>,
    pub(crate) retired_count: u64,
}

impl Load {
    /// These actions, and nothing kept.
    pub(crate) fn new(actions: Actions) -> Self {
        Self {
            actions,
            retired: List::new(),
            retired_count: 0,
        }
    }
}
