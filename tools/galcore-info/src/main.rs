// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info: what GPUs galcore.ko has, what they can do, and who has those that it has not.
//!
//! Asks the driver as any client does, and reads `/sys` and `/proc/driver/gc`. It draws nothing.

mod features;
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
    #[arg(long, value_name = "FILE", conflicts_with = "process")]
    library: Option<PathBuf>,

    /// The same of the libraries that a running process has.
    #[arg(long, value_name = "PID")]
    process: Option<u32>,

    /// The line is for the program of this name alone, as in /proc/PID/comm.
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
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
    // A process's libraries are of one version, or it would not run.
    if let Some(library) = libraries.first() {
        writeln!(out, "\n# for /etc/modprobe.d/galcore.conf")?;
        writeln!(out, "{}", library.options(options.program.as_deref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(path) = &options.library {
        return libraries(&options, &[Library::read(path)?]);
    }
    if let Some(process) = options.process {
        return libraries(&options, &Library::of_process(process)?);
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
