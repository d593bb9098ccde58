// SPDX-License-Identifier: GPL-2.0-only

//! Bytes to requests, replies to bytes, for any [`Layout`].

mod allocations;
mod decode;
mod encode;
mod profiler;
pub(super) mod records;
mod tests;

use super::{
    layout::{
        counters::CountersLayout,
        vector::COMMAND_BUFFER_INFO,
        Command,
        CommandBufferLayout,
        Field,
        IdentityLayout,
        IdentityWord,
        Layout,
        UnknownSignal,
        COMMAND,
        LAYOUTS,
        LOCK_PARTS,
        POOL_BYTES,
        UNLOCK_PARTS, //
    },
    *, //
};
use crate::{
    limits::{
        FULL_SCALE,
        MAX_CORES, //
    },
    prelude::*,
    sys, //
};

/// Requests of TIMESTAMP.
const TIMESTAMP_STOP: u32 = 0;
const TIMESTAMP_START: u32 = 1;
const TIMESTAMP_QUERY: u32 = 2;

/// The pool's name in QUERY_VIDEO_MEMORY, in generations with a name. No buffer's handle has these
/// low 15 bits.
pub(super) const POOL_NAME: u32 = 0x7FFF_F000;

/// `gcePOOL`.
const POOL_UNKNOWN: u32 = 0;
const POOL_DEFAULT: u32 = 1;
const POOL_LOCAL: u32 = 2;
const POOL_UNIFIED: u32 = 5;
const POOL_SYSTEM: u32 = 6;
const POOL_VIRTUAL: u32 = 7;
const POOL_CONTIGUOUS: u32 = 9;
const POOL_DEFAULT_FORCE_CONTIGUOUS: u32 = 10;
const POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE: u32 = 11;
/// Marvell's pool for command buffers.
const POOL_CMDBUF: u32 = 12;

/// The pool for a request for pool DEFAULT with flags for contiguous or cacheable memory.
pub(crate) fn default_pool(is_contiguous: bool, is_cacheable: bool) -> u32 {
    match (is_contiguous, is_cacheable) {
        (true, true) => POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE,
        (true, false) => POOL_DEFAULT_FORCE_CONTIGUOUS,
        // The pool has no cached mappings.
        (false, true) => POOL_VIRTUAL,
        (false, false) => POOL_DEFAULT,
    }
}

/// Words of DEBUG's text.
const MESSAGE_WORDS: usize = 20;

