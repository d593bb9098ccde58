// SPDX-License-Identifier: GPL-2.0-only

//! Nodes of video memory of all kinds.

use super::{
    heap::Span,
    metadata::Metadata,
    pool::fill_in_steps,
    Buffer,
    UserMemory,
    VideoMemory, //
};
use crate::{
    mmu::{
        Contents,
        Extent,
        Mapping,
        Paged, //
    },
    prelude::*,
    sys::{
        chrdev::OpenFile,
        dma_buf::Import,
        file::{
            self,
            Exportable, //
        },
        vma::NewArea, //
    }, //
};
use kernel::prelude::EINVAL;

/// The pool that is requested or used for a surface (`gcePOOL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The pool of the module's parameters.
    System,
    /// Physically contiguous pages.
    Contiguous,
    /// Scattered pages, mapped by the GPU's MMU.
    Virtual,
}

impl Pool {
    /// The interface's number.
    pub(crate) fn number(self) -> u32 {
        match self {
            Pool::System => 6,
            Pool::Contiguous => 9,
            Pool::Virtual => 7,
        }
    }

    /// The pools that a request for pool number `number` tries, in order. No board has on-chip
    /// memory (LOCAL_INTERNAL, LOCAL_EXTERNAL).
    pub(super) fn walk(number: u32) -> &'static [Pool] {
        match number {
            // DEFAULT, LOCAL, UNIFIED.
            1 | 2 | 5 => &[Pool::System, Pool::Contiguous, Pool::Virtual],
            // DEFAULT_FORCE_CONTIGUOUS.
            10 => &[Pool::System, Pool::Contiguous],
            6 => &[Pool::System],
            7 => &[Pool::Virtual],
            9 => &[Pool::Contiguous, Pool::Virtual],
            // DEFAULT_FORCE_CONTIGUOUS_CACHEABLE.
            11 => &[Pool::Contiguous],
            _ => &[],
        }
    }
}

pub(super) enum Place {
    Pool(Span),
    Pages(Arc<Buffer>),
    Virtual(Mapping),
    /// User memory, or a dma-buf.
    Wrapped(UserMemory),
    /// Foreign memory without pages: a framebuffer.
    Elsewhere(Elsewhere),
}

/// Foreign memory that the GPU reaches at its physical address.
#[derive(Clone, Copy)]
pub(crate) struct Elsewhere {
    /// GPU address of the first byte.
    pub(crate) address: u32,
    /// Size in bytes.
    pub(crate) bytes: usize,
    /// Its address in the process that has made the node.
    pub(crate) user: usize,
}

/// The memory that the owner of a node maps.
#[derive(Clone)]
pub(crate) enum Backing {
    /// A contiguous buffer.
    Contiguous(Arc<Buffer>),
    /// Scattered pages.
    Scattered(Arc<Paged>),
}

