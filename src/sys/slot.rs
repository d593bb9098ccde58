// SPDX-License-Identifier: GPL-2.0-only

//! A static that holds at most one object, for `open(2)` and procfs.

use super::prelude::*;
use kernel::{
    bindings,
    sync::rcu, //
};

/// A slot for one reference-counted object. As a static it needs no initialization, so it is valid
/// at any time. Readers do not wait.
///
/// # Invariants
///
/// `object` is 0, or came from `Arc::<T>::into_raw` and owns that reference. After a reference is
/// taken out, it is only dropped after an RCU grace period.
pub(crate) struct Slot<T> {
    object: Atomic<usize>,
    _owns: PhantomData<Arc<T>>,
}

// SAFETY: Threads may get references of, and drop, each other's objects: `Arc<T>` is `Send` and
// `Sync` for such `T`. The word is atomic.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}
// SAFETY: A `Slot` owns at most an `Arc<T>`, which is `Send` for such `T`.
unsafe impl<T: Send + Sync> Send for Slot<T> {}

impl<T> Slot<T> {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Empty.
        Self {
            object: Atomic::new(0),
            _owns: PhantomData,
        }
    }

    /// The current object.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        let _reader = rcu::read_lock();
        // Pairs with the full order of `publish`, so this sees the initialized object.
        let object = self.object.load(Acquire) as *const T;
        if object.is_null() {
            return None;
        }
        // SAFETY: By the type invariant it came from `into_raw`. The slot's reference is not
        // dropped before this reader ends. The slot keeps it: this only owns the clone.
        let slots = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(object) });
        Some(Arc::clone(&slots))
    }

    /// Stores `object`. `EBUSY`: the slot already has one.
    pub(crate) fn publish(&self, object: Arc<T>) -> Result {
        let raw = Arc::into_raw(object);
        // INVARIANT: If the slot was empty, it now owns the reference.
        if self.object.cmpxchg(0, raw as usize, Full).is_ok() {
            return Ok(());
        }
        // SAFETY: It came from `into_raw`, and was not stored.
        drop(unsafe { Arc::from_raw(raw) });
        Err(EBUSY)
    }

    /// Takes out the object. Waits for an RCU grace period.
    pub(crate) fn retract(&self) -> Option<Arc<T>> {
        // INVARIANT: The slot no longer owns the reference.
        let object = self.object.xchg(0, Full) as *const T;
        if object.is_null() {
            return None;
        }
        // SAFETY: The call may be made wherever sleeping is allowed.
        unsafe { bindings::synchronize_rcu() };
        // SAFETY: By the type invariant. The exchange took it out once, and every remaining reader
        // has a reference of its own.
        Some(unsafe { Arc::from_raw(object) })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.retract());
    }
}

#[kunit_tests(galcore_slot)]
mod tests {
    use super::*;

    struct Counted<'a>(&'a Atomic<i32>);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn counted<'a>(drops: &'a Atomic<i32>) -> Arc<Counted<'a>> {
        Arc::new(Counted(drops), GFP_KERNEL).unwrap()
    }

    #[test]
    fn one_object_until_it_is_retracted() {
        let drops = Atomic::new(0);
        let slot = Slot::new();
        assert!(slot.get().is_none());
        assert!(slot.retract().is_none());
        let object = counted(&drops);
        assert!(slot.publish(object.clone()).is_ok());
        // The new object is refused and dropped.
        assert_eq!(slot.publish(counted(&drops)), Err(EBUSY));
        assert_eq!(drops.load(Relaxed), 1);
        let found = slot.get().unwrap();
        assert!(Arc::ptr_eq(&found, &object));
        drop((object, found));
        assert_eq!(drops.load(Relaxed), 1);
        let last = slot.retract();
        assert!(slot.get().is_none());
        assert_eq!(drops.load(Relaxed), 1);
        drop(last);
        assert_eq!(drops.load(Relaxed), 2);
        assert!(slot.publish(counted(&drops)).is_ok());
        drop(slot);
        assert_eq!(drops.load(Relaxed), 3);
    }
}