/// A handle of a generation of the interface, for decoding and encoding.
#[derive(Clone, Copy)]
pub(crate) struct Format(pub(super) &'static Layout);

impl Format {
    /// Any generation, for use if none is selected.
    pub(crate) fn any() -> Self {
        Self(&LAYOUTS[0])
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Format {}

impl core::fmt::Debug for Format {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A field with a user address.
pub(super) trait UserField {
    /// The address. Ignores the high half for 32-bit programs: they sign-extend addresses, or have
    /// stale data there.
    fn user(self, words: &[u32]) -> u64;
}

impl UserField for Field {
    #[inline]
    fn user(self, words: &[u32]) -> u64 {
        sys::user::narrow(self.long(words))
    }
}

impl Format {
    /// The name of the generation.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Bytes of the ioctl argument.
    pub(crate) fn argument_bytes(self) -> u16 {
        self.0.argument_bytes
    }

    /// Whether it accepts an interface of `input` bytes with an answer of `output` bytes.
    pub(crate) fn takes(self, input: u64, output: u64) -> bool {
        self.0.takes(input, output)
    }

    /// Whether a signal belongs to the process that created it, and has no reference count.
    pub(crate) fn signals_have_owners(self) -> bool {
        !self.0.quirks.maps_signals
    }

    /// Bytes of the interface, in the headers' default build.
    pub(crate) fn interface_bytes(self) -> usize {
        self.0.sizes[0].into()
    }

    /// Whether clients may send a shorter interface.
    pub(crate) fn may_be_shorter(self) -> bool {
        self.0.may_be_shorter
    }

    /// The kind of the target core, in the generation's numbers.
    #[inline]
    pub(crate) fn hardware_type(self, words: &[u32]) -> u32 {
        self.0.header.hardware_type.word(words)
    }

    /// Whether the request is valid for every kind of core, such as CHIP_INFO, which clients send
    /// to find the cores.
    pub(crate) fn is_for_any_type(self, request: &Request) -> bool {
        match request {
            Request::ChipInfo => true,
            Request::Version | Request::SetTimeout { .. } => {
                self.0.hardware.routing != Routing::Type
            }
            _ => false,
        }
    }

    /// The target core of the command.
    #[inline]
    pub(crate) fn core(self, words: &[u32]) -> CoreSelector {
        CoreSelector::new(
            &self.0.hardware,
            self.hardware_type(words),
            self.0.header.core_index.word(words),
        )
    }

    /// The C headers' name of the command, without its `gcvHAL_`; empty: unknown number.
    pub(crate) fn command_name(self, words: &[u32]) -> &'static str {
        self.command(words).c_name()
    }

    /// Whether the command is for a vector graphics core.
    #[inline]
    fn is_for_vector(self, words: &[u32]) -> bool {
        self.hardware_type(words) == u32::from(self.0.hardware.vector)
    }

    #[inline]
    fn command(self, words: &[u32]) -> Command {
        self.0.command(COMMAND.word(words))
    }

    fn union(self, words: &[u32]) -> &[u32] {
        words
            .get(usize::from(self.0.union_at) / 4..)
            .unwrap_or_default()
    }

    fn union_mut(self, words: &mut [u32]) -> &mut [u32] {
        words
            .get_mut(usize::from(self.0.union_at) / 4..)
            .unwrap_or_default()
    }

    /// Whether no client of the generation sends the command: it is unknown, only for queues, or
    /// unused by libraries.
    pub(crate) fn is_never_sent(self, words: &[u32]) -> bool {
        let quirks = &self.0.quirks;
        match self.command(words) {
            Command::Unknown => quirks.gpu_stuck == 0 || COMMAND.word(words) != quirks.gpu_stuck,
            Command::AllocateVideoMemory => !quirks.allocates_surfaces,
            Command::CommitDone => !quirks.takes_commit_done,
            Command::Signal
            | Command::WriteData
            | Command::SetIdle
            | Command::MapPhysical
            | Command::SyncPoint
            | Command::ReadRegisterEx
            | Command::WriteRegisterEx
            | Command::DestroyMmu => true,
            _ => false,
        }
    }

    /// The text in the arguments of DEBUG or SET_PROFILE_SETTING.
    #[cold]
    pub(crate) fn text(self, words: &[u32]) -> Text {
        let (field, count) = match self.command(words) {
            Command::Debug => (self.0.debug.message, MESSAGE_WORDS),
            _ => (self.0.set_profile.name, MAX_TEXT_WORDS),
        };
        let mut text = Text([0; MAX_TEXT_WORDS]);
        if field.exists() {
            let found = field.words_from(self.union(words)).iter().take(count);
            text.0
                .iter_mut()
                .zip(found)
                .for_each(|(to, from)| *to = *from);
        }
        text
    }

    /// The status word in the request: the number of a restarted call, else any value, because the
    /// status is an output.
    #[inline]
    pub(crate) fn status(self, words: &[u32]) -> u32 {
        self.0.header.status.word(words)
    }

    /// The byte offset of the status.
    pub(crate) fn status_at(self) -> usize {
        // CAST: 16 bits.
        self.0.header.status.at() as usize
    }

    /// Writes the status.
    #[inline]
    pub(super) fn put_status(self, words: &mut [u32], status: u32) {
        self.0.header.status.put(words, status);
        if self.0.user_signal.status.exists() && self.command(words) == Command::UserSignal {
            self.put_wait_status(words);
        }
    }
}

/// The identity of a core, by [`IdentityWord`]; 0: unknown. Constant after probe.
#[derive(Debug)]
pub(crate) struct IdentityWords(pub(crate) [u32; IdentityWord::COUNT]);
