// SPDX-License-Identifier: GPL-2.0-only
//! Waits in a program with an interval timer whose handler makes the kernel restart the wait: the wait must end at its
//! original deadline, not a full timeout after the last tick.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::raw;
use galcore_client::sys;
use galcore_client::uapi::signal;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::uapi::UnmapUserMemory;
use galcore_client::uapi::UserSignal;
use galcore_client::uapi::IOCTL_INTERFACE;
use galcore_client::uapi::UNION_OFFSET;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use gpu_control::fault;
use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_millis(500);

/// Time between ticks, in milliseconds.
const TICK: u32 = 10;

/// Measures `wait` under the timer. The timer stops after a long time, because otherwise a faulty wait would never end.
fn ticking(wait: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let (done, end) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || match end.recv_timeout(30 * LIMIT) {
        Err(RecvTimeoutError::Timeout) => sys::tick(0),
        _ => Ok(()),
    });
    let before = sys::ticks();
    let begin = Instant::now();
    sys::tick(TICK)?;
    let result = wait();
    let took = begin.elapsed();
    sys::tick(0)?;
    drop(done);
    watch.join().ok().context("a panic")??;
    result?;
    let ticks = sys::ticks() - before;
    println!("# {took:?}, {ticks} ticks");
    ensure!(ticks >= 5, "{ticks} ticks only");
    Ok(took)
}

/// A `wait` of [`LIMIT`] must take about the same time with ticks as without, and not less than its timeout.
fn same_time(wait: impl Fn() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    wait()?;
    let usual = begin.elapsed();
    for _ in 0..3 {
        let took = ticking(&wait)?;
        ensure!(took >= LIMIT, "{took:?} only");
        // The ticks of a busy host also take time.
        ensure!(took < 3 * usual, "{took:?}, and {usual:?} without ticks");
    }
    Ok(())
}

fn wait_fence(device: &Device, descriptor: i32) -> Result<Status> {
    let fields = [
        ("fenceFD", descriptor as u64),
        ("timeout", LIMIT.as_millis() as u64),
    ];
    Ok(device.ask("WAIT_NATIVE_FENCE", &fields, "fenceFD")?.0)
}

/// A fence whose signal is never set.
fn fence() -> Result<()> {
    let abi = Abi::named("6.4.11").context("a generation")?;
    let device = Device::open_as(abi, true)?;
    let signal = device.create_signal(false)?;
    let fields = [("signal", signal as u64)];
    let (status, number) = device.ask("CREATE_NATIVE_FENCE", &fields, "fenceFD")?;
    if status == Status::NOT_SUPPORTED {
        return skip("this kernel has no sync files");
    }
    same("CREATE", status, Status::OK)?;
    let fence = sys::take_descriptor(number)?;
    same_time(|| {
        let status = wait_fence(&device, fence.as_raw_fd())?;
        same("WAIT", status, Status::TIMEOUT)
    })
}

/// STALL on a stopped core, in the generation whose STALL has a limit.
fn stall() -> Result<()> {
    let control = Control::open()?;
    let paint = Paint::new()?;
    let device = paint.device();
    if !device.abi().is_own() {
        return skip("its STALL has no limit");
    }
    let set = |milliseconds: u32| {
        let mut interface = Interface::new(Command::SET_TIMEOUT);
        interface.bytes_mut()[UNION_OFFSET..][..4].copy_from_slice(&milliseconds.to_ne_bytes());
        same("SET_TIMEOUT", device.exchange(&mut interface)?, Status::OK)
    };
    device.stall()?;
    let id = device.create_signal(false)?;
    let armed = control.arm(fault::HOLD, 1);
    set(LIMIT.as_millis() as u32)?;
    device.commit_queue(Queue::new().signal(id))?;
    let took = same_time(|| refused("STALL", device.stall(), Status::GPU_NOT_RESPONDING));
    drop(armed);
    set(u32::MAX)?;
    device.wait_signal(id, 10_000)?;
    took
}

/// An endless wait continues and is not lost.
fn forever(device: &Device, id: i32) -> Result<()> {
    let setter = Device::open()?;
    let begin = Instant::now();
    let thread = std::thread::spawn(move || -> Result<()> {
        std::thread::sleep(LIMIT);
        Ok(setter.set_signal(id, true)?)
    });
    ticking(|| Ok(device.wait_signal(id, u32::MAX)?))?;
    let took = begin.elapsed();
    thread.join().ok().context("a panic")??;
    ensure!(took >= LIMIT, "{took:?} only");
    Ok(())
}

