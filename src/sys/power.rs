// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's power management of a device: its users keep it on, and a [`Switch`] switches it
//! off and on.
//!
//! The kernel counts the users of a device. When there has been none for a while
//! (`autosuspend_delay_ms` in the device's folder of sysfs) it calls [`Switch::switch_off`], and
//! its power domain, if it has one, may lose power; for the next user the domain is on first, and
//! then [`Switch::switch_on`] is called. One call is under way at a time.

use super::{
    raw_device,
    shim,
    unload::InUse, //
};
use crate::wait;
use core::{
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        }, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How often a device that others keep on for a moment is tried to be cycled, and how long after
/// each time in milliseconds: half a second in all, as a thread that keeps it on may be preempted
/// for long, and a core that cannot be cycled is given up.
const CYCLE_ATTEMPTS: u32 = 80;
const CYCLE_PAUSE: i64 = 5;

/// How long others wait for a cycle, in milliseconds: longer than its attempts take. One that came
/// earlier would keep the device on.
// CAST: a few.
const CYCLE_TIME: u32 = 2 * CYCLE_ATTEMPTS * CYCLE_PAUSE as u32;

/// What switches a device off and on. All may sleep.
pub(crate) trait Switch: Send + Sync + 'static {
    /// It has no user. `EBUSY`: it has something to do; it stays on until a user has gone again.
    fn switch_off(&self) -> Result;

    /// It has a user again. It may have lost all of its state. An error is final: it cannot be
    /// switched on any more.
    fn switch_on(&self) -> Result;

    /// The machine is going to sleep: what is under way must end, and nothing may begin.
    /// [`Switch::switch_off`] follows. `EBUSY`: it takes too long; the machine does not sleep.
    fn sleep(&self) -> Result;

    /// The machine hibernates, and is asleep: it comes back with the kernel's memory alone.
    /// `EBUSY`: a client would lose data in other memory; it does not hibernate.
    fn hibernate(&self) -> Result;

    /// The machine is awake again, and the device is as it was before, or off.
    fn wake(&self);

    /// From now on the device, which is too warm, must run at `speed` 64ths of its clock at most.
    /// Called only if it [has a divider](Switch::has_divider).
    fn limit(&self, speed: u32);

    /// Whether its clock can be divided.
    fn has_divider(&self) -> bool;
}

/// A [`Switch`] as the operations that the kernel calls.
struct Operations<T>(PhantomData<T>);

impl<T: Switch> Operations<T> {
    const TABLE: shim::gal_power_operations = shim::gal_power_operations {
        switch_off: Some(Self::switch_off),
        switch_on: Some(Self::switch_on),
        sleep: Some(Self::sleep),
        hibernate: Some(Self::hibernate),
        wake: Some(Self::wake),
        limit: Some(Self::limit),
    };
    const DIVIDED: &'static shim::gal_power_operations = &Self::TABLE;
    const UNDIVIDED: &'static shim::gal_power_operations = &shim::gal_power_operations {
        limit: None,
        ..Self::TABLE
    };

    /// # Safety
    ///
    /// `context` is of a [`Managed`] that lives.
    unsafe fn of<'a>(context: *mut c_void) -> &'a T {
        // SAFETY: By the caller: it leads to what its box holds.
        unsafe { &*context.cast::<T>() }
    }

    /// # Safety
    ///
    /// As [`Operations::of`]. The kernel calls it between `gal_start_power` and `gal_stop_power`;
    /// so the others.
    unsafe extern "C" fn switch_off(context: *mut c_void) -> c_int {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        code(unsafe { Self::of(context) }.switch_off())
    }

    /// # Safety
    ///
    /// As [`Operations::of`].
    unsafe extern "C" fn switch_on(context: *mut c_void) -> c_int {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        code(unsafe { Self::of(context) }.switch_on())
    }

    /// # Safety
    ///
    /// As [`Operations::of`].
    unsafe extern "C" fn sleep(context: *mut c_void) -> c_int {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        code(unsafe { Self::of(context) }.sleep())
    }

    /// # Safety
    ///
    /// As [`Operations::of`].
    unsafe extern "C" fn hibernate(context: *mut c_void) -> c_int {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        code(unsafe { Self::of(context) }.hibernate())
    }

    /// # Safety
    ///
    /// As [`Operations::of`].
    unsafe extern "C" fn wake(context: *mut c_void) {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        unsafe { Self::of(context) }.wake();
    }

    /// # Safety
    ///
    /// As [`Operations::of`].
    unsafe extern "C" fn limit(context: *mut c_void, speed: c_uint) {
        // SAFETY: By the caller's contract `context` is what [`Operations::of`] requires.
        unsafe { Self::of(context) }.limit(speed);
    }
}

