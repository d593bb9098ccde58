// SPDX-License-Identifier: GPL-2.0-only

//! Events: what happens when the GPU has passed a point of the ring.
//!
//! Owns the user signals' insides and the table of event ids. A [`Signal`]'s mutex is a leaf lock.
//! Actions run in the interrupt thread or the watchdog, in the order of submission, under nothing but
//! `galcore completion`.

mod inflight;
mod signal;

use crate::{
    command::context::Context,
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
    session::{
        CompletionPage,
        Process, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) use inflight::{
    InFlight,
    IDS, //
};
pub(crate) use signal::Signal;

/// Something that the GPU may still use, kept until it cannot any more; then dropped.
#[expect(dead_code, reason = "what is held is only ever dropped")]
pub(crate) enum Held {
    /// A video memory node.
    Node(Arc<Node>),
    /// A contiguous buffer.
    Buffer(Arc<Buffer>),
    /// Pinned user memory.
    UserMemory(Arc<UserMemory>),
    /// A context that is being loaded.
    Context(Arc<Context>),
    /// All that a process had.
    Process(Arc<Process>),
}

/// What an event does when it fires.
pub(crate) enum Action {
    /// Sets a user signal.
    Signal(Arc<Signal>),
    /// Takes one lock off a page-backed node of a process.
    Unlock(Arc<Process>, u32),
    /// Ends a node of a process, once its locks are gone.
    FreeNode(Arc<Process>, u32),
    /// Writes a word into its client's memory.
    Write(Word, u32),
    /// Notes the time for one of a process's timers; `true` is its start.
    Timestamp(Arc<Process>, u32, bool),
    /// Sends the realtime signal of the parameters, with this value.
    LinuxSignal(Arc<Process>, u32),
    /// Shows a submission's end on a process's completion page.
    Show(Arc<CompletionPage>, u64),
    /// Lets go of something.
    Drop(Held),
    /// Frees the pages and addresses of an ended mapping.
    Recycle(Arc<AddressSpace>, Stale),
}

impl Action {
    /// Does it.
    pub(crate) fn run(self) {
        match self {
            Action::Signal(signal) => signal.signal(true),
            Action::Unlock(process, node) => process.finish_unlock(node),
            Action::FreeNode(process, node) => process.finish_free(node),
            Action::Write(word, value) => word.write(value),
            Action::Timestamp(process, timer, start) => process.note_time(timer, start),
            Action::LinuxSignal(process, value) => process.send_signal(value),
            Action::Show(page, number) => page.show(number),
            Action::Drop(held) => drop(held),
            Action::Recycle(space, stale) => space.recycle(stale),
        }
    }
}

/// What one submission carries.
pub(crate) type Actions = KVVec<Action>;
