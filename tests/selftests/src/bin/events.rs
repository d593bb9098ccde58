// SPDX-License-Identifier: GPL-2.0-only
//! Event queues: order, more of them than the hardware has events, deferred frees, bad lists, odd interrupts.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use gpu_control::fault;

/// A stream that keeps the GPU busy for a while and ends with `colour` everywhere.
fn long(paint: &Paint, fills: u32, colour: u32) -> Stream {
    let mut stream = Stream::new();
    let all = Rect::new(0, 0, WIDTH, HEIGHT);
    for index in 0..fills {
        paint.engine().fill(
            &mut stream,
            &paint.surface,
            all,
            0x0101_0101 * (index & 0x7f),
        );
    }
    paint
        .engine()
        .fill(&mut stream, &paint.surface, all, colour);
    stream.flush(paint.engine().pipe());
    stream
}

fn signals(paint: &Paint, count: usize) -> Result<Vec<i32>> {
    Ok((0..count)
        .map(|_| paint.device().create_signal(false))
        .collect::<Result<_, _>>()?)
}

fn destroy(paint: &Paint, ids: &[i32]) -> Result<()> {
    for id in ids {
        paint.device().destroy_signal(*id)?;
    }
    Ok(())
}

fn order_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>) {
    suite.test("an empty queue and no queue are fine", move || {
        let paint = paint.borrow();
        paint.device().commit_queue(&mut Queue::new())?;
        Ok(paint.device().stall()?)
    });
    suite.test(
        "a signal of a queue comes after what was committed before",
        move || {
            let mut paint = paint.borrow_mut();
            let ids = signals(&paint, 1)?;
            for round in 1..=10 {
                let colour = 0xff00_0000 + round;
                let stream = long(&paint, 40, colour);
                paint.commit(&stream, &mut Queue::new())?;
                paint.device().commit_queue(Queue::new().signal(ids[0]))?;
                paint.device().wait_signal(ids[0], 10_000)?;
                paint.expect(|_, _| colour)?;
            }
            destroy(&paint, &ids)
        },
    );
    suite.test(
        "a signal of COMMIT's own queue comes after that buffer",
        move || {
            let mut paint = paint.borrow_mut();
            let ids = signals(&paint, 1)?;
            for round in 1..=10 {
                let colour = 0xff00_1000 + round;
                let stream = long(&paint, 40, colour);
                paint.commit(&stream, Queue::new().signal(ids[0]))?;
                paint.device().wait_signal(ids[0], 10_000)?;
                paint.expect(|_, _| colour)?;
            }
            destroy(&paint, &ids)
        },
    );
    suite.test("records and queues run in order", move || {
        let paint = paint.borrow();
        let ids = signals(&paint, 16)?;
        for _ in 0..20 {
            for pair in ids.chunks(2) {
                paint
                    .device()
                    .commit_queue(Queue::new().signal(pair[0]).signal(pair[1]))?;
            }
            // When the last has come, all before it must have.
            paint.device().wait_signal(ids[15], 10_000)?;
            for id in &ids[..15] {
                paint
                    .device()
                    .wait_signal(*id, 0)
                    .with_context(|| format!("signal {id} of {ids:?}"))?;
            }
        }
        destroy(&paint, &ids)
    });
    suite.test("STALL waits for everything", move || {
        let mut paint = paint.borrow_mut();
        let ids = signals(&paint, 1)?;
        for round in 1..=5 {
            let colour = 0xff00_2000 + round;
            let stream = long(&paint, 60, colour);
            paint.commit(&stream, Queue::new().signal(ids[0]))?;
            paint.device().stall()?;
            paint
                .device()
                .wait_signal(ids[0], 0)
                .context("the signal before STALL's end")?;
            paint.expect(|_, _| colour)?;
        }
        destroy(&paint, &ids)
    });
    suite.test(
        "200 commits with a signal each, none waited for in between",
        move || {
            let mut paint = paint.borrow_mut();
            let ids = signals(&paint, 200)?;
            for (index, id) in ids.iter().enumerate() {
                let stream = paint.fill_cell(index as u32, 0xff03_0000 + index as u32);
                paint.commit(&stream, Queue::new().signal(*id))?;
            }
            for id in &ids {
                paint.device().wait_signal(*id, 10_000)?;
            }
            ensure!(CELLS >= 200);
            let rest = paint.surface.pixel(WIDTH - 1, HEIGHT - 1);
            paint.expect(|x, y| match cell_of(x, y) {
                drawn if drawn < 200 => 0xff03_0000 + drawn,
                _ => rest,
            })?;
            destroy(&paint, &ids)
        },
    );
}

