// SPDX-License-Identifier: GPL-2.0-only

//! What a process uses: the time of the cores, its objects, and ledgers of its memory by pool and
//! by kind of surface. The time is in its [`Account`].

use super::{
    AnyCore,
    Process, //
};
use crate::{
    abi::Ledger,
    limits::MAX_PROCESS_FENCES,
    memory::Pool,
    prelude::*,
    ring::Account,
    sys::{
        clock,
        CommandName, //
    }, //
};

/// Counts for one unsignaled fence of a process.
pub(super) struct OneFence(Arc<Account>);

impl OneFence {
    /// Counts one more fence. `OutOfResources`: the process has [`MAX_PROCESS_FENCES`].
    pub(super) fn new(account: &Arc<Account>) -> Result<Self> {
        let before = account.fences.fetch_add(1, Relaxed);
        let one = Self(account.clone());
        if before < MAX_PROCESS_FENCES {
            Ok(one)
        } else {
            Err(Error::OutOfResources)
        }
    }
}

impl Drop for OneFence {
    fn drop(&mut self) {
        self.0.fences.fetch_sub(1, Relaxed);
    }
}

impl Process {
    /// The time for which its jobs, including the running one, have kept `core` busy, in
    /// nanoseconds. It never decreases.
    pub(crate) fn busy_on(&self, core: &AnyCore) -> u64 {
        let ended = self.account.busy(core.index());
        let running = match core.load().running {
            Some((process, counts)) if process == self.number => counts,
            _ => 0,
        };
        let counts = self
            .account
            .report_monotonic(core.index(), ended.saturating_add(running));
        clock::nanoseconds(counts)
    }

    /// Number of submitted jobs, by core.
    pub(crate) fn jobs(&self) -> [u64; MAX_CORES] {
        self.tables().jobs
    }
}

/// An object of a process.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    /// The vendor's word for its kind.
    pub(crate) kind: &'static str,
    pub(crate) handle: u32,
    /// GPU address of its memory. 0: it has none.
    pub(crate) address: u32,
    /// Bytes of its memory.
    pub(crate) bytes: usize,
}

/// Number of lists of objects: see [`Process::objects`].
const LISTS: u32 = 6;

/// The most objects that are copied in one hold of the tables' lock.
const CHUNK: usize = 64;

impl Process {
    /// The current name of the program. It can contain any bytes.
    pub(crate) fn name(&self) -> CommandName {
        CommandName::of(&self.leader)
    }

    /// The amounts of memory that the process has.
    pub(crate) fn ledgers(&self) -> Ledgers {
        let tables = self.tables();
        Ledgers {
            video: tables.video,
            non_paged: tables.non_paged,
            contiguous: tables.contiguous,
            mapped: tables.mapped,
        }
    }

    /// Calls `look`, without locks, for each of its objects. There may be many, so it stops if the
    /// caller is killed. Objects that come or end during the walk may be missing or repeated.
    /// `ENOMEM`.
    pub(crate) fn for_each_object(&self, mut look: impl FnMut(&Object)) -> Result {
        let mut chunk = KVec::with_capacity(CHUNK, GFP_KERNEL)?;
        for list in 0..LISTS {
            let mut done = 0;
            // Bounded by the limits of the tables.
            loop {
                chunk.clear();
                let count = self.objects(list, done, &mut chunk);
                chunk.iter().for_each(&mut look);
                if count < CHUNK {
                    break;
                }
                if sys::is_killed() {
                    return Ok(());
                }
                sys::yield_if_due();
                done += count;
            }
        }
        Ok(())
    }

    /// Copies up to [`CHUNK`] objects of this list, after the first `skip` entries. Returns the
    /// number of entries visited.
    fn objects(&self, list: u32, skip: usize, chunk: &mut KVec<Object>) -> usize {
        let tables = self.tables();
        match list {
            0 => fill(chunk, tables.nodes.numbered().skip(skip), |entry| {
                Some(("VideoMemory", entry.node.address(), entry.node.bytes()))
            }),
            1 => fill(chunk, tables.nodes.numbered().skip(skip), |entry| {
                let what = ("VidMemLock", entry.node.address(), entry.node.bytes());
                (entry.locks > 0).then_some(what)
            }),
            2 => fill(chunk, tables.buffers.numbered().skip(skip), |entry| {
                let kind = if entry.non_paged {
                    "NonPaged"
                } else {
                    "Contiguous"
                };
                Some((kind, entry.buffer.address(), entry.buffer.bytes()))
            }),
            3 => fill(chunk, tables.signals.numbered().skip(skip), |_| {
                Some(("Signal", 0, 0))
            }),
            4 => fill(chunk, tables.contexts.numbered().skip(skip), |_| {
                Some(("Context", 0, 0))
            }),
            _ => {
                let mapped = tables.user_memory.numbered().skip(skip);
                fill(chunk, mapped, |mapped| {
                    let memory = mapped.memory();
                    let range = memory.map_or((0, 0), |memory| (memory.address(), memory.bytes()));
                    Some(("MapUserMemory", range.0, range.1))
                })
            }
        }
    }
}

