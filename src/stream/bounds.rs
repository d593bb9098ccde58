// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the 2D engine and of the resolve engine: whether a draw stays in the memory in which
//! its source and its target begin.
//!
//! Pure logic. The software GPU's tests compare it with the bytes that these engines access.
//!
//! [`Target`] records the loads of one stream in order. At each kick (a command that starts an
//! engine) it checks the draw with these values. The engine holds the same values, whatever other
//! threads and processes do, and after resets and pauses. States that a kick needs and the stream
//! has not loaded ([`Problem::Missing`]) are *lent*: the driver loads the process's last values
//! ([`load_of`]) first. So another process's draws do not change a client's values.
//!
//! Sources: the register database (state_2d.xml); sources.md, engines.

use super::{
    blit,
    resolve,
    tiler::{
        self,
        Tiler, //
    }, //
};
use core::cell::Cell;

#[path = "bounds/draws.rs"]
mod draws;
#[path = "bounds/resolves.rs"]
mod resolves;

const fn word(byte: u32) -> u32 {
    byte >> 2
}

/// A set of [`STATES`]: a bit for each.
pub(crate) type Mask = u64;

const fn bit(place: usize) -> Mask {
    1 << place
}

/// The states that bound a kick, in the order of [`Target::values`]: those of the 2D engine, then
/// those of the resolve engine. Each of [`FIELDS`] counts as a state of its own. Its entry is the
/// word address in the low 16 bits, and above these the field's number plus 1.
pub(crate) const STATES: [u32; 50] = [
    word(0x1228),
    word(0x122C),
    word(0x1230),
    word(0x1234),
    word(0x1260),
    word(0x1264),
    word(0x12A8),
    word(0x12AC),
    word(0x12B4),
    FIELDS[0].id(0),
    word(0x1200),
    word(0x1204),
    word(0x1208),
    word(0x120C),
    word(0x1210),
    word(0x1220),
    word(0x1224),
    word(0x1238),
    word(0x123C),
    word(0x125C),
    word(0x1284),
    word(0x1288),
    word(0x128C),
    word(0x1290),
    word(0x1298),
    word(0x129C),
    word(0x12B8),
    word(0x1300),
    word(0x1308),
    FIELDS[1].id(1),
    FIELDS[2].id(2),
    FIELDS[3].id(3),
    word(0x1214),
    word(0x127C),
    word(0x1604),
    word(0x1608),
    word(0x160C),
    word(0x1610),
    word(0x1614),
    word(0x1620),
    word(0x163C),
    word(0x1654),
    word(0x1658),
    word(0x165C),
    word(0x16C0),
    word(0x16C4),
    word(0x16E0),
    word(0x16E4),
    word(0x1700),
    word(0x1704),
];

/// Indexes in [`STATES`]: `DE_DEST_ADDRESS`, `_STRIDE`, `_ROTATION_CONFIG`, `_CONFIG`,
/// `DE_CLIP_TOP_LEFT`, `_BOTTOM_RIGHT`, `DE_VR_TARGET_WINDOW_LOW`, `_HIGH`,
/// `DE_DEST_ROTATION_HEIGHT`, and the target's field of `DE_ROT_ANGLE`.
const ADDRESS: usize = 0;
const STRIDE: usize = 1;
const ROTATION: usize = 2;
const CONFIG: usize = 3;
const CLIP_LOW: usize = 4;
const CLIP_HIGH: usize = 5;
const WINDOW_LOW: usize = 6;
const WINDOW_HIGH: usize = 7;
const HEIGHT: usize = 8;
const ANGLE: usize = 9;

/// Indexes in [`STATES`]: `DE_SRC_ADDRESS`, `_STRIDE`, `_ROTATION_CONFIG`, `_CONFIG`, `_ORIGIN`,
/// the first `DE_STRETCH_FACTOR`, `DE_PATTERN_ADDRESS`, `_CONFIG`, `DE_ROP`, address and stride of
/// the planes of U and V, `DE_VR_SOURCE_IMAGE_LOW`, `_HIGH`, `DE_SRC_ROTATION_HEIGHT`,
/// `DE_SRC_EX_CONFIG`, `DE_MULTI_SOURCE`, the source's field of `DE_ROT_ANGLE`, two fields of
/// `DE_PE_TRANSPARENCY`, `DE_SRC_SIZE`, and `DE_ALPHA_CONTROL`.
const SRC_ADDRESS: usize = 10;
const SRC_STRIDE: usize = 11;
const SRC_ROTATION: usize = 12;
const SRC_CONFIG: usize = 13;
const SRC_ORIGIN: usize = 14;
const FACTORS: usize = 15;
const PATTERN: usize = 17;
const PATTERN_CONFIG: usize = 18;
const ROP: usize = 19;
const U_PLANE: usize = 20;
const V_PLANE: usize = 22;
const IMAGE_LOW: usize = 24;
const IMAGE_HIGH: usize = 25;
const SRC_HEIGHT: usize = 26;
const SRC_EX_CONFIG: usize = 27;
const MULTI: usize = 28;
const SRC_ANGLE: usize = 29;
const TRANSPARENCY: usize = 30;
const OVERRIDES: usize = 31;
const SRC_SIZE: usize = 32;
const ALPHA: usize = 33;

