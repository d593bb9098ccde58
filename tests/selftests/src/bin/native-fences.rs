// SPDX-License-Identifier: GPL-2.0-only
//! CREATE_NATIVE_FENCE and WAIT_NATIVE_FENCE: signals as sync files, and waits for other drivers' sync files.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys;
use galcore_client::sys::SoftwareSync;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use rustix::event::poll;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

/// Longest time that a fence of the driver stays unsignaled.
const LIMIT: Duration = Duration::from_secs(10);

fn open(abi: &'static Abi) -> Result<Device> {
    Ok(Device::open_as(abi, true)?)
}

fn status_of(device: &Device, signal: u64) -> Result<Status> {
    Ok(device
        .ask("CREATE_NATIVE_FENCE", &[("signal", signal)], "fenceFD")?
        .0)
}

fn create(device: &Device, signal: i32) -> Result<OwnedFd> {
    let (status, number) = device.ask(
        "CREATE_NATIVE_FENCE",
        &[("signal", signal as u64)],
        "fenceFD",
    )?;
    if status == Status::NOT_SUPPORTED {
        return skip("this kernel has no sync files");
    }
    same("CREATE", status, Status::OK)?;
    Ok(sys::take_descriptor(number)?)
}

fn wait(device: &Device, descriptor: i32, milliseconds: u32) -> Result<Status> {
    let fields = [
        ("fenceFD", u64::from(descriptor as u32)),
        ("timeout", milliseconds.into()),
    ];
    Ok(device.ask("WAIT_NATIVE_FENCE", &fields, "fenceFD")?.0)
}

/// Whether a fence is signaled, by poll.
fn is_signaled(fence: &OwnedFd, within: Duration) -> Result<bool> {
    let limit = Timespec {
        tv_sec: within.as_secs() as i64,
        tv_nsec: within.subsec_nanos().into(),
    };
    Ok(poll(&mut [PollFd::new(fence, PollFlags::IN)], Some(&limit))? == 1)
}

fn is_now(what: &str, fence: &OwnedFd, wanted: bool) -> Result<()> {
    same(what, is_signaled(fence, Duration::ZERO)?, wanted)
}

/// Fences that SIGNAL commands signal.
fn by_command(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    for manual_reset in [false, true] {
        let signal = device.create_signal(manual_reset)?;
        let fences = [create(&device, signal)?, create(&device, signal)?];
        for fence in &fences {
            is_now("before", fence, false)?;
            let status = wait(&device, fence.as_raw_fd(), 0)?;
            same("no WAIT at all", status, Status::TIMEOUT)?;
        }
        device.set_signal(signal, false)?;
        is_now("after a reset", &fences[0], false)?;
        let begin = Instant::now();
        let status = wait(&device, fences[1].as_raw_fd(), 50)?;
        same("WAIT", status, Status::TIMEOUT)?;
        let time = begin.elapsed();
        ensure!(time >= Duration::from_millis(50), "after {time:?} only");
        device.set_signal(signal, true)?;
        for fence in &fences {
            is_now("after", fence, true)?;
            for limit in [0, 1, u32::MAX] {
                let status = wait(&device, fence.as_raw_fd(), limit)?;
                same("WAIT", status, Status::OK)?;
            }
        }
        // The signal is also set for its own waits and for a fence that is created later.
        is_now("late", &create(&device, signal)?, true)?;
        device.wait_signal(signal, 0)?;
        if manual_reset {
            is_now("set still", &create(&device, signal)?, true)?;
            device.set_signal(signal, false)?;
        }
        let next = create(&device, signal)?;
        is_now("the next one", &next, false)?;
        is_now("the first one", &fences[0], true)?;
        device.destroy_signal(signal)?;
        is_now("destroyed", &next, true)?;
    }
    Ok(())
}

/// Fences that are signaled after the GPU's work.
fn by_event(abi: &'static Abi) -> Result<()> {
    let client = galcore_client::Client::with_device(open(abi)?)?;
    let mut paint = Paint::of(client)?;
    let signal = paint.device().create_signal(false)?;
    for round in 0..20u32 {
        let fence = create(paint.device(), signal)?;
        let colour = 0xfe4c_e000 + round;
        let stream = paint.fill_all(colour);
        paint.commit(&stream, Queue::new().signal(signal))?;
        if round % 2 == 0 {
            let status = wait(paint.device(), fence.as_raw_fd(), 20_000)?;
            same("WAIT", status, Status::OK)?;
        } else {
            ensure!(is_signaled(&fence, Duration::from_secs(20))?, "no signal");
        }
        paint.expect(|_, _| colour)?;
        paint.device().wait_signal(signal, 0)?;
    }
    paint.close()
}

/// Runs in another process, which uses a fence of this one, or passes on a fence and dies.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let mut fences = Vec::new();
    other::serve(|words| match words[0] {
        "offer" => {
            let fence = create(&device, device.create_signal(false)?)?;
            let number = fence.as_raw_fd();
            fences.push(fence);
            Ok(format!("{} {number}", std::process::id()))
        }
        word => bail!("what is {word}?"),
    })
}

