// SPDX-License-Identifier: GPL-2.0-only
//! Processes that draw continuously and detect jobs that run twice, never, or out of order.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_client::Surface;

use crate::fixture::cell;
use crate::fixture::cell_of;
use crate::fixture::Paint;
use crate::fixture::Random;
use crate::fixture::CELLS;
use crate::fixture::HEIGHT;
use crate::fixture::WIDTH;
use crate::harness::same;
use crate::vg;

/// Milliseconds; longer than any job takes.
const LONG: u32 = 20_000;

/// The largest number of commits of a process in flight.
const AHEAD: u32 = 5;

/// Width and height of a cell of the vector graphics core's target, in pixels.
const VG_CELL: u32 = 8;

/// Number of cells of that target.
pub const VG_CELLS: u32 = (vg::SIDE / VG_CELL) * (vg::SIDE / VG_CELL);

/// The bits that a worker flips.
const FLIPPED: u32 = 0x00c3_5a1e;

/// Runs threads that each draw on their own surface while the machine sleeps `rounds` times. All threads have drawn
/// before the first sleep.
pub fn draw_and_sleep(
    threads: usize,
    rounds: u32,
    mut sleep: impl FnMut() -> Result<()>,
) -> Result<()> {
    let (is_over, have_drawn) = (&AtomicBool::new(false), &Barrier::new(threads + 1));
    thread::scope(|scope| {
        let draw = |number: usize| -> Result<()> {
            let mut random = Random::new(number as u32 + 1);
            let first = Paint::new().and_then(|mut paint| {
                paint.prove(random.colour() | 0xff00_0000)?;
                Ok(paint)
            });
            have_drawn.wait();
            let mut paint = first?;
            while !is_over.load(Relaxed) {
                paint.prove(random.colour() | 0xff00_0000)?;
            }
            paint.close()
        };
        let workers: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || draw(number)))
            .collect();
        have_drawn.wait();
        let slept = (0..rounds).try_for_each(|_| {
            thread::sleep(Duration::from_millis(150));
            sleep()
        });
        is_over.store(true, Relaxed);
        for worker in workers {
            worker.join().expect("no panic")?;
        }
        slept
    })
}

/// A client that draws cell by cell. If the engine can, a job flips its cell, so that a job that runs twice or never
/// shows. With other engines, only the order shows.
pub struct Worker {
    /// The client.
    pub paint: Paint,
    pattern: Surface,
    cells: Vec<u32>,
    random: Random,
    seed: u32,
    /// Jobs sent so far.
    pub jobs: u32,
}

impl Worker {
    /// A worker of `core` whose cells follow from `seed`.
    pub fn new(core: usize, seed: u32) -> Result<Self> {
        let paint = Paint::of(Client::with_device(Device::open_core(core)?)?)?;
        let pattern = paint.client.create_surface(WIDTH, HEIGHT)?;
        pattern.set_all(FLIPPED);
        Ok(Self {
            paint,
            pattern,
            cells: vec![0; CELLS as usize],
            random: Random::new(seed),
            seed,
            jobs: 0,
        })
    }

    /// Commits the next job, which sets `signal`.
    pub fn send(&mut self, signal: i32) -> Result<()> {
        let place = self.random.below(CELLS);
        let engine = self.paint.engine();
        let mut stream = Stream::new();
        match engine {
            Engine::TwoD => {
                engine.flip(&mut stream, &self.pattern, &self.paint.surface, cell(place));
                self.cells[place as usize] ^= FLIPPED;
            }
            Engine::Resolve { .. } => {
                let colour = self.seed << 16 | (self.jobs & 0xffff);
                engine.fill(&mut stream, &self.paint.surface, cell(place), colour);
                self.cells[place as usize] = colour;
            }
        }
        stream.flush(engine.pipe());
        let mut queue = Queue::new();
        queue.signal(signal);
        self.paint.commit(&stream, &mut queue)?;
        self.jobs += 1;
        Ok(())
    }

