// SPDX-License-Identifier: GPL-2.0-only

//! The tables of the states that contexts keep, in the order of the stream.

/// A condition of a row, on the core or the kind of its contexts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Contexts of HALTI5, as in the vendor's driver 6.4.11.
    Halti5,
    /// All other contexts.
    NotHalti5,
    /// The contexts among [`Need::NotHalti5`] of the drivers from 5.0.11 on.
    Since5_0_11,
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
pub(super) enum Count {
    Of(u32),
    /// None. The next row begins a new `LOAD_STATE`.
    Break,
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
pub(super) struct Row {
    /// Byte address of the first state.
    pub(super) byte: u32,
    /// States of a block.
    pub(super) count: Count,
    pub(super) blocks: Count,
    /// Bytes from one block to the next.
    pub(super) stride: u32,
    /// The value after a reset. In [`MIRRORS`], the byte address of the kept states.
    pub(super) reset: u32,
    pub(super) needs: &'static [Need],
    /// The name of the first state.
    #[cfg(CONFIG_KUNIT)]
    pub(super) name: &'static str,
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
        pub(super) const $table: &[Row] = &[$(Row {
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
        0x03820 GL_VARYING_NUM_COMPONENTS if NotHalti5;
        0x03828 GL_VARYING_COMPONENT_USE[2] if NotHalti5;
        0x03834 GL_VARYING_NUM_COMPONENTS2[2] if NotHalti5;
        0x03888 GL_HALTI5_SH_SPECIALS if Halti5;
        0x038C0 GL_HALTI5_SHADER_ATTRIBUTES[16] if Halti5;
        0x03884 GL_USC_CONTROL = 0x0002_0000 if Halti5;
        0x0384C GL_API_MODE;
        0x00600 FE_VERTEX_ELEMENT_CONFIG[Elements] if NotHalti5;
        0x17800 NFE_GENERIC_ATTRIB_CONFIG0[32] if Halti5;
        0x007C4 FE_HALTI5_ID_CONFIG if Halti5;
        0x007D0 FE_HALTI5_UNK007D0[3] if Halti5;
        0x17A80 NFE_GENERIC_ATTRIB_CONFIG1[32] if Halti5;
        0x17880 NFE_GENERIC_ATTRIB_UNK17880[96] if Halti5;
        0x17A00 NFE_GENERIC_ATTRIB_SCALE[32] = 0x3F80_0000 if Halti5;
        0x14600 NFE_VERTEX_STREAMS_BASE_ADDR[48] if Halti5;
        0x00644 FE_INDEX_STREAM_BASE_ADDR[2];
        0x0064C FE_VERTEX_STREAM_BASE_ADDR[2] if NotHalti5;
        0x00680 FE_VERTEX_STREAMS_BASE_ADDR[16] if NotHalti5;
        0x00670 FE_AUTO_FLUSH if NotHalti5;
        0x00674 FE_PRIMITIVE_RESTART_INDEX if Halti5;
        0x00678 FE_UNK00678;
        0x0067C FE_UNK0067C = 0xFFFF_FFFF;
        0x146C0 NFE_VERTEX_STREAMS_ROBUSTNESS[16] if Halti5;
        0x007F8 FE_INDEX_STREAM_ROBUSTNESS if Halti5;
        0x006C0 FE_GENERIC_ATTRIB_UNK006C0[48] if NotHalti5;
        0x00780 FE_GENERIC_ATTRIB_SCALE[16] = 0x3F80_0000 if NotHalti5;

        0x00800 VS_END_PC[13] if NotHalti5;
        0x00838 VS_START_PC if NotHalti5;
        0x04000 VS_INST_MEM[1024] if NotHalti5 & OwnInstructions;
        0x05000 VS_UNIFORMS[VertexUniforms] if NotHalti5;
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
        0x00A1C PA_POINT_SIZE if NotHalti5;
        0x00A1C PA_POINT_SIZE = 0x3F00_0000 if Halti5;
        0x00A28 PA_SYSTEM_MODE[3];
        0x00A40 PA_SHADER_ATTRIBUTES[10] if NotHalti5;
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

        0x00E00 RA_CONTROL = 0x01 if NotHalti5;
        0x00E00 RA_CONTROL = 0xF1 if Halti5;
        0x00E10 RA_MULTISAMPLE_UNK00E10[4];
        0x00E04 RA_MULTISAMPLE_UNK00E04;
        0x00E40 RA_CENTROID_TABLE[16];
        0x00E08 RA_EARLY_DEPTH = 0x31 if NotHalti5;
        0x00E08 RA_EARLY_DEPTH = 0x1700_0035 if Halti5;
        0x00E24 RA_UNK00E24 if Halti5;
        0x00E20 RA_HDEPTH_CONTROL if Halti5;
        0x00E0C RA_UNK00E0C if Halti5;
        0x00E34 RA_HALTI5_UNK00E34 if Halti5;

        0x01000 PS_END_PC if NotHalti5;
        0x01004 PS_OUTPUT_REG[4];
        0x01018 PS_START_PC = 0x0100_0000 if NotHalti5;
        0x06000 PS_INST_MEM[1024] if NotHalti5 & OwnInstructions;
        0x07000 PS_UNIFORMS[PixelUniforms] if NotHalti5;
        0x01030 PS_CONTROL_EXT[2] if Halti5;
        0x01040 PS_UNK01040[2] if Halti5;
        0x0102C PS_OUTPUT_REG2 if Halti5;
        0x01038 PS_UNK01038 if Halti5;
        0x01054 PS_MSAA_CONFIG if Halti5;
        0x01060 PS_ALPHA_TO_COVERAGE_DITHER[8] if Halti5;
        0x01080 PS_VARYING_NUM_COMPONENTS[4] if Halti5;
        0x01058 PS_SAMPLER_BASE if Halti5;
        0x01098 PS_HALTI5_UNK01098 if Halti5;

        0x02000 TE_SAMPLER_CONFIG0[12 times 7 every 0x40] if NotHalti5;
        0x021C0 TE_SAMPLER_CONFIG1[12] = 0x0032_1000 if NotHalti5;
        0x02200 TE_SAMPLER_UNK02200[12 times 2 every 0x40] if NotHalti5;
        0x02400 TE_SAMPLER_LOD_ADDR[12 times 14 every 0x40] if NotHalti5;
        0x10000 NTE_SAMPLER_CONFIG0[192] if NotHalti5 & Halti1;
        0x02C00 TE_SAMPLER_LINEAR_STRIDE[256] if NotHalti5 & Halti1;
        0x10300 NTE_SAMPLER_3D_CONFIG[32] if NotHalti5 & Halti1;
        0x10380 NTE_SAMPLER_CONFIG1[32] = 0x0032_1000 if NotHalti5 & Halti1;
        0x10400 NTE_SAMPLER_UNK10400[64] if NotHalti5 & Halti1;
        0x12000 NTE_UNK12000[512] if NotHalti5 & Halti1 & TextureFilter;
        0x10800 NTE_SAMPLER_ADDR_LOD[14 times Samplers every 0x40] if NotHalti5 & Halti1;
        0x01678 YUV_CONFIG[10] if NotHalti5;
        0x14C40 NTE_DESCRIPTOR_CONTROL = 1 if Halti5;
        0x16C00 NTE_DESCRIPTOR_SAMP_CTRL0[32 times 5 every 0x200] if Halti5;
        0x15C00 NTE_DESCRIPTOR_ADDR[32 times 2 every 0x200] if Halti5;
        0x14C00 NTE_HALTI3_UNK14C00[16] if Halti5;

        0x00900 CL_CONFIG[7];
        0x0091C CL_THREAD_ALLOCATION if NotHalti5;
        0x00924 CL_UNK00924;
        0x0091C CL_THREAD_ALLOCATION if Halti5;
        0x00940 CL_WORKGROUP_COUNT_X[9] if Halti5;

        0x0085C VS_RANGE if NotHalti5 & CommonInstructions;
        0x0101C PS_RANGE = 0x100 if NotHalti5 & CommonInstructions;
        0x00860 SH_CONTROL if NotHalti5 & LargeInstructions;
        0x0C000 SH_INST_MEM[Instructions] if NotHalti5 & SharedInstructions;
        0x20000 SH_UNK20000[Instructions] if NotHalti5 & LargeInstructions;
        0x00874 VS_NEWRANGE_LOW if Halti5;
        0x008BC VS_HALTI5_RANGE_HIGH if Halti5;
        0x0087C PS_NEWRANGE_LOW if Halti5;
        0x01090 PS_HALTI5_RANGE_HIGH if Halti5;
        0x01024 PS_UNIFORM_BASE = 0x100 if Halti5;
        0x00864 VS_UNIFORM_BASE if Halti5;
        0x00884 VS_HALTI1_UNK00884 if Halti5;
        0x008B0 VS_ICACHE_INVALIDATE if Halti5;
        0x36000 SH_HALTI5_UNIFORMS[Uniforms] if Halti5;

        0x00674 FE_PRIMITIVE_RESTART_INDEX if Since5_0_11;
        0x00A88 PA_FLAGS if Since5_0_11;
        0x00E20 RA_HDEPTH_CONTROL[2] if Since5_0_11;
        0x01030 PS_CONTROL_EXT if Since5_0_11;
        0x03850 GL_CONTEXT_POINTER[2] if Since5_0_11;
        0x03A00 GL_UNK03A00[3] if Since5_0_11;
        0x00860 SH_CONTROL if Since5_0_11;
        0x00A40 PA_SHADER_ATTRIBUTES[Varyings] if Since5_0_11;
        0x00884 VS_HALTI1_UNK00884 if Since5_0_11 & Halti1;
        0x02C00 TE_SAMPLER_LINEAR_STRIDE[1 times 12 every 0x40] if Since5_0_11 & LinearTextures;
        0x01024 PS_UNIFORM_BASE = 0x100 if Since5_0_11 & CommonUniforms;
        0x00864 VS_UNIFORM_BASE if Since5_0_11 & CommonUniforms;
        0x30000 SH_UNIFORMS[Uniforms] if Since5_0_11 & CommonUniforms;
        0x05000 VS_UNIFORMS[1024] if Since5_0_11 & AllUniforms;
        0x07000 PS_UNIFORMS[1024] if Since5_0_11 & AllUniforms;
        0x00868 SH_ICACHE_CONTROL[2] if Since5_0_11 & InstructionCache;
        0x0304C CO_ICACHE_UNK0304C if Since5_0_11 & InstructionCache;
        0x01028 PS_INST_ADDR if Since5_0_11 & InstructionCache;
        0x00874 VS_NEWRANGE_LOW[4] if Since5_0_11 & InstructionCache;
        0x00940 CL_WORKGROUP_COUNT_X[6] if Since5_0_11 & ShaderEnhancements2;
        0x10500 NTE_SAMPLER_ASTC0[128] if Since5_0_11 & TextureAstc;
        0x01460 PE_PIPE_COLOR_ADDR if Since5_0_11 & OnePipe;
        0x01480 PE_PIPE_DEPTH_ADDR if Since5_0_11 & OnePipe & Halti0;
        0x01500 PE_RT_ADDR_4_PIPE[1 times 2 every 0x20] if Since5_0_11 & OnePipe;
        0x01540 PE_RT_ADDR_4_PIPE[PixelPipes] if Since5_0_11;
        0x14600 NFE_VERTEX_STREAMS_BASE_ADDR[48] if Since5_0_11 & Halti2;
        0x00E0C RA_UNK00E0C if Since5_0_11 & Halti2;
        0x0102C PS_OUTPUT_REG2 if Since5_0_11 & Halti2;
        0x01034 PS_UNK01034[2] if Since5_0_11 & Halti2;
        0x01040 PS_UNK01040[2] if Since5_0_11 & Halti2;
        0x10700 NTE_SAMPLER_BASELOD[32] = 0xF00 if Since5_0_11 & Halti2;
        0x01780 TS_SAMPLER_CLEAR_VALUE2[8] if Since5_0_11 & Halti2;
        0x016BC TS_COLOR_CLEAR_VALUE_EXT if Since5_0_11 & Halti2;
        0x017A4 TS_RT_CONFIG[7 times 3 every 0x20] if Since5_0_11 & Halti2;
        0x01A04 TS_RT_CLEAR_VALUE[7 times 3 every 0x20] if Since5_0_11 & Halti2;
        0x14900 PE_RT_CONFIG_8[7] if Since5_0_11 & Halti2;
        0x14800 PE_RT_ADDR_8_PIPE[PixelPipes times 7 every 0x20] if Since5_0_11 & Halti2;
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
        0x0145C PE_UNK0145C = 0x10 if NotHalti5;
        0x014A0 PE_STENCIL_CONFIG_EXT;
        0x014A8 PE_DITHER[2] = 0xFFFF_FFFF;
        0x014B0 PE_ALPHA_COLOR_EXT0[2];
        0x014A4 PE_LOGIC_OP = 0x000E_400C;
        0x01580 PE_RT_CONFIG_4[3];
        0x014B8 PE_STENCIL_CONFIG_EXT2;
        0x03008 CO_UNK03008 if NotHalti5;
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
        0x01460 PE_PIPE_COLOR_ADDR[PixelPipes times 2 every 0x20] if NotHalti5 & SeveralPipes;
        0x01500 PE_RT_ADDR_4_PIPE[PixelPipes times 2 every 0x20] if NotHalti5 & SeveralPipes;

        0x01604 RS_CONFIG[5];
        0x01620 RS_WINDOW_SIZE;
        0x01630 RS_DITHER[2];
        0x01640 RS_FILL_VALUE[4] if NotHalti5;
        0x0163C RS_CLEAR_CONTROL;
        0x01640 RS_FILL_VALUE[4] if Halti5;
        0x016A0 RS_EXTRA_CONFIG;
        0x016B4 RS_UNK016B4;
        0x016C0 RS_PIPE_SOURCE_ADDR[PixelPipes times 3 every 0x20] if NotHalti5 & SeveralPipes;

        0x01654 TS_MEM_CONFIG = 0x0020_0000;
        0x01658 TS_COLOR_STATUS_BASE[Break] if NotHalti5;
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
    /// Second addresses of states. They have no words of their own.
    MIRRORS {
        0x08000 SH_INST_MEM_MIRROR[Instructions] = 0x0C000 if NotHalti5 & SharedInstructions;
        0x16000 NTE_DESCRIPTOR_SAMP_CTRL0_MIRROR[32 times 5 every 0x200] = 0x16C00 if Halti5;
        0x15800 NTE_DESCRIPTOR_ADDR_MIRROR[32 times 2 every 0x200] = 0x15C00 if Halti5;
        0x34000 SH_HALTI5_UNIFORMS_MIRROR[Uniforms] = 0x36000 if Halti5;
    }
}
