// SPDX-License-Identifier: GPL-2.0-only
//! Dropped, late, doubled, and spurious interrupts and lost events, at random, while three threads commit and wait. No
//! signal may be lost, the order must hold, and a fault may cost only a bounded delay.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::bounded;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use gpu_control::counter;
use gpu_control::fault;

/// Threads that commit.
const WORKERS: u32 = 3;
/// Pending signals per thread.
const BATCH: usize = 8;
/// Longest delay that faults may add to a wait.
const BOUND: Duration = Duration::from_millis(500);
/// A signal that takes longer than this counts as lost.
const LOST: u32 = 10_000;

/// Durations of the waits.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    longest: Duration,
    total: Duration,
    waits: u32,
    /// The latest wake-up of a thread that only sleeps: the delay of the machine itself.
    machine: Duration,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
        self.total += time;
        self.waits += 1;
    }

    fn merge(&mut self, other: Times) {
        self.longest = self.longest.max(other.longest);
        self.total += other.total;
        self.waits += other.waits;
        self.machine = self.machine.max(other.machine);
    }

    fn mean(&self) -> Duration {
        self.total / self.waits.max(1)
    }
}

/// Commits and waits until `over`: single commits and batches of queues in turn.
fn work(seed: u32, over: &AtomicBool) -> Result<Times> {
    let mut paint = Paint::new()?;
    let ids = (0..BATCH)
        .map(|_| paint.device().create_signal(false))
        .collect::<Result<Vec<_>, _>>()?;
    let log = paint.client.create_surface(64, 16)?;
    let mut random = Random::new(seed);
    let mut times = Times::default();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let colour = random.colour();
        let stream = paint.fill_cell(number, colour);
        let mut queue = Queue::new();
        queue
            .write_data(log.location.address, number)
            .signal(ids[0]);
        let begin = Instant::now();
        paint.commit(&stream, &mut queue)?;
        let waited = paint.device().wait_signal(ids[0], LOST);
        waited.with_context(|| format!("lost: the signal of commit {number}"))?;
        times.add(begin.elapsed());
        same("word", log.memory.read(0), number)?;
        let place = cell(number);
        same_word("pixel", paint.surface.pixel(place.x, place.y), colour)?;
        if number % 4 != 0 {
            continue;
        }
        let begin = Instant::now();
        for id in &ids {
            paint.device().commit_queue(Queue::new().signal(*id))?;
        }
        let last = ids[BATCH - 1];
        let waited = paint.device().wait_signal(last, LOST);
        waited.with_context(|| format!("lost: the last signal of batch {number}"))?;
        times.add(begin.elapsed());
        for id in &ids[..BATCH - 1] {
            paint
                .device()
                .wait_signal(*id, 0)
                .with_context(|| format!("out of order or lost in batch {number}"))?;
        }
    }
    paint.client.release_surface(log)?;
    paint.close()?;
    Ok(times)
}

/// Sleeps repeatedly until `over`.
fn sleep(over: &AtomicBool) -> Times {
    const MOMENT: Duration = Duration::from_millis(5);
    let mut times = Times::default();
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        thread::sleep(MOMENT);
        times.machine = times.machine.max(begin.elapsed().saturating_sub(MOMENT));
    }
    times
}

/// Lets the threads work for `time` and runs `meanwhile` repeatedly.
fn run(time: Duration, mut meanwhile: impl FnMut()) -> Result<Times> {
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (1..=WORKERS)
            .map(|seed| scope.spawn(move || work(seed * 31, over)))
            .collect();
        let sleeper = scope.spawn(|| sleep(over));
        let begin = Instant::now();
        while begin.elapsed() < time && !workers.iter().any(|worker| worker.is_finished()) {
            meanwhile();
        }
        over.store(true, Ordering::Relaxed);
        let mut times = sleeper.join().expect("no panic");
        for worker in workers {
            times.merge(worker.join().expect("no panic")?);
        }
        Ok(times)
    })
}

/// A kind of fault: name, register, largest value.
type Kind = (&'static str, usize, u32);

const KINDS: &[Kind] = &[
    ("interrupts dropped", fault::DROP_INTERRUPTS, 3),
    (
        "interrupts up to 20 ms late",
        fault::DELAY_INTERRUPTS,
        20_000,
    ),
    ("interrupts twice", fault::DUPLICATE_INTERRUPTS, 4),
    ("interrupts with no cause", fault::SPURIOUS_INTERRUPTS, 4),
    ("events lost", fault::LOSE_EVENTS, 2),
];

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["seconds", "seed"])?;
        let seconds = options.number("seconds", 4)?;
        let seed = options.number("seed", 1)?;
        let time = Duration::from_secs(seconds.into());
        harness::allow(time * (KINDS.len() as u32 + 3) + Duration::from_secs(120));
        let control = &Control::open()?;
        let violations = control.violations();
        let calm = &Cell::new(Times::default());
        let worst = &Cell::new(Duration::ZERO);
        let mut suite = Suite::new();
        suite.test("without faults", move || {
            let reads = control.counter(counter::MMIO_READS);
            let interrupts = control.counter(counter::INTERRUPTS);
            let times = run(time, || thread::sleep(Duration::from_millis(20)))?;
            println!(
                "# {} waits, mean {} us, longest {} us; {} interrupts, {} register reads",
                times.waits,
                times.mean().as_micros(),
                times.longest.as_micros(),
                control.counter(counter::INTERRUPTS) - interrupts,
                control.counter(counter::MMIO_READS) - reads,
            );
            calm.set(times);
            Ok(())
        });
        let extra = move |kinds: &[Kind]| -> Result<Duration> {
            let mut random = Random::new(seed);
            let mut armed = 0;
            let events = control.counter(counter::EVENTS);
            let interrupts = control.counter(counter::INTERRUPTS);
            let times = run(time, || {
                let (_, register, most) = kinds[random.below(kinds.len() as u32) as usize];
                control.write(register, 1 + random.below(most));
                armed += 1;
                thread::sleep(Duration::from_millis(5 + u64::from(random.below(60))));
                if random.below(3) == 0 {
                    control.write(fault::CLEAR_ALL, 1);
                }
            });
            control.write(fault::CLEAR_ALL, 1);
            let times = times?;
            let extra = times
                .longest
                .saturating_sub(calm.get().mean())
                .saturating_sub(times.machine);
            worst.set(worst.get().max(extra));
            println!(
                "# armed {armed} times: {} waits, mean {} us, longest {} ms, the machine {} ms, extra {} ms; {} events, {} interrupts",
                times.waits,
                times.mean().as_micros(),
                times.longest.as_millis(),
                times.machine.as_millis(),
                extra.as_millis(),
                control.counter(counter::EVENTS) - events,
                control.counter(counter::INTERRUPTS) - interrupts,
            );
            Ok(extra)
        };
        let faults = move |kinds: &[Kind]| bounded("more of a wait", BOUND, || extra(kinds));
        for kind in KINDS {
            suite.test(kind.0, move || faults(std::slice::from_ref(kind)));
        }
        suite.test("all of it in turns", move || faults(KINDS));
        suite.test("without faults again", move || {
            println!("# largest extra delay: {} ms", worst.get().as_millis());
            let mut paint = Paint::new()?;
            paint.prove(0xff5a_5a5a)?;
            paint.device().stall()?;
            paint.close()
        });
        suite.test("the GPU has nothing to complain of", move || {
            same("violations", control.violations(), violations)
        });
        suite.run()
    })
}
