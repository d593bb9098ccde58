// SPDX-License-Identifier: GPL-2.0-only

//! Memory of clients: the pool, nodes, and contiguous buffers.
//!
//! Owns the pool and its [`heap::Heap`]. The heap's mutex is of level 5. Its holder takes only the
//! allocator's locks. Memory is zeroed before another process can access it. It is freed with its
//! last reference: of the handle table, the GPU ([`crate::ring::Reclaimer`]) or a mapping.

mod buffer;
mod framebuffers;
mod heap;
mod metadata;
mod node;
mod pool;
pub(crate) mod surface;
mod userptr;
mod word;

use crate::{
    hw::Identity,
    log::{
        warn_client,
        RateLimit, //
    },
    mmu::{
        AddressSpace,
        Contents,
        Counter,
        Extent,
        GpuView,
        Mapping,
        Paged,
        Vm, //
    },
    params::{
        self,
        Parameters,
        LINEAR_WINDOW, //
    },
    prelude::*,
    sys::{
        dma::{
            self,
            DmaBuffer, //
        },
        dma_buf::{
            DmaBuf,
            Imports, //
        },
        file::Exporter,
        mmio::Part,
        pages::Pages,
        pinned::PinnedPages, //
    }, //
};
use framebuffers::Framebuffers;
use heap::{
    with_pages,
    SurfaceType, //
};
use kernel::{
    device,
    page::page_align, //
};
use metadata::Metadata;
use node::Place;
use pool::{
    fill_in_steps,
    Pending,
    Pieces,
    SystemPool, //
};

pub(crate) use {
    buffer::Buffer,
    framebuffers::Use as FramebufferUse,
    heap::granted,
    metadata::Tiling,
    node::{
        Backing,
        Elsewhere,
        Node,
        Pool,
        View, //
    },
    userptr::UserMemory,
    word::{
        Object,
        Word, //
    }, //
};

/// The linear GPU address of `bytes` at `physical`: `physical` minus `base_address`. `None`: not all
/// are in the linear window.
pub(crate) fn gpu_address(physical: u64, bytes: usize, base_address: u32) -> Option<u32> {
    params::linear_address(physical, usize_as_u64(bytes), base_address)
}

/// Limits the log lines about memory that would be mapped for the GPU twice.
static TWICE: RateLimit = RateLimit::new();

const MAPPED_ALREADY: &str = "maps memory that is already mapped for the GPU in another way \
    (as memory of a process, or as another dma-buf)";

/// Limits the log lines about memory that the GPU does not reach.
static TOO_HIGH: RateLimit = RateLimit::new();

const BEYOND_REACH: &str =
    "has memory, or a dma-buf, at physical addresses that the GPU does not reach";

/// Logs why foreign memory cannot be mapped, if the status does not tell it.
fn warn_of(cause: Errno) {
    match cause {
        EBUSY => warn_client!(TWICE: "{}", MAPPED_ALREADY),
        ERANGE => warn_client!(TOO_HIGH: "{}", BEYOND_REACH),
        _ => {}
    }
}

/// The bits of a surface's kind without flags, and the kind of a tile status.
const KIND_MASK: u32 = 0xFF;
const TILE_STATUS: u32 = 7;

/// Counts of bytes in use, and of free bytes in the pool.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Bytes in use in the pool.
    pub(crate) pool: usize,
    /// Free bytes of the pool now, and their minimum so far.
    pub(crate) pool_free: usize,
    pub(crate) pool_least_free: usize,
    /// Bytes of contiguous buffers and nodes outside of the pool.
    pub(crate) contiguous: usize,
    /// Bytes of nodes in scattered pages.
    pub(crate) scattered: usize,
}

/// All memory that one device allocates.
pub(crate) struct VideoMemory {
    dev: dma::Device,
    base_address: u32,
    pool: Option<Pin<KBox<SystemPool>>>,
    contiguous: Counter,
    scattered: Counter,
    /// Pages of user memory.
    pinned: Arc<PinnedPages>,
    /// dma-bufs of other drivers.
    imports: Arc<Imports>,
    exporter: Arc<Exporter<Node>>,
    /// Every client can access the whole pool.
    shared_pool: bool,
    vm: Arc<Vm>,
    framebuffers: Arc<Framebuffers>,
    pending: Pending,
    /// The MMU also translates addresses of tile statuses (memory controller 2.0).
    tile_status_anywhere: bool,
}

