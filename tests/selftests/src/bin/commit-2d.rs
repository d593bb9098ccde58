// SPDX-License-Identifier: GPL-2.0-only
//! Pixels of the 2D engine: clears, clipping, copies, lines; random scenes against the software rendering.

use std::cell::RefCell;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw;
use galcore_client::draw::Engine;
use galcore_client::render;
use galcore_client::scene::Op;
use galcore_client::scene::Scene;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
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
use galcore_selftests::hostile::gaps;
use galcore_selftests::neighbors;
use galcore_selftests::neighbors::Answers;
use galcore_selftests::neighbors::Bench;
use galcore_selftests::neighbors::BYTES;
use galcore_selftests::neighbors::OURS;
use galcore_selftests::neighbors::THEIRS;
use galcore_selftests::other::Other;
use galcore_selftests::system;

const ALL: Rect = Rect::new(0, 0, WIDTH, HEIGHT);

/// A scene of random fills, copies and lines on two surfaces.
fn random_scene(seed: u32) -> Scene {
    let mut random = Random::new(seed);
    let size = (96, 64);
    let mut scene = Scene {
        surfaces: vec![size, size],
        groups: Vec::new(),
    };
    let some_rect = |random: &mut Random| {
        let (x, y) = (random.below(90), random.below(60));
        Rect::new(x, y, 1 + random.below(96 - x), 1 + random.below(64 - y))
    };
    for _ in 0..6 {
        let mut group = Vec::new();
        for _ in 0..10 {
            let target = random.below(2) as usize;
            let clip = some_rect(&mut random);
            let rects = (0..1 + random.below(4))
                .map(|_| some_rect(&mut random))
                .collect::<Vec<_>>();
            group.push(match random.below(3) {
                0 => Op::Fill {
                    target,
                    rects,
                    clip,
                    colour: random.colour(),
                },
                1 => {
                    let (width, height) = (1 + random.below(40), 1 + random.below(30));
                    let resized = rects.iter().map(|rect| {
                        let (x, y) = (rect.x.min(96 - width), rect.y.min(64 - height));
                        Rect::new(x, y, width, height)
                    });
                    Op::Copy {
                        source: 1 - target,
                        origin: (random.below(96 - width), random.below(64 - height)),
                        target,
                        rects: resized.collect(),
                        clip,
                    }
                }
                _ => {
                    let from = (random.below(96), random.below(64));
                    let mut to = (random.below(96), random.below(64));
                    let length = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
                    if length % 2 == 0 {
                        // Only lines of odd length have no ties; a row of odd length then.
                        to = (
                            if from.0 < 48 {
                                from.0 + 41
                            } else {
                                from.0 - 41
                            },
                            from.1,
                        );
                    }
                    Op::Line {
                        target,
                        from,
                        to,
                        clip,
                        colour: random.colour(),
                    }
                }
            });
        }
        scene.groups.push(group);
    }
    scene
}

/// Loads what a draw shows, whatever its target: a pattern of one colour, everywhere.
fn paint_states(stream: &mut Stream, colour: u32) {
    stream
        .state(0x123c, 0)
        .states(0x1250, &[colour; 2])
        .state(state::DE_ROP, 3 << 20 | 0xf0f0)
        .states(state::DE_CLEAR_BYTE_MASK, &[0xff, 0, colour, colour])
        .state(state::DE_CLEAR_PIXEL_VALUE32, colour)
        .state(state::DE_ALPHA_CONTROL, 0)
        .state(state::DE_PE_TRANSPARENCY, 0)
        .states(0x12e8, &[u32::MAX; 2]);
}

/// Loads all of the target's states but its address: 4 columns and 2 rows that are `stride` apart.
fn target_states(stream: &mut Stream, stride: u32, command: u32) {
    let corner = 2 << 16 | 4;
    stream
        .states(0x122c, &[stride, 0, command << 12 | 6])
        .states(state::DE_CLIP_TOP_LEFT, &[0, corner])
        .states(0x12a8, &[0, corner])
        .state(0x12b4, 2)
        .state(0x12bc, 0);
    paint_states(stream, THEIRS + 1);
}

/// A command of the 2D engine beside those of DE_DEST_CONFIG: the filter's kick.
const FILTER: u32 = 5;

fn kick(stream: &mut Stream, command: u32) {
    match command {
        FILTER => stream.state(0x1294, 0),
        _ => stream.draw_2d(&[(0, 2 << 16 | 4)]),
    };
    stream.flush(Pipe::Pipe2d);
}

