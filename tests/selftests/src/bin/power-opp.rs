// SPDX-License-Identifier: GPL-2.0-only
//! Operating points of a core, NXP's file that switches them, and hibernation.
//!
//! Needs the module not to be in use, bound by the device tree. Arguments: `[--hibernate 1] [MODULE PARAMETERS...]`,
//! with an `autosuspend` longer than the whole run. Without `--hibernate`: needs the device tree `opp`. With
//! `--hibernate`: needs a device tree without operating points, and the machine hibernates only its devices.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::workers;
use gpu_control::counter;
use gpu_control::POWER;

/// NXP's control file.
const GOVERN: &str = "/sys/bus/platform/drivers/galcore/gpu_govern";
/// The operating points of the device tree by name, each with the minimum voltage in uV that the core requests.
const MODES: [(&str, u64, u64); 3] = [
    ("overdrive", 500_000_000, 1_050_000),
    ("nominal", 350_000_000, 950_000),
    ("underdrive", 200_000_000, 850_000),
];
/// The clock's initial rate.
const FIRST: u64 = 528_000_000;
/// `gcvPOWER_OFF` of 4.6.9.
const STATE_OFF: u64 = 1;
/// Longest time until a request takes effect.
const SOON: Duration = Duration::from_millis(1500);

/// The rates that a client sees: the core's and the shaders'.
fn rates() -> Result<[u64; 2]> {
    let abi = Abi::named("6.2.4.p3").context("no such generation")?;
    let device = Device::open_as(abi, true)?;
    let (status, found) = device.ask_for("QUERY_CHIP_FREQUENCY", &[], ["mcClk", "shClk"])?;
    same("QUERY_CHIP_FREQUENCY", status, Status::OK)?;
    Ok(found)
}

/// The voltage that the core requests from its regulator.
fn voltage() -> Result<u64> {
    let folder = Path::new("/sys/kernel/debug/regulator/gpu-supply");
    for entry in fs::read_dir(folder).with_context(|| format!("{folder:?}"))? {
        let path = entry?.path();
        if path.is_dir() {
            let text = fs::read_to_string(path.join("min_uV"))?;
            return Ok(text.trim().parse()?);
        }
    }
    bail!("nobody has the regulator")
}

/// The expected text of the file at the rate of `name`.
fn text_of(name: &str) -> String {
    let mut text = format!("GPU support {} modes\n", MODES.len());
    for (name, rate, _) in MODES {
        text += &format!("{name}:\tcore_clk frequency: {rate}\tshader_clk frequency: {rate}\n");
    }
    text + &format!("Currently GPU runs on mode {name}\n")
}

fn govern() -> Result<String> {
    fs::read_to_string(GOVERN).context(GOVERN)
}

fn switch(name: &str) -> Result<()> {
    fs::write(GOVERN, name).with_context(|| format!("{name:?} to {GOVERN}"))
}

/// Rates and voltage match this mode.
fn runs_in((name, rate, least): (&str, u64, u64)) -> Result<()> {
    same("rates", rates()?, [rate, rate])?;
    same("voltage", voltage()?, least)?;
    same("the file", govern()?, text_of(name))
}

/// Reloads the module with other parameters. Returns the log lines.
fn load_again(module: &Module, changes: &[&str]) -> Result<Vec<String>> {
    if Module::is_loaded() {
        Module::unload()?;
    }
    let log = &mut KernelLog::from_now()?;
    module.with(changes).load_or_fail()?;
    Ok(log.lines()?.into_iter().map(|line| line.text).collect())
}

fn says(lines: &[String], wanted: &str) -> Result<()> {
    let count = lines.iter().filter(|line| line.contains(wanted)).count();
    ensure!(count == 1, "{count} times {wanted:?}: {lines:#?}");
    Ok(())
}

fn is_silent(lines: &[String], unwanted: &str) -> Result<()> {
    let found = lines.iter().find(|line| line.contains(unwanted));
    ensure!(found.is_none(), "{found:?}");
    Ok(())
}

fn first_core() -> Result<String> {
    system::bound()?.into_iter().next().context("no core")
}

fn load_tests<'a>(suite: &mut Suite<'a>, module: &'a Module) {
    suite.test("a clock above the points is reduced at load", move || {
        let lines = load_again(module, &[])?;
        says(&lines, "its operating points: up to 500000000 Hz")?;
        says(
            &lines,
            &format!(
                "its clock: {FIRST} Hz is above its operating points, and reduced to 500000000 Hz"
            ),
        )?;
        says(&lines, "its clock: 500000000 Hz")?;
        is_silent(&lines, "cannot be set")?;
        runs_in(MODES[0])
    });
    suite.test("coreClock above them, too", move || {
        let lines = load_again(module, &["coreClock=510000000"])?;
        says(
            &lines,
            "its clock: 510000000 Hz is above its operating points, and reduced to 500000000 Hz",
        )?;
        says(&lines, "its clock: 500000000 Hz")?;
        runs_in(MODES[0])
    });
    suite.test(
        "coreClock and gpu_frequency below are as they say",
        move || {
            let lines = load_again(module, &["coreClock=300000000"])?;
            is_silent(&lines, "is above")?;
            says(&lines, "its clock: 300000000 Hz")?;
            same("rates", rates()?, [300_000_000; 2])?;
            same("voltage", voltage()?, MODES[1].2)?;
            same("the file", govern()?, text_of("nominal"))?;
            let lines = load_again(module, &["gpu_frequency=200"])?;
            says(&lines, "its clock: 200000000 Hz")?;
            runs_in(MODES[2])?;
            let mut paint = Paint::new()?;
            paint.prove(0xff01_0101)?;
            paint.close()?;
            load_again(module, &[]).map(drop)
        },
    );
}