/// The fence of a killed process is signaled.
fn of_the_dead(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    create(&device, device.create_signal(false)?)?;
    let mut other = Other::start(abi)?;
    let answer = other.ask("offer")?;
    let (id, number) = answer.split_once(' ').context("two numbers")?;
    let fence = other::descriptor_of(id.parse()?, number.parse()?)?;
    is_now("while it lives", &fence, false)?;
    let begin = Instant::now();
    other.kill()?;
    ensure!(is_signaled(&fence, LIMIT / 2)?, "no end of it");
    ensure!(begin.elapsed() < LIMIT / 2, "it was only late");
    let status = wait(&device, fence.as_raw_fd(), 0)?;
    same("WAIT", status, Status::OK)
}

/// A fence of a signal that is never set is signaled after a limit.
fn never_set(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let signal = device.create_signal(false)?;
    let begin = Instant::now();
    let fence = create(&device, signal)?;
    let status = wait(&device, fence.as_raw_fd(), u32::MAX)?;
    same("WAIT", status, Status::OK)?;
    let time = begin.elapsed();
    ensure!(
        time >= LIMIT - Duration::from_millis(100),
        "it ended after {time:?}"
    );
    // The next fence has its own limit.
    let next = create(&device, signal)?;
    is_now("the next one", &next, false)?;
    // The signal is unchanged and keeps working.
    device.set_signal(signal, true)?;
    is_now("the next one", &next, true)?;
    device.wait_signal(signal, 0)?;
    is_now("the one behind it", &create(&device, signal)?, false)
}

/// Fences of another driver.
fn foreign(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let other = match SoftwareSync::open() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return skip("this kernel has no sw_sync")
        }
        other => other?,
    };
    let fence = other.fence(1)?;
    let status = wait(&device, fence.as_raw_fd(), 20)?;
    same("WAIT", status, Status::TIMEOUT)?;
    other.increase(1)?;
    let status = wait(&device, fence.as_raw_fd(), u32::MAX)?;
    same("WAIT", status, Status::OK)
}

fn refusals(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let signal = device.create_signal(false)?;
    for wrong in [0, 1 << 20, u64::from(u32::MAX), 1 << 32 | signal as u64] {
        let status = status_of(&device, wrong)?;
        same("CREATE of no signal", status, Status::NOT_FOUND)?;
    }
    let fences = (0..16)
        .map(|_| create(&device, signal))
        .collect::<Result<Vec<_>>>()?;
    let status = status_of(&device, signal as u64)?;
    same("CREATE of one more", status, Status::OUT_OF_RESOURCES)?;
    device.set_signal(signal, true)?;
    for fence in &fences {
        is_now("one of many", fence, true)?;
    }
    create(&device, signal)?;
    device.destroy_signal(signal)?;
    let status = status_of(&device, signal as u64)?;
    same("CREATE of an old one", status, Status::NOT_FOUND)?;
    let file = File::open("/dev/null")?;
    for wrong in [-1, 1 << 20, i32::MIN, file.as_raw_fd()] {
        for limit in [0, u32::MAX] {
            let status = wait(&device, wrong, limit)?;
            // The same status as the vendor's driver.
            let wanted = match abi.name {
                "6.4.11" => Status::GENERIC_IO,
                _ => Status::INVALID_ARGUMENT,
            };
            same("WAIT for no fence", status, wanted)?;
        }
    }
    Ok(())
}

/// Most unsignaled fences of one process, and of one signal.
const MOST: usize = 1024;
const OF_ONE: usize = 16;

/// A process may have a limited number of fences over all signals. A fence counts until it is signaled.
fn many(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let all = (0..=MOST / OF_ONE)
        .map(|_| device.create_signal(true))
        .collect::<galcore_client::device::Result<Vec<_>>>()?;
    let (last, full) = all.split_last().context("no signals")?;
    // Their descriptors are closed at once.
    for signal in full {
        for _ in 0..OF_ONE {
            drop(create(&device, *signal)?);
        }
    }
    let one_more = || status_of(&device, *last as u64);
    same("one more", one_more()?, Status::OUT_OF_RESOURCES)?;
    let other = open(abi)?;
    let same_process = status_of(&other, *last as u64)?;
    same("by another file", same_process, Status::OUT_OF_RESOURCES)?;
    device.set_signal(full[0], true)?;
    drop(create(&device, *last)?);
    device.destroy_signal(full[1])?;
    for _ in 1..OF_ONE {
        drop(create(&device, *last)?);
    }
    for signal in all {
        let _ = device.destroy_signal(signal);
    }
    drop(create(&device, device.create_signal(true)?)?);
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        let abi = Abi::named("6.4.11").context("a generation")?;
        // Runs first, while no other fences exist.
        suite.test("many of one process", move || many(abi));
        let of_signals = |abi: &&Abi| abi.field("CreateNativeFence", "signal").is_some();
        for abi in Abi::familiar().into_iter().filter(of_signals) {
            let what = abi.name;
            suite.test(format!("{what}: by a command"), move || by_command(abi));
            suite.test(format!("{what}: by an event"), move || by_event(abi));
            suite.test(format!("{what}: refusals"), move || refusals(abi));
            suite.test(format!("{what}: another driver's"), move || foreign(abi));
        }
        suite.test("of a process that is killed", move || of_the_dead(abi));
        suite.test("of a signal that is never set", move || never_set(abi));
        suite.run()
    })
}
