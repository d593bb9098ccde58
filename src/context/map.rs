// SPDX-License-Identifier: GPL-2.0-only

//! The states that a context object keeps, and their places in its command stream.
//!
//! Pure logic over a core's identity. The stream has the vendor's layout. Its highest state is part
//! of the interface, because clients size their arrays by it, and silicon was tested with its
//! order:
//!
//! 1. Flush the 2D cache, stall, select the 3D pipe. An entry from the 3D pipe skips this.
//! 2. Flush the 3D caches, stall.
//! 3. `LOAD_STATE`s of all states: [`FRONT`], then [`BACK`].
//! 4. Semaphore and stall, and the slot of a LINK to the client's commands.
//! 5. An entry from the 2D pipe that needs only [`BACK`]. No generation uses it.
//!
//! Names are those of the register database (rnndb). Source: sources.md, contexts.

use super::loads::Loads;
use crate::{
    hw::{
        identity,
        Identity, //
    },
    prelude::*,
    stream::{
        decode::FIXP,
        states::{
            takes_address,
            Sets,
            States, //
        },
        tiler,
        words::{
            self,
            flush,
            state,
            Pipe, //
        }, //
    }, //
};
use core::ops::Range;

/// The value of padding words.
const PADDING: u32 = 0xDEAD_DEAD;

/// Byte offset of the entry for a core whose 3D pipe is selected.
pub(crate) const ENTRY_FROM_3D: usize = 32;

/// The most uniforms that have states: an address has 16 bits.
const MOST_CONSTANTS: u32 = (0x1_0000 - state::word(0x30000)) / 4;

/// A condition of a row, on the core or the kind of its contexts.
#[derive(Clone, Copy)]
enum Need {
    /// Contexts of HALTI5, as in the vendor's driver 6.4.11.
    Halti5,
    /// All other contexts.
    Older,
    /// The contexts among [`Need::Older`] of the drivers from 5.0.11 on.
    Newer,
    OnePipe,
    SeveralPipes,
    /// At most 256 instructions: each kind of shader has its own memory for them.
    OwnInstructions,
    /// More than 256 instructions: all shaders share the memory.
    CommonInstructions,
    /// 257 to 1024 instructions.
    SharedInstructions,
    LargeInstructions,
    /// More than 256 uniforms: all shaders share them.
    CommonUniforms,
    /// Exactly as many uniforms as each kind of shader has states for.
    AllUniforms,
    Halti0,
    Halti1,
    Halti2,
    /// Linear textures, without HALTI1.
    LinearTextures,
    TextureFilter,
    TextureAstc,
    InstructionCache,
    ShaderEnhancements2,
}

/// A number that can depend on the core.
#[derive(Clone, Copy)]
enum Count {
    Of(u32),
    Elements,
    Instructions,
    VertexUniforms,
    PixelUniforms,
    Uniforms,
    Varyings,
    PixelPipes,
    Samplers,
}

/// Blocks of consecutive states. If several rows have a state, the first one places it.
struct Row {
    /// Byte address of the first state.
    byte: u32,
    /// States of a block. 0: the next row begins a new `LOAD_STATE`.
    count: Count,
    blocks: Count,
    /// Bytes from one block to the next.
    stride: u32,
    /// The value after a reset.
    reset: u32,
    needs: &'static [Need],
    /// The name of the first state.
    #[cfg(CONFIG_KUNIT)]
    name: &'static str,
}

/// A table of rows: address and name of the first state, counts, value after a reset (0), needs.
macro_rules! rows {
    (@count) => { Count::Of(1) };
    (@count $count:literal) => { Count::Of($count) };
    (@count $count:ident) => { Count::$count };
    ($(#[$doc:meta])* $table:ident { $(
        $byte:literal $name:ident
            $([$count:tt $(times $blocks:tt every $stride:literal)?])?
            $(= $reset:literal)? $(if $($need:ident)&+)?;
    )* }) => {
        $(#[$doc])*
        const $table: &[Row] = &[$(Row {
            byte: $byte,
            count: rows!(@count $($count)?),
            blocks: rows!(@count $($($blocks)?)?),
            stride: 0 $($(+ $stride)?)?,
            reset: 0 $(+ $reset)?,
            needs: &[$($(Need::$need),+)?],
            #[cfg(CONFIG_KUNIT)]
            name: stringify!($name),
        }),*];
    };
}

