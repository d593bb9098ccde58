// SPDX-License-Identifier: GPL-2.0-only
//! Resolves on plain memory.

use super::*;
use crate::engine2d::tests::FlatBus;
use crate::gpu::Random;
use crate::surface::tests::pixel_at;
use crate::surface::tests::surface;
use crate::tile_status::TILE;
use galcore_scenes_2d::resolve_formats;
use galcore_scenes_2d::resolve_formats::FORMATS;

const SOURCE: u32 = 0x1_0000;
const TARGET: u32 = 0x4_0000;

fn resolve(pipes: usize, list: &[(u32, u32)]) -> Resolve {
    let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
    let defaults = [
        (RS_CONFIG, (6 << 8) | 6),
        (RS_SOURCE_ADDR, SOURCE),
        (RS_DEST_ADDR, TARGET),
        (RS_SOURCE_STRIDE, 256),
        (RS_DEST_STRIDE, 256),
        (RS_WINDOW_SIZE, (8 << 16) | 32),
        (RS_DITHER, u32::MAX),
        (RS_DITHER + 4, u32::MAX),
    ];
    for (address, value) in defaults.iter().chain(list) {
        words[((address - RS_FIRST) / 4) as usize] = *value;
    }
    of_states(words, pipes, 2)
}

fn of_states(words: Vec<u32>, pipes: usize, bits: u32) -> Resolve {
    let format = StatusFormat {
        bits,
        is_translated: false,
        memory_base: 0,
    };
    Resolve::new(StateBlock::new(RS_FIRST, words), pipes, format)
}

fn fill_source(bus: &mut FlatBus) {
    for index in 0..0x4000u32 {
        let at = (SOURCE + 4 * index) as usize;
        bus.bytes[at..at + 4].copy_from_slice(&(0xff00_0000 | index).to_le_bytes());
    }
}

#[test]
fn copy_tiles_and_back() {
    for (flag, layout, bits) in [
        (false, Layout::Tiled, 0),
        (true, Layout::Supertiled, 1 << 31),
    ] {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let window = (RS_WINDOW_SIZE, (64 << 16) | 64);
        let there = resolve(
            1,
            &[
                (RS_CONFIG, (6 << 8) | 6 | (1 << 14)),
                (RS_DEST_STRIDE, 1024 | bits),
                window,
            ],
        );
        assert_eq!(there.check(), Ok(()));
        assert_eq!(there.run(&mut bus), 64 * 64);
        let tiled = surface(layout, 1024);
        assert_eq!(
            bus.word((TARGET + tiled.address(5, 6)) as usize),
            0xff00_0000 | (6 * 64 + 5),
            "{flag}"
        );
        let back = resolve(
            1,
            &[
                (RS_CONFIG, (6 << 8) | 6 | (1 << 7)),
                (RS_SOURCE_ADDR, TARGET),
                (RS_SOURCE_STRIDE, 1024 | bits),
                (RS_DEST_ADDR, 0x8_0000),
                window,
            ],
        );
        back.run(&mut bus);
        assert_eq!(
            bus.bytes[0x8_0000..0x8_4000],
            bus.bytes[SOURCE as usize..][..0x4000]
        );
    }
}

#[test]
fn copy_converts_formats_and_stays_in_the_window() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let resolve = resolve(1, &[(RS_CONFIG, (4 << 8) | 6), (RS_DEST_STRIDE, 128)]);
    assert_eq!(resolve.run(&mut bus), 32 * 8);
    let pixel = |x: usize, y: usize| {
        let at = TARGET as usize + y * 128 + 2 * x;
        u16::from_le_bytes([bus.bytes[at], bus.bytes[at + 1]])
    };
    // Of 0xff0001df and 0xff000180: blue is 27 and 16 of 31; green is too small.
    assert_eq!(pixel(31, 7), 0x001b);
    assert_eq!(pixel(0, 6), 0x0010);
    assert_eq!(pixel(32, 0), 0xeeee);
    assert_eq!(pixel(0, 8), 0xeeee);
    bus.bytes[SOURCE as usize..][..4].copy_from_slice(&0x80ab_cdef_u32.to_le_bytes());
    resolve.run(&mut bus);
    let at = TARGET as usize;
    assert_eq!(bus.bytes[at..at + 2], 0xae7d_u16.to_le_bytes());
}

