// SPDX-License-Identifier: GPL-2.0-only
//! Debian's unmodified piglit on Mesa and etnaviv: its `shader_runner` with the scripts that draw with GLSL 1.10 and
//! 1.20, and the programs of its profile `opengl` for OpenGL 1.0 to 2.1. Each test checks its own pixels.
//!
//! One process runs many scripts, because starting a process costs more time than most scripts. If a script hangs or
//! ends the process, the run names it, and the next process begins with the script after it. Each program has its own
//! process. A script that fails runs again, alone, and so does a program whose failure is not known. A test whose
//! failure is not known and not a timeout also runs with the software renderer. `piglit-fails.csv` lists the known
//! failures by chip, with reasons.
//!
//! Writes `piglit.csv`, with a line `test,Status` for each script and program in the format of Mesa's own lists, and
//! `softpipe.csv`, with the software renderer's results for the unknown failures.
//!
//! usage: `piglit [--every N] [--limit N] [--softpipe] [--galcore] [TEXT]...` (TEXT: only scripts and programs whose
//! names contain one of the texts; `--every`: each N-th of them; `--limit`: at most N; `--softpipe`: also all of them
//! with the software renderer; `--galcore`: on galcore's node of etnaviv's interface)

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_selftests::control::Control;
use galcore_selftests::etnaviv;
use galcore_selftests::harness;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::Module;
use gpu_control::Board;
use gpu_control::ViolationKind;

/// The archive that scripts/mesa --piglit packed. Empty if the package was not available.
const ARCHIVE: &str = "/galcore/bin/piglit.tar";
/// The directory for its contents.
const UNPACKED: &str = "/tmp/piglit";
const KNOWN: &str = include_str!("../../piglit-fails.csv");
/// Chips with a complete list in `KNOWN`. On other chips an unlisted failure proves nothing yet.
const COMPLETE: [&str; 4] = ["gc600", "gc880", "gc2000", "gc3000"];
/// Longest time without output from a running script.
const LIMIT: Duration = Duration::from_secs(120);
/// Longest run time of a program.
const LIMIT_OF_PROGRAM: Duration = Duration::from_secs(60);
/// Programs that are skipped, with reasons.
const LEFT_OUT: [(&str, &str); 9] = [
    (
        "spec@!opengl 1.0@depth-clear-precision-check",
        "Mesa leaves it out on GC2000: it takes minutes",
    ),
    (
        "spec@!opengl 1.0@gl-1.0-blend-func",
        "Mesa's list for GC2000 has it; it takes minutes",
    ),
    ("spec@!opengl 1.1@copypixels-draw-sync", MANY_DRAWS),
    ("spec@!opengl 1.1@copypixels-sync", MANY_DRAWS),
    ("spec@!opengl 1.1@draw-copypixels-sync", MANY_DRAWS),
    ("spec@!opengl 1.1@draw-sync", MANY_DRAWS),
    (
        "spec@!opengl 1.1@max-texture-size",
        "Mesa leaves it out on GC2000: it takes all memory",
    ),
    (
        "spec@!opengl 1.1@ppgtt_memory_alignment",
        "it takes 1 GiB of memory",
    ),
    (
        "spec@!opengl 1.1@streaming-texture-leak",
        "Mesa's list for GC2000 has it; it takes minutes",
    ),
];
const MANY_DRAWS: &str = "it waits for each of 4,096 draws, for minutes";
/// Slower scripts are printed.
const LONG: Duration = Duration::from_secs(10);
/// Time limit of the whole run.
const LIMIT_OF_ALL: Duration = Duration::from_secs(8 * 3600);
/// Most scripts per process.
const MOST: usize = 500;
/// Most output lines that are kept per script.
const LINES: usize = 12;

/// The renderer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Gpu,
    /// The GPU, with GL errors disabled. Before each of several scripts the runner disables 16 attributes. If the core
    /// has fewer, it would take the resulting error for one of the program.
    Unchecked,
    Software,
}

