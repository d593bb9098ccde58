// SPDX-License-Identifier: GPL-2.0-only

//! The range that the 2D engine accesses, from the first byte of a surface.
//!
//! Pure logic, without imports. The software GPU's tests compare it with what the engine accesses.
//!
//! The pixels of a rotated surface can be anywhere within the width and height in its states. So
//! all rows and columns up to these count, and the area must be in them. Tiles count as a whole.
//! Sources give two meanings to tiled surfaces' strides, and a core without the feature may ignore
//! the bit of a layout and access rows: what reaches farthest counts.
//!
//! Sources: the register database (state_2d.xml); sources.md, engines.

/// The signs of two coordinates in a state. No source says whether engines use them everywhere.
pub(crate) const SIGNS: u32 = 0x8000_8000;

/// The bits of a stride.
pub(crate) const STRIDE_BITS: u32 = 0x3_FFFF;

/// Formats (`DE_FORMAT`) other than one plane of whole bytes.
const MONOCHROME: u32 = 10;
const YV12: u32 = 15;
const NV12: u32 = 17;
const NV16: u32 = 18;

/// `DE_SRC_CONFIG`: the origin is relative to the coordinates of the target.
pub(crate) const RELATIVE: u32 = 1 << 6;

/// `DE_SRC_CONFIG`: tiles of 4 x 4 pixels.
pub(crate) const TILED: u32 = 1 << 7;
/// `DE_SRC_CONFIG`: the command contains bits or a mask.
pub(crate) const FROM_STREAM: u32 = 1 << 8;

/// `DE_SRC_CONFIG`: layouts of newer cores.
const NEWER_LAYOUTS: u32 = 3 << 9 | 7 << 17;

/// `DE_SRC_EX_CONFIG`: blocks of 64 x 64 pixels. Other bits are other layouts and compression.
const SUPERTILED: u32 = 1 << 3;

/// `DE_FORMAT`: eight bits of alpha.
pub(crate) const A8: u32 = 16;

/// The order of the pixels of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row after row. Groups of pixels count as a whole.
    Rows,
    /// Tiles of 4 x 4 pixels.
    Tiles,
    /// Blocks of 64 x 64 pixels.
    Blocks,
}

/// For a format with one plane: the bytes of a pixel, and the number of pixels in a group, less 1.
/// `None`: the format is unknown, or has several planes.
pub(crate) fn pixel(format: u32) -> Option<(u32, u32)> {
    Some(match format {
        0..=4 | 19 => (2, 0),
        5 | 6 => (4, 0),
        // YUY2 and UYVY.
        7 | 8 => (2, 1),
        9 | 10 | 16 => (1, 0),
        _ => return None,
    })
}

/// The offset of the last byte of `columns` x `rows` pixels. `None`: there are none, the offset is
/// too large, or the stride has more bits than the state.
pub(crate) fn last_byte(
    order: Order,
    stride: u32,
    (bytes, group): (u32, u32),
    (columns, rows): (u32, u32),
) -> Option<u32> {
    if stride > STRIDE_BITS {
        return None;
    }
    let (x, y) = (columns.checked_sub(1)?, rows.checked_sub(1)?);
    let whole = |bits: u32, high: u32| (x | bits).checked_add(1)?.checked_mul(high * bytes);
    let (row, in_row) = match order {
        Order::Rows => (y, whole(group, 1)?),
        Order::Tiles => (y & !3, whole(3, 4)?),
        Order::Blocks => (y & !63, whole(63, 64)?),
    };
    row.checked_mul(stride)?.checked_add(in_row - 1)
}

/// As [`last_byte`], of the order that reaches farthest.
pub(crate) fn last_of(
    orders: &[Order],
    stride: u32,
    pixel: (u32, u32),
    size: (u32, u32),
) -> Option<u32> {
    let mut last = 0;
    for &order in orders {
        last = last.max(last_byte(order, stride, pixel, size)?);
    }
    Some(last)
}

/// A rotation of a surface: by `DE_ROT_ANGLE`, and by bit 16 of the state with the width.
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    /// The field of `DE_ROT_ANGLE`.
    pub(crate) angle: u32,
    /// The state with the width.
    pub(crate) width: u32,
    /// The state with the height.
    pub(crate) height: u32,
}

