// SPDX-License-Identifier: GPL-2.0-only
//! The profiler: counters must match the drawing of this test, in every generation, for two concurrent processes, and
//! across a power-off of the core. Also covers other diagnostic interfaces: registers, dumps, and shared information.
//!
//! Needs the module to be loaded. Argument: `--off` if there is no profiler (`gpuProfiler=0`).

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::draw::Engine;
use galcore_client::profile;
use galcore_client::profile::Counters;
use galcore_client::profile::UNWRITTEN;
use galcore_client::stream::Pipe;
use galcore_client::sys::become_user;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use gpu_control::counter;
use gpu_control::POWER;

/// Generations with a profiler.
const GENERATIONS: [&str; 11] = [
    "dove",
    "dove_old",
    "v2",
    "v4",
    "4.0.0",
    "4.1.0",
    "4.6.9",
    "5.0.11.p8",
    "6.2.3",
    "6.2.4.p2",
    "6.4.11",
];

/// The generation of the other process.
const OTHERS: &str = "6.2.4.p2";

/// `gcvSTATUS_CHIP_NOT_READY`.
const CHIP_NOT_READY: Status = Status(11);
/// A user other than root.
const SOMEBODY: u32 = 1000;
/// Longest time until a core powers off.
const PATIENCE: Duration = Duration::from_secs(20);
/// Cycles that the model counts per microsecond.
const CYCLES: f64 = 528.0;

/// A client with surfaces in one generation of the interface.
struct Easel {
    client: Client,
    from: Surface,
    to: Surface,
    pipes: u32,
}

/// The amount drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Drawn {
    resolved: u32,
    flat: u32,
    /// Units of 8 bytes that the engines have read.
    read: u32,
}

impl Drawn {
    fn pixels(self) -> u32 {
        self.resolved + self.flat
    }

    fn and(self, other: Self) -> Self {
        Self {
            resolved: self.resolved + other.resolved,
            flat: self.flat + other.flat,
            read: self.read + other.read,
        }
    }
}

const WIDTH: u32 = 256;
const HEIGHT: u32 = 128;

