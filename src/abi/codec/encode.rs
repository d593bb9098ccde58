// SPDX-License-Identifier: GPL-2.0-only

//! Replies and statuses to bytes.

use super::*;

/// Base of the registers on the APB: the vendor's parameter default.
const REGISTER_APB: u64 = 0x30_0000;

/// Bits of a GPU address on all known cores.
const ADDRESS_BITS: u32 = 32;

/// `gceCOMPRESSION_OPTION`: color and depth, with and without multisampling.
const ALL_COMPRESSIONS: u32 = 0xF;

/// QUERY_CHIP_OPTION's answers that do not depend on the cores: the vendor's defaults.
const ATTRIBUTE_CACHE: u32 = 2;
const ALL_NETWORKS: u32 = 0xFF;

impl Format {
    /// Writes the status of success.
    #[inline]
    pub(crate) fn succeed(self, words: &mut [u32], reply: &Reply<'_>) {
        self.put_status(words, reply.status());
    }

    /// Writes the status of a failure, as this generation reports it.
    pub(crate) fn fail(self, words: &mut [u32], error: Error) {
        let reported = self.reported(words, error);
        // CAST: the bits of a signed field.
        self.put_status(words, reported.status() as u32);
    }

    /// The error that this generation reports for a failure of the request in `words`.
    pub(crate) fn reported(self, words: &[u32], error: Error) -> Error {
        let is_old = self.0.quirks.unknown_signal == UnknownSignal::Invalid;
        match (self.command(words), error) {
            (Command::UserSignal, Error::NotFound) if is_old => {
                match self.user_signal(self.union(words)) {
                    UserSignal::Signal { .. } => Error::InvalidRequest,
                    _ => Error::InvalidArgument,
                }
            }
            (
                Command::LockVideoMemory
                | Command::UnlockVideoMemory
                | Command::BottomHalfUnlockVideoMemory
                | Command::ReleaseVideoMemory
                | Command::NameVideoMemory
                | Command::ExportVideoMemory
                | Command::GetVideoMemoryFd
                | Command::SetVideoMemoryMetadata
                | Command::WaitFence
                | Command::GetGraphicBufferFd,
                Error::InvalidObject | Error::InvalidData,
            ) if self.0.quirks.unknown_node_not_found => Error::NotFound,
            (command, error) if self.0.quirks.answers_as_6_4 => {
                self.named_in_6_4(self.union(words), command, error)
            }
            (_, error) => error,
        }
    }

    /// The error that 6.4 reports for a failure of `command`. Source: tests/abi/behaviour.
    fn named_in_6_4(self, u: &[u32], command: Command, error: Error) -> Error {
        let layout = self.0;
        match (command, error) {
            (Command::UserSignal, Error::NotFound) if layout.user_signal.id.word(u) == 0 => {
                Error::InvalidArgument
            }
            (Command::Shbuf, Error::NotFound) => match self.shared_buffer(u) {
                _ if layout.shared_buffer.id.word(u) == 0 => Error::InvalidArgument,
                SharedBuffer::Destroy { .. } => Error::InvalidData,
                _ => Error::NotFound,
            },
            (
                Command::MapMemory | Command::UnmapMemory | Command::FreeNonPagedMemory,
                Error::NotFound,
            ) => Error::InvalidArgument,
            (Command::WrapUserMemory, Error::InvalidArgument) if !self.wraps_dma_buf(u) => {
                Error::NotSupported
            }
            (Command::WaitNativeFence, Error::InvalidArgument) => Error::GenericIo,
            (_, error) => error,
        }
    }

    /// Whether WRAP_USER_MEMORY names a dma-buf.
    fn wraps_dma_buf(self, u: &[u32]) -> bool {
        self.0.wrap.flag.word(u) & self.0.quirks.flags.dma_buf != 0
    }

    /// Writes the second status of a wait for a signal: work is never canceled.
    pub(super) fn put_wait_status(self, words: &mut [u32]) {
        if let UserSignal::Wait { .. } = self.user_signal(self.union(words)) {
            self.0.user_signal.status.put(self.union_mut(words), 0);
        }
    }

