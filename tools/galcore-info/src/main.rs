// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info: what GPUs galcore.ko has, what they can do, and who has those that it has not.
//!
//! Asks the driver as any client does, and reads `/sys` and `/proc/driver/gc`. It draws nothing.

mod features;
mod generation;
mod library;
mod report;
mod system;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use library::Library;
use report::Report;

/// Shows what GPUs galcore.ko has, what they can do, and who has those that it has not.
///
/// Exit status: 0 if the driver has answered, or the library could be told, else 1.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Prints one line of JSON instead of text.
    #[arg(long)]
    json: bool,

    /// Tells instead which generation of the interface this library of the vendor's speaks (libGAL.so, libVIVANTE.so
    /// ...), and the line of modprobe.d that says so.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "process",
        group = "of_libraries"
    )]
    library: Option<PathBuf>,

    /// The same of the libraries that a running process has.
    #[arg(long, value_name = "PID", group = "of_libraries")]
    process: Option<u32>,

    /// The model of the board's core, such as GC800: it decides between generations whose libraries have the same
    /// version. By default the running driver is asked.
    #[arg(long, value_name = "MODEL", value_parser = model, requires = "of_libraries")]
    core: Option<u32>,

    /// The line is for the program of this name alone, as in /proc/PID/comm.
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

/// Reads `GC800`.
fn model(text: &str) -> Result<u32, String> {
    let prefixes = ["GC", "gc", "0x"];
    let digits = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    let digits = digits.unwrap_or(text);
    u32::from_str_radix(digits, 16).map_err(|_| "a model is written like GC800".to_string())
}

/// Models of the cores: the one that is named, or what the driver has; none if it does not answer.
fn models(options: &Options) -> Vec<u32> {
    match options.core {
        Some(model) => vec![model],
        None => Report::take().cores.iter().map(|core| core.model).collect(),
    }
}

/// Tells which generation libraries speak.
fn libraries(options: &Options, libraries: &[Library]) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(libraries)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for library in libraries {
        write!(out, "{library}")?;
    }
    writeln!(out, "\n# for /etc/modprobe.d/galcore.conf")?;
    let lines = library::options(libraries, options.program.as_deref());
    write!(out, "{lines}")?;
    Ok(ExitCode::SUCCESS)
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(path) = &options.library {
        return libraries(&options, &[Library::read(path, &models(&options))?]);
    }
    if let Some(process) = options.process {
        return libraries(&options, &Library::of_process(process, &models(&options))?);
    }
    let report = Report::take();
    let mut out = std::io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        false => write!(out, "{report}")?,
    }
    Ok(match report.problem {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}
