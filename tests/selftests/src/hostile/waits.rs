// SPDX-License-Identifier: GPL-2.0-only
//! Waits that must end: of who is killed while the GPU hangs, and of who is next in a row.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::raw;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use gpu_control::fault;
use gpu_control::FrontEndState;

use super::attacker::State;
use super::attacker::KIND;
use super::delays::DEATH;
use super::here;
use super::kill;
use super::machine;
use super::views::NEWER;
use super::PAGE;
use crate::control::Control;
use crate::fixture::Paint;
use crate::harness;
use crate::harness::eventually;
use crate::other::Other;

/// What a process waits in while the GPU hangs. The first fills the ring.
const PLACES: [&str; 10] = [
    "event-commit",
    "commit",
    "map-user",
    "wrap",
    "allocate",
    "allocate-virtual",
    "unmap-user",
    "wait",
    "stall",
    "exit",
];

/// Pages that nobody can pin.
const NOWHERE: u64 = 0x2000;

/// Bytes that a process has pinned, and of its nodes.
const BYTES: usize = 8 << 20;

/// Prepares to wait in a request, by `prepare`; or waits in it, for ever if nobody ends that.
pub(super) fn wait_in(state: &mut State, words: &[&str]) -> Result<String> {
    match words[1] {
        "prepare" => prepare(state),
        what => {
            state.windows.clear();
            wait(state, what)
        }
    }
}

/// Nodes, pinned memory, and dma-bufs of nodes that are freed: what is behind the MMU goes with their descriptors.
fn prepare(state: &mut State) -> Result<String> {
    let opened = state.opened()?;
    let device = &opened.device;
    let region = sys::Region::anonymous(BYTES)?;
    let mapping = device.map_user(region.address(), BYTES as u64)?;
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    for _ in 0..4 {
        let node = device.allocate(PAGE as u32, 64, KIND, Pool::VIRTUAL)?;
        let (status, number) = device.export(node.handle)?;
        ensure!(status == uapi::Status::OK, "EXPORT: status {status}");
        kept.push(Box::new(sys::take_descriptor(number)?));
        device.free(node)?;
    }
    device.stall()?;
    let buffer = device.allocate_contiguous(PAGE as u64)?;
    let node = opened.allocate(BYTES as u32, Pool::VIRTUAL)?;
    state.nodes.push(node);
    kept.push(Box::new((region, mapping, buffer)));
    state.kept = kept;
    Ok("prepared".to_string())
}

fn wait(state: &mut State, what: &str) -> Result<String> {
    let own = state.kept.pop().context("not prepared")?;
    let own = own
        .downcast::<(
            sys::Region,
            uapi::MapUserMemory,
            galcore_client::device::Buffer,
        )>()
        .ok()
        .context("not prepared")?;
    if what != "exit" {
        // What the ring cannot take is left for whoever cleans up.
        state.kept.clear();
    }
    let opened = state.opened()?;
    let device = &opened.device;
    let signal = device.create_signal(false)?;
    match what {
        "event-commit" => loop {
            device.commit_queue(Queue::new().signal(signal))?;
        },
        "commit" => {
            let context = device.attach()?.context;
            let mut stream = Stream::new();
            stream.nop();
            let record = place(&own.2, 0, galcore_client::stream::Pipe::Pipe3d, &stream);
            loop {
                device.commit(&record, context, &mut Queue::new())?;
            }
        }
        "map-user" => loop {
            let _ = device.map_user(NOWHERE, PAGE as u64);
        },
        "wrap" => loop {
            let _ = device.wrap_memory(NOWHERE, PAGE as u64)?;
        },
        "allocate" | "allocate-virtual" => {
            let (pool, bytes) = match what {
                "allocate" => (Pool::SYSTEM, opened.pool.len() as u32 / 3 * 2),
                _ => (Pool::VIRTUAL, 64 << 20),
            };
            loop {
                if let Ok(node) = device.allocate(bytes, 64, KIND, pool) {
                    device.free(node)?;
                }
            }
        }
        "unmap-user" => {
            device.unmap_user(&own.1)?;
            loop {
                let _ = device.stall();
            }
        }
        "wait" => Ok(device.wait_signal(signal, uapi::INFINITE)?),
        "stall" => loop {
            let _ = device.stall();
        },
        "exit" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        what => bail!("no wait in {what:?}"),
    }
    .map(|()| "waited".to_string())
}