impl VideoMemory {
    /// Sets up the pool for cores that use `vm`. Their GPU address 0 is at `base_address`.
    /// `identity` is that of the first core. Every failure is logged for the device `log`.
    pub(crate) fn new(
        log: &device::Device,
        dev: &dma::Device,
        parameters: &Parameters,
        base_address: u32,
        identity: &Identity,
        vm: Arc<Vm>,
    ) -> kernel::error::Result<Arc<Self>> {
        let pool = SystemPool::new(log, dev, parameters, base_address)?;
        let pool_range = pool
            .as_ref()
            .map(|pool| (pool.address, pool.memory.bytes()));
        let allowed = parameters.allowed_ranges.iter().flatten();
        let allowed = allowed.map(|range| (range.start(), range.bytes()));
        // Processes' own tables map the pool's nodes, so then do not map the whole pool here.
        let common = pool_range.filter(|_| parameters.shared_pool || !vm.has_spaces());
        // `Init` also has a `chain`, so name the trait.
        for (address, bytes) in Iterator::chain(allowed, common) {
            vm.map_permanently(address, bytes)
                .inspect_err(|_| dev_err!(log, "no memory for the MMU's tables\n"))?;
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
            framebuffers: Arc::pin_init(Framebuffers::new(base_address)?, GFP_KERNEL)?,
            pending: Pending::new(),
            tile_status_anywhere: identity.has_new_memory_controller(),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// The device for which memory is allocated.
    pub(crate) fn owner(&self) -> &dma::Device {
        &self.dev
    }

    /// The framebuffers that clients have mapped.
    pub(crate) fn framebuffers(&self) -> &Arc<Framebuffers> {
        &self.framebuffers
    }

    /// The exporter of nodes as dma-bufs.
    pub(crate) fn exporter(&self) -> &Arc<Exporter<Node>> {
        &self.exporter
    }

    /// Whether every client can access the whole pool.
    pub(crate) fn is_pool_shared(&self) -> bool {
        self.shared_pool
    }

    /// Bytes of the pool. 0: there is none.
    pub(crate) fn pool_bytes(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.memory.bytes())
    }

    /// GPU address of the pool's first byte. 0: there is no pool.
    pub(crate) fn pool_address(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.address)
    }

    /// Bytes in use.
    pub(crate) fn usage(&self) -> Usage {
        let [pool, pool_free, pool_least_free] = self.pool.as_ref().map_or([0; 3], |pool| {
            let heap = pool.heap.lock();
            let (total, free) = (heap.total_bytes(), heap.free_bytes());
            [total - free, free, heap.least_free_bytes()]
        });
        Usage {
            pool,
            pool_free,
            pool_least_free,
            contiguous: self.contiguous.bytes(),
            scattered: self.scattered.bytes(),
        }
    }

    /// Prepares for hibernation, in which a pool outside of the kernel's memory loses its contents.
    /// Error: the number of bytes in use in such a pool.
    pub(crate) fn leave_pool(&self) -> core::result::Result<(), usize> {
        match &self.pool {
            Some(pool) if !pool.memory.is_system_ram() => pool.heap.lock().leave(),
            _ => Ok(()),
        }
    }

