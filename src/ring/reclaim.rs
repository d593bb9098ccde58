// SPDX-License-Identifier: GPL-2.0-only

//! Memory and contexts that clients have released. A work item drops them when no core uses them.
//!
//! A [`Retired`] is allocated together with the object that it will release. So a release allocates
//! nothing and cannot fail. Windows of the process (its mappings of the pool) may show the object.
//! Then the process's work item unmaps it there ([`Revoker`]). Next the object is tied to the
//! newest job of each ring, one ring after the other. When these jobs have ended, the device's work
//! item drops it. So the interrupt thread does neither of the long steps.
//!
//! Locks: `galcore rings` guards the list of the rings, and is taken before the rings' own locks.
//! `galcore reclaim` is a leaf.

mod revoker;

use crate::{
    context::Context,
    mmu::GpuView,
    prelude::*,
    wait::{
        self,
        Left, //
    }, //
};
use kernel::{
    impl_has_work,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListLinks, //
    },
    new_work,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

pub(crate) use revoker::Revoker;

/// Numbers of jobs, by core.
pub(crate) type Numbers = [u64; MAX_CORES];

/// The releasing thread itself drops an object of at most this many bytes, if no core uses it.
const SMALL: usize = 1 << 20;

/// No job to wait for.
const NOTHING: u64 = 0;

/// An object that a core may still use.
pub(crate) trait Retirable: Send + Sync {
    /// The most bytes that dropping it frees.
    fn bytes(&self) -> usize;

    /// Called by a work item when no core uses the object any more.
    fn passed(self: Arc<Self>) {}
}

/// A ring. Released objects wait until its jobs have ended.
pub(crate) trait Waited: Send + Sync {
    fn newest(&self) -> u64;

    fn is_idle(&self) -> bool;

    /// Ties `item` to job `number`, or to the newest before it. Returns `item` if that has ended.
    fn tie(&self, number: u64, item: ListArc<Retired>) -> Option<ListArc<Retired>>;

    fn is_over(&self, number: u64) -> bool;
}

/// A part of the pool that windows may show.
pub(crate) struct PoolPart {
    pub(crate) revoker: Arc<Revoker>,
    /// Offset in the pool, and bytes.
    pub(crate) range: (usize, usize),
}

/// An object that a client has released or will release.
#[pin_data]
pub(crate) struct Retired {
    #[pin]
    links: ListLinks,
    /// Maps it in the process's MMU tables until dropped, which is before `object` is dropped. A
    /// view itself keeps its object until no TLB has a translation.
    view: Option<GpuView>,
    object: Arc<dyn Retirable>,
    in_pool: Option<PoolPart>,
    /// Number of bytes at the end of `in_pool` that windows may still show.
    to_revoke: Atomic<usize>,
    /// For each core, the number of the job to wait for.
    after: [Atomic<u64>; MAX_CORES],
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Retired { untracked; }
}

impl_list_item! {
    impl ListItem<0> for Retired { using ListLinks { self.links }; }
}

impl Retired {
    /// Prepares the release of `object`. `in_pool`: its part of the pool, if it is there. `view`:
    /// its view in the process's tables, if any. `OutOfMemory`.
    pub(crate) fn new(
        object: Arc<dyn Retirable>,
        in_pool: Option<PoolPart>,
        view: Option<GpuView>,
    ) -> Result<ListArc<Self>> {
        Ok(ListArc::pin_init(
            try_pin_init!(Self {
                links <- ListLinks::new(),
                view,
                object,
                in_pool,
                to_revoke: Atomic::new(0),
                after: [const { Atomic::new(NOTHING) }; MAX_CORES],
            }),
            sys::GFP_CLIENT,
        )?)
    }

    /// The address of its view in the process's tables.
    #[inline]
    pub(crate) fn view_address(&self) -> Option<u32> {
        self.view.as_ref().map(GpuView::address)
    }

    /// From now on no new window shows it. It must be unmapped from those that do.
    pub(crate) fn leaves_windows(&self) {
        if let Some(in_pool) = &self.in_pool {
            self.to_revoke.store(in_pool.range.1, Relaxed);
        }
    }

    fn may_be_mapped(&self) -> bool {
        self.to_revoke.load(Relaxed) != 0
    }

    /// Unmaps it from all windows, in steps, until `stop` returns true.
    fn revoke(&self, stop: impl Fn() -> bool) {
        let Some(PoolPart { revoker, range }) = &self.in_pool else {
            return;
        };
        loop {
            let left = self.to_revoke.load(Relaxed);
            if left == 0 || stop() {
                return;
            }
            let done = revoker.views().zap(range.0 + (range.1 - left), left);
            self.to_revoke.store(left - done, Relaxed);
            sys::yield_if_due();
        }
    }
}

/// The most contexts that wait for the work item. The caller drops further ones itself.
const CONTEXTS: usize = 64;