/// Draws whose second row would begin in another process's memory are refused, in one COMMIT and over several; what
/// is drawn after them is as ever, also when another process has drawn, or the machine slept, between states and draw.
fn others_memory_stays(paint: &mut Paint) -> Result<()> {
    let mut bench = Bench::new(&paint.client)?;
    let mut found = bench.own.iter().map(|own| (own.1, bench.far(own.1)));
    let nearest = found.position(|(_, far)| far.is_some());
    let own = nearest.context("no node of theirs comes after one of ours")?;
    let (address, memory) = (bench.own[own].1, bench.own[own].2.clone());
    let far = bench.far(address).context("none")?;
    let states = |stride, command| {
        let mut stream = Stream::new();
        stream.state(state::DE_DEST_ADDRESS, address);
        target_states(&mut stream, stride, command);
        stream
    };
    for command in [0, 1, 2, 4, FILTER] {
        let mut stream = states(far, command);
        kick(&mut stream, command);
        let what = format!("command {command}, a row {far:#x} bytes after the other");
        same(
            &what,
            bench.send(Pipe::Pipe2d, &stream)?,
            Status::INVALID_DATA,
        )?;
        // What says so may have been loaded before.
        let mut bare = Stream::new();
        kick(&mut bare, command);
        same(
            "states",
            bench.send(Pipe::Pipe2d, &states(far, command))?,
            Status::OK,
        )?;
        same(
            "a draw alone",
            bench.send(Pipe::Pipe2d, &bare)?,
            Status::INVALID_DATA,
        )?;
        ensure!(memory.read(0) != THEIRS + 1, "{what} was begun");
        same("their memory", bench.other.ask("intact")?.as_str(), "[]")?;
        // With rows that are in its own memory all goes, states and draw apart, whatever comes between.
        for between in 0..3 {
            same(
                "states",
                bench.send(Pipe::Pipe2d, &states(64, 0))?,
                Status::OK,
            )?;
            match between {
                0 => {}
                1 => same("it", bench.other.ask("draw")?.as_str(), "drawn")?,
                _ => system::sleep_devices()?,
            }
            let colour = command << 4 | between;
            let mut fill = Stream::new();
            fill.states(state::DE_CLEAR_BYTE_MASK, &[0xff, 0, colour, colour])
                .state(state::DE_CLEAR_PIXEL_VALUE32, colour);
            kick(&mut fill, 0);
            same("a draw alone", bench.send(Pipe::Pipe2d, &fill)?, Status::OK)?;
            for place in [0, 12, 64, 76] {
                same("a pixel", memory.read(place), colour)?;
            }
            same("beside it", memory.read(16), OURS)?;
        }
    }
    bench.close()?;
    paint.prove(0xff04_0506)
}

/// What this process has loaded stays as another process loads the same states while the 3D engine is selected, and
/// as the process's own commands that load them are refused.
fn colours_stay(paint: &mut Paint) -> Result<()> {
    let mut bench = Bench::new(&paint.client)?;
    let (address, memory) = (bench.own[0].1, bench.own[0].2.clone());
    let mut stream = Stream::new();
    stream.state(state::DE_DEST_ADDRESS, address);
    target_states(&mut stream, 64, 0);
    kick(&mut stream, 0);
    let mut bare = Stream::new();
    kick(&mut bare, 0);
    let mut refused = Stream::new();
    paint_states(&mut refused, OURS);
    refused.raw(&[0x1000_0000, 0]);
    for (what, stream) in [("states and draw", stream), ("a draw alone", bare)] {
        memory.fill(OURS);
        same(what, bench.send(Pipe::Pipe2d, &stream)?, Status::OK)?;
        let status = bench.send(Pipe::Pipe2d, &refused)?;
        same("END", status, Status::INVALID_DATA)?;
        for place in [0, 12, 64, 76] {
            same("a pixel", memory.read(place), THEIRS + 1)?;
        }
        let answer = bench.other.ask("recolour")?;
        same("it", answer.as_str(), "recoloured")?;
    }
    bench.close()?;
    paint.prove(0xff04_0508)
}

/// A colour of a refused COMMIT is in no later draw, even if an allocation fails on its way.
fn refused_colours(paint: &mut Paint) -> Result<()> {
    gaps::inject()?;
    for nth in 1..100 {
        let mut other = Other::start(paint.device().abi())?;
        other.ask("fill")?;
        let is_reached = other.ask(&format!("refuse {nth}"))?;
        // Others' draws change the engine's states.
        paint.prove(0xff04_0509)?;
        other
            .ask("bare")
            .with_context(|| format!("allocation {nth}"))?;
        if is_reached == "false" {
            println!("# {nth} allocations");
            return Ok(());
        }
    }
    bail!("it never runs to its end")
}

