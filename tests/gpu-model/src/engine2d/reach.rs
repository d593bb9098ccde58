// SPDX-License-Identifier: GPL-2.0-only
//! Compares the driver's calculation of the reach of this engine, the resolve engine and the YUV tiler with the bytes
//! that they access.

use super::*;
use crate::resolve::Resolve;
use crate::tile_status::StatusFormat;
use crate::tiler::Tiler;

#[path = "../../../../src/stream/blit.rs"]
#[allow(dead_code)]
mod blit;
#[path = "../../../../src/stream/bounds.rs"]
#[allow(dead_code, unexpected_cfgs)]
mod bounds;
#[path = "../../../../src/stream/resolve.rs"]
#[allow(dead_code)]
mod resolve;

use bounds::DrawState;
use bounds::Problem;

/// More than any kick needs.
const MUCH: u64 = 1 << 29;

/// Random kicks that draw something, for each of two engines.
const KICKS: u64 = 1_000_000;

/// Start of targets.
const BASE: u32 = 0x4000_0000;

/// How far an engine goes from the start of an area.
#[derive(Default)]
struct Reach {
    /// The byte after the last one.
    end: u64,
}

/// The states with the addresses of the 2D engine's target, source, planes of U and V, and pattern; and the areas
/// (of [`STARTS`]) that they begin in.
const SURFACES: [(u32, usize); 5] = [
    (DE_DEST_ADDRESS, 1),
    (DE_SRC_ADDRESS, 2),
    (DE_UPLANE_ADDRESS, 3),
    (DE_VPLANE_ADDRESS, 4),
    (DE_PATTERN_ADDRESS, 0),
];

/// Notes how far the 2D engine goes in each area.
#[derive(Default)]
struct Touched(Areas);

impl Bus for Touched {
    fn read(&mut self, _port: Port, address: u32, data: &mut [u8]) {
        self.0.touch(address, data.len());
        data.fill(0);
    }
    fn write(&mut self, _port: Port, address: u32, data: &[u8]) {
        self.0.touch(address, data.len());
    }
    fn read_physical(&mut self, _address: u32, _data: &mut [u8]) {
        panic!("the 2D engine reads a physical address");
    }
    fn write_physical(&mut self, _address: u32, _data: &[u8]) {
        panic!("the 2D engine writes to a physical address");
    }
    fn aborted(&self) -> bool {
        false
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// A corner with coordinates below `limit`, or also slightly below 0 if `signed`.
    fn corner(&mut self, limit: u32, signed: bool) -> u32 {
        let back = if signed { 4 } else { 0 };
        let mut number = || self.below(limit + back).wrapping_sub(back) & 0xffff;
        number() << 16 | number()
    }
}

/// A draw: its states, and the corners of its rectangles (none for a filter blit).
struct Kick {
    states: Vec<(u32, u32)>,
    corners: Vec<u32>,
}

impl Kick {
    fn random(random: &mut Random, engine: &Engine) -> Self {
        let filters = random.below(8) == 0;
        let command = random.pick(&[CLEAR, LINE, BIT_BLT, STRETCH_BLT]);
        let format = random.pick(&[0, 1, 2, 3, 4, 5, 6, 16, 7]);
        let stride = match random.below(4) {
            0 => 0x3_fffc - 4 * random.below(8),
            1 => random.below(0x1_0000) * 4,
            _ => 4 * random.below(64),
        };
        let turn = match (filters || command <= LINE, engine.pe20) {
            (false, true) => random.pick(&[0, 0, 1, 2, 4, 5, 6]),
            _ => 0,
        };
        // Sometimes all pixels fit on a rotated surface of this size.
        let size = |random: &mut Random| 12 + random.below(8);
        let by_state = !filters && command > LINE && turn == 0 && random.below(4) == 0;
        let clip = match random.below(3) {
            0 => [0, 0x7fff_7fff],
            1 => [random.corner(8, false), random.corner(20, false)],
            _ => [0, random.corner(20, false)],
        };
        let mut states = vec![
            (DE_DEST_ADDRESS, BASE),
            (DE_DEST_STRIDE, stride),
            (
                DE_DEST_ROTATION_CONFIG,
                u32::from(by_state) << 16 | size(random),
            ),
            (DE_DEST_CONFIG, command << 12 | format),
            (DE_CLIP_TOP_LEFT, clip[0]),
            (DE_CLIP_BOTTOM_RIGHT, clip[1]),
            (DE_VR_TARGET_WINDOW_LOW, random.corner(6, false)),
            (DE_VR_TARGET_WINDOW_HIGH, random.corner(10, false)),
            (DE_DEST_ROTATION_HEIGHT, size(random)),
            (DE_CLEAR_BYTE_MASK, 0xff),
            (DE_PE_DITHER_LOW, u32::MAX),
            (DE_PE_DITHER_HIGH, u32::MAX),
            (DE_VR_CONFIG, random.below(2)),
        ];
        let source_turn = if engine.pe20 && !filters {
            random.pick(&[0, 0, 0, 1, 2, 4, 5, 6])
        } else {
            0
        };
        states.push((DE_ROT_ANGLE, turn << 3 | source_turn));
        states.extend(Self::random_source(random, engine, filters));
        if command > LINE && !filters {
            let axes = random.below(4);
            states.push((DE_CONFIG, u32::from(axes != 0) | axes << 4));
        }
        let corners = if filters {
            0
        } else {
            2 * (1 + random.below(3))
        };
        let is_signed = turn == 0 && !by_state;
        let mut corners: Vec<_> = (0..corners).map(|_| random.corner(24, is_signed)).collect();
        // Most rectangles are ordered, as a client's are.
        if random.below(4) != 0 {
            for pair in corners.chunks_mut(2) {
                let ((left, top), (right, bottom)) = (signed_pair(pair[0]), signed_pair(pair[1]));
                let word = |x: i32, y: i32| ((y & 0xffff) << 16 | x & 0xffff) as u32;
                pair[0] = word(left.min(right), top.min(bottom));
                pair[1] = word(left.max(right) + 1, top.max(bottom) + 1);
            }
        }
        Self { states, corners }
    }

