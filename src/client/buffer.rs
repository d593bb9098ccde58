// SPDX-License-Identifier: GPL-2.0-only

//! Contiguous buffers: ALLOCATE, FREE, MAP_MEMORY, UNMAP_MEMORY.
//!
//! A process's own memory, mapped for the GPU: MAP_USER_MEMORY, UNMAP_USER_MEMORY.

use super::{
    change::Returned,
    client_memory::{
        ClientMemory,
        UserView,
        Viewed, //
    },
    framebuffers,
    import::{
        self,
        Source, //
    },
    restarts,
    tables::{
        BufferEntry,
        Mapped,
        Tables, //
    },
    waits,
    window,
    Process, //
};
use crate::{
    abi::{
        Ledger,
        NamedBuffer,
        NamedUserMemory,
        Reply, //
    },
    addr::Range,
    memory::{
        gpu_address,
        Backing,
        UserMemory, //
    },
    mmu::Contents,
    modes,
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    },
    sys::chrdev::OpenFile, //
};

/// FREE_CONTIGUOUS_MEMORY, FREE_NON_PAGED_MEMORY. Errors: as [`remove`].
pub(super) fn free(process: &Process, named: NamedBuffer) -> Result {
    window::end_left_views(process);
    let entry = remove(process, named)?;
    window::end_view_here(process, entry.shown());
    entry.buffer.end_here();
    Ok(())
}

/// UNMAP_MEMORY: ends the caller's view of a buffer. `InvalidArgument`: the handle is 0, or the
/// buffer has no view. `NotFound`: no such buffer.
pub(super) fn unmap(process: &Process, handle: u32) -> Result {
    if handle == 0 {
        return Err(Error::InvalidArgument);
    }
    let mut tables = process.tables();
    let entry = tables.buffers.get_mut(handle).ok_or(Error::NotFound)?;
    if entry.user == 0 {
        return Err(Error::InvalidArgument);
    }
    let (user, buffer) = (core::mem::take(&mut entry.user), entry.buffer.clone());
    tables.user_views.remove(user, Viewed::Buffer(handle));
    drop(tables);
    window::end_view_here(process, Some((Backing::Contiguous(buffer), user)));
    Ok(())
}

pub(super) fn allocate(
    process: &Arc<Process>,
    file: &OpenFile,
    bytes: u64,
    non_paged: bool,
) -> Result<Reply<'static>> {
    let memory = &process.device.memory;
    modes::pass_allocation()?;
    let buffer = memory.allocate_buffer(bytes, Contents::Clients, None)?;
    let entry = BufferEntry {
        buffer: ClientMemory::new(buffer.clone(), process)?,
        user: 0,
        non_paged,
    };
    let handle = process.tables().insert_buffer(entry)?;
    let mapped = Backing::Contiguous(buffer.clone()).map_into_caller(file);
    let mut tables = process.tables();
    let noted = mapped.and_then(|user| tables.show_buffer(handle, user).map(|()| user));
    match noted {
        Ok(user) => Ok(Reply::Buffer {
            bytes: buffer.bytes() as u64,
            address: buffer.address(),
            handle,
            user: user as u64,
        }),
        Err(error) => {
            // Another thread may have mapped memory at its address, or guessed the handle and
            // freed the buffer.
            let entry = tables.remove_buffer(handle);
            drop(tables);
            if let Ok(user) = mapped {
                window::end_view_here(process, Some((Backing::Contiguous(buffer), user)));
            }
            if let Some(entry) = entry {
                entry.buffer.end_here();
            }
            Err(error)
        }
    }
}

/// Removes a buffer from the table. `InvalidArgument`: a field is 0. `NotFound`: no such one.
fn remove(process: &Process, named: NamedBuffer) -> Result<BufferEntry> {
    if named.bytes == 0 || named.handle == 0 || named.user == 0 {
        return Err(Error::InvalidArgument);
    }
    process
        .tables()
        .remove_buffer(named.handle)
        .ok_or(Error::NotFound)
}

