// SPDX-License-Identifier: GPL-2.0-only
//! Random scenes for the 2D engine, and the expected results.
//!
//! A scene starts as a description ([`blit::Blit`], [`filter::Filter`]). One part of this crate draws it in software,
//! pixel by pixel and as simply as possible. Another part generates the states and words for the engine. Neither uses
//! code of the GPU model: the model's unit tests draw these scenes in plain memory, and `draw-2d` draws them through
//! the driver.
//!
//! States are identified by their byte address in the register database (rnndb, state_2d.xml).

pub mod blit;
pub mod colour;
pub mod filter;
pub mod make;
pub mod resolve_formats;
pub mod surface;

/// Pseudorandom numbers: xorshift.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A random word of 32 bits.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u32
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.word() % limit
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: i32, last: i32) -> i32 {
        first + self.below((last - first + 1) as u32) as i32
    }

    /// True in one of `cases` cases, on average.
    pub fn one_in(&mut self, cases: u32) -> bool {
        self.below(cases) == 0
    }

    /// A random element.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }

    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }
}

/// Features of a core's 2D engine, by the names of their feature bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// 2DPE20.
    pub pe20: bool,
    /// 2D_A8_TARGET.
    pub a8_target: bool,
    /// NEW_2D.
    pub mirror: bool,
    /// FULL_DIRECTFB.
    pub directfb: bool,
    /// 2D_TILING.
    pub yuv_blit: bool,
}

impl Core {
    /// The features in minor feature words 0, 1 and 2.
    pub fn of(minor: [u32; 3]) -> Self {
        Self {
            pe20: minor[0] & (1 << 7) != 0,
            a8_target: minor[0] & (1 << 29) != 0,
            mirror: minor[1] & (1 << 18) != 0,
            directfb: minor[2] & (1 << 16) != 0,
            yuv_blit: minor[2] & (1 << 17) != 0,
        }
    }
}

/// Kinds of scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stretch blits.
    Stretch,
    /// Monochrome sources, from the command stream or from memory.
    Monochrome,
    /// Color sources from memory, with a mask from the command stream.
    Masked,
    /// Sources with a palette, 8 bits per pixel.
    Palette,
    /// Patterns (one color, monochrome, or pixels) and raster operations.
    Pattern,
    /// Alpha blending.
    Blend,
    /// Rotation and mirroring.
    Turn,
    /// From each format and channel order to each other.
    Formats,
    /// A transparent color.
    Key,
    /// Filter blits from RGB.
    Filter,
    /// Filter blits from YUV.
    Video,
    /// Blits from YUV, on cores with this feature.
    YuvBlit,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 12] = [
        Kind::Stretch,
        Kind::Monochrome,
        Kind::Masked,
        Kind::Palette,
        Kind::Pattern,
        Kind::Blend,
        Kind::Turn,
        Kind::Formats,
        Kind::Key,
        Kind::Filter,
        Kind::Video,
        Kind::YuvBlit,
    ];

    /// Whether a core has this feature.
    pub fn is_on(self, core: Core) -> bool {
        self != Kind::YuvBlit || core.yuv_blit
    }
}

/// A buffer of a scene.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The state for its address.
    pub state: u32,
    /// Initial contents.
    pub bytes: Vec<u8>,
}

/// The command that starts the engine.
#[derive(Clone, Debug)]
pub enum Go {
    /// DRAW_2D: two words per rectangle, and data after the rectangles.
    Rectangles(Vec<u32>, Vec<u32>),
    /// The last state starts a filter blit.
    State,
}

/// A scene for the engine.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Buffers; the first one is the destination.
    pub buffers: Vec<Buffer>,
    /// States and values, loaded after the addresses.
    pub states: Vec<(u32, u32)>,
    /// The command that starts the engine.
    pub go: Go,
    /// Expected contents of the first buffer.
    pub wanted: Vec<u8>,
    /// Description for failure messages.
    pub text: String,
}

impl Scene {
    /// A random scene. `seed` selects it.
    pub fn new(kind: Kind, core: Core, seed: u64) -> Self {
        let random = &mut Random::new(seed << 8 | kind as u64);
        match kind {
            Kind::Filter | Kind::Video => make::filter(random, core, kind).scene(core),
            _ => make::blit(random, core, kind).scene(core),
        }
    }

    /// Offset, actual value, and expected value of the first wrong byte.
    pub fn differs(&self, found: &[u8]) -> Option<(usize, u8, u8)> {
        let place = found.iter().zip(&self.wanted).position(|(a, b)| a != b)?;
        Some((place, found[place], self.wanted[place]))
    }
}

/// All states that affect a draw except addresses and tables. Each scene loads each of them.
fn all_states() -> Vec<(u32, u32)> {
    let addresses = [
        0x1200, 0x1228, 0x1238, 0x1284, 0x128c, 0x1294, 0x1304, 0x1310, 0x1318,
    ];
    // These have no name in the database.
    let gaps = [0x1258, 0x1324];
    (0x1200..0x132c)
        .step_by(4)
        .filter(|state| !addresses.contains(state) && !gaps.contains(state))
        .map(|state| match state {
            // No dithering.
            0x12e8 | 0x12ec => (state, u32::MAX),
            _ => (state, 0),
        })
        .collect()
}

/// Replaces the value of a state.
fn set(states: &mut Vec<(u32, u32)>, state: u32, value: u32) {
    match states.iter_mut().find(|entry| entry.0 == state) {
        Some(entry) => entry.1 = value,
        None => states.push((state, value)),
    }
}
