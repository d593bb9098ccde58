// SPDX-License-Identifier: GPL-2.0-only

//! Metadata of nodes, which clients exchange. SET_VIDEO_MEMORY_METADATA has the location of the
//! tile status, and compression. The DRM node has tiling, the tile status node, and a timestamp.
//! The driver only interprets the tile status node.

use super::Node;
use crate::{
    abi::NodeMetadata,
    prelude::*, //
};
use kernel::sync::SetOnce;

/// How often a caller yields to another one that is allocating the values.
const ROUNDS: u32 = 100;

/// Metadata of one node. Few nodes have any, and the values double the size of a node. So the first
/// write allocates them. A read during a write may return both old and new values.
pub(crate) struct Metadata(SetOnce<KBox<Values>>);

/// The tiling of a node, as numbers of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Tiling, tile status mode, and cache mode of the tile status.
    pub(crate) modes: [u32; 3],
    /// The value of a cleared tile.
    pub(crate) clear_value: u64,
}

/// The node has no tile status, and is none.
const ALONE: u32 = 0;
/// The node has a tile status.
const HAS_STATUS: u32 = 1;
/// The node is a tile status. It can never have one, so there are no reference cycles.
const IS_STATUS: u32 = 2;

/// The last written values.
struct Values {
    status: Atomic<i32>,
    words: [Atomic<u32>; NodeMetadata::WORDS],
    modes: [Atomic<u32>; 3],
    clear_value: Atomic<u64>,
    timestamp: Atomic<u64>,
    role: Atomic<u32>,
    /// For each core, the last job that used the node, and the last one that wrote to it.
    used: [Atomic<u64>; MAX_CORES],
    written: [Atomic<u64>; MAX_CORES],
    status_node: SetOnce<Arc<Node>>,
}

impl Values {
    /// All are zero, except for the status.
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
    /// No values. The first write allocates them.
    pub(super) const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// The last written values.
    pub(crate) fn read(&self) -> NodeMetadata {
        let nothing = Values::new();
        let values = self.0.as_ref().map_or(&nothing, |values| &**values);
        NodeMetadata {
            status: values.status.load(Relaxed),
            words: core::array::from_fn(|at| values.words[at].load(Relaxed)),
        }
    }

    /// Sets the location of the tile status. `OutOfMemory`.
    pub(crate) fn set_status(&self, status: i32) -> Result {
        self.values()?.status.store(status, Relaxed);
        Ok(())
    }

    /// Sets `words`. `OutOfMemory`.
    pub(crate) fn set_words(&self, words: [u32; NodeMetadata::WORDS]) -> Result {
        for (to, word) in self.values()?.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        Ok(())
    }

    /// The tiling. All zero if it was not set.
    pub(crate) fn tiling(&self) -> Tiling {
        self.0.as_ref().map_or(Tiling::default(), |values| Tiling {
            modes: core::array::from_fn(|at| values.modes[at].load(Relaxed)),
            clear_value: values.clear_value.load(Relaxed),
        })
    }

    /// Sets the tiling. `OutOfMemory`.
    pub(crate) fn set_tiling(&self, tiling: Tiling) -> Result {
        let values = self.values()?;
        for (to, mode) in values.modes.iter().zip(tiling.modes) {
            to.store(mode, Relaxed);
        }
        values.clear_value.store(tiling.clear_value, Relaxed);
        Ok(())
    }

    /// Adds `step` to the timestamp. Returns the sum, which wraps. `OutOfMemory`.
    pub(crate) fn count(&self, step: u32) -> Result<u64> {
        let step = u64::from(step);
        let before = self.values()?.timestamp.fetch_add(step, Relaxed);
        Ok(before.wrapping_add(step))
    }

    /// Allocates the values, so that [`Metadata::note_job`] cannot fail. `OutOfMemory`.
    pub(crate) fn prepare(&self) -> Result {
        self.values().map(|_| ())
    }

    /// Notes that job `number` of core `core` uses the node. Call [`Metadata::prepare`] first.
    pub(crate) fn note_job(&self, core: usize, number: u64, is_written: bool) {
        let Some(values) = self.0.as_ref() else {
            return;
        };
        let raise = |noted: &Atomic<u64>| {
            let mut now = noted.load(Relaxed);
            // Bounded: the noted number rises in each round.
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

    /// The last job of core `core` that used the node, or (`writers_only`) wrote to it. 0: none.
    pub(crate) fn last_job(&self, core: usize, writers_only: bool) -> u64 {
        self.0.as_ref().map_or(0, |values| {
            if writers_only {
                values.written[core].load(Relaxed)
            } else {
                values.used[core].load(Relaxed)
            }
        })
    }

    /// The tile status of the node, if it has one.
    pub(crate) fn status_node(&self) -> Option<&Arc<Node>> {
        self.0.as_ref()?.status_node.as_ref()
    }

    /// Makes `status` the tile status of the node, if `prepare` succeeds on it. `NotSupported`: the
    /// node has or is a tile status, or `status` has one or is the same node.
    pub(crate) fn attach_status(
        &self,
        status: &Arc<Node>,
        prepare: impl FnOnce(&Node) -> Result,
    ) -> Result {
        let (values, others) = (self.values()?, status.metadata().values()?);
        let taken = values.role.cmpxchg(ALONE, HAS_STATUS, Full);
        taken.map_err(|_| Error::NotSupported)?;
        // The role of `status` changes last: another caller may rely on it at once.
        let attached = match others.role.load(Relaxed) {
            ALONE | IS_STATUS => prepare(status),
            _ => Err(Error::NotSupported),
        };
        let attached = attached.and_then(|()| match others.role.cmpxchg(ALONE, IS_STATUS, Full) {
            Ok(_) | Err(IS_STATUS) => Ok(()),
            Err(_) => Err(Error::NotSupported),
        });
        match attached {
            Ok(()) => {
                // The role lets only one caller do this.
                values.status_node.populate(status.clone());
            }
            Err(_) => values.role.store(ALONE, Relaxed),
        }
        attached
    }

    /// The values. Allocates them if there are none.
    fn values(&self) -> Result<&Values> {
        for _ in 0..ROUNDS {
            if let Some(values) = self.0.as_ref() {
                return Ok(values);
            }
            // Another caller has begun to set them, but may not be finished.
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
