// SPDX-License-Identifier: GPL-2.0-only

//! The states that a client may load on a core.
//!
//! Pure logic. The [table](super::table) lists known states in [`ADDRESSES`] and [`OTHERS`]. A
//! state that is in neither, or that the core is not known to have, is refused: it may hold a GPU
//! address that would not be checked. For each core the tables are converted once to sets of bits
//! ([`States`]), which the check of a stream uses.

use super::{
    bounds::{
        self,
        DrawState, //
    },
    table::{
        Need,
        Row,
        ADDRESSES,
        DATA,
        OTHERS, //
    },
    words::{
        state,
        Pipe,
        Pipes, //
    }, //
};
use crate::hw::{
    identity,
    Identity, //
};
use crate::sys::prelude::*;

/// States of tile status that hold physical addresses, on cores with the old memory controller.
pub(crate) const fn is_physical(address: u32) -> bool {
    matches!(address, 0x596 | 0x597 | 0x599 | 0x59A | 0x5A9)
}

/// The pipe of state `address` (a word address).
pub(crate) fn pipe_of(address: u32) -> Pipe {
    match address << 2 {
        0x1200..0x1400
        | 0x1800..0x1A00
        | 0x1C00..0x2000
        | 0x2800..0x2C00
        | 0x3400..0x3800
        | 0x1_2800..0x1_3000 => Pipe::Pipe2d,
        _ => Pipe::Pipe3d,
    }
}

/// The engine that has state `address` (a word address). `None`: the front end's states, those of
/// both engines, and those that do nothing.
pub(crate) fn engine_of(address: u32) -> Option<Pipe> {
    match address << 2 {
        0..0x600 | 0x3800..0x3814 | 0x3C00 | 0x3_FFFC => None,
        _ => Some(pipe_of(address)),
    }
}

/// Whether only the kernel may load state `address` (a word address).
pub(crate) const fn is_kernel_state(address: u32) -> bool {
    (address >= 2 && address < state::FIRST_ENGINE)
        || address == state::FE_CMD_STREAM_BASE_ADDR
        || (address >= state::FE_COMMAND_ADDRESS && address <= state::FE_DMA_HIGH)
        || address == state::GL_EVENT
        || address == state::GL_FLUSH_MMU
}

/// States that the checker follows, whatever their value.
const CONTROL: [u32; 9] = [
    0,
    1,
    state::RS_KICKER,
    state::RS_KICKER_INPLACE,
    state::CL_KICKER,
    state::DE_VR_CONFIG,
    state::GL_PIPE_SELECT,
    state::GL_SEMAPHORE_TOKEN,
    state::GL_STALL_TOKEN,
];

/// A load of one of these makes the 3D engine write to the address in another state: the end of an
/// occlusion query, and of a fence.
pub(crate) const WRITES: [u32; 2] = [state::word(0x3830), state::word(0x386C)];

/// A bit for each of the 65536 states.
type StateSet = [u32; SET_WORDS];

/// Number of words of a set.
const SET_WORDS: usize = 2048;

const fn include(mut set: StateSet, first: u32, count: u32) -> StateSet {
    let mut address = first;
    while address < first + count {
        set[(address >> 5) as usize] |= 1 << (address & 31);
        address += 1;
    }
    set
}

const fn address_states() -> StateSet {
    let mut set = [0; SET_WORDS];
    let mut i = 0;
    while i < ADDRESSES.len() {
        set = include(set, state::word(ADDRESSES[i].0), ADDRESSES[i].1);
        i += 1;
    }
    set
}

/// A multiple of 32 above all states that take a GPU address.
pub(crate) const ADDRESSES_END: usize = {
    let (mut end, mut i) = (0, 0);
    while i < ADDRESSES.len() {
        let after = state::word(ADDRESSES[i].0) + ADDRESSES[i].1;
        end = if after > end { after } else { end };
        i += 1;
    }
    // CAST: 16 bits.
    end.next_multiple_of(32) as usize
};

/// States that take a GPU address on some core.
static ADDRESS: StateSet = address_states();

fn is_in(set: &StateSet, address: u32) -> bool {
    // CAST: 11 bits.
    set[((address >> 5) & 0x7FF) as usize] >> (address & 31) & 1 != 0
}

/// Whether state `address` (a word address below 65536) takes a GPU address.
pub(crate) fn takes_address(address: u32) -> bool {
    is_in(&ADDRESS, address)
}

