// SPDX-License-Identifier: GPL-2.0-only
//! The driver's trace events: two processes on all cores, waits, mappings, hangs, and cores that power off.
//!
//! `--child SEED --jobs N`: draws N jobs on every core and prints what it committed. `--culprit CORE`: draws one job on
//! that core, which hangs.

use std::collections::BTreeMap;
use std::fs;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::tracing::Recording;
use galcore_selftests::vg;
use galcore_selftests::workers;
use galcore_trace::Event;
use galcore_trace::Outcome;
use galcore_trace::Record;
use galcore_trace::Submit;
use galcore_trace::Trace;
use gpu_control::fault;

/// Longer than any operation, in milliseconds.
const LONG: u32 = 20_000;

/// All events, with the fields of each.
const EVENTS: [(&str, &[&str]); 11] = [
    (
        "galcore_submit",
        &[
            "core", "seqno", "process", "context", "pipe", "words", "event_id",
        ],
    ),
    ("galcore_begin", &["core", "seqno"]),
    ("galcore_end", &["core", "seqno", "outcome"]),
    (
        "galcore_wait_begin",
        &["process", "what", "object", "core", "timeout"],
    ),
    (
        "galcore_wait_end",
        &["process", "what", "object", "core", "result"],
    ),
    ("galcore_map", &["process", "address", "bytes"]),
    ("galcore_unmap", &["process", "address", "bytes"]),
    ("galcore_hang", &["core", "seqno", "guilty"]),
    ("galcore_reset", &["core", "tries", "ok"]),
    ("galcore_power", &["core", "on", "why", "speed"]),
    ("galcore_speed", &["core", "speed"]),
];

/// Draws on all cores at once, each from its own thread.
fn draw(seed: u32, jobs: u32) -> Result<()> {
    let count = Device::open()?.chip_info()?.count.max(0) as usize;
    let threads: Vec<_> = (0..count)
        .map(|core| std::thread::spawn(move || workers::work(core, seed, |n| Ok(n < jobs))))
        .collect();
    for (core, thread) in threads.into_iter().enumerate() {
        let Ok(result) = thread.join() else {
            bail!("core {core}: panic");
        };
        let (done, _) = result.with_context(|| format!("core {core}"))?;
        println!("{core} {done}");
    }
    Ok(())
}

/// Commits one job on `core` and waits for its end.
fn hang(core: usize) -> Result<()> {
    if vg::place()? == Some(core) {
        let mut client = vg::Client::start()?;
        let entries = workers::vg_job(&client, 0, 0, 7);
        let done = client.signals[1];
        let tasks = vg::Tasks::default().with(vg::PIXEL, vg::signal(done));
        same("status", client.send(&entries, &tasks)?, vg::OK)?;
        return Ok(client.device.wait_signal(done, LONG)?);
    }
    let mut paint = Paint::of(Client::with_device(Device::open_core(core)?)?)?;
    let done = paint.device().create_signal(false)?;
    let stream = paint.fill_cell(0, 7);
    paint.commit(&stream, Queue::new().signal(done))?;
    Ok(paint.device().wait_signal(done, LONG)?)
}

fn spawn(arguments: &[&str]) -> Result<Child> {
    Ok(system::again(arguments)?.stdout(Stdio::piped()).spawn()?)
}

/// The output of a child.
fn finish(child: Child) -> Result<String> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {text}", output.status);
    Ok(text)
}

/// The process id, in the form that traces use.
fn number(child: &Child) -> Result<i32> {
    Ok(i32::try_from(child.id())?)
}

/// This process's id.
fn own() -> Result<i32> {
    Ok(i32::try_from(std::process::id())?)
}

/// All jobs that a trace shows from their submission on, by core and number, with the positions of their submit, begin,
/// and end events, and their outcome.
struct Jobs<'a>(BTreeMap<(u32, u64), OneJob<'a>>);

struct OneJob<'a> {
    submit: (usize, &'a Submit),
    begin: Option<usize>,
    end: Option<(usize, Outcome)>,
}

