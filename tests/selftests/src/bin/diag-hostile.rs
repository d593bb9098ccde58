// SPDX-License-Identifier: GPL-2.0-only
//! Attacks through the diagnostic interfaces: counters, registers, dumps, shared information, `/proc/driver/gc`,
//! debugfs and fdinfo. They must not take time or data from other processes. After any requests in any order, all cores
//! work.
//!
//! The module must be loaded, with a `gpuTimeout` of a second or less. Arguments: `[--seconds N] [--seed N]`, for the
//! random part.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;

use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::profile;
use galcore_client::sys::become_user;
use galcore_client::sys::exchange;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Killed;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg;
use gpu_control::counter;
use gpu_control::fault;
use rustix::process::Uid;
use rustix::thread::CapabilitySet;
use rustix::thread::CapabilitySets;

/// The generation that attackers use.
const SPOKEN: &str = "6.4.11";
/// Draws of this colour hang a core.
const BAD: u32 = 0x0bad_0bad;
/// Threads that repeat the same request.
const THREADS: u32 = 64;
/// A user other than root.
const SOMEBODY: u32 = 1000;
/// The secret that a privileged process stores, and the number under which it does.
const SECRET: u32 = 0x5ec2_e700;
const NUMBER: u64 = 5;
/// `IOCTL_GCHAL_PROFILER_INTERFACE`.
const IOCTL_PROFILER: u32 = 30001;
/// Milliseconds; longer than any request takes.
const LONG: u32 = 20_000;

fn open(name: &str) -> Result<Device> {
    let abi = Abi::named(name).with_context(|| name.to_string())?;
    Ok(Device::open_as(abi, true)?)
}

fn spawn(arguments: &[&str]) -> Result<Killed> {
    let mut command = system::again(arguments)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(Killed(command.spawn()?))
}

/// Runs the commands of [`SPOKEN`] that read counters.
fn read_counters(device: &Device) -> Result<()> {
    for command in profile::commands(device.abi()) {
        profile::read(device, command)?;
    }
    Ok(())
}

/// Reads counters in `threads` threads, as an ordinary user.
fn counters(threads: u32) -> Result<()> {
    let devices = (0..threads).map(|_| open(SPOKEN));
    let devices = devices.collect::<Result<Vec<_>>>()?;
    become_user(SOMEBODY)?;
    thread::scope(|scope| {
        for device in &devices {
            scope.spawn(move || while read_counters(device).is_ok() {});
        }
    });
    Ok(())
}

/// The mean time from a job to its signal, one job at a time.
fn latency(paint: &mut Paint) -> Result<Duration> {
    const JOBS: u32 = 25;
    const ENOUGH: Duration = Duration::from_secs(3);
    let signal = paint.device().create_signal(false)?;
    let begun = Instant::now();
    let mut jobs = 0;
    while jobs < JOBS && begun.elapsed() < ENOUGH {
        let stream = paint.fill_cell(jobs, 0xff00_0000 | jobs);
        let mut queue = Queue::new();
        queue.signal(signal);
        paint.commit(&stream, &mut queue)?;
        paint.device().wait_signal(signal, LONG)?;
        jobs += 1;
    }
    let mean = begun.elapsed() / jobs;
    paint.device().destroy_signal(signal)?;
    println!("# {jobs} jobs, each {mean:?}");
    Ok(mean)
}

/// Many threads that read counters cost other processes no more than one thread does, plus the CPU time.
fn hammered() -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0xff34_3434)?;
    latency(&mut paint)?;
    let mut found = Vec::new();
    for threads in [1, THREADS] {
        let child = spawn(&["--mode", "counters", "--threads", &threads.to_string()])?;
        thread::sleep(Duration::from_millis(400));
        found.push(latency(&mut paint)?);
        drop(child);
    }
    let limit = 4 * found[0] + Duration::from_millis(20);
    ensure!(found[1] < limit, "{found:?}");
    paint.close()
}