rows! {
    /// The states before the pixel engine.
    FRONT {
        0x03814 GL_VERTEX_ELEMENT_CONFIG = 1;
        0x03818 GL_MULTI_SAMPLE_CONFIG[2];
        0x03820 GL_VARYING_NUM_COMPONENTS if Older;
        0x03828 GL_VARYING_COMPONENT_USE[2] if Older;
        0x03834 GL_VARYING_NUM_COMPONENTS2[2] if Older;
        0x03888 GL_HALTI5_SH_SPECIALS if Halti5;
        0x038C0 GL_HALTI5_SHADER_ATTRIBUTES[16] if Halti5;
        0x03884 GL_USC_CONTROL = 0x0002_0000 if Halti5;
        0x0384C GL_API_MODE;
        0x00600 FE_VERTEX_ELEMENT_CONFIG[Elements] if Older;
        0x17800 NFE_GENERIC_ATTRIB_CONFIG0[32] if Halti5;
        0x007C4 FE_HALTI5_ID_CONFIG if Halti5;
        0x007D0 FE_HALTI5_UNK007D0[3] if Halti5;
        0x17A80 NFE_GENERIC_ATTRIB_CONFIG1[32] if Halti5;
        0x17880 NFE_GENERIC_ATTRIB_UNK17880[96] if Halti5;
        0x17A00 NFE_GENERIC_ATTRIB_SCALE[32] = 0x3F80_0000 if Halti5;
        0x14600 NFE_VERTEX_STREAMS_BASE_ADDR[48] if Halti5;
        0x00644 FE_INDEX_STREAM_BASE_ADDR[2];
        0x0064C FE_VERTEX_STREAM_BASE_ADDR[2] if Older;
        0x00680 FE_VERTEX_STREAMS_BASE_ADDR[16] if Older;
        0x00670 FE_AUTO_FLUSH if Older;
        0x00674 FE_PRIMITIVE_RESTART_INDEX if Halti5;
        0x00678 FE_UNK00678;
        0x0067C FE_UNK0067C = 0xFFFF_FFFF;
        0x146C0 NFE_VERTEX_STREAMS_ROBUSTNESS[16] if Halti5;
        0x007F8 FE_INDEX_STREAM_ROBUSTNESS if Halti5;
        0x006C0 FE_GENERIC_ATTRIB_UNK006C0[48] if Older;
        0x00780 FE_GENERIC_ATTRIB_SCALE[16] = 0x3F80_0000 if Older;

        0x00800 VS_END_PC[13] if Older;
        0x00838 VS_START_PC if Older;
        0x04000 VS_INST_MEM[1024] if Older & OwnInstructions;
        0x05000 VS_UNIFORMS[VertexUniforms] if Older;
        0x008B8 VS_HALTI5_UNK008B8 = 0x330 if Halti5;
        0x15600 SH_CONFIG if Halti5;
        0x00868 SH_ICACHE_CONTROL[2] if Halti5;
        0x0304C CO_ICACHE_UNK0304C if Halti5;
        0x01028 PS_INST_ADDR if Halti5;
        0x15604 VS_ICACHE_COUNT if Halti5;
        0x01094 PS_ICACHE_COUNT if Halti5;
        0x00804 VS_OUTPUT_COUNT if Halti5;
        0x00808 VS_INPUT_COUNT = 1 if Halti5;
        0x0080C VS_TEMP_REGISTER_CONTROL if Halti5;
        0x00830 VS_LOAD_BALANCING if Halti5;
        0x00898 VS_HALTI5_UNK00898[3] if Halti5;
        0x00870 VS_HALTI5_OUTPUT_COUNT if Halti5;
        0x008A8 VS_SAMPLER_BASE if Halti5;
        0x008C0 VS_HALTI5_INPUT[16] if Halti5;

        0x00A00 PA_VIEWPORT_SCALE_X[7];
        0x00A1C PA_POINT_SIZE if Older;
        0x00A1C PA_POINT_SIZE = 0x3F00_0000 if Halti5;
        0x00A28 PA_SYSTEM_MODE[3];
        0x00A40 PA_SHADER_ATTRIBUTES[10] if Older;
        0x00A34 PA_CONFIG[3];
        0x00A80 PA_VIEWPORT_UNK00A80[2];
        0x00A8C PA_ZFARCLIPPING;
        0x00A88 PA_FLAGS if Halti5;
        0x00AA8 PA_VS_OUTPUT_COUNT if Halti5;
        0x00A90 PA_VARYING_NUM_COMPONENTS[4] if Halti5;
        0x03A00 GL_UNK03A00[3] if Halti5;

        0x00C00 SE_SCISSOR_LEFT[2];
        0x00C08 SE_SCISSOR_RIGHT[2] = 0x4500_0000;
        0x00C10 SE_DEPTH_SCALE[3];
        0x00C1C SE_UNK00C1C = 0x4200_0000;
        0x00C20 SE_CLIP_RIGHT[2];

        0x00E00 RA_CONTROL = 0x01 if Older;
        0x00E00 RA_CONTROL = 0xF1 if Halti5;
        0x00E10 RA_MULTISAMPLE_UNK00E10[4];
        0x00E04 RA_MULTISAMPLE_UNK00E04;
        0x00E40 RA_CENTROID_TABLE[16];
        0x00E08 RA_EARLY_DEPTH = 0x31 if Older;
        0x00E08 RA_EARLY_DEPTH = 0x1700_0035 if Halti5;
        0x00E24 RA_UNK00E24 if Halti5;
        0x00E20 RA_HDEPTH_CONTROL if Halti5;
        0x00E0C RA_UNK00E0C if Halti5;
        0x00E34 RA_HALTI5_UNK00E34 if Halti5;

        0x01000 PS_END_PC if Older;
        0x01004 PS_OUTPUT_REG[4];
        0x01018 PS_START_PC = 0x0100_0000 if Older;
        0x06000 PS_INST_MEM[1024] if Older & OwnInstructions;
        0x07000 PS_UNIFORMS[PixelUniforms] if Older;
        0x01030 PS_CONTROL_EXT[2] if Halti5;
        0x01040 PS_UNK01040[2] if Halti5;
        0x0102C PS_OUTPUT_REG2 if Halti5;
        0x01038 PS_UNK01038 if Halti5;
        0x01054 PS_MSAA_CONFIG if Halti5;
        0x01060 PS_ALPHA_TO_COVERAGE_DITHER[8] if Halti5;
        0x01080 PS_VARYING_NUM_COMPONENTS[4] if Halti5;
        0x01058 PS_SAMPLER_BASE if Halti5;
        0x01098 PS_HALTI5_UNK01098 if Halti5;

        0x02000 TE_SAMPLER_CONFIG0[12 times 7 every 0x40] if Older;
        0x021C0 TE_SAMPLER_CONFIG1[12] = 0x0032_1000 if Older;
        0x02200 TE_SAMPLER_UNK02200[12 times 2 every 0x40] if Older;
        0x02400 TE_SAMPLER_LOD_ADDR[12 times 14 every 0x40] if Older;
        0x10000 NTE_SAMPLER_CONFIG0[192] if Older & Halti1;
        0x02C00 TE_SAMPLER_LINEAR_STRIDE[256] if Older & Halti1;
        0x10300 NTE_SAMPLER_3D_CONFIG[32] if Older & Halti1;
        0x10380 NTE_SAMPLER_CONFIG1[32] = 0x0032_1000 if Older & Halti1;
        0x10400 NTE_SAMPLER_UNK10400[64] if Older & Halti1;
        0x12000 NTE_UNK12000[512] if Older & Halti1 & TextureFilter;
        0x10800 NTE_SAMPLER_ADDR_LOD[14 times Samplers every 0x40] if Older & Halti1;
        0x01678 YUV_CONFIG[10] if Older;
        0x14C40 NTE_DESCRIPTOR_CONTROL = 1 if Halti5;
        0x16C00 NTE_DESCRIPTOR_SAMP_CTRL0[32 times 5 every 0x200] if Halti5;
        0x15C00 NTE_DESCRIPTOR_ADDR[32 times 2 every 0x200] if Halti5;
        0x14C00 NTE_HALTI3_UNK14C00[16] if Halti5;

        0x00900 CL_CONFIG[7];
        0x0091C CL_THREAD_ALLOCATION if Older;
        0x00924 CL_UNK00924;
        0x0091C CL_THREAD_ALLOCATION if Halti5;
        0x00940 CL_WORKGROUP_COUNT_X[9] if Halti5;

        0x0085C VS_RANGE if Older & CommonInstructions;
        0x0101C PS_RANGE = 0x100 if Older & CommonInstructions;
        0x00860 SH_CONTROL if Older & LargeInstructions;
        0x0C000 SH_INST_MEM[Instructions] if Older & SharedInstructions;
        0x20000 SH_UNK20000[Instructions] if Older & LargeInstructions;
        0x00874 VS_NEWRANGE_LOW if Halti5;
        0x008BC VS_HALTI5_RANGE_HIGH if Halti5;
        0x0087C PS_NEWRANGE_LOW if Halti5;
        0x01090 PS_HALTI5_RANGE_HIGH if Halti5;
        0x01024 PS_UNIFORM_BASE = 0x100 if Halti5;
        0x00864 VS_UNIFORM_BASE if Halti5;
        0x00884 VS_HALTI1_UNK00884 if Halti5;
        0x008B0 VS_ICACHE_INVALIDATE if Halti5;
        0x36000 SH_HALTI5_UNIFORMS[Uniforms] if Halti5;

        0x00674 FE_PRIMITIVE_RESTART_INDEX if Newer;
        0x00A88 PA_FLAGS if Newer;
        0x00E20 RA_HDEPTH_CONTROL[2] if Newer;
        0x01030 PS_CONTROL_EXT if Newer;
        0x03850 GL_CONTEXT_POINTER[2] if Newer;
        0x03A00 GL_UNK03A00[3] if Newer;
        0x00860 SH_CONTROL if Newer;
        0x00A40 PA_SHADER_ATTRIBUTES[Varyings] if Newer;
        0x00884 VS_HALTI1_UNK00884 if Newer & Halti1;
        0x02C00 TE_SAMPLER_LINEAR_STRIDE[1 times 12 every 0x40] if Newer & LinearTextures;
        0x01024 PS_UNIFORM_BASE = 0x100 if Newer & CommonUniforms;
        0x00864 VS_UNIFORM_BASE if Newer & CommonUniforms;
        0x30000 SH_UNIFORMS[Uniforms] if Newer & CommonUniforms;
        0x05000 VS_UNIFORMS[1024] if Newer & AllUniforms;
        0x07000 PS_UNIFORMS[1024] if Newer & AllUniforms;
        0x00868 SH_ICACHE_CONTROL[2] if Newer & InstructionCache;
        0x0304C CO_ICACHE_UNK0304C if Newer & InstructionCache;
        0x01028 PS_INST_ADDR if Newer & InstructionCache;
        0x00874 VS_NEWRANGE_LOW[4] if Newer & InstructionCache;
        0x00940 CL_WORKGROUP_COUNT_X[6] if Newer & ShaderEnhancements2;
        0x10500 NTE_SAMPLER_ASTC0[128] if Newer & TextureAstc;
        0x01460 PE_PIPE_COLOR_ADDR if Newer & OnePipe;
        0x01480 PE_PIPE_DEPTH_ADDR if Newer & OnePipe & Halti0;
        0x01500 PE_RT_ADDR_4_PIPE[1 times 2 every 0x20] if Newer & OnePipe;
        0x01540 PE_RT_ADDR_4_PIPE[PixelPipes] if Newer;
        0x14600 NFE_VERTEX_STREAMS_BASE_ADDR[48] if Newer & Halti2;
        0x00E0C RA_UNK00E0C if Newer & Halti2;
        0x0102C PS_OUTPUT_REG2 if Newer & Halti2;
        0x01034 PS_UNK01034[2] if Newer & Halti2;
        0x01040 PS_UNK01040[2] if Newer & Halti2;
        0x10700 NTE_SAMPLER_BASELOD[32] = 0xF00 if Newer & Halti2;
        0x01780 TS_SAMPLER_CLEAR_VALUE2[8] if Newer & Halti2;
        0x016BC TS_COLOR_CLEAR_VALUE_EXT if Newer & Halti2;
        0x017A4 TS_RT_CONFIG[7 times 3 every 0x20] if Newer & Halti2;
        0x01A04 TS_RT_CLEAR_VALUE[7 times 3 every 0x20] if Newer & Halti2;
        0x14900 PE_RT_CONFIG_8[7] if Newer & Halti2;
        0x14800 PE_RT_ADDR_8_PIPE[PixelPipes times 7 every 0x20] if Newer & Halti2;
    }
}

