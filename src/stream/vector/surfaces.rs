// SPDX-License-Identifier: GPL-2.0-only

//! The memory that a draw of the vector graphics core may touch: surfaces and tessellator buffers.

use super::{
    tracked,
    Fault,
    Values,
    TRACKED, //
};

/// The memory that a client's words may name.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    /// Address of scratch memory.
    pub(crate) scratch: u32,
    /// Bytes from an address to the end of its piece of the process's memory, or of scratch memory.
    /// `None`: the process may not use the address. Without this function addresses are not
    /// checked.
    pub(crate) bytes_from: Option<&'a dyn Fn(u32) -> Option<u64>>,
    /// Addresses that the process may not use become scratch memory instead of a fault: a context
    /// may name memory that was freed.
    pub(crate) forgives: bool,
}

impl Access<'_> {
    /// The address to load for `value`. `None`: the process may not use it.
    pub(super) fn resolve(&self, value: u32) -> Option<u32> {
        let Some(bytes_from) = self.bytes_from else {
            return Some(value);
        };
        match value {
            0 => Some(self.scratch),
            _ if bytes_from(value).is_some() => Some(value),
            _ => self.forgives.then_some(self.scratch),
        }
    }

    /// Fails unless the process may use `bytes` at the address in the state at `place`.
    fn has(&self, values: &Values, place: usize, bytes: u64) -> Result<(), Fault> {
        let left = self
            .bytes_from
            .and_then(|bytes_from| bytes_from(values[place]));
        if left.is_some_and(|left| bytes <= left) {
            Ok(())
        } else {
            Err(Fault::Extent(TRACKED[place]))
        }
    }
}

/// A surface: indexes of its states in [`TRACKED`].
pub(super) struct Surface {
    pub(super) address: usize,
    pub(super) stride: usize,
    /// First column and row, if the surface has this state.
    pub(super) origin: Option<usize>,
    pub(super) size: usize,
    pub(super) planes: [usize; 2],
}

pub(super) const TARGET_SURFACE: Surface = Surface {
    address: tracked::TARGET,
    stride: tracked::TARGET_STRIDE,
    origin: None,
    size: tracked::TARGET_SIZE,
    planes: tracked::TARGET_PLANES,
};

/// Image 1, and the index of its format.
pub(super) const IMAGE_1: (Surface, usize) = (
    Surface {
        address: 1,
        stride: 20,
        origin: Some(21),
        size: 22,
        planes: [9, 11],
    },
    19,
);

/// Image 0, and the index of its format.
pub(super) const IMAGE_0: (Surface, usize) = (
    Surface {
        address: 2,
        stride: 24,
        origin: Some(25),
        size: 26,
        planes: [10, 12],
    },
    23,
);

/// Fields of a stride: bytes from a row to the next, and whether the surface is in tiles of 4 x 4.
pub(super) const STRIDE_MASK: u32 = 0x0FFF_FFFF;
pub(super) const TILED: u32 = 1 << 28;

impl Surface {
    /// Columns and rows of the surface.
    pub(super) fn size(&self, values: &Values) -> (u32, u32) {
        let half = |word: u32| (word & 0xFFFF, word >> 16);
        let (width, height) = half(values[self.size]);
        let (left, top) = self.origin.map_or((0, 0), |origin| half(values[origin]));
        (left + width, top + height)
    }

    /// Fails unless the process may use all of it, with `pixel` bytes a pixel, and these `planes`.
    fn check(
        &self,
        values: &Values,
        access: &Access<'_>,
        pixel: u32,
        planes: core::ops::Range<usize>,
    ) -> Result<(), Fault> {
        let stride = values[self.stride];
        let (bytes, is_tiled) = (u64::from(stride & STRIDE_MASK), stride & TILED != 0);
        let (columns, rows) = self.size(values);
        // A tiled surface has whole tiles of 4 columns and 4 rows.
        let columns = if is_tiled {
            u64::from(columns).next_multiple_of(4)
        } else {
            u64::from(columns)
        };
        let row = columns * u64::from(pixel);
        // An image of one row may have no stride.
        let is_one = self.origin.is_some() && rows <= 1;
        let is_whole = !is_tiled || (stride & STRIDE_MASK) % (4 * pixel) == 0;
        let fits = stride & !(STRIDE_MASK | TILED) == 0 && is_whole && (is_one || row <= bytes);
        if !fits || (bytes | u64::from(values[self.address])) % u64::from(pixel) != 0 {
            return Err(Fault::Stride(TRACKED[self.address]));
        }
        let rows = u64::from(rows);
        // Cannot overflow: less than 2^45.
        let all = if is_tiled {
            rows.next_multiple_of(4).max(4) * bytes.max(row)
        } else {
            rows.saturating_sub(1) * bytes + row
        };
        // An engine without a surface may still access its address.
        let all = all.max(u64::from(pixel));
        access.has(values, self.address, all)?;
        let planes = self.planes.get(planes).unwrap_or(&[]);
        planes
            .iter()
            .try_for_each(|&plane| access.has(values, plane, all))
    }
}

