// SPDX-License-Identifier: GPL-2.0-only

//! The features of a core, and what follows from them, its model and its revision.

use super::{
    Identity,
    Words, //
};
use crate::{
    abi::HardwareType,
    hw::regs::HI_CHIP_TIME,
    params::Choice, //
};

pub(super) const FEATURE_FAST_CLEAR: u32 = 1 << 0;
/// Feature word 0: depth and color compression.
pub(super) const FEATURE_COMPRESSION: u32 = 1 << 5;
pub(super) const FEATURE_PIPE_2D: u32 = 1 << 9;
pub(super) const FEATURE_NO_EARLY_Z: u32 = 1 << 16;
pub(super) const FEATURE_32_BIT_INDICES: u32 = 1 << 31;
const MINOR0_2_BITS_PER_TILE: u32 = 1 << 10;
/// Minor features 0: there are more words of minor features, and specs.
const MINOR0_MORE: u32 = 1 << 21;
/// Minor features 0: hierarchical Z.
pub(super) const MINOR0_HZ: u32 = 1 << 27;
const MINOR1_NO_EVENT_PADDING: u32 = 1 << 3;
/// Minor features 1: linear textures.
pub(crate) const MINOR1_LINEAR_TEXTURE_SUPPORT: u32 = 1 << 22;
/// Minor features 1: twice the vertex elements and 12 varyings.
pub(crate) const MINOR1_HALTI0: u32 = 1 << 23;
/// Minor features 2: 32 samplers, each with states of its own.
pub(crate) const MINOR2_HALTI1: u32 = 1 << 11;
/// Minor features 2: texture filters.
pub(crate) const MINOR2_TX_FILTER: u32 = 1 << 15;
/// Minor features 2: a 2D engine that reads several sources.
pub(crate) const MINOR2_2D_MULTI_SOURCE_BLIT: u32 = 1 << 21;
pub(super) const MINOR2_RECT_PRIMITIVE: u32 = 1 << 5;
const MINOR2_BUG_FIXES7: u32 = 1 << 27;
/// Minor features 3: a 2D engine that reads more sources.
pub(crate) const MINOR3_2D_MULTI_SOURCE_BLT_EX: u32 = 1 << 2;
/// Minor features 3: shaders run from memory.
pub(crate) const MINOR3_INSTRUCTION_CACHE: u32 = 1 << 3;
pub(super) const MINOR3_FAST_MSAA: u32 = 1 << 8;
/// Minor features 3: the second shader enhancements.
pub(crate) const MINOR3_SH_ENHANCEMENTS2: u32 = 1 << 21;
/// Minor features 3: a 2D engine that reads compressed sources.
pub(crate) const MINOR3_2D_FC_SOURCE: u32 = 1 << 23;
pub(super) const MINOR3_NEW_HZ: u32 = 1 << 26;
/// Minor features 4: ASTC textures.
pub(crate) const MINOR4_TEXTURE_ASTC: u32 = 1 << 13;
/// Minor features 4: integers, instances and 16 vertex streams.
pub(crate) const MINOR4_HALTI2: u32 = 1 << 16;

