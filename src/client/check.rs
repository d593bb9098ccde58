// SPDX-License-Identifier: GPL-2.0-only

//! Checks of what a process submits, and the loads that complete its commands.
//!
//! Hints for the author of a client: errors in what a process submits, and what the address may be
//! for which a stream is refused.

use super::{
    client_memory::Viewed,
    framebuffers,
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
        addresses::{
            Addresses,
            Kind,
            Lookup,
            Owner, //
        },
        bounds::{
            self,
            Mask, //
        },
        checker::{
            self,
            Exit,
            Fault,
            Refusal, //
        },
        loaded::Loaded,
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
    }, //
};

static REFUSALS: RateLimit = RateLimit::new();

impl Process {
    /// The GPU addresses that the process's commands may name.
    pub(super) fn addresses<'a>(&'a self, core: &Core, tables: &'a Tables) -> Addresses<'a> {
        let parameters = &self.device.parameters;
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

/// Checks the copied commands, which begin with pipe `entry` selected. The client has asked for
/// pipe `asked`. The first `prepended` words are not the client's. Returns the state in which the
/// commands leave the core.
#[inline(always)]
pub(super) fn check(
    process: &Process,
    core: &Core,
    tables: &Tables,
    (words, [asked, entry], prepended): (&mut [u32], [Pipe; 2], usize),
) -> Result<Exit> {
    let addresses = process.addresses(core, tables);
    let loaded = &tables.per_core[core.index()].loaded;
    let mends = process.device.parameters.mend_addresses;
    let checked = checker::check(words, core.states(), entry, addresses, Some(loaded), mends);
    checked.map_err(|mut refusal| {
        let began = began(&words[..refusal.at.min(words.len())], asked, entry);
        refusal.at = refusal.at.saturating_sub(prepended);
        refused(process, "command buffer", refusal, tables, began)
    })
}

/// The pipe in which commands began whose accepted part is `words`, if they asked for the other
/// pipe and select none in that part.
#[cold]
#[inline(never)]
fn began(words: &[u32], asked: Pipe, entry: Pipe) -> Option<Pipe> {
    let [select, _] = select_idle_pipe(entry);
    (asked != entry && !words.contains(&select)).then_some(entry)
}

/// Checks the copied states of a context. Replaces each address that is not the process's with
/// that of scratch memory. Returns the state in which they leave the core.
pub(super) fn check_context(
    process: &Process,
    core: &Core,
    tables: &Tables,
    words: &mut [u32],
    entry: Pipe,
) -> Result<Exit> {
    let addresses = process.addresses(core, tables);
    let loaded = &tables.per_core[core.index()].loaded;
    checker::check_context(words, core.states(), entry, addresses, Some(loaded))
        .map_err(|refusal| refused(process, "context", refusal, tables, None))
}

#[cold]
#[inline(never)]
fn refused(
    process: &Process,
    what: &str,
    refusal: Refusal,
    tables: &Tables,
    began: Option<Pipe>,
) -> Error {
    // The client may have just mapped a framebuffer: make the next COMMIT look for them again.
    framebuffers::forget_mappings(process);
    let hint = match (refusal.fault, began) {
        (Fault::WrongPipe, Some(pipe)) => Hint::Began(pipe),
        _ => tables.hint(&refusal),
    };
    warn_client!(REFUSALS: "{} refused: {}{}", what, refusal, hint);
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
    let pipe = core.pipes().entry(number);
    pipe.ok_or_else(
        || mistake!(InvalidArgument: "{} is {:#x}: it must be 0 (3D) or 1 (2D)", name, number),
    )
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

static MISTAKES: RateLimit = RateLimit::new();

/// Logs an error in what a process submits. Evaluates to the error.
macro_rules! mistake {
    (in queue, $error:ident: $($what:tt)*) => {
        $crate::client::check::mistake!(@ "queue", $crate::error::Error::$error, $($what)*)
    };
    ($error:ident: $($what:tt)*) => {
        $crate::client::check::mistake!(@ "COMMIT", $crate::error::Error::$error, $($what)*)
    };
    (@ $of:literal, $error:expr, $text:tt $(, $value:expr)* $(,)?) => {{
        // `identity` copies the value: taking its address would keep it in memory on the hot path.
        $crate::client::check::tell_mistake($of, kernel::prelude::fmt!($text $(, core::convert::identity($value))*));
        $error
    }};
}
pub(super) use mistake;

/// Logs an error as [`mistake`] does, and returns it from the function.
macro_rules! refuse {
    ($($what:tt)*) => {
        return Err($crate::client::check::mistake!($($what)*))
    };
}
pub(super) use refuse;

#[cold]
#[inline(never)]
pub(super) fn tell_mistake(of: &str, what: fmt::Arguments<'_>) {
    warn_client!(MISTAKES: "{}: {}", of, what);
}

/// An address at most this far past the end of an object counts as an overrun.
const NEAR: u32 = 1 << 20;

/// What an address may be.
#[derive(Clone, Copy)]
pub(super) enum Hint {
    None,
    /// In memory that the process has freed.
    Freed(Owner),
    /// A user address: in a view of this object, or (`None`) in a window on the pool.
    User(Option<Viewed>),
    /// A handle of a node.
    Handle,
    /// The address is this number of bytes past the end of an object.
    Past(Owner, u32),
    /// The address is this number of bytes before the end of an object.
    Before(Owner, u32),
    /// The commands began in this pipe, although they asked for the other.
    Began(Pipe),
}

/// The kind of an object and its handle.
struct Name(Owner);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0.kind {
            Kind::Node => "node",
            Kind::Buffer => "buffer",
            Kind::UserMemory => "user memory",
            Kind::Framebuffer => return f.write_str("a framebuffer"),
        };
        write!(f, "{name} {:#x}", self.0.handle)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Hint::None => Ok(()),
            Hint::Freed(owner) => f.write_fmt(fmt!("; it was {}, which is freed", Name(owner))),
            Hint::User(None) => f.write_str("; it is a CPU address, in the pool's mapping"),
            Hint::User(Some(Viewed::Node(handle))) => {
                write!(f, "; it is a CPU address, of node {handle:#x}")
            }
            Hint::User(Some(Viewed::Buffer(handle))) => {
                write!(f, "; it is a CPU address, of buffer {handle:#x}")
            }
            Hint::Began(Pipe::Pipe3d) => f.write_str(
                "; they began in 3D, as their entryPipe is the last exitPipe, but the last commands left 3D selected",
            ),
            Hint::Began(Pipe::Pipe2d) => f.write_str(
                "; they began in 2D, as their entryPipe is the last exitPipe, but the last commands left 2D selected",
            ),
            Hint::Handle => f.write_str("; it is the handle of a node: LOCK answers its address"),
            Hint::Past(owner, bytes) => {
                f.write_fmt(fmt!("; {} ends {bytes:#x} bytes before", Name(owner)))
            }
            Hint::Before(owner, bytes) => {
                f.write_fmt(fmt!("; {} ends {bytes:#x} bytes after it", Name(owner)))
            }
        }
    }
}

