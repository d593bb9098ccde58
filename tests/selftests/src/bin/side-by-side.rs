// SPDX-License-Identifier: GPL-2.0-only
//! etnaviv and galcore in the same boot: some of the board's cores belong to etnaviv and the others to galcore. Both
//! draw, each core draws on buffers of the other driver, and cores move between the drivers.
//!
//! etnaviv of Linux 7.3 cannot be unloaded, and a core cannot be unbound from it once etnaviv has a device node: it
//! dereferences a null pointer. So each boot loads it once and keeps it loaded.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::sys;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::etnaviv;
use galcore_selftests::etnaviv::Buffer;
use galcore_selftests::etnaviv::Etnaviv;
use galcore_selftests::fixture::expect_pixels;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::video::unlock;
use gpu_control::Board;
use gpu_control::PLACES;

/// Directory in which devices are bound and unbound.
const DRIVERS: &str = "/sys/bus/platform/drivers";
/// The driver of etnaviv's cores.
const ETNAVIV_CORES: &str = "etnaviv-gpu";
const GALCORE: &str = "galcore";

/// A generation that can import and export dma-bufs.
const GENERATION: &str = "5.0.11.p8";

const ALL: Rect = Rect::new(0, 0, WIDTH, HEIGHT);
const BYTES: u32 = WIDTH * HEIGHT * 4;
const LIMIT: Duration = Duration::from_secs(20);

/// The models of the cores.
const GC320: u32 = 0x320;

/// The cores' places on the board.
const CORE_3D: usize = 0;
const CORE_2D: usize = 1;
const CORE_VG: usize = 2;

/// The device name of the core at that place.
fn device_name(place: usize) -> String {
    format!("{:x}.gpu", PLACES[place].registers)
}

/// Unbinds or binds a device.
fn write(driver: &str, file: &str, device: &str) -> Result<()> {
    let path = Path::new(DRIVERS).join(driver).join(file);
    fs::write(&path, device).with_context(|| format!("{device} to {}", path.display()))
}

fn bind(driver: &str, device: &str) -> Result<()> {
    write(driver, "bind", device)
}

fn unbind(driver: &str, device: &str) -> Result<()> {
    write(driver, "unbind", device)
}

/// The model of the board's 3D core.
fn model_3d() -> Result<u32> {
    match Control::open_core(CORE_3D)?.board() {
        Some(Board::Gc2000) => Ok(0x2000),
        Some(Board::Gc3000) => Ok(0x3000),
        other => Err(anyhow!("a board with core {other:?} first")),
    }
}

/// Loads galcore. `parameters` select its cores.
fn load_galcore(parameters: &[&str]) -> Result<()> {
    Module::from_words(&[])?.with(parameters).load_or_fail()
}

/// Loads both drivers, galcore first. galcore gets the kind of cores in `cores`, and a node of etnaviv's interface.
fn load(cores: &str) -> Result<()> {
    etnaviv::load_galcore(&[cores])?;
    etnaviv::load(Path::new(etnaviv::FOLDER))?;
    wait_for_etnaviv()
}

/// Waits until etnaviv has all of its cores.
fn wait_for_etnaviv() -> Result<()> {
    etnaviv::wait_for_node_of(etnaviv::ITS_OWN)?;
    etnaviv::stay_awake()
}

/// Unloads galcore as soon as all client resources are released.
fn unload_galcore() -> Result<()> {
    harness::eventually(
        "galcore is unloaded",
        LIMIT,
        || Ok(Module::unload().is_ok()),
    )
}

fn fill(engine: Engine, target: &Surface, colour: u32) -> Stream {
    let mut stream = Stream::new();
    engine.fill(&mut stream, target, ALL, colour);
    stream.flush(engine.pipe());
    stream
}

fn copy(engine: Engine, from: &Surface, to: &Surface) -> Stream {
    let mut stream = Stream::new();
    engine.copy_all(&mut stream, from, (0, 0), to, &[ALL], ALL);
    stream.flush(engine.pipe());
    stream
}