impl<'a> Jobs<'a> {
    /// Fails if a job is submitted, begins, or ends twice or out of order. Skips jobs that were submitted before the
    /// trace.
    fn of(trace: &'a Trace) -> Result<Self> {
        let mut jobs: BTreeMap<(u32, u64), OneJob<'_>> = BTreeMap::new();
        for (at, record) in trace.records.iter().enumerate() {
            match &record.event {
                Event::Submit(submit) => {
                    let newest = jobs.range((submit.job.0, 0)..=(submit.job.0, u64::MAX));
                    if let Some(((_, newest), _)) = newest.last() {
                        same("the next number", submit.job.1, newest + 1)?;
                    }
                    let job = OneJob {
                        submit: (at, submit),
                        begin: None,
                        end: None,
                    };
                    jobs.insert(submit.job, job);
                }
                Event::Begin(job) => {
                    if let Some(one) = jobs.get_mut(job) {
                        let is_new = one.begin.replace(at).is_none() && one.end.is_none();
                        ensure!(is_new, "{job:?} begins twice, or after its end");
                    }
                }
                Event::End(job, outcome) => {
                    if let Some(one) = jobs.get_mut(job) {
                        let is_new = one.end.replace((at, *outcome)).is_none();
                        ensure!(is_new, "{job:?} ends twice");
                    }
                }
                _ => {}
            }
        }
        Ok(Self(jobs))
    }

    /// Fails unless each job has ended, and completed jobs began one after the other.
    fn check(&self) -> Result<()> {
        let mut last: BTreeMap<u32, usize> = BTreeMap::new();
        for ((core, seqno), job) in &self.0 {
            let what = || format!("job {seqno} of core {core}");
            let (end, outcome) = job
                .end
                .with_context(|| format!("{} has not ended", what()))?;
            ensure!(
                job.begin.is_some() || outcome != Outcome::Done,
                "{} never began",
                what()
            );
            let begin = job.begin.unwrap_or(end);
            ensure!(job.submit.0 < begin && begin <= end, "{}: order", what());
            if let Some(last) = last.insert(*core, end) {
                ensure!(
                    last < begin,
                    "{} begins before the end of the one before",
                    what()
                );
            }
            ensure!(job.submit.1.event_id < 30, "{}: {:?}", what(), job.submit.1);
        }
        Ok(())
    }

    /// Number of jobs with words of `process` in `pipe`.
    fn count(&self, process: i32, pipe: &str) -> usize {
        let jobs = self.0.values().map(|job| job.submit.1);
        jobs.filter(|job| job.process == process && job.pipe == pipe && job.words > 0)
            .count()
    }

    /// Number of all jobs of core `core`.
    fn of_core(&self, core: u32) -> usize {
        self.0.keys().filter(|job| job.0 == core).count()
    }

    /// The core of jobs with `pipe`.
    fn core(&self, pipe: &str) -> Result<u32> {
        let mut jobs = self.0.values().map(|job| job.submit.1);
        let job = jobs
            .find(|job| job.pipe == pipe)
            .with_context(|| format!("no job with pipe {pipe}"))?;
        Ok(job.job.0)
    }
}

/// Fails unless the waits of each thread begin and end in turn and belong to one of `processes`. Returns the number of
/// completed waits.
fn check_waits(trace: &Trace, processes: &[i32]) -> Result<usize> {
    let mut waits = BTreeMap::new();
    let mut count = 0;
    for record in &trace.records {
        match &record.event {
            Event::WaitBegin { wait, .. } => {
                ensure!(processes.contains(&wait.process), "{record:?}: whose?");
                let before = waits.insert(record.thread, wait);
                ensure!(before.is_none(), "{record:?}: waits already");
            }
            Event::WaitEnd { wait, .. } => {
                let begun = waits.remove(&record.thread);
                same("the wait that ends", Some(wait), begun)?;
                count += 1;
            }
            _ => {}
        }
    }
    ensure!(waits.is_empty(), "they still wait: {waits:?}");
    Ok(count)
}

/// Fails unless cores power on and off in turn, and no job begins on a core that is off. Returns the number of
/// power-offs.
fn check_power(trace: &Trace) -> Result<usize> {
    let mut are_on: BTreeMap<u32, bool> = BTreeMap::new();
    let mut count = 0;
    for record in &trace.records {
        match &record.event {
            Event::Power { core, on, .. } => {
                let before = are_on.insert(*core, *on);
                ensure!(before != Some(*on), "{record:?}: it was already");
                count += usize::from(!on);
            }
            Event::Begin((core, _)) => {
                ensure!(are_on.get(core) != Some(&false), "{record:?}: it is off");
            }
            _ => {}
        }
    }
    Ok(count)
}

fn recording() -> Result<Recording> {
    match Recording::start()? {
        Some(recording) => Ok(recording),
        None => skip("this kernel has no trace events"),
    }
}

fn formats() -> Result<()> {
    let recording = recording()?;
    for (event, fields) in EVENTS {
        let format = recording.format(event)?;
        let (declared, text) = format
            .split_once("print fmt: ")
            .with_context(|| format.clone())?;
        for field in fields {
            ensure!(
                declared.contains(&format!(" {field};")) && text.contains(&format!("{field}=")),
                "{event} lacks {field}: {format}"
            );
        }
        ensure!(
            !format.contains("%p") && !format.contains('*'),
            "{event} shows a pointer: {format}"
        );
    }
    Ok(())
}

