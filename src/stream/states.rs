// SPDX-License-Identifier: GPL-2.0-only

//! Which states a client may load, by what its core has.
//!
//! Pure logic. A state that is in neither [`ADDRESSES`] nor [`OTHERS`], or that the core is not
//! known to have, is refused: it may hold a GPU address that would not be checked. Names are those
//! of the register database (rnndb), and so are the facts: which states there are, which hold GPU
//! addresses, what has them; besides, sources.md, contexts, command stream. Of a state that a core
//! lacks, silicon takes no notice, so within a block rows are not finer than there is a reason for.
//!
//! Once for each core they become sets of bits ([`States`]): the check of a stream asks those. Most
//! of the file is the table.

use super::{
    bounds::{
        self,
        Target, //
    },
    checker::Engines,
    words::{
        state,
        Pipe, //
    }, //
};
use crate::hw::{
    identity,
    Identity, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a core must have for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
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
struct Row(u32, u32, Need, &'static str);

/// States that hold GPU addresses.
const ADDRESSES: [Row; 55] = [
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
const OTHERS: [Row; 83] = [
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
    // Tile status, YUV tiler, resolve by pipes.
    Row(0x01650, 84, Need::Pipe3d, "TS"),
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
const DATA: [Row; 31] = [
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
const NEWER: [(u32, u32, &str); 10] = [
    (0x01114, 1, "GS.INST_ADDR"),
    (0x03854, 64, "GL"),
    (0x14000, 1, "BLT.SRC_ADDR"),
    (0x14018, 1, "BLT.DEST_ADDR"),
    (0x14000, 207, "BLT"),
    (0x14A00, 20, "TCS"),
    (0x14B00, 24, "TES"),
    (0x14C00, 2816, "NTE"),
    (0x1C000, 1024, "TFB"),
    (0x30000, 0x3000, "SH"),
];

/// States of tile status that hold physical addresses, on cores with the old memory controller.
pub(crate) const fn is_physical(address: u32) -> bool {
    matches!(address, 0x596 | 0x597 | 0x599 | 0x59A | 0x5A9)
}

/// The pipe that state `address` (a word address) belongs to.
pub(crate) fn pipe_of(address: u32) -> Pipe {
    match address << 2 {
        0x1200..0x1400
        | 0x1800..0x1A00
        | 0x1C00..0x2000
        | 0x2800..0x2C00
        | 0x3400..0x3800
        | 0x1_2800..0x1_3000 => Pipe::Pipe2d,
        _ => Pipe::Pipe3d,
    }
}

/// Whether only the kernel loads state `address` (a word address).
pub(crate) const fn is_kernel_state(address: u32) -> bool {
    (address >= 2 && address < state::FIRST_ENGINE)
        || address == state::FE_CMD_STREAM_BASE_ADDR
        || (address >= state::FE_COMMAND_ADDRESS && address <= state::FE_DMA_HIGH)
        || address == state::GL_EVENT
        || address == state::GL_FLUSH_MMU
}

/// States that the checker follows, whatever they hold.
const CONTROL: [u32; 9] = [
    0,
    1,
    state::RS_KICKER,
    state::RS_KICKER_INPLACE,
    state::CL_KICKER,
    state::DE_VR_CONFIG,
    state::GL_PIPE_SELECT,
    state::GL_SEMAPHORE_TOKEN,
    state::GL_STALL_TOKEN,
];

/// Loading one of these has the 3D engine write to the address of another state: the end of an
/// occlusion query, and of a fence.
pub(crate) const WRITES: [u32; 2] = [state::word(0x3830), state::word(0x386C)];

/// Those that do something when they are loaded, or are in every stream: for their names.
const COMMON: [(u32, u32, &str); 8] = [
    (0x01600, 1, "RS.KICKER"),
    (0x016B0, 1, "RS.KICKER_INPLACE"),
    (0x00920, 1, "CL.KICKER"),
    (0x01294, 1, "DE.VR_CONFIG"),
    (0x03800, 1, "GL.PIPE_SELECT"),
    (0x03808, 1, "GL.SEMAPHORE_TOKEN"),
    (0x0380C, 1, "GL.FLUSH_CACHE"),
    (0x03C00, 1, "GL.STALL_TOKEN"),
];

/// Those that only the kernel loads: for their names. The first that fits.
const KERNELS: [(u32, u32, &str); 7] = [
    (0x00180, 1, "MMUv2.SAFE_ADDRESS"),
    (0x00184, 1, "MMUv2.CONFIGURATION"),
    (0x00000, 0x180, "HI"),
    (0x00640, 1, "FE.CMD_STREAM_BASE_ADDR"),
    (0x00654, 7, "FE"),
    (0x03804, 1, "GL.EVENT"),
    (0x03810, 1, "GL.FLUSH_MMU"),
];

/// The name of state `address` (a word address), or of its block.
pub(crate) fn name(address: u32) -> Option<&'static str> {
    let byte = address << 2;
    let holds = |first: u32, count: u32| byte.wrapping_sub(first) >> 2 < count && byte >= first;
    let row = |rows: &'static [Row]| rows.iter().find(|row| holds(row.0, row.1)).map(|row| row.3);
    let rest = |rows: &'static [(u32, u32, &str)]| {
        let mut rows = rows.iter();
        rows.find(|row| holds(row.0, row.1)).map(|row| row.2)
    };
    row(&ADDRESSES)
        .or_else(|| rest(&COMMON))
        .or_else(|| row(&OTHERS))
        .or_else(|| rest(&KERNELS))
        .or_else(|| rest(&NEWER))
}

/// A bit for each of the 65536 states.
type StateSet = [u32; SET_WORDS];

/// Words of a set.
const SET_WORDS: usize = 2048;

const fn include(mut set: StateSet, first: u32, count: u32) -> StateSet {
    let mut address = first;
    while address < first + count {
        set[(address >> 5) as usize] |= 1 << (address & 31);
        address += 1;
    }
    set
}

const fn address_states() -> StateSet {
    let mut set = [0; SET_WORDS];
    let mut i = 0;
    while i < ADDRESSES.len() {
        set = include(set, state::word(ADDRESSES[i].0), ADDRESSES[i].1);
        i += 1;
    }
    set
}

/// A multiple of 32 that no state which takes a GPU address reaches.
pub(crate) const ADDRESSES_END: usize = {
    let (mut end, mut i) = (0, 0);
    while i < ADDRESSES.len() {
        let after = state::word(ADDRESSES[i].0) + ADDRESSES[i].1;
        end = if after > end { after } else { end };
        i += 1;
    }
    // CAST: 16 bits.
    end.next_multiple_of(32) as usize
};

/// States that take a GPU address, on some core.
static ADDRESS: StateSet = address_states();

fn is_in(set: &StateSet, address: u32) -> bool {
    // CAST: 11 bits.
    set[((address >> 5) & 0x7FF) as usize] >> (address & 31) & 1 != 0
}

/// Whether state `address` (a word address below 65536) takes a GPU address.
pub(crate) fn takes_address(address: u32) -> bool {
    is_in(&ADDRESS, address)
}

/// What a core has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Features {
    engines: Engines,
    pe20: bool,
    minor2: u32,
    minor3: u32,
    instructions: u32,
    constants: u32,
    halti2: bool,
    halti5: bool,
    pixel_pipes: u32,
    has_2_bits_per_tile: bool,
}

impl Features {
    fn of(identity: &Identity) -> Self {
        Self {
            engines: Engines {
                pipe_3d: identity.has_3d(),
                pipe_2d: identity.has_2d(),
            },
            pe20: identity.has_pe20(),
            minor2: identity.minor_features[2],
            minor3: identity.minor_features[3],
            instructions: identity.instruction_count,
            constants: identity.num_constants,
            halti2: identity.has_halti2(),
            halti5: identity.has_halti5(),
            pixel_pipes: identity.pixel_pipes,
            has_2_bits_per_tile: identity.has_2_bits_per_tile(),
        }
    }

    fn meets(&self, need: Need) -> bool {
        let has_3d = self.engines.pipe_3d;
        let has_2d = self.engines.pipe_2d;
        match need {
            Need::Any => true,
            Need::Pipe3d => has_3d,
            Need::Pipe2d => has_2d,
            Need::MultiSource => has_2d && self.minor2 & identity::MINOR2_2D_MULTI_SOURCE_BLIT != 0,
            Need::MultiSourceEx => {
                has_2d && self.minor3 & identity::MINOR3_2D_MULTI_SOURCE_BLT_EX != 0
            }
            Need::FastClearSource => has_2d && self.minor3 & identity::MINOR3_2D_FC_SOURCE != 0,
            // HALTI5 has descriptors instead.
            Need::Halti1 => has_3d && self.minor2 & identity::MINOR2_HALTI1 != 0 && !self.halti5,
            Need::Halti2 => has_3d && self.halti2,
            Need::TextureFilter => has_3d && self.minor2 & identity::MINOR2_TX_FILTER != 0,
            Need::InstructionCache => {
                has_3d && self.minor3 & identity::MINOR3_INSTRUCTION_CACHE != 0
            }
            Need::LargeInstructions => has_3d && self.instructions > 1024,
            Need::CommonUniforms => has_3d && self.constants > 256,
            Need::OwnInstructions => has_3d && self.instructions <= 256,
            Need::SharedInstructions => has_3d && matches!(self.instructions, 257..=1024),
            Need::Halti5 => has_3d && self.halti5,
            Need::Newer => false,
        }
    }
}

/// The states of a core.
pub(crate) struct States {
    engines: Engines,
    /// Those that the checker looks at: control states, addresses, and those that are refused.
    special: KVVec<u32>,
    /// Those that take a GPU address and that the core has.
    address: KVVec<u32>,
    /// Those that carry data and that the core has.
    data: KVVec<u32>,
    /// The special ones, those of the 2D pipe that carry data, those that say how far an engine
    /// writes, and [`WRITES`]: these are noted.
    watched: KVVec<u32>,
    /// Of a core whose writes are bounded: how to begin.
    target: Option<Target>,
    /// The state that says where the resolve engine draws to.
    resolve_target: u32,
}

/// Sets or clears `count` bits from `first` on.
pub(crate) fn mark(set: &mut [u32], first: u32, count: u32, value: bool) {
    for address in first..first + count {
        // CAST: 11 bits.
        if let Some(word) = set.get_mut((address >> 5) as usize) {
            let bit = 1 << (address & 31);
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

/// The states of a set, in their order.
pub(crate) fn members(set: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    (0u32..).zip(set).flat_map(|(index, word)| {
        (0..32)
            .filter(move |bit| word >> bit & 1 != 0)
            .map(move |bit| index * 32 + bit)
    })
}

impl States {
    /// The states of a core; `bounds`: how far the 2D engine and the resolve engine go is looked at. `ENOMEM`.
    pub(crate) fn new(identity: &Identity, bounds: bool) -> Result<Arc<Self>> {
        let states = Self::of(&Features::of(identity), bounds)?;
        Ok(Arc::new(states, GFP_KERNEL)?)
    }

    fn of(features: &Features, bounds: bool) -> Result<Self> {
        let mut special = KVVec::from_elem(u32::MAX, SET_WORDS, GFP_KERNEL)?;
        let mut address = KVVec::from_elem(0, SET_WORDS, GFP_KERNEL)?;
        for &Row(byte, count, need, _) in &OTHERS {
            if features.meets(need) {
                mark(&mut special, state::word(byte), count, false);
            }
        }
        for &Row(byte, count, need, _) in &ADDRESSES {
            mark(&mut special, state::word(byte), count, true);
            mark(&mut address, state::word(byte), count, features.meets(need));
        }
        for state in CONTROL {
            mark(&mut special, state, 1, true);
        }
        let mut data = KVVec::from_elem(0, SET_WORDS, GFP_KERNEL)?;
        for &Row(byte, count, need, _) in &DATA {
            let count = match need {
                // An instruction has four words.
                Need::SharedInstructions | Need::LargeInstructions => {
                    count.min(features.instructions.saturating_mul(4))
                }
                _ => count,
            };
            mark(&mut data, state::word(byte), count, features.meets(need));
        }
        for (data, special) in data.iter_mut().zip(&special) {
            // Nothing that clients may not load.
            *data &= !special;
        }
        let mut watched = KVVec::with_capacity(SET_WORDS, GFP_KERNEL)?;
        watched.extend_from_slice(&special, GFP_KERNEL)?;
        let of_2d = |address: &u32| pipe_of(*address) == Pipe::Pipe2d;
        for address in members(data.iter().copied()).filter(of_2d) {
            mark(&mut watched, address, 1, true);
        }
        // Of these the checker only notes that they come. A core without them refuses them.
        for state in WRITES {
            mark(&mut watched, state, 1, true);
        }
        let target = bounds.then(|| {
            Target::new(bounds::Engines {
                turns: features.pe20,
                pixel_pipes: features.pixel_pipes,
                halti5: features.meets(Need::Halti5),
                has_2_bits_per_tile: features.has_2_bits_per_tile,
            })
        });
        let mut watch = |address| mark(&mut watched, address, 1, true);
        if bounds && features.engines.pipe_2d {
            bounds::looked_at_2d().for_each(&mut watch);
        }
        if bounds && features.engines.pipe_3d {
            bounds::looked_at_3d().for_each(watch);
        }
        Ok(Self {
            engines: features.engines,
            special,
            address,
            data,
            watched,
            target,
            resolve_target: match features.pixel_pipes {
                0 | 1 => state::RS_DEST_ADDR,
                _ => state::RS_PIPE_DEST_ADDR,
            },
        })
    }

    /// The state that says where the resolve engine draws to.
    pub(crate) fn resolve_target(&self) -> u32 {
        self.resolve_target
    }

    /// The pipes of the core.
    pub(crate) fn engines(&self) -> Engines {
        self.engines
    }

    /// For the check of one stream.
    pub(crate) fn sets(&self) -> Option<Sets<'_>> {
        Some(Sets {
            engines: self.engines,
            resolve_target: self.resolve_target,
            special: self.special.as_slice().try_into().ok()?,
            address: self.address.as_slice().try_into().ok()?,
            watched: self.watched.as_slice().try_into().ok()?,
            target: self.target.as_ref(),
        })
    }

    /// The states that take a GPU address, in their order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.address.iter().copied())
    }

    /// Those and the ones that carry data, in their order.
    pub(crate) fn addresses_and_data(&self) -> impl Iterator<Item = u32> + '_ {
        let both = self.address.iter().zip(&self.data);
        members(both.map(|(address, data)| address | data))
    }
}

/// The states of a core, for quick looks.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a> {
    /// The pipes of the core.
    pub(crate) engines: Engines,
    /// The state that says where the resolve engine draws to.
    pub(crate) resolve_target: u32,
    special: &'a StateSet,
    address: &'a StateSet,
    watched: &'a StateSet,
    /// The engines' targets before the first load; `None`: nothing bounds draws.
    pub(crate) target: Option<&'a Target>,
}

impl Sets<'_> {
    /// Whether the checker must look at state `address` (16 bits).
    pub(crate) fn is_special(&self, address: u32) -> bool {
        is_in(self.special, address)
    }

    /// Whether state `address` (16 bits) takes a GPU address, and the core has it.
    pub(crate) fn takes_address(&self, address: u32) -> bool {
        is_in(self.address, address)
    }

    /// Whether state `address` (16 bits) is special, or carries data of the 2D pipe, or says how far
    /// that writes.
    pub(crate) fn is_watched(&self, address: u32) -> bool {
        is_in(self.watched, address)
    }

    /// Whether any of `count` states (1 to 1024) from `first` on is watched, all below 65536.
    pub(crate) fn any_watched(&self, first: u32, count: u32) -> bool {
        let last = first + count - 1;
        let from = u32::MAX << (first & 31);
        let to = u32::MAX >> (31 - (last & 31));
        // CAST: 11 bits.
        let (head, tail) = ((first >> 5) as usize, (last >> 5) as usize);
        if head == tail {
            return self.watched[head & 0x7FF] & from & to != 0;
        }
        self.watched[head & 0x7FF] & from != 0
            || self.watched[tail & 0x7FF] & to != 0
            || self
                .watched
                .get(head + 1..tail)
                .is_some_and(|words| words.iter().any(|&word| word != 0))
    }
}