struct State {
    /// Contexts whose last user was a job. The vector never grows.
    contexts: KVec<Arc<Context>>,
    /// Objects for the work item to drop.
    items: List<Retired>,
    /// How many objects are tied to jobs.
    waiting: u64,
    /// Objects that the work item was given, and has handled.
    drops: Count,
    /// Objects that the processes' revokers were given, and have revoked.
    revokes: Count,
    /// Processes that end.
    endings: Count,
}

/// How many have begun, and how many of these have ended.
#[derive(Clone, Copy, Default)]
struct Count {
    begun: u64,
    ended: u64,
}

impl Count {
    /// How many have not ended.
    fn left(self) -> u64 {
        self.begun - self.ended
    }
}

/// Reclaims the objects that clients release, for all cores of a device.
#[pin_data]
pub(crate) struct Reclaimer {
    #[pin]
    rings: SpinLock<[Option<Arc<dyn Waited>>; MAX_CORES]>,
    #[pin]
    state: SpinLock<State>,
    /// Notified when a count of ended objects or processes has changed.
    #[pin]
    progress: CondVar,
    #[pin]
    work: Work<Reclaimer>,
}

impl_has_work! {
    impl HasWork<Self> for Reclaimer { self.work }
}

impl WorkItem for Reclaimer {
    type Pointer = Arc<Reclaimer>;

    fn run(this: Arc<Reclaimer>) {
        this.reclaim();
    }
}

