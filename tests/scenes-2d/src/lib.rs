// SPDX-License-Identifier: GPL-2.0-only
//! Random scenes for the 2D engine, and what they must look like.
//!
//! A scene is made as a description ([`blit::Blit`], [`filter::Filter`]). One part of this crate draws it, a pixel at
//! a time and as plainly as can be; another writes the states and words that ask the engine for it. Neither knows the
//! GPU model: its unit tests draw these scenes on plain memory, and `draw-2d` draws them through the driver.
//!
//! States are named by their byte address in the register database (rnndb, state_2d.xml).

pub mod blit;
pub mod colour;
pub mod filter;
pub mod make;
pub mod resolve_formats;
pub mod surface;

/// Numbers that look random: xorshift.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 32 bits.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u32
    }

    /// Less than `limit`, which is not 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.word() % limit
    }

    /// `first` to `last`, both included.
    pub fn between(&mut self, first: i32, last: i32) -> i32 {
        first + self.below((last - first + 1) as u32) as i32
    }

    /// In one of so many cases.
    pub fn one_in(&mut self, cases: u32) -> bool {
        self.below(cases) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }
}

/// What the 2D engine of a core has: names are those of its feature bits.
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
    /// By minor features 0, 1 and 2.
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
    /// One bit a pixel, from the command stream or from memory.
    Monochrome,
    /// Colours from memory, a mask from the command stream.
    Masked,
    /// 8 bits a pixel, with a palette.
    Palette,
    /// Patterns of one colour, of bits, of pixels; raster operations.
    Pattern,
    /// Alpha blending.
    Blend,
    /// Rotation and mirroring.
    Turn,
    /// From each format and channel order to each.
    Formats,
    /// A transparent colour.
    Key,
    /// Filter blits from RGB.
    Filter,
    /// Filter blits from YUV.
    Video,
    /// Blits from YUV, on cores that have them.
    YuvBlit,
}

impl Kind {
    /// All.
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

    /// Whether a core has it.
    pub fn is_on(self, core: Core) -> bool {
        self != Kind::YuvBlit || core.yuv_blit
    }
}

/// Memory that a scene needs.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The state that takes its address.
    pub state: u32,
    /// What is in it before.
    pub bytes: Vec<u8>,
}

/// What starts the engine.
#[derive(Clone, Debug)]
pub enum Go {
    /// DRAW_2D: words of the rectangles, two each, and data that follow them.
    Rectangles(Vec<u32>, Vec<u32>),
    /// The last of the states starts a filter blit.
    State,
}

/// A scene for the engine.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Memory; the first is drawn to.
    pub buffers: Vec<Buffer>,
    /// States and their values, to be loaded after the addresses.
    pub states: Vec<(u32, u32)>,
    /// What starts it.
    pub go: Go,
    /// The first buffer afterwards.
    pub wanted: Vec<u8>,
    /// What it is, for who sees it fail.
    pub text: String,
}

impl Scene {
    /// A random scene; `seed` tells them apart.
    pub fn new(kind: Kind, core: Core, seed: u64) -> Self {
        let random = &mut Random::new(seed << 8 | kind as u64);
        match kind {
            Kind::Filter | Kind::Video => make::filter(random, core, kind).scene(core),
            _ => make::blit(random, core, kind).scene(core),
        }
    }

    /// The first byte that is not as wanted: its place, what it is and what it should be.
    pub fn differs(&self, found: &[u8]) -> Option<(usize, u8, u8)> {
        let place = found.iter().zip(&self.wanted).position(|(a, b)| a != b)?;
        Some((place, found[place], self.wanted[place]))
    }
}

/// All states of the engine that a draw looks at, but addresses and tables: each scene loads each of them.
fn all_states() -> Vec<(u32, u32)> {
    let addresses = [
        0x1200, 0x1228, 0x1238, 0x1284, 0x128c, 0x1294, 0x1304, 0x1310, 0x1318,
    ];
    // The database has no name for these.
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

/// Puts a value in the place of the one that a state has.
fn set(states: &mut Vec<(u32, u32)>, state: u32, value: u32) {
    match states.iter_mut().find(|entry| entry.0 == state) {
        Some(entry) => entry.1 = value,
        None => states.push((state, value)),
    }
}