#[test]
fn fill_keeps_masked_bytes() {
    let mut bus = FlatBus::new();
    resolve(
        1,
        &[
            (RS_CLEAR_CONTROL, (1 << 16) | 0xffff),
            (RS_FILL_VALUE, 0x4433_2211),
        ],
    )
    .run(&mut bus);
    assert_eq!(bus.word(TARGET as usize + 7 * 256 + 31 * 4), 0x4433_2211);
    assert_eq!(bus.word(TARGET as usize + 32 * 4), 0xeeee_eeee);
    resolve(
        1,
        &[
            (RS_CLEAR_CONTROL, (1 << 16) | 0x5),
            (RS_FILL_VALUE, 0xaabb_ccdd),
        ],
    )
    .run(&mut bus);
    assert_eq!(bus.word(TARGET as usize), 0x44bb_22dd);
}

#[test]
fn fill_with_four_values_takes_turns() {
    let mut bus = FlatBus::new();
    let values: Vec<_> = (0..4)
        .map(|index| (RS_FILL_VALUE + 4 * index, index))
        .collect();
    let mut list = vec![
        (RS_CLEAR_CONTROL, (2 << 16) | 0xffff),
        (RS_CONFIG, (6 << 8) | (1 << 14)),
        (RS_DEST_STRIDE, 1024),
    ];
    list.extend(values);
    resolve(1, &list).run(&mut bus);
    let tiled = surface(Layout::Tiled, 1024);
    for x in [0, 4, 8, 12, 16, 31] {
        assert_eq!(bus.word((TARGET + tiled.address(x, 2)) as usize), x / 4 % 4);
    }
}

#[test]
fn two_pipes_share_the_window() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let linear = resolve(
        2,
        &[
            (RS_WINDOW_SIZE, (4 << 16) | 16),
            (RS_PIPE_SOURCE_ADDR, SOURCE),
            (RS_PIPE_DEST_ADDR, TARGET),
            (RS_PIPE_DEST_ADDR + 4, 0xdead_0000),
            (RS_PIPE_OFFSET + 4, 4 << 16),
        ],
    );
    assert_eq!(linear.check(), Ok(()));
    linear.run(&mut bus);
    assert_eq!(bus.word(TARGET as usize + 7 * 256), 0xff00_0000 | (7 * 64));
    assert_eq!(bus.word(TARGET as usize + 8 * 256), 0xeeee_eeee);
}

/// The halves of a split surface hold alternate blocks of 8 x 4 pixels, and each half has half of the rows.
#[test]
fn a_split_target_is_a_checkerboard() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let list = [
        (RS_CONFIG, (6 << 8) | 6 | (1 << 14)),
        (RS_DEST_STRIDE, 1024 | (1 << 30)),
        (RS_PIPE_DEST_ADDR, 0x8_0000),
        (RS_PIPE_DEST_ADDR + 4, 0x9_0000),
        // Both pipes process the whole window: the height is not a multiple of 8.
        (RS_WINDOW_SIZE, (12 << 16) | 64),
    ];
    resolve(2, &list).run(&mut bus);
    let pixel = |x: u32, y: u32| 0xff00_0000 | (64 * y + x);
    assert_eq!(bus.word(0x8_0000), pixel(0, 0));
    assert_eq!(bus.word(0x8_0000 + 2 * 64), pixel(8, 4));
    assert_eq!(bus.word(0x9_0000), pixel(8, 0));
    assert_eq!(bus.word(0x9_0000 + 2 * 64), pixel(0, 4));
    // The third row of blocks is in the second row of each half, whose other blocks stay unchanged.
    assert_eq!(bus.word(0x9_0000 + 1024), pixel(8, 8));
    assert_eq!(bus.word(0x9_0000 + 1024 + 2 * 64), 0xeeee_eeee);
    assert_eq!(bus.word(0x9_0000 + 2 * 1024), 0xeeee_eeee);
}