impl Rotation {
    /// Whether the place of pixels depends on the height.
    pub(crate) fn needs_height(self) -> bool {
        !matches!(self.angle, 0 | 1 | 4)
    }

    /// Whether anything is rotated or flipped.
    pub(crate) fn turns(self) -> bool {
        self.angle != 0 || self.width & 1 << 16 != 0
    }

    /// The `reach` of an area up to `right` and `bottom`, from its columns and rows in memory. The
    /// farther one if two rotations may apply. `has_angle`: the engine has `DE_ROT_ANGLE`.
    pub(crate) fn farthest(
        self,
        has_angle: bool,
        (right, bottom): (u32, u32),
        reach: impl Fn((u32, u32)) -> Option<u32>,
    ) -> Option<u32> {
        let by_state = self.width & 1 << 16 != 0;
        // PE 2.0 may ignore the rotation by bit 16. The farther of both counts.
        let turned = if by_state {
            reach(self.turned(4, right, bottom)?)?
        } else {
            0
        };
        let angle = if has_angle { self.angle } else { 0 };
        if by_state && !has_angle {
            Some(turned)
        } else {
            Some(turned.max(reach(self.turned(angle, right, bottom)?)?))
        }
    }

    /// The (exclusive) ends of the columns and rows in memory, for rotation `angle`.
    fn turned(self, angle: u32, right: u32, bottom: u32) -> Option<(u32, u32)> {
        let (width, height) = (self.width & 0xFFFF, self.height & 0xFFFF);
        let in_width = |end: u32| (end <= width).then_some(width);
        let in_height = |end: u32| (end <= height).then_some(height);
        Some(match angle {
            0 => (right, bottom),
            // FLIP_X, FLIP_Y, ROT90, ROT180, ROT270.
            1 => (in_width(right)?, bottom),
            2 => (right, in_height(bottom)?),
            4 => (in_width(bottom)?, right),
            5 => (in_width(right)?, in_height(bottom)?),
            6 => (bottom, in_height(right)?),
            _ => return None,
        })
    }
}

/// The states of a source, without its addresses and origin.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) config: u32,
    pub(crate) ex_config: u32,
    /// By plane: Y or all planes; U, or U and V; V.
    pub(crate) strides: [u32; 3],
    pub(crate) rotation: Rotation,
}

/// The format in `DE_SRC_CONFIG`.
fn format(config: u32, is_pe20: bool) -> u32 {
    if is_pe20 {
        config >> 24 & 0x1F
    } else {
        config & 0xF
    }
}

/// Number of planes in memory of a source, by `config` (`DE_SRC_CONFIG`). `None`: the format or the
/// layout is unknown.
pub(crate) fn planes(config: u32, is_pe20: bool) -> Option<usize> {
    if config & NEWER_LAYOUTS != 0 {
        return None;
    }
    Some(match format(config, is_pe20) {
        MONOCHROME => usize::from(config & FROM_STREAM == 0),
        YV12 => 3,
        NV12 | NV16 => 2,
        format => pixel(format).map(|_| 1)?,
    })
}

impl Source {
    /// Whether the layout is documented.
    pub(crate) fn is_known(&self) -> bool {
        self.ex_config & !SUPERTILED == 0
    }

    /// The offset in plane `plane` of the last byte of an area up to `end` (columns and rows).
    /// `None`: too large, or unknown.
    pub(crate) fn last_byte(&self, is_pe20: bool, plane: usize, end: (u32, u32)) -> Option<u32> {
        let format = format(self.config, is_pe20);
        let orders: &[Order] = match (self.config & TILED, self.ex_config & SUPERTILED) {
            (0, 0) => &[Order::Rows],
            (_, 0) => &[Order::Rows, Order::Tiles],
            (0, _) => &[Order::Rows, Order::Blocks],
            _ => &[Order::Rows, Order::Tiles, Order::Blocks],
        };
        let stride = self.strides.get(plane).copied()?;
        self.rotation.farthest(is_pe20, end, |(columns, rows)| {
            // A plane of U and V has a byte of each for every two pixels of a row.
            let (pixel, size) = match (format, plane) {
                (MONOCHROME, _) => ((1, 0), (columns.div_ceil(8), rows)),
                (YV12, 1..) => ((1, 0), (columns.div_ceil(2), rows.div_ceil(2))),
                (NV12, 1..) => ((1, 1), (columns, rows.div_ceil(2))),
                (NV16, 1..) => ((1, 1), (columns, rows)),
                (YV12 | NV12 | NV16, _) => ((1, 0), (columns, rows)),
                _ => (pixel(format)?, (columns, rows)),
            };
            last_of(orders, stride, pixel, size)
        })
    }
}

