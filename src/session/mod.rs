// SPDX-License-Identifier: GPL-2.0-only

//! What a process owns, and the running of its requests.
//!
//! A [`Process`] stands for all files that one process has open: libraries open the device more
//! than once and use handles across. It ends with the last of them; then everything it owned is
//! given back, behind the GPU's last use.
//!
//! # Locks
//!
//! [`Process::tables`] is held for look-ups and changes only, never while the GPU or user space is
//! waited for. Under it: the heap's mutex. The interrupt thread takes it with no other lock held.

mod commit;
mod handles;
mod queue;

use crate::{
    abi::{
        Reply,
        Request,
        UserSignal, //
    },
    board::Device,
    command::GPU_TIMEOUT,
    diag::log::RateLimit,
    error::{
        Error,
        Result, //
    },
    event::{
        Held,
        Signal, //
    },
    memory::{
        Buffer,
        Node,
        View, //
    },
    sys::{
        self,
        chrdev::OpenFile, //
    },
};
use handles::Handles;
use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Highest word address that a context covers, plus 1: clients size their arrays by it.
///
/// This is the value of the 256-instruction cores of spec/command-hw.md section 4.3; contexts hold no
/// state yet.
const STATE_COUNT: u64 = 0x1D00;

/// The version of the interface that this driver implements: 4.6.9 build 1210.
const VERSION: [u32; 4] = [4, 6, 9, 1210];

/// A node in a process's table.
struct NodeEntry {
    node: Arc<Node>,
    locks: u32,
    /// FREE has come; the node goes with its last lock.
    freed: bool,
    /// Where a page-backed node is mapped.
    user: Option<usize>,
}

/// A contiguous buffer in a process's table.
struct BufferEntry {
    buffer: Arc<Buffer>,
    /// Where it is mapped; 0 while it is being mapped.
    user: usize,
}

/// A signal in a process's table.
struct SignalEntry {
    signal: Arc<Signal>,
    /// 1 from CREATE, and 1 for each MAP.
    references: u32,
}

struct Tables {
    nodes: Handles<NodeEntry>,
    buffers: Handles<BufferEntry>,
    signals: Handles<SignalEntry>,
    contexts: Handles<()>,
    /// Where the process has mapped the pool, by the last mmap.
    pool_view: Option<usize>,
}

/// One process's objects.
#[pin_data]
pub(crate) struct Process {
    device: Arc<Device>,
    log: RateLimit,
    #[pin]
    tables: Mutex<Tables>,
}

impl Process {
    /// A process without objects.
    pub(crate) fn new(device: Arc<Device>) -> Result<Arc<Self>, kernel::error::Error> {
        Arc::pin_init(
            pin_init!(Self {
                device,
                log: RateLimit::new(),
                tables <- new_mutex!(Tables {
                    nodes: Handles::new(),
                    buffers: Handles::new(),
                    signals: Handles::new(),
                    contexts: Handles::new(),
                    pool_view: None,
                }, "galcore process"),
            }),
            GFP_KERNEL,
        )
    }

    /// Gives everything back once the GPU cannot use it any more.
    pub(crate) fn end(self: Arc<Self>) {
        let device = self.device.clone();
        device.core().ring().retire(Held::Process(self));
    }

