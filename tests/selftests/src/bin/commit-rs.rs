// SPDX-License-Identifier: GPL-2.0-only
//! Pixels of the resolve engine: fills, copies, tiling there and back; and, where a core has both engines, changing
//! between them.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device;
use galcore_client::draw;
use galcore_client::draw::Engine;
use galcore_client::render;
use galcore_client::scene::Op;
use galcore_client::scene::Scene;
use galcore_client::state;
use galcore_client::stream::point;
use galcore_client::stream::Pipe;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_scenes_2d::resolve_formats::Format;
use galcore_scenes_2d::resolve_formats::FORMATS;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::neighbors;
use galcore_selftests::neighbors::Answers;
use galcore_selftests::neighbors::Bench;
use galcore_selftests::neighbors::BYTES;
use galcore_selftests::neighbors::OURS;
use galcore_selftests::system;
use gpu_control::Board;

const ALL: Rect = Rect::new(0, 0, WIDTH, HEIGHT);
const BLANK: u32 = 0xff00_0009;

/// Runs a stream in the 3D pipe, whatever engine the client would take.
fn run(paint: &mut Paint, stream: &mut Stream) -> Result<()> {
    stream.flush(Pipe::Pipe3d);
    Ok(paint.client.run(Pipe::Pipe3d, stream)?)
}

/// A copy of all of `from` to `to` with tiling switched on for one of them.
fn retile(stream: &mut Stream, pipes: u32, from: (&Surface, bool), to: (&Surface, bool)) {
    let tile = |tiled: bool, bit: u32| if tiled { 1 << bit } else { 0 };
    let stride = |(surface, tiled): (&Surface, bool)| surface.stride * if tiled { 4 } else { 1 };
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(
            state::RS_CONFIG,
            6 | 6 << 8 | tile(from.1, 7) | tile(to.1, 14),
        )
        .state(state::RS_SOURCE_STRIDE, stride(from))
        .state(state::RS_DEST_STRIDE, stride(to))
        .state(state::RS_CLEAR_CONTROL, 0)
        .state(state::RS_EXTRA_CONFIG, 0)
        .states(state::RS_DITHER, &[u32::MAX; 2]);
    let (source, dest) = (from.0.location.address, to.0.location.address);
    window(stream, pipes, ([source; 2], [dest; 2]), (WIDTH, HEIGHT));
    stream.state(state::RS_KICKER, state::RS_KICK);
}

fn random_rect(random: &mut Random) -> Rect {
    let (x, y) = (random.below(WIDTH / 16), random.below(HEIGHT / 8));
    let (width, height) = (
        1 + random.below(WIDTH / 16 - x),
        1 + random.below(HEIGHT / 8 - y),
    );
    Rect::new(x * 16, y * 8, width * 16, height * 8)
}

/// The window that is made smaller, in pixels of the source: each pixel pipe does half of it.
const WINDOW: (u32, u32) = (64, 32);

fn bytes_of(surface: &Surface) -> Vec<u8> {
    let words = surface.memory.len() / 4;
    let words = (0..words).map(|word| surface.memory.read(4 * word));
    words.flat_map(u32::to_le_bytes).collect()
}

/// A resolve that makes one pixel of so many across and down, from one format to another.
fn downsample(
    paint: &mut Paint,
    pipes: u32,
    source: &Surface,
    (from, to): (&Format, &Format),
    (across, down): (u32, u32),
) -> Result<()> {
    paint.surface.set_all(BLANK);
    let strides = (WINDOW.0 * from.bytes, WINDOW.0 * to.bytes);
    let (read, drawn) = (source.location.address, paint.surface.location.address);
    let config = from.code | to.code << 8 | (across - 1) << 5 | (down - 1) << 6;
    let mut stream = Stream::new();
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(state::RS_CONFIG, config)
        .state(state::RS_SOURCE_STRIDE, strides.0)
        .state(state::RS_DEST_STRIDE, strides.1)
        .state(state::RS_CLEAR_CONTROL, 0)
        .state(state::RS_EXTRA_CONFIG, 0)
        .states(state::RS_DITHER, &[u32::MAX; 2]);
    window(&mut stream, pipes, ([read; 2], [drawn; 2]), WINDOW);
    stream.state(state::RS_KICKER, state::RS_KICK);
    run(paint, &mut stream)?;

    let pixels = bytes_of(source);
    let mut wanted = BLANK.to_le_bytes().repeat(paint.surface.memory.len() / 4);
    for y in 0..WINDOW.1 / down {
        for x in 0..WINDOW.0 / across {
            let mut sums = [0; 4];
            for (column, row) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                if column < across && row < down {
                    let at = (y * down + row) * strides.0;
                    let pixel =
                        from.load(&pixels[(at + (x * across + column) * from.bytes) as usize..]);
                    for (sum, value) in sums.iter_mut().zip(from.widen(pixel)) {
                        *sum += value;
                    }
                }
            }
            // The mean, halves rounded up.
            let count = across * down;
            let mean = sums.map(|sum| (2 * sum + count) / (2 * count));
            let at = (y * strides.1 + x * to.bytes) as usize;
            to.store(to.narrow(mean), &mut wanted[at..]);
        }
    }
    let found = bytes_of(&paint.surface);
    let wrong = found.iter().zip(&wanted).position(|(is, want)| is != want);
    let what = format!(
        "{across} x {down}, {} to {}: first wrong byte",
        from.name, to.name
    );
    same(&what, wrong, None)
}