fn code(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A device whose power the kernel manages from now on, until this is dropped: then it is on if it
/// was kept on before ([`Managed::keep_on`]).
///
/// # Invariants
///
/// `raw` is of `gal_start_power`, for a device that is bound as long as `'bound`, with a context
/// that leads into `switch`, which does not move, and stays if this is forgotten, as the code does.
pub(crate) struct Managed<'bound, T: Switch> {
    raw: NonNull<shim::gal_power>,
    supply: Supply,
    is_kept_on: Atomic<bool>,
    _switch: KBox<T>,
    _in_use: InUse,
    _bound: PhantomData<&'bound ()>,
}

// SAFETY: Only used to end it, which any thread may do, and which waits for calls that are under
// way; what it holds is `Send`.
unsafe impl<T: Switch> Send for Managed<'_, T> {}
// SAFETY: By the type invariant `raw` is live; the cooling ends once, however often this is called.
unsafe impl<T: Switch> Sync for Managed<'_, T> {}

impl<'bound, T: Switch> Managed<'bound, T> {
    /// Lets the kernel switch the device of `supply`, which is `dev`, off and on by `switch`. It is
    /// on now, and goes off when it has had no user for `delay` milliseconds, or never, if it
    /// `stays_on`. `EINVAL`: it is another device's, or `dev` another module's. `EBUSY`: there is
    /// one for it. `ENOMEM`.
    pub(crate) fn new(
        dev: &'bound Device<Bound>,
        supply: &Supply,
        switch: T,
        delay: u32,
        stays_on: bool,
    ) -> Result<Self> {
        if raw_device(dev) != supply.raw() {
            return Err(EINVAL);
        }
        let in_use = InUse::new()?;
        let switch = KBox::new(switch, GFP_KERNEL)?;
        let context = core::ptr::from_ref(&*switch).cast_mut().cast();
        let delay = c_int::try_from(delay)?;
        let operations = match switch.has_divider() {
            true => Operations::<T>::DIVIDED,
            false => Operations::<T>::UNDIVIDED,
        };
        // SAFETY: The device is bound, and stays so until `gal_stop_power`; the context does, too,
        // and the table is static.
        let raw = from_err_ptr(unsafe {
            shim::gal_start_power(supply.raw(), context, operations, delay, stays_on)
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        supply.0.stays_on.store(stays_on, Relaxed);
        supply.0.is_managed.store(true, Relaxed);
        // INVARIANT: Started just now.
        Ok(Self {
            raw,
            supply: supply.clone(),
            is_kept_on: Atomic::new(false),
            _switch: switch,
            _in_use: in_use,
            _bound: PhantomData,
        })
    }

    /// Switches the device on, and keeps it on until this is dropped: for its end. Nothing cools it
    /// any more.
    pub(crate) fn keep_on(&self) {
        // SAFETY: By the type invariant `raw` is live; the call may be repeated.
        unsafe { shim::gal_stop_cooling(self.raw.as_ptr()) };
        let is_kept = self.supply.get().is_ok();
        self.is_kept_on.store(is_kept, Relaxed);
    }
}

impl<T: Switch> Drop for Managed<'_, T> {
    fn drop(&mut self) {
        self.supply.0.is_managed.store(false, Relaxed);
        if self.supply.0.is_held.xchg(false, Full) {
            self.supply.put_noidle();
        }
        if self.is_kept_on.load(Relaxed) {
            self.supply.put_noidle();
        }
        // SAFETY: By the type invariant. No callback runs when it returns, and none will.
        unsafe { shim::gal_stop_power(self.raw.as_ptr()) }
    }
}

/// What keeps a device on, as long as it is [`Managed`].
#[derive(Clone)]
pub(crate) struct Supply(kernel::sync::Arc<Shared>);

struct Shared {
    dev: ARef<Device>,
    is_managed: Atomic<bool>,
    /// [`Supply::hold`] has been called, and [`Supply::release`] has not.
    is_held: Atomic<bool>,
    /// It is never to go off.
    stays_on: Atomic<bool>,
    /// How many [`KeptOn`] there are.
    keeps: Atomic<u32>,
    /// See [`Supply::cycle`].
    is_cycled: Atomic<bool>,
}

/// As long as it lives the device is on.
pub(crate) struct On<'a>(&'a Supply);

