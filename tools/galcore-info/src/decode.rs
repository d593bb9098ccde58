// SPDX-License-Identifier: GPL-2.0-only
//! Decodes command words one at a time, in the order in which the front end fetches them. Names are those of the
//! driver's log, from a separate table.

use std::fmt;

use table::load_count;
use table::opcode;
use table::rectangles;
use table::FIXP;

#[path = "../../../src/stream/table.rs"]
#[allow(dead_code, missing_docs)]
mod table;

/// Commands of the 3D/2D front end, by opcode.
const COMMANDS: [(u32, &str); 16] = [
    (opcode::LOAD_STATE, "LOAD_STATE"),
    (2, "END"),
    (3, "NOP"),
    (opcode::DRAW_2D, "DRAW_2D"),
    (opcode::DRAW_PRIMITIVES, "DRAW_PRIMITIVES"),
    (opcode::DRAW_INDEXED, "DRAW_INDEXED_PRIMITIVES"),
    (WAIT, "WAIT"),
    (LINK, "LINK"),
    (STALL, "STALL"),
    (CALL, "CALL"),
    (11, "RETURN"),
    (opcode::DRAW_INSTANCED, "DRAW_INSTANCED"),
    (13, "CHIP_SELECT"),
    (15, "WAIT_FENCE"),
    (16, "DRAW_INDIRECT"),
    (19, "SNAP_PAGES"),
];

const WAIT: u32 = 7;
const LINK: u32 = 8;
const STALL: u32 = 9;
const CALL: u32 = 10;

/// Commands of the vector graphics front end.
const VECTOR_COMMANDS: [(u32, &str); 10] = [
    (vector::END, "END"),
    (vector::SEMAPHORE, "SEMAPHORE"),
    (vector::STALL, "STALL"),
    (vector::STATE, "STATE"),
    (vector::DATA, "DATA"),
    (5, "FETCH"),
    (6, "CALL"),
    (7, "RETURN"),
    (8, "NOP"),
    (9, "RESTART"),
];

mod vector {
    pub const END: u32 = 0;
    pub const SEMAPHORE: u32 = 1;
    pub const STALL: u32 = 2;
    pub const STATE: u32 = 3;
    pub const DATA: u32 = 4;
}

/// The kinds of front ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// The front end of 3D and 2D.
    Pipes,
    /// The front end of vector graphics.
    Vector,
}

impl FrontEnd {
    /// Number of words of the command that starts with `first`; 2 for an unknown command.
    fn length(self, first: u32) -> u32 {
        match (self, first >> 28) {
            (Self::Pipes, _) => table::length(first),
            (Self::Vector, vector::STATE) => (1 + vector_count(first)).next_multiple_of(2),
            (Self::Vector, vector::DATA) => 2 + 2 * (first & 0x1F_FFFF),
            _ => 2,
        }
    }
}

/// Number of values of a STATE.
fn vector_count(first: u32) -> u32 {
    (first >> 16) & 0xFFF
}

/// The decoder's state.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    front_end: FrontEnd,
    /// First word of the current command, and the number of its words so far; 0 if the next word starts a command.
    first: u32,
    place: u32,
}

impl Decoder {
    /// Starts at the beginning of a command.
    pub fn new(front_end: FrontEnd) -> Self {
        Self {
            front_end,
            first: 0,
            place: 0,
        }
    }

    /// Decodes `word`, the next one.
    pub fn next(&mut self, word: u32) -> Decoded {
        if self.place == 0 {
            self.first = word;
        }
        let decoded = Decoded {
            front_end: self.front_end,
            first: self.first,
            place: self.place,
            word,
        };
        self.place += 1;
        if self.place >= self.front_end.length(self.first) {
            self.place = 0;
        }
        decoded
    }
}

/// A word with its position in its command.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    front_end: FrontEnd,
    first: u32,
    place: u32,
    word: u32,
}

