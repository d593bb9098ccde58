// SPDX-License-Identifier: GPL-2.0-only
//! Driver work outside of client calls: timers and kernel workers.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::raw;
use galcore_client::sys;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::tracing::Recording;
use rustix::event::poll;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

/// Signals, each with the most fences allowed.
const SIGNALS: usize = 64;
const FENCES: usize = 16;

/// Timers that the commands may start for other reasons.
const TIMERS: usize = 64;

/// Longer than a fence stays unsignaled, in seconds.
const LIMIT: i64 = 20;

/// The fences of one process must not cause one timer interrupt each.
fn fences() -> Result<()> {
    let abi = Abi::named("6.4.11").context("a generation")?;
    let device = Device::open_as(abi, true)?;
    let Some(recording) = Recording::of(&["timer/timer_start"], Some(raw::thread()))? else {
        return skip("this kernel has no trace events");
    };
    let mut last = None;
    for _ in 0..SIGNALS {
        let signal = device.create_signal(false)?;
        for _ in 0..FENCES {
            let given = [("signal", signal as u64)];
            let (status, number) = device.ask("CREATE_NATIVE_FENCE", &given, "fenceFD")?;
            if status == Status::NOT_SUPPORTED {
                return skip("this kernel has no sync files");
            }
            same("CREATE", status, Status::OK)?;
            // The fence outlives its descriptor.
            last = Some(sys::take_descriptor(number)?);
        }
    }
    let set = recording.text()?.matches("timer_start:").count();
    println!("# {} fences, {set} timers set", SIGNALS * FENCES);
    ensure!(set <= TIMERS, "{set} timers were set");
    let limit = Timespec {
        tv_sec: LIMIT,
        tv_nsec: 0,
    };
    let fence = last.context("no fence")?;
    let ended = poll(&mut [PollFd::new(&fence, PollFlags::IN)], Some(&limit))?;
    same("fences that have ended", ended, 1)
}

/// The nice value of each worker that ran the driver's work, with the name of the work's function.
fn workers(text: &str) -> Result<Vec<(String, i32)>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((head, event)) = line.split_once("workqueue_execute_start: ") else {
            continue;
        };
        let function = event.split("function").nth(1).unwrap_or_default();
        if !function.contains("7galcore") {
            continue;
        }
        let task = head.split(" [").next().unwrap_or_default().trim();
        let (_, id) = task.rsplit_once('-').context("a task")?;
        // Workers come and go.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
            continue;
        };
        let (_, fields) = stat.rsplit_once(") ").context("stat")?;
        let nice = fields.split(' ').nth(16).context("nice")?.parse()?;
        all.push((function.to_string(), nice));
    }
    Ok(all)
}

/// Work that monitors the cores must not wait for busy processors, and work that clients cause must have no precedence.
fn looks() -> Result<()> {
    let events = ["workqueue/workqueue_execute_start"];
    let Some(recording) = Recording::of(&events, None)? else {
        return skip("this kernel has no trace events");
    };
    let mut paint = Paint::new()?;
    for number in 0..8 {
        let stream = paint.fill_cell(number, 1);
        // Causes other work.
        let node = paint.device().allocate(4096, 64, 6, Pool::SYSTEM)?;
        paint.commit(&stream, Queue::new().free(node))?;
        paint.device().stall()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    paint.close()?;
    let workers = workers(&recording.text()?)?;
    let of_rings = |(function, _): &&(String, i32)| function.contains("6engine6Engine");
    let looks: Vec<_> = workers.iter().filter(of_rings).collect();
    println!("# {} works, {} of them looks", workers.len(), looks.len());
    ensure!(!looks.is_empty(), "nobody has looked: {workers:?}");
    for (function, nice) in workers {
        let wanted = if function.contains("6engine6Engine") {
            -20
        } else {
            0
        };
        same(&format!("nice of {function}"), nice, wanted)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let mut suite = Suite::new();
        suite.test("a thousand fences are no thousand timers", fences);
        suite.test("looks at the cores run before others", looks);
        suite.run()
    })
}
