// SPDX-License-Identifier: GPL-2.0-only
//! Event queues: order, more queues than the hardware has events, deferred frees, every kind of record, invalid lists,
//! abnormal interrupts.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::timestamp::START;
use galcore_client::uapi::timestamp::STOP;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
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
            // Once the last signal is set, all earlier ones must be set.
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
    suite.test(
        "an interrupt or an event that is lost alone costs little",
        move || {
            let paint = paint.borrow();
            let ids = signals(&paint, 1)?;
            let mut longest = Duration::ZERO;
            for fault in [fault::DROP_INTERRUPTS, fault::LOSE_EVENTS] {
                for _ in 0..5 {
                    paint.device().stall()?;
                    let armed = control.arm(fault, 1);
                    let begin = Stopwatch::start();
                    paint.device().commit_queue(Queue::new().signal(ids[0]))?;
                    paint.device().wait_signal(ids[0], 10_000)?;
                    longest = longest.max(begin.elapsed());
                    drop(armed);
                }
            }
            println!("# at most {} ms", longest.as_millis());
            ensure!(longest < Duration::from_millis(500), "{longest:?}");
            destroy(&paint, &ids)
        },
    );
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
            let used = at_rest(ProcGc::used_now)?;
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
            let used = at_rest(ProcGc::used_now)?;
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
            let used = at_rest(ProcGc::used_now)?;
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
        let used = at_rest(ProcGc::used_now)?;
        for _ in 0..10 {
            let status = system::again(&["--leave"])?.status()?;
            same("child", status.code(), Some(0))?;
        }
        settles("KiB used", used, ProcGc::used_now)?;
        paint.borrow_mut().prove(0xff06_0606)
    });
}

