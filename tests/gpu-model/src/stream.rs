// SPDX-License-Identifier: GPL-2.0-only
//! Decoding of the command stream's words (sources.md, command stream): header word in, command out. No state, no
//! memory.

/// A decoded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Loads consecutive states.
    LoadState {
        /// Word address of the first state.
        address: u32,
        /// Number of words, 1 to 1024.
        count: u32,
        /// Values are 16.16 fixed point and become floats.
        fixed_point: bool,
    },
    /// Stops the front end.
    End,
    /// Does nothing.
    Nop,
    /// Draws rectangles with the 2D engine.
    Draw2d {
        /// Number of rectangles, 1 to 256.
        rectangles: u32,
        /// Words of stream data after them.
        data: u32,
    },
    /// Draws primitives.
    DrawPrimitives,
    /// Draws indexed primitives.
    DrawIndexed,
    /// Draws instanced primitives.
    DrawInstanced,
    /// Waits for a number of cycles.
    Wait {
        /// Core clock cycles.
        cycles: u32,
    },
    /// Continues at the address in word 1.
    Link {
        /// Window at the target in units of 8 bytes.
        prefetch: u32,
    },
    /// Waits for the semaphore whose token is word 1.
    Stall,
    /// Continues at the address in word 1 and returns to the address in word 3.
    Call {
        /// Window at the target in units of 8 bytes.
        prefetch: u32,
    },
    /// Returns from a call.
    Return,
    /// Selects chips of a multi-chip core.
    ChipSelect,
    /// Not an opcode of these cores.
    Illegal {
        /// Bits 31:27.
        opcode: u32,
    },
}

impl Command {
    /// Decodes a header word.
    pub fn decode(word: u32) -> Self {
        // A count of 0 means the field's whole range.
        let or_all = |value: u32, all: u32| if value == 0 { all } else { value };
        match word >> 27 {
            1 => Command::LoadState {
                address: word & 0xffff,
                count: or_all((word >> 16) & 0x3ff, 1024),
                fixed_point: word & (1 << 26) != 0,
            },
            2 => Command::End,
            3 => Command::Nop,
            4 => Command::Draw2d {
                rectangles: or_all((word >> 8) & 0xff, 256),
                data: (word >> 16) & 0x7ff,
            },
            5 => Command::DrawPrimitives,
            6 => Command::DrawIndexed,
            7 => Command::Wait {
                cycles: word & 0xffff,
            },
            8 => Command::Link {
                prefetch: word & 0xffff,
            },
            9 => Command::Stall,
            10 => Command::Call {
                prefetch: word & 0xffff,
            },
            11 => Command::Return,
            12 => Command::DrawInstanced,
            13 => Command::ChipSelect,
            opcode => Command::Illegal { opcode },
        }
    }

    /// Length in 64-bit units, including header and padding.
    pub fn units(self) -> u32 {
        match self {
            Command::LoadState { count, .. } => (1 + count).div_ceil(2),
            Command::Draw2d { rectangles, data } => 1 + rectangles + data.div_ceil(2),
            Command::DrawPrimitives | Command::Call { .. } | Command::DrawInstanced => 2,
            Command::DrawIndexed => 3,
            _ => 1,
        }
    }

    /// The name of the opcode.
    pub fn name(self) -> &'static str {
        match self {
            Command::LoadState { .. } => "LOAD_STATE",
            Command::End => "END",
            Command::Nop => "NOP",
            Command::Draw2d { .. } => "DRAW_2D",
            Command::DrawPrimitives => "DRAW_PRIMITIVES",
            Command::DrawIndexed => "DRAW_INDEXED_PRIMITIVES",
            Command::DrawInstanced => "DRAW_INSTANCED",
            Command::Wait { .. } => "WAIT",
            Command::Link { .. } => "LINK",
            Command::Stall => "STALL",
            Command::Call { .. } => "CALL",
            Command::Return => "RETURN",
            Command::ChipSelect => "CHIP_SELECT",
            Command::Illegal { .. } => "illegal",
        }
    }

    /// The command as text, with the fields of its header and second word.
    pub fn describe(self, word1: u32) -> String {
        let name = self.name();
        match self {
            Command::LoadState { address, count, .. } => {
                format!("{name} {:#06x} x {count}", address * 4)
            }
            Command::Draw2d { rectangles, .. } => format!("{name} {rectangles} rectangles"),
            Command::Wait { cycles } => format!("{name} {cycles}"),
            Command::Link { prefetch } | Command::Call { prefetch } => {
                format!("{name} {word1:#010x}, {prefetch} units")
            }
            Command::Stall => format!("{name} {word1:#x}"),
            Command::Illegal { opcode } => format!("illegal opcode {opcode}"),
            _ => name.to_string(),
        }
    }
}

/// The conversion by FIXP: from 16.16 fixed point to the bits of a 32-bit float.
pub fn fixed_to_float(value: u32) -> u32 {
    (value as i32 as f32 / 65536.0).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_kernel_ring_decode() {
        assert_eq!(Command::decode(0x3800_00c8), Command::Wait { cycles: 200 });
        assert_eq!(Command::decode(0x4000_0002), Command::Link { prefetch: 2 });
        assert_eq!(Command::decode(0x1000_0000), Command::End);
        assert_eq!(Command::decode(0x1800_0000), Command::Nop);
        assert_eq!(Command::decode(0x4800_0000), Command::Stall);
        assert_eq!(
            Command::decode(0x0801_0e01),
            Command::LoadState {
                address: 0xe01,
                count: 1,
                fixed_point: false
            }
        );
        assert_eq!(
            Command::decode(0x0805_0100),
            Command::LoadState {
                address: 0x100,
                count: 5,
                fixed_point: false
            }
        );
        assert_eq!(
            Command::decode(0x2000_0100),
            Command::Draw2d {
                rectangles: 1,
                data: 0
            }
        );
    }

    #[test]
    fn a_count_of_zero_is_the_whole_range() {
        assert_eq!(
            Command::decode(0x0c00_1000),
            Command::LoadState {
                address: 0x1000,
                count: 1024,
                fixed_point: true
            }
        );
        assert_eq!(
            Command::decode(0x2003_0000),
            Command::Draw2d {
                rectangles: 256,
                data: 3
            }
        );
    }

    #[test]
    fn lengths_are_whole_units() {
        let units = |word| Command::decode(word).units();
        assert_eq!(units(0x0801_0e01), 1);
        assert_eq!(units(0x0802_0e01), 2);
        assert_eq!(units(0x0803_0e01), 2);
        assert_eq!(units(0x0800_0e01), 513);
        assert_eq!(units(0x2000_0200), 3);
        assert_eq!(units(0x2003_0100), 4);
        assert_eq!(units(5 << 27), 2);
        assert_eq!(units(6 << 27), 3);
        assert_eq!(units(10 << 27), 2);
        assert_eq!(units(12 << 27), 2);
        assert_eq!(units(0x1800_0000), 1);
    }

    #[test]
    fn what_these_cores_lack_is_illegal() {
        for opcode in [0, 14, 15, 16, 17, 18, 19, 31] {
            assert_eq!(Command::decode(opcode << 27), Command::Illegal { opcode });
        }
    }

    #[test]
    fn fixed_point_becomes_float() {
        assert_eq!(fixed_to_float(0x0001_8000), 1.5f32.to_bits());
        assert_eq!(fixed_to_float(0xffff_0000), (-1.0f32).to_bits());
        assert_eq!(fixed_to_float(0), 0);
    }
}
