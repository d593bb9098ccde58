// SPDX-License-Identifier: GPL-2.0-only
//! Hand-written tests of each kind of draw. Random scenes are in `scenes`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;

use super::*;
use crate::draw::Traffic;
use crate::draw::PAGE;
use crate::gpu::lock;

/// One megabyte of memory from GPU address 0, without translation.
pub(crate) struct FlatBus {
    pub(crate) bytes: Vec<u8>,
    /// Traffic of each pixel pipe, and traffic not assigned to a pipe yet.
    pub(crate) pipes: [Traffic; 2],
    since: Traffic,
    pub(crate) steps: AtomicU64,
    /// Data that parts have written and [`Bus::commit`] has not seen.
    put: Mutex<Vec<(u64, Vec<u8>)>>,
    /// Number of parts of split draws.
    pub(crate) parts: usize,
}

impl FlatBus {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0xee; 1 << 20],
            pipes: Default::default(),
            since: Traffic::default(),
            steps: AtomicU64::new(0),
            put: Mutex::default(),
            parts: 0,
        }
    }

    pub(crate) fn word(&self, address: usize) -> u32 {
        u32::from_le_bytes(self.bytes[address..address + 4].try_into().unwrap())
    }
}

impl Bus for FlatBus {
    fn read(&mut self, _port: Port, address: u32, data: &mut [u8]) {
        self.since.read += data.len() as u64;
        data.copy_from_slice(&self.bytes[address as usize..][..data.len()]);
    }
    fn write(&mut self, _port: Port, address: u32, data: &[u8]) {
        self.since.written += data.len() as u64;
        self.bytes[address as usize..][..data.len()].copy_from_slice(data);
    }
    fn read_physical(&mut self, address: u32, data: &mut [u8]) {
        self.read(Port::Texture, address, data);
    }
    fn write_physical(&mut self, address: u32, data: &[u8]) {
        self.write(Port::Texture, address, data);
    }
    fn progress(&mut self) {
        self.goes_on();
    }
    fn aborted(&self) -> bool {
        false
    }
    fn end_pipe(&mut self, pipe: usize, pixels: u64) {
        self.since.pixels = pixels;
        self.pipes[pipe] += std::mem::take(&mut self.since);
    }
    fn peek(&self) -> Option<&dyn Peek> {
        Some(self)
    }
    fn commit(&mut self, part: &Done) {
        self.parts += 1;
        for (address, data) in lock(&self.put).drain(..) {
            self.bytes[address as usize..][..data.len()].copy_from_slice(&data);
        }
        for (pipe, traffic) in part.pipes.iter().enumerate() {
            self.pipes[pipe] += *traffic;
        }
    }
}

impl Peek for FlatBus {
    fn page(&self, _port: Port, address: u32, _write: bool) -> Option<u64> {
        ((address as usize) < self.bytes.len()).then_some(address.into())
    }
    fn copy(&self, physical: u64, bytes: &mut [u8; PAGE]) -> bool {
        bytes.copy_from_slice(&self.bytes[physical as usize..][..PAGE]);
        true
    }
    fn put(&self, physical: u64, bytes: &[u8]) {
        lock(&self.put).push((physical, bytes.to_vec()));
    }
    fn goes_on(&self) {
        self.steps.fetch_add(1, Relaxed);
    }
    fn is_over(&self) -> bool {
        false
    }
}

const PE10: Engine = Engine {
    pe20: false,
    line_inclusive: false,
    features: Features {
        a8_target: false,
        yuv420: true,
        scaler: true,
        dither: false,
        mirror: false,
        directfb: false,
        yuv_blit: false,
    },
};
/// An engine with all features.
const PE20: Engine = Engine {
    pe20: true,
    line_inclusive: false,
    features: Features {
        a8_target: true,
        yuv420: true,
        scaler: true,
        dither: true,
        mirror: true,
        directfb: true,
        yuv_blit: true,
    },
};
const TARGET: u32 = 0x1000;
const SOURCE: u32 = 0x8000;

