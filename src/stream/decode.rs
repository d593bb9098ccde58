// SPDX-License-Identifier: GPL-2.0-only

//! Decodes words for readers: one at a time, as the front end fetches them.
//!
//! Pure logic. Names are those of the register database (rnndb), as in refusals.

use super::{
    table,
    vector_names,
    words::{
        state,
        EVENT_FROM_PE, //
    }, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// Commands by their opcodes: what they are called, and how many words they have, if that is always
/// the same.
const COMMANDS: [(u32, &str, u32); 16] = [
    (opcode::LOAD_STATE, "LOAD_STATE", 0),
    (opcode::END, "END", 2),
    (opcode::NOP, "NOP", 2),
    (opcode::DRAW_2D, "DRAW_2D", 0),
    (opcode::DRAW_PRIMITIVES, "DRAW_PRIMITIVES", 4),
    (opcode::DRAW_INDEXED, "DRAW_INDEXED_PRIMITIVES", 6),
    (opcode::WAIT, "WAIT", 2),
    (opcode::LINK, "LINK", 2),
    (opcode::STALL, "STALL", 2),
    (opcode::CALL, "CALL", 2),
    (opcode::RETURN, "RETURN", 2),
    (opcode::DRAW_INSTANCED, "DRAW_INSTANCED", 4),
    (13, "CHIP_SELECT", 2),
    (15, "WAIT_FENCE", 2),
    (16, "DRAW_INDIRECT", 2),
    (19, "SNAP_PAGES", 2),
];

/// Bits 31:27 of a command's first word.
pub(super) mod opcode {
    pub(in crate::stream) const LOAD_STATE: u32 = 1;
    pub(in crate::stream) const END: u32 = 2;
    pub(in crate::stream) const NOP: u32 = 3;
    pub(in crate::stream) const DRAW_2D: u32 = 4;
    pub(in crate::stream) const DRAW_PRIMITIVES: u32 = 5;
    pub(in crate::stream) const DRAW_INDEXED: u32 = 6;
    pub(in crate::stream) const WAIT: u32 = 7;
    pub(in crate::stream) const LINK: u32 = 8;
    pub(in crate::stream) const STALL: u32 = 9;
    pub(in crate::stream) const CALL: u32 = 10;
    pub(in crate::stream) const RETURN: u32 = 11;
    pub(in crate::stream) const DRAW_INSTANCED: u32 = 12;
}

/// Bit of a `LOAD_STATE` header: values are 16.16 numbers, to be converted to floating point.
pub(crate) const FIXP: u32 = 1 << 26;

/// The states that whole commands load, in order, with what they are loaded with, and whether that
/// is converted.
pub(crate) fn loads(words: &[u32]) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
    let mut rest = words;
    let commands = core::iter::from_fn(move || {
        let command = rest;
        // CAST: 32 bits into at least 32.
        rest = rest.get(length(*rest.first()?) as usize..).unwrap_or(&[]);
        Some(command)
    });
    let is_load =
        |command: &&[u32]| matches!(command, [first, ..] if first >> 27 == opcode::LOAD_STATE);
    commands.filter(is_load).flat_map(|command| {
        let header = command[0];
        // CAST: at most 1024.
        let values = command[1..].iter().take(load_count(header) as usize);
        let states = (header & 0xFFFF..).zip(values);
        states.map(move |(state, &value)| (state, value, header & FIXP != 0))
    })
}

/// Values of a `LOAD_STATE`.
pub(super) fn load_count(first: u32) -> u32 {
    match (first >> 16) & 0x3FF {
        0 => 1024,
        count => count,
    }
}

/// Rectangles of a `DRAW_2D`.
pub(super) fn rectangles(first: u32) -> u32 {
    match (first >> 8) & 0xFF {
        0 => 256,
        count => count,
    }
}

/// Words of the command that begins with `first`; of one that is not known 2, as all begin on 8
/// bytes.
pub(super) fn length(first: u32) -> u32 {
    match first >> 27 {
        opcode::LOAD_STATE => (1 + load_count(first)).next_multiple_of(2),
        opcode::DRAW_2D => 2 + 2 * rectangles(first) + ((first >> 16) & 0x7FF).next_multiple_of(2),
        opcode => {
            let found = COMMANDS.iter().find(|command| command.0 == opcode);
            found.map_or(2, |command| command.2)
        }
    }
}

/// The kinds of front ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// That of 3D and 2D.
    #[default]
    Pipes,
    /// That of vector graphics.
    Vector,
}

/// Where among words one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoder {
    /// First word of the command that the next one belongs to, and how many of its words there have
    /// been; 0: the next one begins a command.
    pub(crate) first: u32,
    pub(crate) place: u32,
}

