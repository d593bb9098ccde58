// SPDX-License-Identifier: GPL-2.0-only

//! The argument of the interface's ioctls: where the interface is, and where its answer goes.

use super::malformed;
use crate::{
    abi::{
        detect::{
            self,
            LONG_BLOCK,
            SHORT_BLOCK, //
        },
        Format, //
    },
    prelude::*,
    sys::{
        chrdev::Caller,
        user::UserWords, //
    }, //
};
use kernel::uaccess::UserSlice;

/// The ioctl's argument (`DRIVER_ARGS`).
pub(super) struct Argument {
    pub(super) input: usize,
    pub(super) input_bytes: u64,
    pub(super) output: usize,
    pub(super) output_bytes: u64,
}

impl Argument {
    /// The 16 bytes of the older generations.
    fn short(words: &[u32]) -> Self {
        Self {
            // CAST: 32 bits into at least 32.
            input: word(words, 0) as usize,
            input_bytes: word(words, 4).into(),
            output: word(words, 8) as usize,
            output_bytes: word(words, 12).into(),
        }
    }

    /// The 32 bytes of the newer generations.
    fn long(words: &[u32], caller: Caller) -> Self {
        let long = |at| u64::from(word(words, at)) | u64::from(word(words, at + 4)) << 32;
        // Old clients declare 32-bit pointers followed by padding, which may hold anything. Of a
        // 32-bit program use only the low halves.
        let address = |at| {
            if caller.is_32_bit() {
                // CAST: 32 bits into at least 32.
                word(words, at) as usize
            } else {
                // CAST: 64 bits into as many.
                long(at) as usize
            }
        };
        Self {
            input: address(0),
            input_bytes: long(8),
            output: address(16),
            output_bytes: long(24),
        }
    }

    /// Reads the argument of a file of generation `format`.
    #[inline(always)]
    pub(super) fn read(at: usize, format: Format, caller: Caller) -> Result<Self> {
        let mut room = UserWords::<{ LONG_BLOCK / 4 }>::new();
        // The compiler optimizes copies of constant length.
        let argument = match usize::from(format.argument_bytes()) {
            SHORT_BLOCK => room.read(at, SHORT_BLOCK).map(|words| Self::short(words)),
            _ => room
                .read(at, LONG_BLOCK)
                .map(|words| Self::long(words, caller)),
        };
        argument.map_err(|_| malformed("the argument of the ioctl", at))
    }

    /// Reads the argument of a file whose generation is unknown. Also returns its length, and the
    /// two sizes that it has if it is short.
    pub(super) fn read_any(at: usize, caller: Caller) -> Result<(Self, usize, [u32; 2])> {
        let mut room = UserWords::<{ LONG_BLOCK / 4 }>::new();
        let unreadable = |_| malformed("the argument of the ioctl", at);
        let words = room.read(at, SHORT_BLOCK).map_err(unreadable)?;
        let short_sizes = [4, 12].map(|at| word(words, at));
        // Only 32-bit programs use the short argument: its pointers have 32 bits.
        if caller.is_32_bit() && detect::is_short_block([0, 4, 8, 12].map(|at| word(words, at))) {
            return Ok((Self::short(words), SHORT_BLOCK, short_sizes));
        }
        let words = room.read(at, LONG_BLOCK).map_err(unreadable)?;
        Ok((Self::long(words, caller), LONG_BLOCK, short_sizes))
    }
}

impl Argument {
    /// Copies `bytes` bytes of `words` to the caller.
    #[inline]
    pub(super) fn answer(&self, words: &[u32], bytes: usize) -> Result {
        let answer = zerocopy::IntoBytes::as_bytes(words)
            .get(..bytes)
            .ok_or(Error::Envelope)?;
        UserSlice::new(UserPtr::from_addr(self.output), bytes)
            .writer()
            .write_slice(answer)
            .map_err(|_| malformed("room for the answer", self.output))
    }
}

/// The word at a byte offset; 0 out of range.
pub(super) fn word(words: &[u32], at: usize) -> u32 {
    words.get(at / 4).copied().unwrap_or(0)
}
