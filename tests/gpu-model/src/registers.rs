// SPDX-License-Identifier: GPL-2.0-only
//! Registers and states of the model: byte offsets, with the names of the register database (rnndb).
//!
//! The host accesses host registers (below 0x800) by MMIO. States are accessible only through LOAD_STATE. They are
//! named by their byte address here (word address = byte address / 4).

/// Size of the register file in bytes. The 256 KiB block has no registers above it.
pub const REGISTER_FILE_BYTES: u32 = 0x800;

/// Declares byte offsets.
macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: u32 = $value;)*
    };
}

offsets! {
    /// Clock gating, scaling, soft reset, isolation; idle bits 16 to 18.
    HI_CLOCK_CONTROL = 0x000;
    /// One bit per module, 1 = idle.
    HI_IDLE_STATE = 0x004;
    /// AXI cache attributes.
    HI_AXI_CONFIG = 0x008;
    /// AXI errors.
    HI_AXI_STATUS = 0x00c;
    /// Pending interrupts; a read clears them.
    HI_INTR_ACKNOWLEDGE = 0x010;
    /// Interrupt enable mask.
    HI_INTR_ENBL = 0x014;
    /// Family, product and revision of the oldest cores.
    HI_CHIP_IDENTITY = 0x018;
    /// Feature word.
    HI_CHIP_FEATURE = 0x01c;
    /// Model number, e.g. 0x2000 for GC2000.
    HI_CHIP_MODEL = 0x020;
    /// Revision.
    HI_CHIP_REV = 0x024;
    /// Design date, BCD.
    HI_CHIP_DATE = 0x028;
    /// Design time, BCD.
    HI_CHIP_TIME = 0x02c;
    /// Customer.
    HI_CHIP_CUSTOMER_ID = 0x030;
    /// Minor features 0.
    HI_CHIP_MINOR_FEATURE_0 = 0x034;
    /// Cache control.
    HI_CACHE_CONTROL = 0x038;
    /// 1 holds the memory counters at 0.
    HI_MEMORY_COUNTER_RESET = 0x03c;
    /// Reads in units of 8 bytes.
    HI_PROFILE_READ_BYTES8 = 0x040;
    /// Writes in units of 8 bytes.
    HI_PROFILE_WRITE_BYTES8 = 0x044;
    /// Specifications 1.
    HI_CHIP_SPECS = 0x048;
    /// First of the burst and request counters.
    HI_PROFILE_WRITE_BURSTS = 0x04c;
    /// Last of the burst and request counters.
    HI_PROFILE_READ_LASTS = 0x060;
    /// General purpose output, not connected.
    HI_GP_OUT0 = 0x064;
    /// General purpose output, not connected.
    HI_GP_OUT2 = 0x06c;
    /// AXI burst control.
    HI_AXI_CONTROL = 0x070;
    /// Minor features 1.
    HI_CHIP_MINOR_FEATURE_1 = 0x074;
    /// Cycles since the last reset of this counter.
    HI_PROFILE_TOTAL_CYCLES = 0x078;
    /// Idle cycles since the last reset of this counter.
    HI_PROFILE_IDLE_CYCLES = 0x07c;
    /// Specifications 2.
    HI_CHIP_SPECS_2 = 0x080;
    /// Minor features 2.
    HI_CHIP_MINOR_FEATURE_2 = 0x084;
    /// Minor features 3.
    HI_CHIP_MINOR_FEATURE_3 = 0x088;
    /// Specifications 3.
    HI_CHIP_SPECS_3 = 0x08c;
    /// Compression flags.
    HI_COMPRESSION_FLAGS = 0x090;
    /// Minor features 4.
    HI_CHIP_MINOR_FEATURE_4 = 0x094;
    /// Specifications 4.
    HI_CHIP_SPECS_4 = 0x09c;
    /// Minor features 5.
    HI_CHIP_MINOR_FEATURE_5 = 0x0a0;
    /// Product id.
    HI_CHIP_PRODUCT_ID = 0x0a8;
    /// Minor features 6.
    HI_CHIP_MINOR_FEATURE_6 = 0x0dc;
    /// ECO id.
    HI_CHIP_ECO_ID = 0x0e8;
    /// Module clock gating.
    PM_POWER_CONTROLS = 0x100;
    /// Per-module gating disable.
    PM_MODULE_CONTROLS = 0x104;
    /// Gated modules.
    PM_MODULE_STATUS = 0x108;
    /// Pulse eater.
    PM_PULSE_EATER = 0x10c;
    /// Load counters of the pulse eater.
    PM_LOAD_0 = 0x110;
    /// Load counters of the pulse eater.
    PM_LOAD_1 = 0x114;
    /// MMU v2: safe address for accesses without a page. Loaded through the front end.
    MMUV2_SAFE_ADDRESS = 0x180;
    /// MMU v2: first-level table, mode, flush. Loaded through the front end.
    MMUV2_CONFIGURATION = 0x184;
    /// MMU v2: causes of exceptions, four bits per unit.
    MMUV2_STATUS = 0x188;
    /// MMU v2: `[0]` enable, until the next reset.
    MMUV2_CONTROL = 0x18c;
    /// MMU v2: address of the last exception, one word per unit.
    MMUV2_EXCEPTION_ADDR = 0x190;
    /// MMU v2: last of its registers.
    MMUV2_LAST = 0x19c;
    /// Secure MMU: index of the entry in the page table array. Loaded through the front end.
    MMUV2_PTA_CONFIG = 0x1ac;
    /// Secure MMU: address of the last exception.
    MMUV2_SEC_EXCEPTION_ADDR = 0x380;
    /// Secure MMU: causes of exceptions, four bits per unit.
    MMUV2_SEC_STATUS = 0x384;
    /// Secure MMU: `[0]` enable, until the next reset.
    MMUV2_SEC_CONTROL = 0x388;
    /// Secure MMU: address of the page table array, low word.
    MMUV2_PTA_ADDRESS_LOW = 0x38c;
    /// Secure MMU: bits 39:32 of the array's address.
    MMUV2_PTA_ADDRESS_HIGH = 0x390;
    /// Secure MMU: `[0]` enables the array.
    MMUV2_PTA_CONTROL = 0x394;
    /// Secure MMU: safe address for accesses without a page.
    MMUV2_NONSEC_SAFE_ADDR_LOW = 0x398;
    /// Secure MMU: bits 39:32 of the safe addresses.
    MMUV2_SAFE_ADDRESS_CONFIG = 0x3a0;
    /// Secure MMU: a write after FE_COMMAND_CONTROL starts the front end.
    MMUV2_SEC_COMMAND_CONTROL = 0x3a4;
    /// Secure MMU: `[0]` resets the core (replaces the soft reset); `[1]` permits non-secure accesses.
    MMUV2_AHB_CONTROL = 0x3a8;
    /// MMU v1 page table of the front end (physical address).
    MC_MMU_FE_PAGE_TABLE = 0x400;
    /// MMU v1 page table of the texture units.
    MC_MMU_TX_PAGE_TABLE = 0x404;
    /// MMU v1 page table of the pixel engine's color port.
    MC_MMU_PE_PAGE_TABLE = 0x408;
    /// MMU v1 page table of the pixel engine's depth port.
    MC_MMU_PEZ_PAGE_TABLE = 0x40c;
    /// MMU v1 page table of the rasterizer.
    MC_MMU_RA_PAGE_TABLE = 0x410;
    /// Memory controller switches.
    MC_DEBUG_MEMORY = 0x414;
    /// Memory base of the rasterizer (physical address of GPU address 0).
    MC_MEMORY_BASE_ADDR_RA = 0x418;
    /// Memory base of the front end.
    MC_MEMORY_BASE_ADDR_FE = 0x41c;
    /// Memory base of the texture units.
    MC_MEMORY_BASE_ADDR_TX = 0x420;
    /// Memory base of the depth port.
    MC_MEMORY_BASE_ADDR_PEZ = 0x424;
    /// Memory base of the color port.
    MC_MEMORY_BASE_ADDR_PE = 0x428;
    /// Memory timing.
    MC_MEMORY_TIMING_CONTROL = 0x42c;
    /// Memory flush.
    MC_MEMORY_FLUSH = 0x430;
    /// Cycle counter, writable.
    MC_PROFILE_CYCLE_COUNTER = 0x438;
    /// Debug words of the memory controller.
    MC_DEBUG_READ0 = 0x43c;
    /// Debug words of the memory controller.
    MC_DEBUG_WRITE = 0x444;
    /// First of the profile ports.
    MC_PROFILE_RA_READ = 0x448;
    /// Texture profile port.
    MC_PROFILE_TX_READ = 0x44c;
    /// Front end profile port.
    MC_PROFILE_FE_READ = 0x450;
    /// Pixel engine profile port.
    MC_PROFILE_PE_READ = 0x454;
    /// Drawing engine profile port.
    MC_PROFILE_DE_READ = 0x458;
    /// Shader profile port.
    MC_PROFILE_SH_READ = 0x45c;
    /// Primitive assembly profile port.
    MC_PROFILE_PA_READ = 0x460;
    /// Setup engine profile port.
    MC_PROFILE_SE_READ = 0x464;
    /// Memory controller profile port.
    MC_PROFILE_MC_READ = 0x468;
    /// Host interface profile port, the last one.
    MC_PROFILE_HI_READ = 0x46c;
    /// Profile selectors of FE, DE, PE, SH, from bit 0 up, one byte each.
    MC_PROFILE_CONFIG0 = 0x470;
    /// Profile selectors: PA, SE, RA, TX.
    MC_PROFILE_CONFIG1 = 0x474;
    /// Profile selectors: MC, HI.
    MC_PROFILE_CONFIG2 = 0x478;
    /// Bus configuration of FE and TX.
    MC_BUS_CONFIG = 0x480;
    /// FE 2.0 (VG cores) fetch address.
    VG_FETCH_ADDRESS = 0x500;
    /// FE 2.0 (VG cores) fetch count.
    VG_FETCH_COUNT = 0x504;
    /// FE 2.0 (VG cores) current address.
    VG_FETCH_CURRENT = 0x508;
    /// Starts the composition engine.
    START_COMPOSITION = 0x554;
    /// 128-byte merge.
    MERGE_128_BYTES = 0x558;
    /// Start address of the front end; write-only.
    FE_COMMAND_ADDRESS = 0x654;
    /// Starts or stops the front end: `[15:0]` prefetch in 8-byte units, `[16]` enable.
    FE_COMMAND_CONTROL = 0x658;
    /// DMA status.
    FE_DMA_STATUS = 0x65c;
    /// DMA debug state.
    FE_DMA_DEBUG_STATE = 0x660;
    /// Current address of the command decoder.
    FE_DMA_ADDRESS = 0x664;
    /// Last fetched word 0.
    FE_DMA_LOW = 0x668;
    /// Last fetched word 1.
    FE_DMA_HIGH = 0x66c;
}

