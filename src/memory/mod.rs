// SPDX-License-Identifier: GPL-2.0-only

//! Memory that clients place things in: the pool, its nodes, and contiguous buffers.
//!
//! Owns the pool and its [`Heap`], whose mutex is a leaf lock but for the allocator. Every piece is
//! zeroed before another process than the one that had it last sees it, and gives itself back when its last reference goes: the table's,
//! the GPU's ([`crate::ring::Ring::retire`]) or a mapping's.

mod heap;
pub(crate) mod surface;

use crate::{
    error::{
        Error,
        Result, //
    },
    hw::Identity,
    limits,
    log::{
        warn_client,
        RateLimit, //
    },
    mmu::{
        Access,
        Counter,
        LinearMapping,
        Mapping,
        Paged,
        Vm, //
    },
    params::{
        Parameters,
        PoolSource,
        LINEAR_WINDOW, //
    },
    sys::{
        self,
        chrdev::OpenFile,
        dma::{
            self,
            DmaBuffer, //
        },
        dma_buf::{
            self,
            Exportable,
            Exporter,
            Import,
            Imports, //
        },
        pages::{
            Pages,
            PinnedPages,
            Sync, //
        },
        physical::{
            Part,
            Reserved, //
        },
        vma::{
            Mappable,
            NewArea, //
        }, //
    },
};
use ::core::cell::Cell;
use heap::{
    Heap,
    Span,
    SurfaceType, //
};
use kernel::{
    page::{
        page_align,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// The address by which the GPU reaches `bytes` at physical address `physical` without its MMU, if
/// it reaches them all.
pub(crate) fn gpu_address(physical: u64, bytes: usize, base_address: u32) -> Option<u32> {
    let address = physical.checked_sub(u64::from(base_address))?;
    // CAST: at most 64 bits.
    let end = address.checked_add(bytes as u64)?;
    if end <= LINEAR_WINDOW {
        u32::try_from(address).ok()
    } else {
        None
    }
}

/// Memory that is to be mapped for the GPU twice.
static TWICE: RateLimit = RateLimit::new();

const MAPPED_ALREADY: &str =
    "wants memory mapped for the GPU that is mapped for it in another way \
    (a dma-buf and memory of a process, or two dma-bufs)";

/// The kind of a surface without its flags, and the kind that the tile-status units read.
const KIND_MASK: u32 = 0xFF;
const TILE_STATUS: u32 = 7;

/// Where a surface is to lie, or lies (`gcePOOL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The pool.
    System,
    /// Pages of its own, physically contiguous.
    Contiguous,
    /// Pages of its own, scattered, behind the GPU's MMU.
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

    /// The pools that a request for pool `number` tries, in order. On-chip memory (LOCAL_INTERNAL,
    /// LOCAL_EXTERNAL), which no board has, is left out.
    fn walk(number: u32) -> &'static [Pool] {
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

/// Bytes in use, for `/proc/driver/gc`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Of the pool.
    pub(crate) pool: usize,
    /// Contiguous buffers and nodes outside the pool.
    pub(crate) contiguous: usize,
    /// Nodes behind the MMU.
    pub(crate) scattered: usize,
}

/// A contiguous buffer.
pub(crate) struct Buffer {
    memory: Arc<DmaBuffer>,
    address: u32,
    counter: Counter,
    /// How the GPU reaches it, where it must be told. Keeps the memory while translations are left.
    _mapping: Option<LinearMapping>,
}

impl Buffer {
    /// GPU address of its first byte.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size()
    }

    fn write(&self, offset: usize, word: u32) {
        // Inside, as the caller has seen to.
        let _ = self.memory.write(offset, word);
    }

    /// The file offset by which its owner maps it: its DMA address, unique among live buffers.
    pub(crate) fn file_offset(&self) -> u64 {
        self.memory.dma_address()
    }
}

impl Mappable for Buffer {
    type Memory = DmaBuffer;

    fn memory(&self) -> &DmaBuffer {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.counter.remove(self.memory.size());
    }
}

