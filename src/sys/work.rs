// SPDX-License-Identifier: GPL-2.0-only

//! The module's own work queues. Module exit waits for all of their work.
//!
//! Most work is for one client, takes time in proportion to its memory, and runs at normal
//! priority. A second queue of normal priority is for errands ([`by_worker`]): low-priority threads
//! do not run them, because they would hold locks for long that job completion needs, too. The hang
//! check ([`enqueue_delayed`]) is urgent (nice -20) and short. It completes and recovers jobs of
//! all clients, and must not wait for a process that keeps the CPUs busy.

use super::{
    platform,
    prelude::*,
    shim,
    unload::{
        self,
        InUse, //
    }, //
};
use core::{
    ffi::{
        c_int,
        c_void, //
    },
    mem::MaybeUninit, //
};
use kernel::{
    bindings,
    workqueue::{
        DelayedWork,
        Queue,
        RawDelayedWorkItem,
        RawWorkItem,
        Work, //
    }, //
};

/// Addresses of the queues, or 0. They do not change while an [`InUse`] exists.
static QUEUE: Atomic<usize> = Atomic::new(0);
static URGENT: Atomic<usize> = Atomic::new(0);
static ERRANDS: Atomic<usize> = Atomic::new(0);

/// The most errands that run at once. The others wait, and do not delay the hang check.
const MOST_ERRANDS: c_int = 4;

/// At module exit, number and duration of the waits for threads that are queueing work.
const ROUNDS: u32 = 100;
const ROUND: Delta = Delta::from_millis(10);

/// A work queue without work, when it is dropped.
///
/// # Invariants
///
/// `0` is a live queue. Dropping this destroys it.
struct Raw(*mut bindings::workqueue_struct);

impl Raw {
    /// Creates a queue with the additional `flags`. It runs at most `most` items at once (0: the
    /// default). `ENOMEM`.
    fn new(name: &CStr, flags: u32, most: c_int) -> Result<Self> {
        let flags = flags | bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: The name is a C string without conversions, so no further arguments are read.
        let queue = unsafe { bindings::alloc_workqueue_noprof(name.as_char_ptr(), flags, most) };
        // INVARIANT: Created just now.
        if queue.is_null() {
            Err(ENOMEM)
        } else {
            Ok(Self(queue))
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is live. Nothing uses it after this drop.
        unsafe { bindings::destroy_workqueue(self.0) }
    }
}

/// The owner of the queues. Module exit drops it last.
///
/// # Invariants
///
/// [`QUEUE`], [`URGENT`] and [`ERRANDS`] hold the queues' addresses. The unload is watched.
pub(crate) struct OwnQueue {
    usual: core::mem::ManuallyDrop<Raw>,
    urgent: core::mem::ManuallyDrop<Raw>,
    errands: core::mem::ManuallyDrop<Raw>,
}

// SAFETY: It is only used to destroy the queues, which any thread may do.
unsafe impl Send for OwnQueue {}
// SAFETY: No method takes `&self`, so a shared reference gives access to nothing.
unsafe impl Sync for OwnQueue {}

impl OwnQueue {
    /// Creates the queues. `EBUSY`: they already exist. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let usual = Raw::new(c"galcore", 0, 0)?;
        let urgent = Raw::new(c"galcore-urgent", bindings::wq_flags_WQ_HIGHPRI, 0)?;
        let errands = Raw::new(c"galcore-errands", 0, MOST_ERRANDS)?;
        QUEUE
            .cmpxchg(0, usual.0 as usize, Full)
            .map_err(|_| EBUSY)?;
        URGENT.store(urgent.0 as usize, Release);
        ERRANDS.store(errands.0 as usize, Release);
        // SAFETY: The unload is not watched yet. The exchange above only succeeds once, until
        // `QUEUE` is 0 again.
        if let Err(error) = to_result(unsafe { shim::gal_watch_unload() }) {
            // Nothing has read them, because there are no uses yet.
            ERRANDS.store(0, Release);
            URGENT.store(0, Release);
            QUEUE.store(0, Release);
            return Err(error);
        }
        // SAFETY: The queues were created and stored above. They stay until `close` returns `true`.
        unsafe { unload::open() };
        // INVARIANT: The queues are stored, and the unload is watched.
        Ok(Self {
            usual: core::mem::ManuallyDrop::new(usual),
            urgent: core::mem::ManuallyDrop::new(urgent),
            errands: core::mem::ManuallyDrop::new(errands),
        })
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // Drains the queues, because work may queue more work.
        // SAFETY: By the type invariant the queues are live until they are dropped below. Errands
        // queue nothing. A thread that waits for one has a use.
        unsafe {
            bindings::drain_workqueue(self.urgent.0);
            bindings::drain_workqueue(self.usual.0);
        }
        for _ in 0..ROUNDS {
            if unload::close() {
                // SAFETY: By the type invariant. Nothing queues work any more, because that takes a
                // use: there are none, and none can be created. So no fence exists either. The
                // queues are only dropped here.
                unsafe {
                    platform::end_all();
                    shim::gal_end_fences();
                    core::mem::ManuallyDrop::drop(&mut self.errands);
                    core::mem::ManuallyDrop::drop(&mut self.urgent);
                    core::mem::ManuallyDrop::drop(&mut self.usual);
                    shim::gal_unwatch_unload();
                }
                ERRANDS.store(0, Release);
                URGENT.store(0, Release);
                QUEUE.store(0, Release);
                return;
            }
            // Another thread may be queueing work.
            fsleep(ROUND);
        }
        // A leaked registration can still call this module, so the queues and the watch stay.
        pr_err!("the module is in use and cannot go\n");
    }
}