impl Backing {
    /// Bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Backing::Contiguous(buffer) => buffer.bytes(),
            Backing::Scattered(pages) => pages.bytes(),
        }
    }

    /// The file offset with which its owner maps it.
    pub(crate) fn file_offset(&self) -> u64 {
        match self {
            Backing::Contiguous(buffer) => buffer.file_offset(),
            Backing::Scattered(pages) => pages.file_offset(),
        }
    }

    fn imported(&self) -> Option<&Import> {
        match self {
            Backing::Contiguous(_) => None,
            Backing::Scattered(pages) => pages.pages().imported(),
        }
    }

    /// Maps it into the calling process: with `file`, or with the exporter of the dma-buf. The
    /// caller holds no lock. `OutOfMemory`.
    pub(crate) fn map_into_caller(&self, file: &OpenFile) -> Result<usize> {
        if let Some(import) = self.imported() {
            return import.map_into_caller().map_err(|_| Error::OutOfMemory);
        }
        let offset = usize::try_from(self.file_offset()).map_err(|_| Error::OutOfMemory)?;
        file.map_into_caller(self.bytes(), offset)
            .map_err(|_| Error::OutOfMemory)
    }

    /// Unmaps it from address `user` of the caller. Returns whether no mapping is left there.
    pub(crate) fn unmap(&self, user: usize) -> bool {
        if let Some(import) = self.imported() {
            return import.unmap(user);
        }
        match self {
            Backing::Contiguous(buffer) => sys::vma::unmap(user, buffer),
            Backing::Scattered(pages) => sys::vma::unmap(user, pages),
        }
    }

    /// Whether `bytes` of it are still mapped at address `user` of the calling process.
    pub(crate) fn is_seen_at(&self, user: usize, bytes: usize) -> bool {
        if let Some(import) = self.imported() {
            return import.is_seen_at(user);
        }
        let seen = match self {
            Backing::Contiguous(buffer) => sys::vma::view_bytes(user, buffer),
            Backing::Scattered(pages) => sys::vma::view_bytes(user, pages),
        };
        seen.is_some_and(|seen| seen >= bytes)
    }

    /// Maps it into `area`. Only scattered pages can be cached.
    pub(crate) fn map(self, area: NewArea<'_>, cached: bool) -> kernel::error::Result {
        if let Some(import) = self.imported() {
            return import.map(area);
        }
        match self {
            Backing::Contiguous(buffer) => sys::vma::map(area, buffer, cached),
            Backing::Scattered(pages) => sys::vma::map(area, pages, cached),
        }
    }
}

/// A video memory node.
pub(crate) struct Node {
    pub(super) memory: Arc<VideoMemory>,
    /// `None` only during a drop.
    pub(super) place: Option<Place>,
    /// Its maker. Unless `shared`, its only user: see [`super::heap::Heap::is_left_by`].
    pub(super) owner: u64,
    /// Other processes may have used it.
    pub(super) shared: Atomic<bool>,
    pub(super) metadata: Metadata,
}

/// How a node's owner accesses it.
pub(crate) enum View {
    /// At this offset in the mapping of the pool.
    Pool(usize),
    /// With a mapping of its own.
    Pages(Backing),
    /// At this address, where the process already has it.
    Own(usize),
}

impl Node {
    /// Notes that other processes may use it from now on.
    pub(crate) fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    /// The metadata that clients exchange.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Its pool.
    pub(crate) fn pool(&self) -> Pool {
        match self.place {
            Some(Place::Pages(_)) => Pool::Contiguous,
            Some(Place::Virtual(_) | Place::Wrapped(_) | Place::Elsewhere(_)) => Pool::Virtual,
            _ => Pool::System,
        }
    }

    /// GPU address of the first byte. `view`: its address in the process's own MMU tables, if any.
    #[inline]
    pub(crate) fn address_at(&self, view: Option<u32>) -> u32 {
        match &self.place {
            Some(Place::Pages(buffer)) => buffer.address(),
            Some(Place::Virtual(mapping)) => view.or(mapping.address()).unwrap_or(0),
            Some(Place::Wrapped(memory)) => memory.address_at(view),
            Some(Place::Elsewhere(memory)) => memory.address,
            // CAST: `SystemPool::new` has checked that the pool is below GPU address 2 GiB.
            Some(Place::Pool(span)) => self.memory.pool_address() + span.offset() as u32,
            None => 0,
        }
    }

    /// Physical address of the first byte, if contiguous. `base`: the one of GPU address 0.
    pub(crate) fn physical(&self, base: u32) -> Option<u32> {
        match (self.pool(), &self.place) {
            (Pool::System | Pool::Contiguous, _) | (_, Some(Place::Elsewhere(_))) => {
                self.address_at(None).checked_add(base)
            }
            (Pool::Virtual, _) => None,
        }
    }

