// SPDX-License-Identifier: GPL-2.0-only
//! The completion page: submission numbers, the page's contents, and permission to map it.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Completion;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::uapi::COMPLETION_OFFSET;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use gpu_control::fault;
use rustix::time::clock_gettime;
use rustix::time::ClockId;

/// The value of the header's handle before a request. No submission number gets as large.
const MARK: u64 = 0x1234_5678_9abc_def0;

/// CLOCK_MONOTONIC in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Submits a queue with one signal; returns the submission number.
fn submit(device: &Device, signal: i32) -> Result<u64> {
    let (status, number) = device.send_numbered(Queue::new().signal(signal), MARK)?;
    same("EVENT_COMMIT", status, Status::OK)?;
    Ok(number)
}

/// Sends a COMMIT of a stream; returns the status and the header's handle.
fn commit(device: &Device, record: &uapi::CommandBufferRecord) -> Result<(Status, u64)> {
    use uapi::Wire;
    let mut bytes = [0; uapi::CommandBufferRecord::SIZE];
    record.put(&mut bytes);
    let commit = uapi::Commit {
        command_buffer: bytes.as_ptr() as usize as u64,
        ..Default::default()
    };
    let mut interface = Interface::with(Command::COMMIT, &commit);
    interface.set_handle(MARK);
    let status = device.exchange(&mut interface)?;
    Ok((status, interface.handle()))
}

