// SPDX-License-Identifier: GPL-2.0-only

//! Memory without `struct page` that the calling process has mapped: framebuffers (`/dev/fb0`), and
//! other memory that only has a physical address.

use super::prelude::*;
use super::shim;
use core::mem::MaybeUninit;
use kernel::{
    fs::File,
    io::PhysAddr, //
};

/// The most framebuffers that [`mapped`] returns.
pub(crate) const MOST: usize = 8;

/// A framebuffer, or the first part of one, that a process has mapped for writing. Holds a
/// reference of its file: the framebuffer's driver keeps the memory while the file is open.
pub(crate) struct Framebuffer {
    file: ARef<File>,
    start: PhysAddr,
    bytes: usize,
}

impl Framebuffer {
    /// First physical address.
    pub(crate) fn start(&self) -> PhysAddr {
        self.start
    }

    /// Size in bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Clones it.
    pub(crate) fn again(&self) -> Self {
        Self {
            file: self.file.clone(),
            ..*self
        }
    }

    /// Prepares it for long-term use. If possible, opens a file of its own, because closing the
    /// client's file may have effects that must not be delayed, such as the end of a lock. Calls
    /// the framebuffer's driver, which may sleep.
    pub(crate) fn kept(self) -> Self {
        // SAFETY: `self.file` holds a reference, so the file is live during the call.
        let own = unsafe { shim::gal_open_again(self.file.as_ptr().cast()) };
        let Some(own) = NonNull::new(own) else {
            return self;
        };
        Self {
            // SAFETY: This owns the reference, and the file is in no process's table.
            file: unsafe { ARef::from_raw(own.cast::<File>()) },
            ..self
        }
    }
}

/// Framebuffers that the calling process has mapped, each physically contiguous. Returns at most
/// [`MOST`], without the `known` ones, of which it uses at most [`MOST`]. Takes the lock of the
/// memory map. `EINTR`: the thread is being killed. `ENOMEM`.
pub(crate) fn mapped(known: impl Iterator<Item = (PhysAddr, usize)>) -> Result<KVec<Framebuffer>> {
    let mut all = KVec::with_capacity(MOST, GFP_KERNEL)?;
    let mut found = [const { MaybeUninit::<shim::gal_framebuffer>::uninit() }; 2 * MOST];
    let mut before = 0;
    for (place, (start, bytes)) in found.iter_mut().zip(known.take(MOST)) {
        place.write(shim::gal_framebuffer {
            file: core::ptr::null_mut(),
            start,
            bytes,
        });
        before += 1;
    }
    // SAFETY: There is room for `before + MOST` entries. The first `before` are written, and the
    // call writes its results after them. Both numbers fit.
    let count = unsafe {
        shim::gal_find_framebuffers(
            found.as_mut_ptr().cast(),
            before as u32,
            (before + MOST) as u32,
        )
    };
    kernel::error::to_result(count.min(0))?;
    // CAST: not negative.
    for one in found.iter().take(count as usize).skip(before) {
        // SAFETY: The first `count` elements are written.
        let one = unsafe { one.assume_init_read() };
        if let Some(file) = NonNull::new(one.file) {
            let framebuffer = Framebuffer {
                // SAFETY: This owns the reference. The process opened the file before it mapped it,
                // so this call has no active `fdget_pos` on it.
                file: unsafe { ARef::from_raw(file.cast::<File>()) },
                start: one.start,
                bytes: one.bytes,
            };
            // There is room.
            all.push(framebuffer, GFP_KERNEL)?;
        }
    }
    Ok(all)
}

/// The physical address of `bytes` bytes at user address `user` of the calling process. `None`,
/// unless they are memory without `struct page`, in one writable mapping, and contiguous. Takes the
/// lock of the memory map. The process may change the mapping at any time.
pub(crate) fn physical_of(user: usize, bytes: usize) -> Option<PhysAddr> {
    let mut physical = 0;
    // SAFETY: The call accepts any address, and writes only to `physical`.
    unsafe { shim::gal_physical_of(user, bytes, &mut physical) }.then_some(physical)
}

/// A number that changes when the calling process maps something.
#[inline]
pub(crate) fn stamp() -> usize {
    // SAFETY: Only reads the calling process's memory map.
    unsafe { shim::gal_mappings_stamp() }
}
