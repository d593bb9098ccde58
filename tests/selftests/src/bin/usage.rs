// SPDX-License-Identifier: GPL-2.0-only
//! Usage statistics of cores and memory. Jobs of known length must count for their process and core, and memory for its
//! pool and kind. Covers debugfs in our own format and in the vendor's (for imx-gputop), fdinfo, and access rights.
//!
//! Needs the module to be loaded.

use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::become_user;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::terminal::Terminal;
use galcore_selftests::usage;
use galcore_selftests::usage::FdInfo;
use galcore_selftests::usage::Usage;
use galcore_selftests::vg;
use gpu_control::counter;
use gpu_control::fault;

/// Duration of a slow draw.
const SLOW: Duration = Duration::from_millis(400);

/// Duration of a draw that another program observes.
const LONG: Duration = Duration::from_millis(2500);

/// Longest time until an expected state is visible.
const SOON: Duration = Duration::from_secs(20);

/// Longest apparent delay of a job: the way to its place, and the detection of its end. The next job can appear shorter
/// by the same time, because the GPU started it before that.
const SLACK: Duration = Duration::from_millis(60);

/// A core under test, with its number in CHIP_INFO and in the model.
struct Core {
    number: usize,
    kind: String,
    place: usize,
}

/// The board's cores.
fn cores() -> Result<Vec<Core>> {
    let usage = Usage::read()?;
    let wanted = ["3d", "3d-2d", "2d", "vg"];
    let found = wanted.iter().filter_map(|kind| usage.core(kind).ok());
    let core = |(number, core): (usize, &usage::Core)| Core {
        number,
        kind: core.kind.clone(),
        place: core.place,
    };
    Ok(found.enumerate().map(core).collect())
}

/// Runs another process, which draws on the requested core.
fn drawing(_: &'static Abi) -> Result<()> {
    let mut paint = None;
    other::serve(|words| {
        match words[..] {
            ["open", core] => {
                let device = Device::open_core(core.parse()?)?;
                paint = Some(Paint::of(Client::with_device(device)?)?);
            }
            ["draw"] => {
                let paint: &mut Paint = paint.as_mut().context("no core")?;
                paint.run(&paint.fill_all(1))?;
            }
            _ => anyhow::bail!("{words:?}"),
        }
        Ok("done".to_string())
    })
}

fn start(core: &Core) -> Result<Other> {
    let mut other = Other::start(Abi::own())?;
    other.ask(&format!("open {}", core.number))?;
    // Creates its context and other resources of the first job.
    other.ask("draw")?;
    Ok(other)
}

/// Fails unless `took` is about `wanted`.
fn about(what: &str, took: Duration, wanted: Duration) -> Result<()> {
    println!("# {what}: {took:?}");
    ensure!(
        took.abs_diff(wanted) <= SLACK,
        "{what}: {took:?}, wanted {wanted:?}"
    );
    Ok(())
}

/// The increase since `before` on `core`: busy time and jobs of process `id`, and busy time of all.
fn since(before: &Usage, id: i32, core: &Core) -> Result<(Duration, u64, Duration)> {
    let now = Usage::read()?;
    let (then, share) = (before.share(id, core.place), now.share(id, core.place));
    let busy = now.core(&core.kind)?.busy - before.core(&core.kind)?.busy;
    Ok((share.busy - then.busy, share.jobs - then.jobs, busy))
}

fn known_length(core: &Core) -> Result<()> {
    let control = Control::open_core(core.number)?;
    let mut other = start(core)?;
    let before = Usage::read()?;
    let before_fd = FdInfo::of(other.id())?.engine(&core.kind)?;
    let slow = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    let begun = Instant::now();
    other.ask("draw")?;
    let took = begun.elapsed();
    drop(slow);
    let (busy, jobs, all) = since(&before, other.id(), core)?;
    about("the process", busy, SLOW)?;
    ensure!(busy >= SLOW, "{busy:?}: there was nothing in front of it");
    // Both readings are in whole milliseconds.
    let rounded = took + Duration::from_millis(2);
    ensure!(busy <= rounded, "{busy:?} of {took:?}");
    ensure!(jobs >= 1, "{jobs} jobs");
    about("the core", all, SLOW)?;
    let after_fd = FdInfo::of(other.id())?.engine(&core.kind)?;
    same("fdinfo", after_fd - before_fd, busy)?;
    // No other process's usage and no other core's usage has changed.
    let now = Usage::read()?;
    for (&(id, place), share) in &now.shares {
        if id != other.id() {
            same("another's", *share, before.share(id, place))?;
        }
        ensure!(id != other.id() || place == core.place, "place {place}");
    }
    Ok(())
}