/// The other process, which has submission numbers of its own.
fn child() -> Result<()> {
    let device = Device::open()?;
    let signal = device.create_signal(false)?;
    same("number before", submit(&device, signal)?, MARK)?;
    let page = device.map_completion()?;
    same("number after", submit(&device, signal)?, 1)?;
    device.stall()?;
    same("page", page.read().number, 1)
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--child") {
        return match child() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("# child: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 500)?;
        harness::allow(Duration::from_millis(u64::from(count) * 100));
        let paint = &RefCell::new(Paint::new()?);
        let control = &Control::open()?;
        let signal = paint.borrow().device().create_signal(false)?;
        let page: &RefCell<Option<Completion>> = &RefCell::new(None);
        let mut suite = Suite::new();
        suite.test(
            "before it is mapped, requests come back as they were",
            move || {
                let paint = paint.borrow();
                for _ in 0..3 {
                    same("handle", submit(paint.device(), signal)?, MARK)?;
                    paint.device().wait_signal(signal, 10_000)?;
                }
                Ok(())
            },
        );
        suite.test("it cannot be mapped for writing", move || {
            let paint = paint.borrow();
            let result = Region::map(paint.device(), 4096, COMPLETION_OFFSET);
            ensure!(result.is_err(), "mmap for reading and writing worked");
            println!("# {}", result.err().context("no error")?);
            // The refused attempts do not count as mappings.
            same("handle", submit(paint.device(), signal)?, MARK)?;
            paint.device().wait_signal(signal, 10_000)?;
            Ok(())
        });
        suite.test("mapped, it says: none yet", move || {
            let paint = paint.borrow();
            let mapped = paint.device().map_completion()?;
            let read = mapped.read();
            same("number", read.number, 0)?;
            same("sequence", read.sequence % 2, 0)?;
            same("version, slots", mapped.head(), (1, 4))?;
            let slot = Completion::SLOT..Completion::SLOT + 24;
            for at in (8..4096).step_by(4).filter(|at| !slot.contains(at)) {
                same("the rest of the page", mapped.region.read(at), 0)?;
            }
            *page.borrow_mut() = Some(mapped);
            Ok(())
        });
        let read = move || {
            page.borrow()
                .as_ref()
                .map(Completion::read)
                .context("no page")
        };
        suite.test("it cannot be made writable, nor mapped longer", move || {
            let page = page.borrow();
            let page = page.as_ref().context("no page")?;
            ensure!(page.region.make_writable().is_err(), "mprotect worked");
            page.region.read(0);
            let paint = paint.borrow();
            let longer = Region::map_read_only(paint.device(), 8192, COMPLETION_OFFSET);
            ensure!(longer.is_err(), "mmap of two pages worked");
            let behind = Region::map_read_only(paint.device(), 4096, COMPLETION_OFFSET + 4096);
            ensure!(behind.is_err(), "mmap of the page behind it worked");
            Ok(())
        });
        suite.test("numbers go up by one, and the page follows", move || {
            let paint = paint.borrow();
            let mut last = read()?;
            for number in 1..=u64::from(count) {
                let before = now();
                same("number", submit(paint.device(), signal)?, number)?;
                paint.device().wait_signal(signal, 10_000)?;
                let read = read()?;
                let after = now();
                same("page when the signal has come", read.number, number)?;
                ensure!(
                    (before..=after).contains(&read.timestamp),
                    "time {} is not in {before}..{after}",
                    read.timestamp
                );
                ensure!(read.sequence != last.sequence, "the sequence stands still");
                last = read;
            }
            Ok(())
        });
        suite.test("an event without a system call is seen", move || {
            let paint = paint.borrow();
            for _ in 0..20 {
                let number = submit(paint.device(), signal)?;
                let begin = Stopwatch::start();
                while read()?.number < number {
                    ensure!(!begin.is_over(Duration::from_secs(5)), "not within 5 s");
                    thread::yield_now();
                }
                paint.device().wait_signal(signal, 10_000)?;
            }
            Ok(())
        });
        suite.test("what is not done is not shown", move || {
            let paint = paint.borrow();
            paint.device().stall()?;
            let armed = control.arm(fault::DELAY_INTERRUPTS, 50_000);
            let before = read()?.number;
            let number = submit(paint.device(), signal)?;
            same("number", number, before + 1)?;
            same("page at once", read()?.number, before)?;
            paint.device().wait_signal(signal, 10_000)?;
            same("page in the end", read()?.number, number)?;
            drop(armed);
            Ok(())
        });
        suite.test(
            "COMMIT has numbers too; what is refused or empty has none",
            move || {
                let paint = paint.borrow();
                paint.device().stall()?;
                let first = submit(paint.device(), signal)?;
                let stream = paint.fill_all(0xff11_2233);
                let (buffer, record) = galcore_selftests::fixture::placed(
                    paint.device(),
                    paint.engine(),
                    &stream,
                    0x8000,
                )?;
                let good = (Status::OK, first + 1);
                same("COMMIT", commit(paint.device(), &record)?, good)?;
                let mut bad = record;
                bad.object = 0;
                let refused = (Status::INVALID_OBJECT, MARK);
                same("refused COMMIT", commit(paint.device(), &bad)?, refused)?;
                let mut list = Queue::new();
                list.signal(signal).write_data(0, 0);
                let refused = (Status::INVALID_ADDRESS, MARK);
                let answer = paint.device().send_numbered(&mut list, MARK)?;
                same("refused EVENT_COMMIT", answer, refused)?;
                let empty = paint.device().send_numbered(&mut Queue::new(), MARK)?;
                same("empty EVENT_COMMIT", empty, (Status::OK, MARK))?;
                same("next", submit(paint.device(), signal)?, first + 2)?;
                paint.device().stall()?;
                paint.expect(|_, _| 0xff11_2233)?;
                same("page", read()?.number, first + 2)?;
                paint.device().wait_signal(signal, 0)?;
                Ok(paint.device().free_contiguous(&buffer)?)
            },
        );
        suite.test("a reader never sees half of a change", move || {
            let paint = paint.borrow();
            let device = paint.device();
            let second = device.map_completion()?;
            let over = &AtomicBool::new(false);
            thread::scope(|scope| {
                let second = &second;
                let reader = scope.spawn(move || -> Result<u64> {
                    let mut last = second.read();
                    let mut changes = 0;
                    while !over.load(Ordering::Relaxed) {
                        let next = second.read();
                        ensure!(
                            next.number >= last.number && next.timestamp >= last.timestamp,
                            "{last:?}, then {next:?}"
                        );
                        let same = next.number == last.number;
                        ensure!(
                            same == (next.sequence == last.sequence)
                                && same == (next.timestamp == last.timestamp),
                            "{last:?}, then {next:?}"
                        );
                        changes += u64::from(!same);
                        last = next;
                    }
                    Ok(changes)
                });
                let go = || -> Result<()> {
                    for index in 0..count {
                        submit(device, signal)?;
                        if index % 16 == 15 {
                            device.stall()?;
                        }
                    }
                    device.stall()?;
                    Ok(())
                };
                let result = go();
                over.store(true, Ordering::Relaxed);
                let changes = reader.join().expect("no panic")?;
                println!("# the reader saw {changes} of {count} changes");
                result
            })?;
            device.wait_signal(signal, 0)?;
            same("both mappings", second.read(), read()?)
        });
        suite.test("threads get different numbers", move || {
            let paint = paint.borrow();
            let device = paint.device();
            let start = submit(device, signal)?;
            let mut numbers = thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(move || {
                            (0..50)
                                .map(|_| submit(device, signal))
                                .collect::<Result<Vec<_>>>()
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| {
                        let numbers = thread.join().expect("no panic")?;
                        let sorted = numbers.windows(2).all(|pair| pair[0] < pair[1]);
                        ensure!(sorted, "a thread's numbers go down: {numbers:?}");
                        Ok(numbers)
                    })
                    .collect::<Result<Vec<_>>>()
            })?
            .concat();
            numbers.sort_unstable();
            let wanted: Vec<u64> = (start + 1..=start + 200).collect();
            ensure!(numbers == wanted, "numbers {numbers:?}");
            device.stall()?;
            device.wait_signal(signal, 0)?;
            same("page", read()?.number, start + 200)
        });
        suite.test(
            "another process has a page and numbers of its own",
            move || {
                let status = system::again(&["--child"])?.status()?;
                same("child", status.code(), Some(0))
            },
        );
        suite.test(
            "a second file of the process shows the same page",
            move || {
                let second = Device::open()?;
                let paint = paint.borrow();
                let number = submit(&second, signal)?;
                paint.device().wait_signal(signal, 10_000)?;
                same("page", read()?.number, number)?;
                same("second page", second.map_completion()?.read(), read()?)
            },
        );
        suite.test("a mapping outlives its file", move || {
            let second = Device::open()?;
            let mapped = second.map_completion()?;
            let copy = second.as_fd().try_clone_to_owned()?;
            drop(second);
            drop(copy);
            let paint = paint.borrow();
            let number = submit(paint.device(), signal)?;
            paint.device().wait_signal(signal, 10_000)?;
            same("page", mapped.read().number, number)
        });
        suite.test("the next draw is right", move || {
            paint.borrow_mut().prove(0xff0c_0c0c)
        });
        suite.run()
    })
}
