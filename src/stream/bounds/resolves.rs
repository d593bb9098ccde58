// SPDX-License-Identifier: GPL-2.0-only

//! Bounds of the resolve engine's kicks.
//!
//! [`resolve`] has the ranges. With one pixel pipe, the target is `RS_DEST_ADDR`. With two, and
//! with HALTI5, it is the first `RS_PIPE_DEST_ADDR`, also the second if the target is split, and
//! also `RS_DEST_ADDR` if the stream has loaded it. The same applies to the source. A kick in place
//! fills a number of tiles of the color surface of tile status. A copy with fast clear of color,
//! and a kick in place, also read the status of their tiles. All of it must be in the memory in
//! which `TS_COLOR_STATUS_BASE` is.

use super::*;

impl Target {
    /// The states that a resolve may need and that are not known: a bit mask of [`STATES`].
    pub(crate) fn all_of_resolves(&self) -> Mask {
        let all = bit(RS_CONFIG)
            | bit(RS_SOURCE_STRIDE)
            | bit(RS_STRIDE)
            | bit(RS_WINDOW)
            | bit(RS_CLEAR)
            | bit(TS_CONFIG)
            | bit(TS_STATUS)
            | bit(TS_SURFACE);
        let surfaces = match (self.engines.pixel_pipes, self.engines.halti5) {
            (0 | 1, false) => bit(RS_SOURCE) | bit(RS_ADDRESS),
            (0 | 1, true) => bit(RS_PIPE_SOURCE) | bit(RS_PIPE_ADDRESS) | bit(RS_PIPE_OFFSET),
            _ => 3 << RS_PIPE_SOURCE | 3 << RS_PIPE_ADDRESS | 3 << RS_PIPE_OFFSET,
        };
        (all | surfaces) & !self.known
    }

    /// Checks a kick of the resolve engine. `TS_COLOR_SURFACE_BASE` is an address plus
    /// `status_base`.
    pub(crate) fn resolve(
        &self,
        status_base: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if self.tiler.is_on() {
            // Mesa loads 0 into both before it starts the tiler.
            self.check_plain(bit(RS_CLEAR) | bit(RS_SOURCE_STRIDE))?;
            if self.values[RS_CLEAR] & resolve::FILL != 0 {
                return Err(self.unbounded(RS_CLEAR));
            }
            if self.values[RS_SOURCE_STRIDE] != 0 {
                return Err(self.unbounded(RS_SOURCE_STRIDE));
            }
            if self.engines.pixel_pipes > 2 {
                return Err(Problem::Unbounded(tiler::CONFIG, self.tiler.config()));
            }
            return self.tiler.check_kick(last_of);
        }
        let needed = bit(RS_CONFIG) | bit(RS_STRIDE) | bit(RS_WINDOW) | bit(RS_CLEAR);
        self.check_known(needed)?;
        let window = self.values[RS_WINDOW];
        if window & 0xFFFF == 0 || window >> 16 == 0 {
            return Err(self.unbounded(RS_WINDOW));
        }
        let kick = resolve::Kick {
            config: self.values[RS_CONFIG],
            source_stride: self.values[RS_SOURCE_STRIDE],
            stride: self.values[RS_STRIDE],
            window,
            clear: self.values[RS_CLEAR],
            has_supertiles: self.engines.has_supertiles,
        };
        self.check_side(
            kick.target(),
            needed,
            [RS_STRIDE, RS_ADDRESS, RS_PIPE_ADDRESS],
            &mut last_of,
        )?;
        let Some(source) = kick.source() else {
            return Ok(());
        };
        let needed = needed | bit(RS_SOURCE_STRIDE) | bit(TS_CONFIG);
        let places = [RS_SOURCE_STRIDE, RS_SOURCE, RS_PIPE_SOURCE];
        let (first, last) = self.check_side(source, needed, places, &mut last_of)?;
        if self.values[TS_CONFIG] & COLOR_FAST_CLEAR == 0 {
            return Ok(());
        }
        let needed = bit(TS_CONFIG) | bit(TS_STATUS) | bit(TS_SURFACE);
        self.check_known(needed)?;
        let surface = self.values[TS_SURFACE].wrapping_sub(status_base);
        // No source says which status the engine reads for tiles before the surface.
        if first < surface {
            return Err(self.beyond(TS_SURFACE));
        }
        let tile = (last - surface) / self.bytes_per_tile();
        self.check_status(tile, needed, last_of)
    }

