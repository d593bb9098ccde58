// SPDX-License-Identifier: GPL-2.0-only

//! The signals of a process, and those that every process can use (parameter `sharedSignals`).
//!
//! Up to 4.6.9, and on Dove, the vendor's signals have global numbers. A program that knows a
//! number can wait for the signal, set it, and have events set it. This driver has a registry of
//! all signals. Their numbers are unique in the device. A DESTROY or the end of the process ends
//! each CREATE and MAP. The last one ends the signal. Source: sources.md, signals.
//!
//! Lock: `galcore shared signals`, a leaf.

use super::{
    handles::Handles,
    restarts::{
        self,
        Limited, //
    },
    signal::{
        Signal,
        SignalEntry, //
    },
    waits,
    Process, //
};
use crate::{
    abi::{
        Format,
        Reply,
        UserSignal, //
    },
    limits::MAX_HANDLES,
    prelude::*,
    sys::trace::WaitFor, //
};

/// The most signals of a process. All processes together have at most [`MAX_HANDLES`].
const MAX_SIGNALS: usize = MAX_HANDLES / 8;

/// A signal in the registry.
pub(super) struct Shared {
    signal: Arc<Signal>,
    /// Number of processes that have it in their tables.
    holders: u32,
}

/// The registry of all signals of a device.
pub(super) type SharedSignals = Mutex<Handles<Shared>>;

/// Counts one process less that has the signal. The last one ends the signal.
fn leave(registry: &SharedSignals, id: u32) {
    let over = {
        let mut registry = registry.lock();
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

/// The registry, if signals are shared.
fn registry(process: &Process) -> Option<&SharedSignals> {
    shares_signals(process).then(|| &process.clients.shared_signals)
}

/// CREATE_NATIVE_FENCE: a fence that is signaled when the signal is set. Errors: as
/// [`Signal::fence_file`]; `InvalidArgument`: signals are Unix signals.
pub(super) fn create_fence(process: &Process, signal: u32) -> Result<Reply<'_>> {
    if process.device.parameters.linux_signal {
        return Err(Error::InvalidArgument);
    }
    let signal = find(process, signal)?;
    signal.fence_file(&process.account).map(Reply::File)
}

pub(super) fn find(process: &Process, id: u32) -> Result<Arc<Signal>> {
    let own = {
        let tables = process.tables();
        tables.signals.get(id).map(|entry| entry.signal.clone())
    };
    match own {
        Some(signal) => Ok(signal),
        None => of_others(process, id),
    }
}

pub(super) fn run(process: &Process, command: UserSignal) -> Result<Reply<'_>> {
    if process.device.parameters.linux_signal {
        return Err(Error::InvalidArgument);
    }
    match command {
        UserSignal::Create { manual_reset } => {
            let signal = Signal::new(manual_reset)?;
            let id = insert(process, signal)?;
            return Ok(Reply::Signal { id });
        }
        UserSignal::Destroy { id } => {
            // After a fork, the library destroys the inherited signals when the child exits.
            let format = process.interface().map(|(choice, _)| choice.format());
            if format.is_some_and(Format::signals_have_owners) && !process.is_callers() {
                return Err(Error::NotFound);
            }
            let over = {
                let mut tables = process.tables();
                let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                entry.references -= 1;
                match entry.references {
                    0 => tables.signals.remove(id),
                    _ => None,
                }
            };
            if let Some(entry) = over {
                has_left(process, id, &entry);
            }
        }
        UserSignal::Signal { id, state } => find(process, id)?.signal(state),
        UserSignal::Wait { id, milliseconds } => {
            let signal = find(process, id)?;
            let what = (WaitFor::Signal(id), Limited::Signal(id, milliseconds));
            restarts::limited(process, what, milliseconds, || 0, |left| signal.wait(left))?;
            waits::finish_returns(process);
        }
        UserSignal::Map { id } => {
            let mapped = {
                let mut tables = process.tables();
                tables.signals.get_mut(id).map(SignalEntry::map_again)
            };
            mapped.unwrap_or_else(|| join(process, id))?;
        }
        UserSignal::Unknown => return Err(Error::InvalidArgument),
    }
    Ok(Reply::Nothing)
}

/// Another process's signal, if signals are shared. `NotFound`: no such signal.
#[cold]
#[inline(never)]
fn of_others(process: &Process, id: u32) -> Result<Arc<Signal>> {
    let registry = registry(process).ok_or(Error::NotFound)?.lock();
    let shared = registry.get(id).ok_or(Error::NotFound)?;
    Ok(shared.signal.clone())
}

/// Whether a number can name another process's signal.
pub(super) fn shares_signals(process: &Process) -> bool {
    process.device.parameters.shared_signals
}

/// Adds a new signal to the table, under a number of the table or the registry. Returns the
/// number.
#[inline]
fn insert(process: &Process, signal: Arc<Signal>) -> Result<u32> {
    match registry(process) {
        None => process.tables().signals.insert(SignalEntry::new(signal)),
        Some(registry) => insert_shared(process, registry, signal),
    }
}

#[cold]
#[inline(never)]
fn insert_shared(process: &Process, registry: &SharedSignals, signal: Arc<Signal>) -> Result<u32> {
    let entry = SignalEntry::new(signal.clone());
    let id = registry.lock().insert(Shared { signal, holders: 1 })?;
    let inserted = {
        let mut tables = process.tables();
        match tables.signals.len() {
            0..MAX_SIGNALS => tables.signals.insert_at(id, entry),
            // Leave numbers in the registry for other processes.
            _ => Err(Error::OutOfResources),
        }
    };
    match inserted {
        Ok(()) => Ok(id),
        Err(error) => {
            leave(registry, id);
            Err(error)
        }
    }
}

/// MAP (USER_SIGNAL) of another process's signal, if signals are shared. `NotFound`: no such
/// signal.
fn join(process: &Process, id: u32) -> Result {
    let registry = registry(process).ok_or(Error::NotFound)?;
    let signal = {
        let mut registry = registry.lock();
        let shared = registry.get_mut(id).ok_or(Error::NotFound)?;
        shared.holders = shared.holders.checked_add(1).ok_or(Error::NotFound)?;
        shared.signal.clone()
    };
    let entry = SignalEntry::new(signal);
    let inserted = {
        let mut tables = process.tables();
        match tables.signals.insert_at(id, entry) {
            // Another thread was faster: add a reference to its entry.
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
            leave(registry, id);
            error.map_or(Ok(()), Err)
        }
    }
}

/// The process's table has lost a signal. Ends the signal, or, if signals are shared, only the
/// process's part in it.
#[inline]
fn has_left(process: &Process, id: u32, entry: &SignalEntry) {
    match registry(process) {
        None => entry.signal.end(),
        Some(registry) => leave(registry, id),
    }
}

/// Removes an ending process from all of its signals, if signals are shared.
pub(super) fn unshare(process: &Process) {
    if registry(process).is_none() {
        return;
    }
    // Bounded: an ending process adds no signals.
    loop {
        let (id, entry) = {
            let mut tables = process.tables();
            let Some((id, ())) = tables.signals.first_from(0, |_| ()) else {
                break;
            };
            (id, tables.signals.remove(id))
        };
        match entry {
            Some(entry) => has_left(process, id, &entry),
            None => break,
        }
    }
}
