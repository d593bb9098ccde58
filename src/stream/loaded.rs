// SPDX-License-Identifier: GPL-2.0-only

//! The addresses, and the data of the 2D pipe, that a process's commands have loaded into the GPU.
//!
//! Pure logic. An address stays in the GPU's states when its memory is freed. Then these states
//! must be loaded with a harmless address. Other states keep their values, as clients expect.
//!
//! The check of a stream notes each address before the stream is *placed* (has its place in the
//! ring). If another stream of the process is checked before that, or the stream is never placed,
//! the noted addresses may differ from the GPU's: they are *unsure*. Then the next stream starts
//! with all states reset. Noted data need not be sure: wrong data is still the process's own.
//!
//! [`bounds`] explains which states are *lent* to a stream.

use super::{
    bounds::{
        self,
        DrawState,
        Loads,
        Mask, //
    },
    states,
    words::Pipe, //
};
use crate::prelude::*;
use core::cell::Cell;

/// Number of states that can be noted: up to the last that takes an address.
const LIMIT: usize = states::ADDRESSES_END;

/// What a process's commands have loaded.
pub(crate) struct Loaded {
    /// The last noted value of each state. Allocated at the first check.
    values: KVVec<Cell<u32>>,
    /// A bit for each state with a noted address.
    known: KVVec<Cell<u32>>,
    /// A checked stream has no place in the ring yet.
    is_open: Cell<bool>,
    /// The noted addresses may differ from the GPU's.
    is_unsure: Cell<bool>,
    /// The process's number of removed address ranges at the last [`Loaded::verify`].
    verified: Cell<u64>,
    /// See [`Loaded::epoch`].
    epoch: Cell<u64>,
    /// The first and the last state whose data was noted since [`Loaded::forget_noted`].
    data: Cell<Option<(u32, u32)>>,
    /// The rows [`LAST`], [`PENDING`] and [`LENT`] of values. Allocated at the first check.
    bounded: KVVec<Bounded>,
    /// Bit mask of [`bounds::STATES`] that placed streams have loaded after their context.
    since: Cell<Mask>,
    /// Bit mask of [`bounds::STATES`] that the last checked stream loads, until it is placed.
    pending: Cell<Mask>,
    /// The context of the last checked stream.
    origin: Cell<Origin>,
    /// Bit mask of [`bounds::STATES`] that the last checked stream was lent.
    lent: Cell<Mask>,
    /// The last checked stream can be lent states.
    is_lending: Cell<bool>,
    /// A bit for each state of multi-source blits, from [`bounds::BLOCKS_FIRST`] on, that the last
    /// checked stream loads. Allocated at the first check.
    blocks: KVVec<Cell<u32>>,
    /// Some bits of `blocks` are set.
    has_blocks: Cell<bool>,
    /// For each set of these states: whether the process has loaded one of them, and a layout other
    /// than 0. See [`bounds::block_of`].
    sets: [Cell<(bool, bool)>; 2],
}

/// Words of [`Loaded::blocks`].
const BLOCK_WORDS: usize = bounds::BLOCKS_COUNT.div_ceil(32);

/// A value for each of [`bounds::STATES`].
type Bounded = [Cell<u32>; bounds::STATES.len()];

/// The last values that placed streams have loaded.
const LAST: usize = 0;
/// The values that the last checked stream loads.
const PENDING: usize = 1;
/// The values that the last checked stream was lent.
const LENT: usize = 2;

/// The context of a stream, if the driver keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No context.
    Bare,
    /// The context of the process's previous commands.
    Same,
    /// Another context.
    Other,
}

impl Loaded {
    /// The record of a process that has not loaded anything.
    pub(crate) fn new() -> Self {
        Self {
            values: KVVec::new(),
            known: KVVec::new(),
            is_open: Cell::new(false),
            is_unsure: Cell::new(false),
            verified: Cell::new(0),
            epoch: Cell::new(0),
            data: Cell::new(None),
            bounded: KVVec::new(),
            since: Cell::new(0),
            pending: Cell::new(0),
            origin: Cell::new(Origin::Bare),
            lent: Cell::new(0),
            is_lending: Cell::new(false),
            blocks: KVVec::new(),
            has_blocks: Cell::new(false),
            sets: [const { Cell::new((false, false)) }; 2],
        }
    }