rows! {
    /// The pixel engine, resolve and tile status. With HALTI5, the resolve engine's are those of
    /// 5.0.11: later drivers leave them to the client.
    BACK {
        0x01400 PE_DEPTH_CONFIG[4];
        0x01414 PE_DEPTH_STRIDE[7];
        0x01434 PE_COLOR_STRIDE;
        0x01454 PE_HDEPTH_CONTROL[2];
        0x0145C PE_UNK0145C = 0x10 if Older;
        0x014A0 PE_STENCIL_CONFIG_EXT;
        0x014A8 PE_DITHER[2] = 0xFFFF_FFFF;
        0x014B0 PE_ALPHA_COLOR_EXT0[2];
        0x014A4 PE_LOGIC_OP = 0x000E_400C;
        0x01580 PE_RT_CONFIG_4[3];
        0x014B8 PE_STENCIL_CONFIG_EXT2;
        0x03008 CO_UNK03008 if Older;
        0x0103C PS_HALTI3_UNK0103C = 0x7654_3210 if Halti5;
        0x01460 PE_PIPE_COLOR_ADDR[PixelPipes] if Halti5;
        0x01430 PE_COLOR_ADDR if OnePipe;
        0x01410 PE_DEPTH_ADDR if OnePipe;
        0x016C0 RS_PIPE_SOURCE_ADDR[PixelPipes times 3 every 0x20] if Halti5 & SeveralPipes;
        0x01480 PE_PIPE_DEPTH_ADDR[PixelPipes] if Halti5;
        0x01500 PE_RT_ADDR_4_PIPE[PixelPipes times 3 every 0x20] if Halti5;
        0x14800 PE_RT_ADDR_8_PIPE[PixelPipes times 7 every 0x20] if Halti5;
        0x14900 PE_RT_CONFIG_8[7] if Halti5;
        0x014BC PE_MEM_CONFIG[2] if Halti5;
        0x14920 PE_HALTI5_RT_COLORMASK[7 times 5 every 0x20] if Halti5;
        0x149C0 PE_RT_ROBUSTNESS[8] if Halti5;
        0x014C4 PE_DEPTH_ROBUSTNESS if Halti5;
        0x01460 PE_PIPE_COLOR_ADDR[PixelPipes times 2 every 0x20] if Older & SeveralPipes;
        0x01500 PE_RT_ADDR_4_PIPE[PixelPipes times 2 every 0x20] if Older & SeveralPipes;

        0x01604 RS_CONFIG[5];
        0x01620 RS_WINDOW_SIZE;
        0x01630 RS_DITHER[2];
        0x01640 RS_FILL_VALUE[4] if Older;
        0x0163C RS_CLEAR_CONTROL;
        0x01640 RS_FILL_VALUE[4] if Halti5;
        0x016A0 RS_EXTRA_CONFIG;
        0x016B4 RS_UNK016B4;
        0x016C0 RS_PIPE_SOURCE_ADDR[PixelPipes times 3 every 0x20] if Older & SeveralPipes;

        0x01654 TS_MEM_CONFIG = 0x0020_0000;
        0x01658 TS_COLOR_STATUS_BASE[0] if Older;
        0x01658 TS_COLOR_STATUS_BASE[8];
        0x016A4 TS_HDEPTH_STATUS_BASE;
        0x016AC TS_HDEPTH_SIZE;
        0x016A8 TS_HDEPTH_CLEAR_VALUE;
        0x01720 TS_SAMPLER_CONFIG[24];
        0x01780 TS_SAMPLER_CLEAR_VALUE2[8] if Halti5;
        0x016BC TS_COLOR_CLEAR_VALUE_EXT if Halti5;
        0x017A4 TS_RT_CONFIG[7 times 3 every 0x20] if Halti5;
        0x01A04 TS_RT_CLEAR_VALUE[7 times 3 every 0x20] if Halti5;
        0x03860 GL_BUG_FIXES = 6 if Halti5;
        0x01A80 TS_SAMPLER_SURFACE_BASE[8] if Halti5;
    }
}

