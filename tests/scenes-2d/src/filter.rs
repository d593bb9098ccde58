// SPDX-License-Identifier: GPL-2.0-only
//! Filter blits: their result, and their states.

use crate::all_states;
use crate::colour::Colour;
use crate::set;
use crate::surface::Surface;
use crate::surface::Video;
use crate::Buffer;
use crate::Core;
use crate::Go;
use crate::Scene;

/// The source.
#[derive(Clone, Debug)]
pub enum Picture {
    /// RGB.
    Surface(Surface),
    /// YUV.
    Video(Video),
}

/// The destination.
#[derive(Clone, Debug)]
pub enum Target {
    /// RGB.
    Surface(Surface),
    /// YUY2.
    Video(Video),
}

/// One pass.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The source.
    pub source: Picture,
    /// The destination.
    pub target: Target,
    /// Whether the pass scales vertically.
    pub vertical: bool,
    /// 15.16: the factor of the pass, and that of the other direction, which has no effect.
    pub factors: [u32; 2],
    /// Source position, x and y, in 16.16.
    pub origin: [i32; 2],
    /// Readable area: left, top, right, bottom.
    pub image: [i32; 4],
    /// Destination area.
    pub window: [i32; 4],
    /// 17 rows of 9 coefficients, 1.14.
    pub kernel: Vec<[i32; 9]>,
}

impl Filter {
    fn channels(&self, x: i32, y: i32) -> [i64; 4] {
        let [left, top, right, bottom] = self.image;
        let (x, y) = (x.max(left).min(right - 1), y.max(top).min(bottom - 1));
        match &self.source {
            Picture::Surface(surface) => surface.format.colour(surface.get(x, y)).0.map(i64::from),
            Picture::Video(video) => {
                let [luma, u, v] = video.get(x, y);
                [i64::from(luma), i64::from(u), i64::from(v), 0]
            }
        }
    }

    /// All 32 rows. The rows after the middle are mirrored.
    fn rows(&self) -> Vec<[i32; 9]> {
        let mut rows = self.kernel.clone();
        for row in 17..32 {
            let mut mirrored = self.kernel[32 - row];
            mirrored.reverse();
            rows.push(mirrored);
        }
        rows
    }

    /// The destination after the pass.
    pub fn draw(&self) -> Target {
        let rows = self.rows();
        let mut target = self.target.clone();
        let [left, top, right, bottom] = self.window;
        for y in top..bottom {
            for x in left..right {
                let steps = [i64::from(x - left), i64::from(y - top)];
                let origin = self.origin.map(i64::from);
                let mut at = [origin[0] + steps[0] * 65536, origin[1] + steps[1] * 65536];
                let way = usize::from(self.vertical);
                at[way] = origin[way] + steps[way] * i64::from(self.factors[way]);
                let whole = at.map(|place| place.div_euclid(65536) as i32);
                let fraction = at[way].rem_euclid(65536) as usize;
                let mut sums = [0; 4];
                for (tap, weight) in (-4..).zip(rows[fraction / 2048]) {
                    let channels = if self.vertical {
                        self.channels(whole[0], whole[1] + tap)
                    } else {
                        self.channels(whole[0] + tap, whole[1])
                    };
                    for (sum, channel) in sums.iter_mut().zip(channels) {
                        *sum += channel * i64::from(weight);
                    }
                }
                let result =
                    sums.map(|sum: i64| (sum + 8192).div_euclid(16384).clamp(0, 255) as u32);
                let colour = match &self.source {
                    Picture::Surface(_) => Colour(result),
                    Picture::Video(video) => video.colour([result[0], result[1], result[2]]),
                };
                match &mut target {
                    Target::Surface(surface) => {
                        surface.put(x, y, surface.format.pixel(colour));
                    }
                    Target::Video(video) => {
                        let (stride, bytes) = &mut video.planes[0];
                        let place = y as usize * *stride + 2 * x as usize;
                        bytes[place] = result[0] as u8;
                        bytes[place + 1] = result[if x % 2 == 0 { 1 } else { 2 }] as u8;
                    }
                }
            }
        }
        target
    }

    /// The scene with this pass's states.
    pub fn scene(&self, core: Core) -> Scene {
        let mut states = all_states();
        let mut put = |state, value| set(&mut states, state, value);
        let bytes_of = |target: &Target| match target {
            Target::Surface(surface) => surface.bytes.clone(),
            Target::Video(video) => video.planes[0].1.clone(),
        };
        let mut buffers = vec![Buffer {
            state: 0x1228,
            bytes: bytes_of(&self.target),
        }];
        let command = if self.vertical { 6 } else { 5 };
        match &self.target {
            Target::Surface(surface) => {
                put(0x122c, surface.stride as u32);
                let format = surface.format;
                put(0x1234, format.code | command << 12 | format.swizzle << 16);
            }
            Target::Video(video) => {
                put(0x122c, video.planes[0].0 as u32);
                put(0x1234, 7 | command << 12);
            }
        }
        match &self.source {
            Picture::Surface(surface) => {
                let format = surface.format;
                put(0x1204, surface.stride as u32);
                put(
                    0x120c,
                    format.code & 15 | format.code << 24 | format.swizzle << 20,
                );
                buffers.push(Buffer {
                    state: 0x1200,
                    bytes: surface.bytes.clone(),
                });
            }
            Picture::Video(video) => {
                put(0x120c, video.code & 15 | video.code << 24);
                put(0x12d8, video.control());
                for ((stride, bytes), state) in video.planes.iter().zip([0x1200, 0x1284, 0x128c]) {
                    put(state + 4, *stride as u32);
                    buffers.push(Buffer {
                        state,
                        bytes: bytes.clone(),
                    });
                }
            }
        }
        assert!(core.pe20 || !matches!(self.target, Target::Video(_)));
        let pair = |x: i32, y: i32| (y as u32) << 16 | x as u32;
        put(0x125c, 3 << 20 | 0xcccc);
        put(0x1220, self.factors[0]);
        put(0x1224, self.factors[1]);
        put(0x1298, pair(self.image[0], self.image[1]));
        put(0x129c, pair(self.image[2], self.image[3]));
        put(0x12a0, self.origin[0] as u32);
        put(0x12a4, self.origin[1] as u32);
        put(0x12a8, pair(self.window[0], self.window[1]));
        put(0x12ac, pair(self.window[2], self.window[3]));
        let mut values: Vec<u32> = self
            .kernel
            .iter()
            .flatten()
            .map(|value| *value as u32 & 0xffff)
            .collect();
        values.push(0);
        for (place, two) in (0..).zip(values.chunks(2)) {
            put(0x1800 + 4 * place, two[0] | two[1] << 16);
        }
        // This state starts the pass.
        states.push((0x1294, u32::from(self.vertical)));
        let source = match &self.source {
            Picture::Surface(surface) => format!("{:?}", surface.format),
            Picture::Video(video) => format!("YUV {}", video.code),
        };
        let target = match &self.target {
            Target::Surface(surface) => format!("{:?}", surface.format),
            Target::Video(_) => "YUY2".into(),
        };
        Scene {
            buffers,
            states,
            go: Go::State,
            wanted: bytes_of(&self.draw()),
            text: format!(
                "{source} to {target}, vertical {}, factors {:x?}, origin {:x?}, image {:?}, window {:?}",
                self.vertical, self.factors, self.origin, self.image, self.window
            ),
        }
    }
}
