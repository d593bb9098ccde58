// SPDX-License-Identifier: GPL-2.0-only
//! Power and clock requests of clients: the vendor's power states, a core that must stay on, the clock divider, and
//! thermal throttling.
//!
//! Needs the module not to be in use, bound by the device tree. Arguments: `[MODULE PARAMETERS...]`, with an
//! `autosuspend` longer than the whole run, so that a core powers off only on request.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::vg;
use galcore_selftests::video::unlock;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::POWER;
use gpu_control::POWER_CLOCK;
use gpu_control::POWER_DOMAIN;
use gpu_control::SCALE;

/// Power and clock of a core that is on.
const ON: u32 = POWER_CLOCK | POWER_DOMAIN;
/// The full clock.
const FULL: u32 = 64;
/// Longest time until a request takes effect.
const SOON: Duration = Duration::from_millis(1500);
/// `gcvSTATUS_CHIP_NOT_READY`.
const CHIP_NOT_READY: Status = Status(11);
/// The cooling devices.
const COOLING: &str = "/sys/class/thermal";

/// The states of `gceCHIPPOWERSTATE` in the order ON, OFF, IDLE, SUSPEND, and the first invalid number. Source:
/// tests/abi.
fn states(abi: &Abi) -> ([u64; 4], u64) {
    match abi.name {
        "dove_old" => ([0, 1, 2, 3], 4),
        "dove" => ([0, 1, 2, 3], 10),
        "v2" | "arnova" | "v4" | "eureka" => ([0, 1, 2, 3], 11),
        "5.0.11.p6" => ([0, 1, 2, 3], 14),
        name if name.starts_with("6.2.4") => ([0, 1, 2, 3], 9),
        name if name.starts_with("6.4") => ([0, 3, 1, 2], 5),
        _ => ([0, 1, 2, 3], 12),
    }
}

/// The states of 4.6.9, and its forms that do not wait.
const STATE_ON: u64 = 0;
const STATE_OFF: u64 = 1;
const STATE_IDLE: u64 = 2;
const STATE_SUSPEND: u64 = 3;
const STATE_OFF_BROADCAST: u64 = 8;

fn set(device: &Device, state: u64) -> Result<Status> {
    let command = "SET_POWER_MANAGEMENT_STATE";
    Ok(device.ask(command, &[("state", state)], "state")?.0)
}

/// Requests a state, which must succeed.
fn switch(device: &Device, state: u64) -> Result<()> {
    same(
        "SET_POWER_MANAGEMENT_STATE",
        set(device, state)?,
        Status::OK,
    )
}

/// The state, and whether the core is idle.
fn query(device: &Device) -> Result<(u64, bool)> {
    let command = "QUERY_POWER_MANAGEMENT_STATE";
    let (status, [state, idle]) = device.ask_for(command, &[], ["state", "isIdle"])?;
    same(command, status, Status::OK)?;
    Ok((state, idle != 0))
}

fn set_scale(device: &Device, scale: u64) -> Result<Status> {
    Ok(device
        .ask("SET_FSCALE_VALUE", &[("value", scale)], "value")?
        .0)
}

fn scale(device: &Device) -> Result<[u64; 3]> {
    let names = ["value", "minValue", "maxValue"];
    let (status, found) = device.ask_for("GET_FSCALE_VALUE", &[], names)?;
    same("GET_FSCALE_VALUE", status, Status::OK)?;
    Ok(found)
}

fn is_off(control: &Control) -> Result<()> {
    eventually("the core is off", SOON, || Ok(control.read(POWER) == 0))
}

fn runs_at(control: &Control, wanted: u32) -> Result<()> {
    eventually(&format!("the clock is at {wanted}"), SOON, || {
        Ok(control.read(SCALE) == wanted)
    })
}

fn open(name: &str) -> Result<Device> {
    let abi = Abi::named(name).with_context(|| name.to_string())?;
    Ok(Device::open_as(abi, true)?)
}

