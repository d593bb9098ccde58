// SPDX-License-Identifier: GPL-2.0-only

//! Signals that every process can reach (parameter `sharedSignals`).
//!
//! The vendor's signals are numbers of all processes, up to 4.6.9 and on Dove: a program that has
//! the number of another's signal can wait for it, set it, and have events set it. Here that is a
//! registry of all signals, by numbers that are unique in the device. A signal lasts until each
//! process that has created or mapped it has destroyed it as often, or has ended. Source:
//! sources.md, signals.
//!
//! Lock: `galcore shared signals`, a leaf.

use super::{
    handles::Handles,
    signal::Signal,
    signals::SignalEntry,
    Process, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    limits::MAX_HANDLES, //
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Signals that one process may have; those of all together are [`MAX_HANDLES`] at most.
const MAX_SIGNALS: usize = MAX_HANDLES / 8;

/// A signal in the registry.
struct Shared {
    signal: Arc<Signal>,
    /// Processes that have it in their tables.
    holders: u32,
}

/// The registry of all signals of a device.
#[pin_data]
pub(crate) struct SharedSignals {
    #[pin]
    registry: Mutex<Handles<Shared>>,
}

impl SharedSignals {
    /// An empty registry.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            registry <- new_mutex!(Handles::new(), "galcore shared signals"),
        })
    }

    /// Gives a new signal a number, for one process. `OutOfResources`: there are too many.
    fn publish(&self, signal: Arc<Signal>) -> Result<u32> {
        self.registry.lock().insert(Shared { signal, holders: 1 })
    }

    fn find(&self, id: u32) -> Option<Arc<Signal>> {
        Some(self.registry.lock().get(id)?.signal.clone())
    }

    /// One process more has it.
    fn join(&self, id: u32) -> Option<Arc<Signal>> {
        let mut registry = self.registry.lock();
        let shared = registry.get_mut(id)?;
        shared.holders = shared.holders.checked_add(1)?;
        Some(shared.signal.clone())
    }

    /// One process less has it; the last one ends it.
    fn leave(&self, id: u32) {
        let over = {
            let mut registry = self.registry.lock();
            match registry.get_mut(id) {
                Some(shared) if shared.holders > 1 => {
                    shared.holders -= 1;
                    None
                }
                _ => registry.remove(id),
            }
        };
        if let Some(shared) = over {
            shared.signal.end();
        }
    }
}

impl Process {
    /// The registry, if signals are shared.
    fn signal_registry(&self) -> Option<&SharedSignals> {
        self.shares_signals().then(|| self.clients.shared_signals())
    }

    /// Another process's signal, if they are shared. `NotFound`: there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn others_signal(&self, id: u32) -> Result<Arc<Signal>> {
        let registry = self.signal_registry().ok_or(Error::NotFound)?;
        registry.find(id).ok_or(Error::NotFound)
    }

    /// Whether a number that is not one of the process's signals may be another's.
    pub(super) fn shares_signals(&self) -> bool {
        self.device.parameters().shared_signals
    }

    /// Has a new signal in the table, under a number of its own or of the registry's; returns it.
    #[inline]
    pub(super) fn insert_signal(&self, signal: Arc<Signal>) -> Result<u32> {
        match self.signal_registry() {
            None => self.tables().signals.insert(SignalEntry::new(signal)),
            Some(registry) => self.insert_shared_signal(registry, signal),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_shared_signal(&self, registry: &SharedSignals, signal: Arc<Signal>) -> Result<u32> {
        let entry = SignalEntry::new(signal.clone());
        let id = registry.publish(signal)?;
        let inserted = {
            let mut tables = self.tables();
            match tables.signals.len() {
                0..MAX_SIGNALS => tables.signals.insert_at(id, entry),
                // Other processes need numbers of the registry's, too.
                _ => Err(Error::OutOfResources),
            }
        };
        match inserted {
            Ok(()) => Ok(id),
            Err(error) => {
                registry.leave(id);
                Err(error)
            }
        }
    }

    /// Gets another process's signal for USER_SIGNAL's MAP, if they are shared. `NotFound`: there
    /// is none.
    pub(super) fn join_signal(&self, id: u32) -> Result {
        let registry = self.signal_registry().ok_or(Error::NotFound)?;
        let signal = registry.join(id).ok_or(Error::NotFound)?;
        let entry = SignalEntry::new(signal);
        let inserted = {
            let mut tables = self.tables();
            match tables.signals.insert_at(id, entry) {
                // Another thread was quicker: one reference more.
                Err(Error::InvalidData) => match tables.signals.get_mut(id) {
                    Some(entry) => Err(entry.map_again().err()),
                    None => Err(Some(Error::NotFound)),
                },
                Err(error) => Err(Some(error)),
                Ok(()) => Ok(()),
            }
        };
        match inserted {
            Ok(()) => Ok(()),
            Err(error) => {
                registry.leave(id);
                error.map_or(Ok(()), Err)
            }
        }
    }

    /// A signal has left the process's table.
    #[inline]
    pub(super) fn signal_has_left(&self, id: u32, entry: &SignalEntry) {
        match self.signal_registry() {
            None => entry.signal.end(),
            Some(registry) => registry.leave(id),
        }
    }

    /// The process ends: its signals, if they are shared, have a process less.
    pub(super) fn unshare_signals(&self) {
        if self.signal_registry().is_none() {
            return;
        }
        // Ends: nothing is put in any more.
        loop {
            let (id, entry) = {
                let mut tables = self.tables();
                let Some((id, ())) = tables.signals.first_from(0, |_| ()) else {
                    break;
                };
                (id, tables.signals.remove(id))
            };
            match entry {
                Some(entry) => self.signal_has_left(id, &entry),
                None => break,
            }
        }
    }
}
