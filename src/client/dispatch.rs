// SPDX-License-Identifier: GPL-2.0-only

//! The dispatcher: checks the caller of a request, then runs the request. It answers queries of the
//! device and of the calling process itself.
//!
//! COMMITs that name no core, on boards with separate 3D and 2D cores.
//!
//! The oldest generations have no field for the kind of a core: their boards had one core, and the
//! commands chose the engine. So here the commands also choose the core. It is the first core that
//! has the engine in which the COMMIT begins and that accepts its commands. To such a client, all
//! cores are one. So its jobs on a core, even those without commands, wait for its jobs on the
//! other cores.

use super::{
    action,
    buffer,
    cache,
    client_context::OwnContext,
    commit::{
        self,
        read_description,
        Description, //
    },
    contexts,
    gem,
    import,
    lock,
    name,
    node::{
        Locking,
        Unlocking, //
    },
    nodes,
    power,
    profile,
    refuse_caller,
    restarts::{
        self,
        Limited, //
    },
    shared,
    signals,
    submission,
    vector,
    waits,
    window,
    Core,
    PoolView,
    Process, //
};
use crate::{
    abi::{
        Commands,
        Commit,
        CoreSelector,
        ProcessLedgers,
        Reply,
        Request,
        ShownHandle,
        Text, //
    },
    hw::MmuVersion,
    log::debug_client,
    prelude::*,
    ring::GPU_TIMEOUT,
    stream::{
        addresses::Addresses,
        checker,
        words::Pipe, //
    },
    sys::{
        chrdev::OpenFile,
        dma_buf::Access,
        trace::WaitFor, //
    }, //
};

impl Process {
    /// Refuses `request` if it uses memory or jobs and the caller has another address space. There,
    /// the process's addresses, windows and pins are not valid. The caller may also have other
    /// rights. `InvalidData`: refused. The vendor's driver returns it for an unknown process.
    #[inline]
    fn check_caller(&self, request: &Request) -> Result {
        if self.is_callers() || is_for_anybody(request) {
            Ok(())
        } else {
            Err(refuse_caller())
        }
    }

