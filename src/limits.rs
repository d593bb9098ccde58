// SPDX-License-Identifier: GPL-2.0-only

//! Limits of a process, and the errors beyond them. Pure logic.
//!
//! Clients of the vendor's stack stay far below these limits. They prevent a broken or hostile
//! process from taking resources that all need. Allocations for a client are charged to its memory
//! cgroup ([`GFP_CLIENT`](crate::sys::GFP_CLIENT)), except pool and CMA memory, and small ones under
//! a lock of all processes. The admin guide has the table for users (Bounds).

/// The most cores of a device.
pub(crate) const MAX_CORES: usize = 4;

/// The denominator of a core's clock rate.
pub(crate) const FULL_SCALE: u32 = 64;

/// Size of a CPU cache line, in bytes.
pub(crate) const CACHE_LINE: u64 = 64;

/// Objects of each kind in one process: nodes, contiguous buffers, signals, pieces of user memory.
/// More: `OutOfResources`.
pub(crate) const MAX_HANDLES: usize = 1 << 14;

/// Processes of one user, including those that have exited while others have their files. More:
/// `open` fails with `EAGAIN`, except for the administrator.
pub(crate) const MAX_PROCESSES: usize = 1024;

/// The same if each process has its own MMU tables, of which there are 511 for all users.
pub(crate) const MAX_SPACES: usize = 128;

/// Contexts of one process. Each takes contiguous memory. More: `OutOfResources`.
pub(crate) const MAX_CONTEXTS: usize = 256;

/// Shared infos of one process: numbered data for others. More: `OutOfResources`.
pub(crate) const MAX_SHARED_INFOS: usize = 64;

/// Size of a shared info, in bytes. More: `OutOfResources`.
pub(crate) const MAX_SHARED_INFO_BYTES: usize = 4096;

/// Shared buffers of one process. More: `OutOfResources`.
pub(crate) const MAX_SHARED_BUFFERS: usize = 1024;

/// Size of a shared buffer, in bytes. More: `OutOfResources`. Source: the vendor's driver.
pub(crate) const MAX_SHARED_BUFFER_BYTES: usize = 1024;

/// Records of one event queue. More: `InvalidData`.
pub(crate) const MAX_RECORDS: usize = 4096;

/// Pieces of commands in one COMMIT. More: `InvalidArgument`.
pub(crate) const MAX_LOCATIONS: usize = 256;

/// Buffers of one COMMIT for a vector graphics core. More: `InvalidArgument`.
pub(crate) const MAX_VECTOR_BUFFERS: usize = 4096;

/// Tasks of one COMMIT for a vector graphics core. More: `InvalidArgument`.
pub(crate) const MAX_TASKS: usize = 4096;

/// Size of the records of these tasks, in bytes. More: `InvalidArgument`.
pub(crate) const MAX_TASK_BYTES: u32 = 64 << 10;

/// Parts of one COMMIT, each for one core. More: `InvalidArgument`. Source: the vendor's driver.
pub(crate) const MAX_SUB_COMMITS: usize = 21;

/// Fences of one signal that are not signaled yet. More: `OutOfResources`.
pub(crate) const MAX_FENCES: usize = 16;

/// Fences of all signals of one process that are not signaled yet. A fence that has timed out
/// counts until its signal gets another. More: `OutOfResources`.
pub(crate) const MAX_PROCESS_FENCES: usize = 1024;

/// Timers of one process. More: `InvalidArgument`.
pub(crate) const MAX_TIMERS: usize = 8;

/// The minimum and maximum of [`memory_reserve`], in bytes.
const LEAST_RESERVE: usize = 4 << 20;
const MOST_RESERVE: usize = 64 << 20;

/// How many of the machine's `total` bytes of memory scattered nodes leave free: a 32nd, within
/// bounds.
pub(crate) fn memory_reserve(total: usize) -> usize {
    (total / 32).clamp(LEAST_RESERVE, MOST_RESERVE)
}

/// Whether another `bytes` of scattered memory leave the reserve free. `available` of `total` bytes
/// are available. If not: `OutOfMemory`.
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
