// SPDX-License-Identifier: GPL-2.0-only
//! Two processes draw at the same time: both get the right pixels, and no signal is lost.

use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::fixture::CELL_HEIGHT;
use galcore_selftests::fixture::CELL_WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use gpu_control::counter;

/// Commits `count` cells in its own color, each with a signal that it waits for. Only for every 16th commit it does not
/// wait, so that several are pending.
fn draw(tint: u32, count: u32) -> Result<()> {
    let mut paint = Paint::new()?;
    let signal = paint.device().create_signal(false)?;
    for index in 0..count {
        let stream = paint.fill_cell(index, tint + index);
        if index % 16 == 0 {
            paint.commit(&stream, &mut Queue::new())?;
            continue;
        }
        paint.commit(&stream, Queue::new().signal(signal))?;
        paint
            .device()
            .wait_signal(signal, 10_000)
            .with_context(|| format!("signal of commit {index}"))?;
    }
    paint.client.finish()?;
    paint.expect(|x, y| {
        // The last commit that drew this cell, or none: then it is still 0.
        let cell = cell_of(x, y);
        match count.checked_sub(cell + 1) {
            Some(rest) => tint + cell + rest / CELLS * CELLS,
            None => 0,
        }
    })?;
    paint.close()
}

fn child(tint: u32, count: u32) -> Result<Child> {
    Ok(
        system::again(&["--child", &tint.to_string(), "--count", &count.to_string()])?
            .stdout(Stdio::piped())
            .spawn()?,
    )
}

/// Runs both at once. Returns the seconds.
fn together(count: u32, clients: u32) -> Result<f64> {
    let begin = Instant::now();
    let children: Vec<_> = (1..=clients)
        .map(|number| child(number << 24, count))
        .collect::<Result<_>>()?;
    for (number, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "client {number}: {} {text}",
            output.status
        );
    }
    Ok(begin.elapsed().as_secs_f64())
}

/// Pixels written by a clear of scratch memory: a page by each pixel pipe.
fn cleared() -> Result<u64> {
    let client = Client::start()?;
    Ok(match client.engine() {
        Engine::TwoD => 1024,
        Engine::Resolve { pipes } => 1024 * u64::from(pipes),
    })
}

fn main() -> ExitCode {
    let options = match Options::parse(&["count", "child"]) {
        Ok(options) => options,
        Err(error) => {
            println!("# {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(tint) = options.get("child") {
        let go = || draw(tint.parse()?, options.number("count", 500)?);
        return harness::exit(go());
    }
    harness::program(|| {
        let count = options.number("count", 500)?;
        let control = &Control::open()?;
        let used = at_rest(ProcGc::used_now)?;
        let mut suite = Suite::new();
        suite.test("a client alone", move || {
            together(count / 10, 1)?;
            Ok(())
        });
        suite.test(
            format!("two clients at once, {count} commits each"),
            move || {
                let counts = || (control.counters().draws(), control.counter(counter::PIXELS));
                let before = counts();
                let seconds = together(count, 2)?;
                let after = counts();
                let draws = after.0 - before.0;
                println!("# {draws} draws in {seconds:.1} s");
                // The additional clears of scratch memory come between commits of different clients.
                let commits = u64::from(count) * 2;
                let clears = draws.checked_sub(commits).context("too few draws")?;
                let drawn = commits * u64::from(CELL_WIDTH * CELL_HEIGHT) + clears * cleared()?;
                same("pixels", after.1 - before.1, drawn)
            },
        );
        suite.test("eight clients at once", move || {
            together(count / 20, 8)?;
            Ok(())
        });
        suite.test("as much memory used as before", move || {
            settles("KiB used", used, ProcGc::used_now)
        });
        suite.test("no reset, no violation", move || {
            same("violations", control.violations(), 0)?;
            Paint::new()?.prove(0xff01_0203)
        });
        suite.run()
    })
}