/// Indexes in [`STATES`]: `RS_CONFIG`, `_SOURCE_ADDR`, `_SOURCE_STRIDE`, `_DEST_ADDR`,
/// `_DEST_STRIDE`, `_WINDOW_SIZE`, `_CLEAR_CONTROL`; `TS_MEM_CONFIG`, `_COLOR_STATUS_BASE`,
/// `_COLOR_SURFACE_BASE`; the first `RS_PIPE_SOURCE_ADDR`, `_PIPE_DEST_ADDR` and `_PIPE_OFFSET`.
const RS_CONFIG: usize = 34;
const RS_SOURCE: usize = 35;
const RS_SOURCE_STRIDE: usize = 36;
const RS_ADDRESS: usize = 37;
const RS_STRIDE: usize = 38;
const RS_WINDOW: usize = 39;
const RS_CLEAR: usize = 40;
const TS_CONFIG: usize = 41;
const TS_STATUS: usize = 42;
const TS_SURFACE: usize = 43;
const RS_PIPE_SOURCE: usize = 44;
const RS_PIPE_ADDRESS: usize = 46;
const RS_PIPE_OFFSET: usize = 48;

/// `TS_MEM_CONFIG`, `COLOR_FAST_CLEAR`: reads of color use tile status.
const COLOR_FAST_CLEAR: u32 = 1 << 1;

/// Bit mask of the [`STATES`] of the 3D pipe.
pub(crate) const OF_3D: Mask = bit(STATES.len()) - bit(RS_CONFIG);

/// `DE_DEYUV_CONVERSION`: bit 1 is set if the target has several planes.
const DEYUV: u32 = word(0x130C);
const DEYUV_PLANES: u32 = 1 << 1;

/// `DE_PE_CONFIG`: whether the engine first fetches the target. Without the fetch (0; no source describes 3), it writes
/// whole cache blocks, past the drawn area. A load with the mask bit leaves the field unchanged.
const PE_CONFIG: u32 = word(0x12B0);
const FETCH: u32 = 3;
const FETCH_DEFAULT: u32 = 1;
const FETCH_MASK: u32 = 1 << 3;
/// A switch of newer cores that turns the fetch off, and its mask bit.
const NO_FETCH: u32 = 1 << 4;
const NO_FETCH_MASK: u32 = 1 << 5;

/// `DE_CONFIG`: which source and target a draw uses. No source says how a draw counts then.
const DE_CONFIG: u32 = word(0x126C);
const SELECTS: u32 = 7 << 16 | 3 << 20;

/// The two sets of states for multi-source blits: first state, and number of sources. A group has
/// one state for each source. Both sets have the same groups in the same order.
const BLOCKS: [(u32, u32); 2] = [(word(0x12800), 4), (word(0x12A00), 8)];
const GROUPS: u32 = 24;

/// The first of these states (a word address).
pub(crate) const BLOCKS_FIRST: u32 = BLOCKS[0].0;

/// Number of states from the first to the last of [`BLOCKS`].
pub(crate) const BLOCKS_COUNT: usize = (BLOCKS[1].0 + 8 * GROUPS - BLOCKS_FIRST) as usize;

/// Groups of [`BLOCKS`]: address, stride, rotation, configuration, origin; address and stride of
/// the planes of U and V; height, angle, layout.
const BLOCK_ADDRESS: u32 = 0;
const BLOCK_STRIDE: u32 = 1;
const BLOCK_ROTATION: u32 = 2;
const BLOCK_CONFIG: u32 = 3;
const BLOCK_ORIGIN: u32 = 4;
const BLOCK_U: u32 = 10;
const BLOCK_V: u32 = 12;
const BLOCK_HEIGHT: u32 = 14;
const BLOCK_ANGLE: u32 = 15;
const BLOCK_EX_CONFIG: u32 = 22;