/// The wait after an interrupted one has its full time.
fn next_one(device: &Device, id: i32) -> Result<()> {
    for _ in 0..3 {
        let wait = || {
            device.set_signal(id, true)?;
            device.wait_signal(id, 500)?;
            refused("WAIT", device.wait_signal(id, 300), Status::TIMEOUT)
        };
        ticking(wait)?;
        let begin = Instant::now();
        refused("WAIT", device.wait_signal(id, 300), Status::TIMEOUT)?;
        let took = begin.elapsed();
        ensure!(took >= Duration::from_millis(300), "{took:?} only");
    }
    Ok(())
}

/// The action of the signal handler.
static IN_HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

type Handler = Box<dyn FnMut() + Send>;

/// Runs [`IN_HANDLER`]. The lock is free, because the thread that sets the action gets no signals meanwhile.
fn in_handler() {
    if let Ok(Some(body)) = IN_HANDLER.lock().as_deref_mut() {
        body();
    }
}

fn do_in_handler(body: Option<Handler>) -> Result<()> {
    let mut place = IN_HANDLER.lock().ok().context("a panic")?;
    *place = body;
    Ok(())
}

/// Sends SIGUSR1 to this thread every `pause`, with a handler that runs `body`, during `wait`. Returns the duration of
/// the wait. The signals end after [`WATCH`].
fn handling(
    pause: Duration,
    restarts: bool,
    body: impl FnMut() + Send + 'static,
    wait: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    raw::on_signal(SIGUSR1, restarts, in_handler)?;
    do_in_handler(Some(Box::new(body)))?;
    let waiter = raw::thread();
    let (done, end) = mpsc::channel::<()>();
    let sender = std::thread::spawn(move || -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < WATCH {
            match end.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => raw::interrupt(waiter)?,
                _ => break,
            }
        }
        Ok(())
    });
    let begin = Instant::now();
    let result = wait();
    let took = begin.elapsed();
    drop(done);
    sender.join().ok().context("a panic")??;
    do_in_handler(None)?;
    result?;
    println!("# {took:?}");
    Ok(took)
}

const SIGUSR1: i32 = 10;
const SIGCONT: i32 = 18;
const SIGIO: i32 = 29;

/// Longer than any operation.
const WATCH: Duration = Duration::from_secs(12);

/// The handler itself waits for another signal. The interrupted wait must end in time.
fn handler_looks(device: &Device, id: i32) -> Result<()> {
    let other = Device::open()?;
    let second = other.create_signal(false)?;
    let look = move || {
        let _ = other.wait_signal(second, 0);
    };
    let took = handling(Duration::from_millis(30), true, look, || {
        refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT)
    })?;
    ensure!(took >= LIMIT, "{took:?} only");
    ensure!(took < 4 * LIMIT, "{took:?}");
    Ok(())
}

/// The handler does not return to the interrupted wait, but later starts the same WAIT itself. That one must have its
/// full time.
fn handler_leaves(device: &Device, id: i32) -> Result<()> {
    let inner = Device::open()?;
    let found = Arc::new(Mutex::new(Vec::new()));
    let told = found.clone();
    let again = move || {
        std::thread::sleep(2 * LIMIT);
        let begin = Instant::now();
        let end = inner.wait_signal(id, 500);
        if let Ok(mut told) = told.lock() {
            told.push((begin.elapsed(), format!("{end:?}")));
        }
    };
    handling(Duration::from_millis(200), true, again, || {
        refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT)
    })?;
    let found = found.lock().ok().context("a panic")?;
    println!("# {found:?}");
    ensure!(!found.is_empty(), "no signal has come");
    for (took, end) in found.iter() {
        ensure!(*took >= LIMIT, "{took:?} only: {end}");
    }
    Ok(())
}