/// Bit 12 of [`HI_CLOCK_CONTROL`]: soft reset.
pub const CLOCK_CONTROL_SOFT_RESET: u32 = 1 << 12;
/// Bit 19 of [`HI_CLOCK_CONTROL`]: isolate the GPU from the bus.
pub const CLOCK_CONTROL_ISOLATE_GPU: u32 = 1 << 19;
/// Bits 0 and 1 of [`HI_CLOCK_CONTROL`]: turn the 3D and 2D clocks off.
pub const CLOCK_CONTROL_CLK_DIS: u32 = 3;
/// Bit 1 of [`HI_CLOCK_CONTROL`] is the clock of a VG core.
pub const CLOCK_CONTROL_VG_CLK_DIS: u32 = 2;
/// Bits 16 to 18 of [`HI_CLOCK_CONTROL`]: 3D, 2D and VG idle.
pub const CLOCK_CONTROL_IDLE: u32 = 0x7_0000;
/// Bits 8:2 of [`HI_CLOCK_CONTROL`]: the divider, in 64ths of the clock.
pub const CLOCK_CONTROL_SCALE: (u32, u32) = (2, 0x7f);
/// Bit 9 of [`HI_CLOCK_CONTROL`] loads the divider.
pub const CLOCK_CONTROL_LOAD: u32 = 1 << 9;
/// The full clock in 64ths.
pub const FULL_SCALE: u32 = 64;
/// Stored bits of [`HI_CLOCK_CONTROL`]: `[11:0]`, soft reset, `[19]`, `[23:20]`.
pub const CLOCK_CONTROL_STORED: u32 = 0x00f8_1fff;