    /// Runs one request of the interface.
    pub(crate) fn run(self: &Arc<Self>, file: &OpenFile, request: Request) -> Result<Reply> {
        match request {
            Request::QueryVideoMemory => Ok(Reply::VideoMemory {
                pool_bytes: self.device.memory().pool_bytes() as u64,
            }),
            Request::QueryChipIdentity => Ok(Reply::ChipIdentity(self.device.identity())),
            Request::QueryKernelSettings => Ok(Reply::KernelSettings {
                signal: self.device.parameters().signal,
            }),
            Request::GetBaseAddress => {
                Ok(Reply::BaseAddress(self.device.parameters().base_address))
            }
            Request::Version => Ok(Reply::Version(VERSION)),
            Request::ChipInfo => Ok(Reply::ChipInfo {
                kind: self.device.core().identity().hardware_type(),
            }),
            Request::AllocateContiguous { bytes } => self.allocate_buffer(file, bytes),
            Request::FreeContiguous(buffer) => {
                let entry = self.remove_buffer(buffer)?;
                unmap_buffer(&entry);
                self.retire(Held::Buffer(entry.buffer));
                Ok(Reply::Nothing)
            }
            Request::AllocateLinear {
                bytes,
                alignment,
                kind,
                pool,
            } => self.allocate_node(bytes, alignment, kind, pool),
            Request::Lock { node, cacheable } => self.lock(file, node, cacheable),
            Request::Unlock { node } => self.unlock(node),
            Request::FreeNode { node } => {
                self.mark_freed(node)?;
                self.finish_free(node);
                Ok(Reply::Nothing)
            }
            Request::UserSignal(command) => self.user_signal(command),
            Request::Attach => {
                let context = self.tables.lock().contexts.insert(())?;
                Ok(Reply::Context {
                    context,
                    state_count: STATE_COUNT,
                })
            }
            Request::Detach { context } => {
                let removed = self.tables.lock().contexts.remove(context);
                removed
                    .map(|()| Reply::Nothing)
                    .ok_or(Error::InvalidArgument)
            }
            Request::Commit(commit) => self.commit(commit).map(|()| Reply::Nothing),
            Request::EventCommit { queue } => self.event_commit(queue).map(|()| Reply::Nothing),
            Request::Stall => {
                self.device.core().ring().wait_idle(GPU_TIMEOUT)?;
                Ok(Reply::Nothing)
            }
            Request::Cache { node } => {
                // All mappings are write-combined or uncached: there is nothing to maintain.
                let known = node == 0 || self.tables.lock().nodes.get(node).is_some();
                known
                    .then_some(Reply::Nothing)
                    .ok_or(Error::InvalidArgument)
            }
            Request::Unsupported => Err(Error::NotSupported),
            Request::Invalid => Err(Error::InvalidArgument),
        }
    }

    /// Maps what the file offset of `area` names: the pool at 0, or a buffer of this process.
    pub(crate) fn mmap(&self, area: &VmaNew) -> Result<(), kernel::error::Error> {
        let offset = sys::vma::file_offset(area);
        if offset == 0 {
            self.device.memory().map_pool(area)?;
            self.tables.lock().pool_view = Some(area.start());
            return Ok(());
        }
        let buffer = self.tables.lock().buffer_at(offset).ok_or(EINVAL)?;
        sys::vma::map(area, buffer)
    }

    /// Drops `held` behind everything that is in the ring now.
    fn retire(&self, held: Held) {
        self.device.core().ring().retire(held);
    }

    fn allocate_buffer(self: &Arc<Self>, file: &OpenFile, bytes: u64) -> Result<Reply> {
        let buffer = self.device.memory().allocate_buffer(bytes)?;
        let handle = self.tables.lock().buffers.insert(BufferEntry {
            buffer: buffer.clone(),
            user: 0,
        })?;
        let mapped = map_buffer(file, &buffer);
        let mut tables = self.tables.lock();
        let entry = tables.buffers.get_mut(handle);
        match (mapped, entry) {
            (Ok(user), Some(entry)) => {
                entry.user = user;
                Ok(Reply::Buffer {
                    bytes: buffer.bytes() as u64,
                    address: buffer.address(),
                    handle,
                    user: user as u64,
                })
            }
            (mapped, _) => {
                let entry = tables.buffers.remove(handle);
                drop(tables);
                drop(entry);
                let user = mapped?;
                // Another thread guessed the handle and freed it meanwhile.
                sys::chrdev::unmap_from_caller(user, buffer.bytes());
                Err(Error::NotFound)
            }
        }
    }

    /// Takes a buffer out of the table. `InvalidArgument`: a field is 0. `NotFound`: unknown.
    fn remove_buffer(&self, named: crate::abi::NamedBuffer) -> Result<BufferEntry> {
        if named.bytes == 0 || named.handle == 0 || named.user == 0 {
            return Err(Error::InvalidArgument);
        }
        self.tables
            .lock()
            .buffers
            .remove(named.handle)
            .ok_or(Error::NotFound)
    }

