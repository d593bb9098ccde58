// SPDX-License-Identifier: GPL-2.0-only
//! Drawing of a VG core: rectangles of one color. Paths do not change memory; only the addresses that they would use
//! are checked.

use gpu_control::ViolationKind;

use crate::engine2d::Bus;
use crate::mmu::Port;
use crate::mmu_vg::TAG;
use crate::pixel::Format;
use crate::registers::state::vg::*;

/// Primitive of [`CONTROL`]: a rectangle.
const RECTANGLE: u32 = 1;
/// Bits of [`CONTROL`] that are supported for a rectangle: primitive, blending, premultiply.
const CONTROL_KNOWN: u32 = 0x1000_0f03;
const BLEND: u32 = 0xf00;
const PREMULTIPLY: u32 = 1 << 28;
/// Use of images: with 0 no image is used; up to [`ONE_IMAGE`] only image 0. Paint other than 0 uses image 1.
const IMAGE_MODE: u32 = 0x7000;
const ONE_IMAGE: u32 = 0x3000;
const PAINT: u32 = 0x300_0000;
/// Bits of [`TARGET_FORMAT`].
const DIVIDE: u32 = 1 << 9;
const MIRROR: u32 = 1 << 16;
/// Bits of [`TARGET_STRIDE`].
const TILED: u32 = 1 << 28;
const STRIDE: u32 = 0xfff_ffff;

/// A rectangle's two words: `y << 16 | x` and `height << 16 | width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

impl Rectangle {
    /// From a unit of DATA.
    pub fn from_unit(unit: u64) -> Self {
        let half = |shift: u32| u32::from((unit >> shift) as u16);
        Self {
            left: half(0),
            top: half(16),
            width: half(32),
            height: half(48),
        }
    }
}

/// Target of rectangles, and their fill color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    address: u32,
    stride: u32,
    width: u32,
    height: u32,
    bytes: u32,
    pixel: u32,
}

/// A range in memory: address and bytes.
pub type Place = (u32, u32);

impl Target {
    /// The target as set in the states.
    pub fn new(state: impl Fn(u32) -> u32) -> Result<Self, (ViolationKind, String)> {
        let unsupported = |text: String| Err((ViolationKind::Unsupported, format!("VG: {text}")));
        let (control, format) = (state(CONTROL), state(TARGET_FORMAT));
        if control & 3 != RECTANGLE {
            let text = format!("VG: data for primitive {} as rectangles", control & 3);
            return Err((ViolationKind::BadDraw, text));
        }
        if control & !CONTROL_KNOWN != 0 {
            return unsupported(format!("control {control:#010x}"));
        }
        if control & BLEND != 0 {
            return unsupported(format!("blending {}", (control & BLEND) >> 8));
        }
        if format & MIRROR != 0 || state(TARGET_STRIDE) & TILED != 0 {
            return unsupported("mirrored or tiled target".into());
        }
        let color = state(COLOR);
        let both = (control & PREMULTIPLY != 0) == (format & DIVIDE != 0);
        if color >> 24 != 0xff && !both {
            return unsupported("a colour that is premultiplied, or divided, alone".into());
        }
        let Some((bytes, pixel)) = pixel(format & 0x3f, color) else {
            return unsupported(format!("target format {:#x}", format & 0x3f));
        };
        let (size, stride) = (state(TARGET_SIZE), state(TARGET_STRIDE) & STRIDE);
        let (width, height) = (size & 0xffff, size >> 16);
        let address = state(TARGET_ADDRESS);
        if stride < width * bytes || (stride | address & !TAG) % bytes != 0 {
            let text =
                format!("VG: target of {width} pixels at {address:#010x} with stride {stride:#x}");
            return Err((ViolationKind::BadDraw, text));
        }
        Ok(Self {
            address,
            stride,
            width,
            height,
            bytes,
            pixel,
        })
    }

    /// The tag of the target's address.
    pub fn tag(&self) -> u32 {
        self.address & TAG
    }

    /// Fills a rectangle. `bus` adds the tag to addresses. Returns the number of pixels written.
    pub fn fill(&self, rectangle: Rectangle, bus: &mut dyn Bus) -> u64 {
        let right = (rectangle.left + rectangle.width).min(self.width);
        let bottom = (rectangle.top + rectangle.height).min(self.height);
        let Some(count) = right.checked_sub(rectangle.left).filter(|count| *count > 0) else {
            return 0;
        };
        let bytes = self.pixel.to_le_bytes();
        let row = bytes[..self.bytes as usize].repeat(count as usize);
        let mut pixels = 0;
        for y in rectangle.top..bottom {
            if bus.aborted() {
                break;
            }
            let address = (self.address & !TAG)
                .wrapping_add(y.wrapping_mul(self.stride))
                .wrapping_add(rectangle.left * self.bytes);
            bus.write(Port::Pixel, address, &row);
            pixels += u64::from(count);
        }
        pixels
    }
}

