// SPDX-License-Identifier: GPL-2.0-only

//! Checks of what a process submits, and the loads that complete its commands.

use super::{
    framebuffers,
    hints::mistake,
    tables::{
        PerCore,
        Tables, //
    },
    Core,
    Process, //
};
use crate::{
    context::{
        scrub::PIPES,
        Hold, //
    },
    log::{
        self,
        debug_client,
        warn_client,
        RateLimit, //
    },
    modes::Zone,
    prelude::*,
    stream::{
        self,
        bounds::{
            self,
            Mask, //
        },
        checker::{
            self,
            Exit,
            Refusal, //
        },
        loaded::Loaded,
        lookup::{
            Addresses,
            Lookup, //
        },
        words::{
            select_idle_pipe,
            select_pipe,
            state::{
                DE_DEST_ADDRESS,
                DE_SRC_ADDRESS, //
            },
            Caches,
            Pipe,
            SELECT_PIPE_WORDS, //
        }, //
    },
    sys, //
};

static REFUSALS: RateLimit = RateLimit::new();

impl Process {
    /// The GPU addresses that the process's commands may name.
    pub(super) fn addresses<'a>(&'a self, core: &Core, tables: &'a Tables) -> Addresses<'a> {
        let parameters = self.device.parameters();
        if !parameters.check_addresses {
            return Addresses::Any;
        }
        Addresses::Of {
            own: &tables.addresses,
            common: &parameters.allowed_ranges,
            scratch: core.scratch(),
        }
    }
}

/// Checks the copied commands. The first `prepended` words are not the client's. Returns the
/// state in which the commands leave the core.
#[inline(always)]
pub(super) fn check(
    process: &Process,
    core: &Core,
    tables: &Tables,
    (words, entry, prepended): (&mut [u32], Pipe, usize),
) -> Result<Exit> {
    let addresses = process.addresses(core, tables);
    let loaded = &tables.per_core[core.index()].loaded;
    let checked = if process.device.parameters().mend_addresses {
        checker::check_states(words, core.states(), entry, addresses, Some(loaded))
    } else {
        checker::check(words, core.states(), entry, addresses, Some(loaded))
    };
    checked.map_err(|mut refusal| {
        refusal.at = refusal.at.saturating_sub(prepended);
        refuse(process, "command buffer", refusal, tables)
    })
}

/// Checks the copied states of a context. Replaces each address that is not the process's with
/// that of scratch memory. Returns the state in which they leave the core.
pub(super) fn check_states(
    process: &Process,
    core: &Core,
    tables: &Tables,
    words: &mut [u32],
    entry: Pipe,
) -> Result<Exit> {
    let addresses = process.addresses(core, tables);
    let loaded = &tables.per_core[core.index()].loaded;
    checker::check_states(words, core.states(), entry, addresses, Some(loaded))
        .map_err(|refusal| refuse(process, "context", refusal, tables))
}

#[cold]
#[inline(never)]
fn refuse(process: &Process, what: &str, refusal: Refusal, tables: &Tables) -> Error {
    // The client may have just mapped a framebuffer: make the next COMMIT look for them again.
    framebuffers::forget_mappings(process);
    let hint = tables.hint(&refusal);
    warn_client!(REFUSALS, "{} refused: {}{}", what, refusal, hint);
    Error::InvalidData
}

/// Logs a probable mistake in checked commands, if [`Zone::Command`] is on.
#[inline(never)]
pub(super) fn lint(core: &Core, tables: &Tables, words: &[u32]) {
    if !log::debugs(Zone::Command) {
        return;
    }
    // The checker has replaced address 0 with the address of scratch memory.
    let scratch = core.scratch().in_pipe(Pipe::Pipe2d);
    let has = [DE_SRC_ADDRESS, DE_DEST_ADDRESS].map(|state| {
        let value = tables.per_core[core.index()].loaded.used(state);
        value.is_some_and(|address| address != scratch)
    });
    let resolve_target = core.states().resolve_target();
    if let Some(lint) = stream::lint::first(words, resolve_target, has) {
        debug_client!(in Command, "COMMIT: {}", lint);
    }
}

/// The pipe that number `number` in field `name` selects. `InvalidArgument`: there is none.
pub(super) fn entry_pipe(core: &Core, name: &str, number: u32) -> Result<Pipe> {
    core.pipes().entry(number).ok_or_else(|| {
        mistake!(
            Error::InvalidArgument,
            "{} is {:#x}: it must be 0 (3D) or 1 (2D)",
            name,
            number
        )
    })
}

/// States of one pipe that hold addresses of freed memory.
#[derive(Default)]
pub(super) struct Stale {
    pub(super) states: KVVec<u32>,
    /// The value of each state.
    pub(super) held: KVVec<u32>,
    /// Loads that overwrite the states.
    pub(super) words: KVVec<u32>,
}