/// A field of a state. A load with the bit `mask` leaves it unchanged.
#[derive(Clone, Copy)]
struct Field {
    state: u32,
    bits: u32,
    mask: u32,
    /// The mask bits of the state's other fields.
    others: u32,
}

/// The rotations of the target and of the source (`DE_ROT_ANGLE`); transparency, and whether a draw
/// uses its source or pattern regardless of it (`DE_PE_TRANSPARENCY`).
const FIELDS: [Field; 4] = [
    Field {
        state: word(0x12BC),
        bits: 7 << 3,
        mask: 1 << 9,
        others: 1 << 8 | 1 << 15 | 1 << 19 | 1 << 22 | 1 << 25,
    },
    Field {
        state: word(0x12BC),
        bits: 7,
        mask: 1 << 8,
        others: 1 << 9 | 1 << 15 | 1 << 19 | 1 << 22 | 1 << 25,
    },
    Field {
        state: word(0x12D4),
        bits: 0x333,
        mask: 1 << 12,
        others: 1 << 28 | 1 << 31,
    },
    Field {
        state: word(0x12D4),
        bits: 0x333 << 16,
        mask: 1 << 28,
        others: 1 << 12 | 1 << 31,
    },
];

/// Whether a load of `DE_ROT_ANGLE` flips the source or the target after its rotation. Newer cores
/// do that. No source says how.
fn flips_late(value: u32) -> bool {
    let is_set = |bits: u32, mask: u32| value & bits != 0 && value & mask == 0;
    is_set(3 << 20, 1 << 22) || is_set(3 << 23, 1 << 25)
}

/// The places of [`FIELDS`] in [`STATES`].
const FIELD_PLACES: [usize; 4] = [ANGLE, SRC_ANGLE, TRANSPARENCY, OVERRIDES];

impl Field {
    /// Its entry in [`STATES`]. `index` is its number in [`FIELDS`].
    const fn id(&self, index: u32) -> u32 {
        (index + 1) << 16 | self.state
    }
}

/// The word address in an entry of [`STATES`].
const fn state_of(entry: u32) -> u32 {
    entry & 0xFFFF
}

/// The range of states that [`PLACES`] covers.
const FIRST: u32 = STATES[SRC_ADDRESS];
const NEAR: usize = (STATES[STATES.len() - 1] - FIRST + 1) as usize;

/// [`PLACES`] maps each state from [`FIRST`] on to its index in [`STATES`] or to one of these.
const NONE: u8 = 0xFF;
const PLANES: u8 = 0xFE;
const FETCHES: u8 = 0xFD;
const TILES: u8 = 0xFC;
const PARTS: u8 = 0xFB;
const CHOICES: u8 = 0xFA;
const PLACES: [u8; NEAR] = places();

const fn places() -> [u8; NEAR] {
    let mut places = [NONE; NEAR];
    let mut place = 0;
    while place < STATES.len() {
        let state = state_of(STATES[place]);
        // CAST: some fifty.
        places[(state - FIRST) as usize] = if state == STATES[place] {
            place as u8
        } else {
            PARTS
        };
        place += 1;
    }
    let mut state = tiler::CONFIG;
    while state < tiler::CONFIG + tiler::COUNT as u32 {
        places[(state - FIRST) as usize] = TILES;
        state += 1;
    }
    places[(DEYUV - FIRST) as usize] = PLANES;
    places[(PE_CONFIG - FIRST) as usize] = FETCHES;
    places[(DE_CONFIG - FIRST) as usize] = CHOICES;
    places
}

/// The states (word addresses) of the 2D pipe whose loads [`Target::load`] must get, except for
/// those of multi-source blits.
pub(crate) fn looked_at_2d() -> impl Iterator<Item = u32> {
    let states = STATES.into_iter().take(RS_CONFIG).map(state_of);
    states.chain([DEYUV, PE_CONFIG, DE_CONFIG])
}

/// The states (word addresses) of the 3D pipe whose loads [`Target::load`] must get.
pub(crate) fn looked_at_3d() -> impl Iterator<Item = u32> {
    let of_tiler = (tiler::CONFIG..).take(tiler::COUNT);
    STATES.into_iter().skip(RS_CONFIG).chain(of_tiler)
}

/// `TS_COLOR_SURFACE_BASE`.
pub(crate) const STATUS_SURFACE: u32 = STATES[TS_SURFACE];

