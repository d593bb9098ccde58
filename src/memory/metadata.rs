// SPDX-License-Identifier: GPL-2.0-only

//! What clients tell each other of a node beside its memory (SET_VIDEO_MEMORY_METADATA): where its
//! tile status is, and how it is compressed. To the driver these are numbers.

use crate::abi::NodeMetadata;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// What one node has. Who reads while another writes may see some of both.
pub(crate) struct Metadata {
    status: Atomic<i32>,
    words: [Atomic<u32>; NodeMetadata::WORDS],
}

impl Metadata {
    /// Nobody has told anything.
    pub(super) const fn new() -> Self {
        Self {
            status: Atomic::new(NodeMetadata::NO_STATUS),
            words: [const { Atomic::new(0) }; NodeMetadata::WORDS],
        }
    }

    /// What was told last.
    pub(crate) fn read(&self) -> NodeMetadata {
        NodeMetadata {
            status: self.status.load(Relaxed),
            words: core::array::from_fn(|at| self.words[at].load(Relaxed)),
        }
    }

    /// Notes where the tile status is.
    pub(crate) fn set_status(&self, status: i32) {
        self.status.store(status, Relaxed);
    }

    /// Notes the rest.
    pub(crate) fn set_words(&self, words: [u32; NodeMetadata::WORDS]) {
        for (to, word) in self.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
    }
}
