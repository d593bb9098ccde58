// SPDX-License-Identifier: GPL-2.0-only
//! Bit blits and stretch blits.

use super::bad;
use super::blend::Blend;
use super::clip;
use super::paint::Painter;
use super::paint_pixel;
use super::signed_pair;
use super::source::Packing;
use super::source::Sample;
use super::source::Texels;
use super::source::Transparency;
use super::surface::Surface;
use super::surface::Swizzle;
use super::surface::Turn;
use super::unsupported;
use super::Bus;
use super::Engine;
use super::Rectangle;
use super::Refusal;
use super::Rop;
use super::StateBlock;
use super::CLEAR;
use super::LINE;
use super::STRETCH_BLT;
use crate::pixel::Format;
use crate::registers::state::*;

/// A bit blit or stretch blit.
pub(super) struct Blit {
    target: Surface,
    painter: Painter,
    /// `None`: no raster operation uses it.
    source: Option<Texels>,
    /// Packing of bits from the command stream.
    packing: Option<Packing>,
    /// Stretch factors, 15.16; `None`: a bit blit.
    factors: Option<(u32, u32)>,
    origin: (i32, i32),
    is_relative: bool,
    mirror: (bool, bool),
}

impl Blit {
    /// The source position of a destination pixel. `rectangle` is not clipped.
    fn from(&self, rectangle: Rectangle, x: i32, y: i32) -> (i32, i32) {
        let (mut x, mut y) = (x, y);
        if self.mirror.0 {
            x = rectangle.left + rectangle.right - 1 - x;
        }
        if self.mirror.1 {
            y = rectangle.top + rectangle.bottom - 1 - y;
        }
        if self.is_relative {
            return (x + self.origin.0, y + self.origin.1);
        }
        let (mut x, mut y) = (x - rectangle.left, y - rectangle.top);
        if let Some((factor_x, factor_y)) = self.factors {
            let scaled = |place: i32, factor: u32| (i64::from(place) * i64::from(factor)) >> 16;
            (x, y) = (scaled(x, factor_x) as i32, scaled(y, factor_y) as i32);
        }
        (x + self.origin.0, y + self.origin.1)
    }

    /// The raster operation, pattern and source of a plain copy of rows; `None`: the blit does more.
    fn rows(&self) -> Option<(Rop, u32, &Surface)> {
        let (rop, pattern) = self.painter.plain()?;
        let source = match &self.source {
            Some(Texels::Colour(source, _)) if source.layout.format != Format::A8 => source,
            None => &self.target,
            _ => return None,
        };
        let is_straight = |surface: &Surface| {
            surface.turn == Turn::None && surface.layout.swizzle == Swizzle::Argb
        };
        let is_plain = self.factors.is_none()
            && self.packing.is_none()
            && self.mirror == (false, false)
            && is_straight(source)
            && is_straight(&self.target);
        is_plain.then_some((rop, pattern, source))
    }
}