    /// Waits for all jobs and checks the pixels; returns how many resets other clients caused.
    pub fn finish(self) -> Result<u32> {
        let paint = self.paint;
        paint.client.finish()?;
        paint.expect(|x, y| self.cells[cell_of(x, y) as usize])?;
        let resets = unharmed(paint.device())?;
        paint.client.release_surface(self.pattern)?;
        paint.close()?;
        Ok(resets)
    }
}

/// Commits to `core` while `goes_on`, which gets the number of the next commit and may block, returns true. Then checks
/// the result. Returns the number of commits, and the number of resets that other clients caused.
pub fn work(
    core: usize,
    seed: u32,
    mut goes_on: impl FnMut(u32) -> Result<bool>,
) -> Result<(u32, u32)> {
    if vg::place()? == Some(core) {
        return work_vg(seed, goes_on);
    }
    let mut worker = Worker::new(core, seed)?;
    let signals = (0..AHEAD)
        .map(|_| worker.paint.device().create_signal(false))
        .collect::<galcore_client::device::Result<Vec<_>>>()?;
    while goes_on(worker.jobs)? {
        let signal = signals[(worker.jobs % AHEAD) as usize];
        if worker.jobs >= AHEAD {
            worker
                .paint
                .device()
                .wait_signal(signal, LONG)
                .with_context(|| format!("job {}", worker.jobs - AHEAD))?;
        }
        worker.send(signal)?;
    }
    let jobs = worker.jobs;
    Ok((jobs, worker.finish()?))
}

/// Fails if this process caused a reset or lost a job; returns the number of resets that other clients caused.
fn unharmed(device: &Device) -> Result<u32> {
    let (guilty, innocent, dropped) = device.resets()?;
    same("guilty", guilty, 0)?;
    same("dropped", dropped, 0)?;
    Ok(innocent)
}

/// The buffers of a job of the vector graphics core that fills a cell of the target.
pub fn vg_job(client: &vg::Client, slot: u32, place: u32, colour: u32) -> [(u64, u32); 2] {
    let cells = vg::SIDE / VG_CELL;
    let at = (place % cells * VG_CELL, place / cells * VG_CELL);
    let words = client.drawing(at, (VG_CELL, VG_CELL), colour);
    [
        (client.put_static(0, &vg::state(0xa34, 0)), 0),
        (client.put_dynamic(0x400 + 0x200 * slot, &words, 1), 1),
    ]
}

/// [`work`] for the vector graphics core. Each job increments a word, so that a job that ends twice or never shows.
fn work_vg(seed: u32, mut goes_on: impl FnMut(u32) -> Result<bool>) -> Result<(u32, u32)> {
    let mut client = vg::Client::start()?;
    client.counter().write(0);
    client.target.memory.fill(0);
    let signals = (0..AHEAD)
        .map(|_| client.device.create_signal(false))
        .collect::<galcore_client::device::Result<Vec<_>>>()?;
    let mut random = Random::new(seed);
    let mut cells = [0; VG_CELLS as usize];
    let mut number = 0;
    while goes_on(number)? {
        let slot = number % AHEAD;
        let signal = signals[slot as usize];
        if number >= AHEAD {
            client
                .device
                .wait_signal(signal, LONG)
                .with_context(|| format!("job {}", number - AHEAD))?;
        }
        let place = random.below(VG_CELLS);
        let colour = 0xff00_0000 | (seed & 0xff) << 16 | (number & 0xffff);
        let entries = vg_job(&client, slot, place, colour);
        cells[place as usize] = colour;
        let records = [
            vg::increment(client.counter().address()),
            vg::signal(signal),
        ];
        let tasks = vg::Tasks::default().with(vg::PIXEL, vg::cluster(&records));
        same("status", client.send(&entries, &tasks)?, vg::OK)?;
        number += 1;
    }
    // The jobs that the loop has not waited for.
    for last in number.saturating_sub(AHEAD)..number {
        let signal = signals[(last % AHEAD) as usize];
        client.device.wait_signal(signal, LONG)?;
    }
    client.expect(|x, y| {
        let place = y / VG_CELL * (vg::SIDE / VG_CELL) + x / VG_CELL;
        cells[place as usize]
    })?;
    same("jobs that have ended", client.counter().read(), number)?;
    let resets = unharmed(&client.device)?;
    client.close()?;
    Ok((number, resets))
}
