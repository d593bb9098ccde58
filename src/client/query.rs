// SPDX-License-Identifier: GPL-2.0-only

//! Queries of the device and of the calling process.

use super::{
    profile,
    Core,
    Process, //
};
use crate::abi::{
    ProcessLedgers,
    Reply, //
};
use crate::prelude::*;

/// QUERY_VIDEO_MEMORY.
pub(super) fn video_memory(process: &Process) -> Reply<'_> {
    Reply::VideoMemory {
        pool_bytes: usize_as_u64(process.device.memory.pool_bytes()),
    }
}

/// VERSION.
pub(super) fn version(process: &Process) -> Reply<'_> {
    let version = &process.device.parameters.version;
    let [of_program, of_all] = version.of(process.command_name().bytes());
    Reply::Version {
        claim: of_program.or(of_all),
    }
}

/// QUERY_KERNEL_SETTINGS.
pub(super) fn settings(process: &Process) -> Reply<'_> {
    Reply::KernelSettings {
        signal: process.device.parameters.signal,
    }
}

/// QUERY_CHIP_OPTION.
pub(super) fn options(process: &Process, core: &Core) -> Reply<'static> {
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
pub(super) fn database(process: &Process, of: Option<u32>) -> Result<Reply<'_>> {
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
