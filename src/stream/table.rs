// SPDX-License-Identifier: GPL-2.0-only

//! The table of states: which there are, which cores have them, which hold GPU addresses, and their
//! names.
//!
//! No imports: `galcore-info` uses the file, too. Source: the register database
//! (rnndb); sources.md, contexts, command stream. Hardware ignores loads of states that a core
//! lacks, so the rows of a block are no finer than needed.
//!
//! Also where commands end, which states they load, and the states of vector graphics. The register
//! database lists these states with their reset values only (`state_vg.xml`), so the names say what
//! they are for. Source: sources.md, vector graphics.

/// What a core must have for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Any,
    /// The 3D pipe.
    Pipe3d,
    /// The 2D pipe.
    Pipe2d,
    /// Blits from up to 4 sources.
    MultiSource,
    /// Blits from up to 8 sources.
    MultiSourceEx,
    /// Tile status of 2D sources.
    FastClearSource,
    /// HALTI1: samplers in a place of their own, 32 of them.
    Halti1,
    /// HALTI2: vertex streams in a place of their own, 8 render targets.
    Halti2,
    /// Texture filter states.
    TextureFilter,
    /// Instructions in memory.
    InstructionCache,
    /// More than 1024 instructions.
    LargeInstructions,
    /// More than 256 uniforms: vertex and pixel shaders have them in common.
    CommonUniforms,
    /// HALTI5: textures by descriptors in memory, 32 vertex elements, uniforms in a place of their
    /// own.
    Halti5,
    /// At most 256 instructions: each kind of shader has memory of its own for them.
    OwnInstructions,
    /// 257 to 1024 instructions, in memory that all shaders share.
    SharedInstructions,
    /// Newer cores only, which this driver does not know.
    Newer,
}

/// Consecutive states: byte address of the first, how many, what has them, name.
pub(crate) struct Row(
    pub(crate) u32,
    pub(crate) u32,
    pub(crate) Need,
    pub(crate) &'static str,
);

