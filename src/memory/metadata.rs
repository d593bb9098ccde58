// SPDX-License-Identifier: GPL-2.0-only

//! What clients tell each other of a node beside its memory: where its tile status is, and how it
//! is compressed (SET_VIDEO_MEMORY_METADATA); how it is tiled, its tile status, and a counter (the
//! DRM node). To the driver these are numbers, but for the tile status, which is a node.

use super::Node;
use crate::{
    abi::NodeMetadata,
    error::{
        Error,
        Result, //
    },
    limits::MAX_CORES,
    sys, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        SetOnce, //
    }, //
};

/// How often a caller yields to another one that is just making room.
const ROUNDS: u32 = 100;

/// What one node has. Few have any, so room is made at the first write: with it a node is twice as
/// large to the allocator. A reader beside a writer may see some of both.
pub(crate) struct Metadata(SetOnce<KBox<Values>>);

/// How a node is tiled, as clients number it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Tiling, mode of the tile status, and mode of its cache.
    pub(crate) modes: [u32; 3],
    /// What a cleared tile holds.
    pub(crate) clear_value: u64,
}

/// A node is, or has, no tile status.
const ALONE: u32 = 0;
/// It has one.
const HAS_STATUS: u32 = 1;
/// It is one. Then it never has one, so that nodes do not hold each other.
const IS_STATUS: u32 = 2;

/// What was written last.
struct Values {
    status: Atomic<i32>,
    words: [Atomic<u32>; NodeMetadata::WORDS],
    modes: [Atomic<u32>; 3],
    clear_value: Atomic<u64>,
    timestamp: Atomic<u64>,
    role: Atomic<u32>,
    /// By core, the last job that has used it, and that has written it.
    used: [Atomic<u64>; MAX_CORES],
    written: [Atomic<u64>; MAX_CORES],
    status_node: SetOnce<Arc<Node>>,
}

impl Values {
    /// All values are 0.
    const fn new() -> Self {
        Self {
            status: Atomic::new(NodeMetadata::NO_STATUS),
            words: [const { Atomic::new(0) }; NodeMetadata::WORDS],
            modes: [const { Atomic::new(0) }; 3],
            clear_value: Atomic::new(0),
            timestamp: Atomic::new(0),
            role: Atomic::new(ALONE),
            used: [const { Atomic::new(0) }; MAX_CORES],
            written: [const { Atomic::new(0) }; MAX_CORES],
            status_node: SetOnce::new(),
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

    /// How it is tiled.
    pub(crate) fn tiling(&self) -> Tiling {
        self.0.as_ref().map_or(Tiling::default(), |values| Tiling {
            modes: core::array::from_fn(|at| values.modes[at].load(Relaxed)),
            clear_value: values.clear_value.load(Relaxed),
        })
    }

    /// Notes how it is tiled. `OutOfMemory`.
    pub(crate) fn set_tiling(&self, tiling: Tiling) -> Result {
        let values = self.values()?;
        for (to, mode) in values.modes.iter().zip(tiling.modes) {
            to.store(mode, Relaxed);
        }
        values.clear_value.store(tiling.clear_value, Relaxed);
        Ok(())
    }

    /// Adds `step` to its counter, and returns the sum, which wraps. `OutOfMemory`.
    pub(crate) fn count(&self, step: u32) -> Result<u64> {
        let step = u64::from(step);
        let before = self.values()?.timestamp.fetch_add(step, Relaxed);
        Ok(before.wrapping_add(step))
    }

    /// Makes room for what is noted later. `OutOfMemory`.
    pub(crate) fn prepare(&self) -> Result {
        self.values().map(|_| ())
    }

    /// Notes that job `number` of core `core` uses it, for which there is room.
    pub(crate) fn note_job(&self, core: usize, number: u64, is_written: bool) {
        let Some(values) = self.0.as_ref() else {
            return;
        };
        let raise = |noted: &Atomic<u64>| {
            let mut now = noted.load(Relaxed);
            // Ends: each round the number is higher.
            while now < number {
                match noted.cmpxchg(now, number, Full) {
                    Ok(_) => return,
                    Err(other) => now = other,
                }
            }
        };
        raise(&values.used[core]);
        if is_written {
            raise(&values.written[core]);
        }
    }

    /// The last job of core `core` that is noted, or the last that has written it; 0: none.
    pub(crate) fn last_job(&self, core: usize, writers_only: bool) -> u64 {
        self.0.as_ref().map_or(0, |values| match writers_only {
            true => values.written[core].load(Relaxed),
            false => values.used[core].load(Relaxed),
        })
    }

    /// Its tile status, if it has one.
    pub(crate) fn status_node(&self) -> Option<&Arc<Node>> {
        self.0.as_ref()?.status_node.as_ref()
    }

    /// Makes `status`, which `prepare` is called for first, its tile status from now on.
    /// `NotSupported`: it has one, or is one, or `status` has one, or is the same node.
    pub(crate) fn attach_status(
        &self,
        status: &Arc<Node>,
        prepare: impl FnOnce(&Node) -> Result,
    ) -> Result {
        let (values, others) = (self.values()?, status.metadata().values()?);
        let taken = values.role.cmpxchg(ALONE, HAS_STATUS, Full);
        taken.map_err(|_| Error::NotSupported)?;
        let is_status = matches!(
            others.role.cmpxchg(ALONE, IS_STATUS, Full),
            Ok(_) | Err(IS_STATUS)
        );
        let prepared = match is_status {
            true => prepare(status),
            false => Err(Error::NotSupported),
        };
        match prepared {
            Ok(()) => {
                // The first, by the role.
                values.status_node.populate(status.clone());
            }
            Err(_) => values.role.store(ALONE, Relaxed),
        }
        prepared
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
