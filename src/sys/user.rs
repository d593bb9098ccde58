// SPDX-License-Identifier: GPL-2.0-only

//! Small pieces of user memory, copied without clearing the room for them first.
//!
//! Rooms are of words: on ARM the compiler may not assume that it can load what lies at an odd
//! place in one go, so that a word of an array of bytes takes it eight instructions.

use super::GFP_CLIENT;
use core::mem::MaybeUninit;
use kernel::{
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// Bytes of a word.
const WORD: usize = 4;

/// What counts of a 64-bit field that holds a user address: of a 32-bit program the low half.
#[inline]
pub(crate) fn narrow(address: u64) -> u64 {
    match super::program_bits() {
        32 => address & 0xFFFF_FFFF,
        _ => address,
    }
}

/// Room for up to `N` words.
pub(crate) struct UserWords<const N: usize>([MaybeUninit<u32>; N]);

impl<const N: usize> UserWords<N> {
    /// Without words.
    #[inline]
    pub(crate) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; N])
    }

    /// Copies `bytes` bytes of user memory from `at`; what they leave of the last word is 0.
    /// `EINVAL`: there is no room. `EFAULT`: they cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, at: usize, bytes: usize) -> Result<&mut [u32]> {
        self.read_padded(at, bytes, bytes)
    }

    /// As [`UserWords::read`], padded with zeros up to `whole` bytes, and to the end of a word.
    #[inline]
    pub(crate) fn read_padded(
        &mut self,
        at: usize,
        bytes: usize,
        whole: usize,
    ) -> Result<&mut [u32]> {
        let room = self.0.get_mut(..whole.div_ceil(WORD)).ok_or(EINVAL)?;
        let length = room.len() * WORD;
        // SAFETY: these are the words' bytes, which may hold anything.
        let all = unsafe {
            core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), length)
        };
        let (given, rest) = all.split_at_mut_checked(bytes).ok_or(EINVAL)?;
        UserSlice::new(UserPtr::from_addr(at), bytes)
            .reader()
            .read_raw(given)?;
        rest.fill(MaybeUninit::new(0));
        // SAFETY: `read_raw` has written the first part, and the line above the second.
        Ok(unsafe { &mut *(core::ptr::from_mut(room) as *mut [u32]) })
    }
}

/// Appends `count` words of user memory from `at` to `words`. `EFAULT`: they cannot be read.
/// `ENOMEM`. Then there are no more than before.
#[inline]
pub(crate) fn append_words(words: &mut KVVec<u32>, at: usize, count: usize) -> Result {
    words.reserve(count, GFP_CLIENT)?;
    let room = words.spare_capacity_mut().get_mut(..count).ok_or(EINVAL)?;
    let length = room.len() * WORD;
    // SAFETY: these are the words' bytes, which may hold anything.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), length)
    };
    UserSlice::new(UserPtr::from_addr(at), length)
        .reader()
        .read_raw(bytes)?;
    // SAFETY: `read_raw` returned without an error, so all `count` words are written.
    unsafe { words.inc_len(count) };
    Ok(())
}
