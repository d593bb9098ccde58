// SPDX-License-Identifier: GPL-2.0-only
//! The video rasterizer: filter blits in one direction, with nine taps.
//!
//! Facts from the register database, etna_viv's test programs and xf86-video-armada:
//! * A blit draws one window, VR_TARGET_WINDOW, without clipping. The source's origin is VR_SOURCE_ORIGIN in 16.16.
//! * A pass scales in one direction. The programs run each pass with both stretch factors loaded, and with as many rows
//!   or columns as the source has. So the other direction advances pixel by pixel.
//! * The upper five bits of the fraction select one of 32 rows of coefficients in 1.14. 17 rows are stored; the others
//!   are mirrored. In the tables of all programs, the center is the fifth coefficient of row 16. So fraction 0.5 is the
//!   center of a pixel, and coefficient k belongs to pixel (integer part) + k - 4.
//! * Pixels outside VR_SOURCE_IMAGE (called a bounding box) repeat those at its edge.
//!
//! Assumptions: all channels are filtered alike, alpha too. Sums are rounded to the nearest value. YUV is filtered as
//! YUV and converted afterwards. Into YUY2, a pixel in an even column writes its own U, one in an odd column its own V.

use gpu_control::ViolationKind;

use super::bad;
use super::source;
use super::source::Texels;
use super::source::Yuv;
use super::source::YuvFormat;
use super::surface::Surface;
use super::surface::Turn;
use super::unsupported;
use super::Bus;
use super::Engine;
use super::StateBlock;
use crate::mmu::Port;
use crate::pixel::Format;
use crate::registers::state::*;

/// DE_FORMAT.
const FORMAT_YUY2: u32 = 7;

const TAPS: i32 = 9;
/// The last stored row of coefficients.
const LAST_ROW: u32 = 16;

/// The direction in which a pass scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Horizontal,
    Vertical,
}

/// Target of a pass.
#[derive(Clone, Copy, Debug)]
enum Target {
    Colour(Surface),
    Yuy2 { base: u32, stride: u32 },
}

/// Source of a pass.
#[derive(Clone, Debug)]
enum Source {
    Colour(Texels),
    Yuv(Yuv),
}

impl Source {
    /// The channels of a pixel: blue, green, red, alpha; or Y, U, V.
    fn fetch(&self, x: i32, y: i32, bus: &mut dyn Bus) -> [u8; 4] {
        match self {
            Source::Colour(texels) => {
                let sample = texels.sample(x, y, false, Format::A8R8G8B8, bus);
                sample.argb.to_le_bytes()
            }
            Source::Yuv(yuv) => {
                let [y, u, v] = yuv.fetch(x, y, bus);
                [y, u, v, 255]
            }
        }
    }
}

/// One pass.
struct Pass {
    direction: Direction,
    target: Target,
    source: Source,
    /// 15.16.
    factor: u32,
    /// 16.16.
    origin: (i32, i32),
    /// Left, top, right, bottom.
    image: [i32; 4],
    window: [i32; 4],
    coefficients: Vec<i16>,
}

impl Pass {
    /// The coefficient of a tap at a 16-bit fraction.
    fn coefficient(&self, fraction: u32, tap: i32) -> i32 {
        let row = fraction >> 11;
        let (row, tap) = if row <= LAST_ROW {
            (row, tap)
        } else {
            (2 * LAST_ROW - row, TAPS - 1 - tap)
        };
        let place = row as usize * TAPS as usize + tap as usize;
        self.coefficients.get(place).copied().unwrap_or(0).into()
    }

    /// The filtered channels of the pixel at (`column`, `row`) in the window.
    fn filter(&self, column: i32, row: i32, rows: &mut Rows, bus: &mut dyn Bus) -> [u8; 4] {
        let along = match self.direction {
            Direction::Horizontal => column,
            Direction::Vertical => row,
        };
        let (start, other) = match self.direction {
            Direction::Horizontal => (self.origin.0, (self.origin.1 >> 16) + row),
            Direction::Vertical => (self.origin.1, (self.origin.0 >> 16) + column),
        };
        let position = i64::from(start) + i64::from(along) * i64::from(self.factor);
        let whole = (position >> 16) as i32;
        let fraction = (position & 0xffff) as u32;
        let mut sums = [0i32; 4];
        for tap in 0..TAPS {
            let place = whole.saturating_add(tap - TAPS / 2);
            let (x, y) = match self.direction {
                Direction::Horizontal => (place, other),
                Direction::Vertical => (other, place),
            };
            let channels = rows.get(self, x, y, bus);
            let coefficient = self.coefficient(fraction, tap);
            for (sum, channel) in sums.iter_mut().zip(channels) {
                *sum += coefficient * i32::from(channel);
            }
        }
        sums.map(|sum| ((sum + (1 << 13)) >> 14).clamp(0, 255) as u8)
    }
}

/// Cache of source rows.
#[derive(Default)]
struct Rows(Vec<(i32, Vec<[u8; 4]>)>);

impl Rows {
    /// The channels of a pixel, or of the nearest pixel in the source image.
    fn get(&mut self, pass: &Pass, x: i32, y: i32, bus: &mut dyn Bus) -> [u8; 4] {
        let [left, top, right, bottom] = pass.image;
        let (x, y) = (x.clamp(left, right - 1), y.clamp(top, bottom - 1));
        let index = match self.0.iter().position(|row| row.0 == y) {
            Some(index) => index,
            None => {
                if self.0.len() > TAPS as usize {
                    self.0.remove(0);
                }
                let row = (left..right).map(|x| pass.source.fetch(x, y, bus));
                let row = row.collect();
                self.0.push((y, row));
                self.0.len() - 1
            }
        };
        self.0[index].1[(x - left) as usize]
    }
}