impl Reclaimer {
    /// The reclaimer of a device without cores.
    pub(crate) fn new() -> Result<Arc<Self>, Errno> {
        let contexts = KVec::with_capacity(CONTEXTS, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                rings <- new_spinlock!([const { None }; MAX_CORES], "galcore rings"),
                state <- new_spinlock!(State {
                    contexts,
                    items: List::new(),
                    waiting: 0,
                    drops: Count::default(),
                    revokes: Count::default(),
                    endings: Count::default(),
                }, "galcore reclaim"),
                progress <- new_condvar!("galcore reclaim"),
                work <- new_work!("galcore reclaim"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the ring of core `core`, which may use clients' memory from now on. `None`: no longer.
    pub(crate) fn set_ring(&self, core: usize, ring: Option<Arc<dyn Waited>>) {
        let mut ring = ring;
        if let Some(place) = self.rings.lock().get_mut(core) {
            core::mem::swap(place, &mut ring);
        }
        drop(ring);
    }

    /// For each core, the number of the newest job.
    pub(crate) fn newest(&self) -> Numbers {
        let rings = self.rings.lock();
        core::array::from_fn(|core| rings[core].as_ref().map_or(NOTHING, |ring| ring.newest()))
    }

    /// Whether all of these jobs have ended.
    pub(crate) fn are_over(&self, numbers: &Numbers) -> bool {
        let rings = self.rings.lock();
        rings
            .iter()
            .zip(numbers)
            .all(|(ring, &number)| ring.as_ref().is_none_or(|ring| ring.is_over(number)))
    }

    /// Releases `item`: it is dropped when no window shows it and the jobs `numbers` have ended.
    /// `None`: all jobs that are in the rings now. Takes only spinlocks.
    pub(crate) fn retire(self: &Arc<Self>, numbers: Option<&Numbers>, item: ListArc<Retired>) {
        match &item.in_pool {
            Some(PoolPart { revoker, .. }) if item.may_be_mapped() => {
                revoker.clone().revoke_later(item)
            }
            _ => {
                if let Some(item) = self.tie(numbers, item) {
                    self.reclaim_later(item);
                }
            }
        }
    }

    /// As [`Reclaimer::retire`], but the calling thread unmaps `item` from windows, unless it is
    /// killed. A small `item` that no core uses is dropped before this returns. The caller holds no
    /// lock.
    pub(crate) fn retire_here(self: &Arc<Self>, item: ListArc<Retired>) {
        item.revoke(sys::is_killed);
        if item.may_be_mapped() {
            return self.retire(None, item);
        }
        match self.tie(None, item) {
            Some(item) if item.object.bytes() <= SMALL => drop(item),
            Some(item) => self.reclaim_later(item),
            None => {}
        }
    }

    /// Ties `item`, which no window shows, to the jobs `numbers`. `None`: to the newest jobs,
    /// because later ones cannot use it. Returns `item` if it waits for no job.
    fn tie(&self, numbers: Option<&Numbers>, item: ListArc<Retired>) -> Option<ListArc<Retired>> {
        let rings = self.rings.lock();
        if rings.iter().flatten().all(|ring| ring.is_idle()) {
            return Some(item);
        }
        for (core, ring) in rings.iter().enumerate() {
            if let Some(ring) = ring {
                let number = numbers.map_or_else(|| ring.newest(), |numbers| numbers[core]);
                item.after[core].store(number, Relaxed);
            }
        }
        self.tie_next(&rings, item)
    }

    /// Ties `item` to the first job that it still waits for. Returns `item` if it waits for no job.
    fn tie_next(
        &self,
        rings: &[Option<Arc<dyn Waited>>; MAX_CORES],
        mut item: ListArc<Retired>,
    ) -> Option<ListArc<Retired>> {
        // Counted first: the job can end, with the item, at once. So the count is never too low.
        self.state.lock().waiting += 1;
        for (core, ring) in rings.iter().enumerate() {
            let Some(ring) = ring else {
                continue;
            };
            let number = item.after[core].xchg(NOTHING, Relaxed);
            if number != NOTHING {
                item = ring.tie(number, item)?;
            }
        }
        self.state.lock().waiting -= 1;
        Some(item)
    }

    /// Takes over the `count` objects that were tied to an ended job.
    pub(crate) fn take(self: &Arc<Self>, items: &mut List<Retired>, count: u64) {
        let mut state = self.state.lock();
        state.waiting -= count;
        state.drops.begun += count;
        state.items.push_all_back(items);
        drop(state);
        self.queue();
    }

    /// Drops a reference. The work item drops the last one, because that takes time and locks.
    pub(super) fn drop_later(self: &Arc<Self>, context: Arc<Context>) {
        let Some(context) = Arc::into_unique_or_drop(context) else {
            return;
        };
        let mut state = self.state.lock();
        let left = state.contexts.push_within_capacity(Arc::from(context));
        state.drops.begun += u64::from(left.is_ok());
        drop(state);
        self.queue();
        drop(left);
    }

    fn reclaim_later(self: &Arc<Self>, item: ListArc<Retired>) {
        let mut state = self.state.lock();
        state.items.push_back(item);
        state.drops.begun += 1;
        drop(state);
        self.queue();
    }

    fn queue(self: &Arc<Self>) {
        sys::work::enqueue(self.clone());
    }

    /// Runs as the work item: drops the objects that no core uses.
    fn reclaim(self: &Arc<Self>) {
        loop {
            let context = self.state.lock().contexts.pop();
            if context.is_none() {
                break;
            }
            drop(context);
            self.note(false, |state| &mut state.drops);
        }
        // Bounded: an item that comes back here has fewer cores to wait for.
        loop {
            let item = self.state.lock().items.pop_front();
            let Some(item) = item else {
                return;
            };
            let item = {
                let rings = self.rings.lock();
                self.tie_next(&rings, item)
            };
            if let Some(item) = item {
                item.object.clone().passed();
            }
            self.note(false, |state| &mut state.drops);
            sys::yield_if_due();
        }
    }

    /// Counts in `count` one that begins (`begins`) or has ended.
    fn note(&self, begins: bool, count: impl FnOnce(&mut State) -> &mut Count) {
        let mut state = self.state.lock();
        let count = count(&mut state);
        if begins {
            count.begun += 1;
            return;
        }
        count.ended += 1;
        drop(state);
        self.progress.notify_all();
    }

    /// Counts a process that begins to end (`begins`) or has ended.
    pub(crate) fn note_ending(&self, begins: bool) {
        self.note(begins, |state| &mut state.endings);
    }

    /// The number of released objects that are not dropped yet, and of processes that are ending.
    pub(crate) fn pending(&self) -> (usize, usize) {
        let state = self.state.lock();
        // CAST: each of the counted objects takes memory.
        (
            (state.waiting + state.revokes.left() + state.drops.left()) as usize,
            state.endings.left() as usize,
        )
    }

    /// Whether a process is ending, or a work item has objects left. Tied objects do not count.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        let counts = [state.endings, state.drops, state.revokes];
        counts.into_iter().any(|count| count.left() != 0)
    }

    /// Waits until the work item has handled all objects that it has now. A work item must not call
    /// this. `Interrupted`: a Unix signal came. `GpuNotResponding`: there is no progress.
    pub(crate) fn wait(&self) -> Result {
        self.wait_to_end(true, |state| state.drops)
    }

    /// Waits until no window shows what the process of `revoker` has released by now. Errors as
    /// [`Reclaimer::wait`].
    pub(crate) fn wait_for_own(&self, revoker: &Revoker) -> Result {
        // Called under the state's lock: `galcore revoking` is a leaf.
        self.wait_to_end(true, |_| revoker.count())
    }

    /// Waits until no window shows what any process has released by now, then for the ending
    /// processes. Each wait takes [`wait::TIMEOUT`] at most: others may release more meanwhile.
    pub(crate) fn wait_for_others(&self) -> Result {
        self.wait_to_end(false, |state| state.revokes)?;
        self.wait_to_end(false, |state| state.endings)
    }

    /// Counts the steps of release that have ended. After a change more memory may be free.
    pub(crate) fn freed(&self) -> u64 {
        let state = self.state.lock();
        state.drops.ended + state.revokes.ended + state.endings.ended
    }

    /// Waits until as many have ended as have begun by now, by `count`.
    /// `starts_over`: as in [`wait::while_progressing`].
    fn wait_to_end(&self, starts_over: bool, count: impl Fn(&State) -> Count) -> Result {
        let mut state = self.state.lock();
        let wanted = count(&state).begun;
        let limit = (wait::TIMEOUT, starts_over);
        wait::while_progressing(&self.progress, &mut state, limit, |state| {
            let ended = count(state).ended;
            Ok(if ended < wanted {
                Left::Something(ended)
            } else {
                Left::Nothing
            })
        })
    }
}
