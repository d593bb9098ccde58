// SPDX-License-Identifier: GPL-2.0-only
//! An idle core powers off, and powers on for the next job without loss of state that a client can see.
//!
//! The model of the board's power controller shows which clocks and domains are on. It reports register accesses to a
//! core that is off as violations, and discards the core's state when the power domain turns off.
//!
//! Needs the module not to be in use, bound by the device tree. Arguments: `[--rounds N] [--sleeps N] [--workloads N]
//! [MODULE PARAMETERS...]`, with `autosuspend` among them. `--workloads`: measures the time that the core is on, with
//! two values of `autosuspend` (N = 1) or four (N from 2 on). `--sleeps`: tests system sleep.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_client::uapi::Status;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use galcore_selftests::workers;
use galcore_selftests::workers::Worker;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::POWER;
use gpu_control::POWER_CLOCK;
use gpu_control::POWER_DOMAIN;

/// Power and clock of a core that is on.
const ON: u32 = POWER_CLOCK | POWER_DOMAIN;
/// Number of mapped pages.
const PAGES: usize = 16;
const PAGE: usize = 4096;
/// Duration of a slow job, jobs that each client sends without a wait, and number of clients.
const JOB: Duration = Duration::from_millis(2500);
const JOBS: u32 = 1;
const CLIENTS: u32 = 5;
/// Longest time until a core powers off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Directory of the devices, with their power management attributes.
const DEVICES: &str = "/sys/bus/platform/devices";

/// Reads a file of core 0's device.
fn attribute(name: &str) -> Result<String> {
    let core = system::bound()?
        .into_iter()
        .next()
        .context("no core is bound")?;
    Ok(format!("{DEVICES}/{core}/power/{name}"))
}

fn read(name: &str) -> Result<String> {
    let path = attribute(name)?;
    Ok(fs::read_to_string(&path).context(path)?.trim().to_string())
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{text} to {path}"))
}

fn wait_until_off(control: &Control) -> Result<()> {
    eventually("the core is off", PATIENCE, || Ok(control.read(POWER) == 0))
}

/// Fails if `what` powers on a core that is off.
fn stays_off(control: &Control, what: impl FnOnce() -> Result<()>) -> Result<()> {
    wait_until_off(control)?;
    let before = control.counter(counter::CLOCK_UPS);
    what()?;
    same("switched on", control.counter(counter::CLOCK_UPS), before)
}

/// Draws at moments when the core is on, off, or in transition.
fn draw_again_and_again(control: &Control, rounds: u32, delay: u64) -> Result<()> {
    let mut paint = Paint::new()?;
    let mut random = Random::new(5);
    let before = control.counter(counter::CLOCK_UPS);
    for round in 0..rounds {
        paint
            .prove(random.colour() | 0xff00_0000)
            .with_context(|| format!("round {round}"))?;
        // CAST: a few milliseconds.
        let rest = random.below(2 * delay as u32 + 60);
        thread::sleep(Duration::from_millis(rest.into()));
    }
    let ups = control.counter(counter::CLOCK_UPS) - before;
    println!("# {rounds} rounds, {ups} of them switched it on");
    ensure!(ups > u64::from(rounds) / 10, "it was not off between");
    paint.close()
}