/// States that hold GPU addresses.
pub(crate) const ADDRESSES: [Row; 55] = [
    Row(0x00644, 1, Need::Pipe3d, "FE.INDEX_STREAM_BASE_ADDR"),
    Row(0x0064C, 1, Need::Pipe3d, "FE.VERTEX_STREAM_BASE_ADDR"),
    Row(0x00680, 8, Need::Pipe3d, "FE.VERTEX_STREAMS_BASE_ADDR"),
    Row(0x14600, 16, Need::Halti2, "NFE.VERTEX_STREAMS_BASE_ADDR"),
    Row(0x0086C, 1, Need::InstructionCache, "VS.INST_ADDR"),
    Row(0x01028, 1, Need::InstructionCache, "PS.INST_ADDR"),
    Row(0x01410, 1, Need::Pipe3d, "PE.DEPTH_ADDR"),
    Row(0x01430, 1, Need::Pipe3d, "PE.COLOR_ADDR"),
    Row(0x01458, 1, Need::Pipe3d, "PE.HDEPTH_ADDR"),
    Row(0x01460, 8, Need::Pipe3d, "PE.PIPE_COLOR_ADDR"),
    Row(0x01480, 8, Need::Pipe3d, "PE.PIPE_DEPTH_ADDR"),
    Row(0x01500, 8, Need::Pipe3d, "PE.RT_ADDR_4_PIPE"),
    Row(0x01520, 8, Need::Pipe3d, "PE.RT_ADDR_4_PIPE"),
    Row(0x01540, 8, Need::Pipe3d, "PE.RT_ADDR_4_PIPE"),
    Row(0x14800, 64, Need::Halti2, "PE.RT_ADDR_8_PIPE"),
    Row(0x01608, 1, Need::Pipe3d, "RS.SOURCE_ADDR"),
    Row(0x01610, 1, Need::Pipe3d, "RS.DEST_ADDR"),
    Row(0x016C0, 8, Need::Pipe3d, "RS.PIPE_SOURCE_ADDR"),
    Row(0x016E0, 8, Need::Pipe3d, "RS.PIPE_DEST_ADDR"),
    Row(0x01658, 1, Need::Pipe3d, "TS.COLOR_STATUS_BASE"),
    Row(0x0165C, 1, Need::Pipe3d, "TS.COLOR_SURFACE_BASE"),
    Row(0x01664, 1, Need::Pipe3d, "TS.DEPTH_STATUS_BASE"),
    Row(0x01668, 1, Need::Pipe3d, "TS.DEPTH_SURFACE_BASE"),
    Row(0x016A4, 1, Need::Pipe3d, "TS.HDEPTH_STATUS_BASE"),
    Row(0x01740, 8, Need::Pipe3d, "TS.SAMPLER_STATUS_BASE"),
    Row(0x017C0, 8, Need::Halti2, "TS.RT_STATUS_BASE"),
    Row(0x017E0, 8, Need::Halti2, "TS.RT_SURFACE_BASE"),
    Row(0x01680, 1, Need::Pipe3d, "YUV.Y_BASE"),
    Row(0x01688, 1, Need::Pipe3d, "YUV.U_BASE"),
    Row(0x01690, 1, Need::Pipe3d, "YUV.V_BASE"),
    Row(0x01698, 1, Need::Pipe3d, "YUV.DEST_BASE"),
    // 14 levels of 16 samplers; 32 samplers of 16 levels.
    Row(0x02400, 14 * 16, Need::Pipe3d, "TE.SAMPLER_LOD_ADDR"),
    Row(0x10800, 32 * 16, Need::Halti1, "NTE.SAMPLER_ADDR_LOD"),
    Row(0x03824, 1, Need::Pipe3d, "GL.OCCLUSION_QUERY_ADDR"),
    Row(0x01200, 1, Need::Pipe2d, "DE.SRC_ADDRESS"),
    Row(0x01228, 1, Need::Pipe2d, "DE.DEST_ADDRESS"),
    Row(0x01238, 1, Need::Pipe2d, "DE.PATTERN_ADDRESS"),
    Row(0x01284, 1, Need::Pipe2d, "DE.UPLANE_ADDRESS"),
    Row(0x0128C, 1, Need::Pipe2d, "DE.VPLANE_ADDRESS"),
    Row(0x01304, 1, Need::Pipe2d, "DE.SRC_EX_ADDRESS"),
    Row(0x01310, 1, Need::Pipe2d, "DE.DE_PLANE2_ADDRESS"),
    Row(0x01318, 1, Need::Pipe2d, "DE.DE_PLANE3_ADDRESS"),
    Row(0x12800, 4, Need::MultiSource, "DE.BLOCK4_SRC_ADDRESS"),
    Row(0x128A0, 4, Need::MultiSource, "DE.BLOCK4_ADDRESS_U"),
    Row(0x128C0, 4, Need::MultiSource, "DE.BLOCK4_ADDRESS_V"),
    Row(0x12970, 4, Need::MultiSource, "DE.BLOCK4_SRC_EX_ADDRESS"),
    Row(0x12A00, 8, Need::MultiSourceEx, "DE.BLOCK8_SRC_ADDRESS"),
    Row(0x12B40, 8, Need::MultiSourceEx, "DE.BLOCK8_ADDRESS_U"),
    Row(0x12B80, 8, Need::MultiSourceEx, "DE.BLOCK8_ADDRESS_V"),
    Row(0x12CE0, 8, Need::MultiSourceEx, "DE.BLOCK8_SRC_EX_ADDRESS"),
    Row(0x12EE0, 8, Need::FastClearSource, "DE.TS_ADDRESS"),
    Row(0x01A80, 8, Need::Halti5, "TS.SAMPLER_SURFACE_BASE"),
    Row(0x03868, 1, Need::Halti5, "GL.FENCE_OUT_ADDRESS"),
    // And where they are mirrored.
    Row(0x15800, 128, Need::Halti5, "NTE.DESCRIPTOR_ADDR"),
    Row(0x15C00, 128, Need::Halti5, "NTE.DESCRIPTOR_ADDR"),
];

