// SPDX-License-Identifier: GPL-2.0-only
//! Pixel formats, channel by channel.

/// Alpha, red, green, blue; 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub [u32; 4]);

impl Colour {
    /// From an A8R8G8B8 word.
    pub fn of(word: u32) -> Self {
        Self([word >> 24, word >> 16 & 255, word >> 8 & 255, word & 255])
    }
}

/// Product of two fractions of 255, rounded to the nearest value.
pub fn times(a: u32, b: u32) -> u32 {
    (a * b + 127) / 255
}

/// A pixel format and the order of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// DE_FORMAT.
    pub code: u32,
    /// DE_SWIZZLE.
    pub swizzle: u32,
}

impl Format {
    /// Its channels from the highest bit down: letter and number of bits.
    fn channels(self) -> Vec<(char, u32)> {
        let name = match self.code {
            0 => "X4R4G4B4",
            1 => "A4R4G4B4",
            2 => "X1R5G5B5",
            3 => "A1R5G5B5",
            4 => "R5G6B5",
            5 => "X8R8G8B8",
            6 => "A8R8G8B8",
            16 => "A8",
            code => panic!("format {code}"),
        };
        let letters: Vec<char> = name.chars().collect();
        let parts: Vec<(char, u32)> = letters
            .chunks(2)
            .map(|part| (part[0], part[1].to_digit(10).unwrap_or(0)))
            .collect();
        let order = ["ARGB", "RGBA", "ABGR", "BGRA"][self.swizzle as usize];
        order
            .chars()
            .filter_map(|letter| {
                let fits =
                    |part: &&(char, u32)| part.0 == letter || (part.0 == 'X' && letter == 'A');
                parts.iter().find(fits).copied()
            })
            .collect()
    }

    /// Bytes per pixel.
    pub fn bytes(self) -> usize {
        let bits: u32 = self.channels().iter().map(|part| part.1).sum();
        bits as usize / 8
    }

    /// Each channel with its bits.
    pub fn split(self, pixel: u32) -> Vec<(char, u32, u32)> {
        let mut rest = pixel;
        let mut parts = Vec::new();
        for (letter, bits) in self.channels().into_iter().rev() {
            let mask = if bits == 32 {
                u32::MAX
            } else {
                (1 << bits) - 1
            };
            parts.push((letter, bits, rest & mask));
            rest = rest.checked_shr(bits).unwrap_or(0);
        }
        parts
    }

    /// The color of a pixel. Bits are repeated to fill eight; missing alpha is opaque, missing color channels are
    /// black.
    pub fn colour(self, pixel: u32) -> Colour {
        let mut colour = [255, 0, 0, 0];
        for (letter, bits, value) in self.split(pixel) {
            let mut wide = 0;
            for bit in 0..8 {
                // Repeats the channel's bits from the highest bit on.
                let from = bits - 1 - bit % bits;
                wide = wide << 1 | (value >> from & 1);
            }
            match "ARGB".find(letter) {
                Some(place) => colour[place] = wide,
                None => colour[0] = 255,
            }
        }
        Colour(colour)
    }

    /// The pixel of a color. Low bits are dropped; unused bits get alpha.
    pub fn pixel(self, colour: Colour) -> u32 {
        let mut pixel = 0;
        for (letter, bits) in self.channels() {
            let place = "ARGB".find(letter).unwrap_or(0);
            pixel = (u64::from(pixel) << bits) as u32 | colour.0[place] >> (8 - bits);
        }
        pixel
    }

    /// Converts a pixel to another format. Equal formats lose nothing.
    pub fn convert(self, pixel: u32, to: Format) -> u32 {
        if self.code != to.code {
            return to.pixel(self.colour(pixel));
        }
        let parts = self.split(pixel);
        let mut result = 0;
        for (letter, bits) in to.channels() {
            let value = parts
                .iter()
                .find(|part| part.0 == letter)
                .map_or(0, |part| part.2);
            result = (u64::from(result) << bits) as u32 | value;
        }
        result
    }
}