fn record_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>, control: &'a Control) {
    suite.test(
        "WRITE_DATA into each kind of the caller's memory",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let make = |pool| -> Result<_> {
                let node = device.allocate(4096, 64, uapi::surface::BITMAP, pool)?;
                let location = device.lock(node)?;
                let memory = device.memory(node, location, paint.client.pool())?;
                Ok((node, location.address, memory))
            };
            let pool = make(Pool::SYSTEM)?;
            let pages = make(Pool::CONTIGUOUS)?;
            let scattered = make(Pool::VIRTUAL)?;
            let buffer = device.allocate_contiguous(4096)?;
            let user = user_page()?;
            let mapping = device.map_user(user.address(), 4096)?;
            // Also by its physical address, as the vendor's drivers report it.
            let base = device.base_address()?;
            let physical = |address: u32| match address >> 31 {
                0 => address + base,
                _ => address,
            };
            for (what, address, memory) in [
                ("pool", pool.1, &pool.2),
                ("contiguous pages", pages.1, &pages.2),
                ("virtual pages", scattered.1, &scattered.2),
                ("contiguous buffer", buffer.address, &buffer.memory),
                ("user memory", mapping.address, &user),
            ] {
                for offset in [0, 4, 2048, 4092] {
                    let value = 0xabcd_0000 | offset;
                    for at in [address + offset, physical(address + offset)] {
                        let mut queue = Queue::new();
                        queue.write_data(at, 1).write_data(at, value);
                        device.commit_queue(&mut queue).context(what)?;
                        device.stall()?;
                        harness::same_word(what, memory.read(offset as usize), value)?;
                        memory.write(offset as usize, 7);
                    }
                    memory.write(offset as usize, 0);
                    same(what, memory.find_other_than(0), None)?;
                }
            }
            let mut queue = Queue::new();
            queue.unmap_user(&mapping).free_contiguous(&buffer);
            for (node, ..) in [pool, pages, scattered] {
                if device.unlock(node)? {
                    queue.unlock(node);
                }
                queue.free(node);
            }
            device.commit_queue(&mut queue)?;
            Ok(device.stall()?)
        },
    );
    suite.test("WRITE_DATA: a GPU address is no physical one", move || {
        let paint = paint.borrow();
        let device = paint.device();
        let base = device.base_address()?;
        if !(1..=1 << 20).contains(&base) {
            return harness::skip("no node is as large as baseAddress");
        }
        let bytes = 2 * base;
        let node = device.allocate(bytes, 64, uapi::surface::BITMAP, Pool::VIRTUAL)?;
        let location = device.lock(node)?;
        let memory = device.memory(node, location, paint.client.pool())?;
        memory.write(0, 1);
        memory.write(base as usize, 1);
        device.commit_queue(Queue::new().write_data(location.address + base, 2))?;
        device.stall()?;
        same("where the address is", memory.read(base as usize), 2)?;
        same("so far before", memory.read(0), 1)?;
        device.unlock_all(node)?;
        Ok(device.free(node)?)
    });
    suite.test("WRITE_DATA to what the same list frees", move || {
        let paint = &mut *paint.borrow_mut();
        let armed = control.arm(fault::SLOW_DRAWS, 200_000);
        let stream = paint.fill_all(0x0a0a_0a0a);
        let device = paint.device();
        let make = || -> Result<_> {
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            device.lock(node)?;
            Ok(node)
        };
        // The memory that these free is released while the list waits for its slot.
        let nodes = [(); 10].map(|()| make());
        for node in nodes {
            let node = node?;
            let mut queue = Queue::new();
            queue.unlock(node).free(node);
            paint.commit(&stream, &mut queue)?;
        }
        let device = paint.device();
        let buffer = device.allocate_contiguous(4096)?;
        let user = user_page()?;
        let mapping = device.map_user(user.address(), 4096)?;
        let mut queue = Queue::new();
        queue
            .write_data(buffer.address, 1)
            .free_contiguous(&buffer)
            .write_data(mapping.address, 2)
            .unmap_user(&mapping);
        device.commit_queue(&mut queue)?;
        drop(armed);
        device.stall()?;
        same("user memory", user.read(0), 2)
    });
    suite.test(
        "WRITE_DATA anywhere else answers INVALID_ADDRESS",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            let address = device.lock(node)?.address;
            let buffer = device.allocate_contiguous(4096)?;
            let gone = device.allocate_contiguous(4096)?;
            device.free_contiguous(&gone)?;
            let unlocked = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            let last = device.lock(unlocked)?.address;
            device.unlock(unlocked)?;
            let id = signals(&paint, 1)?[0];
            let check = |what: &str, address: u32| -> Result<()> {
                let mut queue = Queue::new();
                queue.signal(id).write_data(address, 0xdead_beef);
                let status = device.send_queue(&mut queue)?;
                let what = format!("{what}: {address:#x}");
                same(&what, status, Status::INVALID_ADDRESS)?;
                device.stall()?;
                refused(&what, device.wait_signal(id, 0), Status::TIMEOUT)
            };
            for (what, address) in [
                ("address 0", 0),
                ("1 off", address + 1),
                ("2 off", address + 2),
                ("half in the buffer", buffer.address + 4094),
                ("a node that is not locked", last),
                ("a freed buffer", gone.address),
                ("the kernel's RAM", 0x4000_8000),
                ("the GPU's registers", 0x1000_0010),
                ("behind the MMU, where nothing is", 0xffff_fffc),
                ("the last word", u32::MAX),
            ] {
                check(what, address)?;
            }
            device.unlock(node)?;
            check("the node after UNLOCK", address)?;
            device.free(node)?;
            device.free(unlocked)?;
            device.free_contiguous(&buffer)?;
            destroy(&paint, &[id])
        },
    );
    suite.test(
        "WRITE_DATA beside the only memory of a process",
        move || {
            let status = system::again(&["--edges"])?.status()?;
            same("child", status.code(), Some(0))
        },
    );
    suite.test("TIMESTAMP measures what lies between", move || {
        let paint = paint.borrow();
        let device = paint.device();
        for timer in 0..8 {
            device.commit_queue(Queue::new().timestamp(timer, START))?;
            device.stall()?;
            std::thread::sleep(Duration::from_millis(30));
            refused(
                "before its stop",
                device.timer(timer),
                Status::TIMER_OVERFLOW,
            )?;
            device.commit_queue(Queue::new().timestamp(timer, STOP))?;
            device.stall()?;
            let time = device.timer(timer)?;
            ensure!(
                (29_000..3_000_000).contains(&time),
                "timer {timer}: {time} us for 30 ms"
            );
        }
        // Both in one queue run in order, so the time is not negative.
        for _ in 0..20 {
            let mut queue = Queue::new();
            queue.timestamp(3, START).timestamp(3, STOP);
            device.commit_queue(&mut queue)?;
            device.stall()?;
            let time = device.timer(3)?;
            ensure!((0..1_000_000).contains(&time), "{time} us for nothing");
        }
        // The driver skips a record with an unknown timer and executes the records after it.
        for (timer, request) in [(8, STOP), (8, START), (u32::MAX, START)] {
            let what = format!("timer {timer}, request {request}");
            device.commit_queue(Queue::new().timestamp(2, START))?;
            device.stall()?;
            let mut queue = Queue::new();
            queue.timestamp(timer, request).timestamp(2, STOP);
            same(&what, device.send_queue(&mut queue)?, Status::OK)?;
            device.stall()?;
            let time = device.timer(2).with_context(|| what.clone())?;
            ensure!((1..1_000_000).contains(&time), "{what}: {time} us");
        }
        Ok(())
    });
    suite.test(
        "UNMAP_USER_MEMORY ends a mapping behind the draw to it",
        move || {
            let mut paint = paint.borrow_mut();
            for round in 0..20 {
                let memory = user_page()?;
                let mapping = paint.device().map_user(memory.address(), 4096)?;
                let mut target = paint.surface.clone();
                target.location.address = mapping.address;
                (target.width, target.height, target.stride) = (64, 16, 256);
                let mut stream = Stream::new();
                let colour = 0xff08_0000 + round;
                let engine = paint.engine();
                engine.fill(&mut stream, &target, Rect::new(0, 0, 64, 16), colour);
                stream.flush(engine.pipe());
                paint.commit(&stream, Queue::new().unmap_user(&mapping))?;
                paint.client.finish()?;
                same("memory", memory.find_other_than(colour), None)?;
                refused(
                    "WRITE_DATA after",
                    paint
                        .device()
                        .commit_queue(Queue::new().write_data(mapping.address, 1)),
                    Status::INVALID_ADDRESS,
                )?;
            }
            Ok(())
        },
    );
}