/// A client that selects the 2D engine once and claims pipe 3D at both ends of each COMMIT, as libetnaviv does, draws
/// in 2D, also after another process. A claim that is right selects its pipe.
fn unclaimed_pipe_stays(paint: &mut Paint) -> Result<()> {
    let mut bench = Bench::new(&paint.client)?;
    let (address, memory) = (bench.own[0].1, bench.own[0].2.clone());
    let mut stream = Stream::new();
    stream.select_pipe(Pipe::Pipe3d, Pipe::Pipe2d);
    stream.state(state::DE_DEST_ADDRESS, address);
    target_states(&mut stream, 64, 0);
    kick(&mut stream, 0);
    let mut bare = Stream::new();
    kick(&mut bare, 0);
    for (what, claimed, stream) in [
        ("the first", Pipe::Pipe3d, &stream),
        ("the second", Pipe::Pipe3d, &bare),
        ("the third", Pipe::Pipe3d, &bare),
        ("a right claim", Pipe::Pipe2d, &bare),
    ] {
        memory.fill(OURS);
        same(what, bench.send(claimed, stream)?, Status::OK)?;
        for place in [0, 12, 64, 76] {
            same("a pixel", memory.read(place), THEIRS + 1)?;
        }
        let answer = bench.other.ask("recolour")?;
        same("it", answer.as_str(), "recoloured")?;
    }
    let status = bench.send(Pipe::Pipe3d, &bare)?;
    same("a draw in 3D", status, Status::INVALID_DATA)?;
    bench.close()?;
    paint.prove(0xff04_0508)
}

/// Two threads at once: one loads strides of either kind, the other draws with what is loaded. Whichever it is, what is
/// drawn is what was checked.
fn threads_agree(paint: &mut Paint, rounds: u32) -> Result<()> {
    let mut bench = Bench::new(&paint.client)?;
    let mut own = bench.own.iter().map(|own| own.1);
    let address = own.find(|own| bench.far(*own).is_some());
    let address = address.context("no node of theirs comes after one of ours")?;
    let far = bench.far(address).context("none")?;
    let buffer = bench.device.allocate_contiguous(0x4000)?;
    let (mut drawn, mut refused) = (0, 0);
    thread::scope(|scope| -> Result<()> {
        let bench = &bench;
        let buffer = &buffer;
        let loader = scope.spawn(move || -> Result<()> {
            for round in 0..rounds {
                let mut stream = Stream::new();
                stream.state(state::DE_DEST_ADDRESS, address);
                target_states(&mut stream, [far, 64][round as usize % 2], 0);
                same(
                    "states",
                    bench.send_from(buffer, Pipe::Pipe2d, &stream)?,
                    Status::OK,
                )?;
            }
            Ok(())
        });
        while !loader.is_finished() {
            let mut bare = Stream::new();
            kick(&mut bare, 0);
            match bench.send(Pipe::Pipe2d, &bare)? {
                Status::OK => drawn += 1,
                Status::INVALID_DATA => refused += 1,
                status => bail!("a draw alone: {status:?}"),
            }
        }
        loader.join().map_err(|_| anyhow!("a thread has ended"))?
    })?;
    println!("# {drawn} drawn, {refused} refused");
    ensure!(drawn > 0 && refused > 0, "{drawn} drawn, {refused} refused");
    same("their memory", bench.other.ask("intact")?.as_str(), "[]")?;
    bench.device.free_contiguous(&buffer)?;
    bench.close()?;
    paint.prove(0xff04_0508)
}

/// A random draw: what it loads of the target, in any order, and its corners.
struct Draw {
    states: Vec<(u32, u32)>,
    command: u32,
    corners: (u32, u32),
    /// Whether all of it lies in the `room` bytes from the target on; `None`: that is not looked at.
    fits: Option<bool>,
}

