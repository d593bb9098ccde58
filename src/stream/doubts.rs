// SPDX-License-Identifier: GPL-2.0-only

//! What looks like a mistake in commands that the checker lets pass, for the author of a client.
//!
//! Pure logic. It refuses nothing, and runs only while dynamic debug is on. A rectangle is judged
//! only by states that the same commands load: what earlier ones have loaded is not known here. All
//! that this finds is wrong on silicon, too, but silent.

use super::{
    decode::{
        self,
        opcode, //
    },
    states,
    words::state::{
        self,
        word, //
    }, //
};
use kernel::fmt;

/// What may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// There are no commands.
    Empty,
    /// They say where to draw, and draw nothing.
    NoDraw,
    /// The command at this word reads a source that no commands have loaded.
    NoSource(usize),
    /// The command at word `at` draws past the end of the memory that state `state` names.
    Past {
        /// The word.
        at: usize,
        /// The state (its word address).
        state: u32,
        /// What it holds.
        address: u32,
        /// The last row of pixels, or of tiles.
        row: u32,
        /// How far past the last byte of the memory that row begins.
        past: u64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Doubt::Empty => f.write_str(
                "there are no commands: do the bytes include the driver's head and tail?",
            ),
            Doubt::NoDraw => f.write_str(
                "they say where to draw and draw nothing: do the bytes include the driver's head and tail?",
            ),
            Doubt::NoSource(at) => write!(
                f,
                "a blit from state 0x1200 (DE.SRC_ADDRESS), which is 0 or was never loaded, at word {at}"
            ),
            Doubt::Past {
                at,
                state,
                address,
                row,
                past,
            } => {
                let name = states::name(state).unwrap_or("no name");
                write!(
                    f,
                    "state {:#x} ({name}) = {address:#010x}: row {row} of what is drawn there begins \
                     {past:#x} bytes past the end of that memory, at word {at}",
                    state << 2
                )
            }
        }
    }
}

const DEST_STRIDE: u32 = word(0x122C);
const DEST_ROTATION: u32 = word(0x1230);
const DEST_CONFIG: u32 = word(0x1234);
const ROP: u32 = word(0x125C);
const CLIP_BOTTOM_RIGHT: u32 = word(0x1264);
const ROT_ANGLE: u32 = word(0x12BC);
const RS_CONFIG: u32 = word(0x1604);
const RS_DEST_STRIDE: u32 = word(0x1614);
const RS_WINDOW_SIZE: u32 = word(0x1620);
const RS_CLEAR_CONTROL: u32 = word(0x163C);

/// The states that are looked at beside the resolve engine's target.
const WATCHED: [u32; 11] = [
    state::DE_DEST_ADDRESS,
    DEST_STRIDE,
    DEST_ROTATION,
    DEST_CONFIG,
    ROP,
    CLIP_BOTTOM_RIGHT,
    ROT_ANGLE,
    RS_CONFIG,
    RS_DEST_STRIDE,
    RS_WINDOW_SIZE,
    RS_CLEAR_CONTROL,
];

/// Bits of a stride.
const STRIDE: u32 = 0x3_FFFF;

/// What is known of where commands are for.
pub(crate) struct Place<'a> {
    /// The state that says where the resolve engine draws to.
    pub(crate) resolve_target: u32,
    /// The 2D engine has a source.
    pub(crate) has_source: bool,
    /// The last byte of the process's memory that holds an address.
    pub(crate) last: &'a dyn Fn(u32) -> Option<u32>,
}

/// The states of a stream so far.
struct Seen<'a> {
    place: Place<'a>,
    values: [Option<u32>; WATCHED.len()],
    resolves_to: Option<u32>,
}

