// SPDX-License-Identifier: GPL-2.0-only

//! Structures in the client's memory that a request points to: records of queues, `gcoCMDBUF`,
//! `gcsHAL_COMMAND_LOCATION`, `gcsHAL_SUBCOMMIT`, `gcsSTATE_DELTA`, `gcoCONTEXT`.

use super::*;

/// Bytes before and after the commands that clients reserve for the kernel, if no field has them.
const RESERVED_HEAD: u32 = 32;
const RESERVED_TAIL: u32 = 8;

/// One record of an event queue.
///
/// `repr` keeps the tag out of 64-bit fields, where 32-bit machines need several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Record {
    Signal {
        id: u32,
        /// The target process; used only where events send realtime signals.
        process: u64,
    },
    /// UNLOCK_VIDEO_MEMORY.
    Unlock {
        node: u32,
        /// This ends the lock of every kind of node.
        by_event: bool,
    },
    /// FREE_VIDEO_MEMORY.
    FreeNode {
        node: u32,
    },
    /// FREE_CONTIGUOUS_MEMORY and FREE_NON_PAGED_MEMORY.
    FreeBuffer(NamedBuffer),
    /// UNMAP_USER_MEMORY.
    UnmapUser(NamedUserMemory),
    WriteData {
        address: u32,
        data: u32,
    },
    Timestamp {
        timer: u32,
        /// Start, else stop.
        start: bool,
    },
    /// COMMIT_DONE: a marker in the sequence, without effect.
    CommitDone,
    /// INCREMENT and DECREMENT.
    Count {
        /// Physical address of the word.
        address: u32,
        /// INCREMENT.
        up: bool,
    },
    /// LOCKDOWN.
    CountTo {
        /// Physical address of the value to compare `counter` with.
        wanted: u32,
        /// Physical address of the word to increment.
        counter: u32,
        /// The signal to set when they are equal.
        signal: u32,
    },
    /// Any other command: skipped, as in the C drivers' release builds.
    Other {
        number: u32,
        /// The C headers' name, without its `gcvHAL_`; empty: unknown number.
        name: &'static str,
    },
}

/// `gcsSTATE_DELTA`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Context copies that have not merged the delta yet.
    pub(crate) references: i32,
    /// Vertex elements in use; 0: no change.
    pub(crate) element_count: u32,
    pub(crate) record_count: u32,
    /// User address of the records; 0: none.
    pub(crate) records: u64,
}

/// Words of a `gcsSTATE_DELTA_RECORD` in every generation: the state's word address, the mask, the
/// value.
pub(crate) const DELTA_RECORD_WORDS: usize = 3;

/// `gcoCMDBUF`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandBuffer {
    pub(crate) object: u32,
    /// Pipe that the commands need at their start.
    pub(crate) entry_pipe: u32,
    /// Pipe that is selected at their end, as the client claims. [`u32::MAX`]: it claims none.
    pub(crate) exit_pipe: u32,
    /// User address of the buffer.
    pub(crate) logical: u64,
    /// First byte of this commit, with the reserved head.
    pub(crate) start_offset: u32,
    /// The end of the commands. `Err`: the size, if it is invalid.
    pub(crate) offset: Result<u32, u32>,
    /// Bytes before the commands that the client reserves for the kernel.
    pub(crate) reserved_head: u32,
    /// Bytes after the commands that the client reserves for the kernel.
    pub(crate) reserved_tail: u32,
}

impl CommandBuffer {
    /// The object type: the letters CMDB.
    pub(crate) const OBJECT_TYPE: u32 = 0x4244_4D43;
}

/// `gcoCONTEXT`: the fields that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientContext {
    pub(crate) object: u32,
    /// The id that the driver has assigned; 0: none yet.
    pub(crate) id: u64,
    /// The buffer begins with room for a pipe switch.
    pub(crate) has_head: bool,
    /// Bytes of the buffer.
    pub(crate) buffer_bytes: u32,
    /// User address of the buffer.
    pub(crate) logical: u64,
    /// User address of the room for a LINK in the buffer, after the states.
    pub(crate) link: u64,
    /// Pipe that the states need at their start.
    pub(crate) initial_pipe: u32,
    /// Pipe that the commands need at their start.
    pub(crate) entry_pipe: u32,
    /// User address of a word that is set to 1 when the buffer is used; 0: none.
    pub(crate) in_use: u64,
}

impl ClientContext {
    /// The object type: the letters CTXT.
    pub(crate) const OBJECT_TYPE: u32 = 0x5458_5443;
}

