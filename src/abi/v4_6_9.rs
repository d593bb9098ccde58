// SPDX-License-Identifier: GPL-2.0-only

//! The 4.6.9 interface (`gcsHAL_INTERFACE` of 168 bytes, `DRIVER_ARGS` of 32).
//!
//! Offsets are bytes in the interface, little-endian. Source: shared/abi/imx6_v4_0_0.json.

use super::{
    CacheRange,
    CommandBuffer,
    Commit,
    NamedBuffer,
    NamedUserMemory,
    Record,
    Reply,
    Request,
    UserSignal, //
};

/// Bytes of the ioctl's argument.
pub(crate) const ARGUMENT_BYTES: usize = 32;

/// Bytes of the interface.
pub(crate) const INTERFACE_BYTES: usize = 168;

/// Bytes of `gcsQUEUE`: the next record's address, then an interface.
pub(crate) const QUEUE_BYTES: usize = 8 + INTERFACE_BYTES;

/// Bytes of `gcoCMDBUF`.
pub(crate) const COMMAND_BUFFER_BYTES: usize = 72;

/// Commands (`gceHAL_COMMAND_CODES`).
mod command {
    pub(super) const QUERY_VIDEO_MEMORY: u32 = 0;
    pub(super) const QUERY_CHIP_IDENTITY: u32 = 1;
    pub(super) const ALLOCATE_NON_PAGED_MEMORY: u32 = 2;
    pub(super) const FREE_NON_PAGED_MEMORY: u32 = 3;
    pub(super) const ALLOCATE_CONTIGUOUS_MEMORY: u32 = 4;
    pub(super) const FREE_CONTIGUOUS_MEMORY: u32 = 5;
    pub(super) const ALLOCATE_LINEAR_VIDEO_MEMORY: u32 = 7;
    pub(super) const FREE_VIDEO_MEMORY: u32 = 8;
    pub(super) const MAP_MEMORY: u32 = 9;
    pub(super) const UNMAP_MEMORY: u32 = 10;
    pub(super) const MAP_USER_MEMORY: u32 = 11;
    pub(super) const UNMAP_USER_MEMORY: u32 = 12;
    pub(super) const LOCK_VIDEO_MEMORY: u32 = 13;
    pub(super) const UNLOCK_VIDEO_MEMORY: u32 = 14;
    pub(super) const EVENT_COMMIT: u32 = 15;
    pub(super) const USER_SIGNAL: u32 = 16;
    pub(super) const SIGNAL: u32 = 17;
    pub(super) const WRITE_DATA: u32 = 18;
    pub(super) const COMMIT: u32 = 19;
    pub(super) const STALL: u32 = 20;
    pub(super) const GET_PROFILE_SETTING: u32 = 23;
    pub(super) const SET_PROFILE_SETTING: u32 = 24;
    pub(super) const READ_ALL_PROFILE_REGISTERS: u32 = 25;
    pub(super) const PROFILE_REGISTERS_2D: u32 = 26;
    pub(super) const QUERY_POWER_MANAGEMENT_STATE: u32 = 28;
    pub(super) const GET_BASE_ADDRESS: u32 = 29;
    pub(super) const SET_IDLE: u32 = 30;
    pub(super) const QUERY_KERNEL_SETTINGS: u32 = 31;
    pub(super) const MAP_PHYSICAL: u32 = 33;
    pub(super) const CACHE: u32 = 35;
    pub(super) const TIMESTAMP: u32 = 36;
    pub(super) const DATABASE: u32 = 37;
    pub(super) const VERSION: u32 = 38;
    pub(super) const CHIP_INFO: u32 = 39;
    pub(super) const ATTACH: u32 = 40;
    pub(super) const DETACH: u32 = 41;
    pub(super) const SET_TIMEOUT: u32 = 43;
    pub(super) const GET_FRAME_INFO: u32 = 44;
    pub(super) const QUERY_COMMAND_BUFFER: u32 = 47;
    pub(super) const COMMIT_DONE: u32 = 48;
    pub(super) const QUERY_RESET_TIME_STAMP: u32 = 55;
}

