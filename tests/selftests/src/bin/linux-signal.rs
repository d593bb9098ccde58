// SPDX-License-Identifier: GPL-2.0-only
//! `useLinuxSignal=1`: events send a realtime signal, and there are no user signals.
//!
//! Needs the module loaded that way.

use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::placed;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;

/// What the parameter `signal` is when it is not given.
const DEFAULT_SIGNAL: i32 = 48;
/// `si_code` of sigqueue().
const SI_QUEUE: i32 = -1;

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    number: i32,
    code: i32,
    value: i32,
}

/// The next signal, if one comes in time.
fn next(file: &File, limit: Duration) -> Result<Option<Came>> {
    let begin = Instant::now();
    let mut bytes = [0; 128];
    loop {
        let mut file = file;
        match file.read(&mut bytes) {
            Ok(128) => break,
            Ok(count) => bail!("{count} bytes of a signalfd"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if begin.elapsed() > limit {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let word = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        i32::from_ne_bytes(word)
    };
    // signalfd_siginfo: ssi_signo, ssi_errno, ssi_code, ...; ssi_int at 44.
    Ok(Some(Came {
        number: word(0),
        code: word(8),
        value: word(44),
    }))
}

const SOON: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);

/// A record of SIGNAL.
fn record(value: i32, process: u64) -> uapi::Signal {
    uapi::Signal {
        signal: value as u32 as u64,
        process,
        from_where: 4,
        ..Default::default()
    }
}

fn main() -> ExitCode {
    // Before other threads are there: they must not get the signal either.
    let signals = sys::signal_file(DEFAULT_SIGNAL);
    harness::program(|| {
        let signals = &signals.context("signalfd")?;
        let device = &Device::open()?;
        let number = system::told("signal").map_or(DEFAULT_SIGNAL, |number| number as i32);
        same("the signal this test is made for", number, DEFAULT_SIGNAL)?;
        let wanted = move |value| Came {
            number,
            code: SI_QUEUE,
            value,
        };
        let used = galcore_selftests::harness::at_rest(system::ProcGc::used_now)?;
        let surface: &RefCell<Option<Surface>> = &RefCell::new(None);
        let mut suite = Suite::new();
        suite.test("QUERY_KERNEL_SETTINGS tells the number", move || {
            same("signal", device.kernel_signal()?, number)
        });
        suite.test("USER_SIGNAL answers INVALID_ARGUMENT", move || {
            for command in 0..8 {
                for id in [0, 1, -1] {
                    let payload = uapi::UserSignal {
                        command,
                        id,
                        wait: 10,
                        ..Default::default()
                    };
                    let (status, _) = device.user_signal(&payload)?;
                    let what = format!("sub-command {command} of {id}");
                    same(&what, status, Status::INVALID_ARGUMENT)?;
                }
            }
            Ok(())
        });
        suite.test("a record sends the signal with its value", move || {
            for value in [1, 48, 0x7fff_ffff, 12_345_678] {
                device.commit_queue(Queue::new().signal(value))?;
                same("signal", next(signals, SOON)?, Some(wanted(value)))?;
            }
            same("one more", next(signals, SHORT)?, None)
        });
        suite.test(
            "signals come once each, in the order of their records",
            move || {
                let mut expected = 0;
                for _ in 0..10 {
                    let mut queue = Queue::new();
                    for value in 0..20 {
                        queue.signal(expected + value);
                    }
                    device.commit_queue(&mut queue)?;
                    for _ in 0..20 {
                        same("signal", next(signals, SOON)?, Some(wanted(expected)))?;
                        expected += 1;
                    }
                }
                same("one more", next(signals, SHORT)?, None)
            },
        );
        suite.test(
            "a signal comes after what was committed before",
            move || {
                let engine = Engine::of(&device.identity()?);
                let node =
                    device.allocate(64 * 64 * 4, 64, uapi::surface::BITMAP, Pool::CONTIGUOUS)?;
                let location = device.lock(node)?;
                let target = Surface {
                    node,
                    location,
                    memory: device.memory(node, location, &device.map(4096, 0)?)?,
                    width: 64,
                    height: 64,
                    stride: 256,
                };
                for value in 1..=20 {
                    let colour = 0xff00_0000 + value as u32;
                    let mut stream = Stream::new();
                    engine.fill(&mut stream, &target, Rect::new(0, 0, 64, 64), colour);
                    stream.flush(engine.pipe());
                    let (buffer, command) = placed(device, engine, &stream, 0x4000)?;
                    let mut queue = Queue::new();
                    queue.free_contiguous(&buffer).signal(value);
                    device.commit(&command, 0, &mut queue)?;
                    same("signal", next(signals, SOON)?, Some(wanted(value)))?;
                    expect_pixels(&target, |_, _| colour)?;
                }
                *surface.borrow_mut() = Some(target);
                Ok(())
            },
        );
        suite.test("only the process itself gets signals", move || {
            let parent = u64::from(std::os::unix::process::parent_id());
            let own = u64::from(std::process::id());
            for process in [0, 1, parent, own | 1 << 32, u64::MAX, u32::MAX.into()] {
                let mut queue = Queue::new();
                queue.signal(7).record(Command::SIGNAL, &record(8, process));
                let status = device.send_queue(&mut queue)?;
                let what = format!("process {process:#x}");
                same(&what, status, Status::INVALID_ARGUMENT)?;
                device.stall()?;
                let came = next(signals, SHORT)?;
                ensure!(came.is_none(), "{what}: {came:?} came all the same");
            }
            Ok(())
        });
        suite.test("other records go on as ever", move || {
            if let Some(target) = surface.borrow_mut().take() {
                let mut queue = Queue::new();
                queue.write_data(target.location.address, 0x1122_3344);
                queue.timestamp(1, uapi::timestamp::START);
                queue.timestamp(1, uapi::timestamp::STOP);
                queue.signal(5);
                device.commit_queue(&mut queue)?;
                same("signal", next(signals, SOON)?, Some(wanted(5)))?;
                harness::same_word("word", target.memory.read(0), 0x1122_3344)?;
                ensure!(device.timer(1)? >= 0, "the timer runs backwards");
                let mut queue = Queue::new();
                if device.unlock(target.node)? {
                    queue.unlock(target.node);
                }
                device.commit_queue(queue.free(target.node).signal(6))?;
                same("signal", next(signals, SOON)?, Some(wanted(6)))?;
            }
            device.stall()?;
            harness::settles("KiB used", used, system::ProcGc::used_now)
        });
        suite.run()
    })
}
