// SPDX-License-Identifier: GPL-2.0-only

//! Small pieces of user memory, copied without clearing the room for them first.

use core::mem::MaybeUninit;
use kernel::{
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// Room for up to `N` bytes.
pub(crate) struct UserBytes<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> UserBytes<N> {
    /// Nothing yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; N])
    }

    /// Copies `bytes` bytes of user memory from `at`. `EINVAL`: there is no room. `EFAULT`: they
    /// cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, at: usize, bytes: usize) -> Result<&mut [u8]> {
        self.read_padded(at, bytes, bytes)
    }

    /// As [`UserBytes::read`], with zeros behind up to `whole` bytes.
    #[inline]
    pub(crate) fn read_padded(
        &mut self,
        at: usize,
        bytes: usize,
        whole: usize,
    ) -> Result<&mut [u8]> {
        let room = self.0.get_mut(..whole).ok_or(EINVAL)?;
        let (told, rest) = room.split_at_mut_checked(bytes).ok_or(EINVAL)?;
        UserSlice::new(UserPtr::from_addr(at), bytes)
            .reader()
            .read_raw(told)?;
        rest.fill(MaybeUninit::new(0));
        // SAFETY: `read_raw` has written the first part, and the line above the second.
        Ok(unsafe { &mut *(core::ptr::from_mut(room) as *mut [u8]) })
    }
}