fn negative_tests<'a>(suite: &mut Suite<'a>, paint: &'a RefCell<Paint>) {
    // The driver must refuse the list and not set a signal at its start.
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
        "a record that has no place in a queue is passed over",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            for command in [
                Command::QUERY_VIDEO_MEMORY,
                Command::ALLOCATE_LINEAR_VIDEO_MEMORY,
                Command::LOCK_VIDEO_MEMORY,
                Command::MAP_MEMORY,
                Command::EVENT_COMMIT,
                Command::USER_SIGNAL,
                Command::MAP_USER_MEMORY,
                Command::COMMIT,
                Command::WRITE_REGISTER,
                Command::SET_IDLE,
                Command(999),
                Command(u32::MAX),
            ] {
                let (first, last) = (device.create_signal(false)?, device.create_signal(false)?);
                let mut queue = Queue::new();
                queue.signal(first).push(&Interface::new(command));
                queue.signal(last);
                same(
                    &format!("{command}"),
                    device.send_queue(&mut queue)?,
                    Status::OK,
                )?;
                for signal in [first, last] {
                    device.wait_signal(signal, 5000)?;
                    device.destroy_signal(signal)?;
                }
            }
            let mut queue = Queue::new();
            for request in [2, 3, u32::MAX] {
                queue.timestamp(0, request);
            }
            Ok(device.commit_queue(&mut queue)?)
        },
    );
    suite.test(
        "records about what is gone or was never there are left out, the rest goes on",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let free = |node| {
                let payload = uapi::FreeVideoMemory { node };
                Interface::with(Command::FREE_VIDEO_MEMORY, &payload)
            };
            let unlock = |node| {
                let payload = uapi::UnlockVideoMemory {
                    node,
                    ..Default::default()
                };
                Interface::with(Command::UNLOCK_VIDEO_MEMORY, &payload)
            };
            let buffer = |command, physical| {
                let payload = uapi::FreeContiguousMemory {
                    bytes: 4096,
                    physical,
                    logical: 0x1000,
                };
                Interface::with(command, &payload)
            };
            let signal = |signal| {
                let payload = uapi::Signal {
                    signal,
                    process: 1,
                    ..Default::default()
                };
                Interface::with(Command::SIGNAL, &payload)
            };
            let unmap = |info| {
                let payload = uapi::UnmapUserMemory {
                    memory: 0x1000,
                    size: 4096,
                    info,
                    address: 0x8000_0000,
                };
                Interface::with(Command::UNMAP_USER_MEMORY, &payload)
            };
            let far = 0x7fff_ff00;
            let foreign = Foreign::start()?;
            let unlocked = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::CONTIGUOUS)?;
            let (contiguous, non_paged) = (
                Command::FREE_CONTIGUOUS_MEMORY,
                Command::FREE_NON_PAGED_MEMORY,
            );
            let ids = signals(&paint, 2)?;
            for (what, record) in [
                ("SIGNAL 0", signal(0)),
                ("SIGNAL unknown", signal(far)),
                ("SIGNAL huge", signal(1 << 32 | 1)),
                ("SIGNAL of another's", signal(foreign.signal() as u64)),
                ("FREE 0", free(0)),
                ("FREE unknown", free(far)),
                ("FREE of another's", free(foreign.node().handle)),
                ("UNLOCK 0", unlock(0)),
                ("UNLOCK unknown", unlock(far)),
                ("UNLOCK of another's", unlock(foreign.page_node().handle)),
                ("UNLOCK of what is not locked", unlock(unlocked.handle)),
                ("FREE_CONTIGUOUS unknown", buffer(contiguous, far as u32)),
                (
                    "FREE_CONTIGUOUS of another's",
                    buffer(contiguous, foreign.buffer()),
                ),
                ("FREE_CONTIGUOUS 0", buffer(contiguous, 0)),
                ("FREE_NON_PAGED unknown", buffer(non_paged, far as u32)),
                ("UNMAP_USER unknown", unmap(far as u32)),
                ("UNMAP_USER 0", unmap(0)),
                ("COMMIT_DONE", Interface::new(Command::COMMIT_DONE)),
            ] {
                let mut queue = Queue::new();
                queue.signal(ids[0]).push(&record).signal(ids[1]);
                same(what, device.send_queue(&mut queue)?, Status::OK)?;
                device.wait_signal(ids[1], 10_000).context(what)?;
                device.wait_signal(ids[0], 0).context(what)?;
                // A list that contains only this record is valid too.
                let mut queue = Queue::new();
                queue.push(&record);
                same(what, device.send_queue(&mut queue)?, Status::OK)?;
            }
            device.stall()?;
            device.lock(unlocked)?;
            if device.unlock(unlocked)? {
                device.commit_queue(Queue::new().unlock(unlocked).free(unlocked))?;
            }
            destroy(&paint, &ids)
        },
    );
    suite.test("what a list names twice goes once", move || {
        let paint = paint.borrow();
        let device = paint.device();
        let used = at_rest(ProcGc::used_now)?;
        for _ in 0..10 {
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            let buffer = device.allocate_contiguous(4096)?;
            let memory = user_page()?;
            let mapping = device.map_user(memory.address(), 4096)?;
            let mut queue = Queue::new();
            for _ in 0..3 {
                queue
                    .free(node)
                    .free_contiguous(&buffer)
                    .unmap_user(&mapping);
            }
            device.commit_queue(&mut queue)?;
            device.stall()?;
            refused("LOCK", device.lock(node), Status::INVALID_OBJECT)?;
            refused(
                "FREE_CONTIGUOUS",
                device.free_contiguous(&buffer),
                Status::NOT_FOUND,
            )?;
        }
        settles("KiB used", used, ProcGc::used_now)
    });
    suite.test(
        "a buffer and a mapping that a refused list would have taken stay",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let buffer = device.allocate_contiguous(4096)?;
            let memory = user_page()?;
            let mapping = device.map_user(memory.address(), 4096)?;
            let push = |queue: &mut Queue| {
                queue
                    .free_contiguous(&buffer)
                    .unmap_user(&mapping)
                    .write_data(0, 0);
            };
            refuse(&paint, "the list", push, Status::INVALID_ADDRESS)?;
            buffer.memory.write(4092, 0x1234_5678);
            let mut queue = Queue::new();
            queue
                .write_data(buffer.address, 1)
                .write_data(mapping.address, 2);
            device.commit_queue(&mut queue)?;
            device.stall()?;
            same("buffer", buffer.memory.read(0), 1)?;
            same("user memory", memory.read(0), 2)?;
            device.commit_queue(Queue::new().unmap_user(&mapping))?;
            Ok(device.free_contiguous(&buffer)?)
        },
    );
    suite.test(
        "a node that a refused list would have freed stays",
        move || {
            let paint = paint.borrow();
            let device = paint.device();
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
            let push = |queue: &mut Queue| {
                queue.free(node).write_data(0, 0);
            };
            refuse(&paint, "list with FREE", push, Status::INVALID_ADDRESS)?;
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
    suite.test(
        "a list that another thread rewrites meanwhile: one outcome or the other, no harm",
        move || changing_lists(&paint.borrow()),
    );
    suite.test("a list whose memory goes away meanwhile", move || {
        vanishing_lists(&paint.borrow())
    });
    suite.test("the next draw is right", move || {
        paint.borrow_mut().prove(0xff07_0707)
    });
}

/// A page of this process's memory.
fn user_page() -> Result<Memory> {
    Ok(Memory::new(Region::map(
        system::memory_file(4096)?,
        4096,
        0,
    )?))
}

/// Writes a record at byte offset `at`.
fn write_record(memory: &Memory, at: usize, next: u64, interface: &Interface) {
    memory.write(at, next as u32);
    memory.write(at + 4, (next >> 32) as u32);
    for (index, word) in words_of(interface).enumerate() {
        memory.write(at + 8 + index * 4, word);
    }
}

/// The words of a record's argument.
fn words_of(interface: &Interface) -> impl Iterator<Item = u32> + '_ {
    interface.bytes().chunks_exact(4).map(|word| {
        word.iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    })
}

