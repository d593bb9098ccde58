// SPDX-License-Identifier: GPL-2.0-only

//! Bytes to requests: a match arm for each command, a function for each structure.

use super::*;

/// MAP_USER_MEMORY's `physical` for a request by user address.
const NO_PHYSICAL: u32 = u32::MAX;

/// `gcvVIDMEM_INFO_DIRTY_RECTANGLE`.
const DIRTY_RECTANGLE: u32 = 1;

/// `gceENGINE` of the copy engine (BLT).
const ENGINE_COPY: u32 = 1;

/// The profiler's commands of all generations.
macro_rules! profiler_commands {
    () => {
        Command::GetProfileSetting
            | Command::SetProfileSetting
            | Command::ReadAllProfileRegisters
            | Command::ReadAllProfileNewRegistersPart1
            | Command::ReadAllProfileNewRegistersPart2
            | Command::ReadAllProfileRegistersPart1
            | Command::ReadAllProfileRegistersPart2
            | Command::ReadProfilerNewRegisterSetting
            | Command::ReadProfilerRegisterSetting
            | Command::ProfileRegisters2d
    };
}

impl Format {
    /// Reads a request, out of line; for callers off the hot path.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_apart(self, words: &[u32]) -> Request {
        self.decode(words)
    }

    /// Reads a request.
    #[inline(always)]
    pub(crate) fn decode(self, words: &[u32]) -> Request {
        let layout = self.0;
        let u = self.union(words);
        match self.command(words) {
            Command::QueryVideoMemory => Request::QueryVideoMemory,
            Command::QueryChipIdentity => Request::QueryChipIdentity,
            Command::QueryKernelSettings => Request::QueryKernelSettings,
            Command::GetBaseAddress => Request::GetBaseAddress,
            Command::Version => Request::Version,
            Command::ChipInfo => Request::ChipInfo,
            Command::QueryChipOption => Request::ChipOptions,
            Command::AllocateNonPagedMemory => Request::AllocateContiguous {
                bytes: layout.allocate_non_paged.size.long(u),
                non_paged: true,
            },
            Command::AllocateContiguousMemory => Request::AllocateContiguous {
                bytes: layout.allocate_contiguous.size.long(u),
                non_paged: false,
            },
            Command::FreeNonPagedMemory => Request::FreeContiguous(self.non_paged(u)),
            Command::FreeContiguousMemory => Request::FreeContiguous(self.contiguous(u)),
            Command::AllocateLinearVideoMemory => self.allocate_linear(u),
            Command::AllocateVideoMemory => self.allocate_surface(u),
            Command::FreeVideoMemory => Request::FreeNode {
                node: layout.free_node.node.handle(u),
                if_unlocked: layout.quirks.locked_cannot_be_freed,
            },
            Command::ReleaseVideoMemory => Request::FreeNode {
                node: layout.release_node.node.handle(u),
                if_unlocked: false,
            },
            Command::LockVideoMemory => Request::Lock {
                node: layout.lock.node.handle(u),
                cacheable: layout.lock.cacheable.word(u) != 0,
                again: layout.quirks.locks_again,
                parts: parts(layout.lock.parts, LOCK_PARTS, u),
            },
            Command::UnlockVideoMemory => Request::Unlock {
                node: layout.unlock.node.handle(u),
                parts: parts(layout.unlock.parts, UNLOCK_PARTS, u),
                by_event: layout.quirks.unlocks_by_event,
            },
            Command::NameVideoMemory => Request::NameNode {
                node: layout.name_node.node.handle(u),
            },
            Command::ImportVideoMemory => Request::ImportNode {
                name: layout.import_node.name.word(u),
            },
            Command::WrapUserMemory => self.wrap(u),
            Command::ExportVideoMemory => Request::ExportNode {
                node: layout.export_node.node.handle(u),
                flags: Some(layout.export_node.flags.word(u)),
            },
            Command::GetVideoMemoryFd => Request::ExportNode {
                node: layout.node_fd.node.handle(u),
                flags: None,
            },
            Command::SetVideoMemoryMetadata if layout.metadata.bytes != 0 => self.metadata(u),
            Command::GetGraphicBufferFd if layout.graphic_buffer.bytes != 0 => {
                let fields = &layout.graphic_buffer;
                // CAST: less than 3.
                let mut nodes: [u32; super::GRAPHIC_BUFFER_NODES] =
                    core::array::from_fn(|at| fields.nodes.nth(at as u16).handle(u));
                let mut is_over = false;
                for node in &mut nodes {
                    is_over |= *node == 0 && self.0.quirks.no_node_ends;
                    if is_over {
                        *node = 0;
                    }
                }
                Request::KeepGraphicBuffer {
                    nodes,
                    piece: fields.piece.handle(u),
                    signal: fields.signal.handle(u),
                }
            }
            Command::Shbuf => Request::SharedBuffer(self.shared_buffer(u)),
            // This form is for a sync point, which is not built.
            Command::CreateNativeFence if !layout.create_fence.signal.exists() => {
                Request::Refused(Error::NotSupported)
            }
            Command::CreateNativeFence => Request::CreateFence {
                signal: layout.create_fence.signal.handle(u),
            },
            Command::WaitFence => Request::WaitNode {
                node: layout.wait_node.node.handle(u),
            },
            Command::WaitNativeFence => Request::WaitFence {
                // CAST: the bits of a signed field.
                fd: layout.wait_fence.fd.word(u) as i32,
                milliseconds: layout.wait_fence.timeout.word(u),
            },
            Command::BottomHalfUnlockVideoMemory => Request::FinishUnlock {
                node: layout.finish_unlock.node.handle(u),
                by_event: layout.quirks.unlocks_by_event,
            },
            Command::EventCommit if self.copies(layout.event.engine, words) => {
                Request::Refused(Error::NotSupported)
            }
            Command::EventCommit => Request::EventCommit {
                queue: layout.event.queue.user(u),
                format: self,
            },
            Command::UserSignal => Request::UserSignal(self.user_signal(u)),
            Command::Commit if self.copies(layout.commit.engine, words) => {
                Request::Refused(Error::NotSupported)
            }
            Command::Commit => match self.vector() {
                Some(format) if self.is_for_vector(words) => {
                    Request::VectorCommit(format.decode_commit(u))
                }
                _ => self.commit(u),
            },
            Command::QueryCommandBuffer => Request::QueryCommandBuffer,
            Command::Stall => Request::Stall {
                is_limited: layout.quirks.stall_is_limited,
            },
            Command::Cache if layout.quirks.cache_is_ignored => Request::Ignored,
            Command::Cache => Request::Cache(CacheRange {
                operation: layout.cache.operation.word(u),
                user: layout.cache.logical.user(u),
                bytes: layout.cache.size.long(u),
                node: if layout.quirks.caches_by_address {
                    None
                } else {
                    Some(layout.cache.node.handle(u))
                },
                by_node: layout.quirks.caches_nodes,
            }),
            // Directions: 0: both, 1: to the GPU, 2: from the GPU.
            Command::FlushCache if layout.quirks.flushes => Request::Cache(CacheRange {
                operation: match layout.flush_cache.direction.word(u) {
                    1 => 1,
                    2 => 2,
                    _ => 3,
                },
                user: layout.flush_cache.logical.user(u),
                bytes: layout.flush_cache.size.long(u),
                node: None,
                by_node: false,
            }),
            Command::GetMmuVersion if layout.quirks.flushes => Request::GetMmuVersion,
            Command::MapMemory => match layout.map_memory.physical.handle(u) {
                POOL_NAME if layout.quirks.names_pool => Request::MapPool {
                    bytes: layout.map_memory.size.long(u),
                },
                handle => Request::MapMemory { handle },
            },
            Command::UnmapMemory => match layout.unmap_memory.physical.handle(u) {
                POOL_NAME if layout.quirks.names_pool => Request::UnmapPool {
                    user: layout.unmap_memory.logical.user(u),
                    bytes: layout.unmap_memory.size.long(u),
                },
                handle => Request::UnmapMemory { handle },
            },
            Command::AllocateVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Request::AllocateContiguous {
                    bytes: layout.allocate_commands.size.long(u),
                    non_paged: false,
                }
            }
            Command::FreeVirtualCommandBuffer if layout.quirks.allocates_commands => {
                Request::FreeContiguous(self.commands(u))
            }
            Command::MapUserMemory => self.map_user(u),
            Command::UnmapUserMemory => Request::UnmapUser(self.user_memory(u)),
            Command::QueryChipFrequency => Request::QueryFrequency,
            Command::QueryCpuFrequency => Request::QueryCpuFrequency,
            // Jobs do not need the mutex, by which a client could block all others indefinitely.
            Command::DeviceMutex => Request::Ignored,
            // The log has one level.
            Command::SetDebugLevelZone => Request::Ignored,
            Command::SetPowerManagementState => {
                match layout.quirks.power.find(layout.set_power.state.word(u)) {
                    Some((state, way)) => Request::SetPower { state, way },
                    None => Request::Refused(Error::InvalidArgument),
                }
            }
            Command::ConfigPowerManagement => Request::ConfigPower {
                enable: layout.config_power.enable.word(u) != 0,
            },
            Command::SetFscaleValue => match layout.set_scale.value.word(u) {
                scale @ 1..=FULL_SCALE => Request::SetScale { scale },
                _ => Request::Refused(Error::InvalidArgument),
            },
            Command::GetFscaleValue => Request::QueryScale,
            Command::Reset => Request::Reset {
                succeeds: layout.quirks.resets,
            },
            Command::QueryPowerManagementState => Request::QueryPower,
            Command::QueryResetTimeStamp => Request::QueryResets,
            Command::Timestamp => match layout.timestamp.request.word(u) {
                TIMESTAMP_QUERY => Request::QueryTimer {
                    timer: layout.timestamp.timer.word(u),
                },
                _ => Request::Refused(Error::InvalidArgument),
            },
            Command::Database => Request::Database {
                process: match layout.database.is_valid.word(u) {
                    0 => None,
                    _ => Some(layout.database.process.word(u)),
                },
            },
            Command::SetTimeout => Request::SetTimeout {
                milliseconds: layout.timeout.timeout.word(u),
            },
            Command::Attach => Request::Attach {
                newer: layout.quirks.newer_contexts,
            },
            Command::Detach => Request::Detach {
                context: layout.detach.context.handle(u),
                must_exist: layout.quirks.detaches_known,
            },
            // These generations have a separate interface for them.
            profiler_commands!() if layout.profiler_bytes != 0 => {
                Request::Refused(Error::InvalidArgument)
            }
            profiler_commands!() => self.decode_profiler(words),
            Command::ReadRegister => Request::ReadRegister {
                address: layout.read_register.address.word(u),
                off_reads_zero: layout.quirks.off_reads_zero,
            },
            Command::WriteRegister => Request::WriteRegister {
                address: layout.write_register.address.word(u),
                data: layout.write_register.data.word(u),
                off_reads_zero: layout.quirks.off_reads_zero,
            },
            Command::ReadRegisterEx if layout.read_registers.bytes != 0 => Request::ReadRegisters {
                address: layout.read_registers.address.word(u),
                cores: layout.read_registers.cores.word(u),
            },
            Command::WriteRegisterEx if layout.write_registers.bytes != 0 => {
                let data = layout.write_registers.data.words_from(u);
                Request::WriteRegisters {
                    address: layout.write_registers.address.word(u),
                    cores: layout.write_registers.cores.word(u),
                    data: core::array::from_fn(|core| data.get(core).copied().unwrap_or(0)),
                }
            }
            Command::Debug if layout.debug.bytes != 0 => Request::Print,
            Command::DumpGpuState => Request::DumpState,
            Command::DumpEvent => Request::DumpJobs,
            Command::GetSharedInfo => Request::ReadShared(self.shared_info(u)),
            Command::SetSharedInfo => Request::WriteShared(self.own_shared_info(u)),
            Command::Unknown
                if layout.quirks.gpu_stuck != 0
                    && COMMAND.word(words) == layout.quirks.gpu_stuck =>
            {
                Request::GpuStuck
            }
            // The scheduler that uses it is compiled out.
            Command::CommitDone if layout.quirks.takes_commit_done => Request::Ignored,
            // Valid only in queues, or compiled out of every Linux build.
            Command::Unknown
            | Command::Signal
            | Command::WriteData
            | Command::SetIdle
            | Command::MapPhysical
            | Command::GetFrameInfo
            | Command::CommitDone
            | Command::SyncPoint
            | Command::DestroyMmu
            | Command::DebugDump
            | Command::SyncVideoMemory
            | Command::Dec200Test
            | Command::Dec300Read
            | Command::Dec300Write
            | Command::Dec300Flush
            | Command::Dec300FlushWait
            | Command::UpdateDebugCallback
            | Command::ConfigCtxFramework
            | Command::GcOff
            | Command::GcOn => Request::Refused(Error::InvalidArgument),
            // Defined, but not built.
            Command::ReadRegisterEx
            | Command::WriteRegisterEx
            | Command::Debug
            | Command::Compose
            | Command::DumpGpuProfile
            | Command::AllocateVirtualCommandBuffer
            | Command::FreeVirtualCommandBuffer
            | Command::FlushCache
            | Command::GetMmuVersion
            | Command::VidmemDatabase
            | Command::GetGraphicBufferFd
            | Command::SetVideoMemoryMetadata
            | Command::ApbAxifeAccess
            | Command::CancelJob
            | Command::FenceOp => Request::Refused(Error::NotSupported),
        }
    }

    /// SET_VIDEO_MEMORY_METADATA.
    fn metadata(self, u: &[u32]) -> Request {
        let fields = &self.0.metadata;
        let node = fields.node.handle(u);
        if fields.readback.word(u) != 0 {
            return Request::ReadMetadata { node };
        }
        // CAST: the bits of a signed field; less than 5.
        let metadata = NodeMetadata {
            status: fields.status.word(u) as i32,
            words: core::array::from_fn(|at| fields.fast_clear.nth(at as u16).word(u)),
        };
        Request::SetMetadata { node, metadata }
    }

    fn shared_info(self, u: &[u32]) -> SharedInfo {
        let fields = &self.0.shared_info;
        SharedInfo {
            process: fields.process.word(u),
            id: fields.id.word(u),
            data: fields.data.user(u),
            bytes: fields.size.long(u),
            node: fields.node.handle(u),
            node_data: fields.node_data.user(u),
            is_rectangle: fields.kind.word(u) == DIRTY_RECTANGLE,
        }
    }

    fn own_shared_info(self, u: &[u32]) -> SharedInfo {
        let fields = &self.0.set_shared_info;
        SharedInfo {
            process: 0,
            id: fields.id.word(u),
            data: fields.data.user(u),
            bytes: fields.size.long(u),
            node: fields.node.handle(u),
            node_data: fields.node_data.user(u),
            is_rectangle: fields.kind.word(u) == DIRTY_RECTANGLE,
        }
    }

    pub(super) fn contiguous(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_contiguous;
        named_buffer([fields.size, fields.physical, fields.logical], u)
    }

    pub(super) fn non_paged(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_non_paged;
        named_buffer([fields.size, fields.physical, fields.logical], u)
    }

    pub(super) fn commands(self, u: &[u32]) -> NamedBuffer {
        let fields = &self.0.free_commands;
        named_buffer([fields.size, fields.physical, fields.logical], u)
    }

    pub(super) fn user_memory(self, u: &[u32]) -> NamedUserMemory {
        let fields = &self.0.unmap_user;
        NamedUserMemory {
            user: fields.memory.user(u),
            bytes: fields.size.long(u),
            info: fields.info.handle(u),
        }
    }

    fn map_user(self, u: &[u32]) -> Request {
        let fields = &self.0.map_user;
        let (user, bytes) = (fields.memory.user(u), fields.size.long(u));
        let is_aligned = user & (self.0.quirks.user_alignment - 1) == 0;
        match fields.physical.word(u) {
            0 | NO_PHYSICAL if !is_aligned && bytes != 0 => Request::Refused(Error::OutOfMemory),
            0 | NO_PHYSICAL => Request::MapUser { user, bytes },
            physical => Request::MapPhysical { physical, bytes },
        }
    }

    fn wrap(self, u: &[u32]) -> Request {
        let fields = &self.0.wrap;
        let kinds = &self.0.quirks.flags;
        let kind = fields.flag.word(u) & (kinds.dma_buf | kinds.user_memory);
        match kind {
            0 => Request::Refused(Error::InvalidArgument),
            _ if kind == kinds.dma_buf => Request::Wrap {
                what: Foreign::DmaBuf {
                    // CAST: the bits of a signed field.
                    fd: fields.handle.word(u) as i32,
                },
                in_lines: false,
            },
            // Ignore the physical address: clients must not choose it. The memory is the client's
            // mapping at the user address. A request with user address 0 fails.
            _ if kind == kinds.user_memory => Request::Wrap {
                what: Foreign::User {
                    user: fields.logical.user(u),
                    bytes: fields.size.long(u),
                },
                in_lines: self.0.quirks.strict_memory,
            },
            _ => Request::Refused(Error::InvalidArgument),
        }
    }

    pub(super) fn shared_buffer(self, u: &[u32]) -> SharedBuffer {
        let fields = &self.0.shared_buffer;
        let id = fields.id.handle(u);
        let user = fields.data.user(u);
        let bytes = fields.size.word(u);
        match fields.command.word(u) {
            0 => SharedBuffer::Create { bytes },
            1 => SharedBuffer::Destroy { id },
            2 => SharedBuffer::Map { id },
            3 => SharedBuffer::Write { id, user, bytes },
            4 => SharedBuffer::Read { id, user, bytes },
            _ => SharedBuffer::Unknown,
        }
    }

    pub(super) fn user_signal(self, u: &[u32]) -> UserSignal {
        let fields = &self.0.user_signal;
        let id = fields.id.word(u);
        match fields.command.word(u) {
            0 => UserSignal::Create {
                manual_reset: fields.manual_reset.word(u) != 0,
            },
            1 => UserSignal::Destroy { id },
            2 => UserSignal::Signal {
                id,
                state: fields.state.word(u) != 0,
            },
            3 => UserSignal::Wait {
                id,
                milliseconds: fields.wait.word(u),
            },
            _ if !self.0.quirks.maps_signals => UserSignal::Unknown,
            4 => UserSignal::Map { id },
            5 => UserSignal::Destroy { id },
            _ => UserSignal::Unknown,
        }
    }

    /// The state in the arguments of SIGNAL.
    pub(in crate::abi) fn signal_state(self, words: &[u32]) -> u32 {
        self.0.user_signal.state.word(self.union(words))
    }

    /// Whether commands are for the copy engine, which no supported core has. `own`: the engine
    /// field of the structure itself, if any.
    fn copies(self, own: Field, words: &[u32]) -> bool {
        let engine = if own.exists() {
            own.word(self.union(words))
        } else {
            self.0.header.engine.word(words)
        };
        engine == ENGINE_COPY
    }

    fn commit(self, u: &[u32]) -> Request {
        match self.0.commit.count.word(u) {
            0 | 1 => Request::Commit(self.decode_commit(u)),
            count if count <= MAX_PARTS => {
                let first = self.decode_commit(u);
                Request::CommitAll { first, count }
            }
            _ => Request::Refused(Error::InvalidArgument),
        }
    }
}

/// The parts of a LOCK or an UNLOCK that `field` selects by its `bits`; without a field, both.
fn parts(field: Field, bits: [u32; 2], u: &[u32]) -> Parts {
    let has = |bit: u32| !field.exists() || field.word(u) & bit != 0;
    let [lock, view] = bits.map(has);
    Parts { lock, view }
}

/// Reads a buffer from the fields for its size, handle and user address.
fn named_buffer([size, handle, user]: [Field; 3], u: &[u32]) -> NamedBuffer {
    NamedBuffer {
        bytes: size.long(u),
        handle: handle.handle(u),
        user: user.user(u),
    }
}
