// SPDX-License-Identifier: GPL-2.0-only
//! Frames that multiplex several ports onto one serial line, in both directions.
//!
//! A frame consists of a port number, the length of its data in two bytes (low byte first), and the data. The line is
//! dedicated and lossless, so there is no checksum and no synchronization mark.

/// Bytes of the header.
pub const HEADER: usize = 3;

/// Maximum bytes of data in a frame.
pub const MOST: usize = u16::MAX as usize;

/// The header of a frame for a port, with `length` bytes of data, at most [`MOST`].
pub const fn header(port: u8, length: usize) -> [u8; HEADER] {
    [port, length as u8, (length >> 8) as u8]
}

/// Decoder for the bytes of a line.
#[derive(Debug, Default)]
pub struct Decoder {
    header: [u8; HEADER],
    /// Header bytes received so far.
    have: usize,
    /// Data bytes still expected.
    left: usize,
}

impl Decoder {
    /// Decodes the next bytes, in any split, and calls `data` for each port's data.
    pub fn feed(&mut self, mut bytes: &[u8], mut data: impl FnMut(u8, &[u8])) {
        while !bytes.is_empty() {
            if self.have < HEADER {
                self.header[self.have] = bytes[0];
                self.have += 1;
                bytes = &bytes[1..];
                let [_, low, high] = self.header;
                self.left = usize::from(u16::from_le_bytes([low, high]));
            } else {
                let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
                data(self.header[0], now);
                self.left -= now.len();
                bytes = rest;
            }
            if self.have == HEADER && self.left == 0 {
                self.have = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn line() -> Vec<u8> {
        let mut line = Vec::new();
        for (port, data) in [(0, &b"hello\n"[..]), (3, &[1; 300]), (0, b""), (4, b"x")] {
            line.extend(header(port, data.len()));
            line.extend(data);
        }
        line
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        for cut in [1, 2, 3, 7, 100, 1000] {
            let mut decoder = Decoder::default();
            let mut ports = [(); 5].map(|()| Vec::new());
            for part in line().chunks(cut) {
                decoder.feed(part, |port, data| {
                    ports[usize::from(port)].extend_from_slice(data)
                });
            }
            let wanted: [&[u8]; 5] = [b"hello\n", b"", b"", &[1; 300], b"x"];
            assert_eq!(ports, wanted, "cut by {cut}");
        }
    }

    #[test]
    fn a_frame_may_be_as_long_as_its_header_can_say() {
        let mut decoder = Decoder::default();
        let mut count = 0;
        decoder.feed(&header(1, MOST), |_, _| {});
        decoder.feed(&[7; MOST], |port, data| {
            assert_eq!(port, 1);
            count += data.len();
        });
        assert_eq!(count, MOST);
        decoder.feed(&header(2, 1), |_, _| {});
        decoder.feed(b"y", |port, data| assert_eq!((port, data), (2, &b"y"[..])));
    }
}