/// Whether `state` is the address of tile status or of its surface.
pub(crate) const fn is_status(state: u32) -> bool {
    state == STATES[TS_STATUS] || state == STATES[TS_SURFACE]
}

/// Whether `state` is the address of memory that an engine only reads.
pub(crate) fn is_read(state: u32) -> bool {
    state == STATES[RS_SOURCE]
        || state == STATES[TS_STATUS]
        || state & !1 == STATES[RS_PIPE_SOURCE]
        || state == STATES[SRC_ADDRESS]
        || state == STATES[PATTERN]
        || state == STATES[U_PLANE]
        || state == STATES[V_PLANE]
        || is_block(state)
        || tiler::is_read(state)
}

/// Whether the bounds of the surface at address state `state` are known.
#[inline(always)]
pub(crate) fn is_surface(state: u32) -> bool {
    place(state) != NONE || is_block(state)
}

/// The indexes in [`STATES`] whose bits `states` has.
pub(crate) fn places_in(states: Mask) -> impl Iterator<Item = usize> {
    let mut left = states;
    core::iter::from_fn(move || {
        // CAST: at most 64.
        let place = left.trailing_zeros() as usize;
        let next = left.checked_sub(1)?;
        left &= next;
        Some(place)
    })
}

/// The index of `entry` in [`STATES`].
pub(crate) fn place_of(entry: u32) -> Option<usize> {
    STATES.iter().position(|&known| known == entry)
}

#[inline(always)]
fn place(state: u32) -> u8 {
    // CAST: 32 bits into at least 32.
    let near = PLACES.get(state.wrapping_sub(FIRST) as usize);
    near.copied().unwrap_or(NONE)
}

/// Whether a stream has loaded a state of [`BLOCKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    /// The process has never loaded a state of the same set.
    Never,
    /// The process may have loaded it, but this stream has not.
    Before,
    /// The stream loaded this value last, or the state is a layout that was always 0.
    Here(u32),
}

/// The set of `state`, one of [`BLOCKS`], and whether `state` is the layout of a source. Most
/// clients never load a layout.
pub(crate) fn block_of(state: u32) -> (usize, bool) {
    let set = usize::from(state >= BLOCKS[1].0);
    let (first, most) = BLOCKS[set];
    (set, state.wrapping_sub(first) / most == BLOCK_EX_CONFIG)
}

/// Bits of `DE_PATTERN_CONFIG`. A load with one of them makes the 2D engine read the pattern.
const PATTERN_READS: u32 = 3 << 6;

/// Whether a load of `state` with `value` makes the 2D engine read the pattern.
pub(crate) fn reads_pattern(state: u32, value: u32) -> bool {
    state == STATES[PATTERN_CONFIG] && value & PATTERN_READS != 0
}

/// Whether `state` is one of [`BLOCKS`].
#[inline(always)]
fn is_block(state: u32) -> bool {
    let [(four, _), (eight, _)] = BLOCKS;
    state.wrapping_sub(four) < 4 * GROUPS || state.wrapping_sub(eight) < 8 * GROUPS
}

/// Whether `state`, one of [`BLOCKS`], is the angle of a source.
fn is_block_angle(state: u32) -> bool {
    BLOCKS
        .iter()
        .any(|&(first, count)| state.wrapping_sub(first + BLOCK_ANGLE * count) < count)
}

/// Why a kick cannot be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The stream has not loaded these states: a bit mask of [`STATES`].
    Missing(Mask),
    /// The kick may go past the end of the memory in which its target or its source begins. The
    /// state with that address, and its value.
    Beyond(u32, u32),
    /// The driver does not know how far the engine goes with this state and value.
    Unbounded(u32, u32),
    /// The stream has not loaded states that cannot be lent: one of these, or their unit's first.
    Unloaded(u32),
}

/// Fails unless byte `last` of a surface is in the same memory as its first byte. The `address` of
/// that is in `state`. `last` is `None` if the surface ends too far away.
pub(crate) fn check_end(
    (state, address): (u32, u32),
    last: Option<u32>,
    last_of: impl FnOnce(u32, u32) -> Option<u32>,
) -> Result<(), Problem> {
    let room = last_of(state, address).and_then(|end| end.checked_sub(address));
    match last.zip(room) {
        Some((last, room)) if last <= room => Ok(()),
        _ => Err(Problem::Beyond(state, address)),
    }
}

