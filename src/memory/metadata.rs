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

/// How often a caller yields to another one that is just making room.
const ROUNDS: u32 = 100;

/// What one node has. Few have any, so room is made at the first write: with it a node is twice as
/// large to the allocator. A reader beside a writer may see some of both.
pub(crate) struct Metadata(SetOnce<KBox<Values>>);

/// What was written last.
struct Values {
    status: Atomic<i32>,
    words: [Atomic<u32>; NodeMetadata::WORDS],
}

impl Values {
    /// All values are 0.
    const fn new() -> Self {
        Self {
            status: Atomic::new(NodeMetadata::NO_STATUS),
            words: [const { Atomic::new(0) }; NodeMetadata::WORDS],
        }
    }
}

impl Metadata {
    /// Without values, which read as 0.
    pub(super) const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// What was written last.
    pub(crate) fn read(&self) -> NodeMetadata {
        let nothing = Values::new();
        let values = self.0.as_ref().map_or(&nothing, |values| &**values);
        NodeMetadata {
            status: values.status.load(Relaxed),
            words: core::array::from_fn(|at| values.words[at].load(Relaxed)),
        }
    }

    /// Notes where the tile status is. `OutOfMemory`.
    pub(crate) fn set_status(&self, status: i32) -> Result {
        self.values()?.status.store(status, Relaxed);
        Ok(())
    }

    /// Notes the rest. `OutOfMemory`.
    pub(crate) fn set_words(&self, words: [u32; NodeMetadata::WORDS]) -> Result {
        for (to, word) in self.values()?.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        Ok(())
    }

    /// Room for it, made if there is none.
    fn values(&self) -> Result<&Values> {
        for _ in 0..ROUNDS {
            if let Some(values) = self.0.as_ref() {
                return Ok(values);
            }
            // If another has just begun to set it, it is not there at once.
            if !self.0.populate(KBox::new(Values::new(), sys::GFP_CLIENT)?) {
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