/// How a blit scales its source. The engine may use the factors or the size: the farther counts.
/// With a relative origin, it may use neither.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// `DE_STRETCH_FACTOR`, 15.16, below bit 31. No source says how engines round: the register
    /// database has them use the integer part, so the nearest pixel, which is farther, counts. This
    /// does not count in a source of one pixel with a factor of at most 1 / target, which newer
    /// vendor code uses, unless the origin has a fraction.
    pub(crate) factors: [u32; 2],
    /// `DE_SRC_SIZE`.
    pub(crate) size: u32,
    /// `DE_SRC_ORIGIN_FRACTION`.
    pub(crate) fraction: u32,
    /// A GDI stretch: a pixel may read the last of the pixels that it covers.
    pub(crate) is_gdi: bool,
    /// The engine may round, by axis.
    pub(crate) rounds: [bool; 2],
}

fn signed(value: u32) -> i32 {
    // CAST: the low 16 bits are a signed number.
    i32::from(value as u16 as i16)
}

/// The (exclusive) columns and rows up to which a blit of a rectangle reads a source. `corners` are
/// the rectangle's, and `origin` (`DE_SRC_ORIGIN`) is the source's. A blit may be mirrored in the
/// rectangle. `None`: it reads before the source's first column or row.
///
/// Corners are signed. A negative second corner can also mean one far away, from which a mirrored
/// blit begins to read: then everything counts. If `is_relative`, reading begins at the rectangle's
/// own place plus `origin`, else at `origin`. `None`: unknown, so the farther one counts.
pub(crate) fn read_end(
    corners: [u32; 2],
    origin: u32,
    is_relative: Option<bool>,
    stretch: Option<Stretch>,
) -> Option<(u32, u32)> {
    let axis = |shift: u32, index: usize| {
        let [a, b] = corners.map(|corner| signed(corner >> shift));
        let origin = signed(origin >> shift);
        let (first, is_far) = (a.min(b), a >= 0 && b < 0);
        // CAST: at least 1.
        let mut last = ((b - a).abs().max(1) - 1) as u64 + u64::from(b < a);
        if is_far {
            last = 0xFFFF;
        }
        if let Some(stretch) = stretch {
            let factor = u64::from(stretch.factors[index]);
            let size = u64::from(stretch.size >> shift & 0xFFFF);
            let fraction = u64::from(stretch.fraction >> shift & 0xFFFF);
            let is_pixel = size == 1 && fraction == 0;
            let steps = if stretch.is_gdi {
                ((last + 1) * factor).saturating_sub(1)
            } else if !stretch.rounds[index] || is_pixel && (last + 1) * factor <= 1 << 16 {
                last * factor
            } else {
                last * factor + 0x8000
            };
            let scaled = (steps + fraction) >> 16;
            let scaled = scaled.max(size.saturating_sub(1));
            last = match is_relative {
                Some(false) => scaled,
                _ => last.max(scaled),
            };
        }
        let [lowest, highest] = match is_relative {
            Some(true) if is_far => [origin + first, origin],
            Some(true) => [origin + first; 2],
            Some(false) => [origin; 2],
            None => [origin + first.min(0), origin + first.max(0)],
        };
        // CAST: not negative.
        let end = (lowest >= 0).then(|| highest as u64 + last + 1)?;
        u32::try_from(end).ok()
    };
    Some((axis(0, 0)?, axis(16, 1)?))
}
