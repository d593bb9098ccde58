// SPDX-License-Identifier: GPL-2.0-only
//! Bit blits and stretch blits: their result, and their states and commands.

use crate::all_states;
use crate::colour::times;
use crate::colour::Colour;
use crate::colour::Format;
use crate::set;
use crate::surface::Surface;
use crate::surface::Video;
use crate::Buffer;
use crate::Core;
use crate::Go;
use crate::Scene;

/// Left, top, right, bottom. Right and bottom are outside.
pub type Rectangle = [i32; 4];

/// The source of pixels.
#[derive(Clone, Debug)]
pub enum Source {
    /// A surface.
    Surface(Surface),
    /// Bytes and 256 colors: A8R8G8B8, or on PE10 pixels of the destination's format.
    Palette(Surface, Vec<u32>),
    /// Bits from the command stream, row by row, for the single rectangle, and the colors of 0 and 1.
    Stream(Vec<bool>, [u32; 2]),
    /// Bits in memory. The highest bit of a byte is the leftmost. Colors of 0 and 1.
    Bits(Surface, [u32; 2]),
    /// YUV.
    Video(Video),
}

/// The condition for transparent source pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transparent {
    /// None.
    None,
    /// Pixels whose bit has this value: in the mask (row by row of the single rectangle), or in the monochrome
    /// source.
    Mask(Option<Vec<bool>>, bool),
    /// Pixels between two colors, channel by channel.
    Key(u32, u32),
}

/// An 8 x 8 pattern.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// One color.
    Solid(u32),
    /// Bits, row by row, and the colors of 0 and 1.
    Bits(Vec<bool>, [u32; 2]),
    /// Pixels of the destination's format.
    Pixels(Surface),
}

/// Alpha blending, with words as in the states.
#[derive(Clone, Copy, Debug)]
pub struct Blend {
    /// ALPHA_MODES except PE10's bits.
    pub modes: u32,
    /// Global colors and alphas of source and destination.
    pub globals: [u32; 2],
    /// Whether the colors of source and destination are multiplied by their alpha.
    pub multiply: [bool; 2],
    /// Multiplies the source's colors by: 0 nothing, 1 the global alpha, 2 the global colors. PE20 only.
    pub global_multiply: u32,
}

/// A blit.
#[derive(Clone, Debug)]
pub struct Blit {
    /// The destination.
    pub target: Surface,
    /// The source.
    pub source: Source,
    /// Source coordinates of the rectangle's corner. With `relative`, an offset to the destination's coordinates.
    pub origin: (i32, i32),
    /// See `origin`.
    pub relative: bool,
    /// Factors of a stretch blit, 15.16.
    pub stretch: Option<(u32, u32)>,
    /// Horizontally and vertically.
    pub mirror: (bool, bool),
    /// Mirroring by DE_ROT_ANGLE (1: source, 2: destination) or by DE_CONFIG (0).
    pub mirror_by: u32,
    /// Rectangles, drawn in order.
    pub rectangles: Vec<Rectangle>,
    /// Clipping rectangle.
    pub clip: Rectangle,
    /// Raster operations of opaque and of transparent pixels.
    pub rops: [u32; 2],
    /// The pattern.
    pub pattern: Pattern,
    /// Its origin.
    pub pattern_origin: (i32, i32),
    /// Mask of its opaque pixels, row by row.
    pub pattern_mask: Option<Vec<bool>>,
    /// Condition for transparent source pixels.
    pub transparent: Transparent,
    /// Blending instead of raster operations.
    pub blend: Option<Blend>,
    /// PACK.
    pub pack: u32,
    /// The color for an alpha-only source.
    pub fill: u32,
}

const ARGB: Format = Format {
    code: 6,
    swizzle: 0,
};