/// Where the pixel pipes read and write, and what part each of them does.
fn window(stream: &mut Stream, pipes: u32, (source, dest): ([u32; 2], [u32; 2]), size: (u32, u32)) {
    if pipes == 1 {
        stream
            .state(state::RS_SOURCE_ADDR, source[0])
            .state(state::RS_DEST_ADDR, dest[0])
            .state(state::RS_WINDOW_SIZE, point(size.0, size.1));
    } else {
        stream
            .states(state::RS_PIPE_SOURCE_ADDR, &source)
            .states(state::RS_PIPE_DEST_ADDR, &dest)
            .states(state::RS_PIPE_OFFSET, &[0, point(0, size.1 / 2)])
            .state(state::RS_WINDOW_SIZE, point(size.0, size.1 / 2));
    }
}

const TS_FLUSH_CACHE: u32 = 0x1650;
const TS_MEM_CONFIG: u32 = 0x1654;
const TS_COLOR_STATUS_BASE: u32 = 0x1658;
const COLOR_FAST_CLEAR: u32 = 1 << 1;
/// Fills so many tiles, where a core has it.
const RS_KICKER_INPLACE: u32 = 0x16b0;
/// Memory controller 2.0, in the first word of minor features: tile status is named by GPU address.
const MINOR0_MC20: u32 = 1 << 22;
/// Two bits are the status of a tile, else four; in the same word.
const MINOR0_2BITPERTILE: u32 = 1 << 10;
/// Bytes that a status is of.
const TILE: u32 = 64;
/// Super-tiled, and in two halves, one for each pixel pipe.
const SUPERTILED: u32 = 1 << 31;
const SPLIT: u32 = 1 << 30;

/// What fills the tiles that the tile status says are cleared.
#[derive(Clone, Copy, PartialEq)]
enum InPlace {
    /// A resolve from a surface to itself.
    Resolve,
    /// The kicker of its own, for so many tiles.
    Kicker(u32),
}

/// How this core keeps the status of tiles: bits for each, and what addresses of it count from.
fn status_format(paint: &Paint) -> (u32, u32) {
    let minor = paint.client.identity().chip_minor_features;
    let bits = if minor & MINOR0_2BITPERTILE == 0 {
        4
    } else {
        2
    };
    let base = match minor & MINOR0_MC20 {
        0 => paint.client.base_address(),
        _ => 0,
    };
    (bits, base)
}

/// The value of cleared tiles.
const CLEAR: u32 = 0x8765_4321;

/// Fills what the tile status at `status` says is cleared.
fn fill_in_place(paint: &Paint, pipes: u32, status: u32, how: InPlace) -> Stream {
    let (_, base) = status_format(paint);
    let surface = paint.surface.location.address;
    let second = surface + WIDTH * HEIGHT / 2 * 4;
    let tiled = paint.surface.stride * 4 | SUPERTILED;
    let (stride, halves) = match (pipes, how) {
        // All pixel pipes of a core with the kicker draw into one surface.
        (1, _) | (_, InPlace::Kicker(_)) => (tiled, [surface; 2]),
        _ => (tiled | SPLIT, [surface, second]),
    };
    let mut stream = Stream::new();
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(TS_FLUSH_CACHE, 1)
        .states(
            TS_COLOR_STATUS_BASE,
            &[base + status, base + surface, CLEAR],
        )
        .state(TS_MEM_CONFIG, COLOR_FAST_CLEAR)
        .state(state::RS_CONFIG, 6 | 6 << 8 | 1 << 7 | 1 << 14)
        .state(state::RS_SOURCE_STRIDE, stride)
        .state(state::RS_DEST_STRIDE, stride)
        .state(state::RS_CLEAR_CONTROL, 0)
        .state(state::RS_EXTRA_CONFIG, 0)
        .states(state::RS_DITHER, &[u32::MAX; 2]);
    window(&mut stream, pipes, (halves, halves), (WIDTH, HEIGHT));
    match how {
        InPlace::Resolve => stream.state(state::RS_KICKER, state::RS_KICK),
        InPlace::Kicker(count) => stream.state(RS_KICKER_INPLACE, count),
    };
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(TS_FLUSH_CACHE, 1)
        .state(TS_MEM_CONFIG, 0);
    stream
}

/// What the tile status says is cleared is filled, and what was drawn stays: word by word of the surface's memory.
fn in_place(paint: &mut Paint, pipes: u32, seed: u32, how: InPlace) -> Result<()> {
    let mut random = Random::new(0x1919_0000 + seed);
    let (bits, _) = status_format(paint);
    let tiles = WIDTH * HEIGHT * 4 / TILE;
    let status = paint.client.device().allocate_contiguous(4096)?;
    let cleared: Vec<bool> = (0..tiles).map(|_| random.below(2) == 0).collect();
    for word in 0..tiles * bits / 32 {
        let each = 32 / bits;
        let first = (word * each) as usize;
        let told = cleared[first..first + each as usize].iter().rev();
        let told = told.fold(0, |all, cleared| all << bits | u32::from(*cleared));
        status.memory.write(4 * word as usize, told);
    }
    let words = WIDTH * HEIGHT;
    for word in 0..words {
        paint
            .surface
            .memory
            .write(4 * word as usize, 0x5000_0000 | word);
    }
    let mut stream = fill_in_place(paint, pipes, status.address, how);
    let filled = match how {
        InPlace::Resolve => tiles,
        InPlace::Kicker(count) => count,
    };
    run(paint, &mut stream)?;
    for word in 0..words {
        let tile = word * 4 / TILE;
        let wanted = if tile < filled && cleared[tile as usize] {
            CLEAR
        } else {
            0x5000_0000 | word
        };
        let found = paint.surface.memory.read(4 * word as usize);
        ensure!(
            found == wanted,
            "word {word}, of tile {tile}, is {found:#010x}, not {wanted:#010x}"
        );
    }
    Ok(paint.client.device().free_contiguous(&status)?)
}