/// All others, and those above again where they are in the middle of some.
///
/// The front end's other command streams of HALTI5 (0x7DC to 0x7F4) and the states of security are
/// in none. Where robust accesses end is no address that is drawn to.
pub(crate) const OTHERS: [Row; 86] = [
    Row(0x00000, 2, Need::Any, "HI"),
    Row(0x00600, 16, Need::Pipe3d, "FE"),
    Row(0x00644, 4, Need::Pipe3d, "FE"),
    Row(0x00670, 84, Need::Pipe3d, "FE"),
    Row(0x007C4, 1, Need::Halti5, "FE"),
    Row(0x007D0, 3, Need::Halti5, "FE"),
    Row(0x007F8, 1, Need::Halti5, "FE.ROBUSTNESS"),
    Row(0x00800, 15, Need::Pipe3d, "VS"),
    Row(0x00850, 6, Need::Pipe3d, "VS"),
    Row(0x00868, 7, Need::InstructionCache, "VS"),
    Row(0x00884, 1, Need::Pipe3d, "VS"),
    Row(0x0088C, 2, Need::InstructionCache, "VS"),
    Row(0x00898, 26, Need::Halti5, "VS"),
    Row(0x00900, 10, Need::Pipe3d, "CL"),
    Row(0x0092C, 14, Need::Halti5, "CL"),
    Row(0x00A00, 16, Need::Pipe3d, "PA"),
    Row(0x00A40, 20, Need::Pipe3d, "PA"),
    Row(0x00A90, 8, Need::Halti5, "PA"),
    Row(0x00C00, 10, Need::Pipe3d, "SE"),
    Row(0x00E00, 32, Need::Pipe3d, "RA"),
    Row(0x01000, 10, Need::Pipe3d, "PS"),
    Row(0x01028, 1, Need::InstructionCache, "PS"),
    Row(0x0102C, 3, Need::Pipe3d, "PS"),
    Row(0x01038, 4, Need::Halti2, "PS"),
    Row(0x01048, 2, Need::InstructionCache, "PS"),
    Row(0x01054, 11, Need::Halti2, "PS"),
    Row(0x01080, 7, Need::Halti5, "PS"),
    Row(0x0109C, 8, Need::Newer, "PS"),
    Row(0x01100, 22, Need::Newer, "GS"),
    Row(0x01200, 75, Need::Pipe2d, "DE"),
    Row(0x01400, 14, Need::Pipe3d, "PE"),
    Row(0x01454, 26, Need::Pipe3d, "PE"),
    Row(0x014BC, 1, Need::Halti2, "PE"),
    Row(0x014C0, 2, Need::Halti5, "PE"),
    Row(0x01500, 35, Need::Pipe3d, "PE"),
    Row(0x01600, 6, Need::Pipe3d, "RS"),
    Row(0x01620, 1, Need::Pipe3d, "RS"),
    Row(0x01630, 8, Need::Pipe3d, "RS"),
    Row(0x01650, 10, Need::Pipe3d, "TS"),
    Row(0x01678, 10, Need::Pipe3d, "YUV"),
    Row(0x016A0, 32, Need::Pipe3d, "RS"),
    Row(0x01720, 32, Need::Pipe3d, "TS"),
    Row(0x017A0, 24, Need::Halti2, "TS"),
    Row(0x01800, 128, Need::Pipe2d, "DE"),
    Row(0x01A00, 24, Need::Halti2, "TS"),
    Row(0x01C00, 256, Need::Pipe2d, "DE"),
    Row(0x02000, 160, Need::Pipe3d, "TE"),
    Row(0x02280, 96, Need::Halti2, "TE"),
    Row(0x02800, 256, Need::Pipe2d, "DE"),
    Row(0x02C00, 256, Need::Pipe3d, "TE"),
    Row(0x03008, 1, Need::Pipe3d, "CO"),
    Row(0x0304C, 1, Need::InstructionCache, "CO"),
    Row(0x0300C, 253, Need::Newer, "CO"),
    Row(0x03400, 256, Need::Pipe2d, "DE"),
    // Pipe, semaphore, flush.
    Row(0x03800, 1, Need::Any, "GL"),
    Row(0x03808, 2, Need::Any, "GL"),
    Row(0x03814, 10, Need::Pipe3d, "GL"),
    Row(0x0384C, 3, Need::Pipe3d, "GL"),
    Row(0x03860, 1, Need::Pipe3d, "GL.BUG_FIXES"),
    Row(0x0386C, 1, Need::Halti5, "GL.FENCE_OUT_DATA_LOW"),
    Row(0x03884, 2, Need::Halti5, "GL"),
    Row(0x03898, 2, Need::Halti5, "GL"),
    Row(0x038C0, 16, Need::Halti5, "GL.SHADER_ATTRIBUTES"),
    Row(0x03A00, 3, Need::Halti5, "GL"),
    Row(0x03C00, 1, Need::Any, "GL"),
    // Instructions and uniforms, in all their places.
    Row(0x04000, 0x3000, Need::Pipe3d, "SH"),
    Row(0x10000, 320, Need::Halti1, "NTE"),
    Row(0x10500, 192, Need::Halti2, "NTE"),
    Row(0x12000, 512, Need::TextureFilter, "NTE"),
    Row(0x12800, 96, Need::MultiSource, "DE"),
    Row(0x12A00, 192, Need::MultiSourceEx, "DE"),
    Row(0x12FA0, 16, Need::FastClearSource, "DE"),
    Row(0x14640, 32, Need::Halti2, "NFE"),
    Row(0x146C0, 16, Need::Halti5, "NFE.ROBUSTNESS"),
    Row(0x14900, 8, Need::Halti2, "PE"),
    Row(0x14920, 48, Need::Halti5, "PE"),
    Row(0x14C00, 19, Need::Halti5, "NTE"),
    Row(0x15600, 2, Need::Halti5, "SH"),
    Row(0x15A00, 128, Need::Halti5, "NTE"),
    Row(0x15E00, 128 + 640, Need::Halti5, "NTE"),
    Row(0x16C00, 640, Need::Halti5, "NTE"),
    Row(0x17800, 192, Need::Halti5, "NFE"),
    Row(0x20000, 0x4000, Need::LargeInstructions, "SH"),
    Row(0x30000, 2048, Need::CommonUniforms, "SH"),
    // The same twice: the first is a mirror.
    Row(0x34000, 4096, Need::Halti5, "SH"),
    Row(0x3FFFC, 1, Need::Any, "DUMMY"),
];