#[test]
fn cleared_tiles_read_as_the_clear_value() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    bus.bytes[0x100..0x200].fill(0);
    // Tile 1 of 64 bytes (linear pixels 16 to 31) is cleared.
    bus.bytes[0x100] = 0b0100;
    let list = [
        (TS_MEM_CONFIG, 1 << 1),
        (TS_COLOR_STATUS_BASE, 0x100),
        (TS_COLOR_SURFACE_BASE, SOURCE),
        (TS_COLOR_CLEAR_VALUE, 0x1234_5678),
    ];
    resolve(1, &list).run(&mut bus);
    assert_eq!(bus.word(TARGET as usize + 15 * 4), 0xff00_000f);
    assert_eq!(bus.word(TARGET as usize + 16 * 4), 0x1234_5678);
    assert_eq!(bus.word(TARGET as usize + 256), 0xff00_0040);
}

#[test]
fn windows_that_hang_silicon_are_found() {
    for window in [(8 << 16) | 8, (6 << 16) | 16, 0, 8 << 16] {
        assert_eq!(
            resolve(1, &[(RS_WINDOW_SIZE, window)])
                .check()
                .unwrap_err()
                .0,
            ViolationKind::ResolveWindow
        );
    }
    for (pipes, config) in [
        (2, (6 << 8) | 6 | (1 << 30)),
        (1, (6 << 8) | 9),
        (1, (9 << 8) | 6),
    ] {
        let wrong = resolve(pipes, &[(RS_CONFIG, config)]).check().unwrap_err();
        assert_eq!(wrong.0, ViolationKind::Unsupported);
    }
}

#[test]
fn the_clients_warm_up_passes() {
    let warm_up = resolve(
        1,
        &[
            (RS_CONFIG, 6 | (1 << 7) | (4 << 8) | (1 << 14)),
            (RS_SOURCE_STRIDE, 0x400),
            (RS_DEST_ADDR, SOURCE),
            (RS_DEST_STRIDE, 0x400),
            (RS_WINDOW_SIZE, (4 << 16) | 16),
        ],
    );
    assert_eq!(warm_up.check(), Ok(()));
    warm_up.run(&mut FlatBus::new());
}

/// The model's formats in the order of [`FORMATS`], which is independent of the model.
const OF_MODEL: [Format; FORMATS.len()] = [
    Format::A4R4G4B4,
    Format::A1R5G5B5,
    Format::R5G6B5,
    Format::A8R8G8B8,
];

/// A surface and the size of its memory.
struct Area {
    format: &'static resolve_formats::Format,
    surface: Surface,
    width: u32,
    height: u32,
}

impl Area {
    /// A surface of a random layout and size at `base`.
    fn random(random: &mut Random, base: u32, can_split: bool) -> Self {
        let layouts = [Layout::Linear, Layout::Tiled, Layout::Supertiled];
        let layout = layouts[random.below(3) as usize];
        let is_split = can_split && layout != Layout::Linear && random.below(2) == 0;
        let parts = if is_split { 2 } else { 1 };
        let (width, height) = match layout {
            Layout::Supertiled => (64 * (1 + random.below(2)), 64 * parts),
            _ => (
                16 * (1 + random.below(8)),
                4 * parts * (1 + random.below(12)),
            ),
        };
        let number = random.below(FORMATS.len() as u32) as usize;
        let format = &FORMATS[number];
        let rows = if layout == Layout::Linear { 1 } else { 4 };
        let half = width * height * format.bytes / 2;
        Self {
            format,
            surface: Surface {
                bases: [base, base + half],
                stride: width * format.bytes * rows,
                bytes: OF_MODEL[number].bytes(),
                layout,
                is_split,
            },
            width,
            height,
        }
    }