/// The numbers of every generation select the right states, and other numbers are refused.
fn numbers(abi: &'static Abi, control: &Control) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let (numbers, count) = states(abi);
    let [on, off, idle, suspend] = numbers;
    for state in 0..count {
        same(&format!("state {state}"), set(&device, state)?, Status::OK)?;
    }
    let stray = [count, 15, 16, 20, 32, 36, 0x8000_0000, 0xffff_ffff];
    for state in stray {
        let found = set(&device, state)?;
        same(
            &format!("state {state:#x}"),
            found,
            Status::INVALID_ARGUMENT,
        )?;
    }
    for state in [on, off, on, suspend, on, idle] {
        switch(&device, state)?;
        same("state", query(&device)?.0, state)?;
        if [off, suspend].contains(&state) {
            same("clock", control.read(POWER) & POWER_CLOCK, 0)?
        } else {
            same("power", control.read(POWER), ON)?
        }
    }
    switch(&device, off)?;
    is_off(control)
}

/// Draws while another client keeps asking for the state.
fn draw_beside(control: &Control, state: u64) -> Result<()> {
    let is_over = &AtomicBool::new(false);
    let before = control.counter(counter::CLOCK_UPS);
    let rounds = thread::scope(|scope| {
        let other = scope.spawn(move || -> Result<u32> {
            let device = open("4.6.9")?;
            let mut rounds = 0;
            while !is_over.load(Relaxed) {
                let found = set(&device, state)?;
                let is_busy = state == STATE_OFF_BROADCAST && found == CHIP_NOT_READY;
                ensure!(found == Status::OK || is_busy, "state {state}: {found}");
                rounds += 1;
            }
            Ok(rounds)
        });
        let mut paint = Paint::new()?;
        let mut random = Random::new(11);
        let mut drawn = Ok(());
        for _ in 0..60 {
            drawn = paint.prove(random.colour() | 0xff00_0000);
            if drawn.is_err() {
                break;
            }
        }
        is_over.store(true, Relaxed);
        let rounds = other.join().expect("no panic")?;
        drawn?;
        paint.close()?;
        anyhow::Ok(rounds)
    })?;
    let ups = control.counter(counter::CLOCK_UPS) - before;
    println!("# 60 pictures, state {state} asked for {rounds} times, {ups} times on");
    ensure!(rounds > 0, "nobody asked");
    Ok(())
}