/// galcore's side: a client of its only core.
struct Ours {
    client: Client,
}

impl Ours {
    fn start() -> Result<Self> {
        let abi = Abi::named(GENERATION).context(GENERATION)?;
        let client = Client::with_device(Device::open_as(abi, true)?)?;
        Ok(Self { client })
    }

    fn run(&mut self, stream: &Stream) -> Result<()> {
        let pipe = self.client.engine().pipe();
        Ok(self.client.run(pipe, stream)?)
    }

    fn fill(&mut self, target: &Surface, colour: u32) -> Result<()> {
        let stream = fill(self.client.engine(), target, colour);
        self.run(&stream)
    }

    fn copy(&mut self, from: &Surface, to: &Surface) -> Result<()> {
        let stream = copy(self.client.engine(), from, to);
        self.run(&stream)
    }

    /// Draws on a surface of its own, copies it to another, and checks each pixel.
    fn prove(&mut self, colour: u32) -> Result<()> {
        let from = self.client.create_surface(WIDTH, HEIGHT)?;
        let to = self.client.create_surface(WIDTH, HEIGHT)?;
        self.fill(&from, colour)?;
        self.copy(&from, &to)?;
        expect_pixels(&to, |_, _| colour)?;
        self.client.release_surface(from)?;
        self.client.release_surface(to)?;
        Ok(self.client.finish()?)
    }

    /// Imports a buffer of etnaviv as a surface.
    fn import(&self, buffer: &Buffer<'_>) -> Result<Surface> {
        let device = self.client.device();
        let descriptor = buffer.export()?;
        let (status, handle) = device.wrap_dma_buf(descriptor.as_raw_fd())?;
        same("WRAP", status, Status::OK)?;
        let node = galcore_client::device::Node {
            handle,
            pool: Pool::VIRTUAL,
            bytes: BYTES,
            surface_type: 6,
        };
        let location = device.lock(node)?;
        let memory = device.memory(node, location, self.client.pool())?;
        Ok(Surface {
            node,
            location,
            memory,
            width: WIDTH,
            height: HEIGHT,
            stride: WIDTH * 4,
        })
    }

    fn forget(&self, surface: Surface) -> Result<()> {
        unlock(self.client.device(), surface.node)?;
        self.client.device().free(surface.node)?;
        Ok(self.client.finish()?)
    }
}

/// etnaviv's side, or galcore's node with its interface: a file, and one of its cores.
struct Theirs {
    etnaviv: Etnaviv,
    core: u32,
    engine: Engine,
}

impl Theirs {
    /// The core of that model.
    fn start(model: u32) -> Result<Self> {
        Self::by(etnaviv::ITS_OWN, model)
    }

    /// The same for one of the devices.
    fn by(device: &str, model: u32) -> Result<Self> {
        let node = etnaviv::node_of(device).with_context(|| format!("no node of {device}"))?;
        let etnaviv = Etnaviv::open_node(&node)?;
        let cores = etnaviv.cores()?;
        let core = cores.iter().find(|(_, known)| *known == model);
        let (core, _) = *core.with_context(|| format!("no {model:#x} in {cores:#x?}"))?;
        let engine = etnaviv.engine(core)?;
        Ok(Self {
            etnaviv,
            core,
            engine,
        })
    }