    /// The position of each pixel, calculated from memory offsets.
    fn places(&self) -> Vec<((u32, u32), usize)> {
        let bytes = self.format.bytes;
        let parts = if self.surface.is_split { 2 } else { 1 };
        let pixels = self.width * self.height / parts;
        let place = |part: u32, index| {
            let base = self.surface.bases[part as usize];
            let pixel = pixel_at(&self.surface, self.width, part, index);
            (pixel, (base + index * bytes) as usize)
        };
        (0..parts)
            .flat_map(|part| (0..pixels).map(move |index| place(part, index)))
            .collect()
    }

    /// The channels of the picture in `memory`, row by row.
    fn picture(&self, memory: &[u8]) -> Vec<[u32; 4]> {
        let mut picture = vec![[0; 4]; (self.width * self.height) as usize];
        for ((x, y), at) in self.places() {
            let pixel = self.format.load(&memory[at..]);
            picture[(y * self.width + x) as usize] = self.format.widen(pixel);
        }
        picture
    }

    fn stride(&self) -> u32 {
        let surface = &self.surface;
        let super_tiled = u32::from(surface.layout == Layout::Supertiled) << 31;
        surface.stride | super_tiled | u32::from(surface.is_split) << 30
    }
}

const STATUS: u32 = 0x400;
const CLEAR_VALUE: u32 = 0x8765_4321;

/// A random resolve, and the expected memory afterwards.
fn random_case(random: &mut Random, bus: &mut FlatBus) -> (Resolve, Vec<u8>) {
    let pipes = 1 + random.below(2) as usize;
    let from = Area::random(random, SOURCE, pipes == 2);
    let to = Area::random(random, TARGET, pipes == 2);
    for at in SOURCE..SOURCE + from.width * from.height * 4 {
        bus.bytes[at as usize] = random.below(256) as u8;
    }
    let samples = (1 + random.below(2), 1 + random.below(2));
    let most = |from: u32, to: u32, step: u32| from.min(to) / step;
    let widths = most(from.width, to.width * samples.0, 16);
    let heights = most(from.height, to.height * samples.1, 4);
    let width = 16 * (1 + random.below(widths));
    let height = 4 * (1 + random.below(heights));

    let flips = random.below(2) == 1;
    let dither = match random.below(2) {
        0 => [u32::MAX; 2],
        _ => [(); 2].map(|()| random.below(u32::MAX)),
    };

    // The pipes share the window if possible.
    let mut states = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
    let mut set = |address: u32, value: u32| states[((address - RS_FIRST) / 4) as usize] = value;
    if pipes == 2 && height % 8 == 0 && !flips {
        set(RS_WINDOW_SIZE, height / 2 << 16 | width);
        set(RS_PIPE_OFFSET + 4, height / 2 << 16);
    } else {
        set(RS_WINDOW_SIZE, height << 16 | width);
        set(RS_SINGLE_BUFFER, u32::from(flips));
    }
    set(RS_DITHER, dither[0]);
    set(RS_DITHER + 4, dither[1]);
    let tiled = |area: &Area, bit: u32| u32::from(area.surface.layout != Layout::Linear) << bit;
    set(
        RS_CONFIG,
        to.format.code << 8
            | from.format.code
            | tiled(&from, 7)
            | tiled(&to, 14)
            | (samples.0 - 1) << 5
            | (samples.1 - 1) << 6
            | u32::from(flips) << 30,
    );
    set(RS_SOURCE_STRIDE, from.stride());
    set(RS_DEST_STRIDE, to.stride());
    let (source, target) = match pipes {
        1 => (RS_SOURCE_ADDR, RS_DEST_ADDR),
        _ => (RS_PIPE_SOURCE_ADDR, RS_PIPE_DEST_ADDR),
    };
    set(source, from.surface.bases[0]);
    set(target, to.surface.bases[0]);
    if from.surface.is_split {
        set(source + 4, from.surface.bases[1]);
    }
    if to.surface.is_split {
        set(target + 4, to.surface.bases[1]);
    }

    // The data that the resolve sees: with tile status, the status's surface may begin before the source.
    let bits = 2 + 2 * random.below(2);
    let mut seen = bus.bytes.clone();
    if random.below(2) == 0 {
        let surface = SOURCE - TILE * random.below(8);
        set(TS_MEM_CONFIG, TS_COLOR_FAST_CLEAR);
        set(TS_COLOR_STATUS_BASE, STATUS);
        set(TS_COLOR_SURFACE_BASE, surface);
        set(TS_COLOR_CLEAR_VALUE, CLEAR_VALUE);
        bus.bytes[STATUS as usize..][..0x400].fill(0);
        for tile in (0..1024).filter(|_| random.below(2) == 0) {
            bus.bytes[(STATUS + tile * bits / 8) as usize] |= 1 << (tile * bits % 8);
            for at in 0..TILE {
                let at = (surface + tile * TILE + at) as usize;
                seen[at] = CLEAR_VALUE.to_le_bytes()[at % 4];
            }
        }
    }

    let picture = from.picture(&seen);
    let mut wanted = bus.bytes.clone();
    for ((x, y), at) in to.places() {
        if x >= width / samples.0 || y >= height / samples.1 {
            continue;
        }
        let mut sums = [0; 4];
        for (column, row) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            if column < samples.0 && row < samples.1 {
                let row = y * samples.1 + row;
                let row = if flips { height - 1 - row } else { row };
                let at = row * from.width + x * samples.0 + column;
                for (sum, value) in sums.iter_mut().zip(picture[at as usize]) {
                    *sum += value;
                }
            }
        }
        let count = samples.0 * samples.1;
        let mean = sums.map(|sum| (f64::from(sum) / f64::from(count)).round() as u32);
        let nibble = dither[(y % 4 / 2) as usize] >> (y % 2 * 16 + x % 4 * 4) & 0xf;
        let pixel = match (from.format.bytes, to.format.bytes) {
            (4, 2) if dither != [u32::MAX; 2] => {
                to.format.dither(mean, (f64::from(nibble) + 0.5) / 16.0)
            }
            _ => to.format.narrow(mean),
        };
        to.format.store(pixel, &mut wanted[at..]);
    }
    (of_states(states, pipes, bits), wanted)
}

