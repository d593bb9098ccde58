// SPDX-License-Identifier: GPL-2.0-only
//! Processes draw on all cores, which power off and on between commits. All pixels must be right, and each job must run
//! exactly once.
//!
//! With `--sleeps N` the machine sleeps N times during the run. One sleep in ten is a full suspend until the clock
//! wakes the machine, the others suspend only the devices.
//!
//! Needs the module to be loaded. Arguments: `[--processes N] [--ups N] [--sleeps N]`: the number of processes, the
//! total number of times that the cores must power on, and the number of sleeps.

use std::io::Read;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::workers;
use gpu_control::counter;

/// Longest time until the cores power on once more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time between two sleeps, in milliseconds.
const AWAKE: u32 = 150;

/// Runs one process, which rests between some of its commits, until its input ends.
fn child(core: usize, seed: u32) -> Result<()> {
    let (sender, is_over) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(sender);
    });
    let mut random = Random::new(seed);
    let (commits, resets) = workers::work(core, seed, |_| {
        let rest = match random.below(4) {
            0 => 0,
            1 => random.below(10),
            _ => random.below(120),
        };
        let ended = is_over.recv_timeout(Duration::from_millis(rest.into()));
        Ok(ended == Err(std::sync::mpsc::RecvTimeoutError::Timeout))
    })?;
    same("resets", resets, 0)?;
    println!("{commits}");
    Ok(())
}

/// Starts processes on all cores in turn.
fn spawn(cores: u32, processes: u32) -> Result<Vec<Child>> {
    let start = |number: u32| -> Result<Child> {
        let (core, seed) = ((number % cores).to_string(), (number + 1).to_string());
        let mut command = system::again(&["--core", &core, "--seed", &seed])?;
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command.spawn()?)
    };
    (0..processes).map(start).collect()
}

/// Ends the processes. Returns the number of commits of each.
fn finish(children: Vec<Child>) -> Result<Vec<u32>> {
    let ended = |(number, mut child): (usize, Child)| -> Result<u32> {
        drop(child.stdin.take());
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "process {number}: {text}");
        let word = text.lines().last().context("no number of commits")?;
        Ok(word.parse()?)
    };
    children.into_iter().enumerate().map(ended).collect()
}

/// Fails if a process has ended early, before anything is written to its input.
fn are_well(children: &mut [Child]) -> Result<()> {
    for (number, child) in children.iter_mut().enumerate() {
        let status = child.try_wait()?;
        ensure!(status.is_none(), "process {number} has ended: {status:?}");
    }
    Ok(())
}

/// Total number of times that the cores powered on.
fn ups(controls: &[Control]) -> u64 {
    let ups = controls.iter();
    ups.map(|control| control.counter(counter::CLOCK_UPS)).sum()
}

/// Processes draw until the cores have powered on `wanted` times.
fn on_and_off(controls: &[Control], processes: u32, wanted: u64) -> Result<()> {
    let before = ups(controls);
    let mut children = spawn(controls.len() as u32, processes)?;
    let (mut last, mut moved) = (before, Stopwatch::start());
    while ups(controls) - before < wanted {
        thread::sleep(Duration::from_millis(100));
        are_well(&mut children)?;
        let now = ups(controls);
        if now != last {
            (last, moved) = (now, Stopwatch::start());
        }
        ensure!(!moved.is_over(PATIENCE), "no core goes off any more");
    }
    tell(finish(children)?, ups(controls) - before);
    Ok(())
}

/// Prints the amount of work.
fn tell(commits: Vec<u32>, ups: u64) {
    let (least, all) = (commits.iter().min(), commits.iter().sum::<u32>());
    println!("# {all} commits, of a process {least:?} at least; switched on {ups} times");
}

/// The machine sleeps `sleeps` times while processes draw.
fn sleeps(controls: &[Control], processes: u32, sleeps: u32) -> Result<()> {
    let before = ups(controls);
    let mut children = spawn(controls.len() as u32, processes)?;
    let mut random = Random::new(7);
    for round in 0..sleeps {
        thread::sleep(Duration::from_millis(random.below(AWAKE).into()));
        let slept = match round % 10 {
            0 => system::sleep_whole(),
            _ => system::sleep_devices(),
        };
        slept.with_context(|| format!("sleep {round}"))?;
        are_well(&mut children)?;
    }
    let commits = finish(children)?;
    ensure!(commits.iter().all(|&commits| commits > 0), "{commits:?}");
    tell(commits, ups(controls) - before);
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["processes", "ups", "sleeps", "core", "seed"])?;
        let wanted = options.number("ups", 80)?;
        let rounds = options.number("sleeps", 6)?;
        let processes = options.number("processes", 8)?;
        harness::allow(Duration::from_secs(u64::from(600 + wanted + 10 * rounds)));
        if options.get("seed").is_some() {
            child(
                options.number("core", 0)? as usize,
                options.number("seed", 1)?,
            )?;
            return Ok(true);
        }
        let cores = Device::open()?.chip_info()?.count;
        let controls = (0..cores).map(|core| Control::open_core(core as usize));
        let controls = &controls.collect::<Result<Vec<_>>>()?;
        Paint::new()?.close()?;
        let before = ProcGc::nothing_left()?;
        let mut suite = Suite::new();
        suite.test(
            format!("{processes} processes draw while the cores go off and on {wanted} times"),
            move || on_and_off(controls, processes, wanted.into()),
        );
        suite.test(
            format!("{processes} processes draw while the machine sleeps {rounds} times"),
            move || sleeps(controls, processes, rounds),
        );
        suite.test("nothing is left", move || {
            same("KiB, entries", ProcGc::nothing_left()?, before)
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
