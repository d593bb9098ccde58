// SPDX-License-Identifier: GPL-2.0-only
//! Pixel layout of a 3D core's surfaces in memory.

/// Layout of pixels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row by row.
    Linear,
    /// Tiles of 4 x 4 pixels. The stride is the size of a row of tiles in bytes.
    Tiled,
    /// Blocks of 64 x 64 pixels made of such tiles. The stride is still that of a row of 4 x 4 tiles.
    Supertiled,
}

/// A surface as set up for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// GPU addresses of the pixel pipes' halves if the surface is split, otherwise of the whole surface (first entry).
    pub bases: [u32; 2],
    /// Bytes per row of pixels (linear) or per row of 4 x 4 tiles.
    pub stride: u32,
    /// Bytes per pixel.
    pub bytes: u32,
    /// Layout of the surface, or of each half of a split surface.
    pub layout: Layout,
    /// Two pixel pipes share the surface. Blocks of 8 x 4 pixels belong to them in a checkerboard pattern. The blocks
    /// of each pipe are in its own half, which is half as high as the surface.
    pub is_split: bool,
}

impl Surface {
    /// GPU address of a pixel. Four pixels that start at a column that is a multiple of 4 are consecutive.
    pub fn address(&self, x: u32, y: u32) -> u32 {
        if !self.is_split {
            return self.bases[0].wrapping_add(self.offset(x, y));
        }
        // A half combines two rows of blocks into one: each 16 pixels hold the block of the first row on the left and
        // that of the second row on the right.
        let row = y >> 2 & 1;
        let pipe = x >> 3 & 1 ^ row;
        let offset = self.offset(x & !8 | row << 3, y >> 3 << 2 | y & 3);
        self.bases[pipe as usize].wrapping_add(offset)
    }