/// All idle bits of [`HI_IDLE_STATE`]. Bit 31 (AXI low power) is not an idle bit.
pub const IDLE_STATE_ALL: u32 = 0x7fff_ffff;
/// All idle bits of the first cores, which have no other modules.
pub const IDLE_STATE_FIRST_ALL: u32 = 0xff;
/// Front end bit of [`HI_IDLE_STATE`].
pub const IDLE_STATE_FE: u32 = 1 << 0;
/// Drawing engine bit.
pub const IDLE_STATE_DE: u32 = 1 << 1;
/// Pixel engine bit.
pub const IDLE_STATE_PE: u32 = 1 << 2;

/// Bits of [`MMUV2_CONFIGURATION`].
pub mod mmuv2_configuration {
    /// The first-level table has 1 KiB instead of 4 KiB.
    pub const MODE: u32 = 1 << 0;
    /// Keeps the mode.
    pub const MODE_MASK: u32 = 1 << 3;
    /// Flushes all translations...
    pub const FLUSH: u32 = 1 << 4;
    /// ...unless this is set.
    pub const FLUSH_MASK: u32 = 1 << 7;
    /// Keeps the table's address.
    pub const ADDRESS_MASK: u32 = 1 << 8;
    /// Physical address of the table.
    pub const ADDRESS: u32 = !0x3ff;
}
/// Bit of [`MMUV2_AHB_CONTROL`]: reset.
pub const AHB_CONTROL_RESET: u32 = 1 << 0;
/// Bit of [`MMUV2_AHB_CONTROL`]: permits non-secure accesses.
pub const AHB_CONTROL_NONSEC_ACCESS: u32 = 1 << 1;
/// Bit of [`MMUV2_CONTROL`] and [`MMUV2_SEC_CONTROL`]: enables translation.
pub const MMUV2_CONTROL_ENABLE: u32 = 1 << 0;

/// Vector graphics bit of [`HI_IDLE_STATE`].
pub const IDLE_STATE_VG: u32 = 1 << 8;
/// Tessellator bit.
pub const IDLE_STATE_TS: u32 = 1 << 11;
/// [`HI_IDLE_STATE`] of an idle VG core: FE, PE, VG, IM, FP, TS.
pub const IDLE_STATE_VG_ALL: u32 = 0xf05;

