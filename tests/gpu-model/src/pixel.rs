// SPDX-License-Identifier: GPL-2.0-only
//! Pixel formats shared by 2D engine and resolve: codes, sizes, conversion through A8R8G8B8.

/// A pixel format; the codes 0 to 6 are the same for 2D (DE_FORMAT) and resolve (RS_FORMAT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 16 bits, alpha ignored.
    X4R4G4B4,
    /// 16 bits.
    A4R4G4B4,
    /// 16 bits, alpha ignored.
    X1R5G5B5,
    /// 16 bits.
    A1R5G5B5,
    /// 16 bits.
    R5G6B5,
    /// 32 bits, alpha ignored.
    X8R8G8B8,
    /// 32 bits.
    A8R8G8B8,
    /// 8 bits of alpha, PE20 only.
    A8,
}

impl Format {
    /// The format with this code, if the model supports it.
    pub fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Format::X4R4G4B4,
            1 => Format::A4R4G4B4,
            2 => Format::X1R5G5B5,
            3 => Format::A1R5G5B5,
            4 => Format::R5G6B5,
            5 => Format::X8R8G8B8,
            6 => Format::A8R8G8B8,
            16 => Format::A8,
            _ => return None,
        })
    }

    /// Bytes per pixel.
    pub fn bytes(self) -> u32 {
        match self {
            Format::X8R8G8B8 | Format::A8R8G8B8 => 4,
            Format::A8 => 1,
            _ => 2,
        }
    }

    /// Widens a pixel to A8R8G8B8 by repeating its high bits. Formats without alpha are opaque.
    pub fn unpack(self, pixel: u32) -> u32 {
        let four = |shift: u32| ((pixel >> shift) & 0xf) * 0x11;
        let five = |shift: u32| widen((pixel >> shift) & 0x1f, 5);
        let argb = |a: u32, r: u32, g: u32, b: u32| (a << 24) | (r << 16) | (g << 8) | b;
        match self {
            Format::X4R4G4B4 => argb(0xff, four(8), four(4), four(0)),
            Format::A4R4G4B4 => argb(four(12), four(8), four(4), four(0)),
            Format::X1R5G5B5 => argb(0xff, five(10), five(5), five(0)),
            Format::A1R5G5B5 => argb(((pixel >> 15) & 1) * 0xff, five(10), five(5), five(0)),
            Format::R5G6B5 => argb(0xff, five(11), widen((pixel >> 5) & 0x3f, 6), five(0)),
            Format::X8R8G8B8 => pixel | 0xff00_0000,
            Format::A8R8G8B8 => pixel,
            Format::A8 => pixel << 24,
        }
    }

    /// Narrows A8R8G8B8 to this format by dropping low bits. Ignored bits receive the alpha bits.
    pub fn pack(self, argb: u32) -> u32 {
        let channel = |shift: u32, bits: u32| (argb >> (shift + 8 - bits)) & ((1 << bits) - 1);
        self.pack_channels(argb, channel)
    }

    /// Narrows A8R8G8B8 to this format. Adds `dither`, in 32nds of a step, before truncation.
    pub fn pack_dithered(self, argb: u32, dither: u32) -> u32 {
        self.pack_channels(argb, |shift, bits| {
            let steps = (argb >> shift & 0xff) * ((1 << bits) - 1);
            (steps * 32 + dither * 0xff) / (0xff * 32)
        })
    }

    /// Packs the channels. `channel` narrows the channel at a bit position of A8R8G8B8 to a number of bits below 8.
    fn pack_channels(self, argb: u32, channel: impl Fn(u32, u32) -> u32) -> u32 {
        match self {
            Format::X4R4G4B4 | Format::A4R4G4B4 => {
                (channel(24, 4) << 12)
                    | (channel(16, 4) << 8)
                    | (channel(8, 4) << 4)
                    | channel(0, 4)
            }
            Format::X1R5G5B5 | Format::A1R5G5B5 => {
                (channel(24, 1) << 15)
                    | (channel(16, 5) << 10)
                    | (channel(8, 5) << 5)
                    | channel(0, 5)
            }
            Format::R5G6B5 => (channel(16, 5) << 11) | (channel(8, 6) << 5) | channel(0, 5),
            Format::X8R8G8B8 | Format::A8R8G8B8 => argb,
            Format::A8 => argb >> 24,
        }
    }

    /// Loads one pixel from its bytes (little-endian).
    pub fn load(self, bytes: &[u8]) -> u32 {
        let mut word = [0; 4];
        let count = self.bytes() as usize;
        word[..count].copy_from_slice(&bytes[..count]);
        u32::from_le_bytes(word)
    }

    /// Stores one pixel as bytes (little-endian).
    pub fn store(self, pixel: u32, bytes: &mut [u8]) {
        let count = self.bytes() as usize;
        bytes[..count].copy_from_slice(&pixel.to_le_bytes()[..count]);
    }

    /// Converts a pixel to another format. The same format leaves it unchanged.
    pub fn convert(self, pixel: u32, to: Format) -> u32 {
        if self == to {
            pixel
        } else {
            to.pack(self.unpack(pixel))
        }
    }
}

