// SPDX-License-Identifier: GPL-2.0-only

//! Which bytes of the ring are free.
//!
//! Pure logic. Chunks are contiguous and are freed in the order in which they were placed. Offsets
//! and sizes are bytes, multiples of 8.

/// The ring's bytes: used from `tail` up to `head`, going round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    size: usize,
    head: usize,
    tail: usize,
}

impl Space {
    /// A ring of `size` bytes of which the first `used`, more than 0, are taken.
    pub(crate) const fn new(size: usize, used: usize) -> Self {
        Self {
            size,
            head: used,
            tail: 0,
        }
    }

    /// The largest chunk that finds a place whenever only the newest 16 bytes are used.
    pub(crate) const fn largest(size: usize) -> usize {
        size / 2 - 64
    }

    /// Where a chunk of `bytes` can go.
    pub(crate) fn place(&self, bytes: usize) -> Option<usize> {
        if self.head > self.tail {
            if bytes <= self.size - self.head {
                Some(self.head)
            } else {
                // One byte stays free, or a full ring would look like an empty one.
                (bytes < self.tail).then_some(0)
            }
        } else {
            (bytes < self.tail - self.head).then_some(self.head)
        }
    }

    /// Takes the chunk of `bytes` at `at`, which [`Space::place`] gave.
    pub(crate) fn take(&mut self, at: usize, bytes: usize) {
        self.head = at + bytes;
    }

    /// Frees everything before `tail`, a place inside the used bytes.
    pub(crate) fn free_before(&mut self, tail: usize) {
        self.tail = tail;
    }
}

#[kernel::macros::kunit_tests(galcore_space)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_and_go_round() {
        let mut space = Space::new(256, 16);
        assert_eq!(space.place(100), Some(16));
        space.take(16, 104);
        assert_eq!(space.place(136), Some(120));
        assert_eq!(space.place(144), None);
        space.free_before(104);
        assert_eq!(space.place(104), Some(120));
        assert_eq!(space.place(144), None);
        space.take(120, 104);
        // 32 left at the end, 104 at the start.
        assert_eq!(space.place(96), Some(0));
        assert_eq!(space.place(104), None);
        space.take(0, 96);
        assert_eq!(space.place(8), None);
        space.free_before(208);
        assert_eq!(space.place(104), Some(96));
        assert_eq!(space.place(112), None);
    }

    #[test]
    fn the_largest_chunk_always_fits_an_idle_ring() {
        const SIZE: usize = 1024;
        let mut at = 16;
        while at <= SIZE {
            let space = Space {
                size: SIZE,
                head: at,
                tail: at - 16,
            };
            assert!(space.place(Space::largest(SIZE)).is_some());
            at += 8;
        }
    }
}