/// States that carry data: colors, palettes, brushes, kernels, numbers, instructions. A draw that
/// loads none of them shows what the process before has left. What says how to draw is not here.
pub(crate) const DATA: [Row; 31] = [
    Row(0x01218, 2, Need::Pipe2d, "DE.SRC_COLOR"),
    Row(0x01240, 6, Need::Pipe2d, "DE.PATTERN"),
    Row(0x01270, 2, Need::Pipe2d, "DE.CLEAR_PIXEL_VALUE"),
    Row(0x012C0, 4, Need::Pipe2d, "DE.CLEAR_PIXEL_VALUE32"),
    Row(0x012DC, 2, Need::Pipe2d, "DE.COLOR_KEY_HIGH"),
    Row(0x01800, 128, Need::Pipe2d, "DE.FILTER_KERNEL"),
    Row(0x01C00, 256, Need::Pipe2d, "DE.INDEX_COLOR_TABLE"),
    Row(0x02800, 256, Need::Pipe2d, "DE.FILTER_KERNELS"),
    Row(0x03400, 256, Need::Pipe2d, "DE.INDEX_COLOR_TABLE32"),
    Row(0x12800, 96, Need::MultiSource, "DE.BLOCK4"),
    Row(0x12A00, 192, Need::MultiSourceEx, "DE.BLOCK8"),
    Row(0x006C0, 64, Need::Pipe3d, "FE.GENERIC_ATTRIB"),
    Row(0x01424, 1, Need::Pipe3d, "PE.ALPHA_BLEND_COLOR"),
    Row(0x014B0, 2, Need::Pipe3d, "PE.ALPHA_COLOR_EXT"),
    Row(0x01640, 4, Need::Pipe3d, "RS.FILL_VALUE"),
    Row(0x01660, 1, Need::Pipe3d, "TS.COLOR_CLEAR_VALUE"),
    Row(0x0166C, 1, Need::Pipe3d, "TS.DEPTH_CLEAR_VALUE"),
    Row(0x016A8, 1, Need::Pipe3d, "TS.HDEPTH_CLEAR_VALUE"),
    Row(0x016BC, 1, Need::Pipe3d, "TS.COLOR_CLEAR_VALUE_EXT"),
    Row(0x01760, 16, Need::Pipe3d, "TS.SAMPLER_CLEAR_VALUE"),
    Row(0x01A00, 24, Need::Halti2, "TS.RT_CLEAR_VALUE"),
    Row(0x12000, 512, Need::TextureFilter, "NTE.FILTER_KERNEL"),
    Row(0x04000, 1024, Need::OwnInstructions, "VS.INST_MEM"),
    Row(0x06000, 1024, Need::OwnInstructions, "PS.INST_MEM"),
    Row(0x0C000, 4096, Need::SharedInstructions, "SH.INST_MEM"),
    Row(0x20000, 0x4000, Need::LargeInstructions, "SH.INST_MEM"),
    Row(0x05000, 1024, Need::Pipe3d, "VS.UNIFORMS"),
    Row(0x07000, 1024, Need::Pipe3d, "PS.UNIFORMS"),
    Row(0x30000, 2048, Need::CommonUniforms, "SH.UNIFORMS"),
    Row(0x17880, 128, Need::Halti5, "NFE.GENERIC_ATTRIB"),
    Row(0x36000, 2048, Need::Halti5, "SH.UNIFORMS"),
];