    /// Allocates memory. `OutOfMemory`: nothing is noted or lent, and all addresses are unsure.
    pub(crate) fn prepare(&mut self) -> Result {
        if self.values.is_empty() {
            let zeros = [const { Cell::new(0) }; bounds::STATES.len()];
            self.bounded = KVVec::from_elem(zeros, 1 + LENT, crate::sys::GFP_CLIENT)?;
            self.blocks = KVVec::from_elem(Cell::new(0), BLOCK_WORDS, crate::sys::GFP_CLIENT)?;
            let known = KVVec::from_elem(Cell::new(0), LIMIT / 32, crate::sys::GFP_CLIENT)?;
            self.values = KVVec::from_elem(Cell::new(0), LIMIT, crate::sys::GFP_CLIENT)?;
            self.known = known;
        }
        Ok(())
    }

    /// Begins to note the loads of a stream with the context `origin`.
    pub(crate) fn begin(&self, origin: Origin) {
        self.origin.set(origin);
        self.pending.set(0);
        self.lent.set(0);
        // Without memory no values have been noted that it could be lent.
        self.is_lending.set(!self.values.is_empty());
        if self.is_open.replace(true) {
            self.is_unsure.set(true);
        }
    }

    /// Forgets the stream's loads of states of multi-source blits. Called before each check of it.
    pub(crate) fn forget_blocks(&self) {
        if self.has_blocks.take() {
            self.blocks.iter().for_each(|bits| bits.set(0));
        }
    }

    /// Notes that the stream loads `state`, of multi-source blits, with `value`, but not as data.
    /// Data is loaded again after another process's commands: another thread could change what this
    /// stream was checked with. Returns whether this is the process's first load of the set, or of
    /// a layout: earlier checks assumed none.
    pub(crate) fn note_block(&self, state: u32, value: u32) -> bool {
        let place = state.wrapping_sub(bounds::BLOCKS_FIRST);
        let (set, is_layout) = bounds::block_of(state);
        let bits = self.blocks.get(u32_as_usize(place / 32));
        if let (Some(bits), Some(to)) = (bits, self.values.get(state as usize)) {
            to.set(value);
            bits.set(bits.get() | 1 << (place & 31));
            self.has_blocks.set(true);
        }
        self.sets.get(set).is_some_and(|known| {
            let now = (true, known.get().1 || is_layout && value != 0);
            known.replace(now) != now
        })
    }

    /// Whether the stream has loaded `state`, of multi-source blits.
    pub(crate) fn block(&self, state: u32) -> Loads {
        let place = state.wrapping_sub(bounds::BLOCKS_FIRST);
        let (set, is_layout) = bounds::block_of(state);
        let bits = self
            .blocks
            .get(u32_as_usize(place / 32))
            .map_or(0, Cell::get);
        let value = self.values.get(state as usize).map_or(0, Cell::get);
        match self.sets.get(set).map(Cell::get) {
            None | Some((false, _)) => Loads::Never,
            _ if bits & 1 << (place & 31) != 0 => Loads::Here(value),
            Some((true, false)) if is_layout => Loads::Here(0),
            _ => Loads::Before,
        }
    }

    /// Notes that the stream is placed. `loads_context`: its context is loaded before it.
    pub(crate) fn placed(&self, loads_context: bool) {
        self.is_open.set(false);
        let known = self.pending.take();
        self.since.set(match (self.origin.get(), loads_context) {
            (Origin::Bare, _) => 0,
            (_, true) | (Origin::Other, _) => known,
            (Origin::Same, false) => self.since.get() | known,
        });
        if let (1.., [last, pending, ..]) = (known, &self.bounded[..]) {
            for place in bounds::places_in(known) {
                if let (Some(value), Some(to)) = (pending.get(place), last.get(place)) {
                    to.set(value.get());
                }
            }
        }
    }