impl Format {
    /// The part of core `index`, below the `count` of [`Request::CommitAll`], whose interface is
    /// `words`. A core without own commands gets those of the first core.
    pub(crate) fn decode_part(self, words: &[u32], index: u32) -> Commit {
        let u = self.union(words);
        let fields = &self.0.commit;
        // CAST: below MAX_PARTS.
        let nth = |first: Field| first.nth(index as u16);
        let commands = match nth(fields.command_buffer).user(u) {
            0 => fields.command_buffer.user(u),
            own => own,
        };
        Commit {
            context: nth(fields.context).long(u),
            context_buffer: 0,
            commands: Commands::Described(commands),
            delta: nth(fields.delta).user(u),
            // The first part has the queue.
            queue: 0,
            core: None,
            next: 0,
            format: self,
        }
    }

    /// Bytes of a `gcsHAL_SUBCOMMIT` for [`Format::decode_commit`]; 0: there is none.
    pub(crate) fn sub_commit_bytes(self) -> usize {
        self.0.sub_commit_bytes.into()
    }

    /// Reads COMMIT's arguments, or a `gcsHAL_SUBCOMMIT`, of [`Format::sub_commit_bytes`] bytes.
    #[inline]
    pub(crate) fn decode_commit(self, u: &[u32]) -> Commit {
        let fields = &self.0.commit;
        let commands = if fields.command_buffer.exists() {
            Commands::Described(fields.command_buffer.user(u))
        } else {
            let (buffer, next) = self.decode_location(fields.location.words_from(u));
            Commands::Here(buffer, next)
        };
        Commit {
            context: fields.context.long(u),
            context_buffer: fields.context_buffer.user(u),
            commands,
            delta: fields.delta.user(u),
            queue: fields.queue.user(u),
            core: fields.core.exists().then(|| fields.core.word(u)),
            next: fields.next.user(u),
            format: self,
        }
    }

    /// Bytes of a record of an event queue, for [`Format::decode_record`].
    pub(crate) fn record_bytes(self) -> usize {
        self.0.record_bytes()
    }