/// A running job counts while it runs.
fn under_way(core: &Core) -> Result<()> {
    let control = Control::open_core(core.number)?;
    let mut other = start(core)?;
    let before = Usage::read()?;
    let _slow = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    other.tell("draw")?;
    std::thread::sleep(SLOW / 2);
    let (busy, _, all) = since(&before, other.id(), core)?;
    println!("# half-way: {busy:?}, {all:?}");
    ensure!(busy > SLOW / 8 && busy < SLOW, "{busy:?} half-way");
    // The two values are not read at the same moment.
    ensure!(all.abs_diff(busy) < SLOW / 8, "{all:?} half-way");
    other.answer()?;
    Ok(())
}

fn two_at_once(core: &Core) -> Result<()> {
    let control = Control::open_core(core.number)?;
    let mut others = [start(core)?, start(core)?];
    let before = Usage::read()?;
    let slow = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    others[0].tell("draw")?;
    // The job is running by then.
    std::thread::sleep(SLOW / 4);
    others[1].tell("draw")?;
    for other in &mut others {
        other.answer()?;
    }
    drop(slow);
    let mut sum = Duration::ZERO;
    for other in &others {
        let (busy, _, _) = since(&before, other.id(), core)?;
        about("each", busy, SLOW)?;
        sum += busy;
    }
    let (_, _, all) = since(&before, 0, core)?;
    let driver = all.saturating_sub(sum);
    println!("# {all:?} in all, {sum:?} of both");
    ensure!(all + Duration::from_micros(1) >= sum, "{all:?} < {sum:?}");
    ensure!(driver < Duration::from_millis(5), "{driver:?} of nobody");
    Ok(())
}

/// The core for vector graphics, whose draws cannot be slowed down.
fn vector(core: &Core) -> Result<()> {
    let id = std::process::id() as i32;
    let mut client = vg::Client::start()?;
    let before = Usage::read()?;
    let begun = Instant::now();
    for colour in 1..=20 {
        client.prove(colour)?;
    }
    let took = begun.elapsed();
    let (busy, jobs, all) = since(&before, id, core)?;
    println!("# {jobs} jobs, {busy:?} of {took:?}");
    same("jobs", jobs, 20)?;
    ensure!(!busy.is_zero() && busy < took, "{busy:?} of {took:?}");
    same("in all", all, busy)?;
    client.close()
}

/// `load` of a core that draws, and of one that is off, which must stay off.
fn load(core: &Core) -> Result<()> {
    let control = Control::open_core(core.number)?;
    let mut other = start(core)?;
    let of_core = || -> Result<u32> {
        let text = usage::vendor_file("load")?;
        let number = match core.kind.as_str() {
            "2d" => 8,
            _ => 0,
        };
        let head = format!("core      : {number}\nload      : ");
        let rest = text.split(&head).nth(1).with_context(|| text.clone())?;
        Ok(rest.split('%').next().unwrap_or_default().parse()?)
    };
    let slow = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    other.tell("draw")?;
    std::thread::sleep(SLOW / 4);
    let busy = of_core()?;
    other.answer()?;
    drop(slow);
    ensure!(busy >= 95, "{busy}% busy while it draws");
    system::may_sleep()?;
    let off = |usage: &Usage| Ok::<_, anyhow::Error>(usage.core(&core.kind)?.power[1]);
    let before = off(&Usage::read()?)?;
    harness::eventually("off", Duration::from_secs(5), || {
        Ok(off(&Usage::read()?)? > before)
    })?;
    let ups = control.counter(counter::CLOCK_UPS);
    let idle = of_core()?;
    for name in ["idle", "clk", "info", "database"] {
        usage::vendor_file(name)?;
    }
    let woken = control.counter(counter::CLOCK_UPS) - ups;
    system::stay_awake()?;
    same("load of a core that is off", idle, 0)?;
    same("switched on", woken, 0)
}