/// Interrupt bit 30: MMU v2 exception.
pub const INTR_MMU_EXCEPTION: u32 = 1 << 30;
/// Interrupt bit 31: AXI bus error.
pub const INTR_AXI_BUS_ERROR: u32 = 1 << 31;
/// Reset value of [`PM_PULSE_EATER`].
pub const PULSE_EATER_RESET: u32 = 0x0159_0880;
/// Enable bit of [`FE_COMMAND_CONTROL`].
pub const COMMAND_CONTROL_ENABLE: u32 = 1 << 16;

/// Values of the low five bits of [`FE_DMA_DEBUG_STATE`].
pub mod dma_state {
    /// Not running.
    pub const IDLE: u32 = 0;
    /// Decoding.
    pub const DEC: u32 = 1;
    /// In a WAIT.
    pub const WAIT: u32 = 18;
    /// In a LINK.
    pub const LINK: u32 = 19;
    /// At an END.
    pub const END: u32 = 20;
    /// In a STALL.
    pub const STALL: u32 = 21;
}

/// States: byte addresses in the state space.
pub mod state {
    offsets! {
        /// First state that is not a host register.
        FIRST = 0x0600;
        /// Vertex elements: type, stream, components, offset.
        FE_VERTEX_ELEMENT_CONFIG = 0x0600;
        /// One past the last vertex element.
        FE_VERTEX_ELEMENT_END = 0x0640;
        /// Base address of the index stream.
        FE_INDEX_STREAM_BASE_ADDR = 0x0644;
        /// Size of an index, primitive restart.
        FE_INDEX_STREAM_CONTROL = 0x0648;
        /// Base address of the only vertex stream of early cores.
        FE_VERTEX_STREAM_BASE_ADDR = 0x064c;
        /// Stride of that stream.
        FE_VERTEX_STREAM_CONTROL = 0x0650;
        /// The index that starts a new strip, fan or loop.
        FE_PRIMITIVE_RESTART_INDEX = 0x0674;
        /// Base addresses of 8 vertex streams.
        FE_VERTEX_STREAMS_BASE_ADDR = 0x0680;
        /// Strides and divisors of the 8 streams.
        FE_VERTEX_STREAMS_CONTROL = 0x06a0;
        /// Base addresses of 16 vertex streams (HALTI2).
        NFE_VERTEX_STREAMS_BASE_ADDR = 0x1_4600;
        /// Strides of the 16 streams.
        NFE_VERTEX_STREAMS_CONTROL = 0x1_4640;
        /// Divisors of the 16 streams.
        NFE_VERTEX_STREAMS_DIVISOR = 0x1_4680;
        /// Vertex shader: number of instructions, on cores without [`VS_RANGE`].
        VS_END_PC = 0x0800;
        /// Vertex shader: number of outputs.
        VS_OUTPUT_COUNT = 0x0804;
        /// Vertex shader: number of inputs; `[31]` one more input for vertex and instance.
        VS_INPUT_COUNT = 0x0808;
        /// Vertex shader: number of temporaries.
        VS_TEMP_REGISTER_CONTROL = 0x080c;
        /// Vertex shader: temporaries of the outputs.
        VS_OUTPUT = 0x0810;
        /// Vertex shader: temporaries of the inputs.
        VS_INPUT = 0x0820;
        /// Vertex shader: first instruction, on cores without [`VS_RANGE`].
        VS_START_PC = 0x0838;
        /// Vertex shader: first and last instruction.
        VS_RANGE = 0x085c;
        /// Vertex shader: start of its constants among those of both shaders (HALTI1).
        VS_UNIFORM_BASE = 0x0864;
        /// `[0]` shader code comes from memory.
        VS_ICACHE_CONTROL = 0x0868;
        /// Address of the vertex shader's code, if it comes from memory.
        VS_INST_ADDR = 0x086c;
        /// Vertex shader: first instruction (HALTI1). An alternative to [`VS_RANGE`].
        VS_NEWRANGE_LOW = 0x0874;
        /// Vertex shader: last instruction (HALTI1).
        VS_NEWRANGE_HIGH = 0x0878;
        /// Pixel shader: first instruction (HALTI1). An alternative to [`PS_RANGE`].
        PS_NEWRANGE_LOW = 0x087c;
        /// Pixel shader: last instruction (HALTI1).
        PS_NEWRANGE_HIGH = 0x0880;
        /// Viewport: scale of x, y, z.
        PA_VIEWPORT_SCALE = 0x0a00;
        /// Viewport: offset of x, y, z.
        PA_VIEWPORT_OFFSET = 0x0a0c;
        /// Half of a line's width.
        PA_LINE_WIDTH = 0x0a18;
        /// Half of a point's size.
        PA_POINT_SIZE = 0x0a1c;
        /// `[0]` the last vertex is the provoking one, `[4]` pixel centers are at halves.
        PA_SYSTEM_MODE = 0x0a28;
        /// The smallest w that is not clipped.
        PA_W_CLIP_LIMIT = 0x0a2c;
        /// Points, culling, fill, shading.
        PA_CONFIG = 0x0a34;
        /// Half of a wide line's width.
        PA_WIDE_LINE_WIDTH = 0x0a38;
        /// Per varying: `[0]` smooth, overrides [`PA_CONFIG`].
        PA_SHADER_ATTRIBUTES = 0x0a40;
        /// `[30]` depth is not converted.
        PA_FLAGS = 0x0a88;
        /// Scissor: left, top, right, bottom, as floats.
        SE_SCISSOR = 0x0c00;
        /// Polygon offset, multiplied by the slope.
        SE_DEPTH_SCALE = 0x0c10;
        /// Polygon offset.
        SE_DEPTH_BIAS = 0x0c14;
        /// `[0]` lines include their last pixel.
        SE_CONFIG = 0x0c18;
        /// `[0]` depth is tested before the pixel shader.
        RA_EARLY_DEPTH = 0x0e08;
        /// Pixel shader: number of instructions, on cores without [`PS_RANGE`].
        PS_END_PC = 0x1000;
        /// Pixel shader: temporary of the color output.
        PS_OUTPUT_REG = 0x1004;
        /// Pixel shader: number of inputs.
        PS_INPUT_COUNT = 0x1008;
        /// Pixel shader: number of temporaries.
        PS_TEMP_REGISTER_CONTROL = 0x100c;
        /// `[10:8]` number of additional render targets.
        PS_CONTROL = 0x1010;
        /// Pixel shader: first instruction, on cores without [`PS_RANGE`].
        PS_START_PC = 0x1018;
        /// Pixel shader: first and last instruction, counted from the start of the vertex shader's memory.
        PS_RANGE = 0x101c;
        /// Pixel shader: start of its constants among those of both shaders (HALTI1).
        PS_UNIFORM_BASE = 0x1024;
        /// Address of the pixel shader's code, if it comes from memory.
        PS_INST_ADDR = 0x1028;
        /// Depth test, buffer and write.
        PE_DEPTH_CONFIG = 0x1400;
        /// Depth buffer of a core with one pixel pipe.
        PE_DEPTH_ADDR = 0x1410;
        /// Bytes per row of the depth buffer.
        PE_DEPTH_STRIDE = 0x1414;
        /// Stencil functions and operations, front and back.
        PE_STENCIL_OP = 0x1418;
        /// Stencil mode; reference, mask and write mask, front.
        PE_STENCIL_CONFIG = 0x141c;
        /// Alpha test.
        PE_ALPHA_OP = 0x1420;
        /// Constant color of blending.
        PE_ALPHA_BLEND_COLOR = 0x1424;
        /// Blending.
        PE_ALPHA_CONFIG = 0x1428;
        /// Color format and components.
        PE_COLOR_FORMAT = 0x142c;
        /// Color buffer of a core with one pixel pipe.
        PE_COLOR_ADDR = 0x1430;
        /// Bytes per row of the color buffer.
        PE_COLOR_STRIDE = 0x1434;
        /// Color buffers of the pixel pipes.
        PE_PIPE_COLOR_ADDR = 0x1460;
        /// Depth buffers of the pixel pipes.
        PE_PIPE_DEPTH_ADDR = 0x1480;
        /// Stencil reference, back.
        PE_STENCIL_CONFIG_EXT = 0x14a0;
        /// Logic operation; sharing of one buffer by the pipes.
        PE_LOGIC_OP = 0x14a4;
        /// Dither table, two words; all ones = off.
        PE_DITHER = 0x14a8;
        /// Stencil mask and write mask, back.
        PE_STENCIL_CONFIG_EXT2 = 0x14b8;
        /// First of the front end's command registers, which a stream can never load.
        FE_COMMAND_FIRST = 0x0654;
        /// Last of the front end's command registers.
        FE_COMMAND_LAST = 0x066c;
        /// Base address of the 2D source surface.
        DE_SRC_ADDRESS = 0x1200;
        /// Stride of the source in bytes, `[17:0]`.
        DE_SRC_STRIDE = 0x1204;
        /// Source rotation: `[16]` enable.
        DE_SRC_ROTATION_CONFIG = 0x1208;
        /// Source format and switches.
        DE_SRC_CONFIG = 0x120c;
        /// Source origin: `[15:0]` x, `[31:16]` y.
        DE_SRC_ORIGIN = 0x1210;
        /// Size of the source in stretched blits: `[15:0]` width, `[31:16]` height.
        DE_SRC_SIZE = 0x1214;
        /// Background color; transparent color of the source.
        DE_SRC_COLOR_BG = 0x1218;
        /// Foreground color.
        DE_SRC_COLOR_FG = 0x121c;
        /// Horizontal stretch factor, 15.16.
        DE_STRETCH_FACTOR_LOW = 0x1220;
        /// Vertical stretch factor, 15.16.
        DE_STRETCH_FACTOR_HIGH = 0x1224;
        /// Base address of the destination.
        DE_DEST_ADDRESS = 0x1228;
        /// Stride of the destination in bytes, `[17:0]`.
        DE_DEST_STRIDE = 0x122c;
        /// Destination rotation: `[16]` enable.
        DE_DEST_ROTATION_CONFIG = 0x1230;
        /// Destination format, command, switches.
        DE_DEST_CONFIG = 0x1234;
        /// Base address of the 8 x 8 pixels of a pattern.
        DE_PATTERN_ADDRESS = 0x1238;
        /// Pattern: format, `[4]` 0 = solid color, origin.
        DE_PATTERN_CONFIG = 0x123c;
        /// Monochrome pattern, rows 0 to 3.
        DE_PATTERN_LOW = 0x1240;
        /// Monochrome pattern, rows 4 to 7.
        DE_PATTERN_HIGH = 0x1244;
        /// Mask of a pattern, rows 0 to 3.
        DE_PATTERN_MASK_LOW = 0x1248;
        /// Mask of a pattern, rows 4 to 7.
        DE_PATTERN_MASK_HIGH = 0x124c;
        /// Pattern background color.
        DE_PATTERN_BG_COLOR = 0x1250;
        /// Pattern foreground color.
        DE_PATTERN_FG_COLOR = 0x1254;
        /// Raster operation.
        DE_ROP = 0x125c;
        /// Clip rectangle, inclusive corner.
        DE_CLIP_TOP_LEFT = 0x1260;
        /// Clip rectangle, exclusive corner.
        DE_CLIP_BOTTOM_RIGHT = 0x1264;
        /// PE10 clear: mask of eight bytes.
        DE_CLEAR_BYTE_MASK = 0x1268;
        /// Mirroring.
        DE_CONFIG = 0x126c;
        /// PE10 clear: bytes 0 to 3.
        DE_CLEAR_PIXEL_VALUE_LOW = 0x1270;
        /// PE10 clear: bytes 4 to 7.
        DE_CLEAR_PIXEL_VALUE_HIGH = 0x1274;
        /// Fraction of the source's origin, for filters in parts.
        DE_SRC_ORIGIN_FRACTION = 0x1278;
        /// Alpha blending: `[0]` enable; PE10: global alpha values.
        DE_ALPHA_CONTROL = 0x127c;
        /// Alpha and blending modes.
        DE_ALPHA_MODES = 0x1280;
        /// Base address of the source's U plane.
        DE_UPLANE_ADDRESS = 0x1284;
        /// Stride of the U plane in bytes.
        DE_UPLANE_STRIDE = 0x1288;
        /// Base address of the source's V plane.
        DE_VPLANE_ADDRESS = 0x128c;
        /// Stride of the V plane in bytes.
        DE_VPLANE_STRIDE = 0x1290;
        /// Kicks the video rasterizer.
        DE_VR_CONFIG = 0x1294;
        /// Video rasterizer: left and top of the source image.
        DE_VR_SOURCE_IMAGE_LOW = 0x1298;
        /// Right and bottom of the source image.
        DE_VR_SOURCE_IMAGE_HIGH = 0x129c;
        /// Source origin, x, 16.16.
        DE_VR_SOURCE_ORIGIN_LOW = 0x12a0;
        /// Source origin, y, 16.16.
        DE_VR_SOURCE_ORIGIN_HIGH = 0x12a4;
        /// Left and top of the target window.
        DE_VR_TARGET_WINDOW_LOW = 0x12a8;
        /// Right and bottom of the target window.
        DE_VR_TARGET_WINDOW_HIGH = 0x12ac;
        /// PE debug switches, masked.
        DE_PE_CONFIG = 0x12b0;
        /// Height of the destination, for rotation.
        DE_DEST_ROTATION_HEIGHT = 0x12b4;
        /// Height of the source, for rotation.
        DE_SRC_ROTATION_HEIGHT = 0x12b8;
        /// Rotation and mirror, masked.
        DE_ROT_ANGLE = 0x12bc;
        /// PE20 clear color, A8R8G8B8.
        DE_CLEAR_PIXEL_VALUE32 = 0x12c0;
        /// PE20: global source color and alpha.
        DE_GLOBAL_SRC_COLOR = 0x12c8;
        /// PE20: global destination color and alpha.
        DE_GLOBAL_DEST_COLOR = 0x12cc;
        /// PE20: selects the colors that are multiplied by alpha.
        DE_COLOR_MULTIPLY_MODES = 0x12d0;
        /// Transparency, masked.
        DE_PE_TRANSPARENCY = 0x12d4;
        /// YUV switches, masked.
        DE_PE_CONTROL = 0x12d8;
        /// PE20: last transparent color of the source.
        DE_SRC_COLOR_KEY_HIGH = 0x12dc;
        /// Dither thresholds, rows 0 and 1; all ones = off.
        DE_PE_DITHER_LOW = 0x12e8;
        /// Dither thresholds, rows 2 and 3.
        DE_PE_DITHER_HIGH = 0x12ec;
        /// Source tiling extensions.
        DE_SRC_EX_CONFIG = 0x1300;
        /// First state of the 2D engine.
        DE_FIRST = 0x1200;
        /// One past the last 2D state that a draw uses.
        DE_END = 0x1330;
        /// Planes written by a conversion from YUV to YUV; 0: no conversion.
        DE_DEYUV_CONVERSION = 0x130c;
        /// Coefficients of the filter blit: two per word, 17 rows of 9.
        DE_FILTER_KERNEL = 0x1800;
        /// One past the coefficients.
        DE_FILTER_KERNEL_END = 0x1a00;
        /// PE10: 256 colors in the destination's format.
        DE_INDEX_COLOR_TABLE = 0x1c00;
        /// PE20: 256 colors, A8R8G8B8.
        DE_INDEX_COLOR_TABLE32 = 0x3400;
        /// Starts a resolve.
        RS_KICKER = 0x1600;
        /// Formats and tilings of a resolve.
        RS_CONFIG = 0x1604;
        /// Source address.
        RS_SOURCE_ADDR = 0x1608;
        /// Source stride.
        RS_SOURCE_STRIDE = 0x160c;
        /// Destination address.
        RS_DEST_ADDR = 0x1610;
        /// Destination stride.
        RS_DEST_STRIDE = 0x1614;
        /// Window: `[31:16]` height, `[15:0]` width in source pixels.
        RS_WINDOW_SIZE = 0x1620;
        /// Dither table, two words; all ones = off.
        RS_DITHER = 0x1630;
        /// Clear mode and bits.
        RS_CLEAR_CONTROL = 0x163c;
        /// Four fill values.
        RS_FILL_VALUE = 0x1640;
        /// Flushes the tile status cache.
        TS_FLUSH_CACHE = 0x1650;
        /// Tile status switches.
        TS_MEM_CONFIG = 0x1654;
        /// Address of the color tile status.
        TS_COLOR_STATUS_BASE = 0x1658;
        /// Surface of the color tile status.
        TS_COLOR_SURFACE_BASE = 0x165c;
        /// Color value of cleared tiles.
        TS_COLOR_CLEAR_VALUE = 0x1660;
        /// Address of the depth tile status.
        TS_DEPTH_STATUS_BASE = 0x1664;
        /// Surface of the depth tile status.
        TS_DEPTH_SURFACE_BASE = 0x1668;
        /// Depth value of cleared tiles.
        TS_DEPTH_CLEAR_VALUE = 0x166c;
        /// YUV tiler: `[0]` enable, `[5:4]` format of the planes, `[8]` swap U and V.
        YUV_CONFIG = 0x1678;
        /// Window: `[31:16]` height, `[15:0]` width in pixels.
        YUV_WINDOW_SIZE = 0x167c;
        /// Address of the Y plane. The next state is its stride.
        YUV_Y_BASE = 0x1680;
        /// Address and stride of the U plane, or of the plane of U and V.
        YUV_U_BASE = 0x1688;
        /// Address and stride of the V plane.
        YUV_V_BASE = 0x1690;
        /// Address and stride of the target.
        YUV_DEST_BASE = 0x1698;
        /// Anti-aliasing `[1:0]`, endianness `[9:8]`.
        RS_EXTRA_CONFIG = 0x16a0;
        /// In-place resolve of GC3000 and up: fills the cleared tiles among the first n tiles.
        RS_KICKER_INPLACE = 0x16b0;
        /// `[0]` the pipes share one surface, `[1]` downsampling takes the first pixel.
        RS_SINGLE_BUFFER = 0x16b8;
        /// Source addresses of the pixel pipes.
        RS_PIPE_SOURCE_ADDR = 0x16c0;
        /// Destination addresses of the pixel pipes.
        RS_PIPE_DEST_ADDR = 0x16e0;
        /// Window offsets of the pixel pipes: `[31:16]` y, `[15:0]` x.
        RS_PIPE_OFFSET = 0x1700;
        /// First state of resolve and tile status.
        RS_FIRST = 0x1600;
        /// One past the last state that a resolve uses.
        RS_END = 0x1720;
        /// 0 = 3D pipe, 1 = 2D pipe.
        GL_PIPE_SELECT = 0x3800;
        /// Raises an event.
        GL_EVENT = 0x3804;
        /// Arms a semaphore.
        GL_SEMAPHORE_TOKEN = 0x3808;
        /// Flushes caches.
        GL_FLUSH_CACHE = 0x380c;
        /// Flushes TLBs (MMU v1), one bit per port.
        GL_FLUSH_MMU = 0x3810;
        /// Samples, `[1:0]`.
        GL_MULTI_SAMPLE_CONFIG = 0x3818;
        /// Number of components of the varyings, 4 bits each: varyings 0 to 7.
        GL_VARYING_NUM_COMPONENTS = 0x3820;
        /// Starts an occlusion query that writes to this address.
        GL_OCCLUSION_QUERY_ADDR = 0x3824;
        /// Use of each component of a varying, 2 bits each: varyings 0 to 3, then 4 to 7.
        GL_VARYING_COMPONENT_USE = 0x3828;
        /// Ends an occlusion query.
        GL_OCCLUSION_QUERY_CONTROL = 0x3830;
        /// Number of components of varyings 8 to 15.
        GL_VARYING_NUM_COMPONENTS2 = 0x3834;
        /// Use of the components of varyings 8 to 11.
        GL_VARYING_COMPONENT_USE2 = 0x3838;
        /// Use of the components of varyings 12 to 15.
        GL_VARYING_COMPONENT_USE3 = 0x3854;
        /// Constants of the vertex shader.
        VS_UNIFORMS = 0x5000;
        /// Constants of the pixel shader.
        PS_UNIFORMS = 0x7000;
        /// Constants of both shaders (HALTI1).
        SH_UNIFORMS = 0x3_0000;
        /// Instructions of the vertex shader, on cores with 256 of them.
        VS_INST_MEM = 0x4000;
        /// Instructions of the pixel shader, on cores with 256 of them.
        PS_INST_MEM = 0x6000;
        /// Instructions of both shaders, on other cores.
        SH_INST_MEM_MIRROR = 0x8000;
        /// One past these instructions.
        SH_INST_MEM_MIRROR_END = 0xa000;
        /// Another address of the same instruction memory.
        SH_INST_MEM = 0xc000;
        /// One past these instructions.
        SH_INST_MEM_END = 0xe000;
        /// Makes a module other than FE wait for a semaphore.
        GL_STALL_TOKEN = 0x3c00;
    }