/// How [`Target::load`] handles a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// The state does not bound a kick.
    Other,
    /// The value is noted. The process's [`Loaded`](super::loaded::Loaded) must keep it, too.
    Noted,
    /// The state is one of [`BLOCKS`]. [`Loaded`](super::loaded::Loaded) must note that the stream
    /// loads it.
    Block,
    /// The load is allowed, and leaves the bounds unchanged.
    Masked,
    /// The state must be loaded with this value instead.
    Instead(u32),
    /// The load is not allowed: later draws would have no bound.
    Refused,
}

/// Properties of a core's engines that affect the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 2D engine is PE 2.0, which has `DE_ROT_ANGLE`.
    pub(crate) turns: bool,
    /// Every draw is rotated by `DE_ROT_ANGLE`. Earlier cores ignore it, or its mask bits.
    pub(crate) rotates: bool,
    /// Targets of alpha have one byte for each pixel.
    pub(crate) has_a8_target: bool,
    /// The resolve engine has supertiles.
    pub(crate) has_supertiles: bool,
    /// Number of pixel pipes.
    pub(crate) pixel_pipes: u32,
    /// HALTI5: resolves use the addresses of pipes even with one pipe.
    pub(crate) halti5: bool,
    /// A tile of tile status has 128 or 256 bytes instead of 64.
    pub(crate) has_large_tiles: bool,
    /// The status of a tile has 2 bits instead of 4.
    pub(crate) has_2_bits_per_tile: bool,
    /// The resolve engine has the YUV tiler.
    pub(crate) has_yuv_tiler: bool,
}

/// The values of [`STATES`] that a stream has loaded so far.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    values: [u32; STATES.len()],
    /// Bit mask of the states that are loaded.
    known: Mask,
    /// Bit mask of the states whose value the hardware has converted.
    odd: Mask,
    /// Bit mask of the states that the stream loads with an unknown effect. They cannot be lent.
    lost: Mask,
    /// The whole clipping window of the 2D engine is in the target's memory.
    is_roomy: bool,
    tiler: Tiler,
    engines: Engines,
}

impl Target {
    /// The state of a stream that has not loaded anything.
    pub(crate) const fn new(engines: Engines) -> Self {
        Self {
            values: [0; STATES.len()],
            known: 0,
            odd: 0,
            lost: 0,
            is_roomy: false,
            tiler: Tiler::new(),
            engines,
        }
    }

    /// Notes a load of `state` (a word address) with `value`. The hardware converts the value if
    /// `converted`. If `in_pipe` is not set, the state's pipe is not selected, and the effect of
    /// the load is unknown.
    #[inline(always)]
    pub(crate) fn load(&mut self, state: u32, value: u32, converted: bool, in_pipe: bool) -> Load {
        let refused_if = |refused| if refused { Load::Refused } else { Load::Other };
        match place(state) {
            NONE if is_block(state) => {
                let of_target = FIELDS[0];
                // With the mask bit, the target's rotation stays 0.
                let turns = is_block_angle(state)
                    && (value & of_target.bits != 0 && value & of_target.mask == 0
                        || flips_late(value));
                let is_early = is_block_angle(state)
                    && !self.engines.rotates
                    && value & (FIELDS[0].bits | FIELDS[1].bits) != 0;
                if turns || is_early || converted || !in_pipe {
                    Load::Refused
                } else {
                    Load::Block
                }
            }
            NONE => Load::Other,
            PLANES => refused_if(value & DEYUV_PLANES != 0 || converted),
            CHOICES => refused_if(value & SELECTS != 0 || converted),
            FETCHES => {
                let mut with = value;
                if matches!(value & (FETCH | FETCH_MASK), 0 | FETCH) {
                    with = value & !FETCH | FETCH_DEFAULT;
                }
                if value & (NO_FETCH | NO_FETCH_MASK) == NO_FETCH {
                    with &= !NO_FETCH;
                }
                if converted {
                    Load::Refused
                } else if with != value {
                    Load::Instead(with)
                } else {
                    Load::Masked
                }
            }
            TILES => {
                self.tiler.load(state, value, in_pipe);
                if converted || self.tiler.is_on() && !self.engines.has_yuv_tiler {
                    Load::Refused
                } else {
                    Load::Masked
                }
            }
            PARTS if state == FIELDS[0].state && self.is_unknown_turn(value, converted) => {
                Load::Refused
            }
            PARTS => {
                let mut load = Load::Masked;
                for (field, place) in FIELDS.iter().zip(FIELD_PLACES) {
                    if field.state == state && (value & field.mask == 0 || converted) {
                        self.note(place, value & field.bits, converted, in_pipe);
                        load = Load::Noted;
                    }
                }
                load
            }
            place => {
                self.note(usize::from(place), value, converted, in_pipe);
                Load::Noted
            }
        }
    }