fn state_tests<'a>(suite: &mut Suite<'a>, control: &'a Control) {
    suite.test("states by each generation's numbers", move || {
        for abi in Abi::familiar() {
            numbers(abi, control).with_context(|| abi.name.to_string())?;
        }
        Ok(())
    });
    suite.test(
        "who asks for OFF has the core off, until a job comes",
        move || {
            let mut paint = Paint::new()?;
            for (state, colour) in [(STATE_OFF, 0xff01_0203), (STATE_SUSPEND, 0xff03_0201)] {
                paint.prove(colour)?;
                same("power", control.read(POWER), ON)?;
                switch(paint.device(), state)?;
                is_off(control)?;
                let before = control.counter(counter::CLOCK_UPS);
                same("state", query(paint.device())?, (state, true))?;
                same(
                    "asked, and off",
                    control.counter(counter::CLOCK_UPS),
                    before,
                )?;
                paint.expect(|_, _| colour)?;
                paint.prove(!colour | 0xff00_0000)?;
                same("state", query(paint.device())?.0, STATE_ON)?;
            }
            paint.close()
        },
    );
    suite.test("who asks for ON has it on, without a job", move || {
        let device = open("4.6.9")?;
        switch(&device, STATE_OFF)?;
        is_off(control)?;
        switch(&device, STATE_ON)?;
        same("power", control.read(POWER), ON)?;
        same("state", query(&device)?, (STATE_ON, true))
    });
    suite.test("IDLE is the lowest clock, until a job comes", move || {
        let mut paint = Paint::new()?;
        for colour in [0xff11_1111, 0xff22_2222, 0xff33_3333] {
            paint.prove(colour)?;
            switch(paint.device(), STATE_IDLE)?;
            same("64ths", control.read(SCALE), 1)?;
            same("state", query(paint.device())?, (STATE_IDLE, true))?;
            paint.prove(!colour | 0xff00_0000)?;
            runs_at(control, FULL)?;
            same("state", query(paint.device())?.0, STATE_ON)?;
        }
        // Also from OFF.
        switch(paint.device(), STATE_OFF)?;
        is_off(control)?;
        switch(paint.device(), STATE_IDLE)?;
        same("64ths", control.read(SCALE), 1)?;
        same("state", query(paint.device())?, (STATE_IDLE, true))?;
        paint.prove(0xff55_5555)?;
        runs_at(control, FULL)?;
        // It also ends when ON is requested.
        switch(paint.device(), STATE_IDLE)?;
        same("64ths", control.read(SCALE), 1)?;
        switch(paint.device(), STATE_ON)?;
        same("64ths", control.read(SCALE), FULL)?;
        same("state", query(paint.device())?, (STATE_ON, true))?;
        // It does not survive a power-off.
        switch(paint.device(), STATE_IDLE)?;
        switch(paint.device(), STATE_IDLE)?;
        switch(paint.device(), STATE_OFF)?;
        is_off(control)?;
        paint.prove(0xff44_4444)?;
        same("64ths", control.read(SCALE), FULL)?;
        paint.close()
    });
    suite.test("what is under way is ended first, or kept", move || {
        let mut paint = Paint::new()?;
        paint.prove(0xff0a_0a0a)?;
        let armed = control.arm(fault::SLOW_DRAWS, 400_000);
        let stream = paint.fill_all(0xff0b_0b0b);
        paint.commit(&stream, &mut Queue::new())?;
        let found = set(paint.device(), STATE_OFF_BROADCAST)?;
        same("OFF_BROADCAST while it draws", found, CHIP_NOT_READY)?;
        same("power", control.read(POWER), ON)?;
        let begun = Instant::now();
        switch(paint.device(), STATE_OFF)?;
        ensure!(begun.elapsed() > Duration::from_millis(100), "too soon");
        drop(armed);
        is_off(control)?;
        paint.expect(|_, _| 0xff0b_0b0b)?;
        paint.close()
    });
    suite.test(
        "who polls until it is idle sees what was drawn",
        move || {
            let mut paint = Paint::new()?;
            for round in 0..20u32 {
                paint.prove(0xff0c_0c0c)?;
                // In every second round the core must power on first.
                if round % 2 == 0 {
                    switch(paint.device(), STATE_OFF)?;
                    is_off(control)?;
                }
                let armed = control.arm(fault::SLOW_DRAWS, 30_000 * (round % 4));
                let colour = 0xff0d_0d00 + round;
                let stream = paint.fill_all(colour);
                paint.commit(&stream, &mut Queue::new())?;
                let begun = Stopwatch::start();
                loop {
                    let (state, is_idle) = query(paint.device())?;
                    same("state of a core with a job", state, STATE_ON)?;
                    if is_idle {
                        break;
                    }
                    ensure!(!begun.is_over(4 * SOON), "it is never idle");
                }
                drop(armed);
                paint.expect(|_, _| colour)?;
            }
            paint.close()
        },
    );
    suite.test("who asks for OFF behind all else has it off", move || {
        let mut paint = Paint::new()?;
        for round in 0..20 {
            paint.prove(0xff0e_0e00 + round)?;
            let device = paint.device();
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, Pool::VIRTUAL)?;
            device.lock(node)?;
            unlock(device, node)?;
            device.free(node)?;
            switch(device, STATE_OFF)?;
            // The work that frees the node may look at the core.
            eventually("the core is off", SOON, || Ok(control.read(POWER) == 0))?;
            same("state", query(device)?, (STATE_OFF, true))?;
        }
        // The same while another thread queries the core.
        let is_over = &AtomicBool::new(false);
        let watcher = open("4.6.9")?;
        thread::scope(|scope| -> Result<()> {
            let watching = scope.spawn(move || -> Result<()> {
                while !is_over.load(Relaxed) {
                    query(&watcher)?;
                    // A query that follows at once would keep the core on.
                    thread::sleep(Duration::from_micros(100));
                }
                Ok(())
            });
            let mut go = || -> Result<()> {
                for round in 0..10 {
                    paint.prove(0xff0f_0f00 + round)?;
                    switch(paint.device(), STATE_OFF)?;
                    // Queries in progress keep it on until they end.
                    eventually("the core is off beside one that looks", 10 * SOON, || {
                        Ok(control.read(POWER) == 0)
                    })?;
                }
                Ok(())
            };
            let gone = go();
            is_over.store(true, Relaxed);
            watching.join().expect("no panic")?;
            gone
        })?;
        paint.close()
    });
    suite.test(
        "who asks for OFF does not wait where root keeps it on",
        move || {
            let device = open("4.6.9")?;
            const TIMES: u32 = 8;
            let asked = system::awake(|| -> Result<Duration> {
                let begun = Instant::now();
                for _ in 0..TIMES {
                    switch(&device, STATE_OFF)?;
                }
                same("power", control.read(POWER), ON)?;
                Ok(begun.elapsed())
            })??;
            println!("# OFF {TIMES} times: {asked:?}");
            ensure!(asked < TIMES * Duration::from_millis(100), "{asked:?}");
            switch(&device, STATE_OFF)?;
            is_off(control)
        },
    );
    suite.test("who waits for OFF can be killed", move || {
        // The duration of each of the two draws.
        let armed = control.arm(fault::SLOW_DRAWS, 700_000);
        let mut other = system::again(&["--wait"])?.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let out = other.stdout.as_mut().context("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        same("the other", line.trim(), "waits")?;
        thread::sleep(Duration::from_millis(580));
        let begun = Instant::now();
        other.kill()?;
        other.wait()?;
        let took = begun.elapsed();
        drop(armed);
        println!("# killed in {took:?}");
        ensure!(took < Duration::from_millis(250), "{took:?}");
        Ok(())
    });
    suite.test("RESET moves the stamp of who has asked", move || {
        let device = open("4.6.9")?;
        let stamp = |device: &Device| -> Result<u64> {
            let (status, stamp) = device.ask("QUERY_RESET_TIME_STAMP", &[], "timeStamp")?;
            same("QUERY_RESET_TIME_STAMP", status, Status::OK)?;
            Ok(stamp)
        };
        let before = stamp(&device)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff1a_1a1a)?;
        let (status, _) = device.send(Command::RESET, &uapi::Event { queue: 0 })?;
        same("RESET", status, Status::OK)?;
        same("stamp", stamp(&device)?, before + 1)?;
        // The surface is unchanged.
        paint.expect(|_, _| 0xff1a_1a1a)?;
        paint.close()
    });
    suite.test("nobody can keep others from drawing", move || {
        for state in [STATE_OFF, STATE_SUSPEND, STATE_IDLE, STATE_OFF_BROADCAST] {
            draw_beside(control, state)?;
        }
        runs_at(control, FULL)
    });
    suite.test("nor have it off when others want it", move || {
        let mut paint = Paint::new()?;
        paint.prove(0xff21_2121)?;
        let mut other = system::Killed(system::again(&["--stay"])?.stdout(Stdio::piped()).spawn()?);
        let mut line = String::new();
        let out = other.0.stdout.as_mut().context("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        same("the other", line.trim(), "ready")?;
        let before = control.counter(counter::CLOCK_UPS);
        for state in [STATE_OFF, STATE_SUSPEND, STATE_IDLE, STATE_OFF_BROADCAST] {
            eventually("it is idle", SOON, || {
                Ok(set(paint.device(), state)? == Status::OK)
            })?;
            same("power", control.read(POWER), ON)?;
            same("64ths", control.read(SCALE), FULL)?;
        }
        paint.prove(0xff22_2222)?;
        same("switched on", control.counter(counter::CLOCK_UPS), before)?;
        drop(other);
        eventually("the core is off", SOON, || {
            switch(paint.device(), STATE_OFF)?;
            Ok(control.read(POWER) == 0)
        })?;
        paint.close()
    });
}

