// SPDX-License-Identifier: GPL-2.0-only

//! The one global of the module: what `open(2)` and procfs find.

use crate::gpu::Device;
use kernel::{
    prelude::*,
    sync::{
        global_lock,
        Arc, //
    },
};

global_lock! {
    // SAFETY: `init` runs in module init, before anything can reach the lock.
    unsafe(uninit) static DEVICE: Mutex<Option<Arc<Device>>> = None;
}

/// Prepares the global. Called once, first thing in module init.
pub(crate) fn init() {
    // SAFETY: Module init runs once.
    unsafe { DEVICE.init() }
}

/// The device that is bound now.
pub(crate) fn device() -> Option<Arc<Device>> {
    DEVICE.lock().clone()
}

/// Makes `device` the bound one. `EBUSY` when there is one already.
pub(crate) fn publish(device: Arc<Device>) -> Result {
    let mut slot = DEVICE.lock();
    if slot.is_some() {
        return Err(EBUSY);
    }
    *slot = Some(device);
    Ok(())
}

/// Forgets the bound device.
pub(crate) fn retract() {
    let old = DEVICE.lock().take();
    drop(old);
}
