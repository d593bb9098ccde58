// SPDX-License-Identifier: GPL-2.0-only

//! Bytes to requests, replies to bytes, for any [`Layout`].

mod decode;
mod encode;
mod profiler;
pub(super) mod records;
mod tests;

use super::{
    layout::{
        counters::CountersLayout,
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
    vector::COMMAND_BUFFER_INFO,
    *, //
};
use crate::{
    error::{
        Error,
        Result, //
    },
    limits::{
        FULL_SCALE,
        MAX_CORES, //
    },
    sys, //
};

/// TIMESTAMP's requests.
const TIMESTAMP_STOP: u32 = 0;
const TIMESTAMP_START: u32 = 1;
const TIMESTAMP_QUERY: u32 = 2;

/// What QUERY_VIDEO_MEMORY calls the pool where it has a name: no buffer's handle has these low 15
/// bits.
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
/// Marvell's, for command buffers.
const POOL_CMDBUF: u32 = 12;

/// The pool that a request for pool DEFAULT means which wants memory in one piece, or for the CPU's
/// cache.
pub(crate) fn default_pool(is_contiguous: bool, is_cacheable: bool) -> u32 {
    match (is_contiguous, is_cacheable) {
        (true, true) => POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE,
        (true, false) => POOL_DEFAULT_FORCE_CONTIGUOUS,
        // The pool is never shown cached.
        (false, true) => POOL_VIRTUAL,
        (false, false) => POOL_DEFAULT,
    }
}

/// Words of a text that DEBUG prints.
const MESSAGE_WORDS: usize = 20;

/// A generation of the interface, as those see it who only decode by it.
#[derive(Clone, Copy)]
pub(crate) struct Format(pub(super) &'static Layout);

impl Format {
    /// One of them, where none is spoken.
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

/// A field that holds an address of the client's.
pub(super) trait UserField {
    /// The address. Of a 32-bit program only the low half counts: such programs sign-extend
    /// addresses, or leave what was there in the other half.
    fn user(self, words: &[u32]) -> u64;
}

impl UserField for Field {
    #[inline]
    fn user(self, words: &[u32]) -> u64 {
        sys::user::narrow(self.long(words))
    }
}

impl Format {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Bytes of its ioctl argument.
    pub(crate) fn argument_bytes(self) -> u16 {
        self.0.argument_bytes
    }

    /// Whether it takes an interface of `input` bytes, answered in `output` bytes.
    pub(crate) fn takes(self, input: u64, output: u64) -> bool {
        self.0.takes(input, output)
    }

    /// Whether a signal is the process's alone that has created it, and is not counted.
    pub(crate) fn signals_have_owners(self) -> bool {
        !self.0.quirks.maps_signals
    }

    /// Bytes of its interface, in the headers' default build.
    pub(crate) fn interface_bytes(self) -> usize {
        self.0.sizes[0].into()
    }

    /// Whether interfaces may be shorter than its own.
    pub(crate) fn may_be_shorter(self) -> bool {
        self.0.may_be_shorter
    }

    /// The kind of core that the command is for, as the generation numbers it.
    #[inline]
    pub(crate) fn hardware_type(self, words: &[u32]) -> u32 {
        self.0.header.hardware_type.word(words)
    }

    /// Whether the request is answered before anybody looks at the kind of core: by CHIP_INFO
    /// clients ask which there are.
    pub(crate) fn is_for_any_type(self, request: &Request) -> bool {
        match request {
            Request::ChipInfo => true,
            Request::Version | Request::SetTimeout { .. } => {
                self.0.hardware.routing != Routing::Type
            }
            _ => false,
        }
    }

    /// The core that the command is for.
    #[inline]
    pub(crate) fn core(self, words: &[u32]) -> CoreSelector {
        CoreSelector::new(
            &self.0.hardware,
            self.hardware_type(words),
            self.0.header.core_index.word(words),
        )
    }

    /// The C headers' name of the command, without its `gcvHAL_`; empty: the generation has none of
    /// this number.
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

    /// Whether it is a command that no client of the generation sends: none at all, one that only
    /// queues have, or that libraries do without.
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

    /// The text that DEBUG or SET_PROFILE_SETTING has.
    #[cold]
    pub(crate) fn text(self, words: &[u32]) -> Text {
        let (field, count) = match self.command(words) {
            Command::Debug => (self.0.debug.message, MESSAGE_WORDS),
            _ => (self.0.set_profile.name, MAX_TEXT_WORDS),
        };
        let mut text = Text([0; MAX_TEXT_WORDS]);
        if field.exists() {
            let found = field.and_behind(self.union(words)).iter().take(count);
            text.0
                .iter_mut()
                .zip(found)
                .for_each(|(to, from)| *to = *from);
        }
        text
    }

    /// What the caller has in the status, an output: the number of a call that is restarted, or
    /// anything.
    #[inline]
    pub(crate) fn status(self, words: &[u32]) -> u32 {
        self.0.header.status.word(words)
    }

    /// Where the status is, in bytes.
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

/// What the core says, by [`IdentityWord`]; what it does not is 0. Made once: it does not change.
#[derive(Debug)]
pub(crate) struct IdentityWords(pub(crate) [u32; IdentityWord::COUNT]);
