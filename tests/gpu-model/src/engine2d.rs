// SPDX-License-Identifier: GPL-2.0-only
//! The 2D engine (sources.md, engines; the register database's state_2d.xml): clear, line, bit blit and stretch blit of
//! rectangles, and the video rasterizer's filter blit.
//!
//! Unsupported operations (tiling, dithering, endianness, multi-source blit, one-pass filter blit) are refused by the
//! checks ([`Engine::check`], [`Engine::check_filter`]) and leave memory unchanged. For tiled surfaces the sources
//! disagree on the stride: of a row of pixels (Mesa, Weston) or of a row of tiles (xf86-video-armada).
//!
//! No public source documents silicon's behavior in these cases. The model uses the most likely reading of the sources:
//! * A stretch blit takes the pixel at the integer part of (pixels from the rectangle's corner) x factor.
//! * DE_CONFIG and the mirror fields of DE_ROT_ANGLE mirror within the rectangle: etna_viv's 2d.md calls them "roughly
//!   equivalent", and a renderer of Weston (Pengutronix, 2024) passes the top left corner of the part to mirror.
//!   Mirroring by both, or by source and destination, cancels out.
//! * Rectangles, clipping and pattern use the rotated coordinates of the destination.

mod blend;
mod blit;
mod filter;
mod paint;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod scenes;
mod setup;
mod source;
mod surface;
#[cfg(test)]
pub(crate) mod tests;

use gpu_control::ViolationKind;

use self::paint::Painter;
use self::source::Sample;
use self::surface::Surface;
use self::surface::Turn;
use crate::draw::Done;
use crate::draw::Peek;
use crate::mmu::Port;
use crate::personality::Personality;
use crate::pixel::Format;
use crate::registers::state::*;

/// An engine's access to memory.
pub trait Bus {
    /// Reads through a port. Unreadable bytes are 0.
    fn read(&mut self, port: Port, address: u32, data: &mut [u8]);
    /// Writes through a port. Writes that fail are lost.
    fn write(&mut self, port: Port, address: u32, data: &[u8]);
    /// Reads a physical address without translation.
    fn read_physical(&mut self, address: u32, data: &mut [u8]);
    /// Writes a physical address without translation.
    fn write_physical(&mut self, address: u32, data: &[u8]);
    /// Notes progress in long work.
    fn progress(&mut self) {}
    /// Whether a reset requires the engine to drop its work.
    fn aborted(&self) -> bool;
    /// Assigns the traffic since the last call to a pixel pipe, which has written `_pixels` pixels.
    fn end_pipe(&mut self, _pipe: usize, _pixels: u64) {}
    /// Memory for the parts of a split draw, if access without side effects is possible.
    fn peek(&self) -> Option<&dyn Peek> {
        None
    }
    /// Applies everything that a part did except its writes to memory ([`Peek::put`]).
    fn commit(&mut self, _part: &Done) {}
}

/// A copy of the states, taken when a command was fetched.
#[derive(Clone, Debug)]
pub struct StateBlock {
    parts: Vec<(u32, Vec<u32>)>,
}

impl StateBlock {
    /// States starting at byte address `first`.
    pub fn new(first: u32, words: Vec<u32>) -> Self {
        Self {
            parts: vec![(first, words)],
        }
    }

    /// Adds states starting at byte address `first`.
    pub fn with(mut self, first: u32, words: Vec<u32>) -> Self {
        self.parts.push((first, words));
        self
    }

    /// The state at a byte address; 0 outside the block.
    pub fn get(&self, address: u32) -> u32 {
        self.parts
            .iter()
            .find_map(|(first, words)| words.get((address.wrapping_sub(*first) / 4) as usize))
            .copied()
            .unwrap_or(0)
    }

    fn bits(&self, address: u32, high: u32, low: u32) -> u32 {
        (self.get(address) >> low) & (u32::MAX >> (31 - (high - low)))
    }

    /// A field of one bit.
    fn flag(&self, address: u32, bit: u32) -> bool {
        self.bits(address, bit, bit) != 0
    }
}

/// A rectangle: top left inclusive, bottom right exclusive. Coordinates are signed 16-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// Left column.
    pub left: i32,
    /// Top row.
    pub top: i32,
    /// Column after the last.
    pub right: i32,
    /// Row after the last.
    pub bottom: i32,
}

impl Rectangle {
    /// From the two words of a DRAW_2D rectangle: {`y[31:16]`, `x[15:0]`}.
    pub fn from_words(top_left: u32, bottom_right: u32) -> Self {
        let (left, top) = signed_pair(top_left);
        let (right, bottom) = signed_pair(bottom_right);
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    fn intersect(self, other: Self) -> Option<Self> {
        let both = Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }

    /// Width and height; 0 for an inverted rectangle.
    fn size(self) -> (u32, u32) {
        let length = |from: i32, to: i32| (to - from).max(0) as u32;
        (length(self.left, self.right), length(self.top, self.bottom))
    }

    /// The four corner pixels.
    fn corners(self) -> [(i32, i32); 4] {
        let (right, bottom) = (self.right - 1, self.bottom - 1);
        [
            (self.left, self.top),
            (right, self.top),
            (self.left, bottom),
            (right, bottom),
        ]
    }

    fn contains(self, x: i32, y: i32) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }
}

