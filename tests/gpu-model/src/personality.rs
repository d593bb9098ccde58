// SPDX-License-Identifier: GPL-2.0-only
//! The cores that the model supports: raw identity words, the properties derived from them, and the registers present.
//!
//! Sources: sources.md, bring-up: how drivers read the words, and the values that they must get.

use gpu_control::Board;

use crate::registers::*;

/// Permitted use of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes have an effect.
    ReadWrite,
    /// A write is a mistake.
    ReadOnly,
    /// The core does not have the register.
    Absent,
}

/// A core: its identity words as the registers show them.
#[derive(Clone, Debug)]
pub struct Personality {
    /// The board that has the core.
    pub board: Board,
    /// Common name of the core.
    pub core: &'static str,
    /// HI_CHIP_IDENTITY. The family is never 1, so drivers continue with model and revision.
    pub chip_identity: u32,
    /// HI_CHIP_MODEL.
    pub model: u32,
    /// HI_CHIP_REV.
    pub revision: u32,
    /// HI_CHIP_DATE (BCD).
    pub date: u32,
    /// HI_CHIP_TIME (BCD).
    pub time: u32,
    /// HI_CHIP_FEATURE.
    pub features: u32,
    /// HI_CHIP_MINOR_FEATURE_0 to _6.
    pub minor: [u32; 7],
    /// HI_CHIP_SPECS, _2, _3, _4.
    pub specs: [u32; 4],
    /// HI_CHIP_PRODUCT_ID, _CUSTOMER_ID, _ECO_ID.
    pub design: [u32; 3],
}

/// Packs HI_CHIP_SPECS. Fields that hold a logarithm take one.
const fn specs_1(
    streams: u32,
    registers_log2: u32,
    threads_log2: u32,
    vertex_cache: u32,
    shader_cores: u32,
    pixel_pipes: u32,
    vertex_output_log2: u32,
) -> u32 {
    streams
        | (registers_log2 << 4)
        | (threads_log2 << 8)
        | (vertex_cache << 12)
        | (shader_cores << 20)
        | (pixel_pipes << 25)
        | (vertex_output_log2 << 28)
}