/// The features of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Features {
    pipes: Pipes,
    pe20: bool,
    rotates: bool,
    has_a8_target: bool,
    has_supertiles: bool,
    minor2: u32,
    minor3: u32,
    instructions: u32,
    constants: u32,
    halti2: bool,
    halti5: bool,
    pixel_pipes: u32,
    has_large_tiles: bool,
    has_small_msaa: bool,
    has_2_bits_per_tile: bool,
    has_single_buffer: bool,
    has_yuv_tiler: bool,
}

impl Features {
    fn of(identity: &Identity) -> Self {
        Self {
            pipes: Pipes {
                pipe_3d: identity.has_3d(),
                pipe_2d: identity.has_2d(),
            },
            pe20: identity.has_pe20(),
            rotates: identity.rotates_2d(),
            has_a8_target: identity.has_a8_target(),
            has_supertiles: identity.has_supertiles(),
            minor2: identity.minor_features[2],
            minor3: identity.minor_features[3],
            instructions: identity.instruction_count,
            constants: identity.num_constants,
            halti2: identity.has_halti2(),
            halti5: identity.has_halti5(),
            pixel_pipes: identity.pixel_pipes,
            has_large_tiles: identity.has_large_tiles(),
            has_small_msaa: identity.has_small_msaa(),
            has_2_bits_per_tile: identity.has_2_bits_per_tile(),
            has_single_buffer: identity.has_single_buffer(),
            has_yuv_tiler: identity.has_yuv_tiler(),
        }
    }

    fn meets(&self, need: Need) -> bool {
        let has_3d = self.pipes.pipe_3d;
        let has_2d = self.pipes.pipe_2d;
        match need {
            Need::Any => true,
            Need::Pipe3d => has_3d,
            Need::Pipe2d => has_2d,
            Need::MultiSource => has_2d && self.minor2 & identity::MINOR2_2D_MULTI_SOURCE_BLIT != 0,
            Need::MultiSourceEx => {
                has_2d && self.minor3 & identity::MINOR3_2D_MULTI_SOURCE_BLT_EX != 0
            }
            Need::FastClearSource => has_2d && self.minor3 & identity::MINOR3_2D_FC_SOURCE != 0,
            // HALTI5 has descriptors instead of these samplers.
            Need::Halti1 => has_3d && self.minor2 & identity::MINOR2_HALTI1 != 0 && !self.halti5,
            Need::Halti2 => has_3d && self.halti2,
            Need::TextureFilter => has_3d && self.minor2 & identity::MINOR2_TX_FILTER != 0,
            Need::InstructionCache => {
                has_3d && self.minor3 & identity::MINOR3_INSTRUCTION_CACHE != 0
            }
            Need::LargeInstructions => has_3d && self.instructions > 1024,
            Need::CommonUniforms => has_3d && self.constants > 256,
            Need::OwnInstructions => has_3d && self.instructions <= 256,
            Need::SharedInstructions => has_3d && matches!(self.instructions, 257..=1024),
            Need::Halti5 => has_3d && self.halti5,
            Need::Newer => false,
        }
    }
}

/// The states of a core.
pub(crate) struct States {
    pipes: Pipes,
    /// The core has `RS_KICKER_INPLACE`.
    resolves_in_place: bool,
    /// States that the checker must look at: control states, addresses, and refused states.
    special: KVVec<u32>,
    /// States of the core that take a GPU address.
    address: KVVec<u32>,
    /// States of the core that carry data.
    data: KVVec<u32>,
    /// States whose loads are noted: the special ones, those of the 2D pipe that carry data, those
    /// that bound an engine's accesses, and [`WRITES`].
    watched: KVVec<u32>,
    /// For a core whose draws are bounded: the [`DrawState`] of a new stream.
    target: Option<DrawState>,
    /// The state with the resolve engine's target.
    resolve_target: u32,
}

