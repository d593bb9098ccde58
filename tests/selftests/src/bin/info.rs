// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info, which shows owners of a board their hardware: its report of each core must match the driver's. For a
//! library it prints a line for modprobe.d. With that line as module parameters, the driver must assign the named
//! generation to a client that does not announce one.

use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::Module;
use gpu_control::Board;
use serde_json::Value;

/// Runs galcore-info.
fn run(arguments: &[&str]) -> Result<std::process::Output> {
    let own = std::env::current_exe()?;
    std::process::Command::new(own.with_file_name("galcore-info"))
        .args(arguments)
        .output()
        .context("galcore-info")
}

/// Its JSON output, and whether its status shows that the driver replied.
fn info() -> Result<(Value, bool)> {
    let output = run(&["--json"])?;
    let report = serde_json::from_slice(&output.stdout).context("galcore-info's JSON")?;
    Ok((report, output.status.success()))
}

/// The items of a list.
fn items<'a>(report: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    report[name]
        .as_array()
        .with_context(|| format!("{name} is no list"))
}

fn cores() -> Result<()> {
    let (report, answered) = info()?;
    same("the driver has answered", answered, true)?;
    let cores = items(&report, "cores")?;
    let count = Device::open()?.chip_info()?.count as usize;
    same("cores", cores.len(), count)?;
    for (number, core) in cores.iter().enumerate() {
        let identity = Device::open_core(number)?.identity()?;
        let wanted = format!("GC{:x}", identity.chip_model);
        same("chip", core["chip"].as_str(), Some(&wanted[..]))?;
        let wanted = Some(u64::from(identity.chip_revision));
        same("revision", core["revision"].as_u64(), wanted)?;
        // The list must have one word for each bit.
        let bits = identity.chip_features.count_ones()
            + identity.chip_minor_features.count_ones()
            + identity.chip_minor_features1.count_ones()
            + identity.chip_minor_features2.count_ones()
            + identity.chip_minor_features3.count_ones();
        same("features", items(core, "features")?.len(), bits as usize)?;
    }
    Ok(())
}

fn generations() -> Result<()> {
    let (report, _) = info()?;
    let spoken = items(&report, "generations")?.iter();
    let spoken: Vec<_> = spoken.filter_map(Value::as_str).collect();
    let all: Vec<_> = Abi::all().into_iter().map(|abi| abi.name).collect();
    same("generations", spoken, all)
}

fn holders() -> Result<()> {
    let (report, _) = info()?;
    let devices = items(&report, "devices")?;
    if devices.is_empty() {
        bail!("no core of the board is told of");
    }
    for device in devices {
        same("driver", device["driver"].as_str(), Some("galcore"))?;
    }
    let nodes = items(&report, "nodes")?.iter();
    let nodes: Vec<_> = nodes.filter_map(|node| node["path"].as_str()).collect();
    same("nodes", nodes, galcore_client::device::NODES.to_vec())
}

/// The core's features from the driver, in fields whose offsets depend on the generation.
fn features(device: &Device) -> Result<String> {
    let found = device.identity()?;
    let words = [
        found.stream_count,
        found.register_max,
        found.thread_count,
        found.shader_core_count,
        found.vertex_cache_size,
    ];
    Ok(words.map(|word| word.to_string()).join(" "))
}

/// Acts like a program of the vendor's: maps libraries, and draws without announcing its generation.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut libraries = Vec::new();
    other::serve(|words| match words {
        ["map", path] => {
            libraries.push(Region::map_code(File::open(path)?, 4096)?);
            Ok("mapped".to_string())
        }
        [what] => {
            let device = Device::open_as(abi, false)?;
            let identity = features(&device)?;
            // The open file keeps the driver's record of the process, so that the draw belongs to the same process.
            let pixels = match *what {
                "draw" => fixture::landscape(Client::with_device(Device::open_as(abi, false)?)?)
                    .map_or(0, |(pixels, _)| pixels),
                _ => 0,
            };
            let (name, _, why) = system::interface_of_self()?;
            Ok(format!("{name}/{pixels}/{identity}/{why}"))
        }
        _ => bail!("what is {words:?}?"),
    })
}

/// The generation that the driver assumes for a program, the reason, the features it reports, and the pixels drawn.
struct Taken {
    name: String,
    why: String,
    identity: String,
    pixels: usize,
}

