// SPDX-License-Identifier: GPL-2.0-only

//! Likely mistakes in commands that the checker accepts. They help authors of clients.
//!
//! Pure logic. This code refuses nothing, and only runs while dynamic debug is on. Silicon does not
//! report these mistakes.

use super::{
    decode::{
        self,
        opcode, //
    },
    words::state::{
        self,
        word, //
    }, //
};
use kernel::fmt;

/// A likely mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lint {
    /// There are no commands.
    Empty,
    /// They set a target, but draw nothing.
    NoDraw,
    /// The command at this word reads a source that no commands have loaded.
    NoSource(usize),
    /// The command at this word draws to a target that no commands have loaded.
    NoTarget(usize),
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Lint::Empty => f.write_str(
                "there are no commands: do the bytes include the driver's head and tail?",
            ),
            Lint::NoDraw => f.write_str(
                "they say where to draw and draw nothing: do the bytes include the driver's head and tail?",
            ),
            Lint::NoSource(at) => write!(
                f,
                "a blit from state 0x1200 (DE.SRC_ADDRESS), which is 0 or was never loaded, at word {at}"
            ),
            Lint::NoTarget(at) => write!(
                f,
                "a draw to state 0x1228 (DE.DEST_ADDRESS), which was never loaded, or whose memory is freed, at word {at}"
            ),
        }
    }
}

const DEST_CONFIG: u32 = word(0x1234);
const ROP: u32 = word(0x125C);

/// What a stream has loaded so far.
#[derive(Default)]
struct Seen {
    config: Option<u32>,
    rop: Option<u32>,
    /// The stream has set a target.
    aims: bool,
}

/// The first likely mistake in `words`. `resolve_target`: the state with the resolve engine's
/// target. `has_source` and `has_target` say whether those of the 2D engine are loaded.
pub(crate) fn first(
    words: &[u32],
    resolve_target: u32,
    [has_source, has_target]: [bool; 2],
) -> Option<Lint> {
    let mut seen = Seen::default();
    let (mut at, mut draws) = (0, false);
    while let Some(&header) = words.get(at) {
        let after = words.get(at + 1..).unwrap_or_default();
        match header >> 27 {
            opcode::LOAD_STATE => {
                // CAST: at most 1024.
                let count = decode::load_count(header) as usize;
                for (state, &value) in (header & 0xFFFF..).zip(after.iter().take(count)) {
                    match state {
                        DEST_CONFIG => seen.config = Some(value),
                        ROP => seen.rop = Some(value),
                        _ => {}
                    }
                    seen.aims |= state == resolve_target || state == state::DE_DEST_ADDRESS;
                    draws |= matches!(
                        state,
                        state::RS_KICKER | state::RS_KICKER_INPLACE | state::DE_VR_CONFIG
                    );
                }
            }
            opcode::DRAW_2D => {
                draws = true;
                let has_data = (header >> 16) & 0x7FF != 0;
                if !has_source && !has_data && seen.reads() {
                    return Some(Lint::NoSource(at));
                }
                if !has_target {
                    return Some(Lint::NoTarget(at));
                }
            }
            opcode::DRAW_PRIMITIVES | opcode::DRAW_INDEXED | opcode::DRAW_INSTANCED => draws = true,
            _ => {}
        }
        // CAST: some thousands.
        at += decode::length(header) as usize;
    }
    if words.is_empty() {
        return Some(Lint::Empty);
    }
    (seen.aims && !draws).then_some(Lint::NoDraw)
}

impl Seen {
    /// Whether a DRAW_2D reads its source. BIT_BLT and STRETCH_BLT do, unless the result of the
    /// raster operation is the same for both values of a source bit.
    fn reads(&self) -> bool {
        let blits = self
            .config
            .is_some_and(|it| matches!((it >> 12) & 0xF, 2 | 4));
        blits && self.rop.is_none_or(|rop| (rop >> 2 ^ rop) & 0x33 != 0)
    }
}

#[kernel::macros::kunit_tests(galcore_lint)]
mod tests {
    use super::*;
    use crate::stream::words::load_state;

    fn found(words: &[u32], has_source: bool) -> Option<Lint> {
        first(words, state::RS_DEST_ADDR, [has_source, true])
    }

    /// A draw of a rectangle.
    fn draw(command: u32, rop: u32) -> [u32; 14] {
        [
            load_state(state::DE_DEST_ADDRESS, 4),
            0x4000,
            128,
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
            32 << 16 | 32,
        ]
    }

    #[test]
    fn a_blit_has_a_source() {
        let no_source = Some(Lint::NoSource(10));
        assert_eq!(found(&draw(2, 0xCC), false), no_source);
        assert_eq!(found(&draw(4, 0xCC), false), no_source);
        assert_eq!(found(&draw(2, 0xCC), true), None);
        let without = first(&draw(0, 0xCC), state::RS_DEST_ADDR, [false; 2]);
        assert_eq!(without, Some(Lint::NoTarget(10)));
        // A clear reads no source, nor does a pattern alone.
        assert_eq!(found(&draw(0, 0xCC), false), None);
        assert_eq!(found(&draw(2, 0xF0), false), None);
    }

    #[test]
    fn what_draws_nothing_is_seen() {
        assert_eq!(found(&[], true), Some(Lint::Empty));
        let words = draw(0, 0xCC);
        assert_eq!(found(&words[..10], true), Some(Lint::NoDraw));
        // A state that sets no target, and incomplete commands.
        assert_eq!(found(&words[6..10], true), None);
        assert_eq!(found(&[load_state(0x600, 0)], true), None);
        assert_eq!(found(&[0x2000_0000], true), None);
    }
}
