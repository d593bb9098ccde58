// SPDX-License-Identifier: GPL-2.0-only
//! Several cores. Each request runs on the core that it names. Cores wait for each other only through signals. Cores
//! pass memory to each other, and each core can be unbound and bound while clients draw.

use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::CELL_HEIGHT;
use galcore_selftests::fixture::CELL_WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg;
use gpu_control::fault;

/// The status of a request to a core that is not bound.
const NOT_THERE: i32 = -22;

/// Width and height of a surface that the cores pass on.
const SIDE: u32 = 64;

/// The rectangle of a whole surface.
fn all(surface: &Surface) -> Rect {
    Rect::new(0, 0, surface.width, surface.height)
}

/// The 3D core and the 2D core, in the order of CHIP_INFO.
const CORE_3D: usize = 0;
const CORE_2D: usize = 1;

/// A client of each core, in one process.
struct Both {
    paints: [Paint; 2],
}

impl Both {
    fn start() -> Result<Self> {
        let start =
            |core| -> Result<Paint> { Paint::of(Client::with_device(Device::open_core(core)?)?) };
        Ok(Self {
            paints: [start(CORE_3D)?, start(CORE_2D)?],
        })
    }

    fn close(self) -> Result<()> {
        let [three, two] = self.paints;
        three.close()?;
        two.close()
    }

    /// Fills `surface` on `core` with `colour`, followed by the queue.
    fn fill(
        &mut self,
        core: usize,
        surface: &Surface,
        colour: u32,
        queue: &mut Queue,
    ) -> Result<()> {
        let paint = &mut self.paints[core];
        let engine = paint.engine();
        let mut stream = Stream::new();
        engine.fill(&mut stream, surface, all(surface), colour);
        stream.flush(engine.pipe());
        paint.commit(&stream, queue)
    }

    /// Copies `from` to `to` on `core`, followed by the queue.
    fn copy(&mut self, core: usize, from: &Surface, to: &Surface, queue: &mut Queue) -> Result<()> {
        let paint = &mut self.paints[core];
        let engine = paint.engine();
        let mut stream = Stream::new();
        engine.copy_all(&mut stream, from, (0, 0), to, &[all(to)], all(to));
        stream.flush(engine.pipe());
        paint.commit(&stream, queue)
    }

    /// Fills `surface` on `first` and copies it to `target` on the other core, which waits for the signal of the first.
    fn hand_over(
        &mut self,
        first: usize,
        surface: &Surface,
        target: &Surface,
        colour: u32,
        signal: i32,
    ) -> Result<()> {
        self.fill(first, surface, colour, Queue::new().signal(signal))?;
        // Waits with the file of the other core: signals belong to the process.
        self.paints[1 - first]
            .device()
            .wait_signal(signal, 10_000)?;
        self.copy(1 - first, surface, target, Queue::new().signal(signal))?;
        self.paints[first].device().wait_signal(signal, 10_000)?;
        expect_pixels(target, |_, _| colour)
    }
}

/// One process: `commits` times it passes a surface between the cores in a random direction. If there is a core for
/// vector graphics, this core draws at the same time. No signal may be set twice.
fn child(seed: u32, commits: u32) -> Result<()> {
    let mut both = Both::start()?;
    let mut drawer = match vg::place()? {
        Some(_) => Some(Drawer::start()?),
        None => None,
    };
    let mut random = Random::new(seed);
    let device = Device::open_core(CORE_3D)?;
    let signal = device.create_signal(false)?;
    // Small surfaces, so that passing them on dominates the time.
    let [surface, target] = [CORE_3D, CORE_2D].map(|core| {
        let client = &both.paints[core].client;
        client.create_surface(4 * CELL_WIDTH, 2 * CELL_HEIGHT)
    });
    let (surface, target) = (surface?, target?);
    for number in 0..commits {
        let first = random.below(2) as usize;
        let colour = seed << 24 | number;
        let vector = drawer.as_mut().filter(|_| random.below(2) == 0);
        let vector = match vector {
            Some(drawer) => {
                drawer.send(colour)?;
                Some(drawer)
            }
            None => None,
        };
        both.hand_over(first, &surface, &target, colour, signal)
            .with_context(|| format!("commit {number}, first core {first}"))?;
        if let Some(drawer) = vector {
            // Waits with the file of another core.
            device
                .wait_signal(drawer.signal, 10_000)
                .with_context(|| format!("commit {number} of the core for vector graphics"))?;
            drawer.check(colour)?;
            once(&device, drawer.signal)?;
        }
        once(&device, signal)?;
    }
    if let Some(drawer) = drawer {
        drawer.client.close()?;
    }
    both.paints[CORE_3D].client.release_surface(surface)?;
    both.paints[CORE_2D].client.release_surface(target)?;
    both.close()
}