impl Decoder {
    /// What `word` is, which is the next one.
    pub(crate) fn next(&mut self, front_end: FrontEnd, word: u32) -> Decoded {
        if self.place == 0 {
            self.first = word;
        }
        let decoded = Decoded {
            front_end,
            first: self.first,
            place: self.place,
            word,
        };
        self.place += 1;
        let length = match front_end {
            FrontEnd::Pipes => length(self.first),
            FrontEnd::Vector => vector_names::length(self.first),
        };
        if self.place >= length {
            self.place = 0;
        }
        decoded
    }
}

/// A word, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    front_end: FrontEnd,
    first: u32,
    place: u32,
    word: u32,
}

impl Decoded {
    /// Whether it is of a LINK, which no client has.
    pub(crate) fn is_link(&self) -> bool {
        self.front_end == FrontEnd::Pipes && self.first >> 27 == opcode::LINK
    }

    /// Where the front end goes on, if this is the target of a LINK.
    pub(crate) fn target(&self) -> Option<u32> {
        (self.place == 1 && self.is_link()).then_some(self.word)
    }

    /// The command, by its first word.
    fn command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first;
        let found = COMMANDS.iter().find(|command| command.0 == first >> 27);
        let Some((opcode, name, _)) = found else {
            return f.write_fmt(fmt!("no command (opcode {:#x})", first >> 27));
        };
        f.write_str(name)?;
        match *opcode {
            opcode::LOAD_STATE => {
                let (state, count) = (first & 0xFFFF, load_count(first));
                let kind = if first & FIXP != 0 { " FIXP" } else { "" };
                f.write_fmt(fmt!("{kind} {count} from {:#07x}", state << 2))
            }
            opcode::DRAW_2D => {
                let data = (first >> 16) & 0x7FF;
                f.write_fmt(fmt!(
                    " {} rectangles, {data} words of data",
                    rectangles(first)
                ))
            }
            opcode::WAIT => f.write_fmt(fmt!(" {} cycles", first & 0xFFFF)),
            opcode::LINK | opcode::CALL => {
                f.write_fmt(fmt!(" {} units of 8 bytes", first & 0xFFFF))
            }
            _ => Ok(()),
        }
    }

    /// A value of a `LOAD_STATE`, or what fills it up.
    fn value(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place > load_count(self.first) {
            return f.write_str("-");
        }
        let state = (self.first & 0xFFFF) + self.place - 1;
        let name = table::name(state).unwrap_or("no name");
        f.write_fmt(fmt!("{:#07x} {name}", state << 2))?;
        match state {
            state::GL_EVENT => {
                let engine = match self.word & EVENT_FROM_PE {
                    0 => "FE",
                    _ => "PE",
                };
                f.write_fmt(fmt!(" = {} from {engine}", self.word & 0x1F))
            }
            state::GL_SEMAPHORE_TOKEN | state::GL_STALL_TOKEN => {
                f.write_fmt(fmt!(" = {}", Token(self.word)))
            }
            state::GL_PIPE_SELECT => {
                f.write_str(if self.word & 1 == 0 { " = 3D" } else { " = 2D" })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.front_end == FrontEnd::Vector {
            return vector_names::describe(f, self.first, self.place, self.word);
        }
        if self.place == 0 {
            return self.command(f);
        }
        f.write_str("  ")?;
        match self.first >> 27 {
            opcode::LOAD_STATE => self.value(f),
            opcode::STALL => f.write_fmt(fmt!("{}", Token(self.word))),
            opcode::LINK | opcode::CALL => f.write_fmt(fmt!("to {:#010x}", self.word)),
            opcode::DRAW_2D => self.rectangle(f),
            _ => f.write_str("-"),
        }
    }
}

impl Decoded {
    /// A word of a `DRAW_2D`: of a rectangle the left upper corner, then the right lower one; or
    /// data.
    fn rectangle(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let corner = self.place.saturating_sub(2);
        if self.place < 2 {
            return f.write_str("-");
        }
        if corner >= 2 * rectangles(self.first) {
            return f.write_str("data");
        }
        let name = if corner % 2 == 0 { "from" } else { "to" };
        f.write_fmt(fmt!("{name} {},{}", self.word & 0xFFFF, self.word >> 16))
    }
}

/// From whom to whom a semaphore or a stall is.
struct Token(u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.0 & 0x1F, (self.0 >> 8) & 0x1F];
        match (engine(from), engine(to)) {
            (Some(from), Some(to)) => f.write_fmt(fmt!("{from} to {to}")),
            _ => f.write_fmt(fmt!("{from:#x} to {to:#x}")),
        }
    }
}