impl Draw {
    /// To `address`, which `room` bytes follow; `far`: a stride that leads to others' memory.
    fn random(random: &mut Random, pe20: bool, address: u32, room: u32, far: Option<u32>) -> Self {
        let pick = |random: &mut Random, of: &[u32]| of[random.below(of.len() as u32) as usize];
        let command = pick(random, &[0, 1, 2, 4, FILTER]);
        let format = pick(random, &[1, 3, 4, 5, 6]);
        let bytes = if format < 5 { 2 } else { 4 };
        let stride = match (random.below(4), far) {
            (0, Some(far)) => far & !3,
            (1, _) => 4 * random.below(0x1_0000),
            _ => 4 * (16 + random.below(64)),
        };
        // About as much as fits, with a row or a pixel too few or too many.
        let near = |random: &mut Random, exact: u32| (exact + random.below(3)).clamp(2, 255) - 1;
        let rows = room / stride.max(64) + random.below(2);
        let bottom = near(random, rows);
        let in_last_row = room
            .saturating_sub((bottom - 1) * stride)
            .min(stride.max(4));
        let right = near(random, (in_last_row / bytes).min(200));
        let turned = command == 2 || command == 4;
        let angle = if turned && pe20 {
            pick(random, &[0, 0, 0, 1, 2, 4, 5, 6])
        } else {
            0
        };
        let by_state = turned && angle == 0 && random.below(6) == 0;
        // Of a turned surface that is as large as what is drawn, the other way round for two of them.
        let (mut width, mut height) = (right, bottom);
        if by_state || angle == 4 || angle == 6 {
            (width, height) = (bottom, right);
        }
        if random.below(4) == 0 {
            (width, height) = (width + random.below(3), height + random.below(3));
        }
        let corner = |x: u32, y: u32| (y & 0xffff) << 16 | x & 0xffff;
        let end = corner(right, bottom);
        let (clip, corners) = match random.below(3) {
            0 => (0x7fff_7fff, (0, end)),
            1 => (
                0x7fff_7fff,
                (corner(random.below(right), random.below(bottom)), end),
            ),
            // The window cuts what is drawn.
            _ if angle == 0 && !by_state => {
                let start = corner(0u32.wrapping_sub(random.below(3)), 0);
                (
                    end,
                    (
                        start,
                        corner(right + random.below(9), bottom + random.below(9)),
                    ),
                )
            }
            _ => (end, (0, end)),
        };
        let mirror = if turned { random.below(4) } else { 0 };
        let mut states = vec![
            (state::DE_DEST_ADDRESS, address),
            (0x122c, stride),
            (0x1230, u32::from(by_state) << 16 | width),
            (
                0x1234,
                if command == FILTER { 0 } else { command << 12 } | format,
            ),
            (state::DE_CLIP_TOP_LEFT, 0),
            (state::DE_CLIP_TOP_LEFT + 4, clip),
            (0x12a8, 0),
            (0x12ac, end),
            (0x12b4, height),
            (0x12bc, angle << 3),
            (0x126c, u32::from(mirror != 0) | mirror << 4),
        ];
        for last in (1..states.len()).rev() {
            states.swap(last, random.below(last as u32 + 1) as usize);
        }
        let last = (bottom - 1) * stride + right * bytes;
        let is_plain = command != 1 && angle == 0 && !by_state;
        Self {
            states,
            command,
            corners,
            fits: is_plain.then_some(last <= room),
        }
    }
}

impl Draw {
    /// Adds its states from the place `from` on, and its kick, which shows something whatever it reads at `source`.
    fn add(&self, stream: &mut Stream, random: &mut Random, from: usize, source: u32) {
        for &(address, value) in &self.states[from..] {
            stream.state(address, value);
        }
        paint_states(stream, random.colour() | 1);
        stream
            .states(state::DE_SRC_ADDRESS, &[source, 64, 0, 6 << 24 | 6])
            .states(0x1298, &[0, 2 << 16 | 2, 0, 0])
            .states(0x1220, &[0, 0]);
        if self.command == FILTER {
            stream.state(0x1294, random.below(2));
        } else {
            stream.draw_2d(&[self.corners]);
        }
        stream.flush(Pipe::Pipe2d);
    }
}