/// States after a reset, except those in `list`.
fn states(list: &[(u32, u32)]) -> StateBlock {
    let mut block = StateBlock::new(DE_FIRST, vec![0; ((DE_END - DE_FIRST) / 4) as usize]);
    let defaults = [
        (DE_PE_DITHER_LOW, u32::MAX),
        (DE_PE_DITHER_HIGH, u32::MAX),
        (DE_DEST_ADDRESS, TARGET),
        (DE_DEST_STRIDE, 64),
        (DE_SRC_ADDRESS, SOURCE),
        (DE_SRC_STRIDE, 64),
        (DE_CLIP_BOTTOM_RIGHT, (16 << 16) | 16),
        (DE_ROP, (3 << 20) | 0xcccc),
    ];
    for (address, value) in defaults.iter().chain(list) {
        block.parts[0].1[((address - DE_FIRST) / 4) as usize] = *value;
    }
    block
}

fn rectangle(left: i32, top: i32, right: i32, bottom: i32) -> Rectangle {
    Rectangle {
        left,
        top,
        right,
        bottom,
    }
}

fn pixel(bus: &FlatBus, x: usize, y: usize) -> u32 {
    bus.word(TARGET as usize + y * 64 + x * 4)
}

#[test]
fn pe20_clear_converts_the_colour_and_keeps_to_the_clip() {
    let mut bus = FlatBus::new();
    let states = states(&[
        (DE_DEST_CONFIG, 6),
        (DE_CLEAR_PIXEL_VALUE32, 0xff11_2233),
        (DE_CLIP_TOP_LEFT, (2 << 16) | 1),
        (DE_CLIP_BOTTOM_RIGHT, (5 << 16) | 4),
    ]);
    assert_eq!(PE20.check(&states), Ok(()));
    assert_eq!(
        PE20.draw(&states, &[], rectangle(0, 0, 16, 16), &mut bus),
        9
    );
    for y in 0..16 {
        for x in 0..16 {
            let inside = (1..4).contains(&x) && (2..5).contains(&y);
            let expected = if inside { 0xff11_2233 } else { 0xeeee_eeee };
            assert_eq!(pixel(&bus, x, y), expected, "{x},{y}");
        }
    }
    assert_eq!(bus.word(TARGET as usize - 4), 0xeeee_eeee);
}

#[test]
fn pe20_clear_of_565() {
    let mut bus = FlatBus::new();
    let states = states(&[(DE_DEST_CONFIG, 4), (DE_CLEAR_PIXEL_VALUE32, 0xffff_0000)]);
    PE20.draw(&states, &[], rectangle(1, 0, 3, 1), &mut bus);
    assert_eq!(
        &bus.bytes[0x1000..0x1008],
        [0xee, 0xee, 0, 0xf8, 0, 0xf8, 0xee, 0xee]
    );
}

#[test]
fn pe10_clear_uses_the_byte_pattern_and_mask() {
    let mut bus = FlatBus::new();
    let list = [
        (DE_DEST_CONFIG, 6),
        (DE_CLEAR_PIXEL_VALUE_LOW, 0x4433_2211),
        (DE_CLEAR_PIXEL_VALUE_HIGH, 0x8877_6655),
        (DE_CLEAR_BYTE_MASK, 0xff),
        (DE_CLEAR_PIXEL_VALUE32, 0xdead_beef),
    ];
    PE10.draw(&states(&list), &[], rectangle(1, 0, 3, 1), &mut bus);
    assert_eq!(pixel(&bus, 1, 0), 0x8877_6655);
    assert_eq!(pixel(&bus, 2, 0), 0x4433_2211);
    let masked: Vec<_> = list
        .into_iter()
        .chain([(DE_CLEAR_BYTE_MASK, 0x21)])
        .collect();
    PE10.draw(&states(&masked), &[], rectangle(0, 1, 2, 2), &mut bus);
    assert_eq!(pixel(&bus, 0, 1), 0xeeee_ee11);
    assert_eq!(pixel(&bus, 1, 1), 0xeeee_66ee);
}