impl Engine {
    /// Checks rectangles with `data` words of data. The states must have passed their check.
    pub fn check_rectangles(
        &self,
        states: &StateBlock,
        rectangles: &[Rectangle],
        data: usize,
    ) -> Result<(), Refusal> {
        let command = states.bits(DE_DEST_CONFIG, 15, 12);
        if command == CLEAR || command == LINE {
            return Ok(());
        }
        let blit = self.blit_of(states)?;
        if let Some(packing) = blit.packing {
            let [rectangle] = rectangles else {
                return bad(format!(
                    "{} rectangles with data from the stream",
                    rectangles.len()
                ));
            };
            let (width, height) = rectangle.size();
            let needed = packing.words(width, height);
            // CAST: at most 2047.
            if (data as u32) < needed {
                return bad(format!(
                    "{data} words of data for {width} x {height} pixels, which take {needed}"
                ));
            }
        }
        let clip = clip(states);
        for rectangle in rectangles {
            let Some(area) = rectangle.intersect(clip) else {
                continue;
            };
            for (x, y) in area.corners() {
                let (from_x, from_y) = blit.from(*rectangle, x, y);
                let is_inside = match &blit.source {
                    Some(Texels::Colour(source, _)) => source.holds(from_x, from_y),
                    Some(Texels::Indexed { surface, .. }) => surface.holds(from_x, from_y),
                    _ => true,
                };
                if !blit.target.holds(x, y) || !is_inside {
                    return bad(format!(
                        "pixel {x}, {y} of a turned surface is outside of it, or its source is"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A blit, or the reason why it is refused.
    pub(super) fn blit_of(&self, states: &StateBlock) -> Result<Blit, Refusal> {
        let target = self.target(states)?;
        self.check_dither(states, target.layout.format)?;
        let blend = Blend::of(states, self.pe20, self.features.directfb)?;
        let transparency = self.transparency(states)?;
        let painter = Painter::of(self, states, target.layout, transparency, blend)?;
        let from_stream = states.flag(DE_SRC_CONFIG, 8);
        // A mask matters even if the source's colors do not.
        let wants_source = painter.uses_source() || transparency != Transparency::None;
        let source = if wants_source {
            Some(self.texels(states, target.layout.format)?)
        } else {
            None
        };
        let has_bits =
            from_stream || matches!(source, Some(Texels::Bits { .. } | Texels::StreamBits(_)));
        if matches!(transparency, Transparency::Mask(_)) && !has_bits {
            return bad("a masked source without a mask");
        }
        let is_mono = matches!(source, Some(Texels::Bits { .. } | Texels::StreamBits(_)));
        if source.is_some() && from_stream && !is_mono && transparency == Transparency::None {
            return unsupported("data from the stream that nothing uses");
        }
        let factors = (states.bits(DE_DEST_CONFIG, 15, 12) == STRETCH_BLT).then(|| {
            (
                states.bits(DE_STRETCH_FACTOR_LOW, 30, 0),
                states.bits(DE_STRETCH_FACTOR_HIGH, 30, 0),
            )
        });
        let is_relative = states.flag(DE_SRC_CONFIG, 6);
        let packing = (from_stream && source.is_some())
            .then(|| Packing::from_code(states.bits(DE_SRC_CONFIG, 13, 12)));
        let mirror = self.mirror(states)?;
        if factors.is_some() && (is_relative || packing.is_some()) {
            return unsupported("a stretch blit from a relative origin, or from the stream");
        }
        if packing.is_some() && mirror != (false, false) {
            return unsupported("data from the stream, mirrored");
        }
        if packing.is_some() && is_mono && states.get(DE_SRC_ORIGIN) != 0 {
            return unsupported("an origin in data from the stream");
        }
        Ok(Blit {
            target,
            painter,
            source,
            packing,
            factors,
            origin: signed_pair(states.get(DE_SRC_ORIGIN)),
            is_relative,
            mirror,
        })
    }
}

pub(super) fn draw_blit(
    mut blit: Blit,
    data: &[u32],
    rectangle: Rectangle,
    clip: Rectangle,
    bus: &mut dyn Bus,
) -> u64 {
    let Some(area) = rectangle.intersect(clip) else {
        return 0;
    };
    if blit.rows().is_some() {
        return draw_rows(&blit, rectangle, area, bus);
    }
    blit.painter.prepare(bus);
    let format = blit.target.layout.format;
    let mut pixels = 0;
    for y in area.top..area.bottom {
        if bus.aborted() {
            break;
        }
        for x in area.left..area.right {
            let (from_x, from_y) = blit.from(rectangle, x, y);
            let bit = blit.packing.is_some_and(|packing| {
                let (x, y) = ((x - rectangle.left) as u32, (y - rectangle.top) as u32);
                packing.bit(data, rectangle.size(), x, y)
            });
            let sample = match &blit.source {
                Some(source) => source.sample(from_x, from_y, bit, format, bus),
                None => Sample {
                    argb: 0,
                    pixel: 0,
                    raw: 0,
                    bit,
                },
            };
            paint_pixel(&blit.painter, &blit.target, &sample, x, y, bus);
        }
        pixels += (area.right - area.left) as u64;
    }
    pixels
}

/// Copies rows, many pixels at once.
fn draw_rows(blit: &Blit, rectangle: Rectangle, area: Rectangle, bus: &mut dyn Bus) -> u64 {
    let Some((rop, pattern, source)) = blit.rows() else {
        return 0;
    };
    let target = &blit.target;
    let width = (area.right - area.left) as u32;
    let mut pixels = 0;
    for y in area.top..area.bottom {
        if bus.aborted() {
            break;
        }
        let to = target.address(area.left, y);
        let (from_x, from_y) = blit.from(rectangle, area.left, y);
        let from = source.address(from_x, from_y);
        // A row that overlaps its own source is copied pixel by pixel, in ascending order.
        let distance = to.wrapping_sub(from);
        let step = if distance != 0 && distance < width * source.layout.format.bytes() {
            1
        } else {
            width
        };
        let mut done = 0;
        while done < width {
            let run = Run {
                to: to.wrapping_add(done * target.layout.format.bytes()),
                from: from.wrapping_add(done * source.layout.format.bytes()),
                count: step as usize,
            };
            blit_run(rop, pattern, target, source, run, bus);
            done += step;
        }
        pixels += u64::from(width);
    }
    pixels
}

/// Consecutive pixels of one row.
struct Run {
    to: u32,
    from: u32,
    count: usize,
}

fn blit_run(
    rop: Rop,
    pattern: u32,
    target: &Surface,
    source: &Surface,
    run: Run,
    bus: &mut dyn Bus,
) {
    let (target_format, format) = (target.layout.format, source.layout.format);
    let (to_bytes, from_bytes) = (target_format.bytes() as usize, format.bytes() as usize);
    let mut from = vec![0; run.count * from_bytes];
    let mut to = vec![0; run.count * to_bytes];
    if rop.uses_source() {
        bus.read(source.port, run.from, &mut from);
    }
    if rop.uses_destination() {
        bus.read(target.port, run.to, &mut to);
    }
    if rop == Rop::COPY && format == target_format {
        bus.write(target.port, run.to, &from);
        return;
    }
    for (from, to) in from
        .chunks_exact(from_bytes)
        .zip(to.chunks_exact_mut(to_bytes))
    {
        let color = format.convert(format.load(from), target_format);
        let result = rop.apply(pattern, color, target_format.load(to));
        target_format.store(result, to);
    }
    bus.write(target.port, run.to, &to);
}