impl Personality {
    /// The core of a board.
    pub fn of(board: Board) -> Self {
        match board {
            Board::Dove => Self {
                board,
                core: "GC600",
                chip_identity: 0,
                model: 0x600,
                revision: 0x19,
                date: 0x2009_0617,
                time: 0x1207_4600,
                features: 0x0008_7ecd,
                minor: [0x7, 0, 0, 0, 0, 0, 0],
                specs: [0; 4],
                design: [0; 3],
            },
            Board::Gc2000 => Self {
                board,
                core: "GC2000",
                chip_identity: 0,
                model: 0x2000,
                revision: 0x5108,
                date: 0x2012_0119,
                time: 0x0901_2700,
                features: 0xe029_6cad,
                minor: [0xc979_9eff, 0x2efb_f2d9, 0, 0, 0, 0, 0],
                // A 0 in the field instructionCount reads as 256, and drivers raise it to 512 for this core.
                specs: [specs_1(8, 6, 10, 16, 4, 2, 9), 168 << 16, 0, 0],
                design: [0; 3],
            },
            Board::Gc880 => Self {
                board,
                core: "GC880",
                chip_identity: 0,
                model: 0x880,
                revision: 0x5106,
                date: 0x2012_0617,
                time: 0x1511_0300,
                features: 0xe028_64ad,
                minor: [0xc1f9_9eff, 0xeefb_f2d9, 0x0210_0284, 0, 0, 0, 0],
                specs: [specs_1(8, 6, 8, 8, 1, 1, 9), 256 << 16, 0, 0],
                design: [0; 3],
            },
            Board::Gc320 => Self {
                board,
                core: "GC320",
                chip_identity: 0,
                model: 0x320,
                revision: 0x5007,
                date: 0x2012_0617,
                // Not 0x02062400, so drivers apply this core's limit on outstanding requests.
                time: 0x0206_2300,
                features: 0xe02c_7eca,
                minor: [0xc139_9eff, 0x020f_b2db, 0, 0, 0, 0, 0],
                specs: [specs_1(1, 6, 10, 16, 4, 1, 10), 0, 0, 0],
                design: [0; 3],
            },
            // Identity from etna_viv's gpus.json. Its minor features 2 are this core's second word.
            Board::Gc355 => Self::gc355(board, 0x1215, 0x0001_0104),
            Board::Gc355Qp => Self::gc355(board, 0x1216, 0x0101_0104),
            // Identity and feature words from the drm-shim of etnaviv in Mesa. This core identifies itself as a GC2000
            // with an odd revision. The streams field is too short for its 16 streams; they are in the fourth word.
            Board::Gc3000 => Self {
                board,
                core: "GC3000",
                chip_identity: 0,
                model: 0x2000,
                revision: 0xffff_5450,
                date: 0x2014_0117,
                time: 0x1205_1700,
                features: 0xe028_7cad,
                minor: [
                    0xc979_9efb,
                    0xfefb_fadb,
                    0xeb9d_4bbf,
                    0xedff_dced,
                    0x930d_2f47,
                    0x1000_0133,
                    0,
                ],
                specs: [
                    specs_1(0, 6, 10, 16, 4, 2, 10),
                    320 << 16,
                    16 << 4,
                    16 << 12,
                ],
                design: [0; 3],
            },
            // Identity and features from etna_viv's gpus.json. The specification words are those of the older GC320.
            Board::Gc320Qp => Self {
                board,
                core: "GC320",
                chip_identity: 0,
                model: 0x320,
                revision: 0x5303,
                date: 0x2014_0117,
                time: 0x1301_2500,
                features: 0xe02c_7eca,
                minor: [0xe939_9eff, 0xfe1f_b2db, 0xceff_0080, 0x1000_0005, 0, 0, 0],
                specs: [specs_1(1, 6, 10, 16, 4, 1, 10), 0, 0, 0],
                design: [0; 3],
            },
            // Identity, features and specification from Linux's etnaviv (etnaviv_hwdb.c), which has no dates.
            Board::Gc520l => Self {
                board,
                core: "GC520L",
                chip_identity: 0,
                model: 0x520,
                revision: 0x5341,
                date: 0,
                time: 0,
                features: 0xe02c_7eca,
                minor: [
                    0xe939_9eff,
                    0xfe1f_b2db,
                    0xcedf_0080,
                    0x1080_0005,
                    0x2000_0000,
                    0x0002_0880,
                    0,
                ],
                specs: [specs_1(1, 6, 8, 8, 1, 1, 9), 168 << 16, 0, 0],
                design: [0x5202, 0x204, 0],
            },
            // From the same source. No register has the number of neural engines, and the model has none.
            Board::Npu => Self {
                board,
                core: "GC8000",
                chip_identity: 0,
                model: 0x8000,
                revision: 0x8002,
                date: 0,
                time: 0,
                features: 0xe028_7cac,
                minor: [
                    0xc179_9eff,
                    0xfefb_fadb,
                    0xeb9d_6fbf,
                    0xedff_fced,
                    0xd30d_afc7,
                    0x7b5a_c333,
                    0xfc8e_e200,
                ],
                specs: [specs_1(8, 6, 8, 16, 1, 1, 10), 320 << 16, 16 << 4, 0],
                design: [0x0508_0009, 0x9f, 0x0600_0000],
            },
            // From the same source, with the customer from the vendor's list of cores. The streams fields are those of
            // the GC3000.
            Board::Gc7000ul => Self {
                board,
                core: "GC7000UL",
                chip_identity: 0,
                model: 0x7000,
                revision: 0x6204,
                date: 0,
                time: 0,
                features: 0xe028_7c8d,
                minor: [
                    0xc158_9eff,
                    0xfefb_fad9,
                    0xeb9d_4fbf,
                    0xedff_fced,
                    0xdb0d_afc7,
                    0x3b5a_c333,
                    0xfcce_6000,
                ],
                specs: [specs_1(0, 6, 9, 16, 2, 1, 10), 320 << 16, 16 << 4, 16 << 12],
                design: [0x7_0003, 0x11, 0],
            },
        }
    }