fn taken(program: &mut Other, what: &str) -> Result<Taken> {
    let answer = program.ask(what)?;
    let mut words = answer.splitn(4, '/');
    let mut word = || words.next().map(str::to_string).context("a short line");
    Ok(Taken {
        name: word()?,
        pixels: word()?.parse()?,
        identity: word()?,
        why: word()?,
    })
}

fn program(abi: &str) -> Result<Other> {
    Other::start(Abi::named(abi).context("a generation")?)
}

/// Creates a file with a library's version string, which is all that readers check.
fn library(name: &str, version: &str) -> Result<PathBuf> {
    let folder = std::env::temp_dir();
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    let mut bytes = b"\x7fELF".to_vec();
    bytes.resize(1000, 0);
    bytes.extend(format!("\n\0$VERSION${version}$\n\0$PLATFORM$Linux$\n\0").bytes());
    bytes.resize(4096, 0);
    std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().context("no text")
}

/// The whole output for the libraries, and the effective lines for modprobe.d.
fn told(arguments: &[&str]) -> Result<(String, Vec<String>)> {
    let output = run(arguments)?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for line in text.lines() {
        println!("# {line}");
    }
    let start = "options galcore ";
    let lines = text.lines().filter_map(|line| line.strip_prefix(start));
    let lines = lines.map(str::to_string).collect();
    Ok((text, lines))
}

/// Runs `body` with `line` as an additional module parameter, and then restores the module.
fn with_line<T>(line: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let module = Module::from_words(&[])?;
    Module::unload()?;
    let loaded = module.with(&[line]).load_or_fail();
    let done = loaded.and_then(|()| body());
    if Module::is_loaded() {
        Module::unload()?;
    }
    module.load_or_fail()?;
    done
}

/// With the library's line its program gets the right features. Without the line it does not.
fn line_of_a_library() -> Result<()> {
    let abi = Abi::named("4.1.0").context("a generation")?;
    let wanted = features(&Device::open_as(abi, true)?)?;
    // The requests of this program look the same in another generation.
    let guessed = taken(&mut program("4.1.0")?, "ask")?;
    same("guessed", guessed.name.as_str(), "4.0.0")?;
    same("told what is so", guessed.identity == wanted, false)?;
    let path = library("libGAL.so", "4.6.9:6622")?;
    let (_, lines) = told(&["--library", text_of(&path)?])?;
    same("lines", lines.join(" ").as_str(), "interface=4.1.0")?;
    let named = with_line(&lines[0], || taken(&mut program("4.1.0")?, "draw"))?;
    same("taken for", named.name.as_str(), "4.1.0")?;
    same("told", named.identity, wanted)?;
    same("drawn", named.pixels > 0, true)?;
    same("why", named.why.contains("`interface` names it"), true)
}

/// The same for a running program, and only for that program.
fn line_of_a_process() -> Result<()> {
    let path = library("libGAL.so", "4.6.9:6622")?;
    let mut running = program("4.1.0")?;
    running.ask(&format!("map {}", text_of(&path)?))?;
    let id = running.id().to_string();
    let (text, lines) = told(&["--process", &id, "--program", "info"])?;
    same("its library", text.contains(text_of(&path)?), true)?;
    same("lines", lines.join(" ").as_str(), "interface=info:4.1.0")?;
    let named = with_line(&lines[0], || taken(&mut running, "draw"))?;
    same("taken for", named.name.as_str(), "4.1.0")?;
    same("drawn", named.pixels > 0, true)?;
    same("why", named.why.contains("for this program"), true)
}

/// Libraries of two generations: the output names both, and no line is effective.
fn several_libraries() -> Result<()> {
    let old = library("libGAL.so", "4.6.9:1210")?;
    let new = library("libGAL_new.so", "4.6.9:6622")?;
    let mut running = program("4.1.0")?;
    for path in [&old, &new] {
        running.ask(&format!("map {}", text_of(path)?))?;
    }
    let (text, lines) = told(&["--process", &running.id().to_string()])?;
    same("lines", lines, Vec::new())?;
    for word in [
        text_of(&old)?,
        text_of(&new)?,
        "several generations",
        "# options galcore interface=4.0.0",
        "# options galcore interface=4.1.0",
    ] {
        same(word, text.contains(word), true)?;
    }
    Ok(())
}