    /// Writes a reply over its request.
    pub(crate) fn encode(self, words: &mut [u32], reply: &Reply<'_>) {
        let layout = self.0;
        // A closure, because few replies need the command.
        let number = COMMAND.word(words);
        let command = || layout.command(number);
        if let Reply::Submitted { number } = *reply {
            layout.header.handle.put_long(words, number);
            return;
        }
        let u = self.union_mut(words);
        match *reply {
            Reply::Nothing | Reply::Submitted { .. } => {}
            Reply::CommandBuffer => {
                if let Some(info) = u.get_mut(..COMMAND_BUFFER_INFO.len()) {
                    info.copy_from_slice(&COMMAND_BUFFER_INFO);
                }
            }
            Reply::Committed {
                counted,
                stamp,
                switched,
            } => {
                layout.commit.stamp.put_long(u, stamp);
                layout.commit.switched.put(u, switched.into());
                if let Some(number) = counted {
                    layout.header.handle.put_long(words, number);
                }
            }
            Reply::VideoMemory { pool_bytes } => {
                // There is no internal or external memory.
                zero(u, layout.video_memory.bytes);
                if layout.quirks.names_pool && pool_bytes != 0 {
                    layout.video_memory.contiguous_physical.put(u, POOL_NAME);
                }
                layout.video_memory.contiguous_size.put_long(u, pool_bytes);
                layout.video_memory.virtual_pool.put(u, 1);
            }
            Reply::ChipIdentity(identity, bits) => self.encode_identity(u, identity, bits),
            Reply::ChipOptions {
                profiler,
                fast_clear,
                compression,
                power,
                shaders,
                neural_cores,
                pool,
                l1_cache,
            } => {
                let fields = &layout.options;
                zero(u, fields.bytes);
                fields.profiler.put(u, profiler.into());
                fields.fast_clear.put(u, fast_clear.into());
                fields.power.put(u, power.into());
                fields.mmu.put(u, 1);
                let compressions = if compression { ALL_COMPRESSIONS } else { 0 };
                fields.compression.put(u, compressions);
                fields.small_batch.put(u, 1);
                fields.l1_cache.put(u, l1_cache);
                fields.attribute_cache.put(u, ATTRIBUTE_CACHE);
                fields.pools.put(u, pool.into());
                fields.shaders.put(u, shaders);
                fields.neural_cores.put(u, neural_cores);
                fields.networks.put(u, ALL_NETWORKS);
            }
            Reply::ProfileSetting { .. } | Reply::Counters(_) => self.encode_profiler(words, reply),
            Reply::Register(data) => layout.read_register.data.put(u, data),
            Reply::Off => layout.read_register.data.put(u, 0),
            Reply::Registers(data) => {
                // CAST: 4 of them.
                for (core, data) in data.into_iter().enumerate() {
                    if let Some(data) = data {
                        layout.read_registers.data.nth(core as u16).put(u, data);
                    }
                }
            }
            Reply::AllOff => {
                // CAST: 4 of them.
                for core in 0..EX_CORES as u16 {
                    layout.read_registers.data.nth(core).put(u, 0);
                }
            }
            Reply::Scale { scale } => {
                layout.scale.value.put(u, scale);
                layout.scale.min.put(u, 1);
                layout.scale.max.put(u, FULL_SCALE);
            }
            Reply::Frequency { core, shader } => {
                layout.chip_frequency.core.put(u, core);
                layout.chip_frequency.shader.put(u, shader);
            }
            Reply::CpuFrequency => layout.cpu_frequency.frequency.put(u, 0),
            Reply::KernelSettings { signal } => {
                // CAST: the bits of a signed field.
                layout.kernel_settings.signal.put(u, signal as u32);
            }
            Reply::BaseAddress(address) => {
                layout.base_address.base_address.put(u, address);
                layout.base_address.range_count.put(u, 0);
                layout.base_address.range_start.put(u, 0);
                layout.base_address.range_end.put(u, 0);
            }
            Reply::MmuVersion(version) => layout.mmu_version.version.put(u, version),
            Reply::Version { claim } => {
                let [major, minor, patch, build] = claim.unwrap_or_else(|| layout.version());
                layout.version_numbers.major.put(u, major);
                layout.version_numbers.minor.put(u, minor);
                layout.version_numbers.patch.put(u, patch);
                layout.version_numbers.build.put(u, build);
            }
            Reply::ChipInfo(cores) => self.encode_cores(u, cores),
            Reply::Buffer {
                bytes: size,
                address,
                handle,
                user,
            } => {
                if command() == Command::AllocateVirtualCommandBuffer {
                    let fields = &layout.allocate_commands;
                    fields.size.put_long(u, size);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                } else if command() == Command::AllocateContiguousMemory {
                    let fields = &layout.allocate_contiguous;
                    fields.size.put_long(u, size);
                    fields.address.put(u, address);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                } else {
                    let fields = &layout.allocate_non_paged;
                    fields.size.put_long(u, size);
                    fields.physical.put(u, handle);
                    fields.logical.put_long(u, user);
                }
            }
            Reply::Mapped { user } => layout.map_memory.logical.put_long(u, user),
            Reply::UserMemory { info, address } => {
                layout.map_user.info.put(u, info);
                layout.map_user.address.put(u, address);
            }
            Reply::ConfigPower { old } => layout.config_power.old.put(u, old.into()),
            Reply::Power { state, is_idle } => {
                layout.power.state.put(u, layout.quirks.power.number(state));
                layout.power.is_idle.put(u, is_idle.into());
            }
            Reply::Resets { count } => {
                layout.resets.stamp.put_long(u, count);
                layout.resets.context.put(u, 0);
            }
            // CAST: the bits of a signed field.
            Reply::TimeDelta { microseconds } => layout.timestamp.delta.put(u, microseconds as u32),
            Reply::Database(ref ledgers) => self.encode_database(u, ledgers),
            Reply::Node { node, pool, bytes } => {
                let pool = self.pool_number(pool);
                layout.allocate_linear.pool.put(u, pool);
                layout.allocate_linear.node.put(u, node);
                if layout.quirks.returns_bytes {
                    layout.allocate_linear.size.put_long(u, bytes);
                }
            }
            Reply::Surface {
                width,
                height,
                pool,
                node,
            } => {
                layout.allocate_surface.width.put(u, width);
                layout.allocate_surface.height.put(u, height);
                layout.allocate_surface.pool.put(u, pool);
                layout.allocate_surface.node.put(u, node);
            }
            Reply::Locked {
                address,
                physical,
                user,
            } => {
                if let Some(address) = address {
                    layout.lock.address.put(u, address);
                    layout.lock.memory.put_long(u, 0);
                    layout.lock.gid.put(u, 0);
                    layout.lock.physical_address.put_long(u, physical.into());
                }
                if let Some(user) = user {
                    layout.lock.memory.put_long(u, user);
                }
            }
            Reply::Name(name) => layout.name_node.name.put(u, name),
            Reply::Imported { node } => layout.import_node.node.put(u, node),
            Reply::Wrapped { node, bytes } => {
                if layout.quirks.answers_as_6_4 && self.wraps_dma_buf(u) {
                    layout.wrap.handle.put(u, u32::MAX);
                }
                layout.wrap.node.put(u, node);
                layout.wrap.granted.put_long(u, bytes);
            }
            Reply::File(ref file) => {
                let field = match command() {
                    Command::ExportVideoMemory => layout.export_node.fd,
                    Command::CreateNativeFence => layout.create_fence.fd,
                    Command::GetGraphicBufferFd => layout.graphic_buffer.fd,
                    _ => layout.node_fd.fd,
                };
                field.put(u, file.number());
            }
            Reply::Metadata(metadata) => {
                let fields = &layout.metadata;
                // CAST: the bits of a signed field.
                fields.status.put(u, metadata.status as u32);
                for (at, word) in (0u16..).zip(metadata.words) {
                    fields.fast_clear.nth(at).put(u, word);
                }
            }
            Reply::SharedBuffer { id } => layout.shared_buffer.id.put(u, id),
            Reply::Copied { bytes } => layout.shared_buffer.size.put(u, bytes.unwrap_or(0)),
            Reply::Unlocked {
                asynchronous,
                pool,
                bytes,
            } => {
                layout.unlock.asynchronous.put(u, asynchronous.into());
                layout.unlock.pool.put(u, self.pool_number(pool));
                layout.unlock.size.put_long(u, bytes);
            }
            Reply::Unmapped => {
                layout.unlock.pool.put(u, POOL_UNKNOWN);
                layout.unlock.size.put(u, 0);
            }
            Reply::Signal { id } => layout.user_signal.id.put(u, id),
            Reply::Context {
                context,
                state_count,
            } => {
                layout.attach.context.put(u, context);
                layout.attach.state_count.put_long(u, state_count);
                layout.attach.record_count.put_long(u, state_count);
                layout.attach.buffer_bytes.put(u, 0);
            }
        }
    }