    fn gc355(board: Board, revision: u32, minor_1: u32) -> Self {
        Self {
            board,
            core: "GC355",
            chip_identity: 0,
            model: 0x355,
            revision,
            date: 0x2012_0617,
            time: 0x1002_1500,
            features: 0x1e2c_7cc8,
            minor: [0x0024_207f, minor_1, 0, 0, 0, 0, 0],
            specs: [0; 4],
            design: [0; 3],
        }
    }

    /// CHIP_FEATURE bit 26, PIPE_VG.
    pub fn has_vg(&self) -> bool {
        self.features & (1 << 26) != 0
    }

    /// HI_IDLE_STATE of the idle core.
    pub fn idle_bits(&self) -> u32 {
        match self.model {
            _ if self.has_vg() => IDLE_STATE_VG_ALL,
            // The CuBox shows 0xfe while the front end loops.
            0x600 => IDLE_STATE_FIRST_ALL,
            _ => IDLE_STATE_ALL,
        }
    }

    /// CHIP_FEATURE bit 2, PIPE_3D.
    pub fn has_3d(&self) -> bool {
        self.features & (1 << 2) != 0
    }

    /// CHIP_FEATURE bit 9, PIPE_2D.
    pub fn has_2d(&self) -> bool {
        self.features & (1 << 9) != 0
    }

    /// Minor feature 0 bit 7: the 2D pixel engine is version 2.0, otherwise 1.0.
    pub fn has_pe20(&self) -> bool {
        self.minor[0] & (1 << 7) != 0
    }

    /// Minor feature 0 bit 21: minor features 1 and up and the specification words exist. Some GC7000 have them without
    /// this bit.
    pub fn has_more_minor_features(&self) -> bool {
        self.minor[0] & (1 << 21) != 0 || self.model >= 0x7000
    }

    /// Minor feature 0 bit 22: memory controller 2.0, whose tile status addresses go through the memory base.
    pub fn has_mc20(&self) -> bool {
        self.minor[0] & (1 << 22) != 0
    }

    /// Minor feature 0 bit 10: the status of a tile has two bits, otherwise four.
    pub fn has_2_bits_per_tile(&self) -> bool {
        self.minor[0] & (1 << 10) != 0
    }

    /// Minor feature 4 bit 6: all pixel pipes draw into one surface, which is resolved in place.
    pub fn has_single_buffer(&self) -> bool {
        self.minor[4] & (1 << 6) != 0
    }

    /// Feature bit 13: the resolve engine has a YUV tiler.
    pub fn has_yuv_tiler(&self) -> bool {
        self.features & (1 << 13) != 0
    }

    /// Minor feature 1 bit 23: HALTI0, which has occlusion queries.
    pub fn has_halti0(&self) -> bool {
        self.minor[1] & (1 << 23) != 0
    }

    /// Minor feature 1 bit 3 clear: the core needs five delay words after an event from the pixel engine.
    pub fn needs_extra_event_states(&self) -> bool {
        self.minor[1] & (1 << 3) == 0
    }

    /// Minor feature 1 bit 28: MMU v2.
    pub fn has_mmu_v2(&self) -> bool {
        self.minor[1] & (1 << 28) != 0
    }

    /// MMU v2 is secure and has its own registers. No feature word indicates it.
    pub fn has_secure_mmu(&self) -> bool {
        matches!(self.board, Board::Npu | Board::Gc7000ul)
    }

    /// Minor feature 5 bit 29: HALTI5, whose draws use other states.
    pub fn has_halti5(&self) -> bool {
        self.minor[5] & (1 << 29) != 0
    }

    /// The register that enables MMU v2.
    pub fn mmu_control(&self) -> u32 {
        if self.has_secure_mmu() {
            MMUV2_SEC_CONTROL
        } else {
            MMUV2_CONTROL
        }
    }