impl Decoded {
    /// Whether it belongs to a LINK. Clients' commands have none.
    pub fn is_link(&self) -> bool {
        self.front_end == FrontEnd::Pipes && self.first >> 27 == LINK
    }

    /// The address where the front end continues, if this word is the target of a LINK.
    pub fn target(&self) -> Option<u32> {
        (self.place == 1 && self.is_link()).then_some(self.word)
    }

    /// Formats a command from its first word.
    fn command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first;
        let opcode = first >> 27;
        let Some((_, name)) = COMMANDS.iter().find(|command| command.0 == opcode) else {
            return write!(f, "no command (opcode {opcode:#x})");
        };
        f.write_str(name)?;
        match opcode {
            opcode::LOAD_STATE => {
                let (state, count) = (first & 0xFFFF, load_count(first));
                let kind = if first & FIXP != 0 { " FIXP" } else { "" };
                write!(f, "{kind} {count} from {:#07x}", state << 2)
            }
            opcode::DRAW_2D => {
                let data = (first >> 16) & 0x7FF;
                let rectangles = rectangles(first);
                write!(f, " {rectangles} rectangles, {data} words of data")
            }
            WAIT => write!(f, " {} cycles", first & 0xFFFF),
            LINK | CALL => write!(f, " {} units of 8 bytes", first & 0xFFFF),
            _ => Ok(()),
        }
    }

    /// Formats a value of a `LOAD_STATE`, or its padding.
    fn value(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place > load_count(self.first) {
            return f.write_str("-");
        }
        let state = (self.first & 0xFFFF) + self.place - 1;
        let name = table::name(state).unwrap_or("no name");
        write!(f, "{:#07x} {name}", state << 2)?;
        match name {
            "GL.EVENT" => {
                let engine = if self.word & 1 << 6 == 0 { "FE" } else { "PE" };
                write!(f, " = {} from {engine}", self.word & 0x1F)
            }
            "GL.SEMAPHORE_TOKEN" | "GL.STALL_TOKEN" => write!(f, " = {}", Token(self.word)),
            "GL.PIPE_SELECT" => f.write_str(if self.word & 1 == 0 { " = 3D" } else { " = 2D" }),
            _ => Ok(()),
        }
    }

    /// Formats a word of a `DRAW_2D`: the upper left or the lower right corner of a rectangle, or data.
    fn rectangle(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let corner = self.place.saturating_sub(2);
        if self.place < 2 {
            return f.write_str("-");
        }
        if corner >= 2 * rectangles(self.first) {
            return f.write_str("data");
        }
        let name = if corner % 2 == 0 { "from" } else { "to" };
        write!(f, "{name} {},{}", self.word & 0xFFFF, self.word >> 16)
    }

    /// Formats a word of vector graphics.
    fn vector(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, word) = (self.first, self.word);
        let (opcode, low) = (first >> 28, first & 0xFFFF);
        if self.place == 0 {
            let mut commands = VECTOR_COMMANDS.iter();
            let Some((_, name)) = commands.find(|command| command.0 == opcode) else {
                return write!(f, "no command (opcode {opcode:#x})");
            };
            f.write_str(name)?;
            return match opcode {
                vector::STATE => write!(f, " {} from {low:#05x}", vector_count(first)),
                vector::DATA => write!(f, " {} units of 8 bytes", first & 0x1F_FFFF),
                vector::END => write!(f, " {}", first & 0x1F),
                vector::SEMAPHORE | vector::STALL => write!(f, " {}", Module(first & 0x1F)),
                _ => Ok(()),
            };
        }
        match opcode {
            vector::STATE if self.place <= vector_count(first) => {
                let state = low + self.place - 1;
                let name = table::vector_name(state).unwrap_or("no name");
                write!(f, "  {state:#05x} {name}")?;
                let [low, high] = [word & 0x1F, (word >> 8) & 0x1F];
                match name {
                    "event" => write!(f, " = {low} from {}", Module(high)),
                    "semaphore" | "stall" => write!(f, " = {} to {}", Module(low), Module(high)),
                    _ => Ok(()),
                }
            }
            vector::DATA if self.place >= 2 => f.write_str("  data"),
            _ => f.write_str("  -"),
        }
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.front_end == FrontEnd::Vector {
            return self.vector(f);
        }
        if self.place == 0 {
            return self.command(f);
        }
        f.write_str("  ")?;
        match self.first >> 27 {
            opcode::LOAD_STATE => self.value(f),
            STALL => write!(f, "{}", Token(self.word)),
            LINK | CALL => write!(f, "to {:#010x}", self.word),
            opcode::DRAW_2D => self.rectangle(f),
            _ => f.write_str("-"),
        }
    }
}