#[test]
fn random_resolves_do_what_pictures_say() {
    let mut random = Random::new(21);
    for round in 0..400 {
        let mut bus = FlatBus::new();
        let (resolve, wanted) = random_case(&mut random, &mut bus);
        assert_eq!(resolve.check(), Ok(()), "round {round}: {resolve:?}");
        resolve.run(&mut bus);
        let wrong = bus
            .bytes
            .iter()
            .zip(&wanted)
            .position(|(is, want)| is != want);
        assert_eq!(wrong, None, "round {round}: {resolve:?}");
    }
}

#[test]
fn downsampling_may_take_the_first_pixel() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let list = [
        (RS_CONFIG, (6 << 8) | 6 | (3 << 5)),
        (RS_SINGLE_BUFFER, 1 << 1),
    ];
    resolve(1, &list).run(&mut bus);
    for x in 0..16 {
        assert_eq!(
            bus.word(TARGET as usize + 4 * x),
            0xff00_0000 | 2 * x as u32
        );
        let second = 0xff00_0000 | (128 + 2 * x as u32);
        assert_eq!(bus.word(TARGET as usize + 256 + 4 * x), second);
    }
    assert_eq!(bus.word(TARGET as usize + 64), 0xeeee_eeee);
    assert_eq!(bus.word(TARGET as usize + 4 * 256), 0xeeee_eeee);
}

/// With one buffer for both pipes, the first pipe does the whole window.
#[test]
fn a_single_buffer_is_resolved_once() {
    let mut bus = FlatBus::new();
    fill_source(&mut bus);
    let list = [
        (RS_PIPE_SOURCE_ADDR, SOURCE),
        (RS_PIPE_DEST_ADDR, TARGET),
        (RS_SINGLE_BUFFER, 1),
    ];
    assert_eq!(resolve(2, &list).run(&mut bus), 32 * 8);
    assert_eq!(bus.word(TARGET as usize + 7 * 256), 0xff00_0000 | (7 * 64));
}