fn interrupt_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>, control: &'a Control) {
    suite.test(
        "100 queues under way at once, while interrupts come late",
        move || {
            let paint = paint.borrow();
            let ids = signals(&paint, 100)?;
            let armed = control.arm(fault::DELAY_INTERRUPTS, 20_000);
            for id in &ids {
                paint.device().commit_queue(Queue::new().signal(*id))?;
            }
            for id in &ids {
                paint.device().wait_signal(*id, 20_000)?;
            }
            drop(armed);
            destroy(&paint, &ids)
        },
    );
    suite.test("a lost interrupt is made up for by the next", move || {
        let paint = paint.borrow();
        let ids = signals(&paint, 2)?;
        paint.device().stall()?;
        let armed = control.arm(fault::DROP_INTERRUPTS, 1);
        paint.device().commit_queue(Queue::new().signal(ids[0]))?;
        std::thread::sleep(Duration::from_millis(50));
        paint.device().commit_queue(Queue::new().signal(ids[1]))?;
        paint.device().wait_signal(ids[1], 10_000)?;
        paint
            .device()
            .wait_signal(ids[0], 0)
            .context("the one whose interrupt was lost")?;
        drop(armed);
        destroy(&paint, &ids)
    });
    suite.test("interrupts with nothing pending do no harm", move || {
        let paint = paint.borrow();
        let ids = signals(&paint, 1)?;
        let armed = control.arm(fault::SPURIOUS_INTERRUPTS, 5);
        for _ in 0..20 {
            paint.device().commit_queue(Queue::new().signal(ids[0]))?;
            paint.device().wait_signal(ids[0], 10_000)?;
        }
        std::thread::sleep(Duration::from_millis(30));
        drop(armed);
        let armed = control.arm(fault::DUPLICATE_INTERRUPTS, 5);
        for _ in 0..20 {
            paint.device().commit_queue(Queue::new().signal(ids[0]))?;
            paint.device().wait_signal(ids[0], 10_000)?;
        }
        drop(armed);
        destroy(&paint, &ids)
    });
}

fn deferred_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>) {
    suite.test(
        "a node freed by a queue is there until the GPU is done with it",
        move || {
            let mut paint = paint.borrow_mut();
            let used = ProcGc::used_now()?;
            for round in 0..10 {
                let surface = paint.client.create_surface(WIDTH, HEIGHT)?;
                let mut stream = long(&paint, 30, 0xff04_0000 + round);
                paint
                    .engine()
                    .fill(&mut stream, &surface, Rect::new(0, 0, WIDTH, HEIGHT), round);
                stream.flush(paint.engine().pipe());
                same("asynchroneous", paint.device().unlock(surface.node)?, false)?;
                paint.commit(&stream, Queue::new().free(surface.node))?;
            }
            paint.client.finish()?;
            settles("KiB used", used, ProcGc::used_now)?;
            paint.expect(|_, _| 0xff04_0009)
        },
    );
    suite.test(
        "page-backed nodes are drawn to, unlocked and freed in one queue",
        move || {
            let mut paint = paint.borrow_mut();
            let used = ProcGc::used_now()?;
            for round in 0..10 {
                let surface = paint
                    .client
                    .create_surface_in(WIDTH, HEIGHT, Pool::CONTIGUOUS)?;
                same("pool", surface.node.pool, Pool::CONTIGUOUS)?;
                let mut stream = Stream::new();
                let all = Rect::new(0, 0, WIDTH, HEIGHT);
                paint
                    .engine()
                    .fill(&mut stream, &surface, all, 0xff05_0000 + round);
                stream.flush(paint.engine().pipe());
                paint.run(&stream)?;
                galcore_selftests::fixture::expect_pixels(&surface, |_, _| 0xff05_0000 + round)?;
                same("asynchroneous", paint.device().unlock(surface.node)?, true)?;
                let mut queue = Queue::new();
                queue.unlock(surface.node).free(surface.node);
                paint.device().commit_queue(&mut queue)?;
                paint.client.finish()?;
                refused(
                    "LOCK after",
                    paint.device().lock(surface.node),
                    Status::INVALID_OBJECT,
                )?;
            }
            settles("KiB used", used, ProcGc::used_now)
        },
    );
    suite.test(
        "buffers freed by a queue go, and their handles with them",
        move || {
            let paint = paint.borrow();
            let used = ProcGc::used_now()?;
            for _ in 0..10 {
                let contiguous = paint.device().allocate_contiguous(0x1_0000)?;
                let non_paged = paint.device().allocate_non_paged(0x1_0000)?;
                let mut queue = Queue::new();
                queue
                    .free_contiguous(&contiguous)
                    .free_non_paged(&non_paged);
                paint.device().commit_queue(&mut queue)?;
                paint.client.finish()?;
                refused(
                    "FREE_CONTIGUOUS after",
                    paint.device().free_contiguous(&contiguous),
                    Status::NOT_FOUND,
                )?;
                refused(
                    "FREE_NON_PAGED after",
                    paint.device().free_non_paged(&non_paged),
                    Status::NOT_FOUND,
                )?;
            }
            settles("KiB used", used, ProcGc::used_now)
        },
    );
    suite.test("processes that end with queues under way", move || {
        let used = ProcGc::used_now()?;
        for _ in 0..10 {
            let status = system::again(&["--leave"])?.status()?;
            same("child", status.code(), Some(0))?;
        }
        settles("KiB used", used, ProcGc::used_now)?;
        paint.borrow_mut().prove(0xff06_0606)
    });
}