    /// States of VG cores: word addresses of pipe 0.
    pub mod vg {
        offsets! {
            /// `[1:0]` primitive, `[11:8]` blend, `[28]` premultiply the color.
            CONTROL = 0xa00;
            /// Color, `0xAABBGGRR`.
            COLOR = 0xa02;
            /// Format of the target.
            TARGET_FORMAT = 0xa10;
            /// Address of the target.
            TARGET_ADDRESS = 0xa11;
            /// Stride of the target in bytes, `[28]` tiled.
            TARGET_STRIDE = 0xa12;
            /// Target: `[31:16]` height, `[15:0]` width.
            TARGET_SIZE = 0xa13;
            /// Flushes caches.
            FLUSH = 0xa1b;
            /// Address of image 1.
            IMAGE_1 = 0xa28;
            /// Address of image 0.
            IMAGE_0 = 0xa29;
            /// Tessellation buffer and its two levels, for reads by VG.
            TS_READ = 0xa30;
            /// Stride of the tessellation buffer for reads by VG.
            TS_READ_STRIDE = 0xa33;
            /// Tessellator: 0 = off.
            TESSELLATOR = 0xa34;
            /// Tessellation buffer and its two levels, for writes by the tessellator.
            TS_WRITE = 0xa35;
            /// Stride of the tessellation buffer for writes.
            TS_WRITE_STRIDE = 0xa38;
            /// Tessellation buffer: `[31:16]` height, `[15:0]` width.
            TS_SIZE = 0xa3a;
            /// Size of the tessellation buffer's second level, in units of 64 bytes.
            TS_LEVEL_2 = 0xa3d;
            /// First address of the images' planes.
            PLANES = 0xa50;
            /// First address of the target's additional planes.
            TARGET_PLANES = 0xa5c;
            /// Raises an event: `[4:0]` id, `[12:8]` module.
            EVENT = 0xe01;
            /// Arms a semaphore between modules: `[4:0]` from, `[12:8]` to.
            SEMAPHORE = 0xe02;
            /// Flushes the MMU.
            FLUSH_MMU = 0xe04;
            /// Makes a module wait for a semaphore.
            STALL = 0xf00;
        }
    }