    /// Number of pixel pipes: HI_CHIP_SPECS `[27:25]`, at least 1.
    pub fn pixel_pipes(&self) -> usize {
        (((self.specs[0] >> 25) & 7) as usize).max(1)
    }

    /// Whether the core is older than the cores known to the drivers of i.MX6. Dove's driver is as old as the core.
    fn is_early(&self) -> bool {
        self.revision < 0x4600
    }

    /// Minor feature 0 bit 27: hierarchical Z.
    fn has_hierarchical_z(&self) -> bool {
        self.minor[0] & (1 << 27) != 0
    }

    /// Permitted use of the register at this byte offset on this core.
    ///
    /// The GC600 on Dove answers unknown registers of the HI block with a bus error. So everything in that block that
    /// the Dove driver does not read counts as absent. Registers that newer drivers set at bring-up and the Dove driver
    /// does not are read-only.
    pub fn access(&self, offset: u32) -> Access {
        use Access::*;
        if self.has_vg() {
            return self.vg_access(offset);
        }
        let only_if = |present: bool, access: Access| if present { access } else { Absent };
        let newer = self.has_more_minor_features();
        match offset {
            HI_AXI_CONFIG | PM_PULSE_EATER | MC_BUS_CONFIG if self.is_early() => ReadOnly,
            // With hierarchical Z, the driver must make an exception in this register.
            PM_MODULE_CONTROLS if self.is_early() && !self.has_hierarchical_z() => ReadOnly,
            HI_CLOCK_CONTROL | HI_AXI_CONFIG | HI_INTR_ENBL | HI_MEMORY_COUNTER_RESET => ReadWrite,
            HI_IDLE_STATE | HI_AXI_STATUS | HI_INTR_ACKNOWLEDGE => ReadOnly,
            HI_CHIP_IDENTITY..=HI_CHIP_TIME | HI_CHIP_MINOR_FEATURE_0 => ReadOnly,
            HI_PROFILE_READ_BYTES8 | HI_PROFILE_WRITE_BYTES8 => ReadOnly,
            HI_PROFILE_WRITE_BURSTS..=HI_PROFILE_READ_LASTS => ReadOnly,
            HI_GP_OUT0..=HI_GP_OUT2 | HI_AXI_CONTROL => ReadWrite,
            HI_CHIP_CUSTOMER_ID | HI_CHIP_SPECS => only_if(newer, ReadOnly),
            HI_CACHE_CONTROL | HI_PROFILE_TOTAL_CYCLES => only_if(newer, ReadWrite),
            HI_CHIP_MINOR_FEATURE_1 | HI_PROFILE_IDLE_CYCLES => only_if(newer, ReadOnly),
            HI_CHIP_SPECS_2..=HI_COMPRESSION_FLAGS => only_if(newer, ReadOnly),
            HI_CHIP_MINOR_FEATURE_4 | HI_CHIP_SPECS_4 | HI_CHIP_MINOR_FEATURE_5 => {
                only_if(newer, ReadOnly)
            }
            HI_CHIP_PRODUCT_ID | HI_CHIP_MINOR_FEATURE_6 | HI_CHIP_ECO_ID => {
                only_if(newer, ReadOnly)
            }
            PM_POWER_CONTROLS | PM_MODULE_CONTROLS | PM_PULSE_EATER => ReadWrite,
            PM_MODULE_STATUS => ReadOnly,
            PM_LOAD_0 | PM_LOAD_1 => only_if(newer, ReadOnly),
            MMUV2_STATUS | MMUV2_CONTROL if self.has_secure_mmu() => ReadOnly,
            MMUV2_STATUS | MMUV2_CONTROL => only_if(self.has_mmu_v2(), ReadWrite),
            MMUV2_SEC_EXCEPTION_ADDR => only_if(self.has_secure_mmu(), ReadOnly),
            MMUV2_SEC_STATUS..=MMUV2_AHB_CONTROL => only_if(self.has_secure_mmu(), ReadWrite),
            MMUV2_SAFE_ADDRESS..=MMUV2_LAST => only_if(self.has_mmu_v2(), ReadOnly),
            MC_MMU_FE_PAGE_TABLE..=MC_MEMORY_FLUSH | MC_PROFILE_CYCLE_COUNTER => ReadWrite,
            MC_DEBUG_READ0..=MC_DEBUG_WRITE | MC_PROFILE_RA_READ..=MC_PROFILE_HI_READ => ReadOnly,
            MC_PROFILE_CONFIG0..=MC_PROFILE_CONFIG2 | MC_BUS_CONFIG => ReadWrite,
            START_COMPOSITION => only_if(self.has_2d() && self.has_pe20(), ReadWrite),
            MERGE_128_BYTES => only_if(self.minor[2] & (1 << 21) != 0, ReadWrite),
            FE_COMMAND_ADDRESS | FE_COMMAND_CONTROL => ReadWrite,
            FE_DMA_STATUS..=FE_DMA_HIGH => ReadOnly,
            _ => Absent,
        }
    }