/// Cores for tests.
#[cfg(CONFIG_KUNIT)]
pub(crate) mod cores {
    use super::*;

    /// What a core has, all that the driver knows of.
    pub(crate) const ALL: u32 = u32::MAX;

    fn states(engines: Engines, minor2: u32, minor3: u32, halti2: bool) -> States {
        States::of(&features(engines, minor2, minor3, halti2), false).unwrap()
    }

    fn features(engines: Engines, minor2: u32, minor3: u32, halti2: bool) -> Features {
        Features {
            engines,
            pe20: true,
            minor2,
            minor3,
            instructions: if minor2 == ALL { 2048 } else { 512 },
            constants: if halti2 { 320 } else { 168 },
            halti2,
            halti5: false,
            pixel_pipes: 1,
            has_2_bits_per_tile: false,
        }
    }

    /// One with several pixel pipes.
    pub(crate) fn two_pixel_pipes() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: false,
        };
        let mut features = features(engines, 0, 0, false);
        features.pixel_pipes = 2;
        States::of(&features, false).unwrap()
    }

    /// One with everything, whose draws are bounded.
    pub(crate) fn bounded() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: true,
        };
        States::of(&features(engines, ALL, ALL, true), true).unwrap()
    }

    /// One with everything.
    pub(crate) fn both() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: true,
        };
        states(engines, ALL, ALL, true)
    }

    /// As the GC600 of a dove.
    pub(crate) fn dove() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: true,
        };
        states(engines, 0, 0, false)
    }

    /// As the GC3000 of an i.MX6QP.
    pub(crate) fn imx6qp() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: false,
        };
        states(engines, 0xEB9D_4BBF, 0xEDFF_DCED, true)
    }

    /// As the GC7000UL of an i.MX8M Plus.
    pub(crate) fn imx8mp() -> States {
        let engines = Engines {
            pipe_3d: true,
            pipe_2d: false,
        };
        let mut features = features(engines, 0xEB9D_4FBF, 0xEDFF_FCED, true);
        features.halti5 = true;
        States::of(&features, false).unwrap()
    }

    /// As a GC320.
    pub(crate) fn gc320() -> States {
        let engines = Engines {
            pipe_3d: false,
            pipe_2d: true,
        };
        states(engines, 0, 0, false)
    }
}

