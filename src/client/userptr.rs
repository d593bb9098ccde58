// SPDX-License-Identifier: GPL-2.0-only

//! A process's own memory, mapped for the GPU: MAP_USER_MEMORY, UNMAP_USER_MEMORY.

use super::{
    change::Returned,
    client_memory::ClientMemory,
    framebuffers,
    import::{
        self,
        Source, //
    },
    restarts,
    tables::{
        Mapped,
        Tables, //
    },
    waits,
    Process, //
};
use crate::{
    abi::{
        NamedUserMemory,
        Reply, //
    },
    addr::Range,
    memory::{
        gpu_address,
        UserMemory, //
    },
    prelude::*,
    stream::addresses::{
        Kind,
        Owner, //
    }, //
};

/// MAP_USER_MEMORY. `InvalidArgument`: a field is 0. Other errors: as
/// [`VideoMemory::map_user`](crate::memory::VideoMemory::map_user).
pub(super) fn map(process: &Process, user: u64, bytes: u64) -> Result<Reply<'_>> {
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
    let base = process.device.base_address();
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
    let info = process.tables().user_memory.insert(Mapped::Common)?;
    Ok(Reply::UserMemory { info, address })
}

/// UNMAP_USER_MEMORY. `InvalidArgument`: a field is 0. `NotFound`: no such memory.
/// `Interrupted`.
pub(super) fn unmap(process: &Arc<Process>, named: NamedUserMemory) -> Result {
    if named.user == 0 || named.bytes == 0 || named.info == 0 {
        return Err(Error::InvalidArgument);
    }
    if process.tables().user_memory.get(named.info).is_none() {
        return Err(Error::NotFound);
    }
    waits::wait_for_own_work(process)?;
    let mapped = remove(process, named.info)?;
    import::unmap_foreign(process, mapped);
    Ok(())
}

/// Removes user memory from the table. `NotFound`: no such memory.
fn remove(process: &Process, info: u32) -> Result<Mapped> {
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