/// A fill of a target of `stride` with the windows of all pipes, `size` together, the last moved down by `rows`.
fn fill(stream: &mut Stream, pipes: u32, target: u32, stride: u32, size: (u32, u32), rows: u32) {
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(state::RS_CONFIG, 6 | 6 << 8)
        .state(state::RS_DEST_STRIDE, stride)
        .state(state::RS_CLEAR_CONTROL, 0x1_ffff)
        .state(state::RS_FILL_VALUE, 0x1234_5678);
    window(stream, pipes, ([target; 2], [target; 2]), size);
    if pipes > 1 {
        let second = point(0, size.1 / 2 + rows);
        stream.states(state::RS_PIPE_OFFSET, &[0, second]);
    }
    stream.state(state::RS_KICKER, state::RS_KICK);
}

/// What leads past the end of the target's memory is refused, and nothing is drawn; up to the end all is.
fn bounds(paint: &mut Paint, pipes: u32, has_kicker: bool) -> Result<()> {
    let stride = paint.surface.stride;
    let target = paint.surface.location.address;
    let refuse = |paint: &mut Paint, what: &str, stream: &mut Stream| -> Result<()> {
        stream.flush(Pipe::Pipe3d);
        let result = paint.client.run(Pipe::Pipe3d, stream);
        refused(what, result, Status::INVALID_DATA)
    };
    let bytes = paint.surface.memory.len() as u32;
    for (what, at, stride, size, rows) in [
        ("8 rows", target, stride, (WIDTH, bytes / stride + 8), 0),
        (
            "a longer stride",
            target,
            stride + bytes / (HEIGHT - 8),
            (WIDTH, HEIGHT),
            0,
        ),
        ("the longest stride", target, 0x3_fffc, (WIDTH, HEIGHT), 0),
        (
            "a later start",
            target + bytes - 64,
            stride,
            (WIDTH, HEIGHT),
            0,
        ),
        (
            "the last pipe's window",
            target,
            stride,
            (WIDTH, HEIGHT),
            bytes / stride,
        ),
    ] {
        if rows != 0 && pipes == 1 {
            continue;
        }
        paint.surface.set_all(BLANK);
        let mut stream = Stream::new();
        fill(&mut stream, pipes, at, stride, size, rows);
        refuse(paint, what, &mut stream)?;
        paint.expect(|_, _| BLANK)?;
    }
    // What says nothing alone is no other layout: new supertiles, and supertiles without tiles.
    for bit in [27, 31] {
        let mut stream = Stream::new();
        fill(
            &mut stream,
            pipes,
            target,
            bytes / 4 | 1 << bit,
            (16, 16),
            0,
        );
        refuse(paint, "a bit of a stride", &mut stream)?;
        paint.expect(|_, _| BLANK)?;
    }
    if has_kicker {
        let mut stream = Stream::new();
        let tiles = bytes / TILE + 1;
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .states(TS_COLOR_STATUS_BASE, &[target, target])
            .state(RS_KICKER_INPLACE, tiles);
        refuse(paint, "a tile", &mut stream)?;
    }
    let mut stream = Stream::new();
    fill(&mut stream, pipes, target, stride, (WIDTH, HEIGHT), 0);
    run(paint, &mut stream)?;
    paint.expect(|_, _| 0x1234_5678)?;
    // Sources: up to the last row, and past it.
    let source = paint.client.create_surface(WIDTH, HEIGHT)?;
    source.set_all(0x2468_ace0);
    let copy = |read: u32| {
        let mut stream = Stream::new();
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .state(state::RS_CONFIG, 6 | 6 << 8)
            .state(state::RS_SOURCE_STRIDE, read)
            .state(state::RS_DEST_STRIDE, stride)
            .state(state::RS_CLEAR_CONTROL, 0)
            .state(state::RS_EXTRA_CONFIG, 0)
            .states(state::RS_DITHER, &[u32::MAX; 2]);
        let both = ([source.location.address; 2], [target; 2]);
        window(&mut stream, pipes, both, (WIDTH, HEIGHT));
        stream.state(state::RS_KICKER, state::RS_KICK);
        stream
    };
    for read in [source.stride + bytes / (HEIGHT - 8), 0x3_fffc] {
        refuse(paint, "a longer stride of the source", &mut copy(read))?;
    }
    paint.expect(|_, _| 0x1234_5678)?;
    run(paint, &mut copy(source.stride))?;
    paint.expect(|_, _| 0x2468_ace0)?;
    Ok(paint.client.release_surface(source)?)
}

/// The status of the tiles that a resolve reads, or a fill in place, lies in its memory up to the last byte.
fn status_bounds(paint: &mut Paint, pipes: u32, has_kicker: bool) -> Result<()> {
    let (bits, _) = status_format(paint);
    let bytes = WIDTH * HEIGHT * 4 / TILE * bits / 8;
    let status = paint.client.device().allocate_contiguous(4096)?;
    let end = status.address + status.bytes as u32;
    status.memory.fill(0);
    let all = InPlace::Kicker(WIDTH * HEIGHT * 4 / TILE);
    for how in [Some(InPlace::Resolve), has_kicker.then_some(all)] {
        let Some(how) = how else {
            continue;
        };
        paint.surface.set_all(BLANK);
        for late in [4, bytes] {
            let stream = fill_in_place(paint, pipes, end - bytes + late, how);
            let result = paint.client.run(Pipe::Pipe3d, &stream);
            refused("a status", result, Status::INVALID_DATA)?;
        }
        let mut stream = fill_in_place(paint, pipes, end - bytes, how);
        run(paint, &mut stream)?;
        paint.expect(|_, _| BLANK)?;
        status.memory.fill(u32::MAX / ((1 << bits) - 1));
        let mut stream = fill_in_place(paint, pipes, end - bytes, how);
        run(paint, &mut stream)?;
        paint.expect(|_, _| CLEAR)?;
        status.memory.fill(0);
    }
    paint.client.device().free_contiguous(&status)?;
    Ok(())
}

