// SPDX-License-Identifier: GPL-2.0-only
//! States that the streams of this crate load: byte addresses and values, with the names of the register database
//! (rnndb, `state.xml`, `state_2d.xml`).

/// Delay: a state without effect.
pub const NONE: u32 = 0x0000;

/// 2D source address.
pub const DE_SRC_ADDRESS: u32 = 0x1200;
/// 2D source x and y.
pub const DE_SRC_ORIGIN: u32 = 0x1210;
/// 2D background and foreground colour (2 words).
pub const DE_SRC_COLOR_BG: u32 = 0x1218;
/// 2D destination address, stride, rotation, config (4 words).
pub const DE_DEST_ADDRESS: u32 = 0x1228;
/// 2D raster operation.
pub const DE_ROP: u32 = 0x125c;
/// 2D clipping window, top left and bottom right (2 words).
pub const DE_CLIP_TOP_LEFT: u32 = 0x1260;
/// Clear of old 2D engines: byte mask, config, value low and high (4 words).
pub const DE_CLEAR_BYTE_MASK: u32 = 0x1268;
/// 2D alpha blending control.
pub const DE_ALPHA_CONTROL: u32 = 0x127c;
/// Clear colour of new 2D engines.
pub const DE_CLEAR_PIXEL_VALUE32: u32 = 0x12c0;
/// 2D transparency.
pub const DE_PE_TRANSPARENCY: u32 = 0x12d4;
/// 2D pixel engine control.
pub const DE_PE_CONTROL: u32 = 0x12d8;
/// DE_DEST_CONFIG: command, bits 15:12.
pub mod dest_command {
    /// Fill with the clear value.
    pub const CLEAR: u32 = 0 << 12;
    /// Bresenham line.
    pub const LINE: u32 = 1 << 12;
    /// Copy.
    pub const BIT_BLT: u32 = 2 << 12;
}
/// A8R8G8B8 in DE_DEST_CONFIG and the resolve engine.
pub const FORMAT_A8R8G8B8: u32 = 6;
/// DE_SRC_CONFIG: A8R8G8B8 in the fields of old (3:0) and new (28:24) engines.
pub const SRC_CONFIG_A8R8G8B8: u32 = FORMAT_A8R8G8B8 << 24 | FORMAT_A8R8G8B8;
/// DE_ROP: copy the source, for foreground and background, ROP4.
pub const ROP_COPY: u32 = 0x0030_cccc;
/// DE_ROP: source exclusive-or target.
pub const ROP_XOR: u32 = 0x0030_6666;

/// Resolve: config.
pub const RS_CONFIG: u32 = 0x1604;
/// Resolve: source address of a core with one pixel pipe, then its stride (2 words).
pub const RS_SOURCE_ADDR: u32 = 0x1608;
/// Resolve: source stride.
pub const RS_SOURCE_STRIDE: u32 = 0x160c;
/// Resolve: destination address of a core with one pixel pipe.
pub const RS_DEST_ADDR: u32 = 0x1610;
/// Resolve: destination stride.
pub const RS_DEST_STRIDE: u32 = 0x1614;
/// Resolve: window: height in 31:16, width in 15:0.
pub const RS_WINDOW_SIZE: u32 = 0x1620;
/// Resolve: dither words (2 words); all ones: no dithering.
pub const RS_DITHER: u32 = 0x1630;
/// Resolve: clear control.
pub const RS_CLEAR_CONTROL: u32 = 0x163c;
/// RS_CLEAR_CONTROL: fill with the first value, all bytes.
pub const CLEAR_CONTROL_FILL: u32 = 1 << 16 | 0xffff;
/// Resolve: fill values (4 words).
pub const RS_FILL_VALUE: u32 = 0x1640;
/// Resolve: extra config.
pub const RS_EXTRA_CONFIG: u32 = 0x16a0;
/// Resolve: one buffer for all pixel pipes.
pub const RS_SINGLE_BUFFER: u32 = 0x16b8;
/// Resolve: source addresses of the pixel pipes.
pub const RS_PIPE_SOURCE_ADDR: u32 = 0x16c0;
/// Resolve: destination addresses of the pixel pipes.
pub const RS_PIPE_DEST_ADDR: u32 = 0x16e0;
/// Resolve: where each pixel pipe's window starts: y in 31:16, x in 15:0.
pub const RS_PIPE_OFFSET: u32 = 0x1700;
/// Resolve: a write starts it.
pub const RS_KICKER: u32 = 0x1600;
/// The value that clients write to [`RS_KICKER`].
pub const RS_KICK: u32 = 0xbeeb_beeb;

/// Which engine gets the stream: 0 = 3D, 1 = 2D.
pub const PIPE_SELECT: u32 = 0x3800;
/// Event: the driver's only.
pub const EVENT: u32 = 0x3804;
/// Arms a semaphore.
pub const SEMAPHORE_TOKEN: u32 = 0x3808;
/// Flushes caches.
pub const FLUSH_CACHE: u32 = 0x380c;
/// Flushes the MMU: the driver's only.
pub const FLUSH_MMU: u32 = 0x3810;
/// FLUSH_CACHE: depth and colour cache of the 3D pixel engine.
pub const FLUSH_3D: u32 = 0x3;
/// FLUSH_CACHE: the 2D pixel engine's.
pub const FLUSH_2D: u32 = 0x8;
/// FLUSH_CACHE: textures, of pixel and vertex shaders.
pub const FLUSH_TEXTURES: u32 = 0x14;
/// Token: the front end waits for the pixel engine.
pub const TOKEN_FE_PE: u32 = 0x701;