/// Times on and off add up to the total time.
fn power_times() -> Result<()> {
    let sum = |usage: &Usage| usage.cores[0].power.iter().sum::<Duration>();
    let before = Usage::read()?;
    std::thread::sleep(Duration::from_millis(50));
    let after = Usage::read()?;
    let (passed, counted) = (after.time - before.time, sum(&after) - sum(&before));
    let apart = passed.abs_diff(counted);
    ensure!(apart < Duration::from_millis(20), "{counted:?}, {passed:?}");
    // The same in the vendor's format.
    let text = usage::vendor_file("idle")?;
    let mut all = Duration::ZERO;
    for (line, name) in text.lines().zip(["On:", "Off:", "Idle:", "Suspend:"]) {
        let number = line.strip_prefix(name).context(name)?.trim_start();
        let number = number.strip_suffix(" ns").context("no unit")?;
        ensure!(line.len() == 9 + 27 + 3, "{line:?}");
        all += Duration::from_nanos(number.replace(',', "").parse()?);
    }
    let apart = (sum(&after)).abs_diff(all);
    ensure!(apart < Duration::from_secs(1), "{all:?}, {:?}", sum(&after));
    Ok(())
}

fn memory() -> Result<()> {
    let id = std::process::id() as i32;
    let device = Device::open()?;
    let regions = ["pool", "contiguous", "virtual", "user"];
    let now = || -> Result<[u64; 4]> {
        let info = FdInfo::of(id)?;
        let all = regions.map(|region| info.memory(region));
        let [pool, contiguous, scattered, user] = all;
        Ok([pool?, contiguous?, scattered?, user?])
    };
    let [pool, contiguous, scattered, user] = now()?;
    let video = usage::video_memory(id)?;
    let target = device.allocate(0x30000, 64, surface::RENDER_TARGET, Pool::SYSTEM)?;
    let texture = device.allocate(0x8000, 64, surface::TEXTURE, Pool::VIRTUAL)?;
    let vertices = device.allocate(0x5000, 64, surface::VERTEX, Pool::CONTIGUOUS)?;
    let buffer = device.allocate_contiguous(0x4000)?;
    let own = Region::anonymous(8 * 4096)?;
    let mapping = device.map_user(own.address(), 8 * 4096)?;
    let wanted = [pool + 192, contiguous + 36, scattered + 32, user + 32];
    same("KiB", now()?, wanted)?;
    let more = usage::video_memory(id)?;
    let grown = |name: &str| more[name] - video[name];
    same("RenderTarget", grown("RenderTarget"), 0x30000)?;
    same("Texture", grown("Texture"), 0x8000)?;
    same("Vertex", grown("Vertex"), 0x5000)?;
    same("All-Types", grown("All-Types"), 0x3d000)?;
    same("System", grown("System"), 0x30000)?;
    same("Virtual", grown("Virtual"), 0x8000)?;
    same("Contiguous", grown("Contiguous"), 0x5000)?;
    same("AllocContiguous", grown("AllocContiguous"), 0x4000)?;
    same("MapUserMemory", grown("MapUserMemory"), 8 * 4096)?;
    // The pool as a whole.
    let text = usage::vendor_file("meminfo")?;
    let of_pool = |name: &str| -> Result<u64> {
        let line = text.lines().find(|line| line.trim().starts_with(name));
        let words = line.with_context(|| text.clone())?.split_whitespace();
        Ok(words.rev().nth(1).context("no number")?.parse()?)
    };
    same("Used", of_pool("Used")? / 1024, ProcGc::used_now()?[0])?;
    same(
        "Total",
        of_pool("Total")?,
        of_pool("Free")? + of_pool("Used")?,
    )?;
    ensure!(of_pool("MinFree")? <= of_pool("Free")?, "{text}");
    device.unmap_user(&mapping)?;
    device.free_contiguous(&buffer)?;
    for node in [target, texture, vertices] {
        device.free(node)?;
    }
    settles("KiB", [pool, contiguous, scattered, user], now)
}