    fn allocate_node(&self, bytes: u32, alignment: u32, kind: u32, pool: u32) -> Result<Reply> {
        let memory = self.device.memory();
        let node = match memory.allocate_node(bytes, alignment, kind, pool) {
            // What was freed may still wait for the GPU: let it come back, and try once more.
            Err(Error::OutOfMemory) => {
                self.device.core().ring().wait_idle(GPU_TIMEOUT)?;
                memory.allocate_node(bytes, alignment, kind, pool)?
            }
            other => other?,
        };
        let pool = node.pool().number();
        let node = self.tables.lock().nodes.insert(NodeEntry {
            node,
            locks: 0,
            freed: false,
            user: None,
        })?;
        Ok(Reply::Node { node, pool })
    }

    fn lock(self: &Arc<Self>, file: &OpenFile, handle: u32, cacheable: bool) -> Result<Reply> {
        let (node, view) = {
            let mut tables = self.tables.lock();
            let pool_view = tables.pool_view;
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            if entry.freed {
                return Err(Error::InvalidObject);
            }
            match entry.node.view() {
                View::Pool(_) if cacheable => return Err(Error::InvalidRequest),
                View::Pool(offset) => {
                    entry.locks = entry.locks.checked_add(1).ok_or(Error::OutOfResources)?;
                    let user = pool_view.unwrap_or(0).wrapping_add(offset);
                    return Ok(Reply::Locked {
                        address: entry.node.address(),
                        user: user as u64,
                    });
                }
                View::Pages(_) if entry.locks > 0 => return Err(Error::MemoryLocked),
                View::Pages(buffer) => {
                    entry.locks = 1;
                    (entry.node.clone(), buffer)
                }
            }
        };
        let mapped = map_buffer(file, &view);
        let mut tables = self.tables.lock();
        match (mapped, tables.nodes.get_mut(handle)) {
            (Ok(user), Some(entry)) => {
                entry.user = Some(user);
                Ok(Reply::Locked {
                    address: node.address(),
                    user: user as u64,
                })
            }
            (Ok(user), None) => {
                drop(tables);
                sys::chrdev::unmap_from_caller(user, view.bytes());
                Err(Error::InvalidObject)
            }
            (Err(error), entry) => {
                if let Some(entry) = entry {
                    entry.locks = 0;
                }
                Err(error)
            }
        }
    }

    /// The ioctl half of UNLOCK: all of it for a node in the pool; for a page-backed one the end of
    /// the user's view, with the lock itself left to the event that must follow.
    fn unlock(&self, handle: u32) -> Result<Reply> {
        let (pages, user) = {
            let mut tables = self.tables.lock();
            let entry = tables.nodes.get_mut(handle).ok_or(Error::InvalidObject)?;
            match entry.node.view() {
                View::Pages(buffer) if entry.locks > 0 => (Some(buffer), entry.user.take()),
                _ if entry.locks == 0 => return Err(Error::MemoryUnlocked),
                _ => {
                    entry.locks -= 1;
                    (None, None)
                }
            }
        };
        if let (Some(buffer), Some(user)) = (&pages, user) {
            sys::chrdev::unmap_from_caller(user, buffer.bytes());
        }
        if pages.is_none() {
            self.drop_if_over(handle);
        }
        Ok(Reply::Unlocked {
            asynchronous: pages.is_some(),
        })
    }

    /// The event half of UNLOCK, for page-backed nodes.
    pub(crate) fn finish_unlock(&self, handle: u32) {
        if let Some(entry) = self.tables.lock().nodes.get_mut(handle) {
            entry.locks = entry.locks.saturating_sub(1);
        }
        self.drop_if_over(handle);
    }

    /// Notes that a node is to go. `InvalidObject`: handle 0. `InvalidData`: unknown or noted already.
    fn mark_freed(&self, handle: u32) -> Result {
        if handle == 0 {
            return Err(Error::InvalidObject);
        }
        match self.tables.lock().nodes.get_mut(handle) {
            Some(entry) if !entry.freed => {
                entry.freed = true;
                Ok(())
            }
            _ => Err(Error::InvalidData),
        }
    }

    /// Takes the note of [`Process::mark_freed`] back.
    fn unmark_freed(&self, handle: u32) {
        if let Some(entry) = self.tables.lock().nodes.get_mut(handle) {
            entry.freed = false;
        }
    }

    /// Ends a node that is marked as freed, unless it is locked: then its last unlock does.
    pub(crate) fn finish_free(&self, handle: u32) {
        self.drop_if_over(handle);
    }

