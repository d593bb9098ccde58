// SPDX-License-Identifier: GPL-2.0-only
//! Sources of pixels: surfaces, palettes, one bit per pixel, YUV planes, the command stream.

use std::sync::Arc;

use super::surface::widths;
use super::surface::Layout;
use super::surface::Surface;
use super::Bus;
use crate::mmu::Port;
use crate::pixel::Format;

/// A source pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// A8R8G8B8.
    pub(super) argb: u32,
    /// In the destination's format, with channels in order.
    pub(super) pixel: u32,
    /// As in memory. This value is compared with a transparent color.
    pub(super) raw: u32,
    /// The bit of a monochrome source or of a mask.
    pub(super) bit: bool,
}

/// Pixels of a source.
#[derive(Clone, Debug)]
pub(super) enum Texels {
    /// Colors, or alpha with the color in the second field.
    Colour(Surface, u32),
    /// Bytes that select one of 256 colors. On PE10 the colors are destination pixels.
    Indexed {
        surface: Surface,
        palette: Arc<[u32]>,
        is_raw: bool,
    },
    /// Bits in rows of whole bytes. The highest bit is the left pixel. The colors of 0 and 1 are A8R8G8B8.
    Bits {
        base: u32,
        stride: u32,
        colours: [u32; 2],
    },
    /// Bits from the command stream.
    StreamBits([u32; 2]),
    /// YUV.
    Yuv(Yuv),
}

impl Texels {
    /// A pixel for a destination in `format`. `bit` comes from the command stream, if it has any.
    pub(super) fn sample(
        &self,
        x: i32,
        y: i32,
        bit: bool,
        format: Format,
        bus: &mut dyn Bus,
    ) -> Sample {
        let of_argb = |argb, raw, bit| Sample {
            argb,
            pixel: format.pack(argb),
            raw,
            bit,
        };
        match self {
            Texels::Colour(surface, fill) => {
                let raw = load(surface, x, y, bus);
                let layout = surface.layout;
                if layout.format == Format::A8 {
                    return of_argb(raw << 24 | fill & 0xff_ffff, raw, bit);
                }
                let straight = layout.straight(raw);
                Sample {
                    argb: layout.format.unpack(straight),
                    pixel: layout.format.convert(straight, format),
                    raw,
                    bit,
                }
            }
            Texels::Indexed {
                surface,
                palette,
                is_raw,
            } => {
                let raw = load(surface, x, y, bus);
                let entry = palette.get(raw as usize).copied().unwrap_or(0);
                if *is_raw {
                    Sample {
                        argb: format.unpack(entry),
                        pixel: entry,
                        raw,
                        bit,
                    }
                } else {
                    of_argb(entry, raw, bit)
                }
            }
            Texels::Bits {
                base,
                stride,
                colours,
            } => {
                let mut byte = [0];
                let address = base
                    .wrapping_add((y as u32).wrapping_mul(*stride))
                    .wrapping_add((x >> 3) as u32);
                bus.read(Port::Texture, address, &mut byte);
                let bit = byte[0] & (0x80 >> (x & 7)) != 0;
                of_argb(colours[usize::from(bit)], bit.into(), bit)
            }
            Texels::StreamBits(colours) => of_argb(colours[usize::from(bit)], bit.into(), bit),
            Texels::Yuv(yuv) => {
                let [y, u, v] = yuv.fetch(x, y, bus);
                of_argb(yuv.space.to_argb(y, u, v), 0, bit)
            }
        }
    }
}

/// Reads a pixel as stored in memory.
pub(super) fn load(surface: &Surface, x: i32, y: i32, bus: &mut dyn Bus) -> u32 {
    let format = surface.layout.format;
    let mut bytes = [0; 4];
    bus.read(
        surface.port,
        surface.address(x, y),
        &mut bytes[..format.bytes() as usize],
    );
    format.load(&bytes)
}

/// Writes a pixel whose channels are in order.
pub(super) fn store(surface: &Surface, x: i32, y: i32, straight: u32, bus: &mut dyn Bus) {
    let format = surface.layout.format;
    let mut bytes = [0; 4];
    format.store(surface.layout.stored(straight), &mut bytes);
    bus.write(
        surface.port,
        surface.address(x, y),
        &bytes[..format.bytes() as usize],
    );
}

/// Transparency of source pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transparency {
    None,
    /// Pixels whose bit has this value are transparent.
    Mask(bool),
    /// Pixels are transparent if each channel, as stored in memory, lies between that of the first and the second
    /// color.
    Key {
        first: u32,
        last: u32,
        layout: Option<Layout>,
    },
}

impl Transparency {
    pub(super) fn holds(&self, sample: &Sample) -> bool {
        match *self {
            Transparency::None => false,
            Transparency::Mask(value) => sample.bit == value,
            Transparency::Key {
                first,
                last,
                layout,
            } => {
                // An index is one channel.
                let Some(layout) = layout else {
                    return (first & 0xff..=last & 0xff).contains(&sample.raw);
                };
                let colours = [first, sample.raw, last].map(|raw| layout.straight(raw));
                let mut shift = 0;
                widths(layout.format).into_iter().rev().all(|width| {
                    let mask = (1u64 << width) - 1;
                    let [low, value, high] =
                        colours.map(|colour| (u64::from(colour) >> shift) & mask);
                    shift += width;
                    (low..=high).contains(&value)
                })
            }
        }
    }
}