impl Engine {
    /// Checks the states of a filter blit.
    pub fn check_filter(&self, states: &StateBlock) -> Result<(), (ViolationKind, String)> {
        self.pass(states).map(|_| ())
    }

    fn pass(&self, states: &StateBlock) -> Result<Pass, (ViolationKind, String)> {
        if !self.features.scaler {
            return bad("a filter blit: this core has NO_SCALER");
        }
        let direction = match states.bits(DE_VR_CONFIG, 1, 0) {
            0 => Direction::Horizontal,
            1 => Direction::Vertical,
            2 => return unsupported("a filter blit in one pass"),
            code => return bad(format!("filter blit {code} does not exist")),
        };
        if states.flag(DE_ALPHA_CONTROL, 0) {
            return unsupported("a filter blit with alpha blending");
        }
        if self.mirror(states)? != (false, false) {
            return unsupported("a filter blit that is mirrored");
        }
        let corner = |address| {
            let word = states.get(address);
            ((word & 0xffff) as i32, (word >> 16) as i32)
        };
        let area = |low, high, text: &str| {
            let ((left, top), (right, bottom)) = (corner(low), corner(high));
            if left < right && top < bottom {
                Ok([left, top, right, bottom])
            } else {
                bad(format!("a filter blit's {text} is empty"))
            }
        };
        let image = area(
            DE_VR_SOURCE_IMAGE_LOW,
            DE_VR_SOURCE_IMAGE_HIGH,
            "source image",
        )?;
        let window = area(
            DE_VR_TARGET_WINDOW_LOW,
            DE_VR_TARGET_WINDOW_HIGH,
            "target window",
        )?;
        let source = match YuvFormat::from_code(self.source_format_code(states)) {
            Some(_) => Source::Yuv(self.yuv(states)?),
            None => {
                let texels = self.texels(states, Format::A8R8G8B8)?;
                let Texels::Colour(surface, _) = &texels else {
                    return unsupported("a filter blit from this format");
                };
                if surface.turn != Turn::None {
                    return unsupported("a filter blit from a turned source");
                }
                Source::Colour(texels)
            }
        };
        let target = self.filter_target(states, &source)?;
        let coefficients = (0..17 * TAPS as u32).map(|index| {
            let word = states.get(DE_FILTER_KERNEL + index / 2 * 4);
            (word >> (index % 2 * 16)) as u16 as i16
        });
        let factor = match direction {
            Direction::Horizontal => DE_STRETCH_FACTOR_LOW,
            Direction::Vertical => DE_STRETCH_FACTOR_HIGH,
        };
        Ok(Pass {
            direction,
            target,
            source,
            factor: states.bits(factor, 30, 0),
            origin: (
                states.get(DE_VR_SOURCE_ORIGIN_LOW) as i32,
                states.get(DE_VR_SOURCE_ORIGIN_HIGH) as i32,
            ),
            image,
            window,
            coefficients: coefficients.collect(),
        })
    }

    fn filter_target(
        &self,
        states: &StateBlock,
        source: &Source,
    ) -> Result<Target, (ViolationKind, String)> {
        let is_yuy2 = states.bits(DE_DEST_CONFIG, 4, 0) == FORMAT_YUY2;
        if is_yuy2 && self.pe20 {
            let (base, stride) = (
                states.get(DE_DEST_ADDRESS),
                states.bits(DE_DEST_STRIDE, 17, 0),
            );
            let others = (1 << 8) | (3 << 16) | (3 << 20) | (1 << 26);
            let is_turned = states.get(DE_ROT_ANGLE) & 0x3_303f != 0
                || states.flag(DE_DEST_ROTATION_CONFIG, 16);
            if states.get(DE_DEST_CONFIG) & others != 0 || is_turned {
                return unsupported("a destination of YUY2 that is tiled, turned or swizzled");
            }
            if !matches!(source, Source::Yuv(_)) {
                return unsupported("a conversion from RGB to YUY2");
            }
            if base % 4 != 0 || stride % 4 != 0 {
                return bad(format!("YUY2 at {base:#x} with stride {stride:#x}"));
            }
            return Ok(Target::Yuy2 { base, stride });
        }
        let surface = self.target(states)?;
        if surface.turn != Turn::None {
            return unsupported("a filter blit to a turned destination");
        }
        self.check_dither(states, surface.layout.format)?;
        Ok(Target::Colour(surface))
    }

    /// Draws a filter blit. The states must have passed [`Engine::check_filter`]. Returns the pixels written.
    pub fn filter(&self, states: &StateBlock, bus: &mut dyn Bus) -> u64 {
        let Ok(pass) = self.pass(states) else {
            return 0;
        };
        let [left, top, right, bottom] = pass.window;
        let mut rows = Rows::default();
        let mut pixels = 0;
        for y in top..bottom {
            if bus.aborted() {
                break;
            }
            for x in left..right {
                let channels = pass.filter(x - left, y - top, &mut rows, bus);
                match pass.target {
                    Target::Colour(surface) => {
                        let argb = match &pass.source {
                            Source::Colour(_) => u32::from_le_bytes(channels),
                            Source::Yuv(yuv) => {
                                let [luma, u, v, _] = channels;
                                yuv.space.to_argb(luma, u, v)
                            }
                        };
                        let pixel = surface.layout.format.pack(argb);
                        source::store(&surface, x, y, pixel, bus);
                    }
                    Target::Yuy2 { base, stride } => {
                        let address = base
                            .wrapping_add((y as u32).wrapping_mul(stride))
                            .wrapping_add(2 * x as u32);
                        let colour = channels[1 + (x & 1) as usize];
                        bus.write(Port::Pixel, address, &[channels[0], colour]);
                    }
                }
            }
            pixels += (right - left) as u64;
        }
        pixels
    }
}