impl Easel {
    fn new(name: &'static str) -> Result<Self> {
        let abi = Abi::named(name).context("a generation")?;
        let client = Client::with_device(Device::open_as(abi, true)?)?;
        let from = client.create_surface(WIDTH, HEIGHT)?;
        let to = client.create_surface(WIDTH, HEIGHT)?;
        Ok(Self {
            from,
            to,
            // Old generations do not report the number of pipes.
            pipes: Paint::new()?.client.identity().pixel_pipes.max(1),
            client,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    /// Returns the number of pixels written. After another process's work the driver also clears scratch memory.
    fn run(&mut self, pipe: Pipe, mut stream: Stream) -> Result<u32> {
        let control = Control::open()?;
        let before = control.counter(counter::PIXELS);
        stream.flush(pipe);
        self.client.run(pipe, &stream)?;
        self.client.finish()?;
        Ok(u32::try_from(control.counter(counter::PIXELS) - before)?)
    }

    /// Fills and copies `cells` cells of 16 x 8 with each engine of the core.
    fn draw(&mut self, cells: u32) -> Result<Drawn> {
        let (mut drawn, identity) = (Drawn::default(), *self.client.identity());
        let rect = Rect::new(0, 0, 16 * cells, 8);
        let area = 16 * cells * 8;
        if has_3d(&identity) {
            let engine = Engine::Resolve { pipes: self.pipes };
            let mut stream = Stream::new();
            engine.fill(&mut stream, &self.from, rect, 0xff00_0000 | cells);
            engine.copy_all(&mut stream, &self.from, (0, 0), &self.to, &[rect], rect);
            let written = self.run(Pipe::Pipe3d, stream)?;
            (drawn.resolved, drawn.read) = (of_draws(written, 2 * area)?, area / 2);
        }
        if has_2d(&identity) {
            let mut stream = Stream::new();
            Engine::TwoD.fill(&mut stream, &self.from, rect, 0xff01_0000 | cells);
            let written = self.run(Pipe::Pipe2d, stream)?;
            drawn.flat = of_draws(written, area)?;
        }
        same("a pixel", self.from.pixel(3, 3) & 0xffff, cells)?;
        Ok(drawn)
    }

    /// All counters of the generation's commands since the last call.
    fn read(&self) -> Result<Vec<Counters>> {
        let mut all = Vec::new();
        for command in profile::commands(self.device().abi()) {
            let (status, counters) = profile::read(self.device(), command)?;
            same(command, status, Status::OK)?;
            all.push(counters);
        }
        Ok(all)
    }

    fn read_2d(&self) -> Result<u32> {
        let (status, [_, pixels]) = profile::read_2d(self.device())?;
        same("PROFILE_REGISTERS_2D", status, Status::OK)?;
        Ok(pixels)
    }

    fn close(self) -> Result<()> {
        self.client.release_surface(self.from)?;
        self.client.release_surface(self.to)?;
        Ok(self.client.finish()?)
    }
}

/// Checks that `written` is `own` pixels plus at most a clear of scratch memory: one page by each of up to two pixel
/// pipes.
fn of_draws(written: u32, own: u32) -> Result<u32> {
    let cleared = written.checked_sub(own).context("too few")?;
    ensure!([0, 1024, 2048].contains(&cleared), "{written} pixels");
    Ok(written)
}

/// The value of the counters with one of these names. At least one must exist, and all must agree.
fn of(all: &[Counters], names: &[&str]) -> Result<u32> {
    let words = all.iter().flat_map(Counters::all);
    let found: Vec<u32> = words
        .filter(|(name, _)| names.contains(name))
        .map(|(_, value)| value)
        .collect();
    let first = *found.first().with_context(|| format!("{names:?}"))?;
    ensure!(
        found.iter().all(|word| *word == first),
        "{names:?}: {found:?}"
    );
    Ok(first)
}

/// Compares the counters with the amount drawn.
fn compare(easel: &Easel, all: &[Counters], drawn: Drawn) -> Result<()> {
    // 6.2.3 reports everything twice: as a whole and in parts.
    let ways = if easel.device().abi().name == "6.2.3" {
        2
    } else {
        1
    };
    let pixels = |what: &str| {
        let names = ["pe", "pe0", "pe1"].map(|pipe| format!("{pipe}_pixel_count_{what}_pipe"));
        profile::sum(all, &names.each_ref().map(String::as_str))
    };
    same(
        "pixels",
        pixels("drawn_by_color"),
        Some(ways * drawn.resolved),
    )?;
    for what in ["drawn_by_depth", "killed_by_color", "killed_by_depth"] {
        same(what, pixels(what), Some(0))?;
    }
    let written = of(
        all,
        &[
            "mc_total_write_req_8B_from_pipeline",
            "mcc_total_write_req_8B_from_colorpipe",
        ],
    )?;
    same("units written", written, drawn.pixels() / 2)?;
    let total = of(
        all,
        &["gpuTotalWrite64BytesPerFrame", "hi_total_write_8B_count"],
    )?;
    same("units written in all", total, drawn.pixels() / 2)?;
    let read = of(
        all,
        &[
            "mc_total_read_req_8B_from_pipeline",
            "mcc_total_read_req_8B_from_colorpipe",
        ],
    )?;
    same("units read", read, drawn.read)?;
    let fetched = of(
        all,
        &[
            "mc_total_read_req_8B_from_IP",
            "mcc_total_read_req_8B_from_others",
        ],
    )?;
    let total = of(
        all,
        &["gpuTotalRead64BytesPerFrame", "hi_total_read_8B_count"],
    )?;
    same("units read in all", total, read + fetched)?;
    for unused in [
        "ps_inst_counter",
        "pa_input_vtx_counter",
        "se_culled_lines_count",
        "ra_total_quad_count",
        "tx_total_texture_requests",
        "hi_axi_cycles_read_request_stalled",
        "fe_draw_count",
    ] {
        let found = profile::sum(all, &[unused]);
        ensure!(matches!(found, None | Some(0)), "{unused}: {found:?}");
    }
    Ok(())
}

/// A generation's counters for a few pictures.
fn generation(name: &'static str, control: &Control) -> Result<()> {
    let mut easel = Easel::new(name)?;
    // A mapping of the pool may have kept alive the counts that another generation began here.
    easel.read()?;
    easel.read_2d()?;
    let first = easel.read()?;
    let known = first.iter().flat_map(Counters::all);
    for (name, value) in known {
        let is_clock = name.starts_with("gpuClock") || name.ends_with("Clock");
        // The driver never writes these. Cycles are always counted.
        let wanted = if is_clock { UNWRITTEN } else { 0 };
        if !name.to_lowercase().contains("cycle") || name.contains("stalled") {
            same(name, value, wanted)?;
        }
    }
    same("2D at first", easel.read_2d()?, 0)?;
    for cells in [1, 5, 16] {
        let before = control.counter(counter::BYTES_READ);
        let drawn = easel.draw(cells)?;
        let fetched = control.counter(counter::BYTES_READ) - before;
        let all = easel.read()?;
        compare(&easel, &all, drawn)?;
        let total = of(
            &all,
            &["gpuTotalRead64BytesPerFrame", "hi_total_read_8B_count"],
        )?;
        same(
            "units read by the model's count",
            u64::from(total),
            fetched / 8,
        )?;
        same("pixels in 2D", easel.read_2d()?, drawn.flat)?;
    }
    compare(&easel, &easel.read()?, Drawn::default())?;
    easel.close()
}

/// The cycles between two readings match the time between them.
fn cycles() -> Result<()> {
    let easel = Easel::new("4.0.0")?;
    let read = || -> Result<(Instant, u32, Instant)> {
        let before = Instant::now();
        let cycles = of(&easel.read()?, &["gpuCyclesCounter"])?;
        Ok((before, cycles, Instant::now()))
    };
    read()?;
    let (first, _, second) = read()?;
    std::thread::sleep(Duration::from_millis(200));
    let (third, cycles, fourth) = read()?;
    let micros = |time: Duration| time.as_micros() as f64;
    let (least, most) = (micros(third - second), micros(fourth - first));
    let found = f64::from(cycles) / CYCLES;
    // The machine's clock and the model's are independent.
    ensure!(
        found > 0.9 * least - 2000.0 && found < 1.1 * most + 2000.0,
        "{found} us, should be {least} to {most}"
    );
    easel.close()
}

/// Runs in another process, on request.
fn be_other(abi: &'static Abi) -> Result<()> {
    let easel = RefCell::new(Easel::new(abi.name)?);
    let number = |words: &[&str], at: usize| -> Result<u64> {
        Ok(words.get(at).context("a word")?.parse()?)
    };
    other::serve(|words| {
        let mut easel = easel.borrow_mut();
        match words[0] {
            "draw" => {
                let drawn = easel.draw(number(words, 1)? as u32)?;
                Ok(format!("{} {} {}", drawn.resolved, drawn.flat, drawn.read))
            }
            "read" => {
                let drawn = number(words, 1)? as u32;
                let wanted = Drawn {
                    resolved: drawn,
                    flat: number(words, 2)? as u32,
                    read: number(words, 3)? as u32,
                };
                compare(&easel, &easel.read()?, wanted)?;
                same("pixels in 2D", easel.read_2d()?, wanted.flat)?;
                Ok("right".to_string())
            }
            "user" => {
                become_user(number(words, 1)? as u32)?;
                Ok("changed".to_string())
            }
            "register" => {
                let given = [("address", number(words, 1)?)];
                let (status, _) = easel.device().ask("READ_REGISTER", &given, "data")?;
                let given = [("address", 0x470), ("data", 0)];
                let (written, _) = easel.device().ask("WRITE_REGISTER", &given, "data")?;
                let (dumped, []) = easel.device().ask_for("DUMP_GPU_STATE", &[], [])?;
                Ok(format!("{} {} {}", status.0, written.0, dumped.0))
            }
            word => bail!("what is {word}?"),
        }
    })
}

/// The amount that another process has drawn.
fn drawn_by(other: &mut Other, cells: u32) -> Result<Drawn> {
    let answer = other.ask(&format!("draw {cells}"))?;
    let words: Vec<u32> = answer
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    match words[..] {
        [resolved, flat, read] => Ok(Drawn {
            resolved,
            flat,
            read,
        }),
        _ => bail!("{answer}"),
    }
}

/// Two processes: each reads what both have drawn since its own last reading.
fn two_processes() -> Result<()> {
    let mut other = Other::start(Abi::named(OTHERS).context("a generation")?)?;
    let reads = |other: &mut Other, drawn: Drawn| -> Result<()> {
        let words = format!("read {} {} {}", drawn.resolved, drawn.flat, drawn.read);
        same("the other's", other.ask(&words)?.as_str(), "right")
    };
    let mut own = Easel::new("4.0.0")?;
    own.read()?;
    own.read_2d()?;
    reads(&mut other, Drawn::default())?;
    let first = own.draw(3)?;
    let both = first.and(drawn_by(&mut other, 7)?);
    compare(&own, &own.read()?, both)?;
    let more = drawn_by(&mut other, 2)?;
    compare(&own, &own.read()?, more)?;
    // The readings of this process must not affect the other one's.
    reads(&mut other, both.and(more))?;
    same("pixels in 2D", own.read_2d()?, both.and(more).flat)?;
    let last = own.draw(11)?;
    reads(&mut other, last)?;
    drop(other);
    compare(&own, &own.read()?, last)?;
    own.close()
}

/// Readings that do not reset the counters.
fn not_cleared() -> Result<()> {
    let mut easel = Easel::new("6.2.4.p2")?;
    let clear = |easel: &Easel, clears: u64| -> Result<()> {
        let given = [("bclear", clears)];
        let answer = profile::ask(easel.device(), "READ_PROFILER_REGISTER_SETTING", &given)?;
        same("status", answer.status, Status::OK)
    };
    easel.read()?;
    clear(&easel, 0)?;
    let one = easel.draw(2)?;
    compare(&easel, &easel.read()?, one)?;
    compare(&easel, &easel.read()?, one)?;
    let two = easel.draw(4)?;
    compare(&easel, &easel.read()?, one.and(two))?;
    clear(&easel, 1)?;
    compare(&easel, &easel.read()?, one.and(two))?;
    compare(&easel, &easel.read()?, Drawn::default())?;
    easel.close()
}

/// A core's counts are saved before it powers off, and reading them does not power it on.
fn over_power(control: &Control) -> Result<()> {
    let mut easel = Easel::new("4.0.0")?;
    easel.read()?;
    easel.read_2d()?;
    let mut all = Drawn::default();
    system::may_sleep()?;
    for cells in [4, 9] {
        all = all.and(easel.draw(cells)?);
        eventually("off", PATIENCE, || Ok(control.read(POWER) == 0))?;
    }
    let before = control.counter(counter::CLOCK_UPS);
    let found = easel.read()?;
    let flat = easel.read_2d()?;
    same("switched on", control.counter(counter::CLOCK_UPS), before)?;
    system::stay_awake()?;
    compare(&easel, &found, all)?;
    same("pixels in 2D", flat, all.flat)?;
    let more = easel.draw(2)?;
    compare(&easel, &easel.read()?, more)?;
    easel.close()
}

/// Reads a register.
fn register(device: &Device, address: u64) -> Result<(Status, u64)> {
    Ok(device.ask("READ_REGISTER", &[("address", address)], "data")?)
}

fn set_register(device: &Device, address: u64, data: u64) -> Result<Status> {
    let given = [("address", address), ("data", data)];
    Ok(device.ask("WRITE_REGISTER", &given, "data")?.0)
}

/// Readings restore the counter selectors. The clocks of counted modules are not gated.
fn selectors() -> Result<()> {
    // Ends the profiling of this process's earlier tests.
    let ends = Easel::new("4.6.9")?;
    profile::ask(ends.device(), "SET_PROFILE_SETTING", &[("enable", 0)])?;
    ends.close()?;
    let mut easel = Easel::new("4.0.0")?;
    let device = || easel.client.device();
    let gated = || -> Result<u64> { Ok(register(device(), 0x100)?.1 & 1) };
    // The process that read counters before may still be exiting.
    eventually("gated", PATIENCE, || Ok(gated()? == 1))?;
    for (address, value) in [(0x470, 0x0203_0100), (0x474, 0x0401_0302), (0x478, 0x0201)] {
        same("WRITE", set_register(device(), address, value)?, Status::OK)?;
    }
    easel.read()?;
    for (address, value) in [(0x470, 0x0203_0100), (0x474, 0x0401_0302), (0x478, 0x0201)] {
        same(
            "selector",
            register(device(), address)?,
            (Status::OK, value),
        )?;
        same("and back", set_register(device(), address, 0)?, Status::OK)?;
    }
    let (_, clock) = register(device(), 0)?;
    same("pixel pipe", clock >> 20 & 0xf, 0)?;
    same("gated", gated()?, 0)?;
    easel.draw(1)?;
    easel.close()?;
    // Profiling lasts until the process exits, but the process can disable it.
    let easel = Easel::new("4.6.9")?;
    let setting = |enable: u64| -> Result<Status> {
        let given = [("enable", enable)];
        Ok(profile::ask(easel.device(), "SET_PROFILE_SETTING", &given)?.status)
    };
    same("on", setting(1)?, Status::OK)?;
    same("gated", register(easel.device(), 0x100)?.1 & 1, 0)?;
    same("off", setting(0)?, Status::OK)?;
    eventually("gated", PATIENCE, || {
        Ok(register(easel.device(), 0x100)?.1 & 1 == 1)
    })?;
    easel.close()
}

/// The setting belongs to the process.
fn settings() -> Result<()> {
    for name in [
        "dove",
        "v4",
        "4.6.9",
        "5.0.11.p8",
        "6.2.3",
        "6.2.4.p2",
        "6.4.11",
    ] {
        let easel = Easel::new(name)?;
        let (device, abi) = (easel.device(), easel.device().abi());
        let get = || -> Result<(u64, Option<String>)> {
            let answer = profile::ask(device, "GET_PROFILE_SETTING", &[])?;
            same("GET", answer.status, Status::OK)?;
            let enable = abi.get(&answer.bytes, "GetProfileSetting", "enable");
            let file = abi
                .field("GetProfileSetting", "fileName")
                .map(|(at, size)| {
                    let bytes = &answer.bytes[abi.union_at + at..][..size];
                    String::from_utf8_lossy(bytes)
                        .trim_end_matches('\0')
                        .to_string()
                });
            Ok((enable, file))
        };
        let has_file = abi.field("GetProfileSetting", "fileName").is_some();
        // Another test of this process may have set another value.
        let answer = profile::ask(device, "SET_PROFILE_SETTING", &[("enable", 1)])?;
        same("SET", answer.status, Status::OK)?;
        let (enable, file) = get()?;
        same("enable", enable, 1)?;
        if has_file {
            // The name from the request.
            let file = file.context("a file")?;
            ensure!(file.chars().count() == 128, "{file:?}");
        }
        let answer = profile::ask(device, "SET_PROFILE_SETTING", &[("enable", 0)])?;
        same("SET", answer.status, Status::OK)?;
        same("enable", get()?.0, 0)?;
        easel.close()?;
    }
    Ok(())
}

/// Registers: which of them can be read and written, and the reply for a core that is off.
fn registers(control: &Control) -> Result<()> {
    let easel = Easel::new("4.0.0")?;
    let device = easel.device();
    let identity = *Paint::new()?.client.identity();
    let acknowledged = control.counter(counter::ACKNOWLEDGES);
    same(
        "features",
        register(device, 0x1c)?,
        (Status::OK, identity.chip_features.into()),
    )?;
    // Interrupts, the start of the front end, past the registers, unaligned, and unused.
    let refused = [
        0x010,
        0x654,
        0x800,
        0x4_0000,
        u64::from(u32::MAX),
        0xffff_fffc,
        1,
        0x21,
        0x22,
        0x23,
        0x0a8,
        0x1f0,
        0x554,
    ];
    for address in refused {
        let (status, _) = register(device, address)?;
        same(
            &format!("READ {address:#x}"),
            status,
            Status::INVALID_ARGUMENT,
        )?;
        let status = set_register(device, address, 0)?;
        same(
            &format!("WRITE {address:#x}"),
            status,
            Status::INVALID_ARGUMENT,
        )?;
    }
    // Clock, interrupts, counters, page tables, bases, the front end, and identity.
    for address in [
        0x000, 0x014, 0x020, 0x03c, 0x040, 0x400, 0x41c, 0x438, 0x658,
    ] {
        let before = register(device, address)?;
        let status = set_register(device, address, 0x1000)?;
        same(
            &format!("WRITE {address:#x}"),
            status,
            Status::INVALID_ARGUMENT,
        )?;
        if address != 0x040 && address != 0x438 {
            same(&format!("{address:#x}"), register(device, address)?, before)?;
        }
    }
    // This would reset counters that others use.
    let status = set_register(device, 0x470, 15 << 16)?;
    same("selector 15", status, Status::INVALID_ARGUMENT)?;
    same(
        "interrupts taken away",
        control.counter(counter::ACKNOWLEDGES),
        acknowledged,
    )?;
    let ex = Easel::new("6.2.4.p2")?;
    let read = |cores: u64| {
        let given = [("address", 0x1c), ("coreSelect", cores)];
        ex.device().ask_for("READ_REGISTER_EX", &given, ["data"])
    };
    // Only the first of its four words.
    let low = |(status, [data]): (Status, [u64; 1])| (status, data & 0xffff_ffff);
    same(
        "READ_REGISTER_EX",
        low(read(1)?),
        (Status::OK, identity.chip_features.into()),
    )?;
    same("no core", low(read(0)?), (Status::OK, 0))?;
    for cores in [2, 3, 16, u64::from(u32::MAX)] {
        let (status, _) = low(read(cores)?);
        same(
            &format!("cores {cores:#x}"),
            status,
            Status::INVALID_ARGUMENT,
        )?;
    }
    let mut other = Other::start(Abi::named(OTHERS).context("a generation")?)?;
    same("root", other.ask("register 4")?.as_str(), "0 0 0")?;
    other.ask(&format!("user {SOMEBODY}"))?;
    same("somebody", other.ask("register 4")?.as_str(), "-13 -13 -13")?;
    drop(other);
    ex.close()?;
    easel.close()
}

/// Registers of a core that is off.
fn registers_off(control: &Control) -> Result<()> {
    let old = Easel::new("dove")?;
    let new = Easel::new("4.0.0")?;
    let ex = Easel::new("6.2.4.p2")?;
    system::may_sleep()?;
    eventually("off", PATIENCE, || Ok(control.read(POWER) == 0))?;
    let before = control.counter(counter::CLOCK_UPS);
    let found = [register(old.device(), 4)?, register(new.device(), 4)?];
    let written = [
        set_register(old.device(), 0x414, 1)?,
        set_register(new.device(), 0x414, 1)?,
    ];
    let dumped = new.device().ask_for("DUMP_GPU_STATE", &[], [])?.0;
    let given = [("address", 4), ("coreSelect", 1)];
    let (together, [_]) = ex.device().ask_for("READ_REGISTER_EX", &given, ["data"])?;
    same("switched on", control.counter(counter::CLOCK_UPS), before)?;
    system::stay_awake()?;
    same("read", found, [(Status::OK, 0), (CHIP_NOT_READY, 0)])?;
    same("written", written, [Status::OK, CHIP_NOT_READY])?;
    same("dumped", dumped, CHIP_NOT_READY)?;
    same("of several", together, CHIP_NOT_READY)?;
    old.close()?;
    new.close()?;
    ex.close()
}

/// The dump of a core and a client's text appear in the log. Counting continues across the dump.
fn dumps() -> Result<()> {
    let mut easel = Easel::new("4.0.0")?;
    easel.read()?;
    let drawn = easel.draw(3)?;
    let mut log = KernelLog::from_now()?;
    let device = easel.device();
    same(
        "DUMP_GPU_STATE",
        device.ask_for("DUMP_GPU_STATE", &[], [])?.0,
        Status::OK,
    )?;
    same(
        "DUMP_EVENT",
        device.ask_for("DUMP_EVENT", &[], [])?.0,
        Status::OK,
    )?;
    let text = *b"a b\n\x1bcd\0";
    let given = [("message", u64::from_le_bytes(text))];
    let (number, member) = device.abi().commands["DEBUG"];
    let mut bytes = vec![0; device.abi().sizes[0]];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let (at, _) = device.abi().fields[format!("{member}.message").as_str()];
    bytes[device.abi().union_at + at..][..8].copy_from_slice(&given[0].1.to_le_bytes());
    device.exchange_bytes(&mut bytes)?;
    same("DEBUG", device.abi().header_of(&bytes, "status"), 0)?;
    let lines: Vec<String> = log.lines()?.into_iter().map(|line| line.text).collect();
    for wanted in [
        "RA signature 0x12344321,",
        "TX signature 0x12211221,",
        "FE signature 0xbabef00d,",
        "PE signature 0xbabef00d,",
        "DE signature 0xbabef00d,",
        "SH signature 0xdeadbeef,",
        "PA signature 0x0000aaaa,",
        "SE signature 0x5e5e5e5e,",
        "MC signature 0x12345678,",
        "HI signature 0xaaaaaaaa,",
        "GPU state: idle 0x",
        "core 0: 0 jobs under way",
    ] {
        let found = lines.iter().any(|line| line.contains(wanted));
        ensure!(found, "{wanted:?} is not in {lines:#?}");
    }
    let said = format!("process {} says: a b??cd", std::process::id());
    let is_said = lines.iter().any(|line| line.ends_with(&said));
    ensure!(is_said, "{said:?} is not in {lines:#?}");
    let more = easel.draw(2)?;
    compare(&easel, &easel.read()?, drawn.and(more))?;
    easel.close()
}

fn suite(control: &Control) -> Suite<'_> {
    let mut suite = Suite::new();
    for name in GENERATIONS {
        suite.test(format!("{name}: counters are what was drawn"), move || {
            generation(name, control)
        });
    }
    suite.test("cycles are those of the time", cycles);
    suite.test("two processes at once", two_processes);
    suite.test("readings that do not clear", not_cleared);
    suite.test("a core that goes off loses nothing", move || {
        over_power(control)
    });
    suite.test("selectors are put back", selectors);
    suite.test("the setting", settings);
    suite.test("registers, and which are refused", move || {
        registers(control)
    });
    suite.test("registers of a core that is off", move || {
        registers_off(control)
    });
    suite.test("dumps, and a text", dumps);
    suite
}

/// Without a profiler the driver replies like a build without one.
fn without() -> Result<()> {
    for name in GENERATIONS {
        let easel = Easel::new(name)?;
        let (device, abi) = (easel.device(), easel.device().abi());
        let is_built = ["5.0.11.p8", "6.2.3", "6.2.4.p2", "6.4.11"].contains(&name);
        for command in profile::commands(abi) {
            let answer = profile::ask(device, command, &[])?;
            same(command, answer.status, Status::OK)?;
            let rest = &answer.bytes[abi.union_at..];
            let is_same = rest.iter().all(|byte| *byte == UNWRITTEN as u8);
            ensure!(is_same, "{name}: {command} writes");
        }
        let (status, told) = profile::read_2d(device)?;
        same("2D", (status, told), (Status::OK, [UNWRITTEN; 2]))?;
        let answer = profile::ask(device, "GET_PROFILE_SETTING", &[])?;
        same("GET", answer.status, Status::OK)?;
        let enable = abi.get(&answer.bytes, "GetProfileSetting", "enable") as u32;
        same("enable", enable, if is_built { 0 } else { UNWRITTEN })?;
        let answer = profile::ask(device, "SET_PROFILE_SETTING", &[])?;
        let wanted = if is_built {
            Status::NOT_SUPPORTED
        } else {
            Status::OK
        };
        same("SET", answer.status, wanted)?;
        easel.close()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        system::stay_awake()?;
        if std::env::args().nth(1).as_deref() == Some("--off") {
            let mut suite = Suite::new();
            suite.test("the profiler's commands do nothing", without);
            return suite.run();
        }
        let control = Control::open()?;
        suite(&control).run()
    })
}