    /// States of a source and of a pattern, and whether a draw uses them.
    fn random_source(random: &mut Random, engine: &Engine, filters: bool) -> Vec<(u32, u32)> {
        let format = random.pick(&[0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 15, 16, 17, 18]);
        let stride = |random: &mut Random| match random.below(4) {
            0 => 0x3_fffc - 4 * random.below(8),
            _ => 4 * random.below(64),
        };
        let rop = if filters {
            0xcccc
        } else {
            random.pick(&[0xf0f0, 0xcccc, 0xcccc, 0xccf0, 0xaaaa, 0xaacc, 0x5a5a])
        };
        let relative = random.below(4) / 3 << 6;
        let by_state = u32::from(!filters && random.below(8) == 0);
        let format_at = if engine.pe20 { 24 } else { 0 };
        let image = random.corner(4, false);
        let is_signed = random.below(8) == 0;
        let origin = random.corner(8, is_signed);
        let mut states = vec![
            (DE_ROP, random.pick(&[2, 3, 3]) << 20 | rop),
            (DE_ALPHA_CONTROL, 0),
            (DE_SRC_STRIDE, stride(random)),
            (DE_SRC_CONFIG, (format & 0x1f) << format_at | relative),
            (DE_SRC_ORIGIN, origin),
            // This engine goes by the factors alone.
            (DE_SRC_SIZE, random.below(2) << 16 | random.below(2)),
            (DE_SRC_ORIGIN_FRACTION, 0),
            (
                DE_SRC_ROTATION_CONFIG,
                by_state << 16 | 16 + random.below(24),
            ),
            (DE_SRC_ROTATION_HEIGHT, 16 + random.below(24)),
            (DE_STRETCH_FACTOR_LOW, random.below(0x3_0000)),
            (DE_STRETCH_FACTOR_HIGH, random.below(0x3_0000)),
            (DE_UPLANE_STRIDE, stride(random)),
            (DE_VPLANE_STRIDE, stride(random)),
            (DE_VR_SOURCE_IMAGE_LOW, image),
            (
                DE_VR_SOURCE_IMAGE_HIGH,
                image + random.corner(8, false) + 0x1_0001,
            ),
            (DE_VR_SOURCE_ORIGIN_LOW, random.below(8 << 16)),
            (DE_VR_SOURCE_ORIGIN_HIGH, random.below(8 << 16)),
            (DE_SRC_EX_CONFIG, 0),
            (DE_PATTERN_MASK_LOW, u32::MAX),
            (DE_PATTERN_MASK_HIGH, u32::MAX),
            (
                DE_PATTERN_CONFIG,
                random.pick(&[0, 10 | 1 << 4, 6 | 3 << 4, 4 | 3 << 4]),
            ),
            (
                DE_PE_TRANSPARENCY,
                if engine.pe20 {
                    random.below(4) / 3 * 2
                } else {
                    0
                },
            ),
        ];
        states.extend(SURFACES.map(|(state, area)| (state, STARTS[area])));
        states
    }

