// SPDX-License-Identifier: GPL-2.0-only

//! COMMITs that name no core, on boards with separate 3D and 2D cores.
//!
//! The oldest generations have no field for the kind of a core: their boards had one core, and the
//! commands chose the engine. So here the commands also choose the core. It is the first core that
//! has the engine in which the COMMIT begins and that accepts its commands. To such a client, all
//! cores are one. So its jobs on a core, even those without commands, wait for its jobs on the
//! other cores.

use super::{
    client_context::OwnContext,
    commit::{
        self,
        read_description,
        Description, //
    },
    waits,
    Core,
    Process, //
};
use crate::{
    abi::{
        Commands,
        Commit,
        CoreSelector,
        Reply, //
    },
    prelude::*,
    stream::{
        checker,
        lookup::Addresses,
        words::Pipe, //
    }, //
};

/// Runs a COMMIT that names no core, on a board with separate 3D and 2D cores. Prefers the core
/// of `selector`. Errors: as [`Device::core`](super::Device::core) and [`commit::commit`].
#[cold]
#[inline(never)]
pub(super) fn commit(
    process: &Arc<Process>,
    selector: CoreSelector,
    commit: &Commit,
) -> Result<Reply<'static>> {
    let first = process.device.core(selector)?;
    let core = core_for(process, &first, commit)?;
    if core.index() != first.index() || process.unnamed_core.load(Relaxed) != 0 {
        waits::wait_for_cores(process, Some(core.index()))?;
        process.unnamed_core.store(core.index() + 1, Relaxed);
    }
    commit::commit(process, &core, commit)
}

/// The core for a COMMIT that names none. If no core accepts the commands, it is a core with
/// their first engine, which then reports the error.
///
/// The driver reads and checks the commands again to run them, so the client may change them.
fn core_for(process: &Process, first: &Arc<Core>, commit: &Commit) -> Result<Arc<Core>> {
    let (format, mut room) = (commit.format, Description::new());
    let mut buffer = match commit.commands {
        Commands::Described(user) => {
            format.decode_command_buffer(read_description(user, format, &mut room)?)
        }
        Commands::Here(buffer, _) => buffer,
    };
    if commit.format.context_bytes() != 0 {
        buffer.entry_pipe = OwnContext::of(commit, process)?.entry_pipe();
    }
    let Some(entry) = Pipe::from_number(buffer.entry_pipe) else {
        return Ok(first.clone());
    };
    let mut words = KVVec::new();
    commit::copy_commands(process, process.tables(), &mut words, &buffer, commit)?;
    let takes = |core: &Core, words: &mut _| {
        let pipe = core.pipes().entry(buffer.entry_pipe);
        let all = Addresses::Any;
        pipe.is_some_and(|pipe| checker::check(words, core.states(), pipe, all, None).is_ok())
    };
    if first.pipes().has(entry) && takes(first, &mut words) {
        commit::keep_room(process, words);
        return Ok(first.clone());
    }
    let mut named = None;
    let mut found = None;
    for has_entry in [true, false] {
        let cores = process.device.cores();
        for core in cores.filter(|core| core.pipes().has(entry) == has_entry) {
            if found.is_none() && takes(&core, &mut words) {
                found = Some(core.clone());
            }
            if named.is_none() {
                named = Some(core);
            }
        }
    }
    commit::keep_room(process, words);
    Ok(found.or(named).unwrap_or_else(|| first.clone()))
}

/// The core for jobs that follow a client's commands: that of the last COMMIT that named no
/// core, after a wait for the client's jobs on other cores, or else that of `selector`. Errors:
/// as [`Device::core`](super::Device::core); `Interrupted`.
#[inline]
pub(super) fn core_after_commands(process: &Process, selector: CoreSelector) -> Result<Arc<Core>> {
    match process.unnamed_core.load(Relaxed) {
        0 => process.device.core(selector),
        place => last_core(process, selector, place - 1),
    }
}

#[cold]
#[inline(never)]
fn last_core(process: &Process, selector: CoreSelector, place: usize) -> Result<Arc<Core>> {
    let mut cores = process.device.cores();
    match cores.find(|core| core.index() == place) {
        Some(core) if selector.is_unnamed() => {
            waits::wait_for_cores(process, Some(place))?;
            Ok(core)
        }
        _ => process.device.core(selector),
    }
}
