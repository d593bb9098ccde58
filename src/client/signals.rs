// SPDX-License-Identifier: GPL-2.0-only

//! USER_SIGNAL: the signals of a process, by number.

use super::{
    restarts::Limited,
    signal::Signal,
    Process, //
};
use crate::{
    abi::{
        Format,
        Reply,
        UserSignal, //
    },
    prelude::*,
    sys::trace::WaitFor, //
};

/// A signal in a process's table.
pub(super) struct SignalEntry {
    pub(super) signal: Arc<Signal>,
    /// 1 for CREATE, and 1 for each MAP.
    pub(super) references: u32,
}

impl SignalEntry {
    /// A signal with one reference.
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self {
            signal,
            references: 1,
        }
    }

    /// Adds a reference. `OutOfResources`: too many.
    pub(super) fn map_again(&mut self) -> Result {
        let more = self.references.checked_add(1);
        self.references = more.ok_or(Error::OutOfResources)?;
        Ok(())
    }
}

impl Process {
    /// CREATE_NATIVE_FENCE: a fence that is signaled when the signal is set. Errors: as
    /// [`Signal::fence_file`]; `InvalidArgument`: signals are Unix signals.
    pub(super) fn create_fence(&self, signal: u32) -> Result<Reply<'_>> {
        if self.device.parameters().linux_signal {
            return Err(Error::InvalidArgument);
        }
        let signal = self.signal(signal)?;
        signal.fence_file(&self.usage).map(Reply::File)
    }

    pub(super) fn signal(&self, id: u32) -> Result<Arc<Signal>> {
        let own = {
            let tables = self.tables();
            tables.signals.get(id).map(|entry| entry.signal.clone())
        };
        match own {
            Some(signal) => Ok(signal),
            None => self.others_signal(id),
        }
    }

    pub(super) fn user_signal(&self, command: UserSignal) -> Result<Reply<'_>> {
        if self.device.parameters().linux_signal {
            return Err(Error::InvalidArgument);
        }
        match command {
            UserSignal::Create { manual_reset } => {
                let signal = Signal::new(manual_reset)?;
                let id = self.insert_signal(signal)?;
                Ok(Reply::Signal { id })
            }
            UserSignal::Destroy { id } => {
                // After a fork, the library destroys the inherited signals when the child exits.
                let format = self.interface().map(|(choice, _)| choice.format());
                if format.is_some_and(Format::signals_have_owners) && !self.is_callers() {
                    return Err(Error::NotFound);
                }
                let over = {
                    let mut tables = self.tables();
                    let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                    entry.references -= 1;
                    match entry.references {
                        0 => tables.signals.remove(id),
                        _ => None,
                    }
                };
                if let Some(entry) = over {
                    self.signal_has_left(id, &entry);
                }
                Ok(Reply::Nothing)
            }
            UserSignal::Signal { id, state } => {
                self.signal(id)?.signal(state);
                Ok(Reply::Nothing)
            }
            UserSignal::Wait { id, milliseconds } => {
                let signal = self.signal(id)?;
                let what = (WaitFor::Signal(id), Limited::Signal(id, milliseconds));
                self.limited(what, milliseconds, || 0, |left| signal.wait(left))?;
                self.finish_returns();
                Ok(Reply::Nothing)
            }
            UserSignal::Map { id } => {
                let mapped = {
                    let mut tables = self.tables();
                    tables.signals.get_mut(id).map(SignalEntry::map_again)
                };
                mapped.unwrap_or_else(|| self.join_signal(id))?;
                Ok(Reply::Nothing)
            }
            UserSignal::Unknown => Err(Error::InvalidArgument),
        }
    }
}