/// Source and destination of a semaphore or a stall.
struct Token(u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.0 & 0x1F, (self.0 >> 8) & 0x1F];
        match (engine(from), engine(to)) {
            (Some(from), Some(to)) => write!(f, "{from} to {to}"),
            _ => write!(f, "{from:#x} to {to:#x}"),
        }
    }
}

/// The name of an engine in a token.
fn engine(number: u32) -> Option<&'static str> {
    match number {
        1 => Some("FE"),
        5 => Some("RA"),
        7 => Some("PE"),
        11 => Some("DE"),
        16 => Some("BLT"),
        _ => None,
    }
}

/// A module of vector graphics, by number.
struct Module(u32);

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            7 => f.write_str("PE"),
            15 => f.write_str("VG"),
            16 => f.write_str("TS"),
            number => write!(f, "{number:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats consecutive words as lines.
    fn lines(decoder: &mut Decoder, words: &[u32]) -> Vec<String> {
        let words = words.iter();
        words.map(|&word| decoder.next(word).to_string()).collect()
    }

    fn expect(front_end: FrontEnd, words: &[u32], wanted: &[&str]) {
        let mut decoder = Decoder::new(front_end);
        assert_eq!(lines(&mut decoder, words), wanted);
        assert_eq!(decoder.place, 0);
    }

    #[test]
    fn commands_have_the_words_of_the_field() {
        let select_2d = [
            0x0801_0E03,
            0x2B,
            0x0801_0594,
            1,
            0x0801_0E02,
            0x701,
            0x4800_0000,
            0x701,
            0x0801_0E00,
            1,
        ];
        expect(
            FrontEnd::Pipes,
            &select_2d,
            &[
                "LOAD_STATE 1 from 0x0380c",
                "  0x0380c GL.FLUSH_CACHE",
                "LOAD_STATE 1 from 0x01650",
                "  0x01650 TS",
                "LOAD_STATE 1 from 0x03808",
                "  0x03808 GL.SEMAPHORE_TOKEN = FE to PE",
                "STALL",
                "  FE to PE",
                "LOAD_STATE 1 from 0x03800",
                "  0x03800 GL.PIPE_SELECT = 2D",
            ],
        );
        expect(
            FrontEnd::Pipes,
            &[0x0801_0E01, 29 | 1 << 6],
            &[
                "LOAD_STATE 1 from 0x03804",
                "  0x03804 GL.EVENT = 29 from PE",
            ],
        );
        expect(
            FrontEnd::Pipes,
            &[0x3800_00C8, 0, 0x4000_0002, 0x1000],
            &[
                "WAIT 200 cycles",
                "  -",
                "LINK 2 units of 8 bytes",
                "  to 0x00001000",
            ],
        );
        expect(
            FrontEnd::Pipes,
            &[0x1000_0000, 0, 0x1800_0000, 0],
            &["END", "  -", "NOP", "  -"],
        );
        expect(
            FrontEnd::Pipes,
            &[0xF800_0000, 1],
            &["no command (opcode 0x1f)", "  -"],
        );
    }

    #[test]
    fn consecutive_states_are_named() {
        expect(
            FrontEnd::Pipes,
            &[0x0802_0000 | 0x1228 >> 2, 0x4000, 64, 0],
            &[
                "LOAD_STATE 2 from 0x01228",
                "  0x01228 DE.DEST_ADDRESS",
                "  0x0122c DE",
                "  -",
            ],
        );
        expect(
            FrontEnd::Pipes,
            &[0x0C01_0000 | 0x1228 >> 2, 1],
            &[
                "LOAD_STATE FIXP 1 from 0x01228",
                "  0x01228 DE.DEST_ADDRESS",
            ],
        );
        for (byte, wanted) in [
            (0x16DC, Some("RS.PIPE_SOURCE_ADDR")),
            (0x3868, Some("GL.FENCE_OUT_ADDRESS")),
            (0x1A80, Some("TS.SAMPLER_SURFACE_BASE")),
            (0x14A08, Some("TCS")),
            (0x1C008, Some("TFB")),
            (0x140A4, Some("BLT")),
            (0x1400, Some("PE")),
            (0x1600, Some("RS.KICKER")),
            (0x3C00, Some("GL.STALL_TOKEN")),
            (0x3FFC, None),
        ] {
            assert_eq!(table::name(byte >> 2), wanted);
        }
    }

    #[test]
    fn rectangles_and_data() {
        expect(
            FrontEnd::Pipes,
            &[0x2001_0100, 0, 0x0002_0001, 0x0004_0003, 0xAB, 0],
            &[
                "DRAW_2D 1 rectangles, 1 words of data",
                "  -",
                "  from 1,2",
                "  to 3,4",
                "  data",
                "  data",
            ],
        );
    }

    #[test]
    fn the_longest_load_ends_on_8_bytes() {
        let mut decoder = Decoder::new(FrontEnd::Pipes);
        // 1024 values.
        decoder.next(0x0800_0000 | 0x4000 >> 2);
        for _ in 1..1024 {
            decoder.next(5);
        }
        assert_eq!(lines(&mut decoder, &[5, 5]), ["  0x04ffc SH", "  -"]);
        assert_eq!(decoder.place, 0);
    }

    #[test]
    fn a_link_says_where_it_leads() {
        let mut decoder = Decoder::new(FrontEnd::Pipes);
        assert_eq!(decoder.next(0x4000_0008).target(), None);
        assert_eq!(decoder.next(0x1234_5678).target(), Some(0x1234_5678));
        assert_eq!(decoder.next(0x1800_0000).target(), None);
        assert_eq!(decoder.next(7).target(), None);
    }

    #[test]
    fn all_words_are_something() {
        // Lengths are limited, and every command ends at a multiple of 8 bytes.
        let mut random = 1u32;
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let words = FrontEnd::Pipes.length(random);
            assert!(words % 2 == 0 && (2..=2 + 512 + 2048).contains(&words));
            assert_eq!(FrontEnd::Vector.length(random) % 2, 0);
        }
        for (first, words) in [
            (0x0801_0E04, 2),
            (0x2800_0000, 4),
            (0x3000_0000, 6),
            (0x6000_0000, 4),
        ] {
            assert_eq!(FrontEnd::Pipes.length(first), words);
        }
    }

    #[test]
    fn vector_graphics_has_words_of_its_own() {
        let (words, wanted): (Vec<u32>, Vec<&str>) = [
            (0x3001_0A11, "STATE 1 from 0xa11"),
            (0x4000, "  0xa11 target address"),
            (0x3003_0A12, "STATE 3 from 0xa12"),
            (64, "  0xa12 target stride"),
            (64, "  0xa13 target size"),
            (0, "  0xa14 vector graphics"),
            (0x4000_0001, "DATA 1 units of 8 bytes"),
            (0, "  -"),
            (1, "  data"),
            (2, "  data"),
            (0x1000_0007, "SEMAPHORE PE"),
            (0, "  -"),
            (0x3001_0E01, "STATE 1 from 0xe01"),
            (0x0703, "  0xe01 event = 3 from PE"),
            (0x0D, "END 13"),
            (0, "  -"),
        ]
        .into_iter()
        .unzip();
        expect(FrontEnd::Vector, &words, &wanted);
    }
}
