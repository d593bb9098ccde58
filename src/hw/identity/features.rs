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

/// Feature word 0: fast clear.
pub(super) const FEATURE_FAST_CLEAR: u32 = 1 << 0;
/// Feature word 0: 3D pipe.
const FEATURE_PIPE_3D: u32 = 1 << 2;
/// Feature word 0: depth and colour compression.
pub(super) const FEATURE_COMPRESSION: u32 = 1 << 5;
/// Feature word 0: 2D pipe.
pub(super) const FEATURE_PIPE_2D: u32 = 1 << 9;
/// Feature word 0: the resolve engine tiles YUV planes.
const FEATURE_YUV_TILER: u32 = 1 << 13;
/// Feature word 0: early Z.
pub(super) const FEATURE_EARLY_Z: u32 = 1 << 16;
/// Minor features 0: pixel engine 2.0 of the 2D pipe.
const MINOR0_PE20: u32 = 1 << 7;
/// Minor features 0: 2 bits of tile status per tile.
const MINOR0_2_BITS_PER_TILE: u32 = 1 << 10;
/// Minor features 0: surfaces of the 3D pipe in supertiles.
const MINOR0_SUPERTILED: u32 = 1 << 12;
/// Minor features 0: there are more words of minor features, and specs.
const MINOR0_MORE: u32 = 1 << 21;
/// Minor features 0: memory controller 2.0.
const MINOR0_MC20: u32 = 1 << 22;
/// Minor features 0: hierarchical Z.
pub(super) const MINOR0_HZ: u32 = 1 << 27;
/// Minor features 0: targets of the 2D pipe in A8.
const MINOR0_A8_TARGET: u32 = 1 << 29;
/// Minor features 1: an event needs no padding after it.
const MINOR1_NO_EVENT_PADDING: u32 = 1 << 3;
/// Minor features 1: linear textures.
pub(crate) const MINOR1_LINEAR_TEXTURE_SUPPORT: u32 = 1 << 22;
/// Minor features 1: twice the vertex elements and 12 varyings.
pub(crate) const MINOR1_HALTI0: u32 = 1 << 23;
/// Minor features 1: MMU version 2.
const MINOR1_MMU_V2: u32 = 1 << 28;
/// Minor features 2: 32 samplers, each with states of its own.
pub(crate) const MINOR2_HALTI1: u32 = 1 << 11;
/// Minor features 2: texture filters.
pub(crate) const MINOR2_TX_FILTER: u32 = 1 << 15;
/// Minor features 2: a 2D engine that reads several sources.
pub(crate) const MINOR2_2D_MULTI_SOURCE_BLIT: u32 = 1 << 21;
/// Minor features 2: bug fixes 7.
const MINOR2_BUG_FIXES7: u32 = 1 << 27;
/// Minor features 3: a 2D engine that reads more sources.
pub(crate) const MINOR3_2D_MULTI_SOURCE_BLT_EX: u32 = 1 << 2;
/// Minor features 3: shaders run from memory.
pub(crate) const MINOR3_INSTRUCTION_CACHE: u32 = 1 << 3;
/// Minor features 3: the second shader enhancements.
pub(crate) const MINOR3_SH_ENHANCEMENTS2: u32 = 1 << 21;
/// Minor features 3: a 2D engine that reads compressed sources.
pub(crate) const MINOR3_2D_FC_SOURCE: u32 = 1 << 23;
/// Minor features 6: tiles of 128 or 256 bytes.
const MINOR6_TILES_OF_128_BYTES: u32 = 1 << 14;
/// Minor features 4: ASTC textures.
pub(crate) const MINOR4_TEXTURE_ASTC: u32 = 1 << 13;
const MINOR4_SINGLE_BUFFER: u32 = 1 << 6;
/// Minor features 4: integers, instances and 16 vertex streams.
pub(crate) const MINOR4_HALTI2: u32 = 1 << 16;
/// Minor features 5: textures by descriptors, 32 vertex elements.
const MINOR5_HALTI5: u32 = 1 << 29;

