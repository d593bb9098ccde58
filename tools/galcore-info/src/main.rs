// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info: shows the GPUs that galcore.ko drives, their features, and the drivers of other GPUs on the board.
//!
//! It queries the driver like any client, and reads `/sys` and `/proc/driver/gc`. It draws nothing.

mod bundle;
mod features;
mod generation;
mod library;
mod report;
mod system;

use std::fs;
use std::io;
use std::io::BufWriter;
use std::io::ErrorKind;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use bundle::Part;
use clap::Parser;
use galcore_info::ring;
use library::Library;
use report::Report;

/// Shows the GPUs that galcore.ko drives, their features, and the drivers of other GPUs on the board.
///
/// Exit status: 0 if the driver answered, the library's generation was found, the report was written, or the words
/// were printed; else 1.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Prints one line of JSON instead of text.
    #[arg(long)]
    json: bool,

    /// Writes all data for a bug report to FILE, `-` for stdout: this report, the driver's lines of the kernel log,
    /// its parameters, and its files in /proc and debugfs. Run it as root for a complete report.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = "galcore-report.txt",
        conflicts_with = "json"
    )]
    report: Option<PathBuf>,

    /// Shows which generation of the interface this vendor library uses (libGAL.so, libVIVANTE.so ...), and the line
    /// for modprobe.d to select it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "process",
        group = "of_libraries"
    )]
    library: Option<PathBuf>,

    /// The same for the libraries of a running process.
    #[arg(long, value_name = "PID", group = "of_libraries")]
    process: Option<u32>,

    /// The model of the board's core, such as GC800. It distinguishes generations whose libraries have the same
    /// version. By default the running driver is asked.
    #[arg(long, value_name = "MODEL", value_parser = model, requires = "of_libraries")]
    core: Option<u32>,

    /// Prints the words sent to the front ends, decoded: from the driver's debugfs file (root only), or from FILE
    /// with the same format, `-` for stdin.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = ring::FILE,
        conflicts_with_all = ["json", "report", "of_libraries"]
    )]
    ring: Option<PathBuf>,

    /// Limits the line to the program with this name, as in /proc/PID/comm.
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

/// Parses `GC800`.
fn model(text: &str) -> Result<u32, String> {
    let prefixes = ["GC", "gc", "0x"];
    let digits = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    let digits = digits.unwrap_or(text);
    u32::from_str_radix(digits, 16).map_err(|_| "a model is written like GC800".to_string())
}

/// Core models: the given one, or those of the driver. Empty if the driver does not answer.
fn models(options: &Options) -> Vec<u32> {
    match options.core {
        Some(model) => vec![model],
        None => Report::take().cores.iter().map(|core| core.model).collect(),
    }
}

/// The requested libraries, if any.
fn libraries(options: &Options) -> Option<Result<Vec<Library>>> {
    match (&options.library, options.process) {
        (Some(path), _) => Some(Library::read(path, &models(options)).map(|library| vec![library])),
        (None, Some(process)) => Some(Library::of_process(process, &models(options))),
        (None, None) => None,
    }
}

/// The generations of libraries, and the lines for modprobe.d.
fn text_of(options: &Options, libraries: &[Library]) -> String {
    let told: String = libraries.iter().map(ToString::to_string).collect();
    let lines = library::options(libraries, options.program.as_deref());
    format!("{told}\n# for /etc/modprobe.d/galcore.conf\n{lines}")
}

/// Writes everything to one file, and prints the names of unreadable files.
fn report_to(path: &Path, options: &Options) -> Result<()> {
    let mut parts = vec![Part::new("galcore-info", Ok(Report::take().to_string()))];
    if let Some(libraries) = libraries(options) {
        let text = libraries.map(|libraries| text_of(options, &libraries));
        let text = text.map_err(|error| io::Error::other(format!("{error:#}")));
        parts.push(Part::new("the library", text));
    }
    parts.extend(bundle::kernel(Path::new("/")));
    let text: String = parts.iter().map(ToString::to_string).collect();
    if path == Path::new("-") {
        io::stdout().write_all(text.as_bytes())?
    } else {
        fs::write(path, text).with_context(|| path.display().to_string())?
    }
    let problems = || parts.iter().filter_map(Part::problem);
    for (name, error) in problems() {
        eprintln!("galcore-info: not in the report: {name}: {error}");
    }
    if problems().any(|(_, error)| error.kind() == ErrorKind::PermissionDenied) {
        eprintln!("galcore-info: run it as root to have all of it");
    }
    if path != Path::new("-") {
        eprintln!("galcore-info: the report is in {}", path.display());
    }
    Ok(())
}

/// Prints the decoded words of the ring.
fn show_ring(path: &Path) -> Result<()> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    let name = || path.display().to_string();
    let jobs = ring::parse(&text.with_context(name)?).with_context(name)?;
    let mut out = BufWriter::new(io::stdout().lock());
    for job in jobs {
        write!(out, "{job}")?;
    }
    Ok(out.flush()?)
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(path) = &options.ring {
        return show_ring(path).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &options.report {
        return report_to(path, &options).map(|()| ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    if let Some(libraries) = libraries(&options) {
        let libraries = libraries?;
        if options.json {
            writeln!(out, "{}", serde_json::to_string(&libraries)?)?
        } else {
            write!(out, "{}", text_of(&options, &libraries))?
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::take();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?
    } else {
        write!(out, "{report}")?
    }
    Ok(match report.problem {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}