/// The same next to a core that hangs: the core recovers.
fn hung(control: &Control) -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0xff35_3535)?;
    let counters = spawn(&["--mode", "counters", "--threads", "16"])?;
    let looker = spawn(&["--mode", "looker"])?;
    thread::sleep(Duration::from_millis(300));
    let before = control.counter(counter::RESETS);
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    let signal = paint.device().create_signal(false)?;
    let stream = paint.fill_all(BAD);
    let mut queue = Queue::new();
    queue.signal(signal);
    let begun = Stopwatch::start();
    paint.commit(&stream, &mut queue)?;
    paint.device().wait_signal(signal, LONG)?;
    println!("# over after {:?}", begun.elapsed());
    drop(armed);
    ensure!(control.counter(counter::RESETS) > before, "no reset");
    ensure!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    for mut killed in [counters, looker] {
        let begun = Stopwatch::start();
        killed.0.kill()?;
        killed.0.wait()?;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(2), "killed in {took:?}");
    }
    Ok(())
}

/// Reads all registers and requests all dumps, in an endless loop.
fn looker() -> Result<()> {
    let device = open(SPOKEN)?;
    loop {
        for address in (0..0x700).step_by(4) {
            device.ask("READ_REGISTER", &[("address", address)], "data")?;
        }
        let _ = profile::ask(&device, "DUMP_GPU_STATE", &[]);
        let _ = fs::write(ProcGc::PATH, "dumpall");
        let _ = fs::read("/sys/kernel/debug/gc/database");
    }
}

fn share(device: &Device, command: &str, process: u32, word: &mut u32) -> Result<Status> {
    let abi = device.abi();
    let size = match abi.field("SetSharedInfo", "size") {
        Some(_) => "size",
        None => "bytes",
    };
    let data = std::ptr::from_mut(word) as usize as u64;
    let mut given = vec![("dataId", NUMBER), ("data", data), (size, 4)];
    if command == "GET_SHARED_INFO" {
        given.push(("pid", process.into()));
    }
    Ok(device.ask_for(command, &given, [])?.0)
}

/// Stores a secret, like a set-uid root program that a user started, and keeps running.
fn privileged() -> Result<()> {
    let (user, root) = (Uid::from_raw(SOMEBODY), Uid::ROOT);
    rustix::thread::set_thread_res_uid(user, root, root)?;
    let device = open("4.6.9")?;
    let mut word = SECRET;
    same(
        "SET",
        share(&device, "SET_SHARED_INFO", 0, &mut word)?,
        Status::OK,
    )?;
    println!("left");
    thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// The user who started the program cannot read its secret.
fn secrets() -> Result<()> {
    let mut child = system::again(&["--mode", "privileged"])?;
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut child = Killed(child);
    let mut left = [0; 5];
    let output = child.0.stdout.as_mut().context("no pipe")?;
    std::io::Read::read_exact(output, &mut left)?;
    let id = child.0.id();
    let get = |user: Option<u32>| -> Result<(Status, u32)> {
        if let Some(user) = user {
            let user = Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user)?;
        }
        let device = open("4.6.9")?;
        let mut word = 0;
        let status = share(&device, "GET_SHARED_INFO", id, &mut word)?;
        Ok((status, std::hint::black_box(word)))
    };
    same("root", get(None)?, (Status::OK, SECRET))?;
    fs::set_permissions(
        "/dev/galcore",
        std::os::unix::fs::PermissionsExt::from_mode(0o666),
    )?;
    let found = thread::scope(|scope| scope.spawn(move || get(Some(SOMEBODY))).join());
    let found = found.expect("no panic")?;
    same("its starter", found, (Status::INVALID_DATA, 0))
}

/// A process without rights opens the file, and a process with rights writes to it.
fn borrowed_rights() -> Result<()> {
    let opened = thread::spawn(|| -> Result<File> {
        let none = CapabilitySet::empty();
        let none = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        rustix::thread::set_capabilities(None, none)?;
        Ok(OpenOptions::new().write(true).open(ProcGc::PATH)?)
    });
    let mut file = opened.join().expect("no panic")?;
    let error = match file.write(b"su") {
        Ok(bytes) => anyhow::bail!("{bytes} bytes written"),
        Err(error) => error.raw_os_error(),
    };
    same("write", error, Some(libc::EPERM))?;
    Ok(fs::write(ProcGc::PATH, "su")?)
}

