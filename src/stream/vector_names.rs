// SPDX-License-Identifier: GPL-2.0-only

//! Names of the states and commands of vector graphics, for logs and dumps.
//!
//! Pure logic. The register database has no names for these states (`state_vg.xml` lists their
//! reset values), so these names give their purpose. Source: sources.md, vector graphics.

use super::vector::{
    length_of,
    opcode, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// States: the first and the last word address, and the purpose. The first match counts.
const STATES: [(u32, u32, &str); 49] = [
    (0xA00, 0xA00, "control"),
    (0xA01, 0xA01, "window origin"),
    (0xA02, 0xA02, "colour"),
    (0xA03, 0xA09, "paint"),
    (0xA10, 0xA10, "target format"),
    (0xA11, 0xA11, "target address"),
    (0xA12, 0xA12, "target stride"),
    (0xA13, 0xA13, "target size"),
    (0xA1B, 0xA1B, "flush"),
    (0xA18, 0xA22, "image matrix"),
    (0xA24, 0xA24, "image 1 format"),
    (0xA25, 0xA25, "image 0 format"),
    (0xA26, 0xA26, "image 1 background"),
    (0xA27, 0xA27, "image 0 background"),
    (0xA28, 0xA28, "image 1 address"),
    (0xA29, 0xA29, "image 0 address"),
    (0xA2A, 0xA2A, "image 1 stride"),
    (0xA2B, 0xA2B, "image 0 stride"),
    (0xA2C, 0xA2C, "image 1 origin"),
    (0xA2D, 0xA2D, "image 0 origin"),
    (0xA2E, 0xA2E, "image 1 size"),
    (0xA2F, 0xA2F, "image 0 size"),
    (0xA30, 0xA30, "tessellation buffer, read"),
    (0xA31, 0xA31, "tessellation level 1, read"),
    (0xA32, 0xA32, "tessellation level 2, read"),
    (0xA33, 0xA33, "tessellation stride, read"),
    (0xA34, 0xA34, "tessellator"),
    (0xA35, 0xA35, "tessellation buffer, written"),
    (0xA36, 0xA36, "tessellation level 1, written"),
    (0xA37, 0xA37, "tessellation level 2, written"),
    (0xA38, 0xA38, "tessellation stride, written"),
    (0xA39, 0xA39, "tessellation origin"),
    (0xA3A, 0xA3A, "tessellation size"),
    (0xA3B, 0xA3B, "path scale"),
    (0xA3C, 0xA3C, "path bias"),
    (0xA3D, 0xA3D, "tessellation level 2 size"),
    (0xA40, 0xA45, "path matrix"),
    (0xA50, 0xA50, "image 1 plane 1 address"),
    (0xA51, 0xA51, "image 0 plane 1 address"),
    (0xA52, 0xA52, "image 1 plane 2 address"),
    (0xA53, 0xA53, "image 0 plane 2 address"),
    (0xA5C, 0xA5C, "target plane 1 address"),
    (0xA5D, 0xA5D, "target plane 2 address"),
    (0xA90, 0xA97, "colour key"),
    (0xE01, 0xE01, "event"),
    (0xE02, 0xE02, "semaphore"),
    (0xE04, 0xE04, "MMU flush"),
    (0xF00, 0xF00, "stall"),
    (0xA00, 0xAFF, "vector graphics"),
];

/// The name of state `address` (a word address).
pub(crate) fn name(address: u32) -> Option<&'static str> {
    let mut states = STATES.iter();
    let found = states.find(|&&(first, last, _)| (first..=last).contains(&address));
    found.map(|&(_, _, name)| name)
}

const COMMANDS: [(u32, &str); 10] = [
    (opcode::END, "END"),
    (opcode::SEMAPHORE, "SEMAPHORE"),
    (opcode::STALL, "STALL"),
    (opcode::STATE, "STATE"),
    (opcode::DATA, "DATA"),
    (5, "FETCH"),
    (opcode::CALL, "CALL"),
    (opcode::RETURN, "RETURN"),
    (opcode::NOP, "NOP"),
    (9, "RESTART"),
];

/// Words of the command that begins with `first`; 2 if it has no length, or is unknown.
pub(super) fn length(first: u32) -> u32 {
    let length = length_of(first).unwrap_or(2);
    // CAST: 22 bits at most.
    length as u32
}

/// Describes `word`, the one at `place` in the command that begins with `first`.
pub(super) fn describe(
    f: &mut fmt::Formatter<'_>,
    first: u32,
    place: u32,
    word: u32,
) -> fmt::Result {
    let (opcode, low) = (first >> 28, first & 0xFFFF);
    let count = (first >> 16) & 0xFFF;
    if place == 0 {
        let found = COMMANDS.iter().find(|command| command.0 == opcode);
        let Some((_, name)) = found else {
            return f.write_fmt(fmt!("no command (opcode {opcode:#x})"));
        };
        f.write_str(name)?;
        return match opcode {
            opcode::STATE => f.write_fmt(fmt!(" {count} from {low:#05x}")),
            opcode::DATA => f.write_fmt(fmt!(" {} units of 8 bytes", first & 0x1F_FFFF)),
            opcode::END => f.write_fmt(fmt!(" {}", first & 0x1F)),
            opcode::SEMAPHORE | opcode::STALL => f.write_fmt(fmt!(" {}", Module(first & 0x1F))),
            _ => Ok(()),
        };
    }
    match opcode {
        opcode::STATE if place <= count => {
            let state = low + place - 1;
            f.write_fmt(fmt!("  {state:#05x} {}", name(state).unwrap_or("no name")))?;
            match state {
                0xE01 => f.write_fmt(fmt!(
                    " = {} from {}",
                    word & 0x1F,
                    Module((word >> 8) & 0x1F)
                )),
                0xE02 | 0xF00 => {
                    let (from, to) = (Module(word & 0x1F), Module((word >> 8) & 0x1F));
                    f.write_fmt(fmt!(" = {from} to {to}"))
                }
                _ => Ok(()),
            }
        }
        opcode::DATA if place >= 2 => f.write_str("  data"),
        _ => f.write_str("  -"),
    }
}

/// A module's name, by its number.
struct Module(u32);

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            7 => f.write_str("PE"),
            15 => f.write_str("VG"),
            16 => f.write_str("TS"),
            number => f.write_fmt(fmt!("{number:#x}")),
        }
    }
}

#[kernel::macros::kunit_tests(galcore_vector_names)]
mod tests {
    use super::*;
    use crate::stream::vector::{
        ADDRESS_STATES, //
        TRACKED,
    };

    #[test]
    fn states_that_count_have_names() {
        for (which, state) in TRACKED.into_iter().enumerate() {
            let name = name(state).unwrap();
            let is_address = name.ends_with("address") || name.starts_with("tessellation ");
            assert_ne!(name, "vector graphics");
            assert!(is_address || which >= ADDRESS_STATES);
        }
        assert_eq!(name(0xA46), Some("vector graphics"));
        assert_eq!(name(0xB00), None);
    }
}
