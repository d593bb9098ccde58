// SPDX-License-Identifier: GPL-2.0-only

//! Bytes to requests for video memory: sizes, types of surfaces, and pools.

use super::*;
use core::cmp::Ordering;

/// `gceSURF_TYPE`: the first number that `gcvSURF_IMAGE` has shifted, and the end of the numbers
/// without `gcvSURF_IMAGE`.
const SURFACE_IMAGE: u32 = 8;
const OLD_SURFACE_TYPES: u32 = 11;

/// `gceSURF_TYPE`: the number of types in 4.0.0, whose banks in the pool are known; the type
/// without a bank of its own; the bits of a type.
const SURFACE_TYPES: u32 = 12;
const SURFACE_UNKNOWN: u32 = 0;
const SURFACE_MASK: u32 = 0xFF;

/// The granularity of dma-bufs, in bytes.
const DMA_BUF_UNIT: u32 = 4096;

impl Format {
    /// Converts `gceSURF_TYPE` to the numbers of 4.0.0; keeps flags.
    pub(super) fn surface_type(self, kind: u32) -> u32 {
        let types = self.0.quirks.surface_types.into();
        match kind {
            _ if types != 0 => match kind & SURFACE_MASK {
                kind if (SURFACE_TYPES..types).contains(&kind) => SURFACE_UNKNOWN,
                kind => kind,
            },
            _ if self.0.quirks.image_surfaces => kind,
            SURFACE_IMAGE..OLD_SURFACE_TYPES => kind + 1,
            OLD_SURFACE_TYPES => u32::MAX,
            _ => kind,
        }
    }

    /// Converts `gcePOOL` to the numbers of 4.0.0.
    pub(super) fn pool(self, pool: u32) -> u32 {
        let quirks = self.0.quirks;
        let pool = match pool.cmp(&quirks.sram_pool) {
            Ordering::Less => pool,
            Ordering::Equal => return POOL_UNKNOWN,
            Ordering::Greater => pool - 1,
        };
        match pool {
            _ if pool >= quirks.pools => POOL_UNKNOWN,
            POOL_CMDBUF => POOL_DEFAULT_FORCE_CONTIGUOUS,
            pool => pool,
        }
    }

    pub(super) fn allocate_linear(self, u: &[u32]) -> Request {
        let asked = self.asked_pool(u);
        asked.map_or_else(Request::Refused, |pool| self.allocate_in(u, pool))
    }

    /// The pool that ALLOCATE_LINEAR_VIDEO_MEMORY requests. If flags are mandatory, the pool must
    /// satisfy them. Errors are those of the vendor's driver.
    fn asked_pool(self, u: &[u32]) -> Result<u32> {
        let fields = &self.0.allocate_linear;
        let flags = &self.0.quirks.flags;
        let flag = fields.flag.word(u);
        let is = |bits| flag & bits != 0;
        let pool = self.pool(fields.pool.word(u));
        if !self.0.quirks.strict_memory {
            return if is(flags.secure) {
                Err(Error::NotSupported)
            } else {
                Ok(pool)
            };
        }
        // CAST: the bits of a signed field.
        let is_paged = is(flags.paged) || fields.index.word(u) as i32 > 0;
        match pool {
            _ if is(flags.unseen) => Err(Error::OutOfMemory),
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED | POOL_VIRTUAL if is(!flags.known) => {
                Err(Error::NotSupported)
            }
            _ if is(!flags.known) => Err(Error::OutOfMemory),
            _ if is(flags.on_fault) => Ok(POOL_VIRTUAL),
            POOL_SYSTEM if is_paged => Err(Error::OutOfMemory),
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is_paged => Ok(POOL_VIRTUAL),
            pool => Ok(pool),
        }
    }

    fn allocate_in(self, u: &[u32], pool: u32) -> Request {
        let fields = &self.0.allocate_linear;
        let flags = &self.0.quirks.flags;
        let flag = fields.flag.word(u);
        let is = |bits| flag & bits != 0;
        let mut alignment = fields.alignment.word(u);
        let mut bytes = u32::try_from(fields.size.long(u)).ok();
        if is(flags.exportable) && self.0.quirks.strict_memory {
            alignment = DMA_BUF_UNIT;
            bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(DMA_BUF_UNIT));
        }
        let Some(bytes) = bytes else {
            return Request::Refused(Error::OutOfMemory);
        };
        let pool = match pool {
            // The pool has no cached mappings.
            POOL_SYSTEM if is(flags.cacheable) => POOL_UNKNOWN,
            // The generation has no number for CONTIGUOUS.
            POOL_VIRTUAL if is(flags.contiguous) && self.has_no_contiguous_pool() => {
                POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.contiguous | flags.cacheable) => {
                default_pool(is(flags.contiguous), is(flags.cacheable))
            }
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.scattered) => POOL_VIRTUAL,
            POOL_DEFAULT | POOL_LOCAL | POOL_UNIFIED if is(flags.fast) => POOL_SYSTEM,
            pool => pool,
        };
        Request::AllocateLinear {
            bytes,
            alignment,
            kind: self.surface_type(fields.kind.word(u)),
            pool,
        }
    }

    /// Whether the generation has no pool CONTIGUOUS.
    fn has_no_contiguous_pool(self) -> bool {
        self.0.quirks.pools <= POOL_CONTIGUOUS
    }

    pub(super) fn allocate_surface(self, u: &[u32]) -> Request {
        if !self.0.quirks.allocates_surfaces {
            return Request::Refused(Error::NotSupported);
        }
        let fields = &self.0.allocate_surface;
        Request::AllocateSurface(Surface {
            width: fields.width.word(u),
            height: fields.height.word(u),
            depth: fields.depth.word(u),
            format: fields.format.word(u),
            kind: self.surface_type(fields.kind.word(u)),
            pool: self.pool(fields.pool.word(u)),
        })
    }
}