/// While the administrator traces the cores' power, a process cannot flood the log.
fn quiet_log() -> Result<()> {
    const CHANGES: u64 = 600;
    const LINES: usize = 300;
    let mut log = KernelLog::from_now()?;
    let device = open(SPOKEN)?;
    system::stay_awake()?;
    fs::write(ProcGc::PATH, "powerDebug")?;
    for change in 0..CHANGES {
        let value = [1, 64][change as usize & 1];
        device.ask("SET_FSCALE_VALUE", &[("value", value)], "value")?;
    }
    fs::write(ProcGc::PATH, "powerDebug")?;
    system::may_sleep()?;
    let lines = log.lines()?;
    let lines = lines.iter().filter(|line| line.text.contains("its clock"));
    let lines = lines.count();
    println!("# {lines} lines");
    ensure!(lines > 0, "no line");
    ensure!(lines < LINES, "{lines} lines of {CHANGES} changes");
    Ok(())
}

/// One thread of a stormer: random diagnostic requests, with draws in between.
fn ops(seed: u32, cores: u32, vg_place: Option<usize>) -> Result<()> {
    let mut random = Random::new(seed);
    let names = ["dove", "v2", "4.0.0", "4.6.9", "6.2.3", SPOKEN];
    loop {
        let name = names[random.below(names.len() as u32) as usize];
        let Ok(mut device) = open(name) else {
            continue;
        };
        device.set_hardware_type([1, 1, 2, vg::VG][random.below(4) as usize]);
        for _ in 0..random.below(30) {
            let _ = op(&device, &mut random, cores, vg_place);
        }
    }
}

/// One random request.
fn op(device: &Device, random: &mut Random, cores: u32, vg_place: Option<usize>) -> Result<()> {
    match random.below(10) {
        0 => read_counters(device)?,
        1 => drop(profile::read_2d(device)?),
        2 => {
            let enable = u64::from(random.below(2));
            profile::ask(device, "SET_PROFILE_SETTING", &[("enable", enable)])?;
        }
        3 => drop(profile::ask(device, "GET_PROFILE_SETTING", &[])?),
        4 => {
            let address = u64::from(random.below(0x800));
            device.ask("READ_REGISTER", &[("address", address)], "data")?;
            let given = [("address", 0x470 + address % 12), ("data", address)];
            device.ask_for("WRITE_REGISTER", &given, [])?;
        }
        5 => {
            let name = ["DUMP_GPU_STATE", "DUMP_EVENT", "DEBUG"][random.below(3) as usize];
            profile::ask(device, name, &[])?;
        }
        6 => {
            let mut word = random.colour();
            share(device, "SET_SHARED_INFO", 0, &mut word)?;
            let process = 1 + random.below(2 * std::process::id());
            share(device, "GET_SHARED_INFO", process, &mut word)?;
        }
        7 => {
            let mut bytes = vec![0; profile::interface_bytes(device.abi())];
            bytes.fill_with(|| random.below(256) as u8);
            let command = random.below(0x60);
            bytes[..4].copy_from_slice(&command.to_le_bytes());
            exchange(device.file().as_fd(), IOCTL_PROFILER, &mut bytes)?;
        }
        8 => thread::sleep(Duration::from_millis(random.below(10).into())),
        _ => {
            let core = random.below(cores) as usize;
            if Some(core) != vg_place {
                draw(core, random)?;
            }
        }
    }
    Ok(())
}

