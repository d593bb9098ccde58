// SPDX-License-Identifier: GPL-2.0-only

//! The states that bound the kicks of the 2D engine and of the resolve engine, and their fields.

use super::{
    super::resolve,
    Mask, //
};

pub(super) const fn word(byte: u32) -> u32 {
    byte >> 2
}

pub(super) const fn bit(place: usize) -> Mask {
    1 << place
}

/// The states that bound a kick, in the order of `DrawState::values`: those of the 2D engine, then
/// those of the resolve engine. Each of [`FIELDS`] counts as a state of its own. Its entry is the
/// word address in the low 16 bits, and above these the field's number plus 1.
pub(crate) const STATES: [u32; 52] = [
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
    word(0x1278),
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
    word(0x16A0),
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
pub(super) const ADDRESS: usize = 0;
pub(super) const STRIDE: usize = 1;
pub(super) const ROTATION: usize = 2;
pub(super) const CONFIG: usize = 3;
pub(super) const CLIP_LOW: usize = 4;
pub(super) const CLIP_HIGH: usize = 5;
pub(super) const WINDOW_LOW: usize = 6;
pub(super) const WINDOW_HIGH: usize = 7;
pub(super) const HEIGHT: usize = 8;
pub(super) const ANGLE: usize = 9;

/// Indexes in [`STATES`]: `DE_SRC_ADDRESS`, `_STRIDE`, `_ROTATION_CONFIG`, `_CONFIG`, `_ORIGIN`,
/// the first `DE_STRETCH_FACTOR`, `DE_PATTERN_ADDRESS`, `_CONFIG`, `DE_ROP`, address and stride of
/// the planes of U and V, `DE_VR_SOURCE_IMAGE_LOW`, `_HIGH`, `DE_SRC_ROTATION_HEIGHT`,
/// `DE_SRC_EX_CONFIG`, `DE_MULTI_SOURCE`, the source's field of `DE_ROT_ANGLE`, two fields of
/// `DE_PE_TRANSPARENCY`, `DE_SRC_SIZE`, `DE_ALPHA_CONTROL`, and `DE_SRC_ORIGIN_FRACTION`.
pub(super) const SRC_ADDRESS: usize = 10;
pub(super) const SRC_STRIDE: usize = 11;
pub(super) const SRC_ROTATION: usize = 12;
pub(super) const SRC_CONFIG: usize = 13;
pub(super) const SRC_ORIGIN: usize = 14;
pub(super) const FACTORS: usize = 15;
pub(super) const PATTERN: usize = 17;
pub(super) const PATTERN_CONFIG: usize = 18;
pub(super) const ROP: usize = 19;
pub(super) const U_PLANE: usize = 20;
pub(super) const V_PLANE: usize = 22;
pub(super) const IMAGE_LOW: usize = 24;
pub(super) const IMAGE_HIGH: usize = 25;
pub(super) const SRC_HEIGHT: usize = 26;
pub(super) const SRC_EX_CONFIG: usize = 27;
pub(super) const MULTI: usize = 28;
pub(super) const SRC_ANGLE: usize = 29;
pub(super) const TRANSPARENCY: usize = 30;
pub(super) const OVERRIDES: usize = 31;
pub(super) const SRC_SIZE: usize = 32;
pub(super) const ALPHA: usize = 33;
pub(super) const SRC_FRACTION: usize = 34;

/// Indexes in [`STATES`]: `RS_CONFIG`, `_SOURCE_ADDR`, `_SOURCE_STRIDE`, `_DEST_ADDR`,
/// `_DEST_STRIDE`, `_WINDOW_SIZE`, `_CLEAR_CONTROL`; `TS_MEM_CONFIG`, `_COLOR_STATUS_BASE`,
/// `_COLOR_SURFACE_BASE`; `RS_EXTRA_CONFIG`; the first `RS_PIPE_SOURCE_ADDR`, `_PIPE_DEST_ADDR` and
/// `_PIPE_OFFSET`.
pub(super) const RS_CONFIG: usize = 35;
pub(super) const RS_SOURCE: usize = 36;
pub(super) const RS_SOURCE_STRIDE: usize = 37;
pub(super) const RS_ADDRESS: usize = 38;
pub(super) const RS_STRIDE: usize = 39;
pub(super) const RS_WINDOW: usize = 40;
pub(super) const RS_CLEAR: usize = 41;
pub(super) const TS_CONFIG: usize = 42;
pub(super) const TS_STATUS: usize = 43;
pub(super) const TS_SURFACE: usize = 44;
pub(super) const RS_EXTRA: usize = 45;
pub(super) const RS_PIPE_SOURCE: usize = 46;
pub(super) const RS_PIPE_ADDRESS: usize = 48;
pub(super) const RS_PIPE_OFFSET: usize = 50;

/// `TS_MEM_CONFIG`, `COLOR_FAST_CLEAR`: reads of color use tile status.
pub(super) const COLOR_FAST_CLEAR: u32 = 1 << 1;

/// `RS_EXTRA_CONFIG`, `TS_MODE`: the tile size of kicks in place.
pub(super) const EXTRA_TS_MODE: u32 = 1 << 24;

/// Bit mask of the [`STATES`] of the 3D pipe.
pub(crate) const OF_3D: Mask = bit(STATES.len()) - bit(RS_CONFIG);

/// `DE_DEYUV_CONVERSION`: bit 1 is set if the target has several planes.
const DEYUV: u32 = word(0x130C);
pub(super) const DEYUV_PLANES: u32 = 1 << 1;

/// `DE_PE_CONFIG`: whether the engine first fetches the target. Without the fetch (0; no source
/// describes 3), it writes whole cache blocks, past the drawn area.
const PE_CONFIG: u32 = word(0x12B0);
pub(super) const FETCH: u32 = 3;
pub(super) const FETCH_DEFAULT: u32 = 1;
/// A switch of newer cores that turns the fetch off.
pub(super) const NO_FETCH: u32 = 1 << 4;

/// `DE_CONFIG`: which source and target a draw uses. No source says how a draw counts then.
const DE_CONFIG: u32 = word(0x126C);
pub(super) const SELECTS: u32 = 7 << 16 | 3 << 20;

/// The two sets of states for multi-source blits: first state, and number of sources. A group has
/// one state for each source. Both sets have the same groups in the same order.
pub(super) const BLOCKS: [(u32, u32); 2] = [(word(0x12800), 4), (word(0x12A00), 8)];
pub(super) const GROUPS: u32 = 24;

/// The first of these states (a word address).
pub(crate) const BLOCKS_FIRST: u32 = BLOCKS[0].0;

/// Number of states from the first to the last of [`BLOCKS`].
pub(crate) const BLOCKS_COUNT: usize = (BLOCKS[1].0 + 8 * GROUPS - BLOCKS_FIRST) as usize;

/// Groups of [`BLOCKS`]: address, stride, rotation, configuration, origin; address and stride of
/// the planes of U and V; height, angle, layout.
pub(super) const BLOCK_ADDRESS: u32 = 0;
pub(super) const BLOCK_STRIDE: u32 = 1;
pub(super) const BLOCK_ROTATION: u32 = 2;
pub(super) const BLOCK_CONFIG: u32 = 3;
pub(super) const BLOCK_ORIGIN: u32 = 4;
pub(super) const BLOCK_U: u32 = 10;
pub(super) const BLOCK_V: u32 = 12;
pub(super) const BLOCK_HEIGHT: u32 = 14;
pub(super) const BLOCK_ANGLE: u32 = 15;
pub(super) const BLOCK_EX_CONFIG: u32 = 22;

/// A field of a state. A load with the bit `mask` leaves it unchanged.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) state: u32,
    pub(super) bits: u32,
    pub(super) mask: u32,
    /// The mask bits of the state's other fields.
    pub(super) others: u32,
}