impl Blit {
    /// The color of a source pixel, its value in the destination's format, and whether it is transparent.
    fn sample(&self, core: Core, index: usize, x: i32, y: i32) -> (Colour, u32, bool) {
        let to = self.target.format;
        let of_word = |word: u32| (Colour::of(word), to.pixel(Colour::of(word)));
        let mut bit = false;
        let ((colour, pixel), raw) = match &self.source {
            Source::Surface(surface) => {
                let raw = surface.get(x, y);
                let pair = match surface.format.code {
                    16 => of_word(raw << 24 | self.fill & 0xff_ffff),
                    _ => (surface.format.colour(raw), surface.format.convert(raw, to)),
                };
                (pair, raw)
            }
            Source::Palette(surface, colours) => {
                let raw = surface.get(x, y);
                let entry = colours[raw as usize];
                if core.pe20 {
                    (of_word(entry), raw)
                } else {
                    ((to.colour(entry), entry), raw)
                }
            }
            Source::Stream(bits, colours) => {
                bit = bits[index];
                (of_word(colours[usize::from(bit)]), 0)
            }
            Source::Bits(surface, colours) => {
                bit = surface.get(x / 8, y) >> (7 - x % 8) & 1 != 0;
                (of_word(colours[usize::from(bit)]), 0)
            }
            Source::Video(video) => {
                let colour = video.colour(video.get(x, y));
                ((colour, to.pixel(colour)), 0)
            }
        };
        let transparent = match &self.transparent {
            Transparent::None => false,
            Transparent::Mask(Some(mask), value) => mask[index] == *value,
            Transparent::Mask(None, value) => bit == *value,
            Transparent::Key(first, last) => match &self.source {
                Source::Surface(surface) => {
                    let parts = |pixel| surface.format.split(pixel).into_iter().map(|part| part.2);
                    let lower = parts(*first).zip(parts(raw)).all(|(a, b)| a <= b);
                    lower && parts(raw).zip(parts(*last)).all(|(a, b)| a <= b)
                }
                _ => (*first..=*last).contains(&raw),
            },
        };
        (colour, pixel, transparent)
    }

    /// The pattern's pixel, and whether it is opaque.
    fn brush(&self, core: Core, x: i32, y: i32) -> (u32, bool) {
        let to = self.target.format;
        let (x, y) = (
            (x - self.pattern_origin.0).rem_euclid(8),
            (y - self.pattern_origin.1).rem_euclid(8),
        );
        let place = (y * 8 + x) as usize;
        let of_word = |word: u32| {
            if core.pe20 {
                to.pixel(Colour::of(word))
            } else {
                word
            }
        };
        let pixel = match &self.pattern {
            Pattern::Solid(word) => of_word(*word),
            Pattern::Bits(bits, words) => of_word(words[usize::from(bits[place])]),
            Pattern::Pixels(surface) => surface.get(x, y),
        };
        (
            pixel,
            self.pattern_mask.as_ref().is_none_or(|mask| mask[place]),
        )
    }

    fn blended(&self, core: Core, blend: &Blend, source: Colour, target: Colour) -> Colour {
        let modes = blend.modes;
        let alpha = |own: u32, inverts: u32, mode: u32, global: u32| {
            let own = if inverts & 1 != 0 { 255 - own } else { own };
            match mode & 3 {
                0 => own,
                1 => global >> 24,
                _ => times(own, global >> 24),
            }
        };
        let source_alpha = alpha(source.0[0], modes, modes >> 8, blend.globals[0]);
        let target_alpha = alpha(target.0[0], modes >> 4, modes >> 12, blend.globals[1]);
        let factor = |mode: u32, alpha: u32| match mode & 7 {
            0 => 0,
            1 => 255,
            2 => alpha,
            3 => 255 - alpha,
            mode => panic!("mode {mode}"),
        };
        let own = [modes >> 27 & 1 != 0, modes >> 31 != 0];
        let of_source = factor(
            modes >> 24,
            if own[0] { source_alpha } else { target_alpha },
        );
        let of_target = factor(
            modes >> 28,
            if own[1] { target_alpha } else { source_alpha },
        );
        let mut result = [0; 4];
        for (place, channel) in result.iter_mut().enumerate() {
            let (mut from, mut to) = (source.0[place], target.0[place]);
            if place == 0 {
                (from, to) = (source_alpha, target_alpha);
            } else {
                if blend.multiply[0] {
                    from = times(from, source_alpha);
                }
                if blend.multiply[1] {
                    to = times(to, target_alpha);
                }
                from = match blend.global_multiply {
                    1 if core.pe20 => times(from, blend.globals[0] >> 24),
                    2 if core.pe20 => times(from, Colour::of(blend.globals[0]).0[place]),
                    _ => from,
                };
            }
            *channel = (times(from, of_source) + times(to, of_target)).min(255);
        }
        Colour(result)
    }

