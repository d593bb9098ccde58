// SPDX-License-Identifier: GPL-2.0-only

//! Reads of registers for display, with the core kept on and excluded from resets.

use super::any::{
    each,
    AnyCore, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    hw::{
        Hardware,
        RegisterDump, //
    },
    ring::Payload,
    sys::work, //
};

impl<P: Payload> AnyCore<P> {
    /// Calls `look` with the core if it is on. `None`: it is off, or was stopped. `NotSupported`:
    /// it is for vector graphics.
    pub(crate) fn if_on<T: Send>(
        &self,
        look: impl FnOnce(&Hardware) -> T + Send,
    ) -> Result<Option<T>> {
        match self {
            AnyCore::Ring(core) => Ok(core.ring().if_on(look)),
            AnyCore::Vector(_) => Err(Error::NotSupported),
        }
    }

    /// What can be read of it without changing anything; `None`: it is off, or has been stopped, or
    /// there is no memory.
    pub(crate) fn registers(&self) -> Option<RegisterDump> {
        work::by_worker(|| {
            let is_on = each!(self, core => core.is_on.lock());
            let kept_on = self.hardware().supply().if_on().filter(|_| *is_on);
            let _kept_on = kept_on.filter(|_| self.hardware().is_on())?;
            self.hardware().dump_registers().ok()
        })
    }
}
