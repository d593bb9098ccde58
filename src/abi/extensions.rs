// SPDX-License-Identifier: GPL-2.0-only

//! Russell King's ioctls, for etna_viv and xf86-video-armada, which map a dma-buf, or the caller's
//! memory, for the GPU.
//!
//! They use the interface's envelope, but their own structures. Their status has the same offset as
//! in the generation's header, except in the oldest form. Pure logic. Source: sources.md,
//! generations.

use super::{
    codec::Format,
    layout::{
        long,
        word,
        Field, //
    }, //
};
use crate::prelude::*;

/// Bytes of the largest structure.
pub(crate) const MAX_EXTENSION_BYTES: usize = 96;

/// `PROT_READ` and `PROT_WRITE`.
const READ: u32 = 1;
const WRITE: u32 = 2;

/// An extension ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// `IOC_GDMABUF_MAP`.
    DmaBuf,
    /// `IOC_GMEMBUF_MAP`.
    UserMemory,
    /// The first form of `IOC_GDMABUF_MAP`, for earlier X drivers.
    OldDmaBuf,
}

/// Foreign memory to map for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    DmaBuf {
        /// The caller's descriptor.
        fd: i32,
    },
    /// The caller's memory, at a user address.
    User { user: u64, bytes: u64 },
}

/// The arguments of the ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImportRequest {
    pub(crate) what: Foreign,
    /// The GPU may write it.
    pub(crate) write: bool,
}

impl Extension {
    /// The extension for an ioctl code.
    pub(crate) fn of(code: u32) -> Option<Self> {
        match code {
            0xC058_5F00 => Some(Extension::DmaBuf),
            0xC060_5F01 => Some(Extension::UserMemory),
            0xC014_5F00 => Some(Extension::OldDmaBuf),
            _ => None,
        }
    }

    /// Bytes of the structure.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Extension::DmaBuf => 88,
            Extension::UserMemory => 96,
            Extension::OldDmaBuf => 20,
        }
    }

    /// Reads the structure. `InvalidArgument`: unknown access bits.
    pub(crate) fn decode(self, words: &[u32]) -> Result<ImportRequest, Error> {
        // CAST: the bits of a signed field.
        let dma_buf = |fd: Field| Foreign::DmaBuf {
            fd: fd.word(words) as i32,
        };
        let (what, access) = match self {
            Extension::OldDmaBuf => (dma_buf(word(8)), READ | WRITE),
            Extension::DmaBuf => (dma_buf(word(80)), word(84).word(words)),
            Extension::UserMemory => {
                let what = Foreign::User {
                    user: sys::user::narrow(long(80).long(words)),
                    bytes: word(88).long(words),
                };
                (what, word(92).word(words))
            }
        };
        if access == 0 || access & !(READ | WRITE) != 0 {
            return Err(Error::InvalidArgument);
        }
        Ok(ImportRequest {
            what,
            write: access & WRITE != 0,
        })
    }

    /// Writes the answer: the memory's handle and GPU address, or the error.
    pub(crate) fn encode(
        self,
        words: &mut [u32],
        format: Format,
        answer: Result<(u32, u32), Error>,
    ) {
        // CAST: the bits of a signed field.
        let status = answer.map_or_else(|error| error.status() as u32, |_| 0);
        let (info_at, address_at) = match self {
            Extension::OldDmaBuf => {
                word(4).put(words, status);
                (word(12), word(16))
            }
            Extension::DmaBuf | Extension::UserMemory => {
                format.put_status(words, status);
                (long(64), long(72))
            }
        };
        if let Ok((info, address)) = answer {
            info_at.put(words, info);
            address_at.put(words, address);
        }
    }
}

#[kernel::macros::kunit_tests(galcore_extensions)]
mod tests {
    use super::{
        super::layout::LAYOUTS,
        *, //
    };

    fn format(name: &str) -> Format {
        Format(LAYOUTS.iter().find(|layout| layout.name == name).unwrap())
    }

    #[test]
    fn structures_are_decoded_as_clients_write_them() {
        let mut words = [0; MAX_EXTENSION_BYTES / 4];
        (words[80 / 4], words[84 / 4]) = (7, 3);
        let dma_buf = Foreign::DmaBuf { fd: 7 };
        let import = |what, write| Ok(ImportRequest { what, write });
        assert_eq!(Extension::DmaBuf.decode(&words), import(dma_buf, true));
        words[84 / 4] = 1;
        assert_eq!(Extension::DmaBuf.decode(&words), import(dma_buf, false));
        for access in [0, 4, 7] {
            words[84 / 4] = access;
            let refused = Extension::DmaBuf.decode(&words);
            assert_eq!(refused, Err(Error::InvalidArgument));
        }
        (words[80 / 4], words[84 / 4]) = (0x1000, 1);
        (words[88 / 4], words[92 / 4]) = (64, 2);
        let user = Foreign::User {
            user: sys::user::narrow(0x1_0000_1000),
            bytes: 64,
        };
        assert_eq!(Extension::UserMemory.decode(&words), import(user, true));
        words[2] = u32::MAX;
        let none = Foreign::DmaBuf { fd: -1 };
        assert_eq!(Extension::OldDmaBuf.decode(&words), import(none, true));
    }

    #[test]
    fn the_status_is_where_the_generation_has_it() {
        for (name, status_at) in [("dove", 4), ("v4", 8)] {
            let mut words = [9; 88 / 4];
            Extension::DmaBuf.encode(&mut words, format(name), Ok((5, 0x8000_0000)));
            assert_eq!(words[status_at / 4], 0);
            assert_eq!(words[16..20], [5, 0, 0x8000_0000, 0]);
            Extension::DmaBuf.encode(&mut words, format(name), Err(Error::OutOfMemory));
            assert_eq!(words[status_at / 4], 0xFFFF_FFFD);
            assert_eq!(words[16], 5);
        }
        let mut words = [9; 5];
        Extension::OldDmaBuf.encode(&mut words, format("v4"), Ok((5, 6)));
        assert_eq!(words, [9, 0, 9, 5, 6]);
    }
}
