// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the 2D engine's draws.
//!
//! A kick of the 2D engine is assumed to write, in the target's own coordinates:
//!
//! * for `DRAW_2D`: its rectangles, clipped to the clipping window. A line includes both ends. An
//!   inverted rectangle counts as the area between its corners;
//! * for the filter: its window, which nothing clips.
//!
//! A mirrored draw stays in the same area. The pixels of a rotated target can be anywhere within
//! the width and height in its states. So all rows and columns up to these count, and the drawn
//! area must be within them. Tiles are 4 x 4 pixels. Sources give two meanings to the stride of
//! tiled targets. A core without 2D tiling may draw rows. What reaches farthest counts.
//!
//! The last byte must be in the range of the target's address. The checker refuses uses that no
//! source describes: targets in several planes, in minor tiles or in layouts of newer cores; formats
//! of sources alone; unknown formats and rotations; flips after the rotation; blocks of a
//! multi-source blit that rotate the target; the selection of a source or target; values that
//! `LOAD_STATE` converts; strides of more bits than the state has. Without a fetch of the target, the engine writes whole cache
//! blocks. So a load that may disable the fetch is changed to enable it.
//!
//! A blit reads a rectangle of its source that is as large as its own, or scaled. It also reads the
//! clipped part. The filter reads the image that states describe. The raster operations and
//! transparency decide whether a draw reads a source or a pattern. A blit from several sources
//! reads each by its own states, which the stream must load itself.

use super::*;
use blit::{
    Order,
    Rotation,
    Source,
    Stretch, //
};

/// Bits of `DE_DEST_CONFIG`.
pub(super) const TILED: u32 = 1 << 8;
pub(super) const MINOR_TILED: u32 = 1 << 26;
/// `DE_DEST_CONFIG`: layouts of newer cores, and their other order of walking.
pub(super) const NEWER_LAYOUTS: u32 = 7 << 5 | 3 << 9 | 7 << 27;
const GDI_STRETCH: u32 = 1 << 24;
const COMMAND_CLEAR: u32 = 0;
const COMMAND_LINE: u32 = 1;
const COMMAND_BLIT: u32 = 2;
const COMMAND_STRETCH: u32 = 4;
const COMMAND_MULTI: u32 = 8;
/// The commands of `DRAW_2D` that the sources describe: CLEAR, LINE, BIT_BLT, STRETCH_BLT,
/// MULTI_SOURCE_BLT.
const DRAWS: [u32; 5] = [
    COMMAND_CLEAR,
    COMMAND_LINE,
    COMMAND_BLIT,
    COMMAND_STRETCH,
    COMMAND_MULTI,
];

/// `DE_PATTERN_CONFIG`: the pattern is more than one color.
const HAS_PATTERN: u32 = 1 << 4;

/// Pixels of a target. `right` and `bottom` are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

fn signed(value: u32) -> i32 {
    // CAST: a coordinate is a signed 16-bit number.
    i32::from(value as u16 as i16)
}

