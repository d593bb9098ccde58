// SPDX-License-Identifier: GPL-2.0-only

//! The arguments that a COMMIT for the vector graphics core has in the client's memory: its context
//! and its table of tasks. Each is copied once, and has a limit.

use super::check::{
    mistake,
    refuse, //
};
use crate::{
    abi::{
        vector::{
            self,
            Commit,
            Context,
            Table, //
        },
        Record, //
    },
    limits::{
        MAX_RECORDS,
        MAX_TASKS,
        MAX_TASK_BYTES, //
    },
    prelude::*,
    sys::user::{
        self,
        append_words, //
    }, //
};

/// Blocks of a task table: the front end, the tessellator, the drawing engine and the pixel engine.
/// All other blocks have no interrupt.
pub(super) const COMMAND: usize = 0;
pub(super) const TESSELLATOR: usize = 1;
pub(super) const DRAWING: usize = 5;
pub(super) const PIXEL: usize = 8;

/// Copies `count` words at user address `user`.
pub(super) fn read_words(user: u64, count: usize) -> Result<KVVec<u32>> {
    let at = usize::try_from(user).map_err(|_| Error::OutOfResources)?;
    let mut words = KVVec::new();
    append_words(&mut words, at, count).map_err(|error| match error {
        EFAULT => mistake!(OutOfResources: "{:#x} words at {:#x} cannot be read", count, at),
        error => error.into(),
    })?;
    Ok(words)
}

pub(super) fn read_context(commit: &Commit) -> Result<Context> {
    let words = read_words(commit.context, vector::CONTEXT_BYTES / 4)?;
    Ok(commit.format.decode_context(&words))
}

/// Reads the task table. If there is none, or its size is 0, returns one without tasks.
/// `InvalidArgument`: there are tasks for a block that has no interrupt.
pub(super) fn read_table(commit: &Commit) -> Result<Table> {
    const NONE: Table = Table {
        heads: [0; 9],
        count: 0,
        size: 0,
    };
    if commit.tasks == 0 {
        return Ok(NONE);
    }
    let words = read_words(commit.tasks, vector::TABLE_BYTES / 4)?;
    let table = commit.format.decode_table(&words);
    if table.size == 0 {
        return Ok(NONE);
    }
    let mut blocks = table.heads.iter().enumerate();
    let is_known = |block| matches!(block, COMMAND | TESSELLATOR | DRAWING | PIXEL);
    if blocks.all(|(block, &head)| head == 0 || is_known(block)) {
        Ok(table)
    } else {
        Err(mistake!(InvalidArgument: "the task table has tasks of a block that there is not"))
    }
}

/// Reads the records of all tasks of a table, with their blocks. `InvalidArgument`: too many tasks,
/// numbers that differ from those in the table, or an invalid record.
#[inline(never)]
pub(super) fn read_tasks(commit: &Commit, table: &Table) -> Result<KVVec<(usize, Record)>> {
    let mut records = KVVec::new();
    let (mut elements, mut bytes) = (0, 0u32);
    // The last block first, as in the C driver.
    for (block, &head) in table.heads.iter().enumerate().rev() {
        let mut next = head;
        while next != 0 {
            elements += 1;
            if elements > MAX_TASKS {
                refuse!(InvalidArgument: "more than {MAX_TASKS} tasks, or a circle");
            }
            if sys::is_killed() {
                return Err(Error::Interrupted);
            }
            let words = read_words(next, vector::TASK_BYTES / 4)?;
            let (following, size) = commit.format.decode_task(&words);
            bytes = bytes.saturating_add(size);
            if size % 4 != 0 || bytes > MAX_TASK_BYTES {
                refuse!(InvalidArgument:
                    "the task at {:#x} has {:#x} bytes: a multiple of 4, and {MAX_TASK_BYTES:#x} in all",
                    next, size);
            }
            // CAST: both at most 64 bits.
            let first = next + vector::TASK_BYTES as u64;
            let words = read_words(first, (size / 4) as usize)?;
            let each = |record| -> Result {
                if records.len() == MAX_RECORDS {
                    refuse!(InvalidArgument: "more than {MAX_RECORDS} records of tasks");
                }
                Ok(records.push((block, record), sys::GFP_CLIENT)?)
            };
            let decoded = commit.format.decode_records(&words, each);
            decoded.ok_or_else(
                || mistake!(InvalidArgument: "the task at {:#x} has what is no record", first),
            )??;
            next = following;
        }
    }
    let is_as_told = usize::try_from(table.count) == Ok(records.len()) && bytes <= table.size;
    if is_as_told {
        Ok(records)
    } else {
        Err(mistake!(InvalidArgument:
            "the task table tells of {:#x} records in {:#x} bytes: there are {:#x} in {:#x}",
            table.count, table.size, records.len(), bytes))
    }
}

/// Writes the name of its context into the client's memory.
pub(super) fn write_name(commit: &Commit, name: u64) -> Result<(), Errno> {
    user::put(commit.context + vector::context_id(), &name)
}
