// SPDX-License-Identifier: GPL-2.0-only

//! The module's own work queue: module exit waits for all that runs in it.

use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    workqueue::{
        DelayedWork,
        Queue, //
    },
};

/// Address of the queue; 0 while there is none.
static QUEUE: Atomic<usize> = Atomic::new(0);

/// The queue's owner, to be dropped last at module exit.
///
/// # Invariants
///
/// `0` is a live queue, the one that [`QUEUE`] names.
pub(crate) struct OwnQueue(*mut bindings::workqueue_struct);

// SAFETY: Only used to destroy the queue, which any thread may do.
unsafe impl Send for OwnQueue {}
// SAFETY: No method takes `&self`.
unsafe impl Sync for OwnQueue {}

impl OwnQueue {
    /// Makes the queue. Called once, before anything can use it.
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
        QUEUE.store(queue as usize, Relaxed);
        // INVARIANT: Made and named.
        Ok(Self(queue))
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Waits for what is queued; nothing can queue any more, since
        // the module's other parts are gone.
        unsafe { bindings::destroy_workqueue(self.0) };
        QUEUE.store(0, Relaxed);
    }
}

/// Waits for all that is queued now. Not to be called from the queue.
pub(crate) fn flush() {
    // SAFETY: As for `queue`.
    unsafe { bindings::__flush_workqueue(QUEUE.load(Relaxed) as *mut bindings::workqueue_struct) };
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

/// The queue. It lives from module init to the end of module exit, which outlast all users.
pub(crate) fn queue() -> &'static Queue {
    let queue = QUEUE.load(Relaxed) as *const bindings::workqueue_struct;
    // SAFETY: Nothing runs before `OwnQueue::new` or after its drop.
    unsafe { Queue::from_raw(queue) }
}
