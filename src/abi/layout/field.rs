// SPDX-License-Identifier: GPL-2.0-only

//! A field of a structure: where it is, and how it is read and written.

/// A field of 4 or 8 bytes, or absent; in CHIP_INFO also of 1 or 2 ([`Field::put_narrow`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field(u16);

/// Bits of a [`Field`] for its size; the offset is above them.
const BYTES_BITS: u32 = 4;

/// A field of 1 byte.
pub(super) const fn byte(at: u16) -> Field {
    Field::new(at, 1)
}

/// A field of 2 bytes.
pub(super) const fn half(at: u16) -> Field {
    Field::new(at, 2)
}

/// A field of 4 bytes.
pub(crate) const fn word(at: u16) -> Field {
    Field::new(at, 4)
}

/// A field of 8 bytes.
pub(crate) const fn long(at: u16) -> Field {
    Field::new(at, 8)
}

/// A field that the generation does not have.
pub(super) const ABSENT: Field = Field(0);

impl Field {
    /// Only for constants: an offset that is too large does not compile.
    const fn new(at: u16, bytes: u16) -> Self {
        assert!(at <= u16::MAX >> BYTES_BITS && bytes < 1 << BYTES_BITS);
        Self(at << BYTES_BITS | bytes)
    }

    #[inline(always)]
    const fn offset(self) -> u16 {
        self.0 >> BYTES_BITS
    }

    #[inline(always)]
    const fn bytes(self) -> u16 {
        self.0 & ((1 << BYTES_BITS) - 1)
    }

    /// Whether the generation has it.
    pub(crate) fn exists(self) -> bool {
        self.bytes() != 0
    }

    /// Its offset.
    pub(crate) fn at(self) -> u64 {
        self.offset().into()
    }

    /// Its offset and its size in bytes.
    #[cfg(test)]
    pub(crate) fn place(self) -> (usize, usize) {
        (self.offset().into(), self.bytes().into())
    }

    /// The end of the field.
    pub(crate) const fn end(self) -> usize {
        // CAST: 16 bits; `from` is not const.
        self.offset() as usize + self.bytes() as usize
    }

    /// Element `index` of the array that starts with this field.
    pub(crate) fn nth(self, index: u16) -> Self {
        self.plus(self.bytes() * index)
    }

    /// The field `bytes` after it, if it exists.
    pub(crate) fn plus(self, bytes: u16) -> Self {
        if self.exists() {
            Self(self.0 + (bytes << BYTES_BITS))
        } else {
            self
        }
    }

    /// Its low 32 bits, 0 if it does not exist.
    #[inline]
    pub(crate) fn word(self, words: &[u32]) -> u32 {
        if self.bytes() == 0 {
            return 0;
        }
        word_at(words, self.offset().into())
    }

    /// Its value, 0 if it does not exist.
    #[inline]
    pub(crate) fn long(self, words: &[u32]) -> u64 {
        let at = usize::from(self.offset());
        match self.bytes() {
            0 => 0,
            4 => word_at(words, at).into(),
            _ => u64::from(word_at(words, at)) | u64::from(word_at(words, at + 4)) << 32,
        }
    }

    /// The words from the field on.
    pub(crate) fn words_from(self, words: &[u32]) -> &[u32] {
        words
            .get(usize::from(self.offset()) / 4..)
            .unwrap_or_default()
    }

    /// Its value as a handle. All ones, which is no handle, if the value does not fit 32 bits.
    #[inline]
    pub(crate) fn handle(self, words: &[u32]) -> u32 {
        u32::try_from(self.long(words)).unwrap_or(u32::MAX)
    }

    /// Writes 32 bits, and clears the high half of a 64-bit field.
    #[inline]
    pub(crate) fn put(self, words: &mut [u32], value: u32) {
        self.put_long(words, value.into());
    }

    /// Writes 64 bits, or the low half into a 32-bit field.
    #[inline]
    pub(crate) fn put_long(self, words: &mut [u32], value: u64) {
        let at = usize::from(self.offset());
        // CAST: the two halves.
        match self.bytes() {
            0 => {}
            4 => put_word_at(words, at, value as u32),
            _ => {
                put_word_at(words, at, value as u32);
                put_word_at(words, at + 4, (value >> 32) as u32);
            }
        }
    }

    /// Writes a field that may have 1 or 2 bytes: the low bytes of `value`.
    pub(crate) fn put_narrow(self, words: &mut [u32], value: u32) {
        let mask = match self.bytes() {
            1 => 0xFF,
            2 => 0xFFFF,
            _ => return self.put(words, value),
        };
        let shift = u32::from(self.offset()) % 4 * 8;
        if let Some(word) = words.get_mut(usize::from(self.offset()) / 4) {
            *word = *word & !(mask << shift) | (value & mask) << shift;
        }
    }

    /// Whether it is inside `bytes` bytes and aligned to its size.
    pub(super) const fn is_sound(self, bytes: u16) -> bool {
        match self.bytes() {
            0 => self.offset() == 0,
            1 | 2 | 4 | 8 => self.offset() % self.bytes() == 0 && self.end() <= bytes as usize,
            _ => false,
        }
    }

    pub(super) const fn overlaps(self, other: Self) -> bool {
        let (first, second) = (self.offset() as usize, other.offset() as usize);
        first < other.end() && second < self.end()
    }
}

/// The word at a byte offset; 0 out of range. No layout has such an offset.
#[inline]
fn word_at(words: &[u32], at: usize) -> u32 {
    words.get(at / 4).copied().unwrap_or(0)
}

#[inline]
fn put_word_at(words: &mut [u32], at: usize, value: u32) {
    if let Some(word) = words.get_mut(at / 4) {
        *word = value;
    }
}