/// Without a context, a kick is lent what the process has loaded before, also after another process's draws.
fn lent(paint: &mut Paint, pipes: u32) -> Result<()> {
    let (target, stride) = (paint.surface.location.address, paint.surface.stride);
    let run = |paint: &Paint, stream: &mut Stream| -> device::Result<()> {
        stream.flush(Pipe::Pipe3d);
        let device = paint.client.device();
        let buffer = device.allocate_contiguous(4096)?;
        let record = place(&buffer, 0, Pipe::Pipe3d, stream);
        let done = device.commit(&record, 0, &mut Queue::new());
        device.stall()?;
        device.free_contiguous(&buffer)?;
        done
    };
    // An earlier test may have left tile status on, which the copy below would read.
    let mut stream = Stream::new();
    stream.state(TS_MEM_CONFIG, 0);
    fill(&mut stream, pipes, target, stride, (WIDTH, 64), 0);
    run(paint, &mut stream)?;
    for value in [0x1111_0000, 0x2222_0000] {
        let other = system::again(&["--windows", "1"])?.output()?;
        ensure!(other.status.success(), "{other:?}");
        paint.surface.set_all(BLANK);
        let mut stream = Stream::new();
        stream
            .state(state::RS_FILL_VALUE, value)
            .state(state::RS_KICKER, state::RS_KICK);
        run(paint, &mut stream)?;
        paint.expect(|_, y| if y < 64 { value } else { BLANK })?;
    }
    // What comes to nothing leaves nothing.
    let other = paint.client.create_surface(WIDTH, HEIGHT)?;
    other.set_all(BLANK);
    paint.surface.set_all(BLANK);
    let mut stream = Stream::new();
    window(
        &mut stream,
        pipes,
        ([other.location.address; 2], [other.location.address; 2]),
        (16, 8),
    );
    stream.raw(&[0x1000_0000, 0]);
    refused("END", run(paint, &mut stream), Status::INVALID_DATA)?;
    let mut kick = Stream::new();
    kick.state(state::RS_FILL_VALUE, 0x3333_0000)
        .state(state::RS_KICKER, state::RS_KICK);
    run(paint, &mut kick)?;
    paint.expect(|_, y| if y < 64 { 0x3333_0000 } else { BLANK })?;
    expect_pixels(&other, |_, _| BLANK)?;
    // A copy, and its kick alone.
    other.set_all(0x4444_0000);
    let from = other.location.address;
    let mut stream = Stream::new();
    stream
        .state(state::RS_CONFIG, 6 | 6 << 8)
        .state(state::RS_SOURCE_STRIDE, other.stride)
        .state(state::RS_DEST_STRIDE, stride)
        .state(state::RS_CLEAR_CONTROL, 0)
        .states(state::RS_DITHER, &[u32::MAX; 2]);
    window(&mut stream, pipes, ([from; 2], [target; 2]), (WIDTH, 64));
    run(paint, &mut stream)?;
    let mut kick = Stream::new();
    kick.state(state::RS_KICKER, state::RS_KICK);
    run(paint, &mut kick)?;
    paint.expect(|_, y| if y < 64 { 0x4444_0000 } else { BLANK })?;
    Ok(paint.client.release_surface(other)?)
}

const YUV_CONFIG: u32 = 0x1678;
const YUV_WINDOW_SIZE: u32 = 0x167c;
/// Addresses of the planes and of the target; the stride of each comes next.
const YUV_BASES: [u32; 4] = [0x1680, 0x1688, 0x1690, 0x1698];
const NV12: u32 = 1 << 4;
const SWAPPED: u32 = 1 << 8;

/// A kick of the YUV tiler.
#[derive(Clone, Copy)]
struct Tiling {
    config: u32,
    size: (u32, u32),
    /// Address and stride of the planes and of the target; `None`: not loaded.
    surfaces: [Option<(u32, u32)>; 4],
}

impl Tiling {
    /// As Mesa does it. `is_left_on`: without what switches it off again.
    fn stream(&self, is_left_on: bool) -> Stream {
        let mut stream = Stream::new();
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .state(state::RS_SOURCE_STRIDE, 0)
            .state(state::RS_CLEAR_CONTROL, 0)
            .state(YUV_CONFIG, self.config | 1)
            .state(YUV_WINDOW_SIZE, point(self.size.0, self.size.1));
        for (state, surface) in YUV_BASES.into_iter().zip(self.surfaces) {
            if let Some((address, stride)) = surface {
                stream.states(state, &[address, stride]);
            }
        }
        stream.state(state::RS_KICKER, state::RS_KICK);
        if !is_left_on {
            stream.state(YUV_CONFIG, 0);
        }
        stream
    }
}

