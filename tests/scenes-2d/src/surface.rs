// SPDX-License-Identifier: GPL-2.0-only
//! Pixels in memory.

use crate::colour::Format;
use crate::Random;

/// A surface with its contents.
#[derive(Clone, Debug)]
pub struct Surface {
    /// Pixel format.
    pub format: Format,
    /// Pixels per row in memory.
    pub width: i32,
    /// Rows.
    pub height: i32,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Contents.
    pub bytes: Vec<u8>,
    /// DE_ROT_MODE: the orientation of coordinates.
    pub turn: u32,
}

impl Surface {
    /// A surface with random pixels.
    pub fn random(random: &mut Random, format: Format, width: i32, height: i32) -> Self {
        let row = (width as usize * format.bytes()).next_multiple_of(16);
        let stride = row + 16 * random.below(3) as usize;
        Self {
            format,
            width,
            height,
            stride,
            bytes: random.bytes(stride * height as usize),
            turn: 0,
        }
    }

    /// Width and height in rotated coordinates.
    pub fn extent(&self) -> (i32, i32) {
        match self.turn {
            4 | 6 => (self.height, self.width),
            _ => (self.width, self.height),
        }
    }

    fn place(&self, x: i32, y: i32) -> usize {
        let (right, bottom) = (self.width - 1, self.height - 1);
        let (column, row) = match self.turn {
            0 => (x, y),
            1 => (right - x, y),
            2 => (x, bottom - y),
            4 => (right - y, x),
            5 => (right - x, bottom - y),
            6 => (y, bottom - x),
            turn => panic!("turn {turn}"),
        };
        assert!((0..self.width).contains(&column) && (0..self.height).contains(&row));
        row as usize * self.stride + column as usize * self.format.bytes()
    }

    /// Reads a pixel.
    pub fn get(&self, x: i32, y: i32) -> u32 {
        let place = self.place(x, y);
        let bytes = &self.bytes[place..place + self.format.bytes()];
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    }

    /// Writes a pixel.
    pub fn put(&mut self, x: i32, y: i32, pixel: u32) {
        let place = self.place(x, y);
        let count = self.format.bytes();
        self.bytes[place..place + count].copy_from_slice(&pixel.to_le_bytes()[..count]);
    }
}

/// A YUV picture.
#[derive(Clone, Debug)]
pub struct Video {
    /// DE_FORMAT.
    pub code: u32,
    /// Pixels per row; even.
    pub width: i32,
    /// Rows; even.
    pub height: i32,
    /// Up to three planes, each with stride and contents.
    pub planes: Vec<(usize, Vec<u8>)>,
    /// Whether U and V are swapped.
    pub swapped: bool,
    /// BT.709 instead of BT.601.
    pub bt709: bool,
}

impl Video {
    /// A picture with random values.
    pub fn random(random: &mut Random, code: u32, width: i32, height: i32) -> Self {
        // For each plane: bytes per row, and rows.
        let (columns, rows) = (width as usize, height as usize);
        let shape = match code {
            7 | 8 => vec![(2 * columns, rows)],
            15 => vec![
                (columns, rows),
                (columns / 2, rows / 2),
                (columns / 2, rows / 2),
            ],
            17 => vec![(columns, rows), (columns, rows / 2)],
            18 => vec![(columns, rows), (columns, rows)],
            code => panic!("format {code}"),
        };
        let planes = shape.into_iter().map(|(bytes, rows)| {
            let stride = bytes.next_multiple_of(8) + 8 * random.below(3) as usize;
            (stride, random.bytes(stride * rows))
        });
        let planes = planes.collect();
        Self {
            code,
            width,
            height,
            planes,
            swapped: random.one_in(3),
            bt709: random.one_in(2),
        }
    }

    /// Y, U and V of a pixel.
    pub fn get(&self, x: i32, y: i32) -> [u32; 3] {
        let (x, y) = (x as usize, y as usize);
        let byte = |plane: usize, column: usize, row: usize| {
            let (stride, bytes) = &self.planes[plane];
            u32::from(bytes[row * stride + column])
        };
        let (luma, first, second) = match self.code {
            7 => {
                let group = x / 2 * 4;
                (
                    byte(0, group + x % 2 * 2, y),
                    byte(0, group + 1, y),
                    byte(0, group + 3, y),
                )
            }
            8 => {
                let group = x / 2 * 4;
                (
                    byte(0, group + 1 + x % 2 * 2, y),
                    byte(0, group, y),
                    byte(0, group + 2, y),
                )
            }
            15 => (byte(0, x, y), byte(1, x / 2, y / 2), byte(2, x / 2, y / 2)),
            17 => (
                byte(0, x, y),
                byte(1, x / 2 * 2, y / 2),
                byte(1, x / 2 * 2 + 1, y / 2),
            ),
            _ => (
                byte(0, x, y),
                byte(1, x / 2 * 2, y),
                byte(1, x / 2 * 2 + 1, y),
            ),
        };
        if self.swapped {
            [luma, second, first]
        } else {
            [luma, first, second]
        }
    }

    /// Alpha, red, green and blue for Y, U and V.
    pub fn colour(&self, [y, u, v]: [u32; 3]) -> crate::colour::Colour {
        let a = y as i32 - 16;
        let b = u as i32 - 128;
        let c = v as i32 - 128;
        let clip = |value: i32| value.div_euclid(256).clamp(0, 255) as u32;
        let (red, green, blue) = if self.bt709 {
            (
                298 * a + 461 * c + 128,
                298 * a - 55 * b - 137 * c + 128,
                298 * a + 543 * b + 128,
            )
        } else {
            (
                298 * a + 410 * c + 128,
                298 * a - 101 * b - 209 * c + 128,
                298 * a + 519 * b + 128,
            )
        };
        crate::colour::Colour([255, clip(red), clip(green), clip(blue)])
    }

    /// The value of PE_CONTROL.
    pub fn control(&self) -> u32 {
        u32::from(self.bt709) | u32::from(self.swapped) << 4
    }
}
