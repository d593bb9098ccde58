// SPDX-License-Identifier: GPL-2.0-only

//! Sizes of surfaces, for clients that leave this to the kernel (ALLOCATE_VIDEO_MEMORY of the v2
//! family).
//!
//! Pure logic. Source: sources.md, video memory; `gceSURF_FORMAT` of the vendor's v2 headers.

use crate::abi::Surface;
use crate::prelude::*;

/// Alignment of a surface's address, in bytes.
pub(crate) const ALIGNMENT: u32 = 64;

/// Types of surfaces (`gceSURF_TYPE`).
const TEXTURE: u32 = 3;
const RENDER_TARGET: u32 = 4;
const DEPTH: u32 = 5;

/// The dimensions of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Pixels in a row, aligned.
    pub(crate) width: u32,
    /// Rows, aligned.
    pub(crate) height: u32,
    /// Size in bytes.
    pub(crate) bytes: u32,
}

/// Bits per pixel of a `gceSURF_FORMAT`. The number's hundreds are the family of the format.
fn bits_per_pixel(format: u32) -> Option<u64> {
    Some(match format {
        // Indices.
        100 => 1,
        101 => 4,
        102 => 8,
        // Colors, red first.
        200 | 201 => 8,
        202..=209 | 214 | 215 | 223 | 224 => 16,
        210 => 24,
        211..=213 | 216 | 217 | 222 => 32,
        218 | 219 => 48,
        220 | 221 => 64,
        // Colors, blue first.
        300..=302 | 309 | 310 | 313..=316 => 16,
        303 => 24,
        304..=306 | 308 | 311 | 312 => 32,
        307 => 64,
        // Compressed: DXT1, DXT2 to 5, CXV8U8, ETC1.
        400 | 406 => 4,
        401..=404 => 8,
        405 => 16,
        // YUV: packed, then planar.
        500 | 501 | 506..=509 => 16,
        502..=505 => 12,
        // Depth.
        600 => 16,
        601..=603 => 32,
        // Alpha or luminance.
        700 | 800 => 4,
        701 | 801 => 8,
        702 | 802 => 12,
        703 | 803 => 16,
        704 | 804 => 32,
        705 | 805 => 1,
        // Alpha and luminance.
        900 | 901 => 8,
        902 | 903 => 16,
        904 => 24,
        905 => 32,
        // Bump maps.
        1000 | 1001 => 16,
        1002..=1005 => 32,
        1006 => 64,
        // Floats.
        1100 => 16,
        1101 | 1103 => 32,
        1102 | 1104 => 64,
        1105 => 128,
        _ => return None,
    })
}

/// The size of a surface. `InvalidArgument`: the format is unknown, or there are no bytes.
/// `OutOfMemory`: 4 GiB or more.
pub(crate) fn size(surface: &Surface, has_super_tiles: bool) -> Result<Size> {
    let (columns, rows) = match surface.kind {
        RENDER_TARGET | DEPTH if has_super_tiles => (64, 64),
        TEXTURE => (4, 4),
        _ => (16, 4),
    };
    let bits = bits_per_pixel(surface.format).ok_or(Error::InvalidArgument)?;
    let aligned = |value: u32, to| value.checked_next_multiple_of(to).ok_or(Error::OutOfMemory);
    let (width, height) = (
        aligned(surface.width, columns)?,
        aligned(surface.height, rows)?,
    );
    let bytes = u64::from(width)
        .checked_mul(height.into())
        .and_then(|pixels| pixels.checked_mul(surface.depth.into()))
        .and_then(|pixels| pixels.checked_mul(bits))
        .and_then(|bits| u32::try_from(bits >> 3).ok())
        .ok_or(Error::OutOfMemory)?;
    match bytes {
        0 => Err(Error::InvalidArgument),
        _ => Ok(Size {
            width,
            height,
            bytes,
        }),
    }
}

#[kernel::macros::kunit_tests(galcore_surface)]
mod tests {
    use super::*;

    const A8R8G8B8: u32 = 212;

    fn sized(width: u32, height: u32, depth: u32, format: u32, kind: u32) -> Result<Size> {
        let surface = Surface {
            width,
            height,
            depth,
            format,
            kind,
            pool: 1,
        };
        size(&surface, false)
    }

    #[test]
    fn edges_are_aligned_by_type() {
        let target = sized(17, 5, 1, A8R8G8B8, RENDER_TARGET).unwrap();
        assert_eq!((target.width, target.height, target.bytes), (32, 8, 1024));
        let texture = sized(17, 5, 1, A8R8G8B8, TEXTURE).unwrap();
        assert_eq!((texture.width, texture.height, texture.bytes), (20, 8, 640));
        let surface = Surface {
            width: 17,
            height: 5,
            depth: 1,
            format: A8R8G8B8,
            kind: DEPTH,
            pool: 1,
        };
        let tiled = size(&surface, true).unwrap();
        assert_eq!((tiled.width, tiled.height, tiled.bytes), (64, 64, 16384));
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!(sized(u32::MAX, 1, 1, A8R8G8B8, 6), Err(Error::OutOfMemory));
        assert_eq!(
            sized(1 << 16, 1 << 16, 1, 705, 6),
            Ok(Size {
                width: 1 << 16,
                height: 1 << 16,
                bytes: 1 << 29,
            })
        );
        assert_eq!(
            sized(1 << 31, 1 << 31, 1 << 31, 1105, 6),
            Err(Error::OutOfMemory)
        );
        assert_eq!(sized(16, 16, 0, A8R8G8B8, 6), Err(Error::InvalidArgument));
        assert_eq!(sized(0, 16, 1, A8R8G8B8, 6), Err(Error::InvalidArgument));
        assert_eq!(sized(16, 16, 1, 0, 6), Err(Error::InvalidArgument));
        assert_eq!(sized(16, 16, 1, 225, 6), Err(Error::InvalidArgument));
    }
}
