// SPDX-License-Identifier: GPL-2.0-only
//! State deltas, as clients with contexts keep them and pass them to COMMIT.

use std::collections::BTreeMap;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::stream::Pipe;
use galcore_client::sys::Region;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;

use crate::harness::same;

/// Bytes of a delta's memory: the header, then the records.
pub const DELTA_BYTES: usize = 0x4000;
const RECORDS: usize = 64;
/// Field of a delta: the reference count.
pub const REFERENCES: usize = 4;
/// Field of a delta: the number of vertex elements.
pub const ELEMENTS: usize = 8;
/// Field of a delta: the number of records.
pub const RECORD_COUNT: usize = 12;
/// Field of a delta: the address of the records.
pub const RECORD_ARRAY: usize = 16;

/// gcsSTATE_DELTA of 4.6.9, followed by its records.
pub struct Delta {
    /// The header and the records.
    pub memory: Memory,
    /// The index of each state's record.
    known: BTreeMap<u32, usize>,
}

impl Delta {
    /// An empty delta.
    pub fn new() -> Result<Self> {
        let memory = Memory::new(Region::anonymous(DELTA_BYTES)?);
        let records = memory.address() + RECORDS as u64;
        memory.write(RECORD_ARRAY, records as u32);
        Ok(Self {
            memory,
            known: BTreeMap::new(),
        })
    }

    /// The address of the delta.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// The reference count.
    pub fn references(&self) -> i32 {
        self.memory.read(REFERENCES) as i32
    }

    /// Removes all records.
    pub fn reset(&mut self) {
        self.known.clear();
        self.memory.write(ELEMENTS, 0);
        self.memory.write(RECORD_COUNT, 0);
    }

    /// Adds a record (word address), or changes the existing record of the state.
    pub fn add(&mut self, address: u32, mask: u32, data: u32) {
        let count = self.memory.read(RECORD_COUNT) as usize;
        let at = *self.known.entry(address).or_insert(count);
        let record = RECORDS + 12 * at;
        if at == count {
            self.memory.write(record, address);
            self.memory.write(record + 4, mask);
            self.memory.write(record + 8, data);
            self.memory.write(RECORD_COUNT, count as u32 + 1);
            return;
        }
        let (old_mask, old) = (self.memory.read(record + 4), self.memory.read(record + 8));
        let all = |mask| if mask == 0 { u32::MAX } else { mask };
        let mask = all(mask);
        self.memory.write(record + 4, all(old_mask) | mask);
        self.memory.write(record + 8, (old & !mask) | (data & mask));
    }

    /// The address, mask and data of each record.
    pub fn records(&self) -> Vec<[u32; 3]> {
        let count = self.memory.read(RECORD_COUNT) as usize;
        let word = |at: usize, i: usize| self.memory.read(RECORDS + 12 * at + 4 * i);
        (0..count)
            .map(|at| [word(at, 0), word(at, 1), word(at, 2)])
            .collect()
    }

    /// Adds all records of another delta.
    pub fn fold(&mut self, other: &Delta) {
        for [address, mask, data] in other.records() {
            self.add(address, mask, data);
        }
        let elements = other.memory.read(ELEMENTS);
        if elements != 0 {
            self.memory.write(ELEMENTS, elements);
        }
    }
}

/// A context and its deltas, as a client keeps them.
pub struct Blob {
    /// The context.
    pub handle: u32,
    /// All of its deltas.
    pub deltas: Vec<Delta>,
    /// The last delta that the driver accepted.
    taken: Option<usize>,
}