/// The order of the bits of a source or mask in the command stream.
///
/// etna_viv's text, which real cores draw, is packed in blocks of 8 x 4 pixels. Its words go down the columns of words
/// first. In a word the lowest byte is the top row, and in a byte the highest bit is the left pixel. The model assumes
/// the same for 16 x 2 and 32 x 1. It assumes that unpacked words follow each other row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    /// Pixels per row of a word.
    width: u32,
    height: u32,
    by_rows: bool,
}

impl Packing {
    /// From SRC_CONFIG's PACK.
    pub(super) fn from_code(code: u32) -> Self {
        let (width, height, by_rows) = match code & 3 {
            0 => (8, 4, false),
            1 => (16, 2, false),
            2 => (32, 1, false),
            _ => (32, 1, true),
        };
        Self {
            width,
            height,
            by_rows,
        }
    }

    /// Number of words for a rectangle.
    pub(super) fn words(self, width: u32, height: u32) -> u32 {
        width.div_ceil(self.width) * height.div_ceil(self.height)
    }

    /// The bit of pixel (`x`, `y`) of a rectangle of this size.
    pub(super) fn bit(self, words: &[u32], size: (u32, u32), x: u32, y: u32) -> bool {
        let (column, row) = (x / self.width, y / self.height);
        let index = if self.by_rows {
            row * size.0.div_ceil(self.width) + column
        } else {
            column * size.1.div_ceil(self.height) + row
        };
        let (x, y) = (x % self.width, y % self.height);
        let byte = y * self.width / 8 + x / 8;
        let word = words.get(index as usize).copied().unwrap_or(0);
        word >> (8 * byte + 7 - x % 8) & 1 != 0
    }
}

/// Layouts of YUV sources, DE_FORMAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YuvFormat {
    /// Y U Y V.
    Yuy2,
    /// U Y V Y.
    Uyvy,
    /// Three planes, one color per 2 x 2 pixels.
    Yv12,
    /// Two planes, one color per 2 x 2 pixels.
    Nv12,
    /// Two planes, one color per 2 x 1 pixels.
    Nv16,
}

impl YuvFormat {
    pub(super) fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            7 => YuvFormat::Yuy2,
            8 => YuvFormat::Uyvy,
            15 => YuvFormat::Yv12,
            17 => YuvFormat::Nv12,
            18 => YuvFormat::Nv16,
            _ => return None,
        })
    }
}

/// PE_CONTROL's color space. The formulas are etna_viv's (doc/2d.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Bt601,
    Bt709,
}

impl Space {
    /// Converts to opaque A8R8G8B8. Values outside the video range are not clamped first: no source says so.
    pub(super) fn to_argb(self, y: u8, u: u8, v: u8) -> u32 {
        let (a, b, c) = (i32::from(y) - 16, i32::from(u) - 128, i32::from(v) - 128);
        let (red, green_u, green_v, blue) = match self {
            Space::Bt601 => (410, 101, 209, 519),
            Space::Bt709 => (461, 55, 137, 543),
        };
        let clip = |sum: i32| ((sum + 128) >> 8).clamp(0, 255) as u32;
        let base = 298 * a;
        0xff00_0000
            | clip(base + red * c) << 16
            | clip(base - green_u * b - green_v * c) << 8
            | clip(base + blue * b)
    }
}

/// A YUV source. Each pixel takes the color of its group, without interpolation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yuv {
    pub(super) format: YuvFormat,
    pub(super) space: Space,
    /// U and V are swapped.
    pub(super) swapped: bool,
    /// Addresses and strides of the planes.
    pub(super) planes: [(u32, u32); 3],
}

impl Yuv {
    /// Y, U and V of a pixel.
    pub(super) fn fetch(&self, x: i32, y: i32, bus: &mut dyn Bus) -> [u8; 3] {
        let mut byte = |plane: usize, column: u32, row: i32| {
            let (base, stride) = self.planes[plane];
            let address = base
                .wrapping_add((row as u32).wrapping_mul(stride))
                .wrapping_add(column);
            let mut byte = [0];
            bus.read(Port::Texture, address, &mut byte);
            byte[0]
        };
        let column = x as u32;
        // The left pixel of the pair, and the offset of its group in a row of an interleaved format.
        let pair = column & !1;
        let (pixel, group) = (column.wrapping_mul(2), pair.wrapping_mul(2));
        let half = (x >> 1) as u32;
        let [luma, u, v] = match self.format {
            YuvFormat::Yuy2 => [
                byte(0, pixel, y),
                byte(0, group | 1, y),
                byte(0, group | 3, y),
            ],
            YuvFormat::Uyvy => [
                byte(0, pixel | 1, y),
                byte(0, group, y),
                byte(0, group | 2, y),
            ],
            YuvFormat::Yv12 => [
                byte(0, column, y),
                byte(1, half, y >> 1),
                byte(2, half, y >> 1),
            ],
            YuvFormat::Nv12 => [
                byte(0, column, y),
                byte(1, pair, y >> 1),
                byte(1, pair | 1, y >> 1),
            ],
            YuvFormat::Nv16 => [byte(0, column, y), byte(1, pair, y), byte(1, pair | 1, y)],
        };
        if self.swapped {
            [luma, v, u]
        } else {
            [luma, u, v]
        }
    }
}
