// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info: what GPUs galcore.ko has, what they can do, and who has those that it has not.
//!
//! Asks the driver as any client does, and reads `/sys` and `/proc/driver/gc`. It draws nothing.

mod features;
mod report;
mod system;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use report::Report;

/// Shows what GPUs galcore.ko has, what they can do, and who has those that it has not.
///
/// Exit status: 0 if the driver has answered, else 1.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Prints one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
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