/// Tests of system sleep.
fn sleep_tests<'a>(suite: &mut Suite<'a>, control: &'a Control, sleeps: u32) {
    suite.test("the machine sleeps, whatever is drawn", move || {
        wait_until_off(control)?;
        // A core that is off stays off.
        stays_off(control, system::sleep_devices)?;
        stays_off(control, system::sleep_whole)?;
        workers::draw_and_sleep(3, sleeps, system::sleep_devices)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff01_0203)?;
        paint.close()
    });
    suite.test(
        "what has not begun runs when the machine is awake",
        move || {
            let mut workers = (1..=CLIENTS)
                .map(|seed| Worker::new(0, seed))
                .collect::<Result<Vec<_>>>()?;
            let signal = workers[0].paint.device().create_signal(false)?;
            let armed = control.arm(fault::SLOW_DRAWS, JOB.as_micros() as u32);
            // In turn, so that each switches to its own context.
            for _ in 0..JOBS {
                for worker in &mut workers {
                    worker.send(signal)?;
                }
            }
            let begun = Instant::now();
            system::sleep_devices()?;
            let slept = begun.elapsed();
            drop(armed);
            ensure!(slept >= Duration::from_secs(4), "nothing was under way");
            ensure!(
                slept < CLIENTS * JOBS * JOB - JOB,
                "all had ended: {slept:?}"
            );
            for worker in workers {
                same("resets", worker.finish()?, 0)?;
            }
            Ok(())
        },
    );
    suite.test(
        "what takes too long is dropped, and the machine sleeps",
        move || {
            let mut paint = Paint::new()?;
            paint.prove(0xff09_0807)?;
            let armed = control.arm(fault::SLOW_DRAWS, 40_000_000);
            let stream = paint.fill_all(0xff0a_0b0c);
            paint.commit(&stream, &mut galcore_client::Queue::new())?;
            let begun = Instant::now();
            let slept = system::sleep_devices();
            drop(armed);
            slept?;
            let took = begun.elapsed();
            println!("# {took:?}");
            ensure!(took > Duration::from_secs(9), "too soon");
            same("its resets", paint.device().resets()?, (1, 0, 1))?;
            // Drawing still works.
            paint.prove(0xff0d_0e0f)?;
            paint.close()
        },
    );
}

/// Milliseconds that the core has been on since it was bound.
fn active() -> Result<u64> {
    Ok(read("runtime_active_time")?.parse()?)
}

