// SPDX-License-Identifier: GPL-2.0-only

//! Log lines that explain why a request failed, for the author of the client.
//!
//! Pure logic. A status alone has several possible causes. The code that refuses a COMMIT logs its
//! own reason.

use crate::{
    abi::{
        CoreSelector,
        Foreign,
        Parts,
        Request,
        SharedBuffer as Shared,
        ShownHandle,
        Surface,
        UserSignal as Signal, //
    },
    limits::CACHE_LINE,
    prelude::*, //
};

/// A request that failed.
pub(super) struct Refused<'a> {
    /// The command's name; empty: unknown command.
    pub(super) name: &'static str,
    pub(super) command: u32,
    pub(super) request: &'a Request,
    /// The place of the target core.
    pub(super) core: Result<usize>,
    /// How the request names the core.
    pub(super) selector: CoreSelector,
    /// The file is open for reading and writing.
    pub(super) is_read_write: bool,
    pub(super) error: Error,
    /// The error that the client's generation reports.
    pub(super) status: Error,
}

/// Text for an unknown node.
const NOT_A_NODE: &str = "is no node of the process's, or was freed";

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => write!(f, "command {}", self.command)?,
            name => write!(f, "gcvHAL_{name}")?,
        }
        f.write_fmt(fmt!(" refused with {}: ", self.status))?;
        self.reason(f)
    }
}

/// Writes the text of the first row that has the request and the error.
macro_rules! reasons {
    ($self:ident, $f:ident; $($request:pat, $error:pat $(, if $guard:expr)?
        => $text:tt $(, $value:expr)*;)*) => {
        match ($self.request, $self.error) {
            $(($request, $error) $(if $guard)? => $f.write_fmt(fmt!($text $(, $value)*)),)*
        }
    };
}

/// `gcvPOOL_UNKNOWN`: the pool of a client that does not set the field.
const NO_POOL: u32 = 0;

