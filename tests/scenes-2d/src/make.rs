// SPDX-License-Identifier: GPL-2.0-only
//! Makes random scenes of each kind.

use crate::blit::Blend;
use crate::blit::Blit;
use crate::blit::Pattern;
use crate::blit::Source;
use crate::blit::Transparent;
use crate::colour::Format;
use crate::filter::Filter;
use crate::filter::Picture;
use crate::filter::Target;
use crate::surface::Surface;
use crate::surface::Video;
use crate::Core;
use crate::Kind;
use crate::Random;

/// A random surface format (DE_FORMAT). 32 bits are more frequent.
fn format(random: &mut Random, core: Core, is_target: bool) -> Format {
    let mut codes = vec![0, 1, 2, 3, 4, 5, 6, 5, 6];
    if core.pe20 && (core.a8_target || !is_target) {
        codes.push(16);
    }
    Format {
        code: random.pick(&codes),
        swizzle: if core.pe20 {
            random.pick(&[0, 0, 1, 2, 3])
        } else {
            random.pick(&[0, 0, 2])
        },
    }
}

fn surface(random: &mut Random, core: Core, is_target: bool) -> Surface {
    let format = format(random, core, is_target);
    let (width, height) = (random.between(20, 44), random.between(16, 36));
    Surface::random(random, format, width, height)
}

fn bits(random: &mut Random, count: i32) -> Vec<bool> {
    (0..count).map(|_| random.one_in(2)).collect()
}

/// A random blit of this kind.
pub fn blit(random: &mut Random, core: Core, kind: Kind) -> Blit {
    let mut blit = Blit {
        target: surface(random, core, true),
        ..Blit::default()
    };
    let mut source = surface(random, core, false);
    if kind == Kind::Turn {
        let turns: &[u32] = if core.pe20 {
            &[0, 1, 2, 4, 5, 6]
        } else {
            &[0, 4]
        };
        source.turn = random.pick(turns);
        blit.target.turn = random.pick(turns);
        blit.mirror = (random.one_in(3), random.one_in(3));
        blit.mirror_by = if core.mirror { random.below(3) } else { 0 };
    }
    let is_video = kind == Kind::YuvBlit;
    let code = random_video(core, random);
    let video = Video::random(random, code, 2 * source.width, 2 * source.height);
    let (mut width, mut height) = source.extent();
    if is_video {
        (width, height) = (video.width, video.height);
    }
    let (target_width, target_height) = blit.target.extent();
    let from_stream = match kind {
        Kind::Masked => true,
        Kind::Monochrome => random.one_in(2),
        _ => false,
    };
    if !from_stream || kind == Kind::Masked {
        blit.origin = (random.between(0, width - 8), random.between(0, height - 8));
    }
    let room = (width - blit.origin.0, height - blit.origin.1);
    let mut size = (random.between(1, room.0), random.between(1, room.1));
    if kind == Kind::Stretch {
        let drawn = (
            random.between(1, target_width + 8),
            random.between(1, target_height + 8),
        );
        let factor = |from: i32, to: i32| match to {
            1 => 0,
            _ => ((from - 1) << 16) as u32 / (to - 1) as u32,
        };
        blit.stretch = Some((factor(size.0, drawn.0), factor(size.1, drawn.1)));
        size = drawn;
        blit.mirror = (random.one_in(5), random.one_in(5));
    }
    let count = if from_stream { 1 } else { random.between(1, 3) };
    for _ in 0..count {
        if blit.stretch.is_none() && !from_stream {
            size = (random.between(1, room.0), random.between(1, room.1));
        }
        let left = random.between(-4, target_width - 4);
        let top = random.between(-4, target_height - 4);
        blit.rectangles
            .push([left, top, left + size.0, top + size.1]);
    }
    let right = random.between(target_width / 2, target_width);
    let bottom = random.between(target_height / 2, target_height);
    blit.clip = [
        random.between(0, target_width / 3),
        random.between(0, target_height / 3),
        right,
        bottom,
    ];
    blit.fill = if core.pe20 { random.word() } else { 0 };
    // A relative origin, if all source pixels are then readable.
    if matches!(kind, Kind::Formats | Kind::Turn) && random.one_in(4) {
        let space = (width - target_width, height - target_height);
        if space.0 >= 0 && space.1 >= 0 {
            blit.relative = true;
            blit.origin = (random.between(0, space.0), random.between(0, space.1));
            blit.clip = [0, 0, target_width, target_height];
            for rectangle in &mut blit.rectangles {
                let [left, top, right, bottom] = *rectangle;
                *rectangle = [
                    left.max(0),
                    top.max(0),
                    right.min(target_width).max(left.max(0)),
                    bottom.min(target_height).max(top.max(0)),
                ];
            }
        }
    }
    blit.pack = random.below(4);
    let area = size.0 * size.1;
    let colours = [random.word(), random.word()];
    match kind {
        Kind::Monochrome => {
            let is_masked = random.one_in(2);
            if is_masked {
                blit.transparent = Transparent::Mask(None, random.one_in(2));
                blit.rops[1] = random.pick(&[0xaa, 0x55, 0x66]);
            }
            blit.source = if from_stream {
                Source::Stream(bits(random, area), colours)
            } else {
                // Each byte has eight pixels.
                let bytes = random_bytes(random, width, height);
                Source::Bits(bytes, colours)
            };
            // A monochrome source contains its own mask.
            return blit;
        }
        Kind::Masked => {
            let mask = bits(random, area);
            blit.transparent = Transparent::Mask(Some(mask), random.one_in(2));
            blit.rops = [0xcc, random.pick(&[0xaa, 0x55, 0xee])];
        }
        Kind::Palette => {
            let bytes = random_bytes(random, width, height);
            let whole = 8 * blit.target.format.bytes() as u32;
            let palette = (0..256).map(|_| {
                if core.pe20 {
                    random.word()
                } else {
                    random.word() >> (32 - whole)
                }
            });
            blit.source = Source::Palette(bytes, palette.collect());
            if random.one_in(3) {
                let first = random.below(200);
                let last = if core.pe20 {
                    first + random.below(50)
                } else {
                    first
                };
                blit.transparent = Transparent::Key(first, last);
                blit.rops[1] = 0xaa;
            }
            return blit;
        }
        Kind::Pattern => patterned(random, core, &mut blit),
        Kind::Blend => {
            let own = if core.directfb {
                random.word() & 0x8800_0000
            } else {
                0
            };
            let modes = random.below(4) << 24 | random.below(4) << 28;
            let alphas = random.below(3) << 8 | random.below(3) << 12 | random.word() & 0x11;
            blit.blend = Some(Blend {
                modes: own | modes | alphas,
                globals: [random.word(), random.word()],
                multiply: [random.one_in(2), random.one_in(2)],
                global_multiply: if core.pe20 { random.below(3) } else { 0 },
            });
            // The fill color of an alpha-only source is also the global color.
            if let Some(blend) = blit.blend.filter(|_| core.pe20) {
                blit.fill = blend.globals[0];
            }
        }
        Kind::Key => {
            // A color that exists in the source.
            let (x, y) = (random.between(0, width - 1), random.between(0, height - 1));
            let pixel = source.get(x, y);
            let last = if core.pe20 && random.one_in(2) {
                // Sets some additional random bits.
                pixel | random.word() & (u32::MAX >> (32 - 8 * source.format.bytes()))
            } else {
                pixel
            };
            blit.transparent = Transparent::Key(pixel, last);
            blit.rops = [random.pick(&[0xcc, 0x33]), random.pick(&[0xaa, 0x00, 0xee])];
        }
        Kind::YuvBlit => {
            blit.source = Source::Video(video);
            return blit;
        }
        _ => {}
    }
    blit.source = Source::Surface(source);
    blit
}