/// Draws `rate` pictures per second (0: as many as possible) for a while. Returns the percentage of time that the core
/// was on, and the number of times that it powered on.
fn workload(control: &Control, rate: u32) -> Result<(u64, u64)> {
    const LENGTH: Duration = Duration::from_secs(3);
    let mut paint = Paint::new()?;
    paint.prove(0xff00_0001)?;
    wait_until_off(control)?;
    let (begun, before) = (Instant::now(), active()?);
    let ups = control.counter(counter::CLOCK_UPS);
    let mut frame = 0u32;
    while begun.elapsed() < LENGTH {
        frame += 1;
        paint.prove(0xff00_0000 + frame)?;
        if let Some(due) = Duration::from_secs(frame.into()).checked_div(rate) {
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    let (on, took) = (active()? - before, begun.elapsed());
    let ups = control.counter(counter::CLOCK_UPS) - ups;
    paint.close()?;
    Ok((100 * on / took.as_millis() as u64, ups))
}

/// Measures how long a core is on, by autosuspend delay and workload.
fn workloads<'a>(
    suite: &mut Suite<'a>,
    module: &'a Module,
    control: &'a Control,
    delays: &'a [u32],
) {
    suite.test("a core is on while it is used", move || {
        for &delay in delays {
            Module::unload()?;
            module
                .with(&[&format!("autosuspend={delay}")])
                .load_or_fail()?;
            let mut seen = Vec::new();
            for rate in [1, 10, 60, 0] {
                let (share, ups) = workload(control, rate)?;
                println!("# {delay} ms, {rate} a second: on for {share}%, {ups} times");
                seen.push((share, ups));
            }
            let [seldom, _, often, always] = seen[..] else {
                unreachable!("four rates")
            };
            ensure!(delay > 200 || seldom.0 < 60, "{seldom:?} with one a second");
            ensure!(delay < 200 || often.1 < 10, "{often:?} with 60 a second");
            ensure!(delay < 200 || always.0 > 80, "{always:?} as fast as it can");
        }
        Module::unload()?;
        module.load_or_fail()
    });
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["rounds", "sleeps", "workloads"])?;
        let rounds = options.number("rounds", 60)?;
        let sleeps = options.number("sleeps", 0)?;
        harness::allow(Duration::from_secs(u64::from(rounds + 4 * sleeps)));
        let module = &Module::from_words(&options.rest)?;
        let delay = module.number("autosuspend").context("no autosuspend")?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let control = &Control::open()?;
        Paint::new()?.close()?;
        let mut suite = Suite::new();
        let delays: &[u32] = match options.number("workloads", 0)? {
            0 => &[],
            1 => &[20, 200],
            _ => &[0, 20, 200, 1000],
        };
        if !delays.is_empty() {
            workloads(&mut suite, module, control, delays);
            return suite.run();
        }
        if sleeps > 0 {
            sleep_tests(&mut suite, control, sleeps);
            return suite.run();
        }
        suite.test("a core that has nothing to do goes off", move || {
            wait_until_off(control)?;
            same("status", read("runtime_status")?.as_str(), "suspended")?;
            same("delay", read("autosuspend_delay_ms")?, delay.to_string())?;
            let mut paint = Paint::new()?;
            paint.prove(0xff12_3456)?;
            same("power behind a job", control.read(POWER), ON)?;
            wait_until_off(control)?;
            paint.close()
        });
        suite.test("looking at it does not switch it on", move || {
            stays_off(control, || {
                let text = fs::read_to_string(ProcGc::PATH)?;
                ensure!(text.contains("hardware is idle"), "{text}");
                Ok(())
            })
        });
        suite.test("looking at it does not keep it on", move || {
            let mut paint = Paint::new()?;
            for way in 0..2 {
                paint.prove(0xff23_4567)?;
                eventually("the core is off", PATIENCE, || {
                    match way {
                        0 => drop(fs::read_to_string(ProcGc::PATH)?),
                        _ => {
                            let command = "QUERY_POWER_MANAGEMENT_STATE";
                            paint.device().ask(command, &[], "state")?;
                        }
                    }
                    Ok(control.read(POWER) == 0)
                })?;
            }
            paint.close()
        });
        suite.test("what comes then is right", move || {
            draw_again_and_again(control, rounds, delay)
        });
        suite.test("records alone switch it on, and take effect", move || {
            let paint = Paint::new()?;
            let device = paint.device();
            let signal = device.create_signal(false)?;
            for round in 0..5 {
                wait_until_off(control)?;
                let before = control.counter(counter::CLOCK_UPS);
                device.commit_queue(galcore_client::Queue::new().signal(signal))?;
                device
                    .wait_signal(signal, 10_000)
                    .with_context(|| format!("round {round}"))?;
                refused("set twice", device.wait_signal(signal, 0), Status::TIMEOUT)?;
                same(
                    "switched on",
                    control.counter(counter::CLOCK_UPS),
                    before + 1,
                )?;
            }
            device.destroy_signal(signal)?;
            paint.close()
        });
        suite.test("memory is free again while it is off", move || {
            let mut paint = Paint::new()?;
            let memory = Region::anonymous(PAGES * PAGE)?;
            let before = ProcGc::mmu_used_now()?;
            let (address, bytes) = (memory.address(), memory.len() as u64);
            let mapping = paint.device().map_user(address, bytes)?;
            paint.prove(0xff65_4321)?;
            stays_off(control, || {
                same("mapped", ProcGc::mmu_used_now()?, before + PAGES as u64)?;
                paint.device().unmap_user(&mapping)?;
                eventually("the addresses are free", PATIENCE, || {
                    Ok(ProcGc::mmu_used_now()? == before)
                })
            })?;
            paint.close()
        });
        suite.test("its owner can keep it on", move || {
            write(&attribute("control")?, "on")?;
            let mut paint = Paint::new()?;
            paint.prove(0xff11_2233)?;
            thread::sleep(Duration::from_millis(2 * delay + 300));
            let found = control.read(POWER);
            write(&attribute("control")?, "auto")?;
            same("power", found, ON)?;
            wait_until_off(control)?;
            paint.close()
        });
        suite.test(
            "it is bound again, and the module goes, while it is off",
            move || {
                let core = system::bound()?
                    .into_iter()
                    .next()
                    .context("no core is bound")?;
                let mut paint = Paint::new()?;
                paint.prove(0xff44_5566)?;
                wait_until_off(control)?;
                system::to_driver("unbind", &core)?;
                system::to_driver("bind", &core)?;
                paint.prove(0xff66_5544)?;
                paint.close()?;
                wait_until_off(control)?;
                Module::unload()?;
                same(
                    "power of a core without a driver",
                    control.read(POWER) & POWER_CLOCK,
                    0,
                )?;
                module.load_or_fail()?;
                let mut paint = Paint::new()?;
                paint.prove(0xff77_8899)?;
                paint.close()
            },
        );
        suite.test("without power management it stays on", move || {
            Module::unload()?;
            module.with(&["powerManagement=0"]).load_or_fail()?;
            let before = control.counter(counter::CLOCK_UPS);
            let mut paint = Paint::new()?;
            paint.prove(0xff10_2030)?;
            thread::sleep(Duration::from_millis(2 * delay + 300));
            same("power", control.read(POWER), ON)?;
            same("switched on", control.counter(counter::CLOCK_UPS), before)?;
            paint.close()?;
            Module::unload()?;
            module.load_or_fail()
        });
        suite.test("who loses jobs as a core goes is told", move || {
            let core = system::bound()?
                .into_iter()
                .next()
                .context("no core is bound")?;
            let mut paint = Paint::new()?;
            paint.prove(0xff31_4151)?;
            let before = paint.device().resets()?;
            let log = &mut KernelLog::from_now()?;
            let armed = control.arm(fault::HOLD, 1);
            let stream = paint.fill_all(0xff92_6535);
            paint.commit(&stream, &mut galcore_client::Queue::new())?;
            system::to_driver("unbind", &core)?;
            drop(armed);
            paint.expect(|_, _| 0xff31_4151)?;
            let (guilty, innocent, dropped) = paint.device().resets()?;
            same("guilty of", guilty, before.0)?;
            same("innocent in", innocent, before.1 + 1)?;
            ensure!(dropped > before.2, "nothing was dropped");
            let lines = log.lines()?;
            ensure!(
                lines.iter().any(|line| line
                    .text
                    .contains("jobs that had not ended and are dropped")),
                "the log says {lines:?}"
            );
            system::to_driver("bind", &core)?;
            paint.prove(0xff58_9793)?;
            paint.close()
        });
        suite.test("one that has another identity is given up", move || {
            let core = system::bound()?
                .into_iter()
                .next()
                .context("no core is bound")?;
            let mut paint = Paint::new()?;
            paint.prove(0xff21_4365)?;
            let signal = paint.device().create_signal(false)?;
            wait_until_off(control)?;
            let log = &mut KernelLog::from_now()?;
            let armed = control.arm(fault::IDENTITY, fault::IDENTITY_OTHER);
            let stream = paint.fill_all(0xff56_3412);
            paint.commit(&stream, galcore_client::Queue::new().signal(signal))?;
            // The wait must end.
            paint.device().wait_signal(signal, 10_000)?;
            drop(armed);
            paint.expect(|_, _| 0xff21_4365)?;
            let lines = log.lines()?;
            ensure!(
                lines
                    .iter()
                    .any(|line| line.text.contains("cannot be switched on")),
                "the log says {lines:?}"
            );
            refused("STALL", paint.device().stall(), Status::GPU_NOT_RESPONDING)?;
            system::to_driver("unbind", &core)?;
            system::to_driver("bind", &core)?;
            paint.prove(0xff78_5634)?;
            paint.device().destroy_signal(signal)?;
            paint.close()
        });
        suite.test("silicon was not asked for more than it can do", move || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
