// SPDX-License-Identifier: GPL-2.0-only
//! Splits the guest's output streams by program, and its messages by line.

/// Splits a stream at the marks that `/init` writes after each program.
pub struct Splitter {
    /// Start of a mark: separator, nonce, blank.
    start: Vec<u8>,
    pending: Vec<u8>,
}

/// What a [`Splitter`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Output of the current program.
    Bytes(Vec<u8>),
    /// The program with this number has ended. Later output belongs to the next one.
    Mark(usize),
}

/// Delimiter of a mark.
const SEPARATOR: u8 = 0x1e;

/// Maximum number of digits of a program's number in a mark.
const MOST_DIGITS: usize = 8;

impl Splitter {
    /// Creates a splitter for marks with this nonce, which programs cannot guess.
    pub fn new(nonce: &str) -> Splitter {
        let mut start = vec![SEPARATOR];
        start.extend_from_slice(nonce.as_bytes());
        start.push(b' ');
        Splitter {
            start,
            pending: Vec::new(),
        }
    }

    /// Processes bytes. Bytes that may start a mark are held back.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.pending.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while let Some(at) = self.pending.iter().position(|&b| b == SEPARATOR) {
            self.take(at, &mut pieces);
            match self.mark() {
                Mark::Whole(length, task) => {
                    self.pending.drain(..length);
                    pieces.push(Piece::Mark(task));
                }
                Mark::Partial => return pieces,
                Mark::No => self.take(1, &mut pieces),
            }
        }
        self.take(self.pending.len(), &mut pieces);
        pieces
    }

    /// Returns the bytes held back, at the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    fn take(&mut self, count: usize, pieces: &mut Vec<Piece>) {
        if count == 0 {
            return;
        }
        let bytes = self.pending.drain(..count);
        match pieces.last_mut() {
            Some(Piece::Bytes(before)) => before.extend(bytes),
            _ => pieces.push(Piece::Bytes(bytes.collect())),
        }
    }

    /// Classifies the start of the pending bytes.
    fn mark(&self) -> Mark {
        let common = self.start.len().min(self.pending.len());
        if self.pending[..common] != self.start[..common] {
            return Mark::No;
        }
        let digits = &self.pending[common..];
        let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == digits.len() && count <= MOST_DIGITS {
            return Mark::Partial;
        }
        let number = std::str::from_utf8(&digits[..count]).ok();
        match (digits.get(count), number.and_then(|text| text.parse().ok())) {
            (Some(&SEPARATOR), Some(task)) => Mark::Whole(common + count + 1, task),
            _ => Mark::No,
        }
    }
}

enum Mark {
    Whole(usize, usize),
    Partial,
    No,
}

/// Splits bytes into lines.
#[derive(Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Processes bytes. Returns the lines that they complete, without line ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.pending);
                    lines.push(String::from_utf8_lossy(&line).into_owned());
                }
                b'\r' => {}
                _ => self.pending.push(byte),
            }
        }
        lines
    }

    /// Returns the unfinished last line, at the end of the stream.
    pub fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.pending);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Piece {
        Piece::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn marks_cut_the_stream() {
        let mut splitter = Splitter::new("abc");
        assert_eq!(
            splitter.feed(b"one\x1eabc 0\x1etwo\x1eabc 1\x1e"),
            [bytes("one"), Piece::Mark(0), bytes("two"), Piece::Mark(1)]
        );
    }

    #[test]
    fn marks_may_come_byte_by_byte() {
        let mut splitter = Splitter::new("abc");
        let mut pieces = Vec::new();
        for byte in b"x\x1eabc 12\x1ey" {
            pieces.extend(splitter.feed(&[*byte]));
        }
        assert_eq!(pieces, [bytes("x"), Piece::Mark(12), bytes("y")]);
    }

    #[test]
    fn what_only_looks_like_a_mark_passes_through() {
        let mut splitter = Splitter::new("abc");
        assert_eq!(
            splitter.feed(b"a\x1e\x1eabd 1\x1eabc x\x1e..."),
            [bytes("a\x1e\x1eabd 1\x1eabc x\x1e...")]
        );
        assert_eq!(splitter.feed(b"end\x1eab"), [bytes("end")]);
        assert_eq!(splitter.rest(), b"\x1eab");
    }

    #[test]
    fn lines_come_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"one\r\ntw"), ["one"]);
        assert_eq!(lines.feed(b"o\n\n"), ["two", ""]);
        assert_eq!(lines.feed(b"three"), Vec::<String>::new());
        assert_eq!(lines.rest().as_deref(), Some("three"));
        assert_eq!(lines.rest(), None);
    }
}