fn formats() -> Result<()> {
    let id = std::process::id() as i32;
    let device = Device::open()?;
    let name = std::fs::read_to_string("/proc/self/comm")?;
    let found = usage::clients(&usage::vendor_file("clients")?);
    let own = (id as u64, name.trim().to_string());
    ensure!(found.contains(&own), "{found:?}");
    let contexts = || -> Result<_> {
        let text = usage::vendor_file("database")?;
        ensure!(text.starts_with("GPU Idle: "), "{text}");
        Ok(usage::contexts(&text, id as u64))
    };
    let before = contexts()?;
    let context = device.attach()?.context;
    let after = contexts()?;
    same("contexts", after.len(), before.len() + 1)?;
    ensure!(after.contains(&u64::from(context)), "{after:?}");
    device.detach(context)?;
    same("contexts", contexts()?, before)?;
    // Another process, no process, and invalid numbers.
    let none = format!("{}/vidmem", usage::GC);
    std::fs::write(&none, "999999")?;
    let text = usage::vendor_file("vidmem")?;
    same("of none", text.trim(), "ERROR: process 999999 not found")?;
    for bad in ["x", "", "1 2", "99999999999", "-1x"] {
        let result = std::fs::write(&none, bad);
        ensure!(result.is_err() || bad.is_empty(), "{bad:?} was taken");
    }
    std::fs::write(&none, "0\n")?;
    let text = usage::vendor_file("vidmem")?;
    let line = format!("VidMem Usage (Process {id}: {}):", name.trim());
    ensure!(text.lines().any(|found| found == line), "no {line:?}");
    let info = usage::vendor_file("info")?;
    let model = device.identity()?.chip_model;
    let wanted = format!("gpu      : 0\nmodel    : {model:4x}\nrevision : ");
    ensure!(
        info.contains(&wanted) || info.contains("gpu      : 8"),
        "{info}"
    );
    let version = usage::vendor_file("version")?;
    let number = version.split(" built at ").next().unwrap_or_default();
    ensure!(number.split('.').count() == 4, "{version}");
    let delay = usage::vendor_file("poweroff_timeout")?;
    same("timeout", delay.trim(), "power off timeout: 200 ms.")?;
    // All lines must parse, whether the cores have clocks or not.
    let clocks = usage::vendor_file("clk")?;
    let complete = clocks.lines().count()
        == usage::clocks(&clocks, 0).iter().flatten().count()
            + usage::clocks(&clocks, 8).iter().flatten().count();
    ensure!(complete, "{clocks}");
    usage::vendor_file("core_count")?.trim().parse::<u32>()?;
    Ok(())
}

fn clients_of_fdinfo() -> Result<()> {
    let id = std::process::id() as i32;
    let files = [Device::open()?, Device::open()?];
    let all = FdInfo::all_of(id)?;
    ensure!(all.len() >= files.len(), "{} files", all.len());
    let client = |info: &FdInfo| info.number("drm-client-id").map(|(id, _)| id);
    let own = client(&all[0])?;
    for info in &all {
        same("client", client(info)?, own)?;
        same("all that is said", info, &all[0])?;
    }
    for key in all[0].keys() {
        println!("# {key}");
    }
    let other = Other::start(Abi::own())?;
    let count = FdInfo::all_of(other.id())?.len();
    same("files of who has none", count, 0)?;
    drop(other);
    let core = cores()?.into_iter().next().context("no core")?;
    let other = start(&core)?;
    ensure!(client(&FdInfo::of(other.id())?)? != own, "client {own}");
    // The statistics are removed when the process exits.
    let id = other.id();
    ensure!(Usage::read()?.share(id, core.place).jobs > 0, "no jobs");
    drop(other);
    settles("jobs of who has ended", 0, || {
        Ok(Usage::read()?.share(id, core.place).jobs)
    })
}

