// SPDX-License-Identifier: GPL-2.0-only
//! The position of pixels of a 2D surface in memory, and the order of their bits.

use crate::mmu::Port;
use crate::pixel::Format;

/// Order of the channels, DE_SWIZZLE. A pixel format names its channels from the highest bits down, in order `Argb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swizzle {
    Argb,
    Rgba,
    Abgr,
    Bgra,
}

impl Swizzle {
    pub(super) fn from_code(code: u32) -> Self {
        match code & 3 {
            0 => Swizzle::Argb,
            1 => Swizzle::Rgba,
            2 => Swizzle::Abgr,
            _ => Swizzle::Bgra,
        }
    }

    /// The channels (0 alpha, 1 red, 2 green, 3 blue) from the highest bits down.
    fn order(self) -> [usize; 4] {
        match self {
            Swizzle::Argb => [0, 1, 2, 3],
            Swizzle::Rgba => [1, 2, 3, 0],
            Swizzle::Abgr => [0, 3, 2, 1],
            Swizzle::Bgra => [3, 2, 1, 0],
        }
    }
}

/// Widths of alpha, red, green and blue in bits. Unused bits count as alpha.
pub(super) fn widths(format: Format) -> [u32; 4] {
    match format {
        Format::X4R4G4B4 | Format::A4R4G4B4 => [4; 4],
        Format::X1R5G5B5 | Format::A1R5G5B5 => [1, 5, 5, 5],
        Format::R5G6B5 => [0, 5, 6, 5],
        Format::X8R8G8B8 | Format::A8R8G8B8 => [8; 4],
        Format::A8 => [8, 0, 0, 0],
    }
}

/// A pixel's format and the order of its channels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) swizzle: Swizzle,
}

impl Layout {
    /// Converts a pixel from memory to order `Argb`.
    pub(super) fn straight(self, pixel: u32) -> u32 {
        let widths = widths(self.format);
        let mut channels = [0; 4];
        let mut shift = 0;
        for channel in self.swizzle.order().into_iter().rev() {
            channels[channel] = field(pixel, shift, widths[channel]);
            shift += widths[channel];
        }
        let mut shift = 0;
        let mut straight = 0;
        for channel in (0..4).rev() {
            straight |= channels[channel] << shift;
            shift += widths[channel];
        }
        straight
    }

    /// Converts a pixel in order `Argb` to its form in memory.
    pub(super) fn stored(self, straight: u32) -> u32 {
        let widths = widths(self.format);
        let mut channels = [0; 4];
        let mut shift = 0;
        for channel in (0..4).rev() {
            channels[channel] = field(straight, shift, widths[channel]);
            shift += widths[channel];
        }
        let (mut pixel, mut shift) = (0, 0);
        for channel in self.swizzle.order().into_iter().rev() {
            if widths[channel] != 0 {
                pixel |= channels[channel] << shift;
            }
            shift += widths[channel];
        }
        pixel
    }
}

fn field(word: u32, shift: u32, width: u32) -> u32 {
    if width == 0 {
        0
    } else {
        (word >> shift) & ((1 << width) - 1)
    }
}

/// Orientation of command coordinates on a surface, DE_ROT_MODE.
///
/// The database says that 90 degrees need the surface's width, and 180 and 270 degrees its height. So with 90 degrees
/// the command's rows run along the surface's columns from its right edge, with 270 degrees from its lower edge. A
/// renderer of Weston for these cores (Pengutronix, 2024) places its sources the same way. Width and height are those
/// of the surface in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    FlipX,
    FlipY,
    Rot90,
    Rot180,
    Rot270,
}

impl Turn {
    pub(super) fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Turn::None,
            1 => Turn::FlipX,
            2 => Turn::FlipY,
            4 => Turn::Rot90,
            5 => Turn::Rot180,
            6 => Turn::Rot270,
            _ => return None,
        })
    }
}

/// A surface in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surface {
    pub(super) port: Port,
    pub(super) base: u32,
    pub(super) stride: u32,
    pub(super) layout: Layout,
    pub(super) turn: Turn,
    /// Size in pixels, if [`Surface::turn`] needs it.
    pub(super) size: (i32, i32),
}

impl Surface {
    /// The surface position of a command's coordinates.
    pub(super) fn place(&self, x: i32, y: i32) -> (i32, i32) {
        let (width, height) = self.size;
        match self.turn {
            Turn::None => (x, y),
            Turn::FlipX => (width - 1 - x, y),
            Turn::FlipY => (x, height - 1 - y),
            Turn::Rot90 => (width - 1 - y, x),
            Turn::Rot180 => (width - 1 - x, height - 1 - y),
            Turn::Rot270 => (y, height - 1 - x),
        }
    }

    /// Whether a pixel is on a rotated surface. The size of a surface that is not rotated is unknown.
    pub(super) fn holds(&self, x: i32, y: i32) -> bool {
        let (x, y) = self.place(x, y);
        self.turn == Turn::None || (x >= 0 && y >= 0)
    }

    pub(super) fn address(&self, x: i32, y: i32) -> u32 {
        let (x, y) = self.place(x, y);
        self.base
            .wrapping_add((y as u32).wrapping_mul(self.stride))
            .wrapping_add((x as u32).wrapping_mul(self.layout.format.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_where_the_swizzle_puts_them() {
        let layout = |format, code| Layout {
            format,
            swizzle: Swizzle::from_code(code),
        };
        let wide = Format::A8R8G8B8;
        for (code, stored) in [
            (0, 0x1122_3344),
            (1, 0x2233_4411),
            (2, 0x1144_3322),
            (3, 0x4433_2211),
        ] {
            assert_eq!(layout(wide, code).stored(0x1122_3344), stored);
            assert_eq!(layout(wide, code).straight(stored), 0x1122_3344);
        }
        // One bit of alpha at the low end. 565 has no alpha to move.
        assert_eq!(layout(Format::A1R5G5B5, 1).stored(0x8000), 1);
        assert_eq!(layout(Format::R5G6B5, 2).stored(0xf800), 0x001f);
        assert_eq!(layout(Format::R5G6B5, 1).stored(0x1234), 0x1234);
        assert_eq!(layout(Format::A8, 3).stored(0x77), 0x77);
    }
}