    /// Fails unless the status of all tiles up to number `last` is in its memory. `needed`: states
    /// that must be known, and not converted.
    fn check_status(
        &self,
        last: u32,
        needed: Mask,
        last_of: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        let room = self.room_of(TS_STATUS, needed, last_of)?;
        let byte = if self.engines.has_2_bits_per_tile {
            last / 4
        } else {
            last / 2
        };
        if byte <= room {
            Ok(())
        } else {
            Err(self.beyond(TS_STATUS))
        }
    }

    /// Bytes of the surface for which there is one tile's status.
    fn bytes_per_tile(&self) -> u32 {
        match (
            self.engines.has_large_tiles,
            self.values[RS_SOURCE_STRIDE] & resolve::TS_MODE,
        ) {
            (false, _) => 64,
            (true, 0) => 128,
            (true, _) => 256,
        }
    }

    /// Fails unless the source or target of a kick is in its memory. The address is in the state at
    /// `plain`, or with several pixel pipes or HALTI5 in the states from `of_pipes` on. The stride
    /// is in the state at `stride`. `needed`: other states that must be known. Returns the first
    /// and the last address.
    fn check_side(
        &self,
        side: resolve::Side,
        needed: Mask,
        [stride, plain, of_pipes]: [usize; 3],
        last_of: &mut impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(u32, u32), Problem> {
        let has_pipes = self.engines.pixel_pipes > 1;
        let is_split = has_pipes && side.is_split();
        // No source describes more than two pixel pipes.
        if !side.is_known() || self.engines.pixel_pipes > 2 {
            return Err(self.unbounded(stride));
        }
        let needed = needed
            | match (has_pipes, self.engines.halti5) {
                (true, _) => (1 | Mask::from(is_split) << 1) << of_pipes | 3 << RS_PIPE_OFFSET,
                (false, true) => bit(of_pipes) | bit(RS_PIPE_OFFSET),
                (false, false) => bit(plain),
            };
        self.check_known(needed)?;
        let mut fits = |place: usize, last: Option<u32>| {
            let room = self.room_of(place, needed, &mut *last_of)?;
            let last = last
                .filter(|&last| last <= room)
                .ok_or(self.beyond(place))?;
            let first = self.values[place];
            Ok((first, first + last))
        };
        let join = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
        let of_pipe = |pipe| side.last_byte(self.values[RS_PIPE_OFFSET + pipe], is_split);
        let farthest = match (self.engines.pixel_pipes, self.engines.halti5) {
            (0 | 1, false) => return fits(plain, side.last_byte(0, false)),
            (0 | 1, true) => of_pipe(0),
            _ => {
                let both = of_pipe(0).zip(of_pipe(1));
                both.map(|(first, second)| first.max(second))
            }
        };
        let mut side = fits(of_pipes, farthest)?;
        if is_split {
            side = join(side, fits(of_pipes + 1, farthest)?);
        }
        if self.known & bit(plain) != 0 {
            side = join(side, fits(plain, farthest)?);
        }
        Ok(side)
    }

    /// Checks a kick in place that fills `tiles` tiles of the color surface of tile status.
    pub(crate) fn fill_tiles(
        &self,
        tiles: u32,
        mut last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        if let Some(config) = self.tiler_left_on() {
            return Err(Problem::Unbounded(tiler::CONFIG, config));
        }
        let mut needed = bit(TS_STATUS) | bit(TS_SURFACE);
        needed |= Mask::from(self.engines.has_large_tiles) << RS_SOURCE_STRIDE;
        self.check_known(needed)?;
        let Some(last) = tiles.checked_sub(1) else {
            return Ok(());
        };
        let room = self.room_of(TS_SURFACE, needed, &mut last_of)?;
        let bytes = tiles.checked_mul(self.bytes_per_tile());
        if bytes.is_some_and(|bytes| bytes - 1 <= room) {
            self.check_status(last, needed, last_of)
        } else {
            Err(self.beyond(TS_SURFACE))
        }
    }
}