    /// Converts a pool from the numbers of 4.0.0 to this generation's. Pools that the generation
    /// does not have become VIRTUAL.
    pub(crate) fn pool_number(self, pool: u32) -> u32 {
        let pool = if pool < self.0.quirks.pools {
            pool
        } else {
            POOL_VIRTUAL
        };
        pool + u32::from(pool >= self.0.quirks.sram_pool)
    }

    /// Writes CHIP_INFO's answer. Ids count the 3D and neural cores; other cores have a fixed id.
    #[cold]
    fn encode_cores(self, u: &mut [u32], cores: [Option<HardwareType>; MAX_CORES]) {
        const DEFAULT_ID: u32 = u32::MAX;
        let numbers = &self.0.hardware;
        let fields = &self.0.chip_info;
        zero(u, fields.bytes);
        let (mut count, mut slot) = (0, 0);
        let cores = (0u32..).zip(cores);
        for (index, kind) in cores.filter_map(|(index, kind)| Some((index, kind?))) {
            let (number, id) = match kind {
                HardwareType::ThreeD => (numbers.three_d, slot),
                HardwareType::Both => (numbers.both, slot),
                HardwareType::TwoD if numbers.routing == Routing::Slot => (numbers.two_d, 0),
                HardwareType::TwoD => (numbers.two_d, DEFAULT_ID),
                HardwareType::Vector => (numbers.vector, DEFAULT_ID),
                HardwareType::Neural => (numbers.neural, slot),
            };
            slot += u32::from(number != numbers.two_d && number != numbers.vector);
            fields.kind.nth(count).put_narrow(u, number.into());
            fields.id.nth(count).put_narrow(u, id);
            fields.index.nth(count).put_narrow(u, index);
            count += 1;
        }
        fields.count.put_narrow(u, count.into());
    }

