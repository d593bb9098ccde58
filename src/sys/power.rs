// SPDX-License-Identifier: GPL-2.0-only

//! Runtime power management of a device. Users keep it on, and a [`Switch`] switches it off and on.
//!
//! The kernel counts the users of a device. After a delay without users (`autosuspend_delay_ms` in
//! the device's sysfs directory) it calls [`Switch::switch_off`]. Then the device's power domain
//! may go off. For the next user the domain first goes on, then the kernel calls
//! [`Switch::switch_on`]. The kernel makes one of these calls at a time.

use super::{
    prelude::*,
    raw_device,
    shim,
    unload::InUse, //
};
use crate::wait;
use core::ffi::{
    c_int,
    c_uint,
    c_void, //
};
use kernel::device::{
    Bound,
    Device, //
};

/// Number of attempts to cycle a device that others briefly keep on, and the milliseconds after
/// each. At least 400 ms in total: a thread that keeps it on may be preempted for long, and the
/// driver gives up a core that cannot be cycled.
const CYCLE_ATTEMPTS: u32 = 80;
const CYCLE_PAUSE: i64 = 5;

/// Milliseconds that new users wait for the end of a cycle, because they would keep the device on.
/// Twice the time of all attempts.
// CAST: a few.
const CYCLE_TIME: u32 = 2 * CYCLE_ATTEMPTS * CYCLE_PAUSE as u32;

/// Switches a device off and on. All of these functions may sleep.
pub(crate) trait Switch: Send + Sync + 'static {
    /// Called when the device has no user. `EBUSY`: it is busy, and stays on until its next user
    /// ends.
    fn switch_off(&self) -> Result;

    /// Called when the device has a user again. It may have lost its state. An error is final: it
    /// is never switched on again.
    fn switch_on(&self) -> Result;

    /// System suspend: running work must end, and no new work may begin. [`Switch::switch_off`]
    /// follows. `EBUSY`: the work takes too long, and the machine does not sleep.
    fn sleep(&self) -> Result;

    /// Hibernation, called after the switch-off. It only restores the kernel's memory. `EBUSY`: a
    /// client would lose data in other memory, so the machine does not hibernate.
    fn hibernate(&self) -> Result;

    /// System resume. The device is in the state from before the suspend, or off.
    fn wake(&self);

    /// Thermal throttling: limits the device to `speed` 64ths of its clock. Only called if it [has
    /// a divider](Switch::has_divider).
    fn limit(&self, speed: u32);

    /// Whether its clock can be divided.
    fn has_divider(&self) -> bool;
}

/// What the kernel asks of a [`Switch`].
///
/// # Safety
///
/// `context` is the switch of a live [`Managed`]. The kernel calls this between `gal_start_power`
/// and `gal_stop_power`.
unsafe extern "C" fn call<T: Switch>(context: *mut c_void, what: c_uint, value: c_uint) -> c_int {
    // SAFETY: By the caller it points to the contents of the box.
    let switch = unsafe { &*context.cast::<T>() };
    let result = match what {
        shim::gal_power_call_GAL_SWITCH_OFF => switch.switch_off(),
        shim::gal_power_call_GAL_SWITCH_ON => switch.switch_on(),
        shim::gal_power_call_GAL_SLEEP => switch.sleep(),
        shim::gal_power_call_GAL_HIBERNATE => switch.hibernate(),
        shim::gal_power_call_GAL_WAKE => {
            switch.wake();
            Ok(())
        }
        _ => {
            switch.limit(value);
            Ok(())
        }
    };
    result.map_or_else(Error::to_errno, |()| 0)
}

/// Runtime power management of a device. It ends when this is dropped. The device is then on if
/// [`Managed::keep_on`] was called.
///
/// # Invariants
///
/// `raw` came from `gal_start_power`, for a device that is bound for `'bound`. Its context points
/// into `_switch`, which does not move. Context and code stay even if this value is leaked.
pub(crate) struct Managed<'bound, T: Switch> {
    raw: NonNull<shim::gal_power>,
    supply: Supply,
    is_kept_on: Atomic<bool>,
    _switch: KBox<T>,
    _in_use: InUse,
    _bound: PhantomData<&'bound ()>,
}

// SAFETY: `raw` is only used to end it: any thread may do so, and it waits for running calls. The
// other fields are `Send`.
unsafe impl<T: Switch> Send for Managed<'_, T> {}
// SAFETY: By the type invariant `raw` is live. The cooling ends once, even if calls overlap.
unsafe impl<T: Switch> Sync for Managed<'_, T> {}

impl<'bound, T: Switch> Managed<'bound, T> {
    /// Starts power management by `switch` for `dev`, the device of `supply`. It is on now, and
    /// goes off after `delay` milliseconds without a user, or never if it `stays_on`. `EINVAL`:
    /// `supply` is another device's, or `dev` has no driver of this module. `EBUSY`: its power is
    /// already managed. `ENOMEM`.
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
        let has_divider = switch.has_divider();
        // SAFETY: The device stays bound, and the context valid, until `gal_stop_power`.
        let raw = from_err_ptr(unsafe {
            shim::gal_start_power(
                supply.raw(),
                context,
                Some(call::<T>),
                delay,
                stays_on,
                has_divider,
            )
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

    /// Switches the device on, and keeps it on until this is dropped. Called before an unbind. Ends
    /// thermal throttling.
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
        // SAFETY: By the type invariant. After the call returns, no callback runs.
        unsafe { shim::gal_stop_power(self.raw.as_ptr()) }
    }
}

/// Keeps a [`Managed`] device on.
#[derive(Clone)]
pub(crate) struct Supply(kernel::sync::Arc<Shared>);

struct Shared {
    dev: ARef<Device>,
    is_managed: Atomic<bool>,
    /// True between [`Supply::hold`] and [`Supply::release`].
    is_held: Atomic<bool>,
    /// The device never goes off.
    stays_on: Atomic<bool>,
    /// Number of live [`KeptOn`].
    keeps: Atomic<u32>,
    /// See [`Supply::cycle`].
    is_cycled: Atomic<bool>,
}

/// Keeps the device on until it is dropped.
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