impl Refused<'_> {
    /// Whether to log it even without dynamic debug: the status misleads about a field left at 0 or
    /// about a mapping, or the vendor's driver does not have the limit.
    pub(super) fn is_always_logged(&self) -> bool {
        match self.request {
            Request::AllocateLinear { pool: NO_POOL, .. }
            | Request::AllocateSurface(Surface { pool: NO_POOL, .. }) => true,
            // The vendor's driver pins without a limit.
            Request::MapUser { .. } | Request::Wrap { .. }
                if self.error == Error::OutOfResources =>
            {
                true
            }
            Request::Lock { .. } if self.cannot_map() => true,
            _ => self.names_no_core() || self.cannot_map() && !self.is_read_write,
        }
    }

    /// Whether the request failed because memory could not be mapped.
    fn cannot_map(&self) -> bool {
        let maps = matches!(
            self.request,
            Request::Lock {
                parts: Parts { view: true, .. },
                ..
            } | Request::AllocateContiguous { .. }
                | Request::MapMemory { .. }
                | Request::MapPool { .. }
        );
        maps && self.error == Error::OutOfMemory
    }

    /// Whether the cause may be an unknown core type or index.
    fn names_no_core(&self) -> bool {
        let none = Error::InvalidArgument;
        self.error == none && self.core.is_err_and(|error| error == none)
    }

    /// Writes the cause, or all possible causes of the status.
    fn reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Request::*;
        reasons! { self, f;
            Refused(_), Error::InvalidArgument, if self.name == "WRAP_USER_MEMORY"
                => "flag must have one of gcvALLOC_FLAG_USERMEMORY and gcvALLOC_FLAG_DMABUF";
            Refused(_), Error::InvalidArgument
                => "this generation has no such command, or only in queues, or one of its fields (a sub-command, flags) has a value that there is not";
            _, Error::GpuNotResponding, if self.core.is_ok()
                => "core {} hangs, is given up or being removed, or the process has hung cores too often", self.core.unwrap_or(0);
            _, Error::GpuNotResponding => "there is no such core now";
            Wrap { what: Foreign::User { user, bytes }, in_lines: true }, Error::NotSupported,
                if (user | bytes) & (CACHE_LINE - 1) != 0
                => "{bytes:#x} bytes at {user:#x}: both must be multiples of {CACHE_LINE}, a line of the cache, and not 0";
            Refused(_), Error::NotSupported | Error::OutOfMemory,
                if self.name == "ALLOCATE_LINEAR_VIDEO_MEMORY"
                => "no memory has what the flags ask for, or as much";
            _, Error::NotSupported
                => "it is not built, not for this core or its reach, or for CAP_SYS_ADMIN only";
            AllocateLinear { pool: NO_POOL, .. } | AllocateSurface(Surface { pool: NO_POOL, .. }), _
                => "pool is 0 (gcvPOOL_UNKNOWN) or unknown: gcvPOOL_DEFAULT is 1";
            _, _, if self.cannot_map() && !self.is_read_write
                => "the device is open without O_RDWR: nothing can be mapped";
            AllocateContiguous { bytes, .. }, _ => "{bytes:#x} bytes, or no room to map them: RLIMIT_AS";
            _, _, if self.cannot_map()
                => "no room to map it: RLIMIT_AS, mlockall, or too little memory";
            FreeContiguous(named), Error::InvalidArgument
                => "buffer {}, logical {:#x}, bytes {:#x}: none may be 0", ShownHandle(named.handle), named.user, named.bytes;
            FreeContiguous(named), _ => "{} is no buffer of the process's", ShownHandle(named.handle);
            AllocateLinear { bytes, alignment, kind, pool }, _
                => "{bytes:#x} bytes, alignment {alignment:#x}, type {kind:#x}, pool {pool:#x}";
            AllocateSurface(surface), _ => "{surface:x?}";
            Lock { node, .. } | Unlock { node, .. } | NameNode { node } | ExportNode { node, .. }
                | WaitNode { node } | SetMetadata { node, .. } | ReadMetadata { node }
                | FinishUnlock { node, .. } | FreeNode { node, .. },
                Error::InvalidObject | Error::InvalidData => "{} {NOT_A_NODE}", ShownHandle(*node);
            Lock { node, .. }, Error::MemoryLocked
                => "node {node:#x} is mapped already: UNLOCK comes first";
            Lock { node, .. }, Error::InvalidRequest
                => "node {node:#x} is in the pool, which is not mapped cacheable";
            Unlock { node, .. }, Error::MemoryUnlocked => "node {node:#x} is not locked";
            FreeNode { node, .. }, Error::MemoryLocked => "node {node:#x} is locked";
            UserSignal(Signal::Destroy { id } | Signal::Signal { id, .. } | Signal::Wait { id, .. }
                | Signal::Map { id }), Error::NotFound => "{id:#x} is no signal of the process's";
            Detach { context, .. }, _ => "{} is no context of the process's", ShownHandle(*context);
            ImportNode { name }, Error::NotFound => "no node has the name {name:#x} (NAME_VIDEO_MEMORY gives names)";
            SharedBuffer(Shared::Map { id }), Error::NotFound => "there is no shared buffer {}", ShownHandle(*id);
            SharedBuffer(Shared::Destroy { id } | Shared::Write { id, .. } | Shared::Read { id, .. }), Error::NotFound
                => "{} is no shared buffer of the process's: MAP comes first", ShownHandle(*id);
            UserSignal(_), Error::InvalidArgument
                => "no such sub-command, or useLinuxSignal=1: there are no user signals";
            Cache(range), Error::InvalidObject | Error::NotFound => "{} {NOT_A_NODE}", ShownHandle(range.node.unwrap_or(0));
            Cache(range), Error::InvalidAddress
                => "{:#x} bytes at {:#x} are not inside of node {:#x}", range.bytes, range.user, range.node.unwrap_or(0);
            Cache(range), Error::InvalidArgument
                => "operation {:#x} of {:#x} bytes at {:#x}: no such operation, or nothing to do it to", range.operation, range.bytes, range.user;
            MapMemory { handle } | UnmapMemory { handle }, Error::NotFound
                => "{} is no buffer of the process's", ShownHandle(*handle);
            MapMemory { handle } | UnmapMemory { handle }, _ => "buffer {} is 0, or not mapped", ShownHandle(*handle);
            MapPool { .. } | UnmapPool { .. }, Error::InvalidArgument
                => "the pool is not mapped, or no address or bytes are named";
            MapUser { user, bytes } | Wrap { what: Foreign::User { user, bytes }, .. }, Error::InvalidArgument
                => "{bytes:#x} bytes at {user:#x}: neither may be 0, and they may not wrap";
            MapUser { user, bytes } | Wrap { what: Foreign::User { user, bytes }, .. }, Error::OutOfResources
                => "{bytes:#x} bytes at {user:#x}: not all there (with MMU version 1: and writable), nothing that can be pinned, not from the start of a node's view on or beyond its end, more than RLIMIT_MEMLOCK leaves (huge pages count whole), or no GPU addresses left";
            Wrap { what: Foreign::DmaBuf { fd }, .. }, Error::InvalidArgument
                => "{fd} is no dma-buf, or another process's node that was exported without O_RDWR";
            MapPhysical { physical, bytes }, Error::InvalidArgument
                => "{bytes:#x} bytes at physical address {physical:#x} are not in allowedRanges";
            UnmapUser(named), Error::InvalidArgument
                => "memory {:#x}, size {:#x}, info {:#x}: none may be 0", named.user, named.bytes, named.info;
            UnmapUser(named), Error::NotFound => "info {} is no user memory of the process's", ShownHandle(named.info);
            QueryTimer { timer }, Error::InvalidArgument => "there is no timer {timer:#x}";
            Database { process }, Error::InvalidData => "process {} is another", process.unwrap_or(0);
            SetScale { scale }, Error::InvalidArgument => "the scale is {scale:#x}: it is 1 to 64";
            _, _, if self.names_no_core()
                => "hardwareType is {:#x} and coreIndex {:#x}: there is no such core", self.selector.numbers().0, self.selector.numbers().1;
            Attach { .. } | Stall { .. } | EventCommit { .. } | VectorCommit(_) | QueryCommandBuffer
                | Commit(_) | CommitAll { .. }, Error::InvalidArgument
                => "see the line before, if it is not left out (ten in 5 s at most); or the core that hardwareType names does not do this";
            Commit(_) | CommitAll { .. } | EventCommit { .. }, _
                => "see the line before, if it is not left out (ten in 5 s at most)";
            _, _ => "the interface's page says what this status means here";
        }
    }
}