/// Repeats the high bits of a channel to fill eight.
fn widen(value: u32, bits: u32) -> u32 {
    (value << (8 - bits)) | (value >> (2 * bits - 8))
}

/// Swaps red and blue of an A8R8G8B8 pixel.
pub fn swap_red_blue(argb: u32) -> u32 {
    argb & 0xff00_ff00 | (argb >> 16) & 0xff | ((argb & 0xff) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Format; 8] = [
        Format::X4R4G4B4,
        Format::A4R4G4B4,
        Format::X1R5G5B5,
        Format::A1R5G5B5,
        Format::R5G6B5,
        Format::X8R8G8B8,
        Format::A8R8G8B8,
        Format::A8,
    ];

    #[test]
    fn white_and_black_survive_every_format() {
        for format in ALL {
            let white = format.pack(0xffff_ffff);
            let opaque = format.unpack(white);
            if format != Format::A8 {
                assert_eq!(opaque, 0xffff_ffff, "{format:?}");
                assert_eq!(
                    format.unpack(format.pack(0xff00_0000)),
                    0xff00_0000,
                    "{format:?}"
                );
            }
        }
    }

    #[test]
    fn narrowing_truncates() {
        assert_eq!(Format::R5G6B5.pack(0xff0f_0704), 0x0820);
        assert_eq!(Format::A4R4G4B4.pack(0x1f2f_3f4f), 0x1234);
        assert_eq!(Format::A1R5G5B5.pack(0x80ff_0008), 0x8000 | 0x7c00 | 1);
        assert_eq!(Format::A8.pack(0xab12_3456), 0xab);
    }

    #[test]
    fn every_pixel_value_comes_back() {
        for format in [Format::A4R4G4B4, Format::A1R5G5B5, Format::R5G6B5] {
            for pixel in 0..0x1_0000 {
                assert_eq!(format.pack(format.unpack(pixel)), pixel, "{format:?}");
            }
        }
    }

    #[test]
    fn ignored_alpha_reads_opaque() {
        assert_eq!(
            Format::X8R8G8B8.convert(0x0012_3456, Format::A8R8G8B8),
            0xff12_3456
        );
        assert_eq!(
            Format::X8R8G8B8.convert(0x0012_3456, Format::X8R8G8B8),
            0x0012_3456
        );
        assert_eq!(Format::X1R5G5B5.unpack(0x7fff), 0xffff_ffff);
    }

    #[test]
    fn bytes_are_little_endian() {
        let mut bytes = [0; 4];
        Format::R5G6B5.store(0x1234, &mut bytes);
        assert_eq!(bytes, [0x34, 0x12, 0, 0]);
        assert_eq!(Format::R5G6B5.load(&[0x34, 0x12, 0xff, 0xff]), 0x1234);
        assert_eq!(swap_red_blue(0x1122_3344), 0x1144_3322);
    }
}