/// gctop's JSON output.
fn gctop() -> Result<serde_json::Value> {
    let own = std::env::current_exe()?;
    let output = std::process::Command::new(own.with_file_name("gctop"))
        .args(["--once", "--json", "--interval", "0.3"])
        .output()?;
    let (text, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}: {errors}", output.status);
    Ok(serde_json::from_slice(text)?)
}

/// gctop shows the right values for a client that draws.
fn watched() -> Result<()> {
    let core = cores()?.into_iter().next().context("no core")?;
    let control = Control::open_core(core.number)?;
    let mut other = start(&core)?;
    // The draw starts before its first sample and ends after its second, also on a busy host.
    let begun = Instant::now();
    gctop()?;
    let long = LONG.max(begun.elapsed() * 3).min(4 * LONG);
    let slow = control.arm(fault::SLOW_DRAWS, long.as_micros() as u32);
    let id = other.id();
    let busy = || FdInfo::of(id)?.engine(&core.kind);
    let before = busy()?;
    other.tell("draw")?;
    eventually("the draw begins", SOON, || Ok(busy()? > before))?;
    let report = gctop()?;
    other.answer()?;
    drop(slow);
    println!("# {report}");
    let shown = report["clients"].as_array().context("no clients")?;
    let shown = shown.iter().find(|client| client["pid"] == other.id());
    let shown = shown.context("not the client")?;
    same("name", shown["name"].as_str(), Some("usage"))?;
    let jobs = Usage::read()?.share(other.id(), core.place).jobs;
    ensure!(jobs >= 2, "{jobs} jobs");
    same("jobs", shown["jobs"].as_u64(), Some(jobs))?;
    same("hangs", shown["hangs"].as_u64(), Some(0))?;
    let info = FdInfo::of(other.id())?;
    for region in ["pool", "contiguous", "virtual", "user"] {
        let kib = shown["memory_kib"][region].as_u64();
        same(region, kib, Some(info.memory(region)?))?;
    }
    ensure!(info.memory("pool")? >= 128, "no surface in the pool");
    let load = shown["engines"][&core.kind]["load_percent"].as_f64();
    let of_core = report["cores"][core.place]["load_percent"].as_f64();
    for load in [load, of_core] {
        ensure!(load.is_some_and(|load| load > 70.0), "load {load:?}");
    }
    let ended = report["cores"][core.place]["ended_percent"].as_f64();
    ensure!(ended.is_some_and(|load| load < 10.0), "ended {ended:?}");
    let model = Device::open_core(core.number)?.identity()?.chip_model;
    let wanted = format!("{model:x}");
    let chip = report["cores"][core.place]["model"].as_str();
    same("chip", chip, Some(wanted.as_str()))?;
    let pool = report["memory"]["pool_kib"].as_u64();
    same("KiB of the pool", pool, Some(ProcGc::used_now()?[0]))?;
    let missing = report["needs_root"].as_array().context("needs_root")?;
    same("what needs root", missing.len(), 0)
}

/// A client starts and exits between two samples of gctop. The core's time must not be lost.
fn too_short() -> Result<()> {
    let core = cores()?.into_iter().next().context("no core")?;
    let control = Control::open_core(core.number)?;
    let own = std::env::current_exe()?.with_file_name("gctop");
    let mut gctop = std::process::Command::new(own)
        .args(["--json", "--interval", "3"])
        .stdout(Stdio::piped())
        .spawn()?;
    let reports = BufReader::new(gctop.stdout.take().context("no output")?).lines();
    let mut most = Duration::ZERO;
    // A sample may fall into the client's lifetime. Then the test tries the next one.
    for report in reports.take(6) {
        let report: serde_json::Value = serde_json::from_str(&report?)?;
        let part = report["cores"][core.place]["ended_percent"].as_f64();
        let seconds = report["seconds"].as_f64().context("no time")?;
        let ended = part.context("nothing of those that have ended")? / 100.0 * seconds;
        most = most.max(Duration::from_secs_f64(ended));
        println!("# ended clients had {ended} s");
        if most >= SLOW {
            break;
        }
        let mut other = start(&core)?;
        let slow = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
        other.ask("draw")?;
        drop((slow, other));
    }
    gctop.kill()?;
    gctop.wait()?;
    ensure!(most >= SLOW, "{most:?} of {SLOW:?}");
    // Includes its first draw.
    ensure!(most < SLOW * 2, "{most:?} of {SLOW:?}");
    Ok(())
}

