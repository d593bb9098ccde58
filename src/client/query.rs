// SPDX-License-Identifier: GPL-2.0-only

//! What a client may ask of the device and of itself.

use super::{
    Core,
    Process, //
};
use crate::{
    abi::Reply,
    error::{
        Error,
        Result, //
    }, //
};
use kernel::prelude::*;

impl Process {
    /// QUERY_VIDEO_MEMORY.
    pub(super) fn query_video_memory(&self) -> Reply<'_> {
        Reply::VideoMemory {
            // CAST: at most 64 bits.
            pool_bytes: self.device.memory().pool_bytes() as u64,
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
            fast_clear: identity.has_fast_clear(),
            compression: identity.has_compression(),
            shaders: identity.shader_core_count,
            pool: self.device.memory().pool_bytes() != 0,
        }
    }

    /// DATABASE: the caller's own ledgers. `InvalidData`: another process's are its own business.
    pub(super) fn query_database(&self, process: u32) -> Result<Reply<'_>> {
        if i32::try_from(process).ok() != Some(self.leader.tgid_nr_ns(None)) {
            return Err(Error::InvalidData);
        }
        let ledgers = {
            let tables = self.tables();
            [tables.video, tables.non_paged, tables.contiguous]
        };
        Ok(Reply::Database(KBox::new(ledgers, GFP_KERNEL_ACCOUNT)?))
    }
}