/// A script, by its piglit name, or a program.
#[derive(Clone)]
struct Script {
    name: String,
    path: PathBuf,
    /// Arguments, for a program.
    words: Option<Vec<String>>,
}

/// The result of a script, in the words of Mesa's lists.
struct Outcome {
    status: &'static str,
    /// The last lines of output.
    detail: Vec<String>,
}

impl Outcome {
    fn is_good(&self) -> bool {
        matches!(self.status, "Pass" | "Skip")
    }
}

/// A line of `piglit-fails.csv`.
struct Known {
    test: &'static str,
    status: &'static str,
    chips: &'static str,
    reason: &'static str,
}

fn known_failures() -> Result<Vec<Known>> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(4, ',');
            let mut next = || words.next().with_context(|| format!("'{line}'"));
            Ok(Known {
                test: next()?,
                status: next()?,
                chips: next()?,
                reason: next()?,
            })
        })
        .collect()
}

/// A line of output, or the end of it.
enum Said {
    Out(String),
    Error(String),
    End,
}

fn listen(
    pipe: impl Read + Send + 'static,
    to: Sender<Said>,
    what: impl Fn(String) -> Said + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            // The receiver is gone if the process was killed.
            let _ = to.send(what(String::from_utf8_lossy(&line).into_owned()));
        }
        let _ = to.send(Said::End);
    });
}

fn start(way: Way, scripts: &[Script]) -> Result<Child> {
    let mut command = match scripts {
        [Script {
            path,
            words: Some(words),
            ..
        }] => {
            let mut command = Command::new(path);
            command.args(words);
            command
        }
        _ => {
            let mut command = Command::new(format!("{UNPACKED}/bin/shader_runner"));
            command.args(scripts.iter().map(|script| &script.path));
            command.arg("-report-subtests");
            command
        }
    };
    command
        .args(["-auto", "-fbo"])
        .env("LD_LIBRARY_PATH", format!("{UNPACKED}/lib"))
        .env("PIGLIT_PLATFORM", "surfaceless_egl")
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let is_program = scripts.iter().any(|script| script.words.is_some());
    match way {
        Way::Gpu => &mut command,
        // A program may cause GL errors on purpose.
        Way::Unchecked if is_program => &mut command,
        Way::Unchecked => command.env("MESA_NO_ERROR", "1"),
        Way::Software => command
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("GALLIUM_DRIVER", "softpipe")
            .env("DRAW_USE_LLVM", "0"),
    }
    .spawn()
    .context("shader_runner")
}

/// The result in a line, for the script that just ran, or for a program as a whole.
fn status_in(line: &str, of_program: bool) -> Option<&'static str> {
    let words = line.strip_prefix("PIGLIT: {")?;
    let (kind, rest) = words.split_once(": ")?;
    // {"subtest": {"NAME" : "pass"}} for one of several scripts, {"result": "pass" } for a single one, or one that ends
    // the process.
    let result = match kind {
        "\"subtest\"" if !of_program => rest.rsplit('"').nth(1)?,
        "\"result\"" => rest.split('"').nth(1)?,
        _ => return None,
    };
    Some(match result {
        "pass" => "Pass",
        "skip" => "Skip",
        "warn" => "Warn",
        "crash" => "Crash",
        _ => "Fail",
    })
}