/// The usual queue, for C.
pub(super) fn raw_queue(_: &InUse) -> *mut bindings::workqueue_struct {
    QUEUE.load(Acquire) as *mut bindings::workqueue_struct
}

/// The usual queue.
fn queue(in_use: &InUse) -> &Queue {
    // SAFETY: There are no uses before `OwnQueue::new` has stored the queue. It is not destroyed as
    // long as there is a use.
    unsafe { Queue::from_raw(raw_queue(in_use)) }
}

/// The urgent queue.
fn urgent(_: &InUse) -> &Queue {
    let queue = URGENT.load(Acquire) as *const bindings::workqueue_struct;
    // SAFETY: There are no uses before `OwnQueue::new` has stored the queue. It lives until the
    // last use ends.
    unsafe { Queue::from_raw(queue) }
}

/// Queues `work`. Drops it if there is no queue: before module init and after module exit.
pub(crate) fn enqueue<W, const ID: u64>(work: W)
where
    W: RawWorkItem<ID> + Send + 'static,
{
    if let Ok(in_use) = InUse::new() {
        enqueue_in(&in_use, work);
    }
}

/// Queues `work`.
pub(super) fn enqueue_in<W, const ID: u64>(in_use: &InUse, work: W)
where
    W: RawWorkItem<ID> + Send + 'static,
{
    let _ = queue(in_use).enqueue(work);
}

/// An object with delayed work. Until the delay is over, only the object keeps the queue.
pub(crate) trait Delayed {
    /// The use that keeps the queue as long as the object lives.
    fn in_use(&self) -> &InUse;
}

/// Queues urgent `work` to run after `delay`. It must take at most constant time.
pub(crate) fn enqueue_delayed<T, const ID: u64>(work: Arc<T>, delay: Jiffies)
where
    T: Delayed + Send + Sync + 'static,
    Arc<T>: RawDelayedWorkItem<ID>,
{
    // The timer holds a reference of the object until the work runs. So nothing has exclusive
    // access to the object, and nothing can move or drop its use.
    let queue = core::ptr::from_ref(urgent(work.in_use()));
    // SAFETY: Because of the use, the queue is valid now and when the timer expires.
    let _ = unsafe { &*queue }.enqueue_delayed(work, delay);
}

/// The work of [`by_worker`].
struct Errand<F, T> {
    body: Option<F>,
    result: MaybeUninit<T>,
}

/// # Safety
///
/// `context` points to an `Errand<F, T>`. Nothing else uses it during the call.
unsafe extern "C" fn run_errand<T, F: FnOnce() -> T>(context: *mut c_void) {
    // SAFETY: By the caller `context` points to an errand, which only this call uses.
    let errand = unsafe { &mut *context.cast::<Errand<F, T>>() };
    if let Some(body) = errand.body.take() {
        errand.result.write(body());
    }
}

/// Runs `body`. If the calling thread has low priority, `body` runs in a worker of normal priority,
/// and the thread waits for it, uninterruptibly. `body` must take at most constant time, and must
/// not depend on the calling process.
pub(crate) fn by_worker<T: Send, F: FnOnce() -> T + Send>(body: F) -> T {
    // SAFETY: Only reads the calling thread.
    let is_low = unsafe { shim::gal_is_low() };
    let in_use = if is_low { InUse::new().ok() } else { None };
    let Some(in_use) = in_use else {
        return body();
    };
    let mut errand = Errand {
        body: Some(body),
        result: MaybeUninit::uninit(),
    };
    let context = (&raw mut errand).cast();
    let queue = ERRANDS.load(Acquire) as *mut bindings::workqueue_struct;
    // SAFETY: The queue is live as long as there is a use. The call returns after a worker has run
    // the function once. The worker does not use the errand after that.
    unsafe { shim::gal_run_in(queue, Some(run_errand::<T, F>), context) };
    drop(in_use);
    match errand.body {
        Some(body) => body(),
        // SAFETY: The body has run, and its result was written.
        None => unsafe { errand.result.assume_init() },
    }
}

/// Waits for all work that is queued now, except urgent work and errands. Must not be called from a
/// queue.
pub(crate) fn flush() {
    if let Ok(in_use) = InUse::new() {
        // SAFETY: The queue is live as long as there is a use.
        unsafe { bindings::__flush_workqueue(raw_queue(&in_use)) };
    }
}

/// If `work` is queued or running, waits until it has run.
pub(crate) fn flush_one<T: ?Sized, const ID: u64>(work: &Work<T, ID>) {
    let raw = core::ptr::from_ref(work)
        .cast_mut()
        .cast::<bindings::work_struct>();
    // SAFETY: `Work` is a transparent wrapper of the C structure, initialised when it was pinned,
    // and lives as long as the reference.
    unsafe { bindings::flush_work(raw) };
}

/// If `work` is queued, ends its delay. Waits until it has run.
pub(crate) fn flush_delayed<T: ?Sized, const ID: u64>(work: &DelayedWork<T, ID>) {
    let raw = core::ptr::from_ref(work)
        .cast_mut()
        .cast::<bindings::delayed_work>();
    // SAFETY: `DelayedWork` is a transparent wrapper of the C structure, initialised when it was
    // pinned, and lives as long as the reference.
    unsafe { bindings::flush_delayed_work(raw) };
}

#[kunit_tests(galcore_work)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_module_has_its_queues_once() {
        assert_eq!(OwnQueue::new().err(), Some(EBUSY));
        // The first owner's queues are still open.
        assert!(InUse::new().is_ok());
    }
}
