// SPDX-License-Identifier: GPL-2.0-only

//! Reads of registers for display, with the core kept on and excluded from resets.

use super::any::AnyCore;
use crate::{
    error::{
        Error,
        Result, //
    },
    hw::Hardware,
    ring::Payload,
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
}