/// A piece of memory that is not ours, which the GPU may use: a process's own, or a dma-buf.
pub(crate) struct UserMemory {
    mapping: Mapping,
    /// Where the piece starts in its first page.
    offset: usize,
    bytes: usize,
    /// Its address in the process; a dma-buf has none.
    user: Option<usize>,
}

impl UserMemory {
    /// GPU address of the first byte.
    pub(crate) fn address(&self) -> u32 {
        // CAST: less than a page.
        self.mapping.address() + self.offset as u32
    }

    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is a process's own, not a dma-buf.
    pub(crate) fn is_users(&self) -> bool {
        self.user.is_some()
    }

    /// Whether `bytes` from user address `user` all lie in this piece.
    pub(crate) fn contains(&self, user: usize, bytes: usize) -> bool {
        self.user
            .and_then(|start| user.checked_sub(start))
            .and_then(|at| at.checked_add(bytes))
            .is_some_and(|end| end <= self.bytes)
    }

    fn write(&self, offset: usize, word: u32) {
        let pages = self.mapping.backing().pages();
        pages.write(self.offset + offset, word);
    }

    /// Gives the next `bytes` bytes, about, back to the process, and says whether more are left: see
    /// [`Pages::give_back`].
    pub(crate) fn give_back(&self, bytes: usize) -> bool {
        self.mapping.backing().pages().give_back(bytes)
    }

    /// Hands `bytes` from user address `user`, which lie in this piece, to the other side.
    pub(crate) fn sync(&self, user: usize, bytes: usize, direction: Sync) {
        if let Some(at) = self.user.and_then(|start| user.checked_sub(start)) {
            let backing = self.mapping.backing();
            backing.sync(self.offset + at, bytes, direction);
        }
    }
}

enum Place {
    Pool(Span),
    Pages(Arc<Buffer>),
    Virtual(Mapping),
    /// Not ours.
    Wrapped(UserMemory),
}

/// What a node's owner maps to see it.
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

    /// The file offset by which its owner maps it.
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

    /// Maps it into the caller: through `file`, or by its owner. No lock may be held. `OutOfMemory`.
    pub(crate) fn map_into_caller(&self, file: &OpenFile) -> Result<usize> {
        if let Some(import) = self.imported() {
            return import.map_into_caller().map_err(|_| Error::OutOfMemory);
        }
        let offset = usize::try_from(self.file_offset()).map_err(|_| Error::OutOfMemory)?;
        file.map_into_caller(self.bytes(), offset)
            .map_err(|_| Error::OutOfMemory)
    }

    /// Ends the caller's view of it at `user`.
    pub(crate) fn unmap(&self, user: usize) {
        if let Some(import) = self.imported() {
            return import.unmap(user);
        }
        match self {
            Backing::Contiguous(buffer) => sys::vma::unmap(user, buffer),
            Backing::Scattered(pages) => sys::vma::unmap(user, pages),
        }
    }

    /// Maps it into an area; scattered pages can be cached.
    pub(crate) fn map(self, area: NewArea<'_>, cached: bool) -> kernel::error::Result {
        match self {
            Backing::Contiguous(buffer) => sys::vma::map(area, buffer, cached),
            Backing::Scattered(pages) => sys::vma::map(area, pages, cached),
        }
    }
}

/// A video memory node.
pub(crate) struct Node {
    memory: Arc<VideoMemory>,
    /// `None` only while being dropped.
    place: Option<Place>,
    /// Who alone can have used it, unless it is `shared`; see [`Heap::is_left_by`].
    owner: u64,
    /// Other processes may have used it.
    shared: Atomic<bool>,
}

/// How a node's owner sees it in its own memory.
pub(crate) enum View {
    /// At this offset of the pool's mapping.
    Pool(usize),
    /// As memory that needs a mapping of its own.
    Pages(Backing),
    /// As what it was before, at this address.
    Own(usize),
}

impl Node {
    /// From now on other processes may use it.
    pub(crate) fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    /// Where it lies.
    pub(crate) fn pool(&self) -> Pool {
        match self.place {
            Some(Place::Pages(_)) => Pool::Contiguous,
            Some(Place::Virtual(_) | Place::Wrapped(_)) => Pool::Virtual,
            _ => Pool::System,
        }
    }