/// Two signals at once: the handler of the first one restarts the call, the handler of the second one does not.
fn two_signals(id: i32) -> Result<()> {
    for (number, restarts) in [(SIGUSR1, true), (SIGIO, false)] {
        raw::on_signal(number, restarts, in_handler)?;
    }
    let (told, waiter) = mpsc::channel();
    let waiting = std::thread::spawn(move || -> Result<Duration> {
        raw::stay_on(0)?;
        let device = Device::open()?;
        told.send(raw::thread())?;
        let begin = Instant::now();
        refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT)?;
        Ok(begin.elapsed())
    });
    let sender = std::thread::spawn(move || -> Result<()> {
        // On the waiter's processor and with higher priority, so that the waiter does not run between the two signals.
        raw::stay_on(0)?;
        raw::urgent()?;
        let waiter = waiter.recv()?;
        let begin = Instant::now();
        while begin.elapsed() < WATCH {
            std::thread::sleep(Duration::from_millis(30));
            // The waiter may have ended.
            let sent = raw::interrupt_by(waiter, SIGIO);
            if sent
                .and_then(|()| raw::interrupt_by(waiter, SIGUSR1))
                .is_err()
            {
                break;
            }
        }
        Ok(())
    });
    let took = waiting.join().ok().context("a panic")??;
    sender.join().ok().context("a panic")??;
    println!("# {took:?}");
    // The wait starts again whenever the signals would end it.
    ensure!(took >= LIMIT && took < WATCH / 2, "{took:?}");
    Ok(())
}

/// Number of threads that wait through the file of another process.
const STRANGERS: usize = 280;

/// Opens the device through a file of another process.
fn by_file_of(process: i32, file: i32) -> Result<Device> {
    Ok(Device::of_file(
        other::descriptor_of(process, file)?.into(),
    )?)
}

/// A process whose many threads wait through this process's file is killed. Other waits must not be affected.
fn killed_strangers(device: &Device, id: i32) -> Result<()> {
    let file = device.file().as_raw_fd();
    let ours = format!("{} {file} {id}", std::process::id());
    for kills in [true, false] {
        if kills {
            let mut many = Other::start(Abi::own())?;
            many.ask(&format!("waits-by {ours} {STRANGERS}"))?;
            many.kill()?;
        }
        let mut other = Other::start(Abi::own())?;
        println!("{}", other.ask(&format!("wait-by {ours}"))?);
        let took: u128 = other.answer()?.parse()?;
        ensure!(took < 4 * LIMIT.as_millis(), "{took} ms");
    }
    Ok(())
}

/// Waits through the file of another process in `count` threads, until it is killed.
fn waits_by(process: i32, file: i32, id: i32, count: usize) -> Result<String> {
    let ready = Arc::new(Barrier::new(count + 1));
    for _ in 0..count {
        let ready = ready.clone();
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(move || -> Result<()> {
            let device = by_file_of(process, file)?;
            ready.wait();
            Ok(device.wait_signal(id, 100_000)?)
        })?;
    }
    ready.wait();
    std::thread::sleep(LIMIT);
    Ok("all wait".to_string())
}

/// Allocates, draws, and frees for `time`.
fn frees(time: Duration) -> Result<String> {
    let mut paint = Paint::new()?;
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < time {
        let node = paint.device().allocate(64 << 10, 64, 0, Pool::VIRTUAL)?;
        let stream = paint.fill_all(count);
        paint.commit(&stream, Queue::new().free(node))?;
        count += 1;
    }
    paint.client.finish()?;
    Ok(count.to_string())
}

/// A refused ALLOCATE waits for memory that other processes free, but not forever if a timer restarts it.
fn refused_allocate() -> Result<()> {
    let mut others = (0..3)
        .map(|_| Other::start(Abi::own()))
        .collect::<Result<Vec<_>>>()?;
    for other in &mut others {
        other.tell(&format!("frees {}", WATCH.as_millis()))?;
    }
    let device = Device::open()?;
    let bytes = u32::try_from(device.map_pool()?.len())? / 8 * 5;
    let node = device.allocate(bytes, 64, 0, Pool::SYSTEM)?;
    let begin = Instant::now();
    ticking(|| {
        let end = device.allocate(bytes, 64, 0, Pool::SYSTEM).map(|_| ());
        refused("ALLOCATE", end, Status::OUT_OF_MEMORY)?;
        // Waits for enough ticks.
        std::thread::sleep(10 * Duration::from_millis(TICK.into()));
        Ok(())
    })?;
    let took = begin.elapsed();
    device.free(node)?;
    for other in &mut others {
        println!("# {} jobs", other.answer()?);
    }
    ensure!(took < WATCH, "{took:?}");
    Ok(())
}