/// Two threads share the memory of records: one submits them while the other changes them.
fn changing_lists(paint: &Paint) -> Result<()> {
    const RECORDS: usize = 8;
    const BYTES: usize = uapi::QUEUE_RECORD_SIZE;
    let device = paint.device();
    let used = at_rest(ProcGc::used_now)?;
    let violations = Control::open()?.violations();
    let ids = signals(paint, 1)?;
    let log = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
    let location = device.lock(log)?;
    let words = device.memory(log, location, paint.client.pool())?;
    let memory = user_page()?;
    let at = |index: usize| memory.address() + (index * BYTES) as u64;
    let mut seen = [0u32; 5];
    // The data that the records have contained. A record that is read while it is written may mix two kinds: its data
    // may then be any word that another kind has in that place.
    let mut written = std::collections::HashSet::new();
    for round in 0..40u32 {
        let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::SYSTEM)?;
        let buffer = device.allocate_contiguous(4096)?;
        let kinds: Vec<Interface> = vec![
            Interface::with(
                Command::SIGNAL,
                &uapi::Signal {
                    signal: ids[0] as u64,
                    process: std::process::id().into(),
                    ..Default::default()
                },
            ),
            Interface::with(
                Command::FREE_VIDEO_MEMORY,
                &uapi::FreeVideoMemory { node: node.handle },
            ),
            Interface::with(
                Command::FREE_CONTIGUOUS_MEMORY,
                &uapi::FreeContiguousMemory {
                    bytes: buffer.bytes,
                    physical: buffer.physical,
                    logical: buffer.logical,
                },
            ),
            Interface::with(
                Command::WRITE_DATA,
                &uapi::WriteData {
                    address: location.address + 8,
                    data: round,
                },
            ),
            Interface::with(
                Command::WRITE_DATA,
                &uapi::WriteData {
                    address: 0x4000_8000,
                    data: 0xdead_beef,
                },
            ),
            Interface::new(Command(999)),
        ];
        written.extend(kinds.iter().flat_map(words_of));
        let next = |random: &mut Random, index: usize| match random.below(12) {
            0 => 0x10,
            1 => at(random.below(RECORDS as u32) as usize),
            2 => 0,
            _ if index + 1 < RECORDS => at(index + 1),
            _ => 0,
        };
        for index in 0..RECORDS {
            let next = if index + 1 < RECORDS {
                at(index + 1)
            } else {
                0
            };
            write_record(&memory, index * BYTES, next, &kinds[0]);
        }
        let over = &AtomicBool::new(false);
        let (memory, kinds, next) = (&memory, &kinds, &next);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = Random::new(round * 77 + 5);
                while !over.load(Ordering::Relaxed) {
                    let index = random.below(RECORDS as u32) as usize;
                    // Mostly harmless records, so that the driver accepts some lists.
                    let kind = match random.below(3) {
                        0 => random.below(kinds.len() as u32) as usize,
                        _ => 0,
                    };
                    let next = next(&mut random, index);
                    write_record(memory, index * BYTES, next, &kinds[kind]);
                }
            });
            let mut go = || -> Result<()> {
                for _ in 0..40 {
                    let event = uapi::Event { queue: at(0) };
                    let (status, _) = device.send(Command::EVENT_COMMIT, &event)?;
                    let index = match status {
                        Status::OK => 0,
                        Status::INVALID_ARGUMENT => 1,
                        Status::OUT_OF_RESOURCES => 2,
                        Status::INVALID_DATA => 3,
                        Status::INVALID_ADDRESS => 4,
                        other => anyhow::bail!("EVENT_COMMIT: {other}"),
                    };
                    seen[index] += 1;
                }
                Ok(())
            };
            let result = go();
            over.store(true, Ordering::Relaxed);
            result
        })?;
        device.stall()?;
        for (what, result) in [
            ("FREE", device.free(node)),
            ("FREE_CONTIGUOUS", device.free_contiguous(&buffer)),
        ] {
            let status = result.err().and_then(|error| error.status());
            ensure!(
                matches!(
                    status,
                    None | Some(Status::INVALID_DATA | Status::NOT_FOUND)
                ),
                "{what} after it: {status:?}"
            );
        }
        let last = words.read(8);
        ensure!(
            last == 0 || written.contains(&last),
            "the word is {last:#x} in round {round}, which nobody has written"
        );
    }
    println!(
        "# {} accepted; refused: kind {}, unreadable {}, endless {}, address {}",
        seen[0], seen[1], seen[2], seen[3], seen[4]
    );
    ensure!(
        seen[0] > 0 && seen[1..].iter().sum::<u32>() > 0,
        "only one outcome"
    );
    same("the word before", words.read(0), 0)?;
    device.unlock(log)?;
    device.free(log)?;
    destroy(paint, &ids)?;
    device.stall()?;
    settles("KiB used", used, ProcGc::used_now)?;
    same("violations", Control::open()?.violations(), violations)
}