impl Identity {
    /// Whether the words can come from a core, and not from an empty bus.
    pub(crate) fn is_plausible(&self) -> bool {
        self.model != 0 && self.model != u32::MAX && self.features != u32::MAX
    }

    /// Whether the 3D pipe exists.
    pub(crate) fn has_3d(&self) -> bool {
        self.features & FEATURE_PIPE_3D != 0
    }

    /// Whether the 2D pipe exists.
    pub(crate) fn has_2d(&self) -> bool {
        self.features & FEATURE_PIPE_2D != 0
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
        self.minor_features[3] & (1 << 26 | 1 << 8) != 0
    }

    /// Whether the 2D pipe has the new pixel engine (2.0).
    pub(crate) fn has_pe20(&self) -> bool {
        self.minor_features[0] & MINOR0_PE20 != 0
    }

    /// Whether `DE_ROT_ANGLE` rotates all draws of the 2D pipe. PE 2.0 before revision 0x4400
    /// rotates none, or not all.
    pub(crate) fn rotates_2d(&self) -> bool {
        self.has_pe20() && self.revision >= 0x4400
    }

    /// Whether targets of the 2D pipe may have the format A8.
    pub(crate) fn has_a8_target(&self) -> bool {
        self.minor_features[0] & MINOR0_A8_TARGET != 0
    }

    /// Whether the 3D pipe has surfaces in supertiles.
    pub(crate) fn has_supertiles(&self) -> bool {
        self.minor_features[0] & MINOR0_SUPERTILED != 0
    }

    /// Whether the memory controller is the new one (2.0).
    pub(crate) fn has_new_memory_controller(&self) -> bool {
        self.minor_features[0] & MINOR0_MC20 != 0
    }

    /// Whether the states of HALTI2 are known: for the GC3000 of the i.MX6QP, and for HALTI5.
    pub(crate) fn has_halti2(&self) -> bool {
        self.is(0x3000, 0x5450) || self.has_halti5()
    }

    /// Whether textures have descriptors in memory, and vertices 32 elements: most GC7000 and
    /// GC8000.
    pub(crate) fn has_halti5(&self) -> bool {
        self.later_minor_features[1] & MINOR5_HALTI5 != 0
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

    /// Whether the core's MMU is version 2.
    pub(crate) fn has_mmu_v2(&self) -> bool {
        self.minor_features[1] & MINOR1_MMU_V2 != 0
    }

    /// Whether all pixel pipes draw into one surface, which is resolved in place.
    pub(crate) fn has_single_buffer(&self) -> bool {
        self.later_minor_features[0] & MINOR4_SINGLE_BUFFER != 0
    }

    /// Whether the resolve engine has the YUV tiler.
    pub(crate) fn has_yuv_tiler(&self) -> bool {
        self.features & FEATURE_YUV_TILER != 0
    }

    /// Whether the status of a tile has 2 bits instead of 4.
    pub(crate) fn has_2_bits_per_tile(&self) -> bool {
        self.minor_features[0] & MINOR0_2_BITS_PER_TILE != 0 && !self.has_large_tiles()
    }

    /// Whether a tile of tile status has 128 or 256 bytes instead of 64.
    pub(crate) fn has_large_tiles(&self) -> bool {
        self.later_minor_features[2] & MINOR6_TILES_OF_128_BYTES != 0
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
        let able = self.features & FEATURE_FAST_CLEAR != 0;
        let wise = !(self.model == 0x500 && self.revision < 3);
        able && match choice {
            Choice::Auto => wise,
            Choice::Off => false,
            Choice::On => true,
        }
    }

    /// Whether compression is used. It needs fast clear.
    pub(crate) fn compression(&self, fast_clear: Choice, choice: Choice) -> bool {
        self.fast_clear(fast_clear)
            && self.features & FEATURE_COMPRESSION != 0
            && choice != Choice::Off
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

    /// Whether the features name fast clear.
    pub(crate) fn has_fast_clear(&self) -> bool {
        self.features & FEATURE_FAST_CLEAR != 0
    }

    /// Whether the features name compression.
    pub(crate) fn has_compression(&self) -> bool {
        self.features & FEATURE_COMPRESSION != 0
    }
}