fn two_clients(jobs: u32) -> Result<()> {
    let recording = recording()?;
    let info = Device::open()?.chip_info()?;
    let count = info.count.max(0) as usize;
    let controls = (0..count)
        .map(Control::open_core)
        .collect::<Result<Vec<_>>>()?;
    let events = || -> Vec<_> { controls.iter().map(|c| c.counters().events).collect() };
    at_rest(|| Ok(()))?;
    let before = events();
    recording.clear()?;
    let children = ["11", "12"]
        .map(|seed| spawn(&["--child", seed, "--jobs", &jobs.to_string()]))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let numbers = children.iter().map(number).collect::<Result<Vec<_>>>()?;
    let mut told = Vec::new();
    for child in children {
        told.push(finish(child)?);
    }
    at_rest(|| Ok(()))?;
    let (trace, _) = recording.read()?;
    let after = events();
    let found = Jobs::of(&trace)?;
    found.check()?;
    let pipes = ["3d", "2d", "vg"];
    for (core, pipe) in pipes.into_iter().enumerate().take(count) {
        for (process, told) in numbers.iter().zip(&told) {
            let line = format!("{core} {jobs}");
            ensure!(told.lines().any(|told| told == line), "{told:?}: no {line}");
            same(
                &format!("jobs of process {process} with pipe {pipe}"),
                found.count(*process, pipe),
                jobs as usize,
            )?;
        }
    }
    // The hardware has raised one event for each job of a ring. On the other core it has raised one for each job in
    // addition to those of its modules.
    for (core, pipe) in [(0, "3d"), (1, "2d")] {
        same(
            &format!("events of the {pipe} core, and jobs in the trace"),
            found.of_core(found.core(pipe)?) as u64,
            after[core] - before[core],
        )?;
    }
    let is_known = |process: i32| process == 0 || numbers.contains(&process);
    let strangers: Vec<_> = (found.0.values())
        .map(|job| job.submit.1)
        .filter(|job| !is_known(job.process))
        .collect();
    ensure!(strangers.is_empty(), "whose are {strangers:?}?");
    let all_done = found
        .0
        .values()
        .all(|job| job.end.is_some_and(|end| end.1 == Outcome::Done));
    ensure!(all_done, "not all jobs were done");
    let waits = check_waits(&trace, &numbers)?;
    ensure!(waits >= jobs as usize, "only {waits} waits");
    check_power(&trace)?;
    println!("# {} jobs, {waits} waits", found.0.len());
    Ok(())
}

fn waits() -> Result<()> {
    let recording = recording()?;
    let device = Device::open()?;
    let signal = device.create_signal(false)?;
    recording.clear()?;
    refused("WAIT", device.wait_signal(signal, 60), Status::TIMEOUT)?;
    device.stall()?;
    let (trace, _) = recording.read()?;
    let process = own()?;
    check_waits(&trace, &[process])?;
    let mut begin = None;
    let mut has_stalled = false;
    for Record { time, event, .. } in &trace.records {
        match event {
            Event::WaitBegin { wait, timeout } if wait.what == "signal" => {
                same("signal", wait.object, signal as u64)?;
                same("timeout", *timeout, 60)?;
                begin = Some(*time);
            }
            Event::WaitEnd { wait, result } if wait.what == "signal" => {
                same("result", *result, -15)?;
                let took = time - begin.context("it ends before it begins")?;
                ensure!((60_000_000..5_000_000_000).contains(&took), "{took} ns");
            }
            Event::WaitEnd { wait, result } if wait.what == "job" => {
                same("result", *result, 0)?;
                has_stalled = wait.core.is_some();
            }
            _ => {}
        }
    }
    ensure!(begin.is_some() && has_stalled, "{:?}", trace.records);
    Ok(())
}

fn mappings() -> Result<()> {
    let recording = recording()?;
    let client = Client::start()?;
    recording.clear()?;
    let surface = client.create_surface_in(64, 64, Pool::VIRTUAL)?;
    let (address, bytes) = (surface.location.address, 64 * 64 * 4);
    client.release_surface(surface)?;
    client.finish()?;
    let process = own()?;
    // The memory is free once the GPU has run the unlock's event. Its mapping may end later.
    settles("mapped and unmapped", (1, 1), || {
        let (trace, _) = recording.read()?;
        let (mut mapped, mut unmapped) = (0, 0);
        for record in &trace.records {
            let (what, count) = match &record.event {
                Event::Map(what) => (what, &mut mapped),
                Event::Unmap(what) => (what, &mut unmapped),
                _ => continue,
            };
            if what.address == address {
                same("process", what.process, process)?;
                ensure!(what.bytes >= bytes && what.bytes % 4096 == 0, "{what:?}");
                *count += 1;
            }
        }
        Ok((mapped, unmapped))
    })
}