    /// The registers of a VG core: those that its drivers use, and those that etnaviv reads before it ignores the core.
    fn vg_access(&self, offset: u32) -> Access {
        use Access::*;
        match offset {
            HI_CLOCK_CONTROL | HI_AXI_CONFIG | HI_INTR_ENBL | PM_MODULE_CONTROLS => ReadWrite,
            HI_IDLE_STATE | HI_AXI_STATUS | HI_INTR_ACKNOWLEDGE | VG_FETCH_CURRENT => ReadOnly,
            MC_MMU_FE_PAGE_TABLE..=MC_DEBUG_MEMORY => ReadWrite,
            VG_FETCH_ADDRESS | VG_FETCH_COUNT => ReadWrite,
            _ if self.identity_word(offset).is_some() => ReadOnly,
            _ => Absent,
        }
    }

    /// The constant in an identity, feature or specification register, if `offset` is one.
    pub fn identity_word(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            HI_CHIP_IDENTITY => self.chip_identity,
            HI_CHIP_FEATURE => self.features,
            HI_CHIP_MODEL => self.model,
            HI_CHIP_REV => self.revision,
            HI_CHIP_DATE => self.date,
            HI_CHIP_TIME => self.time,
            HI_CHIP_MINOR_FEATURE_0 => self.minor[0],
            HI_CHIP_MINOR_FEATURE_1 => self.minor[1],
            HI_CHIP_MINOR_FEATURE_2 => self.minor[2],
            HI_CHIP_MINOR_FEATURE_3 => self.minor[3],
            HI_CHIP_SPECS => self.specs[0],
            HI_CHIP_SPECS_2 => self.specs[1],
            HI_CHIP_SPECS_3 => self.specs[2],
            HI_CHIP_SPECS_4 => self.specs[3],
            HI_CHIP_MINOR_FEATURE_4 => self.minor[4],
            HI_CHIP_MINOR_FEATURE_5 => self.minor[5],
            HI_CHIP_MINOR_FEATURE_6 => self.minor[6],
            HI_CHIP_PRODUCT_ID => self.design[0],
            HI_CHIP_CUSTOMER_ID => self.design[1],
            HI_CHIP_ECO_ID => self.design[2],
            HI_COMPRESSION_FLAGS => 0,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver's decoding of HI_CHIP_SPECS: streams, registers, threads, cores, vertex cache, output buffer.
    fn decode(personality: &Personality) -> [u32; 6] {
        if !personality.has_more_minor_features() {
            return [1, 64, 256, 1, 8, 512];
        }
        let word = personality.specs[0];
        [
            word & 15,
            1 << ((word >> 4) & 15),
            1 << ((word >> 8) & 15),
            (word >> 20) & 31,
            (word >> 12) & 31,
            1 << (word >> 28),
        ]
    }

    #[test]
    fn specifications_decode_to_the_table() {
        let expected = [
            (Board::Dove, [1, 64, 256, 1, 8, 512], 1),
            (Board::Gc2000, [8, 64, 1024, 4, 16, 512], 2),
            (Board::Gc880, [8, 64, 256, 1, 8, 512], 1),
            (Board::Gc320, [1, 64, 1024, 4, 16, 1024], 1),
            (Board::Gc3000, [0, 64, 1024, 4, 16, 1024], 2),
            (Board::Gc320Qp, [1, 64, 1024, 4, 16, 1024], 1),
            (Board::Gc355, [0, 1, 1, 0, 0, 1], 1),
            (Board::Gc520l, [1, 64, 256, 1, 8, 512], 1),
            (Board::Npu, [8, 64, 256, 1, 16, 1024], 1),
            (Board::Gc7000ul, [0, 64, 512, 2, 16, 1024], 1),
        ];
        for (board, values, pipes) in expected {
            let personality = Personality::of(board);
            assert_eq!(decode(&personality), values, "{}", personality.core);
            assert_eq!(personality.pixel_pipes(), pipes, "{}", personality.core);
        }
    }

    #[test]
    fn engines_follow_the_feature_words() {
        let engines: Vec<_> = Board::ALL
            .iter()
            .map(|board| Personality::of(*board))
            .map(|p| {
                (
                    p.has_2d(),
                    p.has_3d(),
                    p.has_pe20(),
                    p.needs_extra_event_states(),
                    p.has_mmu_v2(),
                )
            })
            .collect();
        assert_eq!(
            engines,
            [
                (true, true, false, true, false),
                (false, true, true, false, false),
                (false, true, true, false, false),
                (true, false, true, false, false),
                (false, true, true, false, true),
                (true, false, true, false, true),
                (false, false, false, true, false),
                (false, false, false, true, false),
                (true, false, true, false, true),
                (false, true, true, false, true),
                (false, true, true, false, true),
            ]
        );
    }

    #[test]
    fn early_cores_keep_what_their_driver_never_sets() {
        let newer = Personality::of(Board::Gc2000);
        let dove = Personality::of(Board::Dove);
        for offset in [
            HI_AXI_CONFIG,
            PM_MODULE_CONTROLS,
            PM_PULSE_EATER,
            MC_BUS_CONFIG,
        ] {
            assert_eq!(newer.access(offset), Access::ReadWrite);
            assert_eq!(dove.access(offset), Access::ReadOnly);
        }
        for offset in [PM_POWER_CONTROLS, MC_DEBUG_MEMORY] {
            assert_eq!(dove.access(offset), Access::ReadWrite);
        }
    }

    #[test]
    fn dove_lacks_what_its_driver_never_touches() {
        let dove = Personality::of(Board::Dove);
        for offset in [
            HI_CHIP_PRODUCT_ID,
            HI_CHIP_ECO_ID,
            HI_CHIP_MINOR_FEATURE_1,
            HI_CHIP_SPECS,
            0x188,
            0x558,
        ] {
            assert_eq!(dove.access(offset), Access::Absent, "{offset:#x}");
        }
        let imx6q = Personality::of(Board::Gc2000);
        assert_eq!(imx6q.access(HI_CHIP_PRODUCT_ID), Access::ReadOnly);
        assert_eq!(imx6q.access(HI_CHIP_SPECS_2), Access::ReadOnly);
        assert_eq!(imx6q.access(0x188), Access::Absent);
        assert_eq!(imx6q.access(0x900), Access::Absent);
        let gc3000 = Personality::of(Board::Gc3000);
        assert_eq!(gc3000.access(MMUV2_CONTROL), Access::ReadWrite);
        assert_eq!(gc3000.access(MMUV2_CONFIGURATION), Access::ReadOnly);
    }

    #[test]
    fn every_identity_word_is_a_register() {
        let imx6q = Personality::of(Board::Gc2000);
        for offset in (0..REGISTER_FILE_BYTES).step_by(4) {
            if imx6q.identity_word(offset).is_some() {
                assert_eq!(imx6q.access(offset), Access::ReadOnly, "{offset:#x}");
            }
        }
    }
}