    /// GPU address of its first byte.
    pub(crate) fn address(&self) -> u32 {
        match &self.place {
            Some(Place::Pages(buffer)) => buffer.address(),
            Some(Place::Virtual(mapping)) => mapping.address(),
            Some(Place::Wrapped(memory)) => memory.address(),
            // CAST: the pool lies below 2 GiB of GPU addresses, checked when it was made.
            Some(Place::Pool(span)) => self.memory.pool_address() + span.offset() as u32,
            None => 0,
        }
    }

    /// How its owner sees it.
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
            Some(Place::Pool(span)) => View::Pool(span.offset()),
            None => View::Pool(0),
        }
    }

    /// The memory, if it is not ours.
    pub(crate) fn wrapped(&self) -> Option<&UserMemory> {
        match &self.place {
            Some(Place::Wrapped(memory)) => Some(memory),
            _ => None,
        }
    }

    /// Its bytes' offset in the pool and their number, if it lies there.
    pub(crate) fn pool_range(&self) -> Option<(usize, usize)> {
        match &self.place {
            Some(Place::Pool(span)) => Some((span.offset(), span.bytes())),
            _ => None,
        }
    }
}

impl Node {
    /// Bytes granted.
    pub(crate) fn bytes(&self) -> usize {
        match &self.place {
            Some(Place::Pool(span)) => span.bytes(),
            Some(Place::Pages(buffer)) => buffer.bytes(),
            Some(Place::Virtual(mapping)) => mapping.backing().bytes(),
            Some(Place::Wrapped(memory)) => memory.bytes(),
            None => 0,
        }
    }

    fn write(&self, offset: usize, word: u32) {
        match &self.place {
            Some(Place::Pool(span)) => {
                if let Some(pool) = &self.memory.pool {
                    pool.memory.write(span.offset() + offset, word);
                }
            }
            Some(Place::Pages(buffer)) => buffer.write(offset, word),
            Some(Place::Virtual(mapping)) => mapping.backing().pages().write(offset, word),
            Some(Place::Wrapped(memory)) => memory.write(offset, word),
            None => {}
        }
    }
}

impl Exportable for Node {
    fn memory(&self) -> Option<dma_buf::Memory<'_>> {
        match &self.place {
            Some(Place::Pool(span)) => {
                let pool = &self.memory.pool.as_ref()?.memory;
                let part = pool.part(span.offset(), span.bytes())?;
                Some(dma_buf::Memory::Part(part))
            }
            Some(Place::Pages(buffer)) => {
                let part = buffer.memory.part(0, buffer.bytes())?;
                Some(dma_buf::Memory::Part(part))
            }
            Some(Place::Virtual(mapping)) => {
                Some(dma_buf::Memory::Pages(mapping.backing().pages()))
            }
            // Whoever has it can share it himself.
            Some(Place::Wrapped(_)) | None => None,
        }
    }
}

/// A word of somebody's GPU memory, by its object and its place in it.
pub(crate) struct Word {
    object: Object,
    offset: usize,
    /// Its GPU address.
    address: u32,
}

enum Object {
    Node(Arc<Node>),
    Buffer(Arc<Buffer>),
    UserMemory(Arc<UserMemory>),
}

/// Where `address` is in `bytes` at GPU address `start`, if a whole aligned word lies there.
fn word_offset(start: u32, bytes: usize, address: u32) -> Option<usize> {
    // CAST: 32 bits into at least 32.
    let offset = address.checked_sub(start)? as usize;
    (address % 4 == 0 && offset.checked_add(4)? <= bytes).then_some(offset)
}

impl Word {
    /// The word at GPU address `address`, if it lies in `node`.
    pub(crate) fn in_node(node: &Arc<Node>, address: u32) -> Option<Self> {
        let offset = word_offset(node.address(), node.bytes(), address)?;
        let object = Object::Node(node.clone());
        Some(Self {
            object,
            offset,
            address,
        })
    }