    /// Notes the values of `target`, which count as loaded when the stream is placed.
    pub(crate) fn set_pending(&self, target: &DrawState) {
        if let Some(pending) = self.bounded.get(PENDING) {
            self.pending.set(target.known());
            target.put(pending);
        }
    }

    /// Notes the values of `target`, which count as loaded now.
    pub(crate) fn keep(&self, target: &DrawState) {
        if let Some(last) = self.bounded.get(LAST) {
            target.put(last);
        }
    }

    /// The last loaded value of the state at `place` of [`bounds::STATES`].
    pub(crate) fn last(&self, place: usize) -> u32 {
        self.bounded_value(LAST, place)
    }

    fn bounded_value(&self, row: usize, place: usize) -> u32 {
        let value = self.bounded.get(row).and_then(|row| row.get(place));
        value.map_or(0, Cell::get)
    }

    /// Those of the `missing` states (a bit for each of [`bounds::STATES`]) whose last load was the
    /// context's: no stream has loaded them since.
    pub(crate) fn in_context(&self, missing: Mask) -> Mask {
        missing
            & bounds::OF_3D
            & match self.origin.get() {
                Origin::Bare => 0,
                Origin::Same => !self.since.get(),
                Origin::Other => Mask::MAX,
            }
    }

    /// Whether the stream has a context.
    pub(crate) fn has_context(&self) -> bool {
        self.origin.get() != Origin::Bare
    }

    /// Notes that `state` is loaded with `value`.
    #[inline]
    pub(crate) fn note(&self, state: u32, value: u32) {
        let at = u32_as_usize(state);
        match (self.values.get(at), self.known.get(at / 32)) {
            (Some(place), Some(bits)) => {
                place.set(value);
                bits.set(bits.get() | 1 << (state & 31));
            }
            _ => self.is_unsure.set(true),
        }
    }

    /// Notes that `state`, which carries data, is loaded with `value`.
    #[inline]
    pub(crate) fn note_data(&self, state: u32, value: u32) {
        if let Some(place) = self.values.get(u32_as_usize(state)) {
            place.set(value);
            let (first, last) = self.data.get().unwrap_or((state, state));
            self.data.set(Some((first.min(state), last.max(state))));
        }
    }

    /// Whether the stream can be lent states.
    pub(crate) fn is_lending(&self) -> bool {
        self.is_lending.get()
    }

    /// Lends the stream the last value of `state`, one of [`bounds::STATES`]. If that is an
    /// address, lends the result of `resolved` for it.
    pub(crate) fn lend(&self, state: u32, resolved: impl FnOnce(u32) -> u32) -> u32 {
        let Some(place) = bounds::place_of(state) else {
            return 0;
        };
        // Lend even an address that was reset: the process may still have the memory.
        let value = if states::takes_address(state) {
            resolved(self.last(place))
        } else {
            self.last(place)
        };
        if let Some(to) = self.bounded.get(LENT).and_then(|lent| lent.get(place)) {
            to.set(value);
        }
        self.lent.set(self.lent.get() | 1 << place);
        value
    }

    /// Whether the stream was lent the value of `state`.
    pub(crate) fn is_lent(&self, state: u32) -> bool {
        bounds::place_of(state).is_some_and(|place| self.lent.get() & 1 << place != 0)
    }

    /// Stops lending before a second check of the stream, whose words now load the lent states.
    pub(crate) fn stop_lending(&self) {
        self.is_lending.set(false);
    }

    /// The states that the last checked stream was lent: a bit for each of [`bounds::STATES`].
    pub(crate) fn lent(&self) -> Mask {
        self.lent.get()
    }

    /// The lent value of the state at `place` of [`bounds::STATES`].
    pub(crate) fn lent_value(&self, place: usize) -> u32 {
        self.bounded_value(LENT, place)
    }

    /// The first and the last state with data that was noted since [`Loaded::forget_noted`].
    pub(crate) fn noted(&self) -> Option<(u32, u32)> {
        self.data.get()
    }

    /// Notes that the data noted so far has a copy.
    pub(crate) fn forget_noted(&self) {
        self.data.set(None);
    }

