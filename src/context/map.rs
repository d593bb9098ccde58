// SPDX-License-Identifier: GPL-2.0-only

//! The states that a context object keeps, and their places in its command stream.
//!
//! Pure logic over a core's identity. The stream has the vendor's layout. Its highest state is part
//! of the interface, because clients size their arrays by it, and silicon was tested with its
//! order:
//!
//! 1. Flush the 2D cache, stall, select the 3D pipe. An entry from the 3D pipe skips this.
//! 2. Flush the 3D caches, stall.
//! 3. `LOAD_STATE`s of all states: [`FRONT`], then [`BACK`].
//! 4. Semaphore and stall, and the slot of a LINK to the client's commands.
//! 5. An entry from the 2D pipe that needs only [`BACK`]. No generation uses it.
//!
//! Names are those of the register database (rnndb). Source: sources.md, contexts.

mod rows;

use crate::{
    hw::{
        identity,
        Identity, //
    },
    prelude::*,
    stream::{
        resolve,
        states::{
            takes_address,
            Sets,
            States, //
        },
        table::FIXP,
        words::{
            self,
            flush,
            state,
            Pipe, //
        }, //
    }, //
};
use core::ops::Range;
use rows::{
    Count,
    Need,
    Row,
    BACK,
    FRONT,
    MIRRORS, //
};

/// The value of padding words.
const PADDING: u32 = 0xDEAD_DEAD;

/// Byte offset of the entry for a core whose 3D pipe is selected.
pub(crate) const ENTRY_FROM_3D: usize = 32;

/// The most uniforms that have states: an address has 16 bits.
const MOST_CONSTANTS: u32 = (0x1_0000 - state::word(0x30000)) / 4;

/// The states `FE_VERTEX_ELEMENT_CONFIG`, `TS_MEM_CONFIG` and `GL_USC_CONTROL`.
const ELEMENTS: u32 = 0x00600;
const MEM_CONFIG: u32 = 0x01654;
const USC_CONTROL: u32 = 0x03884;

/// Whether the state at this byte address is loaded as a fixed-point number.
const fn is_converted(byte: u32) -> bool {
    matches!(
        byte,
        0xA00 | 0xA04 | 0xA0C | 0xA10 | 0xA84 | 0xC00..=0xC0C | 0xC20 | 0xC24
    )
}

/// A core, and the kind of its contexts.
struct MapInput<'a> {
    identity: &'a Identity,
    /// What clients may load. Contexts of the drivers from 5.0.11 on keep no other states.
    newer: Option<Sets<'a>>,
}