/// Draws a few times, and sometimes hangs the core.
fn draw(core: usize, random: &mut Random) -> Result<()> {
    let client = Client::with_device(Device::open_core(core)?)?;
    let mut paint = Paint::of(client)?;
    let signal = paint.device().create_signal(false)?;
    for _ in 0..random.below(6) {
        let colour = match random.below(40) {
            0 => BAD,
            _ => random.colour() | 0xff00_0000,
        };
        let stream = paint.fill_all(colour);
        let mut queue = Queue::new();
        queue.signal(signal);
        paint.commit(&stream, &mut queue)?;
        if random.below(3) == 0 {
            let _ = paint.device().wait_signal(signal, 3000);
        }
    }
    paint.close()
}

/// A process with several such threads.
fn stormer(seed: u32, cores: u32) -> Result<()> {
    let place = vg::place()?;
    thread::scope(|scope| {
        for thread in 0..3u32 {
            scope.spawn(move || ops(seed * 16 + thread, cores, place));
        }
    });
    Ok(())
}

/// Reads all files of the driver in debugfs, and the files of the processes that have it open.
fn read_all(is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        for folder in ["/sys/kernel/debug/gc", "/sys/kernel/debug/galcore"] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let _ = fs::read(entry.path());
            }
        }
        let _ = fs::read(ProcGc::PATH);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let files = fs::read_dir(entry.path().join("fdinfo"));
            for file in files.into_iter().flatten().flatten() {
                let _ = fs::read(file.path());
            }
        }
    }
}

/// Commands that toggle a mode, and other commands.
const TOGGLES: [&str; 4] = ["printPID", "powerDebug", "hang", "offidle"];
const COMMANDS: [&str; 19] = [
    "reset2",
    "reset2",
    "memFail 0x10000000",
    "memFail 0",
    "irq 0",
    "irq 1",
    "log 0",
    "log 3",
    "silentReset 1",
    "dumpCmdBuf 1",
    "dumpCmdBuf 0",
    "dumpall",
    "stress 4294967295",
    "su",
    "re",
    "debug 3 0xffffffff",
    "profile 1 2 3 4294967295",
    "64",
    "1",
];

/// Writes random commands, and restores all modes at the end.
fn command(is_over: &AtomicBool, seed: u32) -> Result<()> {
    let mut random = Random::new(seed);
    let mut toggled = [false; TOGGLES.len()];
    while !is_over.load(Relaxed) {
        match random.below(4) {
            0 => {
                let which = random.below(TOGGLES.len() as u32) as usize;
                fs::write(ProcGc::PATH, TOGGLES[which])?;
                toggled[which] ^= true;
            }
            1 => {
                let length = [0, 1, 255, 256, 257, 70_000][random.below(6) as usize];
                let letter = [b'x', 0, b'\n', 0xff, b'%'][random.below(5) as usize];
                fs::write(ProcGc::PATH, vec![letter; length])?;
            }
            _ => {
                let which = random.below(COMMANDS.len() as u32) as usize;
                fs::write(ProcGc::PATH, COMMANDS[which])?;
            }
        }
        let _ = fs::write(
            "/sys/kernel/debug/gc/vidmem",
            ["0", "1", "-1", "x"][random.below(4) as usize],
        );
        thread::sleep(Duration::from_millis(random.below(20).into()));
    }
    for (which, _) in toggled.iter().enumerate().filter(|(_, toggled)| **toggled) {
        fs::write(ProcGc::PATH, TOGGLES[which])?;
    }
    for text in [
        "memFail 0",
        "irq 1",
        "log 3",
        "silentReset 1",
        "dumpCmdBuf 0",
        "debug -1 0",
        "1",
    ] {
        fs::write(ProcGc::PATH, text)?;
    }
    Ok(())
}