    /// Reads one record of an event queue, of [`Format::record_bytes`] bytes, and the address of
    /// the next (0: the last).
    ///
    /// Not inlined: the compiler would load the offsets of all fields of all commands before a loop
    /// over a queue.
    #[inline(never)]
    pub(crate) fn decode_record(self, words: &[u32]) -> (Record, u64) {
        let layout = self.0;
        let next = layout.queue.next.user(words);
        let interface = words
            .get(usize::from(layout.queue.command) / 4..)
            .unwrap_or_default();
        let u = words
            .get(usize::from(layout.queue.union_at) / 4..)
            .unwrap_or_default();
        let other = |command: Command| Record::Other {
            number: COMMAND.word(interface),
            name: command.c_name(),
        };
        let record = match self.command(interface) {
            Command::Signal => Record::Signal {
                id: layout.signal.signal.handle(u),
                process: layout.signal.process.long(u),
            },
            Command::UnlockVideoMemory => Record::Unlock {
                node: layout.unlock.node.handle(u),
                by_event: layout.quirks.unlocks_by_event,
            },
            Command::BottomHalfUnlockVideoMemory => Record::Unlock {
                node: layout.finish_unlock.node.handle(u),
                by_event: layout.quirks.unlocks_by_event,
            },
            Command::FreeVideoMemory => Record::FreeNode {
                node: layout.free_node.node.handle(u),
            },
            Command::FreeContiguousMemory => Record::FreeBuffer(self.contiguous(u)),
            Command::FreeNonPagedMemory => Record::FreeBuffer(self.non_paged(u)),
            Command::FreeVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Record::FreeBuffer(self.commands(u))
            }
            Command::UnmapUserMemory => Record::UnmapUser(self.user_memory(u)),
            Command::WriteData => Record::WriteData {
                address: layout.write_data.address.word(u),
                data: layout.write_data.data.word(u),
            },
            Command::Timestamp => match layout.timestamp.request.word(u) {
                request @ (TIMESTAMP_STOP | TIMESTAMP_START) => Record::Timestamp {
                    timer: layout.timestamp.timer.word(u),
                    start: request == TIMESTAMP_START,
                },
                _ => other(Command::Timestamp),
            },
            Command::CommitDone => Record::CommitDone,
            command => other(command),
        };
        (record, next)
    }

    /// Bytes of a `gcoCMDBUF`, for [`Format::decode_command_buffer`].
    pub(crate) fn command_buffer_bytes(self) -> usize {
        self.0.command_buffer_bytes()
    }

    /// The object type of a `gcoCMDBUF`.
    pub(crate) fn command_buffer_object(self, words: &[u32]) -> u32 {
        self.0.command_buffer.object.word(words)
    }

    /// Reads a `gcoCMDBUF`, of [`Format::command_buffer_bytes`] bytes.
    #[inline(always)]
    pub(crate) fn decode_command_buffer(self, words: &[u32]) -> CommandBuffer {
        let fields: &CommandBufferLayout = &self.0.command_buffer;
        let or = |field: Field, default| {
            if field.exists() {
                field.word(words)
            } else {
                default
            }
        };
        CommandBuffer {
            object: fields.object.word(words),
            entry_pipe: fields.entry_pipe.word(words),
            exit_pipe: or(fields.exit_pipe, u32::MAX),
            logical: fields.logical.user(words),
            start_offset: fields.start_offset.word(words),
            offset: Ok(fields.offset.word(words)),
            reserved_head: or(fields.reserved_head, RESERVED_HEAD),
            reserved_tail: or(fields.reserved_tail, RESERVED_TAIL),
        }
    }

    /// Bytes of a `gcsHAL_COMMAND_LOCATION`, for [`Format::decode_location`]; 0: there is none.
    pub(crate) fn location_bytes(self) -> usize {
        self.0.location.bytes.into()
    }

    /// Reads a `gcsHAL_COMMAND_LOCATION`, of [`Format::location_bytes`] bytes, and the address of
    /// the next (0: the last).
    pub(crate) fn decode_location(self, words: &[u32]) -> (CommandBuffer, u64) {
        let fields = &self.0.location;
        let (start, size, tail) = (
            fields.start_offset.word(words),
            fields.size.word(words),
            fields.reserved_tail.word(words),
        );
        let offset = start
            .checked_add(size)
            .and_then(|end| end.checked_sub(tail));
        let buffer = CommandBuffer {
            object: CommandBuffer::OBJECT_TYPE,
            entry_pipe: fields.entry_pipe.word(words),
            exit_pipe: fields.exit_pipe.word(words),
            logical: fields.logical.user(words),
            start_offset: start,
            offset: offset.ok_or(size),
            reserved_head: fields.reserved_head.word(words),
            reserved_tail: tail,
        };
        (buffer, fields.next.user(words))
    }

    /// Bytes of a `gcsSTATE_DELTA`, for [`Format::decode_delta`]; 0: there is none.
    pub(crate) fn delta_bytes(self) -> usize {
        self.0.delta.bytes.into()
    }

    /// Reads a `gcsSTATE_DELTA`, of [`Format::delta_bytes`] bytes.
    pub(crate) fn decode_delta(self, words: &[u32]) -> Delta {
        let fields = &self.0.delta;
        Delta {
            references: if fields.references.exists() {
                // CAST: the bits of a signed field.
                fields.references.word(words) as i32
            } else {
                // The newest generations have no reference count: read each delta.
                1
            },
            element_count: {
                let more = u32::from(self.0.quirks.elements_and_one);
                fields.element_count.word(words).saturating_sub(more)
            },
            record_count: fields.record_count.word(words),
            records: fields.records.user(words),
        }
    }

    /// Whether the switch of a delta's own commit merges it: the generation has no reference count.
    pub(crate) fn merges_at_once(self) -> bool {
        let fields = &self.0.delta;
        fields.bytes != 0 && !fields.references.exists()
    }

    /// Offset of a delta's reference count, if the generation has one.
    pub(crate) fn delta_references(self) -> Option<u64> {
        let field = self.0.delta.references;
        field.exists().then_some(field.at())
    }

    /// Bytes of a `gcoCONTEXT`, for [`Format::decode_context`]; 0: the kernel keeps the contexts.
    pub(crate) fn context_bytes(self) -> usize {
        self.0.context.bytes.into()
    }

    /// Reads a `gcoCONTEXT`, of [`Format::context_bytes`] bytes.
    pub(crate) fn decode_context(self, words: &[u32]) -> ClientContext {
        let fields = &self.0.context;
        ClientContext {
            object: fields.object.word(words),
            id: fields.id.long(words),
            has_head: fields.pipe_2d_index.word(words) != 0,
            buffer_bytes: fields.buffer_size.word(words),
            logical: fields.logical.user(words),
            link: fields.link.user(words),
            initial_pipe: fields.initial_pipe.word(words),
            entry_pipe: fields.entry_pipe.word(words),
            in_use: fields.in_use.user(words),
        }
    }

    /// Offset of the 8-byte id in a `gcoCONTEXT`.
    pub(crate) fn context_id(self) -> u64 {
        self.0.context.id.at()
    }
}
