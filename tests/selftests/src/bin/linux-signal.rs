// SPDX-License-Identifier: GPL-2.0-only
//! `useLinuxSignal=1`: events send a realtime signal, and user signals do not exist.
//!
//! Needs the module to be loaded with this parameter.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::placed;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use gpu_control::fault;

/// The signal number, from the parameter `signal`.
fn number() -> i32 {
    system::told("signal").map_or(48, |number| number as i32)
}

/// `si_code` of sigqueue().
const SI_QUEUE: i32 = -1;

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    number: i32,
    code: i32,
    value: i32,
}

/// The next signal, or `None` after `limit`.
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

/// A SIGNAL record.
fn record(value: i32, process: u64) -> uapi::Signal {
    uapi::Signal {
        signal: value as u32 as u64,
        process,
        from_where: 4,
        ..Default::default()
    }
}

/// The roles of a client: an ordinary user's process, a program that it executes, and a process that received a file.
const ROLES: [&str; 3] = ["--client", "--program", "--heir"];

/// A set-uid root program: a copy of this one.
const SET_UID: &str = "/linux-signal-root";

/// An ordinary user.
const USER: u32 = 1000;

/// Opens the device as an ordinary user, makes the device send a signal to itself, and executes another program.
fn client() -> Result<()> {
    sys::accept_signal(number())?;
    sys::become_user(USER)?;
    let device = Device::open()?;
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "send" => {
                let mut queue = Queue::new();
                queue.record(uapi::Command::SIGNAL, &record(7, std::process::id().into()));
                device.commit_queue(&mut queue)?;
                println!("sent");
            }
            "exec" => {
                let program = std::env::current_exe()?;
                return Err(Command::new(program).arg(ROLES[1]).exec().into());
            }
            "exec set-uid" => return Err(Command::new(SET_UID).arg(ROLES[1]).exec().into()),
            word => println!("{word}"),
        }
    }
    Ok(())
}

/// The executed program.
fn program() -> Result<()> {
    println!("executed");
    for line in std::io::stdin().lines() {
        println!("{}", line?);
    }
    Ok(())
}

/// An ordinary user with its parent's file, who requests signals to the parent.
fn heir() -> Result<()> {
    let file = std::io::stdin().as_fd().try_clone_to_owned()?;
    let device = Device::of_file(file.into())?;
    sys::become_user(USER)?;
    let parent = u64::from(std::os::unix::process::parent_id());
    for process in [parent, std::process::id().into()] {
        let mut queue = Queue::new();
        queue.record(uapi::Command::SIGNAL, &record(7, process));
        let status = device.send_queue(&mut queue)?;
        same("a SIGNAL record", status, Status::INVALID_DATA)?;
    }
    Ok(())
}

/// A client.
struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Result<Self> {
        let mut child = system::again(&[ROLES[0]])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut other = Self { child, output };
        same("the client", other.ask("there?")?.as_str(), "there?")?;
        Ok(other)
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        writeln!(input, "{what}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Errors cannot be handled here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The drawing engine, and a locked surface of 64 x 64 pixels.
fn target(device: &Device) -> Result<(Engine, Surface)> {
    let node = device.allocate(64 * 64 * 4, 64, uapi::surface::BITMAP, Pool::CONTIGUOUS)?;
    let location = device.lock(node)?;
    let target = Surface {
        node,
        location,
        memory: device.memory(node, location, &device.map(4096, 0)?)?,
        width: 64,
        height: 64,
        stride: 256,
    };
    Ok((Engine::of(&device.identity()?), target))
}

/// A program requests a signal, and executes another program while the job waits. The new program must not get the
/// signal.
fn programs_are_not_signalled(device: &Device) -> Result<()> {
    let control = Control::open()?;
    system::with_set_uid(SET_UID, || {
        // A program that does not call exec does get the signal.
        let mut plain = Other::start()?;
        // The signal may kill it before it replies.
        let said = plain.ask("send")?;
        ensure!(said == "sent" || said.is_empty(), "it says {said}");
        // `wait` closes its input, which also ends it.
        std::thread::sleep(SHORT);
        let ended = plain.child.wait()?;
        same("ended by signal", ended.signal(), Some(number()))?;
        for exec in ["exec", "exec set-uid"] {
            let (engine, target) = target(device)?;
            let mut stream = Stream::new();
            engine.fill(&mut stream, &target, Rect::new(0, 0, 64, 64), 1);
            stream.flush(engine.pipe());
            let (buffer, command) = placed(device, engine, &stream, 0x4000)?;
            let mut other = Other::start()?;
            // No time limit here: on a busy machine the program can take seconds.
            let held = control.arm(fault::HOLD, 1);
            device.commit(&command, 0, &mut Queue::new())?;
            same("a SIGNAL record", other.ask("send")?.as_str(), "sent")?;
            same(exec, other.ask(exec)?.as_str(), "executed")?;
            drop(held);
            device.stall()?;
            std::thread::sleep(SHORT);
            same(exec, other.ask("there?")?.as_str(), "there?")?;
            let mut queue = Queue::new();
            queue.free_contiguous(&buffer);
            if device.unlock(target.node)? {
                queue.unlock(target.node);
            }
            device.commit_queue(queue.free(target.node))?;
        }
        Ok(())
    })
}

/// A process that received a file from root cannot make the driver signal root's process.
fn heirs_send_none(device: &Device, signals: &File) -> Result<()> {
    let output = system::again(&[ROLES[2]])?
        .stdin(Stdio::from(device.as_fd().try_clone_to_owned()?))
        .output()?;
    device.stall()?;
    let came = next(signals, SHORT)?;
    ensure!(came.is_none(), "{came:?} came");
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

fn main() -> ExitCode {
    let role = match std::env::args().nth(1) {
        Some(word) if word == ROLES[0] => Some(client()),
        Some(word) if word == ROLES[1] => Some(program()),
        Some(word) if word == ROLES[2] => Some(heir()),
        _ => None,
    };
    if let Some(result) = role {
        if let Err(error) = &result {
            println!("{error:#}");
        }
        return ExitCode::from(u8::from(result.is_err()));
    }
    // Before other threads exist, because they must not receive the signal either.
    let signals = sys::signal_file(number());
    harness::program(|| {
        let signals = &signals.context("signalfd")?;
        let device = &Device::open()?;
        let number = number();
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
                let (engine, target) = target(device)?;
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
                queue
                    .signal(7)
                    .record(uapi::Command::SIGNAL, &record(8, process));
                let status = device.send_queue(&mut queue)?;
                let what = format!("process {process:#x}");
                same(&what, status, Status::INVALID_ARGUMENT)?;
                device.stall()?;
                let came = next(signals, SHORT)?;
                ensure!(came.is_none(), "{what}: {came:?} came all the same");
            }
            Ok(())
        });
        suite.test(
            "a program that is executed meanwhile gets none",
            move || programs_are_not_signalled(device),
        );
        suite.test(
            "a user with a file of root's cannot have root's process signalled",
            move || heirs_send_none(device, signals),
        );
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