fn fill_source(bus: &mut FlatBus) {
    for index in 0..256u32 {
        let at = SOURCE as usize + 4 * index as usize;
        bus.bytes[at..at + 4].copy_from_slice(&(0xff00_0000 | index).to_le_bytes());
    }
}

#[test]
fn blit_with_absolute_origin_counts_from_the_unclipped_corner() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let states = states(&[
        (DE_DEST_CONFIG, (2 << 12) | 6),
        (DE_SRC_CONFIG, 6 << 24),
        (DE_SRC_ORIGIN, (3 << 16) | 2),
        (DE_CLIP_TOP_LEFT, (5 << 16) | 5),
    ]);
    assert_eq!(PE20.check(&states), Ok(()));
    PE20.draw(&states, &[], rectangle(4, 4, 8, 8), &mut bus);
    assert_eq!(pixel(&bus, 4, 4), 0xeeee_eeee);
    // Target (5, 5) is one pixel right of and one below the corner: source (3, 4).
    assert_eq!(pixel(&bus, 5, 5), 0xff00_0000 | (4 * 16 + 3));
    assert_eq!(pixel(&bus, 7, 7), 0xff00_0000 | (6 * 16 + 5));
}

#[test]
fn blit_with_relative_origin_adds_to_the_target() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let states = states(&[
        (DE_DEST_CONFIG, (2 << 12) | 6),
        (DE_SRC_CONFIG, (1 << 6) | 6),
        (DE_SRC_ORIGIN, 0xffff_0001),
    ]);
    PE10.draw(&states, &[], rectangle(2, 3, 3, 4), &mut bus);
    assert_eq!(pixel(&bus, 2, 3), 0xff00_0000 | (2 * 16 + 3));
}

#[test]
fn blit_converts_formats() {
    let mut bus = FlatBus::new();
    bus.bytes[SOURCE as usize..][..2].copy_from_slice(&0xf800u16.to_le_bytes());
    let states = states(&[(DE_DEST_CONFIG, (2 << 12) | 6), (DE_SRC_CONFIG, 4 << 24)]);
    PE20.draw(&states, &[], rectangle(0, 0, 1, 1), &mut bus);
    assert_eq!(pixel(&bus, 0, 0), 0xffff_0000);
}

#[test]
fn every_rop_matches_its_truth_table() {
    // The low byte has one bit of each combination.
    let (pattern, source, destination) = (0b1111_0000, 0b1100_1100, 0b1010_1010);
    for code in 0..=255u8 {
        assert_eq!(
            Rop(code).apply(pattern, source, destination) & 0xff,
            u32::from(code)
        );
    }
    assert!(!Rop(0xcc).uses_destination() && Rop(0xcc).uses_source() && !Rop(0xcc).uses_pattern());
    assert!(Rop(0xaa).uses_destination() && !Rop(0xaa).uses_source());
    assert!(Rop(0xf0).uses_pattern() && !Rop(0xf0).uses_source());
    assert!(!Rop(0).uses_destination() && !Rop(0xff).uses_source() && Rop(0x55).uses_destination());
}

#[test]
fn rops_reach_memory() {
    for (rop, expected) in [
        (0xccu32, 0xff00_0000u32),
        (0xaa, 0xeeee_eeee),
        (0xf0, 0x1234_5678),
        (0x55, 0x1111_1111),
        (0x33, 0x00ff_ffff),
        (0x00, 0),
        (0xff, 0xffff_ffff),
        (0x66, 0xeeee_eeee ^ 0xff00_0000),
    ] {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let states = states(&[
            (DE_DEST_CONFIG, (2 << 12) | 6),
            (DE_SRC_CONFIG, 6 << 24),
            (DE_PATTERN_FG_COLOR, 0x1234_5678),
            (DE_ROP, (2 << 20) | rop),
        ]);
        assert_eq!(PE20.check(&states), Ok(()));
        PE20.draw(&states, &[], rectangle(0, 0, 1, 1), &mut bus);
        assert_eq!(pixel(&bus, 0, 0), expected, "{rop:#x}");
    }
}

