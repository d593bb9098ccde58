// SPDX-License-Identifier: GPL-2.0-only
//! Kills a client while it commits in an endless loop: nothing may leak, and another client must not be affected.

use std::cell::Cell;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;

/// Commits until it is killed, while memory of all kinds is held, locked, and queued for release.
fn commit_for_ever() -> Result<()> {
    let mut paint = Paint::new()?;
    let signal = paint.device().create_signal(false)?;
    for index in 0.. {
        let extra = paint.client.create_surface_in(64, 64, Pool::CONTIGUOUS)?;
        let heap = paint
            .device()
            .allocate(65_536, 64, surface::TEXTURE, Pool::SYSTEM)?;
        let buffer = paint.device().allocate_contiguous(0x8000)?;
        let stream = paint.fill_cell(index, index);
        paint.device().unlock(extra.node)?;
        let mut queue = Queue::new();
        queue
            .unlock(extra.node)
            .free(extra.node)
            .free(heap)
            .free_contiguous(&buffer)
            .signal(signal);
        paint.commit(&stream, &mut queue)?;
        if index % 8 == 0 {
            paint.device().wait_signal(signal, 10_000)?;
        }
    }
    Ok(())
}

fn child() -> Result<Child> {
    let mut child = system::again(&["--child"])?
        .stdout(Stdio::piped())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(20));
    ensure!(child.try_wait()?.is_none(), "the client ended by itself");
    Ok(child)
}

/// Starts a client, lets it commit for a while, and kills it. Returns the time until it died.
fn one_kill(control: &Control, run: Duration) -> Result<Duration> {
    let before = control.counters().draws();
    let mut child = child()?;
    harness::eventually("the client draws", Duration::from_secs(10), || {
        Ok(control.counters().draws() > before)
    })?;
    std::thread::sleep(run);
    if let Some(status) = child.try_wait()? {
        let output = child.wait_with_output()?;
        anyhow::bail!(
            "the client ended by itself: {status} {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let begin = Instant::now();
    child.kill()?;
    child.wait()?;
    Ok(begin.elapsed())
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--child") {
        return harness::exit(commit_for_ever());
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 10)?;
        harness::allow(Duration::from_secs(u64::from(count) * 5));
        let control = &Control::open()?;
        // Warms up this process's own allocations before memory is measured.
        Paint::new()?.close()?;
        one_kill(control, Duration::ZERO)?;
        std::thread::sleep(Duration::from_millis(100));
        let used = at_rest(ProcGc::used_now)?;
        let worst = &Cell::new(Duration::ZERO);
        let mut suite = Suite::new();
        suite.test(
            format!("{count} kills in the middle of commits; each time all memory comes back"),
            move || {
                let mut random = Random::new(7);
                for round in 0..count {
                    let took = one_kill(control, Duration::from_millis(random.below(60).into()))?;
                    worst.set(worst.get().max(took));
                    let back = || Ok(ProcGc::used_now()? == used);
                    harness::eventually("memory back", Duration::from_secs(3), back).with_context(
                        || format!("round {round}: {:?}, before {used:?}", ProcGc::read()),
                    )?;
                }
                Ok(())
            },
        );
        suite.test("each died within a second", move || {
            ensure!(
                worst.get() < Duration::from_secs(1),
                "one took {:?}",
                worst.get()
            );
            Ok(())
        });
        suite.test(
            "another client draws right pixels all the while",
            move || {
                let mut paint = Paint::new()?;
                let signal = paint.device().create_signal(false)?;
                let over = AtomicBool::new(false);
                let over = &over;
                std::thread::scope(|scope| {
                    let killer = scope.spawn(move || -> Result<()> {
                        let control = Control::open()?;
                        for round in 0..count.min(5) {
                            // The other client's draws count as well, so start and kill without a look at the counters.
                            let mut child = child()?;
                            std::thread::sleep(Duration::from_millis(40 + u64::from(round) * 15));
                            child.kill()?;
                            child.wait()?;
                        }
                        over.store(true, Ordering::SeqCst);
                        same("violations", control.violations(), 0)
                    });
                    let mut index = 0;
                    while !over.load(Ordering::SeqCst) {
                        if killer.is_finished() {
                            break;
                        }
                        let stream = paint.fill_cell(index, 0xcc00_0000 + index);
                        paint.commit(&stream, Queue::new().signal(signal))?;
                        paint
                            .device()
                            .wait_signal(signal, 10_000)
                            .with_context(|| format!("signal of commit {index}"))?;
                        index += 1;
                    }
                    killer.join().expect("no panic")?;
                    println!("# {index} commits meanwhile");
                    paint.expect(|x, y| match index.checked_sub(cell_of(x, y) + 1) {
                        Some(rest) => 0xcc00_0000 + cell_of(x, y) + rest / CELLS * CELLS,
                        None => 0,
                    })
                })
            },
        );
        suite.test(format!("{count} kills more cost no memory"), move || {
            // Measured only now, because the first kills filled the kernel's caches.
            let before = system::settled_free()?;
            for _ in 0..count {
                one_kill(control, Duration::from_millis(20))?;
            }
            settles("KiB used", used, ProcGc::used_now)?;
            system::memory_is_back(before, 512)
        });
        suite.test("no reset, no violation, and drawing works", move || {
            same("violations", control.violations(), 0)?;
            // The core is reset each time it powers on.
            system::stay_awake()?;
            let resets = control.counters().resets;
            Paint::new()?.prove(0xff01_0203)?;
            same("resets", control.counters().resets, resets)
        });
        suite.run()
    })
}