/// Random draws, which end in their target's memory or just past it: no other memory changes, of this process or of
/// another, whatever is answered; and what is answered is right.
fn random_draws_stay(paint: &mut Paint, count: u32) -> Result<()> {
    let mut random = Random::new(0x2d2d);
    let pe20 = paint.client.identity().chip_minor_features & 1 << 7 != 0;
    let has_filter = paint.client.identity().chip_features & 1 << 20 == 0;
    let mut bench = Bench::new(&paint.client)?;
    let (mut drawn, mut refused) = (0, 0);
    // Of many kicks those that fit come in COMMITs of several, so that memory is looked at less often.
    let group = if count > 10000 { 16 } else { 1 };
    for round in (0..count).step_by(group) {
        let own = random.below(bench.own.len() as u32) as usize;
        let source = bench.own[own].1;
        let mut first = BYTES;
        let (mut together, mut fitting) = (Stream::new(), 0);
        let mut texts = Vec::new();
        for _ in 0..group {
            let at = 64 * random.below(BYTES / 64) * random.below(2);
            let address = source + at;
            let (room, far) = (BYTES - at, bench.far(address));
            let draw = Draw::random(&mut random, pe20, address, room, far);
            if draw.command == FILTER && !has_filter {
                continue;
            }
            let what = format!("round {round}: {:x?} {:x?}", draw.states, draw.corners);
            if group > 1 && draw.fits == Some(true) {
                draw.add(&mut together, &mut random, 0, source);
                (first, fitting) = (first.min(at), fitting + 1);
                texts.push(what);
                continue;
            }
            // Some of the states come in a COMMIT before that of the draw.
            let split = match random.below(3) {
                0 => random.below(draw.states.len() as u32) as usize,
                _ => 0,
            };
            if split != 0 {
                let mut before = Stream::new();
                for &(address, value) in &draw.states[..split] {
                    before.state(address, value);
                }
                same("states", bench.send(Pipe::Pipe2d, &before)?, Status::OK)?;
                if random.below(4 * group as u32) == 0 {
                    same("it", bench.other.ask("draw")?.as_str(), "drawn")?;
                }
            }
            let mut stream = Stream::new();
            draw.add(&mut stream, &mut random, split, source);
            match (bench.send(Pipe::Pipe2d, &stream)?, draw.fits) {
                (Status::OK, None | Some(true)) => (first, drawn) = (first.min(at), drawn + 1),
                (Status::INVALID_DATA, None | Some(false)) => refused += 1,
                (status, _) => bail!("{status:?}: {what}, {room:#x} bytes"),
            }
            texts.push(what);
        }
        if fitting > 0 {
            let status = bench.send(Pipe::Pipe2d, &together)?;
            ensure!(status == Status::OK, "{status:?}: one of {texts:?}");
            drawn += fitting;
        }
        for (place, (.., memory)) in bench.own.iter().enumerate() {
            match memory.find_other_than(OURS) {
                None => {}
                Some((found, _)) if place == own && found as u32 >= first & !3 => memory.fill(OURS),
                Some(found) => bail!("node {place} of {own}: {found:x?}: {texts:?}"),
            }
        }
        let is_last = round + group as u32 >= count;
        if group > 1 || round % 8 == 7 || is_last {
            bench.expect_theirs(|| format!("{texts:?}"))?;
        }
    }
    ensure!(
        drawn > count / 4 && refused > count / 8,
        "{drawn} drawn, {refused} refused"
    );
    println!("# {drawn} drawn, {refused} refused");
    // Of a target that is not turned: what others draw does not say so.
    let mut plain = Stream::new();
    target_states(&mut plain, 64, 0);
    same(
        "plain states",
        bench.send(Pipe::Pipe2d, &plain)?,
        Status::OK,
    )?;
    bench.close()?;
    paint.prove(0xff04_0507)
}

/// A copy of 16 x 8 pixels in A8R8G8B8 to the start of a target with `stride`.
fn copy_states(stream: &mut Stream, target: u32, stride: u32, command: u32) {
    stream
        .states(0x1228, &[target, stride, 0, command << 12 | 6])
        .states(state::DE_CLIP_TOP_LEFT, &[0, 8 << 16 | 16])
        .states(0x12a8, &[0, 8 << 16 | 16])
        .state(0x12b4, 8)
        .state(0x12bc, 0)
        .states(0x1220, &[1 << 16; 2])
        .states(0x1248, &[u32::MAX; 2])
        .state(0x1300, 0);
    paint_states(stream, 0x1234_5678);
}

