// SPDX-License-Identifier: GPL-2.0-only

//! Words with which the GPU forgets addresses, and the data of other processes.
//!
//! Addresses outlive the commands that load them. They stay in the GPU's states, and a draw that
//! loads none uses them. So every state that takes an address is loaded with the address of scratch
//! memory, before the commands of another process, and after the end of some memory of this
//! process. Palettes, colors, uniforms and instructions outlive commands, too: before the commands
//! of another process, they are loaded with zeros. A process that is alone needs no such loads.
//!
//! Scratch memory is cleared before the data is reset: what one process draws there by mistake,
//! another process could read.
//!
//! The 2D pipe's data that a process has loaded itself is restored instead ([`OwnData`]): no
//! context keeps it, and clients load palettes and kernels once. It is also restored after the core
//! was off.
//!
//! Pure logic. The words are made once for each core. For the 3D pipe there are two lists: all
//! words, and those for states that no context keeps, for use before a context.

use super::{
    map::load,
    StateMap, //
};
use crate::{
    prelude::*,
    stream::{
        addresses::Scratch,
        states::{
            self,
            States, //
        },
        words::{
            self,
            state,
            Caches,
            Pipe,
            Pipes, //
        }, //
    }, //
};

/// The most words of the lists of both pipes that forget addresses: all states of all known cores
/// together, with the headers.
pub(crate) const MAX_ADDRESS_WORDS: usize = 1280;

/// The most words of the lists that also forget data. Most of them are instructions.
pub(crate) const MAX_WORDS: usize = 23 << 10;

/// The most of these words for the 2D pipe, with those that clear scratch memory.
pub(crate) const MAX_2D_WORDS: usize = 2 << 10;

/// Pipes that a core can have.
pub(crate) const PIPES: usize = 2;

/// Whose addresses the GPU holds. All addresses that an author has loaded are still its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    /// The process's number.
    pub(crate) process: u64,
    /// Number of times that it had to forget all its own addresses: see [`crate::stream::loaded`].
    pub(crate) epoch: u64,
}

/// By pipe, whose addresses its states can hold, and which process's data. `None`: unknown.
#[derive(Default)]
pub(crate) struct Authors {
    addresses: [Option<Author>; PIPES],
    data: [Option<u64>; PIPES],
}

impl Authors {
    /// Whether a pipe's states may hold addresses of another author than `author`.
    pub(crate) fn are_others(&self, pipe: Pipe, author: Author) -> bool {
        self.addresses[pipe.index()] != Some(author)
    }

    /// Whether a pipe's states may hold data of another process than `author`'s.
    fn has_others_data(&self, pipe: Pipe, author: Author) -> bool {
        self.data[pipe.index()] != Some(author.process)
    }

    /// The authors after the core was off. Which addresses its states hold is unknown, but any data
    /// that they hold is still the same process's. That of the 2D pipe must be restored.
    pub(crate) fn after_pause(&self) -> Self {
        let mut data = self.data;
        data[Pipe::Pipe2d.index()] = None;
        Self {
            addresses: [None; PIPES],
            data,
        }
    }

    /// Notes that commands of `author` have used `uses`. `None`: their addresses were not checked.
    pub(crate) fn note(&mut self, uses: Pipes, author: Option<Author>) {
        for pipe in [Pipe::Pipe3d, Pipe::Pipe2d] {
            if uses.has(pipe) {
                self.addresses[pipe.index()] = author;
                self.data[pipe.index()] = author.map(|author| author.process);
            }
        }
    }

    /// Whether something may have to be loaded before commands of `author` that use `uses`. Usually
    /// there is nothing.
    #[inline(always)]
    pub(crate) fn may_wipe(&self, stale: &[&[u32]; PIPES], author: Author, uses: Pipes) -> bool {
        let is_unclean = |pipe: Pipe| {
            uses.has(pipe) && (!stale[pipe.index()].is_empty() || self.are_others(pipe, author))
        };
        is_unclean(Pipe::Pipe3d) || is_unclean(Pipe::Pipe2d)
    }