#[kernel::macros::kunit_tests(galcore_states)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Class {
        Free,
        Address,
        Control,
        Refused,
    }

    fn class(states: &States, byte: u32) -> Class {
        let sets = states.sets().unwrap();
        let address = state::word(byte);
        match sets.is_special(address) {
            false => Class::Free,
            true if sets.takes_address(address) => Class::Address,
            true if CONTROL.contains(&address) => Class::Control,
            true => Class::Refused,
        }
    }

    #[test]
    fn a_core_has_its_own_states() {
        let cores = [
            cores::dove(),
            cores::imx6qp(),
            cores::gc320(),
            cores::imx8mp(),
        ];
        use Class::{Address, Control, Free, Refused};
        for (byte, wanted) in [
            (0x0000, [Control, Control, Control, Control]),
            (0x0008, [Refused, Refused, Refused, Refused]),
            (0x0600, [Free, Free, Refused, Free]),
            (0x0640, [Refused, Refused, Refused, Refused]),
            (0x0644, [Address, Address, Refused, Address]),
            (0x0654, [Refused, Refused, Refused, Refused]),
            (0x07F8, [Refused, Refused, Refused, Free]),
            (0x086C, [Refused, Address, Refused, Address]),
            (0x0884, [Free, Free, Refused, Free]),
            (0x3860, [Free, Free, Refused, Free]),
            (0x0920, [Control, Control, Control, Control]),
            (0x1114, [Refused, Refused, Refused, Refused]),
            (0x1228, [Address, Refused, Address, Refused]),
            (0x1294, [Control, Control, Control, Control]),
            (0x12D8, [Free, Refused, Free, Refused]),
            (0x132C, [Refused, Refused, Refused, Refused]),
            (0x1658, [Address, Address, Refused, Address]),
            (0x17C0, [Refused, Address, Refused, Address]),
            (0x1A80, [Refused, Refused, Refused, Address]),
            (0x1C00, [Free, Refused, Free, Refused]),
            (0x3800, [Control, Control, Control, Control]),
            (0x3804, [Refused, Refused, Refused, Refused]),
            (0x380C, [Free, Free, Free, Free]),
            (0x3810, [Refused, Refused, Refused, Refused]),
            (0x3824, [Address, Address, Refused, Address]),
            (0x3868, [Refused, Refused, Refused, Address]),
            (0x4000, [Free, Free, Refused, Free]),
            (0xFFFC, [Free, Free, Refused, Free]),
            (0x10800, [Refused, Address, Refused, Refused]),
            (0x12000, [Refused, Refused, Refused, Refused]),
            (0x12800, [Refused, Refused, Refused, Refused]),
            (0x12EE0, [Refused, Refused, Refused, Refused]),
            (0x14000, [Refused, Refused, Refused, Refused]),
            (0x14600, [Refused, Address, Refused, Address]),
            (0x14A08, [Refused, Refused, Refused, Refused]),
            (0x1C008, [Refused, Refused, Refused, Refused]),
            (0x07DC, [Refused, Refused, Refused, Refused]),
            (0x3904, [Refused, Refused, Refused, Refused]),
            (0x15BFC, [Refused, Refused, Refused, Free]),
            (0x15DFC, [Refused, Refused, Refused, Address]),
            (0x17800, [Refused, Refused, Refused, Free]),
            (0x36000, [Refused, Refused, Refused, Free]),
            (0x3FFFC, [Free, Free, Free, Free]),
        ] {
            for (states, wanted) in cores.iter().zip(wanted) {
                assert_eq!(class(states, byte), wanted);
            }
        }
    }

    #[test]
    fn no_address_is_let_through_unseen() {
        for states in [
            cores::both(),
            cores::dove(),
            cores::imx6qp(),
            cores::gc320(),
            cores::imx8mp(),
        ] {
            let sets = states.sets().unwrap();
            for address in 0..0x1_0000 {
                // What the kernel keeps and what is an address is looked at on every core.
                if is_kernel_state(address) || takes_address(address) {
                    assert!(sets.is_special(address));
                }
                if sets.takes_address(address) {
                    assert!(takes_address(address) && !is_kernel_state(address));
                    assert!(states.engines().has(pipe_of(address)));
                }
            }
            let listed = states.addresses();
            let counted = (0..0x1_0000u32).filter(|&address| sets.takes_address(address));
            assert!(listed.eq(counted));
        }
    }

    #[test]
    fn loads_of_many_are_as_each() {
        let states = cores::dove();
        let sets = states.sets().unwrap();
        let mut random = 1u32;
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = 1 + ((random >> 3) & 0x7F);
            let first = (random >> 12) % (0x1_0000 - count);
            let any = (first..first + count).any(|address| sets.is_watched(address));
            assert_eq!(sets.any_watched(first, count), any);
        }
    }

    #[test]
    fn states_have_names() {
        for (byte, wanted) in [
            (0x1228, Some("DE.DEST_ADDRESS")),
            (0x16DC, Some("RS.PIPE_SOURCE_ADDR")),
            (0x3868, Some("GL.FENCE_OUT_ADDRESS")),
            (0x1A80, Some("TS.SAMPLER_SURFACE_BASE")),
            (0x14A08, Some("TCS")),
            (0x1C008, Some("TFB")),
            (0x140A4, Some("BLT")),
            (0x1400, Some("PE")),
            (0x1600, Some("RS.KICKER")),
            (0x3800, Some("GL.PIPE_SELECT")),
            (0x3FFC, None),
        ] {
            assert_eq!(name(state::word(byte)), wanted);
        }
    }
}
