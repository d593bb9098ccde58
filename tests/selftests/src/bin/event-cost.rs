// SPDX-License-Identifier: GPL-2.0-only
//! The cost of an event: register accesses, interrupts, time. At most one read per interrupt, and no access per
//! submission.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use gpu_control::counter;

/// Counters of the GPU.
#[derive(Clone, Copy)]
struct Counts {
    reads: u64,
    writes: u64,
    interrupts: u64,
    events: u64,
}

impl Counts {
    fn now(control: &Control) -> Self {
        Self {
            reads: control.counter(counter::MMIO_READS),
            writes: control.counter(counter::MMIO_WRITES),
            interrupts: control.counter(counter::INTERRUPTS),
            events: control.counter(counter::EVENTS),
        }
    }
}

/// Calls `body` `count` times. Allows no write, and at most as many reads as interrupts.
///
/// On a busy host the GPU's process may not run for 100 ms. The driver then polls, which needs reads, so this uses the
/// best of three measurements.
#[expect(
    clippy::redundant_closure_call,
    reason = "the checks end early with `?`, the loop goes on"
)]
fn measure(
    control: &Control,
    count: u32,
    events: u64,
    mut body: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut last = Ok(());
    for _ in 0..3 {
        let before = Counts::now(control);
        let begin = Instant::now();
        for _ in 0..count {
            body()?;
        }
        let took = begin.elapsed();
        // Wait for the end of the last interrupt.
        std::thread::sleep(Duration::from_millis(20));
        let after = Counts::now(control);
        let reads = after.reads - before.reads;
        let writes = after.writes - before.writes;
        let interrupts = after.interrupts - before.interrupts;
        let fired = after.events - before.events;
        println!(
            "# {count} rounds: {fired} events, {interrupts} interrupts, {reads} reads, {writes} writes, {} us a round",
            took.as_micros() / u128::from(count.max(1))
        );
        let check = || -> Result<()> {
            ensure!(fired == events * u64::from(count), "{fired} events");
            ensure!(
                interrupts <= fired,
                "{interrupts} interrupts for {fired} events"
            );
            ensure!(
                reads <= interrupts,
                "{reads} reads for {interrupts} interrupts"
            );
            ensure!(writes == 0, "{writes} writes");
            Ok(())
        };
        last = check();
        if last.is_ok() {
            break;
        }
    }
    last
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 500)?;
        harness::allow(Duration::from_millis(u64::from(count) * 100));
        let control = &Control::open()?;
        let paint = &RefCell::new(Paint::new()?);
        let id = paint.borrow().device().create_signal(false)?;
        paint.borrow_mut().prove(0xff01_0203)?;
        let mut suite = Suite::new();
        suite.test("EVENT_COMMIT and WAIT", move || {
            let paint = paint.borrow();
            measure(control, count, 1, || {
                paint.device().commit_queue(Queue::new().signal(id))?;
                Ok(paint.device().wait_signal(id, 10_000)?)
            })
        });
        suite.test("COMMIT with a signal and WAIT", move || {
            let mut paint = paint.borrow_mut();
            // Few enough that no full command buffer needs an event of its own.
            let count = count.min(100);
            let stream = galcore_client::Stream::new().nop().clone();
            measure(control, count, 1, || {
                paint.commit(&stream, Queue::new().signal(id))?;
                Ok(paint.device().wait_signal(id, 10_000)?)
            })
        });
        suite.test("sixteen EVENT_COMMITs, then a WAIT", move || {
            let paint = paint.borrow();
            measure(control, count.div_ceil(16), 17, || {
                for _ in 0..16 {
                    paint.device().commit_queue(Queue::new().timestamp(0, 1))?;
                }
                paint.device().commit_queue(Queue::new().signal(id))?;
                Ok(paint.device().wait_signal(id, 10_000)?)
            })
        });
        suite.run()
    })
}