impl MapInput<'_> {
    fn meets(&self, need: Need) -> bool {
        let identity = self.identity;
        let [_, minor1, minor2, minor3] = identity.minor_features;
        let minor4 = identity.later_minor_features[0];
        match need {
            Need::Halti5 => self.newer.is_some() && identity.has_halti5(),
            Need::NotHalti5 => !self.meets(Need::Halti5),
            Need::Since5_0_11 => self.newer.is_some() && !identity.has_halti5(),
            Need::OnePipe => !self.meets(Need::SeveralPipes),
            Need::SeveralPipes => identity.pixel_pipes > 1,
            Need::OwnInstructions => identity.instruction_count <= 256,
            Need::CommonInstructions => identity.instruction_count > 256,
            Need::SharedInstructions => matches!(identity.instruction_count, 257..=1024),
            Need::LargeInstructions => identity.instruction_count > 1024,
            Need::CommonUniforms => identity.num_constants > 256,
            Need::AllUniforms => identity.num_constants == 256,
            Need::Halti0 => minor1 & identity::MINOR1_HALTI0 != 0,
            Need::Halti1 => minor2 & identity::MINOR2_HALTI1 != 0,
            Need::Halti2 => minor4 & identity::MINOR4_HALTI2 != 0,
            Need::LinearTextures => {
                minor1 & identity::MINOR1_LINEAR_TEXTURE_SUPPORT != 0 && !self.meets(Need::Halti1)
            }
            Need::TextureFilter => minor2 & identity::MINOR2_TX_FILTER != 0,
            Need::TextureAstc => minor4 & identity::MINOR4_TEXTURE_ASTC != 0,
            Need::InstructionCache => minor3 & identity::MINOR3_INSTRUCTION_CACHE != 0,
            Need::ShaderEnhancements2 => minor3 & identity::MINOR3_SH_ENHANCEMENTS2 != 0,
        }
    }

    fn count(&self, count: Count) -> u32 {
        let identity = self.identity;
        let few_uniforms = identity.model < 0x4000;
        match count {
            Count::Of(count) => count,
            Count::Break => 0,
            Count::Elements if self.meets(Need::Halti0) => 16,
            Count::Elements => 12,
            // An instruction has four words, and so has a uniform.
            Count::Instructions => 4 * identity.instruction_count,
            Count::VertexUniforms if few_uniforms => 4 * 168,
            Count::PixelUniforms if few_uniforms => 4 * 64,
            Count::VertexUniforms | Count::PixelUniforms => 4 * 256,
            Count::Uniforms => 4 * identity.num_constants.min(512),
            Count::Varyings if matches!(identity.free_varyings, 11..=16) => identity.free_varyings,
            Count::Varyings => 0,
            // These states are arrays of 8.
            Count::PixelPipes => identity.pixel_pipes.clamp(1, 8),
            Count::Samplers if (identity.model, identity.revision) == (0x2000, 0x5108) => 12,
            Count::Samplers => 32,
        }
    }

    /// The rows of a table that apply.
    fn rows<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = &'a Row> {
        rows.iter()
            .filter(|row| row.needs.iter().all(|&need| self.meets(need)))
    }

    /// The blocks of a row, as word addresses.
    fn blocks(&self, row: &Row) -> impl Iterator<Item = Range<u32>> {
        let (byte, stride, count) = (row.byte, row.stride, self.count(row.count));
        let firsts = (0..self.count(row.blocks)).map(move |block| byte + block * stride);
        firsts.map(move |first| state::word(first)..state::word(first) + count)
    }

    /// Whether contexts keep a block of a row. Contexts of the older drivers keep it even if
    /// clients may not load it.
    fn keeps(&self, row: &Row, mut block: Range<u32>) -> bool {
        let is_older = !row.needs.contains(&Need::Since5_0_11) && self.meets(Need::NotHalti5);
        let may_load = |states: Sets<'_>, at| !states.is_special(at) || states.takes_address(at);
        is_older
            || self
                .newer
                .is_some_and(|it| block.all(|at| at <= 0xFFFF && may_load(it, at)))
    }

    /// The state after the uniforms that all shaders share. 0: there are none.
    fn uniforms_end(&self) -> usize {
        if !self.meets(Need::Since5_0_11) || !self.meets(Need::CommonUniforms) {
            return 0;
        }
        u32_as_usize(state::word(0x30000) + 4 * self.identity.num_constants.min(MOST_CONSTANTS))
    }
}

/// A kept state that is a GPU address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressSlot {
    /// Its word in the stream.
    pub(crate) word: usize,
    /// The state, a word address.
    pub(crate) state: u32,
}

/// The states of a core's contexts.
pub(crate) struct StateMap {
    /// The words of a fresh context.
    pub(super) template: KVVec<u32>,
    /// See [`Places`].
    places: KVVec<u16>,
    /// `stateCount` of the vendor's driver: its highest state plus 1. May exceed what this map
    /// keeps. Clients size their arrays by it.
    pub(crate) state_count: usize,
    /// The kept states that are GPU addresses.
    pub(super) addresses: KVVec<AddressSlot>,
    /// The place of the first vertex element, and the number of elements.
    pub(super) elements: (usize, usize),
    /// The place of the LINK to the client's commands.
    pub(super) link: usize,
    /// The place of `TS_MEM_CONFIG`.
    pub(super) mem_config: usize,
    /// The place of `YUV_CONFIG`. 0: not kept.
    pub(super) yuv_config: usize,
}

/// For each state, the place of its value, and perhaps [`SPECIAL`]. 0: not kept.
#[derive(Clone, Copy)]
pub(super) struct Places<'a>(&'a [u16]);

/// The state is in a [`Group`], or some of its bits are not kept.
const SPECIAL: u16 = 1 << 15;

impl Places<'_> {
    /// The word that holds state `address` (a word address), if it is kept, and whether the state
    /// is special.
    #[inline(always)]
    pub(super) fn find(self, address: u32) -> Option<(usize, bool)> {
        match self.0.get(u32_as_usize(address)) {
            None | Some(0) => None,
            Some(&place) => Some(((place & !SPECIAL).into(), place & SPECIAL != 0)),
        }
    }
}

/// States that must be written together with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// It is written alone.
    None,
    /// It is written with the vertex elements.
    Elements,
    /// It is written with the states that are GPU addresses.
    Addresses,
}

