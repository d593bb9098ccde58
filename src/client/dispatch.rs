// SPDX-License-Identifier: GPL-2.0-only

//! The dispatcher: checks the caller of a request, then runs the request.

use super::{
    buffer,
    cache,
    commit,
    contexts,
    graphic_buffers,
    import,
    lock,
    names,
    node::{
        Locking,
        Unlocking, //
    },
    nodes,
    power,
    profile,
    query,
    refuse_caller,
    registers,
    restarts::{
        self,
        Limited, //
    },
    shared_buffers,
    shared_info,
    signals,
    submission,
    timer,
    unnamed,
    userptr,
    vector,
    window,
    PoolView,
    Process, //
};
use crate::{
    abi::{
        Commit,
        CoreSelector,
        Reply,
        Request,
        Text, //
    },
    hw::MmuVersion,
    prelude::*,
    ring::GPU_TIMEOUT,
    sys::{
        self,
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
            Request::QueryVideoMemory => Ok(query::video_memory(self)),
            Request::QueryChipIdentity => {
                let words = self.device.identity_words(selector)?;
                Ok(Reply::ChipIdentity(words, sys::program_bits()))
            }
            Request::QueryKernelSettings => Ok(query::settings(self)),
            Request::GetMmuVersion => {
                let version = core()?.hardware().mmu_version();
                Ok(Reply::MmuVersion(u32::from(version == MmuVersion::V2)))
            }
            Request::GetBaseAddress => Ok(Reply::BaseAddress(self.device.base_address())),
            Request::Version => Ok(query::version(self)),
            Request::ChipInfo => Ok(Reply::ChipInfo(self.device.kinds_in_order())),
            Request::ChipOptions => Ok(query::options(self, &*core()?)),
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
            } => registers::read(self, selector, address, off_reads_zero),
            Request::WriteRegister {
                address,
                data,
                off_reads_zero,
            } => registers::write(self, selector, address, data, off_reads_zero),
            Request::ReadRegisters { address, cores } => {
                registers::read_all(self, selector, address, cores)
            }
            Request::WriteRegisters {
                address,
                cores,
                data,
            } => registers::write_all(self, selector, address, cores, data).map(done),
            Request::Print => {
                registers::print(self, text());
                Ok(Reply::Nothing)
            }
            Request::DumpState => registers::dump_state(self, selector),
            Request::DumpJobs => registers::dump_jobs(self).map(done),
            Request::ReadShared(info) => shared_info::read(self, info).map(done),
            Request::WriteShared(info) => shared_info::write(self, info).map(done),
            Request::QueryFrequency => {
                let (core, shader) = self.device.any(selector)?.frequencies();
                Ok(Reply::Frequency { core, shader })
            }
            Request::QueryCpuFrequency => Ok(Reply::CpuFrequency),
            Request::SetPower { state, way } => power::set(self, selector, state, way).map(done),
            Request::ConfigPower { enable } => power::configure(self, selector, enable),
            Request::QueryPower => power::query(self, selector),
            Request::QueryTimer { timer } => timer::time_delta(self, timer),
            Request::QueryResets => Ok(Reply::Resets {
                count: self.resets_of(selector).into(),
            }),
            Request::Database { process } => query::database(self, process),
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
            Request::FinishUnlock { node, by_event } => lock::queue_unlock(
                self,
                &*unnamed::core_after_commands(self, selector)?,
                node,
                by_event,
            ),
            Request::FreeNode { node, if_unlocked } => {
                nodes::free(self, node, if_unlocked).map(done)
            }
            Request::NameNode { node } => names::name(self, node),
            Request::ImportNode { name } => names::import_named(self, name),
            Request::Wrap { what, in_lines } => import::wrap(self, what, in_lines),
            Request::ExportNode { node, flags } => {
                import::export_node(self, node, flags.map_or(Access::FULL, Access::of_flags))
            }
            Request::SetMetadata { node, metadata } => {
                graphic_buffers::set_metadata(self, node, metadata)
            }
            Request::ReadMetadata { node } => graphic_buffers::read_metadata(self, node),
            Request::KeepGraphicBuffer {
                nodes,
                piece,
                signal,
            } => graphic_buffers::keep(self, nodes, piece, signal),
            Request::SharedBuffer(command) => shared_buffers::run(self, command),
            // MAP_USER returns a GPU address, which a core for vector graphics cannot use.
            Request::MapUser { .. } if self.is_vector(selector) => Err(Error::NotSupported),
            Request::MapUser { user, bytes } => userptr::map(self, user, bytes),
            Request::MapPhysical { physical, bytes } => {
                userptr::map_physical(self, physical, bytes)
            }
            Request::UnmapUser(named) => userptr::unmap(self, named).map(done),
            Request::Cache(range) => cache::maintain(self, range).map(done),
            Request::UserSignal(command) => signals::run(self, command),
            Request::CreateFence { signal } => signals::create_fence(self, signal),
            Request::WaitFence { fd, milliseconds } => {
                let what = (WaitFor::Fence(fd), Limited::Fence(fd, milliseconds));
                let wait = |left| Ok(sys::fence::wait(fd, left, false)?);
                restarts::limited(self, what, milliseconds, || 0, wait).map(done)
            }
            Request::WaitNode { node } => import::wait_node(self, node),
            Request::Attach { newer } => contexts::attach(self, &*core()?, newer),
            Request::Detach {
                context,
                must_exist,
            } => {
                let existed = contexts::detach(self, context);
                if existed || !must_exist {
                    Ok(Reply::Nothing)
                } else {
                    Err(Error::InvalidObject)
                }
            }
            Request::Commit(commit) => {
                let committed = match commit.core {
                    Some(_) => commit::commit_parts(self, selector, commit),
                    None if selector.is_unnamed() && self.device.has_engines_apart() => {
                        unnamed::commit(self, selector, &commit)
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
            Request::EventCommit { queue, format } => {
                match unnamed::core_after_commands(self, selector) {
                    Ok(core) => commit::logged(
                        "EVENT_COMMIT",
                        submission::event_commit(self, &core, queue, format),
                    ),
                    Err(_) if format.vector_knows_events() && self.is_vector(selector) => {
                        Err(Error::NotSupported)
                    }
                    Err(error) => Err(error),
                }
            }
            Request::Stall { is_limited } => contexts::stall(
                self,
                &*unnamed::core_after_commands(self, selector)?,
                is_limited,
            )
            .map(done),
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