/// A core that cannot be reset stays cut off, whatever clients request.
fn given_up(control: &Control) -> Result<()> {
    let core = system::bound()?.into_iter().next().context("no core")?;
    let mut paint = Paint::new()?;
    paint.prove(0xff31_3131)?;
    let armed = control.arm(fault::RESET_STUCK, u32::MAX);
    let hang = control.arm(fault::HOLD, 1);
    let stream = paint.fill_all(0xff32_3232);
    paint.commit(&stream, &mut Queue::new())?;
    eventually("it is given up", Duration::from_secs(60), || {
        Ok(set(paint.device(), STATE_ON)? == Status::GPU_NOT_RESPONDING)
    })?;
    for (state, wanted) in [
        (STATE_OFF, Status::OK),
        (STATE_IDLE, Status::OK),
        (STATE_ON, Status::GPU_NOT_RESPONDING),
    ] {
        same(
            &format!("state {state}"),
            set(paint.device(), state)?,
            wanted,
        )?;
    }
    same("32", set_scale(paint.device(), 32)?, Status::OK)?;
    thread::sleep(Duration::from_millis(100));
    same("64ths of what is cut off", control.read(SCALE), FULL)?;
    drop((armed, hang));
    system::to_driver("unbind", &core)?;
    for state in [STATE_OFF, STATE_SUSPEND] {
        switch(paint.device(), state)?;
    }
    system::to_driver("bind", &core)?;
    // The client's request still applies to the new core.
    paint.prove(0xff33_3333)?;
    runs_at(control, 32)?;
    paint.close()?;
    runs_at(control, FULL)
}

