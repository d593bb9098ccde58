// SPDX-License-Identifier: GPL-2.0-only

//! The stream checker: one pass over a client's words before the GPU runs them.
//!
//! It checks the kernel's own copy, so the GPU runs what was checked. It owns nothing and takes no
//! lock. It refuses commands that could control the machine (jumps, stopping the ring, forged
//! events, kernel registers). It refuses commands that hang real hardware (a draw in the wrong
//! pipe, a stall that nothing ends). It refuses GPU addresses that are neither 0 nor in memory of
//! the process.
//!
//! The engines do not treat address 0 specially. With MMU version 1 it is real memory. So the
//! checker replaces 0 by the address of scratch memory ([`Scratch`](super::addresses::Scratch)). It
//! also replaces an invalid address of a disabled sampler ([`lint`]), instead of refusing the
//! stream. It refuses a draw to a target that the stream itself has loaded with 0, so that the
//! client sees an error instead of a draw to scratch memory.
//!
//! An address gives only the first byte. Other states determine how far an engine goes from there.
//! The checker tracks these states for the 2D engine and the resolve engine ([`bounds`]). 3D draws
//! are not bounded. With MMU version 2 the process's page table confines them. With version 1 they
//! can reach memory of others (admin-guide.md, Security).
//!
//! States that the core is not known to have are refused, because their effect is not known. Most
//! words are values of states that need no check. [`States`] has a bit for each state that needs
//! one, so the checker can skip whole `LOAD_STATE` commands.

mod bounded_draws;
mod fault;
mod tokens;

use super::{
    addresses::{
        Addresses,
        Lookup, //
    },
    bounds::{
        self,
        DrawState,
        Load,
        Loads, //
    },
    lint,
    loaded::Loaded,
    resolve,
    states::{
        self,
        is_kernel_state,
        Sets,
        States, //
    },
    table::{
        load_count,
        rectangles,
        FIXP, //
    },
    words::{
        state,
        Opcode,
        Pipe,
        Pipes,
        TOKEN_FE_TO_PE, //
    }, //
};
use bounded_draws::null_target_bit;
use core::cell::Cell;
use fault::loaded_value;
use tokens::Tokens;

pub(crate) use fault::{
    Fault,
    Refusal, //
};

/// The fields "from" and "to" of a token.
const TOKEN_MASK: u32 = 0x1F1F;
const TOKEN_FROM: u32 = 0x1F;

/// No block of states of one engine has fewer states.
const SMALLEST_BLOCK: u32 = 0x80;

/// What a pass checks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// A process's commands. They can be lent states.
    Commands { mends: bool },
    /// The states of a context, loaded before commands that were already checked. Always mended.
    Context,
}

/// One pass over a stream.
struct Checker<'a> {
    words: &'a [Cell<u32>],
    /// See [`lint::first_used`].
    first_used: Option<u32>,
    input: Input,
    /// Replaces addresses that are not the process's, instead of refusing the stream.
    mends: bool,
    /// Notes the addresses that the stream loads.
    loaded: Option<&'a Loaded>,
    states: Sets<'a>,
    lookup: Lookup<'a>,
    /// The initial [`Checker::draw_state`]. `None`: bounds of draws are not checked.
    initial_draw_state: Option<&'a DrawState>,
    /// 3D draws are checked later, together with the context.
    is_deferred: bool,
    /// The states that bound draws, as loaded so far. `None`: the stream has loaded none.
    draw_state: Option<DrawState>,
    pipe: Pipe,
    /// Pipes that were selected, or whose address states were loaded.
    uses: Pipes,
    tokens: Tokens,
    /// The pixel engine may have work.
    busy: bool,
    /// The semaphore to the pixel engine was armed after the last draw.
    covered: bool,
    /// The targets that the stream has loaded with 0: bits of [`null_target_bit`].
    null_targets: u32,
    /// [`state::RS_DEST_ADDR`] last held a valid, non-zero address. Mended loads do not count.
    has_resolve_dest: bool,
}