/// Sources and patterns that do not end in their memory are refused; up to their last byte they are read.
fn reads_end(paint: &mut Paint, has_filter: bool) -> Result<()> {
    const CLEAR: u32 = 0;
    const BIT_BLT: u32 = 2;
    const STRETCH_BLT: u32 = 4;
    const COPY: u32 = 3 << 20 | 0xcccc;
    const PATTERN: u32 = 3 << 20 | 0xf0f0;
    let (target, stride) = (paint.surface.location.address, paint.surface.stride);
    let source = paint.client.device().allocate_contiguous(4096)?;
    source.memory.fill(0x2468_ace0);
    let end = source.address + source.bytes as u32;
    // Address and stride of a source of A8R8G8B8, and states besides.
    let draw = |command: u32, rop: u32, (address, length): (u32, u32), others: &[(u32, u32)]| {
        let mut stream = Stream::new();
        let blit = if command == FILTER { BIT_BLT } else { command };
        copy_states(&mut stream, target, stride, blit);
        stream
            .state(state::DE_ROP, rop)
            .states(state::DE_SRC_ADDRESS, &[address, length, 0, 6 << 24 | 6])
            .state(0x1210, 0)
            .states(0x1298, &[0, 8 << 16 | 16, 0, 0]);
        for &(state, value) in others {
            stream.state(state, value);
        }
        if command == FILTER {
            stream.state(0x1294, 0);
        } else {
            stream.draw_2d(&[(0, 8 << 16 | 16)]);
        }
        stream.flush(Pipe::Pipe2d);
        stream
    };
    // Row 7 and 64 bytes.
    let last = 7 * 64 + 64;
    let fits = (end - last, 64);
    for (what, command, rop, place, others) in [
        (
            "a later start",
            BIT_BLT,
            COPY,
            (end - last + 4, 64),
            &[][..],
        ),
        ("a longer stride", BIT_BLT, COPY, (end - last, 68), &[]),
        (
            "the longest stride",
            BIT_BLT,
            COPY,
            (end - last, 0x3_fffc),
            &[],
        ),
        ("an origin", BIT_BLT, COPY, fits, &[(0x1210, 1)]),
        ("an origin before", BIT_BLT, COPY, fits, &[(0x1210, 0xffff)]),
        (
            "a relative origin",
            BIT_BLT,
            COPY,
            fits,
            &[(0x120c, 6 << 24 | 6 | 1 << 6), (0x1210, 1 << 16)],
        ),
        (
            "a key",
            BIT_BLT,
            PATTERN,
            (end - 64, 64),
            &[(0x12d4, 2), (0x120c, 6 << 24 | 6 | 2 << 4)],
        ),
        ("a blend", BIT_BLT, PATTERN, (end - 64, 64), &[(0x127c, 1)]),
        ("a factor", STRETCH_BLT, COPY, fits, &[(0x1224, 2 << 16)]),
        (
            "a factor that rounds up",
            STRETCH_BLT,
            COPY,
            fits,
            &[(0x1234, 1 << 24 | 4 << 12 | 6), (0x1224, 0x1_1000)],
        ),
        ("a size", STRETCH_BLT, COPY, fits, &[(0x1214, 9 << 16 | 16)]),
        ("an image", FILTER, COPY, fits, &[(0x129c, 9 << 16 | 16)]),
        (
            "a pattern",
            BIT_BLT,
            PATTERN,
            fits,
            &[(0x1238, end - 252), (0x123c, 1 << 4 | 6)],
        ),
        (
            "a clear's pattern",
            CLEAR,
            PATTERN,
            fits,
            &[(0x1238, end - 252), (0x123c, 1 << 4 | 6)],
        ),
        (
            "a filter's pattern",
            FILTER,
            PATTERN,
            fits,
            &[(0x1238, end - 252), (0x123c, 1 << 4 | 6)],
        ),
        (
            "bits that do not come",
            FILTER,
            COPY,
            fits,
            &[(0x120c, 10 << 24 | 1 << 8 | 10)],
        ),
    ] {
        if command == FILTER && !has_filter {
            continue;
        }
        paint.prove(0xff05_0001)?;
        let result = paint
            .client
            .run(Pipe::Pipe2d, &draw(command, rop, place, others));
        refused(what, result, Status::INVALID_DATA)?;
        paint.expect(|_, _| 0xff05_0001)?;
    }
    for (command, rop, place, others, wanted) in [
        (BIT_BLT, COPY, fits, &[][..], 0x2468_ace0),
        (
            STRETCH_BLT,
            COPY,
            fits,
            &[(0x1214, 8 << 16 | 16)],
            0x2468_ace0,
        ),
        // Half as many rows and columns.
        (
            STRETCH_BLT,
            COPY,
            (end - 292, 64),
            &[(0x1220, 0x8000), (0x1224, 0x8000), (0x1214, 4 << 16 | 8)],
            0x2468_ace0,
        ),
        (BIT_BLT, PATTERN, (end - 4, 0x3_fffc), &[], 0x1234_5678),
        (
            BIT_BLT,
            PATTERN,
            fits,
            &[(0x1238, end - 256), (0x123c, 1 << 4 | 6)],
            0x2468_ace0,
        ),
    ] {
        paint.prove(0xff05_0002)?;
        paint.run(&draw(command, rop, place, others))?;
        paint.expect(|x, y| if x < 16 && y < 8 { wanted } else { 0xff05_0002 })?;
    }
    Ok(paint.client.device().free_contiguous(&source)?)
}