    /// The destination after the blit.
    pub fn draw(&self, core: Core) -> Surface {
        let mut target = self.target.clone();
        let bits = 8 * target.format.bytes() as u32;
        for [left, top, right, bottom] in self.rectangles.iter().copied() {
            for y in top..bottom {
                for x in left..right {
                    let [from_x, from_y, to_x, to_y] = self.clip;
                    if x < from_x || x >= to_x || y < from_y || y >= to_y {
                        continue;
                    }
                    let column = if self.mirror.0 {
                        left + right - 1 - x
                    } else {
                        x
                    };
                    let row = if self.mirror.1 {
                        top + bottom - 1 - y
                    } else {
                        y
                    };
                    let (mut from_x, mut from_y) = (column - left, row - top);
                    if self.relative {
                        (from_x, from_y) = (column, row);
                    }
                    if let Some((across, down)) = self.stretch {
                        from_x = (i64::from(from_x) * i64::from(across) / 65536) as i32;
                        from_y = (i64::from(from_y) * i64::from(down) / 65536) as i32;
                    }
                    let index = ((y - top) * (right - left) + x - left) as usize;
                    let (from_x, from_y) = (from_x + self.origin.0, from_y + self.origin.1);
                    let (colour, pixel, transparent) = self.sample(core, index, from_x, from_y);
                    let old = target.get(x, y);
                    if let Some(blend) = &self.blend {
                        let under = target.format.colour(old);
                        let colour = self.blended(core, blend, colour, under);
                        target.put(x, y, target.format.pixel(colour));
                        continue;
                    }
                    let (brush, opaque) = self.brush(core, x, y);
                    let rop = self.rops[usize::from(transparent || !opaque)];
                    let mut new = 0;
                    for bit in 0..bits {
                        let of = |word: u32| word >> bit & 1;
                        let row = of(brush) * 4 + of(pixel) * 2 + of(old);
                        new |= (rop >> row & 1) << bit;
                    }
                    target.put(x, y, new);
                }
            }
        }
        target
    }

    /// The words of bits in the command stream.
    fn stream(&self) -> Vec<u32> {
        let bits = match (&self.source, &self.transparent) {
            (Source::Stream(bits, _), _) => bits,
            (_, Transparent::Mask(Some(bits), _)) => bits,
            _ => return Vec::new(),
        };
        let [left, top, right, bottom] = self.rectangles[0];
        let (width, height) = (right - left, bottom - top);
        let (across, down) = [(8, 4), (16, 2), (32, 1), (32, 1)][self.pack as usize];
        // Corners in the order of the words.
        let mut corners = Vec::new();
        if self.pack == 3 {
            for y in 0..height {
                for x in (0..width).step_by(32) {
                    corners.push((x, y));
                }
            }
        } else {
            for x in (0..width).step_by(across as usize) {
                for y in (0..height).step_by(down as usize) {
                    corners.push((x, y));
                }
            }
        }
        let words = corners.into_iter().map(|(corner_x, corner_y)| {
            let mut bytes = Vec::new();
            for y in corner_y..corner_y + down {
                for first in (corner_x..corner_x + across).step_by(8) {
                    let mut byte = 0u8;
                    for x in first..first + 8 {
                        let is_set = x < width && y < height && bits[(y * width + x) as usize];
                        byte = byte << 1 | u8::from(is_set);
                    }
                    bytes.push(byte);
                }
            }
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        });
        words.collect()
    }