impl Checker<'_> {
    /// Checks the command that `words` begin with and returns its length in words.
    // Not in the loop of `pass`, which then needs fewer registers.
    #[inline(never)]
    fn command(&mut self, words: &[Cell<u32>]) -> Result<usize, Fault> {
        let first = words[0].get();
        match Opcode::of(first) {
            Opcode::LoadState => self.load_state(words),
            Opcode::Nop => Ok(2),
            Opcode::Draw2d => {
                self.draw(Pipe::Pipe2d)?;
                // CAST: nine and eleven bits.
                let rects = rectangles(first) as usize;
                let data = ((first >> 16) & 0x7FF) as usize;
                if data != 0 {
                    self.check_bounds(|target, _| target.data())?;
                }
                let corners = words.get(2..2 + 2 * rects).ok_or(Fault::Truncated)?;
                let loaded = self.loaded;
                self.check_bounds(|target, last_of| {
                    let block = |state| loaded.map_or(Loads::Never, |loaded| loaded.block(state));
                    target.draw(corners.iter().map(Cell::get), block, last_of)
                })?;
                Ok(2 + 2 * rects + data.next_multiple_of(2))
            }
            Opcode::DrawPrimitives | Opcode::DrawInstanced => {
                self.draw(Pipe::Pipe3d)?;
                Ok(4)
            }
            Opcode::DrawIndexed => {
                self.draw(Pipe::Pipe3d)?;
                Ok(6)
            }
            Opcode::Stall => {
                let token = words.get(1).ok_or(Fault::Truncated)?.get();
                self.stall(token)?;
                Ok(2)
            }
            Opcode::Other(_) => Err(Fault::Opcode),
        }
    }

    /// Whether `uses` may still grow: the core has both pipes, and the stream has not used both.
    fn notes_engines(&self) -> bool {
        let (has, uses) = (self.states.pipes, self.uses);
        has.are_both() && !uses.are_both()
    }

    /// Notes the engines of the `count` states from `first` on. Engines count even if not selected:
    /// their state loads may still take effect.
    // Inlined into the loop of `skip`, also in builds with KUnit tests.
    #[inline(always)]
    fn note_engines(&mut self, first: u32, count: u32) {
        for step in 0..=count.div_ceil(SMALLEST_BLOCK) {
            let address = (first + step * SMALLEST_BLOCK).min(first + count - 1);
            if let Some(pipe) = states::engine_of(address) {
                self.uses.add(pipe);
            }
        }
    }

    fn load_state(&mut self, words: &[Cell<u32>]) -> Result<usize, Fault> {
        let header = words[0].get();
        // With FIXP the hardware stores a converted value.
        let converted = header & FIXP != 0;
        let first = header & 0xFFFF;
        let count = load_count(header);
        // CAST: at most 1024.
        let values = words.get(1..1 + count as usize).ok_or(Fault::Truncated)?;
        if first + count > 0x1_0000 {
            return Err(Fault::State(0x1_0000));
        }
        if self.notes_engines() {
            self.note_engines(first, count);
        }
        if self.states.any_watched(first, count) {
            for (address, value) in (first..).zip(values) {
                if self.states.is_special(address) {
                    self.special(address, value, converted, count)?;
                } else if self.states.is_watched(address) {
                    self.note(address, value, converted)?;
                }
            }
        }
        Ok((1 + values.len()).next_multiple_of(2))
    }

    /// Notes the load of a state that carries data or bounds a draw. The result of a conversion is
    /// not known, so converted data is noted, and later restored, as 0.
    fn note(&mut self, address: u32, word: &Cell<u32>, converted: bool) -> Result<(), Fault> {
        let value = word.get();
        let load = match self.initial_draw_state {
            Some(start) => {
                let target = self.draw_state.get_or_insert(*start);
                target.load(
                    address,
                    value,
                    converted,
                    self.pipe == states::pipe_of(address),
                )
            }
            None => Load::Other,
        };
        // A converted value may have any bits.
        let reads = bounds::reads_pattern(address, if converted { !0 } else { value });
        let value = if converted { 0 } else { value };
        match (load, self.loaded) {
            (Load::Refused, _) if converted => return Err(Fault::State(address)),
            (Load::Refused, _) => return Err(Fault::Unbounded(address, value)),
            (Load::Instead(value), _) => word.set(value),
            (Load::Block, Some(loaded)) => self.note_block(loaded, address, value),
            // This load makes the 3D pipe write. Count the pipe as used: stale addresses are reset.
            (Load::Other, _) if states::WRITES.contains(&address) => self.uses.pipe_3d = true,
            (Load::Other, Some(loaded)) => loaded.note_data(address, value),
            _ => {}
        }
        if load == Load::Noted && reads {
            self.check_bounds(|target, last_of| target.pattern(last_of))?;
        }
        Ok(())
    }

    /// Notes the load of a state of multi-source blits.
    fn note_block(&self, loaded: &Loaded, state: u32, value: u32) {
        if loaded.note_block(state, value) {
            self.lookup.invalidate();
        }
    }

    /// Checks the load of a special state by a command that loads `count` states. Replaces an
    /// address by the one to load.
    fn special(
        &mut self,
        address: u32,
        word: &Cell<u32>,
        converted: bool,
        count: u32,
    ) -> Result<(), Fault> {
        let value = word.get();
        if self.states.takes_address(address) {
            self.uses.add(states::pipe_of(address));
            // The hardware would also convert the replacement of 0.
            if converted {
                return Err(Fault::State(address));
            }
            let resolved = match self.lookup.resolve(address, value) {
                Some(resolved) => resolved,
                None if self.mends || self.is_unused(address, word) => self.lookup.scratch(address),
                None => return Err(Fault::Address(address)),
            };
            if resolved != value {
                word.set(resolved);
                if value == 0 && !self.mends {
                    self.null_targets |= null_target_bit(address);
                    self.has_resolve_dest &= address != state::RS_DEST_ADDR;
                }
            } else {
                self.has_resolve_dest |= address == state::RS_DEST_ADDR;
                if self.null_targets != 0 {
                    self.null_targets &= !null_target_bit(address);
                }
            }
            if let (true, Some(start)) = (bounds::is_surface(address), self.initial_draw_state) {
                let target = self.draw_state.get_or_insert(*start);
                let in_pipe = self.pipe == states::pipe_of(address);
                match (target.load(address, resolved, false, in_pipe), self.loaded) {
                    (Load::Refused, _) => return Err(Fault::Unbounded(address, value)),
                    (Load::Block, Some(loaded)) => self.note_block(loaded, address, resolved),
                    _ => {}
                }
            }
            if let Some(loaded) = self.loaded {
                loaded.note(address, resolved);
            }
            return Ok(());
        }
        match address {
            state::RS_KICKER_INPLACE if !self.states.resolves_in_place => {
                return Err(Fault::Unknown(address));
            }
            // States 0 and 1 ignore loads. Clients load one as a delay. Refuse longer loads.
            0 | 1 if count == 1 => {}
            state::GL_PIPE_SELECT
            | state::GL_SEMAPHORE_TOKEN
            | state::GL_STALL_TOKEN
            | state::RS_KICKER
            | state::RS_KICKER_INPLACE
            | state::CL_KICKER
            | state::DE_VR_CONFIG
                if converted =>
            {
                return Err(Fault::State(address));
            }
            // Undocumented kick.
            state::DE_VR_CONFIG if value & 3 == 3 => return Err(Fault::State(address)),
            state::GL_PIPE_SELECT => {
                if self.busy {
                    return Err(Fault::BusyPipe);
                }
                let pipe = Pipe::from_number(value & 1);
                let pipe = pipe.filter(|&pipe| self.states.pipes.has(pipe));
                self.pipe = pipe.ok_or(Fault::NoPipe)?;
                self.uses.add(self.pipe);
            }
            state::GL_SEMAPHORE_TOKEN => {
                // One stall might disarm only one of two equal semaphores.
                if !self.tokens.arm(value) {
                    return Err(Fault::ArmedTwice);
                }
                self.covered |= value & TOKEN_MASK == TOKEN_FE_TO_PE;
            }
            state::GL_STALL_TOKEN => {
                if value & TOKEN_FROM == TOKEN_FE_TO_PE & TOKEN_FROM {
                    return Err(Fault::StallByLoad);
                }
                self.stall(value)?;
            }
            state::RS_KICKER | state::RS_KICKER_INPLACE | state::CL_KICKER => {
                self.draw(Pipe::Pipe3d)?;
                let target = self.draw_state.as_ref();
                if target.and_then(DrawState::tiler_left_on).is_some() {
                    self.draws_to(resolve::TARGET_STATE)?;
                } else if address == state::RS_KICKER && !self.has_resolve_dest {
                    // With several pixel pipes the vendor's clients load both kinds of targets, and
                    // Mesa loads those of the pipes. Which counts if they differ is not known.
                    self.draws_to(self.states.resolve_target)?;
                }
                match address {
                    state::RS_KICKER => {
                        let base = self.lookup.base_of(bounds::STATUS_SURFACE);
                        self.check_bounds(|target, last_of| target.resolve(base, last_of))?;
                    }
                    state::RS_KICKER_INPLACE => {
                        self.check_bounds(|target, last_of| target.fill_tiles(value, last_of))?;
                    }
                    _ => {}
                }
            }
            state::DE_VR_CONFIG => {
                self.draw(Pipe::Pipe2d)?;
                self.check_bounds(|target, last_of| target.filter(last_of))?;
            }
            0 | 1 => return Err(Fault::State(address)),
            _ if is_kernel_state(address) => return Err(Fault::State(address)),
            _ => return Err(Fault::Unknown(address)),
        }
        Ok(())
    }

    /// Whether `word` loads a stray address into the state of a sampler that is off.
    #[cold]
    #[inline(never)]
    fn is_unused(&mut self, address: u32, word: &Cell<u32>) -> bool {
        if !lint::is_sampler(address) {
            return false;
        }
        let (words, lookup) = (self.words, &mut self.lookup);
        // Computed once for all samplers.
        let first_used = self.first_used.get_or_insert_with(|| {
            lint::first_used(words, |state, value| lookup.resolve(state, value).is_none())
        });
        let place = (core::ptr::from_ref(word).addr() - words.as_ptr().addr()) / size_of::<u32>();
        // CAST: 32 bits into at least 32.
        place < *first_used as usize
    }

    fn stall(&mut self, token: u32) -> Result<(), Fault> {
        if self.tokens.disarm(token) {
            if token & TOKEN_MASK == TOKEN_FE_TO_PE && self.covered {
                self.busy = false;
            }
            Ok(())
        } else {
            Err(Fault::UnarmedStall)
        }
    }

    fn draw(&mut self, pipe: Pipe) -> Result<(), Fault> {
        self.busy = true;
        self.covered = false;
        if self.pipe != pipe {
            return Err(Fault::WrongPipe);
        }
        match pipe {
            Pipe::Pipe2d => self.draws_to(state::DE_DEST_ADDRESS),
            // A 3D draw may have no color buffer.
            Pipe::Pipe3d => Ok(()),
        }
    }

    /// Fails if the target state `address` was loaded with 0.
    #[inline]
    fn draws_to(&self, address: u32) -> Result<(), Fault> {
        if self.null_targets != 0 && self.null_targets & null_target_bit(address) != 0 {
            Err(Fault::NullTarget(address))
        } else {
            Ok(())
        }
    }
}