/// Runs all of that at once, while processes are killed and cores are unbound and bound.
fn storm(controls: &[Control], seconds: u32, seed: u32) -> Result<()> {
    let cores = controls.len() as u32;
    let names = system::bound()?;
    let armed: Vec<_> = controls
        .iter()
        .map(|control| control.arm(fault::HANG_AT_COLOUR, BAD))
        .collect();
    let mut random = Random::new(seed);
    let mut number = seed * 1000;
    let mut start = || {
        number += 1;
        let (seed, cores) = (number.to_string(), cores.to_string());
        spawn(&["--mode", "stormer", "--seed", &seed, "--cores", &cores])
    };
    let mut children = [start()?, start()?, start()?];
    let (mut bound, mut kills) = (0, 0);
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let commander = scope.spawn(move || command(is_over, seed));
        for _ in 0..2 {
            scope.spawn(move || read_all(is_over));
        }
        let begun = Instant::now();
        let mut result = Ok(());
        while begun.elapsed() < Duration::from_secs(seconds.into()) && result.is_ok() {
            thread::sleep(Duration::from_millis(random.below(150).into()));
            let core = &names[random.below(names.len() as u32) as usize];
            match random.below(3) {
                0 => {
                    result = start()
                        .map(|child| drop(std::mem::replace(&mut children[kills % 3], child)));
                    kills += 1;
                }
                1 => {
                    result = system::to_driver("unbind", core);
                    thread::sleep(Duration::from_millis(random.below(40).into()));
                    result = result.and_then(|()| system::to_driver("bind", core));
                    bound += 1;
                }
                _ => {
                    for control in controls {
                        control.write(fault::HANG_KIND, random.below(5));
                    }
                }
            }
        }
        is_over.store(true, Relaxed);
        commander.join().expect("no panic")?;
        result
    })?;
    drop(children);
    drop(armed);
    println!("# kills {kills}, binds {bound}");
    Ok(())
}

/// Checks that all cores draw.
fn is_well(cores: u32) -> Result<()> {
    let place = vg::place()?;
    for core in 0..cores as usize {
        if Some(core) == place {
            let mut client = vg::Client::start()?;
            client.prove(0xff12_3456).context("vg")?;
            continue;
        }
        let client = Client::with_device(Device::open_core(core)?)?;
        let mut paint = Paint::of(client)?;
        let proved = paint.prove(0xff77_7777);
        proved.with_context(|| format!("core {core}"))?;
        paint.close()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["mode", "seconds", "seed", "cores", "threads"])?;
        let seed = options.number("seed", 1)?;
        let seconds = options.number("seconds", 4)?;
        harness::allow(Duration::from_secs(u64::from(240 + seconds)));
        let cores = options.number("cores", 1)?;
        match options.get("mode") {
            Some("counters") => return counters(options.number("threads", 1)?).map(|()| true),
            Some("looker") => return looker().map(|()| true),
            Some("privileged") => return privileged().map(|()| true),
            Some("well") => return is_well(cores).map(|()| true),
            Some(_) => return stormer(seed, cores).map(|()| true),
            None => {}
        }
        let cores = Device::open()?.chip_info()?.count;
        let controls = (0..cores).map(|core| Control::open_core(core as usize));
        let controls = &controls.collect::<Result<Vec<_>>>()?;
        let control = &controls[0];
        Paint::new()?.close()?;
        let mut suite = Suite::new();
        suite.test("who reads counters takes nobody's time", hammered);
        suite.test("nor keeps a core in its hang", move || hung(control));
        suite.test("what root's programs leave is root's", secrets);
        suite.test(
            "who opens /proc/driver/gc must be an admin",
            borrowed_rights,
        );
        suite.test("a process does not fill the log of powerDebug", quiet_log);
        suite.test(
            format!("{seconds} s of everything at random (seed {seed})"),
            move || storm(controls, seconds, seed),
        );
        // From a process that has hung no core.
        suite.test("all cores draw", move || {
            let mut command = system::again(&["--mode", "well", "--cores", &cores.to_string()])?;
            let output = command.output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "{text}");
            Ok(())
        });
        suite.test("nothing is left", || {
            eventually("nothing", Duration::from_secs(20), || {
                Ok(ProcGc::nothing_left().is_ok())
            })
        });
        suite.test("silicon was not asked for more than it can do", move || {
            for control in controls {
                same("violations", control.violations(), 0)?;
            }
            Ok(())
        });
        suite.run()
    })
}