/// The group of state `address`, whose word is at `at`. `elements`: the place of the first vertex
/// element, and the number of elements.
fn group_of(elements: (usize, usize), at: usize, address: u32) -> Group {
    let (first, count) = elements;
    match at {
        _ if (first..first + count).contains(&at) => Group::Elements,
        _ if address <= 0xFFFF && takes_address(address) => Group::Addresses,
        _ => Group::None,
    }
}

/// Waits for the pixel engine.
const WAIT: [u32; 4] = [
    words::load_state(state::GL_SEMAPHORE_TOKEN, 1),
    words::TOKEN_FE_TO_PE,
    words::STALL,
    words::TOKEN_FE_TO_PE,
];

/// Adds the states of a table to the stream, and notes their places.
fn add(core: &MapInput<'_>, rows: &[Row], loads: &mut Loads, places: &mut KVVec<u16>) -> Result {
    for row in core.rows(rows) {
        let value = match row.byte {
            USC_CONTROL => row.reset | core.identity.l1_cache_ratio(),
            _ => row.reset,
        };
        if matches!(row.count, Count::Break) {
            loads.close()?;
        }
        let kept = core
            .blocks(row)
            .filter(|block| core.keeps(row, block.clone()));
        for address in kept.flatten() {
            let at = u32_as_usize(address);
            if places.len() <= at {
                places.resize(at + 1, 0, GFP_KERNEL)?;
            }
            if places[at] == 0 {
                let converted = if is_converted(address << 2) { FIXP } else { 0 };
                let word = loads.push(address | converted, value)?;
                places[at] = u16::try_from(word).map_err(|_| Error::NotSupported)?;
            }
        }
    }
    loads.close()
}

impl StateMap {
    /// The states of a core. `OutOfMemory`. `NotSupported`: more than the map can hold.
    /// `InvalidArgument`: [`MIRRORS`] has a mirror of states that are not kept.
    pub(crate) fn new(identity: &Identity) -> Result<Arc<Self>> {
        let newer = None;
        let input = MapInput { identity, newer };
        Ok(Arc::new(Self::of(&input)?, GFP_KERNEL)?)
    }

    /// The states of a core that the drivers from 5.0.11 on keep, except for those that clients may
    /// not load by `states`. Errors: as [`StateMap::new`].
    pub(crate) fn newer(identity: &Identity, states: &States) -> Result<Arc<Self>> {
        let newer = states.sets();
        let input = MapInput { identity, newer };
        Ok(Arc::new(Self::of(&input)?, GFP_KERNEL)?)
    }

    fn of(core: &MapInput<'_>) -> Result<Self> {
        let mut loads = Loads::new(PADDING, MOST_STATES);
        let mut places = KVVec::new();
        loads.raw(&words::flush_of(flush::PE2D))?;
        loads.raw(&WAIT)?;
        loads.raw(&words::select_idle_pipe(Pipe::Pipe3d))?;
        loads.raw(&words::flush_of(
            flush::DEPTH | flush::COLOR | flush::TEXTURE,
        ))?;
        loads.raw(&WAIT)?;
        add(core, FRONT, &mut loads, &mut places)?;
        let last_part = loads.words.len();
        add(core, BACK, &mut loads, &mut places)?;
        for row in core.rows(MIRRORS) {
            for address in core.blocks(row).flatten() {
                let kept = address - state::word(row.byte) + state::word(row.reset);
                let place = *places
                    .get(u32_as_usize(kept))
                    .ok_or(Error::InvalidArgument)?;
                let mirror = places.get_mut(address as usize);
                *mirror.ok_or(Error::InvalidArgument)? = place;
            }
        }
        loads.raw(&WAIT)?;
        let link = loads.words.len();
        loads.raw(&[words::link(0, 0), 0])?;
        // Entry from the 2D pipe (5). Unused, so its LINK is left without a target.
        loads.raw(&words::flush_of(flush::PE2D))?;
        loads.raw(&WAIT)?;
        loads.raw(&words::select_idle_pipe(Pipe::Pipe3d))?;
        loads.raw(&[words::link(0, 0), 4 * u32::try_from(last_part).unwrap_or(0)])?;
        let mut addresses = KVVec::new();
        for (address, &place) in (0u32..0x1_0000).zip(places.iter()) {
            if place != 0 && takes_address(address) {
                let slot = AddressSlot {
                    word: place.into(),
                    state: address,
                };
                addresses.push(slot, GFP_KERNEL)?;
            }
        }
        let place = |byte| {
            let place = places.get(u32_as_usize(state::word(byte)));
            place.map_or(0, |&place| usize::from(place))
        };
        let elements = if core.meets(Need::Halti5) {
            // With HALTI5, each element has its own enable bit. They need no group.
            (0, 0)
        } else {
            // CAST: 12 or 16.
            (place(ELEMENTS), core.count(Count::Elements) as usize)
        };
        let mem_config = place(MEM_CONFIG);
        let yuv_config = place(resolve::CONFIG << 2);
        // No place uses the bit of [`SPECIAL`].
        if loads.words.len() > usize::from(SPECIAL) {
            return Err(Error::NotSupported);
        }
        for (address, place) in (0u32..).zip(places.iter_mut()) {
            let at = usize::from(*place);
            let group = group_of(elements, at, address);
            if at != 0 && (group != Group::None || at == mem_config || at == yuv_config) {
                *place |= SPECIAL;
            }
        }
        Ok(Self {
            elements,
            mem_config,
            yuv_config,
            link,
            addresses,
            state_count: places.len().max(core.uniforms_end()),
            template: loads.words,
            places,
        })
    }