/// The YUV tiler packs planes into tiles of YUY2, and goes no further than their memory.
fn tile_yuv(paint: &mut Paint, has_kicker: bool) -> Result<()> {
    const SIZE: (u32, u32) = (64, 32);
    const PAGE: u32 = 4096;
    let planes = paint.client.device().allocate_contiguous(8 * 4096)?;
    let bytes = planes.bytes as u32;
    let mut random = Random::new(0x7113);
    for word in 0..bytes / 4 {
        planes
            .memory
            .write(4 * word as usize, random.colour() ^ word << 24);
    }
    let byte = |at: u32| planes.memory.read(at as usize & !3).to_le_bytes()[at as usize & 3];
    let target = paint.surface.location.address;
    let room = paint.surface.memory.len() as u32;
    let at = |offset: u32, stride: u32| Some((planes.address + offset, stride));
    let whole = Tiling {
        config: NV12,
        size: SIZE,
        surfaces: [at(0, 96), at(2 * PAGE, 80), None, Some((target, 160))],
    };
    let three = Tiling {
        config: 0,
        surfaces: [
            at(0, 96),
            at(2 * PAGE, 80),
            at(3 * PAGE, 48),
            whole.surfaces[3],
        ],
        ..whole
    };
    let (nv12_swapped, swapped) = (NV12 | SWAPPED, SWAPPED);
    for tiling in [
        whole,
        three,
        Tiling {
            config: nv12_swapped,
            ..whole
        },
        Tiling {
            config: swapped,
            ..three
        },
    ] {
        paint.surface.set_all(BLANK);
        run(paint, &mut tiling.stream(false))?;
        let mut wanted = BLANK.to_le_bytes().repeat(room as usize / 4);
        for (x, y) in (0..SIZE.1).flat_map(|y| (0..SIZE.0).map(move |x| (x, y))) {
            let (u, v) = match tiling.config & NV12 {
                0 => (2 * PAGE + y / 2 * 80 + x / 2, 3 * PAGE + y / 2 * 48 + x / 2),
                _ => (
                    2 * PAGE + y / 2 * 80 + (x & !1),
                    2 * PAGE + y / 2 * 80 + (x | 1),
                ),
            };
            let is_v = (x & 1 != 0) != (tiling.config & SWAPPED != 0);
            let color = byte(if is_v { v } else { u });
            // A row of 4 x 4 tiles is as long as four rows of pixels.
            let to = y / 4 * 4 * 160 + x / 4 * 32 + (y % 4 * 4 + x % 4) * 2;
            wanted[to as usize..to as usize + 2].copy_from_slice(&[byte(y * 96 + x), color]);
        }
        same("the tiles", bytes_of(&paint.surface), wanted)?;
    }

    paint.surface.set_all(BLANK);
    let end = planes.address + bytes;
    let plane = |tiling: Tiling, plane: usize, surface: Option<(u32, u32)>| {
        let mut tiling = tiling;
        tiling.surfaces[plane] = surface;
        tiling
    };
    let luma = 31 * 96 + 64;
    let (wide, tall) = ((0xfff0, 32), (64, 4096));
    for (what, tiling) in [
        ("a plane of Y", plane(whole, 0, Some((end - luma + 4, 96)))),
        (
            "a plane of both",
            plane(whole, 1, Some((end - 15 * 80 - 60, 80))),
        ),
        (
            "a plane of U",
            plane(three, 1, Some((end - 15 * 80 - 28, 80))),
        ),
        (
            "a plane of V",
            plane(three, 2, Some((end - 15 * 48 - 28, 48))),
        ),
        ("a stride", plane(whole, 0, at(0, 0x3_fffc))),
        (
            "a stride of the target",
            plane(whole, 3, Some((target, 0x3_fffc))),
        ),
        (
            "a stride of more bits",
            plane(whole, 3, Some((target, 0x4_0000))),
        ),
        ("a target", plane(whole, 3, Some((target + room - 64, 160)))),
        (
            "a wide window",
            Tiling {
                size: wide,
                ..whole
            },
        ),
        (
            "a tall window",
            Tiling {
                size: tall,
                ..whole
            },
        ),
        (
            "no window",
            Tiling {
                size: (0, 0),
                ..whole
            },
        ),
        ("no plane of V", plane(three, 2, None)),
        ("no target", plane(whole, 3, None)),
        ("a target at 0", plane(whole, 3, Some((0, 160)))),
        (
            "an unknown bit",
            Tiling {
                config: NV12 | 1 << 9,
                ..whole
            },
        ),
        (
            "another format",
            Tiling {
                config: 2 << 4,
                ..whole
            },
        ),
    ] {
        let result = paint.client.run(Pipe::Pipe3d, &tiling.stream(false));
        refused(what, result, Status::INVALID_DATA)?;
    }
    let result = paint.client.run(Pipe::Pipe3d, &whole.stream(true));
    refused("a tiler that stays on", result, Status::INVALID_DATA)?;
    let mut fills = Stream::new();
    fills
        .raw(whole.stream(true).words())
        .state(state::RS_CLEAR_CONTROL, 1 << 16);
    fills
        .state(state::RS_KICKER, state::RS_KICK)
        .state(YUV_CONFIG, 0);
    let result = paint.client.run(Pipe::Pipe3d, &fills);
    refused("a fill", result, Status::INVALID_DATA)?;
    if has_kicker {
        let mut stream = Stream::new();
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .states(TS_COLOR_STATUS_BASE, &[target, target])
            .state(YUV_CONFIG, 1)
            .state(RS_KICKER_INPLACE, 1)
            .state(YUV_CONFIG, 0);
        let result = paint.client.run(Pipe::Pipe3d, &stream);
        refused("a kick in place", result, Status::INVALID_DATA)?;
    }
    paint.expect(|_, _| BLANK)?;
    // Up to the end of the planes; and the target of resolves does not count.
    let last = plane(whole, 0, Some((end - luma, 96)));
    let mut stream = Stream::new();
    for state in [state::RS_DEST_ADDR, state::RS_PIPE_DEST_ADDR] {
        stream.state(state, 0);
    }
    stream.raw(last.stream(false).words());
    run(paint, &mut stream)?;
    Ok(paint.client.device().free_contiguous(&planes)?)
}