/// The header's fields.
const COMMAND: usize = 0;
const HARDWARE_TYPE: usize = 4;
const STATUS: usize = 8;

/// MAP_USER_MEMORY's `physical` that means: by user address.
const NO_PHYSICAL: u32 = u32::MAX;

/// TIMESTAMP's requests.
const TIMESTAMP_STOP: u32 = 0;
const TIMESTAMP_START: u32 = 1;
const TIMESTAMP_QUERY: u32 = 2;

/// The header's handle, which no kernel reads or writes but this for its completion numbers.
const HANDLE: usize = 16;

/// `gceCHIPPOWERSTATE`: on.
const POWER_ON: u32 = 0;

/// Where the union starts.
const U: usize = 32;

/// A 32-bit field; 0 outside the bytes, which no caller asks for.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|field| field.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// A 64-bit field.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// A handle in a 64-bit field; one that does not fit 32 bits is none of ours, like all ones.
fn handle(bytes: &[u8], at: usize) -> u32 {
    u32::try_from(long(bytes, at)).unwrap_or(u32::MAX)
}

fn put_word(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

fn put_long(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// FREE_CONTIGUOUS_MEMORY and FREE_NON_PAGED_MEMORY have one layout.
fn named_buffer(bytes: &[u8]) -> NamedBuffer {
    NamedBuffer {
        bytes: long(bytes, U),
        handle: word(bytes, U + 8),
        user: long(bytes, U + 16),
    }
}

fn named_user_memory(bytes: &[u8]) -> NamedUserMemory {
    NamedUserMemory {
        user: long(bytes, U),
        bytes: long(bytes, U + 8),
        info: word(bytes, U + 16),
    }
}

fn user_signal(bytes: &[u8]) -> UserSignal {
    let id = word(bytes, U + 4);
    match word(bytes, U) {
        0 => UserSignal::Create {
            manual_reset: word(bytes, U + 8) != 0,
        },
        1 | 5 => UserSignal::Destroy { id },
        2 => UserSignal::Signal {
            id,
            state: word(bytes, U + 16) != 0,
        },
        3 => UserSignal::Wait {
            id,
            milliseconds: word(bytes, U + 12),
        },
        4 => UserSignal::Map { id },
        _ => UserSignal::Unknown,
    }
}

/// The core that the command is for (`gceHARDWARE_TYPE`).
pub(crate) fn hardware_type(bytes: &[u8; INTERFACE_BYTES]) -> u32 {
    word(bytes, HARDWARE_TYPE)
}

/// Reads a request.
pub(crate) fn decode(bytes: &[u8; INTERFACE_BYTES]) -> Request {
    match word(bytes, COMMAND) {
        command::QUERY_VIDEO_MEMORY => Request::QueryVideoMemory,
        command::QUERY_CHIP_IDENTITY => Request::QueryChipIdentity,
        command::ALLOCATE_NON_PAGED_MEMORY => Request::AllocateContiguous {
            bytes: long(bytes, U),
            non_paged: true,
        },
        command::ALLOCATE_CONTIGUOUS_MEMORY => Request::AllocateContiguous {
            bytes: long(bytes, U),
            non_paged: false,
        },
        command::FREE_NON_PAGED_MEMORY => Request::FreeContiguous(named_buffer(bytes)),
        command::FREE_CONTIGUOUS_MEMORY => Request::FreeContiguous(named_buffer(bytes)),
        command::ALLOCATE_LINEAR_VIDEO_MEMORY => Request::AllocateLinear {
            bytes: word(bytes, U),
            alignment: word(bytes, U + 4),
            kind: word(bytes, U + 8),
            pool: word(bytes, U + 12),
        },
        command::FREE_VIDEO_MEMORY => Request::FreeNode {
            node: handle(bytes, U),
        },
        command::LOCK_VIDEO_MEMORY => Request::Lock {
            node: handle(bytes, U),
            cacheable: word(bytes, U + 8) != 0,
        },
        command::UNLOCK_VIDEO_MEMORY => Request::Unlock {
            node: handle(bytes, U),
        },
        command::EVENT_COMMIT => Request::EventCommit {
            queue: long(bytes, U),
        },
        command::USER_SIGNAL => Request::UserSignal(user_signal(bytes)),
        command::COMMIT => Request::Commit(Commit {
            context: long(bytes, U),
            command_buffer: long(bytes, U + 8),
            queue: long(bytes, U + 24),
        }),
        command::STALL => Request::Stall,
        command::GET_BASE_ADDRESS => Request::GetBaseAddress,
        command::QUERY_KERNEL_SETTINGS => Request::QueryKernelSettings,
        command::CACHE => Request::Cache(CacheRange {
            operation: word(bytes, U),
            user: long(bytes, U + 16),
            bytes: long(bytes, U + 24),
            node: handle(bytes, U + 32),
        }),
        command::MAP_MEMORY => Request::MapMemory {
            handle: word(bytes, U),
        },
        command::UNMAP_MEMORY => Request::UnmapMemory {
            handle: word(bytes, U),
        },
        command::MAP_USER_MEMORY => match word(bytes, U + 8) {
            0 | NO_PHYSICAL => Request::MapUser {
                user: long(bytes, U),
                bytes: long(bytes, U + 16),
            },
            // Physical memory of the client's choice is nobody's to map.
            _ => Request::Invalid,
        },
        command::UNMAP_USER_MEMORY => Request::UnmapUser(named_user_memory(bytes)),
        command::QUERY_POWER_MANAGEMENT_STATE => Request::QueryPower,
        command::GET_PROFILE_SETTING
        | command::SET_PROFILE_SETTING
        | command::READ_ALL_PROFILE_REGISTERS
        | command::PROFILE_REGISTERS_2D => Request::Ignored,
        command::QUERY_RESET_TIME_STAMP => Request::QueryResets,
        command::TIMESTAMP => match (word(bytes, U), word(bytes, U + 4)) {
            (timer, TIMESTAMP_QUERY) => Request::QueryTimer { timer },
            _ => Request::Invalid,
        },
        command::DATABASE => Request::Database {
            process: word(bytes, U + 4),
        },
        command::SET_TIMEOUT => Request::SetTimeout {
            milliseconds: word(bytes, U),
        },
        command::VERSION => Request::Version,
        command::CHIP_INFO => Request::ChipInfo,
        command::ATTACH => Request::Attach,
        command::DETACH => Request::Detach {
            context: word(bytes, U),
        },
        command::SIGNAL
        | command::WRITE_DATA
        | command::SET_IDLE
        | command::MAP_PHYSICAL
        | command::GET_FRAME_INFO
        | command::QUERY_COMMAND_BUFFER
        | command::COMMIT_DONE => Request::Invalid,
        ..=command::QUERY_RESET_TIME_STAMP => Request::Unsupported,
        _ => Request::Invalid,
    }
}

/// Writes the `status` field.
pub(crate) fn set_status(bytes: &mut [u8; INTERFACE_BYTES], status: i32) {
    // CAST: the bits of a signed field.
    put_word(bytes, STATUS, status as u32);
}

/// Writes a reply over the request that it answers.
pub(crate) fn encode(bytes: &mut [u8; INTERFACE_BYTES], reply: &Reply) {
    let is_contiguous = word(bytes, COMMAND) == command::ALLOCATE_CONTIGUOUS_MEMORY;
    match *reply {
        Reply::Nothing => {}
        Reply::VideoMemory { pool_bytes } => {
            // Internal and external memory: address (32 bits), size (64 bits). None here. The
            // pool's address is 0: it is what clients give to mmap.
            for at in [U, U + 16, U + 32] {
                put_word(bytes, at, 0);
                put_long(bytes, at + 8, 0);
            }
            put_long(bytes, U + 40, pool_bytes);
        }
        Reply::ChipIdentity(id) => {
            let words = [
                id.model,
                id.revision,
                id.features,
                id.minor_features[0],
                id.minor_features[1],
                id.minor_features[2],
                id.minor_features[3],
                id.stream_count,
                id.register_max,
                id.thread_count,
                id.shader_core_count,
                id.vertex_cache_size,
                id.vertex_output_buffer_size,
                id.pixel_pipes,
                id.instruction_count,
                id.num_constants,
                id.buffer_size,
                id.varyings_count,
                id.super_tile_mode,
            ];
            for (i, &value) in words.iter().enumerate() {
                put_word(bytes, U + 4 * i, value);
            }
        }
        Reply::KernelSettings { signal } => put_word(bytes, U, signal as u32),
        Reply::BaseAddress(address) => put_word(bytes, U, address),
        Reply::Version(numbers) => {
            for (i, &value) in numbers.iter().enumerate() {
                put_word(bytes, U + 4 * i, value);
            }
        }
        Reply::ChipInfo { kind } => {
            for (i, value) in [1, kind, 0, 0].into_iter().enumerate() {
                put_word(bytes, U + 4 * i, value);
            }
        }
        Reply::Buffer {
            bytes: size,
            address,
            handle,
            user,
        } => {
            put_long(bytes, U, size);
            if is_contiguous {
                put_word(bytes, U + 8, address);
                put_word(bytes, U + 12, handle);
            } else {
                put_word(bytes, U + 8, handle);
            }
            put_long(bytes, U + 16, user);
        }
        Reply::Mapped { user } => put_long(bytes, U + 16, user),
        Reply::UserMemory { info, address } => {
            put_word(bytes, U + 24, info);
            put_word(bytes, U + 28, address);
        }
        Reply::Power { is_idle } => {
            put_word(bytes, U, POWER_ON);
            put_word(bytes, U + 4, is_idle.into());
        }
        Reply::Resets { count } => put_long(bytes, U, count),
        // CAST: the bits of a signed field.
        Reply::TimeDelta { microseconds } => put_word(bytes, U + 8, microseconds as u32),
        Reply::Submitted { number } => put_long(bytes, HANDLE, number),
        Reply::Database(ledgers) => {
            put_word(bytes, U, 1);
            for (i, ledger) in ledgers.iter().enumerate() {
                let at = U + 8 + 32 * i;
                put_long(bytes, at, ledger.bytes);
                put_long(bytes, at + 8, ledger.max);
                put_long(bytes, at + 16, ledger.total);
            }
            put_long(bytes, U + 104, 0);
        }
        Reply::Node { node, pool } => {
            put_word(bytes, U + 12, pool);
            put_long(bytes, U + 16, node.into());
        }
        Reply::Locked { address, user } => {
            put_word(bytes, U + 12, address);
            put_long(bytes, U + 16, user);
        }
        Reply::Unlocked { asynchronous } => put_word(bytes, U + 12, asynchronous.into()),
        Reply::Signal { id } => put_word(bytes, U + 4, id),
        Reply::Context {
            context,
            state_count,
        } => {
            put_word(bytes, U, context);
            put_long(bytes, U + 8, state_count);
        }
    }
}

/// Reads one record of an event queue, and the address of the next (0: the last).
pub(crate) fn decode_record(bytes: &[u8; QUEUE_BYTES]) -> (Record, u64) {
    let next = long(bytes, 0);
    let interface = &bytes[8..];
    let record = match word(interface, COMMAND) {
        command::SIGNAL => Record::Signal {
            id: handle(interface, U),
            process: long(interface, U + 16),
        },
        command::UNLOCK_VIDEO_MEMORY => Record::Unlock {
            node: handle(interface, U),
        },
        command::FREE_VIDEO_MEMORY => Record::FreeNode {
            node: handle(interface, U),
        },
        command::FREE_CONTIGUOUS_MEMORY | command::FREE_NON_PAGED_MEMORY => {
            Record::FreeBuffer(named_buffer(interface))
        }
        command::UNMAP_USER_MEMORY => Record::UnmapUser(named_user_memory(interface)),
        command::WRITE_DATA => Record::WriteData {
            address: word(interface, U),
            data: word(interface, U + 4),
        },
        command::TIMESTAMP => match word(interface, U + 4) {
            request @ (TIMESTAMP_STOP | TIMESTAMP_START) => Record::Timestamp {
                timer: word(interface, U),
                start: request == TIMESTAMP_START,
            },
            _ => Record::Invalid,
        },
        command::COMMIT_DONE => Record::CommitDone,
        _ => Record::Invalid,
    };
    (record, next)
}

/// Reads a `gcoCMDBUF`.
pub(crate) fn decode_command_buffer(bytes: &[u8; COMMAND_BUFFER_BYTES]) -> CommandBuffer {
    CommandBuffer {
        object: word(bytes, 0),
        entry_pipe: word(bytes, 4),
        logical: long(bytes, 32),
        start_offset: word(bytes, 44),
        offset: word(bytes, 48),
    }
}

#[kernel::macros::kunit_tests(galcore_abi)]
mod tests {
    use super::*;

    fn interface(command: u32) -> [u8; INTERFACE_BYTES] {
        let mut bytes = [0; INTERFACE_BYTES];
        put_word(&mut bytes, COMMAND, command);
        bytes
    }

    #[test]
    fn fields_lie_where_the_c_header_has_them() {
        let mut bytes = interface(command::COMMIT);
        put_long(&mut bytes, 32, 1);
        put_long(&mut bytes, 40, 0x1_0000_0002);
        put_long(&mut bytes, 48, 3);
        put_long(&mut bytes, 56, 4);
        assert_eq!(
            decode(&bytes),
            Request::Commit(Commit {
                context: 1,
                command_buffer: 0x1_0000_0002,
                queue: 4,
            })
        );
    }

    #[test]
    fn every_number_is_a_request() {
        assert_eq!(decode(&interface(999)), Request::Invalid);
        assert_eq!(decode(&interface(u32::MAX)), Request::Invalid);
        assert_eq!(decode(&interface(17)), Request::Invalid);
        assert_eq!(decode(&interface(6)), Request::Unsupported);
        assert_eq!(decode(&interface(55)), Request::QueryResets);
        assert_eq!(decode(&interface(54)), Request::Unsupported);
        assert_eq!(decode(&interface(56)), Request::Invalid);
    }

    #[test]
    fn a_handle_of_64_bits_is_none() {
        let mut bytes = interface(command::LOCK_VIDEO_MEMORY);
        put_long(&mut bytes, U, 0x1_0000_0001);
        assert_eq!(
            decode(&bytes),
            Request::Lock {
                node: u32::MAX,
                cacheable: false
            }
        );
    }

    #[test]
    fn a_reply_keeps_what_it_does_not_say() {
        let mut bytes = [0xAA; INTERFACE_BYTES];
        encode(&mut bytes, &Reply::Signal { id: 5 });
        set_status(&mut bytes, -19);
        assert_eq!(word(&bytes, 36), 5);
        assert_eq!(word(&bytes, STATUS), 0xFFFF_FFED);
        assert_eq!(word(&bytes, 32), 0xAAAA_AAAA);
        assert_eq!(word(&bytes, 40), 0xAAAA_AAAA);
    }

    #[test]
    fn contiguous_and_non_paged_differ() {
        let reply = Reply::Buffer {
            bytes: 4096,
            address: 0x1000,
            handle: 7,
            user: 0x2000,
        };
        let mut bytes = interface(command::ALLOCATE_CONTIGUOUS_MEMORY);
        encode(&mut bytes, &reply);
        assert_eq!((word(&bytes, 40), word(&bytes, 44)), (0x1000, 7));
        let mut bytes = interface(command::ALLOCATE_NON_PAGED_MEMORY);
        encode(&mut bytes, &reply);
        assert_eq!((word(&bytes, 40), word(&bytes, 44)), (7, 0));
        assert_eq!(long(&bytes, 48), 0x2000);
    }
}