#[test]
fn overlapping_rows_go_in_ascending_order() {
    let mut bus = FlatBus::new();
    for index in 0..8u8 {
        bus.bytes[TARGET as usize + 4 * usize::from(index)] = index;
    }
    let states = states(&[
        (DE_DEST_CONFIG, (2 << 12) | 6),
        (DE_SRC_CONFIG, 6 << 24),
        (DE_SRC_ADDRESS, TARGET),
    ]);
    PE20.draw(&states, &[], rectangle(1, 0, 5, 1), &mut bus);
    let low: Vec<_> = (0..6).map(|x| pixel(&bus, x, 0) & 0xff).collect();
    assert_eq!(low, [0, 0, 0, 0, 0, 5]);
}

#[test]
fn lines_leave_out_their_last_pixel_unless_told() {
    let draw = |engine: Engine, line| {
        let mut bus = FlatBus::new();
        let states = states(&[
            (DE_DEST_CONFIG, (1 << 12) | 6),
            (DE_SRC_COLOR_FG, 0xff00_ff00),
        ]);
        assert_eq!(engine.check(&states), Ok(()));
        engine.draw(&states, &[], line, &mut bus);
        let mut points = Vec::new();
        for y in 0..16 {
            for x in 0..16 {
                if pixel(&bus, x, y) == 0xff00_ff00 {
                    points.push((x, y));
                }
            }
        }
        points
    };
    assert_eq!(draw(PE20, rectangle(1, 2, 4, 2)), [(1, 2), (2, 2), (3, 2)]);
    assert_eq!(draw(PE20, rectangle(3, 4, 0, 1)), [(1, 2), (2, 3), (3, 4)]);
    assert_eq!(draw(PE20, rectangle(5, 0, 5, 2)), [(5, 0), (5, 1)]);
    assert_eq!(draw(PE20, rectangle(7, 7, 7, 7)), []);
    let inclusive = Engine {
        line_inclusive: true,
        ..PE20
    };
    assert_eq!(
        draw(inclusive, rectangle(0, 0, 4, 2)),
        [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]
    );
    // Pixels outside the clip rectangle are not drawn.
    assert_eq!(draw(PE20, rectangle(-2, 15, 2, 15)), [(0, 15), (1, 15)]);
}

