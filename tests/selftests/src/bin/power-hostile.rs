// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on the cores' power management: no process may block recovery for other processes, system sleep, or a rebind
//! of a core. After any sequence of requests, all cores must work.
//!
//! Needs the module to be loaded, with a `gpuTimeout` of at most one second. Arguments: `[--seconds N] [--seed N]`, for
//! the random part.

use std::fs;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
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
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg;
use galcore_selftests::workers;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::POWER;
use gpu_control::SCALE;

/// A draw of this color hangs a core.
const BAD: u32 = 0x0bad_0bad;

/// Threads that repeat one request.
const THREADS: u32 = 64;

/// Processes that hang one core each.
const HANGERS: u32 = 4;

/// State ON of 4.6.9.
const STATE_ON: u64 = 0;

fn open(name: &str) -> Result<Device> {
    let abi = Abi::named(name).with_context(|| name.to_string())?;
    Ok(Device::open_as(abi, true)?)
}

fn set(device: &Device, state: u64) -> Result<Status> {
    let command = "SET_POWER_MANAGEMENT_STATE";
    Ok(device.ask(command, &[("state", state)], "state")?.0)
}

fn config(device: &Device, enable: u64) -> Result<Status> {
    Ok(device
        .ask("CONFIG_POWER_MANAGEMENT", &[("enable", enable)], "enable")?
        .0)
}

/// A core that only its power domain can reset must recover from a hang in spite of an attacker.
fn cycle(control: &Control, what: &str) -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0xff34_3434)?;
    let is_over = &AtomicBool::new(false);
    let asked = &AtomicU32::new(0);
    let found = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                let device = open("4.6.9").expect("open");
                while !is_over.load(Relaxed) {
                    match what {
                        "on" => {
                            let _ = set(&device, STATE_ON);
                        }
                        "query" => {
                            let _ = device.ask_for(
                                "QUERY_POWER_MANAGEMENT_STATE",
                                &[],
                                ["state", "isIdle"],
                            );
                        }
                        _ => {
                            let _ = fs::read("/proc/driver/gc");
                        }
                    }
                    asked.fetch_add(1, Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_millis(300));
        let before = control.counter(counter::POWER_UPS);
        control.write(fault::RESET_NEEDS_POWER, 1);
        let armed = control.arm(fault::HOLD, 1);
        let stream = paint.fill_all(0xff35_3535);
        let committed = paint.commit(&stream, &mut Queue::new());
        let mut result = Ok(());
        if let Err(error) = committed {
            result = Err(error);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20)
            && control.counter(counter::POWER_UPS) == before
        {
            thread::sleep(Duration::from_millis(20));
        }
        println!(
            "# cycled {} times after {:?}, asked {}",
            control.counter(counter::POWER_UPS) - before,
            begun.elapsed(),
            asked.load(Relaxed)
        );
        drop(armed);
        is_over.store(true, Relaxed);
        result
    });
    found?;
    let alive = eventually("it draws", Duration::from_secs(10), || {
        Ok(Paint::new()
            .and_then(|mut paint| paint.prove(0xff36_3636))
            .is_ok())
    });
    control.write(fault::RESET_NEEDS_POWER, 0);
    alive?;
    same("ON", set(&open("4.6.9")?, STATE_ON)?, Status::OK)
}

fn spawn(arguments: &[&str]) -> Result<Child> {
    Ok(system::again(arguments)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?)
}

