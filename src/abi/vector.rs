// SPDX-License-Identifier: GPL-2.0-only

//! COMMIT for the vector graphics core, and the structures that it points to.
//!
//! Source: sources.md, vector graphics.

use super::{
    codec::UserField,
    layout::{
        vector::{
            Vector,
            BLOCKS,
            CONTEXT_ID,
            CONTEXT_SIGNAL,
            ENTRY_BUFFER,
            ENTRY_DYNAMIC,
            TABLE_COUNT,
            TABLE_HEAD,
            TABLE_SIZE,
            TASK_NEXT,
            TASK_SIZE, //
        },
        Field, //
    },
    Format,
    NamedBuffer,
    NamedUserMemory,
    Record, //
};
use crate::sys::prelude::*;

pub(crate) use super::layout::vector::{
    CONTEXT_BYTES,
    ENTRY_BYTES,
    MAX_BUFFER_BYTES,
    TABLE_BYTES,
    TASK_BYTES, //
};

/// The arguments of COMMIT for the vector graphics core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// User address of the context.
    pub(crate) context: u64,
    /// User address of the array of entries.
    pub(crate) queue: u64,
    /// The number of entries.
    pub(crate) count: u32,
    /// User address of the task table; 0: none.
    pub(crate) tasks: u64,
    /// The format of these structures.
    pub(crate) format: VectorFormat,
}

/// The fields of a context that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// Its id; 0: none yet.
    pub(crate) id: u64,
    /// The signal to set at once if the context's buffer does not run.
    pub(crate) signal: u32,
}

/// An entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// User address of its [`Buffer`].
    pub(crate) buffer: u64,
    /// The kernel adds the END command; else the buffer has one.
    pub(crate) is_dynamic: bool,
}

/// The fields of a command buffer's head that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// The node that contains it.
    pub(crate) node: u32,
    /// Physical address of the commands.
    pub(crate) address: u32,
    /// Bytes from the head to the commands.
    pub(crate) offset: u32,
    /// The size of the commands in units of 8 bytes, including the unit that ends them.
    pub(crate) units: u32,
}

/// A task table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// For each block, user address of the first task; 0: none.
    pub(crate) heads: [u64; BLOCKS as usize],
    /// The number of records.
    pub(crate) count: u32,
    /// Bytes of all records.
    pub(crate) size: u32,
}

/// Numbers of records.
mod id {
    pub(super) const CLUSTER: u32 = 1;
    pub(super) const INCREMENT: u32 = 2;
    pub(super) const DECREMENT: u32 = 3;
    pub(super) const SIGNAL: u32 = 4;
    pub(super) const LOCKDOWN: u32 = 5;
    pub(super) const UNLOCK: u32 = 6;
    pub(super) const FREE: u32 = 7;
    pub(super) const FREE_CONTIGUOUS: u32 = 8;
    pub(super) const UNMAP: u32 = 9;
}