fn govern_tests<'a>(suite: &mut Suite<'a>, module: &'a Module, control: &'a Control) {
    suite.test("gpu_govern is NXP's to the byte", move || {
        let mode = fs::metadata(GOVERN)?.permissions().mode() & 0o7777;
        same("mode", format!("{mode:o}").as_str(), "644")?;
        for mode in [MODES[1], MODES[2], MODES[0]] {
            switch(mode.0)?;
            runs_in(mode)?;
        }
        // With a newline, as from a shell, and inside a sentence.
        switch("underdrive\n")?;
        runs_in(MODES[2])?;
        switch("to nominal, please")?;
        runs_in(MODES[1])?;
        switch("overdrive")?;
        runs_in(MODES[0])
    });
    suite.test("other words are refused", move || {
        switch("nominal")?;
        for word in ["\n", "turbo", "drive", "Nominal", "1", "nomina"] {
            let refused = fs::write(GOVERN, word).err();
            let number = refused.and_then(|error| error.raw_os_error());
            same(word, number, Some(libc::EINVAL))?;
            runs_in(MODES[1])?;
        }
        switch("overdrive")
    });
    suite.test("it is switched while the core draws", move || {
        let is_over = &AtomicBool::new(false);
        let rounds = thread::scope(|scope| {
            let other = scope.spawn(move || -> Result<u32> {
                let mut rounds = 0;
                while !is_over.load(Relaxed) {
                    for mode in MODES {
                        switch(mode.0)?;
                        same("rates", rates()?, [mode.1; 2])?;
                    }
                    rounds += 1;
                }
                Ok(rounds)
            });
            let mut paint = Paint::new()?;
            let mut random = Random::new(3);
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
        println!("# 60 pictures, {rounds} rounds");
        ensure!(rounds > 0, "nobody switched");
        switch("overdrive")
    });
    suite.test("a core that is off has it when it comes on", move || {
        let mut paint = Paint::new()?;
        for (mode, colour) in [(MODES[2], 0xff02_0304), (MODES[0], 0xff04_0302)] {
            paint.prove(!colour | 0xff00_0000)?;
            let command = "SET_POWER_MANAGEMENT_STATE";
            let status = paint
                .device()
                .ask(command, &[("state", STATE_OFF)], "state")?
                .0;
            same(command, status, Status::OK)?;
            eventually("the core is off", SOON, || Ok(control.read(POWER) == 0))?;
            let before = control.counter(counter::CLOCK_UPS);
            switch(mode.0)?;
            runs_in(mode)?;
            same("switched on", control.counter(counter::CLOCK_UPS), before)?;
            paint.prove(colour)?;
            ensure!(control.read(POWER) != 0, "it is off");
            runs_in(mode)?;
        }
        paint.close()
    });
    suite.test("it is there while the core is", move || {
        let core = first_core()?;
        switch("underdrive")?;
        system::to_driver("unbind", &core)?;
        ensure!(!Path::new(GOVERN).exists(), "it is still there");
        ensure!(voltage().is_err(), "the regulator is still had");
        system::to_driver("bind", &core)?;
        // The clock keeps its rate.
        runs_in(MODES[2])?;
        switch("overdrive")?;
        runs_in(MODES[0])?;
        let mut paint = Paint::new()?;
        paint.prove(0xff05_0607)?;
        paint.close()
    });
    suite.test("it is used while the core goes and comes", move || {
        let is_over = &AtomicBool::new(false);
        let core = first_core()?;
        let (reads, writes) = thread::scope(|scope| {
            let other = scope.spawn(move || -> Result<(u32, u32)> {
                let (mut reads, mut writes) = (0, 0);
                while !is_over.load(Relaxed) {
                    for (name, _, _) in MODES {
                        let written = fs::OpenOptions::new().write(true).open(GOVERN);
                        let written = written
                            .and_then(|mut file| std::io::Write::write(&mut file, name.as_bytes()));
                        match written {
                            Ok(_) => writes += 1,
                            Err(error) if is_gone(&error) => {}
                            Err(error) => return Err(error).context("a write"),
                        }
                        match fs::read_to_string(GOVERN) {
                            Ok(_) => reads += 1,
                            Err(error) if is_gone(&error) => {}
                            Err(error) => return Err(error).context("a read"),
                        }
                    }
                }
                Ok((reads, writes))
            });
            let mut result = Ok(());
            for _ in 0..10 {
                result = system::to_driver("unbind", &core)
                    .and_then(|()| system::to_driver("bind", &core));
                if result.is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
            is_over.store(true, Relaxed);
            let counts = other.join().expect("no panic")?;
            result?;
            anyhow::Ok(counts)
        })?;
        println!("# {reads} reads, {writes} writes");
        ensure!(reads > 0 && writes > 0, "never there");
        switch("overdrive")?;
        let mut paint = Paint::new()?;
        paint.prove(0xff06_0708)?;
        paint.close()
    });
    suite.test(
        "with the machine's sleep, and without power management",
        move || {
            switch("nominal")?;
            let mut paint = Paint::new()?;
            paint.prove(0xff07_0809)?;
            test_sleep("freeze")?;
            runs_in(MODES[1])?;
            paint.prove(0xff08_0910)?;
            paint.close()?;
            load_again(module, &["powerManagement=0"])?;
            for mode in MODES {
                switch(mode.0)?;
                runs_in(mode)?;
            }
            load_again(module, &[]).map(drop)
        },
    );
}

/// Whether the file or the core does not exist.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// The machine enters this sleep state up to the suspend of devices, and wakes up at once.
fn test_sleep(state: &str) -> Result<()> {
    let set =
        |path: &str, text: &str| fs::write(path, text).with_context(|| format!("{text} to {path}"));
    for name in ["suspend", "hibernate"] {
        set(&format!("/sys/module/{name}/parameters/pm_test_delay"), "0")?;
    }
    set("/sys/power/pm_test", "devices")?;
    let slept = set("/sys/power/state", state);
    set("/sys/power/pm_test", "none")?;
    slept
}

const LOST: &str = "hibernation would lose";

fn hibernation_tests<'a>(suite: &mut Suite<'a>, module: &'a Module, control: &'a Control) {
    suite.test(
        "without operating points there is no gpu_govern",
        move || {
            let lines = load_again(module, &[])?;
            is_silent(&lines, "operating points")?;
            ensure!(!Path::new(GOVERN).exists(), "it is there");
            same("rates", rates()?, [FIRST, 594_000_000])
        },
    );
    suite.test("a pool of the kernel's is kept", move || {
        load_again(module, &["contiguousBase", "contiguousSize=0x800000"])?;
        let mut paint = Paint::new()?;
        paint.prove(0xff11_1213)?;
        let log = &mut KernelLog::from_now()?;
        for colour in [0xff12_1314, 0xff13_1415] {
            let before = control.counter(counter::CLOCK_UPS);
            test_sleep("disk")?;
            paint.prove(colour)?;
            let ups = control.counter(counter::CLOCK_UPS) - before;
            ensure!(ups > 0, "it was not off");
        }
        paint.close()?;
        workers::draw_and_sleep(2, 3, || test_sleep("disk"))?;
        let lines: Vec<String> = log.lines()?.into_iter().map(|line| line.text).collect();
        is_silent(&lines, LOST)
    });
    suite.test("one that is not keeps the machine awake", move || {
        load_again(module, &[])?;
        ensure!(module.parameter("contiguousBase").is_some(), "no such pool");
        let mut paint = Paint::new()?;
        paint.prove(0xff21_2223)?;
        let log = &mut KernelLog::from_now()?;
        let error = test_sleep("disk").err().context("it hibernated")?;
        let number = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error);
        same("error", number, Some(libc::EBUSY))?;
        let lines: Vec<String> = log.lines()?.into_iter().map(|line| line.text).collect();
        says(&lines, LOST)?;
        // Nothing is lost.
        paint.expect(|_, _| 0xff21_2223)?;
        paint.prove(0xff22_2324)?;
        // Other sleep states still work.
        test_sleep("freeze")?;
        paint.expect(|_, _| 0xff22_2324)?;
        paint.prove(0xff23_2425)?;
        paint.close()
    });
    suite.test("if nobody has any of it, it does not", move || {
        // Also with the device open.
        let device = Device::open()?;
        let log = &mut KernelLog::from_now()?;
        test_sleep("disk")?;
        drop(device);
        test_sleep("disk")?;
        let lines: Vec<String> = log.lines()?.into_iter().map(|line| line.text).collect();
        is_silent(&lines, LOST)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff31_3233)?;
        paint.close()
    });
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["hibernate"])?;
        let module = &Module::from_words(&options.rest)?;
        module.number("autosuspend").context("no autosuspend")?;
        let control = &Control::open()?;
        let mut suite = Suite::new();
        if options.number("hibernate", 0)? == 0 {
            load_tests(&mut suite, module);
            govern_tests(&mut suite, module, control);
        } else {
            hibernation_tests(&mut suite, module, control);
        }
        suite.test("silicon was not asked for more than it can do", move || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
