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
    limits::FULL_SCALE,
    prelude::*, //
};
use core::cmp::Ordering;

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

/// A handle in a line of the log. All ones may be a value that did not fit 32 bits:
/// [`Field::handle`].
pub(crate) struct ShownHandle(pub(crate) u32);

impl fmt::Display for ShownHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u32::MAX => f.write_str("0xffffffff or more"),
            handle => write!(f, "{handle:#x}"),
        }
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

/// `gceSURF_TYPE`: the first number that `gcvSURF_IMAGE` has shifted, and the end of the numbers
/// without `gcvSURF_IMAGE`.
const SURFACE_IMAGE: u32 = 8;
const OLD_SURFACE_TYPES: u32 = 11;

/// `gceSURF_TYPE`: the number of types in 4.0.0, whose banks in the pool are known; the type
/// without a bank of its own; the bits of a type.
const SURFACE_TYPES: u32 = 12;
const SURFACE_UNKNOWN: u32 = 0;
const SURFACE_MASK: u32 = 0xFF;

/// The granularity of dma-bufs, in bytes.
const DMA_BUF_UNIT: u32 = 4096;

impl Format {
    /// Converts `gceSURF_TYPE` to the numbers of 4.0.0; keeps flags.
    fn surface_type(self, kind: u32) -> u32 {
        let types = self.0.quirks.surface_types.into();
        match kind {
            _ if types != 0 => match kind & SURFACE_MASK {
                kind if (SURFACE_TYPES..types).contains(&kind) => SURFACE_UNKNOWN,
                kind => kind,
            },
            _ if self.0.quirks.image_surfaces => kind,
            SURFACE_IMAGE..OLD_SURFACE_TYPES => kind + 1,
            OLD_SURFACE_TYPES => u32::MAX,
            _ => kind,
        }
    }

    /// Converts `gcePOOL` to the numbers of 4.0.0.
    fn pool(self, pool: u32) -> u32 {
        let quirks = self.0.quirks;
        let pool = match pool.cmp(&quirks.sram_pool) {
            Ordering::Less => pool,
            Ordering::Equal => return POOL_UNKNOWN,
            Ordering::Greater => pool - 1,
        };
        match pool {
            _ if pool >= quirks.pools => POOL_UNKNOWN,
            POOL_CMDBUF => POOL_DEFAULT_FORCE_CONTIGUOUS,
            pool => pool,
        }
    }

    fn allocate_linear(self, u: &[u32]) -> Request {
        let asked = self.asked_pool(u);
        asked.map_or_else(Request::Refused, |pool| self.allocate_in(u, pool))
    }

    /// The pool that ALLOCATE_LINEAR_VIDEO_MEMORY requests. If flags are mandatory, the pool must
    /// satisfy them. Errors are those of the vendor's driver.
    fn asked_pool(self, u: &[u32]) -> Result<u32> {
        let fields = &self.0.allocate_linear;
        let flags = &self.0.quirks.flags;
        let flag = fields.flag.word(u);
        let is = |bits| flag & bits != 0;
        let pool = self.pool(fields.pool.word(u));
        if !self.0.quirks.strict_memory {
            return if is(flags.secure) {
                Err(Error::NotSupported)
            } else {
                Ok(pool)
            };
        }
        // CAST: the bits of a signed field.
        let is_paged = is(flags.paged) || fields.index.word(u) as i32 > 0;
        match pool {
            _ if is(flags.unseen) => Err(Error::OutOfMemory),
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED | POOL_VIRTUAL if is(!flags.known) => {
                Err(Error::NotSupported)
            }
            _ if is(!flags.known) => Err(Error::OutOfMemory),
            _ if is(flags.on_fault) => Ok(POOL_VIRTUAL),
            POOL_SYSTEM if is_paged => Err(Error::OutOfMemory),
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is_paged => Ok(POOL_VIRTUAL),
            pool => Ok(pool),
        }
    }

    fn allocate_in(self, u: &[u32], pool: u32) -> Request {
        let fields = &self.0.allocate_linear;
        let flags = &self.0.quirks.flags;
        let flag = fields.flag.word(u);
        let is = |bits| flag & bits != 0;
        let mut alignment = fields.alignment.word(u);
        let mut bytes = u32::try_from(fields.size.long(u)).ok();
        if is(flags.exportable) && self.0.quirks.strict_memory {
            alignment = DMA_BUF_UNIT;
            bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(DMA_BUF_UNIT));
        }
        let Some(bytes) = bytes else {
            return Request::Refused(Error::OutOfMemory);
        };
        let pool = match pool {
            // The pool has no cached mappings.
            POOL_SYSTEM if is(flags.cacheable) => POOL_UNKNOWN,
            // The generation has no number for CONTIGUOUS.
            POOL_VIRTUAL if is(flags.contiguous) && self.has_no_contiguous_pool() => {
                POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.contiguous | flags.cacheable) => {
                default_pool(is(flags.contiguous), is(flags.cacheable))
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.scattered) => POOL_VIRTUAL,
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.fast) => POOL_SYSTEM,
            pool => pool,
        };
        Request::AllocateLinear {
            bytes,
            alignment,
            kind: self.surface_type(fields.kind.word(u)),
            pool,
        }
    }

    /// Whether the generation has no pool CONTIGUOUS.
    fn has_no_contiguous_pool(self) -> bool {
        self.0.quirks.pools <= POOL_CONTIGUOUS
    }

    fn allocate_surface(self, u: &[u32]) -> Request {
        if !self.0.quirks.allocates_surfaces {
            return Request::Refused(Error::NotSupported);
        }
        let fields = &self.0.allocate_surface;
        Request::AllocateSurface(Surface {
            width: fields.width.word(u),
            height: fields.height.word(u),
            depth: fields.depth.word(u),
            format: fields.format.word(u),
            kind: self.surface_type(fields.kind.word(u)),
            pool: self.pool(fields.pool.word(u)),
        })
    }
}