rows! {
    /// Second addresses of states. The value is the first address.
    MIRRORS {
        0x08000 SH_INST_MEM_MIRROR[Instructions] = 0x0C000 if Older & SharedInstructions;
        0x16000 NTE_DESCRIPTOR_SAMP_CTRL0_MIRROR[32 times 5 every 0x200] = 0x16C00 if Halti5;
        0x15800 NTE_DESCRIPTOR_ADDR_MIRROR[32 times 2 every 0x200] = 0x15C00 if Halti5;
        0x34000 SH_HALTI5_UNIFORMS_MIRROR[Uniforms] = 0x36000 if Halti5;
    }
}

/// The states `FE_VERTEX_ELEMENT_CONFIG`, `TS_MEM_CONFIG` and `GL_USC_CONTROL`.
const ELEMENTS: u32 = 0x00600;
const MEM_CONFIG: u32 = 0x01654;
const USC_CONTROL: u32 = 0x03884;

/// Whether the state at this byte address is loaded as a fixed-point number.
const fn is_converted(byte: u32) -> bool {
    matches!(
        byte,
        0xA00 | 0xA04 | 0xA0C | 0xA10 | 0xA84 | 0xC00..=0xC0C | 0xC20 | 0xC24
    )
}

/// A core, and the kind of its contexts.
struct Core<'a> {
    identity: &'a Identity,
    /// What clients may load. Contexts of the drivers from 5.0.11 on keep no other states.
    newer: Option<Sets<'a>>,
}