    /// What must be loaded before commands of `author` that use `uses`, in this order. The list of
    /// pipe `first`, which the commands need first, comes last. `has_copy`: a context is loaded
    /// from the kernel's memory after the lists.
    pub(crate) fn wipes(
        &self,
        lists: Lists<'_>,
        author: Author,
        uses: Pipes,
        first: Pipe,
        has_copy: bool,
    ) -> [Option<Part>; PIPES] {
        let order = match first {
            Pipe::Pipe3d => [Pipe::Pipe2d, Pipe::Pipe3d],
            Pipe::Pipe2d => [Pipe::Pipe3d, Pipe::Pipe2d],
        };
        order.map(|pipe| {
            if !uses.has(pipe) {
                return None;
            }
            let is_beside = has_copy && pipe == Pipe::Pipe3d;
            let part = match (self.has_others_data(pipe, author), is_beside) {
                _ if !self.are_others(pipe, author) => Part::Stale(pipe),
                (true, true) => Part::FreshBesideContext,
                (true, false) => Part::Fresh(pipe),
                (false, true) => Part::BesideContext,
                (false, false) => Part::All(pipe),
            };
            (!lists.words(part).is_empty()).then_some(part)
        })
    }
}

/// A list at its place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wipe {
    /// Which states it loads.
    pub(crate) part: Part,
    /// Its pipe must be selected.
    pub(crate) switch: bool,
    /// Number of its words, with those of the pipe switch and the clear before it.
    pub(crate) words: usize,
}

impl Wipe {
    /// A list where `pipe` is selected (`None`: unknown). It leaves its own pipe selected.
    pub(crate) fn new(part: Part, lists: Lists<'_>, pipe: &mut Option<Pipe>) -> Self {
        let switch = pipe.replace(part.pipe()) != Some(part.pipe());
        let switch_words = if switch { words::SELECT_PIPE_WORDS } else { 0 };
        let clear_words = match lists.clear(part) {
            [] => 0,
            clear => clear.len() + words::DRAIN_WORDS,
        };
        Self {
            part,
            switch,
            words: clear_words + lists.words(part).len() + switch_words,
        }
    }
}

/// The states that one list loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All states of a pipe that take addresses.
    All(Pipe),
    /// All states of the 3D pipe that take addresses and that no context keeps.
    BesideContext,
    /// As [`Part::All`], and the states that carry data. In the 2D pipe, with the author's data.
    Fresh(Pipe),
    /// As [`Part::BesideContext`], and the states that carry data and that no context keeps.
    FreshBesideContext,
    /// The states of a pipe that hold addresses of memory that the author has freed.
    Stale(Pipe),
}

impl Part {
    /// The pipe that must be selected.
    pub(crate) fn pipe(self) -> Pipe {
        match self {
            Part::All(pipe) | Part::Fresh(pipe) | Part::Stale(pipe) => pipe,
            Part::BesideContext | Part::FreshBesideContext => Pipe::Pipe3d,
        }
    }
}

/// All lists that a job may need.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    /// Those of the core.
    pub(crate) scrub: &'a Scrub,
    /// By pipe, the list for the author's own stale addresses.
    pub(crate) stale: [&'a [u32]; PIPES],
    /// [`Part::Fresh`] of the 2D pipe with the author's data, if it has loaded any.
    pub(crate) data: Option<&'a Arc<OwnData>>,
}

/// [`Part::Fresh`] of the 2D pipe with the data of one process. The process's threads can change it
/// while it is read.
pub(crate) struct OwnData(KVVec<Atomic<u32>>);