    /// How its owner accesses it.
    pub(crate) fn view(&self) -> View {
        match &self.place {
            Some(Place::Pages(buffer)) => View::Pages(Backing::Contiguous(buffer.clone())),
            Some(Place::Virtual(mapping)) => {
                View::Pages(Backing::Scattered(mapping.backing().clone()))
            }
            Some(Place::Wrapped(memory)) => match memory.user {
                Some(user) => View::Own(user),
                None => View::Pages(Backing::Scattered(memory.mapping.backing().clone())),
            },
            Some(Place::Elsewhere(memory)) => View::Own(memory.user),
            Some(Place::Pool(span)) => View::Pool(span.offset()),
            None => View::Pool(0),
        }
    }

    /// Whether process number `process` made it.
    pub(crate) fn is_made_by(&self, process: u64) -> bool {
        self.owner == process
    }

    /// Whether its view is [`View::Pages`].
    pub(crate) fn is_paged(&self) -> bool {
        match &self.place {
            Some(Place::Pages(_) | Place::Virtual(_)) => true,
            Some(Place::Wrapped(memory)) => memory.user.is_none(),
            Some(Place::Pool(_) | Place::Elsewhere(_)) | None => false,
        }
    }

    /// The address of [`View::Own`], if that is its view.
    pub(crate) fn own_view(&self) -> Option<usize> {
        match &self.place {
            Some(Place::Wrapped(memory)) => memory.user,
            Some(Place::Elsewhere(memory)) => Some(memory.user),
            Some(Place::Pool(_) | Place::Pages(_) | Place::Virtual(_)) | None => None,
        }
    }

    /// The user memory or dma-buf of which it was made.
    pub(crate) fn wrapped(&self) -> Option<&UserMemory> {
        match &self.place {
            Some(Place::Wrapped(memory)) => Some(memory),
            _ => None,
        }
    }

    /// Whether a process with a handle of the node may use its GPU addresses.
    pub(crate) fn gives_addresses(&self) -> bool {
        !matches!(self.place, Some(Place::Elsewhere(_)))
    }

    /// Offset and size in the pool, if it is there.
    pub(crate) fn pool_range(&self) -> Option<(usize, usize)> {
        match &self.place {
            Some(Place::Pool(span)) => Some((span.offset(), span.bytes())),
            _ => None,
        }
    }
}