    /// The scene with this blit's states and commands.
    pub fn scene(&self, core: Core) -> Scene {
        let mut states = all_states();
        let mut put = |state, value| set(&mut states, state, value);
        let target = &self.target;
        let mut buffers = vec![Buffer {
            state: 0x1228,
            bytes: target.bytes.clone(),
        }];
        let mut add = |state, bytes: &[u8]| {
            buffers.push(Buffer {
                state,
                bytes: bytes.to_vec(),
            });
        };
        let pair = |x: i32, y: i32| (y as u32) << 16 | x as u32 & 0xffff;
        put(0x122c, target.stride as u32);
        let command = if self.stretch.is_some() { 4 } else { 2 };
        let Format { code, swizzle } = target.format;
        put(0x1234, code | command << 12 | swizzle << 16);
        let mut angle = 0;
        // PE10 has only 90 degrees, by another state.
        match target.turn {
            4 if !core.pe20 => put(0x1230, 1 << 16 | target.width as u32),
            turn => {
                put(0x1230, target.width as u32);
                angle |= turn << 3;
            }
        }
        put(0x12b4, target.height as u32);
        let mut config = self.pack << 12;
        let mut of_source = |surface: &Surface, code: u32| {
            put(0x1204, surface.stride as u32);
            match surface.turn {
                4 if !core.pe20 => put(0x1208, 1 << 16 | surface.width as u32),
                turn => {
                    put(0x1208, surface.width as u32);
                    angle |= turn;
                }
            }
            put(0x12b8, surface.height as u32);
            config |= code & 15 | code << 24 | surface.format.swizzle << 20;
        };
        let mut colours = None;
        match &self.source {
            Source::Surface(surface) => {
                add(0x1200, &surface.bytes);
                of_source(surface, surface.format.code);
            }
            Source::Palette(surface, entries) => {
                add(0x1200, &surface.bytes);
                of_source(surface, 9);
                let table = if core.pe20 { 0x3400 } else { 0x1c00 };
                for (place, entry) in (0..).zip(entries) {
                    put(table + 4 * place, *entry);
                }
            }
            Source::Stream(_, words) => {
                config |= 10 | 10 << 24 | 1 << 8;
                colours = Some(*words);
            }
            Source::Bits(surface, words) => {
                add(0x1200, &surface.bytes);
                of_source(surface, 10);
                colours = Some(*words);
            }
            Source::Video(video) => {
                for ((stride, bytes), state) in video.planes.iter().zip([0x1200, 0x1284, 0x128c]) {
                    add(state, bytes);
                    put(state + 4, *stride as u32);
                }
                config |= video.code & 15 | video.code << 24;
                put(0x12d8, video.control());
            }
        }
        if let Some([zero, one]) = colours {
            put(0x1218, zero);
            put(0x121c, one);
        }
        if self.relative {
            config |= 1 << 6;
        }
        let mut kind = 0;
        match &self.transparent {
            Transparent::None => {}
            Transparent::Mask(mask, value) => {
                kind = 1;
                config |= u32::from(*value) << 15 | u32::from(mask.is_some()) << 8;
            }
            Transparent::Key(first, last) => {
                kind = 2;
                put(0x1218, *first);
                put(0x12dc, *last);
            }
        }
        if core.pe20 {
            let masked = u32::from(self.pattern_mask.is_some());
            put(0x12d4, kind | masked << 4);
        } else {
            config |= kind << 4;
        }
        put(0x120c, config);
        put(0x1210, pair(self.origin.0, self.origin.1));
        if let Some((across, down)) = self.stretch {
            put(0x1220, across);
            put(0x1224, down);
        }
        let mirror = u32::from(self.mirror.0) | u32::from(self.mirror.1) << 1;
        match self.mirror_by {
            1 => angle |= mirror << 12,
            2 => angle |= mirror << 16,
            _ if mirror != 0 => put(0x126c, 1 | mirror << 4),
            _ => {}
        }
        put(0x12bc, angle);
        let [left, top, right, bottom] = self.clip;
        put(0x1260, pair(left, top));
        put(0x1264, pair(right, bottom));
        put(0x125c, 3 << 20 | self.rops[1] << 8 | self.rops[0]);
        let rows = |bits: &[bool]| {
            let bytes: Vec<u8> = bits
                .chunks(8)
                .map(|row| row.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
                .collect();
            let word = |at: usize| {
                u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            };
            [word(0), word(4)]
        };
        let origin = (self.pattern_origin.0 as u32) << 16 | (self.pattern_origin.1 as u32) << 20;
        match &self.pattern {
            Pattern::Solid(word) => {
                put(0x123c, origin);
                put(0x1254, *word);
            }
            Pattern::Bits(bits, [zero, one]) => {
                put(0x123c, 10 | 1 << 4 | origin);
                let [low, high] = rows(bits);
                put(0x1240, low);
                put(0x1244, high);
                put(0x1250, *zero);
                put(0x1254, *one);
            }
            Pattern::Pixels(surface) => {
                put(0x123c, target.format.code & 15 | 1 << 4 | origin);
                add(0x1238, &surface.bytes);
            }
        }
        let mask = self
            .pattern_mask
            .as_ref()
            .map_or([u32::MAX; 2], |mask| rows(mask));
        put(0x1248, mask[0]);
        put(0x124c, mask[1]);
        put(0x12c8, self.fill);
        if let Some(blend) = &self.blend {
            let globals = blend.globals;
            put(0x127c, 1 | globals[0] >> 24 << 16 | globals[1] >> 24 << 24);
            let [source, target] = blend.multiply.map(u32::from);
            put(0x1280, blend.modes | source << 16 | target << 20);
            put(0x12d0, source | target << 4 | blend.global_multiply << 8);
            put(0x12c8, globals[0]);
            put(0x12cc, globals[1]);
        }
        let rectangles = self
            .rectangles
            .iter()
            .flat_map(|[left, top, right, bottom]| [pair(*left, *top), pair(*right, *bottom)]);
        let go = Go::Rectangles(rectangles.collect(), self.stream());
        Scene {
            buffers,
            states,
            go,
            wanted: self.draw(core).bytes,
            text: self.text(),
        }
    }

    fn text(&self) -> String {
        let source = match &self.source {
            Source::Surface(surface) => format!("{:?} turn {}", surface.format, surface.turn),
            Source::Palette(..) => "palette".into(),
            Source::Stream(..) => "bits from the stream".into(),
            Source::Bits(..) => "bits".into(),
            Source::Video(video) => format!("YUV {}", video.code),
        };
        format!(
            "{source} to {:?} turn {}, rectangles {:?}, clip {:?}, origin {:?}, stretch {:?}, mirror {:?} by {}, \
             rops {:x?}, pack {}, blend {:x?}",
            self.target.format,
            self.target.turn,
            self.rectangles,
            self.clip,
            self.origin,
            self.stretch,
            self.mirror,
            self.mirror_by,
            self.rops,
            self.pack,
            self.blend,
        )
    }
}

impl Default for Blit {
    /// An empty blit.
    fn default() -> Self {
        let nothing = Surface {
            format: ARGB,
            width: 0,
            height: 0,
            stride: 0,
            bytes: Vec::new(),
            turn: 0,
        };
        Self {
            target: nothing.clone(),
            source: Source::Surface(nothing),
            origin: (0, 0),
            relative: false,
            stretch: None,
            mirror: (false, false),
            mirror_by: 0,
            rectangles: Vec::new(),
            clip: [0; 4],
            rops: [0xcc; 2],
            pattern: Pattern::Solid(0),
            pattern_origin: (0, 0),
            pattern_mask: None,
            transparent: Transparent::None,
            blend: None,
            pack: 0,
            fill: 0,
        }
    }
}