/// Of newer cores only: for their names. The first that fits.
const NEWER: [Row; 10] = [
    Row(0x01114, 1, Need::Newer, "GS.INST_ADDR"),
    Row(0x03854, 64, Need::Newer, "GL"),
    Row(0x14000, 1, Need::Newer, "BLT.SRC_ADDR"),
    Row(0x14018, 1, Need::Newer, "BLT.DEST_ADDR"),
    Row(0x14000, 207, Need::Newer, "BLT"),
    Row(0x14A00, 20, Need::Newer, "TCS"),
    Row(0x14B00, 24, Need::Newer, "TES"),
    Row(0x14C00, 2816, Need::Newer, "NTE"),
    Row(0x1C000, 1024, Need::Newer, "TFB"),
    Row(0x30000, 0x3000, Need::Newer, "SH"),
];

/// Those that do something when they are loaded, or are in every stream: for their names.
const COMMON: [Row; 8] = [
    Row(0x01600, 1, Need::Any, "RS.KICKER"),
    Row(0x016B0, 1, Need::Any, "RS.KICKER_INPLACE"),
    Row(0x00920, 1, Need::Any, "CL.KICKER"),
    Row(0x01294, 1, Need::Any, "DE.VR_CONFIG"),
    Row(0x03800, 1, Need::Any, "GL.PIPE_SELECT"),
    Row(0x03808, 1, Need::Any, "GL.SEMAPHORE_TOKEN"),
    Row(0x0380C, 1, Need::Any, "GL.FLUSH_CACHE"),
    Row(0x03C00, 1, Need::Any, "GL.STALL_TOKEN"),
];

/// Those that only the kernel loads: for their names. The first that fits.
const KERNELS: [Row; 7] = [
    Row(0x00180, 1, Need::Any, "MMUv2.SAFE_ADDRESS"),
    Row(0x00184, 1, Need::Any, "MMUv2.CONFIGURATION"),
    Row(0x00000, 0x180, Need::Any, "HI"),
    Row(0x00640, 1, Need::Any, "FE.CMD_STREAM_BASE_ADDR"),
    Row(0x00654, 7, Need::Any, "FE"),
    Row(0x03804, 1, Need::Any, "GL.EVENT"),
    Row(0x03810, 1, Need::Any, "GL.FLUSH_MMU"),
];

/// The name of state `address` (a word address), or of its block.
pub(crate) fn name(address: u32) -> Option<&'static str> {
    let byte = address << 2;
    let holds = |row: &&Row| byte.checked_sub(row.0).is_some_and(|at| at >> 2 < row.1);
    let tables: [&[Row]; 5] = [&ADDRESSES, &COMMON, &OTHERS, &KERNELS, &NEWER];
    tables.into_iter().flatten().find(holds).map(|row| row.3)
}

/// Bits 31:27 of a command's first word.
pub(crate) mod opcode {
    /// `LOAD_STATE`.
    pub(crate) const LOAD_STATE: u32 = 1;
    /// `DRAW_2D`.
    pub(crate) const DRAW_2D: u32 = 4;
    /// `DRAW_PRIMITIVES`.
    pub(crate) const DRAW_PRIMITIVES: u32 = 5;
    /// `DRAW_INDEXED`.
    pub(crate) const DRAW_INDEXED: u32 = 6;
    /// `DRAW_INSTANCED`.
    pub(crate) const DRAW_INSTANCED: u32 = 12;
}

/// Bit of a `LOAD_STATE` header: values are 16.16 numbers, to be converted to floating point.
pub(crate) const FIXP: u32 = 1 << 26;

/// The states that whole commands load, in order, with what they are loaded with, and whether that
/// is converted.
pub(crate) fn loads(words: &[u32]) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
    let mut rest = words;
    let commands = core::iter::from_fn(move || {
        let command = rest;
        // CAST: 32 bits into at least 32.
        rest = rest.get(length(*rest.first()?) as usize..).unwrap_or(&[]);
        Some(command)
    });
    let is_load =
        |command: &&[u32]| matches!(command, [first, ..] if first >> 27 == opcode::LOAD_STATE);
    commands.filter(is_load).flat_map(|command| {
        let header = command[0];
        // CAST: at most 1024.
        let values = command[1..].iter().take(load_count(header) as usize);
        let states = (header & 0xFFFF..).zip(values);
        states.map(move |(state, &value)| (state, value, header & FIXP != 0))
    })
}