impl Area {
    /// The area between two corners of a rectangle. The second is exclusive, unless it is `inside`
    /// or not past the first. With one negative coordinate the area has no end there, because
    /// engines may have unsigned coordinates. With two, it is outside of each clipping window.
    fn between(first: u32, second: u32, inside: bool) -> Self {
        let span = |a: i32, b: i32| match ((a < 0) != (b < 0), b > a && !inside) {
            (true, _) => (a.min(b), i32::MAX),
            (false, true) => (a, b),
            (false, false) => (a.min(b), a.max(b) + 1),
        };
        let (left, right) = span(signed(first), signed(second));
        let (top, bottom) = span(signed(first >> 16), signed(second >> 16));
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    /// The part of the area in a clipping window, if there is any. An empty or inverted window does
    /// not clip. Nor does one with a coordinate of 16 bits: engines may have fewer.
    fn clipped(self, low: u32, high: u32) -> Option<Self> {
        // CAST: sixteen bits.
        let corner = |word: u32| ((word & 0xFFFF) as i32, (word >> 16) as i32);
        let ((left, top), (right, bottom)) = (corner(low), corner(high));
        if left >= right || top >= bottom || (low | high) & blit::SIGNS != 0 {
            return Some(self);
        }
        let both = Self {
            left: self.left.max(left),
            top: self.top.max(top),
            right: self.right.min(right),
            bottom: self.bottom.min(bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }
}

impl DrawState {
    /// Checks a `DRAW_2D` of rectangles, each of two `corners`. `last_of` gets a state and the
    /// address in it. It returns the last address of the memory there, if the process may use that.
    /// `loaded` returns whether the stream has loaded a state of [`BLOCKS`], and its value.
    pub(crate) fn draw(
        &mut self,
        corners: impl Iterator<Item = u32> + Clone,
        loaded: impl Fn(u32) -> Loads,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let command = self.command();
        if !self.is_roomy {
            // Other commands are the filter's or internal, and are perhaps not clipped.
            if self.known & bit(CONFIG) != 0 && !DRAWS.contains(&command) {
                return Err(self.unbounded(CONFIG));
            }
            self.check_target(corners.clone(), &mut last_of)?;
        }
        let (reads_source, reads_pattern) = match command {
            COMMAND_CLEAR => (false, self.operation()?.1),
            _ => self.uses()?,
        };
        // With several sources, each has its own operations.
        if reads_pattern || command == COMMAND_MULTI {
            self.pattern(&mut last_of)?;
        }
        match command {
            COMMAND_CLEAR | COMMAND_LINE => Ok(()),
            COMMAND_MULTI => self.check_blocks(corners, loaded, last_of),
            _ if reads_source || self.blends()? => self.check_source(corners, last_of),
            _ => Ok(()),
        }
    }

    /// Checks a `DRAW_2D` that carries data. Only blits whose source or mask comes with the command
    /// are known to use it up: else it may be taken for commands.
    pub(crate) fn data(&self) -> Result<(), Problem> {
        self.check_unconverted(bit(CONFIG) | bit(SRC_CONFIG))?;
        let config = self.values[SRC_CONFIG];
        if matches!(self.command(), COMMAND_BLIT | COMMAND_STRETCH)
            && config & blit::FROM_STREAM != 0
        {
            Ok(())
        } else {
            Err(Problem::Data(STATES[SRC_CONFIG], config))
        }
    }

    /// Fails unless all rectangles stay in the target's memory.
    fn check_target(
        &mut self,
        mut corners: impl Iterator<Item = u32>,
        last_of: &mut impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let room = self.room(bit(CLIP_LOW) | bit(CLIP_HIGH), last_of)?;
        let (low, high) = (self.values[CLIP_LOW], self.values[CLIP_HIGH]);
        let everything = Area {
            left: 0,
            top: 0,
            right: i32::MAX,
            bottom: i32::MAX,
        };
        // Usually the whole clipping window is in the memory.
        let window = everything.clipped(low, high);
        if window.is_none_or(|window| self.fits(window, room)) {
            self.is_roomy = true;
            return Ok(());
        }
        let is_line = self.command() == COMMAND_LINE;
        while let (Some(first), Some(second)) = (corners.next(), corners.next()) {
            let area = Area::between(first, second, is_line).clipped(low, high);
            if let Some(area) = area {
                self.check_area(area, room)?;
            }
        }
        Ok(())
    }

    /// Whether a draw reads a source and a pattern: by its operation or by transparency.
    fn uses(&self) -> Result<(bool, bool), Problem> {
        self.check_unconverted(if self.engines.has_pe20 {
            bit(ROP) | bit(TRANSPARENCY) | bit(OVERRIDES)
        } else {
            bit(ROP) | bit(SRC_CONFIG)
        })?;
        let (source, pattern) = self.operation()?;
        Ok(if self.engines.has_pe20 {
            let uses = self.values[TRANSPARENCY] | self.values[OVERRIDES] >> 16;
            (source || uses & 3 != 0, pattern || uses >> 4 & 3 != 0)
        } else {
            (source || self.values[SRC_CONFIG] >> 4 & 3 != 0, pattern)
        })
    }

    /// Whether a draw blends. It may read its source then, whatever the operation.
    fn blends(&self) -> Result<bool, Problem> {
        self.check_unconverted(bit(ALPHA))?;
        Ok(self.values[ALPHA] & 1 != 0)
    }

    /// Whether the raster operation uses a source and a pattern.
    fn operation(&self) -> Result<(bool, bool), Problem> {
        self.check_unconverted(bit(ROP))?;
        let rop = self.values[ROP];
        // The operations on opaque and transparent pixels. No source says which counts for ROP2.
        let operations = match rop >> 20 & 3 {
            0 | 1 => return Ok((true, true)),
            2 => [rop; 2],
            _ => [rop, rop >> 8],
        };
        let differs = |shift: u32, bits: u32| {
            let mut operations = operations.into_iter();
            operations.any(|rop| (rop ^ (rop & 0xFF) >> shift) & bits != 0)
        };
        Ok((differs(2, 0x33), differs(4, 0x0F)))
    }

    /// Fails unless the pattern of 8 x 8 pixels is in its memory.
    pub(crate) fn pattern(
        &self,
        last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        self.check_unconverted(bit(PATTERN_CONFIG))?;
        let config = self.values[PATTERN_CONFIG];
        let bytes = match (config & HAS_PATTERN, config & 0xF) {
            // One color, or two colors and bits in states.
            (0, _) | (_, 10) => return Ok(()),
            (_, format) => blit::pixel(format).map_or(8, |(bytes, _)| bytes),
        };
        self.check_known(bit(PATTERN))?;
        let room = self.room_of(PATTERN, bit(PATTERN), last_of)?;
        if 64 * bytes - 1 <= room {
            Ok(())
        } else {
            Err(self.beyond(PATTERN))
        }
    }

    /// The (exclusive) columns and rows up to which rectangles read a source with `origin`. 0 if
    /// all are clipped away. `None`: one reads before the source.
    fn read_end(
        &self,
        mut corners: impl Iterator<Item = u32>,
        origin: u32,
        is_relative: Option<bool>,
        stretch: Option<Stretch>,
    ) -> Option<(u32, u32)> {
        let (low, high) = (self.values[CLIP_LOW], self.values[CLIP_HIGH]);
        let mut most = (0, 0);
        while let (Some(first), Some(second)) = (corners.next(), corners.next()) {
            if Area::between(first, second, false)
                .clipped(low, high)
                .is_some()
            {
                let end = blit::read_end([first, second], origin, is_relative, stretch)?;
                most = (most.0.max(end.0), most.1.max(end.1));
            }
        }
        Some(most)
    }

    /// Fails unless the source that a blit of rectangles reads is in its memory.
    fn check_source(
        &self,
        corners: impl Iterator<Item = u32> + Clone,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let mut needed = bit(SRC_CONFIG) | bit(SRC_ORIGIN);
        let mut stretch = None;
        if self.command() == COMMAND_STRETCH {
            needed |= bit(FACTORS) | bit(FACTORS + 1) | bit(SRC_SIZE) | bit(SRC_FRACTION);
            // No source says what the sign means.
            let mut factors = (FACTORS..).zip([self.values[FACTORS], self.values[FACTORS + 1]]);
            if let Some((place, _)) = factors.find(|&(_, factor)| factor >> 31 != 0) {
                return Err(self.unbounded(place));
            }
            stretch = Some(Stretch {
                factors: [self.values[FACTORS], self.values[FACTORS + 1]],
                size: self.values[SRC_SIZE],
                fraction: self.values[SRC_FRACTION],
                is_gdi: self.values[CONFIG] & GDI_STRETCH != 0,
                rounds: [true; 2],
            });
        }
        self.check_unconverted(needed)?;
        let is_relative = self.values[SRC_CONFIG] & blit::RELATIVE != 0;
        let origin = self.values[SRC_ORIGIN];
        let mut check = |stretch| {
            let end = self.read_end(corners.clone(), origin, Some(is_relative), stretch);
            self.check_planes(end, &mut last_of)
        };
        let found = check(stretch);
        let (Some(stretch), Err(Problem::Beyond(..))) = (stretch, found) else {
            return found;
        };
        // Name what leads past the end: the size, or a factor, if it only does so by rounding.
        let mut fits = |stretch| check(Some(stretch)).is_ok();
        let with = |rounds| Stretch { rounds, ..stretch };
        // A size of 1 stays: factors are rounded by it.
        let one = |axis: u32| {
            let one = axis & 0x1_0001;
            one * u32::from(stretch.size & axis == one)
        };
        let size = one(0xFFFF) | one(0xFFFF << 16);
        if fits(Stretch { size, ..stretch }) {
            Err(self.unbounded(SRC_SIZE))
        } else if fits(with([false, true])) {
            Err(self.unbounded(FACTORS))
        } else if fits(with([false; 2])) {
            Err(self.unbounded(FACTORS + 1))
        } else {
            found
        }
    }

    /// Fails unless the planes of the source are in their memory, up to `end` (columns and rows).
    /// `None`: part of the read is before the source.
    fn check_planes(
        &self,
        end: Option<(u32, u32)>,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        const ADDRESSES: [usize; 3] = [SRC_ADDRESS, U_PLANE, V_PLANE];
        self.check_unconverted(bit(SRC_CONFIG))?;
        let is_pe20 = self.engines.has_pe20;
        let planes = blit::planes(self.values[SRC_CONFIG], is_pe20);
        let planes = planes.ok_or(self.unbounded(SRC_CONFIG))?;
        if planes == 0 || end == Some((0, 0)) {
            return Ok(());
        }
        let end = end.ok_or(self.unbounded(SRC_ORIGIN))?;
        let rotation = Rotation {
            angle: self.values[SRC_ANGLE],
            width: self.values[SRC_ROTATION],
            height: self.values[SRC_HEIGHT],
        };
        let mut needed =
            bit(SRC_ADDRESS) | bit(SRC_STRIDE) | bit(SRC_ROTATION) | bit(SRC_EX_CONFIG);
        if is_pe20 {
            needed |= bit(SRC_ANGLE);
            if rotation.needs_height() {
                needed |= bit(SRC_HEIGHT);
            }
        }
        for place in ADDRESSES.into_iter().take(planes).skip(1) {
            needed |= 3 << place;
        }
        self.check_unconverted(needed)?;
        let source = Source {
            config: self.values[SRC_CONFIG],
            ex_config: self.values[SRC_EX_CONFIG],
            strides: ADDRESSES.map(|place| self.values[place + 1]),
            rotation,
        };
        if !source.is_known() {
            return Err(self.unbounded(SRC_EX_CONFIG));
        }
        for (plane, place) in ADDRESSES.into_iter().take(planes).enumerate() {
            let room = self.room_of(place, needed, &mut last_of)?;
            let last = source.last_byte(is_pe20, plane, end);
            if last.is_none_or(|last| last > room) {
                return Err(self.outside(place, last, rotation, SRC_ROTATION));
            }
        }
        Ok(())
    }

    /// Fails unless all that a blit of rectangles reads from several sources is in their memory. It
    /// is not known which set of [`BLOCKS`] the engine uses: a set counts if the process has ever
    /// loaded a state of it.
    fn check_blocks(
        &self,
        corners: impl Iterator<Item = u32> + Clone,
        loaded: impl Fn(u32) -> Loads,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        self.check_unconverted(bit(MULTI))?;
        let sources = (self.values[MULTI] & 7) + 1;
        let mut is_loaded = false;
        for (first, most) in BLOCKS {
            let group = |group: u32, source: u32| first + group * most + source;
            let is_never = loaded(group(BLOCK_ADDRESS, 0)) == Loads::Never;
            if is_never {
                continue;
            }
            is_loaded |= sources <= most;
            for source in 0..sources.min(most) {
                let value = |of: u32| match loaded(group(of, source)) {
                    Loads::Here(value) => Ok(value),
                    _ => Err(Problem::Unloaded(group(of, source))),
                };
                let (config, ex_config) = (value(BLOCK_CONFIG)?, value(BLOCK_EX_CONFIG)?);
                let unbounded = Problem::Unbounded(group(BLOCK_CONFIG, source), config);
                // With several sources, the command contains no pixels of any.
                let planes = blit::planes(config, true).filter(|&planes| planes > 0);
                let planes = planes.ok_or(unbounded)?;
                let (angle, of_source) = (value(BLOCK_ANGLE)?, FIELDS[1]);
                if angle & of_source.mask != 0 {
                    // The source's angle is that of an earlier load.
                    return Err(Problem::Unbounded(group(BLOCK_ANGLE, source), angle));
                }
                let angle = angle & of_source.bits;
                let rotation = Rotation {
                    angle,
                    width: value(BLOCK_ROTATION)?,
                    height: value(BLOCK_HEIGHT)?,
                };
                let stride_of =
                    |of: u32, plane: usize| if plane < planes { value(of) } else { Ok(0) };
                let part = Source {
                    config,
                    ex_config,
                    strides: [
                        value(BLOCK_STRIDE)?,
                        stride_of(BLOCK_U + 1, 1)?,
                        stride_of(BLOCK_V + 1, 2)?,
                    ],
                    rotation,
                };
                if !part.is_known() {
                    return Err(Problem::Unbounded(
                        group(BLOCK_EX_CONFIG, source),
                        part.ex_config,
                    ));
                }
                let origin = value(BLOCK_ORIGIN)?;
                let end = self.read_end(corners.clone(), origin, None, None);
                let before = Problem::Unbounded(group(BLOCK_ORIGIN, source), origin);
                let end = end.ok_or(before)?;
                if end == (0, 0) {
                    continue;
                }
                let addresses = [BLOCK_ADDRESS, BLOCK_U, BLOCK_V];
                for (plane, of) in addresses.into_iter().take(planes).enumerate() {
                    let last = part.last_byte(true, plane, end);
                    check_end((group(of, source), value(of)?), last, &mut last_of)?;
                }
            }
        }
        if is_loaded {
            Ok(())
        } else {
            Err(Problem::Unloaded(BLOCKS_FIRST))
        }
    }

    /// Checks a kick of the filter.
    pub(crate) fn filter(
        &self,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let room = self.room(bit(WINDOW_LOW) | bit(WINDOW_HIGH), &mut last_of)?;
        self.check_unsigned([WINDOW_LOW, WINDOW_HIGH])?;
        let (low, high) = (self.values[WINDOW_LOW], self.values[WINDOW_HIGH]);
        // CAST: sixteen bits.
        let span = |low: u32, high: u32| {
            let (low, high) = ((low & 0xFFFF) as i32, (high & 0xFFFF) as i32);
            (low.min(high), high.max(low + 1))
        };
        let (left, right) = span(low, high);
        let (top, bottom) = span(low >> 16, high >> 16);
        let window = Area {
            left,
            top,
            right,
            bottom,
        };
        self.check_area(window, room)?;
        if self.uses()?.1 {
            self.pattern(&mut last_of)?;
        }
        // Pixels outside of the source's image are those of its edge.
        self.check_unconverted(bit(IMAGE_LOW) | bit(IMAGE_HIGH) | bit(SRC_CONFIG))?;
        self.check_unsigned([IMAGE_LOW, IMAGE_HIGH])?;
        // The kick of the filter carries no pixels.
        if blit::planes(self.values[SRC_CONFIG], self.engines.has_pe20) == Some(0) {
            return Err(self.unbounded(SRC_CONFIG));
        }
        let (low, high) = (self.values[IMAGE_LOW], self.values[IMAGE_HIGH]);
        // CAST: not negative.
        let end = |low, high| span(low, high).1 as u32;
        let end = (end(low, high), end(low >> 16, high >> 16));
        self.check_planes(Some(end), last_of)
    }

    /// Fails if a coordinate in the states at `places` may be negative for some engine.
    fn check_unsigned(&self, places: [usize; 2]) -> Result<(), Problem> {
        let is_odd = |place: &usize| self.values[*place] & blit::SIGNS != 0;
        match places.into_iter().find(is_odd) {
            Some(place) => Err(self.unbounded(place)),
            None => Ok(()),
        }
    }

    /// [`Self::room_of`] for the 2D engine's target. `needed`: other states that must be known.
    fn room(
        &self,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<u32, Problem> {
        let mut needed = needed | bit(ADDRESS) | bit(STRIDE) | bit(ROTATION) | bit(CONFIG);
        if self.engines.has_pe20 {
            needed |= bit(ANGLE);
            if self.rotation().needs_height() {
                needed |= bit(HEIGHT);
            }
        }
        self.check_known(needed)?;
        let config = self.values[CONFIG];
        if config & (MINOR_TILED | NEWER_LAYOUTS) != 0 || self.pixel().is_none() {
            return Err(self.unbounded(CONFIG));
        }
        // With several sources, it is not known which angle counts.
        if self.engines.has_pe20
            && self.command() == COMMAND_MULTI
            && matches!(self.rotation().angle, 4 | 6 | 7)
        {
            return Err(self.unbounded(ANGLE));
        }
        self.room_of(ADDRESS, needed, last_of)
    }

    /// Fails unless `area` is within the `room` bytes after the target's first byte.
    fn check_area(&self, area: Area, room: u32) -> Result<(), Problem> {
        match self.last_byte(area) {
            Some(last) if last <= room => Ok(()),
            last => Err(self.outside(ADDRESS, last, self.rotation(), ROTATION)),
        }
    }

    /// Why an area, whose last byte is `last`, does not fit into the memory at the address at
    /// `place`. The stride is at the next place, and the width of the `rotation` at `width`.
    fn outside(
        &self,
        place: usize,
        last: Option<u32>,
        rotation: Rotation,
        width: usize,
    ) -> Problem {
        match last {
            None if self.values[place + 1] > blit::STRIDE_BITS => self.unbounded(place + 1),
            None if rotation.turns() => self.unbounded(width),
            _ => self.beyond(place),
        }
    }

    /// Whether `area` is within the `room` bytes after the target's first byte.
    fn fits(&self, area: Area, room: u32) -> bool {
        self.last_byte(area).is_some_and(|last| last <= room)
    }

    /// The offset of the last byte of `area` from the target's first byte. `None`: too large, or
    /// unknown.
    fn last_byte(&self, area: Area) -> Option<u32> {
        let config = self.values[CONFIG];
        let (rotation, is_pe20) = (self.rotation(), self.engines.has_pe20);
        if area.left < 0 || area.top < 0 {
            return None;
        }
        let orders: &[Order] = match config & TILED {
            0 => &[Order::Rows],
            _ => &[Order::Rows, Order::Tiles],
        };
        let pixel = self.pixel()?;
        // CAST: not negative.
        let end = (area.right as u32, area.bottom as u32);
        rotation.farthest(is_pe20, end, |size| {
            blit::last_of(orders, self.values[STRIDE], pixel, size)
        })
    }
}