/// Lists in a file that is truncated while the driver reads them.
fn vanishing_lists(paint: &Paint) -> Result<()> {
    let device = paint.device();
    let id = signals(paint, 1)?[0];
    let mut seen = [0u32; 2];
    for _ in 0..20 {
        let file = system::memory_file(8192)?;
        let memory = Memory::new(Region::map(&file, 8192, 0)?);
        let record = Interface::with(
            Command::SIGNAL,
            &uapi::Signal {
                signal: id as u64,
                process: std::process::id().into(),
                ..Default::default()
            },
        );
        // The second record crosses the end of the page.
        let second = 4096 - 80;
        write_record(&memory, 0, memory.address() + second as u64, &record);
        write_record(&memory, second, 0, &record);
        let event = uapi::Event {
            queue: memory.address(),
        };
        std::thread::scope(|scope| {
            let cutter = scope.spawn(|| file.set_len(4096));
            for _ in 0..20 {
                match device.send(Command::EVENT_COMMIT, &event)?.0 {
                    Status::OK => seen[0] += 1,
                    Status::OUT_OF_RESOURCES => seen[1] += 1,
                    other => anyhow::bail!("EVENT_COMMIT: {other}"),
                }
            }
            cutter.join().expect("no panic")?;
            Ok(())
        })?;
        let status = device.send(Command::EVENT_COMMIT, &event)?.0;
        same("with half of it gone", status, Status::OUT_OF_RESOURCES)?;
        file.set_len(0)?;
        let status = device.send(Command::EVENT_COMMIT, &event)?.0;
        same("with all of it gone", status, Status::OUT_OF_RESOURCES)?;
    }
    println!("# {} accepted, {} refused", seen[0], seen[1]);
    device.stall()?;
    Ok(device.destroy_signal(id)?)
}