/// Finds the states that hold addresses of memory that the process has freed since its last
/// commands. Called before the new commands are noted. `own`: the new commands have a context
/// in the client's memory. `hold`: they have this attached context.
pub(super) fn find_stale(
    process: &Process,
    core: &Core,
    tables: &Tables,
    own: bool,
    hold: Option<&mut Hold>,
) -> Result<Option<KBox<[Stale; PIPES]>>> {
    let PerCore {
        loaded,
        last_context,
        ..
    } = &tables.per_core[core.index()];
    let mut all: [Stale; PIPES] = Default::default();
    let addresses = process.addresses(core, tables);
    let is_unsure = match hold.and_then(Hold::buffers) {
        Some(buffers) if !own => buffers.has_strays(Lookup::new(addresses)),
        // The GPU may still hold addresses from the context of earlier commands. The process
        // may have sent these through another open file, with the other kind of context.
        _ => {
            let last = last_context.as_ref();
            last.is_some_and(|last| last.may_have_strays(Lookup::new(addresses)))
        }
    };
    if is_unsure || loaded.is_unsure() {
        loaded.forget_all();
        return Ok(None);
    }
    let mut lookup = Lookup::new(addresses);
    for (pipe, stale) in [Pipe::Pipe3d, Pipe::Pipe2d].into_iter().zip(&mut all) {
        let is_allowed = |state, value| lookup.resolve(state, value).is_some();
        loaded.stale(pipe, is_allowed, &mut stale.states, &mut stale.held)?;
        if !stale.states.is_empty() {
            stale.words = core.scrub().stale(pipe, &stale.states, &core.scratch())?;
        }
    }
    if all.iter().all(|stale| stale.states.is_empty()) {
        return Ok(None);
    }
    let all = KBox::new(all, sys::GFP_CLIENT)?;
    // Forget them now: the new commands, noted later, may load them again. This function must
    // not fail after this: only a failure after `Loaded::begin` makes all states unsure.
    for stale in all.iter() {
        loaded.forget(&stale.states);
    }
    Ok(Some(all))
}

/// Prepends loads of the *lent* states to checked commands: states that bound a draw, and that the
/// commands do not load before it. The ring drains both pipes before these loads.
#[cold]
#[inline(never)]
pub(super) fn complete(
    words: &mut KVVec<u32>,
    entry: Pipe,
    caches: &Caches,
    loaded: &Loaded,
) -> Result {
    let lent = loaded.lent();
    let room = lent_words(lent);
    let count = words.len();
    words.resize(count + room, 0, sys::GFP_CLIENT)?;
    words.copy_within(..count, room);
    let value_of = |place, _| loaded.lent_value(place);
    write_lent(&mut words[..room], lent, entry, caches, value_of);
    Ok(())
}

/// The states of each pipe, as a bit mask of [`bounds::STATES`].
const LENT_OF_PIPES: [(Pipe, Mask); 2] = [
    (Pipe::Pipe2d, !bounds::OF_3D),
    (Pipe::Pipe3d, bounds::OF_3D),
];

/// Number of words that [`write_lent`] writes.
pub(super) fn lent_words(lent: Mask) -> usize {
    if lent == 0 {
        return 0;
    }
    let pipes = LENT_OF_PIPES
        .iter()
        .filter(|(_, states)| lent & states != 0);
    // CAST: at most the number of states.
    let (pipes, states) = (pipes.count(), lent.count_ones() as usize);
    2 * states + 2 + pipes * SELECT_PIPE_WORDS
}

/// Writes loads of the `lent` states (a bit mask of [`bounds::STATES`]), and then selects pipe
/// `last`. `value_of` gets the place of a state and its old word, and returns its value.
pub(super) fn write_lent(
    to: &mut [u32],
    lent: Mask,
    last: Pipe,
    caches: &Caches,
    mut value_of: impl FnMut(usize, u32) -> u32,
) {
    let mut pairs = to.chunks_exact_mut(2);
    let put = |words: &[u32], pairs: &mut core::slice::ChunksExactMut<'_, u32>| {
        for (word, to) in words.chunks_exact(2).zip(pairs) {
            to.copy_from_slice(word);
        }
    };
    let mut is_first = true;
    for (pipe, states) in LENT_OF_PIPES {
        if lent & states == 0 {
            continue;
        }
        if core::mem::take(&mut is_first) {
            put(&select_idle_pipe(pipe), &mut pairs)
        } else {
            put(&select_pipe(caches, pipe), &mut pairs)
        }
        for place in bounds::places_in(lent & states) {
            if let Some(to) = pairs.next() {
                to.copy_from_slice(&bounds::load_of(place, value_of(place, to[1])));
            }
        }
    }
    put(&select_pipe(caches, last), &mut pairs);
}
