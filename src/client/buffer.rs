// SPDX-License-Identifier: GPL-2.0-only

//! Contiguous buffers: ALLOCATE, FREE, MAP_MEMORY, UNMAP_MEMORY.

use super::{
    client_memory::ClientMemory,
    tables::{
        BufferEntry,
        Tables, //
    },
    user_views::{
        UserView,
        Viewed, //
    },
    window,
    Process, //
};
use crate::{
    abi::{
        Ledger,
        NamedBuffer,
        Reply, //
    },
    memory::Backing,
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
    let memory = process.device.memory();
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