/// Checks that a signal is not set again after a wait.
fn once(device: &Device, signal: i32) -> Result<()> {
    let again = device.wait_signal(signal, 0);
    ensure!(again.is_err(), "signal {signal} was set twice");
    Ok(())
}

/// A client of the core for vector graphics whose jobs increment a word.
struct Drawer {
    client: vg::Client,
    signal: i32,
    jobs: u32,
}

impl Drawer {
    fn start() -> Result<Self> {
        let client = vg::Client::start()?;
        client.counter().write(0);
        Ok(Self {
            signal: client.signals[1],
            client,
            jobs: 0,
        })
    }

    /// Fills the target and sets the signal.
    fn send(&mut self, colour: u32) -> Result<()> {
        let client = &mut self.client;
        let whole = client.drawing((0, 0), (vg::SIDE, vg::SIDE), colour);
        let entries = [
            (client.put_static(0, &vg::state(0xa34, 0)), 0),
            (client.put_dynamic(0x400, &whole, 1), 1),
        ];
        let records = [
            vg::increment(client.counter().address()),
            vg::signal(self.signal),
        ];
        let tasks = vg::Tasks::default().with(vg::PIXEL, vg::cluster(&records));
        self.jobs += 1;
        same("status", client.send(&entries, &tasks)?, vg::OK)
    }

    /// Checks the result of the jobs.
    fn check(&self, colour: u32) -> Result<()> {
        self.client.expect(|_, _| colour)?;
        same_word("jobs", self.client.counter().read(), self.jobs)
    }
}

/// `rounds` times passes a surface from one core to the other, and frees it while the other may still draw.
fn hands(both: &mut Both, seed: u32, rounds: u32) -> Result<()> {
    let signal = both.paints[0].device().create_signal(false)?;
    // Four pages each.
    let target = both.paints[CORE_2D].client.create_surface(SIDE, SIDE)?;
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let first = random.below(2) as usize;
        let owner = &both.paints[random.below(2) as usize].client;
        let pool = match random.below(3) {
            0 => Pool::DEFAULT,
            _ => Pool::VIRTUAL,
        };
        let surface = owner.create_surface_in(SIDE, SIDE, pool)?;
        let colour = 0x8000_0000 | round;
        both.hand_over(first, &surface, &target, colour, signal)
            .with_context(|| format!("round {round}"))?;
        // Either core's client frees it, while the other core may still draw with another surface.
        let freer = random.below(2) as usize;
        let other = both.paints[1 - freer].surface.clone();
        both.fill(1 - freer, &other, round, &mut Queue::new())?;
        both.paints[freer].client.release_surface(surface)?;
    }
    for paint in &both.paints {
        paint.client.finish()?;
    }
    both.paints[CORE_2D].client.release_surface(target)?;
    Ok(())
}

fn spawn(seed: u32, commits: u32) -> Result<Child> {
    Ok(system::again(&[
        "--child",
        &seed.to_string(),
        "--commits",
        &commits.to_string(),
    ])?
    .stdout(Stdio::piped())
    .spawn()?)
}