/// A program that gctop runs: its output, its exit status, and its usage.
fn run_by_gctop() -> Result<()> {
    let core = cores()?.into_iter().next().context("no core")?;
    let control = Control::open_core(core.number)?;
    let own = std::env::current_exe()?;
    let gctop = |interval: &str, program: &[&str]| {
        std::process::Command::new(own.with_file_name("gctop"))
            .args(["--json", "--interval", interval, "--"])
            .args(program)
            .output()
    };
    let output = gctop("60", &["sh", "-c", "echo word; exit 7"])?;
    same("status", output.status.code(), Some(7))?;
    same("words", output.stdout, b"word\n".to_vec())?;
    let example = own.with_file_name("example-clear");
    let slow = control.arm(fault::SLOW_DRAWS, LONG.as_micros() as u32);
    let output = gctop("0.3", &[example.to_str().context("no text")?])?;
    drop(slow);
    ensure!(output.status.success(), "{}", output.status);
    let words = String::from_utf8(output.stdout)?;
    ensure!(words.contains("pixels are 0xff336699"), "{words:?}");
    let errors = String::from_utf8(output.stderr)?;
    // The program's share of a report's time depends on when the reports fall. On a busy machine only one report may
    // show it, with little of its draw. No other process draws meanwhile, so the core's busy time is that of the draw.
    let (mut most, mut of_core): (f64, f64) = (0.0, 0.0);
    let mut busy = 0.0;
    for line in errors.lines() {
        let report: serde_json::Value = serde_json::from_str(line)?;
        let clients = report["clients"].as_array().context("no clients")?;
        let client = clients
            .iter()
            .find(|client| client["name"] == "example-clear");
        let engines = client.and_then(|client| client["engines"].as_object());
        let loads = engines.iter().flat_map(|engines| engines.values());
        let loads = loads.filter_map(|engine| engine["load_percent"].as_f64());
        let load = loads.fold(0.0, f64::max);
        let cores = report["cores"].as_array().context("no cores")?;
        let core = cores.iter().find(|one| one["place"] == core.number);
        let percent = |name: &str| core.and_then(|core| core[name].as_f64()).context("no load");
        let seconds = report["seconds"].as_f64().context("no time")?;
        let all = percent("load_percent")?;
        busy += seconds * all / 100.0;
        if load > most {
            (most, of_core) = (load, all);
        }
    }
    println!(
        "# {} reports, {most}% at most, the core's {of_core}%, busy {busy} s",
        errors.lines().count()
    );
    ensure!(most > 0.0 && most > of_core * 0.9, "{errors}");
    ensure!(busy > 0.9 * LONG.as_secs_f64(), "{errors}");
    Ok(())
}