/// The first thing in `words` that looks like a mistake.
pub(crate) fn first(words: &[u32], place: Place<'_>) -> Option<Doubt> {
    let mut seen = Seen {
        place,
        values: [None; WATCHED.len()],
        resolves_to: None,
    };
    let (mut at, mut draws) = (0, false);
    while let Some(&header) = words.get(at) {
        // CAST: some thousands.
        let length = decode::length(header) as usize;
        let after = words.get(at + 1..).unwrap_or_default();
        match header >> 27 {
            opcode::LOAD_STATE => {
                let count = decode::load_count(header) as usize;
                for (state, &value) in (header & 0xFFFF..).zip(after.iter().take(count)) {
                    seen.note(state, value);
                    draws |= matches!(
                        state,
                        state::RS_KICKER | state::RS_KICKER_INPLACE | state::DE_VR_CONFIG
                    );
                    if state == state::RS_KICKER {
                        if let Some(doubt) = seen.resolve(at) {
                            return Some(doubt);
                        }
                    }
                }
            }
            opcode::DRAW_2D => {
                draws = true;
                let corners = after.get(1..length - 1).unwrap_or_default();
                let count = 2 * decode::rectangles(header) as usize;
                let has_data = (header >> 16) & 0x7FF != 0;
                let rectangles = corners.get(..count).unwrap_or(corners);
                if let Some(doubt) = seen.draw_2d(at, rectangles, has_data) {
                    return Some(doubt);
                }
            }
            opcode::DRAW_PRIMITIVES | opcode::DRAW_INDEXED | opcode::DRAW_INSTANCED => draws = true,
            _ => {}
        }
        at += length;
    }
    if words.is_empty() {
        return Some(Doubt::Empty);
    }
    let aims = seen.resolves_to.or(seen.value(state::DE_DEST_ADDRESS));
    (aims.is_some() && !draws).then_some(Doubt::NoDraw)
}

impl Seen<'_> {
    fn note(&mut self, state: u32, value: u32) {
        if state == self.place.resolve_target {
            self.resolves_to = Some(value);
        }
        if let Some(at) = WATCHED.iter().position(|&watched| watched == state) {
            self.values[at] = Some(value);
        }
    }

    fn value(&self, state: u32) -> Option<u32> {
        let at = WATCHED.iter().position(|&watched| watched == state)?;
        self.values[at]
    }

    /// A DRAW_2D of `rectangles`, two corners each.
    fn draw_2d(&self, at: usize, rectangles: &[u32], has_data: bool) -> Option<Doubt> {
        let config = self.value(DEST_CONFIG)?;
        // BIT_BLT and STRETCH_BLT; of a raster operation half of the bits are for either source.
        let blits = matches!((config >> 12) & 0xF, 2 | 4);
        let reads = self
            .value(ROP)
            .is_none_or(|rop| (rop >> 2 ^ rop) & 0x33 != 0);
        if blits && reads && !has_data && !self.place.has_source {
            return Some(Doubt::NoSource(at));
        }
        // Turned or tiled, rows are not rows of memory.
        let turned =
            self.value(DEST_ROTATION)? & 1 << 16 | self.value(ROT_ANGLE).unwrap_or(0) & 0x38;
        if turned != 0 || config & (1 << 8 | 1 << 26) != 0 {
            return None;
        }
        let clip = self.value(CLIP_BOTTOM_RIGHT)? >> 16;
        // Of a line either end may be the lower one.
        let lowest = rectangles.iter().map(|corner| corner >> 16);
        // Negative numbers have bit 15.
        let rows = lowest.filter(|&row| row < 0x8000).max()?.min(clip);
        let address = self.value(state::DE_DEST_ADDRESS)?;
        self.past(
            at,
            state::DE_DEST_ADDRESS,
            address,
            self.value(DEST_STRIDE)?,
            rows,
        )
    }

    /// A kick of the resolve engine. Of several pixel pipes the first's window counts.
    fn resolve(&self, at: usize) -> Option<Doubt> {
        let (config, stride) = (self.value(RS_CONFIG)?, self.value(RS_DEST_STRIDE)?);
        let halves = config & 1 << 6 != 0 && self.value(RS_CLEAR_CONTROL)? & 3 << 16 == 0;
        let rows = (self.value(RS_WINDOW_SIZE)? >> 16) >> u32::from(halves);
        let rows = match (config & 1 << 14 != 0, stride >> 30) {
            (false, _) => rows,
            // Rows of tiles of 4 x 4 pixels.
            (true, 0) => rows / 4,
            // Of blocks, or of a surface in two parts.
            _ => return None,
        };
        self.past(
            at,
            self.place.resolve_target,
            self.resolves_to?,
            stride,
            rows,
        )
    }

    /// Whether the last of `rows` rows begins past the end of the memory at `address`.
    fn past(&self, at: usize, state: u32, address: u32, stride: u32, rows: u32) -> Option<Doubt> {
        let row = rows.checked_sub(1)?;
        let start = u64::from(address) + u64::from(row) * u64::from(stride & STRIDE);
        let past = start.checked_sub(u64::from((self.place.last)(address)?))?;
        (past != 0).then_some(Doubt::Past {
            at,
            state,
            address,
            row,
            past,
        })
    }
}