impl OwnData {
    /// No data. `OutOfMemory`.
    pub(crate) fn new(scrub: &Scrub) -> Result<Arc<Self>> {
        let fresh = &scrub.fresh[Pipe::Pipe2d.index()];
        let mut list = KVVec::with_capacity(fresh.len(), crate::sys::GFP_CLIENT)?;
        for &word in fresh {
            list.push(Atomic::new(word), crate::sys::GFP_CLIENT)?;
        }
        Ok(Arc::new(Self(list), crate::sys::GFP_CLIENT)?)
    }

    /// Passes the states from the first to the last of `range` that carry data, and their values,
    /// to `see`.
    pub(crate) fn for_each(&self, range: (u32, u32), see: impl Fn(u32, &Atomic<u32>)) {
        for_each_data(&self.0, range, |word| word.load(Relaxed), see);
    }

    /// Passes its words to `emit`, in pieces.
    fn emit<E>(&self, mut emit: impl FnMut(&[u32]) -> Result<(), E>) -> Result<(), E> {
        let mut some = [0; 32];
        for words in self.0.chunks(some.len()) {
            for (to, word) in some.iter_mut().zip(words) {
                *to = word.load(Relaxed);
            }
            emit(&some[..words.len()])?;
        }
        Ok(())
    }
}

/// Passes the states from `first` to `last` that carry data to `see`, with their values in `list`,
/// which is of loads. `get` reads a word of it.
fn for_each_data<W>(
    list: &[W],
    (first, last): (u32, u32),
    get: impl Fn(&W) -> u32,
    see: impl Fn(u32, &W),
) {
    let mut rest = list;
    // Ends: each round removes a command.
    while let [header, values @ ..] = rest {
        let header = get(header);
        // CAST: 10 bits.
        let (start, count) = (header & 0xFFFF, (header >> 16 & 0x3FF) as usize);
        // CAST: 16 bits.
        let skipped = first.saturating_sub(start) as usize;
        let states = (start..=last).zip(values.iter().take(count)).skip(skipped);
        for (state, value) in states.filter(|&(state, _)| !states::takes_address(state)) {
            see(state, value);
        }
        rest = values
            .get((1 + count).next_multiple_of(2) - 1..)
            .unwrap_or(&[]);
    }
}

impl<'a> Lists<'a> {
    /// Passes the words of a list to `emit`. If the list resets data, the words that clear scratch
    /// memory precede them.
    pub(crate) fn emit<E>(
        self,
        part: Part,
        caches: &Caches,
        mut emit: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let clear @ [_, ..] = self.clear(part) {
            emit(clear)?;
            // A later read of scratch memory may bypass the cache that holds the zeros.
            emit(words::drain(caches))?;
        }
        match (part, self.data) {
            // It has as many words as the list without the process's data.
            (Part::Fresh(Pipe::Pipe2d), Some(data)) => data.emit(emit),
            _ => emit(self.words(part)),
        }
    }

    /// The words that clear scratch memory before a list. Empty if the list resets no data.
    fn clear(self, part: Part) -> &'a [u32] {
        match part {
            Part::Fresh(_) | Part::FreshBesideContext => &self.scrub.clears[part.pipe().index()],
            Part::All(_) | Part::BesideContext | Part::Stale(_) => &[],
        }
    }

    /// The words of a list, in whole commands. Empty if there is nothing to load.
    pub(crate) fn words(self, part: Part) -> &'a [u32] {
        match part {
            Part::All(pipe) => &self.scrub.all[pipe.index()],
            Part::BesideContext => &self.scrub.beside_context,
            Part::Fresh(pipe) => &self.scrub.fresh[pipe.index()],
            Part::FreshBesideContext => &self.scrub.fresh_beside_context,
            Part::Stale(pipe) => self.stale[pipe.index()],
        }
    }
}

/// The lists of a core, by [`Part`], and some also by pipe.
pub(crate) struct Scrub {
    all: [KVVec<u32>; PIPES],
    beside_context: KVVec<u32>,
    fresh: [KVVec<u32>; PIPES],
    fresh_beside_context: KVVec<u32>,
    /// By pipe, the words that clear scratch memory.
    clears: [KVVec<u32>; PIPES],
}