/// A handler that calls the driver, on its own stack above the thread's stack.
fn handler_above(id: i32) -> Result<()> {
    let stack = Box::leak(vec![0; 256 << 10].into_boxed_slice());
    let above = stack.as_ptr() as usize;
    // The size places this stack below earlier mappings, because no gap between them is large enough.
    let builder = std::thread::Builder::new().stack_size(64 << 20);
    let waiting = builder.spawn(move || -> Result<()> {
        let here = 0u8;
        ensure!(above > &raw const here as usize, "it is below");
        raw::handle_on(stack)?;
        let device = Device::open()?;
        let second = device.create_signal(false)?;
        let other = Device::open()?;
        let look = move || {
            let _ = other.wait_signal(second, 0);
        };
        let took = handling(Duration::from_millis(30), true, look, || {
            refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT)
        })?;
        ensure!(took >= LIMIT && took < 4 * LIMIT, "{took:?}");
        Ok(())
    })?;
    waiting.join().ok().context("a panic")?
}

/// A WAIT is stopped and then ended by SIGCONT's handler. A later WAIT must have its full time.
fn waits_twice() -> Result<String> {
    raw::on_signal(SIGCONT, false, in_handler)?;
    let device = Device::open()?;
    let id = device.create_signal(false)?;
    let wait = || {
        let payload = UserSignal {
            command: signal::WAIT,
            id,
            wait: 1500,
            ..Default::default()
        };
        let mut wait = Interface::with(Command::USER_SIGNAL, &payload);
        wait.set_hardware_type(device.hardware_type());
        let file = device.file().as_fd();
        sys::exchange(file, IOCTL_INTERFACE, wait.bytes_mut()).is_ok()
    };
    println!("begun");
    let first = wait();
    std::thread::sleep(Duration::from_millis(2500));
    let begin = Instant::now();
    let second = wait();
    let is_whole = begin.elapsed() >= Duration::from_millis(1500);
    Ok(format!("{first} {second} {is_whole}"))
}

/// The WAIT after one that a stop has ended is a new one.
fn wait_after_stop() -> Result<()> {
    let mut other = Other::start(Abi::own())?;
    let pid = Pid::from_raw(other.id()).context("its number")?;
    same("it", other.ask("waits-twice")?.as_str(), "begun")?;
    std::thread::sleep(Duration::from_millis(300));
    kill_process(pid, Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid, Signal::CONT)?;
    same("WAITs", other.answer()?.as_str(), "false true true")
}

/// Runs in another process, which keeps the core busy until it is stopped.
fn be_other(_: &'static Abi) -> Result<()> {
    other::serve(|words| match *words {
        ["busy", seconds] => other::keep_busy(seconds),
        ["stalls"] => stalls(),
        ["waits-twice"] => waits_twice(),
        ["frees", milliseconds] => frees(Duration::from_millis(milliseconds.parse()?)),
        ["wait-by", process, file, id] => {
            let device = by_file_of(process.parse()?, file.parse()?)?;
            let id = id.parse()?;
            let wait = || refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT);
            Ok(ticking(wait)?.as_millis().to_string())
        }
        ["waits-by", process, file, id, count] => {
            waits_by(process.parse()?, file.parse()?, id.parse()?, count.parse()?)
        }
        ["wait", milliseconds] => {
            let device = Device::open()?;
            let id = device.create_signal(false)?;
            let begin = Instant::now();
            let waited = device.wait_signal(id, milliseconds.parse()?);
            refused("WAIT", waited, Status::TIMEOUT)?;
            Ok(begin.elapsed().as_millis().to_string())
        }
        _ => bail!("what is {words:?}?"),
    })
}

/// A handler ends a STALL. Then another STALL follows another job, from the same place. Replies whether that job has
/// ended.
fn stalls() -> Result<String> {
    raw::on_signal(SIGCONT, false, in_handler)?;
    let mut paint = Paint::new()?;
    let done = paint.device().create_signal(false)?;
    let mut ends = Vec::new();
    for colour in [1, 2] {
        let stream = paint.fill_all(colour);
        let mut queue = Queue::new();
        if colour == 2 {
            queue.signal(done);
        }
        paint.commit(&stream, &mut queue)?;
        if colour == 1 {
            println!("begun");
        }
        // The client library's STALL would restart it.
        let mut stall = Interface::new(Command::STALL);
        stall.set_hardware_type(paint.device().hardware_type());
        let file = paint.device().file().as_fd();
        ends.push(sys::exchange(file, IOCTL_INTERFACE, stall.bytes_mut()).is_ok());
    }
    let has_ended = paint.device().wait_signal(done, 0).is_ok();
    Ok(format!("{ends:?} {has_ended}"))
}