fn patterned(random: &mut Random, core: Core, blit: &mut Blit) {
    let whole = 8 * blit.target.format.bytes() as u32;
    let mut colour = || {
        if core.pe20 {
            random.word()
        } else {
            random.word() >> (32 - whole)
        }
    };
    let (first, second) = (colour(), colour());
    let format = blit.target.format;
    blit.pattern = match random.below(3) {
        0 => Pattern::Solid(first),
        1 => Pattern::Bits(bits(random, 64), [first, second]),
        // The pattern's format field is too short for A8.
        _ if format.code == 16 => Pattern::Solid(second),
        _ => {
            // Without gaps between rows.
            let mut surface = Surface::random(random, format, 8, 8);
            surface.stride = 8 * format.bytes();
            surface.bytes = random.bytes(64 * format.bytes());
            Pattern::Pixels(surface)
        }
    };
    blit.pattern_origin = (random.between(0, 7), random.between(0, 7));
    blit.rops = [random.below(256), random.below(256)];
    // A mask affects only operations that use the pattern.
    let wants = |rop: u32| (rop ^ rop >> 4) & 15 != 0;
    if core.pe20 && random.one_in(2) && blit.rops.iter().any(|rop| wants(*rop)) {
        blit.pattern_mask = Some(bits(random, 64));
    }
}

fn random_video(core: Core, random: &mut Random) -> u32 {
    if core.pe20 {
        random.pick(&[7, 8, 15, 17, 18])
    } else {
        random.pick(&[7, 8, 15])
    }
}

/// A surface of random bytes.
fn random_bytes(random: &mut Random, width: i32, height: i32) -> Surface {
    let format = Format {
        code: 16,
        swizzle: 0,
    };
    Surface::random(random, format, width, height)
}

/// A random filter blit of this kind.
pub fn filter(random: &mut Random, core: Core, kind: Kind) -> Filter {
    let (width, height) = (2 * random.between(6, 14), 2 * random.between(5, 12));
    let source = match kind {
        Kind::Video => {
            let code = random_video(core, random);
            Picture::Video(Video::random(random, code, width, height))
        }
        _ => {
            let mut format = format(random, core, false);
            if format.code == 16 {
                format.code = 6;
            }
            Picture::Surface(Surface::random(random, format, width, height))
        }
    };
    let (target_width, target_height) = (2 * random.between(8, 18), random.between(10, 30));
    let target = match &source {
        Picture::Video(_) if core.pe20 && random.one_in(3) => {
            Target::Video(Video::random(random, 7, target_width, target_height))
        }
        _ => {
            let format = format(random, core, true);
            Target::Surface(Surface::random(random, format, target_width, target_height))
        }
    };
    let box_left = random.between(0, 3);
    let box_top = random.between(0, 3);
    let image = [
        box_left,
        box_top,
        random.between(width / 2, width),
        random.between(height / 2, height),
    ];
    let (left, top) = (random.between(0, 4), random.between(0, 4));
    let window = [
        left,
        top,
        random.between(left + 1, target_width),
        random.between(top + 1, target_height),
    ];
    let mut kernel = Vec::new();
    for _ in 0..17 {
        let mut row = [0; 9].map(|_: i32| random.between(-200, 1000));
        let sum = row.iter().sum::<i32>().max(400);
        row.iter_mut()
            .for_each(|value| *value = *value * 16384 / sum);
        kernel.push(row);
    }
    Filter {
        source,
        target,
        vertical: random.one_in(2),
        factors: [random.below(3 << 16), random.below(3 << 16)],
        origin: [
            random.between(0, (width / 2) << 16),
            random.between(0, (height / 2) << 16),
        ],
        image,
        window,
        kernel,
    }
}