/// The name of an engine in tokens.
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

#[kunit_tests(galcore_decode)]
mod tests {
    use super::*;
    use crate::{
        hw::MmuVersion,
        stream::words::{
            event,
            flush_mmu,
            load_state,
            select_pipe,
            wait_link,
            Caches,
            PageTables,
            Pipe,
            END,
            NOP, //
        }, //
    };
    use kernel::str::CString;

    const CACHES: Caches = Caches::new(true, true, true, MmuVersion::V1);

    /// Lines of consecutive words.
    fn lines(decoder: &mut Decoder, words: &[u32]) -> KVec<CString> {
        let mut lines = KVec::new();
        for &word in words {
            let line =
                CString::try_from_fmt(fmt!("{}", decoder.next(FrontEnd::Pipes, word))).unwrap();
            lines.push(line, GFP_KERNEL).unwrap();
        }
        lines
    }

    fn expect(words: &[u32], wanted: &[&str]) {
        let mut decoder = Decoder::default();
        let lines = lines(&mut decoder, words);
        assert_eq!(lines.len(), wanted.len());
        for (line, wanted) in lines.iter().zip(wanted) {
            assert_eq!(line.to_bytes(), wanted.as_bytes());
        }
        assert_eq!(decoder.place, 0);
    }

    #[test]
    fn commands_have_the_words_of_the_field() {
        expect(
            &select_pipe(&CACHES, Pipe::Pipe2d),
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
            &event(29)[..2],
            &[
                "LOAD_STATE 1 from 0x03804",
                "  0x03804 GL.EVENT = 29 from PE",
            ],
        );
        expect(
            &wait_link(0x1000),
            &[
                "WAIT 200 cycles",
                "  -",
                "LINK 2 units of 8 bytes",
                "  to 0x00001000",
            ],
        );
        expect(&[END, 0, NOP, 0], &["END", "  -", "NOP", "  -"]);
        expect(&[0xF800_0000, 1], &["no command (opcode 0x1f)", "  -"]);
    }

    #[test]
    fn states_behind_each_other_are_named() {
        expect(
            &[load_state(state::word(0x1228), 2), 0x4000, 64, 0],
            &[
                "LOAD_STATE 2 from 0x01228",
                "  0x01228 DE.DEST_ADDRESS",
                "  0x0122c DE",
                "  -",
            ],
        );
        let header = load_state(state::word(0x1228), 1) | 1 << 26;
        expect(
            &[header, 1],
            &[
                "LOAD_STATE FIXP 1 from 0x01228",
                "  0x01228 DE.DEST_ADDRESS",
            ],
        );
    }

    #[test]
    fn rectangles_and_data() {
        expect(
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
    fn a_command_may_be_cut_into_pieces() {
        let mut decoder = Decoder::default();
        // 1024 values.
        decoder.next(FrontEnd::Pipes, load_state(0x4000 >> 2, 0));
        for _ in 1..1024 {
            decoder.next(FrontEnd::Pipes, 5);
        }
        let mut later = decoder;
        assert_eq!(lines(&mut later, &[5])[0].to_bytes(), b"  0x04ffc SH");
        assert_eq!(lines(&mut later, &[5])[0].to_bytes(), b"  -");
        assert_eq!(later.place, 0);
    }

    #[test]
    fn a_link_says_where_it_leads() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.next(FrontEnd::Pipes, 0x4000_0008).target(), None);
        assert_eq!(
            decoder.next(FrontEnd::Pipes, 0x1234_5678).target(),
            Some(0x1234_5678)
        );
        assert_eq!(decoder.next(FrontEnd::Pipes, NOP).target(), None);
        assert_eq!(decoder.next(FrontEnd::Pipes, 7).target(), None);
    }

    #[test]
    fn all_words_are_something() {
        // Lengths are bounded, and every command ends on 8 bytes.
        let mut random = 1u32;
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let words = length(random);
            assert!(words % 2 == 0 && (2..=2 + 512 + 2048).contains(&words));
        }
        assert_eq!(length(flush_mmu(&CACHES, PageTables::V1)[0]), 2);
    }

    #[test]
    fn vector_graphics_has_words_of_its_own() {
        let mut decoder = Decoder::default();
        let words = [
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
        ];
        for (word, wanted) in words {
            let decoded = decoder.next(FrontEnd::Vector, word);
            let line = CString::try_from_fmt(fmt!("{decoded}")).unwrap();
            assert_eq!(line.to_bytes(), wanted.as_bytes());
        }
        assert_eq!(decoder.place, 0);
    }
}
