// SPDX-License-Identifier: GPL-2.0-only
//! Computing a destination pixel: pattern, raster operation, transparency, blending.

use gpu_control::ViolationKind;

use super::blend::Blend;
use super::source::Sample;
use super::source::Transparency;
use super::surface::Layout;
use super::Bus;
use super::Engine;
use super::Rop;
use super::StateBlock;
use crate::mmu::Port;
use crate::pixel::Format;
use crate::registers::state::*;

/// Contents of a pattern.
#[derive(Clone, Debug)]
enum Brush {
    Solid(u32),
    /// Rows of bytes. The highest bit of a byte is the left pixel, as in bits from the command stream.
    Bits(u64, [u32; 2]),
    /// 8 x 8 pixels without gaps, and their layout.
    Pixels(u32, Layout),
}

/// An 8 x 8 pattern. Its pixel (0, 0) is at the origin, and the pattern repeats from there.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    brush: Brush,
    origin: (i32, i32),
    /// Opaque pixels; `None`: all are opaque.
    mask: Option<u64>,
    /// The pixels in the destination's format, once they have been read.
    pixels: Vec<u32>,
}

fn wide(states: &StateBlock, low: u32, high: u32) -> u64 {
    u64::from(states.get(high)) << 32 | u64::from(states.get(low))
}

/// A pixel's bit in 8 rows of bytes.
fn bit_of(rows: u64, x: i32, y: i32) -> bool {
    rows >> (8 * y + 7 - x) & 1 != 0
}

impl Pattern {
    /// The pattern of the states. Its colors are destination pixels on PE10, A8R8G8B8 on PE20.
    pub(super) fn of(
        engine: &Engine,
        states: &StateBlock,
        target: Layout,
    ) -> Result<Self, (ViolationKind, String)> {
        let unsupported = |text: &str| {
            Err((
                ViolationKind::Unsupported,
                format!("2D: not modelled: {text}"),
            ))
        };
        let colour = |address| {
            if engine.pe20 {
                target.format.pack(states.get(address))
            } else {
                target.straight(states.get(address))
            }
        };
        let mask = wide(states, DE_PATTERN_MASK_LOW, DE_PATTERN_MASK_HIGH);
        let is_solid = states.bits(DE_PATTERN_CONFIG, 4, 4) == 0;
        let code = states.bits(DE_PATTERN_CONFIG, 3, 0);
        let brush = if is_solid {
            Brush::Solid(colour(DE_PATTERN_FG_COLOR))
        } else if code == 10 {
            let colours = [colour(DE_PATTERN_BG_COLOR), colour(DE_PATTERN_FG_COLOR)];
            Brush::Bits(wide(states, DE_PATTERN_LOW, DE_PATTERN_HIGH), colours)
        } else {
            let converts = states.bits(DE_PATTERN_CONFIG, 5, 5) != 0;
            let Some(format) = Format::from_code(code) else {
                return unsupported(&format!("pattern format {code}"));
            };
            if format != target.format && !converts {
                return unsupported("a pattern in another format than the destination's");
            }
            let address = states.get(DE_PATTERN_ADDRESS);
            if address % 4 != 0 {
                let text = format!("2D: pattern at {address:#x} is misaligned");
                return Err((ViolationKind::BadDraw, text));
            }
            let swizzle = if converts {
                super::surface::Swizzle::Argb
            } else {
                target.swizzle
            };
            Brush::Pixels(address, Layout { format, swizzle })
        };
        let masked = match states.bits(DE_PE_TRANSPARENCY, 5, 4) {
            0 => false,
            1 => true,
            _ => return unsupported("a transparent colour of the pattern"),
        };
        // The switch for PE10's mask is not known.
        if !engine.pe20 && !is_solid && mask != u64::MAX {
            return unsupported("a pattern's mask on PE10");
        }
        Ok(Self {
            brush,
            origin: (
                states.bits(DE_PATTERN_CONFIG, 18, 16) as i32,
                states.bits(DE_PATTERN_CONFIG, 22, 20) as i32,
            ),
            mask: masked.then_some(mask),
            pixels: Vec::new(),
        })
    }

    /// The color, if it is the same everywhere.
    pub(super) fn solid(&self) -> Option<u32> {
        match (&self.brush, self.mask) {
            (Brush::Solid(colour), None) => Some(*colour),
            _ => None,
        }
    }

    /// Reads the pixels if they are in memory.
    fn prepare(&mut self, target: Format, bus: &mut dyn Bus) {
        if let Brush::Pixels(base, layout) = self.brush {
            let bytes = layout.format.bytes() as usize;
            let mut data = vec![0; 64 * bytes];
            bus.read(Port::Texture, base, &mut data);
            let pixels = data.chunks_exact(bytes).map(|pixel| {
                let straight = layout.straight(layout.format.load(pixel));
                layout.format.convert(straight, target)
            });
            self.pixels = pixels.collect();
        }
    }