    fn create(&self) -> Result<Buffer<'_>> {
        self.etnaviv.create(BYTES)
    }

    fn fill(&self, target: &Buffer<'_>, colour: u32) -> Result<()> {
        let fence = self.begin_fill(target, colour)?;
        self.etnaviv.wait(self.core, fence)
    }

    /// Does not wait for completion. Returns the fence number.
    fn begin_fill(&self, target: &Buffer<'_>, colour: u32) -> Result<u32> {
        let stream = fill(self.engine, &target.at(0, WIDTH, HEIGHT), colour);
        let pipe = self.engine.pipe();
        self.etnaviv.submit(self.core, pipe, &stream, &[target])
    }

    fn copy(&self, from: &Buffer<'_>, to: &Buffer<'_>) -> Result<()> {
        let [source, target] = [from.at(0, WIDTH, HEIGHT), to.at(1, WIDTH, HEIGHT)];
        let stream = copy(self.engine, &source, &target);
        let pipe = self.engine.pipe();
        self.etnaviv.run(self.core, pipe, &stream, &[from, to])
    }

    fn expect(&self, buffer: &Buffer<'_>, colour: u32) -> Result<()> {
        let surface = buffer.at(0, WIDTH, HEIGHT);
        buffer.with_processor(|| expect_pixels(&surface, |_, _| colour))
    }

    /// Like [`Ours::prove`].
    fn prove(&self, colour: u32) -> Result<()> {
        let (from, to) = (self.create()?, self.create()?);
        self.fill(&from, colour)?;
        self.copy(&from, &to)?;
        self.expect(&to, colour)
    }

    /// Draws until `stop` is set, at least `rounds` times.
    fn draw(&self, rounds: u32, stop: &AtomicBool) -> Result<()> {
        let mut round = 0;
        while round < rounds || !stop.load(Relaxed) {
            self.prove(0x4400_0000 | round)
                .with_context(|| format!("etnaviv's round {round}"))?;
            round += 1;
        }
        Ok(())
    }
}

/// Runs `work` while etnaviv draws, at least `rounds` times.
fn beside<T>(theirs: &Theirs, rounds: u32, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| theirs.draw(rounds, &stop));
        let done = work();
        stop.store(true, Relaxed);
        let drawn = drawing.join();
        drawn.map_err(|_| anyhow!("etnaviv's thread has panicked"))??;
        done
    })
}

/// etnaviv draws with its core, and a client of our node draws with ours, which has the model `our_model`. Then each
/// draws on buffers of the other. The clients do not wait for each other's jobs: the drivers synchronize them.
fn nodes(their_model: u32, our_model: u32, rounds: u32) -> Result<()> {
    let theirs = Theirs::start(their_model)?;
    let ours = Theirs::by(etnaviv::OF_GALCORE, our_model)?;
    beside(&theirs, rounds, || {
        (0..rounds).try_for_each(|round| ours.prove(0x8800_0000 | round))
    })?;
    for (maker, other) in [(&theirs, &ours), (&ours, &theirs)] {
        let made = maker.create()?;
        let imported = other.etnaviv.import(&made.export()?, &made.memory)?;
        let (makers, others) = (maker.create()?, other.create()?);
        for round in 0..rounds {
            let [first, second] = [0x1000_0000 | round, 0x2000_0000 | round];
            maker.begin_fill(&made, first)?;
            other.copy(&imported, &others)?;
            other.begin_fill(&imported, second)?;
            other.expect(&others, first)?;
            maker.copy(&made, &makers)?;
            maker.expect(&makers, second)?;
        }
    }
    Ok(())
}

/// Both draw at the same time, each with its own core.
fn both_draw(theirs_is: usize, model: u32, rounds: u32) -> Result<()> {
    let controls = [Control::open_core(CORE_3D)?, Control::open_core(CORE_2D)?];
    let before = controls.each_ref().map(Control::counters);
    let theirs = Theirs::start(model)?;
    let mut ours = Ours::start()?;
    beside(&theirs, rounds, || {
        (0..rounds).try_for_each(|round| ours.prove(0x8800_0000 | round))
    })?;
    let after = controls.each_ref().map(Control::counters);
    for (place, (before, after)) in before.iter().zip(&after).enumerate() {
        let drawn = after.draws() - before.draws();
        ensure!(
            drawn >= 2 * u64::from(rounds),
            "core {place} (etnaviv's is {theirs_is}) has drawn {drawn} times"
        );
    }
    Ok(())
}