/// Random fills and copies in windows that the engine can do.
fn random_scene(seed: u32) -> Scene {
    let mut random = Random::new(seed);
    let mut scene = Scene {
        surfaces: vec![(WIDTH, HEIGHT); 2],
        groups: Vec::new(),
    };
    for _ in 0..4 {
        let mut group = Vec::new();
        for _ in 0..10 {
            let target = random.below(2) as usize;
            let rect = random_rect(&mut random);
            group.push(match random.below(2) {
                0 => Op::Fill {
                    target,
                    rects: vec![rect],
                    clip: ALL,
                    colour: random.colour(),
                },
                _ => Op::Copy {
                    source: 1 - target,
                    origin: (
                        random.below((WIDTH - rect.width) / 16 + 1) * 16,
                        random.below((HEIGHT - rect.height) / 8 + 1) * 8,
                    ),
                    target,
                    rects: vec![rect],
                    clip: ALL,
                },
            });
        }
        scene.groups.push(group);
    }
    scene
}

fn both_engines<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>, resolve: Engine) {
    suite.test("commits in turns for both pipes, 200 times", move || {
        let mut paint = paint.borrow_mut();
        for round in 0..100 {
            let (left, right) = (Rect::new(0, 0, 128, HEIGHT), Rect::new(128, 0, 128, HEIGHT));
            let mut stream = Stream::new();
            Engine::TwoD.fill(&mut stream, &paint.surface, left, 0x2d00_0000 + round);
            stream.flush(Pipe::Pipe2d);
            paint
                .client
                .commit(Pipe::Pipe2d, &stream, &mut Queue::new())?;
            let mut stream = Stream::new();
            resolve.fill(&mut stream, &paint.surface, right, 0x3d00_0000 + round);
            run(&mut paint, &mut stream)?;
            let wanted = |x: u32, _| {
                if x < 128 {
                    0x2d00_0000 + round
                } else {
                    0x3d00_0000 + round
                }
            };
            if round % 10 == 9 {
                paint.expect(wanted)?;
            }
        }
        Ok(())
    });
    suite.test("a stream that changes the pipe itself", move || {
        let mut paint = paint.borrow_mut();
        for round in 0..20 {
            let mut stream = Stream::new();
            resolve.fill(&mut stream, &paint.surface, ALL, 0x3d01_0000 + round);
            stream.select_pipe(Pipe::Pipe3d, Pipe::Pipe2d);
            Engine::TwoD.fill(
                &mut stream,
                &paint.surface,
                Rect::new(3, 5, 7, 9),
                0x2d01_0000 + round,
            );
            stream.select_pipe(Pipe::Pipe2d, Pipe::Pipe3d);
            resolve.fill(
                &mut stream,
                &paint.surface,
                Rect::new(16, 16, 32, 8),
                0x3d02_0000 + round,
            );
            run(&mut paint, &mut stream)?;
            paint.expect(|x, y| match (x, y) {
                _ if Rect::new(3, 5, 7, 9).contains(x, y) => 0x2d01_0000 + round,
                _ if Rect::new(16, 16, 32, 8).contains(x, y) => 0x3d02_0000 + round,
                _ => 0x3d01_0000 + round,
            })?;
        }
        Ok(())
    });
}

/// One side of a random resolve: where its pipes begin, and its stride with the bits of its layout.
struct Side {
    own: usize,
    bases: [u32; 2],
    stride: u32,
    tiled: bool,
}

impl Side {
    fn random(random: &mut Random, bench: &Bench<'_>, pipes: u32, bytes: u32) -> Self {
        let own = random.below(bench.own.len() as u32) as usize;
        let at = 64 * random.below(BYTES / 64) * random.below(2);
        let base = bench.own[own].1 + at;
        let tiled = random.below(2) == 0;
        let (mut stride, mut bases) = (16 * bytes * (1 + random.below(8)), [base; 2]);
        match random.below(6) {
            // From row to row it is as far as to another's memory.
            0 => stride = bench.far(base).unwrap_or(stride) & !(16 * bytes - 1),
            1 => stride = 16 * bytes * random.below(512),
            _ => {}
        }
        if tiled {
            stride *= 4;
            if random.below(3) == 0 {
                stride |= SUPERTILED;
            }
        }
        stride &= 0x3_ffff | SUPERTILED;
        if pipes > 1 && random.below(2) == 0 {
            stride |= SPLIT;
            let half = 64 * random.below(BYTES / 64);
            bases[1] = bench.own[own].1 + half;
        }
        Self {
            own,
            bases,
            stride,
            tiled,
        }
    }
}

