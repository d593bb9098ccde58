// SPDX-License-Identifier: GPL-2.0-only
//! Measures the cost of the driver's operations on the virtual board: `make bench` runs it there.
//!
//! With `-icount` it counts retired instructions; otherwise it measures time. The results are in `results.json` of
//! the current folder, and progress messages on stderr.

mod counter;
mod etnaviv;
mod meter;
mod operations;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use lexopt::prelude::*;
use serde::Serialize;

use meter::Cost;
use meter::Meter;

/// File for the results.
const RESULTS: &str = "results.json";

/// File for the kernel's symbols, for a profile.
const SYMBOLS: &str = "kallsyms";

/// The results.
#[derive(Serialize)]
struct Results {
    galcore: Vec<Cost>,
    etnaviv: Vec<Cost>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("galcore-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut quick = false;
    let mut profile = false;
    let mut only = None;
    let mut peer = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("echo") => return operations::echo(),
            Long("client") => return operations::client(),
            Long("quick") => quick = true,
            Long("profile") => profile = true,
            Long("peer") => peer = Some(PathBuf::from(parser.value()?)),
            Long("only") => only = Some(parser.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let mut meter = Meter::new(quick, profile, only)?;
    operations::all(&mut meter)?;
    if peer.is_some() {
        eprintln!("galcore's node of etnaviv's interface");
        etnaviv::ours(&mut meter)?;
    }
    if profile {
        std::fs::copy("/proc/kallsyms", SYMBOLS).context(SYMBOLS)?;
        return Ok(());
    }
    let galcore = std::mem::take(&mut meter.costs);
    if let Some(modules) = peer {
        eprintln!("the same of etnaviv");
        etnaviv::all(&mut meter, &modules)?;
    }
    let results = Results {
        galcore,
        etnaviv: meter.costs,
    };
    let text = serde_json::to_string_pretty(&results)?;
    std::fs::write(RESULTS, text).context(RESULTS)
}