    /// The memory of the whole pool, if there is one.
    pub(crate) fn pool_part(&self) -> Option<Part<'_>> {
        let memory = &self.pool.as_ref()?.memory;
        memory.part(0, memory.bytes())
    }

    /// Allocates a contiguous, zeroed buffer of at least `bytes`, for `contents`. Maps it in the
    /// common tables, or in those of `space`. If processes have their own tables and `space` is
    /// `None`, the caller must make a [`GpuView`] of it.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: no memory that the GPU reaches.
    pub(crate) fn allocate_buffer(
        &self,
        bytes: u64,
        contents: Contents,
        space: Option<&Arc<AddressSpace>>,
    ) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Err(Error::InvalidArgument);
        }
        // Refuse the size of the whole window: the kernel would warn about such an allocation.
        let bytes = usize::try_from(bytes)
            .ok()
            .and_then(page_align)
            .filter(|&bytes| usize_as_u64(bytes) < LINEAR_WINDOW)
            .ok_or(Error::OutOfMemory)?;
        let pending = if sys::comes_from_cma(bytes) {
            None
        } else {
            Some(self.pending.begin(bytes, Pieces::Contiguous)?)
        };
        let get = |bytes| -> Result<_> {
            let memory = DmaBuffer::charged(&self.dev, bytes)?;
            let address = gpu_address(memory.dma_address(), memory.size(), self.base_address);
            Ok((memory, address.ok_or(Error::OutOfMemory)?))
        };
        let (memory, address) = match get(bytes) {
            // The kernel allocates one page anywhere, but two pages in the contiguous memory.
            Err(Error::OutOfMemory) if bytes == PAGE_SIZE => get(2 * PAGE_SIZE)?,
            got => got?,
        };
        let bytes = memory.size();
        drop(pending);
        let memory = Arc::new(memory, sys::GFP_CLIENT)?;
        let mapping = if self.vm.has_spaces() {
            None
        } else {
            self.vm
                .map_linear(&memory, address, contents)
                .map_err(|_| Error::OutOfMemory)?
        };
        let extent = Extent::Linear {
            address,
            bytes,
            contents,
        };
        let view = space.map(|space| GpuView::new(space, &extent, memory.clone()));
        let view = view.transpose()?;
        self.contiguous.add(bytes);
        let buffer = Buffer {
            memory,
            address,
            counter: self.contiguous.clone(),
            _mapping: mapping,
            _view: view,
        };
        Ok(Arc::new(buffer, sys::GFP_CLIENT)?)
    }

    /// Allocates scattered, zeroed pages for at least `bytes`, and maps them for the GPU.
    fn allocate_scattered(&self, bytes: u32) -> Result<Mapping> {
        let bytes = page_align(u32_as_usize(bytes)).ok_or(Error::OutOfMemory)?;
        if bytes > self.vm.longest_free() {
            return Err(Error::OutOfMemory);
        }
        let pending = self.pending.begin(bytes, Pieces::Scattered)?;
        let allocated = |count: usize| pending.allocated(count * PAGE_SIZE);
        let pages = Pages::allocate(&self.dev, bytes / PAGE_SIZE, allocated)?;
        drop(pending);
        let backing = Paged::new(pages, Some(&self.scattered));
        self.vm.map(Arc::new(backing, sys::GFP_CLIENT)?)
    }

    /// Pins `bytes` at user address `user` of the calling process and maps them for the GPU. If the
    /// MMU has read-only pages, the mapping is read-only if `write` is false or the process may not
    /// write all of them.
    ///
    /// `InvalidArgument`: no bytes, or they wrap. `OutOfResources`: not all are mapped (or, without
    /// read-only pages, writable), they exceed the process's limit of locked memory, the GPU's
    /// address space has no room, or some are already mapped for the GPU as parts of a dma-buf.
    /// `NotSupported`: the GPU does not reach some.
    ///
    /// `reclaim` waits until memory that clients have released is free.
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
        if usize_as_u64(span) > LINEAR_WINDOW {
            return Err(Error::OutOfResources);
        }
        let pin = || -> Result<Mapping, (Error, Errno)> {
            let (start, count) = (user - offset, span / PAGE_SIZE);
            let pin = |write| Pages::pin(&self.pinned, start, count, (offset, bytes), write);
            let read_only = self.vm.has_read_only_pages();
            let pages = match pin(write || !read_only) {
                Err(EFAULT) if read_only && write => pin(false),
                pages => pages,
            };
            let pages = pages.map_err(|cause| match cause {
                ERANGE => (Error::NotSupported, cause),
                _ => (Error::OutOfResources, cause),
            })?;
            let backing = Arc::new(Paged::new(pages, None), sys::GFP_CLIENT);
            let mapping = backing.map_err(Error::from).and_then(|it| self.vm.map(it));
            mapping.map_err(|error| (error, ENOMEM))
        };
        let mapping = match pin() {
            // Recently unmapped memory may still count.
            Err((_, cause)) if ![EFAULT, E2BIG, ERANGE].contains(&cause) => {
                reclaim()?;
                pin()
            }
            mapping => mapping,
        };
        let mapping = mapping.map_err(|(error, cause)| {
            warn_of(cause);
            error
        })?;
        Ok(UserMemory {
            mapping,
            offset,
            bytes,
            user: Some(user),
            is_used: Atomic::new(false),
        })
    }

    /// Maps a dma-buf for the GPU. If the MMU has read-only pages, the mapping is read-only if
    /// `write` is false or the dma-buf is not writeable.
    ///
    /// `InvalidArgument`: not in whole pages, or read-only while the MMU has no read-only pages.
    /// `OutOfMemory`: no room in the GPU's address space. `NotSupported`: the kernel has no
    /// dma-bufs, or the GPU does not reach its memory. `OutOfResources`: its exporter fails, or
    /// some of it is already mapped for the GPU, as memory of a process or another dma-buf.
    ///
    /// `reclaim` waits until memory that clients have released is free.
    pub(crate) fn import(
        &self,
        buffer: &DmaBuf,
        write: bool,
        minds_mode: bool,
        reclaim: impl Fn() -> Result,
    ) -> Result<UserMemory> {
        let read_only = self.vm.has_read_only_pages();
        let import = || match self.imports.import(buffer, write || !read_only, minds_mode) {
            Err(EACCES) if read_only => self.imports.import(buffer, false, minds_mode),
            import => import,
        };
        let import = match import() {
            // Recently unmapped memory may still be mapped for the GPU.
            Err(EBUSY) => {
                reclaim()?;
                import()
            }
            import => import,
        }
        .inspect_err(|&error| warn_of(error))
        .map_err(|error| match error {
            EBADF | EINVAL | EACCES => Error::InvalidArgument,
            ENOTSUPP | ERANGE => Error::NotSupported,
            ERESTARTSYS | EINTR => Error::Interrupted,
            _ => Error::OutOfResources,
        })?;
        let bytes = import.bytes();
        if bytes > self.vm.longest_free() {
            // Recently unmapped memory may still count.
            reclaim()?;
        }
        if bytes > self.vm.longest_free() {
            return Err(Error::OutOfMemory);
        }
        let pages = Pages::import(&self.dev, import)?;
        let backing = Arc::new(Paged::new(pages, None), sys::GFP_CLIENT)?;
        let map = || self.vm.map(backing.clone());
        let mapping = map().or_else(|_| reclaim().and_then(|()| map()))?;
        Ok(UserMemory {
            mapping,
            offset: 0,
            bytes,
            user: None,
            is_used: Atomic::new(false),
        })
    }

    /// Makes a node of user memory or of a dma-buf.
    pub(crate) fn wrap(self: &Arc<Self>, memory: UserMemory, owner: u64) -> Result<Arc<Node>> {
        self.node(Place::Wrapped(memory), owner)
    }

    /// Makes a node of foreign memory that the GPU reaches at its physical address.
    pub(crate) fn name_elsewhere(
        self: &Arc<Self>,
        memory: Elsewhere,
        owner: u64,
    ) -> Result<Arc<Node>> {
        self.node(Place::Elsewhere(memory), owner)
    }

    #[inline(always)]
    fn node(self: &Arc<Self>, place: Place, owner: u64) -> Result<Arc<Node>> {
        let node = Node {
            memory: self.clone(),
            place: Some(place),
            owner,
            shared: Atomic::new(false),
            metadata: Metadata::new(),
        };
        Ok(Arc::new(node, sys::GFP_CLIENT)?)
    }

    /// Allocates a node of at least `bytes`. Tries the pools for the number `pool` in order, until
    /// one has enough memory. The node holds zeros, or data that `owner` has left there. `owner` is
    /// the number of a process. It is not 0, and never reused.
    ///
    /// `InvalidArgument`: no bytes. `OutOfMemory`: no pool has enough memory.
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
                // As a fallback, only if the surface may be scattered. A direct request succeeds.
                Pool::Virtual if i > 0 && !self.may_be_scattered(kind) => break,
                Pool::Virtual => self.allocate_scattered(bytes).map(Place::Virtual),
                Pool::System => self.allocate_in_pool(bytes, alignment, kind, owner),
                Pool::Contiguous => self
                    .allocate_buffer(bytes.into(), Contents::Clients, None)
                    .map(Place::Pages),
            };
            match place {
                Ok(place) => return self.node(place, owner),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) => {}
            }
        }
        Err(Error::OutOfMemory)
    }

    /// Whether a request for pool `number` could succeed if nothing else were allocated.
    pub(crate) fn could_have(&self, bytes: u32, alignment: u32, number: u32) -> bool {
        Pool::walk(number).iter().any(|pool| match pool {
            Pool::System => granted(bytes, alignment)
                .is_some_and(|granted| u32_as_usize(granted) <= self.pool_bytes()),
            Pool::Contiguous | Pool::Virtual => true,
        })
    }

    /// Whether a surface may be in scattered pages if there is no contiguous memory.
    fn may_be_scattered(&self, kind: u32) -> bool {
        kind & KIND_MASK != TILE_STATUS || self.tile_status_anywhere
    }

    fn allocate_in_pool(
        &self,
        bytes: u32,
        mut alignment: u32,
        kind: u32,
        owner: u64,
    ) -> Result<Place> {
        let pool = self.pool.as_ref().ok_or(Error::OutOfMemory)?;
        let kind = SurfaceType::new(kind).ok_or(Error::InvalidArgument)?;
        let granted = granted(bytes, alignment).ok_or(Error::OutOfMemory)?;
        let (asked, mut bytes) = (u32_as_usize(bytes), u32_as_usize(granted));
        if !self.shared_pool {
            // Clients map only their own pages of the pool, so nodes must not share pages.
            bytes = page_align(bytes).ok_or(Error::OutOfMemory)?;
            alignment = with_pages(alignment).ok_or(Error::OutOfMemory)?;
        }
        let (span, is_own) = {
            let mut heap = pool.heap.lock();
            if !heap.is_open_to(asked) {
                return Err(Error::OutOfMemory);
            }
            let mut span = heap.allocate(bytes, u32_as_usize(alignment), kind)?;
            let is_own = heap.is_left_by(&mut span, owner);
            (span, is_own)
        };
        if is_own {
            return Ok(Place::Pool(span));
        }
        match fill_in_steps(&pool.memory, &span, 0) {
            Ok(()) => Ok(Place::Pool(span)),
            Err(error) => {
                pool.heap.lock().free(span);
                Err(error)
            }
        }
    }
}
