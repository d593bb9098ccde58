// SPDX-License-Identifier: GPL-2.0-only
//! Decoding of front end 2.0's words: header word in, command out. No state, no memory.

/// A decoded command. Units are 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stops the front end and raises an interrupt.
    End {
        /// Interrupt bit.
        id: u32,
    },
    /// Arms the semaphore of a module.
    Semaphore {
        /// Module number.
        module: u32,
    },
    /// Waits for the semaphore of a module.
    Stall {
        /// Module number.
        module: u32,
    },
    /// Loads consecutive states.
    State {
        /// Word address of the first state, within its pipe.
        address: u32,
        /// Pipe number.
        pipe: u32,
        /// Number of words.
        count: u32,
    },
    /// Data for the engine.
    Data {
        /// Units after the header.
        units: u32,
    },
    /// Continues at the address in word 1.
    Fetch {
        /// Units at the target.
        units: u32,
    },
    /// Continues at the address in word 1 until RETURN.
    Call {
        /// Units at the target.
        units: u32,
    },
    /// Returns from a call.
    Return,
    /// Does nothing.
    Nop,
    /// Probably like a FETCH.
    Restart {
        /// Units at the target.
        units: u32,
    },
    /// Not a valid opcode.
    Illegal {
        /// Bits 31:28.
        opcode: u32,
    },
}

const COUNT: u32 = 0x1f_ffff;
const ID: u32 = 0x1f;

impl Command {
    /// Decodes a header word.
    pub fn decode(word: u32) -> Self {
        let units = word & COUNT;
        match word >> 28 {
            0 => Command::End { id: word & ID },
            1 => Command::Semaphore { module: word & ID },
            2 => Command::Stall { module: word & ID },
            3 => Command::State {
                address: word & 0xfff,
                pipe: (word >> 12) & 3,
                count: (word >> 16) & 0xfff,
            },
            4 => Command::Data { units },
            5 => Command::Fetch { units },
            6 => Command::Call { units },
            7 => Command::Return,
            8 => Command::Nop,
            9 => Command::Restart { units },
            opcode => Command::Illegal { opcode },
        }
    }

    /// Length in units, including header and padding.
    pub fn units(self) -> u32 {
        match self {
            Command::State { count, .. } => (1 + count).div_ceil(2),
            Command::Data { units } => 1 + units,
            _ => 1,
        }
    }

    /// The command as text, for traces and reports.
    pub fn describe(self, word1: u32) -> String {
        match self {
            Command::End { id } => format!("END {id}"),
            Command::Semaphore { module } => format!("SEMAPHORE {module:#x}"),
            Command::Stall { module } => format!("STALL {module:#x}"),
            Command::State {
                address,
                pipe,
                count,
            } => format!("STATE {pipe}:{address:#05x} count {count} {word1:#010x}"),
            Command::Data { units } => format!("DATA count {units}"),
            Command::Fetch { units } => format!("FETCH {word1:#010x} count {units}"),
            Command::Call { units } => format!("CALL {word1:#010x} count {units}"),
            Command::Return => "RETURN".to_string(),
            Command::Nop => "NOP".to_string(),
            Command::Restart { units } => format!("RESTART {word1:#010x} count {units}"),
            Command::Illegal { opcode } => format!("opcode {opcode}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_words_decode() {
        let expected = [
            (0x0000_000d, Command::End { id: 13 }, 1),
            // A LOAD_STATE of the other front ends.
            (0x0801_0e04, Command::End { id: 4 }, 1),
            (0x1000_0007, Command::Semaphore { module: 7 }, 1),
            (0x2000_0010, Command::Stall { module: 16 }, 1),
            (
                0x3001_0e01,
                Command::State {
                    address: 0xe01,
                    pipe: 0,
                    count: 1,
                },
                1,
            ),
            (
                0x3002_1a10,
                Command::State {
                    address: 0xa10,
                    pipe: 1,
                    count: 2,
                },
                2,
            ),
            (0x4000_0003, Command::Data { units: 3 }, 4),
            (0x5000_0010, Command::Fetch { units: 16 }, 1),
            (0x6000_0010, Command::Call { units: 16 }, 1),
            (0x7000_0000, Command::Return, 1),
            (0x8000_0000, Command::Nop, 1),
            (0x9100_0000, Command::Restart { units: 0 }, 1),
            (0xa000_0000, Command::Illegal { opcode: 10 }, 1),
            (0xffff_ffff, Command::Illegal { opcode: 15 }, 1),
        ];
        for (word, command, units) in expected {
            assert_eq!(Command::decode(word), command, "{word:#010x}");
            assert_eq!(command.units(), units, "{word:#010x}");
        }
    }

    #[test]
    fn descriptions_name_what_matters() {
        let describe = |word, word1| Command::decode(word).describe(word1);
        assert_eq!(
            describe(0x5000_0010, 0x4100_0002),
            "FETCH 0x41000002 count 16"
        );
        assert_eq!(describe(13, 0), "END 13");
        assert_eq!(
            describe(0x3001_0e01, 0x703),
            "STATE 0:0xe01 count 1 0x00000703"
        );
    }
}