fn negative_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>) {
    // The list must be refused, and a signal at its head must not come.
    fn refuse(paint: &Paint, what: &str, build: impl Fn(&mut Queue), wanted: Status) -> Result<()> {
        let device = paint.device();
        let id = device.create_signal(false)?;
        let mut queue = Queue::new();
        queue.signal(id);
        build(&mut queue);
        same(what, device.send_queue(&mut queue)?, wanted)?;
        device.stall()?;
        refused(
            &format!("{what}: signal before it"),
            device.wait_signal(id, 0),
            Status::TIMEOUT,
        )?;
        Ok(device.destroy_signal(id)?)
    }

    suite.test(
        "a record that no queue may hold refuses the whole list",
        move || {
            let paint = paint.borrow();
            for command in [
                Command::QUERY_VIDEO_MEMORY,
                Command::ALLOCATE_LINEAR_VIDEO_MEMORY,
                Command::LOCK_VIDEO_MEMORY,
                Command::MAP_MEMORY,
                Command::EVENT_COMMIT,
                Command::USER_SIGNAL,
                Command::WRITE_DATA,
                Command::COMMIT,
                Command::WRITE_REGISTER,
                Command::SET_IDLE,
                Command(999),
                Command(u32::MAX),
            ] {
                let push = |queue: &mut Queue| {
                    queue.push(&Interface::new(command));
                };
                refuse(
                    &paint,
                    &format!("{command}"),
                    push,
                    Status::INVALID_ARGUMENT,
                )?;
            }
            Ok(())
        },
    );
    suite.test(
        "an unknown handle refuses the whole list, with the direct command's status",
        move || {
            let paint = paint.borrow();
            let free = |node| uapi::FreeVideoMemory { node };
            let unlock = |node| uapi::UnlockVideoMemory {
                node,
                ..Default::default()
            };
            let buffer = |physical| uapi::FreeContiguousMemory {
                bytes: 4096,
                physical,
                logical: 0x1000,
            };
            let signal = |signal| uapi::Signal {
                signal,
                process: 1,
                ..Default::default()
            };
            let far = 0x7fff_ff00;
            let (invalid, unknown) = (Status::INVALID_OBJECT, Status::NOT_FOUND);
            for (what, record, wanted) in [
                (
                    "SIGNAL 0",
                    Interface::with(Command::SIGNAL, &signal(0)),
                    unknown,
                ),
                (
                    "SIGNAL unknown",
                    Interface::with(Command::SIGNAL, &signal(far)),
                    unknown,
                ),
                (
                    "SIGNAL huge",
                    Interface::with(Command::SIGNAL, &signal(1 << 32 | 1)),
                    unknown,
                ),
                (
                    "FREE 0",
                    Interface::with(Command::FREE_VIDEO_MEMORY, &free(0)),
                    invalid,
                ),
                (
                    "FREE unknown",
                    Interface::with(Command::FREE_VIDEO_MEMORY, &free(far)),
                    Status::INVALID_DATA,
                ),
                (
                    "UNLOCK 0",
                    Interface::with(Command::UNLOCK_VIDEO_MEMORY, &unlock(0)),
                    invalid,
                ),
                (
                    "UNLOCK unknown",
                    Interface::with(Command::UNLOCK_VIDEO_MEMORY, &unlock(far)),
                    invalid,
                ),
                (
                    "FREE_CONTIGUOUS unknown",
                    Interface::with(Command::FREE_CONTIGUOUS_MEMORY, &buffer(far as u32)),
                    unknown,
                ),
                (
                    "FREE_NON_PAGED unknown",
                    Interface::with(Command::FREE_NON_PAGED_MEMORY, &buffer(far as u32)),
                    unknown,
                ),
                (
                    "FREE_CONTIGUOUS 0",
                    Interface::with(Command::FREE_CONTIGUOUS_MEMORY, &buffer(0)),
                    Status::INVALID_ARGUMENT,
                ),
            ] {
                let push = |queue: &mut Queue| {
                    queue.push(&record);
                };
                refuse(&paint, what, push, wanted)?;
            }
            Ok(())
        },
    );
    suite.test(
        "a node that a refused list would have freed stays",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            let push = |queue: &mut Queue| {
                queue.free(node).push(&Interface::new(Command(999)));
            };
            refuse(&paint, "list with FREE", push, Status::INVALID_ARGUMENT)?;
            device.lock(node)?;
            device.unlock(node)?;
            Ok(device.free(node)?)
        },
    );
    suite.test("a list that never ends answers INVALID_DATA", move || {
        let paint = paint.borrow();
        let device = paint.device();
        let id = device.create_signal(false)?;
        for (records, target) in [(1, 0), (3, 0), (3, 1), (3, 2)] {
            let mut queue = Queue::new();
            for _ in 0..records {
                queue.signal(id);
            }
            let back = queue.address(target);
            queue.set_ending(back);
            let what = format!("{records} records that go back to {target}");
            same(&what, device.send_queue(&mut queue)?, Status::INVALID_DATA)?;
        }
        device.stall()?;
        refused("signal in it", device.wait_signal(id, 0), Status::TIMEOUT)?;
        Ok(device.destroy_signal(id)?)
    });
    suite.test(
        "4096 records are fine, 4097 answer INVALID_DATA",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let id = device.create_signal(false)?;
            let mut queue = Queue::new();
            for _ in 0..4097 {
                queue.signal(id);
            }
            same(
                "4097 records",
                device.send_queue(&mut queue)?,
                Status::INVALID_DATA,
            )?;
            device.stall()?;
            refused("signal in it", device.wait_signal(id, 0), Status::TIMEOUT)?;
            let mut queue = Queue::new();
            for _ in 0..4096 {
                queue.signal(id);
            }
            same("4096 records", device.send_queue(&mut queue)?, Status::OK)?;
            device.wait_signal(id, 10_000)?;
            device.stall()?;
            Ok(device.destroy_signal(id)?)
        },
    );
    suite.test(
        "a record that cannot be read answers OUT_OF_RESOURCES",
        move || {
            let paint = paint.borrow();
            for address in [0x10, 0xffff_f000, 0xc000_0000, 0x7fff_ffff_ffff_f000] {
                let event = uapi::Event { queue: address };
                let (status, _) = paint.device().send(Command::EVENT_COMMIT, &event)?;
                same(
                    &format!("first record at {address:#x}"),
                    status,
                    Status::OUT_OF_RESOURCES,
                )?;
                let push = |queue: &mut Queue| {
                    queue.set_ending(address);
                };
                refuse(
                    &paint,
                    &format!("second record at {address:#x}"),
                    push,
                    Status::OUT_OF_RESOURCES,
                )?;
            }
            Ok(())
        },
    );
    suite.test("the next draw is right", move || {
        paint.borrow_mut().prove(0xff07_0707)
    });
}

/// A process that commits, queues frees and a signal behind it, and just ends.
fn leave() -> ExitCode {
    let go = || -> Result<()> {
        let mut paint = Paint::new()?;
        let id = paint.device().create_signal(false)?;
        let stream = long(&paint, 60, 1);
        let node = paint.surface.node;
        paint.device().unlock(node)?;
        let buffer = paint.device().allocate_contiguous(0x8000)?;
        paint.commit(
            &stream,
            Queue::new().free(node).free_contiguous(&buffer).signal(id),
        )
    };
    match go() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--leave") {
        return leave();
    }
    harness::program(|| {
        let paint = RefCell::new(Paint::new()?);
        let control = Control::open()?;
        let mut suite = Suite::new();
        order_tests(&mut suite, &paint);
        interrupt_tests(&mut suite, &paint, &control);
        deferred_tests(&mut suite, &paint);
        negative_tests(&mut suite, &paint);
        suite.run()
    })
}