/// A handler ends a stopped STALL with EINTR. The next STALL must wait for the job committed between them.
fn stall_after_stop() -> Result<()> {
    let control = Control::open()?;
    let mut other = Other::start(Abi::own())?;
    let pid = Pid::from_raw(other.id()).context("its number")?;
    let _armed = control.arm(fault::SLOW_DRAWS, 1_500_000);
    same("it", other.ask("stalls")?.as_str(), "begun")?;
    std::thread::sleep(Duration::from_millis(300));
    kill_process(pid, Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid, Signal::CONT)?;
    same(
        "STALLs, and the job",
        other.answer()?.as_str(),
        "[false, true] true",
    )
}

/// A stop has no handler: the wait continues with its remaining time, however long the thread was stopped.
fn long_stops() -> Result<()> {
    let mut other = Other::start(Abi::own())?;
    let pid = Pid::from_raw(other.id()).context("its number")?;
    other.tell("wait 1500")?;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        kill_process(pid, Signal::STOP)?;
        std::thread::sleep(Duration::from_millis(1200));
        kill_process(pid, Signal::CONT)?;
    }
    let took: u64 = other.answer()?.parse()?;
    println!("# {took} ms");
    ensure!((1500..3500).contains(&took), "{took} ms");
    Ok(())
}

/// STALL waits for the jobs that existed at the call, and not, after each tick, for later ones.
fn stall_behind_others() -> Result<()> {
    let control = Control::open()?;
    let mut other = Other::start(Abi::own())?;
    let paint = Paint::new()?;
    let armed = control.arm(fault::SLOW_DRAWS, 20_000);
    same("it", other.ask("busy 15")?, "busy".to_string())?;
    // By then the other process's jobs fill the ring.
    std::thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    paint.device().stall()?;
    let usual = begin.elapsed();
    println!("# {usual:?} without ticks");
    // The handler also calls the driver.
    let beside = Device::open()?;
    let id = beside.create_signal(false)?;
    let look = move || {
        let _ = beside.wait_signal(id, 0);
    };
    let took = handling(Duration::from_millis(20), true, look, || {
        Ok(paint.device().stall()?)
    })?;
    same("it", other.answer()?, "idle".to_string())?;
    drop(armed);
    ensure!(
        took < 4 * usual.max(LIMIT),
        "{took:?}, and {usual:?} without ticks"
    );
    Ok(())
}

/// UNMAP_USER_MEMORY must not fail. The vendor's drivers do it at once, but here it may wait, and the handler may
/// prevent the kernel from restarting it.
fn unmap_user() -> Result<()> {
    let control = Control::open()?;
    let mut paint = Paint::new()?;
    let region = sys::Region::anonymous(0x4000)?;
    let mapping = paint.device().map_user(region.address(), 0x4000)?;
    let done = paint.device().create_signal(false)?;
    let armed = control.arm(fault::SLOW_DRAWS, 1_000_000);
    let stream = paint.fill_all(0x0606_0606);
    paint.commit(&stream, Queue::new().signal(done))?;
    let unmap = |info| {
        let mut interface = Interface::with(
            Command::UNMAP_USER_MEMORY,
            &UnmapUserMemory {
                memory: mapping.memory,
                size: mapping.size,
                info,
                address: mapping.address,
            },
        );
        interface.set_hardware_type(paint.device().hardware_type());
        let file = paint.device().file().as_fd();
        sys::exchange(file, IOCTL_INTERFACE, interface.bytes_mut())?;
        anyhow::Ok(interface.status())
    };
    // Invalid requests are refused at once.
    same("no memory", unmap(0)?, Status::INVALID_ARGUMENT)?;
    same(
        "no such memory",
        unmap(mapping.info ^ 0x5555)?,
        Status::NOT_FOUND,
    )?;
    let early = paint.device().wait_signal(done, 0);
    refused("the job", early, Status::TIMEOUT)?;
    let result = handling(
        Duration::from_millis(100),
        false,
        || (),
        || same("UNMAP_USER_MEMORY", unmap(mapping.info)?, Status::OK),
    );
    drop(armed);
    paint.device().wait_signal(done, 0)?;
    paint.client.finish()?;
    result.map(|_| ())
}