#[kernel::macros::kunit_tests(galcore_doubts)]
mod tests {
    use super::*;
    use crate::stream::words::load_state;

    /// What is found, of a process with memory from 0x4000 to 0x4FFF.
    fn found(words: &[u32], has_source: bool) -> Option<Doubt> {
        let place = Place {
            resolve_target: state::RS_DEST_ADDR,
            has_source,
            last: &|address| (address >> 12 == 4).then_some(0x4FFF),
        };
        first(words, place)
    }

    /// A draw of rows up to `bottom`, clipped at row 32.
    fn draw(stride: u32, command: u32, rop: u32, bottom: u32) -> [u32; 14] {
        [
            load_state(state::DE_DEST_ADDRESS, 4),
            0x4000,
            stride,
            0,
            command << 12 | 6,
            0,
            load_state(ROP, 3),
            rop,
            0,
            32 << 16 | 32,
            0x2000_0100,
            0,
            0,
            bottom << 16 | 32,
        ]
    }

    #[test]
    fn rows_past_the_end_are_seen() {
        for (stride, bottom) in [(128, 32), (128, 99), (0x80000, 1), (0, 32), (1280, 0xFFFF)] {
            assert_eq!(found(&draw(stride, 0, 0xCC, bottom), true), None);
        }
        assert_eq!(
            found(&draw(1280, 0, 0xCC, 99), true),
            Some(Doubt::Past {
                at: 10,
                state: state::DE_DEST_ADDRESS,
                address: 0x4000,
                row: 31,
                past: 31 * 1280 - 0xFFF
            })
        );
        let resolve = |config: u32, stride: u32, rows: u32| {
            [
                load_state(RS_CONFIG, 1),
                config,
                load_state(state::RS_DEST_ADDR, 2),
                0x4000,
                stride,
                0,
                load_state(RS_WINDOW_SIZE, 1),
                rows << 16 | 16,
                load_state(RS_CLEAR_CONTROL, 1),
                0,
                load_state(state::RS_KICKER, 1),
                1,
            ]
        };
        for (config, stride, rows) in [
            (0, 128, 32),
            (1 << 14, 512, 32),
            (1 << 6, 128, 64),
            (1 << 14, 1 << 31 | 0x8000, 32),
        ] {
            assert_eq!(found(&resolve(config, stride, rows), true), None);
        }
        for (config, stride, rows) in [(0, 128, 36), (1 << 14, 1024, 32), (1 << 6, 256, 64)] {
            let doubt = found(&resolve(config, stride, rows), true);
            assert!(matches!(doubt, Some(Doubt::Past { at: 10, .. })));
        }
    }

    #[test]
    fn a_blit_has_a_source() {
        let no_source = Some(Doubt::NoSource(10));
        assert_eq!(found(&draw(128, 2, 0xCC, 32), false), no_source);
        assert_eq!(found(&draw(128, 4, 0xCC, 32), false), no_source);
        assert_eq!(found(&draw(128, 2, 0xCC, 32), true), None);
        // A clear, and a pattern alone, read none.
        assert_eq!(found(&draw(128, 0, 0xCC, 32), false), None);
        assert_eq!(found(&draw(128, 2, 0xF0, 32), false), None);
    }

    #[test]
    fn what_draws_nothing_is_seen() {
        assert_eq!(found(&[], true), Some(Doubt::Empty));
        let words = draw(128, 0, 0xCC, 32);
        assert_eq!(found(&words[..10], true), Some(Doubt::NoDraw));
        // A state that says not where, and what is not whole.
        assert_eq!(found(&words[6..10], true), None);
        assert_eq!(found(&[load_state(0x600, 0)], true), None);
        assert_eq!(found(&[0x2000_0000], true), None);
    }
}