    /// Runs a request of the profiler, or one that is ignored or refused. `text` returns the text
    /// of a command that has one. Not inlined into [`Process::run`], which must be fast.
    /// `InvalidArgument`: any other request.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_profiler(
        &self,
        selector: CoreSelector,
        request: Request,
        text: &dyn Fn() -> Text,
    ) -> Result<Reply<'_>> {
        let done = |()| Reply::Nothing;
        self.check_caller(&request)?;
        match request {
            Request::ProfileSetting { is_built, is_on } => {
                profile::setting(self, selector, is_built, is_on)
            }
            Request::SetProfileSetting { enable, is_built } => {
                profile::set_setting(self, selector, enable, is_built, text()).map(done)
            }
            Request::ReadCounters(set) => profile::read_counters(self, selector, set),
            Request::ReadCounters2d { user } => {
                profile::read_counters_2d(self, selector, user).map(done)
            }
            Request::ClearCounters { clears } => {
                profile::set_clearing(self, clears);
                Ok(Reply::Nothing)
            }
            Request::Ignored => Ok(Reply::Nothing),
            Request::Refused(error) => Err(error),
            _ => Err(Error::InvalidArgument),
        }
    }

    /// Runs one request of the interface.
    ///
    /// `view` returns the calling file's mapping of the pool, if any. `part` returns part N of a
    /// COMMIT for several cores. `text` returns the text of a command, if any.
    pub(crate) fn run(
        self: &Arc<Self>,
        file: &OpenFile,
        view: impl FnOnce() -> Option<Arc<PoolView>>,
        part: impl Fn(u32) -> Commit,
        text: impl Fn() -> Text,
        core: CoreSelector,
        request: Request,
    ) -> Result<Reply<'_>> {
        let selector = core;
        let core = || self.device.core(selector);
        let done = |()| Reply::Nothing;
        self.check_caller(&request)?;
        match request {
            Request::QueryVideoMemory => Ok(video_memory(self)),
            Request::QueryChipIdentity => {
                let words = self.device.identity_words(selector)?;
                Ok(Reply::ChipIdentity(words, sys::program_bits()))
            }
            Request::QueryKernelSettings => Ok(settings(self)),
            Request::GetMmuVersion => {
                let version = core()?.hardware().mmu_version();
                Ok(Reply::MmuVersion(u32::from(version == MmuVersion::V2)))
            }
            Request::GetBaseAddress => Ok(Reply::BaseAddress(self.device.base_address)),
            Request::Version => Ok(version(self)),
            Request::ChipInfo => Ok(Reply::ChipInfo(self.device.kinds_in_order())),
            Request::ChipOptions => Ok(options(self, &*core()?)),
            Request::QueryScale => power::query_scale(self, selector),
            Request::SetScale { scale } => power::set_scale(self, selector, scale).map(done),
            request @ (Request::ProfileSetting { .. }
            | Request::SetProfileSetting { .. }
            | Request::ReadCounters(_)
            | Request::ReadCounters2d { .. }
            | Request::ClearCounters { .. }) => self.run_profiler(selector, request, &text),
            Request::ReadRegister {
                address,
                off_reads_zero,
            } => profile::read(self, selector, address, off_reads_zero),
            Request::WriteRegister {
                address,
                data,
                off_reads_zero,
            } => profile::write(self, selector, address, data, off_reads_zero),
            Request::ReadRegisters { address, cores } => {
                profile::read_all(self, selector, address, cores)
            }
            Request::WriteRegisters {
                address,
                cores,
                data,
            } => profile::write_all(self, selector, address, cores, data).map(done),
            Request::Print => {
                profile::print(self, text());
                Ok(Reply::Nothing)
            }
            Request::DumpState => profile::dump_state(self, selector),
            Request::DumpJobs => profile::dump_jobs(self).map(done),
            Request::ReadShared(info) => shared::read(self, info).map(done),
            Request::WriteShared(info) => shared::write(self, info).map(done),
            Request::QueryFrequency => {
                let (core, shader) = self.device.any(selector)?.frequencies();
                Ok(Reply::Frequency { core, shader })
            }
            Request::QueryCpuFrequency => Ok(Reply::CpuFrequency),
            Request::SetPower { state, way } => power::set(self, selector, state, way).map(done),
            Request::ConfigPower { enable } => power::configure(self, selector, enable),
            Request::QueryPower => power::query(self, selector),
            Request::QueryTimer { timer } => action::time_delta(self, timer),
            Request::QueryResets => Ok(Reply::Resets {
                count: self.resets_of(selector).into(),
            }),
            Request::Database { process } => database(self, process),
            Request::AllocateContiguous { bytes, non_paged } => {
                buffer::allocate(self, file, bytes, non_paged)
            }
            Request::FreeContiguous(buffer) => buffer::free(self, buffer).map(done),
            Request::MapPool { bytes } => window::map_pool(self, file, view(), bytes),
            Request::UnmapPool { user, bytes } => window::unmap_pool(self, user, bytes).map(done),
            Request::MapMemory { handle } => buffer::map(self, file, handle),
            Request::UnmapMemory { handle } => buffer::unmap(self, handle).map(done),
            Request::AllocateLinear {
                bytes,
                alignment,
                kind,
                pool,
            } => {
                let pool = if self.is_vector(selector) {
                    vector::pool(pool)
                } else {
                    pool
                };
                let (node, pool, bytes) = nodes::allocate(self, bytes, alignment, kind, pool)?;
                Ok(Reply::Node { node, pool, bytes })
            }
            Request::AllocateSurface(surface) => nodes::allocate_surface(self, surface),
            Request::Lock {
                node,
                cacheable,
                again,
                parts,
            } => {
                let core = self.device.place(selector)?;
                let how = Locking {
                    core,
                    physical: self.device.is_vector(core),
                    cacheable,
                    again,
                    of_object: false,
                    parts,
                };
                lock::lock(self, file, view(), node, how)
            }
            Request::Unlock {
                node,
                parts,
                by_event,
            } => {
                let how = Unlocking {
                    parts,
                    by_event,
                    of_object: false,
                };
                lock::unlock(self, node, how)
            }
            Request::FinishUnlock { node, by_event } => {
                lock::queue_unlock(self, &*core_after_commands(self, selector)?, node, by_event)
            }
            Request::FreeNode { node, if_unlocked } => {
                nodes::free(self, node, if_unlocked).map(done)
            }
            Request::NameNode { node } => import::name(self, node),
            Request::ImportNode { name } => import::import_named(self, name),
            Request::Wrap { what, in_lines } => import::wrap(self, what, in_lines),
            Request::ExportNode { node, flags } => {
                import::export_node(self, node, flags.map_or(Access::FULL, Access::of_flags))
            }
            Request::SetMetadata { node, metadata } => gem::set_metadata(self, node, metadata),
            Request::ReadMetadata { node } => gem::read_metadata(self, node),
            Request::KeepGraphicBuffer {
                nodes,
                piece,
                signal,
            } => gem::keep(self, nodes, piece, signal),
            Request::SharedBuffer(command) => name::run(self, command),
            // MAP_USER returns a GPU address, which a core for vector graphics cannot use.
            Request::MapUser { .. } if self.is_vector(selector) => Err(Error::NotSupported),
            Request::MapUser { user, bytes } => buffer::map_user(self, user, bytes),
            Request::MapPhysical { physical, bytes } => buffer::map_physical(self, physical, bytes),
            Request::UnmapUser(named) => buffer::unmap_user(self, named).map(done),
            Request::Cache(range) => cache::maintain(self, range).map(done),
            Request::UserSignal(command) => signals::run(self, command),
            Request::CreateFence { signal } => signals::create_fence(self, signal),
            Request::WaitFence { fd, milliseconds } => {
                let what = (WaitFor::Fence(fd), Limited::Fence(fd, milliseconds));
                let wait = |left| Ok(sys::file::wait(fd, left, false)?);
                restarts::limited(self, what, milliseconds, || 0, wait).map(done)
            }
            Request::WaitNode { node } => import::wait_node(self, node),
            Request::Attach { newer } => contexts::attach(self, &*core()?, newer),
            Request::Detach {
                context,
                must_exist,
            } => {
                if contexts::detach(self, context) {
                    Ok(Reply::Nothing)
                } else if must_exist {
                    Err(Error::InvalidObject)
                } else {
                    debug_client!(in Kernel, "DETACH: the process has no context {}", ShownHandle(context));
                    Ok(Reply::Nothing)
                }
            }
            Request::Commit(commit) => {
                let committed = match commit.core {
                    Some(_) => commit::commit_parts(self, selector, commit),
                    None if selector.is_unnamed() && self.device.has_engines_apart() => {
                        commit_unnamed(self, selector, &commit)
                    }
                    None => core().and_then(|core| commit::commit(self, &core, &commit)),
                };
                commit::logged("COMMIT", committed)
            }
            Request::CommitAll { first, count } => {
                let committed = commit::commit_all(self, selector, first, count, part);
                commit::logged("COMMIT", committed)
            }
            Request::VectorCommit(commit) => {
                let core = self.device.vector(selector)?;
                vector::commit(self, &core, view(), commit)
            }
            Request::QueryCommandBuffer => {
                self.device.vector(selector).map(|_| Reply::CommandBuffer)
            }
            Request::EventCommit { queue, format } => match core_after_commands(self, selector) {
                Ok(core) => commit::logged(
                    "EVENT_COMMIT",
                    submission::event_commit(self, &core, queue, format),
                ),
                Err(_) if format.vector_knows_events() && self.is_vector(selector) => {
                    Err(Error::NotSupported)
                }
                Err(error) => Err(error),
            },
            Request::Stall { is_limited } => {
                contexts::stall(self, &*core_after_commands(self, selector)?, is_limited).map(done)
            }
            Request::SetTimeout { milliseconds } => {
                let timeout = milliseconds.min(GPU_TIMEOUT);
                self.stall_timeout.store(timeout, Relaxed);
                Ok(Reply::Nothing)
            }
            Request::Reset { succeeds } => contexts::reset(self, selector, succeeds).map(done),
            Request::GpuStuck => {
                contexts::report_stuck(self, selector);
                Ok(Reply::Nothing)
            }
            Request::Ignored => Ok(Reply::Nothing),
            Request::Refused(error) => Err(error),
        }
    }
}

