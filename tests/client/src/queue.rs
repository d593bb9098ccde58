// SPDX-License-Identifier: GPL-2.0-only
//! Event queues: commands that the driver runs after the GPU has completed all earlier commits.

use crate::device::Buffer;
use crate::device::Node;
use crate::uapi;
use crate::uapi::Command;
use crate::uapi::Interface;
use crate::uapi::Structure;

const WORDS: usize = uapi::QUEUE_RECORD_SIZE / 8;

/// A linked list of commands in this process's memory.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    records: Vec<[u64; WORDS]>,
    ending: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record unchanged.
    pub fn push(&mut self, interface: &Interface) -> &mut Self {
        let mut record = [0; WORDS];
        for (word, bytes) in record[1..]
            .iter_mut()
            .zip(interface.bytes().chunks_exact(8))
        {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        self.records.push(record);
        self
    }

    /// Adds a record of `command`.
    pub fn record<T: Structure>(&mut self, command: Command, payload: &T) -> &mut Self {
        self.push(&Interface::with(command, payload))
    }

    /// Sets a signal.
    pub fn signal(&mut self, id: i32) -> &mut Self {
        self.signal_of(id, std::process::id())
    }

    /// Sets a signal of the process with this id.
    pub fn signal_of(&mut self, id: i32, process: u32) -> &mut Self {
        self.record(
            Command::SIGNAL,
            &uapi::Signal {
                signal: id as u64,
                aux_signal: 0,
                process: process.into(),
                from_where: 4,
            },
        )
    }

    /// Frees a node.
    pub fn free(&mut self, node: Node) -> &mut Self {
        self.record(
            Command::FREE_VIDEO_MEMORY,
            &uapi::FreeVideoMemory { node: node.handle },
        )
    }

    /// The second half of an unlock.
    pub fn unlock(&mut self, node: Node) -> &mut Self {
        self.record(
            Command::UNLOCK_VIDEO_MEMORY,
            &uapi::UnlockVideoMemory {
                node: node.handle,
                surface_type: node.surface_type,
                asynchroneous: 0,
            },
        )
    }

    /// Writes a word at a GPU address of the caller's memory.
    pub fn write_data(&mut self, address: u32, data: u32) -> &mut Self {
        self.record(Command::WRITE_DATA, &uapi::WriteData { address, data })
    }

    /// Starts or stops a timer: [`uapi::timestamp`].
    pub fn timestamp(&mut self, timer: u32, request: u32) -> &mut Self {
        self.record(
            Command::TIMESTAMP,
            &uapi::TimeStamp {
                timer,
                request,
                ..Default::default()
            },
        )
    }

    /// Ends a mapping of user memory.
    pub fn unmap_user(&mut self, mapping: &uapi::MapUserMemory) -> &mut Self {
        self.record(
            Command::UNMAP_USER_MEMORY,
            &uapi::UnmapUserMemory {
                memory: mapping.memory,
                size: mapping.size,
                info: mapping.info,
                address: mapping.address,
            },
        )
    }

    /// Frees contiguous memory.
    pub fn free_contiguous(&mut self, buffer: &Buffer) -> &mut Self {
        self.record(
            Command::FREE_CONTIGUOUS_MEMORY,
            &uapi::FreeContiguousMemory {
                bytes: buffer.bytes,
                physical: buffer.physical,
                logical: buffer.logical,
            },
        )
    }

    /// Frees non-paged memory.
    pub fn free_non_paged(&mut self, buffer: &Buffer) -> &mut Self {
        self.record(
            Command::FREE_NON_PAGED_MEMORY,
            &uapi::FreeNonPagedMemory {
                bytes: buffer.bytes,
                physical: buffer.physical,
                logical: buffer.logical,
            },
        )
    }

    /// Sets the `next` field of the last record. It is 0 in a correct queue.
    pub fn set_ending(&mut self, next: u64) -> &mut Self {
        self.ending = next;
        self
    }

    /// The `next` field of the last record.
    pub fn ending(&self) -> u64 {
        self.ending
    }

    /// The interface structures of the records.
    pub fn interfaces(&self) -> impl Iterator<Item = Interface> + '_ {
        self.records.iter().map(|record| {
            let bytes: Vec<u8> = record[1..]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            Interface::of_bytes(&bytes)
        })
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The address of record `index`. Valid until the next record is added.
    pub fn address(&self, index: usize) -> u64 {
        self.records[index].as_ptr() as usize as u64
    }

    /// Links the records and returns the address of the first one, or 0. Valid until the next record is added.
    pub fn head(&mut self) -> u64 {
        let count = self.records.len();
        if count == 0 {
            return 0;
        }
        for index in 0..count {
            let next = match index + 1 {
                last if last == count => self.ending,
                following => self.address(following),
            };
            self.records[index][0] = next;
        }
        self.address(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_linked_in_order() {
        let mut queue = Queue::new();
        assert_eq!(queue.head(), 0);
        queue.signal(7).signal(9);
        let head = queue.head();
        assert_eq!(head, queue.address(0));
        assert_eq!(queue.records[0][0], queue.address(1));
        assert_eq!(queue.records[1][0], 0);
        // On a little-endian machine, the command is the low half of the word after `next`.
        assert_eq!(queue.records[1][1] as u32, Command::SIGNAL.0);
        assert_eq!(queue.records[1][5], 9);
    }
}