/// A core that a client keeps on can still be reset by its power domain.
fn cycled(control: &Control) -> Result<()> {
    let keeper = open("6.2.3")?;
    let kept = keeper.ask("CONFIG_POWER_MANAGEMENT", &[("enable", 0)], "enable")?;
    same("CONFIG_POWER_MANAGEMENT", kept.0, Status::OK)?;
    let mut paint = Paint::new()?;
    paint.prove(0xff34_3434)?;
    same("16", set_scale(paint.device(), 16)?, Status::OK)?;
    let before = control.counter(counter::POWER_UPS);
    control.write(fault::RESET_NEEDS_POWER, 1);
    let armed = control.arm(fault::HOLD, 1);
    let stream = paint.fill_all(0xff35_3535);
    paint.commit(&stream, &mut Queue::new())?;
    eventually("its domain is switched", Duration::from_secs(60), || {
        Ok(control.counter(counter::POWER_UPS) > before)
    })?;
    drop(armed);
    eventually("it draws", Duration::from_secs(10), || {
        Ok(paint.prove(0xff36_3636).is_ok())
    })?;
    runs_at(control, 16)?;
    same("kept on", control.read(POWER), ON)?;
    same(
        "its own",
        keeper
            .ask("CONFIG_POWER_MANAGEMENT", &[("enable", 1)], "enable")?
            .0,
        Status::OK,
    )?;
    paint.close()
}

/// A core for vector graphics has the states, but no divider.
fn vector_states() -> Result<()> {
    let place = vg::place()?.context("no core for vector graphics")?;
    let control = &Control::open_core(place)?;
    let mut device = open("4.6.9")?;
    device.set_hardware_type(vg::VG);
    for state in [STATE_ON, STATE_IDLE, STATE_OFF, STATE_IDLE, STATE_SUSPEND] {
        switch(&device, state)?;
        same("state", query(&device)?, (state, true))?;
        match state {
            STATE_OFF | STATE_SUSPEND => same("clock", control.read(POWER) & POWER_CLOCK, 0)?,
            _ => same("power", control.read(POWER), ON)?,
        }
    }
    same("a divider", set_scale(&device, 32)?, Status::NOT_SUPPORTED)?;
    same("64ths", scale(&device)?[0], 64)?;
    same("violations", control.violations(), 0)
}