#[kernel::macros::kunit_tests(galcore_refusals)]
mod tests {
    use super::*;
    use crate::abi::layout::LAYOUTS;
    use kernel::str::CString;

    fn refused(request: &Request, error: Error) -> Refused<'_> {
        // Any generation: the text has the numbers of the request.
        let numbers = &LAYOUTS[LAYOUTS.len() - 1].hardware;
        Refused {
            name: "FREE_VIDEO_MEMORY",
            command: 13,
            request,
            core: Ok(1),
            selector: CoreSelector::new(numbers, 0, 0),
            is_read_write: true,
            error,
            status: error,
        }
    }

    fn text(refused: &Refused<'_>) -> CString {
        CString::try_from_fmt(kernel::prelude::fmt!("{refused}")).unwrap()
    }

    #[test]
    fn the_text_names_the_cause() {
        let free = Request::FreeNode {
            node: 0x1_0005,
            if_unlocked: false,
        };
        assert_eq!(
            text(&refused(&free, Error::InvalidData)).to_bytes(),
            b"gcvHAL_FREE_VIDEO_MEMORY refused with gcvSTATUS_INVALID_DATA (-17): \
              0x10005 is no node of the process's, or was freed"
        );
        let large = Request::FreeNode {
            node: u32::MAX,
            if_unlocked: false,
        };
        assert!(text(&refused(&large, Error::InvalidData))
            .to_bytes()
            .ends_with(b": 0xffffffff or more is no node of the process's, or was freed"));
        // A generation that reports another status.
        let other = Refused {
            status: Error::NotFound,
            ..refused(&free, Error::InvalidData)
        };
        assert_eq!(
            text(&other).to_bytes(),
            b"gcvHAL_FREE_VIDEO_MEMORY refused with gcvSTATUS_NOT_FOUND (-19): \
              0x10005 is no node of the process's, or was freed"
        );
        let timer = Request::QueryTimer { timer: 9 };
        let unnamed = Refused {
            name: "",
            ..refused(&timer, Error::GpuNotResponding)
        };
        assert_eq!(
            text(&unnamed).to_bytes(),
            b"command 13 refused with gcvSTATUS_GPU_NOT_RESPONDING (-22): core 1 hangs, is given up or being \
              removed, or the process has hung cores too often"
        );
        assert!(!unnamed.is_always_logged());
    }

    #[test]
    fn misleading_mapping_failures_are_always_logged() {
        let lock = Request::Lock {
            node: 1,
            cacheable: false,
            again: false,
            parts: Parts {
                lock: true,
                view: true,
            },
        };
        let full = refused(&lock, Error::OutOfMemory);
        assert!(full.is_always_logged());
        let mode = Refused {
            is_read_write: false,
            ..full
        };
        assert!(text(&mode)
            .to_bytes()
            .ends_with(b": the device is open without O_RDWR: nothing can be mapped"));
        let buffer = Request::AllocateContiguous {
            bytes: 1,
            non_paged: true,
        };
        assert!(!refused(&buffer, Error::OutOfMemory).is_always_logged());
        let buffer = Refused {
            request: &buffer,
            ..mode
        };
        assert!(buffer.is_always_logged());
    }

    #[test]
    fn fields_left_at_0_are_always_logged() {
        let linear = Request::AllocateLinear {
            bytes: 64,
            alignment: 64,
            kind: 6,
            pool: 0,
        };
        let pool = refused(&linear, Error::OutOfMemory);
        assert!(pool.is_always_logged());
        assert!(text(&pool)
            .to_bytes()
            .ends_with(b": pool is 0 (gcvPOOL_UNKNOWN) or unknown: gcvPOOL_DEFAULT is 1"));
        let lock = Request::Stall { is_limited: false };
        let core = Refused {
            core: Err(Error::InvalidArgument),
            ..refused(&lock, Error::InvalidArgument)
        };
        assert!(core.is_always_logged());
        let wanted = b": hardwareType is 0x0 and coreIndex 0x0: there is no such core";
        assert!(text(&core).to_bytes().ends_with(wanted));
    }
}