/// Hangs the core that CHIP_INFO lists at `place`.
fn hang_on(place: usize) -> Result<()> {
    let recording = recording()?;
    let control = Control::open_core(place)?;
    recording.clear()?;
    control.write(fault::HANG_AT_DRAW, 1);
    let culprit = spawn(&["--culprit", &place.to_string()])?;
    let guilty = number(&culprit)?;
    finish(culprit)?;
    at_rest(|| Ok(()))?;
    let (trace, _) = recording.read()?;
    let jobs = Jobs::of(&trace)?;
    jobs.check()?;
    let events = trace.records.iter().map(|record| &record.event);
    let mut events = events.skip_while(|event| !matches!(event, Event::Hang { .. }));
    let Some(Event::Hang { job, guilty: told }) = events.next() else {
        bail!("no hang: {:?}", trace.records);
    };
    same("guilty", *told, guilty)?;
    let hung = jobs.0.get(job).context("a job that was not submitted")?;
    same("its process", hung.submit.1.process, guilty)?;
    same("its end", hung.end.map(|end| end.1), Some(Outcome::Dropped))?;
    ensure!(hung.begin.is_some(), "it has not begun");
    let mut rest = events.filter(|event| {
        matches!(event, Event::Reset { .. })
            || matches!(event, Event::End(ended, _) if ended == job)
    });
    let Some(Event::Reset { core, tries, ok }) = rest.next() else {
        bail!("it ends before the reset: {:?}", trace.records);
    };
    same("the reset", (*core, *tries >= 1, *ok), (job.0, true, true))?;
    same(
        "what follows",
        rest.next(),
        Some(&Event::End(*job, Outcome::Dropped)),
    )
}

/// Whether the kernel has suspended all cores.
fn are_off() -> Result<bool> {
    for core in system::bound()? {
        let path = format!("/sys/bus/platform/devices/{core}/power/runtime_status");
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        if status.trim() != "suspended" {
            return Ok(false);
        }
    }
    Ok(true)
}

fn power() -> Result<()> {
    let recording = recording()?;
    let mut paint = Paint::new()?;
    let off = || eventually("the cores go off", Duration::from_secs(10), are_off);
    off()?;
    recording.clear()?;
    for colour in 1..=3 {
        paint.prove(colour)?;
        off()?;
    }
    let (trace, _) = recording.read()?;
    paint.close()?;
    let jobs = Jobs::of(&trace)?;
    jobs.check()?;
    let count = check_power(&trace)?;
    let events = trace.records.iter().map(|record| &record.event);
    let first = events.filter_map(|event| match event {
        Event::Power { on, why, .. } => Some((*on, why.as_str())),
        _ => None,
    });
    same(
        "first",
        first.take(2).collect(),
        vec![(true, "use"), (false, "use")],
    )?;
    ensure!(count >= 3, "it went off {count} times");
    Ok(())
}

fn off() -> Result<()> {
    let recording = recording()?;
    drop(recording);
    let mut paint = Paint::new()?;
    paint.prove(5)?;
    paint.close()?;
    let text = fs::read_to_string("/sys/kernel/tracing/trace")?;
    let after = Trace::parse(&text).records;
    let process = own()?;
    let mine =
        |record: &&Record| matches!(&record.event, Event::Submit(job) if job.process == process);
    same("events", after.iter().filter(mine).count(), 0)
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["child", "jobs", "culprit"])?;
        let jobs = options.number("jobs", 60)?;
        if let Some(seed) = options.get("child") {
            draw(seed.parse()?, jobs)?;
            return Ok(true);
        }
        if let Some(core) = options.get("culprit") {
            hang(core.parse()?)?;
            return Ok(true);
        }
        let count = Device::open()?.chip_info()?.count.max(0) as usize;
        let mut suite = Suite::new();
        suite.test("every event says what it has, and no pointers", formats);
        suite.test(
            "of two processes on all cores, each job begins and ends once, in turn",
            move || two_clients(jobs),
        );
        suite.test("waits are their process's, and take their time", waits);
        suite.test("what is mapped is unmapped", mappings);
        for place in 0..count {
            suite.test(format!("core {place}: a hang, and the reset"), move || {
                hang_on(place)
            });
        }
        suite.test("cores go on and off in turn", power);
        suite.test("what nobody wants is not recorded", off);
        suite.run()
    })
}