/// Whatever is resolved from and to, all that is read and written is this process's: its own memory has one word, so
/// whatever is made of it is one, too.
fn random_resolves_stay(paint: &mut Paint, pipes: u32, count: u32) -> Result<()> {
    let mut random = Random::new(0x3e50);
    let (_, base) = status_format(paint);
    let mut bench = Bench::new(&paint.client)?;
    let mut answers = Answers::default();
    for round in 0..count {
        let formats = [0, 1].map(|_| &FORMATS[random.below(FORMATS.len() as u32) as usize]);
        let source = Side::random(&mut random, &bench, pipes, formats[0].bytes);
        let target = Side::random(&mut random, &bench, pipes, formats[1].bytes);
        let fills = random.below(3) == 0;
        let most = [8, 64][usize::from(random.below(4) == 0)];
        let size = (16 * (1 + random.below(most)), 8 * (1 + random.below(most)));
        let halves = random.below(4) & random.below(4);
        let config = formats[0].code
            | formats[1].code << 8
            | halves << 5
            | u32::from(source.tiled) << 7
            | u32::from(target.tiled) << 14;
        // What is cleared reads as this process's memory, too.
        let status = bench.own[random.below(bench.own.len() as u32) as usize].1
            + random.below(BYTES / 64) * 64;
        let tiles = [source.bases[0], bench.own[source.own].1][random.below(2) as usize];
        let mut stream = Stream::new();
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .state(TS_MEM_CONFIG, COLOR_FAST_CLEAR * random.below(2))
            .states(TS_COLOR_STATUS_BASE, &[base + status, base + tiles, OURS])
            .state(state::RS_CONFIG, config)
            .state(state::RS_SOURCE_STRIDE, source.stride)
            .state(state::RS_DEST_STRIDE, target.stride)
            .state(state::RS_CLEAR_CONTROL, if fills { 0x1_ffff } else { 0 })
            .state(state::RS_EXTRA_CONFIG, 0)
            .state(state::RS_FILL_VALUE, 0x1234_5678)
            .states(state::RS_DITHER, &[u32::MAX; 2]);
        window(&mut stream, pipes, (source.bases, target.bases), size);
        if pipes > 1 {
            let rows = 4 * random.below(8) * random.below(2);
            let second = point(0, size.1 / 2 + rows);
            stream.states(state::RS_PIPE_OFFSET, &[0, second]);
        }
        // Some of it comes in a COMMIT before that of the kick.
        if random.below(3) == 0 {
            same("states", bench.send(Pipe::Pipe3d, &stream)?, Status::OK)?;
            stream = Stream::new();
        }
        stream.state(state::RS_KICKER, state::RS_KICK);
        stream.flush(Pipe::Pipe3d);
        let status = bench.send(Pipe::Pipe3d, &stream)?;
        let what = || {
            let sides = [&source, &target].map(|side| (side.own, side.bases, side.stride));
            format!("round {round}: {config:#x} {sides:x?} {size:?} fills {fills}")
        };
        answers.note(status, what)?;
        let all = Bench::looks_at_all(round, count);
        for (place, (.., memory)) in bench.own.iter().enumerate() {
            if !all && (place != target.own || status != Status::OK) {
                continue;
            }
            let Some((_, word)) = memory.find_other_than(OURS) else {
                continue;
            };
            ensure!(
                place == target.own && status == Status::OK,
                "{status:?}, node {place}: {}",
                what()
            );
            // What was made of what was made is another word.
            if place != source.own || fills {
                let words = (0..memory.len() / 4).map(|at| memory.read(4 * at));
                let mut others = words.filter(|&found| found != OURS && found != word);
                ensure!(others.next().is_none(), "several words: {}", what());
            }
            memory.fill(OURS);
        }
        if round % 8 == 7 || round + 1 == count {
            bench.expect_theirs(what)?;
        }
    }
    answers.check(count)?;
    bench.close()?;
    paint.prove(0xff04_0508)
}

/// As [`random_resolves_stay`], of the YUV tiler: what it packs of this process's word is that word.
fn random_tilings_stay(paint: &mut Paint, count: u32) -> Result<()> {
    let mut random = Random::new(0x0711e);
    let mut bench = Bench::new(&paint.client)?;
    let mut answers = Answers::default();
    for round in 0..count {
        let most = [8, 64][usize::from(random.below(4) == 0)];
        let surface = |random: &mut Random| {
            let own = random.below(bench.own.len() as u32) as usize;
            let base = bench.own[own].1 + 64 * random.below(BYTES / 64) * random.below(2);
            let stride = match random.below(6) {
                0 => bench.far(base).unwrap_or(256) & !3,
                _ => 4 * random.below(64),
            };
            (own, base, stride)
        };
        let surfaces = [(); 4].map(|()| surface(&mut random));
        let size = (2 * (1 + random.below(most)), 2 * (1 + random.below(most)));
        let tiling = Tiling {
            config: NV12 * random.below(2) | SWAPPED * random.below(2),
            size,
            surfaces: surfaces.map(|(_, base, stride)| Some((base, stride))),
        };
        let mut stream = tiling.stream(false);
        stream.flush(Pipe::Pipe3d);
        let status = bench.send(Pipe::Pipe3d, &stream)?;
        let what = || format!("round {round}: {:#x} {size:?} {surfaces:x?}", tiling.config);
        answers.note(status, what)?;
        if status == Status::OK || Bench::looks_at_all(round, count) {
            bench.expect_ours(|| format!("{status:?}: {}", what()))?;
        }
        if round % 8 == 7 || round + 1 == count {
            bench.expect_theirs(what)?;
        }
    }
    answers.check(count)?;
    bench.close()?;
    paint.prove(0xff06_0708)
}