/// The same on a terminal: live, at any size, until a key is pressed.
fn on_a_terminal() -> Result<()> {
    let core = cores()?.into_iter().next().context("no core")?;
    let control = Control::open_core(core.number)?;
    let mut other = start(&core)?;
    let own = std::env::current_exe()?.with_file_name("gctop");
    let mut command = std::process::Command::new(own);
    command.args(["--interval", "0.3"]);
    let mut terminal = Terminal::start(&command, 24, 110)?;
    let head = |lines: &[String]| lines[0].starts_with("gctop: ");
    terminal.shows(SOON, head)?;
    ensure!(terminal.is_alternate(), "on the shell's screen");
    let client = format!("{} ", other.id());
    let load = |lines: &[String]| -> Option<f64> {
        let line = lines.iter().find(|line| line.starts_with(&client))?;
        let loads = line
            .split_whitespace()
            .filter_map(|word| word.strip_suffix('%'));
        loads.filter_map(|load| load.parse().ok()).reduce(f64::max)
    };
    terminal.shows(SOON, |lines| load(lines) == Some(0.0))?;
    let slow = control.arm(fault::SLOW_DRAWS, LONG.as_micros() as u32);
    other.tell("draw")?;
    let drawing = terminal.shows(SOON, |lines| load(lines).is_some_and(|load| load > 70.0));
    println!("# {:#?}", terminal.lines());
    other.answer()?;
    drop(slow);
    drawing?;
    terminal.shows(SOON, |lines| load(lines) == Some(0.0))?;
    // A client that has exited disappears.
    drop(other);
    terminal.shows(SOON, |lines| load(lines).is_none() && head(lines))?;
    for (rows, columns) in [(3, 10), (1, 1), (40, 200)] {
        terminal.resize(rows, columns)?;
        std::thread::sleep(Duration::from_millis(400));
    }
    terminal.shows(SOON, |lines| {
        head(lines) && lines[39].starts_with("q: quit")
    })?;
    terminal.press("q")?;
    let status = terminal.ends(SOON)?;
    ensure!(status.success(), "{status}");
    ensure!(!terminal.is_alternate(), "the shell's screen is not back");
    // A serial line reports no size.
    let mut terminal = Terminal::start(&command, 0, 0)?;
    terminal.screen_is(24, 80);
    terminal.shows(SOON, |lines| {
        head(lines) && lines[23].starts_with("q: quit")
    })?;
    terminal.press("\u{3}")?;
    let status = terminal.ends(SOON)?;
    ensure!(status.success(), "{status}");
    // Without a terminal it suggests what to do.
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .output()?;
    println!("# {}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        !output.status.success(),
        "without a terminal: {}",
        output.status
    );
    let said = String::from_utf8_lossy(&output.stderr).contains("--once");
    ensure!(said, "nothing about --once");
    Ok(())
}

/// An ordinary user may only read their own usage.
fn ordinary(parent: i32) -> Result<()> {
    become_user(1000)?;
    for path in [
        "/sys/kernel/debug/gc/clients",
        "/sys/kernel/debug/gc/vidmem",
        "/sys/kernel/debug/galcore/usage",
    ] {
        let error = std::fs::read(path).err().map(|error| error.kind());
        same(path, error, Some(ErrorKind::PermissionDenied))?;
    }
    let error = FdInfo::all_of(parent).err().context("root's fdinfo")?;
    println!("# {error:#}");
    // gctop shows what the user may read.
    let report = gctop()?;
    same("cores", report["cores"].as_array().map(Vec::len), Some(0))?;
    ensure!(report["memory"]["reserved_kib"].is_u64(), "{report}");
    let missing = report["needs_root"].as_array().map_or(0, Vec::len);
    same("what needs root", missing, 2)
}

/// Runs [`ordinary`].
fn nobody_else() -> Result<()> {
    let id = std::process::id().to_string();
    let output = system::again(&["--ordinary", &id])?.output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    ensure!(output.status.success(), "{}", output.status);
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(drawing) {
        return code;
    }
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--ordinary") {
        let parent = arguments.next().and_then(|id| id.parse().ok());
        return harness::exit(parent.context("a process").and_then(ordinary));
    }
    harness::program(|| {
        system::stay_awake()?;
        let cores = &cores()?;
        let mut suite = Suite::new();
        for core in cores {
            let kind = &core.kind;
            if kind == "vg" {
                suite.test("vg: jobs count", move || vector(core));
                continue;
            }
            suite.test(
                format!("{kind}: a job of known length counts for its process"),
                move || known_length(core),
            );
            suite.test(format!("{kind}: what is under way counts"), move || {
                under_way(core)
            });
            suite.test(
                format!("{kind}: of two processes each has its own"),
                move || two_at_once(core),
            );
            suite.test(
                format!("{kind}: load, also of a core that is off"),
                move || load(core),
            );
        }
        suite.test("times on and off add up", power_times);
        suite.test("memory counts for its pool and kind", memory);
        suite.test("gputop reads the vendor's files", formats);
        suite.test("files of a process are one client", clients_of_fdinfo);
        suite.test("gctop shows a client that draws", watched);
        suite.test("gctop has the time of clients that have ended", too_short);
        suite.test("gctop runs a program", run_by_gctop);
        suite.test("gctop on a terminal", on_a_terminal);
        suite.test("nobody but root reads what is others'", nobody_else);
        suite.run()
    })
}
