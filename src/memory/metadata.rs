// SPDX-License-Identifier: GPL-2.0-only

//! What clients tell each other of a node beside its memory (SET_VIDEO_MEMORY_METADATA): where its
//! tile status is, and how it is compressed. To the driver these are numbers.

use crate::{
    abi::NodeMetadata,
    error::{
        Error,
        Result, //
    },
    sys, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SetOnce, //
    }, //
};

/// How often somebody who finds another just making room lets that one run.
const ROUNDS: u32 = 100;

/// What one node has. Few have any, so room is made when something is told: with it a node is twice
/// as large to the allocator. Who reads while another writes may see some of both.
pub(crate) struct Metadata(SetOnce<KBox<Told>>);

/// What was told last.
struct Told {
    status: Atomic<i32>,
    words: [Atomic<u32>; NodeMetadata::WORDS],
}

impl Told {
    /// Nothing yet.
    const fn new() -> Self {
        Self {
            status: Atomic::new(NodeMetadata::NO_STATUS),
            words: [const { Atomic::new(0) }; NodeMetadata::WORDS],
        }
    }
}

impl Metadata {
    /// Nobody has told anything.
    pub(super) const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// What was told last.
    pub(crate) fn read(&self) -> NodeMetadata {
        let nothing = Told::new();
        let told = self.0.as_ref().map_or(&nothing, |told| &**told);
        NodeMetadata {
            status: told.status.load(Relaxed),
            words: core::array::from_fn(|at| told.words[at].load(Relaxed)),
        }
    }

    /// Notes where the tile status is. `OutOfMemory`.
    pub(crate) fn set_status(&self, status: i32) -> Result {
        self.told()?.status.store(status, Relaxed);
        Ok(())
    }

    /// Notes the rest. `OutOfMemory`.
    pub(crate) fn set_words(&self, words: [u32; NodeMetadata::WORDS]) -> Result {
        for (to, word) in self.told()?.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        Ok(())
    }

    /// Room for it, made if there is none.
    fn told(&self) -> Result<&Told> {
        for _ in 0..ROUNDS {
            if let Some(told) = self.0.as_ref() {
                return Ok(told);
            }
            // If another has just begun to set it, it is not there at once.
            if !self.0.populate(KBox::new(Told::new(), GFP_KERNEL_ACCOUNT)?) {
                sys::yield_if_due();
            }
        }
        Err(Error::OutOfMemory)
    }
}

#[kernel::macros::kunit_tests(galcore_metadata)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let metadata = Metadata::new();
        let read = metadata.read();
        assert_eq!(read.status, NodeMetadata::NO_STATUS);
        assert!(read.words.iter().all(|&word| word == 0));
        metadata.set_words([7; NodeMetadata::WORDS]).unwrap();
        assert_eq!(metadata.read().status, NodeMetadata::NO_STATUS);
        metadata.set_status(5).unwrap();
        let read = metadata.read();
        assert_eq!((read.status, read.words[0]), (5, 7));
    }
}