fn main() -> ExitCode {
    if let Some(code) = neighbors::role() {
        return code;
    }
    harness::program(|| {
        let options = Options::parse(&["count", "kicks", "windows"])?;
        let count = options.number("count", 10)?;
        let kicks = options.number("kicks", 30 * count)?;
        harness::allow(Duration::from_millis(10) * kicks);
        let paint = Paint::new()?;
        let identity = *paint.client.identity();
        if !has_3d(&identity) {
            return skip("this core has no 3D engine");
        }
        let pipes = identity.pixel_pipes;
        if options.get("windows").is_some() {
            // Other windows, in other memory.
            bounds(&mut { paint }, pipes, false)?;
            return Ok(true);
        }
        let engine = Engine::Resolve { pipes };
        let control = &Control::open()?;
        let paint = &RefCell::new(paint);
        let mut suite = Suite::new();
        suite.test("a fill draws its window and nothing else", move || {
            let mut paint = paint.borrow_mut();
            // The first commands come after a clear of scratch memory.
            run(&mut paint, Stream::new().nop())?;
            for rect in [
                ALL,
                Rect::new(0, 0, 16, 8),
                Rect::new(240, 120, 16, 8),
                Rect::new(48, 24, 96, 64),
            ] {
                paint.surface.set_all(BLANK);
                let before = control.counters().resolves;
                let mut stream = Stream::new();
                engine.fill(&mut stream, &paint.surface, rect, 0x1234_5678);
                run(&mut paint, &mut stream)?;
                same("resolves", control.counters().resolves - before, 1)?;
                paint.expect(|x, y| {
                    if rect.contains(x, y) {
                        0x1234_5678
                    } else {
                        BLANK
                    }
                })?;
            }
            Ok(())
        });
        suite.test("a copy of a window", move || {
            let mut paint = paint.borrow_mut();
            paint.surface.set_all(BLANK);
            let source = paint.client.create_surface(WIDTH, HEIGHT)?;
            for y in 0..HEIGHT {
                for x in 0..WIDTH {
                    source
                        .memory
                        .write((y * source.stride + x * 4) as usize, y << 16 | x);
                }
            }
            let rect = Rect::new(96, 32, 80, 48);
            let mut stream = Stream::new();
            engine.copy_all(&mut stream, &source, (16, 64), &paint.surface, &[rect], ALL);
            run(&mut paint, &mut stream)?;
            paint.expect(|x, y| {
                if rect.contains(x, y) {
                    (y - 32 + 64) << 16 | (x - 96 + 16)
                } else {
                    BLANK
                }
            })?;
            Ok(paint.client.release_surface(source)?)
        });
        suite.test(
            "tiled and back is the same, and tiled lies in 4 x 4 blocks",
            move || {
                let mut paint = paint.borrow_mut();
                let source = paint.client.create_surface(WIDTH, HEIGHT)?;
                let tiled = paint.client.create_surface(WIDTH, HEIGHT)?;
                for y in 0..HEIGHT {
                    for x in 0..WIDTH {
                        source
                            .memory
                            .write((y * source.stride + x * 4) as usize, y << 16 | x);
                    }
                }
                let mut stream = Stream::new();
                retile(&mut stream, pipes, (&source, false), (&tiled, true));
                retile(&mut stream, pipes, (&tiled, true), (&paint.surface, false));
                run(&mut paint, &mut stream)?;
                paint.expect(|x, y| y << 16 | x)?;
                for index in 0..64usize {
                    let (tile, inside) = (index as u32 / 16, index as u32 % 16);
                    let wanted = (inside / 4) << 16 | (tile * 4 + inside % 4);
                    same(
                        &format!("word {index} of the tiles"),
                        tiled.memory.read(index * 4),
                        wanted,
                    )?;
                }
                paint.client.release_surface(source)?;
                Ok(paint.client.release_surface(tiled)?)
            },
        );
        suite.test(
            format!("{count} random scenes are as the software draws them"),
            move || {
                let mut paint = paint.borrow_mut();
                for seed in 0..count {
                    let scene = random_scene(0x2345_6789 + seed * 7919);
                    let surfaces = draw::scene_with(&mut paint.client, engine, &scene)?;
                    for (surface, wanted) in surfaces.iter().zip(render::scene(&scene)) {
                        expect_pixels(surface, |x, y| wanted.pixel(x, y))
                            .map_err(|error| error.context(format!("seed {seed}")))?;
                    }
                    for surface in surfaces {
                        paint.client.release_surface(surface)?;
                    }
                }
                Ok(())
            },
        );
        suite.test(
            "pixels of four formats become one of each other",
            move || {
                let mut paint = paint.borrow_mut();
                let source = paint.client.create_surface(WIDTH, HEIGHT)?;
                let mut random = Random::new(0x0d0e_5a3b);
                for word in 0..WINDOW.0 * WINDOW.1 {
                    source
                        .memory
                        .write(4 * word as usize, random.colour() ^ word << 24);
                }
                for from in &FORMATS {
                    for to in &FORMATS {
                        for samples in [(1, 1), (2, 1), (1, 2), (2, 2)] {
                            downsample(&mut paint, pipes, &source, (from, to), samples)?;
                        }
                    }
                }
                Ok(paint.client.release_surface(source)?)
            },
        );
        suite.test("a resolve in place fills what is cleared", move || {
            let mut paint = paint.borrow_mut();
            (0..3).try_for_each(|seed| in_place(&mut paint, pipes, seed, InPlace::Resolve))
        });
        let has_kicker = control.board() == Some(Board::Gc3000);
        suite.test(
            "past the end of its memory no target is drawn to",
            move || bounds(&mut paint.borrow_mut(), pipes, has_kicker),
        );
        suite.test("past the end of its memory no status is read", move || {
            status_bounds(&mut paint.borrow_mut(), pipes, has_kicker)
        });
        suite.test(
            "the YUV tiler packs planes, and no more than there are",
            move || tile_yuv(&mut paint.borrow_mut(), has_kicker),
        );
        suite.test(
            format!("{kicks} random resolves stay in their memory"),
            move || random_resolves_stay(&mut paint.borrow_mut(), pipes, kicks),
        );
        suite.test(
            format!("{} random tilings of YUV stay in theirs", kicks / 10),
            move || random_tilings_stay(&mut paint.borrow_mut(), kicks / 10),
        );
        suite.test("a kick alone draws as the last one", move || {
            lent(&mut paint.borrow_mut(), pipes)
        });
        if has_kicker {
            suite.test("so does the kicker for that, so many tiles", move || {
                let mut paint = paint.borrow_mut();
                for tiles in [0, 1, 333, WIDTH * HEIGHT * 4 / TILE] {
                    in_place(&mut paint, pipes, tiles, InPlace::Kicker(tiles))?;
                }
                Ok(())
            });
        }
        if !has_kicker {
            suite.test("a core without that kicker has it refused", move || {
                let mut paint = paint.borrow_mut();
                let tiles = InPlace::Kicker(1);
                let surface = paint.surface.location.address;
                let stream = fill_in_place(&paint, pipes, surface, tiles);
                let result = paint.client.run(Pipe::Pipe3d, &stream);
                refused("a kick", result, Status::INVALID_DATA)
            });
        }
        if has_2d(&identity) {
            both_engines(&mut suite, paint, engine);
        }
        suite.run()
    })
}