    /// Number of words in the state space (16-bit word addresses).
    pub const WORDS: usize = 0x1_0000;

    /// Reset value of the state at a byte address.
    pub fn at_reset(address: u32) -> u32 {
        match address {
            // The database says of these states: "Set all fields to their reset values".
            DE_PE_DITHER_LOW | DE_PE_DITHER_HIGH => u32::MAX,
            _ => 0,
        }
    }

    /// Bit of [`TS_MEM_CONFIG`]: enables fast clear of depth by tile status.
    pub const TS_DEPTH_FAST_CLEAR: u32 = 1 << 0;
    /// Bit of [`TS_MEM_CONFIG`]: enables fast clear of color by tile status.
    pub const TS_COLOR_FAST_CLEAR: u32 = 1 << 1;
    /// Reset value of [`TS_MEM_CONFIG`].
    pub const TS_MEM_CONFIG_RESET: u32 = 0x0020_0000;
    /// Bits of [`GL_FLUSH_CACHE`] that write back the pixel engine's data: depth, color, 2D.
    pub const FLUSH_CACHE_PIXELS: u32 = 0b1011;
    /// Bits of [`GL_FLUSH_CACHE`] that drop the texture units' data for pixel and vertex shaders.
    pub const FLUSH_CACHE_TEXTURES: u32 = 0b1_0100;
    /// [`GL_EVENT`]: fires when the front end executes it.
    pub const EVENT_FROM_FE: u32 = 1 << 5;
    /// [`GL_EVENT`]: fires when the pixel engine has drained.
    pub const EVENT_FROM_PE: u32 = 1 << 6;
}
