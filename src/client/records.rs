// SPDX-License-Identifier: GPL-2.0-only

//! The objects of a process, one by one, for `/proc/driver/gc`.

use super::{
    ledgers::Ledgers,
    Process, //
};
use crate::sys::{
    self,
    CommandName, //
};
use kernel::prelude::*;

/// An object of a process.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    /// What it is, by the vendor's word.
    pub(crate) kind: &'static str,
    pub(crate) handle: u32,
    /// GPU address of its memory; 0: it has none.
    pub(crate) address: u32,
    /// Bytes of it.
    pub(crate) bytes: usize,
}

/// The tables that objects are in.
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

/// How many are noted at once under the tables' lock.
const CHUNK: usize = 64;

impl Process {
    /// The program's name now. It may be anything.
    pub(crate) fn name(&self) -> CommandName {
        CommandName::of(&self.leader)
    }

    /// How much memory it has.
    pub(crate) fn ledgers(&self) -> Ledgers {
        let tables = self.tables();
        Ledgers {
            video: tables.video,
            non_paged: tables.non_paged,
            contiguous: tables.contiguous,
            mapped: tables.mapped,
        }
    }

    /// Calls `look` with each of its objects, with no lock held, until the caller is killed: there
    /// may be many. What comes or goes meanwhile may be left out, or come twice.
    /// `ENOMEM`.
    pub(crate) fn for_each_object(&self, mut look: impl FnMut(&Object)) -> Result {
        let mut chunk = KVec::with_capacity(CHUNK, GFP_KERNEL)?;
        for table in TABLES {
            let mut done = 0;
            // Ends: the entries of a table are limited.
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

    /// Notes up to [`CHUNK`] objects of a table, after the first `skip` of them; returns how many
    /// it has looked at.
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
                let kind = match entry.non_paged {
                    true => "NonPaged",
                    false => "Contiguous",
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

/// Notes what `say` says of objects; returns how many it was asked about.
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
        // There is room for a chunk.
        let _ = chunk.push_within_capacity(Object {
            kind,
            handle,
            address,
            bytes,
        });
    }
    count
}
