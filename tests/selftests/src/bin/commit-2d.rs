// SPDX-License-Identifier: GPL-2.0-only
//! Pixels of the 2D engine: clears, clipping, copies, lines; random scenes against the software rendering.

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::draw;
use galcore_client::draw::Engine;
use galcore_client::render;
use galcore_client::scene::Op;
use galcore_client::scene::Scene;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;

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

/// What another process's memory holds.
const THEIRS: u32 = 0x0ddb_a115;

/// Another process, with memory of its own.
fn be_other(_: &'static Abi) -> Result<()> {
    let client = Client::start()?;
    let device = client.device();
    let mut nodes = Vec::new();
    other::serve(|words| match *words {
        ["take"] => {
            let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, client.pool())?;
            memory.fill(THEIRS);
            nodes.push(memory);
            Ok(location.address.to_string())
        }
        ["intact"] => {
            let changed = nodes.iter().filter_map(|own| own.find_other_than(THEIRS));
            Ok(format!("{:x?}", changed.collect::<Vec<_>>()))
        }
        // It leaves the 2D engine in another state.
        ["draw"] => {
            let mut paint = Paint::new()?;
            paint.prove(0xff00_7007)?;
            Ok("drawn".to_string())
        }
        _ => bail!("{words:?}?"),
    })
}

/// Bytes of a node.
const BYTES: u32 = 0x4000;

/// Loads all of the target's states but its address: 4 columns and 2 rows that are `stride` apart.
fn target_states(stream: &mut Stream, stride: u32, command: u32) {
    let corner = 2 << 16 | 4;
    stream
        .states(0x122c, &[stride, 0, command << 12 | 6])
        // A pattern of one colour; all of the window.
        .state(0x123c, 0)
        .states(0x1250, &[THEIRS + 1, THEIRS + 1])
        .states(state::DE_ROP, &[3 << 20 | 0xf0f0, 0, corner])
        .states(
            state::DE_CLEAR_BYTE_MASK,
            &[0xff, 0, THEIRS + 1, THEIRS + 1],
        )
        .state(state::DE_CLEAR_PIXEL_VALUE32, THEIRS + 1)
        .state(state::DE_ALPHA_CONTROL, 0)
        .states(0x12a8, &[0, corner])
        .state(0x12b4, 2)
        .state(0x12bc, 0)
        .state(state::DE_PE_TRANSPARENCY, 0)
        .states(0x12e8, &[u32::MAX; 2]);
}

/// Draws whose second row would begin in another process's memory are refused, in one COMMIT and over several; what
/// is drawn after them is as ever.
fn others_memory_stays(paint: &mut Paint) -> Result<()> {
    let mut other = Other::start(paint.device().abi())?;
    let device = paint.client.device();
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
        let location = device.lock(node)?;
        let memory = device.memory(node, location, paint.client.pool())?;
        memory.fill(0);
        own.push((node, location.address, memory));
        theirs.push(other.ask("take")?.parse::<u32>()?);
    }
    let mut pairs = own
        .iter()
        .flat_map(|own| theirs.iter().map(move |to| (own, to)));
    let near = |from: u32, to: u32| to.checked_sub(from).filter(|far| *far < 0x3_0000);
    let found = pairs.find_map(|(own, &to)| Some((own, near(own.1, to)?)));
    let ((_, address, memory), far) = found.context("no node of theirs comes after one of ours")?;
    let buffer = device.allocate_contiguous(0x4000)?;
    let send = |stream: &Stream| -> Result<Status> {
        let record = place(&buffer, 0, Pipe::Pipe2d, stream);
        let status = device.send_commit(&record, 0, &mut Queue::new())?;
        device.stall()?;
        Ok(status)
    };
    let kick = |stream: &mut Stream, command: u32| {
        match command {
            // The filter.
            5 => stream.state(0x1294, 0),
            _ => stream.draw_2d(&[(0, 2 << 16 | 4)]),
        };
        stream.flush(Pipe::Pipe2d);
    };
    for command in [0, 1, 2, 4, 5] {
        let mut stream = Stream::new();
        stream.state(state::DE_DEST_ADDRESS, *address);
        target_states(&mut stream, far, command);
        kick(&mut stream, command);
        let what = format!("command {command}, a row {far:#x} bytes after the other");
        same(&what, send(&stream)?, Status::INVALID_DATA)?;
        // What says so may have been loaded before.
        let mut bare = Stream::new();
        kick(&mut bare, command);
        let mut states = Stream::new();
        states.state(state::DE_DEST_ADDRESS, *address);
        target_states(&mut states, far, command);
        same("states alone", send(&states)?, Status::OK)?;
        same("a draw alone", send(&bare)?, Status::INVALID_DATA)?;
        ensure!(memory.read(0) != THEIRS + 1, "{what} was begun");
        same("their memory", other.ask("intact")?.as_str(), "[]")?;
        // With rows that are in its own memory all goes, states and draw apart, whatever another process draws between.
        let mut states = Stream::new();
        states.state(state::DE_DEST_ADDRESS, *address);
        target_states(&mut states, 64, 0);
        same("states alone", send(&states)?, Status::OK)?;
        same("it", other.ask("draw")?.as_str(), "drawn")?;
        let mut fill = Stream::new();
        fill.states(state::DE_CLEAR_BYTE_MASK, &[0xff, 0, command, command])
            .state(state::DE_CLEAR_PIXEL_VALUE32, command);
        kick(&mut fill, 0);
        same("a draw alone", send(&fill)?, Status::OK)?;
        for place in [0, 12, 64, 76] {
            same("a pixel", memory.read(place), command)?;
        }
        same("beside it", memory.read(16), 0)?;
    }
    device.free_contiguous(&buffer)?;
    for (node, ..) in own {
        device.unlock_all(node)?;
        device.free(node)?;
    }
    paint.prove(0xff04_0506)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 10)?;
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
                match clip.contains(x, y) && rects.iter().any(|rect| rect.contains(x, y)) {
                    true => 0xffee_dd00,
                    false => 0xff00_0002,
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
                paint.expect(|x, y| match rect.contains(x, y) && clip.contains(x, y) {
                    true => 0xff00_0000 | (y - 50 + 20) << 8 | (x - 100 + 10),
                    false => 0xff00_0003,
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