/// Converts a color from `0xAABBGGRR` to the form of the other cores' states.
pub fn argb(color: u32) -> u32 {
    color & 0xff00_ff00 | (color & 0xff) << 16 | (color >> 16) & 0xff
}

/// Bytes per pixel, and a color (`0xAABBGGRR`) converted to the format: 565 and 8888, in their channel orders.
fn pixel(format: u32, color: u32) -> Option<(u32, u32)> {
    let [red, green, blue, alpha] = color.to_le_bytes();
    Some(match format {
        0x03 => (4, u32::from_le_bytes([blue, green, red, alpha])),
        0x13 => (4, u32::from_le_bytes([alpha, blue, green, red])),
        0x23 => (4, u32::from_le_bytes([red, green, blue, alpha])),
        0x33 => (4, u32::from_le_bytes([alpha, red, green, blue])),
        0x01 => (2, narrow([blue, green, red, alpha])),
        0x21 => (2, narrow([red, green, blue, alpha])),
        _ => return None,
    })
}

fn narrow(bgra: [u8; 4]) -> u32 {
    Format::R5G6B5.pack(u32::from_le_bytes(bgra))
}

const fn align(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

/// Buffers that the tessellator writes for a path, and those that VG reads.
pub fn tessellation(state: impl Fn(u32) -> u32) -> [[Place; 3]; 2] {
    let height = u64::from(state(TS_SIZE) >> 16);
    let places = |first: u32, stride: u32| {
        let size = u64::from(state(stride) & STRIDE) * height;
        let level_1 = align(align(size / 64, 64) / 8, 64);
        let level_2 = u64::from(state(TS_LEVEL_2)) * 64;
        [(first, size), (first + 1, level_1), (first + 2, level_2)]
            .map(|(word, size)| (state(word), u32::try_from(size).unwrap_or(u32::MAX)))
    };
    [
        places(TS_WRITE, TS_WRITE_STRIDE),
        places(TS_READ, TS_READ_STRIDE),
    ]
}

/// The target and the used images.
pub fn surfaces(state: impl Fn(u32) -> u32) -> [Place; 3] {
    let place = |address: u32, stride: u32, size: u32| {
        let (stride, size) = (state(stride), state(size));
        let (width, height) = (u64::from(size & 0xffff), u64::from(size >> 16));
        let row = u64::from(stride & STRIDE);
        let bytes = if stride & TILED != 0 {
            align(height, 4) * row
        } else {
            height.saturating_sub(1) * row + width
        };
        let bytes = align(bytes.max(4), 4);
        (state(address), u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    let none = (0, 0);
    let mode = state(CONTROL) & IMAGE_MODE;
    let is_painted = mode > ONE_IMAGE || state(CONTROL) & PAINT != 0;
    [
        place(TARGET_ADDRESS, TARGET_STRIDE, TARGET_SIZE),
        match mode {
            0 => none,
            _ => place(IMAGE_0, 0xa2b, 0xa2f),
        },
        if is_painted {
            place(IMAGE_1, 0xa2a, 0xa2e)
        } else {
            none
        },
    ]
}

/// Whether a state holds an address.
pub fn holds_address(word: u32) -> bool {
    matches!(
        word,
        TARGET_ADDRESS | IMAGE_1 | IMAGE_0 | TARGET_PLANES..=0xa5d | PLANES..=0xa53
    ) || (TS_READ..TS_READ + 3).contains(&word)
        || (TS_WRITE..TS_WRITE + 3).contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine2d::tests::FlatBus;

    fn target(changes: &[(u32, u32)]) -> Result<Target, (ViolationKind, String)> {
        let smallest = [
            (CONTROL, 0x1000_0001),
            (COLOR, 0xff33_2211),
            (TARGET_FORMAT, 0x203),
            (TARGET_ADDRESS, 0x1000),
            (TARGET_STRIDE, 64),
            (TARGET_SIZE, 4 << 16 | 8),
        ];
        Target::new(|word| {
            let mut all = changes.iter().chain(&smallest);
            all.find(|(state, _)| *state == word)
                .map_or(0, |(_, value)| *value)
        })
    }

    #[test]
    fn formats_pack_the_colour() {
        let color = 0x8033_2211;
        assert_eq!(pixel(0x03, color), Some((4, 0x8011_2233)));
        assert_eq!(pixel(0x23, color), Some((4, 0x8033_2211)));
        assert_eq!(pixel(0x13, color), Some((4, 0x1122_3380)));
        assert_eq!(pixel(0x33, color), Some((4, 0x3322_1180)));
        assert_eq!(pixel(0x01, 0xff00_fcf8), Some((2, 0xffe0)));
        assert_eq!(pixel(0x21, 0xff00_fcf8), Some((2, 0x07ff)));
        assert_eq!(pixel(0x00, color), None);
    }

    #[test]
    fn rectangles_are_clipped_to_the_target() {
        let target = target(&[]).unwrap();
        let mut bus = FlatBus::new();
        let unit = 0x0009_0004_0002_0006;
        let rectangle = Rectangle::from_unit(unit);
        assert_eq!((rectangle.left, rectangle.top), (6, 2));
        // Two of four columns and two of nine rows.
        assert_eq!(target.fill(rectangle, &mut bus), 4);
        let word = |at: usize| u32::from_le_bytes(bus.bytes[at..at + 4].try_into().unwrap());
        let at = 0x1000 + 2 * 64 + 6 * 4;
        let around = [at - 4, at, at + 4, at + 8, at + 64, at + 128].map(word);
        let (old, new) = (0xeeee_eeee, 0xff11_2233);
        assert_eq!(around, [old, new, new, old, new, old]);
        assert_eq!(target.fill(Rectangle::from_unit(9), &mut bus), 0);
    }

    #[test]
    fn what_cannot_be_drawn_is_told() {
        for (state, value, kind) in [
            (CONTROL, 2, ViolationKind::BadDraw),
            (CONTROL, 0x101, ViolationKind::Unsupported),
            (CONTROL, 0x41, ViolationKind::Unsupported),
            (TARGET_FORMAT, 0x200, ViolationKind::Unsupported),
            (TARGET_FORMAT, 0x1_0203, ViolationKind::Unsupported),
            (TARGET_STRIDE, 1 << 28 | 64, ViolationKind::Unsupported),
            (TARGET_STRIDE, 28, ViolationKind::BadDraw),
            (TARGET_STRIDE, 66, ViolationKind::BadDraw),
        ] {
            let problem = target(&[(state, value)]).map_err(|(kind, _)| kind);
            assert_eq!(problem, Err(kind), "{state:#x} {value:#x}");
        }
        let color = [(COLOR, 0x8033_2211)];
        assert!(target(&color).is_ok());
        assert!(target(&[color[0], (TARGET_FORMAT, 3)]).is_err());
    }

    #[test]
    fn the_tessellation_buffer_has_three_parts() {
        let places = tessellation(|word| match word {
            TS_WRITE | TS_READ => 0x1000,
            0xa36 | 0xa31 => 0x5000,
            0xa37 | 0xa32 => 0x5100,
            TS_WRITE_STRIDE | TS_READ_STRIDE => 1024,
            TS_SIZE => 16 << 16 | 128,
            TS_LEVEL_2 => 1,
            _ => 0,
        });
        let wanted = [(0x1000, 0x4000), (0x5000, 64), (0x5100, 64)];
        assert_eq!(places, [wanted; 2]);
    }

    #[test]
    fn surfaces_reach_to_their_last_row() {
        let places = |control: u32, stride: u32| {
            surfaces(move |word| match word {
                CONTROL => control,
                TARGET_ADDRESS => 0x1000,
                IMAGE_0 => 0x2000,
                IMAGE_1 => 0x3000,
                TARGET_STRIDE => stride,
                0xa2a | 0xa2b => 256,
                TARGET_SIZE | 0xa2e | 0xa2f => 6 << 16 | 16,
                _ => 0,
            })
        };
        let (of_target, none) = ((0x1000, 5 * 64 + 16), (0, 0));
        assert_eq!(places(1, 64), [of_target, none, none]);
        assert_eq!(places(1, TILED | 64)[0], (0x1000, 8 * 64));
        let images = [(0x2000, 5 * 256 + 16), (0x3000, 5 * 256 + 16)];
        assert_eq!(places(0x1001, 64)[1..], [images[0], none]);
        assert_eq!(places(0x100_0001, 64)[1..], [none, images[1]]);
        assert_eq!(places(0x5001, 64)[1..], images);
    }

    #[test]
    fn addresses_are_known() {
        let all: Vec<u32> = (0xa00..0xb00).filter(|word| holds_address(*word)).collect();
        let wanted = [
            0xa11, 0xa28, 0xa29, 0xa30, 0xa31, 0xa32, 0xa35, 0xa36, 0xa37, 0xa50, 0xa51, 0xa52,
            0xa53, 0xa5c, 0xa5d,
        ];
        assert_eq!(all, wanted);
    }
}
