// SPDX-License-Identifier: GPL-2.0-only

//! The file format of etnaviv's dumps, which existing tools read.
//!
//! Pure logic. The file begins with a table of object headers of 32 bytes: magic, type, offset of
//! the object in the file and its bytes (32 bits each), its GPU address (64 bits), and two words,
//! the first of which is the index of a buffer object's first page in the list of pages. All is
//! little endian. Tools stop at the type END and have no names for unknown types: so our own types
//! come after END.

use crate::prelude::*;

const HEADER_BYTES: usize = 32;

/// First word of each header: "ETNA" as bytes.
const MAGIC: u32 = 0x414E_5445;

const ALIGNMENT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Registers: pairs of byte offset and value.
    Registers = 0,
    Mmu = 1,
    /// The kernel's ring.
    Ring = 2,
    Commands = 3,
    /// Bus addresses of the buffer objects' pages, 64 bits each.
    Pages = 4,
    Buffer = 5,
    /// The end, for tools.
    End = 6,
    /// Ours: text, one fact a line.
    Text = 0x100,
}

/// Bytes of an object up to the next.
const fn padded(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGNMENT)
}

/// Bytes of a file with objects of these bytes, without END. `None`: too large.
pub(super) fn file_bytes(mut objects: impl Iterator<Item = usize>) -> Option<usize> {
    objects
        .try_fold(HEADER_BYTES, |sum: usize, bytes| {
            sum.checked_add(HEADER_BYTES)?.checked_add(padded(bytes)?)
        })
        // Headers have 32 bits.
        .filter(|&sum| u32::try_from(sum).is_ok())
}

/// A file that is being written.
pub(super) struct Writer<'a> {
    file: &'a mut [u8],
    /// Where the next header goes, and where the table ends.
    header: usize,
    headers_end: usize,
    /// Where the next object goes.
    end: usize,
}

impl<'a> Writer<'a> {
    /// A writer with room for `objects` objects and END in `file`, which holds zeros.
    pub(super) fn new(file: &'a mut [u8], objects: usize) -> Self {
        let headers_end = (objects + 1) * HEADER_BYTES;
        Self {
            file,
            header: 0,
            headers_end,
            end: headers_end,
        }
    }

    /// Adds an object of `bytes` bytes at GPU address `address`, whose pages begin at index
    /// `pages`; returns the place for its bytes. `None`: there is no room, and nothing has changed.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        address: u64,
        pages: u32,
        bytes: usize,
    ) -> Option<&mut [u8]> {
        let end = self.end.checked_add(padded(bytes)?)?;
        let next = self.header + HEADER_BYTES;
        if end > self.file.len() || next > self.headers_end {
            return None;
        }
        let (at, size) = (u32::try_from(self.end).ok()?, u32::try_from(bytes).ok()?);
        let header = self.file.get_mut(self.header..next)?;
        // CAST: the kinds' numbers.
        for (to, word) in header
            .chunks_exact_mut(4)
            .zip([MAGIC, kind as u32, at, size])
        {
            to.copy_from_slice(&word.to_le_bytes());
        }
        header[16..24].copy_from_slice(&address.to_le_bytes());
        header[24..28].copy_from_slice(&pages.to_le_bytes());
        self.header = next;
        let start = core::mem::replace(&mut self.end, end);
        self.file.get_mut(start..start + bytes)
    }

    /// Bytes of the file.
    pub(super) fn finish(self) -> usize {
        self.end
    }
}

#[kunit_tests(galcore_etdump)]
mod tests {
    use super::*;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
    }

    #[test]
    fn headers_say_where_objects_are() {
        let sizes = [8, 13, 4];
        let bytes = file_bytes(sizes.into_iter()).unwrap();
        assert_eq!(bytes, 4 * 32 + 8 + 16 + 8);
        let mut file = [0u8; 160];
        let mut writer = Writer::new(&mut file, sizes.len());
        let registers = writer.add(Kind::Registers, 0, 0, 8).unwrap();
        registers.copy_from_slice(&[0x18, 0, 0, 0, 1, 2, 3, 4]);
        let buffer = writer.add(Kind::Buffer, 0x8000_1000, 7, 13).unwrap();
        assert_eq!(buffer.len(), 13);
        buffer.fill(0xAA);
        assert!(writer.add(Kind::End, 0, 0, 0).is_some());
        writer
            .add(Kind::Text, 0, 0, 4)
            .unwrap()
            .copy_from_slice(b"a: b");
        // The table is full.
        assert!(writer.add(Kind::Text, 0, 0, 0).is_none());
        assert_eq!(writer.finish(), bytes);
        let header = |number: usize| -> [u32; 8] {
            core::array::from_fn(|at| word(&file, number * 32 + at * 4))
        };
        assert_eq!(&file[..4], b"ETNA");
        assert_eq!(header(0), [MAGIC, 0, 128, 8, 0, 0, 0, 0]);
        assert_eq!(header(1), [MAGIC, 5, 136, 13, 0x8000_1000, 0, 7, 0]);
        assert_eq!(header(2), [MAGIC, 6, 152, 0, 0, 0, 0, 0]);
        assert_eq!(header(3), [MAGIC, 0x100, 152, 4, 0, 0, 0, 0]);
        assert_eq!(word(&file, 132), 0x0403_0201);
        assert_eq!(file[136..149], [0xAA; 13]);
        assert_eq!(file[149..152], [0; 3]);
        assert_eq!(&file[152..156], b"a: b");
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut file = [0u8; 96];
        let mut writer = Writer::new(&mut file, 2);
        assert!(writer.add(Kind::Buffer, 0, 0, 1).is_none());
        assert!(writer.add(Kind::Buffer, 0, 0, usize::MAX).is_none());
        assert!(writer.add(Kind::End, 0, 0, 0).is_some());
        assert_eq!(writer.finish(), 96);
        assert_eq!(&file[..8], b"ETNA\x06\0\0\0");
        assert_eq!(file[32..], [0; 64]);
    }

    #[test]
    fn no_file_is_larger_than_its_headers_can_say() {
        assert!(file_bytes([usize::MAX].into_iter()).is_none());
        assert!(file_bytes([usize::MAX - 100, 200].into_iter()).is_none());
        assert!(file_bytes([0x8000_0000, 0x8000_0000].into_iter()).is_none());
        assert_eq!(file_bytes(core::iter::empty()), Some(32));
    }
}