impl Supply {
    /// The supply of `dev`.
    pub(crate) fn new(dev: &Device) -> Result<Self> {
        let shared = Shared {
            dev: dev.into(),
            is_managed: Atomic::new(false),
            is_held: Atomic::new(false),
            stays_on: Atomic::new(false),
            keeps: Atomic::new(0),
            is_cycled: Atomic::new(false),
        };
        Ok(Self(kernel::sync::Arc::new(shared, GFP_KERNEL)?))
    }

    fn raw(&self) -> *mut kernel::bindings::device {
        raw_device(&self.0.dev)
    }

    /// Milliseconds without work after which it is switched off; less than 0: never.
    pub(crate) fn off_delay(&self) -> i32 {
        // SAFETY: The device lives as long as there is a reference.
        unsafe { shim::gal_off_delay(self.raw()) }
    }

    fn is_managed(&self) -> bool {
        self.0.is_managed.load(Relaxed)
    }

    fn get(&self) -> Result {
        // SAFETY: The device lives as long as there is a reference.
        to_result(unsafe { shim::gal_get_power(self.raw()) })
    }

    fn put_noidle(&self) {
        // SAFETY: The device lives as long as there is a reference, and `get` took the use that
        // this ends.
        unsafe { shim::gal_put_power_noidle(self.raw()) }
    }

    /// Keeps the device on until it is released; switches it on if it is off. To be called by one
    /// thread at a time, without locks that its [`Switch`] takes. The error is of that.
    pub(crate) fn hold(&self) -> Result {
        if self.is_managed() && !self.0.is_held.load(Relaxed) {
            self.get()?;
            self.0.is_held.store(true, Relaxed);
        }
        Ok(())
    }

    /// The end of [`Supply::hold`], if there was one: the device may go off in a while.
    pub(crate) fn release(&self) {
        if !self.is_managed() {
            return;
        }
        match self.0.is_held.xchg(false, Full) {
            // SAFETY: The device lives as long as there is a reference.
            true => unsafe { shim::gal_put_power(self.raw()) },
            false => self.request_off(),
        }
    }

    /// The device may go off in a while, if it has no user.
    pub(crate) fn request_off(&self) {
        if self.is_managed() {
            // SAFETY: As above. If it cannot now, it goes off another time.
            let _ = unsafe { shim::gal_request_off(self.raw()) };
        }
    }