impl Core<'_> {
    fn meets(&self, need: Need) -> bool {
        let identity = self.identity;
        let [_, minor1, minor2, minor3] = identity.minor_features;
        let minor4 = identity.later_minor_features[0];
        match need {
            Need::Halti5 => self.newer.is_some() && identity.has_halti5(),
            Need::Older => !self.meets(Need::Halti5),
            Need::Newer => self.newer.is_some() && !identity.has_halti5(),
            Need::OnePipe => !self.meets(Need::SeveralPipes),
            Need::SeveralPipes => identity.pixel_pipes > 1,
            Need::OwnInstructions => identity.instruction_count <= 256,
            Need::CommonInstructions => identity.instruction_count > 256,
            Need::SharedInstructions => matches!(identity.instruction_count, 257..=1024),
            Need::LargeInstructions => identity.instruction_count > 1024,
            Need::CommonUniforms => identity.num_constants > 256,
            Need::AllUniforms => identity.num_constants == 256,
            Need::Halti0 => minor1 & identity::MINOR1_HALTI0 != 0,
            Need::Halti1 => minor2 & identity::MINOR2_HALTI1 != 0,
            Need::Halti2 => minor4 & identity::MINOR4_HALTI2 != 0,
            Need::LinearTextures => {
                minor1 & identity::MINOR1_LINEAR_TEXTURE_SUPPORT != 0 && !self.meets(Need::Halti1)
            }
            Need::TextureFilter => minor2 & identity::MINOR2_TX_FILTER != 0,
            Need::TextureAstc => minor4 & identity::MINOR4_TEXTURE_ASTC != 0,
            Need::InstructionCache => minor3 & identity::MINOR3_INSTRUCTION_CACHE != 0,
            Need::ShaderEnhancements2 => minor3 & identity::MINOR3_SH_ENHANCEMENTS2 != 0,
        }
    }

    fn count(&self, count: Count) -> u32 {
        let identity = self.identity;
        let few_uniforms = identity.model < 0x4000;
        match count {
            Count::Of(count) => count,
            Count::Elements if self.meets(Need::Halti0) => 16,
            Count::Elements => 12,
            // An instruction has four words, and so has a uniform.
            Count::Instructions => 4 * identity.instruction_count,
            Count::VertexUniforms if few_uniforms => 4 * 168,
            Count::PixelUniforms if few_uniforms => 4 * 64,
            Count::VertexUniforms | Count::PixelUniforms => 4 * 256,
            Count::Uniforms => 4 * identity.num_constants.min(512),
            Count::Varyings if matches!(identity.free_varyings, 11..=16) => identity.free_varyings,
            Count::Varyings => 0,
            // These states are arrays of 8.
            Count::PixelPipes => identity.pixel_pipes.clamp(1, 8),
            Count::Samplers if (identity.model, identity.revision) == (0x2000, 0x5108) => 12,
            Count::Samplers => 32,
        }
    }

    /// The rows of a table that apply.
    fn rows<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = &'a Row> {
        rows.iter()
            .filter(|row| row.needs.iter().all(|&need| self.meets(need)))
    }

    /// The blocks of a row, as word addresses.
    fn blocks(&self, row: &Row) -> impl Iterator<Item = Range<u32>> {
        let (byte, stride, count) = (row.byte, row.stride, self.count(row.count));
        let firsts = (0..self.count(row.blocks)).map(move |block| byte + block * stride);
        firsts.map(move |first| state::word(first)..state::word(first) + count)
    }

    /// Whether contexts keep a block of a row. Contexts of the older drivers keep it even if
    /// clients may not load it.
    fn keeps(&self, row: &Row, mut block: Range<u32>) -> bool {
        let is_older = !matches!(row.needs, [Need::Newer, ..]) && self.meets(Need::Older);
        let may_load = |states: Sets<'_>, at| !states.is_special(at) || states.takes_address(at);
        is_older
            || self
                .newer
                .is_some_and(|it| block.all(|at| at <= 0xFFFF && may_load(it, at)))
    }

    /// The state after the uniforms that all shaders share. 0: there are none.
    fn uniforms_end(&self) -> usize {
        if !self.meets(Need::Newer) || !self.meets(Need::CommonUniforms) {
            return 0;
        }
        // CAST: 32 bits into at least 32.
        (state::word(0x30000) + 4 * self.identity.num_constants.min(MOST_CONSTANTS)) as usize
    }
}

