// SPDX-License-Identifier: GPL-2.0-only

//! Look-up of the GPU addresses that a process may use, and the replacement for address 0.
//!
//! Pure logic.

use super::{
    addresses::AddressSet,
    states::{
        is_physical,
        pipe_of, //
    },
    words::Pipe, //
};
use crate::{
    addr::Range,
    mmu::SCRATCH_BYTES, //
};

/// States of tile status on cores without memory controller 2.0. They hold physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalStates {
    /// Physical address of GPU address 0. Clients add it to GPU addresses.
    pub(crate) base: u32,
    /// Physical addresses of scratch memory.
    pub(crate) scratch: Range,
}

/// Scratch memory of a core. Reads and writes of it by an engine do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    /// GPU addresses of it, for states of the 3D pipe and for states of the 2D pipe.
    pub(crate) addresses: [u32; 2],
    /// For states that hold physical addresses, if this core has such states.
    pub(crate) physical: Option<PhysicalStates>,
}

impl Scratch {
    /// Its GPU address in a pipe.
    pub(crate) fn in_pipe(&self, pipe: Pipe) -> u32 {
        self.addresses[pipe.index()]
    }

    /// The value of `state` (a word address) for the first byte.
    pub(crate) fn of(&self, state: u32) -> u32 {
        match self.physical_in(state) {
            Some(physical) => physical.scratch.start(),
            None => self.in_pipe(pipe_of(state)),
        }
    }

    /// The value of `state` for the last byte.
    fn last_of(&self, state: u32) -> u32 {
        match self.physical_in(state) {
            Some(physical) => physical.scratch.last(),
            None => self
                .in_pipe(pipe_of(state))
                .saturating_add(SCRATCH_BYTES - 1),
        }
    }

    /// See [`PhysicalStates`]. `None`: `state` holds a GPU address.
    fn physical_in(&self, state: u32) -> Option<PhysicalStates> {
        self.physical.filter(|_| is_physical(state))
    }
}

/// The GPU addresses that a stream may use.
#[derive(Clone, Copy)]
pub(crate) enum Addresses<'a> {
    /// Any, without a look-up.
    Any,
    /// Those of a process, and common ones.
    Of {
        /// The process's memory.
        own: &'a AddressSet,
        /// Memory that every process may use.
        common: &'a [Option<Range>],
        /// The replacement of 0.
        scratch: Scratch,
    },
}

/// Number of ranges that are remembered.
const REMEMBERED: usize = 4;

/// GPU addresses below this are physical minus a base, or (MMU version 2) mapped one to one.
const LINEAR_END: u32 = 1 << 31;

/// Looks up addresses, and remembers the last ranges that it has found.
pub(crate) struct Lookup<'a> {
    addresses: Addresses<'a>,
    recent: [Option<Range>; REMEMBERED],
    next: usize,
}

impl<'a> Lookup<'a> {
    /// A look-up that remembers no range yet.
    pub(crate) fn new(addresses: Addresses<'a>) -> Self {
        Self {
            addresses,
            recent: [None; REMEMBERED],
            next: 0,
        }
    }

    /// Notes that earlier checks of the process's streams may be out of date.
    #[cold]
    pub(crate) fn invalidate(&self) {
        if let Addresses::Of { own, .. } = self.addresses {
            own.invalidate();
        }
    }

    /// The value to load into address state `state` (a word address) if a client loads `value`.
    /// `None`: the client may not use that address.
    pub(crate) fn resolve(&mut self, state: u32, value: u32) -> Option<u32> {
        let Addresses::Of {
            own,
            common,
            scratch,
        } = self.addresses
        else {
            return Some(value);
        };
        let placeholder = scratch.of(state);
        // A stream that is checked again already has the scratch address.
        if value == 0 || value == placeholder {
            return Some(placeholder);
        }
        let (_, address) = gpu_address(&scratch, state, value)?;
        self.range(own, common, address).map(|_| value)
    }

    /// The value of `state` for the last byte of the memory in which `value` is. `None`: the
    /// process may not use it.
    pub(crate) fn last_of(&mut self, state: u32, value: u32) -> Option<u32> {
        let Addresses::Of {
            own,
            common,
            scratch,
        } = self.addresses
        else {
            return Some(u32::MAX);
        };
        if value == scratch.of(state) {
            return Some(scratch.last_of(state));
        }
        let (base, address) = gpu_address(&scratch, state, value)?;
        self.range(own, common, address)?.last().checked_add(base)
    }

    /// What clients add to a GPU address that they load into `state`.
    pub(crate) fn base_of(&self, state: u32) -> u32 {
        match self.addresses {
            Addresses::Any => 0,
            Addresses::Of { scratch, .. } => scratch
                .physical_in(state)
                .map_or(0, |physical| physical.base),
        }
    }

    /// The range that contains `address`.
    #[inline(always)]
    fn range(&mut self, own: &AddressSet, common: &[Option<Range>], address: u32) -> Option<Range> {
        let mut recent = self.recent.iter().copied().flatten();
        if let Some(range) = recent.find(|range| range.contains(address)) {
            return Some(range);
        }
        let in_common = || {
            let mut ranges = common.iter().copied().flatten();
            ranges.find(|range| range.contains(address))
        };
        let found = own.find(address).or_else(in_common);
        if found.is_some() {
            self.recent[self.next] = found;
            self.next = (self.next + 1) % REMEMBERED;
        }
        found
    }

    /// The value of `state` for scratch memory, or 0 if addresses are not looked up.
    pub(crate) fn scratch(&self, state: u32) -> u32 {
        match self.addresses {
            Addresses::Any => 0,
            Addresses::Of { scratch, .. } => scratch.of(state),
        }
    }
}

/// The base of `value` in `state`, and its GPU address. `None`: it is a physical address that no
/// process may use.
fn gpu_address(scratch: &Scratch, state: u32, value: u32) -> Option<(u32, u32)> {
    let Some(physical) = scratch.physical_in(state) else {
        return Some((0, value));
    };
    let address = value.wrapping_sub(physical.base);
    // The MMU translates GPU addresses from here on, so they are not physical.
    (address < LINEAR_END).then_some((physical.base, address))
}