/// A process with only one buffer.
fn edges() -> Result<()> {
    let device = Device::open()?;
    let buffer = device.allocate_contiguous(4096)?;
    for (offset, wanted) in [
        (0, Status::OK),
        (4092, Status::OK),
        (-4, Status::INVALID_ADDRESS),
        (4096, Status::INVALID_ADDRESS),
    ] {
        let address = buffer.address.wrapping_add_signed(offset);
        let mut queue = Queue::new();
        queue.write_data(address, 0x55);
        let status = device.send_queue(&mut queue)?;
        same(&format!("offset {offset}"), status, wanted)?;
    }
    Ok(device.stall()?)
}

/// A process that commits, queues frees and a signal, and exits at once.
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
    if std::env::args().nth(1).as_deref() == Some("--edges") {
        return match edges() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("# child: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    harness::program(|| {
        let paint = RefCell::new(Paint::new()?);
        let control = Control::open()?;
        let mut suite = Suite::new();
        order_tests(&mut suite, &paint);
        interrupt_tests(&mut suite, &paint, &control);
        deferred_tests(&mut suite, &paint);
        record_tests(&mut suite, &paint, &control);
        negative_tests(&mut suite, &paint);
        if let Some(part) = Options::parse(&["part"])?.get("part") {
            suite.only(part);
        }
        suite.run()
    })
}