/// Methods of [`Identity`] for one bit of a word: the word and the bit's mask.
macro_rules! features {
    ($($(#[$meta:meta])* $name:ident: $word:ident $([$index:literal])?, $mask:expr;)*) => {
        impl Identity {
            $(
                $(#[$meta])*
                pub(crate) fn $name(&self) -> bool {
                    self.$word $([$index])? & ($mask) != 0
                }
            )*
        }
    };
}

features! {
    /// Whether the 3D pipe exists.
    has_3d: features, 1 << 2;
    /// Whether the 2D pipe exists.
    has_2d: features, FEATURE_PIPE_2D;
    /// Whether the features name fast clear.
    has_fast_clear: features, FEATURE_FAST_CLEAR;
    /// Whether the features name compression.
    has_compression: features, FEATURE_COMPRESSION;
    /// Whether the resolve engine has the YUV tiler.
    has_yuv_tiler: features, 1 << 13;
    /// Whether the 2D pipe has the new pixel engine (2.0).
    has_pe20: minor_features[0], 1 << 7;
    /// Whether the 3D pipe has surfaces in supertiles.
    has_supertiles: minor_features[0], 1 << 12;
    /// Whether the memory controller is the new one (2.0).
    has_new_memory_controller: minor_features[0], 1 << 22;
    /// Whether targets of the 2D pipe may have the format A8.
    has_a8_target: minor_features[0], 1 << 29;
    /// Whether the core's MMU is version 2.
    has_mmu_v2: minor_features[1], 1 << 28;
    /// Whether all pixel pipes draw into one surface, which is resolved in place.
    has_single_buffer: later_minor_features[0], 1 << 6;
    /// Whether a tile of tile status has 128 or 256 bytes instead of 64.
    has_large_tiles: later_minor_features[2], 1 << 14;
    /// Whether a tile of a kick in place has 256 bytes if the source's stride selects that.
    has_small_msaa: later_minor_features[0], 1 << 18;
    /// Whether textures have descriptors in memory, and vertices 32 elements: most GC7000 and
    /// GC8000.
    has_halti5: later_minor_features[1], 1 << 29;
}

impl Identity {
    /// Whether the words can come from a core, and not from an empty bus.
    pub(crate) fn is_plausible(&self) -> bool {
        self.model != 0 && self.model != u32::MAX && self.features != u32::MAX
    }

    /// Bits of `HI_IDLE_STATE` that are all set when the modules after the front end are idle. The
    /// front end itself loops. The first cores have 0 for modules that they do not have. Source:
    /// etnaviv, which names these models.
    pub(crate) fn idle_modules(&self) -> u32 {
        match self.model {
            0x300 | 0x600 => 0xFE,
            _ => 0x7FFF_FFFE,
        }
    }

    /// Whether an event from the pixel engine must be followed by padding.
    pub(crate) fn needs_event_padding(&self) -> bool {
        self.minor_features[1] & MINOR1_NO_EVENT_PADDING == 0
    }

    /// The maximum of outstanding requests, if the core's default is too high: for two revisions of
    /// GC320, except one design date.
    pub(crate) fn outstanding_limit(&self, words: &impl Words) -> Option<u32> {
        let limit = match (self.model, self.revision) {
            (0x320, 0x5007) => 16,
            (0x320, 0x5220) => 8,
            _ => return None,
        };
        (word!(words, HI_CHIP_TIME) != 0x0206_2400).then_some(limit)
    }

    /// Whether `PM_POWER_CONTROLS` and `PM_MODULE_CONTROLS` are at the usual offsets. The first
    /// GC300 have them elsewhere.
    pub(in crate::hw) fn has_power_registers(&self) -> bool {
        !(self.model == 0x300 && self.revision < 0x2000)
    }

    /// Whether it is older than the drivers that this driver usually follows. These set registers
    /// that the driver of its time, Dove's, does not set. Drivers of cores for vector graphics do
    /// not set them either, so these cores count as early, too. Source: sources.md, bring-up.
    pub(in crate::hw) fn is_early(&self) -> bool {
        self.revision < 0x4600
    }

    /// Whether `MC_DEBUG_MEMORY` has a switch that bypasses compression: with bug fixes 7, from
    /// GC4000 on, and, according to Dove's driver, on early cores.
    pub(in crate::hw) fn has_compression_bypass(&self) -> bool {
        self.has_fast_clear()
            && (self.minor_features[2] & MINOR2_BUG_FIXES7 != 0
                || self.model >= 0x4000
                || self.is_early())
    }

    /// Whether it has more than the first word of minor features, and the registers that came with
    /// them. Some GC7000 have these, but not the bit.
    pub(in crate::hw) fn has_more_registers(&self) -> bool {
        self.minor_features[0] & MINOR0_MORE != 0 || matches!(self.model, 0x7000..=0xFFFF)
    }

    /// Whether the second-level cache of hierarchical Z must be off.
    pub(crate) fn has_faulty_hz_cache(&self) -> bool {
        self.minor_features[3] & (MINOR3_NEW_HZ | MINOR3_FAST_MSAA) != 0
    }

    /// Whether `DE_ROT_ANGLE` rotates all draws of the 2D pipe. PE 2.0 before revision 0x4400
    /// rotates none, or not all.
    pub(crate) fn rotates_2d(&self) -> bool {
        self.has_pe20() && self.revision >= 0x4400
    }

    /// Whether the states of HALTI2 are known: for the GC3000 of the i.MX6QP, and for HALTI5.
    pub(crate) fn has_halti2(&self) -> bool {
        self.is(0x3000, 0x5450) || self.has_halti5()
    }

    /// `USC_CONTROL.L1_CACHE_RATIO`: the first level's part of the shaders' cache. It follows from
    /// sizes that no register has. Source: sources.md, contexts.
    pub(crate) fn l1_cache_ratio(&self) -> u32 {
        match (self.model, self.revision) {
            (0x7000, 0x6202) => 1,
            (0x7000, 0x6203 | 0x6204) => 2,
            _ => 0,
        }
    }

    /// Whether the known states were checked on this core, and not only derived from its features.
    pub(crate) fn is_known(&self) -> bool {
        matches!(
            (self.model, self.revision),
            (0x600, _)
                | (0x2000, 0x5108)
                | (0x880, 0x5106)
                | (0x320, 0x5007 | 0x5303)
                | (0x355, _)
                | (0x3000, 0x5450)
        )
    }

    /// Whether the status of a tile has 2 bits instead of 4.
    pub(crate) fn has_2_bits_per_tile(&self) -> bool {
        self.minor_features[0] & MINOR0_2_BITS_PER_TILE != 0 && !self.has_large_tiles()
    }

    /// A byte of tile status for tiles that are not cleared.
    pub(crate) fn plain_tiles(&self) -> u8 {
        if self.has_2_bits_per_tile() {
            0x55
        } else {
            0x11
        }
    }

    /// Whether fast clear is used, according to the parameter and the core.
    pub(crate) fn fast_clear(&self, choice: Choice) -> bool {
        let able = self.has_fast_clear();
        let wise = !(self.model == 0x500 && self.revision < 3);
        able && match choice {
            Choice::Auto => wise,
            Choice::Off => false,
            Choice::On => true,
        }
    }

    /// Whether compression is used. It needs fast clear.
    pub(crate) fn compression(&self, fast_clear: Choice, choice: Choice) -> bool {
        self.fast_clear(fast_clear) && self.has_compression() && choice != Choice::Off
    }

    /// The identity as clients see it: without what the parameters switch off.
    pub(crate) fn reported(mut self, fast_clear: Choice, compression: Choice) -> Self {
        if !self.fast_clear(fast_clear) {
            self.features &= !FEATURE_FAST_CLEAR;
        }
        if !self.compression(fast_clear, compression) {
            self.features &= !FEATURE_COMPRESSION;
        }
        self
    }

    /// The type of the core.
    pub(crate) fn hardware_type(&self) -> HardwareType {
        match self.model {
            0x350 | 0x355 => HardwareType::Vector,
            0x300 | 0x320 => HardwareType::TwoD,
            // GC520L and others.
            _ if self.has_2d() && !self.has_3d() => HardwareType::TwoD,
            _ if self.has_2d() => HardwareType::Both,
            _ if self.neural_cores > 0 => HardwareType::Neural,
            _ => HardwareType::ThreeD,
        }
    }
}