    /// Milliseconds without users after which it is switched off. Less than 0: never.
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
        // SAFETY: The device lives as long as there is a reference, and `get` began the use that
        // this ends.
        unsafe { shim::gal_put_power_noidle(self.raw()) }
    }

    /// Switches the device on if it is off, and keeps it on until [`Supply::release`]. Only one
    /// thread at a time may call it, and without any lock that the [`Switch`] takes. Returns the
    /// error of the switch.
    pub(crate) fn hold(&self) -> Result {
        if self.is_managed() && !self.0.is_held.load(Relaxed) {
            self.get()?;
            self.0.is_held.store(true, Relaxed);
        }
        Ok(())
    }

    /// Ends [`Supply::hold`], if it was called. The device may go off after its delay.
    pub(crate) fn release(&self) {
        if !self.is_managed() {
            return;
        }
        if self.0.is_held.xchg(false, Full) {
            // SAFETY: The device lives as long as there is a reference.
            unsafe { shim::gal_put_power(self.raw()) }
        } else {
            self.request_off()
        }
    }

    /// Requests that the device goes off after its delay, if it has no user.
    pub(crate) fn request_off(&self) {
        if self.is_managed() {
            // SAFETY: The device lives as long as there is a reference. If it cannot go off now, it
            // goes off later.
            let _ = unsafe { shim::gal_request_off(self.raw()) };
        }
    }

    /// Keeps the device on if it is on and is not being cycled.
    pub(crate) fn if_on(&self) -> Option<On<'_>> {
        if self.0.is_cycled.load(Relaxed) {
            return None;
        }
        // SAFETY: The device lives as long as there is a reference.
        let is_on = unsafe { shim::gal_get_power_if_on(self.raw()) };
        // Lazy, because dropping an `On` would end a use that has not begun.
        is_on.then(|| On(self))
    }

    /// Switches the device on if it is off. It stays on at least for its delay. Returns the error
    /// of its [`Switch`]. No caller of this or the functions below may hold a lock that the switch
    /// takes.
    pub(crate) fn wake(&self) -> Result {
        if !self.is_managed() {
            return Err(ENODEV);
        }
        // A use during a cycle would keep the device on.
        let _: Option<()> = wait::poll(CYCLE_TIME, || {
            (!self.0.is_cycled.load(Relaxed)).then_some(())
        });
        self.get()?;
        // SAFETY: The device lives as long as there is a reference.
        unsafe { shim::gal_put_power(self.raw()) };
        Ok(())
    }

    /// Switches the device on, and keeps it on until the returned value is dropped or the device is
    /// unbound. For this, its [`Switch`] must check [`Supply::is_kept_on`]. System suspend and
    /// [`Supply::cycle`] still switch it off.
    pub(crate) fn keep(&self) -> Result<KeptOn> {
        self.0.keeps.fetch_add(1, Relaxed);
        let kept = KeptOn(self.clone());
        self.wake()?;
        Ok(kept)
    }

    /// Switches the device on if it is kept on without users. If that fails, the next user tries
    /// again.
    pub(crate) fn wake_if_kept(&self) {
        if self.is_kept_on() {
            let _ = self.wake();
        }
    }

    /// Whether it is kept on without users.
    pub(crate) fn is_kept_on(&self) -> bool {
        self.0.stays_on.load(Relaxed) || self.0.keeps.load(Relaxed) != 0
    }

    /// Switches the device off without its delay, if it has no user. `false`: repeated calls would
    /// not switch it off, for example because the administrator keeps it on.
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

    /// Sets whether its power domain stays on while the device is off, until the device is unbound.
    /// `ENODEV`: it has no power domain.
    pub(crate) fn keep_domain(&self, keep: bool) -> Result {
        if !self.is_managed() {
            return Err(ENODEV);
        }
        // SAFETY: The device lives as long as there is a reference.
        to_result(unsafe { shim::gal_keep_domain(self.raw(), keep) })
    }

    /// Switches its power domain off and on, so that the device loses its state. The caller holds
    /// the supply before and after. New users wait for the end. This waits a while for current
    /// users. `EBUSY`: they, or the administrator, keep the device on.
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

/// Keeps the device on without users until it is dropped.
pub(crate) struct KeptOn(Supply);

impl Drop for KeptOn {
    fn drop(&mut self) {
        if self.0 .0.keeps.fetch_sub(1, Relaxed) == 1 && self.0.is_managed() {
            // SAFETY: The device lives as long as there is a reference.
            unsafe { shim::gal_request_off_later(self.0.raw()) }
        }
    }
}

impl Drop for On<'_> {
    fn drop(&mut self) {
        // Does not restart the delay, because frequent reads of its state must not keep it on.
        // SAFETY: The device lives as long as there is a reference, and this `On` has the use that
        // ends here.
        unsafe { shim::gal_put_power_unused(self.0.raw()) }
    }
}