/// Makes the GPU hang and processes wait in all kinds of requests for `time`: each that is killed ends at once.
///
/// The GPU hangs afterwards, until the module is loaded anew.
pub fn killed_while_hung(control: &Control, time: Duration) -> Result<()> {
    let newer = Abi::named(NEWER).context("abi")?;
    let mut waiting = Vec::new();
    for what in PLACES {
        let mut other = Other::start(newer)?;
        other.ask("wait-in prepare")?;
        waiting.push((what, other));
    }
    let mut paint = Paint::new()?;
    std::mem::forget(control.arm(fault::HANG_AT_DRAW, 1));
    let stream = paint.fill_cell(0, 1);
    paint.commit(&stream, &mut Queue::new())?;
    eventually("the GPU hangs", Duration::from_secs(10), || {
        Ok(control.front_end() == Some(FrontEndState::Hung))
    })?;
    for (index, (what, other)) in waiting.iter_mut().enumerate() {
        other.tell(&format!("wait-in {what}"))?;
        if index == 0 {
            // Until there is no place left in the ring.
            thread::sleep(Duration::from_millis(300));
        }
    }
    thread::sleep(time);
    let machine = machine()?;
    let mut late = Vec::new();
    for (what, other) in waiting {
        let took = kill(other)?;
        println!("# {what}: {} ms", took.as_millis());
        if took > here(DEATH)? + machine {
            late.push(format!("{what}: {took:.1?}"));
        }
    }
    drop(paint);
    ensure!(late.is_empty(), "it took too long to end in {late:?}");
    Ok(())
}

/// One COMMIT, which a Unix signal ends.
struct Once {
    device: Device,
    bytes: Vec<u8>,
    _queue: Box<dyn std::any::Any + Send>,
}

impl Once {
    fn new(client: &Client, file: Device) -> Result<Self> {
        let device = client.device();
        let buffer = device.allocate_contiguous(PAGE as u64)?;
        let mut stream = Stream::new();
        stream.nop();
        let engine = client.engine();
        let record = place(&buffer, 0, engine.pipe(), &stream);
        let mut commit = device
            .abi()
            .commit(&record, client.context(), &Queue::new())?;
        let (at, _) = device.abi().header["hardwareType"];
        let hardware = device.hardware_type().to_le_bytes();
        commit.bytes[at..at + 4].copy_from_slice(&hardware);
        Ok(Self {
            device: file,
            bytes: std::mem::take(&mut commit.bytes),
            _queue: Box::new((commit, buffer)),
        })
    }