/// Sets or clears the `count` bits from `first` on.
pub(crate) fn mark(set: &mut [u32], first: u32, count: u32, value: bool) {
    for address in first..first + count {
        // CAST: 11 bits.
        if let Some(word) = set.get_mut((address >> 5) as usize) {
            let bit = 1 << (address & 31);
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

/// The states of a set, in ascending order.
pub(crate) fn members(set: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    (0u32..).zip(set).flat_map(|(index, word)| {
        (0..32)
            .filter(move |bit| word >> bit & 1 != 0)
            .map(move |bit| index * 32 + bit)
    })
}

impl States {
    /// The states of a core. `bounds`: draws of the 2D and resolve engines are bounded. `ENOMEM`.
    pub(crate) fn new(identity: &Identity, bounds: bool) -> Result<Arc<Self>> {
        let states = Self::of(&Features::of(identity), bounds)?;
        Ok(Arc::new(states, GFP_KERNEL)?)
    }

    fn of(features: &Features, bounds: bool) -> Result<Self> {
        let mut special = KVVec::from_elem(u32::MAX, SET_WORDS, GFP_KERNEL)?;
        let mut address = KVVec::from_elem(0, SET_WORDS, GFP_KERNEL)?;
        for &Row(byte, count, need, _) in &OTHERS {
            if features.meets(need) {
                mark(&mut special, state::word(byte), count, false);
            }
        }
        for &Row(byte, count, need, _) in &ADDRESSES {
            mark(&mut special, state::word(byte), count, true);
            mark(&mut address, state::word(byte), count, features.meets(need));
        }
        for state in CONTROL {
            mark(&mut special, state, 1, true);
        }
        let mut data = KVVec::from_elem(0, SET_WORDS, GFP_KERNEL)?;
        for &Row(byte, count, need, _) in &DATA {
            let count = match need {
                // An instruction has four words.
                Need::SharedInstructions | Need::LargeInstructions => {
                    count.min(features.instructions.saturating_mul(4))
                }
                _ => count,
            };
            mark(&mut data, state::word(byte), count, features.meets(need));
        }
        for (data, special) in data.iter_mut().zip(&special) {
            // Remove states that clients may not load.
            *data &= !special;
        }
        let mut watched = KVVec::with_capacity(SET_WORDS, GFP_KERNEL)?;
        watched.extend_from_slice(&special, GFP_KERNEL)?;
        let of_2d = |address: &u32| pipe_of(*address) == Pipe::Pipe2d;
        for address in members(data.iter().copied()).filter(of_2d) {
            mark(&mut watched, address, 1, true);
        }
        // The checker only notes that these are loaded. It refuses them on a core that lacks them.
        for state in WRITES {
            mark(&mut watched, state, 1, true);
        }
        let engines = bounds::Engines {
            has_pe20: features.pe20,
            rotates: features.rotates,
            has_a8_target: features.has_a8_target,
            has_supertiles: features.has_supertiles,
            pixel_pipes: features.pixel_pipes,
            halti5: features.meets(Need::Halti5),
            has_large_tiles: features.has_large_tiles,
            has_small_msaa: features.has_small_msaa,
            has_2_bits_per_tile: features.has_2_bits_per_tile,
            has_yuv_tiler: features.has_yuv_tiler,
        };
        let target = bounds.then(|| DrawState::new(engines));
        let mut watch = |address| mark(&mut watched, address, 1, true);
        if bounds && features.pipes.pipe_2d {
            bounds::looked_at_2d().for_each(&mut watch);
        }
        if bounds && features.pipes.pipe_3d {
            bounds::looked_at_3d().for_each(watch);
        }
        Ok(Self {
            pipes: features.pipes,
            resolves_in_place: features.has_single_buffer,
            special,
            address,
            data,
            watched,
            target,
            resolve_target: if engines.has_pipe_addresses() {
                state::RS_PIPE_DEST_ADDR
            } else {
                state::RS_DEST_ADDR
            },
        })
    }

    /// The state with the resolve engine's target.
    pub(crate) fn resolve_target(&self) -> u32 {
        self.resolve_target
    }

    /// The pipes of the core.
    pub(crate) fn pipes(&self) -> Pipes {
        self.pipes
    }

    /// The sets for the check of a stream.
    pub(crate) fn sets(&self) -> Option<Sets<'_>> {
        Some(Sets {
            pipes: self.pipes,
            resolves_in_place: self.resolves_in_place,
            resolve_target: self.resolve_target,
            special: self.special.as_slice().try_into().ok()?,
            address: self.address.as_slice().try_into().ok()?,
            watched: self.watched.as_slice().try_into().ok()?,
            target: self.target.as_ref(),
        })
    }

    /// The states that take a GPU address, in ascending order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.address.iter().copied())
    }

    /// The states that take a GPU address or carry data, in ascending order.
    pub(crate) fn addresses_and_data(&self) -> impl Iterator<Item = u32> + '_ {
        let both = self.address.iter().zip(&self.data);
        members(both.map(|(address, data)| address | data))
    }
}