/// Whether any process that has the file may make `request`. Such requests use no memory and no
/// jobs of the file's process. They query the device or the process's usage, use signals or
/// fences, or do nothing.
#[inline(never)]
fn is_for_anybody(request: &Request) -> bool {
    matches!(
        request,
        Request::QueryVideoMemory
            | Request::QueryChipIdentity
            | Request::QueryKernelSettings
            | Request::GetBaseAddress
            | Request::GetMmuVersion
            | Request::Version
            | Request::ChipInfo
            | Request::ChipOptions
            | Request::QueryScale
            | Request::QueryFrequency
            | Request::QueryCpuFrequency
            | Request::QueryPower
            | Request::QueryResets
            | Request::QueryTimer { .. }
            | Request::QueryCommandBuffer
            | Request::Database { .. }
            | Request::UserSignal(_)
            | Request::CreateFence { .. }
            | Request::WaitFence { .. }
            | Request::Ignored
            | Request::Refused(_)
    )
}

/// Runs a COMMIT that names no core, on a board with separate 3D and 2D cores. Prefers the core
/// of `selector`. Errors: as [`Device::core`](super::Device::core) and [`commit::commit`].
#[cold]
#[inline(never)]
fn commit_unnamed(
    process: &Arc<Process>,
    selector: CoreSelector,
    commit: &Commit,
) -> Result<Reply<'static>> {
    let first = process.device.core(selector)?;
    let core = core_for(process, &first, commit)?;
    if core.index() != first.index() || process.unnamed_core.load(Relaxed) != 0 {
        waits::wait_for_cores(process, Some(core.index()))?;
        process.unnamed_core.store(core.index() + 1, Relaxed);
    }
    commit::commit(process, &core, commit)
}