#[test]
fn what_is_not_modelled_is_refused() {
    let kind = |list: &[(u32, u32)]| PE20.check(&states(list)).unwrap_err().0;
    let blit = (2 << 12) | 6;
    let source = (DE_SRC_CONFIG, 6 << 24);
    for list in [
        vec![(DE_DEST_CONFIG, 6 | (1 << 8))],
        vec![(DE_DEST_CONFIG, 6 | (5 << 12))],
        vec![(DE_DEST_CONFIG, 6 | (8 << 12))],
        vec![(DE_DEST_CONFIG, 9)],
        vec![(DE_DEST_CONFIG, 6), (DE_CONFIG, 0x11)],
        vec![(DE_DEST_CONFIG, 4), (DE_PE_DITHER_LOW, 0)],
        vec![(DE_DEST_CONFIG, 6 | (1 << 12)), (DE_ALPHA_CONTROL, 1)],
        vec![(DE_DEST_CONFIG, blit), (DE_SRC_CONFIG, 19 << 24)],
        vec![
            (DE_DEST_CONFIG, blit),
            (DE_SRC_CONFIG, (6 << 24) | (1 << 7)),
        ],
        vec![
            (DE_DEST_CONFIG, blit),
            source,
            (DE_ALPHA_CONTROL, 1),
            (DE_ALPHA_MODES, 4 << 24),
        ],
        vec![(DE_DEST_CONFIG, blit), source, (DE_PE_TRANSPARENCY, 0x200)],
        vec![
            (DE_DEST_CONFIG, blit),
            source,
            (DE_ROT_ANGLE, 4),
            (DE_SRC_ROTATION_CONFIG, 1 << 16),
        ],
        vec![(DE_DEST_CONFIG, blit), source, (DE_COLOR_MULTIPLY_MODES, 1)],
        vec![(DE_DEST_CONFIG, blit), source, (DE_ROP, 0xcc)],
    ] {
        assert_eq!(kind(&list), ViolationKind::Unsupported, "{list:x?}");
    }
    assert_eq!(
        kind(&[(DE_DEST_CONFIG, 6), (DE_DEST_ADDRESS, 2)]),
        ViolationKind::BadDraw
    );
    assert_eq!(
        kind(&[(DE_DEST_CONFIG, (15 << 12) | 6)]),
        ViolationKind::BadDraw
    );
    // PE20 introduced A8. A clear does not use the source.
    assert!(PE10.check(&states(&[(DE_DEST_CONFIG, 16)])).is_err());
    assert!(PE20
        .check(&states(&[(DE_DEST_CONFIG, 16), (DE_SRC_CONFIG, u32::MAX)]))
        .is_ok());
}

#[test]
fn what_a_core_lacks_is_a_breach() {
    let kind = |engine: &Engine, list: &[(u32, u32)]| engine.check(&states(list)).unwrap_err().0;
    let blit = (DE_DEST_CONFIG, (2 << 12) | 6);
    let without = |change: fn(&mut Features)| {
        let mut engine = PE20;
        change(&mut engine.features);
        engine
    };
    let source = (DE_SRC_CONFIG, 6 << 24);
    for (engine, list) in [
        (
            without(|features| features.a8_target = false),
            vec![(DE_DEST_CONFIG, 16)],
        ),
        (
            without(|features| features.mirror = false),
            vec![blit, source, (DE_ROT_ANGLE, 1 << 12)],
        ),
        (
            without(|features| features.yuv_blit = false),
            vec![blit, (DE_SRC_CONFIG, 7 << 24)],
        ),
        (
            without(|features| features.yuv420 = false),
            vec![blit, (DE_SRC_CONFIG, 15 << 24)],
        ),
        (
            without(|features| features.directfb = false),
            vec![
                blit,
                source,
                (DE_ALPHA_CONTROL, 1),
                (DE_ALPHA_MODES, 1 << 27),
            ],
        ),
        (PE10, vec![blit, (DE_SRC_CONFIG, 6), (DE_ROT_ANGLE, 4)]),
        (
            PE10,
            vec![blit, (DE_SRC_CONFIG, 6), (DE_PE_TRANSPARENCY, 1)],
        ),
        (PE10, vec![blit, (DE_SRC_CONFIG, 6 | (1 << 20))]),
    ] {
        assert_eq!(kind(&engine, &list), ViolationKind::BadDraw, "{list:x?}");
        if engine.pe20 {
            assert_eq!(PE20.check(&states(&list)), Ok(()), "{list:x?}");
        }
    }
    let filter = |engine: Engine| engine.check_filter(&states(&[blit, source])).unwrap_err();
    assert!(filter(without(|features| features.scaler = false))
        .1
        .contains("NO_SCALER"));
    assert!(filter(PE20).1.contains("empty"));
}

#[test]
fn data_from_the_stream_must_be_there() {
    let states = states(&[
        (DE_DEST_CONFIG, (2 << 12) | 6),
        (DE_SRC_CONFIG, (10 << 24) | (1 << 8)),
    ]);
    let check = |list: &[Rectangle], data| PE20.check_rectangles(&states, list, data);
    let area = rectangle(0, 0, 9, 5);
    assert_eq!(PE20.check(&states), Ok(()));
    assert_eq!(check(&[area], 4), Ok(()));
    assert_eq!(check(&[area], 3).unwrap_err().0, ViolationKind::BadDraw);
    assert_eq!(check(&[area; 2], 8).unwrap_err().0, ViolationKind::BadDraw);
}