/// Bytes of a row, and rows, with which scratch memory is cleared: a page of 32-bit pixels.
const CLEAR_STRIDE: u32 = 256;
const CLEAR_ROWS: u32 = 16;

/// All these pixels, as a corner and as a size.
const CLEAR_AREA: u32 = CLEAR_ROWS << 16 | CLEAR_STRIDE / 4;

/// With what the 2D engine clears scratch memory, besides addresses: first byte offset, values. All
/// clear colors are 0 (also those of PE10 and PE20). No rotation, no mask.
const CLEAR_2D: [(u32, &[u32]); 9] = [
    // DE.DEST_STRIDE, DE.DEST_ROTATION_CONFIG, DE.DEST_CONFIG: A8R8G8B8, CLEAR.
    (0x122C, &[CLEAR_STRIDE, 0, 6]),
    // DE.ROP: that of a copy. DE.CLIP_TOP_LEFT, DE.CLIP_BOTTOM_RIGHT, DE.CLEAR_BYTE_MASK,
    // DE.CONFIG, DE.CLEAR_PIXEL_VALUE.
    (0x125C, &[0x30_CCCC, 0, CLEAR_AREA, 0xFF, 0, 0, 0]),
    // DE.ALPHA_CONTROL.
    (0x127C, &[0]),
    // DE.DEST_ROTATION_HEIGHT.
    (0x12B4, &[0]),
    // DE.ROT_ANGLE, DE.CLEAR_PIXEL_VALUE32.
    (0x12BC, &[0, 0]),
    // DE.PE_TRANSPARENCY.
    (0x12D4, &[0]),
    // DE.BW_CONFIG: the walk of one-pass filters.
    (0x12F0, &[0]),
    // DE.DEYUV_CONVERSION.
    (0x130C, &[0]),
    // DE.DE_STALL_DE: off.
    (0x1320, &[0]),
];

/// The same for the resolve engine: a fill.
const CLEAR_3D: [(u32, &[u32]); 10] = [
    // RS.CONFIG: A8R8G8B8 to A8R8G8B8.
    (0x1604, &[6 << 8 | 6]),
    // RS.SOURCE_STRIDE.
    (0x160C, &[CLEAR_STRIDE]),
    // RS.DEST_STRIDE.
    (0x1614, &[CLEAR_STRIDE]),
    // RS.WINDOW_SIZE.
    (0x1620, &[CLEAR_AREA]),
    // RS.DITHER: none.
    (0x1630, &[u32::MAX; 2]),
    // RS.CLEAR_CONTROL: one value for all bytes. RS.FILL_VALUE.
    (0x163C, &[1 << 16 | 0xFFFF, 0, 0, 0, 0]),
    // YUV.CONFIG: off.
    (0x1678, &[0]),
    // RS.EXTRA_CONFIG.
    (0x16A0, &[0]),
    // RS.SINGLE_BUFFER.
    (0x16B8, &[0]),
    // RS.PIPE_OFFSET.
    (0x1700, &[0; 8]),
];

/// What starts the clear: a rectangle, and a kick of the resolve engine.
const DRAW_2D: [u32; 4] = [words::DRAW_2D, 0, 0, CLEAR_AREA];
const KICK_3D: [u32; 2] = [words::load_state(state::RS_KICKER, 1), 1];

/// `LOAD_STATE`s of ascending `addresses`, with the address of scratch memory where one fits, or 0.
fn load_reset(addresses: impl Iterator<Item = u32>, scratch: &Scratch) -> Result<KVVec<u32>> {
    load(addresses.map(|address| {
        if states::takes_address(address) {
            (address, scratch.of(address))
        } else {
            (address, 0)
        }
    }))
}