/// Runs scripts in one process as long as it lives. Returns the results so far.
fn run_process(
    way: Way,
    scripts: &[Script],
    told: &mut impl FnMut(&Script, &Outcome),
) -> Result<Vec<Outcome>> {
    let mut child = start(way, scripts)?;
    let of_program = scripts.iter().any(|script| script.words.is_some());
    let limit = if of_program { LIMIT_OF_PROGRAM } else { LIMIT };
    let (to, from) = mpsc::channel();
    listen(
        child.stdout.take().context("stdout")?,
        to.clone(),
        Said::Out,
    );
    listen(child.stderr.take().context("stderr")?, to, Said::Error);
    let mut outcomes = Vec::new();
    let mut detail = Vec::new();
    let control = Control::open()?;
    let mut resets = control.counters().resets;
    let (mut ends, mut begun) = (0, false);
    let mut watch = Stopwatch::start();
    while ends < 2 {
        let mut add = |mut status, detail: &mut Vec<String>| {
            let mut detail = std::mem::take(detail);
            // A picture that an earlier script drew proves nothing for this one.
            let now = control.counters().resets;
            if std::mem::replace(&mut resets, now) != now && status == "Pass" {
                detail.push("it passed, but the GPU hung".into());
                status = "Fail";
            }
            let outcome = Outcome { status, detail };
            if let Some(script) = scripts.get(outcomes.len()) {
                told(script, &outcome);
                outcomes.push(outcome);
            }
        };
        match from.recv_timeout(Duration::from_secs(1)) {
            Ok(Said::Out(line)) => {
                if !of_program {
                    watch = Stopwatch::start();
                }
                match status_in(&line, of_program) {
                    Some(status) => add(status, &mut detail),
                    None if line.starts_with("PIGLIT TEST:") || line.trim().is_empty() => {}
                    None => detail.push(line),
                }
            }
            Ok(Said::Error(line)) => {
                begun |= line.starts_with("PIGLIT TEST:");
                if !line.starts_with("PIGLIT TEST:") {
                    detail.push(line);
                }
            }
            Ok(Said::End) => ends += 1,
            Err(RecvTimeoutError::Timeout) if watch.is_over(limit) => {
                child.kill().context("kill")?;
                add("Timeout", &mut detail);
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        detail.drain(..detail.len().saturating_sub(LINES));
    }
    let status = child.wait().context("wait")?;
    ensure!(
        begun || scripts.len() == 1 || !outcomes.is_empty(),
        "shader_runner does not start: {status}: {}",
        detail.join("\n")
    );
    // The process ended without a result for the script.
    if outcomes.is_empty()
        || status
            .signal()
            .is_some_and(|signal| signal != libc::SIGKILL)
    {
        if let Some(script) = scripts.get(outcomes.len()) {
            detail.push(status.to_string());
            let status = "Crash";
            let outcome = Outcome { status, detail };
            told(script, &outcome);
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// Runs all scripts, in as many processes as needed.
fn run_all(way: Way, scripts: &[Script], csv: &str) -> Result<Vec<Outcome>> {
    let mut file = File::create(csv).context(csv.to_string())?;
    let begin = Instant::now();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut done = 0;
    let mut last = begin;
    let mut told = |script: &Script, outcome: &Outcome| {
        // Written at once, so that an interrupted run leaves its results.
        let _ = writeln!(file, "{},{}", script.name, outcome.status);
        let took = std::mem::replace(&mut last, Instant::now()).elapsed();
        if took > LONG {
            println!("# {csv}: {} took {took:.0?}", script.name);
        }
        done += 1;
        if done % 100 == 0 {
            let took = begin.elapsed().as_secs_f32();
            println!("# {csv}: {done} of {} in {took:.0} s", scripts.len());
        }
    };
    while outcomes.len() < scripts.len() {
        let rest = &scripts[outcomes.len()..];
        // A program has its own process.
        let scripts = rest.iter().take_while(|script| script.words.is_none());
        let count = scripts.count().clamp(1, MOST);
        outcomes.extend(run_process(way, &rest[..count], &mut told)?);
    }
    println!("# {csv}: {done} scripts in {:.1?}", begin.elapsed());
    Ok(outcomes)
}

/// The scripts in a directory of the archive.
fn scripts_in(folder: &Path, name: &str, found: &mut Vec<Script>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let file = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_dir() {
            scripts_in(&path, &format!("{name}{file}@"), found)?;
        } else if let Some(script) = file.strip_suffix(".shader_test") {
            let name = format!("{name}{script}");
            let words = None;
            found.push(Script { name, path, words });
        }
    }
    Ok(())
}

/// The programs of the archive.
fn programs() -> Result<Vec<Script>> {
    let list = fs::read_to_string(Path::new(UNPACKED).join("programs")).context("programs")?;
    list.lines()
        .map(|line| {
            let (name, command) = line.split_once('\t').context("a program without a name")?;
            let mut words = command.split(' ').map(str::to_string);
            let program = words.next().context("a program without a command")?;
            Ok(Script {
                name: name.to_string(),
                path: Path::new(UNPACKED).join("bin").join(program),
                words: Some(words.collect()),
            })
        })
        .collect()
}

struct Options {
    every: usize,
    limit: usize,
    software: bool,
    galcore: bool,
    texts: Vec<String>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        every: 1,
        limit: usize::MAX,
        software: false,
        galcore: false,
        texts: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<usize> {
            let text = words.next().unwrap_or_default();
            let number = text.parse().with_context(|| format!("{word} '{text}'"))?;
            ensure!(number > 0, "{word} 0");
            Ok(number)
        };
        match word.as_str() {
            "--every" => options.every = number()?,
            "--limit" => options.limit = number()?,
            "--softpipe" => options.software = true,
            "--galcore" => options.galcore = true,
            _ if word.starts_with('-') => bail!("unknown option {word}"),
            _ => options.texts.push(word),
        }
    }
    Ok(options)
}

/// The chip's name in Mesa's lists.
fn chip() -> Result<&'static str> {
    match Control::open()?.board().context("no core")? {
        Board::Dove => Ok("gc600"),
        board => Ok(board.name()),
    }
}

/// Judges a result against the known failures.
fn judge(outcome: &Outcome, known: Option<&Known>, software: Option<&Outcome>) -> Result<()> {
    let referee = software.map_or(String::new(), |software| {
        format!("\nsoftpipe: {}", software.status)
    });
    match (outcome.is_good(), known) {
        (true, None) => Ok(()),
        (true, Some(known)) => bail!(
            "{}, and piglit-fails.csv has it: {}",
            outcome.status,
            known.reason
        ),
        (false, Some(known)) if known.status == outcome.status => Ok(()),
        (false, _) => bail!("{}: {}{referee}", outcome.status, outcome.detail.join("\n")),
    }
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = options()?;
        let known = known_failures()?;
        let packed = fs::metadata(ARCHIVE).context(ARCHIVE)?.len();
        if packed == 0 {
            return harness::skip("Debian's piglit could not be fetched: scripts/mesa says why");
        }
        harness::allow(LIMIT_OF_ALL);
        fs::create_dir_all(UNPACKED).context(UNPACKED)?;
        let unpacked = Command::new("tar")
            .args(["-xf", ARCHIVE, "-C", UNPACKED])
            .status();
        ensure!(unpacked.context("tar")?.success(), "tar -xf {ARCHIVE}");
        if options.galcore {
            // Without power management, only a hang resets the core.
            etnaviv::load_galcore(&["powerManagement=0"])?;
        } else {
            etnaviv::expect_breaches()?;
            etnaviv::load(Path::new(etnaviv::FOLDER))?;
            etnaviv::wait_for_node()?;
            etnaviv::stay_awake()?;
        }
        let chip = chip()?;
        let mut scripts = Vec::new();
        scripts_in(&Path::new(UNPACKED).join("tests"), "", &mut scripts)?;
        scripts.extend(programs()?);
        scripts.sort_by(|one, other| one.name.cmp(&other.name));
        let texts = &options.texts;
        let is_wanted = |name: &str| texts.iter().any(|text| name.contains(text));
        scripts.retain(|script| texts.is_empty() || is_wanted(&script.name));
        scripts.retain(|script| {
            let left_out = LEFT_OUT.iter().find(|(name, _)| *name == script.name);
            if let Some((name, why)) = left_out {
                println!("# {name} is left out: {why}");
            }
            left_out.is_none()
        });
        let chosen = scripts.into_iter().step_by(options.every);
        let scripts: Vec<Script> = chosen.take(options.limit).collect();
        ensure!(!scripts.is_empty(), "no script has such a name");

        let mut way = Way::Gpu;
        if chip == "gc600" {
            way = Way::Unchecked;
            // Mesa converts to whole numbers with FLOOR. A core without that instruction hangs.
            let any = ViolationKind::DrawState as u32 | gpu_control::EXPECT_ANY_NUMBER;
            Control::open()?.write(gpu_control::EXPECT_VIOLATION, any);
            // The core has no volume textures, but Mesa draws with one that has no format, both together with others
            // and alone. Programs of OpenGL use more features that the core lacks, listed in piglit-fails.csv.
            let has_programs = scripts.iter().any(|it| it.words.is_some());
            let volumes = scripts.iter().filter(|it| it.name.contains("@texture3d"));
            let number = if has_programs {
                gpu_control::EXPECT_ANY_NUMBER
            } else {
                2 * (volumes.count() as u32) << 16
            };
            if number != 0 {
                let all = ViolationKind::Unsupported as u32 | number;
                Control::open()?.write(gpu_control::EXPECT_VIOLATION, all);
            }
        }
        let draws = Control::open()?.counters().draws_3d;
        let mut outcomes = run_all(way, &scripts, "together.csv")?;
        ensure!(
            Control::open()?.counters().draws_3d != draws || outcomes.iter().all(Outcome::is_good),
            "the GPU has drawn nothing"
        );
        // An earlier script may be the cause, or a busy host: the kernel takes a GPU that waits for a processor for a
        // hang.
        for (script, outcome) in scripts.iter().zip(&mut outcomes) {
            let is_known = known.iter().any(|known| known.test == script.name);
            if !outcome.is_good() && (script.words.is_none() || !is_known) {
                let alone = run_process(Way::Gpu, std::slice::from_ref(script), &mut |_, _| ())?;
                if let Some(alone) = alone.into_iter().next() {
                    *outcome = alone;
                }
            }
        }
        let mut csv = File::create("piglit.csv").context("piglit.csv")?;
        for (script, outcome) in scripts.iter().zip(&outcomes) {
            writeln!(csv, "{},{}", script.name, outcome.status)?;
        }
        let judged = scripts.iter().zip(&outcomes);
        let doubtful: Vec<Script> = judged
            .filter(|(script, outcome)| {
                let is_known = known.iter().any(|known| known.test == script.name);
                options.software || !outcome.is_good() && !is_known && outcome.status != "Timeout"
            })
            .map(|(script, _)| script.clone())
            .collect();
        let software = run_all(Way::Software, &doubtful, "softpipe.csv")?;
        let names = doubtful.iter().map(|script| script.name.as_str());
        let software: BTreeMap<&str, &Outcome> = names.zip(&software).collect();
        let mut suite = Suite::new();
        for (script, outcome) in scripts.iter().zip(&outcomes) {
            let mut known = known.iter().filter(|known| {
                known.test == script.name && known.chips.split(' ').any(|name| name == chip)
            });
            // A test may have two known failures. One of them must match.
            let known = known.find(|known| outcome.is_good() || known.status == outcome.status);
            let software = software.get(script.name.as_str()).copied();
            let is_complete = COMPLETE.contains(&chip);
            suite.test(script.name.as_str(), move || match outcome.status {
                "Skip" if known.is_none() => harness::skip(outcome.detail.join(" ")),
                status if known.is_none() && !outcome.is_good() && !is_complete => {
                    let detail = outcome.detail.join(" ");
                    harness::skip(format!("{status}: not looked into on {chip}: {detail}"))
                }
                _ => judge(outcome, known, software),
            });
        }
        let outcome = suite.run()?;
        if options.galcore {
            Module::unload()?;
        }
        Ok(outcome)
    })
}