fn keep_tests<'a>(
    suite: &mut Suite<'a>,
    module: &'a Module,
    control: &'a Control,
    has_vector: bool,
) {
    suite.test(
        "CONFIG_POWER_MANAGEMENT keeps a core on for who has it open",
        move || {
            let command = "CONFIG_POWER_MANAGEMENT";
            let device = open("6.4.11")?;
            let config = |enable| -> Result<u64> {
                let (status, old) = device.ask(command, &[("enable", enable)], "oldValue")?;
                same(command, status, Status::OK)?;
                Ok(old)
            };
            let off = states(device.abi()).0[1];
            switch(&device, off)?;
            is_off(control)?;
            same("before", config(0)?, 1)?;
            same("power", control.read(POWER), ON)?;
            same("before", config(0)?, 0)?;
            switch(&device, off)?;
            same("power, though OFF was asked for", control.read(POWER), ON)?;
            same("before", config(1)?, 0)?;
            same("before", config(1)?, 1)?;
            switch(&device, off)?;
            is_off(control)?;
            // A client that exits does not keep the core on.
            same("before", config(0)?, 1)?;
            drop(device);
            let device = open("4.6.9")?;
            eventually("the core is off", SOON, || {
                switch(&device, STATE_OFF)?;
                Ok(control.read(POWER) == 0)
            })
        },
    );
    suite.test("a core that is kept on can be taken away", move || {
        let device = open("6.2.3")?;
        let found = device.ask("CONFIG_POWER_MANAGEMENT", &[("enable", 0)], "enable")?;
        same("CONFIG_POWER_MANAGEMENT", found.0, Status::OK)?;
        let core = system::bound()?.into_iter().next().context("no core")?;
        system::to_driver("unbind", &core)?;
        let found = set(&device, STATE_ON)?;
        same("ON without a core", found, Status::GPU_NOT_RESPONDING)?;
        same("OFF without a core", set(&device, STATE_OFF)?, Status::OK)?;
        let asked = device.ask_for("QUERY_POWER_MANAGEMENT_STATE", &[], ["state", "isIdle"])?;
        same("state without a core", asked, (Status::OK, [1, 1]))?;
        same("16 64ths of it", set_scale(&device, 16)?, Status::OK)?;
        same("told", scale(&device)?[0], 16)?;
        system::to_driver("bind", &core)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff51_5151)?;
        runs_at(control, 16)?;
        same("64", set_scale(&device, 64)?, Status::OK)?;
        // After a rebind, no request to keep the core on exists.
        eventually("the core is off", SOON, || {
            switch(paint.device(), STATE_OFF)?;
            Ok(control.read(POWER) == 0)
        })?;
        drop(device);
        paint.close()
    });
    suite.test("what cannot be reset stays cut off", move || {
        given_up(control)
    });
    suite.test("who keeps it on keeps no recovery from it", move || {
        cycled(control)
    });
    if has_vector {
        suite.test("a core for vector graphics", vector_states);
    }
    suite.test(
        "without power management it is on whatever is asked",
        move || {
            Module::unload()?;
            module.with(&["powerManagement=0"]).load_or_fail()?;
            let mut paint = Paint::new()?;
            paint.prove(0xff61_6161)?;
            let before = control.counter(counter::CLOCK_UPS);
            for state in [STATE_OFF, STATE_SUSPEND, STATE_ON] {
                switch(paint.device(), state)?;
                same("power", control.read(POWER), ON)?;
            }
            paint.prove(0xff62_6262)?;
            same("switched on", control.counter(counter::CLOCK_UPS), before)?;
            paint.close()?;
            Module::unload()?;
            module.load_or_fail()
        },
    );
}

/// The directory of the cooling device of `core`.
fn cooling_device(core: &str) -> Result<PathBuf> {
    let is_its = |path: &PathBuf| {
        fs::read_to_string(path.join("type")).is_ok_and(|name| name.trim() == core)
    };
    let mut all = fs::read_dir(COOLING)?.flatten().map(|entry| entry.path());
    all.find(is_its).with_context(|| format!("none of {core}"))
}