/// Our core draws on a buffer of etnaviv, and reads it.
fn their_buffer(model: u32, rounds: u32) -> Result<()> {
    let theirs = Theirs::start(model)?;
    let mut ours = Ours::start()?;
    let (buffer, other) = (theirs.create()?, theirs.create()?);
    let surface = ours.import(&buffer)?;
    let mine = ours.client.create_surface(WIDTH, HEIGHT)?;
    for round in 0..rounds {
        let [first, second] = [0x1000_0000 | round, 0x2000_0000 | round];
        theirs.fill(&buffer, first)?;
        ours.copy(&surface, &mine)?;
        expect_pixels(&mine, |_, _| first).with_context(|| format!("ours, round {round}"))?;
        ours.fill(&surface, second)?;
        theirs.copy(&buffer, &other)?;
        theirs
            .expect(&other, second)
            .with_context(|| format!("etnaviv's, round {round}"))?;
    }
    // The buffer lives while we use it, even after its creator has closed it.
    drop(buffer);
    ours.fill(&surface, 0x3333_0000)?;
    expect_pixels(&surface, |_, _| 0x3333_0000)?;
    ours.forget(surface)?;
    ours.client.release_surface(mine)?;
    Ok(ours.client.finish()?)
}

/// etnaviv's core reads one of our nodes, and draws on it.
fn our_node(model: u32, pool: Pool, rounds: u32) -> Result<()> {
    let theirs = Theirs::start(model)?;
    let mut ours = Ours::start()?;
    let device = ours.client.device();
    let surface = ours.client.create_surface_in(WIDTH, HEIGHT, pool)?;
    same("pool", surface.node.pool, pool)?;
    let (status, number) = device.export(surface.node.handle)?;
    same("EXPORT", status, Status::OK)?;
    let descriptor = sys::take_descriptor(number)?;
    let buffer = theirs.etnaviv.import(&descriptor, &surface.memory)?;
    drop(descriptor);
    let other = theirs.create()?;
    let mine = ours.client.create_surface(WIDTH, HEIGHT)?;
    for round in 0..rounds {
        let [first, second] = [0x5000_0000 | round, 0x6000_0000 | round];
        ours.fill(&surface, first)?;
        theirs.copy(&buffer, &other)?;
        theirs
            .expect(&other, first)
            .with_context(|| format!("etnaviv's, round {round}"))?;
        theirs.fill(&buffer, second)?;
        ours.copy(&surface, &mine)?;
        expect_pixels(&mine, |_, _| second).with_context(|| format!("ours, round {round}"))?;
    }
    // The node lives while etnaviv uses it, and its memory is not reused.
    ours.client.release_surface(surface)?;
    ours.client.finish()?;
    theirs.fill(&buffer, 0x7777_0000)?;
    ours.fill(&mine, 0x0101_0101)?;
    theirs.copy(&buffer, &other)?;
    theirs.expect(&other, 0x7777_0000)?;
    expect_pixels(&mine, |_, _| 0x0101_0101)?;
    drop(buffer);
    ours.client.release_surface(mine)?;
    Ok(ours.client.finish()?)
}

/// Our core is unbound and bound again. etnaviv continues to draw with its own core.
fn ours_goes(place: usize, model: u32, binds: u32) -> Result<()> {
    let theirs = Theirs::start(model)?;
    let name = device_name(place);
    beside(&theirs, 1, || {
        for round in 0..binds {
            let mut ours = Ours::start()?;
            ours.prove(round)?;
            unbind(GALCORE, &name)?;
            ensure!(ours.prove(round).is_err(), "a core that is gone has drawn");
            drop(ours);
            bind(GALCORE, &name)?;
            Ours::start()?.prove(0x99 | round)?;
        }
        Ok(())
    })
}

/// The module cannot be unloaded while etnaviv holds the device that represents our core.
fn module_stays(model: u32) -> Result<()> {
    let theirs = Theirs::start(model)?;
    beside(&theirs, 3, || {
        let refused = Module::unload();
        ensure!(refused.is_err(), "galcore is unloaded beside etnaviv");
        Ours::start()?.prove(1)
    })
}