    /// Restores the data of `state`.
    pub(crate) fn restore_data(&self, state: u32, value: u32) {
        if let Some(place) = self.values.get(u32_as_usize(state)) {
            place.set(value);
        }
    }

    /// The data of `state`, or 0 if none was noted.
    pub(crate) fn data(&self, state: u32) -> u32 {
        self.values.get(u32_as_usize(state)).map_or(0, Cell::get)
    }

    /// The last address noted for `state`, if any.
    pub(crate) fn value(&self, state: u32) -> Option<u32> {
        let at = u32_as_usize(state);
        let bits = self.known.get(at / 32)?.get();
        (bits & 1 << (state & 31) != 0).then_some(self.values.get(at)?.get())
    }

    /// The address in `state` for the last checked stream, if any: the lent one, or
    /// [`Self::value`].
    pub(crate) fn used(&self, state: u32) -> Option<u32> {
        match bounds::place_of(state) {
            Some(place) if self.lent.get() & 1 << place != 0 => Some(self.lent_value(place)),
            _ => self.value(state),
        }
    }

    /// Notes that a context that is being destroyed may have loaded `state` with `value`.
    pub(crate) fn adopt(&self, state: u32, value: u32) {
        match self.value(state) {
            None => self.note(state, value),
            Some(found) if found == value => {}
            // The order of the two loads is not known.
            Some(_) => self.mark_unsure(),
        }
    }

    /// Notes that the noted addresses may differ from the GPU's.
    pub(crate) fn mark_unsure(&self) {
        self.is_unsure.set(true);
    }

    /// Whether the noted addresses may differ from the GPU's.
    pub(crate) fn is_unsure(&self) -> bool {
        self.is_unsure.get() || self.is_open.get()
    }

    /// Whether an address may have become stale since [`Loaded::verify`].
    pub(crate) fn may_be_stale(&self, removals: u64) -> bool {
        self.verified.get() != removals
    }

    /// Notes that no address is stale after `removals` removed address ranges.
    pub(crate) fn verify(&self, removals: u64) {
        self.verified.set(removals);
    }

    /// Forgets all addresses. The GPU's states then count as loaded by another process.
    pub(crate) fn forget_all(&self) {
        self.known.iter().for_each(|bits| bits.set(0));
        // This also forgets the addresses of a stream that is not placed yet.
        self.is_unsure.set(self.is_open.get());
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Number of calls of [`Loaded::forget_all`].
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Adds to `list` the states of `pipe` whose value `is_allowed` rejects, and their values to
    /// `held`.
    pub(crate) fn stale(
        &self,
        pipe: Pipe,
        mut is_allowed: impl FnMut(u32, u32) -> bool,
        list: &mut KVVec<u32>,
        held: &mut KVVec<u32>,
    ) -> Result {
        for (word, bits) in (0u32..).zip(&self.known) {
            let mut left = bits.get();
            while left != 0 {
                let state = word * 32 + left.trailing_zeros();
                left &= left - 1;
                let value = self.values.get(u32_as_usize(state)).map_or(0, Cell::get);
                if states::pipe_of(state) == pipe && !is_allowed(state, value) {
                    list.push(state, crate::sys::GFP_CLIENT)?;
                    held.push(value, crate::sys::GFP_CLIENT)?;
                }
            }
        }
        Ok(())
    }

    /// Forgets the addresses of the states in `list`: the next checked stream resets them first.
    pub(crate) fn forget(&self, list: &[u32]) {
        for &state in list {
            if let Some(bits) = self.known.get(u32_as_usize(state / 32)) {
                bits.set(bits.get() & !(1 << (state & 31)));
            }
        }
    }

    /// Undoes [`Loaded::forget`] for states that were not reset: notes the values `held` of the
    /// states in `list` again, except of those that the stream has loaded.
    pub(crate) fn remember(&self, list: &[u32], held: &[u32]) {
        for (&state, &held) in list.iter().zip(held) {
            if self.value(state).is_none() {
                self.note(state, held);
            }
        }
    }
}

mod tests;