    /// Whether no bound is known after this load of `DE_ROT_ANGLE`. Only later cores with PE 2.0 are
    /// known to rotate every draw by it, and to have its mask bits.
    fn is_unknown_turn(&self, value: u32, converted: bool) -> bool {
        let turns = value & (FIELDS[0].bits | FIELDS[1].bits) != 0;
        let is_known = self.engines.turns && self.engines.rotates;
        converted || flips_late(value) || turns && !is_known
    }

    #[inline(always)]
    fn note(&mut self, place: usize, value: u32, converted: bool, in_pipe: bool) {
        if let Some(to) = self.values.get_mut(place) {
            *to = value;
        }
        self.known = self.known & !bit(place) | Mask::from(in_pipe) << place;
        self.lost |= Mask::from(!in_pipe) << place;
        self.odd = self.odd & !bit(place) | Mask::from(converted) << place;
        self.is_roomy &= place > ANGLE;
    }

    /// Notes that the driver loads the `missing` states with values from `value_of` before the
    /// stream. `false`: the stream itself loads one of them with an unknown effect.
    pub(crate) fn lend(&mut self, missing: Mask, mut value_of: impl FnMut(u32) -> u32) -> bool {
        for (place, (to, state)) in self.values.iter_mut().zip(STATES).enumerate() {
            if missing & bit(place) != 0 {
                *to = value_of(state);
            }
        }
        self.known |= missing;
        self.odd &= !missing;
        self.is_roomy = false;
        self.lost & missing == 0
    }

    /// Bytes from the address in the state at `place` to the last byte of its memory. `needed`: the
    /// states that bound the access. None of them may be converted.
    fn room_of(
        &self,
        place: usize,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        self.check_plain(needed)?;
        let address = self.values[place];
        let last = last_of(STATES[place], address);
        last.and_then(|last| last.checked_sub(address))
            .ok_or(self.beyond(place))
    }

    fn beyond(&self, place: usize) -> Problem {
        Problem::Beyond(STATES[place], self.values[place])
    }

    fn unbounded(&self, place: usize) -> Problem {
        Problem::Unbounded(state_of(STATES[place]), self.values[place])
    }

    /// The states that the stream has loaded or was lent: a bit mask of [`STATES`].
    pub(crate) fn known(&self) -> Mask {
        self.known
    }

    /// Copies the values of the known states to `to`, but 0 for states that were converted.
    pub(crate) fn put(&self, to: &[Cell<u32>; STATES.len()]) {
        for place in places_in(self.known) {
            if let (Some(&value), Some(to)) = (self.values.get(place), to.get(place)) {
                to.set(if self.odd & bit(place) == 0 { value } else { 0 });
            }
        }
    }

    /// The value of `YUV_CONFIG`, if the tiler is on after the loads so far.
    pub(crate) fn tiler_left_on(&self) -> Option<u32> {
        self.tiler.is_on().then(|| self.tiler.config())
    }

    /// Fails unless the stream has loaded or was lent all of the `needed` states.
    fn check_known(&self, needed: Mask) -> Result<(), Problem> {
        match needed & !self.known {
            0 => Ok(()),
            missing => Err(Problem::Missing(missing)),
        }
    }

    /// As [`Self::check_known`]. Also fails if one of the states was converted.
    fn check_plain(&self, needed: Mask) -> Result<(), Problem> {
        self.check_known(needed)?;
        match self.odd & needed {
            0 => Ok(()),
            // CAST: at most 63.
            odd => Err(self.unbounded(odd.trailing_zeros() as usize)),
        }
    }
}

/// The words that load the lent `value` into the state at `place` of [`STATES`].
pub(crate) fn load_of(place: usize, value: u32) -> [u32; 2] {
    let entry = STATES.get(place).copied().unwrap_or_default();
    let field = FIELD_PLACES.iter().position(|&field| field == place);
    let value = match field.and_then(|index| FIELDS.get(index)) {
        // The other fields stay unchanged.
        Some(field) => value & field.bits | field.others,
        // Otherwise, the engine would read the pattern at an address of an earlier stream.
        None if place == PATTERN_CONFIG => value & !PATTERN_READS,
        None => value,
    };
    [0x0801_0000 | state_of(entry), value]
}

#[cfg(CONFIG_KUNIT)]
#[path = "bounds/tests.rs"]
mod tests;