/// The states of a core, for quick look-ups.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a> {
    /// The pipes of the core.
    pub(crate) pipes: Pipes,
    /// The core has `RS_KICKER_INPLACE`.
    pub(crate) resolves_in_place: bool,
    /// The state with the resolve engine's target.
    pub(crate) resolve_target: u32,
    special: &'a StateSet,
    address: &'a StateSet,
    watched: &'a StateSet,
    /// The [`DrawState`] of a new stream. `None`: draws are not bounded.
    pub(crate) target: Option<&'a DrawState>,
}

impl Sets<'_> {
    /// Whether the checker must look at state `address` (16 bits).
    pub(crate) fn is_special(&self, address: u32) -> bool {
        is_in(self.special, address)
    }

    /// Whether the core has state `address` (16 bits) and it takes a GPU address.
    pub(crate) fn takes_address(&self, address: u32) -> bool {
        is_in(self.address, address)
    }

    /// Whether loads of state `address` (16 bits) are noted: it is special, carries data of the 2D
    /// pipe, bounds an engine's accesses, or is one of [`WRITES`].
    pub(crate) fn is_watched(&self, address: u32) -> bool {
        is_in(self.watched, address)
    }

    /// Whether one of the `count` states (1 to 1024) from `first` on, below 65536, is watched.
    pub(crate) fn any_watched(&self, first: u32, count: u32) -> bool {
        let last = first + count - 1;
        let from = u32::MAX << (first & 31);
        let to = u32::MAX >> (31 - (last & 31));
        // CAST: 11 bits.
        let (head, tail) = ((first >> 5) as usize, (last >> 5) as usize);
        if head == tail {
            return self.watched[head & 0x7FF] & from & to != 0;
        }
        self.watched[head & 0x7FF] & from != 0
            || self.watched[tail & 0x7FF] & to != 0
            || self
                .watched
                .get(head + 1..tail)
                .is_some_and(|words| words.iter().any(|&word| word != 0))
    }
}

/// Cores for tests.
#[cfg(CONFIG_KUNIT)]
pub(crate) mod cores {
    use super::*;

    /// All features that the driver knows.
    pub(crate) const ALL: u32 = u32::MAX;

    fn states(pipes: Pipes, minor2: u32, minor3: u32, halti2: bool) -> States {
        States::of(&features(pipes, minor2, minor3, halti2), false).unwrap()
    }

    fn features(pipes: Pipes, minor2: u32, minor3: u32, halti2: bool) -> Features {
        Features {
            pipes,
            pe20: true,
            rotates: true,
            has_a8_target: true,
            has_supertiles: true,
            minor2,
            minor3,
            instructions: if minor2 == ALL { 2048 } else { 512 },
            constants: if halti2 { 320 } else { 168 },
            halti2,
            halti5: false,
            pixel_pipes: 1,
            has_large_tiles: false,
            has_small_msaa: false,
            has_2_bits_per_tile: false,
            has_single_buffer: true,
            has_yuv_tiler: true,
        }
    }

    /// A core with several pixel pipes.
    pub(crate) fn two_pixel_pipes() -> States {
        let mut features = features(Pipes::ONLY_3D, 0, 0, false);
        features.pixel_pipes = 2;
        States::of(&features, false).unwrap()
    }

    /// A core with all features, whose draws are bounded.
    pub(crate) fn bounded() -> States {
        States::of(&features(Pipes::BOTH, ALL, ALL, true), true).unwrap()
    }

    /// A core with all features.
    pub(crate) fn both() -> States {
        states(Pipes::BOTH, ALL, ALL, true)
    }

    /// Like the GC600 of a Dove.
    pub(crate) fn dove() -> States {
        states(Pipes::BOTH, 0, 0, false)
    }

    /// Like the GC3000 of an i.MX6QP.
    pub(crate) fn imx6qp() -> States {
        states(Pipes::ONLY_3D, 0xEB9D_4BBF, 0xEDFF_DCED, true)
    }

    /// Like the GC7000UL of an i.MX8M Plus.
    pub(crate) fn imx8mp() -> States {
        let mut features = features(Pipes::ONLY_3D, 0xEB9D_4FBF, 0xEDFF_FCED, true);
        features.halti5 = true;
        States::of(&features, false).unwrap()
    }

    /// Like a GC320.
    pub(crate) fn gc320() -> States {
        states(Pipes::ONLY_2D, 0, 0, false)
    }
}

mod tests;