/// The core for a COMMIT that names none. If no core accepts the commands, it is a core with
/// their first engine, which then reports the error.
///
/// The driver reads and checks the commands again to run them, so the client may change them.
fn core_for(process: &Process, first: &Arc<Core>, commit: &Commit) -> Result<Arc<Core>> {
    let (format, mut desc) = (commit.format, Description::new());
    let mut buffer = match commit.commands {
        Commands::Described(user) => {
            format.decode_command_buffer(read_description(user, format, &mut desc)?)
        }
        Commands::Here(buffer, _) => buffer,
    };
    if commit.format.context_bytes() != 0 {
        buffer.entry_pipe = OwnContext::of(commit, process)?.given.entry_pipe;
    }
    let Some(entry) = Pipe::from_number(buffer.entry_pipe) else {
        return Ok(first.clone());
    };
    let mut words = KVVec::new();
    commit::copy_commands(
        process,
        first,
        process.tables(),
        &mut words,
        &buffer,
        commit,
    )?;
    let takes = |core: &Core, words: &mut _| {
        let pipe = core.pipes().entry(buffer.entry_pipe);
        let all = Addresses::Any;
        pipe.is_some_and(|pipe| {
            checker::check(words, core.states(), pipe, all, None, false).is_ok()
        })
    };
    if first.pipes().has(entry) && takes(first, &mut words) {
        commit::keep_spare(process, words);
        return Ok(first.clone());
    }
    let mut named = None;
    let mut found = None;
    for has_entry in [true, false] {
        let cores = process.device.cores();
        for core in cores.filter(|core| core.pipes().has(entry) == has_entry) {
            if found.is_none() && takes(&core, &mut words) {
                found = Some(core.clone());
            }
            if named.is_none() {
                named = Some(core);
            }
        }
    }
    commit::keep_spare(process, words);
    Ok(found.or(named).unwrap_or_else(|| first.clone()))
}

/// The core for jobs that follow a client's commands: that of the last COMMIT that named no
/// core, after a wait for the client's jobs on other cores, or else that of `selector`. Errors:
/// as [`Device::core`](super::Device::core); `Interrupted`.
#[inline]
fn core_after_commands(process: &Process, selector: CoreSelector) -> Result<Arc<Core>> {
    match process.unnamed_core.load(Relaxed) {
        0 => process.device.core(selector),
        place => last_core(process, selector, place - 1),
    }
}

#[cold]
#[inline(never)]
fn last_core(process: &Process, selector: CoreSelector, place: usize) -> Result<Arc<Core>> {
    let mut cores = process.device.cores();
    match cores.find(|core| core.index() == place) {
        Some(core) if selector.is_unnamed() => {
            waits::wait_for_cores(process, Some(place))?;
            Ok(core)
        }
        _ => process.device.core(selector),
    }
}

/// QUERY_VIDEO_MEMORY.
fn video_memory(process: &Process) -> Reply<'_> {
    Reply::VideoMemory {
        pool_bytes: usize_as_u64(process.device.memory.pool_bytes()),
    }
}

/// VERSION.
fn version(process: &Process) -> Reply<'_> {
    let version = &process.device.parameters.version;
    let [of_program, of_all] = version.of(process.command_name().bytes());
    Reply::Version {
        claim: of_program.or(of_all),
    }
}

/// QUERY_KERNEL_SETTINGS.
fn settings(process: &Process) -> Reply<'_> {
    Reply::KernelSettings {
        signal: process.device.parameters.signal,
    }
}

/// QUERY_CHIP_OPTION.
fn options(process: &Process, core: &Core) -> Reply<'static> {
    let identity = core.identity();
    Reply::ChipOptions {
        profiler: profile::has_profiler(process),
        fast_clear: identity.has_fast_clear(),
        compression: identity.has_compression(),
        power: process.device.parameters.power_management,
        shaders: identity.shader_core_count,
        neural_cores: identity.neural_cores,
        pool: process.device.memory.pool_bytes() != 0,
        l1_cache: identity.l1_cache_ratio(),
    }
}

/// DATABASE: the caller's own ledgers. `None` names the caller, too. In the C drivers it names
/// the process that ended last. `InvalidData`: another process.
fn database(process: &Process, of: Option<u32>) -> Result<Reply<'_>> {
    let own = process.id();
    if of.is_some_and(|of| i32::try_from(of).ok() != Some(own)) {
        return Err(Error::InvalidData);
    }
    let mut ledgers = KBox::new(ProcessLedgers::default(), crate::sys::GFP_CLIENT)?;
    let tables = process.tables();
    let video = &tables.video;
    *ledgers = ProcessLedgers {
        video: video.all,
        non_paged: tables.non_paged,
        contiguous: tables.contiguous,
        in_one_piece: video.in_one_piece,
        pool: video.system,
        contiguous_pages: video.contiguous,
        scattered: video.scattered,
        paged: video.paged,
    };
    drop(tables);
    Ok(Reply::Database(ledgers))
}