/// A kept state that is a GPU address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressSlot {
    /// Its word in the stream.
    pub(crate) word: usize,
    /// The state, a word address.
    pub(crate) state: u32,
}

/// The states of a core's contexts.
pub(crate) struct StateMap {
    /// The words of a fresh context.
    pub(super) template: KVVec<u32>,
    /// See [`Places`].
    places: KVVec<u16>,
    /// The highest state that the vendor keeps, plus 1, even if it is not kept here: the
    /// interface's `stateCount`. Clients size their arrays by it.
    pub(crate) state_count: usize,
    /// The kept states that are GPU addresses.
    pub(super) addresses: KVVec<AddressSlot>,
    /// The place of the first vertex element, and the number of elements.
    pub(super) elements: (usize, usize),
    /// The place of the LINK to the client's commands.
    pub(super) link: usize,
    /// The place of `TS_MEM_CONFIG`.
    pub(super) mem_config: usize,
    /// The place of `YUV_CONFIG`. 0: not kept.
    pub(super) yuv_config: usize,
}

/// For each state, the place of its value, and perhaps [`SPECIAL`]. 0: not kept.
#[derive(Clone, Copy)]
pub(super) struct Places<'a>(&'a [u16]);

/// The state is in a [`Group`], or some of its bits are not kept.
const SPECIAL: u16 = 1 << 15;

