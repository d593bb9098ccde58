// SPDX-License-Identifier: GPL-2.0-only

//! Events: what happens when the GPU has passed a point of the ring.
//!
//! Owns the user signals' insides and the table of event ids. A [`Signal`]'s mutex is a leaf lock.
//! Actions run in the interrupt thread, in the order of submission, with no lock held.

mod inflight;
mod signal;

use crate::{
    memory::{
        Buffer,
        Node,
        UserMemory, //
    },
    mmu::{
        AddressSpace,
        Stale, //
    },
    session::Process, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) use inflight::InFlight;
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
            Action::Drop(held) => drop(held),
            Action::Recycle(space, stale) => space.recycle(stale),
        }
    }
}

/// What one submission carries.
pub(crate) type Actions = KVec<Action>;