    /// The reach of the engine in each area; `None`: the model does not draw the kick.
    fn touched(&self, engine: &Engine, block: &mut StateBlock) -> Option<[u64; 5]> {
        for &(address, value) in &self.states {
            block.parts[0].1[((address - DE_FIRST) / 4) as usize] = value;
        }
        let mut reach = Touched::default();
        if self.corners.is_empty() {
            engine.check_filter(block).ok()?;
            engine.filter(block, &mut reach);
        } else {
            let rectangles: Vec<_> = self
                .corners
                .chunks(2)
                .map(|pair| Rectangle::from_words(pair[0], pair[1]))
                .collect();
            engine.check(block).ok()?;
            engine.check_rectangles(block, &rectangles, 0).ok()?;
            for rectangle in rectangles {
                engine.draw(block, &[], rectangle, &mut reach);
            }
        }
        Some(reach.0 .0.map(|area| area.end))
    }

    /// The result of the driver's check with this number of bytes of memory in each area.
    fn checked(&self, engine: &Engine, bytes: [u64; 5]) -> Result<(), Problem> {
        let mut target = DrawState::new(bounds::Engines {
            has_pe20: engine.pe20,
            rotates: engine.pe20,
            has_a8_target: true,
            ..Default::default()
        });
        for &(address, value) in &self.states {
            target.load(address / 4, value, false, true);
        }
        let last_of = |state, address: u32| {
            let (_, area) = SURFACES.into_iter().find(|of| of.0 / 4 == state)?;
            u32::try_from((u64::from(address) + bytes[area]).checked_sub(1)?).ok()
        };
        if self.corners.is_empty() {
            target.filter(last_of)
        } else {
            target.draw(
                self.corners.iter().copied(),
                |_| bounds::Loads::Never,
                last_of,
            )
        }
    }

    fn state(&self, wanted: u32) -> u32 {
        let mut states = self.states.iter();
        states.find(|state| state.0 == wanted).unwrap().1
    }

    /// Whether the driver's reach in a source equals the bytes read: there is one rectangle, which is not clipped; no
    /// pairs of pixels; no rotation; no stretch, which may round.
    fn is_source_exact(&self, engine: &Engine) -> bool {
        let state = |wanted| self.state(wanted);
        let (low, high) = (state(DE_CLIP_TOP_LEFT), state(DE_CLIP_BOTTOM_RIGHT));
        let clip = Rectangle::from_words(low, high);
        let mut pairs = self.corners.chunks(2);
        let is_whole = pairs.all(|pair| {
            let rectangle = Rectangle::from_words(pair[0], pair[1]);
            rectangle.intersect(clip) == Some(rectangle)
        });
        let format = state(DE_SRC_CONFIG) >> if engine.pe20 { 24 } else { 0 } & 0x1f;
        let turned = state(DE_ROT_ANGLE) & 7 != 0 || state(DE_SRC_ROTATION_CONFIG) >> 16 != 0;
        let is_stretch = state(DE_DEST_CONFIG) >> 12 & 0xf == STRETCH_BLT;
        self.corners.len() == 2 && is_whole && !turned && !is_stretch && !matches!(format, 7 | 8)
    }