#[test]
fn a_turned_surface_is_not_left() {
    let states = states(&[
        (DE_DEST_CONFIG, (2 << 12) | 6),
        (DE_SRC_CONFIG, 6 << 24),
        (DE_SRC_ROTATION_CONFIG, (1 << 16) | 8),
    ]);
    let check = |area| PE20.check_rectangles(&states, &[area], 0);
    assert_eq!(check(rectangle(0, 0, 10, 8)), Ok(()));
    assert_eq!(
        check(rectangle(0, 0, 10, 9)).unwrap_err().0,
        ViolationKind::BadDraw
    );
}

/// Memory at all addresses that keeps no data.
struct Nothing;

impl Bus for Nothing {
    fn read(&mut self, _port: Port, _address: u32, data: &mut [u8]) {
        data.fill(0x5a);
    }
    fn write(&mut self, _port: Port, _address: u32, _data: &[u8]) {}
    fn read_physical(&mut self, _address: u32, _data: &mut [u8]) {}
    fn write_physical(&mut self, _address: u32, _data: &[u8]) {}
    fn aborted(&self) -> bool {
        false
    }
}

#[test]
fn the_largest_numbers_are_drawn_with() {
    let corner = (0x7ffe << 16) | 0x7ffe;
    for format in [6, 7, 8, 9, 10, 15, 17] {
        for more in [
            vec![],
            vec![(DE_ROT_ANGLE, 5)],
            vec![(DE_CONFIG, 0x31)],
            vec![(DE_ROT_ANGLE, 6 | (4 << 3))],
        ] {
            let list = [
                (DE_DEST_CONFIG, (4 << 12) | 6),
                (DE_SRC_CONFIG, format << 24),
                (DE_SRC_ORIGIN, 0x7fff_7fff),
                (DE_STRETCH_FACTOR_LOW, u32::MAX),
                (DE_STRETCH_FACTOR_HIGH, u32::MAX),
                (DE_SRC_STRIDE, 0x3_fffc),
                (DE_DEST_STRIDE, 0x3_fffc),
                (DE_CLIP_TOP_LEFT, corner),
                (DE_CLIP_BOTTOM_RIGHT, 0x7fff_7fff),
            ];
            let list: Vec<_> = list.into_iter().chain(more).collect();
            let states = states(&list);
            let area = rectangle(-0x8000, -0x8000, 0x7fff, 0x7fff);
            // The result does not matter here.
            let _ = PE20.check_rectangles(&states, &[area], 0);
            if PE20.check(&states).is_ok() {
                assert_eq!(PE20.draw(&states, &[], area, &mut Nothing), 1, "{list:x?}");
            }
        }
    }
    for (start, window) in [(0, 0x1_ffff), (1, 0xffff_0001)] {
        let states = states(&[
            (DE_DEST_CONFIG, 6),
            (DE_SRC_CONFIG, 6 << 24),
            (DE_STRETCH_FACTOR_LOW, u32::MAX),
            (DE_STRETCH_FACTOR_HIGH, u32::MAX),
            (DE_VR_CONFIG, start),
            (DE_VR_SOURCE_IMAGE_HIGH, 0x0010_0010),
            (DE_VR_SOURCE_ORIGIN_LOW, 0x7fff_ffff),
            (DE_VR_SOURCE_ORIGIN_HIGH, 0x7fff_ffff),
            (DE_VR_TARGET_WINDOW_HIGH, window),
        ]);
        assert_eq!(PE20.check_filter(&states), Ok(()));
        assert_eq!(PE20.filter(&states, &mut Nothing), 0xffff);
    }
}
