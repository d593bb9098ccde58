// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of the structures of COMMIT for the vector graphics core. Only 32-bit ARM machines have
//! this core. Source: sources.md, vector graphics.

use super::{
    long,
    word,
    Field, //
};

/// Bytes of a `gcsVGCONTEXT`.
pub(crate) const CONTEXT_BYTES: usize = 64;

/// Bytes of an element of the array of `gcsVGCMDQUEUE`.
pub(crate) const ENTRY_BYTES: usize = 8;

/// Bytes of a `gcsTASK_MASTER_TABLE`.
pub(crate) const TABLE_BYTES: usize = 80;

/// Bytes of the head of a `gcsTASK`.
pub(crate) const TASK_BYTES: usize = 8;

/// Bytes of COMMIT's arguments.
pub(super) const COMMIT_BYTES: u16 = 32;

/// Bytes of the largest `gcsCMDBUFFER`.
pub(crate) const MAX_BUFFER_BYTES: usize = 48;

/// QUERY_COMMAND_BUFFER's answer (`gcsCOMMAND_BUFFER_INFO`): interrupts of the front end and of a
/// tessellator overflow; the mask of address bits, the alignments of addresses and of commands;
/// bytes of STATE (its head), RESTART, FETCH, CALL, RETURN, an event and END; bytes after the
/// commands of a static and of a dynamic buffer.
pub(crate) const COMMAND_BUFFER_INFO: [u32; 14] = [13, 0, 0x3C, 64, 8, 4, 8, 8, 8, 8, 8, 8, 8, 80];

/// Blocks of a table, each with a list of tasks.
pub(crate) const BLOCKS: u16 = 9;

/// `gcsVGCONTEXT`: its id, input and output; 0: none yet.
pub(crate) const CONTEXT_ID: Field = long(0);

/// `gcsVGCONTEXT`: the signal to set when its buffer is done.
pub(crate) const CONTEXT_SIGNAL: Field = word(56);

/// `gcsVGCMDQUEUE`: user address of a `gcsCMDBUFFER`.
pub(crate) const ENTRY_BUFFER: Field = word(0);

/// `gcsVGCMDQUEUE`: whether the kernel adds the END command.
pub(crate) const ENTRY_DYNAMIC: Field = word(4);

/// `gcsTASK_MASTER_TABLE`: user address of the first block's first task. The next block follows
/// after one more word.
pub(crate) const TABLE_HEAD: Field = word(0);

/// `gcsTASK_MASTER_TABLE`: number of records.
pub(crate) const TABLE_COUNT: Field = word(72);

/// `gcsTASK_MASTER_TABLE`: bytes of the records.
pub(crate) const TABLE_SIZE: Field = word(76);

/// `gcsTASK`: user address of the next.
pub(crate) const TASK_NEXT: Field = word(0);

/// `gcsTASK`: bytes of the records that follow.
pub(crate) const TASK_SIZE: Field = word(4);

/// The layout that depends on the generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    /// COMMIT, from the start of the union: user address of a `gcsVGCONTEXT`.
    pub(crate) context: Field,
    /// User address of the array of `gcsVGCMDQUEUE`.
    pub(crate) queue: Field,
    /// Number of its elements.
    pub(crate) count: Field,
    /// User address of a `gcsTASK_MASTER_TABLE`.
    pub(crate) tasks: Field,
    /// Bytes of a `gcsCMDBUFFER`.
    pub(crate) buffer_bytes: u16,
    /// The node that contains the buffer.
    pub(crate) node: Field,
    /// Physical address of its commands.
    pub(crate) address: Field,
    /// Bytes from its start to the commands.
    pub(crate) offset: Field,
    /// Size of the commands in units of 8 bytes.
    pub(crate) units: Field,
    /// UNLOCK_VIDEO_MEMORY: the node, and bytes of the record.
    pub(crate) unlock: (Field, u16),
    /// The same for FREE_VIDEO_MEMORY.
    pub(crate) free: (Field, u16),
    /// UNMAP_USER_MEMORY is a valid record.
    pub(crate) unmaps: bool,
    /// EVENT_COMMIT returns NOT_SUPPORTED; else INVALID_ARGUMENT.
    pub(crate) knows_events: bool,
}

/// Up to 4.6.6.
pub(crate) const V4: Vector = Vector {
    context: word(0),
    queue: word(4),
    count: word(8),
    tasks: word(12),
    buffer_bytes: 36,
    node: word(4),
    address: word(8),
    offset: word(12),
    units: word(24),
    unlock: (word(4), 8),
    free: (word(4), 8),
    unmaps: true,
    knows_events: false,
};

/// 4.6.9.
pub(crate) const V4_6_9: Vector = Vector {
    context: long(0),
    queue: long(8),
    count: word(16),
    tasks: long(24),
    buffer_bytes: 48,
    node: long(8),
    address: word(16),
    offset: word(20),
    units: word(32),
    unlock: (long(8), 16),
    free: (long(8), 16),
    ..V4
};

/// 5.0.11 and 6.2.
pub(crate) const V5: Vector = Vector {
    context: V4_6_9.context,
    queue: V4_6_9.queue,
    count: V4_6_9.count,
    tasks: V4_6_9.tasks,
    unlock: V4_6_9.unlock,
    knows_events: true,
    ..V4
};

/// 6.4.
pub(crate) const V6_4: Vector = Vector {
    free: V4_6_9.free,
    unmaps: false,
    ..V5
};

impl Vector {
    /// Whether all fields fit their structures.
    pub(super) const fn is_sound(&self) -> bool {
        let commit = [self.context, self.queue, self.count, self.tasks];
        let buffer = [self.node, self.address, self.offset, self.units];
        let mut at = 0;
        while at < commit.len() {
            let mut other = 0;
            while other < at {
                if commit[at].overlaps(commit[other]) || buffer[at].overlaps(buffer[other]) {
                    return false;
                }
                other += 1;
            }
            if !commit[at].is_sound(COMMIT_BYTES) || !buffer[at].is_sound(self.buffer_bytes) {
                return false;
            }
            at += 1;
        }
        self.buffer_bytes as usize <= MAX_BUFFER_BYTES
            && self.unlock.0.is_sound(self.unlock.1)
            && self.free.0.is_sound(self.free.1)
    }
}

const _: () = {
    // CAST: small; `from` is not const.
    assert!(CONTEXT_SIGNAL.end() <= CONTEXT_BYTES && ENTRY_DYNAMIC.end() <= ENTRY_BYTES);
    assert!(TABLE_SIZE.end() <= TABLE_BYTES && TABLE_COUNT.end() - 4 == 8 * BLOCKS as usize);
    assert!(TASK_SIZE.end() <= TASK_BYTES);
};
