// SPDX-License-Identifier: GPL-2.0-only

//! What one process may have, and what it gets beyond that. Pure logic.
//!
//! No client of the vendor's stack comes near any of these: they keep a process that is broken, or
//! hostile, from taking what all need. What the kernel allocates for a client it charges to the
//! client's memory cgroup ([`GFP_CLIENT`](crate::sys::GFP_CLIENT)) where it can; contiguous memory it cannot. The
//! table for users is in the admin guide (Bounds).

/// Cores of a device.
pub(crate) const MAX_CORES: usize = 4;

/// The denominator of a core's clock rate.
pub(crate) const FULL_SCALE: u32 = 64;

/// Bytes of a line of the processor's cache.
pub(crate) const CACHE_LINE: u64 = 64;

/// Objects of one kind in one process: nodes, contiguous buffers, signals, pieces of user memory.
/// Else `OutOfResources`.
pub(crate) const MAX_HANDLES: usize = 1 << 14;

/// Processes of one user, with those that have exited while others have their files. Else `EAGAIN`
/// of `open`. The administrator may have more.
pub(crate) const MAX_PROCESSES: usize = 1024;

/// The same where each process has tables of the MMU, of which there are 511 for all users.
pub(crate) const MAX_SPACES: usize = 128;

/// Contexts of one process, each of which takes contiguous memory. Else `OutOfResources`.
pub(crate) const MAX_CONTEXTS: usize = 256;

/// Numbers under which one process leaves data for others. Else `OutOfResources`.
pub(crate) const MAX_SHARED_INFOS: usize = 64;

/// Bytes of each. Else `OutOfResources`.
pub(crate) const MAX_SHARED_INFO_BYTES: usize = 4096;

/// Shared buffers that one process has. Else `OutOfResources`.
pub(crate) const MAX_SHARED_BUFFERS: usize = 1024;

/// Bytes of a shared buffer. Else `OutOfResources`. Source: the vendor's driver.
pub(crate) const MAX_SHARED_BUFFER_BYTES: usize = 1024;

/// Records of one event queue. Else `InvalidData`.
pub(crate) const MAX_RECORDS: usize = 4096;

/// Pieces of commands of one COMMIT. Else `InvalidData`.
pub(crate) const MAX_LOCATIONS: usize = 256;

/// Buffers of one COMMIT for the vector graphics core. Else `InvalidArgument`.
pub(crate) const MAX_VECTOR_BUFFERS: usize = 4096;

/// Tasks of one COMMIT for the vector graphics core. Else `InvalidArgument`.
pub(crate) const MAX_TASKS: usize = 4096;

/// Bytes of their records. Else `InvalidArgument`.
pub(crate) const MAX_TASK_BYTES: u32 = 64 << 10;

/// Parts of one COMMIT, each for a core. Else `InvalidArgument`. Source: the vendor's driver.
pub(crate) const MAX_SUB_COMMITS: usize = 21;

/// Fences of one signal that are not signaled. Else `OutOfResources`.
pub(crate) const MAX_FENCES: usize = 16;

/// Fences of all signals of one process that are not signaled; one whose time is over counts until
/// its signal has another. Else `OutOfResources`.
pub(crate) const MAX_PROCESS_FENCES: usize = 1024;

/// Timers of one process. Else `InvalidArgument`.
pub(crate) const MAX_TIMERS: usize = 8;

/// The least and the most of the machine's memory that scattered nodes leave.
const LEAST_RESERVE: usize = 4 << 20;
const MOST_RESERVE: usize = 64 << 20;

/// How much of `total` bytes of memory scattered nodes leave to everybody else: a 32nd, within
/// bounds.
pub(crate) fn memory_reserve(total: usize) -> usize {
    (total / 32).clamp(LEAST_RESERVE, MOST_RESERVE)
}

/// Whether `bytes` more of scattered memory leave the reserve, where `available` of `total` can be
/// had. Else `OutOfMemory`.
pub(crate) fn leaves_reserve(bytes: usize, available: usize, total: usize) -> bool {
    bytes
        .checked_add(memory_reserve(total))
        .is_some_and(|wanted| wanted <= available)
}

#[kernel::macros::kunit_tests(galcore_limits)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_left() {
        const MIB: usize = 1 << 20;
        for (total, reserve) in [
            (0, 4),
            (64 * MIB, 4),
            (128 * MIB, 4),
            (512 * MIB, 16),
            (1024 * MIB, 32),
            (usize::MAX, 64),
        ] {
            assert_eq!(memory_reserve(total), reserve * MIB);
        }
        let total = 512 * MIB;
        assert!(leaves_reserve(84 * MIB, 100 * MIB, total));
        assert!(!leaves_reserve(84 * MIB + 1, 100 * MIB, total));
        assert!(!leaves_reserve(0, 15 * MIB, total));
        assert!(!leaves_reserve(usize::MAX, usize::MAX, total));
    }
}