    /// Byte offset of a pixel from the base of the surface or of its half.
    fn offset(&self, x: u32, y: u32) -> u32 {
        let bytes = self.bytes;
        let in_tile = ((y % 4) * 4 + x % 4) * bytes;
        match self.layout {
            Layout::Linear => y.wrapping_mul(self.stride).wrapping_add(x * bytes),
            Layout::Tiled => (y / 4)
                .wrapping_mul(self.stride)
                .wrapping_add(x / 4 * 16 * bytes + in_tile),
            Layout::Supertiled => {
                let (tile_x, tile_y) = (x % 64 / 4, y % 64 / 4);
                let tile = tile_y / 4 * 64 + tile_x / 2 * 8 + tile_y % 4 * 2 + tile_x % 2;
                (y / 64)
                    .wrapping_mul(16)
                    .wrapping_mul(self.stride)
                    .wrapping_add(x / 64 * 4096 * bytes + tile * 16 * bytes + in_tile)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The inverse mapping, independent of the code above: from a position in memory (the part, and the index of the
    /// pixel in it) to the pixel. `width` is the surface's padded width.
    pub(crate) fn pixel_at(surface: &Surface, width: u32, part: u32, index: u32) -> (u32, u32) {
        let (x, y) = match surface.layout {
            Layout::Linear => (index % width, index / width),
            Layout::Tiled => {
                let (tile, inside) = (index / 16, index % 16);
                let (column, row) = (tile % (width / 4), tile / (width / 4));
                (4 * column + inside % 4, 4 * row + inside / 4)
            }
            Layout::Supertiled => {
                let (block, inside) = (index / 4096, index % 4096);
                let (column, row) = (block % (width / 64), block / (width / 64));
                // From bit 0 up: two bits of x, two of y, one of x, two of y, three of x, two of y.
                let bits = |from: u32, count: u32| inside >> from & ((1 << count) - 1);
                let x = bits(0, 2) | bits(4, 1) << 2 | bits(7, 3) << 3;
                let y = bits(2, 2) | bits(5, 2) << 2 | bits(10, 2) << 4;
                (64 * column + x, 64 * row + y)
            }
        };
        if !surface.is_split {
            return (x, y);
        }
        let second = x >> 3 & 1;
        let swapped = second ^ part;
        (x & !8 | swapped << 3, 2 * (y & !3) + 4 * second + y % 4)
    }

    /// A surface at address 0 that is not split.
    pub(crate) fn surface(layout: Layout, stride: u32) -> Surface {
        Surface {
            bases: [0; 2],
            stride,
            bytes: 4,
            layout,
            is_split: false,
        }
    }

    #[test]
    fn tiles_lie_as_documented() {
        let tiled = surface(Layout::Tiled, 512 * 16);
        assert_eq!(tiled.address(3, 0), 12);
        assert_eq!(tiled.address(0, 1), 16);
        assert_eq!(tiled.address(4, 0), 64);
        assert_eq!(tiled.address(0, 4), 8192);
    }

    #[test]
    fn supertiles_lie_as_documented() {
        let supertiled = surface(Layout::Supertiled, 128 * 16);
        let tile = |x: u32, y: u32| supertiled.address(4 * x, 4 * y) / 64;
        assert_eq!(
            [tile(0, 0), tile(1, 0), tile(2, 0), tile(3, 0)],
            [0, 1, 8, 9]
        );
        assert_eq!([tile(0, 1), tile(1, 1), tile(15, 3)], [2, 3, 63]);
        assert_eq!([tile(0, 4), tile(15, 4), tile(15, 15)], [64, 121, 255]);
        // The next supertile to the right, and the next row of supertiles (two per row here).
        assert_eq!([tile(16, 0), tile(0, 16)], [256, 512]);
    }

    /// Two rows of tiles, of 64 pixels, from dumps of GC2000: the half of each tile, and its number in the half.
    #[test]
    fn halves_lie_as_dumps_have_them() {
        let halves = Surface {
            bases: [0x1000_0000, 0x2000_0000],
            is_split: true,
            ..surface(Layout::Tiled, 64 * 16)
        };
        let rows = [
            "u1 u2 l1 l2 u5 u6 l5 l6 u9 u10 l9 l10 u13 u14 l13 l14",
            "l3 l4 u3 u4 l7 l8 u7 u8 l11 l12 u11 u12 l15 l16 u15 u16",
        ];
        for pair in 0..3 {
            for (row, tiles) in rows.iter().enumerate() {
                for (column, tile) in tiles.split(' ').enumerate() {
                    let base = if tile.starts_with('u') { 1 } else { 2 } << 28;
                    let number: u32 = tile[1..].parse().unwrap();
                    let at = base + pair * 64 * 16 + (number - 1) * 64;
                    let (x, y) = (4 * column as u32, 8 * pair + 4 * row as u32);
                    assert_eq!(halves.address(x, y), at, "{x},{y}");
                    assert_eq!(halves.address(x + 3, y + 3), at + 60, "{x},{y}");
                }
            }
        }
    }

    #[test]
    fn every_layout_uses_each_byte_once() {
        for (layout, is_split) in [
            (Layout::Linear, false),
            (Layout::Tiled, false),
            (Layout::Supertiled, false),
            (Layout::Tiled, true),
            (Layout::Supertiled, true),
        ] {
            let stride = if layout == Layout::Linear {
                128 * 4
            } else {
                128 * 16
            };
            let surface = Surface {
                bases: [0, 64 * 128 * 4],
                is_split,
                ..surface(layout, stride)
            };
            let mut seen = vec![false; 128 * 128];
            for y in 0..128 {
                for x in 0..128 {
                    let index = surface.address(x, y) / 4;
                    assert!(!seen[index as usize], "{layout:?} {x},{y}");
                    seen[index as usize] = true;
                    let (part, index) = if is_split {
                        (index / (64 * 128), index % (64 * 128))
                    } else {
                        (0, index)
                    };
                    assert_eq!(
                        pixel_at(&surface, 128, part, index),
                        (x, y),
                        "{layout:?} {is_split}"
                    );
                }
            }
        }
    }
}