    /// Whether it was interrupted.
    fn run(&mut self) -> Result<bool> {
        let file = std::os::fd::AsFd::as_fd(&self.device);
        match sys::exchange(file, uapi::IOCTL_INTERFACE, &mut self.bytes) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// How often the row is tried at most, and how often the second in it is to be interrupted in time.
const ROUNDS: (u32, u32) = (80, 3);

/// Submissions that are under way at once, at most.
const UNDER_WAY: u32 = 30;

/// A thread that is next to have a context and is interrupted in that moment passes the context on.
pub fn context_is_passed_on(control: &Control) -> Result<()> {
    if thread::available_parallelism()?.get() < 2 {
        return harness::skip("needs two processors");
    }
    raw::interruptible()?;
    let newer = Abi::named(NEWER).context("abi")?;
    let client = Client::with_device(Device::open_as(newer, true)?)?;
    let signal = client.device().create_signal(false)?;
    let (mut interrupted, mut rounds) = (0, 0);
    while interrupted < ROUNDS.1 && rounds < ROUNDS.0 {
        rounds += 1;
        client.device().stall()?;
        let again = || -> Result<Once> { Once::new(&client, Device::open_as(newer, true)?) };
        let (mut first, mut second, mut third) = (again()?, again()?, again()?);
        let armed = control.arm(fault::DELAY_INTERRUPTS, 90_000);
        let (id, stop) = (AtomicI32::new(0), AtomicBool::new(false));
        let stuck = thread::scope(|scope| -> Result<bool> {
            for _ in 0..UNDER_WAY {
                client.device().commit_queue(Queue::new().signal(signal))?;
            }
            // It has the context, and waits for a place.
            let first = scope.spawn(|| -> Result<bool> {
                raw::stay_on(0)?;
                let ended = first.run()?;
                // On a busy machine the second may not have come so far.
                match id.load(Ordering::SeqCst) {
                    0 => {}
                    // It may have ended, too.
                    second => drop(raw::interrupt(second)),
                }
                Ok(ended)
            });
            thread::sleep(Duration::from_millis(8));
            let second = scope.spawn(|| -> Result<bool> {
                id.store(raw::thread(), Ordering::SeqCst);
                raw::stay_on(1)?;
                raw::give_way()?;
                second.run()
            });
            thread::sleep(Duration::from_millis(8));
            let third = scope.spawn(|| -> Result<bool> {
                raw::stay_on(0)?;
                third.run()
            });
            thread::sleep(Duration::from_millis(8));
            // The second does not come to run for a while, even if it is woken.
            let busy = scope.spawn(|| -> Result<()> {
                raw::stay_on(1)?;
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Ok(())
            });
            let ended = first.join().ok().context("a panic")?;
            drop(armed);
            stop.store(true, Ordering::Relaxed);
            busy.join().ok().context("a panic")??;
            ensure!(!ended?, "the first was interrupted");
            interrupted += u32::from(second.join().ok().context("a panic")??);
            let begin = Instant::now();
            while !third.is_finished() && begin.elapsed() < Duration::from_secs(2) {
                thread::sleep(Duration::from_millis(1));
            }
            let stuck = !third.is_finished();
            if stuck {
                // Whoever has had the context next wakes it.
                again()?.run()?;
            }
            third.join().ok().context("a panic")??;
            Ok(stuck)
        })?;
        ensure!(!stuck, "the third waits for ever");
    }
    println!("# interrupted {interrupted} of {rounds} times");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    if interrupted == 0 && kernel.contains("+deb") && kernel.trim().ends_with("-arm64") {
        // Not once in 160 rounds on Debian's kernel for arm64. All others must come to it.
        return harness::skip("this kernel lets nobody be interrupted there");
    }
    ensure!(interrupted > 0, "nobody was interrupted");
    Ok(())
}

/// How long the GPU is to have work, and how long for one job at least.
const WORK: (Duration, Duration) = (Duration::from_secs(26), Duration::from_secs(1));

/// A COMMIT that needs a copy of its context which the GPU is far from being through with waits for as long as the GPU
/// gets on, and then runs.
pub fn slow_jobs() -> Result<()> {
    let mut slow = Client::start()?;
    let mut other = Client::start()?;
    let engine = slow.engine();
    let surface = slow.create_surface(1024, 1024)?;
    let whole = Rect::new(0, 0, surface.width, surface.height);
    let job = |count: usize| {
        let mut stream = Stream::new();
        let rects = vec![whole; count];
        engine.fill_all(&mut stream, &surface, &rects, whole, 3);
        stream.flush(engine.pipe());
        stream
    };
    let mut count = 1;
    // What fits into a command buffer is enough for some seconds.
    let one = loop {
        let begin = Instant::now();
        slow.run(engine.pipe(), &job(count))?;
        if begin.elapsed() >= WORK.1 || count >= 1024 {
            break begin.elapsed();
        }
        count *= 2;
    };
    let jobs = WORK.0.as_millis().div_ceil(one.as_millis().max(1)) as u32;
    println!("# {jobs} jobs of {} ms", one.as_millis());
    ensure!(jobs + 6 <= UNDER_WAY, "the GPU is too quick: {jobs} jobs");
    let mut nothing = Stream::new();
    nothing.nop();
    let pipe = engine.pipe();
    for _ in 0..jobs {
        slow.commit(pipe, &job(count), &mut Queue::new())?;
    }
    // Both copies of the other's context are behind that.
    for _ in 0..2 {
        other.commit(pipe, &nothing, &mut Queue::new())?;
        slow.commit(pipe, &nothing, &mut Queue::new())?;
    }
    let begin = Instant::now();
    let third = other.commit(pipe, &nothing, &mut Queue::new());
    println!(
        "# the third COMMIT took {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    // Whatever has become of it, the GPU is to have nothing more to do.
    eventually("the GPU is through", 4 * WORK.0, || {
        Ok(other.device().stall().is_ok())
    })?;
    Ok(third?)
}