/// Random copies, from sources between those of another process: what is copied is this process's.
fn random_copies_stay(paint: &mut Paint, count: u32) -> Result<()> {
    let mut random = Random::new(0x2d2e);
    let mut bench = Bench::new(&paint.client)?;
    let mut answers = Answers::default();
    for round in 0..count {
        let [target, source] = [(); 2].map(|()| random.below(bench.own.len() as u32) as usize);
        let base = bench.own[source].1 + 64 * random.below(BYTES / 64) * random.below(2);
        let stride = match random.below(4) {
            0 => bench.far(base).unwrap_or(64) & !3,
            1 => 4 * random.below(512),
            _ => 64,
        };
        let command = [2, 4][random.below(2) as usize];
        let relative = (random.below(2) & random.below(2)) << 6;
        let relative = if command == 4 { 0 } else { relative };
        let most = [1, 16, 4096][random.below(3) as usize];
        let origin = random.below(most) << 16 | random.below(16);
        let mut stream = Stream::new();
        copy_states(&mut stream, bench.own[target].1, 64, command);
        stream
            .state(state::DE_ROP, 3 << 20 | 0xcccc)
            .states(
                state::DE_SRC_ADDRESS,
                &[base, stride, 0, 6 << 24 | 6 | relative],
            )
            .state(0x1210, origin)
            .states(0x1220, &[random.below(8 << 16), random.below(8 << 16)]);
        let left_top = random.below(8) << 16 | random.below(16);
        stream.draw_2d(&[(left_top, 8 << 16 | 16)]);
        stream.flush(Pipe::Pipe2d);
        let status = bench.send(Pipe::Pipe2d, &stream)?;
        let what =
            || format!("round {round}: {source} {base:#x} {stride:#x} {origin:#x} {command}");
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
    paint.prove(0xff04_0508)
}

fn main() -> ExitCode {
    if let Some(code) = neighbors::role() {
        return code;
    }
    harness::program(|| {
        let options = Options::parse(&["count", "kicks"])?;
        let count = options.number("count", 10)?;
        let kicks = options.number("kicks", 30 * count)?;
        harness::allow(Duration::from_millis(10) * kicks);
        let paint = Paint::new()?;
        if !has_2d(paint.client.identity()) {
            return skip("this core has no 2D engine");
        }
        let control = &Control::open()?;
        let paint = &RefCell::new(paint);
        let engine = Engine::TwoD;
        let mut suite = Suite::new();
        suite.test("a clear of everything", || {
            paint.borrow_mut().prove(0xff10_2030)
        });
        suite.test("a clear draws its rectangle and nothing else", move || {
            let mut paint = paint.borrow_mut();
            for rect in [
                Rect::new(0, 0, 1, 1),
                Rect::new(WIDTH - 1, HEIGHT - 1, 1, 1),
                Rect::new(33, 7, 101, 55),
            ] {
                paint.prove(0xff00_0001)?;
                let stream = paint.fill(rect, 0xa1b2_c3d4);
                paint.run(&stream)?;
                paint.expect(|x, y| {
                    if rect.contains(x, y) {
                        0xa1b2_c3d4
                    } else {
                        0xff00_0001
                    }
                })?;
            }
            Ok(())
        });
        suite.test("clipping cuts a clear on all sides", move || {
            let mut paint = paint.borrow_mut();
            paint.prove(0xff00_0002)?;
            let clip = Rect::new(50, 20, 60, 40);
            let mut stream = Stream::new();
            let rects = [
                Rect::new(40, 10, 30, 30),
                Rect::new(90, 40, 50, 50),
                Rect::new(0, 0, 10, 10),
            ];
            engine.fill_all(&mut stream, &paint.surface, &rects, clip, 0xffee_dd00);
            stream.flush(engine.pipe());
            paint.run(&stream)?;
            paint.expect(|x, y| {
                if clip.contains(x, y) && rects.iter().any(|rect| rect.contains(x, y)) {
                    0xffee_dd00
                } else {
                    0xff00_0002
                }
            })
        });
        suite.test("255 rectangles in one command", move || {
            let mut paint = paint.borrow_mut();
            paint.prove(0)?;
            let before = control.counters().draws_2d;
            let rects: Vec<_> = (0..255)
                .map(|index| Rect::new(index, index % HEIGHT, 1, 1))
                .collect();
            let mut stream = Stream::new();
            engine.fill_all(&mut stream, &paint.surface, &rects, ALL, 0xffff_ffff);
            stream.flush(engine.pipe());
            paint.run(&stream)?;
            same("rectangles", control.counters().draws_2d - before, 255)?;
            paint.expect(|x, y| {
                if x < 255 && y == x % HEIGHT {
                    0xffff_ffff
                } else {
                    0
                }
            })
        });
        suite.test(
            "a copy from another surface, with origin and clipping",
            move || {
                let mut paint = paint.borrow_mut();
                paint.prove(0xff00_0003)?;
                let source = paint.client.create_surface(64, 64)?;
                for y in 0..64 {
                    for x in 0..64 {
                        source.memory.write(
                            (y * source.stride + x * 4) as usize,
                            0xff00_0000 | y << 8 | x,
                        );
                    }
                }
                let (rect, clip) = (Rect::new(100, 50, 40, 40), Rect::new(0, 55, 130, 60));
                let mut stream = Stream::new();
                engine.copy_all(
                    &mut stream,
                    &source,
                    (10, 20),
                    &paint.surface,
                    &[rect],
                    clip,
                );
                stream.flush(engine.pipe());
                paint.run(&stream)?;
                paint.expect(|x, y| {
                    if rect.contains(x, y) && clip.contains(x, y) {
                        0xff00_0000 | (y - 50 + 20) << 8 | (x - 100 + 10)
                    } else {
                        0xff00_0003
                    }
                })?;
                Ok(paint.client.release_surface(source)?)
            },
        );
        suite.test("lines in all directions", move || {
            let mut paint = paint.borrow_mut();
            let middle = (128, 64);
            let ends = [
                (179, 64),
                (179, 81),
                (179, 115),
                (145, 115),
                (128, 115),
                (111, 115),
                (77, 115),
                (77, 81),
            ];
            let others = [
                (77, 64),
                (77, 47),
                (77, 13),
                (111, 13),
                (128, 13),
                (145, 13),
                (179, 13),
                (179, 47),
            ];
            let mut scene = Scene {
                surfaces: vec![(WIDTH, HEIGHT)],
                groups: vec![Vec::new()],
            };
            for (index, to) in ends.into_iter().chain(others).enumerate() {
                scene.groups[0].push(Op::Line {
                    target: 0,
                    from: middle,
                    to,
                    clip: ALL,
                    colour: 0xff00_0100 + index as u32,
                });
            }
            let surfaces = draw::scene(&mut paint.client, &scene)?;
            let wanted = &render::scene(&scene)[0];
            expect_pixels(&surfaces[0], |x, y| wanted.pixel(x, y))?;
            for surface in surfaces {
                paint.client.release_surface(surface)?;
            }
            Ok(())
        });
        suite.test("bytes around a surface stay", move || {
            let mut paint = paint.borrow_mut();
            let guard = 4096u32;
            let device = paint.device();
            let node = device.allocate(2 * guard + WIDTH * HEIGHT * 4, 64, 6, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, paint.client.pool())?;
            memory.fill(0x6a6a_6a6a);
            let mut inner = paint.surface.clone();
            inner.location.address = location.address + guard;
            let mut stream = Stream::new();
            engine.fill(&mut stream, &inner, ALL, 0x1111_1111);
            stream.flush(engine.pipe());
            paint.run(&stream)?;
            let (head, end) = (guard as usize, memory.len() - guard as usize);
            for (what, start, bytes, word) in [
                ("before", 0, head, 0x6a6a_6a6a),
                ("inside", head, end - head, 0x1111_1111),
                ("behind", end, head, 0x6a6a_6a6a),
            ] {
                let part = memory
                    .part(start, bytes)
                    .map(|part| part.find_other_than(word));
                same(what, part, Some(None))?;
            }
            paint.device().unlock(node)?;
            Ok(paint.device().free(node)?)
        });
        suite.test("no draw reaches another process's memory", move || {
            others_memory_stays(&mut paint.borrow_mut())
        });
        suite.test(
            "colours survive another process's, loaded for the other engine",
            move || {
                let mut paint = paint.borrow_mut();
                if !has_3d(paint.client.identity()) {
                    return skip("this core has one engine");
                }
                colours_stay(&mut paint)
            },
        );
        suite.test("colours of refused commands do not stay", move || {
            refused_colours(&mut paint.borrow_mut())
        });
        suite.test("a pipe that the client does not claim stays", move || {
            let mut paint = paint.borrow_mut();
            if !has_3d(paint.client.identity()) {
                return skip("this core has one engine");
            }
            unclaimed_pipe_stays(&mut paint)
        });
        suite.test(
            "no draw of two threads reaches another process's memory",
            move || threads_agree(&mut paint.borrow_mut(), 20 * count),
        );
        let has_filter = paint.borrow().client.identity().chip_features & 1 << 20 == 0;
        suite.test("no source is read past the end of its memory", move || {
            reads_end(&mut paint.borrow_mut(), has_filter)
        });
        suite.test(
            format!("{} random copies read their memory", kicks / 10),
            move || random_copies_stay(&mut paint.borrow_mut(), kicks / 10),
        );
        suite.test(
            format!("{kicks} random draws stay in their memory"),
            move || random_draws_stay(&mut paint.borrow_mut(), kicks),
        );
        suite.test(
            format!("{count} random scenes are as the software draws them"),
            move || {
                let mut paint = paint.borrow_mut();
                for seed in 0..count {
                    let scene = random_scene(0x1234_5678 + seed * 7919);
                    let surfaces = draw::scene(&mut paint.client, &scene)?;
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
        suite.test("a commit behind a commit sees its pixels", move || {
            let mut paint = paint.borrow_mut();
            let source = paint.client.create_surface(16, 16)?;
            for round in 0..50 {
                let mut stream = Stream::new();
                engine.fill(&mut stream, &source, Rect::new(0, 0, 16, 16), round);
                stream.flush(engine.pipe());
                paint.commit(&stream, &mut Queue::new())?;
                let mut stream = Stream::new();
                let rect = Rect::new(round * 4, 0, 16, 16);
                engine.copy_all(&mut stream, &source, (0, 0), &paint.surface, &[rect], ALL);
                stream.flush(engine.pipe());
                paint.commit(&stream, &mut Queue::new())?;
            }
            paint.client.finish()?;
            for x in 0..200 {
                same(&format!("pixel {x}"), paint.surface.pixel(x, 8), x / 4)?;
            }
            Ok(paint.client.release_surface(source)?)
        });
        suite.run()
    })
}
