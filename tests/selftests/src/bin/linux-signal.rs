// SPDX-License-Identifier: GPL-2.0-only
//! `useLinuxSignal=1`: events send a realtime signal, and there are no user signals.
//!
//! Needs the module loaded that way.

use std::cell::RefCell;
use std::fs;
use std::fs::File;
use std::fs::Permissions;
use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
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
use galcore_client::device::NODES;
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
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::placed;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
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

/// What a client is started as: an ordinary user's, and a program that is root's whoever starts it.
const ROLES: [&str; 2] = ["--client", "--root"];

/// That program: a copy of this one.
const SET_UID: &str = "/linux-signal-root";

/// An ordinary user.
const USER: u32 = 1000;

/// Opens the device as an ordinary user and tells which descriptor it is; then becomes another program, if it is told.
fn client() -> Result<()> {
    sys::accept_signal(DEFAULT_SIGNAL)?;
    sys::become_user(USER)?;
    let device = Device::open()?;
    println!("{}", device.file().as_raw_fd());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    if line.trim() == "exec" {
        return Err(Command::new(SET_UID).arg(ROLES[1]).exec().into());
    }
    echo()
}

/// Is root's altogether.
fn root() -> Result<()> {
    sys::become_user(0)?;
    println!("root");
    echo()
}

fn echo() -> Result<()> {
    for line in std::io::stdin().lines() {
        println!("{}", line?);
    }
    Ok(())
}

/// A client, and this process's copy of its open device.
struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
    device: Device,
}

impl Other {
    fn start() -> Result<Self> {
        let mut child = system::again(&[ROLES[0]])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let number = line.trim().parse().with_context(|| line.clone())?;
        let file = other::descriptor_of(child.id() as i32, number)?;
        Ok(Self {
            device: Device::of_file(file.into())?,
            child,
            output,
        })
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        writeln!(input, "{what}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    /// Has its device send it the signal, which ends whoever does not expect it.
    fn send(&self) -> Result<()> {
        let mut queue = Queue::new();
        queue.record(uapi::Command::SIGNAL, &record(7, self.child.id().into()));
        self.device.commit_queue(&mut queue)?;
        Ok(self.device.stall()?)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // There is nothing left to do about an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets everybody open the device and start the set-uid program while `body` runs.
fn with_set_uid(body: impl FnOnce() -> Result<()>) -> Result<()> {
    let allow = |path: &str, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let before = fs::metadata(NODES[0])?.permissions();
    fs::copy(std::env::current_exe()?, SET_UID)?;
    allow(SET_UID, 0o4755)?;
    allow(NODES[0], 0o666)?;
    let done = body();
    fs::set_permissions(NODES[0], before)?;
    fs::remove_file(SET_UID)?;
    done
}

/// A process that has become another user's program is not signalled by what it was.
fn root_is_not_signalled() -> Result<()> {
    with_set_uid(|| {
        // One that is still its user's is.
        let mut plain = Other::start()?;
        plain.send()?;
        let ended = plain.child.wait()?;
        same("ended by signal", ended.signal(), Some(DEFAULT_SIGNAL))?;
        let mut root = Other::start()?;
        same("after exec", root.ask("exec")?.as_str(), "root")?;
        for _ in 0..3 {
            root.send()?;
            std::thread::sleep(SHORT);
            same("the answer", root.ask("there?")?.as_str(), "there?")?;
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    let role = match std::env::args().nth(1) {
        Some(word) if word == ROLES[0] => Some(client()),
        Some(word) if word == ROLES[1] => Some(root()),
        _ => None,
    };
    if let Some(result) = role {
        if let Err(error) = &result {
            println!("{error:#}");
        }
        return ExitCode::from(u8::from(result.is_err()));
    }
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
            "a process that has become root's by exec gets none",
            root_is_not_signalled,
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