/// The state of the core after a checked stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The selected pipe.
    pub(crate) pipe: Pipe,
    /// The semaphore from the front end to the pixel engine is armed.
    pub(crate) armed: bool,
    /// The engines that may have drawn, or whose address states may have changed.
    pub(crate) uses: Pipes,
}

/// `LOAD_STATE` of one state, without FIXP and the state's address.
const LOAD_ONE: u32 = 0x0801_0000;

/// Checks `words`, which begin with pipe `entry` selected, for a core with `states` and a process
/// that may use `addresses`. Replaces address 0 by an address of scratch memory, which a second
/// check accepts. Notes all addresses in `loaded`.
///
/// `mends`: also replaces addresses that are not the process's, because some clients leave stale
/// addresses in unused states. Then a draw to address 0 is allowed, too.
pub(crate) fn check(
    words: &mut [u32],
    states: &States,
    entry: Pipe,
    addresses: Addresses<'_>,
    loaded: Option<&Loaded>,
    mends: bool,
) -> Result<Exit, Refusal> {
    let input = Input::Commands { mends };
    pass(words, states, entry, addresses, loaded, input)
}

/// Checks the states of a context. They may name memory that was freed since, so addresses that are
/// not the process's are replaced. Nothing is lent.
pub(crate) fn check_context(
    words: &mut [u32],
    states: &States,
    entry: Pipe,
    addresses: Addresses<'_>,
    loaded: Option<&Loaded>,
) -> Result<Exit, Refusal> {
    pass(words, states, entry, addresses, loaded, Input::Context)
}