    fn drop_if_over(&self, handle: u32) {
        let over = {
            let mut tables = self.tables.lock();
            match tables.nodes.get(handle) {
                Some(entry) if entry.freed && entry.locks == 0 => tables.nodes.remove(handle),
                _ => None,
            }
        };
        if let Some(entry) = over {
            self.retire(Held::Node(entry.node));
        }
    }

    fn signal(&self, id: u32) -> Result<Arc<Signal>> {
        let tables = self.tables.lock();
        let entry = tables.signals.get(id).ok_or(Error::NotFound)?;
        Ok(entry.signal.clone())
    }

    fn user_signal(&self, command: UserSignal) -> Result<Reply> {
        match command {
            UserSignal::Create { manual_reset } => {
                let signal = Signal::new(manual_reset)?;
                let id = self.tables.lock().signals.insert(SignalEntry {
                    signal,
                    references: 1,
                })?;
                Ok(Reply::Signal { id })
            }
            UserSignal::Destroy { id } => {
                let over = {
                    let mut tables = self.tables.lock();
                    let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                    entry.references -= 1;
                    match entry.references {
                        0 => tables.signals.remove(id),
                        _ => None,
                    }
                };
                drop(over);
                Ok(Reply::Nothing)
            }
            UserSignal::Signal { id, state } => {
                self.signal(id)?.signal(state);
                Ok(Reply::Nothing)
            }
            UserSignal::Wait { id, milliseconds } => {
                self.signal(id)?.wait(milliseconds)?;
                Ok(Reply::Nothing)
            }
            UserSignal::Map { id } => {
                let mut tables = self.tables.lock();
                let entry = tables.signals.get_mut(id).ok_or(Error::NotFound)?;
                entry.references = entry
                    .references
                    .checked_add(1)
                    .ok_or(Error::OutOfResources)?;
                Ok(Reply::Nothing)
            }
            UserSignal::Unknown => Err(Error::InvalidArgument),
        }
    }
}

impl Tables {
    /// The buffer, or page-backed node, whose file offset is `offset`.
    fn buffer_at(&self, offset: u64) -> Option<Arc<Buffer>> {
        let buffers = self.buffers.values().map(|entry| entry.buffer.clone());
        let nodes = self
            .nodes
            .values()
            .filter_map(|entry| match entry.node.view() {
                View::Pages(buffer) => Some(buffer),
                View::Pool(_) => None,
            });
        // `Init` has a `chain` too, so this one is called by its trait.
        Iterator::chain(buffers, nodes).find(|buffer| buffer.file_offset() == offset)
    }

    /// How many bytes of one piece of this process's GPU memory lie at user address `user` and
    /// behind it; `None`: it lies in none.
    fn bytes_from(&self, user: usize) -> Option<usize> {
        let inside = |start: usize, bytes: usize| {
            let at = user.checked_sub(start)?;
            bytes.checked_sub(at).filter(|&left| left > 0)
        };
        let buffer = self
            .buffers
            .values()
            .filter(|entry| entry.user != 0)
            .find_map(|entry| inside(entry.user, entry.buffer.bytes()));
        buffer.or_else(|| {
            self.nodes
                .values()
                .filter(|entry| entry.locks > 0)
                .find_map(|entry| match entry.node.view() {
                    View::Pages(buffer) => inside(entry.user?, buffer.bytes()),
                    View::Pool(_) => {
                        let (offset, bytes) = entry.node.pool_range()?;
                        inside(self.pool_view?.wrapping_add(offset), bytes)
                    }
                })
        })
    }
}

/// Maps a buffer into the caller through `file`. No lock may be held.
fn map_buffer(file: &OpenFile, buffer: &Buffer) -> Result<usize> {
    let offset = usize::try_from(buffer.file_offset()).map_err(|_| Error::OutOfMemory)?;
    file.map_into_caller(buffer.bytes(), offset)
        .map_err(|_| Error::OutOfMemory)
}

/// Ends the caller's view of a buffer.
fn unmap_buffer(entry: &BufferEntry) {
    if entry.user != 0 {
        sys::chrdev::unmap_from_caller(entry.user, entry.buffer.bytes());
    }
}
