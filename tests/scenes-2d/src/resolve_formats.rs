// SPDX-License-Identifier: GPL-2.0-only
//! The pixel formats of the resolve engine (RS), written independently of the model.

/// A format: its code in RS_CONFIG and the positions of its channels.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name in rnndb.
    pub name: &'static str,
    /// Its code.
    pub code: u32,
    /// Bytes per pixel.
    pub bytes: u32,
    /// First bit and number of bits of alpha, red, green and blue.
    channels: [(u32, u32); 4],
}

/// The tested formats.
pub const FORMATS: [Format; 4] = [
    Format {
        name: "A4R4G4B4",
        code: 1,
        bytes: 2,
        channels: [(12, 4), (8, 4), (4, 4), (0, 4)],
    },
    Format {
        name: "A1R5G5B5",
        code: 3,
        bytes: 2,
        channels: [(15, 1), (10, 5), (5, 5), (0, 5)],
    },
    Format {
        name: "R5G6B5",
        code: 4,
        bytes: 2,
        channels: [(0, 0), (11, 5), (5, 6), (0, 5)],
    },
    Format {
        name: "A8R8G8B8",
        code: 6,
        bytes: 4,
        channels: [(24, 8), (16, 8), (8, 8), (0, 8)],
    },
];

impl Format {
    /// Reads the pixel at the start of `memory`, unconverted.
    pub fn load(&self, memory: &[u8]) -> u32 {
        let bytes = memory[..self.bytes as usize].iter().rev();
        bytes.fold(0, |word, byte| word << 8 | u32::from(*byte))
    }

    /// Writes a pixel to the start of `memory`.
    pub fn store(&self, pixel: u32, memory: &mut [u8]) {
        let bytes = self.bytes as usize;
        memory[..bytes].copy_from_slice(&pixel.to_le_bytes()[..bytes]);
    }

    /// Alpha, red, green and blue, each of 255. High bits are repeated; a missing alpha is opaque.
    pub fn widen(&self, pixel: u32) -> [u32; 4] {
        self.channels.map(|(first, bits)| {
            let value = pixel >> first & ((1 << bits) - 1);
            match bits {
                0 => 255,
                1 => value * 255,
                4 => value * 17,
                5 => value * 8 + value / 4,
                6 => value * 4 + value / 16,
                _ => value,
            }
        })
    }

    /// The pixel of these channels; low bits are dropped.
    pub fn narrow(&self, channels: [u32; 4]) -> u32 {
        let each = self.channels.iter().zip(channels);
        each.fold(0, |pixel, ((first, bits), value)| match bits {
            0 => pixel,
            _ => pixel | value >> (8 - bits) << first,
        })
    }

    /// The same with dithering: `threshold`, a fraction of a step, is added before the rest is dropped. For channels
    /// with fewer than 8 bits.
    pub fn dither(&self, channels: [u32; 4], threshold: f64) -> u32 {
        let each = self.channels.iter().zip(channels);
        each.fold(0, |pixel, ((first, bits), value)| {
            let most = f64::from((1u32 << bits) - 1);
            pixel | ((f64::from(value) / 255.0 * most + threshold) as u32) << first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::FORMATS;

    /// Checks the table with pixels computed by hand.
    #[test]
    fn formats_by_hand_are_right() {
        let [argb4444, argb1555, rgb565, argb8888] = FORMATS;
        assert_eq!(argb4444.widen(0x1234), [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(argb1555.widen(0x9234), [0xff, 0x21, 0x8c, 0xa5]);
        assert_eq!(rgb565.widen(0x1234), [0xff, 0x10, 0x45, 0xa5]);
        assert_eq!(argb8888.widen(0x1234_5678), [0x12, 0x34, 0x56, 0x78]);
        let pixel = [0x80, 0xab, 0xcd, 0xef];
        assert_eq!(argb4444.narrow(pixel), 0x8ace);
        assert_eq!(argb1555.narrow(pixel), 0xd73d);
        assert_eq!(rgb565.narrow(pixel), 0xae7d);
        assert_eq!(argb8888.narrow(pixel), 0x80ab_cdef);
        // Red is 20.8 and blue 29.05 of 31 steps; green is 50.6 of 63.
        assert_eq!(rgb565.dither(pixel, 0.1), 20 << 11 | 50 << 5 | 29);
        assert_eq!(rgb565.dither(pixel, 0.5), 21 << 11 | 51 << 5 | 29);
        assert_eq!(rgb565.load(&[0x34, 0x12, 0xff]), 0x1234);
        let mut bytes = [0; 5];
        argb8888.store(0x1234_5678, &mut bytes);
        assert_eq!(bytes, [0x78, 0x56, 0x34, 0x12, 0]);
    }
}