    /// Whether the driver's reach in the target equals the bytes accessed.
    fn is_exact(&self) -> bool {
        let state = |wanted| self.state(wanted);
        let turned = state(DE_ROT_ANGLE) & 0x38 != 0 || state(DE_DEST_ROTATION_CONFIG) >> 16 != 0;
        let is_line = state(DE_DEST_CONFIG) >> 12 == LINE;
        // Pixels of YUY2 are in pairs. The driver orders inverted rectangles.
        let is_yuy2 = state(DE_DEST_CONFIG) & 0x1f == 7;
        let ordered = |first: u32, second: u32| {
            let rectangle = Rectangle::from_words(first, second);
            rectangle.left < rectangle.right && rectangle.top < rectangle.bottom
        };
        let all_ordered = self.corners.chunks(2).all(|pair| ordered(pair[0], pair[1]));
        // The driver may place negative coordinates far away.
        let is_negative = self.corners.iter().any(|corner| corner & 0x8000_8000 != 0);
        let window = ordered(state(DE_CLIP_TOP_LEFT), state(DE_CLIP_BOTTOM_RIGHT));
        let filters = self.corners.is_empty();
        !is_yuy2 && (filters || !turned && !is_line && !is_negative && all_ordered && window)
    }
}

/// With one byte less than it accesses, each kick is refused. With enough bytes, none is refused.
#[test]
fn the_driver_knows_how_far_each_kick_reaches() {
    let features = Features {
        a8_target: true,
        scaler: true,
        mirror: true,
        yuv420: true,
        yuv_blit: true,
        ..Features::default()
    };
    for pe20 in [false, true] {
        let engine = Engine {
            pe20,
            line_inclusive: pe20,
            features,
        };
        let words = vec![0; ((DE_END - DE_FIRST) / 4) as usize];
        let mut block = StateBlock::new(DE_FIRST, words);
        let mut random = Random(0x1147 + u64::from(pe20));
        let (mut kicks, mut exact, mut most) = (0, 0, 0);
        let mut read = [0; 5];
        while kicks < KICKS {
            let kick = Kick::random(&mut random, &engine);
            let Some(ends) = kick.touched(&engine, &mut block) else {
                continue;
            };
            if ends[1] == 0 {
                continue;
            }
            kicks += 1;
            most = most.max(ends[1]);
            let text = || format!("{:x?} {:x?}, {ends:x?} bytes", kick.states, kick.corners);
            for (area, &end) in ends.iter().enumerate().filter(|(_, &end)| end != 0) {
                let mut short = [MUCH; 5];
                short[area] = end - 1;
                assert!(kick.checked(&engine, short).is_err(), "{}", text());
                read[area] += 1;
            }
            if kick.is_exact() {
                exact += 1;
                let is_source_exact = kick.is_source_exact(&engine);
                let enough = ends.map(|end| if end == 0 { MUCH } else { end });
                // Sources are not read before their start, even where all of that is clipped away.
                let origin = kick.state(DE_SRC_ORIGIN);
                let is_before = origin & 0x8000_8000 != 0 || ends.iter().any(|&end| end >= MUCH);
                if (ends[2] == 0 || is_source_exact) && !is_before {
                    assert_eq!(kick.checked(&engine, enough), Ok(()), "{}", text());
                }
            }
        }
        assert!(exact > KICKS / 8 && most > 1 << 20, "{exact} {most:#x}");
        assert!(read.iter().all(|&kicks| kicks > KICKS / 100), "{read:?}");
    }
}

/// The second pipe's target, the sources of both pipes, and tile status.
const SECOND: u32 = 0x8000_0000;
const SOURCES: [u32; 2] = [0xc000_0000, 0xe000_0000];
const STATUS: u32 = 0x1000_0000;

/// A resolve: its states, on a core with this number of pixel pipes and this tile status.
struct Window {
    states: Vec<(u32, u32)>,
    pipes: u32,
    format: StatusFormat,
}

impl Window {
    fn random(random: &mut Random) -> Self {
        let pipes = 1 + random.below(2);
        let formats = [0, 4, 5, 6];
        let config = random.pick(&formats) << 8
            | random.pick(&formats)
            | random.pick(&[0, 1 << 7])
            | random.pick(&[0, 1 << 14])
            | random.pick(&[0, 1 << 5, 1 << 6, 3 << 5])
            | if pipes == 1 {
                random.pick(&[0, 1 << 30])
            } else {
                0
            };
        let stride = |random: &mut Random| {
            let stride = match random.below(4) {
                0 => 0x3_ff00 - 16 * random.below(8),
                1 => random.below(0x1000) * 16,
                _ => 16 * random.below(64),
            };
            stride | random.pick(&[0, 0, 1 << 31, 1 << 30, 3 << 30])
        };
        let size = |random: &mut Random| 4 + 4 * random.below(24);
        let offset = |random: &mut Random| random.below(3) * 16 | random.below(20) * 4 << 16;
        let states = vec![
            (RS_CONFIG, config),
            (RS_SOURCE_ADDR, SOURCES[0]),
            (RS_SOURCE_STRIDE, stride(random)),
            (RS_DEST_ADDR, BASE),
            (RS_DEST_STRIDE, stride(random)),
            (
                RS_WINDOW_SIZE,
                size(random) << 16 | 16 * (1 + random.below(6)),
            ),
            (RS_CLEAR_CONTROL, random.pick(&[0, 0, 0x1_ffff, 0x2_ffff])),
            (RS_PIPE_SOURCE_ADDR, SOURCES[0]),
            (RS_PIPE_SOURCE_ADDR + 4, SOURCES[1]),
            (RS_PIPE_DEST_ADDR, BASE),
            (RS_PIPE_DEST_ADDR + 4, SECOND),
            (RS_PIPE_OFFSET, offset(random)),
            (RS_PIPE_OFFSET + 4, offset(random)),
            (RS_DITHER, u32::MAX),
            (RS_DITHER + 4, u32::MAX),
            (RS_SINGLE_BUFFER, random.pick(&[0, 0, 1])),
            (TS_MEM_CONFIG, random.pick(&[0, 1, 2, 3])),
            (TS_COLOR_STATUS_BASE, STATUS),
            (
                TS_COLOR_STATUS_BASE + 4,
                SOURCES[0].wrapping_add(random.pick(&[0, 0, 64, 0x1000, 0u32.wrapping_sub(0x340)])),
            ),
        ];
        let format = StatusFormat {
            bits: random.pick(&[2, 4]),
            is_translated: random.below(2) == 0,
            memory_base: 0,
        };
        Self {
            states,
            pipes,
            format,
        }
    }