fn signed_pair(word: u32) -> (i32, i32) {
    (
        i32::from(word as u16 as i16),
        i32::from((word >> 16) as u16 as i16),
    )
}

/// Capabilities of a core's 2D engine from its feature words. Names are the register database's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Minor features 0, 2D_A8_TARGET.
    pub a8_target: bool,
    /// Features, YUV420_SCALER.
    pub yuv420: bool,
    /// Features, NO_SCALER is not set.
    pub scaler: bool,
    /// Minor features 1, 2D_DITHER.
    pub dither: bool,
    /// Minor features 1, NEW_2D: mirroring by DE_ROT_ANGLE.
    pub mirror: bool,
    /// Minor features 2, FULL_DIRECTFB.
    pub directfb: bool,
    /// Minor features 2, 2D_TILING: blits from YUV.
    pub yuv_blit: bool,
}

/// Differences between cores and runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Pixel engine 2.0 (otherwise 1.0): another clear color and another source format field.
    pub pe20: bool,
    /// Lines include their last pixel. The register database's documents disagree.
    pub line_inclusive: bool,
    /// Capabilities of the core.
    pub features: Features,
}

const CLEAR: u32 = 0;
const LINE: u32 = 1;
const BIT_BLT: u32 = 2;
const STRETCH_BLT: u32 = 4;
const MULTI_SOURCE_BLT: u32 = 8;

type Refusal = (ViolationKind, String);

fn unsupported<T>(text: impl std::fmt::Display) -> Result<T, Refusal> {
    Err((
        ViolationKind::Unsupported,
        format!("2D: not modelled: {text}"),
    ))
}

fn bad<T>(text: impl std::fmt::Display) -> Result<T, Refusal> {
    Err((ViolationKind::BadDraw, format!("2D: {text}")))
}

impl Engine {
    /// The 2D engine of a core.
    pub fn of(personality: &Personality, line_inclusive: bool) -> Self {
        let [minor0, minor1, minor2, ..] = personality.minor;
        let features = Features {
            a8_target: minor0 & (1 << 29) != 0,
            yuv420: personality.features & (1 << 6) != 0,
            scaler: personality.features & (1 << 20) == 0,
            dither: minor1 & (1 << 16) != 0,
            mirror: minor1 & (1 << 18) != 0,
            directfb: minor2 & (1 << 16) != 0,
            yuv_blit: minor2 & (1 << 17) != 0,
        };
        Self {
            pe20: personality.has_pe20(),
            line_inclusive,
            features,
        }
    }

    fn source_format_code(&self, states: &StateBlock) -> u32 {
        if self.pe20 {
            states.bits(DE_SRC_CONFIG, 28, 24)
        } else {
            states.bits(DE_SRC_CONFIG, 3, 0)
        }
    }

    fn format(&self, code: u32) -> Option<Format> {
        Format::from_code(code).filter(|format| self.pe20 || *format != Format::A8)
    }

    /// Checks the states of a draw before anything is drawn.
    pub fn check(&self, states: &StateBlock) -> Result<(), Refusal> {
        match states.bits(DE_DEST_CONFIG, 15, 12) {
            command @ (CLEAR | LINE) => {
                let target = self.target(states)?;
                if target.turn != Turn::None || self.mirror(states)? != (false, false) {
                    return unsupported("a clear or line that is turned or mirrored");
                }
                match command {
                    CLEAR => self.check_dither(states, target.layout.format)?,
                    _ => self.line_painter(states, &target).map(|_| ())?,
                }
            }
            BIT_BLT | STRETCH_BLT => {
                self.blit_of(states)?;
            }
            command if command > MULTI_SOURCE_BLT => {
                return bad(format!("command {command} does not exist"));
            }
            command => return unsupported(format!("command {command}")),
        }
        Ok(())
    }

    /// Draws one rectangle. The states must have passed [`Engine::check`]. Returns the pixels written.
    pub fn draw(
        &self,
        states: &StateBlock,
        data: &[u32],
        rectangle: Rectangle,
        bus: &mut dyn Bus,
    ) -> u64 {
        let clip = clip(states);
        match states.bits(DE_DEST_CONFIG, 15, 12) {
            CLEAR => match self.target(states) {
                Ok(target) => self.clear(states, &target, rectangle.intersect(clip), bus),
                Err(_) => 0,
            },
            LINE => self.line(states, rectangle, clip, bus),
            BIT_BLT | STRETCH_BLT => match self.blit_of(states) {
                Ok(blit) => blit::draw_blit(blit, data, rectangle, clip, bus),
                Err(_) => 0,
            },
            _ => 0,
        }
    }

