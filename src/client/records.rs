// SPDX-License-Identifier: GPL-2.0-only

//! The list of a process's objects, for `/proc/driver/gc`.

use super::{
    ledgers::Ledgers,
    Process, //
};
use crate::sys::prelude::*;
use crate::sys::{
    self,
    CommandName, //
};

/// An object of a process.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    /// The vendor's word for its kind.
    pub(crate) kind: &'static str,
    pub(crate) handle: u32,
    /// GPU address of its memory. 0: it has none.
    pub(crate) address: u32,
    /// Bytes of its memory.
    pub(crate) bytes: usize,
}

/// Kinds of objects to list.
#[derive(Clone, Copy)]
enum Table {
    Nodes,
    Locks,
    Buffers,
    Signals,
    Contexts,
    UserMemory,
}

const TABLES: [Table; 6] = [
    Table::Nodes,
    Table::Locks,
    Table::Buffers,
    Table::Signals,
    Table::Contexts,
    Table::UserMemory,
];

/// The most objects that are copied in one hold of the tables' lock.
const CHUNK: usize = 64;

impl Process {
    /// The current name of the program. It can contain any bytes.
    pub(crate) fn name(&self) -> CommandName {
        CommandName::of(&self.leader)
    }

    /// The amounts of memory that the process has.
    pub(crate) fn ledgers(&self) -> Ledgers {
        let tables = self.tables();
        Ledgers {
            video: tables.video,
            non_paged: tables.non_paged,
            contiguous: tables.contiguous,
            mapped: tables.mapped,
        }
    }

    /// Calls `look`, without locks, for each of its objects. There may be many, so it stops if the
    /// caller is killed. Objects that come or end during the walk may be missing or repeated.
    /// `ENOMEM`.
    pub(crate) fn for_each_object(&self, mut look: impl FnMut(&Object)) -> Result {
        let mut chunk = KVec::with_capacity(CHUNK, GFP_KERNEL)?;
        for table in TABLES {
            let mut done = 0;
            // Bounded by the limits of the tables.
            loop {
                chunk.clear();
                let count = self.objects(table, done, &mut chunk);
                chunk.iter().for_each(&mut look);
                if count < CHUNK {
                    break;
                }
                if sys::is_killed() {
                    return Ok(());
                }
                sys::yield_if_due();
                done += count;
            }
        }
        Ok(())
    }

    /// Copies up to [`CHUNK`] objects of a table, after the first `skip` entries. Returns the
    /// number of entries visited.
    fn objects(&self, table: Table, skip: usize, chunk: &mut KVec<Object>) -> usize {
        let tables = self.tables();
        match table {
            Table::Nodes => fill(chunk, tables.nodes.numbered().skip(skip), |entry| {
                Some(("VideoMemory", entry.node.address(), entry.node.bytes()))
            }),
            Table::Locks => fill(chunk, tables.nodes.numbered().skip(skip), |entry| {
                let what = ("VidMemLock", entry.node.address(), entry.node.bytes());
                (entry.locks > 0).then_some(what)
            }),
            Table::Buffers => fill(chunk, tables.buffers.numbered().skip(skip), |entry| {
                let kind = if entry.non_paged {
                    "NonPaged"
                } else {
                    "Contiguous"
                };
                Some((kind, entry.buffer.address(), entry.buffer.bytes()))
            }),
            Table::Signals => fill(chunk, tables.signals.numbered().skip(skip), |_| {
                Some(("Signal", 0, 0))
            }),
            Table::Contexts => fill(chunk, tables.contexts.numbered().skip(skip), |_| {
                Some(("Context", 0, 0))
            }),
            Table::UserMemory => {
                let mapped = tables.user_memory.numbered().skip(skip);
                fill(chunk, mapped, |mapped| {
                    let memory = mapped.memory();
                    let range = memory.map_or((0, 0), |memory| (memory.address(), memory.bytes()));
                    Some(("MapUserMemory", range.0, range.1))
                })
            }
        }
    }
}

/// Copies the objects that `say` describes. Returns the number of entries visited.
fn fill<'a, T: 'a>(
    chunk: &mut KVec<Object>,
    objects: impl Iterator<Item = (u32, &'a T)>,
    say: impl Fn(&T) -> Option<(&'static str, u32, usize)>,
) -> usize {
    let mut count = 0;
    for (handle, object) in objects.take(CHUNK) {
        count += 1;
        let Some((kind, address, bytes)) = say(object) else {
            continue;
        };
        // The caller has reserved room for a chunk.
        let _ = chunk.push_within_capacity(Object {
            kind,
            handle,
            address,
            bytes,
        });
    }
    count
}
