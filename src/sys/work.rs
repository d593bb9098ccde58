// SPDX-License-Identifier: GPL-2.0-only

//! The module's own work queue: module exit waits for all that runs in it.

use super::{
    component, shim,
    unload::{
        self,
        InUse, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta,
        Jiffies, //
    },
    workqueue::{
        DelayedWork,
        Queue,
        RawDelayedWorkItem,
        RawWorkItem,
        Work, //
    },
};

/// Address of the queue; 0 while there is none. It does not change as long as there is an
/// [`InUse`].
static QUEUE: Atomic<usize> = Atomic::new(0);

/// How often, and how long each time, the end waits for those who are just queueing something.
const ROUNDS: u32 = 100;
const ROUND: Delta = Delta::from_millis(10);

/// The queue's owner, to be dropped last at module exit.
///
/// # Invariants
///
/// `0` is a live queue, the one that [`QUEUE`] names. The module's unload is watched.
pub(crate) struct OwnQueue(*mut bindings::workqueue_struct);

// SAFETY: Only used to destroy the queue, which any thread may do.
unsafe impl Send for OwnQueue {}
// SAFETY: No method takes `&self`.
unsafe impl Sync for OwnQueue {}

impl OwnQueue {
    /// Makes the queue. `EBUSY`: there is one. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: A plain name without conversions.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"galcore".as_char_ptr(),
                bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM,
                0,
            )
        };
        if queue.is_null() {
            return Err(ENOMEM);
        }
        if QUEUE.cmpxchg(0, queue as usize, Full).is_err() {
            // SAFETY: Made above, and nobody else knows it.
            unsafe { bindings::destroy_workqueue(queue) };
            return Err(EBUSY);
        }
        // SAFETY: Not watched yet: the exchange above lets one through until `QUEUE` is 0 again.
        if let Err(error) = to_result(unsafe { shim::gal_watch_unload() }) {
            QUEUE.store(0, Release);
            // SAFETY: As above: without uses nobody has looked at `QUEUE`.
            unsafe { bindings::destroy_workqueue(queue) };
            return Err(error);
        }
        // SAFETY: It was made and named above, and goes when it is closed and there are no uses.
        unsafe { unload::open() };
        // INVARIANT: Made, named and watched.
        Ok(Self(queue))
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // What is queued may queue more until it is done.
        // SAFETY: By the type invariant.
        unsafe { bindings::drain_workqueue(self.0) };
        for _ in 0..ROUNDS {
            if unload::close() {
                // SAFETY: By the type invariant. Nobody queues any more, now or later: that takes a
                // use, of which there are none, and of which none can be had.
                unsafe {
                    component::end_all();
                    bindings::destroy_workqueue(self.0);
                    shim::gal_unwatch_unload();
                }
                QUEUE.store(0, Release);
                return;
            }
            // Somebody may be just queueing.
            fsleep(ROUND);
        }
        // Something still calls this module, and was forgotten. The queue stays, and so does the
        // watch.
        pr_err!("the module is in use and cannot go\n");
    }
}

/// The queue.
fn queue(_: &InUse) -> &Queue {
    let queue = QUEUE.load(Acquire) as *const bindings::workqueue_struct;
    // SAFETY: A use can be had only after `OwnQueue::new` has named the queue, and it is not
    // destroyed as long as there is one.
    unsafe { Queue::from_raw(queue) }
}

/// Queues `work`. Without a queue, before module init and after module exit, it is dropped.
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

/// An object with delayed work. While its time is not come nothing else keeps the queue.
pub(crate) trait Delayed {
    /// Keeps the queue as long as the object lives.
    fn in_use(&self) -> &InUse;
}

/// Queues `work` for when `delay` is over.
pub(crate) fn enqueue_delayed<T, const ID: u64>(work: Arc<T>, delay: Jiffies)
where
    T: Delayed + Send + Sync + 'static,
    Arc<T>: RawDelayedWorkItem<ID>,
{
    // The timer that is set here has a reference of the object until the work runs. So nobody can
    // have the object for himself, to move or drop what is in it, and the use lives as long.
    let queue = queue(work.in_use()) as *const Queue;
    // SAFETY: As there is a use it is valid, now and when the timer is through.
    let _ = unsafe { &*queue }.enqueue_delayed(work, delay);
}

/// Waits for all that is queued now. Not to be called from the queue.
pub(crate) fn flush() {
    if let Ok(in_use) = InUse::new() {
        let queue = core::ptr::from_ref(queue(&in_use)).cast_mut();
        // SAFETY: `Queue` is a transparent wrapper, and is live as long as there is a use.
        unsafe { bindings::__flush_workqueue(queue.cast()) };
    }
}

/// Waits until `work` has run, if it is queued or running.
pub(crate) fn flush_one<T: ?Sized, const ID: u64>(work: &Work<T, ID>) {
    let raw = core::ptr::from_ref(work)
        .cast_mut()
        .cast::<bindings::work_struct>();
    // SAFETY: `Work` is a transparent wrapper of the C structure, initialised when it was pinned,
    // and live for as long as the reference.
    unsafe { bindings::flush_work(raw) };
}

/// Lets `work` run now, if it is waiting for its time, and waits until it has.
pub(crate) fn flush_delayed<T: ?Sized, const ID: u64>(work: &DelayedWork<T, ID>) {
    let raw = core::ptr::from_ref(work)
        .cast_mut()
        .cast::<bindings::delayed_work>();
    // SAFETY: `DelayedWork` is a transparent wrapper of the C structure, initialised when it was
    // pinned, and live for as long as the reference.
    unsafe { bindings::flush_delayed_work(raw) };
}

#[kunit_tests(galcore_work)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_module_has_one_queue() {
        assert_eq!(OwnQueue::new().err(), Some(EBUSY));
        // And that one is still open.
        assert!(InUse::new().is_ok());
    }
}