    fn clear(
        &self,
        states: &StateBlock,
        target: &Surface,
        area: Option<Rectangle>,
        bus: &mut dyn Bus,
    ) -> u64 {
        let Some(area) = area else { return 0 };
        let format = target.layout.format;
        let bytes = format.bytes() as usize;
        let mut row = vec![0; (area.right - area.left) as usize * bytes];
        let pattern = (u64::from(states.get(DE_CLEAR_PIXEL_VALUE_HIGH)) << 32)
            | u64::from(states.get(DE_CLEAR_PIXEL_VALUE_LOW));
        let pattern = pattern.to_le_bytes();
        let mask = states.get(DE_CLEAR_BYTE_MASK);
        let color = format.pack(states.get(DE_CLEAR_PIXEL_VALUE32));
        let color = target.layout.stored(color);
        let mut pixels = 0;
        for y in area.top..area.bottom {
            if bus.aborted() {
                break;
            }
            let address = target.address(area.left, y);
            if self.pe20 {
                row.chunks_exact_mut(bytes)
                    .for_each(|pixel| format.store(color, pixel));
            } else {
                if mask & 0xff != 0xff {
                    bus.read(target.port, address, &mut row);
                }
                for (offset, byte) in row.iter_mut().enumerate() {
                    let lane = (address as usize + offset) & 7;
                    if mask & (1 << lane) != 0 {
                        *byte = pattern[lane];
                    }
                }
            }
            bus.write(target.port, address, &row);
            pixels += (area.right - area.left) as u64;
        }
        pixels
    }

    fn line(
        &self,
        states: &StateBlock,
        line: Rectangle,
        clip: Rectangle,
        bus: &mut dyn Bus,
    ) -> u64 {
        let Ok(target) = self.target(states) else {
            return 0;
        };
        let Ok(mut painter) = self.line_painter(states, &target) else {
            return 0;
        };
        painter.prepare(bus);
        let argb = states.get(DE_SRC_COLOR_FG);
        let sample = Sample {
            argb,
            pixel: target.layout.format.pack(argb),
            raw: 0,
            bit: false,
        };
        let mut pixels = 0;
        for (x, y) in bresenham(
            (line.left, line.top),
            (line.right, line.bottom),
            self.line_inclusive,
        ) {
            if !clip.contains(x, y) {
                continue;
            }
            if bus.aborted() {
                break;
            }
            paint_pixel(&painter, &target, &sample, x, y, bus);
            pixels += 1;
        }
        pixels
    }
}

/// The clip rectangle.
fn clip(states: &StateBlock) -> Rectangle {
    let corner = |address| {
        (
            states.bits(address, 14, 0) as i32,
            states.bits(address, 30, 16) as i32,
        )
    };
    let (left, top) = corner(DE_CLIP_TOP_LEFT);
    let (right, bottom) = corner(DE_CLIP_BOTTOM_RIGHT);
    Rectangle {
        left,
        top,
        right,
        bottom,
    }
}

fn paint_pixel(
    painter: &Painter,
    target: &Surface,
    sample: &Sample,
    x: i32,
    y: i32,
    bus: &mut dyn Bus,
) {
    let old = if painter.uses_destination() {
        target.layout.straight(source::load(target, x, y, bus))
    } else {
        0
    };
    source::store(target, x, y, painter.paint(sample, old, x, y), bus);
}

/// A ROP3: its bit (pattern << 2 | source << 1 | destination) is the result bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rop(pub u8);

impl Rop {
    /// Source copy.
    pub const COPY: Rop = Rop(0xcc);

    fn uses_pattern(self) -> bool {
        (self.0 ^ (self.0 >> 4)) & 0x0f != 0
    }

    fn uses_source(self) -> bool {
        (self.0 ^ (self.0 >> 2)) & 0x33 != 0
    }

    fn uses_destination(self) -> bool {
        (self.0 ^ (self.0 >> 1)) & 0x55 != 0
    }

    /// Applies the operation to all bits of a word.
    pub fn apply(self, pattern: u32, source: u32, destination: u32) -> u32 {
        if self == Rop::COPY {
            return source;
        }
        let pick = |bit: u32, word: u32| if bit != 0 { word } else { !word };
        (0..8u32)
            .filter(|index| self.0 & (1 << index) != 0)
            .map(|index| {
                pick(index & 4, pattern) & pick(index & 2, source) & pick(index & 1, destination)
            })
            .fold(0, |result, term| result | term)
    }
}

/// The pixels of a line from its first point. Includes the last one only if `inclusive`.
fn bresenham(
    from: (i32, i32),
    to: (i32, i32),
    inclusive: bool,
) -> impl Iterator<Item = (i32, i32)> {
    let (dx, dy) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
    let (step_x, step_y) = ((to.0 - from.0).signum(), (to.1 - from.1).signum());
    let count = dx.max(dy) + i32::from(inclusive);
    let (mut x, mut y, mut error) = (from.0, from.1, dx - dy);
    (0..count).map(move |_| {
        let point = (x, y);
        let doubled = 2 * error;
        if doubled > -dy {
            error -= dy;
            x += step_x;
        }
        if doubled < dx {
            error += dx;
            y += step_y;
        }
        point
    })
}