fn clock_tests<'a>(suite: &mut Suite<'a>, module: &'a Module, control: &'a Control) {
    suite.test("SET_FSCALE_VALUE is the clock of who is alone", move || {
        let mut paint = Paint::new()?;
        paint.prove(0xff71_7171)?;
        same("at first", scale(paint.device())?, [64, 1, 64])?;
        for value in [0, 65, 0xffff_ffff] {
            let found = set_scale(paint.device(), value)?;
            same(&format!("{value}"), found, Status::INVALID_ARGUMENT)?;
        }
        same("as before", control.read(SCALE), FULL)?;
        same("16", set_scale(paint.device(), 16)?, Status::OK)?;
        same("64ths", control.read(SCALE), 16)?;
        same("told", scale(paint.device())?[0], 16)?;
        paint.prove(0xff72_7272)?;
        // The divider is restored at power-on.
        switch(paint.device(), STATE_OFF)?;
        is_off(control)?;
        same("told of a core that is off", scale(paint.device())?[0], 16)?;
        paint.prove(0xff73_7373)?;
        runs_at(control, 16)?;
        switch(paint.device(), STATE_IDLE)?;
        same("64ths", control.read(SCALE), 1)?;
        paint.prove(0xff74_7474)?;
        runs_at(control, 16)?;
        same("64", set_scale(paint.device(), 64)?, Status::OK)?;
        same("64ths", control.read(SCALE), FULL)?;
        same("1", set_scale(paint.device(), 1)?, Status::OK)?;
        paint.prove(0xff75_7575)?;
        paint.close()?;
        runs_at(control, FULL)
    });
    suite.test("nobody can slow down who wants the full clock", move || {
        let device = open("4.6.9")?;
        switch(&device, STATE_ON)?;
        same("2", set_scale(&device, 2)?, Status::OK)?;
        same("64ths", control.read(SCALE), 2)?;
        let status = system::again(&["--draw"])?.status()?;
        same("another's picture at its speed", status.code(), Some(0))?;
        // The other client's request stays stored.
        let mut other = system::Killed(system::again(&["--stay"])?.stdout(Stdio::piped()).spawn()?);
        let mut line = String::new();
        let out = other.0.stdout.as_mut().context("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        same("the other", line.trim(), "ready")?;
        runs_at(control, FULL)?;
        same("told beside the other", scale(&device)?[0], 2)?;
        drop(other);
        runs_at(control, 2)?;
        drop(device);
        runs_at(control, FULL)
    });
    suite.test("a reset keeps it", move || {
        let mut paint = Paint::new()?;
        same("8", set_scale(paint.device(), 8)?, Status::OK)?;
        paint.prove(0xff81_8181)?;
        let armed = control.arm(fault::HOLD, 1);
        let before = control.counter(counter::RESETS);
        let stream = paint.fill_all(0xff82_8282);
        paint.commit(&stream, &mut Queue::new())?;
        eventually("it is reset", Duration::from_secs(20), || {
            Ok(control.counter(counter::RESETS) > before)
        })?;
        drop(armed);
        eventually("it draws", Duration::from_secs(10), || {
            Ok(paint.prove(0xff83_8383).is_ok())
        })?;
        runs_at(control, 8)?;
        paint.close()
    });
    suite.test("a core is a cooling device", move || {
        let core = system::bound()?.into_iter().next().context("no core")?;
        let cooling = cooling_device(&core)?;
        let cool = |state: u32| -> Result<()> {
            let path = cooling.join("cur_state");
            fs::write(&path, state.to_string()).with_context(|| format!("{state} to {path:?}"))
        };
        let read = |name| fs::read_to_string(cooling.join(name));
        same("states", read("max_state")?.trim(), "6")?;
        let mut paint = Paint::new()?;
        for (state, wanted) in [(3, 8), (6, 1), (1, 32), (0, 64)] {
            paint.prove(0xff90_0000 + state)?;
            cool(state)?;
            same(
                "told",
                read("cur_state")?.trim(),
                state.to_string().as_str(),
            )?;
            same("64ths", control.read(SCALE), wanted)?;
            paint.prove(0xff91_0000 + state)?;
            same("64ths", control.read(SCALE), wanted)?;
        }
        ensure!(cool(7).is_err(), "a state more than there are");
        // The lower of the requested clock and the thermal limit applies.
        cool(2)?;
        same("32", set_scale(paint.device(), 32)?, Status::OK)?;
        same("64ths", control.read(SCALE), 16)?;
        same("4", set_scale(paint.device(), 4)?, Status::OK)?;
        same("64ths", control.read(SCALE), 4)?;
        // Throttled while it is off.
        switch(paint.device(), STATE_OFF)?;
        is_off(control)?;
        same("64", set_scale(paint.device(), 64)?, Status::OK)?;
        cool(4)?;
        is_off(control)?;
        paint.prove(0xff92_9292)?;
        runs_at(control, 4)?;
        paint.close()?;
        // The module is unloaded while the core is throttled.
        Module::unload()?;
        module.with(&["initgpu3DMinClock=24"]).load_or_fail()?;
        let mut paint = Paint::new()?;
        paint.prove(0xff93_9393)?;
        same("64ths", control.read(SCALE), FULL)?;
        fs::write(cooling_device(&core)?.join("cur_state"), "6")?;
        same("the least", control.read(SCALE), 24)?;
        paint.close()?;
        Module::unload()?;
        module.load_or_fail()
    });
    suite.test("rates of the clocks, and another one", move || {
        let rates = |device: &Device| -> Result<[u64; 2]> {
            let (status, found) =
                device.ask_for("QUERY_CHIP_FREQUENCY", &[], ["mcClk", "shClk"])?;
            same("QUERY_CHIP_FREQUENCY", status, Status::OK)?;
            Ok(found)
        };
        let device = open("6.2.4.p3")?;
        let [core, shader] = rates(&device)?;
        println!("# {core} Hz, shaders {shader} Hz");
        ensure!(core >= 1_000_000 && shader >= 1_000_000, "{core} {shader}");
        same("16", set_scale(&device, 16)?, Status::OK)?;
        same(
            "a quarter",
            rates(&device)?,
            [core / 64 * 16, shader / 64 * 16],
        )?;
        drop(device);
        Module::unload()?;
        module.with(&["coreClock=128000000"]).load_or_fail()?;
        let device = open("6.2.4.p3")?;
        same("coreClock", rates(&device)?[0], 128_000_000)?;
        drop(device);
        Module::unload()?;
        module.with(&["gpu_frequency=192"]).load_or_fail()?;
        let device = open("6.2.4.p3")?;
        same("gpu_frequency", rates(&device)?[0], 192_000_000)?;
        drop(device);
        Module::unload()?;
        module.load_or_fail()
    });
    if Control::open_core(2).is_ok() {
        suite.test("each core's rate is its own", move || {
            let loaded = |words: &[&str]| -> Result<BTreeMap<String, u64>> {
                Module::unload()?;
                let mut log = KernelLog::from_now()?;
                module.with(words).load_or_fail()?;
                let mut rates = BTreeMap::new();
                for line in log.lines()? {
                    let Some((device, rate)) = line.text.split_once(": its clock: ") else {
                        continue;
                    };
                    let rate = rate.trim_end_matches(" Hz").parse()?;
                    rates.insert(device.to_string(), rate);
                }
                Ok(rates)
            };
            let before = loaded(&[])?;
            let cores: Vec<String> = before.keys().cloned().collect();
            let [three_d, two_d, vector] = cores.as_slice() else {
                bail!("{before:?}");
            };
            // The vendor's default is treated like any other rate.
            let mut wanted = before.clone();
            wanted.insert(three_d.clone(), 156_000_000);
            same("3D", loaded(&["coreClock=156000000"])?, wanted.clone())?;
            wanted.insert(two_d.clone(), 396_000_000);
            wanted.insert(vector.clone(), 297_000_000);
            let both = ["coreClock2D=396000000", "coreClockVG=297000000"];
            same("2D and VG", loaded(&both)?, wanted.clone())?;
            // A core that is left to another driver keeps its rate.
            loaded(&["cores=2d,vg", "coreClock=128000000"])?;
            same("left alone", loaded(&[])?, wanted)
        });
    }
}

/// Runs another client that keeps the device open.
fn stay() -> Result<()> {
    let _paint = Paint::new()?;
    println!("ready");
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// A client that waits for OFF, which cannot succeed: another job follows the one that it waits for.
fn wait_for_off() -> Result<()> {
    let mut paint = Paint::new()?;
    let device = open("4.6.9")?;
    let stream = paint.fill_all(0xff1c_1c1c);
    paint.commit(&stream, &mut Queue::new())?;
    thread::spawn(move || set(&device, STATE_OFF));
    thread::sleep(Duration::from_millis(200));
    paint.commit(&stream, &mut Queue::new())?;
    println!("waits");
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Runs another client, which gets the full clock because it requests no other.
fn draw() -> Result<()> {
    let control = Control::open()?;
    let mut paint = Paint::new()?;
    paint.prove(0xffa1_a1a1)?;
    same("64ths", control.read(SCALE), FULL)?;
    paint.close()
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--draw") {
        return harness::exit(draw());
    }
    if std::env::args().nth(1).as_deref() == Some("--wait") {
        return harness::exit(wait_for_off());
    }
    if std::env::args().nth(1).as_deref() == Some("--stay") {
        return harness::exit(stay());
    }
    harness::program(|| {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let module = &Module::from_words(&words)?;
        module.number("autosuspend").context("no autosuspend")?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let control = &Control::open()?;
        let mut suite = Suite::new();
        state_tests(&mut suite, control);
        keep_tests(&mut suite, module, control, vg::place()?.is_some());
        clock_tests(&mut suite, module, control);
        suite.test("silicon was not asked for more than it can do", move || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