/// MAP_MEMORY: the caller's view of a buffer. Maps it again if UNMAP_MEMORY has ended the view.
pub(super) fn map(process: &Arc<Process>, file: &OpenFile, handle: u32) -> Result<Reply<'static>> {
    if handle == 0 {
        return Err(Error::InvalidArgument);
    }
    let (buffer, user) = {
        let tables = process.tables();
        let entry = tables.buffers.get(handle).ok_or(Error::NotFound)?;
        (entry.buffer.clone(), entry.user)
    };
    if user != 0 {
        return Ok(Reply::Mapped { user: user as u64 });
    }
    let user = Backing::Contiguous(buffer.clone()).map_into_caller(file)?;
    let mut tables = process.tables();
    let first = tables.buffers.get(handle).map_or(0, |entry| entry.user);
    let noted = match first {
        0 => tables.show_buffer(handle, user),
        // Another thread has mapped it first.
        _ => Ok(()),
    };
    drop(tables);
    if noted.is_err() || first != 0 {
        window::end_view_here(process, Some((Backing::Contiguous(buffer), user)));
    }
    let user = if first == 0 { user } else { first };
    noted.map(|()| Reply::Mapped { user: user as u64 })
}

impl Tables {
    pub(super) fn buffer_ledger(&mut self, non_paged: bool) -> &mut Ledger {
        if non_paged {
            &mut self.non_paged
        } else {
            &mut self.contiguous
        }
    }

    /// Adds a buffer to the table, the process's addresses and the ledger. On `OutOfResources` and
    /// `OutOfMemory` it adds nothing.
    fn insert_buffer(&mut self, entry: BufferEntry) -> Result<u32> {
        let (address, bytes) = (entry.buffer.address(), entry.buffer.bytes());
        let non_paged = entry.non_paged;
        let handle = self.buffers.insert(entry)?;
        let owner = Owner {
            kind: Kind::Buffer,
            handle,
        };
        if let Err(error) = self.addresses.insert(address, bytes, owner) {
            drop(self.buffers.remove(handle));
            return Err(error);
        }
        self.buffer_ledger(non_paged).add(bytes);
        Ok(handle)
    }

    /// Notes the user address of a buffer. `NotFound`: no such buffer. `OutOfMemory`.
    fn show_buffer(&mut self, handle: u32, user: usize) -> Result {
        let entry = self.buffers.get_mut(handle).ok_or(Error::NotFound)?;
        self.user_views.insert(UserView {
            start: user,
            bytes: entry.buffer.bytes(),
            of: Viewed::Buffer(handle),
        })?;
        entry.user = user;
        Ok(())
    }

    /// Removes a buffer from the table, the views, the addresses and the ledger.
    fn remove_buffer(&mut self, handle: u32) -> Option<BufferEntry> {
        let entry = self.buffers.remove(handle)?;
        self.user_views.remove(entry.user, Viewed::Buffer(handle));
        self.addresses.remove(entry.buffer.address());
        self.buffer_ledger(entry.non_paged)
            .remove(entry.buffer.bytes());
        Some(entry)
    }
}

/// MAP_USER_MEMORY. `InvalidArgument`: a field is 0. Other errors: as
/// [`VideoMemory::map_user`](crate::memory::VideoMemory::map_user).
pub(super) fn map_user(process: &Process, user: u64, bytes: u64) -> Result<Reply<'_>> {
    if user == 0 || bytes == 0 {
        return Err(Error::InvalidArgument);
    }
    let source = Source::User { user, bytes };
    let memory = match restarts::reclaiming(process, |waits| {
        import::take_shown(process, &source, true, waits)
    }) {
        Ok(memory) => memory,
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            let address = framebuffers::address_without_pages(process, user, bytes).ok_or(error)?;
            return note_common(process, address);
        }
    };
    let (info, address) = import::insert_user_memory(process, memory)?;
    Ok(Reply::UserMemory { info, address })
}

/// MAP_USER_MEMORY of physical memory that the GPU reaches without a mapping: a range that all
/// clients may use (`allowed_ranges` of [`Parameters`]), or a framebuffer of the process.
/// `InvalidArgument`: other memory.
///
/// [`Parameters`]: crate::params::Parameters
pub(super) fn map_physical(process: &Process, physical: u32, bytes: u64) -> Result<Reply<'_>> {
    let base = process.device.base_address;
    let range = common_range(physical, bytes, base).ok_or(Error::InvalidArgument)?;
    framebuffers::forget_mappings(process);
    framebuffers::look_for_framebuffers(process);
    if framebuffers::may_use_anyway(process, range) {
        note_common(process, range.start())
    } else {
        Err(Error::InvalidArgument)
    }
}