    /// The word at GPU address `address`, if it lies in `buffer`.
    pub(crate) fn in_buffer(buffer: &Arc<Buffer>, address: u32) -> Option<Self> {
        let offset = word_offset(buffer.address(), buffer.bytes(), address)?;
        let object = Object::Buffer(buffer.clone());
        Some(Self {
            object,
            offset,
            address,
        })
    }

    /// The word at GPU address `address`, if it lies in `memory` and may be written.
    pub(crate) fn in_user_memory(memory: &Arc<UserMemory>, address: u32) -> Option<Self> {
        if !memory.mapping.backing().is_writeable() {
            return None;
        }
        let offset = word_offset(memory.address(), memory.bytes, address)?;
        let object = Object::UserMemory(memory.clone());
        Some(Self {
            object,
            offset,
            address,
        })
    }

    /// Whether writing it takes longer than a word of memory: a reserved pool is mapped for it.
    pub(crate) fn is_slow(&self) -> bool {
        match &self.object {
            Object::Node(node) => {
                let pool = node.memory.pool.as_ref().map(|pool| &pool.memory);
                node.pool_range().is_some() && matches!(pool, Some(PoolMemory::Reserved(_)))
            }
            _ => false,
        }
    }

    /// GPU address of the word.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Writes the word.
    pub(crate) fn write(&self, word: u32) {
        match &self.object {
            Object::Node(node) => node.write(self.offset, word),
            Object::Buffer(buffer) => buffer.write(self.offset, word),
            Object::UserMemory(memory) => memory.write(self.offset, word),
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

enum PoolMemory {
    Reserved(Reserved),
    Allocated(DmaBuffer),
}

impl PoolMemory {
    fn bytes(&self) -> usize {
        match self {
            PoolMemory::Reserved(memory) => memory.size(),
            PoolMemory::Allocated(memory) => memory.size(),
        }
    }

    fn start(&self) -> u64 {
        match self {
            PoolMemory::Reserved(memory) => sys::widen(memory.start()),
            PoolMemory::Allocated(memory) => memory.dma_address(),
        }
    }

    /// `bytes` bytes at `offset`, if these are whole pages.
    fn part(&self, offset: usize, bytes: usize) -> Option<Part<'_>> {
        match self {
            PoolMemory::Reserved(memory) => memory.part(offset, bytes),
            PoolMemory::Allocated(memory) => memory.part(offset, bytes),
        }
    }

    fn write(&self, offset: usize, word: u32) {
        // Inside the pool; without a window for it, the word is lost as if the event had been.
        let _ = match self {
            PoolMemory::Reserved(memory) => memory.write(offset, word),
            PoolMemory::Allocated(memory) => memory.write(offset, word),
        };
    }

    fn zero(&self, offset: usize, bytes: usize) -> kernel::error::Result {
        match self {
            PoolMemory::Reserved(memory) => memory.zero(offset, bytes),
            PoolMemory::Allocated(memory) => memory.zero(offset, bytes),
        }
    }
}

/// Bytes that are zeroed at once.
const ZERO_STEP: usize = 1 << 20;

/// Fills a piece of the pool with zeros. `Interrupted`: the calling thread is being killed.
fn zero_in_steps(memory: &PoolMemory, span: &Span) -> Result {
    let mut done = 0;
    while done < span.bytes() {
        if sys::is_killed() {
            return Err(Error::Interrupted);
        }
        let bytes = ZERO_STEP.min(span.bytes() - done);
        memory.zero(span.offset() + done, bytes)?;
        done += bytes;
    }
    Ok(())
}

/// The least alignment that is a multiple of `alignment` (0: any) and of the page size, if it is a
/// power of two or a divisor of a page; else one that is both.
fn with_pages(alignment: usize) -> Option<usize> {
    match alignment {
        0 => Some(PAGE_SIZE),
        _ if PAGE_SIZE % alignment == 0 => Some(PAGE_SIZE),
        _ if alignment % PAGE_SIZE == 0 => Some(alignment),
        _ => alignment.checked_mul(PAGE_SIZE),
    }
}

/// How much less is tried when the pool cannot be had in one piece, as the C driver does.
const POOL_STEP: usize = 4 << 20;

/// Allocates the pool, or as much of it as there is; prints what is missing.
fn allocate_pool(dev: &dma::Device, wanted: usize) -> Option<DmaBuffer> {
    let mut bytes = wanted;
    loop {
        if let Ok(memory) = DmaBuffer::new(dev, bytes) {
            if bytes < wanted {
                dev_warn!(
                    dev,
                    "the pool has {} of {} KiB: give less contiguousSize, or more cma= or memory-region\n",
                    bytes / 1024,
                    wanted / 1024
                );
            }
            return Some(memory);
        }
        if bytes <= POOL_STEP {
            dev_warn!(
                dev,
                "no contiguous memory, so no pool: give more cma= or memory-region\n"
            );
            return None;
        }
        bytes -= POOL_STEP;
    }
}

/// The SYSTEM pool.
#[pin_data]
struct SystemPool {
    memory: PoolMemory,
    address: u32,
    #[pin]
    heap: Mutex<Heap>,
}

impl SystemPool {
    fn new(
        dev: &dma::Device,
        parameters: &Parameters,
        base_address: u32,
    ) -> kernel::error::Result<Option<Pin<KBox<Self>>>> {
        let memory = match parameters.pool {
            PoolSource::None => return Ok(None),
            PoolSource::Reserved(start, bytes) | PoolSource::Region(start, bytes) => {
                let (name, mend) = match parameters.pool {
                    PoolSource::Region(..) => ("memory-region", "give it no-map or reusable"),
                    _ => (
                        "contiguousBase",
                        "keep it out with mem= or a no-map reservation",
                    ),
                };
                PoolMemory::Reserved(Reserved::new(start, bytes).inspect_err(|&error| {
                    if error == EEXIST {
                        dev_err!(
                            dev,
                            "{name} {start:#x} is memory that the kernel uses itself: {mend}\n"
                        );
                    } else {
                        dev_err!(dev, "{name} {start:#x} belongs to another driver\n");
                    }
                })?)
            }
            PoolSource::Allocated(bytes) => match allocate_pool(dev, bytes) {
                Some(memory) => PoolMemory::Allocated(memory),
                None => return Ok(None),
            },
        };
        let address = gpu_address(memory.start(), memory.bytes(), base_address)
            .ok_or(EINVAL)
            .inspect_err(|_| {
                dev_err!(dev, "the GPU does not reach the pool: check baseAddress\n");
            })?;
        let mut heap = Heap::new(memory.bytes(), parameters.bank_size).map_err(|_| ENOMEM)?;
        if !parameters.shared_pool && !parameters.shared_nodes {
            // Else others may have written into a node, or read what its owner left before.
            heap.keep_owners().map_err(|_| ENOMEM)?;
        }
        KBox::pin_init(
            pin_init!(Self {
                memory,
                address,
                heap <- new_mutex!(heap, "galcore heap"),
            }),
            GFP_KERNEL,
        )
        .map(Some)
    }
}

/// All memory that one device hands out.
pub(crate) struct VideoMemory {
    dev: dma::Device,
    base_address: u32,
    pool: Option<Pin<KBox<SystemPool>>>,
    contiguous: Counter,
    scattered: Counter,
    /// Pages of user memory.
    pinned: Arc<PinnedPages>,
    /// dma-bufs of others.
    imports: Arc<Imports>,
    exporter: Arc<Exporter<Node>>,
    /// Every client sees all of the pool.
    shared_pool: bool,
    vm: Arc<Vm>,
    /// TILE_STATUS may lie behind the MMU (memory controller 2.0).
    tile_status_anywhere: bool,
}

impl VideoMemory {
    /// Sets the pool up, for cores with `vm` whose GPU address 0 lies at `base_address`; `identity` is the first's.
    /// Every failure has been printed.
    pub(crate) fn new(
        dev: &dma::Device,
        parameters: &Parameters,
        base_address: u32,
        identity: &Identity,
        vm: Arc<Vm>,
    ) -> kernel::error::Result<Arc<Self>> {
        let pool = SystemPool::new(dev, parameters, base_address)?;
        let pool_range = pool
            .as_ref()
            .map(|pool| (pool.address, pool.memory.bytes()));
        let allowed = parameters.allowed_ranges.iter().flatten();
        let allowed = allowed.map(|range| (range.start(), range.bytes()));
        // `Init` has a `chain` too, so this one is called by its trait.
        for (address, bytes) in Iterator::chain(allowed, pool_range) {
            vm.map_for_good(address, bytes, Access::ReadWrite)
                .inspect_err(|_| dev_err!(dev, "no memory for the MMU's tables\n"))?;
        }
        let pinned = PinnedPages::new(dev)?;
        let this = Self {
            dev: dev.clone(),
            base_address,
            pool,
            contiguous: Counter::new()?,
            scattered: Counter::new()?,
            imports: Imports::new(dev, &pinned)?,
            pinned,
            exporter: Exporter::new()?,
            shared_pool: parameters.shared_pool,
            vm,
            tile_status_anywhere: identity.has_new_memory_controller(),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// What makes dma-bufs of nodes.
    pub(crate) fn exporter(&self) -> &Arc<Exporter<Node>> {
        &self.exporter
    }

    /// Whether every client sees all of the pool.
    pub(crate) fn is_pool_shared(&self) -> bool {
        self.shared_pool
    }

    /// Bytes of the pool; 0: there is none.
    pub(crate) fn pool_bytes(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.memory.bytes())
    }

    /// GPU address of the pool's first byte; 0 without a pool.
    pub(crate) fn pool_address(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.address)
    }

    /// What is in use.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            pool: self.pool.as_ref().map_or(0, |pool| {
                let heap = pool.heap.lock();
                heap.total_bytes() - heap.free_bytes()
            }),
            contiguous: self.contiguous.bytes(),
            scattered: self.scattered.bytes(),
        }
    }

    /// The pool, if there is one.
    pub(crate) fn pool_part(&self) -> Option<Part<'_>> {
        let memory = &self.pool.as_ref()?.memory;
        memory.part(0, memory.bytes())
    }

    /// Allocates a contiguous buffer of at least `bytes`, zeroed.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: none that the GPU reaches.
    pub(crate) fn allocate_buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        if bytes > LINEAR_WINDOW {
            return Err(Error::OutOfMemory);
        }
        let bytes = usize::try_from(bytes)
            .ok()
            .and_then(page_align)
            .ok_or(Error::OutOfMemory)?;
        let memory = DmaBuffer::new(&self.dev, bytes)?;
        let address = gpu_address(memory.dma_address(), bytes, self.base_address)
            .ok_or(Error::OutOfMemory)?;
        let memory = Arc::new(memory, GFP_KERNEL_ACCOUNT)?;
        let mapping = self
            .vm
            .map_linear(&memory, address)
            .map_err(|_| Error::OutOfMemory)?;
        self.contiguous.add(bytes);
        let buffer = Buffer {
            memory,
            address,
            counter: self.contiguous.clone(),
            _mapping: mapping,
        };
        Ok(Arc::new(buffer, GFP_KERNEL_ACCOUNT)?)
    }

    /// Allocates scattered pages for at least `bytes`, zeroed, and maps them for the GPU.
    fn allocate_scattered(&self, bytes: u32) -> Result<Mapping> {
        // CAST: 32 bits into at least 32.
        let bytes = page_align(bytes as usize).ok_or(Error::OutOfMemory)?;
        let (available, total) = sys::memory_bytes();
        if bytes > self.vm.longest_free() || !limits::leaves_reserve(bytes, available, total) {
            return Err(Error::OutOfMemory);
        }
        let pages = Pages::allocate(&self.dev, bytes / PAGE_SIZE)?;
        let backing = Paged::new(pages, Some(&self.scattered));
        self.vm.map(Arc::new(backing, GFP_KERNEL_ACCOUNT)?)
    }

    /// Pins `bytes` at user address `user` of the calling process and maps them for the GPU: for
    /// reading only, if the process may not write all of them or does not `write`, and the MMU can keep the
    /// GPU from it.
    ///
    /// `InvalidArgument`: none, or they wrap. `OutOfResources`: not all there (and, without read-only
    /// pages, writable), more than the process may lock, no room in the GPU's address space, or some are
    /// mapped for the GPU as parts of a dma-buf.
    ///
    /// `reclaim` waits for what clients have let go of.
    pub(crate) fn map_user(
        &self,
        user: u64,
        bytes: u64,
        write: bool,
        reclaim: impl Fn() -> Result,
    ) -> Result<UserMemory> {
        let user = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
        let bytes = usize::try_from(bytes).map_err(|_| Error::InvalidArgument)?;
        let offset = user % PAGE_SIZE;
        let highest = sys::highest_user_address();
        let wraps = |span| {
            (user - offset)
                .checked_add(span)
                .is_none_or(|end| end > highest)
        };
        let span = bytes
            .checked_add(offset)
            .and_then(page_align)
            .filter(|&span| bytes > 0 && !wraps(span))
            .ok_or(Error::InvalidArgument)?;
        // CAST: at most 64 bits.
        if span as u64 > LINEAR_WINDOW {
            return Err(Error::OutOfResources);
        }
        let is_mapped = Cell::new(false);
        let pin = || -> Result<Mapping> {
            let (start, count) = (user - offset, span / PAGE_SIZE);
            let pin = |write| Pages::pin(&self.pinned, start, count, (offset, bytes), write);
            let read_only = self.vm.has_read_only_pages();
            let pages = match pin(write || !read_only) {
                Err(EFAULT) if read_only => pin(false),
                pages => pages,
            }
            .map_err(|error| {
                is_mapped.set(error == EBUSY);
                Error::OutOfResources
            })?;
            let backing = Paged::new(pages, None);
            self.vm.map(Arc::new(backing, GFP_KERNEL_ACCOUNT)?)
        };
        // What was unmapped lately may still count.
        let mapping = pin().or_else(|_| reclaim().and_then(|()| pin()));
        let mapping = mapping.inspect_err(|_| {
            if is_mapped.get() {
                warn_client!(TWICE, "{}", MAPPED_ALREADY);
            }
        })?;
        Ok(UserMemory {
            mapping,
            offset,
            bytes,
            user: Some(user),
        })
    }

    /// Maps the dma-buf of the calling process's descriptor `fd` for the GPU: for reading only, if the
    /// descriptor is not for writing or nobody wants to `write`, and the MMU can keep the GPU from it.
    ///
    /// `InvalidArgument`: there is none, it is for reading only, or not in whole pages. `OutOfMemory`: no room
    /// in the GPU's address space. `NotSupported`: the kernel has no dma-bufs. Else `OutOfResources`: its
    /// owner gives none of it, or some is mapped for the GPU already, as a process's own or as another dma-buf.
    ///
    /// `reclaim` waits for what clients have let go of.
    pub(crate) fn import(
        &self,
        fd: i32,
        write: bool,
        reclaim: impl Fn() -> Result,
    ) -> Result<UserMemory> {
        let read_only = self.vm.has_read_only_pages();
        let import = || match self.imports.import(fd, write || !read_only) {
            Err(EACCES) if read_only => self.imports.import(fd, false),
            import => import,
        };
        let import = match import() {
            // What was unmapped lately may still be mapped.
            Err(EBUSY) => {
                reclaim()?;
                import()
            }
            import => import,
        }
        .inspect_err(|&error| {
            if error == EBUSY {
                warn_client!(TWICE, "{}", MAPPED_ALREADY);
            }
        })
        .map_err(|error| match error {
            EBADF | EINVAL | EACCES => Error::InvalidArgument,
            ENOTSUPP => Error::NotSupported,
            ERESTARTSYS | EINTR => Error::Interrupted,
            _ => Error::OutOfResources,
        })?;
        let bytes = import.bytes();
        if bytes > self.vm.longest_free() {
            // What was unmapped lately may still count.
            reclaim()?;
        }
        if bytes > self.vm.longest_free() {
            return Err(Error::OutOfMemory);
        }
        let pages = Pages::import(&self.dev, import)?;
        let backing = Arc::new(Paged::new(pages, None), GFP_KERNEL_ACCOUNT)?;
        let map = || self.vm.map(backing.clone());
        let mapping = map().or_else(|_| reclaim().and_then(|()| map()))?;
        Ok(UserMemory {
            mapping,
            offset: 0,
            bytes,
            user: None,
        })
    }

    /// A node of memory that is not ours.
    pub(crate) fn wrap(self: &Arc<Self>, memory: UserMemory, owner: u64) -> Result<Arc<Node>> {
        self.node(Place::Wrapped(memory), owner)
    }

    fn node(self: &Arc<Self>, place: Place, owner: u64) -> Result<Arc<Node>> {
        let node = Node {
            memory: self.clone(),
            place: Some(place),
            owner,
            shared: Atomic::new(false),
        };
        Ok(Arc::new(node, GFP_KERNEL_ACCOUNT)?)
    }

    /// Allocates a node of at least `bytes` in the first of pool `pool`'s pools that has them. It holds
    /// zeros, or what `owner` (not 0, and never another process's number) has left there itself.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: no pool has them.
    pub(crate) fn allocate_node(
        self: &Arc<Self>,
        bytes: u32,
        alignment: u32,
        kind: u32,
        pool: u32,
        owner: u64,
    ) -> Result<Arc<Node>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        let walk = Pool::walk(pool);
        for (i, pool) in walk.iter().enumerate() {
            let place = match pool {
                // What the walk falls through to; asked for by name it is granted.
                Pool::Virtual if i > 0 && !self.may_be_scattered(kind) => break,
                Pool::Virtual => self.allocate_scattered(bytes).map(Place::Virtual),
                Pool::System => self.allocate_in_pool(bytes, alignment, kind, owner),
                Pool::Contiguous => self.allocate_buffer(bytes.into()).map(Place::Pages),
            };
            match place {
                Ok(place) => return self.node(place, owner),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) => {}
            }
        }
        Err(Error::OutOfMemory)
    }

    /// Whether a request for pool `number` could ever be granted, if nothing else were allocated.
    pub(crate) fn could_have(&self, bytes: u32, number: u32) -> bool {
        Pool::walk(number).iter().any(|pool| match pool {
            // CAST: 32 bits into at least 32.
            Pool::System => bytes as usize <= self.pool_bytes(),
            Pool::Contiguous | Pool::Virtual => true,
        })
    }

    /// Whether a surface that found no contiguous memory may lie behind the MMU.
    fn may_be_scattered(&self, kind: u32) -> bool {
        kind & KIND_MASK != TILE_STATUS || self.tile_status_anywhere
    }

    fn allocate_in_pool(&self, bytes: u32, alignment: u32, kind: u32, owner: u64) -> Result<Place> {
        let pool = self.pool.as_ref().ok_or(Error::OutOfMemory)?;
        let kind = SurfaceType::new(kind).ok_or(Error::InvalidArgument)?;
        // CAST: `usize` has at least 32 bits here.
        let (asked, mut alignment) = (bytes as usize, alignment as usize);
        let mut bytes = asked;
        if !self.shared_pool {
            // A page of the pool shows only in windows of its owner: so it has one.
            bytes = page_align(bytes).ok_or(Error::OutOfMemory)?;
            alignment = with_pages(alignment).ok_or(Error::OutOfMemory)?;
        }
        let (span, is_own) = {
            let mut heap = pool.heap.lock();
            if !heap.is_open_to(asked) {
                return Err(Error::OutOfMemory);
            }
            let span = heap.allocate(bytes, alignment, kind)?;
            let is_own = heap.is_left_by(&span, owner);
            (span, is_own)
        };
        if is_own {
            return Ok(Place::Pool(span));
        }
        match zero_in_steps(&pool.memory, &span) {
            Ok(()) => Ok(Place::Pool(span)),
            Err(error) => {
                pool.heap.lock().free(span);
                Err(error)
            }
        }
    }
}