/// Skips `LOAD_STATE`s of unwatched states. With `NOTES`, records engines and stops once both pipes
/// are used. Returns the rest of the words.
#[inline(always)]
fn skip<'w, const NOTES: bool>(
    checker: &mut Checker<'_>,
    mut rest: &'w [Cell<u32>],
) -> &'w [Cell<u32>] {
    let states = checker.states;
    while let [first, _, tail @ ..] = rest {
        let first = first.get();
        // Most commands load one such state.
        let (after, count) =
            if first & !(FIXP | 0xFFFF) == LOAD_ONE && !states.is_watched(first & 0xFFFF) {
                (tail, 1)
            } else if let Some(after) = after_harmless(states, first, tail) {
                (after, first >> 16 & 0x3FF)
            } else {
                break;
            };
        rest = after;
        if NOTES {
            checker.note_engines(first & 0xFFFF, count);
            if !checker.notes_engines() {
                break;
            }
        }
    }
    rest
}

/// The words after the command that begins with `first`, if it loads several states and none needs
/// a check. `tail` begins after its first value.
#[inline(always)]
fn after_harmless<'w>(
    states: Sets<'_>,
    first: u32,
    tail: &'w [Cell<u32>],
) -> Option<&'w [Cell<u32>]> {
    let count = (first >> 16) & 0x3FF;
    let address = first & 0xFFFF;
    let is_load = matches!(Opcode::of(first), Opcode::LoadState);
    if !is_load || count == 0 || address + count > 0x1_0000 || states.any_watched(address, count) {
        return None;
    }
    // Skips the other values and the padding. CAST: at most 1023.
    tail.get((count as usize - 1).next_multiple_of(2)..)
}