    /// Keeps the device on if it is, and is not being cycled.
    pub(crate) fn if_on(&self) -> Option<On<'_>> {
        if self.0.is_cycled.load(Relaxed) {
            return None;
        }
        // SAFETY: The device lives as long as there is a reference.
        let is_on = unsafe { shim::gal_get_power_if_on(self.raw()) };
        // Not made where it would be dropped.
        is_on.then(|| On(self))
    }

    /// Switches the device on, should it be off: it stays so for the usual time at least. The error
    /// is of its [`Switch`]. No lock that this takes may be held; so below.
    pub(crate) fn wake(&self) -> Result {
        if !self.is_managed() {
            return Err(ENODEV);
        }
        // Who comes in the middle of a cycle would keep it from going off. It is on then, or not
        // any more.
        let _: Option<()> = wait::poll(CYCLE_TIME, || {
            (!self.0.is_cycled.load(Relaxed)).then_some(())
        });
        self.get()?;
        // SAFETY: The device lives as long as there is a reference.
        unsafe { shim::gal_put_power(self.raw()) };
        Ok(())
    }

    /// Switches the device on, and keeps it on as long as what this returns lives, and this
    /// binding: its [`Switch`] must ask whether it [is kept on](Supply::is_kept_on). The machine's
    /// sleep and [`Supply::cycle`] go on as before.
    pub(crate) fn keep(&self) -> Result<KeptOn> {
        self.0.keeps.fetch_add(1, Relaxed);
        let kept = KeptOn(self.clone());
        self.wake()?;
        Ok(kept)
    }

    /// Switches the device on if it should be on, used or not. If that fails, the next user tries
    /// again.
    pub(crate) fn wake_if_kept(&self) {
        if self.is_kept_on() {
            let _ = self.wake();
        }
    }

    /// Whether it stays on without users.
    pub(crate) fn is_kept_on(&self) -> bool {
        self.0.stays_on.load(Relaxed) || self.0.keeps.load(Relaxed) != 0
    }

    /// Switches the device off now, and not when the usual time is over, if it has no user. `false`:
    /// its owner keeps it on, so that it will not go off if this is called again.
    pub(crate) fn switch_off_now(&self) -> bool {
        // SAFETY: The device lives as long as there is a reference, and it is under runtime power
        // management.
        self.is_managed() && unsafe { shim::gal_switch_off_now(self.raw()) }
    }

    /// Whether the device has a power domain.
    pub(crate) fn has_domain(&self) -> bool {
        // SAFETY: The device lives as long as there is a reference.
        self.is_managed() && unsafe { shim::gal_has_power_domain(self.raw()) }
    }

    /// From now on its power domain keeps its power while the device is off, or no longer; until it
    /// is unbound. `ENODEV`: it has none.
    pub(crate) fn keep_domain(&self, keep: bool) -> Result {
        if !self.is_managed() {
            return Err(ENODEV);
        }
        // SAFETY: The device lives as long as there is a reference.
        to_result(unsafe { shim::gal_keep_domain(self.raw(), keep) })
    }

    /// Lets its power domain switch off and on, so that it loses its state. The caller, which holds
    /// it, holds it afterwards. No new use begins meanwhile, and this waits for one that has begun.
    /// `EBUSY`: it does not go off: its owner keeps it on.
    pub(crate) fn cycle(&self) -> Result {
        self.0.is_cycled.xchg(true, Full);
        let mut cycled = Err(EBUSY);
        for _ in 0..CYCLE_ATTEMPTS {
            // SAFETY: The device lives as long as there is a reference.
            cycled = to_result(unsafe { shim::gal_cycle_power(self.raw()) });
            if cycled != Err(EBUSY) {
                break;
            }
            fsleep(Delta::from_millis(CYCLE_PAUSE));
        }
        self.0.is_cycled.xchg(false, Full);
        cycled
    }
}

/// As long as it lives the device is not switched off while it has nothing to do.
pub(crate) struct KeptOn(Supply);

impl Drop for KeptOn {
    fn drop(&mut self) {
        if self.0 .0.keeps.fetch_sub(1, Relaxed) == 1 && self.0.is_managed() {
            // SAFETY: The device lives as long as there is a reference.
            unsafe { shim::gal_let_go_of_power(self.0.raw()) }
        }
    }
}

impl Drop for On<'_> {
    fn drop(&mut self) {
        // No use: frequent looks do not keep it on.
        // SAFETY: The device lives as long as there is a reference, and an `On` has the use that
        // this ends.
        unsafe { shim::gal_put_power_unused(self.0.raw()) }
    }
}