/// Words that clear scratch memory: its address in `targets`, `values`, and `start`. Empty if there
/// are no targets.
fn clear(
    values: &[(u32, &[u32])],
    targets: impl Iterator<Item = u32>,
    scratch: &Scratch,
    start: &[u32],
) -> Result<KVVec<u32>> {
    let mut list = load_reset(targets, scratch)?;
    if !list.is_empty() {
        let states = values
            .iter()
            .flat_map(|&(first, values)| (state::word(first)..).zip(values.iter().copied()));
        list.extend_from_slice(&load(states)?, GFP_KERNEL)?;
        list.extend_from_slice(start, GFP_KERNEL)?;
    }
    Ok(list)
}

impl Scrub {
    /// Passes the 2D pipe's states from the first to the last of `range` that carry data to `see`.
    pub(crate) fn for_each_data(&self, range: (u32, u32), see: impl Fn(u32)) {
        let fresh = &self.fresh[Pipe::Pipe2d.index()];
        for_each_data(fresh, range, |&word| word, |state, _| see(state));
    }

    /// The lists of a core whose contexts keep the states of `map`. `OutOfMemory`. `NotSupported`:
    /// they are too long.
    pub(crate) fn new(states: &States, map: &StateMap, scratch: &Scratch) -> Result<Arc<Self>> {
        let of = |pipe| {
            let all = states.addresses();
            all.filter(move |&address| states::pipe_of(address) == pipe)
        };
        let fresh = |pipe| {
            let all = states.addresses_and_data();
            all.filter(move |&address| states::pipe_of(address) == pipe)
        };
        let is_beside = |&address: &u32| map.place(address).is_none();
        let resolve = state::RS_KICKER..state::word(0x1720);
        let targets_3d = of(Pipe::Pipe3d).filter(|address| resolve.contains(address));
        let targets_2d = of(Pipe::Pipe2d).filter(|&address| address == state::DE_DEST_ADDRESS);
        let reset = |pipe| load_reset(of(pipe), scratch);
        let renew = |pipe| load_reset(fresh(pipe), scratch);
        let scrub = Self {
            all: [reset(Pipe::Pipe3d)?, reset(Pipe::Pipe2d)?],
            beside_context: load_reset(of(Pipe::Pipe3d).filter(is_beside), scratch)?,
            fresh: [renew(Pipe::Pipe3d)?, renew(Pipe::Pipe2d)?],
            fresh_beside_context: load_reset(fresh(Pipe::Pipe3d).filter(is_beside), scratch)?,
            clears: [
                clear(&CLEAR_3D, targets_3d, scratch, &KICK_3D)?,
                clear(&CLEAR_2D, targets_2d, scratch, &DRAW_2D)?,
            ],
        };
        let both = |lists: &[KVVec<u32>; PIPES]| lists.iter().map(|list| list.len()).sum::<usize>();
        let clear = both(&scrub.clears) + PIPES * words::DRAIN_WORDS;
        let in_2d = clear + scrub.fresh[Pipe::Pipe2d.index()].len();
        if both(&scrub.all) > MAX_ADDRESS_WORDS
            || clear + both(&scrub.fresh) > MAX_WORDS
            || in_2d > MAX_2D_WORDS
        {
            return Err(Error::NotSupported);
        }
        Ok(Arc::new(scrub, GFP_KERNEL)?)
    }

    /// The words for the `stale` states of `pipe`, which ascend: whole commands. There are at most
    /// as many words as for all states of the pipe. `OutOfMemory`.
    pub(crate) fn stale(&self, pipe: Pipe, stale: &[u32], scratch: &Scratch) -> Result<KVVec<u32>> {
        let all = &self.all[pipe.index()];
        let mut list = load_reset(stale.iter().copied(), scratch)?;
        if list.len() > all.len() {
            list.clear();
            list.extend_from_slice(all, GFP_KERNEL)?;
        }
        Ok(list)
    }
}

mod tests;