/// The reply for memory at GPU address `address` that the process may use without a mapping.
fn note_common(process: &Process, address: u32) -> Result<Reply<'_>> {
    let info = process.tables().user_memory.insert(Mapped::Framebuffer)?;
    Ok(Reply::UserMemory { info, address })
}

/// UNMAP_USER_MEMORY. `InvalidArgument`: a field is 0. `NotFound`: no such memory.
/// `Interrupted`.
pub(super) fn unmap_user(process: &Arc<Process>, named: NamedUserMemory) -> Result {
    if named.user == 0 || named.bytes == 0 || named.info == 0 {
        return Err(Error::InvalidArgument);
    }
    if process.tables().user_memory.get(named.info).is_none() {
        return Err(Error::NotFound);
    }
    waits::wait_for_own_work(process)?;
    let mapped = take_user_memory(process, named.info)?;
    import::unmap_foreign(process, mapped);
    Ok(())
}

/// Removes user memory from the table. `NotFound`: no such memory.
fn take_user_memory(process: &Process, info: u32) -> Result<Mapped> {
    let mut tables = process.tables();
    let mapped = tables.user_memory.remove(info);
    let mapped = mapped.ok_or(Error::NotFound)?;
    if let Some(memory) = mapped.memory() {
        tables.addresses.remove(memory.address());
        tables.mapped.remove(memory.bytes());
    }
    Ok(mapped)
}

/// The GPU addresses of `bytes` bytes at `physical`. `base` is the physical address of GPU address
/// 0.
fn common_range(physical: u32, bytes: u64, base: u32) -> Option<Range> {
    let address = gpu_address(physical.into(), usize::try_from(bytes).ok()?, base)?;
    Range::new(address, usize::try_from(bytes).ok()?)
}

impl Tables {
    /// Adds user memory to the table and to the process's addresses. On `OutOfResources` and
    /// `OutOfMemory` it adds nothing.
    pub(super) fn insert_user_memory(&mut self, memory: ClientMemory<UserMemory>) -> Result<u32> {
        let (address, bytes) = (memory.address(), memory.bytes());
        let handle = self.user_memory.insert(Mapped::Memory(memory))?;
        let owner = Owner {
            kind: Kind::UserMemory,
            handle,
        };
        if let Err(error) = self.addresses.insert(address, bytes, owner) {
            drop(self.user_memory.remove(handle));
            return Err(error);
        }
        self.mapped.add(bytes);
        Ok(handle)
    }

    /// The process's own memory that the GPU can use. If memory is short, the list is incomplete.
    pub(super) fn own_memory(&self) -> KVVec<Returned> {
        let mut all = KVVec::new();
        let memory = self.user_memory.values().filter_map(Mapped::memory);
        let memory = memory.map(|memory| Returned::Memory((**memory).clone()));
        let wrapped = self
            .nodes
            .values()
            .filter(|entry| entry.node.wrapped().is_some());
        let nodes = wrapped.map(|entry| Returned::Node(entry.node.clone()));
        // `Init` has a `chain`, too.
        for returned in Iterator::chain(memory, nodes) {
            if all.push(returned, GFP_KERNEL).is_err() {
                break;
            }
        }
        all
    }
}

#[kunit_tests(galcore_userptr)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_memory_has_an_address() {
        let allowed = Range::new(0x1000_0000, 0x2000).unwrap();
        let address = |physical, bytes| {
            common_range(physical, bytes, 0x4000_0000)
                .filter(|&range| allowed.holds(range))
                .map(Range::start)
        };
        assert_eq!(address(0x5000_0000, 0x2000), Some(0x1000_0000));
        assert_eq!(address(0x5000_1FFF, 1), Some(0x1000_1FFF));
        for (physical, bytes) in [
            (0x5000_0000, 0x2001),
            (0x5000_0000, 0),
            (0x4FFF_FFFF, 1),
            (0x5000_2000, 1),
            (0x3FFF_FFFF, 1),
            (0x5000_0001, 0x1_0000_0000),
            (0x5000_0001, u64::MAX),
        ] {
            assert_eq!(address(physical, bytes), None);
        }
    }
}