fn pass(
    words: &mut [u32],
    states: &States,
    entry: Pipe,
    addresses: Addresses<'_>,
    loaded: Option<&Loaded>,
    input: Input,
) -> Result<Exit, Refusal> {
    let words = Cell::from_mut(words).as_slice_of_cells();
    if let Some(loaded) = loaded {
        loaded.forget_blocks();
    }
    let refuse = |rest: &[Cell<u32>], fault| Refusal {
        at: words.len() - rest.len(),
        word: rest.first().map_or(0, Cell::get),
        value: loaded_value(rest, fault),
        fault,
    };
    let states = states.sets().filter(|states| states.pipes.has(entry));
    let Some(states) = states else {
        return Err(refuse(words, Fault::NoPipe));
    };
    let mut uses = Pipes::default();
    uses.add(entry);
    let mut checker = Checker {
        words,
        first_used: None,
        input,
        mends: input != Input::Commands { mends: false },
        loaded,
        states,
        lookup: Lookup::new(addresses),
        initial_draw_state: match addresses {
            Addresses::Any => None,
            Addresses::Of { .. } => states.target,
        },
        is_deferred: false,
        draw_state: None,
        pipe: entry,
        uses,
        tokens: Tokens::default(),
        // The ring drains the engines after every stream.
        busy: false,
        covered: false,
        null_targets: 0,
        has_resolve_dest: false,
    };
    let mut rest = words;
    loop {
        rest = if checker.notes_engines() {
            skip::<true>(&mut checker, rest)
        } else {
            skip::<false>(&mut checker, rest)
        };
        if rest.is_empty() {
            break;
        }
        let len = checker.command(rest).map_err(|fault| refuse(rest, fault))?;
        rest = rest
            .get(len..)
            .ok_or_else(|| refuse(rest, Fault::Truncated))?;
    }
    // The ring adds the stall for this semaphore.
    let armed = checker.tokens.disarm(TOKEN_FE_TO_PE);
    if checker.tokens.any() {
        return Err(refuse(rest, Fault::LeftArmed));
    }
    // Refuse: the next stream's resolve kick would start the YUV tiler.
    let state = checker.draw_state.as_ref();
    if let Some(config) = state.and_then(DrawState::tiler_left_on) {
        return Err(refuse(rest, Fault::TilerOn(config)));
    }
    if let (Some(loaded), Some(target)) = (loaded, &checker.draw_state) {
        match input {
            Input::Commands { .. } => loaded.set_pending(target),
            Input::Context => loaded.keep(target),
        }
    }
    Ok(Exit {
        pipe: checker.pipe,
        armed,
        uses: checker.uses,
    })
}

mod tests;