/// The rotations of the target and of the source (`DE_ROT_ANGLE`); transparency, and whether a draw
/// uses its source or pattern regardless of it (`DE_PE_TRANSPARENCY`).
pub(super) const FIELDS: [Field; 4] = [
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
pub(super) fn flips_late(value: u32) -> bool {
    let is_set = |bits: u32, mask: u32| value & bits != 0 && value & mask == 0;
    is_set(3 << 20, 1 << 22) || is_set(3 << 23, 1 << 25)
}

/// The places of [`FIELDS`] in [`STATES`].
pub(super) const FIELD_PLACES: [usize; 4] = [ANGLE, SRC_ANGLE, TRANSPARENCY, OVERRIDES];

impl Field {
    /// Its entry in [`STATES`]. `index` is its number in [`FIELDS`].
    const fn id(&self, index: u32) -> u32 {
        (index + 1) << 16 | self.state
    }
}

/// The word address in an entry of [`STATES`].
pub(super) const fn state_of(entry: u32) -> u32 {
    entry & 0xFFFF
}

/// The range of states that [`PLACES`] covers.
const FIRST: u32 = STATES[SRC_ADDRESS];
const NEAR: usize = (STATES[STATES.len() - 1] - FIRST + 1) as usize;

/// [`PLACES`] maps each state from [`FIRST`] on to its index in [`STATES`] or to one of these.
pub(super) const NONE: u8 = 0xFF;
pub(super) const PLANES: u8 = 0xFE;
pub(super) const FETCHES: u8 = 0xFD;
pub(super) const TILES: u8 = 0xFC;
pub(super) const PARTS: u8 = 0xFB;
pub(super) const CHOICES: u8 = 0xFA;
const PLACES: [u8; NEAR] = places();

pub(super) const fn places() -> [u8; NEAR] {
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
    let mut state = resolve::CONFIG;
    while state < resolve::CONFIG + resolve::COUNT as u32 {
        places[(state - FIRST) as usize] = TILES;
        state += 1;
    }
    places[(DEYUV - FIRST) as usize] = PLANES;
    places[(PE_CONFIG - FIRST) as usize] = FETCHES;
    places[(DE_CONFIG - FIRST) as usize] = CHOICES;
    places
}

/// The states (word addresses) of the 2D pipe whose loads
/// [`DrawState::load`](super::DrawState::load) must get, except for those of multi-source blits.
pub(crate) fn looked_at_2d() -> impl Iterator<Item = u32> {
    let states = STATES.into_iter().take(RS_CONFIG).map(state_of);
    states.chain([DEYUV, PE_CONFIG, DE_CONFIG])
}

/// The states (word addresses) of the 3D pipe whose loads
/// [`DrawState::load`](super::DrawState::load) must get.
pub(crate) fn looked_at_3d() -> impl Iterator<Item = u32> {
    let of_tiler = (resolve::CONFIG..).take(resolve::COUNT);
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
        || resolve::is_read(state)
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
pub(super) fn place(state: u32) -> u8 {
    // CAST: 32 bits into at least 32.
    let near = PLACES.get(state.wrapping_sub(FIRST) as usize);
    near.copied().unwrap_or(NONE)
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
pub(super) fn is_block(state: u32) -> bool {
    let [(four, _), (eight, _)] = BLOCKS;
    state.wrapping_sub(four) < 4 * GROUPS || state.wrapping_sub(eight) < 8 * GROUPS
}

/// The set of `state`, if it is one of [`BLOCKS`].
pub(crate) fn set_of(state: u32) -> Option<usize> {
    is_block(state).then(|| block_of(state).0)
}

/// Whether `state`, one of [`BLOCKS`], is the angle of a source.
pub(super) fn is_block_angle(state: u32) -> bool {
    BLOCKS
        .iter()
        .any(|&(first, count)| state.wrapping_sub(first + BLOCK_ANGLE * count) < count)
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