impl Tables {
    /// What the address may be for which the checker refused a stream.
    pub(super) fn hint(&self, refusal: &Refusal) -> Hint {
        let address = match (refusal.fault, refusal.value) {
            (Fault::Address(_), Some(address)) => address,
            (Fault::Beyond(_, address) | Fault::BeyondTiles(_, address), _) => {
                return self.room_after(address)
            }
            _ => return Hint::None,
        };
        let user = u32_as_usize(address);
        if let Some(owner) = self.addresses.owner_before(address) {
            return Hint::Freed(owner);
        }
        if let Some(view) = self.user_views.find(user) {
            return Hint::User(Some(view.of));
        }
        let mut windows = self.pool_views.iter().filter_map(|view| view.place());
        if windows.any(|(start, bytes)| user.wrapping_sub(start) < bytes) {
            return Hint::User(None);
        }
        if self.nodes.get(address).is_some() {
            return Hint::Handle;
        }
        match self.addresses.owner_in_front(address) {
            Some((owner, past)) if past < NEAR => Hint::Past(owner, past + 1),
            _ => Hint::None,
        }
    }

    /// How far memory goes, if `address` is in the process's memory.
    fn room_after(&self, address: u32) -> Hint {
        let found = self.addresses.owner(address);
        let range = self.addresses.find(address);
        found.zip(range).map_or(Hint::None, |(owner, range)| {
            Hint::Before(owner, (range.last() - address).saturating_add(1))
        })
    }
}