/// Copies the objects that `say` describes. Returns the number of entries visited.
fn fill<'a, T: 'a>(
    chunk: &mut KVec<Object>,
    objects: impl Iterator<Item = (u32, &'a T)>,
    say: impl Fn(&T) -> Option<(&'static str, u32, usize)>,
) -> usize {
    let mut count = 0;
    for (handle, object) in objects.take(CHUNK) {
        count += 1;
        let Some((kind, address, bytes)) = say(object) else {
            continue;
        };
        // The caller has reserved room for a chunk.
        let _ = chunk.push_within_capacity(Object {
            kind,
            handle,
            address,
            bytes,
        });
    }
    count
}

/// Number of kinds of surfaces (`gceVIDMEM_TYPE` of the 6.4 driver).
pub(crate) const KINDS: usize = 17;

/// The bits of a request's kind that are no flags.
const KIND_MASK: u32 = 0xFF;

/// Nodes of video memory that a process has allocated.
#[derive(Clone, Copy, Default)]
pub(crate) struct VideoLedgers {
    pub(crate) all: Ledger,
    /// In the pool.
    pub(crate) system: Ledger,
    /// In contiguous pages of their own.
    pub(crate) contiguous: Ledger,
    pub(crate) scattered: Ledger,
    /// In the pool, or in contiguous pages of their own.
    pub(crate) in_one_piece: Ledger,
    /// In pages of their own.
    pub(crate) paged: Ledger,
    /// By the surface's kind.
    pub(crate) kinds: [Ledger; KINDS],
}

/// The pool and the kind of a node.
#[derive(Clone, Copy)]
pub(super) struct Sort {
    pub(super) pool: Pool,
    /// The kind that ALLOCATE_VIDEO_MEMORY names.
    pub(super) kind: u32,
}

impl VideoLedgers {
    /// The ledgers that count a node of this sort.
    fn of(&mut self, sort: Sort) -> impl Iterator<Item = &mut Ledger> {
        let (in_one_piece, paged) = (&mut self.in_one_piece, &mut self.paged);
        let pools = match sort.pool {
            Pool::System => [Some(&mut self.system), Some(in_one_piece), None],
            Pool::Contiguous => [Some(&mut self.contiguous), Some(in_one_piece), Some(paged)],
            Pool::Virtual => [Some(&mut self.scattered), None, Some(paged)],
        };
        // CAST: 8 bits.
        let kind = (sort.kind & KIND_MASK) as usize;
        // An unknown kind counts as 0, "no kind".
        let kind = if kind < KINDS { kind } else { 0 };
        let others = [&mut self.all, &mut self.kinds[kind]];
        // `Init` has a `chain`, too.
        Iterator::chain(others.into_iter(), pools.into_iter().flatten())
    }

    /// Adds a node of `bytes` bytes.
    pub(super) fn add(&mut self, sort: Sort, bytes: usize) {
        self.of(sort).for_each(|ledger| ledger.add(bytes));
    }

    /// Removes a node of `bytes` bytes.
    pub(super) fn remove(&mut self, sort: Sort, bytes: usize) {
        self.of(sort).for_each(|ledger| ledger.remove(bytes));
    }
}

/// All memory of a process, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ledgers {
    /// Nodes of video memory.
    pub(crate) video: VideoLedgers,
    /// Buffers of ALLOCATE_NON_PAGED_MEMORY.
    pub(crate) non_paged: Ledger,
    /// Buffers of ALLOCATE_CONTIGUOUS_MEMORY.
    pub(crate) contiguous: Ledger,
    /// Memory of other drivers and the process's own memory, if mapped for the GPU.
    pub(crate) mapped: Ledger,
}

#[kernel::macros::kunit_tests(galcore_ledgers)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_in_its_pool_and_kind() {
        let mut ledgers = VideoLedgers::default();
        let sort = |pool, kind| Sort { pool, kind };
        ledgers.add(sort(Pool::System, 4), 100);
        ledgers.add(sort(Pool::Virtual, 0x104), 30);
        ledgers.add(sort(Pool::Contiguous, 200), 7);
        ledgers.remove(sort(Pool::System, 4), 100);
        let now = [
            ledgers.all,
            ledgers.system,
            ledgers.contiguous,
            ledgers.scattered,
            ledgers.in_one_piece,
            ledgers.paged,
            ledgers.kinds[4],
            ledgers.kinds[0],
        ];
        let bytes = now.map(|ledger| ledger.bytes);
        assert_eq!(bytes, [37, 0, 7, 30, 7, 37, 30, 7]);
        let most = now.map(|ledger| ledger.max);
        assert_eq!(most, [137, 100, 7, 30, 107, 37, 130, 7]);
    }
}