impl Places<'_> {
    /// The word that holds state `address` (a word address), if it is kept, and whether the state
    /// is special.
    #[inline(always)]
    pub(super) fn find(self, address: u32) -> Option<(usize, bool)> {
        // CAST: 32 bits into at least 32.
        match self.0.get(address as usize) {
            None | Some(0) => None,
            Some(&place) => Some(((place & !SPECIAL).into(), place & SPECIAL != 0)),
        }
    }
}

/// The states with which a state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// It is written alone.
    None,
    /// It is written with the vertex elements.
    Elements,
    /// It is written with the states that are GPU addresses.
    Addresses,
}

/// The group of state `address`, whose word is at `at`. `elements`: the place of the first vertex
/// element, and the number of elements.
fn group_of(elements: (usize, usize), at: usize, address: u32) -> Group {
    let (first, count) = elements;
    match at {
        _ if (first..first + count).contains(&at) => Group::Elements,
        _ if address <= 0xFFFF && takes_address(address) => Group::Addresses,
        _ => Group::None,
    }
}

/// Waits for the pixel engine.
const WAIT: [u32; 4] = [
    words::load_state(state::GL_SEMAPHORE_TOKEN, 1),
    words::TOKEN_FE_TO_PE,
    words::STALL,
    words::TOKEN_FE_TO_PE,
];

/// Adds the states of a table to the stream, and notes their places.
fn add(core: &Core<'_>, rows: &[Row], loads: &mut Loads, places: &mut KVVec<u16>) -> Result {
    for row in core.rows(rows) {
        let value = match row.byte {
            USC_CONTROL => row.reset | core.identity.l1_cache_ratio(),
            _ => row.reset,
        };
        if core.count(row.count) == 0 {
            loads.close()?;
        }
        let kept = core
            .blocks(row)
            .filter(|block| core.keeps(row, block.clone()));
        for address in kept.flatten() {
            // CAST: 32 bits into at least 32.
            let at = address as usize;
            if places.len() <= at {
                places.resize(at + 1, 0, GFP_KERNEL)?;
            }
            if places[at] == 0 {
                let converted = if is_converted(address << 2) { FIXP } else { 0 };
                let word = loads.push(address | converted, value)?;
                places[at] = u16::try_from(word).map_err(|_| Error::NotSupported)?;
            }
        }
    }
    loads.close()
}