    fn state(&self, wanted: u32) -> u32 {
        let mut states = self.states.iter();
        states.find(|state| state.0 == wanted).unwrap().1
    }

    /// The reach of the engine in sources, targets and tile status; `None`: the model does not run the resolve.
    fn touched(&self) -> Option<[u64; 3]> {
        let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
        for &(address, value) in &self.states {
            words[((address - RS_FIRST) / 4) as usize] = value;
        }
        let states = StateBlock::new(RS_FIRST, words);
        let engine = Resolve::new(states, self.pipes as usize, self.format);
        engine.check().ok()?;
        let mut areas = Areas::default();
        engine.run(&mut areas);
        let end = |areas: &[Reach]| areas.iter().map(|area| area.end).max();
        Some([end(&areas.0[3..])?, end(&areas.0[1..3])?, areas.0[0].end])
    }

    /// The result of the driver's check with these numbers of bytes at each source, at each target and of tile status.
    fn checked(&self, bytes: [u64; 3]) -> Result<(), Problem> {
        let mut target = DrawState::new(bounds::Engines {
            pixel_pipes: self.pipes,
            has_2_bits_per_tile: self.format.bits == 2,
            has_supertiles: true,
            ..Default::default()
        });
        let plain = [RS_DEST_ADDR, RS_SOURCE_ADDR];
        let is_told = |state: u32| self.pipes == 1 || !plain.contains(&state);
        for &(address, value) in self.states.iter().filter(|state| is_told(state.0)) {
            target.load(address / 4, value, false, true);
        }
        target.resolve(0, |state, address| {
            let bytes = match address {
                _ if state == TS_COLOR_STATUS_BASE / 4 => bytes[2],
                BASE..0xc000_0000 => bytes[1],
                _ => bytes[0],
            };
            u32::try_from((u64::from(address) + bytes).checked_sub(1)?).ok()
        })
    }