    /// The places of the states.
    #[inline]
    pub(super) fn places(&self) -> Places<'_> {
        Places(&self.places)
    }

    /// The group of state `address`, whose word is at `at`.
    #[inline(never)]
    pub(super) fn group(&self, at: usize, address: u32) -> Group {
        group_of(self.elements, at, address)
    }

    /// The word that holds state `address` (a word address), if it is kept.
    pub(crate) fn place(&self, address: u32) -> Option<usize> {
        self.places().find(address).map(|(at, _)| at)
    }

    /// Bytes of the stream, including the LINK to the client's commands.
    pub(crate) fn bytes(&self) -> usize {
        (self.link + 2) * 4
    }
}

/// The most states of one `LOAD_STATE`: a count of 0.
const MOST_STATES: u32 = 1024;
/// The most states of one `LOAD_STATE` with a count other than 0. `for_each_data` of
/// [`scrub`](super::scrub) does not decode 0.
const MOST_COUNTED_STATES: u32 = MOST_STATES - 1;

/// Builds `LOAD_STATE` commands. Consecutive states share one.
pub(super) struct Loads {
    pub(super) words: KVVec<u32>,
    /// The word that fills a command up to a multiple of two words.
    padding: u32,
    /// The most states of a command, at most [`MOST_STATES`].
    most: u32,
    /// Number of states of the last command so far, and the state that can continue it.
    count: u32,
    next: Option<u32>,
}

impl Loads {
    pub(super) fn new(padding: u32, most: u32) -> Self {
        Self {
            words: KVVec::new(),
            padding,
            most,
            count: 0,
            next: None,
        }
    }

    /// Adds whole commands.
    pub(super) fn raw(&mut self, words: &[u32]) -> Result {
        Ok(self.words.extend_from_slice(words, GFP_KERNEL)?)
    }

    /// Ends the last command. The next state begins a new one.
    pub(super) fn close(&mut self) -> Result {
        self.next = None;
        if self.words.len() % 2 != 0 {
            self.words.push(self.padding, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Adds a state with its value. A state whose value is converted has [`FIXP`] set. Returns the
    /// place of the value's word.
    pub(super) fn push(&mut self, state: u32, value: u32) -> Result<usize> {
        if self.next != Some(state) || self.count == self.most {
            self.close()?;
            self.count = 0;
            self.words.push(0, GFP_KERNEL)?;
        }
        self.count += 1;
        self.next = Some(state + 1);
        let at = self.words.len();
        let header = words::load_state(state + 1 - self.count, self.count) | state & FIXP;
        // CAST: at most [`MOST_STATES`].
        self.words[at - self.count as usize] = header;
        self.words.push(value, GFP_KERNEL)?;
        Ok(at)
    }
}

/// `LOAD_STATE` commands for `states`, which ascend, with their values.
pub(super) fn load(states: impl Iterator<Item = (u32, u32)>) -> Result<KVVec<u32>> {
    let mut loads = Loads::new(0, MOST_COUNTED_STATES);
    for (state, value) in states {
        loads.push(state, value)?;
    }
    loads.close()?;
    Ok(loads.words)
}

mod tests;
