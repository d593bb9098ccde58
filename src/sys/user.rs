// SPDX-License-Identifier: GPL-2.0-only

//! Copies small pieces of user memory into buffers that are not cleared first.
//!
//! Buffers consist of words. On ARM, the compiler must assume that a word in an array of bytes is
//! unaligned, and uses eight instructions to load it.

use super::{
    prelude::*,
    GFP_CLIENT, //
};
use core::mem::{
    size_of,
    MaybeUninit, //
};
use kernel::{
    transmute::AsBytes,
    uaccess::UserPtr, //
};

/// Size of a word, in bytes.
const WORD: usize = 4;

/// The user address in a 64-bit field. For a 32-bit program this is the low half.
#[inline]
pub(crate) fn narrow(address: u64) -> u64 {
    match super::program_bits() {
        32 => address & 0xFFFF_FFFF,
        _ => address,
    }
}

/// A buffer of up to `N` words.
pub(crate) struct UserWords<const N: usize>([MaybeUninit<u32>; N]);

impl<const N: usize> UserWords<N> {
    /// An empty buffer.
    #[inline]
    pub(crate) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; N])
    }

    /// Copies `bytes` bytes of user memory from `at`. Clears the rest of the last word. `EINVAL`:
    /// there is no room, or no such address. `EFAULT`: they cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, at: impl TryInto<usize>, bytes: usize) -> Result<&mut [u32]> {
        self.read_padded(at, bytes, bytes)
    }

    /// As [`UserWords::read`], but pads with zeros to `whole` bytes, rounded up to a word.
    #[inline]
    pub(crate) fn read_padded(
        &mut self,
        at: impl TryInto<usize>,
        bytes: usize,
        whole: usize,
    ) -> Result<&mut [u32]> {
        let at = at.try_into().map_err(|_| EINVAL)?;
        let room = self.0.get_mut(..whole.div_ceil(WORD)).ok_or(EINVAL)?;
        let length = room.len() * WORD;
        // SAFETY: These are the bytes of the words. They may be uninitialized.
        let all = unsafe {
            core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), length)
        };
        let (given, rest) = all.split_at_mut_checked(bytes).ok_or(EINVAL)?;
        UserSlice::new(UserPtr::from_addr(at), bytes)
            .reader()
            .read_raw(given)?;
        rest.fill(MaybeUninit::new(0));
        // SAFETY: `read_raw` has initialized the first part, and the line above the rest.
        Ok(unsafe { &mut *(core::ptr::from_mut(room) as *mut [u32]) })
    }
}

/// `bytes` bytes of user memory at `at`. `EINVAL`: no such address.
#[inline]
fn slice(at: impl TryInto<usize>, bytes: usize) -> Result<UserSlice> {
    let at = at.try_into().map_err(|_| EINVAL)?;
    Ok(UserSlice::new(UserPtr::from_addr(at), bytes))
}

/// Copies user memory at `at` to `words`. `EINVAL`: no such address. `EFAULT`.
pub(crate) fn get(at: impl TryInto<usize>, words: &mut [u32]) -> Result {
    let bytes = zerocopy::IntoBytes::as_mut_bytes(words);
    slice(at, bytes.len())?.reader().read_slice(bytes)
}

/// A copy of `count` bytes of user memory. Errors: as [`get`]; `ENOMEM`.
pub(crate) fn get_bytes(at: impl TryInto<usize>, count: usize) -> Result<KVec<u8>> {
    let mut bytes = KVec::new();
    slice(at, count)?
        .reader()
        .read_all(&mut bytes, GFP_CLIENT)?;
    Ok(bytes)
}

/// Copies `value` to user memory at `at`. Errors: as [`get`].
pub(crate) fn put<T: AsBytes>(at: impl TryInto<usize>, value: &T) -> Result {
    slice(at, size_of::<T>())?.writer().write(value)
}

/// Copies `bytes` to user memory at `at`. Errors: as [`get`].
pub(crate) fn put_bytes(at: impl TryInto<usize>, bytes: &[u8]) -> Result {
    slice(at, bytes.len())?.writer().write_slice(bytes)
}

/// Appends `count` words of user memory from `at` to `words`. `EFAULT`: they cannot be read.
/// `ENOMEM`. On an error `words` is unchanged.
#[inline]
pub(crate) fn append_words(words: &mut KVVec<u32>, at: usize, count: usize) -> Result {
    words.reserve(count, GFP_CLIENT)?;
    let room = words.spare_capacity_mut().get_mut(..count).ok_or(EINVAL)?;
    let length = room.len() * WORD;
    // SAFETY: These are the bytes of the words. They may be uninitialized.
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
