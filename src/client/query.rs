// SPDX-License-Identifier: GPL-2.0-only

//! Queries of the device and of the calling process.

use super::{
    Core,
    Process, //
};
use crate::abi::{
    ProcessLedgers,
    Reply, //
};
use crate::prelude::*;

impl Process {
    /// QUERY_VIDEO_MEMORY.
    pub(super) fn query_video_memory(&self) -> Reply<'_> {
        Reply::VideoMemory {
            // CAST: at most 64 bits.
            pool_bytes: self.device.memory().pool_bytes() as u64,
        }
    }

    /// VERSION.
    pub(super) fn query_version(&self) -> Reply<'_> {
        let version = &self.device.parameters().version;
        let [of_program, of_all] = version.of(self.command_name().bytes());
        Reply::Version {
            claim: of_program.or(of_all),
        }
    }

    /// QUERY_KERNEL_SETTINGS.
    pub(super) fn query_settings(&self) -> Reply<'_> {
        Reply::KernelSettings {
            signal: self.device.parameters().signal,
        }
    }

    /// QUERY_CHIP_OPTION.
    pub(super) fn query_options(&self, core: &Core) -> Reply<'_> {
        let identity = core.identity();
        Reply::ChipOptions {
            profiler: self.has_profiler(),
            fast_clear: identity.has_fast_clear(),
            compression: identity.has_compression(),
            power: self.device.parameters().power_management,
            shaders: identity.shader_core_count,
            neural_cores: identity.neural_cores,
            pool: self.device.memory().pool_bytes() != 0,
            l1_cache: identity.l1_cache_ratio(),
        }
    }

    /// DATABASE: the caller's own ledgers. `None` names the caller, too. In the C drivers it names
    /// the process that ended last. `InvalidData`: another process.
    pub(super) fn query_database(&self, process: Option<u32>) -> Result<Reply<'_>> {
        let own = self.id();
        if process.is_some_and(|process| i32::try_from(process).ok() != Some(own)) {
            return Err(Error::InvalidData);
        }
        let mut ledgers = KBox::new(ProcessLedgers::default(), crate::sys::GFP_CLIENT)?;
        let tables = self.tables();
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
}