    fn encode_identity(self, all: &mut [u32], identity: &IdentityWords, bits: u8) {
        let words = self.0.identity.words;
        let count = usize::from(self.0.identity.bytes) / 4;
        let Some(u) = all.get_mut(..count) else {
            return;
        };
        let (known, rest) = u.split_at_mut(words.len().min(u.len()));
        for (place, &word) in known.iter_mut().zip(words) {
            // CAST: the number of a variant.
            *place = identity.0[word as usize];
        }
        rest.fill(0);
        let fields = &self.0.identity;
        fields.register_apb.put_long(u, REGISTER_APB);
        fields.address_bits.put(u, ADDRESS_BITS);
        for field in fields.internal_memory {
            field.put(u, u32::MAX);
        }
        // CAST: the numbers of variants.
        let value = |word: IdentityWord| identity.0[word as usize];
        for field in fields.internal_sizes {
            field.put(u, value(IdentityWord::InternalMemory));
        }
        fields
            .neural_clusters
            .put(u, value(IdentityWord::NeuralClusters));
        if bits <= fields.features {
            insert_features(all, count, identity);
        }
    }

    fn encode_database(self, u: &mut [u32], ledgers: &ProcessLedgers) {
        let fields = &self.0.database;
        let (process, is_valid) = (fields.process.word(u), fields.is_valid.word(u));
        zero(u, fields.bytes);
        fields.process.put(u, process);
        fields.is_valid.put(u, is_valid);
        let mut put = |amounts: [Field; 3], counts: [Field; 2], distance: u16, ledger: &Ledger| {
            let Ledger {
                bytes, max, total, ..
            } = *ledger;
            for (field, value) in amounts.into_iter().zip([bytes, max, total]) {
                field.plus(distance).put_long(u, value);
            }
            for (field, value) in counts.into_iter().zip([ledger.given, ledger.returned]) {
                field.plus(distance).put(u, value);
            }
        };
        put(
            [fields.video, fields.video_max, fields.video_total],
            [fields.video_given, fields.video_returned],
            0,
            &ledgers.video,
        );
        put(
            [
                fields.non_paged,
                fields.non_paged_max,
                fields.non_paged_total,
            ],
            [fields.non_paged_given, fields.non_paged_returned],
            0,
            &ledgers.non_paged,
        );
        let (contiguous, pools) = if self.0.quirks.one_paged_pool {
            (
                &ledgers.in_one_piece,
                [Some(&ledgers.pool), Some(&ledgers.paged), None],
            )
        } else {
            (
                &ledgers.contiguous,
                [
                    Some(&ledgers.pool),
                    Some(&ledgers.contiguous_pages),
                    Some(&ledgers.scattered),
                ],
            )
        };
        put(
            [
                fields.contiguous,
                fields.contiguous_max,
                fields.contiguous_total,
            ],
            [fields.contiguous_given, fields.contiguous_returned],
            0,
            contiguous,
        );
        for (place, pool) in (0..).zip(pools) {
            let Some(pool) = pool else { continue };
            put(
                [fields.pool, fields.pool_max, fields.pool_total],
                [fields.pool_given, fields.pool_returned],
                place * POOL_BYTES,
                pool,
            );
        }
    }
}

/// Clears the first `bytes` bytes.
fn zero(u: &mut [u32], bytes: u16) {
    if let Some(u) = u.get_mut(..usize::from(bytes).div_ceil(4)) {
        u.fill(0);
    }
}

/// Inserts the words of [`IdentityLayout::FEATURES`] into an identity of `count` words.
#[cold]
#[inline(never)]
fn insert_features(u: &mut [u32], count: usize, identity: &IdentityWords) {
    let (before, features) = (IdentityLayout::BEFORE_FEATURES, IdentityLayout::FEATURES);
    let Some(room) = u.get_mut(before..count + features.len()) else {
        return;
    };
    room.copy_within(..count.saturating_sub(before), features.len());
    for (place, word) in room.iter_mut().zip(features) {
        // CAST: the number of a variant.
        *place = identity.0[word as usize];
    }
}