    /// The pattern's pixel at a destination position, and whether it is opaque.
    fn at(&self, x: i32, y: i32) -> (u32, bool) {
        let (x, y) = ((x - self.origin.0) & 7, (y - self.origin.1) & 7);
        let colour = match &self.brush {
            Brush::Solid(colour) => *colour,
            Brush::Bits(rows, colours) => colours[usize::from(bit_of(*rows, x, y))],
            Brush::Pixels(..) => {
                let place = (8 * y + x) as usize;
                self.pixels.get(place).copied().unwrap_or(0)
            }
        };
        (colour, self.mask.is_none_or(|rows| bit_of(rows, x, y)))
    }
}

/// Parameters for computing each pixel of a draw.
#[derive(Clone, Debug)]
pub(super) struct Painter {
    target: Format,
    /// For opaque pixels and for transparent ones.
    rops: [Rop; 2],
    /// `None`: no raster operation uses it.
    pattern: Option<Pattern>,
    pub(super) transparency: Transparency,
    pub(super) blend: Option<Blend>,
}

impl Painter {
    pub(super) fn of(
        engine: &Engine,
        states: &StateBlock,
        target: Layout,
        transparency: Transparency,
        blend: Option<Blend>,
    ) -> Result<Self, (ViolationKind, String)> {
        let unsupported = |text: &str| {
            Err((
                ViolationKind::Unsupported,
                format!("2D: not modelled: {text}"),
            ))
        };
        let code = states.get(DE_ROP);
        let first = Rop(code as u8);
        // A ROP3 has no code for transparent pixels.
        let rops = match states.bits(DE_ROP, 21, 20) {
            3 => [first, Rop((code >> 8) as u8)],
            2 => [first, first],
            _ => return unsupported("ROP2"),
        };
        let keyed = transparency != Transparency::None;
        let pattern = rops
            .iter()
            .any(|rop| rop.uses_pattern())
            .then(|| Pattern::of(engine, states, target))
            .transpose()?;
        let patterned = match &pattern {
            Some(pattern) => pattern.mask.is_some(),
            None if states.bits(DE_PE_TRANSPARENCY, 5, 4) != 0 => {
                return unsupported("the mask of a pattern that no raster operation uses");
            }
            None => false,
        };
        if keyed && patterned {
            return unsupported("transparency of source and pattern");
        }
        if states.get(DE_PE_TRANSPARENCY) & 0x2333_0300 != 0 {
            return unsupported("transparency of the destination, or what overrides its use");
        }
        if blend.is_some() && (keyed || patterned) {
            return unsupported("blending with transparency");
        }
        if blend.is_some() && rops != [Rop::COPY; 2] {
            return unsupported("blending with another raster operation than a copy");
        }
        Ok(Self {
            target: target.format,
            rops,
            pattern,
            transparency,
            blend,
        })
    }

    pub(super) fn uses_source(&self) -> bool {
        self.rops.iter().any(|rop| rop.uses_source())
    }

    pub(super) fn uses_destination(&self) -> bool {
        self.blend.is_some() || self.rops.iter().any(|rop| rop.uses_destination())
    }

    /// The raster operation and the pattern's color, if all pixels are treated the same.
    pub(super) fn plain(&self) -> Option<(Rop, u32)> {
        let colour = match &self.pattern {
            Some(pattern) => pattern.solid()?,
            None => 0,
        };
        let is_plain = self.transparency == Transparency::None && self.blend.is_none();
        is_plain.then_some((self.rops[0], colour))
    }

    /// Reads data that a draw needs only once.
    pub(super) fn prepare(&mut self, bus: &mut dyn Bus) {
        if let Some(pattern) = &mut self.pattern {
            pattern.prepare(self.target, bus);
        }
    }

    /// The new value of `old`, the destination's pixel at (`x`, `y`). Channels are in order.
    pub(super) fn paint(&self, sample: &Sample, old: u32, x: i32, y: i32) -> u32 {
        if let Some(blend) = &self.blend {
            return self
                .target
                .pack(blend.apply(sample.argb, self.target.unpack(old)));
        }
        let (pattern, opaque) = match &self.pattern {
            Some(pattern) => pattern.at(x, y),
            None => (0, true),
        };
        let transparent = !opaque || self.transparency.holds(sample);
        let rop = self.rops[usize::from(transparent)];
        rop.apply(pattern, sample.pixel, old)
    }
}