/// Hangs its core with one job and stays alive.
fn hanger() -> Result<()> {
    let mut paint = Paint::new()?;
    let stream = paint.fill_all(BAD);
    paint.commit(&stream, &mut Queue::new())?;
    thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// Several processes hang the GPU once each. The machine must still go to sleep.
fn sleepless(control: &Control) -> Result<()> {
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    let mut children = Vec::new();
    for _ in 0..HANGERS {
        children.push(spawn(&["--mode", "hanger"])?);
    }
    thread::sleep(Duration::from_millis(700));
    let mut failed = 0;
    for round in 0..2 {
        let begun = Instant::now();
        let slept = system::sleep_devices();
        println!(
            "# sleep {round}: {:?} in {:?}",
            slept.is_ok(),
            begun.elapsed()
        );
        failed += u32::from(slept.is_err());
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    drop(armed);
    ensure!(failed == 0, "{failed} sleeps failed");
    Ok(())
}

/// The core is rebound while a process is delayed before its commands.
fn rebind(control: &Control) -> Result<()> {
    /// Enough hangs for a delay of some seconds.
    const HANGS: u32 = 7;
    let core = system::bound()?.into_iter().next().context("no core")?;
    let mut paint = Paint::new()?;
    paint.prove(0xff11_2233)?;
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    control.write(fault::HANG_KIND, fault::HANG_BUS_ERROR);
    let signal = paint.device().create_signal(false)?;
    for _ in 0..HANGS {
        let stream = paint.fill_all(BAD);
        let mut queue = Queue::new();
        queue.signal(signal);
        paint.commit(&stream, &mut queue)?;
        paint.device().wait_signal(signal, 20_000)?;
    }
    drop(armed);
    let waiter = thread::spawn(move || {
        let begun = Instant::now();
        let stream = paint.fill_all(0xff22_3344);
        let committed = paint.commit(&stream, &mut Queue::new());
        (begun.elapsed(), committed.is_ok())
    });
    thread::sleep(Duration::from_millis(100));
    system::to_driver("unbind", &core)?;
    let bound = system::to_driver("bind", &core);
    let others = Paint::new().and_then(|mut paint| paint.prove(0xff33_4455));
    let (waited, _) = waiter.join().expect("no panic");
    println!("# who has hung it waited {waited:?}");
    bound?;
    // The delay may come from hangs of other processes, which this process also pays for. It only has to end.
    let _ = others;
    ensure!(waited > Duration::from_millis(200), "nobody waited");
    Ok(())
}

/// One thread of a stormer: random power commands, with draws between them.
fn ops(seed: u32, cores: u32, vg_place: Option<usize>) -> Result<()> {
    let mut random = Random::new(seed);
    let names = ["4.6.9", "6.2.3", "6.4.11", "4.6.9"];
    loop {
        let name = names[random.below(4) as usize];
        let Ok(mut device) = open(name) else {
            continue;
        };
        let kind = match random.below(4) {
            0 => 1,
            1 => 2,
            2 => vg::VG,
            _ => 1,
        };
        device.set_hardware_type(kind);
        for _ in 0..random.below(40) {
            match random.below(9) {
                0..=2 => {
                    let _ = set(&device, u64::from(random.below(13)));
                }
                3 => {
                    let _ =
                        device.ask_for("QUERY_POWER_MANAGEMENT_STATE", &[], ["state", "isIdle"]);
                }
                4 => {
                    let _ = config(&device, u64::from(random.below(2)));
                }
                5 => {
                    let value = u64::from(1 + random.below(64));
                    let _ = device.ask("SET_FSCALE_VALUE", &[("value", value)], "value");
                }
                6 => {
                    let _ = fs::read("/proc/driver/gc");
                }
                7 => {
                    let core = random.below(cores) as usize;
                    if Some(core) == vg_place {
                        let _ = draw_vg(&mut random);
                    } else {
                        let _ = draw(core, &mut random);
                    }
                }
                _ => thread::sleep(Duration::from_millis(random.below(20).into())),
            }
        }
    }
}

/// Draws a few times, and sometimes hangs the core.
fn draw(core: usize, random: &mut Random) -> Result<()> {
    let client = Client::with_device(Device::open_core(core)?)?;
    let mut paint = Paint::of(client)?;
    let signal = paint.device().create_signal(false)?;
    for _ in 0..random.below(6) {
        let colour = match random.below(12) {
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

/// The same on the core for vector graphics.
fn draw_vg(random: &mut Random) -> Result<()> {
    let mut client = vg::Client::start()?;
    let done = client.device.create_signal(false)?;
    for slot in 0..random.below(4) {
        let colour = match random.below(12) {
            0 => BAD,
            _ => 0xff00_0000 | random.colour(),
        };
        let entries = workers::vg_job(&client, slot, random.below(workers::VG_CELLS), colour);
        let tasks = vg::Tasks::default().with(vg::PIXEL, vg::signal(done));
        if client.send(&entries, &tasks)? != vg::OK {
            break;
        }
        if random.below(2) == 0 {
            let _ = client.device.wait_signal(done, 3000);
        }
    }
    client.close()
}

/// A process with several such threads.
fn stormer(seed: u32, cores: u32) -> Result<()> {
    let place = vg::place()?;
    thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || ops(seed * 16 + thread, cores, place));
        }
    });
    Ok(())
}

/// All of that at once, while processes are killed, cores are unbound and bound, throttled, and suspended.
fn storm(controls: &[Control], seconds: u32, seed: u32) -> Result<()> {
    let cores = controls.len() as u32;
    let names = system::bound()?;
    let mut armed = Vec::new();
    for control in controls {
        armed.push(control.arm(fault::HANG_AT_COLOUR, BAD));
    }
    let mut random = Random::new(seed);
    let mut number = seed * 1000;
    let mut start = || {
        number += 1;
        spawn(&[
            "--mode",
            "stormer",
            "--seed",
            &number.to_string(),
            "--cores",
            &cores.to_string(),
        ])
    };
    let mut children = Vec::new();
    for _ in 0..4 {
        children.push(start()?);
    }
    let begun = Instant::now();
    let (mut slept, mut sleepless, mut bound, mut kills) = (0, 0, 0, 0);
    while begun.elapsed() < Duration::from_secs(seconds.into()) {
        thread::sleep(Duration::from_millis(random.below(120).into()));
        let core = &names[random.below(names.len() as u32) as usize];
        let power = format!("/sys/bus/platform/devices/{core}/power");
        match random.below(9) {
            0 | 1 => {
                let at = random.below(4) as usize;
                let _ = children[at].kill();
                let _ = children[at].wait();
                kills += 1;
                children[at] = start()?;
            }
            2 | 3 => {
                for entry in fs::read_dir("/sys/class/thermal")?.flatten() {
                    let _ = fs::write(entry.path().join("cur_state"), random.below(5).to_string());
                }
            }
            4 => {
                let control = ["on", "auto", "auto"][random.below(3) as usize];
                let _ = fs::write(format!("{power}/control"), control);
            }
            5 => match system::sleep_devices() {
                Ok(()) => slept += 1,
                Err(_) => sleepless += 1,
            },
            6 => {
                system::to_driver("unbind", core)?;
                thread::sleep(Duration::from_millis(random.below(50).into()));
                system::to_driver("bind", core)?;
                bound += 1;
            }
            7 => {
                let delay = ["0", "1", "30", "-1", "0"][random.below(5) as usize];
                let _ = fs::write(format!("{power}/autosuspend_delay_ms"), delay);
            }
            _ => {
                for control in controls {
                    control.write(fault::HANG_KIND, random.below(5));
                    control.write(
                        fault::DELAY_INTERRUPTS,
                        [0, 0, 3000][random.below(3) as usize],
                    );
                }
            }
        }
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    drop(armed);
    for control in controls {
        control.write(fault::DELAY_INTERRUPTS, 0);
    }
    for core in &names {
        let power = format!("/sys/bus/platform/devices/{core}/power");
        let _ = fs::write(format!("{power}/control"), "auto");
        let _ = fs::write(format!("{power}/autosuspend_delay_ms"), "0");
    }
    for entry in fs::read_dir("/sys/class/thermal")?.flatten() {
        let _ = fs::write(entry.path().join("cur_state"), "0");
    }
    println!("# kills {kills}, binds {bound}, sleeps {slept}, refused {sleepless}");
    Ok(())
}

/// All cores draw.
fn is_well(controls: &[Control]) -> Result<()> {
    let place = vg::place()?;
    for (core, control) in controls.iter().enumerate() {
        if Some(core) == place {
            let mut client = vg::Client::start()?;
            client.prove(0xff12_3456).context("vg")?;
            continue;
        }
        let client = Client::with_device(Device::open_core(core)?)?;
        let mut paint = Paint::of(client)?;
        paint
            .prove(0xff77_7777)
            .with_context(|| format!("core {core}"))?;
        same("64ths", control.read(SCALE), 64)?;
        paint.close()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["mode", "seconds", "seed", "cores"])?;
        let seed = options.number("seed", 1)?;
        let seconds = options.number("seconds", 8)?;
        harness::allow(Duration::from_secs(u64::from(600 + seconds)));
        match options.get("mode") {
            Some("hanger") => return hanger().map(|()| true),
            Some("well") => {
                let cores = Device::open()?.chip_info()?.count;
                let controls = (0..cores).map(|core| Control::open_core(core as usize));
                return is_well(&controls.collect::<Result<Vec<_>>>()?).map(|()| true);
            }
            Some(_) => return stormer(seed, options.number("cores", 1)?).map(|()| true),
            None => {}
        }
        let cores = Device::open()?.chip_info()?.count;
        let controls = (0..cores).map(|core| Control::open_core(core as usize));
        let controls = &controls.collect::<Result<Vec<_>>>()?;
        let control = &controls[0];
        Paint::new()?.close()?;
        let mut suite = Suite::new();
        for (what, title) in [
            ("on", "threads that ask for ON"),
            ("query", "threads that ask for its state"),
            ("proc", "threads that read /proc/driver/gc"),
        ] {
            suite.test(format!("{title} keep no core in its hang"), move || {
                cycle(control, what)
            });
        }
        suite.test("the machine sleeps though cores hang", move || {
            sleepless(control)
        });
        suite.test(
            "a core is bound again while somebody pays for his hangs",
            move || rebind(control),
        );
        suite.test(
            format!("{seconds} s of everything at random (seed {seed})"),
            move || storm(controls, seconds, seed),
        );
        // In a process that has caused no hang.
        suite.test("all cores draw, at full speed", || {
            let output = system::again(&["--mode", "well"])?.output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "{text}");
            Ok(())
        });
        suite.test("nothing is left", || ProcGc::nothing_left().map(|_| ()));
        suite.test("all cores go off", move || {
            for (core, control) in controls.iter().enumerate() {
                eventually(
                    &format!("core {core} is off"),
                    Duration::from_secs(5),
                    || Ok(control.read(POWER) == 0),
                )?;
            }
            Ok(())
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