impl Blob {
    /// Creates a context.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            handle: device.attach()?.context,
            deltas: Vec::new(),
            taken: None,
        })
    }

    /// Returns an empty delta without references.
    pub fn fresh(&mut self) -> Result<usize> {
        let taken = self.taken;
        let is_free = |(at, delta): &(usize, &Delta)| Some(*at) != taken && delta.references() <= 0;
        let at = match self.deltas.iter().enumerate().find(is_free) {
            Some((at, _)) => at,
            None => {
                // Two deltas wait for each of the two copies, and one is new.
                ensure!(self.deltas.len() < 6, "deltas are not let go of");
                self.deltas.push(Delta::new()?);
                self.deltas.len() - 1
            }
        };
        self.deltas[at].reset();
        Ok(at)
    }

    /// Commits with a delta from [`Blob::fresh`]; returns whether the driver accepted it.
    pub fn commit(
        &mut self,
        device: &Device,
        buffer: &Buffer,
        pipe: Pipe,
        stream: &Stream,
        delta: usize,
    ) -> Result<bool> {
        let record = place(buffer, 0, pipe, stream);
        let address = self.deltas[delta].address();
        let before = self.deltas[delta].references();
        let status =
            device.send_commit_with_delta(&record, self.handle, address, &mut Queue::new())?;
        same("COMMIT", status, Status::OK)?;
        let references = self.deltas[delta].references();
        if references == before {
            let taken = self.taken.context("the first delta was not taken")?;
            let (from, to) = if delta < taken {
                let (low, high) = self.deltas.split_at_mut(taken);
                (&low[delta], &mut high[0])
            } else {
                let (low, high) = self.deltas.split_at_mut(delta);
                (&high[0], &mut low[taken])
            };
            to.fold(from);
            return Ok(false);
        }
        same(
            "references of a delta that was taken",
            references,
            before + 2,
        )?;
        self.taken = Some(delta);
        Ok(true)
    }
}

/// A client of a generation whose deltas have no reference counts. It collects its changes until a COMMIT reports a
/// context switch. A client with two deltas records each change in both, and passes them in turn.
pub struct Collector {
    /// The context.
    pub handle: u32,
    deltas: Vec<Delta>,
    next: usize,
    /// The header in the layout of the generation.
    head: Memory,
}

impl Collector {
    /// Creates a context with `count` deltas.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        let deltas: Result<Vec<_>> = (0..count).map(|_| Delta::new()).collect();
        Ok(Self {
            handle: device.attach()?.context,
            deltas: deltas?,
            next: 0,
            head: Memory::new(Region::anonymous(DELTA_BYTES)?),
        })
    }

    /// Commits; returns whether the driver reports a context switch, and the stamp.
    pub fn commit(
        &mut self,
        device: &Device,
        buffer: &Buffer,
        pipe: Pipe,
        stream: &Stream,
        step: &Delta,
    ) -> Result<(bool, u64)> {
        for delta in &mut self.deltas {
            delta.fold(step);
        }
        let delta = &self.deltas[self.next];
        let elements = delta.memory.read(ELEMENTS);
        let abi = device.abi();
        for (field, value) in [
            ("elementCount", elements + u32::from(elements != 0)),
            ("recordCount", delta.memory.read(RECORD_COUNT)),
            ("recordArray", delta.memory.read(RECORD_ARRAY)),
        ] {
            let (at, _) = abi.fields[format!("gcsSTATE_DELTA.{field}").as_str()];
            self.head.write(at, value);
        }
        let record = place(buffer, 0, pipe, stream);
        let mut commit = abi.commit(&record, self.handle, &Queue::new())?;
        let field = abi.delta_field();
        abi.set(&mut commit.bytes, "Commit", field, self.head.address());
        let (at, _) = abi.header["hardwareType"];
        commit.bytes[at..at + 4].copy_from_slice(&device.hardware_type().to_le_bytes());
        device.exchange_bytes(&mut commit.bytes)?;
        let status = Status(abi.header_of(&commit.bytes, "status") as i32);
        same("COMMIT", status, Status::OK)?;
        let answer = |field| abi.get(&commit.bytes, "Commit", field);
        let (is_switched, stamp) = (answer("contextSwitched") != 0, answer("commitStamp"));
        // From here on the client may reuse the memory.
        self.head.fill(0xbad0_bad0);
        if is_switched {
            let delta = &mut self.deltas[self.next];
            delta.memory.fill(0xffff_ffff);
            *delta = Delta::new()?;
            self.next = (self.next + 1) % self.deltas.len();
        }
        Ok((is_switched, stamp))
    }
}