/// A version that several generations share: the core decides, either the driver's core or the named one.
fn version_of_several(board: Board) -> Result<()> {
    let of_the_board: &[&str] = match board {
        Board::Dove => &["dove", ""],
        _ => &["", "v4"],
    };
    let versions = ["0.8.0:3184", "4.6.6:1381"];
    for (version, wanted) in versions.iter().zip(of_the_board) {
        let path = library("libGAL.so", version)?;
        let (text, lines) = told(&["--library", text_of(&path)?])?;
        let wanted = match *wanted {
            "" => Vec::new(),
            name => vec![format!("interface={name}")],
        };
        same(version, &lines, &wanted)?;
        let names: &[&str] = match *version {
            "0.8.0:3184" => &["dove", "dove_old", "v2", "arnova"],
            _ => &["v4", "eureka"],
        };
        for name in names {
            let line = format!("options galcore interface={name}");
            let count = text.lines().filter(|text| text.ends_with(&line)).count();
            same(&line, count, 1)?;
        }
    }
    for (version, core, name, program_of) in [
        ("0.8.0:3184", "GC600", "dove", ""),
        ("0.8.0:700", "GC600", "dove_old", ""),
        ("0.8.0:3184", "GC800", "v2", "v2"),
        ("4.6.6:1381", "GC1000", "eureka", "eureka"),
        ("4.6.6:1381", "GC2000", "v4", ""),
    ] {
        let path = library("libGAL.so", version)?;
        let (_, lines) = told(&["--library", text_of(&path)?, "--core", core])?;
        let wanted = format!("interface={name}");
        same(version, lines.join(" "), wanted)?;
        // Cases that the driver would not guess, at least not on both boards.
        if !program_of.is_empty() {
            let named = with_line(&lines[0], || taken(&mut program(program_of)?, "ask"))?;
            same("taken for", named.name.as_str(), name)?;
            same("why", named.why.contains("`interface` names it"), true)?;
        }
    }
    Ok(())
}

/// A fault report has all required information in one file.
fn report_of_a_fault() -> Result<()> {
    let path = std::env::temp_dir().join("report.txt");
    let library = library("libGAL.so", "4.6.9:6622")?;
    let arguments = ["--report", text_of(&path)?, "--library", text_of(&library)?];
    let output = run(&arguments)?;
    print!("# {}", String::from_utf8_lossy(&output.stderr));
    same("written", output.status.success(), true)?;
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let part = |name: &str| -> Result<&str> {
        let head = format!("==== {name} ====\n");
        let (_, rest) = text.split_once(&head).with_context(|| head.clone())?;
        Ok(rest.split("\n====").next().unwrap_or_default())
    };
    let device = Device::open()?;
    let chip = format!("GC{:x} revision", device.identity()?.chip_model);
    let of_proc = std::fs::read_to_string("/proc/driver/gc")?;
    let pool = of_proc
        .lines()
        .find(|line| line.starts_with("Total reserved"));
    let debugfs = |name: &str| format!("/sys/kernel/debug/galcore/{name}");
    for (name, wanted) in [
        ("galcore-info", &chip[..]),
        ("the library", "interface=4.1.0"),
        ("/proc/driver/gc", pool.context("no pool")?),
        (&debugfs("interface"), ""),
        (&debugfs("pending"), ""),
        (&debugfs("jobs"), ""),
        (&debugfs("resets"), "core 0 "),
        (&debugfs("usage"), "core 0 "),
        (&debugfs("scratch"), "0x"),
        ("/sys/module/galcore/parameters", "gpuTimeout="),
        ("/dev/kmsg, lines with galcore", "galcore"),
    ] {
        let found = part(name)?;
        println!("# {name}: {} bytes", found.len());
        same(name, found.contains(wanted), true)?;
        same("read", found.contains("(not read"), false)?;
    }
    same(
        "of others",
        part("/dev/kmsg, lines with galcore")?.contains("Booting Linux"),
        false,
    )
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let board = Control::open()?.board().context("what board is it?")?;
        let mut suite = Suite::new();
        suite.test("each core, with its features in words", cores);
        suite.test("all generations of the interface are spoken", generations);
        suite.test("who has the board's cores, and the nodes", holders);
        suite.test(
            "a library's line has its program be understood",
            line_of_a_library,
        );
        suite.test("a process's line does, for it alone", line_of_a_process);
        suite.test(
            "several libraries of a process are all named",
            several_libraries,
        );
        suite.test("the report of a fault has all of it", report_of_a_fault);
        suite.test("the core decides where the version does not", move || {
            version_of_several(board)
        });
        suite.run()
    })
}