fn finish(number: u32, child: Child) -> Result<()> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "client {number}: {} {text}",
        output.status
    );
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let options =
            Options::parse(&["rounds", "binds", "processes", "commits", "child", "hands"])?;
        let commits = options.number("commits", 50)?;
        let rounds = options.number("rounds", 25)?;
        let binds = options.number("binds", 6)?;
        let processes = options.number("processes", 4)?;
        // Also for children, which wait for each other.
        let seconds = rounds / 4 + commits / 2 + 10 * binds;
        harness::allow(Duration::from_secs(900 + u64::from(seconds)));
        if let Some(seed) = options.get("child") {
            child(seed.parse()?, commits)?;
            return Ok(true);
        }
        if let Some(seed) = options.get("hands") {
            let mut both = Both::start()?;
            hands(&mut both, seed.parse()?, rounds)?;
            both.close()?;
            return Ok(true);
        }
        let module = &Module::from_words(&options.rest)?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let info = Device::open()?.chip_info()?;
        if info.count < 2 {
            return skip("this board has one core");
        }
        let mut suite = Suite::new();
        suite.test("CHIP_INFO names every core, 3D first", || {
            ensure!(matches!(info.count, 2 | 3), "{} cores", info.count);
            same_word("first", info.types[0], 1)?;
            same_word("second", info.types[1], 2)?;
            if info.count == 3 {
                same_word("third", info.types[2], vg::VG)?;
            }
            same("bound", system::bound()?.len(), info.count as usize)
        });
        suite.test(
            "each type means its core, and what no core has the first",
            || {
                let identity = |hardware_type| -> Result<uapi::QueryChipIdentity> {
                    let mut device = Device::open()?;
                    device.set_hardware_type(hardware_type);
                    Ok(device.identity()?)
                };
                let three = identity(1)?;
                let two = identity(2)?;
                ensure!(has_3d(&three), "no 3D in {:#x}", three.chip_features);
                ensure!(
                    has_2d(&two) && !has_3d(&two),
                    "not 2D alone: {:#x}",
                    two.chip_features
                );
                let others = [0, 3, 5, 6, 7].into_iter();
                for hardware_type in others.chain((info.count == 2).then_some(vg::VG)) {
                    same_word(
                        &format!("type {hardware_type}"),
                        identity(hardware_type)?.chip_model,
                        three.chip_model,
                    )?;
                }
                Ok(())
            },
        );
        suite.test("each core draws what is committed to it", || {
            let mut both = Both::start()?;
            for core in [CORE_3D, CORE_2D] {
                let controls = [Control::open_core(0)?, Control::open_core(1)?];
                let before = controls.each_ref().map(|control| control.counters());
                both.paints[core].prove(0xff00_1100 + core as u32)?;
                let after = controls.each_ref().map(|control| control.counters());
                ensure!(
                    after[core].draws() > before[core].draws(),
                    "core {core} drew nothing"
                );
                same(
                    "draws of the other",
                    after[1 - core].draws(),
                    before[1 - core].draws(),
                )?;
                same(
                    "events of the other",
                    after[1 - core].events,
                    before[1 - core].events,
                )?;
            }
            both.close()
        });
        suite.test("a core that stands still holds up nobody else", || {
            let mut both = Both::start()?;
            for held in [CORE_2D, CORE_3D] {
                let other = 1 - held;
                let control = Control::open_core(held)?;
                let hold = control.arm(fault::HOLD, 1);
                let surface = both.paints[held].surface.clone();
                let signal = both.paints[held].device().create_signal(false)?;
                both.fill(held, &surface, 0x1234_5678, Queue::new().signal(signal))?;
                for colour in 0..5 {
                    both.paints[other].prove(0xff77_0000 + colour)?;
                }
                // STALL waits only for its own core.
                both.paints[other].device().stall()?;
                ensure!(
                    both.paints[other]
                        .device()
                        .wait_signal(signal, 100)
                        .is_err(),
                    "a core that stands still has set its signal"
                );
                drop(hold);
                both.paints[other].device().wait_signal(signal, 10_000)?;
                expect_pixels(&surface, |_, _| 0x1234_5678)?;
                both.paints[held].device().stall()?;
            }
            both.close()
        });
        suite.test(
            "both cores make one picture, and wait for each other by signals",
            || {
                let mut both = Both::start()?;
                let signal = both.paints[0].device().create_signal(false)?;
                let [from, to] = [CORE_3D, CORE_2D].map(|core| both.paints[core].surface.clone());
                for round in 0..8 {
                    let first = (round % 2) as usize;
                    both.hand_over(first, &from, &to, 0xff00_4400 + round, signal)?;
                }
                both.close()
            },
        );
        suite.test("the 2D core does not look at its context", || {
            let mut both = Both::start()?;
            let paint = &mut both.paints[CORE_2D];
            let stream = paint.fill_all(0x00ab_cdef);
            let memory = paint.device().allocate_contiguous(0x8000)?;
            let record = galcore_client::client::place(&memory, 0, paint.engine().pipe(), &stream);
            paint.device().commit(&record, 0x7777, &mut Queue::new())?;
            paint.client.finish()?;
            paint.expect(|_, _| 0x00ab_cdef)?;
            paint.device().free_contiguous(&memory)?;
            both.close()
        });
        suite.test(
            "memory of two processes changes hands between the cores, and is never used too long",
            || {
                let mut both = Both::start()?;
                // The driver may still be releasing contiguous memory of earlier programs.
                let left = || -> Result<_> {
                    let [pool, _, scattered] = ProcGc::used_now()?;
                    Ok((pool, scattered, ProcGc::mmu_used_now()?))
                };
                let before = left()?;
                let (seed, count) = ("18", rounds.to_string());
                let other = system::again(&["--hands", seed, "--rounds", &count])?
                    .stdout(Stdio::piped())
                    .spawn()?;
                hands(&mut both, 17, rounds)?;
                finish(2, other)?;
                // The driver releases freed memory after the jobs of both cores.
                settles("memory and entries in use", before, left)?;
                both.close()
            },
        );
        suite.test("processes with both cores, at random", || {
            let before = ProcGc::nothing_left()?;
            let children: Vec<_> = (1..=processes)
                .map(|seed| spawn(seed, commits))
                .collect::<Result<_>>()?;
            // Further processes, which are killed while they work.
            let (mut children, mut kills) = (children, 0);
            while children
                .last_mut()
                .map_or(Ok(None), Child::try_wait)?
                .is_none()
            {
                let mut victim = spawn(99 + kills, u32::MAX)?;
                std::thread::sleep(Duration::from_millis(300));
                ensure!(victim.try_wait()?.is_none(), "the victim ended by itself");
                victim.kill()?;
                victim.wait()?;
                kills += 1;
            }
            println!("# {kills} kills");
            for (number, child) in children.into_iter().enumerate() {
                finish(number as u32, child)?;
            }
            same("memory and entries in use", ProcGc::nothing_left()?, before)
        });
        suite.test("a core goes and comes back while a client draws", || {
            let names = system::bound()?;
            let mut both = Both::start()?;
            for (core, name) in names.iter().take(2).enumerate() {
                let other = 1 - core;
                for round in 0..binds {
                    let surface = both.paints[core].surface.clone();
                    // Starts a job, so that the core is busy.
                    both.fill(core, &surface, round, &mut Queue::new())?;
                    system::to_driver("unbind", name)?;
                    let refused = both.fill(core, &surface, round, &mut Queue::new());
                    let status = refused
                        .err()
                        .and_then(|error| error.downcast_ref::<galcore_client::Error>()?.status());
                    same(
                        "status of a core that is gone",
                        status.map(|it| it.0),
                        Some(NOT_THERE),
                    )?;
                    both.paints[other].prove(0xff55_0000 + round)?;
                    let cores = both.paints[other].device().chip_info()?.count;
                    same("cores that are left", cores, info.count - 1)?;
                    system::to_driver("bind", name)?;
                    both.paints[core].prove(0xff66_0000 + round)?;
                    both.paints[other].prove(0xff99_0000 + round)?;
                }
            }
            same("bound", system::bound()?, names)?;
            both.close()
        });
        suite.test("cores go and come back while processes draw", || {
            let names = system::bound()?;
            for name in &names {
                for round in 0..binds {
                    // Only this client fails when its core is unbound.
                    let mut client = spawn(40 + round, u32::MAX)?;
                    std::thread::sleep(Duration::from_millis(60));
                    system::to_driver("unbind", name)?;
                    client.kill()?;
                    client.wait()?;
                    system::to_driver("bind", name)?;
                }
            }
            let mut both = Both::start()?;
            both.paints[CORE_3D].prove(1)?;
            both.paints[CORE_2D].prove(2)?;
            both.close()
        });
        suite.test(
            "without cores nobody can open the device, and with one again",
            || {
                let names = system::bound()?;
                for name in &names {
                    system::to_driver("unbind", name)?;
                }
                let opened = Device::open();
                ensure!(opened.is_err(), "the device opens without a core");
                for name in &names {
                    system::to_driver("bind", name)?;
                }
                let mut both = Both::start()?;
                both.paints[CORE_3D].prove(3)?;
                both.paints[CORE_2D].prove(4)?;
                both.close()
            },
        );
        suite.test("the module goes, and comes back", || {
            let loaded = system::bound()?;
            Module::unload()?;
            module.load_or_fail()?;
            same("bound", system::bound()?, loaded)?;
            Both::start()?.close()
        });
        suite.run()
    })
}