/// Cores move between the drivers while etnaviv waits for missing ones. In the end each driver has one.
fn to_and_fro(model_3d: u32, binds: u32) -> Result<()> {
    // No parameter announces that other drivers may have cores.
    load_galcore(&[])?;
    etnaviv::load(Path::new(etnaviv::FOLDER))?;
    let names = [CORE_3D, CORE_2D].map(device_name);
    let all = Device::open()?.chip_info()?.count;
    for round in 0..binds {
        for (place, name) in names.iter().enumerate() {
            unbind(GALCORE, name)?;
            bind(ETNAVIV_CORES, name)?;
            same("our cores", Device::open()?.chip_info()?.count, all - 1)?;
            Ours::start()?.prove(round)?;
            ensure!(
                etnaviv::node().is_none(),
                "etnaviv does not wait for core {}",
                1 - place
            );
            unbind(ETNAVIV_CORES, name)?;
            bind(GALCORE, name)?;
            same("our cores", Device::open()?.chip_info()?.count, all)?;
            Ours::start()?.prove(!round)?;
        }
    }
    unload_galcore()?;
    // An unbound core goes to the first driver, unless it is reserved for one of them.
    let kept = Path::new("/sys/bus/platform/devices").join(&names[CORE_3D]);
    fs::write(kept.join("driver_override"), ETNAVIV_CORES).context("driver_override")?;
    load_galcore(&["cores=3d,2d"])?;
    same("our cores", Device::open()?.chip_info()?.count, 1)?;
    for name in [&names[CORE_3D], &device_name(CORE_VG)] {
        if !Path::new(DRIVERS).join(ETNAVIV_CORES).join(name).exists() {
            bind(ETNAVIV_CORES, name)?;
        }
    }
    wait_for_etnaviv()?;
    both_draw(CORE_3D, model_3d, 3)
}

/// etnaviv was loaded first and has all cores: the log must say so, and list them.
fn late() -> Result<()> {
    etnaviv::load(Path::new(etnaviv::FOLDER))?;
    wait_for_etnaviv()?;
    let mut log = KernelLog::from_now()?;
    load_galcore(&[])?;
    ensure!(Device::open().is_err(), "galcore has a core");
    let lines = log.lines()?;
    for place in [CORE_3D, CORE_2D, CORE_VG] {
        let wanted = format!(
            "no core: {} has the driver {ETNAVIV_CORES}",
            device_name(place)
        );
        let told = lines.iter().filter(|line| line.text.contains(&wanted));
        same(&wanted, told.count(), 1)?;
    }
    unload_galcore()
}

/// The parameter that selects the core at that place.
fn kinds(place: usize) -> &'static str {
    match place {
        CORE_3D => "cores=3d",
        _ => "cores=2d",
    }
}

/// Both drivers have cores of their own, and the one at `place` is ours.
fn shared(suite: &mut Suite<'_>, place: usize, model_3d: u32, rounds: u32, binds: u32) {
    let theirs = match place {
        CORE_3D => GC320,
        _ => model_3d,
    };
    let cores = kinds(place);
    suite.test(format!("{cores}: etnaviv has the others"), move || {
        load(cores)?;
        let known: Vec<u32> = Etnaviv::open()?.cores()?.iter().map(|it| it.1).collect();
        same("etnaviv's models", known, vec![theirs])?;
        same("our cores", Device::open()?.chip_info()?.count, 1)
    });
    suite.test(format!("{cores}: both draw"), move || {
        both_draw(1 - place, theirs, rounds)
    });
    exchange(suite, cores, theirs, rounds);
    let ours = match place {
        CORE_3D => model_3d,
        _ => GC320,
    };
    suite.test(format!("{cores}: our node beside etnaviv's"), move || {
        nodes(theirs, ours, rounds)
    });
    suite.test(
        format!("{cores}: our core goes and comes back while etnaviv draws"),
        move || ours_goes(place, theirs, binds),
    );
    suite.test(
        format!("{cores}: the module stays while etnaviv counts on it"),
        move || module_stays(theirs),
    );
}