    /// The most bytes by which the driver may overestimate a surface; `None`: any number.
    fn slack(&self, stride: u32, tiled: u32) -> Option<u64> {
        let is_tiled = self.state(RS_CONFIG) & tiled != 0;
        let is_split = self.pipes > 1 && self.state(stride) & 1 << 30 != 0;
        // The driver counts the second pipe even with a single buffer.
        let is_known = self.pipes == 1 || self.state(RS_SINGLE_BUFFER) == 0;
        // The driver refuses sources before the surface of tile status.
        let has_status = self.state(TS_MEM_CONFIG) & TS_COLOR_FAST_CLEAR != 0;
        let is_before = self.state(TS_COLOR_STATUS_BASE + 4) > SOURCES[0];
        // It also refuses supertiles that are not tiles.
        let sides = [(RS_SOURCE_STRIDE, 1 << 7), (RS_DEST_STRIDE, 1 << 14)];
        let is_odd = |(stride, tiled): (u32, u32)| {
            self.state(stride) & 1 << 31 != 0 && self.state(RS_CONFIG) & tiled == 0
        };
        let is_known = is_known && !(has_status && is_before) && !sides.into_iter().any(is_odd);
        match (is_split, is_tiled) {
            _ if !is_known => None,
            (true, false) => None,
            // The driver extends the last row of a half to the end of its blocks of 16 pixels.
            (true, true) => Some(1024),
            // The driver counts whole tiles.
            (false, true) => Some(63),
            (false, false) => Some(0),
        }
    }
}

/// Where the memory of tile status begins, both targets, and both sources.
const STARTS: [u32; 5] = [STATUS, BASE, SECOND, SOURCES[0], SOURCES[1]];

#[derive(Default)]
struct Areas([Reach; 5]);

impl Areas {
    fn touch(&mut self, address: u32, bytes: usize) {
        // Before all of them is past everything.
        let place = STARTS
            .iter()
            .rposition(|start| *start <= address)
            .unwrap_or(4);
        let end = u64::from(address.wrapping_sub(STARTS[place])) + bytes as u64;
        self.0[place].end = self.0[place].end.max(end);
    }
}

impl Bus for Areas {
    fn read(&mut self, _port: Port, address: u32, data: &mut [u8]) {
        // A fill reads its target, which does not count as a source.
        if !(BASE..SOURCES[0]).contains(&address) {
            self.touch(address, data.len());
        }
        data.fill(0);
    }
    fn write(&mut self, _port: Port, address: u32, data: &[u8]) {
        self.touch(address, data.len());
    }
    fn read_physical(&mut self, address: u32, data: &mut [u8]) {
        self.touch(address, data.len());
        data.fill(0);
    }
    fn write_physical(&mut self, _address: u32, _data: &[u8]) {
        panic!("the resolve engine writes to a physical address");
    }
    fn aborted(&self) -> bool {
        false
    }
}

/// With one byte less than it accesses, each resolve is refused. With enough bytes, none is refused.
#[test]
fn the_driver_knows_how_far_each_resolve_reaches() {
    let mut random = Random(0x5ca1e);
    let (mut kicks, mut exact, mut copies, mut with_status, mut most) = (0, 0, 0, 0, 0);
    while kicks < KICKS / 4 {
        let window = Window::random(&mut random);
        let Some([source, target, status]) = window.touched().filter(|ends| ends[1] != 0) else {
            continue;
        };
        kicks += 1;
        copies += u64::from(source != 0);
        with_status += u64::from(status != 0);
        most = most.max(target);
        let text = || {
            format!(
                "{:x?}, {source:#x}, {target:#x} and {status:#x} bytes",
                window.states
            )
        };
        for (end, short) in [
            (source, [source.saturating_sub(1), MUCH, MUCH]),
            (target, [MUCH, target - 1, MUCH]),
            (status, [MUCH, MUCH, status.saturating_sub(1)]),
        ] {
            assert!(end == 0 || window.checked(short).is_err(), "{}", text());
        }
        let (of_source, of_target) = (
            window.slack(RS_SOURCE_STRIDE, 1 << 7),
            window.slack(RS_DEST_STRIDE, 1 << 14),
        );
        if let (Some(of_source), Some(of_target)) = (of_source, of_target) {
            exact += 1;
            // One byte has the status of several tiles, and the last of them may lie beyond the bytes read.
            let ends = [
                source + of_source,
                target + of_target,
                status + 1 + of_source / 64,
            ];
            assert_eq!(window.checked(ends), Ok(()), "{}", text());
        }
    }
    assert!(
        exact > kicks / 3 && copies > kicks / 4 && with_status > kicks / 8 && most > 1 << 20,
        "{exact} {copies} {with_status} {most:#x}"
    );
}

/// With one byte less than it accesses, each kick of the YUV tiler is refused. With enough bytes, none is refused.
#[test]
fn the_driver_knows_how_far_the_tiler_reaches() {
    // The planes of Y, U and V, and the target.
    const BASES: [u32; 4] = [STATUS, SOURCES[0], SOURCES[1], BASE];
    let mut random = Random(0x7113);
    let (mut kicks, mut exact, mut most) = (0, 0, 0);
    while kicks < KICKS / 10 {
        let size = |random: &mut Random| 2 * (1 + random.below(40));
        let (width, height) = (size(&mut random), size(&mut random));
        let mut states = vec![
            (YUV_CONFIG, 1 | random.below(2) << 4 | random.below(2) << 8),
            (YUV_WINDOW_SIZE, height << 16 | width),
        ];
        for (address, base) in (YUV_Y_BASE..).step_by(8).zip(BASES) {
            let stride = match random.below(4) {
                0 => 0x3_fffc - 4 * random.below(8),
                _ => 4 * random.below(64),
            };
            states.extend([(address, base), (address + 4, stride)]);
        }
        states.extend([(RS_SOURCE_STRIDE, 0), (RS_CLEAR_CONTROL, 0)]);
        let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
        for &(address, value) in &states {
            words[((address - RS_FIRST) / 4) as usize] = value;
        }
        let engine = Tiler::new(StateBlock::new(RS_FIRST, words));
        engine.check().unwrap();
        let mut areas = Areas::default();
        engine.run(&mut areas);
        let touched = [0, 3, 4, 1].map(|area| areas.0[area].end);
        kicks += 1;
        most = most.max(touched[3]);

        let checked = |bytes: [u64; 4]| {
            let mut target = DrawState::new(bounds::Engines {
                pixel_pipes: 1,
                has_yuv_tiler: true,
                ..Default::default()
            });
            for &(address, value) in &states {
                target.load(address / 4, value, false, true);
            }
            target.resolve(0, |state, address| {
                let bytes = bytes[(state - YUV_Y_BASE / 4) as usize / 2];
                u32::try_from((u64::from(address) + bytes).checked_sub(1)?).ok()
            })
        };
        let text = || format!("{states:x?}, {touched:x?} bytes");
        for (surface, &end) in touched.iter().enumerate().filter(|(_, &end)| end != 0) {
            let mut short = [MUCH; 4];
            short[surface] = end - 1;
            assert!(checked(short).is_err(), "{}", text());
        }
        // If the target is narrower than the window, rows of tiles and rows of pixels both matter.
        let is_wide = states[9].1 >= 2 * width;
        if width % 16 == 0 && height % 4 == 0 && is_wide {
            exact += 1;
            let mut enough = touched;
            enough[3] += 3 * u64::from(states[9].1);
            assert_eq!(checked(enough), Ok(()), "{}", text());
        }
    }
    assert!(exact > kicks / 64 && most > 1 << 20, "{exact} {most:#x}");
}