/// The same for ALLOCATE, which waits for memory that a job frees at its end.
fn allocate() -> Result<()> {
    let control = Control::open()?;
    let mut paint = Paint::new()?;
    // More than half of the pool.
    let bytes = u32::try_from(paint.client.pool().len())? / 8 * 5;
    let take = |paint: &Paint| paint.device().allocate(bytes, 64, 0, Pool::SYSTEM);
    let node = take(&paint)?;
    refused("two of them", take(&paint), Status::OUT_OF_MEMORY)?;
    let armed = control.arm(fault::SLOW_DRAWS, 1_000_000);
    let stream = paint.fill_all(0x0707_0707);
    paint.commit(&stream, Queue::new().free(node))?;
    let pause = Duration::from_millis(100);
    let mut node = None;
    let took = handling(
        pause,
        false,
        || (),
        || {
            node = Some(take(&paint)?);
            Ok(())
        },
    );
    drop(armed);
    ensure!(took? > pause, "it did not wait");
    paint.device().free(node.context("a node")?)?;
    Ok(paint.client.finish()?)
}

/// The same for COMMIT and EVENT_COMMIT, which wait for their turn.
fn commit() -> Result<()> {
    // More than the places for such long jobs.
    const JOBS: usize = 10;
    let control = Control::open()?;
    for has_commands in [true, false] {
        let mut paint = Paint::new()?;
        let done = paint.device().create_signal(false)?;
        let armed = control.arm(fault::SLOW_DRAWS, 200_000);
        let stream = paint.fill_all(0x0808_0808);
        for _ in 0..JOBS {
            paint.commit(&stream, &mut Queue::new())?;
        }
        let pause = Duration::from_millis(50);
        let took = handling(
            pause,
            false,
            || (),
            || {
                if has_commands {
                    Ok(paint.commit(&stream, Queue::new().signal(done))?)
                } else {
                    Ok(paint.device().commit_queue(Queue::new().signal(done))?)
                }
            },
        );
        drop(armed);
        ensure!(took? > pause, "it did not wait");
        paint.device().wait_signal(done, 10_000)?;
        paint.client.finish()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let device = &Device::open()?;
        let id = device.create_signal(false)?;
        let mut suite = Suite::new();
        suite.test("WAIT", move || {
            let wait = || refused("WAIT", device.wait_signal(id, 500), Status::TIMEOUT);
            same_time(wait)
        });
        suite.test("a longer WAIT", move || {
            let begin = Instant::now();
            let limit = Duration::from_millis(1500);
            let wait = || refused("WAIT", device.wait_signal(id, 1500), Status::TIMEOUT);
            wait()?;
            let usual = begin.elapsed();
            let took = ticking(wait)?;
            ensure!(took >= limit, "{took:?} only");
            ensure!(took < 3 * usual, "{took:?}, and {usual:?} without ticks");
            Ok(())
        });
        suite.test("WAIT for ever", move || forever(device, id));
        suite.test("the next WAIT", move || next_one(device, id));
        suite.test("WAIT_NATIVE_FENCE", fence);
        suite.test("STALL", stall);
        suite.test("a handler looks at a signal", move || {
            handler_looks(device, id)
        });
        suite.test("a handler leaves a WAIT", move || {
            handler_leaves(device, id)
        });
        suite.test("a handler on a stack above", move || handler_above(id));
        suite.test("two signals at once", move || two_signals(id));
        suite.test("WAIT by the file of another", move || {
            killed_strangers(device, id)
        });
        suite.test("WAIT of a thread that stops", long_stops);
        suite.test("WAIT after one that a stop has ended", wait_after_stop);
        suite.test("STALL after one that a stop has ended", stall_after_stop);
        suite.test("STALL behind others", stall_behind_others);
        suite.test("UNMAP_USER_MEMORY", unmap_user);
        suite.test("ALLOCATE", allocate);
        suite.test("ALLOCATE that is refused", refused_allocate);
        suite.test("COMMIT", commit);
        suite.run()
    })
}