/// The tests of buffers.
fn exchange(suite: &mut Suite<'_>, cores: &str, theirs: u32, rounds: u32) {
    suite.test(
        format!("{cores}: a buffer of etnaviv's on our core"),
        move || their_buffer(theirs, rounds),
    );
    for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
        suite.test(
            format!("{cores}: a node of ours on etnaviv's core, {pool}"),
            move || our_node(theirs, pool, rounds),
        );
    }
}

/// Only parameters describe our core: galcore can be loaded and unloaded at any time.
fn apart(suite: &mut Suite<'_>, model_3d: u32, rounds: u32, binds: u32) {
    let place = PLACES[CORE_2D];
    let parameters = [
        format!("registerMemBase2D={:#x}", place.registers),
        format!("registerMemSize2D={:#x}", gpu_control::REGISTER_BAR_SIZE),
        // Shared interrupts follow 32 others.
        format!("irqLine2D={}", 32 + place.interrupt),
        "cores=2d".to_string(),
    ];
    let wrong = parameters.clone().map(|word| match word.split_once('=') {
        Some(("irqLine2D", _)) => "irqLine2D=42".to_string(),
        _ => word,
    });
    suite.test("apart: the disabled node's interrupt is named", move || {
        let mut log = KernelLog::from_now()?;
        let loaded = load_galcore(&wrong.each_ref().map(String::as_str));
        ensure!(loaded.is_err(), "with another interrupt");
        let right = format!("irqLine 42 is not the interrupt of the core at {:#x}: the device tree's disabled node has {}", place.registers, 32 + place.interrupt);
        let lines = log.lines()?;
        ensure!(
            lines.iter().any(|line| line.text.contains(&right)),
            "{lines:?}"
        );
        Ok(())
    });
    let load = move || load_galcore(&parameters.each_ref().map(String::as_str));
    let first = load.clone();
    suite.test("apart: etnaviv has the others", move || {
        first()?;
        etnaviv::load(Path::new(etnaviv::FOLDER))?;
        wait_for_etnaviv()?;
        let known: Vec<u32> = Etnaviv::open()?.cores()?.iter().map(|it| it.1).collect();
        same("etnaviv's models", known, vec![model_3d])
    });
    suite.test("apart: both draw", move || {
        both_draw(CORE_3D, model_3d, rounds)
    });
    exchange(suite, "apart", model_3d, rounds);
    suite.test("apart: rmmod and insmod while etnaviv draws", move || {
        let theirs = Theirs::start(model_3d)?;
        beside(&theirs, 1, || {
            for round in 0..binds {
                Ours::start()?.prove(round)?;
                unload_galcore()?;
                load()?;
                Ours::start()?.prove(round)?;
            }
            Ok(())
        })
    });
    suite.test("apart: ours alone is unloaded", unload_galcore);
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["rounds", "binds"])?;
        let rounds = options.number("rounds", 10)?;
        let binds = options.number("binds", 2)?;
        if !etnaviv::is_there() {
            return skip("this kernel has no etnaviv, or not as modules");
        }
        let model_3d = model_3d()?;
        let mut suite = Suite::new();
        match options.rest.first().map(String::as_str) {
            Some("2d") => shared(&mut suite, CORE_2D, model_3d, rounds, binds),
            Some("3d") => shared(&mut suite, CORE_3D, model_3d, rounds, binds),
            Some("apart") => apart(&mut suite, model_3d, rounds, binds),
            Some("to-and-fro") => {
                suite.test("cores go to and fro", || to_and_fro(model_3d, binds));
            }
            Some("late") => {
                suite.test("etnaviv was first, and galcore says so", late);
            }
            other => bail!("what is {other:?}?"),
        }
        suite.run()
    })
}