/// Bytes of a target's pixel and its additional planes, by the low bits of its format.
fn target_format(format: u32) -> (u32, core::ops::Range<usize>) {
    match format & 0xF {
        0 | 6 => (1, 0..0),
        1 | 4 | 5 | 8 => (2, 0..0),
        2 | 3 => (4, 0..0),
        0xB => (1, 0..1),
        _ => (4, 0..2),
    }
}

/// As [`target_format`], for an image.
fn image_format(format: u32) -> (u32, core::ops::Range<usize>) {
    match format & 0xF {
        0..=2 => (1, 0..0),
        3..=5 | 8 => (2, 0..0),
        6 | 7 => (4, 0..0),
        0xB => (1, 0..1),
        0xE => (1, 0..2),
        _ => (4, 0..2),
    }
}

/// Fields of the control: the primitive, the use of images, the paint.
const PRIMITIVE: u32 = 7;
const IMAGE_MODE: u32 = 0x7000;
const PAINT: u32 = 0x0300_0000;

/// Values of these fields: rectangles, two kinds of path; the last mode with one image.
const RECTANGLES: u32 = 1;
const PATHS: core::ops::RangeInclusive<u32> = 2..=3;
const ONE_IMAGE: u32 = 0x3000;

/// Fails unless the process may use all memory that a draw may touch.
pub(super) fn check_drawing(values: &Values, access: &Access<'_>) -> Result<(), Fault> {
    let control = values[tracked::CONTROL];
    let is_path = values[tracked::TESSELLATOR] != 0;
    let is_known = if is_path {
        PATHS.contains(&(control & PRIMITIVE))
    } else {
        control & PRIMITIVE == RECTANGLES
    };
    if !is_known {
        return Err(Fault::Primitive);
    }
    let (width, height) = TARGET_SURFACE.size(values);
    if values[tracked::TARGET] == access.scratch || width == 0 || height == 0 {
        return Err(Fault::NoTarget);
    }
    let (pixel, planes) = target_format(values[tracked::TARGET_FORMAT]);
    TARGET_SURFACE.check(values, access, pixel, planes)?;
    let mode = control & IMAGE_MODE;
    for ((surface, format), is_used) in [
        (IMAGE_0, mode != 0),
        (IMAGE_1, mode > ONE_IMAGE || control & PAINT != 0),
    ] {
        if is_used {
            let (pixel, planes) = image_format(values[format]);
            surface.check(values, access, pixel, planes)?;
        }
    }
    if is_path {
        let [read, write] = [tracked::READ_STRIDE, tracked::WRITE_STRIDE];
        for (places, stride) in [(tracked::READ, read), (tracked::WRITE, write)] {
            for (place, bytes) in places.into_iter().zip(tessellation(values, stride)) {
                access.has(values, place, bytes)?;
            }
        }
    }
    Ok(())
}

/// Bytes of the tessellation buffer and of its two levels.
fn tessellation(values: &Values, stride: usize) -> [u64; 3] {
    let window = values[tracked::WINDOW];
    let (width, height) = (u64::from(window & 0xFFFF), u64::from(window >> 16));
    let width = width.next_multiple_of(128);
    let stride = u64::from(values[stride])
        .max(8 * width)
        .next_multiple_of(64);
    // Cannot overflow: less than 2^49.
    let size = stride * height.next_multiple_of(16);
    let bits = |bytes: u64, each: u64| {
        let bits = (bytes / each).next_multiple_of(64);
        (bits / 8).next_multiple_of(64)
    };
    let level_1 = bits(size, 64);
    let stated = 64 * u64::from(values[tracked::LEVEL_2]);
    [
        size.max(8),
        level_1.max(8),
        bits(level_1, 32).max(stated).max(8),
    ]
}

/// Clips rectangles to the target.
pub(super) fn clip(rectangles: &mut [u32], (width, height): (u32, u32)) -> Result<(), Fault> {
    for unit in rectangles.chunks_exact_mut(2) {
        let (x, y) = (unit[0] & 0xFFFF, unit[0] >> 16);
        let (columns, rows) = (unit[1] & 0xFFFF, unit[1] >> 16);
        if x >= width || y >= height {
            return Err(Fault::Rectangle);
        }
        unit[1] = rows.min(height - y) << 16 | columns.min(width - x);
    }
    Ok(())
}