/// Values of a `LOAD_STATE`.
#[inline]
pub(crate) fn load_count(first: u32) -> u32 {
    match (first >> 16) & 0x3FF {
        0 => 1024,
        count => count,
    }
}

/// Rectangles of a `DRAW_2D`.
#[inline]
pub(crate) fn rectangles(first: u32) -> u32 {
    match (first >> 8) & 0xFF {
        0 => 256,
        count => count,
    }
}

/// Words of the command that begins with `first`; of one that is not known 2, as all begin on 8
/// bytes.
pub(crate) fn length(first: u32) -> u32 {
    match first >> 27 {
        opcode::LOAD_STATE => (1 + load_count(first)).next_multiple_of(2),
        opcode::DRAW_2D => 2 + 2 * rectangles(first) + ((first >> 16) & 0x7FF).next_multiple_of(2),
        opcode::DRAW_INDEXED => 6,
        opcode::DRAW_PRIMITIVES | opcode::DRAW_INSTANCED => 4,
        _ => 2,
    }
}

/// States: the first and the last word address, and what they are for. The first that fits.
const STATES: [(u32, u32, &str); 49] = [
    (0xA00, 0xA00, "control"),
    (0xA01, 0xA01, "window origin"),
    (0xA02, 0xA02, "colour"),
    (0xA03, 0xA09, "paint"),
    (0xA10, 0xA10, "target format"),
    (0xA11, 0xA11, "target address"),
    (0xA12, 0xA12, "target stride"),
    (0xA13, 0xA13, "target size"),
    (0xA1B, 0xA1B, "flush"),
    (0xA18, 0xA22, "image matrix"),
    (0xA24, 0xA24, "image 1 format"),
    (0xA25, 0xA25, "image 0 format"),
    (0xA26, 0xA26, "image 1 background"),
    (0xA27, 0xA27, "image 0 background"),
    (0xA28, 0xA28, "image 1 address"),
    (0xA29, 0xA29, "image 0 address"),
    (0xA2A, 0xA2A, "image 1 stride"),
    (0xA2B, 0xA2B, "image 0 stride"),
    (0xA2C, 0xA2C, "image 1 origin"),
    (0xA2D, 0xA2D, "image 0 origin"),
    (0xA2E, 0xA2E, "image 1 size"),
    (0xA2F, 0xA2F, "image 0 size"),
    (0xA30, 0xA30, "tessellation buffer, read"),
    (0xA31, 0xA31, "tessellation level 1, read"),
    (0xA32, 0xA32, "tessellation level 2, read"),
    (0xA33, 0xA33, "tessellation stride, read"),
    (0xA34, 0xA34, "tessellator"),
    (0xA35, 0xA35, "tessellation buffer, written"),
    (0xA36, 0xA36, "tessellation level 1, written"),
    (0xA37, 0xA37, "tessellation level 2, written"),
    (0xA38, 0xA38, "tessellation stride, written"),
    (0xA39, 0xA39, "tessellation origin"),
    (0xA3A, 0xA3A, "tessellation size"),
    (0xA3B, 0xA3B, "path scale"),
    (0xA3C, 0xA3C, "path bias"),
    (0xA3D, 0xA3D, "tessellation level 2 size"),
    (0xA40, 0xA45, "path matrix"),
    (0xA50, 0xA50, "image 1 plane 1 address"),
    (0xA51, 0xA51, "image 0 plane 1 address"),
    (0xA52, 0xA52, "image 1 plane 2 address"),
    (0xA53, 0xA53, "image 0 plane 2 address"),
    (0xA5C, 0xA5C, "target plane 1 address"),
    (0xA5D, 0xA5D, "target plane 2 address"),
    (0xA90, 0xA97, "colour key"),
    (0xE01, 0xE01, "event"),
    (0xE02, 0xE02, "semaphore"),
    (0xE04, 0xE04, "MMU flush"),
    (0xF00, 0xF00, "stall"),
    (0xA00, 0xAFF, "vector graphics"),
];

/// The name of state `address` (a word address).
pub(crate) fn vector_name(address: u32) -> Option<&'static str> {
    let mut states = STATES.iter();
    let found = states.find(|&&(first, last, _)| (first..=last).contains(&address));
    found.map(|&(_, _, name)| name)
}