impl StateMap {
    /// The states of a core. `OutOfMemory`. `NotSupported`: more than the map can hold.
    pub(crate) fn new(identity: &Identity) -> Result<Arc<Self>> {
        let newer = None;
        Ok(Arc::new(Self::of(&Core { identity, newer })?, GFP_KERNEL)?)
    }

    /// The states of a core that the drivers from 5.0.11 on keep, except for those that clients may
    /// not load by `states`. Errors: as [`StateMap::new`].
    pub(crate) fn newer(identity: &Identity, states: &States) -> Result<Arc<Self>> {
        let newer = states.sets();
        Ok(Arc::new(Self::of(&Core { identity, newer })?, GFP_KERNEL)?)
    }

    fn of(core: &Core<'_>) -> Result<Self> {
        let mut loads = Loads::new(PADDING, 1024);
        let mut places = KVVec::new();
        loads.raw(&words::flush_of(flush::PE2D))?;
        loads.raw(&WAIT)?;
        loads.raw(&words::select_idle_pipe(Pipe::Pipe3d))?;
        loads.raw(&words::flush_of(
            flush::DEPTH | flush::COLOR | flush::TEXTURE,
        ))?;
        loads.raw(&WAIT)?;
        add(core, FRONT, &mut loads, &mut places)?;
        let last_part = loads.words.len();
        add(core, BACK, &mut loads, &mut places)?;
        for row in core.rows(MIRRORS) {
            for address in core.blocks(row).flatten() {
                let kept = address - state::word(row.byte) + state::word(row.reset);
                // CAST: 32 bits into at least 32.
                let place = *places.get(kept as usize).ok_or(Error::InvalidArgument)?;
                let mirror = places.get_mut(address as usize);
                *mirror.ok_or(Error::InvalidArgument)? = place;
            }
        }
        loads.raw(&WAIT)?;
        let link = loads.words.len();
        loads.raw(&[words::link(0, 0), 0])?;
        // The last entry. Its LINK would need the buffer's address.
        loads.raw(&words::flush_of(flush::PE2D))?;
        loads.raw(&WAIT)?;
        loads.raw(&words::select_idle_pipe(Pipe::Pipe3d))?;
        loads.raw(&[words::link(0, 0), 4 * u32::try_from(last_part).unwrap_or(0)])?;
        let mut addresses = KVVec::new();
        for (address, &place) in (0u32..0x1_0000).zip(places.iter()) {
            if place != 0 && takes_address(address) {
                let slot = AddressSlot {
                    word: place.into(),
                    state: address,
                };
                addresses.push(slot, GFP_KERNEL)?;
            }
        }
        let place = |byte| {
            // CAST: 32 bits into at least 32.
            let place = places.get(state::word(byte) as usize);
            place.map_or(0, |&place| usize::from(place))
        };
        let elements = if core.meets(Need::Halti5) {
            // Each element has its own enable bit.
            (0, 0)
        } else {
            // CAST: 12 or 16.
            (place(ELEMENTS), core.count(Count::Elements) as usize)
        };
        let mem_config = place(MEM_CONFIG);
        let yuv_config = place(tiler::CONFIG << 2);
        // No place uses the bit of [`SPECIAL`].
        if loads.words.len() > usize::from(SPECIAL) {
            return Err(Error::InvalidArgument);
        }
        for (address, place) in (0u32..).zip(places.iter_mut()) {
            let at = usize::from(*place);
            let group = group_of(elements, at, address);
            if at != 0 && (group != Group::None || at == mem_config || at == yuv_config) {
                *place |= SPECIAL;
            }
        }
        Ok(Self {
            elements,
            mem_config,
            yuv_config,
            link,
            addresses,
            state_count: places.len().max(core.uniforms_end()),
            template: loads.words,
            places,
        })
    }

    /// The places of the states.
    #[inline]
    pub(super) fn places(&self) -> Places<'_> {
        Places(&self.places)
    }

    /// The group of state `address`, whose word is at `at`.
    #[inline(never)]
    pub(super) fn group(&self, at: usize, address: u32) -> Group {
        group_of(self.elements, at, address)
    }

    /// The word that holds state `address` (a word address), if it is kept.
    pub(crate) fn place(&self, address: u32) -> Option<usize> {
        self.places().find(address).map(|(at, _)| at)
    }

    /// Bytes of the stream, including the LINK to the client's commands.
    pub(crate) fn bytes(&self) -> usize {
        (self.link + 2) * 4
    }
}

mod tests;