/// A generation with a vector graphics core.
#[derive(Clone, Copy)]
pub(crate) struct VectorFormat(&'static Vector);

impl PartialEq for VectorFormat {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for VectorFormat {}

impl core::fmt::Debug for VectorFormat {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("VectorFormat")
    }
}

impl Format {
    /// The format of vector graphics commands; `None`: the generation has no such core.
    pub(crate) fn vector(self) -> Option<VectorFormat> {
        self.0.vector.map(VectorFormat)
    }

    /// Whether EVENT_COMMIT to the vector graphics core returns `NotSupported`; else it returns
    /// `InvalidArgument`.
    pub(crate) fn vector_knows_events(self) -> bool {
        let vector = self.0.vector;
        vector.is_some_and(|vector| vector.knows_events)
    }
}

impl VectorFormat {
    /// Reads the arguments of COMMIT.
    pub(crate) fn decode_commit(self, u: &[u32]) -> Commit {
        Commit {
            context: self.0.context.user(u),
            queue: self.0.queue.user(u),
            count: self.0.count.word(u),
            tasks: self.0.tasks.user(u),
            format: self,
        }
    }

    /// Reads a context, of [`CONTEXT_BYTES`] bytes.
    pub(crate) fn decode_context(self, words: &[u32]) -> Context {
        Context {
            id: CONTEXT_ID.long(words),
            signal: CONTEXT_SIGNAL.word(words),
        }
    }

    /// Reads an entry, of [`ENTRY_BYTES`] bytes.
    pub(crate) fn decode_entry(self, words: &[u32]) -> Entry {
        Entry {
            buffer: ENTRY_BUFFER.user(words),
            is_dynamic: ENTRY_DYNAMIC.word(words) != 0,
        }
    }

    /// Bytes of a command buffer's head.
    pub(crate) fn buffer_bytes(self) -> usize {
        self.0.buffer_bytes.into()
    }

    /// Reads the head of a command buffer, of [`VectorFormat::buffer_bytes`] bytes.
    pub(crate) fn decode_buffer(self, words: &[u32]) -> Buffer {
        Buffer {
            node: self.0.node.handle(words),
            address: self.0.address.word(words),
            offset: self.0.offset.word(words),
            units: self.0.units.word(words),
        }
    }

    /// Reads a task table, of [`TABLE_BYTES`] bytes.
    pub(crate) fn decode_table(self, words: &[u32]) -> Table {
        let mut heads = [0; BLOCKS as usize];
        for (block, head) in (0..BLOCKS).zip(&mut heads) {
            *head = TABLE_HEAD.nth(2 * block).user(words);
        }
        Table {
            heads,
            count: TABLE_COUNT.word(words),
            size: TABLE_SIZE.word(words),
        }
    }

    /// Reads the head of a task, of [`TASK_BYTES`] bytes: the address of the next (0: the last),
    /// and the bytes of records after the head.
    pub(crate) fn decode_task(self, words: &[u32]) -> (u64, u32) {
        (TASK_NEXT.user(words), TASK_SIZE.word(words))
    }

    /// Reads the records of a task, and calls `each` with those that have an effect. `None`: the
    /// words are not a valid list of records.
    pub(crate) fn decode_records<E>(
        self,
        words: &[u32],
        mut each: impl FnMut(Record) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        // Records left in the current cluster. Clusters do not nest.
        let mut cluster = 0;
        let mut left = words;
        while let Some(&first) = left.first() {
            if first == id::CLUSTER {
                if cluster != 0 {
                    return None;
                }
                cluster = *left.get(1)?;
                left = left.get(2..)?;
                continue;
            }
            let bytes = self.record_bytes(first)?;
            let (record, rest) = left.split_at_checked(bytes / 4)?;
            if let Err(error) = each(self.decode_record(first, record)) {
                return Some(Err(error));
            }
            cluster = cluster.saturating_sub(1);
            left = rest;
        }
        (cluster == 0).then_some(Ok(()))
    }

    /// Bytes of a record by its number. `None`: unknown number.
    fn record_bytes(self, id: u32) -> Option<usize> {
        match id {
            id::INCREMENT | id::DECREMENT => Some(8),
            id::SIGNAL => Some(12),
            id::LOCKDOWN => Some(20),
            id::UNLOCK => Some(self.0.unlock.1.into()),
            id::FREE => Some(self.0.free.1.into()),
            id::FREE_CONTIGUOUS => Some(16),
            id::UNMAP if self.0.unmaps => Some(20),
            _ => None,
        }
    }

    fn decode_record(self, id: u32, words: &[u32]) -> Record {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        match id {
            id::INCREMENT | id::DECREMENT => Record::Count {
                address: word(1),
                up: id == id::INCREMENT,
            },
            id::SIGNAL => Record::Signal {
                id: word(2),
                process: word(1).into(),
            },
            id::LOCKDOWN => Record::CountTo {
                wanted: word(1),
                counter: word(2),
                signal: word(4),
            },
            id::UNLOCK => Record::Unlock {
                node: self.0.unlock.0.handle(words),
                by_event: true,
            },
            id::FREE => Record::FreeNode {
                node: self.0.free.0.handle(words),
            },
            id::FREE_CONTIGUOUS => Record::FreeBuffer(NamedBuffer {
                bytes: word(1).into(),
                handle: word(2),
                user: word(3).into(),
            }),
            id::UNMAP => Record::UnmapUser(NamedUserMemory {
                user: word(1).into(),
                bytes: word(2).into(),
                info: word(3),
            }),
            number => Record::Other { number, name: "" },
        }
    }
}

/// Offset of the 8-byte id in a context.
pub(crate) fn context_id() -> u64 {
    let id: Field = CONTEXT_ID;
    id.at()
}

#[kunit_tests(galcore_abi_vector)]
mod tests {
    use super::{
        super::layout::LAYOUTS,
        *, //
    };

    fn format(name: &str) -> VectorFormat {
        let layout = LAYOUTS.iter().find(|layout| layout.name == name).unwrap();
        Format(layout).vector().unwrap()
    }

    fn records(name: &str, words: &[u32]) -> Option<Result<KVec<Record>, ()>> {
        let mut all = KVec::new();
        let decoded = format(name)
            .decode_records(words, |record| all.push(record, GFP_KERNEL).map_err(|_| ()));
        decoded.map(|result| result.map(|()| all))
    }

    #[test]
    fn buffers_are_decoded_in_each_generation() {
        let words: [u32; 12] = core::array::from_fn(|index| index as u32);
        let buffer = |name| format(name).decode_buffer(&words);
        let of = |node, address, offset, units| Buffer {
            node,
            address,
            offset,
            units,
        };
        assert_eq!(buffer("v4"), of(1, 2, 3, 6));
        assert_eq!(buffer("5.0.11.p8"), of(1, 2, 3, 6));
        assert_eq!(buffer("6.4.11"), of(1, 2, 3, 6));
        // A 64-bit node handle that does not fit 32 bits.
        assert_eq!(buffer("4.0.0"), of(u32::MAX, 4, 5, 8));
        assert_eq!(format("4.6.9").buffer_bytes(), 48);
        assert_eq!(format("6.2.2").buffer_bytes(), 36);
    }

    #[test]
    fn commits_and_tables_are_decoded() {
        let words: [u32; 20] = core::array::from_fn(|index| match index % 2 {
            0 => index as u32,
            _ => 0,
        });
        let commit = format("4.0.0").decode_commit(&words);
        let found = (commit.context, commit.queue, commit.count, commit.tasks);
        assert_eq!(found, (0, 2, 4, 6));
        let words: [u32; 20] = core::array::from_fn(|index| index as u32);
        let commit = format("v4").decode_commit(&words);
        let found = (commit.context, commit.queue, commit.count, commit.tasks);
        assert_eq!(found, (0, 1, 2, 3));
        let table = format("v4").decode_table(&words);
        assert_eq!(table.heads, [0, 2, 4, 6, 8, 10, 12, 14, 16]);
        assert_eq!((table.count, table.size), (18, 19));
        assert_eq!(format("v4").decode_context(&words).signal, 14);
    }

    #[test]
    fn records_are_packed_and_clusters_are_complete() {
        let signal = |id| Record::Signal { id, process: 7 };
        let words = [1, 2, 4, 7, 20, 4, 7, 21];
        let all = records("4.0.0", &words).unwrap().unwrap();
        assert_eq!(all[..], [signal(20), signal(21)]);
        // A 64-bit node handle that is 4-byte aligned.
        let words = [4, 7, 20, 6, 0, 9, 0, 7, 0, 9, 0];
        let all = records("4.0.0", &words).unwrap().unwrap();
        let unlock = Record::Unlock {
            node: 9,
            by_event: true,
        };
        let free = Record::FreeNode { node: 9 };
        assert_eq!(all[..], [signal(20), unlock, free]);
        let all = records("5.0.11.p8", &[6, 0, 9, 0, 7, 9]).unwrap().unwrap();
        assert_eq!(all[..], [unlock, free]);
        let all = records("v4", &[6, 9, 7, 9]).unwrap().unwrap();
        assert_eq!(all[..], [unlock, free]);
        assert!(records("4.0.0", &[]).unwrap().unwrap().is_empty());
    }

    #[test]
    fn malformed_lists_are_refused() {
        for words in [
            // Unknown, or for the kernel only.
            &[12, 0, 0, 0][..],
            &[0, 0, 0],
            &[10, 0, 0],
            // Truncated.
            &[4, 7],
            &[1],
            &[5, 0, 0, 0],
            // Incomplete and nested clusters.
            &[1, 1],
            &[1, 3, 4, 7, 20],
            &[1, 2, 1, 1, 4, 7, 20],
            &[1, u32::MAX, 4, 7, 20],
        ] {
            assert!(records("4.0.0", words).is_none());
        }
        assert!(records("5.0.11.p8", &[9, 0, 0, 1, 0]).is_some());
        assert!(records("6.4.11", &[9, 0, 0, 1, 0]).is_none());
    }
}
