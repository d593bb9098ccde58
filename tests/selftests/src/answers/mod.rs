// SPDX-License-Identifier: GPL-2.0-only
//! What a driver answers to a fixed list of calls, in words that are the same on every driver that does the same.
//!
//! * [`cases`]: the list, `tests/abi/behaviour/cases.txt`, read and expanded.
//! * [`perform`]: doing one of them.
//! * [`symbols`]: numbers that a driver is free to choose, told by which were the same.
//! * [`compare`]: the answers recorded of another driver, and why this one differs where it does.

pub mod cases;
pub mod compare;
pub mod perform;
pub mod symbols;

use gpu_control::Board;

/// The list.
pub const CASES: &str = include_str!("../../../abi/behaviour/cases.txt");

/// Where this driver answers otherwise, and why.
pub const DIFFERENCES: &str = include_str!("../../../abi/behaviour/differences.txt");

/// What was recorded on a board.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// The vendor's driver's answers, to all cases.
    pub theirs: &'static str,
    /// This one's, where they are others.
    pub ours: &'static str,
}

/// What was recorded on `board`.
pub fn recording(board: Board) -> Option<Recording> {
    match board {
        Board::Gc880 => Some(Recording {
            theirs: include_str!("../../../abi/behaviour/6.4.11.p3-imx6dl.txt"),
            ours: include_str!("../../../abi/behaviour/ours-6.4.11.p3-imx6dl.txt"),
        }),
        _ => None,
    }
}