impl Node {
    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.place {
            Some(Place::Pool(span)) => span.bytes(),
            Some(Place::Pages(buffer)) => buffer.bytes(),
            Some(Place::Virtual(mapping)) => mapping.backing().bytes(),
            Some(Place::Wrapped(memory)) => memory.bytes(),
            Some(Place::Elsewhere(memory)) => memory.bytes,
            None => 0,
        }
    }

    /// The word at byte `offset`. `None`: the node is not contiguous, or cannot be read.
    pub(super) fn read(&self, offset: usize) -> Option<u32> {
        match &self.place {
            Some(Place::Pool(span)) => {
                let pool = &self.memory.pool.as_ref()?.memory;
                pool.read(span.offset() + offset).ok()
            }
            Some(Place::Pages(buffer)) => buffer.read(offset),
            Some(Place::Virtual(_) | Place::Wrapped(_) | Place::Elsewhere(_)) | None => None,
        }
    }

    /// Copies from byte `offset` to `to`.
    pub(super) fn copy(&self, offset: usize, to: &mut [u8]) -> kernel::error::Result {
        match &self.place {
            Some(Place::Pool(span)) => {
                let pool = self.memory.pool.as_ref().ok_or(EINVAL)?;
                pool.memory.copy(span.offset() + offset, to)
            }
            Some(Place::Pages(buffer)) => buffer.memory.copy(offset, to),
            Some(Place::Virtual(mapping)) => mapping.backing().pages().copy(offset, to),
            Some(Place::Wrapped(memory)) => memory.copy(offset, to),
            Some(Place::Elsewhere(_)) | None => Err(EINVAL),
        }
    }

    /// Its mapping in the MMU tables of a process. `None`: all tables map it, or none do.
    pub(crate) fn extent(&self) -> Option<Extent<'_>> {
        match &self.place {
            Some(Place::Pool(_)) if self.memory.is_pool_shared() => None,
            Some(Place::Pool(span)) => Some(Extent::Linear {
                address: self.address_at(None),
                bytes: span.bytes(),
                contents: Contents::Clients,
            }),
            Some(Place::Pages(buffer)) => Some(buffer.extent(Contents::Clients)),
            Some(Place::Virtual(mapping)) => Some(Extent::Pages(mapping)),
            Some(Place::Wrapped(memory)) => Some(memory.extent()),
            Some(Place::Elsewhere(_)) | None => None,
        }
    }

    /// Its mapping, if the GPU reaches it through the MMU.
    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &self.place {
            Some(Place::Virtual(mapping)) => Some(mapping),
            Some(Place::Wrapped(memory)) => Some(&memory.mapping),
            Some(Place::Pool(_) | Place::Pages(_) | Place::Elsewhere(_)) | None => None,
        }
    }

    /// Whether both the GPU and the driver may write to it. False for dma-bufs and framebuffers.
    pub(crate) fn is_writeable(&self) -> bool {
        match &self.place {
            Some(Place::Wrapped(memory)) => memory.is_users() && memory.is_writeable(),
            Some(Place::Elsewhere(_)) | None => false,
            Some(_) => true,
        }
    }

    /// Writes the word at byte `offset`, a multiple of 4 inside of the node. Does nothing if the
    /// CPU must not write to the memory.
    pub(crate) fn write(&self, offset: usize, word: u32) {
        match &self.place {
            Some(Place::Pool(span)) => {
                if let Some(pool) = &self.memory.pool {
                    pool.memory.write(span.offset() + offset, word);
                }
            }
            Some(Place::Pages(buffer)) => buffer.write(offset, word),
            Some(Place::Virtual(mapping)) => mapping.backing().pages().write(offset, word),
            Some(Place::Wrapped(memory)) => memory.write(offset, word),
            Some(Place::Elsewhere(_)) | None => {}
        }
    }
}

impl Node {
    /// Fills it with `byte`. `NotSupported`: it is foreign memory. After `Interrupted` (the calling
    /// thread is killed) or `OutOfMemory`, it may be partly filled.
    pub(crate) fn fill(&self, byte: u8) -> Result {
        match &self.place {
            Some(Place::Pool(span)) => {
                let pool = self.memory.pool.as_ref().ok_or(Error::OutOfMemory)?;
                return fill_in_steps(&pool.memory, span, byte);
            }
            Some(Place::Pages(_) | Place::Virtual(_)) => {}
            Some(Place::Wrapped(_) | Place::Elsewhere(_)) | None => {
                return Err(Error::NotSupported)
            }
        }
        for offset in (0..self.bytes()).step_by(4) {
            if offset % PAGE_SIZE == 0 {
                sys::yield_if_due();
                if sys::is_killed() {
                    return Err(Error::Interrupted);
                }
            }
            self.write(offset, u32::from_ne_bytes([byte; 4]));
        }
        Ok(())
    }
}

impl Exportable for Node {
    fn memory(&self) -> Option<file::Memory<'_>> {
        match &self.place {
            Some(Place::Pool(span)) => {
                let pool = &self.memory.pool.as_ref()?.memory;
                let part = pool.part(span.offset(), span.bytes())?;
                Some(file::Memory::Part(part))
            }
            Some(Place::Pages(buffer)) => {
                let part = buffer.memory.part(0, buffer.bytes())?;
                Some(file::Memory::Part(part))
            }
            Some(Place::Virtual(mapping)) => Some(file::Memory::Pages(mapping.backing().pages())),
            // A process must not export memory that it does not own.
            Some(Place::Wrapped(_) | Place::Elsewhere(_)) | None => None,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(Place::Pool(span)) = self.place.take() {
            if let Some(pool) = &self.memory.pool {
                let owner = if self.shared.load(Relaxed) {
                    0
                } else {
                    self.owner
                };
                pool.heap.lock().free_of(span, owner);
            }
        }
    }
}
